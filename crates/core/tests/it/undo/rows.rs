//! One row is named by its key as SQL writes it, or bare.

use super::{historical, now, of_row, since, undo};
use crate::site::{Site, World};
use synqlite_core::{LogQuery, Selection};

/// What is taken back of a row that the log has too; why there is none.
fn found(site: &mut Site, table: &str, row: &str) -> Result<Vec<String>, String> {
    let query =
        LogQuery { table: Some(table.into()), row: Some(row.into()), ..LogQuery::default() };
    let log = site.replica.log(&query).map_err(|e| e.to_string());
    match site.replica.undo(&of_row(table, row), true) {
        Ok(undone) => {
            assert!(!log.unwrap().is_empty(), "{row}");
            Ok(undone.taken.into_iter().map(|taken| taken.row).collect())
        }
        Err(e) => {
            assert_eq!(log, Err(e.to_string()), "{row}");
            Err(e.to_string())
        }
    }
}

#[track_caller]
fn is_found(site: &mut Site, table: &str, row: &str, name: &str) {
    assert_eq!(found(site, table, row), Ok(vec![name.to_owned()]), "{table} {row}");
}

const KEYS: &str = "
     CREATE TABLE b(k BLOB PRIMARY KEY, v);
     INSERT INTO b VALUES(x'00112233', 0), (x'ff112233', 0), ('x''00112233''', 0),
       (zeroblob(70), 0), (cast(x'02' || zeroblob(69) AS BLOB), 0);
     CREATE TABLE r(k REAL PRIMARY KEY, v); INSERT INTO r VALUES(1, 0), (2.5, 0);
     CREATE TABLE i(k INTEGER PRIMARY KEY, v); INSERT INTO i VALUES(7, 0), (-7, 0);
     CREATE TABLE c(k TEXT COLLATE NOCASE PRIMARY KEY, v); INSERT INTO c VALUES('Oslo', 0);
     CREATE TABLE s(k TEXT, v, PRIMARY KEY(k COLLATE RTRIM)); INSERT INTO s VALUES('a', 0);
     CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES('01', 0), ('1', 0), ('it''s', 0), ('it''''s', 0);
     CREATE TABLE n(k PRIMARY KEY, v); INSERT INTO n VALUES(1, 0), ('1', 0), ('2', 0), ('a,b', 0);
     CREATE TABLE z(v); INSERT INTO z VALUES(0);";

#[test]
fn a_key_is_compared_as_sqlite_compares_it() {
    let world = World::new();
    let mut a = historical(&world, "a", KEYS);
    for table in ["b", "r", "i", "c", "s", "t", "n", "z"] {
        a.run(&format!("UPDATE {table} SET v = 1"));
    }
    for (table, row, name) in [
        ("b", "x'00112233'", "x'00112233'"),
        ("b", "X'FF112233'", "x'ff112233'"),
        ("b", "'x''00112233'''", "'x''00112233'''"),
        ("r", "1.0", "1"),
        ("r", "1", "1"),
        ("r", "25e-1", "2.5"),
        ("i", "7.0", "7"),
        ("i", "'7'", "7"),
        ("i", "-7", "-7"),
        ("c", "oslo", "'Oslo'"),
        ("c", "'OSLO'", "'Oslo'"),
        ("s", "'a  '", "'a'"),
        ("t", "01", "'01'"),
        ("t", "'1'", "'1'"),
        ("t", "1", "'1'"),
        ("t", "it's", "'it''s'"),
        ("t", "'it''s'", "'it''s'"),
        ("t", "'it's'", "'it''s'"),
        ("t", "'it''''s'", "'it''''s'"),
        ("t", "it''s", "'it''''s'"),
        ("n", "1", "1"),
        ("n", "'1'", "'1'"),
        ("n", "2", "'2'"),
        ("n", "a,b", "'a,b'"),
        ("z", "1", "rowid 1"),
        ("z", "rowid 1", "rowid 1"),
    ] {
        is_found(&mut a, table, row, name);
    }
    let nobody = |table: &str, row: &str| {
        Err(format!("no change concerns a row of table {table} with the key {row}"))
    };
    for (table, row) in [("b", "x'00'"), ("b", "x'0'"), ("i", "8"), ("c", "Bergen"), ("z", "9")] {
        assert_eq!(found(&mut a, table, row), nobody(table, row));
    }
    let several = Err("several rows are called a blob of 70 B; say the key of one".to_owned());
    assert_eq!(found(&mut a, "b", "a blob of 70 B"), several);
}

#[test]
fn the_row_that_the_log_names_is_the_one() {
    let world = World::new();
    let mut a = historical(&world, "a", KEYS);
    a.run("UPDATE b SET v = 'new' WHERE k = x'ff112233'");
    a.replica.fold().unwrap();
    now();
    a.run("UPDATE b SET v = 'new' WHERE k = x'00112233'");
    a.replica.fold().unwrap();
    let named = a.replica.log(&LogQuery::default()).unwrap()[1].row.clone();
    assert_eq!(undo(&mut a, &of_row("b", &named)), ["b x'ff112233' update v=0"]);
}

/// A row of which nothing is to be taken back is known all the same.
#[test]
fn a_row_without_changes_is_no_mistake() {
    let world = World::new();
    let mut a = historical(&world, "a", KEYS);
    let t = now();
    a.run("DELETE FROM i WHERE k = 7; UPDATE i SET v = 1");
    let of = |row: &str| Selection { since_ms: Some(t), ..of_row("i", row) };
    assert_eq!(undo(&mut a, &of_row("n", "1")), [""; 0]);
    assert_eq!(undo(&mut a, &of("7.0")), ["i 7 delete"]);
    assert_eq!(undo(&mut a, &of("7")), [""; 0]);
    assert_eq!(undo(&mut a, &since(t)), ["i -7 update v=0"]);
}

/// The parts of a key stand between commas; what can mean two rows is refused with both.
#[test]
fn the_parts_of_a_key() {
    let world = World::new();
    let sql = "CREATE TABLE t(a TEXT, b, v, PRIMARY KEY(a, b));
         INSERT INTO t VALUES('x, y', 1, 0), ('it''s', 2, 0), ('p', '3', 0);
         CREATE TABLE u(a, b, v, PRIMARY KEY(a, b));
         INSERT INTO u VALUES('x', 'y', 0), (1, 2, 0), ('1', 3, 0), (1, '3', 0)";
    let mut a = historical(&world, "a", sql);
    a.run("UPDATE t SET v = 1; UPDATE u SET v = 1");
    for (table, row, name) in [
        ("t", "'x, y',1", "'x, y', 1"),
        ("t", "'x, y', 1.0", "'x, y', 1"),
        ("t", "'it''s', 2", "'it''s', 2"),
        ("t", "p,'3'", "'p', '3'"),
        ("u", "x,y", "'x', 'y'"),
        ("u", "'x', 'y'", "'x', 'y'"),
        ("u", "1,2", "1, 2"),
        ("u", "'1', 3", "'1', 3"),
    ] {
        is_found(&mut a, table, row, name);
    }
    for (table, row) in [("t", "x, y, 1"), ("t", "x,1"), ("t", "it's,2"), ("u", "1")] {
        assert!(found(&mut a, table, row).is_err(), "{row}");
    }
    let several = Err("1, 3 is the key of no row, and could mean 1, '3' or '1', 3".to_owned());
    assert_eq!(found(&mut a, "u", "1, 3"), several);
}

/// Keys that a line cannot hold are named by their bytes; a NUL cannot even stand on a command line.
#[test]
fn a_key_that_no_line_holds_is_named_by_its_bytes() {
    let world = World::new();
    let mut a = historical(
        &world,
        "a",
        "CREATE TABLE t(k TEXT PRIMARY KEY, v);
         INSERT INTO t VALUES('a' || char(0) || 'b', 0), ('a', 0), ('two' || char(10) || 'lines', 0),
           ('two\\nlines', 0), (char(27) || '[31m', 0), (CAST(x'61ff' AS TEXT), 0);
         CREATE TABLE p(a TEXT, b, v, PRIMARY KEY(a, b));
         INSERT INTO p VALUES('x' || char(0) || ', y', 1, 0)",
    );
    a.run("UPDATE t SET v = 1; UPDATE p SET v = 1");
    let names = [
        ("t", "CAST(x'610062' AS TEXT)"),
        ("t", "'a'"),
        ("t", "CAST(x'74776f0a6c696e6573' AS TEXT)"),
        ("t", "'two\\nlines'"),
        ("t", "CAST(x'1b5b33316d' AS TEXT)"),
        ("t", "CAST(x'61ff' AS TEXT)"),
        ("p", "CAST(x'78002c2079' AS TEXT), 1"),
    ];
    let log = a.replica.log(&LogQuery::default()).unwrap();
    for (table, name) in names {
        assert!(
            log.iter().any(|entry| entry.table == table && entry.row == name),
            "{name}: {log:?}"
        );
        is_found(&mut a, table, name, name);
    }
    is_found(&mut a, "t", " cast( X'610062' as text ) ", names[0].1);
    is_found(&mut a, "t", "two\nlines", names[2].1);
    is_found(&mut a, "p", "cast(x'78002C2079' as text),1.0", names[6].1);
}
