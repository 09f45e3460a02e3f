//! Reading what a plan names, and merging it.
//!
//! All objects are read and verified before the replica is locked. What they hold is merged part by part,
//! so memory does not grow with it: in one transaction if it is little or has to be, else it is taken in
//! and merged in slices, which keep nobody from writing for long.

use super::contained::Contained;
use super::heads::{Batch, Flaw, Heads};
use super::plan::{self, Plan};
use super::spool::Spool;
use super::{Outcome, Result, Session, SyncError, Traffic};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use synqlite_core::{Environment, Merging, Phase, Replica, Step};
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
    session: &Session,
) -> Result<Option<Outcome>> {
    let merged = mine.work_off()?;
    let mut outcome = Outcome { upto: heads.cursor, merged, ..Outcome::default() };
    loop {
        let plan = heads.plan(&mine.seen()?);
        if !(plan.whole && plan.waiting.is_empty())
            && heads.complete(store, &|vector| Ok(mine.resolve(vector)?))?
        {
            continue;
        }
        (outcome.waiting, outcome.aside) = heads.waiting(&plan, mine.site(), store);
        match try_plan(mine, store, heads, &plan, session, &mut outcome) {
            Ok(()) => return Ok(Some(outcome)),
            Err(Fault::Forked) => return Ok(None),
            // Perhaps there is another way.
            Err(Fault::Bad(name, why)) => heads.set_aside(&name, *why),
            Err(Fault::Snapshot(i, why)) => heads.set_snapshot_aside(i, *why),
            Err(Fault::Failed(e)) => return Err(e),
        }
    }
}

/// How many bytes a plan has fetched.
fn size_of(heads: &Heads, plan: &Plan) -> u64 {
    let size = |step: &plan::Step| match *step {
        plan::Step::Batch(i) => heads.batches.get(i).map(|batch| batch.header.size),
        plan::Step::Snapshot(i) => heads.snapshots.get(i).map(|snapshot| snapshot.entry.size),
    };
    plan.steps.iter().filter_map(size).sum()
}

/// Why a plan did not come through.
enum Fault {
    /// This batch cannot be read, or not be merged.
    Bad(ObjectName, Box<Flaw>),
    /// This snapshot.
    Snapshot(usize, Box<Flaw>),
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
        /// What is known when its turn comes.
        since: VersionVector,
        /// Goes with it.
        _file: Temp,
    },
}

fn try_plan(
    mine: &mut Replica,
    store: &dyn Store,
    heads: &Heads,
    plan: &Plan,
    session: &Session,
    outcome: &mut Outcome,
) -> Result<(), Fault> {
    let (mut spool, mut sources) = (Spool::beside(mine.path()), Vec::new());
    let mut fetched = Fetched::new(session, size_of(heads, plan));
    let mut reached = plan.start.clone();
    for step in &plan.steps {
        sources.push(match *step {
            plan::Step::Batch(i) => {
                let Some(batch) = heads.batches.get(i) else { continue };
                let at = spool.len();
                read_batch(batch, store, &mut spool, &mut fetched)?;
                let header = Box::new(batch.header.clone());
                outcome.received.bytes += header.size;
                let prefix = heads.index(header.after);
                let upto = batch.upto.clone();
                reached.join(&upto);
                Source::Batch { name: batch.name, header, at, prefix, upto }
            }
            plan::Step::Snapshot(i) => {
                let Some(snapshot) = heads.snapshots.get(i) else { continue };
                let Entry { name, size } = snapshot.entry;
                outcome.received.bytes += size;
                let temp = Temp::beside(mine.path())?;
                fetch(store, &name, temp.path(), &mut fetched)
                    .map_err(|e| of_snapshot(i, e.into()))?;
                let env = session.env.clone();
                let mut copy =
                    open_snapshot(temp.path(), &name, env).map_err(|e| of_snapshot(i, e))?;
                if mine.meet(&mut copy).map_err(|e| of_snapshot(i, e.into()))? {
                    return Err(Fault::Forked);
                }
                let since = reached.clone();
                if let Some(header) = &snapshot.header {
                    reached.join(&header.vector);
                }
                Source::Snapshot { i, copy: Box::new(copy), since, _file: temp }
            }
        });
    }
    let mut found = Found { contained: heads.contained(&plan.start), spool };
    let whole = session.whole || mine.policies()?.merges_whole();
    let mut left = &mut sources[..];
    // A plan before this one may have led somewhere before it failed.
    let mut how = Merging { force: session.force, more: outcome.received.rows > 0 };
    loop {
        let little = if whole { left.len() } else { little(left) };
        let (now, rest) = left.split_at_mut(little);
        // Also without any, so that a pull always folds.
        found.merge_whole(mine, now, outcome, how)?;
        how.more = true;
        let Some((large, rest)) = rest.split_first_mut() else { return Ok(()) };
        found.merge_in_slices(mine, large, outcome, how)?;
        left = rest;
        if left.is_empty() {
            return Ok(());
        }
    }
}

/// How many of the first sources are merged in one transaction.
fn little(sources: &mut [Source]) -> usize {
    let (mut rows, mut bytes) = (0, 0);
    let fits = |source: &mut Source| match source {
        Source::Batch { header, .. } => {
            (rows, bytes) = (rows + header.rows(), bytes + header.size);
            rows <= LITTLE && bytes <= LITTLE_BYTES
        }
        Source::Snapshot { copy, since, .. } => {
            let mut parts = 0;
            let mut part = |part: Delta| {
                (rows, parts) = (rows + part.rows.len() as u64, parts + 1);
                match rows <= LITTLE && parts == 1 {
                    true => Ok(()),
                    false => Err(synqlite_core::Error::Unmerged),
                }
            };
            // One that cannot be read is merged alone, which tells.
            copy.export_parts(since, 0, &mut part).is_ok()
        }
    };
    sources.iter_mut().map(fits).take_while(|fits| *fits).count()
}

/// What a plan led to, read and verified.
struct Found<'a> {
    /// What can be reached by what was merged.
    contained: Contained<'a>,
    /// The bytes of batches.
    spool: Spool,
}

impl Found<'_> {
    /// Merges sources in one transaction.
    fn merge_whole(
        &mut self,
        mine: &mut Replica,
        sources: &mut [Source],
        outcome: &mut Outcome,
        how: Merging,
    ) -> Result<(), Fault> {
        let Found { contained, spool } = self;
        let lacking = sources.iter().filter_map(|source| match source {
            Source::Snapshot { copy, .. } => Some(copy.gaps()),
            Source::Batch { .. } => None,
        });
        let lacking = lacking.collect::<Result<Vec<_>, _>>()?;
        // What is refused was not received.
        let mut received = Traffic::default();
        let merged = mine.merge_from(how, &lacking, |sink| {
            let mut sink = |part: Delta| {
                received.add(Traffic::of(&part, 0));
                sink(part)
            };
            for source in sources {
                match source {
                    Source::Snapshot { i, copy, since, .. } => {
                        let of = |e: SyncError| of_snapshot(*i, e);
                        copy.export_parts(since, 0, &mut sink).map_err(|e| of(e.into()))?;
                        sink(Delta::default()).map_err(|e| of(e.into()))?;
                    }
                    Source::Batch { name, header, at, prefix, upto } => {
                        let seen = seen_by(header, contained, *prefix);
                        for i in 0..header.bodies.len() {
                            let (_, part) = body(spool, *name, header, *at, i)?;
                            let part = Delta { upto: seen.clone(), ..part };
                            sink(part).map_err(|e| refused(*name, e))?;
                        }
                        // Nothing follows that belongs to it, so all of it is merged now, or is at fault.
                        sink(Delta::default()).map_err(|e| refused(*name, e))?;
                        contained.reach(upto);
                    }
                }
            }
            Ok::<_, Fault>(())
        })?;
        outcome.received.add(received);
        outcome.merged.add(merged);
        Ok(())
    }

    /// Takes a source in, then merges it slice by slice.
    fn merge_in_slices(
        &mut self,
        mine: &mut Replica,
        source: &mut Source,
        outcome: &mut Outcome,
        how: Merging,
    ) -> Result<(), Fault> {
        let Found { contained, spool } = self;
        let (database, mut received) = (mine.database(), Traffic::default());
        let mut coming = mine.spool()?;
        let mut count = |part: &Delta| received.add(Traffic::of(part, 0));
        let (mut lacking, mut reached) = (vec![], None);
        match source {
            Source::Snapshot { i, copy, since, .. } => {
                let mut each = |part| {
                    count(&part);
                    coming.part(part)
                };
                let exported = copy.export_parts(since, 0, &mut each);
                exported.map_err(|e: synqlite_core::Error| of_snapshot(*i, e.into()))?;
                coming.end_parts(database, copy.site(), false)?;
                lacking.push(copy.gaps()?);
            }
            Source::Batch { name, header, at, prefix, upto } => {
                for (i, size) in header.bodies.iter().enumerate() {
                    let (packed, part) = body(spool, *name, header, *at, i)?;
                    count(&part);
                    coming.body(*size, &packed)?;
                }
                let head = spool.read(*at..*at + header.start)?;
                coming.delta(head, seen_by(header, contained, *prefix), false)?;
                reached = Some(upto.clone());
            }
        }
        let spooled = coming.end();
        let taken = mine.take_in(&spooled, how, &lacking);
        let merged = taken.and_then(|()| mine.work_off()).map_err(|e| match source {
            Source::Snapshot { i, .. } => of_snapshot(*i, e.into()),
            Source::Batch { name, .. } => refused(*name, e),
        });
        outcome.merged.add(merged?);
        outcome.received.add(received);
        if let Some(upto) = &reached {
            contained.reach(upto);
        }
        Ok(())
    }
}

/// A failure of the engine with a batch: at fault are its changes, or something else.
fn refused(name: ObjectName, e: synqlite_core::Error) -> Fault {
    match e.is_of_changes() {
        true => Fault::Bad(name, Box::new(Flaw::refused(&e))),
        false => Fault::from(e),
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
    let part = batch::decode_body(header, i, &packed)
        .map_err(|why| Fault::Bad(name, Box::new(Flaw::of(why))))?;
    Ok((packed, part))
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
                Stored::BadSnapshot { .. }
                    | Stored::NewerSnapshot { .. }
                    | Stored::NotFound { .. }
                    | Stored::Unsealable { .. }
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
    if flawed { Fault::Snapshot(i, Box::new(Flaw::snapshot(&e))) } else { Fault::Failed(e) }
}

/// What is wrong with the bytes of a batch, if anything is.
pub(super) fn read_through(batch: &Batch, store: &dyn Store) -> Result<Option<Flaw>> {
    match verified(batch, store) {
        Ok(verified) => Ok(verified.err().map(Flaw::of)),
        // It went meanwhile, which the next look tells.
        Err(synqlite_objects::Error::NotFound { .. }) => Ok(None),
        Err(synqlite_objects::Error::Unsealable { .. }) => Ok(Some(Flaw::sealed())),
        Err(e) => Err(e.into()),
    }
}

/// Reads all of a batch: whether its bytes are as they were written.
fn verified(batch: &Batch, store: &dyn Store) -> synqlite_objects::Result<Result<(), BatchError>> {
    let mut source = store.open(&batch.name)?.take(batch.header.size + 1);
    let (mut verifier, mut bytes) = (Verifier::new(&batch.header), vec![0; CHUNK]);
    loop {
        let n = source.read(&mut bytes).map_err(synqlite_objects::Error::read(&batch.name))?;
        match bytes.get(..n) {
            Some(read) if n > 0 => verifier.pass(read),
            _ => return Ok(verifier.end()),
        }
    }
}

/// Appends all bytes of a batch to `spool`: those that came along with its name, and the rest.
fn read_batch(
    batch: &Batch,
    store: &dyn Store,
    spool: &mut Spool,
    fetched: &mut Fetched<'_>,
) -> Result<(), Fault> {
    let Batch { name, header, prefix, .. } = batch;
    let (at, bad) = (spool.len(), |why| Fault::Bad(*name, Box::new(Flaw::of(why))));
    let unread = |e| match e {
        synqlite_objects::Error::Unsealable { .. } => Fault::Bad(*name, Box::new(Flaw::sealed())),
        e => Fault::from(e),
    };
    let mut verifier = Verifier::new(header);
    verifier.pass(prefix);
    spool.append(prefix)?;
    fetched.add(prefix.len());
    // One byte more than there should be is as bad as many.
    let left = (header.size + 1).saturating_sub(prefix.len() as u64);
    if prefix.is_empty() || left > 1 {
        let source = match prefix.len() as u64 {
            0 => store.open(name),
            from => store.open_from(name, from),
        };
        let source = source.map_err(unread)?;
        let (mut source, mut bytes) = (source.take(left), vec![0; CHUNK.min(left as usize)]);
        loop {
            let n = source.read(&mut bytes).map_err(synqlite_objects::Error::read(name));
            let n = n.map_err(unread)?;
            let Some(read) = bytes.get(..n).filter(|read| !read.is_empty()) else { break };
            verifier.pass(read);
            spool.append(read)?;
            fetched.add(n);
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

/// Restores the snapshot `name` to the file `to`.
pub(super) fn fetch(
    store: &dyn Store,
    name: &ObjectName,
    to: &Path,
    fetched: &mut Fetched<'_>,
) -> synqlite_objects::Result<SnapshotHeader> {
    read_snapshot(name, Watched { inner: store.open(name)?, fetched }, to)
}

/// Tells how much has come, of all objects of a plan.
pub(super) struct Fetched<'a> {
    env: &'a dyn Environment,
    step: Step,
}

impl<'a> Fetched<'a> {
    pub(super) fn new(session: &'a Session, total: u64) -> Fetched<'a> {
        let step = Step { phase: Phase::Fetch, done: 0, total: Some(total) };
        Fetched { env: session.env.as_ref(), step }
    }

    fn add(&mut self, n: usize) {
        self.step.done += n as u64;
        self.env.step(self.step);
    }
}

/// Tells how much was read.
struct Watched<'w, 'a> {
    inner: Box<dyn Read + Send>,
    fetched: &'w mut Fetched<'a>,
}

impl Read for Watched<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(out)?;
        self.fetched.add(n);
        Ok(n)
    }
}
