//! `SYNQLITE_STATES=FROM..TO` plays other histories than the default; a failure names its own, and the
//! writes that it takes.

use super::draw::FIRST_STYLES;
use super::{Blueprint, Source, fault, play, seeds};

/// Histories by default.
const HISTORIES: u64 = 6_000;

/// Others that are played by default, with the styles that there were when a fault showed in them.
const ONCE_AT_FAULT: [u64; 7] = [129_919, 241_919, 748_570, 848_643, 857_908, 913_258, 1_158_801];
/// The same with the styles that there are.
const AT_FAULT_SINCE: [u64; 9] = [
    6_208_269, 6_830_345, 7_305_746, 11_065_168, 12_547_239, 12_738_821, 13_736_343, 14_832_763,
    14_557_681,
];

/// A line of what is played begins with `FAULT seed`, as in campaigns.
#[test]
fn looking_at_some_rows_shows_what_looking_at_all_does() {
    let asked = std::env::var("SYNQLITE_STATES").ok();
    let mut faults = 0;
    for seed in seeds(asked.as_deref(), HISTORIES) {
        if seed % 10_000 == 0 {
            // Who plays a million of them, to see whether a fault is noticed, hears that it goes on.
            println!("played {seed}");
        }
        if let Some(fault) = play(seed) {
            println!("FAULT seed {seed}: states\n{fault}\n");
            faults += 1;
            assert!(faults < 4, "enough faults");
        }
    }
    assert_eq!(faults, 0);
}

#[test]
fn what_once_was_at_fault_is_not() {
    for seed in ONCE_AT_FAULT {
        let mut source = Source::new(seed);
        let blueprint = Blueprint::of_styles(&mut source, FIRST_STYLES);
        assert_eq!(fault(&blueprint, &mut source), None, "seed {seed}");
    }
    for seed in AT_FAULT_SINCE {
        assert_eq!(play(seed), None, "seed {seed}");
    }
}
