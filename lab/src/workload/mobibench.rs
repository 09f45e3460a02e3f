//! The DASH paper's workload (its section 7), after Mobibench.
//!
//! Small transactions on small records, as a telephone's applications write: each of the operations
//! of a transaction goes to a table of its own, nothing is indexed but the row number. Inserts
//! append; updates and deletes pick rows at random. Every transaction is timed by itself, and what
//! SQLite asks of the file system is counted exactly; what reaches the device, too, if it is asked.

use super::Workload;
use super::random::Random;
use crate::database::Database;
use crate::device::{Device, Work};
use crate::meter::{Done, Meter, Timer};
use crate::{Error, Result, shadow, vfs};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A run of it.
#[derive(Clone, Debug)]
pub struct Mobibench {
    /// Transactions of each kind.
    pub transactions: u64,
    /// Operations a transaction, each on its own table.
    pub operations: u32,
    /// Bytes of a record.
    pub record: u32,
    /// Percentages: updates of which so many pages were written by the transaction before.
    pub duplication: Vec<u32>,
    /// How often recovery after a crash is timed.
    pub recoveries: u32,
    /// Megabytes that the database has before.
    pub fill: u32,
    /// Whether the block device is asked for its counts after every transaction.
    pub device: bool,
}

/// How long an open took, in microseconds.
struct Opened {
    /// Until the first row was read.
    read: f64,
    /// From there to the end of the first transaction.
    write: f64,
}

/// Rows of 100 bytes that surely reach another page.
const STRIDE: u64 = 50;
/// Updates since the last checkpoint at a crash in WAL mode: on plain SQLite they fill the log about
/// half. They are the same for every engine, so an engine that writes more has a longer log.
const LOGGED: u64 = 250;

#[derive(Clone, Copy)]
enum Kind {
    Insert,
    Update,
    Delete,
}

impl Mobibench {
    /// Refuses what cannot be executed.
    pub fn check(&self) -> Result<()> {
        let duplication = self.duplication.iter().all(|percent| *percent <= 100);
        if !(1..=20).contains(&self.operations) || self.transactions == 0 || !duplication {
            let needs = "mobibench takes 1 to 20 operations a transaction, at least one \
                         transaction, and duplication from 0 to 100 percent";
            return Err(Error::Bad(needs.into()));
        }
        Ok(())
    }

    fn sql(&self, kind: Kind) -> Vec<String> {
        let tables = 0..self.operations;
        let sql = |t: u32| match kind {
            Kind::Insert => format!("INSERT INTO t{t}(id, value) VALUES(?1, ?2)"),
            Kind::Update => format!("UPDATE t{t} SET value=?2 WHERE id=?1"),
            Kind::Delete => format!("DELETE FROM t{t} WHERE id=?1"),
        };
        tables.map(sql).collect()
    }

    /// Transactions that write row `rows[i][t]` of table `t`.
    fn execute(
        &self,
        db: &mut Database,
        kind: Kind,
        rows: &[Vec<u64>],
        random: &mut Random,
    ) -> Result<(Done, Option<Timer>, Option<Work>)> {
        let sql = self.sql(kind);
        let length = i64::from(self.record);
        let values: Vec<String> = (0..64).map(|_| random.text(length, length)).collect();
        let mut timer = Timer::new()?;
        let device = self.device.then(|| Device::of(folder(db.path()))).transpose()?;
        let mut counts = Vec::new();
        for (i, rows) in rows.iter().enumerate() {
            if let Some(device) = &device {
                counts.push(device.counts()?);
            }
            let start = Instant::now();
            db.conn.prepare_cached("BEGIN")?.execute([])?;
            for (t, (sql, row)) in sql.iter().zip(rows).enumerate() {
                let mut statement = db.conn.prepare_cached(sql)?;
                match kind {
                    Kind::Delete => statement.execute([*row as i64])?,
                    _ => statement.execute(params![*row as i64, values[(i + t) % 64]])?,
                };
            }
            db.conn.prepare_cached("COMMIT")?.execute([])?;
            db.committed(u64::from(self.operations))?;
            timer.add(start.elapsed());
        }
        if let Some(device) = &device {
            counts.push(device.counts()?);
        }
        let transactions = rows.len() as u64;
        Ok((Done { operations: transactions, transactions }, Some(timer), Work::of(&counts)))
    }

    /// Rows for updates of which `percent` of each transaction's pages are those of the one before.
    fn repeating(&self, percent: u32, rows: u64) -> Vec<Vec<u64>> {
        let same = (self.operations * percent).div_ceil(100);
        let transaction = |i: u64| {
            let moving = |t: u32| if t < same { 1 } else { 1 + (i * STRIDE) % rows };
            (0..self.operations).map(moving).collect()
        };
        (0..self.transactions).map(transaction).collect()
    }

    /// Times the recovery of a database that crashed in mid-transaction, or in WAL mode with a log:
    /// the files are copied as they are then, and the copy is opened. On `vfs=dash` the files are no
    /// longer those of the pair once they are copied, so there the commit stops at one of its
    /// operations, and the database is opened as after a power failure.
    fn recovery(&self, db: &mut Database, rows: u64, random: &mut Random) -> Result<Opened> {
        let mode = db.conn.query_row("PRAGMA journal_mode", [], |r| r.get::<_, String>(0))?;
        let copy = tempfile::tempdir_in(folder(db.path())).map_err(Error::io(db.path()))?;
        if let Some(settings) = Some(db.settings().clone()).filter(|s| s.dash.is_some()) {
            // The trailer is the third operation at the earliest, so the transaction is undone.
            shadow::die_after(random.between(1, 2) as u32);
            let mut died = db.conn.execute_batch("BEGIN").is_err();
            for sql in self.sql(Kind::Update) {
                let row = random.between(1, rows as i64);
                died |= db.conn.execute(&sql, params![row, "crashed"]).is_err();
            }
            died |= db.conn.execute_batch("COMMIT").is_err();
            if !died {
                return Err(Error::Bad("the commit did not stop at its operation".into()));
            }
            return db.reopen(|path| {
                shadow::restart();
                self.open(&settings.name_of(path))
            });
        } else if mode == "wal" {
            db.checkpoint()?;
            let sql = self.sql(Kind::Update);
            for _ in 0..LOGGED {
                let row = random.between(1, rows as i64);
                let value = random.text(i64::from(self.record), i64::from(self.record));
                db.conn.prepare_cached(&sql[0])?.execute(params![row, value])?;
            }
            copy_files(db.path(), copy.path())?;
            db.committed(LOGGED)?;
        } else {
            db.conn.execute_batch("BEGIN")?;
            for sql in self.sql(Kind::Update) {
                let row = random.between(1, rows as i64);
                db.conn.prepare_cached(&sql)?.execute(params![row, "crashed"])?;
            }
            // The journal reaches the disk and after it the changed pages, as when memory is short.
            db.conn.cache_flush()?;
            copy_files(db.path(), copy.path())?;
            db.conn.execute_batch("ROLLBACK")?;
        }
        self.open(&copy.path().join("database.db"))
    }

    /// Times the opening of a database, and of its first transaction.
    fn open(&self, name: &Path) -> Result<Opened> {
        let start = Instant::now();
        let conn = Connection::open(name)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        let read = start.elapsed().as_secs_f64() * 1e6;
        let sql = "SELECT count(*) FROM t0 WHERE value = 'crashed'";
        let undone: i64 = conn.query_row(sql, [], |row| row.get(0))?;
        if undone != 0 {
            return Err(Error::Bad("a crashed transaction was not rolled back".into()));
        }
        let start = Instant::now();
        // An update that changes nothing would write nothing.
        let sql = "UPDATE t0 SET value=substr(value, 2) || substr(value, 1, 1) WHERE id=1";
        conn.execute(sql, [])?;
        let write = start.elapsed().as_secs_f64() * 1e6;
        conn.close().map_err(|(_, e)| Error::from(e))?;
        Ok(Opened { read, write })
    }

    /// Notes how long recovery takes, how long the opening of a database that was closed properly,
    /// and how many syncs an opening, a transaction and a closing are together.
    fn openings(
        &self,
        db: &mut Database,
        rows: u64,
        random: &mut Random,
        meter: &mut Meter,
    ) -> Result<()> {
        let (mut crashed, mut clean, mut syncs) = (Vec::new(), Vec::new(), 0);
        for _ in 0..self.recoveries {
            crashed.push(self.recovery(db, rows, random)?);
            let settings = db.settings().clone();
            clean.push(db.reopen(|path| {
                let before = vfs::counts();
                let opened = self.open(&settings.name_of(path));
                syncs = vfs::counts().since(before).syncs;
                opened
            })?);
        }
        let mut note = |name: &str, mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            meter.fact(&format!("{name} µs, minimum"), times[0]);
            meter.fact(&format!("{name} µs, median"), times[times.len() / 2]);
            meter.fact(&format!("{name} µs, maximum"), times[times.len() - 1]);
        };
        note("recovery", crashed.iter().map(|o| o.read).collect());
        note("first write after recovery", crashed.iter().map(|o| o.write).collect());
        note("clean open", clean.iter().map(|o| o.read).collect());
        meter.fact("syncs of an open, a write and a close", syncs as f64);
        Ok(())
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn copy_files(path: &Path, to: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-journal"] {
        let from = beside(path, suffix);
        if from.exists() {
            let to = to.join(format!("database.db{suffix}"));
            fs::copy(&from, &to).map_err(Error::io(&from))?;
        }
    }
    Ok(())
}

impl Workload for Mobibench {
    fn name(&self) -> &'static str {
        "mobibench"
    }

    fn options(&self) -> Value {
        json!({
            "transactions": self.transactions,
            "operations": self.operations,
            "record": self.record,
            "duplication": self.duplication,
            "recoveries": self.recoveries,
            "fill": self.fill,
            "device": self.device,
        })
    }

    fn schema(&self) -> String {
        let table =
            |t| format!("CREATE TABLE t{t}(id INTEGER PRIMARY KEY, value TEXT NOT NULL);\n");
        let filler = match self.fill {
            0 => "",
            _ => "CREATE TABLE filler(id INTEGER PRIMARY KEY, value BLOB NOT NULL);\n",
        };
        (0..self.operations).map(table).collect::<String>() + filler
    }

    fn run(&self, db: &mut Database, seed: u64, meter: &mut Meter) -> Result<()> {
        let mut random = Random::new(seed, 0);
        let tables = self.operations as usize;
        let rows = self.transactions;
        let inserts: Vec<Vec<u64>> = (1..=rows).map(|id| vec![id; tables]).collect();
        if self.fill > 0 {
            db.conn.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
                 INSERT INTO filler SELECT i, zeroblob(3900) FROM n",
                [i64::from(self.fill) * 1_000_000 / 4096],
            )?;
            // A shadow file gets what the transaction before wrote: not all of this, once measured.
            db.conn.execute("DELETE FROM filler WHERE id=1", [])?;
        }
        db.checkpoint()?;
        meter.watched("insert", || self.execute(db, Kind::Insert, &inserts, &mut random))?;
        let mut draw = || random.between(1, rows as i64).unsigned_abs();
        let updates: Vec<Vec<u64>> =
            (0..rows).map(|_| (0..tables).map(|_| draw()).collect()).collect();
        db.checkpoint()?;
        meter.watched("update", || self.execute(db, Kind::Update, &updates, &mut random))?;
        for percent in &self.duplication {
            let updates = self.repeating(*percent, rows);
            db.checkpoint()?;
            let name = format!("update, {percent} % of the pages again");
            meter.watched(&name, || self.execute(db, Kind::Update, &updates, &mut random))?;
        }
        meter.fact("bytes of all files", db.bytes_of_files()?);
        // The connection of another engine would have the database open too.
        if self.recoveries > 0 && (db.settings().dash.is_none() || db.engine().is_plain()) {
            self.openings(db, rows, &mut random, meter)?;
        }
        let mut order: Vec<u64> = (1..=rows).collect();
        let mut columns = Vec::new();
        for _ in 0..tables {
            random.shuffle(&mut order);
            columns.push(order.clone());
        }
        let row = |i: usize| columns.iter().map(|column| column[i]).collect();
        let deletes: Vec<Vec<u64>> = (0..rows as usize).map(row).collect();
        debug_assert!(columns.iter().all(|c| c.iter().collect::<HashSet<_>>().len() == c.len()));
        db.checkpoint()?;
        meter.watched("delete", || self.execute(db, Kind::Delete, &deletes, &mut random))?;
        meter.fact("bytes at the end", db.bytes()?);
        Ok(())
    }

    fn megabytes(&self) -> u64 {
        let bytes = self.transactions * u64::from(self.operations) * u64::from(self.record + 40);
        bytes * 10 / 1_000_000 + 30 + 3 * u64::from(self.fill)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pages_repeat_as_asked() {
        let bench = Mobibench {
            transactions: 10,
            operations: 4,
            record: 100,
            duplication: vec![],
            recoveries: 0,
            fill: 0,
            device: false,
        };
        for (percent, same) in [(0, 0), (50, 2), (100, 4)] {
            let rows = bench.repeating(percent, 1000);
            let repeated =
                |pair: &[Vec<u64>]| pair[0].iter().zip(&pair[1]).filter(|(a, b)| a == b).count();
            assert!(rows.windows(2).all(|pair| repeated(pair) == same), "{percent}: {rows:?}");
        }
    }
}
