use super::*;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use synqlite_core::rusqlite::Connection;
use synqlite_core::{InitOptions, System};

fn replica(path: &Path) -> (Connection, Replica) {
    replica_in("WAL", path)
}

fn replica_in(mode: &str, path: &Path) -> (Connection, Replica) {
    let app = Connection::open(path).unwrap();
    app.execute_batch(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE t(a)")).unwrap();
    Replica::init(path, &InitOptions::default(), Arc::new(System)).unwrap();
    (app, Replica::open(path, Arc::new(System)).unwrap())
}

fn session() -> Session {
    Session { env: Arc::new(System), force: false, whole: false }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(30)
}

/// For so long nobody waits on a machine that works.
fn late() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn a_commit_wakes_once_whoever_made_it() {
    for mode in ["WAL", "DELETE", "TRUNCATE", "PERSIST"] {
        let dir = tempfile::tempdir().unwrap();
        let (app, mut replica) = replica_in(mode, &dir.path().join("a.db"));
        let mut waiter = Waiter::new(&replica);
        let mut wait = |replica: &Replica, until| waiter.wait(replica, until, |_| true, || false);
        assert_eq!(wait(&replica, late()), Woke::Commit, "nothing is known of before");
        assert_eq!(wait(&replica, soon()), Woke::Time, "{mode}");
        app.execute_batch("INSERT INTO t VALUES(1)").unwrap();
        assert_eq!(wait(&replica, late()), Woke::Commit, "{mode}");
        assert_eq!(wait(&replica, soon()), Woke::Time, "{mode}");
        let path = replica.path().to_owned();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            let app = Connection::open(path).unwrap();
            app.execute_batch(&format!("PRAGMA journal_mode = {mode}; INSERT INTO t VALUES(2)"))
        });
        assert_eq!(wait(&replica, late()), Woke::Commit, "{mode}");
        other.join().unwrap().unwrap();
        replica.fold().unwrap();
        wait(&replica, soon());
        assert_eq!(wait(&replica, soon()), Woke::Time, "its own commits are nothing new");
        app.execute_batch("BEGIN; INSERT INTO t VALUES(3)").unwrap();
        assert_eq!(wait(&replica, soon()), Woke::Time, "nothing is committed");
        app.execute_batch("COMMIT").unwrap();
        assert_eq!(waiter.wait(&replica, late(), |_| true, || true), Woke::Stop);
        assert_eq!(waiter.wait(&replica, soon(), |_| false, || false), Woke::Time);
    }
}

/// Asking on behalf of the file that was there would remove the journal of the one that is there now.
#[test]
fn a_file_that_was_replaced_is_told_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (_, kept) = replica_in("DELETE", &dir.path().join("a.db"));
    let (app, other) = replica_in("DELETE", &dir.path().join("b.db"));
    let mut waiter = Waiter::new(&kept);
    waiter.wait(&kept, soon(), |_| true, || false);
    drop((app, other));
    std::fs::rename(dir.path().join("b.db"), dir.path().join("a.db")).unwrap();
    assert_eq!(waiter.wait(&kept, late(), |_| true, || false), Woke::Moved);
    let app = Connection::open(dir.path().join("a.db")).unwrap();
    app.execute_batch("BEGIN; INSERT INTO t VALUES(1)").unwrap();
    assert_eq!(waiter.wait(&kept, soon(), |_| true, || false), Woke::Time);
    app.execute_batch("COMMIT").unwrap();
    assert_eq!(waiter.wait(&kept, soon(), |_| true, || false), Woke::Time);
}

#[test]
fn it_goes_on_whatever_fails_and_says_what() {
    let dir = tempfile::tempdir().unwrap();
    let (app, mut here) = replica(&dir.path().join("here.db"));
    let there = dir.path().join("there.db");
    let stick = format!("file://{}/", dir.path().join("stick").display());
    let asked = Cell::new(0);
    let reach = |_: &Replica| {
        asked.set(asked.get() + 1);
        match asked.get() {
            1 | 2 => Err(SyncError::Exists("no token".into())),
            3 => Ok(Remote::Replica(there.clone())),
            _ => Remote::parse(&stick),
        }
    };
    app.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    let every = Some(Duration::from_millis(20));
    let mut watch = Watch::new(&mut here, session(), Pace { every, changes: None }, reach);
    for failures in 1..=3 {
        assert!(watch.round(|| false).expect("a round").is_none());
        let State { last_sync, pending, failures: counted, error, .. } = watch.state();
        assert_eq!((*last_sync, *pending, *counted), (None, 1, failures));
        assert!(error.is_some());
    }
    let done = watch.round(|| false).expect("a round").expect("it succeeds");
    assert_eq!((done.sent.rows, asked.get()), (1, 4));
    let State { online, last_sync, pending, failures, error } = watch.state();
    assert!(*online && last_sync.is_some() && error.is_none());
    assert_eq!((*pending, *failures), (0, 0));
    assert!(watch.round(|| true).is_none(), "it was asked to stop");
}

#[test]
fn enough_changes_begin_a_round() {
    let dir = tempfile::tempdir().unwrap();
    let (app, mut here) = replica(&dir.path().join("here.db"));
    let stick = format!("file://{}/", dir.path().join("stick").display());
    let pace = Pace { every: Some(Duration::from_secs(3_600)), changes: Some(2) };
    let mut watch = Watch::new(&mut here, session(), pace, |_| Remote::parse(&stick));
    watch.round(|| false).expect("a round").expect("it succeeds");
    app.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    let until = Instant::now() + Duration::from_millis(400);
    assert!(watch.round(|| Instant::now() > until).is_none(), "one is not enough");
    app.execute_batch("INSERT INTO t VALUES(2)").unwrap();
    let done = watch.round(|| false).expect("a round").expect("it succeeds");
    assert_eq!(done.sent.rows, 2);
}
