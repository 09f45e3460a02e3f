//! The extension in a program with sqlx, which brings a SQLite of its own.
//!
//! SYNQLITE_EXTENSION names the extension, SYNQLITE_COMMAND the command.

use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SCHEMA: &str = "CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT UNIQUE)";

fn named(variable: &str) -> String {
    let path = std::env::var(variable).unwrap_or_else(|_| panic!("{variable} is to name a file"));
    std::path::absolute(path).unwrap().display().to_string()
}

async fn open(path: &Path, mode: SqliteJournalMode) -> SqlitePool {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(mode)
        .busy_timeout(Duration::from_secs(30));
    // SAFETY: it is the library that was built for these tests.
    let options = unsafe { options.extension(named("SYNQLITE_EXTENSION")) };
    SqlitePoolOptions::new().max_connections(4).connect_with(options).await.unwrap()
}

async fn run(db: &SqlitePool, sql: &'static str) {
    sqlx::raw_sql(sql).execute(db).await.unwrap();
}

async fn call(db: &SqlitePool, sql: &'static str) -> Result<Value, sqlx::Error> {
    let text: String = sqlx::query_scalar(sql).fetch_one(db).await?;
    Ok(serde_json::from_str(&text).unwrap())
}

async fn titles(db: &SqlitePool) -> Vec<String> {
    sqlx::query_scalar("SELECT title FROM todo ORDER BY title").fetch_all(db).await.unwrap()
}

/// Two replicas, of which the second remembers the first as `origin`.
struct Pair {
    home: SqlitePool,
    laptop: SqlitePool,
    path: PathBuf,
    _dir: TempDir,
}

async fn pair(mode: SqliteJournalMode) -> Pair {
    let dir = tempfile::tempdir().unwrap();
    let (first, path) = (dir.path().join("home.db"), dir.path().join("laptop.db"));
    let home = open(&first, mode).await;
    run(&home, SCHEMA).await;
    call(&home, "SELECT synqlite_init()").await.unwrap();
    let clone = sqlx::query("SELECT synqlite_clone(?, ?)");
    let [from, to] = [&first, &path].map(|path| path.display().to_string());
    clone.bind(from).bind(to).execute(&home).await.unwrap();
    let laptop = open(&path, mode).await;
    Pair { home, laptop, path, _dir: dir }
}

const MODES: [SqliteJournalMode; 2] = [SqliteJournalMode::Wal, SqliteJournalMode::Delete];

#[tokio::test]
async fn every_connection_of_a_pool_has_the_functions() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("a.db"), SqliteJournalMode::Wal).await;
    let mut connections = Vec::new();
    for _ in 0..4 {
        let mut connection = db.acquire().await.unwrap();
        let sql = "SELECT json_extract(synqlite_version(), '$.sqlite') = sqlite_version()";
        let same: bool = sqlx::query_scalar(sql).fetch_one(&mut *connection).await.unwrap();
        assert!(same, "the extension is to use sqlx's SQLite");
        connections.push(connection);
    }
    assert_eq!(db.size(), 4);
}

#[tokio::test]
async fn sites_meet_while_other_tasks_write() {
    for mode in MODES {
        let pair = pair(mode).await;
        let writing = {
            let db = pair.laptop.clone();
            tokio::spawn(async move {
                for n in 0..50 {
                    let insert = sqlx::query("INSERT INTO todo(title) VALUES(?)");
                    insert.bind(format!("laptop {n}")).execute(&db).await.unwrap();
                    tokio::time::sleep(Duration::from_millis(4)).await;
                }
            })
        };
        run(&pair.home, "INSERT INTO todo(title) VALUES('home')").await;
        while !writing.is_finished() {
            call(&pair.laptop, "SELECT synqlite_sync()").await.unwrap();
        }
        writing.await.unwrap();
        let done = call(&pair.laptop, "SELECT synqlite_sync()").await.unwrap();
        assert_eq!(done["conflicts"], 0);
        let (here, there) = (titles(&pair.laptop).await, titles(&pair.home).await);
        assert_eq!((here.len(), &here), (51, &there), "{mode:?}");
    }
}

#[tokio::test]
async fn what_steps_aside_is_listed_and_settled() {
    let pair = pair(SqliteJournalMode::Wal).await;
    run(&pair.home, "INSERT INTO todo(title) VALUES('rent')").await;
    run(&pair.laptop, "INSERT INTO todo(title) VALUES('rent')").await;
    let done = call(&pair.laptop, "SELECT synqlite_sync()").await.unwrap();
    assert_eq!(done["conflicts"], 1);
    // The table can be filtered while nothing else is open.
    let sql = "SELECT id FROM synqlite_conflicts WHERE kind = 'unique'";
    let id: String = sqlx::query_scalar(sql).fetch_one(&pair.laptop).await.unwrap();
    let settle = sqlx::query("SELECT synqlite_settle(?, 'discard')").bind(id);
    settle.execute(&pair.laptop).await.unwrap();
    let left = call(&pair.laptop, "SELECT synqlite_conflicts()").await.unwrap();
    assert_eq!(left["conflicts"], serde_json::json!([]));
}

#[tokio::test]
async fn inside_a_transaction_a_call_is_refused() {
    let pair = pair(SqliteJournalMode::Wal).await;
    let mut tx = pair.laptop.begin().await.unwrap();
    sqlx::query("INSERT INTO todo(title) VALUES('mine')").execute(&mut *tx).await.unwrap();
    let refused = sqlx::query("SELECT synqlite_sync()").execute(&mut *tx).await.unwrap_err();
    let told = refused.as_database_error().unwrap().message().to_owned();
    assert!(told.starts_with("synqlite: locked: a transaction is open"), "{told}");
    tx.commit().await.unwrap();
    let done = call(&pair.laptop, "SELECT synqlite_sync()").await.unwrap();
    assert_eq!(done["sent"]["rows"], 1);
}

/// sqlx has a thread for each connection.
#[tokio::test(flavor = "current_thread")]
async fn a_call_leaves_the_runtime_to_others() {
    let pair = pair(SqliteJournalMode::Wal).await;
    let mut own = pair.laptop.acquire().await.unwrap();
    // The first of a connection ends at once.
    sqlx::query("SELECT synqlite_wait(0)").execute(&mut *own).await.unwrap();
    let since = Instant::now();
    let waiting = sqlx::query_scalar("SELECT synqlite_wait(20)").fetch_one(&mut *own);
    let writing = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        run(&pair.laptop, "INSERT INTO todo(title) VALUES('news')").await;
    };
    let (woke, ()): (Result<String, _>, ()) = tokio::join!(waiting, writing);
    assert_eq!(woke.unwrap(), r#"{"woke":"commit","tables":["todo"]}"#);
    assert!(since.elapsed() < Duration::from_secs(10), "{:?}", since.elapsed());
}

/// A future that is dropped ends no call.
#[tokio::test(flavor = "current_thread")]
async fn a_timeout_gives_up_and_the_call_goes_on() {
    let pair = pair(SqliteJournalMode::Wal).await;
    run(&pair.laptop, "INSERT INTO todo(title) VALUES('mine')").await;
    // The call waits for whoever writes at the other file.
    let mut tx = pair.home.begin_with("BEGIN IMMEDIATE").await.unwrap();
    sqlx::query("INSERT INTO todo(title) VALUES('home')").execute(&mut *tx).await.unwrap();
    let sync = call(&pair.laptop, "SELECT synqlite_sync()");
    assert!(tokio::time::timeout(Duration::from_millis(500), sync).await.is_err());
    tx.commit().await.unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while titles(&pair.home).await.len() < 2 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(titles(&pair.home).await, ["home", "mine"]);
}

#[tokio::test]
async fn the_command_synchronizes_the_same_file_meanwhile() {
    let pair = pair(SqliteJournalMode::Wal).await;
    run(&pair.laptop, "INSERT INTO todo(title) VALUES('one')").await;
    let mut command = Command::new(named("SYNQLITE_COMMAND"));
    let done = command.arg("sync").arg(&pair.path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(titles(&pair.home).await, ["one"]);
}

/// The program of the guide is the one that is run here, and says what the guide says.
#[test]
fn the_guide_has_this_program() {
    let guide = include_str!("../../../../docs/guides/rust.md");
    assert!(guide.contains(include_str!("../src/main.rs")), "docs/guides/rust.md has another");
    let dir = tempfile::tempdir().unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_synqlite-with-sqlx"));
    let extension = named("SYNQLITE_EXTENSION");
    let done =
        program.current_dir(dir.path()).env("SYNQLITE_EXTENSION", extension).output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(guide.contains(&format!("$ cargo run\n{said}```")), "it says\n{said}");
}
