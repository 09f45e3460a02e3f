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

/// A trigger of the database, of whomever.
struct Trigger {
    name: String,
    table: String,
    sql: String,
}

impl Trigger {
    fn remove(&self, conn: &Connection) -> Result<()> {
        Ok(conn.execute_batch(&format!("DROP TRIGGER main.{}", quote(&self.name)))?)
    }
}

/// All that there are, in the order in which they were made.
fn in_order(conn: &Connection) -> Result<Vec<Trigger>> {
    let sql =
        "SELECT name, tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' ORDER BY rowid";
    let mut statement = conn.prepare(sql)?;
    let trigger = |row: &rusqlite::Row<'_>| {
        Ok(Trigger { name: row.get(0)?, table: row.get(1)?, sql: row.get(2)? })
    };
    let all = statement.query_map([], trigger)?;
    Ok(all.collect::<Result<_, _>>()?)
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
    let mut muted = in_order(conn)?;
    muted.retain(|t| !names.iter().any(|n| n.eq_ignore_ascii_case(&t.name)));
    muted.iter().try_for_each(|t| t.remove(conn))?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true)?;
    let done = write();
    let broken = !conn.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    done?;
    muted.iter().try_for_each(|t| conn.execute_batch(&t.sql))?;
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

/// Deletes rows of a table. Triggers that refuse that are left out for the row: it is gone on all other sites.
pub(super) struct Deletes<'a> {
    conn: &'a Connection,
    table: &'a str,
    /// The one that refused the last row that one alone refused. It is likely to refuse the next.
    last: Option<String>,
}

impl<'a> Deletes<'a> {
    pub(super) fn of(conn: &'a Connection, table: &'a str) -> Deletes<'a> {
        Deletes { conn, table, last: None }
    }

    /// Deletes one.
    pub(super) fn delete(&mut self, delete: impl Fn() -> Result<()>) -> Result<()> {
        let conn = self.conn;
        let done = despite_indexes(conn, &delete);
        if !refused(&done) || !conn.db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)? {
            return done;
        }
        let all = in_order(conn)?;
        if let Some(last) = self.last.take()
            && let done = without(conn, &all, &[&last], &delete)?
            && !refused(&done)
        {
            self.last = Some(last);
            return done;
        }
        let refuse = self.who_refuses(&all, &delete)?;
        let done = without(conn, &all, &refuse, &delete)?;
        if refused(&done) {
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
            return delete();
        }
        self.last = refuse.first().filter(|_| refuse.len() == 1).map(|name| (*name).to_owned());
        done
    }

    /// The triggers on the table that refuse it, each asked alone.
    fn who_refuses<'t>(
        &self,
        all: &'t [Trigger],
        delete: impl Fn() -> Result<()>,
    ) -> Result<Vec<&'t str>> {
        let mut refuse = Vec::new();
        for one in all.iter().filter(|t| t.table.eq_ignore_ascii_case(self.table)) {
            self.conn.execute_batch("SAVEPOINT synqlite_refusal")?;
            let mut others = all.iter().filter(|t| t.name != one.name);
            let alone = others.try_for_each(|t| t.remove(self.conn)).and_then(|()| delete());
            self.conn.execute_batch("ROLLBACK TO synqlite_refusal; RELEASE synqlite_refusal")?;
            if refused(&alone) {
                refuse.push(one.name.as_str());
            }
        }
        Ok(refuse)
    }
}

fn refused(done: &Result<()>) -> bool {
    match done {
        Err(Error::Sqlite(e)) => e.sqlite_error_code() == Some(ErrorCode::ConstraintViolation),
        _ => false,
    }
}

/// What `write` comes to without some of all triggers. Those that were made after the first of them are made anew
/// too, for they fire in the order in which they were made.
fn without(
    conn: &Connection,
    all: &[Trigger],
    out: &[&str],
    write: impl Fn() -> Result<()>,
) -> Result<Result<()>> {
    let is_out = |t: &&Trigger| out.contains(&t.name.as_str());
    all.iter().filter(is_out).try_for_each(|t| t.remove(conn))?;
    let done = write();
    let first = all.iter().position(|t| is_out(&t)).unwrap_or(all.len());
    let mut later = all.iter().skip(first);
    later.clone().filter(|t| !is_out(t)).try_for_each(|t| t.remove(conn))?;
    later.try_for_each(|t| conn.execute_batch(&t.sql))?;
    Ok(done)
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
