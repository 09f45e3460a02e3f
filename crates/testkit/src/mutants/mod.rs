//! Repairs taken out again: does a campaign notice when one is gone?
//!
//! A *mutant* is the engine with one repair taken out: a short text of its sources replaced by another.
//! The sources are copied beside the build products, changed there, and built; then a campaign runs on
//! that build until its first fault. What the campaigns do not find they would not have found before it
//! was repaired, and will not find when it comes again in another form.

mod merges;
mod schemas;

use crate::world::Result;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use synqlite_view::random;

/// A history that takes longer will not end.
const PATIENCE: Duration = Duration::from_secs(120);

const MODEL: &str = "model --constraints";

/// The random states in memory, on random schemas.
const STATES: &str = "states";

/// So many of them take no longer than one history on files.
const STATES_EACH: u64 = 500;

/// All mutants.
pub fn all() -> impl Iterator<Item = &'static Mutant<'static>> {
    merges::ALL.iter().chain(schemas::ALL)
}

/// A repair taken out.
#[derive(Clone, Copy, Debug)]
pub struct Mutant<'a> {
    /// What it is called.
    pub name: &'static str,
    /// A file in `crates`.
    pub file: &'static str,
    /// What stands there once.
    pub from: &'static str,
    /// What stands there instead.
    pub to: &'static str,
    /// Arguments of the campaign that is to find it.
    pub campaign: &'a str,
    /// The rule that it breaks, and how.
    pub breaks: &'static str,
}

/// What a campaign made of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The nth history ended in a fault.
    Found(u64, String),
    /// None did.
    NotFound,
    /// The campaign cannot run here.
    Skipped(String),
}

/// The sources once more, to be changed and built.
pub struct Bench {
    tree: PathBuf,
    target: PathBuf,
}

impl Bench {
    /// Copies the sources of this work tree, but for what git ignores. What is there already as it should
    /// be is left alone, so that little has to be built.
    pub fn set_up() -> Result<Bench> {
        let root = root();
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let folder = target.unwrap_or_else(|| root.join("target")).join("mutants");
        let bench = Bench { tree: folder.join("tree"), target: folder.join("target") };
        let listed = Command::new("git")
            .arg("-C")
            .arg(&root)
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()?;
        if !listed.status.success() {
            return Err(String::from_utf8_lossy(&listed.stderr).into());
        }
        let names = String::from_utf8(listed.stdout)?;
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let (from, to) = (root.join(name), bench.tree.join(name));
            // One that was deleted is still known.
            let Ok(content) = std::fs::read(&from) else { continue };
            if std::fs::read(&to).ok().as_ref() != Some(&content) {
                to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                std::fs::write(&to, content)?;
            }
        }
        Ok(bench)
    }

    /// Builds a mutant and runs its campaign on it, with `jobs` workers, until the first fault, for so
    /// many histories at most.
    pub fn try_out(&self, mutant: &Mutant<'_>, histories: u64, jobs: u64) -> Result<Outcome> {
        let path = self.tree.join("crates").join(mutant.file);
        let whole = std::fs::read_to_string(&path)?;
        if whole.matches(mutant.from).count() != 1 {
            return Err(format!("{}: {} does not have it once", mutant.name, mutant.file).into());
        }
        std::fs::write(&path, whole.replacen(mutant.from, mutant.to, 1))?;
        let built = self.build(mutant);
        let outcome = built.and_then(|built| self.campaign(&built, mutant, histories, jobs));
        std::fs::write(&path, whole)?;
        outcome
    }

    /// Histories that end in a fault of the engine as it is say nothing of the mutant.
    fn campaign(
        &self,
        program: &Path,
        mutant: &Mutant<'_>,
        histories: u64,
        jobs: u64,
    ) -> Result<Outcome> {
        let (whole, states) = (std::env::current_exe()?, mutant.campaign == STATES);
        let (mut from, to) = (0, if states { histories * STATES_EACH } else { histories });
        loop {
            let found = play(program, mutant, from..to, jobs)?;
            let Outcome::Found(nth, _) = &found else { return Ok(found) };
            let fails = match states {
                true => random::play(nth - 1).is_some(),
                false => matches!(play(&whole, mutant, nth - 1..*nth, 1)?, Outcome::Found(..)),
            };
            if !fails {
                return Ok(found);
            }
            from = *nth;
        }
    }

    /// Builds what plays the campaign of a mutant.
    fn build(&self, mutant: &Mutant<'_>) -> Result<PathBuf> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let product: &[&str] = match mutant.campaign {
            STATES => &["test", "--no-run", "--package", "synqlite-view", "--lib"],
            _ => &[
                "build",
                "--package",
                "synqlite-testkit",
                "--bin",
                "campaign",
                "--features",
                "bundled",
            ],
        };
        let built = Command::new(cargo)
            .args(product)
            .args(["--quiet", "--release", "--message-format", "json"])
            .arg("--manifest-path")
            .arg(self.tree.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", &self.target)
            // So that only what a mutant changes is compiled anew.
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            // What a repair used may be used by nobody else.
            .env("RUSTFLAGS", "--cap-lints=allow")
            .output()?;
        let told = String::from_utf8_lossy(&built.stdout);
        let programs = told.lines().filter_map(|line| line.split_once("\"executable\":\""));
        let program = programs.filter_map(|(_, rest)| rest.split_once('"')).next_back();
        if let (true, Some((program, _))) = (built.status.success(), program) {
            return Ok(PathBuf::from(program));
        }
        let why = String::from_utf8_lossy(&built.stderr);
        Err(format!("{} does not compile:\n{why}", mutant.name).into())
    }
}

/// Runs the campaign of a mutant in this program until the first fault.
fn play(program: &Path, mutant: &Mutant<'_>, seeds: Range<u64>, jobs: u64) -> Result<Outcome> {
    let (mut command, range) = (Command::new(program), format!("{}..{}", seeds.start, seeds.end));
    match mutant.campaign {
        STATES => command.args(["looking_at_some", "--nocapture"]).env("SYNQLITE_STATES", range),
        campaign => command.args(campaign.split(' ')).args([
            "--seeds",
            &range,
            "--jobs",
            &jobs.to_string(),
            "--first",
        ]),
    };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let outcome = listen(&mut child, seeds.start);
    // It has ended, or will not.
    let _gone = child.kill();
    let status = child.wait()?;
    match outcome {
        Some(outcome) => Ok(outcome),
        None if status.success() => Ok(Outcome::NotFound),
        None => Err(format!("{}: the campaign ended with {status}", mutant.name).into()),
    }
}

/// What a campaign says that begins with this seed, until it ends or says nothing any more.
fn listen(child: &mut Child, mut last: u64) -> Option<Outcome> {
    let out = child.stdout.take()?;
    let (say, hear) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(out).split(b'\n').map_while(std::io::Result::ok);
        lines.map(|line| say.send(line)).take_while(std::result::Result::is_ok).for_each(drop);
    });
    loop {
        let line = match hear.recv_timeout(PATIENCE) {
            Ok(line) => String::from_utf8_lossy(&line).into_owned(),
            Err(RecvTimeoutError::Timeout) => {
                return Some(Outcome::Found(last + 1, "it does not end".to_owned()));
            }
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        match line.split_once(' ') {
            Some(("FAULT", rest)) => {
                let (seed, kind) = rest.strip_prefix("seed ")?.split_once(": ")?;
                return Some(Outcome::Found(seed.parse::<u64>().ok()? + 1, kind.to_owned()));
            }
            Some(("played", seed)) => last = seed.parse::<u64>().ok()? + 1,
            Some(("skipped:", why)) => return Some(Outcome::Skipped(why.to_owned())),
            _ => {}
        }
    }
}

/// The work tree that this was built from.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wild::regions::Regions;
    use std::collections::BTreeSet;

    #[test]
    fn each_mutant_fits_the_sources() {
        let mut names = BTreeSet::new();
        for Mutant { name, file, from, to, campaign, breaks } in all() {
            assert!(names.insert(name), "two mutants are called {name}");
            let path = root().join("crates").join(file);
            let text = std::fs::read_to_string(&path).unwrap();
            let count = text.matches(from).count();
            assert_eq!(count, 1, "{name}: {file} has this {count} times, not once: {from}");
            assert_ne!(from, to, "{name}");
            assert!(breaks.starts_with("R-"), "{name} breaks no rule");
            let mut words = campaign.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("wild"), Some("--all" | "--only"), Some(regions)) => {
                    assert!(Regions::named(regions).is_some(), "{name}: {regions}");
                }
                (Some("model"), Some("--constraints"), None | Some("--lazy"))
                | (Some(STATES), None, None) => {}
                _ => panic!("{name}: {campaign}"),
            }
        }
    }
}
