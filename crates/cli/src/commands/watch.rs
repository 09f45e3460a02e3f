use super::{With, env, open};
use crate::error::{CommandError, Kind, Result};
use crate::progress;
use crate::report::{outcome, outcome_text, with_paused};
use crate::terminal;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use synqlite_core::Skipped;
use synqlite_remote::watch::{Pace, Watch};
use synqlite_remote::{Outcome, Remote, Session};

/// Synchronizes again and again, until it is stopped.
///
/// A hub says when there is something new: then a round begins at once, and so it does when
/// something is written here. Any other remote is asked on a period. A round that fails, because the remote
/// is away or the database locked, is reported and tried again after a pause, which grows to half a
/// minute, or to the time that `--every` says if that is less. Where another file takes the place of the
/// replica's, such as a backup, it goes on with that, as a site of its own; if that is no replica of the same
/// database, or none is there for some seconds, it ends with the failure. SIGINT (Ctrl-C) and SIGTERM end it
/// after the round that is under way; a second one ends it at once, which is safe too.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    #[command(flatten)]
    with: With,
    /// Time from one round to the next: 500ms, 5s, 2m or 1h. 5s if absent, 1m while a hub would say
    /// so if there were something new.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// Begins a round early when so many changes were written here. 1 if absent, at a hub.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    changes: Option<i64>,
    /// Stops after so many rounds, with the status of the last one: that of its failure, if it failed.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Merges changes that are stamped more than five minutes ahead of this machine's clock.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let stop = stop_signal()?;
    let mut replica = open(&args.db)?;
    // A remote that does not exist, or is none, is no failure of a round.
    let remote = args.with.resolve(&replica)?;
    refuse_no_replica(&remote)?;
    let session = Session { env: env(), force: args.force, whole: false };
    let pace = Pace { every: args.every, changes: args.changes };
    let mut watch = Watch::new(&mut replica, session, pace, |replica| args.with.resolve(replica));
    let (mut round, mut paused) = (0, vec![]);
    while args.rounds != Some(round) {
        let Some(done) = watch.round(|| stop.load(Ordering::Relaxed)) else { break };
        progress::rest();
        round += 1;
        // A round that merged what came and could not send is told as both.
        if let Some(done) = &done {
            succeeded(round, done, &watch, &mut paused, as_json)?;
        }
        if let Some(error) = &watch.state().error {
            failed(round, error, &watch, as_json)?;
        }
        if watch.is_over() {
            break;
        }
    }
    // Whoever asked for so many rounds wants to know how they ended; whoever stopped it does not.
    let told = args.rounds == Some(round) || watch.is_over();
    match watch.into_state().error.filter(|_| told) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// One line of JSON a round; for people only what is news. `told`: tables of which it was said that they are not
/// replicated any more.
fn succeeded(
    round: u64,
    done: &Outcome,
    watch: &Watch<'_, CommandError>,
    told: &mut Vec<Skipped>,
    as_json: bool,
) -> Result<()> {
    let paused = match watch.replica().paused() {
        Ok(paused) => paused,
        Err(e) => return failed(round, &e.into(), watch, as_json),
    };
    let news: Vec<_> = paused.iter().filter(|table| !told.contains(table)).cloned().collect();
    terminal::tell_paused(&news);
    terminal::tell_waiting(&done.waiting);
    terminal::tell_aside(&done.aside);
    terminal::tell_restored(&done.restored);
    told.clone_from(&paused);
    let quiet = done.sent.rows + done.received.rows == 0;
    if as_json {
        let conflicts = match watch.replica().open_conflicts() {
            Ok(conflicts) => conflicts,
            Err(e) => return failed(round, &e.into(), watch, as_json),
        };
        let mut line = with_paused(outcome(done, conflicts, watch.took()), &paused);
        line["round"] = json!(round);
        terminal::print(&line.to_string())
    } else if quiet {
        Ok(())
    } else {
        terminal::print(&format!("round {round}: {}", outcome_text(done, watch.took())))
    }
}

/// With JSON, `error` is the whole text, and beside it stands what the document of a failure has.
fn failed(
    round: u64,
    error: &CommandError,
    watch: &Watch<'_, CommandError>,
    as_json: bool,
) -> Result<()> {
    let what = error.to_string();
    terminal::complain(&format!("round {round}: {what}"));
    let Some(mut line) = error.json().filter(|_| as_json).map(|mut told| told["error"].take())
    else {
        return Ok(());
    };
    let state = watch.state();
    line["round"] = json!(round);
    line["error"] = json!(what.strip_prefix("error: ").unwrap_or(&what));
    line["online"] = json!(state.online);
    line["pending"] = json!(state.pending);
    terminal::print(&line.to_string())
}

/// Refuses another file that is there and is no replica. One that is away may come back.
fn refuse_no_replica(remote: &Remote) -> Result<()> {
    let Remote::Replica(path) = remote else { return Ok(()) };
    match open(path) {
        Err(CommandError::Failed(failure)) if !path.exists() || failure.kind == Kind::Locked => {
            Ok(())
        }
        opened => opened.map(drop),
    }
}

/// A flag that SIGINT and SIGTERM set; the second of them ends the process.
#[cfg(unix)]
pub(super) fn stop_signal() -> Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let status = 128 + signal;
        signal_hook::flag::register_conditional_shutdown(signal, status, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// A flag that Ctrl-C, Ctrl-Break and the end of the console set; the second of them ends the process.
#[cfg(windows)]
pub(super) fn stop_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    #[expect(clippy::disallowed_methods, reason = "asked for twice, it ends at once, as on Unix")]
    let handled = ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            // As a process ends that handles none.
            std::process::exit(0xC000_013A_u32.cast_signed());
        }
    });
    handled.map_err(|e| CommandError::new(format!("Ctrl-C cannot be heard: {e}")))?;
    Ok(stop)
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let n: u64 = digits.parse().map_err(|_| "write it as 500ms, 5s, 2m or 1h".to_owned())?;
    let ms = match unit {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write it as 500ms, 5s, 2m or 1h".to_owned()),
    };
    match n.checked_mul(ms) {
        Some(0) => Err("it must be more than 0".to_owned()),
        Some(ms) => Ok(Duration::from_millis(ms)),
        None => Err("it is too long".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3_600)));
        for wrong in ["", "s", "5 s", "-5s", "5d", "1.5s", "0s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration("9999999999999999999h").is_err());
    }
}
