//! What conflicts cost: processor time of a merge in which many rows collide, against the same merge
//! in which none does.
//!
//! `cargo run --release -p synqlite-core --features bundled --example conflicts -- [rows] [collisions] [rounds] [kind]`
//!
//! Two sites of one database with `rows` rows write `collisions` rows each, all of which collide, and
//! one pulls from the other. In the kinds *among* the other wrote `rows` rows, of which `collisions`
//! collide. With collisions and without run in turns, on fresh files in the same folder
//! (`SYNQLITE_DIR`, by default the system's temporary folder; name a memory-backed one). Ratios are
//! of the medians of user and system time of the pull; its own fold is done before.

use rusqlite::Connection;
use std::path::Path;
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A way to collide: schema, what both sites do without a collision, and with one.
struct Kind {
    name: &'static str,
    schema: &'static str,
    /// What the two sites do, `$N` rows each or `$R` and `$N`, in two versions: apart and colliding.
    apart: [&'static str; 2],
    colliding: [&'static str; 2],
}

const KINDS: [Kind; 8] = [
    Kind {
        name: "unique values",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name TEXT UNIQUE, v);
                 INSERT INTO t SELECT 'r' || value, 'n' || value, 0 FROM generate($R);",
        apart: [
            "INSERT INTO t SELECT 'a' || value, 'a' || value, 1 FROM generate($N)",
            "INSERT INTO t SELECT 'b' || value, 'b' || value, 1 FROM generate($N)",
        ],
        colliding: [
            "INSERT INTO t SELECT 'a' || value, 'x' || value, 1 FROM generate($N)",
            "INSERT INTO t SELECT 'b' || value, 'x' || value, 1 FROM generate($N)",
        ],
    },
    Kind {
        name: "unique values, by update",
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, v);
                 INSERT INTO t SELECT value, 'n' || value, 0 FROM generate($R);",
        apart: [
            "UPDATE t SET name = 'a' || id WHERE id <= $N",
            "UPDATE t SET name = 'b' || id WHERE id > $N AND id <= 2 * $N",
        ],
        colliding: [
            "UPDATE t SET name = 'x' || id WHERE id <= $N",
            "UPDATE t SET name = 'x' || (id - $N) WHERE id > $N AND id <= 2 * $N",
        ],
    },
    Kind {
        name: "integer keys",
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, v);
                 INSERT INTO t SELECT value, 'n' || value, 0 FROM generate($R);",
        apart: [
            "INSERT INTO t SELECT value + 10000000, 'a' || value, 1 FROM generate($N)",
            "INSERT INTO t SELECT value + 20000000, 'b' || value, 1 FROM generate($N)",
        ],
        colliding: [
            "INSERT INTO t SELECT value + 10000000, 'a' || value, 1 FROM generate($N)",
            "INSERT INTO t SELECT value + 10000000, 'b' || value, 1 FROM generate($N)",
        ],
    },
    Kind {
        name: "dangling children",
        schema: "CREATE TABLE p(id INTEGER PRIMARY KEY);
                 CREATE TABLE t(id TEXT PRIMARY KEY, p INT REFERENCES p(id) ON DELETE CASCADE, v);
                 CREATE INDEX tp ON t(p);
                 INSERT INTO p SELECT value FROM generate($R);
                 INSERT INTO t SELECT 'r' || value, value, 0 FROM generate($R) WHERE value > 2 * $N;",
        apart: [
            "DELETE FROM p WHERE id <= $N",
            "INSERT INTO t SELECT 'b' || value, $N + value, 1 FROM generate($N)",
        ],
        colliding: [
            "DELETE FROM p WHERE id <= $N",
            "INSERT INTO t SELECT 'b' || value, value, 1 FROM generate($N)",
        ],
    },
    Kind {
        name: "unique values among rows",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name TEXT UNIQUE, v);
                 INSERT INTO t SELECT 'r' || value, 'n' || value, 0 FROM generate($R);",
        apart: [
            "INSERT INTO t SELECT 'a' || value, 'a' || value, 1 FROM generate($R)",
            "INSERT INTO t SELECT 'b' || value, 'b' || value, 1 FROM generate($N)",
        ],
        colliding: [
            "INSERT INTO t SELECT 'a' || value, 'x' || value, 1 FROM generate($R)",
            "INSERT INTO t SELECT 'b' || value, 'x' || (value * $Q), 1 FROM generate($N)",
        ],
    },
    Kind {
        name: "by update among updates",
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, v);
                 INSERT INTO t SELECT value, 'n' || value, 0 FROM generate($R);
                 INSERT INTO t SELECT $R + value, 'm' || value, 0 FROM generate($N);",
        apart: [
            "UPDATE t SET name = 'a' || id WHERE id <= $R",
            "UPDATE t SET name = 'b' || id WHERE id > $R",
        ],
        colliding: [
            "UPDATE t SET name = 'x' || id WHERE id <= $R",
            "UPDATE t SET name = 'x' || ((id - $R) * $Q) WHERE id > $R",
        ],
    },
    Kind {
        name: "integer keys among rows",
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, v);
                 INSERT INTO t SELECT value, 'n' || value, 0 FROM generate($R);",
        apart: [
            "INSERT INTO t SELECT value + 10000000, 'a' || value, 1 FROM generate($R)",
            "INSERT INTO t SELECT value * $Q + 20000000, 'b' || value, 1 FROM generate($N)",
        ],
        colliding: [
            "INSERT INTO t SELECT value + 10000000, 'a' || value, 1 FROM generate($R)",
            "INSERT INTO t SELECT value * $Q + 10000000, 'b' || value, 1 FROM generate($N)",
        ],
    },
    Kind {
        name: "dangling among children",
        schema: "CREATE TABLE p(id INTEGER PRIMARY KEY);
                 CREATE TABLE t(id TEXT PRIMARY KEY, p INT REFERENCES p(id) ON DELETE CASCADE, v);
                 CREATE INDEX tp ON t(p);
                 INSERT INTO p SELECT value FROM generate($R);
                 INSERT INTO p SELECT $R + value FROM generate($N);",
        apart: [
            "INSERT INTO t SELECT 'b' || value, value, 1 FROM generate($R)",
            "DELETE FROM p WHERE id > $R",
        ],
        colliding: [
            "INSERT INTO t SELECT 'b' || value, value, 1 FROM generate($R)",
            "DELETE FROM p WHERE id <= $R AND id % $Q = 0",
        ],
    },
];

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let rows: u32 = args.next().map_or(Ok(100_000), |a| a.parse())?;
    let count: u32 = args.next().map_or(Ok(10_000), |a| a.parse())?;
    let rounds: usize = args.next().map_or(Ok(3), |a| a.parse())?;
    let only = args.next().unwrap_or_default();
    let base = std::env::var("SYNQLITE_DIR").map_or(std::env::temp_dir(), Into::into);
    println!(
        "SQLite {}, {rows} rows, {count} collisions, {rounds} rounds, medians of processor time; \
         files in {}",
        rusqlite::version(),
        base.display()
    );
    println!("{:<28}{:>12}{:>12}{:>8}{:>12}", "", "apart ms", "colliding", "ratio", "conflicts");
    for kind in KINDS.iter().filter(|kind| only.is_empty() || kind.name == only) {
        let (mut apart, mut colliding, mut open) = (Vec::new(), Vec::new(), 0);
        for round in 0..rounds {
            let dir = base.join(format!("synqlite-conflicts-{}-{round}", std::process::id()));
            std::fs::create_dir_all(&dir)?;
            apart.push(pull(&dir.join("a"), kind, kind.apart, rows, count)?.0);
            let (time, conflicts) = pull(&dir.join("c"), kind, kind.colliding, rows, count)?;
            colliding.push(time);
            open = conflicts;
            std::fs::remove_dir_all(&dir)?;
        }
        let (a, c) = (median(apart), median(colliding));
        println!("{:<28}{a:>12.0}{c:>12.0}{:>8.2}{open:>12}", kind.name, c / a);
    }
    Ok(())
}

/// Processor time of a pull in milliseconds, and how many conflicts are open after it.
fn pull(path: &Path, kind: &Kind, work: [&str; 2], rows: u32, count: u32) -> Result<(f64, u64)> {
    let (one, two) = (path.with_extension("1.db"), path.with_extension("2.db"));
    run(&one, kind.schema, rows, count)?;
    Replica::init(&one, &InitOptions::default(), Arc::new(System))?;
    std::fs::copy(&one, &two)?;
    let options = InitOptions { new_site: true, ..InitOptions::default() };
    Replica::init(&two, &options, Arc::new(System))?;
    run(&one, work[0], rows, count)?;
    run(&two, work[1], rows, count)?;
    let mut theirs = Replica::open(&one, Arc::new(System))?;
    let mut mine = Replica::open(&two, Arc::new(System))?;
    theirs.fold()?;
    mine.fold()?;
    let start = cpu_time::ProcessTime::now();
    mine.pull_from(&mut theirs, false)?;
    let time = start.elapsed().as_secs_f64() * 1_000.0;
    Ok((time, mine.open_conflicts()?))
}

/// Runs statements as the application, in one transaction.
fn run(path: &Path, sql: &str, rows: u32, count: u32) -> Result<()> {
    let conn = Connection::open(path)?;
    let numbers = |n: u32| {
        format!(
            "(WITH RECURSIVE g(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM g WHERE value < {n}) SELECT value FROM g)"
        )
    };
    let sql = sql.replace("generate($R)", &numbers(rows)).replace("generate($N)", &numbers(count));
    let sql = sql.replace("$N", &count.to_string()).replace("$R", &rows.to_string());
    let sql = sql.replace("$Q", &(rows / count.max(1)).max(1).to_string());
    conn.execute_batch(&format!("PRAGMA foreign_keys=ON; BEGIN; {sql}; COMMIT"))?;
    Ok(())
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
