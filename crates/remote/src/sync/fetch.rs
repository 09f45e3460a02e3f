//! Reading what a plan names, and merging it.
//!
//! All objects are read and verified before the replica is locked. What they hold is merged part by part,
//! so memory does not grow with it: in one transaction if it is little or has to be, else it is taken in
//! and merged in slices, which keep nobody from writing for long.

use super::contained::Contained;
use super::heads::{Batch, Heads};
use super::plan::{Plan, Step};
use super::spool::Spool;
use super::{Outcome, Progress, Result, Session, SyncError, Traffic};
use std::io::Read;
use std::path::Path;
use synqlite_core::{Gaps, Merged, Replica};
use synqlite_objects::files::Temp;
use synqlite_objects::{Entry, ObjectName, SnapshotHeader, Store, read_snapshot};
use synqlite_wire::batch::{self, Verifier};
use synqlite_wire::{BatchError, BatchHeader, Delta, VersionVector};

/// So many bytes are read at a time.
const CHUNK: usize = if cfg!(feature = "small-parts") { 16 } else { 64 << 10 };

/// No more rows and bytes than these are merged in one transaction.
const LITTLE: u64 = if cfg!(feature = "small-parts") { 2 } else { 2_048 };
const LITTLE_BYTES: u64 = 1 << 20;

/// Merges what `mine` lacks of what was found. `None` if it learned meanwhile that a line forks: then
/// what was found means something else.
pub(super) fn merge(
    mine: &mut Replica,
    store: &dyn Store,
    heads: &mut Heads,
    session: &mut Session<'_>,
) -> Result<Option<Outcome>> {
    let merged = mine.work_off(&mut |_| {})?;
    let seen = mine.seen()?;
    let mut outcome = Outcome { upto: heads.cursor, merged, ..Outcome::default() };
    loop {
        let plan = heads.plan(&seen);
        if !(plan.whole && plan.waiting.is_empty())
            && heads.complete(store, &|vector| Ok(mine.resolve(vector)?))?
        {
            continue;
        }
        outcome.waiting = heads.waiting(&plan, &store.address(), mine.site())?;
        match try_plan(mine, store, heads, &plan, session) {
            Ok(Outcome { received, merged, .. }) => {
                outcome.merged.add(merged);
                return Ok(Some(Outcome { received, ..outcome }));
            }
            Err(Fault::Forked) => return Ok(None),
            // Perhaps there is another way.
            Err(Fault::Bad(name, why)) => heads.set_aside(&name, why),
            Err(Fault::Failed(e)) => return Err(e),
        }
    }
}

/// Why a plan did not come through.
enum Fault {
    /// This batch cannot be read.
    Bad(ObjectName, BatchError),
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
                fetch(store, &name, size, temp.path(), session)?;
                let mut copy = Replica::open_copy(temp.path(), session.env.clone())?;
                if mine.meet(&mut copy)? {
                    return Err(Fault::Forked);
                }
                Source::Snapshot { copy: Box::new(copy), _file: temp }
            }
        });
        session.progress.step("batches", done, plan.steps.len() as u64);
    }
    let lacking = sources.iter().filter_map(|source| match source {
        Source::Snapshot { copy, .. } => Some(copy.gaps()),
        Source::Batch { .. } => None,
    });
    let lacking = lacking.collect::<Result<Vec<_>, _>>()?;
    let mut found = Found { heads, plan, spool, sources };
    let merged = match session.whole || found.is_little() {
        true => found.merge_whole(mine, &lacking, &mut received, session.force)?,
        false => found.merge_in_slices(mine, &lacking, &mut received, session)?,
    };
    Ok(Outcome { received, merged, ..Outcome::default() })
}

/// What a plan led to, read and verified.
struct Found<'a> {
    heads: &'a Heads,
    plan: &'a Plan,
    /// The bytes of batches.
    spool: Spool,
    sources: Vec<Source>,
}

impl Found<'_> {
    /// Whether all of it is merged soon.
    fn is_little(&self) -> bool {
        let size = |source: &Source| match source {
            Source::Batch { header, .. } => Some((header.rows(), header.size)),
            // Nobody has counted what of it is news.
            Source::Snapshot { .. } => None,
        };
        let sizes: Option<Vec<_>> = self.sources.iter().map(size).collect();
        sizes.is_some_and(|sizes| {
            let (rows, bytes) = sizes.into_iter().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            rows <= LITTLE && bytes <= LITTLE_BYTES
        })
    }

    /// Merges all of it in one transaction.
    fn merge_whole(
        &mut self,
        mine: &mut Replica,
        lacking: &[Gaps],
        received: &mut Traffic,
        force: bool,
    ) -> Result<Merged, Fault> {
        let Found { heads, plan, spool, sources } = self;
        let mut contained = heads.contained(&plan.start);
        // Also without any, so that a pull always folds.
        mine.merge_from(force, lacking, |sink| {
            let mut sink = |part: Delta| {
                received.add(Traffic::of(&part, 0));
                sink(part)
            };
            for source in sources {
                match source {
                    Source::Snapshot { copy, .. } => {
                        copy.export_parts(&plan.start, 0, &mut sink)?;
                    }
                    Source::Batch { name, header, at, prefix, upto } => {
                        let seen = seen_by(header, &mut contained, *prefix);
                        for i in 0..header.bodies.len() {
                            let (_, part) = body(spool, *name, header, *at, i)?;
                            sink(Delta { upto: seen.clone(), ..part })?;
                        }
                        contained.reach(upto);
                    }
                }
            }
            Ok(())
        })
    }

    /// Takes all of it in, then merges it slice by slice.
    fn merge_in_slices(
        &mut self,
        mine: &mut Replica,
        lacking: &[Gaps],
        received: &mut Traffic,
        session: &mut Session<'_>,
    ) -> Result<Merged, Fault> {
        let Found { heads, plan, spool, sources } = self;
        let mut contained = heads.contained(&plan.start);
        let (database, mut rows) = (mine.database(), 0);
        let mut coming = mine.spool()?;
        let mut count = |part: &Delta| {
            let traffic = Traffic::of(part, 0);
            rows += traffic.rows;
            received.add(traffic);
        };
        for source in sources {
            match source {
                Source::Snapshot { copy, .. } => {
                    copy.export_parts(&plan.start, 0, &mut |part| {
                        count(&part);
                        coming.part(part)
                    })?;
                    coming.end_parts(database, copy.site(), false)?;
                }
                Source::Batch { name, header, at, prefix, upto } => {
                    for (i, size) in header.bodies.iter().enumerate() {
                        let (packed, part) = body(spool, *name, header, *at, i)?;
                        count(&part);
                        coming.body(*size, &packed)?;
                    }
                    let head = spool.read(*at..*at + header.start)?;
                    coming.delta(head, seen_by(header, &mut contained, *prefix), false)?;
                    contained.reach(upto);
                }
            }
        }
        let spooled = coming.end();
        mine.take_in(&spooled, session.force, lacking)?;
        let progress = &mut *session.progress;
        let mut left = |left| progress.step("rows", rows.saturating_sub(left), rows);
        Ok(mine.work_off(&mut left)?)
    }
}

/// What the writer of a batch had seen, which tells conflicts from updates, and what it leads to.
fn seen_by(
    header: &BatchHeader,
    contained: &mut Contained<'_>,
    prefix: Option<usize>,
) -> VersionVector {
    let mut upto = header.upto.clone();
    if let Some(prefix) = prefix {
        upto.join(&contained.at(prefix));
        upto.join(&header.base);
    }
    upto
}

/// The `i`th body of the batch that begins at `at`, as it is and decoded.
fn body(
    spool: &mut Spool,
    name: ObjectName,
    header: &BatchHeader,
    at: u64,
    i: usize,
) -> Result<(Vec<u8>, Delta), Fault> {
    let range = header.ranges().nth(i).unwrap_or_default();
    let packed = spool.read(at + range.start..at + range.end)?;
    let part = batch::decode_body(header, i, &packed).map_err(|why| Fault::Bad(name, why))?;
    Ok((packed, part))
}

/// Appends all bytes of a batch to `spool`: those that came along with its name, and the rest.
fn read_batch(batch: &Batch, store: &dyn Store, spool: &mut Spool) -> Result<(), Fault> {
    let Batch { name, header, prefix, .. } = batch;
    let (at, bad) = (spool.len(), |why| Fault::Bad(*name, why));
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
