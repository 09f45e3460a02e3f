//! Counters: what the store did since it was opened, and what it holds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A count and the time it took.
#[derive(Default)]
pub(crate) struct Timed {
    count: AtomicU64,
    nanos: AtomicU64,
}

impl Timed {
    pub(crate) fn since(&self, start: Instant) {
        self.count.fetch_add(1, Relaxed);
        self.nanos.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
    }

    pub(crate) fn read(&self) -> Pace {
        Pace {
            count: self.count.load(Relaxed),
            time: Duration::from_nanos(self.nanos.load(Relaxed)),
        }
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) flushes: Timed,
    pub(crate) compactions: Timed,
    pub(crate) slowdowns: Timed,
    pub(crate) stops: Timed,
    pub(crate) syncs: Timed,
    pub(crate) moved: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) compacted_bytes: AtomicU64,
}

/// How often something happened and how long it took in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Times.
    pub count: u64,
    /// Time spent.
    pub time: Duration,
}

/// The tables of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Number of tables.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries, older versions and deletions included.
    pub entries: u64,
    /// Deletions among the entries.
    pub deletions: u64,
}

/// A reading of the store's counters.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Sequence of the newest change.
    pub sequence: u64,
    /// Bytes in the active memtable.
    pub memtable: usize,
    /// Full memtables that wait to be flushed.
    pub sealed: usize,
    /// Levels of tables, newest first.
    pub levels: Vec<Level>,
    /// Bytes of blocks in the cache.
    pub cache: usize,
    /// Blocks read from files.
    pub block_reads: u64,
    /// Memtables written as tables.
    pub flushes: Pace,
    /// Merges of tables.
    pub compactions: Pace,
    /// Tables moved down without rewriting.
    pub moved: u64,
    /// Writes that were slowed because flushes or compactions lag.
    pub slowdowns: Pace,
    /// Writes that had to wait until a flush or a compaction was done.
    pub stops: Pace,
    /// Forces of the log to the device.
    pub syncs: Pace,
    /// Bytes of keys and values written by callers.
    pub user_bytes: u64,
    /// Bytes written to logs.
    pub log_bytes: u64,
    /// Bytes of tables written by flushes.
    pub flushed_bytes: u64,
    /// Bytes of tables written by compactions.
    pub compacted_bytes: u64,
}
