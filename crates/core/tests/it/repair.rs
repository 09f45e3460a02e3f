//! Histories in which a merge or a fold was once at fault, each as short as it can be.

mod circles;
mod early;
mod histories;
mod kept;
mod moved;
mod reasons;
mod states;
mod taken;

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
        site.replica.records().unwrap().into_iter().map(|c| (c.id, c.kind)).collect()
    };
    assert_eq!(ids(a), ids(b));
    for site in [a, b] {
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
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
    let records = a.replica.records().unwrap();
    assert_eq!((records.len(), records[0].kind.as_str()), (1, "fk_dangling"));
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
    assert_eq!(a.replica.records().unwrap()[0].kind.as_str(), "row_constraint");
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

/// Under RESTRICT and NO ACTION there is no former life, so REPLACE writes only what it changes.
#[test]
fn a_replaced_row_that_refers_to_itself_is_changed_by_others() {
    let schema = "CREATE TABLE n(id INTEGER PRIMARY KEY, up INT REFERENCES n(id), v);
                  INSERT INTO n VALUES(3, 3, 0)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE n SET up = NULL");
    a.run("INSERT OR REPLACE INTO n VALUES(3, 3, 9)");
    agree(&mut a, &mut b, &["n"]);
    assert_eq!(a.rows("SELECT * FROM n"), ["3|NULL|9"]);
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

/// A key that is only spelled otherwise, or written with another column of its group, overrides no
/// reference: SQLite sees no change of it. What it overrode before stays so.
#[test]
fn a_key_that_stays_the_same_overrides_no_references() {
    let schema =
        "CREATE TABLE p(k TEXT COLLATE NOCASE PRIMARY KEY, n INT UNIQUE, m INT, CHECK(n < m));
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON UPDATE SET NULL,
                       n INT REFERENCES p(n) ON UPDATE SET NULL);
        INSERT INTO p VALUES('a', 1, 10), ('b', 2, 10); INSERT INTO c VALUES(1, 'a', 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("UPDATE p SET k = 'A', m = 11 WHERE k = 'a'");
    b.run("INSERT INTO c VALUES(2, 'a', 1)");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|a|1", "2|a|1"]);
    for set in ["k = 'x', n = 3", "k = 'X', m = 12"] {
        a.run(&format!("UPDATE p SET {set} WHERE k <> 'b'"));
        a.replica.fold().unwrap();
        assert_eq!(a.rows("SELECT * FROM c"), ["1|NULL|NULL", "2|NULL|NULL"]);
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    }
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

/// What is written with a number that becomes permanent is as old as that, not as the latest write of its
/// fold: who wrote the reference meanwhile wrote it later. Nor is it later where the row with the number is
/// deleted in that fold, which would hide who was seen to refer to nobody.
#[test]
fn what_is_written_with_a_pinned_number_is_no_later_than_the_number() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, v);
        CREATE TABLE c(k TEXT PRIMARY KEY,
            p INT REFERENCES p(id) ON DELETE CASCADE ON UPDATE SET NULL);
        INSERT INTO p VALUES(1, 0); INSERT INTO c VALUES('c', 1)";
    for (refers, then, shown) in [
        ("UPDATE c SET p = 1", "INSERT INTO p VALUES(9, 0)", "c|6"),
        ("UPDATE c SET p = 5", "DELETE FROM p WHERE id = 6", "c|5"),
    ] {
        let (_world, mut a, mut b) = pair(schema, &[]);
        b.run("INSERT INTO p VALUES(5, 0)");
        a.run("UPDATE p SET id = 5");
        a.pull(&mut b);
        assert_eq!(a.rows("SELECT id FROM p"), ["5", "6"]);
        b.run("UPDATE c SET p = NULL");
        b.replica.fold().unwrap();
        b.run(refers);
        b.replica.fold().unwrap();
        a.run(then);
        b.pull(&mut a);
        assert_eq!(b.rows("SELECT * FROM c"), [shown]);
        agree(&mut a, &mut b, &["p", "c"]);
    }
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
    // Who gives it another key had not seen it go.
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("UPDATE p SET a = NULL, b = 1 WHERE id = 1");
    b.replica.fold().unwrap();
    a.run("UPDATE p SET a = 'z' WHERE id = 1");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT * FROM c"), ["1|z|1", "2|z|1"]);
}

/// To SQLite such a child refers to nobody. What its user sees of it stays when its parent gets another
/// key, or goes.
#[test]
fn a_reference_that_followed_to_a_key_with_a_null_ends_with_that_key() {
    let writes = [
        "UPDATE p SET a = 'z'",
        "UPDATE p SET b = 7",
        "DELETE FROM p",
        "DELETE FROM p; INSERT INTO p VALUES(1, 'z', 1)",
        "REPLACE INTO p VALUES(1, 'z', 1)",
    ];
    for action in ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"] {
        let schema = format!(
            "CREATE TABLE p(id INTEGER PRIMARY KEY, a TEXT, b INT, UNIQUE(a, b));
             CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT, y INT, FOREIGN KEY(x, y)
                REFERENCES p(a, b) ON UPDATE CASCADE ON DELETE {action});
             INSERT INTO p VALUES(1, 'x', 0); INSERT INTO c VALUES(1, 'x', 0)"
        );
        for write in writes {
            let (_world, mut a, mut b) = pair(&schema, &[]);
            a.run("UPDATE p SET a = NULL, b = 1");
            agree(&mut a, &mut b, &["p", "c"]);
            assert_eq!(b.rows("SELECT * FROM c"), ["1|NULL|1"]);
            b.run(write);
            b.replica.fold().unwrap();
            assert_eq!(b.rows("SELECT * FROM c"), ["1|NULL|1"], "{action}: {write}");
            agree(&mut a, &mut b, &["p", "c"]);
            assert_eq!(a.rows("SELECT * FROM c"), ["1|NULL|1"], "{action}: {write}");
            assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{action}: {write}");
        }
    }
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
    a.replica.set_policies(&["c.refs=p:p".parse().unwrap()]).unwrap();
    b.pull(&mut a);
    a.run("INSERT INTO p VALUES(5, 'a')");
    b.run("INSERT INTO p VALUES(5, 'b')");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(b.rows("SELECT * FROM p"), ["1|0", "5|a", "6|b"]);
    assert_eq!(b.rows("SELECT * FROM c"), ["1|1", "2|5"]);
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

/// A reference that a delete set to its default follows the row that it shows by a write: what was
/// written is to another row, and nobody has the default any more.
#[test]
fn a_default_follows_the_row_that_had_it() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT NOT NULL DEFAULT 'x'
                       REFERENCES p(k) ON DELETE SET DEFAULT ON UPDATE CASCADE);
        INSERT INTO p VALUES('x'), ('y'); INSERT INTO c VALUES(1, 'y')";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("DELETE FROM p WHERE k = 'y'");
    a.replica.fold().unwrap();
    a.run("UPDATE p SET k = 'z'");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(b.rows("SELECT * FROM c"), ["1|z"]);
}

/// What a row fell back to follows without one, so what it lost is not given up.
#[test]
fn a_former_reference_follows_without_a_write() {
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON UPDATE CASCADE, slot INT,
                       UNIQUE(p, slot));
        INSERT INTO p VALUES('x'), ('y'); INSERT INTO c VALUES(2, 'y', 1)";
    let (_world, mut a, mut b) = pair(schema, &[]);
    a.run("INSERT INTO c VALUES(3, 'x', 1)");
    b.run("UPDATE c SET p = 'x' WHERE id = 2");
    b.pull(&mut a);
    b.run("UPDATE p SET k = 'z' WHERE k = 'y'");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM c"), ["2|z|1", "3|x|1"]);
    b.run("DELETE FROM c WHERE id = 3");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM c"), ["2|x|1"]);
    agree(&mut a, &mut b, &["p", "c"]);
}

/// A policy comes before the rows that were written under it.
#[test]
fn a_reference_is_known_by_the_policy_that_comes_with_it() {
    let (_world, mut a, mut b) = pair("CREATE TABLE t(k INTEGER PRIMARY KEY, n INT)", &[]);
    a.run("INSERT INTO t VALUES(4, 2)");
    b.replica.set_policies(&["t.refs=n:t".parse().unwrap()]).unwrap();
    b.run("INSERT INTO t VALUES(4, 4)");
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.rows("SELECT * FROM t"), ["4|2", "5|5"]);
}

/// A row that is hidden for a number nobody has takes its own number from a later row, which then has
/// the one that was missed.
#[test]
fn a_hidden_row_gets_the_number_that_it_refers_to() {
    let schema = "CREATE TABLE t(k INTEGER PRIMARY KEY, r INT REFERENCES t(k))";
    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(1, 2)");
    a.run("INSERT INTO t VALUES(1, NULL)");
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.rows("SELECT * FROM t"), ["1|2", "2|NULL"]);

    let (_world, mut a, mut b) = pair(schema, &[]);
    b.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(1, 2)");
    a.pull(&mut b);
    a.run("INSERT INTO t VALUES(1, NULL)");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    agree(&mut a, &mut b, &["t"]);
}

/// Three rows of three sites, each of which is shown only because of the next.
#[test]
fn hidden_rows_that_need_each_other_are_shown_together() {
    let schema = "CREATE TABLE t(k INTEGER PRIMARY KEY, r INT REFERENCES t(k))";
    let (world, mut a, mut b) = pair(schema, &[]);
    let mut c = world.clone_site(&mut a, "c");
    b.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(3, 1)");
    c.run("INSERT INTO t VALUES(3, NULL)");
    a.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(1, 4)");
    a.pull(&mut b);
    a.pull(&mut c);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    b.pull(&mut c);
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.rows("SELECT * FROM t"), ["1|4", "3|1", "4|NULL"]);
}

/// What was written before a policy is read as it stood, and what was written under it as that says.
#[test]
fn a_policy_that_comes_with_rows_reads_what_was_written_here_too() {
    let (_world, mut a, mut b) = pair("CREATE TABLE t(k INTEGER PRIMARY KEY, n INT)", &[]);
    a.run("INSERT INTO t VALUES(4, 2)");
    b.run("INSERT INTO t VALUES(4, 4)");
    a.replica.set_policies(&["t.refs=n:t".parse().unwrap()]).unwrap();
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.rows("SELECT * FROM t"), ["4|2", "5|5"]);
}

/// A number that is pinned while a policy is taken over is pinned after all that came with it.
#[test]
fn numbers_pinned_for_a_policy_are_told_to_all() {
    let (world, mut a, mut b) = pair("CREATE TABLE t(k INTEGER PRIMARY KEY, n INT)", &[]);
    let mut c = world.clone_site(&mut a, "c");
    b.run("INSERT INTO t VALUES(1, NULL)");
    a.run("INSERT INTO t VALUES(1, NULL)");
    a.replica.set_policies(&["t.refs=n:t".parse().unwrap()]).unwrap();
    b.pull(&mut a);
    c.pull(&mut b);
    agree(&mut a, &mut b, &["t"]);
    agree(&mut a, &mut c, &["t"]);
}

/// A change of a column that refers to itself follows no other change.
#[test]
fn a_column_that_refers_to_itself_is_written() {
    for action in ["", "ON UPDATE CASCADE", "ON DELETE SET NULL"] {
        let schema = format!(
            "CREATE TABLE t(k TEXT PRIMARY KEY, u INT UNIQUE REFERENCES t(u) {action});
             INSERT INTO t VALUES('x', 5)"
        );
        let (_world, mut a, mut b) = pair(&schema, &[]);
        a.run("UPDATE t SET u = 4");
        agree(&mut a, &mut b, &["t"]);
        assert_eq!(b.row("SELECT u FROM t"), "4", "{action}");
    }
}
