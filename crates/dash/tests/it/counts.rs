//! How often each mode synchronizes, exactly.

use crate::lab::{Lab, Op};
use rusqlite::{Connection, OpenFlags};
use std::collections::HashMap;
use std::sync::Arc;
use synqlite_dash::Mode;
use synqlite_dash::disk::{Kind, Sync};

/// Synchronizing calls, exchanges and renames, and bytes written.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    synchronizations: usize,
    renames: usize,
    bytes: usize,
}

fn count(ops: &[Op]) -> Counts {
    let mut counts = Counts::default();
    for op in ops {
        match op {
            // Handing bytes to the device waits for no flush.
            Op::Sync(_, Sync::Hand) => {}
            Op::Sync(..) | Op::SyncFolder => counts.synchronizations += 1,
            Op::Exchange(_) | Op::Rename(..) => counts.renames += 1,
            Op::Write(_, _, bytes) => counts.bytes += bytes.len(),
            _ => {}
        }
    }
    counts
}

fn open(lab: &Lab, mode: Mode, kind: Kind, name: &str) -> (tempfile::TempDir, String) {
    let folder = crate::folder();
    let vfs = format!("count-{name}-{mode}");
    synqlite_dash::register_as(&vfs, Arc::new(lab.clone())).expect("registers");
    lab.reset(HashMap::new(), kind);
    let path = folder.path().join("app.db");
    (folder, format!("file:{}?vfs={vfs}&dash={mode}&dash_unsafe=1", path.display()))
}

fn connect(uri: &str) -> Connection {
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).expect("opens")
}

const TABLE: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b)";
const INSERT: &str = "INSERT INTO t(b) VALUES(hex(randomblob(50)))";

#[test]
fn a_transaction_costs_what_its_mode_says() {
    // mode, on ext4 and the like, elsewhere, renames
    let expected = [
        (Mode::Strict, 1, 2, 1),
        (Mode::Fast, 1, 1, 1),
        (Mode::Shadow, 4, 4, 1),
        (Mode::ShadowX, 3, 3, 1),
        (Mode::Paper, 3, 3, 3),
        (Mode::PaperX, 2, 2, 3),
    ];
    for (mode, journal, local, renames) in expected {
        for (kind, synchronizations) in [(Kind::Journal, journal), (Kind::Local, local)] {
            let lab = Lab::default();
            let (_folder, uri) = open(&lab, mode, kind, &format!("commit{kind:?}"));
            let db = connect(&uri);
            db.execute_batch(TABLE).expect("a table");
            for _ in 0..3 {
                db.execute_batch(INSERT).expect("inserts");
            }
            for _ in 0..10 {
                lab.take();
                db.execute_batch(INSERT).expect("inserts");
                let counts = count(&lab.take());
                let found = (counts.synchronizations, counts.renames);
                assert_eq!(found, (synchronizations, renames), "{mode} on {kind:?}");
                // Header page, leaf, trailer, and marks.
                assert!(counts.bytes <= 5 * 4096, "{mode}: {} bytes", counts.bytes);
            }
        }
    }
}

#[test]
fn a_short_session_costs_little() {
    let expected = [(Mode::Strict, 2), (Mode::Fast, 3), (Mode::Shadow, 4), (Mode::ShadowX, 4)];
    for (mode, most) in expected {
        let lab = Lab::default();
        let (_folder, uri) = open(&lab, mode, Kind::Journal, "session");
        let db = connect(&uri);
        db.execute_batch(TABLE).expect("a table");
        drop(db);
        lab.take();
        let db = connect(&uri);
        db.execute_batch(INSERT).expect("inserts");
        drop(db);
        assert_eq!(count(&lab.take()).synchronizations, most, "{mode}");
        // Reading synchronizes nothing.
        let db = connect(&uri);
        let rows: i64 = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("one");
        assert_eq!(rows, 1);
        drop(db);
        assert_eq!(count(&lab.take()), Counts { bytes: 24, ..Counts::default() }, "{mode}");
    }
}

#[test]
fn without_synchronizations_there_are_none() {
    let lab = Lab::default();
    let (_folder, uri) = open(&lab, Mode::Strict, Kind::Journal, "off");
    let db = connect(&uri);
    db.execute_batch(TABLE).expect("a table");
    db.execute_batch("PRAGMA synchronous = OFF").expect("a pragma");
    db.execute_batch(INSERT).expect("inserts");
    lab.take();
    db.execute_batch(INSERT).expect("inserts");
    assert_eq!(count(&lab.take()).synchronizations, 0);
}

/// `cargo test --release -p synqlite-dash --test it recovery -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn recovery_of_a_database_of_20_mb() {
    use crate::lab::Fault;
    use std::time::Instant;
    for mode in Mode::ALL {
        let lab = Lab::default();
        let vfs = format!("recovery-{mode}");
        synqlite_dash::register_as(&vfs, Arc::new(lab.clone())).expect("registers");
        let folder = tempfile::tempdir().expect("a folder on a disk");
        let path = folder.path().join("app.db");
        let uri = format!("file:{}?vfs={vfs}&dash={mode}&dash_unsafe=1", path.display());
        lab.reset_booted(1);
        let db = connect(&uri);
        db.execute_batch(&format!(
            "{TABLE}; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
             INSERT INTO t SELECT i, zeroblob(3900) FROM n; {INSERT}; {INSERT}"
        ))
        .expect("writes");
        lab.fail(Some((lab.count() + 4, Fault::Dead)));
        let _ = db.execute_batch(INSERT);
        drop(db);
        let session = |boot| {
            lab.reset_booted(boot);
            let begun = Instant::now();
            let db = connect(&uri);
            let _: i64 = db.query_row("SELECT max(a) FROM t", [], |row| row.get(0)).expect("a row");
            let opened = begun.elapsed();
            let begun = Instant::now();
            db.execute_batch(INSERT).expect("writes");
            (opened, begun.elapsed())
        };
        let (opened, written) = session(2);
        let (clean, again) = session(2);
        println!(
            "{mode}: after a failure open {opened:.1?}, first write {written:.1?}; \
             clean open {clean:.1?}, first write {again:.1?}"
        );
    }
}
