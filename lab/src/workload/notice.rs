//! How soon a program knows that another one has committed, and what it costs to wait for that.
//!
//! Another process commits one row at a time. A subscriber here waits for it: by events of the file system, as
//! `synqlite watch` and `synqlite_wait` do, or by asking SQLite every so often. A latency is the time from the end of
//! a commit, as its process saw it, until the subscriber has read its row. Then nobody commits any more, and
//! processor time counts.

use super::Workload;
use crate::database::Database;
use crate::engine::Engine;
use crate::meter::{Done, Meter, Timer};
use crate::{Error, Result};
use cpu_time::ProcessTime;
use rusqlite::Connection;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use synqlite_core::{Replica, System};
use synqlite_remote::watch::Waiter;

/// A run of it.
#[derive(Clone, Debug)]
pub struct Notice {
    /// How many commits are waited for, each way.
    pub commits: u64,
    /// For how many seconds nobody commits.
    pub idle: u64,
}

/// Milliseconds between two commits; they are spread over them.
const PAUSES: [u64; 2] = [5, 25];
/// How often SQLite is asked.
const POLLS: [u64; 3] = [5, 20, 100];

impl Workload for Notice {
    fn name(&self) -> &'static str {
        "notice"
    }

    fn options(&self) -> Value {
        json!({
            "commits": self.commits,
            "pause between commits, ms": PAUSES,
            "idle, s": self.idle,
            "writer": "another process, a row of 2 columns in a transaction of its own",
        })
    }

    fn schema(&self) -> String {
        "CREATE TABLE beat(id INTEGER PRIMARY KEY, at INTEGER)".to_owned()
    }

    fn run(&self, db: &mut Database, _: u64, meter: &mut Meter) -> Result<()> {
        let Engine::Replica(_) = db.engine() else {
            return Err(Error::Bad(format!("notice does not run on {}", db.engine())));
        };
        let replica = Replica::open(db.path(), Arc::new(System))?;
        let mut waiter = Waiter::new(&replica);
        self.subscriber(db, meter, "by events", |most| {
            waiter.wait(&replica, Instant::now() + most, |_| true, || false);
            Ok(())
        })?;
        drop(waiter);
        for poll in POLLS {
            let mut known = replica.data_version()?;
            self.subscriber(db, meter, &format!("asked every {poll} ms"), |most| {
                let end = Instant::now() + most;
                while replica.data_version()? == known && Instant::now() < end {
                    thread::sleep(Duration::from_millis(poll));
                }
                known = replica.data_version()?;
                Ok(())
            })?;
        }
        Ok(())
    }

    fn same_for_all(&self) -> bool {
        false
    }

    fn megabytes(&self) -> u64 {
        10
    }
}

impl Notice {
    /// `wait` returns when something was committed, or after that time.
    fn subscriber(
        &self,
        db: &Database,
        meter: &mut Meter,
        how: &str,
        mut wait: impl FnMut(Duration) -> Result<()>,
    ) -> Result<()> {
        wait(Duration::ZERO)?;
        meter.timed(&format!("noticed {how}"), || {
            let timer = self.latencies(db.path(), &mut wait)?;
            Ok((Done { operations: self.commits, transactions: self.commits }, Some(timer)))
        })?;
        // What came last is still looked at more often.
        thread::sleep(Duration::from_secs(self.idle.min(2)));
        let (cpu, since) = (ProcessTime::now(), Instant::now());
        while since.elapsed() < Duration::from_secs(self.idle) {
            wait(Duration::from_secs(1))?;
        }
        let share = cpu.elapsed().as_secs_f64() / since.elapsed().as_secs_f64();
        meter.fact(&format!("idle, {how}: percent of a core"), share * 100.0);
        Ok(())
    }

    fn latencies(
        &self,
        path: &Path,
        wait: &mut impl FnMut(Duration) -> Result<()>,
    ) -> Result<Timer> {
        let reader = Connection::open(path)?;
        reader.busy_timeout(Duration::from_secs(60))?;
        let last = |reader: &Connection| -> Result<u64> {
            let sql = "SELECT ifnull(max(id), 0) FROM beat";
            let last: i64 = reader.query_row(sql, [], |row| row.get(0))?;
            Ok(last.unsigned_abs())
        };
        let before = last(&reader)?;
        let program = std::env::current_exe().map_err(Error::io(path))?;
        let mut child = Command::new(program)
            .args(["beat".as_ref(), path.as_os_str(), self.commits.to_string().as_ref()])
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Error::io(path))?;
        let Some(output) = child.stdout.take() else {
            return Err(Error::Bad("the writer has no output".into()));
        };
        let told = thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            lines.filter_map(|line| line.parse().ok()).collect::<Vec<u64>>()
        });
        let mut seen: Vec<u64> = Vec::new();
        while (seen.len() as u64) < self.commits {
            wait(Duration::from_secs(5))?;
            let (there, now) = (last(&reader)? - before, nanos());
            seen.resize(there.max(seen.len() as u64) as usize, now);
            if child.try_wait().map_err(Error::io(path))?.is_some() && there < self.commits {
                let there = last(&reader)? - before;
                if there < self.commits {
                    return Err(Error::Bad(format!("the writer ended after {there} commits")));
                }
            }
        }
        child.wait().map_err(Error::io(path))?;
        let Ok(told) = told.join() else {
            return Err(Error::Bad("the reader of the writer's output panicked".into()));
        };
        let mut timer = Timer::new()?;
        for (committed, seen) in told.iter().zip(&seen) {
            timer.add(Duration::from_nanos(seen.saturating_sub(*committed)));
        }
        Ok(timer)
    }
}

/// The writer: so many commits, and on standard output when each was done.
pub fn beat(path: &Path, commits: u64) -> Result<()> {
    let conn = Connection::open(path)?;
    conn.busy_timeout(Duration::from_secs(60))?;
    let mut out = std::io::stdout().lock();
    for n in 0..commits {
        // In no rhythm with whoever asks.
        let [least, most] = PAUSES;
        thread::sleep(Duration::from_micros(least * 1_000 + n * 7_919 % ((most - least) * 1_000)));
        conn.prepare_cached("INSERT INTO beat(at) VALUES(1)")?.execute([])?;
        let done = nanos();
        writeln!(out, "{done}").and_then(|()| out.flush()).map_err(Error::io(path))?;
    }
    Ok(())
}

fn nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}
