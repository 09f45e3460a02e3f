//! What random states in memory showed first: rows that a merge or a fold left as they were, or took from
//! their user.

use super::{agree, pair};
use crate::site::{Site, dump};

/// A statement, and a moment in which no other site writes.
fn write(site: &Site, sql: &str) {
    site.run(sql);
    std::thread::sleep(std::time::Duration::from_millis(3));
}

/// The view of all rows is what the tables show.
fn sound(site: &Site) {
    assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
}

/// With the number that it asks for a row has a unique key that another has; with a larger one it has none.
#[test]
fn a_hidden_row_is_shown_once_it_is_given_a_number_outside_of_an_index() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT);
                  CREATE UNIQUE INDEX tx ON t(x) WHERE id < 4";
    let (_world, mut a, mut b) = pair(schema, &[]);
    write(&a, "INSERT INTO t VALUES(1, 'p'), (2, 'q')");
    write(&b, "INSERT INTO t VALUES(1, 'p')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["1|p", "2|q"]);
    a.run("INSERT INTO t VALUES(3, 'r')");
    a.replica.fold().unwrap();
    sound(&a);
    assert_eq!(a.rows("SELECT * FROM t"), ["1|p", "2|q", "3|r", "4|p"]);
    agree(&mut a, &mut b, &["t"]);
}

/// What a deleted row would be kept for may fall with it.
#[test]
fn a_row_that_falls_with_a_deleted_one_does_not_keep_it() {
    let schema = "CREATE TABLE c(id INTEGER PRIMARY KEY, y INT REFERENCES c(id) ON DELETE CASCADE);
                  CREATE TABLE a(k TEXT PRIMARY KEY, x INT UNIQUE,
                      y INT REFERENCES c(id) ON DELETE CASCADE);
                  CREATE TABLE b(k TEXT PRIMARY KEY,
                      x INT REFERENCES a(x) ON DELETE CASCADE REFERENCES c(id));
                  INSERT INTO c VALUES(1, NULL), (2, 1); UPDATE c SET y = 2 WHERE id = 1";
    let (_world, mut a, mut b) = pair(schema, &[]);
    write(&b, "INSERT INTO a VALUES('a', 2, 1); INSERT INTO b VALUES('b', 2)");
    write(&a, "DELETE FROM c WHERE id = 2");
    b.pull(&mut a);
    sound(&b);
    agree(&mut a, &mut b, &["a", "b", "c"]);
    assert_eq!(a.rows("SELECT count(*) FROM c"), ["0"]);
}

/// A row that nobody keeps shows what its key would be: the number of the row that the key is to.
#[test]
fn a_reference_follows_the_key_of_a_row_that_is_gone() {
    let schema = "CREATE TABLE a(id INTEGER PRIMARY KEY, v);
                  CREATE TABLE c(id INTEGER PRIMARY KEY REFERENCES a(id));
                  CREATE TABLE b(k TEXT PRIMARY KEY, z INT REFERENCES c(id))";
    let (_world, mut a, mut b) = pair(schema, &[("fk", "ignore")]);
    write(&b, "INSERT INTO a VALUES(1, 'b')");
    write(
        &a,
        "INSERT INTO a VALUES(1, 'a'); INSERT INTO c VALUES(1); INSERT INTO b VALUES('b', 1)",
    );
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT z FROM b"), ["2"]);
    a.run("PRAGMA foreign_keys = OFF; DELETE FROM c");
    // A reference that nobody keeps dangles, and may.
    for _ in 0..2 {
        a.replica.pull_from(&mut b.replica, false).unwrap();
        b.replica.pull_from(&mut a.replica, false).unwrap();
    }
    let tables = ["a", "b", "c"];
    assert_eq!(dump(&a.app, &tables), dump(&b.app, &tables));
    assert_eq!(a.rows("SELECT z FROM b"), ["2"]);
    sound(&a);
    sound(&b);
}

/// A row that refers to itself asks for what that gives with the former key that it shows.
#[test]
fn a_row_that_shows_a_former_key_refers_to_itself_by_that() {
    let schema = "CREATE TABLE a(k TEXT PRIMARY KEY, y TEXT REFERENCES a(k));
                  CREATE UNIQUE INDEX ay ON a(lower(y))";
    let (_world, mut a, mut b) = pair(schema, &[]);
    write(&b, "INSERT INTO a VALUES('2', NULL)");
    write(&a, "INSERT INTO a VALUES('1', NULL)");
    b.replica.fold().unwrap();
    write(&b, "UPDATE a SET k = '1'");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT k FROM a ORDER BY k"), ["1", "2"]);
    write(&a, "INSERT INTO a VALUES('b', '1')");
    write(&b, "UPDATE a SET y = '2' WHERE k = '2'");
    agree(&mut a, &mut b, &["a"]);
    sound(&a);
    assert_eq!(a.rows("SELECT * FROM a ORDER BY k"), ["1|NULL", "2|2", "b|1"]);
}

/// Of two foreign keys on one column one shows the key of the other's row, and still means its own.
#[test]
fn a_foreign_key_whose_column_shows_the_key_of_another_keeps_its_row() {
    let schema = "CREATE TABLE c(id INTEGER PRIMARY KEY, y INT REFERENCES a(id));
                  CREATE TABLE b(id INTEGER PRIMARY KEY, x INT REFERENCES c(id));
                  CREATE TABLE a(id INTEGER PRIMARY KEY, z INT REFERENCES b(id) REFERENCES c(id))";
    let (_world, mut a, mut b) = pair(schema, &[]);
    write(&b, "INSERT INTO b VALUES(1, NULL)");
    write(
        &a,
        "INSERT INTO c VALUES(1, NULL); INSERT INTO b VALUES(1, NULL); INSERT INTO a VALUES(4, 1)",
    );
    b.pull(&mut a);
    write(&b, "DELETE FROM b WHERE id = 2");
    a.pull(&mut b);
    sound(&a);
    agree(&mut a, &mut b, &["a", "b", "c"]);
    sound(&b);
}

/// Rows that refer to each other, one of which shows a former key: both are what their user wrote.
#[test]
fn a_fold_leaves_rows_that_refer_to_each_other_under_former_keys() {
    let schema =
        "CREATE TABLE a(k INT PRIMARY KEY, x INT UNIQUE REFERENCES a(k) ON DELETE SET NULL)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    write(&a, "INSERT INTO a VALUES(3, NULL), (4, 3)");
    write(&b, "INSERT INTO a VALUES(2, NULL)");
    a.replica.fold().unwrap();
    write(&a, "UPDATE a SET k = 2 WHERE k = 4");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT k FROM a ORDER BY k"), ["2", "3", "4"]);
    write(&a, "UPDATE a SET x = 4 WHERE k = 2");
    a.replica.fold().unwrap();
    write(&a, "UPDATE a SET x = 2 WHERE k = 4");
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT * FROM a ORDER BY k"), ["2|4", "3|NULL", "4|2"]);
    sound(&a);
    agree(&mut a, &mut b, &["a"]);
}

/// A row that gets its key back would not fit where the user refers to it: it keeps the one that it shows.
#[test]
fn a_key_that_comes_back_takes_nothing_from_who_refers_to_it() {
    let schema = "CREATE TABLE b(z TEXT, y INT UNIQUE);
                  CREATE TABLE a(id INTEGER PRIMARY KEY CHECK(id > 1)
                      REFERENCES b(y) ON UPDATE SET DEFAULT, v INT)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    write(&b, "INSERT INTO b VALUES('b', 2)");
    write(&a, "INSERT INTO b VALUES('a', 1)");
    b.replica.fold().unwrap();
    write(&b, "UPDATE b SET y = 1");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT z, y FROM b ORDER BY y"), ["a|1", "b|2"]);
    write(&b, "INSERT INTO a VALUES(2, 4)");
    b.replica.fold().unwrap();
    write(&b, "UPDATE b SET y = 98 WHERE z = 'a'");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM a"), ["2|4"]);
    sound(&b);
    agree(&mut a, &mut b, &["a", "b"]);
    assert_eq!(a.rows("SELECT * FROM a"), ["2|4"]);
}

/// A column of type REAL stores the negative zero of its DEFAULT as zero, and so the row shows it.
#[test]
fn a_default_is_shown_as_its_column_stores_it() {
    let schema = "CREATE TABLE p(k REAL PRIMARY KEY);
                  CREATE TABLE c(id INTEGER PRIMARY KEY,
                      r REAL DEFAULT -0.0 REFERENCES p(k) ON DELETE SET DEFAULT);
                  INSERT INTO p VALUES(0), (1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    write(&b, "INSERT INTO c VALUES(1, 1)");
    write(&a, "DELETE FROM p WHERE k = 1");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT r FROM c"), ["0.0"]);
    sound(&a);
    sound(&b);
}
