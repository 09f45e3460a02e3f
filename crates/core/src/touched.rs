//! Which tables may show something else than when somebody looked last, without a write: for programs that
//! run a query again when its tables changed.
//!
//! It never names too few. What it names beyond need is rare: the table of the latest insert, as one in the same
//! millisecond leaves no entry of its own; tables of which no trigger notes what is written, as they are not
//! replicated or lost theirs in a rebuild; and all tables, where rows may show something else though nobody wrote
//! to them and nobody listens for that ([`crate::state::shown`]), or the schema is another.

use crate::Result;
use crate::capture::Event;
use crate::replica::Replica;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeSet;

/// How far a database was when somebody looked.
#[derive(Clone, PartialEq, Debug)]
pub struct Mark {
    /// The latest entry of the journal: its place, its event and its time.
    entry: Option<(i64, i64, f64)>,
    /// Local sequence of the latest fold or merge that changed rows.
    position: i64,
    schema: i64,
}

/// What may have changed.
#[derive(Clone, PartialEq, Debug)]
pub enum Touched {
    /// Any table.
    All,
    /// These, by name.
    Tables(BTreeSet<String>),
}

impl Replica {
    /// Which tables may show something else than at this mark, or ever if there is none; and where the
    /// database is now.
    pub fn touched(&self, since: Option<&Mark>) -> Result<(Touched, Mark)> {
        self.peek(|conn, meta| {
            let sql = "SELECT seq, ev, at FROM synqlite_journal ORDER BY seq DESC LIMIT 1";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let entry = conn.prepare_cached(sql)?.query_row([], read).optional()?;
            let schema =
                conn.prepare_cached("PRAGMA schema_version")?.query_row([], |r| r.get(0))?;
            let now = Mark { entry, position: meta.local_seq, schema };
            let Some(since) = since.filter(|mark| mark.schema == schema) else {
                return Ok((Touched::All, now));
            };
            let merged = since.position != now.position;
            // A file that was restored is where it was before that.
            if since.position > now.position || merged && !meta.listened {
                return Ok((Touched::All, now));
            }
            let mut numbers = written(conn, since)?;
            if merged {
                numbers.append(&mut shows_else(conn, since.position)?);
            }
            Ok((Touched::Tables(names(conn, &numbers)?), now))
        })
    }
}

/// Tables with entries past a mark; all that have any if a fold has emptied the journal since.
fn written(conn: &Connection, since: &Mark) -> Result<BTreeSet<u32>> {
    let mut numbers = BTreeSet::new();
    let mut past = i64::MIN;
    if let Some((seq, ev, at)) = since.entry {
        let sql = "SELECT 1 FROM synqlite_journal WHERE seq = ?1 AND ev = ?2 AND at = ?3";
        if conn.prepare_cached(sql)?.exists(params![seq, ev, at])? {
            past = seq;
            let (no, event) = Event::read(ev)?;
            numbers.extend((event == Event::Insert).then_some(no));
        }
    }
    let sql = "SELECT DISTINCT ev FROM synqlite_journal WHERE seq > ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([past])?;
    while let Some(row) = rows.next()? {
        numbers.insert(Event::read(row.get(0)?)?.0);
    }
    Ok(numbers)
}

/// Tables with rows that were folded or merged since, or show something else.
fn shows_else(conn: &Connection, position: i64) -> Result<BTreeSet<u32>> {
    let sql = "SELECT tbl FROM synqlite_row WHERE position > ?1 \
               UNION SELECT tbl FROM synqlite_segment WHERE position > ?1 \
               UNION SELECT tbl FROM synqlite_shown WHERE position > ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let numbers = statement.query_map([position], |row| row.get(0))?;
    Ok(numbers.collect::<Result<_, _>>()?)
}

/// Their names, and those of tables of which no trigger notes what is written.
fn names(conn: &Connection, numbers: &BTreeSet<u32>) -> Result<BTreeSet<String>> {
    let sql = "SELECT s.name, t.no FROM main.sqlite_master s LEFT JOIN synqlite_table t ON t.name = s.name \
               AND (SELECT count(*) FROM main.sqlite_master WHERE type = 'trigger' AND tbl_name = s.name \
                    AND name IN ('synqlite_insert_' || t.no, 'synqlite_update_' || t.no, \
                                 'synqlite_delete_' || t.no)) = 3 \
               WHERE s.type = 'table' AND s.name NOT LIKE 'synqlite\\_%' ESCAPE '\\'";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut names = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let no: Option<u32> = row.get(1)?;
        if no.is_none_or(|no| numbers.contains(&no)) {
            names.insert(row.get(0)?);
        }
    }
    Ok(names)
}
