//! What the triggers must see, whatever the application does.

use crate::site::{Site, World, settle};
use synqlite_core::Error;

/// Two sites that begin alike; `a` runs `sql`; afterwards both must show the same.
fn replicates(schema: &str, sql: &[&str], query: &str) -> (World, Site, Site) {
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    sql.iter().for_each(|sql| a.run(sql));
    let before = a.rows(query);
    settle(&mut a, &mut b);
    assert_eq!(a.rows(query), before, "folding its own changes never changes what a site shows");
    assert_eq!(b.rows(query), before);
    (world, a, b)
}

#[test]
fn inserts_updates_and_deletes_of_a_rowid_table() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b);
                  INSERT INTO t VALUES(1,'x',1),(2,'y',2),(3,'z',3);";
    let sql = [
        "UPDATE t SET a='q' WHERE id=1",
        "DELETE FROM t WHERE id=2",
        "INSERT INTO t(a) VALUES('n')",
    ];
    let (_w, a, _b) = replicates(schema, &sql, "SELECT * FROM t ORDER BY 1");
    assert_eq!(a.rows("SELECT id FROM t ORDER BY 1"), ["1", "3", "4"]);
}

/// Rows that share an entry, or would have if the rules were other than they are.
#[test]
fn rows_appended_together_are_told_apart_from_those_that_were_there() {
    let cases = [
        // Nothing else happens.
        "INSERT INTO t(x) VALUES(1),(2),(3)",
        // The highest row goes, and its rowid is given again: by a new row.
        "DELETE FROM t WHERE id=10; INSERT INTO t(x) VALUES(1),(2),(3)",
        "INSERT INTO t(x) VALUES(1),(2),(3); DELETE FROM t WHERE id=13; INSERT INTO t(x) VALUES(4),(5)",
        // Gaps below the highest row are filled once it is gone.
        "DELETE FROM t WHERE id>2; INSERT INTO t(x) VALUES(1),(2),(3),(4),(5),(6),(7),(8),(9),(10)",
        // Out of order, and far apart.
        "INSERT INTO t VALUES(500,1),(40,2),(300,3),(600,4),(41,5),(700,6)",
        "INSERT INTO t VALUES(500,1),(501,2); UPDATE t SET id=450 WHERE id=501; INSERT INTO t(x) VALUES(3),(4)",
        "INSERT INTO t VALUES(500,1),(501,2); UPDATE t SET id=700 WHERE id=1; INSERT INTO t(x) VALUES(3),(4)",
        // Touched afterwards.
        "INSERT INTO t(x) VALUES(1),(2),(3); UPDATE t SET x=9 WHERE id=12; DELETE FROM t WHERE id=13",
        "INSERT INTO t(x) VALUES(1),(2),(3); INSERT OR REPLACE INTO t VALUES(12,'new'),(2,'new'),(13,'new')",
        "INSERT INTO t(x) VALUES(1),(2),(3) ; INSERT INTO t VALUES(12,0) ON CONFLICT(id) DO UPDATE SET x='up'",
        // Undone.
        "BEGIN; INSERT INTO t(x) VALUES(1),(2); SAVEPOINT s; INSERT INTO t(x) VALUES(3),(4); ROLLBACK TO s; \
         INSERT INTO t(x) VALUES(5),(6); COMMIT",
        "BEGIN; INSERT INTO t(x) VALUES(1),(2); DELETE FROM t WHERE id>10; INSERT INTO t(x) VALUES(5),(6); COMMIT",
        // The highest row is displaced by one below it, and its rowid is given again.
        "REPLACE INTO t VALUES(7,'d'),(NULL,1),(NULL,2),(NULL,3),(NULL,4)",
        "UPDATE OR REPLACE t SET x='d' WHERE id=2; INSERT INTO t(x) VALUES(1),(2),(3),(4),(5),(6),(7)",
        "INSERT INTO t(x) VALUES(1),(2),(3); REPLACE INTO t VALUES(3,3),(NULL,'d'),(NULL,4),(NULL,5)",
        // Negative, and the largest of all.
        "INSERT INTO t VALUES(-5,1),(-4,2),(9223372036854775807,3)",
        "DELETE FROM t; INSERT INTO t VALUES(-5,1),(-4,2),(-3,3),(-1,4); DELETE FROM t WHERE id=-1; INSERT INTO t VALUES(-1,5)",
    ];
    for unique in ["", "UNIQUE"] {
        let schema = format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, x {unique});
             INSERT INTO t VALUES(1,'a'),(2,'b'),(5,'c'),(10,'d')"
        );
        for sql in cases {
            let (_w, a, mut b) = replicates(&schema, &[sql], "SELECT * FROM t ORDER BY 1");
            assert_eq!(a.replica.verify_full().unwrap(), Vec::<String>::new(), "{sql}");
            b.replica.fold().unwrap();
            assert_eq!(b.replica.verify_full().unwrap(), Vec::<String>::new(), "{sql}");
        }
    }
}

/// The same in a table whose rowids nobody sees, and among writes to another table.
#[test]
fn appended_rows_among_writes_to_other_tables() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, x); CREATE TABLE u(x);
                  INSERT INTO t VALUES('a',1),('b',2); INSERT INTO u VALUES(1)";
    let cases = [
        "INSERT INTO t VALUES('c',3),('d',4); INSERT INTO u VALUES(2),(3); INSERT INTO t VALUES('e',5)",
        "INSERT OR REPLACE INTO t VALUES('c',3),('a',4),('d',5),('c',6)",
        "REPLACE INTO t VALUES('b',3),('e',4); DELETE FROM t WHERE k='a'; INSERT INTO t VALUES('a',7),('f',8)",
        "INSERT INTO t VALUES('c',3),('d',4); UPDATE OR REPLACE t SET k='b' WHERE k='d'; INSERT INTO t VALUES('g',1),('h',2)",
    ];
    for sql in cases {
        let (_w, a, _b) = replicates(schema, &[sql], "SELECT k,x FROM t ORDER BY 1");
        assert_eq!(a.replica.verify().unwrap(), Vec::<String>::new(), "{sql}");
    }
}

/// A first load needs no look at what REPLACE may displace; what comes after it does.
#[test]
fn replace_in_a_table_that_was_empty() {
    for key in ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY"] {
        let schema = format!("CREATE TABLE t(id {key}, u UNIQUE, x)");
        let world = World::new();
        let mut a = world.init("a", &schema);
        let mut b = world.clone_site(&mut a, "b");
        let guards = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'synqlite_replace%'";
        assert_eq!(a.row(guards), "0");
        a.run("INSERT INTO t VALUES(1,1,1),(2,2,2); REPLACE INTO t VALUES(1,3,3),(4,2,4)");
        settle(&mut a, &mut b);
        assert_eq!(b.rows("SELECT * FROM t ORDER BY u"), ["4|2|4", "1|3|3"]);
        assert_eq!((a.row(guards), b.row(guards)), ("1".into(), "1".into()));
        b.run("REPLACE INTO t VALUES(4,3,5)");
        settle(&mut a, &mut b);
        for site in [&mut a, &mut b] {
            assert_eq!(site.rows("SELECT * FROM t"), ["4|3|5"], "{key}");
            assert_eq!(site.replica.verify_full().unwrap(), Vec::<String>::new());
        }
    }
}

/// Who wrote first keeps the number, though rows share an entry and the other synchronized first.
#[test]
fn rows_that_share_an_entry_have_the_time_of_their_write() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO t(x) VALUES('first 1'),('first 2'),('first 3')");
    std::thread::sleep(std::time::Duration::from_millis(5));
    b.run("INSERT INTO t(x) VALUES('later 1'),('later 2'),('later 3')");
    b.replica.fold().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    settle(&mut a, &mut b);
    let want = ["1|first 1", "2|first 2", "3|first 3", "4|later 1", "5|later 2", "6|later 3"];
    assert_eq!(a.rows("SELECT * FROM t"), want);
    assert_eq!(b.rows("SELECT * FROM t"), want);
}

#[test]
fn a_table_without_any_key() {
    let schema = "CREATE TABLE log(ts, msg); INSERT INTO log VALUES(1,'a'),(1,'a'),(2,'b');";
    let sql = [
        "INSERT INTO log VALUES(1,'a')",
        "DELETE FROM log WHERE rowid=1",
        "UPDATE log SET msg='c' WHERE ts=2",
        "VACUUM",
        "INSERT INTO log VALUES(9,NULL)",
    ];
    replicates(schema, &sql, "SELECT * FROM log ORDER BY 1,2");
}

#[test]
fn a_table_without_rowid() {
    let schema = "CREATE TABLE t(a TEXT, b BLOB, c REAL, v, PRIMARY KEY(a,b,c)) WITHOUT ROWID;
                  INSERT INTO t VALUES('x',x'00ff',0.1,1),('it''s',x'',-1e300,2);";
    let sql = [
        "UPDATE t SET v=5 WHERE a='x'",
        "UPDATE t SET a='moved,t' WHERE a='it''s'",
        "INSERT INTO t VALUES('n''\"',x'61',1.5,3)",
        "DELETE FROM t WHERE a='x'",
    ];
    replicates(schema, &sql, "SELECT a,quote(b),c,v FROM t ORDER BY 1");
}

#[test]
fn replace_keeps_the_row_with_recursive_triggers_on_and_off() {
    for pragma in ["PRAGMA recursive_triggers=OFF", "PRAGMA recursive_triggers=ON"] {
        for key in ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY"] {
            let schema = format!("CREATE TABLE t(id {key}, x, y); INSERT INTO t VALUES('7',0,0);");
            let world = World::new();
            let mut a = world.init("a", &schema);
            let mut b = world.clone_site(&mut a, "b");
            b.run("UPDATE t SET x='kept'");
            a.run(&format!("{pragma}; INSERT OR REPLACE INTO t VALUES('7',0,'new')"));
            settle(&mut a, &mut b);
            for site in [&a, &b] {
                assert_eq!(site.rows("SELECT id,x,y FROM t"), ["7|kept|new"], "{pragma} {key}");
            }
        }
    }
}

#[test]
fn a_delete_and_a_separate_insert_of_one_integer_key_make_a_new_row() {
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y); INSERT INTO t VALUES(7,0,0);";
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    b.run("UPDATE t SET x='lost'");
    a.run("DELETE FROM t; INSERT INTO t VALUES(7,0,'new')");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id,x,y FROM t"), ["7|0|new"]);
}

#[test]
fn rows_displaced_through_another_unique_key_are_deleted() {
    for pragma in ["PRAGMA recursive_triggers=OFF", "PRAGMA recursive_triggers=ON"] {
        for (kind, index) in [
            ("email TEXT UNIQUE", ""),
            ("email TEXT", "CREATE UNIQUE INDEX u ON t(lower(email));"),
            ("email TEXT", "CREATE UNIQUE INDEX u ON t(email COLLATE NOCASE) WHERE x IS NOT NULL;"),
            ("email TEXT, g TEXT AS (lower(email))", "CREATE UNIQUE INDEX u ON t(g);"),
            ("email TEXT, g TEXT AS (lower(email))", "CREATE UNIQUE INDEX u ON t(g||'!');"),
        ] {
            let schema = format!(
                "CREATE TABLE t(id INTEGER PRIMARY KEY, x, {kind}); {index}
                 INSERT INTO t(id,x,email) VALUES(1,1,'a'),(2,2,'b'),(3,3,'c'),(4,4,'d');"
            );
            let sql = [
                pragma,
                "INSERT OR REPLACE INTO t(x,email) VALUES(9,'a')",
                "UPDATE OR REPLACE t SET email='b' WHERE id=3",
                "UPDATE OR REPLACE t SET id=4 WHERE id=3",
            ];
            let (_w, _a, b) = replicates(&schema, &sql, "SELECT id,x,email FROM t ORDER BY 1");
            assert_eq!(
                b.rows("SELECT id,email FROM t ORDER BY 1"),
                ["4|b", "5|a"],
                "{kind} {index}"
            );
        }
    }
}

#[test]
fn upsert_and_ignore_leave_no_trace_of_what_they_did_not_do() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, x, y); INSERT INTO t VALUES('k',0,0);";
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET y=9");
    b.run(
        "INSERT INTO t VALUES('k',5,5) ON CONFLICT(k) DO UPDATE SET x=excluded.x;
           INSERT OR IGNORE INTO t VALUES('k',6,6)",
    );
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["k|5|9"]);
    assert_eq!(b.rows("SELECT * FROM t"), ["k|5|9"]);
}

#[test]
fn rolled_back_work_leaves_nothing() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, x CHECK(x<>'bad'))");
    a.run("BEGIN; INSERT INTO t VALUES(1,'a'); ROLLBACK");
    a.run(
        "BEGIN; INSERT INTO t VALUES(2,'b'); SAVEPOINT s; INSERT INTO t VALUES(3,'c');
           ROLLBACK TO s; COMMIT",
    );
    assert!(a.app.execute_batch("INSERT INTO t VALUES(4,'x'),(5,'bad')").is_err());
    assert_eq!(a.row("SELECT count(*) FROM synqlite_journal"), "1");
    assert_eq!(a.replica.fold().unwrap().rows, 1);
}

#[test]
fn no_op_updates_are_no_writes() {
    let world = World::new();
    let mut a =
        world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES(1,0)");
    a.run("UPDATE t SET x=0; UPDATE t SET x=x, id=id");
    assert_eq!(a.replica.fold().unwrap().rows, 0);
    a.run("UPDATE t SET x=0.0");
    assert_eq!(a.replica.fold().unwrap().columns, 1, "1 and 1.0 are equal but not the same");
}

#[test]
fn a_key_that_wanders_is_one_row() {
    let schema =
        "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES(1,'a'),(2,'b'),(3,'c');";
    let sql = [
        "UPDATE t SET id=10 WHERE id=1",
        "UPDATE t SET id=1 WHERE id=2",
        "UPDATE t SET id=2 WHERE id=10",
        "UPDATE t SET id=id+100",
        "DELETE FROM t WHERE x='c'",
    ];
    let (_w, a, _b) = replicates(schema, &sql, "SELECT * FROM t ORDER BY 1");
    assert_eq!(a.rows("SELECT * FROM t ORDER BY 1"), ["101|b", "102|a"]);
}

#[test]
fn user_triggers_foreign_key_actions_and_many_rows_at_once() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, n);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE);
        CREATE TABLE s(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE SET NULL);
        CREATE TABLE audit(what);
        CREATE TRIGGER ai AFTER INSERT ON p BEGIN INSERT INTO audit VALUES('p'||NEW.id); END;
        CREATE TRIGGER au AFTER UPDATE OF n ON p BEGIN UPDATE c SET id=id+10 WHERE p=NEW.id; END;
        INSERT INTO p VALUES(1,0),(2,0),(3,0); INSERT INTO c VALUES(1,1),(2,2); INSERT INTO s VALUES(1,1),(2,3);";
    let sql = [
        "INSERT INTO p(n) SELECT value FROM json_each('[1,2,3,4]')",
        "UPDATE p SET n=5 WHERE id=2",
        "UPDATE p SET id=20 WHERE id=2",
        "DELETE FROM p WHERE id IN (1,3)",
    ];
    let all = "SELECT 'p',id,n FROM p UNION ALL SELECT 'c',id,p FROM c \
               UNION ALL SELECT 's',id,p FROM s UNION ALL SELECT 'a',what,0 FROM audit ORDER BY 1,2,3";
    replicates(schema, &sql, all);
}

#[test]
fn names_that_need_quotes_and_wide_tables() {
    let columns: Vec<String> = (0..300).map(|i| format!("\"c {i}\" DEFAULT {i}")).collect();
    let schema = format!(
        "CREATE TABLE \"we\"\"ird na]me\"(\"select\" TEXT PRIMARY KEY, \"é😀\", [a b]);
         INSERT INTO \"we\"\"ird na]me\" VALUES('k',1,2);
         CREATE TABLE wide(id INTEGER PRIMARY KEY, {}); INSERT INTO wide(id) VALUES(1);",
        columns.join(",")
    );
    let sql = [
        "UPDATE \"we\"\"ird na]me\" SET \"é😀\"='x'",
        "UPDATE wide SET \"c 0\"='first', \"c 61\"='a', \"c 62\"='b', \"c 299\"='last'",
        "INSERT INTO wide(\"c 5\") VALUES('n')",
    ];
    let query = "SELECT \"select\",\"é😀\",[a b],NULL,NULL FROM \"we\"\"ird na]me\" UNION ALL \
                 SELECT id,\"c 0\",\"c 61\",\"c 62\",\"c 299\" FROM wide";
    replicates(&schema, &sql, query);
}

/// Rows with keys are named many at a time; those whose key was given before, or that have none, are
/// not.
#[test]
fn rows_appended_together_may_have_keys_that_are_known() {
    let world = World::new();
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, x UNIQUE);
                  INSERT INTO t VALUES ('a',1),('b',2),('c',3),('d',4)";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM t WHERE k IN ('b','d'); UPDATE t SET k='cc' WHERE k='c'");
    settle(&mut a, &mut b);
    a.run("INSERT INTO t VALUES ('0',10),('b',20),('c',30),(NULL,40),('d',50),('e',60)");
    settle(&mut a, &mut b);
    b.run("DELETE FROM t WHERE k IN ('b','c','e'); UPDATE t SET x=x+1 WHERE k IN ('0','d')");
    settle(&mut a, &mut b);
    for site in [&mut a, &mut b] {
        let rows = site.rows("SELECT * FROM t ORDER BY k");
        assert_eq!(rows, ["NULL|40", "0|11", "a|1", "cc|3", "d|51"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A before-image of more columns than an entry holds is in several.
#[test]
fn images_of_wide_tables_are_whole() {
    let columns: Vec<String> = (1..=20).map(|i| format!("c{i}")).collect();
    let schema = format!(
        "CREATE TABLE t({}, UNIQUE(c20), UNIQUE(c9, c18), PRIMARY KEY(c15));
         CREATE TABLE child(id INTEGER PRIMARY KEY, t REFERENCES t ON UPDATE CASCADE);",
        columns.join(",")
    );
    let row = |n: i64| {
        let values: Vec<String> = (1..=20).map(|i| format!("'{i} of {n}'")).collect();
        format!("INSERT INTO t VALUES({});", values.join(","))
    };
    let world = World::new();
    let rows: String = (0..5).map(row).collect();
    let more = "INSERT INTO child VALUES (1, '15 of 0'), (2, '15 of 1')";
    let mut a = world.init("a", &format!("{schema}{rows}{more}"));
    let mut b = world.clone_site(&mut a, "b");
    a.run("ALTER TABLE t DROP COLUMN c11; ALTER TABLE t RENAME COLUMN c12 TO twelve");
    a.run("UPDATE t SET c15='new' WHERE c15='15 of 0'; DELETE FROM t WHERE c15='15 of 2'");
    let names = columns.iter().filter(|c| !["c11", "c12"].contains(&c.as_str()));
    let names: Vec<&str> = names.map(String::as_str).collect();
    let list = names.join(",");
    let copied = list.replace("c15,", "'15 of 9' AS c15,");
    // It takes the place of two rows by their other keys.
    a.run(&format!(
        "INSERT OR REPLACE INTO t({list}) SELECT {} FROM t WHERE c15='15 of 3'",
        copied.replace("c20", "(SELECT c20 FROM t WHERE c15='15 of 4')")
    ));
    assert_eq!(a.row("SELECT count(*) FROM t"), "3");
    let query = format!("SELECT {list} FROM t ORDER BY c15");
    settle(&mut a, &mut b);
    assert_eq!(b.rows(&query), a.rows(&query));
    assert_eq!(b.rows("SELECT t FROM child ORDER BY id"), ["new", "15 of 1"]);
    // A dead row keeps all of its values.
    for (n, i) in [2, 4].into_iter().flat_map(|n| (1..=20).map(move |i| (n, i))) {
        let has = |text: String| format!("instr(state, CAST('{text} of {n}' AS BLOB))");
        let (key, value) = (has("15".to_owned()), has(i.to_string()));
        let kept = format!("SELECT {value} FROM synqlite_row WHERE loc IS NULL AND {key}");
        for site in [&a, &b] {
            assert!(i == 11 || site.row(&kept) != "0", "column {i} of row {n}");
        }
    }
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

/// However many keys a table has, SQLite can still compile what its triggers say of them.
#[test]
fn a_table_of_many_unique_columns_can_be_written() {
    let columns: Vec<String> = (0..200).map(|i| format!("c{i} UNIQUE")).collect();
    let world = World::new();
    let schema = format!("CREATE TABLE t(id INTEGER PRIMARY KEY, {})", columns.join(", "));
    let mut a = world.init("a", &format!("{schema}; INSERT INTO t(id, c0, c199) VALUES(1, 1, 1)"));
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET c0 = 3; INSERT INTO t(id, c0) VALUES(2, 2); REPLACE INTO t(id, c199) VALUES(4, 1)");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id, c0, c199 FROM t"), ["2|2|NULL", "4|NULL|1"]);
}

#[test]
fn columns_can_be_added_renamed_and_dropped_while_triggers_are_there() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y, z); INSERT INTO t VALUES(1,1,1,1)",
    );
    a.run("ALTER TABLE t DROP COLUMN y; UPDATE t SET z=2; INSERT INTO t VALUES(2,2,2)");
    a.run("ALTER TABLE t RENAME COLUMN z TO zz; UPDATE t SET zz=3");
    a.run("ALTER TABLE t ADD COLUMN w DEFAULT 0; UPDATE t SET w=5 WHERE id=1; DELETE FROM t WHERE id=2");
    assert_eq!(a.rows("SELECT * FROM t"), ["1|1|3|5"]);
    a.replica.fold().unwrap();
    a.run("UPDATE t SET w=6");
    assert_eq!(a.replica.fold().unwrap().rows, 1, "the triggers know the new column now");
}

#[test]
fn a_column_can_be_dropped_once_its_unique_index_is() {
    let tables = [
        "id INTEGER PRIMARY KEY, u TEXT, x)",
        "id INTEGER, u TEXT, x, p DEFAULT 'p', PRIMARY KEY(id, p)) WITHOUT ROWID",
        "id INTEGER NOT NULL, u TEXT, x, rowid, _rowid_, oid, PRIMARY KEY(id))",
    ];
    for table in tables {
        for index in ["u", "u COLLATE NOCASE", "lower(u)", "u) WHERE (u > ''"] {
            let world = World::new();
            let schema = format!(
                "CREATE TABLE t({table}; CREATE UNIQUE INDEX ux ON t({index});
                 INSERT INTO t(id, u, x) VALUES(1,'a',1),(2,'b',2),(3,'c',3)"
            );
            let mut a = world.init("a", &schema);
            a.run("INSERT OR REPLACE INTO t(id, u, x) VALUES(2,'c',4)");
            a.run("DROP INDEX ux; ALTER TABLE t DROP COLUMN u");
            a.run("INSERT OR REPLACE INTO t(id, x) VALUES(1, 10); UPDATE t SET x=20 WHERE id=2");
            a.replica.fold().unwrap();
            assert_eq!(a.rows("SELECT id, x FROM t"), ["1|10", "2|20"], "{schema}");
            assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{schema}");
        }
    }
}

/// The application's columns may be called as the journal's, and as the journal.
#[test]
fn names_of_the_journal_are_free() {
    for kind in ["", " WITHOUT ROWID"] {
        let world = World::new();
        let mut a = world.init(
            "a",
            &format!(
                "CREATE TABLE t(seq TEXT PRIMARY KEY, ev UNIQUE, a TEXT, b, m, at, v0, synqlite_journal, o, old, new){kind};
                 CREATE UNIQUE INDEX tb ON t(b, m); CREATE UNIQUE INDEX ta ON t(lower(a));
                 INSERT INTO t(seq, ev, a, b, m, new) VALUES ('1', 'e1', 'a1', 'b1', 'm1', 'first'),
                 ('2', 'e2', 'a2', 'b2', 'm2', 'second'), ('3', 'e3', 'a3', 'b3', 'm3', 'third'),
                 ('4', 'e4', 'a4', 'b4', 'm4', 'fourth'), ('5', 'e5', 'a5', 'b5', 'm5', 'fifth')"
            ),
        );
        let mut b = world.clone_site(&mut a, "b");
        a.run("REPLACE INTO t(seq, ev, a, b, m) VALUES ('1', 'e2', 'A3', 'b4', 'm4')");
        a.run("UPDATE OR REPLACE t SET b = 'b5', m = 'm5' WHERE seq = '1'");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT seq, ev, a, b, m FROM t"), ["1|e2|A3|b5|m5"]);
            for word in ["second", "third", "fourth", "fifth"] {
                let kept = format!("instr(state, CAST('{word}' AS BLOB))");
                let kept =
                    format!("SELECT count(*) FROM synqlite_row WHERE loc IS NULL AND {kept}");
                assert_eq!(site.row(&kept), "1", "{word}");
            }
        }
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    }
}

#[test]
fn attached_databases_are_left_alone() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    let other = world.path("other");
    a.run(&format!(
        "ATTACH '{}' AS o; CREATE TABLE o.t(id INTEGER PRIMARY KEY, x)",
        other.display()
    ));
    a.run("INSERT INTO o.t VALUES(1,1); INSERT INTO t VALUES(5,5)");
    assert_eq!(a.replica.fold().unwrap().rows, 1);
}

#[test]
fn vacuum_renumbers_nothing_even_after_the_schema_changed() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE bag(x); INSERT INTO bag VALUES(1),(2),(3)");
    a.run("ALTER TABLE bag ADD COLUMN y");
    a.replica.fold().unwrap();
    a.run("DELETE FROM bag WHERE x = 1; VACUUM");
    assert_eq!(a.rows("SELECT rowid, x FROM bag"), ["2|2", "3|3"]);
}

#[test]
fn vacuum_renumbers_nothing_after_the_last_index_is_dropped() {
    for unique in ["", "UNIQUE"] {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE bag(x); CREATE {unique} INDEX i ON bag(x); INSERT INTO bag VALUES(1),(2),(3)"
        );
        let mut a = world.init("a", &sql);
        a.run("DELETE FROM bag WHERE x = 1");
        a.replica.fold().unwrap();
        a.run("DROP INDEX i; VACUUM");
        assert_eq!(a.rows("SELECT rowid, x FROM bag"), ["2|2", "3|3"]);
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    }
}

#[test]
fn a_row_replaced_and_then_moved_is_still_the_row() {
    for recursive in ["ON", "OFF"] {
        for (key, one, nine) in [
            ("id INTEGER PRIMARY KEY)", "1", "9"),
            ("id TEXT PRIMARY KEY)", "'one'", "'nine'"),
            ("id TEXT PRIMARY KEY) WITHOUT ROWID", "'one'", "'nine'"),
        ] {
            let world = World::new();
            let schema = format!("CREATE TABLE t(x, y, {key}; INSERT INTO t VALUES(0,0,{one})");
            let mut a = world.init("a", &schema);
            let mut b = world.clone_site(&mut a, "b");
            b.run("UPDATE t SET y=7");
            a.run(&format!("PRAGMA recursive_triggers={recursive}"));
            a.run(&format!("REPLACE INTO t VALUES(5,0,{one})"));
            a.run(&format!("REPLACE INTO t VALUES(6,0,{one})"));
            a.run(&format!("UPDATE t SET id={nine}"));
            settle(&mut a, &mut b);
            let want = format!("6|7|{}", nine.trim_matches('\''));
            for site in [&a, &b] {
                assert_eq!(site.rows("SELECT * FROM t"), [&*want], "{key} {recursive}");
            }
        }
    }
}

/// So it does before the trigger compares a key with what it was: then `1` and `1.0` look like one.
#[test]
fn a_key_is_written_in_another_type_whatever_type_its_children_are_of() {
    let pairs = [("1", "1.0"), ("1.0", "1"), ("1", "'1'"), ("'1'", "1"), ("'01'", "1")];
    for (key, tail) in
        [("id INTEGER PRIMARY KEY, k UNIQUE", ""), ("id, k PRIMARY KEY", "WITHOUT ROWID")]
    {
        for (child, (old, new)) in
            ["NUMERIC", "INTEGER", "TEXT", "REAL", ""].iter().flat_map(|c| pairs.map(|p| (c, p)))
        {
            let what = format!("{key} {child}: {old} to {new}");
            let world = World::new();
            let mut a = world.init(
                "a",
                &format!(
                    "CREATE TABLE p({key}) {tail}; CREATE TABLE c(q {child}, y, PRIMARY KEY(q, y),
                     FOREIGN KEY(q) REFERENCES p(k) ON UPDATE SET DEFAULT) WITHOUT ROWID"
                ),
            );
            let mut b = world.clone_site(&mut a, "b");
            b.run(&format!("INSERT INTO p VALUES(1, {old})"));
            settle(&mut a, &mut b);
            a.run(&format!("UPDATE p SET k = {new}"));
            a.replica.fold().unwrap();
            settle(&mut a, &mut b);
            let shown = a.rows("SELECT quote(k) FROM p");
            assert_eq!(shown, [new], "{what}");
            assert_eq!(b.rows("SELECT quote(k) FROM p"), shown, "{what}");
            assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{what}");
        }
    }
}

/// What is where such a key was does not tell whether the key was written: another row may be there.
#[test]
fn a_key_written_in_another_type_is_told_from_one_that_was_not() {
    let cases: [(&str, &[&str]); 7] = [
        (
            "UPDATE p SET k = 1 WHERE k = '1'; INSERT INTO p VALUES('1', 'new')",
            &["1|one", "'1'|new"],
        ),
        (
            "UPDATE p SET k = 1, v = 'set' WHERE k = '1'; INSERT INTO p VALUES('1', 'new'); \
             DELETE FROM p WHERE k = 1; UPDATE p SET k = 1 WHERE k = '1'; INSERT INTO p VALUES('1', 'z')",
            &["1|new", "'1'|z"],
        ),
        (
            "INSERT INTO p VALUES(1, 'old'); UPDATE OR REPLACE p SET k = 1, v = 'set' WHERE k = '1'",
            &["1|set"],
        ),
        (
            "INSERT INTO p VALUES(1, 'old'); UPDATE OR REPLACE p SET k = 1 WHERE k = '1'; \
             UPDATE p SET k = '1' WHERE k = 1",
            &["'1'|one"],
        ),
        (
            "INSERT INTO p VALUES(1, 'old'); UPDATE OR IGNORE p SET k = 1 WHERE k = '1'; \
             UPDATE p SET v = 'set' WHERE k = 1",
            &["1|set", "'1'|one"],
        ),
        (
            "INSERT INTO p VALUES(1, 'old'); UPDATE OR IGNORE p SET k = 1 WHERE k = '1'; \
             UPDATE p SET v = 'set' WHERE k = 1; DELETE FROM p WHERE k = '1'",
            &["1|set"],
        ),
        (
            "INSERT INTO p VALUES(1, 'old'); UPDATE OR IGNORE p SET k = 1 WHERE k = '1'; \
             UPDATE p SET v = 'set' WHERE k = 1; UPDATE p SET k = 'x' WHERE k = '1'",
            &["1|set", "'x'|one"],
        ),
    ];
    for ((sql, rows), folded) in cases.iter().flat_map(|case| [(case, false), (case, true)]) {
        let world = World::new();
        let mut a = world.init(
            "a",
            "CREATE TABLE p(k PRIMARY KEY, v) WITHOUT ROWID; \
             CREATE TABLE c(q NUMERIC PRIMARY KEY REFERENCES p(k)) WITHOUT ROWID",
        );
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO p VALUES('1', 'one')");
        settle(&mut a, &mut b);
        let (first, rest) = sql.split_once("; ").unwrap();
        if folded && first.starts_with("INSERT") {
            a.run(first);
            a.replica.fold().unwrap();
            a.run(&format!("PRAGMA foreign_keys = ON; BEGIN; {rest}; COMMIT"));
        } else {
            a.run(&format!("PRAGMA foreign_keys = ON; BEGIN; {sql}; COMMIT"));
        }
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{sql}");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT quote(k), v FROM p ORDER BY k"), *rows, "{sql}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{sql}");
        }
    }
}

/// An update that SQLite ignored wrote nothing, though a trigger before it has noted the key.
#[test]
fn an_update_that_is_ignored_gets_no_stamp() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES('x', 1), ('y', 2)",
    );
    let before = a.row("SELECT group_concat(hlc) FROM synqlite_site");
    a.run("UPDATE OR IGNORE t SET u = 1 WHERE k = 'y'");
    assert_eq!(a.row("SELECT count(*) > 0 FROM synqlite_journal"), "1");
    a.replica.fold().unwrap();
    assert_eq!(a.row("SELECT group_concat(hlc) FROM synqlite_site"), before);
}

/// Triggers of a later version may note what this one does not know: nothing is folded without it.
#[test]
fn an_entry_of_an_unknown_kind_is_named_and_nothing_is_lost() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    a.run("INSERT INTO t VALUES(1, 'x')");
    a.run("INSERT INTO synqlite_journal(ev, a, at) VALUES((1 << 35) | 9, 1, julianday())");
    let Err(error @ Error::NewerJournal { kind: 9 }) = a.replica.fold() else { panic!() };
    assert!(error.to_string().contains("kind 9"), "{error}");
    assert!(a.replica.status().is_err() && a.replica.log(&Default::default()).is_err());
    let problems = a.replica.verify().unwrap();
    assert!(problems.iter().any(|p| p.contains("kind 9")), "{problems:?}");
    assert_eq!(a.rows("SELECT count(*) FROM synqlite_journal"), ["2"]);
    a.run("DELETE FROM synqlite_journal WHERE ev >> 35");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}
