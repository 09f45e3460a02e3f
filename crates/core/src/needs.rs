//! What the question of a deleted row is about: the row that was deleted, who deleted it, and what needs it.
//!
//! The states tell it whenever somebody asks, and nothing is decided by it. A row that is hidden for want of
//! another may need it through rows that are hidden themselves.

use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::describe::row_name;
use crate::known::{known_by, known_row};
use crate::records::{Conflict, Deleted, Needing, kept, named};
use crate::referring::Referring;
use crate::refs::Lookup;
use crate::schema::ForeignKey;
use crate::state::{self, Stored};
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
            conflict.deleted = Some(Deleted { row, name, values: vec![], ..deleted(t, &stored) });
            (conflict.needed_by, conflict.needed) = needing(lookup, referring, t, &stored)?;
        }
        ConflictKind::FkCascade | ConflictKind::SetNull | ConflictKind::FkDangling => {
            let found = dead_ancestor(lookup, position, &stored, &conflict.constraint)?;
            conflict.deleted =
                found.map(|(table, stored)| deleted(&lookup.catalog.tables[table], &stored));
        }
        ConflictKind::RowConstraint => {
            // What an action would set may be what the table refuses.
            let sets = |(_, fk): &(usize, &ForeignKey)| fk.on_delete.sets();
            for (f, _) in t.table.foreign_keys.iter().enumerate().filter(sets) {
                let found = dead_ancestor(lookup, position, &stored, &t.key_names[f])?;
                if let Some((table, stored)) = found {
                    conflict.deleted = Some(deleted(&lookup.catalog.tables[table], &stored));
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn deleted(t: &Tracked, stored: &Stored) -> Deleted {
    let state = &stored.state;
    let (by, values) = (state.header.left(), kept(t, state));
    Deleted {
        table: t.table.name.clone(),
        row: row_name(t, None, stored.loc.as_ref(), state, &stored.rid),
        name: known_row(&t.table, None, state, &[]),
        by: (!by.is_zero()).then(|| (by.site, by.hlc.ms())),
        values: named(t, &values),
    }
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

/// The dead row that a row refers to by the foreign key `constraint`, or by any if that is empty;
/// through rows that are hidden themselves.
pub fn dead_ancestor(
    lookup: Lookup<'_>,
    table: usize,
    stored: &Stored,
    constraint: &str,
) -> Result<Option<(usize, Stored)>> {
    let Lookup { conn, meta, catalog } = lookup;
    let mut asked = BTreeSet::new();
    let mut ask = vec![(table, stored.clone(), constraint)];
    while let Some((table, stored, constraint)) = ask.pop() {
        let t = &catalog.tables[table];
        let keys = t.table.foreign_keys.iter().enumerate();
        for (f, fk) in keys.filter(|(f, _)| constraint.is_empty() || t.key_names[*f] == constraint)
        {
            let Some(rid) = stored.state.kept_reference(t, f) else { continue };
            let Some(table) = catalog.position(&fk.parent) else { continue };
            match state::of(conn, meta, &catalog.tables[table], rid)? {
                Some(found) if !found.state.header.alive() => return Ok(Some((table, found))),
                Some(found) if found.loc.is_none() && asked.insert((table, rid.clone())) => {
                    ask.push((table, found, ""));
                }
                _ => {}
            }
        }
    }
    Ok(None)
}
