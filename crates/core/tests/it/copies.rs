//! Copies, the material of clones and snapshots.

use crate::site::{World, dump};
use rusqlite::Connection;
use std::sync::Arc;
use synqlite_core::{Replica, System};

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
        let (to, mut steps) = (world.path("copy"), Vec::new());
        a.replica.copy_to(&to, &mut |done, total| steps.push((done, total))).unwrap();
        assert!(steps.windows(2).all(|w| w[0].0 < w[1].0), "{mode}: {steps:?}");
        assert!(steps.len() > 1 && steps.last().is_some_and(|(done, total)| done == total));
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
    let error = a.replica.copy_to(&nowhere, &mut |_, _| ()).unwrap_err().to_string();
    assert!(error.contains("no folder"), "{error}");
}
