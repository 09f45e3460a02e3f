//! Which row is which, and who has a key that several claim.

use super::Pair;
use crate::site::Site;
use crate::site::{World, settle};

const USER: &str = "CREATE TABLE u(id TEXT PRIMARY KEY, mail TEXT UNIQUE, v);
    INSERT INTO u VALUES('p', 'p', 0), ('q', 'q', 0)";

const TODO: &str = "CREATE TABLE todo(id INTEGER PRIMARY KEY, title);
    CREATE TABLE step(id TEXT PRIMARY KEY, todo INT REFERENCES todo(id));
    INSERT INTO todo VALUES(1, 'first')";

#[test]
fn r_id_a_row_stays_itself_whatever_becomes_of_its_key() {
    let mut pair = Pair::new(USER);
    pair.apart("UPDATE u SET id = 'r' WHERE id = 'p'", "UPDATE u SET v = 1 WHERE id = 'p'");
    pair.show("SELECT id, v FROM u ORDER BY 1", &["q|0", "r|1"], &[]);
}

#[test]
fn r_id_key_who_inserts_the_same_key_inserts_the_same_row() {
    let mut pair = Pair::new("CREATE TABLE tag(name TEXT PRIMARY KEY, colour, size)");
    pair.apart("INSERT INTO tag VALUES('t', 'red', 1)", "INSERT INTO tag VALUES('t', 'blue', 1)");
    settle(&mut pair.a, &mut pair.b);
    assert_eq!(pair.a.rows("SELECT * FROM tag"), ["t|blue|1"]);
    assert_eq!(pair.b.rows("SELECT * FROM tag"), ["t|blue|1"]);
}

#[test]
fn r_id_key_a_key_freed_by_a_rename_is_free_for_a_new_row() {
    let mut pair = Pair::new(USER);
    pair.apart(
        "UPDATE u SET id = 'r' WHERE id = 'p'; INSERT INTO u VALUES('p', 'new', 7)",
        "UPDATE u SET v = 1 WHERE id = 'p'",
    );
    pair.show("SELECT id, mail, v FROM u WHERE id <> 'q' ORDER BY 1", &["p|new|7", "r|p|1"], &[]);
}

#[test]
fn r_id_birth_rows_without_a_key_are_never_one() {
    let mut pair = Pair::new("CREATE TABLE log(line)");
    pair.apart("INSERT INTO log VALUES('same')", "INSERT INTO log VALUES('same')");
    pair.show("SELECT line FROM log", &["same", "same"], &[]);
}

#[test]
fn r_id_auto_counted_keys_mean_birth_and_others_the_key() {
    let mut pair = Pair::new(
        "CREATE TABLE counted(id INTEGER PRIMARY KEY, v); CREATE TABLE named(id TEXT PRIMARY KEY, v);
         CREATE TABLE single(id INTEGER PRIMARY KEY CHECK(id = 1), v);",
    );
    let both = "INSERT INTO counted VALUES(1, 0); INSERT INTO named VALUES('1', 0);
                INSERT INTO single VALUES(1, 0);";
    pair.apart(both, both);
    let count = "SELECT (SELECT count(*) FROM counted), (SELECT count(*) FROM named),
                        (SELECT count(*) FROM single)";
    pair.show(count, &["2|1|1"], &[]);
}

#[test]
fn r_pkupd_a_key_that_was_updated_is_no_delete_and_insert() {
    let mut pair = Pair::new(USER);
    pair.apart("UPDATE u SET v = 5 WHERE id = 'p'", "UPDATE u SET id = 'r' WHERE id = 'p'");
    pair.show("SELECT id, v FROM u ORDER BY 1", &["q|0", "r|5"], &[]);
}

#[test]
fn r_remap_the_earliest_keeps_its_number_and_references_follow() {
    let mut pair = Pair::new(TODO);
    pair.apart(
        "INSERT INTO todo VALUES(2, 'a'); INSERT INTO step VALUES('sa', 2)",
        "INSERT INTO todo VALUES(2, 'b'); INSERT INTO step VALUES('sb', 2)",
    );
    pair.a.pull(&mut pair.b);
    pair.b.pull(&mut pair.a);
    for site in [&pair.a, &pair.b] {
        assert_eq!(site.rows("SELECT * FROM todo"), ["1|first", "2|a", "3|b"]);
        assert_eq!(site.rows("SELECT * FROM step ORDER BY 1"), ["sa|2", "sb|3"]);
    }
}

#[test]
fn r_remap_past_the_largest_number_the_largest_free_ones_are_given() {
    let max = i64::MAX;
    for autoincrement in ["", "AUTOINCREMENT"] {
        let world = World::new();
        let schema = format!("CREATE TABLE t(id INTEGER PRIMARY KEY {autoincrement}, v)");
        let mut a = world.init("a", &schema);
        let (mut b, mut c) = (world.clone_site(&mut a, "b"), world.clone_site(&mut a, "c"));
        // A row that is dead, one that is there, and those who ask for one number.
        a.run(&format!("INSERT INTO t VALUES(3, 'a'), ({max}, 'm'), ({}, 'dead')", max - 1));
        a.replica.fold().unwrap();
        a.run("DELETE FROM t WHERE v = 'dead'");
        c.run("INSERT INTO t VALUES(3, 'c')");
        b.run("INSERT INTO t VALUES(3, 'b')");
        a.pull(&mut b);
        a.pull(&mut c);
        for _ in 0..3 {
            b.pull(&mut a);
            c.pull(&mut a);
            a.pull(&mut b);
            a.pull(&mut c);
        }
        for site in [&a, &b, &c] {
            let mut rows = site.rows("SELECT v, id FROM t ORDER BY v");
            assert_eq!(rows.remove(0), "a|3", "{autoincrement}");
            let given: Vec<_> = rows.iter().filter(|row| !row.starts_with('m')).collect();
            assert_eq!(given, [&format!("b|{}", max - 2), &format!("c|{}", max - 3)]);
            assert_eq!(rows.len(), 3, "{autoincrement}");
        }
    }
}

#[test]
fn r_pin_a_number_that_was_given_so_never_changes_again() {
    let mut pair = Pair::new(TODO);
    pair.apart("INSERT INTO todo VALUES(2, 'a')", "INSERT INTO todo VALUES(2, 'b')");
    settle(&mut pair.a, &mut pair.b);
    pair.a.run("DELETE FROM todo WHERE title = 'a'");
    pair.show("SELECT * FROM todo", &["1|first", "3|b"], &[]);
}

#[test]
fn r_uniq_the_earliest_claim_wins_and_the_loser_is_kept() {
    let mut pair = Pair::new(USER);
    pair.apart("INSERT INTO u VALUES('a', 'm', 1)", "INSERT INTO u VALUES('b', 'm', 2)");
    pair.show("SELECT id FROM u WHERE mail = 'm'", &["a"], &["unique"]);
}

#[test]
fn r_uniq_a_claim_is_as_old_as_the_columns_of_its_index() {
    let mut pair = Pair::new(USER);
    pair.apart("INSERT INTO u VALUES('a', 'm', 1)", "INSERT INTO u VALUES('b', 'm', 2)");
    // A later write of another column does not make the claim younger.
    pair.a.run("UPDATE u SET v = 9 WHERE id = 'a'");
    pair.show("SELECT id, v FROM u WHERE mail = 'm'", &["a|9"], &["unique"]);
}

#[test]
fn r_uniq_holds_for_partial_expression_and_collated_indexes() {
    let mut pair = Pair::new(
        "CREATE TABLE d(id TEXT PRIMARY KEY, name TEXT COLLATE NOCASE UNIQUE, a INT, b INT, live INT);
         CREATE UNIQUE INDEX sum_of ON d(a + b); CREATE UNIQUE INDEX alive ON d(a) WHERE live;",
    );
    pair.apart(
        "INSERT INTO d VALUES('1', 'x', 1, 1, 0), ('2', 'y', 2, 5, 0), ('3', 'z', 3, 30, 1)",
        "INSERT INTO d VALUES('4', 'X', 4, 40, 0), ('5', 'v', 6, 1, 0), ('6', 'w', 3, 50, 1),
                             ('7', 'u', 3, 60, 0)",
    );
    let records = ["unique", "unique", "unique"];
    pair.show("SELECT id FROM d ORDER BY 1", &["1", "2", "3", "7"], &records);
}

#[test]
fn r_fallback_an_update_that_lost_shows_what_was_before() {
    let mut pair = Pair::new(USER);
    pair.apart(
        "UPDATE u SET mail = 'm' WHERE id = 'p'",
        "UPDATE u SET mail = 'm', v = 4 WHERE id = 'q'",
    );
    pair.show("SELECT * FROM u ORDER BY 1", &["p|m|0", "q|q|4"], &["fallback"]);
}

#[test]
fn r_pinkey_a_part_of_a_key_is_written_with_the_parts_that_are_shown() {
    let mut pair = Pair::new(
        "CREATE TABLE s(id TEXT PRIMARY KEY, shelf TEXT, place INT, UNIQUE(shelf, place));
         INSERT INTO s VALUES('p', 'A', 1), ('q', 'B', 1)",
    );
    pair.apart(
        "UPDATE s SET shelf = 'C' WHERE id = 'p'",
        "UPDATE s SET shelf = 'C' WHERE id = 'q'",
    );
    pair.show("SELECT * FROM s ORDER BY 1", &["p|C|1", "q|B|1"], &["fallback"]);
    // Whoever moves q on shelf B has seen it there, so it stays there.
    pair.a.run("UPDATE s SET place = 2 WHERE id = 'q'");
    pair.show("SELECT * FROM s ORDER BY 1", &["p|C|1", "q|B|2"], &[]);
}

#[test]
fn r_unify_references_to_the_loser_show_the_winner() {
    let mut pair = Pair::with(
        "CREATE TABLE tag(id INTEGER PRIMARY KEY, name TEXT UNIQUE);
         CREATE TABLE tagged(id TEXT PRIMARY KEY, tag INT REFERENCES tag(id));",
        &[("tag.on_unique", "unify")],
    );
    pair.apart(
        "INSERT INTO tag VALUES(1, 'red'); INSERT INTO tagged VALUES('a', 1)",
        "INSERT INTO tag VALUES(5, 'red'); INSERT INTO tagged VALUES('b', 5)",
    );
    settle(&mut pair.a, &mut pair.b);
    for site in [&pair.a, &pair.b] {
        assert_eq!(site.rows("SELECT * FROM tag"), ["1|red"]);
        assert_eq!(site.rows("SELECT * FROM tagged ORDER BY 1"), ["a|1", "b|1"]);
    }
}

#[test]
fn r_return_what_was_hidden_comes_back_when_its_reason_is_gone() {
    let mut pair = Pair::new(USER);
    pair.apart("INSERT INTO u VALUES('a', 'm', 1)", "INSERT INTO u VALUES('b', 'm', 2)");
    pair.show("SELECT id FROM u WHERE mail = 'm'", &["a"], &["unique"]);
    pair.a.run("UPDATE u SET mail = 'other' WHERE id = 'a'");
    pair.show("SELECT id FROM u WHERE mail = 'm'", &["b"], &[]);
}

#[test]
fn r_comp_a_hidden_row_does_not_take_back_what_a_user_wrote() {
    let mut pair = Pair::new(USER);
    pair.apart("INSERT INTO u VALUES('a', 'm', 1)", "INSERT INTO u VALUES('b', 'm', 2)");
    settle(&mut pair.a, &mut pair.b);
    // b waits for `m`, with an earlier claim than the one that is made now.
    pair.b.run("DELETE FROM u WHERE id = 'a'; UPDATE u SET mail = 'm' WHERE id = 'q'");
    pair.show("SELECT id FROM u WHERE mail = 'm'", &["q"], &["unique"]);
}

#[test]
fn r_view_what_is_shown_depends_on_what_is_known_and_not_on_its_order() {
    let mut pair = Pair::new(USER);
    let mut c = pair.world.clone_site(&mut pair.a, "c");
    pair.apart("INSERT INTO u VALUES('a', 'm', 1)", "INSERT INTO u VALUES('b', 'm', 2)");
    c.run("INSERT INTO u VALUES('c', 'm', 3)");
    let mut d = pair.world.clone_site(&mut c, "d");
    d.pull(&mut pair.b);
    d.pull(&mut pair.a);
    pair.a.pull(&mut c);
    pair.a.pull(&mut pair.b);
    for site in [&pair.a, &d] {
        assert_eq!(site.rows("SELECT id FROM u WHERE mail = 'm'"), ["a"]);
        assert_eq!(super::kinds(site), ["unique", "unique"]);
    }
}

#[test]
fn r_equal_keys_that_sqlite_holds_equal_are_one() {
    let mut pair = Pair::new(
        "CREATE TABLE city(name TEXT COLLATE NOCASE PRIMARY KEY NOT NULL, v) WITHOUT ROWID;
         CREATE TABLE n(k PRIMARY KEY, v); INSERT INTO city VALUES('Oslo', 1); INSERT INTO n VALUES(1, 1)",
    );
    pair.apart("REPLACE INTO city VALUES('OSLO', 2)", "REPLACE INTO n VALUES(1.0, 2), ('1', 3)");
    let both = "SELECT name, v FROM city UNION ALL SELECT k, v FROM n ORDER BY 2, 1";
    pair.show(both, &["1.0|2", "OSLO|2", "1|3"], &[]);
}

#[test]
fn r_equal_long_floating_point_numbers_refer_to_no_text() {
    let mut pair = Pair::new(
        "CREATE TABLE p(k TEXT PRIMARY KEY); CREATE TABLE c(n INTEGER PRIMARY KEY, r REFERENCES p)",
    );
    // Some versions of SQLite spell the first as the third, and then store only one of them.
    pair.apart(
        "INSERT OR IGNORE INTO p VALUES(9223372036854775807.0), (0.1), ('9.22337203685478e+18')",
        "PRAGMA foreign_keys = OFF; INSERT INTO c VALUES(1, 9223372036854775807.0), (2, 0.1)",
    );
    pair.show("SELECT * FROM c", &["2|0.1"], &["fk_dangling"]);
    pair.a.run("PRAGMA foreign_keys = OFF; INSERT INTO c VALUES(3, 9223372036854775807.0)");
    pair.show("SELECT * FROM c", &["2|0.1"], &["fk_dangling", "fk_dangling"]);
    assert_eq!(pair.a.replica.verify_full().unwrap(), [""; 0]);
}

#[test]
fn r_constraint_a_rebuilt_table_keeps_its_winners() {
    let table = "id INTEGER PRIMARY KEY, mail TEXT, phone TEXT";
    let mut pair = Pair::new(&format!("CREATE TABLE u({table}, UNIQUE(mail), UNIQUE(phone))"));
    pair.apart(
        "INSERT INTO u VALUES(1, 'm', 'p'), (2, 'x', 'y')",
        "INSERT INTO u VALUES(3, 'm', 'z')",
    );
    pair.show("SELECT * FROM u", &["1|m|p", "2|x|y"], &["unique"]);
    let ids = |site: &Site| -> Vec<String> {
        site.replica.records().unwrap().into_iter().map(|c| c.id).collect()
    };
    let before = ids(&pair.a);
    // The triggers are made again, as SQLite's instructions for a rebuild say.
    let rebuild = |site: &Site| {
        let triggers = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'u'";
        let triggers = site.rows(triggers).join(";");
        site.run(&format!(
            "BEGIN; CREATE TABLE n({table}, CONSTRAINT a UNIQUE(phone), CONSTRAINT b UNIQUE(mail));
             INSERT INTO n SELECT * FROM u; DROP TABLE u; ALTER TABLE n RENAME TO u; {triggers};
             CREATE UNIQUE INDEX second ON u(mail); COMMIT"
        ));
    };
    rebuild(&pair.a);
    rebuild(&pair.b);
    pair.show("SELECT * FROM u", &["1|m|p", "2|x|y"], &["unique"]);
    assert_eq!((ids(&pair.a), ids(&pair.b)), (before.clone(), before));
}
