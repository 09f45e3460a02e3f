//! Puts results side by side: engines against plain SQLite, phase by phase.

use crate::device::Work;
use crate::engine::Engine;
use crate::meter::Phase;
use crate::params::Parameters;
use crate::record::Record;
use crate::stats::Summary;
use std::collections::BTreeMap;

/// Results that differ in engine and round only.
pub struct Group<'a> {
    /// Ratios are over this engine.
    pub over: Engine,
    /// The results of each engine, in the order of their turns and rounds.
    pub engines: Vec<(Engine, Vec<&'a Record>)>,
}

/// A phase of one engine, summed up.
#[derive(Clone, Debug)]
pub struct Row {
    /// Phase.
    pub phase: String,
    /// Engine.
    pub engine: Engine,
    /// Operations a second of wall time.
    pub rate: Summary,
    /// Microseconds of processor time an operation.
    pub processor: Summary,
    /// Processor time over that of [`Group::over`], pair by pair.
    pub cost: Option<Summary>,
    /// Wall time over it, pair by pair.
    pub slowdown: Option<Summary>,
    /// Calls of the file system a transaction.
    pub calls: Option<f64>,
    /// Syncs a transaction; a store that is no SQLite is not counted.
    pub syncs: Option<f64>,
    /// Kilobytes written a transaction.
    pub written_kb: Option<f64>,
    /// Names changed or exchanged a transaction.
    pub renames: Option<f64>,
}

/// Sorts results into groups, in order of appearance; ratios are over plain SQLite.
pub fn group(records: &[Record]) -> Vec<Group<'_>> {
    group_over(records, Engine::Plain)
}

/// The same with ratios over another engine.
pub fn group_over(records: &[Record], over: Engine) -> Vec<Group<'_>> {
    let mut keys: Vec<String> = Vec::new();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for record in records {
        let mut parts = record.parameters.comparable();
        // One program has one SQLite; a store that is none belongs beside it.
        let own = ["engine", "sqlite", "sqlite.", "store."];
        parts.retain(|(path, _)| {
            !own.iter().any(|o| path == o || o.ends_with('.') && path.starts_with(o))
        });
        let key = format!("{} {parts:?}", record.name);
        let at = keys.iter().position(|k| *k == key).unwrap_or_else(|| {
            keys.push(key);
            groups.push(Group { over, engines: Vec::new() });
            groups.len() - 1
        });
        let engine = record.parameters.engine();
        let engines = &mut groups[at].engines;
        match engines.iter_mut().find(|(e, _)| *e == engine) {
            Some((_, list)) => list.push(record),
            None => engines.push((engine, vec![record])),
        }
    }
    groups
}

fn values(records: &[&Record], phase: &str, of: impl Fn(&Phase) -> f64) -> Vec<f64> {
    let phases = records.iter().filter_map(|r| r.outcome.phases.iter().find(|p| p.name == phase));
    phases.map(of).collect()
}

impl<'a> Group<'a> {
    /// Circumstances of its first result.
    pub fn parameters(&self) -> Option<&'a Parameters> {
        self.engines.first()?.1.first().map(|record| &record.parameters)
    }

    /// Name that the user gave its results.
    pub fn name(&self) -> &'a str {
        let first = self.engines.first().and_then(|(_, list)| list.first());
        first.map_or("", |record| &record.name)
    }

    /// `micro, wal/normal`.
    pub fn title(&self) -> String {
        let Some(first) = self.engines.first().and_then(|(_, list)| list.first()) else {
            return String::new();
        };
        let p = &first.parameters;
        let workload = &p.workload().name;
        let named = !first.name.is_empty() && first.name != *workload;
        let name = if named { format!("{}: ", first.name) } else { String::new() };
        format!("{name}{workload}, {}", p.asked().label())
    }

    /// The results of an engine.
    pub fn of(&self, engine: Engine) -> Option<&[&'a Record]> {
        self.engines.iter().find(|(e, _)| *e == engine).map(|(_, list)| &list[..])
    }

    /// Names of the phases, in order.
    pub fn phases(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let records = self.engines.iter().filter_map(|(_, list)| list.first());
        for phase in records.flat_map(|record| &record.outcome.phases) {
            if !names.contains(&phase.name) {
                names.push(phase.name.clone());
            }
        }
        names
    }

    /// One phase of one engine.
    pub fn row(&self, engine: Engine, phase: &str) -> Option<Row> {
        let ours = self.of(engine)?;
        let theirs = self.of(self.over).filter(|_| engine != self.over);
        let ratio = |of: &dyn Fn(&Phase) -> f64| {
            Summary::of_ratios(&values(ours, phase, of), &values(theirs?, phase, of))
        };
        let sum = |of: &dyn Fn(&Phase) -> f64| values(ours, phase, of).iter().sum::<f64>();
        let transactions = sum(&|p| p.transactions as f64).max(1.0);
        let counted = !matches!(engine, Engine::Store(_) | Engine::Hub(_));
        Some(Row {
            phase: phase.to_owned(),
            engine,
            rate: Summary::of(&values(ours, phase, |p| p.operations as f64 / p.wall))?,
            processor: Summary::of(&values(ours, phase, |p| {
                p.processor * 1e6 / p.operations.max(1) as f64
            }))?,
            cost: ratio(&|p| p.processor),
            slowdown: ratio(&|p| p.wall),
            calls: counted.then(|| sum(&|p| p.files.calls() as f64) / transactions),
            syncs: counted.then(|| sum(&|p| p.files.syncs as f64) / transactions),
            written_kb: counted
                .then(|| sum(&|p| p.files.written_bytes as f64) / 1000.0 / transactions),
            renames: counted.then(|| sum(&|p| p.files.renames as f64) / transactions),
        })
    }

    /// What a transaction of a phase makes the device do: of the round with the median of bytes.
    pub fn work(&self, engine: Engine, phase: &str) -> Option<Work> {
        let phases = self.of(engine)?.iter().flat_map(|r| &r.outcome.phases);
        let of_phase = phases.filter(|p| p.name == phase);
        let mut rounds: Vec<&Work> = of_phase.filter_map(|p| p.device.as_ref()).collect();
        rounds.sort_by(|a, b| a.kilobytes.mean.total_cmp(&b.kilobytes.mean));
        rounds.get(rounds.len() / 2).copied().cloned()
    }

    /// All rows, by phase.
    pub fn rows(&self) -> Vec<Row> {
        let phases = self.phases();
        let each = |phase: &String| {
            self.engines.iter().filter_map(|(e, _)| self.row(*e, phase)).collect::<Vec<_>>()
        };
        phases.iter().flat_map(each).collect()
    }

    /// Median of each other figure by name and engine, with its ratio to that of the engine over which ratios are.
    pub fn facts(&self) -> BTreeMap<String, Vec<(Engine, f64, Option<f64>)>> {
        let mut facts: BTreeMap<String, Vec<(Engine, f64, Option<f64>)>> = BTreeMap::new();
        let median = |records: &[&Record], name: &str| {
            let all = records.iter().filter_map(|r| r.outcome.facts.get(name).copied());
            Summary::of(&all.collect::<Vec<_>>()).map(|s| s.median)
        };
        let names = self.engines.iter().flat_map(|(_, list)| list.iter());
        let mut names: Vec<&String> = names.flat_map(|r| r.outcome.facts.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let base = self.of(self.over).and_then(|list| median(list, name));
            for (engine, list) in &self.engines {
                let Some(value) = median(list, name) else { continue };
                let ratio = base.filter(|p| *p > 0.0).map(|p| value / p);
                facts.entry(name.clone()).or_default().push((*engine, value, ratio));
            }
        }
        facts
    }
}
