//! Syncs and bytes are exact: they are SQLite's known numbers, and those of a tracer.

use super::{ok, results};
use std::process::Command;

/// Syncs of a phase.
fn syncs(line: &serde_json::Value, phase: &str) -> u64 {
    let phases = line["result"]["outcome"]["phases"].as_array().unwrap();
    let phase = phases.iter().find(|p| p["name"] == phase).unwrap();
    phase["files"]["syncs"].as_u64().unwrap()
}

#[test]
fn a_single_row_takes_the_known_number_of_syncs() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, expected) in
        [("delete", 4), ("truncate", 5), ("persist", 5), ("memory", 1), ("off", 1)]
    {
        let command = format!(
            "run micro --tables 1 --rows 10 --transaction 1 --populate 50 --rounds 1 -q \
             --engines plain,replica --no-fold-between --journal-mode {mode} -o {mode}"
        );
        ok(dir.path(), &command);
        for line in results(&dir.path().join(mode)) {
            for phase in ["insert", "update", "delete"] {
                assert_eq!(syncs(&line, phase), expected * 10, "{mode} {phase}");
            }
        }
    }
}

/// Of `vfs=dash` as of the others. The folder is on a file system whose journal a `strict` commit can
/// bring to the device with the file, or there is one more.
#[test]
fn a_single_row_on_dash_takes_the_syncs_of_its_mode() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, expected, renames) in [
        ("dash-strict", 1..=2, 1),
        ("dash-fast", 1..=1, 1),
        ("dash-shadow", 4..=4, 1),
        ("dash-shadow-x", 3..=3, 1),
        ("dash-paper", 3..=3, 3),
        ("dash-paper-x", 2..=2, 3),
    ] {
        let command = format!(
            "run mobibench --transactions 10 --operations 1 --recoveries 2 --fill 1 --rounds 1 -q \
             --engines plain --journal-mode {mode} -o {mode}"
        );
        ok(dir.path(), &command);
        let line = &results(&dir.path().join(mode))[0];
        // The deletes follow the recoveries, and the first one begins a session anew.
        for phase in ["insert", "update"] {
            let syncs = syncs(line, phase);
            assert!(
                expected.contains(&(syncs / 10)) && syncs.is_multiple_of(10),
                "{mode} {phase}: {syncs}"
            );
        }
        let outcome = &line["result"]["outcome"];
        assert_eq!(outcome["phases"][1]["files"]["renames"], 10 * renames, "{mode}");
        let facts = &outcome["facts"];
        assert!(facts["recovery µs, median"].as_f64().unwrap() > 0.0, "{mode}: {facts}");
        let files = facts["bytes of all files"].as_f64().unwrap();
        assert!(files > 1.9 * facts["bytes at the end"].as_f64().unwrap(), "{mode}: {facts}");
        assert_eq!(line["result"]["parameters"]["asked"]["dash"], mode);
    }
}

/// Traces a whole run: all syncs that it counts, and none else, reach the kernel.
#[test]
fn the_tracer_counts_the_same_syncs() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: strace is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let traced = |mode: &str, rows: u64| {
        let out = &format!("{mode}-{rows}");
        let run = format!(
            "run micro --tables 1 --rows {rows} --transaction 1 --rounds 1 -q --engines plain \
             --journal-mode {mode} --set synchronous=full --operations insert -o {out}"
        );
        let trace = dir.path().join(format!("{out}.trace"));
        let output = Command::new("strace")
            .current_dir(dir.path())
            .args(["-f", "-e", "trace=fsync,fdatasync", "-o"])
            .arg(&trace)
            .arg(env!("CARGO_BIN_EXE_synqlite-lab"))
            .args(run.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let calls = std::fs::read_to_string(&trace).unwrap();
        let calls = calls.lines().filter(|l| l.contains("sync(")).count() as u64;
        (calls, syncs(&results(&dir.path().join(out))[0], "insert"))
    };
    for (mode, each) in [("delete", 4), ("persist", 5), ("wal", 1), ("dash-shadow", 4)] {
        let ((few_calls, few), (many_calls, many)) = (traced(mode, 10), traced(mode, 30));
        assert_eq!(many - few, 20 * each, "{mode}");
        // A warm-up and a round, each with insert, update and delete of the additional rows.
        assert_eq!(many_calls - few_calls, 2 * 3 * (many - few), "{mode}");
    }
}
