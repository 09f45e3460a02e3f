//! Every command when all is well, for programs and for people.

use crate::support::{Lab, TODO, stderr, stdout, synqlite};
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|t| t["name"].as_str().expect("a name")).collect()
}

fn is_id(id: &Value) -> bool {
    id.as_str().is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[test]
fn init_tells_what_is_replicated_and_what_is_not() {
    let lab = Lab::new();
    lab.sql("A", TODO);
    lab.sql("A", "CREATE VIEW open AS SELECT * FROM todo; CREATE TABLE local(x)");
    let done = lab.json(&["init", &lab.db("A"), "--exclude", "local"]);
    assert!(is_id(&done["site"]), "{done}");
    let mut tables = names(&done["tables"]);
    tables.sort_unstable();
    assert_eq!(tables, ["note", "person", "todo"]);
    assert!(done["tables"].as_array().unwrap().contains(&json!(
        {"name": "todo", "identity": "birth", "rows": 3}
    )));
    let mut skipped = names(&done["skipped"]);
    skipped.sort_unstable();
    assert_eq!(skipped, ["local", "open"]);
    assert!(done["skipped"].as_array().unwrap().iter().all(|s| s["why"].is_string()));

    lab.sql("A", "CREATE TABLE later(x INTEGER PRIMARY KEY)");
    let again = lab.json(&["init", &lab.db("A")]);
    assert_eq!(again["site"], done["site"]);
    assert!(names(&again["tables"]).contains(&"later"));
    assert!(names(&again["skipped"]).contains(&"local"), "it stays left out");
    let text = lab.text(&["init", &lab.db("A")]);
    assert!(text.contains("todo: 3 rows, identity by birth"), "{text}");
}

#[test]
fn init_takes_only_the_tables_named() {
    let lab = Lab::new();
    lab.sql("A", TODO);
    let done = lab.json(&["init", &lab.db("A"), "--table", "note", "--policy", "fk=ignore"]);
    assert_eq!(names(&done["tables"]), ["note"]);
    assert_eq!(lab.json(&["policy", &lab.db("A")])["policies"], json!({"fk": "ignore"}));
}

#[test]
fn a_table_that_was_left_out_is_told_of_and_can_be_taken_in() {
    for choose in [["--exclude", "note"], ["--table", "todo"]] {
        let lab = Lab::new();
        lab.sql("A", TODO);
        let db = lab.db("A");
        lab.json(&["init", &db, choose[0], choose[1], "--policy", "fk=ignore"]);
        let status = lab.json(&["status", &db]);
        assert!(names(&status["skipped"]).contains(&"note"), "{status}");
        for command in [
            &["conflicts", &db, "--table", "note"][..],
            &["log", &db, "--table", "Note"],
            &["undo", &db, "--table", "note", "--row", "1"],
        ] {
            let said = lab.refused(command);
            assert!(said.contains("note is not replicated here: "), "{said}");
            assert!(said.contains("synqlite init --table note"), "{said}");
        }
        let done = lab.json(&["init", &db, "--table", "note"]);
        assert!(names(&done["tables"]).contains(&"note"), "{done}");
        assert!(!names(&done["skipped"]).contains(&"note"), "{done}");
        lab.sql("A", "CREATE TABLE later(x INTEGER PRIMARY KEY)");
        lab.json(&["fold", &db]);
        let status = lab.json(&["status", &db]);
        let left_out = names(&status["skipped"]).contains(&"later");
        assert_eq!(left_out, choose[0] == "--table", "{status}");
    }
}

#[test]
fn a_table_that_is_replicated_is_not_left_out_unnoticed() {
    let lab = Lab::with_a();
    let db = lab.db("A");
    let said = lab.refused(&["init", &db, "--exclude", "NOTE"]);
    assert!(said.contains("table note is replicated already"), "{said}");
    assert!(said.ends_with(&format!("synqlite policy {db} local_tables=note")), "{said}");
    lab.json(&["policy", &db, "local_tables=note"]);
    let said = lab.refused(&["init", &db, "--exclude", "todo"]);
    assert!(said.ends_with(" local_tables=note,todo"), "{said}");
    let again = lab.json(&["init", &db, "--exclude", "note"]);
    assert!(names(&again["skipped"]).contains(&"note"), "{again}");
}

#[test]
fn deinit_leaves_the_database_as_it_was() {
    let lab = Lab::new();
    lab.sql("A", TODO);
    lab.sql("plain", TODO);
    lab.json(&["init", &lab.db("A")]);
    let removed = lab.json(&["deinit", &lab.db("A")]);
    assert!(removed["removed"].as_array().is_some_and(|r| !r.is_empty()), "{removed}");
    for query in [
        "SELECT type, name, tbl_name, sql FROM sqlite_master",
        "SELECT rowid, * FROM person",
        "SELECT rowid, * FROM todo",
        "SELECT rowid, * FROM note",
    ] {
        assert_eq!(lab.rows("A", query), lab.rows("plain", query));
    }
    lab.json(&["init", &lab.db("A")]);
    assert!(lab.text(&["deinit", &lab.db("A")]).contains("ordinary database again"));
}

#[test]
fn a_clone_is_a_site_of_its_own_and_knows_its_origin() {
    let lab = Lab::with_a();
    lab.sql("A", "INSERT INTO note VALUES('not folded yet')");
    let done = lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    assert!(is_id(&done["site"]));
    assert_eq!(done["rows"], 7);
    assert!(done["seconds"].as_f64().is_some_and(|s| s > 0.0));
    let status = |site| lab.json(&["status", &lab.db(site)]);
    assert_eq!(status("B")["site"], done["site"]);
    assert_ne!(status("A")["site"], done["site"]);
    assert_eq!(status("A")["database"], status("B")["database"]);
    let remotes = lab.json(&["remote", "list", &lab.db("B")]);
    assert_eq!(remotes, json!({"remotes": [{"name": "origin", "url": lab.db("A")}]}));
    assert_eq!(lab.json(&["remote", "list", &lab.db("A")]), json!({"remotes": []}));
    lab.assert_equal(&["A", "B"]);
    assert!(lab.text(&["clone", &lab.db("B"), &lab.db("C")]).contains("7 rows"));
}

#[test]
fn remotes_are_added_listed_and_removed() {
    let lab = Lab::with_a();
    let (db, url) = (lab.db("A"), lab.folder());
    let added = lab.json(&["remote", "add", &db, "stick", &url]);
    assert_eq!(added, json!({"remotes": [{"name": "stick", "url": url}]}));
    assert!(lab.refused(&["remote", "add", &db, "stick", &url]).contains("stick"));
    for name in ["a/b", "or igin", "a:b", "", ".", "a\nb"] {
        let said = lab.refused(&["remote", "add", &db, name, &url]);
        assert!(said.contains("Use letters, digits and - _ ."), "{said}");
    }
    assert!(lab.text(&["remote", "list", &db]).contains(&format!("stick  {url}")));
    assert!(lab.refused(&["remote", "remove", &db, "other"]).contains("no remote called other"));
    assert_eq!(lab.json(&["remote", "remove", &db, "stick"]), json!({"remotes": []}));
}

#[test]
fn push_pull_and_sync_say_what_crossed() {
    let lab = Lab::with_a_and_b();
    let nothing = json!({"rows": 0, "columns": 0, "bytes": 0});
    lab.sql("A", "UPDATE todo SET done = 1 WHERE id = 1; DELETE FROM todo WHERE id = 3");
    lab.sql("B", "INSERT INTO note VALUES('from B')");

    let pulled = lab.json(&["pull", &lab.db("B")]);
    let merged = json!({"inserted": 0, "updated": 1, "deleted": 1});
    assert_eq!((&pulled["merged"], &pulled["tables"]), (&merged, &json!({"todo": merged})));
    assert_eq!(pulled["received"]["rows"], 2);
    assert_eq!(pulled["received"]["columns"], 1);
    assert!(pulled["received"]["bytes"].as_u64().is_some_and(|n| n > 0));
    assert_eq!((&pulled["sent"], &pulled["conflicts"]), (&nothing, &json!(0)));
    assert!(pulled["seconds"].is_number());

    let pushed = lab.json(&["push", &lab.db("B"), &lab.db("A")]);
    assert_eq!((&pushed["sent"]["rows"], &pushed["received"]), (&json!(1), &nothing));
    for command in ["push", "pull", "sync"] {
        let again = lab.json(&[command, &lab.db("B")]);
        assert_eq!((&again["sent"], &again["received"]), (&nothing, &nothing), "{command}");
        assert_eq!(again["merged"], json!({"inserted": 0, "updated": 0, "deleted": 0}));
        assert_eq!(again["tables"], json!({}));
    }
    lab.assert_equal(&["A", "B"]);

    lab.sql("A", "UPDATE person SET name = 'Anna' WHERE id = 1");
    lab.sql("B", "UPDATE person SET name = 'Adele' WHERE id = 1");
    let synced = lab.json(&["--json", "sync", &lab.db("B"), "origin"]);
    assert_eq!((&synced["sent"]["rows"], &synced["received"]["rows"]), (&json!(1), &json!(1)));
    let decisions = synced["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 1, "{synced}");
    assert_eq!((&decisions[0]["table"], &decisions[0]["row"]), (&json!("person"), &json!("1")));
    lab.assert_equal(&["A", "B"]);
    assert_eq!(lab.rows("A", "SELECT name FROM person WHERE id = 1"), ["Adele"]);
    assert!(lab.text(&["sync", &lab.db("A"), &lab.db("B")]).contains("nothing new"));
}

/// Also tables that were made since, which nothing else would name.
#[test]
fn status_names_tables_that_may_have_been_written_unnoticed() {
    let lab = Lab::with_a_and_b();
    let db = lab.db("A");
    assert_eq!(lab.json(&["status", &db])["uncaptured"], serde_json::json!([]));
    for name in
        lab.rows("A", "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'note'")
    {
        lab.sql("A", &format!("DROP TRIGGER {name}"));
    }
    lab.sql("A", "INSERT INTO note VALUES('unseen')");
    assert_eq!(lab.json(&["status", &db])["uncaptured"], serde_json::json!(["note"]));
    assert!(lab.text(&["status", &db]).contains("may have been written unnoticed: note; "));
    assert_eq!(lab.json(&["fold", &db])["rows"], 1);
    assert_eq!(lab.json(&["status", &db])["uncaptured"], serde_json::json!([]));
}

#[test]
fn status_names_tables_that_are_not_replicated() {
    let lab = Lab::with_a_and_b();
    assert_eq!(lab.json(&["status", &lab.db("A")])["skipped"], json!([]));
    lab.sql("A", "CREATE TABLE m(w, x REAL); CREATE INDEX i ON m(x || 'm'); CREATE TABLE n(y)");
    let skipped = &lab.json(&["status", &lab.db("A")])["skipped"];
    assert_eq!((skipped[0]["name"].as_str(), skipped[1].is_null()), (Some("m"), true));
    assert!(lab.text(&["status", &lab.db("A")]).contains("not replicated: m;"));
}

/// Who is behind with a migration hears what came for columns and tables that are not here yet.
#[test]
fn what_others_wrote_for_columns_that_are_not_here_is_told() {
    let lab = Lab::with_a_and_b();
    lab.sql("A", "ALTER TABLE note ADD COLUMN mood; CREATE TABLE later(k TEXT PRIMARY KEY, v)");
    lab.sql("A", "INSERT INTO note(text, mood) VALUES('x', 'good'), ('y', 'bad')");
    lab.sql("A", "INSERT INTO later VALUES('k', 1)");
    let text = lab.text(&["sync", &lab.db("B"), &lab.db("A")]);
    assert!(text.contains("kept: 4 values for tables or columns that are not here"), "{text}");
    let kept = json!([
        {"table": "later", "column": null, "rows": 1},
        {"table": "note", "column": "mood", "rows": 2},
    ]);
    assert_eq!(lab.json(&["status", &lab.db("B")])["kept"], kept);
    let text = lab.text(&["status", &lab.db("B")]);
    assert!(text.contains("not here: column mood of note, kept for 2 rows"), "{text}");
    assert!(text.contains("not here: table later, kept for 1 row"), "{text}");
    lab.sql("B", "ALTER TABLE note ADD COLUMN mood; CREATE TABLE later(k TEXT PRIMARY KEY, v)");
    lab.json(&["fold", &lab.db("B")]);
    assert_eq!(lab.json(&["status", &lab.db("B")])["kept"], json!([]));
    assert_eq!(lab.json(&["sync", &lab.db("B"), &lab.db("A")])["kept"], 0);
}

#[test]
fn status_shows_what_waits() {
    let lab = Lab::with_a_and_b();
    lab.sql("B", "INSERT INTO note VALUES('x'), ('y'); UPDATE todo SET done = 1");
    let status = lab.json(&["status", &lab.db("B")]);
    assert_eq!(
        status["pending"],
        json!({
            "note": {"inserted": 2, "updated": 0, "deleted": 0},
            "todo": {"inserted": 0, "updated": 3, "deleted": 0},
        })
    );
    assert_eq!(status["conflicts"], 0);
    assert_eq!(status["remotes"][0]["name"], "origin");
    assert_eq!(status["remotes"][0]["pushed"], Value::Null);
    assert_eq!(status["remotes"][0]["unpushed"], 0, "nothing is folded yet");
    let folded = lab.json(&["fold", &lab.db("B")]);
    assert_eq!(folded["rows"], 5);
    let status = lab.json(&["status", &lab.db("B")]);
    assert_eq!(status["pending"], json!({}));
    assert_eq!(status["remotes"][0]["unpushed"], 5);
    lab.json(&["push", &lab.db("B")]);
    let status = lab.json(&["status", &lab.db("B")]);
    assert_eq!(status["remotes"][0]["unpushed"], 0);
    assert!(status["remotes"][0]["pushed"].is_string());
    let text = lab.text(&["status", &lab.db("B")]);
    assert!(text.contains("remote origin") && text.contains("not pushed: 0 rows"), "{text}");
}

#[test]
fn fold_says_how_much() {
    let lab = Lab::with_a();
    assert_eq!(lab.json(&["fold", &lab.db("A")])["rows"], 0);
    lab.sql("A", "UPDATE todo SET done = 1 WHERE id < 3");
    assert!(lab.text(&["fold", &lab.db("A")]).contains("folded 2 rows"));
}

#[test]
fn log_is_newest_first_and_can_be_narrowed() {
    let lab = Lab::with_a();
    lab.sql("A", "UPDATE todo SET done = 1 WHERE id = 2");
    lab.json(&["fold", &lab.db("A")]);
    lab.sql("A", "UPDATE person SET name = 'Bob' WHERE id = 2");
    lab.json(&["fold", &lab.db("A")]);
    let log = lab.json(&["log", &lab.db("A"), "--limit", "2"]);
    let entries = log["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "{log}");
    assert_eq!((&entries[0]["table"], &entries[0]["row"]), (&json!("person"), &json!("2")));
    assert_eq!((&entries[1]["table"], &entries[1]["kind"]), (&json!("todo"), &json!("update")));
    assert!(is_id(&entries[0]["site"]) && entries[0]["at"].is_string());
    assert!(entries[0]["at_ms"].as_i64() > entries[1]["at_ms"].as_i64());
    let one = lab.json(&["log", &lab.db("A"), "--table", "todo", "--row", "2"]);
    let tables = one["entries"].as_array().unwrap().iter();
    assert!(tables.clone().count() > 0 && tables.clone().all(|e| e["table"] == "todo"), "{one}");
    assert!(lab.text(&["log", &lab.db("A"), "--limit", "1"]).contains("update person 2"));
    assert_eq!(lab.json(&["log", &lab.db("A"), "--limit", "0"])["entries"], json!([]));
    assert!(lab.text(&["log", &lab.db("A"), "--limit", "0"]).starts_with("none of the changes"));
}

#[test]
fn history_keeps_what_was_overwritten() {
    let lab = Lab::new();
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A"), "--history"]);
    for n in 1..=3 {
        lab.sql("A", &format!("UPDATE todo SET what = 'v{n}' WHERE id = 1"));
        lab.json(&["fold", &lab.db("A")]);
    }
    let log = lab.json(&["log", &lab.db("A"), "--table", "todo", "--row", "1"]).to_string();
    assert!((1..=3).all(|n| log.contains(&format!("v{n}"))), "{log}");
}

#[test]
fn conflicts_are_listed_and_settled() {
    let lab = Lab::new();
    let schema = "CREATE TABLE u(id TEXT PRIMARY KEY, email TEXT UNIQUE, photo);";
    lab.sql("A", schema);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    assert_eq!(lab.json(&["conflicts", &lab.db("A")]), json!({"conflicts": []}));
    assert!(lab.text(&["conflicts", &lab.db("A")]).contains("no open conflicts"));
    lab.sql("A", "INSERT INTO u VALUES('a', 'x@', NULL)");
    std::thread::sleep(std::time::Duration::from_millis(5));
    lab.sql("B", "INSERT INTO u VALUES('b', 'x@', x'00ff')");
    assert_eq!(lab.json(&["sync", &lab.db("B")])["conflicts"], 1);
    for site in ["A", "B"] {
        let list = lab.json(&["conflicts", &lab.db(site)]);
        let record = &list["conflicts"][0];
        assert_eq!((&record["kind"], &record["table"]), (&json!("unique"), &json!("u")));
        assert_eq!(record["shown"], json!(null));
        assert_eq!(record["displaced"], json!({"id": "b", "email": "x@", "photo": "x'00ff'"}));
        assert_eq!(lab.json(&["status", &lab.db(site)])["conflicts"], 1);
        assert!(lab.text(&["conflicts", &lab.db(site)]).contains("in favour of row 'a'"));
    }
    let list = lab.json(&["conflicts", &lab.db("B")]);
    let id = list["conflicts"][0]["id"].as_str().unwrap_or_default();
    assert_eq!(lab.json(&["conflicts", &lab.db("B"), "show", &id[..6]]), list);
    let settled = lab.json(&["conflicts", &lab.db("B"), "discard", &id[..6]]);
    assert_eq!(settled, json!({"settled": id, "open": 0}));
    lab.json(&["sync", &lab.db("B")]);
    assert_eq!(lab.json(&["conflicts", &lab.db("A")]), json!({"conflicts": []}));
}

#[test]
fn policies_are_set_shown_and_replicated() {
    let lab = Lab::with_a_and_b();
    assert_eq!(lab.json(&["policy", &lab.db("A")]), json!({"policies": {}}));
    let set = lab.json(&["policy", &lab.db("A"), "fk=ignore"]);
    assert_eq!(set, json!({"policies": {"fk": "ignore"}}));
    lab.json(&["pull", &lab.db("B")]);
    assert_eq!(lab.text(&["policy", &lab.db("B")]), "fk=ignore\n");
    assert!(lab.refused(&["policy", &lab.db("A"), "fk=maybe"]).contains("fk=maybe"));
}

#[test]
fn a_list_that_loses_something_says_so() {
    let lab = Lab::with_a_and_b();
    let db = lab.db("A");
    let set = |value: &str| lab.text(&["policy", &db, &format!("local_tables={value}")]);
    assert_eq!(set("todo"), "local_tables=todo\n");
    let note = "note: local_tables has todo no more; for both: local_tables=todo,note\n";
    assert_eq!(set("note"), format!("local_tables=note\n{note}"));
    assert_eq!(set("todo,note"), "local_tables=todo,note\n");
    assert_eq!(set(""), "local_tables=\n");
    let twice = synqlite(&["policy", &db, "local_tables=todo", "local_tables=note"]);
    assert_eq!(twice.status.code(), Some(2));
    let said = stderr(&twice);
    assert!(said.contains("policy local_tables is given twice"), "{said}");
    assert!(said.contains("local_tables=A,B"), "{said}");
}

/// What only the application can write to is told at each command, until it is gone.
#[test]
fn a_table_that_is_not_replicated_any_more_is_told() {
    let lab = Lab::with_a_and_b();
    let db = lab.db("A");
    lab.sql(
        "A",
        "CREATE INDEX by_text ON note(text COLLATE NOCASE); PRAGMA writable_schema=ON; \
         UPDATE sqlite_master SET sql = replace(sql, 'NOCASE', 'unicase') WHERE name = 'by_text'",
    );
    for command in [&["fold", &db][..], &["sync", &db, &lab.db("B")]] {
        let (json, said) = lab.json_and_stderr(command);
        assert_eq!(json["paused"][0]["name"], "note", "{json}");
        assert!(said.contains("table note is not replicated any more: "), "{said}");
        assert!(said.contains("no such collation sequence: unicase"), "{said}");
    }
    // A watch says it once, and to programs in each line.
    let rounds =
        synqlite(&["watch", &db, &lab.db("B"), "--every", "10ms", "--rounds", "3", "--json"]);
    let told =
        String::from_utf8_lossy(&rounds.stdout).matches("\"paused\":[{\"name\":\"note\"").count();
    assert_eq!((told, stderr(&rounds).matches("not replicated any more").count()), (3, 1));
    let (json, said) = lab.json_and_stderr(&["clone", &db, &lab.db("C")]);
    assert_eq!(json["paused"][0]["name"], "note", "{json}");
    assert!(said.contains("clone again once that is undone"), "{said}");
    assert!(lab.text(&["status", &db]).contains("not replicated any more: note: "));
    let found = lab.faulty(&["verify", &db]);
    assert!(found.to_string().contains("table note is not replicated any more"), "{found}");
    lab.sql("A", "DROP INDEX by_text");
    let (json, said) = lab.json_and_stderr(&["sync", &db, &lab.db("B")]);
    assert!(json["paused"].is_null() && said.is_empty(), "{json} {said}");
}

/// A policy may lose its effect when the schema changes, and then what it promised does not hold.
#[test]
fn a_policy_without_effect_says_why() {
    let lab = Lab::with_a();
    assert_eq!(lab.text(&["policy", &lab.db("A"), "person.ids=local"]), "person.ids=local\n");
    lab.sql("A", "ALTER TABLE todo ADD COLUMN more CHECK(person < 1000)");
    let why = "table person is referred to by column person of table todo that a CHECK reads";
    assert_eq!(
        lab.text(&["policy", &lab.db("A")]),
        format!("person.ids=local\nnote: person.ids has no effect: {why}\n")
    );
    assert_eq!(
        lab.json(&["policy", &lab.db("A")]),
        json!({"policies": {"person.ids": "local"}, "idle": {"person.ids": why}})
    );
}

#[test]
fn digests_differ_when_the_data_do() {
    let lab = Lab::with_a_and_b();
    let before = lab.json(&["digest", &lab.db("A")]);
    assert_eq!(before, lab.json(&["digest", &lab.db("B")]));
    lab.sql("A", "UPDATE note SET text = 'second'");
    let after = lab.json(&["digest", &lab.db("A")]);
    assert_ne!(after["digest"], before["digest"]);
    assert_ne!(after["tables"]["note"], before["tables"]["note"]);
    assert_eq!(after["tables"]["todo"], before["tables"]["todo"]);
    let text = lab.text(&["digest", &lab.db("A")]);
    assert!(text.starts_with(after["digest"].as_str().unwrap()), "{text}");
}

#[test]
fn verify_finds_what_does_not_fit() {
    let lab = Lab::with_a();
    assert_eq!(lab.json(&["verify", &lab.db("A")]), json!({"ok": true, "problems": []}));
    assert!(lab.text(&["verify", &lab.db("A")]).contains("no problems"));
    lab.connect("A").execute_batch("PRAGMA foreign_keys=OFF; DELETE FROM person").unwrap();
    let found = lab.faulty(&["verify", &lab.db("A")]);
    assert_eq!(lab.faulty(&["verify", "--full", &lab.db("A")]), found);
    assert!(found["problems"].as_array().is_some_and(|p| !p.is_empty()), "{found}");
}

#[test]
fn triggers_are_listed_with_their_sql() {
    let lab = Lab::with_a();
    lab.sql("A", "CREATE TRIGGER mine AFTER DELETE ON note BEGIN SELECT 1; END");
    let found = lab.json(&["triggers", &lab.db("A")]);
    let note = found["tables"]["note"].as_array().unwrap();
    assert!(names(&found["tables"]["note"]).contains(&"mine"), "{found}");
    assert!(note.iter().all(|t| t["sql"].as_str().unwrap().starts_with("CREATE TRIGGER")));
    assert!(names(&found["tables"]["todo"]).iter().all(|name| name.starts_with("synqlite_")));
    assert!(lab.text(&["triggers", &lab.db("A")]).contains("CREATE TRIGGER mine"));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = stdout(&synqlite(&["completions", shell]));
        assert!(script.contains("digest") && script.contains("watch"), "{shell}");
    }
}

#[test]
fn wrong_usage_has_a_status_of_its_own() {
    let version = synqlite(&["--version"]);
    assert!(version.status.success());
    assert_eq!(stdout(&version), format!("synqlite {}\n", env!("CARGO_PKG_VERSION")));
    for args in [
        &["frobnicate"][..],
        &[],
        &["init"],
        &["init", "A.db", "--policy", "nonsense"],
        &["watch", "A.db", "--every", "soon"],
        &["clone", "A.db"],
    ] {
        let output = synqlite(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn what_a_migration_tool_notes_is_local_unless_it_was_replicated_before() {
    let lab = Lab::new();
    lab.sql(
        "A",
        "CREATE TABLE note(text); CREATE TABLE schema_migrations(version TEXT PRIMARY KEY)",
    );
    lab.sql("A", "INSERT INTO schema_migrations VALUES('1')");
    let found = lab.json(&["init", &lab.db("A")]);
    assert_eq!(names(&found["tables"]), ["note"]);
    assert_eq!(names(&found["skipped"]), ["schema_migrations"]);
    let why = found["skipped"][0]["why"].as_str().unwrap();
    assert!(why.starts_with("bookkeeping of Rails") && why.contains("replicate_tables"), "{why}");
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    assert_eq!(lab.rows("B", "SELECT * FROM schema_migrations"), ["1"]);
    lab.sql("B", "INSERT INTO schema_migrations VALUES('2')");
    lab.json(&["sync", &lab.db("B")]);
    assert_eq!(lab.rows("A", "SELECT * FROM schema_migrations"), ["1"]);
    // Asked for, it is taken in, and stays when nobody asks any more.
    lab.json(&["policy", &lab.db("B"), "replicate_tables=schema_migrations"]);
    for _ in 0..2 {
        lab.json(&["sync", &lab.db("B")]);
    }
    assert_eq!(lab.rows("A", "SELECT * FROM schema_migrations"), ["1", "2"]);
    lab.json(&["policy", &lab.db("A"), "replicate_tables="]);
    lab.sql("A", "INSERT INTO schema_migrations VALUES('3')");
    lab.json(&["sync", &lab.db("B")]);
    assert_eq!(lab.rows("B", "SELECT * FROM schema_migrations"), ["1", "2", "3"]);
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn init_names_the_triggers_that_keep_a_search_index() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE note(id INTEGER PRIMARY KEY, text); CREATE VIRTUAL TABLE f USING fts5(text);
        CREATE TRIGGER keeps AFTER INSERT ON note BEGIN INSERT INTO f(rowid, text) VALUES(new.id, new.text); END;
        CREATE TRIGGER calls AFTER DELETE ON note BEGIN DELETE FROM f WHERE rowid = mine(old.id); END");
    let (found, told) = lab.json_and_stderr(&["init", &lab.db("A")]);
    assert_eq!(found["notes"].as_array().map(Vec::len), Some(3));
    assert!(
        told.contains("trigger keeps fires for merged rows too, to keep f up to date"),
        "{told}"
    );
    assert!(told.contains("trigger calls writes f") && told.contains("function mine"), "{told}");
    assert!(told.contains("Make f anew after each merge"), "{told}");
    assert!(!told.contains("fire_on_merge"), "{told}");
}

/// Whoever asks with the token of the answer before hears what is new since, and nothing twice.
#[test]
fn changes_tell_what_is_new_since_a_token() {
    let lab = Lab::new();
    lab.sql(
        "A",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'x'), (2, 'y')",
    );
    let db = lab.db("A");
    lab.json(&["init", &db]);
    let since = |token: &Value| lab.json(&["changes", &db, "--since", token.as_str().unwrap()]);
    let all = lab.json(&["changes", &db]);
    assert_eq!((all["changes"].as_array().unwrap().len(), &all["anew"]), (2, &json!(true)));
    lab.sql("A", "UPDATE t SET v = 'z' WHERE id = 2; DELETE FROM t WHERE id = 1");
    let news = since(&all["token"]);
    let mut told: Vec<_> = news["changes"].as_array().unwrap().iter().collect();
    told.sort_by_key(|row| row["row"].to_string());
    assert_eq!((&told[0]["change"], &told[0]["values"]), (&json!("delete"), &json!(null)));
    let (columns, values) = (json!(["v"]), json!({"id": 2, "v": "z"}));
    assert_eq!((&told[1]["columns"], &told[1]["values"]), (&columns, &values));
    let none = since(&news["token"]);
    assert_eq!((&none["changes"], &none["more"]), (&json!([]), &json!(false)));
    let wrong = synqlite(&["changes", &db, "--since", "nonsense"]);
    assert_eq!(wrong.status.code(), Some(1));
}

/// What JSON cannot say, or says alike, has its literal beside it: a mirror built from that is the table.
#[test]
fn changes_tell_every_value_exactly() {
    let lab = Lab::new();
    lab.sql(
        "A",
        "CREATE TABLE t(k INTEGER PRIMARY KEY, v); INSERT INTO t(v) VALUES(9e999), (-9e999), ('x''616263'''),
         (x'616263'), (CAST(x'41ff' AS TEXT)), ('it''s'), (NULL), (1.0), (x''), ('9e999')",
    );
    let db = lab.db("A");
    lab.json(&["init", &db]);
    lab.sql("B", "CREATE TABLE t(k INTEGER PRIMARY KEY, v)");
    for row in lab.json(&["changes", &db])["changes"].as_array().unwrap() {
        let value = match (&row["exact"]["v"], &row["values"]["v"]) {
            (Value::String(literal), _) => literal.clone(),
            (_, Value::Null) => "NULL".to_owned(),
            (_, Value::String(text)) => format!("'{}'", text.replace('\'', "''")),
            (_, number) => number.to_string(),
        };
        lab.sql("B", &format!("INSERT INTO t VALUES({}, {value})", row["values"]["k"]));
    }
    let all = "SELECT k, typeof(v), hex(v), hex(CAST(v AS BLOB)) FROM t";
    assert_eq!(lab.rows("B", all), lab.rows("A", all));
}

/// A key that SQLite itself cannot check is no reason to leave somebody without a way on.
#[test]
fn a_declaration_that_sqlite_refuses_is_named() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE p(x TEXT PRIMARY KEY, y TEXT)");
    lab.sql(
        "A",
        "CREATE TABLE c(id INTEGER PRIMARY KEY, x TEXT REFERENCES p(x), y TEXT REFERENCES p(y))",
    );
    lab.sql("A", "PRAGMA foreign_keys = OFF; INSERT INTO c VALUES(1, NULL, 'b')");
    let said = lab.refused(&["init", &lab.db("A")]);
    assert!(said.contains("foreign key mismatch") && said.contains("fk=ignore"), "{said}");
    lab.json(&["init", &lab.db("A"), "--policy", "fk=ignore"]);
    assert_eq!(lab.json(&["verify", &lab.db("A")])["ok"], true);
}
