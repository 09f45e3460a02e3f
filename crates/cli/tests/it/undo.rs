//! `synqlite undo`: what is taken back, what is left, and what both are called.

use crate::support::{Lab, TODO, stderr, stdout, synqlite};
use serde_json::json;

fn lab() -> Lab {
    let lab = Lab::new();
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A"), "--history"]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab
}

#[test]
fn what_was_written_by_mistake() {
    let lab = lab();
    let db = lab.db("A");
    lab.sql("A", "UPDATE todo SET done = 1; DELETE FROM note; INSERT INTO person VALUES(3, 'Cy')");
    let told = lab.text(&["undo", &db, "--since", "10m", "--dry-run"]);
    let want = "\
would take back changes of 5 rows:
  note, rowid 1: was deleted, is here again
  person, row 3 (“Cy”): was inserted, is gone
  todo, row 1: done = 0
  todo, row 2: done = 0
  todo, row 3: done = 0";
    assert!(told.starts_with(want), "{told}");
    assert_eq!(lab.rows("A", "SELECT sum(done) FROM todo"), ["3"]);
    let done = lab.json(&["undo", &db, "--since", "10m"]);
    assert_eq!(done["taken"].as_array().unwrap().len(), 5);
    assert_eq!((&done["left"], &done["dry_run"]), (&json!([]), &json!(false)));
    assert_eq!(done["taken"][2]["columns"], json!({"done": 0}));
    assert_eq!(lab.rows("A", "SELECT sum(done) FROM todo"), ["0"]);
    assert_eq!(lab.rows("A", "SELECT text FROM note"), ["first"]);
    lab.json(&["sync", &db, &lab.db("B")]);
    assert_eq!(lab.rows("B", "SELECT name FROM person"), ["Ada", "Bo"]);
    assert_eq!(lab.text(&["undo", &db, "--since", "10m"]).trim(), "nothing to take back");
    assert_eq!(lab.json(&["verify", &db, "--full"])["ok"], true);
}

#[test]
fn what_is_left_is_told_and_the_status_says_so() {
    let lab = lab();
    let (a, b) = (lab.db("A"), lab.db("B"));
    lab.sql("A", "UPDATE todo SET what = 'rinse' WHERE id = 1");
    lab.json(&["sync", &a, &b]);
    lab.sql("B", "UPDATE todo SET what = 'scrub' WHERE id = 1");
    lab.json(&["sync", &a, &b]);
    let output = synqlite(&["undo", &a, "--since", "1h"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("1 change left"), "{}", stderr(&output));
    let told = stdout(&output);
    assert!(told.starts_with("nothing to take back\nleft:\n"), "{told}");
    assert!(told.contains("todo, row 1: what: written since by "), "{told}");
    let output = synqlite(&["undo", &a, "--since", "1h", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let done: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one document");
    assert_eq!(done["left"][0]["columns"], json!(["what"]));
    assert_eq!(done["left"][0]["why"], "written since");
    assert!(done["left"][0]["written"]["at_ms"].is_i64());
}

#[test]
fn a_change_by_the_time_that_the_log_shows() {
    let lab = lab();
    let db = lab.db("A");
    lab.sql("A", "UPDATE todo SET what = 'rinse' WHERE id = 1");
    lab.sql("A", "UPDATE todo SET what = 'bake' WHERE id = 2");
    lab.json(&["fold", &db]);
    let log = lab.json(&["log", &db, "--table", "todo", "--row", "1"]);
    // A key may be negative, and one that no row ever had is a mistake.
    for command in ["log", "undo"] {
        let told = lab.refused(&[command, &db, "--table", "todo", "--row", "-5"]);
        assert!(told.contains("a row of table todo with the key -5"), "{told}");
    }
    // What is an option is none.
    for (command, row) in [("log", "--json"), ("log", "-h"), ("undo", "--dry-run"), ("undo", "--")]
    {
        let output = synqlite(&[command, &db, "--table", "todo", "--row", row]);
        assert_eq!(output.status.code(), Some(2), "{command} {row}: {}", stdout(&output));
        assert!(stderr(&output).contains("it looks like an option"), "{}", stderr(&output));
        let quoted = format!("'{row}'");
        let told = lab.refused(&[command, &db, "--table", "todo", "--row", &quoted]);
        assert!(told.contains("a row of table todo with the key '-"), "{told}");
    }
    let at = log["entries"][0]["at"].as_str().unwrap().to_owned();
    let done = lab.json(&["undo", &db, "--at", &at]);
    assert_eq!(done["taken"][0]["columns"], json!({"what": "wash"}));
    assert_eq!(lab.rows("A", "SELECT what FROM todo"), ["wash", "bake", "sing"]);
    let done = lab.json(&["undo", &db, "--table", "todo", "--row", "2"]);
    assert_eq!(done["taken"][0]["columns"], json!({"what": "cook"}));
}

#[test]
fn without_a_history_the_answer_says_so() {
    let lab = Lab::with_a();
    lab.sql("A", "UPDATE todo SET done = 1 WHERE id = 1; DELETE FROM note");
    let output = synqlite(&["undo", &lab.db("A"), "--since", "1m"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stdout(&output);
    assert!(told.contains("keeps no history (synqlite init --history)"), "{told}");
    assert_eq!(lab.rows("A", "SELECT text FROM note"), ["first"]);
    // What the answer names helps, from then on.
    let done = lab.json(&["init", &lab.db("A"), "--history"]);
    assert!(done["notes"].to_string().contains("kept from now on"), "{done}");
    lab.sql("A", "UPDATE todo SET done = 7 WHERE id = 1");
    let done = lab.json(&["undo", &lab.db("A"), "--table", "todo", "--row", "1"]);
    assert_eq!(done["taken"][0]["columns"], json!({"done": 1}));
}

#[test]
fn wrong_usage() {
    let lab = Lab::with_a();
    let db = lab.db("A");
    for args in [
        &["undo", &db][..],
        &["undo", &db, "--table", "todo"],
        &["undo", &db, "--row", "1"],
        &["undo", &db, "--since", "yesterday"],
        &["undo", &db, "--at", "10m", "--since", "10m"],
    ] {
        assert_eq!(synqlite(args).status.code(), Some(2), "{args:?}");
    }
    // A status of 1 would mean that something was left.
    for args in [&["undo", &db, "--since", "1h"][..], &["undo", &db, "--row", "1"], &["log", &db]] {
        let output = synqlite(&[args, &["--table", "tood"]].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains("there is no table tood"), "{args:?}");
    }
}
