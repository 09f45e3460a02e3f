//! Rows that do not show what their registers say, and what they wait for: a row they refer to, or
//! a unique key that another row has. Found again when that row or key changes (R-RETURN).

use super::{Stored, Waits, decode_rid, known_bytes};
use crate::Result;
use crate::catalog::Tracked;
use crate::meta::Meta;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::ConflictKind;
use synqlite_wire::Rid;

/// Whether any row waits for anything.
pub fn anyone_waits(conn: &Connection) -> Result<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM synqlite_reference) \
               OR EXISTS(SELECT 1 FROM synqlite_claim) \
               OR EXISTS(SELECT 1 FROM synqlite_row WHERE kind IS NOT NULL)";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Whether a row of table `no` shows another integer key than it asks for.
pub fn any_pending(conn: &Connection, no: u32) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL AND loc IS NOT NULL";
    Ok(conn.prepare_cached(sql)?.exists([no])?)
}

/// Whether a conflict is open. Otherwise rows wait only for a parent that was deleted with them,
/// and such rows stand in nobody's way.
pub fn any_conflict(conn: &Connection) -> Result<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM synqlite_row WHERE kind IS NOT NULL)";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Whether SQLite refused any row.
pub fn any_refused(conn: &Connection) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM synqlite_row WHERE kind = 'refused'")?.exists([])?)
}

/// Whether some row refers to this one without showing it.
pub fn awaited(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<bool> {
    let Some(bytes) = known_bytes(meta, rid)? else { return Ok(false) };
    let sql = "SELECT 1 FROM synqlite_reference WHERE tbl = ?1 AND rid = ?2";
    Ok(conn.prepare_cached(sql)?.exists(params![t.no, bytes])?)
}

/// Number of the table that an entry belongs to.
pub fn table_of_entry(conn: &Connection, entry: i64) -> Result<Option<u32>> {
    let sql = "SELECT tbl FROM synqlite_row WHERE id = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([entry], |row| row.get(0)).optional()?)
}

/// Tables, by their numbers, with rows whose states were written at this position or later.
pub fn tables_since(conn: &Connection, position: i64) -> Result<BTreeSet<u32>> {
    let sql = "SELECT DISTINCT tbl FROM synqlite_row WHERE position >= ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let tables = statement.query_map([position], |row| row.get(0))?;
    Ok(tables.collect::<Result<_, _>>()?)
}

/// Kind and constraint of the conflict that is recorded for the row of an entry.
pub fn conflict(conn: &Connection, entry: i64) -> Result<Option<(ConflictKind, String)>> {
    let sql = "SELECT kind, cons FROM synqlite_row WHERE id = ?1 AND kind IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_row([entry], |row| {
        let kind: String = row.get(0)?;
        Ok((kind.as_str().into(), row.get(1)?))
    });
    Ok(found.optional()?)
}

/// The row that won a unique key over this one, which is hidden for that.
pub fn unique_winner(conn: &Connection, meta: &Meta, lost: &Stored) -> Result<Option<Rid>> {
    let sql = "SELECT winner FROM synqlite_row WHERE id = ?1 AND kind = ?2 AND loc IS NULL";
    let of = params![lost.entry, ConflictKind::Unique.as_str()];
    let winner: Option<Option<Vec<u8>>> =
        conn.prepare_cached(sql)?.query_row(of, |row| row.get(0)).optional()?;
    winner.flatten().map(|bytes| decode_rid(meta, &bytes)).transpose()
}

/// Rows of a table that are hidden because another has their key, by that other.
pub fn unified(conn: &Connection, meta: &Meta, no: u32) -> Result<BTreeMap<Rid, Vec<Rid>>> {
    let sql = "SELECT winner, rid FROM synqlite_row \
               WHERE kind = ?2 AND +tbl = ?1 AND loc IS NULL AND winner IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![no, ConflictKind::Unique.as_str()])?;
    let mut losers: BTreeMap<Rid, Vec<Rid>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let rid = |i| -> Result<Rid> { decode_rid(meta, &row.get::<_, Vec<u8>>(i)?) };
        losers.entry(rid(0)?).or_default().push(rid(1)?);
    }
    Ok(losers)
}

/// Entries of rows that show something derived from what they hold, or would if they were shown.
pub fn derived(conn: &Connection) -> Result<Vec<i64>> {
    let sql = "SELECT id FROM synqlite_row WHERE kind IS NOT NULL \
               OR id IN (SELECT entry FROM synqlite_reference) \
               OR id IN (SELECT entry FROM synqlite_claim) \
               OR wants IS NOT NULL AND loc IS NOT NULL ORDER BY tbl, id";
    let mut statement = conn.prepare_cached(sql)?;
    let entries = statement.query_map([], |row| row.get(0))?;
    Ok(entries.collect::<Result<_, _>>()?)
}

/// Whether any deleted row is shown because others refer to it, or to a row below it (R-PROTECT).
pub fn any_revived(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_row WHERE kind = ?1";
    Ok(conn.prepare_cached(sql)?.exists([ConflictKind::RestrictRevived.as_str()])?)
}

/// Entries of the deleted rows of a table that are shown because others refer to them (R-PROTECT).
pub fn revived(conn: &Connection, no: u32) -> Result<Vec<i64>> {
    let sql = "SELECT id FROM synqlite_row WHERE kind = ?2 AND +tbl = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let revived = ConflictKind::RestrictRevived;
    let entries = statement.query_map(params![no, revived.as_str()], |row| row.get(0))?;
    Ok(entries.collect::<Result<_, _>>()?)
}

/// Whether this, and no more, is recorded of the row of an entry.
pub fn is_recorded(conn: &Connection, meta: &Meta, entry: i64, waits: &Waits<'_>) -> Result<bool> {
    let Some((kind, constraint)) = waits.conflict else { return Ok(false) };
    let winner = waits.winner.map(|rid| known_bytes(meta, rid)).transpose()?.flatten();
    let sql = "SELECT 1 FROM synqlite_row WHERE id = ?1 AND (kind, cons, winner) IS (?2, ?3, ?4)";
    if !conn.prepare_cached(sql)?.exists(params![entry, kind.as_str(), constraint, winner])? {
        return Ok(false);
    }
    let mut references = BTreeSet::new();
    for (no, rid) in &waits.references {
        references.extend(known_bytes(meta, rid)?.map(|bytes| (*no, bytes)));
    }
    let sql = "SELECT tbl, rid FROM synqlite_reference WHERE entry = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_map([entry], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if found.collect::<rusqlite::Result<BTreeSet<_>>>()? != references {
        return Ok(false);
    }
    let claims = waits.claims.iter().map(|(no, index, key)| (*no, index.to_string(), key.to_vec()));
    let sql = "SELECT tbl, idx, key FROM synqlite_claim WHERE entry = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_map([entry], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(found.collect::<rusqlite::Result<BTreeSet<_>>>()? == claims.collect())
}

/// Records what the row of an entry waits for, in place of what it waited for before.
pub fn record_waits(conn: &Connection, meta: &Meta, entry: i64, waits: &Waits<'_>) -> Result<()> {
    for table in ["synqlite_reference", "synqlite_claim"] {
        conn.prepare_cached(&format!("DELETE FROM {table} WHERE entry = ?1"))?.execute([entry])?;
    }
    if waits.conflict.is_none() {
        record_conflict(conn, meta, entry, None, None)?;
    }
    record_first_waits(conn, meta, entry, waits)
}

/// The same for an entry that has just been made.
pub fn record_first_waits(
    conn: &Connection,
    meta: &Meta,
    entry: i64,
    waits: &Waits<'_>,
) -> Result<()> {
    for (no, rid) in &waits.references {
        let Some(bytes) = known_bytes(meta, rid)? else { continue };
        let sql = "INSERT OR IGNORE INTO synqlite_reference(tbl, rid, entry) VALUES(?1, ?2, ?3)";
        conn.prepare_cached(sql)?.execute(params![no, bytes, entry])?;
    }
    for (no, index, key) in &waits.claims {
        let sql =
            "INSERT OR IGNORE INTO synqlite_claim(tbl, idx, key, entry) VALUES(?1, ?2, ?3, ?4)";
        conn.prepare_cached(sql)?.execute(params![no, index, key, entry])?;
    }
    let winner = match waits.winner {
        Some(rid) => known_bytes(meta, rid)?,
        None => None,
    };
    match waits.conflict {
        Some(_) => record_conflict(conn, meta, entry, waits.conflict, winner),
        None => Ok(()),
    }
}

/// Records what keeps the row of an entry from showing its registers: kind, constraint, and the
/// identity of the row that won.
pub fn record_conflict(
    conn: &Connection,
    meta: &Meta,
    entry: i64,
    conflict: Option<(&ConflictKind, &str)>,
    winner: Option<Vec<u8>>,
) -> Result<()> {
    let (kind, constraint) = conflict.map(|(kind, of)| (kind.as_str(), of)).unzip();
    let mut had = None;
    if kind.is_none() {
        let sql = "SELECT winner FROM synqlite_row WHERE id = ?1 AND kind IS NOT NULL";
        let mut statement = conn.prepare_cached(sql)?;
        match statement.query_row([entry], |row| row.get(0)).optional()? {
            Some(winner) => had = winner,
            None => return Ok(()),
        }
    }
    let sql = "UPDATE synqlite_row SET kind = ?2, cons = ?3, winner = ?4 WHERE id = ?1 \
               AND (kind, cons, winner) IS NOT (?2, ?3, ?4)";
    let changed = conn.prepare_cached(sql)?.execute(params![entry, kind, constraint, winner])? > 0;
    // What a row with a record asks for may be another.
    if changed || kind.is_some() {
        let mut records = meta.records.borrow_mut();
        let known = records.entry(entry).or_default();
        *known = had.or(known.take());
    }
    Ok(())
}

/// Entries of rows whose kept references are to this row, with the numbers of their tables.
pub fn waiting_for_row(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    rid: &Rid,
) -> Result<Vec<(u32, i64)>> {
    let Some(bytes) = known_bytes(meta, rid)? else { return Ok(vec![]) };
    let sql = "SELECT r.tbl, r.id FROM synqlite_reference AS w JOIN synqlite_row AS r \
               ON r.id = w.entry WHERE w.tbl = ?1 AND w.rid = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_map(params![t.no, bytes], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.collect::<Result<_, _>>()?)
}
