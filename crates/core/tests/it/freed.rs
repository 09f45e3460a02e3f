//! Values that a foreign key had, after a rebuild without it (R-MIG-FK).

use crate::migrate::{agree, pair};
use crate::site::{Site, World};

const REBUILD: &str = "PRAGMA foreign_keys = OFF; CREATE TABLE n(id INTEGER PRIMARY KEY, r INTEGER);
    INSERT INTO n SELECT * FROM c; DROP TABLE c; ALTER TABLE n RENAME TO c; PRAGMA foreign_keys = ON";

fn settle([a, b, d]: [&mut Site; 3]) {
    for _ in 0..2 {
        a.pull(b);
        a.pull(d);
        b.pull(a);
        d.pull(a);
    }
}

/// A reference whose row is hidden shows nothing. Where that row got another number before, the number
/// that is left is another.
#[test]
fn mig_fk_what_a_row_does_not_show_is_said_too() {
    let sql = "CREATE TABLE p(k INTEGER PRIMARY KEY, u UNIQUE); \
               CREATE TABLE c(id INTEGER PRIMARY KEY, r INTEGER REFERENCES p(k) ON DELETE SET NULL)";
    for all in [true, false] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, sql);
        let mut d = world.clone_site(&mut a, "d");
        a.run("INSERT INTO p VALUES(5, 'x')");
        a.replica.fold().unwrap();
        d.run("INSERT INTO p VALUES(1, 'y')");
        d.replica.fold().unwrap();
        b.run("INSERT INTO p VALUES(1, 'x'); INSERT INTO c VALUES(1, 1)");
        a.pull(&mut b);
        b.pull(&mut d);
        assert_eq!(b.rows("SELECT p.u, c.r FROM c JOIN p ON p.k = c.r"), ["x|2"]);
        b.pull(&mut a);
        for site in [&mut a, &mut b] {
            assert_eq!(site.rows("SELECT r FROM c"), ["NULL"]);
        }
        a.run(REBUILD);
        b.run(REBUILD);
        if all {
            d.run(REBUILD);
        }
        for site in [&mut d, &mut a, &mut b] {
            site.replica.fold().unwrap();
        }
        settle([&mut a, &mut b, &mut d]);
        if !all {
            d.run(REBUILD);
            settle([&mut a, &mut b, &mut d]);
        }
        agree(&mut [&mut a, &mut b, &mut d]);
    }
}

/// A reference that a site was told of before it had the foreign key keeps its row shown, also while that
/// row has no key.
#[test]
fn mig_fk_a_reference_that_was_told_before_protects_a_row_without_a_key() {
    let table = |name: &str, m: &str| {
        format!("CREATE TABLE {name}(k TEXT PRIMARY KEY, u INTEGER UNIQUE, m INTEGER {m})")
    };
    let migrate = |site: &Site| {
        let new = table("n", "REFERENCES t(u) ON DELETE RESTRICT");
        site.run(&format!(
            "PRAGMA foreign_keys = OFF; BEGIN; {new}; INSERT INTO n SELECT * FROM t; DROP TABLE t; \
             ALTER TABLE n RENAME TO t; COMMIT; PRAGMA foreign_keys = ON"
        ));
    };
    let world = World::new();
    let sql = format!("{}; INSERT INTO t VALUES('p', 1, NULL), ('x', NULL, 1)", table("t", ""));
    let (mut a, mut b) = pair(&world, &sql);
    let mut c = world.clone_site(&mut a, "c");
    migrate(&c);
    c.replica.fold().unwrap();
    b.run("UPDATE t SET u = NULL WHERE k = 'p'; INSERT INTO t VALUES('q', 1, NULL)");
    c.pull(&mut b);
    c.run("DELETE FROM t WHERE k = 'p'");
    a.pull(&mut c);
    migrate(&a);
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    migrate(&b);
    settle([&mut a, &mut b, &mut c]);
    for site in [&a, &b, &c] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        assert_eq!(
            site.rows("SELECT k, u, m FROM t ORDER BY k"),
            a.rows("SELECT k, u, m FROM t ORDER BY k")
        );
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}
