//! Many processes and threads, some of them killed, some of them without this file system.
//!
//! `SYNQLITE_SECONDS=60 cargo test -p synqlite-dash --test it many` for a longer storm.

use crate::Random;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use synqlite_dash::Mode;

fn connect(path: &Path, mode: Mode) -> Connection {
    crate::register();
    let uri = format!("file:{}?vfs=dash&dash={mode}&dash_memory=50000", path.display());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).expect("opens")
}

fn seconds() -> u64 {
    std::env::var("SYNQLITE_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2)
}

/// Counts its own number up, for ever, and notes what it begins and what is acknowledged.
/// This is a program of its own, which the storms start and kill.
#[test]
#[ignore = "a part of other tests"]
fn writer() {
    let var = |name: &str| std::env::var(name).expect("set by the test that starts this");
    let (path, id) = (var("STORM_PATH"), var("STORM_ID"));
    let mode = Mode::named(&var("STORM_MODE")).expect("a mode");
    let mut random = Random::new(u64::from(std::process::id()));
    let notes = format!("{path}.notes{id}");
    let mut notes = OpenOptions::new().create(true).append(true).open(notes).expect("notes");
    let db = connect(Path::new(&path), mode);
    db.busy_timeout(Duration::from_secs(30)).expect("a timeout");
    loop {
        db.execute_batch("BEGIN IMMEDIATE").expect("begins");
        let n: i64 = db
            .query_row("SELECT v FROM acc WHERE id = ?1", [&id], |row| row.get(0))
            .expect("a number");
        notes.write_all(format!("b {}\n", n + 1).as_bytes()).expect("notes");
        db.execute(
            "UPDATE acc SET v = v + 1, pad = ?2 WHERE id = ?1",
            (&id, "p".repeat(random.below(2000))),
        )
        .expect("counts");
        if random.chance(10) {
            db.execute_batch("PRAGMA cache_size = 2; UPDATE acc SET pad = pad || 'q'")
                .expect("writes");
        }
        db.execute("UPDATE total SET v = v + 1", []).expect("counts");
        db.execute_batch("COMMIT").expect("commits");
        notes.write_all(format!("a {}\n", n + 1).as_bytes()).expect("notes");
    }
}

fn start(path: &Path, mode: Mode, id: usize) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "many::writer", "--ignored", "--nocapture"])
        .env("STORM_PATH", path)
        .env("STORM_MODE", mode.name())
        .env("STORM_ID", id.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts")
}

const SCHEMA: &str = "CREATE TABLE acc(id INTEGER PRIMARY KEY, v INT, pad TEXT);
    CREATE TABLE total(v INT); INSERT INTO total VALUES(0);
    INSERT INTO acc SELECT value, 0, printf('%.*c', 900, 'x') FROM json_each('[0,1,2,3,4,5,6,7,8,9]')";

/// The numbers must add up in whatever a reader sees.
fn look(db: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT (SELECT v FROM total) = (SELECT sum(v) FROM acc)";
    db.query_row(sql, [], |row| row.get(0))
}

/// Writers are killed and started again while readers look.
fn storm(mode: Mode, seed: u64) {
    let folder = crate::folder();
    let path = folder.path().join("app.db");
    connect(&path, mode).execute_batch(SCHEMA).expect("a schema");
    let mut random = Random::new(seed);
    let (stop, looks, busy) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let mut kills = 0;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let db = connect(&path, mode);
                while !stop.load(Ordering::Relaxed) {
                    match look(&db) {
                        Ok(whole) => assert!(whole, "{mode}: a reader saw half a transaction"),
                        Err(error)
                            if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
                        {
                            busy.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("{mode}: {error}"),
                    }
                    looks.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
        }
        let mut writers: Vec<Child> = (0..3).map(|id| start(&path, mode, id)).collect();
        let end = Instant::now() + Duration::from_secs(seconds());
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20 + random.below(80) as u64));
            let id = random.below(3);
            writers[id].kill().expect("kills");
            writers[id].wait().expect("ends");
            kills += 1;
            writers[id] = start(&path, mode, id);
        }
        for mut writer in writers {
            writer.kill().expect("kills");
            writer.wait().expect("ends");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let db = connect(&path, mode);
    assert!(look(&db).expect("the numbers"), "{mode}");
    let said: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("ok");
    assert_eq!(said, "ok", "{mode}");
    let mut done = 0;
    for id in 0..3 {
        let notes = fs::read_to_string(format!("{}.notes{id}", path.display())).unwrap_or_default();
        let last = |kind: &str| -> i64 {
            let lines = notes.lines().filter_map(|line| line.strip_prefix(kind));
            lines.filter_map(|n| n.trim().parse().ok()).max().unwrap_or(0)
        };
        let n: i64 =
            db.query_row("SELECT v FROM acc WHERE id = ?1", [id], |row| row.get(0)).expect("one");
        assert!(last("a") <= n && n <= last("b"), "{mode}: writer {id} at {n}");
        done += n;
    }
    drop(db);
    let stock = Connection::open(&path).expect("opens");
    assert!(look(&stock).expect("the numbers"), "{mode}: a stock program");
    let (looks, busy) = (looks.into_inner(), busy.into_inner());
    assert!(
        kills > 5 && done > 10 && looks > 100,
        "{mode}: {kills} kills, {done} commits, {looks} looks"
    );
    assert!(busy * 50 <= looks, "{mode}: {busy} of {looks} looks were refused");
}

#[test]
fn killed_writers_lose_nothing_and_block_nobody() {
    for (seed, mode) in [Mode::Strict, Mode::Fast, Mode::Shadow].into_iter().enumerate() {
        storm(mode, seed as u64);
    }
}

/// Writes more than fits into memory, and is gone. A program of its own.
#[test]
#[ignore = "a part of other tests"]
#[expect(clippy::disallowed_methods, reason = "what it leaves behind is what is tested")]
fn half_a_writer() {
    let var = |name: &str| std::env::var(name).expect("set by the test that starts this");
    let mode = Mode::named(&var("STORM_MODE")).expect("a mode");
    let db = connect(Path::new(&var("STORM_PATH")), mode);
    db.execute_batch(
        "PRAGMA cache_size = 2; BEGIN; UPDATE acc SET pad = printf('%.*c', 9000, 'q')",
    )
    .expect("writes");
    std::process::abort();
}

/// A connection trusts what its last commit left, unless somebody has begun to write since.
#[test]
fn half_a_transaction_of_another_process_is_undone() {
    for mode in [Mode::Strict, Mode::Fast] {
        let folder = crate::folder();
        let path = folder.path().join("app.db");
        let db = connect(&path, mode);
        db.execute_batch(SCHEMA).expect("a schema");
        for _ in 0..3 {
            db.execute_batch("UPDATE total SET v = v + 1; UPDATE total SET v = v + 1")
                .expect("counts");
            let ended = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "many::half_a_writer", "--ignored"])
                .env("STORM_PATH", &path)
                .env("STORM_MODE", mode.name())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("starts");
            assert_eq!(ended.code(), None, "it is gone without having closed anything");
            db.execute_batch("UPDATE total SET v = v + 1").expect("counts");
            let sql = "SELECT (SELECT sum(v) FROM total) || (SELECT sum(length(pad)) FROM acc)";
            let now: String = db.query_row(sql, [], |row| row.get(0)).expect("numbers");
            let stock = Connection::open(&path).expect("opens");
            let there: String = stock.query_row(sql, [], |row| row.get(0)).expect("numbers");
            assert_eq!(now, there, "{mode}");
            assert!(now.ends_with("9000"), "{mode}: {now}");
            let sound: String =
                stock.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("a check");
            assert_eq!(sound, "ok", "{mode}");
        }
    }
}

#[test]
fn a_reader_keeps_its_snapshot_and_does_not_delay_the_next_commit() {
    let folder = crate::folder();
    let path = folder.path().join("app.db");
    let writer = connect(&path, Mode::Strict);
    writer.execute_batch(SCHEMA).expect("a schema");
    let reader = connect(&path, Mode::Strict);
    let total = |db: &Connection| -> i64 {
        db.query_row("SELECT v FROM total", [], |row| row.get(0)).expect("a number")
    };
    reader.execute_batch("BEGIN").expect("begins");
    assert_eq!(total(&reader), 0);
    writer.execute_batch("UPDATE total SET v = 1").expect("is not delayed");
    assert_eq!(total(&reader), 0, "the snapshot");
    // The commit after that would overwrite what the reader reads.
    let error = writer.execute_batch("UPDATE total SET v = 2").expect_err("has to wait");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    assert_eq!(total(&reader), 0, "the snapshot");
    let error = reader.execute_batch("UPDATE total SET v = 9").expect_err("is too old to write");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    reader.execute_batch("COMMIT").expect("ends");
    writer.execute_batch("UPDATE total SET v = 2").expect("goes on");
    assert_eq!(total(&reader), 2);
    reader.execute_batch("UPDATE total SET v = 3").expect("writes");
    assert_eq!(total(&writer), 3);
}

#[test]
fn a_busy_handler_waits_for_a_reader() {
    let folder = crate::folder();
    let path = folder.path().join("app.db");
    let writer = connect(&path, Mode::Strict);
    writer.execute_batch(SCHEMA).expect("a schema");
    writer.busy_timeout(Duration::from_secs(20)).expect("a timeout");
    let reader = connect(&path, Mode::Strict);
    reader.execute_batch("BEGIN; SELECT * FROM total").expect("reads");
    writer.execute_batch("UPDATE total SET v = 1").expect("is not delayed");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            reader.execute_batch("COMMIT").expect("ends");
        });
        writer.execute_batch("UPDATE total SET v = 2").expect("waits");
    });
}

#[test]
fn an_exclusive_connection_shuts_others_out_and_lets_them_in_again() {
    let folder = crate::folder();
    let path = folder.path().join("app.db");
    let one = connect(&path, Mode::Strict);
    one.execute_batch(SCHEMA).expect("a schema");
    let other = connect(&path, Mode::Strict);
    assert!(look(&other).expect("reads"));
    one.execute_batch("PRAGMA locking_mode = EXCLUSIVE").expect("a pragma");
    for _ in 0..4 {
        one.execute_batch(
            "BEGIN; UPDATE acc SET v = v + 1 WHERE id = 0; UPDATE total SET v = v + 1; COMMIT",
        )
        .expect("writes");
        let error = other.execute_batch("UPDATE total SET v = 0").expect_err("is shut out");
        assert_eq!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy));
    }
    assert_eq!(
        look(&other).expect_err("is shut out").sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy)
    );
    one.execute_batch("PRAGMA locking_mode = NORMAL; SELECT * FROM total").expect("lets go");
    let total: i64 =
        other.query_row("SELECT v FROM total", [], |row| row.get(0)).expect("a number");
    assert_eq!(total, 4, "no stale page");
    assert!(look(&other).expect("reads"));
    other.execute_batch("UPDATE total SET v = 4").expect("writes");
}

/// The stock program's command, or nothing where there is none.
fn stock_shell() -> Option<Command> {
    let there = Command::new("sqlite3").arg("--version").output().is_ok();
    there.then(|| Command::new("sqlite3"))
}

#[test]
fn stock_programs_read_beside_us_and_write_when_we_are_gone() {
    let Some(_) = stock_shell() else { return };
    let folder = crate::folder();
    let path = folder.path().join("app.db");
    let shell = |sql: &str| {
        let mut command = stock_shell().expect("there");
        let out = command.arg(&path).arg(sql).output().expect("runs");
        (
            String::from_utf8_lossy(&out.stdout).trim().to_owned(),
            String::from_utf8_lossy(&out.stderr).trim().to_owned(),
        )
    };
    for mode in [Mode::Strict, Mode::Fast, Mode::Shadow, Mode::ShadowX] {
        let _ = fs::remove_file(&path);
        let db = connect(&path, mode);
        db.execute_batch(SCHEMA).expect("a schema");
        for n in 1..5 {
            db.execute("UPDATE total SET v = ?1", [n]).expect("writes");
            assert_eq!(shell("SELECT v FROM total"), (n.to_string(), String::new()), "{mode}");
            let (_, refused) = shell("UPDATE total SET v = 99");
            assert!(refused.contains("locked"), "{mode}: {refused}");
        }
        drop(db);
        let written = shell(
            "UPDATE total SET v = 50; INSERT INTO acc(id) VALUES(77); PRAGMA integrity_check",
        );
        assert_eq!(written, ("ok".to_owned(), String::new()), "{mode}");
        let db = connect(&path, mode);
        let total = |db: &Connection| -> i64 {
            db.query_row("SELECT v FROM total", [], |row| row.get(0)).expect("a number")
        };
        assert_eq!(total(&db), 50, "{mode}: what a stock program wrote wins");
        for n in 51..55 {
            db.execute("UPDATE total SET v = ?1", [n]).expect("writes");
            let there: i64 = db
                .query_row("SELECT count(*) FROM acc WHERE id = 77", [], |row| row.get(0))
                .expect("one");
            assert_eq!((total(&db), there), (n, 1), "{mode}");
        }
        drop(db);
        assert_eq!(
            shell("VACUUM; SELECT v FROM total"),
            ("54".to_owned(), String::new()),
            "{mode}"
        );
        let db = connect(&path, mode);
        db.execute_batch("UPDATE total SET v = 55; UPDATE total SET v = 56").expect("writes");
        assert_eq!(total(&db), 56, "{mode}");
    }
}

/// A stock connection keeps the file that it opened, which is the shadow half of the time. It must
/// find a whole transaction in it, an old one perhaps, or none at all.
#[test]
fn a_long_lived_stock_reader_never_sees_a_half_written_file() {
    let folder = crate::folder();
    let path = folder.path().join("app.db");
    connect(&path, Mode::Strict).execute_batch(SCHEMA).expect("a schema");
    let stock = Connection::open(&path).expect("opens");
    stock.busy_timeout(Duration::from_secs(5)).expect("a timeout");
    assert!(look(&stock).expect("reads"));
    let mut random = Random::new(3);
    let mut seen = 0;
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end {
        let mut writer = start(&path, Mode::Strict, 0);
        let until = Instant::now() + Duration::from_millis(30 + random.below(60) as u64);
        let mut look_once = || match look(&stock) {
            Ok(whole) => {
                assert!(whole, "half a transaction");
                seen += 1;
            }
            Err(error) => {
                let code = error.sqlite_error_code();
                let allowed = [ErrorCode::DatabaseBusy, ErrorCode::NotADatabase];
                assert!(code.is_some_and(|code| allowed.contains(&code)), "{error}");
            }
        };
        while Instant::now() < until {
            look_once();
        }
        writer.kill().expect("kills");
        writer.wait().expect("ends");
        look_once();
    }
    assert!(seen > 10, "it saw something {seen} times only");
}
