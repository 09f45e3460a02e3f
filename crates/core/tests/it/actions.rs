//! What foreign keys do is derived from what became of the parent, not recorded (R-FK-ACTION).

use crate::site::{Site, World, settle};
use synqlite_core::Verb;

const CASCADE: &str = "CREATE TABLE p(id TEXT PRIMARY KEY, v);
    CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id) ON DELETE CASCADE, v);
    CREATE TABLE r(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id));
    INSERT INTO p VALUES('P',0),('Q',0); INSERT INTO c VALUES('c0','P',0),('c1','P',0);";

const SET_NULL: &str = "CREATE TABLE p(id TEXT PRIMARY KEY, v);
    CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id) ON DELETE SET NULL ON UPDATE SET NULL, v);
    CREATE TABLE r(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id));
    INSERT INTO p VALUES('P',0),('Q',0); INSERT INTO c VALUES('c0','P',0),('c1','P',0);";

fn pair(world: &World, schema: &str) -> (Site, Site) {
    let mut a = world.init("a", schema);
    let b = world.clone_site(&mut a, "b");
    (a, b)
}

fn kinds(site: &Site) -> Vec<String> {
    let records = site.replica.conflicts().unwrap();
    records.iter().map(|c| format!("{}:{}", c.kind, c.row)).collect()
}

/// Both show `rows` and have these records.
fn both(a: &Site, b: &Site, query: &str, rows: &[&str], records: &[&str]) {
    for site in [a, b] {
        assert_eq!(site.rows(query), rows);
        assert_eq!(kinds(site), records);
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
}

/// Who deleted the former life had not seen the one that falls.
#[test]
fn a_row_inserted_again_that_falls_with_its_parent_has_a_record() {
    let world = World::new();
    let mut a = world.init("a", CASCADE);
    let mut b = world.clone_site(&mut a, "b");
    let mut c = world.clone_site(&mut a, "c");
    c.run("DELETE FROM c WHERE id='c0'");
    c.run("INSERT INTO c VALUES('c0','P',1)");
    b.run("DELETE FROM c WHERE id='c0'");
    a.run("DELETE FROM p WHERE id='P'");
    settle(&mut b, &mut c);
    settle(&mut a, &mut b);
    settle(&mut a, &mut c);
    for site in [&a, &b, &c] {
        assert_eq!(kinds(site), ["fk_cascade:'c0'"]);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

#[test]
fn a_cascade_opens_no_record() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    a.run("DELETE FROM p WHERE id='P'");
    a.replica.fold().unwrap();
    assert_eq!(kinds(&a), [""; 0]);
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT * FROM c", &[], &[]);
}

#[test]
fn a_child_that_the_deleter_never_saw_opens_a_record() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    b.run("INSERT INTO c VALUES('c2','P',0)");
    a.run("DELETE FROM p WHERE id='P'");
    b.run("UPDATE c SET v=1 WHERE id='c1'");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT * FROM c", &[], &["fk_cascade:'c1'", "fk_cascade:'c2'"]);
}

#[test]
fn a_protected_parent_keeps_the_children_that_its_delete_took_along() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    a.run("DELETE FROM p WHERE id='P'");
    b.run("INSERT INTO r VALUES('r','P')");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &["c0|P", "c1|P"], &["restrict_revived:'P'"]);
}

#[test]
fn a_restored_parent_brings_its_children_back() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    a.run("DELETE FROM p WHERE id='P'");
    b.run("INSERT INTO c VALUES('c2','P',0)");
    settle(&mut a, &mut b);
    let open = a.replica.conflicts().unwrap();
    a.replica.settle_conflict(&open[0].id, Verb::Restore).unwrap();
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id FROM c ORDER BY 1", &["c0", "c1", "c2"], &[]);
}

#[test]
fn a_restored_grandparent_brings_all_back() {
    let schema = "CREATE TABLE n(id TEXT PRIMARY KEY, up TEXT REFERENCES n(id) ON DELETE CASCADE);
        INSERT INTO n VALUES('a',NULL),('b','a'),('c','b')";
    let world = World::new();
    let (mut a, mut b) = pair(&world, schema);
    a.run("DELETE FROM n WHERE id='a'");
    b.run("INSERT INTO n VALUES('d','c')");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT * FROM n", &[], &["fk_cascade:'d'"]);
    let open = a.replica.conflicts().unwrap();
    a.replica.settle_conflict(&open[0].id, Verb::Restore).unwrap();
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id FROM n ORDER BY 1", &["a", "b", "c", "d"], &[]);
}

#[test]
fn a_parent_inserted_anew_does_not_revive_the_children_of_the_old_one() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    a.run("DELETE FROM p WHERE id='P'");
    settle(&mut a, &mut b);
    b.run("INSERT INTO p VALUES('P',1)");
    b.replica.fold().unwrap();
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT * FROM c", &[], &[]);
    b.run("INSERT INTO c VALUES('c0','P',5)");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT * FROM c", &["c0|P|5"], &[]);
}

#[test]
fn a_parent_replaced_takes_its_children_along() {
    for recursive in ["ON", "OFF"] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, CASCADE);
        a.run(&format!("PRAGMA recursive_triggers={recursive}"));
        a.run("INSERT OR REPLACE INTO p VALUES('P',1)");
        settle(&mut a, &mut b);
        both(&a, &b, "SELECT * FROM c", &[], &[]);
        assert_eq!(b.row("SELECT v FROM p WHERE id='P'"), "1");
    }
}

#[test]
fn a_child_moved_elsewhere_meanwhile_survives() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    b.run("UPDATE c SET p='Q' WHERE id='c0'");
    a.run("DELETE FROM p WHERE id='P'");
    b.run("UPDATE c SET p='Q' WHERE id='c1'");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &["c0|Q", "c1|Q"], &[]);
}

#[test]
fn a_child_deleted_by_its_user_stays_deleted() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    // In one instant, so that only the order of the entries tells.
    a.run("BEGIN; DELETE FROM c WHERE id='c0'; DELETE FROM p WHERE id='P'; COMMIT");
    b.run("UPDATE c SET p='Q'; INSERT INTO r VALUES('r','P')");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id, p FROM c", &["c1|Q"], &["restrict_revived:'P'"]);
}

#[test]
fn a_row_that_refers_to_itself_is_deleted_for_good() {
    let schema = "CREATE TABLE n(id TEXT PRIMARY KEY, up TEXT REFERENCES n(id) ON DELETE CASCADE);
        INSERT INTO n VALUES('a','a'),('b','c'),('c','b')";
    let world = World::new();
    let (mut a, mut b) = pair(&world, schema);
    a.run("DELETE FROM n WHERE id='a'; DELETE FROM n WHERE id='b'");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT * FROM n", &[], &[]);
}

#[test]
fn a_cascade_that_nothing_explains_is_a_delete() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, CASCADE);
    // The parent was never known elsewhere.
    a.run(
        "INSERT INTO p VALUES('N',0); UPDATE c SET p='N' WHERE id='c0'; DELETE FROM p WHERE id='N'",
    );
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id FROM c", &["c1"], &[]);
    // The child came after the parent's new life began.
    a.run("INSERT OR REPLACE INTO p VALUES('Q',1); UPDATE c SET p='Q'; DELETE FROM c");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id FROM c", &[], &[]);
}

#[test]
fn cascaded_children_protect_nobody() {
    let schema = "CREATE TABLE x(id TEXT PRIMARY KEY); CREATE TABLE w(id TEXT PRIMARY KEY);
        CREATE TABLE y(id TEXT PRIMARY KEY, x TEXT REFERENCES x(id) ON DELETE CASCADE, w TEXT REFERENCES w(id));
        INSERT INTO x VALUES('X'); INSERT INTO w VALUES('W'); INSERT INTO y VALUES('Y','X','W')";
    let world = World::new();
    let (mut a, mut b) = pair(&world, schema);
    a.run("DELETE FROM x");
    a.replica.fold().unwrap();
    a.run("DELETE FROM w");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id FROM x UNION SELECT id FROM w UNION SELECT id FROM y", &[], &[]);
}

#[test]
fn a_set_null_opens_no_record_and_is_undone_with_the_delete() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SET_NULL);
    a.run("DELETE FROM p WHERE id='P'");
    a.replica.fold().unwrap();
    assert_eq!(kinds(&a), [""; 0]);
    let mut c = world.clone_site(&mut b, "c");
    b.pull(&mut a);
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &["c0|NULL", "c1|NULL"], &[]);
    c.run("INSERT INTO r VALUES('r','P')");
    b.pull(&mut c);
    a.pull(&mut b);
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &["c0|P", "c1|P"], &["restrict_revived:'P'"]);
}

#[test]
fn a_reference_made_after_the_delete_opens_a_record() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SET_NULL);
    a.run("DELETE FROM p WHERE id='P'");
    b.run("INSERT INTO c VALUES('c2','P',0)");
    settle(&mut a, &mut b);
    let rows = ["c0|NULL", "c1|NULL", "c2|NULL"];
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &rows, &["set_null:'c2'"]);
}

#[test]
fn a_user_who_writes_null_wrote_null() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SET_NULL);
    a.run("UPDATE c SET p=NULL WHERE id='c0'; DELETE FROM p WHERE id='P'");
    b.run("INSERT INTO r VALUES('r','P')");
    settle(&mut a, &mut b);
    let rows = ["c0|NULL", "c1|P"];
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &rows, &["restrict_revived:'P'"]);
}

#[test]
fn the_last_write_of_a_reference_decides() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SET_NULL);
    a.run("UPDATE c SET p='Q' WHERE id='c0'");
    a.run("DELETE FROM p");
    a.run("INSERT INTO p VALUES('N',0); UPDATE c SET p='N' WHERE id='c1'");
    b.run("INSERT INTO r VALUES('r','Q')");
    settle(&mut a, &mut b);
    let rows = ["c0|Q", "c1|N"];
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &rows, &["restrict_revived:'Q'"]);
}

#[test]
fn a_null_for_a_changed_key_is_derived() {
    let world = World::new();
    let (mut a, mut b) = pair(&world, SET_NULL);
    a.run("UPDATE p SET id='R' WHERE id='P'");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &["c0|NULL", "c1|NULL"], &[]);
    b.run("UPDATE c SET p='R' WHERE id='c0'");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id, p FROM c ORDER BY 1", &["c0|R", "c1|NULL"], &[]);
}

#[test]
fn a_default_set_by_a_delete_goes_when_the_parent_returns() {
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY);
        CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT DEFAULT 'D' REFERENCES p(id) ON DELETE SET DEFAULT);
        CREATE TABLE r(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id));
        INSERT INTO p VALUES('P'),('D'); INSERT INTO c VALUES('c0','P');";
    let world = World::new();
    let (mut a, mut b) = pair(&world, schema);
    a.run("DELETE FROM p WHERE id='P'");
    let mut c = world.clone_site(&mut b, "c");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id, p FROM c", &["c0|D"], &[]);
    c.run("INSERT INTO r VALUES('r','P')");
    b.pull(&mut c);
    a.pull(&mut b);
    both(&a, &b, "SELECT id, p FROM c", &["c0|P"], &["restrict_revived:'P'"]);
}

#[test]
fn a_parent_is_rebuilt_while_the_triggers_are_there() {
    let world = World::new();
    let (a, b) = pair(&world, CASCADE);
    a.run(
        "PRAGMA foreign_keys=OFF; BEGIN; CREATE TABLE new(id TEXT PRIMARY KEY, v, z);
        INSERT INTO new(id, v) SELECT id, v FROM p; DROP TABLE p; DELETE FROM c WHERE id='c0';
        ALTER TABLE new RENAME TO p; COMMIT;",
    );
    assert_eq!(a.rows("SELECT id FROM c"), ["c1"]);
    b.run("ALTER TABLE p ADD COLUMN z");
}

#[test]
fn a_delete_that_a_trigger_prevented_is_none() {
    let schema = format!(
        "{CASCADE} CREATE TRIGGER soft BEFORE DELETE ON p WHEN OLD.v IS NOT -1 BEGIN
            UPDATE p SET v=-1 WHERE id=OLD.id; SELECT RAISE(IGNORE); END;"
    );
    let world = World::new();
    let (mut a, mut b) = pair(&world, &schema);
    a.run("DELETE FROM p WHERE id='P'; DELETE FROM c WHERE id='c0'");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id FROM c", &["c1"], &[]);
    assert_eq!(b.row("SELECT v FROM p WHERE id='P'"), "-1");
    a.run("DELETE FROM p WHERE id='P'");
    b.run("INSERT INTO r VALUES('r','P')");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id FROM c", &["c1"], &["restrict_revived:'P'"]);
}

/// A key of two references leaves both behind with the rows that they were to, or with one: none of them
/// is to nobody for the sake of the other.
#[test]
fn references_of_one_key_are_left_behind_together() {
    let sql = "CREATE TABLE p(k TEXT PRIMARY KEY, u INTEGER UNIQUE, v);
        CREATE TABLE c(k INTEGER NOT NULL, l INTEGER NOT NULL, w, PRIMARY KEY(k, l),
          FOREIGN KEY(k) REFERENCES p(u) ON DELETE SET DEFAULT ON UPDATE SET DEFAULT,
          FOREIGN KEY(l) REFERENCES p(u) ON DELETE CASCADE ON UPDATE RESTRICT);
        INSERT INTO p VALUES('x', 0, 1), ('y', 1, 1);
        INSERT INTO c VALUES(0, 0, 'both'), (0, 1, 'first'), (1, 0, 'second'), (1, 1, 'none')";
    let acts = [
        "REPLACE INTO p VALUES('x', NULL, 2)",
        "UPDATE p SET u = NULL WHERE k = 'x'",
        "DELETE FROM p",
        "UPDATE p SET u = u + 10; DELETE FROM p WHERE k = 'x'",
        "DELETE FROM p; INSERT INTO p VALUES('z', 1, 3)",
        "DELETE FROM p WHERE k = 'x'; UPDATE p SET u = 5; INSERT INTO p VALUES('z', 0, 3)",
        "UPDATE p SET u = 5 WHERE k = 'x'; UPDATE p SET u = 0 WHERE k = 'y'",
        "UPDATE p SET u = 5 WHERE k = 'y'; UPDATE p SET u = 1 WHERE k = 'x'",
        "UPDATE p SET u = 5 WHERE k = 'y'; UPDATE c SET w = 'w'; REPLACE INTO p VALUES('x', 1, 2)",
    ];
    for act in acts {
        let world = World::new();
        let mut a = world.init("a", sql);
        let mut b = world.clone_site(&mut a, "b");
        a.run("PRAGMA foreign_keys=OFF");
        a.run(act);

        settle(&mut a, &mut b);
        let records = |site: &Site| {
            let records = site.replica.conflicts().unwrap();
            records
                .iter()
                .map(|c| format!("{} {} {}", c.kind, c.row, c.constraint))
                .collect::<Vec<_>>()
        };
        assert_eq!(records(&a), records(&b), "{act}");
        for table in ["p", "c"] {
            let sql = format!("SELECT * FROM {table} ORDER BY 1, 2");
            assert_eq!(a.rows(&sql), b.rows(&sql), "{act}");
        }
        for site in [&a, &b] {
            assert_eq!(site.replica.verify_full().unwrap(), [""; 0], "{act}");
        }
    }
}

/// A row that followed the second of two foreign keys with a column in common wrote nothing.
#[test]
fn a_row_that_followed_one_of_two_keys_to_a_null_wrote_nothing() {
    let world = World::new();
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY, a, b, UNIQUE(a, b));
        CREATE TABLE q(id TEXT PRIMARY KEY, b, c, UNIQUE(b, c));
        CREATE TABLE r(id TEXT PRIMARY KEY, x, y, z,
            FOREIGN KEY(x, y) REFERENCES p(a, b) ON UPDATE CASCADE,
            FOREIGN KEY(y, z) REFERENCES q(b, c) ON UPDATE CASCADE);
        INSERT INTO p VALUES('p', 'A', 'B'), ('o', 'O', 'B'); INSERT INTO q VALUES('q', 'B', 'C');
        INSERT INTO r VALUES('r', 'A', 'B', 'C')";
    let (mut a, mut b) = pair(&world, schema);
    b.run("UPDATE r SET x = 'O'");
    b.replica.fold().unwrap();
    a.run("UPDATE q SET c = NULL");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT x, y, z FROM r", &["O|B|NULL"], &[]);
}

#[test]
fn what_stepped_aside_from_a_row_that_goes_is_as_written() {
    let world = World::new();
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY);
        CREATE TABLE c(id TEXT PRIMARY KEY REFERENCES p(id) ON DELETE SET NULL, v);
        INSERT INTO p VALUES('P'),('Q'); INSERT INTO c VALUES('P',0);";
    let (mut a, mut b) = pair(&world, schema);
    b.run("UPDATE p SET id='R' WHERE id='Q'; INSERT INTO c VALUES('R',1)");
    b.replica.fold().unwrap();
    a.run("UPDATE c SET id='Q' WHERE id='P'");
    a.pull(&mut b);
    assert_eq!(a.rows("SELECT id, v FROM c ORDER BY v"), ["P|0", "R|1"]);
    assert_eq!(kinds(&a), ["fallback:'P'"]);
    a.run("DELETE FROM p WHERE id='R'");
    assert_eq!(a.replica.fold().unwrap().rows, 2);
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT id, v FROM c ORDER BY v", &["NULL|0", "NULL|1"], &[]);
}

/// Row 101 takes the number of 103, which refers to it under ON UPDATE SET DEFAULT, and displaces it. No
/// CASCADE took 103 along: it was replaced, and 104 went with it.
#[test]
fn a_row_displaced_by_the_one_it_refers_to_takes_its_children_along() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE n(id INTEGER PRIMARY KEY,
            up REFERENCES n(id) ON DELETE CASCADE ON UPDATE SET DEFAULT, name);
         INSERT INTO n VALUES(101, NULL, 'x'), (103, 101, 'y'), (104, 103, 'z')",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE OR REPLACE n SET id = 103 WHERE id = 101");
    assert_eq!(a.rows("SELECT id, name FROM n"), ["103|x"]);
    b.run("UPDATE n SET up = NULL WHERE id = 104");
    b.pull(&mut a);
    a.pull(&mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT id, name FROM n"), ["103|x", "104|z"]);
        site.check();
    }
}

/// REPLACE deletes a grandparent, and its children with it. One of these is kept for a row that another site
/// made meanwhile, and told; it lives on once nobody needs it any more, and where it is restored.
#[test]
fn a_child_of_a_former_life_is_kept_and_told_while_another_row_needs_it() {
    let schema = "CREATE TABLE g(k TEXT PRIMARY KEY, v); INSERT INTO g VALUES('x', 1);
        CREATE TABLE p(k INTEGER PRIMARY KEY, g TEXT REFERENCES g(k) ON DELETE CASCADE);
        CREATE TABLE c(k INTEGER PRIMARY KEY, p INTEGER REFERENCES p(k)); INSERT INTO p VALUES(1, 'x')";
    let shown = "SELECT k || g FROM p";
    for ends in ["DELETE FROM c", "UPDATE c SET p = NULL", "restore"] {
        let world = World::new();
        let (mut a, mut b) = pair(&world, schema);
        a.run("REPLACE INTO g VALUES('x', 2)");
        assert_eq!(a.rows(shown), [""; 0]);
        b.run("INSERT INTO c VALUES(1, 1)");
        settle(&mut a, &mut b);
        both(&a, &b, shown, &["1x"], &["restrict_revived:1"]);
        match ends {
            "restore" => {
                let id = b.replica.conflicts().unwrap()[0].id.clone();
                b.replica.settle_conflict(&id, Verb::Restore).unwrap();
            }
            sql => b.run(sql),
        }
        b.replica.fold().unwrap();
        assert_eq!(b.replica.verify_full().unwrap(), [""; 0], "{ends}");
        settle(&mut a, &mut b);
        both(&a, &b, shown, &["1x"], &[]);
    }
}

/// So is one that no other site had seen: it comes as it was inserted, and shows so, but has a record.
#[test]
fn a_new_child_of_a_former_life_is_kept_and_told() {
    let world = World::new();
    let (mut a, mut b) = pair(
        &world,
        "CREATE TABLE g(k TEXT PRIMARY KEY, v); INSERT INTO g VALUES('x', 1);
        CREATE TABLE p(k INTEGER PRIMARY KEY, g TEXT REFERENCES g(k) ON DELETE CASCADE);
        CREATE TABLE c(k INTEGER PRIMARY KEY, p INTEGER REFERENCES p(k));",
    );
    b.run("INSERT INTO p VALUES(1, 'x'); INSERT INTO c VALUES(1, 1)");
    a.run("REPLACE INTO g VALUES('x', 2)");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT k || g FROM p", &["1x"], &["restrict_revived:1"]);
    for site in [&mut a, &mut b] {
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// No action cleared it: its row is there. A unique index that is new then makes the next entry say what the
/// row's keys were.
#[test]
fn what_a_user_cleared_is_written_whatever_becomes_of_the_row_then() {
    for tail in [" WITHOUT ROWID", ""] {
        let world = World::new();
        let mut a = world.init(
            "a",
            &format!(
                "CREATE TABLE t(k TEXT NOT NULL, l INTEGER NOT NULL, r TEXT, s TEXT, PRIMARY KEY(k, l),
                   FOREIGN KEY(r, s) REFERENCES t(k, l) ON DELETE SET NULL){tail}"
            ),
        );
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO t VALUES('x', 0, NULL, 'one'), ('y', 5, NULL, 'one')");
        b.run("CREATE UNIQUE INDEX i ON t(s)");
        b.pull(&mut a);
        a.run("UPDATE t SET s = NULL WHERE k = 'y'; CREATE UNIQUE INDEX i ON t(s); UPDATE t SET l = l * -1");
        b.pull(&mut a);
        a.pull(&mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM t ORDER BY k"), ["x|0|NULL|one", "y|-5|NULL|NULL"]);
        }
    }
}

/// Which row the value of a row is to that a new foreign key took along, no other site could tell.
#[test]
fn what_a_foreign_key_takes_along_before_a_command_has_seen_it_is_deleted() {
    let world = World::new();
    let (mut a, mut b) = pair(
        &world,
        "CREATE TABLE t(k INTEGER PRIMARY KEY, w, r INTEGER REFERENCES t(k) ON DELETE SET DEFAULT);
         INSERT INTO t VALUES(1, 'one', NULL)",
    );
    let migration = "PRAGMA foreign_keys = OFF;
        ALTER TABLE t ADD COLUMN p REAL DEFAULT 3 REFERENCES t(k) ON DELETE CASCADE;
        PRAGMA foreign_keys = ON";
    a.run("INSERT INTO t VALUES(2, 'two', NULL)");
    b.run("INSERT INTO t VALUES(2, 'three', NULL)");
    b.pull(&mut a);
    a.run("INSERT INTO t VALUES(9, 'child', NULL)");
    b.run("DELETE FROM t WHERE k = 2");
    b.run(migration);
    a.pull(&mut b);
    a.run(migration);
    a.run("DELETE FROM t WHERE k = 3");
    assert_eq!(a.row("SELECT count(*) FROM t"), "0");
    settle(&mut a, &mut b);
    both(&a, &b, "SELECT * FROM t", &[], &[]);
    assert_eq!(a.replica.digest().unwrap(), b.replica.digest().unwrap());
}

/// A row needs its parent, and with it what the parent refers to. Once it refers to nobody, all of them fall.
#[test]
fn what_a_needed_row_refers_to_falls_with_the_need() {
    let world = World::new();
    let sql = "CREATE TABLE a(id INTEGER PRIMARY KEY, x); \
               CREATE TABLE b(id INTEGER PRIMARY KEY REFERENCES a(id) ON DELETE CASCADE ON UPDATE CASCADE, x); \
               CREATE TABLE c(k TEXT PRIMARY KEY, x INT REFERENCES b(id)); INSERT INTO a VALUES(4, 'a')";
    let mut a = world.init("a", sql);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO b VALUES(4, 'b'); INSERT INTO c VALUES('c', 4)");
    b.run("DELETE FROM a");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT x FROM a"), ["a"]);
    b.run("UPDATE c SET x = NULL");
    b.replica.fold().unwrap();
    assert_eq!(b.replica.verify_full().unwrap(), [""; 0]);
    settle(&mut a, &mut b);
    for sql in ["SELECT * FROM a", "SELECT * FROM b", "SELECT * FROM c"] {
        assert_eq!(a.rows(sql), b.rows(sql));
    }
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
}

/// A rebuild makes it unsure whether the key of a row was written that was written otherwise. That overrides no
/// reference to it of the same time.
#[test]
fn a_key_that_nobody_is_known_to_have_written_overrides_nothing() {
    let world = World::new();
    let made = |name: &str| {
        format!(
            "CREATE TABLE {name}(u INTEGER UNIQUE, n, r INTEGER DEFAULT 4
               REFERENCES t(u) ON UPDATE SET DEFAULT)"
        )
    };
    let mut a = world.init("a", &made("t"));
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO t VALUES(1, 5, NULL), (NULL, 6, NULL)");
    a.replica.fold().unwrap();
    a.run("UPDATE t SET u = coalesce(u, 5), r = CASE n WHEN 5 THEN 5 END");
    a.replica.fold().unwrap();
    a.run("UPDATE t SET n = 7 WHERE n = 6");
    a.run(&format!(
        "PRAGMA foreign_keys = OFF; BEGIN; {}; INSERT INTO x SELECT * FROM t; DROP TABLE t;
         ALTER TABLE x RENAME TO t; COMMIT; PRAGMA foreign_keys = ON",
        made("x")
    ));
    a.replica.fold().unwrap();
    assert_eq!(a.replica.verify_full().unwrap(), [""; 0]);
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t ORDER BY n"), ["1|5|5", "5|7|NULL"]);
        assert_eq!(site.replica.conflicts().unwrap().len(), 0);
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}

/// SQLite acts on the row under its new number before it says that the row has it. A row inserted in the same
/// instant has no number as high, so no other row is meant.
#[test]
fn a_row_that_names_itself_keeps_its_age_where_an_action_meets_its_new_number() {
    let world = World::new();
    let schema =
        "CREATE TABLE t(id INTEGER PRIMARY KEY, up INTEGER REFERENCES t ON UPDATE SET NULL, w);
                  INSERT INTO t VALUES(1, 1, 'old')";
    let (mut a, mut b) = pair(&world, schema);
    a.run("UPDATE t SET w = 'new'");
    a.replica.fold().unwrap();
    b.run("BEGIN; INSERT INTO t VALUES(2, NULL, 'other'); UPDATE t SET id = id + 10; COMMIT");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM t"), ["11|NULL|new", "12|NULL|other"]);
    }
}
