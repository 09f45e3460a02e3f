//! The parameters of a result: all of them, detected, none typed in.
//!
//! [`Parameters`] has no constructor but [`Start::finish`], and a result cannot be made without
//! them, so no figure is written whose circumstances are unknown. What the system does not tell is
//! recorded as `unknown`, with the reason.

mod machine;
mod sqlite;
mod storage;

pub use machine::{Load, Machine};
pub use sqlite::{Settings, Sqlite};
pub use storage::Storage;

use crate::Result;
use crate::engine::Engine;
use crate::store::Label;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::Path;

/// The circumstances of one result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameters {
    engine: Engine,
    workload: Workload,
    round: Round,
    /// What the user asked SQLite to be.
    asked: Settings,
    /// What SQLite says it is; absent where the engine is no SQLite.
    sqlite: Option<Sqlite>,
    /// Which store it is and what it was told; absent where the engine is SQLite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    store: Option<Label>,
    storage: Storage,
    machine: Machine,
    program: Program,
    started: String,
    load_before: Load,
    load_after: Load,
}

/// What was executed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub options: Value,
    /// Seed of all that is random in it.
    pub seed: u64,
}

/// The place of a result in its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// From 0.
    pub number: u32,
    /// Rounds that were planned.
    pub of: u32,
    /// Rounds before them that were thrown away.
    pub warm_up: u32,
    /// The engines that took turns, in this order.
    pub in_turn: Vec<Engine>,
    /// State of the caches when it began.
    pub cache: String,
}

/// This program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Program {
    version: String,
    commit: String,
    build: String,
}

impl Program {
    /// The program that runs.
    pub fn detect() -> Program {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        Program {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("LAB_COMMIT").to_owned(),
            build: build.to_owned(),
        }
    }

    /// Version and commit.
    pub fn label(&self) -> String {
        format!("{} at {} ({} build)", self.version, self.commit, self.build)
    }
}

/// What does not change while a process measures in one folder.
#[derive(Clone, Debug)]
pub struct Site {
    storage: Storage,
    machine: Machine,
}

impl Site {
    /// Asks the system; takes a moment, because it times syncs in `dir`.
    pub fn detect(dir: &Path) -> Result<Site> {
        Ok(Site { storage: Storage::detect(dir)?, machine: Machine::detect() })
    }
}

/// Parameters of a result that is being measured.
pub struct Start {
    parameters: Parameters,
}

impl Start {
    /// Notes everything before the measurement. `conn` is the application's connection, if the
    /// engine is a SQLite.
    pub fn detect(
        site: &Site,
        conn: Option<&Connection>,
        engine: Engine,
        workload: Workload,
        round: Round,
        asked: &Settings,
    ) -> Result<Start> {
        let load = Load::detect();
        let parameters = Parameters {
            engine,
            workload,
            round,
            asked: asked.clone(),
            sqlite: conn.map(Sqlite::detect).transpose()?,
            store: None,
            storage: site.storage.clone(),
            machine: site.machine.clone(),
            program: Program::detect(),
            started: jiff::Timestamp::now()
                .round(jiff::Unit::Second)
                .map_or_else(|e| format!("unknown: {e}"), |now| now.to_string()),
            load_before: load.clone(),
            load_after: load,
        };
        Ok(Start { parameters })
    }

    /// Notes which store it is.
    pub fn store(&mut self, label: Label) {
        self.parameters.store = Some(label);
    }

    /// Completes them after the measurement.
    pub fn finish(mut self) -> Parameters {
        self.parameters.load_after = Load::detect();
        self.parameters
    }
}

/// Parts of the parameters that differ between any two runs and do not make them unlike.
const VOLATILE: [&str; 7] = [
    "started",
    "load_before",
    "load_after",
    "round.number",
    "storage.free",
    "storage.fsync_us",
    "storage.size",
];

impl Parameters {
    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The workload.
    pub fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The round.
    pub fn round(&self) -> &Round {
        &self.round
    }

    /// What the user asked SQLite to be.
    pub fn asked(&self) -> &Settings {
        &self.asked
    }

    /// Which store it is and what it was told; absent where the engine is SQLite.
    pub fn store(&self) -> Option<&Label> {
        self.store.as_ref()
    }

    /// The program that measured.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Everything that must agree for two results to be compared, as (path, value).
    pub fn comparable(&self) -> Vec<(String, String)> {
        let value = serde_json::to_value(self).unwrap_or(Value::Null);
        let mut flat = Vec::new();
        flatten(&value, "", &mut flat);
        let volatile =
            |path: &str| VOLATILE.iter().any(|v| path == *v || path.starts_with(&format!("{v}.")));
        flat.retain(|(path, _)| !volatile(path));
        flat
    }

    /// What differs from `other` apart from paths that begin with one of `compared`, as
    /// `path: here / there`.
    pub fn differences(&self, other: &Parameters, compared: &[&str]) -> Vec<String> {
        let (ours, theirs) = (self.comparable(), other.comparable());
        let find = |list: &[(String, String)], path: &str| {
            let found = list.iter().find(|(p, _)| p == path);
            found.map_or_else(|| "absent".to_owned(), |(_, value)| value.clone())
        };
        let mut paths: Vec<&String> = ours.iter().chain(&theirs).map(|(path, _)| path).collect();
        paths.sort();
        paths.dedup();
        let free = |path: &&&String| {
            !compared.iter().any(|c| path.as_str() == *c || path.starts_with(&format!("{c}.")))
        };
        let differing = paths.iter().filter(free).filter_map(|path| {
            let (here, there) = (find(&ours, path), find(&theirs, path));
            (here != there).then(|| format!("{path}: {here} / {there}"))
        });
        differing.collect()
    }

    /// The lines that stand beside figures.
    pub fn lines(&self) -> Vec<String> {
        vec![
            self.sqlite.as_ref().map_or_else(|| "no SQLite".to_owned(), Sqlite::label),
            format!("storage: {}", self.storage.label()),
            format!("machine: {}, {}", self.machine.label(), self.machine.kernel()),
            format!(
                "workload {}: {} seed={}",
                self.workload.name, self.workload.options, self.workload.seed
            ),
            format!(
                "rounds: {}, after {} to warm up, {} in turn, caches {}",
                self.round.of,
                self.round.warm_up,
                self.round.in_turn.iter().map(Engine::to_string).collect::<Vec<_>>().join(" "),
                self.round.cache
            ),
            format!(
                "lab {}, {}, load {} before, {} after",
                self.program.label(),
                self.started,
                self.load_before.minute(),
                self.load_after.minute()
            ),
        ]
    }
}

fn flatten(value: &Value, at: &str, out: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                flatten(value, &path, out);
            }
        }
        Value::String(text) => out.push((at.to_owned(), text.clone())),
        other => out.push((at.to_owned(), other.to_string())),
    }
}
