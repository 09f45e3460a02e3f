//! Histories as `campaign states` prints them, played on files: at each step the rows stay what their user
//! wrote, and looking at all of them finds nothing.

use crate::site::{Site, World, dump};

/// Plays a history. `N: SQL` is a write at site N, which folds it; `N learns … of M` a pull. In the end the
/// sites pull from each other until all know the same.
fn play(schema: &str, policies: &[(&str, &str)], history: &str) {
    let world = World::new();
    let mut sites = vec![world.init_with("0", schema, policies)];
    for name in ["1", "2"] {
        let clone = world.clone_site(&mut sites[0], name);
        sites.push(clone);
    }
    let tables: Vec<String> =
        sites[0].rows("SELECT name FROM sqlite_schema WHERE name IN ('a', 'b')");
    let tables: Vec<&str> = tables.iter().map(String::as_str).collect();
    let site = |text: &str| -> usize { text.parse().expect("a site") };
    for step in history.lines().map(str::trim).filter(|step| !step.is_empty()) {
        if let Some((to, what)) = step.split_once(" learns ") {
            let (_, from) = what.split_once(" of ").expect("a site");
            learn(&mut sites, site(to), site(from));
        } else {
            let (at, sql) = step.split_once(": ").expect("a statement");
            let at = &mut sites[site(at)];
            at.run(sql);
            let wrote = dump(&at.app, &tables);
            at.replica.fold().unwrap();
            assert_eq!(dump(&at.app, &tables), wrote, "{step}");
            sound(at, step);
        }
    }
    for _ in 0..2 {
        for (to, from) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            learn(&mut sites, to, from);
        }
    }
    let seen = |site: &Site| {
        let records = site.replica.records().unwrap().into_iter();
        (
            dump(&site.app, &tables),
            records.map(|c| (c.id, c.kind, c.constraint)).collect::<Vec<_>>(),
        )
    };
    assert_eq!(seen(&sites[0]), seen(&sites[1]));
    assert_eq!(seen(&sites[0]), seen(&sites[2]));
}

fn learn(sites: &mut [Site], to: usize, from: usize) {
    let [a, b] = sites.get_disjoint_mut([to, from]).expect("two sites");
    a.pull(b);
    sound(a, &format!("{to} learns of {from}"));
}

fn sound(site: &Site, step: &str) {
    site.check();
    assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{step}");
}

/// What stood for a hidden row is what the reference means once that row is inserted anew.
#[test]
fn a_row_inserted_anew_takes_no_reference_from_the_one_that_stood_for_it() {
    let schema = "CREATE TABLE a(k TEXT PRIMARY KEY, y INT REFERENCES b(k) ON DELETE SET NULL ON UPDATE SET NULL);
        CREATE UNIQUE INDEX a_0 ON a(y);
        CREATE TABLE b(k INT PRIMARY KEY, y TEXT,
            x INT DEFAULT 1 REFERENCES a(y) ON DELETE SET DEFAULT ON UPDATE SET NULL);
        CREATE UNIQUE INDEX b_1 ON b(y)";
    play(
        schema,
        &[("b.on_unique", "unify")],
        "0: INSERT INTO b(k, x, y) VALUES(3, NULL, '3')
         1: INSERT INTO b(k, x, y) VALUES(4, NULL, '3')
         1: INSERT INTO a(k, y) VALUES('4', 4)
         1 learns 1 rows of 0
         1: INSERT INTO b(k, x, y) VALUES(4, 3, NULL)",
    );
}

/// The key of a row above is a reference to one for which another stands: until that is found it is another.
#[test]
fn a_row_below_one_that_refers_to_a_unified_row_stays() {
    let schema = "CREATE TABLE a(id INTEGER PRIMARY KEY REFERENCES b(id), x INT REFERENCES a(id) ON DELETE RESTRICT);
        CREATE TABLE b(id INTEGER PRIMARY KEY, x INT DEFAULT 1, y TEXT,
            z INT REFERENCES a(id) ON DELETE RESTRICT
                  REFERENCES b(id) ON DELETE SET DEFAULT ON UPDATE CASCADE);
        CREATE UNIQUE INDEX b_1 ON b(y)";
    play(
        schema,
        &[("b.on_unique", "unify")],
        "1: INSERT INTO b(id, x, y, z) VALUES(1, 1, 'b', NULL)
         0: INSERT INTO b(id, x, y, z) VALUES(2, 4, 'b', NULL)
         2 learns 1 rows of 0
         0: INSERT INTO a(id, x) VALUES(2, NULL)
         2: UPDATE b SET id = 3 WHERE id IS 2
         2 learns 1 rows of 0
         1: UPDATE b SET x = 2 WHERE id IS 1
         1 learns 2 rows of 2
         1: INSERT INTO b(id, x, y, z) VALUES(2, 1, '3', 1)",
    );
}

/// Two keys fall back in turn; the user writes a part of what one of the rows shows.
#[test]
fn a_part_of_a_row_is_written_that_shows_a_default_in_place_of_a_reference() {
    let schema = "CREATE TABLE a(k TEXT PRIMARY KEY, x INT, y INT UNIQUE,
            z INT DEFAULT 1 REFERENCES a(y) ON DELETE SET DEFAULT ON UPDATE SET DEFAULT) WITHOUT ROWID;
        CREATE UNIQUE INDEX a_1 ON a(z) WHERE z IS NOT NULL OR x > 1";
    play(
        schema,
        &[],
        "2: INSERT INTO a(k, x, y, z) VALUES('3', 2, 1, NULL)
         0: INSERT INTO a(k, x, y, z) VALUES('4', 4, 2, NULL)
         1 learns 1 rows of 2
         1: UPDATE a SET k = '1' WHERE k IS '3'
         1 learns 1 rows of 0
         1: DELETE FROM a WHERE k IS '4'
         0: INSERT INTO a(k, x, y, z) VALUES('1', 'b', 4, 2)
         0: UPDATE a SET k = '2' WHERE k IS '1'
         0: INSERT INTO a(k, x, y, z) VALUES('1', 2, 3, 4)
         1: UPDATE a SET z = 1 WHERE k IS '1'
         0 learns 1 rows of 1
         0: UPDATE a SET x = 2 WHERE k IS '2'",
    );
}

/// What a record names of a row that refers to itself does not depend on the number that it had last.
#[test]
fn a_record_names_no_reference_of_a_row_to_itself() {
    let schema = "CREATE TABLE a(k TEXT PRIMARY KEY);
        CREATE TABLE b(id INTEGER PRIMARY KEY,
            x INT UNIQUE REFERENCES b(id) ON DELETE CASCADE ON UPDATE CASCADE,
            y TEXT COLLATE RTRIM NOT NULL DEFAULT 'a' REFERENCES a(k) ON DELETE SET DEFAULT ON UPDATE CASCADE)";
    play(
        schema,
        &[("b.on_unique", "unify")],
        "2: INSERT INTO a(k) VALUES('2')
         0: INSERT INTO a(k) VALUES('2')
         1 learns 1 rows of 2
         2: DELETE FROM a WHERE k IS '2'
         0: INSERT INTO b(id, x, y) VALUES(1, NULL, '2')
         1: UPDATE a SET k = '3' WHERE k IS '2'
         1: INSERT INTO b(id, x, y) VALUES(1, NULL, '3')
         1: UPDATE b SET x = 1 WHERE id IS 1
         0 learns all of 1
         0 learns all of 2
         1 learns all of 0
         1 learns all of 2",
    );
}
