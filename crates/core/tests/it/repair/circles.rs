//! The same for rows that refer to each other in a circle.

use super::{agree, pair};

/// A deleted row that others need, and that is hidden with the row it refers to, comes back with it.
#[test]
fn a_row_that_is_kept_comes_back_with_the_one_it_was_hidden_with() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) DEFERRABLE INITIALLY DEFERRED,
                      name TEXT, UNIQUE(up, name));
                  INSERT INTO n VALUES(101, NULL, 'x'), (102, 101, 'a0'), (103, 101, 'a1')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE n SET name = 'c0' WHERE id = 102");
    b.run("INSERT INTO n VALUES(104, 103, 'B1')");
    b.replica.fold().unwrap();
    a.run("UPDATE OR REPLACE n SET id = 103 WHERE id = 102");
    a.run("INSERT INTO n VALUES(104, 101, 'c0')");
    a.run("UPDATE n SET up = 104 WHERE id = 101");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM n"), [""; 0]);
    a.run("UPDATE n SET up = 103 WHERE up = 101");
    b.pull(&mut a);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    let rows = ["101|106|x", "103|101|a1", "104|103|B1", "105|105|c0", "106|101|c0"];
    assert_eq!(b.rows("SELECT * FROM n"), rows);
    agree(&mut a, &mut b, &["n"]);
}

/// What refers to a row that gives way to one that the user sees is hidden with it, and need not give
/// way itself.
#[test]
fn a_row_that_hangs_on_one_that_gives_way_keeps_its_claims() {
    let schema = "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k), u INT UNIQUE);
                  INSERT INTO n VALUES('z', NULL, NULL)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO n VALUES('early', NULL, 3)");
    b.run("INSERT INTO n VALUES('up', NULL, 3); INSERT INTO n VALUES('down', 'up', 2)");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT k FROM n ORDER BY k"), ["early", "z"]);
    a.run("UPDATE n SET k = 'up' WHERE k = 'z'");
    a.run("UPDATE n SET u = 2 WHERE k = 'early'");
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT k, u FROM n ORDER BY k"), ["early|2", "up|NULL"]);
    let records = a.replica.records().unwrap();
    let kinds: Vec<_> = records.iter().map(|c| (c.row.as_str(), c.kind.as_str())).collect();
    assert_eq!(kinds, [("'down'", "fk_parent_hidden"), ("'up'", "unique")]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["n"]);
}

/// A row refers by value to one that is hidden for its unique key, and takes a unique key from a third
/// until it is hidden for that. Whichever comes last, the third is hidden.
#[test]
fn a_row_hidden_for_a_key_that_a_hidden_row_asks_for_is_decided_with_it() {
    let schema =
        "CREATE TABLE n(k TEXT, l TEXT, u INT UNIQUE, up TEXT, upl TEXT, PRIMARY KEY(k, l),
                      FOREIGN KEY(up, upl) REFERENCES n(k, l)) WITHOUT ROWID;
                  INSERT INTO n VALUES('z', 'z', NULL, NULL, NULL)";
    for reference_first in [true, false] {
        let (world, mut a, mut b) = pair(schema, &[]);
        let mut c = world.clone_site(&mut a, "c");
        b.app.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        a.run("INSERT INTO n VALUES('first', 'x', 2, NULL, NULL)");
        c.run("INSERT INTO n VALUES('hidden', 'x', 2, NULL, NULL)");
        b.run("INSERT INTO n VALUES('child', 'x', 3, 'hidden', 'x')");
        b.replica.fold().unwrap();
        a.run("INSERT INTO n VALUES('last', 'x', 3, NULL, NULL)");
        match reference_first {
            true => {
                a.pull(&mut b);
                a.pull(&mut c);
            }
            false => {
                a.pull(&mut c);
                a.pull(&mut b);
            }
        }
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{reference_first}");
        assert_eq!(a.rows("SELECT k FROM n"), ["first", "z"], "{reference_first}");
        b.pull(&mut c);
        agree(&mut a, &mut b, &["n"]);
    }
}
