use super::{env, open, resolve};
#[cfg(windows)]
use crate::error::CommandError;
use crate::error::Result;
use crate::progress;
use crate::report::{outcome, outcome_text};
use crate::terminal;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use synqlite_core::Replica;
use synqlite_remote::{Cursor, Outcome, Remote, Session};

/// How often it looks whether there is something to do.
const TICK: Duration = Duration::from_millis(50);
/// The same, where others wait for it.
const LIVE_TICK: Duration = Duration::from_millis(15);
/// Time from one round to the next if nothing is said of it.
const EVERY: Duration = Duration::from_secs(5);
/// The same, while a hub would say so if there were something to do.
const LIVE_EVERY: Duration = Duration::from_secs(60);
/// A hub is asked to answer after so long, also when nothing has happened.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to reach a hub; it doubles from the first to the last.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(30)];

/// Synchronizes again and again, until it is stopped.
///
/// A hub says when there is something new: then a round begins at once, and so it does when
/// something is written here. Any other remote is asked on a period. A round that fails, because the remote is away or the database locked, is reported and tried
/// again. SIGINT (Ctrl-C) and SIGTERM end it after the round that is under way; a second one ends it
/// at once, which is safe too.
#[derive(clap::Args)]
pub struct Args {
    /// The replica.
    db: PathBuf,
    /// Name of a remote, path of another replica, or URL of a folder, hub or bucket;
    /// `origin` if absent.
    remote: Option<String>,
    /// Time from one round to the next: 500ms, 5s, 2m or 1h. 5s if absent, 1m while a hub would say
    /// so if there were something new.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,
    /// Begins a round early when so many changes were written here. 1 if absent, at a hub.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    changes: Option<i64>,
    /// Stops after so many rounds.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: Option<u64>,
    /// Merges changes that are stamped more than five minutes ahead of this machine's clock.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, as_json: bool) -> Result<()> {
    let stop = stop_signal()?;
    let mut replica = open(&args.db)?;
    let remote = resolve(&replica, args.remote.as_deref())?;
    let mut live = Live::start(remote.clone());
    let (mut round, mut upto) = (0, None);
    loop {
        round += 1;
        let since = Instant::now();
        let done = one_round(&remote, &mut replica, args.force);
        progress::rest();
        // A round that failed is not begun again for what it failed at.
        let failed = done.is_err();
        upto = done.as_ref().map_or(live.latest.or(upto), |(done, _)| done.upto);
        tell(round, done, since.elapsed(), as_json)?;
        if args.rounds == Some(round) {
            return Ok(());
        }
        let mut version = None;
        while since.elapsed() < args.every.unwrap_or(if failed { EVERY } else { live.every() }) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let changes = args.changes.or(upto.map(|_| 1));
            if !failed && changes.is_some_and(|n| is_due(&replica, n, &mut version)) {
                break;
            }
            let tick = if upto.is_some() { LIVE_TICK } else { TICK };
            if live.is_beyond(upto, tick.min(args.every.unwrap_or(EVERY))) {
                break;
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// A hub that is listened to, by a thread that ends with the process.
struct Live {
    news: Receiver<Option<Cursor>>,
    /// Where it stands, as far as is known; `None` while it cannot be reached, or is no hub.
    latest: Option<Cursor>,
}

impl Live {
    fn start(remote: Remote) -> Live {
        let (sender, news) = channel();
        std::thread::spawn(move || listen(&remote, &sender));
        Live { news, latest: None }
    }

    /// Time from one round to the next.
    fn every(&self) -> Duration {
        if self.latest.is_some() { LIVE_EVERY } else { EVERY }
    }

    /// Whether there is something beyond `upto`, now or within a tick.
    fn is_beyond(&mut self, upto: Option<Cursor>, tick: Duration) -> bool {
        match self.news.recv_timeout(tick) {
            Ok(latest) => self.latest = latest,
            // It is no hub: what remains is the pause.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(tick),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let beyond = |latest: Cursor| {
            upto.is_none_or(|u| u.epoch != latest.epoch || u.sequence < latest.sequence)
        };
        self.latest.is_some_and(beyond)
    }
}

/// Tells where the hub stands, each time that it changes. Ends at once if the remote is no hub.
fn listen(remote: &Remote, sender: &Sender<Option<Cursor>>) {
    let [mut pause, longest] = PAUSES;
    let mut after = None;
    loop {
        match remote.wait(after, PATIENCE) {
            Ok(None) => return,
            Ok(latest) => {
                pause = PAUSES[0];
                if latest != after && sender.send(latest).is_err() {
                    return;
                }
                after = latest;
            }
            // The next round says what is wrong.
            Err(_) => {
                after = None;
                if sender.send(None).is_err() {
                    return;
                }
                std::thread::sleep(pause);
                pause = longest.min(pause * 2);
            }
        }
    }
}

/// Synchronizes once; also how many conflicts are open afterwards.
fn one_round(remote: &Remote, replica: &mut Replica, force: bool) -> Result<(Outcome, u64)> {
    let session = Session { env: env(), force, whole: false };
    let done = remote.sync(replica, &session)?;
    Ok((done, replica.open_conflicts()?))
}

/// One line of JSON a round; for people only what is news.
fn tell(round: u64, done: Result<(Outcome, u64)>, time: Duration, as_json: bool) -> Result<()> {
    match done {
        Ok((done, conflicts)) => {
            terminal::tell_waiting(&done.waiting);
            terminal::tell_aside(&done.aside);
            terminal::tell_restored(&done.restored);
            let quiet = done.sent.rows + done.received.rows == 0;
            if as_json {
                let mut line = outcome(&done, conflicts, time);
                line["round"] = json!(round);
                terminal::print(&line.to_string())
            } else if quiet {
                Ok(())
            } else {
                terminal::print(&format!("round {round}: {}", outcome_text(&done, time)))
            }
        }
        Err(e) => {
            let what = e.to_string();
            terminal::complain(&format!("round {round}: {what}"));
            if as_json {
                terminal::print(&json!({"round": round, "error": what}).to_string())?;
            }
            Ok(())
        }
    }
}

/// Whether `n` changes wait. Counts only after another connection has written.
fn is_due(replica: &Replica, n: i64, version: &mut Option<i64>) -> bool {
    // A database that cannot be read just now is for the next round to report.
    let Ok(now) = replica.data_version() else { return false };
    if version.replace(now) == Some(now) {
        return false;
    }
    replica.unfolded(n).is_ok_and(|waiting| waiting >= n)
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
fn stop_signal() -> Result<Arc<AtomicBool>> {
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
