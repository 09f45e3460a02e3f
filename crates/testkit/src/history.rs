//! A history: what several sites do, in one order, at times that are part of it.

use crate::families::{Context, FAMILIES, Family};
use crate::random::Random;
use crate::shapes::Shape;

/// Logical time of the first step, in milliseconds.
pub const START_MS: i64 = 1_000_000;

/// What several sites do.
#[derive(Clone, Debug)]
pub struct History {
    /// Where it comes from.
    pub seed: u64,
    /// Schema and statements.
    pub family: Family,
    /// How many sites there are; site 0 makes the database, the others are its clones.
    pub sites: usize,
    /// Whether journals are folded only when sites synchronize.
    pub lazy: bool,
    /// Setting of `recursive_triggers` on the applications' connections.
    pub recursive: bool,
    /// Whether no row may be touched by two statements between two folds.
    pub apart: bool,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When, by the clock of the site that acts, in milliseconds.
    pub ms: i64,
    /// The site that acts.
    pub site: usize,
    /// What it does.
    pub action: Action,
}

/// What a site does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The application runs a statement, which may fail.
    Run(String),
    /// It pulls from another site.
    Pull(usize),
}

impl History {
    /// The history of a seed: 2 to 4 sites whose clocks differ, 40 to 80 steps, and pulls from
    /// every site by every other at the end, until nothing is left to say.
    pub fn random(seed: u64, lazy: bool) -> History {
        let mut r = Random::new(seed);
        let family = FAMILIES[r.index(FAMILIES.len())];
        let sites = 2 + r.index(3);
        let length = 40 + r.below(41);
        let syncs = r.pick(&[&0, &8, &8, &20]);
        // Times of lazy histories are moved within a second.
        let skew = |r: &mut Random| if lazy { 0 } else { *r.pick(&[&0, &0, &-7_000, &9_000]) };
        let skews: Vec<i64> = (0..sites).map(|_| skew(&mut r)).collect();
        let mut steps = Vec::new();
        for n in 0..length {
            let site = r.index(sites);
            // Two sites never act in the same millisecond; the steps of one may.
            let jitter = if lazy { 0 } else { *r.pick(&[&0, &0, &0, &-3_000, &4_000]) };
            let ms = START_MS + 1_000 * (n as i64 + 20) + skews[site] + jitter + site as i64;
            let action = if *syncs > 0 && r.one_in(*syncs) {
                Action::Pull((site + 1 + r.index(sites - 1)) % sites)
            } else {
                let context = Context { site, n, apart: false, onward: lazy };
                Action::Run(family.statement(&mut r, &context))
            };
            steps.push(Step { ms, site, action });
        }
        steps.extend(settling(sites, START_MS + 1_000 * (length as i64 + 40)));
        // The model's triggers need the setting; the engine's must not.
        let recursive = family.name == "triggers" || r.one_in(2);
        History { seed, family, sites, lazy, recursive, apart: false, steps }
    }

    /// The history of a seed under constraints: these shapes in turn, 2 or 3 sites, at times 4, 20 to
    /// 40 steps, and pulls along the row of sites and back at the end.
    pub fn constrained(seed: u64, lazy: bool, shapes: &[&'static Shape]) -> History {
        let mut r = Random::new(seed);
        let shape = shapes[(seed % shapes.len() as u64) as usize];
        let family = Family::shaped(shape, r.any());
        let sites = 2 + r.index(2) + usize::from(r.one_in(8));
        let length = 20 + r.below(21);
        let syncs = r.pick(&[&5, &8, &14]);
        let skew = |r: &mut Random| *r.pick(&[&0, &0, &-7_000, &9_000]);
        let skews: Vec<i64> = (0..sites).map(|_| skew(&mut r)).collect();
        let mut steps = Vec::new();
        for n in 0..length {
            let site = r.index(sites);
            let jitter = *r.pick(&[&0, &0, &0, &-3_000, &4_000]);
            let ms = START_MS + 1_000 * (n as i64 + 20) + skews[site] + jitter + site as i64;
            let action = if r.one_in(*syncs) {
                Action::Pull((site + 1 + r.index(sites - 1)) % sites)
            } else {
                let context = Context { site, n, apart: false, onward: false };
                Action::Run(family.statement(&mut r, &context))
            };
            steps.push(Step { ms, site, action });
        }
        let ms = START_MS + 1_000 * (length as i64 + 40);
        for _ in 0..3 {
            let there = (1..sites).map(|site| (site, site - 1));
            let back = (1..sites).rev().map(|site| (site - 1, site));
            let pulls = there.chain(back);
            steps.extend(pulls.map(|(site, from)| Step { ms, site, action: Action::Pull(from) }));
        }
        let recursive = r.one_in(2);
        History { seed, family, sites, lazy, recursive, apart: true, steps }
    }
}

/// Pulls after which all sites have seen everything, renumberings included: three rounds of every
/// ordered pair.
pub fn settling(sites: usize, ms: i64) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..3 {
        for site in 0..sites {
            let others = (0..sites).filter(|&other| other != site);
            steps.extend(others.map(|other| Step { ms, site, action: Action::Pull(other) }));
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_one_history() {
        assert_eq!(History::random(7, false).steps, History::random(7, false).steps);
        assert_ne!(History::random(7, false).steps, History::random(8, false).steps);
    }
}
