//! Entries of one table replayed in order, to what they come to.

use super::answers::{Answer, Early};
use super::begun::{self, Begun};
use super::entry::{columns_of_mask, has_values, image};
use super::nested::{Act, Updates};
use super::window::{Born, Changed, Gone, Millis, Replaced, Run, Set, Window, Written};
use crate::Result;
use crate::capture::Event;
use crate::catalog::{Loc, Tracked};
use crate::schema::{TableKind, quote};
use crate::sqlvalue::Located;
use crate::state;
use rusqlite::{Connection, Row};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use synqlite_wire::Value;

/// So many of the latest rivals are looked at for one that an entry names otherwise.
const FEW: usize = 16;

/// What is at a location while entries are replayed.
#[derive(Debug)]
pub(super) enum Slot {
    /// A row born in this window.
    New(Born),
    /// The row that was at the first location when the window began.
    Old(Loc, Touch),
}

#[derive(Debug, Default, Clone)]
pub(super) struct Touch {
    pub(super) written: Written,
    pub(super) previous: Option<i64>,
    /// The before-image that the next update brings with it.
    pub(super) image: Option<i64>,
    pub(super) set: BTreeMap<u32, Set>,
    pub(super) last: Millis,
    /// Whether an update left it as it was.
    pub(super) idly: bool,
    /// The latest entry that says that a delete of the row is beginning.
    pub(super) leaving: Option<i64>,
}

/// A row that a REPLACE may have displaced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rival {
    pub(super) seq: i64,
    pub(super) at: Millis,
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

/// An entry, with the place that it is about.
pub struct Entry {
    pub seq: i64,
    pub event: Event,
    pub loc: Loc,
    pub at: Millis,
}

/// Replays the entries of one table.
#[derive(Default)]
pub struct Replay {
    /// Number of the entry being replayed.
    pub seq: i64,
    /// When it was made.
    pub(super) last: Millis,
    marks: Marks,
    /// Locations that entries have named. Any other location still holds what it held.
    pub(super) slots: HashMap<Loc, Slot>,
    /// Locations whose original row has left them, so that a new row there is no old one, and the
    /// entry by which one last did.
    pub(super) left: HashMap<Loc, i64>,
    pub(super) gone: BTreeMap<Loc, Gone>,
    rivals: HashMap<Loc, Vec<Rival>>,
    /// Where those of updates are, in order, with when and by which entry they were noted, if SQLite may convert
    /// OLD.
    noted: Vec<(Loc, Millis, i64)>,
    /// Rowids of `rivals` that may still be there.
    pending: BTreeSet<i64>,
    /// Whether a location is a primary key.
    keyed: bool,
    /// The latest row that had the primary key of a row about to be inserted.
    marked: Option<(Loc, Millis)>,
    /// Where rows of `gone` were at the last fold, by where they were when they went.
    pub(super) went: HashMap<Loc, Loc>,
    /// What was noted of rows of `gone` of which nothing says that they gave way, where an update had begun.
    pub(super) open: HashMap<Loc, Touch>,
    /// Where the row went that last moved from a place, and when.
    pub(super) moved: HashMap<Loc, (Loc, Millis)>,
    /// Rows born in this window that a delete removed, and when.
    deleted: HashMap<Loc, (Millis, Born)>,
    /// Entries that may be of another row than they seem.
    pub(super) answers: Vec<Answer>,
    /// Columns that were written at places where a row is only later said to come.
    pub(super) early: HashMap<Loc, Early>,
    /// Where a row came though another had left: it may have gone before the entry that says that it came.
    doubtful: HashSet<Loc>,
    /// Numbers of all columns.
    pub(super) columns: Vec<u32>,
    pub(super) updates: Updates,
    /// Where SQLite may convert OLD: what began in this millisecond and has not ended.
    begun: Begun,
}

impl Replay {
    pub fn new(t: &Tracked) -> Replay {
        let (keyed, columns) = (t.table.kind != TableKind::Rowid, t.column_nos.clone());
        Replay { keyed, columns, ..Replay::default() }
    }

    /// Replays one entry, which is this row of the journal.
    pub fn step(
        &mut self,
        conn: &Connection,
        t: &Tracked,
        entry: Entry,
        row: &Row<'_>,
    ) -> Result<()> {
        let Entry { seq, event, loc, at: ms } = entry;
        (self.seq, self.last) = (seq, ms);
        match event {
            Event::Insert => {
                self.insert(loc, ms);
                if let Some(above) = row.get(3)? {
                    self.displace_above(above);
                    self.marks.add(Mark { above, at: ms, seq });
                }
            }
            Event::Update => self.updated(conn, t, loc, row)?,
            Event::Delete => {
                let (loc, before) = self.begun.delete(t, loc)?;
                let image = match before {
                    Some(before) if has_values(conn, t, before)? => before,
                    // Triggers that were made before the foreign key was took no image then. What SQLite may
                    // have converted in this one is written over, so that it is the same everywhere.
                    _ => {
                        let columns = t.table.converted.iter().map(|&c| (t.column_nos[c], ms));
                        self.note(loc.clone(), |touch| touch.written.extend(columns));
                        seq
                    }
                };
                self.may_answer(t, &loc, None, Some(image));
                if let Some(born) = self.remove(&loc, ms, Some(image)) {
                    self.deleted.insert(loc, (ms, born));
                }
            }
            Event::Replace | Event::Rival => {
                let rival = Rival { seq, at: ms, by_key: event == Event::Replace };
                if rival.by_key {
                    self.marked = Some((loc.clone(), ms));
                }
                if let Loc::Row(rowid) = loc {
                    self.pending.insert(rowid);
                }
                if t.converts_old && !rival.by_key {
                    self.noted.push((loc.clone(), ms, seq));
                }
                self.rivals.entry(loc).or_default().push(rival);
            }
            Event::Previous => {
                self.begun.begin(t, &loc, None, ms);
                self.updates.begin(loc.clone(), seq, ms);
                // It may be of a row that has yet to come there: SQLite acts on it first.
                if self.unnoted(&loc).is_none() {
                    self.note(loc, |touch| {
                        touch.previous.get_or_insert(seq);
                        touch.image = Some(seq);
                    });
                }
            }
            Event::Leaving => {
                self.begun.begin(t, &loc, Some(seq), ms);
                self.note(loc, |touch| touch.leaving = Some(seq));
            }
            // Of the image before it.
            Event::More => {}
        }
        Ok(())
    }

    fn updated(&mut self, conn: &Connection, t: &Tracked, loc: Loc, row: &Row<'_>) -> Result<()> {
        let ms = self.last;
        let to: Option<Located> = row.get(3)?;
        let to = to.map(|to| t.place(to)).transpose()?.filter(|to| *to != loc);
        let mut begun = std::mem::take(&mut self.begun);
        let unsure = Cell::new(false);
        let came = |was: &Loc| {
            let came = self.came_from(conn, t, was, &loc, ms)?;
            unsure.set(unsure.get() || came.is_none());
            Ok(came == Some(true))
        };
        let (loc, to) = begun.update(t, &loc, to, came)?;
        let to = to.map(|to| self.where_noted(t, &loc, to, ms)).transpose()?;
        self.begun = begun;
        let mut columns = columns_of_mask(row.get_ref(4)?)?;
        // So that the row that is there shows the same everywhere, whichever it is.
        if unsure.get() {
            columns.extend(&t.column_nos);
        }
        // Both spellings of a key may have been converted into one before the mask was taken; what the
        // row was is only kept where the key changed.
        if matches!(self.slots.get(&loc), Some(Slot::Old(_, touch)) if touch.image.is_some()) {
            columns.extend(t.table.converted.iter().map(|&c| t.column_nos[c]));
        }
        let is_named = !t.converts_old || t.has_rowid();
        let left = if is_named && to.is_some() { self.left_before(&loc, ms) } else { None };
        if let Some(slot) = left {
            self.end_update(slot, loc, to, &columns, ms);
            return Ok(());
        }
        let loc = match &to {
            Some(_) => loc,
            None => {
                let loc = self.moved_on(loc, ms);
                self.may_be_early(&loc, &columns, ms);
                loc
            }
        };
        self.may_answer(t, &loc, to.as_ref(), None);
        self.update(loc, to, &columns, ms);
        Ok(())
    }

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
    pub(super) fn unnoted(&self, loc: &Loc) -> Option<Millis> {
        let Loc::Row(rowid) = loc else { return None };
        let mark = self.marks.of(*rowid)?;
        let left = self.left.get(loc);
        (!self.slots.contains_key(loc) && left.is_none_or(|left| *left <= mark.seq))
            .then_some(mark.at)
    }

    /// Where the row at `loc` went that an entry says to be at `to`: SQLite may have converted that, and the row
    /// that has the key, and gives way, was noted before. Only what acts on rows of its own table comes between.
    /// What was noted before this update began is of another, which was ignored.
    fn where_noted(&self, t: &Tracked, loc: &Loc, to: Loc, at: Millis) -> Result<Loc> {
        if t.converts_old && !self.rivals.contains_key(&to) {
            let began = self.updates.began(loc, at).unwrap_or(i64::MIN);
            let own = |(_, when, seq): &&(Loc, Millis, i64)| *when == at && *seq > began;
            for of in self.noted.iter().rev().take_while(own).take(FEW) {
                if of.0 != *loc && begun::same_loosely(t, &of.0, &to)? {
                    return Ok(of.0.clone());
                }
            }
        }
        Ok(to)
    }

    /// Whether the row at `loc` came from `was` just now: none was at `loc`, or one that gave way in this
    /// millisecond, and none is left at `was`. `None` if one may have given way before, or another may have come
    /// to `was` since.
    fn came_from(
        &self,
        conn: &Connection,
        t: &Tracked,
        was: &Loc,
        loc: &Loc,
        at: Millis,
    ) -> Result<Option<bool>> {
        let here = self.slots.contains_key(loc)
            || !self.left.contains_key(loc) && state::is_placed(conn, t, loc)?;
        let Some(rivals) = self.rivals.get(loc).filter(|_| here) else { return Ok(Some(!here)) };
        let came = rivals.iter().any(|rival| rival.at == at) && !t.exists(conn, was)?;
        Ok(came.then_some(true))
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
    pub fn remove(&mut self, loc: &Loc, at: Millis, image: Option<i64>) -> Option<Born> {
        let slot = self.take(loc);
        self.early.remove(loc);
        self.leave(loc.clone());
        match slot? {
            Slot::New(born) => Some(born),
            Slot::Old(from, touch) => {
                let (began, start) = (touch.leaving.or(image), touch.previous.or(image));
                let written = touch.written.clone();
                let gone = Gone { at, was: loc.clone(), image, began, written, start };
                if image.is_none() && touch.image.is_some() {
                    self.open.insert(from.clone(), touch);
                }
                self.went.insert(loc.clone(), from.clone());
                self.gone.insert(from, gone);
                None
            }
        }
    }

    /// The row at `loc` is gone, and no entry says so but the one, since it came there, that noted it as a row
    /// that another may displace.
    pub(super) fn gave_way(&mut self, loc: &Loc) {
        let last = self.rivals.get(loc).and_then(|marks| marks.last().copied());
        let image = self.of_row_at(loc, last);
        let at = last.filter(|_| image.is_some()).map_or(self.last, |rival| rival.at);
        self.remove(loc, at, image);
    }

    /// The entry with the image of a rival, if it is the row at `loc`: noted since that came there.
    fn of_row_at(&self, loc: &Loc, rival: Option<Rival>) -> Option<i64> {
        let came = self.left.get(loc).copied().unwrap_or(i64::MIN);
        rival.map(|rival| rival.seq).filter(|seq| *seq > came)
    }

    /// Whether entries say that a row was at `loc` and none is there now.
    pub(super) fn is_empty(&self, loc: &Loc) -> bool {
        self.left.contains_key(loc) && !self.slots.contains_key(loc) && self.unnoted(loc).is_none()
    }

    pub(super) fn rival(&self, loc: &Loc, by_key: bool) -> Option<Rival> {
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
        // An older one is of an insert that was ignored.
        let by_key = self.rival(&loc, true).filter(|rival| rival.at == at);
        let mark = by_key.or_else(|| self.rival(&loc, false));
        let touched = match self.slots.get(&loc) {
            Some(Slot::Old(_, touch)) => touch.written.clone(),
            _ => Written::new(),
        };
        if self.left.contains_key(&loc) && !self.slots.contains_key(&loc) {
            self.doubtful.insert(loc.clone());
        }
        let displaced = self.remove(&loc, at, self.of_row_at(&loc, mark));
        // With recursive_triggers on, REPLACE has already said that it deleted the row.
        let deleted = self.deleted.remove(&loc).filter(|(when, _)| *when == at && by_key.is_some());
        let born = match displaced.or(deleted.map(|(_, born)| born)) {
            Some(born) if by_key.is_some() => Born { at, ..born },
            // The application's own trigger ran before ours and updated the new row.
            Some(born) => Born { replaces, written: born.written, ..Born::at(at) },
            None if mark.is_none() => Born { replaces, written: touched, ..Born::at(at) },
            None => Born { replaces, ..Born::at(at) },
        };
        self.place(loc, Slot::New(born));
    }

    pub fn update(&mut self, from: Loc, to: Option<Loc>, columns: &[u32], at: Millis) {
        let slot = self.take(&from).unwrap_or_else(|| Slot::New(Born::at(at)));
        self.end_update(slot, from, to, columns, at);
    }

    /// What was at `from` was updated.
    fn end_update(
        &mut self,
        mut slot: Slot,
        from: Loc,
        to: Option<Loc>,
        columns: &[u32],
        at: Millis,
    ) {
        let mut columns = Cow::Borrowed(columns);
        for act in self.updates.end(&from, to.as_ref(), &columns) {
            if let Some(Slot::Old(_, touch)) = self.slots.get_mut(&act.loc) {
                touch.take_back(&act);
            }
            columns.to_mut().extend(act.columns);
        }
        let mark = to.as_ref().and_then(|to| self.rival(to, false));
        if let Some(to) = &to {
            columns.to_mut().extend(self.written_early(to, at));
        }
        match &mut slot {
            Slot::New(born) => born.written.extend(columns.iter().map(|&c| (c, at))),
            Slot::Old(_, touch) => touch.update(&columns, at),
        }
        let Some(to) = to else { return self.put_back(from, slot) };
        self.leave(from.clone());
        self.moved.insert(from, (to.clone(), at));
        self.remove(&to, at, self.of_row_at(&to, mark));
        self.place(to, slot);
    }

    /// Notes something of the row at `loc` if it is not one of this window.
    fn note(&mut self, loc: Loc, note: impl FnOnce(&mut Touch)) {
        let Some(mut slot) = self.take(&loc) else { return };
        if let Slot::Old(_, touch) = &mut slot {
            note(touch);
        }
        self.put_back(loc, slot);
    }

    /// Nothing has come to `loc` or left it.
    fn put_back(&mut self, loc: Loc, slot: Slot) {
        match self.left.contains_key(&loc) {
            true => drop(self.slots.insert(loc, slot)),
            false => self.place(loc, slot),
        }
    }
}

impl Touch {
    /// It was another row that this happened to.
    pub fn take_back(&mut self, act: &Act) {
        self.previous = self.previous.filter(|previous| *previous < act.image);
        for c in &act.columns {
            let Some(set) = self.set.get(c).filter(|set| set.image == act.image) else { continue };
            match set.since {
                Some(since) => self.written.insert(*c, since),
                None => self.written.remove(c),
            };
            self.set.remove(c);
        }
    }

    fn update(&mut self, columns: &[u32], at: Millis) {
        self.last = at;
        self.idly |= columns.is_empty();
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

/// Puts what entries say of rows where these are, if SQLite converted the keys by which the entries name them
/// ([`begun`]), and takes rows that no entry names for new: another's names the same key.
///
/// [`begun`]: super::begun
fn put_right(conn: &Connection, t: &Tracked, replay: &mut Replay) -> Result<()> {
    let named = !replay.slots.is_empty() || !replay.gone.is_empty();
    if !t.converts_old || t.has_rowid() || !named {
        return Ok(());
    }
    let mut there = t.all_places(conn)?;
    let unsaid = put_gone_right(conn, t, replay, &there)?;
    let mut named: Vec<Loc> = replay.slots.keys().cloned().collect();
    named.retain(|loc| !there.remove(loc));
    named.sort_unstable();
    let (mut new, mut old, mut of_old) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for loc in there {
        let known = !replay.left.contains_key(&loc) && state::is_placed(conn, t, &loc)?;
        if known { &mut old } else { &mut new }.insert(loc);
    }
    for loc in std::mem::take(&mut named) {
        let stayed = matches!(&replay.slots[&loc], Slot::Old(from, _) if *from == loc);
        let unknown = stayed && !state::is_placed(conn, t, &loc)?;
        if unknown { &mut of_old } else { &mut named }.push(loc);
    }
    for (loc, is) in begun::astray(t, of_old, &mut old)? {
        if let (Some(is), Some(Slot::Old(_, touch))) = (is, replay.slots.remove(&loc)) {
            replay.slots.insert(is.clone(), Slot::Old(is, touch));
        }
    }
    for (loc, is) in begun::astray(t, named, &mut new)? {
        match (is, replay.slots.remove(&loc)) {
            (Some(is), Some(slot)) => drop(replay.slots.insert(is, slot)),
            (None, Some(slot @ Slot::Old(..))) => {
                replay.slots.insert(loc.clone(), slot);
                replay.gave_way(&loc);
            }
            _ => {}
        }
    }
    for loc in new {
        replay.slots.insert(loc, Slot::New(Born::at(replay.last)));
    }
    let moved = |slot: &Slot| match slot {
        Slot::Old(from, _) => Some(from.clone()),
        Slot::New(_) => None,
    };
    let moved: BTreeSet<Loc> = replay.slots.values().filter_map(moved).collect();
    for loc in unsaid.difference(&moved) {
        replay.gave_way(loc);
    }
    Ok(())
}

/// The same of rows that are gone. Returns those of which no entry says so: several keys became one.
fn put_gone_right(
    conn: &Connection,
    t: &Tracked,
    replay: &mut Replay,
    there: &BTreeSet<Loc>,
) -> Result<BTreeSet<Loc>> {
    let mut unknown: Vec<Loc> = replay.gone.keys().cloned().collect();
    if unknown.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut unsaid = state::key_places(conn, t)?;
    unknown.retain(|from| !unsaid.contains(from));
    unsaid.retain(|loc| !there.contains(loc) && !replay.left.contains_key(loc));
    for (from, was) in begun::astray(t, unknown, &mut unsaid)? {
        // One that came under another name and went under its own was never known.
        let gone = replay.gone.remove(&from);
        if let (Some(was), Some(gone)) = (was, gone) {
            replay.leave(was.clone());
            replay.gone.insert(was.clone(), Gone { was, ..gone });
        }
    }
    Ok(unsaid)
}

/// Compares what the entries say with what is in the table now.
pub fn settle(conn: &Connection, t: &Tracked, mut replay: Replay) -> Result<Window> {
    put_right(conn, t, &mut replay)?;
    replay.put_answers_right(conn, t)?;
    for loc in std::mem::take(&mut replay.doubtful) {
        if !t.exists(conn, &loc)? && matches!(replay.slots.get(&loc), Some(Slot::New(_))) {
            replay.slots.remove(&loc);
        }
    }
    for loc in replay.rivals.keys().cloned().collect::<Vec<_>>() {
        let still_there = replay.slots.contains_key(&loc) || !replay.left.contains_key(&loc);
        if still_there && !t.exists(conn, &loc)? {
            replay.gave_way(&loc);
        }
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
                let Touch { written, previous, set, last, idly, .. } = touch;
                let (now, replaced, start) = (loc, None, previous);
                let row = Changed { now, written, replaced, previous, set, start, last, idly };
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
        let idly = false;
        let changed = Changed { now, written, replaced, previous, set, start, last, idly };
        window.changed.insert(from, changed);
    }
    Ok(())
}
