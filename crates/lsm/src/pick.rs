//! What is worth a compaction.
//!
//! Level 0 holds what changed lately. Its changes make about as much of level 1 obsolete, so what
//! level 0 holds is what the store takes beyond its live data; merging it costs the more the less it
//! is. Both are kept small by merging one range of keys at a time, always the one with the most
//! changes: while level 0 as a whole holds a share *s* of level 1, the range in turn has gathered
//! 2*s*, and a byte is rewritten 1 / 2*s* times. Merging all ranges at once would rewrite it twice
//! as often in the same space.
//!
//! Flushes therefore cut their tables where ranges of level 1 begin. Changes that replace nothing
//! leave nothing obsolete: how many do is known from the last merge, and where few do, level 0 may
//! grow larger. Deletions count for what they make obsolete, not for their own size;
//! a store that is large beside a memtable does not let them wait.
//!
//! Small tables of level 0 are merged among themselves meanwhile. A deeper level that outgrows its
//! size hands one table after the other to the next.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::compact::{Job, bytes, entries};
use crate::engine::{Inner, Shape};
use crate::manifest::LEVELS;
use crate::table::Table;
use crate::version::Version;

/// Share of level 1 that level 0 may hold, and that it may have made obsolete, before a range of it
/// is merged.
const RATIO: f64 = 1.2;
const STALE: f64 = 0.27;
/// How much more may be obsolete before writers slow down, and by how many times this at most.
const SLACK: f64 = 0.04;
const SLOWEST: f64 = 6.0;
/// The share of a range that is worth a merge when nobody has written for a while.
const IDLE_RATIO: f64 = 0.05;
/// Tables of level 0 that are merged however large level 1 is: fewer than slow writers down.
const MANY: usize = 18;
/// Tables of level 1 that make a range, and how many ranges there are at most.
const RANGE: (u64, u64) = (4, 16);
/// Memtables' worth of sorted levels from which on a store gives back the room of deleted entries
/// without waiting for the idle time, until it is all but empty.
const LARGE: u64 = 4;
/// How much larger each level may be than the one above.
const GROWTH: u64 = 10;

/// How much tables of level 0 hold beside those below them.
struct Weight {
    bytes: f64,
    entries: f64,
    deletions: u64,
    bytes_below: f64,
    below: u64,
}

impl Weight {
    fn of(upper: &[Arc<Table>], lower: &[Arc<Table>]) -> Weight {
        Weight {
            bytes: bytes(upper) as f64,
            entries: entries(upper) as f64,
            deletions: upper.iter().map(|t| t.meta.deletions).sum(),
            bytes_below: bytes(lower).max(1) as f64,
            below: entries(lower),
        }
    }

    /// Bytes or entries over those below.
    fn share(&self) -> f64 {
        (self.bytes / self.bytes_below).max(self.entries / self.below.max(1) as f64)
    }

    /// Whether half of what is below may be deleted.
    fn dead(&self) -> bool {
        self.deletions > 0 && self.deletions >= self.below / 2
    }

    /// The share of what is below that is obsolete, if this share of the changes replaces anything.
    fn stale(&self, share: f64) -> f64 {
        share * self.entries / self.below.max(1) as f64
    }
}

/// Level 0 as merges with level 1 that have no key in common: one for each range between cuts, or
/// for several of them where tables were cut otherwise.
fn ranges(version: &Version, cuts: &[Vec<u8>]) -> Vec<(Job, Weight)> {
    let mut tables: Vec<_> = version.levels[0].to_vec();
    tables.sort_by(|a, b| a.meta.first.cmp(&b.meta.first));
    let range = |key: &[u8]| cuts.partition_point(|cut| cut.as_slice() > key);
    let mut groups: Vec<Vec<Arc<Table>>> = Vec::new();
    let mut end: &[u8] = &[];
    for table in &tables {
        let apart = table.meta.first.as_slice() > end && range(&table.meta.first) != range(end);
        match groups.last_mut() {
            Some(group) if !apart => group.push(table.clone()),
            _ => groups.push(vec![table.clone()]),
        }
        end = end.max(&table.meta.last);
    }
    groups
        .into_iter()
        .filter_map(|mut upper| {
            upper.sort_by_key(|t| Reverse((t.meta.newest, t.meta.number)));
            let job = Job::new(version, 0, upper, 1)?;
            let weight = Weight::of(&job.upper, &job.lower);
            Some((job, weight))
        })
        .collect()
}

impl Inner {
    /// Where a flush is cut: level 1 in ranges of about the same size. The cuts stay until level 1
    /// is much larger or smaller, because only tables cut alike can be merged range by range.
    pub(crate) fn cuts(&self, shape: &mut Shape, version: &Version) -> Vec<Vec<u8>> {
        let range = RANGE.0 * self.options.table_size as u64;
        let wanted = (version.bytes(1) / range).clamp(1, RANGE.1) as usize;
        let ranges = shape.cuts.len() + 1;
        if wanted >= 2 * ranges || 4 * wanted <= ranges {
            let run = &version.levels[1];
            let start = |i: usize| run[i * run.len() / wanted].meta.first.clone();
            shape.cuts = (1..wanted).rev().map(start).collect();
        }
        shape.cuts.clone()
    }

    /// Notes how far compactions lag behind, and how many deletions are worth one.
    pub(crate) fn weigh(&self, shape: &mut Shape, version: &Version) {
        let memtable = self.options.memtable_size as u64;
        let bytes: u64 = (0..LEVELS).map(|level| version.bytes(level)).sum();
        shape.large |= bytes - version.bytes(0) >= LARGE * memtable;
        shape.large &= bytes >= memtable / 8;
        let whole = Weight::of(&version.levels[0], &version.levels[1]);
        let due = version.runs[0].len() >= self.options.tables_per_compaction + 2
            || shape.large && whole.dead();
        let excess = if due { (whole.stale(shape.stale) - STALE) / SLACK } else { 0.0 };
        self.behind.store(excess.clamp(0.0, SLOWEST) as u32, Ordering::Relaxed);
        let living = |t: &Table| t.meta.entries.saturating_sub(t.meta.deletions);
        let entries: u64 = version.tables().map(|(_, t)| living(t)).sum();
        // At least one: without any an empty memtable would be replaced at every write.
        let least = (self.options.memtable_size / 2048).max(1);
        let due =
            if shape.large { entries as f64 / 4.0 / shape.stale.max(0.01) } else { f64::INFINITY };
        self.deletions_due.store((due as usize).max(least), Ordering::Relaxed);
    }

    /// What level 0 needs next.
    fn pick_level0(&self, shape: &Shape, version: &Version, idle: bool) -> Option<Job> {
        let due = self.options.tables_per_compaction;
        let mut ranges = ranges(version, &shape.cuts);
        let whole = Weight::of(&version.levels[0], &version.levels[1]);
        let heavy = whole.share() >= RATIO || whole.stale(shape.stale) >= STALE;
        let ripe = |(job, weight): &(Job, Weight)| {
            let tables = job.upper.len();
            heavy && (tables >= due || shape.large && weight.dead())
                || tables >= due.max(MANY)
                || idle && weight.share() >= IDLE_RATIO
        };
        let share = |i: usize| ranges[i].1.share();
        let heaviest = (0..ranges.len())
            .filter(|i| ripe(&ranges[*i]))
            .max_by(|a, b| share(*a).total_cmp(&share(*b)));
        if let Some(i) = heaviest {
            return Some(ranges.swap_remove(i).0);
        }
        ranges.iter().find_map(|(range, _)| {
            // The newest tables, as long as each is small and not much larger than those after it.
            let limit = self.options.memtable_size as u64 / 2 / (shape.cuts.len() as u64 + 1);
            let mut sum = 0;
            let small = range.upper.iter().take_while(|t| {
                let fits = t.meta.size <= limit && (sum == 0 || t.meta.size <= 2 * sum);
                sum += t.meta.size;
                fits
            });
            let chosen: Vec<_> = small.cloned().collect();
            if chosen.len() < due { None } else { Job::new(version, 0, chosen, 0) }
        })
    }

    pub(crate) fn pick(&self, shape: &mut Shape, version: &Version, idle: bool) -> Option<Job> {
        if shape.cuts.is_empty() {
            // A store that was just opened: its level 0 was cut about like this.
            self.cuts(shape, version);
        }
        if let Some(job) = self.pick_level0(shape, version, idle) {
            return Some(job);
        }
        let mut limit = self.options.level_size;
        for level in 1..LEVELS - 1 {
            if version.bytes(level) > limit {
                let run = &version.levels[level];
                let hand = &shape.hands[level];
                let next = run.iter().find(|t| t.meta.first > *hand).or(run.first())?;
                shape.hands[level] = next.meta.first.clone();
                return Job::new(version, level, vec![next.clone()], level + 1);
            }
            limit = limit.saturating_mul(GROWTH);
        }
        None
    }
}
