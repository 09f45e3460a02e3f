//! What foreign keys did and no user (R-FK-ACTION).
//!
//! A child that CASCADE deleted, or whose reference SET NULL or SET DEFAULT replaced, is in the
//! journal like any other write. It was an action if it happened after its parent began to leave,
//! by delete, REPLACE or change of key: until then the parent was there, and no action can follow.
//! An action is no write: that the parent is gone is all there is to know, and from that every site
//! derives what the child shows.

use super::before::{Befores, Image};
use super::before_images::BeforeImages;
use crate::catalog::{Loc, Tracked};
use crate::journal::{self, Changed, Gone, Millis, Set, Window};
use crate::schema::{Action, ForeignKey};
use crate::{Result, state};
use rusqlite::params;
use std::collections::BTreeMap;
use synqlite_view::ConflictKind;
use synqlite_view::local_wins::Acted;
use synqlite_wire::{Cell, Rid, Stamp, Value};

/// References that an action replaced, by group: what they were just before, and when a user wrote
/// that, if since the last fold.
pub(super) type Replaced = BTreeMap<usize, (Cell, Option<Millis>)>;

/// Tells actions from writes.
impl BeforeImages<'_> {
    /// Whether CASCADE deleted a row with this last image. By a foreign key that no command has seen yet nobody
    /// else could tell: which row the value is to is said at the next command, of rows that are there.
    fn deleted(&self, t: &Tracked, gone: &Gone, row: &[Value]) -> Result<bool> {
        let Some(at) = gone.began else { return Ok(false) };
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let derived =
                fk.enforced && fk.on_delete == Action::Cascade && !t.new_keys.contains(&f);
            if derived && self.orphaned(t, f, row, at)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The references of a row that actions replaced and nobody wrote since.
    fn replaced(&self, t: &Tracked, changed: &Changed) -> Result<Replaced> {
        let mut replaced = Replaced::new();
        if changed.set.is_empty() {
            return Ok(replaced);
        }
        for (g, group) in t.table.groups.iter().enumerate() {
            let numbered = group.columns.iter().map(|&c| (c, t.column_nos[c]));
            let written = numbered.filter(|(_, no)| changed.written.contains_key(no));
            let sets: Option<Vec<(usize, Set)>> =
                written.map(|(c, no)| Some((c, *changed.set.get(&no)?))).collect();
            let Some(sets) = sets else { continue };
            let Some(first) = sets.iter().map(|(_, set)| *set).min_by_key(|set| set.image) else {
                continue;
            };
            // Two actions on one group, with a write between them: what is left is written.
            let alike = |set: &Set| set.image == first.image || set.since.is_none();
            if !sets.iter().all(|(_, set)| alike(set)) || !self.all_set(t, g, &sets)? {
                continue;
            }
            let Some(row) = journal::image(self.lookup.conn, t, first.image)? else { continue };
            let cells = self.cells(t, &row)?;
            let since = sets.iter().filter_map(|(_, set)| set.since).max();
            replaced.insert(g, (cells[g].clone(), since));
        }
        Ok(replaced)
    }

    /// Whether every one of these columns was set by an action.
    fn all_set(&self, t: &Tracked, g: usize, sets: &[(usize, Set)]) -> Result<bool> {
        for (column, set) in sets {
            let Some(row) = journal::image(self.lookup.conn, t, set.image)? else {
                return Ok(false);
            };
            let mut acted = false;
            for &f in &t.table.groups[g].foreign_keys {
                let fk = &t.table.foreign_keys[f];
                let may = fk.sets() && fk.columns.contains(column);
                acted = acted || may && self.acted(t, f, &row, set.image)?;
            }
            if !acted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the row that foreign key `f` of a former row refers to had begun to leave its key at
    /// journal entry `at`.
    fn acted(&self, t: &Tracked, f: usize, row: &[Value], at: i64) -> Result<bool> {
        let fk = &t.table.foreign_keys[f];
        if fk.on_delete.acts() && self.orphaned(t, f, row, at)? {
            return Ok(true);
        }
        let parent = if fk.sets() { self.referred(fk, row)? } else { None };
        let Some((position, from)) = parent else { return Ok(false) };
        self.renamed(fk, position, &from, at)
    }

    /// Whether the row that foreign key `f` of a former row refers to had begun to go, by a delete or
    /// REPLACE, at journal entry `at`. One whose key changes takes no row along.
    fn orphaned(&self, t: &Tracked, f: usize, row: &[Value], at: i64) -> Result<bool> {
        let parent = self.referred(&t.table.foreign_keys[f], row)?;
        let Some((position, from)) = parent else { return Ok(false) };
        let window = &self.windows[position];
        let began = match (window.gone.get(&from), window.changed.get(&from)) {
            (Some(gone), _) => gone.began,
            (None, Some(changed)) => changed.replaced.map(|replaced| replaced.began),
            (None, None) => None,
        };
        Ok(began.is_some_and(|began| began < at))
    }

    /// The row that a foreign key of a former row refers to: its table, and where it was at the last fold.
    fn referred(&self, fk: &ForeignKey, row: &[Value]) -> Result<Option<(usize, Loc)>> {
        let Some(position) = self.lookup.catalog.position(&fk.parent) else { return Ok(None) };
        let Some(key) = fk.key_of(row) else { return Ok(None) };
        Ok(self.place_of(fk, &key)?.map(|from| (position, from)))
    }

    /// Whether the row that was at `from` had its key changed, before journal entry `at`.
    fn renamed(&self, fk: &ForeignKey, position: usize, from: &Loc, at: i64) -> Result<bool> {
        let parent = &self.lookup.catalog.tables[position];
        let Some(changed) = self.windows[position].changed.get(from) else { return Ok(false) };
        let Some(previous) = changed.previous.filter(|&seq| seq < at) else { return Ok(false) };
        let before = journal::image(self.lookup.conn, parent, previous)?;
        let now = parent.read(self.lookup.conn, &changed.now)?;
        let differs = |(before, now): (Vec<Value>, Vec<Value>)| {
            fk.parent_columns.iter().any(|&c| before[c] != now[c])
        };
        Ok(fk.on_update.sets() && before.zip(now).is_some_and(differs))
    }
}

/// Adds to what the rows were what actions did to them.
pub(super) fn mark(
    images: &BeforeImages<'_>,
    t: &Tracked,
    window: &Window,
    befores: &mut Befores,
) -> Result<()> {
    for (from, before) in befores {
        if let (Some(gone), Some(image)) = (window.gone.get(from), &before.image) {
            before.cascaded = images.deleted(t, gone, &image.row)?;
        }
        if let Some(changed) = window.changed.get(from) {
            before.replaced = images.replaced(t, changed)?;
        }
    }
    Ok(())
}

impl super::Fold<'_> {
    /// Dead rows that were shown because another needed them: perhaps a reference that has changed
    /// was to one of them, or to a row below one.
    pub(super) fn unprotected(&mut self) -> Result<()> {
        let mut ask: Vec<usize> = self.refs.unnamed.iter().copied().collect();
        while let Some(position) = ask.pop() {
            let keys = &self.catalog.tables[position].table.foreign_keys;
            let parents = keys.iter().filter_map(|fk| self.catalog.position(&fk.parent));
            ask.extend(parents.filter(|parent| self.refs.unnamed.insert(*parent)));
        }
        for position in std::mem::take(&mut self.refs.unnamed) {
            let no = self.catalog.tables[position].no;
            let sql = "SELECT rid FROM synqlite_row WHERE kind = ?2 AND +tbl = ?1";
            let mut statement = self.conn.prepare_cached(sql)?;
            let revived = ConflictKind::RestrictRevived;
            let mut rows = statement.query(params![no, revived.as_str()])?;
            while let Some(row) = rows.next()? {
                let rid: Vec<u8> = row.get(0)?;
                self.wrote.touched.push((no, state::decode_rid(self.meta, &rid)?));
            }
        }
        Ok(())
    }

    /// Adds to the references that actions replaced those that followed their row to a key with a
    /// NULL in it: by what they show they would not be found again.
    pub(super) fn emptied(
        &self,
        t: &Tracked,
        written: &BTreeMap<usize, Stamp>,
        image: Option<&Image>,
        now: &Loc,
        mut replaced: Replaced,
    ) -> Result<Replaced> {
        let Some(image) = image else { return Ok(replaced) };
        let cascades = |f: usize| {
            let fk = &t.table.foreign_keys[f];
            self.given.keeps(fk) && fk.on_update == Action::Cascade
        };
        for &g in written.keys().filter(|g| self.given.has_image(t, **g)) {
            let keys = t.table.groups[g].foreign_keys.iter().enumerate();
            for (at, &f) in keys.filter(|(_, f)| cascades(**f)) {
                let Some(rid) = &image.cells[g].refs[at] else { continue };
                if self.follows_to_null(t, (g, f), rid, &image.row, now)? {
                    replaced.insert(g, (image.cells[g].clone(), None));
                    break;
                }
            }
        }
        Ok(replaced)
    }

    /// Whether nothing of a group changed but columns of foreign key `f`, which show the key of the row that
    /// it was to, a NULL in it.
    fn follows_to_null(
        &self,
        t: &Tracked,
        (g, f): (usize, usize),
        rid: &Rid,
        old: &[Value],
        now: &Loc,
    ) -> Result<bool> {
        let (fk, lookup) = (&t.table.foreign_keys[f], self.lookup());
        let Some(new) = t.read(self.conn, now)? else { return Ok(false) };
        let mut changed = t.table.groups[g].columns.iter().filter(|&&c| old[c] != new[c]);
        if !changed.all(|c| fk.columns.contains(c)) || fk.key_of(&new).is_some() {
            return Ok(false);
        }
        let parent = lookup.parent(&fk.parent)?;
        let stored = state::of(self.conn, self.meta, parent, rid)?;
        let Some(loc) = stored.and_then(|stored| stored.loc) else { return Ok(false) };
        let Some(key) = parent.read(self.conn, &loc)? else { return Ok(false) };
        let mut pairs = fk.columns.iter().zip(&fk.parent_columns);
        Ok(pairs.all(|(&c, &p)| new[c] == key[p]))
    }

    /// Adds to the writes of a row that goes the references which a key overrode that was pinned just
    /// now: no round looks at the row any more, and it may be shown again for another's sake.
    pub(super) fn overridden_until_pinned(
        &self,
        t: &Tracked,
        stored: &state::Stored,
        cells: &[Cell],
        written: &mut BTreeMap<usize, Stamp>,
    ) {
        for (no, rid, acted) in &self.wrote.acted {
            // Numbers are pinned before all else.
            let Acted::Pinned(g, stamp) = acted else { break };
            if *no != t.no || *rid != stored.rid {
                continue;
            }
            if let (state::Body::Stored(kept), Some(cell)) =
                (&stored.state.groups[*g].body, cells.get(*g))
                && kept.refs != cell.refs
            {
                written.entry(*g).or_insert(*stamp);
            }
        }
    }

    /// Keeps the references that actions replaced: the row shows something else, derived from what
    /// became of its parent. What a user wrote just before counts as written.
    pub(super) fn keep_replaced(
        &mut self,
        t: &Tracked,
        stored: &mut state::Stored,
        replaced: Replaced,
        image: Option<&Image>,
    ) {
        for (g, (cell, since)) in replaced {
            let group = &mut stored.state.groups[g];
            if let Some(ms) = since {
                group.stamp = self.stamps.at(ms);
                group.column_stamps.clear();
                group.pinned = false;
                let keeps = t.table.groups[g].keeps_previous;
                group.previous = image.filter(|_| keeps).map(|image| image.cells[g].clone());
                group.body = state::Body::Stored(cell);
                self.done.columns += 1;
            } else if group.body == state::Body::InTable {
                group.body = state::Body::Stored(cell);
            }
            self.wrote.acted.push((t.no, stored.rid.clone(), Acted::Set(g)));
        }
    }
}
