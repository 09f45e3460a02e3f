//! A random history in memory, and what is wrong with it.

use super::site::{MIXES, Mix, Site};
use super::source::Source;
use crate::Result;
use crate::memory::{Ground, Memory};
use std::fmt;
use synqlite_wire::Id;

/// One thing that happens; what it means depends on what the replica shows then.
#[derive(Clone, Copy)]
struct Step {
    site: usize,
    seed: u64,
}

/// A history: how many replicas, and what happens.
#[derive(Clone)]
pub struct History {
    /// Whether writes are folded; else replicas learn of their own as others do.
    folds: bool,
    /// One step in so many is an exchange.
    exchange: usize,
    mix: Mix,
    sites: usize,
    steps: Vec<Step>,
}

/// So many writes at most does a fold make at one time.
const TICKS: i64 = 1_000;

/// A step of a history, and what it led to.
#[derive(Debug)]
pub struct Told {
    /// Who acts.
    pub site: usize,
    /// When: steps are numbered in their order.
    pub n: i64,
    /// What happens.
    pub what: Happened,
    /// The rows that the sites concerned show after it, as `table: values`.
    pub shown: Vec<(usize, Vec<String>)>,
}

/// What a site does.
#[derive(Debug)]
pub enum Happened {
    /// Its user runs this.
    Ran(String),
    /// It learns all of another.
    Pulled(usize),
}

/// Both fold, then one learns all of the other. Who has `spoken` has told something, as who made the database has;
/// who has not folds to tell, not to learn (R-PIN).
fn pull(
    sites: &mut [Site<'_>],
    spoken: &mut [bool],
    (at, from): (usize, usize),
    n: i64,
) -> Result<Told> {
    spoken[from] |= sites[from].memory.fold()?;
    if spoken[at] {
        sites[at].memory.fold()?;
    }
    let changes = sites[from].memory.changes()?;
    sites[at].learn(&changes)?;
    let shown = [at, from].map(|site| (site, sites[site].memory.shown_rows()));
    Ok(Told { site: at, n, what: Happened::Pulled(from), shown: shown.into() })
}

impl History {
    /// How many sites it has.
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// A history of two or three replicas.
    pub fn new(r: &mut Source) -> History {
        let (sites, folds) = (2 + r.below(2), r.one_in(2));
        let exchange = r.pick(&[2, 3, 4, 6]).unwrap_or(4);
        let mix = r.pick(&MIXES).unwrap_or(MIXES[0]);
        let count = 8 + r.below(24);
        let mut steps = Vec::new();
        while steps.len() < count && !r.is_used_up() {
            steps.push(Step { site: r.below(sites), seed: r.any() });
        }
        History { folds, exchange, mix, sites, steps }
    }

    /// Plays it, and says what happens. Returns what is wrong.
    fn play(&self, ground: Ground<'_>, told: &mut Vec<String>) -> Result<Option<String>> {
        let site = |n: usize| self.site(ground, n, self.folds);
        let mut sites: Vec<Site<'_>> = (0..self.sites).map(site).collect();
        for step in &self.steps {
            let (mut r, at) = (Source::new(step.seed), step.site);
            if r.one_in(self.exchange) {
                let from = (at + 1 + r.below(self.sites - 1)) % self.sites;
                let mut changes = sites[from].memory.changes()?;
                if r.one_in(3) {
                    changes.retain(|_| !r.one_in(3));
                }
                for part in changes.chunks(1 + r.below(changes.len() + 1)) {
                    told.push(format!("{at} learns {} rows of {from}", part.len()));
                    sites[at].learn(part)?;
                    if let Some(wrong) = wrong(&sites[at])? {
                        return Ok(Some(wrong));
                    }
                }
            } else {
                let mut what = Vec::new();
                let written = sites[at].write(r.any(), &mut what);
                told.extend(what.into_iter().map(|what| format!("{at}: {what}")));
                if written? && let Some(wrong) = wrong(&sites[at])? {
                    return Ok(Some(wrong));
                }
            }
        }
        for _ in 0..2 {
            for to in 0..self.sites {
                for from in (0..self.sites).filter(|from| *from != to) {
                    let changes = sites[from].memory.changes()?;
                    told.push(format!("{to} learns all of {from}"));
                    sites[to].learn(&changes)?;
                    if let Some(wrong) = wrong(&sites[to])? {
                        return Ok(Some(wrong));
                    }
                }
            }
        }
        let outcomes = sites[0].memory.outcomes();
        for site in &sites[1..] {
            let others = site.memory.outcomes();
            if let Some((one, other)) = outcomes.iter().zip(&others).find(|(a, b)| a != b) {
                return Ok(Some(format!("replicas differ: {one:?} and {other:?}")));
            }
        }
        Ok(None)
    }

    /// Plays it as sites do that fold whatever they write and learn all of each other, and tells each step with
    /// what the sites concerned show after it. At `n` of a step the clocks are past `n`.
    pub fn tell(&self, ground: Ground<'_>) -> Result<Vec<Told>> {
        let mut sites: Vec<Site<'_>> =
            (0..self.sites).map(|n| self.site(ground, n, true)).collect();
        let (mut told, steps) = (Vec::new(), self.steps.iter().zip(1..));
        let mut spoken: Vec<bool> = (0..self.sites).map(|n| n == 0).collect();
        for (step, n) in steps {
            let (mut r, at) = (Source::new(step.seed), step.site);
            if r.one_in(self.exchange) {
                let from = (at + 1 + r.below(self.sites - 1)) % self.sites;
                told.push(pull(&mut sites, &mut spoken, (at, from), n)?);
                continue;
            }
            let (mut what, was) = (Vec::new(), sites[at].memory.clone());
            // Numbers that were shown become permanent before anybody looks at the time.
            sites[at].memory.fold()?;
            sites[at].memory.clock = sites[at].memory.clock.max(n * TICKS);
            if !sites[at].write(r.any(), &mut what)? {
                sites[at].memory = was;
            } else {
                spoken[at] = true;
                let shown = vec![(at, sites[at].memory.shown_rows())];
                told.push(Told { site: at, n, what: Happened::Ran(what.concat()), shown });
            }
        }
        let mut n = i64::try_from(self.steps.len()).unwrap_or(i64::MAX) + 1;
        for _ in 0..2 {
            for to in 0..self.sites {
                for from in (0..self.sites).filter(|from| *from != to) {
                    told.push(pull(&mut sites, &mut spoken, (to, from), n)?);
                    n += 1;
                }
            }
        }
        Ok(told)
    }

    fn site<'a>(&self, ground: Ground<'a>, n: usize, folds: bool) -> Site<'a> {
        let memory = Memory::new(ground, Id([n as u8 + 1; 16]));
        Site { births: 0, folds, mix: self.mix, memory }
    }

    /// What is wrong with it, if anything is.
    pub fn fault(&self, ground: Ground<'_>) -> Option<Fault> {
        let mut told = Vec::new();
        let wrong = match self.play(ground, &mut told) {
            Ok(wrong) => wrong?,
            Err(error) => error.to_string(),
        };
        Some(Fault { told, wrong })
    }

    /// Leaves out steps that it does not take.
    pub fn shrink(mut self, ground: Ground<'_>) -> Option<Fault> {
        let mut fault = self.fault(ground)?;
        let mut at = self.steps.len();
        while at > 0 {
            at -= 1;
            let mut less = self.clone();
            less.steps.remove(at);
            if let Some(other) = less.fault(ground) {
                (self, fault) = (less, other);
                at = at.min(self.steps.len());
            }
        }
        Some(fault)
    }
}

/// What is wrong, and what led to it.
#[derive(Debug)]
pub struct Fault {
    told: Vec<String>,
    wrong: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "{}", self.wrong)
    }
}

fn wrong(site: &Site<'_>) -> Result<Option<String>> {
    let found = site.memory.differences()?;
    Ok((!found.is_empty()).then(|| found.join("; ")))
}
