//! Synchronization: what the thesis left out (its 8.3), and its continuous synchronization (5.3.1.5).
//!
//! A database of so many rows is folded, cloned, changed, pulled and pushed. What another site gets
//! is compared with the original by digest. On plain SQLite the same phases copy the whole file,
//! which is all that can be done there; the ratio says what an increment saves. Designs that cannot
//! exchange anything here execute the fold and the continuous part only.

use super::Workload;
use super::random::Random;
use crate::database::Database;
use crate::engine::Engine;
use crate::meter::{Done, Meter};
use crate::{Error, Result};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use synqlite_core::{Replica, System};
use synqlite_remote::{Remote, Session};

/// A run of it.
#[derive(Clone, Debug)]
pub struct Sync {
    /// Rows of the database.
    pub rows: u64,
    /// Numbers of changes between two synchronizations.
    pub changes: Vec<u64>,
    /// Rows of the continuous part, written in rounds with a fold after each; 0 leaves it out.
    pub continuous: u64,
    /// Sizes of its rounds.
    pub rounds: Vec<u64>,
}

const BATCH: usize = 10_000;

/// A change of one row.
enum Change {
    Insert(i64),
    Update(i64),
    Delete(i64),
}

impl Sync {
    /// Refuses what cannot be executed.
    pub fn check(&self) -> Result<()> {
        let most = self.changes.iter().max().copied().unwrap_or_default();
        if self.rows < 2 * most.max(1) || self.rounds.contains(&0) || self.changes.contains(&0) {
            let needs = "sync needs at least twice as many rows as changes, and no round or number \
                         of changes of 0";
            return Err(Error::Bad(needs.into()));
        }
        Ok(())
    }
}

/// Executes changes in one transaction each `BATCH`.
fn apply(conn: &Connection, changes: &[Change], random: &mut Random) -> Result<()> {
    for part in changes.chunks(BATCH) {
        conn.execute_batch("BEGIN")?;
        for change in part {
            match change {
                Change::Insert(id) => {
                    let sql = "INSERT INTO item VALUES(?,?,?,?,?)";
                    let (name, note) = (random.text(10, 20), random.text(20, 40));
                    let count = random.between(0, 1000);
                    let values = params![id, name, note, count, random.unit()];
                    conn.prepare_cached(sql)?.execute(values)?
                }
                Change::Update(id) => {
                    let sql = "UPDATE item SET note=? WHERE id=?";
                    conn.prepare_cached(sql)?.execute(params![random.text(20, 40), id])?
                }
                Change::Delete(id) => {
                    conn.prepare_cached("DELETE FROM item WHERE id=?")?.execute([id])?
                }
            };
        }
        conn.execute_batch("COMMIT")?;
    }
    Ok(())
}

/// A fifth inserts, a fifth deletes, the rest updates, spread over the rows that there are.
struct Changes {
    live: Vec<i64>,
    next: i64,
}

impl Changes {
    fn draw(&mut self, n: u64, random: &mut Random) -> Vec<Change> {
        let mut changes = Vec::new();
        for i in 0..n {
            let at = random.between(0, self.live.len() as i64 - 1) as usize;
            changes.push(match i % 5 {
                0 => {
                    self.next += 1;
                    self.live.push(self.next);
                    Change::Insert(self.next)
                }
                1 => Change::Delete(self.live.swap_remove(at)),
                _ => Change::Update(self.live[at]),
            });
        }
        changes
    }
}

/// The other side of a synchronization.
enum Other {
    /// Another replica, a third that goes by the folder, and the folder.
    Replica { mine: Box<Replica>, pulls: Box<Replica>, fetches: Box<Replica>, folder: Remote },
    /// A copy of the file.
    Copy(PathBuf),
}

fn exchange<T>(
    with: impl FnOnce(&Session) -> std::result::Result<T, synqlite_remote::SyncError>,
) -> Result<T> {
    let session = Session { env: Arc::new(System), force: false, whole: false };
    Ok(with(&session)?)
}

fn open(path: &Path) -> Result<Box<Replica>> {
    Ok(Box::new(Replica::open(path, Arc::new(System))?))
}

fn same(mine: &Replica, other: &Replica) -> Result<()> {
    if mine.digest()?.digest != other.digest()?.digest {
        return Err(Error::Bad("two sites show different rows after a synchronization".into()));
    }
    Ok(())
}

/// Copies the whole file, as a program without replication would.
fn copy(db: &Database, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_file(to).map_err(Error::io(to))?;
    }
    // Another program does this, not the application.
    let conn = Connection::open(db.path())?;
    conn.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    let file = std::fs::File::open(to).map_err(Error::io(to))?;
    file.sync_all().map_err(Error::io(to))
}

fn done(operations: u64) -> Done {
    Done { operations, transactions: 1 }
}

impl Sync {
    /// The first synchronization: everything.
    fn begin(&self, db: &mut Database, dir: &Path, meter: &mut Meter) -> Result<Option<Other>> {
        let (first, second) = (dir.join("first.db"), dir.join("second.db"));
        let rows = self.rows;
        match db.engine() {
            Engine::Plain | Engine::Again => {
                meter.phase("clone", || copy(db, &first).map(|()| done(rows)))?;
                meter.phase("full push", || copy(db, &second).map(|()| done(rows)))?;
                meter
                    .phase("full clone from a folder", || copy(db, &second).map(|()| done(rows)))?;
                Ok(Some(Other::Copy(second)))
            }
            Engine::Replica(_) => {
                let source = Remote::Replica(db.path().to_owned());
                meter.phase("clone", || {
                    exchange(|s| source.clone_to(&first, s)).map(|_| done(rows))
                })?;
                let mut mine = open(db.path())?;
                let folder = Remote::parse(&format!("file://{}/", dir.join("folder").display()))?;
                meter.phase("full push", || {
                    exchange(|s| folder.push(&mut mine, s)).map(|_| done(rows))
                })?;
                meter.phase("full clone from a folder", || {
                    exchange(|s| folder.clone_to(&second, s)).map(|_| done(rows))
                })?;
                let (pulls, fetches) = (open(&first)?, open(&second)?);
                same(&mine, &pulls)?;
                same(&mine, &fetches)?;
                Ok(Some(Other::Replica { mine, pulls, fetches, folder }))
            }
            _ => Ok(None),
        }
    }

    /// A later synchronization of `n` changes.
    fn go_on(
        &self,
        db: &Database,
        other: &mut Other,
        n: u64,
        conflicts: bool,
        meter: &mut Meter,
    ) -> Result<()> {
        let name = |what: &str| {
            format!("{what}, {n} changes{}", if conflicts { " in conflict" } else { "" })
        };
        match other {
            Other::Copy(to) => {
                meter.phase(&name("pull"), || copy(db, to).map(|()| done(n)))?;
                if !conflicts {
                    meter.phase(&name("push"), || copy(db, to).map(|()| done(n)))?;
                    meter.phase(&name("pull from a folder"), || copy(db, to).map(|()| done(n)))?;
                }
            }
            Other::Replica { mine, pulls, fetches, folder } => {
                meter.phase(&name("pull"), || {
                    pulls.pull_from(mine, false)?;
                    Ok(done(n))
                })?;
                if !conflicts {
                    same(mine, pulls)?;
                    meter.phase(&name("push"), || {
                        exchange(|s| folder.push(mine, s)).map(|_| done(n))
                    })?;
                    meter.phase(&name("pull from a folder"), || {
                        exchange(|s| folder.pull(fetches, s)).map(|_| done(n))
                    })?;
                    same(mine, fetches)?;
                }
            }
        }
        Ok(())
    }

    /// Rounds of inserts with a fold after each, in a table of their own.
    fn continuous(&self, db: &mut Database, random: &mut Random, meter: &mut Meter) -> Result<()> {
        let mut next = 0;
        for &round in &self.rounds {
            let name = format!("insert {} rows, fold every {round}", self.continuous);
            db.checkpoint()?;
            let values: Vec<String> = (0..64).map(|_| random.text(20, 40)).collect();
            meter.phase(&name, || {
                let mut left = self.continuous;
                let mut transactions = 0;
                while left > 0 {
                    let rows = round.min(left);
                    db.conn.prepare_cached("BEGIN")?.execute([])?;
                    for _ in 0..rows {
                        next += 1;
                        let sql = "INSERT INTO log VALUES(?,?,?)";
                        let text = &values[next as usize % 64];
                        db.conn.prepare_cached(sql)?.execute(params![next, text, next % 97])?;
                    }
                    db.conn.prepare_cached("COMMIT")?.execute([])?;
                    db.fold()?;
                    left -= rows;
                    transactions += 1;
                }
                Ok(Done { operations: self.continuous, transactions })
            })?;
        }
        Ok(())
    }
}

impl Workload for Sync {
    fn name(&self) -> &'static str {
        "sync"
    }

    fn options(&self) -> Value {
        json!({
            "rows": self.rows,
            "changes": self.changes,
            "continuous": self.continuous,
            "rounds": self.rounds,
        })
    }

    fn schema(&self) -> String {
        "CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, note TEXT, count INTEGER, price REAL);
         CREATE TABLE log(id INTEGER PRIMARY KEY, text TEXT, number INTEGER);"
            .to_owned()
    }

    fn run(&self, db: &mut Database, seed: u64, meter: &mut Meter) -> Result<()> {
        let mut random = Random::new(seed, 0);
        let rows = self.rows as i64;
        let all: Vec<Change> = (1..=rows).map(Change::Insert).collect();
        apply(&db.conn, &all, &mut random)?;
        db.checkpoint()?;
        fold(db, &format!("fold of {rows} new rows"), self.rows, meter)?;
        let beside = db.path().parent().unwrap_or(Path::new("."));
        let dir = tempfile::tempdir_in(beside).map_err(Error::io(beside))?;
        let mut other = self.begin(db, dir.path(), meter)?;
        let mut changes = Changes { live: (1..=rows).collect(), next: rows };
        for &n in &self.changes {
            apply(&db.conn, &changes.draw(n, &mut random), &mut random)?;
            fold(db, &format!("fold of {n} changes"), n, meter)?;
            if let Some(other) = &mut other {
                self.go_on(db, other, n, false, meter)?;
            }
            // The same rows are written on both sites, on the original later, so that its writes
            // win and it shows what every other engine shows.
            let at = |_| changes.live[random.between(0, changes.live.len() as i64 - 1) as usize];
            let both: Vec<Change> = (0..n).map(at).map(Change::Update).collect();
            if let Some(Other::Replica { pulls, .. }) = &other {
                let there = Connection::open(pulls.path())?;
                apply(&there, &both, &mut Random::new(seed, 9))?;
                std::thread::sleep(Duration::from_millis(2));
            }
            apply(&db.conn, &both, &mut random)?;
            if let Some(other) = &mut other {
                self.go_on(db, other, n, true, meter)?;
            }
            if let Some(Other::Replica { mine, pulls, fetches, folder }) = &mut other {
                meet(mine, pulls, fetches, folder)?;
            }
        }
        self.continuous(db, &mut random, meter)
    }

    fn megabytes(&self) -> u64 {
        (self.rows + self.continuous * self.rounds.len() as u64) * 1500 / 1_000_000 + 50
    }
}

/// Folds as a phase of its own, where the engine folds at all.
fn fold(db: &mut Database, name: &str, n: u64, meter: &mut Meter) -> Result<()> {
    match db.engine() {
        Engine::Replica(_) | Engine::Improved(_) => {
            meter.phase(name, || db.fold().map(|_| done(n)))
        }
        _ => Ok(()),
    }
}

/// Brings all sites to one state again after a conflict.
fn meet(
    mine: &mut Replica,
    pulls: &mut Replica,
    fetches: &mut Replica,
    folder: &Remote,
) -> Result<()> {
    mine.pull_from(pulls, false)?;
    pulls.pull_from(mine, false)?;
    exchange(|s| folder.push(mine, s))?;
    exchange(|s| folder.pull(fetches, s))?;
    same(mine, pulls)?;
    same(mine, fetches)
}
