//! Random writes of two sites; then one takes back what it wrote since some time.

use super::{historical, now, since, with};
use crate::random::seeds;
use crate::site::{Site, World, settle};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_core::{InitOptions, Policy, Verb};

const SCHEMA: &str = "CREATE TABLE p(id TEXT PRIMARY KEY, x, y);
     CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT NOT NULL REFERENCES p(id) ON DELETE CASCADE, v);
     INSERT INTO p VALUES('p0', 'x', 'y'), ('p1', 'x', 'y'), ('p2', 'x', 'y'), ('p3', 'x', 'y');
     INSERT INTO c VALUES(1, 'p0', 'v'), (2, 'p1', 'v'), (3, 'p2', 'v'), (4, 'p2', 'v')";

/// Numbers that look random, the same for each seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A write, as whoever takes them back has to see it.
#[derive(Clone, Copy, PartialEq)]
struct By {
    first: bool,
    taken: bool,
}

/// All that was written to a row.
#[derive(Default)]
struct Row {
    /// The parent of a row of `c`.
    parent: Option<String>,
    /// By column: who wrote which value, in order.
    columns: BTreeMap<&'static str, Vec<(By, String)>>,
    inserted: Option<By>,
    deleted: Vec<By>,
}

impl Row {
    fn new(by: By, columns: &[&'static str], value: &str) -> Row {
        let columns = columns.iter().map(|c| (*c, vec![(by, value.to_owned())]));
        let (columns, inserted) = (columns.collect(), Some(by));
        Row { parent: None, columns, inserted, deleted: vec![] }
    }

    /// Whether somebody else has a part in it.
    fn is_others(&self) -> bool {
        self.columns.values().flatten().any(|(by, _)| !by.taken)
    }

    /// What the columns show: the last write, or the last that is not taken back.
    fn values(&self, undone: bool) -> Vec<String> {
        let value = |writes: &Vec<(By, String)>| {
            let last = writes.last().filter(|(by, _)| !(undone && by.taken));
            let former = writes.iter().rev().find(|(by, _)| !by.taken);
            last.or(former).or(writes.last()).map_or(String::new(), |(_, value)| value.clone())
        };
        self.columns.values().map(value).collect()
    }
}

/// What both tables are to show.
struct Model {
    rows: BTreeMap<(&'static str, String), Row>,
}

impl Model {
    fn new() -> Model {
        let (by, mut rows) = (By { first: false, taken: false }, BTreeMap::new());
        for id in ["p0", "p1", "p2", "p3"] {
            let mut row = Row::new(by, &["x"], "x");
            row.columns.insert("y", vec![(by, "y".to_owned())]);
            rows.insert(("p", id.to_owned()), row);
        }
        for (id, parent) in [("1", "p0"), ("2", "p1"), ("3", "p2"), ("4", "p2")] {
            let mut row = Row::new(by, &["v"], "v");
            row.parent = Some(parent.to_owned());
            rows.insert(("c", id.to_owned()), row);
        }
        Model { rows }
    }

    /// What is shown after the undo.
    fn undone(&self) -> BTreeMap<(&'static str, String), Vec<String>> {
        let lives = |row: &Row| match row.deleted.iter().any(|by| !by.taken) {
            true => false,
            // Inserted and deleted in the span.
            false => row.deleted.is_empty() || row.inserted.is_some_and(|by| !by.taken),
        };
        let came = |row: &Row| row.inserted.is_some_and(|by| by.taken);
        let mut shown = BTreeMap::new();
        let parents = |key: &&(&'static str, String)| key.0 == "p";
        let alive: BTreeSet<&(&str, String)> =
            self.rows.iter().filter(|(_, row)| lives(row)).map(|(key, _)| key).collect();
        let stays = |key: &(&'static str, String)| {
            let row = &self.rows[key];
            alive.contains(key) && (!came(row) || row.is_others())
        };
        let needed = |key: &(&'static str, String)| {
            let mut children = self
                .rows
                .iter()
                .filter(|(child, row)| row.parent.as_ref() == Some(&key.1) && stays(child));
            children.next().is_some()
        };
        for key in self.rows.keys().filter(parents) {
            let kept = stays(key) || alive.contains(key) && needed(key);
            if kept {
                let whole = came(&self.rows[key]);
                shown.insert(key.clone(), self.rows[key].values(!whole));
            }
        }
        for (key, row) in &self.rows {
            let Some(parent) = &row.parent else { continue };
            if stays(key) && shown.contains_key(&("p", parent.clone())) {
                shown.insert(key.clone(), row.values(!came(row)));
            }
        }
        shown
    }
}

fn shown(site: &Site) -> BTreeMap<(&'static str, String), Vec<String>> {
    let mut shown = BTreeMap::new();
    for (table, sql) in [("p", "SELECT id, x, y FROM p"), ("c", "SELECT id, v FROM c")] {
        for row in site.rows(sql) {
            let mut parts = row.split('|').map(str::to_owned);
            let id = parts.next().unwrap_or_default();
            shown.insert((table, id), parts.collect());
        }
    }
    shown
}

struct Play {
    draw: Draw,
    model: Model,
    n: usize,
    taken: bool,
}

impl Play {
    /// One write of a site, to what it shows.
    fn write(&mut self, site: &mut Site, first: bool) {
        let by = By { first, taken: first && self.taken };
        self.n += 1;
        let value = format!("{}{}", if by.first { "a" } else { "b" }, self.n);
        let visible: Vec<_> = shown(site).into_keys().collect();
        let parents: Vec<_> = visible.iter().filter(|(t, _)| *t == "p").cloned().collect();
        let pick = |draw: &mut Draw, of: &[(&'static str, String)]| {
            (!of.is_empty()).then(|| of[draw.below(of.len())].clone())
        };
        match self.draw.below(10) {
            0 => {
                site.run(&format!("INSERT INTO p VALUES('{value}', '{value}', '{value}')"));
                let row = Row::new(by, &["x", "y"], &value);
                self.model.rows.insert(("p", value), row);
            }
            1 | 2 => {
                let Some((_, parent)) = pick(&mut self.draw, &parents) else { return };
                let id = format!("{}", 100 * self.n + usize::from(first));
                site.run(&format!("INSERT INTO c VALUES({id}, '{parent}', '{value}')"));
                let mut row = Row::new(by, &["v"], &value);
                row.parent = Some(parent);
                self.model.rows.insert(("c", id), row);
            }
            3 => {
                let Some((table, id)) = pick(&mut self.draw, &visible) else { return };
                site.run(&format!("DELETE FROM {table} WHERE id = '{id}'"));
                let row = self.model.rows.get_mut(&(table, id)).unwrap();
                row.deleted.push(by);
            }
            _ => {
                let Some((table, id)) = pick(&mut self.draw, &visible) else { return };
                let column = match table {
                    "c" => "v",
                    _ if self.draw.below(2) == 0 => "x",
                    _ => "y",
                };
                site.run(&format!("UPDATE {table} SET {column} = '{value}' WHERE id = '{id}'"));
                let row = self.model.rows.get_mut(&(table, id)).unwrap();
                row.columns.get_mut(column).unwrap().push((by, value));
            }
        }
        site.replica.fold().unwrap();
    }

    fn some(&mut self, a: &mut Site, b: &mut Site) {
        for _ in 0..25 {
            match self.draw.below(9) {
                0..4 => self.write(a, true),
                4..7 => self.write(b, false),
                7 => a.pull(b),
                // Of what had given way before it heard of it, the first site would know nothing.
                _ => {
                    a.pull(b);
                    b.pull(a);
                }
            }
        }
    }
}

/// Every register whose latest write is taken back shows the latest other one, rows that were inserted are gone
/// unless others need them, deleted ones are back, and all else is as it was.
#[test]
fn what_one_site_wrote_since_a_time_is_taken_back() {
    for seed in seeds(12) {
        let world = World::new();
        let mut a = historical(&world, "a", SCHEMA);
        let mut b = world.clone_site(&mut a, "b");
        let mut play = Play { draw: Draw(seed), model: Model::new(), n: 0, taken: false };
        play.some(&mut a, &mut b);
        let t = now();
        play.taken = true;
        play.some(&mut a, &mut b);
        settle(&mut a, &mut b);
        let undone = a.replica.undo(&since(t), false).unwrap();
        a.check();
        assert_eq!(shown(&a), play.model.undone(), "seed {seed}: {undone:#?}");
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "seed {seed}");
        let digest = a.replica.digest().unwrap().digest;
        let again = a.replica.undo(&since(t), false).unwrap();
        assert_eq!(again.taken, [], "seed {seed}");
        assert_eq!(a.replica.digest().unwrap().digest, digest, "seed {seed}");
        settle(&mut a, &mut b);
        assert_eq!(shown(&b), shown(&a), "seed {seed}");
        assert_eq!(b.replica.digest().unwrap().digest, digest, "seed {seed}");
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "seed {seed}");
    }
}

const WILD: &str = "CREATE TABLE l(id INTEGER PRIMARY KEY, name TEXT UNIQUE, n INT);
     CREATE TABLE k(a TEXT, b INT, v INT, PRIMARY KEY(a, b)) WITHOUT ROWID;
     CREATE TABLE e(id INTEGER PRIMARY KEY, l INT REFERENCES l(id) ON DELETE SET NULL,
       a TEXT, b INT, s, FOREIGN KEY(a, b) REFERENCES k(a, b) ON UPDATE CASCADE, CHECK(s <> 3));
     INSERT INTO l VALUES(1, 'n1', 0), (2, 'n2', 0); INSERT INTO k VALUES('a', 1, 0), ('a', 2, 0);
     INSERT INTO e VALUES(1, 1, 'a', 1, 0), (2, 2, 'a', 2, 1)";

fn wild(draw: &mut Draw) -> String {
    let (i, j) = (draw.below(6), draw.below(6));
    match draw.below(13) {
        0 => format!("INSERT OR IGNORE INTO l(name, n) VALUES('n{i}', {j})"),
        1 => format!("INSERT OR REPLACE INTO l VALUES({i}, 'n{j}', 7)"),
        2 => format!("UPDATE OR IGNORE l SET name = 'n{j}', n = n + 1 WHERE id = {i}"),
        3 => format!("UPDATE OR IGNORE l SET id = id + 10 WHERE id = {i}"),
        4 => format!("DELETE FROM l WHERE id % 6 = {i}"),
        5 => format!("INSERT OR IGNORE INTO k VALUES('a', {i}, {j}), ('b', {j}, {i})"),
        6 => format!("UPDATE OR IGNORE k SET b = b + 1, v = {i} WHERE b = {j}"),
        7 => format!("DELETE FROM k WHERE b = {i} AND NOT EXISTS(SELECT 1 FROM e WHERE e.b = k.b)"),
        8 => format!("INSERT INTO e(l, s) SELECT id, {j} % 3 FROM l LIMIT 1 OFFSET {i}"),
        9 => format!(
            "UPDATE e SET (a, b) = (SELECT a, b FROM k LIMIT 1 OFFSET {i}) WHERE id % 3 = {j} % 3"
        ),
        10 => format!(
            "UPDATE e SET l = (SELECT id FROM l LIMIT 1 OFFSET {i}), s = {j} % 3 WHERE id % 2 = 0"
        ),
        11 => format!("DELETE FROM e WHERE id % 6 = {i}"),
        _ => format!("UPDATE k SET v = v + {i}"),
    }
}

/// Settles a conflict, if one is open, in some way.
fn settle_one(draw: &mut Draw, site: &mut Site) {
    let verbs = [Verb::Prefer, Verb::Discard, Verb::Restore, Verb::Accept];
    let conflicts = site.replica.conflicts().unwrap();
    if let Some(conflict) = conflicts.first() {
        // Not every kind can be settled in every way.
        let _ = site.replica.settle_conflict(&conflict.id, verbs[draw.below(4)]);
    }
}

/// Whatever was written, merged, hidden and shown again: constraints hold after an undo, and sites agree.
#[test]
fn an_undo_keeps_constraints_and_agreement() {
    let (mut taken, mut left) = (0, 0);
    for seed in seeds(30) {
        let world = World::new();
        let set: &[(&str, &str)] = match seed % 4 {
            1 => &[("l.n", "counter"), ("k.v", "counter")],
            2 => &[("l.delete", "last"), ("k.delete", "last"), ("e.delete", "last")],
            3 => &[("l.on_unique", "unify")],
            _ => &[],
        };
        let policies = set.iter().map(|(key, value)| Policy::new(key, value).unwrap()).collect();
        let history = seed % 3 > 0;
        let options = InitOptions { policies, history, ..InitOptions::default() };
        let (mut draw, mut a) = (Draw(seed), with(&world, "a", WILD, options));
        let mut b = world.clone_site(&mut a, "b");
        let mut t = 0;
        for round in 0..24 {
            if round == 8 {
                t = now();
            }
            for site in [&a, &b] {
                for _ in 0..draw.below(3) {
                    let sql = wild(&mut draw);
                    // A constraint may refuse it.
                    std::thread::sleep(std::time::Duration::from_millis(1));
                    let _ = site.app.execute_batch(&sql);
                }
            }
            match draw.below(5) {
                0 => a.pull(&mut b),
                1 => b.pull(&mut a),
                2 => settle(&mut a, &mut b),
                3 => settle_one(&mut draw, &mut a),
                _ => {}
            }
        }
        let foreseen = a.replica.undo(&since(t), true).unwrap();
        let undone = a.replica.undo(&since(t), false).unwrap();
        assert_eq!(foreseen, undone, "seed {seed}");
        (taken, left) = (taken + undone.taken.len(), left + undone.left.len());
        a.check();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "seed {seed}");
        if seed % 2 == 0 {
            settle(&mut a, &mut b);
        }
        // What stood in the way may be gone.
        a.replica.undo(&since(t), false).unwrap();
        a.check();
        assert_eq!(a.replica.verify_full().unwrap(), [""; 0], "seed {seed}");
        settle(&mut a, &mut b);
        settle(&mut a, &mut b);
        let digests = [&a, &b].map(|site| site.replica.digest().unwrap().digest);
        assert_eq!(digests[0], digests[1], "seed {seed}");
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "seed {seed}");
    }
    let many = seeds(30).count();
    assert!(many < 30 || taken > 5 * many && left > many, "{taken} taken, {left} left");
}
