//! What people read of merges: rows by the keys that they have, constraints as they were declared, and
//! nothing of what nobody did.

use crate::site::{Site, World};
use std::time::Duration;
use synqlite_core::Conflict;

/// Two sites of one database, after each has run a script, the second later.
fn two(schema: &str, first: &str, second: &str) -> (World, Site, Site) {
    let world = World::new();
    let mut a = world.init("a", schema);
    let b = world.clone_site(&mut a, "b");
    a.run(first);
    std::thread::sleep(Duration::from_millis(3));
    b.run(second);
    (world, a, b)
}

/// What the second site says when it has pulled from the first.
fn said(schema: &str, first: &str, second: &str) -> (Vec<String>, Vec<Conflict>) {
    let (_world, mut a, mut b) = two(schema, first, second);
    let merged = b.replica.pull_from(&mut a.replica, false).unwrap().merged;
    let lines = merged.decisions.iter().map(|d| format!("{} {}: {}", d.table, d.row, d.what));
    (lines.collect(), b.replica.conflicts().unwrap())
}

#[test]
fn a_winner_is_named_by_its_key_and_a_unique_key_by_its_columns() {
    let (lines, conflicts) = said(
        "CREATE TABLE user(id INTEGER PRIMARY KEY, email UNIQUE); INSERT INTO user VALUES(57, 'x')",
        "INSERT INTO user(email) VALUES('first'), ('same')",
        "INSERT INTO user VALUES(70, 'same')",
    );
    assert_eq!(lines, ["user 70: hidden: row 59 has the earlier claim to its UNIQUE (email)"]);
    assert_eq!((&*conflicts[0].row, conflicts[0].winner.as_deref()), ("70", Some("59")));
    assert_eq!((&*conflicts[0].constraint, &*conflicts[0].declared), ("email", "UNIQUE (email)"));
}

#[test]
fn rows_of_one_number_are_told_apart() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v UNIQUE)";
    let (lines, _) = said(schema, "INSERT INTO t VALUES(1, 'v')", "INSERT INTO t VALUES(1, 'v')");
    assert_eq!(lines, ["t 1: hidden: another row 1 has the earlier claim to its UNIQUE (v)"]);
    let (lines, _) = said(schema, "INSERT INTO t VALUES(1, 'v')", "INSERT INTO t VALUES(1, 'w')");
    assert_eq!(lines, ["t 2: 1 became 2, as an earlier row has 1"]);
}

#[test]
fn indexes_are_told_as_they_were_declared() {
    let named = |index: &str, of: &str| {
        let schema = format!(
            "CREATE TABLE \"the t\"(id TEXT PRIMARY KEY, \"a b\", c TEXT COLLATE NOCASE); {index};
             INSERT INTO \"the t\" VALUES('k', 1, 'x'), ('l', 2, 'y')"
        );
        let update = |id| format!("UPDATE \"the t\" SET \"a b\" = 3, c = 'z' WHERE id = '{id}'");
        let (lines, conflicts) = said(&schema, &update("k"), &update("l"));
        let want = "the t 'l': shows its former value: row 'k' has the earlier claim to its";
        assert_eq!(lines, [format!("{want} {of}")]);
        assert_eq!(conflicts[0].declared, of);
    };
    named("CREATE UNIQUE INDEX i ON \"the t\"(\"a b\", c)", "UNIQUE (\"a b\", c)");
    named(
        "CREATE UNIQUE INDEX i ON \"the t\"(lower(c)) WHERE c > ''",
        "UNIQUE (lower(c)) WHERE c > ''",
    );
    named("CREATE UNIQUE INDEX i ON \"the t\"(c COLLATE BINARY)", "UNIQUE (c COLLATE BINARY)");
}

#[test]
fn a_row_that_shows_a_former_key_is_named_by_it() {
    let schema = "CREATE TABLE t(id TEXT PRIMARY KEY, v); INSERT INTO t VALUES('k', 1), ('l', 2)";
    let (lines, conflicts) = said(
        schema,
        "UPDATE t SET id = 'm' WHERE id = 'k'",
        "UPDATE t SET id = 'm' WHERE id = 'l'",
    );
    let want =
        "t 'l': shows its former value: row 'm' has the earlier claim to its PRIMARY KEY (id)";
    assert_eq!(lines, [want]);
    assert_eq!((&*conflicts[0].row, conflicts[0].winner.as_deref()), ("'l'", Some("'m'")));
}

#[test]
fn rows_without_a_key_go_by_their_rowids() {
    let schema = "CREATE TABLE t(v UNIQUE, w); INSERT INTO t VALUES('x', 1)";
    let (lines, conflicts) =
        said(schema, "INSERT INTO t VALUES('s', 1)", "INSERT INTO t VALUES('s', 2)");
    assert_eq!(conflicts[0].winner.as_deref(), Some("rowid 2"));
    let wanted = ": hidden: rowid 2 has the earlier claim to its UNIQUE (v)";
    assert!(lines.len() == 1 && lines[0].ends_with(wanted), "{lines:?}");

    let (_world, mut a, mut b) = two(schema, "UPDATE t SET w = 2", "UPDATE t SET w = 3");
    let here = b.replica.site().to_string();
    let merged = b.replica.pull_from(&mut a.replica, false).unwrap().merged;
    assert_eq!(merged.decisions[0].row, format!("rowid 1 at site {}", &here[..8]));
    // Elsewhere it may have another.
    a.pull(&mut b);
    let closed = a.replica.closed_conflicts().unwrap();
    assert_eq!(closed[0].row, format!("rowid 1 at site {}", &here[..8]));
}

#[test]
fn what_a_reference_waits_for_is_named_by_its_table() {
    let (lines, conflicts) = said(
        "CREATE TABLE list(id INTEGER PRIMARY KEY);
         CREATE TABLE todo(id INTEGER PRIMARY KEY, of REFERENCES list ON DELETE CASCADE);
         INSERT INTO list VALUES(1)",
        "DELETE FROM list",
        "INSERT INTO todo VALUES(5, 1)",
    );
    assert_eq!(
        lines,
        ["todo 5: hidden: FOREIGN KEY (of) refers to a row of list that was deleted"]
    );
    assert_eq!(conflicts[0].declared, "FOREIGN KEY (of)");
}

/// A rebuild fills in a column that another site has written: it is told, but nobody decided against
/// anybody.
#[test]
fn what_a_rebuild_left_is_no_decision() {
    let (_world, mut a, mut b) = two(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1, 'x')",
        "CREATE TABLE n(id INTEGER PRIMARY KEY, v, w); INSERT INTO n SELECT id, v, 7 FROM t;
         DROP TABLE t; ALTER TABLE n RENAME TO t;",
        "ALTER TABLE t ADD COLUMN w; UPDATE t SET w = 8",
    );
    let merged = b.replica.pull_from(&mut a.replica, false).unwrap().merged;
    assert_eq!(merged.decisions, []);
    let closed = b.replica.closed_conflicts().unwrap();
    assert!(
        closed[0].what.starts_with("w: 7 as a rebuild left it gives way to 8 of"),
        "{closed:?}"
    );
}

/// Who wrote one of two columns that a CHECK reads wonders why the other is said to have been written too.
#[test]
fn columns_that_a_check_reads_are_told_together_and_why() {
    let (_world, mut a, mut b) = two(
        "CREATE TABLE item(k TEXT PRIMARY KEY, stock, reserved, note, CHECK(reserved <= stock));
         INSERT INTO item VALUES('x', 10, 2, 'n')",
        "UPDATE item SET stock = 4, note = 'few'",
        "UPDATE item SET reserved = 7, note = 'much'",
    );
    b.pull(&mut a);
    let what: Vec<String> =
        b.replica.closed_conflicts().unwrap().into_iter().map(|c| c.what).collect();
    let of = |column: &str| what.iter().find(|what| what.starts_with(column)).unwrap();
    let why = "which is later and wins; a key or a CHECK reads these columns together, so they are of one site";
    assert!(of("stock, reserved: 4, 2 ").ends_with(why), "{what:?}");
    assert!(of("note: ").ends_with("which is later and wins"), "{what:?}");
}
