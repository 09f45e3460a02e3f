//! What a program without this file system leaves when it is killed. It must be worth here what it
//! is worth to such a program: at every operation, in every journal mode that leaves a journal, with
//! transactions that make the file longer and shorter.

use crate::Random;
use crate::lab::{Fault, Lab};
use crate::mortal;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use synqlite_dash::Mode;

fn connect(path: &Path, parameters: &str) -> Connection {
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?{parameters}", path.display());
    Connection::open_with_flags(uri, flags).expect("opens")
}

/// Pages and rows, if all of them are sound.
fn digest(db: &Connection) -> Result<String, String> {
    let text = |sql: &str| -> Result<String, String> {
        db.query_row(sql, [], |row| row.get(0)).map_err(|e| format!("{sql}: {e}"))
    };
    let ends = "a || ' ' || substr(hex(b), 1, 6) || substr(hex(b), -6)";
    let rows = text(&format!("SELECT group_concat({ends}) FROM (SELECT * FROM t ORDER BY a)"))?;
    match text("PRAGMA integrity_check")?.as_str() {
        "ok" => Ok(text("SELECT page_count || '' FROM pragma_page_count")? + ":" + &rows),
        wrong => Err(wrong.to_owned()),
    }
}

const SCHEMA: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 14)
    INSERT INTO t SELECT i, randomblob(900) FROM n";

/// Longer; shorter, with pages from the end moved into the gap; both, with more pages than the cache
/// holds; shorter and all pages written.
const WORK: [&str; 4] = [
    "INSERT INTO t(b) SELECT randomblob(900) FROM t WHERE a < 6",
    "BEGIN; DELETE FROM t WHERE a BETWEEN 5 AND 12; PRAGMA incremental_vacuum; COMMIT",
    "PRAGMA cache_size = 2; BEGIN; UPDATE t SET b = randomblob(2000) WHERE a > 9;
     DELETE FROM t WHERE a BETWEEN 3 AND 11; PRAGMA incremental_vacuum; COMMIT",
    "DELETE FROM t WHERE a < 6; VACUUM",
];

#[derive(Debug, Clone, Copy)]
struct Case {
    work: &'static str,
    journal: &'static str,
    vacuum: usize,
    /// The database was kept here before, and ends in padding and a trailer.
    ours_before: bool,
    mode: Mode,
}

/// Kills the other program at operation `at` of its work, and opens what it leaves; whether it got
/// that far. The process that plays its journal back here may be killed as well.
fn kill(case: Case, at: usize, lab: &Lab, random: &mut Random) -> bool {
    let Case { work, journal, vacuum, ours_before, mode } = case;
    let (folder, copy) = (crate::folder(), crate::folder());
    let path = folder.path().join("app.db");
    let ours = format!("vfs=killed&dash={mode}");
    lab.reset_real();
    let schema = format!("PRAGMA page_size = 1024; PRAGMA auto_vacuum = {vacuum}; {SCHEMA}");
    let first = connect(&path, if ours_before { &ours } else { "vfs=mortal" });
    first.execute_batch(&schema).expect("a schema");
    drop(first);
    let stock = connect(&path, "vfs=mortal");
    stock.pragma_update(None, "journal_mode", journal).expect("a journal mode");
    mortal::lives(Some(at));
    let _ = stock.execute_batch(work);
    let died = mortal::lives(Some(0)) == Some(0);
    drop(stock);
    mortal::lives(None);
    let twin = copy.path().join("app.db");
    for name in ["app.db", "app.db-journal"] {
        let from = folder.path().join(name);
        if from.exists() {
            fs::copy(from, copy.path().join(name)).expect("copies");
        }
    }
    let stock = connect(&twin, "vfs=mortal");
    let expected = digest(&stock).expect("SQLite recovers what it left");
    if random.chance(50) {
        lab.fail(Some((lab.count() + random.below(12), Fault::Dead)));
        let _ = digest(&connect(&path, &ours));
        lab.fail(None);
    }
    let db = connect(&path, &ours);
    assert_eq!(digest(&db).as_ref(), Ok(&expected), "{case:?} killed at {at}");
    for sql in ["UPDATE t SET b = 'x' || a", "DELETE FROM t WHERE a = 14", "UPDATE t SET b = a"] {
        for db in [&db, &stock] {
            db.execute_batch(sql).unwrap_or_else(|e| panic!("{case:?} killed at {at}: {e}"));
        }
        assert_eq!(digest(&db), digest(&stock), "{case:?} killed at {at}");
    }
    drop(db);
    let outside = connect(&path, "vfs=mortal");
    assert_eq!(digest(&outside), digest(&stock), "{case:?} killed at {at}");
    died
}

#[test]
fn what_a_killed_program_leaves_is_recovered_as_sqlite_does() {
    mortal::register();
    let lab = Lab::default();
    synqlite_dash::register_as("killed", Arc::new(lab.clone())).expect("registers");
    let seed = std::env::var("SYNQLITE_SEED").ok().and_then(|n| n.parse::<u64>().ok());
    let modes: Vec<Mode> = Mode::ALL.into_iter().filter(|mode| mode.is_safe()).collect();
    let mut random = Random::new(seed.unwrap_or(1));
    for vacuum in [0, 1, 2] {
        for (work, ours_before) in WORK.into_iter().flat_map(|w| [(w, false), (w, true)]) {
            let mode = modes[random.below(modes.len())];
            let journal = ["delete", "truncate", "persist"][random.below(3)];
            let case = Case { work, journal, vacuum, ours_before, mode };
            let mut at = 0;
            while kill(case, at, &lab, &mut random) {
                at += 1;
            }
            assert!(at > 10, "{case:?}: only {at} operations");
        }
    }
}
