//! `SYNQLITE_STATES=FROM..TO` plays other histories than the default; a failure names its own, and the
//! writes that it takes.

use super::play;

/// Histories by default.
const HISTORIES: u64 = 6_000;

/// A line of what is played begins with `FAULT seed`, as in campaigns.
#[test]
fn looking_at_some_rows_shows_what_looking_at_all_does() {
    let asked = std::env::var("SYNQLITE_STATES").ok();
    let range = asked.as_deref().map_or(0..HISTORIES, |text| {
        let (from, to) = text.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    let mut faults = 0;
    for seed in range {
        if let Some(fault) = play(seed) {
            println!("FAULT seed {seed}: states\n{fault}\n");
            faults += 1;
            assert!(faults < 4, "enough faults");
        }
    }
    assert_eq!(faults, 0);
}
