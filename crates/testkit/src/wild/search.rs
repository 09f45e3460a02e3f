//! A search index that triggers of the application keep over a table: right on every site after every merge (R-TRG).
//!
//! It goes by rowids, so its table numbers its rows. No trigger hears of a row that REPLACE displaces, nor of what a
//! rebuild moves, and where other triggers write the row that these hear of, they hear of it in the wrong order: so
//! histories with an index have none of these.

use super::play::{Played, Player, fault, harness};
use super::schema::{Schema, Table, quote};
use super::site_name;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

/// The index.
const INDEX: &str = "found";

/// What makes it, over the first table that numbers its rows; nothing if none does. Half of the indexes keep texts of
/// their own, the others read their table's.
pub fn setup(schema: &Schema, seed: u64) -> Vec<String> {
    let numbered = |t: &&Table| t.numbers_rows() && t.token().is_some();
    let Some(t) = schema.values().find(numbered) else { return vec![] };
    let (table, row) = (quote(&t.name), t.token().map_or(String::new(), |c| quote(&c.name)));
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
    vec![
        format!("CREATE VIRTUAL TABLE {INDEX} USING fts5({row}{content})"),
        trigger("INSERT", &insert),
        trigger("DELETE", &delete),
        trigger("UPDATE", &format!("{delete}; {insert}")),
    ]
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
    let Some(t) = site.schema.values().find(|t| t.numbers_rows()) else { return Ok(()) };
    let (table, row) = (quote(&t.name), t.token().map_or(String::new(), |c| quote(&c.name)));
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
