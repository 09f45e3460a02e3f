//! What the journal says of a rebuilt table whose rowids no column shows: rows before the rebuild, and
//! the way from there to now.
//!
//! A rebuild leaves no entry. Where it lost the triggers, all entries are of before it. Where the
//! triggers were made again, entries before the *seam* name rowids of the old table, and those after
//! it rowids of the new one.

use crate::Result;
use crate::capture::Event;
use crate::catalog::{Loc, Tracked};
use crate::journal;
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::Value;

/// Between two inserts no more rows than these are taken for ones that have no entry of their own.
const FURTHEST: usize = 65_536;

/// An entry of a table that has rowids.
pub(super) struct Entry {
    seq: i64,
    event: Event,
    at: i64,
    /// When, the same throughout a statement.
    time: f64,
    /// Of an insert the largest rowid then, of an update where the row went.
    other: Option<i64>,
    /// Numbers of the columns that an update wrote.
    columns: Vec<u32>,
}

/// Rowids at which a row was before the first of these entries, as they tell.
pub(super) fn there_before(entries: &[Entry]) -> BTreeSet<i64> {
    let (mut there, mut came) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries {
        if entry.event != Event::Insert && !came.contains(&entry.at) {
            there.insert(entry.at);
        }
        let came_to = if entry.event == Event::Insert { Some(entry.at) } else { entry.other };
        came.extend(came_to);
    }
    there
}

/// Reads the entries of a table.
pub(super) fn entries(conn: &Connection, t: &Tracked) -> Result<Vec<Entry>> {
    let sql = "SELECT seq, ev, a, b, m, at FROM synqlite_journal ORDER BY seq";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let (no, event) = Event::read(row.get(1)?)?;
        if no != t.no {
            continue;
        }
        let places = matches!(event, Event::Insert | Event::Update);
        entries.push(Entry {
            seq: row.get(0)?,
            event,
            at: row.get(2)?,
            time: row.get(5)?,
            other: if places { row.get(3)? } else { None },
            columns: journal::columns_of_mask(row.get_ref(4)?)?,
        });
    }
    Ok(entries)
}

/// Forgets one entry.
pub(super) fn forget(conn: &Connection, entry: &Entry) -> Result<()> {
    let sql = "DELETE FROM synqlite_journal WHERE seq = ?1";
    conn.prepare_cached(sql)?.execute([entry.seq])?;
    Ok(())
}

impl Entry {
    /// Whether it is one of these.
    pub fn is_among(&self, entries: &[i64]) -> bool {
        entries.contains(&self.seq)
    }

    /// Whether it says what a statement is about to write over.
    fn announces(&self) -> bool {
        !matches!(self.event, Event::Insert | Event::Update | Event::Delete)
    }
}

/// Whether a rebuild before the entry at `cut` would come between entries that one statement seems to have made.
pub(super) fn tears(entries: &[Entry], cut: usize) -> bool {
    let last = cut.checked_sub(1).and_then(|last| entries.get(last));
    let next = entries.get(cut);
    last.zip(next).is_some_and(|(last, next)| last.announces() && last.time == next.time)
}

/// A row that may have given way to one that was about to be written.
struct Rival {
    at: i64,
    time: f64,
}

/// Rows just before the rebuild.
#[derive(Default)]
pub(super) struct Before {
    /// Their rowids, each with that at the last fold.
    pub rows: BTreeMap<i64, Option<i64>>,
    /// Columns written until then, by the rowid at the last fold.
    pub written: HashMap<i64, BTreeSet<u32>>,
    /// What deletes found, by the rowid at the last fold.
    deleted: Vec<(i64, i64)>,
    /// Entries of updates where they were of rows that came since the last fold.
    of_new: Vec<i64>,
    /// Rows that may have no entry of their own are at larger rowids.
    above: Option<i64>,
    /// Rowids of those of them that are gone again.
    went: BTreeSet<i64>,
    /// Whether rows of which an entry says that they may give way do so.
    gives_way: bool,
    /// Entries that do not fit what those before them say.
    pub strange: usize,
}

impl Before {
    /// From rows at the last fold and what happened since.
    pub fn replay(known: &BTreeSet<i64>, entries: &[Entry], gives_way: bool) -> Before {
        let rows = known.iter().map(|&rowid| (rowid, Some(rowid))).collect();
        let mut before = Before { rows, gives_way, ..Before::default() };
        before.go_on(entries);
        before
    }

    /// What happened next.
    pub fn go_on(&mut self, entries: &[Entry]) {
        let mut rivals: Vec<Rival> = Vec::new();
        for entry in entries {
            self.step(entry, &mut rivals);
        }
    }

    /// Copies the rows in their order: the nth has rowid n.
    pub fn copy(&mut self) {
        self.rows = (1..).zip(std::mem::take(&mut self.rows).into_values()).collect();
        (self.above, self.went) = (None, BTreeSet::new());
    }

    fn step(&mut self, entry: &Entry, rivals: &mut Vec<Rival>) {
        let &Entry { at, other, time, .. } = entry;
        // Rivals of a statement that did nothing are still there.
        let displaced = match entry.event {
            Event::Insert | Event::Update => std::mem::take(rivals),
            _ => vec![],
        };
        let own = |rival: &Rival| entry.event == Event::Update && rival.at == at;
        let gives_way = |rival: &&Rival| self.gives_way && rival.time == time && !own(rival);
        for rival in displaced.iter().filter(gives_way) {
            self.rows.remove(&rival.at);
        }
        match entry.event {
            Event::Insert => {
                self.fill(at);
                self.strange += usize::from(self.rows.insert(at, None).is_some());
                let past = other.and_then(|above| above.checked_add(1));
                let past = past.and_then(|past| self.rows.range(past..).next());
                self.strange += usize::from(past.is_some());
                self.above = other.or(self.above);
            }
            Event::Update => {
                let Some(from) = self.leave(at) else { return };
                match from {
                    Some(from) => self.written.entry(from).or_default().extend(&entry.columns),
                    None if other.is_none() => self.of_new.push(entry.seq),
                    None => {}
                }
                self.strange += usize::from(self.rows.insert(other.unwrap_or(at), from).is_some());
            }
            Event::Delete => {
                if let Some(Some(from)) = self.leave(at) {
                    self.deleted.push((from, entry.seq));
                }
            }
            Event::Replace | Event::Rival => {
                self.strange += usize::from(!self.rows.contains_key(&at) && !self.unnoted(at));
                rivals.push(Rival { at, time });
            }
            _ => {}
        }
    }

    /// Whether a row at `at` may have no entry of its own.
    fn unnoted(&self, at: i64) -> bool {
        self.above.is_some_and(|above| at > above)
    }

    /// Takes the row at `at` away, with its rowid at the last fold.
    fn leave(&mut self, at: i64) -> Option<Option<i64>> {
        let found = self.rows.remove(&at);
        let unnoted = found.is_none() && self.unnoted(at);
        self.strange += usize::from(found.is_none() && !unnoted);
        self.went.extend(unnoted.then_some(at));
        found.or(Some(None))
    }

    /// A row that came to a rowid past the next one did so after rows that have no entry of their own.
    fn fill(&mut self, at: i64) {
        let free: Vec<i64> = match self.free() {
            Some(free) => free.take_while(|rowid| *rowid < at).take(FURTHEST).collect(),
            None => return,
        };
        if free.len() < FURTHEST {
            self.rows.extend(free.into_iter().map(|rowid| (rowid, None)));
        }
        self.went.clear();
    }

    /// Rowids that rows without an entry of their own may have, and no other row has, in ascending order.
    fn free(&self) -> Option<impl Iterator<Item = i64> + use<>> {
        let above = self.above?;
        let last = self.rows.last_key_value().map_or(above, |(last, _)| above.max(*last));
        let went = self.went.clone();
        let further = (1..).map_while(move |i| last.checked_add(i));
        Some(further.filter(move |rowid| !went.contains(rowid)))
    }

    /// Adds rows that have no entry of their own, of which there are so many.
    pub fn add_unnoted(&mut self, count: usize) {
        let Some(free) = self.free() else { return };
        self.rows.extend(free.take(count).map(|rowid| (rowid, None)));
    }

    /// Rows that were deleted: the rowid at the last fold, and the entry with what it was.
    pub fn deleted(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.deleted.iter().copied()
    }

    /// Entries of updates where they were of rows that came since the last fold.
    pub fn of_new(&self) -> &[i64] {
        &self.of_new
    }

    /// Whether the nth row has rowid n, so that a copy changes none.
    pub fn in_order(&self) -> bool {
        self.rows.keys().copied().eq((1..).take(self.rows.len()))
    }

    /// Positions of the columns that the row which was at `from` at the last fold was written in.
    pub fn written(&self, t: &Tracked, from: i64) -> BTreeSet<usize> {
        positions(t, self.written.get(&from).into_iter().flatten())
    }
}

fn positions<'n>(t: &Tracked, numbers: impl Iterator<Item = &'n u32>) -> BTreeSet<usize> {
    numbers.filter_map(|no| t.column_nos.iter().position(|n| n == no)).collect()
}

/// What became of a row since the rebuild.
#[derive(Clone, Default)]
struct Fate {
    /// What tells its values.
    from: Source,
    /// Columns written since the rebuild.
    written: BTreeSet<u32>,
}

#[derive(Clone, Copy, Default)]
enum Source {
    /// The row at a rowid now.
    Table(i64),
    /// The before-image of an entry.
    Image(i64),
    #[default]
    Nothing,
}

/// Rows just after the rebuild.
pub(super) struct After {
    /// Their rowids.
    pub rows: BTreeSet<i64>,
    /// Those of which entries since tell something.
    fates: HashMap<i64, Fate>,
    /// Entries that do not fit what those after them say.
    pub strange: usize,
}

impl After {
    /// From the rows there are now, and what happened before.
    pub fn undo(now: &BTreeSet<i64>, entries: &[Entry]) -> After {
        let mut after = After { rows: now.clone(), fates: HashMap::new(), strange: 0 };
        for entry in entries.iter().rev() {
            after.step_back(entry);
        }
        after
    }

    fn take(&mut self, at: i64) -> Option<Fate> {
        let there = self.rows.remove(&at);
        let fate = self.fates.remove(&at);
        there.then(|| fate.unwrap_or(Fate { from: Source::Table(at), ..Fate::default() }))
    }

    fn put(&mut self, at: i64, fate: Fate) {
        self.strange += usize::from(!self.rows.insert(at));
        self.fates.insert(at, fate);
    }

    fn step_back(&mut self, entry: &Entry) {
        let &Entry { at, other, seq, .. } = entry;
        match entry.event {
            Event::Insert => {
                self.strange += usize::from(self.take(at).is_none());
                // What is past all that there were then came later, without an entry of its own.
                if let Some(next) = other.and_then(|above| above.checked_add(1)) {
                    let later = self.rows.split_off(&next);
                    later.iter().for_each(|at| drop(self.fates.remove(at)));
                }
            }
            Event::Update => {
                let found = self.take(other.unwrap_or(at));
                self.strange += usize::from(found.is_none());
                let mut fate = found.unwrap_or_default();
                fate.written.extend(&entry.columns);
                self.put(at, fate);
            }
            Event::Delete => self.put(at, Fate { from: Source::Image(seq), ..Fate::default() }),
            Event::Replace | Event::Rival if !self.rows.contains(&at) => {
                self.put(at, Fate { from: Source::Image(seq), ..Fate::default() });
            }
            _ => {}
        }
    }

    /// What the row at `at` showed just after the rebuild, with the positions of columns of which
    /// that is not known.
    pub fn read(
        &self,
        conn: &Connection,
        t: &Tracked,
        at: i64,
    ) -> Result<Option<(Vec<Value>, BTreeSet<usize>)>> {
        let fate = self.fates.get(&at);
        let row = match fate.map_or(Source::Table(at), |fate| fate.from) {
            Source::Table(now) => t.read(conn, &Loc::Row(now))?,
            Source::Image(seq) => journal::image(conn, t, seq)?,
            Source::Nothing => None,
        };
        let written = fate.into_iter().flat_map(|fate| &fate.written);
        Ok(row.map(|row| (row, positions(t, written))))
    }

    /// Rowids of rows of which entries tell something.
    pub fn named(&self) -> impl Iterator<Item = i64> + '_ {
        self.fates.keys().copied()
    }
}

/// Gives what came after the rebuild the rowids that it would have had without one, in the journal.
/// `were`: where rows just after the rebuild had been. `taken`: rowids that others have had. Returns where all
/// rows are and where they belong; those that came since are past all others, where so many numbers are left.
pub(super) fn translate(
    conn: &Connection,
    entries: &[Entry],
    mut were: BTreeMap<i64, i64>,
    now: &BTreeSet<i64>,
    taken: &BTreeSet<i64>,
) -> Result<Vec<(Loc, Loc)>> {
    let named = || {
        let entries = entries.iter().flat_map(|entry| entry.other.into_iter().chain([entry.at]));
        entries.chain(now.iter().copied()).filter(|&rowid| rowid > 0)
    };
    let past = taken.last().map_or(0, |past| (*past).max(0));
    let room = named().max().is_none_or(|last| past.checked_add(last).is_some());
    // Below them nothing is the largest rowid, so each of these rows has to have an entry of its own.
    let below: BTreeMap<i64, i64> = match room {
        true => BTreeMap::new(),
        false => {
            let free = |rowid: &i64| !taken.contains(rowid) && !now.contains(rowid);
            let named: BTreeSet<i64> = named().collect();
            named.into_iter().rev().zip((i64::MIN..0).rev().filter(free)).collect()
        }
    };
    let new = |rowid: i64| match below.get(&rowid) {
        Some(below) => *below,
        None if rowid > 0 => past + rowid,
        None => rowid,
    };
    let largest = |rowid: i64| if room { new(rowid) } else { i64::MAX };
    let place = |were: &BTreeMap<i64, i64>, rowid: i64| {
        were.get(&rowid).copied().unwrap_or_else(|| new(rowid))
    };
    let sql = "UPDATE synqlite_journal SET a = ?2, b = ifnull(?3, b) WHERE seq = ?1";
    let mut statement = conn.prepare(sql)?;
    for entry in entries {
        let &Entry { at, other, seq, .. } = entry;
        if entry.event == Event::Insert {
            were.remove(&at);
            // None of these can be there any more.
            if let Some(next) = other.and_then(|above| above.checked_add(1)) {
                were.split_off(&next);
            }
        }
        let other_now = other.map(|other| match entry.event {
            Event::Insert => largest(other),
            _ => new(other),
        });
        statement.execute(params![seq, place(&were, at), other_now])?;
        match (entry.event, other) {
            (Event::Update, Some(to)) => {
                were.remove(&at);
                were.remove(&to);
            }
            (Event::Delete, _) => drop(were.remove(&at)),
            _ => {}
        }
    }
    let places = now.iter().map(|&rowid| (Loc::Row(rowid), Loc::Row(place(&were, rowid))));
    Ok(places.collect())
}
