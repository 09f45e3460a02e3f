//! A row that was there at the last fold and still is: what was written to it, and what only followed
//! from writes to others.

use super::Fold;
use super::before::{Before, Image};
use super::spelling::{keep_spelling, respelled};
use super::unified::Became;
use super::unseen::Over;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::counter;
use crate::equal;
use crate::history;
use crate::journal::Changed;
use crate::merge::overrode;
use crate::schema::{Column, ForeignKey};
use crate::state::{self, Body, GroupState, Stored, shown, sums};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::ConflictKind;
use synqlite_view::local_wins::Acted;
use synqlite_wire::{Cell, Stamp, Value};

/// Groups that were written, and when last.
type Written = BTreeMap<usize, Stamp>;

/// A group of a row that was updated.
pub(super) struct Update<'r> {
    pub t: &'r Tracked,
    pub g: usize,
    /// What the row showed before.
    pub old: &'r [Value],
    /// The group in it, with what its references were to.
    pub cell: &'r Cell,
    /// What the state keeps of the group.
    pub body: &'r Body,
    /// What the row shows now.
    pub new: &'r [Value],
}

impl Fold<'_> {
    pub(super) fn change(
        &mut self,
        t: &Tracked,
        from: &Loc,
        changed: &Changed,
        before: Before,
    ) -> Result<()> {
        let first = before.first().cloned();
        let Before { mut stored, image, start, replaced, .. } = before;
        let start = start.map(|start| start.row);
        // What follows a parent's key is no write, and shows something else all the same.
        sums::touch(self.meta, t, &changed.now, stored.entry.unwrap_or_default());
        if self.given.conflicts
            && let Some(now) = t.read(self.conn, &changed.now)?
        {
            match (&image, changed.replaced) {
                (Some(old), Some(_)) => self.formerly(t, &old.row, start.clone()),
                _ => self.formerly(t, &now, first.as_ref().map(|first| first.row.clone())),
            }
        }
        let mut written = self.stamps.of_groups(t, &changed.written);
        let replaced = self.emptied(t, &written, image.as_ref(), &changed.now, replaced)?;
        written.retain(|g, _| !replaced.contains_key(g));
        let acted = !replaced.is_empty();
        self.keep_replaced(t, &mut stored, replaced, image.as_ref());
        if let (Some(replaced), Some(Image { row: old, .. })) = (changed.replaced, &image) {
            let last = old.iter().cloned().map(Some).collect();
            self.refs.leaves(t, &stored.rid, start, last, None);
            let stamp = self.stamps.at(replaced.at);
            stored.state.header.insert(stamp);
            let Some(new) = t.read(self.conn, &changed.now)? else { return Ok(()) };
            self.reinserted(t, stamp, old, &new, &mut written);
            self.became(t, &stored.rid, Became::Gone(first.clone()));
        }
        let only_counted = written.keys().all(|&g| t.table.groups[g].counter);
        let updated = image.filter(|_| changed.previous.is_some() && changed.replaced.is_none());
        let moved = *from != changed.now;
        let (mut keeps, mut now) = (false, None);
        if let Some(image) = &updated
            && let Some(new) = t.read(self.conn, &changed.now)?
        {
            for g in (0..t.table.groups.len()).filter(|&g| self.given.has_image(t, g)) {
                if respelled(t, g, &image.row, &new) {
                    written.entry(g).or_insert(self.stamps.at(changed.last));
                }
            }
            keeps = self.followers(t, image, &new, &mut stored, &mut written)?;
            now = Some(new).filter(|_| !moved);
        }
        if let Some(old) = updated.filter(|_| moved || !only_counted) {
            let old = old.row.into_iter().map(Some).collect();
            self.refs.leaves(t, &stored.rid, None, old, now.as_deref());
        }
        if written.is_empty() && !moved && changed.replaced.is_none() && !acted && !keeps {
            shown::note(self.conn, self.meta, t.no, &stored.rid)?;
            if stored.entry.is_some() {
                state::put(self.conn, self.meta, t, &stored, None)?;
            }
            return Ok(());
        }
        self.stamp_change(t, changed, first.as_ref(), stored, &written)
    }

    /// Adds what a REPLACE wrote: `old` was displaced by `new`, with this stamp.
    fn reinserted(
        &self,
        t: &Tracked,
        stamp: Stamp,
        old: &[Value],
        new: &[Value],
        written: &mut Written,
    ) {
        // Since the row was replaced its columns may have got other types.
        let same = |c: usize, column: &Column| {
            old[c] == new[c] || equal::stored(&old[c], column.affinity) == new[c]
        };
        let columns = t.table.columns.iter().enumerate();
        for (_, column) in columns.filter(|&(c, column)| !same(c, column)) {
            let entry = written.entry(column.group).or_insert(stamp);
            *entry = (*entry).max(stamp);
        }
        // A reference to the row itself is to its present life, not to the former one, which some
        // actions would tell apart (R-INC).
        let ends = |fk: &&ForeignKey| {
            fk.on_delete.acts() && self.given.keeps(fk) && fk.parent == t.table.name
        };
        for fk in t.table.foreign_keys.iter().filter(ends) {
            let mut key = fk.columns.iter().zip(&fk.parent_columns);
            if key.all(|(&c, &p)| new[c] == new[p] && !new[c].is_null()) {
                written.entry(t.table.columns[fk.columns[0]].group).or_insert(stamp);
            }
        }
    }

    /// Takes away what only followed the keys of other rows. Whether the state of a group keeps another
    /// spelling now.
    fn followers(
        &mut self,
        t: &Tracked,
        was: &Image,
        new: &[Value],
        stored: &mut Stored,
        written: &mut Written,
    ) -> Result<bool> {
        let (mut followed, mut keeps) = (Vec::new(), false);
        for &g in written.keys().filter(|&&g| self.given.has_image(t, g)).collect::<Vec<_>>() {
            let (body, cell) = (&stored.state.groups[g].body, &was.cells[g]);
            if self.followed(&Update { t, g, old: &was.row, cell, body, new })? {
                // What was shown instead of what was written may not be what follows from it now.
                if matches!(body, Body::Stored(kept) if kept.refs != cell.refs) {
                    self.wrote.acted.push((t.no, stored.rid.clone(), Acted::Set(g)));
                }
                keeps |= keep_spelling(t, g, &mut stored.state.groups[g], cell);
                followed.push(g);
            }
        }
        written.retain(|g, _| !followed.contains(g));
        self.refs.followed.extend(followed.into_iter().map(|g| (t.no, stored.rid.clone(), g)));
        Ok(keeps)
    }

    /// Stamps the groups that were written, and saves the row. `first`: what it showed at the last fold.
    fn stamp_change(
        &mut self,
        t: &Tracked,
        changed: &Changed,
        first: Option<&Image>,
        mut stored: Stored,
        written: &Written,
    ) -> Result<()> {
        if self.given.waits && self.given.enforces {
            // What a key overrode may not come back with the same key in another spelling.
            self.wrote.acted.extend(overrode(self.lookup(), t, &stored, written)?);
        }
        let mut over = self.stamp_groups(t, &changed.now, first, &mut stored, written)?;
        if let Some(&stamp) = written.values().max() {
            // R-COMP: its user has seen the row that another site had deleted, and goes on with it.
            stored.state.header.revive(stamp);
            if self.given.lasting.contains(&t.no) {
                stored.state.header.outlive(stamp);
            }
        }
        let pinned = self.fallbacks(t, &stored, first, written)?;
        for (&g, &stamp) in &pinned {
            let now = GroupState::shown(stamp);
            let before = std::mem::replace(&mut stored.state.groups[g], now);
            over.push(Over { g, before, stamp });
        }
        stored.loc = Some(changed.now.clone());
        if self.given.history {
            for Over { g, before, .. } in &over {
                history::unwritten(self.conn, self.meta, t, &stored.rid, (*g, before))?;
            }
        }
        self.over_unshown(t, &stored, first, over)?;
        self.done.columns += (written.len() + pinned.len()) as u64;
        self.became(t, &stored.rid, Became::Written(written.keys().copied().collect()));
        self.refs.written(t, written.keys());
        if changed.replaced.is_some() || written.keys().any(|&g| t.table.groups[g].keeps_previous) {
            self.takes(t, &stored.rid);
        }
        let refers = |g: &usize| !t.table.groups[*g].foreign_keys.is_empty();
        if written.keys().any(refers)
            && let Some(row) = t.read(self.conn, &changed.now)?
            && self.dangles(t, &changed.now, &row)?
        {
            self.wrote.touched.push((t.no, stored.rid.clone()));
        }
        self.put(t, &stored)
    }

    /// Gives groups their stamps; counters count instead. Returns those that were written over.
    fn stamp_groups(
        &self,
        t: &Tracked,
        now: &Loc,
        first: Option<&Image>,
        stored: &mut Stored,
        written: &Written,
    ) -> Result<Vec<Over>> {
        let counted = written.keys().any(|&g| counter::adds_up(t, g, &stored.state.groups[g]));
        let new = if counted { t.read(self.conn, now)? } else { None };
        let mut over = Vec::new();
        for (&g, &stamp) in written {
            let before = self.counted_from(t, g, first, stored)?;
            let (c, group) = (t.table.groups[g].columns[0], &mut stored.state.groups[g]);
            if let Some(new) = &new
                && counter::write(t, g, group, before, &new[c], stamp)
            {
                continue;
            }
            let keeps = t.table.groups[g].keeps_previous && self.given.has_image(t, g);
            let previous = first.filter(|_| keeps).map(|first| former(&first.cells[g], group));
            let now = GroupState { previous, ..GroupState::shown(stamp) };
            over.push(Over { g, before: std::mem::replace(group, now), stamp });
        }
        Ok(over)
    }

    /// What a counter showed at the last fold, if images tell. Where triggers do not fit their table, its column may
    /// have been dropped since and added again: then sums say that it showed something else.
    pub(super) fn counted_from<'i>(
        &self,
        t: &Tracked,
        g: usize,
        first: Option<&'i Image>,
        stored: &Stored,
    ) -> Result<Option<&'i Value>> {
        let c = t.table.groups[g].columns[0];
        let known = first.filter(|_| self.given.has_image(t, g)).map(|image| &image.row[c]);
        let adds_up = counter::adds_up(t, g, &stored.state.groups[g]);
        match known {
            Some(value) if adds_up && self.given.stale.contains_key(&t.no) => {
                Ok(sums::showed(self.conn, t, stored, (c, value))?.then_some(value))
            }
            known => Ok(known),
        }
    }

    /// R-PINKEY: who writes a part of a unique key means the whole key as it is shown. So its other
    /// parts that show a former value are written too, when that part is. `first`: what the row showed at
    /// the last fold.
    fn fallbacks(
        &self,
        t: &Tracked,
        stored: &Stored,
        first: Option<&Image>,
        written: &Written,
    ) -> Result<Written> {
        let mut pinned = BTreeMap::new();
        let Some(entry) = stored.entry.filter(|_| self.given.conflicts) else { return Ok(pinned) };
        let kind = state::conflict(self.conn, entry)?.map(|(kind, _)| kind);
        let shows_former = |g: usize, previous: &Cell| match kind {
            Some(ConflictKind::Fallback) => true,
            // The record of a row that is kept for another says nothing of its values.
            Some(ConflictKind::RestrictRevived) => {
                first.is_some_and(|first| first.cells[g] == *previous)
            }
            _ => false,
        };
        for index in &t.table.uniques {
            let parts: BTreeSet<usize> =
                index.columns.iter().map(|&c| t.table.columns[c].group).collect();
            let Some(&stamp) = parts.iter().filter_map(|g| written.get(g)).max() else { continue };
            for g in parts.into_iter().filter(|g| !written.contains_key(g)) {
                let group = &stored.state.groups[g];
                let former = group.previous.as_ref().is_some_and(|cell| shows_former(g, cell));
                if group.body != Body::InTable && former && group.counts.is_empty() {
                    let latest = pinned.entry(g).or_insert(stamp);
                    *latest = stamp.max(*latest);
                }
            }
        }
        Ok(pinned)
    }

    /// R-REF: whether a group changed only because its references followed their rows' keys, as ON
    /// UPDATE CASCADE makes them do. That is no write: the references are to the same rows.
    fn followed(&self, update: &Update<'_>) -> Result<bool> {
        let Update { t, g, old, cell, body, new } = *update;
        let group = &t.table.groups[g];
        if !group.keeps_previous || group.foreign_keys.is_empty() {
            return Ok(false);
        }
        let mut same: BTreeSet<usize> = BTreeSet::new();
        for (i, (&f, rid)) in group.foreign_keys.iter().zip(&cell.refs).enumerate() {
            // A value that names nobody follows nobody.
            let loose = matches!(body, Body::Stored(kept) if kept.refs[i].is_none());
            if loose && rid.is_some() || self.lookup().reference(t, f, new)? != *rid {
                return Ok(false);
            }
            let Some(rid) = rid else { continue };
            if !self.is_spelled(update, f, rid)? {
                return Ok(false);
            }
            same.extend(&t.table.foreign_keys[f].columns);
        }
        Ok(group.columns.iter().all(|c| old[*c] == new[*c] || same.contains(c)))
    }
}

/// What a group showed at the last fold, `cell`, with the references to rows that are gone which it kept: no row
/// has the values by which they would be found.
fn former(cell: &Cell, group: &GroupState) -> Cell {
    let mut former = cell.clone();
    if let Body::Stored(kept) = &group.body
        && kept.values == cell.values
    {
        let refs = former.refs.iter_mut().zip(&kept.refs);
        refs.filter(|(shown, _)| shown.is_none()).for_each(|(shown, kept)| shown.clone_from(kept));
    }
    former
}
