//! The files a store works with, behind traits, so that tests can lose, tear and refuse writes.
//!
//! Three kinds of file: a log (written at offsets, forced now and then), a written-once file
//! (appended, forced, closed), and a read-only file. Paths are absolute or relative to the process.

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A place that keeps files.
pub trait Disk: Debug + Send + Sync {
    /// Makes a folder and its parents.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Takes the exclusive lock that the returned value holds; `WouldBlock` if it is taken.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// File names in a folder with their sizes in bytes.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;
    /// Makes an empty file to be appended to, replacing one of that name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;
    /// Makes an empty log file, replacing one of that name.
    fn create_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>>;
    /// Renames a file, atomically replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Forces an existing file to the device.
    fn sync_file(&self, path: &Path) -> io::Result<()>;
    /// Forces the folder's entries to the device.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes that files in the folder can still take; without end where that cannot be told.
    fn free(&self, _dir: &Path) -> u64 {
        u64::MAX
    }
    /// Changes whenever unsynchronized writes may have been lost (the machine was restarted).
    fn boot(&self) -> [u8; 16];
}

/// An open file to read from.
pub trait ReadFile: Send + Sync {
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A new file, written from start to end.
pub trait WriteFile: Send {
    /// Appends bytes; they survive the process but not yet a power failure.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Forces everything appended to the device.
    fn sync(&mut self) -> io::Result<()>;
}

/// A log: space is made first, then filled from the front.
pub trait LogFile: Send {
    /// Makes the file `len` bytes long with zeros, its space allocated.
    fn grow(&mut self, len: u64) -> io::Result<()>;
    /// Writes within the grown space; the bytes survive the process when this returns.
    /// `forced` announces that a force follows at once.
    fn write_at(&mut self, offset: u64, bytes: &[u8], forced: bool) -> io::Result<()>;
    /// What forces this log, while others go on writing.
    fn force(&self) -> Force;
}

/// Returns when everything written before the call is on the device.
pub type Force = Box<dyn Fn() -> io::Result<()> + Send + Sync>;
