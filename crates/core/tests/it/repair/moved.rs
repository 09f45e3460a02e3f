//! The same where a row falls back and moves the references to it, in a table that refers to itself.

use super::{agree, pair};
use crate::site::{Site, World};

/// `a` shows the former key of `p`, for `w` has the later one, and it has not seen it written.
fn fallen(columns: &str) -> (World, Site, Site) {
    let schema = format!(
        "CREATE TABLE n(id TEXT PRIMARY KEY, k TEXT UNIQUE, {columns});
         INSERT INTO n VALUES('p', 'old', NULL), ('q', 'gone', NULL)"
    );
    let (world, mut a, mut b) = pair(&schema, &[]);
    a.run("INSERT INTO n VALUES('c', NULL, 'old'), ('w', 'new', NULL)");
    b.run("UPDATE n SET k = 'new' WHERE id = 'p'");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    (world, a, b)
}

/// A reference to a row that falls back asks for no unique key that this row wrote and does not show,
/// whether there was an index of such keys before or not.
#[test]
fn a_reference_to_a_row_that_falls_back_asks_for_what_it_shows() {
    for early in [true, false] {
        let unique = if early { "UNIQUE" } else { "" };
        let (_world, mut a, mut b) =
            fallen(&format!("up TEXT {unique} REFERENCES n(k) ON UPDATE CASCADE"));
        a.run("INSERT INTO n VALUES('d', NULL, 'new')");
        if !early {
            a.run("CREATE UNIQUE INDEX up ON n(up)");
            b.run("CREATE UNIQUE INDEX up ON n(up)");
        }
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        agree(&mut a, &mut b, &["n"]);
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
        assert_eq!(b.rows("SELECT id, up FROM n WHERE up IS NOT NULL"), ["c|old", "d|new"]);
    }
}

/// A reference by value alone is answered by what a row shows, also where it fell back to that.
#[test]
fn a_row_that_falls_back_answers_references_by_value() {
    let columns = "up TEXT DEFAULT 'old' REFERENCES n(k) ON DELETE SET DEFAULT";
    let (_world, mut a, mut b) = fallen(columns);
    a.run("INSERT INTO n VALUES('d', NULL, 'gone')");
    b.run("DELETE FROM n WHERE id = 'q'");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT id FROM n WHERE up = 'old'"), ["c", "d"]);
}

/// A row that shows another key with the one it refers to is held against its constraints with that.
#[test]
fn a_reference_to_a_row_that_falls_back_is_held_against_its_table() {
    let columns = "up TEXT REFERENCES n(k) ON UPDATE CASCADE CHECK(up <> 'old' OR k IS NULL)";
    let (_world, mut a, mut b) = fallen(columns);
    b.run("INSERT INTO n VALUES('d', 'd', 'new')");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(a.rows("SELECT id FROM n WHERE up IS NOT NULL"), ["c"]);
    assert_eq!(a.replica.records().unwrap()[0].kind.as_str(), "row_constraint");
}

/// Nothing but a row that comes hides the row that it refers to, by its value alone: `a` takes a key from
/// `b`, which shows the former one then, and that is what `e` waited for.
#[test]
fn a_row_that_answers_is_hidden_for_what_depends_on_the_row_that_asks() {
    for kind in ["", " WITHOUT ROWID"] {
        let schema = format!(
            "CREATE TABLE t(k TEXT PRIMARY KEY, v UNIQUE, r TEXT REFERENCES t(k)){kind};
             INSERT INTO t VALUES('b', 1, NULL)"
        );
        let (_world, mut a, mut b) = pair(&schema, &[]);
        a.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES('a', 2, 'e')");
        a.replica.fold().unwrap();
        b.run("UPDATE t SET k = 'a'");
        b.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES('e', 3, 'b')");
        agree(&mut a, &mut b, &["t"]);
        for site in [&mut a, &mut b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            assert_eq!(site.rows("SELECT k, r FROM t ORDER BY 1"), ["a|e", "b|NULL", "e|b"]);
        }
    }
}
