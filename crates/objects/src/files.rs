//! Files that appear whole or not at all, on a plain file system.
//!
//! Content is written under a temporary name in the folder it is meant for, synced, and only then
//! given its name. Every step can be the last one before the process or the machine stops. What lies
//! beside a replica meanwhile holds what it holds, so nobody but its owner may read it.

use crate::error::{Error, Result};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Start of every temporary name; no object has such a name.
const TEMP: &str = ".tmp-";
/// End of the name of the file that a writer keeps locked while it is at work on the one of the name before it.
const ALIVE: &str = "-alive";
/// No writer is at work on a temporary file for so long.
const LEFTOVER: Duration = Duration::from_secs(24 * 60 * 60);
/// No writer takes so long between taking a name and filling it.
const ABANDONED: Duration = Duration::from_secs(60);
/// The temporary files of this process that nobody else removes.
static OWN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

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
    /// Dropped last, so whatever it speaks for is gone before.
    alive: Option<Alive>,
}

/// Says that the writer of a temporary file lives.
struct Alive {
    path: PathBuf,
    lock: File,
}

impl Alive {
    /// For the file `path`, before it is there. None where files cannot be locked: what is left there goes by its
    /// age.
    fn begin(path: &Path) -> Option<Alive> {
        let mark = with_end(path, ALIVE);
        let lock = OpenOptions::new().write(true).create_new(true).open(&mark).ok()?;
        own().insert(path.to_owned());
        let alive = Alive { path: path.to_owned(), lock };
        // Whoever looks for leftovers just now may have it for a moment.
        alive.lock.lock().is_ok().then_some(alive)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        own().remove(&self.path);
        let _ = fs::remove_file(with_end(&self.path, ALIVE));
    }
}

fn own() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// A temporary name that no file has, most likely.
fn unused(dir: &Path, start: &str) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    dir.join(format!("{start}{:x}-{n:x}-{now:x}", std::process::id()))
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
    /// In the folder `dir`, which must exist, for a file that whoever shares the folder may read as soon as it is
    /// finished.
    pub fn within(dir: &Path) -> Result<Temp> {
        loop {
            if let Some(temp) = Temp::create(unused(dir, TEMP), &mut OpenOptions::new())? {
                return Ok(temp);
            }
        }
    }

    /// In the folder of the file `target`, for its owner alone. If the writer dies, [`remove_leftovers`] need not
    /// wait a day, and takes the files beside it too. Beside a temporary file it is one of that.
    pub fn beside(target: &Path) -> Result<Temp> {
        let name = target.file_name().and_then(|name| name.to_str());
        let start = name.filter(|name| name.starts_with(TEMP)).map(|name| format!("{name}-"));
        loop {
            let path = unused(folder_of(target), start.as_deref().unwrap_or(TEMP));
            let alive = if start.is_none() { Alive::begin(&path) } else { None };
            let made = Temp::create(path, &mut private()).map_err(|e| match e {
                Error::Io { source, .. } => Error::Beside { path: target.to_owned(), source },
                e => e,
            });
            if let Some(mut temp) = made? {
                temp.alive = alive;
                return Ok(temp);
            }
        }
    }

    /// Nothing if there is such a file.
    fn create(path: PathBuf, options: &mut OpenOptions) -> Result<Option<Temp>> {
        match options.write(true).create_new(true).open(&path) {
            Ok(_) => {
                let content = Content { path, file: None };
                Ok(Some(Temp { content, named: false, alive: None }))
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(e) => Err(Error::io("write in the folder", folder_of(&path))(e)),
        }
    }

    /// Gives it the rights that every new file has here, for one that is finished and no secret.
    pub fn share(&self) -> Result<()> {
        if cfg!(unix) {
            // What the umask takes away only a new file tells.
            let other = Temp::within(folder_of(self.path()))?;
            let rights = fs::metadata(other.path()).map(|found| found.permissions());
            let set = rights.and_then(|rights| fs::set_permissions(self.path(), rights));
            set.map_err(Error::io("set the rights of", self.path()))?;
        }
        Ok(())
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

/// Makes files that their owner alone may read.
#[cfg(unix)]
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Elsewhere files have the rights of their folder.
#[cfg(not(unix))]
fn private() -> OpenOptions {
    OpenOptions::new()
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
    let names = temporary(dir);
    let starts = names.iter().filter_map(|name| name.strip_suffix(ALIVE));
    let writers: Vec<_> = starts.map(|start| (start, Writer::of(&dir.join(start)))).collect();
    for name in &names {
        let writer = writers.iter().find(|(start, _)| is_of(name, start));
        let goes = |found: &fs::Metadata| match writer {
            Some((_, Writer::Dead(_))) => true,
            Some((_, Writer::Lives)) => false,
            Some((_, Writer::Unknown)) | None => older(found, LEFTOVER),
        };
        let file = dir.join(name);
        if file.symlink_metadata().is_ok_and(|found| found.is_file() && goes(&found)) {
            let _ = fs::remove_file(file);
        }
    }
}

/// Removes the temporary files that this process keeps beside replicas, for when it ends before it is done.
pub fn remove_own() {
    for own in own().iter() {
        let (dir, start) = (folder_of(own), own.file_name().and_then(|name| name.to_str()));
        let Some(start) = start else { continue };
        for name in temporary(dir).iter().filter(|name| is_of(name, start)) {
            let _ = fs::remove_file(dir.join(name));
        }
    }
}

/// The temporary names in a folder. Those that tell of a writer stand last: they go after what they tell of.
fn temporary(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(TEMP)).collect();
    names.sort_by_key(|name| name.ends_with(ALIVE));
    names
}

/// Whether a temporary name is `start`, or that of a file beside it.
fn is_of(name: &str, start: &str) -> bool {
    name.strip_prefix(start).is_some_and(|end| end.is_empty() || end.starts_with('-'))
}

/// What is known of the writer of a temporary file.
enum Writer {
    /// The lock that it held, which nobody else gets until the files are gone.
    Dead(#[expect(dead_code, reason = "held, not read")] File),
    Lives,
    Unknown,
}

impl Writer {
    fn of(path: &Path) -> Writer {
        let Ok(lock) = OpenOptions::new().write(true).open(with_end(path, ALIVE)) else {
            return Writer::Unknown;
        };
        match lock.try_lock() {
            Ok(()) => Writer::Dead(lock),
            Err(TryLockError::WouldBlock) => Writer::Lives,
            Err(TryLockError::Error(_)) => Writer::Unknown,
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
