//! Synchronization of a replica with a remote: push, pull and clone.
//!
//! A [`Remote`] is the path of another replica, opened directly, or a place of exchange for sites
//! that never meet. Every operation may be interrupted at any point and repeated: a replica changes
//! in single transactions, a place only gains whole objects, and what arrived twice is joined once.

mod clone;
mod error;
mod folder;
mod heads;
mod replica;

pub use clone::Cloned;
pub use error::SyncError;

use std::path::PathBuf;
use std::sync::Arc;
use synqlite_core::merge::Merged;
use synqlite_core::{Direction, Environment, Replica};
use synqlite_objects::Folder;
use synqlite_objects::Store;
use synqlite_wire::{Delta, VersionVector};

/// Result of synchronization.
pub type Result<T, E = SyncError> = std::result::Result<T, E>;

/// Where changes go to and come from.
#[derive(Clone, Debug)]
pub enum Remote {
    /// Another replica on this machine.
    Replica(PathBuf),
    /// A folder of batches and snapshots, with its URL.
    Folder(Folder, String),
}

/// How to synchronize.
pub struct Session<'a> {
    /// Time, randomness and the identity of files.
    pub env: Arc<dyn Environment>,
    /// Merge changes that are stamped far ahead of this machine's clock (R-SKEW).
    pub force: bool,
    /// Told of work that takes a while.
    pub progress: &'a mut dyn Progress,
}

/// Watches work that takes a while.
pub trait Progress {
    /// `done` of `total` units of `what` are through.
    fn step(&mut self, what: &'static str, done: u64, total: u64);
}

/// Nobody watches.
impl Progress for () {
    fn step(&mut self, _: &'static str, _: u64, _: u64) {}
}

/// What crossed in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Changed rows.
    pub rows: u64,
    /// Registers of columns or groups of columns.
    pub columns: u64,
    /// Bytes: of the objects put or read, or of the values and keys handed to another replica.
    pub bytes: u64,
}

/// What a push or a pull did.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What went to the remote.
    pub sent: Traffic,
    /// What came from it.
    pub received: Traffic,
    /// What the merge changed here.
    pub merged: Merged,
    /// Batches that cannot be merged yet.
    pub waiting: Vec<Waiting>,
}

/// A batch that cannot be merged yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: &'static str,
}

impl Traffic {
    fn of(delta: &Delta, bytes: u64) -> Traffic {
        let columns = delta.rows.iter().map(|row| row.registers.len() as u64).sum();
        Traffic { rows: delta.rows.len() as u64, columns, bytes }
    }

    fn add(&mut self, other: Traffic) {
        self.rows += other.rows;
        self.columns += other.columns;
        self.bytes += other.bytes;
    }
}

impl Outcome {
    /// Adds what a later push or pull did.
    pub fn add(&mut self, other: Outcome) {
        self.sent.add(other.sent);
        self.received.add(other.received);
        self.merged.add(other.merged);
        self.waiting = other.waiting;
    }
}

impl Remote {
    /// Reads what a user calls a remote: a path, or a `file:///dir/` URL.
    pub fn parse(text: &str) -> Result<Remote> {
        match text.split_once(':') {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("file") => {
                Ok(Remote::Folder(Folder::from_url(text)?, text.to_owned()))
            }
            Some((scheme, rest)) if rest.starts_with("//") => {
                let (url, scheme) = (text.to_owned(), scheme.to_owned());
                Err(SyncError::Scheme { url, scheme })
            }
            _ => {
                let path = std::path::absolute(text).unwrap_or_else(|_| text.into());
                if path.is_dir() {
                    return Err(SyncError::IsFolder(path));
                }
                Ok(Remote::Replica(path))
            }
        }
    }

    /// What [`Remote::parse`] reads back, wherever the process runs.
    pub fn url(&self) -> String {
        match self {
            Remote::Replica(path) => path.display().to_string(),
            Remote::Folder(_, url) => url.clone(),
        }
    }

    /// Ships what the remote lacks.
    pub fn push(&self, mine: &mut Replica, session: &mut Session<'_>) -> Result<Outcome> {
        let (outcome, there) = match self {
            Remote::Replica(path) => replica::push(mine, path, session)?,
            Remote::Folder(folder, url) => folder::push(mine, folder, url, session)?,
        };
        mine.note_synced(&self.url(), Direction::Push, &there)?;
        Ok(outcome)
    }

    /// Fetches and merges what `mine` lacks.
    pub fn pull(&self, mine: &mut Replica, session: &mut Session<'_>) -> Result<Outcome> {
        let (outcome, there) = match self {
            Remote::Replica(path) => replica::pull(mine, path, session)?,
            Remote::Folder(folder, _) => folder::pull(mine, folder, session)?,
        };
        mine.note_synced(&self.url(), Direction::Pull, &there)?;
        Ok(outcome)
    }

    /// A pull, then a push. A place to which nobody has pushed yet is no failure.
    pub fn sync(&self, mine: &mut Replica, session: &mut Session<'_>) -> Result<Outcome> {
        let mut outcome = match self.pull(mine, session) {
            Err(SyncError::Store(synqlite_objects::Error::NoDatabase { .. })) => Outcome::default(),
            pulled => pulled?,
        };
        let pushed = self.push(mine, session)?;
        outcome.add(Outcome { waiting: outcome.waiting.clone(), ..pushed });
        Ok(outcome)
    }
}

/// A remote that has later changes of this very site than the replica itself: one of the two was
/// restored from an older copy, and its site id is spent.
fn refuse_restored(mine: &Replica, seen: &VersionVector, there: &VersionVector) -> Result<()> {
    let site = mine.site();
    if there.get(site) > seen.get(site) {
        return Err(SyncError::Restored { path: mine.path().to_owned(), site });
    }
    Ok(())
}

/// The place, for messages about one of its objects.
fn place(store: &dyn Store) -> String {
    store.place()
}
