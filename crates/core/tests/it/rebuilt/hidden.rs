//! The same of rows that are hidden, and of their records.

use super::{agree, pair, rebuild};
use crate::site::{Site, World};

/// What the open records of a site say was written.
fn asked(site: &Site) -> Vec<String> {
    let conflicts = site.replica.records().unwrap();
    conflicts.into_iter().map(|c| format!("{} {}: {:?}", c.kind, c.row, c.displaced)).collect()
}

/// A record says a reference as the row would show it, as it was written if that means the key, whether
/// the row that it is to went before its key became a text or after.
#[test]
fn mig_rebuild_a_record_of_a_reference_to_a_row_that_went_before() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, r BLOB DEFAULT 3 REFERENCES t ON DELETE SET DEFAULT); \
               INSERT INTO t VALUES(1, NULL)";
    let (mut a, mut b) = pair(&world, sql);
    b.run("INSERT INTO t VALUES(2, 1)");
    a.run("DELETE FROM t");
    a.replica.fold().unwrap();
    let columns = "k TEXT PRIMARY KEY, r BLOB DEFAULT 3 REFERENCES t ON DELETE SET DEFAULT)";
    for site in [&a, &b] {
        rebuild(site, "t", columns, "k, r");
    }
    agree(&mut a, &mut b, false, "SELECT * FROM t", &[]);
    assert_eq!(asked(&a), asked(&b));
}

/// What a rebuild without triggers left is known before what others wrote is shown, which hides the row.
#[test]
fn mig_rebuild_and_a_row_written_that_is_hidden_by_what_was_kept() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, w, n); INSERT INTO t VALUES('x', 1, 2)";
    let (mut a, mut b) = pair(&world, sql);
    let checked = "k TEXT PRIMARY KEY, w, n, c DEFAULT 3 CHECK(c < 5))";
    rebuild(&a, "t", "k TEXT PRIMARY KEY, w, n, c DEFAULT 3)", "k,w,n");
    a.run("UPDATE t SET c = 7");
    b.pull(&mut a);
    rebuild(&b, "t", checked, "k,w,n");
    b.run("UPDATE t SET w = 11, n = 12");
    b.replica.fold().unwrap();
    let asked_b = asked(&b);
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["x|11|12|7"]);
    assert!(asked_b[0].contains("Integer(11)") && asked_b[0].contains("Integer(7)"), "{asked_b:?}");
    b.pull(&mut a);
    for site in [&a, &b] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A fold after a rebuild takes nothing back: a hidden row gives way that asks, under a key which is new,
/// for what the user wrote.
#[test]
fn mig_rebuild_a_hidden_row_asks_for_a_new_key_that_the_user_gave_away() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k INTEGER PRIMARY KEY, u UNIQUE, w)");
    a.run("INSERT INTO t VALUES(5, 0, 'a')");
    b.run("INSERT INTO t VALUES(2, 0, 'b')");
    b.pull(&mut a);
    for site in [&a, &b] {
        rebuild(site, "t", "k TEXT PRIMARY KEY, u, w)", "k,u,w");
    }
    b.run("INSERT INTO t VALUES(2, NULL, 'c')");
    b.replica.fold().unwrap();
    let want = ["2|c", "5|a"];
    assert_eq!(b.rows("SELECT k, w FROM t ORDER BY 1"), want);
    agree(&mut a, &mut b, false, "SELECT k, w FROM t ORDER BY 1", &want);
    assert_eq!(asked(&a).len(), 1);
}

/// What a row showed before it was written decides where it steps aside, so it comes through a site of another
/// schema too, and stays there when that changes.
#[test]
fn mig_rebuild_what_a_row_showed_before_passes_through_another_schema() {
    let old = "k INTEGER PRIMARY KEY, w, r REFERENCES t(k) ON DELETE CASCADE)";
    let new = "k INTEGER PRIMARY KEY, w, r UNIQUE)";
    for (first, second) in [(old, new), (new, old)] {
        for early in [false, true] {
            let world = World::new();
            let sql = format!(
                "CREATE TABLE t({first}; INSERT INTO t VALUES(1, 'x', NULL), (2, 'y', NULL), (5, 'z', NULL)"
            );
            let (mut a, mut b) = pair(&world, &sql);
            let mut c = world.clone_site(&mut a, "c");
            for site in [&mut a, &mut c] {
                rebuild(site, "t", second, "k, w, r");
                site.replica.fold().unwrap();
            }
            a.run("UPDATE t SET r = 5 WHERE k = 2");
            a.replica.fold().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
            c.run("UPDATE t SET r = 5 WHERE k = 1");
            b.pull(&mut c);
            // Before it passes that on, or after.
            if early {
                rebuild(&b, "t", second, "k, w, r");
            }
            a.pull(&mut b);
            c.pull(&mut a);
            if !early {
                rebuild(&b, "t", second, "k, w, r");
            }
            b.pull(&mut c);
            let first = if second == new { "1|x|NULL" } else { "1|x|5" };
            for site in [&a, &b, &c] {
                let shown = site.rows("SELECT * FROM t ORDER BY k");
                assert_eq!(shown, [first, "2|y|5", "5|z|NULL"], "{second}, {early}");
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            }
        }
    }
}
