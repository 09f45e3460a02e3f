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

/// Nobody can say any more who refers to it where its key went with it.
#[test]
fn mig_index_and_a_reference_to_a_key_that_is_lost() {
    for then in ["REPLACE INTO p VALUES(9, 'nine', 2)", "UPDATE OR REPLACE p SET u = 2 WHERE k = 1"]
    {
        for (rename, shows) in [("", vec![]), ("UPDATE p SET name = 'two' WHERE u = 2", vec!["x"])]
        {
            let world = World::new();
            let sql = "CREATE TABLE p(k INTEGER PRIMARY KEY, name TEXT UNIQUE, u); \
                       CREATE TABLE c(k TEXT PRIMARY KEY, r REFERENCES p(name)); \
                       INSERT INTO p VALUES(1, 'one', 1), (2, 'two', 2)";
            let (mut a, mut b) = pair(&world, sql);
            b.run("INSERT INTO c VALUES('x', 'two')");
            a.pull(&mut b);
            let index = "PRAGMA foreign_keys = OFF; CREATE UNIQUE INDEX i ON p(u); \
                         WITH n(i) AS (SELECT 50 UNION ALL SELECT i + 1 FROM n WHERE i < 90) \
                         INSERT INTO p SELECT i, 'n' || i, i FROM n";
            a.run(&format!("{index}; {then}; {rename}"));
            settle(&mut a, &mut b);
            for site in [&a, &b] {
                assert_eq!(site.rows("SELECT k FROM c"), shows, "{then}; {rename}");
                let told = site.replica.conflicts().unwrap();
                assert_eq!(told.len(), 1 - shows.len(), "{then}; {rename}");
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            }
            assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
        }
    }
}

/// A row goes, and then, with no trigger left, the one that it referred to by its key in another type: what goes
/// was to that row, and comes back with it.
#[test]
fn mig_rebuild_and_a_reference_of_another_type_to_a_row_that_nobody_saw_go() {
    let rebuild = "PRAGMA foreign_keys = OFF; CREATE TABLE n(k TEXT PRIMARY KEY, r REFERENCES n(k)); \
                   INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t;";
    let world = World::new();
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, r REFERENCES t(k)); INSERT INTO t VALUES('5', NULL), ('y', 5);
         CREATE TABLE u(id INTEGER PRIMARY KEY, r REFERENCES t(k))";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM t WHERE k = 'y'");
    a.run(&format!("{rebuild} DELETE FROM t WHERE k = '5'"));
    b.run("INSERT INTO u VALUES(1, 'y')");
    settle(&mut a, &mut b);
    b.run(rebuild);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t ORDER BY k"), ["5|NULL", "y|5"]);
        assert_eq!(site.rows("SELECT r FROM u"), ["y"]);
    }
}

/// A reference that nothing keeps, to a row that is hidden, is still to that row when its table is rebuilt: the row was
/// not in the table, so it cannot have been lost with it.
#[test]
fn mig_rebuild_and_a_reference_to_a_hidden_row() {
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, name, phone UNIQUE); \
               CREATE TABLE c(id INTEGER PRIMARY KEY, p INTEGER)";
    let world = World::new();
    let mut a = world.init_with("a", sql, &[("c.refs", "p:p")]);
    let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    b.run("INSERT INTO p VALUES(1, 'Eve', '9')");
    c.run("INSERT INTO p VALUES(40, 'Gus', '8')");
    a.run("INSERT INTO p VALUES(40, 'Dan', '9'); INSERT INTO c VALUES(1, 40)");
    b.pull(&mut a);
    b.run(
        "BEGIN; CREATE TABLE n(id INTEGER PRIMARY KEY, name NOT NULL, phone UNIQUE); INSERT INTO n SELECT * FROM p; \
         DROP TABLE p; ALTER TABLE n RENAME TO p; COMMIT",
    );
    b.replica.fold().unwrap();
    b.run("UPDATE p SET phone = '5' WHERE name = 'Eve'");
    for _ in 0..2 {
        settle(&mut a, &mut b);
        settle(&mut b, &mut c);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT name FROM c JOIN p ON p.id = c.p"), ["Dan"]);
    }
}
