use crate::env::System;
use crate::fixture::Site;
use crate::replica::Replica;
use crate::state::{self, Body};
use std::sync::Arc;
use synqlite_wire::Rid;

const SCHEMA: &str = "CREATE TABLE a(id INTEGER PRIMARY KEY, x, u UNIQUE); \
     CREATE TABLE k(id TEXT PRIMARY KEY, x) WITHOUT ROWID; \
     CREATE TABLE n(k TEXT COLLATE NOCASE PRIMARY KEY, a REFERENCES a ON DELETE CASCADE ON UPDATE CASCADE); \
     CREATE TABLE bag(x, y); \
     INSERT INTO a VALUES (1,1,1),(2,2,2),(3,3,3),(9,9,9); INSERT INTO k VALUES ('p',1),('q',2); \
     INSERT INTO n VALUES ('n1',1),('n2',NULL); INSERT INTO bag VALUES (1,1),(1,1),(2,2)";

fn sound(site: &Site) {
    assert_eq!(site.replica.verify().unwrap(), [""; 0]);
}

/// A replica with rows in segments, in entries, dead, moved, and merged from another site.
fn lived_in() -> Site {
    let mut site = Site::new(SCHEMA);
    let mut other = site.another();
    site.run("INSERT INTO a VALUES (4,4,4),(10,0,10); UPDATE a SET x = 0 WHERE id = 2; DELETE FROM a WHERE id = 3");
    site.run("UPDATE a SET id = 20 WHERE id = 9; UPDATE k SET x = 5 WHERE id = 'p'; DELETE FROM k WHERE id = 'q'");
    site.run("DELETE FROM bag WHERE rowid = 2; UPDATE bag SET x = 7 WHERE rowid = 3");
    other.run("INSERT INTO a VALUES (4,'other',40); INSERT INTO k VALUES ('r',1); INSERT INTO n VALUES ('n3',4)");
    other.run("INSERT INTO bag VALUES (8,8)");
    site.pull(&mut other);
    other.pull(&mut site);
    sound(&other);
    site
}

#[test]
fn a_sound_replica_has_no_problems() {
    let mut site = lived_in();
    sound(&site);
    site.replica.fold().unwrap();
    sound(&site);
    site.run("VACUUM");
    sound(&site);
}

#[test]
fn unfolded_writes_are_no_problem() {
    let mut site = lived_in();
    for sql in [
        "INSERT INTO a VALUES (50,1,50); UPDATE a SET id = 51 WHERE id = 50; DELETE FROM a WHERE id = 51",
        "UPDATE a SET id = id + 100; INSERT INTO a VALUES (1,1,1001)",
        "DELETE FROM a; INSERT INTO a VALUES (102,0,0),(3,3,3)",
        "UPDATE k SET id = 'z' || id; INSERT INTO k VALUES ('p', 9)",
        "INSERT OR REPLACE INTO k VALUES ('p', 10); INSERT OR REPLACE INTO a VALUES (3,4,0)",
        "UPDATE n SET k = upper(k); INSERT OR REPLACE INTO n VALUES ('N2', 3)",
        "UPDATE bag SET rowid = rowid + 10; DELETE FROM bag WHERE rowid = 11; INSERT INTO bag(rowid) VALUES (1)",
        "DELETE FROM bag",
        "ALTER TABLE bag ADD COLUMN z DEFAULT 3; INSERT INTO bag(x) VALUES (5); UPDATE bag SET z = 4",
        "ALTER TABLE bag DROP COLUMN y; INSERT INTO bag(x) VALUES (6)",
        "ALTER TABLE k RENAME COLUMN x TO w; UPDATE k SET w = 77",
    ] {
        site.run(sql);
        assert_eq!(site.replica.verify().unwrap(), [""; 0], "{sql}");
    }
    site.replica.fold().unwrap();
    sound(&site);
}

#[test]
fn verify_writes_nothing() {
    let site = lived_in();
    site.run("UPDATE a SET x = 9");
    let file = std::fs::read(&site.path).unwrap();
    sound(&site);
    assert_eq!(std::fs::read(&site.path).unwrap(), file);
}

/// Each kind of damage, done by SQL that capture does not see, and what must be said of it.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn damage_is_found() {
    let cases = [
        // Rows that nobody captured.
        ("INSERT INTO a VALUES (77,0,77)", "table a, row 77: it is in the table, but"),
        ("INSERT INTO a VALUES (3,0,77)", "table a, row 3: it is in the table, but"),
        ("INSERT INTO k VALUES ('new',0)", "table k, row 'new': it is in the table, but"),
        ("INSERT INTO bag(rowid) VALUES (500)", "table bag, rowid 500: it is in the table, but"),
        ("DELETE FROM synqlite_row WHERE loc = 20", "table a, row 20: it is in the table, but"),
        ("DELETE FROM synqlite_segment", "table a, row 1: it is in the table, but"),
        // Rows that went away.
        ("DELETE FROM a WHERE id = 2", "table a, row 2: it disappeared"),
        ("DELETE FROM k WHERE id = 'r'", "table k, row 'r': it disappeared"),
        ("UPDATE k SET id = 'R' WHERE id = 'r'", "table k, row 'R': it is in the table, but"),
        ("UPDATE k SET id = 'R' WHERE id = 'r'", "it disappeared"),
        // States that contradict themselves.
        (
            "UPDATE synqlite_row SET loc = NULL WHERE tbl = 1 AND loc = 2",
            "it is alive, but not in the table",
        ),
        (
            "UPDATE synqlite_row SET wants = 5 WHERE tbl = 1 AND loc = 2",
            "table a, row 2: the number it asks for",
        ),
        (
            "UPDATE synqlite_row SET state = x'00' WHERE tbl = 1 AND loc = 2",
            "its state cannot be read",
        ),
        (
            "UPDATE synqlite_row SET rid = x'09' WHERE tbl = 1 AND loc = 2",
            "its state cannot be read",
        ),
        (
            "UPDATE synqlite_row SET position = 99999 WHERE tbl = 1 AND loc = 2",
            "table a, row 2: it changed after",
        ),
        (
            "UPDATE synqlite_row SET tbl = 99 WHERE tbl = 1 AND loc = 2",
            "table number 99 is given to no table",
        ),
        (
            "UPDATE synqlite_row SET loc = 3, state = (SELECT state FROM synqlite_row WHERE loc IS NULL \
             AND tbl = 1) WHERE tbl = 1 AND loc = 2; INSERT INTO a VALUES (3,0,3)",
            "table a, row 3: it is deleted, but placed in the table",
        ),
        // Stamps from the future.
        (
            "UPDATE synqlite_meta SET value = 5 WHERE key = 'clock'",
            "than the clock of this replica",
        ),
        ("UPDATE synqlite_meta SET value = 5 WHERE key = 'clock'", "the clock is at 5, yet"),
        ("UPDATE synqlite_site SET hlc = 5", "than what this replica has seen of that site"),
        (
            "INSERT INTO synqlite_policy VALUES ('fk', 'enforce', 9223372036854775807, 0)",
            "policy fk: it is stamped later",
        ),
        // Segments.
        (
            "INSERT INTO synqlite_segment SELECT tbl, lo + 1, hi, site, first + 1000, hlc, position, keys FROM synqlite_segment WHERE tbl = 1 AND lo = 1",
            "it overlaps the segment before it",
        ),
        (
            "INSERT INTO synqlite_segment SELECT tbl, lo + 1000, hi + 1000, site, first, hlc, position, keys FROM synqlite_segment WHERE tbl = 1 AND lo = 1",
            "it shares births with another segment",
        ),
        ("UPDATE synqlite_segment SET hi = lo - 1 WHERE tbl = 1", "it ends before it begins"),
        (
            "UPDATE synqlite_segment SET keys = NULL",
            "table n, row 1 to 2 (a segment): it has not either births or keys",
        ),
        (
            "UPDATE synqlite_segment SET keys = x'0004ff' WHERE keys IS NOT NULL",
            "table n, row 1 to 2 (a segment): it does not have one key for each of its rows",
        ),
        (
            "UPDATE synqlite_segment SET keys = x'0007ff' WHERE keys IS NOT NULL",
            "the keys of a segment cannot be read",
        ),
        (
            "UPDATE n SET k = 'other' WHERE rowid = 1",
            "table n, row 'other': its key was changed without being captured",
        ),
        ("DELETE FROM n WHERE rowid = 1", "it disappeared from the table without being captured"),
        ("UPDATE synqlite_segment SET hlc = hlc << 1", "it is stamped later than the clock"),
        ("UPDATE synqlite_segment SET position = 99999", "it changed after"),
        ("UPDATE synqlite_meta SET value = 0 WHERE key = 'births'", "its births are not counted"),
        (
            "UPDATE synqlite_segment SET tbl = 99 WHERE tbl = 1",
            "table number 99 is given to no table",
        ),
        // Sites.
        ("UPDATE synqlite_site SET no = 7 WHERE no = 1", "site number 7 is out of order"),
        // Capture.
        ("DROP TRIGGER synqlite_update_1", "table a: synqlite_update_1 is missing"),
        (
            "DROP TRIGGER synqlite_insert_1; CREATE TRIGGER synqlite_insert_1 AFTER INSERT ON a BEGIN SELECT 1; END",
            "table a: synqlite_insert_1 was altered",
        ),
        (
            "CREATE TABLE local(x); CREATE TRIGGER synqlite_insert_99 AFTER INSERT ON local BEGIN SELECT 1; END",
            "table local: trigger synqlite_insert_99 belongs to no replicated table",
        ),
        (
            "CREATE TRIGGER synqlite_row_counts AFTER INSERT ON synqlite_row BEGIN SELECT 1; END; \
             CREATE TRIGGER counts AFTER DELETE ON synqlite_row BEGIN SELECT 1; END",
            "trigger counts and 1 more of another program on tables of synqlite",
        ),
        // Constraints and the file.
        (
            "UPDATE n SET a = 555 WHERE k = 'n2'",
            "table n, row 'n2': it refers to a row that is not there",
        ),
        (
            "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = replace(sql, 'u UNIQUE', 'u UNIQUE CHECK(u < 4)') WHERE name = 'a'",
            "the database file: CHECK constraint failed in a",
        ),
        (
            "INSERT INTO synqlite_journal(ev, a, m, at) VALUES (9, 1, 'x', 0)",
            "a mask of changed columns",
        ),
    ];
    let site = lived_in();
    for (damage, want) in cases {
        let path = site.dir.path().join("damaged.db");
        std::fs::copy(&site.path, &path).unwrap();
        let damaged = Replica::open_copy(&path, Arc::new(System)).unwrap();
        damaged.conn.execute_batch(damage).unwrap_or_else(|e| panic!("{damage}: {e}"));
        drop(damaged);
        let damaged = Replica::open_copy(&path, Arc::new(System)).unwrap();
        let problems = damaged.verify().unwrap();
        assert!(problems.iter().any(|p| p.contains(want)), "{damage}: {want}: {problems:#?}");
    }
}

#[test]
fn dead_rows_must_keep_their_values() {
    let mut site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    let steps = [
        "INSERT INTO t VALUES (1, 1), (2, 2)",
        "UPDATE t SET x = 3 WHERE id = 2",
        "DELETE FROM t WHERE id = 2",
    ];
    for sql in steps {
        site.run(sql);
        site.replica.fold().unwrap();
    }
    sound(&site);
    let forget = |work: &mut crate::work::Work<'_>| {
        let t = &work.catalog.tables[0];
        let rid = Rid::Birth { site: work.meta.site, n: 1 };
        let mut dead = state::of(work.conn, &work.meta, t, &rid)?.expect("the deleted row");
        dead.state.groups[1].body = Body::InTable;
        state::put(work.conn, &mut work.meta, t, &dead, None)
    };
    site.replica.write(forget).unwrap();
    let want = "table t, row 2: it is not in the table and does not keep all of its values";
    assert_eq!(site.replica.verify().unwrap(), [want]);
}

#[test]
fn a_counter_must_show_what_its_counts_add_up_to() {
    let policies = vec!["a.x=counter".parse().unwrap()];
    let options = crate::InitOptions { policies, ..Default::default() };
    let sql = "CREATE TABLE a(id INTEGER PRIMARY KEY, x INTEGER); INSERT INTO a VALUES (1,1)";
    let mut site = Site::with(sql, &options);
    site.run("UPDATE a SET x = x + 1");
    site.replica.fold().unwrap();
    site.run("UPDATE a SET x = x + 1");
    sound(&site);
    site.replica.fold().unwrap();
    sound(&site);
    site.damage("UPDATE a SET x = 7");
    let problems = site.replica.verify().unwrap();
    assert!(problems[0].contains("its counts add up to"), "{problems:?}");
}

#[test]
fn a_damaged_file_is_a_problem() {
    let site = lived_in();
    let root: i64 = site
        .app
        .query_row("SELECT rootpage FROM sqlite_master WHERE name = 'bag'", [], |r| r.get(0))
        .unwrap();
    let size: i64 = site.app.query_row("PRAGMA page_size", [], |r| r.get(0)).unwrap();
    let mut bytes = std::fs::read(&site.path).unwrap();
    let at = usize::try_from((root - 1) * size).unwrap();
    bytes[at..at + 64].fill(0xee);
    let path = site.dir.path().join("damaged.db");
    std::fs::write(&path, bytes).unwrap();
    let damaged = Replica::open_copy(&path, Arc::new(System)).unwrap();
    let problems = damaged.verify().unwrap();
    assert!(problems.iter().any(|p| p.starts_with("the database file: ")), "{problems:?}");
}

#[test]
fn references_may_dangle_if_policy_says_so() {
    let mut site = lived_in();
    site.damage("UPDATE n SET a = 555 WHERE k = 'n2'");
    let dangles = |site: &Site| {
        let problems = site.replica.verify().unwrap();
        assert!(problems.iter().any(|p| p.contains("changed without being captured")));
        problems.iter().any(|p| p.ends_with("it refers to a row that is not there"))
    };
    assert!(dangles(&site));
    site.replica.set_policies(&["fk=ignore".parse().unwrap()]).unwrap();
    assert!(!dangles(&site));
}

#[test]
fn many_rows_of_one_problem_are_counted() {
    let site = lived_in();
    site.damage("INSERT INTO bag(rowid) WITH RECURSIVE c(i) AS (SELECT 1001 UNION ALL SELECT i+1 FROM c WHERE i < 1100) SELECT i FROM c");
    let problems = site.replica.verify().unwrap();
    assert_eq!(problems.len(), 21, "{problems:#?}");
    assert!(problems[20].starts_with("table bag, 80 more rows: "), "{}", problems[20]);
}
