//! Makes a replica an ordinary database again, in whatever state its metadata is.
//!
//! All that is ours goes by its name, so it does not matter how much of it is left. What is removed is
//! overwritten: metadata keep values of deleted rows, and tokens.

use crate::connection::{connect, patiently, to_write};
use crate::env::Environment;
use crate::remotes::{clear_former_pages, overwriting};
use crate::replica::{Replica, check_format};
use crate::track;
use crate::{Error, Result, schema};
use rusqlite::Connection;
use std::path::Path;

/// What was removed from a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deinited {
    /// Names of triggers, tables and indexes.
    pub removed: Vec<String>,
    /// Nothing of them is left. Else the write-ahead log still has it, which other programs are using.
    pub cleared: bool,
}

impl Replica {
    /// Removes every trace of replication from the database.
    pub fn deinit(path: &Path, env: &dyn Environment) -> Result<Deinited> {
        let conn = connect(path, true, env)?;
        let clean = || {
            match check_format(&conn, path) {
                Ok(())
                | Err(Error::Torn { .. } | Error::Damaged(_) | Error::OlderFormat { .. }) => {}
                Err(e) => return Err(e),
            }
            let tx = to_write(&conn, path, env)?;
            let removed = remove(&tx)?;
            patiently(&conn, path, env, || tx.execute_batch("COMMIT"))?;
            Ok(removed)
        };
        let removed = overwriting(&conn, clean).map_err(|e| e.on(path))?;
        let cleared = clear_former_pages(&conn).map_err(|e| e.on(path))?;
        Ok(Deinited { removed, cleared })
    }
}

/// Drops all that is ours and returns the names.
pub(crate) fn remove(conn: &Connection) -> Result<Vec<String>> {
    let objects = track::own_objects(conn)?;
    for (kind, name) in &objects {
        let name = schema::quote(name);
        conn.execute_batch(&format!("DROP {kind} IF EXISTS main.{name}"))?;
    }
    Ok(objects.into_iter().map(|(_, name)| name).collect())
}
