//! Tables and columns that are renamed, and others that get their names (R-MIG-RENAME).

use crate::migrate::{agree, pair};
use crate::site::{Site, World, settle};
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

/// The policies of a table are known by its new name in the command that finds it renamed.
#[test]
fn mig_rename_a_table_that_refers_by_policy() {
    let world = World::new();
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY); \
               CREATE TABLE t(k TEXT PRIMARY KEY, n INTEGER); INSERT INTO t VALUES('c', 2)";
    let mut a = world.init_with("a", sql, &[("t.refs", "n:p")]);
    let mut b = world.clone_site(&mut a, "b");
    b.run("ALTER TABLE t RENAME TO renamed; UPDATE renamed SET n = 3");
    a.pull(&mut b);
    b.pull(&mut a);
    for site in [&a, &b] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    agree(&mut [&mut a, &mut b]);
}

/// Policies speak of columns and tables by the names that they have here.
#[test]
fn mig_rename_what_policies_name() {
    let world = World::new();
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, v, up INT); \
               CREATE TABLE t(k TEXT PRIMARY KEY, n INT, c INT, d INT); \
               INSERT INTO t VALUES('x', NULL, 5, 7)";
    let policies = [("t.refs", "n:p"), ("t.c", "counter"), ("p.refs", "up:p")];
    let mut a = world.init_with("a", sql, &policies);
    let mut b = world.clone_site(&mut a, "b");
    a.run("ALTER TABLE t RENAME COLUMN n TO m; ALTER TABLE t RENAME COLUMN c TO e");
    a.run("ALTER TABLE p RENAME TO q; ALTER TABLE q RENAME COLUMN up TO above");
    for (to, from) in [("u", "t"), ("v", "u")] {
        a.run(&format!("ALTER TABLE {from} RENAME TO {to}; UPDATE {to} SET e = e + 1"));
        a.run("INSERT INTO q SELECT max(ifnull(max(id), 0), 0) + 1, 'a', 1 FROM q");
        a.run(&format!("INSERT INTO {to} SELECT 'a' || max(id), max(id), 0, 0 FROM q"));
        b.run("UPDATE t SET c = c + 10 WHERE k = 'x'");
        b.run("INSERT INTO p SELECT max(ifnull(max(id), 0), 0) + 1, 'b', 1 FROM p");
        b.run("INSERT INTO t SELECT 'b' || max(id), max(id), 0, 0 FROM p");
        settle(&mut a, &mut b);
    }
    assert_eq!(a.row("SELECT e FROM v WHERE k = 'x'"), "27");
    let referring = "SELECT substr(k, 1, 1) || q.v FROM v JOIN q ON q.id = m ORDER BY 1";
    assert_eq!(a.rows(referring), ["aa", "aa", "bb", "bb"]);
    let counter = "v.d=counter".parse().unwrap();
    a.replica.set_policies(&[counter]).unwrap();
    settle(&mut a, &mut b);
    a.run("UPDATE v SET d = d + 1 WHERE k = 'x'");
    b.run("UPDATE t SET d = d + 10 WHERE k = 'x'");
    settle(&mut a, &mut b);
    assert_eq!(a.row("SELECT d FROM v WHERE k = 'x'"), "18");
    assert_eq!(b.rows("SELECT * FROM t ORDER BY 1"), a.rows("SELECT * FROM v ORDER BY 1"));
    agree(&mut [&mut a, &mut b]);
    std::fs::copy(a.replica.path(), world.path("c")).unwrap();
    let options = InitOptions { new_site: true, ..InitOptions::default() };
    Replica::init(&world.path("c"), &options, Arc::new(System)).unwrap();
}

/// A column gets the name that another had before.
#[test]
fn mig_rename_a_column_to_the_first_name_of_another() {
    let swap = "ALTER TABLE t RENAME COLUMN c TO z; ALTER TABLE t RENAME COLUMN d TO c; \
                ALTER TABLE t RENAME COLUMN z TO d";
    let pass_on = "ALTER TABLE t RENAME COLUMN c TO d0; ALTER TABLE t RENAME COLUMN d TO c";
    for (renames, old) in [(swap, "d"), (pass_on, "d0")] {
        let world = World::new();
        let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, c, d); INSERT INTO t VALUES('x', 5, 7)";
        let (mut a, mut b) = pair(&world, sql);
        a.run(renames);
        a.run(&format!("UPDATE t SET {old} = 8, c = 100"));
        settle(&mut a, &mut b);
        assert_eq!(b.rows("SELECT c, d FROM t"), ["8|100"]);
        b.run(renames);
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows(&format!("SELECT {old}, c FROM t")), ["8|100"]);
        }
    }
}

/// A column is renamed, and another made under the name that it had: on both sites.
#[test]
fn mig_rename_a_column_and_add_another_under_its_name() {
    let script = "ALTER TABLE t RENAME COLUMN c TO old; ALTER TABLE t ADD COLUMN c";
    for late in [false, true] {
        let world = World::new();
        let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, c); INSERT INTO t VALUES('x', 5)";
        let (mut a, mut b) = pair(&world, sql);
        a.run(script);
        a.run("UPDATE t SET old = 6, c = 'new'");
        if late {
            settle(&mut a, &mut b);
            assert_eq!(b.rows("SELECT c FROM t"), ["6"]);
        }
        b.run(script);
        settle(&mut a, &mut b);
        b.run("INSERT INTO t VALUES('y', 7, 'of b')");
        settle(&mut a, &mut b);
        a.run("UPDATE t SET c = c || ' again'");
        settle(&mut a, &mut b);
        let rows = ["x|6|new again", "y|7|of b again"];
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT k, old, c FROM t ORDER BY k"), rows, "{late}");
        }
        agree(&mut [&mut a, &mut b]);
    }
}

/// A column is renamed and renamed back, and another made under the name between. A site that is still
/// between keeps what others write to that one until it has it.
#[test]
fn mig_rename_a_column_back_and_add_another_under_the_name_between() {
    let away = "ALTER TABLE t RENAME COLUMN c TO d";
    let back = "ALTER TABLE t RENAME COLUMN d TO c; ALTER TABLE t ADD COLUMN d";
    for values in ["NULL, NULL", "8, 7"] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, "CREATE TABLE t(k TEXT PRIMARY KEY, c)");
        b.run(away);
        b.run("INSERT INTO t VALUES('x', 5)");
        let mut c = world.clone_site(&mut b, "c");
        c.run("INSERT INTO t VALUES('y', 6)");
        c.run(back);
        c.run(&format!("UPDATE t SET (c, d) = ({values})"));
        b.pull(&mut c);
        let shown = values.split(',').next().unwrap();
        let is = format!("SELECT count(*) FROM t WHERE d IS {shown}");
        assert_eq!(b.row(&is), "2");
        b.run(back);
        a.run(away);
        a.run(back);
        settle(&mut b, &mut c);
        settle(&mut a, &mut b);
        let is = format!("SELECT count(*) FROM t WHERE (c, d) IS ({values})");
        for site in [&a, &b, &c] {
            assert_eq!(site.row(&is), "2", "{values}");
        }
        agree(&mut [&mut a, &mut b, &mut c]);
    }
}

/// A table is renamed, and another made under the name that it had: on both sites.
#[test]
fn mig_rename_a_table_and_make_another_under_its_name() {
    let script = "ALTER TABLE t RENAME TO old; CREATE TABLE t(id TEXT PRIMARY KEY, v)";
    for late in [false, true] {
        let world = World::new();
        let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, c); INSERT INTO t VALUES('x', 5)";
        let (mut a, mut b) = pair(&world, sql);
        a.run(script);
        a.run("UPDATE old SET c = 6; INSERT INTO t VALUES('a', 1)");
        if late {
            settle(&mut a, &mut b);
            assert_eq!(b.rows("SELECT * FROM t"), ["x|6"]);
        }
        b.run(script);
        settle(&mut a, &mut b);
        b.run("INSERT INTO t VALUES('b', 2); INSERT INTO old VALUES('y', 7)");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM t ORDER BY 1"), ["a|1", "b|2"], "{late}");
            assert_eq!(site.rows("SELECT * FROM old ORDER BY 1"), ["x|6", "y|7"], "{late}");
        }
        agree(&mut [&mut a, &mut b]);
    }
}

/// A column is dropped, and another gets its name: what others write to the dropped one does not reach it.
#[test]
fn mig_rename_a_column_to_the_name_of_a_dropped_one() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, e, c, d, f); \
               INSERT INTO t VALUES('x', 4, 5, 7, 8)";
    let (mut a, mut b) = pair(&world, sql);
    let script = "ALTER TABLE t DROP COLUMN c; ALTER TABLE t RENAME COLUMN d TO c";
    a.run(script);
    a.replica.fold().unwrap();
    b.run("UPDATE t SET c = 50");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["x|4|7|8"]);
    assert_eq!(b.rows("SELECT * FROM t"), ["x|4|50|7|8"]);
    b.run(script);
    b.run("UPDATE t SET c = 71");
    settle(&mut a, &mut b);
    for site in [&mut a, &mut b] {
        assert_eq!(site.rows("SELECT * FROM t"), ["x|4|71|8"]);
        site.run("ALTER TABLE t ADD COLUMN d");
    }
    a.run("UPDATE t SET d = 'new'");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM t"), ["x|4|71|8|new"]);
    agree(&mut [&mut a, &mut b]);
}

/// A table is dropped, and another gets its name: what others write to the dropped one does not reach it.
#[test]
fn mig_rename_a_table_to_the_name_of_a_dropped_one() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, c); INSERT INTO t VALUES('x', 5); \
               CREATE TABLE u(k TEXT PRIMARY KEY, c); INSERT INTO u VALUES('x', 7)";
    let (mut a, mut b) = pair(&world, sql);
    let script = "DROP TABLE t; ALTER TABLE u RENAME TO t";
    a.run(script);
    a.replica.fold().unwrap();
    b.run("UPDATE t SET c = 50; INSERT INTO t VALUES('y', 51)");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["x|7"]);
    b.run(script);
    b.run("UPDATE t SET c = 8");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t"), ["x|8"]);
    }
}

/// A foreign key goes by the first names of its columns and of those it refers to, also on a site that
/// does not know yet which columns were renamed.
#[test]
fn mig_rename_a_reference_in_a_table_that_is_rebuilt() {
    for (key, shown) in
        [("", ["1|b|4", "2|a|NULL", "4|c|4"]), ("(u)", ["1|b|3", "2|a|NULL", "4|c|3"])]
    {
        let world = World::new();
        let columns = format!("k INTEGER PRIMARY KEY, w, u INT UNIQUE, r INT REFERENCES t{key}");
        let (mut a, mut b) = pair(&world, &format!("CREATE TABLE t({columns})"));
        let rebuild = format!(
            "PRAGMA foreign_keys = OFF; CREATE TABLE n({columns}, x); \
             INSERT INTO n(k, w, u, r) SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t"
        );
        let rename = "ALTER TABLE t RENAME COLUMN r TO s; ALTER TABLE t RENAME COLUMN u TO v";
        a.run("INSERT INTO t VALUES(2, 'a', 2, NULL)");
        b.run("INSERT INTO t VALUES(2, 'c', 3, NULL)");
        let own = if key.is_empty() { 2 } else { 3 };
        b.run(&format!("UPDATE t SET r = {own}; INSERT INTO t VALUES(1, 'b', 1, {own})"));
        b.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(3, 'd', 9, 8)");
        a.run(&rebuild);
        a.replica.fold().unwrap();
        a.run(rename);
        b.run(&rebuild);
        b.run(rename);
        settle(&mut a, &mut b);
        let records = |site: &Site| {
            let records = site.replica.conflicts().unwrap().into_iter();
            records.map(|c| (c.id, c.kind, c.constraint)).collect::<Vec<_>>()
        };
        assert!(records(&a).len() == 1 && records(&a) == records(&b));
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT k, w, s FROM t ORDER BY k"), shown);
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
        agree(&mut [&mut a, &mut b]);
    }
}

/// The triggers name a dropped column still, and the one that got its name, as both are called now.
#[test]
fn mig_rename_a_column_to_the_name_of_one_dropped_just_before() {
    let names = ["c0", "c1", "c2", "c3", "c4"];
    for (gone, heir) in names.iter().flat_map(|gone| names.map(|heir| (gone, heir))) {
        if *gone == heir {
            continue;
        }
        let world = World::new();
        let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, c0, c1, c2, c3, c4); \
                   INSERT INTO t VALUES('x', 0, 1, 2, 3, 4)";
        let (mut a, mut b) = pair(&world, sql);
        a.run(&format!("ALTER TABLE t DROP COLUMN {gone}"));
        a.run(&format!("ALTER TABLE t RENAME COLUMN {heir} TO {gone}"));
        a.replica.fold().unwrap();
        a.run(&format!("UPDATE t SET {gone} = 9"));
        settle(&mut a, &mut b);
        assert_eq!(b.row(&format!("SELECT {heir}, {gone} FROM t")), format!("9|{}", &gone[1..]));
    }
}

/// A policy names a column that a site renamed in a table which it made anew: it learns only later which
/// column that is. Rows that are gone keep what they hold in the units of then.
#[test]
fn mig_rename_a_policy_finds_its_column_late() {
    let world = World::new();
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY); CREATE TABLE t(k TEXT PRIMARY KEY, n INTEGER); \
               INSERT INTO p VALUES(3); INSERT INTO t VALUES('x', 3)";
    let mut a = world.init_with("a", sql, &[("t.refs", "n:p")]);
    let mut b = world.clone_site(&mut a, "b");
    let anew = "DROP TABLE t; CREATE TABLE t(k TEXT PRIMARY KEY, n INTEGER)";
    let rename = "ALTER TABLE t RENAME COLUMN n TO m";
    a.run(anew);
    a.run(rename);
    a.replica.fold().unwrap();
    b.run(anew);
    settle(&mut a, &mut b);
    b.run(rename);
    a.pull(&mut b);
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    a.run("INSERT INTO t VALUES('y', 3)");
    settle(&mut a, &mut b);
    for site in [&mut a, &mut b] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        assert_eq!(site.rows("SELECT * FROM t"), ["y|3"]);
    }
    agree(&mut [&mut a, &mut b]);
}

/// Renamed and made anew, with a command between or none: one table to all. `t` may have no row, be made anew
/// with other columns, lose rows meanwhile, and have keys of every kind.
#[test]
fn mig_rename_a_table_that_is_made_anew_at_once() {
    let rebuild = |columns: &str, kept: &str, rows: &str| {
        format!(
            "CREATE TABLE new_r({columns}; INSERT INTO new_r({kept}) SELECT {kept} FROM r{rows}; \
             DROP TABLE r; ALTER TABLE new_r RENAME TO r"
        )
    };
    let keys = [
        "TEXT PRIMARY KEY, v, w)",
        "INTEGER PRIMARY KEY, v, w)",
        "TEXT PRIMARY KEY, v, w) WITHOUT ROWID",
        "TEXT, v, w)",
    ];
    for key in keys {
        let columns = format!("id {key}");
        let wider = columns.replace(", w)", ", w DEFAULT 'w', x DEFAULT 'x')");
        let narrower = columns.replace(", w)", ")");
        for (filled, second) in [
            (true, rebuild(&columns, "id, v, w", "")),
            (true, rebuild(&wider, "id, v, w", "")),
            (true, rebuild(&narrower, "id, v", "")),
            (true, rebuild(&columns, "id, v, w", " WHERE id <> 1")),
            (false, rebuild(&columns, "id, v, w", "")),
        ] {
            let world = World::new();
            let fill = "INSERT INTO t VALUES(1,'a',10),(2,'b',20),(3,'c',30),(4,'d',40),(5,'e',50),(6,'f',60)";
            let fill = if filled { fill } else { "" };
            let (mut a, mut b) = pair(&world, &format!("CREATE TABLE t({columns}; {fill}"));
            for site in [&mut a, &mut b] {
                site.replica.fold().unwrap();
            }
            a.run("ALTER TABLE t RENAME TO r");
            a.run(&second);
            b.run("ALTER TABLE t RENAME TO r");
            b.replica.fold().unwrap();
            b.run(&second);
            settle(&mut a, &mut b);
            a.run("INSERT INTO r(id, v) VALUES(8, 'of a'); UPDATE r SET v = 'a' || v WHERE id = 2");
            b.run("INSERT INTO r(id, v) VALUES(9, 'of b'); UPDATE r SET v = 'b' || v WHERE id = 3");
            settle(&mut a, &mut b);
            let query = "SELECT * FROM r ORDER BY id";
            assert_eq!(a.rows(query), b.rows(query), "{second}");
            let seen = a.rows("SELECT v FROM r WHERE v IN ('ab', 'bc', 'of a', 'of b') ORDER BY 1");
            let all = if filled { &["ab", "bc", "of a", "of b"][..] } else { &["of a", "of b"] };
            assert_eq!(seen, all, "{second}");
            for site in [&mut a, &mut b] {
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{second}");
            }
        }
    }
}

/// A table with rows of its own is no other that is gone.
#[test]
fn mig_rename_another_table_is_not_taken_for_one_that_is_gone() {
    for (gone, made) in [
        ("", "INSERT INTO r VALUES(1, 'x', 11), (2, 'y', 12), (3, 'z', 13), (4, 'q', 14)"),
        ("CREATE TABLE keep AS SELECT * FROM t LIMIT 1;", "INSERT INTO r SELECT * FROM keep"),
        ("", ""),
    ] {
        let world = World::new();
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); \
                      INSERT INTO t VALUES(1,'a',10),(2,'b',20),(3,'c',30),(4,'d',40)";
        let (mut a, mut b) = pair(&world, schema);
        a.run(&format!(
            "{gone} DROP TABLE t; CREATE TABLE r(id INTEGER PRIMARY KEY, v, w); {made}"
        ));
        settle(&mut a, &mut b);
        assert_eq!(b.rows("SELECT v FROM t ORDER BY id"), ["a", "b", "c", "d"], "{made}");
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A table that one site made and renamed before any command, and another with one between: `early`, rows
/// under its first name are on the way before the second site renames it; `back`, the first site tells first.
#[test]
fn mig_rename_a_table_that_was_renamed_before_any_command() {
    let keys = [
        ("id INTEGER PRIMARY KEY, x", "NULL, 'a'", "NULL, 'b'", "1|2"),
        ("id TEXT PRIMARY KEY, x", "'k', 'a'", "'k', 'b'", "1|1"),
        ("id, x", "1, 'a'", "2, 'b'", "1|2"),
    ];
    for (columns, of_a, of_b, rows) in keys {
        for (early, back) in [(true, true), (true, false), (false, true), (false, false)] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, "CREATE TABLE o(id INTEGER PRIMARY KEY)");
            let (mut c, mut d) = (world.clone_site(&mut a, "c"), world.clone_site(&mut a, "d"));
            let (make, rename) =
                (format!("CREATE TABLE t1({columns})"), "ALTER TABLE t1 RENAME TO T2");
            a.run(&format!("{make}; {rename}; INSERT INTO t2 VALUES({of_a})"));
            b.run(&format!("{make}; INSERT INTO t1 VALUES({of_b})"));
            b.replica.fold().unwrap();
            if early {
                a.pull(&mut b);
                c.pull(&mut b);
            }
            c.run(&format!("{make}; {rename}"));
            c.replica.fold().unwrap();
            b.run(rename);
            if back {
                b.pull(&mut a);
                d.pull(&mut a);
            }
            a.pull(&mut b);
            d.pull(&mut b);
            d.run(&make.replace("t1", "t2"));
            for _ in 0..2 {
                settle(&mut a, &mut b);
                settle(&mut c, &mut d);
                settle(&mut d, &mut a);
                settle(&mut b, &mut c);
            }
            let case = format!("{columns}, early {early}, back {back}");
            let shown = "SELECT count(*) || '|' || count(DISTINCT id) FROM t2";
            let expected = if columns.contains("TEXT") { "1|1" } else { "2|2" };
            for site in [&mut a, &mut b, &mut c, &mut d] {
                assert_eq!(site.row(shown), expected, "{case}, {rows}");
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{case}");
                site.check();
            }
            agree(&mut [&mut a, &mut b, &mut c, &mut d]);
        }
    }
}

/// What refers to such a table, what policies say of it, records that are open and what another site keeps
/// of columns that were renamed go with it.
#[test]
fn mig_rename_what_speaks_of_a_table_that_was_renamed_before_any_command() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE o(id INTEGER PRIMARY KEY)");
    let make = "CREATE TABLE t1(id INTEGER PRIMARY KEY, name UNIQUE, n INT); \
                CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES t1(id), q)";
    let rename = "ALTER TABLE t1 RENAME TO t2";
    a.run(&format!(
        "{make}; {rename}; INSERT INTO t2 VALUES(1, 'x', 1); INSERT INTO c VALUES(1, 1, 'a')"
    ));
    let counter = "t2.n=counter".parse().unwrap();
    a.replica.set_policies(&[counter]).unwrap();
    let mut c = world.clone_site(&mut a, "c");
    c.run("INSERT INTO t2 VALUES(5, 'y', 1)");
    a.run("INSERT INTO t2 VALUES(5, 'y', 1); UPDATE t2 SET n = n + 10 WHERE id = 1");
    settle(&mut a, &mut c);
    b.run(make);
    b.replica.fold().unwrap();
    b.run(&format!("{rename}; ALTER TABLE t2 RENAME COLUMN name TO title"));
    b.run("INSERT INTO t2 VALUES(1, 'z', 1); INSERT INTO c VALUES(1, 1, 'b')");
    for _ in 0..2 {
        settle(&mut a, &mut b);
        settle(&mut b, &mut c);
    }
    a.run("UPDATE t2 SET n = n + 100");
    c.run("UPDATE t2 SET n = n + 1000");
    for _ in 0..2 {
        settle(&mut a, &mut b);
        settle(&mut b, &mut c);
    }
    let rows = "SELECT c.q, t2.n FROM c JOIN t2 ON t2.id = c.p ORDER BY 1";
    for site in [&mut a, &mut b, &mut c] {
        assert_eq!(site.rows(rows), ["a|1111", "b|1101"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        site.check();
    }
    let open = |site: &Site| -> Vec<_> {
        site.replica.conflicts().unwrap().into_iter().map(|c| c.id).collect()
    };
    assert_eq!(open(&a).len(), 1);
    assert_eq!((open(&a), open(&a)), (open(&b), open(&c)));
    agree(&mut [&mut a, &mut b, &mut c]);
}

/// The second table of a name, which another site knows already, is the second here too, whether a command
/// runs between its making and the renaming of the first or not.
#[test]
fn mig_rename_a_name_that_is_given_again_on_a_site_that_hears_first() {
    let steps = [
        "CREATE TABLE t(k PRIMARY KEY, v)",
        "ALTER TABLE t RENAME TO u",
        "CREATE TABLE t(k PRIMARY KEY)",
    ];
    for rows in ["", "INSERT INTO u VALUES(1, 2)"] {
        for between in [vec![0], vec![1], vec![0, 1], vec![]] {
            let world = World::new();
            let (mut a, mut b) = pair(&world, "CREATE TABLE o(id INTEGER PRIMARY KEY)");
            for step in steps {
                b.run(step);
                b.replica.fold().unwrap();
            }
            b.run(&format!("INSERT INTO t VALUES(3); {rows}"));
            a.pull(&mut b);
            for (at, step) in steps.into_iter().enumerate() {
                a.run(step);
                if between.contains(&at) {
                    a.replica.fold().unwrap();
                }
            }
            settle(&mut a, &mut b);
            assert_eq!(a.rows("SELECT * FROM t"), ["3"], "{rows}, {between:?}");
            assert_eq!(a.rows("SELECT * FROM u"), b.rows("SELECT * FROM u"));
            agree(&mut [&mut a, &mut b]);
        }
    }
}

/// Two rows of one key that each site made, one of them under the table's later name: what gives way is told to
/// both, whoever finds out first.
#[test]
fn mig_rename_what_gives_way_where_tables_turn_out_to_be_one_is_told() {
    for folded in [true, false] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, "CREATE TABLE o(id INTEGER PRIMARY KEY)");
        let make = "CREATE TABLE t1(k TEXT PRIMARY KEY, w)";
        b.run(&format!("{make}; INSERT INTO t1 VALUES('k', 'of b')"));
        a.run(&format!("{make}; INSERT INTO t1 VALUES('k', 'of a')"));
        b.run("ALTER TABLE t1 RENAME TO t2");
        a.pull(&mut b);
        b.pull(&mut a);
        a.run("ALTER TABLE t1 RENAME TO t2");
        if folded {
            a.replica.fold().unwrap();
        }
        settle(&mut a, &mut b);
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b]);
        for site in [&a, &b] {
            let told = site.replica.closed_conflicts().unwrap();
            let told: Vec<&str> = told.iter().map(|c| c.what.as_str()).collect();
            assert!(told.iter().any(|t| t.contains("'of a'") && t.contains("'of b'")), "{told:?}");
        }
    }
}

/// A table that is rebuilt, emptied and renamed before any command is taken for another one. Once it turns out to be
/// the one that others renamed, its rows are gone for all, whichever way what they know travels.
#[test]
fn mig_rename_a_table_that_was_rebuilt_and_emptied() {
    let rebuild =
        "CREATE TABLE n(k INTEGER PRIMARY KEY, p); INSERT INTO n SELECT * FROM t; DROP TABLE t;
                   ALTER TABLE n RENAME TO t";
    for (delete, left) in [("1", &[][..]), ("k > 1", &["r1"])] {
        for other in [rebuild, ""] {
            for direct in [true, false] {
                let world = World::new();
                let (mut a, mut b) = pair(&world, "CREATE TABLE t(k INTEGER PRIMARY KEY, p)");
                b.run("INSERT INTO t VALUES(1, 'r1'), (2, 'r2'), (3, 'r3'), (4, 'r4')");
                settle(&mut a, &mut b);
                b.run(&format!(
                    "{rebuild}; DELETE FROM t WHERE {delete}; ALTER TABLE t RENAME TO t2"
                ));
                b.replica.fold().unwrap();
                a.run(&format!("{other}; ALTER TABLE t RENAME TO t2"));
                let mut c = world.clone_site(&mut a, "c");
                if direct {
                    settle(&mut a, &mut b);
                } else {
                    settle(&mut c, &mut b);
                    settle(&mut a, &mut c);
                }
                settle(&mut a, &mut b);
                settle(&mut c, &mut b);
                for site in [&mut a, &mut b, &mut c] {
                    assert_eq!(site.rows("SELECT p FROM t2"), left, "{delete}, {direct}");
                    site.check();
                }
                agree(&mut [&mut a, &mut b, &mut c]);
            }
        }
    }
}

/// A rebuild that gives a column another name, as most migration tools do, drops none and adds none: what others and
/// hidden rows have in it stays, and nobody is taken for its author. The table may get another name too.
#[test]
fn mig_rename_a_column_in_a_rebuild() {
    let keys = [
        "id INTEGER PRIMARY KEY, u UNIQUE, note, n DEFAULT 0)",
        "id TEXT PRIMARY KEY, u UNIQUE, note, n DEFAULT 0)",
        "id TEXT PRIMARY KEY, u UNIQUE, note, n DEFAULT 0) WITHOUT ROWID",
        "id, u UNIQUE, note, n DEFAULT 0)",
    ];
    for key in keys {
        for (table, command, again) in [
            ("t", true, false),
            ("t", false, false),
            ("r", true, false),
            ("r", false, false),
            ("t", true, true),
            ("t", false, true),
        ] {
            let world = World::new();
            let sql = format!(
                "CREATE TABLE t({key}; INSERT INTO t VALUES(1, 'a', 'x', 0), (2, 'b', 'y', 0), (3, 'c', NULL, 0), \
                 (4, 'd', 'z', 0), (5, 'e', 'z', 0)"
            );
            let (mut a, mut b) = pair(&world, &sql);
            a.run("INSERT INTO t VALUES(6, 'same', 'of a', 0); DELETE FROM t WHERE id = 4");
            b.run("INSERT INTO t VALUES(7, 'same', 'of b', 0); UPDATE t SET n = 5 WHERE id = 5");
            settle(&mut a, &mut b);
            a.run("UPDATE t SET note = 'X' WHERE id = 1");
            b.run("UPDATE t SET note = 'Y' WHERE id = 2");
            let columns = key.replace("note", "remark, more DEFAULT 'm'");
            for site in [&mut a, &mut b] {
                let triggers = site
                    .rows("SELECT sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid");
                if command {
                    site.replica.fold().unwrap();
                }
                site.run(&format!(
                    "BEGIN; ALTER TABLE t RENAME TO old; CREATE TABLE new({columns}; \
                     INSERT INTO new(id, u, remark, n) SELECT id, u, note, n FROM old; \
                     DROP TABLE old; ALTER TABLE new RENAME TO {table}; COMMIT"
                ));
                // Made again as they were, triggers name a column that is gone.
                if again {
                    triggers.iter().for_each(|sql| site.run(sql));
                }
                site.replica.fold().unwrap();
            }
            settle(&mut a, &mut b);
            let all = format!("SELECT id, u, remark, n, more FROM {table} ORDER BY id");
            let want = ["1|a|X|0|m", "2|b|Y|0|m", "3|c|NULL|0|m", "5|e|z|5|m", "6|same|of a|0|m"];
            let what = format!("{key} {table} {command} {again}");
            assert_eq!(
                (a.rows(&all), b.rows(&all)),
                (want.map(str::to_owned).to_vec(), want.map(str::to_owned).to_vec()),
                "{what}"
            );
            let hidden = a.replica.conflicts().unwrap();
            let remark =
                hidden.iter().flat_map(|c| &c.displaced).find(|(name, _)| name == "remark");
            assert_eq!(remark.map(|(_, value)| value.clone()), Some("of b".into()), "{what}");
            a.run(&format!("DELETE FROM {table} WHERE id = 6"));
            settle(&mut a, &mut b);
            assert_eq!(
                b.row(&format!("SELECT remark FROM {table} WHERE id = 7")),
                "of b",
                "{what}"
            );
            agree(&mut [&mut a, &mut b]);
        }
    }
}

/// So it is where rows were written before a command has looked, though no trigger could note which.
#[test]
fn mig_rename_a_column_in_a_rebuild_and_write_to_it() {
    // A column of few different values is known by nine rows in ten, one that tells rows apart by two in three.
    for (value, rows) in [("100 + x", 4), ("100 + x", 20), ("'s' || (x % 3)", 20)] {
        let world = World::new();
        let (mut a, mut b) = pair(
            &world,
            &format!(
                "CREATE TABLE t(k TEXT PRIMARY KEY, n DEFAULT 5); WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL \
                 SELECT x + 1 FROM i WHERE x < {rows}) INSERT INTO t SELECT 'k' || x, {value} FROM i"
            ),
        );
        let rebuild = "BEGIN; CREATE TABLE new(k TEXT PRIMARY KEY, c DEFAULT 5); INSERT INTO new SELECT k, n FROM t; \
                       DROP TABLE t; ALTER TABLE new RENAME TO t; COMMIT";
        b.run(rebuild);
        b.run("UPDATE t SET c = 'of b' WHERE k = 'k2'");
        settle(&mut a, &mut b);
        a.run(rebuild);
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.row("SELECT c FROM t WHERE k = 'k2'"), "of b", "{value} {rows}");
        }
        agree(&mut [&mut a, &mut b]);
    }
}

/// Columns that hold what others do not, or nothing, are not taken for others.
#[test]
fn mig_rename_another_column_is_not_taken_for_one_that_is_gone() {
    for (columns, filled) in [
        ("id INTEGER PRIMARY KEY, w, x", "id, w, v || '!'"),
        // One of two rows shows the same by chance.
        ("id INTEGER PRIMARY KEY, w, x", "id, w, 'a'"),
        ("id INTEGER PRIMARY KEY, w, x DEFAULT 0", "id, w, 0"),
        ("id INTEGER PRIMARY KEY, w, x, y", "id, w, v, v"),
    ] {
        let world = World::new();
        let sql = "CREATE TABLE t(id INTEGER PRIMARY KEY, v, w); INSERT INTO t VALUES(1, 'a', 10), (2, 'b', 20)";
        let (mut a, mut b) = pair(&world, sql);
        a.run(&format!(
            "CREATE TABLE n({columns}); INSERT INTO n SELECT {filled} FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t"
        ));
        settle(&mut a, &mut b);
        b.run("ALTER TABLE t ADD COLUMN x");
        settle(&mut a, &mut b);
        assert_eq!(b.rows("SELECT v FROM t ORDER BY id"), ["a", "b"], "{columns}");
        assert_eq!(a.rows("SELECT x FROM t"), b.rows("SELECT x FROM t"), "{columns}");
        for site in [&a, &b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{columns}");
        }
    }
}

/// What was to stay here stays here under another name, whether policy or `init` said so.
#[test]
fn mig_rename_a_table_that_is_not_replicated() {
    for renamed in [
        "ALTER TABLE ex RENAME TO ex2; ALTER TABLE lo RENAME TO lo2",
        "CREATE TABLE ex2 AS SELECT * FROM ex; DROP TABLE ex; CREATE TABLE lo2(id INTEGER PRIMARY KEY, s TEXT); \
         INSERT INTO lo2 SELECT * FROM lo; DROP TABLE lo",
    ] {
        let world = World::new();
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY); CREATE TABLE ex(id INT, s TEXT); \
                      CREATE TABLE lo(id INTEGER PRIMARY KEY, s TEXT)";
        let path = world.path("a");
        rusqlite::Connection::open(&path).unwrap().execute_batch(schema).unwrap();
        let options = InitOptions { exclude: vec!["ex".into()], ..InitOptions::default() };
        Replica::init(&path, &options, Arc::new(System)).unwrap();
        let mut a = world.open("a");
        a.replica.set_policies(&["local_tables=lo".parse().unwrap()]).unwrap();
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO ex VALUES(1, 'mine'); INSERT INTO lo VALUES(1, 'mine')");
        for site in [&mut a, &mut b] {
            site.run(renamed);
            site.run("CREATE TABLE more(id TEXT PRIMARY KEY, s TEXT)");
            site.replica.fold().unwrap();
        }
        a.run("INSERT INTO more VALUES('m', 'everybody''s')");
        settle(&mut a, &mut b);
        let seen =
            ["SELECT s FROM ex2", "SELECT s FROM lo2", "SELECT s FROM more"].map(|sql| b.rows(sql));
        assert_eq!(seen, [vec![], vec![], vec!["everybody's".to_owned()]], "{renamed}");
        assert_eq!(a.rows("SELECT s FROM ex2 UNION ALL SELECT s FROM lo2"), ["mine", "mine"]);
        agree(&mut [&mut a, &mut b]);
    }
}

/// A second column of a name cannot be told to others under a third, so after a rebuild it is another to all: a site
/// without rows has no way to know better.
#[test]
fn mig_rename_a_second_column_of_its_name_in_a_rebuild() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, "CREATE TABLE t(k TEXT PRIMARY KEY, n INT)");
    let again = "ALTER TABLE t RENAME COLUMN n TO old; ALTER TABLE t ADD COLUMN n INT";
    let rebuild = "CREATE TABLE new(k TEXT PRIMARY KEY, old INT, more INT); \
                   INSERT INTO new SELECT k, old, n FROM t; DROP TABLE t; ALTER TABLE new RENAME TO t";
    for site in [&mut a, &mut b] {
        site.run(again);
        site.replica.fold().unwrap();
    }
    b.run(rebuild);
    b.replica.fold().unwrap();
    a.run("INSERT INTO t VALUES('x', 2, 3)");
    settle(&mut a, &mut b);
    a.run(rebuild);
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["x|2|3"]);
    assert_eq!(b.rows("SELECT * FROM t"), ["x|2|3"]);
    agree(&mut [&mut a, &mut b]);
}

/// A name that is given twice and goes on: who runs all at once has neither step, and hears of the last name.
#[test]
fn mig_rename_the_second_of_a_name_before_any_command() {
    let columns = ["RENAME COLUMN p TO y", "ADD COLUMN p", "RENAME COLUMN p TO z"];
    let columns = columns.map(|step| format!("ALTER TABLE t {step}"));
    let tables = ["ALTER TABLE t RENAME TO y", "CREATE TABLE t(k TEXT PRIMARY KEY, p)"];
    let tables = [tables[0], tables[1], "ALTER TABLE t RENAME TO z"].map(str::to_owned);
    for (steps, reads, writes) in [
        (columns, "SELECT k, y, z FROM t", "INSERT INTO t(k, y, z) VALUES('?', 'y?', 'z?')"),
        (
            tables,
            "SELECT k, y.p, z.p FROM y JOIN z USING (k)",
            "INSERT INTO y VALUES('?', 'y?'); INSERT INTO z VALUES('?', 'z?')",
        ),
    ] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, "CREATE TABLE t(k TEXT PRIMARY KEY, p)");
        for step in &steps {
            a.run(step);
            a.replica.fold().unwrap();
        }
        a.run(&writes.replace('?', "1"));
        b.run(&steps.join(";"));
        b.run(&writes.replace('?', "2"));
        settle(&mut a, &mut b);
        agree(&mut [&mut a, &mut b]);
        for site in [&a, &b] {
            assert_eq!(site.rows(&format!("{reads} ORDER BY k")), ["1|y1|z1", "2|y2|z2"]);
            assert_eq!(site.replica.status().unwrap().kept, []);
        }
    }
}
