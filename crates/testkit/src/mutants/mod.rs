//! Repairs taken out again: does a campaign notice when one is gone?
//!
//! A *mutant* is the engine with one repair taken out: a short text of its sources replaced by another.
//! The sources are copied beside the build products, changed there, and built; then a campaign runs on
//! that build until its first fault. What the campaigns do not find they would not have found before it
//! was repaired, and will not find when it comes again in another form.
//!
//! Nearly all of them are built at once, behind a switch for each (`together.rs`): a build for each took
//! longer than most need to be found.

mod folds;
mod merges;
mod schemas;
mod together;

use crate::world::Result;
use std::collections::{BTreeMap, BTreeSet};
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
    merges::ALL.iter().chain(schemas::ALL).chain(folds::ALL)
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
    /// The engine with a switch for each of these mutants.
    together: PathBuf,
    switched: BTreeSet<&'static str>,
}

impl Bench {
    /// Copies the sources of this work tree, but for what git ignores, and builds them with switches for
    /// these mutants. What is there already as it should be is left alone, so that little has to be built.
    pub fn set_up(mutants: &[&Mutant<'_>]) -> Result<Bench> {
        let root = root();
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let folder = target.unwrap_or_else(|| root.join("target")).join("mutants");
        let (tree, target) = (folder.join("tree"), folder.join("target"));
        let listed = Command::new("git")
            .arg("-C")
            .arg(&root)
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .output()?;
        if !listed.status.success() {
            return Err(String::from_utf8_lossy(&listed.stderr).into());
        }
        let mut by_file: BTreeMap<PathBuf, Vec<&Mutant<'_>>> = BTreeMap::new();
        for mutant in mutants {
            by_file.entry(Path::new("crates").join(mutant.file)).or_default().push(mutant);
        }
        let mut switched = BTreeSet::new();
        for name in String::from_utf8(listed.stdout)?.split('\0').filter(|name| !name.is_empty()) {
            let to = tree.join(name);
            // One that was deleted is still known.
            let Ok(mut content) = std::fs::read(root.join(name)) else { continue };
            if let Some(mutants) = by_file.get(Path::new(name)) {
                let (text, names) = together::with_switches(&String::from_utf8(content)?, mutants);
                content = text.into_bytes();
                switched.extend(names);
            }
            if std::fs::read(&to).ok().as_ref() != Some(&content) {
                to.parent().map_or(Ok(()), std::fs::create_dir_all)?;
                std::fs::write(&to, content)?;
            }
        }
        let together = folder.join("together");
        std::fs::copy(build(&tree, &target)?, &together)?;
        for name in by_file.keys() {
            std::fs::copy(root.join(name), tree.join(name))?;
        }
        Ok(Bench { tree, target, together, switched })
    }

    /// Runs the campaign of a mutant on it, with `jobs` workers, until the first fault, for so many
    /// histories at most. One without a switch is built first.
    pub fn try_out(&self, mutant: &Mutant<'_>, histories: u64, jobs: u64) -> Result<Outcome> {
        if self.switched.contains(mutant.name) {
            return campaign(&self.together, mutant, histories, jobs);
        }
        let path = self.tree.join("crates").join(mutant.file);
        let whole = std::fs::read_to_string(&path)?;
        if whole.matches(mutant.from).count() != 1 {
            return Err(format!("{}: {} does not have it once", mutant.name, mutant.file).into());
        }
        std::fs::write(&path, whole.replacen(mutant.from, mutant.to, 1))?;
        let built = build(&self.tree, &self.target);
        std::fs::write(&path, whole)?;
        let built = built.map_err(|why| format!("{} does not compile:\n{why}", mutant.name))?;
        campaign(&built, mutant, histories, jobs)
    }
}

/// Builds the campaign of a copy of the sources.
fn build(tree: &Path, target: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--package", "synqlite-testkit", "--bin", "campaign"])
        .args(["--features", "bundled", "--quiet", "--release", "--message-format", "json"])
        .arg("--manifest-path")
        .arg(tree.join("Cargo.toml"))
        .env("CARGO_TARGET_DIR", target)
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
    match (built.status.success(), program) {
        (true, Some((program, _))) => Ok(PathBuf::from(program)),
        _ => Err(String::from_utf8_lossy(&built.stderr).into()),
    }
}

/// The campaign of a mutant in this program. Histories that end in a fault of the engine as it is say
/// nothing of the mutant.
fn campaign(program: &Path, mutant: &Mutant<'_>, histories: u64, jobs: u64) -> Result<Outcome> {
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

/// Runs the campaign of a mutant in this program until the first fault.
fn play(program: &Path, mutant: &Mutant<'_>, seeds: Range<u64>, jobs: u64) -> Result<Outcome> {
    let mut child = Command::new(program)
        .args(mutant.campaign.split(' '))
        .args(["--seeds", &format!("{}..{}", seeds.start, seeds.end)])
        .args(["--jobs", &jobs.to_string(), "--first"])
        .env(together::SWITCH, mutant.name)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let heard = listen(&mut child, seeds.start);
    // It has ended, or will not.
    let _gone = child.kill();
    let status = child.wait()?;
    match heard {
        Ok(outcome) => Ok(outcome),
        Err(_) if status.success() => Ok(Outcome::NotFound),
        // As it does where its threads panic.
        Err(last) => Ok(Outcome::Found(last + 1, format!("it ends with {status}"))),
    }
}

/// What a campaign says that begins with this seed, until it says nothing any more; where it ends without a
/// verdict, the seed that follows the last one played.
fn listen(child: &mut Child, mut last: u64) -> std::result::Result<Outcome, u64> {
    let Some(out) = child.stdout.take() else { return Err(last) };
    let (say, hear) = channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(out).split(b'\n').map_while(std::io::Result::ok);
        lines.map(|line| say.send(line)).take_while(std::result::Result::is_ok).for_each(drop);
    });
    loop {
        let line = match hear.recv_timeout(PATIENCE) {
            Ok(line) => String::from_utf8_lossy(&line).into_owned(),
            Err(RecvTimeoutError::Timeout) => {
                return Ok(Outcome::Found(last + 1, "it does not end".to_owned()));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(last),
        };
        let number = |text: &str| text.parse::<u64>().map_err(|_| last);
        match line.split_once(' ') {
            Some(("FAULT", rest)) => {
                let (seed, kind) =
                    rest.strip_prefix("seed ").and_then(|r| r.split_once(": ")).ok_or(last)?;
                return Ok(Outcome::Found(number(seed)? + 1, kind.to_owned()));
            }
            Some(("played", seed)) => last = number(seed)? + 1,
            Some(("skipped:", why)) => return Ok(Outcome::Skipped(why.to_owned())),
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
                (Some("model"), Some("--constraints"), lazy) => {
                    let option = if lazy == Some("--lazy") { words.next() } else { lazy };
                    assert!(matches!(option, None | Some("--shapes")), "{name}: {campaign}");
                    let shapes = words.next();
                    assert_eq!(option.is_some(), shapes.is_some(), "{name}: {campaign}");
                    assert!(!crate::shapes::named(shapes).is_empty(), "{name}: {campaign}");
                }
                (Some(STATES), None, None) => {}
                _ => panic!("{name}: {campaign}"),
            }
        }
    }
}
