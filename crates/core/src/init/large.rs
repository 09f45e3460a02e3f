//! Takes in the tables of a large database, whose rows take long to read, where it keeps nobody from writing.
//!
//! Triggers come first, in a short transaction ([`migrate::begin`]). What the rows are then known by is worked out on
//! a copy of the file, and put into it in another: entries of the journal that the copy has are of rows as the copy
//! shows them, all later ones are writes like any other. Whoever runs a command meanwhile, or after a kill, takes the
//! rows in by that command.

use super::{TableReport, refuse_dangling, table_reports};
use crate::apart::Copy;
use crate::connection::{connect, plain, to_read, to_write};
use crate::env::Environment;
use crate::meta;
use crate::schema::Table;
use crate::work::Work;
use crate::{Error, Result, deinit, journal, migrate, parts};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::time::Instant;

/// A smaller file is soon read.
const LITTLE: i64 = if cfg!(feature = "small-parts") { 0 } else { 4 << 20 };

/// So many rows of the history are copied in one transaction.
const PART: i64 = parts::of(16_384) as i64;

/// Whether to read this file takes long.
pub(super) fn is(conn: &Connection) -> Result<bool> {
    let number = |name| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok(number("page_count")? * number("page_size")? > LITTLE)
}

/// Takes in the rows of `tables`, which are all of a new replica. Without success it is none any more.
pub(super) fn take_in(
    conn: &Connection,
    path: &Path,
    tables: &[Table],
    env: &dyn Environment,
) -> Result<Vec<TableReport>> {
    let taken = match copied(conn, path, env) {
        Ok(copy) => on_copy(conn, path, (copy, tables), env),
        // Without room for a copy, others have to wait.
        Err(_) => here(conn, path, tables, env),
    };
    if taken.is_err() {
        let tx = to_write(conn, path, env)?;
        if migrate::begun(&tx)? {
            deinit::remove(&tx)?;
            tx.commit()?;
        }
    }
    taken
}

/// A copy that has a name for `ATTACH`.
fn copied(conn: &Connection, path: &Path, env: &dyn Environment) -> Result<Copy> {
    let tx = to_read(conn, path, env)?;
    let copy = Copy::of(&tx, path)?;
    name(&copy).map(|_| copy)
}

fn name(copy: &Copy) -> Result<String> {
    let name = plain(copy.path());
    let text = name.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::Refused(format!("{}: not UTF-8", name.display())))
}

/// Takes them in where they are.
fn here(
    conn: &Connection,
    path: &Path,
    tables: &[Table],
    env: &dyn Environment,
) -> Result<Vec<TableReport>> {
    let tx = to_write(conn, path, env)?;
    let reports = finish(&tx, tables, env)?;
    tx.commit()?;
    Ok(reports)
}

fn finish(conn: &Connection, tables: &[Table], env: &dyn Environment) -> Result<Vec<TableReport>> {
    let mut work = Work::begin(conn, env)?;
    refuse_dangling(conn, tables, &work.policies)?;
    migrate::catch_up(&mut work)?;
    work.save()?;
    table_reports(conn, &work.catalog)
}

fn on_copy(
    conn: &Connection,
    path: &Path,
    (copy, tables): (Copy, &[Table]),
    env: &dyn Environment,
) -> Result<Vec<TableReport>> {
    let taken = connect(copy.path(), true, env)?;
    for (pragma, value) in [("journal_mode", "MEMORY"), ("synchronous", "OFF")] {
        taken.pragma_update(None, pragma, value)?;
    }
    conn.execute("ATTACH ?1 AS synqlite_taken", [name(&copy)?])?;
    // Where it can go while it is open, nothing stays whatever happens to this process.
    let copy = if cfg!(unix) {
        drop(copy);
        None
    } else {
        Some(copy)
    };
    let put = || {
        let tx = to_write(&taken, path, env)?;
        let last = journal::last(&tx)?;
        let reports = finish(&tx, tables, env)?;
        tx.commit()?;
        history(conn, path, env)?;
        put(conn, path, last, env)?;
        Ok(reports)
    };
    let reports = put();
    drop(taken);
    conn.execute_batch("DETACH synqlite_taken")?;
    drop(copy);
    reports
}

/// Whether the copy is still of this file: nobody else has taken its rows in, nor made it another replica.
fn is_wanted(conn: &Connection) -> Result<bool> {
    let same = "SELECT 1 FROM main.synqlite_meta JOIN synqlite_taken.synqlite_meta AS t USING(key, value) \
                WHERE key = 'site'";
    Ok(meta::is_replica(conn)? && migrate::begun(conn)? && conn.prepare(same)?.exists([])?)
}

/// Puts in what the rows held, in parts: a history is many times as large as all else.
fn history(conn: &Connection, path: &Path, env: &dyn Environment) -> Result<()> {
    type Key = (i64, i64, i64, Vec<u8>, i64);
    let after = "FROM synqlite_taken.synqlite_history WHERE (hlc, site, tbl, rid, col) > (?1, ?2, ?3, ?4, ?5) \
                 ORDER BY hlc, site, tbl, rid, col LIMIT";
    let mut from: Key = (i64::MIN, 0, 0, vec![], 0);
    loop {
        let began = Instant::now();
        let tx = to_write(conn, path, env)?;
        if !is_wanted(&tx)? {
            return Ok(());
        }
        let (hlc, site, tbl, rid, col) = &from;
        let key = params![hlc, site, tbl, rid, col, PART];
        let last = format!("SELECT hlc, site, tbl, rid, col {after} 1 OFFSET ?6 - 1");
        let read = |row: &rusqlite::Row<'_>| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
        };
        let last: Option<Key> = tx.prepare_cached(&last)?.query_row(key, read).optional()?;
        let put = format!("INSERT INTO main.synqlite_history SELECT * {after} ?6");
        tx.prepare_cached(&put)?.execute(key)?;
        tx.commit()?;
        let Some(last) = last else { return Ok(()) };
        from = last;
        env.rest(i64::try_from(began.elapsed().as_millis()).unwrap_or(0).clamp(1, 100));
    }
}

/// Puts in what the rows are known by. `last`: the last entry of the journal that the copy had.
fn put(conn: &Connection, path: &Path, last: i64, env: &dyn Environment) -> Result<()> {
    let tx = to_write(conn, path, env)?;
    if !is_wanted(&tx)? {
        return Ok(());
    }
    let ours = "name LIKE 'synqlite\\_%' ESCAPE '\\'";
    let texts = |sql: String| -> Result<Vec<String>> {
        let mut statement = tx.prepare(&sql)?;
        let texts = statement.query_map([], |row| row.get(0))?;
        Ok(texts.collect::<Result<_, _>>()?)
    };
    let missing = texts(format!(
        "SELECT sql FROM synqlite_taken.sqlite_master WHERE {ours} AND sql IS NOT NULL \
         AND name NOT IN (SELECT name FROM main.sqlite_master)"
    ))?;
    missing.iter().try_for_each(|sql| tx.execute_batch(sql))?;
    let tables = texts(format!(
        "SELECT name FROM synqlite_taken.sqlite_master WHERE {ours} AND type = 'table' \
         AND name NOT IN ('synqlite_journal', 'synqlite_history')"
    ))?;
    for table in tables {
        tx.execute_batch(&format!(
            "DELETE FROM main.{table}; INSERT INTO main.{table} SELECT * FROM synqlite_taken.{table}"
        ))?;
    }
    journal::forget(&tx, last)?;
    Ok(tx.commit()?)
}
