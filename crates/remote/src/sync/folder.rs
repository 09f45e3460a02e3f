//! A remote that is a place of exchange: chains of batches, and snapshots for those who start.
//!
//! By induction every batch contains all changes between its `base` and its `upto`: its writer
//! had seen both and sent the difference. So what a place contains is what can be reached in it
//! from nothing, over snapshots and batches whose base is reached. A batch that went missing is
//! thereby noticed by writers too, and the next of them that has its changes sends them again.

use super::heads::{Heads, Known, Plan, Step};
use super::{Outcome, Progress, Result, Session, SyncError, Traffic, refuse_restored};
use std::io::Read;
use std::path::Path;
use synqlite_core::Replica;
use synqlite_objects::files::{Temp, folder_of, remove_leftovers};
use synqlite_objects::{Kind, ObjectName};
use synqlite_objects::{Put, Store, find_database};
use synqlite_objects::{SnapshotHeader, put_snapshot, read_snapshot};
use synqlite_wire::{BatchError, Delta, VersionVector, batch};

/// A new snapshot is due when more batches than these came after the last one, or more bytes than
/// it has.
const BATCHES: usize = 64;
/// Another process, or a program that synchronizes folders, may come in between so often.
const ATTEMPTS: u32 = 4;

/// Puts what the place lacks. Also returns what it then contains.
pub fn push(
    mine: &mut Replica,
    store: &dyn Store,
    url: &str,
    session: &mut Session<'_>,
) -> Result<(Outcome, VersionVector)> {
    let (database, site) = (mine.database(), mine.site());
    let mut outcome = Outcome::default();
    let mut name = None;
    for _ in 0..ATTEMPTS {
        find_database(store, database)?;
        let heads = Heads::read(store, database, Known::Snapshots)?;
        refuse_restored(mine, &mine.seen()?, &heads.claimed())?;
        mine.fold()?;
        let mut there = heads.plan(&VersionVector::default()).reached;
        let put = if heads.snapshots.is_empty() {
            put_whole(mine, store, session)?
        } else {
            let (delta, position) = missing(mine, url, &there)?;
            if delta.rows.is_empty() && delta.settings.is_empty() {
                there.join(&delta.upto);
                return Ok((outcome, there));
            }
            let (from, upto) = (heads.end_of(site), u64::try_from(position).unwrap_or(0));
            if upto > from {
                put_batch(store, ObjectName::batch(database, site, from, upto), delta)?
            } else {
                // An object of ours went missing. A snapshot fills every gap.
                put_whole(mine, store, session)?
            }
        };
        if put.put == Put::Created {
            outcome.sent.add(put.traffic);
            there.join(&put.seen);
            if put.name.kind == Kind::Batch && snapshot_is_due(&heads, put.traffic.bytes) {
                put_whole(mine, store, session)?;
            }
            return Ok((outcome, there));
        }
        // Another process of this site was faster, most likely with the same.
        name = Some(put.name);
    }
    let place = super::place(store);
    Err(SyncError::Blocked { place, name: name.map_or(String::new(), |name| name.to_string()) })
}

/// An object that was put.
struct Sent {
    name: ObjectName,
    put: Put,
    traffic: Traffic,
    /// What it brings those who have its base.
    seen: VersionVector,
}

fn put_batch(store: &dyn Store, name: ObjectName, delta: Delta) -> Result<Sent> {
    let bytes = batch::encode(name.database, name.site, &delta).map_err(SyncError::Encode)?;
    let put = store.put_if_absent(&name, &bytes)?;
    let traffic = Traffic::of(&delta, bytes.len() as u64);
    Ok(Sent { name, put, traffic, seen: delta.upto })
}

/// What this replica has and the place lacks, with the position that it reaches.
fn missing(mine: &mut Replica, url: &str, there: &VersionVector) -> Result<(Delta, i64)> {
    let seen = mine.seen()?;
    // A receiver needs to have only those writes that this replica has seen too.
    let mut base = VersionVector::default();
    seen.0.iter().for_each(|(&site, &hlc)| base.raise(site, hlc.min(there.get(site))));
    let sent = mine.sent_to(url)?.filter(|sent| there.dominates(&sent.seen));
    Ok(mine.export(&base, sent.map_or(0, |sent| sent.position))?)
}

/// Whether a new snapshot is due after a batch of so many bytes.
fn snapshot_is_due(heads: &Heads, bytes: u64) -> bool {
    let newest = heads.snapshots.iter().max_by_key(|(header, _)| header.vector.latest());
    let bytes = bytes + heads.batches.iter().map(|(_, header)| header.size).sum::<u64>();
    heads.batches.len() >= BATCHES || newest.is_none_or(|(_, size)| bytes > *size)
}

/// Puts the whole database as a snapshot.
fn put_whole(mine: &mut Replica, store: &dyn Store, session: &mut Session<'_>) -> Result<Sent> {
    remove_leftovers(folder_of(mine.path()));
    let temp = Temp::beside(mine.path())?;
    mine.copy_to(temp.path(), &mut |done, total| session.progress.step("pages", done, total))?;
    let mut copy = Replica::open_copy(temp.path(), session.env.clone())?;
    copy.forget_remotes()?;
    let (seen, position) = (copy.seen()?, copy.position()?);
    let rows = u64::try_from(copy.count_rows()?).unwrap_or(0);
    drop(copy);
    let file =
        std::fs::metadata(temp.path()).map_err(synqlite_objects::Error::io("read", temp.path()))?;
    let header = SnapshotHeader {
        database: mine.database(),
        site: mine.site(),
        upto: u64::try_from(position).unwrap_or(0),
        vector: seen.clone(),
        length: file.len(),
    };
    let (put, name) = (put_snapshot(store, temp.path(), &header)?, header.name());
    let listed = store.list(name.database, name.kind)?.into_iter().find(|e| e.name == name);
    let traffic = Traffic { rows, columns: 0, bytes: listed.map_or(0, |entry| entry.size) };
    Ok(Sent { name, put, traffic, seen })
}

/// Merges what `mine` lacks and the place holds. Also returns what the place contains.
pub fn pull(
    mine: &mut Replica,
    store: &dyn Store,
    session: &mut Session<'_>,
) -> Result<(Outcome, VersionVector)> {
    let database = mine.database();
    if !find_database(store, database)? {
        return Err(synqlite_objects::Error::NoDatabase { place: store.place() }.into());
    }
    let seen = mine.seen()?;
    let mut heads = Heads::read(store, database, Known::Seen(&seen))?;
    refuse_restored(mine, &seen, &heads.claimed())?;
    let place = super::place(store);
    let mut outcome = Outcome::default();
    // All are read and verified before any is merged.
    let deltas = loop {
        let plan = heads.plan(&seen);
        outcome.waiting = heads.waiting(&plan, &place, mine.site())?;
        match read_all(mine, store, &heads, &plan, session)? {
            Reading::All(deltas, traffic) => {
                outcome.received = traffic;
                break deltas;
            }
            Reading::Bad(name, why) => heads.set_aside(&name, why),
        }
    };
    // Also without any, so that a pull always folds.
    outcome.merged = mine.merge_all(&deltas, session.force)?;
    Ok((outcome, heads.claimed()))
}

/// What reading the objects of a plan came to.
enum Reading {
    /// All of them.
    All(Vec<Delta>, Traffic),
    /// This batch cannot be read; perhaps there is another way.
    Bad(ObjectName, BatchError),
}

fn read_all(
    mine: &Replica,
    store: &dyn Store,
    heads: &Heads,
    plan: &Plan,
    session: &mut Session<'_>,
) -> Result<Reading> {
    let (mut deltas, mut traffic) = (Vec::new(), Traffic::default());
    for (step, done) in plan.steps.iter().zip(1..) {
        let (delta, bytes) = match *step {
            Step::Batch(i) => {
                let Some((name, _)) = heads.batches.get(i) else { continue };
                let bytes = store.read(name)?;
                match batch::decode(&bytes) {
                    Ok((_, delta)) => (delta, bytes.len() as u64),
                    Err(why) => return Ok(Reading::Bad(*name, why)),
                }
            }
            Step::Snapshot(i) => {
                let Some((header, size)) = heads.snapshots.get(i) else { continue };
                (read_whole(mine, store, (header, *size), &plan.start, session)?, *size)
            }
        };
        traffic.add(Traffic::of(&delta, bytes));
        session.progress.step("batches", done, plan.steps.len() as u64);
        deltas.push(delta);
    }
    Ok(Reading::All(deltas, traffic))
}

/// Restores the snapshot `name`, of `size` bytes, to the file `to`.
pub fn fetch(
    store: &dyn Store,
    name: &ObjectName,
    size: u64,
    to: &Path,
    session: &mut Session<'_>,
) -> synqlite_objects::Result<SnapshotHeader> {
    let progress = &mut *session.progress;
    read_snapshot(name, Watched { inner: store.open(name)?, done: 0, size, progress }, to)
}

/// Tells how much was read.
struct Watched<'a> {
    inner: Box<dyn Read + Send>,
    done: u64,
    size: u64,
    progress: &'a mut dyn Progress,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(out)?;
        self.done += n as u64;
        self.progress.step("bytes", self.done, self.size);
        Ok(n)
    }
}

/// What a snapshot has and a replica that has seen `seen` lacks.
fn read_whole(
    mine: &Replica,
    store: &dyn Store,
    (header, size): (&SnapshotHeader, u64),
    seen: &VersionVector,
    session: &mut Session<'_>,
) -> Result<Delta> {
    let temp = Temp::beside(mine.path())?;
    fetch(store, &header.name(), size, temp.path(), session)?;
    let mut copy = Replica::open_copy(temp.path(), session.env.clone())?;
    Ok(copy.export(seen, 0)?.0)
}
