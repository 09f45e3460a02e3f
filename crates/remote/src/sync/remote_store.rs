//! A remote store: chains of batches, and snapshots for those who start.
//!
//! By induction every batch contains all changes between its `base` and its `upto`: its writer
//! had seen both and sent the difference. So what a store contains is what can be reached in it
//! from nothing, over snapshots and batches whose base is reached. A batch that went missing is
//! thereby noticed by writers too, and the next of them that has its changes sends them again.
//!
//! A store that numbers its objects is looked at once in a synchronization, and only at what came
//! since the last one ([`Memory`]). One that does not is listed whenever it is asked.

use super::changes::{Changes, missing};
use super::contained::Rise;
use super::fetch::{merge, read_through};
use super::heads::{Flaw, Heads, Known, Resolve};
use super::memory::{Memory, Since};
use super::{Outcome, Result, Session, SyncError, Traffic};
use std::cell::RefCell;
use std::collections::BTreeSet;
use synqlite_core::{Phase, Replica, Step, Synced};
use synqlite_objects::files::{Temp, folder_of, remove_leftovers};
use synqlite_objects::{Ask, Cursor, Kind, ObjectName, Put, REACH, Store, Trail};
use synqlite_objects::{SnapshotHead, SnapshotHeader, put_snapshot};
use synqlite_wire::VersionVector;

/// A new snapshot is due when more batches than these came after the last one, or more bytes than
/// it has.
const BATCHES: u64 = if cfg!(feature = "small-parts") { 2 } else { 64 };
/// Where batches come with the list, one more costs a reader as much as so many bytes.
const BATCH: u64 = 1 << 10;
/// So much of each object comes along with the list, where that costs nothing.
const PREFIX: u64 = 64 << 10;
/// Enough for most headers.
const HEAD: u64 = 512;
/// A line that forks is told of by somebody, and so often at most: who forges lines keeps nobody here.
const LOOKS: u32 = 8;
/// A program that synchronizes folders may put the same object in between so often.
const ATTEMPTS: u32 = 4;
/// Other processes of this site may be faster so often.
const RACES: u32 = 100;

/// A store, and the name under which the replica remembers it.
#[derive(Clone, Copy)]
pub struct RemoteStore<'a> {
    /// The store.
    pub store: &'a dyn Store,
    /// Its URL.
    pub url: &'a str,
}

/// Puts what the store lacks.
pub fn push(
    mine: &mut Replica,
    remote: RemoteStore<'_>,
    session: &Session,
) -> Result<(Outcome, Synced)> {
    remove_leftovers(folder_of(mine.path()));
    send(mine, remote, None, session)
}

/// Merges what `mine` lacks and the store holds.
pub fn pull(
    mine: &mut Replica,
    remote: RemoteStore<'_>,
    session: &Session,
) -> Result<(Outcome, Synced)> {
    let (mut heads, outcome) = fetch(mine, remote, session)?;
    if heads.is_empty() {
        return Err(synqlite_objects::Error::NoDatabase { address: remote.store.address() }.into());
    }
    let (there, whole) = contained(mine, &mut heads, remote.store)?;
    let mut memory = remember(mine, remote.store, &heads, (&there, whole))?;
    if let Some(memory) = memory.as_mut().filter(|_| !heads.resumed) {
        // A store that was restored, or lost something, may lack what was sent to it once.
        let there = mine.sent_to(remote.url)?.is_none_or(|sent| there.dominates(&sent.seen));
        memory.sent = if there { 0 } else { Memory::MORE };
    }
    let theirs = heads.claimed();
    let memory = note(memory, &mut heads);
    Ok((outcome, Synced { pulled: true, theirs, memory, ..Synced::default() }))
}

/// A pull, then a push. A store to which nobody has pushed yet is no failure.
pub fn sync(
    mine: &mut Replica,
    remote: RemoteStore<'_>,
    session: &Session,
) -> Result<(Outcome, Synced)> {
    let (heads, mut outcome) = fetch(mine, remote, session)?;
    // Without an order, what a pull need not look at is more than what a push need not.
    let heads = Some(heads).filter(|heads| heads.cursor.is_some());
    let (pushed, synced) = match send(mine, remote, heads, session) {
        Ok(sent) => sent,
        Err(e) => return Err(e.unsent(outcome)),
    };
    let (waiting, aside) = (outcome.waiting.clone(), outcome.aside.clone());
    outcome.add(Outcome { waiting, aside, ..pushed });
    Ok((outcome, Synced { pulled: true, ..synced }))
}

/// Looks at the store, and merges what `mine` lacks, unless the store is empty.
fn fetch(
    mine: &mut Replica,
    remote: RemoteStore<'_>,
    session: &Session,
) -> Result<(Heads, Outcome)> {
    remove_leftovers(folder_of(mine.path()));
    for left in (0..LOOKS).rev() {
        let mut heads = look(mine, remote, true, session)?;
        if heads.is_empty() {
            return Ok((heads, Outcome::default()));
        }
        if left == 0 {
            // Batches are taken under the lines that are known now.
            heads.pass_over_snapshots();
        }
        if let Some(outcome) = merge(mine, remote.store, &mut heads, session)? {
            return Ok((heads, outcome));
        }
    }
    Ok(Default::default())
}

/// Looks at the store: at what is new there, or at all of it, to `pull` or only to push. If it tells
/// that a line forks it is looked at again: what it says means something else then.
fn look(
    mine: &mut Replica,
    remote: RemoteStore<'_>,
    pull: bool,
    session: &Session,
) -> Result<Heads> {
    for left in (0..LOOKS).rev() {
        let (own, site) = (RefCell::new(BTreeSet::new()), mine.site());
        let mut heads = {
            let (mine, site) = (&*mine, mine.site());
            let resolve = |vector: &VersionVector| {
                own.borrow_mut().insert(vector.get(site));
                Ok(mine.resolve(vector)?)
            };
            look_once(mine, remote, pull, session, &resolve)?
        };
        // What was copied over the file may have made it another site.
        let mut forked = learn(mine, &mut heads)? || mine.site() != site;
        let (position, end) = (mine.local_seq()?, heads.end_of(mine.site()));
        for clock in own.take() {
            forked = forked || mine.check_claim(clock)?;
        }
        // It has put something there that it cannot have known.
        if !forked && end > u64::try_from(position).unwrap_or(0) {
            mine.begin_anew()?;
            forked = true;
        }
        if !forked || left == 0 {
            return Ok(heads);
        }
    }
    Ok(Heads::default())
}

/// Learns the lines of which batches tell. One whose lines cannot be is set aside.
fn learn(mine: &mut Replica, heads: &mut Heads) -> Result<bool> {
    match mine.learn(heads.lines()) {
        Err(e) if e.is_of_changes() => {}
        learned => return Ok(learned?),
    }
    let (mut forked, mut bad) = (false, Vec::new());
    for batch in &heads.batches {
        match mine.learn(&batch.header.lines) {
            Ok(news) => forked |= news,
            Err(e) if e.is_of_changes() => bad.push((batch.name, Flaw::refused(&e))),
            Err(e) => return Err(e.into()),
        }
    }
    bad.into_iter().for_each(|(name, why)| heads.set_aside(&name, why));
    Ok(forked)
}

fn look_once(
    mine: &Replica,
    RemoteStore { store, url }: RemoteStore<'_>,
    pull: bool,
    session: &Session,
    resolve: Resolve<'_>,
) -> Result<Heads> {
    let (site, now, seen) = (mine.site(), session.env.now_ms(), mine.seen()?);
    let known = if pull { Known::Seen(&seen) } else { Known::Snapshots };
    let kept = mine.memory_of(url)?;
    let memory = kept.as_deref().and_then(|bytes| Memory::decode(bytes, site, store.key_id(), now));
    let after = memory.as_ref().map(|memory| memory.cursor);
    // What is looked at again is mostly known: headers tell.
    let looked = kept.is_some_and(|bytes| !bytes.is_empty());
    let again = looked && after.is_none();
    // So much of new objects comes along with the list.
    let prefix = if pull && !again { PREFIX } else { HEAD };
    let (database, name) = (mine.database(), mine.name()?);
    let ask = Ask { database, after, prefix, site: Some(site), name: &name };
    session.env.begin(Phase::List);
    let changes = store.changes(ask)?;
    let heads = Heads::read(store, changes, memory, known, now, resolve)?;
    if !heads.torn {
        return Ok(heads);
    }
    let changes = store.changes(Ask { after: None, prefix: HEAD, ..ask })?;
    Heads::read(store, changes, None, Known::Snapshots, now, resolve)
}

/// What to remember of a store that contains `there`; nothing new while something in it is missing
/// here, cannot be read, or cannot be reached. `whole`: all of the row was reached.
fn remember(
    mine: &Replica,
    store: &dyn Store,
    heads: &Heads,
    (there, whole): (&VersionVector, bool),
) -> Result<Option<Memory>> {
    let claimed = heads.claimed();
    let whole = whole
        && heads.is_sound(there)
        && mine.seen()?.dominates(&claimed)
        && there.dominates(&claimed);
    let Some(cursor) = heads.cursor.filter(|_| whole) else { return Ok(None) };
    let (site, end) = (mine.site(), heads.end_of(mine.site()));
    let Some(row) = &heads.row else { return Ok(None) };
    let before = row.before_end();
    let kept = heads.rises().into_iter().filter(|rise| rise.index > before);
    let rises = kept.map(|rise| Rise { index: rise.index - before, ..rise }).collect();
    let (looked, since, contains) = (heads.looked, heads.since, there.clone());
    Ok(Some(Memory {
        site,
        key: store.key_id(),
        cursor,
        print: heads.print,
        looked,
        end,
        sent: heads.lost,
        since,
        trail: row.end(),
        contains,
        rises,
    }))
}

/// What is noted of a store: the `memory` of this look, or that it saw more than the last note says.
fn note(memory: Option<Memory>, heads: &mut Heads) -> Option<Vec<u8>> {
    let more = |memory| Memory { sent: Memory::MORE, ..memory };
    let note = memory.or(heads.memory.take().map(more)).map(|memory| memory.encode());
    // Without either, all of it is looked at the next time.
    heads.cursor.map(|_| note.unwrap_or_default())
}

/// Puts what the store lacks, as far as `heads` tell, or a look that is still to come.
fn send(
    mine: &mut Replica,
    remote: RemoteStore<'_>,
    mut looked: Option<Heads>,
    session: &Session,
) -> Result<(Outcome, Synced)> {
    let RemoteStore { store, url } = remote;
    let mut outcome = Outcome::default();
    let mut refused: Option<(ObjectName, u32)> = None;
    let mut races = 0;
    loop {
        let mut heads = match looked.take() {
            Some(heads) => heads,
            None => look(mine, remote, false, session)?,
        };
        let (database, site) = (mine.database(), mine.site());
        mine.fold()?;
        outcome.upto = heads.cursor;
        look_into_one(mine, store, &mut heads, session.env.now_ms())?;
        let (mut there, whole) = contained(mine, &mut heads, store)?;
        // A snapshot stands for all that it contains, so nothing may be there that nobody has read.
        let read = heads.is_sound(&there) && mine.seen()?.dominates(&heads.claimed());
        // What it covers may go. Then the row goes on from the prefix hashes in it, so they must lead to there.
        let covers = heads.cursor.filter(|_| whole && read);
        let point = Point::of(&heads, &there, whole && read);
        // What is put now comes after the cursor, and is found there the next time.
        let mut memory = remember(mine, store, &heads, (&there, whole))?;
        let mut nothing = None;
        let put = if heads.since.snapshot == 0 {
            Some(put_whole(mine, store, covers, &point, session)?)
        } else {
            let changes = missing(mine, url, &heads, &there, session.env.as_ref())?;
            let (from, upto) = (heads.end_of(site), changes.position);
            if changes.empty {
                nothing = Some(changes.upto);
                None
            } else if upto > from {
                let name = ObjectName::batch(database, site, from, upto);
                Some(put_batch(store, name, changes, point.as_ref(), session)?)
            } else {
                // An object of ours went missing, or is of a time that this file was restored from.
                // A snapshot fills every gap, under a name that no object has had.
                mine.pass(from)?;
                Some(put_whole(mine, store, covers, &point, session)?)
            }
        };
        let sent = put.is_some();
        if let Some(put) = put {
            if put.put == Put::AlreadyThere {
                // Another process of this site was faster, most likely with the same. An object that is in the way
                // again and again is one that nobody can read.
                let times = refused.filter(|(name, _)| *name == put.name).map_or(1, |(_, n)| n + 1);
                races += 1;
                if times == ATTEMPTS || races == RACES {
                    let (address, name) = (store.address(), store.kept_as(&put.name).to_string());
                    return Err(SyncError::Blocked { address, name });
                }
                refused = Some((put.name, times));
                continue;
            }
            mine.tell()?;
            outcome.sent.add(put.traffic);
            there.join(&put.seen);
            heads.put(&put.name, put.traffic.bytes);
            if put.name.kind == Kind::Batch && snapshot_is_due(&heads) {
                let whole = Whole::of(mine, session)?;
                // What was written meanwhile goes as a batch too, so that a snapshot brings no news to
                // whoever has the batches.
                let changes = missing(mine, url, &heads, &there, session.env.as_ref())?;
                let (from, upto) = (heads.end_of(site), changes.position);
                if !changes.empty && upto > from {
                    let name = ObjectName::batch(database, site, from, upto);
                    let put = put_batch(store, name, changes, point.as_ref(), session)?;
                    outcome.sent.add(put.traffic);
                    there.join(&put.seen);
                    heads.put(&put.name, put.traffic.bytes);
                }
                let whole = whole.put(mine, store, covers, &point, session)?;
                heads.put(&whole.name, whole.traffic.bytes);
                mine.tell()?;
            }
        }
        if let Some(memory) = &mut memory {
            memory.sent = if sent || refused.is_some() { heads.end_of(site) } else { 0 };
        }
        let memory = note(memory, &mut heads);
        // What was superseded before it was sent is there in effect. Nobody can build on it, though.
        there.join(&nothing.unwrap_or_default());
        let synced = Synced { pushed: true, pulled: false, theirs: there, memory };
        return Ok((outcome, synced));
    }
}

/// An object that was put.
struct Sent {
    name: ObjectName,
    put: Put,
    traffic: Traffic,
    /// What it brings those who have its base.
    seen: VersionVector,
}

fn put_batch(
    store: &dyn Store,
    name: ObjectName,
    mut changes: Changes,
    point: Option<&Point>,
    session: &Session,
) -> Result<Sent> {
    if let Some(Point { contains, .. }) = point {
        let Changes { base, upto, .. } = &mut changes;
        upto.0.retain(|site, clock| *clock > base.get(*site));
        base.0.retain(|site, clock| *clock > contains.get(*site) || *site == name.site);
    }
    let mut step = sending(session);
    let after = point.map(|point| point.trail.last());
    let (put, bytes) = changes.put(store, &name, after, &mut step)?;
    let Changes { upto: seen, traffic, .. } = changes;
    Ok(Sent { name, put, traffic: Traffic { bytes, ..traffic }, seen })
}

/// Tells how much of an object has been put.
fn sending(session: &Session) -> impl FnMut(u64, u64) {
    let tell =
        |done, total| session.env.step(Step { phase: Phase::Send, done, total: Some(total) });
    move |done, total| tell(done, total)
}

/// A point in the row of a store up to which this replica has everything: what is sent can say in
/// one prefix hash that it builds on all of it, instead of in a vector of all sites.
struct Point {
    /// The prefix hashes up to there.
    trail: Trail,
    /// What can be reached there from nothing.
    contains: VersionVector,
}

impl Point {
    /// The end of the row, if all of it is `here` and can be reached, which is `there`; otherwise
    /// what was remembered, unless it lies so far back that readers may have forgotten its prefix hash.
    fn of(heads: &Heads, there: &VersionVector, here: bool) -> Option<Point> {
        let row = heads.row.as_ref()?;
        if here {
            return Some(Point { trail: row.end(), contains: there.clone() });
        }
        let near = heads.resumed && heads.listed <= REACH / 2;
        near.then(|| Point { trail: row.beginning(), contains: heads.base.clone() })
    }
}

/// What can be reached in a store from nothing, and whether that is all of its row.
fn contained(
    mine: &Replica,
    heads: &mut Heads,
    store: &dyn Store,
) -> Result<(VersionVector, bool)> {
    let mut plan = heads.plan(&heads.base);
    if !plan.whole && heads.complete(store, &|vector| Ok(mine.resolve(vector)?))? {
        plan = heads.plan(&heads.base);
    }
    Ok((plan.reached, plan.whole))
}

/// Reads one of the batches whose content this replica holds, another one each time. If its bytes are wrong
/// it is set aside, and what it held is missing, so it is put anew: no reader can say to those who hold it
/// that it is damaged, and headers do not tell. Where only news was looked at, that costs no request: a store
/// that numbers its objects is looked at as a whole once a day.
fn look_into_one(mine: &Replica, store: &dyn Store, heads: &mut Heads, now: i64) -> Result<()> {
    if heads.resumed {
        return Ok(());
    }
    let seen = mine.seen()?;
    let held = heads.batches.iter().filter(|batch| seen.dominates(&batch.upto));
    let held: Vec<_> = held.collect();
    let nth = usize::try_from(now.unsigned_abs()).unwrap_or(0).checked_rem(held.len());
    let Some(batch) = nth.and_then(|nth| held.get(nth)) else { return Ok(()) };
    let name = batch.name;
    if let Some(why) = read_through(batch, store)? {
        heads.set_aside(&name, why);
    }
    Ok(())
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
    point: &Option<Point>,
    session: &Session,
) -> Result<Sent> {
    Whole::of(mine, session)?.put(mine, store, covers, point, session)
}

/// A copy of the whole database.
struct Whole {
    file: Temp,
    seen: VersionVector,
    position: i64,
    rows: u64,
}

impl Whole {
    /// Folds, and copies.
    fn of(mine: &mut Replica, session: &Session) -> Result<Whole> {
        let file = Temp::beside(mine.path())?;
        mine.copy_to(file.path())?;
        let mut copy = Replica::open_copy(file.path(), session.env.clone())?;
        copy.forget_remotes()?;
        let (seen, position) = (copy.seen()?, copy.local_seq()?);
        let rows = u64::try_from(copy.count_rows()?).unwrap_or(0);
        Ok(Whole { file, seen, position, rows })
    }

    /// Puts it as a snapshot.
    fn put(
        self,
        mine: &Replica,
        store: &dyn Store,
        covers: Option<Cursor>,
        point: &Option<Point>,
        session: &Session,
    ) -> Result<Sent> {
        let Whole { file, seen, position, rows } = self;
        let path = file.path();
        let length = std::fs::metadata(path).map_err(synqlite_objects::Error::io("read", path))?;
        // The store contains all of it up to the point, so whoever follows need hear only of the rest.
        let mut beyond = VersionVector::default();
        if let Some(Point { contains, .. }) = point {
            seen.0
                .iter()
                .filter(|(site, clock)| **clock > contains.get(**site))
                .for_each(|(site, clock)| beyond.raise(*site, *clock));
        }
        let head = SnapshotHead {
            database: mine.database(),
            site: mine.site(),
            upto: u64::try_from(position).unwrap_or(0),
            length: length.len(),
            after: point.as_ref().map(|point| point.trail.last()),
            beyond,
        };
        let trail = point.as_ref().map(|point| point.trail.clone());
        let header = SnapshotHeader { head, vector: seen.clone(), trail };
        let mut step = sending(session);
        let (put, bytes) = put_snapshot(store, path, &header, covers, &mut step)?;
        Ok(Sent { name: header.name(), put, traffic: Traffic { rows, columns: 0, bytes }, seen })
    }
}
