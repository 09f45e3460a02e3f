//! The block cache: a clock over slots that live in their tables.
//!
//! A table keeps one slot for each of its blocks, so a hit costs a lock of that slot and no shared
//! state. Only a miss goes through the queue here: the oldest blocks leave unless they were used
//! since they were last considered. Blocks of dropped tables leave when their turn comes.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, Weak};

use crate::locked::lock;

/// The slots of a table.
pub(crate) trait Slots: Send + Sync {
    /// Considers a block for eviction: spares it if it was used since the last time, or empties its slot.
    fn spare(&self, block: usize) -> bool;
}

/// A block that was put in a slot.
struct Kept {
    table: Weak<dyn Slots>,
    block: usize,
    size: usize,
}

#[derive(Default)]
struct Queue {
    kept: VecDeque<Kept>,
    used: usize,
}

/// Bounds the bytes of blocks that all tables of a store hold.
pub(crate) struct Cache {
    capacity: usize,
    /// Whether tables keep their files open between reads.
    pub(crate) keep_files: bool,
    queue: Mutex<Queue>,
    /// Blocks read from files, cached or not.
    pub(crate) reads: AtomicU64,
}

impl Cache {
    pub(crate) fn new(capacity: usize, keep_files: bool) -> Cache {
        Cache { capacity, keep_files, queue: Mutex::default(), reads: AtomicU64::new(0) }
    }

    /// Whether a block of this size is worth keeping at all.
    pub(crate) fn admits(&self, size: usize) -> bool {
        size <= self.capacity
    }

    /// Notes that a table put a block in its slot; evicts others until the bound holds.
    pub(crate) fn added(&self, table: Weak<dyn Slots>, block: usize, size: usize) {
        let mut queue = lock(&self.queue);
        queue.used += size;
        queue.kept.push_back(Kept { table, block, size });
        let mut turns = 2 * queue.kept.len();
        while queue.used > self.capacity && turns > 0 {
            turns -= 1;
            let Some(oldest) = queue.kept.pop_front() else { return };
            match oldest.table.upgrade() {
                Some(table) if table.spare(oldest.block) => queue.kept.push_back(oldest),
                _ => queue.used -= oldest.size,
            }
        }
    }

    /// Bytes held at this moment, dropped tables included until their turn comes.
    pub(crate) fn used(&self) -> usize {
        lock(&self.queue).used
    }
}
