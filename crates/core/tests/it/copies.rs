//! Copies, the material of clones and snapshots.

use crate::site::{World, dump, settle};
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Arc, Mutex};
use synqlite_core::{Environment, InitOptions, Phase, Replica, Step, System};

/// Hears how far work of a phase is.
pub struct Watcher(Phase, Mutex<Vec<(u64, Option<u64>)>>);

impl Watcher {
    pub fn of(phase: Phase) -> Arc<Watcher> {
        Arc::new(Watcher(phase, Mutex::default()))
    }

    pub fn steps(&self) -> Vec<(u64, Option<u64>)> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }
}

impl Environment for Watcher {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn step(&self, Step { phase, done, total }: Step) {
        if phase == self.0 {
            self.1.lock().unwrap().push((done, total));
        }
    }
}

#[test]
fn a_copy_is_what_was_committed_in_every_mode() {
    for (mode, page_size) in
        [("delete", 512), ("truncate", 4096), ("persist", 65536), ("wal", 1024), ("memory", 8192)]
    {
        let world = World::new();
        let mut a = world.init(
            "a",
            &format!(
                "PRAGMA page_size = {page_size}; PRAGMA journal_mode = {mode}; \
                 CREATE TABLE t(id INTEGER PRIMARY KEY, v)"
            ),
        );
        a.app.pragma_update(None, "journal_mode", mode).unwrap();
        a.run(
            "WITH RECURSIVE g(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM g WHERE v < 9000) \
             INSERT INTO t SELECT v, hex(randomblob(60)) FROM g",
        );
        let (to, watcher) = (world.path("copy"), Watcher::of(Phase::Copy));
        Replica::open(a.replica.path(), watcher.clone()).unwrap().copy_to(&to).unwrap();
        let steps = watcher.steps();
        let size = std::fs::metadata(&to).unwrap().len();
        assert!(steps.windows(2).all(|w| w[0].0 < w[1].0), "{mode}: {steps:?}");
        assert!(steps.len() > 1 && steps.last() == Some(&(size, Some(size))), "{mode}: {steps:?}");
        let copy = Connection::open(&to).unwrap();
        assert_eq!(dump(&copy, &["t"]), dump(&a.app, &["t"]), "{mode}");
        let check: String = copy.query_row("PRAGMA integrity_check", [], |r| r.get(0)).unwrap();
        assert_eq!(check, "ok", "{mode}");
        copy.close().unwrap();
        // What was written after it is not in it, and both go on.
        a.run("DELETE FROM t WHERE id > 1; UPDATE t SET v = 'a'");
        let copied = Replica::open_copy(&to, Arc::new(System)).unwrap();
        drop(copied.become_site().unwrap());
        let mut b = world.open("copy");
        assert_eq!(b.row("SELECT count(*) FROM t"), "9000");
        b.pull(&mut a);
        assert_eq!(b.rows("SELECT id, v FROM t"), ["1|a"], "{mode}");
    }
}

#[test]
fn a_copy_that_cannot_be_written_says_so() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    let nowhere = world.path("no folder/copy");
    let error = a.replica.copy_to(&nowhere).unwrap_err().to_string();
    assert!(error.contains("no folder"), "{error}");
}

/// A row that shows less than was written was deleted just before its file was copied: the copy is as good as the file.
#[test]
fn a_copy_may_hold_writes_to_rows_that_have_a_record() {
    let world = World::new();
    let sql =
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES(1, 'a'), (2, 'b')";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET u = 'same' WHERE id = 1");
    b.run("UPDATE t SET u = 'same' WHERE id = 2");
    settle(&mut a, &mut b);
    assert_eq!(a.replica.open_conflicts().unwrap(), 1);
    a.run("DELETE FROM t");
    let copy = world.path("copy");
    std::fs::copy(a.replica.path(), &copy).unwrap();
    let options = InitOptions { new_site: true, ..InitOptions::default() };
    Replica::init(&copy, &options, Arc::new(System)).unwrap();
    let mut copy = world.open("copy");
    copy.replica.fold().unwrap();
    assert_eq!(copy.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(copy.replica.open_conflicts().unwrap(), 0);
}

/// Of a row that was written with our triggers gone no column is taken for one that was dropped and added again, be it
/// one that shows its default.
#[test]
fn a_copy_that_was_changed_unnoticed_is_refused() {
    let world = World::new();
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT, none TEXT); \
               INSERT INTO t(id, v) VALUES(1, 'a'), (2, 'b')";
    let a = world.init("a", sql);
    let copy = world.path("copy");
    std::fs::copy(a.replica.path(), &copy).unwrap();
    let conn = Connection::open(&copy).unwrap();
    let ours = "SELECT sql FROM sqlite_master WHERE name = 'synqlite_update_1'";
    let trigger: String = conn.query_row(ours, [], |row| row.get(0)).unwrap();
    let write = "DROP TRIGGER synqlite_update_1; UPDATE t SET v = 'other' WHERE id = 1;";
    conn.execute_batch(&format!("{write} {trigger}")).unwrap();
    drop(conn);
    let options = InitOptions { new_site: true, ..InitOptions::default() };
    let refused = Replica::init(&copy, &options, Arc::new(System)).unwrap_err().to_string();
    assert!(refused.contains("is no faithful copy: table t, row 1"), "{refused}");
}

/// Who has a replica open goes on when a backup is copied over it. The backup may be of another file than the one that
/// is there now, as where an earlier one was moved in its place: then it is this file's own from there on.
#[test]
fn a_backup_of_a_file_that_another_took_the_place_of_is_no_copy() {
    for lost in [false, true] {
        let world = World::new();
        let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO t(v) VALUES('before')");
        settle(&mut a, &mut b);
        let (path, backup) = (world.path("a"), std::fs::read(world.path("a")).unwrap());
        if lost {
            a.run("INSERT INTO t(v) VALUES('lost')");
            settle(&mut a, &mut b);
        }
        drop(a);
        std::fs::write(world.path("moved"), &backup).unwrap();
        std::fs::rename(world.path("moved"), &path).unwrap();
        let options = InitOptions { new_site: true, ..InitOptions::default() };
        Replica::init(&path, &options, Arc::new(System)).unwrap();
        let mut a = world.open("a");
        settle(&mut a, &mut b);
        let former = a.replica.site();
        std::fs::write(&path, &backup).unwrap();
        a.app = Connection::open(&path).unwrap();
        a.run("INSERT INTO t(v) VALUES('after')");
        settle(&mut a, &mut b);
        assert_eq!(a.replica.take_former(), Some(former), "lost: {lost}");
        let site = a.replica.site();
        drop(a);
        let a = world.open("a");
        assert_eq!(a.replica.site(), site);
        let values = if lost { vec!["after", "before", "lost"] } else { vec!["after", "before"] };
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT v FROM t ORDER BY v"), values);
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    }
}
