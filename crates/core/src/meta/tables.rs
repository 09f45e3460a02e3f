//! The tables themselves, and the one of single values. `docs/formats/metadata.md` lists them column by
//! column.

use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension, params};

/// Version of the metadata tables.
pub const FORMAT: i64 = 3;

/// Prefix of every object of ours.
const PREFIX: &str = "synqlite_";

pub(super) const DDL: &[&str] = &[
    "CREATE TABLE synqlite_meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE synqlite_site(no INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, \
     hlc INTEGER NOT NULL, root INTEGER, fork INTEGER)",
    "CREATE TABLE synqlite_line(site INTEGER, hlc INTEGER, births INTEGER NOT NULL, \
     PRIMARY KEY(site, hlc)) WITHOUT ROWID",
    "CREATE TABLE synqlite_table(no INTEGER PRIMARY KEY, name TEXT NOT NULL, \
     canonical TEXT NOT NULL, shape TEXT NOT NULL)",
    "CREATE TABLE synqlite_column(tbl INTEGER, no INTEGER, name TEXT, canonical TEXT NOT NULL, \
     since INTEGER NOT NULL, PRIMARY KEY(tbl, no)) WITHOUT ROWID",
    "CREATE TABLE synqlite_unit(tbl INTEGER, unit INTEGER, place INTEGER, item, \
     PRIMARY KEY(tbl, unit, place)) WITHOUT ROWID",
    "CREATE TABLE synqlite_policy(key TEXT PRIMARY KEY, value TEXT NOT NULL, \
     hlc INTEGER NOT NULL, site INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE synqlite_remote(name TEXT PRIMARY KEY, url TEXT NOT NULL, \
     pushed INTEGER, pulled INTEGER, sent BLOB, place BLOB, secret BLOB) \
     WITHOUT ROWID",
    "CREATE TABLE synqlite_peer(site INTEGER PRIMARY KEY, position INTEGER NOT NULL, \
     taken BLOB, given BLOB)",
    "CREATE TABLE synqlite_row(id INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, rid BLOB NOT NULL, \
     loc, wants INTEGER, position INTEGER NOT NULL, state BLOB NOT NULL, kind TEXT, \
     cons TEXT, winner BLOB)",
    "CREATE UNIQUE INDEX synqlite_row_rid ON synqlite_row(tbl, rid)",
    "CREATE UNIQUE INDEX synqlite_row_loc ON synqlite_row(tbl, loc) WHERE loc IS NOT NULL",
    "CREATE INDEX synqlite_row_wants ON synqlite_row(tbl, wants) WHERE wants IS NOT NULL",
    "CREATE INDEX synqlite_row_pending ON synqlite_row(tbl, loc) \
     WHERE wants IS NOT NULL AND loc IS NOT NULL",
    "CREATE INDEX synqlite_row_position ON synqlite_row(position)",
    "CREATE INDEX synqlite_row_kind ON synqlite_row(kind) WHERE kind IS NOT NULL",
    "CREATE TABLE synqlite_reference(tbl INTEGER, rid BLOB, entry INTEGER, \
     PRIMARY KEY(tbl, rid, entry)) WITHOUT ROWID",
    "CREATE INDEX synqlite_reference_entry ON synqlite_reference(entry)",
    "CREATE TABLE synqlite_claim(tbl INTEGER, idx TEXT, key BLOB, entry INTEGER, \
     PRIMARY KEY(tbl, idx, key, entry)) WITHOUT ROWID",
    "CREATE INDEX synqlite_claim_entry ON synqlite_claim(entry)",
    "CREATE TABLE synqlite_segment(tbl INTEGER, lo INTEGER, hi INTEGER NOT NULL, \
     site INTEGER NOT NULL, first INTEGER, hlc INTEGER NOT NULL, \
     position INTEGER NOT NULL, keys BLOB, PRIMARY KEY(tbl, lo)) WITHOUT ROWID",
    "CREATE INDEX synqlite_segment_birth ON synqlite_segment(tbl, site, first) \
     WHERE first IS NOT NULL",
    "CREATE INDEX synqlite_segment_position ON synqlite_segment(position)",
    "CREATE TABLE synqlite_stash(tbl INTEGER, rid BLOB, unit TEXT, position INTEGER NOT NULL, \
     state BLOB NOT NULL, PRIMARY KEY(tbl, rid, unit)) WITHOUT ROWID",
    "CREATE INDEX synqlite_stash_position ON synqlite_stash(position)",
    "CREATE TABLE synqlite_sum(tbl INTEGER, lo INTEGER, sums BLOB NOT NULL, PRIMARY KEY(tbl, lo)) \
     WITHOUT ROWID",
    "CREATE TABLE synqlite_history(hlc INTEGER, site INTEGER, tbl INTEGER, rid BLOB, col INTEGER, \
     value, PRIMARY KEY(hlc, site, tbl, rid, col)) WITHOUT ROWID",
    "CREATE TABLE synqlite_closed(no INTEGER PRIMARY KEY, entry INTEGER, record TEXT, \
     tbl TEXT NOT NULL, row TEXT NOT NULL, kind TEXT NOT NULL, cons TEXT NOT NULL, what TEXT NOT NULL, \
     opened INTEGER NOT NULL, closed INTEGER, how TEXT, \
     lost INTEGER, lost_site INTEGER, kept INTEGER, kept_site INTEGER, name TEXT, became TEXT)",
    "CREATE UNIQUE INDEX synqlite_closed_open ON synqlite_closed(entry) WHERE closed IS NULL",
    "CREATE UNIQUE INDEX synqlite_closed_told ON synqlite_closed(record) WHERE lost IS NOT NULL",
    JOURNAL_DDL,
];

/// The journal, one for all tables.
pub const JOURNAL_DDL: &str = "CREATE TABLE synqlite_journal(\
     seq INTEGER PRIMARY KEY, ev INTEGER NOT NULL, a, b, m, at REAL NOT NULL, \
     v0, v1, v2, v3, v4, v5, v6, v7)";

/// Whether the database has our metadata.
pub fn is_replica(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM main.sqlite_master WHERE type='table' AND name='synqlite_meta'";
    Ok(conn.prepare(sql)?.exists([])?)
}

/// Tables and indexes that every replica has and this database lacks.
pub fn missing(conn: &Connection) -> Result<Vec<String>> {
    let mut there = conn.prepare("SELECT 1 FROM main.sqlite_master WHERE name = ?1")?;
    let mut missing = Vec::new();
    for sql in DDL {
        let words = sql.split([' ', '(']);
        for name in words.filter(|word| word.starts_with(PREFIX)).take(1) {
            if !there.exists([name])? {
                missing.push(name.to_owned());
            }
        }
    }
    Ok(missing)
}

/// One entry of the metadata.
pub fn get<T: rusqlite::types::FromSql>(conn: &Connection, key: &str) -> Result<Option<T>> {
    let sql = "SELECT value FROM synqlite_meta WHERE key = ?1";
    Ok(conn.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional()?)
}

/// Sets one entry of the metadata.
pub fn set(conn: &Connection, key: &str, value: impl rusqlite::ToSql) -> Result<()> {
    let sql = "INSERT OR REPLACE INTO synqlite_meta(key, value) VALUES(?1, ?2)";
    conn.prepare_cached(sql)?.execute(params![key, value])?;
    Ok(())
}

/// Takes an entry away.
pub fn unset(conn: &Connection, key: &str) -> Result<()> {
    conn.prepare_cached("DELETE FROM synqlite_meta WHERE key = ?1")?.execute([key])?;
    Ok(())
}

pub(super) fn need<T: rusqlite::types::FromSql>(conn: &Connection, key: &str) -> Result<T> {
    get(conn, key)?.ok_or_else(|| Error::Damaged(format!("entry `{key}` is missing")))
}

/// How many numbers of births this file has given.
pub fn births(conn: &Connection) -> Result<i64> {
    need(conn, "births")
}
