//! What SQLite need not ask the file system: whether another program left a rollback journal or a
//! write-ahead log. It asks for both in each transaction, and deletes a journal that it had in
//! memory.
//!
//! Once there was none, there is none. A program makes a journal only after it has locked the
//! RESERVED byte of the file that it opened, and each connection here holds that byte of both files
//! for reading, from before it looks until it closes them. For the same reason no program takes a
//! journal for one that is to be played back, and none changes to a log.
//!
//! SQLite asks by name, and the name tells not which connection asks: while one has a database open,
//! somebody may put another in its place, whose journal is none of its business. The address of the
//! name tells it. SQLite keeps the names of a journal and a log in one piece of memory with the
//! database's, until that is closed. Who asks with a copy of a name is answered by the file system.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether nobody else left a journal or a log beside a database, and nobody can.
#[derive(Debug, Clone, Default)]
pub(crate) struct Quiet(Arc<AtomicBool>);

impl Quiet {
    /// Notes it.
    pub(crate) fn set(&self, quiet: bool) {
        self.0.store(quiet, Ordering::Release);
    }
}

/// The databases that are open, by the addresses of the names of their journals and logs.
#[derive(Debug, Default)]
pub(crate) struct Asked(Mutex<HashMap<usize, Quiet>>);

impl Asked {
    /// From now on the two names are those of an open database.
    pub(crate) fn open(&self, names: [usize; 2], quiet: &Quiet) {
        self.names().extend(names.map(|name| (name, quiet.clone())));
    }

    /// The memory of the two names will be used for something else.
    pub(crate) fn close(&self, names: [usize; 2]) {
        let mut known = self.names();
        names.iter().for_each(|name| drop(known.remove(name)));
    }

    /// Whether there is no file of the name at this address.
    pub(crate) fn is_absent(&self, name: usize) -> bool {
        self.names().get(&name).is_some_and(|quiet| quiet.0.load(Ordering::Acquire))
    }

    fn names(&self) -> MutexGuard<'_, HashMap<usize, Quiet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
