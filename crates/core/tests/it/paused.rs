//! Tables that were replicated until an index or a CHECK came that needs what only their application has.

use crate::site::{Site, World, settle};
use rusqlite::functions::FunctionFlags;

/// What the application brings along.
fn equip(site: &Site) {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    let folded = |context: &rusqlite::functions::Context<'_>| {
        Ok(context.get::<Option<String>>(0)?.map(|text| text.to_lowercase()))
    };
    site.app.create_scalar_function("folded", 1, flags, folded).unwrap();
}

#[test]
fn a_table_that_only_its_application_can_write_to_waits_and_is_told() {
    for index in [
        "CREATE UNIQUE INDEX i ON deck(folded(name))",
        "CREATE INDEX i ON deck(folded(name), id)",
        "CREATE INDEX i ON deck(name) WHERE folded(name) > 'm'",
    ] {
        let world = World::new();
        let sql = "CREATE TABLE deck(id INTEGER PRIMARY KEY, name TEXT); \
                   CREATE TABLE card(id INTEGER PRIMARY KEY, deck INTEGER, front); \
                   INSERT INTO deck VALUES(1, 'one'), (2, 'two'); INSERT INTO card VALUES(1, 1, 'x')";
        let mut a = world.init("a", sql);
        let mut b = world.clone_site(&mut a, "b");
        equip(&a);
        equip(&b);
        a.run(index);
        a.run("INSERT INTO deck VALUES(3, 'three'); INSERT INTO card VALUES(2, 3, 'a')");
        b.run("UPDATE deck SET name = 'ONE' WHERE id = 1; INSERT INTO card VALUES(3, 2, 'b')");
        settle(&mut a, &mut b);
        let paused = a.replica.paused().unwrap();
        let names: Vec<&str> = paused.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["deck"], "{index}");
        assert_eq!(a.replica.status().unwrap().paused, paused);
        let problems = a.replica.verify().unwrap();
        let told = "table deck is not replicated any more";
        assert!(problems.iter().any(|problem| problem.contains(told)), "{problems:?}");
        assert!(b.replica.paused().unwrap().is_empty());
        // The tables beside it go on, with its rows or without.
        assert_eq!(a.row("SELECT count(*) FROM card WHERE front = 'b'"), "1");
        b.run(index);
        b.run("INSERT INTO deck VALUES(4, 'four')");
        settle(&mut a, &mut b);
        assert_eq!(b.replica.paused().unwrap().len(), 1);
        a.run("DROP INDEX i");
        b.run("DROP INDEX i");
        settle(&mut a, &mut b);
        let decks = "SELECT name FROM deck ORDER BY name";
        assert_eq!(a.rows(decks), ["ONE", "four", "three", "two"]);
        assert_eq!(b.rows(decks), a.rows(decks));
        for site in [&a, &b] {
            assert_eq!(site.replica.verify().unwrap(), [""; 0]);
            assert_eq!(site.row("SELECT count(*) FROM card WHERE front IN ('a', 'b')"), "2");
        }
    }
}
