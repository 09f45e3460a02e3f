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
    // On Windows SQLite cannot remove a journal that another connection keeps in these modes.
    let kept: &[&str] = if cfg!(windows) { &[] } else { &["truncate", "persist"] };
    for mode in ["delete", "wal"].iter().chain(kept) {
        let mode = *mode;
        let lab = Lab::with_a_and_b();
        lab.rows("A", &format!("PRAGMA journal_mode={mode}"));
        // With another program at work, the log is not removed when the command ends.
        let open = lab.connect("A");
        open.query_row("SELECT count(*) FROM todo", [], |_| Ok(())).unwrap();
        with_token(&lab);
        // The application moves every page, ours too, and its journal has them as they were.
        open.query_row(&format!("PRAGMA journal_mode={mode}"), [], |_| Ok(())).unwrap();
        open.execute_batch("VACUUM").unwrap();
        let before = holding(&lab, "A");
        assert!(mode != "persist" || before.iter().any(|f| f.ends_with("-journal")), "{before:?}");
        assert!(mode != "wal" || before.iter().any(|f| f.ends_with("-wal")), "{before:?}");
        lab.json(&["remote", "remove", &lab.db("A"), "hub"]);
        assert_eq!(holding(&lab, "A"), [""; 0], "{mode}");
        let remotes = lab.json(&["remote", "list", &lab.db("A")]);
        assert_eq!(remotes["remotes"].as_array().map(Vec::len), Some(9), "{mode}");
        lab.json(&["clone", &lab.db("A"), &lab.db("C")]);
        assert_eq!(holding(&lab, "C"), [""; 0], "{mode}");
    }
}

/// Rights of the database of a site and of what SQLite keeps beside it.
#[cfg(unix)]
fn rights(lab: &Lab, site: &str) -> Vec<u32> {
    use std::os::unix::fs::PermissionsExt;
    let beside = ["", "-wal", "-shm"].map(|end| format!("{}{end}", lab.db(site)));
    let found = beside.iter().filter_map(|path| std::fs::metadata(path).ok());
    found.map(|file| file.permissions().mode() & 0o777).collect()
}

#[cfg(unix)]
#[test]
fn a_replica_that_keeps_a_token_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let lab = Lab::with_a_and_b();
    lab.rows("A", "PRAGMA journal_mode=wal");
    let open = std::fs::Permissions::from_mode(0o664);
    std::fs::set_permissions(lab.db("A"), open).unwrap();
    let beside = lab.connect("A");
    beside.execute_batch("INSERT INTO note VALUES('before')").unwrap();
    let add = |name: &str, more: &[&str]| {
        let url = format!("https://hub.example.org/{name}");
        let args = ["remote", "add", &lab.db("A"), name, &url];
        lab.json_and_stderr(&[&args, more].concat()).1
    };
    let key = lab.path("key").display().to_string();
    lab.json(&["key", "new", &key]);
    assert_eq!((add("free", &[]), add("sealed", &["--key-file", &key])), Default::default());
    let url = "https://hub.example.org/again";
    lab.refused(&["remote", "add", &lab.db("A"), "free", url, "--token", TOKEN]);
    assert_eq!(rights(&lab, "A"), [0o664; 3]);
    let told = add("hub", &["--token", TOKEN]);
    assert!(told.contains("note: ") && told.contains("SYNQLITE_TOKEN"), "{told}");
    assert_eq!(rights(&lab, "A"), [0o600; 3]);
    assert_eq!(add("another", &["--token", TOKEN]), "");
    drop(beside);
    lab.sql("A", "INSERT INTO note VALUES('after')");
    let _beside = lab.connect("A");
    _beside.execute_batch("INSERT INTO note VALUES('anew')").unwrap();
    assert_eq!(rights(&lab, "A"), [0o600; 3]);
    lab.json(&["clone", &lab.db("A"), &lab.db("C"), "--token", TOKEN]);
    assert_eq!(rights(&lab, "C"), [0o600]);
    let kept = lab.json(&["remote", "list", &lab.db("C")]);
    assert_eq!(kept["remotes"][0]["token"], "kept");
}

#[test]
fn what_earlier_releases_kept_of_remotes_is_read_and_removed() {
    let lab = Lab::with_a_and_b();
    let a = lab.db("A");
    lab.json(&["remote", "add", &a, "hub", "https://hub.example.org/x"]);
    lab.sql(
        "A",
        &format!(
            "ALTER TABLE synqlite_remote DROP COLUMN secret;
             ALTER TABLE synqlite_remote ADD COLUMN token TEXT;
             ALTER TABLE synqlite_remote ADD COLUMN key TEXT;
             UPDATE synqlite_remote SET token = '{TOKEN}', key = '/a/key'"
        ),
    );
    let list = || lab.json(&["remote", "list", &a])["remotes"].clone();
    let former = list();
    assert_eq!((&former[0]["token"], &former[0]["key_file"]), (&"kept".into(), &"/a/key".into()));
    assert_eq!(lab.json(&["verify", &a])["ok"], true);
    lab.json(&["remote", "add", &a, "new", "https://hub.example.org/y", "--token", "another"]);
    assert_eq!(list()[0], former[0]);
    assert_eq!(list()[1]["token"], "kept");
    let columns = "SELECT token, key, secret IS NULL FROM synqlite_remote WHERE name = 'new'";
    assert_eq!(lab.rows("A", columns), ["NULL|NULL|0"]);
    lab.json(&["remote", "remove", &a, "hub"]);
    assert_eq!(holding(&lab, "A"), [""; 0]);
    assert_eq!(list().as_array().map(Vec::len), Some(1));
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
    let mut every = ours(&Lab::with_a(), "table");
    // These are made anew.
    let anew = ["synqlite_open_conflicts", "synqlite_rowid"];
    every.retain(|table| !anew.contains(&table.as_str()));
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
