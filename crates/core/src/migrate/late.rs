//! References that become known, or are given up, after rows were written (R-LREF, R-MIG-FK).
//!
//! A reference means a row, and shows the number that this row has (R-REF); a value without one is what
//! was written. Where a policy or the schema makes the one of the other, only a site that shows it can
//! say which row or which value it is: elsewhere that row may have another number by now. So a site
//! that finds its foreign keys changed says it of all that it shows. One that receives a policy says it
//! of what it wrote itself, before it takes in anything that comes with it; all other values refer to
//! nobody until somebody says it of them.
//!
//! It is said as what cannot be told is ([`super::unsure`]), so that every certain write is later, and
//! who wrote a value knows better than who only shows it.

use super::unsure::{LIKELY, PERHAPS, Unsure};
use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::fold;
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::schema::{Action, quote};
use crate::state::stash::{self, Piece};
use crate::state::{self, Body, RowState};
use crate::track;
use rusqlite::Connection;
use std::collections::HashSet;
use synqlite_wire::{Rid, Stamp};

/// Columns, by position, whose foreign key is new or gone.
struct Change {
    columns: Vec<usize>,
    /// The foreign key that is new.
    new: Option<usize>,
}

/// Rows of which it is to be said what their values mean, where foreign keys are others than the states
/// of the table know. `received`: another site's policy made them so.
pub(super) fn bind(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    fresh: &[u32],
    received: bool,
) -> Result<Unsure> {
    let (mut rows, changes) = (Unsure::new(), changes(conn, t, fresh)?);
    if changes.is_empty() {
        return Ok(rows);
    }
    let stashed: HashSet<Rid> = stash::rows(conn, meta, t.no, -1)?.into_iter().collect();
    for Change { columns, new } in changes {
        for loc in given(conn, t, &columns)? {
            let Some(stored) = state::at(conn, meta, t, &loc)? else { continue };
            if stored.state.groups[t.table.columns[columns[0]].group].body != Body::Shown {
                continue;
            }
            let lookup = Lookup { conn, meta, catalog };
            let written = written(&stored.state, t, &columns);
            let mine = written.site == meta.site;
            let told = |f: usize| -> Result<bool> {
                let pieces = match stashed.contains(&stored.rid) {
                    true => stash::of(conn, meta, t.no, &stored.rid)?,
                    false => vec![],
                };
                let says = |p: &Piece| p.stamp == written && p.keys.contains(&t.key_names[f]);
                Ok(pieces.iter().any(says))
            };
            match new {
                // It comes from the stash.
                Some(f) if told(f)? => fold::keep(conn, meta, catalog, t, &loc, &[f])?,
                Some(f) if received && !mine => {
                    fold::keep(conn, meta, catalog, t, &loc, &[f])?;
                }
                None if received && !mine => {}
                _ => {
                    let parent = new.map_or(Ok(None), |f| parent(lookup, t, f, &loc))?;
                    let before = parent.map_or(0, |p| (p.hlc.0 - written.hlc.0).max(0));
                    let ticks = before + if mine { LIKELY } else { PERHAPS };
                    rows.entry(loc).or_default().extend(columns.iter().map(|&c| (c, ticks)));
                }
            }
        }
    }
    Ok(rows)
}

fn changes(conn: &Connection, t: &Tracked, fresh: &[u32]) -> Result<Vec<Change>> {
    let was = track::units(conn, t.no)?;
    let known = |name: &String| was.iter().any(|(_, keys)| keys.contains(name));
    let here = |no: &u32| t.column_nos.iter().position(|n| n == no);
    let keys = t.table.foreign_keys.iter().zip(&t.key_names).enumerate();
    let new = keys
        .filter(|(_, (_, name))| !known(name))
        .map(|(f, (fk, _))| Change { columns: fk.columns.clone(), new: Some(f) });
    let gone = was.iter().filter(|(_, keys)| !keys.iter().all(|key| t.key_names.contains(key)));
    let gone = gone.map(|(columns, _)| Change {
        columns: columns.iter().filter_map(here).collect(),
        new: None,
    });
    // What a column that is new itself shows nobody has written.
    let old = |c: &usize| !fresh.contains(&t.column_nos[*c]);
    let changes = new.chain(gone);
    Ok(changes.filter(|c| !c.columns.is_empty() && c.columns.iter().all(old)).collect())
}

/// The latest write of some columns of a row; what nobody wrote is as old as the row.
fn written(state: &RowState, t: &Tracked, columns: &[usize]) -> Stamp {
    let stamps = columns.iter().map(|&c| {
        let g = t.table.columns[c].group;
        let place = t.table.groups[g].columns.iter().position(|&x| x == c);
        state.groups[g].column_stamp(place.unwrap_or(0))
    });
    match stamps.max() {
        Some(stamp) if !stamp.is_zero() => stamp,
        _ => state.born_at(),
    }
}

/// When the row to which foreign key `f` of a row refers got the key that it has: what the reference is
/// later than, or it would be overridden (R-FK-ONUPDATE), or be to a former life (R-INC).
fn parent(lookup: Lookup<'_>, t: &Tracked, f: usize, loc: &Loc) -> Result<Option<Stamp>> {
    let fk = &t.table.foreign_keys[f];
    let parent = lookup.parent(&fk.parent)?;
    let Some(row) = t.read(lookup.conn, loc)? else { return Ok(None) };
    let Some(rid) = lookup.reference(t, f, &row)? else { return Ok(None) };
    let Some(stored) = state::of(lookup.conn, lookup.meta, parent, &rid)? else { return Ok(None) };
    let sets = matches!(fk.on_update, Action::SetNull | Action::SetDefault);
    let key = sets.then(|| written(&stored.state, parent, &fk.parent_columns));
    Ok(key.into_iter().chain([stored.state.header.reinserted]).max())
}

/// Places of the rows that have a value in one of these columns.
fn given(conn: &Connection, t: &Tracked, columns: &[usize]) -> Result<Vec<Loc>> {
    let given = |&c: &usize| format!("c.{} IS NOT NULL", quote(&t.table.columns[c].name));
    let given: Vec<_> = columns.iter().map(given).collect();
    let loc = loc_sql(&t.table, "c.");
    let sql = format!("SELECT {loc} FROM {} AS c WHERE {}", t.target(), given.join(" OR "));
    let mut statement = conn.prepare(&sql)?;
    t.places(&mut statement, [])
}
