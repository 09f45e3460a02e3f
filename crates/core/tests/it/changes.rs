//! Rows that changed since somebody looked.

use crate::random::seeds;
use crate::site::{Site, World, settle};
use std::collections::BTreeMap;
use synqlite_core::{Change, ChangedRow, Value};

const SCHEMA: &str = "CREATE TABLE p(id INTEGER PRIMARY KEY, n TEXT UNIQUE);
     CREATE TABLE c(k TEXT PRIMARY KEY, p INTEGER REFERENCES p(id) ON DELETE CASCADE ON UPDATE CASCADE, v) WITHOUT ROWID;
     CREATE TABLE w(a, b)";

/// What a program knows that listens.
#[derive(Default)]
struct Listener {
    token: Option<String>,
    rows: BTreeMap<(String, String), ChangedRow>,
}

impl Listener {
    /// Hears what is new, some at a time. Returns it.
    fn listen(&mut self, site: &mut Site, limit: usize) -> Vec<ChangedRow> {
        let mut heard = Vec::new();
        loop {
            let news = site.replica.changes(self.token.as_deref(), limit).unwrap();
            self.token = Some(news.token);
            if news.anew {
                self.rows.clear();
            }
            for row in news.rows {
                let name = (row.table.clone(), row.id.clone());
                match row.change {
                    Change::Delete => drop(self.rows.remove(&name)),
                    _ => drop(self.rows.insert(name, row.clone())),
                }
                heard.push(row);
            }
            if !news.more {
                return heard;
            }
        }
    }

    #[track_caller]
    fn knows_all(&self, site: &Site) {
        for table in ["p", "c", "w"] {
            let ours = self.rows.values().filter(|row| row.table == table);
            let mut ours: Vec<String> = ours
                .map(|row| {
                    row.values.iter().map(|(_, value)| text(value)).collect::<Vec<_>>().join("|")
                })
                .collect();
            let mut shown = site.rows(&format!("SELECT * FROM {table}"));
            ours.sort();
            shown.sort();
            assert_eq!(ours, shown);
        }
    }
}

/// A value as [`Site::rows`] writes it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(i) => i.to_string(),
        Value::Text(t) => String::from_utf8_lossy(t).into_owned(),
        other => format!("{other:?}"),
    }
}

/// Numbers that look random, the same for each seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn statement(&mut self) -> String {
        let (i, j) = (self.below(9), self.below(9));
        match self.below(10) {
            0 => format!("INSERT OR IGNORE INTO p(n) VALUES('n{i}'), ('n{j}')"),
            1 => {
                format!("INSERT OR IGNORE INTO c SELECT 'k{i}', id, {j} FROM p LIMIT 1 OFFSET {j}")
            }
            2 => format!("INSERT INTO w VALUES({i}, {j}), ({j}, {i})"),
            3 => format!("UPDATE OR IGNORE p SET n = 'm{j}' WHERE id % 9 = {i}"),
            4 => format!("UPDATE c SET v = v + 1 WHERE k > 'k{i}'"),
            5 => format!("UPDATE w SET a = a + 1 WHERE b = {i}"),
            6 => format!("DELETE FROM p WHERE id % 9 = {i}"),
            7 => format!("DELETE FROM w WHERE a = {i}"),
            8 => format!("UPDATE OR IGNORE p SET id = id + 10 WHERE id % 9 = {i}"),
            _ => format!("INSERT OR REPLACE INTO p VALUES({i}, 'n{j}')"),
        }
    }
}

/// Whoever applies what he hears has what the tables show, whatever was written, merged, hidden and shown again.
#[test]
fn a_listener_knows_what_the_tables_show() {
    const POLICIES: [&[(&str, &str)]; 4] = [
        &[],
        &[("p.delete", "last"), ("w.delete", "last"), ("c.delete", "last")],
        &[("p.on_unique", "unify")],
        &[("p.ids", "local")],
    ];
    for seed in seeds(16) {
        let (world, mut draw) = (World::new(), Draw(seed));
        let mut a = world.init_with("a", SCHEMA, POLICIES[seed as usize % POLICIES.len()]);
        let mut b = world.clone_site(&mut a, "b");
        let (mut all, mut some) = (Listener::default(), Listener::default());
        for _ in 0..25 {
            for site in [&a, &b] {
                for _ in 0..draw.below(4) {
                    site.run(&draw.statement());
                }
            }
            match draw.below(4) {
                0 => a.pull(&mut b),
                1 => b.pull(&mut a),
                2 => settle(&mut a, &mut b),
                _ => {}
            }
            if draw.below(2) == 0 {
                all.listen(&mut a, usize::MAX);
                some.listen(&mut a, 1 + draw.below(5) as usize);
                println!("seed {seed}");
                all.knows_all(&a);
                some.knows_all(&a);
                // A number that was given in a row's stead is pinned by the next fold (R-PIN).
                all.listen(&mut a, usize::MAX);
                assert!(all.listen(&mut a, usize::MAX).is_empty());
            }
        }
    }
}

/// What is told of a change: who, what, which columns.
#[test]
fn a_change_says_who_wrote_which_columns() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    let mut listener = Listener::default();
    assert!(listener.listen(&mut a, usize::MAX).is_empty());
    b.run("INSERT INTO p VALUES(1, 'x'); INSERT INTO w VALUES(1, 2)");
    a.pull(&mut b);
    let came = listener.listen(&mut a, usize::MAX);
    let told = |rows: &[ChangedRow]| -> Vec<_> {
        let one = |r: &ChangedRow| (r.table.clone(), r.row.clone(), r.change, r.columns.join(","));
        rows.iter().map(one).collect()
    };
    let row = |table: &str, row: &str, change, columns: &str| {
        (table.to_owned(), row.to_owned(), change, columns.to_owned())
    };
    assert_eq!(told(&came)[0], row("p", "1", Change::Insert, "id,n"));
    assert!(came.iter().all(|r| r.written.unwrap().0 == b.replica.site()));
    a.run("UPDATE p SET n = 'y'; DELETE FROM w; INSERT INTO w VALUES(3, 3); DELETE FROM w WHERE a = 3");
    let mut went = listener.listen(&mut a, usize::MAX);
    went.sort_by(|one, other| one.table.cmp(&other.table));
    assert_eq!(told(&went)[0], row("p", "1", Change::Update, "n"));
    assert_eq!((went.len(), went[1].change, went[1].values.len()), (2, Change::Delete, 0));
    assert!(went.iter().all(|r| r.written.unwrap().0 == a.replica.site()));
    // Less than one row at a time would never end.
    let all = a.replica.changes(None, 0).unwrap();
    assert!(all.rows.len() == 1 && !all.more);
    // Under another schema nobody can tell what rows showed.
    a.run("ALTER TABLE p ADD COLUMN x DEFAULT 7");
    let anew = a.replica.changes(listener.token.as_deref(), 10).unwrap();
    assert!(anew.anew && anew.rows.len() == 1 && anew.rows[0].values.len() == 3);
    // The token of another site's file is void, and what is none is refused.
    assert!(b.replica.changes(Some(&anew.token), 10).unwrap().anew);
    for wrong in ["", "1", "1.2.3.4", "x.1.2.3", &anew.token[..anew.token.len() - 1]] {
        assert!(a.replica.changes(Some(wrong), 10).is_err(), "{wrong}");
    }
}

/// A row that is known goes, though an update comes that would have let it live had it been later.
#[test]
fn a_delete_is_told_beside_an_older_update() {
    let world = World::new();
    let schema =
        "CREATE TABLE p(id INTEGER PRIMARY KEY, n TEXT UNIQUE); INSERT INTO p VALUES(1, 'one')";
    let mut a = world.init_with("a", schema, &[("p.delete", "last")]);
    let mut b = world.clone_site(&mut a, "b");
    let mut listener = Listener::default();
    listener.listen(&mut b, usize::MAX);
    a.run("UPDATE p SET n = 'uno'");
    std::thread::sleep(std::time::Duration::from_millis(10));
    b.run("DELETE FROM p");
    b.pull(&mut a);
    assert_eq!(b.row("SELECT count(*) FROM p"), "0");
    let heard = listener.listen(&mut b, usize::MAX);
    assert_eq!(heard.iter().map(|row| row.change).collect::<Vec<_>>(), [Change::Delete]);
}

/// A file that was restored from a backup and written to since has never been where the token says.
#[test]
fn what_a_restored_file_shows_comes_anew() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, v)");
    a.run("INSERT INTO t VALUES(1, 'one')");
    a.replica.fold().unwrap();
    let (file, backup) = (world.path("a"), world.path("backup"));
    std::fs::copy(&file, &backup).unwrap();
    a.run("INSERT INTO t VALUES(2, 'two'), (3, 'three')");
    let token = a.replica.changes(None, 10).unwrap().token;
    drop(a);
    std::fs::copy(&backup, &file).unwrap();
    let mut a = world.open("a");
    a.run("INSERT INTO t VALUES(2, 'new')");
    let news = a.replica.changes(Some(&token), 10).unwrap();
    assert_eq!((news.anew, news.rows.len()), (true, 2));
}

/// A row that a merge hides is told to be gone, whatever of it was written meanwhile, and once.
/// A part of an answer is void too, once what it told was never written.
#[test]
fn what_a_file_shows_that_was_restored_between_two_parts_comes_anew() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY, v)");
    a.run("INSERT INTO t VALUES('x', 0), ('y', 0), ('z', 0)");
    let token = a.replica.changes(None, 9).unwrap().token;
    for row in ["x", "y", "z"] {
        a.run(&format!("UPDATE t SET v = 1 WHERE k = '{row}'"));
        a.replica.fold().unwrap();
    }
    let (file, backup) = (world.path("a"), world.path("backup"));
    std::fs::copy(&file, &backup).unwrap();
    a.run("UPDATE t SET v = 2 WHERE k = 'x'");
    let part = a.replica.changes(Some(&token), 1).unwrap();
    assert!(part.more && !part.anew);
    drop(a);
    std::fs::copy(&backup, &file).unwrap();
    let mut a = world.open("a");
    a.run("UPDATE t SET v = 3 WHERE k = 'z'");
    let all = a.replica.changes(Some(&part.token), 9).unwrap();
    assert!(all.anew && all.rows.len() == 3, "{:?}", all.rows);
}

#[test]
fn a_row_that_is_hidden_is_told_once() {
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY); INSERT INTO p VALUES(5); CREATE TABLE \
                  s(k TEXT PRIMARY KEY, p INTEGER REFERENCES p(id), v TEXT); INSERT INTO s VALUES('a', 5, '3')";
    for policies in [&[][..], &[("s.delete", "last")]] {
        let world = World::new();
        let mut a = world.init_with("a", schema, policies);
        let mut b = world.clone_site(&mut a, "b");
        let mut listener = Listener::default();
        listener.listen(&mut b, usize::MAX);
        a.run("UPDATE s SET v = 'w', k = 'c'");
        b.app.execute_batch("PRAGMA foreign_keys = OFF; UPDATE s SET p = 99").unwrap();
        b.pull(&mut a);
        assert_eq!(b.row("SELECT count(*) FROM s"), "0");
        let heard = listener.listen(&mut b, usize::MAX);
        assert_eq!(heard.iter().map(|row| row.change).collect::<Vec<_>>(), [Change::Delete]);
    }
}

/// Two sites inserted one key, and one has deleted it again: the other knew it.
#[test]
fn a_row_that_came_twice_and_went_is_told() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY, v)");
    let mut b = world.clone_site(&mut a, "b");
    let mut listener = Listener::default();
    a.run("INSERT INTO t VALUES('x', 'a')");
    listener.listen(&mut a, usize::MAX);
    b.run("INSERT INTO t VALUES('x', 'b')");
    b.replica.fold().unwrap();
    b.run("DELETE FROM t");
    settle(&mut a, &mut b);
    assert_eq!(a.row("SELECT count(*) FROM t"), "0");
    let heard = listener.listen(&mut a, usize::MAX);
    assert_eq!(heard.iter().map(|row| row.change).collect::<Vec<_>>(), [Change::Delete]);
}

/// Who holds a number finds out which row it was, wherever he hears of the change.
#[test]
fn a_row_with_another_number_says_which_it_had() {
    let world = World::new();
    let schema = "CREATE TABLE p(id INTEGER PRIMARY KEY, n TEXT)";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut b, "c");
    a.run("INSERT INTO p(n) VALUES('ann')");
    std::thread::sleep(std::time::Duration::from_millis(2));
    b.run("INSERT INTO p(n) VALUES('bob')");
    c.pull(&mut b);
    let mut heard = [Listener::default(), Listener::default()];
    heard[0].listen(&mut b, usize::MAX);
    heard[1].listen(&mut c, usize::MAX);
    settle(&mut a, &mut b);
    c.pull(&mut b);
    for (site, listener) in [&mut b, &mut c].into_iter().zip(&mut heard) {
        let rows = listener.listen(site, usize::MAX);
        let told: Vec<_> = rows.iter().map(|row| (row.row.as_str(), row.former)).collect();
        assert!(told.contains(&("2", Some(1))), "{told:?}");
        assert!(told.contains(&("1", None)), "{told:?}");
    }
    // Another row that gets the number has had none before.
    b.run("DELETE FROM p WHERE id = 2; INSERT INTO p VALUES(2, 'cid')");
    let rows = heard[0].listen(&mut b, usize::MAX);
    let cid = rows.iter().find(|row| row.change == Change::Insert).unwrap();
    assert_eq!((cid.row.as_str(), cid.former), ("2", None));
}
