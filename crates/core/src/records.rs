//! Open conflict records: rows that do not show what was written, because a constraint would break.
//!
//! A record is derived from the state, so every site that has seen the same changes has the same
//! records under the same ids, and a record closes by itself when its obstacle goes.

use crate::asked::literal;
use crate::catalog::Tracked;
use crate::counter;
use crate::describe::{self, describe, row_name};
use crate::equal::{self, bytes_of_hex};
use crate::known::{known_by, known_row};
use crate::refs::{self, Lookup};
use crate::schema::{Column, quote};
use crate::sqlvalue::{Bind, hex, values};
use crate::state::{self, Body, ENTRY_COLUMNS, RowState, Stored};
use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, ToSql, params};
use std::collections::BTreeSet;
use synqlite_view::ConflictKind;
use synqlite_wire::{Rid, SiteId, Value};

/// One row that does not show what was written.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// 32 hex digits, the same on every site.
    pub id: String,
    /// Table.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// What people know it by, where there is something beside its key.
    pub name: Option<String>,
    /// Why it does not.
    pub kind: ConflictKind,
    /// The unique key or foreign key that would break, named by what it says; empty for a constraint on
    /// single rows.
    pub constraint: String,
    /// The same as its table declares it, such as `UNIQUE (email)`.
    pub declared: String,
    /// What the row shows, by column; empty if it is hidden.
    pub shown: Vec<(String, Value)>,
    /// What was written, by column.
    pub displaced: Vec<(String, Value)>,
    /// The row that has what this one asks for.
    pub winner: Option<String>,
    /// What people know that one by.
    pub winner_name: Option<String>,
    /// Who wrote the row, and when last, in milliseconds since 1970.
    pub sites: Vec<(SiteId, i64)>,
    /// Who wrote each of the displaced values, and when.
    pub writers: Vec<Writer>,
    /// Columns of the constraint; empty for a constraint on single rows.
    pub contested: Vec<String>,
    /// What the winner shows, if it is visible.
    pub rival: Option<Rival>,
    /// Who preferred another row to this one since it asked for that, and when: its claim counts from then.
    pub put_behind: Option<(SiteId, i64)>,
    /// The deleted row that it is about: the one that the row refers to, or the row itself, which is kept.
    pub deleted: Option<Deleted>,
    /// The first rows for which a deleted row is kept.
    pub needed_by: Vec<Needing>,
    /// How many there are.
    pub needed: u64,
    /// The record on whose answer this one waits; its own if it needs none (R-ONE-ANSWER).
    pub follows: Option<String>,
    /// Records that wait for the answer to this one.
    pub followers: Vec<Follower>,
}

/// A row that was deleted, and that others need.
#[derive(Clone, Debug, PartialEq)]
pub struct Deleted {
    /// Its table.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// What people know it by.
    pub name: Option<String>,
    /// Who deleted it, and when, in milliseconds since 1970.
    pub by: Option<(SiteId, i64)>,
    /// Who inserted it again, and when, if it is there: what the record is about refers to its former life.
    pub again: Option<(SiteId, i64)>,
    /// What it held, by column.
    pub values: Vec<(String, Value)>,
}

/// A row for which a deleted one is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needing {
    /// Its table.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// What people know it by.
    pub name: Option<String>,
}

/// A record that waits for the answer to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its id.
    pub id: String,
    /// Table of its row.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// What people know it by.
    pub name: Option<String>,
    /// Why it does not show what was written.
    pub kind: ConflictKind,
}

impl Conflict {
    /// In order of table and row.
    pub(crate) fn by_row(a: &Conflict, b: &Conflict) -> std::cmp::Ordering {
        (&a.table, &a.row, &a.id).cmp(&(&b.table, &b.row, &b.id))
    }
}

/// Who wrote the value of a column last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// The column.
    pub column: String,
    /// The site.
    pub site: SiteId,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
}

/// A row that has what another asks for.
#[derive(Clone, Debug)]
pub struct Rival {
    /// What it shows, by column.
    pub shown: Vec<(String, Value)>,
    /// Who wrote it.
    pub writers: Vec<Writer>,
}

/// Open records of a table, with their entries.
pub(crate) fn of_table(lookup: Lookup<'_>, t: &Tracked) -> Result<Vec<(i64, Conflict)>> {
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, kind, cons, winner FROM synqlite_row \
         WHERE +tbl = ?1 AND kind IS NOT NULL"
    );
    records(lookup, t, &sql, &[&t.no])
}

/// The open record of an entry of a table.
pub(crate) fn of_entry(lookup: Lookup<'_>, t: &Tracked, entry: i64) -> Result<Option<Conflict>> {
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, kind, cons, winner FROM synqlite_row \
         WHERE id = ?1 AND kind IS NOT NULL"
    );
    Ok(records(lookup, t, &sql, &[&entry])?.pop().map(|(_, conflict)| conflict))
}

fn records(
    lookup: Lookup<'_>,
    t: &Tracked,
    sql: &str,
    values: &[&dyn ToSql],
) -> Result<Vec<(i64, Conflict)>> {
    let mut out = Vec::new();
    let Lookup { conn, meta, .. } = lookup;
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        let stored = state::decode(meta, t, row)?;
        let old = match &stored.loc {
            // The user has deleted or moved it since; the next fold settles the record.
            Some(loc) => match t.read(conn, loc)? {
                Some(old) => Some(old),
                None => continue,
            },
            None => None,
        };
        let written = written(lookup, t, &stored, old.as_deref())?;
        let (kind, constraint): (String, String) = (row.get(5)?, row.get(6)?);
        let kind = ConflictKind::from(kind.as_str());
        let winner: Option<Vec<u8>> = row.get(7)?;
        let at = describe::columns(t, &constraint);
        let winner = winner.map(|bytes| winner_of(lookup, t, &bytes, at)).transpose()?;
        let Winner { row: winner, name: winner_name, rival } = winner.unwrap_or_default();
        let mut sites: Vec<(SiteId, i64)> = Vec::new();
        let stamps = stored.state.groups.iter().flat_map(|g| g.stamps());
        for stamp in stamps.filter(|stamp| !stamp.is_zero()) {
            match sites.iter_mut().find(|(site, _)| *site == stamp.site) {
                Some((_, at)) => *at = (*at).max(stamp.hlc.ms()),
                None => sites.push((stamp.site, stamp.hlc.ms())),
            }
        }
        sites.sort();
        let contested = at.iter().map(|&c| t.table.columns[c].name.clone()).collect();
        let values = old.as_deref().unwrap_or(&written);
        let name = row_name(t, Some(values), stored.loc.as_ref(), &stored.state, &stored.rid);
        let conflict = Conflict {
            id: record_id(&t.canonical, kind.as_str(), &constraint, &stored.rid),
            table: t.table.name.clone(),
            name: known_by(&t.table, values, at),
            row: name,
            kind,
            declared: describe::constraint(t, &constraint),
            constraint,
            shown: old.as_deref().map(|row| named(t, row)).unwrap_or_default(),
            displaced: named(t, &written),
            winner,
            winner_name,
            sites,
            writers: writers(t, &stored.state),
            contested,
            rival,
            put_behind: stored.state.put_behind(t, at).map(|by| (by.site, by.hlc.ms())),
            deleted: None,
            needed_by: vec![],
            needed: 0,
            follows: None,
            followers: vec![],
        };
        out.push((row.get(0)?, conflict));
    }
    Ok(out)
}

/// What was written to a row, as its columns hold it now. `old`: what it shows.
fn written(
    lookup: Lookup<'_>,
    t: &Tracked,
    stored: &Stored,
    old: Option<&[Value]>,
) -> Result<Vec<Value>> {
    let mut written = vec![Value::Null; t.table.columns.len()];
    for (g, group) in t.table.groups.iter().enumerate() {
        let state = &stored.state.groups[g];
        let values: Vec<Value> = match (&state.body, old) {
            (Body::Stored(cell), _) => match counter::sum(t, g, state, cell) {
                Some(sum) => vec![sum],
                None => state.kept(t, g, cell).values,
            },
            (Body::InTable, Some(old)) => group.columns.iter().map(|&c| old[c].clone()).collect(),
            (Body::InTable, None) => {
                return Err(Error::Damaged("a hidden row has no values".into()));
            }
        };
        group.columns.iter().zip(values).for_each(|(&c, v)| written[c] = v);
    }
    for (g, group) in t.table.groups.iter().enumerate() {
        let Body::Stored(cell) = &stored.state.groups[g].body else { continue };
        for (&f, rid) in group.foreign_keys.iter().zip(&cell.refs) {
            if let Some(rid) = rid {
                refer(lookup, (t, f), rid, &mut written, chain(lookup))?;
            }
        }
    }
    // As the columns hold them now: they may have other types than when it was written.
    for (value, column) in written.iter_mut().zip(&t.table.columns) {
        *value = equal::stored(value, column.affinity);
    }
    Ok(written)
}

/// R-REF: a reference is to a row. The number it was written with may differ between sites; the key
/// that the row has does not. It is said as the row would show it (R-SPELL). `depth`: so many references further up
/// may have part in that key.
fn refer(
    lookup: Lookup<'_>,
    (t, f): (&Tracked, usize),
    rid: &Rid,
    written: &mut [Value],
    depth: usize,
) -> Result<()> {
    let fk = &t.table.foreign_keys[f];
    let parent = lookup.parent(&fk.parent)?;
    let Some(stored) = state::of(lookup.conn, lookup.meta, parent, rid)? else { return Ok(()) };
    let shown = match &stored.loc {
        Some(loc) => parent.read(lookup.conn, loc)?,
        None => None,
    };
    let key = match shown {
        Some(shown) => shown,
        None => would_show(lookup, parent, &stored.state, &fk.parent_columns, depth)?,
    };
    refs::show_key(t, fk, &key, written);
    Ok(())
}

/// What a row that its table does not show would show, and in these columns as all sites say it: what a state keeps
/// of a reference is what it showed where the row was last seen.
fn would_show(
    lookup: Lookup<'_>,
    t: &Tracked,
    state: &RowState,
    columns: &[usize],
    depth: usize,
) -> Result<Vec<Value>> {
    let mut row = vec![Value::Null; t.table.columns.len()];
    for (group, of) in state.groups.iter().zip(&t.table.groups) {
        let Body::Stored(cell) = &group.body else { continue };
        for (&c, value) in of.columns.iter().zip(&cell.values) {
            row[c] = equal::stored(value, t.table.columns[c].affinity);
        }
    }
    // Where several references share a column they say the same of it. To follow all would be so many times the way.
    let mut asked: BTreeSet<usize> = columns.iter().copied().collect();
    for (f, fk) in t.table.foreign_keys.iter().enumerate() {
        let says = depth > 0 && fk.columns.iter().any(|c| asked.contains(c));
        if let Some(rid) = state.kept_reference(t, f).filter(|_| says) {
            refer(lookup, (t, f), rid, &mut row, depth - 1)?;
            asked.retain(|c| !fk.columns.contains(c));
        }
    }
    Ok(row)
}

/// The same of all columns.
pub(crate) fn kept(lookup: Lookup<'_>, t: &Tracked, state: &RowState) -> Result<Vec<Value>> {
    let columns: Vec<usize> = (0..t.table.columns.len()).collect();
    would_show(lookup, t, state, &columns, chain(lookup))
}

/// The longest chain of references in which each has part in the key of the next.
fn chain(lookup: Lookup<'_>) -> usize {
    lookup.catalog.longest_chain(&(0..lookup.catalog.tables.len()))
}

/// The row that has what another asks for.
#[derive(Default)]
struct Winner {
    row: Option<String>,
    name: Option<String>,
    rival: Option<Rival>,
}

/// `contested`: columns in which it is the same as the other.
fn winner_of(lookup: Lookup<'_>, t: &Tracked, bytes: &[u8], contested: &[usize]) -> Result<Winner> {
    let Lookup { conn, meta, .. } = lookup;
    let rid = state::decode_rid(meta, bytes)?;
    let stored = state::of(conn, meta, t, &rid)?;
    let row = match stored.as_ref().and_then(|s| s.loc.as_ref()) {
        Some(loc) => t.read(conn, loc)?,
        None => None,
    };
    let rival = stored
        .as_ref()
        .zip(row.as_ref())
        .map(|(stored, row)| Rival { shown: named(t, row), writers: writers(t, &stored.state) });
    let (called, name) = match &stored {
        Some(Stored { loc, state, .. }) => (
            row_name(t, row.as_deref(), loc.as_ref(), state, &rid),
            known_row(&t.table, row.as_deref(), state, contested),
        ),
        None => (describe(t, None, &rid), None),
    };
    Ok(Winner { row: Some(called), name, rival })
}

/// What people know the row by that has this key, as [`describe`] writes it, in a table with a key of one
/// column: of what another site tells, no more is known here.
pub(crate) fn name_of(conn: &Connection, t: Option<&Tracked>, row: &str) -> Result<Option<String>> {
    let Some((t, &[column])) = t.map(|t| (t, t.table.primary_key.as_slice())) else {
        return Ok(None);
    };
    let text = row.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    let key = match (text, literal(row)) {
        (Some(text), _) => Value::Text(text.as_bytes().to_vec()),
        (None, Some(key @ (Value::Integer(_) | Value::Text(_)))) => key,
        _ => return Ok(None),
    };
    let (columns, target) = (t.column_list(), t.target());
    let key_column = quote(&t.table.columns[column].name);
    let sql = format!("SELECT {columns} FROM {target} WHERE {key_column} = ?1");
    let row = conn
        .prepare_cached(&sql)?
        .query_row([Bind(&key)], |row| values(row, 0, t.table.columns.len()));
    let row = row.optional()?;
    Ok(row.and_then(|row| known_by(&t.table, &row, &[])))
}

pub(crate) fn named(t: &Tracked, values: &[Value]) -> Vec<(String, Value)> {
    let names = t.table.columns.iter().map(|c| c.name.clone());
    // SQLite shows no sign of a zero, and takes both for one value: who wrote the other wrote nothing.
    let values = values.iter().map(|value| match value {
        Value::Real(r) => Value::Real(r + 0.0),
        other => other.clone(),
    });
    names.zip(values).collect()
}

fn writers(t: &Tracked, state: &RowState) -> Vec<Writer> {
    let writer = |column: &Column| {
        // Nobody has written what a column shows from its first day on.
        let stamp = state.groups[column.group].stamps().max().filter(|stamp| !stamp.is_zero())?;
        Some(Writer { column: column.name.clone(), site: stamp.site, at_ms: stamp.hlc.ms() })
    };
    t.table.columns.iter().filter_map(writer).collect()
}

/// Id of a record. The same on every site: from what identifies the row, not from local numbers.
pub fn record_id(table: &str, kind: &str, constraint: &str, rid: &Rid) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in [table, kind, constraint] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(synqlite_wire::key::encode(&[synqlite_wire::key::KeyPart::Row(rid.clone())]));
    hex(&hash.finalize()[..16])
}

/// The open record of an entry goes by another id.
pub fn call_open(conn: &Connection, entry: i64, record: &str) -> Result<()> {
    let sql = "UPDATE synqlite_closed SET record = ?2 WHERE entry = ?1 AND closed IS NULL";
    conn.prepare_cached(sql)?.execute(params![entry, record])?;
    Ok(())
}

/// The id of two writes of which one gave way, from its text.
pub fn pair_id(text: &str) -> Result<[u8; 16]> {
    let bytes = bytes_of_hex(text).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| Error::Damaged(format!("record {text} of a value that gave way")))
}
