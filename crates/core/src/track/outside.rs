//! Tables that were chosen to stay here do so under another name.
//!
//! They have no triggers that would tell of it. So a table that seems to be new, and has the columns of one that was
//! left out by choice and is gone, is that one. What only cannot be replicated may be by a change of its schema.

use super::is_caught_up;
use crate::policy::Policies;
use crate::{Result, meta};
use rusqlite::Connection;

/// The entry of the metadata that lists them: name and columns, in hexadecimal digits, a line for each.
const KEY: &str = "outside";

/// A table of the application.
struct Found {
    name: String,
    /// In small letters.
    name_hex: String,
    columns_hex: String,
    /// Whether it has triggers of ours.
    captured: bool,
}

/// The tables that are there and have storage of their own.
fn tables(conn: &Connection) -> Result<Vec<Found>> {
    let sql = "SELECT m.name, hex(lower(m.name)), \
                      hex((SELECT group_concat(name || ' ' || type) FROM pragma_table_info(m.name, 'main'))), \
                      EXISTS(SELECT 1 FROM main.sqlite_master AS r WHERE r.type = 'trigger' \
                             AND r.tbl_name = m.name AND r.name LIKE 'synqlite\\_%' ESCAPE '\\') \
               FROM main.sqlite_master AS m WHERE m.type = 'table' AND m.rootpage > 0 \
               AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND m.name NOT LIKE 'synqlite\\_%' ESCAPE '\\'";
    let mut statement = conn.prepare(sql)?;
    let found = statement.query_map([], |row| {
        let (name, name_hex) = (row.get(0)?, row.get(1)?);
        Ok(Found { name, name_hex, columns_hex: row.get(2)?, captured: row.get(3)? })
    })?;
    Ok(found.collect::<rusqlite::Result<_>>()?)
}

/// Takes note of the tables that are there and left out by choice, as the schema is another than before.
pub(super) fn note(conn: &Connection, policies: &Policies) -> Result<()> {
    let excluded: String = meta::get(conn, "exclude")?.unwrap_or_default();
    let local = policies.list("local_tables");
    let chosen = |name: &str| {
        let mut names = excluded.lines().chain(local.iter().copied());
        names.any(|other| other.eq_ignore_ascii_case(name))
    };
    let mut found = tables(conn)?;
    found.retain(|table| chosen(&table.name));
    let lines: Vec<_> = found.iter().map(|t| format!("{} {}", t.name_hex, t.columns_hex)).collect();
    meta::set(conn, KEY, lines.join("\n"))
}

/// Leaves tables out that were left out under another name.
pub fn follow(conn: &Connection) -> Result<()> {
    if is_caught_up(conn)? {
        return Ok(());
    }
    let was: String = meta::get(conn, KEY)?.unwrap_or_default();
    let was: Vec<(&str, &str)> = was.lines().filter_map(|line| line.split_once(' ')).collect();
    if was.is_empty() {
        return Ok(());
    }
    let found = tables(conn)?;
    let gone = |(name, _): &&(&str, &str)| found.iter().all(|table| table.name_hex != *name);
    let gone: Vec<_> = was.iter().filter(gone).collect();
    let mut known = conn.prepare_cached(
        "SELECT 1 FROM synqlite_table WHERE name = ?1 COLLATE NOCASE AND shape <> ''",
    )?;
    let mut again = Vec::new();
    for table in found.iter().filter(|table| !table.captured && !table.name.contains('\n')) {
        let is_new = was.iter().all(|(name, _)| *name != table.name_hex);
        let alike = gone.iter().any(|(_, columns)| *columns == table.columns_hex);
        if is_new && alike && !known.exists([&table.name])? {
            again.push(table.name.as_str());
        }
    }
    if again.is_empty() {
        return Ok(());
    }
    let excluded: String = meta::get(conn, "exclude")?.unwrap_or_default();
    again.extend(excluded.lines());
    meta::set(conn, "exclude", again.join("\n"))
}
