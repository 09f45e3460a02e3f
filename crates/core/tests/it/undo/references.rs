//! References that actions took from rows, and what they are to after an undo.

use super::{historical, now, of_row, since, undo, with};
use crate::site::{World, settle};
use synqlite_core::{Environment as _, InitOptions, Policy, Selection, System};

const PARENT: &str =
    "CREATE TABLE p(id INTEGER PRIMARY KEY, v TEXT); INSERT INTO p VALUES(1, 'x'), (2, 'y');";

/// A parent that is written again under its key loses its references, and has them again.
#[test]
fn a_row_that_was_written_again_has_its_references_again() {
    for action in ["SET NULL", "SET DEFAULT", "CASCADE"] {
        for again in [
            "REPLACE INTO p VALUES(1, 'new')",
            "REPLACE INTO p VALUES(1, 'x')",
            "DELETE FROM p WHERE id = 1; INSERT INTO p VALUES(1, 'new')",
            "REPLACE INTO p VALUES(1, 'new'); UPDATE c SET v = 'd' WHERE id = 1",
            "REPLACE INTO p VALUES(1, 'new'); DELETE FROM c WHERE id = 1",
            "DELETE FROM c WHERE id = 1; REPLACE INTO p VALUES(1, 'new')",
            "REPLACE INTO p VALUES(1, 'new'); DELETE FROM p WHERE id = 1",
        ] {
            let world = World::new();
            let sql = format!(
                "{PARENT} CREATE TABLE c(id INTEGER PRIMARY KEY,
                   p INT DEFAULT 2 REFERENCES p(id) ON DELETE {action}, v TEXT);
                 INSERT INTO c VALUES(1, 1, 'c'), (3, 2, 'other');"
            );
            let mut a = historical(&world, "a", &sql);
            let mut b = world.clone_site(&mut a, "b");
            b.run("INSERT INTO c VALUES(2, 1, 'theirs')");
            settle(&mut a, &mut b);
            let t = now();
            a.run(again);
            let done = undo(&mut a, &since(t));
            assert!(!done.iter().any(|line| line.starts_with("left")), "{again}: {done:?}");
            settle(&mut a, &mut b);
            for site in [&mut a, &mut b] {
                assert_eq!(site.rows("SELECT * FROM p"), ["1|x", "2|y"], "{action}: {again}");
                let want = ["1|1|c", "2|1|theirs", "3|2|other"];
                assert_eq!(site.rows("SELECT * FROM c"), want, "{action}: {again}");
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            }
            assert_eq!(undo(&mut a, &since(t)), [""; 0], "{action}: {again}");
        }
    }
}

/// What was lost before, or written since, is not given back.
#[test]
fn a_reference_that_was_lost_before_or_written_since_stays() {
    let world = World::new();
    let sql = format!(
        "{PARENT} CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) ON DELETE SET NULL);
         INSERT INTO c VALUES(1, 1)"
    );
    let mut a = historical(&world, "a", &sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("REPLACE INTO p VALUES(1, 'z')");
    a.run("INSERT INTO c VALUES(2, 1), (3, 1)");
    settle(&mut a, &mut b);
    let t = now();
    a.run("REPLACE INTO p VALUES(1, 'new')");
    settle(&mut a, &mut b);
    b.run("UPDATE c SET p = 2 WHERE id = 3");
    settle(&mut a, &mut b);
    let want = ["c 2 update p=1", "p 1 update v='z'", "left c 3 p: written since"];
    let mut done = undo(&mut a, &since(t));
    done.sort_by_key(|line| (line.starts_with("left"), line.clone()));
    assert_eq!(done, want);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM c"), ["1|NULL", "2|1", "3|2"]);
    }
    // The latest change of the parent alone is enough.
    a.run("REPLACE INTO p VALUES(1, 'again')");
    assert_eq!(undo(&mut a, &of_row("p", "1")), ["p 1 update v='z'", "c 2 update p=1"]);
}

/// A reference that a key took before what is taken back is not given back with it.
#[test]
fn a_reference_that_another_key_took_before_stays_lost() {
    let world = World::new();
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY); INSERT INTO p VALUES('a');
         CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(id) ON UPDATE SET NULL);
         INSERT INTO c VALUES(1, 'a')";
    let mut a = historical(&world, "a", sql);
    a.run("UPDATE p SET id = 'b'; INSERT INTO c VALUES(2, 'b')");
    a.replica.fold().unwrap();
    let t = now();
    a.run("UPDATE p SET id = 'c'");
    undo(&mut a, &since(t));
    assert_eq!(a.rows("SELECT p.id, c.* FROM p, c"), ["b|1|NULL", "b|2|b"]);
}

/// A row that is taken back itself has the references that it held, whatever took them and when.
#[test]
fn a_row_that_is_back_refers_to_a_key_that_is_back() {
    for changes in [
        "DELETE FROM c; UPDATE p SET id = 5 WHERE id = 1",
        "UPDATE p SET id = 5 WHERE id = 1; DELETE FROM c",
        "UPDATE c SET v = 'd'; UPDATE p SET id = 5 WHERE id = 1",
        "DELETE FROM c; UPDATE p SET id = 5 WHERE id = 1; DELETE FROM p WHERE id = 5",
    ] {
        for action in ["SET NULL", "SET DEFAULT", "CASCADE"] {
            let world = World::new();
            let sql = format!(
                "{PARENT} CREATE TABLE c(id INTEGER PRIMARY KEY,
                   p INT DEFAULT 2 REFERENCES p(id) ON UPDATE {action} ON DELETE {action}, v TEXT);
                 INSERT INTO c VALUES(1, 1, 'c')"
            );
            let mut a = historical(&world, "a", &sql);
            let t = now();
            a.run(changes);
            undo(&mut a, &since(t));
            assert_eq!(a.rows("SELECT * FROM p"), ["1|x", "2|y"], "{action}: {changes}");
            assert_eq!(a.rows("SELECT * FROM c"), ["1|1|c"], "{action}: {changes}");
        }
    }
}

/// A number that means nobody is shown again where it was written, unless a row has it by now.
#[test]
fn a_number_of_nobody_is_back() {
    for (changes, given, now_shown) in [
        ("DELETE FROM c", "", "1|0|x"),
        ("UPDATE c SET p = 5", "", "1|0|x"),
        ("UPDATE c SET p = NULL, v = 'y'", "", "1|0|x"),
        ("DELETE FROM c", "INSERT INTO p VALUES(0, 'new')", "1|NULL|x"),
    ] {
        let world = World::new();
        let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY AUTOINCREMENT, v TEXT);
             CREATE TABLE c(id INTEGER PRIMARY KEY, p INT, v TEXT);
             INSERT INTO p VALUES(5, 'five')";
        let policies =
            vec![Policy::new("c.refs", "p:p").unwrap(), Policy::new("p.ids", "local").unwrap()];
        let options = InitOptions { policies, history: true, ..InitOptions::default() };
        let mut a = with(&world, "a", sql, options);
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO c VALUES(1, 0, 'x')");
        settle(&mut a, &mut b);
        assert_eq!(b.row("SELECT * FROM c"), "1|NULL|x");
        let t = now();
        a.run(changes);
        settle(&mut a, &mut b);
        a.run(given);
        a.replica.fold().unwrap();
        let until = System.now_ms();
        let before_it = Selection { table: Some("c".into()), until_ms: Some(until), ..since(t) };
        undo(&mut a, &before_it);
        assert_eq!(a.row("SELECT * FROM c"), now_shown, "{changes} {given}");
        settle(&mut a, &mut b);
        assert_eq!(a.row("SELECT * FROM c"), now_shown, "{changes} {given}");
        assert_eq!(b.row("SELECT * FROM c"), "1|NULL|x", "{changes} {given}");
        let digests = [&a, &b].map(|site| site.replica.digest().unwrap().digest);
        assert_eq!(digests[0], digests[1], "{changes} {given}");
    }
}

/// A reference to a former life keeps no row: it is not to the one that was inserted since (R-INC).
#[test]
fn a_row_goes_that_others_refer_to_as_it_was_before() {
    let world = World::new();
    let mut a = historical(
        &world,
        "a",
        "CREATE TABLE list(name TEXT PRIMARY KEY);
         CREATE TABLE note(id INTEGER PRIMARY KEY, list TEXT REFERENCES list(name) ON DELETE CASCADE);
         INSERT INTO list VALUES('food')",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM list");
    b.run("INSERT INTO note(list) VALUES('food')");
    settle(&mut a, &mut b);
    let start = now();
    a.run("INSERT INTO list VALUES('food')");
    assert_eq!(a.rows("SELECT count(*) FROM note"), ["0"]);
    assert_eq!(undo(&mut a, &since(start)), ["list 'food' insert"]);
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT (SELECT count(*) FROM list), (SELECT count(*) FROM note)"), ["0|0"]);
}
