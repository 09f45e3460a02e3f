//! Rebuilds with triggers that are made again, and no command between: which entries are of before?

use super::{agree, pair, rebuild, rebuild_by_hand};
use crate::site::World;

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
