//! From journal entries to the net change of each row since the last fold.
//!
//! Entries are replayed in order, so chains of moved keys, deleted and reused rowids and replaced
//! rows come out right; what a row looks like now is read from its table afterwards. Nothing here
//! writes.
//!
//! Inserts may share an entry: see [`Marks`].

mod apart;
mod begun;
mod nested;

pub use apart::{Survey, survey};

use crate::capture::{Event, MASK_BITS, SLOTS};
use crate::catalog::{Catalog, Loc, Tracked};
use crate::schema::{TableKind, quote};
use crate::sqlvalue::value;
use crate::state;
use crate::{Error, Result};
use begun::Begun;
use nested::Updates;
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::Value;

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
    fn joined(mut runs: Vec<Run>) -> Vec<Run> {
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

/// What is at a location while entries are replayed.
#[derive(Debug)]
enum Slot {
    /// A row born in this window.
    New(Born),
    /// The row that was at the first location when the window began.
    Old(Loc, Touch),
}

#[derive(Debug, Default, Clone)]
struct Touch {
    written: Written,
    previous: Option<i64>,
    /// The before-image that the next update brings with it.
    image: Option<i64>,
    set: BTreeMap<u32, Set>,
    last: Millis,
    /// The latest entry that says that a delete of the row is beginning.
    leaving: Option<i64>,
}

/// A row that a REPLACE may have displaced.
#[derive(Debug, Clone, Copy)]
struct Rival {
    seq: i64,
    at: Millis,
    by_key: bool,
}

/// Entries of inserts so far, each of which may stand for more than its own row.
///
/// A row has no entry of its own only if, when it was inserted, the last entry of the journal was of
/// an insert of the same millisecond, and the largest rowid then, `above`, was below the row's. From
/// then on, for as long as the row is there, the largest rowid is not below the row's. So its entry
/// is the latest whose `above` is below the row, and no row that was there before has such an entry
/// since it came.
#[derive(Default)]
struct Marks(Vec<Mark>);

/// An insert of the millisecond `at`, in entry `seq`; `above` was the largest rowid after it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    above: i64,
    at: Millis,
    seq: i64,
}

impl Marks {
    /// Adds the entry that follows all others. Those with a larger `above` are never asked for again.
    fn add(&mut self, mark: Mark) {
        while self.0.last().is_some_and(|last| last.above >= mark.above) {
            self.0.pop();
        }
        self.0.push(mark);
    }

    /// The latest entry whose `above` is below a rowid.
    fn of(&self, rowid: i64) -> Option<Mark> {
        let below = self.0.partition_point(|mark| mark.above < rowid);
        below.checked_sub(1).map(|i| self.0[i])
    }

    /// Rows at larger rowids may have no entry of their own.
    fn lowest(&self) -> Option<i64> {
        self.0.first().map(|mark| mark.above)
    }
}

/// Replays the entries of one table.
#[derive(Default)]
struct Replay {
    /// Number of the entry being replayed.
    seq: i64,
    marks: Marks,
    /// Locations that entries have named. Any other location still holds what it held.
    slots: HashMap<Loc, Slot>,
    /// Locations whose original row has left them, so that a new row there is no old one, and the
    /// entry by which one last did.
    left: HashMap<Loc, i64>,
    gone: BTreeMap<Loc, Gone>,
    rivals: HashMap<Loc, Vec<Rival>>,
    /// Rowids of `rivals` that may still be there.
    pending: BTreeSet<i64>,
    /// Whether a location is a primary key.
    keyed: bool,
    /// The latest row that had the primary key of a row about to be inserted.
    marked: Option<(Loc, Millis)>,
    /// Where rows of `gone` were at the last fold, by where they were when they went.
    went: HashMap<Loc, Loc>,
    /// Rows born in this window that a delete removed, and when.
    deleted: HashMap<Loc, (Millis, Born)>,
    updates: Updates,
    /// Where SQLite may convert OLD: what began in this millisecond and has not ended.
    begun: Begun,
}

impl Replay {
    fn take(&mut self, loc: &Loc) -> Option<Slot> {
        if let Some(slot) = self.slots.remove(loc) {
            return Some(slot);
        }
        if let Some(at) = self.unnoted(loc) {
            return Some(Slot::New(Born::at(at)));
        }
        (!self.left.contains_key(loc)).then(|| Slot::Old(loc.clone(), Touch::default()))
    }

    /// When a row came to `loc` that no entry has named yet, if one did.
    fn unnoted(&self, loc: &Loc) -> Option<Millis> {
        let Loc::Row(rowid) = loc else { return None };
        let mark = self.marks.of(*rowid)?;
        let left = self.left.get(loc);
        (!self.slots.contains_key(loc) && left.is_none_or(|left| *left <= mark.seq))
            .then_some(mark.at)
    }

    /// Whether the row at `loc` may have come from `was` just now: none was at `loc`, or one that gave
    /// way in this millisecond, and none is left at `was`.
    fn may_have_come(
        &self,
        conn: &Connection,
        t: &Tracked,
        was: &Loc,
        loc: &Loc,
        at: Millis,
    ) -> Result<bool> {
        let here = self.slots.contains_key(loc)
            || !self.left.contains_key(loc) && state::is_placed(conn, t, loc)?;
        let gave_way = || self.rivals.get(loc).is_some_and(|r| r.iter().any(|r| r.at == at));
        Ok(!here || gave_way() && !t.exists(conn, was)?)
    }

    fn leave(&mut self, loc: Loc) {
        self.left.insert(loc, self.seq);
    }

    fn place(&mut self, loc: Loc, slot: Slot) {
        if !matches!(&slot, Slot::Old(from, _) if *from == loc) {
            self.leave(loc.clone());
        }
        self.slots.insert(loc, slot);
    }

    /// The row at `loc` is no longer there. Returns it if it was born in this window.
    fn remove(&mut self, loc: &Loc, at: Millis, image: Option<i64>) -> Option<Born> {
        let slot = self.take(loc);
        self.leave(loc.clone());
        match slot? {
            Slot::New(born) => Some(born),
            Slot::Old(from, touch) => {
                let (began, start) = (touch.leaving.or(image), touch.previous.or(image));
                let written = touch.written;
                let gone = Gone { at, was: loc.clone(), image, began, written, start };
                self.went.insert(loc.clone(), from.clone());
                self.gone.insert(from, gone);
                None
            }
        }
    }

    fn rival(&self, loc: &Loc, by_key: bool) -> Option<Rival> {
        let marks = self.rivals.get(loc)?;
        marks.iter().rev().find(|r| r.by_key == by_key).copied()
    }

    /// The row of the last fold that was at `loc` until now, or that the row there replaced.
    fn origin(&self, loc: &Loc, at: Millis) -> Option<Loc> {
        match (self.slots.get(loc), self.deleted.get(loc)) {
            (Some(Slot::Old(from, _)), _) => Some(from.clone()),
            (Some(Slot::New(born)), _) => born.replaces.clone(),
            (None, _) if self.unnoted(loc).is_some() => None,
            (None, _) if !self.left.contains_key(loc) => Some(loc.clone()),
            (None, Some((when, born))) if *when == at => born.replaces.clone(),
            (None, _) => {
                self.went.get(loc).filter(|from| self.gone.get(from).is_some_and(|g| g.at == at))
            }
            .cloned(),
        }
    }

    /// No row is above rowid `above` now: rivals that were have been displaced.
    fn displace_above(&mut self, above: i64) {
        let displaced = match above.checked_add(1) {
            Some(next) => self.pending.split_off(&next),
            None => BTreeSet::new(),
        };
        for loc in displaced.into_iter().map(Loc::Row) {
            let there = self.slots.contains_key(&loc) || !self.left.contains_key(&loc);
            let last = self.rivals.get(&loc).and_then(|marks| marks.last().copied());
            if let Some(last) = last.filter(|_| there) {
                self.remove(&loc, last.at, Some(last.seq));
            }
        }
    }

    /// A new row at `loc`. Whatever was there has been displaced.
    fn insert(&mut self, loc: Loc, at: Millis) {
        let marked = self.marked.take().filter(|(_, when)| *when == at);
        let marked = marked.filter(|(of, _)| !self.keyed || *of == loc);
        let replaces = marked.and_then(|(of, at)| self.origin(&of, at));
        let by_key = self.rival(&loc, true);
        let mark = by_key.or_else(|| self.rival(&loc, false));
        let touched = match self.slots.get(&loc) {
            Some(Slot::Old(_, touch)) => touch.written.clone(),
            _ => Written::new(),
        };
        let displaced = self.remove(&loc, at, mark.map(|r| r.seq));
        // With recursive_triggers on, REPLACE has already said that it deleted the row.
        let marked_now = by_key.is_some_and(|r| r.at == at);
        let deleted = self.deleted.remove(&loc).filter(|(when, _)| *when == at && marked_now);
        let born = match displaced.or(deleted.map(|(_, born)| born)) {
            Some(born) if by_key.is_some() => Born { at, ..born },
            // The application's own trigger ran before ours and updated the new row.
            Some(born) => Born { replaces, written: born.written, ..Born::at(at) },
            None if mark.is_none() => Born { replaces, written: touched, ..Born::at(at) },
            None => Born { replaces, ..Born::at(at) },
        };
        self.place(loc, Slot::New(born));
    }

    fn update(&mut self, from: Loc, to: Option<Loc>, columns: &[u32], at: Millis) {
        let mut slot = self.take(&from).unwrap_or_else(|| Slot::New(Born::at(at)));
        let mut columns = Cow::Borrowed(columns);
        for act in self.updates.end(&from, to.as_ref(), &columns) {
            if let Some(Slot::Old(_, touch)) = self.slots.get_mut(&act.loc) {
                touch.take_back(&act);
            }
            columns.to_mut().extend(act.columns);
        }
        match &mut slot {
            Slot::New(born) => born.written.extend(columns.iter().map(|&c| (c, at))),
            Slot::Old(_, touch) => touch.update(&columns, at),
        }
        let Some(to) = to else { return self.place(from, slot) };
        self.leave(from);
        let mark = self.rival(&to, false);
        self.remove(&to, at, mark.map(|r| r.seq));
        self.place(to, slot);
    }

    /// Notes something of the row at `loc` if it is not one of this window.
    fn note(&mut self, loc: Loc, note: impl FnOnce(&mut Touch)) {
        let Some(mut slot) = self.take(&loc) else { return };
        if let Slot::Old(_, touch) = &mut slot {
            note(touch);
        }
        self.place(loc, slot);
    }
}

impl Touch {
    fn update(&mut self, columns: &[u32], at: Millis) {
        self.last = at;
        let image = self.image.take();
        for &c in columns {
            let since = self.written.insert(c, at);
            match image {
                Some(image) => drop(self.set.insert(c, Set { image, since })),
                None => drop(self.set.remove(&c)),
            }
        }
    }
}

/// Reads the whole journal: the net change of each table, by position in the catalog.
///
/// Entries of tables that are no longer replicated are passed over.
pub fn read(conn: &Connection, catalog: &Catalog) -> Result<Vec<Window>> {
    read_rest(conn, catalog, None)
}

/// [`read`] without what was replayed apart.
pub fn read_rest(
    conn: &Connection,
    catalog: &Catalog,
    survey: Option<&Survey>,
) -> Result<Vec<Window>> {
    let keyed = |t: &Tracked| t.table.kind != TableKind::Rowid;
    let replay = |t: &Tracked| Replay { keyed: keyed(t), ..Replay::default() };
    let mut replays: Vec<Replay> = catalog.tables.iter().map(replay).collect();
    let sql = "SELECT seq, ev, a, b, m, at FROM synqlite_journal ORDER BY seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    // A clock that jumps back must not make a later write look earlier (R-SKEW c).
    let mut ms: Millis = 0;
    while let Some(row) = rows.next()? {
        let (seq, (no, event)): (i64, _) = (row.get(0)?, Event::read(row.get(1)?)?);
        let Some(position) = catalog.position_of_no(no) else { continue };
        let t = &catalog.tables[position];
        let (replay, loc) = (&mut replays[position], t.place(row.get(2)?)?);
        ms = ms.max(millis(row.get(5)?));
        let may_be_apart = matches!(event, Event::Update | Event::Delete);
        if may_be_apart && survey.is_some_and(|survey| survey.replayed(position, &loc)) {
            continue;
        }
        replay.seq = seq;
        match event {
            Event::Insert => {
                replay.insert(loc, ms);
                if let Some(above) = row.get(3)? {
                    replay.displace_above(above);
                    replay.marks.add(Mark { above, at: ms, seq });
                }
            }
            Event::Update => {
                let to: Option<Loc> = row.get(3)?;
                let to = to.map(|to| t.place(to)).transpose()?.filter(|to| *to != loc);
                let mut begun = std::mem::take(&mut replay.begun);
                let came = |was: &Loc| replay.may_have_come(conn, t, was, &loc, ms);
                let (loc, to) = begun.update(t, &loc, to, came)?;
                replay.begun = begun;
                replay.update(loc, to, &columns_of_mask(row.get_ref(4)?)?, ms);
            }
            Event::Delete => {
                let (loc, before) = replay.begun.delete(t, loc)?;
                // Triggers that were made before the foreign key was took no image then.
                let image = match before {
                    Some(before) if has_values(conn, t, before)? => before,
                    _ => seq,
                };
                if let Some(born) = replay.remove(&loc, ms, Some(image)) {
                    replay.deleted.insert(loc, (ms, born));
                }
            }
            Event::Replace | Event::Rival => {
                let rival = Rival { seq, at: ms, by_key: event == Event::Replace };
                if rival.by_key {
                    replay.marked = Some((loc.clone(), ms));
                }
                if let Loc::Row(rowid) = loc {
                    replay.pending.insert(rowid);
                }
                replay.rivals.entry(loc).or_default().push(rival);
            }
            Event::Previous => {
                replay.begun.begin(t, &loc, None, ms);
                replay.updates.begin(loc.clone(), seq, ms);
                replay.note(loc, |touch| {
                    touch.previous.get_or_insert(seq);
                    touch.image = Some(seq);
                });
            }
            Event::Leaving => {
                replay.begun.begin(t, &loc, Some(seq), ms);
                replay.note(loc, |touch| touch.leaving = Some(seq));
            }
            // Of the image before it.
            Event::More => {}
        }
    }
    let tables = catalog.tables.iter().zip(replays);
    tables.map(|(t, replay)| settle(conn, t, replay)).collect()
}

/// [`read`] after some tables got columns that their triggers did not know, `fresh` by number of the
/// table: an update since may have written them, and did if they do not show their default.
pub fn read_altered(
    conn: &Connection,
    catalog: &Catalog,
    fresh: &BTreeMap<u32, Vec<u32>>,
) -> Result<Vec<Window>> {
    let mut windows = read(conn, catalog)?;
    for (t, window) in catalog.tables.iter().zip(&mut windows) {
        let is_fresh = |no: &u32| fresh.get(&t.no).is_some_and(|fresh| fresh.contains(no));
        let fresh: Vec<usize> =
            (0..t.column_nos.len()).filter(|&c| is_fresh(&t.column_nos[c])).collect();
        let updated = window.changed.values_mut().filter(|changed| changed.last > 0);
        for changed in updated.filter(|_| !fresh.is_empty()) {
            let Some(row) = t.read(conn, &changed.now)? else { continue };
            let written = fresh.iter().filter(|&&c| row[c] != t.default_of(c));
            changed.written.extend(written.map(|&c| (t.column_nos[c], changed.last)));
        }
    }
    Ok(windows)
}

/// Compares what the entries say with what is in the table now.
fn settle(conn: &Connection, t: &Tracked, mut replay: Replay) -> Result<Window> {
    for (loc, marks) in std::mem::take(&mut replay.rivals) {
        let last = marks[marks.len() - 1];
        let still_there = replay.slots.contains_key(&loc) || !replay.left.contains_key(&loc);
        if still_there && !t.exists(conn, &loc)? {
            replay.remove(&loc, last.at, Some(last.seq));
        }
        replay.rivals.insert(loc, marks);
    }
    let appended = unnoted(conn, t, &replay)?;
    let mut window = Window { gone: replay.gone, ..Window::default() };
    let mut changed = Vec::new();
    for (loc, slot) in replay.slots {
        match slot {
            Slot::New(born) => {
                window.born.insert(loc, born);
            }
            Slot::Old(from, touch) => {
                let Touch { written, previous, set, last, .. } = touch;
                let (now, replaced, start) = (loc, None, previous);
                let row = Changed { now, written, replaced, previous, set, start, last };
                changed.push((from, row));
            }
        }
    }
    window.changed = changed.into_iter().collect();
    pair_replaced(conn, t, &replay.rivals, &mut window)?;
    window.appended = appended;
    window.born.retain(|loc, born| match loc {
        Loc::Row(rowid) if *born == Born::at(born.at) => {
            window.appended.push(Run { lo: *rowid, hi: *rowid, at: born.at });
            false
        }
        _ => true,
    });
    window.appended = Run::joined(window.appended);
    Ok(window)
}

/// Rows that no entry names: they share one.
fn unnoted(conn: &Connection, t: &Tracked, replay: &Replay) -> Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    let (Some(lowest), Some(rowid)) = (replay.marks.lowest(), &t.table.rowid_name) else {
        return Ok(runs);
    };
    let sql = format!("SELECT {0} FROM {1} WHERE {0} > ?1 ORDER BY {0}", quote(rowid), t.target());
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([lowest])?;
    while let Some(row) = rows.next()? {
        let lo: i64 = row.get(0)?;
        let Some(at) = replay.unnoted(&Loc::Row(lo)) else { continue };
        match runs.last_mut() {
            Some(run) if run.at == at && run.hi + 1 == lo => run.hi = lo,
            _ => runs.push(Run { lo, hi: lo, at }),
        }
    }
    Ok(runs)
}

/// Milliseconds since 1970 of a Julian day.
fn millis(day: f64) -> Millis {
    (day * 86_400_000.0).round() as Millis - 210_866_760_000_000
}

/// R-CAP-REPLACE: a row displaced by one with its primary key, in the same instant, goes on as that
/// row. A DELETE and a separate INSERT leave no mark and make a new row.
fn pair_replaced(
    conn: &Connection,
    t: &Tracked,
    rivals: &HashMap<Loc, Vec<Rival>>,
    window: &mut Window,
) -> Result<()> {
    let marked = |gone: &Gone| {
        let marks = rivals.get(&gone.was).map_or(&[][..], Vec::as_slice);
        marks.iter().any(|r| r.by_key && r.at == gone.at)
    };
    let replacing = window.born.iter().filter_map(|(now, b)| Some((b.replaces.clone()?, now)));
    let replacing: HashMap<Loc, Loc> = replacing.map(|(from, now)| (from, now.clone())).collect();
    let candidates = window.gone.iter().filter(|(_, gone)| marked(gone));
    let candidates: Vec<_> = candidates.map(|(from, gone)| (from.clone(), gone.clone())).collect();
    for (from, gone) in candidates {
        let Some(seq) = gone.image else { continue };
        let Some(row) = image(conn, t, seq)? else { continue };
        let key: Vec<Value> = t.table.primary_key.iter().map(|&c| row[c].clone()).collect();
        let holder = t.find_key(conn, &key)?.into_iter().next();
        let instant = |now: &Loc| window.born.get(now).is_some_and(|b| b.since == gone.at);
        // Since then it may have got another key, or have been replaced itself.
        let moved = |now: &Loc| {
            let written = |&c: &usize| window.born[now].written.contains_key(&t.column_nos[c]);
            t.table.primary_key.iter().any(written)
        };
        let replacing = replacing.get(&from).filter(|now| window.born.contains_key(now));
        let replacing = replacing.filter(|now| holder.as_ref() == Some(*now) || moved(now));
        let Some(now) = holder.clone().filter(instant).or(replacing.cloned()) else { continue };
        let (Some(born), Some(gone)) = (window.born.remove(&now), window.gone.remove(&from)) else {
            continue;
        };
        let Gone { mut written, start, began, .. } = gone;
        written.extend(born.written);
        let began = began.unwrap_or(seq);
        let replaced = Some(Replaced { at: born.at, image: seq, began });
        let (previous, set, last) = (None, BTreeMap::new(), born.at);
        let changed = Changed { now, written, replaced, previous, set, start, last };
        window.changed.insert(from, changed);
    }
    Ok(())
}

/// Numbers of the columns whose bits a mask has.
pub fn columns_of_mask(mask: ValueRef<'_>) -> Result<Vec<u32>> {
    let damaged = || Error::Damaged("journal: a mask of changed columns".to_owned());
    let words: Vec<i64> = match mask {
        ValueRef::Null => vec![],
        ValueRef::Integer(word) => vec![word],
        other => {
            let text = other.as_str().map_err(|_| damaged())?;
            let words = text.split(',').map(|w| w.parse().map_err(|_| damaged()));
            words.collect::<Result<_>>()?
        }
    };
    let mut columns = Vec::new();
    for (w, word) in (0u32..).zip(words) {
        let bits = (0..MASK_BITS).filter(|bit| word >> bit & 1 == 1);
        columns.extend(bits.map(|bit| w * MASK_BITS + bit));
    }
    Ok(columns)
}

/// The before-image that belongs to a journal entry, one value for each column of the table as it
/// is now; NULL where the image does not hold a column.
pub fn image(conn: &Connection, t: &Tracked, seq: i64) -> Result<Option<Vec<Value>>> {
    let sql = "SELECT ev, b, v0, v1, v2, v3, v4, v5, v6, v7 FROM synqlite_journal \
               WHERE seq >= ?1 ORDER BY seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([seq])?;
    let mut image: Option<Vec<Value>> = None;
    while let Some(row) = rows.next()? {
        let part = match (Event::read(row.get(0)?)?.1, &image) {
            (
                Event::Delete | Event::Replace | Event::Rival | Event::Previous | Event::Leaving,
                None,
            ) => 0,
            (Event::More, Some(_)) => row.get(1)?,
            _ => break,
        };
        let image = image.get_or_insert_with(|| vec![Value::Null; t.column_nos.len()]);
        for (cell, no) in image.iter_mut().zip(&t.column_nos).filter(|(_, no)| *no / SLOTS == part)
        {
            *cell = value(row.get_ref(2 + (no % SLOTS) as usize)?);
        }
    }
    Ok(image)
}

/// Whether the entry has an image, of a row that is not all NULL.
fn has_values(conn: &Connection, t: &Tracked, seq: i64) -> Result<bool> {
    Ok(image(conn, t, seq)?.is_some_and(|row| row.iter().any(|value| !value.is_null())))
}

/// How many writes wait: entries, and inserts that have none of their own. Counts no further than
/// `most`.
pub fn waiting(conn: &Connection, catalog: &Catalog, most: i64) -> Result<i64> {
    let entries =
        "SELECT count(*) FROM (SELECT 1 FROM synqlite_journal WHERE ev & 7 <> ?2 LIMIT ?1)";
    let more = Event::More.of_table(0);
    let mut count: i64 = conn.prepare_cached(entries)?.query_row([most, more], |row| row.get(0))?;
    for t in &catalog.tables {
        let Some(rowid) = t.table.rowid_name.as_ref().filter(|_| count < most) else { continue };
        let insert = Event::Insert.of_table(t.no);
        let sql = "SELECT min(b) FROM synqlite_journal WHERE ev = ?1";
        let lowest: Option<i64> = conn.prepare_cached(sql)?.query_row([insert], |r| r.get(0))?;
        let Some(lowest) = lowest else { continue };
        let sql = format!(
            "SELECT count(*) FROM (SELECT {0} AS loc FROM {1} WHERE {0} > ?1 LIMIT ?3) \
             WHERE loc NOT IN (SELECT a FROM synqlite_journal WHERE ev = ?2)",
            quote(rowid),
            t.target()
        );
        let shared: i64 =
            conn.prepare_cached(&sql)?.query_row([lowest, insert, most], |row| row.get(0))?;
        count = count.saturating_add(shared).min(most);
    }
    Ok(count)
}

/// Drops what the journal says of rows at places that a rebuilt table cannot have any more: those rows are
/// gone, whatever was written to them.
pub fn forget_misplaced(conn: &Connection, t: &Tracked) -> Result<()> {
    let sql = "SELECT seq, ev, a FROM synqlite_journal ORDER BY seq";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let (mut misplaced, mut fits) = (Vec::new(), true);
    while let Some(row) = rows.next()? {
        let (seq, (no, event)): (i64, _) = (row.get(0)?, Event::read(row.get(1)?)?);
        if no != t.no {
            continue;
        }
        // Those go with the image that they continue.
        if event != Event::More {
            fits = t.has_places_like(&row.get(2)?);
        }
        misplaced.extend((!fits).then_some(seq));
    }
    let mut delete = conn.prepare("DELETE FROM synqlite_journal WHERE seq = ?1")?;
    misplaced.iter().try_for_each(|seq| delete.execute([seq]).map(drop))?;
    Ok(())
}

/// Empties the journal. Touches nothing if the journal is empty: even a DELETE
/// of no rows makes SQLite write the file.
pub fn clear(conn: &Connection) -> Result<()> {
    if conn.prepare_cached("SELECT 1 FROM synqlite_journal")?.exists([])? {
        conn.execute_batch("DELETE FROM synqlite_journal")?;
    }
    Ok(())
}
