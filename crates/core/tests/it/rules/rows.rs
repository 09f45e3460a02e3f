//! What a write is, when it was made, which one wins: versions of rows and columns.

use super::Pair;
use crate::site::settle;
use std::path::Path;
use std::sync::Arc;
use synqlite_core::{Environment, Error, Replica, System};

const NOTE: &str = "CREATE TABLE note(id TEXT PRIMARY KEY, title, body);
    INSERT INTO note VALUES('n', 'title', 'body')";

#[test]
fn r_lww_the_later_write_wins_column_by_column() {
    let mut pair = Pair::new(NOTE);
    pair.apart("UPDATE note SET title = 'a', body = 'a'", "UPDATE note SET title = 'b'");
    pair.show("SELECT title, body FROM note", &["b|a"], &[]);
}

#[test]
fn r_join_takes_the_larger_of_each_part_in_whatever_order() {
    let mut pair = Pair::new(NOTE);
    let mut c = pair.world.clone_site(&mut pair.a, "c");
    pair.apart("UPDATE note SET title = 'a'", "UPDATE note SET body = 'b'");
    c.run("UPDATE note SET title = 'c'; INSERT INTO note VALUES('m', 1, 2)");
    let mut d = pair.world.clone_site(&mut pair.a, "d");
    d.pull(&mut c);
    d.pull(&mut pair.b);
    d.pull(&mut c);
    pair.b.pull(&mut d);
    c.pull(&mut pair.b);
    let all = ["m|1|2", "n|c|b"];
    for site in [&pair.b, &c, &d] {
        assert_eq!(site.rows("SELECT * FROM note ORDER BY 1"), all);
    }
}

#[test]
fn r_exist_a_row_lives_if_its_latest_insert_is_later_than_its_latest_delete() {
    let mut pair = Pair::new(NOTE);
    // Deleted twice, independently, is deleted once; and delete wins over a later update.
    pair.apart("DELETE FROM note", "UPDATE note SET title = 'b'");
    pair.show("SELECT * FROM note", &[], &[]);
    // An insert and a delete there, and a later insert here that knew nothing of them.
    pair.apart(
        "INSERT INTO note VALUES('m', 'a', 1); DELETE FROM note WHERE id = 'm'",
        "INSERT INTO note VALUES('m', 'b', 2)",
    );
    pair.show("SELECT id, title FROM note", &["m|b"], &[]);
}

#[test]
fn r_exist_with_delete_last_an_update_counts_as_an_insert() {
    let mut pair = Pair::with(NOTE, &[("note.delete", "last")]);
    pair.apart("DELETE FROM note", "UPDATE note SET title = 'b'");
    pair.show("SELECT title, body FROM note", &["b|body"], &[]);
}

#[test]
fn r_group_columns_of_a_check_are_joined_as_one() {
    let mut pair = Pair::new(
        "CREATE TABLE span(id TEXT PRIMARY KEY, low INT, high INT, note, CHECK(low < high));
         INSERT INTO span VALUES('s', 1, 9, '')",
    );
    pair.apart("UPDATE span SET low = 8, note = 'a'", "UPDATE span SET high = 2");
    pair.show("SELECT low, high, note FROM span", &["1|2|a"], &[]);
}

#[test]
fn r_counter_concurrent_changes_add_up() {
    let mut pair = Pair::with(
        "CREATE TABLE stock(id TEXT PRIMARY KEY, n INT); INSERT INTO stock VALUES('x', 10)",
        &[("stock.n", "counter")],
    );
    pair.apart("UPDATE stock SET n = n - 3", "UPDATE stock SET n = n + 5");
    pair.show("SELECT n FROM stock", &["12"], &[]);
}

#[test]
fn r_gen_generated_columns_are_computed_and_not_replicated() {
    let mut pair = Pair::new(
        "CREATE TABLE box(id TEXT PRIMARY KEY, w INT, h INT, area INT AS (w * h) STORED);
         INSERT INTO box(id, w, h) VALUES('b', 2, 3)",
    );
    pair.apart("UPDATE box SET w = 5", "UPDATE box SET h = 7");
    pair.show("SELECT area FROM box", &["35"], &[]);
}

#[test]
fn r_cap_only_what_changed_is_a_write() {
    let mut pair = Pair::new(NOTE);
    // The whole row is written, one column of it with a new value; a rolled-back write is none.
    pair.apart(
        "UPDATE note SET title = 'a', body = 'a'",
        "UPDATE note SET title = 'b', body = 'body'; BEGIN; UPDATE note SET body = 'x'; ROLLBACK;
         INSERT OR IGNORE INTO note VALUES('n', 'ignored', 'ignored')",
    );
    pair.show("SELECT title, body FROM note", &["b|a"], &[]);
}

#[test]
fn r_cap_replace_a_row_saved_by_replace_goes_on_as_that_row() {
    let mut pair = Pair::new(NOTE);
    pair.apart(
        "UPDATE note SET body = 'a'",
        "INSERT OR REPLACE INTO note VALUES('n', 'b', 'body')",
    );
    pair.show("SELECT title, body FROM note", &["b|a"], &[]);
}

#[test]
fn r_cap_replace_a_row_displaced_through_another_key_is_deleted() {
    let mut pair = Pair::new(
        "CREATE TABLE u(id TEXT PRIMARY KEY, mail TEXT UNIQUE); INSERT INTO u VALUES('x', 'm')",
    );
    pair.a.run("INSERT OR REPLACE INTO u VALUES('y', 'm')");
    pair.show("SELECT * FROM u", &["y|m"], &[]);
}

#[test]
fn r_cap_replace_takes_the_default_for_a_null_that_may_not_be() {
    for (key, end) in [("INTEGER", ""), ("TEXT", ""), ("TEXT", " WITHOUT ROWID")] {
        for default in ["'q'", "q", "\"q\"", "('q')", "(lower('Q'))"] {
            for index in ["", "; CREATE UNIQUE INDEX i ON t(w || 'x') WHERE w IS NOT 'r'"] {
                for write in [
                    "INSERT OR REPLACE INTO t VALUES('2', NULL, NULL)",
                    "UPDATE OR REPLACE t SET u = NULL, w = NULL WHERE k = '3'",
                ] {
                    let unique = if index.is_empty() { "UNIQUE" } else { "" };
                    let mut pair = Pair::new(&format!(
                        "CREATE TABLE t(k {key} PRIMARY KEY, u TEXT NOT NULL {unique} DEFAULT {default},
                         w TEXT NOT NULL DEFAULT {default}){end}{index};
                         INSERT INTO t VALUES('1', 'q', 'q'), ('3', 'r', 'r')"
                    ));
                    pair.a.run(write);
                    let shown =
                        if write.starts_with("I") { &["2|q|q", "3|r|r"][..] } else { &["3|q|q"] };
                    pair.show("SELECT * FROM t ORDER BY k", shown, &[]);
                }
            }
        }
    }
}

#[test]
fn r_cap_an_integer_key_is_captured_by_the_names_of_the_rowid_too() {
    for name in ["k", "rowid", "oid", "_rowid_"] {
        for (action, fk, shown) in [
            ("", "OFF", ["9|9", "7|7"]),
            (" ON UPDATE SET NULL", "ON", ["9|NULL", "7|NULL"]),
            (" ON UPDATE CASCADE", "ON", ["9|9", "7|7"]),
        ] {
            let mut pair = Pair::new(&format!(
                "CREATE TABLE t(k INTEGER PRIMARY KEY, f INTEGER REFERENCES t(k){action});
                 INSERT INTO t VALUES(1, 1), (2, 2)"
            ));
            pair.a.run(&format!(
                "PRAGMA foreign_keys = {fk}; UPDATE t SET {name} = 9 WHERE k = 1;
                 UPDATE t SET {name} = 7 WHERE k = 2"
            ));
            pair.show("SELECT * FROM t ORDER BY k DESC", &shown, &[]);
        }
    }
}

/// This machine, with its clock put forward or back.
struct Off(i64);

impl Environment for Off {
    fn now_ms(&self) -> i64 {
        System.now_ms() + self.0
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }
}

#[test]
fn r_hlc_a_stamp_is_never_earlier_than_anything_seen_before() {
    let mut pair = Pair::new(NOTE);
    // The clock of A is three minutes fast. B has seen its write, so what B writes is later.
    pair.a.run("UPDATE note SET title = 'a'; UPDATE synqlite_journal SET at = at + 3 / 1440.0");
    pair.b.pull(&mut pair.a);
    pair.b.run("UPDATE note SET title = 'b'");
    pair.show("SELECT title FROM note", &["b"], &[]);
}

#[test]
fn r_ts_the_time_of_a_write_counts_and_not_that_of_its_fold() {
    let mut pair = Pair::new(NOTE);
    pair.apart("UPDATE note SET title = 'a'", "UPDATE note SET title = 'b'");
    pair.b.replica.fold().unwrap();
    pair.a.replica.fold().unwrap();
    pair.show("SELECT title FROM note", &["b"], &[]);
}

#[test]
fn r_fbm_a_pull_folds_before_it_merges() {
    let mut pair = Pair::new(NOTE);
    pair.apart("UPDATE note SET title = 'a'", "UPDATE note SET title = 'b'");
    // Folded after the merge, A's earlier write would look later than what it has just seen.
    pair.a.pull(&mut pair.b);
    assert_eq!(pair.a.row("SELECT title FROM note"), "b");
    pair.show("SELECT title FROM note", &["b"], &[]);
}

#[test]
fn r_skew_changes_from_far_ahead_are_refused_unless_forced() {
    let mut pair = Pair::new(NOTE);
    let fast = Arc::new(Off(6 * 60_000));
    let mut a = Replica::open(pair.a.replica.path(), fast).unwrap();
    pair.a.run("UPDATE note SET title = 'a'; UPDATE synqlite_journal SET at = at + 6.0 / 1440");
    a.fold().unwrap();
    let refused = pair.b.replica.pull_from(&mut a, false).unwrap_err();
    assert!(matches!(refused, Error::Skewed { .. }), "{refused}");
    assert_eq!(pair.b.row("SELECT title FROM note"), "title");
    pair.b.replica.pull_from(&mut a, true).unwrap();
    assert_eq!(pair.b.row("SELECT title FROM note"), "a");
    // Once is enough: what comes after that wins over nothing that is written here from now on.
    pair.a.run("UPDATE note SET title = 'again'");
    a.fold().unwrap();
    pair.b.replica.pull_from(&mut a, false).unwrap();
    assert_eq!(pair.b.row("SELECT title FROM note"), "again");
    pair.b.run("UPDATE note SET title = 'b'");
    pair.a.pull(&mut pair.b);
    assert_eq!(pair.a.row("SELECT title FROM note"), "b");
}

/// Little by little nobody is led away from the hour.
#[test]
fn r_skew_changes_a_little_further_ahead_each_time_are_refused() {
    let mut pair = Pair::new(NOTE);
    for (minutes, taken) in [(4, true), (8, false)] {
        let fast = Arc::new(Off(minutes * 60_000));
        let mut a = Replica::open(pair.a.replica.path(), fast).unwrap();
        pair.a.run(&format!(
            "UPDATE note SET title = {minutes}; UPDATE synqlite_journal SET at = at + {minutes} / 1440.0"
        ));
        a.fold().unwrap();
        assert_eq!(pair.b.replica.pull_from(&mut a, false).is_ok(), taken, "{minutes}");
    }
}

#[test]
fn r_skew_a_clock_that_jumps_back_never_makes_a_later_write_look_earlier() {
    let mut pair = Pair::new(NOTE);
    pair.a.run("UPDATE note SET title = 'first'");
    pair.b.pull(&mut pair.a);
    pair.a.run("UPDATE note SET title = 'second'; UPDATE synqlite_journal SET at = at - 1");
    pair.show("SELECT title FROM note", &["second"], &[]);
}

#[test]
fn r_vv_what_was_seen_is_not_sent_again() {
    let mut pair = Pair::new(NOTE);
    pair.a.run("UPDATE note SET title = 'a'");
    pair.b.pull(&mut pair.a);
    let seen = pair.b.replica.seen().unwrap();
    let (delta, _) = pair.a.replica.export(&seen, 0).unwrap();
    assert_eq!(delta.rows.len(), 0);
    pair.a.run("UPDATE note SET body = 'a'");
    pair.a.replica.fold().unwrap();
    let (delta, _) = pair.a.replica.export(&seen, 0).unwrap();
    let registers: usize = delta.rows.iter().map(|row| row.registers.len()).sum();
    assert_eq!((delta.rows.len(), registers), (1, 1));
}

#[test]
fn r_mat_a_merge_is_one_transaction() {
    let mut pair = Pair::new(NOTE);
    pair.a.run("INSERT INTO note SELECT 'n' || value, 1, 2 FROM json_each('[1,2,3,4,5]')");
    let before = pair.b.row("SELECT count(*) FROM note");
    // A reader sees nothing of it until it is whole.
    pair.b.app.execute_batch("PRAGMA journal_mode = WAL; BEGIN").unwrap();
    assert_eq!(pair.b.row("SELECT count(*) FROM note"), before);
    pair.b.replica.pull_from(&mut pair.a.replica, false).unwrap();
    assert_eq!(pair.b.row("SELECT count(*) FROM note"), before);
    pair.b.app.execute_batch("COMMIT").unwrap();
    assert_eq!(pair.b.row("SELECT count(*) FROM note"), "6");
}

#[test]
fn r_trg_triggers_do_not_fire_for_merged_rows_unless_named() {
    let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, body);
        CREATE TABLE words(id TEXT, n INT); CREATE TABLE seen(id TEXT);
        CREATE TRIGGER count_words AFTER INSERT ON note BEGIN
            INSERT INTO words VALUES(new.id, length(new.body)); END;
        CREATE TRIGGER note_seen AFTER INSERT ON note BEGIN INSERT INTO seen VALUES(new.id); END;";
    let policies = [("local_tables", "seen"), ("fire_on_merge", "note_seen,Count_words")];
    let mut pair = Pair::with(schema, &policies);
    let idle = pair.a.replica.idle_policies().unwrap();
    assert!(idle.len() == 1 && idle[0].1.contains("it writes table words"), "{idle:?}");
    pair.a.run("INSERT INTO note VALUES('n', 'abc')");
    // What the first trigger wrote arrives as a row, so it does not fire though it is named; the second keeps a table of this site only.
    pair.show("SELECT * FROM words", &["n|3"], &[]);
    assert_eq!(pair.b.rows("SELECT * FROM seen"), ["n"]);
}

#[test]
fn inv_local_a_fold_changes_nothing_that_is_shown() {
    let mut pair = Pair::new("CREATE TABLE u(id TEXT PRIMARY KEY, mail TEXT UNIQUE)");
    pair.apart("INSERT INTO u VALUES('a', 'x')", "INSERT INTO u VALUES('b', 'x')");
    settle(&mut pair.a, &mut pair.b);
    // The row that waits for `x` has the earlier claim to what B writes now.
    pair.b.run("DELETE FROM u; INSERT INTO u VALUES('c', 'x')");
    pair.b.replica.fold().unwrap();
    assert_eq!(pair.b.rows("SELECT * FROM u"), ["c|x"]);
}

#[test]
fn r_told_a_value_that_gave_way_unseen_is_told_on_both_sites() {
    let mut pair =
        Pair::new("CREATE TABLE t(id TEXT PRIMARY KEY, v); INSERT INTO t VALUES('k', 0)");
    pair.apart("UPDATE t SET v = 'ann'", "UPDATE t SET v = 'bob'");
    pair.show("SELECT v FROM t", &["bob"], &[]);
    for site in [&pair.a, &pair.b] {
        let told = site.replica.closed_conflicts().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].what.contains("'ann'") && told[0].what.contains("'bob'"), "{told:?}");
    }
}

#[test]
fn r_fold_time_a_key_moved_before_the_first_fold_is_the_key_and_what_gives_way_is_told() {
    for folded in [false, true] {
        let mut pair = Pair::new("CREATE TABLE t(id TEXT PRIMARY KEY, v)");
        pair.b.run("INSERT INTO t VALUES('c', 'of b')");
        pair.a.run("INSERT INTO t VALUES('a', 'of a')");
        if folded {
            pair.a.replica.fold().unwrap();
        }
        pair.a.run("UPDATE t SET id = 'c'");
        settle(&mut pair.a, &mut pair.b);
        for site in [&pair.a, &pair.b] {
            let shown = site.rows("SELECT v FROM t");
            let records = site.replica.conflicts().unwrap();
            let told = site.replica.closed_conflicts().unwrap();
            match folded {
                // Two rows that ask for one key: the later shows what it was (R-FALLBACK).
                true => assert_eq!((shown.len(), records.len(), told.len()), (2, 1, 0)),
                // One row that both inserted.
                false => {
                    assert_eq!((shown, records.len(), told.len()), (vec!["of a".into()], 0, 1));
                    assert!(told[0].what.contains("'of b'"), "{told:?}");
                }
            }
        }
    }
}

#[test]
fn r_fold_time_a_row_that_came_and_went_between_two_folds_never_was() {
    for folded in [false, true] {
        let mut pair = Pair::new("CREATE TABLE t(id TEXT PRIMARY KEY, v)");
        pair.b.run("INSERT INTO t VALUES('k', 'of b')");
        pair.a.run("INSERT INTO t VALUES('k', 'of a')");
        if folded {
            pair.a.replica.fold().unwrap();
        }
        pair.a.run("DELETE FROM t");
        settle(&mut pair.a, &mut pair.b);
        for site in [&pair.a, &pair.b] {
            let told = site.replica.closed_conflicts().unwrap();
            let kinds: Vec<_> = told.iter().map(|c| c.kind.as_str()).collect();
            match folded {
                true => {
                    assert_eq!((site.rows("SELECT v FROM t"), kinds), (vec![], vec!["update_lost"]))
                }
                false => {
                    assert_eq!((site.rows("SELECT v FROM t"), kinds), (vec!["of b".into()], vec![]))
                }
            }
        }
    }
}
