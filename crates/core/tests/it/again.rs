//! Columns that are dropped and added again under their names (R-MIG-AGAIN).

use crate::migrate::{agree, pair};
use crate::site::{Site, World, settle};

const DROP: &str = "ALTER TABLE t DROP COLUMN x";
const ADD: &str = "ALTER TABLE t ADD COLUMN x DEFAULT 'new'";

/// Rows with keys of every kind; `x` is the last column, as it is again after it was added.
const KEYS: [&str; 3] = [
    "id INTEGER PRIMARY KEY, v, x DEFAULT 'new'",
    "id TEXT PRIMARY KEY, v, x DEFAULT 'new'",
    "id TEXT PRIMARY KEY, v, x DEFAULT 'new') WITHOUT ROWID; CREATE TABLE u(id",
];

fn rows(site: &Site) -> Vec<String> {
    site.rows("SELECT id, v, x FROM t ORDER BY 1")
}

fn table(columns: &str) -> String {
    let fill = "INSERT INTO t VALUES(1, 1, 'a'), (2, 2, 'b'), (3, 3, 'new'), (4, 4, NULL)";
    format!("CREATE TABLE t({columns}); {fill}")
}

/// With a command between or none, on either site.
#[test]
fn mig_again_all_sites_show_the_same_whoever_ran_a_command_between() {
    for columns in KEYS {
        for between in [[false, false], [true, false], [false, true], [true, true]] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, &table(columns));
            a.run(DROP);
            if between[0] {
                a.replica.fold().unwrap();
            }
            a.run(ADD);
            a.run("UPDATE t SET x = 'c' WHERE id = 2");
            b.run("UPDATE t SET x = 'd' WHERE id = 3; UPDATE t SET v = 9 WHERE id = 1");
            b.run("INSERT INTO t VALUES(5, 5, 'e')");
            settle(&mut a, &mut b);
            let shown = ["1|9|new", "2|2|c", "3|3|d", "4|4|new", "5|5|e"];
            assert_eq!(rows(&a), shown, "{columns} {between:?}");
            assert_eq!(rows(&b), shown, "{columns} {between:?}");
            agree(&mut [&mut a, &mut b]);
            b.run(DROP);
            if between[1] {
                b.replica.fold().unwrap();
            }
            b.run(ADD);
            settle(&mut a, &mut b);
            let shown = ["1|9|new", "2|2|new", "3|3|new", "4|4|new", "5|5|new"];
            assert_eq!(rows(&a), shown, "{columns} {between:?}");
            assert_eq!(rows(&b), shown, "{columns} {between:?}");
            agree(&mut [&mut a, &mut b]);
            for site in [&mut a, &mut b] {
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            }
        }
    }
}

/// What others write to a column while a site lacks it is shown where it is added again.
#[test]
fn mig_again_what_came_meanwhile_is_shown() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, &table(KEYS[0]));
    let mut c = world.clone_site(&mut a, "c");
    a.run(DROP);
    a.replica.fold().unwrap();
    b.run("UPDATE t SET x = 'd' WHERE id = 1; INSERT INTO t VALUES(5, 5, 'e')");
    a.pull(&mut b);
    c.pull(&mut a);
    a.run(ADD);
    let shown = ["1|1|d", "2|2|new", "3|3|new", "4|4|new", "5|5|e"];
    for _ in 0..2 {
        a.pull(&mut c);
        b.pull(&mut a);
        c.pull(&mut b);
    }
    for site in [&a, &b, &c] {
        assert_eq!(rows(site), shown);
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// A row that waits for a key is there as well.
#[test]
fn mig_again_hidden_rows_begin_anew_too() {
    let world = World::new();
    let sql = "CREATE TABLE t(id TEXT PRIMARY KEY, v UNIQUE, x DEFAULT 'new')";
    let (mut a, mut b) = pair(&world, sql);
    a.run("INSERT INTO t VALUES('a', 1, 'a')");
    b.run("INSERT INTO t VALUES('b', 1, 'b')");
    settle(&mut a, &mut b);
    a.run(DROP);
    a.replica.fold().unwrap();
    a.run(ADD);
    settle(&mut a, &mut b);
    a.run("UPDATE t SET v = 2");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT id, x FROM t ORDER BY 1"), ["a|new", "b|new"]);
    }
    agree(&mut [&mut a, &mut b]);
}

/// A column that came after the row was last written, and is written itself while a rebuild has left the
/// table without triggers: no sum tells of it, but it had its default.
#[test]
fn mig_rebuild_a_write_to_a_column_that_is_younger_than_its_row_counts() {
    for default in ["", "DEFAULT 4"] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, "CREATE TABLE t(k TEXT PRIMARY KEY, v)");
        b.run("INSERT INTO t VALUES('x', 1), ('y', 2)");
        settle(&mut a, &mut b);
        a.run(&format!("ALTER TABLE t ADD COLUMN c {default}"));
        a.replica.fold().unwrap();
        a.run(&format!(
            "CREATE TABLE n(k TEXT PRIMARY KEY, v, c {default}); INSERT INTO n SELECT * FROM t; \
             DROP TABLE t; ALTER TABLE n RENAME TO t; UPDATE t SET c = 9 WHERE k = 'x'"
        ));
        a.replica.fold().unwrap();
        b.run(&format!("ALTER TABLE t ADD COLUMN c {default}"));
        settle(&mut a, &mut b);
        let rest = if default.is_empty() { "NULL" } else { "4" };
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM t"), ["x|1|9".to_owned(), format!("y|2|{rest}")]);
        }
    }
}

/// Whatever becomes of what was counted, all sites show the same.
#[test]
fn mig_again_counters_are_the_same_everywhere() {
    for case in 0..64 {
        let is = |bit: u32| case >> bit & 1 == 1;
        let world = World::new();
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER DEFAULT 0, v); \
                   INSERT INTO t VALUES(1, 10, 'x'), (2, 0, 'y')";
        let mut a = world.init_with("a", sql, &[("t.n", "counter")]);
        let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
        let count = "UPDATE t SET n = n + 1";
        if is(0) {
            a.run(count);
        }
        if is(1) {
            b.run(count);
        }
        settle(&mut a, &mut b);
        c.pull(&mut a);
        a.run("ALTER TABLE t DROP COLUMN n");
        if is(2) {
            a.replica.fold().unwrap();
        }
        if is(3) {
            b.run(count);
            a.pull(&mut b);
        }
        a.run("ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 0");
        if is(4) {
            a.run(count);
        }
        c.run(count);
        if is(5) {
            c.pull(&mut b);
        }
        settle(&mut a, &mut c);
        settle(&mut b, &mut c);
        a.run(count);
        settle(&mut b, &mut a);
        settle(&mut c, &mut a);
        for site in [&a, &b, &c] {
            let shown = "SELECT id, n, v FROM t ORDER BY id";
            assert_eq!(a.rows(shown), site.rows(shown), "case {case}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "case {case}");
            assert_eq!(site.replica.digest().unwrap(), a.replica.digest().unwrap(), "case {case}");
        }
    }
}

/// The byte that a sum has of a column is that of one in 256 other values too: then all of the row tells.
#[test]
fn mig_again_values_of_which_some_look_like_the_default() {
    for value in 0..30 {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE t(id TEXT PRIMARY KEY, x, v); INSERT INTO t VALUES('a', {value}, 1)"
        );
        let (mut a, mut b) = pair(&world, &sql);
        a.run(DROP);
        a.run("ALTER TABLE t ADD COLUMN x");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(rows(site), ["a|1|NULL"], "{value}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{value}");
        }
    }
}

/// What shows the same in a column of another type is no write that nobody noted.
#[test]
fn mig_again_a_column_of_another_type() {
    let again = "ALTER TABLE t DROP COLUMN x; ALTER TABLE t ADD COLUMN x INTEGER DEFAULT 7";
    let world = World::new();
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v, x TEXT DEFAULT -1); \
                  INSERT INTO t VALUES(1, 1, 'a'), (2, 2, '7')";
    let (mut a, mut b) = pair(&world, schema);
    a.run(again);
    settle(&mut a, &mut b);
    b.run(again);
    settle(&mut a, &mut b);
    for site in [&mut a, &mut b] {
        assert_eq!(rows(site), ["1|1|7", "2|2|7"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    b.run("UPDATE t SET v = 3");
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
}
