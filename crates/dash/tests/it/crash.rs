//! Power failures. A workload is recorded; states in which the files may be after losing power at
//! any of its operations are drawn, opened and checked:
//!
//! - the recovered database is one of those between the last acknowledged and the last begun;
//! - `integrity_check` is content, and further transactions work;
//! - where the mode promises it, a program without this file system finds such a database too;
//! - all of it again after a second failure inside the recovery and what follows;
//! - all of it where one operation of the workload had failed before, a synchronization perhaps;
//! - all of it where another program was killed in a transaction before.
//!
//! `SYNQLITE_STATES=100000 cargo test --release -p synqlite-dash --test it every_state` for a
//! campaign over all safe modes, `a_change_of_mode` for one over pairs of them; `SYNQLITE_SEED=1`
//! for other workloads.

use crate::Random;
use crate::lab::{Fault, Lab, Op};
use crate::mortal;
use crate::states::{Files, Without, draw};
use rusqlite::{Connection, OpenFlags};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use synqlite_dash::disk::{Disk, Kind, Sync};
use synqlite_dash::{Found, Mode};

/// What is recorded, and how it is enumerated.
#[derive(Debug, Clone, Copy)]
struct Setting {
    mode: Mode,
    /// The mode of the sessions before, if it was another.
    after: Option<Mode>,
    kind: Kind,
    without: Without,
    /// With `locking_mode=EXCLUSIVE`.
    exclusive: bool,
    /// Every transaction writes to a second database too.
    two: bool,
    /// How many bytes of a transaction stay in memory.
    memory: usize,
    /// One operation fails before the power does.
    error: bool,
    /// The database is another program's, which was killed in a transaction.
    killed: bool,
}

impl Setting {
    fn of(mode: Mode, kind: Kind) -> Setting {
        Setting {
            mode,
            after: None,
            kind,
            without: Without::Nothing,
            exclusive: false,
            two: false,
            memory: 8 << 20,
            error: false,
            killed: false,
        }
    }
}

/// A workload that was recorded.
struct Recording {
    before: Files,
    ops: Vec<Op>,
    /// What the database holds after each transaction, or would hold if it had not failed.
    digests: Vec<String>,
    /// The first transaction in the mode of the setting.
    changed: usize,
}

/// The number of transactions on an existing database after a failure.
const MORE: i64 = 2;

/// A number from the environment.
fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// What the database holds, as a text.
fn digest(db: &Connection, two: bool) -> rusqlite::Result<String> {
    let sql = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = db.query_row(sql, [], |row| row.get(0))?;
    let sql = match (tables, two) {
        (0, false) => return Ok("empty".to_owned()),
        (0, true) => "SELECT 'empty' || iif(count(*), ' and not', '') FROM o.sqlite_schema",
        (_, true) => "SELECT m.n || ':' || k.n FROM m, o.k",
        (_, false) => {
            "SELECT n || ':' || (SELECT count(*) || ',' || total(length(b)) || ',' || \
             coalesce(group_concat(a || substr(b, 1, 6)), '') FROM (SELECT a, b FROM t ORDER BY a)) \
             FROM m"
        }
    };
    db.query_row(sql, [], |row| row.get(0))
}

fn integrity(db: &Connection) -> Result<(), String> {
    let said: Result<String, _> = db.query_row("PRAGMA integrity_check", [], |row| row.get(0));
    match said {
        Ok(ok) if ok == "ok" => Ok(()),
        Ok(said) => Err(format!("integrity_check: {said}")),
        Err(error) => Err(format!("integrity_check: {error}")),
    }
}

/// One transaction of the workload.
fn transaction(db: &Connection, n: usize, two: bool, random: &mut Random) -> rusqlite::Result<()> {
    let text =
        |random: &mut Random| format!("{:x}", random.below(1 << 30)).repeat(random.below(60));
    let count = match two {
        true => format!("UPDATE m SET n = {n}; UPDATE o.k SET n = {n}"),
        false => format!("UPDATE m SET n = {n}"),
    };
    match random.below(12) {
        0 if n > 3 => return db.execute_batch(&format!("BEGIN; {count}; COMMIT; VACUUM")),
        1 => {
            // More pages than the cache holds.
            db.execute_batch("PRAGMA cache_size = 3; BEGIN")?;
            for _ in 0..60 {
                db.execute("INSERT INTO t(b) VALUES(?1)", [text(random) + "long"])?;
            }
        }
        2 => db.execute_batch("BEGIN; DELETE FROM t WHERE a % 3 = 1")?,
        _ => {
            db.execute_batch("BEGIN")?;
            for _ in 0..1 + random.below(3) {
                let b = text(random);
                let half = "UPDATE t SET b = ?1 WHERE a = (SELECT max(a) / 2 FROM t)";
                match random.below(3) {
                    0 => db.execute("INSERT INTO t(b) VALUES(?1)", [b])?,
                    1 => db.execute(half, [b])?,
                    _ => db.execute("DELETE FROM t WHERE a = (SELECT min(a) FROM t)", [])?,
                };
            }
        }
    }
    db.execute_batch(&format!("{count}; COMMIT"))
}

/// A database in memory that holds the same.
fn twin_of(db: Option<&Connection>, two: bool) -> Connection {
    let mut twin = Connection::open_in_memory().expect("opens");
    if two {
        twin.execute_batch("ATTACH ':memory:' AS o").expect("attaches");
    }
    for name in ["main", "o"].into_iter().take(1 + usize::from(two)) {
        let Some(db) = db else { continue };
        let size =
            db.query_row(&format!("PRAGMA {name}.page_size"), [], |row| row.get::<_, i64>(0));
        twin.pragma_update(Some(name), "page_size", size.expect("a size")).expect("sets");
        let copy = rusqlite::backup::Backup::new_with_names(db, name, &mut twin, name);
        copy.expect("begins").run_to_completion(1 << 20, Duration::ZERO, None).expect("copies");
    }
    twin
}

/// A disk that records, under a name of its own.
struct Bench {
    lab: Lab,
    vfs: String,
    setting: Setting,
}

impl Bench {
    fn new(setting: Setting) -> Bench {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let lab = Lab::default();
        let vfs = format!("bench{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        synqlite_dash::register_as(&vfs, Arc::new(lab.clone())).expect("registers");
        Bench { lab, vfs, setting }
    }

    fn connect(&self, folder: &Path) -> rusqlite::Result<Connection> {
        self.connect_in(self.setting.mode, folder)
    }

    fn connect_in(&self, mode: Mode, folder: &Path) -> rusqlite::Result<Connection> {
        let Setting { exclusive, two, memory, .. } = self.setting;
        let vfs = &self.vfs;
        let uri = |name: &str| {
            let path = folder.join(name);
            let path = path.display();
            format!("file:{path}?vfs={vfs}&dash={mode}&dash_unsafe=1&dash_memory={memory}")
        };
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags(uri("app.db"), flags)?;
        if two {
            db.execute("ATTACH ?1 AS o", [uri("other.db")])?;
        }
        if exclusive {
            db.execute_batch("PRAGMA locking_mode = EXCLUSIVE")?;
        }
        Ok(db)
    }

    /// Leaves a database in which a program without this file system was killed; what such a program
    /// recovers.
    fn leave_killed(&self, folder: &Path, schema: &str, random: &mut Random) -> Connection {
        mortal::register();
        let path = folder.join("app.db");
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        let uri = format!("file:{}?vfs=mortal", path.display());
        let stock = || Connection::open_with_flags(&uri, flags).expect("opens");
        let db = if random.chance(50) { stock() } else { self.connect(folder).expect("opens") };
        db.execute_batch(schema).expect("a schema");
        db.execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
             INSERT INTO t(b) SELECT printf('%03d%.*c', i, 700, 'x') FROM n; UPDATE m SET n = 2",
        )
        .expect("writes");
        drop(db);
        // Pages at the end are moved and, before they are cut off, in no journal.
        let doomed = format!(
            "BEGIN; UPDATE m SET n = 3; DELETE FROM t WHERE a BETWEEN 5 AND {};
             PRAGMA incremental_vacuum; COMMIT",
            30 + random.below(9)
        );
        const MANY: usize = 10_000;
        let whole = std::fs::read(&path).expect("a database");
        let db = stock();
        mortal::lives(Some(MANY));
        db.execute_batch(&doomed).expect("writes");
        let operations = MANY - mortal::lives(None).unwrap_or(MANY);
        drop(db);
        std::fs::write(&path, whole).expect("puts the database back");
        let db = stock();
        // Its journal is complete after the first half.
        mortal::lives(Some(operations - 1 - random.below(operations / 2)));
        let _ = db.execute_batch(&doomed);
        mortal::lives(Some(0));
        drop(db);
        mortal::lives(None);
        self.lab.take();
        let copy = crate::folder();
        for name in ["app.db", "app.db-journal"] {
            if folder.join(name).exists() {
                std::fs::copy(folder.join(name), copy.path().join(name)).expect("copies");
            }
        }
        let stock = Connection::open(copy.path().join("app.db")).expect("opens");
        integrity(&stock).expect("SQLite recovers what it left");
        twin_of(Some(&stock), false)
    }

    /// Makes a database that another program began, if the workload is on such a one; what it holds.
    fn begin_elsewhere(
        &self,
        folder: &Path,
        schema: &str,
        seed: u64,
        random: &mut Random,
    ) -> Option<Connection> {
        if self.setting.killed {
            // Drawn apart, so that workloads stay those of their seed.
            return Some(self.leave_killed(folder, schema, &mut Random::new(seed ^ 0xDEAD)));
        }
        let elsewhere = !self.setting.two && random.chance(30);
        elsewhere.then(|| {
            let db = Connection::open(folder.join("app.db")).expect("opens");
            db.execute_batch(schema).expect("a schema");
            db
        })
    }

    /// Runs a workload on a new database and records it.
    fn record(&self, seed: u64) -> Recording {
        let (lab, two) = (&self.lab, self.setting.two);
        let mut random = Random::new(seed);
        let folder = crate::folder();
        lab.reset(HashMap::new(), self.setting.kind);
        let (size, vacuum) = ([512, 1024, 4096][random.below(3)], random.below(3));
        let mut schema = format!(
            "PRAGMA page_size = {size}; PRAGMA auto_vacuum = {vacuum};
             BEGIN; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON t(b);
             CREATE TABLE m(n INT); INSERT INTO m VALUES(1);"
        );
        if two {
            schema += "CREATE TABLE o.k(n INT); INSERT INTO o.k VALUES(1);";
        }
        schema += "COMMIT";
        let mut digests = vec!["empty".to_owned()];
        let mut twin = twin_of(None, two);
        if let Some(db) = self.begin_elsewhere(folder.path(), &schema, seed, &mut random) {
            digests.push(digest(&db, false).expect("a digest"));
            twin = twin_of(Some(&db), two);
        }
        let number = |path: &Path| lab.identity_at(path).expect("a file").expect("a file");
        let before = Files::read(folder.path(), number);
        let old = digests.len() - 1;
        lab.note(Op::Begin(old));
        lab.note(Op::Ack(old));
        if self.setting.error {
            lab.fail(Some((random.below(120), Fault::Error)));
        }
        let again = |mode| {
            let opened = self.connect_in(mode, folder.path());
            opened.or_else(|_| self.connect_in(mode, folder.path())).expect("opens")
        };
        // Drawn apart, so that workloads stay those of their seed.
        let mut apart = Random::new(seed ^ 0xC105E);
        let (mut db, mut acked) = (None, old);
        let changed = if self.setting.after.is_some() { old + 4 } else { old };
        for n in old + 1..old + 8 {
            if random.chance(15) || n == changed {
                db = None;
            }
            let mode = self.setting.after.filter(|_| n < changed).unwrap_or(self.setting.mode);
            let db = db.get_or_insert_with(|| again(mode));
            let change = "PRAGMA cache_size = 2; BEGIN";
            if random.chance(15) && db.execute_batch(change).is_ok() {
                let _ = db.execute_batch("DELETE FROM t; DELETE FROM m");
                let _ = db.execute_batch("ROLLBACK");
                if apart.chance(50) {
                    *db = Connection::open_in_memory().expect("opens");
                    *db = again(mode);
                }
            }
            let work = |db: &Connection, random: &mut Random| match digests[acked].as_str() {
                "empty" => db.execute_batch(&schema),
                _ => transaction(db, n, two, random),
            };
            work(&twin, &mut random.clone()).expect("works in memory");
            let expected = digest(&twin, two).expect("a digest");
            lab.note(Op::Begin(n));
            let done = work(db, &mut random);
            let failed = self.setting.error && done.is_err();
            assert!(failed || done.is_ok(), "a transaction: {done:?}");
            if failed && !db.is_autocommit() {
                db.execute_batch("ROLLBACK").expect("rolls back");
            }
            let found = digest(db, two).expect("a digest");
            assert!(found == expected || failed && found == digests[acked], "{found}");
            digests.push(expected);
            match failed {
                true => twin = twin_of(Some(db), two),
                false => {
                    lab.note(Op::Ack(n));
                    acked = n;
                }
            }
        }
        lab.fail(None);
        drop(db);
        Recording { before, ops: lab.take(), digests, changed }
    }

    /// What a program without this file system finds.
    fn look_from_outside(&self, folder: &Path, allowed: &[String]) -> Result<(), String> {
        let stock = Connection::open(folder.join("app.db")).map_err(|e| format!("stock: {e}"))?;
        let seen = digest(&stock, false).map_err(|e| format!("stock: {e}"))?;
        integrity(&stock).map_err(|e| format!("stock: {e}"))?;
        match allowed.contains(&seen) {
            true => Ok(()),
            false => Err(format!("a stock program sees {seen}, not one of {allowed:?}")),
        }
    }

    /// Recovers one state and writes on; what it held, or what is wrong with it.
    fn recover(
        &self,
        files: &Files,
        allowed: &[String],
        [latest, older]: [&[String]; 2],
    ) -> Result<String, String> {
        let folder = crate::folder();
        let two = self.setting.two;
        let outside = match self.setting.mode.found_by_others() {
            Found::Anything => None,
            Found::Latest => Some(latest),
            Found::OneBehind => Some(older),
        };
        if let Some(allowed) = outside.filter(|_| !two) {
            // A program that plays a journal back is one more that writes.
            let copy = crate::folder();
            files.write(copy.path());
            self.look_from_outside(copy.path(), allowed)?;
        }
        self.lab.reset(files.write(folder.path()), self.setting.kind);
        let db = self.connect(folder.path()).map_err(|e| format!("opening: {e}"))?;
        let seen = digest(&db, two).map_err(|e| format!("reading: {e}"))?;
        integrity(&db)?;
        if !allowed.contains(&seen) {
            return Err(format!("recovered {seen}, not one of {allowed:?}"));
        }
        if seen == "empty" {
            let mut new = "BEGIN; CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE m(n);
                           INSERT INTO m VALUES(100);"
                .to_owned();
            if two {
                new += "CREATE TABLE o.k(n); INSERT INTO o.k VALUES(100);";
            }
            db.execute_batch(&(new + "COMMIT")).map_err(|e| format!("creating: {e}"))?;
        }
        self.write_on(&db, 101)?;
        Ok(seen)
    }

    /// Commits once more into each of the two files: what was there before must stay.
    fn write_on(&self, db: &Connection, from: i64) -> Result<(), String> {
        let two = self.setting.two;
        let last = "SELECT coalesce(max(a), 0) FROM t";
        let last = db.query_row(last, [], |row| row.get::<_, i64>(0)).map_err(|e| e.to_string())?;
        let kept = || {
            let sql = "SELECT count(*) || ',' || coalesce(group_concat(a || ' ' || b), '') FROM
                       (SELECT a, b FROM t WHERE a <= ?1 ORDER BY a)";
            db.query_row(sql, [last], |row| row.get::<_, String>(0)).map_err(|e| e.to_string())
        };
        let before = kept()?;
        for n in from..from + MORE {
            let other = if two { format!("UPDATE o.k SET n = {n};") } else { String::new() };
            let more = format!(
                "BEGIN; INSERT INTO t(b) VALUES('x'); UPDATE m SET n = {n}; {other} COMMIT"
            );
            db.execute_batch(&more).map_err(|e| format!("writing on: {e}"))?;
            self.lab.note(Op::Ack(n as usize));
            integrity(db).map_err(|e| format!("after writing on: {e}"))?;
            let found = digest(db, two).map_err(|e| format!("reading again: {e}"))?;
            if !found.starts_with(&format!("{n}:")) || kept()? != before {
                return Err(format!("after writing {n} it holds {found}, and before {before}"));
            }
        }
        Ok(())
    }

    /// Recovers one state and writes on while operation `at` fails, then looks whether anything is
    /// lost: what was done until then.
    fn recover_failing(
        &self,
        files: &Files,
        allowed: &[String],
        at: usize,
    ) -> Result<Vec<Op>, String> {
        let folder = crate::folder();
        self.lab.reset(files.write(folder.path()), self.setting.kind);
        self.lab.fail(Some((at, Fault::Error)));
        if let Ok(db) = self.connect(folder.path()) {
            match digest(&db, self.setting.two) {
                Ok(seen) if !allowed.contains(&seen) => {
                    return Err(format!("recovered {seen}, not one of {allowed:?}"));
                }
                _ => drop(self.write_on(&db, 101)),
            }
        }
        self.lab.fail(None);
        let ops = self.lab.take();
        self.look_again(folder.path(), allowed, &ops)?;
        Ok(ops)
    }

    /// After a second failure, at `ops` of recovering a database that held one of `first`.
    fn recover_again(&self, files: &Files, first: &[String], ops: &[Op]) -> Result<(), String> {
        let folder = crate::folder();
        self.lab.reset(files.write(folder.path()), self.setting.kind);
        self.look_again(folder.path(), first, ops)
    }

    /// Opens a database that held one of `first`, and was written on by `ops`.
    fn look_again(&self, folder: &Path, first: &[String], ops: &[Op]) -> Result<(), String> {
        let acked = ops.iter().rev().find_map(|op| match op {
            Op::Ack(n) => Some(*n as i64),
            _ => None,
        });
        let db = self.connect(folder).map_err(|e| format!("opening: {e}"))?;
        let seen = digest(&db, self.setting.two).map_err(|e| format!("reading: {e}"))?;
        integrity(&db)?;
        let n = seen.split(':').next().and_then(|n| n.parse::<i64>().ok());
        let later = n.is_some_and(|n| n >= acked.unwrap_or(100) && n <= 100 + MORE);
        if !later && (acked.is_some() || !first.contains(&seen)) {
            return Err(format!("recovered {seen}, after {first:?} and {acked:?}"));
        }
        if seen == "empty" { Ok(()) } else { self.write_on(&db, 201) }
    }

    /// Draws states of a recorded workload.
    fn check(
        &self,
        recording: &Recording,
        count: usize,
        random: &mut Random,
    ) -> Result<(), String> {
        let Setting { kind, without, .. } = self.setting;
        let counts = |op: &Op| match op {
            Op::Begin(n) => self.setting.after.is_some() && *n == recording.changed,
            Op::Ack(_) => self.setting.after.is_none(),
            _ => false,
        };
        let first = recording.ops.iter().position(counts).unwrap_or(0);
        for state in 0..count {
            let at = first + 1 + random.below(recording.ops.len() - first);
            let ops = &recording.ops[..at];
            let begun = ops.iter().rev().find_map(|op| match op {
                Op::Begin(n) => Some(*n),
                _ => None,
            });
            let begun = begun.unwrap_or(0);
            let mut acks = ops.iter().rev().filter_map(|op| match op {
                Op::Ack(n) => Some(*n),
                _ => None,
            });
            let acked = acks.next().unwrap_or(0);
            let allowed = &recording.digests[acked..=begun];
            let older = &recording.digests[acks.next().unwrap_or(0)..=begun];
            let files = draw(&recording.before, ops, kind, without, random);
            // Until the first transaction in another mode, the one before has to be kept.
            let outside = if acked < recording.changed { older } else { allowed };
            let seen = self
                .recover(&files, allowed, [outside, older])
                .map_err(|e| format!("state {state} at operation {at}: {e}"))?;
            if random.chance(30) {
                let ops = self.lab.take();
                let second = random.below(ops.len() + 1);
                let files = draw(&files, &ops[..second], kind, without, random);
                let seen = [seen];
                self.recover_again(&files, &seen, &ops[..second]).map_err(|e| {
                    format!("state {state} at operation {at}, then at {second}: {e}")
                })?;
            }
            if self.setting.error {
                // Drawn apart, so that the states above stay those of their seed.
                let mut random = Random::new(state as u64 ^ 0xFA11);
                let failed = random.below(40);
                let ops = self.recover_failing(&files, allowed, failed).map_err(|e| {
                    format!("state {state} at operation {at}, {failed} of recovery failing: {e}")
                })?;
                let second = random.below(ops.len() + 1);
                let files = draw(&files, &ops[..second], kind, without, &mut random);
                self.recover_again(&files, allowed, &ops[..second]).map_err(|e| {
                    format!(
                        "state {state} at operation {at}, {failed} of recovery failing, then at \
                         {second}: {e}"
                    )
                })?;
            }
        }
        Ok(())
    }
}

/// Draws `count` states of recorded workloads; the first fault found, with what finds it again.
fn campaign(setting: Setting, count: usize, seed: u64) -> Result<(), String> {
    const A_WORKLOAD: usize = 60;
    let bench = Bench::new(setting);
    for run in 0..count.div_ceil(A_WORKLOAD) {
        let seed = seed * 1_000_003 + run as u64;
        let recording = bench.record(seed);
        let count = A_WORKLOAD.min(count - run * A_WORKLOAD);
        bench
            .check(&recording, count, &mut Random::new(seed ^ 0x5EED))
            .map_err(|e| format!("{setting:?} seed {seed} {e}"))?;
    }
    Ok(())
}

#[test]
fn every_state_recovers_to_what_was_acknowledged() {
    let safe: Vec<Mode> = Mode::ALL.into_iter().filter(|mode| mode.is_safe()).collect();
    let share = number("SYNQLITE_STATES", 4000).div_ceil(safe.len() * 11);
    let first = number("SYNQLITE_SEED", 0) * 10;
    let mut faults = Vec::new();
    for (seed, mode) in safe.into_iter().enumerate() {
        let settings = [
            Setting::of(mode, Kind::Journal),
            Setting::of(mode, Kind::Local),
            Setting { exclusive: true, ..Setting::of(mode, Kind::Journal) },
            Setting { two: true, ..Setting::of(mode, Kind::Journal) },
            Setting { two: true, memory: 2000, ..Setting::of(mode, Kind::Local) },
            Setting { memory: 2000, ..Setting::of(mode, Kind::Journal) },
            Setting { error: true, ..Setting::of(mode, Kind::Journal) },
            Setting { error: true, memory: 2000, ..Setting::of(mode, Kind::Local) },
            Setting { error: true, two: true, ..Setting::of(mode, Kind::Journal) },
            Setting { killed: true, ..Setting::of(mode, Kind::Journal) },
            Setting { killed: true, ..Setting::of(mode, Kind::Local) },
        ];
        for setting in settings {
            faults.extend(campaign(setting, share, (first + seed) as u64 + 1).err());
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_change_of_mode_loses_nothing() {
    let safe: Vec<Mode> = Mode::ALL.into_iter().filter(|mode| mode.is_safe()).collect();
    let seed = number("SYNQLITE_SEED", 0) as u64 * 10 + 7;
    let mut faults = Vec::new();
    for (mode, after) in safe.iter().flat_map(|mode| safe.iter().map(move |after| (mode, after))) {
        for kind in [Kind::Journal, Kind::Local] {
            let setting = Setting { after: Some(*after), ..Setting::of(*mode, kind) };
            let share = number("SYNQLITE_STATES", 4000).div_ceil(4 * safe.len() * safe.len());
            faults.extend(campaign(setting, share, seed).err());
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_missing_synchronization_is_found() {
    let removals = [
        (Mode::Strict, Kind::Journal, Without::File(Sync::Hand)),
        (Mode::Strict, Kind::Journal, Without::File(Sync::Names)),
        (Mode::Strict, Kind::Journal, Without::File(Sync::Bytes)),
        (Mode::Strict, Kind::Journal, Without::Folder),
        (Mode::Strict, Kind::Local, Without::File(Sync::Bytes)),
        (Mode::Strict, Kind::Local, Without::Folder),
        (Mode::Fast, Kind::Journal, Without::File(Sync::Bytes)),
        (Mode::Fast, Kind::Journal, Without::Folder),
        (Mode::Shadow, Kind::Journal, Without::Folder),
        (Mode::Shadow, Kind::Journal, Without::Nth(0)), // the exchange before
        (Mode::Shadow, Kind::Journal, Without::Nth(1)), // Version Update
        (Mode::Shadow, Kind::Journal, Without::Nth(2)), // Aggregate Update
        (Mode::Shadow, Kind::Journal, Without::Nth(3)), // Version Reset
        (Mode::ShadowX, Kind::Journal, Without::Nth(0)),
        (Mode::ShadowX, Kind::Journal, Without::Nth(1)),
        (Mode::ShadowX, Kind::Journal, Without::Nth(2)),
    ];
    for (mode, kind, without) in removals {
        // Ids of pairs are random, and with them what a state holds: one seed may find nothing.
        let setting = || Setting { without, ..Setting::of(mode, kind) };
        let found = (77..83).any(|seed| campaign(setting(), 6000, seed).is_err());
        assert!(found, "nothing was found in {mode} on {kind:?} without {without:?}");
    }
}

#[test]
fn the_paper_as_printed_loses_transactions() {
    for mode in [Mode::Paper, Mode::PaperX] {
        let found = campaign(Setting::of(mode, Kind::Journal), 5000, 5);
        let found = found.expect_err("an exchange that is not durable is overwritten");
        // What was found is none of what was allowed, in the first recovery or in the second.
        let signs = ["not one of", "malformed", "integrity_check", ", after ["];
        assert!(signs.iter().any(|sign| found.contains(sign)), "{found}");
    }
}

/// Workloads of which a state recovered wrongly once, long ago or in a campaign.
#[test]
fn what_failed_once_does_not_fail_again() {
    let failing = |mode, two| Setting { error: true, two, ..Setting::of(mode, Kind::Journal) };
    let early = |mode, kind| Setting { memory: 2000, ..Setting::of(mode, kind) };
    let failed = [
        // Page lists were cut to the new length of a database that had become shorter.
        (early(Mode::Shadow, Kind::Journal), 3_000_036),
        // A Version Update before the commit named no super-journal.
        (Setting { two: true, ..early(Mode::Shadow, Kind::Local) }, 3_000_009),
        // A late cut by auto-vacuum threw the prepared version away.
        (Setting::of(Mode::Strict, Kind::Journal), 1_000_007),
        // A first commit that failed let the change counter jump, and was not recognized later.
        (failing(Mode::Strict, true), 1_000_004),
        // One file was rolled back, and the removal of the super-journal committed the other.
        (failing(Mode::Fast, true), 2_000_016),
        // A registry was trusted although its synchronization had failed.
        (failing(Mode::Fast, false), 32_000_109),
        // A failed Version Reset was taken back, and then counted.
        (failing(Mode::Shadow, false), 3_000_009),
        // A rewritten shadow was trusted although its synchronization had failed.
        (failing(Mode::ShadowX, false), 4_000_019),
        // A version that was rolled back after it was durable came back, spoiled by the next one.
        (early(Mode::Fast, Kind::Journal), 52_000_164),
        // The first commit of a pair, of several files, was finished by the next transaction, which
        // wrote to the old file before its name was durable.
        (failing(Mode::Strict, true), 111_000_348),
    ];
    for (setting, seed) in failed {
        let bench = Bench::new(setting);
        let recording = bench.record(seed);
        let checked = bench.check(&recording, 60, &mut Random::new(seed ^ 0x5EED));
        checked.unwrap_or_else(|e| panic!("{setting:?} seed {seed} {e}"));
    }
}

#[test]
fn a_rollback_is_over_when_the_database_is_closed() {
    let safe = Mode::ALL.into_iter().filter(|mode| mode.is_safe());
    for (mode, kind) in safe.flat_map(|mode| [(mode, Kind::Journal), (mode, Kind::Local)]) {
        let bench = Bench::new(Setting { memory: 2000, ..Setting::of(mode, kind) });
        let folder = crate::folder();
        bench.lab.reset(HashMap::new(), kind);
        let db = bench.connect(folder.path()).expect("opens");
        db.execute_batch(
            "PRAGMA cache_size = 3; CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE m(n);
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
             INSERT INTO t SELECT i, hex(zeroblob(800)) FROM n;
             INSERT INTO m VALUES(1); UPDATE m SET n = 2; UPDATE m SET n = 3",
        )
        .expect("commits");
        let number = |path: &Path| bench.lab.identity_at(path).expect("a file").expect("a file");
        let before = Files::read(folder.path(), number);
        bench.lab.take();
        db.execute_batch("BEGIN; UPDATE t SET b = replace(b, 0, 1); ROLLBACK").expect("rolls back");
        drop(db);
        let ops = bench.lab.take();
        let mut random = Random::new(mode as u64);
        for state in 0..200 {
            let files = draw(&before, &ops, kind, Without::Nothing, &mut random);
            let folder = crate::folder();
            bench.lab.reset(files.write(folder.path()), kind);
            let db = bench.connect(folder.path()).expect("opens");
            for n in [4, 5] {
                db.execute("UPDATE m SET n = ?1", [n]).expect("commits");
                let gone = "SELECT count(*) FROM t WHERE b GLOB '*1*'";
                let gone: i64 = db.query_row(gone, [], |row| row.get(0)).expect("a number");
                assert_eq!(gone, 0, "{mode} on {kind:?}: state {state}, transaction {n}");
            }
            integrity(&db).unwrap_or_else(|e| panic!("{mode} on {kind:?}: state {state}: {e}"));
        }
    }
}
