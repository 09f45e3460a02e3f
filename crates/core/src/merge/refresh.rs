//! What rows show follows schema and policies at once (R-FOLLOW).
//!
//! The view is a function of states, schema and policies. Where one of the latter changes, the rows
//! that can show something else are those that show something derived: with a record, with a reference
//! or a key that they wait for, or with another number than they ask for. All others show what was
//! written, and SQLite has already held that against every constraint the application declared. Only
//! references are not held against theirs while foreign keys are off; so where foreign keys are new,
//! rows that refer to nobody are looked for, and those whose references actions would have set. Rows
//! that refer to nobody are looked for in and below a table that was made anew too: a reference by value
//! alone names no row that could say that it went. And such a table may have columns that can hold what
//! was written, or store it otherwise than before. Where each site numbered rows for itself, a number that
//! means nobody may be shown as NULL: so where it refers to another table now, or is no reference any more, what
//! was written is shown again.

use super::sqlfacts::SqlFacts;
use super::{apply, show};
use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked};
use crate::equal;
use synqlite_view::affected::AffectedRows;
use synqlite_view::view;

use crate::meta::Meta;
use crate::policy::Policies;
use crate::referring::Referring;
use crate::refs::{Lookup, dangling};
use crate::state::{self, Body, ENTRY_COLUMNS, GroupState};
use rusqlite::Connection;
use std::collections::BTreeSet;
use synqlite_wire::Value;

/// What of the schema is new, by numbers of tables.
#[derive(Default)]
pub(crate) struct Anew {
    /// Foreign keys of these are, or are enforced now, or some are gone.
    pub references: BTreeSet<u32>,
    /// These were made anew.
    pub tables: BTreeSet<u32>,
    /// Each site numbered the rows of these for itself until now (R-OWN).
    pub united: BTreeSet<u32>,
}

/// Shows what schema and policies as they are now make of the states.
pub(crate) fn refresh(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    anew: &Anew,
) -> Result<()> {
    show(conn, meta, |meta, _, refused| {
        let facts = SqlFacts::new(Lookup { conn, meta, catalog });
        let mut affected = AffectedRows::new(catalog, policies, &facts)?;
        for entry in state::derived(conn)? {
            affected.load_entry(entry)?;
        }
        for t in &catalog.tables {
            let anew_to = |no: &u32| anew.references.contains(&t.no) || anew.united.contains(no);
            if anew.tables.contains(&t.no) || anew.references.contains(&t.no) {
                for entry in stored_otherwise(conn, meta, t)? {
                    affected.load_entry(entry)?;
                }
            }
            let keys = t.table.foreign_keys.iter().enumerate();
            let keys = keys.filter(|(_, fk)| {
                catalog.by_name(&fk.parent).is_some_and(|parent| anew_to(&parent.no))
            });
            let keys: BTreeSet<usize> = keys.map(|(f, _)| f).collect();
            for entry in loose(conn, meta, t, &keys)? {
                affected.load_entry(entry)?;
            }
        }
        let tables = catalog.tables.iter().enumerate();
        for (table, t) in tables.filter(|_| policies.enforces_foreign_keys()) {
            let (new, rebuilt) = (anew.references.contains(&t.no), anew.tables.contains(&t.no));
            let keys = t.table.foreign_keys.iter().enumerate();
            for (f, fk) in keys.filter(|(_, fk)| fk.enforced) {
                let Some(parent) = catalog.by_name(&fk.parent) else { continue };
                if !new && !rebuilt && !anew.tables.contains(&parent.no) {
                    continue;
                }
                for loc in dangling(conn, t, parent, fk)? {
                    affected.load_at(table, &loc)?;
                }
                if !new {
                    continue;
                }
                for (entry, children) in outlived(conn, meta, parent, (t, f))? {
                    affected.load_entry(entry)?;
                    children.iter().try_for_each(|loc| affected.load_at(table, loc).map(drop))?;
                }
            }
        }
        if affected.list.is_empty() {
            return Ok(());
        }
        affected.refuse(refused)?;
        let view = view::settle(&mut affected, true)?;
        let mut list = view::decide(affected, view);
        apply::apply(conn, meta, catalog, policies, &mut list, Some(refused)).map(drop)
    })
}

/// Rows that began another life, or got another key, after which an action may set references to them
/// (R-INC, R-FK-ONUPDATE): their entries, and who shows their keys.
fn outlived(
    conn: &Connection,
    meta: &Meta,
    parent: &Tracked,
    (child, f): (&Tracked, usize),
) -> Result<Vec<(i64, Vec<Loc>)>> {
    let fk = &child.table.foreign_keys[f];
    let ends = fk.on_delete.acts();
    let sets = fk.on_update.sets();
    if !ends && !sets {
        return Ok(vec![]);
    }
    let sql =
        format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc IS NOT NULL");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([parent.no])?;
    let (mut found, referring) = (Vec::new(), Referring::new(conn));
    while let Some(row) = rows.next()? {
        let stored = state::decode(meta, parent, row)?;
        let key = &stored.state.groups[parent.table.columns[fk.parent_columns[0]].group];
        let again = ends && !stored.state.header.reinserted.is_zero();
        let (Some(entry), Some(loc)) = (stored.entry, &stored.loc) else { continue };
        if !(again || sets && key.previous.is_some()) {
            continue;
        }
        let Some(shown) = parent.read(conn, loc)? else { continue };
        let key: Vec<Value> = fk.parent_columns.iter().map(|&c| shown[c].clone()).collect();
        found.push((entry, referring.to(child, f, &key)?));
    }
    Ok(found)
}

/// Entries of visible rows of a table whose values under these foreign keys mean nobody.
fn loose(conn: &Connection, meta: &Meta, t: &Tracked, keys: &BTreeSet<usize>) -> Result<Vec<i64>> {
    if keys.is_empty() {
        return Ok(vec![]);
    }
    let sql =
        format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc IS NOT NULL");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([t.no])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let stored = state::decode(meta, t, row)?;
        let mut groups = stored.state.groups.iter().zip(&t.table.groups);
        let is_loose = groups.any(|(group, of)| {
            let Body::Stored(cell) = &group.body else { return false };
            let mut refs = of.foreign_keys.iter().zip(&cell.refs);
            refs.any(|(f, rid)| rid.is_none() && keys.contains(f))
        });
        found.extend(stored.entry.filter(|_| is_loose));
    }
    Ok(found)
}

/// Entries of visible rows of a table that show something else than its columns make of what was written.
fn stored_otherwise(conn: &Connection, meta: &Meta, t: &Tracked) -> Result<Vec<i64>> {
    let sql = format!(
        "SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc IS NOT NULL AND kind IS NULL"
    );
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([t.no])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let stored = state::decode(meta, t, row)?;
        let kept = |group: &GroupState| group.counts.is_empty() && group.body != Body::InTable;
        if !stored.state.groups.iter().any(kept) {
            continue;
        }
        let Some(loc) = &stored.loc else { continue };
        let Some(shown) = t.read(conn, loc)? else { continue };
        let other = stored.state.groups.iter().zip(&t.table.groups).any(|(group, of)| {
            let Body::Stored(cell) = &group.body else { return false };
            let mut values = of.columns.iter().zip(&cell.values);
            let differs = |(&c, v): (&usize, &Value)| {
                shown[c] != equal::stored(v, t.table.columns[c].affinity)
            };
            kept(group) && of.foreign_keys.is_empty() && values.any(differs)
        });
        found.extend(stored.entry.filter(|_| other));
    }
    Ok(found)
}
