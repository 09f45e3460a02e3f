//! The same for keys that several rows ask for, and for who gives way to whom (R-UNIQ, R-COMP).

use super::{agree, pair};
use crate::site::{Site, World};

/// The key that a deleted row leaves is the one it had last, not the one before its last update.
#[test]
fn a_row_returns_when_a_winner_by_update_is_deleted() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
                  INSERT INTO p VALUES(1, 'x'), (2, 'y')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE p SET name = 'n' WHERE id = 2");
    b.run("INSERT INTO p VALUES(3, 'n')");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT id FROM p"), ["1", "2"]);
    b.run("DELETE FROM p WHERE id = 2");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT id FROM p"), ["1", "3"]);
    agree(&mut a, &mut b, &["p"]);
}

/// A key that was left before the row was deleted, replaced or inserted anew is left all the same.
#[test]
fn a_row_returns_whatever_else_becomes_of_the_winner() {
    for then in [
        "UPDATE p SET name = 'q' WHERE k = 'w'; DELETE FROM p WHERE k = 'w'",
        "UPDATE p SET name = 'q' WHERE k = 'w'; INSERT OR REPLACE INTO p VALUES('w', 'z')",
        "DELETE FROM p WHERE k = 'w'; INSERT INTO p VALUES('w', 'z')",
        "INSERT OR REPLACE INTO p VALUES('w', 'z')",
    ] {
        let (_world, mut a, mut b) =
            pair("CREATE TABLE p(k TEXT PRIMARY KEY, name TEXT UNIQUE)", &[]);
        a.run("INSERT INTO p VALUES('w', 'n')");
        b.run("INSERT INTO p VALUES('l', 'n')");
        b.pull(&mut a);
        assert_eq!(b.rows("SELECT k FROM p"), ["w"]);
        b.run(then);
        b.replica.fold().unwrap();
        assert_eq!(b.rows("SELECT k FROM p WHERE name = 'n'"), ["l"], "{then}");
        agree(&mut a, &mut b, &["p"]);
    }
}

/// An integer key that names its row is never renumbered, so it can only be had by one row.
#[test]
fn integer_keys_that_name_rows_are_unique_keys() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, v); INSERT INTO p VALUES(1, 0), (2, 0)";
    let (_world, mut a, mut b) = pair(schema, &[("p.identity", "key")]);
    a.run("UPDATE p SET id = 7, v = 'a' WHERE id = 1");
    b.run("UPDATE p SET id = 7, v = 'b' WHERE id = 2");
    agree(&mut a, &mut b, &["p"]);
    assert_eq!(a.rows("SELECT * FROM p ORDER BY id"), ["2|b", "7|a"]);
    assert_eq!(a.replica.conflicts().unwrap()[0].kind.as_str(), "fallback");
    b.run("DELETE FROM p WHERE id = 7");
    agree(&mut a, &mut b, &["p"]);
    assert_eq!(a.rows("SELECT * FROM p"), ["7|b"]);
}

/// R-PINKEY: who writes a part of a key means the rest of it that they see.
#[test]
fn a_part_of_a_key_is_written_with_the_rest_of_it() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b INT, UNIQUE(a, b));
                  INSERT INTO t VALUES(1, 0, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES(2, 0, 0)");
    b.run("UPDATE t SET b = 0 WHERE id = 1");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM t"), ["1|0|1", "2|0|0"]);
    b.run("UPDATE t SET a = 7 WHERE id = 1");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM t"), ["1|7|1", "2|0|0"]);
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.replica.open_conflicts().unwrap(), 0);
}

/// The same of a row that is kept for another although it was deleted.
#[test]
fn a_part_of_a_key_of_a_deleted_row_is_written_with_the_rest_of_it() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a INT, b INT, UNIQUE(a, b));
                  CREATE TABLE c(id INTEGER PRIMARY KEY, t INT REFERENCES t(id));
                  INSERT INTO t VALUES(1, 0, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM t; INSERT INTO t VALUES(2, 0, 0)");
    b.run("UPDATE t SET b = 0 WHERE id = 1; INSERT INTO c VALUES(1, 1)");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM t"), ["1|0|1", "2|0|0"]);
    assert_eq!(b.replica.conflicts().unwrap()[0].kind.as_str(), "restrict_revived");
    b.run("UPDATE t SET a = 7 WHERE id = 1");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM t"), ["1|7|1", "2|0|0"]);
    agree(&mut a, &mut b, &["t", "c"]);
}

/// A row that the user sees may be in the way of nobody whom they do not: neither who has what it
/// asks for, nor who has what it shows instead.
#[test]
fn a_fold_hides_no_row_for_one_that_waits_for_its_former_value() {
    let schema = "CREATE TABLE t(k INT PRIMARY KEY, u INT UNIQUE); INSERT INTO t VALUES(7, 7)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE t SET u = 0");
    a.replica.fold().unwrap();
    b.run("INSERT INTO t VALUES(1, 2)");
    a.run("UPDATE t SET u = 2");
    a.run("INSERT INTO t VALUES(3, 0)");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM t ORDER BY k"), ["1|2", "7|0"]);
    b.run("INSERT OR REPLACE INTO t VALUES(2, 2)");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM t ORDER BY k"), ["2|2", "7|0"]);
    agree(&mut a, &mut b, &["t"]);
}

/// A row that loses to one that is hidden because of it, loses to nobody.
#[test]
fn a_new_row_is_not_hidden_for_a_child_that_waits_for_it() {
    let schema = "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k), u INT UNIQUE)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO n VALUES('w', NULL, 1)");
    a.run("INSERT INTO n VALUES('p', NULL, 1), ('c', 'p', 3)");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT k FROM n"), ["w"]);
    a.run("INSERT INTO n VALUES('p', NULL, 3)");
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT k FROM n ORDER BY k"), ["p", "w"]);
    agree(&mut a, &mut b, &["n"]);
}

/// Former values may have a key that the later ones had not, of a partial index: somebody may have it.
#[test]
fn former_values_ask_for_keys_that_the_later_ones_had_not() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, a, b, v);
        CREATE UNIQUE INDEX ab ON t(a, b);
        CREATE UNIQUE INDEX big ON t(v) WHERE b > 0;
        INSERT INTO t VALUES('x', 'p', 1, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES('y', 'n', 0, 8)");
    b.run("INSERT INTO t VALUES('z', 'q', 1, 5)");
    b.run("UPDATE t SET a = 'n', b = 0, v = 5 WHERE k = 'x'");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.rows("SELECT k FROM t ORDER BY k"), ["y", "z"]);
    agree(&mut a, &mut b, &["t"]);
    a.run("DELETE FROM t WHERE k = 'z'");
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(b.rows("SELECT * FROM t ORDER BY k"), ["x|p|1|5", "y|n|0|8"]);
}

/// A row that is hidden in a circle of references, after it was asked for its key, must not stay in
/// the way of a row that the user inserts.
#[test]
fn a_row_hidden_in_a_circle_gives_way_to_what_the_user_sees() {
    let schema = "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k), u INT UNIQUE);
        INSERT INTO n VALUES('x', NULL, 7), ('y', 'x', 8)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO n VALUES('z', 'y', 3)");
    a.replica.fold().unwrap();
    a.run("UPDATE n SET k = 'n' WHERE k = 'z'");
    a.replica.fold().unwrap();
    a.run("INSERT INTO n VALUES('z', 'x', 4)");
    b.run("INSERT INTO n VALUES('n', NULL, NULL)");
    b.run("UPDATE n SET up = 'n' WHERE k = 'x'");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM n"), [""; 0]);
    a.run("INSERT INTO n VALUES('new', NULL, 4)");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.rows("SELECT u FROM n WHERE k = 'new'"), ["4"]);
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(b.rows("SELECT u FROM n WHERE k = 'new'"), ["4"]);
}

/// A former reference to a row whose key was changed since is set as ON UPDATE says, as it would be had
/// the update that lost never been.
#[test]
fn a_former_reference_is_set_when_its_key_was_changed_since() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON UPDATE SET NULL, slot INT,
                       UNIQUE(p, slot));
        INSERT INTO p VALUES('x'), ('y'); INSERT INTO c VALUES(2, 'y', 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO c VALUES(3, 'x', 1)");
    b.run("UPDATE c SET p = 'x' WHERE id = 2");
    a.run("UPDATE p SET k = 'z' WHERE k = 'y'");
    b.pull(&mut a);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT * FROM c"), ["2|NULL|1", "3|x|1"]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["2|NULL|1", "3|x|1"]);
}

/// A former reference that a change of its key set is shown again where that change is overruled, though
/// nothing that its row shows or asks for names the row that it is to.
#[test]
fn a_former_reference_returns_with_the_key_that_was_changed() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON UPDATE SET NULL, slot INT,
                       UNIQUE(p, slot));
        INSERT INTO p VALUES('x')";
    let (world, mut a, mut b) = pair(schema, &[]);
    let mut c = world.clone_site(&mut a, "c");
    b.run("INSERT INTO p VALUES('y'); INSERT INTO c VALUES(2, 'y', 1)");
    a.pull(&mut b);
    a.run("INSERT INTO c VALUES(3, 'x', 1)");
    b.run("UPDATE c SET p = 'x' WHERE id = 2");
    a.run("UPDATE p SET k = 'z' WHERE k = 'y'");
    c.run("INSERT INTO p VALUES('y')");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM c"), ["2|NULL|1", "3|x|1"]);
    b.pull(&mut c);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT * FROM c"), ["2|y|1", "3|x|1"]);
    agree(&mut a, &mut b, &["p", "c"]);
}

/// A row that lost a key to one that the user does not see, and another to one that the user does once it
/// shows what it was before, keeps both.
#[test]
fn a_row_that_loses_what_it_fell_back_to_gives_way_to_nobody() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, a, b, c, UNIQUE(a, b), UNIQUE(b, c));
        INSERT INTO t VALUES('x', 2, 1, 2), ('y', 0, 1, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES('w', 2, 2, 1)");
    b.run("INSERT INTO t VALUES('l', 2, 2, NULL)");
    b.pull(&mut a);
    b.run("DELETE FROM t WHERE k = 'w'; UPDATE t SET b = 2, c = 1 WHERE k = 'x'");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT * FROM t ORDER BY k"), ["x|2|2|1", "y|0|1|1"]);
    agree(&mut a, &mut b, &["t"]);
}

/// What a row shows in place of a key it lost is written with another part of that key also where a
/// number of the row is written by the same fold.
#[test]
fn a_part_of_a_key_is_written_with_the_rest_where_a_number_becomes_permanent() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b, UNIQUE(a, b))";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES(2, 5, 6)");
    b.run("INSERT INTO t VALUES(2, 5, 5)");
    b.replica.fold().unwrap();
    b.run("UPDATE t SET b = 6");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM t"), ["2|5|6", "3|5|5"]);
    b.run("UPDATE t SET a = 7 WHERE id = 3");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM t"), ["2|5|6", "3|7|5"]);
    agree(&mut a, &mut b, &["t"]);
}

/// A row that lost its key to one that is bound to it, and so shows another key, comes back when that one
/// no longer asks for the key.
#[test]
fn a_row_returns_when_its_winner_in_a_circle_turns_to_another() {
    let (_world, mut a, mut b) = lost_to_its_child();
    b.run("UPDATE n SET up = 3 WHERE id = 3");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT * FROM n"), ["2|2|p", "3|3|p", "4|2|q"]);
    agree(&mut a, &mut b, &["n"]);
}

/// `b` hides row 2 for row 3, which refers to it.
fn lost_to_its_child() -> (World, Site, Site) {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) ON DELETE SET NULL, name, UNIQUE(up, name));
        INSERT INTO n VALUES(1, NULL, 'root'), (2, 1, 'p')";
    let (world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO n VALUES(3, 2, 'p'), (4, 2, 'q')");
    a.run("UPDATE n SET up = 2 WHERE id = 2; DELETE FROM n WHERE id = 1");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM n"), ["3|NULL|p", "4|NULL|q"]);
    (world, a, b)
}

/// Two rows that the user sees and that would collide once the row they refer to is back: neither has to
/// give way, one is no longer bound to that row.
#[test]
fn rows_that_a_returning_parent_would_make_collide_both_stay() {
    let (_world, mut a, mut b) = lost_to_its_child();
    b.run("UPDATE n SET name = 'q' WHERE id = 3");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT id, name FROM n"), ["2|p", "3|q", "4|q"]);
    agree(&mut a, &mut b, &["n"]);
}

/// A row that the user sees is not yielded for another where it is enough that a hidden one is.
#[test]
fn a_hidden_row_gives_way_before_one_that_the_user_sees() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, name UNIQUE); INSERT INTO t VALUES('c', 'a')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES('w', 'b')");
    b.run("INSERT INTO t VALUES('h', 'b')");
    b.pull(&mut a);
    b.run(
        "DELETE FROM t WHERE k = 'w'; UPDATE t SET name = 'b' WHERE k = 'c';
         INSERT INTO t VALUES('n', 'a')",
    );
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM t ORDER BY k"), ["c|b", "n|a"]);
    a.run("INSERT OR REPLACE INTO t VALUES('w', 'b')");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM t ORDER BY k"), ["c|a", "w|b"]);
    agree(&mut a, &mut b, &["t"]);
}

/// Hidden rows that give way to what the user sees, and return in the same fold, keep the order in which
/// they asked for their numbers.
#[test]
fn rows_that_give_way_together_keep_their_order() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) ON DELETE CASCADE ON UPDATE SET NULL, v);
        INSERT INTO n VALUES(1, NULL, 'root'), (2, 1, 'parent')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO n VALUES(5, 2, NULL)");
    b.run("INSERT INTO n VALUES(6, 2, 'second')");
    b.replica.fold().unwrap();
    b.run("UPDATE n SET v = 'first' WHERE id = 5");
    a.run("INSERT OR REPLACE INTO n VALUES(2, 1, 'parent')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT id FROM n"), ["1", "2"]);
    a.run("INSERT INTO n VALUES(5, 2, 'c'), (6, 1, 'd')");
    a.replica.fold().unwrap();
    a.run("UPDATE OR REPLACE n SET id = 6 WHERE id = 2");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    let shown = ["1|NULL|root", "5|NULL|c", "6|1|parent", "7|NULL|first", "8|NULL|second"];
    assert_eq!(a.rows("SELECT * FROM n"), shown);
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(b.rows("SELECT * FROM n"), shown);
}

/// A row falls back to the reference that it showed: to none, if a foreign key had set it, though the row
/// that was written there is back.
#[test]
fn a_row_falls_back_to_what_an_action_had_left_of_its_reference() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) ON DELETE SET NULL, name, UNIQUE(up, name));
        INSERT INTO n VALUES(1, NULL, 'x'), (2, 1, 'p')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT OR REPLACE INTO n VALUES(1, NULL, 'x'); INSERT INTO n VALUES(4, 2, 'q')");
    b.run("DELETE FROM n WHERE id = 1");
    b.replica.fold().unwrap();
    b.run("UPDATE n SET up = 2, name = 'q' WHERE id = 2");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM n"), ["1|NULL|x", "2|NULL|p", "4|2|q"]);
    agree(&mut a, &mut b, &["n"]);
}

/// Where another row stands for the one that a reference is to, that the other got another key sets
/// nothing.
#[test]
fn a_reference_shows_who_stands_for_its_row_whatever_key_that_had() {
    let schema = "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE j(tag INT REFERENCES tag(id) ON UPDATE SET NULL)";
    let (_world, mut a, mut b) = pair(schema, &[("tag.on_unique", "unify")]);
    b.run("INSERT INTO tag VALUES(3, 'n')");
    a.run("INSERT INTO tag VALUES(5, 'n'); INSERT INTO j VALUES(5)");
    b.run("UPDATE tag SET id = 9 WHERE id = 3");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM j"), ["9"]);
    agree(&mut a, &mut b, &["tag", "j"]);
}

const TAGS: &str = "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
    CREATE TABLE j(n INTEGER PRIMARY KEY, tag INT REFERENCES tag(id) ON DELETE SET NULL)";

/// Two sites that made one tag each, of one name, and refer to it.
fn tagged() -> (World, Site, Site) {
    let (world, mut a, mut b) = pair(TAGS, &[("tag.on_unique", "unify")]);
    a.run("INSERT INTO tag VALUES(1, 'urgent'); INSERT INTO j VALUES(1, 1)");
    b.run("INSERT INTO tag VALUES(2, 'urgent'); INSERT INTO j VALUES(2, 2)");
    agree(&mut a, &mut b, &["tag", "j"]);
    assert_eq!(a.rows("SELECT name FROM tag JOIN j ON tag = id"), ["urgent", "urgent"]);
    (world, a, b)
}

/// R-UNIFY: whoever deletes the row that he sees deletes those for which it stands.
#[test]
fn a_deleted_row_takes_along_those_for_which_it_stood() {
    for then in ["DELETE FROM tag", "INSERT OR REPLACE INTO tag(name) VALUES('urgent')"] {
        let (_world, mut a, mut b) = tagged();
        a.run(then);
        agree(&mut a, &mut b, &["tag", "j"]);
        let left = usize::from(then.starts_with("INSERT"));
        assert_eq!(b.rows("SELECT name FROM tag").len(), left, "{then}");
        assert_eq!(b.rows("SELECT tag FROM j"), ["NULL", "NULL"], "{then}");
        assert!(b.replica.conflicts().unwrap().is_empty(), "{then}");
        b.run("DELETE FROM tag");
        agree(&mut a, &mut b, &["tag", "j"]);
        assert!(a.rows("SELECT name FROM tag").is_empty(), "{then}");
    }
}

/// Of one that he could not know nothing is deleted.
#[test]
fn a_row_of_which_nobody_had_heard_stays() {
    let (_world, mut a, mut b) = pair(TAGS, &[("tag.on_unique", "unify")]);
    a.run("INSERT INTO tag VALUES(1, 'urgent')");
    a.replica.fold().unwrap();
    a.run("DELETE FROM tag");
    b.run("INSERT INTO tag VALUES(2, 'urgent')");
    agree(&mut a, &mut b, &["tag"]);
    assert_eq!(a.rows("SELECT name FROM tag"), ["urgent"]);
}

/// The new name is that of the rows for which the renamed one stands, and what refers to them goes on to show it.
#[test]
fn a_renamed_row_stays_the_one_that_stands_for_others() {
    for then in [
        "UPDATE tag SET name = 'later'",
        "UPDATE tag SET name = 'later'; INSERT INTO tag VALUES(9, 'urgent')",
    ] {
        let (_world, mut a, mut b) = tagged();
        b.run(then);
        agree(&mut a, &mut b, &["tag", "j"]);
        assert_eq!(a.rows("SELECT name FROM tag JOIN j ON tag = id"), ["later", "later"], "{then}");
        let names = a.rows("SELECT name FROM tag ORDER BY 1");
        assert_eq!(names.len(), 1 + usize::from(then.contains("INSERT")), "{then}: {names:?}");
        a.run("DELETE FROM tag WHERE name = 'later'");
        agree(&mut a, &mut b, &["tag", "j"]);
        assert_eq!(b.rows("SELECT tag FROM j"), ["NULL", "NULL"], "{then}");
    }
}

/// What else such a row held, its user has not seen: it is told.
#[test]
fn what_a_deleted_row_hid_is_told() {
    let schema = "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE, color TEXT)";
    let (_world, mut a, mut b) = pair(schema, &[("tag.on_unique", "unify")]);
    a.run("INSERT INTO tag VALUES(1, 'urgent', 'red'), (3, 'later', 'grey')");
    b.run("INSERT INTO tag VALUES(2, 'urgent', 'blue'), (4, 'later', 'grey')");
    agree(&mut a, &mut b, &["tag"]);
    b.run("DELETE FROM tag");
    agree(&mut a, &mut b, &["tag"]);
    for site in [&a, &b] {
        let closed = site.replica.closed_conflicts().unwrap();
        let told: Vec<_> = closed.iter().filter(|c| c.kind.as_str() == "update_lost").collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(format!("{:?}", told[0]).contains("blue"), "{told:?}");
    }
}
