//! Random histories of sites that migrate one after another, each when it likes (R-MIG).
//!
//! Every site runs the same migrations in the same order, as the versions of one application do.
//! Sites of all versions write and pull from each other. Nothing may be refused; in the end, when all
//! have the last version and have seen everything, they show the same.

use crate::random::{Random, seeds};
use crate::site::{Site, World, dump};
use std::collections::{BTreeMap, BTreeSet};

const FIRST: &str = "CREATE TABLE t(id TEXT PRIMARY KEY, a, b, d); \
     CREATE TABLE n(id INTEGER PRIMARY KEY, v); CREATE TABLE bag(x, y); \
     INSERT INTO t VALUES ('k0', 0, 0, 0), ('k1', 1, 1, 1), ('gone', 0, 0, 0); \
     INSERT INTO bag VALUES (0, 0), (1, 1); DELETE FROM t WHERE id = 'gone'; DELETE FROM bag WHERE x = 0";

/// What each version changes.
const MIGRATIONS: [&str; 7] = [
    "ALTER TABLE t ADD COLUMN c TEXT NOT NULL DEFAULT 'c0'",
    "ALTER TABLE t RENAME COLUMN a TO aa; ALTER TABLE bag ADD COLUMN z",
    "CREATE TABLE u(id INTEGER PRIMARY KEY, t TEXT REFERENCES t(id) ON DELETE CASCADE ON UPDATE CASCADE, w UNIQUE)",
    "PRAGMA foreign_keys=OFF; BEGIN; \
     CREATE TABLE new_t(id TEXT PRIMARY KEY, aa, b, c TEXT NOT NULL DEFAULT 'c0', d, \
       CHECK(coalesce(aa, 0) + coalesce(b, 0) < 100000)); \
     INSERT INTO new_t(id, aa, b, c, d) SELECT id, aa, b, c, d FROM t; DROP TABLE t; \
     ALTER TABLE new_t RENAME TO t; COMMIT; PRAGMA foreign_keys=ON",
    "ALTER TABLE t DROP COLUMN d; \
     CREATE TABLE new_bag(x, y, z, q); INSERT INTO new_bag(x, y, z) SELECT x, y, z FROM bag; \
     DROP TABLE bag; ALTER TABLE new_bag RENAME TO bag",
    "ALTER TABLE u RENAME TO uu; CREATE TABLE m(k TEXT PRIMARY KEY, v) WITHOUT ROWID; \
     INSERT INTO m VALUES ('seed', 0)",
    "ALTER TABLE n ADD COLUMN u REFERENCES uu(id) ON DELETE SET NULL",
];

/// A statement that the application of this version may run.
fn statement(rng: &mut Random, version: usize, step: usize) -> String {
    let key = format!("k{}", rng.below(6));
    let a = if version >= 2 { "aa" } else { "a" };
    let u = if version >= 6 { "uu" } else { "u" };
    loop {
        return match rng.below(17) {
            0 | 1 => {
                format!("INSERT OR IGNORE INTO t(id, {a}, b) VALUES ('{key}', {step}, {step})")
            }
            2 | 3 => format!("UPDATE t SET {a} = {step} WHERE id = '{key}'"),
            4 => format!("UPDATE t SET b = {step} WHERE id = '{key}'"),
            5 => format!("DELETE FROM t WHERE id = '{key}'"),
            6 => format!("UPDATE OR IGNORE t SET id = 'k{}' WHERE id = '{key}'", rng.below(6)),
            7 if version < 5 => format!("UPDATE t SET d = {step} WHERE id = '{key}'"),
            8 if version >= 1 => format!("UPDATE t SET c = 'c{step}' WHERE id = '{key}'"),
            9 => format!("INSERT INTO n(v) VALUES ({step})"),
            10 => format!("UPDATE n SET v = {step} WHERE id = {}", rng.below(5)),
            11 if version >= 3 => format!(
                "INSERT OR IGNORE INTO {u}(t, w) SELECT id, {} FROM t LIMIT 1",
                rng.below(8)
            ),
            12 if version >= 6 => format!("REPLACE INTO m VALUES ('{key}', {step})"),
            13 if version >= 7 => {
                format!("UPDATE n SET u = (SELECT id FROM uu LIMIT 1) WHERE id = {}", rng.below(5))
            }
            14 if version >= 2 => format!("UPDATE bag SET z = {step} WHERE x = {}", rng.below(9)),
            15 => format!("INSERT INTO bag(x, y) VALUES ({}, {step})", rng.below(9)),
            16 => format!("DELETE FROM bag WHERE x = {}", rng.below(9)),
            _ => continue,
        };
    }
}

fn sound(site: &Site) {
    site.check();
    assert_eq!(site.replica.verify().unwrap(), [""; 0]);
}

#[test]
fn sites_of_all_versions_converge() {
    let fails = |seed: &u64| std::panic::catch_unwind(|| history(*seed)).is_err();
    let failed: Vec<u64> = seeds(16).filter(fails).collect();
    assert!(failed.is_empty(), "seeds {failed:?} failed; SYNQLITE_SEEDS=FROM..TO runs them again");
}

fn history(seed: u64) {
    println!("seed {seed}");
    let mut rng = Random::new(seed);
    let world = World::new();
    let mut sites = vec![world.init("s0", FIRST)];
    for i in 1..2 + rng.below(3) {
        let site = world.clone_site(&mut sites[0], &format!("s{i}"));
        sites.push(site);
    }
    let mut versions = vec![0; sites.len()];
    for step in 0..60 {
        let i = rng.below(sites.len() as u64) as usize;
        match rng.below(10) {
            0 if versions[i] < MIGRATIONS.len() => {
                println!("{step}: s{i} migrates to {}", versions[i] + 1);
                sites[i].run(MIGRATIONS[versions[i]]);
                versions[i] += 1;
            }
            1 | 2 => {
                let j = rng.below(sites.len() as u64) as usize;
                if i != j {
                    println!("{step}: s{i} pulls from s{j}");
                    pull(&mut sites, i, j);
                }
            }
            3 => drop(sites[i].replica.fold().unwrap()),
            _ => {
                let sql = statement(&mut rng, versions[i], step);
                println!("{step}: s{i} {sql}");
                sites[i].run(&sql);
            }
        }
    }
    for (site, version) in sites.iter_mut().zip(versions) {
        for migration in &MIGRATIONS[version..] {
            site.run(migration);
            // Not every program leaves the triggers' absence for long.
            site.replica.fold().unwrap();
        }
    }
    for _ in 0..3 {
        for i in 0..sites.len() {
            for j in (0..sites.len()).filter(|&j| j != i) {
                pull(&mut sites, i, j);
            }
        }
    }
    let tables = ["t", "n", "bag", "uu", "m"];
    let first = dump(&sites[0].app, &tables);
    for site in &sites[1..] {
        assert_eq!(dump(&site.app, &tables), first, "seed {seed}");
        let digest = |s: &Site| s.replica.digest().unwrap().digest;
        assert_eq!(digest(site), digest(&sites[0]), "seed {seed}");
    }
    sites.iter().for_each(sound);
}

fn pull(sites: &mut [Site], to: usize, from: usize) {
    let (low, high) = sites.split_at_mut(to.max(from));
    let (a, b) = (&mut low[to.min(from)], &mut high[0]);
    let (to, from) = if to < from { (a, b) } else { (b, a) };
    to.pull(from);
    sound(to);
}

/// Tables that every site rebuilds when it likes: name, columns in two orders, what is copied.
const REBUILT: [(&str, [&str; 2], &str); 4] = [
    ("t", ["id TEXT PRIMARY KEY, p, q, r)", "r, id TEXT, p INT, q, PRIMARY KEY(id))"], "id,p,q,r"),
    (
        "n",
        ["id INTEGER PRIMARY KEY, p, q, r)", "id INTEGER PRIMARY KEY, q, r, p, CHECK(id < 99))"],
        "id,p,q,r",
    ),
    ("bag", ["id, p, q, r)", "q, p, r, id)"], "id,p,q,r"),
    (
        "w",
        [
            "id TEXT PRIMARY KEY, p, q, r) WITHOUT ROWID",
            "r, q, p, id TEXT NOT NULL, PRIMARY KEY(id)) WITHOUT ROWID",
        ],
        "id,p,q,r",
    ),
];

/// A value that somebody wrote: table, row, column, and what.
type Write = (usize, u64, usize, String);

/// Values of the same column of the same row that a site has seen are overwritten when it writes.
#[derive(Default)]
struct Writes {
    /// What each site has seen.
    seen: Vec<BTreeSet<Write>>,
    overwritten: BTreeSet<Write>,
}

impl Writes {
    fn write(&mut self, site: usize, write: Write) {
        let same = |w: &&Write| (w.0, w.1, w.2) == (write.0, write.1, write.2);
        self.overwritten.extend(self.seen[site].iter().filter(same).cloned());
        self.seen[site].insert(write);
    }

    fn pull(&mut self, to: usize, from: usize) {
        let news = self.seen[from].clone();
        self.seen[to].extend(news);
    }

    /// What each column of each row may show, of those that somebody wrote and nobody wrote over.
    fn candidates(&self) -> BTreeMap<(usize, u64, usize), BTreeSet<String>> {
        let mut candidates = BTreeMap::new();
        for write in self.seen.iter().flatten().filter(|w| !self.overwritten.contains(*w)) {
            let (table, row, column, value) = write.clone();
            let known: &mut BTreeSet<String> = candidates.entry((table, row, column)).or_default();
            known.insert(value);
        }
        candidates
    }
}

#[test]
fn nothing_unwritten_beats_what_somebody_wrote() {
    let fails = |seed: &u64| std::panic::catch_unwind(|| rebuilds(*seed)).is_err();
    let failed: Vec<u64> = seeds(16).filter(fails).collect();
    assert!(failed.is_empty(), "seeds {failed:?} failed; SYNQLITE_SEEDS=FROM..TO runs them again");
}

/// Sites that write to the same rows and rebuild their tables, with and without folds between.
fn rebuilds(seed: u64) {
    println!("seed {seed}");
    let mut rng = Random::new(seed);
    let world = World::new();
    let mut sql = String::new();
    for (table, [columns, _], _) in REBUILT {
        sql += &format!(
            "CREATE TABLE {table}({columns}; INSERT INTO {table} VALUES ('9', 'p', 'q', 'r'), \
             ('0', 'p', 'q', 'r'), ('1', 'p', 'q', 'r'), ('2', NULL, 2, 2.5); \
             DELETE FROM {table} WHERE id = '9';"
        );
    }
    let mut sites = vec![world.init("s0", &sql)];
    for i in 1..2 + rng.below(3) {
        let site = world.clone_site(&mut sites[0], &format!("s{i}"));
        sites.push(site);
    }
    let mut writes = Writes { seen: vec![BTreeSet::new(); sites.len()], ..Writes::default() };
    let mut orders = vec![[0; REBUILT.len()]; sites.len()];
    for step in 0..40 {
        let i = rng.below(sites.len() as u64) as usize;
        let table = rng.below(REBUILT.len() as u64) as usize;
        let (name, orders_of, copied) = REBUILT[table];
        match rng.below(12) {
            0 => drop(sites[i].replica.fold().unwrap()),
            1 => {
                let j = rng.below(sites.len() as u64) as usize;
                if i != j {
                    println!("{step}: s{i} pulls from s{j}");
                    pull(&mut sites, i, j);
                    writes.pull(i, j);
                }
            }
            2..5 => {
                println!("{step}: s{i} rebuilds {name}");
                orders[i][table] = 1 - orders[i][table];
                sites[i].run(&format!(
                    "BEGIN; CREATE TABLE new_one({}; INSERT INTO new_one({copied}) \
                     SELECT {copied} FROM {name}; DROP TABLE {name}; \
                     ALTER TABLE new_one RENAME TO {name}; COMMIT",
                    orders_of[orders[i][table]]
                ));
            }
            _ => {
                let (row, column) = (rng.below(3), rng.below(3) as usize);
                let value = format!("v{step}");
                let sql = format!(
                    "UPDATE {name} SET {} = '{value}' WHERE id = '{row}'",
                    ["p", "q", "r"][column]
                );
                println!("{step}: s{i} {sql}");
                sites[i].run(&sql);
                writes.write(i, (table, row, column, value));
            }
        }
    }
    for _ in 0..3 {
        for i in 0..sites.len() {
            for j in (0..sites.len()).filter(|&j| j != i) {
                pull(&mut sites, i, j);
            }
        }
    }
    let all = |site: &Site| -> Vec<String> {
        let of = |(table, ..): (&str, _, _)| {
            site.rows(&format!("SELECT '{table}', id, p, q, r FROM {table} ORDER BY id"))
        };
        REBUILT.into_iter().flat_map(of).collect()
    };
    for site in &sites {
        assert_eq!(all(site), all(&sites[0]), "seed {seed}");
        sound(site);
    }
    for ((table, row, column), values) in writes.candidates() {
        let (name, c) = (REBUILT[table].0, ["p", "q", "r"][column]);
        let shown = sites[0].row(&format!("SELECT {c} FROM {name} WHERE id = '{row}'"));
        assert!(values.contains(&shown), "{name} {row} {c} shows {shown}, not one of {values:?}");
    }
}
