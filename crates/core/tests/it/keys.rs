//! Rows named by their keys that share a segment: whatever takes one of them out of it.

use crate::site::{Site, World, dump, settle};

const T: &str = "CREATE TABLE t(k TEXT PRIMARY KEY, a, b)";
const ROWS: &str =
    "INSERT INTO t SELECT 'k' || value, value, 0 FROM json_each('[1,2,3,4,5,6,7,8]')";

pub fn pair(world: &World, schema: &str) -> (Site, Site) {
    let mut a = world.init("a", schema);
    let b = world.clone_site(&mut a, "b");
    (a, b)
}

pub fn agree(a: &mut Site, b: &mut Site, tables: &[&str]) {
    settle(a, b);
    assert_eq!(dump(&a.app, tables), dump(&b.app, tables));
    assert_eq!(a.replica.digest().unwrap().digest, b.replica.digest().unwrap().digest);
    for site in [a, b] {
        assert_eq!(site.replica.verify().unwrap(), Vec::<String>::new());
    }
}

pub fn entries(site: &Site) -> String {
    site.row("SELECT count(*) FROM synqlite_row")
}

#[test]
fn rows_that_were_only_inserted_have_no_entries() {
    for schema in [
        T,
        "CREATE TABLE t(k TEXT PRIMARY KEY COLLATE NOCASE, a, b)",
        "CREATE TABLE t(k TEXT, a INTEGER, b, PRIMARY KEY(a, k COLLATE RTRIM))",
        "CREATE TABLE t(k, a INTEGER, b REAL, PRIMARY KEY(a, k))",
        "CREATE TABLE t(k TEXT COLLATE NOCASE, a, b, PRIMARY KEY(k COLLATE BINARY))",
    ] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, schema);
        a.run(ROWS);
        b.run("INSERT INTO t VALUES ('K3', 3, 0.5), ('z', 9, 9)");
        a.replica.fold().unwrap();
        assert_eq!(entries(&a), "0", "{schema}");
        b.pull(&mut a);
        agree(&mut a, &mut b, &["t"]);
        for site in [&a, &b] {
            let shared = "SELECT sum(hi - lo + 1) FROM synqlite_segment WHERE keys IS NOT NULL";
            assert!(site.row(shared).parse::<i64>().unwrap() >= 7, "{schema}");
        }
        // What is found is found by its key.
        b.run("UPDATE t SET b = 5 WHERE k LIKE 'k2'; UPDATE t SET b = 6 WHERE k = 'z'");
        a.run("DELETE FROM t WHERE k LIKE 'K4'");
        agree(&mut a, &mut b, &["t"]);
        assert_eq!(a.row("SELECT b FROM t WHERE k LIKE 'k2'").trim_end_matches(".0"), "5");
    }
}

#[test]
fn rows_that_arrive_with_the_rows_they_refer_to_have_no_entries() {
    let world = World::new();
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, v); CREATE TABLE t(k TEXT PRIMARY KEY, a, b); \
                  CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p, t TEXT REFERENCES t ON DELETE CASCADE)";
    let (mut a, mut b) = pair(&world, schema);
    a.run(ROWS);
    a.run("INSERT INTO p SELECT a, 'a' FROM t; INSERT INTO c SELECT NULL, a, k FROM t; INSERT INTO c VALUES (NULL, NULL, 'k1')");
    b.pull(&mut a);
    assert_eq!(entries(&b), "0");
    agree(&mut a, &mut b, &["p", "t", "c"]);
    // A parent that was deleted, and two with one number.
    b.run(
        "INSERT INTO p VALUES (9, 'b'); DELETE FROM c WHERE t = 'k2'; DELETE FROM t WHERE k = 'k2'",
    );
    a.run("INSERT INTO p VALUES (9, 'a'); INSERT INTO c VALUES (20, 9, 'k1'), (21, 1, 'k2')");
    agree(&mut a, &mut b, &["p", "t", "c"]);
    for site in [&a, &b] {
        assert_eq!(site.row("SELECT v FROM p JOIN c ON p.id = c.p WHERE c.id = 20"), "a");
        assert_eq!(site.row("SELECT count(*) FROM c WHERE id = 21"), "0");
        assert_eq!(site.replica.open_conflicts().unwrap(), 1);
    }
}

#[test]
fn rows_updated_together_are_stamped_each_from_its_own_state() {
    let rows = "WITH RECURSIVE g(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM g WHERE v < 2000)";
    for (schema, key, new) in
        [(T, "'k' || v", "'n'"), ("CREATE TABLE t(k INTEGER PRIMARY KEY, a, b)", "v", "12")]
    {
        let world = World::new();
        let (mut a, mut b) = pair(&world, schema);
        a.run(&format!("{rows} INSERT INTO t SELECT {key}, v, 0 FROM g WHERE v % 5 > 0"));
        settle(&mut a, &mut b);
        b.run("UPDATE t SET b = 1 WHERE rowid % 3 = 0; DELETE FROM t WHERE rowid IN (7, 8)");
        // Both columns, the other column, entries and segments by turns, and rows far apart.
        a.run("UPDATE t SET a = -a WHERE rowid % 2 = 0");
        settle(&mut a, &mut b);
        a.run("UPDATE t SET b = 2, a = 1 WHERE rowid % 7 = 0 OR rowid % 7 = 1");
        a.run("UPDATE t SET b = 3 WHERE rowid % 6 < 2; UPDATE t SET a = 2 WHERE rowid % 900 = 1");
        b.run("UPDATE t SET a = 5 WHERE rowid % 6 = 1; UPDATE t SET b = b + 1 WHERE rowid IN (2, 1900)");
        agree(&mut a, &mut b, &["t"]);
        // A row took the place of another that moved.
        a.run("UPDATE t SET k = k || '9999' WHERE rowid = 11; UPDATE t SET rowid = 90000 WHERE rowid = 12");
        a.run(&format!("INSERT INTO t(rowid, k, a, b) VALUES (12, {new}, 0, 0)"));
        agree(&mut a, &mut b, &["t"]);
        a.run("UPDATE t SET a = a + 1");
        agree(&mut a, &mut b, &["t"]);
    }
}

#[test]
fn a_row_leaves_its_segment_in_every_way() {
    for statements in [
        "UPDATE t SET a = 'n' WHERE k = 'k2'",
        "UPDATE t SET k = 'n' WHERE k = 'k2'",
        "UPDATE t SET k = 'K2' WHERE k = 'k2'",
        "UPDATE t SET rowid = 100 WHERE k = 'k2'",
        "UPDATE t SET rowid = 100, k = 'n' WHERE k = 'k2'",
        "DELETE FROM t WHERE k = 'k2'",
        "DELETE FROM t WHERE k = 'k8'; INSERT INTO t VALUES ('n', 0, 0)",
        "DELETE FROM t WHERE k = 'k8'; INSERT INTO t VALUES ('k8', 0, 0)",
        "DELETE FROM t WHERE k = 'k2'; INSERT INTO t VALUES ('k2', 0, 0)",
        "DELETE FROM t WHERE k = 'k2'; INSERT INTO t(rowid, k) VALUES (2, 'n'); \
         INSERT INTO t VALUES ('k2', 0, 0)",
        "INSERT OR REPLACE INTO t VALUES ('k2', 'n', 'n')",
        "INSERT OR REPLACE INTO t(rowid, k) VALUES (3, 'k2')",
        "UPDATE t SET k = 'n' WHERE k = 'k2'; INSERT INTO t VALUES ('k2', 'new', 0)",
        "UPDATE t SET k = 'n' WHERE k = 'k2'; UPDATE t SET k = 'k2' WHERE k = 'k3'",
        "UPDATE t SET k = '' WHERE k = 'k2'; UPDATE t SET k = 'k2' WHERE k = 'k3'; \
         UPDATE t SET k = 'k3' WHERE k = ''",
        "UPDATE t SET a = 'n' WHERE k = 'k2'; DELETE FROM t WHERE k = 'k2'",
        "DELETE FROM t; INSERT INTO t VALUES ('k1', 'n', 'n')",
    ] {
        for folds in [false, true] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, T);
            a.run(ROWS);
            settle(&mut a, &mut b);
            for statement in statements.split("; ") {
                a.run(statement);
                if folds {
                    a.replica.fold().unwrap();
                    assert_eq!(a.replica.verify().unwrap(), [""; 0], "{statement}");
                }
            }
            let after = dump(&a.app, &["t"]);
            b.pull(&mut a);
            assert_eq!(dump(&b.app, &["t"]), after, "{statements}");
            agree(&mut a, &mut b, &["t"]);
            b.run("UPDATE t SET b = 'there' WHERE k IN ('k2', 'k3', 'k8', 'n')");
            a.run("UPDATE t SET a = 'here' WHERE k IN ('k2', 'k3', 'k8', 'n')");
            agree(&mut a, &mut b, &["t"]);
        }
    }
}

#[test]
fn both_sites_insert_one_key_and_the_later_values_stay() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run(ROWS);
    b.run("INSERT INTO t VALUES ('x', 0, 0)");
    b.run("INSERT INTO t SELECT 'k' || value, 'later', 0 FROM json_each('[8,3,9]')");
    settle(&mut a, &mut b);
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.rows("SELECT k FROM t WHERE a = 'later' ORDER BY k"), ["k3", "k8", "k9"]);
    assert_eq!(a.row("SELECT count(*) FROM t"), "10");
}

#[test]
fn references_are_to_rows_in_segments() {
    let world = World::new();
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, a, b); \
                  CREATE TABLE c(id TEXT PRIMARY KEY, t TEXT REFERENCES t ON UPDATE CASCADE ON DELETE CASCADE); \
                  CREATE TABLE j(t TEXT REFERENCES t, c TEXT REFERENCES c, PRIMARY KEY(t, c))";
    let (mut a, mut b) = pair(&world, schema);
    a.run(ROWS);
    a.run("INSERT INTO c SELECT 'c' || a, k FROM t; INSERT INTO j VALUES ('k1', 'c2')");
    settle(&mut a, &mut b);
    b.run("UPDATE t SET k = 'renamed' WHERE k = 'k3'; DELETE FROM t WHERE k = 'k4'");
    b.run("INSERT INTO t VALUES ('k3', 'another', 0)");
    a.run("INSERT INTO c VALUES ('of k3', 'k3'), ('of k4', 'k4')");
    agree(&mut a, &mut b, &["t", "c", "j"]);
    assert_eq!(a.row("SELECT t FROM c WHERE id = 'of k3'"), "renamed");
    assert_eq!(a.row("SELECT t FROM c WHERE id = 'c3'"), "renamed");
    // A row inserted anew where another was deleted is no row of the segment.
    a.run("DELETE FROM t WHERE k = 'k8'; INSERT INTO t VALUES ('n', 0, 0); INSERT INTO c VALUES ('of n', 'n')");
    agree(&mut a, &mut b, &["t", "c", "j"]);
}

#[test]
fn rows_that_left_their_keys_while_the_triggers_were_gone_are_named() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run(ROWS);
    settle(&mut a, &mut b);
    a.run(
        "CREATE TABLE n(k TEXT PRIMARY KEY, a, b, c); \
         INSERT INTO n SELECT upper(k), a, b, 0 FROM t WHERE k NOT IN ('k2', 'k5') ORDER BY a; \
         DROP TABLE t; ALTER TABLE n RENAME TO t",
    );
    agree(&mut a, &mut b, &["(SELECT k, a FROM t)"]);
    assert_eq!(b.rows("SELECT k FROM t ORDER BY k"), ["K1", "K3", "K4", "K6", "K7", "K8"]);
}

#[test]
fn a_primary_key_of_other_columns_names_no_row_anew() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, T);
    a.run(ROWS);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        site.run(
            "CREATE TABLE n(k TEXT, a INTEGER, b, PRIMARY KEY(a, k)); INSERT INTO n SELECT * FROM t; \
             DROP TABLE t; ALTER TABLE n RENAME TO t",
        );
    }
    settle(&mut a, &mut b);
    a.run("UPDATE t SET b = 'a' WHERE k = 'k1'; INSERT INTO t VALUES ('new', 1, 2)");
    b.run("UPDATE t SET a = 20 WHERE k = 'k1'; DELETE FROM t WHERE k = 'k2'");
    agree(&mut a, &mut b, &["t"]);
    assert_eq!(a.row("SELECT a, b FROM t WHERE k = 'k1'"), "20|a");
    assert_eq!(a.row("SELECT count(*) FROM t"), "8");
}

/// Where a number is a reference it is that of the row that it is to, whatever identifies its own row.
#[test]
fn rows_by_birth_whose_number_is_a_reference_are_not_renumbered() {
    let child = "CREATE TABLE c(k INTEGER PRIMARY KEY REFERENCES p(k), w)";
    for early in [true, false] {
        let world = World::new();
        let mut a = world.init("a", "CREATE TABLE p(k INTEGER PRIMARY KEY, u)");
        let mut b = world.clone_site(&mut a, "b");
        let mut c = world.clone_site(&mut a, "c");
        a.run(child);
        a.replica.set_policies(&["c.identity=birth".parse().unwrap()]).unwrap();
        if early {
            settle(&mut a, &mut b);
        }
        b.run("INSERT INTO p VALUES(1, 2)");
        a.run("PRAGMA foreign_keys = OFF; INSERT INTO c VALUES(1, 'a')");
        b.run(&format!(
            "{}; INSERT INTO c VALUES(1, 'b')",
            child.replace("TABLE", "TABLE IF NOT EXISTS")
        ));
        c.run(child);
        for _ in 0..3 {
            settle(&mut a, &mut b);
            settle(&mut b, &mut c);
            settle(&mut a, &mut c);
        }
        let shown = a.rows("SELECT * FROM c");
        assert_eq!(shown, ["1|a"], "{early}");
        for site in [&a, &b, &c] {
            assert_eq!(site.rows("SELECT * FROM c"), shown);
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            let records = site.replica.conflicts().unwrap();
            let kinds: Vec<_> = records.iter().map(|r| (r.kind.as_str(), r.row.as_str())).collect();
            assert_eq!(kinds.len(), 1, "{kinds:?}");
        }
    }
}

/// Rows of different keys stay two, also where both refer to one row: their column tells more values apart
/// than the key that it is to.
#[test]
fn id_key_rows_that_refer_to_one_row_under_different_keys_are_two() {
    for (parent, child, one, other) in [
        ("INTEGER UNIQUE", "TEXT", "'0'", "'0.0'"),
        ("TEXT COLLATE NOCASE UNIQUE", "TEXT", "'a'", "'A'"),
        ("TEXT COLLATE RTRIM UNIQUE", "TEXT", "'a'", "'a '"),
        ("TEXT UNIQUE", "", "'1'", "1"),
        ("INTEGER UNIQUE", "", "'1'", "1"),
    ] {
        for table in [
            format!("k {child} PRIMARY KEY REFERENCES p(u), w"),
            format!("k {child} NOT NULL PRIMARY KEY REFERENCES p(u), w) WITHOUT ROWID; --"),
            format!("i, k {child} REFERENCES p(u), w, PRIMARY KEY(i, k)"),
        ] {
            for together in [true, false] {
                let story = format!("{parent}: {table}, together: {together}");
                let world = World::new();
                let sql = format!(
                    "CREATE TABLE p(id INTEGER PRIMARY KEY, u {parent}, v); INSERT INTO p(u) VALUES({one});
                     CREATE TABLE c({table}\n)"
                );
                let mut a = world.init("a", &sql.replace("--\n)", ""));
                let mut b = world.clone_site(&mut a, "b");
                a.run(&format!("INSERT INTO c(k, w) VALUES({one}, 'one')"));
                let second = if together { &a } else { &b };
                second.run(&format!("INSERT INTO c(k, w) VALUES({other}, 'other')"));
                settle(&mut a, &mut b);
                a.run(&format!("UPDATE c SET w = 'more' WHERE k = {other}"));
                b.run("UPDATE p SET v = 5");
                settle(&mut a, &mut b);
                for site in [&a, &b] {
                    let rows = site.rows("SELECT w FROM c ORDER BY w");
                    assert_eq!(rows, ["more", "one"], "{story}");
                    assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{story}");
                }
                a.run("DELETE FROM c WHERE w = 'one'");
                settle(&mut a, &mut b);
                assert_eq!(b.rows("SELECT w FROM c"), ["more"], "{story}");
            }
        }
    }
}

/// A key that was deleted and inserted again since the last fold is the row that it was, wherever the new one
/// lies: only what differs is a write.
#[test]
fn a_key_inserted_again_elsewhere_writes_what_differs() {
    for place in [1, 77] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, T);
        a.run("INSERT INTO t(rowid, k, a, b) VALUES(1, 'k', 1, 1), (2, 'l', 1, 1)");
        a.replica.fold().unwrap();
        b.run("INSERT INTO t VALUES('k', 2, 2)");
        b.replica.fold().unwrap();
        let again = format!("INSERT INTO t(rowid, k, a, b) VALUES({place}, 'k', 3, 1)");
        a.run(&format!("DELETE FROM t WHERE k = 'k'; {again}"));
        agree(&mut a, &mut b, &["t"]);
        assert_eq!(a.rows("SELECT * FROM t ORDER BY k"), ["k|3|2", "l|1|1"]);
    }
}
