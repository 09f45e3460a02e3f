//! Schema changes (R-MIG): made by any client, on one site or on several apart from each other.

use crate::site::{Site, World, settle};
use synqlite_core::Verb;
use synqlite_wire::VersionVector;

const T: &str = "CREATE TABLE t(id TEXT PRIMARY KEY, a, b); INSERT INTO t VALUES ('k', 1, 2)";

pub fn pair(world: &World, sql: &str) -> (Site, Site) {
    let mut a = world.init("a", sql);
    let b = world.clone_site(&mut a, "b");
    (a, b)
}

pub fn agree(sites: &mut [&mut Site]) {
    let digests: Vec<_> = sites.iter_mut().map(|s| s.replica.digest().unwrap().digest).collect();
    assert!(digests.iter().all(|d| *d == digests[0]), "{digests:?}");
    for site in sites {
        assert_eq!(site.replica.verify().unwrap(), Vec::<String>::new());
    }
}

#[test]
fn mig_add_stamps_nothing_and_any_real_write_wins() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let add = "ALTER TABLE t ADD COLUMN st TEXT NOT NULL DEFAULT 'open'";
    a.run(add);
    a.run("UPDATE t SET st = 'closed'");
    b.run(add);
    settle(&mut a, &mut b);
    assert_eq!(b.row("SELECT st FROM t"), "closed");
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_add_a_row_inserted_anew_without_the_column_does_not_reset_it() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let add = "ALTER TABLE t ADD COLUMN st DEFAULT 'open'";
    a.run(add);
    a.run("UPDATE t SET st = 'closed'");
    b.run("DELETE FROM t");
    b.replica.fold().unwrap();
    b.run("INSERT INTO t VALUES ('k', 5, 6)");
    settle(&mut a, &mut b);
    assert_eq!(a.row("SELECT a, st FROM t"), "5|closed");
    agree(&mut [&mut a, &mut b]);
    b.run(add);
    settle(&mut a, &mut b);
    assert_eq!(b.row("SELECT a, st FROM t"), "5|closed");
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_stash_unknown_columns_travel_through_old_sites() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let mut c = world.clone_site(&mut b, "c");
    let add = "ALTER TABLE t ADD COLUMN x DEFAULT 'none'";
    a.run(add);
    a.run("UPDATE t SET x = 'new'; INSERT INTO t VALUES ('l', 3, 4, 'born'), ('m', 5, 6, 'none')");
    b.pull(&mut a);
    agree(&mut [&mut a, &mut b]);
    c.run(add);
    c.pull(&mut b);
    assert_eq!(c.rows("SELECT id, x FROM t ORDER BY id"), ["k|new", "l|born", "m|none"]);
    agree(&mut [&mut a, &mut b, &mut c]);
    b.run("UPDATE t SET a = 9 WHERE id = 'l'; INSERT INTO t VALUES ('n', 7, 8)");
    b.run(add);
    assert_eq!(b.rows("SELECT id, x FROM t ORDER BY id"), ["k|none", "l|none", "m|none", "n|none"]);
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT id, x FROM t ORDER BY id"), ["k|new", "l|born", "m|none", "n|none"]);
    settle(&mut a, &mut b);
    settle(&mut a, &mut c);
    assert_eq!(a.rows("SELECT * FROM t"), c.rows("SELECT * FROM t"));
    agree(&mut [&mut a, &mut b, &mut c]);
}

#[test]
fn mig_rename_old_and_new_name_are_one_column() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run("ALTER TABLE t RENAME COLUMN a TO \"new \"\"name\"");
    b.run("UPDATE t SET a = 'from b'");
    settle(&mut a, &mut b);
    assert_eq!(a.row("SELECT \"new \"\"name\" FROM t"), "from b");
    agree(&mut [&mut a, &mut b]);
    a.run("UPDATE t SET \"new \"\"name\" = 'from a'");
    settle(&mut a, &mut b);
    assert_eq!(b.row("SELECT a FROM t"), "from a");
    b.run("ALTER TABLE t RENAME a TO other");
    a.run("ALTER TABLE t ADD COLUMN a");
    a.run("UPDATE t SET a = 'a second one'");
    settle(&mut a, &mut b);
    assert_eq!(b.row("SELECT other, b FROM t"), "from a|2");
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_rename_a_table_with_references_and_policies() {
    let world = World::new();
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY, u UNIQUE); \
               CREATE TABLE c(id TEXT PRIMARY KEY, p REFERENCES p(id) ON UPDATE CASCADE); \
               INSERT INTO p VALUES ('P', 1); INSERT INTO c VALUES ('C', 'P')";
    let mut a = world.init_with("a", sql, &[("p.on_unique", "unify")]);
    let mut b = world.clone_site(&mut a, "b");
    a.run("ALTER TABLE p RENAME TO parent");
    a.run("UPDATE parent SET id = 'Q'");
    b.run("INSERT INTO c VALUES ('D', 'P')");
    settle(&mut a, &mut b);
    let children = ["C|Q", "D|Q"];
    assert_eq!(a.rows("SELECT * FROM c ORDER BY id"), children);
    assert_eq!(b.rows("SELECT * FROM c ORDER BY id"), children);
    agree(&mut [&mut a, &mut b]);
    a.run("INSERT INTO parent VALUES ('x', 7)");
    b.run("INSERT INTO p VALUES ('y', 7); INSERT INTO c VALUES ('E', 'y')");
    settle(&mut a, &mut b);
    assert_eq!(a.row("SELECT p FROM c WHERE id = 'E'"), "x");
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_drop_column_of_one_site_only() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let mut c = world.clone_site(&mut b, "c");
    a.run("ALTER TABLE t DROP COLUMN b");
    a.run("UPDATE t SET a = 10");
    b.run("UPDATE t SET b = 20; INSERT INTO t VALUES ('l', 3, 4)");
    a.pull(&mut b);
    c.pull(&mut a);
    assert_eq!(a.rows("SELECT * FROM t ORDER BY id"), ["k|10", "l|3"]);
    assert_eq!(c.rows("SELECT * FROM t ORDER BY id"), ["k|10|20", "l|3|4"]);
    b.pull(&mut a);
    b.run("ALTER TABLE t DROP COLUMN b");
    c.run("ALTER TABLE t DROP COLUMN b");
    settle(&mut a, &mut b);
    settle(&mut a, &mut c);
    agree(&mut [&mut a, &mut b, &mut c]);
}

#[test]
fn mig_stash_a_new_table_waits_on_old_sites() {
    let world = World::new();
    let (mut a, mut b) =
        pair(&world, "CREATE TABLE p(id TEXT PRIMARY KEY); INSERT INTO p VALUES ('P')");
    let mut c = world.clone_site(&mut b, "c");
    let create =
        "CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(id) ON DELETE CASCADE, n)";
    a.run(create);
    a.run("INSERT INTO c(p, n) VALUES ('P', 1), ('P', 2)");
    b.pull(&mut a);
    agree(&mut [&mut a, &mut b]);
    c.pull(&mut b);
    c.run(create);
    c.run("INSERT INTO c(p, n) VALUES ('P', 3)");
    c.replica.fold().unwrap();
    assert_eq!(c.rows("SELECT n FROM c ORDER BY n"), ["1", "2", "3"]);
    b.pull(&mut c);
    b.run(create);
    settle(&mut a, &mut b);
    settle(&mut b, &mut c);
    assert_eq!(a.rows("SELECT id, n FROM c ORDER BY n"), b.rows("SELECT id, n FROM c ORDER BY n"));
    assert_eq!(b.rows("SELECT count(*) FROM c"), ["3"]);
    agree(&mut [&mut a, &mut b, &mut c]);
}

#[test]
fn mig_tables_made_on_both_sites_are_one() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE p(id TEXT PRIMARY KEY)");
    let create =
        "CREATE TABLE s(k TEXT PRIMARY KEY, v) WITHOUT ROWID; INSERT INTO s VALUES ('x', 0)";
    a.run(create);
    b.run(create);
    a.run("UPDATE s SET v = 1; INSERT INTO s VALUES ('y', 2)");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM s"), a.rows("SELECT * FROM s"));
    agree(&mut [&mut a, &mut b]);
}

const REBUILD: &str = "PRAGMA foreign_keys=OFF; BEGIN; \
     CREATE TABLE new_t(id TEXT PRIMARY KEY, a, b CHECK(b < 100), c NOT NULL DEFAULT 'c'); \
     INSERT INTO new_t(id, a, b) SELECT id, a, b FROM t; DROP TABLE t; \
     ALTER TABLE new_t RENAME TO t; COMMIT; PRAGMA foreign_keys=ON";

#[test]
fn mig_rebuild_is_no_delete_and_insert() {
    let world = World::new();
    let sql = "CREATE TABLE t(id TEXT PRIMARY KEY, a, b); \
               INSERT INTO t VALUES ('h', 0, 0), ('k', 1, 2), ('l', 3, 4); DELETE FROM t WHERE id = 'h'";
    let (mut a, mut b) = pair(&world, sql);
    a.run("UPDATE t SET a = 'before' WHERE id = 'l'; UPDATE t SET id = 'K' WHERE id = 'k'");
    a.run(REBUILD);
    a.run("UPDATE t SET c = 'after' WHERE id = 'l'; INSERT INTO t VALUES ('m', 5, 6, 7)");
    b.run("UPDATE t SET b = 44 WHERE id = 'l'");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t ORDER BY id"), ["K|1|2|c", "l|before|44|after", "m|5|6|7"]);
    agree(&mut [&mut a, &mut b]);
    b.run(REBUILD);
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t ORDER BY id"), b.rows("SELECT * FROM t ORDER BY id"));
    agree(&mut [&mut a, &mut b]);
    b.run("UPDATE t SET a = 'later'");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT a FROM t"), ["later"; 3]);
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_rebuild_that_renumbers_rowids_puts_rows_back() {
    let world = World::new();
    let sql = "CREATE TABLE t(a, b); INSERT INTO t VALUES (0, 0), (1, 1), (2, 2), (3, 3); \
               DELETE FROM t WHERE a = 0";
    let (mut a, mut b) = pair(&world, sql);
    a.run("DELETE FROM t WHERE a = 2");
    a.run(
        "CREATE TABLE n(a, b, c); INSERT INTO n SELECT a, b, NULL FROM t; DROP TABLE t; \
         ALTER TABLE n RENAME TO t",
    );
    b.run("UPDATE t SET b = 30 WHERE a = 3");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT a, b FROM t ORDER BY a"), ["1|1", "3|30"]);
    assert_eq!(b.rows("SELECT a, b FROM t ORDER BY a"), ["1|1", "3|30"]);
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_writes_while_the_triggers_were_gone_are_not_lost() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run("INSERT INTO t VALUES ('l', 3, 4)");
    a.run(REBUILD);
    a.run("DELETE FROM t WHERE id = 'l'; UPDATE t SET a = 'unseen'; INSERT INTO t VALUES ('m', 5, 6, 7)");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id, a, b FROM t ORDER BY id"), ["k|unseen|2", "m|5|6"]);
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_a_backfill_is_a_write_and_a_later_real_write_wins() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let add = "ALTER TABLE t ADD COLUMN sum; UPDATE t SET sum = a + b";
    a.run(add);
    a.run("UPDATE t SET sum = 'by hand'");
    settle(&mut a, &mut b);
    b.run("ALTER TABLE t ADD COLUMN sum");
    settle(&mut a, &mut b);
    assert_eq!(b.row("SELECT sum FROM t"), "by hand");
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_columns_held_together_on_one_site_only() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let mut c = world.clone_site(&mut b, "c");
    let rebuild = "CREATE TABLE n(id TEXT PRIMARY KEY, a, b, CHECK(a < b)); \
                   INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t";
    a.run(rebuild);
    a.replica.fold().unwrap();
    b.run("UPDATE t SET a = -1");
    a.run("UPDATE t SET b = 7");
    c.run("UPDATE t SET b = 8");
    a.pull(&mut b);
    a.pull(&mut c);
    c.pull(&mut b);
    b.pull(&mut a);
    settle(&mut b, &mut c);
    settle(&mut a, &mut b);
    settle(&mut a, &mut c);
    for site in [&a, &b, &c] {
        assert_eq!(site.row("SELECT b FROM t"), "8");
    }
    agree(&mut [&mut a, &mut b, &mut c]);
    b.run(rebuild);
    c.run(rebuild);
    settle(&mut a, &mut b);
    settle(&mut b, &mut c);
    settle(&mut a, &mut c);
    agree(&mut [&mut a, &mut b, &mut c]);
}

#[test]
fn mig_a_tightened_schema_hides_what_breaks_it_and_keeps_it() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run(REBUILD);
    a.replica.fold().unwrap();
    b.run("UPDATE t SET b = 1000");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM t"), [""; 0]);
    assert_eq!(a.replica.conflicts().unwrap()[0].kind.as_str(), "row_constraint");
    b.run("UPDATE t SET b = 10");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT id, b FROM t"), ["k|10"]);
    b.pull(&mut a);
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_new_unique_index_hides_the_later_claim() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run("CREATE UNIQUE INDEX u ON t(a)");
    a.replica.fold().unwrap();
    b.run("INSERT INTO t VALUES ('l', 1, 2)");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT id FROM t"), ["k"]);
    assert_eq!(b.rows("SELECT id FROM t ORDER BY id"), ["k", "l"]);
    b.run("UPDATE t SET a = 2 WHERE id = 'l'");
    b.run("CREATE UNIQUE INDEX u ON t(a)");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT id FROM t ORDER BY id"), ["k", "l"]);
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_a_reference_declared_later() {
    let world = World::new();
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, n); CREATE TABLE c(id TEXT PRIMARY KEY, p); \
               INSERT INTO p VALUES (1, 'one'); INSERT INTO c VALUES ('C', 1)";
    let (mut a, mut b) = pair(&world, sql);
    let rebuild = "CREATE TABLE n(id TEXT PRIMARY KEY, p REFERENCES p(id) ON UPDATE CASCADE); \
                   INSERT INTO n SELECT * FROM c; DROP TABLE c; ALTER TABLE n RENAME TO c";
    a.run(rebuild);
    a.run("UPDATE p SET id = 5");
    b.run("INSERT INTO c VALUES ('D', 1)");
    a.replica.fold().unwrap();
    b.run(rebuild);
    settle(&mut a, &mut b);
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM c ORDER BY id"), b.rows("SELECT * FROM c ORDER BY id"));
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_a_dropped_table_keeps_what_others_write_for_others() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(id TEXT PRIMARY KEY, a); CREATE TABLE u(x)");
    let mut c = world.clone_site(&mut b, "c");
    a.run("DROP TABLE t");
    b.run("INSERT INTO t VALUES ('k', 1)");
    a.pull(&mut b);
    c.pull(&mut a);
    assert_eq!(c.rows("SELECT * FROM t"), ["k|1"]);
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM t"), ["k|1"]);
    agree(&mut [&mut b, &mut c]);
}

#[test]
fn mig_a_policy_may_come_before_its_table() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run("CREATE TABLE u(id INTEGER PRIMARY KEY, t_ref)");
    let set = ["u.identity=key", "u.refs=t_ref:t", "local_tables=cache"];
    a.run("CREATE TABLE cache(x)");
    a.replica.set_policies(&set.map(|text| text.parse().unwrap())).unwrap();
    a.run("INSERT INTO u VALUES (1, 'k'); INSERT INTO cache VALUES (1)");
    b.pull(&mut a);
    b.run("CREATE TABLE u(id INTEGER PRIMARY KEY, t_ref); INSERT INTO u VALUES (2, 'k')");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM u ORDER BY id"), ["1|k", "2|k"]);
    let wrong = ["nowhere.identity=key".parse().unwrap()];
    assert!(a.replica.set_policies(&wrong).is_err());
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_a_counter_travels_through_old_sites() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let mut c = world.clone_site(&mut b, "c");
    let add = "ALTER TABLE t ADD COLUMN n INTEGER NOT NULL DEFAULT 0";
    a.run(add);
    let counter = ["t.n=counter".parse().unwrap()];
    a.replica.set_policies(&counter).unwrap();
    a.run("UPDATE t SET n = n + 3");
    b.pull(&mut a);
    c.run(add);
    c.pull(&mut b);
    c.run("UPDATE t SET n = n + 4");
    a.run("UPDATE t SET n = n + 10");
    b.pull(&mut c);
    agree(&mut [&mut b, &mut c]);
    b.pull(&mut a);
    b.run(add);
    settle(&mut a, &mut b);
    settle(&mut b, &mut c);
    for site in [&a, &b, &c] {
        assert_eq!(site.row("SELECT n FROM t"), "17");
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}

#[test]
fn mig_a_counter_counts_from_its_default_or_from_nothing() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    let add = "ALTER TABLE t ADD COLUMN n INTEGER NOT NULL DEFAULT 5";
    a.run(add);
    a.replica.set_policies(&["t.n=counter".parse().unwrap()]).unwrap();
    a.run("UPDATE t SET n = n + 1; INSERT INTO t(id, n) VALUES ('new', 2)");
    b.pull(&mut a);
    b.run(add);
    b.replica.fold().unwrap();
    let mut c = world.clone_site(&mut b, "c");
    a.run("INSERT INTO t(id, n) VALUES ('newer', 3)");
    c.pull(&mut a);
    c.run("UPDATE t SET n = n + 10");
    settle(&mut a, &mut b);
    settle(&mut b, &mut c);
    settle(&mut a, &mut b);
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT id, n FROM t ORDER BY id"), ["k|16", "new|12", "newer|13"]);
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}

#[test]
fn mig_stash_a_table_and_the_policy_that_takes_it_in_come_together() {
    for key in ["id TEXT PRIMARY KEY", "id INTEGER PRIMARY KEY", "id"] {
        let world = World::new();
        let sql =
            format!("CREATE TABLE n(x); CREATE TABLE m({key}, v); INSERT INTO m VALUES (1, 'one')");
        let mut a = world.init_with("a", &sql, &[("local_tables", "m")]);
        let mut b = world.clone_site(&mut a, "b");
        b.run("INSERT INTO m VALUES (2, 'two')");
        b.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
        settle(&mut a, &mut b);
        let rows = a.rows("SELECT v FROM m ORDER BY v");
        assert_eq!(rows, b.rows("SELECT v FROM m ORDER BY v"), "{key}");
        assert!(rows.contains(&"two".to_owned()) && !rows.contains(&"NULL".to_owned()), "{rows:?}");
        agree(&mut [&mut a, &mut b]);
    }
}

/// What SQLite's ALTER TABLE can do to a table, and CREATE and DROP INDEX.
const ALTERS: [&str; 12] = [
    "ALTER TABLE z RENAME COLUMN u TO w",
    "ALTER TABLE z ADD COLUMN x TEXT AS (v) VIRTUAL",
    "ALTER TABLE z RENAME COLUMN x TO \"X y\"",
    "ALTER TABLE z ADD COLUMN n NUMERIC DEFAULT 5",
    "ALTER TABLE z RENAME TO \"z z\"",
    "CREATE UNIQUE INDEX i ON \"z z\"(w, lower(n)) WHERE v IS NOT NULL",
    "ALTER TABLE \"z z\" RENAME COLUMN n TO \"n\"\"m\"",
    "ALTER TABLE \"z z\" RENAME COLUMN w TO u; ALTER TABLE \"z z\" RENAME COLUMN u TO w",
    "DROP INDEX i; ALTER TABLE \"z z\" DROP COLUMN \"n\"\"m\"",
    "ALTER TABLE \"z z\" DROP COLUMN \"X y\"",
    "ALTER TABLE \"z z\" RENAME COLUMN v TO o; ALTER TABLE \"z z\" RENAME COLUMN w TO v; \
     ALTER TABLE \"z z\" RENAME COLUMN o TO w",
    "ALTER TABLE \"z z\" ADD COLUMN g AS (v || id); ALTER TABLE \"z z\" RENAME TO z",
];

/// Whatever is altered, SQLite rewrites the triggers or they are made anew: the application goes on,
/// and `verify` has nothing to say. `folds`: bit by bit, after which alteration there is one.
fn alter_all(folds: u32) {
    let world = World::new();
    let sql = "CREATE TABLE z(id TEXT NOT NULL PRIMARY KEY, u INTEGER UNIQUE, v); \
               INSERT INTO z VALUES ('old', 0, 'o')";
    let (mut a, mut b) = pair(&world, sql);
    for (i, alter) in ALTERS.iter().enumerate() {
        a.run(alter);
        let table = a.row("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'z%'");
        a.run(&format!("INSERT INTO \"{table}\"(id) VALUES ({i})"));
        a.run(&format!("UPDATE \"{table}\" SET id = 'k' || id WHERE id = '{i}'"));
        assert_eq!(a.replica.verify().unwrap(), [""; 0], "{folds:b}: {alter}");
        if folds >> i & 1 == 1 {
            a.replica.fold().unwrap();
            assert_eq!(a.replica.verify().unwrap(), [""; 0], "{folds:b}: {alter}, folded");
        }
    }
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{folds:b}");
    for alter in ALTERS {
        b.run(alter);
    }
    settle(&mut a, &mut b);
    let rows = |site: &Site| site.rows("SELECT * FROM z ORDER BY id");
    assert_eq!(rows(&a), rows(&b), "{folds:b}");
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "{folds:b}");
    assert_eq!(b.rows("SELECT id FROM z").len(), 1 + ALTERS.len());
}

#[test]
fn mig_rename_triggers_fit_whatever_was_altered() {
    for folds in [0, u32::MAX, 0b0101_0101_0101, 0b1010_1010_1010, 0b0001_0000_0100] {
        alter_all(folds);
    }
}

#[test]
fn mig_other_tables_and_spellings_alter_no_trigger_unasked() {
    let world = World::new();
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY, u INT UNIQUE, v TEXT);
        CREATE TABLE c(id TEXT PRIMARY KEY, u REFERENCES p(u) ON DELETE CASCADE ON UPDATE CASCADE);
        CREATE UNIQUE INDEX i ON p(lower(v), u) WHERE u > 0";
    let (mut a, _) = pair(&world, sql);
    a.run("INSERT INTO p VALUES ('k', 1, 'x'); INSERT INTO c VALUES ('l', 1)");
    a.replica.fold().unwrap();
    for change in [
        "DROP INDEX i; CREATE UNIQUE INDEX j ON P ( LOWER(\"v\"), [u] ) WHERE u>0",
        "CREATE UNIQUE INDEX a ON p(v)",
        "CREATE TABLE d(id TEXT PRIMARY KEY, v REFERENCES p(v) ON DELETE SET NULL)",
        "DROP TABLE c",
        "DROP INDEX j",
        "DROP TABLE d",
    ] {
        a.run(change);
        assert_eq!(a.replica.verify().unwrap(), [""; 0], "{change}");
        a.run("UPDATE p SET u = u + 1; UPDATE p SET id = 'm' || id");
        a.replica.fold().unwrap();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{change}, folded");
    }
}

#[test]
fn a_trigger_that_somebody_altered_is_told_and_made_anew() {
    let world = World::new();
    let (mut a, _) = pair(&world, T);
    a.run("DROP TRIGGER synqlite_update_1");
    a.run("CREATE TRIGGER synqlite_update_1 AFTER UPDATE ON t BEGIN SELECT 1; END");
    let told = a.replica.verify().unwrap();
    assert!(told.len() == 1 && told[0].contains("synqlite_update_1 was altered"), "{told:?}");
    a.replica.fold().unwrap();
    a.run("UPDATE t SET a = 7");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

#[test]
fn mig_rows_of_a_new_table_that_refer_to_nobody_are_hidden_everywhere() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE p(k INT PRIMARY KEY)");
    let table = "CREATE TABLE c(k INT PRIMARY KEY, r INT REFERENCES p(k))";
    b.run(&format!("PRAGMA foreign_keys=OFF; {table}; INSERT INTO c VALUES(5, 3)"));
    a.run(table);
    b.replica.fold().unwrap();
    assert_eq!(b.rows("SELECT * FROM c"), [""; 0]);
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
    a.run("INSERT INTO p VALUES(3)");
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
    assert_eq!(b.rows("SELECT * FROM c"), ["5|3"]);
}

/// Entries of tables without rowids lie between each other; each has its sums taken by its own.
#[test]
fn mig_columns_are_added_to_one_of_two_tables_without_rowids() {
    let world = World::new();
    let tables = "CREATE TABLE t(k TEXT PRIMARY KEY, w) WITHOUT ROWID;
        CREATE TABLE u(k INT, l INT, w, PRIMARY KEY(k, l)) WITHOUT ROWID";
    let (mut a, mut b) = pair(&world, tables);
    for n in 0..4 {
        a.run(&format!("INSERT INTO t VALUES({n}, 'x'); INSERT INTO u VALUES({n}, 1, 'x')"));
        a.replica.fold().unwrap();
    }
    settle(&mut a, &mut b);
    a.run("ALTER TABLE u ADD COLUMN v; UPDATE u SET w = 'y' WHERE k = 2");
    b.run("ALTER TABLE u ADD COLUMN v; UPDATE u SET v = 'z' WHERE k = 2");
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
    assert_eq!(a.rows("SELECT * FROM u WHERE k = 2"), ["2|1|y|z"]);
}

#[test]
fn mig_a_column_is_unwritten_in_a_row_that_is_older_wherever_it_goes() {
    let (create, add) =
        ("CREATE TABLE t(k PRIMARY KEY, w)", "ALTER TABLE t ADD COLUMN c DEFAULT 7");
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE other(x)");
    a.run(create);
    a.run("INSERT INTO t VALUES(1, 'x')");
    a.replica.fold().unwrap();
    a.run(add);
    b.run(create);
    b.run(add);
    b.replica.fold().unwrap();
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
}

#[test]
fn mig_a_hidden_row_has_the_default_that_its_column_stores() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k INTEGER PRIMARY KEY, u UNIQUE)");
    let add =
        "ALTER TABLE t ADD COLUMN c TEXT DEFAULT 2.5; ALTER TABLE t ADD COLUMN d REAL DEFAULT 2";
    a.run("INSERT INTO t VALUES(1, 'x')");
    a.replica.fold().unwrap();
    a.run(add);
    b.run("INSERT INTO t VALUES(1, 'x')");
    settle(&mut a, &mut b);
    b.run(add);
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b]);
    let asked = |site: &Site| site.replica.conflicts().unwrap()[0].displaced.clone();
    assert_eq!(asked(&a), asked(&b));
    assert!(asked(&a).contains(&("c".into(), "2.5".into())), "{:?}", asked(&a));
}

/// Columns of one unit that were written apart are sent one by one, in the order that a batch wants.
#[test]
fn mig_units_that_fell_apart_are_sent_in_order() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(id TEXT PRIMARY KEY, x, y, w)");
    a.run("INSERT INTO t VALUES('k', 1, 2, 3)");
    settle(&mut a, &mut b);
    b.run("UPDATE t SET x = 5");
    a.run("UPDATE t SET y = 6, w = 7");
    settle(&mut a, &mut b);
    a.run(
        "PRAGMA foreign_keys=OFF; BEGIN; CREATE TABLE n(id TEXT PRIMARY KEY, x, y, w, CHECK(x < y)); \
         INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t; COMMIT",
    );
    let (delta, _) = a.replica.export(&VersionVector::default(), 0).unwrap();
    delta.check().unwrap();
}

/// A row that was gone when a column was added has its default when it comes back, also where its other
/// columns are held together otherwise meanwhile.
#[test]
fn mig_add_a_row_that_comes_back_after_its_table_was_regrouped_has_the_default() {
    let world = World::new();
    let (mut a, mut b) =
        pair(&world, "CREATE TABLE t(k INT PRIMARY KEY, w, n INT); INSERT INTO t VALUES(1, 2, 3)");
    a.run("DELETE FROM t");
    settle(&mut a, &mut b);
    let add = "ALTER TABLE t ADD COLUMN c DEFAULT 3";
    b.run(add);
    b.replica.fold().unwrap();
    let policy = "t.refs=n:t".parse().unwrap();
    a.replica.set_policies(&[policy]).unwrap();
    a.run("INSERT INTO t VALUES(1, 4, 5)");
    a.replica.fold().unwrap();
    a.run(add);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t"), ["1|4|5|3"]);
    }
    agree(&mut [&mut a, &mut b]);
}

/// A reference that becomes unique after it was written: the triggers of then had kept the key that was
/// written with it, and nothing of the reference.
#[test]
fn mig_a_write_before_a_unique_index_counts() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, w, r INTEGER REFERENCES t(k)); \
               INSERT INTO t VALUES(1, 'a', 2), (2, 'b', NULL)";
    let (mut a, mut b) = pair(&world, sql);
    b.run("UPDATE t SET k = 3 WHERE k = 1; UPDATE t SET r = NULL WHERE k = 3");
    b.run("CREATE UNIQUE INDEX i ON t(r)");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT k, r FROM t ORDER BY 1"), ["2|NULL", "3|NULL"]);
    agree(&mut [&mut a, &mut b]);
}

/// What others said of a new reference comes from the stash. The reference beside it is to a row that is
/// gone, which no trigger noted, and that is another matter.
#[test]
fn mig_fk_a_reference_beside_a_new_one_ends_unnoticed() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, n INTEGER, r INTEGER REFERENCES t(k)); \
               INSERT INTO t VALUES(4, NULL, NULL), (5, 4, 4)";
    let (mut a, mut b) = pair(&world, sql);
    let rebuild = "PRAGMA foreign_keys = OFF; \
        CREATE TABLE u(k INTEGER PRIMARY KEY, n INTEGER REFERENCES t(k) ON DELETE SET NULL, \
        r INTEGER REFERENCES t(k)); \
        INSERT INTO u SELECT * FROM t; DROP TABLE t; ALTER TABLE u RENAME TO t";
    a.run(rebuild);
    b.pull(&mut a);
    b.run(rebuild);
    b.run("PRAGMA foreign_keys = OFF; DELETE FROM t WHERE k = 4");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), b.rows("SELECT * FROM t"));
    agree(&mut [&mut a, &mut b]);
}

/// Rows that conflicts hide are not taken out of synchronization with their table: nobody would see them again.
#[test]
fn a_table_with_hidden_rows_does_not_become_local() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE, v)");
    a.run("INSERT INTO t(u, v) VALUES('x', 'a')");
    b.run("INSERT INTO t(u, v) VALUES('x', 'b')");
    settle(&mut a, &mut b);
    let local = ["local_tables=t".parse().unwrap()];
    let refused = a.replica.set_policies(&local).unwrap_err().to_string();
    assert!(refused.contains("rows of t that conflicts hide would be lost"), "{refused}");
    let ids: Vec<_> = a.replica.conflicts().unwrap().into_iter().map(|c| c.id).collect();
    a.replica.settle_conflict(&ids[0], Verb::Discard).unwrap();
    a.replica.set_policies(&local).unwrap();
}

/// Triggers name places by a word that is hardly ever a column's, whatever columns come before the next command.
#[test]
fn mig_a_column_may_be_called_rowid() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, v, w INT); INSERT INTO t VALUES('a', 1, 10), ('b', 2, 20), ('c', 3, 30)";
    let all = "SELECT k, v, w FROM t ORDER BY k";
    for added in
        ["ADD COLUMN rowid TEXT", "ADD COLUMN RowID INTEGER DEFAULT 1", "ADD COLUMN oid DEFAULT 2"]
    {
        let world = World::new();
        let mut a = world.init("a", schema);
        let mut b = world.clone_site(&mut a, "b");
        a.run(&format!("UPDATE t SET w = 11 WHERE k = 'b'; ALTER TABLE t {added}"));
        a.run("UPDATE t SET v = 'new' WHERE k = 'c'; DELETE FROM t WHERE k = 'a'; INSERT INTO t(k, v) VALUES('d', 4)");
        b.run(&format!("ALTER TABLE t {added}"));
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows(all), ["b|2|11", "c|new|30", "d|4|NULL"], "{added}");
        }
        agree(&mut [&mut a, &mut b]);
    }
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("ALTER TABLE t RENAME COLUMN w TO rowid; UPDATE t SET v = 'new' WHERE k = 'c'");
    a.run("ALTER TABLE t RENAME COLUMN rowid TO w");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows(all), ["a|1|10", "b|2|20", "c|new|30"]);
    }
    agree(&mut [&mut a, &mut b]);
}
