//! How much memory synchronization takes when all rows of a table change.
//!
//! `cargo run --release -p synqlite-testkit --features bundled --example memory -- [rows]`
//!
//! A fold, a pull from the other replica's file, a push into a folder and a pull from there are a
//! process of its own each; printed are its peak of resident memory, as Linux counts it, and its
//! processor time. A replica that is open has a page cache of 16 MB. Files lie in `SYNQLITE_DIR`, by default the system's temporary folder.

use rusqlite::{Connection, params};
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};
use synqlite_remote::sync::{Remote, Session};

const WRITES: [(&str, &str); 3] = [
    ("inserts", "INSERT INTO t SELECT key, printf('%060d', i), i FROM temp.fresh ORDER BY i"),
    ("updates", "UPDATE t SET n = -n"),
    ("deletes", "DELETE FROM t"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args[..] {
        [work, replica, other] => one(work, Path::new(replica), other),
        _ => all(args.first().map_or(Ok(300_000), |rows| rows.parse())?),
    }
}

fn all(rows: i64) -> Result<(), Box<dyn Error>> {
    let base = std::env::var("SYNQLITE_DIR").map_or(std::env::temp_dir(), Into::into);
    println!("SQLite {}, {rows} rows of 3 columns, WAL; {}", rusqlite::version(), base.display());
    for key in ["INTEGER", "TEXT"] {
        let dir = tempfile::tempdir_in(&base)?;
        let file = |name: &str| dir.path().join(name);
        let (mine, near, far) = (file("mine.db"), file("near.db"), file("far.db"));
        let folder = format!("file://{}/", file("folder").display());
        let schema = format!("CREATE TABLE t(id {key} PRIMARY KEY NOT NULL, a TEXT, n INTEGER)");
        Connection::open(&mine)?.execute_batch(&format!("PRAGMA journal_mode=WAL; {schema}"))?;
        Replica::init(&mine, &InitOptions::default(), Arc::new(System))?;
        for copy in [&near, &far] {
            Connection::open(&mine)?.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
            let options = InitOptions { new_site: true, ..InitOptions::default() };
            Replica::init(copy, &options, Arc::new(System))?;
        }
        std::fs::create_dir(file("folder"))?;
        // The first push of all is a snapshot.
        one("push", &mine, &folder)?;
        for (name, sql) in WRITES {
            write(&mine, key, rows, sql)?;
            let beside = mine.display().to_string();
            for (work, how, replica, other) in [
                ("fold", "", &mine, &beside),
                ("pull", "file", &near, &beside),
                ("push", "folder", &mine, &folder),
                ("pull", "folder", &far, &folder),
            ] {
                let mut process = Command::new(std::env::current_exe()?);
                let told = process.arg(work).arg(replica).arg(other).output()?;
                let told = String::from_utf8(told.stdout)?;
                println!("{key:<8} {work} {how:<6} {name:<8} {}", told.trim());
            }
        }
    }
    Ok(())
}

/// Writes as an application.
fn write(path: &Path, key: &str, rows: i64, sql: &str) -> Result<(), Box<dyn Error>> {
    let mut app = Connection::open(path)?;
    app.execute_batch("CREATE TEMP TABLE fresh(i INTEGER PRIMARY KEY, key)")?;
    let tx = app.transaction()?;
    if sql.starts_with("INSERT") {
        let mut statement = tx.prepare("INSERT INTO fresh VALUES(?1, ?2)")?;
        for i in 1..=rows {
            match key {
                "TEXT" => {
                    let mixed = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    statement.execute(params![i, format!("{mixed:016x}")])?
                }
                _ => statement.execute(params![i, i])?,
            };
        }
    }
    tx.execute_batch(sql)?;
    tx.commit()?;
    Ok(())
}

/// Does one thing and says what it took.
fn one(work: &str, replica: &Path, other: &str) -> Result<(), Box<dyn Error>> {
    let env = Arc::new(System);
    let mut replica = Replica::open(replica, env.clone())?;
    let session = &Session { env, force: false, whole: false };
    match work {
        "fold" => drop(replica.fold()?),
        "push" => drop(Remote::parse(other)?.push(&mut replica, session)?),
        _ => drop(Remote::parse(other)?.pull(&mut replica, session)?),
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let time = cpu_time::ProcessTime::now().as_duration();
    println!("{:>12} {:>8.2} s", peak.unwrap_or("unknown").trim(), time.as_secs_f64());
    Ok(())
}
