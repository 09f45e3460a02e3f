//! The same random history in the engine and in the reference model.
//!
//! The model is a Python program with the same rules, written without regard to speed. It runs as
//! another process, `model_driver.py`, which reads a history as JSON and answers with what each site
//! shows after each of its steps. The engine plays the history on files. Both get the same times,
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
use crate::world::{Result, World, dump_sql};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
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

/// Path of the driver, and of the model beside the workspace.
pub fn default_paths() -> (PathBuf, PathBuf) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    (here.join("model_driver.py"), here.join("../../../shared/model"))
}

impl Model {
    /// Starts the model at `path` with the interpreter `python`.
    pub fn start(python: &str, driver: &Path, path: &Path) -> Result<Model> {
        let mut child = Command::new(python)
            .arg(driver)
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{python} does not start: {e}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("the model has no output")?;
        Ok(Model { child, input, output: BufReader::new(output) })
    }

    fn ask(&mut self, history: &Value) -> Result<Value> {
        let input = self.input.as_mut().ok_or("the model has no input")?;
        writeln!(input, "{history}")?;
        input.flush()?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the model ended without an answer".into());
        }
        Ok(serde_json::from_str(&line)?)
    }

    /// Plays a history in both.
    pub fn compare(&mut self, history: &History) -> Result<Verdict> {
        let mut world = World::new(history.family, history.sites, history.recursive, history.seed)?;
        let theirs = self.ask(&to_json(history, &world)?)?;
        if let Some(error) = theirs["error"].as_str() {
            return Ok(Verdict::Beyond(error.to_owned()));
        }
        let mut story = format!(
            "family {}, {} sites, recursive_triggers {}\n",
            history.family.name, history.sites, history.recursive
        );
        let mut windows: BTreeMap<usize, i64> = BTreeMap::new();
        for (step, theirs) in
            history.steps.iter().zip(theirs["steps"].as_array().into_iter().flatten())
        {
            let what = match &step.action {
                Action::Run(sql) => sql.clone(),
                Action::Pull(from) => format!("pull from {from}"),
            };
            story += &format!("{:>9} site {}: {what}\n", step.ms, step.site);
            if history.lazy {
                level(&world, step, &mut windows)?;
            }
            let done = match world.play(step) {
                Ok(done) => done,
                Err(e) => return different(story, &format!("the engine failed: {e}")),
            };
            let site = &mut world.sites[step.site];
            if !history.lazy {
                site.replica.fold().map_err(|e| format!("{story}fold: {e}"))?;
            }
            if Some(done) != theirs["done"].as_bool() {
                return different(story, &format!("it succeeds here: {done}, there: {}", !done));
            }
            let (ours, theirs) = (site.rows()?, strings(&theirs["rows"]));
            if ours != theirs {
                return different(story, &compare_rows(&ours, &theirs));
            }
        }
        let last: Vec<_> = world.sites.iter().map(|s| s.rows()).collect::<Result<_>>()?;
        if last.iter().any(|rows| *rows != last[0]) {
            return different(story, "the sites differ after they settled");
        }
        Ok(Verdict::Same(history.steps.len()))
    }
}

impl Drop for Model {
    /// The end of its input ends the process.
    fn drop(&mut self) {
        self.input = None;
        let _ended = self.child.wait();
    }
}

/// Notes when a site last ran a statement; before a pull, puts the times of both sites' windows just
/// before the last of each.
fn level(world: &World, step: &Step, windows: &mut BTreeMap<usize, i64>) -> Result<()> {
    let Action::Pull(from) = step.action else {
        windows.insert(step.site, step.ms);
        return Ok(());
    };
    for site in [step.site, from] {
        if let Some(last) = windows.remove(&site) {
            world.sites[site].level(last)?;
        }
    }
    Ok(())
}

fn to_json(history: &History, world: &World) -> Result<Value> {
    let app = &world.sites[0].app;
    let queries =
        history.family.tables.iter().map(|t| Ok((t.to_string(), dump_sql(app, t)?.into())));
    let steps = history.steps.iter().map(|step| match &step.action {
        Action::Run(sql) => json!({ "site": step.site, "ms": step.ms, "sql": sql }),
        Action::Pull(from) => json!({ "site": step.site, "ms": step.ms, "from": from }),
    });
    Ok(json!({
        "schema": history.family.schema(),
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

fn different(story: String, how: &str) -> Result<Verdict> {
    Ok(Verdict::Different(Difference { story: format!("{story}{how}") }))
}

fn compare_rows(ours: &[String], theirs: &[String]) -> String {
    let only = |these: &[String], those: &[String]| -> String {
        these.iter().filter(|row| !those.contains(row)).map(|row| format!("\n  {row}")).collect()
    };
    let (ours_only, theirs_only) = (only(ours, theirs), only(theirs, ours));
    format!("only the engine shows:{ours_only}\nonly the model shows:{theirs_only}")
}
