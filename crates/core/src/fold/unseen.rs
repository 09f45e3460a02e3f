//! R-TOLD: what a fold writes over although its site did not show it. Its user cannot have seen it.

use super::Fold;
use super::before::Image;
use crate::Result;
use crate::catalog::Tracked;
use crate::counter;
use crate::merge::{Columns, Subject, Write};
use crate::registry;
use crate::state::{self, Body, GroupState, RowState, Stored, stash};
use synqlite_view::ConflictKind;
use synqlite_wire::{Cell, Stamp, Value};

/// A group that was written over: what it was, and when it was written.
pub(super) struct Over {
    pub g: usize,
    pub before: GroupState,
    pub stamp: Stamp,
}

impl Fold<'_> {
    /// A living row that was hidden, with this state, has been inserted anew as `stored`, and shows
    /// `row`. Who deleted its parent has seen what was there then.
    pub(super) fn over_hidden(
        &mut self,
        t: &Tracked,
        was: &RowState,
        stored: &Stored,
        row: &[Value],
    ) -> Result<()> {
        let left = was.header.left();
        // A row may hold values from before the one that had its key went. Where it was inserted anew and
        // somebody deleted it later without having seen that, nobody but its writer has seen it.
        let anew = was.header.cl > 1 && was.header.inserted <= was.header.deleted;
        let unseen = was.header.inserted > left || anew;
        for (g, (before, after)) in was.groups.iter().zip(&stored.state.groups).enumerate() {
            let kind = match before.stamp == was.header.inserted || before.stamp <= left {
                true => ConflictKind::KeyMerge,
                false => ConflictKind::Overwritten,
            };
            if unseen || latest(before) > left {
                let over = Over { g, before: before.clone(), stamp: latest(after) };
                self.over(t, stored, &over, kind, row)?;
            }
        }
        let counts = |stamp: Stamp| unseen || stamp > left;
        self.over_lost(t, was, stored, counts, row)
    }

    /// The same of columns that a rebuild dropped, or only named anew, since the row was inserted: what it
    /// has there now is not known.
    fn over_lost(
        &mut self,
        t: &Tracked,
        was: &RowState,
        stored: &Stored,
        counts: impl Fn(Stamp) -> bool,
        row: &[Value],
    ) -> Result<()> {
        if !self.given.stale.contains_key(&t.no) {
            return Ok(());
        }
        let lost = registry::lost_columns(self.conn, t)?;
        for piece in stash::of(self.conn, self.meta, t.no, &stored.rid)? {
            if piece.pinned
                || !counts(piece.stamp)
                || !piece.columns.iter().any(|no| lost.contains_key(no))
            {
                continue;
            }
            let kind = match piece.stamp == was.header.inserted {
                true => ConflictKind::KeyMerge,
                false => ConflictKind::Overwritten,
            };
            let columns = Columns::numbered(t, &lost, &piece.columns);
            let write = Write { stamp: piece.stamp, values: piece.cell.values };
            let subject = self.subject(t, stored, Some(row));
            self.told.push(subject.dropped(kind, &columns, &write, stored.state.header.inserted));
        }
        Ok(())
    }

    /// Groups of a visible row were written over, which showed `shown`.
    pub(super) fn over_unshown(
        &mut self,
        t: &Tracked,
        stored: &Stored,
        shown: Option<&Image>,
        mut over: Vec<Over>,
    ) -> Result<()> {
        over.retain(|over| over.before.body != Body::InTable);
        if over.is_empty() || !self.shows_less(stored)? {
            return Ok(());
        }
        let Some(loc) = &stored.loc else { return Ok(()) };
        let Some(row) = t.read(self.conn, loc)? else { return Ok(()) };
        for over in over.iter().filter(|over| !shows(t, over.g, &over.before, shown)) {
            self.over(t, stored, over, ConflictKind::Overwritten, &row)?;
        }
        Ok(())
    }

    /// A row that was visible, with this state, is deleted, by the user or with its parent.
    pub(super) fn deletes_unshown(
        &mut self,
        t: &Tracked,
        stored: &Stored,
        shown: Option<&Image>,
        stamp: Stamp,
    ) -> Result<()> {
        let kept = |group: &GroupState| group.body != Body::InTable && !group.pinned;
        if !stored.state.groups.iter().any(kept) || !self.shows_less(stored)? {
            return Ok(());
        }
        let all = 0..stored.state.groups.len();
        self.deletes_other(t, stored, shown, all.filter(|&g| kept(&stored.state.groups[g])), stamp);
        Ok(())
    }

    /// These groups of a row that is deleted are told, as far as its user saw something else in their place.
    pub(super) fn deletes_other(
        &mut self,
        t: &Tracked,
        stored: &Stored,
        shown: Option<&Image>,
        groups: impl Iterator<Item = usize>,
        stamp: Stamp,
    ) {
        for g in groups {
            let group = &stored.state.groups[g];
            let Body::Stored(cell) = &group.body else { continue };
            if latest(group).is_zero() || shows(t, g, group, shown) {
                continue;
            }
            let columns = Columns::of(t, &t.table.groups[g].columns);
            let lost = Write { stamp: latest(group), values: cell.values.clone() };
            let subject = self.subject(t, stored, None);
            self.told.push(subject.deleted(&columns.named(), &columns, &lost, stamp));
        }
    }

    /// A row is deleted with a table that is made again: what came for it while the table was gone was never
    /// shown here.
    pub(super) fn deletes_stashed(
        &mut self,
        t: &Tracked,
        stored: &Stored,
        by: Stamp,
    ) -> Result<()> {
        for piece in stash::of(self.conn, self.meta, t.no, &stored.rid)? {
            let here = |no: &u32| t.column_nos.iter().position(|n| n == no);
            let columns: Option<Vec<usize>> = piece.columns.iter().map(here).collect();
            let Some(columns) = columns.filter(|_| !piece.pinned) else { continue };
            let known = |&c: &usize| stored.state.column_stamp(t, c) >= piece.stamp;
            if piece.stamp.site == self.meta.site || columns.iter().all(known) {
                continue;
            }
            let columns = Columns::of(t, &columns);
            let lost = Write { stamp: piece.stamp, values: piece.cell.values };
            let subject = self.subject(t, stored, None);
            self.told.push(subject.deleted(&columns.named(), &columns, &lost, by));
        }
        Ok(())
    }

    fn subject<'a>(
        &'a self,
        t: &'a Tracked,
        stored: &'a Stored,
        row: Option<&'a [Value]>,
    ) -> Subject<'a> {
        let (here, sites) = (self.meta.site, &self.meta.names);
        Subject { t, rid: &stored.rid, row, stored: Some(stored), here, sites }
    }

    /// Whether a visible row has a record, so that it shows less than was written.
    fn shows_less(&self, stored: &Stored) -> Result<bool> {
        let Some(entry) = stored.entry.filter(|_| self.given.conflicts) else { return Ok(false) };
        let conflict = state::conflict(self.conn, entry)?;
        Ok(conflict.is_some_and(|(kind, _)| {
            matches!(kind, ConflictKind::Fallback | ConflictKind::SetNull)
        }))
    }

    /// A group that kept what its row did not show was written over, and shows what is in `row`.
    fn over(
        &mut self,
        t: &Tracked,
        stored: &Stored,
        over: &Over,
        kind: ConflictKind,
        row: &[Value],
    ) -> Result<()> {
        let Over { g, ref before, stamp } = *over;
        let Body::Stored(cell) = &before.body else { return Ok(()) };
        let columns = &t.table.groups[g].columns;
        let sum = counter::sum(t, g, before, cell);
        let lost = sum.map_or_else(|| cell.values.clone(), |sum| vec![sum]);
        let now = self.lookup().cell(t, g, row)?;
        if before.pinned || latest(before).is_zero() || means_the_same(t, g, (cell, &lost), &now) {
            return Ok(());
        }
        let lost = Write { stamp: latest(before), values: lost };
        let kept = Write { stamp, values: now.values };
        let subject = self.subject(t, stored, Some(row));
        let why = "later and was written where the other was not shown";
        self.told.push(subject.gives_way(kind, &Columns::of(t, columns), &lost, &kept, why));
        Ok(())
    }
}

/// Whether a row showed what a group keeps: a sum, or the same in another spelling.
fn shows(t: &Tracked, g: usize, group: &GroupState, shown: Option<&Image>) -> bool {
    let (Body::Stored(cell), true) = (&group.body, group.counts.is_empty()) else { return true };
    shown.is_some_and(|shown| means_the_same(t, g, (cell, &cell.values), &shown.cells[g]))
}

fn latest(group: &GroupState) -> Stamp {
    group.stamps().max().unwrap_or(Stamp::ZERO)
}

/// Whether a cell, with these values, says what another does: each column is the same, or a part of a
/// reference to the same row.
fn means_the_same(t: &Tracked, g: usize, (cell, values): (&Cell, &[Value]), now: &Cell) -> bool {
    let group = &t.table.groups[g];
    let refers_alike = |c: usize| {
        let refs = group.foreign_keys.iter().zip(cell.refs.iter().zip(&now.refs));
        let mut alike = refs.filter(|(_, (a, b))| a.is_some() && a == b);
        alike.any(|(&f, _)| t.table.foreign_keys[f].columns.contains(&c))
    };
    let mut columns = group.columns.iter().zip(values.iter().zip(&now.values));
    columns.all(|(&c, (a, b))| a == b || refers_alike(c))
}
