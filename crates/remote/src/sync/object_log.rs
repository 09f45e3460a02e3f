//! The row of objects of a store, as far as a site knows it: which prefix hash stands for which of them.
//!
//! An index counts objects along the row. Those before the row begins are contained in what it
//! [`ObjectLog::needs`], or in what the site remembers.

use std::collections::HashMap;
use synqlite_objects::{ObjectName, REACH, SnapshotHeader, Trail};
use synqlite_wire::{PrefixHash, VersionVector};

/// A row: what was known of it, and the objects that were listed.
pub struct ObjectLog {
    trail: Trail,
    /// Indexes of prefix hashes.
    of: HashMap<PrefixHash, usize>,
    /// Index of the prefix hash that the list goes on from.
    start: usize,
    /// So many of the objects of the list lie before the row.
    skipped: usize,
    /// What must be reached before any prefix hash can be judged.
    pub needs: VersionVector,
}

impl ObjectLog {
    /// Goes on from `known` by the objects of a list.
    fn new(known: Trail, names: &[ObjectName], skipped: usize, needs: VersionVector) -> ObjectLog {
        let mut row = ObjectLog {
            start: known.prefixes().len() - 1,
            trail: known,
            of: HashMap::new(),
            skipped,
            needs,
        };
        names.iter().skip(skipped).for_each(|name| row.trail.push(name));
        row.of = row.trail.prefixes().iter().copied().zip(0..).collect();
        row
    }

    /// The row that a list goes on with, from what was remembered of it.
    pub fn resumed(known: Trail, names: &[ObjectName]) -> ObjectLog {
        ObjectLog::new(known, names, 0, VersionVector::default())
    }

    /// The row of which all that is left is listed. What a snapshot covers may be gone: then the
    /// row begins with that snapshot.
    pub fn listed<'a>(
        names: &[ObjectName],
        snapshots: impl Iterator<Item = &'a SnapshotHeader>,
    ) -> ObjectLog {
        let row = ObjectLog::new(Trail::default(), names, 0, VersionVector::default());
        let mut newest: Option<(&SnapshotHeader, &Trail)> = None;
        for (snapshot, trail) in snapshots.filter_map(|s| Some((s, s.trail.as_ref()?))) {
            let covers = |trail: &Trail, prefix| trail.prefixes().contains(&prefix);
            if newest.is_none_or(|(_, known)| !covers(known, trail.last())) {
                newest = Some((snapshot, trail));
            }
        }
        match newest {
            Some((snapshot, trail)) if row.index(trail.last()).is_none() => {
                let last = names.iter().rposition(|name| trail.ends_with(name));
                let skipped = last.map_or(0, |last| last + 1);
                ObjectLog::new(trail.clone(), names, skipped, snapshot.vector.clone())
            }
            _ => row,
        }
    }

    /// The index up to which a prefix hash stands for objects.
    pub fn index(&self, prefix: PrefixHash) -> Option<usize> {
        self.of.get(&prefix).copied()
    }

    /// The index of the object at a position of the list.
    pub fn of_listed(&self, listed: usize) -> Option<usize> {
        Some(self.start + 1 + listed.checked_sub(self.skipped)?)
    }

    /// Its latest prefix hashes before everything that was listed.
    pub fn beginning(&self) -> Trail {
        let known = self.trail.prefixes().get(..=self.start).unwrap_or_default().to_vec();
        Trail::of(known).unwrap_or_default().end()
    }

    /// Its latest prefix hashes.
    pub fn end(&self) -> Trail {
        self.trail.end()
    }

    /// How many prefix hashes lie before those.
    pub fn before_end(&self) -> usize {
        self.trail.prefixes().len() - self.end().prefixes().len()
    }

    /// Whether an object at one index may name the prefix hash at another: one that all readers know.
    pub fn in_reach(prefix: usize, object: usize) -> bool {
        prefix < object && object - prefix <= REACH + 1
    }
}
