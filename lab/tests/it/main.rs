//! The lab's promises, through its real program on real files.
//!
//! Figures are never tested, they belong to a machine; that every result has its parameters, that
//! engines execute the same, and what becomes of bad input, is.

mod bad_input;
mod counts;
mod runs;

use std::path::Path;
use std::process::{Command, Output};

/// Runs the program with these arguments, separated by spaces. Databases go to memory where the
/// system offers that: what is tested are no times.
fn lab(dir: &Path, args: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite-lab"));
    if Path::new("/dev/shm").is_dir() {
        command.env("TMPDIR", "/dev/shm");
    }
    command.current_dir(dir).args(args.split_whitespace());
    command.output().expect("the program runs")
}

/// Its standard output; it must succeed.
fn ok(dir: &Path, args: &str) -> String {
    let output = lab(dir, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Its complaint; it must fail.
fn fails(dir: &Path, args: &str) -> String {
    let output = lab(dir, args);
    assert!(!output.status.success(), "{args} succeeded");
    String::from_utf8(output.stderr).expect("UTF-8")
}

/// The results of a file, without its last line.
fn results(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).expect("a results file");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON"));
    let mut lines: Vec<serde_json::Value> = lines.collect();
    let end = lines.pop().expect("a last line");
    assert!(end.get("end").is_some(), "the last line is {end}");
    lines
}
