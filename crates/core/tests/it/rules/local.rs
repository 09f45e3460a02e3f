//! Rows of tables that are not replicated and refer to rows that are (R-LOCAL).

use crate::site::{Site, World, settle};

/// Two sites of one database; both have tables of their own, with rows only on the first.
fn pair(world: &World, shared: &str, own: &str) -> (Site, Site) {
    let names = if own.contains("more") { "own,more" } else { "own" };
    let mut a = world.init_with("a", &format!("{shared}; {own}"), &[("local_tables", names)]);
    let b = world.clone_site(&mut a, "b");
    names.rsplit(',').for_each(|name| b.run(&format!("DELETE FROM {name}")));
    (a, b)
}

#[track_caller]
fn shows(site: &Site, sql: &str, want: &[&str]) {
    assert_eq!(site.rows(sql), want);
    assert_eq!(site.rows("PRAGMA foreign_key_check"), [""; 0]);
    assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
}

const SHARED: &str =
    "CREATE TABLE t(k TEXT PRIMARY KEY, w); INSERT INTO t VALUES('a', 1), ('b', 2), ('c', 3)";

#[test]
fn r_local_rows_follow_as_their_foreign_key_declares_when_a_merge_deletes_another() {
    for (declared, want) in [
        ("ON DELETE CASCADE", &["2|b"][..]),
        ("ON DELETE SET NULL", &["1|NULL", "2|b"]),
        ("DEFAULT 'c' REFERENCES t ON DELETE SET DEFAULT", &["1|c", "2|b"]),
    ] {
        let world = World::new();
        let refers = match declared.contains("REFERENCES") {
            true => declared.to_owned(),
            false => format!("REFERENCES t {declared}"),
        };
        let own = format!(
            "CREATE TABLE own(id INTEGER PRIMARY KEY, q TEXT {refers}); \
             INSERT INTO own VALUES(1, 'a'), (2, 'b')"
        );
        let (mut a, mut b) = pair(&world, SHARED, &own);
        b.run("DELETE FROM t WHERE k = 'a'");
        settle(&mut a, &mut b);
        shows(&a, "SELECT * FROM own", want);
    }
}

#[test]
fn r_local_a_row_that_would_protect_another_stays_as_it_is_and_verify_tells_of_it() {
    let world = World::new();
    let own =
        "CREATE TABLE own(id INTEGER PRIMARY KEY, q REFERENCES t); INSERT INTO own VALUES(1, 'a')";
    let (mut a, mut b) = pair(&world, SHARED, own);
    b.run("DELETE FROM t WHERE k = 'a'");
    a.replica.pull_from(&mut b.replica, false).unwrap();
    assert_eq!(a.rows("SELECT * FROM own"), ["1|a"]);
    let found = a.replica.verify_full().unwrap();
    assert!(found.iter().any(|found| found.contains("own")), "{found:?}");
    b.run("INSERT INTO t VALUES('a', 9)");
    settle(&mut a, &mut b);
    shows(&a, "SELECT * FROM own", &["1|a"]);
}

#[test]
fn r_local_rows_follow_to_keys_that_merges_give_also_where_they_are_exchanged() {
    let world = World::new();
    let own = "CREATE TABLE own(id INTEGER PRIMARY KEY, q TEXT UNIQUE NOT NULL REFERENCES t ON UPDATE RESTRICT); \
               INSERT INTO own VALUES(1, 'a'), (2, 'b'), (3, 'c'); \
               CREATE TABLE more(q TEXT PRIMARY KEY REFERENCES own(q) ON UPDATE CASCADE, v) WITHOUT ROWID; \
               INSERT INTO more VALUES('a', 'x'), ('c', 'y')";
    let (mut a, mut b) = pair(&world, SHARED, own);
    b.run("UPDATE t SET k = 'x' WHERE k = 'a'; UPDATE t SET k = 'a' WHERE k = 'b'; UPDATE t SET k = 'b' WHERE k = 'x'");
    b.run("UPDATE t SET k = 'd' WHERE k = 'c'");
    settle(&mut a, &mut b);
    shows(&a, "SELECT * FROM own", &["1|b", "2|a", "3|d"]);
    shows(&a, "SELECT * FROM more", &["b|x", "d|y"]);
}

/// Two sites give new rows one number; on one of them the row gets another, and its local rows with it.
#[test]
fn r_local_rows_follow_to_numbers_that_merges_give() {
    let world = World::new();
    let own = "CREATE TABLE own(id INTEGER PRIMARY KEY, q INTEGER REFERENCES n ON DELETE CASCADE)";
    let (mut a, mut b) = pair(&world, "CREATE TABLE n(id INTEGER PRIMARY KEY, w)", own);
    for (site, w) in [(&a, "a"), (&b, "b")] {
        site.run(&format!("INSERT INTO n(w) VALUES('{w}'); INSERT INTO own VALUES(7, 1)"));
    }
    settle(&mut a, &mut b);
    for (site, w) in [(&a, "a"), (&b, "b")] {
        shows(site, "SELECT w FROM own JOIN n ON n.id = q", &[w]);
    }
    b.run("DELETE FROM n");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        shows(site, "SELECT * FROM own", &[]);
    }
}

/// A row that refers to a replicated row and to a local one follows both.
#[test]
fn r_local_rows_follow_by_each_of_their_foreign_keys() {
    let world = World::new();
    let own = "CREATE TABLE own(q TEXT PRIMARY KEY REFERENCES t ON DELETE CASCADE) WITHOUT ROWID; \
               INSERT INTO own VALUES('a'), ('b'); \
               CREATE TABLE more(id INTEGER PRIMARY KEY, o TEXT REFERENCES own ON DELETE CASCADE, \
               q TEXT REFERENCES t); INSERT INTO more VALUES(1, 'a', 'c'), (2, 'b', 'c')";
    let (mut a, mut b) = pair(&world, SHARED, own);
    b.run("DELETE FROM t WHERE k = 'a'; UPDATE t SET k = 'd' WHERE k = 'c'; UPDATE t SET k = 'e' WHERE k = 'b'");
    settle(&mut a, &mut b);
    shows(&a, "SELECT * FROM own", &["e"]);
    shows(&a, "SELECT * FROM more", &["2|e|d"]);
}

/// A key that the local column stores as another one cannot be followed: to that row its parent is gone.
#[test]
fn r_local_a_key_that_the_column_cannot_store_is_as_a_parent_that_is_gone() {
    for (declared, want) in [
        ("ON DELETE CASCADE ON UPDATE CASCADE", &["2|3"][..]),
        ("ON DELETE SET NULL ON UPDATE CASCADE", &["1|NULL", "2|3"]),
        ("ON UPDATE SET NULL", &["1|NULL", "2|3"]),
    ] {
        let world = World::new();
        let shared = "CREATE TABLE t(k ANY PRIMARY KEY NOT NULL, w INTEGER) STRICT, WITHOUT ROWID; \
                      INSERT INTO t VALUES(2, 1), (3, 1)";
        let own = format!(
            "CREATE TABLE own(id INTEGER PRIMARY KEY, q NUMERIC REFERENCES t(k) {declared}); \
             INSERT INTO own VALUES(1, 2), (2, 3)"
        );
        let (mut a, mut b) = pair(&world, shared, &own);
        b.run("UPDATE t SET k = '2' WHERE k = 2");
        settle(&mut a, &mut b);
        shows(&a, "SELECT * FROM own", want);
    }
}
