//! A remote that is a place of exchange: chains of batches, and snapshots for those who start.
//!
//! By induction every batch contains all changes between its `base` and its `upto`: its writer
//! had seen both and sent the difference. So what a place contains is what can be reached in it
//! from nothing, over snapshots and batches whose base is reached. A batch that went missing is
//! thereby noticed by writers too, and the next of them that has its changes sends them again.

use super::heads::{Heads, Known, Step};
use super::{Outcome, Result, Session, SyncError, Traffic, refuse_restored};
use crate::files::Temp;
use crate::name::{Kind, ObjectName};
use crate::snapshot::{SnapshotHeader, fetch_snapshot, put_snapshot};
use crate::store::{Put, Store, find_database};
use synqlite_core::Replica;
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
    let temp = Temp::beside(mine.path())?;
    mine.copy_to(temp.path(), &mut |done, total| session.progress.step("pages", done, total))?;
    let mut copy = Replica::open_copy(temp.path(), session.env.clone())?;
    copy.forget_remotes()?;
    let (seen, position) = (copy.seen()?, copy.position()?);
    let rows = u64::try_from(copy.count_rows()?).unwrap_or(0);
    drop(copy);
    let file = std::fs::metadata(temp.path()).map_err(crate::Error::io("read", temp.path()))?;
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
    find_database(store, database)?;
    let seen = mine.seen()?;
    let heads = Heads::read(store, database, Known::Seen(&seen))?;
    let claimed = heads.claimed();
    refuse_restored(mine, &seen, &claimed)?;
    let plan = heads.plan(&seen);
    let place = super::place(store);
    let mut outcome =
        Outcome { waiting: heads.waiting(&plan, &place, mine.site())?, ..Outcome::default() };
    // All are read and verified before any is merged.
    let mut deltas = Vec::with_capacity(plan.steps.len());
    for (step, done) in plan.steps.iter().zip(1..) {
        let (delta, bytes) = match *step {
            Step::Batch(i) => match heads.batches.get(i) {
                Some((name, _)) => read_batch(store, name, &place)?,
                None => continue,
            },
            Step::Snapshot(i) => match heads.snapshots.get(i) {
                Some((header, size)) => (read_whole(mine, store, header, &seen, session)?, *size),
                None => continue,
            },
        };
        outcome.received.add(Traffic::of(&delta, bytes));
        session.progress.step("batches", done, plan.steps.len() as u64);
        deltas.push(delta);
    }
    // Also without any, so that a pull always folds.
    outcome.merged = mine.merge_all(&deltas, session.force)?;
    Ok((outcome, claimed))
}

fn read_batch(store: &dyn Store, name: &ObjectName, place: &str) -> Result<(Delta, u64)> {
    let bytes = store.read(name)?;
    let failed = |source: BatchError| {
        let (name, place) = (*name, place.to_owned());
        SyncError::Batch { name, place, source }
    };
    let (_, delta) = batch::decode(&bytes).map_err(failed)?;
    Ok((delta, bytes.len() as u64))
}

/// What a snapshot has and a replica that has seen `seen` lacks.
fn read_whole(
    mine: &Replica,
    store: &dyn Store,
    header: &SnapshotHeader,
    seen: &VersionVector,
    session: &mut Session<'_>,
) -> Result<Delta> {
    let temp = Temp::beside(mine.path())?;
    fetch_snapshot(store, &header.name(), temp.path())?;
    let mut copy = Replica::open_copy(temp.path(), session.env.clone())?;
    Ok(copy.export(seen, 0)?.0)
}
