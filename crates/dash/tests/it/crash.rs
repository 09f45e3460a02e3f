//! Power failures. A workload is recorded; states in which the files may be after losing power at
//! any of its operations are drawn, opened and checked:
//!
//! - the recovered database is one of those between the last acknowledged and the last begun;
//! - `integrity_check` is content, and further transactions work;
//! - where the mode promises it, a program without this file system finds such a database too;
//! - all of it again after a second failure inside the recovery.
//!
//! `SYNQLITE_STATES=100000 cargo test --release -p synqlite-dash --test it crash` for a campaign.

use crate::Random;
use crate::lab::{Lab, Op};
use crate::states::{Files, Without, draw};
use rusqlite::{Connection, OpenFlags};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use synqlite_dash::disk::{Disk, Kind, Sync};
use synqlite_dash::{Found, Mode};

/// What is recorded, and how it is enumerated.
#[derive(Debug, Clone, Copy)]
struct Setting {
    mode: Mode,
    kind: Kind,
    without: Without,
    exclusive: bool,
}

/// A workload that was recorded.
struct Recording {
    before: Files,
    ops: Vec<Op>,
    /// What the database holds after each transaction.
    digests: Vec<String>,
}

fn states() -> usize {
    std::env::var("SYNQLITE_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(3000)
}

fn connect(path: &Path, vfs: &str, mode: Mode) -> rusqlite::Result<Connection> {
    let uri = format!("file:{}?vfs={vfs}&dash={mode}&dash_unsafe=1", path.display());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}

/// What the database holds, as a text.
fn digest(db: &Connection) -> rusqlite::Result<String> {
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        return Ok("empty".to_owned());
    }
    let sql = "SELECT n || ':' || (SELECT count(*) || ',' || total(length(b)) || ',' || \
               coalesce(group_concat(a || substr(b, 1, 6)), '') FROM (SELECT a, b FROM t ORDER BY a)) \
               FROM m";
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
fn transaction(db: &Connection, n: usize, random: &mut Random) -> rusqlite::Result<()> {
    let text =
        |random: &mut Random| format!("{:x}", random.below(1 << 30)).repeat(random.below(60));
    match random.below(12) {
        0 if n > 3 => return db.execute_batch(&format!("UPDATE m SET n = {n}; VACUUM")),
        1 => {
            // More pages than the cache holds.
            db.execute_batch("PRAGMA cache_size = 3")?;
            db.execute_batch("BEGIN")?;
            for _ in 0..60 {
                db.execute("INSERT INTO t(b) VALUES(?1)", [text(random) + "long"])?;
            }
        }
        2 => db.execute_batch("BEGIN; DELETE FROM t WHERE a % 3 = 1")?,
        _ => {
            db.execute_batch("BEGIN")?;
            for _ in 0..1 + random.below(3) {
                let b = text(random);
                match random.below(3) {
                    0 => db.execute("INSERT INTO t(b) VALUES(?1)", [b])?,
                    1 => {
                        db.execute("UPDATE t SET b = ?1 WHERE a = (SELECT max(a) / 2 FROM t)", [b])?
                    }
                    _ => db.execute("DELETE FROM t WHERE a = (SELECT min(a) FROM t)", [])?,
                };
            }
        }
    }
    db.execute_batch(&format!("UPDATE m SET n = {n}; COMMIT"))
}

/// Runs a workload on a new database and records it.
fn record(lab: &Lab, vfs: &str, setting: Setting, seed: u64) -> Recording {
    let mut random = Random::new(seed);
    let folder = crate::folder();
    lab.reset(HashMap::new(), setting.kind);
    let path = folder.path().join("app.db");
    let sizes = [512, 1024, 4096];
    let schema = format!(
        "PRAGMA page_size = {}; PRAGMA auto_vacuum = {};
         BEGIN; CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT); CREATE INDEX i ON t(b);
         CREATE TABLE m(n INT); INSERT INTO m VALUES(1); COMMIT",
        sizes[random.below(3)],
        random.below(3)
    );
    let mut digests = vec!["empty".to_owned()];
    if random.chance(30) {
        // A database that another program made.
        let db = Connection::open(&path).expect("opens");
        db.execute_batch(&schema).expect("a schema");
        digests.push(digest(&db).expect("a digest"));
        drop(db);
    }
    let before =
        Files::read(folder.path(), |path| lab.identity_at(path).expect("a file").expect("a file"));
    let old = digests.len() - 1;
    lab.note(Op::Begin(old));
    lab.note(Op::Ack(old));
    let mut db = None;
    for n in old + 1..old + 8 {
        let open = || {
            let db = connect(&path, vfs, setting.mode).expect("opens");
            if setting.exclusive {
                db.execute_batch("PRAGMA locking_mode = EXCLUSIVE").expect("a pragma");
            }
            db
        };
        if random.chance(15) {
            db = None;
        }
        let db = db.get_or_insert_with(open);
        if random.chance(15) {
            db.execute_batch("PRAGMA cache_size = 2; BEGIN").expect("begins");
            let _ = db.execute_batch("DELETE FROM t; DELETE FROM m");
            db.execute_batch("ROLLBACK").expect("rolls back");
        }
        lab.note(Op::Begin(n));
        match n {
            1 => db.execute_batch(&schema).expect("a schema"),
            n => transaction(db, n, &mut random).expect("a transaction"),
        }
        lab.note(Op::Ack(n));
        let digest = digest(db).expect("a digest");
        digests.push(digest);
    }
    drop(db);
    Recording { before, ops: lab.take(), digests }
}

/// Checks one state; what is wrong with it.
fn check(
    lab: &Lab,
    vfs: &str,
    setting: Setting,
    files: &Files,
    allowed: &[String],
    older: &[String],
    random: &mut Random,
    again: bool,
) -> Result<(), String> {
    let folder = crate::folder();
    let numbers = files.write(folder.path());
    lab.reset(numbers, setting.kind);
    let path = folder.path().join("app.db");
    let promised = match setting.mode.found_by_others() {
        Found::Latest => Some(allowed),
        Found::OneBehind => Some(older),
        Found::Anything => None,
    };
    if let Some(promised) = promised {
        let stock = Connection::open(&path).map_err(|e| format!("stock: {e}"))?;
        let seen = digest(&stock).map_err(|e| format!("stock: {e}"))?;
        integrity(&stock).map_err(|e| format!("stock: {e}"))?;
        if !promised.contains(&seen) {
            return Err(format!("a stock program sees {seen}, not one of {promised:?}"));
        }
    }
    let seen = {
        let db = connect(&path, vfs, setting.mode).map_err(|e| format!("opening: {e}"))?;
        let seen = digest(&db).map_err(|e| format!("reading: {e}"))?;
        integrity(&db)?;
        if !allowed.contains(&seen) {
            return Err(format!("recovered {seen}, not one of {allowed:?}"));
        }
        let mut n = 100;
        if seen == "empty" {
            let new = "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE m(n);
                       INSERT INTO m VALUES(1)";
            db.execute_batch(new).map_err(|e| format!("creating: {e}"))?;
        }
        for _ in 0..2 {
            n += 1;
            let more = format!("BEGIN; INSERT INTO t(b) VALUES('x'); UPDATE m SET n = {n}; COMMIT");
            db.execute_batch(&more).map_err(|e| format!("writing on: {e}"))?;
        }
        integrity(&db).map_err(|e| format!("after writing on: {e}"))?;
        let found = digest(&db).map_err(|e| format!("reading again: {e}"))?;
        if !found.starts_with("102:") {
            return Err(format!("after writing on it holds {found}"));
        }
        seen
    };
    if again {
        // Lose power once more while all of this was going on: what was there may be there, and
        // what was written on may be there in part of its three steps.
        let ops = lab.take();
        let at = random.below(ops.len() + 1);
        let second = draw(files, &ops[..at], setting.kind, setting.without, random);
        let first_write = at < ops.len() / 2;
        if first_write {
            let mut allowed = allowed.to_vec();
            allowed.push(seen);
            return check_second(lab, vfs, setting, &second, &allowed)
                .map_err(|e| format!("second failure at {at} of {}: {e}", ops.len()));
        }
    }
    Ok(())
}

/// After a second failure the database may also hold what was written after the first.
fn check_second(
    lab: &Lab,
    vfs: &str,
    setting: Setting,
    files: &Files,
    allowed: &[String],
) -> Result<(), String> {
    let folder = crate::folder();
    lab.reset(files.write(folder.path()), setting.kind);
    let path = folder.path().join("app.db");
    let later =
        |seen: &str| seen.starts_with("101:") || seen.starts_with("102:") || seen == "1:0,0.0,";
    let db = connect(&path, vfs, setting.mode).map_err(|e| format!("opening: {e}"))?;
    let seen = match digest(&db) {
        // The two tables are made one after the other where the database was empty.
        Err(_) if allowed.iter().any(|a| a == "empty") => return integrity(&db),
        other => other.map_err(|e| format!("reading: {e}"))?,
    };
    integrity(&db)?;
    match allowed.contains(&seen) || later(&seen) {
        true => Ok(()),
        false => Err(format!("recovered {seen}, not one of {allowed:?}")),
    }
}

/// Draws `count` states of recorded workloads; the first fault found, with what finds it again.
fn campaign(setting: Setting, count: usize, seed: u64) -> Result<(), String> {
    let lab = Lab::default();
    let vfs = format!("lab-{setting:?}-{seed}").replace([' ', '{', '}', ':', ','], "");
    synqlite_dash::register_as(&vfs, Arc::new(lab.clone())).expect("registers");
    let mut done = 0;
    let mut run = 0;
    while done < count {
        run += 1;
        let seed = seed * 1_000_003 + run;
        let recording = record(&lab, &vfs, setting, seed);
        let mut random = Random::new(seed ^ 0x5EED);
        let first = recording.ops.iter().position(|op| matches!(op, Op::Ack(_))).unwrap_or(0);
        for _ in 0..60.min(count - done) {
            done += 1;
            let at = first + 1 + random.below(recording.ops.len() - first);
            let ops = &recording.ops[..at];
            let acked = ops.iter().rev().find_map(|op| match op {
                Op::Ack(n) => Some(*n),
                _ => None,
            });
            let begun = ops.iter().rev().find_map(|op| match op {
                Op::Begin(n) => Some(*n),
                _ => None,
            });
            let (acked, begun) = (acked.unwrap_or(0), begun.unwrap_or(0));
            let allowed = &recording.digests[acked..=begun];
            let older = &recording.digests[acked.saturating_sub(1)..=begun];
            let files = draw(&recording.before, ops, setting.kind, setting.without, &mut random);
            let again = random.chance(30);
            check(&lab, &vfs, setting, &files, allowed, older, &mut random, again).map_err(
                |e| {
                    if let Some(keep) = std::env::var_os("SYNQLITE_KEEP") {
                        files.write(Path::new(&keep));
                    }
                    format!("{setting:?} seed {seed} state {done} at operation {at}: {e}")
                },
            )?;
        }
    }
    Ok(())
}

fn setting(mode: Mode, kind: Kind) -> Setting {
    Setting { mode, kind, without: Without::Nothing, exclusive: false }
}

#[test]
fn every_state_recovers_to_what_was_acknowledged() {
    let safe: Vec<Mode> = Mode::ALL.into_iter().filter(|mode| mode.is_safe()).collect();
    let share = states() / (safe.len() * 3);
    for (at, mode) in safe.into_iter().enumerate() {
        let seed = at as u64 + 1;
        for kind in [Kind::Journal, Kind::Local] {
            campaign(setting(mode, kind), share, seed).unwrap_or_else(|e| panic!("{e}"));
        }
        let exclusive = Setting { exclusive: true, ..setting(mode, Kind::Journal) };
        campaign(exclusive, share, seed).unwrap_or_else(|e| panic!("{e}"));
    }
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
        (Mode::Shadow, Kind::Journal, Without::File(Sync::Bytes)),
        (Mode::Shadow, Kind::Journal, Without::Folder),
        (Mode::ShadowX, Kind::Journal, Without::File(Sync::Bytes)),
        (Mode::ShadowX, Kind::Journal, Without::Folder),
    ];
    for (mode, kind, without) in removals {
        let found = campaign(Setting { without, ..setting(mode, kind) }, 5000, 77);
        assert!(found.is_err(), "nothing was found in {mode} on {kind:?} without {without:?}");
    }
}

#[test]
fn the_paper_as_printed_loses_transactions() {
    for mode in [Mode::Paper, Mode::PaperX] {
        let found = campaign(setting(mode, Kind::Journal), 5000, 5);
        let found = found.expect_err("an exchange that is not durable is overwritten");
        let lost = found.contains("not one of") || found.contains("malformed");
        assert!(lost || found.contains("integrity_check"), "{found}");
    }
}
