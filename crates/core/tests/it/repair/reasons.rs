//! The same for rows that more than one constraint keeps hidden: which of them the record names.

use super::{agree, pair};
use crate::site::{Site, settle};

/// The kinds of all open records, in order.
fn kinds(site: &mut Site) -> Vec<String> {
    let mut kinds: Vec<String> =
        site.replica.conflicts().unwrap().into_iter().map(|c| c.kind.to_string()).collect();
    kinds.sort();
    kinds
}

/// A row refers by value to the number that another one is given until that is hidden, and is hidden
/// for its unique key then. Without the other, or with another number of it, nothing has the number.
#[test]
fn a_number_that_a_hidden_row_would_be_given_answers_a_reference() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY, u TEXT UNIQUE,
                                 up INT REFERENCES n(id));
                  INSERT INTO n VALUES(1, 'a', NULL)";
    for reference_first in [true, false] {
        let (world, mut a, mut b) = pair(schema, &[]);
        let mut c = world.clone_site(&mut a, "c");
        b.app.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
        a.run("INSERT INTO n VALUES(2, 'x', NULL)");
        b.run("INSERT INTO n VALUES(7, 'x', 8)");
        c.run("INSERT INTO n VALUES(2, 'x', NULL)");
        if reference_first {
            a.pull(&mut b);
            assert_eq!(kinds(&mut a), ["fk_dangling"]);
            a.pull(&mut c);
        } else {
            a.pull(&mut c);
            assert_eq!(kinds(&mut a), ["unique"]);
            a.pull(&mut b);
        }
        assert_eq!(kinds(&mut a), ["unique", "unique"]);
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        c.run("INSERT INTO n VALUES(20, 'z', NULL)");
        a.pull(&mut c);
        assert_eq!(kinds(&mut a), ["fk_dangling", "unique"]);
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        b.pull(&mut c);
        agree(&mut a, &mut b, &["n"]);
    }
}

/// A row that is hidden for its unique key is hidden for its reference as soon as no row has the key
/// that it is to by value; and the other way round.
#[test]
fn a_hidden_row_whose_reference_loses_its_row_says_so() {
    let schema = "CREATE TABLE p(id INT PRIMARY KEY);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, u TEXT UNIQUE, up INT REFERENCES p(id))";
    let (_world, mut a, mut b) = pair(schema, &[]);
    for site in [&a, &b] {
        site.app.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
    }
    a.run("INSERT INTO c VALUES(1, 'x', NULL)");
    b.run("INSERT INTO c VALUES(2, 'x', 5)");
    b.replica.fold().unwrap();
    a.run("INSERT INTO p VALUES(5)");
    a.pull(&mut b);
    assert_eq!(kinds(&mut a), ["unique"]);
    a.run("UPDATE p SET id = 6");
    a.replica.fold().unwrap();
    assert_eq!(kinds(&mut a), ["fk_dangling"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    a.run("UPDATE p SET id = 5");
    a.replica.fold().unwrap();
    assert_eq!(kinds(&mut a), ["unique"]);
    a.run("DELETE FROM p");
    a.replica.fold().unwrap();
    assert_eq!(kinds(&mut a), ["fk_dangling"]);
    agree(&mut a, &mut b, &["p", "c"]);
}

/// A row that lost a unique key does not fall back to a reference that its column cannot show: another
/// row has the value that it would show.
#[test]
fn a_row_falls_back_to_no_reference_that_it_cannot_show() {
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY, k TEXT UNIQUE);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INTEGER UNIQUE REFERENCES p(k));
        INSERT INTO p VALUES('x', '7'), ('y', '8'), ('z', '1'); INSERT INTO c VALUES(1, 7)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.app.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
    a.run("INSERT INTO c VALUES(2, 8); UPDATE p SET k = '1.0' WHERE id = 'x'");
    b.run("UPDATE c SET p = 8");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["2|8"]);
    assert_eq!(kinds(&mut a), ["unique"]);
}

/// A row that was inserted under another key before the row that had its key went: nobody who deleted
/// its parent had seen it.
#[test]
fn a_row_that_takes_the_key_of_another_falls_with_a_record() {
    let schema =
        "CREATE TABLE t(k PRIMARY KEY, w, r REFERENCES t(k) ON DELETE CASCADE) WITHOUT ROWID;
                  INSERT INTO t VALUES(0, 'b', NULL), (1, 'p', NULL)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO t VALUES(2, 'c', 1)");
    std::thread::sleep(std::time::Duration::from_millis(2));
    a.run("REPLACE INTO t VALUES(1, 'q', NULL)");
    b.run("UPDATE OR REPLACE t SET k = 0 WHERE k = 2");
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.rows("SELECT w FROM t"), ["q"]);
    assert_eq!(kinds(&mut a), ["fk_cascade"]);
}

/// Of two references to nobody the record names the same one, whichever was found first.
#[test]
fn a_row_with_two_references_to_nobody_has_one_record_everywhere() {
    let schema = "CREATE TABLE p(k PRIMARY KEY, m REFERENCES q(u), r REFERENCES p(k));
                  CREATE TABLE q(k PRIMARY KEY, u UNIQUE, r REFERENCES p(k))";
    for turned in [false, true] {
        let (_world, mut a, mut b) = pair(schema, &[]);
        let (x, y) = if turned { (&a, &b) } else { (&b, &a) };
        x.run("PRAGMA foreign_keys = OFF; INSERT INTO p VALUES(1, 7, 8), (3, NULL, 6), (4, 7, 3)");
        y.run("PRAGMA foreign_keys = OFF; INSERT INTO q VALUES(2, 7, 9)");
        agree(&mut a, &mut b, &["p", "q"]);
        for site in [&mut a, &mut b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            assert_eq!(kinds(site), ["fk_dangling"; 4]);
        }
        a.run("INSERT INTO p VALUES(8, NULL, NULL), (9, NULL, NULL)");
        agree(&mut a, &mut b, &["p", "q"]);
        assert_eq!(b.rows("SELECT k FROM p ORDER BY 1"), ["1", "8", "9"]);
        assert_eq!(kinds(&mut a), ["fk_dangling", "fk_parent_hidden"]);
        for site in [&a, &b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    }
}

/// Of two references to rows that are gone, the record names the one whose row was deleted and not the
/// one whose row fell with it, whichever row was looked at first.
#[test]
fn a_row_that_fell_by_two_references_has_one_record_everywhere() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, n REFERENCES t ON DELETE CASCADE,
                                 r REFERENCES t ON DELETE CASCADE);
                  INSERT INTO t VALUES('x', NULL, NULL)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM t");
    b.run("INSERT INTO t VALUES('b', NULL, 'x')");
    b.run("INSERT INTO t VALUES('a', 'b', 'x'), ('c', 'b', 'x')");
    agree(&mut a, &mut b, &["t"]);
    let names = |site: &Site| -> Vec<String> {
        let conflicts = site.replica.conflicts().unwrap();
        conflicts.into_iter().map(|c| format!("{} {}", c.kind, c.constraint)).collect()
    };
    for site in [&a, &b] {
        assert_eq!(names(site), ["fk_cascade r>t"; 3]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// What a hidden row would show is the same wherever its parent's key was changed, also where the parent is deleted,
/// and what it refers to in its key has another one.
#[test]
fn a_record_says_a_key_through_deleted_rows_as_all_sites_do() {
    let schema = "CREATE TABLE course(code TEXT PRIMARY KEY, title TEXT);
        CREATE TABLE enrol(student TEXT NOT NULL,
            course TEXT NOT NULL REFERENCES course(code) ON DELETE CASCADE ON UPDATE CASCADE,
            PRIMARY KEY(student, course));
        CREATE TABLE exam(student TEXT NOT NULL, course TEXT NOT NULL, mark INTEGER,
            PRIMARY KEY(student, course),
            FOREIGN KEY(student, course) REFERENCES enrol(student, course)
                ON DELETE CASCADE ON UPDATE CASCADE);
        INSERT INTO course VALUES('M1', 'algebra'); INSERT INTO enrol VALUES('zoe', 'M1');
        INSERT INTO exam VALUES('zoe', 'M1', 90)";
    let renamed = "UPDATE course SET code = 'X1'";
    for first in [false, true] {
        let (world, mut a, mut b) = pair(schema, &[]);
        let mut c = world.clone_site(&mut a, "c");
        a.run("DELETE FROM enrol");
        b.run("UPDATE exam SET mark = 91");
        if first {
            settle(&mut a, &mut b);
        }
        c.run(renamed);
        for _ in 0..2 {
            settle(&mut a, &mut b);
            settle(&mut a, &mut c);
        }
        agree(&mut a, &mut b, &["course", "enrol", "exam"]);
        let told = |site: &Site| -> Vec<String> {
            let open = site.replica.conflicts().unwrap();
            open.into_iter()
                .map(|c| format!("{} {:?} {:?}", c.row, c.displaced, c.deleted))
                .collect()
        };
        assert_eq!(told(&a), told(&b));
        assert_eq!(told(&a), told(&c));
        for site in [&a, &b, &c] {
            let open = site.replica.conflicts().unwrap();
            let gone = open[0].deleted.as_ref().unwrap();
            assert_eq!((&*open[0].row, &*gone.row), ("'zoe', 'X1'", "'zoe', 'X1'"));
            let listed = "SELECT row || coalesce(mine, theirs) FROM synqlite_open_conflicts";
            let row = r#"{"student":"zoe","course":"X1"}{"student":"zoe","course":"X1","mark":91}"#;
            assert_eq!(site.row(listed), row);
        }
    }
}
