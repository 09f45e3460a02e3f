//! Replicas that an application keeps on `vfs=dash`.

use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use synqlite_core::{Environment, Error, InitOptions, Replica, System};
use synqlite_testkit::world::Result;

fn application(path: &Path) -> Result<Connection> {
    synqlite_dash::register().map_err(|code| format!("SQLite's result code {code}"))?;
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Ok(Connection::open_with_flags(format!("file:{}?vfs=dash", path.display()), flags)?)
}

#[test]
fn a_commit_by_exchange_makes_no_copy_of_a_replica() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("app.db");
    application(&path)?.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")?;
    Replica::init(&path, &InitOptions::default(), Arc::new(System))?;
    for n in 1..6 {
        // One exchange, then two, and so on.
        let app = application(&path)?;
        for _ in 0..n {
            app.execute_batch("INSERT INTO t(v) VALUES('x')")?;
        }
        drop(app);
        let mut replica = Replica::open(&path, Arc::new(System))?;
        replica.fold()?;
    }
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy)?;
    let refused = Replica::open(&copy, Arc::new(System));
    assert!(matches!(refused, Err(Error::Copied { .. })), "a copy made by hand is one");
    Ok(())
}

#[test]
fn a_replica_is_folded_while_an_application_has_it_open() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("app.db");
    application(&path)?.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")?;
    Replica::init(&path, &InitOptions::default(), Arc::new(System))?;
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=dash&dash=fast", path.display());
    let app = Connection::open_with_flags(uri, flags)?;
    for n in 1..4 {
        app.execute_batch("INSERT INTO t(v) VALUES('x')")?;
        let mut replica = Replica::open(&path, Arc::new(System))?;
        replica.fold()?;
        assert_eq!(replica.verify()?.len(), 0);
        drop(replica);
        let rows: i64 = app.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
        let journal = "SELECT count(*) FROM synqlite_journal";
        let waiting: i64 = app.query_row(journal, [], |row| row.get(0))?;
        assert_eq!((rows, waiting), (n, 0));
    }
    Ok(())
}

/// Has no patience, and counts how often it was asked for more.
#[derive(Default)]
struct Hurried(AtomicU32);

impl Environment for Hurried {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn wait(&self, _database: &Path, waited: Duration) -> bool {
        self.0.fetch_add(u32::from(waited > Duration::ZERO), Ordering::Relaxed);
        false
    }
}

#[test]
fn who_finds_a_database_kept_alone_waits_as_long_as_it_is_told() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("app.db");
    application(&path)?.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")?;
    Replica::init(&path, &InitOptions::default(), Arc::new(System))?;
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?vfs=dash&dash=shadow-x", path.display());
    let app = Connection::open_with_flags(uri, flags)?;
    app.execute_batch("INSERT INTO t(v) VALUES('x')")?;
    let env = Arc::new(Hurried::default());
    assert!(matches!(Replica::open(&path, env.clone()), Err(Error::Alone(_))));
    assert_eq!(env.0.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn a_replica_that_left_the_file_system_is_opened_like_any_other() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("app.db");
    application(&path)?.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")?;
    Replica::init(&path, &InitOptions::default(), Arc::new(System))?;
    let stock = Connection::open(&path)?;
    stock.query_row("PRAGMA journal_mode=WAL", [], |_| Ok(()))?;
    stock.execute_batch("INSERT INTO t(v) VALUES('x')")?;
    let mut replica = Replica::open(&path, Arc::new(System))?;
    replica.fold()?;
    assert_eq!(replica.verify()?.len(), 0);
    Ok(())
}
