//! A program that writes one row after another while something large happens to the same file: how
//! long each of its writes takes, and how often it is told that the database is busy.
//!
//! On a replica it is a pull, a fold, a push, a verification, or that it becomes one; on plain SQLite
//! one statement that writes the same rows. Each phase lasts as long as that, its latencies are those of
//! the bystander.

use super::Workload;
use crate::database::Database;
use crate::engine::Engine;
use crate::meter::{Done, Meter, Timer};
use crate::{Error, Result};
use rusqlite::{Connection, ErrorCode};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use synqlite_core::{InitOptions, Replica, System};
use synqlite_remote::{Remote, Session};

/// A run of it.
#[derive(Clone, Debug)]
pub struct Bystander {
    /// Rows that are inserted, updated or deleted at once, among as many others.
    pub rows: u64,
    /// The bystander's `busy_timeout`, in milliseconds.
    pub patience: u64,
}

/// So long the bystander pauses after each write.
const PAUSE: Duration = Duration::from_millis(1);

impl Workload for Bystander {
    fn name(&self) -> &'static str {
        "bystander"
    }

    fn options(&self) -> Value {
        json!({
            "rows": self.rows,
            "busy_timeout, ms": self.patience,
            "bystander": "inserts a row of 2 columns in a transaction of its own, and pauses for 1 ms",
        })
    }

    fn schema(&self) -> String {
        "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, note TEXT, count INTEGER, price REAL);
         CREATE TABLE beat(id INTEGER PRIMARY KEY, at INTEGER);"
            .to_owned()
    }

    fn run(&self, db: &mut Database, _: u64, meter: &mut Meter) -> Result<()> {
        let n = self.rows;
        db.conn.execute_batch(&self.insert(0))?;
        db.checkpoint()?;
        match db.engine() {
            Engine::Replica(_) => self.on_replica(db, meter),
            Engine::Plain | Engine::Again => {
                let other = Connection::open(db.path())?;
                other.busy_timeout(Duration::from_secs(60))?;
                for (what, sql) in self.changes() {
                    self.phase(db, &format!("{n} rows {what}"), meter, || {
                        Ok(other.execute_batch(&sql)?)
                    })?;
                }
                Ok(())
            }
            other => Err(Error::Bad(format!("bystander does not run on {other}"))),
        }
    }

    fn same_for_all(&self) -> bool {
        false
    }

    fn megabytes(&self) -> u64 {
        self.rows * 2_000 / 1_000_000 + 50
    }
}

impl Bystander {
    /// Inserts the rows after row `from`.
    fn insert(&self, from: u64) -> String {
        format!(
            "WITH RECURSIVE c(i) AS (SELECT {} UNION ALL SELECT i + 1 FROM c WHERE i < {}) \
             INSERT INTO item SELECT i, 'item number ' || i, 'a note on item ' || i * 7, i % 1000, i * 0.5 \
             FROM c",
            from + 1,
            from + self.rows
        )
    }

    /// What happens to the rows, in order.
    fn changes(&self) -> [(&'static str, String); 3] {
        let n = self.rows;
        [
            ("inserted", self.insert(n)),
            ("updated", format!("UPDATE item SET note = note || '.' WHERE id <= {n}")),
            ("deleted", format!("DELETE FROM item WHERE id > {n}")),
        ]
    }

    fn on_replica(&self, db: &mut Database, meter: &mut Meter) -> Result<()> {
        let (n, beside) = (self.rows, db.path().parent().unwrap_or(Path::new(".")));
        let dir = tempfile::tempdir_in(beside).map_err(Error::io(beside))?;
        let path = dir.path().join("other.db");
        exchange(|s| Remote::Replica(db.path().to_owned()).clone_to(&path, s))?;
        let (mut mine, mut theirs) = (open(db.path())?, open(&path)?);
        let replica = Remote::Replica(path.clone());
        let folder = Remote::parse(&format!("file://{}/", dir.path().join("folder").display()))?;
        exchange(|s| folder.push(&mut mine, s))?;
        let elsewhere = |sql: &str| -> Result<()> {
            let app = Connection::open(&path)?;
            app.busy_timeout(Duration::from_secs(60))?;
            Ok(app.execute_batch(sql)?)
        };
        for (what, sql) in self.changes() {
            elsewhere(&sql)?;
            theirs.fold()?;
            self.phase(db, &format!("{n} rows {what}"), meter, || {
                exchange(|s| replica.pull(&mut mine, s)).map(drop)
            })?;
        }
        let [_, (_, update), _] = self.changes();
        elsewhere(&update)?;
        exchange(|s| folder.sync(&mut theirs, s))?;
        self.phase(db, &format!("pull of {n} updated rows from a folder"), meter, || {
            exchange(|s| folder.pull(&mut mine, s)).map(drop)
        })?;
        db.conn.execute_batch(&update)?;
        self.phase(db, &format!("fold of {n} updated rows"), meter, || {
            Ok(mine.fold().map(drop)?)
        })?;
        self.phase(db, &format!("push of {n} updated rows into a folder"), meter, || {
            exchange(|s| folder.push(&mut mine, s)).map(drop)
        })?;
        self.phase(db, &format!("verification of {n} rows"), meter, || match mine.verify()? {
            none if none.is_empty() => Ok(()),
            found => Err(Error::Bad(format!("verify: {}", found.join("; ")))),
        })?;
        // What was written meanwhile gets everywhere too.
        exchange(|s| replica.sync(&mut mine, s))?;
        if mine.digest()?.digest != theirs.digest()?.digest {
            return Err(Error::Bad("two sites show different rows".into()));
        }
        drop(mine);
        for (what, history) in [("init", false), ("init --history", true)] {
            Replica::deinit(db.path(), &System)?;
            let options = InitOptions { history, ..InitOptions::default() };
            self.phase(db, &format!("{what} of {n} rows"), meter, || {
                Ok(Replica::init(db.path(), &options, Arc::new(System)).map(drop)?)
            })?;
        }
        Ok(())
    }

    /// Does `work` while the bystander writes.
    fn phase(
        &self,
        db: &Database,
        name: &str,
        meter: &mut Meter,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        db.checkpoint()?;
        let (stop, path, mut told) = (AtomicBool::new(false), db.path(), 0);
        meter.timed(name, || {
            thread::scope(|scope| {
                let bystander = scope.spawn(|| self.write(path, &stop));
                let done = work();
                stop.store(true, Relaxed);
                let Ok(written) = bystander.join() else {
                    return Err(Error::Bad("the bystander panicked".into()));
                };
                done?;
                let (timer, busy) = written?;
                told = busy;
                Ok((Done { operations: self.rows, transactions: 1 }, Some(timer)))
            })
        })?;
        meter.fact(&format!("{name}: told that it is busy"), f64::from(told));
        Ok(())
    }

    /// Writes until it is to stop: how long each write took, and how often the database was busy.
    fn write(&self, path: &Path, stop: &AtomicBool) -> Result<(Timer, u32)> {
        let conn = Connection::open(path)?;
        conn.busy_timeout(Duration::from_millis(self.patience))?;
        let (mut timer, mut busy) = (Timer::new()?, 0);
        while !stop.load(Relaxed) {
            let since = Instant::now();
            match conn
                .prepare_cached("INSERT INTO beat(at) VALUES(1)")
                .and_then(|mut s| s.execute([]))
            {
                Ok(_) => {}
                Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => busy += 1,
                Err(e) => return Err(e.into()),
            }
            timer.add(since.elapsed());
            thread::sleep(PAUSE);
        }
        Ok((timer, busy))
    }
}

fn open(path: &Path) -> Result<Replica> {
    Ok(Replica::open(path, Arc::new(System))?)
}

fn exchange<T>(
    with: impl FnOnce(&Session) -> std::result::Result<T, synqlite_remote::SyncError>,
) -> Result<T> {
    let env = Arc::new(System);
    let session = Session { env, force: false, whole: false };
    Ok(with(&session)?)
}
