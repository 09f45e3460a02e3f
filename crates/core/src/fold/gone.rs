//! Rows that are gone. They keep what they showed last.
//!
//! If nobody noted that, where they were and their identities tell their keys. The rest is lost here. It is
//! written over with defaults: should another site need such a row, it shows the same everywhere.

use super::Fold;
use super::before::{Before, Image};
use super::unified::Became;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::counter;
use crate::journal::Gone;
use crate::state::{self, Body, GroupState, Stored, numbers, stash};
use std::collections::BTreeSet;
use synqlite_view::local_wins::Acted;
use synqlite_wire::{Cell, Rid, Value, key};

/// What is left of a row.
struct Rest {
    /// The cells of its groups.
    cells: Vec<Cell>,
    /// Groups that are what they were.
    whole: BTreeSet<usize>,
    /// What it showed, where that is known.
    known: Vec<Option<Value>>,
}

impl Fold<'_> {
    /// A row is gone: the next even causal length, or none if its parent took it along. It keeps its
    /// values. Returns the groups that keep something else than the row showed.
    pub(super) fn delete(
        &mut self,
        t: &Tracked,
        gone: &Gone,
        before: Before,
    ) -> Result<BTreeSet<usize>> {
        let first = before.first().cloned();
        let Before { mut stored, image, start, cascaded, .. } = before;
        let told = image.is_some();
        let Image { row: old, mut cells } = image.unwrap_or_default();
        let mut last: Vec<Option<Value>> = old.iter().cloned().map(Some).collect();
        let mut whole = BTreeSet::new();
        if !told {
            Rest { cells, whole, known: last } = self.lost(t, &stored, &gone.was)?;
        }
        let mut written = self.stamps.of_groups(t, &gone.written);
        let columns = (0..t.table.groups.len()).map(|g| t.table.groups[g].columns[0]);
        for (g, c) in columns.enumerate().filter(|_| !old.is_empty()) {
            let before = self.counted_from(t, g, first.as_ref(), &stored)?;
            let group = &mut stored.state.groups[g];
            if let Some(&stamp) = written.get(&g)
                && counter::write(t, g, group, before, &old[c], stamp)
            {
                written.remove(&g);
            }
        }
        self.as_told(t, &stored, &mut cells)?;
        self.overridden_until_pinned(t, &stored, &cells, &mut written);
        let start = start.map(|start| start.row);
        if !old.is_empty() {
            self.formerly(t, &old, start.clone());
        }
        self.refs.leaves(t, &stored.rid, start, last, None);
        let mut apart = BTreeSet::new();
        let stamp = self.stamps.at(gone.at);
        self.deletes_unshown(t, &stored, first.as_ref(), stamp)?;
        if !told {
            self.deletes_stashed(t, &stored, stamp)?;
        }
        for (g, group) in stored.state.groups.iter_mut().enumerate() {
            let shown = || Body::Stored(cells[g].clone());
            let lost = !told && !whole.contains(&g) && !group.stamp.is_zero();
            if lost && group.body == Body::InTable {
                *group = GroupState { body: shown(), ..GroupState::shown(stamp) };
            } else if let Some(&stamp) = written.get(&g).filter(|_| group.counts.is_empty()) {
                *group = GroupState { body: shown(), ..GroupState::shown(stamp) };
                self.done.columns += 1;
            } else if group.body == Body::InTable {
                group.body = shown();
            } else {
                apart.insert(g);
            }
        }
        let header = &mut stored.state.header;
        // A dead row that was shown for another's sake has nothing to come back to.
        if cascaded && header.alive() {
            header.cascade(stamp);
            self.wrote.acted.push((t.no, stored.rid.clone(), Acted::Deleted));
        } else {
            header.delete(stamp);
        }
        if !cascaded {
            self.became(t, &stored.rid, Became::Gone(first));
        }
        stored.loc = None;
        if let Loc::Row(number) = gone.was {
            numbers::keep(self.conn, self.meta, t, &stored.rid, number)?;
        }
        self.put(t, &stored)?;
        Ok(apart)
    }

    /// R-MIG-FK: what a value refers to under a foreign key that is new here, where others have said it of the
    /// value. Another row may have the key here.
    fn as_told(&self, t: &Tracked, stored: &Stored, cells: &mut [Cell]) -> Result<()> {
        for &f in &t.new_keys {
            let Some(piece) = stash::told(self.conn, self.meta, t, stored, f)? else { continue };
            let g = t.table.columns[t.table.foreign_keys[f].columns[0]].group;
            let place = t.table.groups[g].foreign_keys.iter().position(|&of| of == f);
            let said =
                piece.keys.iter().zip(&piece.cell.refs).find(|(key, _)| **key == t.key_names[f]);
            if let (Some(place), Some((_, rid))) = (place, said) {
                cells[g].refs[place].clone_from(rid);
            }
        }
        Ok(())
    }

    /// What is left of a row that was at `was`.
    fn lost(&self, t: &Tracked, stored: &Stored, was: &Loc) -> Result<Rest> {
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
