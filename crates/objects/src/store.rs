//! The promise every remote store keeps.
//!
//! Narrow on purpose, so that a folder, a hub and a bucket can all keep it: objects are whole or
//! absent, never change and are never empty; whoever puts first wins.

use crate::error::{Error, Result};
pub use crate::files::Put;
use crate::files::{CopyError, Temp, copy};
use crate::name::{Kind, ObjectName};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;
use synqlite_wire::{DatabaseId, Id, SiteId};

/// An object that a store holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry {
    /// Its name.
    pub name: ObjectName,
    /// Its length in bytes, more than 0.
    pub size: u64,
}

/// How far somebody has read a store that numbers its objects in the order of their arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// Names the order; sequences of another epoch mean nothing.
    pub epoch: Id,
    /// Everything up to this sequence is known.
    pub sequence: u64,
}

/// What to tell of a database.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The database.
    pub database: DatabaseId,
    /// Only what came after; everything if the store has no such order, or another one.
    pub after: Option<Cursor>,
    /// Objects of at most so many bytes whole, and the beginning of longer ones, where they cost
    /// nothing more.
    pub prefix: u64,
    /// The site that asks, and has everything up to `after`.
    pub site: Option<SiteId>,
    /// What people call that site, for whoever looks after the store; empty if nobody is to know.
    pub name: &'a str,
}

/// An object that a store holds, as [`Store::changes`] tells of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Found {
    /// Its name and length.
    pub entry: Entry,
    /// Its first bytes, as far as they came along.
    pub prefix: Vec<u8>,
}

/// What a store holds of a database.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Objects: in the order in which the store took them if it numbers them, else of their names.
    pub found: Vec<Found>,
    /// Up to where this is complete; `None` if the store has no order.
    pub cursor: Option<Cursor>,
    /// Whether these are only the objects after what was asked for.
    pub resumed: bool,
    /// What the store has where they go on from.
    pub mark: Mark,
    /// What that object begins with, and the one at the cursor.
    pub prints: [Option<Fingerprint>; 2],
}

/// A hash of what an object begins with. Two may have one name, where a store was put back together with the site
/// that had put the first.
pub type Fingerprint = [u8; 8];

/// What a store that numbers its objects has at a cursor. One that was put back to an older copy goes on
/// under the same epoch, and has something else there, or nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mark {
    /// It does not say, or it is no object of the database.
    #[default]
    Untold,
    /// Nothing; also if a snapshot covered what was there.
    Nothing,
    /// This object.
    Object(ObjectName),
}

/// Told how much of a file has been put: bytes done, and their total.
pub type Step<'a> = &'a mut dyn FnMut(u64, u64);

/// Says of the first bytes of an object how many it has to have, unless they say something else.
pub type Least<'a> = &'a dyn Fn(&[u8]) -> Option<u64>;

/// What tells a key from others, and says nothing of it.
pub type KeyId = [u8; 8];

/// A store where sites that never meet exchange objects.
///
/// Any number of processes and machines may use one store at once. A process that dies within a put
/// leaves either the whole object or none. A store does not vouch for content: readers verify it.
pub trait Store: Send + Sync {
    /// The store, for messages.
    fn address(&self) -> String;

    /// Which key seals the objects; zeros if they are in the open.
    fn key_id(&self) -> KeyId {
        KeyId::default()
    }

    /// The name under which the store keeps an object, where people find it.
    fn kept_as(&self, name: &ObjectName) -> ObjectName {
        *name
    }

    /// Whether an object that does not open may not have arrived in full. `least` says of its first
    /// bytes, for which nothing vouches, how many it has to have.
    fn is_cut(&self, name: &ObjectName, least: Least<'_>) -> Result<bool> {
        let _ = (name, least);
        Ok(false)
    }

    /// Databases of which the store holds at least one object, in order.
    fn databases(&self) -> Result<Vec<DatabaseId>>;

    /// Objects of one kind of a database, in order of their names; none if the database is absent.
    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>>;

    /// Streams an object. [`Error::NotFound`] if it is absent.
    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>>;

    /// Puts a small object unless one of that name is there.
    /// [`Error::EmptyObject`] if there are no bytes.
    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<Put>;

    /// [`Store::put_if_absent`] with the content of a file, of any length, in constant memory.
    ///
    /// `covers` says of a snapshot that it contains everything of the store up to there. A store
    /// that retires objects may then do so, as soon as nobody needs them.
    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        covers: Option<Cursor>,
        step: Step<'_>,
    ) -> Result<Put>;

    /// What the store holds of a database; nothing if it is empty.
    /// [`Error::DatabaseMismatch`] if it holds others only.
    fn changes(&self, ask: Ask<'_>) -> Result<Changes> {
        let mut found = Vec::new();
        for kind in Kind::ALL {
            let entries = self.list(ask.database, kind)?.into_iter();
            found.extend(entries.map(|entry| Found { entry, prefix: Vec::new() }));
        }
        if found.is_empty() {
            find_database(self, ask.database)?;
        }
        Ok(Changes { found, ..Changes::default() })
    }

    /// Where the store stands, as soon as that is beyond `after`, or after some time up to
    /// `at_most`. `None` at once if it wakes nobody.
    fn wait(&self, after: Option<Cursor>, at_most: Duration) -> Result<Option<Cursor>> {
        let _ = (after, at_most);
        Ok(None)
    }

    /// Streams an object from the byte `from` on.
    fn open_from(&self, name: &ObjectName, from: u64) -> Result<Box<dyn Read + Send>> {
        let mut source = self.open(name)?;
        io::copy(&mut source.by_ref().take(from), &mut io::sink()).map_err(Error::read(name))?;
        Ok(source)
    }

    /// All bytes of an object. [`Error::NotFound`] if it is absent.
    fn read(&self, name: &ObjectName) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.open(name)?.read_to_end(&mut bytes);
        read.map_err(Error::read(name))?;
        Ok(bytes)
    }

    /// The first `max` bytes of an object, all of them if it is shorter.
    fn read_prefix(&self, name: &ObjectName, max: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut source = self.open(name)?.take(max);
        source.read_to_end(&mut bytes).map_err(Error::read(name))?;
        Ok(bytes)
    }

    /// Copies an object to the file `to`, in constant memory, replacing one that is there. On
    /// failure `to` is as it was.
    fn fetch_to(&self, name: &ObjectName, to: &Path) -> Result<()> {
        let mut source = self.open(name)?;
        let mut temp = Temp::beside(to)?;
        copy(&mut source, temp.file(), u64::MAX).map_err(|e| match e {
            CopyError::Read(e) => Error::read(name)(e),
            CopyError::Write(e) => Error::io("write", to)(e),
        })?;
        temp.replace(to)
    }
}

/// The database of a store that holds exactly one: what a clone is made of.
/// [`Error::NoDatabase`] or [`Error::SeveralDatabases`] otherwise.
pub fn only_database(store: &(impl Store + ?Sized)) -> Result<DatabaseId> {
    let found = store.databases()?;
    match found.as_slice() {
        [] => Err(Error::NoDatabase { address: store.address() }),
        [database] => Ok(*database),
        _ => Err(Error::SeveralDatabases { address: store.address(), found }),
    }
}

/// Whether the store holds `database`; `false` if it holds none yet. A store that holds only others
/// is most likely not the one meant: [`Error::DatabaseMismatch`].
pub fn find_database(store: &(impl Store + ?Sized), database: DatabaseId) -> Result<bool> {
    let found = store.databases()?;
    if found.contains(&database) {
        return Ok(true);
    }
    if found.is_empty() {
        return Ok(false);
    }
    Err(Error::DatabaseMismatch { address: store.address(), expected: database, found })
}
