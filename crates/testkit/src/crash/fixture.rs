//! The databases that every round of the crash campaign begins with.

use crate::world::{Result, dump_sql};
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};
use synqlite_remote::{Remote, Session};

const SCHEMA: &str = "
    CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT, city TEXT);
    CREATE TABLE item(customer INT NOT NULL REFERENCES customer(id), no INT, what TEXT, price REAL,
                      PRIMARY KEY(customer, no)) WITHOUT ROWID;
    CREATE TABLE setting(k TEXT PRIMARY KEY, v);
    CREATE TABLE note(at, text);
    CREATE INDEX customer_city ON customer(city);";

/// Sites a, b, c of one database with unfolded edits, a folder to which c has pushed, and a
/// database that is no replica.
pub struct Fixture {
    dir: tempfile::TempDir,
    /// What each of them shows.
    pub shown: BTreeMap<String, Shown>,
}

/// What a database shows: its schema, ours left out, and its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    rows: usize,
    hash: u64,
}

impl Fixture {
    /// A fixture of about `rows` rows a table.
    pub fn new(rows: u32) -> Result<Fixture> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name);
        let conn = Connection::open(at("plain.db"))?;
        conn.execute_batch(SCHEMA)?;
        conn.execute_batch(&format!(
            "BEGIN;
             WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < {rows})
             INSERT INTO customer SELECT i, 'customer ' || i, 'city ' || (i % 97) FROM i;
             INSERT INTO item SELECT id, id % 3, 'item ' || id, id / 8.0 FROM customer;
             INSERT INTO setting SELECT 'key ' || id, id FROM customer WHERE id % 5 = 0;
             INSERT INTO note SELECT id, 'note ' || id FROM customer WHERE id % 2 = 0;
             COMMIT"
        ))?;
        conn.close().map_err(|(_, e)| e)?;
        std::fs::copy(at("plain.db"), at("a.db"))?;
        Replica::init(&at("a.db"), &InitOptions::default(), Arc::new(System))?;
        for name in ["b.db", "c.db"] {
            std::fs::copy(at("a.db"), at(name))?;
            let options = InitOptions { new_site: true, ..InitOptions::default() };
            Replica::init(&at(name), &options, Arc::new(System))?;
        }
        let folder = Remote::parse(&format!("file://{}/", at("folder").display()))?;
        for round in 0..2 {
            edit(&at("c.db"), rows, 5 + round)?;
            let mut replica = Replica::open(&at("c.db"), Arc::new(System))?;
            folder.push(&mut replica, &session())?;
        }
        edit(&at("a.db"), rows, 1)?;
        edit(&at("b.db"), rows, 2)?;
        let mut shown = BTreeMap::new();
        for name in databases(dir.path())? {
            // Rounds copy these files by hand.
            let conn = Connection::open(at(&name))?;
            if has_traces(&at(&name))? {
                conn.execute("UPDATE synqlite_meta SET value = '' WHERE key = 'instance'", [])?;
            }
            shown.insert(name.clone(), Shown::of(&at(&name))?);
        }
        Ok(Fixture { dir, shown })
    }

    /// A copy for one round.
    pub fn copy(&self, wal: bool) -> Result<tempfile::TempDir> {
        let copy = tempfile::tempdir()?;
        copy_dir(self.dir.path(), copy.path())?;
        for name in databases(copy.path())?.iter().filter(|_| wal) {
            let conn = Connection::open(copy.path().join(name))?;
            conn.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))?;
        }
        Ok(copy)
    }
}

/// What one site writes: changes of all kinds, some of them to rows that others change too. New
/// rows have keys that no other site chooses.
fn edit(path: &Path, rows: u32, site: u32) -> Result<()> {
    let conn = Connection::open(path)?;
    let far = 1_000_000 * site;
    conn.execute_batch(&format!(
        "PRAGMA foreign_keys=ON; BEGIN;
         UPDATE customer SET city = 'moved by {site}' WHERE id % {} = 0;
         UPDATE customer SET name = name || ' {site}' WHERE id % 11 = {site};
         INSERT INTO customer SELECT id + {far}, 'new', 'of {site}' FROM customer WHERE id <= {rows} AND id % 4 = 0;
         INSERT INTO item SELECT id, 1, 'by {site}', 1 FROM customer WHERE id > {far};
         UPDATE item SET price = price * {site} + 1 WHERE customer % 5 = 0;
         DELETE FROM item WHERE customer <= {rows} AND customer % 13 = {site};
         INSERT OR REPLACE INTO setting SELECT 'key ' || id, {site} FROM customer WHERE id <= {rows} AND id % 7 = 0;
         DELETE FROM setting WHERE v % 17 = {site};
         INSERT INTO note SELECT id, 'of {site}' FROM customer WHERE id % 6 = {site};
         DELETE FROM note WHERE at % 19 = {site};
         COMMIT",
        site + 2
    ))?;
    Ok(())
}

/// How the campaign itself synchronizes.
pub(super) fn session() -> Session {
    Session { env: Arc::new(System), force: false, whole: false }
}

/// Names of the databases in a folder.
pub fn databases(dir: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // What begins with a dot is a clone that never got its name.
        if name.ends_with(".db") && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether anything of ours is in the database.
pub fn has_traces(path: &Path) -> Result<bool> {
    let conn = Connection::open(path)?;
    let sql = "SELECT 1 FROM sqlite_master WHERE name LIKE 'synqlite%'";
    Ok(conn.prepare(sql)?.exists([])?)
}

/// How many rows were received and are not merged yet.
pub fn arriving(path: &Path) -> Result<u64> {
    match has_traces(path)? {
        true => Ok(Replica::open(path, Arc::new(System))?.status()?.arriving),
        false => Ok(0),
    }
}

impl Shown {
    /// What the database at `path` shows.
    pub fn of(path: &Path) -> Result<Shown> {
        let conn = Connection::open(path)?;
        let own = "name NOT LIKE 'synqlite%' AND tbl_name NOT LIKE 'synqlite%' AND name NOT LIKE 'sqlite_%'";
        let sql = format!("SELECT type || name || sql FROM sqlite_master WHERE {own} ORDER BY 1");
        let mut lines: Vec<String> = conn
            .prepare(&sql)?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        let sql =
            format!("SELECT name FROM sqlite_master WHERE type = 'table' AND {own} ORDER BY 1");
        let tables: Vec<String> = conn
            .prepare(&sql)?
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        for table in tables {
            let mut statement = conn.prepare(&dump_sql(&conn, &table)?)?;
            let mut rows: Vec<String> =
                statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            rows.sort();
            lines.push(table);
            lines.append(&mut rows);
        }
        let mut hasher = DefaultHasher::new();
        lines.hash(&mut hasher);
        Ok(Shown { rows: lines.len(), hash: hasher.finish() })
    }
}

/// Synchronizes the named replicas with one another and gives what all of them show then; `None`
/// if they differ.
pub fn settle(dir: &Path, names: &[&str]) -> Result<Option<Shown>> {
    let paths: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    for _ in 0..2 {
        for mine in &paths {
            for other in paths.iter().filter(|other| *other != mine) {
                let mut replica = Replica::open(mine, Arc::new(System))?;
                let remote = Remote::Replica(other.clone());
                remote.pull(&mut replica, &session())?;
            }
        }
    }
    let shown: Vec<Shown> = paths.iter().map(|path| Shown::of(path)).collect::<Result<_>>()?;
    Ok(shown.iter().all(|s| *s == shown[0]).then(|| shown[0].clone()))
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&target)?;
            copy_dir(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
