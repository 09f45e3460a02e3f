//! What becomes of rows that refer to others.

use super::Pair;
use crate::site::{Site, settle};
use synqlite_core::{Conflict, Verb};

fn children(action: &str) -> String {
    format!(
        "CREATE TABLE p(id TEXT PRIMARY KEY, k TEXT UNIQUE, v);
         CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT DEFAULT 'd' REFERENCES p(id) {action}, v);
         INSERT INTO p VALUES('P', 'k', 0), ('d', 'd', 0); INSERT INTO c VALUES('c0', 'P', 0);"
    )
}

const CHILDREN: &str = "SELECT id, p FROM c ORDER BY 1";

#[test]
fn r_ref_a_reference_follows_its_row() {
    let mut pair = Pair::new(&children("ON UPDATE CASCADE"));
    pair.apart("UPDATE p SET id = 'R' WHERE id = 'P'", "INSERT INTO c VALUES('c1', 'P', 0)");
    pair.show(CHILDREN, &["c0|R", "c1|R"], &[]);
}

#[test]
fn r_lref_a_reference_declared_by_policy_follows_its_row_and_is_not_enforced() {
    let mut pair = Pair::with(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, v); CREATE TABLE c(id TEXT PRIMARY KEY, p INT);",
        &[("c.refs", "p:p")],
    );
    pair.apart(
        "INSERT INTO p VALUES(1, 'a')",
        "INSERT INTO p VALUES(1, 'b'); INSERT INTO c VALUES('c', 1), ('nobody', 77)",
    );
    pair.show("SELECT id, p FROM c ORDER BY 1", &["c|2", "nobody|77"], &[]);
}

#[test]
fn r_lref_what_was_written_before_a_reference_was_declared_means_what_its_writer_saw() {
    let tables =
        "CREATE TABLE p(id INTEGER PRIMARY KEY, v); CREATE TABLE c(id TEXT PRIMARY KEY, p INT);
                  INSERT INTO p VALUES(5, 'old'); INSERT INTO c VALUES('o', 5), ('nobody', 2)";
    let refs = ["c.refs=p:p".parse().unwrap()];
    let shown = "SELECT c.id, v FROM c LEFT JOIN p ON p = p.id ORDER BY 1";
    for seen in [false, true] {
        let mut pair = Pair::new(tables);
        pair.apart(
            "INSERT INTO p VALUES(1, 'a'); INSERT INTO c VALUES('x', 1)",
            "INSERT INTO p VALUES(1, 'b'), (3, 'd'); INSERT INTO c VALUES('y', 1);
             UPDATE p SET id = 6 WHERE id = 5; UPDATE c SET p = 6 WHERE id = 'o'",
        );
        if seen {
            // There row 'b' has another number by now, and the value means row 'a'.
            pair.a.pull(&mut pair.b);
        }
        pair.a.replica.set_policies(&refs).unwrap();
        pair.show(shown, &["nobody|NULL", "o|old", "x|a", "y|b"], &[]);
    }
}

#[test]
fn r_rebind_a_key_that_another_row_has_now_means_that_row() {
    let mut pair = Pair::new(
        "CREATE TABLE p(id INTEGER PRIMARY KEY, k TEXT UNIQUE, v);
         CREATE TABLE c(id TEXT PRIMARY KEY,
                        k TEXT REFERENCES p(k) DEFERRABLE INITIALLY DEFERRED);
         INSERT INTO p VALUES(5, 'k', 'old'); INSERT INTO c VALUES('c', 'k')",
    );
    pair.a.run("BEGIN; DELETE FROM p WHERE id = 5; INSERT INTO p VALUES(9, 'k', 'new'); COMMIT");
    pair.show("SELECT p.id, c.id FROM c JOIN p ON p.k = c.k", &["9|c"], &[]);
}

#[test]
fn r_protect_a_parent_that_is_still_referred_to_is_kept() {
    for action in ["", "ON DELETE RESTRICT"] {
        let mut pair = Pair::new(&children(action));
        pair.apart(
            "DELETE FROM c; DELETE FROM p WHERE id = 'P'",
            "INSERT INTO c VALUES('c1', 'P', 0)",
        );
        pair.show(CHILDREN, &["c1|P"], &["restrict_revived"]);
    }
}

#[test]
fn r_inc_a_reference_to_a_rows_former_life_does_not_come_back_with_it() {
    for (action, shown) in
        [("ON DELETE CASCADE", [].as_slice()), ("ON DELETE SET NULL", &["c0|NULL"])]
    {
        let mut pair = Pair::new(&children(action));
        pair.a.run("DELETE FROM p WHERE id = 'P'");
        settle(&mut pair.a, &mut pair.b);
        pair.b.run("INSERT INTO p VALUES('P', 'k', 1)");
        pair.show(CHILDREN, shown, &[]);
    }
}

#[test]
fn r_fk_mode_ignore_leaves_references_that_lead_nowhere() {
    let mut pair = Pair::with(&children(""), &[("fk", "ignore")]);
    pair.b.app.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    pair.a.app.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    pair.apart("DELETE FROM p WHERE id = 'P'", "INSERT INTO c VALUES('c1', 'nowhere', 0)");
    for _ in 0..2 {
        pair.a.replica.pull_from(&mut pair.b.replica, false).unwrap();
        pair.b.replica.pull_from(&mut pair.a.replica, false).unwrap();
    }
    for site in [&pair.a, &pair.b] {
        assert_eq!(site.rows(CHILDREN), ["c0|P", "c1|nowhere"]);
        assert_eq!(site.rows("SELECT id FROM p"), ["d"]);
    }
}

/// Enforced since, foreign keys act on what happened before as they would have then.
#[test]
fn r_fk_mode_enforced_later_sets_what_actions_would_have_set() {
    let again = "REPLACE INTO p VALUES('P', 'k', 1)";
    let key = "UPDATE p SET id = 'R' WHERE id = 'P'";
    let cases: [(&str, &str, &[&str]); 4] = [
        ("ON DELETE SET NULL", again, &["c0|NULL", "c1|NULL"]),
        ("ON DELETE CASCADE", again, &[]),
        // Where the key was changed the reference that was seen ended as a value.
        ("ON UPDATE SET NULL", key, &["c1|NULL"]),
        ("ON UPDATE SET DEFAULT", key, &["c1|d"]),
    ];
    for (action, write, shown) in cases {
        let mut pair = Pair::with(&children(action), &[("fk", "ignore")]);
        for site in [&pair.a, &pair.b] {
            site.run("PRAGMA foreign_keys = OFF");
        }
        pair.b.run("INSERT INTO c VALUES('c1', 'P', 0)");
        std::thread::sleep(std::time::Duration::from_millis(2));
        pair.a.run(write);
        for _ in 0..2 {
            pair.a.replica.pull_from(&mut pair.b.replica, false).unwrap();
            pair.b.replica.pull_from(&mut pair.a.replica, false).unwrap();
        }
        let enforce = "fk=enforce".parse().unwrap();
        pair.a.replica.set_policies(&[enforce]).unwrap();
        settle(&mut pair.a, &mut pair.b);
        for site in [&pair.a, &pair.b] {
            assert_eq!(site.rows(CHILDREN), shown, "{action}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{action}");
        }
    }
}

#[test]
fn r_fk_cascade_children_of_a_dead_parent_are_hidden() {
    let mut pair = Pair::new(&children("ON DELETE CASCADE"));
    pair.apart("DELETE FROM p WHERE id = 'P'", "INSERT INTO c VALUES('c1', 'P', 0)");
    pair.show(CHILDREN, &[], &["fk_cascade"]);
}

#[test]
fn r_fk_setnull_a_reference_to_a_dead_parent_is_shown_as_null() {
    let mut pair = Pair::new(&children("ON DELETE SET NULL"));
    pair.apart("DELETE FROM p WHERE id = 'P'", "INSERT INTO c VALUES('c1', 'P', 0)");
    pair.show(CHILDREN, &["c0|NULL", "c1|NULL"], &["set_null"]);
}

#[test]
fn r_fk_setdefault_a_reference_to_a_dead_parent_is_shown_as_the_default() {
    let mut pair = Pair::new(&children("ON DELETE SET DEFAULT"));
    pair.apart("DELETE FROM p WHERE id = 'P'", "INSERT INTO c VALUES('c1', 'P', 0)");
    pair.show(CHILDREN, &["c0|d", "c1|d"], &["set_null"]);
}

#[test]
fn r_fk_onupdate_a_later_change_of_the_parents_key_overrides_the_reference() {
    let mut pair = Pair::new(&children("ON UPDATE SET NULL"));
    pair.apart("INSERT INTO c VALUES('c1', 'P', 0)", "UPDATE p SET id = 'R' WHERE id = 'P'");
    settle(&mut pair.a, &mut pair.b);
    for site in [&pair.a, &pair.b] {
        assert_eq!(site.rows(CHILDREN), ["c0|NULL", "c1|NULL"]);
    }
}

#[test]
fn r_fk_hidden_children_go_and_return_with_a_parent_that_lost_its_key() {
    let mut pair = Pair::new(&children("ON DELETE CASCADE"));
    pair.apart(
        "INSERT INTO p VALUES('A', 'same', 0)",
        "INSERT INTO p VALUES('B', 'same', 0); INSERT INTO c VALUES('c1', 'B', 0)",
    );
    pair.show(CHILDREN, &["c0|P"], &["fk_parent_hidden", "unique"]);
    pair.a.run("DELETE FROM p WHERE id = 'A'");
    pair.show(CHILDREN, &["c0|P", "c1|B"], &[]);
}

#[test]
fn r_fk_cycle_among_tables_that_refer_to_each_other_all_constraints_hold() {
    let mut pair = Pair::new(
        "CREATE TABLE team(id TEXT PRIMARY KEY, name TEXT UNIQUE, head TEXT
             REFERENCES person(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE person(id TEXT PRIMARY KEY, team TEXT
             REFERENCES team(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);",
    );
    let make = |x: &str| {
        format!(
            "BEGIN; INSERT INTO team VALUES('t{x}', 'core', 'p{x}');
             INSERT INTO person VALUES('p{x}', 't{x}'); COMMIT"
        )
    };
    pair.apart(&make("1"), &make("2"));
    let all = "SELECT id FROM team UNION SELECT id FROM person ORDER BY 1";
    pair.show(all, &["p1", "t1"], &["fk_parent_hidden", "unique"]);
}

#[test]
fn r_fk_action_what_an_action_did_is_undone_with_its_cause() {
    let mut pair = Pair::new(
        &(children("ON DELETE CASCADE")
            + "CREATE TABLE r(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id));"),
    );
    pair.apart("DELETE FROM p WHERE id = 'P'", "INSERT INTO r VALUES('r', 'P')");
    pair.show(CHILDREN, &["c0|P"], &["restrict_revived"]);
}

#[test]
fn r_spell_a_reference_shows_what_was_written_as_long_as_it_means_the_key() {
    let mut pair = Pair::new(
        "CREATE TABLE p(id TEXT COLLATE NOCASE PRIMARY KEY, n INT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p ON UPDATE CASCADE,
                        n TEXT REFERENCES p(n));
         INSERT INTO p VALUES('abc', 5)",
    );
    pair.b.run("INSERT INTO c VALUES(1, 'ABC', '05')");
    let shown = "SELECT p, n FROM c";
    pair.show(shown, &["ABC|05"], &[]);
    pair.a.run("UPDATE p SET id = 'xyz'");
    pair.show(shown, &["xyz|05"], &[]);
    pair.b.run("UPDATE p SET id = 'Abc'");
    settle(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.rows(shown), pair.b.rows(shown));
    assert_eq!(pair.a.replica.verify_full().unwrap(), [""; 0]);
    assert_eq!(pair.b.replica.verify_full().unwrap(), [""; 0]);
}

#[test]
fn r_spell_a_child_whose_column_cannot_store_the_key_of_its_row_is_hidden() {
    let mut pair = Pair::new(
        "CREATE TABLE p(id TEXT PRIMARY KEY, k TEXT UNIQUE);
         CREATE TABLE c(id INTEGER PRIMARY KEY, p INTEGER REFERENCES p(k));
         INSERT INTO p VALUES('x', '7')",
    );
    let mut late = pair.world.clone_site(&mut pair.a, "late");
    pair.apart("UPDATE p SET k = '1.0'", "INSERT INTO c VALUES(1, 7)");
    pair.show("SELECT p FROM c", &[], &["fk_dangling"]);
    // The column stores it as 1, which means another row.
    pair.a.run("INSERT INTO p VALUES('y', '1')");
    pair.show("SELECT p FROM c", &[], &["fk_dangling"]);
    late.pull(&mut pair.b);
    assert_eq!(late.rows("SELECT p FROM c"), [""; 0]);
    pair.a.run("UPDATE p SET k = '8' WHERE id = 'x'");
    pair.show("SELECT p FROM c", &["8"], &[]);
}

/// Four rows hang on one deleted project, two on a hidden person: two questions, the same on all sites.
#[test]
fn r_one_answer_settles_all_that_waits_for_it() {
    let schema = "CREATE TABLE person(id TEXT PRIMARY KEY, email TEXT UNIQUE);
        CREATE TABLE project(id TEXT PRIMARY KEY);
        CREATE TABLE task(id TEXT PRIMARY KEY, project TEXT REFERENCES project ON DELETE CASCADE,
            person TEXT REFERENCES person);
        CREATE TABLE step(id TEXT PRIMARY KEY, task TEXT REFERENCES task ON DELETE CASCADE);
        INSERT INTO project VALUES('P'), ('Q'); INSERT INTO task VALUES('old', 'P', NULL);";
    let apart = || {
        let mut pair = Pair::new(schema);
        pair.a.run("DELETE FROM project WHERE id = 'P'; INSERT INTO person VALUES('a', 'x')");
        pair.b.run("INSERT INTO task VALUES('t', 'P', NULL)");
        pair.b.run("INSERT INTO task VALUES('u', 'P', NULL)");
        pair.b.run("INSERT INTO step VALUES('s', 't'), ('o', 'old')");
        pair.b.run("INSERT INTO person VALUES('b', 'x'); INSERT INTO task VALUES('v', 'Q', 'b')");
        pair.b.run("INSERT INTO step VALUES('w', 'v')");
        settle(&mut pair.a, &mut pair.b);
        pair
    };
    let told = |site: &Site| -> Vec<String> {
        let open = site.replica.questions().unwrap().into_iter();
        let one = |c: Conflict| {
            let with: Vec<String> = c.followers.iter().map(|f| f.row.clone()).collect();
            format!("{} {}: {}", c.kind, c.row, with.join(" "))
        };
        open.map(one).collect()
    };
    let mut pair = apart();
    let open = ["unique 'b': 'w' 'v'", "fk_cascade 't': 'o' 's' 'u'"];
    assert_eq!(
        (told(&pair.a), told(&pair.b)),
        (open.map(String::from).into(), open.map(String::from).into())
    );
    assert_eq!(
        (pair.a.replica.open_questions().unwrap(), pair.a.replica.conflicts().unwrap().len()),
        (2, 7)
    );
    // All come back with what they wait for.
    let id = |site: &Site, at: usize| site.replica.questions().unwrap()[at].id.clone();
    let (project, person) = (id(&pair.a, 1), id(&pair.a, 0));
    assert_eq!(pair.a.replica.settle_conflict(&project[..8], Verb::Restore).unwrap(), project);
    pair.a.replica.settle_conflict(&person, Verb::Prefer).unwrap();
    settle(&mut pair.a, &mut pair.b);
    for site in [&pair.a, &pair.b] {
        assert_eq!(site.rows("SELECT id FROM step ORDER BY 1"), ["o", "s", "w"]);
        assert_eq!(told(site), ["unique 'a': "]);
    }
    // Or they go with it.
    let mut pair = apart();
    let project = id(&pair.b, 1);
    let done = pair.b.replica.settle_conflicts(&[(project, Verb::Discard)], false).unwrap();
    assert_eq!((done.settled.len(), done.open, done.opened.len()), (4, 1, 0));
    settle(&mut pair.a, &mut pair.b);
    for site in [&pair.a, &pair.b] {
        assert_eq!(told(site), ["unique 'b': 'w' 'v'"]);
    }
    let person = id(&pair.b, 0);
    assert_eq!(pair.b.replica.settle_conflict(&person, Verb::Discard).unwrap(), person);
    settle(&mut pair.a, &mut pair.b);
    for site in [&pair.a, &pair.b] {
        assert_eq!(told(site), [""; 0]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
    // What is answered alone leaves the others: one of them asks now.
    let mut pair = apart();
    let alone = pair.b.replica.conflicts().unwrap();
    let alone = alone.iter().find(|c| c.row == "'u'").unwrap().id.clone();
    pair.b.replica.settle_conflict(&alone, Verb::Discard).unwrap();
    settle(&mut pair.a, &mut pair.b);
    assert_eq!(told(&pair.a), ["unique 'b': 'w' 'v'", "fk_cascade 't': 'o' 's'"]);
}
