//! Rows whose entries concern nobody else.
//!
//! A journal may be larger than memory. Most of a large one is updates of rows that stay where they
//! are, and deletes. If all entries that name a place are such, what they come to depends on no
//! other entry. So these are replayed in order of place instead, a part of the rows at a time.

use super::{Millis, Replay, Window, columns_of_mask, millis, settle};
use crate::Result;
use crate::capture::op;
use crate::catalog::{Catalog, Loc, Tracked};
use rusqlite::Connection;
use std::collections::HashSet;

/// So many rows are replayed at a time. Each takes about 1 kB meanwhile.
const PART: usize = 8_192;

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
        let (ev, ms): (i64, _) = (row.get(0)?, millis(row.get(3)?));
        survey.in_order &= last <= ms;
        survey.earliest = survey.earliest.min(ms);
        last = ms;
        let no = u32::try_from(ev >> 3).unwrap_or(u32::MAX);
        let Some(position) = catalog.position_of_no(no) else { continue };
        if !catalog.tables[position].has_rowid() {
            survey.tables[position].entries = true;
            continue;
        }
        let (of, to): (&mut Of, Option<i64>) = (&mut survey.tables[position], row.get(2)?);
        of.entries = true;
        match (ev & 7, to) {
            (op::DELETE, _) | (op::UPDATE, None) => {}
            (kind, to) => {
                of.together.insert(row.get(1)?);
                if kind == op::INSERT {
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

    /// Gives `fold` what the entries of such rows of a table come to, a part of the rows at a time.
    /// Rows that it leaves in the window are replayed again, with all others.
    pub fn parts(
        &mut self,
        conn: &Connection,
        position: usize,
        t: &Tracked,
        mut fold: impl FnMut(Window) -> Result<Window>,
    ) -> Result<()> {
        let of = &mut self.tables[position];
        if !of.entries {
            return Ok(());
        }
        let sql = "SELECT a, seq, ev, m, at FROM synqlite_journal \
                   WHERE ev = ?1 AND b IS NULL OR ev = ?2 ORDER BY a, seq";
        let mut statement = conn.prepare_cached(sql)?;
        let kind = |kind: i64| i64::from(t.no) * 8 + kind;
        let mut rows = statement.query([kind(op::UPDATE), kind(op::DELETE)])?;
        let (mut replay, mut places, mut last) = (Replay::default(), 0, None);
        let mut left = Vec::new();
        let mut end = |replay: Replay| -> Result<()> {
            let window = fold(settle(conn, t, replay)?)?;
            let rows = window.changed.into_keys().chain(window.gone.into_keys());
            left.extend(rows.filter_map(|loc| match loc {
                Loc::Row(rowid) => Some(rowid),
                Loc::Key(_) => None,
            }));
            Ok(())
        };
        while let Some(row) = rows.next()? {
            let rowid: i64 = row.get(0)?;
            if !of.is_apart(rowid) {
                continue;
            }
            if last != Some(rowid) {
                if places == PART {
                    end(std::mem::take(&mut replay))?;
                    places = 0;
                }
                places += 1;
                last = Some(rowid);
            }
            let (loc, ms) = (Loc::Row(rowid), millis(row.get(4)?));
            replay.seq = row.get(1)?;
            if row.get::<_, i64>(2)? == kind(op::UPDATE) {
                replay.update(loc, None, &columns_of_mask(row.get_ref(3)?)?, ms);
            } else {
                replay.remove(&loc, ms, Some(replay.seq));
            }
        }
        if places > 0 {
            end(replay)?;
        }
        of.together.extend(left);
        of.replayed = true;
        Ok(())
    }
}
