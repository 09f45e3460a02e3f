//! A store that counts what is put into it.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use synqlite_objects::{Ask, Changes, Cursor, Entry, Kind, ObjectName, Put, Result, Step, Store};
use synqlite_wire::DatabaseId;

/// What a batch has besides its packed body and its header: signature, format, length of the
/// header, two checksums.
const FRAME: u64 = 46;

/// A store in front of another.
pub struct Counted {
    inner: Arc<dyn Store>,
    batches: AtomicU64,
    content: AtomicU64,
    snapshots: AtomicU64,
}

impl Counted {
    /// In front of `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Counted {
        let zero = AtomicU64::default;
        Counted { inner, batches: zero(), content: zero(), snapshots: zero() }
    }

    /// Batches that were put.
    pub fn batches(&self) -> u64 {
        self.batches.load(Relaxed)
    }

    /// Bytes of their packed bodies.
    pub fn content(&self) -> u64 {
        self.content.load(Relaxed)
    }

    /// Bytes of snapshots that were put.
    pub fn snapshots(&self) -> u64 {
        self.snapshots.load(Relaxed)
    }
}

impl Store for Counted {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn databases(&self) -> Result<Vec<DatabaseId>> {
        self.inner.databases()
    }

    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>> {
        self.inner.list(database, kind)
    }

    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>> {
        self.inner.open(name)
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<Put> {
        let put = self.inner.put_if_absent(name, bytes)?;
        if put == Put::Created
            && let Some(length) = bytes.get(10..).and_then(|rest| rest.first_chunk())
        {
            let header = u64::from(u32::from_le_bytes(*length));
            self.batches.fetch_add(1, Relaxed);
            self.content.fetch_add((bytes.len() as u64).saturating_sub(FRAME + header), Relaxed);
        }
        Ok(put)
    }

    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        covers: Option<Cursor>,
        step: Step<'_>,
    ) -> Result<Put> {
        let length = std::fs::metadata(file).map_or(0, |file| file.len());
        let put = self.inner.put_file_if_absent(name, file, covers, step)?;
        if put == Put::Created {
            self.snapshots.fetch_add(length, Relaxed);
        }
        Ok(put)
    }

    fn changes(&self, ask: Ask) -> Result<Changes> {
        self.inner.changes(ask)
    }

    fn wait(&self, after: Option<Cursor>, at_most: Duration) -> Result<Option<Cursor>> {
        self.inner.wait(after, at_most)
    }

    fn open_from(&self, name: &ObjectName, from: u64) -> Result<Box<dyn Read + Send>> {
        self.inner.open_from(name, from)
    }

    fn read(&self, name: &ObjectName) -> Result<Vec<u8>> {
        self.inner.read(name)
    }

    fn read_prefix(&self, name: &ObjectName, max: u64) -> Result<Vec<u8>> {
        self.inner.read_prefix(name, max)
    }

    fn fetch_to(&self, name: &ObjectName, to: &Path) -> Result<()> {
        self.inner.fetch_to(name, to)
    }
}
