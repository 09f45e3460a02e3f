//! Bad input gets a clear error, and nothing changes.

use crate::support::{Lab, TODO, files, stderr, stdout, synqlite};
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every file of the lab with its content: of a database the schema and the rows of all tables,
/// ours included, of any other file the bytes.
fn contents(lab: &Lab) -> BTreeMap<PathBuf, Vec<u8>> {
    let content =
        |file: &PathBuf| dump(file).unwrap_or_else(|_| std::fs::read(file).unwrap_or_default());
    files(lab.dir.path()).into_iter().map(|file| (file.clone(), content(&file))).collect()
}

fn dump(file: &Path) -> rusqlite::Result<Vec<u8>> {
    let conn = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut out = Vec::new();
    let mut print = |sql: &str| -> rusqlite::Result<()> {
        let mut statement = conn.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                out.extend(format!("{:?}|", row.get_ref(column)?).into_bytes());
            }
        }
        Ok(())
    };
    print("SELECT * FROM sqlite_master")?;
    let mut tables = conn.prepare("SELECT name FROM sqlite_master WHERE type = 'table'")?;
    for table in tables.query_map([], |row| row.get::<_, String>(0))? {
        print(&format!("SELECT * FROM \"{}\"", table?))?;
    }
    Ok(out)
}

/// The command is refused, says each of `words`, and leaves every file as it was.
fn refused(lab: &Lab, args: &[&str], words: &[&str]) {
    let before = contents(lab);
    let told = lab.refused(args);
    for word in words {
        assert!(told.contains(word), "{args:?}: `{word}` is not in: {told}");
    }
    assert!(contents(lab) == before, "{args:?} changed a file");
}

/// Every command that takes a database, with arguments that make sense otherwise.
const COMMANDS: [&str; 15] = [
    "deinit",
    "push",
    "pull",
    "sync",
    "status",
    "fold",
    "log",
    "conflicts",
    "review",
    "policy",
    "digest",
    "verify",
    "triggers",
    "undo",
    "watch",
];

#[test]
fn a_database_that_is_not_there() {
    let lab = Lab::new();
    for command in COMMANDS.iter().chain(&["init"]) {
        refused(&lab, &[command, &lab.db("none")], &["there is no database at", "none.db"]);
    }
    refused(&lab, &["clone", &lab.db("none"), &lab.db("B")], &["there is no database at"]);
    refused(&lab, &["remote", "list", &lab.db("none")], &["there is no database at"]);
}

#[test]
fn a_file_that_is_no_database() {
    let lab = Lab::new();
    // As an encrypted database looks.
    let noise: Vec<u8> =
        (0..8192u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(lab.db("noise"), noise).unwrap();
    for command in COMMANDS.iter().chain(&["init"]) {
        refused(&lab, &[command, &lab.db("noise")], &["noise.db is not a SQLite database"]);
    }
    refused(&lab, &["clone", &lab.db("noise"), &lab.db("B")], &["not a SQLite database"]);
}

#[test]
fn a_database_that_is_no_replica() {
    let lab = Lab::new();
    lab.sql("A", TODO);
    for command in COMMANDS {
        refused(&lab, &[command, &lab.db("A")], &["is not a replica", "synqlite init"]);
    }
    refused(&lab, &["clone", &lab.db("A"), &lab.db("B")], &["is not a replica", "synqlite init"]);
}

#[test]
fn a_replica_of_a_newer_format() {
    let lab = Lab::with_a_and_b();
    lab.sql("B", "UPDATE synqlite_meta SET value = 99 WHERE key = 'format'");
    for command in COMMANDS.iter().chain(&["init"]) {
        refused(&lab, &[command, &lab.db("B")], &["replica format 99", "Update synqlite"]);
    }
    refused(&lab, &["pull", &lab.db("A"), &lab.db("B")], &["replica format 99"]);
    refused(&lab, &["clone", &lab.db("B"), &lab.db("C")], &["replica format 99"]);
}

#[test]
fn a_clone_target_that_exists() {
    let lab = Lab::with_a_and_b();
    lab.sql("A", "INSERT INTO note VALUES('more')");
    lab.json(&["fold", &lab.db("A")]);
    refused(&lab, &["clone", &lab.db("A"), &lab.db("B")], &["B.db exists already"]);
    std::fs::write(lab.path("empty.db"), "").unwrap();
    refused(&lab, &["clone", &lab.db("A"), &lab.db("empty")], &["empty.db exists already"]);
    // SQLite would roll this back into the new file.
    std::fs::write(lab.path("C.db-journal"), "stale").unwrap();
    refused(&lab, &["clone", &lab.db("A"), &lab.db("C")], &["C.db-journal exists already"]);
}

#[test]
fn two_databases_that_are_not_clones() {
    let lab = Lab::with_a();
    lab.sql("other", TODO);
    lab.json(&["init", &lab.db("other")]);
    for command in ["pull", "push", "sync"] {
        let words = ["not clones of one another", "synqlite clone"];
        refused(&lab, &[command, &lab.db("A"), &lab.db("other")], &words);
    }
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    for command in ["pull", "push"] {
        let words = ["holds no data of database"];
        refused(&lab, &[command, &lab.db("other"), &lab.folder()], &words);
    }
}

#[test]
fn a_remote_that_makes_no_sense() {
    let lab = Lab::with_a();
    let db = lab.db("A");
    refused(&lab, &["pull", &db], &["no remote called origin", "synqlite remote add"]);
    let empty = ["URL of the remote is empty", "file:///path/to/folder/"];
    for nowhere in ["", " "] {
        refused(&lab, &["remote", "add", &db, "e", nowhere], &empty);
        refused(&lab, &["sync", &db, nowhere], &empty);
        refused(&lab, &["clone", nowhere, &lab.db("new")], &empty);
    }
    assert_eq!(lab.json(&["remote", "list", &db])["remotes"], serde_json::json!([]));
    refused(&lab, &["pull", &db, "elsewhere"], &["no database or remote elsewhere"]);
    refused(&lab, &["pull", &db, "ftp://host/x"], &["`ftp` are not supported"]);
    refused(&lab, &["pull", &db, "file://host/x"], &["not the URL of a folder"]);
    let folder = lab.dir.path().display().to_string();
    refused(&lab, &["pull", &db, &folder], &["is a folder", "file:///"]);
    refused(&lab, &["pull", &db, &db], &["cannot synchronize with itself"]);
    refused(&lab, &["clone", &lab.folder(), &lab.db("B")], &["holds no database"]);
    refused(&lab, &["pull", &db, &lab.folder()], &["holds no database"]);
    let unmounted = lab.folder().replace("/folder/", "/not/mounted/");
    refused(&lab, &["push", &db, &unmounted], &["not/mounted"]);
}

#[cfg(unix)]
#[test]
fn a_read_only_file() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let lab = Lab::with_a();
    lab.sql("plain", TODO);
    lab.sql("A", "INSERT INTO note VALUES('to be folded')");
    let mode = |path: PathBuf, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let binary = lab.path("synqlite");
    std::fs::copy(env!("CARGO_BIN_EXE_synqlite"), &binary).unwrap();
    mode(lab.path("A.db"), 0o444);
    mode(lab.path("plain.db"), 0o444);
    mode(lab.dir.path().to_owned(), 0o555);
    // Permissions do not bind root, so root becomes somebody else.
    let root = std::fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    for (command, site) in [("init", "plain"), ("fold", "A"), ("deinit", "A")] {
        let mut run = Command::new(&binary);
        run.args([command, &lab.db(site)]);
        if root {
            std::os::unix::process::CommandExt::uid(&mut run, 65_534);
        }
        let output = run.output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{command}: {told}{}", stdout(&output));
        assert!(told.contains("cannot be written") && told.contains("read-only"), "{told}");
    }
    mode(lab.dir.path().to_owned(), 0o755);
}

#[test]
fn a_database_that_another_program_keeps_locked() {
    let lab = Lab::with_a();
    let app = lab.connect("A");
    app.execute_batch("BEGIN IMMEDIATE; INSERT INTO note VALUES('long')").unwrap();
    let output = synqlite(&["fold", &lab.db("A")]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("A.db is locked by another program"), "{}", stderr(&output));
    app.execute_batch("COMMIT").unwrap();
    assert_eq!(lab.json(&["fold", &lab.db("A")])["rows"], 1);
}

/// A clone says what it lacks.
#[test]
fn a_clone_of_a_folder_with_stamps_from_the_future() {
    let lab = Lab::with_a();
    let folder = lab.dir.path().join("folder");
    let url = format!("file://{}/", folder.display());
    lab.json(&["push", &lab.db("A"), &url]);
    lab.sql("A", "INSERT INTO note VALUES('from 2100')");
    lab.sql("A", "UPDATE synqlite_journal SET at = julianday('2100-01-01')");
    lab.json(&["push", &lab.db("A"), &url]);
    let output = synqlite(&["--json", "clone", &url, &lab.db("B")]);
    let told = stderr(&output);
    assert!(told.contains("set aside") && told.contains("--force"), "{told}");
    let said: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(said["set_aside"][0]["why"].as_str().unwrap().contains("ahead of this"), "{said}");
}

#[test]
fn stamps_from_the_future() {
    let lab = Lab::with_a_and_b();
    lab.sql("A", "INSERT INTO note VALUES('from 2100')");
    // What a machine whose clock is years ahead would have noted.
    lab.sql("A", "UPDATE synqlite_journal SET at = julianday('2100-01-01')");
    lab.json(&["fold", &lab.db("A")]);
    let skewed = ["ahead of this machine's clock", "--force"];
    refused(&lab, &["pull", &lab.db("B"), &lab.db("A")], &skewed);
    refused(&lab, &["push", &lab.db("A"), &lab.db("B")], &skewed);
    assert_eq!(lab.json(&["pull", &lab.db("B"), "--force"])["merged"]["inserted"], 1);
    lab.assert_equal(&["A", "B"]);
}

/// SQLite would take it for something else than that file, or not open it.
#[test]
fn a_clone_goes_where_programs_find_it() {
    let lab = Lab::with_a();
    let a = lab.db("A");
    let output = synqlite(&["clone", &a, ":memory:"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is no path of a file"), "{}", stderr(&output));
    assert!(!Path::new(":memory:").exists());
    let far = lab.path(&["a-folder-far-down"; 40].join("/")).display().to_string();
    if cfg!(unix) {
        refused(&lab, &["clone", &a, &far], &["longer than SQLite takes", "nearer to the root"]);
    }
}
