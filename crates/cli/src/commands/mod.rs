//! The commands, and what they share.

mod changes;
mod clone;
mod completions;
mod conflicts;
mod deinit;
mod demo;
mod digest;
mod exchange;
mod fold;
mod init;
mod key;
#[cfg(unix)]
mod kv;
mod log;
mod policy;
mod reference;
mod remote;
mod review;
#[cfg(unix)]
mod serve;
mod status;
#[cfg(unix)]
mod token;
mod triggers;
mod undo;
mod verify;
mod watch;

// Where there is no Unix, these say that they need it.
#[cfg(not(unix))]
mod elsewhere;
#[cfg(not(unix))]
use elsewhere::{kv, serve, token};

use crate::error::{CommandError, Result};
use crate::progress::{self, Mode};
use crate::report::Report;
use crate::terminal;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use synqlite_core::{Environment, Policy, Replica, Step, System};
use synqlite_front::remotes;
use synqlite_remote::{Access, Credentials, Remote};

/// Makes any SQLite file a replica that synchronizes offline.
///
/// A replica stays an ordinary SQLite file: every program reads and writes it as before, with
/// nothing of ours loaded. What they write is noted by triggers in the file. Only to synchronize
/// the command is needed.
#[derive(Parser)]
#[command(name = "synqlite", version, max_term_width = 100, after_help = EXAMPLE)]
pub struct Args {
    /// Prints one JSON document instead of text, also of a failure.
    #[arg(long, global = true)]
    pub json: bool,
    /// Waits for so many seconds, at most, while another program keeps a database locked; 60 if absent.
    #[arg(long, global = true, value_name = "SECONDS")]
    wait: Option<u64>,
    /// How to show on standard error what takes longer than half a second: if it is a terminal, as
    /// JSON lines, or not at all.
    #[arg(long, global = true, value_enum, value_name = "HOW", default_value_t = Mode::Auto)]
    progress: Mode,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLE: &str = "\
A first example:
  synqlite init notes.db                        notes.db becomes a replica
  synqlite clone notes.db laptop.db             another one, of the same database
  sqlite3 laptop.db \"INSERT INTO note(text) VALUES('hello')\"
  synqlite sync laptop.db                       both have the note now

Through a folder that both can reach, now and then:
  synqlite push notes.db file:///media/stick/notes/
  synqlite clone file:///media/stick/notes/ laptop.db

Through a hub, as it happens:
  synqlite remote add notes.db origin https://example.org/notes --token TOKEN
  synqlite watch notes.db

Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 locked by another program, 4 network,
5 contradicts what is there, 6 damaged, 7 a defect of synqlite.";

#[derive(Subcommand)]
enum Command {
    Init(init::Args),
    Deinit(deinit::Args),
    Clone(clone::Args),
    #[command(subcommand)]
    Remote(remote::Command),
    Push(exchange::Push),
    Pull(exchange::Pull),
    Sync(exchange::Sync),
    Status(status::Args),
    Fold(fold::Args),
    Log(log::Args),
    Undo(undo::Args),
    Changes(changes::Args),
    Conflicts(conflicts::Args),
    Review(review::Args),
    Policy(policy::Args),
    Digest(digest::Args),
    Verify(verify::Args),
    Triggers(triggers::Args),
    Watch(watch::Args),
    Serve(serve::Args),
    #[cfg_attr(unix, command(subcommand))]
    Token(token::Command),
    #[command(subcommand)]
    Key(key::Command),
    #[cfg_attr(unix, command(subcommand))]
    Kv(kv::Command),
    Demo(demo::Args),
    Completions(completions::Args),
    #[command(hide = true)]
    Reference(reference::Args),
}

/// Runs a command and prints what it reports.
pub fn run(args: &Args) -> Result<()> {
    let is_hub = matches!(args.command, Command::Serve(_));
    // A transaction ends by itself; hardly any hub does, which has its store open until then.
    let hardly_ends = is_hub || matches!(args.command, Command::Kv(_));
    PATIENCE.store(args.wait.unwrap_or(if hardly_ends { 0 } else { 60 }), Relaxed);
    // A hub has a log of its own, and prints where it listens.
    if !is_hub {
        progress::begin(args.progress, matches!(args.command, Command::Watch(_)));
    }
    let done = report(args);
    progress::end();
    done?.map_or(Ok(()), |report| print(report, args.json))
}

/// What a command reports, unless it has printed it.
fn report(args: &Args) -> Result<Option<Report>> {
    let report = match &args.command {
        Command::Init(a) => init::run(a),
        Command::Deinit(a) => deinit::run(a),
        Command::Clone(a) => clone::run(a),
        Command::Remote(a) => remote::run(a),
        Command::Push(a) => exchange::push(a),
        Command::Pull(a) => exchange::pull(a),
        Command::Sync(a) => exchange::sync(a),
        Command::Status(a) => status::run(a),
        Command::Fold(a) => fold::run(a),
        Command::Log(a) => log::run(a),
        Command::Undo(a) => undo::run(a),
        Command::Changes(a) => changes::run(a),
        Command::Conflicts(a) => conflicts::run(a),
        Command::Policy(a) => policy::run(a),
        Command::Digest(a) => digest::run(a),
        Command::Verify(a) => verify::run(a),
        Command::Triggers(a) => triggers::run(a),
        Command::Key(a) => key::run(a),
        Command::Demo(a) => demo::run(a),
        Command::Completions(a) => completions::run(a),
        Command::Reference(a) => reference::run(a),
        Command::Token(a) => token::run(a),
        Command::Serve(a) => return serve::run(a, args.json).map(|()| None),
        Command::Review(a) => return review::run(a, args.json).map(|()| None),
        Command::Watch(a) => return watch::run(a, args.json).map(|()| None),
        Command::Kv(a) => return kv::run(a, args.json).map(|()| None),
    };
    report.map(Some)
}

fn print(report: Report, json: bool) -> Result<()> {
    if json { terminal::print(&report.json.to_string()) } else { terminal::print(&report.text) }?;
    report.fault.map_or(Ok(()), Err)
}

/// For how many seconds a locked database is waited for.
static PATIENCE: AtomicU64 = AtomicU64::new(0);

/// The same, for what is locked and no database.
#[cfg(unix)]
fn patience() -> Duration {
    Duration::from_secs(PATIENCE.load(Relaxed))
}

/// After so long somebody is told why nothing happens.
const QUIET: Duration = Duration::from_secs(2);

/// The machine as it is, and the user's patience.
struct Machine {
    told: AtomicBool,
}

impl Environment for Machine {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn site_name(&self) -> Option<String> {
        synqlite_front::machine_name()
    }

    fn step(&self, step: Step) {
        progress::step(step);
    }

    fn wait(&self, database: &Path, waited: Duration) -> bool {
        let limit = PATIENCE.load(Relaxed);
        if waited >= QUIET && !self.told.swap(true, Relaxed) {
            let name = database.display();
            terminal::complain(&format!(
                "waiting for another program that keeps {name} locked, for {limit} s at most"
            ));
        }
        waited < Duration::from_secs(limit)
    }
}

fn env() -> Arc<dyn Environment> {
    Arc::new(Machine { told: AtomicBool::new(false) })
}

fn open(path: &Path) -> Result<Replica> {
    Ok(Replica::open(path, env())?)
}

/// Calls the site of a replica so, if somebody says how.
fn call(db: &Path, name: Option<&str>) -> Result<()> {
    name.map_or(Ok(()), |name| Ok(open(db)?.set_name(name)?))
}

/// What remote stores ask for: from the environment first, then what the remote keeps.
fn credentials(kept: &Access) -> Result<Credentials> {
    Ok(remotes::credentials(None, kept)?)
}

/// Where to read what gave way and asks nobody, if anything did.
fn decided(n: u64) -> Option<String> {
    let what = "decided without a question; see: synqlite conflicts --closed";
    (n > 0).then(|| format!("{} {what}", synqlite_core::units::count(n, "record")))
}

/// A remote to exchange with.
#[derive(clap::Args)]
struct With {
    /// Name of a remote, path of another replica, or URL of a folder, hub or bucket;
    /// `origin` if absent.
    remote: Option<String>,
    /// Seals and opens what goes and comes with the key in this file, which the replica need not keep.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl With {
    /// The remote that a user means: a name first, then a path or a URL.
    fn resolve(&self, replica: &Replica) -> Result<Remote> {
        let said = remotes::access(None, self.key_file.as_deref())?;
        Ok(remotes::resolve(replica, self.remote.as_deref(), &said)?)
    }
}

/// What a replica is to keep so that it can use a remote.
#[derive(clap::Args)]
struct Keep {
    /// Token for the hub. It is kept in the replica, whose file becomes its owner's alone (0600);
    /// clones and snapshots do not get it. Without it SYNQLITE_TOKEN counts.
    #[arg(long)]
    token: Option<String>,
    /// The same, read from this file; `-` is standard input. Other users of this machine can see what is on a
    /// command line, and shells keep it.
    #[arg(long, value_name = "FILE", conflicts_with = "token")]
    token_file: Option<PathBuf>,
    /// Seals all that goes to the remote with the key in this file (see `synqlite key new`), so that
    /// whoever keeps it cannot read it. The replica keeps the path only.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Keep {
    fn access(&self) -> Result<Access> {
        let token = match &self.token_file {
            Some(file) => Some(read_token(file)?),
            None => self.token.clone(),
        };
        Ok(remotes::access(token, self.key_file.as_deref())?)
    }
}

/// The token in a file, on a line of its own.
fn read_token(file: &Path) -> Result<String> {
    let text = match file == Path::new("-") {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let bad = |why: String| {
        let what = CommandError::new(format!("{}: {why}", file.display()));
        what.hint("Write the token into the file, and nothing else: one line")
    };
    let text = text.map_err(|e| bad(e.to_string()))?;
    match text.trim() {
        "" => Err(bad("there is no token in it".into())),
        token if token.lines().count() > 1 => Err(bad("it has several lines".into())),
        token => Ok(token.to_owned()),
    }
}

/// Says that a replica's file became its owner's alone.
fn tell_closed(db: &Path) {
    terminal::complain(&format!(
        "note: {} keeps a token now, so only its owner can read and write it. Where other users of \
         this machine must, set SYNQLITE_TOKEN instead of --token",
        db.display()
    ));
}

/// Reads `KEY=VALUE`.
fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

/// Reads the key of a row, which may be negative. No literal of SQL begins with two hyphens, nor with one before a
/// letter: that is an option, whose value was forgotten.
fn row_key(text: &str) -> Result<String, String> {
    match text.strip_prefix('-') {
        Some(rest) if rest.starts_with(|c: char| c == '-' || c.is_alphabetic()) => Err(format!(
            "it looks like an option; if it is the key, write it as '{text}' in quotes"
        )),
        _ => Ok(text.to_owned()),
    }
}

/// What each of these means.
fn policies(settings: &[(String, String)]) -> Result<Vec<Policy>> {
    let mut keys: Vec<&str> = settings.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        let key = twice[0];
        let error = CommandError::usage(format!("policy {key} is given twice"));
        return Err(error.hint(format!("Where it is a list, say it once: {key}=A,B")));
    }
    let policies = settings.iter().map(|(key, value)| Policy::new(key, value));
    Ok(policies.collect::<Result<_, _>>().map_err(synqlite_core::Error::from)?)
}
