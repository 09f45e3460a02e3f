//! What dropped tables and columns held does not travel through those who dropped them, and comes to all
//! others all the same (R-MIG-DROP).

use crate::migrate::agree;
use crate::site::{Site, World, settle};

const SQL: &str = "CREATE TABLE p(k INTEGER PRIMARY KEY); INSERT INTO p VALUES(1);
    CREATE TABLE t(k TEXT PRIMARY KEY, w, x INT REFERENCES p(k))";

fn three(world: &World, sql: &str) -> (Site, Site, Site) {
    let mut a = world.init("a", sql);
    let (b, c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    (a, b, c)
}

/// Two sites that have a table show the same, though one of them heard of all through a site that
/// dropped it.
#[test]
fn those_who_kept_a_table_or_a_column_have_the_same_rows() {
    for drop in ["DROP TABLE t", "ALTER TABLE t DROP COLUMN w"] {
        for over_another in [false, true] {
            let world = World::new();
            let (mut a, mut b, mut c) = three(&world, SQL);
            let mut d = world.clone_site(&mut a, "d");
            b.run("INSERT INTO t VALUES('b', 7, 1)");
            a.pull(&mut b);
            b.run(drop);
            c.pull(&mut b);
            if over_another {
                // Who heard of it from one with a gap has the same gap.
                d.pull(&mut c);
                std::mem::swap(&mut c, &mut d);
            }
            a.run("INSERT INTO t VALUES('a', 8, NULL)");
            settle(&mut a, &mut c);
            for site in [&a, &c] {
                assert_eq!(
                    site.rows("SELECT * FROM t ORDER BY k"),
                    ["a|8|NULL", "b|7|1"],
                    "{drop} {over_another}"
                );
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
            }
            agree(&mut [&mut a, &mut c]);
            // Nothing is asked for twice.
            assert_eq!(c.replica.pull_from(&mut a.replica, false).unwrap().rows, 0);
            a.pull(&mut b);
            c.pull(&mut b);
            assert_eq!(c.replica.pull_from(&mut a.replica, false).unwrap().rows, 0);
            assert_eq!(a.replica.pull_from(&mut c.replica, false).unwrap().rows, 0);
        }
    }
}

/// What everybody had before it was dropped is in no gap, and what nobody has any more ends no pull.
#[test]
fn what_is_gone_everywhere_is_asked_for_by_nobody() {
    let world = World::new();
    let (mut a, mut b, mut c) = three(&world, SQL);
    b.run("INSERT INTO t VALUES('b', 7, 1)");
    b.replica.fold().unwrap();
    b.run("DROP TABLE t");
    for _ in 0..2 {
        a.pull(&mut b);
        c.pull(&mut b);
        settle(&mut a, &mut c);
    }
    a.run("INSERT INTO t VALUES('a', 8, NULL)");
    settle(&mut a, &mut c);
    for site in [&a, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), ["a|8|NULL"]);
    }
    for _ in 0..2 {
        assert_eq!(c.replica.pull_from(&mut a.replica, false).unwrap().rows, 0);
        assert_eq!(a.replica.pull_from(&mut c.replica, false).unwrap().rows, 0);
    }
    a.run("DROP TABLE t");
    c.run("DROP TABLE t");
    settle(&mut a, &mut c);
    settle(&mut b, &mut c);
    settle(&mut a, &mut b);
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// A site that makes a table again hears of what others kept in it meanwhile.
#[test]
fn a_table_that_is_made_again_has_what_others_kept_in_it() {
    let world = World::new();
    let (mut a, mut b, mut c) = three(&world, SQL);
    a.run("INSERT INTO t VALUES('had', 1, NULL)");
    settle(&mut a, &mut c);
    settle(&mut a, &mut b);
    for site in [&mut b, &mut c] {
        site.run("DROP TABLE t");
        site.replica.fold().unwrap();
    }
    a.run("INSERT INTO t VALUES('new', 2, 1)");
    c.pull(&mut a);
    b.pull(&mut c);
    for site in [&mut b, &mut c] {
        site.run("CREATE TABLE t(k TEXT PRIMARY KEY, w, x INT REFERENCES p(k))");
        site.replica.fold().unwrap();
    }
    for _ in 0..2 {
        settle(&mut b, &mut c);
        settle(&mut a, &mut b);
        settle(&mut a, &mut c);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), ["new|2|1"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// A hidden row of a dropped table is no more than a visible one when it is made again.
#[test]
fn hidden_rows_go_with_their_table() {
    for seen in [false, true] {
        let world = World::new();
        let (mut a, mut b, mut c) = three(&world, SQL);
        c.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES('c', 7, 3)");
        if seen {
            a.pull(&mut c);
        }
        c.replica.fold().unwrap();
        b.run("DROP TABLE t");
        c.run("DROP TABLE t");
        b.pull(&mut c);
        a.run("DROP TABLE t");
        for site in [&mut a, &mut b, &mut c] {
            site.replica.fold().unwrap();
            site.run("CREATE TABLE t(k TEXT PRIMARY KEY, w, q)");
            site.replica.fold().unwrap();
        }
        for _ in 0..2 {
            settle(&mut a, &mut b);
            settle(&mut b, &mut c);
            settle(&mut a, &mut c);
        }
        for site in [&a, &b, &c] {
            assert_eq!(site.rows("SELECT * FROM t"), [""; 0], "{seen}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
        agree(&mut [&mut a, &mut b, &mut c]);
    }
}

/// Who rebuilds a table whose column was renamed, before any command, takes that column for a dropped one.
/// Once somebody tells that it is the same, what was written to it counts as of then, as everywhere.
#[test]
fn a_column_that_is_found_to_be_renamed_has_what_was_written_to_it() {
    let world = World::new();
    let mut a =
        world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY, w); INSERT INTO t VALUES('x', 1)");
    let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    let mut d = world.clone_site(&mut a, "d");
    c.run("UPDATE t SET w = 2");
    c.replica.fold().unwrap();
    d.run("UPDATE t SET w = 3");
    a.pull(&mut d);
    b.run("ALTER TABLE t RENAME COLUMN w TO v");
    b.replica.fold().unwrap();
    a.run(
        "ALTER TABLE t RENAME COLUMN w TO v; CREATE TABLE n(k TEXT PRIMARY KEY, v); \
         INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t",
    );
    a.pull(&mut b);
    a.pull(&mut d);
    a.pull(&mut c);
    assert_eq!(a.rows("SELECT * FROM t"), ["x|3"]);
    b.pull(&mut c);
    settle(&mut a, &mut b);
    settle(&mut b, &mut d);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t"), ["x|3"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    assert_eq!(a.replica.pull_from(&mut d.replica, false).unwrap().rows, 0);
}

/// A table that was not replicated for a time is the one that it was: what nobody wrote meanwhile keeps its stamps.
#[test]
fn a_table_that_was_local_for_a_time_keeps_what_was_written() {
    for site in [0, 1] {
        let world = World::new();
        let mut a = world.init(
            "a",
            "CREATE TABLE t(id TEXT PRIMARY KEY, lo INT); INSERT INTO t VALUES('r', 3), ('s', 4), ('d', 7)",
        );
        let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
        a.run("UPDATE t SET lo = 1 WHERE id = 'r'; DELETE FROM t WHERE id = 'd'");
        b.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
        b.pull(&mut a);
        a.pull(&mut b);
        c.pull(&mut b);
        c.run("UPDATE t SET lo = 5 WHERE id = 's'");
        let taker = if site == 0 { &mut a } else { &mut c };
        taker.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
        for _ in 0..2 {
            settle(&mut a, &mut b);
            settle(&mut b, &mut c);
            settle(&mut a, &mut c);
        }
        for site in [&a, &b, &c] {
            assert_eq!(site.rows("SELECT * FROM t"), ["r|1", "s|5"]);
        }
        agree(&mut [&mut a, &mut b, &mut c]);
    }
}

/// A table that is out of sight goes to nobody, not even the heads of its rows: whoever got one would take the
/// next write, of some columns, for all that there is of the row.
#[test]
fn what_is_out_of_sight_goes_to_nobody() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY NOT NULL, w)");
    let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    a.run("INSERT INTO t VALUES('r', 1)");
    b.pull(&mut a);
    b.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
    a.run("REPLACE INTO t VALUES('r', 2)");
    a.pull(&mut b);
    b.pull(&mut a);
    c.pull(&mut a);
    a.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
    b.pull(&mut a);
    c.pull(&mut a);
    c.pull(&mut b);
    settle(&mut a, &mut c);
    settle(&mut b, &mut c);
    settle(&mut a, &mut b);
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), ["r|2"]);
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// A batch tells which tables were out of sight by not naming them: what they lack of these is asked of others.
#[test]
fn who_reads_a_batch_asks_for_what_was_out_of_sight() {
    let world = World::new();
    let mut a = world
        .init("a", "CREATE TABLE t(k TEXT PRIMARY KEY, w); INSERT INTO t VALUES('r', 1), ('s', 1)");
    let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    a.run("DELETE FROM t WHERE k = 'r'; UPDATE t SET w = 2 WHERE k = 's'");
    b.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
    a.pull(&mut b);
    let (batch, _) = a.replica.export(&c.replica.seen().unwrap(), 0).unwrap();
    c.replica.merge(&batch, false).unwrap();
    a.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
    settle(&mut a, &mut c);
    settle(&mut a, &mut b);
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), ["s|2"]);
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// Who lacks some of a table that is in sight says so in a batch: whoever reads it asks others, and gets it by the
/// next batch once the maker has it.
#[test]
fn who_reads_a_batch_learns_what_its_maker_lacks() {
    for by_batch in [false, true] {
        let world = World::new();
        let mut a = world.init(
            "a",
            "CREATE TABLE t(k TEXT PRIMARY KEY, w); INSERT INTO t VALUES('r', 1), ('s', 1)",
        );
        let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
        b.run("DELETE FROM t WHERE k = 'r'; UPDATE t SET w = 2 WHERE k = 's'");
        a.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
        b.pull(&mut a);
        a.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
        a.pull(&mut b);
        let (batch, position) = a.replica.export(&c.replica.seen().unwrap(), 0).unwrap();
        c.replica.merge(&batch, false).unwrap();
        if by_batch {
            settle(&mut a, &mut b);
            let (batch, _) = a.replica.export(&c.replica.seen().unwrap(), position).unwrap();
            c.replica.merge(&batch, false).unwrap();
        } else {
            // The first shows it to b again.
            settle(&mut b, &mut c);
            settle(&mut b, &mut c);
        }
        for site in [&b, &c] {
            assert_eq!(site.rows("SELECT * FROM t"), ["s|2"], "{by_batch}");
        }
        settle(&mut a, &mut c);
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b, &mut c]);
    }
}

/// Who hears of a delete, and that it does not hold, while a table is out of sight still knows all of the row.
#[test]
fn a_row_that_goes_and_comes_out_of_sight_has_all_its_values() {
    let world = World::new();
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, v, n INT); INSERT INTO t VALUES('r', 1, 2), ('s', 3, 4)";
    let mut a = world.init_with("a", schema, &[("t.delete", "last"), ("t.n", "counter")]);
    let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    b.run("DELETE FROM t");
    b.replica.fold().unwrap();
    c.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
    c.pull(&mut b);
    a.run("UPDATE t SET k = 'm' WHERE k = 'r'");
    for _ in 0..2 {
        settle(&mut a, &mut b);
        settle(&mut b, &mut c);
    }
    c.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
    for _ in 0..2 {
        settle(&mut a, &mut c);
        settle(&mut b, &mut c);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), ["m|1|2"]);
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// Who was told that a column is missing, as a migration has dropped it, still gets what else there is.
#[test]
fn a_table_that_was_rebuilt_out_of_sight_comes_without_the_column_that_went() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k INTEGER PRIMARY KEY, u TEXT UNIQUE, r TEXT)");
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO t VALUES(2, 'a', 'r')");
    b.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
    for site in [&a, &b] {
        site.run(
            "BEGIN; CREATE TABLE n(k INTEGER PRIMARY KEY, u TEXT UNIQUE, c TEXT); \
             INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t; COMMIT",
        );
    }
    a.pull(&mut b);
    b.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
    for _ in 0..2 {
        settle(&mut a, &mut b);
    }
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t"), ["2|a|r"]);
    }
    agree(&mut [&mut a, &mut b]);
}

/// A column that got another name while its table was not replicated is the one that it was, and what was written to it.
#[test]
fn a_column_that_was_renamed_out_of_sight_is_the_same() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, v); WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i \
               WHERE x < 20) INSERT INTO t SELECT 'k' || x, 'v' || x FROM i";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
    settle(&mut a, &mut b);
    a.run("ALTER TABLE t RENAME COLUMN v TO w");
    a.replica.fold().unwrap();
    a.run("UPDATE t SET w = 'a wrote' WHERE k = 'k1'");
    a.replica.fold().unwrap();
    a.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
    settle(&mut a, &mut b);
    b.run("ALTER TABLE t RENAME COLUMN v TO w");
    for _ in 0..2 {
        settle(&mut a, &mut b);
    }
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT w FROM t WHERE k IN ('k1', 'k2')"), ["a wrote", "v2"]);
    }
    agree(&mut [&mut a, &mut b]);
}

/// Who was here since is sent what others decided on rows while their table was not replicated.
#[test]
fn a_row_that_was_deleted_while_its_table_was_out_of_sight_goes_everywhere() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(v); INSERT INTO t VALUES(1), (2), (3)");
    let [mut b, mut c, mut d] = ["b", "c", "d"].map(|name| world.clone_site(&mut a, name));
    a.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
    settle(&mut b, &mut a);
    d.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
    c.run("DELETE FROM t WHERE v = 2");
    settle(&mut a, &mut c);
    settle(&mut d, &mut a);
    for _ in 0..2 {
        settle(&mut b, &mut a);
    }
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT v FROM t"), ["1", "3"]);
    }
    for _ in 0..2 {
        settle(&mut c, &mut a);
        settle(&mut d, &mut a);
    }
    agree(&mut [&mut a, &mut b, &mut c, &mut d]);
}

/// Nothing is left open of it.
#[test]
fn a_hidden_row_that_is_deleted_while_its_table_is_out_of_sight_is_gone() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k PRIMARY KEY, u UNIQUE)");
    let [mut b, mut c, mut d] = ["b", "c", "d"].map(|name| world.clone_site(&mut a, name));
    b.run("INSERT INTO t VALUES('b', 1)");
    c.run("INSERT INTO t VALUES('c', 1)");
    a.pull(&mut b);
    a.pull(&mut c);
    let open = "SELECT count(*) FROM synqlite_open_conflicts";
    assert_eq!(a.rows(open), ["1"]);
    d.replica.set_policies(&["local_tables=t".parse().unwrap()]).unwrap();
    a.pull(&mut d);
    let loser = if a.rows("SELECT k FROM t") == ["b"] { &mut c } else { &mut b };
    loser.run("DELETE FROM t");
    a.pull(loser);
    a.replica.set_policies(&["local_tables=".parse().unwrap()]).unwrap();
    assert_eq!(a.rows(open), ["0"]);
    for _ in 0..2 {
        settle(&mut b, &mut a);
        settle(&mut c, &mut a);
    }
    agree(&mut [&mut a, &mut b, &mut c]);
}
