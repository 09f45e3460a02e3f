//! The application's side of a site: a connection with nothing of ours in it, in this process or on the
//! system's SQLite, which a Python process has loaded.

use super::schema::quote;
use crate::world::Result;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, MAIN_DB, OptionalExtension};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// SQLite as the system has it.
pub struct System {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Its version.
    pub version: String,
}

/// A connection of an application.
pub enum App {
    /// In this process.
    Own(Connection),
    /// In the other one.
    System(usize),
}

/// What became of statements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ran {
    /// They are committed.
    Done,
    /// One failed, for this reason; nothing was done.
    Failed(String),
}

impl System {
    /// Starts it. `None` where there is no Python, or where it has the engine's version.
    pub fn start() -> Option<System> {
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("system_app.py");
        let mut child = Command::new("/usr/bin/python3")
            .arg(driver)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take()?);
        let mut system = System { child, input, output, version: String::new() };
        let version = system.ask(&json!({ "op": "version" })).ok()?;
        system.version = version["version"].as_str()?.to_owned();
        (system.version != rusqlite::version()).then_some(system)
    }

    fn ask(&mut self, question: &Value) -> Result<Value> {
        let input = self.input.as_mut().ok_or("the other SQLite has ended")?;
        writeln!(input, "{question}")?;
        input.flush()?;
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("the other SQLite ended without an answer".into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        match answer["broken"].as_str() {
            Some(why) => Err(format!("the other SQLite: {why}").into()),
            None => Ok(answer),
        }
    }
}

impl Drop for System {
    /// The end of its input ends the process.
    fn drop(&mut self) {
        self.input = None;
        let _ended = self.child.wait();
    }
}

impl App {
    /// Opens the file of a site.
    pub fn open(system: Option<&mut System>, slot: usize, path: &Path) -> Result<App> {
        match system {
            Some(system) => {
                system.ask(&json!({ "op": "open", "slot": slot, "path": path }))?;
                Ok(App::System(slot))
            }
            None => {
                let conn = Connection::open(path)?;
                conn.execute_batch("PRAGMA synchronous = OFF")?;
                Ok(App::Own(conn))
            }
        }
    }

    /// Closes it.
    pub fn close(self, system: Option<&mut System>) -> Result<()> {
        match (self, system) {
            (App::System(slot), Some(system)) => {
                system.ask(&json!({ "op": "close", "slot": slot }))?;
            }
            (App::Own(conn), _) => conn.close().map_err(|(_, e)| e)?,
            (App::System(_), None) => {}
        }
        Ok(())
    }

    /// Runs statements one after the other; with `whole` as one transaction. The first that fails
    /// ends it, and what is open is rolled back.
    ///
    /// The triggers read SQLite's clock, so the time is put into the journal afterwards.
    pub fn run(
        &self,
        system: Option<&mut System>,
        script: &[String],
        whole: bool,
        at: f64,
    ) -> Result<Ran> {
        match (self, system) {
            (App::Own(conn), _) => run(conn, script, whole, at),
            (App::System(slot), Some(system)) => {
                let question = json!({ "op": "run", "slot": slot, "script": script, "whole": whole, "at": at });
                let answer = system.ask(&question)?;
                let failed = answer["failed"].as_str();
                Ok(failed.map_or(Ran::Done, |why| Ran::Failed(why.to_owned())))
            }
            (App::System(_), None) => Err("there is no other SQLite".into()),
        }
    }

    /// The first column of what a query finds, as text.
    pub fn texts(&self, system: Option<&mut System>, sql: &str) -> Result<Vec<String>> {
        match (self, system) {
            (App::Own(conn), _) => texts(conn, sql),
            (App::System(slot), Some(system)) => {
                let answer = system.ask(&json!({ "op": "texts", "slot": slot, "sql": sql }))?;
                let list = answer["texts"].as_array().map_or(&[][..], Vec::as_slice);
                Ok(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            }
            (App::System(_), None) => Err("there is no other SQLite".into()),
        }
    }
}

/// The first column of what a query finds, as text.
pub fn texts(conn: &Connection, sql: &str) -> Result<Vec<String>> {
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(match row.get_ref(0)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Real(number) => number.to_string(),
            ValueRef::Null => String::new(),
        });
    }
    Ok(out)
}

/// [`App::run`] by a connection of this process.
pub fn run(conn: &Connection, script: &[String], whole: bool, at: f64) -> Result<Ran> {
    let last = "SELECT coalesce(max(seq), 0) FROM synqlite_journal";
    let journal: Option<i64> = conn.query_row(last, [], |row| row.get(0)).ok();
    let stamp = |conn: &Connection| -> rusqlite::Result<()> {
        if let Some(seq) = journal {
            conn.execute("UPDATE synqlite_journal SET at = ?1 WHERE seq > ?2", (at, seq))?;
        }
        Ok(())
    };
    let keys: i64 = conn.query_row("PRAGMA foreign_keys", [], |row| row.get(0))?;
    let done = (|| {
        if whole {
            conn.execute_batch("BEGIN")?;
        }
        let mut kept = Vec::new();
        for sql in script {
            match sql.split_once(' ').unwrap_or((sql, "")) {
                ("@keys", "off") => conn.execute_batch("PRAGMA foreign_keys = OFF")?,
                ("@keys", _) => conn.execute_batch(&format!("PRAGMA foreign_keys = {keys}"))?,
                ("@keep", table) => kept = triggers(conn, table)?,
                ("@handle", rest) => overwrite(conn, rest)?,
                ("@make", _) => kept.iter().try_for_each(|sql: &String| conn.execute_batch(sql))?,
                _ => conn.execute_batch(sql)?,
            }
        }
        stamp(conn)?;
        if whole { conn.execute_batch("COMMIT") } else { Ok(()) }
    })();
    match done {
        Ok(()) => Ok(Ran::Done),
        Err(e) => {
            if !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK")?;
            }
            stamp(conn)?;
            conn.execute_batch(&format!("PRAGMA foreign_keys = {keys}"))?;
            Ok(Ran::Failed(e.to_string()))
        }
    }
}

fn triggers(conn: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?1";
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([table], |row| row.get(0))?;
    rows.collect()
}

/// A folder in memory where there is some: histories are not about the disk.
pub fn folder() -> Result<tempfile::TempDir> {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    Ok(tempfile::Builder::new().prefix("synqlite-wild").tempdir_in(base)?)
}

/// Overwrites a text of the same length by incremental blob I/O, and updates its row, which leaves it as it is.
/// `what`: how many such rows come before, the table, the column, the new text.
fn overwrite(conn: &Connection, what: &str) -> rusqlite::Result<()> {
    let [nth, table, column, text] = what.splitn(4, '|').collect::<Vec<_>>()[..] else {
        return Ok(());
    };
    let (text, of) = (text.trim_matches('\''), quote(table));
    let c = quote(column);
    let found = format!(
        "SELECT _rowid_ FROM {of} WHERE typeof({c}) = 'text' AND length(CAST({c} AS BLOB)) = {} \
         AND (SELECT encoding FROM pragma_encoding) = 'UTF-8' ORDER BY 1 LIMIT 1 OFFSET {nth}",
        text.len()
    );
    let Some(row) = conn.query_row(&found, [], |row| row.get(0)).optional()? else { return Ok(()) };
    let mut blob = conn.blob_open(MAIN_DB, table, column, row, false)?;
    blob.write_at(text.as_bytes(), 0)?;
    blob.close()?;
    conn.execute(&format!("UPDATE {of} SET {c} = {c} WHERE _rowid_ = ?1"), [row]).map(drop)
}
