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
