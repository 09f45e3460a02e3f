//! What a replica of format 2 has, as this program writes it.
//!
//! Format 2 wrote the number of a birth with its lowest bits first. So rows that were born one after another lay apart
//! in each index of identities, and folding many updates wrote most pages of it again and again.

use super::codec;
use crate::Result;
use crate::meta;
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;

/// The format before this one.
const FORMAT: i64 = 2;

/// Where identities are looked up.
const COLUMNS: &[(&str, &str)] = &[
    ("synqlite_row", "rid"),
    ("synqlite_row", "winner"),
    ("synqlite_reference", "rid"),
    ("synqlite_stash", "rid"),
    ("synqlite_shown", "rid"),
    ("synqlite_number", "rid"),
];

/// Whether a database is a replica of format 2.
pub(crate) fn is_older(conn: &Connection) -> Result<bool> {
    Ok(meta::is_replica(conn)? && meta::get::<i64>(conn, "format")? == Some(FORMAT))
}

/// Writes all identities of a replica of format 2 as this program does. In a transaction.
pub(crate) fn upgrade(conn: &Connection) -> Result<()> {
    if !is_older(conn)? {
        return Ok(());
    }
    let (name, flags) = ("synqlite_identity", FunctionFlags::SQLITE_DETERMINISTIC);
    conn.create_scalar_function(name, 1, flags, |context| {
        let bytes = context.get_raw(0).as_blob()?;
        Ok(codec::of_format_2(bytes).unwrap_or_else(|| bytes.to_vec()))
    })?;
    for (table, column) in COLUMNS {
        let sql = "SELECT 1 FROM main.sqlite_master WHERE type = 'table' AND name = ?1";
        if conn.prepare_cached(sql)?.exists([table])? {
            let sql = format!(
                "UPDATE main.{table} SET {column} = {name}({column}) \
                 WHERE {column} >= x'01' AND {column} < x'02'"
            );
            conn.execute(&sql, [])?;
        }
    }
    conn.remove_function(name, 1)?;
    meta::set(conn, "format", meta::FORMAT)
}
