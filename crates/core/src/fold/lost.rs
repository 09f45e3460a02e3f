//! Rows that are gone, of which nobody noted what they showed last.
//!
//! Where they were and their identities tell their keys. The rest is lost here. It is written over
//! with defaults: should another site need such a row, it shows the same everywhere.

use super::Fold;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::state::Stored;
use std::collections::BTreeSet;
use synqlite_wire::{Cell, Rid, Value, key};

impl Fold<'_> {
    /// What is left of a row that was at `was`: the cells of its groups, and the groups that are what
    /// they were.
    pub(super) fn lost(
        &self,
        t: &Tracked,
        stored: &Stored,
        was: &Loc,
    ) -> Result<(Vec<Cell>, BTreeSet<usize>)> {
        let mut row: Vec<Value> = (0..t.table.columns.len()).map(|c| t.default_of(c)).collect();
        let mut told = BTreeSet::new();
        if let Rid::Key { key, .. } = &stored.rid
            && let Some(values) = key::decode_values(key)
        {
            t.table.primary_key.iter().zip(values).for_each(|(&c, value)| row[c] = value);
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
            row[c] = value;
            // The place of a key does not tell how it was spelled.
            told.extend(matches!(was, Loc::Row(_)).then_some(c));
        }
        let groups = t.table.groups.iter().enumerate();
        let whole = groups.filter(|(_, group)| group.columns.iter().all(|c| told.contains(c)));
        let whole = whole.map(|(g, _)| g).collect();
        let cells = (0..t.table.groups.len()).map(|g| self.lookup().cell(t, g, &row));
        Ok((cells.collect::<Result<_>>()?, whole))
    }
}
