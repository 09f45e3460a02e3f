//! Random schemas and states in memory: whatever replicas write, and in whatever order and parts they learn
//! of it, what each merge shows by looking at some rows is what it would show by looking at all (R-MAT), and
//! replicas that know the same show the same.
//!
//! In one half of the histories writes are folded, and the user's stay (R-COMP); in the other a write is a
//! change like any other, and foreign keys act. For tests and fuzzing only (feature `random`).

mod blueprint;
mod draw;
mod history;
mod rule;
mod site;
mod source;
mod sql;
#[cfg(test)]
mod tests;
mod write;

pub use blueprint::{Blueprint, Model, Reference, TableBlueprint, Unique};
pub use history::{Fault, Happened, History, Told};
pub use rule::{Operand, Operator, Rule, Term};
pub use source::Source;

use std::collections::BTreeMap;

/// The seeds `FROM..TO`, or as many as are played by default.
///
/// # Panics
/// If the text is something else; only tests ask.
pub fn seeds(text: Option<&str>, default: u64) -> std::ops::Range<u64> {
    text.map_or(0..default, |text| {
        let (from, to) = text.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    })
}

/// Plays the history of a seed on a schema of its own; what is wrong, with the fewest writes that show it.
pub fn play(seed: u64) -> Option<String> {
    let mut source = Source::new(seed);
    let blueprint = Blueprint::random(&mut source);
    fault(&blueprint, &mut source)
}

/// Plays the history that these bytes choose.
pub fn play_bytes(bytes: &[u8]) -> Option<String> {
    let mut source = Source::of_bytes(bytes);
    let blueprint = Blueprint::random(&mut source);
    fault(&blueprint, &mut source)
}

fn fault(blueprint: &Blueprint, source: &mut Source) -> Option<String> {
    let model = blueprint.model();
    let history = History::new(source);
    history.fault(model.ground())?;
    let fault = history.shrink(model.ground())?;
    let policies: BTreeMap<_, _> = blueprint.policies.iter().collect();
    Some(format!("{}\n{policies:?}\n{fault}", blueprint.sql()))
}
