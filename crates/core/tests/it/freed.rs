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
