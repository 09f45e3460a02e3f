//! What is told of work that takes longer than half a second.

use crate::support::{Lab, stderr, stdout, synqlite};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Rows whose merge takes longer than half a second on any machine.
const ROWS: i64 = 40_000;

/// Two replicas, of which A has new keys of many rows, which merges weigh one by one.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.sql(
        "A",
        &format!(
            "CREATE TABLE t(k TEXT PRIMARY KEY, v, u UNIQUE);
             WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < {ROWS})
             INSERT INTO t SELECT hex(randomblob(12)), i, i FROM g"
        ),
    );
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "UPDATE t SET u = -u");
    lab
}

fn json_lines(told: &str) -> Vec<Value> {
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    told.lines().map(line).collect()
}

#[test]
fn a_merge_tells_its_rows_as_json_lines() {
    let lab = lab();
    let since = Instant::now();
    let (done, told) =
        lab.json_and_stderr(&["pull", &lab.db("B"), &lab.db("A"), "--progress", "json"]);
    let took = since.elapsed();
    assert_eq!(done["merged"]["updated"], ROWS);
    let lines = json_lines(&told);
    let merge: Vec<&Value> = lines.iter().filter(|line| line["phase"] == "merge").collect();
    let last = merge.last().unwrap_or_else(|| panic!("{told}"));
    assert_eq!(
        (&last["last"], &last["rows"], &last["total"]),
        (&true.into(), &ROWS.into(), &ROWS.into())
    );
    assert!(last["rate"].as_u64() > Some(0) && last["left_s"] == 0.0, "{last}");
    assert!(
        merge.windows(2).all(|two| two[0]["rows"].as_u64() <= two[1]["rows"].as_u64()),
        "{told}"
    );
    // Five a second, and one at the end of each phase.
    let usual = lines.iter().filter(|line| line["last"] == false).count();
    assert!(usual as u128 <= took.as_millis() / 200 + 1, "{usual} lines in {took:?}");
    assert!(lines.iter().all(|line| line["seconds"].is_number()), "{told}");
}

#[test]
fn notes_are_lines_of_their_kind() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE t(id INTEGER PRIMARY KEY)");
    let init = ["init", &lab.db("A")];
    let (_, told) = lab.json_and_stderr(&[&init[..], &["--progress", "json"]].concat());
    let notes = json_lines(&told);
    assert_eq!(notes.len(), 1, "{told}");
    let note = notes[0]["note"].as_str().expect("a note");
    assert!(note.starts_with("SQLite numbers the rows of t"), "{note}");
    lab.json(&["deinit", &lab.db("A")]);
    assert_eq!(lab.json_and_stderr(&init).1.trim_end(), format!("note: {note}"));
}

#[test]
fn what_is_locked_out_is_told_too() {
    let lab = Lab::with_a();
    let mut app = lab.connect("A");
    let lock = app.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let db = lab.db("A");
    let fold = std::thread::spawn(move || synqlite(&["fold", &db, "--progress", "json"]));
    std::thread::sleep(Duration::from_millis(1_500));
    lock.commit().unwrap();
    let output = fold.join().unwrap();
    assert!(output.status.success() && stdout(&output).starts_with("folded"));
    let lines = json_lines(&stderr(&output));
    assert!(lines.len() > 1 && lines.iter().all(|line| line["phase"] == "work"), "{lines:?}");
    assert_eq!(lines.last().map(|line| &line["last"]), Some(&true.into()));
}

#[test]
fn nothing_is_told_of_what_is_done_at_once_or_where_nobody_looks() {
    let lab = lab();
    let (_, told) = lab.json_and_stderr(&["status", &lab.db("A"), "--progress", "json"]);
    assert_eq!(told, "");
    // No terminal.
    let (_, told) = lab.json_and_stderr(&["pull", &lab.db("B"), &lab.db("A")]);
    assert_eq!(told, "");
    lab.sql("A", "UPDATE t SET v = v + 1");
    let args = ["pull", &lab.db("B"), &lab.db("A"), "--progress", "none"];
    assert_eq!(lab.json_and_stderr(&args).1, "");
}

#[test]
fn watch_logs_what_took_long() {
    let lab = lab();
    let output = synqlite(&["watch", &lab.db("B"), &lab.db("A"), "--rounds", "2", "--every", "1s"]);
    let told = stderr(&output);
    let line = told.lines().find(|line| line.starts_with("merging: 40,000 rows in "));
    assert!(line.is_some_and(|line| line.ends_with(" rows/s")), "{told}");
    // The second round did nothing.
    assert_eq!(told.matches("merging").count(), 1, "{told}");
    let args = ["watch", &lab.db("B"), &lab.db("A"), "--rounds", "2", "--every", "2s"];
    let output = synqlite(&[&args[..], &["--progress", "json"]].concat());
    assert_eq!(stderr(&output), "", "between rounds nothing is done");
}

#[cfg(unix)]
#[test]
fn a_hub_logs_requests_that_take_long() {
    let lab = Lab::new();
    let mut hub = Command::new(env!("CARGO_BIN_EXE_synqlite"))
        .args(["serve", "--open", "--listen", "127.0.0.1:0", "--store"])
        .arg(lab.path("store"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut out = hub.stdout.take().expect("a pipe");
    let mut heard = Vec::new();
    while !heard.ends_with(b"\n") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).expect("a line"), 1);
        heard.extend(byte);
    }
    let heard = String::from_utf8(heard).expect("text");
    let address = heard.trim().strip_prefix("listening on http://").expect("an address");
    let mut slow = TcpStream::connect(address).expect("a connection");
    let head = "POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nConnection: close\r\n\r\n";
    slow.write_all(head.as_bytes()).expect("sent");
    std::thread::sleep(Duration::from_millis(800));
    slow.write_all(b"body").expect("sent");
    slow.read_to_end(&mut Vec::new()).expect("an answer");
    hub.kill().expect("it ends");
    let told = stderr(&hub.wait_with_output().expect("it ends"));
    let line = told.lines().find(|line| line.contains("request took long"));
    let line = line.unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains("path=\"/slow\"") && line.contains("size=\"4 B\""), "{line}");
}
