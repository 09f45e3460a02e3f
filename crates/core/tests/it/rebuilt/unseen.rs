//! Rows that REPLACE displaced by a unique index which no trigger knew yet.

use super::pair;
use crate::site::{World, settle};

/// Who refers to such a row still does, and keeps it shown (R-PROTECT).
#[test]
fn mig_index_and_a_reference_to_a_row_displaced_unseen() {
    let key = [("INTEGER PRIMARY KEY", "2"), ("TEXT PRIMARY KEY", "'b'")];
    for (kind, named) in key {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE p(k {kind}, u); CREATE TABLE c(k TEXT PRIMARY KEY, r REFERENCES p); \
             INSERT INTO p VALUES({named}, 2)"
        );
        let (mut a, mut b) = pair(&world, &sql);
        b.run(&format!("INSERT INTO c VALUES('x', {named})"));
        a.pull(&mut b);
        a.run(
            "PRAGMA foreign_keys = OFF; CREATE UNIQUE INDEX i ON p(u); \
               REPLACE INTO p VALUES(9, 2)",
        );
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT c.k FROM c, p WHERE c.r = p.k"), ["x"]);
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    }
}
