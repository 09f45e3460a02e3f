//! `init --repair`: a database whose metadata is lost is a replica of the same database again.

use crate::support::Lab;
use serde_json::Value;

/// Drops what is ours, as a tool does that drops tables it does not know.
fn lose(lab: &Lab, site: &str, triggers: bool) {
    let mut kinds = vec!["TABLE"];
    if triggers {
        kinds.insert(0, "TRIGGER");
    }
    for kind in kinds {
        let sql = format!(
            "SELECT name FROM sqlite_master WHERE name LIKE 'synqlite%' AND type = lower('{kind}')"
        );
        for name in lab.rows(site, &sql) {
            lab.sql(site, &format!("DROP {kind} {name}"));
        }
    }
}

fn told(found: &Value) -> Vec<String> {
    let told = found["compared"]["told"].as_array().expect("a list");
    let text = |part: &Value| part.as_str().expect("text").to_owned();
    told.iter()
        .map(|d| format!("{} {}: {}", text(&d["table"]), text(&d["row"]), text(&d["what"])))
        .collect()
}

/// Both write apart, A loses its metadata, and is repaired from B or from a folder.
fn repaired(place: bool, triggers: bool) {
    let lab = Lab::with_a_and_b();
    let (a, b) = (lab.db("A"), lab.db("B"));
    lab.sql("A", "UPDATE todo SET what = 'mine' WHERE id = 1; DELETE FROM todo WHERE id = 3");
    lab.sql("A", "INSERT INTO todo(id, what, person) VALUES(10, 'only here', 2)");
    lab.sql("A", "INSERT INTO note VALUES('here'); CREATE TABLE extra(id INTEGER PRIMARY KEY, todo REFERENCES todo(id))");
    lab.sql("A", "INSERT INTO extra VALUES(1, 10)");
    lab.sql("B", "INSERT INTO todo(id, what) VALUES(4, 'there'); DELETE FROM note");
    lab.sql("B", "UPDATE person SET name = 'Bob' WHERE id = 2");
    let remote = if place { lab.folder() } else { b.clone() };
    if place {
        lab.json(&["push", &b, &remote]);
    }
    lose(&lab, "A", triggers);
    if triggers {
        lab.sql("A", "INSERT INTO note VALUES('unnoticed')");
    }
    let found = lab.json(&["init", &a, "--repair", &remote]);
    let compared = &found["compared"];
    assert_eq!(compared["updated"], 2, "{found}");
    assert_eq!(compared["inserted"], if triggers { 3 } else { 2 }, "{found}");
    assert_eq!((&compared["hidden"], &compared["theirs"]), (&1.into(), &2.into()), "{found}");
    let told = told(&found);
    assert!(told.iter().any(|t| t.contains("person 2: name 'Bo' replaces name 'Bob'")), "{told:?}");
    assert!(
        told.iter().any(|t| t.contains("todo 1: what 'mine' replaces what 'wash'")),
        "{told:?}"
    );
    let closed = lab.text(&["conflicts", "--closed", &a]);
    assert!(closed.contains("'Bob'"), "{closed}");
    for _ in 0..2 {
        lab.json(&["sync", &a]);
        if place {
            lab.json(&["sync", &b, &remote]);
        }
    }
    lab.json(&["sync", &a]);
    let rows = lab.rows("A", "SELECT id, what FROM todo ORDER BY id");
    assert_eq!(rows, ["1|mine", "2|cook", "3|sing", "4|there", "10|only here"]);
    assert_eq!(lab.rows("B", "SELECT id, what FROM todo ORDER BY id"), rows);
    assert_eq!(
        lab.rows("B", "SELECT text FROM note ORDER BY 1"),
        lab.rows("A", "SELECT text FROM note ORDER BY 1")
    );
    assert_eq!(lab.rows("A", "SELECT * FROM extra"), ["1|10"]);
    for site in ["A", "B"] {
        assert_eq!(lab.json(&["verify", "--full", &lab.db(site)])["ok"], true);
        assert_eq!(lab.rows(site, "PRAGMA foreign_key_check").len(), 0);
    }
    let told = lab.text(&["conflicts", "--closed", &b]);
    assert!(told.contains("name: 'Bob'") && told.contains("gives way to 'Bo'"), "{told}");
    lab.sql("A", "UPDATE todo SET done = 1");
    lab.json(&["sync", &a]);
    if place {
        lab.json(&["sync", &b, &remote]);
    }
    assert_eq!(lab.rows("B", "SELECT sum(done) FROM todo"), ["5"]);
}

#[test]
fn a_database_without_its_metadata_is_a_replica_again_by_another_replica() {
    repaired(false, false);
    repaired(false, true);
}

#[test]
fn a_database_without_its_metadata_is_a_replica_again_by_a_folder() {
    repaired(true, true);
}

#[test]
fn rows_that_have_no_place_are_told_in_full() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE u(id TEXT PRIMARY KEY, mail TEXT UNIQUE, x); INSERT INTO u VALUES('k', 'k', 0)");
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "INSERT INTO u VALUES('a', 'same', 'precious'), ('c', 'z', 'p')");
    lab.sql("B", "INSERT INTO u VALUES('b', 'same', 'theirs'), ('c', 'w', 'q'), ('d', 'z', 'r')");
    lose(&lab, "A", false);
    let found = lab.json(&["init", &lab.db("A"), "--repair", &lab.db("B")]);
    let told = told(&found);
    assert!(told.iter().any(|t| t.starts_with("u 'a': ") && t.contains("'precious'")), "{told:?}");
    assert!(told.iter().any(|t| t.starts_with("u 'c': ") && t.contains("mail 'z'")), "{told:?}");
    assert_eq!(lab.json(&["verify", "--full", &lab.db("A")])["ok"], true);
    lab.json(&["sync", &lab.db("A")]);
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn a_row_that_others_deleted_is_back_where_one_of_this_file_refers_to_it() {
    let lab = Lab::with_a_and_b();
    lab.sql("A", "INSERT INTO person VALUES(7, 'Cy'), (8, 'Di')");
    lab.json(&["sync", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "INSERT INTO todo(what, person) VALUES('for Cy', 7)");
    lab.sql("B", "DELETE FROM person WHERE id > 6");
    lose(&lab, "A", false);
    let found = lab.json(&["init", &lab.db("A"), "--repair", &lab.db("B")]);
    assert_eq!(
        (&found["compared"]["inserted"], &found["compared"]["hidden"]),
        (&2.into(), &1.into())
    );
    assert_eq!(lab.rows("A", "SELECT id FROM person"), ["1", "2", "7"]);
    lab.json(&["sync", &lab.db("A")]);
    lab.assert_equal(&["A", "B"]);
    assert_eq!(lab.rows("B", "SELECT person FROM todo WHERE what = 'for Cy'"), ["7"]);
}

#[test]
fn a_replica_with_emptied_metadata_is_repaired_too() {
    for loss in [
        "DELETE FROM synqlite_meta",
        "DELETE FROM synqlite_meta WHERE key = 'site'",
        "DROP TABLE synqlite_journal",
        "DROP INDEX synqlite_row_loc",
        "DROP TABLE synqlite_remote; DROP TRIGGER synqlite_update_1",
    ] {
        let lab = Lab::with_a_and_b();
        lab.sql("A", loss);
        let told = lab.refused(&["sync", &lab.db("A"), &lab.db("B")]);
        assert!(told.contains("--repair"), "{loss}: {told}");
        lab.json(&["init", &lab.db("A"), "--repair", &lab.db("B")]);
        lab.sql("A", "UPDATE todo SET done = 1");
        lab.json(&["sync", &lab.db("A")]);
        lab.assert_equal(&["A", "B"]);
        assert_eq!(lab.rows("B", "SELECT sum(done) FROM todo"), ["3"], "{loss}");
    }
}

#[test]
fn a_whole_replica_and_a_stranger_are_not_repaired() {
    let lab = Lab::with_a_and_b();
    let told = lab.refused(&["init", &lab.db("A"), "--repair", &lab.db("B")]);
    assert!(told.contains("no table of it is missing"), "{told}");
    let told = lab.refused(&["init", &lab.db("C"), "--repair", &lab.db("B")]);
    assert!(told.contains("there is no database at"), "{told}");
    lose(&lab, "A", false);
    let told = lab.refused(&["init", &lab.db("A"), "--repair", &lab.folder()]);
    assert!(told.starts_with("error: "), "{told}");
    assert_eq!(lab.rows("A", "SELECT count(*) FROM todo"), ["3"]);
}

/// A row is found again by its key however that is spelled, and what it shows goes to the others.
#[test]
fn rows_whose_keys_compare_otherwise_than_they_are_spelled_are_written() {
    for (value, column) in [
        ("'B'", "TEXT COLLATE NOCASE"),
        ("2", "REAL"),
        ("'b '", "TEXT COLLATE RTRIM"),
        ("-0.0", "REAL"),
    ] {
        for kind in ["", " WITHOUT ROWID"] {
            let lab = Lab::new();
            lab.sql("A", &format!("CREATE TABLE t(k {column}, v TEXT, PRIMARY KEY(k)){kind}"));
            lab.sql("A", &format!("INSERT INTO t VALUES({value}, 'base')"));
            lab.json(&["init", &lab.db("A")]);
            lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
            lab.sql("B", "UPDATE t SET v = 'of b'");
            lose(&lab, "A", false);
            lab.json(&["init", &lab.db("A"), "--repair", &lab.db("B")]);
            for _ in 0..2 {
                lab.json(&["sync", &lab.db("A"), &lab.db("B")]);
            }
            for site in ["A", "B"] {
                assert_eq!(lab.rows(site, "SELECT v FROM t"), ["base"], "{column}{kind} at {site}");
            }
        }
    }
}

/// A number of one site alone says nothing of another's rows.
#[test]
fn a_table_whose_rows_each_site_numbers_is_not_compared() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, v)");
    lab.json(&["init", &lab.db("A"), "--policy", "t.ids=local"]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "INSERT INTO t(v) VALUES('Bob')");
    lab.sql("B", "INSERT INTO t(v) VALUES('Ann')");
    lab.json(&["sync", &lab.db("A"), &lab.db("B")]);
    lose(&lab, "A", true);
    let said = lab.refused(&["init", &lab.db("A"), "--repair", &lab.db("B")]);
    assert!(said.contains("t.ids=local") && said.contains("under another name"), "{said}");
    assert_eq!(lab.rows("A", "SELECT v FROM t ORDER BY id"), ["Bob", "Ann"]);
    lab.sql("A", "DELETE FROM t");
    lab.json(&["init", &lab.db("A"), "--repair", &lab.db("B")]);
    assert_eq!(lab.rows("A", "SELECT v FROM t ORDER BY v"), ["Ann", "Bob"]);
}
