//! What programs write past the triggers: by incremental blob I/O, of which SQLite tells no trigger, or with
//! triggers off.

use crate::site::{Site, World, dump, settle};
use rusqlite::MAIN_DB;
use rusqlite::config::DbConfig;
use std::io::Write;

const SCHEMA: &str = "CREATE TABLE doc(id INTEGER PRIMARY KEY, title TEXT, n INT, body BLOB); \
    INSERT INTO doc VALUES(1, 'one', 1, zeroblob(4)), (2, 'two', 2, zeroblob(4)), (3, 'three', 3, zeroblob(4))";

const UNCAPTURED: &str =
    "it was changed without being captured; an UPDATE, even to what it shows, makes that known";

/// Overwrites what a row holds from its first byte on.
fn write(site: &Site, column: &str, row: i64, bytes: &[u8]) {
    let mut blob = site.app.blob_open(MAIN_DB, "doc", column, row, false).unwrap();
    blob.write_all(bytes).unwrap();
    blob.close().unwrap();
}

/// What rows of `doc` show at both, who have met.
fn met(a: &mut Site, b: &mut Site) -> Vec<String> {
    settle(a, b);
    assert_eq!(dump(&a.app, &["doc"]), dump(&b.app, &["doc"]));
    for site in [&*a, &*b] {
        assert_eq!(problems(site), [""; 0]);
    }
    a.rows("SELECT id, title, n, body FROM doc ORDER BY id")
}

fn problems(site: &Site) -> Vec<String> {
    site.replica.verify().unwrap()
}

#[test]
fn an_update_that_leaves_a_row_as_it_is_sends_what_was_written_to_its_blob() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    write(&a, "body", 2, b"abcd");
    assert_eq!(problems(&a), [format!("table doc, row 2: {UNCAPTURED}")]);
    b.run("UPDATE doc SET title = 'zwei', n = 20 WHERE id = 2");
    a.run("UPDATE doc SET body = body WHERE id = 2");
    let rows = met(&mut a, &mut b);
    assert_eq!(rows[1], "2|zwei|20|[61, 62, 63, 64]", "nothing else counts as written");
    assert_eq!(a.replica.conflicts().unwrap().len(), 0);
}

#[test]
fn any_update_of_a_row_sends_what_was_written_to_its_blob() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    write(&a, "body", 1, b"abcd");
    write(&a, "body", 3, b"efgh");
    a.run("UPDATE doc SET title = 'eins' WHERE id = 1; UPDATE doc SET id = 4 WHERE id = 3");
    let rows = met(&mut a, &mut b);
    assert_eq!(rows[0], "1|eins|1|[61, 62, 63, 64]");
    assert_eq!(rows[2], "4|three|3|[65, 66, 67, 68]");
}

#[test]
fn a_row_of_a_table_without_rowids_goes_with_an_update_that_leaves_it_as_it_is() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE k(k TEXT PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO k VALUES('x', 1), ('y', 1)");
    let mut b = world.clone_site(&mut a, "b");
    a.app.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    a.run("UPDATE k SET v = 2");
    a.app.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true).unwrap();
    a.run("UPDATE k SET v = v WHERE k = 'y'");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM k"), ["x|1", "y|2"]);
    assert_eq!(problems(&a), [format!("table k, row 'x': {UNCAPTURED}")]);
}

/// One byte of a sum is the same for one value in 256.
#[test]
fn no_blob_is_missed() {
    let world = World::new();
    let sql = "CREATE TABLE doc(id INTEGER PRIMARY KEY, n, body BLOB); WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL \
        SELECT n + 1 FROM r WHERE n < 3000) INSERT INTO doc SELECT n, 0, zeroblob(8) FROM r";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("BEGIN");
    (1..=3000i64).for_each(|row| write(&a, "body", row, &row.to_le_bytes()));
    a.run("UPDATE doc SET n = 1 WHERE id % 2; UPDATE doc SET n = n WHERE id % 2 = 0; COMMIT");
    settle(&mut a, &mut b);
    assert_eq!(dump(&a.app, &["doc"]), dump(&b.app, &["doc"]));
}

#[test]
fn of_other_columns_an_update_that_leaves_a_row_as_it_is_sends_what_was_written() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    write(&a, "title", 2, b"TWO");
    a.run("UPDATE doc SET n = 20 WHERE id = 2; UPDATE doc SET n = n WHERE id = 2");
    b.run("UPDATE doc SET body = x'01' WHERE id = 2");
    assert_eq!(met(&mut a, &mut b)[1], "2|TWO|20|[01]");
}

#[test]
fn a_blob_that_is_written_to_before_a_column_is_added_goes_with_its_row() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    write(&a, "body", 1, b"abcd");
    a.run("UPDATE doc SET body = body WHERE id = 1; ALTER TABLE doc ADD COLUMN more");
    b.run("ALTER TABLE doc ADD COLUMN more");
    assert_eq!(met(&mut a, &mut b)[0], "1|one|1|[61, 62, 63, 64]");
}

#[test]
fn a_blob_that_is_written_to_in_a_new_row_goes_with_it() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO doc VALUES(4, 'four', 4, zeroblob(4))");
    write(&a, "body", 4, b"abcd");
    assert_eq!(met(&mut a, &mut b)[3], "4|four|4|[61, 62, 63, 64]");
}

#[test]
fn a_row_beside_others_that_are_written_is_still_found() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    write(&a, "body", 2, b"abcd");
    a.run("UPDATE doc SET n = 10 WHERE id <> 2");
    b.run("UPDATE doc SET title = 'x' WHERE id <> 2");
    settle(&mut a, &mut b);
    assert_eq!(problems(&a), [format!("table doc, row 2: {UNCAPTURED}")]);
    a.run("UPDATE doc SET title = title WHERE id = 2");
    assert_eq!(met(&mut a, &mut b)[1], "2|two|2|[61, 62, 63, 64]");
}

#[test]
fn what_was_written_with_triggers_off_goes_with_an_update_that_leaves_the_row_as_it_is() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.app.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    a.run("UPDATE doc SET title = 'eins', n = 10 WHERE id = 1");
    a.app.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, true).unwrap();
    assert_eq!(problems(&a), [format!("table doc, row 1: {UNCAPTURED}")]);
    a.run("UPDATE doc SET body = body WHERE id = 1");
    assert_eq!(met(&mut a, &mut b)[0], "1|eins|10|[00, 00, 00, 00]");
}

#[test]
fn no_update_is_advised_where_it_would_tell_nobody() {
    let world = World::new();
    let a = world
        .init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES(1, 1)");
    a.app.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    a.run("UPDATE t SET u = 2");
    assert_eq!(problems(&a), ["table t, row 1: it was changed without being captured"]);
}

/// A trigger that was made since the last command runs before ours, and may keep them from firing: RAISE(IGNORE) passes
/// over the rest, and a statement that fails keeps what it has done.
#[test]
fn what_a_later_trigger_kept_from_being_captured_is_found() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    for (event, row) in [("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old")] {
        let made = format!(
            "CREATE TRIGGER early_{event} AFTER {event} ON doc WHEN {row}.title LIKE '%!' \
             BEGIN SELECT RAISE(IGNORE); END"
        );
        a.run(&made);
    }
    b.run("UPDATE doc SET n = 7 WHERE id = 1");
    a.run("INSERT INTO doc(title, n) VALUES('four!', 4)");
    a.run(
        "UPDATE doc SET title = 'one!' WHERE id = 1; UPDATE doc SET title = 'three!' WHERE id = 3",
    );
    a.run("DELETE FROM doc WHERE id = 3; DELETE FROM doc WHERE id = 2");
    let rows = met(&mut a, &mut b);
    assert_eq!(rows, ["1|one!|7|[00, 00, 00, 00]", "4|four!|4|NULL"]);
    // From now on ours come first.
    a.run("UPDATE doc SET n = 8 WHERE id = 1; DELETE FROM doc WHERE id = 4");
    assert_eq!(met(&mut a, &mut b), ["1|one!|8|[00, 00, 00, 00]"]);
    a.run("CREATE TRIGGER failing AFTER UPDATE ON doc BEGIN SELECT RAISE(FAIL, 'no') WHERE new.n = 9; END");
    assert!(a.app.execute("UPDATE doc SET n = 9", []).is_err());
    assert_eq!(met(&mut a, &mut b), ["1|one!|9|[00, 00, 00, 00]"]);
}

/// Of a trigger for one connection alone nothing is left to be found by.
#[test]
fn what_a_trigger_of_a_connection_kept_from_being_captured_is_named() {
    let world = World::new();
    let a = world.init("a", SCHEMA);
    a.run("CREATE TEMP TRIGGER mine AFTER DELETE ON doc BEGIN SELECT RAISE(IGNORE); END");
    a.run("DELETE FROM doc WHERE id = 2");
    assert_eq!(
        problems(&a),
        ["table doc, row 2: it disappeared from the table without being captured"]
    );
}

/// A trigger that was made since the last command has its own row come and go, or gives it another key, before ours have
/// noted what REPLACE did to that.
#[test]
fn what_a_later_trigger_did_to_its_own_row_goes_with_what_was_done_before() {
    let another = "UPDATE t SET id = new.id + 100 WHERE id = new.id";
    let again = "DELETE FROM t WHERE id = new.id; INSERT INTO t VALUES(new.id, new.u, 'again')";
    let replaced = "REPLACE INTO t VALUES(new.id, new.u, 'rep')";
    let schemas =
        ["id INTEGER PRIMARY KEY, u INTEGER UNIQUE, v", "id INT PRIMARY KEY, u INTEGER UNIQUE, v"];
    let rows = "INSERT INTO t VALUES(1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c')";
    for (schema, end) in [(schemas[0], ""), (schemas[1], ""), (schemas[1], "WITHOUT ROWID")] {
        for body in [another, again, replaced] {
            let world = World::new();
            let mut a = world.init("a", &format!("CREATE TABLE t({schema}) {end}; {rows}"));
            let mut b = world.clone_site(&mut a, "b");
            a.run(&format!(
                "CREATE TRIGGER g AFTER INSERT ON t WHEN new.id < 100 BEGIN {body}; END"
            ));
            a.run("REPLACE INTO t VALUES(2, 61, 'new'); REPLACE INTO t VALUES(9, 30, 'moved')");
            a.run("INSERT INTO t VALUES(3, 65, 'later')");
            settle(&mut a, &mut b);
            assert_eq!(dump(&a.app, &["t"]), dump(&b.app, &["t"]), "{schema} {end} {body}");
            assert_eq!(problems(&a), [""; 0], "{schema} {end} {body}");
        }
    }
}
