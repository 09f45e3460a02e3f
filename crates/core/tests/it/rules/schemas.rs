//! Sites whose schemas differ, for a while or for good.

use super::Pair;
use crate::site::{Site, settle};

const ITEM: &str =
    "CREATE TABLE item(id TEXT PRIMARY KEY, name, v); INSERT INTO item VALUES('i', 'n', 0)";

#[test]
fn r_mig_sites_at_different_versions_keep_synchronizing() {
    let mut pair = Pair::new(ITEM);
    pair.apart(
        "ALTER TABLE item ADD COLUMN extra; UPDATE item SET extra = 1, name = 'a'",
        "UPDATE item SET v = 7",
    );
    settle(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.rows("SELECT * FROM item"), ["i|a|7|1"]);
    assert_eq!(pair.b.rows("SELECT * FROM item"), ["i|a|7"]);
}

#[test]
fn r_mig_add_a_new_column_shows_its_default_until_somebody_writes_it() {
    let mut pair = Pair::new(ITEM);
    let add = "ALTER TABLE item ADD COLUMN stars INT DEFAULT 3";
    pair.apart(&format!("{add}; UPDATE item SET stars = 5"), add);
    pair.show("SELECT stars FROM item", &["5"], &[]);
}

#[test]
fn r_mig_rename_the_old_name_and_the_new_one_are_the_same() {
    let mut pair = Pair::new(ITEM);
    pair.a.run("ALTER TABLE item RENAME COLUMN name TO title");
    pair.a.replica.fold().unwrap();
    pair.apart("UPDATE item SET title = 'a'", "UPDATE item SET v = 1");
    settle(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.rows("SELECT title, v FROM item"), ["a|1"]);
    assert_eq!(pair.b.rows("SELECT name, v FROM item"), ["a|1"]);
}

#[test]
fn r_mig_stash_what_a_site_cannot_show_it_keeps_and_gives_on() {
    let mut pair = Pair::new(ITEM);
    let mut c = pair.world.clone_site(&mut pair.a, "c");
    let add = "ALTER TABLE item ADD COLUMN extra";
    pair.a.run(&format!("{add}; UPDATE item SET extra = 'x'"));
    pair.b.pull(&mut pair.a);
    c.run(add);
    c.pull(&mut pair.b);
    assert_eq!(c.rows("SELECT extra FROM item"), ["x"]);
    pair.b.run(add);
    pair.b.replica.fold().unwrap();
    assert_eq!(pair.b.rows("SELECT extra FROM item"), ["x"]);
}

#[test]
fn r_mig_drop_a_dropped_column_is_out_of_sight_and_stays_elsewhere() {
    let mut pair = Pair::new(ITEM);
    pair.apart("ALTER TABLE item DROP COLUMN name", "UPDATE item SET name = 'b', v = 2");
    settle(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.rows("SELECT * FROM item"), ["i|2"]);
    assert_eq!(pair.b.rows("SELECT * FROM item"), ["i|b|2"]);
}

#[test]
fn r_mig_again_a_column_that_is_added_again_has_its_default_written() {
    let mut pair = Pair::new(ITEM);
    let again = "ALTER TABLE item DROP COLUMN v; ALTER TABLE item ADD COLUMN v DEFAULT 3";
    pair.apart("UPDATE item SET v = 2", "UPDATE item SET name = 'b'");
    settle(&mut pair.a, &mut pair.b);
    pair.b.run(again);
    pair.show("SELECT name, v FROM item", &["b|3"], &[]);
}

#[test]
fn r_follow_a_dropped_index_lets_rows_return() {
    let mut pair =
        Pair::new("CREATE TABLE t(id TEXT PRIMARY KEY, e); CREATE UNIQUE INDEX i ON t(e)");
    pair.apart("INSERT INTO t VALUES('k1', 'x')", "INSERT INTO t VALUES('k2', 'x')");
    pair.show("SELECT id FROM t", &["k1"], &["unique"]);
    pair.apart("DROP INDEX i", "DROP INDEX i");
    pair.show("SELECT id FROM t", &["k1", "k2"], &[]);
}

#[test]
fn r_follow_a_policy_counts_for_what_was_written_before() {
    let mut pair = Pair::new(
        "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
         CREATE TABLE note(id TEXT PRIMARY KEY, tag INT REFERENCES tag(id))",
    );
    pair.apart(
        "INSERT INTO tag VALUES(1, 'red'); INSERT INTO note VALUES('a', 1)",
        "INSERT INTO tag VALUES(5, 'red'); INSERT INTO note VALUES('b', 5)",
    );
    let notes = "SELECT * FROM note ORDER BY id";
    pair.show(notes, &["a|1"], &["fk_parent_hidden", "unique"]);
    let set = |site: &mut Site, value: &str| {
        let policy = format!("tag.on_unique={value}").parse().unwrap();
        site.replica.set_policies(&[policy]).unwrap();
    };
    set(&mut pair.a, "unify");
    assert_eq!(pair.a.rows(notes), ["a|1", "b|1"]);
    pair.show(notes, &["a|1", "b|1"], &["unique"]);
    set(&mut pair.b, "quarantine");
    pair.show(notes, &["a|1"], &["fk_parent_hidden", "unique"]);
}

#[test]
fn r_follow_a_value_is_shown_as_the_column_stores_it() {
    let mut pair = Pair::new("CREATE TABLE t(id TEXT PRIMARY KEY, v TEXT, w TEXT)");
    pair.a.run("ALTER TABLE t ADD COLUMN x INT");
    pair.b.run("ALTER TABLE t ADD COLUMN x TEXT");
    pair.a.run("INSERT INTO t VALUES('a', 1, 1, 7)");
    pair.b.run("INSERT INTO t VALUES('b', 2, 2, '08')");
    settle(&mut pair.a, &mut pair.b);
    let shown = "SELECT id, quote(x) FROM t ORDER BY id";
    assert_eq!(pair.a.rows(shown), ["a|7", "b|8"]);
    assert_eq!(pair.b.rows(shown), ["a|'7'", "b|'08'"]);
    for site in [&pair.a, &pair.b] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

#[test]
fn r_unfit_a_row_that_a_table_cannot_hold_is_hidden_and_given_on() {
    let mut pair =
        Pair::new("CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'a')");
    pair.b.run(
        "CREATE TABLE n(id TEXT PRIMARY KEY, v); INSERT INTO n SELECT * FROM t; DROP TABLE t;
         ALTER TABLE n RENAME TO t; INSERT INTO t VALUES('abc', 'b')",
    );
    pair.a.run("INSERT INTO t VALUES(2, 'c')");
    settle(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.rows("SELECT * FROM t"), ["1|a", "2|c"]);
    assert_eq!(super::kinds(&pair.a), ["row_constraint"]);
    assert_eq!(pair.b.rows("SELECT * FROM t ORDER BY 1"), ["1|a", "2|c", "abc|b"]);
    assert_eq!(super::kinds(&pair.b), [""; 0]);
}

#[test]
fn r_mig_rebuild_what_nobody_wrote_keeps_its_stamp() {
    let rebuild = "CREATE TABLE n(id TEXT PRIMARY KEY, v, name); INSERT INTO n SELECT id, v, name \
                   FROM item; DROP TABLE item; ALTER TABLE n RENAME TO item";
    let mut pair = Pair::new(ITEM);
    pair.apart(
        &format!("{rebuild}; UPDATE item SET v = 1"),
        &format!("{rebuild}; UPDATE item SET name = 'b'"),
    );
    pair.show("SELECT id, name, v FROM item", &["i|b|1"], &[]);
}

/// A rebuild of `c` with these columns.
fn remade(columns: &str) -> String {
    format!(
        "PRAGMA foreign_keys = OFF; CREATE TABLE n({columns}); INSERT INTO n SELECT * FROM c;
         DROP TABLE c; ALTER TABLE n RENAME TO c; PRAGMA foreign_keys = ON"
    )
}

#[test]
fn r_mig_fk_a_value_means_what_its_writer_saw_when_a_foreign_key_comes_or_goes() {
    let (plain, bound) = ("id TEXT PRIMARY KEY, p INT", "id TEXT PRIMARY KEY, p INT REFERENCES p");
    // Where 'y' is written with the foreign key or gets it before row 'b' gets number 2, it follows.
    for (before, after, first, y) in [
        (plain, bound, "a", "y|1"),
        (plain, bound, "b", "y|2"),
        (plain, bound, "ab", "y|2"),
        (bound, plain, "a", "y|2"),
        (bound, plain, "b", "y|1"),
        (bound, plain, "ab", "y|1"),
    ] {
        let tables = format!("CREATE TABLE p(id INTEGER PRIMARY KEY, v); CREATE TABLE c({before})");
        let mut pair = Pair::new(&tables);
        pair.apart(
            "INSERT INTO p VALUES(1, 'a'); INSERT INTO c VALUES('x', 1)",
            "INSERT INTO p VALUES(1, 'b'); INSERT INTO c VALUES('y', 1)",
        );
        let migrate = |pair: &mut Pair, early: bool| {
            for (name, site) in [("a", &pair.a), ("b", &pair.b)] {
                if first.contains(name) == early {
                    site.run(&remade(after));
                }
            }
        };
        migrate(&mut pair, true);
        settle(&mut pair.a, &mut pair.b);
        migrate(&mut pair, false);
        pair.show("SELECT id, p FROM c ORDER BY id", &["x|1", y], &[]);
    }
}

#[test]
fn r_mig_fk_a_reference_travels_through_a_site_without_the_foreign_key() {
    let (plain, bound) = ("id TEXT PRIMARY KEY, p INT", "id TEXT PRIMARY KEY, p INT REFERENCES p");
    let tables = format!("CREATE TABLE p(id INTEGER PRIMARY KEY, v); CREATE TABLE c({plain})");
    let mut pair = Pair::new(&tables);
    let mut c = pair.world.clone_site(&mut pair.a, "c");
    pair.b.run(&remade(bound));
    c.run(&remade(bound));
    c.run("INSERT INTO p VALUES(1, 'c')");
    pair.b.run("INSERT INTO p VALUES(1, 'b'); INSERT INTO c VALUES('y', 1)");
    pair.a.pull(&mut pair.b);
    c.pull(&mut pair.a);
    assert_eq!(c.row("SELECT p FROM c"), "2");
    pair.a.run(&remade(bound));
    settle(&mut pair.a, &mut c);
    pair.show("SELECT id, p FROM c", &["y|2"], &[]);
}

#[test]
fn r_mig_fk_a_foreign_key_is_later_than_the_key_that_it_finds() {
    for action in ["ON UPDATE SET DEFAULT", "ON UPDATE SET NULL", "ON DELETE SET NULL"] {
        let tables =
            "CREATE TABLE p(id TEXT PRIMARY KEY, v); CREATE TABLE c(id TEXT PRIMARY KEY, p);
                      INSERT INTO p VALUES('1.0', 'a'), ('3', 'b');";
        let mut pair = Pair::new(tables);
        pair.apart("INSERT INTO c VALUES('x', '1'), ('y', '3')", "INSERT INTO c VALUES('z', '1')");
        pair.a.replica.fold().unwrap();
        pair.a.run("UPDATE p SET id = '1' WHERE id = '1.0'; DELETE FROM p WHERE id = '3'");
        pair.a.replica.fold().unwrap();
        pair.a.run("INSERT INTO p VALUES('3', 'c')");
        settle(&mut pair.a, &mut pair.b);
        let bound = remade(&format!("id TEXT PRIMARY KEY, p REFERENCES p {action}"));
        pair.apart(&bound, &bound);
        pair.show("SELECT id, p FROM c ORDER BY id", &["x|1", "y|3", "z|1"], &[]);
        assert_eq!(pair.b.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A default means a row as well: that which has the key when the column comes.
#[test]
fn r_mig_fk_the_default_of_a_new_reference_is_to_a_row() {
    let tables =
        "CREATE TABLE p(id TEXT PRIMARY KEY, n INT UNIQUE); CREATE TABLE c(id TEXT PRIMARY KEY);
        INSERT INTO p VALUES('x', 2); INSERT INTO c VALUES('k')";
    let (moves, dies) = ("UPDATE p SET n = 3; INSERT INTO p VALUES('y', 2)", "DELETE FROM p");
    for (write, action, shown, records) in [
        (moves, "", &["k|3"][..], &[][..]),
        ("UPDATE p SET n = 3", "ON UPDATE SET NULL", &["k|NULL"], &[]),
        (dies, "", &["k|2"], &["restrict_revived"]),
        (dies, "ON DELETE CASCADE", &[], &["fk_cascade"]),
        (dies, "ON DELETE SET NULL", &["k|NULL"], &[]),
    ] {
        let reference = format!("r INTEGER DEFAULT 2 REFERENCES p(n) {action}");
        let adds = format!(
            "PRAGMA foreign_keys = OFF; ALTER TABLE c ADD COLUMN {reference}; PRAGMA foreign_keys = ON"
        );
        let columns = format!("id TEXT PRIMARY KEY, {reference}");
        let rebuilds = remade(&columns).replace("INTO n SELECT *", "INTO n(id) SELECT id");
        for (by, first) in [(&adds, true), (&rebuilds, true), (&adds, false), (&rebuilds, false)] {
            let mut pair = Pair::new(tables);
            pair.apart(by, write);
            pair.b.replica.fold().unwrap();
            if first {
                pair.b.pull(&mut pair.a);
            }
            pair.b.run(by);
            pair.show("SELECT id, r FROM c", shown, records);
        }
    }
}

/// What stands in a column that becomes a reference was to nobody before, whenever the fold runs.
#[test]
fn r_mig_fk_no_value_follows_by_a_foreign_key_that_is_new() {
    for (tables, copied) in [
        ("CREATE TABLE c(id TEXT PRIMARY KEY, p INT); INSERT INTO c VALUES('k', 2)", "*"),
        ("CREATE TABLE c(id TEXT PRIMARY KEY); INSERT INTO c VALUES('k')", "*, 2"),
    ] {
        for folds in [false, true] {
            let tables =
                format!("CREATE TABLE p(n INTEGER PRIMARY KEY); INSERT INTO p VALUES(2); {tables}");
            let mut pair = Pair::new(&tables);
            pair.b.run("UPDATE p SET n = 3");
            if folds {
                pair.b.replica.fold().unwrap();
            }
            let bound = remade("id TEXT PRIMARY KEY, p INT DEFAULT 2 REFERENCES p");
            let bound = bound.replace("SELECT *", &format!("SELECT {copied}"));
            pair.b.run(&bound);
            pair.b.replica.fold().unwrap();
            pair.a.pull(&mut pair.b);
            pair.a.run(&bound);
            pair.show("SELECT id, p FROM c", &[], &["fk_dangling"]);
        }
    }
}

#[test]
fn r_mig_fk_a_site_says_nothing_of_what_it_was_told_and_shows() {
    for end in ["", " WITHOUT ROWID"] {
        let (plain, bound) = (
            "id INT PRIMARY KEY, p INT",
            "id INT PRIMARY KEY, p INT REFERENCES p ON UPDATE CASCADE",
        );
        let tables = format!(
            "CREATE TABLE p(id INTEGER PRIMARY KEY, v); CREATE TABLE c({plain}){end};
             WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 30)
             INSERT INTO p(id) SELECT i FROM n;
             WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
             INSERT INTO c SELECT i, CASE WHEN i % 7 THEN 1 + i % 30 END FROM n"
        );
        let mut pair = Pair::new(&tables);
        pair.apart(
            "UPDATE c SET p = 2 WHERE id % 50 = 0; DELETE FROM c WHERE id = 9; INSERT INTO p VALUES(31, 'a');
             INSERT INTO c VALUES(1501, 31)",
            "UPDATE c SET p = 3 WHERE id % 50 = 7; INSERT INTO p VALUES(31, 'b'); INSERT INTO c VALUES(1502, 31)",
        );
        settle(&mut pair.a, &mut pair.b);
        let rows = "SELECT id, p FROM c ORDER BY id";
        let before = pair.a.rows(rows);
        let remade = remade(bound).replace(");", &format!("){end};"));
        pair.a.run(&remade);
        settle(&mut pair.a, &mut pair.b);
        pair.b.run(&remade);
        let heard = pair.b.replica.pull_from(&mut pair.a.replica, false).unwrap();
        let told = pair.a.replica.pull_from(&mut pair.b.replica, false).unwrap();
        assert_eq!((heard.rows, told.rows), (0, 0), "{end}");
        for table in ["synqlite_stash", "synqlite_reference"] {
            assert_eq!(pair.b.row(&format!("SELECT count(*) FROM {table}")), "0");
        }
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        pair.show(rows, &before, &[]);
        pair.a.run("UPDATE p SET id = 77 WHERE id = 5");
        settle(&mut pair.a, &mut pair.b);
        assert_eq!(pair.a.rows(rows), pair.b.rows(rows));
        assert_eq!(pair.b.row("SELECT count(*) > 20 FROM c WHERE p = 77"), "1");
    }
}

#[test]
fn r_mig_fk_what_was_told_of_a_former_life_is_of_it() {
    let (plain, bound) =
        ("id TEXT PRIMARY KEY, p", "id TEXT PRIMARY KEY, p REFERENCES p ON DELETE CASCADE");
    let tables = format!("CREATE TABLE p(id TEXT PRIMARY KEY, v); CREATE TABLE c({plain})");
    let mut pair = Pair::new(&tables);
    pair.apart("INSERT INTO p VALUES('1', 'a'); INSERT INTO c VALUES('x', '1')", "");
    pair.a.run(&remade(bound));
    settle(&mut pair.a, &mut pair.b);
    pair.b.run("DELETE FROM p");
    pair.b.replica.fold().unwrap();
    pair.b.run("INSERT INTO p VALUES('1', 'b')");
    settle(&mut pair.a, &mut pair.b);
    pair.b.run(&remade(bound));
    pair.show("SELECT id, p FROM c", &[], &["fk_cascade"]);
}
