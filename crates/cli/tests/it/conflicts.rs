//! Conflict records as text: both versions side by side, in the terminal's width; and what is told of
//! records that are closed.

use crate::support::{Lab, stdout};
use serde_json::Value;
use std::process::Command;

const SCHEMA: &str = "\
CREATE TABLE person(id TEXT PRIMARY KEY, name TEXT, email TEXT UNIQUE, about TEXT);
CREATE TABLE note(id INTEGER PRIMARY KEY, person TEXT REFERENCES person ON DELETE CASCADE, body BLOB);
INSERT INTO person VALUES('ann', 'Ann', 'ann@x', NULL), ('bob', 'Bob', 'bob@x', NULL),
  ('cy', 'Cy', 'cy@x', NULL);";

const ABOUT: &str =
    "a text that goes on and on, about nothing in particular, yet at length, till it ends";

/// A record each of kinds `unique`, `fallback` and `fk_cascade`.
pub fn lab() -> Lab {
    let lab = Lab::new();
    lab.sql("A", SCHEMA);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "UPDATE person SET email = 'info@x' WHERE id = 'ann'");
    lab.sql("A", "DELETE FROM person WHERE id = 'cy'");
    lab.sql("A", &format!("INSERT INTO person VALUES('dee', 'Dee', 'd@x', '{ABOUT} here')"));
    lab.sql("B", "UPDATE person SET email = 'info@x' WHERE id = 'bob'");
    let dan = format!("INSERT INTO person VALUES('dan', 'D\u{1b}[31man', 'd@x', '{ABOUT} there')");
    lab.sql("B", &dan);
    lab.sql("B", "INSERT INTO note VALUES(1, 'cy', x'00ff')");
    lab.json(&["sync", &lab.db("B")]);
    lab
}

fn told(lab: &Lab, args: &[&str], columns: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
    let command = command.arg("conflicts").arg(lab.db("B")).args(args).env("COLUMNS", columns);
    stdout(&command.output().expect("the binary runs"))
}

fn id(lab: &Lab, kind: &str) -> String {
    let list = lab.json(&["conflicts", &lab.db("B")]);
    let records = list["conflicts"].as_array().unwrap();
    let record = records.iter().find(|r| r["kind"] == kind);
    record.and_then(|r| r["id"].as_str()).unwrap()[..8].to_owned()
}

/// The lines of a text without spaces at either end, and without those that tell times.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.contains(" UTC ")).collect()
}

#[test]
fn versions_stand_side_by_side_and_differences_are_marked() {
    let lab = lab();
    let fallback = id(&lab, "fallback");
    let shown = told(&lab, &["show", &fallback], "100");
    let want = [
        &format!("{fallback} fallback in person, row 'bob' (“Bob”)"),
        "the row shows what it held before: decided in favour of row 'ann' (“Ann”), whose claim to UNIQUE",
        "(email) is earlier",
        "written   shown    row 'ann'",
        "id     \"bob\"     \"bob\"    \"ann\"",
        "name   \"Bob\"     \"Bob\"    \"Ann\"",
        "* email  \"info@x\"  \"bob@x\"  \"info@x\"",
        "about  NULL      NULL     NULL",
        &format!("synqlite conflicts {} prefer {fallback}", lab.db("B")),
        "gives the row what it asked for; the other steps aside",
        &format!("synqlite conflicts {} accept {fallback}", lab.db("B")),
        "takes what is shown for what was meant",
    ];
    assert_eq!(lines(&shown), want);
    let mine: Vec<&str> = shown.lines().filter(|l| l.contains("(this one)")).collect();
    assert_eq!(mine.len(), 1, "{shown}");
    assert!(mine[0].starts_with("  written 20") && mine[0].ends_with("(this one): email"));
    let theirs = |l: &str| l.starts_with("  row 'ann' 20") && l.ends_with(": email");
    assert!(shown.lines().any(theirs), "{shown}");

    // In the list only what differs is told, of all records.
    let list = told(&lab, &[], "100");
    assert!(!list.contains("\"Bob\"") && list.contains("* email"), "{list}");
    for kind in ["fallback", "unique", "fk_cascade"] {
        assert!(list.contains(&format!("{} {kind} in ", id(&lab, kind))), "{list}");
    }
    assert!(list.contains("body    x'00ff'"), "{list}");
    assert!(list.contains("the row that person refers to was deleted"), "{list}");
}

#[test]
fn long_values_are_cut_where_they_differ() {
    let lab = lab();
    let unique = id(&lab, "unique");
    for width in [30, 60, 80, 100, 300] {
        let text = told(&lab, &["show", &unique], &width.to_string());
        assert!(text.contains("here\"") && text.contains("there\""), "{width}: {text}");
        assert!(text.contains("= email") && text.contains("* about"), "{width}: {text}");
        let command = |line: &&str| !line.contains("synqlite conflicts");
        let widest = text.lines().filter(command).map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{width}: {text}");
        assert_eq!(text.contains("a text that goes on"), width == 300, "{width}: {text}");
    }
}

#[test]
fn what_is_no_terminal_gets_no_colour_and_values_move_no_cursor() {
    let lab = lab();
    let text = told(&lab, &["show", &id(&lab, "unique")], "100");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.contains("\"D\\u{1b}[31man\""), "{text}");
}

#[test]
fn closed_records_are_remembered() {
    let lab = lab();
    let closed = |site: &str| lab.json(&["conflicts", &lab.db(site), "--closed"])["closed"].clone();
    assert_eq!(closed("B"), Value::Array(vec![]));
    assert!(told(&lab, &["--closed"], "100").contains("no closed conflicts"));

    let (fallback, unique) = (id(&lab, "fallback"), id(&lab, "unique"));
    lab.json(&["conflicts", &lab.db("B"), "accept", &fallback]);
    // The obstacle goes: the row that had the address is not even this site's.
    lab.sql("B", "UPDATE person SET email = 'dee@x' WHERE id = 'dee'");
    lab.json(&["sync", &lab.db("B")]);
    let text = told(&lab, &["--closed"], "100");
    assert!(text.contains("asked for email 'd@x'"), "{text}");
    assert!(text.contains("UTC by a write here") && text.contains("UTC by accept"), "{text}");
    let of = |site: &str, id: &str| {
        let all = closed(site);
        let is = |r: &&Value| r["id"].as_str().is_some_and(|other| other.starts_with(id));
        let found = all.as_array().unwrap().iter().find(is).cloned();
        found.unwrap_or_else(|| panic!("{id}: {all}"))
    };
    assert_eq!(of("B", &fallback)["how"], "accept");
    assert_eq!(of("A", &fallback)["how"], "merge");
    assert_eq!(of("B", &unique)["how"], "write");
    assert_eq!(of("A", &unique)["how"], "merge");
    assert_eq!(of("A", &unique)["what"], "email 'd@x'");
    let became = of("A", &unique)["became"].clone();
    assert!(became.as_str().unwrap().starts_with("row 'dee' ("), "{became}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" by a write here: row 'dee' ("), "{words}");
    assert_eq!(of("B", &fallback)["became"], Value::Null, "who settled it knows what he did");
    let record = of("A", &unique);
    assert!(record["opened_ms"].as_i64() <= record["closed_ms"].as_i64());
    assert_eq!(closed("B").as_array().unwrap().len(), 2);
    // A clone begins its own.
    lab.json(&["clone", &lab.db("B"), &lab.db("C")]);
    assert_eq!(closed("C"), Value::Array(vec![]));
    assert_eq!(lab.json(&["status", &lab.db("C")])["conflicts"], 1);
}

#[test]
fn lost_updates_and_merged_keys_are_remembered() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES('x', 1)");
    lab.json(&["init", &lab.db("A"), "--name", "home"]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B"), "--name", "phone"]);
    lab.sql("A", "DELETE FROM t; INSERT INTO t VALUES('y', 'of A')");
    lab.sql("B", "UPDATE t SET v = 2; INSERT INTO t VALUES('y', 'of B')");
    lab.json(&["sync", &lab.db("B")]);
    let closed = lab.json(&["conflicts", &lab.db("B"), "--closed"])["closed"].clone();
    let mut kinds: Vec<&str> =
        closed.as_array().unwrap().iter().filter_map(|r| r["kind"].as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["key_merge", "update_lost"], "{closed}");
    let at = |part: &str| closed.to_string().find(part).unwrap_or_else(|| panic!("{closed}"));
    assert!(at("v: 'of A' of home") < at("gives way to 'of B' of phone"), "{closed}");
    // The other site is told the same, under the same ids.
    let there = lab.json(&["conflicts", &lab.db("A"), "--closed"])["closed"].clone();
    let ids = |closed: &Value| {
        let ids = closed.as_array().unwrap().iter().map(|r| r["id"].to_string());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(ids(&there), ids(&closed), "{there}");
    let text = lab.text(&["conflicts", &lab.db("B"), "--closed"]);
    assert!(text.contains("update_lost in t, row 'x'") && text.contains("decided 20"), "{text}");
}

/// Two sites that both gave six addresses away; the rows of B lose.
fn many() -> Lab {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE person(id TEXT PRIMARY KEY, email TEXT UNIQUE, city TEXT)");
    lab.json(&["init", &lab.db("A"), "--name", "Ann's laptop"]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B"), "--name", "phone"]);
    for site in ["A", "B"] {
        let rows =
            (1..=6).map(|i| format!("('{site}{i}', '{i}@x', '{}')", ["Oslo", "Rome"][i % 2]));
        let rows: Vec<String> = rows.collect();
        lab.sql(site, &format!("INSERT INTO person VALUES {}", rows.join(", ")));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    lab.json(&["sync", &lab.db("B")]);
    lab
}

#[test]
fn many_are_picked_and_settled_at_once() {
    let lab = many();
    let b = lab.db("B");
    let of = |more: &[&str]| lab.json(&[&["conflicts", b.as_str()], more].concat());
    let count = |more: &[&str]| of(more)["conflicts"].as_array().map_or(0, Vec::len);
    let ask = ["--table", "person", "--where", "city = 'Rome' AND id < 'B4'"];
    assert_eq!((count(&[]), count(&ask), count(&["--limit", "4"])), (6, 2, 4));
    assert_eq!((count(&["--mine"]), count(&["--site", "phone"])), (6, 6));
    assert_eq!((count(&["--site", "Ann's laptop"]), count(&["--kind", "fallback"])), (0, 0));
    assert_eq!((count(&["--since", "1h"]), count(&["--since", "2999-01-01"])), (6, 0));
    let groups = &of(&["--groups"])["groups"];
    assert_eq!(
        (&groups[0]["count"], &groups[0]["declared"]),
        (&6.into(), &"UNIQUE (email)".into())
    );
    assert_eq!(of(&[])["conflicts"][0]["sites"][0]["site_name"], "phone");

    let prefer = [&["prefer", "--all"], &ask[..]].concat();
    let tried = of(&[&prefer[..], &["--dry-run"]].concat());
    let aside: Vec<&str> =
        tried["opened"].as_array().unwrap().iter().filter_map(|c| c["row"].as_str()).collect();
    assert_eq!((aside, count(&[])), (vec!["'A1'", "'A3'"], 6), "nothing is changed by trying");
    let done = of(&prefer);
    assert_eq!((&done["settled"], &done["open"]), (&tried["settled"], &6.into()));
    assert_eq!(of(&["discard", "--all"])["open"], 0);
    lab.json(&["sync", &b]);
    for site in ["A", "B"] {
        let rows = lab.rows(site, "SELECT id FROM person ORDER BY id");
        assert_eq!(rows, ["A2", "A4", "A5", "A6", "B1", "B3"]);
    }
}

/// Rows that wait for one answer are settled one by one where a condition says which.
#[test]
fn a_condition_means_the_rows_that_fulfil_it() {
    let lab = Lab::new();
    lab.sql(
        "A",
        "CREATE TABLE p(id TEXT PRIMARY KEY);
         CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id) ON DELETE CASCADE, v);
         INSERT INTO p VALUES('x')",
    );
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "DELETE FROM p");
    lab.sql("B", "INSERT INTO c VALUES('1', 'x', 'one'), ('2', 'x', 'two'), ('3', 'x', 'three')");
    lab.json(&["sync", &lab.db("B")]);
    let b = lab.db("B");
    let all = |verb: &'static str, condition: &'static str| {
        vec!["conflicts", b.as_str(), verb, "--all", "--table", "c", "--where", condition]
    };
    let settled = |args: &[&str]| lab.json(args)["settled"].as_array().map_or(0, Vec::len);
    // The one that asks is for all of them.
    let every = &lab.json(&["conflicts", &b])["conflicts"];
    let asks = every.as_array().and_then(|all| all.iter().find(|c| c["follows"].is_null()));
    let id = asks.and_then(|c| c["id"].as_str()).expect("one that asks").to_owned();
    for verb in ["discard", "accept", "restore"] {
        assert_eq!(settled(&["conflicts", &b, verb, &id, "--dry-run"]), 3, "{verb}");
    }
    assert_eq!(settled(&all("discard", "v = 'two'")), 1);
    assert_eq!(settled(&all("discard", "v = 'one'")), 1);
    let left = &lab.json(&["conflicts", &b])["conflicts"];
    assert_eq!((left.as_array().map_or(0, Vec::len), &left[0]["row"]), (1, &"'3'".into()));
    assert_eq!(settled(&all("restore", "v = 'three'")), 1);
    assert_eq!(lab.rows("B", "SELECT v FROM c"), ["three"]);
}

/// What another row stands for may have been written all the same: it is said where to see it.
#[test]
fn what_another_row_stands_for_can_be_found() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE tag(id INTEGER PRIMARY KEY, label TEXT UNIQUE, note TEXT)");
    lab.json(&["init", &lab.db("A"), "--policy", "tag.on_unique=unify"]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    lab.sql("A", "INSERT INTO tag VALUES(1, 'red', 'of A')");
    std::thread::sleep(std::time::Duration::from_millis(5));
    lab.sql("B", "INSERT INTO tag VALUES(1, 'red', 'of B')");
    lab.json(&["sync", &lab.db("B")]);
    let said = told(&lab, &[], "200");
    assert!(said.contains("no open conflicts"), "{said}");
    let want = "not asked about: 1 hidden row, for each of which another of its key stands";
    assert!(said.contains(want), "{said}");
    let every = told(&lab, &["--every"], "200");
    assert!(every.contains("of B") && !every.contains("not asked about"), "{every}");
}

#[test]
fn what_cannot_be_settled_so_is_named() {
    let lab = many();
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
        let done = command.arg("conflicts").arg(lab.db("B")).args(args).output().unwrap();
        let said = [&done.stdout[..], &done.stderr].concat();
        (done.status.code(), String::from_utf8(said).unwrap())
    };
    let first = id(&lab, "unique");
    let (code, said) = run(&["discard", &first, "zz"]);
    assert_eq!(code, Some(1), "{said}");
    for want in ["1 conflict settled", "not zz: no open conflict has id zz", "open conflicts: 5"] {
        assert!(said.contains(want), "{said}");
    }
    for (wrong, want) in [
        (&["prefer"][..], "say which"),
        (&["--where", "1"], "--table"),
        (&["--table", "person", "--where", "1)"], "--where: near"),
        (&["--table", "person", "--where", "0) OR (1"], "--where: near"),
        (&["--table", "person", "--where", "town = 1"], "no such column: town"),
        (&["--table", "persons"], "no table persons; did you mean person?"),
        (&["discard", "--all", "--table", "persons"], "no table persons; did you mean person?"),
        (&["--kind", "uniqe"], "Open ones are of these kinds: "),
        (&["--site", "nobody"], "no site is called `nobody`"),
        (&["--since", "yesterday"], "no point of time"),
        (&["discard", "--all", "zz"], "cannot be used"),
        (&["show", "zz", "--mine"], "--all"),
    ] {
        let (code, said) = run(wrong);
        assert!(code == Some(2) && said.contains(want), "{wrong:?}: {code:?} {said}");
    }
}

/// Names and values that another site wrote stand on the line that tells of them, and nothing in them moves the
/// cursor: in every command that tells any.
#[test]
fn what_others_wrote_begins_no_line_and_moves_no_cursor() {
    const FORGED: &str = "' || char(27) || '[31m' || char(10) || 'forged line";
    let lab = Lab::new();
    let table = "\"t\u{1b}[31m\nforged line\"";
    lab.sql("A", &format!("CREATE TABLE {table}(k TEXT PRIMARY KEY, title TEXT, w UNIQUE)"));
    let (a, b, folder) = (lab.db("A"), lab.db("B"), lab.folder());
    let clean = |args: &[&str]| {
        let output = crate::support::synqlite(args);
        let said = stdout(&output) + &crate::support::stderr(&output);
        let forged = |line: &str| line.contains('\u{1b}') || line.starts_with("forged");
        assert!(!said.lines().any(forged), "{args:?}: {said:?}");
        said
    };
    let says = |args: &[&str], what: &str| {
        let said = clean(args);
        assert!(said.contains(what), "{args:?}: {what} is not in {said}");
    };
    let seen = "t\\u{1b}[31m\\nforged line";
    says(&["init", &a, "--history"], seen);
    lab.json(&["clone", &a, &b]);
    lab.sql("A", &format!("INSERT INTO {table} VALUES('k{FORGED}', 'q{FORGED}', 5)"));
    lab.sql("B", &format!("INSERT INTO {table} VALUES('of b', 'x', 5)"));
    says(&["status", &a], seen);
    says(&["sync", &b, &a], "CAST(x'6b1b5b33316d0a666f72676564206c696e65' AS TEXT)");
    for (command, what) in [
        (&["log", &b][..], "title='q\\u{1b}[31m\\nforged line'"),
        (&["changes", &b], "CAST(x'6b1b5b33316d0a666f72676564206c696e65' AS TEXT)"),
        (&["conflicts", &b], "row CAST(x'6b1b5b33316d0a666f72676564206c696e65' AS TEXT)"),
        (&["conflicts", &b, "--groups"], seen),
        (&["conflicts", &b, "--advice"], ""),
        (&["digest", &b], seen),
        (&["undo", &b, "--since", "1d", "--dry-run"], "open conflict"),
        (&["policy", &b, &format!("local_tables={}", &table[1..table.len() - 1])], seen),
        (&["conflicts", &b, "discard", "--all"], "1 conflict settled"),
        (&["policy", &b, &format!("local_tables={}", &table[1..table.len() - 1])], seen),
        (&["policy", &b], seen),
        (&["status", &b], seen),
        (&["remote", "add", &b, "far", &folder], "far"),
        (&["log", &b, "--table", "t\u{1b}"], "no table t\\u{1b}"),
    ] {
        says(command, what);
    }
    lab.sql("A", "DROP TRIGGER synqlite_delete_1");
    says(&["verify", &a], "t\\u{1b}[31m\n    forged line: synqlite_delete_1 is missing");
}

/// A write that is not folded may have settled a record: nothing is left to settle, and that is no fault.
#[test]
fn what_waits_is_folded_before_records_are_picked() {
    let lab = lab();
    id(&lab, "fallback");
    lab.sql("B", "DELETE FROM person WHERE id = 'bob'");
    let db = lab.db("B");
    for verb in ["accept", "prefer"] {
        let settled = lab.json(&["conflicts", &db, verb, "--all", "--kind", "fallback"]);
        assert_eq!(settled["settled"], serde_json::json!([]), "{settled}");
    }
    let list = lab.json(&["conflicts", &db]);
    assert!(list["conflicts"].as_array().unwrap().iter().all(|c| c["kind"] != "fallback"));
}
