//! The same of rows that are hidden, and of their records.

use super::{agree, pair, rebuild};
use crate::site::{Site, World};

/// What the open records of a site say was written.
fn asked(site: &Site) -> Vec<String> {
    let conflicts = site.replica.conflicts().unwrap();
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
