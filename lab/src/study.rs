//! The slides' study: one parameter is varied, all others are held.
//!
//! The workload is the slides': so many single-row inserts, as many updates, as many deletes, on a
//! table that is populated before; journal mode DELETE and synchronous FULL unless they are what is
//! varied. The size of the log is varied in WAL mode, where there is one.

use crate::compare::{self, Group};
use crate::engine::Engine;
use crate::meter::Phase;
use crate::mount::{self, Mount};
use crate::params::Settings;
use crate::record::Record;
use crate::run::Plan;
use crate::stats::Summary;
use crate::table::{self, Style, number};
use crate::workload::micro::Micro;
use crate::{Error, Result};

/// What can be varied.
pub const VARIABLES: [&str; 7] = [
    "journal_mode",
    "synchronous",
    "populate",
    "wal_autocheckpoint",
    "page_size",
    "cache_size",
    "file_system",
];

/// A study.
pub struct Study {
    /// Which of [`VARIABLES`].
    pub vary: Vec<String>,
    /// Transactions of each kind.
    pub transactions: u64,
    /// Rows before.
    pub populate: u64,
    /// Engines.
    pub engines: Vec<Engine>,
    /// Rounds.
    pub rounds: u32,
    /// Seed.
    pub seed: u64,
}

impl Study {
    /// Refuses what is no variable.
    pub fn check(&self) -> Result<()> {
        let unknown = self.vary.iter().find(|v| !VARIABLES.contains(&v.as_str()));
        unknown.map_or(Ok(()), |v| Err(Error::unknown("variable", v, &VARIABLES)))
    }

    fn plan(&self, name: String, settings: Settings, populate: u64) -> Plan {
        Plan {
            workload: Box::new(Micro {
                tables: 1,
                columns: 4,
                rows: vec![self.transactions],
                transaction: 1,
                populate,
                fold_between: false,
                ..Micro::default()
            }),
            engines: self.engines.clone(),
            settings,
            rounds: self.rounds,
            warm_up: 1,
            seed: self.seed,
            name,
            dir: None,
        }
    }

    /// The plans. File systems are mounted below `folder`; those that cannot be are named in the
    /// notes.
    pub fn plans(&self, folder: &std::path::Path) -> Result<(Vec<Plan>, Vec<Mount>, Vec<String>)> {
        let base = Settings::default()
            .with("foreign_keys", "off")
            .with("journal_mode", "delete")
            .with("synchronous", "full");
        let wal = base.with("journal_mode", "wal").with("synchronous", "normal");
        let mut plans = Vec::new();
        let (mut mounts, mut notes) = (Vec::new(), Vec::new());
        for variable in &self.vary {
            let (settings, values): (&Settings, &[&str]) = match variable.as_str() {
                "journal_mode" => {
                    (&base, &["delete", "truncate", "persist", "memory", "wal", "off"])
                }
                "synchronous" => (&base, &["full", "normal", "off", "extra"]),
                "wal_autocheckpoint" => (&wal, &["1000", "10", "100", "10000"]),
                "page_size" => (&base, &["4096", "1024", "16384", "65536"]),
                "cache_size" => (&base, &["-2000", "-100", "-20000"]),
                _ => (&base, &[]),
            };
            for value in values {
                let name = format!("{variable}={value}");
                plans.push(self.plan(name, settings.with(variable, value), self.populate));
            }
            if variable == "populate" {
                for rows in [0, self.populate, self.populate * 10] {
                    plans.push(self.plan(format!("populate={rows}"), base.clone(), rows));
                }
            }
            if variable == "file_system" {
                plans.push(self.plan("file_system=own".into(), base.clone(), self.populate));
                for kind in mount::KINDS {
                    match Mount::new(kind, folder) {
                        Ok(mount) => {
                            let name = format!("file_system={kind}");
                            let mut plan = self.plan(name, base.clone(), self.populate);
                            plan.dir = Some(mount.dir().to_owned());
                            plans.push(plan);
                            mounts.push(mount);
                        }
                        Err(error) => notes.push(format!("{kind} was not measured: {error}")),
                    }
                }
            }
        }
        Ok((plans, mounts, notes))
    }
}

/// The table of a study: a line a value, each compared with the first value of its variable.
pub fn table(records: &[Record], style: Style) -> String {
    let groups = compare::group(records);
    let variable = |g: &Group<'_>| g.name().split('=').next().unwrap_or_default().to_owned();
    let mut lines = Vec::new();
    for group in &groups {
        let first = groups.iter().find(|g| variable(g) == variable(group));
        for (engine, records) in &group.engines {
            let all = |records: &[&Record], of: &dyn Fn(&Phase) -> f64| -> Vec<f64> {
                records.iter().map(|r| r.outcome.phases.iter().map(of).sum()).collect()
            };
            let ratio = |of: &dyn Fn(&Phase) -> f64| {
                let theirs = first.and_then(|g| g.of(*engine))?;
                Summary::of_ratios(&all(theirs, of), &all(records, of))
            };
            let rate = |phase: &str| {
                group.row(*engine, phase).map(|r| number(r.rate.median)).unwrap_or_default()
            };
            let per_transaction = |of: &dyn Fn(&Phase) -> f64| {
                let total = |f: &dyn Fn(&Phase) -> f64| all(records, f).iter().sum::<f64>();
                number(total(of) / total(&|p| p.transactions as f64).max(1.0))
            };
            lines.push(vec![
                group.name().to_owned(),
                engine.to_string(),
                rate("insert"),
                rate("update"),
                rate("delete"),
                table::interval(&ratio(&|p| p.wall)),
                table::interval(&ratio(&|p| p.processor)),
                per_transaction(&|p| p.files.syncs as f64),
                per_transaction(&|p| p.files.written_bytes as f64 / 1000.0),
            ]);
        }
    }
    let header = [
        "parameter",
        "engine",
        "insert/s",
        "update/s",
        "delete/s",
        "rate over first value, wall",
        "… processor",
        "syncs/txn",
        "KB written/txn",
    ];
    table::draw(style, &header, &lines)
}
