//! Continuous synchronization.

use crate::support::{Lab, started};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn watch(args: &[&str]) -> Child {
    started(|| {
        Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args([&["watch"], args, &["--json"]].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    })
}

fn lines(child: &mut Child) -> impl Iterator<Item = Value> + use<> {
    let out = BufReader::new(child.stdout.take().expect("standard output"));
    out.lines().map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON"))
}

#[test]
fn it_synchronizes_on_a_period() {
    let lab = Lab::with_a_and_b();
    lab.sql("A", "INSERT INTO note VALUES('from A')");
    let mut child = watch(&[&lab.db("B"), "--every", "100ms", "--rounds", "3"]);
    let rounds: Vec<Value> = lines(&mut child).collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(rounds.len(), 3);
    assert_eq!(rounds[0]["merged"]["inserted"], 1);
    assert_eq!(rounds[2]["round"], 3);
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn it_synchronizes_after_enough_changes() {
    let lab = Lab::with_a_and_b();
    let mut child = watch(&[&lab.db("B"), "--every", "1h", "--changes", "2", "--rounds", "2"]);
    let mut rounds = lines(&mut child);
    assert_eq!(rounds.next().unwrap()["round"], 1);
    let since = Instant::now();
    lab.sql("B", "INSERT INTO note VALUES('one')");
    lab.sql("B", "INSERT INTO note VALUES('two')");
    assert_eq!(rounds.next().unwrap()["sent"]["rows"], 2);
    assert!(since.elapsed() < Duration::from_secs(60));
    assert!(child.wait().unwrap().success());
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn it_survives_a_remote_that_is_away() {
    let lab = Lab::with_a_and_b();
    std::fs::rename(lab.db("A"), lab.db("away")).unwrap();
    let mut child = watch(&[&lab.db("B"), "--every", "100ms", "--rounds", "50"]);
    let mut rounds = lines(&mut child);
    let first = rounds.next().unwrap();
    assert!(first["error"].as_str().is_some_and(|e| e.contains("there is no database")), "{first}");
    std::fs::rename(lab.db("away"), lab.db("A")).unwrap();
    assert!(rounds.any(|round| round["merged"].is_object()));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_last_round_that_failed_is_told_as_sync_tells_it() {
    let lab = Lab::with_a();
    let (a, away) = (lab.db("A"), "http://127.0.0.1:9/x");
    let run = |args: &[&str]| crate::support::synqlite(&[args, &["--json"]].concat());
    let (sync, watch) = (run(&["sync", &a, away]), run(&["watch", &a, away, "--rounds", "1"]));
    assert_eq!((sync.status.code(), watch.status.code()), (Some(4), Some(4)));
    let told = |out: &[u8]| serde_json::from_slice::<Value>(out).expect("one document");
    let (document, mut line) = (told(&sync.stdout)["error"].take(), told(&watch.stdout));
    for field in ["code", "status", "message", "hint", "object"] {
        assert_eq!(line[field], document[field], "{line}");
    }
    let text = |field: &Value| field.as_str().expect("a text").to_owned();
    let whole = format!("{}. {}", text(&document["message"]), text(&document["hint"]));
    assert_eq!((text(&line["error"].take()), &line["round"]), (whole, &1.into()), "{line}");
}

#[test]
fn a_round_that_failed_before_the_last_is_no_failure() {
    let lab = Lab::with_a_and_b();
    std::fs::rename(lab.db("A"), lab.db("away")).unwrap();
    let mut child = watch(&[&lab.db("B"), "--every", "500ms", "--rounds", "8"]);
    let mut rounds = lines(&mut child);
    assert_eq!(rounds.next().unwrap()["code"], "refused");
    std::fs::rename(lab.db("away"), lab.db("A")).unwrap();
    let last = rounds.last().unwrap();
    assert!(last["merged"].is_object(), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// What it writes would go to a file that is elsewhere by now. Others than Unix let nobody move it.
#[cfg(unix)]
#[test]
fn it_says_that_its_file_was_moved_away() {
    let lab = Lab::with_a_and_b();
    let mut child = watch(&[&lab.db("B"), "--every", "100ms"]);
    let mut rounds = lines(&mut child);
    rounds.next().expect("a first round");
    lab.sql("A", "INSERT INTO note VALUES('news')");
    std::fs::rename(lab.db("B"), lab.db("moved")).unwrap();
    let mut failed = rounds.filter(|round| round["code"].is_string());
    let first = failed.next().expect("it goes on");
    let message = first["message"].as_str().unwrap_or_default();
    assert!(message.contains("B.db was moved, removed or replaced"), "{first}");
    // Who looks after it starts it again.
    assert!(failed.count() > 1, "it has some patience");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// As it takes one that was written over its file.
#[cfg(unix)]
#[test]
fn it_goes_on_with_a_backup_that_was_moved_in_its_place() {
    let lab = Lab::with_a_and_b();
    let mut child = watch(&[&lab.db("B"), "--every", "100ms"]);
    let mut rounds = lines(&mut child);
    rounds.next().expect("a first round");
    let site = || lab.json(&["status", &lab.db("B")])["site"].clone();
    let (former, name) =
        (site(), lab.rows("B", "SELECT value FROM synqlite_meta WHERE key='name'"));
    lab.sql("B", "VACUUM INTO 'BACKUP'".replace("BACKUP", &lab.db("backup")).as_str());
    lab.sql("B", "INSERT INTO note VALUES('after the backup')");
    assert!(rounds.any(|round| round["sent"]["rows"] == 1));
    std::fs::rename(lab.db("backup"), lab.db("B")).unwrap();
    lab.sql("B", "INSERT INTO note VALUES('after the restore')");
    assert!(rounds.any(|round| round["sent"]["rows"] == 1));
    assert_ne!(site(), former);
    assert_eq!(lab.rows("B", "SELECT value FROM synqlite_meta WHERE key='name'"), name);
    lab.assert_equal(&["A", "B"]);
    assert_eq!(lab.rows("A", "SELECT text FROM note WHERE text LIKE 'after%'").len(), 2);
    child.kill().unwrap();
    let told = child.wait_with_output().unwrap().stderr;
    assert!(String::from_utf8_lossy(&told).contains("was restored from an older copy"));
}

/// A backup of a database with a write-ahead log is copied over it, and the log removed, which is of another time.
#[cfg(unix)]
#[test]
fn it_goes_on_with_a_backup_that_was_written_over_its_file() {
    let lab = Lab::with_a_and_b();
    lab.sql("B", "PRAGMA journal_mode = WAL");
    lab.sql("B", "VACUUM INTO 'BACKUP'".replace("BACKUP", &lab.db("backup")).as_str());
    let mut child = watch(&[&lab.db("B"), "--every", "100ms"]);
    let mut rounds = lines(&mut child);
    rounds.next().expect("a first round");
    lab.sql("B", "INSERT INTO note VALUES('after the backup')");
    assert!(rounds.any(|round| round["sent"]["rows"] == 1));
    std::fs::copy(lab.db("backup"), lab.db("B")).unwrap();
    for end in ["-wal", "-shm"] {
        std::fs::remove_file(lab.db("B") + end).unwrap();
    }
    lab.sql("B", "INSERT INTO note VALUES('after the restore')");
    assert!(rounds.any(|round| round["sent"]["rows"] == 1));
    child.kill().unwrap();
    child.wait().unwrap();
    lab.assert_equal(&["A", "B"]);
    assert_eq!(lab.rows("A", "SELECT text FROM note WHERE text LIKE 'after%'").len(), 2);
}

#[cfg(unix)]
#[test]
fn it_ends_when_another_database_takes_its_place() {
    let lab = Lab::with_a_and_b();
    lab.sql("other", "CREATE TABLE t(k)");
    lab.json(&["init", &lab.db("other")]);
    let mut child = watch(&[&lab.db("B"), "--every", "100ms"]);
    let mut rounds = lines(&mut child);
    rounds.next().expect("a first round");
    std::fs::rename(lab.db("other"), lab.db("B")).unwrap();
    let codes: Vec<Value> = rounds.map(|round| round["code"].clone()).collect();
    // A round that had the former one open says first that its file was replaced.
    let before = |code: &&Value| code.is_null() || **code == "refused";
    let failed: Vec<&Value> = codes.iter().skip_while(before).collect();
    assert!(failed.len() > 1 && failed.iter().all(|code| *code == "conflict"), "{codes:?}");
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("are not clones of one another"), "{told}");
}

#[test]
fn it_ends_when_its_file_is_a_replica_no_more() {
    let lab = Lab::with_a_and_b();
    let child = watch(&[&lab.db("B"), "--every", "100ms"]);
    std::thread::sleep(Duration::from_secs(1));
    lab.json(&["deinit", &lab.db("B")]);
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("B.db is not a replica") && !told.contains("no such table"), "{told}");
}

/// What is there and no replica is not going to be one.
#[test]
fn it_refuses_what_is_no_replica() {
    let lab = Lab::with_a();
    lab.sql("plain", "CREATE TABLE t(k)");
    let (a, plain) = (lab.db("A"), lab.db("plain"));
    let told = lab.refused(&["watch", &plain, &a]);
    assert!(told.contains("plain.db is not a replica"), "{told}");
    let told = lab.refused(&["watch", &a, &plain]);
    assert!(told.contains("plain.db is not a replica"), "{told}");
    let output = watch(&[&a, &plain]).wait_with_output().expect("it ends");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("online"), "{output:?}");
}

#[cfg(unix)]
#[test]
fn signals_end_it_cleanly() {
    let lab = Lab::with_a_and_b();
    for signal in ["-INT", "-TERM"] {
        let mut child = watch(&[&lab.db("B"), "--every", "1h"]);
        let mut rounds = lines(&mut child);
        rounds.next().expect("a first round");
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(rounds.next(), None, "no further round");
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
    }
}
