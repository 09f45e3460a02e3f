//! Tables rebuilt under their names, in the twelve steps of SQLite's documentation.
//!
//! That may renumber rowids; the rows are put back where they were. It may lose the triggers; then
//! nobody knows what was written since. So every row counts as written, at the earliest time that
//! this site can still give: no change is lost, and later ones of other sites win. A reference to a row
//! that may have another key now counts as written too.

use super::changed;
use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::fold;
use crate::journal::{self, Born, Gone, Window};
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::schema::{Identity, TableKind, quote};
use crate::state::{self, Stored};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Value};

/// Gives the rows of a rebuilt table the rowids that they had. Only where no column shows the rowid:
/// else it cannot have changed unnoticed.
pub(super) fn put_back(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    t: &Tracked,
) -> Result<()> {
    let (TableKind::Rowid, Some(rowid)) = (t.table.kind, &t.table.rowid_name) else {
        return Ok(());
    };
    let windows = journal::read(conn, catalog)?.into_iter().map(Window::expanded);
    let Some(window) = catalog.position_of_no(t.no).and_then(|i| windows.into_iter().nth(i)) else {
        return Ok(());
    };
    let mut were = state::places(conn, meta, t)?;
    were.retain(|at| !window.gone.contains_key(at) && !window.changed.contains_key(at));
    let untouched = were.clone();
    were.extend(window.changed.values().map(|changed| changed.now.clone()));
    were.extend(window.born.keys().cloned());
    let are = table_locs(conn, t)?;
    if were == are {
        return Ok(());
    }
    let lookup = Lookup { conn, meta, catalog };
    // A copy keeps the order of the rows.
    let in_order = || are.iter().cloned().zip(were.iter().cloned()).collect::<Vec<_>>();
    let mut fits = were.len() == are.len();
    for (from, to) in in_order().iter().filter(|(_, to)| untouched.contains(to)) {
        let Some(stored) = state::at(conn, meta, t, to)?.filter(|_| fits) else { continue };
        let row = t.read(conn, from)?.unwrap_or_default();
        fits &= !keeps_its_key(t, &stored) || is_named(lookup, t, &stored, &row)?;
    }
    let moves = if fits { in_order() } else { by_key(lookup, t, are, were)? };
    move_rows(conn, t, rowid, &moves)
}

/// Pairs rows with the places that they had: by a key that never changed, else in order. Rows that
/// are new come last.
fn by_key(
    lookup: Lookup<'_>,
    t: &Tracked,
    mut are: BTreeSet<Loc>,
    mut were: BTreeSet<Loc>,
) -> Result<Vec<(Loc, Loc)>> {
    let mut moves = Vec::new();
    let after = match (are.last(), were.last()) {
        (Some(Loc::Row(a)), Some(Loc::Row(b))) => *a.max(b),
        _ => 0,
    };
    for at in are.clone().into_iter().filter(|_| t.table.identity == Identity::Key) {
        let Some(row) = t.read(lookup.conn, &at)? else { continue };
        let Some(key) = lookup.key_rid(t, &row)? else { continue };
        let rid = Rid::Key { key, generation: 0 };
        let known = state::of(lookup.conn, lookup.meta, t, &rid)?;
        let was = known.filter(|known| keeps_its_key(t, known)).and_then(|known| known.loc);
        if let Some(was) = was.filter(|was| were.remove(was)) {
            are.remove(&at);
            moves.push((at, was));
        }
    }
    let further = (1..).map_while(|i| after.checked_add(i).map(Loc::Row));
    moves.extend(are.into_iter().zip(were.into_iter().chain(further)));
    Ok(moves)
}

/// Whether nobody has ever given a row another key than the one that names it.
fn keeps_its_key(t: &Tracked, stored: &Stored) -> bool {
    let written = |&c: &usize| {
        let group = t.table.columns[c].group;
        stored.state.groups[group].stamp == stored.state.header.inserted
    };
    t.table.identity == Identity::Key && t.table.primary_key.iter().all(written)
}

/// Whether the key of `row` is the one that names the row.
fn is_named(lookup: Lookup<'_>, t: &Tracked, stored: &Stored, row: &[Value]) -> Result<bool> {
    let Rid::Key { key, generation: 0 } = &stored.rid else { return Ok(false) };
    Ok(!row.is_empty() && lookup.key_rid(t, row)?.as_ref() == Some(key))
}

fn move_rows(conn: &Connection, t: &Tracked, rowid: &str, moves: &[(Loc, Loc)]) -> Result<()> {
    let name = quote(rowid);
    let below = format!("SELECT min(0, min({name})) FROM {}", t.target());
    let below: i64 = conn.query_row(&below, [], |row| row.get(0))?;
    let sql = format!("UPDATE {} SET {name} = ?2 WHERE {name} = ?1", t.target());
    let mut statement = conn.prepare(&sql)?;
    let moves = || moves.iter().filter(|(from, to)| from != to).zip(1i64..);
    for ((from, _), i) in moves() {
        statement.execute(params![from, below.checked_sub(i)])?;
    }
    for ((_, to), i) in moves() {
        statement.execute(params![below.checked_sub(i), to])?;
    }
    Ok(())
}

fn table_locs(conn: &Connection, t: &Tracked) -> Result<BTreeSet<Loc>> {
    let sql = format!("SELECT {} FROM {} AS o", loc_sql(&t.table, "o."), t.target());
    let mut statement = conn.prepare(&sql)?;
    Ok(t.places(&mut statement, [])?.into_iter().collect())
}

/// What may have happened to a table while its triggers were gone. Time 0 is the earliest that can
/// still be given.
pub(super) fn unnoticed(conn: &Connection, meta: &Meta, t: &Tracked) -> Result<Window> {
    let (known, there) = (state::places(conn, meta, t)?, table_locs(conn, t)?);
    let written: BTreeMap<u32, i64> = t.column_nos.iter().map(|&no| (no, 0)).collect();
    let mut window = Window::default();
    for loc in &there {
        if known.contains(loc) {
            window.changed.insert(loc.clone(), changed(loc, written.clone()));
        } else {
            window.born.insert(loc.clone(), Born::at(0));
        }
    }
    for loc in known.difference(&there) {
        let written = BTreeMap::new();
        let gone = Gone { at: 0, was: loc.clone(), image: None, began: None, written, start: None };
        window.gone.insert(loc.clone(), gone);
    }
    Ok(window)
}

/// Adds to `windows` the references to rows of a rebuilt table of which it is not certain that they
/// are what they were, or that are not there under those keys any more.
pub(super) fn references(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    parent: usize,
    windows: &mut [Window],
) -> Result<()> {
    let p = &catalog.tables[parent];
    let lookup = Lookup { conn, meta, catalog };
    let mut uncertain: Vec<Loc> = windows[parent].born.keys().cloned().collect();
    for loc in windows[parent].changed.keys() {
        let row = p.read(conn, loc)?.unwrap_or_default();
        let stored = state::at(conn, meta, p, loc)?;
        let certain = match stored {
            // Its number says which row it is.
            Some(_) if p.table.rowid_alias().is_some() => true,
            Some(stored) => keeps_its_key(p, &stored) && is_named(lookup, p, &stored, &row)?,
            None => false,
        };
        if !certain {
            uncertain.push(loc.clone());
        }
    }
    for (child, f) in catalog.references_to(parent) {
        let c = &catalog.tables[child];
        let fk = &c.table.foreign_keys[f];
        let mut referring = fold::dangling(conn, c, p, fk)?;
        for loc in &uncertain {
            let Some(row) = p.read(conn, loc)? else { continue };
            let key: Vec<Value> = fk.parent_columns.iter().map(|&c| row[c].clone()).collect();
            if key.iter().any(Value::is_null) {
                continue;
            }
            referring.extend(c.find_children(conn, fk, &key)?);
        }
        let Window { born, changed: written, .. } = &mut windows[child];
        for at in referring.into_iter().filter(|at| !born.contains_key(at)) {
            let entry = written.entry(at.clone());
            let change = entry.or_insert_with(|| changed(&at, BTreeMap::new()));
            change.written.extend(fk.columns.iter().map(|&x| (c.column_nos[x], 0)));
        }
    }
    Ok(())
}
