//! What the question of a deleted row is about: the row that was deleted, who deleted it, and what needs it.
//!
//! The states tell it whenever somebody asks, and nothing is decided by it. A row that is hidden for want of
//! another may need it through rows that are hidden themselves.

use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::describe::row_name;
use crate::known::known_by;
use crate::records::{Conflict, Deleted, Needing, kept, named};
use crate::referring::Referring;
use crate::refs::Lookup;
use crate::schema::{Action, ForeignKey};
use crate::state::{self, RowState, Stored};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::ConflictKind;

/// So many rows that need one are named; the others are counted.
const NAMED: usize = 3;

/// Of so many at most it is found out what they are called.
const LOOKED_AT: usize = 64;

/// Adds to the record of a row which deleted row it is about.
pub fn tell<'c>(
    lookup: Lookup<'c>,
    referring: &Referring<'c>,
    (position, entry): (usize, i64),
    conflict: &mut Conflict,
) -> Result<()> {
    let t = &lookup.catalog.tables[position];
    let Some(stored) = state::entry_by_id(lookup.conn, lookup.meta, t, entry)? else {
        return Ok(());
    };
    match conflict.kind {
        ConflictKind::RestrictRevived => {
            let (row, name) = (conflict.row.clone(), conflict.name.clone());
            let gone = deleted(lookup, t, &stored)?;
            conflict.deleted = Some(Deleted { row, name, values: vec![], again: None, ..gone });
            (conflict.needed_by, conflict.needed) = needing(lookup, referring, t, &stored)?;
        }
        ConflictKind::FkCascade | ConflictKind::SetNull | ConflictKind::FkDangling => {
            let found = lost(lookup, position, &stored, &conflict.constraint)?;
            conflict.deleted = found.map(|lost| lost.told(lookup)).transpose()?;
        }
        ConflictKind::RowConstraint => {
            // What an action would set may be what the table refuses.
            let sets = |(_, fk): &(usize, &ForeignKey)| fk.on_delete.sets();
            for (f, _) in t.table.foreign_keys.iter().enumerate().filter(sets) {
                if let Some(lost) = lost(lookup, position, &stored, &t.key_names[f])? {
                    conflict.deleted = Some(lost.told(lookup)?);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn deleted(lookup: Lookup<'_>, t: &Tracked, stored: &Stored) -> Result<Deleted> {
    let Stored { loc, state, rid, .. } = stored;
    let (by, again) = (state.header.left(), state.header.reinserted);
    let shown = loc.as_ref().map(|loc| t.read(lookup.conn, loc)).transpose()?.flatten();
    let there = state.header.alive() && shown.is_some();
    let row = match shown {
        Some(shown) => shown,
        None => kept(lookup, t, state)?,
    };
    Ok(Deleted {
        table: t.table.name.clone(),
        row: row_name(t, Some(&row), loc.as_ref(), state, rid),
        name: known_by(&t.table, &row, &[]),
        by: (!by.is_zero()).then(|| (by.site, by.hlc.ms())),
        again: there.then(|| (again.site, again.hlc.ms())),
        values: if there { vec![] } else { named(t, &row) },
    })
}

/// The first rows that are shown and refer to this one, in an order that is the same on all sites, and how many do.
fn needing<'c>(
    lookup: Lookup<'c>,
    referring: &Referring<'c>,
    t: &Tracked,
    stored: &Stored,
) -> Result<(Vec<Needing>, u64)> {
    let (mut found, mut rows) = (Vec::new(), BTreeMap::new());
    let Some(loc) = &stored.loc else { return Ok((found, 0)) };
    let Some(row) = t.read(lookup.conn, loc)? else { return Ok((found, 0)) };
    for (position, child) in lookup.catalog.tables.iter().enumerate() {
        let keys = child.table.foreign_keys.iter().enumerate();
        for (f, fk) in keys.filter(|(_, fk)| fk.enforced && fk.parent == t.table.name) {
            let key: Vec<_> = fk.parent_columns.iter().map(|&c| row[c].clone()).collect();
            let own = |at: &Loc| child.no == t.no && at == loc;
            for at in referring.to(child, f, &key)?.into_iter().filter(|at| !own(at)) {
                rows.entry((position, at)).or_insert(f);
            }
        }
    }
    for ((position, at), f) in rows.iter().take(LOOKED_AT) {
        let child = &lookup.catalog.tables[*position];
        let values = child.read(lookup.conn, at)?;
        let columns = &child.table.foreign_keys[*f].columns;
        let name = values.as_ref().and_then(|row| known_by(&child.table, row, columns));
        let Some(s) = state::at(lookup.conn, lookup.meta, child, at)? else { continue };
        let row = row_name(child, values.as_deref(), Some(at), &s.state, &s.rid);
        found.push(Needing { table: child.table.name.clone(), row, name });
    }
    found.sort_by(|a, b| (&a.table, &a.row).cmp(&(&b.table, &b.row)));
    found.truncate(NAMED);
    Ok((found, rows.len() as u64))
}

/// A reference that shows nothing, as its row was deleted.
pub struct Lost {
    /// The row that has it: the one that was asked about, or a hidden one on which that hangs.
    pub child: (usize, Stored),
    /// The foreign key.
    pub key: usize,
    /// The row that it is to: dead, or visible in a later life.
    pub parent: (usize, Stored),
}

impl Lost {
    fn told(&self, lookup: Lookup<'_>) -> Result<Deleted> {
        let (table, stored) = &self.parent;
        deleted(lookup, &lookup.catalog.tables[*table], stored)
    }
}

/// The reference for want of which a row is hidden that refers by the foreign key `constraint`, or by any if that is
/// empty; through rows that are hidden themselves.
pub fn lost(
    lookup: Lookup<'_>,
    table: usize,
    stored: &Stored,
    constraint: &str,
) -> Result<Option<Lost>> {
    let Lookup { conn, meta, catalog } = lookup;
    let mut asked = BTreeSet::new();
    let mut ask = vec![(table, stored.clone(), constraint)];
    while let Some((table, stored, constraint)) = ask.pop() {
        let t = &catalog.tables[table];
        let keys = t.table.foreign_keys.iter().enumerate();
        for (f, fk) in keys.filter(|(f, _)| constraint.is_empty() || t.key_names[*f] == constraint)
        {
            let Some(rid) = stored.state.kept_reference(t, f) else { continue };
            let Some(above) = catalog.position(&fk.parent) else { continue };
            let Some(found) = state::of(conn, meta, &catalog.tables[above], rid)? else { continue };
            let former = found.loc.is_some() && is_former(t, f, &stored.state, &found.state);
            if former || !found.state.header.alive() {
                return Ok(Some(Lost { child: (table, stored), key: f, parent: (above, found) }));
            }
            if found.loc.is_none() && asked.insert((above, rid.clone())) {
                ask.push((above, found, ""));
            }
        }
    }
    Ok(None)
}

/// R-INC: whether foreign key `f` of a row is to a former life of the row that it is to, and its action says that
/// this is not shown.
pub fn is_former(t: &Tracked, f: usize, child: &RowState, parent: &RowState) -> bool {
    let fk = &t.table.foreign_keys[f];
    let group = t.table.columns[fk.columns[0]].group;
    let acts = fk.on_delete == Action::Cascade || fk.on_delete.sets();
    acts && fk.enforced && child.groups[group].stamp < parent.header.reinserted
}
