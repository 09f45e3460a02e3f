//! The entries of a large journal in the order of the rows that they concern, so that a fold can take some
//! rows at a time, each time in a transaction of its own.
//!
//! A queue is of the entries that were there when it began. What is written later is looked at before each
//! time: a row of which there is anything new is left to the fold of all others.

use super::entry::millis;
use super::independent::{Parts, Survey};
use super::window::{Millis, Window};
use crate::Result;
use crate::capture::Event;
use crate::catalog::{Catalog, Tracked};
use rusqlite::{Connection, OptionalExtension, params};

const TABLE: &str = "\
    DROP TABLE IF EXISTS temp.synqlite_queue;\
    CREATE TEMP TABLE synqlite_queue(tbl, a, seq, PRIMARY KEY(tbl, a, seq)) WITHOUT ROWID";

/// Entries of rows that concern nobody else, in a temporary table of the connection.
pub struct Queue {
    survey: Survey,
    /// The last entry that was there when it began. It stays until the journal is emptied, so that no later
    /// one gets a number of an earlier one.
    end: i64,
    /// The last entry that was looked at.
    looked: i64,
    /// The row of that entry.
    row: Option<(usize, i64)>,
    /// The last row that was taken, by position of its table and rowid.
    after: (usize, i64),
    /// How many rows it holds, once that was asked.
    rows: Option<u64>,
}

/// When the first and the last entry were made, and the number of the last, if there are more than so many.
pub fn more_than(conn: &Connection, most: i64) -> Result<Option<(Millis, Millis, i64)>> {
    let sql = "SELECT seq, at FROM synqlite_journal ORDER BY seq";
    let end = |order: &str| -> Result<Option<(i64, f64)>> {
        let mut statement = conn.prepare_cached(&format!("{sql} {order} LIMIT 1"))?;
        Ok(statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
    };
    let (Some(first), Some(last)) = (end("ASC")?, end("DESC")?) else { return Ok(None) };
    Ok((last.0 - first.0 >= most).then(|| (millis(first.1), millis(last.1), last.0)))
}

impl Queue {
    /// Of nothing yet; `end`: the last entry there is.
    pub fn new(conn: &Connection, catalog: &Catalog, end: i64) -> Result<Queue> {
        conn.execute_batch(TABLE)?;
        let survey = Survey::new(catalog);
        Ok(Queue { survey, end, looked: 0, row: None, after: (0, i64::MIN), rows: None })
    }

    /// Looks at the next entries, `most` at most. Whether more are left.
    pub fn fill(&mut self, conn: &Connection, catalog: &Catalog, most: i64) -> Result<bool> {
        let sql = "SELECT ev, a, b, at, seq FROM synqlite_journal \
                   WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([self.looked, self.end, most])?;
        let into = "INSERT INTO temp.synqlite_queue VALUES(?1, ?2, ?3)";
        let (mut insert, before) = (conn.prepare_cached(into)?, self.looked);
        while let Some(row) = rows.next()? {
            let of = self.survey.note(catalog, row)?;
            // What continues an image goes with it.
            if Event::read(row.get(0)?)?.1 != Event::More {
                self.row = of;
            }
            self.looked = row.get(4)?;
            if let Some((position, rowid)) = self.row {
                insert.execute(params![position as i64, rowid, self.looked])?;
            }
        }
        let more = self.looked < self.end && self.looked > before;
        if let Some((position, rowid)) = self.row.filter(|_| !more) {
            self.survey.keep_together(position, rowid);
        }
        Ok(more)
    }

    /// Frees what it took.
    pub fn end(self, conn: &Connection) -> Result<()> {
        Ok(conn.execute_batch("DROP TABLE temp.synqlite_queue")?)
    }

    /// How many rows it holds, all of which it has looked at.
    pub fn rows(&mut self, conn: &Connection) -> Result<u64> {
        if let Some(rows) = self.rows {
            return Ok(rows);
        }
        let sql = "SELECT count(*) FROM (SELECT DISTINCT tbl, a FROM temp.synqlite_queue)";
        let rows: i64 = conn.query_row(sql, [], |row| row.get(0))?;
        Ok(*self.rows.insert(rows.unsigned_abs()))
    }

    /// Looks at what was written since. Whether times still follow each other.
    pub fn look(&mut self, conn: &Connection, catalog: &Catalog) -> Result<bool> {
        let sql = "SELECT ev, a, b, at, seq FROM synqlite_journal WHERE seq > ?1 ORDER BY seq";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([self.looked])?;
        while let Some(row) = rows.next()? {
            if let Some((position, rowid)) = self.survey.note(catalog, row)? {
                self.survey.keep_together(position, rowid);
            }
            self.looked = row.get(4)?;
        }
        Ok(self.survey.in_order)
    }

    /// Gives `fold` what the entries of the next rows come to, of `most` rows at most, and removes them from
    /// the journal. Rows that it leaves in the window stay, and so do those of tables that `takes` refuses.
    /// Whether more are left.
    pub fn take(
        &mut self,
        conn: &Connection,
        catalog: &Catalog,
        takes: impl Fn(&Tracked) -> bool,
        most: usize,
        fold: impl FnMut(&Survey, usize, Window) -> Result<Window>,
    ) -> Result<bool> {
        let sql = "SELECT j.ev, j.a, j.seq, j.m, j.at, q.tbl \
                   FROM temp.synqlite_queue q CROSS JOIN main.synqlite_journal j USING(seq) \
                   WHERE (q.tbl, q.a) > (?1, ?2) ORDER BY q.tbl, q.a, q.seq";
        let (mut parts, mut more) = (Parts::new(conn, catalog, fold), false);
        let (mut taken, mut count) = (Vec::new(), 0);
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![self.after.0 as i64, self.after.1])?;
        while let Some(row) = rows.next()? {
            let at: (usize, i64) = (row.get::<_, u32>(5)? as usize, row.get(1)?);
            if at != self.after {
                if count == most {
                    more = true;
                    break;
                }
                count += 1;
                self.after = at;
            }
            if !takes(&catalog.tables[at.0]) || !self.survey.is_apart(at.0, at.1) {
                continue;
            }
            taken.push((at, row.get::<_, i64>(2)?));
            if Event::read(row.get(0)?)?.1 != Event::More {
                parts.entry(&self.survey, at.0, row)?;
            }
        }
        drop(rows);
        let left: std::collections::HashSet<_> = parts.end(&self.survey)?.into_iter().collect();
        let mut delete = conn.prepare_cached("DELETE FROM synqlite_journal WHERE seq = ?1")?;
        for (_, seq) in taken.iter().filter(|(at, _)| !left.contains(at)) {
            delete.execute([seq])?;
        }
        Ok(more)
    }
}
