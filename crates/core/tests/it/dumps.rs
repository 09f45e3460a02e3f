//! A file that was dumped and read back in its place is the replica that it was, whatever rowids SQLite gives its rows.

#[path = "../../../testkit/src/wild/dump.rs"]
mod dump;

use crate::site::{Site, World, settle};
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

const TABLES: &str = "CREATE TABLE t(a TEXT PRIMARY KEY, b, u UNIQUE); CREATE TABLE n(x, y); \
    CREATE TABLE k(a, b, c, PRIMARY KEY(b, a)); CREATE TABLE i(id INTEGER PRIMARY KEY, v); \
    CREATE TABLE w(a TEXT PRIMARY KEY, t TEXT REFERENCES t(a) ON DELETE CASCADE) WITHOUT ROWID; \
    INSERT INTO t VALUES('1', 1, 'u1'), ('2', 2, 'u2'), ('3', 3, 'u3'), ('4', 4, 'u4'); \
    INSERT INTO n VALUES(1, 1), (2, 2), (3, 3), (3, 3); \
    INSERT INTO k VALUES(1, 1, 1), (2, 2, 2), (3, 3, 3); \
    INSERT INTO i VALUES(1, 1), (5, 5), (9, 9); INSERT INTO w VALUES('x', '3'), ('y', '4')";
const GAPS: &str = "DELETE FROM t WHERE a = '2'; DELETE FROM n WHERE x = 2; DELETE FROM k WHERE a = 1; \
    DELETE FROM i WHERE id = 5";
const AFTER: &str = "UPDATE t SET b = 'after' WHERE a = '3'; INSERT INTO t VALUES('5', 5, 'u5'); \
    DELETE FROM t WHERE a = '4'; UPDATE n SET y = 'after' WHERE rowid = (SELECT max(rowid) FROM n WHERE x = 3); INSERT INTO n VALUES(4, 4); \
    UPDATE k SET c = 'after' WHERE a = 3; UPDATE i SET v = 'after' WHERE id = 9; \
    INSERT OR REPLACE INTO t VALUES('6', 6, 'u5')";
const SHOWN: [&str; 5] = [
    "SELECT * FROM t ORDER BY a",
    "SELECT * FROM n ORDER BY x, y",
    "SELECT * FROM k ORDER BY a",
    "SELECT * FROM i ORDER BY id",
    "SELECT * FROM w ORDER BY a",
];

fn read_back(world: &World, site: Site, name: &str) -> Site {
    drop(site);
    dump::read_back(&world.path(name)).unwrap();
    world.open(name)
}

fn same(sites: [&Site; 2]) {
    for sql in SHOWN {
        assert_eq!(sites[0].rows(sql), sites[1].rows(sql));
    }
    for site in sites {
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
        assert_eq!(
            site.replica.digest().unwrap().digest,
            sites[0].replica.digest().unwrap().digest
        );
    }
}

#[test]
fn what_is_written_after_a_dump_is_written_to_the_rows_it_is_written_to() {
    for (waits, fold) in [(false, false), (false, true), (true, false)] {
        let world = World::new();
        let mut a = world.init("a", TABLES);
        let mut b = world.clone_site(&mut a, "b");
        a.run(GAPS);
        if !waits {
            a.replica.fold().unwrap();
        }
        let mut a = read_back(&world, a, "a");
        if fold {
            a.replica.fold().unwrap();
            assert_eq!(a.replica.verify().unwrap(), [""; 0]);
        }
        a.run(AFTER);
        settle(&mut a, &mut b);
        assert_eq!(b.row("SELECT b FROM t WHERE a = '3'"), "after", "waits: {waits}");
        assert_eq!(b.row("SELECT c FROM k WHERE a = 3"), "after");
        assert_eq!(b.row("SELECT y FROM n WHERE y = 'after'"), "after");
        assert_eq!(b.rows(SHOWN[4]), ["x|3"]);
        same([&a, &b]);
        // Again, with a copy of it as a site of its own.
        let a = read_back(&world, a, "a");
        std::fs::copy(world.path("a"), world.path("c")).unwrap();
        let options = InitOptions { new_site: true, ..InitOptions::default() };
        Replica::init(&world.path("c"), &options, Arc::new(System)).unwrap();
        let mut c = world.open("c");
        c.run("UPDATE t SET b = 'of c' WHERE a = '6'; DELETE FROM n WHERE x = 1");
        settle(&mut c, &mut b);
        assert_eq!(b.row("SELECT b FROM t WHERE a = '6'"), "of c");
        same([&c, &b]);
        drop(a);
    }
}
