//! A way through a store: what to merge, in which order, to reach all that can be reached.
//!
//! Invariant: a step is taken only where all that it builds on has been reached. A batch that names
//! a prefix hash builds on everything that the prefix hash stands for; one whose prefix hash the row does not know
//! waits, for another or a snapshot that brings the same.

use super::heads::{Batch, Heads, Snapshot};
use super::object_log::ObjectLog;
use std::collections::{BTreeSet, HashSet};
use synqlite_objects::{ObjectName, next_prefix};
use synqlite_wire::{PrefixHash, SiteId, VersionVector};

/// So many prefix hashes of one site are tried where the row is in disorder.
const MOST: usize = 10_000;

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
    /// Whether everything of the row is reached.
    pub whole: bool,
}

/// Something to merge, by its place in [`Heads`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A batch.
    Batch(usize),
    /// A snapshot: the batches on the way are missing.
    Snapshot(usize),
}

impl Plan {
    /// How to reach all that can be reached from `start`: by batches, and by snapshots only where
    /// batches are missing.
    pub fn make(heads: &Heads, start: &VersionVector) -> Plan {
        let mut way = Way::new(heads, start);
        let mut left: Vec<usize> = (0..heads.batches.len()).collect();
        loop {
            let before = left.len();
            left.retain(|&i| heads.batches.get(i).is_some_and(|batch| !way.past(i, batch)));
            if left.len() < before {
                continue;
            }
            if !way.by_chains(&left) && !way.by_snapshot() {
                break;
            }
        }
        let Way { mut plan, missing, needed, .. } = way;
        plan.waiting = left.iter().filter_map(|&i| Some(heads.batches.get(i)?.name)).collect();
        plan.whole = needed && missing.is_empty();
        plan
    }
}

struct Way<'a> {
    heads: &'a Heads,
    plan: Plan,
    /// Indexes in the row of objects that are not reached.
    missing: BTreeSet<usize>,
    /// Snapshots that are not reached.
    snapshots: Vec<usize>,
    /// Whether what the row begins with is reached.
    needed: bool,
    /// Prefix hashes beyond the row that a site's own batches lead to.
    chains: HashSet<(SiteId, PrefixHash)>,
}

impl<'a> Way<'a> {
    fn new(heads: &'a Heads, start: &VersionVector) -> Way<'a> {
        let plan = Plan { start: start.clone(), reached: start.clone(), ..Plan::default() };
        let batches = heads.batches.iter().filter_map(|batch| batch.index);
        let flawed = heads.flawed.iter().filter_map(|flawed| flawed.index);
        let snapshots = heads.snapshots.iter().filter_map(|snapshot| snapshot.index);
        let missing = batches.chain(flawed).chain(snapshots).collect();
        let snapshots = (0..heads.snapshots.len()).collect();
        let chains = HashSet::new();
        let mut way = Way { heads, plan, missing, snapshots, needed: false, chains };
        way.settle();
        way
    }

    /// Whether a batch is behind, perhaps by a step that is taken now.
    fn past(&mut self, i: usize, batch: &Batch) -> bool {
        let known = self.plan.reached.dominates(&batch.upto);
        if !known {
            if !self.can_take(batch) {
                return false;
            }
            self.plan.reached.join(&batch.upto);
            self.plan.steps.push(Step::Batch(i));
        }
        self.found(batch.index);
        true
    }

    /// The object at an index of the row is reached.
    fn found(&mut self, index: Option<usize>) {
        if let Some(index) = index {
            self.missing.remove(&index);
        }
    }

    fn can_take(&mut self, batch: &Batch) -> bool {
        if !self.plan.reached.dominates(&batch.base) {
            return false;
        }
        let Some(prefix) = batch.header.after else { return true };
        if self.chains.contains(&(batch.name.site, prefix)) {
            return true;
        }
        let (Some(prefix), Some(index)) = (self.heads.index(Some(prefix)), batch.index) else {
            return false;
        };
        self.needed && ObjectLog::in_reach(prefix, index) && self.is_clear(prefix)
    }

    /// Whether everything up to an index of the row is reached.
    fn is_clear(&mut self, index: usize) -> bool {
        loop {
            let Some(&first) = self.missing.first().filter(|first| **first <= index) else {
                return true;
            };
            let flawed = self.heads.flawed.iter().filter(|flawed| flawed.index == Some(first));
            if flawed.into_iter().any(|flawed| self.heads.made_up(flawed, &self.plan.reached)) {
                self.missing.remove(&first);
                continue;
            }
            let snapshots = self.snapshots.iter().filter_map(|&i| self.heads.snapshots.get(i));
            let is_snapshot = snapshots.into_iter().any(|s| s.index == Some(first));
            if !is_snapshot || !self.settle() {
                return false;
            }
        }
    }

    /// Finds out which snapshots are reached. Whether more are.
    fn settle(&mut self) -> bool {
        let needs = self.heads.row.as_ref().map(|row| &row.needs);
        self.needed = needs.is_none_or(|needs| self.plan.reached.dominates(needs));
        let before = self.snapshots.len();
        for i in std::mem::take(&mut self.snapshots) {
            let Some(snapshot) = self.heads.snapshots.get(i) else { continue };
            if !self.has(snapshot) {
                self.snapshots.push(i);
                continue;
            }
            self.found(snapshot.index);
            if let Some(index) = self.heads.index(snapshot.head.after) {
                self.missing = self.missing.split_off(&(index + 1));
            }
            for flawed in self.heads.flawed.iter().filter(|f| snapshot.makes_up(&f.name)) {
                self.found(flawed.index);
            }
        }
        self.snapshots.len() < before
    }

    fn has(&self, Snapshot { head, header, .. }: &Snapshot) -> bool {
        match (header, self.heads.index(head.after)) {
            (Some(header), _) => self.plan.reached.dominates(&header.vector),
            (None, Some(index)) => {
                let clear = self.missing.first().is_none_or(|first| *first > index);
                self.needed && clear && self.plan.reached.dominates(&head.beyond)
            }
            (None, None) => false,
        }
    }

    /// Where a store has put its objects into another order, a batch may name a prefix hash that is a known
    /// one and then only batches of its own site. It builds on nothing then but on the known one
    /// and on what the site itself had sent, which its base says. Whether there is such a batch
    /// among `left`.
    fn by_chains(&mut self, left: &[usize]) -> bool {
        let batches = &self.heads.batches;
        let is_left: HashSet<usize> = left.iter().copied().collect();
        let waiting: Vec<(SiteId, PrefixHash)> = left
            .iter()
            .filter_map(|&i| batches.get(i))
            .filter_map(|batch| Some((batch.name.site, batch.header.after?)))
            .filter(|(_, prefix)| self.heads.index(Some(*prefix)).is_none())
            .collect();
        let sites: BTreeSet<SiteId> = waiting.iter().map(|(site, _)| *site).collect();
        let before = self.chains.len();
        for site in sites {
            let own = || batches.iter().enumerate().filter(|(_, batch)| batch.name.site == site);
            let past = own().filter(|(i, _)| !is_left.contains(i));
            let chained =
                self.chains.iter().filter(|(of, _)| *of == site).map(|(_, prefix)| *prefix);
            let known: HashSet<PrefixHash> =
                past.filter_map(|(_, batch)| batch.header.after).chain(chained).collect();
            if known.len() * own().count() > MOST {
                continue;
            }
            // What else a batch brought than writes of its site, a base does not say.
            let chain = || own().filter(|(_, batch)| batch.upto.0.contains_key(&site));
            for prefix in known {
                self.chains.extend(chain().map(|(_, b)| (site, next_prefix(prefix, &b.name))));
            }
        }
        self.chains.len() > before && waiting.iter().any(|one| self.chains.contains(one))
    }

    /// Takes the newest snapshot that brings something. Whether there was one.
    fn by_snapshot(&mut self) -> bool {
        self.settle();
        let all = self.snapshots.iter().filter_map(|&i| Some((i, self.heads.snapshots.get(i)?)));
        let readable = all.filter_map(|(i, s)| Some((s.latest(), i, s.header.as_ref()?)));
        let Some((_, i, header)) = readable.max_by_key(|(latest, i, _)| (*latest, *i)) else {
            return false;
        };
        self.plan.reached.join(&header.vector);
        self.plan.steps.push(Step::Snapshot(i));
        self.settle();
        true
    }
}
