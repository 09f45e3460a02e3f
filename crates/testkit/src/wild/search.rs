//! A search index that triggers of the application keep over a table: right on every site after every merge (R-TRG).
//!
//! It goes by rowids, so its table numbers its rows. No trigger hears of a row that REPLACE displaces, nor of what a
//! rebuild moves, and where other triggers write the row that these hear of, they hear of it in the wrong order: so
//! histories with an index have none of these.

use super::play::{Played, Player, fault, harness};
use super::schema::{Schema, Table, quote};
use super::site_name;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

/// The index, and what the names of its tables and triggers begin with.
pub(super) const INDEX: &str = "found";

/// A trigger in half of the histories that lets some rows not go where it fires for a merge. Ours are out of the way
/// then.
const STAYS: &str = "found_stays";

/// Has that trigger fire for merges.
pub fn policy(schema: &Schema, seed: u64) -> Option<(String, String)> {
    let stays = searched(schema).is_some() && (seed >> 8).is_multiple_of(2);
    stays.then(|| ("fire_on_merge".to_owned(), STAYS.to_owned()))
}

/// The table that an index is over, the first that numbers its rows; and what it reads of it.
fn searched(schema: &Schema) -> Option<(String, String)> {
    let found = |t: &Table| Some((quote(&t.name), quote(&t.token()?.name)));
    schema.values().filter(|t| t.numbers_rows()).find_map(found)
}

/// What makes it, if any table can have one. Half of the indexes keep texts of their own, the others read their
/// table's.
pub fn setup(schema: &Schema, seed: u64) -> Vec<String> {
    let Some((table, row)) = searched(schema) else { return vec![] };
    let own = (seed >> 7).is_multiple_of(2);
    let content = if own { String::new() } else { format!(", content={table}") };
    let insert = format!("INSERT INTO {INDEX}(rowid, {row}) VALUES(new.rowid, new.{row})");
    let delete = match own {
        true => format!("DELETE FROM {INDEX} WHERE rowid = old.rowid"),
        false => format!(
            "INSERT INTO {INDEX}({INDEX}, rowid, {row}) VALUES('delete', old.rowid, old.{row})"
        ),
    };
    let trigger = |event: &str, body: &str| {
        let name = format!("{INDEX}_{}", event.to_lowercase());
        format!("CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN {body}; END")
    };
    let stays = policy(schema, seed).map(|_| {
        format!(
            "CREATE TRIGGER {STAYS} BEFORE DELETE ON {table} WHEN old.rowid % 2 AND NOT EXISTS(
               SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name LIKE 'synqlite\\_%' ESCAPE '\\')
             BEGIN SELECT RAISE(ABORT, 'it stays'); END"
        )
    });
    let mut made = vec![
        format!("CREATE VIRTUAL TABLE {INDEX} USING fts5({row}{content})"),
        trigger("INSERT", &insert),
        trigger("DELETE", &delete),
        trigger("UPDATE", &format!("{delete}; {insert}")),
    ];
    made.extend(stays);
    made
}

/// What must hold of the index of a site that has one.
pub fn examine(player: &Player<'_>, n: usize) -> Played {
    let site = &player.sites[n];
    let conn = Connection::open(&site.path).map_err(harness)?;
    let sql = "SELECT sql FROM sqlite_master WHERE name = ?1";
    let made: Option<String> =
        conn.query_row(sql, [INDEX], |row| row.get(0)).optional().map_err(harness)?;
    let Some(made) = made else { return Ok(()) };
    let check = format!("INSERT INTO {INDEX}({INDEX}, rank) VALUES('integrity-check', 1)");
    match conn.execute(&check, []) {
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseCorrupt) => {
            return fault("search index", format!("{}: {e}", site_name(n)));
        }
        done => drop(done.map_err(harness)?),
    }
    let Some((table, row)) = searched(&site.schema) else { return Ok(()) };
    if made.contains("content=") {
        return Ok(());
    }
    let differ = format!(
        "SELECT count(*) FROM (SELECT rowid, {row} FROM {table} EXCEPT SELECT rowid, {row} FROM {INDEX}
           UNION ALL SELECT * FROM (SELECT rowid, {row} FROM {INDEX} EXCEPT SELECT rowid, {row} FROM {table}))"
    );
    match conn.query_row(&differ, [], |row| row.get::<_, i64>(0)).map_err(harness)? {
        0 => Ok(()),
        rows => fault("search index", format!("{}: {rows} rows differ", site_name(n))),
    }
}
