//! The experiments that the project grew from, repeated: scaled to minutes, or in their size.
//!
//! Each prints what was published beside what is measured here, and then claim by claim whether the
//! two agree. A claim is about order or ratio, never about a rate: the machines differ.

mod dangers;
mod dash;
mod journal_modes;
mod projectdb;
mod thesis;

use crate::Result;
use crate::compare::Group;
use crate::engine::Engine;
use crate::mount::Mount;
use crate::run::Plan;
use crate::table::{Style, number};
use std::path::Path;

/// Which experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Triggers against a journal: micro-benchmarks and TPC-C
    Thesis,
    /// TPC-C in WAL and DELETE mode
    JournalModes,
    /// How much a single parameter changes
    Dangers,
    /// A key-value store on seven tasks
    Projectdb,
    /// Small transactions by journal mode: syncs, bytes, latencies, recovery
    Dash,
}

/// An experiment, ready to run.
pub struct Prepared {
    /// What to run.
    pub plans: Vec<Plan>,
    /// File systems to unmount afterwards.
    pub mounts: Vec<Mount>,
    /// What could not be prepared.
    pub notes: Vec<String>,
}

impl From<Vec<Plan>> for Prepared {
    fn from(plans: Vec<Plan>) -> Prepared {
        Prepared { plans, mounts: Vec::new(), notes: Vec::new() }
    }
}

impl Experiment {
    /// Whether its result is processor time, which a disk only blurs.
    pub fn in_memory(self) -> bool {
        matches!(self, Experiment::Thesis | Experiment::Projectdb)
    }

    /// Makes its plans. `full`: in the size that was published.
    pub fn prepare(self, dir: &Path, full: bool) -> Result<Prepared> {
        Ok(match self {
            Experiment::Thesis => thesis::plans(full).into(),
            Experiment::JournalModes => journal_modes::plans(full).into(),
            Experiment::Dangers => dangers::prepare(dir, full)?,
            Experiment::Projectdb => projectdb::plans(full).into(),
            Experiment::Dash => dash::prepare(dir, full),
        })
    }

    /// The tables and what agrees.
    pub fn report(self, groups: &[Group<'_>], style: Style) -> String {
        match self {
            Experiment::Thesis => thesis::report(groups, style),
            Experiment::JournalModes => journal_modes::report(groups, style),
            Experiment::Dangers => dangers::report(groups, style),
            Experiment::Projectdb => projectdb::report(groups, style),
            Experiment::Dash => dash::report(groups, style),
        }
    }
}

/// Claims of a publication and what was found here.
#[derive(Default)]
struct Claims(Vec<String>);

impl Claims {
    /// Adds a claim. `found` says whether it holds here; `None` if it was not measured.
    fn add(&mut self, claim: &str, found: Option<bool>, here: &str) {
        let verdict = match found {
            Some(true) => "agrees",
            Some(false) => "DOES NOT AGREE",
            None => "not measured",
        };
        let here = if here.is_empty() { String::new() } else { format!(" (here {here})") };
        self.0.push(format!("- {verdict}: {claim}{here}"));
    }

    fn text(self) -> String {
        self.0.join("\n")
    }
}

/// Median rate of a phase in operations a second of wall time.
fn rate(group: &Group<'_>, engine: Engine, phase: &str) -> Option<f64> {
    group.row(engine, phase).map(|row| row.rate.median)
}

/// Median processor time of a phase over plain SQLite's.
fn cost(group: &Group<'_>, engine: Engine, phase: &str) -> Option<f64> {
    group.row(engine, phase)?.cost.map(|cost| cost.median)
}

/// The group of this name in this journal mode.
fn find<'a, 'b>(groups: &'b [Group<'a>], name: &str, mode: &str) -> Option<&'b Group<'a>> {
    groups.iter().find(|g| {
        g.name() == name && g.parameters().is_some_and(|p| p.asked().journal_mode() == mode)
    })
}

/// A figure, or a dash where there is none.
fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn nothing_agrees_that_was_not_measured() {
        for experiment in Experiment::value_variants() {
            let text = experiment.report(&[], Style::Terminal);
            assert!(!text.contains("agrees") && !text.contains("AGREE"), "{experiment:?}: {text}");
            assert!(text.contains("not measured"), "{experiment:?}: {text}");
        }
    }
}
