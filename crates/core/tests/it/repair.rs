//! Histories in which a merge or a fold was once at fault, each as short as it can be.

use crate::site::{Site, World, dump, settle};

/// Two sites of one database.
fn pair(schema: &str, policies: &[(&str, &str)]) -> (World, Site, Site) {
    let world = World::new();
    let mut a = world.init_with("a", schema, policies);
    let b = world.clone_site(&mut a, "b");
    (world, a, b)
}

/// Both sites show the same rows and the same records, and nothing is wrong with either.
fn agree(a: &mut Site, b: &mut Site, tables: &[&str]) {
    settle(a, b);
    assert_eq!(dump(&a.app, tables), dump(&b.app, tables));
    let ids = |site: &Site| -> Vec<_> {
        site.replica.conflicts().unwrap().into_iter().map(|c| (c.id, c.kind)).collect()
    };
    assert_eq!(ids(a), ids(b));
    for site in [a, b] {
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
}

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
    assert_eq!(a.replica.conflicts().unwrap()[0].kind, "fallback");
    b.run("DELETE FROM p WHERE id = 7");
    agree(&mut a, &mut b, &["p"]);
    assert_eq!(a.rows("SELECT * FROM p"), ["7|b"]);
}

/// One column that refers to two tables shows one value; a row of each must have it.
#[test]
fn a_column_with_two_parents_follows_one_of_them_only_with_the_other() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY); CREATE TABLE q(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY,
            r TEXT REFERENCES p(k) ON UPDATE CASCADE REFERENCES q(k) ON UPDATE CASCADE);
        INSERT INTO p VALUES('x'); INSERT INTO q VALUES('x'), ('y'); INSERT INTO c VALUES(1, 'x')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE p SET k = 'y'");
    assert_eq!(a.row("SELECT r FROM c"), "y");
    agree(&mut a, &mut b, &["p", "q", "c"]);
    assert_eq!(a.row("SELECT r FROM c"), "y");

    // Followed by p alone: no row of q has the key that p has got.
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE c SET r = 'x' WHERE id = 1; INSERT INTO c VALUES(2, 'x')");
    a.run("UPDATE p SET k = 'y'");
    agree(&mut a, &mut b, &["p", "q", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|y"]);
    let records = a.replica.conflicts().unwrap();
    assert_eq!((records.len(), records[0].kind.as_str()), (1, "fk_dangling"));
}

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
    assert_eq!(b.replica.conflicts().unwrap()[0].kind, "restrict_revived");
    b.run("UPDATE c SET p = 1");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.open_conflicts().unwrap(), 0);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT id FROM p"), ["1", "2"]);
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

/// References that nothing keeps: a row whose key moves away leaves its children's values behind, on
/// every site.
#[test]
fn a_key_that_moves_leaves_references_that_nothing_keeps() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, v);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, p_id INT REFERENCES p(id));
                  INSERT INTO p VALUES(1, 0), (2, 0); INSERT INTO c VALUES(1, 1), (2, 2)";
    let (_world, mut a, mut b) = pair(schema, &[("fk", "ignore")]);
    b.app.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
    b.run("UPDATE p SET id = 7 WHERE id = 1; DELETE FROM p WHERE id = 2");
    for _ in 0..3 {
        a.replica.pull_from(&mut b.replica, false).unwrap();
        b.replica.pull_from(&mut a.replica, false).unwrap();
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM c"), ["1|1", "2|2"]);
            assert_eq!(site.replica.verify().unwrap(), [""; 0]);
        }
    }
    // The number of a row that is gone goes to another; the reference is not to that one.
    b.run("INSERT INTO p VALUES(2, 'b')");
    a.run("INSERT INTO p VALUES(2, 'a')");
    for _ in 0..3 {
        a.replica.pull_from(&mut b.replica, false).unwrap();
        b.replica.pull_from(&mut a.replica, false).unwrap();
    }
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM c"), ["1|1", "2|2"]);
        assert_eq!(site.rows("SELECT * FROM p"), ["2|b", "7|0", "8|a"]);
    }
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
        site.replica.conflicts().unwrap().into_iter().map(|c| c.kind).collect()
    };
    assert_eq!(kinds(&b), ["unique", "fk_parent_hidden"]);
    a.run("UPDATE n SET up = NULL WHERE k = 'y'");
    b.pull(&mut a);
    assert_eq!(kinds(&b), [""; 0]);
    assert_eq!(b.rows("SELECT k FROM n ORDER BY k"), ["x", "y"]);
    agree(&mut a, &mut b, &["n"]);
}

/// A reference that followed its row to the key of a row that went was never one to that.
#[test]
fn a_reference_that_follows_is_not_written() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) ON UPDATE CASCADE);
                  INSERT INTO p VALUES(1), (2); INSERT INTO c VALUES(1, 2)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE c SET p = NULL");
    a.run("UPDATE OR REPLACE p SET id = 1 WHERE id = 2");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT p FROM c"), ["NULL"]);

    let schema =
        "CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id) ON UPDATE CASCADE);
                  INSERT INTO n VALUES(1, 2), (2, 3), (3, NULL)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE n SET up = NULL");
    a.run("UPDATE n SET id = id + 10");
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(a.rows("SELECT * FROM n"), ["11|NULL", "12|NULL", "13|NULL"]);
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

/// The same where a row refers to itself.
#[test]
fn a_row_that_refers_to_itself_follows_itself() {
    let schema = "CREATE TABLE n(k TEXT PRIMARY KEY, up TEXT REFERENCES n(k) ON UPDATE CASCADE);
                  INSERT INTO n VALUES('x', 'x'), ('y', NULL)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE n SET up = 'y' WHERE k = 'x'");
    a.run("UPDATE n SET k = 'z' WHERE k = 'x'");
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(a.rows("SELECT up FROM n WHERE k = 'z'"), ["y"]);
}

/// An integer key that a foreign key's action would set to NULL would get a number of SQLite's.
#[test]
fn an_integer_key_never_becomes_null() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY);
                  CREATE TABLE d(id INTEGER PRIMARY KEY REFERENCES p(id) ON DELETE SET NULL);
                  INSERT INTO p VALUES(1), (2)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO d VALUES(2)");
    b.run("DELETE FROM p WHERE id = 2");
    agree(&mut a, &mut b, &["p", "d"]);
    assert_eq!(a.rows("SELECT * FROM d"), [""; 0]);
    assert_eq!(a.replica.conflicts().unwrap()[0].kind, "row_constraint");
}

/// A row that REPLACE renews refers to itself as it is now, so it is not hidden as of a former life.
#[test]
fn a_replaced_row_that_refers_to_itself_stays() {
    let schema =
        "CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id) ON DELETE CASCADE, v);
                  INSERT INTO n VALUES(101, NULL, 0), (103, 103, 0)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("PRAGMA recursive_triggers=ON; INSERT OR REPLACE INTO n VALUES(103, 103, 9)");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(b.rows("SELECT v FROM n WHERE id = 103"), ["9"]);
}

/// A reference to a key that was changed and changed back is overridden, though the key is what it was.
#[test]
fn a_key_that_came_back_overrides_references() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) ON UPDATE SET NULL);
        INSERT INTO p VALUES(1, 'x'); INSERT INTO c VALUES(1, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE p SET id = 7");
    b.replica.fold().unwrap();
    b.run("UPDATE p SET id = 1");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.rows("SELECT p FROM c"), ["NULL"]);
    agree(&mut a, &mut b, &["p", "c"]);
}

/// The number that a row gets is past those that are asked for now, not those that were.
#[test]
fn numbers_start_past_those_that_are_asked_for() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON DELETE CASCADE);
        INSERT INTO p VALUES('x'), ('y'); INSERT INTO c VALUES(101, 'x'), (102, 'y')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE c SET id = 107 WHERE id = 101");
    b.replica.fold().unwrap();
    a.run("INSERT INTO c VALUES(103, NULL)");
    b.run("DELETE FROM p WHERE k = 'x'");
    b.run("UPDATE c SET id = 103 WHERE id = 102");
    a.run("UPDATE c SET id = 105 WHERE id = 101");
    b.pull(&mut a);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(b.rows("SELECT id FROM c ORDER BY id"), ["103", "106"]);
    agree(&mut a, &mut b, &["p", "c"]);
}

/// A reference that a replaced row left behind gave way to a delete, whoever asks.
#[test]
fn a_reference_to_a_replaced_row_gives_way_without_a_record() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT DEFAULT 1 REFERENCES p(id) ON DELETE SET DEFAULT);
        INSERT INTO p VALUES(1, 'x'); INSERT INTO c VALUES(1, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT OR REPLACE INTO p VALUES(1, 'a')");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.replica.open_conflicts().unwrap(), 0);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
}

/// A pin is no change of a key by a user, so what such a change did to references is written with it.
#[test]
fn a_pinned_number_leaves_references_as_they_are() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, v);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) ON UPDATE SET NULL);
        INSERT INTO p VALUES(1, 'x'); INSERT INTO c VALUES(1, 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO p VALUES(7, 'a')");
    b.run("UPDATE p SET id = 7");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM p ORDER BY id"), ["7|a", "8|x"]);
    assert_eq!(b.rows("SELECT p FROM c"), ["NULL"]);
    b.run("INSERT INTO p VALUES(9, 'b')");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT p FROM c"), ["NULL"]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT p FROM c"), ["NULL"]);
}

/// A row whose reference was overridden stays when the row that it was to is inserted anew.
#[test]
fn a_row_stays_when_what_it_no_longer_refers_to_returns() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY,
            p TEXT REFERENCES p(k) ON DELETE CASCADE ON UPDATE SET NULL);
        INSERT INTO p VALUES('x')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("INSERT INTO c VALUES(1, 'x')");
    b.replica.fold().unwrap();
    b.run("UPDATE p SET k = 'y'");
    a.run("DELETE FROM p");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|NULL"]);
    a.run("INSERT INTO p VALUES('x')");
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT * FROM c"), ["1|NULL"]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(b.rows("SELECT * FROM c"), ["1|NULL"]);
}

/// A number that the user sees is kept, though another row returns that asked for it earlier, and
/// though its row had to step aside for something else.
#[test]
fn a_row_keeps_its_number_beside_one_that_returns() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, u INT UNIQUE, v)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO t VALUES(3, 4, 'a')");
    b.run("INSERT INTO t VALUES(8, 4, 'early')");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT id FROM t"), ["3"]);
    b.run("INSERT INTO t VALUES(8, 1, 'late')");
    b.replica.fold().unwrap();
    a.run("INSERT INTO t VALUES(5, 2, 'b')");
    b.run("UPDATE t SET u = 2 WHERE v = 'late'");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["3|4|a", "5|2|b", "8|1|late"]);
    a.run("DELETE FROM t WHERE id = 3");
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT * FROM t"), ["5|2|b", "8|1|late", "9|4|early"]);
    agree(&mut a, &mut b, &["t"]);
}

/// ON UPDATE CASCADE is no write, also where the parent's key becomes NULL in part.
#[test]
fn a_reference_follows_to_a_key_with_a_null() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, a TEXT, b INT, UNIQUE(a, b));
        CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT, y INT,
            FOREIGN KEY(x, y) REFERENCES p(a, b) ON UPDATE CASCADE);
        INSERT INTO p VALUES(1, 'x', 0), (2, 'y', 0); INSERT INTO c VALUES(1, 'x', 0), (2, 'x', 0)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE c SET x = 'y' WHERE id = 1");
    b.run("UPDATE p SET a = NULL, b = 1 WHERE id = 1");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|y|0", "2|NULL|1"]);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    b.run("UPDATE p SET a = 'z' WHERE id = 1");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|y|0", "2|z|1"]);
}

/// A column with two parents shows the key of one of them, and refers to both all the same.
#[test]
fn a_column_with_two_parents_keeps_both() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY); CREATE TABLE q(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, r TEXT REFERENCES p(k) REFERENCES q(k));
        INSERT INTO p VALUES('x'); INSERT INTO q VALUES('x')";
    let (world, mut a, mut b) = pair(schema, &[]);
    let mut c = world.clone_site(&mut a, "c");
    a.run("INSERT INTO c VALUES(1, 'x')");
    b.run("UPDATE q SET k = 'y'; INSERT INTO p VALUES('y')");
    c.run("DELETE FROM p");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT r FROM c"), ["y"]);
    c.pull(&mut a);
    assert_eq!(c.rows("SELECT k FROM p ORDER BY k"), ["x", "y"]);
    agree(&mut b, &mut c, &["p", "q", "c"]);
    agree(&mut a, &mut c, &["p", "q", "c"]);
    assert_eq!(a.rows("SELECT k FROM p ORDER BY k"), ["x", "y"]);
}

/// A value that nothing keeps stays with the hidden row it is to, when a row that took its key moves.
#[test]
fn a_reference_to_a_hidden_row_is_not_to_one_with_its_key() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT)";
    let (_world, mut a, mut b) = pair(schema, &[("c.refs", "p:p")]);
    a.run("INSERT INTO p VALUES(1, 'n')");
    b.run("INSERT INTO p VALUES(4, 'n'); INSERT INTO c VALUES(1, 4)");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT id FROM p"), ["1"]);
    b.run("INSERT INTO p VALUES(4, NULL)");
    b.replica.fold().unwrap();
    b.run("UPDATE p SET id = 6 WHERE id = 4");
    b.replica.fold().unwrap();
    b.run("INSERT INTO p VALUES(4, 'm')");
    b.replica.fold().unwrap();
    b.run("DELETE FROM p WHERE id = 1");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT p.name FROM c JOIN p ON p.id = c.p"), ["n"]);
}

/// A value that no row had as its key when it was written refers to none, whoever takes the key later
/// and whatever number they end up with.
#[test]
fn a_value_that_named_nobody_is_no_reference_to_who_comes_later() {
    let schema = "PRAGMA foreign_keys=OFF; CREATE TABLE p(id INTEGER PRIMARY KEY, v);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, p_id INT REFERENCES p(id));
                  INSERT INTO p VALUES(1, 0); INSERT INTO c VALUES(1, 1), (2, 6)";
    let world = World::new();
    let mut a = world.init_with("a", schema, &[("fk", "ignore")]);
    let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    for site in [&a, &b, &c] {
        site.app.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
    }
    c.run("INSERT INTO p VALUES(5, 'c'), (6, 'c')");
    // Written while nobody has the number, alone and in bulk, and when its row moves away.
    b.run("INSERT INTO c VALUES(5, 5); UPDATE c SET p_id = 5 WHERE id = 1");
    b.replica.fold().unwrap();
    b.run("INSERT INTO p VALUES(7, 'b'); INSERT INTO c VALUES(7, 7)");
    b.replica.fold().unwrap();
    b.run("UPDATE p SET id = 9 WHERE id = 7");
    b.replica.fold().unwrap();
    a.run("INSERT INTO p VALUES(5, 'a'), (6, 'a'), (7, 'a')");
    b.replica.pull_from(&mut a.replica, false).unwrap();
    c.run("INSERT INTO p VALUES(7, 'c')");
    for _ in 0..3 {
        c.replica.pull_from(&mut b.replica, false).unwrap();
        a.replica.pull_from(&mut c.replica, false).unwrap();
        b.replica.pull_from(&mut a.replica, false).unwrap();
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM c"), ["1|5", "2|6", "5|5", "7|7"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        assert_eq!(dump(&site.app, &["p"]), dump(&a.app, &["p"]));
    }
}

/// A reference to the row itself that a change of its key set to its default stays so when the row is
/// renumbered.
#[test]
fn a_default_for_a_changed_key_stays_when_the_row_is_renumbered() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY,
                      up INT REFERENCES n(id) ON DELETE NO ACTION ON UPDATE SET DEFAULT, v);
                  INSERT INTO n VALUES(101, NULL, 0), (102, 101, 0), (103, 103, 0)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO n VALUES(NULL, NULL, 27)");
    b.run("INSERT INTO n VALUES(104, 103, 15)");
    b.replica.fold().unwrap();
    b.run("UPDATE OR REPLACE n SET id = 104 WHERE id = 103");
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM n WHERE v = 0 AND id > 102"), ["105|NULL|0"]);
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM n WHERE v = 0 AND id > 102"), ["105|NULL|0"]);
    agree(&mut a, &mut b, &["n"]);
}

/// The same where the reference is declared after the value was written.
#[test]
fn a_value_that_named_nobody_when_it_became_a_reference_is_none() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, v);
                  CREATE TABLE c(id INTEGER PRIMARY KEY, p INT);
                  INSERT INTO p VALUES(1, 0); INSERT INTO c VALUES(1, 1), (2, 5)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.replica.set_policies(&[("c.refs".to_owned(), "p:p".to_owned())]).unwrap();
    b.pull(&mut a);
    a.run("INSERT INTO p VALUES(5, 'a')");
    b.run("INSERT INTO p VALUES(5, 'b')");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(b.rows("SELECT * FROM p"), ["1|0", "5|a", "6|b"]);
    assert_eq!(b.rows("SELECT * FROM c"), ["1|1", "2|5"]);
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
    let kinds: Vec<_> = a.replica.conflicts().unwrap().into_iter().map(|c| c.kind).collect();
    assert_eq!(kinds, [""; 0]);
    agree(&mut a, &mut b, &["a", "b"]);
}

/// A row that shows a key which no row has waits for that key, not for the one that was written: the key
/// may be that of another row, or the default.
#[test]
fn a_row_waits_for_the_key_that_it_would_show() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY); CREATE TABLE q(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, r TEXT REFERENCES p(k) REFERENCES q(k));
        INSERT INTO p VALUES('x'); INSERT INTO q VALUES('x')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE q SET k = 'y'");
    b.run("INSERT INTO c VALUES(1, 'x')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM c"), [""; 0]);
    b.run("INSERT INTO p VALUES('y')");
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|y"]);
    agree(&mut a, &mut b, &["p", "q", "c"]);

    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY,
                       r TEXT DEFAULT 'd' REFERENCES p(k) ON DELETE SET DEFAULT);
        INSERT INTO p VALUES('x')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM p");
    b.run("INSERT INTO c VALUES(1, 'x')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM c"), [""; 0]);
    a.run("INSERT INTO p VALUES('d')");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|d"]);
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
