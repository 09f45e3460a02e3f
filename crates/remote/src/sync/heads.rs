//! What a place of exchange holds, known from names and headers alone.
//!
//! A site's position only grows, and so does what it has seen. So the newest batch or snapshot of a
//! site covers all older ones, and a reader that goes through a site's objects from the newest to
//! the oldest may stop at the first that brings nothing new.

use super::{Result, SyncError, Waiting};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_objects::Store;
use synqlite_objects::{Kind, ObjectName};
use synqlite_objects::{SnapshotHeader, peek_snapshot};
use synqlite_wire::batch::{self, HEADER_PREFIX};
use synqlite_wire::{BatchError, BatchHeader, DatabaseId, SiteId, VersionVector};

/// Which batches need not be looked at.
pub enum Known<'a> {
    /// Those that bring nothing to whoever has seen this.
    Seen(&'a VersionVector),
    /// Those that the snapshots of the place contain.
    Snapshots,
}

/// What a place holds of one database.
pub struct Heads {
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
    /// Looks at a place.
    pub fn read(store: &dyn Store, database: DatabaseId, known: Known<'_>) -> Result<Heads> {
        let mut heads = Heads {
            snapshots: Vec::new(),
            batches: Vec::new(),
            flawed: Vec::new(),
            known: VersionVector::default(),
            ends: BTreeMap::new(),
        };
        let mut found = BTreeSet::new();
        for entry in store.list(database, Kind::Snapshot)?.into_iter().rev() {
            heads.end(&entry.name);
            if !found.contains(&entry.name.site)
                && let Ok(header) = peek_snapshot(store, &entry.name)
            {
                found.insert(entry.name.site);
                heads.snapshots.push((header, entry.size));
            }
        }
        let floor = match known {
            Known::Seen(seen) => seen.clone(),
            Known::Snapshots => heads.snapshotted(),
        };
        let mut covered = None;
        for entry in store.list(database, Kind::Batch)?.into_iter().rev() {
            let name = entry.name;
            heads.end(&name);
            if covered == Some(name.site) {
                continue;
            }
            match header(store, &name, entry.size)? {
                Ok(header) if floor.dominates(&header.upto) => {
                    covered = Some(name.site);
                    heads.known.join(&header.upto);
                }
                Ok(header) => heads.batches.push((name, header)),
                Err(flaw) => heads.flawed.push((name, flaw)),
            }
        }
        heads.batches.reverse();
        Ok(heads)
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

    /// Batches that cannot be merged yet, for people. One that cannot be merged at all is an error,
    /// unless a later snapshot of its site makes up for it. Of `own` nothing is needed.
    pub fn waiting(&self, plan: &Plan, place: &str, own: SiteId) -> Result<Vec<Waiting>> {
        let made_up = |name: &ObjectName| {
            let whole = |(s, _): &(SnapshotHeader, u64)| s.site == name.site && s.upto >= name.upto;
            name.site == own || self.snapshots.iter().any(whole)
        };
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

/// The header of a batch of `size` bytes.
fn header(
    store: &dyn Store,
    name: &ObjectName,
    size: u64,
) -> Result<std::result::Result<BatchHeader, Flaw>> {
    let mut want = HEADER_PREFIX as u64;
    loop {
        let prefix = match store.read_prefix(name, want) {
            Ok(prefix) => prefix,
            Err(synqlite_objects::Error::NotFound { .. }) => return Ok(Err(Flaw::HalfWritten)),
            Err(e) => return Err(e.into()),
        };
        return Ok(match batch::decode_header(&prefix) {
            Ok(header) if header.database != name.database || header.site != name.site => {
                Err(Flaw::Renamed)
            }
            Ok(header) if header.size > size => Err(Flaw::HalfWritten),
            Ok(header) => Ok(header),
            Err(BatchError::Truncated { need, .. }) if want < need && need <= size => {
                want = need;
                continue;
            }
            Err(BatchError::Truncated { .. }) => Err(Flaw::HalfWritten),
            Err(e) => Err(Flaw::Bad(e)),
        });
    }
}

#[cfg(test)]
mod tests;
