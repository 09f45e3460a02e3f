//! Numbers that rows had here which are hidden or dead now, where each site has its own (R-OWN). A row that is
//! shown again has the number again that it had, and no other gets it meanwhile. Nor does a row that comes
//! get a number that a reference by value alone shows here: it means nobody, and is to stay so.
//!
//! The table is made when the first such row goes.

use crate::Result;
use crate::catalog::Tracked;
use crate::meta::Meta;
use crate::state::{decode_rid, known_bytes};
use rusqlite::{Connection, OptionalExtension, params};
use synqlite_wire::Rid;

const DDL: &str = "\
    CREATE TABLE main.synqlite_number(tbl INTEGER, rid BLOB, number INTEGER NOT NULL, \
     PRIMARY KEY(tbl, rid)) WITHOUT ROWID;\
    CREATE INDEX main.synqlite_number_number ON synqlite_number(tbl, number)";

/// What stands in place of a row where a number is no row's: no row's bytes begin so.
const NOBODY: u8 = 0xff;

/// Whether these bytes are of no row.
pub fn is_nobody(rid: &[u8]) -> bool {
    rid.first() == Some(&NOBODY)
}

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
    put(conn, t, known_bytes(meta, rid)?, number)
}

/// A reference shows this number that means nobody.
pub fn reserve(conn: &Connection, t: &Tracked, number: i64) -> Result<()> {
    put(conn, t, Some(nobody(number)), number)
}

fn nobody(number: i64) -> Vec<u8> {
    [&[NOBODY][..], &number.to_be_bytes()].concat()
}

fn put(conn: &Connection, t: &Tracked, of: Option<Vec<u8>>, number: i64) -> Result<()> {
    if !any(conn)? {
        conn.execute_batch(DDL)?;
    }
    let sql = "INSERT OR REPLACE INTO synqlite_number VALUES(?1, ?2, ?3)";
    conn.prepare_cached(sql)?.execute(params![t.no, of, number])?;
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

/// The row that had this number when it went, if it is one.
pub fn whose(conn: &Connection, meta: &Meta, t: &Tracked, number: i64) -> Result<Option<Rid>> {
    if !any(conn)? {
        return Ok(None);
    }
    let sql = "SELECT rid FROM synqlite_number WHERE tbl = ?1 AND number = ?2 AND rid < ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_map(params![t.no, number, [NOBODY]], |row| row.get(0))?;
    match &found.collect::<rusqlite::Result<Vec<Vec<u8>>>>()?[..] {
        [rid] => decode_rid(meta, rid).map(Some),
        _ => Ok(None),
    }
}

/// Whether a row had this number when it went, or it is to stay nobody's.
pub fn is_kept(conn: &Connection, t: &Tracked, number: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_number WHERE tbl = ?1 AND number = ?2";
    Ok(any(conn)? && conn.prepare_cached(sql)?.exists(params![t.no, number])?)
}

/// Whether it is to stay nobody's where a reference shows it that means nobody.
pub fn is_nobodys(conn: &Connection, t: &Tracked, number: i64) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_number WHERE tbl = ?1 AND rid = ?2";
    Ok(any(conn)? && conn.prepare_cached(sql)?.exists(params![t.no, nobody(number)])?)
}

/// The largest that a row had.
pub fn highest(conn: &Connection, t: &Tracked) -> Result<Option<i64>> {
    if !any(conn)? {
        return Ok(None);
    }
    let sql = "SELECT max(number) FROM synqlite_number WHERE tbl = ?1 AND rid < ?2";
    Ok(conn.prepare_cached(sql)?.query_row(params![t.no, [NOBODY]], |row| row.get(0))?)
}
