//! A hub under load: pushes and pulls of many clients, latency at half of what it can do, what an
//! idle database costs, large objects.
//!
//! The hub is a process of its own; its processor time and memory are those of that process. The
//! clients ([`client`]) do as little as possible, on the same machine and over the loopback device
//! only. What they send is bounded in number and size.

mod client;
mod process;

use super::{Workload, space};
use crate::database::Database;
use crate::engine::Hub as Kind;
use crate::meter::{Done, Meter, Timer};
use crate::{Error, Result};
use client::Client;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

pub use process::{Process, label, serve};

/// A run of it.
#[derive(Clone, Debug)]
pub struct Hub {
    /// Clients, each with a connection of its own that is kept open, and a place of its own.
    pub clients: u64,
    /// Objects that each client pushes, and pulls.
    pub objects: u64,
    /// Bytes of an object.
    pub bytes: u64,
    /// Pushes a second, of all clients together, while latency is measured.
    pub pace: u64,
    /// Databases that get one object each; 0 leaves it out.
    pub databases: u64,
    /// Megabytes of one large object; 0 leaves it out.
    pub large: u64,
    /// Where PostgreSQL is, for the engine that needs one.
    pub postgres: Option<String>,
    /// Where a bucket is, for the engine that needs one.
    pub bucket: Option<String>,
}

/// Most that one request carries of a large object.
const PART: usize = 8 << 20;

impl Workload for Hub {
    fn name(&self) -> &'static str {
        "hub"
    }

    fn options(&self) -> Value {
        json!({
            "clients": self.clients,
            "objects": self.objects,
            "bytes": self.bytes,
            "pace": self.pace,
            "databases": self.databases,
            "large_mb": self.large,
            "network": "loopback, one connection a client, one request at a time",
        })
    }

    fn schema(&self) -> String {
        String::new()
    }

    fn run(&self, database: &mut Database, _: u64, _: &mut Meter) -> Result<()> {
        Err(Error::Bad(format!("{} is no hub; name --engines hub", database.engine())))
    }

    fn run_on_hub(&self, dir: &Path, kind: Kind, _seed: u64, meter: &mut Meter) -> Result<()> {
        let elsewhere = match kind {
            Kind::Embedded => None,
            Kind::Postgres => self.postgres.as_deref(),
            Kind::Bucket => self.bucket.as_deref(),
        };
        let hub = Process::start(dir, kind, elsewhere)?;
        let body = body(self.bytes);
        let pushed = |offset: u64, pace: Option<Duration>| {
            self.together(&hub, |client, number, timer| {
                let path = |n| format!("/{}/objects/{}", hub.place('p', number), name(number, n));
                let share = pace.map(|pace| pace.mul_f64(number as f64 / self.clients as f64));
                let first = Instant::now() + share.unwrap_or_default();
                let due = |n| Some(first + pace? * u32::try_from(n).unwrap_or(u32::MAX));
                for n in 0..self.objects {
                    push(client, &path(offset + n), &body, due(n), timer)?;
                }
                Ok(self.objects)
            })
        };
        let before = hub.processor()?;
        meter.timed("push", || pushed(0, None))?;
        let total = (self.clients * self.objects) as f64;
        meter.fact("push, hub's processor time, us", (hub.processor()? - before) * 1e6 / total);
        let pace = Duration::from_secs_f64(self.clients as f64 / self.pace as f64);
        meter.timed("push at a pace", || pushed(self.objects, Some(pace)))?;

        let before = hub.processor()?;
        meter.timed("pull the newest object", || {
            let after = self.newest(&hub)?;
            self.together(&hub, |client, number, timer| {
                let after = after[number as usize];
                let place = hub.place('p', number);
                let path = format!("/{place}/objects?after={after}&prefix=65536");
                self.pull(client, &path, timer)
            })
        })?;
        meter.fact("pull, hub's processor time, us", (hub.processor()? - before) * 1e6 / total);
        meter.timed("read an object by name", || {
            self.together(&hub, |client, number, timer| {
                let path = format!("/{}/objects/{}", hub.place('p', number), name(number, 0));
                self.pull(client, &path, timer)
            })
        })?;
        if self.databases > 0 {
            let before = hub.memory()?;
            let disk = space(dir)?;
            meter.timed("first push to a database", || self.spread(&hub, &body))?;
            let after = hub.memory()?;
            meter.fact("memory of the hub, MB", after / 1e6);
            let each = (after - before).max(0.0) / self.databases as f64;
            meter.fact("memory for a database that was pushed to, bytes", each);
            if kind == Kind::Embedded {
                let each = (space(dir)?.saturating_sub(disk)) as f64 / self.databases as f64;
                meter.fact("disk for a database that was pushed to, bytes", each);
            }
        }
        if self.large > 0 {
            self.large(&hub, meter)?;
        }
        hub.stop()
    }

    fn megabytes(&self) -> u64 {
        let objects = self.clients * self.objects * 2 + self.databases;
        100 + objects * (self.bytes + 300) * 4 / 1_000_000 + 2 * self.large
    }
}

impl Hub {
    /// All clients at once, each on a thread of its own.
    fn together(
        &self,
        hub: &Process,
        work: impl Fn(&mut Client, u64, &mut Timer) -> Result<u64> + Sync,
    ) -> Result<(Done, Option<Timer>)> {
        let one = |number| {
            let mut client = hub.connect()?;
            let mut timer = Timer::new()?;
            let operations = work(&mut client, number, &mut timer)?;
            Ok((operations, timer))
        };
        let parts = thread::scope(|scope| {
            let start = |number| scope.spawn(move || one(number));
            let one_each: Vec<_> = (0..self.clients).map(start).collect();
            let joined = one_each.into_iter().map(|thread| match thread.join() {
                Ok(part) => part,
                Err(_) => Err(Error::Bad("a client panicked".into())),
            });
            joined.collect::<Result<Vec<(u64, Timer)>>>()
        })?;
        let (mut operations, mut all) = (0, Timer::new()?);
        for (part, timer) in parts {
            operations += part;
            all.join(&timer)?;
        }
        Ok((Done { operations, transactions: operations }, Some(all)))
    }

    /// The sequence before the newest one of each client's place.
    fn newest(&self, hub: &Process) -> Result<Vec<u64>> {
        let mut client = hub.connect()?;
        let one = |number| {
            let path = format!("/{}/events?after=0&wait=0", hub.place('p', number));
            let answer = client.ask("GET", &path, b"")?;
            let upto = answer.header("synqlite-upto").and_then(|n| n.parse::<u64>().ok());
            upto.map(|n| n - 1).ok_or_else(|| Error::Bad(format!("{path}: no Synqlite-Upto")))
        };
        (0..self.clients).map(one).collect()
    }

    fn pull(&self, client: &mut Client, path: &str, timer: &mut Timer) -> Result<u64> {
        for _ in 0..self.objects {
            let start = Instant::now();
            let got = expect(client, "GET", path, b"", 200)?;
            if got < self.bytes {
                return Err(Error::Bad(format!("GET {path}: only {got} bytes")));
            }
            timer.add(start.elapsed());
        }
        Ok(self.objects)
    }

    /// One object for each of many databases.
    fn spread(&self, hub: &Process, body: &[u8]) -> Result<(Done, Option<Timer>)> {
        self.together(hub, |client, number, timer| {
            let mine = (number..self.databases).step_by(self.clients as usize);
            let mut pushed = 0;
            for database in mine {
                let start = Instant::now();
                let path = format!("/{}/objects/{}", hub.place('d', database), name(database, 0));
                expect(client, "PUT", &path, body, 201)?;
                timer.add(start.elapsed());
                pushed += 1;
            }
            Ok(pushed)
        })
    }

    /// One large object, up in parts and down in one. Operations are megabytes.
    fn large(&self, hub: &Process, meter: &mut Meter) -> Result<()> {
        let mut client = hub.connect()?;
        let mut piece = body(PART as u64);
        let total = self.large * 1_000_000;
        let starts = || (0..total).step_by(PART);
        let length = |at: u64| (total - at).min(PART as u64) as usize;
        let mut hasher = blake3::Hasher::new();
        for at in starts() {
            piece[..8].copy_from_slice(&at.to_le_bytes());
            hasher.update(&piece[..length(at)]);
        }
        let upload = hasher.finalize().to_hex();
        let path = format!("/{}/objects/{}", hub.place('l', 0), name(0, 0));
        let done = Done { operations: self.large, transactions: 1 };
        meter.phase("push a large object, MB", || {
            for at in starts() {
                piece[..8].copy_from_slice(&at.to_le_bytes());
                let end = at + length(at) as u64;
                let part = format!(
                    "Content-Range: bytes {at}-{}/{total}\r\nSynqlite-Upload: {upload}\r\n",
                    end - 1
                );
                let status = client.ask_with("PUT", &path, &part, &piece[..length(at)])?.status;
                if status != if end == total { 201 } else { 202 } {
                    return Err(Error::Bad(format!("PUT {path} at {at}: {status}")));
                }
            }
            Ok(done)
        })?;
        meter.phase("pull a large object, MB", || {
            let got = client.drain(&path)?;
            match got == total {
                true => Ok(done),
                false => Err(Error::Bad(format!("GET {path}: {got} bytes of {total}"))),
            }
        })
    }
}

/// Pushes an object, not before it is due; one that is late to begin counts from when it was due.
fn push(
    client: &mut Client,
    path: &str,
    body: &[u8],
    due: Option<Instant>,
    timer: &mut Timer,
) -> Result<()> {
    let start = due.unwrap_or_else(Instant::now);
    thread::sleep(start.saturating_duration_since(Instant::now()));
    expect(client, "PUT", path, body, 201)?;
    timer.add(start.elapsed());
    Ok(())
}

/// Asks, and wants this status: how long the body of the answer is.
fn expect(client: &mut Client, method: &str, path: &str, body: &[u8], status: u16) -> Result<u64> {
    let answer = client.ask(method, path, body)?;
    if answer.status == status {
        return Ok(answer.body.len() as u64);
    }
    let said = String::from_utf8_lossy(answer.body).into_owned();
    Err(Error::Bad(format!("{method} {path}: {} instead of {status}: {said}", answer.status)))
}

/// The name of an object.
fn name(site: u64, n: u64) -> String {
    let mut name = String::new();
    let _ = write!(name, "{0:032x}/batches/{site:032x}/{n:016x}-{1:016x}.batch", 7, n + 1);
    name
}

/// Bytes that do not compress.
fn body(bytes: u64) -> Vec<u8> {
    let mut out = vec![0; bytes as usize];
    blake3::Hasher::new_derive_key("a body").finalize_xof().fill(&mut out);
    out
}
