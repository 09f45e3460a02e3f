//! The interface: opening, reading, writing, closing.

use std::ops::RangeBounds;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::JoinHandle;

use crate::batch::{self, Batch};
use crate::cache::Cache;
use crate::changes::Changes;
use crate::disk::Disk;
use crate::engine::{Commit, Inner, Shape, Signals};
use crate::error::{At, Error, Result};
use crate::file::Real;
use crate::folder::Folder;
use crate::group::Group;
use crate::locked::lock;
use crate::log::{self, Forced, Op, put_op};
use crate::manifest::{self, Edit};
use crate::memtable::Memtable;
use crate::options::{Options, Sync};
use crate::recover::{self, Dropped};
use crate::scan::{Scan, prefix_bounds};
use crate::stats::{Counters, Stats};
use crate::table::{Meta, Table};
use crate::version::{State, Version};

/// An open store. Clones share it; it closes with the last one, or by [`Db::close`].
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
    handle: Arc<Handle>,
}

struct Handle {
    inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    dropped: Option<Dropped>,
    lock: Mutex<Option<Box<dyn Send + std::marker::Sync>>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; what was acknowledged is in the log.
        let _ = self.close();
    }
}

impl Db {
    /// Opens the store in a folder of this machine's file system.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        Db::open_on(Arc::new(Real), path, options)
    }

    /// Opens a store on any [`Disk`].
    pub fn open_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>, options: Options) -> Result<Db> {
        options.check()?;
        let folder = Arc::new(Folder::new(disk, path.as_ref()));
        let lock_file = recover::enter(&folder, &options)?;
        let found = recover::recover(&folder)?;
        let cache = Arc::new(Cache::new(options.cache_size, options.keep_files_open));
        let table = |meta: &Meta| Table::new(&folder, &cache, meta.clone());
        let tables: Vec<_> =
            found.state.added.iter().map(|(level, meta)| (*level, table(meta))).collect();
        let version = Arc::new(Version::default().change(&[], &tables));
        let active = Arc::new(Memtable::new(0, 0));
        let sealed = !found.sealed.is_empty();
        // What an earlier process wrote may be in the kernel only, the manifest's last edit included.
        let reopened = |name: String, number| Arc::new(Forced::reopened(&folder, &name, number));
        let mut logs = vec![reopened(manifest::file_name(found.number), 0)];
        logs.extend(found.sealed.iter().rev().map(|m| reopened(log::file_name(m.log), m.log)));
        let state = State { active: active.clone(), sealed: found.sealed, version };
        let next_file = found.state.next_file;
        let inner = Arc::new(Inner {
            commit: Mutex::new(Commit { log: None, active, seq: found.seq, unpaused: 0 }),
            shape: Mutex::new(Shape {
                manifest: found.manifest,
                said: Edit { added: Vec::new(), ..found.state },
                stale: 1.0,
                ..Shape::default()
            }),
            state: RwLock::new(Arc::new(state)),
            visible: AtomicU64::new(found.seq),
            group: Group::default(),
            logs: Mutex::new(logs),
            last_log: AtomicU64::new(found.last_log),
            next_file: AtomicU64::new(next_file),
            counters: Counters::default(),
            signals: Mutex::new(Signals { flush: sealed, compact: true, stop: false }),
            work: Condvar::new(),
            room: Condvar::new(),
            flushing: Mutex::default(),
            compacting: Mutex::default(),
            closed: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            why: Mutex::default(),
            lagging: AtomicBool::new(false),
            behind: AtomicU32::new(0),
            deletions_due: AtomicUsize::new(usize::MAX),
            folder,
            cache,
            options,
        });
        let mut threads = Vec::new();
        if inner.options.background {
            threads.push(spawn("lsm-flush", &inner, Inner::flush_loop)?);
            threads.push(spawn("lsm-compact", &inner, Inner::compact_loop)?);
        }
        if let Sync::Every(pause) = inner.options.sync {
            threads.push(spawn("lsm-sync", &inner, move |inner| inner.sync_loop(pause))?);
        }
        let handle = Handle {
            inner: inner.clone(),
            threads: Mutex::new(threads),
            dropped: found.dropped,
            lock: Mutex::new(Some(lock_file)),
        };
        Ok(Db { inner, handle: Arc::new(handle) })
    }

    /// Sets a key, with the store's durability.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.one(Op { key: key.as_ref(), value: Some(value.as_ref()) })
    }

    /// Removes a key, with the store's durability. A key that is absent is no error.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.one(Op { key: key.as_ref(), value: None })
    }

    fn one(&self, op: Op<'_>) -> Result<()> {
        batch::check(op)?;
        let size = op.key.len() + op.value.map_or(0, <[u8]>::len);
        let force = self.inner.options.sync == Sync::Always;
        self.inner.write(1, size, force, |out| put_op(out, op), std::iter::once(op)).map(|_| ())
    }

    /// Applies a batch atomically, with the store's durability; returns the sequence of its last
    /// change.
    pub fn write(&self, batch: &Batch) -> Result<u64> {
        self.write_with(batch, self.inner.options.sync == Sync::Always)
    }

    /// Applies a batch atomically; `sync` forces it to the device before returning.
    pub fn write_with(&self, batch: &Batch, sync: bool) -> Result<u64> {
        if batch.is_empty() {
            self.inner.usable()?;
            return Ok(self.sequence());
        }
        let fill = |out: &mut Vec<u8>| out.extend_from_slice(batch.bytes());
        self.inner.write(batch.len() as u64, batch.bytes().len(), sync, fill, batch.ops())
    }

    /// Forces everything written so far to the device.
    pub fn sync(&self) -> Result<()> {
        self.inner.usable()?;
        self.inner.force(self.sequence())
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.open()?;
        self.inner.state().get(key.as_ref(), u64::MAX)
    }

    /// Sequence of the newest change; changes count from 1.
    pub fn sequence(&self) -> u64 {
        self.inner.visible.load(Ordering::Acquire)
    }

    /// The store as it is now, whatever is written later.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.inner.open()?;
        let (state, seq) = self.inner.pin();
        Ok(Snapshot { inner: self.inner.clone(), state, seq })
    }

    /// Pairs of a range in ascending order, as of now.
    pub fn scan(&self, range: impl RangeBounds<Vec<u8>>) -> Result<Scan> {
        self.snapshot()?.scan(range)
    }

    /// Pairs of a range in descending order, as of now.
    pub fn scan_back(&self, range: impl RangeBounds<Vec<u8>>) -> Result<Scan> {
        self.snapshot()?.scan_back(range)
    }

    /// Pairs whose keys start with `prefix`, ascending, as of now.
    pub fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.scan(prefix_bounds(prefix.as_ref()))
    }

    /// The newest change of every key that changed after `sequence`, in order of sequence.
    ///
    /// A key changed twice appears once, with its last change. [`Error::Forgotten`] if deletions
    /// since then are compacted away; 0 starts from nothing and never misses any.
    pub fn changes_since(&self, sequence: u64) -> Result<Changes> {
        self.inner.open()?;
        let (state, seq) = self.inner.pin();
        let forgotten = lock(&self.inner.shape).said.forgotten;
        if sequence > 0 && sequence < forgotten {
            return Err(Error::Forgotten { asked: sequence, forgotten });
        }
        Ok(Changes::new(state, sequence, seq))
    }

    /// Writes everything in memory to tables and returns when they are on the device.
    pub fn flush(&self) -> Result<()> {
        self.inner.usable()?;
        self.inner.seal()?;
        self.inner.flush_sealed()
    }

    /// Merges the tables that hold keys of a range down to the deepest level they reach.
    pub fn compact_range(&self, range: impl RangeBounds<Vec<u8>>) -> Result<()> {
        self.flush()?;
        self.inner.compact_range(&range)
    }

    /// A reading of the counters.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// What recovery had to leave out when the store was opened: unsynced writes that a power
    /// failure took. `None` if every written record was there.
    pub fn dropped(&self) -> Option<&Dropped> {
        self.handle.dropped.as_ref()
    }

    /// Flushes, stops the threads and releases the folder. Later calls return [`Error::Closed`].
    pub fn close(&self) -> Result<()> {
        self.handle.close()
    }
}

fn spawn(
    name: &str,
    inner: &Arc<Inner>,
    f: impl FnOnce(&Inner) + Send + 'static,
) -> Result<JoinHandle<()>> {
    let own = inner.clone();
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || f(&own));
    thread.at("start a thread for", &inner.folder.dir)
}

impl Handle {
    fn close(&self) -> Result<()> {
        let inner = &self.inner;
        {
            let mut commit = lock(&inner.commit);
            if inner.closed.swap(true, Ordering::AcqRel) {
                return Ok(());
            }
            commit.log = None;
            let active = Arc::new(Memtable::new(0, 0));
            let old = std::mem::replace(&mut commit.active, active.clone());
            inner.replace(active, (!old.is_empty()).then_some(old));
            lock(&inner.signals).stop = true;
            inner.work.notify_all();
            inner.room.notify_all();
        }
        for thread in lock(&self.threads).drain(..) {
            // A thread that panicked has nothing left to tidy.
            let _ = thread.join();
        }
        let done =
            inner.unhalted().and_then(|()| inner.flush_sealed()).and_then(|()| inner.end_session());
        *lock(&self.lock) = None;
        done
    }
}

/// The store as it was at one sequence. It keeps the files it needs.
#[derive(Clone)]
pub struct Snapshot {
    inner: Arc<Inner>,
    state: Arc<State>,
    seq: u64,
}

impl Snapshot {
    /// Sequence of the newest change it shows.
    pub fn sequence(&self) -> u64 {
        self.seq
    }

    /// The value a key had.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.open()?;
        self.state.get(key.as_ref(), self.seq)
    }

    /// Pairs of a range in ascending order.
    pub fn scan(&self, range: impl RangeBounds<Vec<u8>>) -> Result<Scan> {
        self.inner.open()?;
        Scan::new(self.state.clone(), self.seq, &range, false)
    }

    /// Pairs of a range in descending order.
    pub fn scan_back(&self, range: impl RangeBounds<Vec<u8>>) -> Result<Scan> {
        self.inner.open()?;
        Scan::new(self.state.clone(), self.seq, &range, true)
    }

    /// Pairs whose keys start with `prefix`, ascending.
    pub fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.scan(prefix_bounds(prefix.as_ref()))
    }
}
