//! Tables that are dropped (R-MIG-DROP), and made again (R-MIG-REBUILD).

use crate::migrate::{agree, pair};
use crate::site::{Site, World, settle};
use rusqlite::Connection;
use std::sync::Arc;
use synqlite_core::{Error, InitOptions, Replica, System};

/// Two sites drop a table and fill it anew. What they fill in has nothing to do with what was there, nor
/// with what the other fills in.
#[test]
fn mig_rebuild_a_table_that_is_dropped_and_filled_anew() {
    let tables = [
        "CREATE TABLE t(k TEXT PRIMARY KEY, c, d)",
        "CREATE TABLE t(k TEXT PRIMARY KEY, e INTEGER NOT NULL DEFAULT 3, d TEXT)",
        "CREATE TABLE t(k, c, d)",
    ];
    for (noted, made) in tables.iter().flat_map(|made| [(false, made), (true, made)]) {
        let world = World::new();
        let first = if made.contains("PRIMARY KEY") { tables[0] } else { tables[2] };
        let sql = format!("{first}; INSERT INTO t VALUES('x', 5, 6), ('y', 1, 2)");
        let (mut a, mut b) = pair(&world, &sql);
        let again = format!("DROP TABLE t; {made}");
        for (site, row) in [(&mut a, "('a', 10, 11)"), (&mut b, "('b', 20, 21)")] {
            site.run(&again);
            if noted {
                site.replica.fold().unwrap();
            }
            site.run(&format!("INSERT INTO t VALUES{row}"));
        }
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM t ORDER BY k"), ["a|10|11", "b|20|21"], "{made}");
        }
        agree(&mut [&mut a, &mut b]);
    }
}

/// A deleted row is kept for the rows of a table on the sites that have this table.
#[test]
fn mig_drop_a_row_goes_with_the_table_that_kept_it() {
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE other(id INTEGER PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id));
        CREATE TABLE d(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) ON DELETE CASCADE);
        INSERT INTO p VALUES(1), (2); INSERT INTO d VALUES(1, 2)";
    let shows = |site: &mut Site, shown: &[&str], story: &str| {
        site.replica.fold().unwrap();
        assert_eq!(site.rows("SELECT id FROM p UNION ALL SELECT 10 * id FROM d"), shown, "{story}");
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{story}");
        site.check();
    };
    for drop in ["DROP TABLE c", "DROP TABLE c; ALTER TABLE other ADD COLUMN w"] {
        for first in [true, false] {
            let story = format!("{drop}, first: {first}");
            let world = World::new();
            let (mut a, mut b) = pair(&world, sql);
            b.run("DELETE FROM p WHERE id = 2");
            a.run("INSERT INTO c VALUES(1, 2)");
            if !first {
                b.pull(&mut a);
                shows(&mut b, &["1", "2", "10"], &story);
            }
            b.run(drop);
            if !first {
                shows(&mut b, &["1"], &story);
            }
            b.pull(&mut a);
            shows(&mut b, &["1"], &story);
            a.pull(&mut b);
            shows(&mut a, &["1", "2", "10"], &story);
            a.run(drop);
            shows(&mut a, &["1"], &story);
            settle(&mut a, &mut b);
            agree(&mut [&mut a, &mut b]);
        }
    }
}

/// What the user wrote to such a row while he had the table lives on without it.
#[test]
fn mig_drop_a_row_that_was_written_stays_without_the_table_that_kept_it() {
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, v); INSERT INTO p VALUES(1, 'a');
        CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id))";
    let world = World::new();
    let (mut a, mut b) = pair(&world, sql);
    b.run("DELETE FROM p");
    a.run("INSERT INTO c VALUES(1, 1)");
    b.pull(&mut a);
    b.run("UPDATE p SET v = 'b'; DROP TABLE c");
    settle(&mut a, &mut b);
    a.run("DROP TABLE c");
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
    assert_eq!(a.rows("SELECT * FROM p"), ["1|b"]);
    assert_eq!(a.replica.open_conflicts().unwrap(), 0);
}

/// Records of a table go with it.
#[test]
fn a_dropped_table_has_no_open_records() {
    let world = World::new();
    let (mut a, mut b) =
        pair(&world, "CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE); CREATE TABLE s(x)");
    a.run("INSERT INTO t VALUES('a', 1)");
    b.run("INSERT INTO t VALUES('b', 1)");
    settle(&mut a, &mut b);
    assert_eq!((a.replica.open_conflicts().unwrap(), a.replica.conflicts().unwrap().len()), (1, 1));
    a.run("DROP TABLE t");
    for _ in 0..2 {
        assert_eq!(a.replica.open_conflicts().unwrap(), 0);
        assert!(a.replica.conflicts().unwrap().is_empty());
        a.replica.fold().unwrap();
    }
}

/// A table that has no rowids any more keeps nothing of them: its rows are others, under their keys.
#[test]
fn rows_without_rowids_are_named_by_their_keys() {
    for key in ["k INTEGER NOT NULL PRIMARY KEY, w", "k INTEGER NOT NULL, w, PRIMARY KEY(k, w)"] {
        let world = World::new();
        let table = "CREATE TABLE t(k INTEGER PRIMARY KEY, w)";
        let (mut a, mut b) =
            pair(&world, &format!("{table}; INSERT INTO t VALUES(1, 'a'), (2, 'b')"));
        a.run("INSERT INTO t VALUES(NULL, 'c')");
        a.replica.fold().unwrap();
        b.run("INSERT INTO t VALUES(NULL, 'd')");
        for site in [&mut a, &mut b] {
            site.run(&format!(
                "CREATE TABLE n({key}) WITHOUT ROWID; INSERT INTO n SELECT * FROM t; \
                 DROP TABLE t; ALTER TABLE n RENAME TO t; DELETE FROM t WHERE k = 2"
            ));
            site.replica.fold().unwrap();
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{key}");
        }
        settle(&mut a, &mut b);
        for site in [&mut a, &mut b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{key}");
        }
        assert_eq!(a.rows("SELECT * FROM t"), b.rows("SELECT * FROM t"), "{key}");
    }
}

/// Whether a command saw it gone or not: it is the same table to all, whose rows were deleted.
#[test]
fn a_table_dropped_and_made_again_is_the_same_table() {
    let kinds = [
        "id INTEGER PRIMARY KEY, v)",
        "id TEXT PRIMARY KEY, v)",
        "id, v)",
        "id TEXT PRIMARY KEY, v) WITHOUT ROWID",
    ];
    for case in (0..128_u32).step_by(3) {
        let kind = kinds[case.count_ones() as usize % kinds.len()];
        let is = |bit: u32| case >> bit & 1 == 1;
        let what = format!("{kind} {case}");
        let world = World::new();
        let table = format!("CREATE TABLE t({kind}");
        let mut a = world.init(
            "a",
            &format!("{table}; CREATE TABLE o(x); INSERT INTO t VALUES(1, 'a'), (2, 'b')"),
        );
        let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
        let again = |site: &mut Site, seen: bool, heard: Option<&mut Site>| {
            site.run("DROP TABLE t");
            if seen {
                site.replica.fold().unwrap();
            }
            if let Some(other) = heard {
                site.pull(other);
            }
            site.run(&table);
        };
        if is(0) {
            b.run("UPDATE t SET v = 'b of b' WHERE id = 2; INSERT INTO t VALUES(3, 'c of b')");
            c.run("UPDATE t SET v = 'a of c' WHERE id = 1; DELETE FROM t WHERE id = 2");
        }
        if is(1) {
            again(&mut b, is(2), None);
            b.run("INSERT INTO t VALUES(5, 'new of b')");
        }
        again(&mut a, is(3), if is(4) { Some(&mut c) } else { None });
        if is(5) {
            a.run("INSERT INTO t VALUES(1, 'new of a'), (9, 'more of a')");
        }
        if is(6) {
            settle(&mut a, &mut b);
            c.run("INSERT INTO t VALUES(7, 'new of c')");
        }
        for _ in 0..2 {
            settle(&mut a, &mut c);
            settle(&mut b, &mut c);
            settle(&mut a, &mut b);
        }
        for site in [&a, &b, &c] {
            let shown = "SELECT id, v FROM t ORDER BY 1, 2";
            assert_eq!(a.rows(shown), site.rows(shown), "{what}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{what}");
            assert_eq!(site.replica.digest().unwrap(), a.replica.digest().unwrap(), "{what}");
        }
    }
}

/// What is made under the name of a dropped table may have nothing in common with it.
#[test]
fn a_table_of_another_kind_under_a_dropped_name() {
    let kinds = [
        "id INTEGER NOT NULL, l NOT NULL, v, PRIMARY KEY(id, l)) WITHOUT ROWID",
        "id INTEGER PRIMARY KEY, l DEFAULT 5, v)",
        "id TEXT PRIMARY KEY, l DEFAULT 5, w)",
        "l DEFAULT 5, id, w UNIQUE)",
        "id INTEGER PRIMARY KEY, l DEFAULT 5 UNIQUE, v NOT NULL DEFAULT 1) WITHOUT ROWID",
        "l INTEGER PRIMARY KEY, id, v) WITHOUT ROWID",
    ];
    let pairs = kinds.iter().flat_map(|first| kinds.iter().map(move |second| (first, second)));
    // Half of the cases of each pair.
    let cases = |n: u32| (0..8_u32).filter(move |case| (case.count_ones() + n).is_multiple_of(2));
    let all = (0..).zip(pairs).flat_map(|(n, pair)| cases(n).map(move |case| (pair, case)));
    for ((first, second), case) in all {
        let is = |bit: u32| case >> bit & 1 == 1;
        let what = format!("{first}, then {second}: {case}");
        let world = World::new();
        let sql = format!("CREATE TABLE t({first}; CREATE TABLE o(x)");
        let (mut a, mut b) = pair(&world, &sql);
        a.run("INSERT INTO t(id, l) VALUES(1, 1), (2, 2)");
        b.pull(&mut a);
        b.run("INSERT INTO t(id, l) VALUES(3, 3); UPDATE t SET l = 7 WHERE id = 1");
        for (site, bit) in [(&mut a, 0), (&mut b, 1)] {
            site.run("DROP TABLE t");
            if is(bit) {
                site.replica.fold().unwrap();
            }
            site.run(&format!("CREATE TABLE t({second}"));
            if is(2) {
                site.run("INSERT INTO t(id, l) VALUES(1, 8), (9, 9)");
            }
        }
        settle(&mut a, &mut b);
        settle(&mut a, &mut b);
        assert_eq!(
            a.rows("SELECT id, l FROM t ORDER BY 1, 2"),
            b.rows("SELECT id, l FROM t ORDER BY 1, 2"),
            "{what}"
        );
        for site in [&a, &b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{what}");
            assert_eq!(site.replica.digest().unwrap(), a.replica.digest().unwrap(), "{what}");
        }
    }
}

/// What others write to a table before it is there again is kept, and shown by it.
#[test]
fn mig_stash_what_came_for_a_table_before_it_was_made_again() {
    let world = World::new();
    let (mut a, mut b) =
        pair(&world, "CREATE TABLE t(w NOT NULL DEFAULT '', n); CREATE TABLE o(x)");
    let again = "CREATE TABLE t(k INTEGER PRIMARY KEY, w TEXT, n INTEGER)";
    a.run(&format!("DROP TABLE t; {again}; INSERT INTO t VALUES(4, 'w', 1)"));
    b.run("DROP TABLE t");
    b.pull(&mut a);
    b.run(again);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t"), ["4|w|1"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// What came for a row while its table was gone was never shown there, and goes with the rows that the table
/// had; that is told (R-MIG-AGAIN, R-TOLD).
#[test]
fn mig_stash_what_came_for_a_row_that_goes_with_its_table() {
    let world = World::new();
    let table = "CREATE TABLE t(k TEXT PRIMARY KEY, v, w)";
    let (mut a, mut b) = pair(&world, &format!("{table}; INSERT INTO t VALUES('x', 1, 2)"));
    a.run("DROP TABLE t");
    b.run("UPDATE t SET w = 3");
    a.pull(&mut b);
    a.run(table);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t"), [""; 0]);
        let told = site.replica.closed_conflicts().unwrap();
        let told: Vec<_> =
            told.iter().map(|c| (&c.row[..], c.what.contains("w: 3 of site"))).collect();
        assert_eq!(told, [("'x'", true)]);
    }
}

/// A row has its key where a table gets rowids, or loses them, and its counters start anew.
#[test]
fn mig_rebuild_with_or_without_rowids_and_counters() {
    for (first, second) in [("WITHOUT ROWID", ""), ("", "WITHOUT ROWID")] {
        let world = World::new();
        let table = |name: &str, tail: &str| {
            format!("CREATE TABLE {name}(k TEXT PRIMARY KEY NOT NULL, n INTEGER, v) {tail}")
        };
        let sql = format!("{}; INSERT INTO t VALUES('a', 5, 1), ('b', 6, 1)", table("t", first));
        let mut a = world.init_with("a", &sql, &[("t.n", "counter")]);
        let mut b = world.clone_site(&mut a, "b");
        a.run("UPDATE t SET n = n + 1");
        b.run("UPDATE t SET n = n + 10 WHERE k = 'a'");
        for site in [&mut a, &mut b] {
            let made = table("new", second);
            site.run(&format!(
                "{made}; INSERT INTO new SELECT * FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t"
            ));
            site.replica.fold().unwrap();
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{first}");
        }
        settle(&mut a, &mut b);
        assert_eq!(a.rows("SELECT * FROM t ORDER BY k"), b.rows("SELECT * FROM t ORDER BY k"));
        for site in [&a, &b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{first}");
        }
    }
}

/// What a hidden row keeps of columns that are younger than it is written, once it shows it. Where a command
/// saw its table gone it goes with the other rows.
#[test]
fn mig_rebuild_a_table_with_a_row_that_was_hidden() {
    let old = "CREATE TABLE c(k NOT NULL, l NOT NULL, w, p REFERENCES p(u) ON DELETE CASCADE,
        PRIMARY KEY(k, l))";
    let new = "CREATE TABLE c(k INTEGER PRIMARY KEY, w, p REFERENCES p(u))";
    let sql = format!(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, u UNIQUE, v); {old}; INSERT INTO p VALUES(1, 2, 'a')"
    );
    for other in ["", "ALTER TABLE c ADD COLUMN x", "CREATE TABLE other(x)"] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, &sql);
        b.run("INSERT INTO c VALUES(3, 'x', 'w', 2)");
        a.run("DELETE FROM p");
        settle(&mut a, &mut b);
        b.run("DROP TABLE c");
        b.replica.fold().unwrap();
        a.run(&format!("DROP TABLE c; {new}; {other}"));
        b.run(&format!("{new}; {other}"));
        for (site, shows) in [(&mut a, &["a|w"][..]), (&mut b, &[])] {
            site.replica.fold().unwrap();
            assert_eq!(site.rows("SELECT p.v, c.w FROM p, c"), shows, "{other}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{other}");
        }
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b]);
        assert_eq!(a.rows("SELECT p.v, c.w FROM p, c"), [""; 0], "{other}");
    }
}

/// A reference to a row that a rebuilt table lost unnoticed is to nobody on all sites, also where another
/// value of its row was to nobody before.
#[test]
fn mig_rebuild_a_reference_to_a_row_that_goes_unnoticed() {
    let world = World::new();
    let table = |name: &str, first: &str| {
        format!("CREATE TABLE {name}({first} k TEXT PRIMARY KEY, u UNIQUE, n, r REFERENCES t(k))")
    };
    let (mut a, mut b) = pair(&world, &table("t", ""));
    a.replica.set_policies(&["t.refs=n:t".parse().unwrap()]).unwrap();
    a.run("INSERT INTO t VALUES('p', 1, NULL, NULL), ('c', 2, 'nobody', 'p')");
    settle(&mut a, &mut b);
    a.run(&format!(
        "PRAGMA foreign_keys=OFF; {}; INSERT INTO new SELECT 0, * FROM t; DROP TABLE t; \
         ALTER TABLE new RENAME TO t; REPLACE INTO t VALUES(0, 'q', 1, NULL, NULL)",
        table("new", "a,")
    ));
    a.replica.fold().unwrap();
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k FROM t"), ["q"]);
        let records = site.replica.conflicts().unwrap();
        let records: Vec<_> =
            records.iter().map(|c| (c.kind.as_str(), &*c.row, &*c.constraint)).collect();
        assert_eq!(records, [("fk_dangling", "'c'", "r>t")]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// What was asked for once stays asked for, though a table of it is gone.
#[test]
fn a_copy_becomes_a_site_whatever_was_dropped() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, n INT); CREATE TABLE u(k INTEGER PRIMARY KEY); \
               CREATE TABLE v(k INTEGER PRIMARY KEY)";
    let conn = Connection::open(world.path("a")).unwrap();
    conn.execute_batch(sql).unwrap();
    let options = InitOptions {
        tables: ["t", "u"].map(String::from).to_vec(),
        exclude: vec!["v".into()],
        policies: vec!["t.refs=n:u".parse().unwrap(), "u.identity=key".parse().unwrap()],
        ..InitOptions::default()
    };
    Replica::init(&world.path("a"), &options, Arc::new(System)).unwrap();
    let mut a = world.open("a");
    a.run("DROP TABLE u; DROP TABLE v; INSERT INTO t VALUES(1, 1)");
    let mut b = world.clone_site(&mut a, "b");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM t"), ["1|1"]);
    Replica::init(&world.path("b"), &InitOptions::default(), Arc::new(System)).unwrap();
    let gone = InitOptions { tables: vec!["u".into()], ..InitOptions::default() };
    assert!(matches!(
        Replica::init(&world.path("b"), &gone, Arc::new(System)),
        Err(Error::NoTable { .. })
    ));
}

/// What a row held that was never given away is gone with its table, and so is the row.
#[test]
fn rows_of_a_dropped_table_that_nobody_has_are_no_rows_elsewhere() {
    for hidden in [false, true] {
        let world = World::new();
        let mut a = world.init(
            "a",
            "CREATE TABLE p(k INTEGER PRIMARY KEY); \
             CREATE TABLE t(k TEXT PRIMARY KEY, w, p INT REFERENCES p(k))",
        );
        let mut b = world.clone_site(&mut a, "b");
        b.run("PRAGMA foreign_keys = OFF");
        b.run(&format!("INSERT INTO t VALUES('x', 1, {})", if hidden { "7" } else { "NULL" }));
        b.replica.fold().unwrap();
        b.run("UPDATE t SET w = 2");
        b.replica.fold().unwrap();
        b.run("DROP TABLE t");
        settle(&mut a, &mut b);
        assert_eq!(a.rows("SELECT * FROM t"), [""; 0]);
        assert!(a.replica.conflicts().unwrap().is_empty());
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A row that REPLACE displaced by its key goes on as the one that came; a table that is made anew without a
/// key names no row by one.
#[test]
fn a_table_made_anew_without_its_key_is_folded_after_a_replace() {
    let world = World::new();
    let key = "CREATE TABLE t(k TEXT PRIMARY KEY, v); INSERT INTO t VALUES('x', 1)";
    let (mut a, mut b) = pair(&world, key);
    let again = "DROP TABLE t; CREATE TABLE t(v, w)";
    a.run(&format!("REPLACE INTO t VALUES('x', 2); {again}; INSERT INTO t VALUES(3, 4)"));
    b.run(again);
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT * FROM t"), ["3|4"]);
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
}

/// Rows that are inserted together share a state, which spans rowids that none of them has. A row of another site at
/// such a rowid that is deleted before a rebuild takes nobody along.
#[test]
fn mig_rebuild_after_a_delete_between_rows_that_share_a_state() {
    for unseen in [false, true] {
        let world = World::new();
        let table = |name: &str| {
            format!("CREATE TABLE {name}(k INTEGER PRIMARY KEY, w, r INT REFERENCES t(k))")
        };
        let rows = "INSERT INTO t VALUES(1, 'a', 1), (4, 'd', 1)";
        let (mut a, mut b) = pair(&world, &format!("{}; {rows}", table("t")));
        b.run("INSERT INTO t VALUES(2, 'b', NULL)");
        settle(&mut a, &mut b);
        a.run("DELETE FROM t WHERE k = 2");
        a.run(&format!(
            "PRAGMA foreign_keys=OFF; {}; INSERT INTO new SELECT * FROM t; DROP TABLE t; \
             ALTER TABLE new RENAME TO t; INSERT INTO t VALUES(7, 'g', 2)",
            table("new")
        ));
        if unseen {
            a.run("INSERT INTO t VALUES(2, 'n', 1)");
        }
        a.replica.fold().unwrap();
        let there = if unseen { "2|n|1" } else { "" };
        assert_eq!(a.rows("SELECT * FROM t WHERE k = 2").join(" "), there);
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b]);
        assert_eq!(b.rows("SELECT * FROM t WHERE k = 2").join(" "), there);
        let births = "SELECT count(*) FROM synqlite_row WHERE rid = x'010001' OR rid = x'010002'";
        assert_eq!(a.row(births), "0", "nobody was born there");
    }
}

/// Rows get numbers where a table is rebuilt with an integer key, and a hidden row has one of them elsewhere. Each
/// shows the number that it has elsewhere.
#[test]
fn mig_rebuild_with_numbers_that_others_gave_first() {
    let world = World::new();
    let schema = "CREATE TABLE t(key TEXT PRIMARY KEY, u INT UNIQUE); CREATE TABLE s(k PRIMARY KEY, y); \
                  INSERT INTO t VALUES('k1', 5); INSERT INTO s VALUES(1, 1)";
    let (mut b, mut c) = pair(&world, schema);
    let rebuild = "CREATE TABLE n(id INTEGER PRIMARY KEY, key TEXT, u INT UNIQUE); \
                   INSERT INTO n(key, u) SELECT key, u FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t";
    b.run("INSERT INTO t VALUES('k2', 22)");
    b.run(rebuild);
    b.run("INSERT INTO t(key, u) VALUES('k1', 15)");
    c.run("INSERT INTO t VALUES('k4', 18)");
    settle(&mut c, &mut b);
    c.run("UPDATE s SET y = 2");
    c.run(rebuild);
    c.replica.fold().unwrap();
    settle(&mut c, &mut b);
    agree(&mut [&mut b, &mut c]);
    assert_eq!(c.rows("SELECT id, u FROM t WHERE key = 'k1' ORDER BY id"), ["1|5", "3|15"]);
    assert_eq!(c.row("SELECT count(*) FROM t"), "4");
}

/// A key that kept the number which its row asked for becomes a key of two columns, and the rebuild gives the rows
/// other rowids: each keeps its own values.
#[test]
fn mig_rebuild_a_kept_key_with_a_column_that_is_shown() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(id INTEGER PRIMARY KEY, c TEXT)");
    a.run("INSERT INTO t(c) VALUES('junk')");
    settle(&mut a, &mut b);
    b.run("INSERT INTO t(c) VALUES('of b')");
    a.run("INSERT INTO t(c) VALUES('of a')");
    let rebuild = |columns: &str| {
        format!(
            "CREATE TABLE n({columns}); INSERT INTO n SELECT CAST(id AS TEXT), c FROM t; \
             DROP TABLE t; ALTER TABLE n RENAME TO t"
        )
    };
    let (text, two) = ("id TEXT PRIMARY KEY, c TEXT", "id TEXT, c TEXT, PRIMARY KEY(id, c)");
    a.run(&rebuild(text));
    settle(&mut a, &mut b);
    b.run(&rebuild(text));
    b.replica.fold().unwrap();
    b.run(&rebuild(two));
    settle(&mut b, &mut a);
    a.run("DELETE FROM t WHERE c = 'junk'");
    a.replica.fold().unwrap();
    a.run(&rebuild(two));
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
    assert_eq!(a.rows("SELECT * FROM t ORDER BY c DESC"), ["2|of b", "3|of a"]);
}

/// A table that is rebuilt under another name before any command is known by the rows that nobody is known to have
/// written or deleted: those that are gone, just now or long ago, and those that are hidden say nothing against it.
#[test]
fn mig_rename_a_rebuilt_table_most_of_whose_rows_went() {
    let rebuild = "CREATE TABLE n(id INTEGER PRIMARY KEY, b, r INT REFERENCES p(id)); \
                   INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO z";
    for (before, now, left) in [
        ("", "DELETE FROM t WHERE id < 4", "4,5"),
        ("DELETE FROM t WHERE id < 4", "", "4,5"),
        ("DELETE FROM t", "INSERT INTO t(b) VALUES('n')", "n"),
        (
            "DELETE FROM t; PRAGMA foreign_keys=OFF; INSERT INTO t VALUES(9, 'hidden', 5)",
            "",
            "hidden",
        ),
    ] {
        let world = World::new();
        let (mut a, mut b) = pair(
            &world,
            "CREATE TABLE p(id INTEGER PRIMARY KEY); \
             CREATE TABLE t(id INTEGER PRIMARY KEY, b, r INT REFERENCES p(id))",
        );
        a.run("INSERT INTO t(b) VALUES('1'), ('2'), ('3'), ('4'), ('5')");
        a.replica.fold().unwrap();
        settle(&mut a, &mut b);
        a.run(before);
        a.replica.fold().unwrap();
        a.run(&format!("{now}; {rebuild}"));
        a.replica.fold().unwrap();
        b.run("UPDATE t SET b = 'of b' WHERE id = 2; ALTER TABLE t RENAME TO z");
        settle(&mut a, &mut b);
        a.run("INSERT INTO p VALUES(5)");
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b]);
        let shown = "SELECT group_concat(b) FROM (SELECT b FROM z ORDER BY id)";
        assert_eq!(a.row(shown), left, "{before}; {now}");
    }
}

/// A rebuild fills in references to a row that was inserted anew in the transaction that inserted theirs: they are to
/// its present life, whether the foreign key comes with the column or later.
#[test]
fn mig_rebuild_references_to_a_row_inserted_anew_with_theirs() {
    let rebuild = |r: &str, value: &str| {
        format!(
            "CREATE TABLE n(id INTEGER PRIMARY KEY, r {r}); INSERT INTO n SELECT id, {value} FROM c; \
             DROP TABLE c; ALTER TABLE n RENAME TO c"
        )
    };
    for action in ["CASCADE", "SET NULL"] {
        let reference = format!("TEXT REFERENCES p(k) ON DELETE {action}");
        let at_once = vec![rebuild(&reference, "'p'")];
        for steps in [at_once, vec![rebuild("TEXT", "'p'"), rebuild(&reference, "r")]] {
            let world = World::new();
            let (mut a, mut b) = pair(
                &world,
                "CREATE TABLE p(k TEXT PRIMARY KEY); CREATE TABLE c(id INTEGER PRIMARY KEY)",
            );
            a.run("INSERT INTO p VALUES('p')");
            settle(&mut a, &mut b);
            a.run(
                "BEGIN; DELETE FROM p; INSERT INTO p VALUES('p'); INSERT INTO c VALUES(1); COMMIT",
            );
            settle(&mut a, &mut b);
            for site in [&mut a, &mut b] {
                for step in &steps {
                    site.run(step);
                    site.replica.fold().unwrap();
                }
            }
            settle(&mut a, &mut b);
            agree(&mut [&mut a, &mut b]);
            assert_eq!(a.rows("SELECT * FROM c"), ["1|p"], "{action}, {} steps", steps.len());
        }
    }
}
