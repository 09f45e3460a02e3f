//! Reading what a plan names, and merging it.
//!
//! All objects are read and verified before the replica is locked. What they hold is merged in one
//! transaction, part by part, so memory does not grow with it.

use super::heads::{Batch, Flaw, Heads};
use super::plan::{Plan, Step};
use super::spool::Spool;
use super::{Outcome, Progress, Result, Session, SyncError, Traffic};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use synqlite_core::{Environment, Replica};
use synqlite_objects::files::Temp;
use synqlite_objects::{Entry, ObjectName, SnapshotHeader, Store, read_snapshot};
use synqlite_wire::batch::{self, Verifier};
use synqlite_wire::{BatchError, BatchHeader, Delta, VersionVector};

/// So many bytes are read at a time.
const CHUNK: usize = if cfg!(feature = "small-parts") { 16 } else { 64 << 10 };

/// Merges what `mine` lacks of what was found. `None` if it learned meanwhile that a line forks: then
/// what was found means something else.
pub(super) fn merge(
    mine: &mut Replica,
    store: &dyn Store,
    heads: &mut Heads,
    session: &mut Session<'_>,
) -> Result<Option<Outcome>> {
    let seen = mine.seen()?;
    let mut outcome = Outcome { upto: heads.cursor, ..Outcome::default() };
    loop {
        let plan = heads.plan(&seen);
        if !(plan.whole && plan.waiting.is_empty())
            && heads.complete(store, &|vector| Ok(mine.resolve(vector)?))?
        {
            continue;
        }
        (outcome.waiting, outcome.aside) = heads.waiting(&plan, mine.site());
        match try_plan(mine, store, heads, &plan, session) {
            Ok(Outcome { received, merged, .. }) => {
                return Ok(Some(Outcome { received, merged, ..outcome }));
            }
            Err(Fault::Forked) => return Ok(None),
            // Perhaps there is another way.
            Err(Fault::Bad(name, why)) => heads.set_aside(&name, why),
            Err(Fault::Snapshot(i, why)) => heads.set_snapshot_aside(i, why),
            Err(Fault::Failed(e)) => return Err(e),
        }
    }
}

/// Why a plan did not come through.
enum Fault {
    /// This batch cannot be read, or not be merged.
    Bad(ObjectName, Flaw),
    /// This snapshot.
    Snapshot(usize, Flaw),
    /// A line forks that was not known to.
    Forked,
    Failed(SyncError),
}

impl<E: Into<SyncError>> From<E> for Fault {
    fn from(e: E) -> Fault {
        Fault::Failed(e.into())
    }
}

/// An object that was read.
enum Source {
    Batch {
        name: ObjectName,
        header: Box<BatchHeader>,
        /// Where its bytes begin.
        at: u64,
        /// Up to where in the row its prefix hash stands for objects, all of which its writer had seen.
        prefix: Option<usize>,
        /// What it leads to, under the site ids of this replica.
        upto: VersionVector,
    },
    Snapshot {
        i: usize,
        copy: Box<Replica>,
        /// Goes with it.
        _file: Temp,
    },
}

fn try_plan(
    mine: &mut Replica,
    store: &dyn Store,
    heads: &Heads,
    plan: &Plan,
    session: &mut Session<'_>,
) -> Result<Outcome, Fault> {
    let (mut spool, mut sources) = (Spool::beside(mine.path()), Vec::new());
    let mut received = Traffic::default();
    for (step, done) in plan.steps.iter().zip(1..) {
        sources.push(match *step {
            Step::Batch(i) => {
                let Some(batch) = heads.batches.get(i) else { continue };
                let at = spool.len();
                read_batch(batch, store, &mut spool)?;
                let header = Box::new(batch.header.clone());
                received.bytes += header.size;
                let prefix = heads.index(header.after);
                let upto = batch.upto.clone();
                Source::Batch { name: batch.name, header, at, prefix, upto }
            }
            Step::Snapshot(i) => {
                let Some(snapshot) = heads.snapshots.get(i) else { continue };
                let Entry { name, size } = snapshot.entry;
                received.bytes += size;
                let temp = Temp::beside(mine.path())?;
                fetch(store, &name, size, temp.path(), session)
                    .map_err(|e| of_snapshot(i, e.into()))?;
                let env = session.env.clone();
                let mut copy =
                    open_snapshot(temp.path(), &name, env).map_err(|e| of_snapshot(i, e))?;
                if mine.meet(&mut copy).map_err(|e| of_snapshot(i, e.into()))? {
                    return Err(Fault::Forked);
                }
                Source::Snapshot { i, copy: Box::new(copy), _file: temp }
            }
        });
        session.progress.step("batches", done, plan.steps.len() as u64);
    }
    let mut contained = heads.contained(&plan.start);
    // Also without any, so that a pull always folds.
    let lacking = sources.iter().filter_map(|source| match source {
        Source::Snapshot { copy, .. } => Some(copy.gaps()),
        Source::Batch { .. } => None,
    });
    let lacking = lacking.collect::<Result<Vec<_>, _>>()?;
    let merged = mine.merge_from(session.force, &lacking, |sink| {
        let mut sink = |part: Delta| {
            received.add(Traffic::of(&part, 0));
            sink(part)
        };
        for source in &mut sources {
            match source {
                Source::Snapshot { i, copy, .. } => {
                    let of = |e: SyncError| of_snapshot(*i, e);
                    copy.export_parts(&plan.start, 0, &mut sink).map_err(|e| of(e.into()))?;
                    sink(Delta::default()).map_err(|e| of(e.into()))?;
                }
                Source::Batch { name, header, at, prefix, upto } => {
                    let bad = |why| Fault::Bad(*name, Flaw::of(why));
                    let refused = |e: synqlite_core::Error| match e.is_of_changes() {
                        true => Fault::Bad(*name, Flaw::refused(&e)),
                        false => Fault::from(e),
                    };
                    // What its writer had seen tells conflicts from updates.
                    let seen = prefix.map(|prefix| contained.at(prefix));
                    for (i, range) in header.ranges().enumerate() {
                        let packed = spool.read(*at + range.start..*at + range.end)?;
                        let mut part = batch::decode_body(header, i, &packed).map_err(bad)?;
                        if let Some(seen) = &seen {
                            part.upto.join(seen);
                            part.upto.join(&part.base);
                        }
                        sink(part).map_err(refused)?;
                    }
                    // Nothing follows that belongs to it, so all of it is merged now, or is at fault.
                    sink(Delta::default()).map_err(refused)?;
                    contained.reach(upto);
                }
            }
        }
        Ok::<_, Fault>(())
    })?;
    Ok(Outcome { received, merged, ..Outcome::default() })
}

/// The replica in a snapshot that was fetched. It must be one of the same database, and readable.
pub(super) fn open_snapshot(
    path: &Path,
    name: &ObjectName,
    env: Arc<dyn Environment>,
) -> Result<Replica> {
    let copy = Replica::open_copy(path, env)?;
    if copy.database() != name.database {
        let (ours, theirs) = (name.database, copy.database());
        return Err(synqlite_core::Error::Unrelated { ours, theirs }.into());
    }
    copy.seen()?;
    Ok(copy)
}

/// A snapshot is at fault, unless the way to it is.
fn of_snapshot(i: usize, e: SyncError) -> Fault {
    use synqlite_core::Error as Core;
    use synqlite_objects::Error as Stored;
    let flawed = match &e {
        SyncError::Store(e) => {
            matches!(
                e,
                Stored::BadSnapshot { .. } | Stored::NewerSnapshot { .. } | Stored::NotFound { .. }
            )
        }
        SyncError::Engine(e) => {
            e.is_of_changes()
                || matches!(
                    e,
                    Core::NotADatabase(_)
                        | Core::Malformed { .. }
                        | Core::NotAReplica(_)
                        | Core::Torn { .. }
                        | Core::NewerFormat { .. }
                        | Core::OlderFormat { .. }
                        | Core::Unrelated { .. }
                        | Core::Damaged(_)
                )
        }
        _ => false,
    };
    if flawed { Fault::Snapshot(i, Flaw::snapshot(&e)) } else { Fault::Failed(e) }
}

/// What is wrong with the bytes of a batch, if anything is.
pub(super) fn read_through(batch: &Batch, store: &dyn Store) -> Result<Option<BatchError>> {
    let source = match store.open(&batch.name) {
        Ok(source) => source,
        // It went meanwhile, which the next look tells.
        Err(synqlite_objects::Error::NotFound { .. }) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let (mut source, mut bytes) = (source.take(batch.header.size + 1), vec![0; CHUNK]);
    let mut verifier = Verifier::new(&batch.header);
    loop {
        let n = source
            .read(&mut bytes)
            .map_err(|source| synqlite_objects::Error::Read { name: batch.name, source })?;
        match bytes.get(..n) {
            Some(read) if n > 0 => verifier.pass(read),
            _ => return Ok(verifier.end().err()),
        }
    }
}

/// Appends all bytes of a batch to `spool`: those that came along with its name, and the rest.
fn read_batch(batch: &Batch, store: &dyn Store, spool: &mut Spool) -> Result<(), Fault> {
    let Batch { name, header, prefix, .. } = batch;
    let (at, bad) = (spool.len(), |why| Fault::Bad(*name, Flaw::of(why)));
    let mut verifier = Verifier::new(header);
    verifier.pass(prefix);
    spool.append(prefix)?;
    // One byte more than there should be is as bad as many.
    let left = (header.size + 1).saturating_sub(prefix.len() as u64);
    if prefix.is_empty() || left > 1 {
        let source = match prefix.len() as u64 {
            0 => store.open(name)?,
            from => store.open_from(name, from)?,
        };
        let (mut source, mut bytes) = (source.take(left), vec![0; CHUNK.min(left as usize)]);
        loop {
            let n = source
                .read(&mut bytes)
                .map_err(|source| synqlite_objects::Error::Read { name: *name, source })?;
            if n == 0 {
                break;
            }
            verifier.pass(&bytes[..n]);
            spool.append(&bytes[..n])?;
        }
    }
    verifier.end().map_err(bad)?;
    // The store may give other bytes now than those by which the batch was chosen.
    let head = spool.read(at..at + header.start)?;
    match batch::decode_header(&head) {
        Ok(there) if there == *header => Ok(()),
        Ok(_) => Err(bad(BatchError::Damaged("header"))),
        Err(why) => Err(bad(why)),
    }
}

/// Restores the snapshot `name`, of `size` bytes, to the file `to`.
pub(super) fn fetch(
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
