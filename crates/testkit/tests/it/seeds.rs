//! Which seeds a test plays.

use std::panic::{AssertUnwindSafe, catch_unwind};
use synqlite_testkit::world::Result;

/// Plays `test` for each seed of `usual`, or of `SYNQLITE_SEEDS=FROM..TO`. A failure names its seed.
pub fn each(usual: std::ops::Range<u64>, test: impl Fn(u64) -> Result<()>) {
    let seeds = match std::env::var("SYNQLITE_SEEDS") {
        Err(_) => usual,
        Ok(text) => {
            let (from, to) = text.split_once("..").expect("SYNQLITE_SEEDS is FROM..TO");
            from.parse().expect("a number")..to.parse().expect("a number")
        }
    };
    let mut failed = Vec::new();
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| test(seed))) {
            Ok(Ok(())) => {}
            Ok(Err(e)) => failed.push(format!("seed {seed}: {e}")),
            Err(_) => failed.push(format!("seed {seed} panicked")),
        }
    }
    assert!(failed.is_empty(), "SYNQLITE_SEEDS=FROM..TO repeats:\n{}", failed.join("\n"));
}
