//! R-TRG: no trigger fires for a merged row, unless policy `fire_on_merge` names it.
//!
//! The effects of a trigger on replicated tables arrive as rows of their own; only one that keeps a
//! local table, such as a search index, has to run again where the row arrives.

use crate::Result;
use crate::schema::quote;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

/// Runs `write` with only the triggers in `names` in force. Names compare as in SQLite.
///
/// The others, our own included, are out of the way only within the transaction: they are dropped
/// and made again as they were.
pub(super) fn fire_only(
    conn: &Connection,
    names: &[&str],
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
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    done?;
    muted.iter().try_for_each(|(_, sql)| Ok(conn.execute_batch(sql)?))
}
