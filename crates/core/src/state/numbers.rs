//! Numbers that rows had here which are hidden or dead now, where each site has its own (R-OWN). A row that is
//! shown again has the number again that it had, and no other gets it meanwhile.
//!
//! The table is made when the first such row goes.

use crate::Result;
use crate::catalog::Tracked;
use crate::meta::Meta;
use crate::state::known_bytes;
use rusqlite::{Connection, OptionalExtension, params};
use synqlite_wire::Rid;

const DDL: &str = "\
    CREATE TABLE main.synqlite_number(tbl INTEGER, rid BLOB, number INTEGER NOT NULL, \
     PRIMARY KEY(tbl, rid)) WITHOUT ROWID;\
    CREATE INDEX main.synqlite_number_number ON synqlite_number(tbl, number)";

/// Whether any such row went.
pub fn any(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM main.sqlite_master WHERE name = 'synqlite_number'";
    Ok(conn.prepare_cached(sql)?.exists([])?)
}

/// A row goes that had this number.
pub fn keep(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid, number: i64) -> Result<()> {
    if t.table.own_number().is_none() {
        return Ok(());
    }
    if !any(conn)? {
        conn.execute_batch(DDL)?;
    }
    let sql = "INSERT OR REPLACE INTO synqlite_number VALUES(?1, ?2, ?3)";
    conn.prepare_cached(sql)?.execute(params![t.no, known_bytes(meta, rid)?, number])?;
    Ok(())
}

/// The number that a row had when it went.
pub fn of(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Option<i64>> {
    if !any(conn)? {
        return Ok(None);
    }
    let sql = "SELECT number FROM synqlite_number WHERE tbl = ?1 AND rid = ?2";
    let row = params![t.no, known_bytes(meta, rid)?];
    Ok(conn.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?)
}

/// Whether a row had this number when it went.
pub fn is_kept(conn: &Connection, t: &Tracked, number: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_number WHERE tbl = ?1 AND number = ?2";
    Ok(any(conn)? && conn.prepare_cached(sql)?.exists(params![t.no, number])?)
}

/// The largest.
pub fn highest(conn: &Connection, t: &Tracked) -> Result<Option<i64>> {
    if !any(conn)? {
        return Ok(None);
    }
    let sql = "SELECT max(number) FROM synqlite_number WHERE tbl = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([t.no], |row| row.get(0))?)
}
