//! R-FOLD-TIME: what all sites show does not depend on when folds ran.
//!
//! The same statements and pulls are played three times: with a fold after each statement, with folds
//! at random, and with none but those that pulls begin with. Keys are never moved, and no row deleted,
//! in rows that their site has inserted since its last pull, and nobody looks at a number that R-REMAP
//! gives: there the rule says what depends on it.

use crate::copies::Watcher;
use crate::random::{Random, seeds};
use crate::site::{Site, World, settle};
use std::collections::BTreeSet;
use std::io::{Seek, SeekFrom, Write};
use synqlite_core::{Error, Phase, Replica};

const SCHEMA: &str = "
CREATE TABLE n(id INTEGER PRIMARY KEY, v, w, u INT UNIQUE);
CREATE TABLE k(id TEXT PRIMARY KEY, v, w, n INT REFERENCES n(id) ON DELETE SET NULL);
CREATE TABLE c(id TEXT PRIMARY KEY, k TEXT REFERENCES k(id) ON DELETE CASCADE ON UPDATE CASCADE, v);
INSERT INTO n VALUES(1, 0, 0, 1), (2, 0, 0, 2);
INSERT INTO k VALUES('a', 0, 0, 1), ('b', 0, 0, NULL);
INSERT INTO c VALUES('x', 'a', 0);
";

/// Rows of all tables, with numbers only where they are what was written.
const SHOWN: [&str; 3] = [
    "SELECT 'n', iif(id < 3, id, ''), v, w, u FROM n ORDER BY 2, 3, 4",
    "SELECT 'k', * FROM k ORDER BY 2",
    "SELECT 'c', * FROM c ORDER BY 2",
];
const SITES: usize = 3;

/// What happens, in order.
enum Step {
    Run(usize, String),
    Pull(usize, usize),
}

/// Statements of a site; `new` are the keys that it inserted since its last pull, which stay as they are.
fn statement(r: &mut Random, count: u64, new: &mut BTreeSet<String>) -> Option<String> {
    let key = |r: &mut Random| r.pick(&["a", "b", "d", "e", "f"]).to_owned();
    let (k, n, other) = (key(r), r.below(2) + 1, r.below(6) + 1);
    let column = r.pick(&["v", "w"]);
    Some(match r.below(12) {
        0 | 1 => {
            new.insert(k.clone());
            format!("INSERT OR IGNORE INTO k VALUES('{k}', {count}, 0, NULL)")
        }
        2 | 3 => format!("UPDATE k SET {column} = {count} WHERE id = '{k}'"),
        4 => format!("UPDATE k SET n = {n} WHERE id = '{k}' AND {n} IN (SELECT id FROM n)"),
        5 if !new.contains(&k) => format!("DELETE FROM k WHERE id = '{k}'"),
        6 => format!("UPDATE n SET {column} = {count} WHERE id = {n}"),
        7 => format!("UPDATE OR IGNORE n SET u = {other} WHERE id = {n}"),
        8 => format!("INSERT INTO n(v, w) VALUES({count}, 0)"),
        9 => format!("DELETE FROM n WHERE id = {n}"),
        10 => format!("INSERT OR IGNORE INTO c VALUES('c{count}', (SELECT max(id) FROM k), 0)"),
        11 => format!("UPDATE c SET v = {count} WHERE id = 'x'"),
        _ => return None,
    })
}

fn history(seed: u64) -> Vec<Step> {
    let mut r = Random::new(seed);
    let mut new = vec![BTreeSet::new(); SITES];
    let mut steps = Vec::new();
    for count in 1..=40 {
        let site = r.below(SITES as u64) as usize;
        if r.below(5) == 0 {
            new[site].clear();
            steps.push(Step::Pull(site, (site + 1 + r.below(2) as usize) % SITES));
        } else if let Some(sql) = statement(&mut r, count, &mut new[site]) {
            steps.push(Step::Run(site, sql));
        }
    }
    let circle = (0..SITES).map(|site| Step::Pull(site, (site + 1) % SITES));
    let back = (0..SITES).map(|site| Step::Pull((site + 1) % SITES, site));
    for _ in 0..2 {
        steps.extend((0..SITES).map(|site| Step::Pull(site, (site + 1) % SITES)));
    }
    steps.extend(circle.chain(back));
    steps
}

/// What all sites show in the end. `folds`: of how many statements one is folded at once, by chance.
fn play(steps: &[Step], seed: u64, folds: Option<u64>) -> Vec<String> {
    let (world, mut chance) = (World::new(), Random::new(seed));
    let mut first = world.init("0", SCHEMA);
    let others: Vec<Site> =
        (1..SITES).map(|n| world.clone_site(&mut first, &n.to_string())).collect();
    let mut sites: Vec<Site> = [first].into_iter().chain(others).collect();
    for step in steps {
        match step {
            Step::Run(site, sql) => {
                // What a statement meets differs between sites, so it may be refused.
                std::thread::sleep(std::time::Duration::from_millis(2));
                let _ = sites[*site].app.execute_batch(sql);
                if folds.is_some_and(|n| chance.below(n) == 0) {
                    sites[*site].replica.fold().unwrap();
                }
            }
            Step::Pull(to, from) => {
                let [to, from] = sites.get_disjoint_mut([*to, *from]).unwrap();
                to.pull(from);
            }
        }
    }
    let rows =
        |site: &Site| -> Vec<String> { SHOWN.iter().flat_map(|sql| site.rows(sql)).collect() };
    let shown = rows(&sites[0]);
    assert!(sites.iter().all(|site| rows(site) == shown), "seed {seed}: the sites differ");
    shown
}

#[test]
fn what_is_shown_does_not_depend_on_when_folds_ran() {
    for seed in seeds(10) {
        let steps = history(seed);
        let each = play(&steps, seed, Some(1));
        for (how, folds) in [("at random", Some(3)), ("never", None)] {
            let shown = play(&steps, seed, folds);
            if each != shown {
                for step in &steps {
                    match step {
                        Step::Run(site, sql) => eprintln!("{site}: {sql}"),
                        Step::Pull(to, from) => eprintln!("{to} pulls from {from}"),
                    }
                }
            }
            assert_eq!(each, shown, "seed {seed}, folds after each statement and {how}");
        }
    }
}

/// A file in which SQLite finds a page damaged is said to be damaged, not to be no database.
#[test]
fn a_damaged_file_is_said_to_be_damaged() {
    let world = World::new();
    let a = world.init("a", "CREATE TABLE t(k INTEGER PRIMARY KEY, u)");
    a.run("INSERT INTO t VALUES(1, 2)");
    let page: u64 = a.row("SELECT rootpage FROM sqlite_master WHERE name = 't'").parse().unwrap();
    let size: u64 = a.row("PRAGMA page_size").parse().unwrap();
    let path = a.replica.path().to_owned();
    drop(a);
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start((page - 1) * size)).unwrap();
    file.write_all(&vec![0xff; size as usize]).unwrap();
    let mut a = world.open("a");
    let error = a.replica.fold().unwrap_err();
    assert!(matches!(&error, Error::Malformed { .. }), "{error}");
    assert!(error.hint().unwrap().contains("integrity_check"));
}

/// With foreign keys off rows pass one key on and leave it: what referred to it refers to the first of them.
#[test]
fn a_reference_is_to_the_row_that_had_its_key_when_it_was_written() {
    let world = World::new();
    let sql = "CREATE TABLE n(k INTEGER PRIMARY KEY, w, up INTEGER REFERENCES n(k) ON DELETE RESTRICT); \
               INSERT INTO n VALUES(3, 'second', NULL), (4, 'first', NULL)";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO n VALUES(1, 'child', 4)");
    a.pull(&mut b);
    b.run("PRAGMA foreign_keys = OFF; INSERT INTO n VALUES(5, 'third', NULL)");
    b.run("UPDATE OR REPLACE n SET k = 4 WHERE k IN (3, 5); UPDATE n SET k = 2 WHERE k = 4");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM n"), ["1|child|4", "2|third|NULL", "4|first|NULL"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// Whether it is done at once, where a row may have been written more than once, or in slices, which leave rows
/// that may belong together to an end that is too little to tell of.
#[test]
fn a_fold_tells_of_all_its_rows() {
    const ROWS: u64 = 40_000;
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY, v, u UNIQUE)");
    a.run(&format!(
        "WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < {ROWS}) \
         INSERT INTO t SELECT hex(randomblob(12)), i, i FROM g"
    ));
    a.replica.fold().unwrap();
    let watcher = Watcher::of(Phase::Fold);
    let mut replica = Replica::open(a.replica.path(), watcher.clone()).unwrap();
    for write in ["UPDATE t SET u = -u", "UPDATE t SET v = v + 1"] {
        a.run(write);
        assert_eq!(replica.fold().unwrap().rows, ROWS, "{write}");
        assert_eq!(watcher.steps().last(), Some(&(ROWS, Some(ROWS))), "{write}");
    }
}

/// What was written before the schema changed is folded by the way in which the change is followed.
#[test]
fn a_fold_tells_of_what_was_written_before_the_schema_changed() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, v); CREATE TABLE gone(x)");
    a.run("INSERT INTO t(v) VALUES('a'), ('b')");
    assert_eq!(a.replica.fold().unwrap().rows, 2);
    a.run("UPDATE t SET v = v || 'x'; ALTER TABLE t RENAME COLUMN v TO w");
    assert_eq!(a.replica.fold().unwrap().rows, 2, "before a column was renamed");
    a.run("UPDATE t SET w = 'y' WHERE id = 1; ALTER TABLE t ADD COLUMN z; UPDATE t SET z = 1 WHERE id = 2");
    assert_eq!(a.replica.fold().unwrap().rows, 2, "around an added column");
    a.run("UPDATE t SET w = 'z'; CREATE TABLE new(x)");
    assert_eq!(a.replica.fold().unwrap().rows, 2, "before a table was taken in");
    a.run("UPDATE t SET w = 'q' WHERE id = 1; DROP TABLE gone");
    assert_eq!(a.replica.fold().unwrap().rows, 1, "before a table was dropped");
    assert_eq!(a.replica.fold().unwrap().rows, 0);
}
