//! Foreign keys of a column that one site renames and another makes anew under its later name
//! (R-MIG-RENAME): to all sites they are one.

use crate::migrate::pair;
use crate::site::{Site, World, settle};

const TABLES: &str = "CREATE TABLE p(id INTEGER PRIMARY KEY, v); INSERT INTO p VALUES(1, 'a');
    CREATE TABLE c(id TEXT PRIMARY KEY, r INT REFERENCES p ON UPDATE CASCADE, u UNIQUE)";
const RENAMES: &str = "ALTER TABLE c RENAME COLUMN r TO s";
const REBUILDS: &str = "PRAGMA foreign_keys=OFF;
    CREATE TABLE n(id TEXT PRIMARY KEY, s INT REFERENCES p ON UPDATE CASCADE, u UNIQUE);
    INSERT INTO n SELECT * FROM c; DROP TABLE c; ALTER TABLE n RENAME TO c; PRAGMA foreign_keys=ON";

#[track_caller]
fn show(sites: [&mut Site; 2], rows: &[&str]) {
    for site in sites {
        assert_eq!(site.rows("SELECT id, s FROM c ORDER BY id"), rows);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        site.check();
    }
}

/// What a hidden row refers to is kept under the foreign key's name, and outlives another change of the
/// schema.
#[test]
fn mig_rename_a_hidden_row_keeps_its_reference() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, TABLES);
    a.run(RENAMES);
    b.run(REBUILDS);
    a.run("INSERT INTO c VALUES('i', 1, 5)");
    b.run("INSERT INTO c VALUES('j', 1, 5)");
    settle(&mut a, &mut b);
    let ids = |site: &Site| -> Vec<_> {
        site.replica.conflicts().unwrap().into_iter().map(|c| (c.id, c.kind)).collect()
    };
    assert_eq!(ids(&a), ids(&b));
    for site in [&mut a, &mut b] {
        site.run("ALTER TABLE c ADD COLUMN z");
        site.replica.fold().unwrap();
    }
    a.run("UPDATE p SET id = 9");
    a.run("UPDATE c SET u = 6");
    settle(&mut a, &mut b);
    show([&mut a, &mut b], &["i|9", "j|9"]);
}

/// What another site wrote is kept under the name that the foreign key has there, until it is known that
/// the column was only renamed, here or by a third site.
#[test]
fn mig_rename_what_is_kept_for_a_renamed_reference_refers_to_its_row() {
    for here in [true, false] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, TABLES);
        let mut o = world.clone_site(&mut a, "o");
        b.run(REBUILDS);
        b.run("INSERT INTO c VALUES('i', 1, 5)");
        a.pull(&mut b);
        if here {
            a.run(RENAMES);
        } else {
            o.run(RENAMES);
            a.pull(&mut o);
            a.run(RENAMES);
        }
        b.run("UPDATE p SET id = 9");
        settle(&mut a, &mut b);
        show([&mut a, &mut b], &["i|9"]);
    }
}

/// Nobody has written a column that was added before the rows were known to be of this table.
#[test]
fn mig_rename_a_table_of_rows_that_wait_has_a_column_that_they_lack() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, TABLES);
    let migration = [
        "CREATE TABLE t(k TEXT PRIMARY KEY, w)",
        "ALTER TABLE t RENAME TO n",
        "ALTER TABLE n ADD COLUMN x INT DEFAULT 2",
    ];
    b.run(migration[0]);
    b.run("INSERT INTO t VALUES('k', 1)");
    settle(&mut a, &mut b);
    migration.iter().for_each(|sql| a.run(sql));
    settle(&mut a, &mut b);
    migration[1..].iter().for_each(|sql| b.run(sql));
    settle(&mut a, &mut b);
    for site in [&mut a, &mut b] {
        assert_eq!(site.rows("SELECT * FROM n"), ["k|1|2"]);
        site.check();
    }
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
}
