//! Everything that people are told of decisions, conflicts and errors, as they read it. The texts are in
//! `crates/cli/tests/messages.txt`; who changes one reads it there. `UPDATE=1` writes them anew.

use crate::guides::masked;
use crate::support::{Lab, stdout};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use synqlite_core::{Error, SiteId};
use synqlite_wire::{Id, InvalidDelta};

const SCHEMA: &str = "
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE);
CREATE TABLE project(id INTEGER PRIMARY KEY, title TEXT, owner INTEGER REFERENCES person ON DELETE SET NULL);
CREATE TABLE task(id INTEGER PRIMARY KEY, project INTEGER REFERENCES project ON DELETE CASCADE, title TEXT);
CREATE TABLE step(id INTEGER PRIMARY KEY, task INTEGER REFERENCES task ON DELETE CASCADE, what TEXT);
CREATE TABLE invoice(number TEXT PRIMARY KEY, person INTEGER REFERENCES person ON DELETE RESTRICT);
CREATE TABLE floor(id INTEGER PRIMARY KEY);
CREATE TABLE room(name TEXT PRIMARY KEY, floor INTEGER DEFAULT 99 REFERENCES floor ON DELETE SET DEFAULT);
CREATE TABLE product(code TEXT PRIMARY KEY, title TEXT, price REAL);
CREATE TABLE parcel(code TEXT PRIMARY KEY, label TEXT);
CREATE TRIGGER sealed BEFORE INSERT ON parcel WHEN NEW.label = 'open' BEGIN SELECT RAISE(ABORT, 'is open'); END;
INSERT INTO person VALUES(1, 'Ann', 'ann@x'), (2, 'Bob', 'bob@x'), (3, 'Cleo', 'cleo@x'), (4, 'Dan', 'dan@x');
INSERT INTO project VALUES(1, 'House', 1), (2, 'Garden', 1);
INSERT INTO task VALUES(1, 1, 'Roof'), (2, 2, 'Dig'), (3, 2, 'Sow'), (4, 2, 'Water');
INSERT INTO floor VALUES(1);
INSERT INTO product VALUES('S-1', 'Spade', 20);";

const OFFICE: &str = "
UPDATE person SET email = 'info@x' WHERE id = 1;
INSERT INTO person VALUES(5, 'Eve', 'team@x');
DELETE FROM person WHERE id IN (3, 4);
DELETE FROM project WHERE id = 1;
UPDATE task SET title = 'Dig deep' WHERE id = 2;
DELETE FROM task WHERE id = 3;
INSERT INTO task VALUES(5, 2, 'Prune');
DELETE FROM floor;
INSERT INTO product VALUES('T-1', 'Tea', 4), ('G-1', 'Gold', 500);
INSERT INTO parcel VALUES('p', 'shut');";

/// Later, as its time is told.
const OPENED: &str = "UPDATE parcel SET label = 'open'";

const VAN: &str = "
ALTER TABLE product ADD COLUMN seen CHECK(price < 100);
UPDATE person SET email = 'info@x' WHERE id = 2;
INSERT INTO person VALUES(8, 'Fay ' || char(27) || '[31m, who has a name that goes on and on and on', 'team@x');
UPDATE project SET owner = 3 WHERE id = 2;
INSERT INTO invoice VALUES('2026-1', 4), ('2026-2', 8);
INSERT INTO task VALUES(20, 1, 'Paint');
INSERT INTO step VALUES(1, 20, 'Buy a brush'), (2, 1, 'Climb');
UPDATE task SET title = 'Dig in' WHERE id = 2;
UPDATE task SET title = 'Sow beans' WHERE id = 3;
INSERT INTO task VALUES(5, 2, 'Mow');
INSERT INTO room VALUES('Attic', 1);
INSERT INTO product(code, title, price) VALUES('T-1', 'Green tea', 5);";

/// The lab of two sites that have disagreed about all of it, and what the second said when it synchronized.
fn disagreed() -> (Lab, String) {
    let lab = Lab::new();
    lab.sql("office", SCHEMA);
    let (office, van) = (lab.db("office"), lab.db("van"));
    lab.json(&[
        "init",
        &office,
        "--name",
        "the office",
        "--history",
        "--policy",
        "fire_on_merge=sealed",
    ]);
    lab.json(&["clone", &office, &van, "--name", "the van"]);
    let pause = || std::thread::sleep(std::time::Duration::from_millis(10));
    lab.sql("office", OFFICE);
    pause();
    lab.sql("office", OPENED);
    pause();
    lab.sql("van", VAN);
    let told = told(&lab, &["sync", &van], "");
    (lab, told)
}

/// What a command prints, without what differs in every run.
fn told(lab: &Lab, args: &[&str], input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
    command.args(args).env("COLUMNS", "100").stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    let text = stdout(&output) + &String::from_utf8_lossy(&output.stderr);
    let text = text.replace(&lab.path("").display().to_string(), "");
    let lines = text.lines().filter(|line| {
        !["sent ", "received ", "done in "].iter().any(|start| line.starts_with(start))
    });
    let plain = |word: &str| match word.trim_end_matches(',') {
        id if id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) => "ID".to_owned(),
        time if time.len() == 12 && time.as_bytes()[2] == b':' => word.replace(time, "TIME"),
        _ => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(plain).collect::<Vec<_>>().join(" ");
    let mut lines: Vec<String> = lines.map(line).collect();
    // Refusals stand in the order of ids, which are others in every run.
    let of = |line: &String| line.starts_with("  not ");
    let first = lines.iter().position(of).unwrap_or_default();
    let refused = lines[first..].iter().take_while(|line| of(line)).count();
    lines[first..first + refused]
        .sort_by_key(|line| line.split(' ').skip(4).map(String::from).collect::<Vec<_>>());
    masked(&lines.join("\n"))
}

/// Drops what is ours, as a tool does that drops what it does not know.
fn lose(lab: &Lab, site: &str) {
    for kind in ["trigger", "view", "table"] {
        let sql = format!(
            "SELECT name FROM sqlite_master WHERE name LIKE 'synqlite%' AND type = '{kind}'"
        );
        for name in lab.rows(site, &sql) {
            lab.sql(site, &format!("DROP {kind} {name}"));
        }
    }
}

/// One error of each kind that the engine knows.
fn errors() -> Vec<Error> {
    let (db, table) = (|| "notes.db".to_owned(), || "person".to_owned());
    let site: SiteId = Id([7; 16]);
    let refused = synqlite_core::rusqlite::Error::InvalidQuery;
    vec![
        Error::NoDatabase(db()),
        Error::NotADatabase(db()),
        Error::Malformed { path: db(), why: "database disk image is malformed".into() },
        Error::ReadOnly(db()),
        Error::Moved(db()),
        Error::Locked(db()),
        Error::OnDash(db()),
        Error::Alone(db()),
        Error::DiskFull(db()),
        Error::Io { path: db(), why: "disk I/O error (code 4874)".into() },
        Error::NotAReplica(db()),
        Error::Torn { path: db(), missing: vec!["synqlite_row".into()], tables: vec![] },
        Error::Torn {
            path: db(),
            missing: ["synqlite_journal", "synqlite_row"].map(String::from).into(),
            tables: vec![table()],
        },
        Error::NewerFormat { path: db(), found: 4, known: 3 },
        Error::NewerJournal { kind: 9 },
        Error::OlderFormat { path: db(), found: 1 },
        Error::OlderFormat { path: db(), found: 2 },
        Error::Copied { path: db(), site },
        Error::Unrelated { ours: Id([1; 16]), theirs: Id([2; 16]) },
        Error::SameSite(site),
        Error::Skewed { site, ahead_ms: 7_200_000 },
        Error::InvalidDelta(InvalidDelta::Sites),
        Error::MissingBase,
        Error::Constraint { table: table(), what: "UNIQUE constraint failed: person.email".into() },
        Error::LocalWins {
            table: table(), row: "2 (“Bob”)".into(), rival: "1 (“Ann”)".into()
        },
        Error::Dangling { table: table(), rows: 2 },
        Error::Doubles { table: table(), column: "code".into(), rows: 1 },
        Error::NotReplicated { name: "draft".into(), why: "not among the selected tables".into() },
        Error::NoTable { name: "persons".into(), near: vec![table()] },
        Error::Policy {
            key: "person.delete".into(),
            value: "first".into(),
            why: "say wins or last".into(),
        },
        Error::Refused("no open conflict has id 12ab".into()),
        Error::Unmerged,
        Error::Damaged("entry `clock` is missing".into()),
        Error::Sqlite(refused),
    ]
}

#[test]
fn every_message_reads_as_it_did() {
    let (lab, synced) = disagreed();
    let (office, van) = (lab.db("office"), lab.db("van"));
    let mut text = String::new();
    let mut add = |title: &str, said: String| {
        text += &format!("# {title}\n\n{}\n\n", said.trim_end());
    };
    add("sync", synced);
    add("conflicts", told(&lab, &["conflicts", &van], ""));
    add("conflicts show --all", told(&lab, &["conflicts", &van, "show", "--all"], ""));
    add("conflicts --groups", told(&lab, &["conflicts", &van, "--groups"], ""));
    add("conflicts --advice", told(&lab, &["conflicts", &van, "--advice"], ""));
    let skips = format!("?\n{}q\n", "s\n".repeat(11));
    add("review --terminal", told(&lab, &["review", "--terminal", &van], &skips));
    for verb in ["prefer", "discard", "restore", "accept"] {
        let args = ["conflicts", &van, verb, "--all", "--dry-run"];
        add(&format!("conflicts {verb} --all --dry-run"), told(&lab, &args, ""));
    }
    // Rows of a table stand in the order of their identities, which are others in every run.
    let undone = told(&lab, &["undo", &van, "--since", "1h", "--dry-run"], "");
    let mut lines: Vec<&str> = undone.lines().collect();
    lines.split_mut(|line| !line.starts_with("  ")).for_each(<[&str]>::sort_unstable);
    add("undo", lines.join("\n"));
    for verb in ["accept", "prefer", "restore", "discard"] {
        told(&lab, &["conflicts", &van, verb, "--all"], "");
    }
    add("conflicts --closed", told(&lab, &["conflicts", &van, "--closed"], ""));
    lab.sql("van", "UPDATE person SET name = 'Anna' WHERE id = 1; INSERT INTO floor VALUES(7)");
    lose(&lab, "van");
    add("init --repair", told(&lab, &["init", &van, "--repair", &office], ""));
    let errors = errors().into_iter().map(|e| match e.hint() {
        Some(hint) => format!("{e}. {hint}"),
        None => e.to_string(),
    });
    add("errors of the engine", errors.collect::<Vec<_>>().join("\n"));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("the texts");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let both = kept.lines().zip(text.lines()).enumerate();
    let differ = both.into_iter().find(|(_, (kept, now))| kept != now);
    if let Some((at, (kept, now))) = differ {
        panic!("line {} was\n  {kept}\nand is\n  {now}\nRead it; UPDATE=1 keeps it", at + 1);
    }
    assert_eq!(kept.len(), text.len(), "a message more or less: UPDATE=1 writes them anew");
    assert!(!text.contains("sqlite_autoindex") && !text.contains('\u{1b}'));
}
