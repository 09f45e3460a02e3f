//! Files of the operating system.
//!
//! The log is a preallocated file seen through a sliding memory map: a record costs one copy
//! instead of one system call (about 0.1 against 1 microsecond), and the kernel keeps the pages
//! when the process dies. Zeros are written before mapping, so a full disk is an error of `grow`
//! and not a fault at a later store. Forced writes go through `write`: forcing mapped pages would
//! make each of them fault again.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{Ordering, compiler_fence};

use memmap2::{MmapMut, MmapOptions};

use crate::disk::{Disk, Force, LogFile, ReadFile, WriteFile};

/// The file system of this machine.
#[derive(Debug, Default, Clone, Copy)]
pub struct Real;

/// Makes a file if there is none, of its owner alone: what a store holds is nobody else's to read.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

impl Disk for Real {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = private().truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            names.push((entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len()));
        }
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(File::open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(private().truncate(true).write(true).open(path)?))
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let file = private().truncate(true).read(true).write(true).open(path)?;
        Ok(Box::new(MappedLog { file: Arc::new(file), len: 0, start: 0, window: None }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_data()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn free(&self, dir: &Path) -> u64 {
        // Where the system cannot tell, a write will.
        rustix::fs::statvfs(dir).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize))
    }

    fn boot(&self) -> [u8; 16] {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let mut id = [0; 16];
        let digits = text.bytes().filter_map(|b| (b as char).to_digit(16));
        for (i, digit) in digits.take(32).enumerate() {
            id[i / 2] = id[i / 2] << 4 | digit as u8;
        }
        id
    }
}

impl ReadFile for File {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl WriteFile for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

const WINDOW: u64 = 1 << 20;
const PAGE: u64 = 1 << 16;

struct MappedLog {
    file: Arc<File>,
    len: u64,
    /// File offset of the window's first byte.
    start: u64,
    window: Option<MmapMut>,
}

impl MappedLog {
    fn map(&mut self, offset: u64) -> io::Result<()> {
        self.start = offset / PAGE * PAGE;
        let len = (self.len - self.start).min(WINDOW) as usize;
        // SAFETY: the store's lock keeps other processes out, and no one truncates a log while it
        // is written; the mapped range was filled with zeros, so its blocks exist. The map is
        // never lent out, only copied into.
        #[allow(unsafe_code)]
        let map = unsafe {
            MmapOptions::new().offset(self.start).len(len).populate().map_mut(&*self.file)
        }?;
        self.window = Some(map);
        Ok(())
    }
}

impl LogFile for MappedLog {
    fn grow(&mut self, len: u64) -> io::Result<()> {
        static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
        while self.len < len {
            let n = (len - self.len).min(ZEROS.len() as u64) as usize;
            self.file.write_all_at(&ZEROS[..n], self.len)?;
            self.len += n as u64;
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8], forced: bool) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        if forced || bytes.len() as u64 > WINDOW / 4 || end > self.len {
            return self.file.write_all_at(bytes, offset);
        }
        let inside = |log: &Self| {
            log.window
                .as_ref()
                .is_some_and(|w| offset >= log.start && end <= log.start + w.len() as u64)
        };
        if !inside(self) {
            self.map(offset)?;
        }
        let at = (offset - self.start) as usize;
        if let Some(room) = self.window.as_mut().and_then(|w| w.get_mut(at..at + bytes.len())) {
            // The end marker is the last part of `bytes`: it must not be stored before the record.
            let (record, marker) = room.split_at_mut(bytes.len().saturating_sub(8));
            record.copy_from_slice(&bytes[..record.len()]);
            compiler_fence(Ordering::SeqCst);
            marker.copy_from_slice(&bytes[bytes.len() - marker.len()..]);
            return Ok(());
        }
        self.file.write_all_at(bytes, offset)
    }

    fn force(&self) -> Force {
        let file = self.file.clone();
        Box::new(move || file.sync_data())
    }
}
