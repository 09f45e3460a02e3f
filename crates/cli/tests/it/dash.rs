//! Commands on databases that programs open with `vfs=dash`, and that others open without.

use crate::support::{Lab, started};
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synqlite_core::{Environment, Replica, System};

/// The machine, for whoever waits for nobody.
struct Hasty;

impl Environment for Hasty {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn wait(&self, _: &Path, _: Duration) -> bool {
        false
    }
}

/// A program's connection with `vfs=dash`, and what its name says besides.
fn dash(lab: &Lab, site: &str, parameters: &str) -> Connection {
    synqlite_dash::register().expect("SQLite has a default file system");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI;
    let name = format!("file:{}?vfs=dash{parameters}", lab.db(site));
    let conn = Connection::open_with_flags(name, flags).expect("the application opens it");
    conn.busy_timeout(Duration::from_secs(20)).expect("a timeout");
    conn
}

const NOTE: &str = "INSERT INTO note VALUES(hex(randomblob(8)))";

/// Programs without it stay as they are: a commit by it would take the file from those who have it open.
#[test]
fn a_file_that_nobody_has_open_by_dash_is_written_as_by_sqlite_itself() {
    let lab = Lab::with_a_and_b();
    for commits in 1..=2 {
        let by_dash = dash(&lab, "B", "");
        (0..commits).for_each(|_| by_dash.execute_batch(NOTE).unwrap());
        by_dash.close().unwrap();
        let plain = lab.connect("B");
        for _ in 0..3 {
            lab.sql("A", NOTE);
            lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
            plain.execute_batch(NOTE).unwrap();
        }
        lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
        lab.assert_equal(&["A", "B"]);
    }
    lab.json(&["verify", "--full", &lab.db("B")]);
}

#[test]
fn a_file_that_a_program_has_open_by_dash_is_written_by_it() {
    let lab = Lab::with_a_and_b();
    let by_dash = dash(&lab, "B", "");
    for _ in 0..3 {
        by_dash.execute_batch(NOTE).unwrap();
        lab.sql("A", NOTE);
        lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
        let [a, b] = ["A", "B"].map(|site| lab.rows(site, "SELECT count(*) FROM note"));
        assert_eq!(a, b);
    }
    by_dash.close().unwrap();
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn a_connection_that_has_a_file_alone_is_named() {
    let lab = Lab::with_a_and_b();
    let by_dash = dash(&lab, "B", "&dash=shadow-x");
    by_dash.execute_batch(NOTE).unwrap();
    let told = lab.refused(&["fold", &lab.db("B"), "--wait", "0"]);
    assert!(told.contains("dash=shadow-x, which lets in no other"), "{told}");
}

/// As one that the extension makes where `vfs=dash` is not loaded.
#[test]
fn a_connection_without_dash_beside_one_with_it_is_told_so() {
    let lab = Lab::with_a_and_b();
    let mut plain = Replica::open(Path::new(&lab.db("B")), Arc::new(Hasty)).unwrap();
    let by_dash = dash(&lab, "B", "");
    for _ in 0..3 {
        by_dash.execute_batch(NOTE).unwrap();
        let told = plain.fold().unwrap_err().to_string();
        assert!(
            told.ends_with(
                "is open in a program with vfs=dash, and beside that others only read it"
            ),
            "{told}"
        );
    }
    plain.follow_dash().unwrap();
    assert_eq!(plain.fold().unwrap().rows, 3);
}

/// One that was there first follows a program that begins to keep the file by it.
#[test]
fn a_watch_goes_on_by_dash_when_a_program_opens_its_file_so() {
    let lab = Lab::with_a_and_b();
    let mut watch = started(|| {
        Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args(["watch", &lab.db("B"), &lab.db("A"), "--every", "50ms"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    });
    let count = |site: &str| lab.rows(site, "SELECT count(*) FROM note");
    let meet = || {
        let since = Instant::now();
        while count("A") != count("B") {
            assert!(since.elapsed() < Duration::from_secs(60), "the watch does not go on");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    lab.sql("B", NOTE);
    meet();
    let by_dash = dash(&lab, "B", "");
    for _ in 0..2 {
        by_dash.execute_batch(NOTE).unwrap();
        meet();
    }
    by_dash.close().unwrap();
    lab.sql("A", NOTE);
    meet();
    watch.kill().unwrap();
    watch.wait().unwrap();
}
