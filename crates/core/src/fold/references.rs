//! What a fold notes of references as it looks at one row after the other. What becomes of them is
//! decided once all rows have their states.

use crate::catalog::{Catalog, Loc, Tracked};
use std::collections::BTreeSet;
use synqlite_wire::{Rid, Value};

pub(super) struct References<'a> {
    catalog: &'a Catalog,
    /// Rows that left keys which they had at the last fold.
    pub left: Vec<Left>,
    /// The same of keys that they came by since.
    pub passed: Vec<Left>,
    /// Rows that got keys, or live again: position of the table, row.
    pub took: Vec<(usize, Rid)>,
    /// Tables, by position, to whose rows some references were that were written since.
    pub unnamed: BTreeSet<usize>,
    /// Groups that follow their rows' keys.
    pub followed: BTreeSet<Register>,
    /// Groups that this fold keeps because rows to which they refer left their keys.
    pub orphaned: BTreeSet<Register>,
    /// Rows in which a value names nobody: position of the table, place.
    pub unresolved: Vec<(usize, Loc)>,
}

/// A row that left keys: the position of its table, and the values with which it had them, where they
/// are known.
pub(super) type Left = (usize, Rid, Vec<Option<Value>>);

/// Number of a table, row, group.
pub(super) type Register = (u32, Rid, usize);

impl<'a> References<'a> {
    pub fn new(catalog: &'a Catalog) -> References<'a> {
        References {
            catalog,
            left: vec![],
            passed: vec![],
            took: vec![],
            unnamed: BTreeSet::new(),
            followed: BTreeSet::new(),
            orphaned: BTreeSet::new(),
            unresolved: vec![],
        }
    }

    /// References to rows of a table, by foreign keys that were known when the rows were written.
    pub fn to(&self, parent: usize) -> Vec<(usize, usize)> {
        let new = |&(child, f): &(usize, usize)| self.catalog.tables[child].new_keys.contains(&f);
        self.catalog.references_to(parent).filter(|key| !new(key)).collect()
    }

    /// Notes that a row no longer has the keys of its former values: `start` at the last fold, `last`
    /// before it left; the same if `start` is not given. `now`: what it shows, if it has stayed in its place.
    pub fn leaves(
        &mut self,
        t: &Tracked,
        rid: &Rid,
        start: Option<Vec<Value>>,
        last: Vec<Option<Value>>,
        now: Option<&[Value]>,
    ) {
        let Some(position) = self.catalog.position_of_no(t.no) else { return };
        let other = |(child, f): (usize, usize)| {
            let mut key = self.catalog.tables[child].table.foreign_keys[f].parent_columns.iter();
            now.is_none_or(|now| key.any(|&c| last[c].as_ref() != Some(&now[c])))
        };
        if self.catalog.references_to(position).any(other) {
            let named = |row| (position, rid.clone(), row);
            let start = start.map(|row| row.into_iter().map(Some).collect());
            let (first, since) = match start {
                Some(start) => (start, Some(last)),
                None => (last, None),
            };
            self.left.push(named(first));
            self.passed.extend(since.map(named));
        }
    }

    /// Notes that references of a row were written, in these groups.
    pub fn written<'g>(&mut self, t: &Tracked, groups: impl Iterator<Item = &'g usize>) {
        let keys = groups.flat_map(|&g| &t.table.groups[g].foreign_keys);
        let parents = keys.map(|&f| &t.table.foreign_keys[f].parent);
        self.unnamed.extend(parents.filter_map(|parent| self.catalog.position(parent)));
    }

    /// A value of the row at `loc` names nobody.
    pub fn names_nobody(&mut self, t: &Tracked, loc: Loc) {
        self.unresolved.extend(self.catalog.position_of_no(t.no).map(|position| (position, loc)));
    }
}
