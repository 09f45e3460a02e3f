//! Changes that come part by part: from another replica that this process can open too, or from
//! batches.
//!
//! The other replica folds and commits first: what it gives away under its stamps must never be
//! stamped anew. Then its rows are read in one snapshot, in which nothing waits to be folded, and
//! merged here part by part: in one transaction, or what is more than a slice in several. So memory does not
//! grow with what has changed.

use crate::export::{self, Most, payload};
use crate::gaps::{self, Gaps, Wanted};
use crate::inbox;
use crate::line::{self, parted};
use crate::merge::{Merge, Merged, Merging};
use crate::meta::Meta;
use crate::migrate;
use crate::parts;
use crate::progress::{Phase, Step};
use crate::replica::Replica;
use crate::slices::take_in;
use crate::track::Loaded;
use crate::twins;
use crate::work::Work;
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};
use synqlite_wire::{Delta, SiteId, VersionVector};

/// So much is handed over at a time. A row takes up to 2 kB besides its values meanwhile.
const PART: Most = Most { rows: parts::of(4_096), bytes: 4 << 20 };

/// What is no more than this is merged in one transaction.
const SLICE: Most = Most { rows: parts::of(2_048), bytes: 4 << 20 };

/// No more is read while that keeps others from writing.
const GLANCE: Most = Most { rows: parts::of(512), bytes: 1 << 20 };

/// How often a snapshot without unfolded writes is looked for while others write.
const ATTEMPTS: usize = 8;

/// What a pull brought.
#[derive(Clone, Debug, Default)]
pub struct Pulled {
    /// What the merge changed.
    pub merged: Merged,
    /// Rows that came.
    pub rows: u64,
    /// Registers that came.
    pub columns: u64,
    /// Bytes of their values and identities.
    pub bytes: u64,
}

impl Pulled {
    /// Counts what came in a part.
    fn count(&mut self, part: &Delta) {
        let settings = part.settings.iter().map(|s| s.key.len() + s.value.len());
        self.bytes += part.rows.iter().map(payload).chain(settings).sum::<usize>() as u64;
        self.rows += part.rows.len() as u64;
        self.columns += part.rows.iter().map(|row| row.registers.len() as u64).sum::<u64>();
    }

    /// The same, after another merge.
    fn after(mut self, mut before: Merged) -> Pulled {
        before.add(std::mem::take(&mut self.merged));
        Pulled { merged: before, ..self }
    }
}

/// Sixteen random bytes.
type Token = [u8; 16];

/// Takes the parts of a delta.
pub type Sink<'a, E> = &'a mut dyn FnMut(Delta) -> Result<(), E>;

impl Replica {
    /// Fetches and merges what the replica `other` has and this one lacks. `force` merges changes
    /// that are stamped far ahead of this machine's clock. What is more than a slice is merged in slices, unless
    /// policy `merge=whole` says otherwise.
    pub fn pull_from(&mut self, other: &mut Replica, force: bool) -> Result<Pulled> {
        self.pull(other, force, false)
    }

    /// [`Replica::pull_from`] in one transaction, however much it is.
    pub fn pull_whole(&mut self, other: &mut Replica, force: bool) -> Result<Pulled> {
        self.pull(other, force, true)
    }

    fn pull(&mut self, other: &mut Replica, force: bool, whole: bool) -> Result<Pulled> {
        if other.database() != self.database() {
            let (ours, theirs) = (self.database(), other.database());
            return Err(Error::Unrelated { ours, theirs });
        }
        if other.site() == self.site() {
            return Err(Error::SameSite(self.site()));
        }
        self.meet(other)?;
        let arrived = self.work_off()?;
        let (given, token) = (other.given_to(self.site())?, self.env.random());
        let whole = whole || self.policies()?.merges_whole();
        let most = if whole { PART } else { SLICE };
        for _ in 0..ATTEMPTS {
            other.fold()?;
            let (path, theirs, gaps) = (self.path.clone(), other.site(), other.gaps()?);
            let mut large = false;
            let pulled = self.write(|work| {
                work.fold_to_merge(false)?;
                let after = peer_local_seq(work, theirs, given)?;
                let wanted = work.wanted(&gaps, after)?;
                let mut pull = Pull::new(work, force, !wanted.tables.is_empty())?;
                // One behind, so that the other is not kept from writing while the last, mostly the
                // only one, is merged.
                let mut last = None;
                let mut part = |delta| match last.replace(delta) {
                    None => Ok(()),
                    Some(before) if whole => pull.part(before).map_err(|e| e.on(&path)),
                    Some(_) => {
                        large = true;
                        Err(Error::Unmerged)
                    }
                };
                let Some((local_seq, gaps)) = other.parts(&wanted, most, &mut part)? else {
                    return Ok(None);
                };
                last.map_or(Ok(()), |last| pull.part(last))?;
                pull.receive(&gaps, &wanted)?;
                pull.end(theirs, local_seq, (after, token)).map(Some)
            });
            if large {
                let wanted = self.want(&gaps, theirs, given)?;
                let Some((pulled, moved)) = self.spool_from(other, &wanted, force, token)? else {
                    continue;
                };
                let mut pulled = self.confirm(other, pulled, moved.then_some(token))?;
                pulled.merged = arrived;
                pulled.merged.add(self.work_off()?);
                return Ok(pulled);
            }
            if let Some((pulled, moved)) = pulled? {
                return self.confirm(other, pulled.after(arrived), moved.then_some(token));
            }
        }
        // Somebody writes there all the time, so it is read while nobody else can.
        let (theirs, gaps) = (other.site(), other.gaps()?);
        let wanted = self.want(&gaps, theirs, given)?;
        let (delta, gaps, local_seq) = other.write(|work| {
            work.fold()?;
            let Work { conn, meta, catalog, .. } = work;
            let delta = export::delta(conn, meta, catalog, &wanted)?;
            Ok((delta, gaps::tell(conn, meta)?, meta.local_seq))
        })?;
        let (pulled, moved) = self.write(|work| {
            work.fold_to_merge(false)?;
            let mut pull = Pull::new(work, force, !wanted.tables.is_empty())?;
            pull.part(delta)?;
            pull.receive(&gaps, &wanted)?;
            pull.end(theirs, local_seq, (wanted.after, token))
        })?;
        self.confirm(other, pulled.after(arrived), moved.then_some(token))
    }

    /// Folds, and says what to ask the replica `theirs` for.
    fn want(&mut self, gaps: &Gaps, theirs: SiteId, given: Option<Token>) -> Result<Wanted> {
        self.write(|work| {
            work.fold_to_merge(false)?;
            let after = peer_local_seq(work, theirs, given)?;
            work.wanted(gaps, after)
        })
    }

    /// Takes in what is wanted of another replica, to be merged in slices, and says how much that is, and
    /// whether it is more than was known to be there. `None` if something waits there to be folded.
    fn spool_from(
        &mut self,
        other: &Replica,
        wanted: &Wanted,
        force: bool,
        token: Token,
    ) -> Result<Option<(Pulled, bool)>> {
        let (theirs, database, mut pulled) = (other.site(), self.database(), Pulled::default());
        let env = self.env.clone();
        let mut spool = self.spool()?;
        let mut part = |delta| {
            pulled.count(&delta);
            env.step(Step { phase: Phase::Read, done: pulled.rows, total: None });
            spool.part(delta)
        };
        let Some((local_seq, gaps)) = other.parts(wanted, PART, &mut part)? else {
            return Ok(None);
        };
        spool.end_parts(database, theirs, !wanted.tables.is_empty())?;
        let spooled = spool.end();
        self.check(&spooled)?;
        let staged = self.stage()?;
        let moved = self.write(|work| {
            work.fold_to_merge(false)?;
            work.receive(&gaps, wanted)?;
            take_in(work, &spooled, staged, force)?;
            took(work, theirs, local_seq, (wanted.after, token))
        })?;
        Ok(Some((pulled, moved)))
    }

    /// Leaves a token with a replica that was pulled from. It shows it the next time, unless it was
    /// restored from an older copy meanwhile: then its local sequences stand for something else.
    fn confirm(&self, other: &mut Replica, pulled: Pulled, left: Option<Token>) -> Result<Pulled> {
        let Some(token) = left else { return Ok(pulled) };
        let site = self.site();
        other.write(|work| {
            parted::tell(work.conn)?;
            let no = work.meta.number(work.conn, site)?;
            let sql = "INSERT INTO synqlite_peer(site, position, given) VALUES(?1, 0, ?2) \
                       ON CONFLICT(site) DO UPDATE SET given = excluded.given";
            work.conn.prepare_cached(sql)?.execute(params![no, token])?;
            Ok(())
        })?;
        Ok(pulled)
    }

    /// The token that `site` left here when it last pulled.
    fn given_to(&self, site: SiteId) -> Result<Option<Token>> {
        self.peek(|conn, meta| {
            let sql = "SELECT given FROM synqlite_peer WHERE site = ?1 AND given IS NOT NULL";
            let Some(no) = meta.known_number(site) else { return Ok(None) };
            Ok(conn.prepare_cached(sql)?.query_row([no], |row| row.get(0)).optional()?)
        })
    }

    /// What this replica may lack although its version vector covers it.
    pub fn gaps(&self) -> Result<Gaps> {
        self.peek(gaps::tell)
    }

    /// Folds, then merges all that `feed` hands over, in one transaction: nothing of it remains if
    /// `feed` fails. Parts of one delta follow each other, with the same base and upto; each has to be
    /// valid ([`Delta::check`]). `lacking`: what replicas lack whose changes are among them.
    ///
    /// It folds once: what is shown between two deltas nobody sees, so nothing of it may be pinned
    /// (R-PIN).
    pub fn merge_from<E: From<Error>>(
        &mut self,
        how: Merging,
        lacking: &[Gaps],
        feed: impl FnOnce(Sink<'_, Error>) -> Result<(), E>,
    ) -> Result<Merged, E> {
        let arrived = self.work_off()?;
        let (path, mut failed) = (self.path.clone(), None);
        let merged = self.write(|work| {
            work.fold_to_merge(how.more)?;
            let nothing = Wanted::default();
            lacking.iter().try_for_each(|gaps| work.receive(gaps, &nothing))?;
            let mut incoming = Incoming::new(work, how.force, false)?;
            incoming.merged = arrived;
            let fed = feed(&mut |delta| {
                delta.check()?;
                incoming.part(delta).map_err(|e| e.on(&path))
            });
            fed.map_err(|e| {
                failed = Some(e);
                Error::Damaged("changes could not be read".into())
            })?;
            incoming.end()
        });
        failed.map_or_else(|| merged.map_err(E::from), Err)
    }

    /// [`Replica::export`] in parts, handed to `each`: one at least. Returns the local sequence. Once others have them
    /// [`Replica::tell`] is due.
    pub fn export_parts<E: From<Error>>(
        &mut self,
        base: &VersionVector,
        after: i64,
        each: Sink<'_, E>,
    ) -> Result<i64, E> {
        let wanted = Wanted::for_place(base, after);
        let mut failed = None;
        let mut part = |delta| {
            each(delta).map_err(|e| {
                failed = Some(e);
                Error::Damaged("changes could not be passed on".into())
            })
        };
        self.work_off()?;
        let mut exported = self.parts(&wanted, PART, &mut part);
        for _ in 0..ATTEMPTS {
            if !matches!(exported, Ok(None)) {
                break;
            }
            self.fold()?;
            exported = self.parts(&wanted, PART, &mut part);
        }
        let exported = match exported {
            Ok(None) => self.write(|work| {
                work.fold()?;
                let Work { conn, meta, catalog, .. } = work;
                export::parts(conn, meta, catalog, &wanted, PART, &mut part)?;
                Ok(meta.local_seq)
            }),
            exported => exported.map(|parts| parts.map_or(0, |(local_seq, _)| local_seq)),
        };
        failed.map_or_else(|| exported.map_err(E::from), Err)
    }

    /// Takes note that others may have all that is here (R-TWIN): whoever has handed out what was exported says so.
    pub fn tell(&mut self) -> Result<()> {
        if parted::is_told(&self.conn)? {
            return Ok(());
        }
        self.write(|work| parted::tell(work.conn))
    }

    /// What is wanted, in parts of at most so much, the local sequence that it reaches, and what may be missing.
    /// `None`, and no part, if something waits here to be folded.
    fn parts(
        &self,
        wanted: &Wanted,
        most: Most,
        each: Sink<'_, Error>,
    ) -> Result<Option<(i64, Gaps)>> {
        let in_the_way = self.is_in_the_way()?;
        let copy = self.read(|conn, meta, loaded| {
            if !in_the_way {
                return read_parts(conn, meta, loaded, wanted, most, &mut *each).map(Ok);
            }
            let (mut only, mut large) = (None, false);
            let mut glance = |part| match only.replace(part) {
                None => Ok(()),
                Some(_) => {
                    large = true;
                    Err(Error::Unmerged)
                }
            };
            let reached = read_parts(conn, meta, loaded, wanted, GLANCE, &mut glance);
            if large {
                // Without room for a copy, others have to wait.
                return match self.copied(conn) {
                    Ok(copy) => Ok(Err(copy)),
                    Err(_) => read_parts(conn, meta, loaded, wanted, most, &mut *each).map(Ok),
                };
            }
            let reached = reached?;
            only.map_or(Ok(()), &mut *each)?;
            Ok(Ok(reached))
        })?;
        match copy {
            Ok(reached) => Ok(reached),
            Err(copy) => self.on_copy(copy, |replica| {
                replica
                    .read(|conn, meta, loaded| read_parts(conn, meta, loaded, wanted, most, each))
            }),
        }
    }
}

/// What is wanted, in parts, unless something waits to be folded.
fn read_parts(
    conn: &Connection,
    meta: &Meta,
    loaded: &Loaded,
    wanted: &Wanted,
    most: Most,
    each: Sink<'_, Error>,
) -> Result<Option<(i64, Gaps)>> {
    let pending = conn.prepare_cached("SELECT 1 FROM synqlite_journal")?.exists([])?;
    let unsettled = !loaded.stale.is_empty() || !loaded.left.is_empty();
    if pending || unsettled || inbox::any(conn)? {
        return Ok(None);
    }
    export::parts(conn, meta, &loaded.catalog, wanted, most, each)?;
    Ok(Some((meta.local_seq, gaps::tell(conn, meta)?)))
}

/// Merges all that `other` has, which has just folded, into a replica that knows nothing of it yet.
pub(crate) fn merge_all(work: &mut Work<'_>, other: &mut Replica, force: bool) -> Result<()> {
    let (theirs, path) = (other.site(), other.path().display().to_string());
    let token = work.env.random();
    let (mut pull, all) = (Pull::new(work, force, false)?, Wanted::default());
    let done = other.parts(&all, PART, &mut |delta| pull.part(delta))?;
    let (local_seq, gaps) = done.ok_or(Error::Locked(path))?;
    pull.receive(&gaps, &all)?;
    pull.end(theirs, local_seq, (0, token)).map(drop)
}

/// A merge of deltas as their parts come.
struct Incoming<'a, 'w> {
    work: &'a mut Work<'w>,
    force: bool,
    /// Whether rows come again that were seen.
    again: bool,
    /// The delta whose parts are coming.
    current: Option<Current>,
    merged: Merged,
    /// So many rows have come.
    rows: u64,
}

/// Base and upto of a delta, as it says and as that is to be read here.
struct Current {
    said: (VersionVector, VersionVector),
    read: (VersionVector, VersionVector),
    /// What is here then: each write that comes has to be covered by it.
    covered: VersionVector,
    /// `None` if it brings nothing.
    merge: Option<Merge>,
}

impl<'a, 'w> Incoming<'a, 'w> {
    fn new(work: &'a mut Work<'w>, force: bool, again: bool) -> Result<Incoming<'a, 'w>> {
        if inbox::any(work.conn)? {
            return Err(Error::Unmerged);
        }
        Ok(Incoming { work, force, again, current: None, merged: Merged::default(), rows: 0 })
    }

    fn part(&mut self, mut delta: Delta) -> Result<()> {
        let same = |c: &Current| c.said.0 == delta.base && c.said.1 == delta.upto;
        if !self.current.as_ref().is_some_and(same) {
            self.finish()?;
            self.begin(&delta)?;
        }
        let Some(Current { read, covered, merge: Some(merge), .. }) = &mut self.current else {
            return Ok(());
        };
        line::moves(self.work.conn, &self.work.meta, &delta)?.delta(&mut delta);
        (delta.base, delta.upto) = read.clone();
        delta.check_writes(covered)?;
        line::check_births(self.work.conn, &self.work.meta, &delta)?;
        if !delta.settings.is_empty() {
            // What comes with them is read as they say.
            merge.join_held(&mut self.work.site())?;
            migrate::take_settings(self.work, &delta.settings)?;
        }
        self.rows += delta.rows.len() as u64;
        merge.part(&mut self.work.site(), delta)?;
        self.work.env.step(Step { phase: Phase::Merge, done: self.rows, total: None });
        Ok(())
    }

    /// Learns by which points sites came to where a delta ends, and how it is to be read then.
    fn begin(&mut self, delta: &Delta) -> Result<()> {
        self.work.learn(&delta.lines)?;
        let Work { conn, meta, .. } = &*self.work;
        let base = line::resolve(conn, meta, &delta.base)?;
        let upto = line::resolve(conn, meta, &delta.upto)?;
        let mut covered = meta.seen.clone();
        covered.join(&upto);
        let merge = self.work.begin_merge(&base, &upto, self.force, self.again)?;
        // One that comes before what it builds on is no fault.
        line::check_led(self.work.conn, &self.work.meta, &upto)?;
        let said = (delta.base.clone(), delta.upto.clone());
        self.current = Some(Current { said, read: (base, upto), covered, merge });
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(Current { merge: Some(merge), .. }) = self.current.take() {
            self.merged.add(self.work.end_merge(merge, twins::unite)?);
        }
        Ok(())
    }

    fn end(mut self) -> Result<Merged> {
        self.finish()?;
        Ok(self.merged)
    }
}

/// A merge of what another replica hands over, and how much that is.
struct Pull<'a, 'w> {
    incoming: Incoming<'a, 'w>,
    pulled: Pulled,
}

impl<'a, 'w> Pull<'a, 'w> {
    fn new(work: &'a mut Work<'w>, force: bool, again: bool) -> Result<Pull<'a, 'w>> {
        let incoming = Incoming::new(work, force, again)?;
        Ok(Pull { incoming, pulled: Pulled::default() })
    }

    fn part(&mut self, delta: Delta) -> Result<()> {
        self.pulled.count(&delta);
        self.incoming.part(delta)
    }

    /// Takes note of what the other may lack, before what it gave counts as seen.
    fn receive(&mut self, theirs: &Gaps, wanted: &Wanted) -> Result<()> {
        self.incoming.work.receive(theirs, wanted)
    }

    /// Also says whether more was taken than was known to be, `after`.
    fn end(
        mut self,
        theirs: SiteId,
        local_seq: i64,
        (after, token): (i64, Token),
    ) -> Result<(Pulled, bool)> {
        self.incoming.finish()?;
        let moved = took(self.incoming.work, theirs, local_seq, (after, token))?;
        Ok((Pulled { merged: self.incoming.merged, ..self.pulled }, moved))
    }
}

/// Remembers that all was taken from a replica up to this local sequence of it. Says whether that is more
/// than was known to be, `after`.
fn took(
    work: &mut Work<'_>,
    theirs: SiteId,
    local_seq: i64,
    (after, token): (i64, Token),
) -> Result<bool> {
    if local_seq != after {
        let Work { conn, meta, .. } = work;
        let no = meta.number(conn, theirs)?;
        let sql = "INSERT INTO synqlite_peer(site, position, taken) VALUES(?1, ?2, ?3) \
                   ON CONFLICT(site) DO UPDATE SET position = ?2, taken = ?3";
        conn.prepare_cached(sql)?.execute(params![no, local_seq, token])?;
    }
    Ok(local_seq != after)
}

/// Up to which of its local sequences the replica `site` was last pulled from, if it shows the token that was
/// left there then.
fn peer_local_seq(work: &Work<'_>, site: SiteId, given: Option<Token>) -> Result<i64> {
    let Some(no) = work.meta.known_number(site) else { return Ok(0) };
    let sql = "SELECT position FROM synqlite_peer WHERE site = ?1 AND taken = ?2";
    let found = work.conn.prepare_cached(sql)?.query_row(params![no, given], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}
