//! Columns whose type changes, and changes again: what was written is kept and given on as it was
//! written, whatever each column on the way made of it (R-FOLLOW).

use crate::site::{Site, World, settle};

/// What the twelve steps make of the table: its column has another type.
fn retype(site: &mut Site, declared: &str, command: bool) {
    site.run(&format!(
        "PRAGMA foreign_keys=OFF; BEGIN; CREATE TABLE new_t(id INTEGER PRIMARY KEY, v {declared}, w); \
         INSERT INTO new_t SELECT * FROM t; DROP TABLE t; ALTER TABLE new_t RENAME TO t; COMMIT"
    ));
    if command {
        site.replica.fold().unwrap();
    }
}

const SHOWN: &str = "SELECT id, v, typeof(v), w FROM t ORDER BY id";

const VALUES: &str = "INSERT INTO t VALUES (1, 3, 1), (2, '007', 1), (3, 'x', 1), (4, NULL, 1), \
                      (5, 2.5, 1), (6, x'31', 1), (7, '1e3', 1)";

/// Each way there and back, of a site that has had the rows before, and of one that gets them after. What
/// a type makes something else of for good, as 7 of '007', has been written.
#[test]
fn mig_rebuild_a_type_that_changes_twice_brings_back_what_was_written() {
    let types = ["", "TEXT", "INTEGER", "REAL", "NUMERIC"];
    for first in types {
        for second in types.into_iter().filter(|second| *second != first) {
            for third in [first, ""] {
                let way = format!("{first} {second} {third}");
                let world = World::new();
                let mut a = world
                    .init("a", &format!("CREATE TABLE t(id INTEGER PRIMARY KEY, v {first}, w)"));
                let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
                c.run(VALUES);
                b.pull(&mut c);
                for site in [&mut a, &mut b] {
                    retype(site, second, true);
                    retype(site, third, true);
                }
                settle(&mut a, &mut c);
                settle(&mut a, &mut b);
                assert_eq!(a.rows(SHOWN), b.rows(SHOWN), "{way}");
                retype(&mut c, second, true);
                b.run("UPDATE t SET w = 2 WHERE id < 4");
                settle(&mut b, &mut c);
                retype(&mut c, third, true);
                settle(&mut a, &mut b);
                settle(&mut b, &mut c);
                for site in [&a, &b, &c] {
                    assert_eq!(site.rows(SHOWN), a.rows(SHOWN), "{way}");
                    assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{way}");
                    assert_eq!(
                        a.replica.digest().unwrap(),
                        site.replica.digest().unwrap(),
                        "{way}"
                    );
                }
            }
        }
    }
}

/// A text that an integer key takes for a number asks for that number.
#[test]
fn mig_rebuild_a_key_to_a_text_and_others_are_renumbered() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k INTEGER PRIMARY KEY, u)");
    let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    b.run(
        "CREATE TABLE n(k TEXT PRIMARY KEY, u); INSERT INTO n SELECT * FROM t; DROP TABLE t; \
         ALTER TABLE n RENAME TO t; INSERT INTO t VALUES('4', 'b')",
    );
    a.run("INSERT INTO t(u) VALUES('a')");
    c.run("INSERT INTO t(u) VALUES('c')");
    a.pull(&mut b);
    a.pull(&mut c);
    assert_eq!(a.rows("SELECT * FROM t ORDER BY k"), ["1|a", "4|b", "5|c"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

/// Numbers below zero are places too, to which rows move back.
#[test]
fn mig_rebuild_a_key_to_a_text_with_numbers_below_zero() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE t(k INTEGER PRIMARY KEY, u); INSERT INTO t VALUES(1, 'x'), (2, 'y')",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run(
        "UPDATE t SET k = -k; CREATE TABLE n(k TEXT PRIMARY KEY, u); INSERT INTO n SELECT * FROM t; \
         DROP TABLE t; ALTER TABLE n RENAME TO t",
    );
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k, u FROM t ORDER BY u"), ["-1|x", "-2|y"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// The smallest number is no place to go below.
#[test]
fn mig_rebuild_a_key_to_a_text_with_the_smallest_number() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k INTEGER PRIMARY KEY, u)");
    let mut b = world.clone_site(&mut a, "b");
    a.run(
        "INSERT INTO t VALUES(7, 'x'), (-9223372036854775808, 'y'); CREATE TABLE n(k TEXT PRIMARY KEY, u); \
         INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t",
    );
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k, u FROM t ORDER BY u"), ["7|x", "-9223372036854775808|y"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A column shows its default where nobody wrote it. Where it got another default since, what rows show
/// is what the former one was, and who has not got them yet has to be told.
#[test]
fn a_default_that_changes_in_a_rebuild_is_told_where_rows_show_the_former() {
    let rebuild = |columns: &str, from: &str| {
        format!(
            "CREATE TABLE n(k TEXT PRIMARY KEY, v, {columns}) WITHOUT ROWID; \
             INSERT INTO n SELECT {from} FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t"
        )
    };
    for (first, shown) in [("c1", "NULL"), ("c1 DEFAULT 5", "5"), ("c1 DEFAULT 1", "1")] {
        for between in [false, true] {
            let world = World::new();
            let mut a = world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY, v) WITHOUT ROWID");
            let mut b = world.clone_site(&mut a, "b");
            a.run("INSERT INTO t VALUES('x', 1)");
            a.replica.fold().unwrap();
            let filled = format!("k, v, {shown}");
            a.run(&rebuild(first, if shown == "NULL" { "k, v, NULL" } else { &filled }));
            a.replica.fold().unwrap();
            if between {
                settle(&mut a, &mut b);
            }
            a.run(&rebuild("c1 DEFAULT 1", "k, v, c1"));
            b.run(
                &rebuild(first, "k, v, NULL").replace("v, NULL FROM", &format!("v, {shown} FROM")),
            );
            b.run(&rebuild("c1 DEFAULT 1", "k, v, c1"));
            settle(&mut a, &mut b);
            for site in [&a, &b] {
                let rows = site.rows("SELECT k, v, quote(c1) FROM t");
                assert_eq!(rows, [format!("x|1|{shown}")], "{first} {between}");
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            }
        }
    }
}

/// A row refers to itself, and its number changes where the key is a number still: both are shown as the
/// key's column stores it.
#[test]
fn a_reference_to_its_own_row_shows_the_key_as_its_column_stores_it() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k INTEGER PRIMARY KEY, r BLOB REFERENCES t(k))");
    let mut b = world.clone_site(&mut a, "b");
    let retype = "PRAGMA foreign_keys=OFF; BEGIN; \
                  CREATE TABLE n(k TEXT PRIMARY KEY, r BLOB REFERENCES t(k)); \
                  INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t; COMMIT";
    a.run("INSERT INTO t VALUES(3, 3)");
    a.run(retype);
    a.replica.fold().unwrap();
    b.run("INSERT INTO t VALUES(3, 3)");
    b.pull(&mut a);
    a.pull(&mut b);
    b.run(retype);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT quote(k), quote(r) FROM t ORDER BY k"), ["'3'|3", "'4'|'4'"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A reference is spelled as it was written on a site whose column stores it otherwise, once that column is
/// of the other type too.
#[test]
fn follow_a_reference_is_spelled_as_it_was_written_once_its_column_can_be() {
    for key in ["INTEGER PRIMARY KEY", "INT PRIMARY KEY", "INT"] {
        let world = World::new();
        let refers = "FOREIGN KEY(k) REFERENCES p(u)";
        let mut a = world.init("a", &format!("CREATE TABLE p(id INTEGER PRIMARY KEY, u INTEGER UNIQUE); CREATE TABLE t(k {key} NOT NULL, w, {refers})"));
        let mut b = world.clone_site(&mut a, "b");
        let unique = if key == "INT" { "" } else { "PRIMARY KEY" };
        let retype = format!(
            "PRAGMA foreign_keys=OFF; BEGIN; CREATE TABLE new_t(k TEXT {unique} NOT NULL, w, {refers}); \
             INSERT INTO new_t SELECT * FROM t; DROP TABLE t; ALTER TABLE new_t RENAME TO t; COMMIT; PRAGMA foreign_keys=ON"
        );
        b.run(&retype);
        b.run("INSERT INTO p VALUES(5, 0); INSERT INTO t VALUES(0.0, 'x')");
        a.pull(&mut b);
        assert_eq!(a.rows("SELECT quote(k) FROM t"), ["0"]);
        a.run(&retype);
        settle(&mut a, &mut b);
        assert_eq!(a.rows("SELECT quote(k) FROM t"), b.rows("SELECT quote(k) FROM t"), "{key}");
        if key != "INTEGER PRIMARY KEY" {
            assert_eq!(b.rows("SELECT quote(k) FROM t"), ["'0.0'"], "{key}");
        }
    }
}

/// A fold that saves a row anew without a stamp, as where a key was written as it was and the table retyped,
/// changes the row at a position that exists.
#[test]
fn a_key_written_as_it_was_is_saved_at_a_position_that_exists() {
    let world = World::new();
    let columns = "PRIMARY KEY NOT NULL, q INTEGER REFERENCES t(k)) WITHOUT ROWID";
    let made = format!("CREATE TABLE t(k INT {columns}; INSERT INTO t VALUES(3, NULL)");
    let mut a = world.init("a", &made);
    let mut b = world.clone_site(&mut a, "b");
    b.run("UPDATE t SET k = 3 WHERE k = 3");
    b.run(&format!(
        "PRAGMA foreign_keys=OFF; CREATE TABLE x AS SELECT * FROM t; DROP TABLE t;
         CREATE TABLE t(k TEXT {columns}; INSERT INTO t SELECT * FROM x; DROP TABLE x"
    ));
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT k FROM t"), ["3"]);
}

/// A column that nobody has written is of another type, and then has another default: the site that ran the
/// rebuild says what rows show (R-MIG-ADD), and another that runs the same shows the same.
#[test]
fn mig_add_a_default_of_another_type_and_another_default() {
    let rebuild = |column: &str| {
        format!(
            "CREATE TABLE n(id INTEGER PRIMARY KEY, a TEXT, c {column}); INSERT INTO n SELECT id, a, c FROM t; \
             DROP TABLE t; ALTER TABLE n RENAME TO t"
        )
    };
    let steps = [
        "ALTER TABLE t ADD COLUMN c TEXT DEFAULT 7".to_owned(),
        rebuild("NUMERIC DEFAULT 7"),
        rebuild("NUMERIC DEFAULT 'other'"),
    ];
    for folds in [true, false] {
        let world = World::new();
        let mut a = world.init(
            "a",
            "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT); INSERT INTO t VALUES(1, 'one')",
        );
        let mut b = world.clone_site(&mut a, "b");
        b.run("INSERT INTO t VALUES(5, 'five')");
        let migrate = |site: &mut Site| {
            for step in &steps {
                site.run(step);
                if folds {
                    site.replica.fold().unwrap();
                }
            }
        };
        migrate(&mut a);
        settle(&mut a, &mut b);
        migrate(&mut b);
        settle(&mut a, &mut b);
        let rows = a.rows("SELECT * FROM t");
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM t"), rows, "folds: {folds}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "folds: {folds}");
        }
    }
}

/// The column is known again, so what a site writes that migrates later is a write of it.
#[test]
fn mig_rename_a_column_may_get_another_type_too() {
    let types = ["INTEGER", "TEXT", "REAL", "NUMERIC"];
    for (old, new) in types.iter().flat_map(|old| types.iter().map(move |new| (old, new))) {
        for table in ["t", "renamed"] {
            let world = World::new();
            let mut a = world.init(
                "a",
                &format!(
                    "CREATE TABLE t(id INTEGER PRIMARY KEY, v {old}, w TEXT); \
                     INSERT INTO t VALUES(1, 1001, 'a'), (2, 1002, 'b'), (3, 1003, 'c'), (4, 1004, 'd')"
                ),
            );
            let mut b = world.clone_site(&mut a, "b");
            let migrate = |site: &mut Site| {
                site.run(&format!(
                    "PRAGMA foreign_keys=OFF; BEGIN; CREATE TABLE new_t(id INTEGER PRIMARY KEY, q {new}, w TEXT, z DEFAULT 5); \
                     INSERT INTO new_t(id, q, w) SELECT id, CAST(v AS {new}), w FROM t; DROP TABLE t; \
                     ALTER TABLE new_t RENAME TO {table}; COMMIT"
                ));
                site.replica.fold().unwrap();
            };
            migrate(&mut b);
            std::thread::sleep(std::time::Duration::from_millis(2));
            a.run("UPDATE t SET v = 2002 WHERE id = 2");
            settle(&mut a, &mut b);
            migrate(&mut a);
            settle(&mut a, &mut b);
            for site in [&a, &b] {
                let shown =
                    site.row(&format!("SELECT CAST(q AS INTEGER) FROM {table} WHERE id = 2"));
                assert_eq!(shown, "2002", "{old} {new} {table}");
                assert_eq!(site.row(&format!("SELECT count(*) FROM {table}")), "4");
            }
        }
    }
}
