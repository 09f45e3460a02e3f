//! Another file takes the place of a replica that is watched: a backup that somebody moved there, or wrote over it.

use crate::{Restored, Session, SyncError};
use std::path::Path;
use std::time::Duration;
use synqlite_core::{Error, InitOptions, Replica};

/// For so long there may be no replica of the database at the path: whoever replaces it may not be done yet.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Goes on with the replica that is at the path now. A copy becomes a site of its own, as one does that is
/// written over the file and lacks what its site had sent.
pub(super) fn take(
    replica: &mut Replica,
    session: &Session,
) -> Result<Option<Restored>, SyncError> {
    let (path, env) = (replica.path().to_owned(), session.env.clone());
    // Before the same file is opened once more: within a program SQLite would go on with what it has open of it.
    replica.let_go()?;
    if !path.exists() {
        return Err(Error::Moved(path.display().to_string()).into());
    }
    let found = Replica::open_copy(&path, env.clone())?;
    if found.database() != replica.database() {
        let (ours, theirs) = (replica.database(), found.database());
        return Err(Error::Unrelated { ours, theirs }.into());
    }
    let (former, name) = (found.site(), found.name()?);
    drop(found);
    let (opened, restored) = match Replica::open(&path, env) {
        Err(Error::Copied { .. }) => {
            let own = of_its_own(&path, &name, session)?;
            let site = own.site();
            (own, Some(Restored { path, former, site }))
        }
        opened => (opened?, None),
    };
    *replica = opened;
    Ok(restored)
}

fn of_its_own(path: &Path, name: &str, session: &Session) -> Result<Replica, Error> {
    let options = InitOptions { new_site: true, ..InitOptions::default() };
    Replica::init(path, &options, session.env.clone())?;
    let mut replica = Replica::open(path, session.env.clone())?;
    // It is the same place as before, so people know it by the same name.
    if !name.is_empty() {
        replica.set_name(name)?;
    }
    Ok(replica)
}
