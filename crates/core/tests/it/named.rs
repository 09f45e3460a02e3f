//! Rows that other rows name: a foreign key is part of their primary key. They share segments, and are
//! found through the keys that the other rows show.

use crate::keys::{agree, entries, pair};
use crate::site::{Site, World, dump, settle};
use rusqlite::Connection;
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

const SCHEMA: &str = "
    CREATE TABLE p(id INTEGER PRIMARY KEY, v);
    CREATE TABLE q(k TEXT PRIMARY KEY, v);
    CREATE TABLE c(p INT NOT NULL REFERENCES p ON UPDATE CASCADE ON DELETE CASCADE, n INT, v,
                   PRIMARY KEY(p, n), UNIQUE(n, p));
    CREATE TABLE d(m INT, q TEXT REFERENCES q ON UPDATE CASCADE ON DELETE CASCADE, p INT, n INT, v,
                   PRIMARY KEY(q, p, n, m),
                   FOREIGN KEY(n, p) REFERENCES c(n, p) ON UPDATE CASCADE ON DELETE CASCADE)";
const ROWS: &str = "
    INSERT INTO p VALUES (1, 1), (2, 2), (3, 3), (4, 4);
    INSERT INTO q VALUES ('a', 1), ('b', 2);
    INSERT INTO c SELECT p.id, n.value, 0 FROM p, json_each('[1,2]') AS n;
    INSERT INTO d SELECT 1, k, p, n, 0 FROM q, c";
const TABLES: [&str; 4] = ["p", "q", "c", "d"];

/// Both sites write to every row, so each must find it under the identity that the other means.
fn write_everywhere(a: &mut Site, b: &mut Site) {
    b.run("UPDATE c SET v = v || 'b'; UPDATE d SET v = v || 'b'");
    agree(a, b, &TABLES);
    a.run("UPDATE c SET v = v || 'a' WHERE n < 9; UPDATE d SET v = v || 'a' WHERE q = 'a'");
    b.run("UPDATE d SET m = m + 1000 WHERE q = 'b'");
    agree(a, b, &TABLES);
    let rows = "SELECT count(*) FROM c WHERE v NOT LIKE '%b%'";
    assert_eq!(a.row(rows), "0", "a row was not found");
}

#[test]
fn rows_that_were_only_inserted_have_no_entries() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SCHEMA);
    a.run(ROWS);
    a.replica.fold().unwrap();
    assert_eq!(entries(&a), "0");
    b.pull(&mut a);
    assert_eq!(entries(&b), "0");
    agree(&mut a, &mut b, &TABLES);
    write_everywhere(&mut a, &mut b);
    // Nor have those that were there before there was a replica.
    let path = world.path("c");
    Connection::open(&path).unwrap().execute_batch(&format!("{SCHEMA}; {ROWS}")).unwrap();
    Replica::init(&path, &InitOptions::default(), Arc::new(System)).unwrap();
    let mut c = world.open("c");
    assert_eq!(entries(&c), "0");
    let mut d = world.clone_site(&mut c, "d");
    write_everywhere(&mut c, &mut d);
}

#[test]
fn a_row_or_one_that_names_it_changes_in_every_way() {
    for statements in [
        "UPDATE p SET id = 10 WHERE id = 1",
        "UPDATE p SET id = 10 WHERE id = 1; INSERT INTO p VALUES (1, 5); INSERT INTO c VALUES (1, 3, 0)",
        "UPDATE p SET id = 10 WHERE id = 1; INSERT OR IGNORE INTO c VALUES (10, 1, 0)",
        "UPDATE p SET id = 9 WHERE id = 1; UPDATE p SET id = 1 WHERE id = 2; UPDATE p SET id = 2 WHERE id = 9",
        "UPDATE p SET id = -id",
        "DELETE FROM p WHERE id = 2",
        "DELETE FROM p WHERE id = 2; INSERT INTO p VALUES (2, 6); INSERT OR IGNORE INTO c VALUES (2, 1, 0)",
        "INSERT OR REPLACE INTO p VALUES (1, 7); INSERT OR IGNORE INTO c VALUES (1, 1, 0)",
        "UPDATE q SET k = 'z' WHERE k = 'a'",
        "DELETE FROM q WHERE k = 'a'; INSERT INTO q VALUES ('a', 8)",
        "UPDATE c SET n = n + 9 WHERE p = 3",
        "UPDATE c SET p = 4, n = n + 5 WHERE p = 3",
        "DELETE FROM c WHERE n = 1; INSERT INTO c VALUES (1, 1, 0)",
        "INSERT OR REPLACE INTO c VALUES (1, 1, 0)",
        "UPDATE d SET p = 1, n = 1, m = m + rowid WHERE q = 'b'",
        "UPDATE d SET q = 'b', m = m + rowid WHERE q = 'a'",
    ] {
        for (folds, enforced) in [(false, true), (true, true), (false, false), (true, false)] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, SCHEMA);
            a.run(ROWS);
            settle(&mut a, &mut b);
            assert_eq!(entries(&b), "0");
            a.run(if enforced { "" } else { "PRAGMA foreign_keys = OFF" });
            for statement in statements.split("; ") {
                a.run(statement);
                if folds {
                    a.replica.fold().unwrap();
                    assert_eq!(a.replica.verify().unwrap(), [""; 0], "{statement}");
                }
            }
            a.run("PRAGMA foreign_keys = ON");
            agree(&mut a, &mut b, &TABLES);
            write_everywhere(&mut a, &mut b);
        }
    }
}

#[test]
fn both_sites_name_rows_by_rows_of_one_number() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SCHEMA);
    a.run(ROWS);
    settle(&mut a, &mut b);
    for (site, v) in [(&a, "'a'"), (&b, "'b'")] {
        site.run(&format!(
            "INSERT INTO p VALUES (50, {v}); INSERT INTO c VALUES (50, 1, {v}), (1, 7, {v}); \
             INSERT INTO d VALUES (1, 'a', 50, 1, {v})"
        ));
    }
    agree(&mut a, &mut b, &TABLES);
    let named = "SELECT p.v, c.v, d.v FROM p JOIN c ON c.p = p.id JOIN d USING(p, n) WHERE p.id >= 50 ORDER BY p.v";
    assert_eq!(b.rows(named), ["a|a|a", "b|b|b"]);
    assert_eq!(b.row("SELECT count(*) FROM c WHERE n = 7"), "1", "one row at two sites");
    write_everywhere(&mut a, &mut b);
}

/// A value of the key may belong to a foreign key that has other columns besides. It follows the other
/// row, and the row is named by what it was.
#[test]
fn a_row_is_found_after_a_merge_that_changed_its_key() {
    for schema in [
        "CREATE TABLE p(x, y, PRIMARY KEY(x, y)); \
         CREATE TABLE c(x, y, n, v, PRIMARY KEY(x, n), FOREIGN KEY(x, y) REFERENCES p ON UPDATE CASCADE)",
        "CREATE TABLE p(x PRIMARY KEY, y); \
         CREATE TABLE c(x REFERENCES p ON UPDATE CASCADE, y, n, v, PRIMARY KEY(x, n))",
    ] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, schema);
        a.run(
            "INSERT INTO p VALUES (1, 1), (2, 1); INSERT INTO c VALUES (1, 1, 5, 0), (2, 1, 5, 0)",
        );
        settle(&mut a, &mut b);
        b.run("UPDATE p SET x = 8 WHERE x = 1");
        settle(&mut a, &mut b);
        b.run("UPDATE c SET v = 'b' WHERE x = 8");
        a.pull(&mut b);
        assert_eq!(a.rows("SELECT x, v FROM c ORDER BY x"), ["2|0", "8|b"], "{schema}");
        agree(&mut a, &mut b, &["p", "c"]);
        a.run("INSERT INTO p VALUES (1, 1); INSERT INTO c VALUES (1, 1, 5, 'a')");
        b.run("UPDATE c SET v = 'c'");
        agree(&mut a, &mut b, &["p", "c"]);
        assert_eq!(a.rows("SELECT x, v FROM c ORDER BY x"), ["1|a", "2|c", "8|c"], "{schema}");
    }
}

#[test]
fn foreign_keys_that_are_not_kept_any_more_leave_the_names_of_rows() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SCHEMA);
    a.run(ROWS);
    settle(&mut a, &mut b);
    a.replica.set_policies(&["fk=ignore".parse().unwrap()]).unwrap();
    a.replica.fold().unwrap();
    assert_ne!(entries(&a), "0");
    b.replica.pull_from(&mut a.replica, false).unwrap();
    assert_eq!(entries(&b), entries(&a));
    for site in [&a, &b] {
        site.run("PRAGMA foreign_keys = OFF");
    }
    a.run("DELETE FROM p WHERE id = 1; UPDATE p SET id = 20 WHERE id = 2");
    b.run("UPDATE c SET v = 'b' WHERE p < 3; UPDATE d SET v = 'b' WHERE p < 3");
    for _ in 0..2 {
        a.replica.pull_from(&mut b.replica, false).unwrap();
        b.replica.pull_from(&mut a.replica, false).unwrap();
    }
    assert_eq!(dump(&a.app, &TABLES), dump(&b.app, &TABLES));
    assert_eq!(a.row("SELECT count(*) FROM c WHERE v = 'b'"), "4");
    assert_eq!(a.row("SELECT count(*) FROM d WHERE v = 'b'"), "8");
}

#[test]
fn a_reference_that_is_declared_later_leaves_the_names_of_rows() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SCHEMA);
    a.run(ROWS);
    settle(&mut a, &mut b);
    a.replica.set_policies(&["d.refs=m:p".parse().unwrap()]).unwrap();
    b.pull(&mut a);
    write_everywhere(&mut a, &mut b);
    assert_eq!(a.row("SELECT count(*) FROM d"), "16");
}

/// The row that left its key is still a part of the names of those that show it, and of new ones.
#[test]
fn a_row_that_names_others_gets_another_key_while_the_triggers_are_gone() {
    let world = World::new();
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, u TEXT UNIQUE); \
                  CREATE TABLE c(u TEXT REFERENCES p(u), n INT, v, PRIMARY KEY(u, n))";
    let (mut a, mut b) = pair(&world, schema);
    a.run("INSERT INTO p VALUES (1, 'a'), (2, 'b'); INSERT INTO c VALUES ('a', 1, 0), ('b', 1, 0)");
    settle(&mut a, &mut b);
    a.run("PRAGMA foreign_keys = OFF");
    a.run(
        "CREATE TABLE n(id INTEGER PRIMARY KEY, u TEXT UNIQUE); \
         INSERT INTO n SELECT id, replace(u, 'a', 'z') FROM p; DROP TABLE p; \
         ALTER TABLE n RENAME TO p; INSERT INTO c VALUES ('z', 1, 'new')",
    );
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(b.row("SELECT v FROM c WHERE u = 'z'"), "new");
    b.run("UPDATE c SET v = v || 'b'");
    agree(&mut a, &mut b, &["p", "c"]);
    assert_eq!(a.rows("SELECT u, v FROM c ORDER BY u"), ["b|0b", "z|newb"]);
}

#[test]
fn a_table_that_names_rows_is_made_anew_or_goes() {
    let renumber = "CREATE TABLE n(id INTEGER PRIMARY KEY, v, w); \
                    INSERT INTO n SELECT id, v, 0 FROM p; DROP TABLE p; ALTER TABLE n RENAME TO p";
    let without = "CREATE TABLE n(p INT NOT NULL, n INT, v, PRIMARY KEY(p, n), UNIQUE(n, p)); \
                   INSERT INTO n SELECT * FROM c; DROP TABLE c; ALTER TABLE n RENAME TO c";
    for statements in [
        renumber,
        without,
        "ALTER TABLE p RENAME TO parent; ALTER TABLE parent RENAME COLUMN id TO number",
        "ALTER TABLE c RENAME COLUMN p TO parent; ALTER TABLE d RENAME TO deep",
    ] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, SCHEMA);
        a.run(ROWS);
        settle(&mut a, &mut b);
        for site in [&mut a, &mut b] {
            site.run("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = OFF");
            site.run(statements);
            site.run("PRAGMA foreign_keys = ON");
        }
        settle(&mut a, &mut b);
        let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%v%' \
                     AND name NOT LIKE 'synqlite%' ORDER BY name";
        let tables = a.rows(names);
        let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
        assert_eq!(tables.len(), 4);
        a.run("UPDATE c SET v = 'a'");
        b.run(&format!(
            "UPDATE {} SET v = 'b'",
            if tables.contains(&"deep") { "deep" } else { "d" }
        ));
        agree(&mut a, &mut b, &tables);
        assert_eq!(b.row("SELECT count(*), min(v), max(v) FROM c"), "8|a|a", "{statements}");
    }
}

/// REPLACE and a delete before an insert begin another life of a row. Children that the application
/// still shows, foreign keys being off, are children of the present one, everywhere.
#[test]
fn children_of_a_row_that_came_anew_with_foreign_keys_off_stay() {
    for action in ["CASCADE", "SET NULL", "SET DEFAULT", "NO ACTION"] {
        let schema = format!(
            "CREATE TABLE p(k TEXT PRIMARY KEY, v); \
             CREATE TABLE c(id INTEGER PRIMARY KEY, p DEFAULT 'y' REFERENCES p ON DELETE {action}, v)"
        );
        let world = World::new();
        let (mut a, mut b) = pair(&world, &schema);
        a.run("INSERT INTO p VALUES ('x', 1), ('y', 1); INSERT INTO c VALUES (1, 'x', 1), (2, 'y', 1)");
        settle(&mut a, &mut b);
        a.run("PRAGMA foreign_keys = OFF");
        a.run("UPDATE c SET p = p, v = 2; INSERT OR REPLACE INTO p VALUES ('x', 2)");
        a.run("DELETE FROM p WHERE k = 'y'; INSERT INTO p VALUES ('y', 2)");
        agree(&mut a, &mut b, &["p", "c"]);
        assert_eq!(b.rows("SELECT id, p, v FROM c"), ["1|x|2", "2|y|2"], "{action}");
        // With foreign keys on it is as SQLite has it.
        a.run("PRAGMA foreign_keys = ON");
        a.run(if action == "NO ACTION" { "" } else { "INSERT OR REPLACE INTO p VALUES ('x', 3)" });
        let shown = dump(&a.app, &["c"]);
        agree(&mut a, &mut b, &["p", "c"]);
        assert_eq!(dump(&b.app, &["c"]), shown, "{action}");
    }
}

/// A row may show a key for no other reason than that some row has it: its reference named nobody when
/// it was written, or an action gave it the default. It steps aside when that row goes.
#[test]
fn what_shows_a_key_by_value_alone_steps_aside_when_no_row_has_it() {
    for (ends, references) in [
        // The child was there before the parent.
        ("DELETE FROM p WHERE k = 'y'", "REFERENCES p"),
        ("UPDATE p SET k = 'z' WHERE k = 'y'", "REFERENCES p"),
        ("DELETE FROM p WHERE k = 'y'", "DEFAULT 'y' REFERENCES p ON DELETE SET DEFAULT"),
        ("UPDATE p SET k = 'z' WHERE k = 'y'", "DEFAULT 'y' REFERENCES p ON DELETE SET DEFAULT"),
    ] {
        let sets = references.starts_with("DEFAULT");
        let world = World::new();
        let schema = format!(
            "CREATE TABLE p(k TEXT PRIMARY KEY, v); \
             CREATE TABLE c(id INTEGER PRIMARY KEY, p {references}, v)"
        );
        let (mut a, mut b) = pair(&world, &schema);
        if sets {
            a.run("INSERT INTO p VALUES ('x', 1), ('y', 1); INSERT INTO c VALUES (1, 'x', 1)");
            settle(&mut a, &mut b);
            a.run("DELETE FROM p WHERE k = 'x'");
        } else {
            a.run("PRAGMA foreign_keys = OFF; INSERT INTO c VALUES (1, 'y', 1)");
            a.replica.fold().unwrap();
            a.run("INSERT INTO p VALUES ('y', 1)");
        }
        agree(&mut a, &mut b, &["p", "c"]);
        assert_eq!(a.rows("SELECT p FROM c"), ["y"], "{references}");
        a.run("PRAGMA foreign_keys = OFF");
        a.run(ends);
        a.replica.fold().unwrap();
        assert_eq!(a.rows("SELECT p FROM c"), [""; 0], "{references}: {ends}");
        agree(&mut a, &mut b, &["p", "c"]);
        a.run("INSERT INTO p VALUES ('y', 2)");
        agree(&mut a, &mut b, &["p", "c"]);
        assert_eq!(b.rows("SELECT p FROM c"), ["y"], "{references}: {ends}");
    }
}

/// A reference shows NULL, because its row is gone, and the program takes away the row of another one of
/// the same register. When the first row returns, the reference shows it again everywhere.
#[test]
fn a_reference_that_is_not_shown_outlives_the_loss_of_another_in_its_register() {
    let world = World::new();
    let schema = "CREATE TABLE doc(k TEXT PRIMARY KEY); CREATE TABLE tag(k TEXT PRIMARY KEY); \
                  CREATE TABLE j(doc TEXT REFERENCES doc, tag TEXT REFERENCES tag ON DELETE SET NULL, \
                                 PRIMARY KEY(doc, tag)); \
                  CREATE TABLE r(id INTEGER PRIMARY KEY, tag TEXT REFERENCES tag ON DELETE RESTRICT)";
    let (mut a, mut b) = pair(&world, schema);
    a.run("INSERT INTO doc VALUES ('x'); INSERT INTO tag VALUES ('y'); INSERT INTO j VALUES ('x', 'y')");
    settle(&mut a, &mut b);
    let mut c = world.clone_site(&mut a, "c");
    for site in [&a, &b] {
        site.run("PRAGMA foreign_keys = OFF");
    }
    a.run("DELETE FROM tag");
    agree(&mut a, &mut b, &["doc", "tag", "j"]);
    b.run("DELETE FROM doc");
    agree(&mut a, &mut b, &["doc", "tag", "j"]);
    assert_eq!(b.rows("SELECT doc, tag FROM j"), ["x|NULL"]);
    c.run("INSERT INTO r VALUES (1, 'y')");
    a.pull(&mut c);
    agree(&mut a, &mut b, &["doc", "tag", "j", "r"]);
    assert_eq!(b.rows("SELECT doc, tag FROM j"), ["x|y"]);
}

/// The row left its first key and the key that was replaced: references to either are orphans.
#[test]
fn a_row_gets_another_key_and_is_replaced_with_foreign_keys_off() {
    for action in ["CASCADE", "SET NULL", "NO ACTION"] {
        let world = World::new();
        let schema = format!(
            "CREATE TABLE p(k TEXT PRIMARY KEY, v); \
             CREATE TABLE c(id INTEGER PRIMARY KEY, \
                            p REFERENCES p ON DELETE {action} ON UPDATE {action}, v)"
        );
        let (mut a, mut b) = pair(&world, &schema);
        a.run("INSERT INTO p VALUES ('x', 1); INSERT INTO c VALUES (1, 'x', 1)");
        settle(&mut a, &mut b);
        a.run("PRAGMA foreign_keys = OFF");
        a.run("UPDATE p SET k = 'z'; INSERT OR REPLACE INTO p VALUES ('z', 2)");
        agree(&mut a, &mut b, &["p", "c"]);
        for site in [&a, &b] {
            assert_eq!(site.rows("PRAGMA foreign_key_check"), [""; 0], "{action}");
        }
    }
}
