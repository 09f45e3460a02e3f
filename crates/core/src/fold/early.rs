//! References that were written before a row had the key by which they find it, or before it was there:
//! with foreign keys off, or deferred, a child may come first.
//!
//! Such a reference is to that row (R-REBIND). By its stamp it would be to a key that was changed since
//! (R-FK-ONUPDATE), or to a former life of the row (R-INC). So it counts from when it was answered.

use super::Fold;
use crate::Result;
use crate::catalog::Tracked;
use crate::referring::Referring;
use crate::schema::ForeignKey;
use crate::state::{self, Body, GroupState, Stored};
use synqlite_view::protect::overrides;
use synqlite_wire::{Cell, Rid, Stamp};

impl Fold<'_> {
    /// Notes that a row got keys, or lives again.
    pub(super) fn takes(&mut self, t: &Tracked, rid: &Rid) {
        let Some(position) = self.catalog.position_of_no(t.no) else { return };
        let mut references = self.catalog.references_to(position);
        let acts = references
            .any(|(child, f)| self.acts(&self.catalog.tables[child].table.foreign_keys[f]));
        if acts {
            self.refs.took.push((position, rid.clone()));
        }
    }

    /// Whether a reference can be older than what it is to.
    fn acts(&self, fk: &ForeignKey) -> bool {
        self.given.keeps(fk) && (fk.on_update.sets() || fk.on_delete.acts())
    }

    /// References that the rows which got keys answer count from then on.
    pub(super) fn early(&mut self) -> Result<()> {
        let (catalog, referring) = (self.catalog, Referring::new(self.conn));
        for (parent, rid) in std::mem::take(&mut self.refs.took) {
            let p = &catalog.tables[parent];
            let Some(stored) = state::of(self.conn, self.meta, p, &rid)? else { continue };
            let Some(loc) = &stored.loc else { continue };
            let Some(row) = p.read(self.conn, loc)? else { continue };
            for (child, f) in self.refs.to(parent) {
                let c = &catalog.tables[child];
                let fk = &c.table.foreign_keys[f];
                let Some(key) = fk.parent_key(&row).filter(|_| self.acts(fk)) else { continue };
                let g = p.table.columns[fk.parent_columns[0]].group;
                let cell = match &stored.state.groups[g].body {
                    Body::Stored(cell) => cell.clone(),
                    Body::InTable => self.lookup().cell(p, g, &row)?,
                };
                for loc in referring.to(c, f, &key)? {
                    let Some(mut refers) = state::at(self.conn, self.meta, c, &loc)? else {
                        continue;
                    };
                    let group = &mut refers.state.groups[c.table.columns[fk.columns[0]].group];
                    let since = answered(p, fk, &stored, &cell, group.stamp);
                    let later = |since: &Stamp| group.body == Body::InTable && group.stamp < *since;
                    if let Some(stamp) = since.filter(later) {
                        *group = GroupState { stamp, column_stamps: vec![], ..group.clone() };
                        self.put(c, &refers)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Since when a row answers a reference that was `written` to its key, which is `cell`: since it got the
/// key, or since its present life began.
fn answered(
    p: &Tracked,
    fk: &ForeignKey,
    stored: &Stored,
    cell: &Cell,
    written: Stamp,
) -> Option<Stamp> {
    let key = &stored.state.groups[p.table.columns[fk.parent_columns[0]].group];
    let changed = overrides(p, fk, (key, cell), written).then_some(key.stamp);
    let reborn = fk.on_delete.acts().then_some(stored.state.header.reinserted);
    changed.into_iter().chain(reborn).max()
}
