//! Rows that are gone, of which nobody noted what they showed last.
//!
//! Where they were and their identities tell their keys. The rest is lost here. It is written over
//! with defaults: should another site need such a row, it shows the same everywhere.

use super::Fold;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::state::{self, Stored};
use std::collections::BTreeSet;
use synqlite_wire::{Cell, Rid, Value, key};

/// What is left of a row.
pub(super) struct Rest {
    /// The cells of its groups.
    pub cells: Vec<Cell>,
    /// Groups that are what they were.
    pub whole: BTreeSet<usize>,
    /// What it showed, where that is known.
    pub known: Vec<Option<Value>>,
}

impl Fold<'_> {
    /// What is left of a row that was at `was`.
    pub(super) fn lost(&self, t: &Tracked, stored: &Stored, was: &Loc) -> Result<Rest> {
        let mut row: Vec<Value> = (0..t.table.columns.len()).map(|c| t.default_of(c)).collect();
        let (mut told, mut known) = (BTreeSet::new(), vec![None; row.len()]);
        if let Rid::Key { key, .. } = &stored.rid
            && let Some(values) = key::decode_values(key)
        {
            let keeps = state::keeps_its_key(t, stored);
            for (&c, value) in t.table.primary_key.iter().zip(values) {
                known[c] = keeps.then(|| value.clone());
                row[c] = value;
            }
        }
        let at = match (was, t.table.rowid_alias()) {
            (Loc::Row(rowid), Some(alias)) => vec![(alias, Value::Integer(*rowid))],
            (Loc::Row(_), None) => vec![],
            // A place that the table cannot have any more.
            (Loc::Key(_), _) if !t.has_places_like(was) => vec![],
            (Loc::Key(_), _) => {
                t.table.primary_key.iter().copied().zip(t.loc_values(was)?).collect()
            }
        };
        for (c, value) in at {
            known[c] = Some(value.clone());
            row[c] = value;
            // The place of a key does not tell how it was spelled.
            told.extend(matches!(was, Loc::Row(_)).then_some(c));
        }
        let groups = t.table.groups.iter().enumerate();
        let whole = groups.filter(|(_, group)| group.columns.iter().all(|c| told.contains(c)));
        let whole = whole.map(|(g, _)| g).collect();
        let cells = (0..t.table.groups.len()).map(|g| self.lookup().cell(t, g, &row));
        Ok(Rest { cells: cells.collect::<Result<_>>()?, whole, known })
    }
}
