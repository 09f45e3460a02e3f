//! The same for deleted rows that are shown because others refer to them (R-PROTECT).

use super::{agree, pair};
use crate::site::{Site, World, settle};

/// A deleted row that is kept for its children lives again once the last of them has been moved, and
/// its record is closed.
#[test]
fn a_kept_row_lives_again_when_the_last_reference_to_it_goes() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id));
                  INSERT INTO p VALUES(1), (2)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM p WHERE id = 2");
    b.run("INSERT INTO c VALUES(1, 2)");
    b.pull(&mut a);
    assert_eq!(b.replica.conflicts().unwrap()[0].kind.as_str(), "restrict_revived");
    b.run("UPDATE c SET p = 1");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.open_conflicts().unwrap(), 0);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT id FROM p"), ["1", "2"]);
}

/// The same row may have lost its key meanwhile: then it has the record of that.
#[test]
fn a_kept_row_that_lives_again_and_lost_its_key_has_a_record() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k));
                  INSERT INTO p VALUES('x'), ('y'); INSERT INTO c VALUES(1, 'x')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO p VALUES('z'); DELETE FROM p WHERE k = 'y'");
    a.run("UPDATE p SET k = 'z' WHERE k = 'y'; INSERT INTO c VALUES(2, 'z')");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT p FROM c ORDER BY id"), ["x", "y"]);
    b.run("DELETE FROM c WHERE id = 2");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.replica.conflicts().unwrap()[0].kind.as_str(), "fallback");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT k FROM p ORDER BY k"), ["x", "y", "z"]);
}

/// What a hidden row referred to is looked at when another write of the reference arrives.
#[test]
fn a_row_is_no_longer_kept_for_a_hidden_one_that_turns_to_another() {
    let schema = "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k), u INT UNIQUE);
                  INSERT INTO n VALUES('x', NULL, 1), ('y', 'x', NULL)";
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO n VALUES('b', 'x', 5)");
    b.run("UPDATE n SET up = 'b', u = 3 WHERE k = 'y'");
    a.run("INSERT INTO n VALUES('b', 'x', 3)");
    a.replica.fold().unwrap();
    a.run("DELETE FROM n WHERE k = 'b'");
    b.pull(&mut a);
    let kinds = |site: &Site| -> Vec<_> {
        site.replica.conflicts().unwrap().into_iter().map(|c| c.kind.to_string()).collect()
    };
    assert_eq!(kinds(&b), ["unique", "fk_parent_hidden"]);
    a.run("UPDATE n SET up = NULL WHERE k = 'y'");
    b.pull(&mut a);
    assert_eq!(kinds(&b), [""; 0]);
    assert_eq!(b.rows("SELECT k FROM n ORDER BY k"), ["x", "y"]);
    agree(&mut a, &mut b, &["n"]);
}

/// A reference to a row whose key has become NULL shows NULL, and is to that row all the same.
#[test]
fn a_reference_to_a_row_without_a_key_is_kept() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, a INT UNIQUE);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, a INT REFERENCES p(a));
                  INSERT INTO p VALUES(1, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE p SET a = NULL");
    b.run("INSERT INTO c VALUES(1, 1)");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|NULL"]);
    a.run("UPDATE p SET a = 5");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|5"]);
}

/// `a` has deleted row x of `p`, and shows it for the sake of a row of `c`, two steps below, of `b`.
fn kept_above() -> (World, Site, Site) {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE m(k TEXT PRIMARY KEY REFERENCES p(k) ON DELETE CASCADE);
        CREATE TABLE c(id INTEGER PRIMARY KEY, m TEXT REFERENCES m(k) ON DELETE RESTRICT);
        INSERT INTO p VALUES('x')";
    let (world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM p");
    b.run("INSERT INTO m VALUES('x'); INSERT INTO c VALUES(1, 'x')");
    a.pull(&mut b);
    (world, a, b)
}

/// A row that was kept for the sake of a row below another goes when nothing below needs it.
#[test]
fn a_kept_row_goes_with_the_last_reference_to_a_row_below_it() {
    let (_world, mut a, mut b) = kept_above();
    assert_eq!(a.rows("SELECT k FROM m"), ["x"]);
    b.run("UPDATE c SET m = NULL");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.rows("SELECT k FROM p"), [""; 0]);
    agree(&mut a, &mut b, &["p", "m", "c"]);
}

/// The same where the user who sees them all deletes the last reference, or writes another: what they
/// see lives from then on.
#[test]
fn a_kept_row_above_another_lives_when_the_last_reference_below_goes() {
    for last in ["DELETE FROM c", "UPDATE c SET m = NULL"] {
        let (_world, mut a, mut b) = kept_above();
        a.run(last);
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{last}");
        assert_eq!(a.rows("SELECT k FROM p"), ["x"], "{last}");
        agree(&mut a, &mut b, &["p", "m", "c"]);
        assert_eq!(b.rows("SELECT k FROM m"), ["x"], "{last}");
    }
}

/// A deleted row that is shown for another's sake shows what it showed when the number of the row that
/// it refers to becomes permanent.
#[test]
fn a_kept_row_shows_the_same_when_a_number_becomes_permanent() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) ON UPDATE SET NULL, v);
        INSERT INTO n VALUES(101, NULL, 0), (104, 101, 21)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO n VALUES(103, 104, 9)");
    a.run("UPDATE OR REPLACE n SET id = 104 WHERE id = 101");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM n"), ["103|104|9", "104|NULL|21", "105|NULL|0"]);
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(a.rows("SELECT * FROM n"), ["103|104|9", "104|NULL|21", "105|NULL|0"]);
}

/// A deleted row that another needs, and that waits for a key, comes back with it when the key is free.
#[test]
fn a_kept_row_returns_when_its_key_is_free() {
    let schema = "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k), u INT UNIQUE);
        INSERT INTO n VALUES('p', NULL, 2)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO n VALUES('c', 'p', 1), ('free', NULL, 3)");
    a.run("UPDATE n SET u = 3 WHERE k = 'p'");
    a.replica.fold().unwrap();
    a.run("UPDATE n SET u = 1 WHERE k = 'p'");
    a.replica.fold().unwrap();
    a.run("DELETE FROM n");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT k FROM n"), ["free"]);
    b.run("DELETE FROM n");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT * FROM n"), ["p|NULL|3", "c|p|1"]);
    agree(&mut a, &mut b, &["n"]);
}

/// A deleted row that was kept lives once the row below it is needed no more, also in a circle of tables
/// and where the last reference goes by REPLACE.
#[test]
fn a_kept_row_in_a_circle_lives_when_the_last_reference_is_replaced() {
    let schema = "CREATE TABLE a(k TEXT PRIMARY KEY, b TEXT REFERENCES b(k) ON UPDATE SET DEFAULT);
        CREATE TABLE b(k TEXT PRIMARY KEY, a TEXT REFERENCES a(k) ON DELETE CASCADE ON UPDATE SET NULL);
        INSERT INTO a VALUES('x', NULL); INSERT INTO b VALUES('y', 'x')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM a");
    b.run("INSERT INTO a VALUES('n', 'y')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT k FROM a"), ["n", "x"]);
    a.run("INSERT OR REPLACE INTO a VALUES('n', NULL)");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    let kinds: Vec<_> =
        a.replica.conflicts().unwrap().into_iter().map(|c| c.kind.to_string()).collect();
    assert_eq!(kinds, [""; 0]);
    agree(&mut a, &mut b, &["a", "b"]);
}

/// What the user writes to a deleted row that is shown for another's sake stays, whoever asked for the key
/// before.
#[test]
fn a_kept_row_keeps_a_key_that_the_user_gives_it() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY, u UNIQUE);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k));
        INSERT INTO p VALUES('d', 1), ('f', 2)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO p VALUES('w', 9); INSERT INTO c VALUES(1, 'd')");
    a.run("DELETE FROM p WHERE k = 'd'; UPDATE p SET u = 9 WHERE k = 'f'");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM p ORDER BY k"), ["d|1", "f|2", "w|9"]);
    b.run("DELETE FROM p WHERE k = 'w'; UPDATE p SET u = 9 WHERE k = 'd'");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT * FROM p ORDER BY k"), ["d|9", "f|2"]);
    agree(&mut a, &mut b, &["p", "c"]);
}

/// The reference of a deleted row is kept as it was written, though the row showed what an action had
/// made of it. Who inserts the row again with that reference writes it.
#[test]
fn a_row_inserted_again_has_the_reference_that_an_action_took() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE m(k TEXT PRIMARY KEY REFERENCES p(k) ON DELETE SET NULL, u INT UNIQUE);
        CREATE TABLE o(id TEXT PRIMARY KEY, p TEXT REFERENCES p(k) ON DELETE SET NULL);
        INSERT INTO p VALUES('a'); INSERT INTO m VALUES('a', 2); INSERT INTO o VALUES('o', 'a')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM p; INSERT INTO p VALUES('a')");
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT k FROM m UNION ALL SELECT p FROM o"), ["NULL", "NULL"]);
    a.run("DELETE FROM m; INSERT INTO m VALUES('a', 2)");
    a.run("DELETE FROM o; INSERT INTO o VALUES('o', 'a')");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["p", "m", "o"]);
    assert_eq!(b.rows("SELECT k FROM m UNION ALL SELECT p FROM o"), ["a", "a"]);
}

/// A child that CASCADE deleted comes back with its parent also where a site had deleted a row of that key
/// before it was inserted: the action is no delete that would be later than the insert.
#[test]
fn a_child_returns_with_its_parent_whoever_deleted_its_key_before() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY); CREATE TABLE r(id INTEGER PRIMARY KEY, p REFERENCES p(k));
        CREATE TABLE c(k TEXT PRIMARY KEY, p TEXT REFERENCES p(k) ON DELETE CASCADE);
        INSERT INTO p VALUES('x')";
    for seen in [false, true] {
        let (_world, mut a, mut b) = pair(schema, &[]);
        b.run("INSERT INTO c VALUES('c', NULL)");
        b.replica.fold().unwrap();
        b.run("DELETE FROM c");
        b.replica.fold().unwrap();
        a.run("INSERT INTO c VALUES('c', 'x')");
        a.replica.fold().unwrap();
        if seen {
            a.pull(&mut b);
        }
        a.run("DELETE FROM p");
        a.replica.fold().unwrap();
        assert_eq!(a.replica.open_conflicts().unwrap(), 0);
        b.run("INSERT INTO r VALUES(1, 'x')");
        b.pull(&mut a);
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
        assert_eq!(b.rows("SELECT * FROM c"), ["c|x"], "seen: {seen}");
        agree(&mut a, &mut b, &["p", "r", "c"]);
        assert_eq!(a.rows("SELECT * FROM c"), ["c|x"]);
    }
}

/// What CASCADE took along comes back with the parent also where the row showed a former reference, and by
/// the later one, which lost a unique key, would not have gone.
#[test]
fn a_child_by_its_former_reference_returns_with_its_parent() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) ON DELETE CASCADE, name, UNIQUE(up, name));
        CREATE TABLE r(id INTEGER PRIMARY KEY, n INT REFERENCES n(id));
        INSERT INTO n VALUES(1, NULL, 'root'), (3, 1, 'a')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO n VALUES(4, 3, 'a')");
    a.run("UPDATE n SET up = 3 WHERE id = 3");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM n"), ["1|NULL|root", "3|1|a", "4|3|a"]);
    a.run("DELETE FROM n WHERE id = 1");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.rows("SELECT * FROM n"), [""; 0]);
    b.run("INSERT INTO r VALUES(1, 1)");
    agree(&mut a, &mut b, &["n", "r"]);
    assert_eq!(a.rows("SELECT * FROM n"), ["1|NULL|root", "3|1|a", "4|3|a"]);
}

/// What the user writes to a deleted row that is shown for another's sake stays, whatever becomes of the
/// other.
#[test]
fn a_kept_row_lives_again_when_the_user_writes_to_it() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY, v);
        CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(k));
        INSERT INTO p VALUES('d', 1), ('e', 1); INSERT INTO c VALUES('b', NULL)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE c SET p = 'd'");
    b.run("DELETE FROM p WHERE k = 'd'");
    a.pull(&mut b);
    assert_eq!(a.replica.conflicts().unwrap()[0].kind.as_str(), "restrict_revived");
    b.run("UPDATE c SET p = 'e'");
    a.run("UPDATE p SET v = 2 WHERE k = 'd'");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM p ORDER BY k"), ["d|2", "e|1"]);
}

/// A user who deletes such a row once more has not seen what another writes to it meanwhile.
#[test]
fn a_kept_row_that_is_deleted_again_is_deleted() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY, v);
        CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(k));
        INSERT INTO p VALUES('d', 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO c VALUES('b', 'd')");
    b.run("DELETE FROM p");
    settle(&mut a, &mut b);
    b.run("DELETE FROM c; DELETE FROM p");
    a.run("UPDATE p SET v = 2");
    settle(&mut a, &mut b);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM p"), [""; 0]);
    for site in [&a, &b] {
        let told = site.replica.closed_conflicts().unwrap();
        assert!(told.iter().any(|c| c.kind.as_str() == "update_lost"), "{told:?}");
    }
}

/// A key that was changed by its user overrides a reference; then the number is pinned, which overrides
/// nothing. The row with the reference goes in that fold, and is shown again for another.
#[test]
fn a_kept_row_shows_no_reference_that_was_overridden_before_a_number_was_pinned() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) ON DELETE RESTRICT ON UPDATE SET NULL, v);
        INSERT INTO n VALUES(101, NULL, 0), (102, 101, 0), (103, NULL, 0), (104, NULL, 55)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO n VALUES(NULL, 102, 53); UPDATE n SET up = 103 WHERE id = 104");
    b.replica.fold().unwrap();
    a.run("DELETE FROM n WHERE id = 102; UPDATE n SET id = 102 WHERE id = 103");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT up FROM n WHERE v = 55"), ["NULL"]);
    assert_eq!(a.rows("SELECT id FROM n WHERE id > 105"), ["106"]);
    a.run("DELETE FROM n WHERE v = 55");
    b.run("INSERT INTO n VALUES(NULL, 104, 28)");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT up FROM n WHERE v = 55"), ["NULL"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["n"]);
}

/// A reference that nothing keeps stays to its row when that goes. Who writes another and loses it falls back to
/// that row, and shows the key which it would have.
#[test]
fn a_former_reference_to_a_row_that_is_gone_follows_it() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, name);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT, slot INT, UNIQUE(p, slot));
        INSERT INTO p VALUES(2, 'x'), (3, 'y')";
    let (_world, mut a, mut b) = pair(schema, &[("c.refs", "p:p")]);
    b.run("INSERT INTO c VALUES(8, 2, 0)");
    b.run("UPDATE p SET id = 30 WHERE id = 3");
    b.replica.fold().unwrap();
    a.run("INSERT INTO c VALUES(9, 3, 0)");
    a.replica.fold().unwrap();
    a.run("DELETE FROM p WHERE id = 3");
    a.replica.fold().unwrap();
    a.run("UPDATE c SET p = 2 WHERE id = 9");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c ORDER BY id"), ["8|2|0", "9|30|0"]);
}
