//! Many sites of one database at one hub: what crosses the network, compared with what must.
//!
//! Each site is a replica of its own on its own file. In each round it writes a few rows, pulls and
//! pushes; in the end all pull, and must show the same rows, every written one among them. All of
//! them go through a counter in front of the hub, which is a process of its own.
//!
//! *Necessary* is the packed content of the batches: of each batch once up, and once down to every
//! other site. Names, headers, checksums, lists, requests and snapshots come on top of it.

mod counted;
mod wire;

use super::Workload;
use super::hub::Process;
use super::random::Random;
use crate::database::Database;
use crate::engine::Hub as Kind;
use crate::meter::{Done, Meter, Timer};
use crate::{Error, Result};
use counted::Counted;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Instant;
use synqlite_core::{InitOptions, Replica, System};
use synqlite_remote::{Credentials, Remote, Session};
use wire::Wire;

/// A run of it.
#[derive(Clone, Debug)]
pub struct Sites {
    /// Sites.
    pub sites: usize,
    /// Batches that each of them pushes.
    pub batches: usize,
    /// Bytes of new content in a batch, about.
    pub bytes: usize,
    /// Sites at work at a time.
    pub threads: usize,
}

const SCHEMA: &str = "\
CREATE TABLE place(id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, remark TEXT);
CREATE TABLE note(id TEXT PRIMARY KEY, place TEXT NOT NULL REFERENCES place(id),
                  code INTEGER NOT NULL UNIQUE, body BLOB NOT NULL);";
/// Rows that are there before the first site writes.
const PLACES: i64 = 50;
/// Rows that a batch adds; it also updates one that all sites know.
const ROWS: usize = 3;

impl Workload for Sites {
    fn name(&self) -> &'static str {
        "sites"
    }

    fn options(&self) -> Value {
        json!({
            "sites": self.sites,
            "batches": self.batches,
            "bytes": self.bytes,
            "threads": self.threads,
            "batch": format!("{ROWS} inserted rows with a foreign key and a unique column, and an \
                              update of one of {PLACES} rows that all sites know"),
            "network": "loopback, HTTP/1.1",
        })
    }

    fn schema(&self) -> String {
        SCHEMA.to_owned()
    }

    fn run(&self, database: &mut Database, _: u64, _: &mut Meter) -> Result<()> {
        Err(Error::Bad(format!("{} is no hub; name --engines hub", database.engine())))
    }

    fn run_on_hub(&self, dir: &Path, kind: Kind, seed: u64, meter: &mut Meter) -> Result<()> {
        if kind != Kind::Embedded {
            return Err(Error::Bad("sites needs a hub with its own store: --engines hub".into()));
        }
        let hub = Process::start(dir, kind, None)?;
        let wire = Wire::before(hub.address())?;
        let url = format!("http://{}/sites", wire.address());
        let credentials =
            Credentials { token: Some(hub.token().to_owned()), ..Credentials::default() };
        let Remote::Store { store, url } = Remote::open(&url, &credentials)? else {
            return Err(Error::Bad(format!("{url} is no place")));
        };
        let counted = Arc::new(Counted::new(store));
        let remote = Remote::Store { store: counted.clone(), url };
        let path = |site: usize| dir.join(format!("{site}.db"));
        self.begin(&path(0), &remote, seed)?;
        self.each(1, |site| exchange(|s| remote.clone_to(&path(site), s)).map(|_| None))?;
        // What it takes to become a site is not counted.
        let (up, down) = (wire.up(), wire.down());
        meter.timed("write, pull and push", || {
            let (mut done, mut all) = (Done::default(), Timer::new()?);
            for round in 0..self.batches {
                let (part, timer) = self.each(0, |site| {
                    self.write(&path(site), seed, site, round)?;
                    let mut replica = open(&path(site))?;
                    let start = Instant::now();
                    let done = exchange(|s| remote.sync(&mut replica, s))?;
                    none_waits(&done.waiting, site)?;
                    Ok(Some(start.elapsed()))
                })?;
                done.operations += part.operations;
                done.transactions += part.transactions;
                timer.iter().try_for_each(|timer| all.join(timer))?;
            }
            Ok((done, Some(all)))
        })?;
        let (pushed, necessary) = (counted.batches(), counted.content() * self.sites as u64);
        if pushed != (self.sites * self.batches) as u64 {
            return Err(Error::Bad(format!("{pushed} batches were pushed")));
        }
        let first = std::sync::OnceLock::new();
        meter.timed("last pull", || {
            self.each(0, |site| {
                let path = path(site);
                let mut replica = open(&path)?;
                let start = Instant::now();
                let done = exchange(|s| remote.pull(&mut replica, s))?;
                let took = start.elapsed();
                none_waits(&done.waiting, site)?;
                let digest = replica.digest()?.digest;
                if *first.get_or_init(|| digest.clone()) != digest {
                    return Err(Error::Bad(format!("site {site} shows other rows")));
                }
                self.complete(&path)?;
                drop(replica);
                remove(&path)?;
                Ok(Some(took))
            })
        })?;
        let (up, down) = (wire.up() - up, wire.down() - down);
        meter.fact("up, bytes", up as f64);
        meter.fact("down, bytes", down as f64);
        meter.fact("necessary, bytes", necessary as f64);
        meter.fact("content of a batch, bytes", counted.content() as f64 / pushed as f64);
        meter.fact("snapshots, bytes", counted.snapshots() as f64);
        meter.fact("transferred / necessary", (up + down) as f64 / necessary as f64);
        hub.stop()
    }

    fn megabytes(&self) -> u64 {
        let batches = (self.sites * self.batches) as u64;
        100 + batches * (self.bytes as u64 + 300) * (self.sites as u64 + 3) / 1_000_000
    }
}

impl Sites {
    /// Makes the first site and puts it to the hub.
    fn begin(&self, path: &Path, remote: &Remote, seed: u64) -> Result<()> {
        let conn = Connection::open(path)?;
        conn.execute_batch(SCHEMA)?;
        let mut random = Random::new(seed, 0);
        for place in 0..PLACES {
            let remark = random.text(20, 40);
            let values = params![format!("p{place}"), format!("place {place}"), remark];
            conn.execute("INSERT INTO place VALUES(?,?,?)", values)?;
        }
        drop(conn);
        Replica::init(path, &InitOptions::default(), Arc::new(System))?;
        let mut replica = open(path)?;
        // Only of a remote that it knows by name a replica remembers what it holds.
        replica.add_remote("origin", &remote.url(), None)?;
        exchange(|s| remote.push(&mut replica, s)).map(drop)
    }

    /// What the application of a site writes in a round: one transaction.
    fn write(&self, path: &Path, seed: u64, site: usize, round: usize) -> Result<()> {
        let mut random = Random::new(seed, (1 + site * self.batches + round) as u64);
        let conn = Connection::open(path)?;
        conn.execute_batch("PRAGMA foreign_keys=ON; PRAGMA synchronous=OFF; BEGIN")?;
        for row in 0..ROWS {
            let number = (site * self.batches + round) * ROWS + row;
            let body: Vec<u8> = (0..self.bytes.saturating_sub(250) / ROWS)
                .map(|_| random.between(0, 255) as u8)
                .collect();
            let (id, place) = (random.text(8, 8), format!("p{}", random.between(0, PLACES - 1)));
            let values = params![format!("{id}{number}"), place, number as i64, body];
            conn.prepare_cached("INSERT INTO note VALUES(?,?,?,?)")?.execute(values)?;
        }
        let place = format!("p{}", random.between(0, PLACES - 1));
        let values = params![random.text(20, 40), place];
        conn.execute("UPDATE place SET remark=? WHERE id=?", values)?;
        Ok(conn.execute_batch("COMMIT")?)
    }

    /// Every row that any site wrote must be there, once.
    fn complete(&self, path: &Path) -> Result<()> {
        let conn = Connection::open(path)?;
        let sql = "SELECT count(*), count(DISTINCT code), ifnull(max(code), -1) FROM note";
        let found = conn.query_row(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?)))?;
        let all = (self.sites * self.batches * ROWS) as i64;
        if found != (all, all, all - 1) {
            return Err(Error::Bad(format!("{found:?} rows of {all} are in {}", path.display())));
        }
        Ok(())
    }

    /// Does something for every site from number `from` on, several at a time.
    fn each(
        &self,
        from: usize,
        work: impl Fn(usize) -> Result<Option<std::time::Duration>> + Sync,
    ) -> Result<(Done, Option<Timer>)> {
        let next = AtomicUsize::new(from);
        let part = || {
            let (mut timer, mut operations) = (Timer::new()?, 0);
            loop {
                let site = next.fetch_add(1, Relaxed);
                if site >= self.sites {
                    return Ok((operations, timer));
                }
                if let Some(took) = work(site)? {
                    timer.add(took);
                }
                operations += 1;
            }
        };
        let parts: Vec<Result<(u64, Timer)>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(part)).collect();
            let ended = threads.into_iter().map(|thread| match thread.join() {
                Ok(part) => part,
                Err(_) => Err(Error::Bad("a site panicked".into())),
            });
            ended.collect()
        });
        let (mut operations, mut all) = (0, Timer::new()?);
        for part in parts {
            let (n, timer) = part?;
            operations += n;
            all.join(&timer)?;
        }
        Ok((Done { operations, transactions: operations }, Some(all)))
    }
}

fn open(path: &Path) -> Result<Box<Replica>> {
    Ok(Box::new(Replica::open(path, Arc::new(System))?))
}

fn exchange<T, E>(with: impl FnOnce(&Session) -> std::result::Result<T, E>) -> Result<T>
where
    Error: From<E>,
{
    let session = Session { env: Arc::new(System), force: false, whole: false };
    Ok(with(&session)?)
}

fn none_waits(waiting: &[synqlite_remote::Waiting], site: usize) -> Result<()> {
    match waiting.first() {
        None => Ok(()),
        Some(first) => {
            let (n, why, name) = (waiting.len(), &first.why, &first.name);
            Err(Error::Bad(format!("{n} batches wait at site {site}; {name}: {why}")))
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let file = PathBuf::from(name);
        if file.exists() {
            std::fs::remove_file(&file).map_err(Error::io(&file))?;
        }
    }
    Ok(())
}
