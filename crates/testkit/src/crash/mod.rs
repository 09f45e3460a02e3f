//! A process is killed while it works on a replica; nothing may be lost, and nothing half done.
//!
//! Each round copies the same [`Fixture`], starts one command on it as a process of its own, and
//! kills it (SIGKILL): after a random part of the time that the command usually takes, or, every
//! second round, a random moment after the first file appears that SQLite or the command makes while
//! it writes. Half of the rounds use WAL. Then this must hold:
//!
//! 1. SQLite finds every database sound, and `verify` finds no contradiction in any replica.
//! 2. Each database shows what it showed before the command, or what it shows after it.
//! 3. The same command run again succeeds; a clone that was complete is refused, as it exists.
//! 4. When all sites have synchronized they show the same rows: those of an undisturbed run.
//! 5. After `deinit`, schema and rows are those of the database that was initialized.

mod fixture;
mod process;

pub use fixture::{Fixture, Shown};
pub use process::{Program, child};

use crate::random::Random;
use crate::world::Result;
use process::Watch;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// A command that is killed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Operation {
    Init,
    Fold,
    PullPath,
    PullFolder,
    PushPath,
    PushFolder,
    ClonePath,
    CloneFolder,
    Deinit,
}

use Operation::{
    CloneFolder, ClonePath, Deinit, Fold, Init, PullFolder, PullPath, PushFolder, PushPath,
};

/// All of them.
pub const OPERATIONS: [Operation; 9] =
    [Init, Fold, PullPath, PullFolder, PushPath, PushFolder, ClonePath, CloneFolder, Deinit];

impl Operation {
    /// Arguments of the command, for files in `dir`.
    fn arguments(self, dir: &Path) -> Vec<String> {
        let file = |name: &str| dir.join(name).display().to_string();
        let folder = || format!("file://{}/", dir.join("folder").display());
        match self {
            Init => vec!["init".into(), file("plain.db")],
            Fold => vec!["fold".into(), file("a.db")],
            PullPath => vec!["pull".into(), file("a.db"), file("b.db")],
            PullFolder => vec!["pull".into(), file("a.db"), folder()],
            PushPath => vec!["push".into(), file("a.db"), file("b.db")],
            PushFolder => vec!["push".into(), file("a.db"), folder()],
            ClonePath => vec!["clone".into(), file("a.db"), file("d.db")],
            CloneFolder => vec!["clone".into(), folder(), file("d.db")],
            Deinit => vec!["deinit".into(), file("a.db")],
        }
    }

    /// The databases that take part in the last synchronization.
    fn sites(self) -> &'static [&'static str] {
        match self {
            Init => &["plain.db"],
            ClonePath | CloneFolder => &["a.db", "b.db", "c.db", "d.db"],
            Deinit => &["b.db", "c.db"],
            _ => &["a.db", "b.db", "c.db"],
        }
    }
}

/// What the kills of one operation hit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hits {
    /// The process was still running.
    pub running: u32,
    /// Among those: files of an unfinished write were there.
    pub writing: u32,
    /// The process had ended before.
    pub ended: u32,
}

/// What a campaign did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By operation.
    pub hits: BTreeMap<Operation, Hits>,
    /// What went wrong, with how to repeat it.
    pub failures: Vec<String>,
}

impl Report {
    /// Kills that met a running process.
    pub fn running(&self) -> u32 {
        self.hits.values().map(|h| h.running).sum()
    }

    /// Kills that left files of an unfinished write.
    pub fn writing(&self) -> u32 {
        self.hits.values().map(|h| h.writing).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:12} {:>8} {:>8} {:>8}", "command", "killed", "writing", "ended")?;
        for (operation, hits) in &self.hits {
            let name = format!("{operation:?}");
            writeln!(f, "{name:12} {:>8} {:>8} {:>8}", hits.running, hits.writing, hits.ended)?;
        }
        writeln!(
            f,
            "{} kills met a running command, {} of them in the middle of a write; checked after \
             each: integrity_check, verify, rows before or after, command again, convergence",
            self.running(),
            self.writing()
        )?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "FAILED {failure}"))
    }
}

/// What an undisturbed run of one operation did.
struct Control {
    /// How long it took.
    takes: Duration,
    /// What each database shows right after it.
    after: BTreeMap<String, Shown>,
    /// What every site shows when all have synchronized.
    settled: Option<Shown>,
}

/// Kills `rounds` commands of `program` at points that follow from `seed`. `rows` is the size of
/// the databases. `tell` hears of each failure and of progress.
pub fn campaign(
    program: &Program,
    rounds: u64,
    seed: u64,
    rows: u32,
    tell: &mut dyn FnMut(&str),
) -> Result<Report> {
    let fixture = Fixture::new(rows)?;
    let mut controls = BTreeMap::new();
    for operation in OPERATIONS {
        let control = control(program, &fixture, operation);
        let control = control.map_err(|e| format!("undisturbed {operation:?}: {e}"))?;
        tell(&format!("{operation:?} takes {} ms undisturbed", control.takes.as_millis()));
        controls.insert(operation, control);
    }
    let mut report = Report::default();
    for round in 0..rounds {
        let mut r = Random::new(seed.wrapping_add(round.wrapping_mul(0x9e37)));
        let operation = OPERATIONS[(round % OPERATIONS.len() as u64) as usize];
        let hits = report.hits.entry(operation).or_default();
        let control = &controls[&operation];
        if let Err(e) = self::round(program, &fixture, operation, control, &mut r, hits) {
            let failure = format!("round {round} of seed {seed}, {operation:?}: {e}");
            tell(&failure);
            report.failures.push(failure);
        }
        if (round + 1) % 90 == 0 {
            tell(&format!(
                "{} rounds, {} kills met a running command",
                round + 1,
                report.running()
            ));
        }
    }
    Ok(report)
}

/// Runs an operation undisturbed.
fn control(program: &Program, fixture: &Fixture, operation: Operation) -> Result<Control> {
    let mut takes = Duration::MAX;
    let mut last = None;
    for _ in 0..2 {
        let dir = fixture.copy(false)?;
        let started = Instant::now();
        program.run(&operation.arguments(dir.path()))?;
        takes = takes.min(started.elapsed());
        last = Some(dir);
    }
    let dir = last.ok_or("no run")?;
    let mut after = BTreeMap::new();
    for name in fixture::databases(dir.path())? {
        after.insert(name.clone(), Shown::of(&dir.path().join(name))?);
    }
    let settled = fixture::settle(dir.path(), operation.sites())?;
    Ok(Control { takes, after, settled })
}

fn round(
    program: &Program,
    fixture: &Fixture,
    operation: Operation,
    control: &Control,
    r: &mut Random,
    hits: &mut Hits,
) -> Result<()> {
    let dir = fixture.copy(r.one_in(2))?;
    let arguments = operation.arguments(dir.path());
    let micros = u64::try_from(control.takes.as_micros())?;
    let mut watch = Watch::start(program, &arguments, dir.path())?;
    if r.one_in(2) {
        watch.until_writing(control.takes * 4)?;
        watch.wait(Duration::from_micros(r.below(micros / 2 + 1)))?;
    } else {
        watch.wait(Duration::from_micros(r.below(micros + micros / 20 + 1)))?;
    }
    match watch.kill()? {
        None => hits.ended += 1,
        Some(writing) => {
            hits.running += 1;
            hits.writing += u32::from(writing);
        }
    }
    let names = fixture::databases(dir.path())?;
    for name in &names {
        let path = dir.path().join(name);
        program.check(&path).map_err(|e| format!("after the kill, {name}: {e}"))?;
        let shown = Shown::of(&path)?;
        let before = fixture.shown.get(name);
        // A large merge comes in slices, and a kill may come between two.
        let between = || fixture::arriving(&path).map(|rows| rows > 0);
        if Some(&shown) != before && Some(&shown) != control.after.get(name) && !between()? {
            return Err(format!("{name} shows neither what it did before nor after").into());
        }
    }
    again(program, operation, &arguments, dir.path(), &names)?;
    for name in fixture::databases(dir.path())? {
        program.check(&dir.path().join(&name)).map_err(|e| format!("in the end, {name}: {e}"))?;
    }
    if operation == Deinit {
        let path = dir.path().join("a.db");
        if fixture::has_traces(&path)? || Some(&Shown::of(&path)?) != fixture.shown.get("a.db") {
            return Err("deinit left a trace or changed something".into());
        }
    }
    if fixture::settle(dir.path(), operation.sites())? != control.settled {
        return Err("the sites settle on other rows than undisturbed".into());
    }
    Ok(())
}

/// Runs the killed command again.
fn again(
    program: &Program,
    operation: Operation,
    arguments: &[String],
    dir: &Path,
    names: &[String],
) -> Result<()> {
    let done = match operation {
        ClonePath | CloneFolder => names.iter().any(|name| name == "d.db"),
        Deinit => !fixture::has_traces(&dir.join("a.db"))?,
        _ => false,
    };
    match (program.run(arguments), done) {
        (Ok(()), false) | (Err(_), true) => Ok(()),
        (Ok(()), true) => Err("it does again what was done".into()),
        (Err(e), false) => Err(format!("again: {e}").into()),
    }
}
