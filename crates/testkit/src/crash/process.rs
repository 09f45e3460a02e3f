//! The process that is killed.

use crate::crash::fixture::{has_traces, session};
use crate::world::Result;
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synqlite_core::{InitOptions, Replica, System};
use synqlite_remote::Remote;

/// What is started and killed.
#[derive(Clone, Debug)]
pub enum Program {
    /// The command line tool at this path.
    Tool(PathBuf),
    /// `PATH child …`, which calls the library as the tool does.
    Child(PathBuf),
}

impl Program {
    fn command(&self, arguments: &[String]) -> Command {
        let mut command = match self {
            Program::Tool(path) => Command::new(path),
            Program::Child(path) => {
                let mut command = Command::new(path);
                command.arg("child");
                command
            }
        };
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Runs a command to its end; what it wrote to standard error if it failed.
    pub fn run(&self, arguments: &[String]) -> Result<()> {
        let output = self.command(arguments).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into())
    }

    /// Checks a database: SQLite's own check, and `verify` if it is a replica.
    pub fn check(&self, path: &Path) -> Result<()> {
        let conn = Connection::open(path)?;
        let found: String = conn.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        if found != "ok" {
            return Err(format!("integrity_check: {found}").into());
        }
        drop(conn);
        if !has_traces(path)? {
            return Ok(());
        }
        let problems = match self {
            Program::Child(_) => Replica::open(path, Arc::new(System))?.verify()?,
            Program::Tool(tool) => {
                let output = Command::new(tool).args(["verify", "--json"]).arg(path).output()?;
                let answer: Value = serde_json::from_slice(&output.stdout).map_err(|e| {
                    format!("verify: {e}: {}", String::from_utf8_lossy(&output.stderr))
                })?;
                if answer["ok"] == Value::Bool(true) { vec![] } else { vec![answer.to_string()] }
            }
        };
        if problems.is_empty() { Ok(()) } else { Err(problems.join("; ").into()) }
    }
}

/// A process at work in a folder.
pub(super) struct Watch<'a> {
    child: Child,
    dir: &'a Path,
    files: BTreeSet<PathBuf>,
}

impl<'a> Watch<'a> {
    pub fn start(program: &Program, arguments: &[String], dir: &'a Path) -> Result<Watch<'a>> {
        let files = files(dir);
        let child = program.command(arguments).stderr(Stdio::null()).spawn()?;
        Ok(Watch { child, dir, files })
    }

    /// Waits until files appear that were not there before, or the process ends; at most `most`.
    pub fn until_writing(&mut self, most: Duration) -> Result<()> {
        let started = Instant::now();
        while !self.writing() && started.elapsed() < most && self.child.try_wait()?.is_none() {
            std::thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    /// Waits for `time`, or until the process ends.
    pub fn wait(&mut self, time: Duration) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < time && self.child.try_wait()?.is_none() {
            std::thread::sleep((time - started.elapsed().min(time)).min(Duration::from_millis(1)));
        }
        Ok(())
    }

    fn writing(&self) -> bool {
        let new = files(self.dir).into_iter().filter(|file| !self.files.contains(file));
        // The shared memory of WAL appears for readers too.
        new.into_iter().any(|file| {
            let size = std::fs::metadata(&file).map_or(0, |m| m.len());
            size > 0 && file.extension().is_none_or(|e| e != "db-shm")
        })
    }

    /// Kills the process. `None` if it had ended; otherwise whether it left files that were not
    /// there when it began.
    pub fn kill(mut self) -> Result<Option<bool>> {
        if self.child.try_wait()?.is_some() {
            return Ok(None);
        }
        self.child.kill()?;
        let status = self.child.wait()?;
        Ok(status.code().is_none().then(|| self.writing()))
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        // It has been waited for, unless an error came in between.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn files(dir: &Path) -> BTreeSet<PathBuf> {
    let mut out = BTreeSet::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return out };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            out.append(&mut files(&path));
        } else {
            out.insert(path);
        }
    }
    out
}

/// What `campaign child COMMAND …` does: the same calls as the command line tool.
pub fn child(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let env = || Arc::new(System);
    let session = session();
    match words[..] {
        ["init", path] => {
            Replica::init(Path::new(path), &InitOptions::default(), env())?;
        }
        ["fold", path] => {
            Replica::open(Path::new(path), env())?.fold()?;
        }
        ["pull", path, remote] => {
            let mut replica = Replica::open(Path::new(path), env())?;
            Remote::parse(remote)?.pull(&mut replica, &session)?;
        }
        ["push", path, remote] => {
            let mut replica = Replica::open(Path::new(path), env())?;
            Remote::parse(remote)?.push(&mut replica, &session)?;
        }
        ["clone", remote, path] => {
            Remote::parse(remote)?.clone_to(Path::new(path), &session)?;
        }
        ["deinit", path] => {
            Replica::deinit(Path::new(path), &System)?;
        }
        _ => return Err(format!("no such command: {}", arguments.join(" ")).into()),
    }
    Ok(())
}
