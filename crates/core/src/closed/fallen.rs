//! Writes that a delete of the row's parent would have lost, of rows that are shown for now: another row protects
//! the parent. They are noted as soon as they meet the delete, since nobody can tell later who had seen what, and
//! told when the row goes after all (R-FK-ACTION, R-TOLD).
//!
//! It is told with the id of the pair, as others who find it out do.
//!
//! In the log such a note is a record that was never closed: its time is [`NOT_YET`].

use super::{ClosedBy, PASSING, prune};
use crate::catalog::Catalog;
use crate::merge::Fallen;
use crate::meta::{self, Meta};
use crate::refs::Lookup;
use crate::sqlvalue::hex;
use crate::{Result, state};
use rusqlite::{Connection, Row, params};
use synqlite_wire::{Header, Hlc, Stamp, Told};

/// When what is only noted was closed.
pub(super) const NOT_YET: i64 = -1;

/// Notes what is to be told once its row is hidden.
pub fn expect(lookup: Lookup<'_>, fallen: &[Fallen], now_ms: i64) -> Result<()> {
    let Lookup { conn, meta, catalog } = lookup;
    let sql = "INSERT OR IGNORE INTO synqlite_closed(entry, record, tbl, row, kind, cons, what, opened, closed, how, \
               lost, lost_site, kept, kept_site, name) VALUES(?1, ?2, ?3, ?4, ?5, '', ?6, ?7, ?8, 'merge', ?9, ?10, \
               ?11, ?12, ?13)";
    for Fallen { table, rid, lost } in fallen {
        let t = &catalog.tables[*table];
        let (Some(stored), Told { id, row, kind, what, lost: gone, kept, .. }) =
            (state::of(conn, meta, t, rid)?, &lost.told)
        else {
            continue;
        };
        let number = |stamp: &Stamp| meta.known_number(stamp.site);
        let (hlc, by) = (gone.hlc.0, kept.hlc.0);
        let values = params![
            stored.entry,
            hex(id),
            t.table.name,
            row,
            kind,
            what,
            now_ms,
            NOT_YET,
            hlc,
            number(gone),
            by,
            number(kept),
            lost.name
        ];
        conn.prepare_cached(sql)?.execute(values)?;
    }
    match fallen.is_empty() {
        true => Ok(()),
        false => prune(conn),
    }
}

/// Tells of those whose rows are hidden by now for that delete, and forgets those that are lost otherwise or live
/// again. How many it tells. What a merge in slices has noted itself is for its end.
pub(super) fn close(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    (now_ms, how): (i64, &ClosedBy),
) -> Result<usize> {
    let mut told = 0;
    for note in noted(conn, |no, last| no <= last)? {
        if !is_due(conn, meta, catalog, &note)? {
            continue;
        }
        // Others have both writes, and may not know what became of them: a stamp of now is news to all.
        let stamp = meta.tick(now_ms);
        let (hlc, site) = (stamp.hlc.0, meta.known_number(stamp.site));
        let sql = "UPDATE synqlite_closed SET closed = ?2, how = ?3, entry = NULL, kept = ?4, kept_site = ?5 \
                   WHERE no = ?1";
        conn.prepare_cached(sql)?.execute(params![note.no, now_ms, how.name(), hlc, site])?;
        told += 1;
    }
    Ok(told)
}

/// The same at the end of a merge in slices of what it has noted. Whoever merges all at once finds these rows hidden,
/// and tells it as of the delete: so it is no news, and needs no stamp of this site, which has written nothing.
pub(super) fn close_passing(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    now_ms: i64,
) -> Result<()> {
    for note in noted(conn, |no, last| no > last)? {
        if is_due(conn, meta, catalog, &note)? {
            let sql = "UPDATE synqlite_closed SET closed = ?2, entry = NULL WHERE no = ?1";
            conn.prepare_cached(sql)?.execute(params![note.no, now_ms])?;
        }
    }
    Ok(())
}

/// Whether a row is hidden by now for the delete that is noted of it. What is lost otherwise, or lives again, is
/// forgotten.
fn is_due(conn: &Connection, meta: &Meta, catalog: &Catalog, note: &Note) -> Result<bool> {
    let table = state::table_of_entry(conn, note.entry)?.and_then(|no| catalog.position_of_no(no));
    let stored = match table {
        Some(table) => state::entry_by_id(conn, meta, &catalog.tables[table], note.entry)?,
        None => None,
    };
    let fell = |h: &Header| h.fell() && h.left().hlc == note.kept;
    if let Some(stored) = stored.filter(|stored| fell(&stored.state.header)) {
        return Ok(stored.loc.is_none());
    }
    conn.prepare_cached("DELETE FROM synqlite_closed WHERE no = ?1")?.execute([note.no])?;
    Ok(false)
}

/// What is noted of a row, by its entry: when the delete was.
struct Note {
    no: i64,
    entry: i64,
    kept: Hlc,
}

/// Those of them that are `wanted`, by their number and the last one before a merge in slices began.
fn noted(conn: &Connection, wanted: impl Fn(i64, i64) -> bool) -> Result<Vec<Note>> {
    let sql = "SELECT no, entry, kept FROM synqlite_closed \
               WHERE lost IS NOT NULL AND closed = ?1 AND entry IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let note =
        |row: &Row<'_>| Ok(Note { no: row.get(0)?, entry: row.get(1)?, kept: Hlc(row.get(2)?) });
    let mut notes: Vec<Note> =
        statement.query_map([NOT_YET], note)?.collect::<rusqlite::Result<_>>()?;
    if !notes.is_empty() {
        let last = meta::get(conn, PASSING)?.unwrap_or(i64::MAX);
        notes.retain(|note| wanted(note.no, last));
    }
    Ok(notes)
}
