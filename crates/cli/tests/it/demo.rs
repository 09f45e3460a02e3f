//! The demonstration.

use crate::support::{Lab, synqlite};
use serde_json::Value;

fn demo(args: &[&str]) -> Value {
    Lab::new().json(&[&["demo"], args].concat())
}

#[test]
fn three_sites_converge_and_tell_why() {
    let told = demo(&[]);
    assert_eq!(told["converged"], true);
    let steps = told["steps"].as_array().unwrap();
    assert!(steps.iter().all(|s| s["step"].is_string() && s["seconds"].is_number()));
    let decided: Vec<&str> = steps
        .iter()
        .filter_map(|s| s["decisions"].as_array())
        .flatten()
        .filter_map(|d| d["what"].as_str())
        .collect();
    let unique = "shows its former value";
    let kept = "kept although deleted";
    for expected in ["later and", "became 402", "became 1202", "the delete wins", unique, kept] {
        assert!(decided.iter().any(|d| d.contains(expected)), "{expected}: {decided:#?}");
    }
    let settled: Vec<&Value> = steps.iter().filter(|s| s["settled"].is_string()).collect();
    let left: Vec<&Value> = settled.iter().map(|s| &s["conflicts"]).collect();
    assert_eq!(left, [2, 1, 1], "prefer opens another; A has not heard of what B settled");
    assert_eq!(told["conflicts"], 0, "no site has an open conflict in the end");
}

#[test]
fn the_same_seed_makes_the_same_data() {
    let digest = |seed| demo(&["--seed", seed])["digest"].clone();
    assert_eq!(digest("7"), digest("7"));
    assert_ne!(digest("7"), digest("8"));
}

#[test]
fn it_keeps_what_it_is_told_to_keep() {
    let lab = Lab::new();
    let dir = lab.path("kept").display().to_string();
    let text = lab.text(&["demo", "--dir", &dir]);
    assert!(text.contains("Converged.") && text.contains("sqlite3 "), "{text}");
    let digest = |site: &str| lab.json(&["digest", &format!("{dir}/{site}.db")]);
    assert_eq!(digest("A"), digest("C"));
    assert!(lab.refused(&["demo", "--dir", &dir]).contains("exists already"));
}

#[test]
fn it_may_leave_the_questions_to_whoever_tries_it() {
    let lab = Lab::new();
    let dir = lab.path("open").display().to_string();
    let text = lab.text(&["demo", "--dir", &dir, "--unsettled"]);
    assert!(text.contains(&format!("synqlite review {dir}/B.db")), "{text}");
    for site in ["A", "B", "C"] {
        assert_eq!(lab.json(&["status", &format!("{dir}/{site}.db")])["questions"], 2, "{site}");
    }
    assert_eq!(synqlite(&["demo", "--unsettled"]).status.code(), Some(2), "where to?");
}

#[test]
fn it_leaves_nothing_behind() {
    let lab = Lab::new();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_synqlite"))
        .arg("demo")
        .env("TMPDIR", lab.dir.path())
        .output()
        .unwrap();
    assert!(run.status.success());
    assert_eq!(std::fs::read_dir(lab.dir.path()).unwrap().count(), 0);
    assert!(!synqlite(&["demo", "--seed", "x"]).status.success());
}
