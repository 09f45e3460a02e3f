//! Counters (R-COUNTER): what several sites add to a column adds up, and nothing else of the rules
//! about rows changes.

use crate::random::{Random, seeds};
use crate::site::{Site, World, dump, settle};
use std::collections::BTreeMap;
use synqlite_core::{Error, Policy};
use synqlite_wire::{Id, VersionVector, batch};

const STOCK: &str = "CREATE TABLE stock(item TEXT PRIMARY KEY, n INTEGER, price REAL, note TEXT);
    INSERT INTO stock VALUES('nail', 10, 0.5, 'a'), ('screw', 20, 0.25, 'b');";

/// Two sites of a database whose column `stock.n` (and others named) counts.
fn pair(world: &World, sql: &str, counters: &[&str]) -> (Site, Site) {
    let policies: Vec<_> = counters.iter().map(|c| (*c, "counter")).collect();
    let mut a = world.init_with("a", sql, &policies);
    let b = world.clone_site(&mut a, "b");
    (a, b)
}

fn both(a: &mut Site, b: &mut Site, sql: &str) -> String {
    settle(a, b);
    let (mine, theirs) = (a.rows(sql).join(" "), b.rows(sql).join(" "));
    assert_eq!(mine, theirs, "{sql}");
    for site in [a, b] {
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
    mine
}

/// What a column shows depends on its counts, and not on whether the site has heard of the policy.
#[test]
fn counts_that_come_without_their_policy_go_on() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &[]);
    let set = ["stock.n=counter".parse().unwrap(), "stock.price=counter".parse().unwrap()];
    a.replica.set_policies(&set).unwrap();
    a.run("UPDATE stock SET n = n + 5, price = price + 1");
    let (mut delta, _) = a.replica.export(&b.replica.seen().unwrap(), 0).unwrap();
    delta.settings.clear();
    b.replica.merge(&delta, false).unwrap();
    b.run("UPDATE stock SET n = n + 1, price = price * 2, note = 'c'");
    a.run("UPDATE stock SET n = n + 10");
    let all = "SELECT item, n, price, note FROM stock ORDER BY 1";
    assert_eq!(both(&mut a, &mut b, all), "nail|26|3.0|c screw|36|2.5|c");
}

#[test]
fn increments_of_two_sites_add_up() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n", "stock.price"]);
    a.run("UPDATE stock SET n = n + 5, price = price + 0.125 WHERE item = 'nail'");
    a.run("UPDATE stock SET n = n - 1");
    b.run("UPDATE stock SET n = n - 3, note = 'c', price = price * 2");
    let all = "SELECT item, n, price, note FROM stock ORDER BY 1";
    assert_eq!(both(&mut a, &mut b, all), "nail|11|1.125|c screw|16|0.5|c");
    // And from there on, in rows that have counts already.
    a.run("UPDATE stock SET n = n + 1");
    b.run("UPDATE stock SET n = n + 1");
    b.replica.fold().unwrap();
    b.run("UPDATE stock SET n = n + 1");
    let n = "SELECT n FROM stock ORDER BY item";
    assert_eq!(both(&mut a, &mut b, n), "14 19");
    // Every write is a change: setting to 0 subtracts what was seen.
    a.run("UPDATE stock SET n = 0");
    b.run("UPDATE stock SET n = n + 7");
    assert_eq!(both(&mut a, &mut b, n), "7 7");
}

#[test]
fn a_counter_that_somebody_wants_to_be_a_reference_goes_on_adding_up() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    a.run("INSERT INTO stock VALUES('bolt', 1, 1, 'a')");
    a.run("UPDATE stock SET n = n + 1");
    b.run("INSERT INTO stock VALUES('nut', 1, 1, 'b')");
    let policy = ["stock.refs=n:stock".parse().unwrap()];
    let refused = b.replica.set_policies(&policy).unwrap_err().to_string();
    assert!(refused.contains("column n of table stock is a counter"), "{refused}");
    b.run("UPDATE stock SET n = n + 2; INSERT INTO stock VALUES('wire', 1, 1, 'b')");
    b.pull(&mut a);
    b.run("UPDATE stock SET n = n + 1");
    let n = "SELECT n FROM stock ORDER BY item";
    assert_eq!(both(&mut a, &mut b, n), "3 14 4 24 2");
}

/// By its sum alone a 0 in this column may be the NULL that was there.
#[test]
fn a_rebuild_that_fills_in_a_number_for_null_counts_it() {
    for number in [0, 3] {
        let world = World::new();
        let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, n INTEGER); INSERT INTO t VALUES('x', 0)";
        let (mut a, mut b) = pair(&world, sql, &["t.n"]);
        let rebuild = format!(
            "BEGIN; CREATE TABLE anew(k TEXT PRIMARY KEY, n INTEGER NOT NULL);
             INSERT INTO anew SELECT k, coalesce(n, {number}) FROM t; DROP TABLE t;
             ALTER TABLE anew RENAME TO t; COMMIT"
        );
        a.run(&rebuild);
        b.run("UPDATE t SET n = NULL");
        settle(&mut a, &mut b);
        b.run(&rebuild);
        assert_eq!(both(&mut a, &mut b, "SELECT k, n FROM t"), format!("x|{number}"));
        a.run("UPDATE t SET n = n + 1");
        b.run("UPDATE t SET n = n + 1");
        assert_eq!(both(&mut a, &mut b, "SELECT n FROM t"), (number + 2).to_string());
    }
}

#[test]
fn what_is_written_and_taken_back_is_no_change() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    a.run("UPDATE stock SET n = n + 5");
    a.run("UPDATE stock SET n = n - 5");
    b.run("UPDATE stock SET n = n + 1");
    assert_eq!(both(&mut a, &mut b, "SELECT n FROM stock ORDER BY 1"), "11 21");
    let states = "SELECT count(*) FROM synqlite_row WHERE length(state) > 60";
    assert_eq!(a.row(states), "0");
}

#[test]
fn inserts_of_one_key_add_up() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    let upsert = "INSERT INTO stock(item, n) VALUES('bolt', 1) ON CONFLICT DO UPDATE SET n = n + 1";
    a.run(upsert);
    b.run(upsert);
    b.run(upsert);
    let bolt = "SELECT n FROM stock WHERE item = 'bolt'";
    assert_eq!(both(&mut a, &mut b, bolt), "3");
    a.run(upsert);
    b.replica.fold().unwrap();
    b.run(upsert);
    assert_eq!(both(&mut a, &mut b, bolt), "5");
}

#[test]
fn rows_never_changed_cost_nothing() {
    let world = World::new();
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, n INTEGER NOT NULL DEFAULT 0)";
    let (mut a, mut b) = pair(&world, sql, &["t.n"]);
    a.run(
        "INSERT INTO t(n) WITH RECURSIVE c(x) AS (VALUES(1) UNION ALL SELECT x + 1 FROM c \
           WHERE x < 1000) SELECT x FROM c",
    );
    a.run("UPDATE t SET n = n + 1 WHERE id = 7");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.row("SELECT count(*) FROM synqlite_row"), "0");
        assert_eq!(site.row("SELECT n FROM t WHERE id = 7"), "8");
    }
    a.run("UPDATE t SET n = n + 1 WHERE id = 7");
    b.run("UPDATE t SET n = n + 1 WHERE id = 7");
    assert_eq!(both(&mut a, &mut b, "SELECT n FROM t WHERE id = 7"), "10");
    assert_eq!(a.row("SELECT count(*) FROM synqlite_row"), "1");
}

#[test]
fn a_deleted_row_keeps_its_count_and_a_new_one_begins_at_zero() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    let nail = "SELECT n FROM stock WHERE item = 'nail'";
    a.run("UPDATE stock SET n = n + 5 WHERE item = 'nail'");
    a.run("DELETE FROM stock WHERE item = 'nail'");
    b.run("UPDATE stock SET n = n + 1 WHERE item = 'nail'");
    assert_eq!(both(&mut a, &mut b, nail), "");
    // The increment that had not seen the delete goes with the former row.
    a.run("INSERT INTO stock(item, n) VALUES('nail', 1)");
    b.run("INSERT INTO stock(item, n) VALUES('nail', 2)");
    assert_eq!(both(&mut a, &mut b, nail), "3");
    // In one window as in two.
    a.run("UPDATE stock SET n = n + 10 WHERE item = 'nail'");
    a.run("DELETE FROM stock WHERE item = 'nail'");
    a.run("INSERT INTO stock(item, n) VALUES('nail', 4)");
    b.run("UPDATE stock SET n = n + 100 WHERE item = 'nail'");
    assert_eq!(both(&mut a, &mut b, nail), "4");
}

#[test]
fn replacing_a_row_is_a_change_of_its_counters() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    let nail = "SELECT n, note FROM stock WHERE item = 'nail'";
    a.run("UPDATE stock SET n = n + 5 WHERE item = 'nail'");
    a.run("REPLACE INTO stock(item, n, note) VALUES('nail', 16, 'new')");
    b.run("UPDATE stock SET n = n + 1 WHERE item = 'nail'");
    assert_eq!(both(&mut a, &mut b, nail), "17|new");
    // Displaced through another key the row is deleted.
    let world = World::new();
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER); \
               INSERT INTO t VALUES(1, 'a', 5), (2, 'b', 7)";
    let (mut a, mut b) = pair(&world, sql, &["t.n"]);
    a.run("UPDATE t SET n = n + 1");
    a.run("UPDATE OR REPLACE t SET name = 'a', n = n + 1 WHERE id = 2");
    b.run("UPDATE t SET n = n + 10");
    assert_eq!(both(&mut a, &mut b, "SELECT * FROM t"), "2|a|19");
}

/// Also where nobody noted it, of a row that another site has replaced before.
#[test]
fn replacing_a_row_of_a_rebuilt_table_is_a_change_of_its_counters() {
    let columns = "k TEXT, j INTEGER, n INTEGER DEFAULT 0, note";
    let sql = format!(
        "CREATE TABLE t({columns}, PRIMARY KEY(k, j)); INSERT INTO t VALUES('k', 1, 0, '')"
    );
    let world = World::new();
    let (mut a, mut b) = pair(&world, &sql, &["t.n"]);
    a.run("UPDATE t SET n = n + 1");
    a.pull(&mut b);
    b.pull(&mut a);
    let mut c = world.clone_site(&mut a, "c");
    let replace = |site: &Site, by: i32| {
        site.run(&format!("REPLACE INTO t(k, j, n, note) SELECT k, j, n + {by}, 'saved' FROM t"));
    };
    replace(&b, 10);
    c.pull(&mut b);
    replace(&a, 100);
    a.replica.fold().unwrap();
    c.run(&format!(
        "BEGIN; CREATE TABLE old AS SELECT * FROM t; DROP TABLE t; CREATE TABLE t({columns}, y, PRIMARY KEY(k, j)); \
         INSERT INTO t SELECT *, NULL FROM old; DROP TABLE old; COMMIT"
    ));
    replace(&c, 1000);
    for _ in 0..2 {
        settle(&mut a, &mut b);
        settle(&mut b, &mut c);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.row("SELECT n FROM t"), "1111");
    }
}

#[test]
fn a_counter_in_a_row_that_others_refer_to() {
    let world = World::new();
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY, n INTEGER); \
               CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON UPDATE CASCADE); \
               INSERT INTO p VALUES('x', 1); INSERT INTO c(p) VALUES('x'), ('x');";
    let (mut a, mut b) = pair(&world, sql, &["p.n"]);
    a.run("UPDATE p SET n = n + 1");
    a.run("UPDATE p SET n = n + 1, id = 'y'");
    b.run("UPDATE p SET n = n + 1");
    assert_eq!(both(&mut a, &mut b, "SELECT p.*, c.p FROM p, c"), "y|4|y y|4|y");
}

#[test]
fn a_value_that_is_no_number_is_the_latest_write() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    let n = "SELECT n FROM stock ORDER BY item";
    b.run("UPDATE stock SET n = n + 1");
    a.run("UPDATE stock SET n = NULL WHERE item = 'nail'");
    assert_eq!(both(&mut a, &mut b, n), "NULL 21");
    a.run("UPDATE stock SET n = 3 WHERE item = 'nail'");
    b.run("UPDATE stock SET n = 4 WHERE item = 'nail'");
    assert_eq!(both(&mut a, &mut b, n), "7 21");
    a.run("UPDATE stock SET n = 'many'");
    a.replica.fold().unwrap();
    a.run("UPDATE stock SET n = 9e999 WHERE item = 'nail'");
    assert_eq!(both(&mut a, &mut b, n), "inf many");
    a.run("UPDATE stock SET n = 1");
    b.run("UPDATE stock SET n = 2");
    assert_eq!(both(&mut a, &mut b, n), "3 3");
}

#[test]
fn a_policy_set_later_converges_with_writes_that_had_not_heard_of_it() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &[]);
    let mut c = world.clone_site(&mut a, "c");
    a.run("UPDATE stock SET n = n + 1");
    a.replica.set_policies(&["stock.n=counter".parse().unwrap()]).unwrap();
    a.run("UPDATE stock SET n = n + 1");
    a.replica.fold().unwrap();
    // Neither knows of the policy: the later of their writes is the base.
    c.run("UPDATE stock SET n = n + 30; INSERT INTO stock VALUES('bolt', 1, 0, '')");
    b.run("UPDATE stock SET n = n + 50; INSERT INTO stock VALUES('bolt', 2, 0, '')");
    a.run("INSERT INTO stock VALUES('bolt', 40, 0, '')");
    let n = "SELECT n FROM stock ORDER BY item";
    for _ in 0..3 {
        a.pull(&mut b);
        b.pull(&mut c);
        c.pull(&mut a);
        a.pull(&mut c);
    }
    assert_eq!(a.rows(n), ["42", "61", "71"]);
    assert_eq!(b.rows(n), a.rows(n));
    assert_eq!(c.rows(n), a.rows(n));
    for site in [&mut a, &mut b, &mut c] {
        site.run("UPDATE stock SET n = n + 1");
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
    for _ in 0..2 {
        a.pull(&mut b);
        b.pull(&mut c);
        c.pull(&mut a);
        a.pull(&mut c);
    }
    assert_eq!(a.rows(n), ["45", "64", "74"]);
    assert_eq!(b.rows(n), a.rows(n));
}

#[test]
fn a_sum_that_breaks_a_check_hides_the_row_until_it_fits_again() {
    let world = World::new();
    let sql = "CREATE TABLE stock(id INTEGER PRIMARY KEY, n INTEGER CHECK(n >= 0)); \
               INSERT INTO stock VALUES(1, 1), (2, 5)";
    let (mut a, mut b) = pair(&world, sql, &["stock.n"]);
    let mut c = world.clone_site(&mut a, "c");
    a.run("UPDATE stock SET n = n - 1");
    b.run("UPDATE stock SET n = n - 1");
    assert_eq!(both(&mut a, &mut b, "SELECT * FROM stock"), "2|3");
    let open = a.replica.conflicts().unwrap();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].kind.as_str(), open[0].row.as_str()), ("row_constraint", "1"));
    assert_eq!(open[0].displaced[1], ("n".to_owned(), (-1).into()));
    assert_eq!(open[0].sites.len(), 2);
    // A site that had not heard of it delivers.
    c.run("UPDATE stock SET n = n + 10");
    b.pull(&mut c);
    assert_eq!(both(&mut a, &mut b, "SELECT * FROM stock"), "1|9 2|13");
    assert_eq!(a.replica.conflicts().unwrap().len(), 0);
}

#[test]
fn settling_a_conflict_leaves_counters_alone() {
    let world = World::new();
    let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INTEGER); \
               INSERT INTO t VALUES(1, 'a', 5), (2, 'b', 7)";
    let (mut a, mut b) = pair(&world, sql, &["t.n"]);
    a.run("UPDATE t SET name = 'x', n = n + 1 WHERE id = 1");
    b.run("UPDATE t SET name = 'x', n = n + 1 WHERE id = 2; UPDATE t SET n = n + 1");
    let all = "SELECT * FROM t";
    assert_eq!(both(&mut a, &mut b, all), "1|x|7 2|b|9");
    let id = a.replica.conflicts().unwrap()[0].id.clone();
    a.replica.settle_conflict(&id, synqlite_core::Verb::Accept).unwrap();
    b.run("UPDATE t SET n = n + 1");
    assert_eq!(both(&mut a, &mut b, all), "1|x|8 2|b|10");
    assert_eq!(a.replica.conflicts().unwrap().len(), 0);
}

#[test]
fn a_counter_survives_changes_of_its_table() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    for site in [&mut a, &mut b] {
        site.run("UPDATE stock SET n = n + 1 WHERE item = 'nail'");
        site.replica.fold().unwrap();
        // The columns of the journal's images and the schema change with writes under way.
        site.run("UPDATE stock SET n = n + 1");
        site.run("ALTER TABLE stock ADD COLUMN more");
        site.run("UPDATE stock SET n = n + 1, more = 1");
    }
    assert_eq!(both(&mut a, &mut b, "SELECT n FROM stock ORDER BY item"), "16 24");
    a.run("CREATE UNIQUE INDEX u ON stock(n)");
    b.run("CREATE UNIQUE INDEX u ON stock(n)");
    a.run("UPDATE stock SET n = n + 5 WHERE item = 'nail'");
    b.run("UPDATE stock SET n = n + 5 WHERE item = 'screw'");
    assert_eq!(both(&mut a, &mut b, "SELECT n FROM stock ORDER BY item"), "21 29");
}

/// No command need run between the renaming and what is written then, nor before it.
#[test]
fn a_counter_that_is_renamed_goes_on_adding_up() {
    for before in [false, true] {
        let world = World::new();
        let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, n INTEGER NOT NULL, m INT); INSERT INTO t VALUES('r', 10, 100)";
        let (mut a, mut b) = pair(&world, schema, &["t.n", "t.m"]);
        for site in [&mut a, &mut b] {
            if before {
                site.run("UPDATE t SET n = n - 1, m = m - 10");
            }
            site.run(
                "ALTER TABLE t RENAME COLUMN n TO x; ALTER TABLE t RENAME COLUMN m TO n; \
                 UPDATE t SET x = x - 3, n = n - 30",
            );
        }
        settle(&mut a, &mut b);
        let expected = if before { "r|2|20" } else { "r|4|40" };
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM t"), [expected], "{before}");
        }
    }
}

/// A base from before the column had its type is the number that it was.
#[test]
fn a_counter_that_gets_another_type_of_number_goes_on_adding_up() {
    for (from, to) in [("INTEGER", "REAL"), ("REAL", "INTEGER"), ("NUMERIC", "REAL")] {
        let world = World::new();
        let schema =
            format!("CREATE TABLE t(k TEXT PRIMARY KEY, n {from}); INSERT INTO t VALUES('x', 3)");
        let (mut a, mut b) = pair(&world, &schema, &["t.n"]);
        let migration = format!(
            "CREATE TABLE nt(k TEXT PRIMARY KEY, n {to}); INSERT INTO nt SELECT * FROM t; DROP TABLE t; \
             ALTER TABLE nt RENAME TO t"
        );
        b.run(&migration);
        b.replica.fold().unwrap();
        a.run("UPDATE t SET n = n + 2");
        let shown = |site: &Site| site.rows("SELECT CAST(n AS INT) FROM t");
        settle(&mut a, &mut b);
        assert_eq!((shown(&a), shown(&b)), (vec!["5".into()], vec!["5".into()]), "{from} {to}");
        a.run(&migration);
        b.run("UPDATE t SET n = n + 1");
        assert!(["6", "6.0"].contains(&&*both(&mut a, &mut b, "SELECT n FROM t")), "{from} {to}");
        assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap(), "{from} {to}");
    }
}

/// The sum is shown as the column stores it, and what shows the same is no write.
#[test]
fn a_counter_whose_column_becomes_a_text_goes_on_adding_up() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    a.run("UPDATE stock SET n = n + 1");
    b.run("UPDATE stock SET n = n + 2");
    let n = "SELECT n FROM stock ORDER BY item";
    assert_eq!(both(&mut a, &mut b, n), "13 23");
    b.run(
        "BEGIN; CREATE TABLE was AS SELECT * FROM stock; DROP TABLE stock;
         CREATE TABLE stock(item TEXT PRIMARY KEY, n TEXT, price REAL, note TEXT);
         INSERT INTO stock SELECT * FROM was; DROP TABLE was; COMMIT",
    );
    b.run("UPDATE stock SET note = 'c'");
    a.run("UPDATE stock SET n = n + 4");
    assert_eq!(both(&mut a, &mut b, n), "17 27");
    b.run("UPDATE stock SET n = '17', note = 'd' WHERE item = 'nail'");
    a.run("UPDATE stock SET n = n + 1");
    assert_eq!(both(&mut a, &mut b, n), "18 28");
    assert_eq!(b.row("SELECT DISTINCT typeof(n) FROM stock"), "text");
}

#[test]
fn columns_that_cannot_add_up_are_refused() {
    let world = World::new();
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, u INTEGER UNIQUE, t TEXT, any, lo INT, hi INT, \
               one INT CHECK(one > 0), g INT AS (lo + 1), up INT REFERENCES p(u), CHECK(lo < hi))";
    let mut a = world.init("a", sql);
    let why = |a: &mut Site, key: &str| match a
        .replica
        .set_policies(&[Policy::new(key, "counter").unwrap()])
    {
        Err(error @ Error::Policy { .. }) => error.to_string(),
        other => panic!("{key}: {other:?}"),
    };
    for (column, reason) in [
        ("p.id", "primary key"),
        ("p.u", "unique index"),
        ("p.t", "INTEGER or REAL"),
        ("p.any", "INTEGER or REAL"),
        ("p.g", "generated"),
        ("p.up", "foreign key"),
        ("p.ono", "did you mean one?"),
        ("q.n", "no table q"),
    ] {
        let error = why(&mut a, column);
        assert!(error.contains(reason), "{column}: {error}");
    }
    assert_eq!(a.replica.policies().unwrap().iter().count(), 0);
    for column in ["p.one", "p.lo"] {
        a.replica.set_policies(&[Policy::new(column, "counter").unwrap()]).unwrap();
    }
}

/// A CHECK holds no counter together with other columns. What was counted stays when there is one, and
/// a sum that breaks it hides the row until it fits.
#[test]
fn a_counter_under_a_check_with_others_goes_on_adding_up() {
    let world = World::new();
    let schema =
        "CREATE TABLE t(k TEXT PRIMARY KEY, n INT, most INT); INSERT INTO t VALUES('x', 10, 20)";
    let (mut a, mut b) = pair(&world, schema, &["t.n"]);
    let n = "SELECT n, most FROM t";
    a.run("UPDATE t SET n = n + 1");
    b.run("UPDATE t SET n = n + 2");
    assert_eq!(both(&mut a, &mut b, n), "13|20");
    let rebuild = "BEGIN; CREATE TABLE was AS SELECT * FROM t; DROP TABLE t;
         CREATE TABLE t(k TEXT PRIMARY KEY, n INT, most INT, CHECK(n <= most));
         INSERT INTO t SELECT * FROM was; DROP TABLE was; COMMIT";
    b.run(rebuild);
    b.run("UPDATE t SET n = n + 4");
    a.run("UPDATE t SET n = n - 1");
    assert_eq!(both(&mut a, &mut b, n), "16|20");
    a.run(rebuild);
    let mut c = world.clone_site(&mut a, "c");
    c.run("UPDATE t SET n = n - 2");
    a.run("UPDATE t SET n = n + 3");
    b.run("UPDATE t SET n = n + 2");
    assert_eq!(both(&mut a, &mut b, n), "");
    let records = a.replica.conflicts().unwrap();
    assert_eq!((records.len(), records[0].kind.as_str()), (1, "row_constraint"));
    a.pull(&mut c);
    assert_eq!(both(&mut a, &mut b, n), "19|20");
}

#[test]
fn the_log_tells_what_each_site_added() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, STOCK, &["stock.n"]);
    a.run("UPDATE stock SET n = n + 5 WHERE item = 'nail'");
    b.run("UPDATE stock SET n = n - 2 WHERE item = 'nail'");
    both(&mut a, &mut b, "SELECT 1");
    let log = a.replica.log(&Default::default()).unwrap();
    let told: Vec<String> = log.iter().map(|e| format!("{:?}", e.columns)).collect();
    assert!(told.iter().any(|t| t.contains("+5 in all")), "{told:?}");
    assert!(told.iter().any(|t| t.contains("-2 in all")), "{told:?}");
}

const RANDOM: &str = "
CREATE TABLE n(id INTEGER PRIMARY KEY, x INTEGER, y REAL DEFAULT 0, z NUMERIC, note);
CREATE TABLE k(k TEXT PRIMARY KEY, x INTEGER NOT NULL, y DECIMAL(9,2), note);
CREATE TABLE j(a TEXT, b INT, x INTEGER, PRIMARY KEY(a, b)) WITHOUT ROWID;
INSERT INTO n(x, z) VALUES(1, 0.25), (2, 2), (3, 1);
INSERT INTO k VALUES('a', 1, 0.5, ''), ('b', 2, 1, '');
INSERT INTO j VALUES('a', 1, 1);";

const COUNTERS: [&str; 6] = ["n.x", "n.y", "n.z", "k.x", "k.y", "j.x"];

fn world_of(world: &World, r: &mut Random) -> Vec<Site> {
    let policies: Vec<_> = COUNTERS.iter().map(|c| (*c, "counter")).collect();
    let mut sites = vec![world.init_with("s0", RANDOM, &policies)];
    for i in 1..2 + r.below(3) {
        let site = world.clone_site(&mut sites[0], &format!("s{i}"));
        sites.push(site);
    }
    sites
}

fn pull(sites: &mut [Site], at: usize, other: usize) {
    if at != other {
        let [mine, theirs] = sites.get_disjoint_mut([at, other]).unwrap();
        mine.pull(theirs);
    }
}

fn sync_all(sites: &mut [Site]) {
    for _ in 0..2 {
        for at in 0..sites.len() {
            (0..sites.len()).for_each(|other| pull(sites, at, other));
        }
    }
}

/// Increments in any order, rows deleted and inserted again only when all sites agree: every total
/// is known.
fn totals(seed: u64) {
    let mut r = Random::new(seed);
    let world = World::new();
    let mut sites = world_of(&world, &mut r);
    let count = sites.len() as u64;
    let start = [("a", 1, 0.5), ("b", 2, 1.0)].map(|(k, x, y)| (k.to_owned(), (x, y)));
    let mut want: BTreeMap<String, (i64, f64)> = start.into();
    let mut rows = [1, 2, 3];
    for step in 0..60 {
        let at = r.below(count) as usize;
        let (by, quarters) = (r.below(9) as i64 - 3, r.below(9) as f64 / 4.0);
        let key = r.pick(&["a", "b", "c", "d"]).to_owned();
        match r.below(10) {
            0 => pull(&mut sites, at, r.below(count) as usize),
            1 => drop(sites[at].replica.fold().unwrap()),
            2..5 => {
                let id = r.below(3) as usize;
                rows[id] += by;
                sites[at].run(&format!("UPDATE n SET x = x + {by} WHERE id = {}", id + 1));
            }
            5 => sites[at].run(&format!("UPDATE k SET note = '{step}' WHERE k = '{key}'")),
            6 => {
                sync_all(&mut sites);
                sites[at].run(&format!("DELETE FROM k WHERE k = '{key}'"));
                if by > 0 {
                    sites[at].run(&format!("INSERT INTO k VALUES('{key}', {by}, 0, '')"));
                }
                want.remove(&key);
                want.extend((by > 0).then_some((key, (by, 0.0))));
                sync_all(&mut sites);
            }
            _ => {
                let total = want.entry(key.clone()).or_default();
                *total = (total.0 + by, total.1 + quarters);
                sites[at].run(&format!(
                    "INSERT INTO k VALUES('{key}', {by}, {quarters}, '') \
                     ON CONFLICT DO UPDATE SET x = x + excluded.x, y = y + excluded.y"
                ));
            }
        }
    }
    sync_all(&mut sites);
    let want: Vec<String> = want.iter().map(|(k, (x, y))| format!("{k}|{x}|{y:?}")).collect();
    for site in &sites {
        assert_eq!(site.rows("SELECT k, x, y + 0.0 FROM k ORDER BY k"), want);
        assert_eq!(site.rows("SELECT x FROM n ORDER BY id"), rows.map(|x| x.to_string()));
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
}

/// Any statement at any time: what a user wrote is shown after the fold, and all sites agree.
fn anything(seed: u64) {
    let mut r = Random::new(seed);
    let world = World::new();
    let mut sites = world_of(&world, &mut r);
    let count = sites.len() as u64;
    for _ in 0..60 {
        let at = r.below(count) as usize;
        let (a, c) = (r.below(4) + 1, r.below(100) as i64 - 40);
        let or = r.pick(&["", "OR IGNORE", "OR REPLACE"]);
        let key = r.pick(&["a", "b", "c"]);
        let value = r.pick(&["NULL", "0", "7", "0.1", "-3.75", "1e300", "'word'", "x + 1", "-x"]);
        let sql = match r.below(14) {
            0 => {
                let (other, before) =
                    (r.below(count) as usize, dump(&sites[at].app, &["n", "k", "j"]));
                sites[at].replica.fold().unwrap();
                assert_eq!(dump(&sites[at].app, &["n", "k", "j"]), before, "a fold changed rows");
                pull(&mut sites, at, other);
                continue;
            }
            1..4 => format!("UPDATE n SET x = x + {c}, y = y + {c}.1, z = z / 3.0 WHERE id = {a}"),
            4 => format!("UPDATE n SET x = {value}, y = {value} WHERE id = {a}"),
            5 => format!("INSERT {or} INTO n(id, x, z) VALUES({a}, {c}, {c})"),
            6 => format!("DELETE FROM n WHERE id = {a}"),
            7 => format!("UPDATE OR IGNORE n SET id = {}, x = x + 1 WHERE id = {a}", a + 2),
            8 => format!("INSERT {or} INTO k VALUES('{key}', {c}, {c}.25, '{c}')"),
            9 => format!("UPDATE OR REPLACE k SET x = x - 1, k = 'd' WHERE k = '{key}'"),
            10 => format!("DELETE FROM k WHERE k = '{key}'"),
            11 => format!("UPDATE k SET x = x + {c}, y = {value} WHERE k = '{key}'"),
            12 => format!("INSERT {or} INTO j VALUES('{key}', {a}, {c})"),
            _ => format!("UPDATE OR REPLACE j SET b = b + 1, x = coalesce(x, 0) + 1 WHERE b = {a}"),
        };
        // Some break a constraint; then nothing happened.
        let _ = sites[at].app.execute_batch(&sql);
    }
    for _ in 0..2 {
        sync_all(&mut sites);
    }
    let want = dump(&sites[0].app, &["n", "k", "j"]);
    for site in &sites {
        assert_eq!(dump(&site.app, &["n", "k", "j"]), want, "sites differ after they settled");
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
}

fn try_all(run: fn(u64), default: u64) {
    let fails = |seed: &u64| std::panic::catch_unwind(|| run(*seed)).is_err();
    let failed: Vec<u64> = seeds(default).filter(fails).collect();
    assert!(failed.is_empty(), "seeds {failed:?} failed; SYNQLITE_SEEDS=FROM..TO runs them again");
}

#[test]
fn random_increments_have_exact_totals() {
    try_all(totals, 8);
}

#[test]
fn random_histories_with_counters_converge() {
    try_all(anything, 8);
}

#[test]
fn a_counter_that_was_inserted_with_its_default_is_digested_alike() {
    let world = World::new();
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, w, n INT NOT NULL DEFAULT 1)";
    let (mut a, mut b) = pair(&world, schema, &["t.n"]);
    a.run("INSERT INTO t(k, w) VALUES('x', 'w')");
    b.pull(&mut a);
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
}

#[test]
fn a_policy_that_comes_with_a_counter_changes_no_count() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k TEXT PRIMARY KEY, n INT DEFAULT 1)", &[]);
    b.replica.set_policies(&["t.n=counter".parse().unwrap()]).unwrap();
    b.run("INSERT INTO t(k, n) VALUES('x', 4)");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT n FROM t"), ["4"]);
    b.run("UPDATE t SET n = n + 1");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT n FROM t"), ["5"]);
}

#[test]
fn a_column_that_counts_refers_to_no_row() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k REAL PRIMARY KEY NOT NULL, n INT)", &[]);
    b.replica.set_policies(&["t.n=counter".parse().unwrap()]).unwrap();
    a.replica.set_policies(&["t.refs=n:t".parse().unwrap()]).unwrap();
    b.run("INSERT INTO t VALUES(1, 2)");
    a.run("INSERT INTO t VALUES(1, 1)");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT n FROM t"), ["3"]);
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
    // Nor is it refused where it travels as bytes.
    for site in [&mut a, &mut b] {
        let (delta, _) = site.replica.export(&VersionVector::default(), 0).unwrap();
        let batch = batch::encode(Id([1; 16]), Id([2; 16]), &delta).unwrap();
        assert_eq!(batch::decode(&batch).unwrap().1, [delta]);
    }
}

/// A row that counts from nothing is as good as written, also where the policy comes with it.
#[test]
fn a_counter_that_shows_its_default_has_one_digest() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id TEXT PRIMARY KEY, n INTEGER DEFAULT 1)");
    let mut b = world.clone_site(&mut a, "b");
    b.replica.set_policies(&["t.n=counter".parse().unwrap()]).unwrap();
    b.run("INSERT INTO t(id) VALUES('x')");
    assert_eq!(both(&mut a, &mut b, "SELECT id, n FROM t"), "x|1");
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
}

/// What was counted follows no row, where its value comes to be a row's key: nobody may say that it does.
#[test]
fn a_column_that_counts_follows_no_row() {
    let world = World::new();
    let schema = "CREATE TABLE t(k REAL PRIMARY KEY NOT NULL, n INT,
                                 r REAL REFERENCES t ON DELETE CASCADE);
                  INSERT INTO t VALUES(4, 5, 4)";
    let (mut a, mut b) = pair(&world, schema, &["t.n"]);
    b.run("INSERT INTO t VALUES(3, 1, 4)");
    a.pull(&mut b);
    assert!(a.replica.set_policies(&["t.refs=n:t".parse().unwrap()]).is_err());
    a.run("PRAGMA foreign_keys = OFF; DELETE FROM t WHERE k = 4; INSERT INTO t VALUES(1, 5, 3)");
    settle(&mut a, &mut b);
    let asks = |site: &Site| -> Vec<_> {
        let records = site.replica.conflicts().unwrap().into_iter();
        records.map(|c| (c.row, c.displaced)).collect()
    };
    assert_eq!(asks(&a), asks(&b));
    assert_eq!(asks(&a).len(), 2);
}

/// Who wrote what is counted says it again where it was a reference for a while: elsewhere its row may have another
/// number by now.
#[test]
fn what_named_a_row_before_it_was_a_counter_is_what_its_writer_says() {
    let world = World::new();
    let schema = "CREATE TABLE t(k INTEGER PRIMARY KEY, n INT, w)";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    b.run("INSERT INTO t VALUES(1, 1, 'x')");
    c.replica.set_policies(&["t.n=counter".parse().unwrap()]).unwrap();
    a.pull(&mut b);
    a.run("UPDATE t SET k = 5");
    b.replica.set_policies(&["t.refs=n:t".parse().unwrap()]).unwrap();
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["5|5|x"]);
    for _ in 0..2 {
        a.pull(&mut c);
        b.pull(&mut c);
        b.pull(&mut a);
        a.pull(&mut b);
        c.pull(&mut a);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), ["5|1|x"]);
    }
}

/// Of what others wrote, and is kept, they say what it is.
#[test]
fn who_hears_that_a_reference_counts_has_nothing_to_say_of_what_others_wrote() {
    let world = World::new();
    let schema = "CREATE TABLE t(k INTEGER PRIMARY KEY, n INT, u UNIQUE)";
    let mut a = world.init_with("a", schema, &[("t.refs", "n:t")]);
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    c.replica.set_policies(&["t.n=counter".parse().unwrap()]).unwrap();
    a.run("INSERT INTO t VALUES(1, 1, 'x')");
    b.run("INSERT INTO t VALUES(2, 2, 'x')");
    settle(&mut a, &mut b);
    assert_eq!(a.replica.conflicts().unwrap().len(), 1);
    let mut late = world.clone_site(&mut a, "late");
    late.pull(&mut c);
    settle(&mut a, &mut c);
    settle(&mut b, &mut c);
    settle(&mut a, &mut b);
    late.pull(&mut a);
    late.pull(&mut b);
    assert_eq!(a.replica.digest().unwrap(), late.replica.digest().unwrap());
    // Who says something makes up a site for it.
    let sites = "SELECT count(*) FROM synqlite_site";
    assert_eq!(late.rows(sites), a.rows(sites));
}
