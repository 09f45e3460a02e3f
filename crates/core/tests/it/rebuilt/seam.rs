//! Rebuilds with triggers that are made again, and no command between: which entries are of before?

use super::{agree, pair, rebuild_by_hand};
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
