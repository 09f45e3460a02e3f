//! Full disks, failing devices and killed processes, at every operation.

use crate::lab::{Fault, Lab};
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use synqlite_dash::Mode;

fn connect(path: &Path, vfs: &str, mode: Mode) -> rusqlite::Result<Connection> {
    let uri = format!("file:{}?vfs={vfs}&dash={mode}&dash_memory=9000", path.display());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags)
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn check(db: &Connection) {
    let said: String =
        db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
    assert_eq!(said, "ok");
}

/// Statements whose every operation is let fail: a small transaction, one that does not fit the
/// cache, a VACUUM that shortens the file. Each counts `n` up.
const WORK: [&str; 3] = [
    "BEGIN; INSERT INTO t(b) VALUES('x'); UPDATE m SET n = n + 1; COMMIT",
    "PRAGMA cache_size = 2; BEGIN; INSERT INTO t(b) SELECT hex(randomblob(600)) FROM t; \
     UPDATE m SET n = n + 1; COMMIT",
    "BEGIN; DELETE FROM t WHERE a > 3; UPDATE m SET n = n + 1; COMMIT; VACUUM",
];

const SCHEMA: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE m(n INT);
    INSERT INTO m VALUES(0);
    INSERT INTO t(b) SELECT hex(zeroblob(300)) FROM (SELECT 1 UNION SELECT 2 UNION SELECT 3),
        (SELECT 1 UNION SELECT 2 UNION SELECT 3), (SELECT 1 UNION SELECT 2);";

fn lab(vfs: &str) -> Lab {
    let lab = Lab::default();
    synqlite_dash::register_as(vfs, Arc::new(lab.clone())).expect("registers");
    lab
}

/// Lets each operation of each piece of work fail, and looks at what is left.
fn fail_everywhere(fault: Fault) {
    let vfs = format!("fault-{fault:?}");
    let lab = lab(&vfs);
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_safe()) {
        for (work, stock) in WORK.into_iter().flat_map(|work| [(work, false), (work, true)]) {
            let mut at = 0;
            loop {
                lab.reset_real();
                let folder = crate::folder();
                let path = folder.path().join("app.db");
                if stock {
                    // Another program's database, which the first transaction makes one of ours.
                    Connection::open(&path)
                        .expect("opens")
                        .execute_batch(SCHEMA)
                        .expect("a schema");
                }
                let db = connect(&path, &vfs, mode).expect("opens");
                if !stock {
                    db.execute_batch(SCHEMA).expect("a schema");
                }
                let before = lab.count();
                lab.fail(Some((before + at, fault)));
                let done = db.execute_batch(work);
                let reached = lab.count() > before + at;
                if fault == Fault::Dead {
                    drop(db);
                    lab.fail(None);
                    let db = connect(&path, &vfs, mode).expect("opens again");
                    let n = number(&db, "SELECT n FROM m");
                    assert!(n == 1 || done.is_err() && n == 0, "{mode} {work} at {at}: {n}");
                    check(&db);
                    db.execute_batch(WORK[0]).expect("writes on");
                } else {
                    lab.fail(None);
                    if !db.is_autocommit() {
                        db.execute_batch("ROLLBACK").expect("rolls back");
                    }
                    let n = number(&db, "SELECT n FROM m");
                    let refused = done.as_ref().err().map(ToString::to_string);
                    if fault == Fault::Full && work != WORK[2] {
                        let text = refused.as_deref().unwrap_or("done");
                        assert_eq!(n, i64::from(done.is_ok()), "{mode} {work} at {at}: {text}");
                        assert!(done.is_ok() || text.contains("full"), "{mode} at {at}: {text}");
                    }
                    assert!(done.is_err() || n == 1, "{mode} {work} at {at}");
                    check(&db);
                    db.execute_batch(WORK[0])
                        .unwrap_or_else(|e| panic!("{mode} {work} at {at}: {e}"));
                    assert_eq!(number(&db, "SELECT n FROM m"), n + 1, "{mode} {work} at {at}");
                    drop(db);
                }
                check(&Connection::open(&path).expect("opens"));
                if !reached {
                    break;
                }
                at += 1;
            }
            assert!(at > 5, "{mode}: only {at} operations were let fail");
        }
    }
}

#[test]
fn a_full_disk_leaves_the_last_transaction_and_says_so() {
    fail_everywhere(Fault::Full);
}

#[test]
fn a_failing_device_leaves_a_transaction() {
    fail_everywhere(Fault::Error);
}

#[test]
fn a_killed_process_leaves_a_transaction() {
    fail_everywhere(Fault::Dead);
}

/// Kills a commit of two files at each of its operations, with and without a process that has both
/// open meanwhile.
#[test]
fn a_commit_of_several_files_is_whole_or_not_at_all() {
    let lab = lab("fault-several");
    crate::register();
    let safe = Mode::ALL.into_iter().filter(|mode| mode.is_safe());
    for (mode, survivor) in safe.flat_map(|mode| [(mode, false), (mode, true)]) {
        if survivor && mode == Mode::ShadowX {
            continue; // One connection has the database alone.
        }
        let mut at = 0;
        let mut outcomes = [0, 0];
        loop {
            lab.reset_real();
            let folder = crate::folder();
            let paths = ["a.db", "b.db"].map(|name| folder.path().join(name));
            let open = |vfs: &str| {
                let db = connect(&paths[0], vfs, mode).expect("opens");
                let other = format!("file:{}?vfs={vfs}&dash={mode}", paths[1].display());
                db.execute("ATTACH ?1 AS b", [other]).expect("attaches");
                db
            };
            let db = open("fault-several");
            db.execute_batch(
                "CREATE TABLE main.x(n INT); CREATE TABLE b.y(n INT);
                 INSERT INTO x VALUES(0); INSERT INTO y VALUES(0); UPDATE x SET n = 0; UPDATE y SET n = 0",
            )
            .expect("two tables");
            let other = survivor.then(|| {
                let other = open("dash");
                number(&other, "SELECT n FROM x, b.y USING (n)");
                other
            });
            let before = lab.count();
            lab.fail(Some((before + at, Fault::Dead)));
            let done = db.execute_batch("BEGIN; UPDATE x SET n = 1; UPDATE y SET n = 1; COMMIT");
            let reached = lab.count() > before + at;
            drop(db);
            lab.fail(None);
            // Whoever finds a dead writer's super-journal may not be the only one.
            lab.fail(Some((0, Fault::Outrun)));
            let db = other.unwrap_or_else(|| open("fault-several"));
            let (x, y) = (number(&db, "SELECT n FROM x"), number(&db, "SELECT n FROM y"));
            assert_eq!(x, y, "{mode}, killed at {at}, survivor {survivor}");
            assert!(x == 1 || done.is_err(), "{mode}, killed at {at}");
            outcomes[x as usize] += 1;
            db.execute_batch("BEGIN; UPDATE x SET n = 2; UPDATE y SET n = 2; COMMIT")
                .unwrap_or_else(|e| panic!("{mode}, killed at {at}, survivor {survivor}: {e}"));
            drop(db);
            let left = fs::read_dir(folder.path()).expect("a folder");
            for name in left.map(|entry| entry.expect("a file").file_name()) {
                // One that does not say whose it is stays, as in SQLite.
                let stale = name.to_string_lossy().contains("-mj")
                    && fs::metadata(folder.path().join(&name)).expect("a file").len() > 0;
                assert!(!stale, "{mode}, killed at {at}, survivor {survivor}: {name:?}");
            }
            for (path, sql) in paths.iter().zip(["SELECT n FROM x", "SELECT n FROM y"]) {
                let stock = Connection::open(path).expect("opens");
                check(&stock);
                assert_eq!(number(&stock, sql), 2);
            }
            if !reached {
                break;
            }
            at += 1;
        }
        assert!(outcomes[0] > 5 && outcomes[1] > 1, "{mode}: {outcomes:?}");
    }
}

/// The file of the shadow becomes shorter before it is known whether the transaction commits.
#[test]
fn a_vacuum_that_fails_in_the_end_leaves_a_whole_shadow() {
    let lab = lab("fault-vacuum");
    for mode in Mode::ALL.into_iter().filter(|mode| mode.is_safe()) {
        let prepare = || {
            lab.reset_real();
            let folder = crate::folder();
            let path = folder.path().join("app.db");
            let db = connect(&path, "fault-vacuum", mode).expect("opens");
            let rows =
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)";
            db.execute_batch(&format!(
                "CREATE TABLE t(a INTEGER PRIMARY KEY, b);
                 {rows} INSERT INTO t(b) SELECT printf('%.*c', 3500, 'x') FROM n;
                 DELETE FROM t WHERE a % 10 <> 0; UPDATE t SET b = b || 'y' WHERE a = 10"
            ))
            .expect("a table");
            (folder, path, db, lab.count())
        };
        let (_folder, _path, db, before) = prepare();
        db.execute_batch("VACUUM").expect("works");
        let operations = lab.count() - before;
        for at in operations - 9..operations {
            let (_folder, path, db, before) = prepare();
            lab.fail(Some((before + at, Fault::Error)));
            let _ = db.execute_batch("VACUUM");
            lab.fail(None);
            for n in 1..4 {
                db.execute("UPDATE t SET b = ?1 || b WHERE a = 20", [n]).expect("writes on");
                assert_eq!(number(&db, "SELECT count(*) FROM t WHERE length(b) >= 3500"), 150);
                check(&db);
            }
            drop(db);
            check(&Connection::open(&path).expect("opens"));
        }
    }
}

/// A stock connection keeps the file that it opened, which is the shadow by now. A writer that is
/// killed while it overwrites that file leaves it an old transaction, or no database at all. That
/// must not depend on which pages the connection has in its cache, which it trusts as long as the
/// change counter in the file stays the same.
#[test]
fn a_long_lived_stock_reader_finds_no_half_written_file() {
    let lab = lab("fault-reader");
    let modes = Mode::ALL.into_iter().filter(|mode| mode.is_safe());
    for (mode, cache) in modes.flat_map(|mode| [2000, 8, 6, 4, 2].map(|cache| (mode, cache))) {
        let (mut at, mut whole, mut none) = (0, 0, 0);
        loop {
            lab.reset_real();
            let folder = crate::folder();
            let path = folder.path().join("app.db");
            let db = connect(&path, "fault-reader", mode).expect("opens");
            db.execute_batch(&format!(
                "{SCHEMA} UPDATE t SET b = zeroblob(1500); UPDATE t SET a = a"
            ))
            .expect("a schema");
            let stock = Connection::open(&path).expect("opens");
            stock.pragma_update(None, "cache_size", cache).expect("a cache");
            let look = || stock.query_row("SELECT min(b) = max(b) FROM t", [], |row| row.get(0));
            assert_eq!(look(), Ok(true));
            db.execute_batch("UPDATE m SET n = 1").expect("the file becomes the shadow");
            let before = lab.count();
            lab.fail(Some((before + at, Fault::Dead)));
            let _ = db.execute_batch("UPDATE t SET b = zeroblob(1501)");
            let reached = lab.count() > before + at;
            drop(db);
            lab.fail(None);
            match look() {
                Ok(same) => {
                    assert!(
                        same,
                        "{mode}, {cache} pages cached, killed at {at}: half a transaction"
                    );
                    whole += 1;
                }
                Err(error) => {
                    let code = error.sqlite_error_code();
                    assert_eq!(code, Some(rusqlite::ErrorCode::NotADatabase), "{mode}: {error}");
                    none += 1;
                }
            }
            if !reached {
                break;
            }
            at += 1;
        }
        assert!(whole > 5 && none > 1, "{mode}: {whole} times whole, {none} times none");
    }
}
