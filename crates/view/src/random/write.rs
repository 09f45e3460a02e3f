//! A write of a replica in memory, as a fold takes it: the user sees it, and it stays (R-COMP).
//!
//! Only what no foreign key acts on is written here.

use super::sql;
use crate::affected::{AffectedRow, Refused};
use crate::catalog::Loc;
use crate::conflict::ConflictKind;
use crate::facts::Facts;
use crate::ledger::Ledger;
use crate::local_wins::{Wrote, attempt, overrode};
use crate::memory::{Memory, Seen};
use crate::schema::Action;
use crate::state::{self, Body, GroupState, RowState, Stored};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Cell, Header, Hlc, Register, Rid, RowChange, Stamp, Value};

/// What a user writes.
pub enum Write {
    /// This row, here.
    Insert(Rid, Loc, Vec<Value>),
    /// This row there: it is here then, and so are the values of one group.
    Update(Loc, usize, Loc, Vec<Value>),
    /// The row there goes.
    Delete(Loc),
}

impl Ledger for Memory<'_> {
    fn facts(&self) -> Box<dyn Facts + '_> {
        Box::new(self.clone())
    }

    fn tick(&mut self) -> Stamp {
        self.clock += 1;
        Stamp { hlc: Hlc(self.clock), site: self.site }
    }

    fn save(&mut self, table: usize, stored: &mut Stored) -> Result<()> {
        self.put(table, stored);
        Ok(())
    }

    fn wait(&mut self, stored: &Stored, references: Vec<(u32, &Rid)>) -> Result<()> {
        let references = references.into_iter().map(|(no, rid)| (no, rid.clone())).collect();
        self.waits_for(stored, references);
        Ok(())
    }

    fn apply(&mut self, affected: Vec<AffectedRow>, _: Option<&mut Refused>) -> Result<()> {
        self.show(affected)
    }
}

impl Memory<'_> {
    /// Folds a write, and shows what it means for others. The row is where it is written already, for
    /// the user wrote it.
    pub fn write(&mut self, table: usize, write: Write) -> Result<()> {
        let (conflicts, waits) = (self.waiting()?.contested, self.waiting()?.any);
        let mut wrote = Wrote::default();
        self.pin(&mut wrote)?;
        let t = self.table(table);
        let columns: Vec<usize> = match &write {
            Write::Insert(..) => (0..t.table.columns.len()).collect(),
            Write::Update(_, g, ..) => t.table.groups[*g].columns.clone(),
            Write::Delete(..) => vec![],
        };
        let mut former = Vec::new();
        let mut stored = match write {
            Write::Insert(rid, loc, row) => {
                let (stored, hidden) = self.insert(table, rid, loc, row)?;
                if let Some(state) = hidden {
                    for (group, of) in state.groups.iter().zip(&t.table.groups) {
                        let Body::Stored(cell) = &group.body else { continue };
                        wrote.released.extend(self.parents(table, &of.foreign_keys, cell));
                    }
                    former.push(state.kept_row(t));
                }
                stored
            }
            Write::Update(from, g, to, row) => {
                former.extend([self.rows(table)[&from].clone(), row.clone()]);
                self.update(table, &from, g, (to, row), &mut wrote)?
            }
            Write::Delete(from) => {
                former.push(self.rows(table)[&from].clone());
                self.delete(table, &from)?
            }
        };
        if conflicts {
            wrote.former.extend(former.into_iter().map(|row| (table, row)));
        }
        let entry = stored.entry.is_some();
        self.put(table, &mut stored);
        let references = state::kept_references(self.catalog(), t, &stored, false);
        let waits = waits || !references.is_empty();
        if conflicts || waits && (entry || !references.is_empty()) {
            self.wait(&stored, references)?;
        }
        let awaited = waits && !self.waiting_for_row(table, &stored.rid)?.is_empty();
        if conflicts || awaited {
            wrote.touched.push((t.no, stored.rid.clone()));
        }
        self.repair(&wrote, (table, &stored.rid), &columns)
    }

    /// Returns what the row was if it was hidden.
    fn insert(
        &mut self,
        table: usize,
        rid: Rid,
        loc: Loc,
        row: Vec<Value>,
    ) -> Result<(Stored, Option<RowState>)> {
        let stamp = self.tick();
        let mut stored = self.of(table, &rid)?.unwrap_or_else(|| unknown(rid));
        let hidden = stored.state.header.alive().then(|| stored.state.clone());
        stored.state.header.insert(stamp);
        stored.state.groups = RowState::born(self.table(table), stamp).groups;
        self.put_row(table, None, Some((loc.clone(), row)));
        stored.loc = Some(loc);
        Ok((stored, hidden))
    }

    fn update(
        &mut self,
        table: usize,
        from: &Loc,
        g: usize,
        to: (Loc, Vec<Value>),
        wrote: &mut Wrote,
    ) -> Result<Stored> {
        let stamp = self.tick();
        let mut stored = self.known(table, from)?;
        let old = self.rows(table)[from].clone();
        let keeps = self.table(table).table.groups[g].keeps_previous;
        let previous = keeps.then(|| self.cell(table, g, &old)).transpose()?;
        let stamps = BTreeMap::from([(g, stamp)]);
        wrote.acted.extend(overrode(&*self, self.catalog(), table, &stored, &stamps)?);
        stored.state.groups[g] = GroupState { previous, ..GroupState::shown(stamp) };
        for g in self.fallbacks(table, &stored, g) {
            stored.state.groups[g] = GroupState::shown(stamp);
        }
        stored.loc = Some(to.0.clone());
        self.put_row(table, Some(from), Some(to));
        Ok(stored)
    }

    fn delete(&mut self, table: usize, from: &Loc) -> Result<Stored> {
        let stamp = self.tick();
        let mut stored = self.known(table, from)?;
        let old = self.rows(table)[from].clone();
        for (g, group) in stored.state.groups.iter_mut().enumerate() {
            if group.body == Body::InTable {
                group.body = Body::Stored(self.cell(table, g, &old)?);
            }
        }
        stored.state.header.delete(stamp);
        self.put_row(table, Some(from), None);
        stored.loc = None;
        Ok(stored)
    }

    /// A fold when nothing was written: numbers that were shown become permanent (R-PIN). Whether any did.
    pub fn fold(&mut self) -> Result<bool> {
        let mut wrote = Wrote::default();
        let pinned = self.pin(&mut wrote)?;
        let nobody = Rid::Birth { site: self.site, n: u64::MAX };
        self.repair(&wrote, (usize::MAX, &nobody), &[])?;
        Ok(pinned)
    }

    /// The rows that are shown, as `table: values`, in order.
    pub fn shown_rows(&self) -> Vec<String> {
        let of = |table: usize| {
            let name = &self.table(table).table.name;
            self.rows(table).values().map(move |row| format!("{name}: {}", sql::shown(row)))
        };
        let mut rows: Vec<String> = (0..self.tables()).flat_map(of).collect();
        rows.sort();
        rows
    }

    /// A write as others learn of it.
    pub fn told(&mut self, table: usize, write: Write) -> Result<RowChange> {
        let (t, stamp) = (self.table(table), self.tick());
        let register = |memory: &Memory<'_>, g: usize, row: &[Value], previous: Option<Cell>| {
            let (group, cell) = (g as u32, memory.cell(table, g, row)?);
            Ok::<_, Error>(Register { group, stamp, cell, previous, pinned: false, counts: vec![] })
        };
        let (rid, header, registers) = match write {
            Write::Insert(rid, _, row) => {
                let mut header =
                    self.of(table, &rid)?.map_or(Header::NONE, |stored| stored.state.header);
                header.insert(stamp);
                let groups = 0..t.table.groups.len();
                let registers = groups.map(|g| register(self, g, &row, None));
                (rid, header, registers.collect::<Result<_>>()?)
            }
            Write::Update(from, g, _, row) => {
                let (stored, old) = (self.known(table, &from)?, &self.rows(table)[&from]);
                let keeps = t.table.groups[g].keeps_previous;
                let previous = keeps.then(|| self.cell(table, g, old)).transpose()?;
                (stored.rid, stored.state.header, vec![register(self, g, &row, previous)?])
            }
            Write::Delete(from) => {
                let mut stored = self.known(table, &from)?;
                stored.state.header.delete(stamp);
                (stored.rid, stored.state.header, vec![])
            }
        };
        Ok(RowChange { table: table as u32, rid, header, registers })
    }

    /// R-PIN. Whether any number became permanent.
    fn pin(&mut self, wrote: &mut Wrote) -> Result<bool> {
        let (waiting, mut pinned) = (self.waiting()?, false);
        for table in 0..self.tables() {
            let t = self.table(table);
            let Some(alias) = t.table.renumbers() else { continue };
            let mut places = self.renumbered(table)?;
            places.sort();
            for (id, _) in places {
                let mut stored = self.known(table, &Loc::Row(id))?;
                let (g, stamp) = (t.table.columns[alias].group, self.tick());
                let stamps = BTreeMap::from([(g, stamp)]);
                wrote.acted.extend(overrode(&*self, self.catalog(), table, &stored, &stamps)?);
                let group = &mut stored.state.groups[g];
                let Body::Stored(wanted) = std::mem::replace(&mut group.body, Body::InTable) else {
                    continue;
                };
                *group =
                    GroupState { pinned: true, previous: Some(wanted), ..GroupState::shown(stamp) };
                pinned = true;
                self.put(table, &mut stored);
                if waiting.contested || !self.waiting_for_row(table, &stored.rid)?.is_empty() {
                    wrote.touched.push((t.no, stored.rid.clone()));
                }
            }
        }
        Ok(pinned)
    }

    /// R-PINKEY: groups that show a former value, of a key of which `g` is a part.
    fn fallbacks(&self, table: usize, stored: &Stored, g: usize) -> BTreeSet<usize> {
        let t = &self.table(table).table;
        let shown = stored.loc.as_ref().and_then(|loc| self.rows(table).get(loc));
        let kind = self.conflict(stored);
        let shows_former = |g: usize, previous: &Cell| match kind {
            Some(ConflictKind::Fallback) => true,
            // The record of a row that is kept for another says nothing of its values.
            Some(ConflictKind::RestrictRevived) => shown.is_some_and(|row| {
                t.groups[g].columns.iter().zip(&previous.values).all(|(&c, v)| row[c] == *v)
            }),
            _ => false,
        };
        let parts = |columns: &[usize]| -> BTreeSet<usize> {
            columns.iter().map(|&c| t.columns[c].group).collect()
        };
        let keys = t.uniques.iter().map(|u| parts(&u.columns)).filter(|parts| parts.contains(&g));
        let former = |&other: &usize| {
            let group = &stored.state.groups[other];
            let former = group.previous.as_ref().is_some_and(|cell| shows_former(other, cell));
            other != g && group.body != Body::InTable && former
        };
        keys.flatten().filter(former).collect()
    }

    fn known(&self, table: usize, loc: &Loc) -> Result<Stored> {
        self.at(table, loc)?.ok_or_else(|| Error::Damaged(format!("nobody is at {loc:?}")))
    }

    fn parents(&self, table: usize, keys: &[usize], cell: &Cell) -> Vec<(usize, Rid)> {
        let parent =
            |f: &usize| self.catalog().position(&self.table(table).table.foreign_keys[*f].parent);
        let found = keys.iter().zip(&cell.refs);
        found.filter_map(|(f, rid)| Some((parent(f)?, rid.clone()?))).collect()
    }

    /// Shows what a write means for others. Whatever the user saw stays, and what was `written` to the row
    /// of the user's own.
    fn repair(&mut self, wrote: &Wrote, own: (usize, &Rid), written: &[usize]) -> Result<()> {
        if wrote.touched.is_empty() && wrote.acted.is_empty() {
            return Ok(());
        }
        let before = self.seen();
        let mut check_keys = self.waiting()?.contested;
        let shown = loop {
            let mut trial = self.clone();
            let (catalog, policies) = (self.catalog(), self.policies());
            let refused = &mut Refused::new();
            match attempt(&mut trial, catalog, policies, wrote, check_keys, refused) {
                Ok(()) => break trial,
                Err(Error::Constraint { .. }) if !check_keys => check_keys = true,
                Err(error) => return Err(error),
            }
        };
        *self = shown;
        for ((table, rid), (row, derived)) in &before {
            let table = *table;
            let now = self.of(table, rid)?.and_then(|stored| stored.loc);
            let now = now.map(|loc| self.rows(table)[&loc].clone());
            let t = &self.table(table).table;
            // What it shows of other rows follows these; so may all that it showed in place of something.
            let follows = |c: usize| {
                t.foreign_keys.iter().any(|fk| fk.columns.contains(&c)) && !row[c].is_null()
            };
            let followed = |now: &[Value], c: usize| {
                follows(c) && (!now[c].is_null() || self.follows_to_null(&before, (table, rid), c))
            };
            let stays = |now: &[Value]| {
                let mine = (table, rid) == own;
                let free = |c: usize| *derived && !(mine && written.contains(&c));
                (0..row.len()).all(|c| now[c] == row[c] || free(c) || followed(now, c))
            };
            match now {
                Some(now) if now == *row || stays(&now) => {}
                other => {
                    let name = &self.table(table).table.name;
                    let why = self.of(table, rid)?.and_then(|s| Some(self.conflict(&s)?.clone()));
                    let what = format!(
                        "a fold made {other:?} of {row:?} of {name} {rid:?}: {why:?} {:?}",
                        self.outcomes()
                    );
                    return Err(Error::Damaged(what));
                }
            }
        }
        Ok(())
    }

    /// R-REF: whether a column of a row refers to one that shows NULL there: under CASCADE, or because that row
    /// showed something else in place of the NULL `before` (R-RETURN).
    fn follows_to_null(&self, before: &Seen, (table, rid): (usize, &Rid), c: usize) -> bool {
        let t = self.table(table);
        let Ok(Some(stored)) = self.of(table, rid) else { return false };
        t.table.foreign_keys.iter().enumerate().any(|(f, fk)| {
            let at = fk.columns.iter().position(|&column| column == c);
            let to = stored.state.kept_reference(t, f).zip(self.catalog().position(&fk.parent));
            let shown = to.and_then(|(to, parent)| {
                let loc = self.of(parent, to).ok()??.loc?;
                let (_, derived) = before.get(&(parent, to.clone()))?;
                (*derived || fk.on_update == Action::Cascade).then(|| &self.rows(parent)[&loc])
            });
            at.zip(shown).is_some_and(|(at, row)| row[fk.parent_columns[at]].is_null())
        })
    }
}

fn unknown(rid: Rid) -> Stored {
    let state = RowState { header: Header::NONE, groups: vec![] };
    Stored { entry: None, rid, loc: None, local_seq: 0, state }
}
