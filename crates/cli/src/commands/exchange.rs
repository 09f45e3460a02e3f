//! `push`, `pull` and `sync`: three directions of one thing.

use super::{With, env, open};
use crate::error::{CommandError, Result};
use crate::report::{Report, outcome, outcome_text, with_paused};
use crate::terminal::{tell_aside, tell_paused, tell_restored, tell_waiting};
use std::path::PathBuf;
use std::time::Instant;
use synqlite_core::Replica;
use synqlite_remote::{Outcome, Remote, Session, SyncError};

/// Sends local changes to a remote.
///
/// Into another replica they are merged at once. In a folder or at a hub they wait as a batch until
/// others pull them. Pushing twice sends nothing the second time.
#[derive(clap::Args)]
pub struct Push {
    #[command(flatten)]
    args: Args,
}

/// Fetches what a remote has and this replica lacks, and merges it.
///
/// Up to some 2,000 rows are merged in one transaction: readers see all of them or nothing. More comes in
/// slices, between which programs can write, and after each of which every constraint holds; with
/// --whole it is one transaction. What local writes and remote ones disagree about is decided the same way
/// on every site, and listed.
///
/// With --json `merged` counts the rows that the merge changed here, and `tables` the same for each table in
/// which there were any.
#[derive(clap::Args)]
pub struct Pull {
    #[command(flatten)]
    args: Args,
}

/// Pulls, then pushes.
#[derive(clap::Args)]
pub struct Sync {
    #[command(flatten)]
    args: Args,
}

#[derive(clap::Args)]
struct Args {
    /// The replica.
    db: PathBuf,
    #[command(flatten)]
    with: With,
    /// Merges changes that are stamped more than five minutes ahead of this machine's clock.
    #[arg(long)]
    force: bool,
    /// Merges all that comes in one transaction: readers see all of it or nothing, and programs cannot
    /// write until it is done.
    #[arg(long)]
    whole: bool,
}

pub fn push(args: &Push) -> Result<Report> {
    exchange(&args.args, |remote, replica, session| remote.push(replica, session))
}

pub fn pull(args: &Pull) -> Result<Report> {
    exchange(&args.args, |remote, replica, session| remote.pull(replica, session))
}

pub fn sync(args: &Sync) -> Result<Report> {
    exchange(&args.args, |remote, replica, session| remote.sync(replica, session))
}

type Exchange = fn(&Remote, &mut Replica, &Session) -> synqlite_remote::sync::Result<Outcome>;

fn exchange(args: &Args, run: Exchange) -> Result<Report> {
    let since = Instant::now();
    remove_own_when_ended()?;
    let mut replica = open(&args.db)?;
    let remote = args.with.resolve(&replica)?;
    let session = Session { env: env(), force: args.force, whole: args.whole };
    let (done, failed) = match run(&remote, &mut replica, &session) {
        Err(SyncError::Unsent { done, why }) => (*done, Some(CommandError::from(*why))),
        done => (done?, None),
    };
    tell_waiting(&done.waiting);
    tell_aside(&done.aside);
    tell_restored(&done.restored);
    let paused = replica.paused()?;
    tell_paused(&paused);
    let (time, conflicts) = (since.elapsed(), replica.open_conflicts()?);
    let mut report = Report::new(
        with_paused(outcome(&done, conflicts, time), &paused),
        outcome_text(&done, time),
    );
    // Whoever asked for a document gets one of both.
    if let Some(error) = failed.as_ref().and_then(|failed| failed.json()) {
        report.json["error"] = error["error"].clone();
    }
    report.fault = failed;
    Ok(report)
}

/// From now on SIGINT and SIGTERM remove what this process keeps beside a replica, and end it as they do anyway: not
/// one that whoever started it has it ignore, as a shell does for what a script runs in the background.
#[cfg(unix)]
pub(super) fn remove_own_when_ended() -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let ignored = ignored_signals();
    let heard = [SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = signal_hook::iterator::Signals::new(heard)?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            synqlite_remote::remove_own();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
    Ok(())
}

/// The signals that this process ignores, a bit each, where the system says so.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Elsewhere files that are open stay, so the next command removes them.
#[cfg(not(unix))]
pub(super) fn remove_own_when_ended() -> Result<()> {
    Ok(())
}
