//! A program that keeps nothing: it opens the database for each request, and prepares each statement anew.
//!
//! Scripts and many web applications work so. SQLite reads the whole schema when a database is opened, and
//! compiles the triggers that a statement may fire along with it: what a schema with triggers costs then, no
//! workload sees that prepares its statements once.

use super::Workload;
use crate::database::Database;
use crate::meter::{Done, Meter};
use crate::{Error, Result};
use rusqlite::params;
use serde_json::{Value, json};

/// A run of it.
#[derive(Clone, Debug)]
pub struct Brief {
    /// Tables of the database.
    pub tables: u64,
    /// Requests, and statements, of each sort.
    pub requests: u64,
}

/// Rows that the first table has before.
const ROWS: i64 = 1_000;

/// Statements of a transaction, where only preparing them is to count.
const TOGETHER: usize = 100;

impl Brief {
    /// Refuses what cannot be executed.
    pub fn check(&self) -> Result<()> {
        match self.tables {
            0 => Err(Error::Bad("brief needs at least one table".into())),
            _ => Ok(()),
        }
    }

    /// Opens the database so many times, and executes one statement with a number each time.
    fn opened(&self, db: &mut Database, sql: &str, first: i64) -> Result<Done> {
        for n in first..first + self.requests as i64 {
            db.reopen(|_| Ok(()))?;
            let mut statement = db.conn.prepare(sql)?;
            statement.query([n])?.next()?;
        }
        Ok(Done { operations: self.requests, transactions: self.requests })
    }

    /// Prepares a statement so many times, and executes it with a number each time.
    fn prepared(&self, db: &mut Database, sql: &str, first: i64) -> Result<Done> {
        let numbers: Vec<i64> = (first..first + self.requests as i64).collect();
        let mut transactions = 0;
        for together in numbers.chunks(TOGETHER) {
            db.conn.execute_batch("BEGIN")?;
            for n in together {
                db.conn.prepare(sql)?.execute([n])?;
            }
            db.conn.execute_batch("COMMIT")?;
            db.committed(together.len() as u64)?;
            transactions += 1;
        }
        Ok(Done { operations: self.requests, transactions })
    }
}

impl Workload for Brief {
    fn name(&self) -> &'static str {
        "brief"
    }

    fn options(&self) -> Value {
        json!({
            "tables": self.tables,
            "requests": self.requests,
            "columns": "7, with an integer key, a UNIQUE one and a reference",
            "rows before": ROWS,
            "statements of a transaction": TOGETHER,
        })
    }

    fn schema(&self) -> String {
        let table = |t: u64| {
            let parent = t.saturating_sub(1);
            format!(
                "CREATE TABLE t{t}(id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT UNIQUE, note TEXT, \
                 count INTEGER, created TEXT, parent INTEGER REFERENCES t{parent}(id));
                 CREATE INDEX parent{t} ON t{t}(parent);\n"
            )
        };
        (0..self.tables).map(table).collect()
    }

    fn run(&self, db: &mut Database, _: u64, meter: &mut Meter) -> Result<()> {
        db.conn.execute_batch("BEGIN")?;
        for t in 0..self.tables {
            let insert = format!("INSERT INTO t{t}(name, email) VALUES('somebody', ?1)");
            let rows = if t == 0 { ROWS } else { 1 };
            for n in 0..rows {
                db.conn.prepare_cached(&insert)?.execute(params![format!("{n}@example.org")])?;
            }
        }
        db.conn.execute_batch("COMMIT")?;
        db.committed(ROWS as u64 + self.tables - 1)?;
        db.fold()?;
        let (inserted, again) = (ROWS + 1, ROWS + 1 + self.requests as i64);
        let read = "SELECT name FROM t0 WHERE id = ?1";
        let insert = "INSERT INTO t0(id, name, email) VALUES(?1, 'somebody', ?1 || '@example.org')";
        let note = "UPDATE t0 SET note = 'seen' WHERE id = ?1";
        let email = "UPDATE t0 SET email = ?1 || '@example.com' WHERE id = ?1";
        let delete = "DELETE FROM t0 WHERE id = ?1";
        db.checkpoint()?;
        meter.phase("open, read one row", || self.opened(db, read, 1))?;
        meter.phase("open, insert one row", || self.opened(db, insert, inserted))?;
        db.checkpoint()?;
        meter.phase("insert, prepared anew", || self.prepared(db, insert, again))?;
        meter.phase("update, prepared anew", || self.prepared(db, note, inserted))?;
        meter.phase("update of a key, prepared anew", || self.prepared(db, email, inserted))?;
        meter.phase("delete, prepared anew", || self.prepared(db, delete, inserted))
    }

    fn megabytes(&self) -> u64 {
        self.tables / 10 + self.requests / 500 + 20
    }
}
