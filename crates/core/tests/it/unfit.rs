//! Rows that a table of one site cannot hold: kept, told and given on, while all else is shown.

use crate::site::{Site, World, settle};

/// A table as one site has made it, and a row that only it can hold.
struct Change {
    what: &'static str,
    /// What both begin with.
    schema: &'static str,
    /// What the one that stays behind does.
    stays: &'static str,
    /// What the other does.
    alters: &'static str,
    /// Its rows: those the first cannot hold are called `unfit`, the others `fit`.
    writes: &'static str,
}

const CHANGES: &[Change] = &[
    Change {
        what: "an integer key becomes text",
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, name); INSERT INTO t VALUES(1, 'one')",
        stays: "",
        alters: "CREATE TABLE n(id TEXT PRIMARY KEY, name); INSERT INTO n SELECT * FROM t;
                 DROP TABLE t; ALTER TABLE n RENAME TO t",
        writes: "INSERT INTO t VALUES('abc', 'unfit'); UPDATE t SET name = 'fit' WHERE name = 'one'",
    },
    Change {
        what: "an integer key becomes a column",
        schema: "CREATE TABLE t(id INTEGER PRIMARY KEY, name); INSERT INTO t VALUES(1, 'one')",
        stays: "",
        alters: "CREATE TABLE n(id, name); INSERT INTO n SELECT * FROM t;
                 DROP TABLE t; ALTER TABLE n RENAME TO t",
        writes: "INSERT INTO t VALUES(x'00', 'unfit'), (4, 'fit'), (NULL, 'unfit')",
    },
    Change {
        what: "NOT NULL goes",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name, c TEXT NOT NULL)",
        stays: "",
        alters: "CREATE TABLE n(id TEXT PRIMARY KEY, name, c TEXT); DROP TABLE t;
                 ALTER TABLE n RENAME TO t",
        writes: "INSERT INTO t VALUES('a', 'unfit', NULL), ('b', 'fit', 'c')",
    },
    Change {
        what: "a CHECK goes",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name, c INT CHECK(c < 10))",
        stays: "",
        alters: "CREATE TABLE n(id TEXT PRIMARY KEY, name, c INT); DROP TABLE t;
                 ALTER TABLE n RENAME TO t",
        writes: "INSERT INTO t VALUES('a', 'unfit', 10), ('b', 'fit', 9)",
    },
    Change {
        what: "a strict type is another",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name TEXT, c INTEGER) STRICT",
        stays: "",
        alters: "CREATE TABLE n(id TEXT PRIMARY KEY, name TEXT, c ANY) STRICT; DROP TABLE t;
                 ALTER TABLE n RENAME TO t",
        writes: "INSERT INTO t VALUES('a', 'unfit', 'text'), ('b', 'fit', 9)",
    },
    Change {
        what: "an index here needs JSON",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name, doc TEXT)",
        stays: "CREATE INDEX i ON t(json_extract(doc, '$.a'))",
        alters: "",
        writes: "INSERT INTO t VALUES('a', 'unfit', 'no json'), ('b', 'fit', '{\"a\":1}')",
    },
    Change {
        what: "a unique index here needs numbers that can be negated",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name, n INT)",
        stays: "CREATE UNIQUE INDEX i ON t(abs(n))",
        alters: "",
        writes: "INSERT INTO t VALUES('a', 'unfit', -9223372036854775808), ('b', 'fit', 1)",
    },
    Change {
        what: "a partial index here needs JSON",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name, doc TEXT)",
        stays: "CREATE INDEX i ON t(name) WHERE json_extract(doc, '$.a') IS NOT NULL",
        alters: "",
        writes: "INSERT INTO t VALUES('a', 'unfit', 'no json'), ('b', 'fit', '{\"a\":1}')",
    },
    Change {
        what: "a row that was fit is not any more",
        schema: "CREATE TABLE t(id TEXT PRIMARY KEY, name, c TEXT NOT NULL);
                 INSERT INTO t VALUES('a', 'was', 'c'), ('b', 'fit', 'c')",
        stays: "",
        alters: "CREATE TABLE n(id TEXT PRIMARY KEY, name, c TEXT); INSERT INTO n SELECT * FROM t;
                 DROP TABLE t; ALTER TABLE n RENAME TO t",
        writes: "UPDATE t SET c = NULL, name = 'unfit' WHERE id = 'a'",
    },
];

/// The sites of a change: one that stays behind, one that alters its table, and one like each.
fn sites(world: &World, change: &Change) -> [Site; 4] {
    let other = "CREATE TABLE other(id TEXT PRIMARY KEY)";
    let mut stays = world.init("stays", &format!("{}; {other}", change.schema));
    let mut alters = world.clone_site(&mut stays, "alters");
    stays.run(change.stays);
    alters.run(change.alters);
    let behind = world.clone_site(&mut stays, "behind");
    let altered = world.clone_site(&mut alters, "altered");
    [stays, alters, behind, altered]
}

#[test]
fn a_row_that_a_table_cannot_hold_stops_nobody() {
    for change in CHANGES {
        let what = change.what;
        let world = World::new();
        let [mut stays, mut alters, mut behind, mut altered] = sites(&world, change);
        alters.run(change.writes);
        alters.run("INSERT INTO other VALUES('from alters')");
        behind.run("INSERT INTO other VALUES('from behind')");
        stays.pull(&mut alters);
        stays.pull(&mut behind);
        behind.pull(&mut stays);
        altered.pull(&mut behind);
        let unfit = "SELECT count(*) FROM t WHERE name = 'unfit'";
        let count = alters.rows(unfit);
        for site in [&stays, &behind] {
            assert_eq!(site.rows("SELECT count(*) FROM other"), ["2"], "{what}");
            assert_eq!(site.rows(unfit), ["0"], "{what}");
            assert_eq!(site.rows("SELECT count(*) FROM t WHERE name = 'fit'"), ["1"], "{what}");
            let records = site.replica.conflicts().unwrap();
            let kinds: Vec<_> = records.iter().map(|r| r.kind.as_str()).collect();
            assert_eq!(kinds.len().to_string(), count[0], "{what}");
            assert!(kinds.iter().all(|kind| *kind == "row_constraint"), "{what}");
            assert_eq!(site.replica.verify().unwrap(), [""; 0], "{what}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{what}");
        }
        assert_eq!(altered.rows(unfit), count, "{what}");
        assert_eq!(
            altered.rows("SELECT * FROM t ORDER BY 1"),
            alters.rows("SELECT * FROM t ORDER BY 1")
        );
    }
}

#[test]
fn a_trigger_that_refuses_a_row_stops_no_other() {
    let world = World::new();
    let schema = "CREATE TABLE t(id TEXT PRIMARY KEY, v); CREATE TABLE c(id TEXT PRIMARY KEY,
                      t REFERENCES t(id) ON DELETE CASCADE);
                  CREATE TRIGGER refuse BEFORE INSERT ON t WHEN NEW.v = 'bad'
                  BEGIN SELECT RAISE(ABORT, 'refused'); END";
    let mut a = world.init_with("a", schema, &[("fire_on_merge", "refuse")]);
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO t VALUES('k', 'good'), ('l', 'good'), ('m', 'good')");
    b.run("UPDATE t SET v = 'bad' WHERE id <> 'l'");
    b.run("INSERT INTO c VALUES('below', 'k'), ('beside', 'l')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT id FROM t"), ["l"]);
    assert_eq!(a.rows("SELECT id FROM c"), ["beside"]);
    let kinds: Vec<_> =
        a.replica.conflicts().unwrap().into_iter().map(|c| c.kind.to_string()).collect();
    assert_eq!(kinds, ["fk_parent_hidden", "refused", "refused"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    // What it was refused for goes.
    b.run("UPDATE t SET v = 'better'");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT id FROM t ORDER BY 1"), ["k", "l", "m"]);
    assert_eq!(a.rows("SELECT id FROM c ORDER BY 1"), ["below", "beside"]);
    assert_eq!(a.replica.conflicts().unwrap().len(), 0);
}

/// What is deleted elsewhere is gone here, whatever a trigger says to that; and none ends the merge in its midst.
#[test]
fn a_trigger_keeps_no_row_and_ends_no_merge() {
    let world = World::new();
    for how in ["ABORT, 'no'", "FAIL, 'no'", "ROLLBACK, 'no'", "IGNORE"] {
        let schema = format!(
            "CREATE TABLE t(id TEXT PRIMARY KEY, v); CREATE TABLE u(id TEXT PRIMARY KEY);
             INSERT INTO t VALUES('old', 'good');
             CREATE TRIGGER stays BEFORE DELETE ON t BEGIN SELECT RAISE({how}); END;
             CREATE TRIGGER fits BEFORE INSERT ON t WHEN NEW.v = 'bad' BEGIN SELECT RAISE({how}); END"
        );
        let named = [("fire_on_merge", "stays,fits")];
        let mut a = world.init_with(&format!("a of {how}"), &schema, &named);
        let mut b = world.clone_site(&mut a, &format!("b of {how}"));
        b.run("DROP TRIGGER stays; DROP TRIGGER fits");
        b.run("DELETE FROM t; INSERT INTO t VALUES('new', 'bad'), ('other', 'good')");
        b.run("INSERT INTO u VALUES('x')");
        a.pull(&mut b);
        let shown: &[&str] = match how {
            "ABORT, 'no'" | "FAIL, 'no'" => &["other"],
            // Such triggers do not fire.
            _ => &["new", "other"],
        };
        assert_eq!(a.rows("SELECT id FROM t ORDER BY 1"), shown, "{how}");
        assert_eq!(a.rows("SELECT id FROM u"), ["x"], "{how}");
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{how}");
        // A row that was shown and does not fit any more goes too.
        b.run("UPDATE t SET v = 'bad' WHERE id = 'other'");
        a.run("INSERT INTO u VALUES('y')");
        a.pull(&mut b);
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{how}");
    }
}

/// The others fire for that row as for any: what they keep would be wrong without.
#[test]
fn a_trigger_that_refuses_a_delete_keeps_no_other_from_it() {
    let world = World::new();
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE gone(v); CREATE TABLE guard(x);
        CREATE VIRTUAL TABLE f USING fts5(v); INSERT INTO t VALUES(1, 'stay'), (2, 'go');
        INSERT INTO f(rowid, v) SELECT id, v FROM t;
        CREATE TRIGGER found AFTER DELETE ON t BEGIN DELETE FROM f WHERE rowid = old.id; END;
        CREATE TRIGGER noted AFTER DELETE ON t BEGIN INSERT INTO gone VALUES(old.v); END;
        CREATE TRIGGER first BEFORE DELETE ON t WHEN old.v = 'stay' AND EXISTS(SELECT 1 FROM guard)
          BEGIN SELECT RAISE(ABORT, 'no'); END;
        CREATE TRIGGER last AFTER DELETE ON t WHEN old.v = 'stay' AND (SELECT count(*) FROM guard) > 1
          BEGIN SELECT RAISE(ABORT, 'no'); END;";
    let named = [("local_tables", "gone,guard"), ("fire_on_merge", "noted,first,last")];
    for guards in ["(1)", "(1), (2)"] {
        let mut a = world.init_with(&format!("a of {guards}"), schema, &named);
        let mut b = world.clone_site(&mut a, &format!("b of {guards}"));
        a.run(&format!("INSERT INTO guard VALUES {guards}"));
        let order =
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name NOT LIKE 'synqlite%'";
        let before = a.rows(order);
        b.run("DELETE FROM t");
        a.pull(&mut b);
        assert_eq!(a.rows("SELECT id FROM t"), [""; 0]);
        assert_eq!(a.rows("SELECT v FROM f"), [""; 0], "{guards}");
        assert_eq!(a.rows("SELECT v FROM gone ORDER BY 1"), ["go", "stay"], "{guards}");
        assert_eq!(a.rows(order), before);
    }
}

/// A row that its table cannot hold, and whose reference leads nowhere too, is hidden for the first,
/// whether the reference was found first or not.
#[test]
fn unfit_is_said_before_a_reference_to_nobody() {
    let world = World::new();
    let sql = "CREATE TABLE t(u TEXT COLLATE RTRIM UNIQUE, \
               r INTEGER REFERENCES t(u) ON DELETE SET DEFAULT ON UPDATE SET NULL)";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    let rebuild = |c: &str, from: &str| {
        format!(
            "PRAGMA foreign_keys = OFF; CREATE TABLE n(u TEXT COLLATE RTRIM UNIQUE, {c}, \
             r INTEGER REFERENCES t(u) ON DELETE SET DEFAULT ON UPDATE SET NULL); \
             INSERT INTO n SELECT u, {from}, r FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t"
        )
    };
    b.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES('a', 'A')");
    a.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES('x', 'a ')");
    for site in [&mut a, &mut b, &mut c] {
        site.run(&rebuild("c", "NULL"));
        site.replica.fold().unwrap();
        site.run(&rebuild("c NOT NULL DEFAULT 1", "coalesce(c, 1)"));
        site.replica.fold().unwrap();
    }
    a.pull(&mut b);
    b.pull(&mut a);
    c.pull(&mut a);
    for site in [&a, &b, &c] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        let kinds: Vec<_> =
            site.replica.conflicts().unwrap().into_iter().map(|c| c.kind.to_string()).collect();
        assert_eq!(kinds, ["row_constraint"; 2]);
    }
}

/// None is left to give it. What was judged before it decides nothing.
#[test]
fn a_row_without_a_key_where_no_number_is_left() {
    let world = World::new();
    let with = |key: &str| {
        format!("CREATE TABLE t(k {key}, w TEXT); CREATE UNIQUE INDEX i ON t(w) WHERE w > 1")
    };
    let mut a = world.init("a", &with("INTEGER PRIMARY KEY AUTOINCREMENT"));
    let mut b = world.clone_site(&mut a, "b");
    b.run(&format!("DROP TABLE t; {}", with("TEXT PRIMARY KEY")));
    b.run("INSERT INTO t VALUES('9223372036854775807', 'y'), (NULL, 'z')");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["9223372036854775807|y"]);
    let open = a.replica.conflicts().unwrap();
    assert_eq!(open.iter().map(|c| c.kind.as_str()).collect::<Vec<_>>(), ["row_constraint"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

/// A trigger refused a row of others, and is dropped.
#[test]
fn what_a_trigger_refused_is_shown_once_the_trigger_is_gone() {
    let world = World::new();
    let refuses = "CREATE TRIGGER big BEFORE INSERT ON t WHEN new.n > 100 BEGIN SELECT raise(ABORT, 'too big'); END";
    let sql = format!("CREATE TABLE t(id INTEGER PRIMARY KEY, n); {refuses}");
    let mut a = world.init_with("a", &sql, &[("fire_on_merge", "big")]);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DROP TRIGGER big; INSERT INTO t VALUES(1, 500)");
    b.pull(&mut a);
    assert_eq!(b.replica.conflicts().unwrap().len(), 1);
    b.run("CREATE TABLE other(x)");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT n FROM t"), [""; 0]);
    b.run("DROP TRIGGER big");
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT n FROM t"), ["500"]);
    assert_eq!(b.replica.conflicts().unwrap().len(), 0);
}
