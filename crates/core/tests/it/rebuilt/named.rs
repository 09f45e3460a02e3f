//! Rows of a rebuilt table that no trigger saw, and rows that are named by them.

use super::{pair, rebuild};
use crate::site::{World, settle};

/// A row may have the key of another for its own, and that one came while the triggers were gone.
#[test]
fn mig_rebuild_and_a_row_that_is_named_by_one_that_nobody_noticed() {
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, u); INSERT INTO t VALUES(1, 'x'); \
               CREATE TABLE part(k INTEGER PRIMARY KEY REFERENCES t ON DELETE CASCADE \
               ON UPDATE CASCADE, w); INSERT INTO part VALUES(1, 'p')";
    let (row, part) = ("INSERT INTO t(u) VALUES('a')", "INSERT INTO part(w) VALUES('of a')");
    for (before, after) in [(part, [row, ""]), ("", [row, part])] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, sql);
        a.run(&format!("PRAGMA foreign_keys = OFF; {before}"));
        rebuild(&a, "t", "k INTEGER PRIMARY KEY, u, CHECK(u <> ''))", "k,u");
        after.iter().for_each(|sql| a.run(sql));
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        b.run("INSERT INTO t(u) VALUES('b'); INSERT INTO part(w) VALUES('of b')");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            let joined = site.rows("SELECT u, w FROM t JOIN part USING(k) ORDER BY u");
            assert_eq!(joined, ["a|of a", "b|of b", "x|p"]);
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    }
}
