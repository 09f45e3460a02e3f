//! The same for references that were written before the row that they are to had its key, or was there.

use super::{agree, pair};

/// What a user wrote with foreign keys off stays, and both sites show it.
fn stays(
    schema: &str,
    before: &[&str],
    writes: &[&str],
    query: &str,
    rows: &[&str],
    tables: &[&str],
) {
    let (_world, mut a, mut b) = pair(schema, &[]);
    before.iter().for_each(|sql| b.run(sql));
    b.replica.fold().unwrap();
    b.run("PRAGMA foreign_keys = OFF");
    writes.iter().for_each(|sql| b.run(sql));
    b.replica.fold().unwrap();
    assert_eq!(b.rows(query), rows, "{schema}");
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "{schema}");
    agree(&mut a, &mut b, tables);
    assert_eq!(a.rows(query), rows, "{schema}");
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{schema}");
}

/// No row had the key when the reference was written, or another row.
#[test]
fn a_reference_to_a_key_that_a_row_gets_later_stays() {
    for action in ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT"] {
        let schema = format!(
            "CREATE TABLE n(id INTEGER PRIMARY KEY, u INT UNIQUE,
                            up INT REFERENCES n(u) ON UPDATE {action});
             INSERT INTO n VALUES(1, NULL, NULL)"
        );
        let writes = ["INSERT INTO n VALUES(2, 1, 4)", "UPDATE n SET u = 4 WHERE id = 1"];
        stays(&schema, &[], &writes, "SELECT * FROM n", &["1|4|NULL", "2|1|4"], &["n"]);
        let schema = format!(
            "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k) ON UPDATE {action})
             WITHOUT ROWID; INSERT INTO n VALUES('a', NULL), ('b', NULL)"
        );
        let writes =
            ["INSERT INTO n VALUES('c', 'a')", "UPDATE OR REPLACE n SET k = 'a' WHERE k = 'b'"];
        stays(&schema, &[], &writes, "SELECT * FROM n", &["a|NULL", "c|a"], &["n"]);
    }
}

/// The row was deleted before, and is inserted anew after the reference to it.
#[test]
fn a_reference_to_a_row_that_lives_again_later_stays() {
    for action in ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT"] {
        let schema = format!(
            "CREATE TABLE p(k TEXT PRIMARY KEY);
             CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON DELETE {action});
             INSERT INTO p VALUES('x')"
        );
        let writes = ["INSERT INTO c VALUES(1, 'x')", "INSERT INTO p VALUES('x')"];
        let query = "SELECT * FROM c";
        stays(&schema, &["DELETE FROM p"], &writes, query, &["1|x"], &["p", "c"]);
    }
}

/// A deferred foreign key lets the child come first as well.
#[test]
fn a_deferred_reference_to_a_key_that_a_row_gets_later_stays() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, u INT UNIQUE);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(u) ON UPDATE SET NULL
                       DEFERRABLE INITIALLY DEFERRED);
        INSERT INTO p VALUES(1, 3)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("BEGIN; INSERT INTO c VALUES(1, 4)");
    b.run("UPDATE p SET u = 4; COMMIT");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT p FROM c"), ["4"]);
    b.run("UPDATE p SET u = 5");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT p FROM c"), ["NULL"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

/// The row that it refers to gets another key in the statement that replaces it, and goes too.
#[test]
fn a_replaced_row_refers_to_the_row_that_had_the_key_before() {
    let schema = "CREATE TABLE t(u UNIQUE, r REFERENCES t(u) ON UPDATE SET NULL);
                  INSERT INTO t VALUES('e', NULL), ('c', 'e')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES('b', 'c')");
    b.run("INSERT INTO t VALUES('a', 'a'); UPDATE OR REPLACE t SET u = 'c' WHERE u IN ('e', 'a')");
    agree(&mut a, &mut b, &["t"]);
}
