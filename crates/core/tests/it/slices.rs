//! Large merges, which come in slices: what programs can do between them, and what remains of one that
//! is killed.

use crate::site::{Site, World, dump, settle};
use rusqlite::Connection;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use synqlite_core::{Environment, Error, Merging, Policy, Replica, Sink, System};
use synqlite_wire::{Delta, Hlc, VersionVector};

/// The machine, with something to do in each rest between two slices. It is given how many rests there
/// were before.
struct Between<F>(F, AtomicUsize);

impl<F: Fn(usize) + Send + Sync> Environment for Between<F> {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn rest(&self, _: i64) {
        (self.0)(self.1.fetch_add(1, Relaxed));
    }
}

/// Opens a replica that does `f` between slices.
fn between<F: Fn(usize) + Send + Sync + 'static>(path: &Path, f: F) -> (Replica, Arc<Between<F>>) {
    let env = Arc::new(Between(f, AtomicUsize::new(0)));
    (Replica::open(path, env.clone()).unwrap(), env)
}

const MANY: &str = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 6000)";

const TABLES: [&str; 3] = ["p", "c", "u"];

const SCHEMA: &str = "CREATE TABLE p(id INTEGER PRIMARY KEY, n);
     CREATE TABLE c(id TEXT PRIMARY KEY, p INTEGER NOT NULL REFERENCES p(id) ON DELETE CASCADE, n);
     CREATE TABLE u(k TEXT UNIQUE, n, CHECK (length(k) < 20))";

fn fill() -> String {
    format!(
        "{MANY} INSERT INTO p SELECT i, i FROM c; {MANY} INSERT INTO c SELECT 'k' || i, i, i FROM c;
         {MANY} INSERT INTO u SELECT 'u' || i, i FROM c;"
    )
}

fn whole(site: &Site) {
    site.check();
    assert_eq!(site.replica.verify().unwrap(), Vec::<String>::new());
}

fn same(a: &Site, b: &Site) {
    assert_eq!(dump(&a.app, &TABLES), dump(&b.app, &TABLES));
    whole(a);
    whole(b);
}

/// What a program may find at any time.
fn check(app: &Connection) {
    let none = |sql: &str| assert!(!app.prepare(sql).unwrap().exists([]).unwrap(), "{sql}");
    none("PRAGMA foreign_key_check");
    none("SELECT k FROM u GROUP BY k HAVING count(*) > 1");
    let ok: String = app.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(ok, "ok");
}

/// R-PIN: who only receives writes nothing, whatever numbers rows have until all of them have come.
#[test]
fn a_merge_in_slices_pins_no_number_that_a_row_has_on_the_way() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, x)");
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    for (site, x) in [(&b, "'b'"), (&a, "'a'")] {
        site.run(&format!("{MANY} INSERT INTO t(x) SELECT {x} FROM c"));
    }
    let (replica, env) = between(&world.path("c"), |_| {});
    c.replica = replica;
    c.replica.pull_from(&mut a.replica, false).unwrap();
    let before = env.1.load(Relaxed);
    c.replica.pull_from(&mut b.replica, false).unwrap();
    assert!(env.1.load(Relaxed) > before + 1, "several slices");
    assert_eq!(
        c.rows("SELECT x, count(*), max(id) FROM t GROUP BY x"),
        ["a|6000|12000", "b|6000|6000"]
    );
    assert_eq!(c.replica.seen().unwrap().get(c.replica.site()), Hlc(0), "it wrote nothing");
}

/// R-PIN: nor where a name of a site or a policy comes among them.
#[test]
fn settings_that_come_in_the_midst_pin_no_number() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    let mut reader = world.clone_site(&mut a, "reader");
    let start = reader.replica.seen().unwrap();
    b.run("INSERT INTO t(x) VALUES ('b')");
    let mut deltas = vec![b.replica.export(&start, 0).unwrap().0];
    c.pull(&mut b);
    a.run("INSERT INTO t(x) VALUES ('a')");
    deltas.push(a.replica.export(&start, 0).unwrap().0);
    c.run("INSERT INTO t(x) VALUES ('c')");
    c.pull(&mut a);
    let seen = c.replica.seen().unwrap();
    c.replica.set_name("c").unwrap();
    c.replica.set_policies(&[Policy::new("merge", "whole").unwrap()]).unwrap();
    c.run("INSERT INTO t(x) VALUES ('then')");
    deltas.push(c.replica.export(&start, 0).unwrap().0);
    assert!(!deltas[2].settings.is_empty() && !seen.dominates(&deltas[2].upto));
    merge_at_once(&mut reader, &deltas);
    let rows = "SELECT id, x FROM t ORDER BY id";
    assert_eq!(reader.rows(rows), c.rows(rows));
    reader.replica.fold().unwrap();
    assert_eq!(written_by(&reader), Hlc(0), "it wrote nothing");
}

/// R-PIN: nor between what one command brings one after the other, whoever reads it has told of something before.
#[test]
fn what_comes_one_after_the_other_pins_no_number_that_a_row_has_on_the_way() {
    let world = World::new();
    let mut first = world.init("first", "CREATE TABLE t(id INTEGER PRIMARY KEY, x)");
    let mut others = ["second", "third"].map(|name| world.clone_site(&mut first, name));
    let mut readers = ["whole", "parts"].map(|name| world.clone_site(&mut first, name));
    let start = first.replica.seen().unwrap();
    for reader in &mut readers {
        reader.run("INSERT INTO t VALUES (100, 'reader')");
        reader.replica.fold().unwrap();
    }
    // The third asks for the number of the first, and gets one that the second has asked for.
    first.run("INSERT INTO t VALUES (200, 'first')");
    others[0].run("INSERT INTO t VALUES (201, 'second')");
    others[1].run("INSERT INTO t VALUES (200, 'third')");
    let [second, third] = &mut others;
    let deltas = [&mut first, third, second].map(|site| site.replica.export(&start, 0).unwrap().0);
    let [whole, parts] = &mut readers;
    merge_at_once(whole, &deltas);
    let before = written_by(parts);
    for (i, delta) in deltas.into_iter().enumerate() {
        let how = Merging { more: i > 0, ..Merging::default() };
        parts.replica.merge_from(how, &[], |sink: Sink<'_, Error>| sink(delta)).unwrap();
    }
    assert_eq!(written_by(parts), before, "it wrote nothing");
    let rows = "SELECT * FROM t ORDER BY id";
    assert_eq!(parts.rows(rows), whole.rows(rows));
}

/// Merges deltas in one transaction.
fn merge_at_once(site: &mut Site, deltas: &[Delta]) {
    let feed = |sink: Sink<'_, Error>| deltas.iter().try_for_each(|delta| sink(delta.clone()));
    site.replica.merge_from(Merging::default(), &[], feed).unwrap();
}

/// When a site wrote last, or pinned a number.
fn written_by(site: &Site) -> Hlc {
    site.replica.seen().unwrap().get(site.replica.site())
}

/// A policy may make triggers anew. With the next one rows are compared with what they were, as after a
/// migration; what the merge has written to them since is no write of this site.
#[test]
fn policies_that_come_in_the_midst_take_what_was_merged_for_no_write() {
    let world = World::new();
    let schema =
        "CREATE TABLE t(k TEXT PRIMARY KEY, u INT, n INT); INSERT INTO t VALUES('b', 1, 1)";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    let mut reader = world.clone_site(&mut a, "reader");
    let start = reader.replica.seen().unwrap();
    a.replica.set_policies(&[Policy::new("t.refs", "n:t").unwrap()]).unwrap();
    a.run("UPDATE t SET u = NULL");
    let mut deltas = vec![a.replica.export(&start, 0).unwrap().0];
    b.replica.set_policies(&[Policy::new("merge", "whole").unwrap()]).unwrap();
    deltas.push(b.replica.export(&start, 0).unwrap().0);
    merge_at_once(&mut reader, &deltas);
    assert_eq!(reader.rows("SELECT * FROM t"), ["b|NULL|1"]);
    reader.replica.fold().unwrap();
    assert_eq!(written_by(&reader), Hlc(0), "it wrote nothing");
}

#[test]
fn programs_write_between_slices() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let b = world.clone_site(&mut a, "b");
    a.run(&fill());
    // Of every kind one that collides with what comes.
    b.run("INSERT INTO p VALUES (3, 'b'); INSERT INTO c VALUES ('k3', 3, 'b'); INSERT INTO u VALUES ('u3', 'b')");
    let path = world.path("b");
    let app = path.clone();
    let (mut replica, env) = between(&path, move |rest| {
        let app = Connection::open(&app).unwrap();
        app.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        check(&app);
        let sql = format!(
            "INSERT INTO u VALUES ('own{rest}', 0);
             INSERT INTO u VALUES ('u{0}', 'between') ON CONFLICT DO NOTHING;
             INSERT INTO p(n) VALUES ('own'); UPDATE p SET n = -n WHERE id = {0};
             DELETE FROM p WHERE id = {0} + 1; UPDATE c SET n = 'mine' WHERE p = {0} + 2",
            6_000 - 100 * rest.min(50)
        );
        app.execute_batch(&sql).unwrap();
    });
    replica.pull_from(&mut a.replica, false).unwrap();
    let rests = env.1.load(Relaxed);
    assert!(rests >= 3, "18,000 rows came with {rests} rests");
    drop(replica);
    let mut b = world.open("b");
    settle(&mut a, &mut b);
    same(&a, &b);
    let own = "SELECT count(*) FROM u WHERE k LIKE 'own%'";
    assert_eq!(a.row(own), rests.to_string());
}

/// Rows that are deleted together, children and parents: nothing is decided against anybody, in the end or on
/// the way, whether or not the references have an index.
#[test]
fn rows_go_with_what_refers_to_them() {
    let tree = "CREATE TABLE t(id INTEGER PRIMARY KEY, n TEXT UNIQUE, t INTEGER REFERENCES t(id))";
    let pair = "CREATE TABLE p(id INTEGER PRIMARY KEY);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p INTEGER NOT NULL REFERENCES p(id))";
    let fill_tree = format!("{MANY} INSERT INTO t SELECT i, 'n' || i, nullif(i / 2, 0) FROM c");
    let fill_pair =
        format!("{MANY} INSERT INTO p SELECT i FROM c; {MANY} INSERT INTO c SELECT i, i FROM c");
    let cascade = pair.replace("p(id))", "p(id) ON DELETE CASCADE)");
    for (schema, fill, delete, at_once) in [
        (tree, &fill_tree, "DELETE FROM t", false),
        (tree, &fill_tree, "DELETE FROM t", true),
        (pair, &fill_pair, "DELETE FROM c; DELETE FROM p", false),
        (&cascade, &fill_pair, "DELETE FROM c; DELETE FROM p", false),
    ] {
        let world = World::new();
        let mut a = world.init("a", &format!("{schema}; {fill}"));
        let b = world.clone_site(&mut a, "b");
        a.run(&format!("PRAGMA foreign_keys = OFF; {delete}"));
        drop(b);
        let app = world.path("b");
        let (mut replica, env) = between(&world.path("b"), move |_| {
            let app = Connection::open(&app).unwrap();
            let kept = "SELECT count(*) FROM synqlite_row WHERE kind IS NOT NULL";
            assert_eq!(app.query_row(kept, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
        });
        let merged = match at_once {
            true => replica.pull_whole(&mut a.replica, false),
            false => replica.pull_from(&mut a.replica, false),
        };
        let merged = merged.unwrap().merged;
        assert_eq!((merged.deleted, merged.decisions), (merged.rows, vec![]), "{schema}");
        assert_eq!(env.1.load(Relaxed) > 0, !at_once, "{schema}");
        drop(replica);
        whole(&world.open("b"));
    }
}

/// A row that is hidden until the next slice brings what makes room for it is nothing to tell of; one that stays
/// hidden is told of once.
#[test]
fn what_is_decided_on_the_way_is_not_told() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    a.run(&fill());
    let mut b = world.clone_site(&mut a, "b");
    // Each new row has the key of one that goes; one has a key that a row here asked for before.
    b.run("INSERT INTO u VALUES ('mine', 'b')");
    a.run("DELETE FROM u; INSERT INTO u VALUES ('mine', 'a')");
    a.run(&format!("{MANY} INSERT INTO u SELECT 'u' || i, -i FROM c"));
    let decisions = b.replica.pull_from(&mut a.replica, false).unwrap().merged.decisions;
    assert_eq!(decisions.len(), 1, "{:?}", decisions.get(..3));
    assert_eq!(b.replica.conflicts().unwrap().len(), 1);
    settle(&mut a, &mut b);
    same(&a, &b);
}

#[test]
fn a_merge_that_is_killed_between_slices_goes_on() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    a.run(&fill());
    drop(b);
    let (mut replica, _) = between(&world.path("b"), |rest| assert!(rest < 2, "killed"));
    let killed = catch_unwind(AssertUnwindSafe(|| replica.pull_from(&mut a.replica, false)));
    assert!(killed.is_err());
    drop(replica);
    // The place that it came from is gone.
    let mut b = world.open("b");
    let shown: i64 =
        b.row("SELECT (SELECT count(*) FROM p) + (SELECT count(*) FROM c)").parse().unwrap();
    assert!((1_000..12_000).contains(&shown), "{shown} rows are shown");
    whole(&b);
    let arriving = b.replica.status().unwrap().arriving;
    assert!(arriving > 0);
    let seen = b.replica.seen().unwrap();
    assert!(!seen.dominates(&a.replica.seen().unwrap()));
    b.run("UPDATE p SET n = 'b' WHERE id = 1");
    // Whoever pulls from it gets all of it, and what it says that it has seen is true.
    c.pull(&mut b);
    assert_eq!(b.replica.status().unwrap().arriving, 0);
    assert_eq!(c.row("SELECT count(*) FROM u"), "6000");
    same(&b, &c);
    let had = c.replica.pull_from(&mut a.replica, false).unwrap();
    assert_eq!(had.rows, 0);
    settle(&mut a, &mut b);
    same(&a, &b);
    assert_eq!(a.row("SELECT n FROM p WHERE id = 1"), "b");
}

#[test]
fn what_arrived_is_taken_in_whole_or_not_at_all() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.run(&fill());
    // A row of a future that no honest clock has reached.
    a.app
        .execute_batch(
            "UPDATE synqlite_meta SET value = value + (3600000 << 16) WHERE key = 'clock'",
        )
        .unwrap();
    a.run("UPDATE p SET n = 0 WHERE id = 9");
    assert!(b.replica.pull_from(&mut a.replica, false).is_err());
    assert_eq!(b.replica.status().unwrap().arriving, 0);
    assert_eq!(b.row("SELECT count(*) FROM p"), "0");
    b.replica.pull_from(&mut a.replica, true).unwrap();
    same(&a, &b);
}

/// Bodies come before the deltas that they are of.
#[test]
fn what_arrived_in_part_counts_for_nothing() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.run(&fill());
    b.replica.pull_from(&mut a.replica, false).unwrap();
    // Somebody was killed who had put some.
    let left = "INSERT INTO synqlite_arrived VALUES(0, 1, 4096, 9, 0, 0, x'00'), (77, 1, 4096, 9, 0, 0, x'00')";
    b.app.execute_batch(left).unwrap();
    assert_eq!(b.replica.status().unwrap().arriving, 0);
    b.run("UPDATE p SET n = 'b' WHERE id = 1");
    a.pull(&mut b);
    a.run("UPDATE u SET n = 'a'; UPDATE p SET n = 'a' WHERE id > 1");
    b.replica.pull_from(&mut a.replica, false).unwrap();
    assert_eq!(b.row("SELECT count(*) FROM synqlite_arrived"), "0");
    same(&a, &b);
}

#[test]
fn one_transaction_on_request() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let b = world.clone_site(&mut a, "b");
    a.run(&fill());
    drop(b);
    let (mut replica, env) = between(&world.path("b"), |_| {});
    replica.pull_whole(&mut a.replica, false).unwrap();
    assert_eq!(env.1.load(Relaxed), 0);
    drop(replica);
    same(&a, &world.open("b"));
}

#[test]
fn a_table_that_is_dropped_between_slices_comes_back_whole() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let b = world.clone_site(&mut a, "b");
    a.run(&fill());
    drop(b);
    let path = world.path("b");
    let app = path.clone();
    let (mut replica, env) = between(&path, move |rest| {
        if rest == 1 {
            Connection::open(&app).unwrap().execute_batch("DROP TABLE c").unwrap();
        }
    });
    replica.pull_from(&mut a.replica, false).unwrap();
    assert!(env.1.load(Relaxed) > 2);
    drop(replica);
    let mut b = world.open("b");
    b.run("CREATE TABLE c(id TEXT PRIMARY KEY, p INTEGER NOT NULL REFERENCES p(id) ON DELETE CASCADE, n)");
    settle(&mut a, &mut b);
    same(&a, &b);
    assert_eq!(b.row("SELECT count(*) FROM c"), "6000");
}

/// Two sites with all rows. The second has updated and deleted many, and waits to fold.
fn updated(world: &World) -> (Site, Site) {
    let mut a = world.init("a", SCHEMA);
    a.run(&fill());
    let mut b = world.clone_site(&mut a, "b");
    b.replica.fold().unwrap();
    b.run(
        "UPDATE u SET n = 'b'; UPDATE p SET n = 'b'; UPDATE c SET n = 'b'; DELETE FROM u WHERE n IS NULL;
         DELETE FROM u WHERE k LIKE '%7'; UPDATE u SET k = k || '.' WHERE k LIKE '%55'",
    );
    (a, b)
}

#[test]
fn programs_write_between_slices_of_a_fold() {
    let world = World::new();
    let (mut a, b) = updated(&world);
    let path = world.path("b");
    let app = path.clone();
    drop(b);
    let (mut replica, env) = between(&path, move |rest| {
        let app = Connection::open(&app).unwrap();
        app.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        check(&app);
        // Rows that have been folded, and others that have not.
        let sql = format!(
            "UPDATE p SET n = 'between' WHERE id IN ({0}, 6000 - {0}); DELETE FROM c WHERE p IN (5900 - {0}, 4000 - {0});
             DELETE FROM p WHERE id = 5000 - {0}; UPDATE p SET id = 10000 + {0} WHERE id = 4000 - {0};
             INSERT INTO p VALUES (4000 - {0}, 'between'); INSERT INTO u VALUES ('own{0}', 0);
             DELETE FROM u WHERE k = 'u' || (3001 + {0} * 10); INSERT OR REPLACE INTO u VALUES ('u100', {0})",
            rest + 1
        );
        app.execute_batch(&sql).unwrap();
    });
    replica.fold().unwrap();
    let rests = env.1.load(Relaxed);
    assert!(rests >= 3, "18,000 rows were folded with {rests} rests");
    assert_eq!(replica.status().unwrap().unfolded, 0);
    drop(replica);
    let mut b = world.open("b");
    settle(&mut a, &mut b);
    same(&a, &b);
    assert_eq!(a.row("SELECT count(*) FROM u WHERE k LIKE 'own%'"), rests.to_string());
}

#[test]
fn a_fold_that_is_killed_between_slices_goes_on() {
    let world = World::new();
    let (mut a, b) = updated(&world);
    drop(b);
    let (mut replica, _) = between(&world.path("b"), |rest| assert!(rest < 2, "killed"));
    let local_seq = replica.local_seq().unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| replica.fold())).is_err());
    assert!(replica.local_seq().unwrap() > local_seq);
    drop(replica);
    let mut b = world.open("b");
    whole(&b);
    assert!(b.replica.status().unwrap().unfolded > 0);
    b.run("UPDATE p SET n = 'later' WHERE id IN (1, 6000)");
    // Whoever pulls from it gets all of it.
    a.pull(&mut b);
    assert_eq!(b.replica.status().unwrap().unfolded, 0);
    same(&a, &b);
    settle(&mut a, &mut b);
    same(&a, &b);
}

/// Slices go by table, and writes came in another order: a later slice has the earlier writes.
#[test]
fn slices_of_a_fold_give_writes_their_own_times() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    a.run(&fill());
    let b = world.clone_site(&mut a, "b");
    let pause = || std::thread::sleep(std::time::Duration::from_millis(5));
    pause();
    b.run("UPDATE u SET n = 'b'");
    pause();
    a.run("UPDATE u SET n = 'a' WHERE k IN ('u1', 'u5999')");
    pause();
    b.run("UPDATE c SET n = 'b'; UPDATE p SET n = 'b'");
    drop(b);
    let app = world.path("b");
    let (mut replica, env) = between(&world.path("b"), move |_| {
        Connection::open(&app).unwrap().execute_batch("UPDATE p SET n = 'c' WHERE id = 3").unwrap();
    });
    replica.fold().unwrap();
    assert!(env.1.load(Relaxed) > 2);
    drop(replica);
    let mut b = world.open("b");
    settle(&mut a, &mut b);
    same(&a, &b);
    assert_eq!(b.rows("SELECT DISTINCT n FROM u WHERE k IN ('u1', 'u5999')"), ["a"]);
}

/// With a rollback journal, whoever reads keeps others from committing.
#[test]
fn programs_write_while_much_is_read() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    a.run(&fill());
    let app = Connection::open(world.path("a")).unwrap();
    app.busy_timeout(std::time::Duration::ZERO).unwrap();
    let mode: String = app.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete");
    let (mut parts, mut rows) = (0, 0);
    let mut each = |part: synqlite_wire::Delta| -> synqlite_core::Result<()> {
        (parts, rows) = (parts + 1, rows + part.rows.len());
        app.execute_batch("INSERT INTO p(n) VALUES ('meanwhile')")?;
        Ok(())
    };
    a.replica.export_parts(&VersionVector::default(), 0, &mut each).unwrap();
    assert!(parts > 1);
    // What was written meanwhile is no part of it.
    assert_eq!(rows, 18_000);
    let beside = std::fs::read_dir(world.path("a").parent().unwrap()).unwrap();
    let left: Vec<_> = beside.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("-synqlite-")), "{left:?}");
    whole(&a);
}

/// What is open between slices only, as rows exchange their keys, was nothing to decide.
#[test]
fn what_is_open_between_slices_only_is_not_told() {
    let world = World::new();
    let schema = format!(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, tag TEXT UNIQUE); \
         CREATE TABLE c(id INTEGER PRIMARY KEY, p INTEGER REFERENCES p(id) ON DELETE CASCADE, b); \
         {MANY} INSERT INTO p SELECT i, 'p' || i FROM c; INSERT INTO c SELECT id, id, 'x' FROM p"
    );
    let mut a = world.init("a", &schema);
    let mut b = world.clone_site(&mut a, "b");
    b.run("UPDATE p SET tag = 'z' || tag; UPDATE p SET tag = 'p' || (id * 7 % 6000 + 1)");
    let (replica, env) = between(&world.path("a"), |_| {});
    a.replica = replica;
    a.replica.pull_from(&mut b.replica, false).unwrap();
    assert!(env.1.load(Relaxed) > 1, "several slices");
    assert_eq!(a.replica.closed_conflicts().unwrap(), []);
    // What both claim is told as ever.
    a.run("UPDATE p SET tag = 'mine' WHERE id = 1");
    b.run("UPDATE p SET tag = 'mine' WHERE id = 2");
    settle(&mut a, &mut b);
    a.run("UPDATE p SET tag = 'other' WHERE id IN (1, 2) AND tag = 'mine'");
    a.replica.fold().unwrap();
    assert!(!a.replica.closed_conflicts().unwrap().is_empty());
}
