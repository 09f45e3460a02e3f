//! A database of one engine's turn, as the application sees it.

use crate::engine::{Attached, Engine, extension};
use crate::params::Settings;
use crate::{Error, Result};
use rusqlite::Connection;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::types::ValueRef;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An open database with an engine attached.
pub struct Database {
    /// The application's connection.
    pub conn: Connection,
    path: PathBuf,
    settings: Settings,
    tables: Vec<String>,
    engine: Engine,
    attached: Attached,
}

impl Database {
    /// Makes a new database at `path` with this schema, and attaches the engine.
    pub fn create(
        path: &Path,
        engine: Engine,
        settings: &Settings,
        schema: &str,
    ) -> Result<Database> {
        let conn = open(path, settings)?;
        conn.execute_batch(schema)?;
        let tables = application_tables(&conn)?;
        after_open(&conn, engine)?;
        let attached = engine.attach(path, &conn, &tables)?;
        let (path, settings) = (path.to_owned(), settings.clone());
        Ok(Database { conn, path, settings, tables, engine, attached })
    }

    /// To be called after every commit, with the rows it changed.
    pub fn committed(&mut self, changes: u64) -> Result<()> {
        self.attached.committed(changes)
    }

    /// Folds, if the engine can.
    pub fn fold(&mut self) -> Result<Option<u64>> {
        self.attached.fold()
    }

    /// The engine.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Empties the write-ahead log, where there is one, so that every phase begins with the same.
    pub fn checkpoint(&self) -> Result<()> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        Ok(self.conn.query_row(sql, [], |_| Ok(()))?)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What SQLite was asked to be.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Closes the application's connection and opens it again. `between` happens in between.
    pub fn reopen<T>(&mut self, between: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        before_close(&self.conn, self.engine)?;
        self.conn = Connection::open_in_memory()?;
        let done = between(&self.path)?;
        self.conn = open(&self.path, &self.settings)?;
        after_open(&self.conn, self.engine)?;
        Ok(done)
    }

    /// Bytes of the database and of every file beside it that begins with its name.
    pub fn bytes_of_files(&self) -> Result<f64> {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return Ok(0.0);
        };
        let mut bytes = 0;
        for file in std::fs::read_dir(folder).map_err(Error::io(folder))? {
            let file = file.map_err(Error::io(folder))?;
            let ours = file.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes());
            bytes += if ours { file.metadata().map_err(Error::io(folder))?.len() } else { 0 };
        }
        Ok(bytes as f64)
    }

    /// Bytes of the database's pages.
    pub fn bytes(&self) -> Result<f64> {
        let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        Ok(self.conn.query_row(sql, [], |row| row.get::<_, i64>(0))? as f64)
    }

    /// Digest of what the application's tables hold, in the order of their columns' values.
    pub fn digest(&self) -> Result<String> {
        let mut hasher = blake3::Hasher::new();
        for table in &self.tables {
            let quoted = table.replace('"', "\"\"");
            let columns = self.conn.prepare(&format!("SELECT * FROM \"{quoted}\""))?.column_count();
            let order: Vec<String> = (1..=columns).map(|i| i.to_string()).collect();
            let sql = format!("SELECT * FROM \"{quoted}\" ORDER BY {}", order.join(","));
            let mut statement = self.conn.prepare(&sql)?;
            let mut rows = statement.query([])?;
            hasher.update(table.as_bytes());
            while let Some(row) = rows.next()? {
                for i in 0..columns {
                    add(&mut hasher, row.get_ref(i)?);
                }
            }
        }
        Ok(short(&hasher))
    }

    /// Digest of the statements that the application's connection executes during `work`, with
    /// their values; those of triggers are none of them.
    pub fn traced<T>(
        &mut self,
        work: impl FnOnce(&mut Database) -> Result<T>,
    ) -> Result<(T, String)> {
        TRACED.set(blake3::Hasher::new());
        self.conn.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note));
        let result = work(self);
        self.conn.trace_v2(TraceEventCodes::empty(), None);
        Ok((result?, TRACED.with_borrow(short)))
    }

    /// Closes it; fails if a statement is still at work.
    pub fn close(self) -> Result<()> {
        drop(self.attached);
        before_close(&self.conn, self.engine)?;
        self.conn.close().map_err(|(_, e)| Error::from(e))
    }
}

fn open(path: &Path, settings: &Settings) -> Result<Connection> {
    let conn = Connection::open(settings.name_of(path))?;
    conn.busy_timeout(Duration::from_secs(30))?;
    conn.set_prepared_statement_cache_capacity(256);
    settings.apply(&conn)?;
    Ok(conn)
}

/// Loads the extension that an engine consists of.
fn after_open(conn: &Connection, engine: Engine) -> Result<()> {
    match engine {
        Engine::Extension(name) => (extension::find(name)?.load)(conn),
        _ => Ok(()),
    }
}

fn before_close(conn: &Connection, engine: Engine) -> Result<()> {
    match engine {
        Engine::Extension(name) => (extension::find(name)?.close)(conn),
        _ => Ok(()),
    }
}

thread_local! {
    static TRACED: RefCell<blake3::Hasher> = RefCell::new(blake3::Hasher::new());
}

fn note(event: TraceEvent<'_>) {
    let TraceEvent::Stmt(statement, text) = event else { return };
    // SQLite announces what a trigger does as a comment.
    if !text.starts_with("--") {
        let sql = statement.expanded_sql().unwrap_or_default();
        TRACED.with_borrow_mut(|hasher| {
            hasher.update(sql.as_bytes());
            hasher.update(b"\n");
        });
    }
}

fn short(hasher: &blake3::Hasher) -> String {
    hasher.finalize().to_hex()[..16].to_owned()
}

fn add(hasher: &mut blake3::Hasher, value: ValueRef<'_>) {
    let mut put = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    match value {
        ValueRef::Null => put(0, &[]),
        ValueRef::Integer(i) => put(1, &i.to_le_bytes()),
        ValueRef::Real(r) => put(2, &r.to_le_bytes()),
        ValueRef::Text(text) => put(3, text),
        ValueRef::Blob(blob) => put(4, blob),
    }
}

fn application_tables(conn: &Connection) -> Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%' \
               ORDER BY name";
    let mut statement = conn.prepare(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<rusqlite::Result<_>>()?)
}
