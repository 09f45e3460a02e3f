//! Making a new replica of what a remote holds.
//!
//! The new file is built under a temporary name beside its target and gets its own name last, so a
//! clone that is killed leaves nothing that looks like a replica. What it leaves the next one removes.

use super::fetch::{Fetched, fetch, open_snapshot};
use super::{Outcome, Remote, Result, Session, SyncError, Waiting};
use crate::Access;
use std::path::{Path, PathBuf};
use synqlite_core::{Aside, Kept, Phase, Replica, Synced};
use synqlite_objects::files::{Temp, folder_of, remove_leftovers, sync_dir};
use synqlite_objects::peek_snapshot;
use synqlite_objects::{Ask, Kind, Put, Store, only_database};
use synqlite_wire::SiteId;

/// What a path may have in bytes: SQLite takes 512, of which its journals' names need some.
const LONGEST_PATH: usize = 503;
/// So many has the name under which a clone is built.
const TEMPORARY_NAME: usize = 40;

/// A new replica.
#[derive(Clone, Debug)]
pub struct Cloned {
    /// Its site id.
    pub site: SiteId,
    /// Rows that it shows.
    pub rows: i64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Batches that cannot be merged yet.
    pub waiting: Vec<Waiting>,
    /// What the new replica lacks since it cannot be merged: damaged, forged, or of a time that has not come.
    pub aside: Vec<Aside>,
    /// What came for tables and columns that the new replica has not: its schema is as old as what it was made of.
    pub kept: Vec<Kept>,
}

impl Remote {
    /// Makes `target` a replica of what the remote holds, with a site id of its own, and remembers
    /// the remote as `origin`. [`SyncError::Exists`] if there is such a file, [`SyncError::NoFile`] if SQLite would
    /// take it for something else.
    pub fn clone_to(&self, target: &Path, session: &Session) -> Result<Cloned> {
        self.clone_with(target, &Access::default(), session)
    }

    /// [`Remote::clone_to`] that also remembers what it takes to use the remote.
    pub fn clone_with(&self, target: &Path, access: &Access, session: &Session) -> Result<Cloned> {
        refuse_misleading(target)?;
        refuse_existing(target)?;
        remove_leftovers(folder_of(target));
        let temp = Temp::beside(target)?;
        let built = temp.path().to_owned();
        let cloned = self.clone_by(temp, target, access, session);
        cloned.map_err(|e| e.of_target(&built, target))
    }

    fn clone_by(
        &self,
        temp: Temp,
        target: &Path,
        access: &Access,
        session: &Session,
    ) -> Result<Cloned> {
        let mut copy = self.copy_into(temp.path(), session)?;
        access.add(&mut copy, "origin", &self.url())?;
        let theirs = copy.seen()?;
        copy.note_synced(&self.url(), &Synced { pulled: true, theirs, ..Synced::default() })?;
        let Outcome { waiting, aside, .. } = match self {
            Remote::Store { .. } => self.pull(&mut copy, session)?,
            Remote::Replica(_) => Outcome::default(),
        };
        let (site, rows, kept) = (copy.site(), copy.count_rows()?, copy.status()?.kept);
        // SQLite writes what it kept beside the file into it, and the file is whole.
        drop(copy);
        let bytes = std::fs::metadata(temp.path()).map_or(0, |file| file.len());
        refuse_existing(target)?;
        if access.token.is_none() {
            temp.share()?;
        }
        match temp.publish(target, |from, to| std::fs::hard_link(from, to))? {
            Put::Created => sync_dir(folder_of(target))?,
            Put::AlreadyThere => return Err(SyncError::Exists(target.to_owned())),
        }
        Ok(Cloned { site, rows, bytes, waiting, aside, kept })
    }

    /// A new site in the file `to`: a copy of the other replica, or the newest snapshot of a store.
    pub(super) fn copy_into(&self, to: &Path, session: &Session) -> Result<Replica> {
        match self {
            Remote::Replica(path) => {
                let mut source = Replica::open(path, session.env.clone())?;
                source.copy_to(to)?;
                source.tell()?;
            }
            Remote::Store { store, .. } => fetch_newest(&**store, to, session)?,
        }
        Ok(Replica::open_copy(to, session.env.clone())?.become_site()?)
    }
}

/// Refuses a target that exists, and one beside which SQLite would find the journal of another
/// database that had that name.
/// Programs would not find the replica under such a path, or could not open it.
fn refuse_misleading(target: &Path) -> Result<()> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    if name.is_empty() || name == ":memory:" {
        return Err(SyncError::NoFile(target.to_owned()));
    }
    let folder = std::path::absolute(folder_of(target)).unwrap_or_default();
    let bytes = folder.as_os_str().len() + 1 + name.len().max(TEMPORARY_NAME);
    match cfg!(unix) && bytes > LONGEST_PATH {
        true => Err(SyncError::LongPath(target.to_owned())),
        false => Ok(()),
    }
}

fn refuse_existing(target: &Path) -> Result<()> {
    for suffix in ["", "-journal", "-wal"] {
        let mut name = target.as_os_str().to_owned();
        name.push(suffix);
        let file = PathBuf::from(name);
        if file.symlink_metadata().is_ok() {
            return Err(SyncError::Exists(file));
        }
    }
    Ok(())
}

/// Fetches the newest snapshot that is whole.
fn fetch_newest(store: &dyn Store, to: &Path, session: &Session) -> Result<()> {
    let database = only_database(store)?;
    let mut failure: Option<SyncError> = None;
    let mut found = Vec::new();
    let ask = Ask { database, after: None, prefix: 0, site: None, name: "" };
    session.env.begin(Phase::List);
    for seen in store.changes(ask)?.found {
        let entry = seen.entry;
        if entry.name.kind != Kind::Snapshot {
            continue;
        }
        match peek_snapshot(store, &entry.name) {
            Ok(header) => found.push((header.vector.latest(), entry)),
            Err(e) => failure = Some(e.into()),
        }
    }
    found.sort();
    for (_, entry) in found.into_iter().rev() {
        let mut fetched = Fetched::new(session, entry.size);
        match fetch(store, &entry.name, to, &mut fetched) {
            Ok(_) => {}
            Err(e) => {
                failure = Some(e.into());
                continue;
            }
        }
        // Its checksums say that these are the bytes which somebody put, not that they are a replica.
        match open_snapshot(to, &entry.name, session.env.clone()) {
            Ok(_) => return Ok(()),
            Err(e) => failure = Some(e),
        }
    }
    let nothing = || synqlite_objects::Error::NoDatabase { address: store.address() }.into();
    Err(failure.unwrap_or_else(nothing))
}
