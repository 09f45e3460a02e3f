//! Tables rebuilt under their names on several sites, without any command between: what nobody has
//! written keeps its stamp and beats nothing (R-MIG-REBUILD).

mod filled;
mod hidden;
mod named;
mod seam;
mod unseen;

use crate::site::{Site, World, settle};
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

/// The twelve steps: `columns` declares the new table, `copied` names what it takes over.
fn rebuild(site: &Site, table: &str, columns: &str, copied: &str) {
    site.run(&format!(
        "PRAGMA foreign_keys=OFF; BEGIN; CREATE TABLE new_table({columns}; \
         INSERT INTO new_table({copied}) SELECT {copied} FROM {table}; DROP TABLE {table}; \
         ALTER TABLE new_table RENAME TO {table}; COMMIT; PRAGMA foreign_keys=ON"
    ));
}

/// Two sites of one database.
fn pair(world: &World, sql: &str) -> (Site, Site) {
    let mut a = world.init("a", sql);
    let b = world.clone_site(&mut a, "b");
    (a, b)
}

/// Both pull, in either order, and then show `want` for `sql`.
#[track_caller]
fn agree(a: &mut Site, b: &mut Site, turned: bool, sql: &str, want: &[&str]) {
    match turned {
        true => settle(b, a),
        false => settle(a, b),
    }
    for site in [&*a, &*b] {
        assert_eq!(site.rows(sql), want, "turned: {turned}");
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
}

/// Kinds of tables: schema, the same with one column more, columns, whether a key names its rows.
const KINDS: [(&str, &str, &str); 7] = [
    ("id TEXT PRIMARY KEY, v, w, x)", "id TEXT PRIMARY KEY, v, w, x, y)", "id,v,w,x"),
    ("id INTEGER PRIMARY KEY, v, w, x)", "id INTEGER PRIMARY KEY, v, w, x, y)", "id,v,w,x"),
    ("id, v, w, x)", "id, v, w, x, y)", "id,v,w,x"),
    (
        "id TEXT PRIMARY KEY, v, w, x) WITHOUT ROWID",
        "id TEXT PRIMARY KEY, v, w, x, y) WITHOUT ROWID",
        "id,v,w,x",
    ),
    (
        "id INT, v, w, x, CONSTRAINT one UNIQUE(v), PRIMARY KEY(id), CONSTRAINT two UNIQUE(w))",
        "x TEXT, id INT NOT NULL, v, y, w, CONSTRAINT two UNIQUE(w), PRIMARY KEY(id), UNIQUE(v))",
        "id,v,w,x",
    ),
    ("id INT, v INT, w INT, x INT)", "x TEXT, w TEXT, v REAL, id TEXT, y)", "id,v,w,x"),
    ("id INTEGER PRIMARY KEY, v, w, x)", "id TEXT PRIMARY KEY, v, w, x, y)", "id,v,w,x"),
];

fn rows(kind: &str) -> String {
    format!(
        "CREATE TABLE t({kind}; INSERT INTO t(id, v, w, x) VALUES (0, 10, 20, 30), (1, 11, 21, 31), \
         (2, 12, 22, 32), (3, 13, 23, 33); DELETE FROM t WHERE v = 10"
    )
}

const SHOWN: &str = "SELECT CAST(id AS INT), CAST(v AS INT), CAST(w AS INT), CAST(x AS INT) FROM t \
                     ORDER BY 1";

#[test]
fn mig_rebuild_untouched_values_beat_nothing() {
    for (kind, new, copied) in KINDS {
        for turned in [false, true] {
            for folded in [false, true] {
                let world = World::new();
                let (mut a, mut b) = pair(&world, &rows(kind));
                rebuild(&a, "t", new, copied);
                rebuild(&b, "t", new, copied);
                let (one, other) = if turned { (&mut b, &mut a) } else { (&mut a, &mut b) };
                if folded {
                    other.replica.fold().unwrap();
                }
                one.run("UPDATE t SET v = 91 WHERE CAST(id AS INT) = 1");
                one.replica.fold().unwrap();
                other.replica.fold().unwrap();
                let want = ["1|91|21|31", "2|12|22|32", "3|13|23|33"];
                agree(&mut a, &mut b, turned, SHOWN, &want);
            }
        }
    }
}

#[test]
fn mig_rebuild_columns_of_one_row_written_on_both_sites() {
    for (kind, new, copied) in KINDS {
        for turned in [false, true] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, &rows(kind));
            a.run("UPDATE t SET x = 81 WHERE CAST(id AS INT) = 3");
            rebuild(&b, "t", new, copied);
            b.run("UPDATE t SET w = 72 WHERE CAST(id AS INT) = 1");
            rebuild(&a, "t", new, copied);
            a.run("UPDATE t SET v = 61, x = 63 WHERE CAST(id AS INT) = 1");
            b.run("UPDATE t SET v = 71 WHERE CAST(id AS INT) = 3");
            let want = ["1|61|72|63", "2|12|22|32", "3|71|23|81"];
            agree(&mut a, &mut b, turned, SHOWN, &want);
        }
    }
}

#[test]
fn mig_rebuild_only_one_site_and_the_other_wrote_before_and_after() {
    // Where the types differ for good, so do the digests.
    for (kind, new, copied) in &KINDS[..4] {
        for turned in [false, true] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, &rows(kind));
            b.run("UPDATE t SET v = 55 WHERE CAST(id AS INT) = 2");
            a.run("UPDATE t SET w = 44 WHERE CAST(id AS INT) = 2");
            a.replica.fold().unwrap();
            rebuild(&a, "t", new, copied);
            a.replica.fold().unwrap();
            rebuild(&a, "t", new, copied);
            let want = ["1|11|21|31", "2|55|44|32", "3|13|23|33"];
            agree(&mut a, &mut b, turned, SHOWN, &want);
            assert_eq!(b.replica.fold().unwrap().rows, 0);
        }
    }
}

#[test]
fn mig_rebuild_rows_inserted_deleted_and_renumbered() {
    for (kind, new, copied) in KINDS {
        for turned in [false, true] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, &rows(kind));
            for site in [&a, &b] {
                rebuild(site, "t", new, copied);
            }
            a.run("DELETE FROM t WHERE CAST(id AS INT) = 2; INSERT INTO t(id, v, w, x) VALUES (7, 17, 27, 37)");
            b.run("UPDATE t SET x = 99 WHERE CAST(id AS INT) = 3");
            b.run("INSERT INTO t(id, v, w, x) VALUES (8, 18, 28, 38)");
            let want = ["1|11|21|31", "3|13|23|99", "7|17|27|37", "8|18|28|38"];
            agree(&mut a, &mut b, turned, SHOWN, &want);
        }
    }
}

#[test]
fn mig_rebuild_on_three_sites_passes_everything_on() {
    for (kind, new, copied) in KINDS {
        let world = World::new();
        let (mut a, mut b) = pair(&world, &rows(kind));
        let mut c = world.clone_site(&mut a, "c");
        for site in [&a, &b, &c] {
            rebuild(site, "t", new, copied);
        }
        a.run("UPDATE t SET v = 91 WHERE CAST(id AS INT) = 1");
        b.run("UPDATE t SET v = 92 WHERE CAST(id AS INT) = 2");
        c.run("UPDATE t SET v = 93 WHERE CAST(id AS INT) = 3");
        a.pull(&mut b);
        c.pull(&mut a);
        settle(&mut a, &mut c);
        let want = ["1|91|21|31", "2|92|22|32", "3|93|23|33"];
        agree(&mut a, &mut b, false, SHOWN, &want);
        agree(&mut c, &mut b, true, SHOWN, &want);
    }
}

#[test]
fn mig_rebuild_with_fewer_columns_keeps_what_was_written_elsewhere() {
    for turned in [false, true] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, &rows(KINDS[0].0));
        for site in [&a, &b] {
            rebuild(site, "t", "id TEXT PRIMARY KEY, v, w)", "id,v,w");
        }
        a.run("UPDATE t SET v = 91 WHERE id = 1");
        b.run("UPDATE t SET w = 92 WHERE id = 1; UPDATE t SET w = 93 WHERE id = 2");
        let want = ["1|91|92", "2|12|93", "3|13|23"];
        agree(&mut a, &mut b, turned, "SELECT id, v, w FROM t ORDER BY 1", &want);
    }
}

#[test]
fn mig_rebuild_sees_a_value_spelled_otherwise_as_another() {
    for turned in [false, true] {
        let world = World::new();
        let sql =
            "CREATE TABLE t(id TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('k', 1), ('l', '5')";
        let (mut a, mut b) = pair(&world, sql);
        for site in [&a, &b] {
            rebuild(site, "t", "id TEXT PRIMARY KEY, v, w)", "id,v");
        }
        a.run("UPDATE t SET v = '1' WHERE id = 'k'; UPDATE t SET v = '05' WHERE id = 'l'");
        agree(
            &mut a,
            &mut b,
            turned,
            "SELECT id, quote(v) FROM t ORDER BY 1",
            &["k|'1'", "l|'05'"],
        );
    }
}

#[test]
fn mig_rebuild_keys_changed_meanwhile() {
    for turned in [false, true] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, &rows(KINDS[0].0));
        for site in [&a, &b] {
            rebuild(site, "t", KINDS[0].1, KINDS[0].2);
        }
        a.run("UPDATE t SET id = '9' WHERE id = '1'");
        b.run("UPDATE t SET v = 71 WHERE id = '1'");
        let want = ["2|12|22|32", "3|13|23|33", "9|71|21|31"];
        agree(&mut a, &mut b, turned, SHOWN, &want);
    }
}

#[test]
fn mig_rebuild_of_a_parent_writes_no_reference() {
    for turned in [false, true] {
        let world = World::new();
        let sql = "CREATE TABLE p(id TEXT PRIMARY KEY, u UNIQUE, v); \
                   CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(id), u REFERENCES p(u)); \
                   INSERT INTO p VALUES ('k', 1, 1), ('l', 2, 2); INSERT INTO c VALUES (1, 'k', 1), (2, 'k', 1)";
        let (mut a, mut b) = pair(&world, sql);
        b.run("UPDATE c SET p = 'l' WHERE id = 1; UPDATE c SET u = 2 WHERE id = 2");
        b.replica.fold().unwrap();
        a.run("INSERT INTO p VALUES ('m', 3, 3)");
        a.replica.fold().unwrap();
        for table in ["p", "c"] {
            let (columns, copied) = match table {
                "p" => ("u UNIQUE, id TEXT PRIMARY KEY, v, w)", "id,u,v"),
                _ => ("id INTEGER PRIMARY KEY, u REFERENCES p(u), p REFERENCES p(id))", "id,p,u"),
            };
            rebuild(&a, table, columns, copied);
        }
        a.run("UPDATE p SET v = 9 WHERE id = 'k'");
        let want = ["1|l|1", "2|k|2"];
        agree(&mut a, &mut b, turned, "SELECT id, p, u FROM c ORDER BY 1", &want);
    }
}

#[test]
fn mig_replace_through_an_index_that_no_trigger_knows() {
    for kind in [
        "tok TEXT, lo INT)",
        "tok TEXT PRIMARY KEY, lo INT)",
        "tok TEXT PRIMARY KEY, lo INT) WITHOUT ROWID",
        "id INTEGER PRIMARY KEY, tok TEXT, lo INT)",
    ] {
        for turned in [false, true] {
            let world = World::new();
            let sql = format!(
                "CREATE TABLE t({kind}; INSERT INTO t(tok, lo) VALUES ('x', 1), ('y', 2), ('z', 3)"
            );
            let (mut a, mut b) = pair(&world, &sql);
            a.run("UPDATE t SET lo = 5 WHERE tok = 'y'");
            a.run("CREATE UNIQUE INDEX i ON t(lo); INSERT OR REPLACE INTO t(tok, lo) VALUES ('new', 1)");
            a.run("UPDATE OR REPLACE t SET lo = 5 WHERE tok = 'z'");
            b.run("CREATE UNIQUE INDEX i ON t(lo)");
            agree(&mut a, &mut b, turned, "SELECT tok, lo FROM t ORDER BY 1", &["new|1", "z|5"]);
        }
    }
}

#[test]
fn mig_a_deleted_row_has_the_default_of_a_column_that_came_later() {
    for turned in [false, true] {
        let world = World::new();
        let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, v); \
                   CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(id) ON DELETE RESTRICT); \
                   INSERT INTO p VALUES (1, 'x')";
        let (mut a, mut b) = pair(&world, sql);
        let add = "ALTER TABLE p ADD COLUMN m REAL NOT NULL DEFAULT 2.5";
        b.run(add);
        a.run("DELETE FROM p");
        a.run(add);
        b.run("INSERT INTO c VALUES (1, 1)");
        agree(&mut a, &mut b, turned, "SELECT id, v, m FROM p", &["1|x|2.5"]);
    }
}

#[test]
fn mig_rebuild_a_row_gone_meanwhile_and_needed_elsewhere() {
    for turned in [false, true] {
        let world = World::new();
        let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, v, w NOT NULL DEFAULT 'w'); \
                   CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p(id) ON DELETE RESTRICT); \
                   INSERT INTO p VALUES (1, 'x', 'y')";
        let (mut a, mut b) = pair(&world, sql);
        rebuild(&a, "p", "id INTEGER PRIMARY KEY, v, w NOT NULL DEFAULT 'w')", "id,v,w");
        a.run("DELETE FROM p");
        b.run("INSERT INTO c VALUES (1, 1)");
        agree(&mut a, &mut b, turned, "SELECT id FROM p", &["1"]);
    }
}

/// A file that is copied right after a rebuild becomes a site: it catches up before it is judged.
#[test]
fn a_copy_made_after_a_rebuild_becomes_a_site() {
    for (kind, wider, columns) in KINDS {
        let world = World::new();
        let mut a = world.init("a", &rows(kind));
        a.replica.fold().unwrap();
        a.run("UPDATE t SET x = 0 WHERE v = 11");
        rebuild(&a, "t", wider, columns);
        a.run("UPDATE t SET x = 1 WHERE v = 12");
        std::fs::copy(a.replica.path(), world.path("b")).unwrap();
        let options = InitOptions { new_site: true, ..InitOptions::default() };
        Replica::init(&world.path("b"), &options, Arc::new(System)).unwrap();
        let (mut b, sql) = (world.open("b"), "SELECT id, v, w, x FROM t ORDER BY v");
        let want = a.rows(sql);
        agree(&mut a, &mut b, false, sql, &want.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

/// The twelve steps, with the triggers.
fn rebuild_by_hand(site: &Site, table: &str, columns: &str, copied: &str) {
    let sql = format!(
        "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{table}' ORDER BY rowid"
    );
    let triggers = site.rows(&sql);
    rebuild(site, table, columns, copied);
    triggers.iter().for_each(|sql| site.run(sql));
}

/// What `a` wrote is all there is to it, and goes together with what `b` wrote to another column.
#[track_caller]
fn by_hand((kind, new, copied): (&str, &str, &str), earlier: &str, later: &str, turned: bool) {
    let world = World::new();
    let sql = format!(
        "CREATE TABLE t({kind}; INSERT INTO t(id, v, w, x) VALUES (0, 10, 20, 30), (1, 11, 21, 31), \
         (2, 12, 22, 32), (3, 13, 23, 33), (4, 14, 24, 34), (5, 15, 25, 35), (6, 16, 26, 36); \
         DELETE FROM t WHERE v IN (10, 13)"
    );
    let (mut a, mut b) = pair(&world, &sql);
    b.run("UPDATE t SET x = 99 WHERE CAST(id AS INT) = 2; UPDATE t SET x = 98 WHERE CAST(id AS INT) = 5");
    a.run(earlier);
    rebuild_by_hand(&a, "t", new, copied);
    a.run(later);
    rebuild_by_hand(&b, "t", new, copied);
    let mut want = a.rows(SHOWN);
    for (row, x) in [("2|", "|99"), ("5|", "|98")] {
        for shown in want.iter_mut().filter(|shown| shown.starts_with(row)) {
            let end = shown.rfind('|').unwrap();
            shown.replace_range(end.., x);
        }
    }
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{kind}; {earlier}; {later}");
    let want: Vec<&str> = want.iter().map(String::as_str).collect();
    agree(&mut a, &mut b, turned, SHOWN, &want);
    assert_eq!(a.replica.fold().unwrap().rows, 0);
}

#[test]
fn mig_rebuild_by_hand_with_triggers_that_are_made_again() {
    let writes = |n: i32, id: i32| {
        [
            String::new(),
            format!("DELETE FROM t WHERE CAST(id AS INT) = {id}"),
            format!("UPDATE t SET v = {n} WHERE CAST(id AS INT) = {id}"),
            format!("INSERT INTO t(id, v, w, x) VALUES ({n}, {n}, {n}, {n})"),
            format!(
                "INSERT INTO t(id, v, w, x) VALUES ({n}, {n}, {n}, {n}), (1{n}, 1{n}, 1{n}, 1{n}), \
                 (2{n}, 2{n}, 2{n}, 2{n}); DELETE FROM t WHERE v = 1{n}; \
                 DELETE FROM t WHERE CAST(id AS INT) = {id}"
            ),
        ]
    };
    for kind in KINDS {
        for (i, earlier) in writes(70, 4).into_iter().enumerate() {
            for (j, later) in writes(80, 1).into_iter().enumerate() {
                by_hand(kind, &earlier, &later, (i + j) % 2 == 1);
            }
        }
    }
}

#[test]
fn mig_rebuild_by_hand_and_a_key_that_is_changed_after_an_insert() {
    let wrote = "INSERT INTO t(id, v, w, x) VALUES (80, 80, 80, 80);
                 UPDATE t SET id = 44 WHERE CAST(id AS INT) = 4";
    for (kind, turned) in KINDS.into_iter().zip([true, false].into_iter().cycle()) {
        by_hand(kind, "", wrote, turned);
        by_hand(kind, wrote, "", !turned);
    }
}

#[test]
fn mig_rebuild_by_hand_and_rows_replaced() {
    let replace = |id: i32| format!("REPLACE INTO t(id, v, w, x) VALUES ({id}, 1{id}, 7, 3{id})");
    let other = |id: i32| format!("UPDATE OR REPLACE t SET v = 1{id} WHERE CAST(id AS INT) = 1");
    for kind in [KINDS[0], KINDS[3], KINDS[4]] {
        by_hand(kind, &replace(4), "", false);
        by_hand(kind, "", &replace(4), true);
        by_hand(kind, &replace(5), &replace(2), false);
        by_hand(kind, "DELETE FROM t WHERE CAST(id AS INT) = 1", &replace(6), true);
    }
    by_hand(KINDS[4], &other(4), "", false);
    by_hand(KINDS[4], "", &other(4), true);
    by_hand(KINDS[4], &replace(6), &other(5), true);
}

#[test]
fn mig_rebuild_of_a_row_replaced_before_beats_no_certain_write() {
    for (kind, new, copied) in KINDS.into_iter().take(5) {
        let world = World::new();
        let (mut a, mut b) = pair(&world, &rows(kind));
        b.run("UPDATE t SET x = 99 WHERE id = 2");
        a.run("REPLACE INTO t(id, v, w, x) VALUES (2, 12, 7, 32)");
        for site in [&a, &b] {
            rebuild(site, "t", new, copied);
        }
        let keyed = kind.contains("KEY");
        let want: &[&str] = match keyed {
            true => &["1|11|21|31", "2|12|7|99", "3|13|23|33"],
            false => &["1|11|21|31", "2|12|7|32", "2|12|22|99", "3|13|23|33"],
        };
        agree(&mut a, &mut b, keyed, &format!("{SHOWN}, 3"), want);
    }
}

#[test]
fn mig_rebuild_by_hand_that_changes_nothing() {
    for kind in ["id, v, w, x)", "id TEXT PRIMARY KEY, v, w, x)"] {
        by_hand((kind, kind, "id,v,w,x"), "", "", false);
        by_hand((kind, kind, "id,v,w,x"), "DELETE FROM t WHERE v = 14", "UPDATE t SET v = 9", true);
    }
}

/// What is kept for a column that comes meanwhile is of a row that is gone.
#[test]
fn mig_rebuild_a_row_gone_meanwhile_with_something_kept() {
    for kind in ["id TEXT PRIMARY KEY, v", "id INTEGER PRIMARY KEY, v", "id, v"] {
        for turned in [false, true] {
            let world = World::new();
            let sql = format!("CREATE TABLE t({kind}); INSERT INTO t VALUES (1, 1)");
            let (mut a, mut b) = pair(&world, &sql);
            b.run(
                "ALTER TABLE t ADD COLUMN w DEFAULT 7; INSERT INTO t VALUES (2, 2, 2), (3, 3, 3)",
            );
            a.pull(&mut b);
            rebuild(&a, "t", &format!("{kind})"), "id,v");
            a.run("DELETE FROM t WHERE v = 2; ALTER TABLE t ADD COLUMN w DEFAULT 7");
            a.replica.fold().unwrap();
            agree(&mut a, &mut b, turned, "SELECT * FROM t ORDER BY v", &["1|1|7", "3|3|3"]);
        }
    }
}

/// A deleted row remembers the integer that it asked for; of a key that is none any more it asks nothing.
#[test]
fn mig_rebuild_an_integer_key_becomes_a_text_and_back() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES(3, 1), (4, 2)";
    let (mut a, mut b) = pair(&world, sql);
    b.run("REPLACE INTO t VALUES(1, 1); DELETE FROM t WHERE k = 4");
    a.run("INSERT INTO t VALUES(5, 9)");
    settle(&mut a, &mut b);
    for columns in ["k TEXT PRIMARY KEY, u UNIQUE)", "k INTEGER PRIMARY KEY, u UNIQUE)"] {
        rebuild(&b, "t", columns, "k,u");
        b.replica.fold().unwrap();
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    }
    agree(&mut a, &mut b, false, "SELECT k, u FROM t ORDER BY 1", &["1|1", "5|9"]);
}

/// A column that is renamed and rebuilt before any command is known by what others told of it.
#[test]
fn mig_rename_a_column_that_others_renamed_and_rebuild_it() {
    for told in [true, false] {
        let world = World::new();
        let sql =
            "CREATE TABLE t(k INTEGER PRIMARY KEY, u); INSERT INTO t VALUES(1, NULL), (2, 'x')";
        let (mut a, mut b) = pair(&world, sql);
        let rename = "ALTER TABLE t RENAME COLUMN u TO v";
        b.run(rename);
        b.replica.fold().unwrap();
        if told {
            a.pull(&mut b);
        }
        a.run(rename);
        rebuild(&a, "t", "k INTEGER PRIMARY KEY, v)", "k,v");
        agree(&mut a, &mut b, false, "SELECT k, v FROM t", &["1|NULL", "2|x"]);
        b.run("UPDATE t SET v = 'b' WHERE k = 1");
        agree(&mut a, &mut b, true, "SELECT k, v FROM t", &["1|b", "2|x"]);
    }
}

/// Rows that refer to each other, some written before a rebuild that drops the triggers and some after.
#[test]
fn mig_rebuild_rows_that_refer_to_rows_of_before_it() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, r REFERENCES t(k))";
    let (mut a, mut b) = pair(&world, sql);
    a.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(1, 99)");
    rebuild(&a, "t", "k INTEGER PRIMARY KEY, r REFERENCES t(k), c)", "k,r");
    a.run("INSERT INTO t(k, r) VALUES(2, 1)");
    agree(&mut a, &mut b, false, "SELECT k, r FROM t", &[]);
    b.run("PRAGMA foreign_keys = OFF; INSERT INTO t(k) VALUES(99)");
    agree(&mut a, &mut b, false, "SELECT k, r FROM t", &["1|99", "2|1", "99|NULL"]);
}

/// A number that a row was given becomes a text with its key, and stays.
#[test]
fn mig_rebuild_a_given_number_becomes_a_text() {
    for turned in [false, true] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, "CREATE TABLE t(k INTEGER PRIMARY KEY, w)");
        a.run("INSERT INTO t VALUES(1, 'a')");
        b.run("INSERT INTO t VALUES(1, 'b')");
        b.pull(&mut a);
        rebuild(&b, "t", "k TEXT PRIMARY KEY, w)", "k,w");
        b.replica.fold().unwrap();
        assert_eq!(b.rows("SELECT k, w FROM t ORDER BY k"), ["1|a", "2|b"]);
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
        a.pull(&mut b);
        rebuild(&a, "t", "k TEXT PRIMARY KEY, w)", "k,w");
        agree(&mut a, &mut b, turned, "SELECT k, w FROM t ORDER BY k", &["1|a", "2|b"]);
    }
}

/// What a hidden row asks for is told as its columns hold it, whenever they came to be what they are.
#[test]
fn mig_rebuild_hidden_rows_are_told_alike_on_all_sites() {
    for (columns, copied) in [
        ("k TEXT PRIMARY KEY, u UNIQUE, c)", "k,u,c"),
        ("k INTEGER PRIMARY KEY, u TEXT UNIQUE, c NOT NULL DEFAULT 1, d INT DEFAULT 2)", "k,u"),
    ] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, "CREATE TABLE t(k INTEGER PRIMARY KEY, u UNIQUE)");
        for site in [&a, &b] {
            site.run("INSERT INTO t VALUES(3, 7)");
        }
        for site in [&a, &b] {
            site.run("ALTER TABLE t ADD COLUMN c");
        }
        b.pull(&mut a);
        rebuild(&b, "t", columns, copied);
        b.replica.fold().unwrap();
        rebuild(&a, "t", columns, copied);
        agree(&mut a, &mut b, false, "SELECT count(*) FROM t", &["1"]);
        let asked = |site: &Site| site.replica.records().unwrap()[0].displaced.clone();
        assert_eq!(asked(&a), asked(&b));
    }
}

/// What a column of another type stores otherwise is given on as it was written, also where a row is new
/// or was only updated.
#[test]
fn mig_rebuild_a_type_and_others_write_in_the_old_one() {
    for columns in ["k TEXT PRIMARY KEY, v TEXT)", "v TEXT, k TEXT PRIMARY KEY)"] {
        let world = World::new();
        let sql = "CREATE TABLE t(k INT PRIMARY KEY, v); INSERT INTO t VALUES(1, 1)";
        let (mut a, mut b) = pair(&world, sql);
        let mut c = world.clone_site(&mut a, "c");
        rebuild(&a, "t", columns, "k,v");
        b.run("INSERT INTO t VALUES(2, 2); UPDATE t SET v = 3 WHERE k = 1");
        a.pull(&mut b);
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
        c.pull(&mut a);
        b.run("DELETE FROM t WHERE k = 2");
        c.pull(&mut b);
        a.pull(&mut c);
        let typed = "SELECT k, typeof(v), v FROM t ORDER BY k";
        assert_eq!(a.rows(typed), ["1|text|3"]);
        assert_eq!(c.rows(typed), ["1|integer|3"]);
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// Rows that stood in the way of a row which was then ignored are still there when the table is rebuilt.
#[test]
fn mig_rebuild_after_an_insert_that_was_ignored() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, u UNIQUE, v); INSERT INTO t VALUES(2, 1, 0)";
    let (mut a, mut b) = pair(&world, sql);
    a.run("INSERT INTO t VALUES(3, 2, 0), (4, 3, 0)");
    a.replica.fold().unwrap();
    a.run("INSERT OR IGNORE INTO t VALUES(2, 2, 9)");
    a.run("UPDATE t SET v = 5 WHERE k = 4");
    for site in [&a, &b] {
        rebuild(site, "t", "k TEXT PRIMARY KEY, u UNIQUE, v)", "k,u,v");
    }
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY 1", &["2|1|0", "3|2|0", "4|3|5"]);
}

/// What a hidden row holds of a column that others tell was renamed comes back under the new name.
#[test]
fn mig_rename_a_column_of_a_hidden_row_and_rebuild_it() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE, m)";
    let (mut a, mut b) = pair(&world, sql);
    a.run("INSERT INTO t VALUES('a', 1, 'first')");
    b.run("INSERT INTO t VALUES('b', 1, 'second')");
    settle(&mut a, &mut b);
    let rename = "ALTER TABLE t RENAME COLUMN m TO n";
    b.run(rename);
    b.replica.fold().unwrap();
    a.run(rename);
    rebuild(&a, "t", "k TEXT PRIMARY KEY, u UNIQUE, n)", "k,u,n");
    a.replica.fold().unwrap();
    agree(&mut a, &mut b, false, "SELECT * FROM t", &["a|1|first"]);
    assert_eq!(a.replica.records().unwrap()[0].displaced[2].0, "n");
    a.run("DELETE FROM t");
    agree(&mut a, &mut b, false, "SELECT * FROM t", &["b|1|second"]);
}

#[test]
fn mig_rebuild_shows_what_was_written_where_a_column_can_hold_it_now() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k INT PRIMARY KEY, v NUMERIC, m)");
    let rebuild = "CREATE TABLE n(k TEXT PRIMARY KEY, v, m); INSERT INTO n SELECT * FROM t;
                   DROP TABLE t; ALTER TABLE n RENAME TO t";
    b.run(rebuild);
    b.run("INSERT INTO t VALUES('2.0', '7', 2.0)");
    a.pull(&mut b);
    assert_eq!(a.row("SELECT k, v FROM t"), "2|7");
    a.run(rebuild);
    a.replica.fold().unwrap();
    assert_eq!(a.row("SELECT k, typeof(v) FROM t"), "2.0|text");
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
}

/// Integer keys become texts in the second of two rebuilds, after rows that no trigger saw.
#[test]
fn mig_rebuild_an_integer_key_that_was_changed_meanwhile_becomes_a_text() {
    let r = "r TEXT REFERENCES t(k) ON DELETE SET NULL ON UPDATE CASCADE)";
    let sql = format!(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, w TEXT, {r};
         INSERT INTO t VALUES(2, 'x', NULL), (4, 'a', NULL)"
    );
    let refers = "INSERT INTO t VALUES(5, 'b', 5)";
    let cases: [(&str, &str, &[&str]); 5] = [
        (refers, "DELETE FROM t WHERE k = 4", &["2|x|NULL", "5|b|5"]),
        (refers, "DELETE FROM t WHERE k < 5", &["5|b|5"]),
        ("", "UPDATE t SET k = 7 WHERE k = 4", &["2|x|NULL", "7|a|NULL"]),
        ("", "UPDATE t SET k = 1 WHERE k = 4", &["1|a|NULL", "2|x|NULL"]),
        (
            refers,
            "DELETE FROM t WHERE k = 2; INSERT INTO t(k, w, r) VALUES(9, 'c', '9')",
            &["4|a|NULL", "5|b|5", "9|c|9"],
        ),
    ];
    for ((before, between, want), turned) in cases.iter().flat_map(|c| [(c, false), (c, true)]) {
        for kind in ["TEXT", "NUMERIC"] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, &sql);
            let wider = format!("k INTEGER PRIMARY KEY, c, w TEXT, {r}");
            let other = format!("k {kind} PRIMARY KEY, c, w TEXT, {r}");
            b.run(before);
            rebuild(&b, "t", &wider, "k,w,r");
            b.run(between);
            rebuild(&b, "t", &other, "k,w,r");
            rebuild(&a, "t", &other, "k,w,r");
            let sql = "SELECT CAST(CAST(k AS INT) AS TEXT), w, CAST(CAST(r AS INT) AS TEXT) \
                       FROM t ORDER BY 1";
            agree(&mut a, &mut b, turned, sql, want);
            let shown = "SELECT k, r FROM t ORDER BY 1";
            assert_eq!(a.rows(shown), b.rows(shown));
        }
    }
}

/// A table that is made before the next command, and refers to the rebuilt one, changes nothing of it.
#[test]
fn mig_rebuild_and_a_new_table_that_refers_to_it() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, u UNIQUE, r REFERENCES t(u))";
    let (mut a, mut b) = pair(&world, sql);
    b.run("INSERT INTO t VALUES(1, 'b1', NULL)");
    rebuild_by_hand(&a, "t", "k TEXT PRIMARY KEY, u UNIQUE, r)", "k,u,r");
    a.run("INSERT INTO t VALUES(NULL, 'a', NULL)");
    b.pull(&mut a);
    b.run("PRAGMA foreign_keys=OFF; INSERT INTO t VALUES(2, NULL, 'nobody')");
    b.replica.fold().unwrap();
    rebuild_by_hand(&b, "t", "k TEXT PRIMARY KEY, u UNIQUE, r)", "k,u,r");
    for site in [&a, &b] {
        site.run("CREATE TABLE c(k PRIMARY KEY, r REFERENCES t(k))");
    }
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    let want = ["NULL|a|NULL", "1|b1|NULL", "2|NULL|nobody"];
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &want);
}

/// A row that no trigger saw, and that is hidden, has a rowid which a run of rows leaves out.
#[test]
fn mig_rebuild_and_a_row_in_a_gap_of_others() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, w, r REFERENCES t(k)); \
               INSERT INTO t VALUES(2, 'b', 2), (5, 'e', NULL), (6, 'f', 5)";
    let (mut a, mut b) = pair(&world, sql);
    for site in [&a, &b] {
        rebuild(site, "t", "k TEXT PRIMARY KEY, w, r REFERENCES t(k))", "k,w,r");
    }
    b.run("PRAGMA foreign_keys=OFF; INSERT INTO t VALUES('3', 'c', '4')");
    let want = ["2|b|2", "5|e|NULL", "6|f|5"];
    agree(&mut a, &mut b, false, "SELECT * FROM t ORDER BY k", &want);
    for site in [&a, &b] {
        let records = site.replica.records().unwrap();
        let displaced = ("w".to_owned(), synqlite_core::Value::Text(b"c".to_vec()));
        assert!(records.len() == 1 && records[0].displaced.contains(&displaced), "{records:?}");
    }
}

/// What no trigger noted is a write also where the row is hidden by what triggers of another table did.
#[test]
fn mig_rebuild_and_a_row_written_that_is_hidden_at_once() {
    let world = World::new();
    let sql = "CREATE TABLE p(k PRIMARY KEY, r REFERENCES p(k)); \
               CREATE TABLE t(k PRIMARY KEY, w, r REFERENCES p(k)); INSERT INTO t VALUES(1, 'b', NULL)";
    let (mut a, mut b) = pair(&world, sql);
    for site in [&a, &b] {
        rebuild(site, "t", "k PRIMARY KEY, w, r REFERENCES p(k))", "k,w,r");
    }
    b.run("PRAGMA foreign_keys=OFF; INSERT INTO p VALUES(7, 8); UPDATE t SET w = 'c', r = 7");
    agree(&mut a, &mut b, false, "SELECT * FROM t", &[]);
    a.run("INSERT INTO p VALUES(8, NULL)");
    agree(&mut a, &mut b, true, "SELECT * FROM t", &["1|c|7"]);
}

/// Who refers to a row that REPLACE displaced unseen refers to the row that has its key, everywhere.
#[test]
fn mig_rebuild_and_a_row_displaced_by_one_of_a_run() {
    let world = World::new();
    let r = "r REFERENCES t(u))";
    let sql = format!(
        "CREATE TABLE t(k INTEGER PRIMARY KEY, w, u UNIQUE ON CONFLICT REPLACE, {r}; \
         INSERT INTO t VALUES(5, 'e', 2, NULL), (3, 'c', 1, 2)"
    );
    let (mut a, mut b) = pair(&world, &sql);
    b.run("INSERT INTO t VALUES(NULL, 'f', 5, NULL)");
    let wider = format!("k INTEGER PRIMARY KEY, w, v, u UNIQUE ON CONFLICT REPLACE, {r}");
    for site in [&a, &b] {
        rebuild(site, "t", &wider, "k,w,u,r");
    }
    b.run("INSERT INTO t(w, u, r) VALUES('g', 2, 1)");
    let want = ["3|c|1|2", "6|f|5|NULL", "7|g|2|1"];
    agree(&mut a, &mut b, false, "SELECT k, w, u, r FROM t ORDER BY 1", &want);
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
}

/// A default that one site has stored as a double, and another as an integer.
#[test]
fn mig_rebuild_a_default_that_one_site_spells_otherwise() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k TEXT PRIMARY KEY)");
    b.run("INSERT INTO t VALUES('x')");
    b.replica.fold().unwrap();
    for site in [&a, &b] {
        rebuild(site, "t", "k TEXT PRIMARY KEY, c REAL DEFAULT 3)", "k");
        rebuild(site, "t", "k TEXT PRIMARY KEY, c DEFAULT 3)", "k,c");
    }
    agree(&mut a, &mut b, false, "SELECT k, typeof(c) FROM t", &["x|real"]);
}

/// A row whose key triggers saw change, and another of its columns nobody.
#[test]
fn mig_rebuild_and_a_row_that_had_got_another_key() {
    for kind in ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY"] {
        let world = World::new();
        let sql =
            format!("CREATE TABLE t(k {kind}, v, w); INSERT INTO t VALUES(4, 1, 'a'), (6, 2, 'b')");
        let (mut a, mut b) = pair(&world, &sql);
        b.run("UPDATE t SET k = 5 WHERE k = 4; UPDATE t SET k = 4 WHERE k = 6");
        for site in [&a, &b] {
            rebuild(site, "t", &format!("k {kind}, v, w, x)"), "k,v,w");
        }
        b.run("UPDATE t SET w = 'c' WHERE k = 5");
        let want = ["4|2|b", "5|1|c"];
        agree(&mut a, &mut b, false, "SELECT k, v, w FROM t ORDER BY 1", &want);
    }
}
