//! Space on a disk, so that what arrives never takes what the store needs to go on.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use synqlite_lsm::Real;
use synqlite_lsm::disk::Disk;

/// Bytes that are free for the hub on the disk of a folder.
pub fn free(folder: &Path) -> u64 {
    Real.free(folder)
}

/// The disk of what is on its way.
pub struct DiskSpace {
    folder: PathBuf,
    reserve: u64,
    /// Bytes that are about to arrive.
    arriving: AtomicU64,
}

/// DiskSpace that is taken, until this is dropped.
pub struct Taken<'a> {
    room: &'a DiskSpace,
    bytes: u64,
}

impl DiskSpace {
    /// `reserve` bytes stay free.
    pub fn new(folder: &Path, reserve: u64) -> DiskSpace {
        DiskSpace { folder: folder.to_owned(), reserve, arriving: AtomicU64::new(0) }
    }

    /// Takes room for so many bytes, or says that there is none.
    pub fn take(&self, bytes: u64) -> Result<Taken<'_>> {
        let arriving = self.arriving.fetch_add(bytes, Ordering::Relaxed);
        let taken = Taken { room: self, bytes };
        let needed = arriving.saturating_add(bytes).saturating_add(self.reserve);
        if free(&self.folder) < needed { Err(Error::Full) } else { Ok(taken) }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.room.arriving.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let room = DiskSpace::new(dir.path(), 1);
        let there = free(dir.path());
        assert!(there > 0 && room.take(there).is_err());
        let some = room.take(there / 2).unwrap();
        assert!(room.take(there / 2 + there / 4).is_err());
        drop(some);
        assert!(room.take(there / 2).is_ok());
        assert_eq!(room.arriving.load(Ordering::Relaxed), 0);
    }
}
