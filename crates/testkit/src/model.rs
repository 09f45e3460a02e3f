//! The same random history in the engine and in the reference model.
//!
//! The model, `crates/testkit/model`, is a Python program with the same rules, written without regard
//! to speed. It runs as another process, which reads a history as JSON and answers with what each
//! site shows after each of its steps. The engine plays the history on files. Both get the same times,
//! and both order sites as they are numbered, so every tie breaks alike.
//!
//! *Eager* histories fold after every statement, on clocks that differ. *Lazy* ones fold only when
//! sites synchronize; the model gives all writes of such a window the time of its last statement, so
//! here their times are moved to just before that one, order kept. The model compares images of a
//! window, the engine keeps what the journal says, so some things differ by design, and lazy
//! histories contain none of them: a column that gets back the value it had when the window began;
//! an update of a row that is deleted in the same window, which the engine keeps; new integer keys
//! in another order than their numbers, or of rows gone by the end of the window.

use crate::history::{Action, History, START_MS, Step};
use crate::world::{Ran, Result, World, dump_sql};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The reference model in a process of its own.
pub struct Model {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// Where the two first differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// What happened until then, for people.
    pub story: String,
}

/// What one history showed.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Both showed the same after each of this many steps.
    Same(usize),
    /// They differ.
    Different(Difference),
    /// The model met what only constraint repair settles, which this campaign keeps away from.
    Beyond(String),
}

/// Why the model cannot run: there is no Python 3 with its `sqlite3` module.
pub fn unavailable(python: &str) -> Option<String> {
    let asks = "import sqlite3, sys; sys.exit(sys.version_info < (3, 8))";
    let output = Command::new(python).args(["-c", asks]).output();
    match output {
        Ok(output) if output.status.success() => None,
        Ok(_) => Some(format!("{python} is no Python 3 with its sqlite3 module")),
        Err(e) => Some(format!("{python} does not start: {e}")),
    }
}

impl Model {
    /// Starts the model with the interpreter `python`.
    pub fn start(python: &str) -> Result<Model> {
        let mut child = Command::new(python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("model"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{python} does not start: {e}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("the model has no output")?;
        Ok(Model { child, input, output: BufReader::new(output) })
    }

    /// What it answers to a history.
    pub(crate) fn ask(&mut self, history: &Value) -> Result<Value> {
        let input = self.input.as_mut().ok_or("the model has no input")?;
        writeln!(input, "{history}")?;
        input.flush()?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the model ended without an answer".into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Plays a history in both. It must leave all sites equal.
    pub fn compare(&mut self, history: &History) -> Result<Verdict> {
        self.both(history, true)
    }

    fn both(&mut self, history: &History, settled: bool) -> Result<Verdict> {
        let mut world =
            World::even(history.family, history.sites, history.recursive, history.seed)?;
        let mut windows = BTreeMap::new();
        let mut played = Vec::new();
        for step in &history.steps {
            match play(&mut world, history, step, &mut windows) {
                Ok(turn) => played.push(turn),
                Err(e) => {
                    return Ok(different(history, &played, &format!("the engine failed: {e}")));
                }
            }
        }
        let theirs = self.ask(&to_json(history, &world, &played)?)?;
        if let Some(error) = theirs["error"].as_str() {
            return Ok(Verdict::Beyond(error.to_owned()));
        }
        let answers = theirs["steps"].as_array().map_or(&[][..], Vec::as_slice);
        for (n, (turn, theirs)) in played.iter().zip(answers).enumerate() {
            let until = |how: &str| Ok(different(history, &played[..=n], how));
            if Some(turn.done) != theirs["done"].as_bool() {
                // Whether REPLACE meets a constraint depends on recursive_triggers, which the model
                // needs, and on SQLite's version; and so does whether a key may be set to what it is.
                let versions = theirs["sqlite"].as_str() != Some(rusqlite::version());
                if let Action::Run(sql) = &history.steps[n].action
                    && (sql.contains("OR REPLACE")
                        || versions && !turn.done && sql.contains("SET k = "))
                {
                    return Ok(Verdict::Beyond(format!("SQLite decides otherwise there: {sql}")));
                }
                return until(&format!("it succeeds here: {}, there: {}", turn.done, !turn.done));
            }
            let shown = theirs["shown"].as_array().map_or(&[][..], Vec::as_slice);
            for ((site, ours), theirs) in turn.shown.iter().zip(shown) {
                let theirs = strings(theirs);
                if *ours != theirs {
                    return until(&format!("site {site}: {}", compare_rows(ours, &theirs)));
                }
            }
        }
        let last: Vec<_> = world.sites.iter().map(|s| s.rows()).collect::<Result<_>>()?;
        if settled && last.iter().any(|rows| *rows != last[0]) {
            return Ok(different(history, &played, "the sites differ after they settled"));
        }
        Ok(Verdict::Same(history.steps.len()))
    }
}

/// What became of a step in the engine.
#[derive(Debug, Default)]
struct Turn {
    done: bool,
    /// The site folded before, because the statement touched a row of the window.
    folded: bool,
    /// The statements touched a row twice and were left out.
    skipped: bool,
    /// What sites showed after it, and their conflicts as far as they had folded.
    shown: Vec<(usize, Vec<String>)>,
}

/// Plays one step in the engine. `windows` holds when each site with unfolded writes last ran one.
fn play(
    world: &mut World,
    history: &History,
    step: &Step,
    windows: &mut BTreeMap<usize, i64>,
) -> Result<Turn> {
    let mut turn = Turn::default();
    match &step.action {
        Action::Run(sql) => {
            let site = &mut world.sites[step.site];
            let mut ran = site.run_apart(sql, step.ms, history.apart)?;
            if ran == Ran::Again
                && let Some(last) = windows.remove(&step.site)
            {
                site.at_once(last)?;
                site.replica.fold()?;
                turn.folded = true;
                ran = site.run_apart(sql, step.ms, history.apart)?;
            }
            turn.done = ran == Ran::Done;
            turn.skipped = ran == Ran::Again;
            if history.lazy && !turn.skipped {
                windows.insert(step.site, step.ms);
            } else {
                site.replica.fold()?;
            }
            turn.shown.push((step.site, site.rows()?));
            if !history.lazy {
                turn.shown[0].1.extend(site.conflicts()?);
            }
        }
        Action::Pull(from) => {
            for site in [step.site, *from] {
                if let Some(last) = windows.remove(&site) {
                    let site = &world.sites[site];
                    if history.apart { site.at_once(last)? } else { site.level(last)? }
                }
            }
            turn.done = world.play(step)?;
            for at in [step.site, *from] {
                let site = &world.sites[at];
                let problems = site.replica.verify_full()?;
                if !problems.is_empty() {
                    return Err(format!("site {at}: {}", problems.join("; ")).into());
                }
                let mut shown = site.rows()?;
                shown.extend(site.conflicts()?);
                turn.shown.push((at, shown));
            }
        }
    }
    turn.shown.iter_mut().for_each(|(_, shown)| shown.sort());
    Ok(turn)
}

impl Model {
    /// The difference of a history in which the two still differ though no step of it can be left
    /// out.
    pub fn shrink(&mut self, history: &History, found: Difference) -> Result<Difference> {
        let mut found = found;
        let (mut small, mut width) = (history.clone(), history.steps.len() / 2);
        while width > 0 {
            let (mut at, before) = (0, small.steps.len());
            while at < small.steps.len() {
                let mut less = small.clone();
                less.steps.drain(at..(at + width).min(small.steps.len()));
                match self.both(&less, false)? {
                    Verdict::Different(difference) => (small, found) = (less, difference),
                    _ => at += width,
                }
            }
            if width > 1 || small.steps.len() == before {
                width /= 2;
            }
        }
        Ok(found)
    }
}

impl Drop for Model {
    /// The end of its input ends the process.
    fn drop(&mut self) {
        self.input = None;
        let _ended = self.child.wait();
    }
}

fn to_json(history: &History, world: &World, played: &[Turn]) -> Result<Value> {
    let app = &world.sites[0].app;
    let queries =
        history.family.tables.iter().map(|t| Ok((t.to_string(), dump_sql(app, t)?.into())));
    let steps = history.steps.iter().zip(played).map(|(step, turn)| match &step.action {
        Action::Run(sql) => json!({
            "site": step.site, "ms": step.ms, "fold": turn.folded,
            "sql": if turn.skipped { Value::Null } else { Value::from(sql.as_str()) },
        }),
        Action::Pull(from) => json!({ "site": step.site, "ms": step.ms, "from": from }),
    });
    let policies = history.family.policies().into_iter().collect::<BTreeMap<_, _>>();
    Ok(json!({
        "schema": history.family.schema(),
        "policies": policies,
        "sites": history.sites,
        "lazy": history.lazy,
        "start": START_MS,
        "queries": Value::Object(queries.collect::<Result<_>>()?),
        "steps": steps.collect::<Vec<_>>(),
    }))
}

fn strings(list: &Value) -> Vec<String> {
    let texts = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut texts: Vec<String> = texts.map(str::to_owned).collect();
    texts.sort();
    texts
}

/// What happened until the two differed.
fn different(history: &History, played: &[Turn], how: &str) -> Verdict {
    let mut story = format!(
        "family {}, {} sites, recursive_triggers {}\n{}\n",
        history.family.name,
        history.sites,
        history.recursive,
        history.family.schema()
    );
    for (step, turn) in history.steps.iter().zip(played) {
        let what = match &step.action {
            Action::Run(sql) => sql.clone(),
            Action::Pull(from) => format!("pull from {from}"),
        };
        let became = match turn {
            Turn { skipped: true, .. } => " (left out)",
            Turn { done: false, .. } => " (failed)",
            Turn { folded: true, .. } => " (after a fold)",
            _ => "",
        };
        story += &format!("{:>9} site {}: {what}{became}\n", step.ms, step.site);
    }
    if let Some(step) = history.steps.get(played.len()) {
        story += &format!("(then {step:?})\n");
    }
    Verdict::Different(Difference { story: format!("{story}{how}") })
}

fn compare_rows(ours: &[String], theirs: &[String]) -> String {
    let only = |these: &[String], those: &[String]| -> String {
        let mut those = those.to_vec();
        let mut left = these.to_vec();
        left.retain(|row| match those.iter().position(|r| r == row) {
            Some(at) => {
                those.swap_remove(at);
                false
            }
            None => true,
        });
        left.iter().map(|row| format!("\n  {row}")).collect()
    };
    let (ours_only, theirs_only) = (only(ours, theirs), only(theirs, ours));
    format!("only the engine shows:{ours_only}\nonly the model shows:{theirs_only}")
}
