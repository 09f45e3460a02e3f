//! What this site wrote is taken back, as far as nobody has written since.

use crate::site::{Site, World, settle};
use rusqlite::Connection;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;
use synqlite_core::{
    Change, Environment as _, InitOptions, LogQuery, Policy, Replica, Selection, System, Undone,
};

mod kept;
mod many;
mod random;
mod references;
mod rows;

const TODO: &str = "CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT, done INT DEFAULT 0);
     INSERT INTO todo(title) VALUES('milk'), ('rent');";

/// A replica that keeps a history.
fn historical(world: &World, name: &str, sql: &str) -> Site {
    with(world, name, sql, InitOptions { history: true, ..InitOptions::default() })
}

fn with(world: &World, name: &str, sql: &str, options: InitOptions) -> Site {
    let path = world.path(name);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    Replica::init(&path, &options, Arc::new(System)).unwrap();
    world.open(name)
}

/// A time between what was written before and what is written afterwards.
fn now() -> i64 {
    sleep(Duration::from_millis(2));
    let now = System.now_ms();
    sleep(Duration::from_millis(2));
    now
}

fn since(ms: i64) -> Selection {
    Selection { since_ms: Some(ms), ..Selection::default() }
}

fn of_row(table: &str, row: &str) -> Selection {
    Selection { table: Some(table.into()), row: Some(row.into()), ..Selection::default() }
}

/// What became of it, a line each: `table row change column=value`, and `left table row columns: why`.
fn lines(undone: &Undone) -> Vec<String> {
    let taken = undone.taken.iter().map(|t| {
        let columns =
            t.columns.iter().map(|(c, v)| format!(" {c}={}", synqlite_core::value_text(v)));
        format!("{} {} {}{}", t.table, t.row, t.change.name(), columns.collect::<String>())
    });
    let left = undone.left.iter().map(|l| {
        let columns: Vec<_> = l.columns.iter().map(|c| format!(" {c}")).collect();
        format!("left {} {}{}: {}", l.table, l.row, columns.concat(), l.why)
    });
    taken.chain(left).collect()
}

#[track_caller]
fn undo(site: &mut Site, what: &Selection) -> Vec<String> {
    let foreseen = site.replica.undo(what, true).unwrap();
    let before = site.replica.digest().unwrap().digest;
    let undone = site.replica.undo(what, false).unwrap();
    assert_eq!(foreseen, undone);
    if undone.taken.is_empty() {
        assert_eq!(site.replica.digest().unwrap().digest, before);
    }
    site.check();
    assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    lines(&undone)
}

#[test]
fn an_update_is_taken_back_here_and_on_the_other_site() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE todo SET title = 'oat milk' WHERE id = 1");
    settle(&mut a, &mut b);
    let t = now();
    a.run("UPDATE todo SET title = 'soy milk', done = 1 WHERE id = 1");
    a.pull(&mut b);
    b.pull(&mut a);
    assert_eq!(b.row("SELECT * FROM todo WHERE id = 1"), "1|soy milk|1");
    assert_eq!(undo(&mut a, &since(t)), ["todo 1 update title='oat milk' done=0"]);
    assert_eq!(a.row("SELECT * FROM todo WHERE id = 1"), "1|oat milk|0");
    b.pull(&mut a);
    assert_eq!(b.row("SELECT * FROM todo WHERE id = 1"), "1|oat milk|0");
    assert_eq!(undo(&mut a, &since(t)), [""; 0]);
    // What it held when it became a replica is known too.
    assert_eq!(undo(&mut a, &since(0)), ["todo 1 update title='milk'"]);
    assert_eq!(undo(&mut a, &since(0)), [""; 0]);
}

#[test]
fn what_another_site_has_written_since_is_left_and_told() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let mut b = world.clone_site(&mut a, "b");
    let t = now();
    a.run("UPDATE todo SET title = 'oat milk', done = 1 WHERE id = 1");
    settle(&mut a, &mut b);
    b.run("UPDATE todo SET title = 'soy milk' WHERE id = 1");
    settle(&mut a, &mut b);
    let undone = a.replica.undo(&since(t), true).unwrap();
    assert_eq!(undone.left[0].by.unwrap().0, b.replica.site());
    let want = ["todo 1 update done=0", "left todo 1 title: written since"];
    assert_eq!(undo(&mut a, &since(t)), want);
    assert_eq!(a.row("SELECT * FROM todo WHERE id = 1"), "1|soy milk|0");
    // Nothing of it was written by the other site.
    assert_eq!(undo(&mut b, &since(t)), ["todo 1 update title='oat milk'"]);
}

/// The write that would stand if this site had not written is the one that is shown, though it came late.
#[test]
fn what_had_given_way_stands_again() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let mut b = world.clone_site(&mut a, "b");
    b.run("UPDATE todo SET title = 'soy milk' WHERE id = 1");
    let t = now();
    a.run("UPDATE todo SET title = 'oat milk' WHERE id = 1");
    settle(&mut a, &mut b);
    assert_eq!(undo(&mut a, &since(t)), ["todo 1 update title='soy milk'"]);
}

#[test]
fn inserts_and_deletes_are_taken_back_with_and_without_a_history() {
    for history in [true, false] {
        let world = World::new();
        let mut a = with(&world, "a", TODO, InitOptions { history, ..InitOptions::default() });
        let mut b = world.clone_site(&mut a, "b");
        let t = now();
        a.run("INSERT INTO todo(title) VALUES('stamps'); DELETE FROM todo WHERE id = 1");
        if history {
            settle(&mut a, &mut b);
        }
        assert_eq!(undo(&mut a, &since(t)), ["todo 1 delete", "todo 3 insert"]);
        assert_eq!(a.rows("SELECT * FROM todo"), ["1|milk|0", "2|rent|0"]);
        settle(&mut a, &mut b);
        assert_eq!(b.rows("SELECT * FROM todo"), ["1|milk|0", "2|rent|0"]);
        assert_eq!(undo(&mut a, &since(t)), [""; 0]);
    }
}

#[test]
fn without_a_history_former_values_are_not_known() {
    let world = World::new();
    let mut a = world.init("a", TODO);
    let t = now();
    a.run("UPDATE todo SET title = 'oat milk' WHERE id = 1; UPDATE todo SET id = 9 WHERE id = 2");
    let why =
        "what it was before is not known: this replica keeps no history (synqlite init --history)";
    let both = [format!("left todo 1 title: {why}"), format!("left todo 9 id: {why}")];
    assert_eq!(undo(&mut a, &since(t)), both);
    // The state keeps what a key was before its latest write.
    assert_eq!(undo(&mut a, &of_row("todo", "9")), ["todo 9 update id=2"]);
    assert_eq!(a.rows("SELECT id, title FROM todo"), ["1|oat milk", "2|rent"]);
}

#[test]
fn a_history_can_begin_later() {
    let world = World::new();
    let mut a = world.init("a", TODO);
    let mut b = world.clone_site(&mut a, "b");
    let t = now();
    a.run("UPDATE todo SET title = 'oat milk' WHERE id = 1; DELETE FROM todo WHERE id = 2");
    a.replica.fold().unwrap();
    a.run("INSERT INTO todo(id, title) VALUES(3, 'stamps')");
    let keep = InitOptions { history: true, ..InitOptions::default() };
    for said in [1, 0] {
        let done = Replica::init(&world.path("a"), &keep, Arc::new(System)).unwrap();
        let notes = done.notes.iter().filter(|note| note.contains("kept from now on"));
        assert_eq!(notes.count(), said, "{:?}", done.notes);
    }
    let begun = now();
    a.run("UPDATE todo SET title = 'soy milk', done = 1 WHERE id = 1");
    a.run("UPDATE todo SET title = 'envelopes' WHERE id = 3");
    settle(&mut a, &mut b);
    let taken = ["todo 1 update title='oat milk' done=0", "todo 3 update title='stamps'"];
    assert_eq!(undo(&mut a, &since(begun)), taken);
    // What a cell was before the history began is not known; what was there is.
    let left = "left todo 1 title: what it was before is not known: the history does not have it";
    assert_eq!(undo(&mut a, &since(t)), ["todo 2 delete", "todo 3 insert", left]);
    assert_eq!(a.rows("SELECT id, title FROM todo"), ["1|oat milk", "2|rent"]);
    settle(&mut a, &mut b);
}

#[test]
fn the_latest_change_of_one_row() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE todo SET title = 'oat milk' WHERE id = 1");
    a.replica.fold().unwrap();
    a.run("UPDATE todo SET done = 1 WHERE id = 1");
    a.replica.fold().unwrap();
    a.run("UPDATE todo SET title = 'water' WHERE id = 2");
    b.run("UPDATE todo SET done = 5 WHERE id = 2");
    settle(&mut a, &mut b);
    assert_eq!(undo(&mut a, &of_row("todo", "1")), ["todo 1 update done=0"]);
    // The undo is a change too.
    assert_eq!(undo(&mut a, &of_row("TODO", "1")), ["todo 1 update done=1"]);
    assert!(a.replica.undo(&of_row("todo", "7"), false).is_err());
    assert!(a.replica.undo(&of_row("none", "1"), false).is_err());
    assert!(a.replica.undo(&Selection::default(), false).is_err());
    let two = Selection { since_ms: Some(0), ..of_row("todo", "2") };
    assert_eq!(undo(&mut a, &two), ["todo 2 update title='rent'"]);
}

/// Found by their indexes, as SQLite compares a literal with the columns of the key.
#[test]
fn the_latest_change_of_a_row_by_any_spelling_of_its_key() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT COLLATE NOCASE PRIMARY KEY, v);
         CREATE TABLE p(a NUMERIC, b TEXT, v, PRIMARY KEY(a, b COLLATE NOCASE)) WITHOUT ROWID;
         CREATE TABLE x(k PRIMARY KEY, v);
         INSERT INTO t VALUES('Oslo', 0), ('7', 0), ('gone', 0);
         INSERT INTO p VALUES(1, 'a', 0), ('x', '2', 0);
         INSERT INTO x VALUES(7, 0), ('8', 0), (x'00ff', 0), (NULL, 0)";
    let mut a = historical(&world, "a", sql);
    a.run("UPDATE t SET v = 1; UPDATE p SET v = 1; UPDATE x SET v = 1");
    a.replica.fold().unwrap();
    a.run("DELETE FROM t WHERE k = 'gone'");
    for (table, spelled, is) in [
        ("t", ["'oSLO'", "OSLO"], "'Oslo'"),
        ("t", ["7", "'7'"], "'7'"),
        ("p", ["1.0, 'A'", "1,a"], "1, 'a'"),
        ("p", ["'x', 2", "x,'2'"], "'x', '2'"),
        ("x", ["7.0", "7"], "7"),
        ("x", ["'8'", "8"], "'8'"),
        ("x", ["X'00FF'", "x'00ff'"], "x'00ff'"),
    ] {
        for (v, row) in (0..).zip(spelled) {
            let want = format!("{table} {is} update v={v}");
            assert_eq!(undo(&mut a, &of_row(table, row)), [want], "{row}");
        }
    }
    assert_eq!(undo(&mut a, &of_row("x", "NULL")), ["x NULL update v=0"]);
    assert_eq!(undo(&mut a, &of_row("t", "Gone")), ["t 'gone' delete"]);
    assert!(a.replica.undo(&of_row("p", "1"), false).is_err());
}

#[test]
fn up_to_a_time() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let from = now();
    a.run("UPDATE todo SET title = 'oat milk', done = 1 WHERE id = 1");
    a.replica.fold().unwrap();
    let until = now();
    a.run("UPDATE todo SET title = 'soy milk' WHERE id = 1");
    let span = Selection { until_ms: Some(until), ..since(from) };
    let want = ["todo 1 update done=0", "left todo 1 title: written since"];
    assert_eq!(undo(&mut a, &span), want);
}

#[test]
fn a_row_to_which_another_refers_stays() {
    let world = World::new();
    let sql = "CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT);
         CREATE TABLE note(id INTEGER PRIMARY KEY, list REFERENCES list(id) ON DELETE CASCADE, body);
         INSERT INTO list VALUES(1, 'old')";
    for history in [true, false] {
        let name = if history { "a" } else { "c" };
        let mut a = with(&world, name, sql, InitOptions { history, ..InitOptions::default() });
        let mut b = world.clone_site(&mut a, &format!("{name}b"));
        let t = now();
        a.run("INSERT INTO list VALUES(2, 'new'), (3, 'mine'); INSERT INTO note VALUES(5, 3, 'x')");
        settle(&mut a, &mut b);
        b.run("INSERT INTO note VALUES(6, 2, 'y')");
        settle(&mut a, &mut b);
        let want = ["list 3 insert", "note 5 insert", "left list 2: row 6 of note refers to it"];
        assert_eq!(undo(&mut a, &since(t)), want);
        assert_eq!(a.rows("SELECT id, list FROM note"), ["6|2"]);
        assert_eq!(undo(&mut a, &of_row("list", "3")), ["list 3 delete"]);
        assert_eq!(a.rows("SELECT id FROM list"), ["1", "2", "3"]);
    }
}

#[test]
fn a_row_to_which_a_local_one_refers_stays() {
    let world = World::new();
    let sql = "CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT);
         CREATE TABLE mark(list REFERENCES list(id))";
    let options = InitOptions { exclude: vec!["mark".into()], ..InitOptions::default() };
    let mut a = with(&world, "a", sql, options);
    let t = now();
    a.run("INSERT INTO list VALUES(1, 'a'), (2, 'b'); INSERT INTO mark VALUES(2)");
    let want = ["list 1 insert", "left list 2: rowid 1 of mark refers to it"];
    assert_eq!(undo(&mut a, &since(t)), want);
}

#[test]
fn a_deleted_parent_comes_back_with_all_that_went_with_it() {
    let world = World::new();
    let sql = "CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT);
         CREATE TABLE note(id INTEGER PRIMARY KEY, list REFERENCES list(id) ON DELETE CASCADE, body);
         CREATE TABLE tag(list INT REFERENCES list(id) ON DELETE SET NULL, t TEXT);
         INSERT INTO list VALUES(1, 'a'); INSERT INTO note VALUES(1, 1, 'x'), (2, 1, 'y');
         INSERT INTO tag VALUES(1, 'red')";
    let mut a = historical(&world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    let t = now();
    a.run("UPDATE note SET body = 'z' WHERE id = 2");
    a.replica.fold().unwrap();
    a.run("DELETE FROM list");
    assert_eq!(a.rows("SELECT * FROM note"), [""; 0]);
    b.run("INSERT INTO note VALUES(7, 1, 'theirs')");
    settle(&mut a, &mut b);
    assert_eq!(undo(&mut a, &since(t)), ["list 1 delete", "note 2 update body='y'"]);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM note"), ["1|1|x", "2|1|y", "7|1|theirs"]);
        assert_eq!(site.rows("SELECT * FROM tag"), ["1|red"]);
    }
    assert_eq!(a.replica.conflicts().unwrap().len(), 0);
}

#[test]
fn values_come_back_exactly() {
    let world = World::new();
    let values = [
        "NULL",
        "'te''xt'",
        "9223372036854775807",
        "0.1",
        "1e300",
        "-0.5",
        "x'00ff'",
        "''",
        "'1'",
        "1",
        "x''",
        "cast(x'ff41' AS TEXT)",
    ];
    let mut rows = String::new();
    for (i, value) in values.iter().enumerate() {
        rows += &format!("INSERT INTO t VALUES({i}, {value}, {value});");
    }
    let sql = format!("CREATE TABLE t(id INT PRIMARY KEY, x, y) WITHOUT ROWID; {rows}");
    let mut a = historical(&world, "a", &sql);
    let mut b = world.clone_site(&mut a, "b");
    let shown = |site: &Site| site.rows("SELECT id, quote(x), typeof(x), quote(y), hex(y) FROM t");
    let before = shown(&a);
    let t = now();
    a.run("UPDATE t SET x = 'gone', y = 7 WHERE id < 8; DELETE FROM t WHERE id >= 8");
    settle(&mut a, &mut b);
    undo(&mut a, &since(t));
    settle(&mut a, &mut b);
    assert_eq!(shown(&a), before);
    assert_eq!(shown(&b), before);
}

#[test]
fn keys_of_every_kind() {
    let world = World::new();
    let sql = "CREATE TABLE k(a TEXT, b INT, c, PRIMARY KEY(a, b)) WITHOUT ROWID;
         CREATE TABLE r(a TEXT, b INT, FOREIGN KEY(a, b) REFERENCES k(a, b) ON UPDATE CASCADE);
         CREATE TABLE u(x TEXT UNIQUE, y);
         INSERT INTO k VALUES('p', 1, 'x'), ('q', 2, 'y'); INSERT INTO r VALUES('p', 1), ('q', 2);
         INSERT INTO u VALUES('one', 1), ('two', 2)";
    let mut a = historical(&world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    let all = |site: &Site| {
        let mut all = site.rows("SELECT * FROM k");
        all.extend(site.rows("SELECT * FROM r ORDER BY a"));
        all.extend(site.rows("SELECT * FROM u ORDER BY x"));
        all
    };
    let before = all(&a);
    let t = now();
    a.run("UPDATE k SET a = 'moved' WHERE a = 'p'; UPDATE r SET a = 'moved', b = 1 WHERE a = 'q'");
    a.run("UPDATE u SET x = 'three' WHERE x = 'one'; UPDATE u SET x = 'one' WHERE x = 'two'");
    a.run("INSERT INTO k VALUES('p', 1, 'another')");
    settle(&mut a, &mut b);
    let mut done = undo(&mut a, &since(t));
    done.sort();
    let want = [
        "k 'moved', 1 update a='p'",
        "k 'p', 1 insert",
        "r rowid 2 update a='q' b=2",
        "u rowid 1 update x='one'",
        "u rowid 2 update x='two'",
    ];
    assert_eq!(done, want);
    settle(&mut a, &mut b);
    assert_eq!((all(&a), all(&b)), (before.clone(), before));
    assert_eq!(a.replica.conflicts().unwrap().len(), 0);
}

#[test]
fn a_row_deleted_and_inserted_anew_under_its_number() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let t = now();
    a.run("DELETE FROM todo WHERE id = 1; INSERT INTO todo VALUES(1, 'other', 2)");
    assert_eq!(undo(&mut a, &since(t)), ["todo 1 delete", "todo 1 insert"]);
    assert_eq!(a.rows("SELECT * FROM todo"), ["1|milk|0", "2|rent|0"]);
    let t = now();
    a.run("INSERT OR REPLACE INTO todo VALUES(2, 'rent', 7)");
    a.replica.fold().unwrap();
    assert_eq!(undo(&mut a, &since(t)), ["todo 2 update done=0"]);
}

#[test]
fn a_key_that_another_row_has_now() {
    let world = World::new();
    let sql = "CREATE TABLE p(id INTEGER PRIMARY KEY, mail TEXT UNIQUE, n);
         INSERT INTO p VALUES(1, 'info@x', 0), (2, 'bob@x', 0)";
    let mut a = historical(&world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    let t = now();
    a.run("UPDATE p SET mail = 'ann@x', n = 1 WHERE id = 1; DELETE FROM p WHERE id = 2");
    settle(&mut a, &mut b);
    b.run("INSERT INTO p VALUES(2, 'info@x', 0)");
    settle(&mut a, &mut b);
    let want = [
        "p 1 update n=0",
        "left p 1 mail: row 2 has its UNIQUE (mail) now",
        "left p 2: another row has its number",
    ];
    assert_eq!(undo(&mut a, &since(t)), want);
    assert_eq!(a.rows("SELECT * FROM p"), ["1|ann@x|0", "2|info@x|0"]);
}

/// Two rows of one number: the reference is to the row that it meant, whatever number that has now.
#[test]
fn a_reference_is_to_its_row() {
    let world = World::new();
    let sql = "CREATE TABLE list(id INTEGER PRIMARY KEY, name TEXT);
         CREATE TABLE note(id INTEGER PRIMARY KEY, list REFERENCES list(id));
         INSERT INTO list VALUES(1, 'first')";
    let mut a = historical(&world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    b.run("INSERT INTO list VALUES(2, 'theirs')");
    a.run("INSERT INTO list VALUES(2, 'ours'); INSERT INTO note VALUES(1, 2)");
    a.replica.fold().unwrap();
    let t = now();
    a.run("UPDATE note SET list = 1");
    settle(&mut a, &mut b);
    assert_eq!(undo(&mut a, &since(t)), ["note 1 update list=3"]);
    let named = "SELECT name FROM note JOIN list ON list.id = note.list";
    assert_eq!(a.row(named), "ours");
    settle(&mut a, &mut b);
    assert_eq!(b.row(named), "ours");
}

/// A number that a row was given when two met is nothing that anybody wrote.
#[test]
fn a_row_that_got_another_number() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let mut b = world.clone_site(&mut a, "b");
    let t = now();
    a.run("INSERT INTO todo(title) VALUES('stamps')");
    b.run("INSERT INTO todo(title) VALUES('bread')");
    settle(&mut a, &mut b);
    a.run("UPDATE todo SET done = 1 WHERE id = 3");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM todo WHERE id > 2"), ["3|stamps|1", "4|bread|0"]);
    assert_eq!(undo(&mut b, &of_row("todo", "4")), ["todo 4 insert"]);
    assert_eq!(undo(&mut b, &of_row("todo", "4")), ["todo 4 delete"]);
    assert_eq!(undo(&mut b, &since(t)), ["todo 4 insert"]);
    assert_eq!(undo(&mut a, &since(t)), ["todo 3 insert"]);
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id FROM todo"), ["1", "2"]);
}

#[test]
fn columns_renamed_added_and_dropped_since() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let t = now();
    a.run("UPDATE todo SET title = 'oat milk', done = 1 WHERE id = 1");
    a.replica.fold().unwrap();
    a.run("ALTER TABLE todo RENAME COLUMN title TO what; ALTER TABLE todo DROP COLUMN done");
    a.run("ALTER TABLE todo ADD COLUMN due TEXT DEFAULT 'soon'");
    a.replica.fold().unwrap();
    a.run("UPDATE todo SET due = 'now' WHERE id = 2");
    let mut done = undo(&mut a, &since(t));
    done.sort();
    assert_eq!(done, ["todo 1 update what='milk'", "todo 2 update due='soon'"]);
    assert_eq!(a.rows("SELECT * FROM todo"), ["1|milk|soon", "2|rent|soon"]);
    assert_eq!(undo(&mut a, &since(0)), [""; 0]);
}

#[test]
fn a_counter_loses_what_was_added() {
    let world = World::new();
    let sql = "CREATE TABLE stock(item TEXT PRIMARY KEY, n INTEGER NOT NULL DEFAULT 0);
         INSERT INTO stock VALUES('rope', 10)";
    let policies = vec![Policy::new("stock.n", "counter").unwrap()];
    let options = InitOptions { policies, history: true, ..InitOptions::default() };
    let mut a = with(&world, "a", sql, options);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE stock SET n = n - 1");
    a.replica.fold().unwrap();
    let t = now();
    a.run("UPDATE stock SET n = n - 3");
    b.run("UPDATE stock SET n = n - 2");
    settle(&mut a, &mut b);
    assert_eq!(a.row("SELECT n FROM stock"), "4");
    assert_eq!(undo(&mut a, &since(t)), ["stock 'rope' update n=7"]);
    settle(&mut a, &mut b);
    assert_eq!(b.row("SELECT n FROM stock"), "7");
    assert_eq!(undo(&mut a, &since(t)), [""; 0]);
}

#[test]
fn what_triggers_did_is_taken_back_and_none_fires() {
    let world = World::new();
    let sql =
        "CREATE TABLE t(id INTEGER PRIMARY KEY, x); CREATE TABLE audit(id INTEGER PRIMARY KEY, x);
         CREATE TRIGGER noted AFTER UPDATE ON t BEGIN INSERT INTO audit(x) VALUES(OLD.x); END;
         CREATE VIRTUAL TABLE f USING fts5(x, content=t, content_rowid=id);
         CREATE TRIGGER fu AFTER UPDATE ON t BEGIN
           INSERT INTO f(f, rowid, x) VALUES('delete', OLD.id, OLD.x);
           INSERT INTO f(rowid, x) VALUES(NEW.id, NEW.x); END;
         INSERT INTO t VALUES(1, 'milk'); INSERT INTO f(f) VALUES('rebuild')";
    let mut a = historical(&world, "a", sql);
    let t = now();
    a.run("UPDATE t SET x = 'bread'");
    assert_eq!(a.row("SELECT count(*) FROM audit"), "1");
    undo(&mut a, &since(t));
    assert_eq!(a.row("SELECT count(*) FROM audit"), "0");
    assert_eq!(a.row("SELECT rowid FROM f WHERE f MATCH 'milk'"), "1");
    assert_eq!(a.rows("SELECT rowid FROM f WHERE f MATCH 'bread'"), [""; 0]);
}

/// A discarded record is a row that was deleted.
#[test]
fn a_discarded_row_asks_again() {
    let world = World::new();
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY, mail TEXT UNIQUE)";
    let mut a = historical(&world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO p VALUES('ann', 'info@x')");
    b.run("INSERT INTO p VALUES('bob', 'info@x')");
    settle(&mut a, &mut b);
    let id = a.replica.conflicts().unwrap()[0].id.clone();
    let t = now();
    a.replica.settle_conflict(&id, synqlite_core::Verb::Discard).unwrap();
    assert_eq!(undo(&mut a, &since(t)), ["left p 'bob': row 'ann' has its UNIQUE (mail) now"]);
    a.run("UPDATE p SET mail = 'ann@x'");
    assert_eq!(undo(&mut a, &of_row("p", "bob")), ["p 'bob' delete"]);
    assert_eq!(a.rows("SELECT * FROM p"), ["ann|ann@x", "bob|info@x"]);
}

/// Who brings back a row that was deleted has seen what another site wrote to it.
#[test]
fn a_row_that_was_brought_back_goes_unless_another_refers_to_it() {
    let world = World::new();
    let sql = "CREATE TABLE p(id TEXT PRIMARY KEY, v INT);
         CREATE TABLE c(id TEXT PRIMARY KEY, p REFERENCES p(id) ON DELETE CASCADE); INSERT INTO p VALUES('x', 1)";
    let mut a = historical(&world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM p");
    b.run("UPDATE p SET v = 2; INSERT INTO c VALUES('k', 'x')");
    settle(&mut a, &mut b);
    let id = a.replica.conflicts().unwrap()[0].id.clone();
    a.replica.settle_conflict(&id, synqlite_core::Verb::Restore).unwrap();
    assert_eq!(a.rows("SELECT id, v FROM p"), ["x|2"]);
    assert_eq!(undo(&mut a, &of_row("p", "x")), ["left p 'x': row 'k' of c refers to it"]);
    a.run("DELETE FROM c");
    assert_eq!(undo(&mut a, &of_row("p", "x")), ["p 'x' insert"]);
    assert_eq!(a.rows("SELECT id FROM p"), [""; 0]);
}

#[test]
fn what_several_undos_in_turn_do() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let all = |site: &Site| site.rows("SELECT * FROM todo");
    let first = all(&a);
    let t = now();
    a.run("UPDATE todo SET title = 'oat milk' WHERE id = 1");
    a.run("INSERT INTO todo VALUES(3, 'stamps', 0); DELETE FROM todo WHERE id = 2");
    let second = all(&a);
    assert_eq!(undo(&mut a, &since(t)).len(), 3);
    assert_eq!(all(&a), first);
    let log = a.replica.log(&Default::default()).unwrap();
    let kinds: Vec<_> = log[..3].iter().map(|e| (e.row.as_str(), e.change)).collect();
    let want = [("3", Change::Delete), ("2", Change::Reinsert), ("1", Change::Update)];
    assert_eq!(kinds, want);
    let (at, mut redo) = (log[0].at_ms, since(log[0].at_ms));
    redo.until_ms = Some(at);
    assert_eq!(undo(&mut a, &redo).len(), 3);
    assert_eq!(all(&a), second);
    assert_eq!(undo(&mut a, &since(t)).len(), 3);
    assert_eq!(all(&a), first);
}

/// A row is inserted under a number between those that were there, or gets one: no row was there before.
#[test]
fn a_row_in_a_gap_goes_alone() {
    for table in [
        "a INTEGER PRIMARY KEY, b TEXT",
        "a INTEGER PRIMARY KEY, b TEXT NOT NULL DEFAULT 'd'",
        "b TEXT",
    ] {
        for keeps in [true, false] {
            let world = World::new();
            let sql = format!(
                "CREATE TABLE t({table}); INSERT INTO t(rowid, b) VALUES(1, 'k'), (2, 'l'), (6, 'm')"
            );
            let options = InitOptions { history: keeps, ..InitOptions::default() };
            let mut a = with(&world, "a", &sql, options);
            let mut b = world.clone_site(&mut a, "b");
            let before = now();
            a.run("INSERT INTO t(rowid, b) VALUES(5, 'x')");
            let taken = undo(&mut a, &since(before));
            assert_eq!(taken.len(), 1, "{table}: {taken:?}");
            assert!(taken[0].ends_with("insert"), "{table}: {taken:?}");
            settle(&mut a, &mut b);
            for site in [&mut a, &mut b] {
                assert_eq!(site.rows("SELECT b FROM t"), ["k", "l", "m"], "{table}");
                assert!(site.replica.conflicts().unwrap().is_empty(), "{table}");
                assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{table}");
            }
            let log = a.replica.log(&LogQuery::default()).unwrap();
            assert_eq!(log.len(), 5, "{table}: {log:?}");
        }
    }
}

/// What CASCADE took with a row is here again with it, also if that was inserted anew meanwhile.
#[test]
fn what_went_with_a_row_that_was_inserted_again_returns() {
    for again in ["", "INSERT INTO p VALUES('x', 'new');"] {
        let world = World::new();
        let sql = "CREATE TABLE p(k TEXT PRIMARY KEY, v);
            CREATE TABLE c(id INTEGER PRIMARY KEY, k TEXT REFERENCES p ON DELETE CASCADE, note);
            CREATE TABLE d(id INTEGER PRIMARY KEY, c INTEGER REFERENCES c ON DELETE CASCADE, note);
            INSERT INTO p VALUES('x', 'old'); INSERT INTO c VALUES(1, 'x', 'precious'), (2, NULL, 'other');
            INSERT INTO d VALUES(1, 1, 'of it')";
        let mut a = historical(&world, "a", sql);
        let mut b = world.clone_site(&mut a, "b");
        let before = now();
        a.run(&format!("PRAGMA foreign_keys = ON; DELETE FROM p WHERE k = 'x'; {again}"));
        assert_eq!(a.row("SELECT count(*) FROM c"), "1");
        let done = undo(&mut a, &since(before));
        assert!(!done.iter().any(|line| line.starts_with("left")), "{done:?}");
        settle(&mut a, &mut b);
        for site in [&mut a, &mut b] {
            assert_eq!(site.rows("SELECT * FROM p"), ["x|old"], "{again}");
            assert_eq!(site.rows("SELECT * FROM c"), ["1|x|precious", "2|NULL|other"], "{again}");
            assert_eq!(site.rows("SELECT * FROM d"), ["1|1|of it"], "{again}");
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
        }
    }
}

/// A reference that ON UPDATE set to NULL is to its row again, unless it was written since.
#[test]
fn a_key_that_is_put_back_has_its_references_again() {
    let world = World::new();
    let sql = "CREATE TABLE p(k TEXT PRIMARY KEY); INSERT INTO p VALUES('a');
         CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON UPDATE SET NULL);
         INSERT INTO c VALUES(1, 'a'), (2, 'a')";
    let mut a = historical(&world, "a", sql);
    let mut b = world.clone_site(&mut a, "b");
    let before = now();
    a.run("UPDATE p SET k = 'b'; UPDATE c SET p = 'b' WHERE id = 2");
    assert_eq!(a.rows("SELECT * FROM c"), ["1|NULL", "2|b"]);
    undo(&mut a, &since(before));
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM p, c"), ["a|1|a", "a|2|a"]);
    }
}

/// A row that got another number and is deleted has its first number again.
#[test]
fn a_row_that_moved_and_went_is_where_it_was() {
    let world = World::new();
    let mut a = historical(&world, "a", TODO);
    let before = now();
    a.run("UPDATE todo SET id = 7 WHERE id = 1");
    a.replica.fold().unwrap();
    a.run("DELETE FROM todo WHERE id = 7");
    assert_eq!(undo(&mut a, &since(before)).len(), 1);
    assert_eq!(a.rows("SELECT id, title FROM todo"), ["1|milk", "2|rent"]);
}
