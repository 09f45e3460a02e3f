//! Which tables may show something else, for programs that run a query again.

use crate::random::Random;
use crate::site::{Site, World};
use std::collections::BTreeSet;
use synqlite_core::{Mark, Touched};

const SCHEMA: &str = "CREATE TABLE p(id INTEGER PRIMARY KEY, u UNIQUE, n DEFAULT 0); \
    CREATE TABLE c(id INTEGER PRIMARY KEY, p REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE); \
    CREATE TABLE k(k TEXT PRIMARY KEY, v) WITHOUT ROWID; CREATE TABLE q(k TEXT UNIQUE, v)";
const TABLES: [&str; 4] = ["p", "c", "k", "q"];

fn tables(touched: Touched) -> BTreeSet<String> {
    match touched {
        Touched::All => TABLES.map(str::to_owned).into(),
        Touched::Tables(tables) => tables,
    }
}

/// The tables touched since a mark, and a new one.
fn step(site: &Site, mark: &mut Option<Mark>) -> Vec<String> {
    let (touched, now) = site.replica.touched(mark.as_ref()).unwrap();
    *mark = Some(now);
    tables(touched).into_iter().collect()
}

#[test]
fn only_what_was_written_is_touched() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    let mut mark = None;
    a.replica.changes(None, 1).unwrap();
    // The first folds of a table make triggers that it needs then.
    a.run(
        "INSERT INTO p(id) VALUES(0); INSERT INTO k VALUES('j', 0); INSERT INTO q VALUES('j', 0)",
    );
    a.replica.fold().unwrap();
    a.run("UPDATE p SET n = 7; UPDATE k SET v = 7; UPDATE q SET v = 7");
    a.replica.fold().unwrap();
    assert_eq!(step(&a, &mut mark).len(), 4);
    assert_eq!(step(&a, &mut mark), [""; 0]);
    a.run("INSERT INTO p(id) VALUES(1)");
    assert_eq!(step(&a, &mut mark), ["p"]);
    a.run("UPDATE p SET n = 1");
    assert_eq!(step(&a, &mut mark), ["p"]);
    a.run("INSERT INTO k VALUES('k', 1)");
    step(&a, &mut mark);
    a.replica.fold().unwrap();
    let folded = step(&a, &mut mark);
    assert!(!folded.contains(&"c".into()) && !folded.contains(&"q".into()), "{folded:?}");
    a.run("INSERT INTO q VALUES('x', 1)");
    assert_eq!(step(&a, &mut mark), ["q"], "the journal began anew");
    a.replica.fold().unwrap();
    step(&a, &mut mark);
    b.run("INSERT INTO k VALUES('l', 1)");
    a.pull(&mut b);
    assert_eq!(step(&a, &mut mark), ["k"]);
    a.run("CREATE TABLE own(x)");
    assert_eq!(step(&a, &mut mark).len(), 4, "the schema is another");
}

/// Who rebuilds a table by hand drops our triggers with it, and nothing notes what is written until a command.
#[test]
fn a_table_without_triggers_may_have_changed() {
    let world = World::new();
    let a = world.init("a", SCHEMA);
    let mut mark = None;
    a.run("CREATE TABLE n(k TEXT UNIQUE, v); DROP TABLE q; ALTER TABLE n RENAME TO q");
    step(&a, &mut mark);
    a.run("INSERT INTO q VALUES('x', 1)");
    assert!(step(&a, &mut mark).contains(&"q".into()));
}

/// A row that comes back when its obstacle goes is noted only once somebody listens.
#[test]
fn what_changed_before_somebody_listened_may_be_in_any_table() {
    let world = World::new();
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.run("PRAGMA foreign_keys = OFF; INSERT INTO c VALUES(1, 7)");
    b.pull(&mut a);
    let mut mark = None;
    step(&b, &mut mark);
    a.run("INSERT INTO p(id) VALUES(7)");
    assert_eq!(b.rows("SELECT * FROM c"), [""; 0]);
    b.pull(&mut a);
    assert_eq!(b.rows("SELECT * FROM c"), ["1|7"]);
    b.replica.changes(None, 1).unwrap();
    assert!(step(&b, &mut mark).contains(&"c".into()));
}

/// Whatever a table shows else, it was named before it was read.
#[test]
fn every_table_that_shows_something_else_is_touched() {
    for seed in 0..20 {
        let mut rng = Random::new(seed);
        let world = World::new();
        let mut a = world.init("a", SCHEMA);
        let mut b = world.clone_site(&mut a, "b");
        let all =
            |site: &Site| TABLES.map(|t| site.rows(&format!("SELECT * FROM {t} ORDER BY 1, 2")));
        if seed % 2 == 0 {
            a.replica.changes(None, 1).unwrap();
        }
        let (_, mut mark) = a.replica.touched(None).unwrap();
        let mut shown = all(&a);
        let mut few = 0;
        for n in 0..60 {
            let site = if rng.below(2) == 0 { &mut a } else { &mut b };
            let x = rng.below(4);
            match rng.below(12) {
                0 | 1 => site.run(&format!("INSERT OR REPLACE INTO p(id, u) VALUES({x}, {n} % 5)")),
                2 => site.run(&format!("INSERT INTO c(p) SELECT id FROM p WHERE id <> {x}")),
                3 => site.run(&format!("INSERT OR REPLACE INTO k VALUES({x}, {n})")),
                4 => site.run(&format!("INSERT OR IGNORE INTO q VALUES({x}, {n})")),
                5 => site.run(&format!("DELETE FROM p WHERE id = {x}")),
                6 => site.run(&format!("UPDATE OR REPLACE p SET u = {x} WHERE id <> {x}")),
                7 => site.run(&format!("UPDATE q SET v = {n} WHERE k = {x}")),
                8 => {
                    site.replica.fold().unwrap();
                }
                9 => a.pull(&mut b),
                10 => b.pull(&mut a),
                _ => site.run(&format!("DELETE FROM k WHERE k = {x}")),
            }
            let (touched, next) = a.replica.touched(Some(&mark)).unwrap();
            let (named, now) = (tables(touched), all(&a));
            for (t, (before, after)) in TABLES.iter().zip(shown.iter().zip(&now)) {
                assert!(before == after || named.contains(*t), "seed {seed}, step {n}: {t}");
            }
            few += usize::from(named.len() < 4);
            (mark, shown) = (next, now);
        }
        assert!(few > 20, "seed {seed}: {few} of 60 answers said anything");
    }
}
