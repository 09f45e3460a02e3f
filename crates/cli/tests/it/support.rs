//! A folder of databases, the application that writes to them, and the command.

use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use serde_json::Value;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// The schema of most tests.
pub const TODO: &str = "\
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE todo(id INTEGER PRIMARY KEY, what TEXT, done INTEGER DEFAULT 0,
  person INTEGER REFERENCES person(id));
CREATE TABLE note(text);
INSERT INTO person VALUES(1, 'Ada'), (2, 'Bo');
INSERT INTO todo(what, person) VALUES('wash', 1), ('cook', 2), ('sing', NULL);
INSERT INTO note VALUES('first');";

pub struct Lab {
    pub dir: TempDir,
}

/// Runs the command with these arguments.
pub fn synqlite<S: AsRef<OsStr>>(args: &[S]) -> Output {
    started(|| Command::new(env!("CARGO_BIN_EXE_synqlite")).args(args).output())
}

/// What this starts. Wine at times loses a process before it runs anything, under load most of all, and
/// calls that an internal error: such a one is started once more.
pub fn started<T>(mut start: impl FnMut() -> io::Result<T>) -> T {
    const INTERNAL_ERROR: i32 = 1359;
    for _ in 0..5 {
        match start() {
            Err(e) if cfg!(windows) && e.raw_os_error() == Some(INTERNAL_ERROR) => {
                std::thread::sleep(Duration::from_millis(200));
            }
            started => return started.expect("the binary runs"),
        }
    }
    start().expect("the binary runs")
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("standard output is UTF-8")
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("standard error is UTF-8")
}

impl Lab {
    pub fn new() -> Lab {
        Lab { dir: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A lab with the replica A of [`TODO`].
    pub fn with_a() -> Lab {
        let lab = Lab::new();
        lab.sql("A", TODO);
        lab.json(&["init", &lab.db("A")]);
        lab
    }

    /// A lab with the replica A of [`TODO`] and its clone B.
    pub fn with_a_and_b() -> Lab {
        let lab = Lab::with_a();
        lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
        lab
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Path of the database of a site.
    pub fn db(&self, site: &str) -> String {
        self.path(&format!("{site}.db")).display().to_string()
    }

    /// URL of the folder of exchange.
    pub fn folder(&self) -> String {
        let path = self.path("folder").display().to_string().replace('\\', "/");
        // Where paths begin with a drive, a third slash goes before it.
        format!("file:///{}/", path.trim_start_matches('/'))
    }

    pub fn connect(&self, site: &str) -> Connection {
        let conn = Connection::open(self.db(site)).expect("the application opens it");
        conn.busy_timeout(Duration::from_secs(20)).expect("a timeout");
        conn.execute_batch("PRAGMA foreign_keys=ON").expect("a pragma");
        conn
    }

    /// The application runs statements. Later calls have a later millisecond.
    pub fn sql(&self, site: &str, script: &str) {
        std::thread::sleep(Duration::from_millis(3));
        self.connect(site).execute_batch(script).unwrap_or_else(|e| panic!("{script}: {e}"));
    }

    /// Rows of a query, columns joined by `|`.
    pub fn rows(&self, site: &str, query: &str) -> Vec<String> {
        let conn = self.connect(site);
        let mut statement = conn.prepare(query).expect("a query");
        let columns = statement.column_count();
        let text = |value| match value {
            Sql::Null => "NULL".to_owned(),
            Sql::Integer(i) => i.to_string(),
            Sql::Real(r) => r.to_string(),
            Sql::Text(t) => t,
            Sql::Blob(b) => format!("{} bytes", b.len()),
        };
        let rows = statement.query_map([], |row| {
            let values: Result<Vec<String>, _> =
                (0..columns).map(|c| row.get(c).map(text)).collect();
            Ok(values?.join("|"))
        });
        rows.expect("rows").map(|row| row.expect("a row")).collect()
    }

    /// Runs the command with `--json`; it must succeed and print one document.
    pub fn json(&self, args: &[&str]) -> Value {
        self.json_and_stderr(args).0
    }

    pub fn json_and_stderr(&self, args: &[&str]) -> (Value, String) {
        let output = synqlite(&[args, &["--json"]].concat());
        let told = stderr(&output);
        assert!(output.status.success(), "{args:?}: {told}");
        let out = stdout(&output);
        assert_eq!(out.lines().count(), 1, "{args:?}: {out}");
        (serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}")), told)
    }

    /// Runs a check that must find problems, in both forms, and returns its document. The status
    /// says so too, and standard error.
    pub fn faulty(&self, args: &[&str]) -> Value {
        let plain = synqlite(args);
        let output = synqlite(&[args, &["--json"]].concat());
        for output in [&plain, &output] {
            assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stdout(output));
            let told = stderr(output);
            assert!(told.starts_with("error: ") && told.contains(" problem"), "{args:?}: {told}");
        }
        let found: Value = serde_json::from_str(&stdout(&output)).expect("one document");
        assert_eq!(found["ok"], false);
        for problem in found["problems"].as_array().expect("problems") {
            let problem = problem.as_str().expect("a sentence");
            assert!(stdout(&plain).contains(problem), "{problem} is not in: {}", stdout(&plain));
        }
        found
    }

    /// Runs the command without `--json`; it must succeed.
    pub fn text(&self, args: &[&str]) -> String {
        let output = synqlite(args);
        assert!(output.status.success(), "{args:?}: {}", stderr(&output));
        stdout(&output)
    }

    /// Runs a command that must be refused, in both forms, and returns what it says.
    pub fn refused(&self, args: &[&str]) -> String {
        let output = synqlite(&[args, &["--json"]].concat());
        let told = stderr(&output);
        let status = output.status.code().expect("a status");
        assert!(status == 1 || (3..8).contains(&status), "{args:?}: {told}{}", stdout(&output));
        let document: Value = serde_json::from_str(&stdout(&output)).expect("one document");
        let error = &document["error"];
        let text = |key: &str| error[key].as_str().unwrap_or_default();
        assert_eq!(error["status"], status, "{args:?}: {error}");
        assert!(told.starts_with(&format!("error: {}", text("message"))), "{told}{error}");
        assert!(told.trim_end().ends_with(text("hint")), "{told}{error}");
        assert!(told.starts_with("error: ") && told.lines().count() == 1, "{args:?}: {told}");
        let words = |told: &str| told.replace(|c: char| c.is_ascii_digit(), "");
        let plain = words(&stderr(&synqlite(args)));
        assert_eq!(plain, words(&told), "{args:?}: the same with and without --json");
        told.trim_end().to_owned()
    }

    pub fn digest(&self, site: &str) -> String {
        let found = self.json(&["digest", &self.db(site)]);
        found["digest"].as_str().expect("a digest").to_owned()
    }

    /// All sites show the same, and their metadata fit.
    pub fn assert_equal(&self, sites: &[&str]) {
        for site in sites {
            assert_eq!(self.digest(site), self.digest(sites[0]), "{site} and {}", sites[0]);
            let found = self.json(&["verify", &self.db(site)]);
            assert_eq!(found["ok"], true, "{site}: {}", found["problems"]);
            assert_eq!(self.rows(site, "PRAGMA integrity_check"), ["ok"]);
        }
    }
}

/// Every file below `dir` in order, temporary ones included, the paths relative to it.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Files of the folder of exchange whose names end so.
pub fn objects(lab: &Lab, ending: &str) -> Vec<PathBuf> {
    let mut found = files(&lab.path("folder"));
    found.retain(|path| path.display().to_string().ends_with(ending));
    found
}
