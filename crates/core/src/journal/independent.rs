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
    let tables = catalog.tables.iter().map(|_| Of::default()).collect();
    let mut survey = Survey { tables, earliest: Millis::MAX, in_order: true };
    let sql = "SELECT ev, a, b, at FROM synqlite_journal ORDER BY seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut last = Millis::MIN;
    while let Some(row) = rows.next()? {
        let ((no, event), ms) = (Event::read(row.get(0)?)?, millis(row.get(3)?));
        survey.in_order &= last <= ms;
        survey.earliest = survey.earliest.min(ms);
        last = ms;
        let Some(position) = catalog.position_of_no(no) else { continue };
        if !catalog.tables[position].has_rowid() {
            survey.tables[position].entries = true;
            continue;
        }
        let (of, to): (&mut Of, Option<i64>) = (&mut survey.tables[position], row.get(2)?);
        of.entries = true;
        match (event, to) {
            (Event::Delete | Event::More, _) | (Event::Update, None) => {}
            (event, to) => {
                of.together.insert(row.get(1)?);
                if event == Event::Insert {
                    of.inserts = true;
                    of.unnoted_above = of.unnoted_above.into_iter().chain(to).min();
                } else {
                    of.together.extend(to);
                }
            }
        }
    }
    Ok(survey)
}

impl Survey {
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
        mut fold: impl FnMut(&Survey, usize, Window) -> Result<Window>,
    ) -> Result<()> {
        let sql = "SELECT ev, a, seq, m, at FROM synqlite_journal \
                   WHERE ev & 7 = ?1 AND b IS NULL OR ev & 7 = ?2 ORDER BY ev >> 3, a, seq";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows =
            statement.query([Event::Update, Event::Delete].map(|event| event.of_table(0)))?;
        let (mut replay, mut places, mut last) = (Replay::default(), 0, None);
        let mut left: Vec<(usize, Loc)> = Vec::new();
        let mut end = |survey: &Survey, position: usize, replay: Replay| -> Result<()> {
            let window = settle(conn, &catalog.tables[position], replay)?;
            let window = fold(survey, position, window)?;
            let rest = window.changed.into_keys().chain(window.gone.into_keys());
            left.extend(rest.map(|loc| (position, loc)));
            Ok(())
        };
        while let Some(row) = rows.next()? {
            let (no, event) = Event::read(row.get(0)?)?;
            let Some(position) = catalog.position_of_no(no) else { continue };
            let t = &catalog.tables[position];
            if !t.has_rowid() || !takes(t) {
                continue;
            }
            let rowid: i64 = row.get(1)?;
            if !self.tables[position].is_apart(rowid) {
                continue;
            }
            if last != Some((position, rowid)) {
                if let Some((before, _)) = last
                    && (places == PART || before != position)
                {
                    end(self, before, std::mem::take(&mut replay))?;
                    places = 0;
                }
                places += 1;
                last = Some((position, rowid));
            }
            let (loc, ms) = (Loc::Row(rowid), millis(row.get(4)?));
            replay.seq = row.get(2)?;
            if event == Event::Update {
                replay.update(loc, None, &columns_of_mask(row.get_ref(3)?)?, ms);
            } else {
                replay.remove(&loc, ms, Some(replay.seq));
            }
        }
        if let Some((position, _)) = last {
            end(self, position, replay)?;
        }
        for (position, loc) in left {
            if let Loc::Row(rowid) = loc {
                self.tables[position].together.insert(rowid);
            }
        }
        for (t, of) in catalog.tables.iter().zip(&mut self.tables) {
            of.replayed = t.has_rowid() && takes(t);
        }
        Ok(())
    }
}
