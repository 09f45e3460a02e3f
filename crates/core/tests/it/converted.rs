//! Keys that SQLite converts, for the sake of foreign keys of another type, before triggers see them.

use crate::site::{World, settle};
use synqlite_core::{LogQuery, Replica};

/// SQLite looks for children by an index under their column's affinity, and converts the key for it: what
/// runs after that sees `1` in OLD where the row had `'01'`.
#[test]
fn a_key_is_spelled_as_the_row_had_it_whatever_type_its_children_are_of() {
    for (key, tail) in [
        ("k NOT NULL PRIMARY KEY, w", "WITHOUT ROWID"),
        ("k TEXT PRIMARY KEY, w", ""),
        ("k TEXT NOT NULL, l NOT NULL DEFAULT '02', w, PRIMARY KEY(k, l)", "WITHOUT ROWID"),
        ("id INTEGER PRIMARY KEY, k UNIQUE, w", ""),
    ] {
        for action in ["CASCADE", "NO ACTION", "SET NULL"] {
            let world = World::new();
            let refers = match key.contains("l)") {
                true => "q INTEGER, y INTEGER DEFAULT 2, FOREIGN KEY(q, y) REFERENCES p(k, l)",
                false => "q INTEGER, FOREIGN KEY(q) REFERENCES p(k)",
            };
            let sql = format!(
                "CREATE TABLE p({key}) {tail};
                 CREATE TABLE c(id TEXT PRIMARY KEY, {refers} ON DELETE {action});
                 CREATE INDEX i ON c(q)"
            );
            let mut a = world.init("a", &sql);
            let mut b = world.clone_site(&mut a, "b");
            a.run("INSERT INTO p(k, w) VALUES('01', 'a'), ('02', 'b'), ('03', 'c'), ('1e1', 'd')");
            settle(&mut a, &mut b);
            a.run("UPDATE p SET k = '07' WHERE k = '01'");
            a.run("DELETE FROM p WHERE k = '02'");
            a.run("DELETE FROM p WHERE k = '03'");
            b.run("UPDATE p SET w = 'e' WHERE k = '1e1'");
            a.run("UPDATE p SET k = '1e2' WHERE k = '1e1'");
            a.replica.fold().unwrap();
            let what = format!("{sql}: {:?}", a.replica.verify_full().unwrap());
            assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{what}");
            settle(&mut a, &mut b);
            for site in [&a, &b] {
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{what}");
                assert_eq!(site.rows("SELECT k, w FROM p ORDER BY k"), ["07|a", "1e2|e"], "{what}");
            }
            a.run("INSERT INTO p(k, w) VALUES('02', 'again')");
            settle(&mut a, &mut b);
            assert_eq!(
                a.rows("SELECT k, w FROM p ORDER BY k"),
                b.rows("SELECT k, w FROM p ORDER BY k")
            );
        }
    }
}

/// SQLite converts both keys into one number, so to what runs after that the key is what it was; and it finds
/// no child that would keep it from changing.
#[test]
fn a_key_that_is_spelled_otherwise_is_a_change_whatever_type_its_children_are_of() {
    for (key, tail) in
        [("k TEXT PRIMARY KEY, w", ""), ("k TEXT PRIMARY KEY NOT NULL, w", "WITHOUT ROWID")]
    {
        for action in ["RESTRICT", "CASCADE", "SET NULL"] {
            let world = World::new();
            let sql = format!(
                "CREATE TABLE p({key}) {tail}; CREATE INDEX w ON p(w);
                 CREATE TABLE c(id TEXT PRIMARY KEY, q INTEGER REFERENCES p(k) ON UPDATE {action});
                 CREATE INDEX i ON c(q); INSERT INTO p VALUES('1', 'a'), ('2', 'b'); INSERT INTO c VALUES('x', 1)"
            );
            let mut a = world.init("a", &sql);
            let mut b = world.clone_site(&mut a, "b");
            a.run(
                "UPDATE p SET k = '01' WHERE k = '1'; UPDATE p SET k = '02', w = 'c' WHERE k = '2'",
            );
            a.replica.fold().unwrap();
            assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{sql}");
            settle(&mut a, &mut b);
            for site in [&a, &b] {
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{sql}");
                assert_eq!(site.rows("SELECT k, w FROM p ORDER BY k"), ["01|a", "02|c"], "{sql}");
            }
            assert_eq!(a.rows("SELECT * FROM c"), b.rows("SELECT * FROM c"), "{sql}");
        }
    }
}

/// A key that SQLite converts into one that another row has, which gives way; then the old key is used anew.
#[test]
fn a_converted_key_that_displaces_another_and_is_used_anew_at_once() {
    for (key, tail) in [
        ("k PRIMARY KEY ON CONFLICT REPLACE NOT NULL, u UNIQUE, w", "WITHOUT ROWID"),
        ("k PRIMARY KEY ON CONFLICT REPLACE, u UNIQUE, w", ""),
    ] {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE p({key}) {tail}; CREATE TABLE c(r INTEGER REFERENCES p(k) ON UPDATE CASCADE);
             CREATE INDEX i ON c(r)"
        );
        let mut a = world.init("a", &sql);
        let mut b = world.clone_site(&mut a, "b");
        b.run("INSERT INTO p VALUES(0.0, NULL, 'old')");
        settle(&mut a, &mut b);
        b.run(
            "INSERT INTO p VALUES('-0', NULL, 'new'); UPDATE p SET k = 0.0 WHERE k = '-0'; \
             INSERT INTO p VALUES('-0', 1, 'anew')",
        );
        let shown = b.rows("SELECT k, u, w FROM p ORDER BY w");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{sql}");
            assert_eq!(site.rows("SELECT k, u, w FROM p ORDER BY w"), shown, "{sql}");
        }
    }
}

/// The same where the row that had the key gave way before, for another reason.
#[test]
fn a_converted_key_that_another_row_had_until_it_was_displaced() {
    let world = World::new();
    let sql = "CREATE TABLE p(k BLOB PRIMARY KEY NOT NULL, u UNIQUE, w) WITHOUT ROWID; \
        CREATE TABLE c(r INTEGER REFERENCES p(k) ON UPDATE CASCADE); CREATE INDEX i ON c(r); \
        INSERT INTO p VALUES(1.0, 'u', 'old')";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    b.run("REPLACE INTO p VALUES('01', 'u', 'new')");
    std::thread::sleep(std::time::Duration::from_millis(2));
    b.run("UPDATE p SET k = 1.0 WHERE k = '01'");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        assert_eq!(site.rows("SELECT k, u, w FROM p"), ["1.0|u|new"]);
    }
}

/// The same of the key that is written, which SQLite converts while references are open.
#[test]
fn a_key_is_spelled_as_it_was_written_while_references_are_open() {
    let table = |name: &str, deferred: &str| {
        format!(
            "CREATE TABLE {name}(k TEXT PRIMARY KEY NOT NULL, w, \
             r INTEGER REFERENCES {name}(k) {deferred}) WITHOUT ROWID; CREATE INDEX {name}_r ON {name}(r)"
        )
    };
    for writes in [
        "INSERT INTO t VALUES('01', 'a', 0), ('0', 'b', NULL), ('2', 'c', NULL)",
        "INSERT INTO t VALUES('01', 'a', 0), ('1', 'd', 1), ('001', 'e', 2), ('0', 'b', NULL), ('2', 'c', 1)",
        "INSERT INTO t VALUES('0.0', 'a', NULL); UPDATE t SET k = '0.0', w = 'b' WHERE k = '0.0'",
        "INSERT INTO d VALUES('01', 'a', NULL), ('1', 'c', NULL); BEGIN; INSERT INTO d VALUES('5', 'x', 7); \
         UPDATE d SET k = k, w = 'z' WHERE k = '01'; INSERT INTO d VALUES('7', 'b', NULL); COMMIT",
        "BEGIN; INSERT INTO d VALUES('5', 'x', 7); INSERT INTO d VALUES('01', 'a', NULL); \
         INSERT INTO d VALUES('7', 'b', NULL); COMMIT",
        "INSERT INTO d VALUES('x', 'a', NULL), ('3', 'b', NULL); \
         BEGIN; INSERT INTO d VALUES('5', 'x', 7); UPDATE d SET k = '01' WHERE k = 'x'; \
         INSERT INTO d VALUES('7', 'b', NULL); COMMIT",
        "INSERT INTO d VALUES('x', 'a', NULL), ('3', 'b', NULL); \
         BEGIN; INSERT INTO d VALUES('5', 'x', 7); UPDATE d SET k = '01' WHERE k = 'x'; \
         DELETE FROM d WHERE k = '01'; INSERT INTO d VALUES('7', 'b', NULL); COMMIT",
    ] {
        for folded in [false, true] {
            let world = World::new();
            let deferred = "DEFERRABLE INITIALLY DEFERRED";
            let mut a = world.init("a", &format!("{}; {}", table("t", ""), table("d", deferred)));
            let mut b = world.clone_site(&mut a, "b");
            for (i, write) in writes.splitn(2, "; BEGIN").enumerate() {
                a.run(if i == 0 { write.to_owned() } else { format!("BEGIN{write}") }.as_str());
                if folded {
                    a.replica.fold().unwrap();
                }
            }
            b.pull(&mut a);
            for site in [&a, &b] {
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{writes}");
            }
            let all = "SELECT * FROM t UNION ALL SELECT * FROM d ORDER BY 1";
            assert_eq!(a.rows(all), b.rows(all), "{writes}");
            crate::migrate::agree(&mut [&mut a, &mut b]);
        }
    }
}

/// The same where no command ran since the foreign key is there, so that only the converted key was noted: it
/// is the row's key from then on, on every site.
#[test]
fn a_key_that_was_noted_as_its_children_have_it_is_the_same_on_all_sites() {
    for tail in ["", "WITHOUT ROWID"] {
        let world = World::new();
        let mut a = world.init(
            "a",
            &format!(
                "CREATE TABLE p(k NOT NULL PRIMARY KEY, w) {tail}; CREATE TABLE c(id INTEGER PRIMARY KEY, q INTEGER);
                 INSERT INTO p VALUES('01', 'old'), ('1', 'old'), ('02', 'old'), (3, 'old')"
            ),
        );
        let mut b = world.clone_site(&mut a, "b");
        a.run("REPLACE INTO p VALUES('01', 'new'); UPDATE p SET w = 'new' WHERE k = '02'");
        let refers = "CREATE TABLE c(id INTEGER PRIMARY KEY, q INTEGER UNIQUE REFERENCES p(k) ON DELETE CASCADE)";
        b.run(&format!("DROP TABLE c; {refers}"));
        b.run("DELETE FROM p");
        b.replica.fold().unwrap();
        settle(&mut a, &mut b);
        crate::migrate::agree(&mut [&mut a, &mut b]);
        assert_eq!(a.rows("SELECT k, w FROM p"), b.rows("SELECT k, w FROM p"), "{tail}");
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT w FROM p"), ["new"], "{tail}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{tail}");
        }
    }
}

/// The same whoever has the foreign key: a table that is new, one that is not replicated, a generated column.
#[test]
fn a_key_that_sqlite_converts_for_another_table_is_captured() {
    let child = |name: &str| {
        format!("CREATE TABLE {name}(id INTEGER PRIMARY KEY, q INTEGER UNIQUE REFERENCES p)")
    };
    let generated =
        "CREATE TABLE g(id INTEGER PRIMARY KEY, v INTEGER, q INTEGER AS (v) UNIQUE REFERENCES p)";
    for tail in ["", "WITHOUT ROWID"] {
        let parent = format!("CREATE TABLE p(k TEXT NOT NULL PRIMARY KEY, w) {tail}");
        for (first, later) in [
            (child("own"), String::new()),
            (String::new(), child("new")),
            (generated.to_owned(), String::new()),
        ] {
            let world = World::new();
            let mut a = world.init_with(
                "a",
                &format!(
                    "{parent}; {first}; INSERT INTO p VALUES('01', 'a'), ('02', 'b'), ('03', 'c')"
                ),
                if first.contains("own") { &[("local_tables", "own")] } else { &[] },
            );
            let mut b = world.clone_site(&mut a, "b");
            for site in [&a, &b] {
                site.run(&later);
            }
            for folded in [false, true] {
                if folded {
                    a.replica.fold().unwrap();
                }
                let (gone, moved) = if folded { ("02", "03") } else { ("01", "02") };
                a.run(&format!("DELETE FROM p WHERE k = '{gone}'"));
                a.run(&format!("UPDATE p SET k = '{moved}9' WHERE k = '{moved}'"));
                a.run(&format!("UPDATE p SET k = '{moved}' WHERE k = '{moved}9'"));
                a.replica.fold().unwrap();
                let what = format!("{parent}; {first}; {later}; {folded}");
                assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{what}");
                settle(&mut a, &mut b);
                assert_eq!(a.rows("SELECT * FROM p"), b.rows("SELECT * FROM p"), "{what}");
                assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "{what}");
            }
            assert_eq!(a.rows("SELECT * FROM p"), ["03|c"], "{parent}; {first}; {later}");
        }
    }
}

/// The same when the foreign key is gone before anybody folds.
#[test]
fn a_key_that_was_converted_for_a_table_dropped_since_is_captured() {
    for tail in ["", "WITHOUT ROWID"] {
        for local in [true, false] {
            let world = World::new();
            let sql = format!(
                "CREATE TABLE p(k TEXT NOT NULL PRIMARY KEY, w) {tail};
                 CREATE TABLE own(id INTEGER PRIMARY KEY, q INTEGER UNIQUE REFERENCES p);
                 INSERT INTO p VALUES('01', 'a'), ('02', 'b'), ('1', 'c')"
            );
            let policies: &[_] = if local { &[("local_tables", "own")] } else { &[] };
            let mut a = world.init_with("a", &sql, policies);
            let mut b = world.clone_site(&mut a, "b");
            a.run("DELETE FROM p WHERE k = '01'");
            a.run("UPDATE p SET k = '07' WHERE k = '02'");
            a.run("INSERT INTO p VALUES('08', 'n'); UPDATE p SET w = 'd' WHERE k = '1'");
            a.run("DELETE FROM p WHERE k = '08'; DROP TABLE own");
            b.run("UPDATE p SET w = 'e' WHERE k = '02'");
            settle(&mut a, &mut b);
            for site in [&a, &b] {
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{sql}");
                assert_eq!(site.rows("SELECT * FROM p ORDER BY k"), ["07|e", "1|d"], "{sql}");
            }
            let digest = |replica: &Replica| replica.digest().unwrap().tables["p"].clone();
            assert_eq!(digest(&a.replica), digest(&b.replica));
        }
    }
}

/// The same when the foreign key came after the row was deleted: its triggers had no reason to look then.
#[test]
fn a_row_that_was_deleted_before_a_foreign_key_of_another_type_keeps_its_values() {
    let world = World::new();
    let table =
        "CREATE TABLE t(k BLOB PRIMARY KEY, u TEXT, r BLOB REFERENCES t(k) ON DELETE CASCADE";
    let mut a = world.init("a", &format!("{table}); INSERT INTO t VALUES('e', NULL, NULL)"));
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO t VALUES('b', NULL, 'e')");
    b.run("DELETE FROM t WHERE k = 'e'");
    for site in [&a, &b] {
        site.run(&format!(
            "PRAGMA foreign_keys = OFF; ALTER TABLE t RENAME TO o; \
             {table}, FOREIGN KEY(u) REFERENCES t(k)); \
             INSERT INTO t SELECT * FROM o; DROP TABLE o; PRAGMA foreign_keys = ON"
        ));
    }
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        let records = site.replica.conflicts().unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].displaced[2].1, synqlite_core::Value::Text(b"e".to_vec()));
    }
}

/// A row that comes under the key which SQLite made of its own, and is replaced under its own, stays.
#[test]
fn a_row_whose_key_was_converted_and_that_is_replaced_is_captured() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE n(k PRIMARY KEY NOT NULL, r INTEGER REFERENCES n(k) ON UPDATE CASCADE, \
         q TEXT REFERENCES n(k) ON DELETE CASCADE) WITHOUT ROWID; CREATE INDEX i ON n(r)",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO n VALUES(1.0, 1.0, NULL), ('-0', NULL, NULL)");
    settle(&mut a, &mut b);
    b.run("PRAGMA recursive_triggers = ON; INSERT INTO n VALUES(0.0, NULL, NULL)");
    // SQLite itself takes the reference to nobody: it looks for children of 1, not of '01'.
    b.run("REPLACE INTO n VALUES('01', 2, '-0')");
    b.run("REPLACE INTO n VALUES('01', '-0', '-0')");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    settle(&mut a, &mut b);
    let rows = ["'-0'|NULL|NULL", "'01'|0|-0", "0.0|NULL|NULL", "1.0|1|NULL"];
    for site in [&a, &b] {
        let mut shown = site.rows("SELECT quote(k), r, q FROM n");
        shown.sort();
        assert_eq!(shown, rows);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// An update that converts the old key and the new one is of the row that was noted, which gives way.
#[test]
fn a_key_that_was_converted_and_displaces_another_in_an_update() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, w) WITHOUT ROWID;
         CREATE TABLE c(k INTEGER PRIMARY KEY, r INT REFERENCES t(k) ON UPDATE SET DEFAULT,
             q INT REFERENCES t(k) ON UPDATE SET DEFAULT);
         CREATE INDEX i ON c(q); INSERT INTO t VALUES('3', 'c'), ('4', 'd'), ('5', 'e')",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO t VALUES('2', 'b'); INSERT INTO c VALUES(4, 3, 2), (5, 3, 5)");
    a.run("UPDATE OR REPLACE t SET k = 4 WHERE k = '2'");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    a.run("UPDATE OR REPLACE t SET k = 4 WHERE k = '5'");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k, w FROM t ORDER BY k"), ["3|c", "4|e"]);
        assert_eq!(site.rows("SELECT * FROM c ORDER BY k"), ["4|3|NULL", "5|3|NULL"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// What is ignored has noted the row that it met, and a moment later that row gets a key spelled otherwise.
#[test]
fn a_key_that_is_spelled_otherwise_just_after_an_insert_that_met_it() {
    let sql = "CREATE TABLE t(k BLOB PRIMARY KEY NOT NULL, w, r, q TEXT, \
               FOREIGN KEY(r) REFERENCES t(k) ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED, \
               FOREIGN KEY(q) REFERENCES t(k)) WITHOUT ROWID; INSERT INTO t VALUES(0.0, 'a', 0.0, NULL)";
    for met in [
        "INSERT OR IGNORE INTO t VALUES(0.0, 'b', 1, NULL)",
        "INSERT INTO t VALUES(5, 'b', 5, NULL); UPDATE OR IGNORE t SET k = 0.0 WHERE k = 5; \
         DELETE FROM t WHERE k = 5",
    ] {
        let world = World::new();
        let mut a = world.init("a", sql);
        let mut b = world.clone_site(&mut a, "b");
        a.run(&format!("BEGIN; {met}; UPDATE t SET k = '0' WHERE k = 0.0; COMMIT"));
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{met}");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT typeof(k), k, w FROM t"), ["text|0|a"], "{met}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{met}");
        }
    }
}

/// An update that was ignored met a row whose key may be taken for that of the next row of the statement. The next
/// one went where it says.
#[test]
fn a_key_like_that_of_a_row_which_an_ignored_update_met() {
    let world = World::new();
    let made = "CREATE TABLE t(k INTEGER, l NOT NULL, w, r INTEGER, s TEXT, PRIMARY KEY(k, l),
        FOREIGN KEY(r, s) REFERENCES t(k, l) ON DELETE SET DEFAULT) WITHOUT ROWID;
        INSERT INTO t(k, l, w) VALUES(1, '01', 'one'), (2, '01', 'met it'), (2, '1', 'went')";
    let mut a = world.init("a", made);
    let mut b = world.clone_site(&mut a, "b");
    b.run("UPDATE OR IGNORE t SET k = 1 WHERE k = 2");
    b.run("DELETE FROM t WHERE k = 1 AND l = '01'");
    a.pull(&mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k, l, w FROM t ORDER BY w"), ["2|01|met it", "1|1|went"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    let query = LogQuery { table: None, row: Some("1, '1'".into()), limit: Some(9) };
    let told = a.replica.log(&query).unwrap().into_iter().map(|e| (e.site, e.change.name()));
    let want = [(b.replica.site(), "update"), (a.replica.site(), "insert")];
    assert_eq!(told.collect::<Vec<_>>(), want, "it is the row that it was");
}

/// A row that gives way by another key than that by which others have converted it.
#[test]
fn a_row_that_is_displaced_by_another_key_than_the_converted_one_keeps_its_values() {
    for (tail, before) in
        [("WITHOUT ROWID", ""), ("WITHOUT ROWID", "UPDATE p SET w = w || '.';"), ("", "")]
    {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE p(k BLOB PRIMARY KEY NOT NULL, u TEXT UNIQUE, w, r REFERENCES p(u)) {tail}; \
             CREATE TABLE c(id INTEGER PRIMARY KEY, q TEXT UNIQUE REFERENCES p(k)); \
             INSERT INTO p VALUES(3, 'a', 'old', NULL), ('2', 'b', 'refers', 'a')"
        );
        let mut a = world.init("a", &sql);
        let mut b = world.clone_site(&mut a, "b");
        b.run(&format!("{before} REPLACE INTO p VALUES('0', 'a', 'new', NULL)"));
        let shown = b.rows("SELECT k, u, w, r FROM p ORDER BY w");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{sql}");
            assert_eq!(site.rows("SELECT k, u, w, r FROM p ORDER BY w"), shown, "{sql}");
        }
    }
}
