//! Sites that reach each other only through a place behind a network that fails.

use crate::seeds::each;
use synqlite_testkit::exchange::play;

#[test]
fn sites_converge_over_a_network_that_fails() {
    each(0..30, |seed| {
        let played = play(seed, false)?;
        assert!(played.faults > 0 && played.failed > 0, "nothing failed: {played:?}");
        Ok(())
    });
}

#[test]
fn sites_converge_though_the_place_is_restored_and_loses_objects() {
    each(0..30, |seed| play(seed, true).map(drop));
}
