//! A SynQLite replica: the engine under test.

use super::Folder;
use crate::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

/// Makes the database a replica. Folds run on a connection of the engine's own, which is opened
/// with the first of them and has SQLite's default settings, as every program's has that
/// synchronizes a replica.
pub fn attach(path: &Path) -> Result<impl Folder + use<>> {
    Replica::init(path, &InitOptions::default(), Arc::new(System))?;
    Ok(Opened { path: path.to_owned(), replica: None })
}

struct Opened {
    path: PathBuf,
    replica: Option<Replica>,
}

impl Folder for Opened {
    fn fold(&mut self) -> Result<u64> {
        let replica = match &mut self.replica {
            Some(replica) => replica,
            none => none.insert(Replica::open(&self.path, Arc::new(System))?),
        };
        let folded = replica.fold()?;
        Ok(folded.rows)
    }

    fn close(&mut self) {
        self.replica = None;
    }
}
