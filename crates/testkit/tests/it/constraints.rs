//! What must hold of merges under constraints, whatever the histories (`docs/testing.md`).

use crate::seeds::each;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_core::{Conflict, ConflictKind};
use synqlite_testkit::families::Family;
use synqlite_testkit::history::{Action, History, START_MS, Step, settling};
use synqlite_testkit::model::{Model, Verdict, unavailable};
use synqlite_testkit::random::Random;
use synqlite_testkit::sample;
use synqlite_testkit::shapes::{SHAPES, Shape, named};
use synqlite_testkit::world::{Result, Site, World};
use synqlite_wire::Value;

/// A small part of `campaign model --constraints`: every shape once.
#[test]
fn the_engine_shows_what_the_reference_model_shows() {
    if let Some(why) = unavailable("python3") {
        println!("skipped: {why}");
        return;
    }
    let model = std::cell::RefCell::new(Model::start("python3").unwrap());
    each(0..SHAPES.len() as u64, |seed| {
        let history = History::constrained(seed, false, &named(None));
        match model.borrow_mut().compare(&history)? {
            Verdict::Different(difference) => Err(difference.story.into()),
            Verdict::Same(_) | Verdict::Beyond(_) => Ok(()),
        }
    });
}

/// A small part of `campaign model --states`.
#[test]
fn the_view_in_memory_shows_what_the_reference_model_shows() {
    if let Some(why) = unavailable("python3") {
        println!("skipped: {why}");
        return;
    }
    let model = std::cell::RefCell::new(Model::start("python3").unwrap());
    each(0..200, |seed| match sample::compare(&mut model.borrow_mut(), seed)? {
        Verdict::Different(difference) => Err(difference.story.into()),
        Verdict::Same(_) | Verdict::Beyond(_) => Ok(()),
    });
}

/// Shapes in which no row depends on itself.
fn without_cycles() -> impl Iterator<Item = &'static Shape> {
    let cycle =
        |s: &&Shape| ["self", "siblings", "mutual", "circle"].iter().any(|w| s.name.contains(w));
    SHAPES.iter().filter(move |s| !cycle(s))
}

/// Minimality: a row that is hidden for a unique key could not be shown beside the rows that are.
#[test]
fn every_row_hidden_for_a_unique_key_collides_with_a_visible_one() {
    each(0..2, |seed| {
        let mut hidden = 0;
        for (i, shape) in without_cycles().enumerate() {
            let mut r = Random::new(seed << 8 | i as u64);
            let family = Family::shaped(shape, r.any());
            let mut world = World::new(family, 2, false, seed)?;
            for n in 0..30 {
                let site = r.index(2);
                let sql = shape.statement(&mut r);
                world.sites[site].run(&sql, START_MS + 1_000 * n)?;
            }
            for step in settling(2, START_MS) {
                world.play(&step)?;
            }
            let site = &world.sites[0];
            for conflict in
                site.replica.conflicts()?.iter().filter(|c| c.kind == ConflictKind::Unique)
            {
                hidden += 1;
                let fits = would_fit(site, conflict)?;
                assert!(!fits, "{}: nothing stands in the way of {conflict:?}", shape.name);
            }
        }
        assert!(hidden > 10, "only {hidden} rows were hidden");
        Ok(())
    });
}

/// Whether the hidden row of a record could be inserted.
fn would_fit(site: &Site, conflict: &Conflict) -> Result<bool> {
    let sql = "SELECT name FROM pragma_table_info(?1) WHERE pk = 1 AND type = 'INTEGER'";
    let number: Option<String> = site
        .app
        .prepare(sql)?
        .query([&conflict.table])?
        .next()?
        .map_or(Ok(None), |row| row.get(0).map(Some))?;
    // A number that programs count up is no key to collide on.
    let given = |name: &String| {
        conflict.constraint.eq_ignore_ascii_case(name) || Some(name) != number.as_ref()
    };
    let values = conflict.displaced.iter().filter(|(name, _)| given(name));
    let (names, values): (Vec<_>, Vec<_>) = values.map(|(n, v)| (n.clone(), literal(v))).unzip();
    site.app.execute_batch("PRAGMA foreign_keys=OFF; SAVEPOINT probe")?;
    let sql =
        format!("INSERT INTO {}({}) VALUES({})", conflict.table, names.join(","), values.join(","));
    let fits = site.app.execute_batch(&sql).is_ok();
    site.app.execute_batch("ROLLBACK TO probe; RELEASE probe")?;
    Ok(fits)
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Text(t) => format!("'{}'", String::from_utf8_lossy(t)),
        Value::Blob(_) => "x''".into(),
    }
}

const TAGGED: Shape = Shape {
    name: "tagged",
    sql: "CREATE TABLE p(id INTEGER PRIMARY KEY, name TEXT UNIQUE, tag TEXT);
          CREATE TABLE c(id INTEGER PRIMARY KEY, p INT REFERENCES p(id) $A, slot INT, tag TEXT, UNIQUE(p, slot));
          CREATE TABLE k(k TEXT, b INT UNIQUE, tag TEXT);",
    tables: &["p", "c", "k"],
    columns: &["!id:id name:word tag:any", "!id:id p:p.id? slot:few tag:any", "k:word b:num tag:any"],
    policies: &[],
};

/// No live value disappears: every row that was committed and never deleted is visible, or an open
/// record tells all of it.
#[test]
fn every_row_is_visible_or_has_an_open_record() {
    each(0..12, |seed| {
        let mut r = Random::new(seed);
        let family = Family::shaped(&TAGGED, r.any());
        let count = 2 + r.index(3);
        let mut world = World::new(family, count, false, seed)?;
        let mut written: BTreeMap<String, &str> = BTreeMap::new();
        let mut aside = 0;
        for n in 0..60 {
            let site = r.index(count);
            let ms = START_MS + 1_000 * n;
            if r.one_in(8) {
                let from = (site + 1 + r.index(count - 1)) % count;
                world.play(&Step { ms, site, action: Action::Pull(from) })?;
                continue;
            }
            let (name, few) = (r.pick(&["a", "b", "c", "d"]), r.below(3));
            let parent = format!("(SELECT id FROM p ORDER BY id LIMIT 1 OFFSET {few})");
            let (table, sql) = match r.below(5) {
                0 | 1 => ("p", format!("INSERT INTO p(name, tag) VALUES('{name}', 't{n}')")),
                2 => ("c", format!("INSERT INTO c(p, slot, tag) VALUES({parent}, {few}, 't{n}')")),
                3 => ("k", format!("INSERT INTO k VALUES('{name}', {few}, 't{n}')")),
                _ => ("", format!("UPDATE p SET name = '{name}' WHERE id = {parent}")),
            };
            if world.sites[site].run(&sql, ms)? && !table.is_empty() {
                written.insert(format!("t{n}"), table);
            }
        }
        for _ in 0..2 {
            for step in settling(count, START_MS) {
                world.play(&step)?;
            }
        }
        for site in &world.sites {
            let mut found: BTreeSet<String> = BTreeSet::new();
            for table in TAGGED.tables {
                let mut statement = site.app.prepare(&format!("SELECT tag FROM {table}"))?;
                let tags = statement.query_map([], |row| row.get(0))?;
                found.extend(tags.collect::<std::result::Result<Vec<String>, _>>()?);
            }
            for conflict in site.replica.conflicts()? {
                aside += 1;
                let tags = conflict.displaced.iter().filter(|(name, _)| name == "tag");
                found.extend(tags.map(|(_, value)| literal(value).trim_matches('\'').to_owned()));
            }
            let lost: Vec<_> = written.keys().filter(|tag| !found.contains(*tag)).collect();
            assert!(lost.is_empty(), "neither visible nor in a record: {lost:?}");
        }
        assert!(aside > 0, "nothing collided");
        Ok(())
    });
}
