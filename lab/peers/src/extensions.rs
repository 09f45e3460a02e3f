//! Other replications for SQLite, loaded as the extensions that their makers publish: cr-sqlite
//! (MIT) and sqlite-sync (Elastic License 2.0, which allows such measurements).
//!
//! The files come from the environment, `CRSQLITE` and `CLOUDSYNC`; their hashes are in every label.

use rusqlite::Connection;
use std::path::PathBuf;
use synqlite_lab::store::Label;
use synqlite_lab::{Error, Extension, ExtensionName, Result};

/// Both of them.
pub static ALL: [Extension; 2] = [
    Extension {
        name: ExtensionName::CrSqlite,
        load: |conn| load(conn, "CRSQLITE", "sqlite3_crsqlite_init"),
        replicate: |conn, table| call(conn, "SELECT crsql_as_crr(?1)", table),
        close: |conn| Ok(conn.query_row("SELECT crsql_finalize()", [], |_| Ok(()))?),
        label: |conn| label(conn, "CRSQLITE", "cr-sqlite", "SELECT CAST(crsql_sha() AS TEXT)"),
    },
    Extension {
        name: ExtensionName::Cloudsync,
        load: |conn| load(conn, "CLOUDSYNC", "sqlite3_cloudsync_init"),
        // The third parameter lets it take integer keys, which it advises against.
        replicate: |conn, table| call(conn, "SELECT cloudsync_init(?1, 'cls', 1)", table),
        close: |conn| Ok(conn.query_row("SELECT cloudsync_terminate()", [], |_| Ok(()))?),
        label: |conn| label(conn, "CLOUDSYNC", "sqlite-sync", "SELECT cloudsync_version()"),
    },
];

fn file(variable: &str) -> Result<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).ok_or_else(|| {
        Error::Bad(format!("set {variable} to the extension's file, as its makers publish it"))
    })
}

#[allow(unsafe_code)]
fn load(conn: &Connection, variable: &str, entry: &str) -> Result<()> {
    let file = file(variable)?;
    // SAFETY: whoever sets the variable trusts the file; it is loaded for this connection only.
    unsafe {
        conn.load_extension_enable()?;
        conn.load_extension(&file, Some(entry))?;
    }
    Ok(conn.load_extension_disable()?)
}

fn call(conn: &Connection, sql: &str, table: &str) -> Result<()> {
    Ok(conn.query_row(sql, [table], |_| Ok(()))?)
}

fn label(conn: &Connection, variable: &str, name: &str, sql: &str) -> Result<Label> {
    let path = file(variable)?;
    let bytes = std::fs::read(&path).map_err(|e| Error::Bad(format!("{}: {e}", path.display())))?;
    let version: String = conn.query_row(sql, [], |row| row.get(0))?;
    let settings =
        format!("its defaults; file with BLAKE3 {}", &blake3::hash(&bytes).to_hex()[..16]);
    Ok(Label { version: format!("{name} {version}"), settings })
}
