//! Rows whose entries concern nobody else.
//!
//! A journal may be larger than memory. Most of a large one is updates of rows that stay where they
//! are, and deletes. If all entries that name a place are such, what they come to depends on no
//! other entry. So these are replayed in order of place instead, a part of the rows at a time.

use super::entry::{columns_of_mask, millis};
use super::replay::{Replay, settle};
use super::window::{Millis, Window};
use crate::Result;
use crate::capture::Event;
use crate::catalog::{Catalog, Loc, Tracked};
use crate::parts;
use rusqlite::Connection;
use std::collections::HashSet;

/// So many rows are replayed at a time. Each takes about 1 kB meanwhile.
const PART: usize = parts::of(8_192);

/// What kinds of entries a journal has, and which of them were replayed apart.
#[derive(Default)]
pub struct Survey {
    tables: Vec<Of>,
    /// The earliest time in the journal.
    pub earliest: Millis,
    /// Whether the clock never went back; otherwise times depend on the order of all entries.
    pub in_order: bool,
    last: Millis,
}

/// Entries of one table.
#[derive(Default)]
struct Of {
    /// Places that entries of other kinds name, or that are to be replayed with all others.
    together: HashSet<i64>,
    /// Rows above may have been inserted without an entry of their own.
    unnoted_above: Option<i64>,
    entries: bool,
    inserts: bool,
    replayed: bool,
}

impl Of {
    fn is_apart(&self, rowid: i64) -> bool {
        self.unnoted_above.is_none_or(|above| rowid <= above) && !self.together.contains(&rowid)
    }
}

/// Looks through the journal.
pub fn survey(conn: &Connection, catalog: &Catalog) -> Result<Survey> {
    let mut survey = Survey::new(catalog);
    let sql = "SELECT ev, a, b, at FROM synqlite_journal ORDER BY seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        survey.note(catalog, row)?;
    }
    Ok(survey)
}

impl Survey {
    /// Of no entries.
    pub(super) fn new(catalog: &Catalog) -> Survey {
        let tables = catalog.tables.iter().map(|_| Of::default()).collect();
        Survey { tables, earliest: Millis::MAX, in_order: true, last: Millis::MIN }
    }

    /// Takes note of the next entry: columns `ev`, `a`, `b` and `at`. Returns the row that it concerns, if it
    /// concerns one alone, by position of its table and rowid.
    pub(super) fn note(
        &mut self,
        catalog: &Catalog,
        row: &rusqlite::Row<'_>,
    ) -> Result<Option<(usize, i64)>> {
        let ((no, event), ms) = (Event::read(row.get(0)?)?, millis(row.get(3)?));
        self.in_order &= self.last <= ms;
        self.earliest = self.earliest.min(ms);
        self.last = ms;
        let Some(position) = catalog.position_of_no(no) else { return Ok(None) };
        let of = &mut self.tables[position];
        of.entries = true;
        if !catalog.tables[position].has_rowid() {
            return Ok(None);
        }
        let to: Option<i64> = row.get(2)?;
        match (event, to) {
            (Event::More, _) => Ok(None),
            (Event::Delete, _) | (Event::Update, None) => Ok(Some((position, row.get(1)?))),
            (event, to) => {
                of.together.insert(row.get(1)?);
                if event == Event::Insert {
                    of.inserts = true;
                    of.unnoted_above = of.unnoted_above.into_iter().chain(to).min();
                } else {
                    of.together.extend(to);
                }
                Ok(None)
            }
        }
    }

    /// A row is to be replayed with all others.
    pub(super) fn keep_together(&mut self, position: usize, rowid: i64) {
        self.tables[position].together.insert(rowid);
    }

    pub(super) fn is_apart(&self, position: usize, rowid: i64) -> bool {
        self.tables[position].is_apart(rowid)
    }

    /// Whether rows were inserted into the table at this position.
    pub fn inserts(&self, position: usize) -> bool {
        self.tables[position].inserts
    }

    /// Whether no entry is left to be replayed with all others.
    pub fn is_done(&self) -> bool {
        let done = |of: &Of| of.replayed && of.together.is_empty() && of.unnoted_above.is_none();
        self.tables.iter().all(|of| !of.entries || done(of))
    }

    /// Whether an entry that updates or deletes the row at `loc` was replayed apart.
    pub fn replayed(&self, position: usize, loc: &Loc) -> bool {
        let of = &self.tables[position];
        matches!(loc, Loc::Row(rowid) if of.replayed && of.is_apart(*rowid))
    }

    /// Gives `fold` what the entries of such rows come to, a part of the rows of one table at a time,
    /// with the position of the table. Rows that it leaves in the window are replayed again, with all
    /// others; so are the rows of tables that `takes` refuses.
    pub fn parts(
        &mut self,
        conn: &Connection,
        catalog: &Catalog,
        takes: impl Fn(&Tracked) -> bool,
        fold: impl FnMut(&Survey, usize, Window) -> Result<Window>,
    ) -> Result<()> {
        let sql = "SELECT ev, a, seq, m, at FROM synqlite_journal \
                   WHERE ev & 7 = ?1 AND b IS NULL OR ev & 7 = ?2 ORDER BY ev >> 3, a, seq";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows =
            statement.query([Event::Update, Event::Delete].map(|event| event.of_table(0)))?;
        let mut parts = Parts::new(conn, catalog, fold);
        while let Some(row) = rows.next()? {
            let Some(position) = catalog.position_of_no(Event::read(row.get(0)?)?.0) else {
                continue;
            };
            let t = &catalog.tables[position];
            if t.has_rowid() && takes(t) && self.is_apart(position, row.get(1)?) {
                parts.entry(self, position, row)?;
            }
        }
        for (position, rowid) in parts.end(self)? {
            self.keep_together(position, rowid);
        }
        for (t, of) in catalog.tables.iter().zip(&mut self.tables) {
            of.replayed = t.has_rowid() && takes(t);
        }
        Ok(())
    }
}

/// Replays entries that come in order of the rows that they concern, a part of the rows of one table at a
/// time.
pub(super) struct Parts<'a, F> {
    conn: &'a Connection,
    catalog: &'a Catalog,
    fold: F,
    replay: Replay,
    places: usize,
    last: Option<(usize, i64)>,
    left: Vec<(usize, i64)>,
}

impl<'a, F: FnMut(&Survey, usize, Window) -> Result<Window>> Parts<'a, F> {
    pub fn new(conn: &'a Connection, catalog: &'a Catalog, fold: F) -> Parts<'a, F> {
        let (replay, places, last, left) = (Replay::default(), 0, None, vec![]);
        Parts { conn, catalog, fold, replay, places, last, left }
    }

    /// The next entry, of the table at this position: columns `ev`, `a`, `seq`, `m` and `at`.
    pub fn entry(
        &mut self,
        survey: &Survey,
        position: usize,
        row: &rusqlite::Row<'_>,
    ) -> Result<()> {
        let rowid: i64 = row.get(1)?;
        if self.last != Some((position, rowid)) {
            if let Some((before, _)) = self.last
                && (self.places == PART || before != position)
            {
                self.part(survey, before)?;
            }
            self.places += 1;
            self.last = Some((position, rowid));
        }
        let (loc, ms) = (Loc::Row(rowid), millis(row.get(4)?));
        self.replay.seq = row.get(2)?;
        match Event::read(row.get(0)?)?.1 {
            Event::Update => self.replay.update(loc, None, &columns_of_mask(row.get_ref(3)?)?, ms),
            _ => drop(self.replay.remove(&loc, ms, Some(self.replay.seq))),
        }
        Ok(())
    }

    fn part(&mut self, survey: &Survey, position: usize) -> Result<()> {
        self.places = 0;
        let replay = std::mem::take(&mut self.replay);
        let window = settle(self.conn, &self.catalog.tables[position], replay)?;
        let window = (self.fold)(survey, position, window)?;
        for loc in window.changed.into_keys().chain(window.gone.into_keys()) {
            if let Loc::Row(rowid) = loc {
                self.left.push((position, rowid));
            }
        }
        Ok(())
    }

    /// No more come. Returns the rows that were left in their windows.
    pub fn end(mut self, survey: &Survey) -> Result<Vec<(usize, i64)>> {
        if let Some((position, _)) = self.last {
            self.part(survey, position)?;
        }
        Ok(self.left)
    }
}
