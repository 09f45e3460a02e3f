//! `SYNQLITE_STATES=FROM..TO` plays other histories than the default; a failure names its own, and the
//! writes that it takes.

use super::{play, seeds};

/// Histories by default.
const HISTORIES: u64 = 6_000;

/// A line of what is played begins with `FAULT seed`, as in campaigns.
#[test]
fn looking_at_some_rows_shows_what_looking_at_all_does() {
    let asked = std::env::var("SYNQLITE_STATES").ok();
    let mut faults = 0;
    for seed in seeds(asked.as_deref(), HISTORIES) {
        if let Some(fault) = play(seed) {
            println!("FAULT seed {seed}: states\n{fault}\n");
            faults += 1;
            assert!(faults < 4, "enough faults");
        }
    }
    assert_eq!(faults, 0);
}
