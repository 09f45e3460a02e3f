//! Columns that a rebuild adds and fills.

use super::{agree, pair};
use crate::site::World;

/// What a rebuild fills a new column with is as unsure where the column refers to nobody by a policy.
#[test]
fn mig_rebuild_fills_a_column_that_refers_by_a_policy() {
    for turned in [false, true] {
        let world = World::new();
        let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, n); CREATE TABLE p(k TEXT PRIMARY KEY);
             INSERT INTO t VALUES(5, 5)";
        let (mut a, mut b) = pair(&world, sql);
        b.run("ALTER TABLE t ADD COLUMN c");
        b.replica.set_policies(&["t.refs=c:p".parse().unwrap()]).unwrap();
        a.pull(&mut b);
        a.run(
            "BEGIN; CREATE TABLE u(k INTEGER PRIMARY KEY, n, c); INSERT INTO u SELECT k, n, 'x' FROM t;
             DROP TABLE t; ALTER TABLE u RENAME TO t; COMMIT",
        );
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        agree(&mut a, &mut b, turned, "SELECT * FROM t", &["5|5|x"]);
    }
}
