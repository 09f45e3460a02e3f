//! A remote that is a place of exchange: chains of batches, and snapshots for those who start.
//!
//! By induction every batch contains all changes between its `base` and its `upto`: its writer
//! had seen both and sent the difference. So what a place contains is what can be reached in it
//! from nothing, over snapshots and batches whose base is reached. A batch that went missing is
//! thereby noticed by writers too, and the next of them that has its changes sends them again.

//!
//! A place that numbers its objects is looked at once in a synchronization, and only at what came
//! since the last one ([`Memory`]). One that does not is listed whenever it is asked.

use super::heads::{Heads, Known, Plan, Step};
use super::memory::{Memory, Since};
use super::{Outcome, Progress, Result, Session, SyncError, Traffic, refuse_restored};
use std::io::Read;
use std::path::Path;
use synqlite_core::{Replica, Synced};
use synqlite_objects::files::{Temp, folder_of, remove_leftovers};
use synqlite_objects::{Ask, Cursor, Kind, ObjectName, Put, Store};
use synqlite_objects::{SnapshotHeader, put_snapshot, read_snapshot};
use synqlite_wire::{BatchError, Delta, VersionVector, batch};

/// A new snapshot is due when more batches than these came after the last one, or more bytes than
/// it has.
const BATCHES: u64 = 64;
/// Where batches come with the list, one more costs a reader as much as so many bytes.
const BATCH: u64 = 1 << 10;
/// So much of each object comes along with the list, where that costs nothing.
const PREFIX: u64 = 64 << 10;
/// Enough for most headers.
const HEAD: u64 = 1 << 10;
/// Another process, or a program that synchronizes folders, may come in between so often.
const ATTEMPTS: u32 = 4;

/// A place, and the name under which the replica remembers it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The place.
    pub store: &'a dyn Store,
    /// Its URL.
    pub url: &'a str,
}

/// Puts what the place lacks.
pub fn push(
    mine: &mut Replica,
    place: Place<'_>,
    session: &mut Session<'_>,
) -> Result<(Outcome, Synced)> {
    send(mine, place, None, session)
}

/// Merges what `mine` lacks and the place holds.
pub fn pull(
    mine: &mut Replica,
    place: Place<'_>,
    session: &mut Session<'_>,
) -> Result<(Outcome, Synced)> {
    let seen = mine.seen()?;
    let mut heads = look(mine, place, Known::Seen(&seen), session)?;
    if heads.is_empty() {
        return Err(synqlite_objects::Error::NoDatabase { place: place.store.place() }.into());
    }
    let outcome = merge(mine, place, &mut heads, session)?;
    let there = heads.plan(&heads.base).reached;
    let memory = remember(mine, &heads, &there)?;
    let theirs = heads.claimed();
    let place = memory.map(|memory| memory.encode());
    Ok((outcome, Synced { pulled: true, theirs, place, ..Synced::default() }))
}

/// A pull, then a push. A place to which nobody has pushed yet is no failure.
pub fn sync(
    mine: &mut Replica,
    place: Place<'_>,
    session: &mut Session<'_>,
) -> Result<(Outcome, Synced)> {
    let seen = mine.seen()?;
    let mut heads = look(mine, place, Known::Seen(&seen), session)?;
    let mut outcome = Outcome::default();
    if !heads.is_empty() {
        outcome = merge(mine, place, &mut heads, session)?;
    }
    // Without an order, what a pull need not look at is more than what a push need not.
    let heads = Some(heads).filter(|heads| heads.cursor.is_some());
    let (pushed, synced) = send(mine, place, heads, session)?;
    outcome.add(Outcome { waiting: outcome.waiting.clone(), ..pushed });
    Ok((outcome, Synced { pulled: true, ..synced }))
}

/// Looks at the place: at what is new there, or at all of it.
fn look(
    mine: &Replica,
    Place { store, url }: Place<'_>,
    known: Known<'_>,
    session: &Session<'_>,
) -> Result<Heads> {
    let (site, now) = (mine.site(), session.env.now_ms());
    let kept = mine.place_of(url)?;
    let memory = kept.as_deref().and_then(|bytes| Memory::decode(bytes, site, now));
    let after = memory.as_ref().map(|memory| memory.cursor);
    // What is looked at again is mostly known: headers tell.
    let prefix = if kept.is_some() && after.is_none() { HEAD } else { PREFIX };
    let ask = Ask { database: mine.database(), after, prefix, site: Some(site) };
    let changes = store.changes(ask)?;
    // What is remembered must be reachable from nothing, so all of it has to be looked at once.
    let known = if changes.cursor.is_some() { Known::Snapshots } else { known };
    let heads = Heads::read(store, changes, memory, known, now)?;
    refuse_restored(mine, &mine.seen()?, &heads.claimed())?;
    Ok(heads)
}

/// What to remember of a place that contains `there`; nothing new while something in it is missing
/// here, cannot be read, or cannot be reached.
fn remember(mine: &Replica, heads: &Heads, there: &VersionVector) -> Result<Option<Memory>> {
    let claimed = heads.claimed();
    let whole = heads.is_sound() && mine.seen()?.dominates(&claimed) && there.dominates(&claimed);
    let Some(cursor) = heads.cursor.filter(|_| whole) else { return Ok(None) };
    let (site, end) = (mine.site(), heads.end_of(mine.site()));
    let (looked, since, contains) = (heads.looked, heads.since, there.clone());
    Ok(Some(Memory { site, cursor, looked, end, since, contains }))
}

/// Puts what the place lacks, as far as `heads` tell, or a look that is still to come.
fn send(
    mine: &mut Replica,
    place: Place<'_>,
    mut looked: Option<Heads>,
    session: &mut Session<'_>,
) -> Result<(Outcome, Synced)> {
    let Place { store, url } = place;
    let (database, site) = (mine.database(), mine.site());
    let mut outcome = Outcome::default();
    let mut name = None;
    for _ in 0..ATTEMPTS {
        let mut heads = match looked.take() {
            Some(heads) => heads,
            None => look(mine, place, Known::Snapshots, session)?,
        };
        mine.fold()?;
        outcome.upto = heads.cursor;
        let mut there = heads.plan(&heads.base).reached;
        // A snapshot stands for all that it contains, so nothing may be there that nobody has read.
        let read = heads.flawed.is_empty() && mine.seen()?.dominates(&heads.claimed());
        let covers = heads.cursor.filter(|_| read);
        let mut nothing = None;
        let put = if heads.since.snapshot == 0 {
            Some(put_whole(mine, store, covers, session)?)
        } else {
            let (delta, position) = missing(mine, url, &heads, &there)?;
            let (from, upto) = (heads.end_of(site), u64::try_from(position).unwrap_or(0));
            if delta.rows.is_empty() && delta.settings.is_empty() {
                nothing = Some(delta.upto);
                None
            } else if upto > from {
                Some(put_batch(store, ObjectName::batch(database, site, from, upto), delta)?)
            } else {
                // An object of ours went missing. A snapshot fills every gap.
                Some(put_whole(mine, store, covers, session)?)
            }
        };
        if let Some(put) = put {
            name = Some(put.name);
            if put.put == Put::AlreadyThere {
                // Another process of this site was faster, most likely with the same.
                continue;
            }
            outcome.sent.add(put.traffic);
            there.join(&put.seen);
            heads.put(&put.name, put.traffic.bytes);
            if put.name.kind == Kind::Batch && snapshot_is_due(&heads) {
                let whole = put_whole(mine, store, covers, session)?;
                heads.put(&whole.name, whole.traffic.bytes);
            }
        }
        let place = remember(mine, &heads, &there)?.map(|memory| memory.encode());
        // What was superseded before it was sent is there in effect. Nobody can build on it, though.
        there.join(&nothing.unwrap_or_default());
        return Ok((outcome, Synced { pushed: true, pulled: false, theirs: there, place }));
    }
    let place = store.place();
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
fn missing(
    mine: &mut Replica,
    url: &str,
    heads: &Heads,
    there: &VersionVector,
) -> Result<(Delta, i64)> {
    let seen = mine.seen()?;
    // A receiver needs to have only those writes that this replica has seen too.
    let mut base = VersionVector::default();
    seen.0.iter().for_each(|(&site, &hlc)| base.raise(site, hlc.min(there.get(site))));
    // What is remembered has been there since, and all else that is listed can be reached; or what
    // was sent is seen there.
    let sound = heads.resumed && there.dominates(&heads.claimed());
    let sent = mine.sent_to(url)?.filter(|sent| sound || there.dominates(&sent.seen));
    Ok(mine.export(&base, sent.map_or(0, |sent| sent.position))?)
}

/// Whether a new snapshot is due.
fn snapshot_is_due(heads: &Heads) -> bool {
    let Since { batches, bytes, snapshot } = heads.since;
    if heads.cursor.is_some() {
        // No site looks at old batches but one that is new, so none is worth more than its bytes.
        return batches > BATCHES && bytes + batches * BATCH > snapshot;
    }
    batches > BATCHES || bytes > snapshot
}

/// Puts the whole database as a snapshot.
fn put_whole(
    mine: &mut Replica,
    store: &dyn Store,
    covers: Option<Cursor>,
    session: &mut Session<'_>,
) -> Result<Sent> {
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
    let mut step = |done, total| session.progress.step("bytes", done, total);
    let (put, bytes) = put_snapshot(store, temp.path(), &header, covers, &mut step)?;
    Ok(Sent { name: header.name(), put, traffic: Traffic { rows, columns: 0, bytes }, seen })
}

/// Merges what `mine` lacks of what was found.
fn merge(
    mine: &mut Replica,
    place: Place<'_>,
    heads: &mut Heads,
    session: &mut Session<'_>,
) -> Result<Outcome> {
    let seen = mine.seen()?;
    let mut outcome = Outcome { upto: heads.cursor, ..Outcome::default() };
    // All are read and verified before any is merged.
    let deltas = loop {
        let plan = heads.plan(&seen);
        outcome.waiting = heads.waiting(&plan, &place.store.place(), mine.site())?;
        match read_all(mine, place.store, heads, &plan, session)? {
            Reading::All(deltas, traffic) => {
                outcome.received = traffic;
                break deltas;
            }
            Reading::Bad(name, why) => heads.set_aside(&name, why),
        }
    };
    // Also without any, so that a pull always folds.
    outcome.merged = mine.merge_all(deltas, session.force)?;
    Ok(outcome)
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
                let bytes = heads.whole(store, name)?;
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
