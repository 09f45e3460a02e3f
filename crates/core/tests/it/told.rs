//! Values that gave way to others whose writers had not seen them: told on every site, once.

use crate::migrate::agree;
use crate::random::{Random, seeds};
use crate::site::{Site, World, settle};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_core::{ConflictKind, Selection, Verb};
use synqlite_wire::{Hlc, Stamp, Told, VersionVector};

const SCHEMA: &str = "CREATE TABLE t(id TEXT PRIMARY KEY, v, w); INSERT INTO t VALUES('k', 0, 0)";

/// Kind and text of all that a site tells.
fn told(site: &Site) -> Vec<(String, String)> {
    let closed = site.replica.closed_conflicts().unwrap();
    let mut told: Vec<_> = closed.into_iter().map(|c| (c.kind.to_string(), c.what)).collect();
    told.sort();
    told
}

#[track_caller]
fn tells(sites: &[&Site], kind: &str, parts: &[&str]) {
    for site in sites {
        let told = told(site);
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].0, kind, "{told:?}");
        assert!(parts.iter().all(|part| told[0].1.contains(part)), "{told:?}");
    }
}

fn three(schema: &str) -> (World, Site, Site, Site) {
    let world = World::new();
    let mut a = world.init("a", schema);
    let (b, c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
    (world, a, b, c)
}

#[test]
fn both_writers_are_told_and_so_is_who_merges_both() {
    for order in 0..4 {
        let (_world, mut a, mut b, mut c) = three(SCHEMA);
        a.run("UPDATE t SET v = 'ann'");
        b.run("UPDATE t SET v = 'bob'");
        match order {
            0 => (b.pull(&mut a), c.pull(&mut a)),
            1 => (c.pull(&mut a), c.pull(&mut b)),
            2 => (c.pull(&mut b), c.pull(&mut a)),
            _ => (a.pull(&mut b), c.pull(&mut a)),
        };
        for _ in 0..2 {
            a.pull(&mut c);
            c.pull(&mut b);
            b.pull(&mut a);
            a.pull(&mut b);
            c.pull(&mut a);
        }
        for site in [&a, &b, &c] {
            assert_eq!(site.rows("SELECT v FROM t"), ["bob"]);
        }
        tells(&[&a, &b, &c], "overwritten", &["v: 'ann'", "'bob'"]);
    }
}

#[test]
fn who_had_seen_what_he_overwrites_loses_nothing() {
    let (_world, mut a, mut b, mut c) = three(SCHEMA);
    a.run("UPDATE t SET v = 'ann', w = 'same'");
    b.run("UPDATE t SET w = 'same'");
    c.pull(&mut a);
    b.pull(&mut a);
    b.run("UPDATE t SET v = 'bob'");
    a.pull(&mut b);
    c.pull(&mut b);
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT * FROM t"), ["k|bob|same"]);
        assert_eq!(told(site), []);
    }
}

#[test]
fn an_update_that_a_delete_had_not_seen_is_told() {
    for order in 0..3 {
        let (_world, mut a, mut b, mut c) = three(SCHEMA);
        a.run("UPDATE t SET v = 'ann'");
        b.run("DELETE FROM t");
        match order {
            0 => b.pull(&mut a),
            1 => c.pull(&mut a),
            _ => c.pull(&mut b),
        };
        for _ in 0..2 {
            c.pull(&mut b);
            c.pull(&mut a);
            a.pull(&mut c);
            b.pull(&mut c);
        }
        for site in [&a, &b, &c] {
            assert_eq!(site.rows("SELECT count(*) FROM t"), ["0"]);
        }
        tells(&[&a, &b, &c], "update_lost", &["deleted"]);
    }
}

/// What made the row go is the delete that nobody here had seen, not the latest that is known: who had
/// written had seen that one.
#[test]
fn an_update_is_told_to_its_writer_whichever_delete_was_the_latest() {
    let (world, mut a, mut b, mut c) = three(SCHEMA);
    let mut d = world.clone_site(&mut a, "d");
    d.run("DELETE FROM t; INSERT INTO t VALUES('k', 1, 1)");
    b.pull(&mut d);
    d.run("DELETE FROM t");
    c.run("DELETE FROM t");
    b.pull(&mut c);
    assert_eq!(b.rows("SELECT v FROM t"), ["1"]);
    b.run("UPDATE t SET v = 'bob'");
    a.pull(&mut b);
    a.pull(&mut d);
    for site in [&mut b, &mut c, &mut d] {
        site.pull(&mut a);
        assert_eq!(site.rows("SELECT v FROM t"), [""; 0]);
    }
    let by = format!("site {} deleted", &d.replica.site().to_string()[..8]);
    tells(&[&a, &b, &c, &d], "update_lost", &["v: 'bob'", &by]);
}

/// Ann's clock of the row is odd, Bob's insert is later than every delete that he knows: alone the row lives
/// with each of them, and together it is gone.
#[test]
fn updates_of_a_row_that_two_sites_have_and_no_delete_spared_are_told() {
    let (world, mut a, mut b, mut c) = three(SCHEMA);
    let mut d = world.clone_site(&mut a, "d");
    d.run("DELETE FROM t; INSERT INTO t VALUES('k', 1, 1)");
    a.pull(&mut d);
    d.run("DELETE FROM t");
    let minutes = |n| format!("UPDATE synqlite_journal SET at = at + {n} / 1440.0");
    b.run(&format!("DELETE FROM t; INSERT INTO t VALUES('k', 2, 2); {}", minutes(1)));
    b.pull(&mut d);
    c.run(&format!("DELETE FROM t; {}", minutes(2)));
    a.pull(&mut c);
    assert_eq!([a.rows("SELECT v FROM t"), b.rows("SELECT v FROM t")], [["1"], ["2"]]);
    a.run("UPDATE t SET v = 'ann'");
    b.run("UPDATE t SET w = 'bob'");
    a.pull(&mut b);
    for site in [&mut b, &mut c, &mut d] {
        site.pull(&mut a);
        assert_eq!(site.rows("SELECT v FROM t"), [""; 0]);
    }
    for site in [&a, &b, &c, &d] {
        let told = told(site);
        let of = |value: &str, by: &Site| {
            let by = format!("site {} deleted", &by.replica.site().to_string()[..8]);
            told.iter().any(|(kind, what)| {
                kind == "update_lost" && what.contains(value) && what.contains(&by)
            })
        };
        assert!(of("v: 'ann'", &d) && of("w: 'bob'", &c), "{told:?}");
    }
}

/// CASCADE takes along a row that somebody has changed before, whom the deleting site had not heard. No
/// record says so: nothing of the row is later than the delete.
#[test]
fn an_update_of_a_row_that_fell_with_its_parent_is_told() {
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY, v); INSERT INTO p VALUES('p', 0), ('q', 0);
        CREATE TABLE c(id TEXT PRIMARY KEY, v, p TEXT REFERENCES p ON DELETE CASCADE);
        INSERT INTO c VALUES('k', 0, 'p')";
    let ends = ["DELETE FROM p WHERE id = 'p'", "REPLACE INTO p VALUES('p', 1)"];
    for (end, order) in ends.iter().flat_map(|end| (0..3).map(move |order| (end, order))) {
        for (write, moved) in [("v = 'ann'", false), ("v = 'ann', p = 'q'", true)] {
            let (_world, mut a, mut b, mut c) = three(schema);
            a.run(&format!("UPDATE c SET {write}"));
            b.run(end);
            match order {
                0 => b.pull(&mut a),
                1 => c.pull(&mut a),
                _ => c.pull(&mut b),
            };
            for _ in 0..2 {
                c.pull(&mut b);
                c.pull(&mut a);
                a.pull(&mut c);
                b.pull(&mut c);
            }
            for site in [&a, &b, &c] {
                assert_eq!(site.replica.open_conflicts().unwrap(), 0);
            }
            if moved {
                // It has another parent, so it is still there, and nothing is lost.
                assert_eq!(b.rows("SELECT v FROM c"), ["ann"]);
                assert!([&a, &b, &c].iter().all(|site| told(site).is_empty()));
            } else {
                tells(&[&a, &b, &c], "update_lost", &["v: 'ann'", "deleted"]);
            }
        }
    }
}

#[test]
fn two_rows_that_become_one_tell_what_gave_way() {
    let (_world, mut a, mut b, mut c) = three("CREATE TABLE x(v TEXT PRIMARY KEY, who)");
    a.run("INSERT INTO x VALUES('v1', 'ann')");
    a.replica.fold().unwrap();
    a.run("UPDATE x SET v = 'v2'");
    b.run("INSERT INTO x VALUES('v1', 'bob')");
    c.pull(&mut b);
    for _ in 0..2 {
        b.pull(&mut a);
        a.pull(&mut b);
        c.pull(&mut a);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT who FROM x"), ["bob"]);
        let told = told(site);
        let kinds: Vec<_> = told.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["key_merge", "overwritten"], "{told:?}");
        assert!(told[0].1.contains("who: 'ann'") && told[1].1.contains("v: 'v2'"), "{told:?}");
    }
}

/// A row that is hidden where another is inserted with its key: nobody who wrote the second can have
/// seen the first. Whatever hides it, and whoever inserts anew.
#[test]
fn values_of_a_hidden_row_whose_key_is_inserted_anew_are_told() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES(1);
        CREATE TABLE t(k TEXT PRIMARY KEY, v, u UNIQUE, p INT REFERENCES p ON DELETE SET NULL);
        CREATE TABLE i(k TEXT PRIMARY KEY, v, u UNIQUE ON CONFLICT IGNORE);
        INSERT INTO t VALUES('m', 'first', 9, 1);";
    let dangles = "PRAGMA foreign_keys = OFF; INSERT INTO t VALUES('k', 'lost', 1, 7)";
    let hides = ["INSERT INTO t VALUES('x', 0, 1, 1)", "INSERT INTO i VALUES('x', 0, 1)"];
    let loses = ["INSERT INTO t VALUES('k', 'lost', 1, 1)", "INSERT INTO i VALUES('k', 'lost', 1)"];
    let anew = "INSERT INTO t VALUES('k', 'kept', 2, 1)";
    let replaced = "PRAGMA foreign_keys = OFF; UPDATE t SET k = 'x' WHERE k = 'm';
        REPLACE INTO t VALUES('m', 'lost', 9, 7)";
    let cases = [
        (None, dangles, anew),
        (None, replaced, "INSERT INTO t VALUES('m', 'kept', 2, 1)"),
        (Some(hides[0]), loses[0], anew),
        (Some(hides[1]), loses[1], "INSERT INTO i VALUES('k', 'kept', 2)"),
    ];
    for (case, own) in cases.iter().flat_map(|case| [(case, false), (case, true)]) {
        let (winner, loser, anew) = case;
        let (_world, mut a, mut b, mut c) = three(schema);
        if let Some(winner) = winner {
            a.run(winner);
        }
        b.run(loser);
        for _ in 0..2 {
            a.pull(&mut b);
            b.pull(&mut a);
        }
        assert_eq!(a.replica.conflicts().unwrap().len(), 1, "{loser}");
        if own { &b } else { &a }.run(anew);
        for _ in 0..2 {
            a.pull(&mut b);
            b.pull(&mut a);
            c.pull(&mut b);
        }
        for site in [&a, &b, &c] {
            let told = told(site);
            let of = |text: &str| told.iter().filter(|(_, what)| what.contains(text)).count();
            assert_eq!((of("v: 'lost'"), of("'kept'")), (1, 1), "{loser}, {own}: {told:?}");
            assert!(told.iter().any(|(kind, _)| kind == "key_merge"), "{told:?}");
        }
    }
}

/// A row was inserted anew on one site and deleted later on another, which had not seen that. It lives, hidden.
/// No trigger is left when a column gets another name, so it is taken for a dropped one.
#[test]
fn values_of_a_hidden_row_are_told_although_their_column_is_gone_before_a_fold() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, w, r REFERENCES t)";
    let (_world, mut a, mut b, mut c) = three(schema);
    a.run("PRAGMA foreign_keys = OFF; INSERT INTO t VALUES('k', 'ann', 'nobody')");
    b.pull(&mut a);
    b.run("INSERT INTO t VALUES('k', 'bob', NULL)");
    for site in [&mut a, &mut b, &mut c] {
        site.run(
            "CREATE TABLE n(k TEXT PRIMARY KEY, w, r REFERENCES t); INSERT INTO n SELECT * FROM t; \
             DROP TABLE t; ALTER TABLE n RENAME TO t; ALTER TABLE t RENAME w TO x",
        );
    }
    c.pull(&mut b);
    c.pull(&mut a);
    a.pull(&mut c);
    for site in [&a, &b, &c] {
        let told = told(site);
        let w = told.iter().find(|(_, what)| what.starts_with("w: 'ann' of site")).unwrap();
        assert!(w.0 == "key_merge" && w.1.contains("inserted the row anew"), "{told:?}");
    }
}

#[test]
fn what_was_inserted_anew_beside_a_delete_is_told_when_its_key_is_inserted_over() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, v, u UNIQUE); INSERT INTO t VALUES('k', 0, 0)";
    let (_world, mut a, mut b, mut c) = three(schema);
    b.run("INSERT INTO t VALUES('x', 'x', 1)");
    c.run("DELETE FROM t WHERE k = 'k'; INSERT INTO t VALUES('k', 'lost', 1)");
    c.replica.fold().unwrap();
    a.run("DELETE FROM t WHERE k = 'k'");
    a.pull(&mut c);
    assert_eq!(a.rows("SELECT k, v FROM t"), ["k|lost"]);
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT k, v FROM t"), ["x|x"]);
    b.run("INSERT INTO t VALUES('k', 'kept', 2)");
    for _ in 0..2 {
        a.pull(&mut b);
        c.pull(&mut a);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT k, v FROM t ORDER BY k"), ["k|kept", "x|x"]);
        let told = told(site);
        let of =
            told.iter().filter(|(kind, what)| kind == "key_merge" && what.contains("v: 'lost'"));
        assert_eq!(of.count(), 1, "{told:?}");
    }
}

/// A row that shows what it was before (R-FALLBACK), because another row has what was written: who
/// writes it anew or deletes it gives up what he does not see.
#[test]
fn values_that_a_row_does_not_show_are_told_when_it_is_written_or_deleted() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, v UNIQUE, w);
        INSERT INTO t VALUES('x', 'x0', 0), ('y', 'y0', 0)";
    let ends = [
        ("UPDATE t SET v = 'new' WHERE k = 'y'", "overwritten", "'new'"),
        ("DELETE FROM t WHERE k = 'y'", "update_lost", "deleted"),
        ("INSERT OR REPLACE INTO t VALUES('y', 'new', 1)", "overwritten", "'new'"),
        ("INSERT OR REPLACE INTO t VALUES('z', 'y0', 1)", "update_lost", "deleted"),
    ];
    for ((end, kind, part), own) in ends.iter().flat_map(|end| [(end, false), (end, true)]) {
        let (_world, mut a, mut b, mut c) = three(schema);
        a.run("UPDATE t SET v = 'lost' WHERE k = 'x'");
        b.run("UPDATE t SET v = 'lost' WHERE k = 'y'");
        for _ in 0..2 {
            a.pull(&mut b);
            b.pull(&mut a);
        }
        assert_eq!(a.rows("SELECT v FROM t"), ["lost", "y0"]);
        let site = if own { &mut b } else { &mut a };
        site.run("UPDATE t SET w = 1 WHERE k = 'y'");
        site.replica.fold().unwrap();
        let told_of = |site: &Site| {
            let of = |(of, what): &(String, String)| of == kind && what.contains("v: 'lost'");
            told(site).into_iter().filter(of).collect::<Vec<_>>()
        };
        assert!(told_of(site).is_empty(), "{end}");
        site.run(end);
        for _ in 0..2 {
            a.pull(&mut b);
            b.pull(&mut a);
            c.pull(&mut b);
        }
        for site in [&a, &b, &c] {
            let told = told_of(site);
            assert!(told.len() == 1 && told[0].1.contains(part), "{end}, {own}: {told:?}");
        }
    }
}

/// What a site keeps without showing it, because its schema lacks the table or the column, its user has
/// not seen when he makes them and writes before any command.
#[test]
fn values_that_were_kept_for_a_later_schema_are_told_when_they_were_written_over() {
    let (_world, mut a, mut b, mut c) = three(SCHEMA);
    let (table, column) =
        ("CREATE TABLE x(k TEXT PRIMARY KEY, w)", "ALTER TABLE t ADD COLUMN x DEFAULT 'none'");
    c.run(&format!("{table}; INSERT INTO x VALUES('k', 'ann'); {column}; UPDATE t SET x = 'eve'"));
    b.pull(&mut c);
    a.pull(&mut b);
    a.run(&format!("{table}; INSERT INTO x VALUES('k', 'bob'); {column}; UPDATE t SET x = 'sam'"));
    b.run(&format!("{table}; {column}"));
    for _ in 0..2 {
        b.pull(&mut a);
        c.pull(&mut b);
        a.pull(&mut c);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT w FROM x UNION ALL SELECT x FROM t"), ["bob", "sam"]);
        let told = told(site);
        let kinds: Vec<_> = told.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(kinds, ["key_merge", "overwritten"], "{told:?}");
        assert!(told[0].1.contains("w: 'ann'") && told[1].1.contains("x: 'eve'"), "{told:?}");
    }
}

/// Two writes meet on a site that lacks their table or their column.
#[test]
fn values_that_give_way_where_nothing_of_them_is_shown_are_told() {
    let schema = "CREATE TABLE t(id TEXT PRIMARY KEY, v, w);
        INSERT INTO t VALUES('k', 0, 0), ('d', 0, 0)";
    for order in 0..2 {
        let (_world, mut a, mut b, mut c) = three(schema);
        let migration = "CREATE TABLE x(k TEXT PRIMARY KEY, w); ALTER TABLE t ADD COLUMN x;";
        a.run(migration);
        a.run("INSERT INTO x VALUES('d', 0)");
        b.run(migration);
        b.pull(&mut a);
        c.pull(&mut a);
        a.run("INSERT INTO x VALUES('k', 'ann'); UPDATE t SET x = 'eve' WHERE id = 'k'");
        a.run("UPDATE x SET w = 'sue' WHERE k = 'd'; UPDATE t SET x = 'zoe' WHERE id = 'd'");
        b.run("INSERT INTO x VALUES('k', 'bob'); UPDATE t SET x = 'sam' WHERE id = 'k'");
        b.run("DELETE FROM x WHERE k = 'd'; DELETE FROM t WHERE id = 'd'");
        match order {
            0 => (c.pull(&mut a), c.pull(&mut b)),
            _ => (c.pull(&mut b), c.pull(&mut a)),
        };
        for _ in 0..2 {
            a.pull(&mut c);
            b.pull(&mut c);
            c.pull(&mut a);
        }
        c.run(migration);
        for site in [&mut a, &mut b, &mut c] {
            site.replica.fold().unwrap();
            assert_eq!(site.rows("SELECT w FROM x UNION ALL SELECT x FROM t"), ["bob", "sam"]);
            let told = told(site);
            let of = |text: &str| told.iter().filter(|(_, what)| what.contains(text)).count();
            let lost = [of("w: 'ann'"), of("x: 'eve'"), of("w: 'sue'"), of("x: 'zoe'")];
            assert_eq!((lost, told.len()), ([1; 4], 4), "{told:?}");
        }
    }
}

/// Both sites rename a column and rebuild the table at once, so the new name is a new column to each.
/// What one showed there, others have under the old name only; what the other wrote there is certain.
#[test]
fn what_a_rebuild_filled_in_is_told_when_it_gives_way() {
    let (_world, mut a, mut b, mut c) = three(SCHEMA);
    let migration = "CREATE TABLE n(id TEXT PRIMARY KEY, v, w, CHECK(w < 9));
        INSERT INTO n SELECT * FROM t; DROP TABLE t; ALTER TABLE n RENAME TO t;
        ALTER TABLE t RENAME COLUMN v TO x;";
    a.run(migration);
    a.replica.fold().unwrap();
    b.run("UPDATE t SET v = 'bob'");
    a.run("UPDATE t SET x = 'ann'");
    a.pull(&mut b);
    b.pull(&mut a);
    b.run(migration);
    c.run(migration);
    for _ in 0..3 {
        a.pull(&mut b);
        c.pull(&mut a);
        b.pull(&mut c);
    }
    for site in [&a, &b, &c] {
        assert_eq!(site.rows("SELECT x FROM t"), ["ann"]);
        let told = told(site);
        assert!(told.iter().any(|(_, what)| what.contains("x: 'bob'")), "{told:?}");
    }
}

/// A write of a cell: its value, and those whose values its writer had seen.
type Write = (i64, BTreeSet<i64>);

/// What sites write and pull at random, and who had seen what.
struct Play {
    rng: Random,
    sites: Vec<Site>,
    /// Writes that each site has seen.
    seen: Vec<BTreeSet<i64>>,
    /// Writes by cell.
    written: BTreeMap<(usize, usize), Vec<Write>>,
    count: i64,
}

const ROWS: usize = 2;
const COLUMNS: [&str; 2] = ["v", "w"];

impl Play {
    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n as u64) as usize
    }

    fn write(&mut self, site: usize) {
        let cell = (self.below(ROWS), self.below(COLUMNS.len()));
        self.count += 1;
        let (row, column, n) = (cell.0, COLUMNS[cell.1], self.count);
        self.sites[site].run(&format!("UPDATE t SET {column} = {n} WHERE id = {row}"));
        self.sites[site].replica.fold().unwrap();
        self.written.entry(cell).or_default().push((n, self.seen[site].clone()));
        self.seen[site].insert(n);
    }

    fn pull(&mut self, to: usize, from: usize) {
        let seen = self.seen[from].clone();
        self.seen[to].extend(seen);
        let [to, from] = self.sites.get_disjoint_mut([to, from]).unwrap();
        to.pull(from);
    }
}

#[test]
fn all_that_gave_way_unseen_is_told_everywhere_and_nothing_else() {
    for seed in seeds(16) {
        let world = World::new();
        let rows = (0..ROWS).map(|row| format!("INSERT INTO t VALUES({row}, 0, 0);"));
        let schema = format!(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, v INT, w INT); {}",
            rows.collect::<String>()
        );
        let mut first = world.init("0", &schema);
        let count = 2 + seed as usize % 3;
        let others: Vec<Site> =
            (1..count).map(|n| world.clone_site(&mut first, &n.to_string())).collect();
        let sites: Vec<Site> = [first].into_iter().chain(others).collect();
        let mut play = Play {
            rng: Random::new(seed),
            seen: vec![BTreeSet::new(); count],
            sites,
            written: BTreeMap::new(),
            count: 0,
        };
        for _ in 0..30 {
            let site = play.below(count);
            let other = (site + 1 + play.below(count - 1)) % count;
            match play.below(2) == 0 {
                true => play.write(site),
                false => play.pull(site, other),
            }
        }
        for _ in 0..2 {
            for site in 0..count {
                play.pull(site, (site + 1) % count);
                play.pull((site + 1) % count, site);
            }
        }
        let past: BTreeMap<i64, &BTreeSet<i64>> =
            play.written.values().flatten().map(|(n, past)| (*n, past)).collect();
        let mut lost = BTreeSet::new();
        for (&(row, column), writes) in &play.written {
            let sql = format!("SELECT {} FROM t WHERE id = {row}", COLUMNS[column]);
            let shown: i64 = play.sites[0].row(&sql).parse().unwrap();
            let seen = |n: &i64| writes.iter().any(|(_, past)| past.contains(n));
            let gone = writes.iter().map(|(n, _)| *n).filter(|n| *n != shown && !seen(n));
            lost.extend(gone);
        }
        for site in &play.sites {
            let mut found = BTreeSet::new();
            let mut pairs = BTreeSet::new();
            for (kind, what) in told(site) {
                assert_eq!(kind, "overwritten");
                let words: Vec<&str> = what.split_whitespace().collect();
                let [gone, stays] = [1, 8].map(|at| words[at].parse::<i64>().unwrap());
                assert!(!past[&stays].contains(&gone), "seed {seed}: {what}");
                assert!(pairs.insert((gone, stays)), "seed {seed}: {what} twice");
                found.insert(gone);
            }
            let missing: Vec<_> = lost.difference(&found).collect();
            assert!(missing.is_empty(), "seed {seed}: {missing:?} of {found:?}");
        }
    }
}

/// A newer program may have written to this file, or sent what it told.
#[test]
fn a_kind_that_is_not_known_is_told_as_it_is() {
    let schema = "CREATE TABLE t(id TEXT PRIMARY KEY, v UNIQUE)";
    let (_world, mut a, mut b, mut c) = three(schema);
    a.run("INSERT INTO t VALUES('k', 0)");
    b.run("INSERT INTO t VALUES('l', 0)");
    b.pull(&mut a);
    let stamp = Stamp { hlc: Hlc(1), site: b.replica.site() };
    let (mut delta, _) = b.replica.export(&VersionVector::default(), 0).unwrap();
    delta.told.push(Told {
        id: [7; 16],
        table: "t".into(),
        row: "'k'".into(),
        kind: "of_tomorrow".into(),
        what: "something".into(),
        lost: stamp,
        kept: stamp,
    });
    c.replica.merge(&delta, false).unwrap();
    tells(&[&c], "of_tomorrow", &["something"]);
    let (told, _) = c.replica.export(&VersionVector::default(), 0).unwrap();
    assert_eq!(told.told, delta.told);

    c.run("UPDATE synqlite_row SET kind = 'of_next_year' WHERE kind IS NOT NULL");
    let open = c.replica.conflicts().unwrap();
    assert_eq!(open[0].kind, ConflictKind::Other("of_next_year".into()));
    c.replica.settle_conflict(&open[0].id, Verb::Discard).unwrap();
    assert_eq!(c.replica.open_conflicts().unwrap(), 0);
}

/// Who skipped releases makes a column, writes it and renames it before any command: of what he held back of it what
/// gives way is told. What only a rebuild filled in gives way to it.
#[test]
fn what_is_written_to_a_column_that_is_made_and_renamed_at_once_is_told() {
    let add = "ALTER TABLE t ADD COLUMN f";
    let rename = "ALTER TABLE t RENAME COLUMN f TO g";
    let fill = "CREATE TABLE n(k TEXT PRIMARY KEY, f); INSERT INTO n SELECT k, coalesce(f, 0) FROM t; \
                DROP TABLE t; ALTER TABLE n RENAME TO t";
    for (write, shown) in [("UPDATE t SET f = 2", "2"), (fill, "1")] {
        let world = World::new();
        let mut a = world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY)");
        let mut b = world.clone_site(&mut a, "b");
        a.run(add);
        a.run("INSERT INTO t VALUES('x', 1)");
        settle(&mut a, &mut b);
        a.run(rename);
        a.replica.fold().unwrap();
        b.run(&format!("{add}; {write}; {rename}"));
        settle(&mut b, &mut a);
        for site in [&mut a, &mut b] {
            assert_eq!(site.rows("SELECT g FROM t"), [shown]);
            assert_eq!(told(site).len(), 1, "{write}");
        }
    }
}

#[test]
fn what_a_deleted_row_shows_for_another_ones_sake_gives_way_with_a_word() {
    let schema = "CREATE TABLE t(k TEXT PRIMARY KEY, v); \
                  CREATE TABLE r(id INTEGER PRIMARY KEY, t TEXT REFERENCES t(k)); \
                  INSERT INTO t VALUES('x', 'old')";
    let (_world, mut a, mut b, mut c) = three(schema);
    b.run("UPDATE t SET v = 'bob'");
    b.run("DELETE FROM t");
    b.replica.fold().unwrap();
    c.run("INSERT INTO r VALUES(1, 'x')");
    a.run("UPDATE t SET v = 'ann'");
    b.pull(&mut c);
    assert_eq!(b.rows("SELECT v FROM t"), ["bob"]);
    b.pull(&mut a);
    a.pull(&mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT v FROM t"), ["ann"]);
        let told = told(site);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].1.starts_with("v: 'bob' of site"), "{told:?}");
        assert!(told[0].1.contains("gives way to 'ann' of"), "{told:?}");
        assert!(told[1].1.starts_with("v: 'ann' of site"), "{told:?}");
        assert!(told[1].1.contains("does not stay"), "{told:?}");
    }
}

/// A write to a row that somebody who had not seen it deleted with its parent is lost when nothing protects the
/// parent any more, and is told then, by whatever that comes.
#[test]
fn what_falls_late_is_told_then() {
    for (by_undo, first) in [(true, true), (true, false), (false, true), (false, false)] {
        let world = World::new();
        let mut home = world.init(
            "home",
            "CREATE TABLE project(id TEXT PRIMARY KEY);
             CREATE TABLE task(id TEXT PRIMARY KEY, project REFERENCES project(id) ON DELETE CASCADE, v);
             CREATE TABLE invoice(id TEXT PRIMARY KEY, project REFERENCES project(id));
             INSERT INTO project VALUES('p'); INSERT INTO task VALUES('t', 'p', 'old')",
        );
        let (mut van, mut third) =
            (world.clone_site(&mut home, "van"), world.clone_site(&mut home, "third"));
        home.run("INSERT INTO invoice VALUES('i', 'p')");
        third.pull(&mut home);
        home.run("UPDATE task SET v = 'work'");
        van.run("PRAGMA foreign_keys = ON; DELETE FROM project");
        match first {
            true => settle(&mut home, &mut van),
            false => settle(&mut van, &mut home),
        }
        let told = |site: &Site| {
            let closed = site.replica.closed_conflicts().unwrap();
            closed.iter().filter(|c| c.table == "task" && c.what.contains("'work'")).count()
        };
        assert_eq!((home.rows("SELECT v FROM task"), told(&home)), (vec!["work".to_owned()], 0));
        let (table, row) = (Some("invoice".into()), Some("i".into()));
        let invoice = Selection { table, row, ..Selection::default() };
        match by_undo {
            true => drop(home.replica.undo(&invoice, false).unwrap()),
            false => third.run("DELETE FROM invoice"),
        }
        settle(&mut home, &mut third);
        settle(&mut home, &mut van);
        settle(&mut third, &mut van);
        settle(&mut third, &mut home);
        for site in [&home, &van, &third] {
            assert_eq!(
                (site.rows("SELECT v FROM task"), told(site)),
                (vec![], 1),
                "{by_undo} {first}"
            );
        }
        agree(&mut [&mut home, &mut van, &mut third]);
    }
}
