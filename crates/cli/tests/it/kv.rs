//! The log-structured store by hand.

use crate::support::{Lab, files, stderr, stdout, synqlite};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Path of the lab's store.
fn store(lab: &Lab) -> String {
    lab.path("store").display().to_string()
}

/// Runs `kv` with `--json`; it must succeed.
fn kv(lab: &Lab, args: &[&str]) -> Value {
    lab.json(&[&["kv", args[0], &store(lab)], &args[1..]].concat())
}

/// Runs `kv`, which must be refused with each of `words`.
fn refused(lab: &Lab, args: &[&str], words: &[&str]) {
    let told = lab.refused(&[&["kv", args[0], &store(lab)], &args[1..]].concat());
    for word in words {
        assert!(told.contains(word), "{args:?}: `{word}` is not in: {told}");
    }
}

/// Keys of a scan, joined by blanks.
fn keys(lab: &Lab, args: &[&str]) -> String {
    let found = kv(lab, &[&["scan"], args].concat());
    let pairs = found["pairs"].as_array().expect("pairs");
    let keys: Vec<_> = pairs.iter().map(|p| p["key"].as_str().expect("text")).collect();
    keys.join(" ")
}

/// A lab whose store has 1,000 keys in a table, and that table.
fn with_a_table() -> (Lab, PathBuf) {
    let lab = Lab::new();
    let rows: String = (0..1_000).map(|n| format!("key {n:04},value {n}\n")).collect();
    std::fs::write(lab.path("rows.csv"), rows).unwrap();
    let loaded = kv(&lab, &["load", &lab.path("rows.csv").display().to_string()]);
    assert_eq!(loaded["rows"], 1_000);
    let tables = files(&lab.path("store")).into_iter();
    let tables: Vec<_> = tables.filter(|f| f.extension().is_some_and(|e| e == "table")).collect();
    assert_eq!(tables.len(), 1, "{tables:?}");
    (lab, tables[0].clone())
}

#[test]
fn what_is_put_is_there_until_it_is_deleted() {
    let lab = Lab::new();
    let dir = store(&lab);
    assert_eq!(kv(&lab, &["put", "city", "Zürich"]), json!({"sequence": 1}));
    assert_eq!(kv(&lab, &["put", "-1", "-2"]), json!({"sequence": 2}));
    assert_eq!(kv(&lab, &["get", "city"]), json!({"key": "city", "value": "Zürich"}));
    assert_eq!(lab.text(&["kv", "get", &dir, "city"]), "Zürich\n");
    assert_eq!(lab.text(&["kv", "get", &dir, "-1"]), "-2\n");
    assert_eq!(kv(&lab, &["del", "city"]), json!({"sequence": 3}));
    refused(&lab, &["get", "city"], &["has no key `city`", "synqlite kv scan"]);
    refused(&lab, &["del", "city"], &["has no key `city`"]);
}

#[test]
fn bytes_are_given_and_shown_in_hexadecimal() {
    let lab = Lab::new();
    let dir = store(&lab);
    kv(&lab, &["put", "--hex", "00ff", "6869FE"]);
    assert_eq!(kv(&lab, &["get", "--hex", "00FF"]), json!({"key": "00ff", "value": "6869fe"}));
    assert_eq!(lab.text(&["kv", "get", &dir, "00ff", "--hex"]), "6869fe\n");
    assert_eq!(synqlite(&["kv", "get", &dir, "00ff", "--hex"]).status.code(), Some(0));
    assert_eq!(lab.text(&["kv", "scan", &dir]), "\\x00\\xff\thi\\xfe\n");
    let pair = json!({"key": {"hex": "00ff"}, "value": {"hex": "6869fe"}});
    assert_eq!(kv(&lab, &["scan"]), json!({"pairs": [pair]}));
    // What is no text comes out as it is.
    kv(&lab, &["put", "--hex", "6b", "fe0a"]);
    assert_eq!(synqlite(&["kv", "get", &dir, "k"]).stdout, b"\xfe\n\n");
}

#[test]
fn a_scan_shows_the_range_that_was_asked_for() {
    let lab = Lab::new();
    for key in ["a", "b1", "b2", "b3", "c"] {
        kv(&lab, &["put", key, "tab\tand\\"]);
    }
    assert_eq!(keys(&lab, &[]), "a b1 b2 b3 c");
    assert_eq!(keys(&lab, &["--reverse"]), "c b3 b2 b1 a");
    assert_eq!(keys(&lab, &["--prefix", "b"]), "b1 b2 b3");
    assert_eq!(keys(&lab, &["--prefix", "b", "--reverse", "--limit", "2"]), "b3 b2");
    assert_eq!(keys(&lab, &["--from", "b2", "--to", "c"]), "b2 b3");
    assert_eq!(keys(&lab, &["--prefix", "b", "--from", "b2"]), "b2 b3");
    assert_eq!(keys(&lab, &["--prefix", "b", "--from", "a", "--to", "b2"]), "b1");
    assert_eq!(keys(&lab, &["--prefix", "b", "--from", "c"]), "");
    assert_eq!(keys(&lab, &["--prefix", "c", "--to", "b"]), "");
    assert_eq!(keys(&lab, &["--limit", "0"]), "");
    assert_eq!(kv(&lab, &["scan", "--hex", "--prefix", "ff"]), json!({"pairs": []}));
    assert_eq!(lab.text(&["kv", "scan", &store(&lab), "--prefix", "c"]), "c\ttab\\tand\\\\\n");
    refused(&lab, &["scan", "--from", "c", "--to", "a"], &["starts after it ends", "--reverse"]);
}

#[test]
fn a_csv_file_is_loaded_as_a_whole_or_not_at_all() {
    let lab = Lab::new();
    let file = lab.path("rows.csv").display().to_string();
    std::fs::write(&file, "1,Ann,\"a \"\"b\"\",\nc\"\r\n2,Bob,d\r\n").unwrap();
    assert_eq!(kv(&lab, &["load", &file, "--key", "2", "--value", "3"])["rows"], 2);
    assert_eq!(kv(&lab, &["get", "Ann"])["value"], "a \"b\",\nc");
    assert_eq!(keys(&lab, &[]), "Ann Bob");
    std::fs::write(&file, "Cid,x\nDan\n").unwrap();
    refused(&lab, &["load", &file], &["row 2 has only 1 column", "nothing was loaded"]);
    std::fs::write(&file, "Cid,x\nDan,\"y\n").unwrap();
    refused(&lab, &["load", &file], &["row 2: a quote is not closed"]);
    std::fs::write(&file, format!("Cid,x\n{},y\n", "k".repeat(70_000))).unwrap();
    refused(&lab, &["load", &file], &["row 2: a key of 70000 bytes exceeds"]);
    refused(&lab, &["load", "none.csv"], &["cannot read none.csv"]);
    assert_eq!(keys(&lab, &[]), "Ann Bob");
}

#[test]
fn stats_count_what_is_there() {
    let (lab, table) = with_a_table();
    let stats = kv(&lab, &["stats"]);
    assert_eq!((&stats["sequence"], &stats["dropped"]), (&json!(1_000), &Value::Null));
    let level = &stats["levels"][0];
    assert_eq!((&level["tables"], &level["entries"]), (&json!(1), &json!(1_000)));
    assert_eq!(level["bytes"], table.metadata().unwrap().len());
    let text = lab.text(&["kv", "stats", &store(&lab)]);
    assert!(text.contains("1 table, ") && text.contains("1,000 entries, 0 deletions"), "{text}");
}

#[test]
fn one_damaged_byte_is_found_and_the_rest_is_salvaged() {
    let (lab, table) = with_a_table();
    let sound = kv(&lab, &["verify"]);
    assert_eq!((&sound["ok"], &sound["entries"]), (&json!(true), &json!(1_000)));
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let found = lab.faulty(&["kv", "verify", &store(&lab)]);
    let problem = found["problems"][0].as_str().expect("a problem");
    let name = table.file_name().unwrap().to_string_lossy();
    assert!(problem.contains(&*name) && problem.contains("is damaged at byte"), "{problem}");
    assert!(!problem.contains(';'), "no advice: {problem}");
    let advice = format!("synqlite kv repair {}", store(&lab));
    refused(&lab, &["get", "key 0000"], &["is damaged at byte", "kv verify", &advice]);
    refused(&lab, &["scan"], &["is damaged at byte"]);
    assert_eq!(kv(&lab, &["repair"])["problems"].as_array().map(Vec::len), Some(1));
    assert_eq!(kv(&lab, &["verify"])["ok"], true);
    assert_eq!(kv(&lab, &["get", "key 0999"])["value"], "value 999");
}

#[test]
fn folders_that_are_no_store_are_refused() {
    let lab = Lab::new();
    let (key, none) = ("k".repeat(65_536), ["is not a store: it does not exist", "kv put"]);
    for args in [&["get", "k"][..], &["del", "k"], &["scan"], &["stats"], &["verify"], &["repair"]]
    {
        refused(&lab, args, &none);
    }
    refused(&lab, &["put", &key, "v"], &["a key of 65536 bytes exceeds", "Split it"]);
    assert!(!lab.path("store").exists(), "a refused command makes no store");
    std::fs::create_dir(lab.path("store")).unwrap();
    std::fs::write(lab.path("store").join("letter"), "dear").unwrap();
    refused(&lab, &["put", "k", "v"], &["is not a store: it holds letter", "empty folder"]);
}

#[test]
fn a_store_that_is_open_elsewhere_is_refused() {
    let lab = Lab::new();
    let db = synqlite_lsm::Db::open(lab.path("store"), synqlite_lsm::Options::default()).unwrap();
    refused(&lab, &["put", "k", "v"], &["is open elsewhere", "Wait"]);
    db.close().unwrap();
    kv(&lab, &["put", "k", "v"]);
}

#[test]
fn a_store_that_is_open_elsewhere_is_waited_for_as_long_as_is_said() {
    let lab = Lab::new();
    for args in [&["put", "k", "v"][..], &["get", "k"], &["verify"], &["repair"]] {
        let db = synqlite_lsm::Db::open(lab.path("store"), Default::default()).unwrap();
        refused(&lab, &[args, &["--wait", "1"]].concat(), &["is open elsewhere"]);
        let closing = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            db.close().unwrap();
        });
        kv(&lab, &[args, &["--wait", "60"]].concat());
        closing.join().unwrap();
    }
}

#[test]
fn wrong_usage_has_status_2() {
    let lab = Lab::new();
    kv(&lab, &["put", "k", "v"]);
    let dir = store(&lab);
    for args in [
        &["kv"][..],
        &["kv", "get", &dir],
        &["kv", "get", &dir, "--hex", "6"],
        &["kv", "get", &dir, "--hex", "+6"],
        &["kv", "scan", &dir, "--limit", "-1"],
        &["kv", "load", &dir, "rows.csv", "--key", "0"],
    ] {
        let output = synqlite(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
}
