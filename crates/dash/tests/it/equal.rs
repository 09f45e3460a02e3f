//! Equal to SQLite: random statements give the same answers here as on SQLite's own file system,
//! and leave the same database.
//!
//! `SYNQLITE_RUNS=1000 cargo test --release -p synqlite-dash --test it equal` for 1,000 runs of 250
//! steps; a failure names its seed, and `SYNQLITE_SEED` runs that one alone.

use crate::Random;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use synqlite_dash::Mode;

const STEPS: usize = 250;

/// A connection with a second database attached, on one file system.
struct Side {
    db: Connection,
    uris: [String; 2],
}

impl Side {
    fn open(folder: &Path, parameters: &str) -> Side {
        let uri = |name: &str| format!("file:{}?{parameters}", folder.join(name).display());
        let uris = [uri("main.db"), uri("other.db")];
        Side { db: Side::connect(&uris), uris }
    }

    fn connect(uris: &[String; 2]) -> Connection {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        let db = Connection::open_with_flags(&uris[0], flags).expect("opens");
        db.execute("ATTACH ?1 AS other", [&uris[1]]).expect("attaches");
        db
    }

    fn reopen(&mut self) {
        self.db = Connection::open_in_memory().expect("opens");
        self.db = Side::connect(&self.uris);
    }

    /// What a statement answers: rows, or an error.
    fn ask(&self, sql: &str) -> Result<Vec<Vec<Value>>, String> {
        let mut statement = self.db.prepare(sql).map_err(|e| e.to_string())?;
        let width = statement.column_count();
        let mut rows = statement.query([]).map_err(|e| e.to_string())?;
        let mut out = Vec::new();
        while let Some(row) = rows.next().map_err(|e| e.to_string())? {
            let value = |at| row.get::<_, Value>(at).unwrap_or(Value::Null);
            out.push((0..width).map(value).collect());
        }
        Ok(out)
    }
}

/// A random statement. `depth` counts the open savepoints.
fn statement(random: &mut Random, depth: &mut usize) -> String {
    let schema = ["main", "other"][random.below(2)];
    let table = format!("{schema}.t{}", random.below(3));
    let key = random.below(60);
    let size = random.below(4) * random.below(400);
    let blob = format!("printf('%.*c', {size}, 'x') || {}", random.below(1000));
    match random.below(40) {
        0 => format!("CREATE TABLE IF NOT EXISTS {table}(a INTEGER PRIMARY KEY, b UNIQUE, c)"),
        1 => format!(
            "CREATE TABLE IF NOT EXISTS {table}(a INT PRIMARY KEY, b, c CHECK(c <> 7)) WITHOUT ROWID"
        ),
        2 => format!(
            "CREATE INDEX IF NOT EXISTS {schema}.i{} ON t{}(c, b)",
            random.below(2),
            random.below(3)
        ),
        3 if random.chance(30) => format!("DROP TABLE IF EXISTS {table}"),
        4 if random.chance(50) => {
            format!("ALTER TABLE {table} ADD COLUMN d{} DEFAULT {key}", random.below(3))
        }
        5 | 6 => "BEGIN".to_owned(),
        7 => ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"][random.below(2)].to_owned(),
        8 | 9 => "COMMIT".to_owned(),
        10 => "ROLLBACK".to_owned(),
        11 | 12 => {
            *depth += 1;
            format!("SAVEPOINT s{depth}")
        }
        13 => format!("ROLLBACK TO s{}", random.below(*depth + 1)),
        14 => format!("RELEASE s{}", random.below(*depth + 1)),
        15 if random.chance(40) => format!("VACUUM {schema}"),
        16 if random.chance(30) => {
            format!("PRAGMA {schema}.page_size = {}", 512 << random.below(5))
        }
        17 => format!("PRAGMA {schema}.incremental_vacuum({})", random.below(5)),
        18 if random.chance(30) => format!("PRAGMA {schema}.auto_vacuum = {}", random.below(3)),
        19 => {
            let modes = ["delete", "truncate", "persist", "memory"];
            format!("PRAGMA {schema}.journal_mode = {}", modes[random.below(4)])
        }
        20 if random.chance(30) => {
            format!("PRAGMA locking_mode = {}", ["normal", "exclusive"][random.below(2)])
        }
        21 => format!("PRAGMA {schema}.synchronous = {}", random.below(4)),
        22 => format!("PRAGMA {schema}.cache_size = {}", [1, 5, 200][random.below(3)]),
        23 | 24 => format!(
            "WITH RECURSIVE n(i) AS (SELECT {key} UNION ALL SELECT i + 1 FROM n WHERE i < {}) \
             INSERT OR REPLACE INTO {table}(a, b, c) SELECT i, i || {blob}, i % 5 FROM n",
            key + random.below(200)
        ),
        25 => format!("DELETE FROM {table} WHERE a > {}", key * 2),
        26 => format!("UPDATE {table} SET b = b || 'y', c = a % {} ", 1 + key),
        27 => format!("UPDATE OR ABORT {table} SET c = a % 9"),
        28 => format!(
            "INSERT INTO other.t{0} SELECT * FROM main.t{0} WHERE a > {key}",
            random.below(3)
        ),
        29 | 30 => format!("SELECT count(*), sum(a), min(c), max(b) FROM {table}"),
        31 => format!("SELECT * FROM {table} WHERE a BETWEEN {key} AND {}", key + 5),
        32 => format!("PRAGMA {schema}.page_count"),
        33 => format!("PRAGMA {schema}.integrity_check"),
        34 => format!("PRAGMA {schema}.freelist_count"),
        35 => format!("REPLACE INTO {table}(a, b, c) VALUES({key}, {blob}, {})", random.below(9)),
        36 => format!("INSERT INTO temp.sqlite_schema VALUES({key})"),
        _ => format!("INSERT INTO {table}(a, b, c) VALUES({key}, {blob}, {})", random.below(9)),
    }
}

/// Everything in a database, in order.
fn dump(db: &Connection, schema: &str) -> Vec<String> {
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = db.prepare(sql).expect("a statement");
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            Ok((0..width).map(|at| format!("{:?}|", row.get::<_, Value>(at))).collect::<String>())
        });
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    };
    let mut out =
        texts(&format!("SELECT type, name, tbl_name, sql FROM {schema}.sqlite_schema ORDER BY 2"));
    let tables = db
        .prepare(&format!(
            "SELECT name FROM {schema}.sqlite_schema WHERE type = 'table' ORDER BY 1"
        ))
        .and_then(|mut s| {
            s.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()
        })
        .expect("tables");
    for table in tables {
        out.extend(texts(&format!("SELECT * FROM {schema}.{table} ORDER BY 1")));
    }
    out
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mode = Mode::ALL[random.below(Mode::ALL.len())];
    let folders = [crate::folder(), crate::folder()];
    let memory = [0, 3000, 20_000, 8 << 20][random.below(4)];
    let parameters = format!("vfs=dash&dash={mode}&dash_unsafe=1&dash_memory={memory}");
    let mut here = Side::open(folders[0].path(), &parameters);
    let mut there = Side::open(folders[1].path(), "vfs=unix");
    let mut depth = 0;
    let mut history = Vec::new();
    for schema in ["main", "other"] {
        let sql =
            format!("CREATE TABLE {schema}.t{}(a INTEGER PRIMARY KEY, b, c)", random.below(3));
        let _ = (here.ask(&sql), there.ask(&sql));
        history.push(sql);
    }
    for step in 0..STEPS {
        if random.chance(2) {
            here.reopen();
            there.reopen();
            depth = 0;
            history.push("-- reopened".to_owned());
            continue;
        }
        let sql = statement(&mut random, &mut depth);
        history.push(sql.clone());
        let (ours, theirs) = (here.ask(&sql), there.ask(&sql));
        assert!(
            ours == theirs,
            "seed {seed} mode {mode} step {step}: {sql}\n  here:  {ours:?}\n  there: {theirs:?}\n{}",
            history.join(";\n")
        );
    }
    let _ = (here.db.execute_batch("COMMIT"), there.db.execute_batch("COMMIT"));
    for schema in ["main", "other"] {
        assert_eq!(dump(&here.db, schema), dump(&there.db, schema), "seed {seed} mode {mode}");
    }
    let expected = ["main", "other"].map(|schema| dump(&there.db, schema));
    drop(here);
    for (name, expected) in ["main.db", "other.db"].iter().zip(expected) {
        let path: PathBuf = folders[0].path().join(name);
        let stock = Connection::open(&path).expect("opens");
        let said: String =
            stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("an answer");
        assert_eq!(said, "ok", "seed {seed} mode {mode}: {name} under a stock program");
        assert_eq!(dump(&stock, "main"), expected, "seed {seed} mode {mode}: {name}");
    }
}

#[test]
fn random_statements_answer_as_on_the_default_file_system() {
    crate::register();
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    if let Some(seed) = number("SYNQLITE_SEED") {
        return run(seed);
    }
    for seed in 0..number("SYNQLITE_RUNS").unwrap_or(30) {
        run(seed);
    }
}
