//! Random histories under UNIQUE and FOREIGN KEY constraints with every action: whatever two sites
//! do, every constraint holds afterwards, all sites show the same rows and the same conflicts, and
//! no site's own fold takes back what its user wrote.

use crate::random::{Random, seeds};
use crate::site::{Site, World, settle};
use rusqlite::Connection;
use std::collections::BTreeSet;
use std::sync::Arc;
use synqlite_core::{Conflict, InitOptions, Policy, Replica, System, Verb};

const TABLES: [&str; 6] = ["p", "k", "c", "j", "n", "bag"];

fn schema(r: &mut Random) -> String {
    let delete = ["CASCADE", "SET NULL", "RESTRICT", "NO ACTION", "SET DEFAULT"];
    let update = ["CASCADE", "CASCADE", "SET NULL", "NO ACTION", "SET DEFAULT"];
    format!(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE, v);
         CREATE TABLE k(k TEXT PRIMARY KEY, email TEXT COLLATE NOCASE, act INT);
         CREATE UNIQUE INDEX ke ON k(email) WHERE act = 1;
         CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) ON DELETE {},
             q TEXT REFERENCES k(k) ON DELETE {} ON UPDATE {}, slot INT, UNIQUE(p, slot));
         CREATE TABLE j(p INT REFERENCES p(id) ON DELETE CASCADE,
             k TEXT REFERENCES k(k) ON DELETE CASCADE ON UPDATE CASCADE, w, PRIMARY KEY(p, k)) WITHOUT ROWID;
         CREATE TABLE n(id INTEGER PRIMARY KEY, parent INT REFERENCES n(id) ON DELETE {},
             lo INT, hi INT, CHECK(lo <= hi));
         CREATE TABLE bag(a, b);",
        r.pick(&delete),
        r.pick(&delete),
        r.pick(&update),
        r.pick(&delete)
    )
}

fn statement(r: &mut Random) -> String {
    let (a, b, c) = (r.below(4) + 1, r.below(4) + 1, r.below(10));
    let or = r.pick(&["IGNORE", "REPLACE", "ABORT"]);
    let name = r.pick(&["a0", "A0", "a1", "b0", "b1", "c0"]);
    let other = r.pick(&["a0", "a1", "b0", "B1", "c0"]);
    let of = |table: &str, column: &str| {
        format!("(SELECT {column} FROM {table} ORDER BY {column} LIMIT 1 OFFSET {b})")
    };
    match r.below(20) {
        0..3 => format!("INSERT OR {or} INTO p(name, v) VALUES('{name}', {c})"),
        3 => format!("UPDATE OR {or} p SET name = '{name}' WHERE id = {a}"),
        4 => format!("UPDATE p SET v = {c} WHERE id = {a}"),
        5 => format!("DELETE FROM p WHERE id = {a}"),
        6..8 => format!(
            "INSERT OR IGNORE INTO c(p, q, slot) VALUES({}, {}, {})",
            of("p", "id"),
            of("k", "k"),
            c % 3
        ),
        8 => {
            format!("UPDATE OR IGNORE c SET p = {}, slot = {} WHERE id = {a}", of("p", "id"), c % 3)
        }
        9 => format!("DELETE FROM c WHERE id = {a}"),
        10..12 => format!("INSERT OR {or} INTO k VALUES('{name}', '{other}', {})", c % 2),
        12 => format!("UPDATE OR IGNORE k SET k = '{name}' WHERE k = '{other}'"),
        13 => format!("UPDATE OR IGNORE k SET act = 1 - act, email = '{name}' WHERE k = '{other}'"),
        14 => format!("DELETE FROM k WHERE k = '{name}'"),
        15 => format!("INSERT OR IGNORE INTO j VALUES({}, {}, {c})", of("p", "id"), of("k", "k")),
        16 => format!("DELETE FROM j WHERE p = {a}"),
        17 => format!("INSERT INTO n(parent, lo, hi) VALUES({}, 0, {c})", of("n", "id")),
        18 => format!("UPDATE OR IGNORE n SET parent = {}, lo = {c} WHERE id = {a}", of("n", "id")),
        _ => format!("DELETE FROM n WHERE id = {a}"),
    }
}

fn dump(conn: &Connection) -> BTreeSet<String> {
    crate::site::dump(conn, &TABLES).into_iter().collect()
}

/// A site, and what it showed after its latest fold or merge.
struct Seen {
    site: Site,
    shown: BTreeSet<String>,
}

impl Seen {
    fn new(site: Site) -> Seen {
        let shown = dump(&site.app);
        Seen { site, shown }
    }
}

/// INV-LOCAL: nothing that the site shows may change or go in a fold, but for a row that a record
/// says shows something other than was written: its value may come back. And nothing that the user
/// changed or deleted since the latest fold may be as it was.
fn fold(seen: &mut Seen) {
    let site = &mut seen.site;
    let before = dump(&site.app);
    let shown = |c: &Conflict| {
        let values: Vec<_> = c.shown.iter().map(|(_, value)| format!("{value:?}")).collect();
        format!("{}: {}", c.table, values.join(" "))
    };
    let aside: BTreeSet<_> = site.replica.conflicts().unwrap().iter().map(shown).collect();
    site.replica.fold().unwrap();
    let after = dump(&site.app);
    let lost: Vec<_> = before.difference(&after).filter(|row| !aside.contains(*row)).collect();
    assert!(lost.is_empty(), "a fold took back {lost:?}, now {after:?}");
    assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    let back: Vec<_> = after.difference(&before).filter(|row| seen.shown.contains(*row)).collect();
    assert!(back.is_empty(), "a fold brought back {back:?}");
    seen.shown = after;
    site.check();
}

fn pull(sites: &mut [Seen], at: usize, other: usize) {
    let [mine, theirs] = sites.get_disjoint_mut([at, other]).unwrap();
    fold(mine);
    fold(theirs);
    mine.site.pull(&mut theirs.site);
    mine.shown = dump(&mine.site.app);
}

fn history(seed: u64) {
    let mut r = Random::new(seed);
    let world = World::new();
    let count = 2 + r.below(3) as usize;
    let schema = schema(&mut r);
    let policies: &[(&str, &str)] = match r.below(3) {
        0 => &[("p.on_unique", "unify")],
        1 => &[("p.delete", "last"), ("c.delete", "last"), ("k.delete", "last")],
        _ => &[],
    };
    let mut sites = vec![Seen::new(world.init_with("s0", &schema, policies))];
    for i in 1..count {
        let site = world.clone_site(&mut sites[0].site, &format!("s{i}"));
        sites.push(Seen::new(site));
    }
    let eager = r.below(2) == 0;
    for _ in 0..50 {
        let at = r.below(count as u64) as usize;
        if r.below(8) == 0 {
            let other = r.below(count as u64) as usize;
            if other != at {
                pull(&mut sites, at, other);
            }
        } else {
            let sql = statement(&mut r);
            let _ = sites[at].site.app.execute_batch(&sql);
            std::thread::sleep(std::time::Duration::from_millis(1));
            if eager {
                fold(&mut sites[at]);
            }
        }
    }
    for _ in 0..5 {
        for at in 0..count {
            for other in 0..count {
                if other != at {
                    pull(&mut sites, at, other);
                }
            }
        }
    }
    let sites: Vec<Site> = sites.into_iter().map(|seen| seen.site).collect();
    let records = |site: &Site| -> Vec<String> {
        let list = site.replica.conflicts().unwrap();
        list.iter().map(|c| format!("{} {} {} {:?}", c.id, c.kind, c.table, c.displaced)).collect()
    };
    for site in &sites[1..] {
        assert_eq!(dump(&site.app), dump(&sites[0].app), "sites differ after they settled");
        assert_eq!(records(site), records(&sites[0]), "conflicts differ");
    }
    for site in &sites {
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
}

#[test]
fn constrained_histories_converge() {
    let fails = |seed: &u64| std::panic::catch_unwind(|| history(*seed)).is_err();
    let failed: Vec<u64> = seeds(16).filter(fails).collect();
    assert!(failed.is_empty(), "seeds {failed:?} failed; SYNQLITE_SEEDS=FROM..TO runs them again");
}

/// An expression reads the bytes of a blob as a text in the encoding of the database.
#[test]
fn keys_of_expressions_are_computed_in_the_encoding_of_the_database() {
    let encodings = match rusqlite::version_number() >= 3_050_000 {
        true => &["UTF-8", "UTF-16le", "UTF-16be"][..],
        false => {
            println!(
                "skipped: UTF-16: SQLite {} reads a bound blob as UTF-8 there, and breaks its own index",
                rusqlite::version()
            );
            &["UTF-8"]
        }
    };
    for encoding in encodings {
        let world = World::new();
        let sql = "CREATE TABLE t(u TEXT, w TEXT); CREATE UNIQUE INDEX i ON t(lower(\"u\"))";
        let mut a = world.init("a", &format!("PRAGMA encoding='{encoding}'; {sql}"));
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO t VALUES('A', 'a')");
        b.run("INSERT INTO t VALUES(x'61', 'b')");
        settle(&mut a, &mut b);
        let shown = if *encoding == "UTF-8" { "1" } else { "2" };
        for site in [&a, &b] {
            assert_eq!(site.row("SELECT count(*) FROM t"), shown, "{encoding}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    }
}

/// Two rows refer to a third under a unique key that holds the reference. Where the third is hidden they
/// have no such key, whether it was hidden before they came or with them.
#[test]
fn a_key_with_a_reference_to_a_hidden_row_is_nobodys() {
    for keeps in ["ON DELETE SET NULL", "ON DELETE CASCADE", ""] {
        let world = World::new();
        let sql = format!(
            "CREATE TABLE n(id TEXT PRIMARY KEY, k UNIQUE, up UNIQUE REFERENCES n(k) {keeps})"
        );
        let mut a = world.init("a", &sql);
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO n VALUES('r', 'x', NULL)");
        a.replica.fold().unwrap();
        b.run("INSERT INTO n VALUES('s', 'x', NULL)");
        let mut d = world.clone_site(&mut b, "d");
        a.pull(&mut b);
        b.run("INSERT INTO n VALUES('c', 1, 'x')");
        d.run("INSERT INTO n VALUES('e', 2, 'x')");
        a.pull(&mut b);
        a.pull(&mut d);
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "{keeps}");
        b.pull(&mut d);
        b.pull(&mut a);
        d.pull(&mut a);
        let shown = a.rows("SELECT * FROM n ORDER BY id");
        for site in [&a, &b, &d] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{keeps}");
            assert_eq!(site.rows("SELECT * FROM n ORDER BY id"), shown, "{keeps}");
        }
        let nulled = ["c|1|NULL", "e|2|NULL", "r|x|NULL"];
        let left = if keeps.contains("NULL") { &nulled[..] } else { &nulled[2..] };
        assert_eq!(shown, left, "{keeps}");
    }
}

/// SQLite takes the two zeros for one value, so who writes one over the other has written nothing.
#[test]
fn records_show_no_sign_of_a_zero() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE t(k BLOB PRIMARY KEY NOT NULL, w TEXT, r BLOB REFERENCES t(k)); \
         INSERT INTO t VALUES(0.0, 'zero', NULL)",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO t VALUES('0', 'child', 0.0)");
    b.run("PRAGMA foreign_keys = OFF; UPDATE OR REPLACE t SET k = -0.0 WHERE k = 0.0; DELETE FROM t WHERE k = 0.0");
    settle(&mut a, &mut b);
    let told = |site: &Site| {
        let records = site.replica.conflicts().unwrap();
        let text = |c: &Conflict| format!("{} {} {:?} {:?}", c.id, c.row, c.displaced, c.shown);
        records.iter().map(text).collect::<Vec<_>>()
    };
    let records = told(&a);
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!(told(&b), records);
}

/// What a hidden row asked for is free once it asks for something else: by its user, by another site's
/// write, or by a command.
#[test]
fn what_a_hidden_row_no_longer_asks_for_is_free() {
    for how in ["fold", "merge", "discard"] {
        let world = World::new();
        let mut a = world.init(
            "a",
            "CREATE TABLE t(k TEXT PRIMARY KEY, u UNIQUE, r REFERENCES t(k) ON UPDATE CASCADE); \
             INSERT INTO t VALUES('d', NULL, NULL)",
        );
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO t VALUES('e', 'c', 'd')");
        b.run("INSERT INTO t VALUES('c', NULL, NULL)");
        b.run("UPDATE t SET u = 'd' WHERE k = 'd'");
        b.replica.fold().unwrap();
        a.run("INSERT INTO t VALUES('a', 'd', 'e')");
        a.replica.fold().unwrap();
        b.run("UPDATE t SET u = 'c' WHERE k = 'd'");
        b.pull(&mut a);
        assert_eq!(b.rows("SELECT k FROM t ORDER BY k"), ["c"], "{how}");
        match how {
            "fold" => b.run("INSERT INTO t VALUES('a', 'b', 'c')"),
            "merge" => {
                a.run("UPDATE t SET u = 'b' WHERE k = 'a'");
                b.pull(&mut a);
            }
            _ => {
                let records = b.replica.conflicts().unwrap();
                let of_a = records.iter().find(|c| c.row.contains("'a'")).unwrap();
                b.replica.settle_conflict(&of_a.id, Verb::Discard).unwrap();
            }
        }
        b.replica.fold().unwrap();
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "{how}");
        settle(&mut a, &mut b);
        let shown = a.rows("SELECT k, u FROM t ORDER BY k");
        assert_eq!(shown, b.rows("SELECT k, u FROM t ORDER BY k"), "{how}");
        assert!(
            shown.contains(&"d|d".to_owned()) && shown.contains(&"e|c".to_owned()),
            "{shown:?}"
        );
    }
}

/// A deleted row to which a hidden one referred has no record once that one refers to another row.
#[test]
fn what_a_hidden_row_no_longer_refers_to_waits_for_nothing() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE n(k TEXT PRIMARY KEY, up REFERENCES n(k) ON DELETE RESTRICT, u INT UNIQUE); \
         INSERT INTO n VALUES('x', NULL, 7), ('y', 'x', NULL)",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO n VALUES('a0', 'y', 3)");
    b.run("INSERT INTO n VALUES('b0', 'y', NULL); INSERT INTO n VALUES('a1', 'b0', 3)");
    a.pull(&mut b);
    a.run("UPDATE n SET u = 2 WHERE k = 'b0'");
    a.replica.fold().unwrap();
    a.run("INSERT OR REPLACE INTO n VALUES('B1', 'a0', 2)");
    a.replica.fold().unwrap();
    a.run("INSERT INTO n VALUES('a1', 'y', 4)");
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(a.replica.open_conflicts().unwrap(), 0);
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM n ORDER BY k"), b.rows("SELECT * FROM n ORDER BY k"));
}

/// A row goes back to the key that was written to it once that key is free; the row to which its
/// former key then goes was never in its way.
#[test]
fn a_row_goes_back_to_its_key_and_another_takes_the_former_one() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES(101), (102); \
         CREATE TABLE d(id INTEGER PRIMARY KEY REFERENCES p(id) ON DELETE SET NULL, v); \
         INSERT INTO d VALUES(101, 'moved')",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO d VALUES(102, 'first')");
    b.run("UPDATE d SET id = 102; INSERT INTO d VALUES(101, 'second')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM d"), ["101|moved", "102|first"]);
    a.run("DELETE FROM d WHERE id = 102");
    a.replica.fold().unwrap();
    assert_eq!(a.rows("SELECT * FROM d"), ["101|second", "102|moved"]);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM d"), ["101|second", "102|moved"]);
}

/// A row gets another number while the one that has its own is not hidden yet, and keeps it in the end.
/// What refers to it cannot be held under that number, and is hidden on all sites as long as the other is
/// there, also if it is written, or comes later.
#[test]
fn what_a_number_on_the_way_hides_is_hidden_by_every_merge() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, n INT, v INT, CHECK(n < 10)); \
               INSERT INTO t(k) VALUES(5), (9)";
    let mut a = world.init_with("a", sql, &[("t.refs", "n:t")]);
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    b.run("UPDATE t SET k = 1 WHERE k = 5; INSERT INTO t(k) VALUES(4)");
    a.run("INSERT INTO t(k, n) VALUES(4, NULL), (1, NULL), (8, 1); UPDATE t SET n = 4 WHERE k = 5");
    a.replica.fold().unwrap();
    c.pull(&mut a);
    a.pull(&mut b);
    let clean = |site: &Site| assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    clean(&a);
    c.run("INSERT INTO t(k, n) VALUES(7, 1); UPDATE t SET v = 1 WHERE k = 8");
    a.pull(&mut c);
    clean(&a);
    assert_eq!(a.rows("SELECT k, n FROM t"), ["1|NULL", "4|NULL", "9|NULL", "10|NULL"]);
    b.run("DELETE FROM t WHERE k = 1");
    a.pull(&mut b);
    clean(&a);
    settle(&mut a, &mut b);
    settle(&mut a, &mut c);
    settle(&mut a, &mut b);
    let rows = ["1|NULL|NULL", "4|NULL|NULL", "7|1|NULL", "8|1|1", "9|NULL|NULL", "10|NULL|NULL"];
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), rows);
        assert_eq!(site.replica.open_conflicts().unwrap(), 0);
        clean(site);
    }
}

/// A row shows its former key, for another has the one it asks for. Its user makes it refer to itself: what
/// that would be under the key it asks for is taken, and so it keeps the one that the user saw.
#[test]
fn a_row_that_refers_to_itself_by_its_former_key_keeps_it() {
    let world = World::new();
    let sql = "CREATE TABLE n(k TEXT UNIQUE, up TEXT REFERENCES n(k) ON DELETE CASCADE, u INT, UNIQUE(up, u))";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO n VALUES('x', NULL, 1), ('child', 'x', 2)");
    b.run("INSERT INTO n VALUES('y', NULL, 2)");
    b.replica.fold().unwrap();
    b.run("UPDATE n SET k = 'x'");
    a.pull(&mut b);
    assert_eq!(a.row("SELECT * FROM n WHERE k = 'y'"), "y|NULL|2");
    a.run("UPDATE n SET up = 'y' WHERE k = 'y'");
    a.replica.fold().unwrap();
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM n ORDER BY k"), ["child|x|2", "x|NULL|1", "y|y|2"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// What a reference shows until the row that it is to is hidden hides nothing that its user wrote.
#[test]
fn a_row_that_its_user_sees_is_not_hidden_for_a_number_on_the_way() {
    let world = World::new();
    let sql = "CREATE TABLE t(k INTEGER PRIMARY KEY, n INT, u INT UNIQUE, CHECK(n < 7))";
    let mut a = world.init_with("a", sql, &[("t.refs", "n:t")]);
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO t VALUES(2, NULL, 1)");
    a.run("INSERT INTO t VALUES(6, NULL, 1)");
    b.run("UPDATE t SET u = 2; UPDATE t SET u = 1");
    a.pull(&mut b);
    let shown = a.rows("SELECT k FROM t");
    assert_eq!(shown, ["6"], "the row of b asks for 2, and is hidden");
    a.run("INSERT INTO t VALUES(2, NULL, NULL); UPDATE t SET n = 2 WHERE k = 2");
    a.replica.fold().unwrap();
    assert_eq!(a.row("SELECT * FROM t WHERE k = 2"), "2|2|NULL");
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), b.rows("SELECT * FROM t"));
}

/// Merges do not keep a foreign key with a generated column at either end: that is said when the replica is made,
/// and the rows that refer to nobody are told of.
#[test]
fn what_a_generated_foreign_key_leaves_behind_is_told() {
    let child = "CREATE TABLE child(id INTEGER PRIMARY KEY, raw TEXT, slug TEXT REFERENCES par(slug) ON DELETE CASCADE)";
    let of_child = "CREATE TABLE par(name TEXT, slug TEXT PRIMARY KEY); \
        CREATE TABLE child(id INTEGER PRIMARY KEY, raw TEXT, \
                           slug TEXT AS (lower(raw)) STORED REFERENCES par(slug) ON DELETE CASCADE)";
    let of_parent = |kind: &str| {
        format!(
            "CREATE TABLE par(name TEXT PRIMARY KEY, slug TEXT AS (lower(name)) {kind} UNIQUE); {child}"
        )
    };
    let own = "slug of child is a generated column";
    for (sql, parent, row, why) in [
        (of_parent("STORED"), "name", "slug", "slug of par is a generated column"),
        (of_parent("VIRTUAL"), "name", "slug", "slug of par is a generated column"),
        (of_child.to_owned(), "slug", "raw", own),
    ] {
        for policy in ["enforce", "ignore"] {
            let world = World::new();
            let path = world.path("a");
            Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
            let policies = vec![Policy::new("fk", policy).unwrap()];
            let options = InitOptions { policies, ..InitOptions::default() };
            let notes = Replica::init(&path, &options, Arc::new(System)).unwrap().notes;
            let note =
                format!("child(slug) references par: {why}; merges do not keep this constraint");
            assert!(notes.iter().any(|n| n.starts_with(&note)), "{notes:?}");
            let mut a = world.open("a");
            a.run(&format!("INSERT INTO par({parent}) VALUES('red'), ('blue')"));
            let mut b = world.clone_site(&mut a, "b");
            a.run(&format!("DELETE FROM par WHERE {parent} = 'red'"));
            b.run(&format!("INSERT INTO child({row}) VALUES('red'), ('blue')"));
            a.replica.pull_from(&mut b.replica, false).unwrap();
            let told = match policy {
                "enforce" => vec!["table child, row 1: it refers to a row that is not there"],
                _ => vec![],
            };
            assert_eq!(a.replica.verify().unwrap(), told, "{sql}");
            assert_eq!(b.replica.verify().unwrap(), [""; 0], "{sql}");
        }
    }
}

/// SQLite cannot check what refers to no key at all, and writes nothing to such a table while foreign keys are on.
#[test]
fn a_foreign_key_to_no_key_is_no_problem_of_the_metadata() {
    let world = World::new();
    let a = world.init(
        "a",
        "CREATE TABLE par(id INTEGER PRIMARY KEY, x); CREATE TABLE child(id INTEGER PRIMARY KEY, x REFERENCES par(x))",
    );
    assert_eq!(a.replica.verify().unwrap(), [""; 0]);
}
