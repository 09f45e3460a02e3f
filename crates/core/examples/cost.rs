//! What a replica costs: processor time of capture, fold, merge and clone against plain SQLite.
//!
//! `cargo run --release -p synqlite-core --features bundled --example cost -- [rows] [rounds]`
//!
//! Plain and replica run the same statements in turns, each on a fresh file in the same folder
//! (`SYNQLITE_DIR`, by default the system's temporary folder); a second plain run shows the
//! resolution. Ratios are of the medians of user and system time of this process.

use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

const BATCH: usize = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let rows: usize = args.next().map_or(Ok(50_000), |a| a.parse())?;
    let rounds: usize = args.next().map_or(Ok(5), |a| a.parse())?;
    let base = std::env::var("SYNQLITE_DIR").map_or(std::env::temp_dir(), Into::into);
    println!(
        "SQLite {}, {rows} rows of 5 columns, transactions of {BATCH}, {rounds} rounds, medians; \
         cache_size and page_size default; files in {}",
        rusqlite::version(),
        base.display()
    );
    for (mode, synchronous) in [("WAL", "NORMAL"), ("DELETE", "FULL")] {
        for key in ["INTEGER", "TEXT"] {
            let mut plain = Vec::new();
            let mut again = Vec::new();
            let mut replica = Vec::new();
            let mut engine = Vec::new();
            for round in 0..rounds {
                let dir = base.join(format!("synqlite-cost-{}-{round}", std::process::id()));
                std::fs::create_dir_all(&dir)?;
                let settings =
                    format!("PRAGMA journal_mode={mode}; PRAGMA synchronous={synchronous};");
                plain.push(application(&dir.join("plain.db"), &settings, key, rows, false)?.0);
                let (times, sync) =
                    application(&dir.join("replica.db"), &settings, key, rows, true)?;
                replica.push(times);
                engine.extend(sync);
                again.push(application(&dir.join("again.db"), &settings, key, rows, false)?.0);
                std::fs::remove_dir_all(&dir)?;
            }
            println!("\n{mode}/{synchronous}, {key} key");
            println!("{:<28}{:>12}{:>12}{:>14}", "", "plain µs/op", "ratio", "plain/plain");
            for (i, name) in PHASES.iter().enumerate() {
                let ops = if i < 3 { rows } else { rows / 25 };
                let p = median(&plain, i);
                println!(
                    "{name:<28}{:>12.2}{:>12.2}{:>14.2}",
                    p / ops as f64,
                    median(&replica, i) / p,
                    median(&again, i) / p
                );
            }
            for (i, name) in ENGINE.iter().enumerate() {
                println!("{name:<40}{:>14.2}", median(&engine, i));
            }
        }
    }
    Ok(())
}

const PHASES: [&str; 6] = [
    "bulk insert",
    "bulk update",
    "bulk delete",
    "single insert",
    "single update",
    "single delete",
];

const ENGINE: [&str; 12] = [
    "fold of fresh rows, rows/s",
    "fold of updated rows, rows/s",
    "fold of deleted rows, rows/s",
    "pull of fresh rows, rows/s",
    "pull of 100 changed rows, the first, ms",
    "file after inserts, over plain",
    "file after fold, over plain",
    "clone, ms",
    "pull of 100 changed rows, later, ms",
    "plain: 100 such updates by key, ms",
    "plain: index over the keys, rows/s",
    "pull of updated rows, rows/s",
];

/// So many pulls of 100 changed rows are done after the first; the median counts.
const LATER: i64 = 5;

type Times = Vec<f64>;

/// One application run; with `replica` also what the engine did in between.
fn application(
    path: &Path,
    settings: &str,
    key: &str,
    rows: usize,
    replicate: bool,
) -> Result<(Times, Option<Times>), Box<dyn std::error::Error>> {
    let mut app = Connection::open(path)?;
    app.execute_batch(settings)?;
    app.execute_batch(&format!(
        "PRAGMA foreign_keys=OFF; CREATE TABLE t(id {key} PRIMARY KEY NOT NULL, a TEXT, b INTEGER, c REAL, d TEXT)"
    ))?;
    let keys: Vec<rusqlite::types::Value> = (0..rows as i64).map(|i| name(key, i)).collect();
    let more: Vec<_> = (0..(rows / 25) as i64).map(|i| name(key, i + 10_000_000)).collect();
    let mut engine = None;
    let env = Arc::new(System);
    if replicate {
        Replica::init(path, &InitOptions::default(), env.clone())?;
        engine = Some(vec![0.0; ENGINE.len()]);
    }
    let twin = path.with_extension("twin");
    if let Some(engine) = &mut engine {
        let start = cpu();
        copy_site(path, &twin)?;
        engine[7] = (cpu() - start) / 1000.0;
    }
    let mut times = Vec::new();
    let insert = "INSERT INTO t VALUES(?1, 'abcdefghijklmnopqrst', ?2, 0.5, 'abcdefghijklmnopqrstabcdefghijklmnopqrst')";
    times.push(bulk(&mut app, insert, &keys)?);
    if let Some(engine) = &mut engine {
        engine[5] = size(&app)? / bare_size(&app)?;
        let mut mine = Replica::open(path, env.clone())?;
        let start = cpu();
        mine.fold()?;
        engine[0] = rows as f64 / (cpu() - start) * 1e6;
        engine[6] = size(&app)? / bare_size(&app)?;
        let mut other = Replica::open(&twin, env.clone())?;
        let start = cpu();
        other.pull_from(&mut mine, false)?;
        engine[3] = rows as f64 / (cpu() - start) * 1e6;
        let mut pulls = Vec::new();
        for i in 1..=1 + LATER {
            let sql = "UPDATE t SET b = -?1 WHERE rowid % (SELECT max(rowid)/100 FROM t) = ?1 * 7";
            app.execute(sql, [i])?;
            mine.fold()?;
            let start = cpu();
            other.pull_from(&mut mine, false)?;
            pulls.push(vec![(cpu() - start) / 1000.0]);
        }
        engine[4] = pulls.remove(0)[0];
        engine[8] = median(&pulls, 0);
        engine[9] = scattered(path, settings, &keys)?;
        engine[10] = keys.len() as f64 / index(path, settings, &keys)? * 1e6;
    }
    times.push(bulk(&mut app, "UPDATE t SET b = b + 1 + ?2 WHERE id = ?1", &keys)?);
    if let Some(engine) = &mut engine {
        let mut mine = Replica::open(path, env.clone())?;
        let start = cpu();
        mine.fold()?;
        engine[1] = rows as f64 / (cpu() - start) * 1e6;
        let mut other = Replica::open(&twin, env.clone())?;
        let start = cpu();
        other.pull_from(&mut mine, false)?;
        engine[11] = rows as f64 / (cpu() - start) * 1e6;
    }
    times.push(bulk(&mut app, "DELETE FROM t WHERE id = ?1 AND ?2 >= 0", &keys)?);
    if let Some(engine) = &mut engine {
        let mut mine = Replica::open(path, env)?;
        let start = cpu();
        mine.fold()?;
        engine[2] = rows as f64 / (cpu() - start) * 1e6;
    }
    times.push(single(&app, insert, &more)?);
    times.push(single(&app, "UPDATE t SET b = b + 1 + ?2 WHERE id = ?1", &more)?);
    times.push(single(&app, "DELETE FROM t WHERE id = ?1 AND ?2 >= 0", &more)?);
    Ok((times, engine))
}

/// Milliseconds that plain SQLite takes for what a pull of 100 changed rows writes to the table: 100
/// updates by key, far apart, in one transaction. With the engine's cache; the median of several.
fn scattered(
    path: &Path,
    settings: &str,
    keys: &[rusqlite::types::Value],
) -> Result<f64, Box<dyn std::error::Error>> {
    let plain = Connection::open(path.with_file_name("plain.db"))?;
    plain.execute_batch(settings)?;
    plain.execute_batch("PRAGMA cache_size=-16384")?;
    plain.execute_batch("DELETE FROM t")?;
    let insert = "INSERT INTO t SELECT ?1, 'abcdefghijklmnopqrst', ?2, 0.5, 'abcdefghijklmnopqrstabcdefghijklmnopqrst'";
    let tx = plain.unchecked_transaction()?;
    for (i, key) in keys.iter().enumerate() {
        plain.prepare_cached(insert)?.execute(params![key, i as i64])?;
    }
    tx.commit()?;
    let mut times = Vec::new();
    for i in 0..LATER {
        let start = cpu();
        plain.execute_batch("BEGIN IMMEDIATE")?;
        let mut update = plain.prepare_cached("UPDATE t SET b = -1 WHERE id = ?1")?;
        for key in keys.iter().skip(1 + 7 * i as usize).step_by(keys.len() / 100) {
            update.execute([key])?;
        }
        drop(update);
        plain.execute_batch("COMMIT")?;
        times.push(vec![(cpu() - start) / 1000.0]);
    }
    Ok(median(&times, 0))
}

/// Microseconds that plain SQLite takes to note all keys in the order of their rows, each found by its
/// key: the least that a fold of updates writes. With the engine's cache, in one transaction.
fn index(
    path: &Path,
    settings: &str,
    keys: &[rusqlite::types::Value],
) -> Result<f64, Box<dyn std::error::Error>> {
    let plain = Connection::open(path.with_file_name("index.db"))?;
    plain.execute_batch(settings)?;
    plain.execute_batch(
        "PRAGMA cache_size=-16384; CREATE TABLE n(id INTEGER PRIMARY KEY, key UNIQUE)",
    )?;
    let start = cpu();
    let tx = plain.unchecked_transaction()?;
    let mut insert = plain.prepare_cached("INSERT INTO n(key) VALUES(?1)")?;
    for key in keys {
        insert.execute([key])?;
    }
    drop(insert);
    tx.commit()?;
    Ok(cpu() - start)
}

/// Keys as an application makes them: counted integers, or 24 hex digits in random order.
fn name(key: &str, i: i64) -> rusqlite::types::Value {
    if key == "INTEGER" {
        return (i + 1).into();
    }
    let mixed = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{mixed:016x}{:08x}", i as u32).into()
}

fn bulk(app: &mut Connection, sql: &str, keys: &[rusqlite::types::Value]) -> rusqlite::Result<f64> {
    let start = cpu();
    for batch in keys.chunks(BATCH) {
        let tx = app.transaction()?;
        let mut statement = tx.prepare_cached(sql)?;
        for (i, key) in batch.iter().enumerate() {
            statement.execute(params![key, i as i64])?;
        }
        drop(statement);
        tx.commit()?;
    }
    Ok(cpu() - start)
}

fn single(app: &Connection, sql: &str, keys: &[rusqlite::types::Value]) -> rusqlite::Result<f64> {
    let start = cpu();
    let mut statement = app.prepare_cached(sql)?;
    for (i, key) in keys.iter().enumerate() {
        statement.execute(params![key, i as i64])?;
    }
    Ok(cpu() - start)
}

fn copy_site(from: &Path, to: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let source = Connection::open(from)?;
    source.execute("VACUUM INTO ?1", [to.to_string_lossy()])?;
    let options = InitOptions { new_site: true, ..InitOptions::default() };
    Replica::init(to, &options, Arc::new(System))?;
    Ok(())
}

/// Bytes of the database's pages.
fn size(app: &Connection) -> rusqlite::Result<f64> {
    app.query_row(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        [],
        |r| r.get::<_, i64>(0).map(|n| n as f64),
    )
}

/// Bytes of a database with the application's table alone.
fn bare_size(app: &Connection) -> rusqlite::Result<f64> {
    let bare = Connection::open_in_memory()?;
    let sql: String =
        app.query_row("SELECT sql FROM sqlite_master WHERE name='t'", [], |r| r.get(0))?;
    bare.execute_batch(&sql)?;
    let mut rows = app.prepare("SELECT * FROM t ORDER BY rowid")?;
    let mut rows = rows.query([])?;
    bare.execute_batch("BEGIN")?;
    let mut insert = bare.prepare("INSERT INTO t VALUES(?,?,?,?,?)")?;
    while let Some(row) = rows.next()? {
        let values: Vec<rusqlite::types::Value> =
            (0..5).map(|i| row.get(i)).collect::<Result<_, _>>()?;
        insert.execute(rusqlite::params_from_iter(values))?;
    }
    size(&bare)
}

fn median(runs: &[Times], i: usize) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(|r| r[i]).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// User and system time of this process in microseconds.
fn cpu() -> f64 {
    cpu_time::ProcessTime::now().as_duration().as_secs_f64() * 1e6
}
