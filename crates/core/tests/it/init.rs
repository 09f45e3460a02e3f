//! A large database becomes a replica beside the programs that use it.

use crate::migrate::agree;
use crate::site::{World, settle};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use synqlite_core::{Environment, Error, InitOptions, Replica, System};

const ROWS: i64 = 8_000;

/// More than a small file.
fn large(world: &World, mode: &str) -> PathBuf {
    let path = world.path("a");
    let db = Connection::open(&path).unwrap();
    db.pragma_update(None, "journal_mode", mode).unwrap();
    db.execute_batch(&format!(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, a INT);
         CREATE TABLE k(key TEXT PRIMARY KEY, a INT, t INT REFERENCES t(id) ON DELETE SET NULL);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         INSERT INTO t SELECT i, printf('%0300d', i), i FROM n;
         INSERT INTO k SELECT 'key ' || id, a, id FROM t",
    ))
    .unwrap();
    path
}

/// What happens where others are left to their work.
struct Meanwhile<F>(F);

impl<F: Fn() + Send + Sync> Environment for Meanwhile<F> {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn rest(&self, _: i64) {
        (self.0)();
    }
}

fn history() -> InitOptions {
    InitOptions { history: true, ..InitOptions::default() }
}

#[test]
fn what_is_written_while_a_database_becomes_a_replica_is_taken_in_or_noted() {
    for mode in ["wal", "delete"] {
        let world = World::new();
        let path = large(&world, mode);
        let done = AtomicBool::new(false);
        let written = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let app = Connection::open(&path).unwrap();
                app.busy_timeout(Duration::from_secs(60)).unwrap();
                app.pragma_update(None, "foreign_keys", true).unwrap();
                let mut n = 0;
                while !done.load(Ordering::Relaxed) {
                    n += 1;
                    let sql = format!(
                        "REPLACE INTO k VALUES('key {}', {n}, NULL);
                         INSERT INTO t(name, a) VALUES('new {n}', {n}); INSERT INTO k VALUES('new {n}', {n}, last_insert_rowid());
                         UPDATE k SET a = -a WHERE key = 'key {}'; DELETE FROM t WHERE id = {}",
                        n * 5 % ROWS,
                        n * 7 % ROWS,
                        n * 11 % ROWS
                    );
                    app.execute_batch(&sql).unwrap();
                }
                n
            });
            let report = Replica::init(&path, &InitOptions::default(), Arc::new(System)).unwrap();
            assert!(report.tables.iter().all(|t| t.rows >= ROWS / 2));
            done.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        assert!(written > 1, "{mode}: {written}");
        let mut a = world.open("a");
        assert_eq!(a.replica.verify().unwrap(), [""; 0], "{mode}");
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{mode}");
        let mut b = world.clone_site(&mut a, "b");
        a.run("UPDATE k SET a = 0 WHERE key = 'new 1'; DELETE FROM t WHERE id = 5");
        b.run("UPDATE t SET a = 0 WHERE id = 7; INSERT INTO k VALUES('b', 1, 7)");
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b]);
        let all = "SELECT * FROM t UNION ALL SELECT * FROM k ORDER BY 1, 2, 3";
        assert_eq!(a.rows(all), b.rows(all));
    }
}

/// Nothing is lost where it ends: the next command takes the rows in, and so does one that comes between.
#[test]
fn a_database_that_half_became_a_replica_becomes_one_by_the_next_command() {
    for killed in [true, false] {
        let world = World::new();
        let path = large(&world, "wal");
        let file = path.clone();
        let env = Meanwhile(move || {
            // Whatever happens from here on, no copy stays.
            assert!(!cfg!(unix) || copies(&file).is_empty());
            let told = Replica::open(&file, Arc::new(System)).unwrap().verify().unwrap();
            assert!(told.len() == 1 && told[0].contains("synqlite init is at work"), "{told:?}");
            let app = Connection::open(&file).unwrap();
            app.execute_batch(
                "UPDATE k SET a = -1 WHERE key = 'key 3'; DELETE FROM k WHERE key = 'key 4'",
            )
            .unwrap();
            if killed {
                std::panic::resume_unwind(Box::new("killed"));
            }
            Replica::open(&file, Arc::new(System)).unwrap().fold().unwrap();
        });
        let done =
            catch_unwind(AssertUnwindSafe(|| Replica::init(&path, &history(), Arc::new(env))));
        assert_eq!(done.is_err(), killed);
        let mut a = world.open("a");
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        let inserts =
            "SELECT count(DISTINCT rid), count(*) FROM synqlite_history WHERE value = 'insert'";
        assert_eq!(a.row(inserts), format!("{0}|{0}", 2 * ROWS - 1));
        let mut b = world.clone_site(&mut a, "b");
        b.run("UPDATE k SET a = -2 WHERE key = 'key 5'");
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b]);
        assert_eq!(
            a.rows("SELECT a FROM k WHERE key IN ('key 3', 'key 4', 'key 5')"),
            ["-1", "-2"]
        );
    }
}

#[test]
fn what_cannot_become_a_replica_stays_as_it_is() {
    let world = World::new();
    let path = large(&world, "wal");
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM t WHERE id = 9")
        .unwrap();
    let refused = Replica::init(&path, &InitOptions::default(), Arc::new(System));
    assert!(matches!(refused, Err(Error::Dangling { .. })), "{refused:?}");
    let app = Connection::open(&path).unwrap();
    let ours = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'synqlite%'";
    assert_eq!(app.query_row(ours, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
    app.execute_batch("INSERT INTO t(name) VALUES('new')").unwrap();
    assert_eq!(copies(&path), [""; 0]);
}

/// Copies beside a file.
fn copies(path: &Path) -> Vec<String> {
    let files = std::fs::read_dir(path.parent().unwrap()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("-synqlite-")).collect()
}
