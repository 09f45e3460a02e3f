//! What programs are told of a failure: a status by its kind, and a document.

#[cfg(unix)]
use crate::serve::Hub;
use crate::support::{Lab, TODO, started, stderr, stdout, synqlite};
use serde_json::Value;
use std::process::Command;

/// The document of a command that fails, and its status.
fn failed(args: &[&str]) -> (i32, Value) {
    let output = synqlite(&[args, &["--json"]].concat());
    let out = stdout(&output);
    assert_eq!(out.lines().count(), 1, "{args:?}: {out}{}", stderr(&output));
    let document: Value = serde_json::from_str(&out).expect("one document");
    assert!(stderr(&output).contains("error: "), "{args:?}: {}", stderr(&output));
    (output.status.code().expect("a status"), document["error"].clone())
}

#[cfg(unix)]
#[test]
fn a_failure_tells_programs_its_kind_and_what_it_concerns() {
    let lab = Lab::with_a();
    lab.sql("plain", TODO);
    let (a, plain) = (lab.db("A"), lab.db("plain"));
    lab.json(&["clone", &a, &lab.db("torn")]);
    lab.sql("torn", "DROP TABLE synqlite_segment");
    let dir = lab.path("").display().to_string();
    let dir = dir.trim_end_matches('/').to_owned();
    let closed = lab.path("closed").display().to_string();
    drop(Hub::start(&lab.path("closed"), &["--open"]));
    let store = lab.path("hub");
    let _hub = Hub::start(&store, &["--open"]);
    let store = store.display().to_string();
    for (args, status, code, object) in [
        (&["status", &plain][..], 1, "refused", Some(&plain)),
        (&["push", &a, "nowhere"], 1, "refused", None),
        (&["frobnicate"], 2, "usage", None),
        (&["push"], 2, "usage", None),
        (
            &["serve", "--listen", "127.0.0.1:0", "--wait", "0", "--store", &store],
            3,
            "locked",
            Some(&store),
        ),
        (&["push", &a, "http://127.0.0.1:9/x"], 4, "network", None),
        (&["clone", &a, &plain], 5, "conflict", Some(&plain)),
        (&["key", "new", &plain], 5, "conflict", Some(&plain)),
        (&["demo", "--dir", &dir], 5, "conflict", Some(&a)),
        (&["serve", "--store", &closed, "--backup", &plain], 5, "conflict", Some(&plain)),
        (&["fold", &lab.db("torn")], 6, "damaged", Some(&lab.db("torn"))),
    ] {
        let (found, error) = failed(args);
        assert_eq!((found, &error["status"]), (status, &status.into()), "{args:?}: {error}");
        assert_eq!(error["code"], code, "{args:?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        assert!(error["hint"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        if let Some(object) = object {
            assert_eq!(error["object"], object.as_str(), "{args:?}");
        }
    }
}

/// Also where the parser of arguments says it in the lines below its first.
#[test]
fn what_is_missing_on_the_command_line_is_named() {
    let (_, error) = failed(&["sync"]);
    let message = error["message"].as_str().unwrap_or_default();
    assert_eq!(message, "the following required arguments were not provided: <DB>");
}

#[test]
fn whoever_has_a_document_gets_no_other() {
    let lab = Lab::with_a();
    lab.sql("A", "DELETE FROM synqlite_segment");
    let found = lab.faulty(&["verify", &lab.db("A")]);
    assert!(found.get("error").is_none());
    let output = synqlite(&["status", &lab.db("none")]);
    assert_eq!(stdout(&output), "", "nobody asked for a document");
}

/// What is a file is no folder, whichever way it is written; and who does not want to wait does not.
#[test]
fn a_file_is_no_folder_and_no_patience_is_none() {
    let lab = Lab::with_a();
    lab.sql("B", "CREATE TABLE t(k)");
    lab.json(&["init", &lab.db("B")]);
    let path = lab.db("A").replace('\\', "/");
    let url = format!("file:///{}", path.trim_start_matches('/'));
    let told = lab.refused(&["sync", &lab.db("B"), &url]);
    assert!(told.contains("is a file") && told.contains("named by its path alone"), "{told}");
    let folder = lab.path("").display().to_string();
    for what in [folder.as_str(), "/dev/null"] {
        let told = lab.refused(&["init", what]);
        assert!(told.contains("is not a SQLite database"), "{told}");
    }
    let told = lab.refused(&["demo", "--dir", &lab.db("A")]);
    assert!(told.contains(&lab.db("A")) && told.contains("--dir"), "{told}");
    let app = rusqlite::Connection::open(lab.db("A")).unwrap();
    app.execute_batch("BEGIN IMMEDIATE; INSERT INTO note VALUES('x')").unwrap();
    let (a, folder) = (lab.db("A"), lab.folder());
    let since = std::time::Instant::now();
    for args in
        [&["fold", &a][..], &["init", &a], &["remote", "add", &a, "f", &folder], &["deinit", &a]]
    {
        let output = synqlite(&[args, &["--wait", "0"]].concat());
        assert_eq!(output.status.code(), Some(3), "{args:?}");
    }
    assert!(since.elapsed() < std::time::Duration::from_secs(30), "{:?}", since.elapsed());
}

/// A file may have no more than 64 KiB here, which is met as a full disk is.
#[cfg(unix)]
#[test]
fn a_clone_that_finds_no_room_names_the_file_that_was_asked_for() {
    let lab = Lab::new();
    lab.sql("A", TODO);
    lab.sql("A", "INSERT INTO note VALUES(hex(randomblob(100000)))");
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    for source in [lab.db("A"), lab.folder()] {
        let script = "ulimit -f 128; trap '' XFSZ; exec \"$0\" clone \"$1\" \"$2\"";
        let mut shell = std::process::Command::new("sh");
        let args = ["-c", script, env!("CARGO_BIN_EXE_synqlite"), &source, &lab.db("new")];
        let output = shell.args(args).output().expect("a shell");
        let told = stderr(&output);
        assert!(!output.status.success(), "{told}");
        assert!(told.contains(&lab.db("new")) && !told.contains(".tmp-"), "{told}");
        assert!(!lab.path("new.db").exists());
    }
}

/// The environment may send requests where nobody would look.
#[test]
fn a_proxy_that_is_away_is_named() {
    let lab = Lab::with_a();
    let ask = |without: &str| {
        let sent = started(|| {
            Command::new(env!("CARGO_BIN_EXE_synqlite"))
                .args(["sync", &lab.db("A"), "http://hub.invalid/todo"])
                .env("HTTP_PROXY", "http://name:secret@127.0.0.1:1")
                .env("NO_PROXY", without)
                .output()
        });
        assert_eq!(sent.status.code(), Some(4));
        stderr(&sent)
    };
    let told = ask("");
    assert!(told.contains(", by way of the proxy at 127.0.0.1:1. Check"), "{told}");
    assert!(!told.contains("secret"), "{told}");
    let told = ask("hub.invalid");
    assert!(!told.contains("proxy"), "{told}");
}
