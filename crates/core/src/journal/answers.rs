//! Entries of what an application's own trigger did, made before the entry of what it answers.
//!
//! SQLite runs the trigger that was made last first, and TEMP ones before all others. Whatever such a one
//! writes is noted before the insert, update or delete that fired it. Triggers of the application that are
//! there when a command runs are made to come after ours ([`crate::track`]); this is for those made since.
//! An update whose before-image was noted before another row came to its place is of the row that had been there.
//! Else it is told from the rest by where rows are: an entry that names a row where none was, or brings one to where
//! one was of which nothing says that it gave way, is of a row that a later entry of the same millisecond names.

use super::replay::{Replay, Slot, Touch};
use super::window::{Born, Gone, Millis, Written};
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::state::{self, Segment};
use rusqlite::Connection;

/// A row left `loc`, says an entry of the millisecond in which one came there: the one that had been there before,
/// if a row is there in the end.
pub(super) struct Answer {
    loc: Loc,
    at: Millis,
    /// Where the row went that left.
    to: Option<Loc>,
    /// The entry with its image, if it was deleted.
    image: Option<i64>,
    /// Where the row that came had been at the last fold.
    came: Option<Loc>,
    /// The same of the one that had been there before.
    before: Option<Loc>,
}

/// Columns that entries of the millisecond `at` say were written at a place, after entry `noted`.
#[derive(Default)]
pub(super) struct Early {
    at: Millis,
    noted: Option<i64>,
    columns: Vec<u32>,
}

impl Replay {
    /// The row that an entry says to have left `loc`, where another has come there since the update began of which
    /// the entry tells.
    pub(super) fn left_before(&mut self, loc: &Loc, at: Millis) -> Option<Slot> {
        let began = self.updates.began(loc, at)?;
        let came = self.left.get(loc).filter(|_| self.slots.contains_key(loc));
        if came.is_none_or(|came| *came <= began) {
            return None;
        }
        let known =
            |from: &&Loc| self.gone.get(from).is_some_and(|gone| gone.at == at && gone.was == *loc);
        let from = self.went.get(loc).filter(known).cloned();
        Some(from.and_then(|from| self.not_gone(from, at)).unwrap_or(Slot::New(Born::at(at))))
    }

    /// Where the row is that an entry says to be at `loc`: there, if one is or may come by an update that began
    /// since another left, or where that went in this millisecond.
    pub(super) fn moved_on(&self, loc: Loc, at: Millis) -> Loc {
        let mut is = &loc;
        if self.updates.begun_last(at) > self.left.get(&loc).copied() {
            return loc;
        }
        for _ in 0..self.moved.len() {
            let now = |(_, when): &&(Loc, Millis)| *when == at && self.is_empty(is);
            let Some((to, _)) = self.moved.get(is).filter(now) else { break };
            is = to;
        }
        is.clone()
    }

    /// An entry says that the row at `loc` went `to` another place, or was deleted.
    pub(super) fn may_answer(
        &mut self,
        t: &Tracked,
        loc: &Loc,
        to: Option<&Loc>,
        image: Option<i64>,
    ) {
        let at = self.last;
        let came = match self.slots.get(loc) {
            Some(Slot::New(born)) if born.since == at => None,
            Some(Slot::Old(from, touch)) if from != loc && touch.last == at => Some(from.clone()),
            _ => return,
        };
        // By a key that SQLite may have converted an entry names another row; what is there is found without it.
        let is_named = !t.converts_old || t.has_rowid();
        if is_named && (to.is_some() || image.is_some()) {
            let before = self.went.get(loc).cloned();
            self.answers.push(Answer {
                loc: loc.clone(),
                at,
                to: to.cloned(),
                image,
                came,
                before,
            });
        }
    }

    /// An entry says that the row at `loc` was updated, where no entry has said that one is, or one is about to give
    /// way: it may be one that came there, which no entry has said yet.
    pub(super) fn may_be_early(&mut self, loc: &Loc, columns: &[u32], at: Millis) {
        let noted = self.noted_now(loc, at);
        let unsaid = self.is_empty(loc) || self.unnoted(loc).is_some();
        if noted.is_none() && !self.early.contains_key(loc) && !unsaid {
            return;
        }
        let early = self.early.entry(loc.clone()).or_default();
        if (early.at, early.noted) != (at, noted) {
            *early = Early { at, noted, columns: vec![] };
        }
        early.columns.extend(columns);
    }

    /// The entry of this millisecond that notes the row at `loc` as one that an update may displace.
    fn noted_now(&self, loc: &Loc, at: Millis) -> Option<i64> {
        self.rival(loc, false).filter(|rival| rival.at == at).map(|rival| rival.seq)
    }

    /// Columns that were written in this millisecond at a place to which a row comes only now.
    pub(super) fn written_early(&self, loc: &Loc, at: Millis) -> Vec<u32> {
        let noted = self.noted_now(loc, at);
        if let Some(early) = self.early.get(loc).filter(|e| (e.at, e.noted) == (at, noted)) {
            return early.columns.clone();
        }
        if noted.is_some() {
            return vec![];
        }
        let written = match self.slots.get(loc) {
            Some(Slot::New(born)) if born.since == at => return self.columns.clone(),
            Some(Slot::New(born)) => &born.written,
            Some(Slot::Old(_, touch)) => &touch.written,
            None => return vec![],
        };
        written.iter().filter(|(_, when)| **when == at).map(|(c, _)| *c).collect()
    }

    /// What the entries say, as the table has it.
    pub(super) fn put_answers_right(&mut self, conn: &Connection, t: &Tracked) -> Result<()> {
        for answer in std::mem::take(&mut self.answers) {
            let is_said =
                self.slots.contains_key(&answer.loc) || self.unnoted(&answer.loc).is_some();
            if !is_said && t.exists(conn, &answer.loc)? {
                self.stays(answer);
            }
        }
        self.put_moved_right(conn, t)
    }

    /// The row that came to the place stays there; the one that left it is the one before.
    fn stays(&mut self, answer: Answer) {
        let Answer { loc, at, to, image, came, before } = answer;
        let moved = to.as_ref().and_then(|to| self.slots.remove(to));
        let written = match &moved {
            Some(Slot::New(born)) => born.written.clone(),
            Some(Slot::Old(_, touch)) => touch.written.clone(),
            None => Written::new(),
        };
        let deleted = came.and_then(|from| self.not_gone(from, at));
        self.slots.insert(loc, moved.or(deleted).unwrap_or_else(|| Slot::New(Born::at(at))));
        let unsaid = |gone: &&mut Gone| gone.at == at && gone.image.is_none();
        let left = before.as_ref().and_then(|from| self.gone.get_mut(from)).filter(unsaid);
        match (to, image, left) {
            (Some(to), _, None) => drop(self.slots.insert(to, Slot::New(Born::at(at)))),
            (Some(to), ..) => {
                let Some(Slot::Old(from, mut touch)) =
                    before.and_then(|from| self.not_gone(from, at))
                else {
                    return;
                };
                touch.written.extend(written);
                self.slots.insert(to, Slot::Old(from, touch));
            }
            (None, Some(image), Some(gone)) => gone.had(image),
            (None, ..) => {}
        }
    }

    /// Takes back that a row is gone.
    pub(super) fn not_gone(&mut self, from: Loc, at: Millis) -> Option<Slot> {
        let Gone { written, start, .. } = self.gone.remove(&from)?;
        let open = self.open.remove(&from).unwrap_or_default();
        let touch = Touch { written, previous: start, last: at, ..open };
        Some(Slot::Old(from, touch))
    }

    /// Rows that moved, by what the entries say, and are not where they came to: they moved on, or went.
    fn put_moved_right(&mut self, conn: &Connection, t: &Tracked) -> Result<()> {
        let moved = |(loc, slot): (&Loc, &Slot)| match slot {
            Slot::Old(from, _) if from != loc => Some((loc.clone(), from.clone())),
            _ => None,
        };
        let moved: Vec<_> = self.slots.iter().filter_map(moved).collect();
        for (loc, from) in moved {
            if !t.exists(conn, &loc)? {
                self.gave_way(&loc);
                self.take_image(conn, t, &from, &loc)?;
            }
        }
        Ok(())
    }

    /// What the row `from` was when it went from `loc`, where that was noted before it came there.
    fn take_image(&mut self, conn: &Connection, t: &Tracked, from: &Loc, loc: &Loc) -> Result<()> {
        let image = self.gone.get(loc).and_then(|gone| gone.image);
        if let (Some(image), false) = (image, may_have_been(conn, t, loc)?)
            && let Some(gone) = self.gone.get_mut(from).filter(|gone| gone.image.is_none())
        {
            gone.had(image);
        }
        Ok(())
    }
}

/// Whether a row may have been at `loc` at the last fold; a segment may span a place that has none.
fn may_have_been(conn: &Connection, t: &Tracked, loc: &Loc) -> Result<bool> {
    let spanned = |rowid| Segment::containing(conn, t, rowid).map(|found| found.is_some());
    Ok(state::is_placed(conn, t, loc)? || matches!(loc, Loc::Row(rowid) if spanned(*rowid)?))
}
