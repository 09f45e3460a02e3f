//! The rollback journal that SQLite keeps during a transaction. It is needed to roll back and never
//! to recover, so it stays in memory, and a large one goes to a file without a name.
//!
//! One that another program left is read from its file, until SQLite has played it back and marks it
//! as done. An exclusive connection goes on to use it; from then on it is one in memory.

use crate::disk::{Disk, Handle, Sync};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// A longer journal goes to a file.
const KEPT: u64 = 8 << 20;

/// A rollback journal.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    bytes: Vec<u8>,
    file: Option<File>,
    left: Option<(Arc<dyn Disk>, Handle)>,
}

impl Journal {
    /// An empty journal whose file, if it needs one, lies in `folder`.
    pub(crate) fn new(folder: PathBuf) -> Journal {
        Journal { folder, bytes: Vec::new(), file: None, left: None }
    }

    /// The journal that another program left in `file`.
    pub(crate) fn left(folder: PathBuf, disk: Arc<dyn Disk>, file: Handle) -> Journal {
        Journal { left: Some((disk, file)), ..Journal::new(folder) }
    }

    /// Reads; how much was there.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if let Some(file) = self.left.as_ref().map(|(_, left)| &left.file).or(self.file.as_ref()) {
            let mut done = 0;
            while done < into.len() {
                match file.read_at(&mut into[done..], offset + done as u64)? {
                    0 => break,
                    read => done += read,
                }
            }
            return Ok(done);
        }
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.bytes.len());
        let length = into.len().min(self.bytes.len() - from);
        into[..length].copy_from_slice(&self.bytes[from..from + length]);
        Ok(length)
    }

    /// Writes; a gap before becomes zeros.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some((disk, left)) = self.left.take() {
            disk.write(&left, offset, bytes)?;
            return disk.sync(&left, Sync::Bytes);
        }
        let end = offset + bytes.len() as u64;
        if self.file.is_none() && end > KEPT {
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(nix::libc::O_TMPFILE);
            let file = options.open(&self.folder)?;
            file.write_all_at(&self.bytes, 0)?;
            self.bytes = Vec::new();
            self.file = Some(file);
        }
        if let Some(file) = &self.file {
            return file.write_all_at(bytes, offset);
        }
        if self.bytes.len() < end as usize {
            self.bytes.resize(end as usize, 0);
        }
        self.bytes[offset as usize..end as usize].copy_from_slice(bytes);
        Ok(())
    }

    /// Shortens it.
    pub(crate) fn truncate(&mut self, length: u64) -> io::Result<()> {
        if let Some((disk, left)) = self.left.take() {
            disk.set_len(&left, length)?;
            return disk.sync(&left, Sync::Bytes);
        }
        match &self.file {
            Some(file) => file.set_len(length),
            None => {
                self.bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                Ok(())
            }
        }
    }

    /// Its length.
    pub(crate) fn length(&self) -> io::Result<u64> {
        match self.left.as_ref().map(|(_, left)| &left.file).or(self.file.as_ref()) {
            Some(file) => Ok(file.metadata()?.len()),
            None => Ok(self.bytes.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_file_before_and_after_it_becomes_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = Journal::new(folder.path().to_owned());
        journal.write(3, b"abc").expect("writes");
        let mut six = [9; 6];
        assert_eq!(journal.read(1, &mut six).expect("reads"), 5);
        assert_eq!(six, [0, 0, b'a', b'b', b'c', 9]);
        journal.write(KEPT, b"end").expect("writes");
        assert_eq!(journal.length().expect("a length"), KEPT + 3);
        assert_eq!(journal.read(4, &mut six).expect("reads"), 6);
        assert_eq!(six, [b'b', b'c', 0, 0, 0, 0]);
        assert_eq!(journal.read(KEPT + 1, &mut six).expect("reads"), 2);
        journal.truncate(4).expect("cuts");
        assert_eq!(journal.read(3, &mut six).expect("reads"), 1);
        let names = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(names, 0, "the file has no name");
    }
}
