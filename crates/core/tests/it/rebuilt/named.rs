//! Rows of a rebuilt table that no trigger saw, and rows that are named by them.

use super::{agree, pair, rebuild};
use crate::site::{World, settle};
use synqlite_core::LogQuery;

/// A row may have the key of another for its own, and that one came while the triggers were gone.
#[test]
fn mig_rebuild_and_a_row_that_is_named_by_one_that_nobody_noticed() {
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, u); INSERT INTO t VALUES(1, 'x'); \
               CREATE TABLE part(k INTEGER PRIMARY KEY REFERENCES t ON DELETE CASCADE \
               ON UPDATE CASCADE, w); INSERT INTO part VALUES(1, 'p')";
    let (row, part) = ("INSERT INTO t(u) VALUES('a')", "INSERT INTO part(w) VALUES('of a')");
    for (before, after) in [(part, [row, ""]), ("", [row, part])] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, sql);
        a.run(&format!("PRAGMA foreign_keys = OFF; {before}"));
        rebuild(&a, "t", "k INTEGER PRIMARY KEY, u, CHECK(u <> ''))", "k,u");
        after.iter().for_each(|sql| a.run(sql));
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        b.run("INSERT INTO t(u) VALUES('b'); INSERT INTO part(w) VALUES('of b')");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            let joined = site.rows("SELECT u, w FROM t JOIN part USING(k) ORDER BY u");
            assert_eq!(joined, ["a|of a", "b|of b", "x|p"]);
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    }
}

/// A reference may be to another unique column than the number that says which row it is.
#[test]
fn mig_rebuild_and_a_key_that_moves_to_another_row_unnoticed() {
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, u UNIQUE, v); CREATE TABLE c(id INTEGER PRIMARY KEY, \
               r REFERENCES t(u)); INSERT INTO t VALUES(1, 'x', 1), (2, 'y', 2); INSERT INTO c VALUES(5, 'y')";
    for write in [
        "UPDATE OR REPLACE t SET u = 'y' WHERE k = 1",
        "PRAGMA foreign_keys = OFF; UPDATE t SET u = 'z' WHERE k = 2; UPDATE t SET u = 'y' WHERE k = 1",
    ] {
        for turned in [false, true] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, sql);
            for (site, write) in [(&a, ""), (&b, write)] {
                rebuild(site, "t", "k INTEGER PRIMARY KEY, u UNIQUE, v, w)", "k,u,v");
                site.run(write);
            }
            let want = ["5|1"];
            agree(&mut a, &mut b, turned, "SELECT id, k FROM c JOIN t ON r = u", &want);
        }
    }
}

/// A key that is a reference of another type names its row by itself, and by the other once that has its type.
#[test]
fn mig_rebuild_of_a_parent_with_the_type_of_a_key_that_refers_to_it() {
    let world = World::new();
    let sql =
        "CREATE TABLE p(k INT PRIMARY KEY, w); CREATE TABLE c(k TEXT PRIMARY KEY REFERENCES p, w)";
    let (mut a, mut b) = pair(&world, sql);
    a.run("INSERT INTO p VALUES(3, 'x'), (4, 'y'); INSERT INTO c VALUES('3', 'a'), ('4', 'b')");
    settle(&mut a, &mut b);
    for site in [&mut a, &mut b] {
        rebuild(site, "p", "k TEXT PRIMARY KEY, w)", "k, w");
        site.replica.fold().unwrap();
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    a.run("UPDATE c SET w = 'c' WHERE k = '3'");
    b.run("DELETE FROM c WHERE k = '4'");
    agree(&mut a, &mut b, false, "SELECT * FROM c", &["3|c"]);
}

/// With `T.delete=last` an update counts as an insert. A key that it changed is not that of the row's birth, so a
/// row that came under that one is another, also where a rebuild renumbered both.
#[test]
fn mig_rebuild_a_key_that_an_update_gave_up_names_no_row() {
    let world = World::new();
    let made =
        "CREATE TABLE t(k TEXT NOT NULL, w, PRIMARY KEY(k)); INSERT INTO t VALUES('9', 'old')";
    let mut a = world.init_with("a", made, &[("t.delete", "last")]);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET k = '9z'");
    b.pull(&mut a);
    b.run("INSERT INTO t VALUES('9', 'new')");
    b.run(
        "CREATE TABLE x(k TEXT NOT NULL, w, PRIMARY KEY(k)); INSERT INTO x SELECT * FROM t; \
         DROP TABLE t; ALTER TABLE x RENAME TO t",
    );
    b.replica.fold().unwrap();
    let query = LogQuery { table: None, row: Some("'9z'".into()), limit: Some(9) };
    let by = b.replica.log(&query).unwrap().into_iter().map(|entry| entry.site);
    assert_eq!(by.collect::<Vec<_>>(), [a.replica.site(); 2], "nobody wrote it here");
    a.pull(&mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k, w FROM t ORDER BY k"), ["9|new", "9z|old"]);
    }
}
