//! R-TRG: no trigger fires for a merged row, unless policy `fire_on_merge` names it or all that it
//! does is to keep a search index.
//!
//! The effects of a trigger on replicated tables arrive as rows of their own; only one that keeps a
//! local table, such as a search index, has to run again where the row arrives.

use crate::policy::Policies;
use crate::schema::{Feed, barred, feeds, quote};
use crate::{Error, Result};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, ffi};
use std::collections::BTreeSet;

/// The triggers that fire for merged rows.
pub(super) fn firing(conn: &Connection, policies: &Policies) -> Result<Vec<String>> {
    let mut named: Vec<&str> = policies.list("fire_on_merge").into_iter().collect();
    if !named.is_empty() {
        let replicated = captured(conn)?;
        let barred = barred(conn, &named, |t| replicated.contains(&t.to_ascii_lowercase()))?;
        named.retain(|name| !barred.iter().any(|(trigger, _)| trigger.eq_ignore_ascii_case(name)));
    }
    let feeds = feeds(conn)?.into_iter().filter(|feed| feed.obstacle.is_none());
    Ok(named.into_iter().map(str::to_owned).chain(feeds.map(|feed| feed.trigger)).collect())
}

/// Tables whose changes are noted, in lower case.
fn captured(conn: &Connection) -> Result<BTreeSet<String>> {
    let sql = "SELECT lower(tbl_name) FROM main.sqlite_master WHERE type = 'trigger' \
               AND name LIKE 'synqlite\\_insert\\_%' ESCAPE '\\'";
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// Runs `write` with only those triggers in force that fire for merged rows.
pub(crate) fn with_indexes(
    conn: &Connection,
    policies: &Policies,
    write: impl FnOnce() -> Result<()>,
) -> Result<()> {
    fire_only(conn, &firing(conn, policies)?, write)
}

/// Runs `write` with only the triggers in `names` in force. Names compare as in SQLite.
///
/// The others, our own included, are out of the way only within the transaction: they are dropped
/// and made again as they were.
pub(super) fn fire_only(
    conn: &Connection,
    names: &[String],
    write: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if names.is_empty() {
        return write();
    }
    let sql = "SELECT name, sql FROM main.sqlite_master WHERE type = 'trigger' ORDER BY rowid";
    let mut statement = conn.prepare(sql)?;
    let all = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let all: Vec<(String, String)> = all.collect::<Result<_, _>>()?;
    let muted = |(name, _): &&(String, String)| !names.iter().any(|n| n.eq_ignore_ascii_case(name));
    let muted: Vec<_> = all.iter().filter(muted).collect();
    for (name, _) in &muted {
        conn.execute_batch(&format!("DROP TRIGGER main.{}", quote(name)))?;
    }
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
    let done = write();
    let broken = !conn.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    done?;
    muted.iter().try_for_each(|(_, sql)| conn.execute_batch(sql))?;
    if broken { make_anew(conn, names) } else { Ok(()) }
}

/// Runs `moves`, which gives rows of this table other rowids. That is no write, so only those triggers are in force
/// that keep search indexes; none is where an index still names the rows by the rowids that they get. Indexes that
/// are copies of the table are filled anew: nobody knows by which rowids they name rows.
pub(crate) fn with_places(
    conn: &Connection,
    table: &str,
    moves: impl Fn() -> Result<()>,
) -> Result<()> {
    let keeps = |feed: &Feed| feed.obstacle.is_none() && feed.table.eq_ignore_ascii_case(table);
    let names: Vec<String> =
        feeds(conn)?.into_iter().filter(keeps).map(|feed| feed.trigger).collect();
    if names.is_empty() {
        return moves();
    }
    conn.execute_batch("SAVEPOINT synqlite_places")?;
    if fire_only(conn, &names, &moves).is_err() {
        conn.execute_batch("ROLLBACK TO synqlite_places")?;
        moves()?;
    }
    conn.execute_batch("RELEASE synqlite_places")?;
    make_anew(conn, &names)
}

/// Writes a row. Where a search index does not fit its table, as one that was never filled, or what keeps it
/// fails, that is no reason to refuse the row: the triggers are left out from here on.
pub(super) fn despite_indexes<T>(conn: &Connection, write: impl Fn() -> Result<T>) -> Result<T> {
    match write() {
        Err(Error::Sqlite(e)) if is_of_index(conn, &e)? => {
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            write()
        }
        written => written,
    }
}

/// Whether a trigger that keeps a search index failed. One that says what its module does not know, such as
/// `'delete'` to FTS4, fails as any statement may; so that is told from others only where no others fire.
fn is_of_index(conn: &Connection, e: &rusqlite::Error) -> Result<bool> {
    if !conn.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)? {
        return Ok(false);
    }
    Ok(match e.sqlite_error().map(|e| e.extended_code) {
        Some(ffi::SQLITE_CORRUPT_VTAB) => true,
        Some(ffi::SQLITE_ERROR) => {
            let sql = "SELECT count(*) FROM main.sqlite_master WHERE type = 'trigger'";
            let all: i64 = conn.query_row(sql, [], |row| row.get(0))?;
            let mut feeds = feeds(conn)?;
            feeds.retain(|feed| feed.obstacle.is_none());
            feeds.len() as i64 == all
        }
        _ => false,
    })
}

/// Deletes a row. A trigger that refuses that is left out: the row is gone on all other sites.
pub(super) fn delete(conn: &Connection, delete: impl Fn() -> Result<()>) -> Result<()> {
    match despite_indexes(conn, &delete) {
        Err(Error::Sqlite(e))
            if e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
                && conn.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)? =>
        {
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            let deleted = delete();
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
            deleted
        }
        deleted => deleted,
    }
}

/// Fills the search indexes that these triggers keep from their tables. Those that are no copy of a
/// table cannot be, and stay as they were.
fn make_anew(conn: &Connection, names: &[String]) -> Result<()> {
    let kept = feeds(conn)?.into_iter().filter(|feed| names.contains(&feed.trigger));
    let indexes: BTreeSet<String> = kept.flat_map(|feed| feed.indexes).collect();
    for index in indexes {
        let index = quote(&index);
        let made = conn.execute(&format!("INSERT INTO {index}({index}) VALUES('rebuild')"), []);
        if let Err(e) = made
            && e.sqlite_error_code() != Some(rusqlite::ErrorCode::Unknown)
            && e.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseCorrupt)
        {
            return Err(e.into());
        }
    }
    Ok(())
}
