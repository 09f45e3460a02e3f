//! Policy `T.ids=local`: each site has numbers of its own, and none ever changes there (R-OWN).

use crate::random::{Random, seeds};
use crate::site::{Site, World};
use std::collections::BTreeMap;
use synqlite_core::Policy;

const SCHEMA: &str = "CREATE TABLE c(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
    CREATE TABLE i(id INTEGER PRIMARY KEY AUTOINCREMENT, c INTEGER REFERENCES c(id) ON DELETE CASCADE, up INTEGER REFERENCES i(id),
        tag TEXT, UNIQUE(c, tag));
    CREATE TABLE note(id TEXT PRIMARY KEY, c TEXT, body TEXT);";
const POLICIES: &[(&str, &str)] = &[("c.ids", "local"), ("i.ids", "local"), ("note.refs", "c:c")];

/// What people see, whatever the numbers.
const SEEN: &str = "SELECT i.tag, c.name, above.tag FROM i LEFT JOIN c ON c.id = i.c \
    LEFT JOIN i AS above ON above.id = i.up ORDER BY 1, 2, 3";
const NOTES: &str =
    "SELECT note.id, c.name, body FROM note LEFT JOIN c ON c.id = note.c ORDER BY 1";

fn sites(world: &World, names: &[&str]) -> Vec<Site> {
    let mut first = world.init_with(names[0], SCHEMA, POLICIES);
    let others: Vec<Site> =
        names[1..].iter().map(|name| world.clone_site(&mut first, name)).collect();
    [first].into_iter().chain(others).collect()
}

/// All pull from all, until nothing is left to say.
fn meet(sites: &mut [Site]) {
    for _ in 0..3 {
        for i in 0..sites.len() {
            for j in (0..sites.len()).filter(|&j| j != i) {
                let [x, y] = sites.get_disjoint_mut([i, j]).unwrap();
                x.pull(y);
            }
        }
    }
}

/// All show the same rows, under whatever numbers.
fn agree(sites: &mut [Site]) {
    meet(sites);
    let digest = sites[0].replica.digest().unwrap();
    let (seen, notes) = (sites[0].rows(SEEN), sites[0].rows(NOTES));
    for site in sites.iter() {
        assert_eq!((site.rows(SEEN), site.rows(NOTES)), (seen.clone(), notes.clone()));
        assert_eq!(site.replica.digest().unwrap(), digest);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    let (first, rest) = sites.split_first_mut().unwrap();
    for other in rest {
        assert_eq!(first.replica.pull_from(&mut other.replica, false).unwrap().rows, 0);
    }
}

#[test]
fn who_added_a_row_finds_it_under_its_number() {
    let world = World::new();
    let mut all = sites(&world, &["till", "laptop"]);
    all[0].run("INSERT INTO c(name) VALUES('Bob'); INSERT INTO i(c, tag) VALUES(1, 'of Bob')");
    all[1].run("INSERT INTO c(name) VALUES('Ann'); INSERT INTO i(c, tag) VALUES(1, 'of Ann')");
    agree(&mut all);
    for (site, name) in [(&all[0], "Bob"), (&all[1], "Ann")] {
        assert_eq!(site.row("SELECT name FROM c WHERE id = 1"), name);
        assert_eq!(site.row("SELECT tag FROM i WHERE id = 1"), format!("of {name}"));
        assert_eq!(site.row("SELECT count(DISTINCT id) FROM c"), "2");
        assert!(site.replica.closed_conflicts().unwrap().is_empty(), "nothing was renumbered");
    }
    // Both go by the numbers that they know, and mean what they knew.
    all[0].run(
        "INSERT INTO i(c, tag) VALUES(1, 'more of Bob'); INSERT INTO note VALUES('n', 1, 'of Bob')",
    );
    all[1].run("INSERT INTO i(c, tag, up) VALUES(1, 'more of Ann', 1); UPDATE c SET name = 'Anna' WHERE id = 1");
    agree(&mut all);
    assert_eq!(
        all[0].rows(SEEN),
        ["more of Ann|Anna|of Ann", "more of Bob|Bob|NULL", "of Ann|Anna|NULL", "of Bob|Bob|NULL"]
    );
    assert_eq!(all[1].row(NOTES), "n|Bob|of Bob");
}

#[test]
fn a_clone_has_the_numbers_of_its_origin_for_good() {
    let world = World::new();
    let mut all = sites(&world, &["a", "b"]);
    all[0].run("INSERT INTO c VALUES(7, 'seven'), (9, 'nine')");
    let late = world.clone_site(&mut all[0], "late");
    all.push(late);
    all[1].run("INSERT INTO c VALUES(7, 'other seven')");
    agree(&mut all);
    assert_eq!(all[0].rows("SELECT * FROM c"), ["7|seven", "9|nine", "10|other seven"]);
    assert_eq!(all[1].row("SELECT name FROM c WHERE id = 7"), "other seven");
    assert_eq!(all[2].rows("SELECT * FROM c WHERE id < 10"), ["7|seven", "9|nine"]);
}

/// A user gave the number of a hidden row to another, which was hidden too: that is who is known by it.
#[test]
fn the_later_of_two_hidden_rows_keeps_their_number() {
    let world = World::new();
    let tables = "CREATE TABLE p(u PRIMARY KEY); \
        CREATE TABLE t(k INTEGER PRIMARY KEY AUTOINCREMENT, w, p REFERENCES p(u))";
    let mut a = world.init_with("a", tables, &[("t.ids", "local")]);
    let mut b = world.clone_site(&mut a, "b");
    a.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES(4, 'old', 'x')");
    b.pull(&mut a);
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT * FROM t"), [""; 0]);
    a.run("INSERT INTO t VALUES(4, 'new', 'x')");
    b.run("INSERT INTO p VALUES('x')");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT w, k FROM t ORDER BY w"), ["new|4", "old|5"]);
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT w FROM t ORDER BY w"), ["new", "old"]);
}

/// A user may give a row another number, for his site alone.
#[test]
fn a_number_that_a_user_changes_changes_there() {
    let world = World::new();
    let mut all = sites(&world, &["a", "b"]);
    all[0].run("INSERT INTO c VALUES(1, 'one'); INSERT INTO i(c, tag) VALUES(1, 't')");
    agree(&mut all);
    all[0].run("PRAGMA foreign_keys = OFF; UPDATE c SET id = 5; UPDATE i SET c = 5");
    agree(&mut all);
    assert_eq!(all[0].row("SELECT id, name FROM c"), "5|one");
    assert_eq!(all[1].row("SELECT id, name FROM c"), "1|one");
}

#[test]
fn the_policy_may_come_late_and_go_again() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let b = world.clone_site(&mut a, "b");
    let mut all = [a, b];
    all[0].run("INSERT INTO c(name) VALUES('first')");
    all[1].run("INSERT INTO c(name) VALUES('second')");
    meet(&mut all);
    let set = |site: &mut Site, value: &str| {
        site.replica.set_policies(&[Policy::new("c.ids", value).unwrap()]).unwrap();
    };
    set(&mut all[0], "local");
    agree(&mut all);
    assert_eq!(all[1].rows("SELECT * FROM c"), ["1|first", "2|second"], "as they were");
    all[0].run("INSERT INTO c(name) VALUES('third')");
    all[1]
        .run("INSERT INTO c(name) VALUES('fourth'); INSERT INTO i(c, tag) VALUES(3, 'of fourth')");
    agree(&mut all);
    assert_eq!(all[0].row("SELECT id FROM c WHERE name = 'third'"), "3");
    assert_eq!(all[1].row("SELECT id FROM c WHERE name = 'fourth'"), "3");
    set(&mut all[1], "shared");
    agree(&mut all);
    // Who inserted first keeps the number that he gave.
    for site in &all {
        assert_eq!(site.rows("SELECT * FROM c"), ["1|first", "2|second", "3|third", "4|fourth"]);
    }
    assert_eq!(all[0].row(SEEN), "of fourth|fourth|NULL");
}

#[test]
fn a_table_whose_numbers_decide_something_is_refused() {
    let world = World::new();
    let mut site = world.init_with(
        "a",
        "CREATE TABLE t(id INTEGER PRIMARY KEY CHECK(id < 100)); CREATE TABLE k(id TEXT PRIMARY KEY, of);
         CREATE TABLE n(id INTEGER PRIMARY KEY);
         CREATE TABLE u(id INTEGER PRIMARY KEY, v, UNIQUE(id, v));
         CREATE TABLE r(id INTEGER PRIMARY KEY REFERENCES t(id));
         CREATE TABLE tt(id INTEGER PRIMARY KEY CHECK(id < 100));
         CREATE TABLE o(id INTEGER PRIMARY KEY); CREATE TABLE oo(id TEXT PRIMARY KEY, o INTEGER REFERENCES o(id) CHECK(o < 9));
         CREATE TABLE q(id INTEGER PRIMARY KEY); CREATE TABLE qq(q TEXT PRIMARY KEY REFERENCES q(id));
         CREATE TABLE d(id INTEGER PRIMARY KEY);
         CREATE TABLE dd(id TEXT PRIMARY KEY, d INTEGER DEFAULT 1 REFERENCES d(id) ON DELETE SET DEFAULT);
         CREATE TABLE f(id INTEGER PRIMARY KEY); CREATE TABLE ff(id TEXT PRIMARY KEY, f DOUBLE REFERENCES f(id));
         CREATE TABLE e(id INTEGER PRIMARY KEY); CREATE TABLE ee(id TEXT PRIMARY KEY, e INTEGER REFERENCES e(id), gone);
         CREATE UNIQUE INDEX e1 ON ee(e, id) WHERE gone IS NULL;
         CREATE UNIQUE INDEX e2 ON ee(e) WHERE e IS NOT NULL;",
        &[("tt.identity", "birth"), ("k.refs", "of:n")],
    );
    for (table, why) in [
        ("t", "is not numbered by SQLite"),
        ("tt", "has a CHECK over its number"),
        ("k", "is not numbered by SQLite"),
        ("u", "has a UNIQUE index over its number"),
        ("r", "is not numbered by SQLite"),
        ("n", "it needs AUTOINCREMENT"),
        ("o", "column o of table oo that a CHECK reads"),
        ("q", "column q of table qq of a unique index that is not simply of integers"),
        ("d", "column d of table dd whose default an action would set"),
        ("f", "column f of table ff whose type, REAL, cannot keep every number"),
        ("x", "table x"),
    ] {
        let policy = Policy::new(&format!("{table}.ids"), "local").unwrap();
        let error = site.replica.set_policies(&[policy]).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    site.replica.set_policies(&[Policy::new("e.ids", "local").unwrap()]).unwrap();
    assert_eq!(site.replica.idle_policies().unwrap(), []);
    site.run("ALTER TABLE ee ADD COLUMN more CHECK(e < 9)");
    let why = "table e is referred to by column e of table ee that a CHECK reads";
    assert_eq!(site.replica.idle_policies().unwrap(), [("e.ids".to_owned(), why.to_owned())]);
}

/// A statement of an application that knows the rows of its site by their numbers.
fn write(r: &mut Random, fresh: &str) -> String {
    let any = |r: &mut Random, table: &str| {
        format!("(SELECT id FROM {table} ORDER BY id LIMIT 1 OFFSET {})", r.below(5))
    };
    match r.below(11) {
        0..=2 => format!("INSERT INTO c(name) VALUES('{fresh}')"),
        3 => format!("INSERT OR IGNORE INTO c(name) VALUES('n{}')", r.below(4)),
        4 | 5 => format!(
            "INSERT OR IGNORE INTO i(c, up, tag) VALUES({}, {}, '{}')",
            any(r, "c"),
            any(r, "i"),
            if r.below(3) == 0 { format!("t{}", r.below(3)) } else { fresh.to_owned() }
        ),
        6 => format!("UPDATE OR IGNORE c SET name = '{fresh}' WHERE id = {}", any(r, "c")),
        7 => format!("UPDATE OR IGNORE i SET c = {} WHERE id = {}", any(r, "c"), any(r, "i")),
        8 => format!(
            "DELETE FROM c WHERE id = {} AND id NOT IN (SELECT c FROM i WHERE id IN (SELECT up FROM i)) \
             AND id NOT IN (SELECT c FROM note WHERE c NOT NULL)",
            any(r, "c")
        ),
        9 => format!(
            "DELETE FROM i WHERE id = {} AND id NOT IN (SELECT up FROM i WHERE up NOT NULL)",
            any(r, "i")
        ),
        _ => format!(
            "INSERT OR REPLACE INTO note VALUES('{}', {}, '{fresh}')",
            r.below(4),
            any(r, "c")
        ),
    }
}

/// By what nobody changes of a row, its number. SQLite itself gives it to no other: the table has AUTOINCREMENT.
fn numbers(site: &Site) -> BTreeMap<String, String> {
    let sql = "SELECT 'i' || tag, id FROM i WHERE tag LIKE 'w%'";
    let pair = |row: &String| row.split_once('|').map(|(a, b)| (a.to_owned(), b.to_owned()));
    site.rows(sql).iter().filter_map(pair).collect()
}

#[test]
fn no_number_changes_in_random_histories() {
    for seed in seeds(16) {
        let mut r = Random::new(seed);
        let world = World::new();
        let mut all = sites(&world, &["a", "b", "c"]);
        let mut known: Vec<BTreeMap<String, String>> = vec![BTreeMap::new(); 3];
        for step in 0..60 {
            let at = r.below(3) as usize;
            match r.below(5) {
                0..=2 => {
                    let sql = write(&mut r, &format!("w{step}"));
                    // What an action of a foreign key forbids here is not the point.
                    let _refused = all[at].app.execute_batch(&sql);
                }
                3 => drop(all[at].replica.fold().unwrap()),
                _ => {
                    let other = (at + 1 + r.below(2) as usize) % 3;
                    let [x, y] = all.get_disjoint_mut([at, other]).unwrap();
                    x.pull(y);
                }
            }
            for (site, known) in all.iter().zip(&mut known) {
                for (row, number) in numbers(site) {
                    let first = known.entry(row.clone()).or_insert_with(|| number.clone());
                    assert_eq!(*first, number, "seed {seed}, step {step}: row {row}");
                }
            }
        }
        agree(&mut all);
    }
}

/// Two sites whose numbers are their own, with a reference that nothing keeps: declared by policy, or by the
/// schema of a database whose programs never kept it.
fn loose(world: &World) -> Vec<[Site; 2]> {
    let policies = [("p.ids", "local"), ("c.refs", "x:p")];
    let declared = [("", &policies[..]), ("REFERENCES p(id)", &[policies[0], ("fk", "ignore")])];
    let sites = declared.into_iter().enumerate().map(|(i, (references, policies))| {
        let schema = format!(
            "CREATE TABLE p(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT);
             CREATE TABLE c(k TEXT PRIMARY KEY, x INTEGER {references}, more TEXT);
             CREATE TABLE d(k TEXT PRIMARY KEY, r INTEGER REFERENCES p(id));
             INSERT INTO p VALUES(1, 'one'), (2, 'two'); INSERT INTO c VALUES('c', 1, '')"
        );
        let mut a = world.init_with(&format!("a{i}"), &schema, policies);
        let b = world.clone_site(&mut a, &format!("b{i}"));
        for site in [&a, &b] {
            site.app.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        }
        [a, b]
    });
    sites.collect()
}

/// Both refer to the same rows.
fn alike(all: &mut [Site; 2]) {
    let [a, b] = all;
    for _ in 0..2 {
        a.replica.pull_from(&mut b.replica, false).unwrap();
        b.replica.pull_from(&mut a.replica, false).unwrap();
    }
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
    for site in all {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

const REFERS: &str = "SELECT x, name FROM c LEFT JOIN p ON p.id = x";

#[test]
fn a_loose_reference_follows_the_row_whose_number_a_user_changes() {
    for mut all in loose(&World::new()) {
        all[1].run("UPDATE p SET id = 101 WHERE id = 1");
        alike(&mut all);
        assert_eq!(all[1].row(REFERS), "101|one");
        assert_eq!(all[0].row(REFERS), "1|one");
        // Where another row has the number now, the reference is to that.
        all[0].run("UPDATE p SET id = 9 WHERE id = 1; UPDATE p SET id = 1 WHERE id = 2");
        alike(&mut all);
        assert_eq!(all[0].row(REFERS), "1|two");
        assert_eq!(all[1].row(REFERS), "2|two");
    }
}

/// A number that a row had is that row's for good, also to a program that writes it when the row is gone.
#[test]
fn a_number_of_a_row_that_went_is_to_that_row() {
    let writes = ["UPDATE c SET x = 2", "DELETE FROM p WHERE id = 2"];
    for (first, fold) in [(0, false), (0, true), (1, false), (1, true)] {
        for mut all in loose(&World::new()) {
            all[1].run(writes[first]);
            if fold {
                all[1].replica.fold().unwrap();
            }
            all[1].run(writes[1 - first]);
            all[1].replica.fold().unwrap();
            all[0].run("INSERT INTO d VALUES('d', 2)");
            alike(&mut all);
            let name = "SELECT name FROM c LEFT JOIN p ON p.id = x";
            assert_eq!(all[0].row(name), all[1].row(name));
        }
    }
}

/// A program that writes 0 for none means it for all sites.
#[test]
fn a_number_of_nobody_ends_a_reference_elsewhere() {
    for mut all in loose(&World::new()) {
        all[1].run("UPDATE c SET x = 0");
        alike(&mut all);
        assert_eq!(all[1].row(REFERS), "0|NULL");
        assert_eq!(all[0].row(REFERS), "NULL|NULL");
        all[0].run("UPDATE c SET more = 'a'");
        alike(&mut all);
        // What was nobody's here stays as it is.
        all[0].run("UPDATE c SET x = -1");
        alike(&mut all);
        assert_eq!((all[0].row(REFERS), all[1].row(REFERS)), ("-1|NULL".into(), "0|NULL".into()));
        // Here 1 is another row's than there, where it is nobody's.
        all[1].run("UPDATE c SET x = 1; UPDATE p SET id = 5 WHERE id = 1");
        all[0].run("UPDATE c SET more = 'b'");
        alike(&mut all);
    }
}

/// A number that means nobody is shown where it was written, and no row that comes gets it.
#[test]
fn a_number_of_nobody_stays_nobodys() {
    let world = World::new();
    let mut all = sites(&world, &["a", "b"]);
    all[1].run("INSERT INTO note VALUES('none', 0, ''), ('later', 1, '')");
    all[1].replica.fold().unwrap();
    all[0].run("INSERT INTO c(name) VALUES('Ann'), ('Bob')");
    meet(&mut all);
    assert_eq!(all[1].rows("SELECT id, c FROM note ORDER BY id"), ["later|1", "none|0"]);
    assert_eq!(all[1].rows("SELECT id, name FROM c"), ["2|Bob", "3|Ann"]);
    assert_eq!(all[0].rows("SELECT id, c FROM note ORDER BY id"), ["later|NULL", "none|NULL"]);
    agree(&mut all);
    // SQLite gives the number itself: what was written there still means nobody to the others.
    all[1].run("INSERT INTO c(id, name) VALUES(1, 'Carl')");
    meet(&mut all);
    for site in &all {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    // Where numbers are shared again, so are those.
    let policy = Policy::new("c.ids", "shared").unwrap();
    all[0].replica.set_policies(&[policy]).unwrap();
    agree(&mut all);
    assert_eq!(all[0].rows("SELECT id, c FROM note ORDER BY id"), ["later|1", "none|0"]);
}

/// A number that shows NULL where it came to, as it means nobody, is shown once it is no number of such a table.
/// Sites agree though one of them has a row under the number that means nobody.
#[test]
fn a_number_of_nobody_counts_as_none_where_a_user_gives_it_to_a_row() {
    for write in ["UPDATE g SET id = 2 WHERE id = 1", "INSERT INTO g VALUES(2, 'two')"] {
        let world = World::new();
        let schema = "CREATE TABLE g(id INTEGER PRIMARY KEY AUTOINCREMENT, v); CREATE TABLE p(id INTEGER PRIMARY KEY, r INTEGER);
            INSERT INTO g VALUES(1, 'one'); INSERT INTO p VALUES(1, 2)";
        let mut a = world.init_with("a", schema, &[("g.ids", "local"), ("p.refs", "r:g")]);
        let b = world.clone_site(&mut a, "b");
        b.run(write);
        let mut both = [a, b];
        meet(&mut both);
        assert_eq!(both[0].replica.digest().unwrap(), both[1].replica.digest().unwrap());
        // What is written there now is to the row that it sees.
        both[1].run("UPDATE p SET r = 1; UPDATE p SET r = 2");
        meet(&mut both);
        assert_eq!(both[0].replica.digest().unwrap(), both[1].replica.digest().unwrap());
        let join = "SELECT g.v FROM p JOIN g ON g.id = p.r";
        assert_eq!(both[0].rows(join), both[1].rows(join));
    }
}

#[test]
fn a_record_names_the_key_that_is_lost_on_all_sites() {
    let world = World::new();
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, up INTEGER NOT NULL DEFAULT 1,
        UNIQUE(name, up), UNIQUE(name))";
    let policies = [("t.ids", "local"), ("t.refs", "up:t")];
    let mut a = world.init_with("a", schema, &policies);
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    // A row is above itself, under a number that it has here alone; that of the last is nobody's.
    b.run("INSERT INTO t VALUES(1, 'x', 1)");
    b.replica.fold().unwrap();
    c.run("INSERT INTO t VALUES(1, 'y', 1)");
    c.replica.fold().unwrap();
    a.run("INSERT INTO t VALUES(5, 'x', 1)");
    let mut all = [a, b, c];
    agree_on(&mut all, "SELECT name, up = id FROM t ORDER BY name", &["x|1", "y|1"]);
    let digest = all[0].replica.digest().unwrap();
    for site in &mut all {
        assert_eq!(site.replica.digest().unwrap(), digest);
        let open = site.replica.conflicts().unwrap();
        assert_eq!(open.iter().map(|c| c.constraint.as_str()).collect::<Vec<_>>(), ["name"]);
    }
}

#[test]
fn a_number_of_nobody_is_a_number_again() {
    for refs in ["c:tag", "c:gone", "body:c"] {
        let world = World::new();
        let schema = format!("{SCHEMA} CREATE TABLE tag(id INTEGER PRIMARY KEY AUTOINCREMENT)");
        let mut a = world.init_with("a", &schema, &[("c.ids", "local"), ("note.refs", "c:c")]);
        let mut b = world.clone_site(&mut a, "b");
        b.run("INSERT INTO note VALUES('later', 7, '')");
        a.pull(&mut b);
        assert_eq!(a.row("SELECT c FROM note"), "NULL");
        if refs == "c:gone" {
            b.run("CREATE TABLE gone(id INTEGER PRIMARY KEY AUTOINCREMENT)");
        }
        b.replica.set_policies(&[Policy::new("note.refs", refs).unwrap()]).unwrap();
        for _ in 0..2 {
            a.pull(&mut b);
            b.pull(&mut a);
        }
        for site in [&a, &b] {
            assert_eq!(site.row("SELECT c FROM note"), "7", "{refs}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{refs}");
        }
    }
}

/// A key that refers to nobody is a key all the same.
#[test]
fn a_key_that_means_nobody_stays_a_key() {
    let world = World::new();
    let schema = "CREATE TABLE c(id INTEGER PRIMARY KEY AUTOINCREMENT, name);
        CREATE TABLE more(id INTEGER PRIMARY KEY REFERENCES c(id), text)";
    let mut a = world.init_with("a", schema, &[("c.ids", "local"), ("fk", "ignore")]);
    let b = world.clone_site(&mut a, "b");
    // Unlike `meet`: a reference may lead nowhere.
    let meet = |all: &mut [Site; 2]| {
        for _ in 0..2 {
            let [x, y] = all;
            x.replica.pull_from(&mut y.replica, false).unwrap();
            y.replica.pull_from(&mut x.replica, false).unwrap();
        }
    };
    let mut all = [a, b];
    all[1].run("INSERT INTO c VALUES(1, 'Ann')");
    meet(&mut all);
    all[0].run("INSERT INTO more VALUES(1, 'of Ann')");
    all[1].run("DELETE FROM c");
    meet(&mut all);
    for site in &all {
        assert_eq!(site.rows("SELECT text FROM more"), ["of Ann"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A row that shows NULL in one reference shows who it is to by the others.
#[test]
fn a_reference_is_answered_beside_one_that_an_action_has_set() {
    let world = World::new();
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE t(id INTEGER PRIMARY KEY, author INTEGER NOT NULL REFERENCES p(id),
            helper INTEGER REFERENCES p(id) ON DELETE SET NULL, what)";
    let mut a = world.init_with("a", schema, &[("p.ids", "local"), ("t.ids", "local")]);
    let b = world.clone_site(&mut a, "b");
    let mut all = [a, b];
    all[0].run("INSERT INTO p VALUES(1, 'Ann'), (2, 'Bob')");
    meet(&mut all);
    all[0].run("DELETE FROM p WHERE name = 'Bob'");
    all[1].run("INSERT INTO t VALUES(1, 1, 2, 'with help')");
    agree_on(
        &mut all,
        "SELECT what, name, helper FROM t JOIN p ON p.id = author",
        &["with help|Ann|NULL"],
    );
}

/// All show this.
fn agree_on(sites: &mut [Site], query: &str, rows: &[&str]) {
    meet(sites);
    for site in sites {
        assert_eq!(site.rows(query), rows);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// A line may fork where numbers are kept that mean nobody.
#[test]
fn a_restored_backup_is_heard_of_where_a_number_means_nobody() {
    let world = World::new();
    let mut all = sites(&world, &["a", "b", "c"]);
    all[2].run("INSERT INTO note VALUES('none', 0, '')");
    all[2].replica.fold().unwrap();
    let backup = std::fs::read(world.path("b")).unwrap();
    let mut b = all.remove(1);
    b.run("INSERT INTO c(name) VALUES('lost')");
    all[0].pull(&mut b);
    drop(b);
    std::fs::write(world.path("b"), backup).unwrap();
    let mut b = world.open("b");
    b.run("INSERT INTO c(name) VALUES('after')");
    // It hears of the new branch under the old name first.
    all[1].pull(&mut b);
    all.push(b);
    agree(&mut all);
    assert_eq!(all[1].rows("SELECT name FROM c ORDER BY 1"), ["after", "lost"]);
}

/// A counter stays one where another site says that it names rows.
#[test]
fn a_counter_names_no_rows() {
    let world = World::new();
    let schema = "CREATE TABLE c(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
        CREATE TABLE t(k TEXT PRIMARY KEY, n INTEGER)";
    let mut first = world.init_with("a", schema, &[("c.ids", "local")]);
    let second = world.clone_site(&mut first, "b");
    let mut all = [first, second];
    let set = |site: &mut Site, key: &str, value: &str| {
        site.replica.set_policies(&[Policy::new(key, value).unwrap()])
    };
    set(&mut all[0], "t.n", "counter").unwrap();
    set(&mut all[1], "t.refs", "n:c").unwrap();
    all[0].run("INSERT INTO t VALUES('x', 3)");
    all[1].run("INSERT INTO c(name) VALUES('Ann'), ('Bob'), ('Carl')");
    meet(&mut all);
    for site in &mut all {
        site.run("UPDATE t SET n = n + 1");
        let idle = site.replica.idle_policies().unwrap();
        assert_eq!((&*idle[0].0, idle.len()), ("t.refs", 1), "{idle:?}");
        assert!(idle[0].1.contains("column n of table t is a counter"), "{idle:?}");
        assert!(set(site, "t.refs", "n:c").unwrap_err().to_string().contains("is a counter"));
    }
    meet(&mut all);
    let digest = all[0].replica.digest().unwrap();
    for site in &all {
        assert_eq!(site.rows("SELECT * FROM t"), ["x|5"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        assert_eq!(site.replica.digest().unwrap(), digest);
    }
}

/// To others the reference is to the row that is gone, and shows NULL.
#[test]
fn a_row_inserted_anew_under_the_number_of_one_that_is_gone_is_not_what_the_digest_counts() {
    for (reference, policy) in [("INT", ("l.refs", "p:p")), ("REFERENCES p(id)", ("fk", "ignore"))]
    {
        let world = World::new();
        let schema = format!(
            "CREATE TABLE p(id INTEGER PRIMARY KEY AUTOINCREMENT, v);
             CREATE TABLE l(id INTEGER PRIMARY KEY, p {reference}); INSERT INTO p VALUES(1, 'old');"
        );
        let mut a = world.init_with("a", &schema, &[("p.ids", "local"), policy]);
        let mut b = world.clone_site(&mut a, "b");
        let meet = |a: &mut Site, b: &mut Site| {
            for _ in 0..2 {
                a.replica.pull_from(&mut b.replica, false).unwrap();
                b.replica.pull_from(&mut a.replica, false).unwrap();
            }
        };
        a.run("INSERT INTO l VALUES(1, 1)");
        b.run("DELETE FROM p");
        meet(&mut a, &mut b);
        a.run("INSERT INTO p VALUES(1, 'new')");
        meet(&mut a, &mut b);
        assert_eq!([a.row("SELECT p FROM l"), b.row("SELECT p FROM l")], ["1", "NULL"]);
        assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
    }
}

/// Where a row stands for another of its key, it also does for what refers to that, whatever else its number means.
#[test]
fn a_row_that_stands_for_another_is_counted_in_its_place() {
    let world = World::new();
    let schema = "CREATE TABLE c(id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE);
        CREATE TABLE i(id TEXT PRIMARY KEY, c INTEGER REFERENCES c(id), other INTEGER)";
    let mut a = world.init_with("a", schema, &[("c.ids", "local"), ("c.on_unique", "unify")]);
    let b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO c(name) VALUES('Ann')");
    b.run("INSERT INTO c(name) VALUES('Ann'); INSERT INTO i VALUES('x', 1, 1)");
    let mut both = [a, b];
    meet(&mut both);
    both[1].replica.set_policies(&[Policy::new("i.refs", "other:c").unwrap()]).unwrap();
    meet(&mut both);
    // Nobody said whom the plain 1 meant.
    assert_eq!(both[0].rows("SELECT * FROM i"), ["x|1|1"]);
    assert_eq!(both[1].rows("SELECT * FROM i"), ["x|2|1"]);
    assert_eq!(both[0].replica.digest().unwrap(), both[1].replica.digest().unwrap());
}

/// A line of an order has the order's number in its key, and so has what refers to the line; a visit has that of
/// its customer for its own.
#[test]
fn keys_that_hold_numbers_of_other_rows_are_counted_as_these() {
    let world = World::new();
    let schema = "CREATE TABLE o(id INTEGER PRIMARY KEY, who);
        CREATE TABLE line(o INT REFERENCES o(id), n INT, PRIMARY KEY(o, n));
        CREATE TABLE sent(id TEXT PRIMARY KEY, o INT, n INT, FOREIGN KEY(o, n) REFERENCES line(o, n));
        CREATE TABLE visit(id INTEGER PRIMARY KEY REFERENCES o(id));
        CREATE TABLE note(id TEXT PRIMARY KEY, visit INT REFERENCES visit(id), other INT);";
    let policies = [("o.ids", "local"), ("note.refs", "other:visit")];
    let mut a = world.init_with("a", schema, &policies);
    let mut b = world.clone_site(&mut a, "b");
    for site in [&mut a, &mut b] {
        let name = site.replica.path().file_stem().unwrap().to_string_lossy().into_owned();
        site.run(&format!(
            "INSERT INTO o VALUES(1, '{name}'); INSERT INTO line VALUES(1, 7); INSERT INTO visit VALUES(1);
             INSERT INTO sent VALUES('{name}', 1, 7); INSERT INTO note VALUES('{name}', 1, 1)"
        ));
    }
    let mut both = [a, b];
    meet(&mut both);
    for site in &both {
        let sent = "SELECT sent.id, who, sent.n FROM sent JOIN o ON o.id = sent.o ORDER BY 1";
        assert_eq!(site.rows(sent), ["a|a|7", "b|b|7"]);
        let notes = "SELECT note.id, o.who, p.who FROM note JOIN o ON o.id = visit \
                     JOIN o AS p ON p.id = other ORDER BY 1";
        assert_eq!(site.rows(notes), ["a|a|a", "b|b|b"]);
    }
    assert_eq!(both[0].replica.digest().unwrap(), both[1].replica.digest().unwrap());
}

/// A reference of several columns of which one is NULL is none, so a number in it is a value like others, unless a
/// foreign key of its own says what it means.
#[test]
fn a_number_in_half_a_reference_is_a_value() {
    for (own, shown) in [("", "1"), ("REFERENCES o(id)", "2")] {
        let world = World::new();
        let schema = format!(
            "CREATE TABLE o(id INTEGER PRIMARY KEY, who);
             CREATE TABLE line(o INT REFERENCES o(id), n INT, PRIMARY KEY(o, n));
             CREATE TABLE sent(id TEXT PRIMARY KEY, o INT {own}, n INT, FOREIGN KEY(o, n) REFERENCES line(o, n))"
        );
        let mut a = world.init_with("a", &schema, &[("o.ids", "local")]);
        let b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO o VALUES(1, 'of a')");
        b.run("INSERT INTO o VALUES(1, 'of b'); INSERT INTO sent VALUES('s', 1, NULL)");
        let mut both = [a, b];
        meet(&mut both);
        assert_eq!(both[0].rows("SELECT * FROM sent"), [format!("s|{shown}|NULL")]);
        assert_eq!(both[1].rows("SELECT * FROM sent"), ["s|1|NULL"]);
        assert_eq!(both[0].replica.digest().unwrap(), both[1].replica.digest().unwrap());
    }
}

/// Of a row that names one only by its number others show nothing but that it means nobody.
#[test]
fn a_key_that_holds_a_number_means_a_row_of_the_site_that_wrote_it() {
    let world = World::new();
    let schema = "CREATE TABLE o(id INTEGER PRIMARY KEY, who);
        CREATE TABLE visit(id INTEGER PRIMARY KEY REFERENCES o(id));
        CREATE TABLE note(id TEXT PRIMARY KEY, visit INT REFERENCES visit(id));";
    let mut a = world.init_with("a", schema, &[("o.ids", "local")]);
    let b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO o VALUES(1, 'a'); INSERT INTO visit VALUES(1)");
    b.run("PRAGMA foreign_keys = OFF; INSERT INTO note VALUES('to nobody', 1)");
    let mut both = [a, b];
    meet(&mut both);
    for site in &both {
        assert_eq!(site.rows("SELECT * FROM note"), [""; 0]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    assert_eq!(both[0].replica.digest().unwrap(), both[1].replica.digest().unwrap());
}
