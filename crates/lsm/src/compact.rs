//! Flushes and compactions: memtables become tables, tables move down the levels.
//!
//! What is merged next is the matter of `pick`. A table that overlaps nothing on the next level is
//! moved without being rewritten.
//!
//! A merge goes on part by part, each of a few tables of the lower level: what a part replaces is gone
//! before the next one needs room, so nobody here holds a version or a table longer than needed. The
//! upper tables stay until the end; until then they say the same as the new ones below them.
//!
//! Of each key only the newest version survives: readers keep the tables they read from, so no
//! older version has a reader. A deletion survives until no deeper table can hold its key; what is
//! dropped then is noted as forgotten, for those who follow the changes.

use std::io::{self, ErrorKind};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::engine::{Inner, Shape};
use crate::error::{At, Error, Result};
use crate::locked::lock;
use crate::manifest::{Edit, LEVELS};
use crate::memtable::{Entry, Memtable};
use crate::merge::{Merge, RunSource, Source};
use crate::table::{Builder, Table};
use crate::version::{self, Version};

/// Tables of the lower level that are merged at a time.
const PART: usize = 2;
/// Tables to be merged.
pub(crate) struct Job {
    /// Newest first for any key.
    pub(crate) upper: Vec<Arc<Table>>,
    from: usize,
    /// Tables of the target level that overlap.
    pub(crate) lower: Vec<Arc<Table>>,
    to: usize,
}

impl Job {
    /// A merge of tables into a level; `None` without tables.
    pub(crate) fn new(
        version: &Version,
        from: usize,
        upper: Vec<Arc<Table>>,
        to: usize,
    ) -> Option<Job> {
        if upper.is_empty() {
            return None;
        }
        let (first, last) = span(upper.iter());
        let lower = if from == to { Vec::new() } else { version.overlapping(to, &first, &last) };
        Some(Job { from, lower, to, upper })
    }

    /// Whether the tables can change level as they are; those of a sorted level do not overlap.
    fn movable(&self) -> bool {
        self.from > 0 && self.lower.is_empty()
    }
}

/// The keys of a job from one on and before another, and the lower tables that hold them.
struct Part {
    from: Option<Vec<u8>>,
    before: Option<Vec<u8>>,
    lower: Vec<Arc<Table>>,
}

/// Takes the next part of a job from its lower tables; the one before ended at `from`.
fn next_part(lower: &mut Vec<Arc<Table>>, from: Option<Vec<u8>>) -> Part {
    let taken = lower.drain(..lower.len().min(PART)).collect();
    Part { from, before: lower.first().map(|t| t.meta.first.clone()), lower: taken }
}

/// Writes tables one after the other, each up to the table size.
struct Output<'a> {
    db: &'a Inner,
    base: u64,
    limit: usize,
    /// Keys at which a table ends however small it is, the next one last.
    cuts: Vec<Vec<u8>>,
    builder: Option<Builder>,
    done: Vec<Arc<Table>>,
}

impl Output<'_> {
    fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        let mut full = self.builder.as_ref().is_some_and(|b| b.size() >= self.limit);
        while self.cuts.pop_if(|cut| cut.as_slice() <= entry.key).is_some() {
            full = true;
        }
        if full {
            self.finish()?;
        }
        let start = || Builder::new(self.db.new_file(), self.base, &self.db.options);
        self.builder.get_or_insert_with(start).add(entry);
        Ok(())
    }

    /// Writes the table in hand and forces it.
    fn finish(&mut self) -> Result<()> {
        let Some(builder) = self.builder.take() else { return Ok(()) };
        let folder = &self.db.folder;
        let table = Table::new(folder, &self.db.cache, builder.write(folder)?);
        // Until it is installed the table goes away with its last user.
        table.retire();
        self.done.push(table);
        Ok(())
    }

    /// Finishes, and forces the folder entries.
    fn close(mut self) -> Result<Vec<Arc<Table>>> {
        self.finish()?;
        if !self.done.is_empty() {
            self.db.folder.sync()?;
        }
        Ok(self.done)
    }
}

/// First and last key of some tables.
fn span<'a>(tables: impl Iterator<Item = &'a Arc<Table>> + Clone) -> (Vec<u8>, Vec<u8>) {
    let first = tables.clone().map(|t| &t.meta.first).min().cloned().unwrap_or_default();
    (first, tables.map(|t| &t.meta.last).max().cloned().unwrap_or_default())
}

pub(crate) fn bytes(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|t| t.meta.size).sum()
}

pub(crate) fn entries(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|t| t.meta.entries).sum()
}

impl Inner {
    fn output(&self, base: u64, limit: usize) -> Output<'_> {
        Output { db: self, base, limit, cuts: Vec::new(), builder: None, done: Vec::new() }
    }

    /// Writes a memtable as tables: on level 1 if it overlaps nothing there or above, as keys that
    /// arrive in order do, else as one table of level 0.
    pub(crate) fn flush_one(&self, memtable: &Memtable) -> Result<()> {
        let (mut first, mut last, mut newest, mut base) = (Vec::new(), Vec::new(), 0, u64::MAX);
        memtable.chunk(None, 1, false, |e| first = e.key.to_vec());
        memtable.chunk(None, 1, true, |e| last = e.key.to_vec());
        memtable.visit(|e| {
            newest = newest.max(e.seq);
            base = base.min(e.seq);
            Ok::<_, Error>(())
        })?;
        let mut shape = lock(&self.shape);
        let sorted = self.fits_level1(&shape, &first, &last);
        let mut output =
            self.output(base, if sorted { self.options.table_size } else { usize::MAX });
        if !sorted {
            output.cuts = self.cuts(&mut shape, &self.state().version);
        }
        drop(shape);
        memtable.visit(|entry| output.add(entry))?;
        let tables = output.close()?;
        self.counters.flushed_bytes.fetch_add(bytes(&tables), Ordering::Relaxed);
        let mut shape = lock(&self.shape);
        let level = usize::from(sorted && self.fits_level1(&shape, &first, &last));
        let (log, open) = (memtable.log + 1, self.log_follows(memtable.log));
        let edit = Edit { seq: newest.max(shape.said.seq), log, open, ..shape.said.clone() };
        self.install(&mut shape, edit, level, &tables, Some(memtable.log))
    }

    fn fits_level1(&self, shape: &Shape, first: &[u8], last: &[u8]) -> bool {
        let version = &self.state().version;
        let clear =
            |level: usize| version.levels[level].iter().all(|t| !t.meta.overlaps(first, last));
        let merging = shape
            .merging
            .as_ref()
            .is_some_and(|(a, b)| a.as_slice() <= last && first <= b.as_slice());
        clear(0) && clear(1) && !merging
    }

    /// Does one compaction if one is due; `false` if none is.
    pub(crate) fn compact_once(&self, idle: bool) -> Result<bool> {
        let _one = lock(&self.compacting);
        // The version is given back before the job runs: it would keep the files that leave.
        let job = self.pick(&mut lock(&self.shape), &self.state().version, idle);
        match job {
            Some(job) => self.run(job).map(|()| true),
            None => Ok(false),
        }
    }

    /// Merges everything that may hold keys of a range, level by level.
    pub(crate) fn compact_range(&self, range: &impl RangeBounds<Vec<u8>>) -> Result<()> {
        let _one = lock(&self.compacting);
        let (start, end) = (range.start_bound(), range.end_bound());
        let inside = |t: &Arc<Table>| {
            (start, Bound::Unbounded).contains(&t.meta.last)
                && (Bound::Unbounded, end).contains(&t.meta.first)
        };
        let version = self.state().version.clone();
        let deepest =
            (0..LEVELS).rev().find(|l| version.levels[*l].iter().any(inside)).unwrap_or(0);
        drop(version);
        for level in 0..deepest.max(1) {
            let version = self.state().version.clone();
            let run = &version.levels[level];
            // On level 0 a newer table must not sink below an older one.
            let all = level == 0 && run.iter().any(inside);
            let upper = run.iter().filter(|t| all || inside(t)).cloned().collect();
            let job = Job::new(&version, level, upper, level + 1);
            drop(version);
            if let Some(job) = job {
                self.run(job)?;
            }
        }
        Ok(())
    }

    fn run(&self, mut job: Job) -> Result<()> {
        let start = Instant::now();
        if job.movable() {
            let mut shape = lock(&self.shape);
            let edit = leave(&shape, job.upper.iter());
            self.install(&mut shape, edit, job.to, &job.upper, None)?;
            self.counters.moved.fetch_add(job.upper.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        self.room_for(&job)?;
        if job.to == 1 {
            lock(&self.shape).merging = Some(span(job.upper.iter().chain(&job.lower)));
        }
        let before = entries(&job.upper) + entries(&job.lower);
        let done = self.run_parts(&mut job);
        let mut shape = lock(&self.shape);
        shape.merging = None;
        let replaced = before.saturating_sub(done?);
        if job.from == 0 && job.to == 1 {
            shape.stale = (replaced as f64 / entries(&job.upper).max(1) as f64).min(1.0);
        }
        drop(shape);
        job.upper.iter().for_each(|t| t.retire());
        self.counters.compactions.since(start);
        Ok(())
    }

    /// Whether the disk has room for what a merge adds until its upper tables leave, and for a flush
    /// meanwhile: a merge that fills the disk stops those who write. If they wait for it, it is tried;
    /// so is one of deletions, which gives room back.
    fn room_for(&self, job: &Job) -> Result<()> {
        let part = PART as u64 * self.options.table_size as u64;
        let flush = 2 * self.options.memtable_size as u64;
        let (needed, dir) = (bytes(&job.upper) + part + flush, &self.folder.dir);
        let deletes = job.upper.iter().any(|t| t.meta.deletions > 0);
        if deletes || self.folder.disk.free(dir) >= needed || self.writers_wait() {
            return Ok(());
        }
        Err(io::Error::from(ErrorKind::StorageFull)).at("merge tables of", dir)
    }

    /// Returns how many entries the new tables have.
    fn run_parts(&self, job: &mut Job) -> Result<u64> {
        let mut lower = std::mem::take(&mut job.lower);
        let (mut from, mut done) = (None, 0);
        loop {
            let part = next_part(&mut lower, from);
            from = part.before.clone();
            done += self.run_part(job, part)?;
            if from.is_none() {
                return Ok(done);
            }
        }
    }

    fn run_part(&self, job: &Job, part: Part) -> Result<u64> {
        let (tables, forgotten) = self.merge(job, &part)?;
        self.counters.compacted_bytes.fetch_add(bytes(&tables), Ordering::Relaxed);
        let leaving = if part.before.is_none() { &job.upper[..] } else { &[] };
        let mut shape = lock(&self.shape);
        let edit = Edit { forgotten, ..leave(&shape, leaving.iter().chain(&part.lower)) };
        self.install(&mut shape, edit, job.to, &tables, None)?;
        part.lower.iter().for_each(|t| t.retire());
        Ok(entries(&tables))
    }

    /// The merged tables, and the newest deletion that was dropped.
    fn merge(&self, job: &Job, part: &Part) -> Result<(Vec<Arc<Table>>, u64)> {
        let from = part.from.as_deref().map(|key| (key, u64::MAX));
        let tables = job.upper.iter().chain(&part.lower);
        let base = tables.clone().map(|t| t.meta.base).min().unwrap_or(0);
        let (first, last) = span(tables);
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for run in version::runs(job.upper.iter()).iter().chain(&version::runs(part.lower.iter())) {
            let tables = run.tables.clone();
            sources.push(Box::new(RunSource::new(tables, from, false, false, 0)?));
        }
        let version = self.state().version.clone();
        let mut deeper: Vec<Arc<Table>> =
            (job.to + 1..LEVELS).flat_map(|l| version.overlapping(l, &first, &last)).collect();
        if job.to == 0 {
            // Older tables stay on this level.
            deeper.extend(
                version.levels[0]
                    .iter()
                    .filter(|t| job.upper.iter().all(|u| u.meta.number != t.meta.number))
                    .cloned(),
            );
        }
        drop(version);
        let mut merge = Merge::new(sources, false);
        let mut output =
            self.output(base, if job.to == 0 { usize::MAX } else { self.options.table_size });
        let mut forgotten = 0;
        while let Some(entry) = merge.entry() {
            if part.before.as_deref().is_some_and(|end| entry.key >= end) {
                break;
            }
            let overlaps = |t: &Arc<Table>| t.meta.overlaps(entry.key, entry.key);
            if entry.value.is_some() || deeper.iter().any(overlaps) {
                let tables = output.done.len();
                output.add(entry)?;
                if tables != output.done.len() && self.open().is_err() {
                    return Err(Error::Closed);
                }
            } else {
                forgotten = forgotten.max(entry.seq);
            }
            merge.next_key()?;
        }
        Ok((output.close()?, forgotten))
    }
}

/// The edit by which tables leave.
fn leave<'a>(shape: &Shape, tables: impl Iterator<Item = &'a Arc<Table>>) -> Edit {
    Edit { removed: tables.map(|t| t.meta.number).collect(), ..shape.said.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::file::Real;
    use crate::folder::Folder;
    use crate::table::Meta;

    #[test]
    fn parts_meet_and_hold_each_lower_table_once() {
        let folder = Arc::new(Folder::new(Arc::new(Real), "none".as_ref()));
        let cache = Arc::new(Cache::new(0, false));
        let table = |first: u8, last: u8| {
            let meta = Meta { first: vec![first], last: vec![last], ..Meta::default() };
            Table::new(&folder, &cache, meta)
        };
        for n in 0..10 {
            let mut lower: Vec<_> = (0..n).map(|i| table(10 * i, 10 * i + 5)).collect();
            let (mut from, mut seen) = (None, 0);
            loop {
                let part = next_part(&mut lower, from);
                assert!(part.lower.len() <= PART);
                if let Some(first) = part.lower.first() {
                    assert!(part.from.is_none_or(|from| from == first.meta.first));
                }
                for t in &part.lower {
                    assert!(part.before.as_ref().is_none_or(|before| t.meta.last < *before));
                }
                seen += part.lower.len();
                from = part.before;
                if from.is_none() {
                    break;
                }
            }
            assert_eq!((seen, lower.len()), (usize::from(n), 0));
        }
    }
}
