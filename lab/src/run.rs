//! Runs: engines take turns, round by round, on fresh files.

use crate::database::Database;
use crate::engine::{Engine, extension};
use crate::meter::{Meter, Outcome};
use crate::params::{self, Settings, Site, Start, Storage};
use crate::record::{Record, Sink};
use crate::store;
use crate::workload::{Workload, hub};
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// One workload under one set of settings.
pub struct Plan {
    /// What is executed.
    pub workload: Box<dyn Workload>,
    /// By whom, in this order.
    pub engines: Vec<Engine>,
    /// Under which settings.
    pub settings: Settings,
    /// Turns of each engine that count.
    pub rounds: u32,
    /// Turns before that are thrown away.
    pub warm_up: u32,
    /// Seed of the workload.
    pub seed: u64,
    /// Name for its results.
    pub name: String,
    /// Another folder than the bench's own, such as one on another file system.
    pub dir: Option<PathBuf>,
}

/// Digests of the statements that an engine executed, and of the rows that it has then.
#[derive(Clone, Default)]
struct Digests {
    statements: Option<String>,
    rows: Option<String>,
}

/// What the first round of a plan found out.
#[derive(Clone, Default)]
struct Checked {
    /// Storage of a folder of the plan's own.
    site: Option<Site>,
    /// Digests of statements and rows of each engine.
    digests: Vec<Digests>,
}

/// A folder to measure in, and what holds for all runs in it.
pub struct Bench {
    dir: PathBuf,
    /// Removed with the bench, when nobody named the folder.
    _temporary: Option<tempfile::TempDir>,
    site: Site,
    stop: Arc<AtomicBool>,
    quiet: bool,
}

impl Bench {
    /// Measures in `dir`, which must be new or empty; without one in a temporary folder in `base`.
    /// `stop` is set when the user interrupts.
    pub fn new(
        dir: Option<&Path>,
        base: &Path,
        stop: Arc<AtomicBool>,
        quiet: bool,
    ) -> Result<Bench> {
        crate::vfs::install()?;
        crate::shadow::install()?;
        let (dir, temporary) = match dir {
            Some(dir) => {
                fs::create_dir_all(dir).map_err(Error::io(dir))?;
                if fs::read_dir(dir).map_err(Error::io(dir))?.next().is_some() {
                    return Err(Error::NotEmpty(dir.to_owned()));
                }
                (dir.to_owned(), None)
            }
            None => {
                let made = tempfile::Builder::new().prefix("synqlite-lab-").tempdir_in(base);
                let made = made.map_err(Error::io(base))?;
                (made.path().to_owned(), Some(made))
            }
        };
        let site = Site::detect(&dir)?;
        Ok(Bench { dir, _temporary: temporary, site, stop, quiet })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs the plans one after the other. Finished rounds go to `sink` at once; if the user
    /// interrupts, they stay there, and the file says so.
    pub fn run(&self, plans: &[Plan], mut sink: Option<Sink>) -> Result<Vec<Record>> {
        for plan in plans {
            let dir = plan.dir.as_deref().unwrap_or(&self.dir);
            let twice = |i: &usize| plan.engines[..*i].contains(&plan.engines[*i]);
            if let Some(i) = (0..plan.engines.len()).find(twice) {
                let engine = plan.engines[i];
                let hint = "the engine again is plain SQLite once more";
                return Err(Error::Bad(format!("engine {engine} is named twice; {hint}")));
            }
            let (free, needed) = (Storage::free(dir)? / 1_000_000, plan.workload.megabytes());
            if free < needed {
                return Err(Error::TooSmall { dir: dir.to_owned(), free, needed });
            }
        }
        let turns = |p: &Plan| u64::from(p.rounds + p.warm_up) * p.engines.len() as u64;
        let bar = self.bar(plans.iter().map(turns).sum());
        let mut records = Vec::new();
        let mut run = || {
            let mut keep = |record: Record| -> Result<()> {
                if let Some(sink) = &mut sink {
                    sink.write(&record)?;
                }
                records.push(record);
                Ok(())
            };
            let mut checked = vec![Checked::default(); plans.len()];
            let rounds = plans.iter().map(|p| p.warm_up + p.rounds).max().unwrap_or_default();
            // Plans take turns as engines do, so that a slow hour of the machine hits all of them.
            for round in 0..rounds {
                for (plan, checked) in plans.iter().zip(&mut checked) {
                    if round < plan.warm_up + plan.rounds {
                        self.round(plan, round, checked, &bar, &mut keep)?;
                    }
                }
            }
            Ok(())
        };
        let result: Result<()> = run();
        bar.finish_and_clear();
        let path = sink.as_ref().map(|s| format!(" in {}", s.path().display()));
        if let Some(sink) = sink {
            sink.end(result.is_ok())?;
        }
        match result {
            Ok(()) => Ok(records),
            Err(Error::Interrupted(..)) => {
                Err(Error::Interrupted(records.len(), path.unwrap_or_default()))
            }
            Err(e) => Err(e),
        }
    }

    fn bar(&self, turns: u64) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} turns, {eta} left: {msg}");
        ProgressBar::new(turns).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// One round of a plan: a turn of each engine. `keep` gets what is not warming up.
    fn round(
        &self,
        plan: &Plan,
        round: u32,
        checked: &mut Checked,
        bar: &ProgressBar,
        keep: &mut dyn FnMut(Record) -> Result<()>,
    ) -> Result<()> {
        if round == 0 {
            checked.site = plan.dir.as_deref().map(Site::detect).transpose()?;
            checked.digests = vec![Digests::default(); plan.engines.len()];
        }
        for (i, &engine) in plan.engines.iter().enumerate() {
            if self.stop.load(Relaxed) {
                return Err(Error::Interrupted(0, String::new()));
            }
            let label = plan.settings.label();
            bar.set_message(format!("{} {engine} {label}", plan.workload.name()));
            let place = params::Round {
                number: round.saturating_sub(plan.warm_up),
                of: plan.rounds,
                warm_up: plan.warm_up,
                in_turn: plan.engines.clone(),
                cache: "warm: files are new, nothing was dropped".to_owned(),
            };
            let site = checked.site.as_ref().unwrap_or(&self.site);
            let traced = round == 0 && plan.workload.same_for_all();
            let (parameters, mut outcome) = self.turn(plan, engine, site, place, traced)?;
            bar.inc(1);
            if outcome.rows.is_some() {
                let (statements, rows) = (outcome.statements.clone(), outcome.rows.clone());
                checked.digests[i] = Digests { statements, rows };
                equal(&plan.engines, &checked.digests)?;
            }
            if round < plan.warm_up {
                continue;
            }
            let Digests { statements, rows } = checked.digests[i].clone();
            (outcome.statements, outcome.rows) = (statements, rows);
            keep(Record { name: plan.name.clone(), parameters, outcome })?;
        }
        Ok(())
    }

    /// One engine's turn. `traced`: statements and rows are digested, which costs time.
    fn turn(
        &self,
        plan: &Plan,
        engine: Engine,
        site: &Site,
        round: params::Round,
        traced: bool,
    ) -> Result<(params::Parameters, Outcome)> {
        let base = plan.dir.as_deref().unwrap_or(&self.dir);
        let dir = tempfile::Builder::new().prefix("turn-").tempdir_in(base);
        let dir = dir.map_err(Error::io(base))?;
        let workload = params::Workload {
            name: plan.workload.name().to_owned(),
            options: plan.workload.options(),
            seed: plan.seed,
        };
        let mut meter = Meter::default();
        if let Engine::Store(name) = engine {
            let mut start = Start::detect(site, None, engine, workload, round, &plan.settings)?;
            start.store(store::label(plan.workload.wish(name))?);
            plan.workload.run_on_store(dir.path(), name, plan.seed, &mut meter)?;
            return Ok((start.finish(), meter.finish()));
        }
        if let Engine::Hub(kind) = engine {
            let mut start = Start::detect(site, None, engine, workload, round, &plan.settings)?;
            start.store(hub::label(kind));
            plan.workload.run_on_hub(dir.path(), kind, plan.seed, &mut meter)?;
            return Ok((start.finish(), meter.finish()));
        }
        let schema = plan.workload.schema();
        let path = dir.path().join("database.db");
        let mut db = Database::create(&path, engine, &plan.settings, &schema)?;
        let mut start =
            Start::detect(site, Some(&db.conn), engine, workload, round, &plan.settings)?;
        let mut digests = Digests::default();
        if traced && !matches!(engine, Engine::Extension(_)) {
            let run = |db: &mut Database| plan.workload.run(db, plan.seed, &mut meter);
            let ((), statements) = db.traced(run)?;
            digests.statements = Some(statements);
        } else {
            // An extension executes statements of its own on the same connection.
            plan.workload.run(&mut db, plan.seed, &mut meter)?;
        }
        if traced {
            digests.rows = Some(db.digest()?);
        }
        if let Engine::Extension(name) = engine {
            start.store((extension::find(name)?.label)(&db.conn)?);
        }
        db.close()?;
        let mut outcome = meter.finish();
        (outcome.statements, outcome.rows) = (digests.statements, digests.rows);
        Ok((start.finish(), outcome))
    }
}

/// Refuses a run whose engines did not execute the same.
fn equal(engines: &[Engine], digests: &[Digests]) -> Result<()> {
    type Part = fn(&Digests) -> &Option<String>;
    let parts: [(&'static str, Part); 2] =
        [("statements", |digests| &digests.statements), ("rows", |digests| &digests.rows)];
    for (what, part) in parts {
        let of = |(engine, digests)| Some((engine, part(digests).as_ref()?));
        let mut known = engines.iter().zip(digests).filter_map(of);
        let Some((baseline, first)) = known.next() else { continue };
        if let Some((engine, digest)) = known.find(|(_, digest)| *digest != first) {
            return Err(Error::Unlike {
                engine: engine.to_string(),
                baseline: baseline.to_string(),
                what,
                ours: first.clone(),
                theirs: digest.clone(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_that_did_not_execute_the_same_are_refused() {
        let engines = [Engine::Plain, Engine::Again];
        let digest =
            |s: &str, r: &str| Digests { statements: Some(s.to_owned()), rows: Some(r.to_owned()) };
        equal(&engines, &[digest("a", "b"), Digests::default()]).unwrap();
        equal(&engines, &[digest("a", "b"), digest("a", "b")]).unwrap();
        let error = equal(&engines, &[digest("a", "b"), digest("x", "b")]).unwrap_err();
        assert!(error.to_string().contains("other statements than plain"), "{error}");
        let error = equal(&engines, &[digest("a", "b"), digest("a", "x")]).unwrap_err();
        assert!(error.to_string().contains("other rows than plain"), "{error}");
    }
}
