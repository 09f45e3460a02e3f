//! Rows that were updated, beside their sums: what was written past the triggers (decision 042).

use super::chunk::{CHECK, CHUNK, Chunk, differs, hash, holds_blobs, part};
use super::load;
use crate::Result;
use crate::catalog::{Loc, Tracked, loc_sql};
use crate::schema::quote;
use crate::sqlvalue::{At, as_ref};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

/// Compares rows of a table with their sums, best in ascending order of places.
pub struct Comparison<'a> {
    conn: &'a Connection,
    t: &'a Tracked,
    chunk: Option<Chunk>,
    /// Columns, by position, whose values programs overwrite past the triggers.
    blobs: Vec<usize>,
    /// Reads them.
    sql: String,
}

impl<'a> Comparison<'a> {
    /// For rows of `t`; of its columns only these, by position, are ever looked at.
    pub fn new(conn: &'a Connection, t: &'a Tracked, columns: &BTreeSet<usize>) -> Comparison<'a> {
        let blobs: Vec<usize> = columns.iter().copied().filter(|&c| holds_blobs(t, c)).collect();
        let names = blobs.iter().map(|&c| quote(&t.table.columns[c].name));
        let (names, loc) = (names.collect::<Vec<_>>().join(","), loc_sql(&t.table, ""));
        let sql = format!("SELECT {names} FROM {} WHERE {loc} = ?1", t.target());
        Comparison { conn, t, chunk: None, blobs, sql }
    }

    /// Whether there are columns whose values programs overwrite past the triggers.
    pub fn has_blobs(&self) -> bool {
        !self.blobs.is_empty()
    }

    /// Those of them in which the row that is at `now` shows something else than when it was at `from` and its sum
    /// was taken.
    pub fn blobs(&mut self, from: &Loc, now: &Loc) -> Result<Vec<usize>> {
        let (conn, t) = (self.conn, self.t);
        let Some(place) = self.open(from)? else { return Ok(vec![]) };
        let Some((chunk, sum)) = self.chunk.as_ref().and_then(|c| Some((c, c.get(place)?))) else {
            return Ok(vec![]);
        };
        let mut statement = conn.prepare_cached(&self.sql)?;
        let mut rows = statement.query([At(now)])?;
        let (mut found, Some(row)) = (vec![], rows.next()?) else { return Ok(vec![]) };
        for (nth, &c) in self.blobs.iter().enumerate() {
            let (no, affinity) = (t.column_nos[c], t.table.columns[c].affinity);
            let at = chunk.layout.iter().position(|of| of.is(no, affinity));
            let hash = hash(no, row.get_ref(nth)?);
            if at.is_some_and(|at| differs(&chunk.layout, at, sum, hash)) {
                found.push(c);
            }
        }
        Ok(found)
    }

    /// Those of `columns`, by position, in which such a row shows something else; all of them if it does and it cannot
    /// be told in which, where `untouched` says that no other column was written.
    pub fn all(
        &mut self,
        (from, now): (&Loc, &Loc),
        columns: Vec<usize>,
        untouched: bool,
    ) -> Result<Vec<usize>> {
        let t = self.t;
        let Some(place) = self.open(from)? else { return Ok(vec![]) };
        let Some((chunk, sum)) = self.chunk.as_ref().and_then(|c| Some((c, c.get(place)?))) else {
            return Ok(vec![]);
        };
        let Some(row) = t.read(self.conn, now)? else { return Ok(vec![]) };
        let (mut found, mut check, mut whole) = (vec![], 0u16, untouched);
        for (i, of) in chunk.layout.iter().enumerate() {
            let is = |c: &usize| of.is(t.column_nos[*c], t.table.columns[*c].affinity);
            let Some(c) = (0..row.len()).find(is) else {
                whole = false;
                continue;
            };
            let hash = hash(of.no, as_ref(&row[c]));
            check = check.wrapping_add(part(hash));
            if columns.contains(&c) && differs(&chunk.layout, i, sum, hash) {
                found.push(c);
            }
        }
        let untold = found.is_empty() && whole && check.to_le_bytes() != sum[..CHECK];
        Ok(if untold { columns } else { found })
    }

    /// The place of a row, whose chunk is read.
    fn open(&mut self, loc: &Loc) -> Result<Option<i64>> {
        let (conn, t) = (self.conn, self.t);
        let place = match loc {
            Loc::Row(rowid) => Some(*rowid),
            Loc::Key(_) => {
                let sql = "SELECT id FROM synqlite_row WHERE tbl = ?1 AND loc = ?2";
                let mut statement = conn.prepare_cached(sql)?;
                statement.query_row(params![t.no, At(loc)], |row| row.get(0)).optional()?
            }
        };
        if let Some(no) = place.map(|place: i64| place.div_euclid(CHUNK))
            && self.chunk.as_ref().is_none_or(|chunk| chunk.no != no)
        {
            self.chunk = load(conn, t, no)?;
        }
        Ok(place)
    }
}
