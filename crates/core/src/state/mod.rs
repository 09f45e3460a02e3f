//! The replicated state of rows, as this file keeps it.
//!
//! Two things keep it small. The values of a visible row live in the application's table and
//! nowhere else: a group whose register is what the table shows is [`Body::InTable`]. And rows born
//! together in a run of rowids share one *segment* (site, clock, numbers of births or keys); only
//! rows that changed later, or that have no rowid, have an entry of their own, which overrides the
//! segment.

mod bulk;
mod codec;
mod keys;
pub mod numbers;
mod older;
mod overlay;
mod segment;
pub mod shown;
pub mod stash;
pub mod sums;
mod waits;

pub use bulk::Bulk;
pub(crate) use older::{is_older, upgrade};
pub use overlay::{join_base, overlay, under_keys};
pub use segment::{COLUMNS as SEGMENT_COLUMNS, Inserted, Name, Names, Runs, Segment, names_itself};
pub use waits::{
    any_conflict, any_pending, any_refused, any_revived, anyone_waits, awaited, conflict, derived,
    is_recorded, record_conflict, record_first_waits, record_waits, revived, table_of_entry,
    tables_since, unified, unique_winner, waiting_for_row,
};

pub use synqlite_view::state::*;

use crate::catalog::{Loc, Tracked};
use crate::meta::Meta;
use crate::schema::Identity;
use crate::sqlvalue::{At, Located};
use crate::{Error, Result};
use codec::{Reader, Writer};
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeSet, HashSet};
use synqlite_wire::{Header, Rid, Value, key};

/// The row that the state places at `loc`.
///
/// A segment may span rowids that hold no row; then this answers for a row that never was.
pub fn at(conn: &Connection, meta: &Meta, t: &Tracked, loc: &Loc) -> Result<Option<Stored>> {
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc = ?2");
    if let Some(stored) = entry(conn, meta, t, &sql, params![t.no, At(loc)])? {
        return Ok(Some(stored));
    }
    let Loc::Row(rowid) = loc else { return Ok(None) };
    let Some(segment) = Segment::containing(conn, t, *rowid)? else { return Ok(None) };
    let rid = segment.rid_at(meta, *rowid)?;
    if of_entry(conn, meta, t, &rid)?.is_some() {
        return Ok(None);
    }
    let (state, local_seq) = (segment.state(meta, t)?, segment.local_seq);
    Ok(Some(Stored { entry: None, rid, loc: Some(loc.clone()), local_seq, state }))
}

/// Whether a row was at `loc` when the last transaction ended; a segment may span a place that has none.
pub fn is_shown(conn: &Connection, meta: &Meta, t: &Tracked, loc: &Loc) -> Result<bool> {
    Ok(match at(conn, meta, t, loc)? {
        Some(stored) => stored.entry.is_some() || sums::is_there(conn, t, loc)?,
        None => false,
    })
}

/// The row that the state places at `loc`.
pub fn shown(conn: &Connection, t: &Tracked, loc: &Loc) -> Result<Vec<Value>> {
    t.read(conn, loc)?.ok_or_else(|| unnoticed(t, loc).into())
}

/// Whether nobody has ever given a row another key than the one that names it.
pub fn keeps_its_key(t: &Tracked, stored: &Stored) -> bool {
    let h = &stored.state.header;
    // With `T.delete=last` an update counts as an insert, but begins no life (R-EXIST).
    let born = if h.cl % 2 == 1 { h.inserted.min(h.cl_stamp) } else { h.inserted };
    let written = |&c: &usize| stored.state.groups[t.table.columns[c].group].stamp == born;
    t.table.identity == Identity::Key && t.table.primary_key.iter().all(written)
}

/// Whether a row that has an entry of its own is at `loc`.
pub fn is_placed(conn: &Connection, t: &Tracked, loc: &Loc) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND loc = ?2";
    Ok(conn.prepare_cached(sql)?.exists(params![t.no, At(loc)])?)
}

/// The row with this identity.
pub fn of(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Option<Stored>> {
    if let Some(stored) = of_entry(conn, meta, t, rid)? {
        return Ok(Some(stored));
    }
    if !t.is_here() {
        return Ok(None);
    }
    let Some((segment, rowid)) = Segment::of(conn, meta, t, rid)? else { return Ok(None) };
    let loc = Loc::Row(rowid);
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND loc = ?2";
    if conn.prepare_cached(sql)?.exists(params![t.no, At(&loc)])? {
        return Ok(None);
    }
    // A key was found in the application's table.
    if matches!(rid, Rid::Birth { .. }) && !t.exists(conn, &loc)? {
        return Ok(None);
    }
    let (state, local_seq) = (segment.state(meta, t)?, segment.local_seq);
    Ok(Some(Stored { entry: None, rid: rid.clone(), loc: Some(loc), local_seq, state }))
}

/// The row with this identity, if it has an entry of its own.
pub fn of_entry(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Option<Stored>> {
    let Some(bytes) = known_bytes(meta, rid)? else { return Ok(None) };
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND rid = ?2");
    entry(conn, meta, t, &sql, params![t.no, bytes])
}

/// Bytes of an identity. A site that has no number yet has no row here, hence `None`.
pub fn known_bytes(meta: &Meta, rid: &Rid) -> Result<Option<Vec<u8>>> {
    if let Rid::Birth { site, .. } = rid
        && meta.known_number(*site).is_none()
    {
        return Ok(None);
    }
    let unknown = |site| Error::Damaged(format!("site {site} has no number"));
    let mut number = |site| meta.known_number(site).ok_or_else(|| unknown(site));
    Writer::new(&mut number).rid(rid).map(Some)
}

/// The row of an entry.
pub fn entry_by_id(conn: &Connection, meta: &Meta, t: &Tracked, id: i64) -> Result<Option<Stored>> {
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE id = ?1");
    entry(conn, meta, t, &sql, params![id])
}

fn entry(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    sql: &str,
    params: &[&dyn rusqlite::ToSql],
) -> Result<Option<Stored>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(|row| decode(meta, t, row)).transpose()
}

/// What [`decode`] reads, in this order.
pub const ENTRY_COLUMNS: &str = "id, rid, loc, state, position";

/// A row from its entry, whose first columns are the [`ENTRY_COLUMNS`].
pub fn decode(meta: &Meta, t: &Tracked, row: &Row<'_>) -> Result<Stored> {
    let (rid, state): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(3)?);
    let (loc, local_seq): (Option<Located>, i64) = (row.get(2)?, row.get(4)?);
    let loc = loc.map(|Located(loc)| loc);
    let rid = Reader::new(meta, &rid).rid()?;
    let state = Reader::new(meta, &state).state(t, loc.is_some(), local_seq)?;
    Ok(Stored { entry: Some(row.get(0)?), rid, loc, local_seq, state })
}

/// An identity from its bytes.
pub fn decode_rid(meta: &Meta, bytes: &[u8]) -> Result<Rid> {
    Reader::new(meta, bytes).rid()
}

/// Whether any row of table `no` has an entry of its own.
pub fn any_entry(conn: &Connection, no: u32) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1";
    Ok(conn.prepare_cached(sql)?.exists([no])?)
}

/// Whether any row of table `no` is known.
pub fn any_row(conn: &Connection, no: u32) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_segment WHERE tbl = ?1 \
               UNION ALL SELECT 1 FROM synqlite_row WHERE tbl = ?1";
    Ok(conn.prepare_cached(sql)?.exists([no])?)
}

/// Where the state places visible rows, in ascending order.
///
/// A segment may span rowids that never held a row; those are among them.
pub fn places(conn: &Connection, meta: &Meta, t: &Tracked) -> Result<BTreeSet<Loc>> {
    let (mut places, mut own) = (BTreeSet::new(), HashSet::new());
    let mut statement = conn.prepare("SELECT rid, loc FROM synqlite_row WHERE tbl = ?1")?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        own.insert(decode_rid(meta, row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?);
        places.extend(row.get::<_, Option<Located>>(1)?.map(|Located(loc)| loc));
    }
    let sql = format!("SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        let segment = Segment::from_row(row)?;
        for rowid in segment.lo..=segment.hi {
            if !own.contains(&segment.rid_at(meta, rowid)?) {
                places.insert(Loc::Row(rowid));
            }
        }
    }
    Ok(places)
}

/// The same of a table without rowids, whose rows share no segments.
pub fn key_places(conn: &Connection, t: &Tracked) -> Result<BTreeSet<Loc>> {
    let sql = "SELECT loc FROM synqlite_row WHERE tbl = ?1 AND loc IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let places = statement.query_map([t.no], |row| Ok(row.get::<_, Located>(0)?.0))?;
    Ok(places.collect::<rusqlite::Result<_>>()?)
}

/// Gives every row that shares a segment of keys an entry of its own, and drops those segments. From
/// then on the primary key may be another. `rows`: only where other rows are parts of the keys; then
/// those may be found under other keys, or not at all.
pub fn expand(conn: &Connection, meta: &mut Meta, t: &Tracked, rows: bool) -> Result<()> {
    let sql = format!(
        "SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1 AND keys IS NOT NULL"
    );
    let mut statement = conn.prepare(&sql)?;
    let segments = statement.query_map([t.no], Segment::from_row)?;
    for segment in segments.collect::<Result<Vec<_>, _>>()? {
        let of_values = |rid: &Rid| matches!(rid, Rid::Key { key, .. } if key::is_of_values(key));
        if rows && segment.keyed()?.iter().flatten().all(of_values) {
            continue;
        }
        for rowid in segment.lo..=segment.hi {
            if let Some(stored) = at(conn, meta, t, &Loc::Row(rowid))?
                && stored.entry.is_none()
            {
                put(conn, meta, t, &stored, None)?;
            }
        }
        let sql = "DELETE FROM synqlite_segment WHERE tbl = ?1 AND lo = ?2";
        conn.prepare_cached(sql)?.execute(params![t.no, segment.lo])?;
    }
    Ok(())
}

/// Gives every row that a dropped table had an entry of its own: without the table no identity finds it
/// in a segment. Should the table be made again, these are the rows that it lacks.
pub fn expand_dropped(conn: &Connection, meta: &mut Meta, t: &Tracked) -> Result<()> {
    let sql = format!("SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let segments = statement.query_map([t.no], Segment::from_row)?;
    let segments = segments.collect::<Result<Vec<_>, _>>()?;
    if segments.is_empty() {
        return Ok(());
    }
    let sums = sums::Sums::load(conn, t)?;
    for loc in segments.iter().flat_map(|segment| segment.lo..=segment.hi).map(Loc::Row) {
        // A segment may span rowids that held no row.
        if sums.has(&loc)
            && let Some(stored) = at(conn, meta, t, &loc)?
            && stored.entry.is_none()
        {
            put(conn, meta, t, &stored, None)?;
        }
    }
    forget_rowids(conn, t)
}

/// Drops the segments of a table that has no rowids any more: all rows of theirs are gone, with entries
/// of their own.
pub fn forget_rowids(conn: &Connection, t: &Tracked) -> Result<()> {
    conn.prepare_cached("DELETE FROM synqlite_segment WHERE tbl = ?1")?.execute([t.no])?;
    Ok(())
}

/// Forgets a row that has an entry of its own.
pub fn forget(conn: &Connection, stored: &Stored) -> Result<()> {
    if let Some(id) = stored.entry {
        for table in ["synqlite_claim", "synqlite_reference"] {
            let sql = format!("DELETE FROM {table} WHERE entry = ?1");
            conn.prepare_cached(&sql)?.execute([id])?;
        }
        conn.prepare_cached("DELETE FROM synqlite_row WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

/// Forgets where a row is, so that another can be placed there.
pub fn unplace(conn: &Connection, stored: &Stored) -> Result<()> {
    if let Some(id) = stored.entry {
        conn.prepare_cached("UPDATE synqlite_row SET loc = NULL WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

/// Saves a row in an entry of its own. `local_seq` marks it as changed for those who pull, and is
/// absent if only its place changed. Returns the entry.
pub fn put(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    stored: &Stored,
    local_seq: Option<i64>,
) -> Result<i64> {
    let state = Writer::new(&mut |site| meta.number(conn, site)).state(t, &stored.state)?;
    let wants = stored.state.kept_id(t);
    if let Some(young) = local_seq.is_none().then(|| youngest(t, stored)).flatten() {
        meta.local_seq = meta.local_seq.max(young + 1);
        return put(conn, meta, t, stored, Some(meta.local_seq));
    }
    let at = stored.loc.as_ref().map(At);
    let entry = match (stored.entry, local_seq) {
        (Some(id), Some(local_seq)) => {
            let sql = "UPDATE synqlite_row SET loc = ?2, wants = ?3, state = ?4, position = ?5 \
                       WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![id, at, wants, state, local_seq])?;
            id
        }
        (Some(id), None) => {
            let sql = "UPDATE synqlite_row SET loc = ?2, wants = ?3, state = ?4 WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![id, at, wants, state])?;
            id
        }
        (None, local_seq) => {
            let rid = Writer::new(&mut |site| meta.number(conn, site)).rid(&stored.rid)?;
            let local_seq = local_seq.unwrap_or(stored.local_seq);
            let sql = "INSERT INTO synqlite_row(tbl, rid, loc, wants, position, state) \
                       VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
            let row = params![t.no, rid, at, wants, local_seq, state];
            conn.prepare_cached(sql)?.insert(row)?
        }
    };
    if let (Some(loc), Some(_)) = (&stored.loc, local_seq) {
        sums::touch(meta, t, loc, entry);
    }
    Ok(entry)
}

/// Gives an entry another header, and says no more of its row than before: its table is out of sight, and nothing
/// can be read from it.
pub fn put_header(conn: &Connection, meta: &mut Meta, entry: i64, header: &Header) -> Result<()> {
    let sql = "SELECT state FROM synqlite_row WHERE id = ?1";
    let state: Vec<u8> = conn.prepare_cached(sql)?.query_row([entry], |row| row.get(0))?;
    let parts = Reader::new(meta, &state).parts()?;
    let state = Writer::new(&mut |site| meta.number(conn, site)).with_header(&parts, header)?;
    let sql = "UPDATE synqlite_row SET state = ?2 WHERE id = ?1";
    conn.prepare_cached(sql)?.execute(params![entry, state])?;
    Ok(())
}

/// Since when the table has columns that are younger than the row, and that it shows as written all the
/// same: it kept what others wrote there while it was hidden.
fn youngest(t: &Tracked, stored: &Stored) -> Option<i64> {
    let groups = stored.state.groups.iter().zip(&t.table.groups);
    let shown = groups.filter(|(group, _)| group.body == Body::InTable && group.counts.is_empty());
    let columns = shown
        .flat_map(|(group, of)| of.columns.iter().enumerate().map(move |(i, &c)| (group, i, c)));
    let young =
        columns.filter(|(group, i, c)| t.since[*c] >= stored.local_seq && !group.is_unwritten(*i));
    young.map(|(_, _, c)| t.since[c]).max()
}

/// Writes the identity and the state of an entry anew: the same row, whose sites go by other ids.
pub fn rewrite(conn: &Connection, meta: &mut Meta, t: &Tracked, stored: &Stored) -> Result<()> {
    let rid = Writer::new(&mut |site| meta.number(conn, site)).rid(&stored.rid)?;
    let state = Writer::new(&mut |site| meta.number(conn, site)).state(t, &stored.state)?;
    let sql = "UPDATE synqlite_row SET rid = ?2, state = ?3 WHERE id = ?1";
    conn.prepare_cached(sql)?.execute(params![stored.entry, rid, state])?;
    Ok(())
}
