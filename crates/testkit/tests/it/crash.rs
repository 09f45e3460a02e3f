//! The crash campaign, short.

use synqlite_testkit::crash::{Program, campaign};

#[test]
fn killed_commands_leave_nothing_half_done() {
    let program = Program::Child(env!("CARGO_BIN_EXE_campaign").into());
    let (rounds, seed, rows) = (36, 1, 200);
    let report = campaign(&program, rounds, seed, rows, &mut |_| {}).expect("a fixture");
    println!("{report}");
    assert!(report.failures.is_empty(), "seed {seed}\n{report}");
    assert!(report.running() >= 10, "too few kills met a running command\n{report}");
}
