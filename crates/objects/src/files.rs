//! Files that appear whole or not at all, on a plain file system.
//!
//! Content is written under a temporary name in the folder it is meant for, synced, and only then
//! given its name. Every step can be the last one before the process or the machine stops.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Start of every temporary name; no object has such a name.
const TEMP: &str = ".tmp-";
/// No writer is at work on a temporary file for so long.
const LEFTOVER: Duration = Duration::from_secs(24 * 60 * 60);
/// No writer takes so long between taking a name and filling it.
const ABANDONED: Duration = Duration::from_secs(60);

/// How a finished file gets its name: fails if the name is taken. [`fs::hard_link`], except in tests.
pub type Link = fn(&Path, &Path) -> io::Result<()>;

/// What putting an object did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// It was absent and is now there, durably.
    Created,
    /// One of that name was there already; it stays as it was.
    AlreadyThere,
}

/// A file under a temporary name, removed unless it is published.
pub struct Temp {
    content: Content,
    named: bool,
}

/// What is in a temporary file. It is opened when it is first read or written: whoever asks for its
/// path alone has SQLite open it, or puts another file in its place, which Windows refuses while it
/// is open.
pub struct Content {
    path: PathBuf,
    file: Option<File>,
}

impl Content {
    fn open(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new().read(true).write(true).open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }
}

impl Read for Content {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.open()?.read(into)
    }
}

impl Write for Content {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }
}

impl Seek for Content {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.open()?.seek(to)
    }
}

impl Temp {
    /// In the folder `dir`, which must exist.
    pub fn within(dir: &Path) -> Result<Temp> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            let n = COUNTER.fetch_add(1, Ordering::Relaxed);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let path = dir.join(format!("{TEMP}{:x}-{n:x}-{now:x}", std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) => return Ok(Temp { content: Content { path, file: None }, named: false }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("write in the folder", dir)(e)),
            }
        }
    }

    /// In the folder of the file `target`.
    pub fn beside(target: &Path) -> Result<Temp> {
        Temp::within(folder_of(target))
    }

    /// Where it is for now.
    pub fn path(&self) -> &Path {
        &self.content.path
    }

    /// Its content, to be written.
    pub fn file(&mut self) -> &mut Content {
        &mut self.content
    }

    /// Syncs it; after that nothing of it is written, so it is closed.
    fn sync(&mut self) -> Result<()> {
        let synced = self.content.open().and_then(|file| file.sync_all());
        self.content.file = None;
        synced.map_err(Error::io("sync", self.path()))
    }

    /// Syncs it and gives it the name `target`, in place of a file that may be there.
    pub fn replace(mut self, target: &Path) -> Result<()> {
        self.sync()?;
        self.rename(target)
    }

    fn rename(mut self, target: &Path) -> Result<()> {
        fs::rename(self.path(), target).map_err(Error::io("write", target))?;
        self.named = true;
        Ok(())
    }

    /// Syncs it and gives it the name `target` unless that is taken.
    ///
    /// Without hard links (exFAT, many network shares) an empty file takes the name first, and a
    /// rename fills it. A writer that dies in between leaves the empty file: it is no object, and
    /// the next writer fills it once it is surely abandoned.
    pub fn publish(mut self, target: &Path, link: Link) -> Result<Put> {
        self.sync()?;
        match link(self.path(), target) {
            Ok(()) => return Ok(Put::Created),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return self.fill(target),
            Err(_) => {}
        }
        match OpenOptions::new().write(true).create_new(true).open(target).map(drop) {
            Ok(()) => self.rename(target).map(|()| Put::Created),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.fill(target),
            Err(e) => Err(Error::io("write", target)(e)),
        }
    }

    fn fill(self, target: &Path) -> Result<Put> {
        let there = fs::metadata(target).map_err(Error::io("look at", target))?;
        if there.len() > 0 || !older(&there, ABANDONED) {
            return Ok(Put::AlreadyThere);
        }
        self.rename(target).map(|()| Put::Created)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.named {
            self.content.file = None;
            // If this fails, `remove_leftovers` gets it a day later.
            let _ = fs::remove_file(self.path());
        }
    }
}

/// The folder that holds `path`; that of a bare name is the current one.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn older(file: &fs::Metadata, age: Duration) -> bool {
    let elapsed = file.modified().ok().and_then(|time| time.elapsed().ok());
    elapsed.is_some_and(|elapsed| elapsed > age)
}

/// Removes temporary files that a dead writer left in `dir`. Failures are not the caller's: the
/// files may belong to another user, or another writer may be removing them too.
pub fn remove_leftovers(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(TEMP));
        if ours && entry.metadata().is_ok_and(|file| file.is_file() && older(&file, LEFTOVER)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the names in `dir` durable, where the system can.
pub fn sync_dir(dir: &Path) -> Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(dir).and_then(|dir| dir.sync_all()) {
        // Some network and user-space file systems cannot sync a folder.
        Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => {
            Ok(())
        }
        done => done.map_err(Error::io("sync the folder", dir)),
    }
}

/// Which side of a copy failed.
pub(crate) enum CopyError {
    /// The source failed.
    Read(io::Error),
    /// The target failed.
    Write(io::Error),
}

/// Copies until the source ends, or until more than `limit` bytes are there. Returns their number.
pub(crate) fn copy(
    from: &mut impl Read,
    to: &mut impl Write,
    limit: u64,
) -> std::result::Result<u64, CopyError> {
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0;
    while total <= limit {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                to.write_all(buffer.get(..n).unwrap_or_default()).map_err(CopyError::Write)?;
                total += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(CopyError::Read(e)),
        }
    }
    Ok(total)
}
