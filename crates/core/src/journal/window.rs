//! What became of the rows of a table since the last fold.

use crate::catalog::Loc;
use std::collections::BTreeMap;

/// When something happened, in milliseconds since 1970.
pub type Millis = i64;

/// Net change of one table.
#[derive(Debug, Default)]
pub struct Window {
    /// Rows that were inserted and not touched since, by rowid.
    pub appended: Vec<Run>,
    /// Other rows that came into being, by where they are now.
    pub born: BTreeMap<Loc, Born>,
    /// Rows that were there at the last fold and still are, by where they were.
    pub changed: BTreeMap<Loc, Changed>,
    /// Rows that were there at the last fold and are gone, by where they were.
    pub gone: BTreeMap<Loc, Gone>,
}

/// Rows `lo..=hi`, all there, inserted at `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First rowid.
    pub lo: i64,
    /// Last rowid.
    pub hi: i64,
    /// When.
    pub at: Millis,
}

impl Run {
    /// How many rows it is.
    pub fn len(&self) -> u64 {
        self.hi.abs_diff(self.lo) + 1
    }

    /// Puts runs of different rows in order and joins those that follow each other.
    pub fn joined(mut runs: Vec<Run>) -> Vec<Run> {
        runs.sort_unstable_by_key(|run| run.lo);
        runs.dedup_by(|next, run| {
            let follows = run.at == next.at && run.hi.checked_add(1) == Some(next.lo);
            if follows {
                run.hi = next.hi;
            }
            follows
        });
        runs
    }
}

/// A row inserted since the last fold.
#[derive(Debug, Clone, PartialEq)]
pub struct Born {
    /// When it was inserted, or last replaced by a row with its primary key.
    pub at: Millis,
    /// When it was first inserted.
    pub since: Millis,
    /// The row, by where it was at the last fold, whose primary key it took in the same instant.
    pub replaces: Option<Loc>,
    /// Columns updated later, by number, and when.
    pub written: Written,
}

impl Born {
    /// A row inserted at `at` and not written since.
    pub fn at(at: Millis) -> Born {
        Born { at, since: at, replaces: None, written: Written::new() }
    }
}

/// A row updated or replaced since the last fold.
#[derive(Debug, Clone, PartialEq)]
pub struct Changed {
    /// Where it is now.
    pub now: Loc,
    /// Columns written, by number, and when last.
    pub written: Written,
    /// Whether a row with its primary key replaced it.
    pub replaced: Option<Replaced>,
    /// Journal entry whose before-image is the keys it had at the last fold.
    pub previous: Option<i64>,
    /// Columns, by number, whose last write may have been a foreign key's action. They are among
    /// `written`.
    pub set: BTreeMap<u32, Set>,
    /// Journal entry whose before-image is the keys and counters it had at the last fold.
    pub start: Option<i64>,
    /// When it was last updated, in whatever column; 0 if it only gave way to another row.
    pub last: Millis,
    /// Whether an update left it as it was.
    pub idly: bool,
}

/// A write that may have been a foreign key's action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Set {
    /// Journal entry whose before-image is the reference just before.
    pub image: i64,
    /// When the column was last written before that, if since the last fold.
    pub since: Option<Millis>,
}

/// A REPLACE of a row by one with its primary key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replaced {
    /// When, the last time.
    pub at: Millis,
    /// Journal entry whose before-image is the row before the first time.
    pub image: i64,
    /// Journal entry after which foreign keys acted on the rows that referred to it.
    pub began: i64,
}

/// A row deleted or displaced since the last fold.
#[derive(Debug, Clone, PartialEq)]
pub struct Gone {
    /// When.
    pub at: Millis,
    /// Where it was then.
    pub was: Loc,
    /// Journal entry whose before-image is its last row. Without one it is not even sure that
    /// there was a row.
    pub image: Option<i64>,
    /// Journal entry after which foreign keys acted on the rows that referred to it.
    pub began: Option<i64>,
    /// Columns written before, by number, and when.
    pub written: Written,
    /// Journal entry whose before-image is the keys and counters it had at the last fold.
    pub start: Option<i64>,
}

impl Gone {
    /// It is known after all which entry has its last row.
    pub(super) fn had(&mut self, image: i64) {
        self.image = Some(image);
        self.began.get_or_insert(image);
        self.start.get_or_insert(image);
    }
}

/// Column numbers and when each was last written.
pub type Written = BTreeMap<u32, Millis>;

impl Window {
    /// The same window with every new row by itself.
    pub fn expanded(mut self) -> Window {
        for run in std::mem::take(&mut self.appended) {
            self.born.extend((run.lo..=run.hi).map(|rowid| (Loc::Row(rowid), Born::at(run.at))));
        }
        self
    }

    /// The earliest and the latest time in it; the largest and the smallest there is if it is empty.
    pub fn times(&self) -> (Millis, Millis) {
        let mut times = (Millis::MAX, Millis::MIN);
        let mut add = |at: Millis| times = (times.0.min(at), times.1.max(at));
        self.appended.iter().for_each(|run| add(run.at));
        let born = self.born.values().map(|b| (b.at, &b.written));
        let gone = self.gone.values().map(|g| (g.at, &g.written));
        for (at, written) in born.chain(gone) {
            add(at);
            written.values().for_each(|at| add(*at));
        }
        for changed in self.changed.values() {
            changed.replaced.iter().for_each(|r| add(r.at));
            changed.set.values().filter_map(|set| set.since).for_each(&mut add);
            changed.written.values().for_each(|at| add(*at));
            // What a key was written to in another type may not be told by more than this.
            if changed.written.is_empty() && changed.previous.is_some() && changed.last > 0 {
                add(changed.last);
            }
        }
        times
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.appended.is_empty()
            && self.born.is_empty()
            && self.changed.is_empty()
            && self.gone.is_empty()
    }
}
