//! What is left of a replica, or of a remote, when it is removed; and what is said when a part of the
//! metadata is missing.

use crate::support::{Lab, files};

const TOKEN: &str = "SECRETTOKEN0123456789";

/// Files that belong to a database and hold the token.
fn holding(lab: &Lab, site: &str) -> Vec<String> {
    let files = files(lab.dir.path()).into_iter().filter(|file| {
        let ours = file.file_name().is_some_and(|n| n.to_string_lossy().starts_with(site));
        let bytes = std::fs::read(file).unwrap_or_default();
        ours && bytes.windows(TOKEN.len()).any(|w| w == TOKEN.as_bytes())
    });
    files.map(|file| file.display().to_string()).collect()
}

/// Adds remotes, of which one keeps the token, and moves its entry about.
fn with_token(lab: &Lab) {
    let (a, url) = (lab.db("A"), "https://hub.example.org/x");
    lab.json(&["remote", "add", &a, "hub", url, "--token", TOKEN]);
    for i in 0..16 {
        let url = format!("{}{}", lab.folder(), "long/".repeat(30 + i % 7));
        lab.json(&["remote", "add", &a, &format!("folder{i}"), &url]);
    }
    lab.json(&["remote", "add", &a, "origin", &lab.db("B")]);
    lab.sql("A", "INSERT INTO note VALUES('x')");
    lab.json(&["sync", &a]);
    for i in (0..16).step_by(2) {
        lab.json(&["remote", "remove", &a, &format!("folder{i}")]);
    }
    assert!(!holding(lab, "A").is_empty());
}

#[test]
fn a_removed_remote_leaves_no_trace_of_its_token() {
    for mode in ["delete", "wal", "truncate", "persist"] {
        let lab = Lab::with_a_and_b();
        lab.rows("A", &format!("PRAGMA journal_mode={mode}"));
        // With another program at work, the log is not removed when the command ends.
        let open = lab.connect("A");
        open.query_row("SELECT count(*) FROM todo", [], |_| Ok(())).unwrap();
        with_token(&lab);
        lab.json(&["remote", "remove", &lab.db("A"), "hub"]);
        assert_eq!(holding(&lab, "A"), [""; 0], "{mode}");
        let remotes = lab.json(&["remote", "list", &lab.db("A")]);
        assert_eq!(remotes["remotes"].as_array().map(Vec::len), Some(9), "{mode}");
        lab.json(&["clone", &lab.db("A"), &lab.db("C")]);
        assert_eq!(holding(&lab, "C"), [""; 0], "{mode}");
    }
}

#[test]
fn what_a_reader_keeps_in_the_log_is_told() {
    let lab = Lab::with_a_and_b();
    lab.rows("A", "PRAGMA journal_mode=wal");
    let reader = lab.connect("A");
    with_token(&lab);
    reader.execute_batch("BEGIN; SELECT count(*) FROM todo").unwrap();
    reader.query_row("SELECT count(*) FROM todo", [], |_| Ok(())).unwrap();
    let (_, told) = lab.json_and_stderr(&["remote", "remove", &lab.db("A"), "hub"]);
    assert!(told.contains("A.db-wal") && told.contains("note: "), "{told}");
}

#[test]
fn nothing_of_a_replica_is_left_in_the_file() {
    for mode in ["delete", "wal"] {
        let lab = Lab::with_a_and_b();
        lab.rows("A", &format!("PRAGMA journal_mode={mode}"));
        let _open = lab.connect("A");
        with_token(&lab);
        lab.json(&["deinit", &lab.db("A")]);
        assert_eq!(holding(&lab, "A"), [""; 0], "{mode}");
    }
}

/// Names of all that is ours in a database: tables, then triggers and indexes.
fn ours(lab: &Lab, kind: &str) -> Vec<String> {
    let sql = "SELECT name FROM sqlite_master WHERE name LIKE 'synqlite%' AND type";
    lab.rows("A", &format!("{sql} = '{kind}'"))
}

#[test]
fn every_command_says_that_tables_of_ours_were_dropped_and_deinit_cleans_up() {
    let every = ours(&Lab::with_a(), "table");
    let dropped = every.iter().map(|table| vec![table.clone()]).chain([every.clone()]);
    for (i, tables) in dropped.enumerate() {
        let lab = Lab::with_a_and_b();
        let before = lab.rows("A", "SELECT * FROM todo");
        let a = lab.db("A");
        for table in &tables {
            lab.sql("A", &format!("DROP TABLE {table}"));
        }
        let commands = [
            &["init", &a][..],
            &["verify", &a],
            &["status", &a],
            &["fold", &a],
            &["sync", &a, &lab.db("B")],
            &["sync", &lab.db("B"), &a],
            &["clone", &a, &lab.db("C")],
            &["remote", "list", &a],
            &["policy", &a],
            &["digest", &a],
        ];
        // All commands once, then one for each table.
        let some =
            if tables.len() > 1 { &commands[..] } else { &commands[i % commands.len()..][..1] };
        for command in some {
            let told = lab.refused(command);
            assert!(told.contains("missing") && told.contains("deinit"), "{command:?}: {told}");
            assert!(told.contains("--repair"), "{command:?}: {told}");
            let fails = tables.iter().any(|table| table == "synqlite_journal");
            assert_eq!(told.contains("nobody can write to tables note, person and todo"), fails);
        }
        lab.json(&["deinit", &a]);
        assert_eq!([ours(&lab, "table"), ours(&lab, "trigger"), ours(&lab, "index")], [[""; 0]; 3]);
        lab.sql("A", "INSERT INTO todo(what) VALUES('written again')");
        assert_eq!(lab.rows("A", "SELECT * FROM todo").len(), before.len() + 1);
        lab.json(&["init", &a]);
    }
}
