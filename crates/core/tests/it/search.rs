//! Search indexes that triggers keep: right on every site after every merge (R-TRG).

use crate::site::{Site, World, settle};

const SCHEMA: &str = "
CREATE TABLE note(id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT, x REAL DEFAULT 0);
CREATE VIRTUAL TABLE f5 USING fts5(title, body, content='note', content_rowid='id');
CREATE VIRTUAL TABLE f4 USING fts4(content='note', title, body);
CREATE VIRTUAL TABLE own USING fts5(title);
CREATE VIRTUAL TABLE bare USING fts5(body, content='');
CREATE VIRTUAL TABLE place USING rtree(id, lo, hi);
CREATE TRIGGER note_ai AFTER INSERT ON note BEGIN
  INSERT INTO f5(rowid, title, body) VALUES (new.id, new.title, new.body);
  INSERT INTO f4(docid, title, body) VALUES (new.id, new.title, new.body);
  INSERT INTO own(rowid, title) VALUES (new.id, upper(new.title));
  INSERT INTO bare(rowid, body) VALUES (new.id, new.body);
  INSERT INTO place VALUES (new.id, new.x, new.x + 1);
END;
CREATE TRIGGER note_bd BEFORE DELETE ON note BEGIN DELETE FROM f4 WHERE docid = old.id; END;
CREATE TRIGGER note_ad AFTER DELETE ON note BEGIN
  INSERT INTO f5(f5, rowid, title, body) VALUES ('delete', old.id, old.title, old.body);
  INSERT INTO bare(bare, rowid, body) VALUES ('delete', old.id, old.body);
  DELETE FROM own WHERE rowid = old.id;
  DELETE FROM place WHERE id = old.id;
END;
CREATE TRIGGER note_bu BEFORE UPDATE ON note BEGIN DELETE FROM f4 WHERE docid = old.id; END;
CREATE TRIGGER note_au AFTER UPDATE ON note BEGIN
  INSERT INTO f5(f5, rowid, title, body) VALUES ('delete', old.id, old.title, old.body);
  INSERT INTO f5(rowid, title, body) VALUES (new.id, new.title, new.body);
  INSERT INTO f4(docid, title, body) VALUES (new.id, new.title, new.body);
  DELETE FROM own WHERE rowid = old.id;
  INSERT INTO own(rowid, title) VALUES (new.id, upper(new.title));
  INSERT INTO bare(bare, rowid, body) VALUES ('delete', old.id, old.body);
  INSERT INTO bare(rowid, body) VALUES (new.id, new.body);
  DELETE FROM place WHERE id = old.id;
  INSERT INTO place VALUES (new.id, new.x, new.x + 1);
END;
INSERT INTO note VALUES (1, 'first', 'red fox', 1), (2, 'second', 'blue fox', 2);";

/// The indexes are sound, and say what the table says.
#[track_caller]
fn indexed(site: &Site) {
    site.run("INSERT INTO f5(f5, rank) VALUES ('integrity-check', 1)");
    site.run("INSERT INTO f4(f4) VALUES ('integrity-check')");
    site.run("INSERT INTO own(own) VALUES ('integrity-check')");
    site.run("INSERT INTO bare(bare) VALUES ('integrity-check')");
    assert_eq!(site.rows("SELECT rtreecheck('place')"), ["ok"]);
    let ids = site.rows("SELECT id FROM note ORDER BY id");
    assert_eq!(site.rows("SELECT id FROM place ORDER BY id"), ids);
    assert_eq!(site.rows("SELECT rowid FROM own ORDER BY rowid"), ids);
    for (index, column) in [("f5", "body"), ("f4", "body"), ("bare", "body")] {
        for word in ["red", "blue", "fox", "green", "owl"] {
            let found = site.rows(&format!(
                "SELECT rowid FROM {index} WHERE {index} MATCH '{word}' ORDER BY 1"
            ));
            let there = format!(
                "SELECT id FROM note WHERE ' ' || {column} || ' ' LIKE '% {word} %' ORDER BY 1"
            );
            assert_eq!(found, site.rows(&there), "{word} in {index}");
        }
    }
}

fn pair(world: &World) -> (Site, Site) {
    let mut a = world.init("a", SCHEMA);
    let b = world.clone_site(&mut a, "b");
    (a, b)
}

#[test]
fn indexes_are_right_after_inserts_updates_and_deletes_of_others() {
    let world = World::new();
    let (mut a, mut b) = pair(&world);
    let mut check = |sql_a: &str, sql_b: &str| {
        a.run(sql_a);
        b.run(sql_b);
        settle(&mut a, &mut b);
        assert_eq!(
            a.rows("SELECT * FROM note ORDER BY id"),
            b.rows("SELECT * FROM note ORDER BY id")
        );
        for site in [&a, &b] {
            indexed(site);
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    };
    check(
        "INSERT INTO note VALUES (3, 'third', 'green owl', 7)",
        "UPDATE note SET body = 'red owl' WHERE id = 2",
    );
    check("DELETE FROM note WHERE id = 1", "UPDATE note SET x = 9, title = 'other' WHERE id = 3");
    // One number, and one title, for two rows: one gets another number, one is hidden.
    check(
        "INSERT INTO note VALUES (4, 'same', 'red', 0)",
        "INSERT INTO note VALUES (4, 'mine', 'blue', 5)",
    );
    check(
        "INSERT INTO note VALUES (20, 'twice', 'red owl', 0)",
        "INSERT INTO note VALUES (30, 'twice', 'blue owl', 5)",
    );
    // The winner goes, the hidden one returns.
    check("SELECT 1", "DELETE FROM note WHERE title = 'twice'");
    check(
        "DELETE FROM note WHERE id = 2; INSERT INTO note VALUES (2, 'new', 'green fox', 3)",
        "UPDATE note SET id = 50 WHERE id = 3",
    );
    check("UPDATE note SET title = 'u'  WHERE id = 2", "UPDATE note SET title = 'u' WHERE id = 50");
}

/// A rebuild gives rows other rowids, and what comes next the former ones. Indexes go by either, as the program has
/// made them anew or not.
#[test]
fn indexes_are_right_after_a_rebuild_that_gave_rows_other_places() {
    let indexes =
        "CREATE VIRTUAL TABLE f5 USING fts5(v, content='t'); INSERT INTO f5(f5) VALUES('rebuild');
        CREATE VIRTUAL TABLE own USING fts5(v); INSERT INTO own(rowid, v) SELECT rowid, v FROM t;";
    let triggers = "
        CREATE TRIGGER ti AFTER INSERT ON t BEGIN
          INSERT INTO f5(rowid, v) VALUES (new.rowid, new.v); INSERT INTO own(rowid, v) VALUES (new.rowid, new.v); END;
        CREATE TRIGGER td AFTER DELETE ON t BEGIN
          INSERT INTO f5(f5, rowid, v) VALUES ('delete', old.rowid, old.v);
          DELETE FROM own WHERE rowid = old.rowid; END;
        CREATE TRIGGER tu AFTER UPDATE ON t BEGIN
          INSERT INTO f5(f5, rowid, v) VALUES ('delete', old.rowid, old.v);
          INSERT INTO f5(rowid, v) VALUES (new.rowid, new.v);
          DELETE FROM own WHERE rowid = old.rowid; INSERT INTO own(rowid, v) VALUES (new.rowid, new.v); END;";
    for anew in [true, false] {
        let world = World::new();
        let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES('a', 'apple'), ('b', 'beer'), \
                   ('c', 'cider'), ('d', 'dill');";
        let mut a = world.init("a", &format!("{sql}{indexes}{triggers}"));
        let mut b = world.clone_site(&mut a, "b");
        a.run("DELETE FROM t WHERE k = 'b'");
        let made =
            if anew { format!("DROP TABLE f5; DROP TABLE own; {indexes}") } else { String::new() };
        a.run(&format!(
            "BEGIN; CREATE TABLE n(k TEXT PRIMARY KEY, v, x DEFAULT 0); INSERT INTO n(k, v) SELECT * FROM t; \
             DROP TABLE t; ALTER TABLE n RENAME TO t; {made} {triggers} COMMIT"
        ));
        settle(&mut a, &mut b);
        b.run("UPDATE t SET v = 'cake' WHERE k = 'c'; INSERT INTO t(k, v) VALUES('e', 'egg')");
        settle(&mut a, &mut b);
        a.run("INSERT INTO f5(f5, rank) VALUES ('integrity-check', 1)");
        a.run("INSERT INTO own(own) VALUES ('integrity-check')");
        for index in ["f5", "own"] {
            for word in ["apple", "beer", "cider", "cake", "dill", "egg"] {
                let found =
                    a.rows(&format!("SELECT rowid FROM {index} WHERE {index} MATCH '{word}'"));
                let there = a.rows(&format!("SELECT rowid FROM t WHERE v = '{word}'"));
                assert_eq!(found, there, "{word} in {index}, {anew}");
            }
        }
    }
}

#[test]
fn an_index_that_was_never_filled_stops_no_merge() {
    let world = World::new();
    let sql = SCHEMA.split("CREATE VIRTUAL").next().unwrap().to_owned()
        + "INSERT INTO note VALUES (1, 'first', 'red fox', 1), (2, 'second', 'blue fox', 2);";
    let mut a = world.init("a", &sql);
    let mut b = world.clone_site(&mut a, "b");
    let late = SCHEMA.split("INSERT INTO note VALUES").next().unwrap();
    b.run(&late[late.find("CREATE VIRTUAL").unwrap()..]);
    a.run("DELETE FROM note WHERE id = 1; UPDATE note SET body = 'green owl' WHERE id = 2");
    a.run("INSERT INTO note VALUES (3, 'third', 'green owl', 7)");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id, body FROM note ORDER BY 1"), ["2|green owl", "3|green owl"]);
    b.run("INSERT INTO f5(f5) VALUES ('rebuild'); INSERT INTO f5(f5, rank) VALUES ('integrity-check', 1)");
    assert_eq!(
        b.rows("SELECT name FROM sqlite_master WHERE name LIKE 'note%' AND type = 'trigger'").len(),
        5
    );
}

#[test]
fn a_trigger_that_does_more_fires_only_if_it_is_named() {
    let world = World::new();
    let sql = "CREATE TABLE note(id TEXT PRIMARY KEY, body); CREATE TABLE log(x);
        CREATE VIRTUAL TABLE f USING fts5(body);
        CREATE TRIGGER ai AFTER INSERT ON note BEGIN
          INSERT INTO f VALUES (new.body); INSERT INTO log VALUES (new.id); END";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO note VALUES ('n', 'fox')");
    settle(&mut a, &mut b);
    assert_eq!([b.row("SELECT count(*) FROM f"), b.row("SELECT count(*) FROM log")], ["0", "1"]);
}

/// `'delete'` is a command of FTS5 alone, and fails for the program's own deletes too; sqlite-utils writes it for FTS4
/// all the same.
#[test]
fn a_trigger_that_fails_to_keep_an_index_stops_no_merge() {
    let world = World::new();
    let (mut a, mut b) = {
        let mut a = world.init(
            "a",
            "CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT);
            INSERT INTO note VALUES(1, 'red fox'), (2, 'blue fox')",
        );
        let b = world.clone_site(&mut a, "b");
        (a, b)
    };
    a.run(
        "CREATE VIRTUAL TABLE f USING fts4(body, content='note');
        CREATE TRIGGER note_ad AFTER DELETE ON note BEGIN
          INSERT INTO f(f, rowid, body) VALUES('delete', old.id, old.body); END;
        INSERT INTO f(f) VALUES('rebuild')",
    );
    b.run("DELETE FROM note WHERE id = 1; INSERT INTO note VALUES(3, 'green owl')");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT id FROM note ORDER BY 1"), ["2", "3"]);
    assert_eq!(a.rows("SELECT rowid FROM f WHERE f MATCH 'fox'"), ["2"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

/// It was an expression of another index that failed on the row, so the rows beside it are noted as ever.
#[test]
fn a_row_that_no_schema_takes_leaves_no_other_out_of_an_index() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE note(id INTEGER PRIMARY KEY, body TEXT)");
    let mut b = world.clone_site(&mut a, "b");
    a.run(
        "CREATE INDEX x ON note(json_extract(body, '$.x')); CREATE VIRTUAL TABLE f USING fts5(body);
        CREATE TRIGGER note_ai AFTER INSERT ON note BEGIN
          INSERT INTO f(rowid, body) VALUES(new.id, new.body); END",
    );
    b.run("INSERT INTO note VALUES(1, '{'), (2, '{\"x\": 1}'), (3, '{\"x\": 2}')");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT id FROM note ORDER BY 1"), ["2", "3"]);
    assert_eq!(a.rows("SELECT rowid FROM f ORDER BY 1"), ["2", "3"]);
}

/// What sqlite-utils counts by triggers is right after a merge, as they fire for its rows too.
#[test]
fn numbers_of_rows_that_triggers_count_are_right_after_a_merge() {
    let count = |table: &str, event: &str, by: &str| {
        format!(
            "CREATE TRIGGER {table}_counts_{event} AFTER {event} ON {table} BEGIN
               INSERT OR REPLACE INTO _counts VALUES('{table}',
                 COALESCE((SELECT count FROM _counts WHERE \"table\" = '{table}'), 0) {by}); END;"
        )
    };
    let schema = format!(
        "CREATE TABLE note(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
         CREATE TABLE _counts(\"table\" TEXT PRIMARY KEY, count INTEGER DEFAULT 0);
         {} {} INSERT INTO note VALUES(1, 'a'), (2, 'b')",
        count("note", "insert", "+ 1"),
        count("note", "delete", "- 1")
    );
    let world = World::new();
    let mut a = world.init("a", &schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO note VALUES(3, 'c'), (4, 'd'); DELETE FROM note WHERE id = 1");
    b.run(
        "INSERT INTO note VALUES(3, 'c'), (4, 'e'), (5, 'f'); DELETE FROM note WHERE id IN (1, 2)",
    );
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT count(*) FROM note"), ["4"]);
        assert_eq!(site.rows("SELECT * FROM _counts"), ["note|4"]);
        assert!(site.replica.status().unwrap().skipped.iter().any(|s| s.name == "_counts"));
    }
}

/// The same of what a trigger that a policy names puts in place of what is there.
#[test]
fn triggers_that_fire_for_merged_rows_do_as_they_say_on_a_conflict() {
    let schema = "CREATE TABLE note(id INTEGER PRIMARY KEY, kind TEXT);
        CREATE TABLE last(kind TEXT PRIMARY KEY, note);
        CREATE TABLE seen(kind TEXT PRIMARY KEY);
        CREATE TRIGGER latest AFTER INSERT ON note BEGIN
          INSERT OR REPLACE INTO last VALUES(new.kind, new.id);
          INSERT OR IGNORE INTO seen VALUES(new.kind); END";
    let policies = [("fire_on_merge", "latest"), ("local_tables", "last,seen")];
    let world = World::new();
    let mut a = world.init_with("a", schema, &policies);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO note VALUES(1, 'x'), (2, 'x')");
    b.run("INSERT INTO note VALUES(7, 'x'), (8, 'y')");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT count(*) FROM note"), ["4"]);
        assert_eq!(site.rows("SELECT kind FROM last ORDER BY 1"), ["x", "y"]);
        assert_eq!(site.rows("SELECT kind FROM seen ORDER BY 1"), ["x", "y"]);
        assert!(site.replica.conflicts().unwrap().is_empty());
    }
}
