//! Pulls and folds of more rows than are looked at together, and pulls from a replica that others
//! write to meanwhile.

use crate::site::{Site, World, dump, settle};
use std::sync::atomic::{AtomicBool, Ordering};
use synqlite_core::Replica;

/// More than a few parts of any kind.
const MANY: &str =
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 10000)";

fn same(a: &Site, b: &Site, tables: &[&str]) {
    assert_eq!(dump(&a.app, tables), dump(&b.app, tables));
    for site in [a, b] {
        assert_eq!(site.replica.verify().unwrap(), Vec::<String>::new());
        site.check();
    }
}

#[test]
fn large_changes_arrive_whole() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE p(id INTEGER PRIMARY KEY, n);
         CREATE TABLE c(id TEXT PRIMARY KEY, p INTEGER REFERENCES p(id) ON DELETE CASCADE, n);
         CREATE TABLE plain(id INTEGER PRIMARY KEY, n, note);",
    );
    let mut b = world.clone_site(&mut a, "b");
    let tables = ["p", "c", "plain"];
    a.run(&format!(
        "{MANY} INSERT INTO p SELECT i, i FROM c;
         {MANY} INSERT INTO c SELECT 'k' || i, i, i FROM c;
         {MANY} INSERT INTO plain SELECT i, i, 'new' FROM c;"
    ));
    b.pull(&mut a);
    same(&a, &b, &tables);
    // Of one row two updates, of another an update and a delete, of a third a move.
    a.run("UPDATE plain SET n = -n; UPDATE plain SET note = 'later' WHERE id % 3 = 0");
    a.run(
        "DELETE FROM plain WHERE id % 5 = 0; UPDATE plain SET id = 1000000 + id WHERE id % 7 = 0",
    );
    a.run("UPDATE p SET n = -n; UPDATE c SET n = -n; DELETE FROM p WHERE id % 4 = 0");
    b.run("UPDATE plain SET note = 'elsewhere' WHERE id % 2 = 0");
    settle(&mut a, &mut b);
    same(&a, &b, &tables);
    assert_eq!(a.row("SELECT count(*) FROM p"), "7500");
    assert_eq!(a.row("SELECT count(*) FROM c"), "7500");
    assert_eq!(a.row("SELECT note FROM plain WHERE id = 2"), "elsewhere");
    assert_eq!(a.row("SELECT n FROM plain WHERE id = 1000007"), "-7");
}

#[test]
fn collisions_among_many_rows_keep_every_row() {
    let world = World::new();
    let mut a = world
        .init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, n); CREATE TABLE u(k TEXT UNIQUE, n);");
    let mut b = world.clone_site(&mut a, "b");
    a.run(&format!(
        "{MANY} INSERT INTO t SELECT i, 'a' FROM c; {MANY} INSERT INTO u SELECT 'x' || i, 'a' FROM c;"
    ));
    b.run(&format!(
        "{MANY} INSERT INTO t SELECT i * 10, 'b' FROM c; {MANY} INSERT INTO u SELECT 'x' || (i * 10), 'b' FROM c;"
    ));
    settle(&mut a, &mut b);
    same(&a, &b, &["t", "u"]);
    assert_eq!(a.row("SELECT count(*) FROM t"), "20000");
    assert_eq!(a.row("SELECT count(*) FROM u"), "19000");
    assert_eq!(a.replica.records().unwrap().len(), 1000);
}

#[test]
fn a_program_that_writes_all_the_time_keeps_nobody_from_pulling() {
    let world = World::new();
    let mut a =
        world.init("a", "PRAGMA journal_mode=WAL; CREATE TABLE t(id INTEGER PRIMARY KEY, n)");
    let mut b = world.clone_site(&mut a, "b");
    let (path, done) = (world.path("a"), AtomicBool::new(false));
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let app = rusqlite::Connection::open(&path).unwrap();
            app.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                app.execute("INSERT INTO t(n) VALUES(?1)", [n]).unwrap();
                app.execute("UPDATE t SET n = -n WHERE id = ?1 / 2", [n]).unwrap();
            }
            n
        });
        for _ in 0..30 {
            b.replica.pull_from(&mut a.replica, false).unwrap();
            b.check();
        }
        done.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    b.pull(&mut a);
    same(&a, &b, &["t"]);
    assert_eq!(b.row("SELECT count(*) FROM t"), written.to_string());
    // What was given away was never stamped anew: nothing is left to tell.
    assert_eq!(b.replica.pull_from(&mut a.replica, false).unwrap().rows, 0);
    let seen = |replica: &Replica| replica.seen().unwrap();
    assert_eq!(seen(&a.replica), seen(&b.replica));
}

#[test]
fn updates_that_meet_nothing_and_updates_that_do_are_shown_alike() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE t(id TEXT PRIMARY KEY, u UNIQUE, n, note);
         INSERT INTO t VALUES ('alone', 1, 1, ''), ('both', 2, 2, ''), ('key', 3, 3, ''),
                              ('gone', 4, 4, ''), ('later', 5, 5, '');",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET n = 50 WHERE id = 'later'");
    b.run("UPDATE t SET n = 21 WHERE id = 'both'; DELETE FROM t WHERE id = 'gone'");
    std::thread::sleep(std::time::Duration::from_millis(3));
    a.run(
        "UPDATE t SET n = 10, note = 'x' WHERE id = 'alone'; UPDATE t SET n = 20 WHERE id = 'both'",
    );
    a.run("UPDATE t SET u = 30, n = 31 WHERE id = 'key'; UPDATE t SET n = 40 WHERE id = 'gone'");
    b.run("UPDATE t SET n = 51, note = 'y' WHERE id = 'later'");
    let pulled = b.replica.pull_from(&mut a.replica, false).unwrap();
    // What was written here later stays, and what was deleted stays deleted.
    let merged = pulled.merged;
    assert_eq!((pulled.rows, merged.inserted, merged.updated, merged.deleted), (5, 0, 3, 0));
    let shown = ["alone|1|10|x", "both|2|20|", "key|30|31|", "later|5|51|y"];
    assert_eq!(b.rows("SELECT * FROM t ORDER BY id"), shown);
    assert_eq!(merged.decisions.len(), 3, "{:?}", merged.decisions);
    a.pull(&mut b);
    same(&a, &b, &["t"]);
    assert_eq!(a.rows("SELECT * FROM t ORDER BY id"), shown);
    // Once more, where rows have entries: nothing is open, so nothing keeps them from it.
    b.run("UPDATE t SET n = n + 100");
    a.pull(&mut b);
    same(&a, &b, &["t"]);
    assert_eq!(a.row("SELECT count(*) FROM t WHERE n > 100"), "4");
}
