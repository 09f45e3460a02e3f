//! Notices that something was committed to a database, by whatever program.
//!
//! `PRAGMA data_version` tells it, on a connection that is kept. When to ask, the file system says: it tells
//! which files were written. Not every one does, so it is asked now and then in any case.
//!
//! Hardly any program waits for it. In WAL mode whoever reads is in nobody's way. In the other modes, a program
//! that is about to commit cannot while somebody reads; but it writes to the database only once it has kept all
//! others out, so who asks after such a write is who waits. That is why the rollback journal is not looked at, and
//! why it asks again and again only after writes to a write-ahead log.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher, WatcherKind};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};
use synqlite_core::{Environment, Replica, System};

/// It asks after so long though nobody said anything.
const QUIET: Duration = Duration::from_millis(250);
/// The same, where the file system says nothing.
const DEAF: Duration = Duration::from_millis(25);
/// A write-ahead log is written before the commit is there to be seen, a sync of the disk before. For so long it
/// asks again and again.
const SOON: Duration = Duration::from_secs(1);
/// Between two of these.
const GAPS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(5)];

/// Wakes whoever waits; rung twice it wakes once.
#[derive(Clone)]
pub(super) struct Bell(SyncSender<()>);

impl Bell {
    pub fn new() -> (Bell, Receiver<()>) {
        let (sender, receiver) = sync_channel(1);
        (Bell(sender), receiver)
    }

    /// Whether there may still be somebody who hears it.
    pub fn ring(&self) -> bool {
        !matches!(self.0.try_send(()), Err(std::sync::mpsc::TrySendError::Disconnected(())))
    }
}

/// What is known of a database.
pub(super) struct Notice {
    /// Rings when a file was written, for as long as it lives.
    watcher: Option<RecommendedWatcher>,
    /// Which file it is.
    instance: String,
    /// The write-ahead log that it had when it was asked first.
    log: Option<(PathBuf, String)>,
    version: Option<i64>,
    /// Whether the write-ahead log was written since it was last asked.
    logged: Arc<AtomicBool>,
    /// Since when, and how often, it was asked in vain after the log was written.
    asked: Option<(Instant, u32)>,
}

impl Notice {
    pub fn new(replica: &Replica, bell: Bell) -> Notice {
        let logged = Arc::<AtomicBool>::default();
        let watcher = watcher(replica.path(), bell, logged.clone()).ok();
        let instance = System.instance(replica.path());
        Notice { watcher, instance, log: None, version: None, logged, asked: None }
    }

    /// Whether another file has taken the place of this one, or none is there. Then nothing may be asked: beside
    /// a file of that name SQLite takes the journal of the other for a crash of this one, and removes it. So it is
    /// where its write-ahead log is gone, which nobody may remove while it is open: somebody wrote a backup over it.
    pub fn moved(&self, replica: &Replica) -> bool {
        let other = |(path, log): &(PathBuf, String)| System.instance(path) != *log;
        System.instance(replica.path()) != self.instance || self.log.as_ref().is_some_and(other)
    }

    /// Whether something was committed since this was last the case.
    pub fn changed(&mut self, replica: &Replica) -> bool {
        if self.logged.swap(false, Ordering::Relaxed) {
            self.asked = Some((Instant::now(), 0));
        }
        // A database that cannot be read just now is for the next one to ask.
        let Ok(now) = replica.data_version() else { return false };
        if self.log.is_none() {
            let path = log_of(replica.path());
            let log = System.instance(&path);
            self.log = (!log.is_empty()).then_some((path, log));
        }
        let changed = self.version.replace(now) != Some(now);
        if changed {
            self.asked = None;
        }
        changed
    }

    /// When to ask again, unless somebody rings before.
    pub fn pause(&mut self) -> Duration {
        let quiet = if self.watcher.is_some() { QUIET } else { DEAF };
        let Some((since, times)) = &mut self.asked else { return quiet };
        if since.elapsed() > SOON {
            self.asked = None;
            return quiet;
        }
        *times += 1;
        let [first, later] = GAPS;
        if *times > 10 { later } else { first }
    }
}

/// The write-ahead log of a database.
fn log_of(database: &Path) -> PathBuf {
    let mut log = database.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Rings when the database or its write-ahead log is written. It looks at their folder, since the log comes and
/// goes, and opens neither: a process that closes a file loses its locks on it. Where the file system tells
/// only of files that are open, nobody is told.
fn watcher(
    database: &Path,
    bell: Bell,
    logged: Arc<AtomicBool>,
) -> notify::Result<RecommendedWatcher> {
    if RecommendedWatcher::kind() == WatcherKind::Kqueue {
        return Err(notify::Error::generic("kqueue opens what it watches"));
    }
    let database = std::fs::canonicalize(database)?;
    let name = database.file_name().unwrap_or_default().to_owned();
    let log = log_of(Path::new(&name)).into_os_string();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let about = |event: &notify::Event, file: &OsString| {
            event.need_rescan() || event.paths.iter().any(|path| path.file_name() == Some(file))
        };
        // What cannot be told may have been about both.
        let (main, wal) = match &event {
            Ok(event) if matches!(event.kind, EventKind::Access(_)) => (false, false),
            Ok(event) => (about(event, &name), about(event, &log)),
            Err(_) => (true, true),
        };
        if wal {
            logged.store(true, Ordering::Relaxed);
        }
        if main || wal {
            bell.ring();
        }
    })?;
    let folder = database.parent().unwrap_or(Path::new("/"));
    watcher.watch(folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}
