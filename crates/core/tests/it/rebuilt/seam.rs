//! Rebuilds with triggers that are made again, and no command between: which entries are of before?

use super::{agree, pair, rebuild, rebuild_by_hand};
use crate::site::{Site, World, settle};
use synqlite_core::LogQuery;

/// What stood in the way of a write that was ignored, or was about to change, says where rows were then.
#[test]
fn mig_rebuild_by_hand_and_a_write_that_is_ignored() {
    let columns =
        "k TEXT, l TEXT, u UNIQUE ON CONFLICT IGNORE, r REFERENCES t(u), PRIMARY KEY(k, l))";
    let ignored = [
        "INSERT OR IGNORE INTO t VALUES('c', 'd', 3, 1)",
        "UPDATE OR IGNORE t SET u = 1 WHERE k = 'c'",
    ];
    for ignored in ignored {
        let world = World::new();
        let sql = format!("CREATE TABLE t({columns}; INSERT INTO t VALUES('b', 'b', 1, NULL)");
        let (mut a, mut b) = pair(&world, &sql);
        a.run("INSERT INTO t VALUES('c', 'd', 3, NULL); REPLACE INTO t VALUES('d', 'e', 1, NULL)");
        rebuild_by_hand(&a, "t", columns, "k, l, u, r");
        a.run(ignored);
        b.run("INSERT INTO t VALUES('c', 'a', 4, 1)");
        let want = ["b|b|1|NULL", "c|a|4|1", "c|d|3|NULL"];
        agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k, l", &want);
    }
}

/// Entries between a rebuild that kept the triggers and one that lost them are of rows as they lay between:
/// what a deleted row was is told of the right one.
#[test]
fn mig_rebuild_by_hand_and_once_more_without_triggers() {
    let columns = "k REAL PRIMARY KEY, u, r REFERENCES t(k))";
    for (copied, turned) in [("k, u, r", false), ("rowid, k, u, r", true)] {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE t({columns}; INSERT INTO t(k, u) VALUES(0, 0), (1, 1), (2, 2), (3, 3), \
             (NULL, 4), (NULL, 5), (NULL, 6); DELETE FROM t WHERE u IN (0, 1)"
        );
        let (mut a, mut b) = pair(&world, &sql);
        a.run("UPDATE t SET u = u + 10");
        rebuild_by_hand(&a, "t", columns, "k, u, r");
        a.run("DELETE FROM t WHERE u IN (12, 13, 14)");
        rebuild(&a, "t", columns, copied);
        b.run("INSERT INTO t VALUES(8, 8, 2)");
        let want = ["8|8|2", "2|12|NULL", "NULL|15|NULL", "NULL|16|NULL"];
        let shown = "SELECT CAST(k AS INT), u, CAST(r AS INT) FROM t ORDER BY u";
        agree(&mut a, &mut b, turned, shown, &want);
    }
}

/// A rowid between those of rows that share a state was nobody's, though an entry names it since.
#[test]
fn mig_rebuild_by_hand_and_once_more_with_rowids_in_gaps_of_others() {
    let sql =
        "CREATE TABLE t(k INTEGER PRIMARY KEY, u); INSERT INTO t VALUES(1, 1), (5, 5), (4, 4)";
    for turned in [false, true] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, sql);
        rebuild_by_hand(&a, "t", "k TEXT PRIMARY KEY, u)", "k, u");
        a.run("UPDATE OR REPLACE t SET u = 50 WHERE k = '5'");
        rebuild(&a, "t", "k TEXT PRIMARY KEY, v, u)", "k, u");
        rebuild(&b, "t", "k TEXT PRIMARY KEY, v, u)", "k, u");
        let want = ["1|NULL|1", "4|NULL|4", "5|NULL|50"];
        agree(&mut a, &mut b, turned, "SELECT * FROM t ORDER BY k", &want);
    }
}

/// What a REPLACE says first, of the row in its way, is of the same rebuilt table as what it does then: the row goes
/// on, and counts what others add.
#[test]
fn mig_rebuild_by_hand_and_a_replace_that_tells_what_it_deletes() {
    for told in ["ON", "OFF"] {
        let world = World::new();
        let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, n INTEGER); \
                   INSERT INTO t VALUES('a', 1), ('b', 2), ('c', 3), ('d', 4); \
                   DELETE FROM t WHERE k = 'a'; REPLACE INTO t VALUES('b', 2)";
        let mut a = world.init_with("a", sql, &[("t.n", "counter")]);
        let mut b = world.clone_site(&mut a, "b");
        b.run("UPDATE t SET n = n + 100");
        rebuild_by_hand(&a, "t", "k TEXT PRIMARY KEY, n INTEGER)", "k, n");
        a.run(&format!("PRAGMA recursive_triggers = {told}; REPLACE INTO t VALUES('b', 12)"));
        let want = ["b|112", "c|103", "d|104"];
        agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &want);
    }
}

/// Lets the clocks of all sites go on.
fn later() {
    std::thread::sleep(std::time::Duration::from_millis(3));
}

/// A row that old triggers take for one that may give way is still there, since its unique key is none any more.
#[test]
fn mig_rebuild_by_hand_and_a_unique_key_that_is_none_any_more() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE, w); INSERT INTO t VALUES('d', 3, 'o')";
    let (mut a, mut b) = pair(&world, sql);
    a.run("DELETE FROM t; INSERT INTO t VALUES('d', 5, 'a')");
    for site in [&a, &b] {
        rebuild_by_hand(site, "t", "k TEXT PRIMARY KEY, u, w)", "k, u, w");
    }
    later();
    b.run("DELETE FROM t; INSERT INTO t VALUES('d', 6, 'b')");
    later();
    a.run("INSERT INTO t VALUES('c', 5, 'n')");
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &["c|5|n", "d|6|b"]);
}

/// What an INSERT would have displaced has not given way where it became an update.
#[test]
fn mig_rebuild_by_hand_and_an_upsert() {
    let world = World::new();
    let columns = "k PRIMARY KEY, u UNIQUE, w)";
    let sql = format!(
        "CREATE TABLE t({columns}; INSERT INTO t VALUES(1, 1, 'o'), (4, 4, 'o'), (3, 5, 'o'); \
         DELETE FROM t WHERE k = 1"
    );
    let (mut a, mut b) = pair(&world, &sql);
    b.run("UPDATE t SET w = 'b'");
    settle(&mut a, &mut b);
    let written = |a: &Site| {
        let (table, row) = (Some("t".to_owned()), Some("4".to_owned()));
        a.replica.log(&LogQuery { table, row, limit: None }).unwrap()
    };
    let before = written(&a);
    a.run("INSERT INTO t VALUES(4, 5, 'a') ON CONFLICT(u) DO UPDATE SET w = excluded.w");
    rebuild_by_hand(&a, "t", columns, "k, u, w");
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &["3|5|a", "4|4|b"]);
    assert_eq!(written(&a), before);
}

/// Rows that share an entry came before those that have the next one.
#[test]
fn mig_rebuild_by_hand_and_rows_that_share_an_entry() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k PRIMARY KEY, w)");
    a.run("INSERT INTO t VALUES('c', 'a'), ('d', 'a')");
    later();
    b.run("INSERT INTO t VALUES('d', 'b')");
    later();
    a.run("INSERT INTO t VALUES('e', 'a')");
    rebuild_by_hand(&a, "t", "k PRIMARY KEY, w)", "k, w");
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &["c|a", "d|b", "e|a"]);
}

/// Of several rebuilds each gave rows other rowids: what entries between them tell is told of the right rows.
#[test]
fn mig_rebuild_by_hand_again_and_again() {
    for columns in ["k PRIMARY KEY, w, x)", "k, w, x)"] {
        for lost in [false, true] {
            let world = World::new();
            let rows: Vec<String> = (1..=9).map(|k| format!("({k}, 'o', {k})")).collect();
            let sql = format!("CREATE TABLE t({columns}; INSERT INTO t VALUES {}", rows.join(", "));
            let (mut a, mut b) = pair(&world, &sql);
            b.run("UPDATE t SET w = 'b'");
            later();
            a.run("DELETE FROM t WHERE k = 1");
            rebuild_by_hand(&a, "t", columns, "k, w, x");
            a.run("UPDATE t SET w = 'a' WHERE k = 2; DELETE FROM t WHERE k = 3");
            rebuild_by_hand(&a, "t", columns, "k, w, x");
            a.run("INSERT INTO t VALUES(10, 'a', 10); DELETE FROM t WHERE k IN (4, 5)");
            rebuild_by_hand(&a, "t", columns, "k, w, x");
            a.run("UPDATE t SET w = 'a' WHERE k = 8; DELETE FROM t WHERE k = 6");
            if lost {
                rebuild(&a, "t", columns, "k, w, x");
            }
            let want = ["2|a|2", "7|b|7", "8|a|8", "9|b|9", "10|a|10"];
            agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &want);
        }
    }
}

/// A key that a row had at the last fold names another by now.
#[test]
fn mig_rebuild_by_hand_and_a_key_that_is_another_rows_by_now() {
    let world = World::new();
    let columns = "k NOT NULL, l NOT NULL, w, PRIMARY KEY(k, l))";
    let sql = format!("CREATE TABLE t({columns}; INSERT INTO t VALUES(3, 'e', 'o')");
    let (mut a, mut b) = pair(&world, &sql);
    a.run("UPDATE t SET k = 5");
    later();
    b.run("UPDATE t SET w = 'b'");
    later();
    a.run("INSERT INTO t VALUES(3, 'e', 'n')");
    rebuild_by_hand(&a, "t", columns, "k, l, w");
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &["3|e|n", "5|e|b"]);
}

/// An update of one of two rows that came since the last fold, and nothing tells of which.
#[test]
fn mig_rebuild_by_hand_and_an_update_of_either_of_two_new_rows() {
    let world = World::new();
    let columns = "k TEXT PRIMARY KEY, w)";
    let (mut a, mut b) = pair(&world, &format!("CREATE TABLE t({columns}"));
    for k in ["c", "d", "e", "f"] {
        a.run(&format!("INSERT INTO t VALUES('{k}', 'a')"));
    }
    a.run("DELETE FROM t WHERE k = 'c'");
    rebuild_by_hand(&a, "t", columns, "k, w");
    later();
    b.run("INSERT INTO t VALUES('d', 'b')");
    later();
    // By its rowid it would have been the first before the rebuild.
    a.run("UPDATE t SET w = 'n' WHERE k = 'e'");
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &["d|b", "e|n", "f|a"]);
}

/// Where an integer key was as large as any, no number is left past it for a row that came since.
#[test]
fn mig_rebuild_where_no_larger_rowid_is_left() {
    for least in [1, i64::MIN] {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE t(k INTEGER PRIMARY KEY, w); INSERT INTO t VALUES({least}, 'a'), ({}, 'b')",
            i64::MAX - 1
        );
        let (mut a, mut b) = pair(&world, &sql);
        a.run("INSERT INTO t VALUES(NULL, 'c'); DELETE FROM t WHERE w = 'b'");
        rebuild_by_hand(&a, "t", "k TEXT PRIMARY KEY, w)", "k,w");
        a.run(
            "INSERT INTO t VALUES('d', 'd'), ('e', 'e'), ('f', 'f'); DELETE FROM t WHERE w = 'e'",
        );
        a.run("UPDATE t SET w = 'F' WHERE k = 'f'");
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        rebuild_by_hand(&b, "t", "k TEXT PRIMARY KEY, w)", "k,w");
        let first = format!("{least}|a");
        let want = [&*first, "9223372036854775807|c", "d|d", "f|F"];
        agree(&mut a, &mut b, false, "SELECT k, w FROM t ORDER BY w COLLATE NOCASE", &want);
    }
}

/// An insert says what the largest rowid was, so no row can have been past it.
#[test]
fn mig_rebuild_by_hand_and_rows_past_the_largest_rowid_there_was() {
    let columns = "k TEXT PRIMARY KEY, w)";
    for turned in [false, true] {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE t({columns}; INSERT INTO t VALUES('1', 'a'), ('x', 'x'), ('4y', 'b'), \
             ('4', 'c'), ('z', 'z'), ('1y', 'd'); DELETE FROM t WHERE k IN ('x', 'z')"
        );
        let (mut a, mut b) = pair(&world, &sql);
        rebuild_by_hand(&a, "t", columns, "k, w");
        // Two are ignored, and say which rows stood in the way.
        a.run("INSERT OR IGNORE INTO t SELECT k || 'y', 'new' FROM t; UPDATE t SET w = w || '!'");
        b.run("UPDATE t SET w = 'B' WHERE k = '1y'");
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        let want = ["1|a!", "1y|B", "1yy|new!", "4|c!", "4y|b!", "4yy|new!"];
        agree(&mut a, &mut b, turned, "SELECT * FROM t ORDER BY k", &want);
    }
}

/// What a value of a row that is gone refers to its writer says, as of one that is shown: here another has the key.
#[test]
fn mig_fk_a_deleted_row_refers_to_what_its_writer_said() {
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, u INT NOT NULL UNIQUE, c)";
    let columns =
        "k TEXT PRIMARY KEY, u INT NOT NULL UNIQUE, c REFERENCES t(u) ON DELETE RESTRICT)";
    let inserts = "INSERT INTO t VALUES('theirs', 1, NULL), ('needed', 3, 1), ('needs', 4, 3)";
    let rebuild_and = |site: &Site, sql| {
        rebuild_by_hand(site, "t", columns, "k, u, c");
        site.run(&format!("PRAGMA foreign_keys = OFF; {sql}"));
    };
    for told in [true, false] {
        for turned in [true, false] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, sql);
            a.run("INSERT INTO t VALUES('ours', 1, NULL)");
            if told {
                rebuild_and(&b, inserts);
            } else {
                b.run(inserts);
            }
            a.pull(&mut b);
            if !told {
                rebuild_and(&b, "");
            }
            rebuild_and(&a, "DELETE FROM t WHERE k = 'needed'");
            a.replica.fold().unwrap();
            agree(&mut a, &mut b, turned, "SELECT k, u, c FROM t ORDER BY k", &["ours|1|NULL"]);
        }
    }
}
