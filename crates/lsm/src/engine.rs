//! What an open store shares: writers, readers and the threads work on it.
//!
//! Locks, in the order they may be taken: `commit` (sequence, active log), `shape` (manifest and
//! what it says), `state` (the value readers clone; held for a moment). A flush or compaction
//! writes its tables without any of them and takes `shape` to install the result.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::group::Group;
use crate::locked::lock;
use crate::log::{self, Forced, Log, Op};
use crate::manifest::{self, Edit, Manifest};
use crate::memtable::Memtable;
use crate::options::Options;
use crate::stats::{Counters, Level, Stats};
use crate::table::Table;
use crate::version::{State, Version};

/// Sealed memtables at which writers slow down, and at which they wait.
const SEALED: (usize, usize) = (2, 5);
/// Runs of level 0 at which writers slow down, and at which they wait.
const LEVEL0: (usize, usize) = (24, 48);
/// A slowed writer pauses this long after this many bytes, of which each change counts some more.
const PAUSE: (Duration, usize) = (Duration::from_millis(1), 32 << 10);
const CHANGE: usize = 64;

/// How often a waiting writer looks for itself whether there is room.
const LOOK: Duration = Duration::from_millis(5);

/// What writers share.
pub(crate) struct Commit {
    pub(crate) log: Option<Log>,
    pub(crate) active: Arc<Memtable>,
    /// Sequence of the newest change.
    pub(crate) seq: u64,
    /// Bytes written since the last pause.
    pub(crate) unpaused: usize,
}

/// What the manifest says, and the manifest itself.
#[derive(Default)]
pub(crate) struct Shape {
    pub(crate) manifest: Option<Manifest>,
    /// Its numbers; no tables.
    pub(crate) said: Edit,
    /// Keys that a running merge of level 0 may place on level 1.
    pub(crate) merging: Option<(Vec<u8>, Vec<u8>)>,
    /// Keys at which flushes cut their tables, so that level 0 can be merged range by range.
    pub(crate) cuts: Vec<Vec<u8>>,
    /// Share of the changes merged last that took the place of an older entry.
    pub(crate) stale: f64,
    /// Whether deletions are merged early; a small store leaves that to the idle time.
    pub(crate) large: bool,
    /// Where the next compaction of each level goes on.
    pub(crate) hands: [Vec<u8>; manifest::LEVELS],
}

/// What the threads wait for.
#[derive(Default)]
pub(crate) struct Signals {
    pub(crate) flush: bool,
    pub(crate) compact: bool,
    pub(crate) stop: bool,
}

pub(crate) struct Inner {
    pub(crate) folder: Arc<Folder>,
    pub(crate) options: Options,
    pub(crate) cache: Arc<Cache>,
    pub(crate) counters: Counters,
    pub(crate) commit: Mutex<Commit>,
    pub(crate) shape: Mutex<Shape>,
    pub(crate) state: RwLock<Arc<State>>,
    pub(crate) visible: AtomicU64,
    pub(crate) group: Group,
    /// Logs whose changes are not in tables yet, oldest first.
    pub(crate) logs: Mutex<Vec<Arc<Forced>>>,
    /// Number of the newest log that was made.
    pub(crate) last_log: AtomicU64,
    pub(crate) next_file: AtomicU64,
    pub(crate) signals: Mutex<Signals>,
    pub(crate) work: Condvar,
    pub(crate) room: Condvar,
    /// One flush, one compaction at a time.
    pub(crate) flushing: Mutex<()>,
    pub(crate) compacting: Mutex<()>,
    pub(crate) closed: AtomicBool,
    pub(crate) halted: AtomicBool,
    /// The failure after which writing stopped, and whether it was for want of room.
    pub(crate) why: Mutex<(String, bool)>,
    pub(crate) lagging: AtomicBool,
    /// Compactions do not give back space as fast as writers make it obsolete: a slowed writer
    /// pauses this many times as long, if not 0.
    pub(crate) behind: AtomicU32,
    /// Deletions in memory that are worth a flush, because they make a quarter of the tables obsolete.
    pub(crate) deletions_due: AtomicUsize,
}

impl Inner {
    pub(crate) fn open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Open and not halted.
    pub(crate) fn usable(&self) -> Result<()> {
        self.open()?;
        self.unhalted()
    }

    pub(crate) fn unhalted(&self) -> Result<()> {
        if !self.halted.load(Ordering::Acquire) {
            return Ok(());
        }
        let (why, full) = lock(&self.why).clone();
        Err(Error::Halted { why, full })
    }

    /// Stops writing for good: after this failure memory and disk may disagree.
    pub(crate) fn halt(&self, error: &Error) {
        let mut why = lock(&self.why);
        if !self.halted.swap(true, Ordering::AcqRel) {
            *why = (error.to_string(), error.is_full());
        }
        drop(why);
        self.room.notify_all();
    }

    pub(crate) fn state(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A state and the newest sequence it is sure to hold.
    pub(crate) fn pin(&self) -> (Arc<State>, u64) {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        // Under the lock no memtable can be sealed between the two.
        (state.clone(), self.visible.load(Ordering::Acquire))
    }

    /// A new active memtable; the old one waits for its flush.
    pub(crate) fn replace(&self, active: Arc<Memtable>, sealed: Option<Arc<Memtable>>) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = state.sealed.clone();
        waiting.splice(..0, sealed);
        *state = Arc::new(State { active, sealed: waiting, version: state.version.clone() });
    }

    pub(crate) fn write<'a>(
        &self,
        count: u64,
        size: usize,
        force: bool,
        fill: impl FnOnce(&mut Vec<u8>),
        ops: impl Iterator<Item = Op<'a>>,
    ) -> Result<u64> {
        let mut commit = lock(&self.commit);
        self.usable()?;
        let full = commit.active.size() >= self.options.memtable_size;
        if full || commit.active.deletions() >= self.deletions_due.load(Ordering::Relaxed) {
            self.make_room()?;
            self.rotate(&mut commit)?;
        }
        if self.lagging.load(Ordering::Relaxed) {
            self.pace(&mut commit, size + count as usize * CHANGE);
        }
        if commit.log.is_none() {
            self.begin(&mut commit)?;
        }
        let first = commit.seq + 1;
        let last = commit.seq + count;
        let commit_ref = &mut *commit;
        let Some(log) = &mut commit_ref.log else { return Err(Error::Closed) };
        if let Err(e) = log.append(first, count, force, fill) {
            // Without space nothing was written; after any other failure we cannot know.
            if !matches!(e, Error::Io { op: "allocate", .. }) {
                self.halt(&e);
            }
            return Err(e);
        }
        commit.active.insert(first, ops);
        commit.seq = last;
        self.visible.store(last, Ordering::Release);
        self.counters.user_bytes.fetch_add(size as u64, Ordering::Relaxed);
        drop(commit);
        if force {
            self.force(last)?;
        }
        if !self.options.background
            && let Err(e) = self.tidy()
        {
            // The write itself is done.
            self.halt(&e);
        }
        Ok(last)
    }

    /// The first write of a session: makes its log, and the manifest say so.
    pub(crate) fn begin(&self, commit: &mut Commit) -> Result<()> {
        self.start_log(commit)?;
        let forced = lock(&self.logs).last().cloned();
        if let Some(Err(e)) = forced.map(|log| log.sync(&self.folder)) {
            self.halt(&e);
            return Err(e);
        }
        let mut shape = lock(&self.shape);
        let oldest = self.state().sealed.last().map(|m| m.log);
        let log = oldest.unwrap_or_else(|| self.last_log.load(Ordering::Acquire));
        let edit = Edit { log, open: true, ..shape.said.clone() };
        self.install(&mut shape, edit, 0, &[], None)
    }

    /// After the last flush no log is needed any more, and the manifest says so.
    pub(crate) fn end_session(&self) -> Result<()> {
        let mut shape = lock(&self.shape);
        if shape.said.open {
            let last = self.last_log.load(Ordering::Acquire);
            let before = shape.said.log;
            let edit = Edit { log: last + 1, open: false, ..shape.said.clone() };
            self.install(&mut shape, edit, 0, &[], None)?;
            self.remove_logs(before, last);
        }
        Ok(())
    }

    pub(crate) fn remove_logs(&self, first: u64, last: u64) {
        for number in first..=last {
            self.folder.remove(&log::file_name(number));
        }
    }

    /// Makes the next log and the memtable that goes with it.
    pub(crate) fn start_log(&self, commit: &mut Commit) -> Result<()> {
        let number = self.last_log.load(Ordering::Acquire) + 1;
        let log = Log::create(&self.folder, number, commit.seq + 1)?;
        let active = Arc::new(Memtable::new(number, self.options.memtable_size));
        if let Some(old) = &commit.log {
            self.counters.log_bytes.fetch_add(old.forced.written(), Ordering::Relaxed);
        }
        lock(&self.logs).push(log.forced.clone());
        self.last_log.store(number, Ordering::Release);
        commit.log = Some(log);
        let old = std::mem::replace(&mut commit.active, active.clone());
        self.replace(active, (!old.is_empty()).then_some(old));
        Ok(())
    }

    pub(crate) fn rotate(&self, commit: &mut Commit) -> Result<()> {
        self.start_log(commit)?;
        self.update_lag();
        self.signal(true, false);
        Ok(())
    }

    /// Seals the active memtable if it holds anything.
    pub(crate) fn seal(&self) -> Result<()> {
        let mut commit = lock(&self.commit);
        self.usable()?;
        if commit.active.is_empty() { Ok(()) } else { self.rotate(&mut commit) }
    }

    pub(crate) fn lag(&self) -> (usize, usize) {
        let state = self.state();
        (state.sealed.len(), state.version.runs[0].len())
    }

    pub(crate) fn update_lag(&self) {
        let (sealed, level0) = self.lag();
        let behind = self.behind.load(Ordering::Relaxed) > 0;
        self.lagging.store(behind || sealed >= SEALED.0 || level0 >= LEVEL0.0, Ordering::Relaxed);
    }

    /// Whether writers wait for a merge of level 0.
    pub(crate) fn writers_wait(&self) -> bool {
        self.lag().1 >= LEVEL0.1
    }

    /// Waits while too much is unflushed or uncompacted.
    pub(crate) fn make_room(&self) -> Result<()> {
        let full = || self.lag().0 >= SEALED.1 || self.writers_wait();
        if !full() {
            return Ok(());
        }
        if !self.options.background {
            return self.tidy();
        }
        let start = Instant::now();
        self.signal(true, true);
        while full() && self.usable().is_ok() {
            let _ = self.room.wait_timeout(lock(&self.signals), LOOK);
        }
        self.counters.stops.since(start);
        self.usable()
    }

    /// Slows a writer while flushes or compactions lag: a short pause now and then.
    pub(crate) fn pace(&self, commit: &mut Commit, size: usize) {
        commit.unpaused += size;
        if commit.unpaused >= PAUSE.1 && self.options.background {
            let start = Instant::now();
            commit.unpaused = 0;
            std::thread::sleep(PAUSE.0 * self.behind.load(Ordering::Relaxed).max(1));
            self.counters.slowdowns.since(start);
        }
    }

    /// Returns when the change `seq` is on the device; one force serves all who wait.
    pub(crate) fn force(&self, seq: u64) -> Result<()> {
        self.group.wait_for(seq, || {
            self.unhalted()?;
            let end = self.visible.load(Ordering::Acquire);
            let logs = lock(&self.logs).clone();
            let start = Instant::now();
            for log in logs {
                if let Err(e) = log.sync(&self.folder) {
                    // A flush put what it held into tables on the device, and removed the file.
                    if !lock(&self.logs).iter().any(|needed| Arc::ptr_eq(needed, &log)) {
                        continue;
                    }
                    // A failed force may have dropped the bytes: trying again would lie.
                    self.halt(&e);
                    return Err(e);
                }
            }
            self.counters.syncs.since(start);
            Ok(end)
        })
    }

    pub(crate) fn new_file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::AcqRel)
    }

    /// Makes an edit durable, then visible: tables arrive on a level, others leave. `flushed` is
    /// the log whose memtable is now in tables.
    pub(crate) fn install(
        &self,
        shape: &mut Shape,
        mut edit: Edit,
        level: usize,
        tables: &[Arc<Table>],
        flushed: Option<u64>,
    ) -> Result<()> {
        self.unhalted()?;
        // From here on the manifest may name them, even if installing fails.
        tables.iter().for_each(|t| t.keep());
        edit.added = tables.iter().map(|t| (level, t.meta.clone())).collect();
        let added: Vec<_> = tables.iter().map(|t| (level, t.clone())).collect();
        edit.forgotten = edit.forgotten.max(shape.said.forgotten);
        edit.boot = self.folder.disk.boot();
        let version = Arc::new(self.state().version.change(&edit.removed, &added));
        let saved = self.save(shape, &mut edit, &version);
        if let Err(e) = saved {
            self.halt(&e);
            return Err(e);
        }
        shape.said = Edit { added: Vec::new(), removed: Vec::new(), ..edit };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut sealed = state.sealed.clone();
        sealed.retain(|m| flushed.is_none_or(|log| m.log > log));
        *state = Arc::new(State { active: state.active.clone(), sealed, version: version.clone() });
        drop(state);
        self.weigh(shape, &version);
        self.update_lag();
        let _signals = lock(&self.signals);
        self.room.notify_all();
        Ok(())
    }

    pub(crate) fn save(&self, shape: &mut Shape, edit: &mut Edit, version: &Version) -> Result<()> {
        if let Some(manifest) = shape.manifest.as_mut().filter(|m| m.size < manifest::LIMIT) {
            edit.next_file = self.next_file.load(Ordering::Acquire);
            return manifest.append(edit);
        }
        let number = self.new_file();
        edit.next_file = number + 1;
        let added = version.tables().map(|(level, t)| (level, t.meta.clone())).collect();
        let whole = Edit { added, removed: Vec::new(), ..edit.clone() };
        let before = shape.manifest.replace(Manifest::start(&self.folder, number, &whole)?);
        if let Some(old) = before {
            // The new one, which is on the device, says all that the one of an earlier session did.
            lock(&self.logs).retain(|l| l.number > 0);
            self.folder.remove(&manifest::file_name(old.number));
        }
        Ok(())
    }

    /// Flushes every sealed memtable, oldest first.
    pub(crate) fn flush_sealed(&self) -> Result<()> {
        let _one = lock(&self.flushing);
        loop {
            // Not the whole state: it would keep the files of tables that leave meanwhile.
            let Some(oldest) = self.state().sealed.last().cloned() else { return Ok(()) };
            let start = Instant::now();
            let before = lock(&self.shape).said.log;
            self.flush_one(&oldest)?;
            self.counters.flushes.since(start);
            lock(&self.logs).retain(|l| l.number > oldest.log);
            self.remove_logs(before, oldest.log);
            self.signal(false, true);
        }
    }

    /// The newest log that exists is newer than this one.
    pub(crate) fn log_follows(&self, log: u64) -> bool {
        self.last_log.load(Ordering::Acquire) > log
    }

    pub(crate) fn signal(&self, flush: bool, compact: bool) {
        let mut signals = lock(&self.signals);
        signals.flush |= flush;
        signals.compact |= compact;
        self.work.notify_all();
    }

    /// Does what the threads would do.
    pub(crate) fn tidy(&self) -> Result<()> {
        if !self.state().sealed.is_empty() {
            self.flush_sealed()?;
            self.compact_all(false)?;
        }
        Ok(())
    }

    /// Waits for work: whether there is some or the pause is over, `None` when the store closes.
    pub(crate) fn wait(
        &self,
        mine: impl Fn(&mut Signals) -> bool,
        pause: Option<Duration>,
    ) -> Option<bool> {
        let mut found = false;
        let nothing = |signals: &mut Signals| {
            found = mine(signals);
            !found && !signals.stop
        };
        let waited = self.work.wait_timeout_while(
            lock(&self.signals),
            pause.unwrap_or(Duration::MAX),
            nothing,
        );
        let (signals, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (!signals.stop).then_some(found)
    }

    pub(crate) fn flush_loop(&self) {
        while self.wait(|s| std::mem::take(&mut s.flush), None).is_some() {
            if let Err(e) = self.flush_sealed() {
                self.halt(&e);
            }
        }
    }

    /// A merge that finds no room is given up, and tried again after the next flush: it holds nothing
    /// that is not in tables. Only where writers wait for it does writing stop.
    pub(crate) fn compact_loop(&self) {
        let (mut before, mut cramped) = (u64::MAX, false);
        while let Some(work) = self.wait(|s| std::mem::take(&mut s.compact), self.options.idle) {
            let seq = self.visible.load(Ordering::Acquire);
            let idle = !work && seq == before;
            before = seq;
            if self.halted.load(Ordering::Acquire) {
                continue;
            }
            let done = if idle { self.settle() } else { Ok(()) };
            let done = done.and_then(|()| {
                if work || !cramped {
                    cramped = self.compact_all(idle)?;
                }
                Ok(())
            });
            if let Err(e) = done
                && !matches!(e, Error::Closed)
            {
                self.halt(&e);
            }
        }
    }

    /// Merges as long as there is something to merge; whether it was given up for want of room.
    fn compact_all(&self, idle: bool) -> Result<bool> {
        while self.open().is_ok() {
            match self.compact_once(idle) {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) if e.is_full() && !self.writers_wait() => return Ok(true),
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }

    /// Nobody has written for a while: what is worth a table leaves the memory and the log.
    pub(crate) fn settle(&self) -> Result<()> {
        if self.state().active.size() < (64 << 10).min(self.options.memtable_size / 8) {
            return Ok(());
        }
        match self.seal() {
            // Without room for the next log everything stays where it is.
            Err(e) if e.is_full() => Ok(()),
            sealed => sealed.and_then(|()| self.flush_sealed()),
        }
    }

    pub(crate) fn sync_loop(&self, pause: Duration) {
        while self.wait(|_| false, Some(pause)).is_some() {
            if self.force(self.visible.load(Ordering::Acquire)).is_err() {
                return;
            }
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        let state = self.state();
        let c = &self.counters;
        let level = |run: &Arc<[Arc<Table>]>| Level {
            tables: run.len(),
            bytes: run.iter().map(|t| t.meta.size).sum(),
            entries: run.iter().map(|t| t.meta.entries).sum(),
            deletions: run.iter().map(|t| t.meta.deletions).sum(),
        };
        let current = lock(&self.commit).log.as_ref().map_or(0, |l| l.forced.written());
        Stats {
            sequence: self.visible.load(Ordering::Acquire),
            memtable: state.active.size(),
            sealed: state.sealed.len(),
            levels: state.version.levels.iter().map(level).collect(),
            cache: self.cache.used(),
            block_reads: self.cache.reads.load(Ordering::Relaxed),
            flushes: c.flushes.read(),
            compactions: c.compactions.read(),
            moved: c.moved.load(Ordering::Relaxed),
            slowdowns: c.slowdowns.read(),
            stops: c.stops.read(),
            syncs: c.syncs.read(),
            user_bytes: c.user_bytes.load(Ordering::Relaxed),
            log_bytes: c.log_bytes.load(Ordering::Relaxed) + current,
            flushed_bytes: c.flushed_bytes.load(Ordering::Relaxed),
            compacted_bytes: c.compacted_bytes.load(Ordering::Relaxed),
        }
    }
}
