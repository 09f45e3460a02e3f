//! A process that is killed while it writes loses nothing that it was told is written.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use synqlite_lsm::{Db, Options};

const CHILD: &str = "SYNQLITE_LSM_KILLED_CHILD";

fn options() -> Options {
    Options { memtable_size: 256 << 10, ..Options::default() }
}

fn value(i: u64) -> Vec<u8> {
    vec![i as u8; (i % 300) as usize]
}

/// Not a test of its own: the process that `a_killed_process_loses_nothing` kills.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let db = Db::open(path, options()).unwrap();
    println!();
    for i in db.sequence().. {
        db.put(i.to_be_bytes(), value(i)).unwrap();
        if i % 100 == 0 {
            println!("written {i}");
        }
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 0..6u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let numbers = lines.lines().map_while(Result::ok);
            numbers.filter_map(|l| l.strip_prefix("written ")?.parse::<u64>().ok()).last()
        });
        std::thread::sleep(Duration::from_millis(400 + 37 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = reader.join().unwrap().unwrap_or(before);
        let db = Db::open(dir.path(), options()).unwrap();
        assert!(db.dropped().is_none());
        let there = db.sequence();
        assert!(
            there > acknowledged && there >= before,
            "{there} recovered, {acknowledged} acknowledged"
        );
        let mut scan = db.scan(..).unwrap();
        for i in 0..there {
            assert!(scan.advance().unwrap(), "{i} of {there} is missing");
            assert!(scan.key() == i.to_be_bytes() && scan.value() == value(i), "{i} is wrong");
        }
        assert!(!scan.advance().unwrap());
        before = there;
        db.close().unwrap();
    }
    assert!(before > 1_000, "{before} writes are too few to say anything");
}

#[test]
fn concurrent_synced_writers_share_forces() {
    let dir = tempfile::tempdir().unwrap();
    let db =
        Db::open(dir.path(), Options { sync: synqlite_lsm::Sync::Always, ..options() }).unwrap();
    std::thread::scope(|s| {
        for w in 0..8u32 {
            let db = &db;
            s.spawn(move || {
                (0..40u32).for_each(|i| db.put((w << 8 | i).to_be_bytes(), "v").unwrap())
            });
        }
    });
    let forces = db.stats().syncs.count;
    assert!(forces < 8 * 40 / 2, "{forces} forces for {} writes", 8 * 40);
    assert_eq!(db.scan(..).unwrap().count(), 8 * 40);
}
