//! Random states of chosen schemas, whose rows SQLite itself judges ([`synqlite_view::random`]).
//!
//! `SYNQLITE_STATES=FROM..TO` plays other histories than the default; a failure names its own, and the
//! writes that it takes.

use super::shapes::{ACTIONS, SHAPES};
use super::{Base, Sqlite};
use crate::policy::Policies;
use synqlite_view::random::{History, Source, seeds};

/// Histories by default.
const HISTORIES: u64 = 2_000;

/// How many combinations of actions there are of a schema.
fn actions(sql: &str) -> usize {
    if sql.contains("$A") { ACTIONS.len() } else { 1 }
}

/// A line of what is played begins with `FAULT seed`, as in campaigns.
#[test]
fn looking_at_some_rows_shows_what_looking_at_all_does() {
    let asked = std::env::var("SYNQLITE_STATES").ok();
    let bases: Vec<Vec<Base>> = SHAPES
        .iter()
        .map(|(sql, policies)| {
            let policies = policies.iter().map(|(k, v)| (k.to_string(), v.to_string()));
            let policies: Policies = policies.collect();
            let texts = ACTIONS[..actions(sql)].iter();
            texts.map(|text| Base::new(&sql.replace("$A", text), &policies)).collect()
        })
        .collect();
    let judges: Vec<Vec<Sqlite<'_>>> =
        bases.iter().map(|bases| bases.iter().map(Base::validator).collect()).collect();
    let mut faults = 0;
    for seed in seeds(asked.as_deref(), HISTORIES) {
        let mut source = Source::new(seed);
        let shape = source.below(SHAPES.len());
        let action = source.below(actions(SHAPES[shape].0));
        let history = History::new(&mut source);
        let ground = bases[shape][action].ground(&judges[shape][action]);
        if history.fault(ground).is_some() {
            println!("FAULT seed {seed}: states");
            let sql = SHAPES[shape].0.replace("$A", ACTIONS[action]);
            if let Some(fault) = history.shrink(ground) {
                println!("{sql}\n{fault}\n");
            }
            faults += 1;
            assert!(faults < 4, "enough faults");
        }
    }
    assert_eq!(faults, 0);
}
