//! `vfs=dash`, counted, and made to die in the middle of a commit.
//!
//! What its protocols do to files is counted where [`crate::vfs`] counts what SQLite's own file
//! system does. Reads are not among it: they go to the files directly.

use crate::vfs::{self, count};
use crate::{Error, Result};
use rusqlite::ffi;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering::Relaxed};
use synqlite_dash::disk::{Disk, Handle, Kind, Machine, Open, Sync};

/// Makes `vfs=dash` known to this process, with every operation counted.
pub fn install() -> Result<()> {
    synqlite_dash::register_as(synqlite_dash::NAME, Arc::new(Counted))
        .map_err(|code| Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)))
}

/// Operations that are still done; none of them once it is 0, all of them while it is negative.
static LEFT: AtomicI64 = AtomicI64::new(-1);
/// How often the machine was started, as far as the file system can tell.
static STARTS: AtomicU8 = AtomicU8::new(0);

/// After so many more operations nothing reaches the files any more.
pub fn die_after(operations: u32) {
    LEFT.store(operations.into(), Relaxed);
}

/// Ends that; what opens a database next has to take it that the power failed.
pub fn restart() {
    LEFT.store(-1, Relaxed);
    STARTS.fetch_add(1, Relaxed);
}

/// The machine's file systems.
#[derive(Debug)]
struct Counted;

impl Counted {
    fn step(&self) -> io::Result<()> {
        match LEFT.load(Relaxed) {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            left => {
                LEFT.store(left - i64::from(left > 0), Relaxed);
                Ok(())
            }
        }
    }
}

impl Disk for Counted {
    fn open(&self, path: &Path, how: Open) -> io::Result<Handle> {
        count(&vfs::OPENS, 1);
        Machine.open(path, how)
    }

    fn identity_at(&self, path: &Path) -> io::Result<Option<u64>> {
        Machine.identity_at(path)
    }

    fn write(&self, to: &Handle, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        count(&vfs::WRITES, 1);
        count(&vfs::WRITTEN_BYTES, bytes.len() as u64);
        Machine.write(to, offset, bytes)
    }

    fn set_len(&self, of: &Handle, length: u64) -> io::Result<()> {
        self.step()?;
        count(&vfs::TRUNCATES, 1);
        Machine.set_len(of, length)
    }

    fn sync(&self, of: &Handle, how: Sync) -> io::Result<()> {
        self.step()?;
        // To hand bytes over waits for no flush.
        count(&vfs::SYNCS, u64::from(how != Sync::Hand));
        Machine.sync(of, how)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        count(&vfs::SYNCS, 1);
        Machine.sync_folder(path)
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.step()?;
        count(&vfs::RENAMES, 1);
        Machine.exchange(a, b)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        count(&vfs::RENAMES, 1);
        Machine.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        count(&vfs::DELETES, 1);
        Machine.remove(path)
    }

    fn kind(&self, of: &Handle) -> io::Result<Kind> {
        Machine.kind(of)
    }

    fn boot(&self) -> [u8; 16] {
        let mut boot = Machine.boot();
        boot[0] ^= STARTS.load(Relaxed);
        boot
    }
}
