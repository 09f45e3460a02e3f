//! What a place of exchange holds, known from names and headers alone.
//!
//! A site's position only grows, and so does what it has seen. So the newest batch or snapshot of a
//! site covers all older ones, and a reader that goes through a site's objects from the newest to
//! the oldest may stop at the first that brings nothing new.

use super::memory::{Memory, Since};
use super::{Result, SyncError, Waiting};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use synqlite_objects::{Changes, Cursor, Found, Kind, ObjectName, Store};
use synqlite_objects::{SnapshotHeader, decode_snapshot_header, peek_snapshot};
use synqlite_wire::batch::{self, HEADER_PREFIX};
use synqlite_wire::{BatchError, BatchHeader, SiteId, VersionVector};

/// Which batches need not be looked at.
pub enum Known<'a> {
    /// Those that bring nothing to whoever has seen this.
    Seen(&'a VersionVector),
    /// Those that the snapshots of the place contain.
    Snapshots,
}

/// What a place holds of one database.
#[derive(Default)]
pub struct Heads {
    /// What the place is remembered to contain, apart from what is listed here.
    pub base: VersionVector,
    /// Whether only what came after that was looked at.
    pub resumed: bool,
    /// Up to where this is complete, if the place numbers its objects.
    pub cursor: Option<Cursor>,
    /// What came after the newest snapshot.
    pub since: Since,
    /// When the whole place was last looked at.
    pub looked: i64,
    /// The newest readable snapshot of each site, with its size in the place.
    pub snapshots: Vec<(SnapshotHeader, u64)>,
    /// Batches not known, by name.
    pub batches: Vec<(ObjectName, BatchHeader)>,
    /// Batches not known whose header, or length, is not as it should be.
    pub flawed: Vec<(ObjectName, Flaw)>,
    /// What the newest of the known batches of each site contain.
    known: VersionVector,
    /// The latest position of each site in any name.
    ends: BTreeMap<SiteId, u64>,
    /// Beginnings of batches that came along with their names.
    prefixes: BTreeMap<ObjectName, Vec<u8>>,
}

/// Why a batch cannot be used, as far as its header tells.
pub enum Flaw {
    /// Its bytes are wrong.
    Bad(BatchError),
    /// It is not there in full.
    HalfWritten,
    /// It was made under another name.
    Renamed,
}

/// A way from one version vector to a larger one.
#[derive(Default)]
pub struct Plan {
    /// Where it begins.
    pub start: VersionVector,
    /// What to merge, in order.
    pub steps: Vec<Step>,
    /// What is reached in the end.
    pub reached: VersionVector,
    /// Batches that build on others which are missing.
    pub waiting: Vec<ObjectName>,
}

/// Something to merge, by its place in [`Heads`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A batch.
    Batch(usize),
    /// A snapshot: the batches on the way are missing.
    Snapshot(usize),
}

impl Heads {
    /// Looks at what a place told of itself, at the time `now`. If it told only of what came after
    /// `memory`, that counts; otherwise `known` does.
    pub fn read(
        store: &dyn Store,
        changes: Changes,
        memory: Option<Memory>,
        known: Known<'_>,
        now: i64,
    ) -> Result<Heads> {
        let mut heads = Heads { cursor: changes.cursor, looked: now, ..Heads::default() };
        let memory = memory.filter(|_| changes.resumed);
        if let Some(memory) = &memory {
            heads.resumed = true;
            heads.base = memory.contains.clone();
            heads.since = memory.since;
            heads.looked = memory.looked;
            heads.ends.insert(memory.site, memory.end);
        }
        let mut found = BTreeSet::new();
        for Found { entry, prefix } in changes.found.iter().rev() {
            heads.end(&entry.name);
            let unread = entry.name.kind == Kind::Snapshot && !found.contains(&entry.name.site);
            if unread && let Ok(header) = snapshot_header(store, &entry.name, prefix) {
                found.insert(entry.name.site);
                heads.snapshots.push((header, entry.size));
            }
        }
        let newest = heads.snapshots.iter().max_by_key(|(header, _)| header.vector.latest());
        if let Some((_, size)) = newest {
            heads.since = Since { snapshot: *size, ..Since::default() };
        }
        let floor = match known {
            _ if memory.is_some() => heads.base.clone(),
            Known::Seen(seen) => seen.clone(),
            Known::Snapshots => heads.snapshotted(),
        };
        let mut covered = None;
        for Found { entry, prefix } in changes.found.into_iter().rev() {
            let name = entry.name;
            if name.kind != Kind::Batch || covered == Some(name.site) {
                continue;
            }
            match header(store, &name, entry.size, &prefix)? {
                Ok(header) if floor.dominates(&header.upto) => {
                    covered = Some(name.site);
                    heads.known.join(&header.upto);
                }
                Ok(header) => {
                    heads.since.batches += 1;
                    heads.since.bytes += entry.size;
                    heads.prefixes.insert(name, prefix);
                    heads.batches.push((name, header));
                }
                Err(flaw) => heads.flawed.push((name, flaw)),
            }
        }
        heads.batches.reverse();
        Ok(heads)
    }

    /// Takes note of an object that the caller put.
    pub fn put(&mut self, name: &ObjectName, bytes: u64) {
        self.end(name);
        self.since = match name.kind {
            Kind::Batch => Since {
                batches: self.since.batches + 1,
                bytes: self.since.bytes + bytes,
                ..self.since
            },
            Kind::Snapshot => Since { snapshot: bytes, ..Since::default() },
        };
    }

    /// Whether the place has nothing of the database.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.base.0.is_empty()
    }

    /// All bytes of a batch: those that came along with its name, and the rest.
    pub fn whole(&self, store: &dyn Store, name: &ObjectName) -> Result<Vec<u8>> {
        let mut bytes = self.prefixes.get(name).cloned().unwrap_or_default();
        let header = self.batches.iter().find(|(batch, _)| batch == name);
        if bytes.is_empty() {
            return Ok(store.read(name)?);
        }
        if header.is_some_and(|(_, header)| header.size > bytes.len() as u64) {
            let mut rest = store.open_from(name, bytes.len() as u64)?;
            rest.read_to_end(&mut bytes)
                .map_err(|source| synqlite_objects::Error::Read { name: *name, source })?;
        }
        Ok(bytes)
    }

    fn end(&mut self, name: &ObjectName) {
        let end = self.ends.entry(name.site).or_default();
        *end = name.upto.max(*end);
    }

    /// Where the chain of a site ends.
    pub fn end_of(&self, site: SiteId) -> u64 {
        self.ends.get(&site).copied().unwrap_or(0)
    }

    /// What all snapshots together contain.
    pub fn snapshotted(&self) -> VersionVector {
        let mut all = VersionVector::default();
        self.snapshots.iter().for_each(|(header, _)| all.join(&header.vector));
        all
    }

    /// What all objects together contain, whether it can be reached or not.
    pub fn claimed(&self) -> VersionVector {
        let mut all = self.snapshotted();
        all.join(&self.base);
        all.join(&self.known);
        self.batches.iter().for_each(|(_, header)| all.join(&header.upto));
        all
    }

    /// How to reach all that can be reached from `start`: by batches, and by snapshots only where
    /// batches are missing.
    pub fn plan(&self, start: &VersionVector) -> Plan {
        let mut plan = Plan { start: start.clone(), reached: start.clone(), ..Plan::default() };
        let mut left: Vec<usize> = (0..self.batches.len()).collect();
        loop {
            let before = left.len();
            left.retain(|&i| {
                let Some((_, header)) = self.batches.get(i) else { return false };
                if plan.reached.dominates(&header.upto) {
                    return false;
                }
                if !plan.reached.dominates(&header.base) {
                    return true;
                }
                plan.reached.join(&header.upto);
                plan.steps.push(Step::Batch(i));
                false
            });
            if left.len() < before {
                continue;
            }
            let news = |&(_, (header, _)): &(usize, &(SnapshotHeader, u64))| {
                !plan.reached.dominates(&header.vector)
            };
            let newest = self.snapshots.iter().enumerate().filter(news);
            let Some((i, (header, _))) = newest.max_by_key(|(_, (h, _))| h.vector.latest()) else {
                break;
            };
            plan.reached.join(&header.vector);
            plan.steps.push(Step::Snapshot(i));
        }
        plan.waiting = left.iter().filter_map(|&i| Some(self.batches.get(i)?.0)).collect();
        plan
    }

    /// Sets a batch aside whose body turned out bad.
    pub fn set_aside(&mut self, name: &ObjectName, why: BatchError) {
        self.batches.retain(|(batch, _)| batch != name);
        let flaw = match why {
            BatchError::Truncated { .. } => Flaw::HalfWritten,
            why => Flaw::Bad(why),
        };
        self.flawed.push((*name, flaw));
    }

    /// Whether a later snapshot of the same site makes up for a batch.
    fn made_up(&self, name: &ObjectName) -> bool {
        let whole = |(s, _): &(SnapshotHeader, u64)| s.site == name.site && s.upto >= name.upto;
        self.snapshots.iter().any(whole)
    }

    /// Whether nothing is there that cannot be read and that nothing makes up for.
    pub fn is_sound(&self) -> bool {
        self.flawed.iter().all(|(name, _)| self.made_up(name))
    }

    /// Batches that cannot be merged yet, for people. One that cannot be merged at all is an error,
    /// unless a later snapshot of its site makes up for it. Of `own` nothing is needed.
    pub fn waiting(&self, plan: &Plan, place: &str, own: SiteId) -> Result<Vec<Waiting>> {
        let made_up = |name: &ObjectName| name.site == own || self.made_up(name);
        let mut waiting = Vec::new();
        for (name, flaw) in self.flawed.iter().filter(|(name, _)| !made_up(name)) {
            let (name, place) = (*name, place.to_owned());
            match flaw {
                Flaw::HalfWritten => {
                    let why = "it is not there in full yet";
                    waiting.push(Waiting { name: name.to_string(), why });
                }
                Flaw::Renamed => return Err(SyncError::Renamed { name, place }),
                Flaw::Bad(source) => {
                    return Err(SyncError::Batch { name, place, source: source.clone() });
                }
            }
        }
        let why = "it builds on a batch that is missing";
        waiting.extend(plan.waiting.iter().map(|n| Waiting { name: n.to_string(), why }));
        Ok(waiting)
    }
}

/// The header of a snapshot, whose first bytes may be known.
fn snapshot_header(
    store: &dyn Store,
    name: &ObjectName,
    prefix: &[u8],
) -> synqlite_objects::Result<SnapshotHeader> {
    match decode_snapshot_header(name, prefix) {
        Err(_) => peek_snapshot(store, name),
        header => header,
    }
}

/// The header of a batch of `size` bytes, whose first bytes may be known.
fn header(
    store: &dyn Store,
    name: &ObjectName,
    size: u64,
    known: &[u8],
) -> Result<std::result::Result<BatchHeader, Flaw>> {
    let mut prefix = known.to_vec();
    let mut want = if known.is_empty() { HEADER_PREFIX } else { known.len() } as u64;
    loop {
        if prefix.is_empty() {
            prefix = match store.read_prefix(name, want) {
                Ok(prefix) => prefix,
                Err(synqlite_objects::Error::NotFound { .. }) => return Ok(Err(Flaw::HalfWritten)),
                Err(e) => return Err(e.into()),
            };
        }
        return Ok(match batch::decode_header(&prefix) {
            Ok(header) if header.database != name.database || header.site != name.site => {
                Err(Flaw::Renamed)
            }
            Ok(header) if header.size > size => Err(Flaw::HalfWritten),
            Ok(header) => Ok(header),
            Err(BatchError::Truncated { need, .. }) if want < need && need <= size => {
                want = need;
                prefix.clear();
                continue;
            }
            Err(BatchError::Truncated { .. }) => Err(Flaw::HalfWritten),
            Err(e) => Err(Flaw::Bad(e)),
        });
    }
}

#[cfg(test)]
mod tests;
