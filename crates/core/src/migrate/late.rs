//! References that become known, or are given up, after rows were written (R-LREF, R-MIG-FK).
//!
//! A reference means a row, and shows the number that this row has (R-REF); a value without one is what
//! was written. Where a policy or the schema makes the one of the other, only a site that shows it can
//! say which row or which value it is: elsewhere that row may have another number by now. So a site
//! that finds its foreign keys changed says it of all that it shows. One that receives a policy says it
//! of what it wrote itself, or said last, before it takes in anything that comes with it; all other values
//! refer to nobody until somebody says it of them.
//!
//! It is said as what cannot be told is ([`super::unsure`]), so that every certain write is later, and
//! who wrote a value knows better than who only shows it. What this site was told of a value, and shows
//! already, it does not say again.
//!
//! No value may be left out because every site would take it for the same row: another site may have a
//! row under that number of which this one has not heard. Nor can the row be found again by who wrote the
//! value and when, for no state says which number a row had then.

use super::spans::Spans;
use super::unsure::{self, LIKELY, PERHAPS, Ticks, Unsure};
use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::equal;
use crate::fold;
use crate::meta::Meta;
use crate::parts;
use crate::refs::Lookup;
use crate::registry;
use crate::schema::{ForeignKey, quote};
use crate::state::stash::{self, Piece};
use crate::state::{self, Body, Stored};
use rusqlite::Connection;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use synqlite_wire::{Rid, Stamp, Value};

/// So many parents are remembered.
const PARENTS: usize = parts::of(65_536);

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
) -> Result<(Spans, Unsure)> {
    let (mut spans, mut rows) = (Spans::default(), Unsure::new());
    let changes = changes(conn, t, fresh)?;
    if changes.is_empty() {
        return Ok((spans, rows));
    }
    let (stashed, mut parents) = (stash::any(conn, t.no)?, Parents::default());
    let single = changes.iter().filter(|change| change.new.is_some()).count() == 1;
    for change in changes {
        spans.begin(&change.columns);
        for loc in given(conn, t, &change.columns)? {
            let Some(stored) = state::at(conn, meta, t, &loc)? else { continue };
            let first = t.table.columns[change.columns[0]].group;
            if stored.state.groups[first].body != Body::InTable {
                continue;
            }
            let written = stored.state.written(t, &change.columns);
            let lookup = Lookup { conn, meta, catalog };
            if let Some(f) = change.new.filter(|_| stashed)
                && let Some(piece) = stash::told(conn, meta, t, &stored, f)?
            {
                if !is_shown(lookup, &mut parents, t, &loc, &piece, fresh)? {
                    // It comes from the stash.
                    fold::keep(conn, meta, catalog, t, &loc, &[f])?;
                } else if single {
                    stash::remove(conn, meta, t.no, &stored.rid, &piece)?;
                }
                continue;
            }
            if received && !unsure::is_ours(meta, written.site) {
                if let Some(f) = change.new {
                    fold::keep(conn, meta, catalog, t, &loc, &[f])?;
                }
                continue;
            }
            let row = change.new.map(|_| t.read(conn, &loc)).transpose()?.flatten();
            let parent = match (change.new, row) {
                (Some(f), Some(row)) => parents.of(lookup, t, f, &row)?,
                _ => None,
            };
            let ticks = ticks(meta, parent, written);
            say(&mut spans, &mut rows, loc, &change.columns, ticks);
        }
    }
    Ok((spans, rows))
}

/// Adds rows of which it is to be said what the defaults of columns that are new mean, where a foreign key
/// has them: those in which nobody has written the columns.
pub(super) fn bind_defaults(
    lookup: Lookup<'_>,
    t: &Tracked,
    fresh: &[u32],
    (spans, rows): &mut (Spans, Unsure),
) -> Result<()> {
    let Lookup { conn, meta, .. } = lookup;
    let is_new = |c: &&usize| fresh.contains(&t.column_nos[**c]);
    let mut parents = Parents::default();
    for (f, fk) in t.table.foreign_keys.iter().enumerate() {
        let new: Vec<usize> = fk.columns.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            continue;
        }
        spans.begin(&fk.columns);
        for loc in given(conn, t, &fk.columns)? {
            let Some(Stored { state, .. }) = state::at(conn, meta, t, &loc)? else { continue };
            let shown = state.groups[t.table.columns[new[0]].group].body == Body::InTable;
            if !shown || new.iter().any(|&c| !state.column_stamp(t, c).is_zero()) {
                continue;
            }
            let Some(row) = t.read(conn, &loc)? else { continue };
            let written = state.written(t, &fk.columns);
            let ticks = ticks(meta, parents.of(lookup, t, f, &row)?, written);
            say(spans, rows, loc, &fk.columns, ticks);
        }
    }
    Ok(())
}

/// By how much what is said of a value is later than when that was `written`: so much that nothing which
/// became of the `parent` until now ends the reference.
fn ticks(meta: &Meta, parent: Option<&Parent>, written: Stamp) -> Ticks {
    let before = parent.map_or(0, |p| (p.since.hlc.0 - written.hlc.0).max(0));
    before + if unsure::is_ours(meta, written.site) { LIKELY } else { PERHAPS }
}

/// Takes note that something is said of columns of a row. What is said of a single row counts more than what
/// is said of those around it.
fn say(spans: &mut Spans, rows: &mut Unsure, loc: Loc, columns: &[usize], ticks: Ticks) {
    match loc {
        Loc::Row(rowid) if !rows.contains_key(&loc) => spans.add(rowid, ticks),
        loc => rows.entry(loc).or_default().extend(columns.iter().map(|&c| (c, ticks))),
    }
}

/// Whether all that was said is what the row at `loc` shows already: by its values it refers to just
/// these rows, and nothing has become of them since that would end the references.
fn is_shown(
    lookup: Lookup<'_>,
    parents: &mut Parents,
    t: &Tracked,
    loc: &Loc,
    piece: &Piece,
    fresh: &[u32],
) -> Result<bool> {
    let old = |no: &u32| t.has(*no) && !fresh.contains(no);
    let more = piece.pinned || piece.previous.is_some() || !piece.counts.is_empty();
    if more || !piece.columns.iter().all(old) {
        return Ok(false);
    }
    let Some(row) = t.read(lookup.conn, loc)? else { return Ok(false) };
    for (key, said) in piece.keys.iter().zip(&piece.cell.refs) {
        let f = t.key_names.iter().position(|name| name == key);
        let shown = f.map(|f| parents.of(lookup, t, f, &row)).transpose()?.flatten();
        let Some(parent) = shown else { return Ok(false) };
        if Some(&parent.rid) != said.as_ref() || !parent.alive || parent.since > piece.stamp {
            return Ok(false);
        }
    }
    Ok(true)
}

fn changes(conn: &Connection, t: &Tracked, fresh: &[u32]) -> Result<Vec<Change>> {
    let was = registry::groups(conn, t.no)?;
    let here = |no: &u32| t.column_nos.iter().position(|n| n == no);
    let new =
        |&f: &usize| Change { columns: t.table.foreign_keys[f].columns.clone(), new: Some(f) };
    let new = t.new_keys.iter().map(new);
    let gone = was.iter().filter(|(_, keys)| !keys.iter().all(|key| t.key_names.contains(key)));
    let gone = gone.map(|(columns, _)| Change {
        columns: columns.iter().filter_map(here).collect(),
        new: None,
    });
    // What a column that is new itself shows may have been written elsewhere: see `bind_defaults`.
    let old = |c: &usize| !fresh.contains(&t.column_nos[*c]);
    let changes = new.chain(gone);
    Ok(changes.filter(|c| !c.columns.is_empty() && c.columns.iter().all(old)).collect())
}

/// Rows to which values refer, by foreign key and value: many rows refer to the same one.
#[derive(Default)]
struct Parents(HashMap<(usize, Vec<u8>), Option<Parent>>);

/// A row to which a value refers.
struct Parent {
    rid: Rid,
    alive: bool,
    /// When it got the key that it has: what a reference to it is later than, or it would be overridden
    /// (R-FK-ONUPDATE), or be to a former life (R-INC).
    since: Stamp,
}

impl Parents {
    /// The row to which foreign key `f` of a row refers by its value.
    fn of(
        &mut self,
        lookup: Lookup<'_>,
        t: &Tracked,
        f: usize,
        row: &[Value],
    ) -> Result<Option<&Parent>> {
        let fk = &t.table.foreign_keys[f];
        let place = (f, equal::reference_bytes(fk, fk.columns.iter().map(|&c| &row[c])));
        if self.0.len() >= PARENTS && !self.0.contains_key(&place) {
            self.0.clear();
        }
        Ok(match self.0.entry(place) {
            Entry::Occupied(known) => known.into_mut().as_ref(),
            Entry::Vacant(new) => new.insert(parent(lookup, fk, row)?).as_ref(),
        })
    }
}

fn parent(lookup: Lookup<'_>, fk: &ForeignKey, row: &[Value]) -> Result<Option<Parent>> {
    let Lookup { conn, meta, .. } = lookup;
    let Some(key) = fk.key_of(row) else { return Ok(None) };
    let t = lookup.parent(&fk.parent)?;
    let Some(loc) = t.find_parents(conn, fk, &key)?.into_iter().next() else { return Ok(None) };
    let Some(Stored { rid, state, .. }) = state::at(conn, meta, t, &loc)? else { return Ok(None) };
    let sets = fk.on_update.sets();
    let key = sets.then(|| state.written(t, &fk.parent_columns));
    let reinserted = state.header.reinserted;
    let since = key.map_or(reinserted, |key| key.max(reinserted));
    Ok(Some(Parent { rid, alive: state.header.alive(), since }))
}

/// Places of the rows that have a value in one of these columns, in ascending order.
fn given(conn: &Connection, t: &Tracked, columns: &[usize]) -> Result<Vec<Loc>> {
    let given = |&c: &usize| format!("c.{} IS NOT NULL", quote(&t.table.columns[c].name));
    let given: Vec<_> = columns.iter().map(given).collect();
    let loc = loc_sql(&t.table, "c.");
    let sql = format!("SELECT {loc} FROM {} AS c WHERE {}", t.target(), given.join(" OR "));
    let mut statement = conn.prepare(&sql)?;
    let mut places = t.places(&mut statement, [])?;
    places.sort_unstable();
    Ok(places)
}
