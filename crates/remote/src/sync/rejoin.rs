//! Making a database a replica again whose metadata is lost, from a remote that still knows it.

use super::{Remote, Result, Session};
use crate::Access;
use std::path::Path;
use synqlite_core::{Error, InitOptions, Rejoined, Replica};
use synqlite_objects::files::{Temp, folder_of, remove_leftovers};

impl Remote {
    /// Makes `target` a replica of what the remote holds, with a site id of its own, keeps the rows
    /// that it has, and remembers the remote as `origin`. See [`Replica::rejoin`].
    ///
    /// What the remote holds lies beside it for a while, as a clone that gets no name.
    pub fn rejoin(
        &self,
        target: &Path,
        access: &Access,
        options: &InitOptions,
        session: &Session,
    ) -> Result<Rejoined> {
        if !target.exists() {
            return Err(Error::NoDatabase(target.display().to_string()).into());
        }
        remove_leftovers(folder_of(target));
        let temp = Temp::beside(target)?;
        let mut source = self.copy_into(temp.path(), session)?;
        if let Remote::Store { .. } = self {
            self.pull(&mut source, session)?;
        }
        let (env, force) = (session.env.clone(), session.force);
        let rejoined = Replica::rejoin(target, &mut source, options, force, env)?;
        let mut replica = Replica::open(target, session.env.clone())?;
        access.add(&mut replica, "origin", &self.url())?;
        Ok(rejoined)
    }
}
