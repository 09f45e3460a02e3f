//! What merges decide.

use crate::site::{World, settle};
use synqlite_core::Policy;

#[test]
fn the_same_new_integer_key_on_two_sites_is_two_rows() {
    let schema = "CREATE TABLE project(id INTEGER PRIMARY KEY AUTOINCREMENT, name);
        CREATE TABLE task(id INTEGER PRIMARY KEY, project INTEGER NOT NULL REFERENCES project(id), title);";
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO project(name) VALUES('PA'); INSERT INTO task(project,title) VALUES(1,'tA')");
    b.run("INSERT INTO project(name) VALUES('PB'); INSERT INTO task(project,title) VALUES(1,'tB1'),(1,'tB2')");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT id,name FROM project ORDER BY 1"), ["1|PA", "2|PB"]);
        let join = "SELECT p.name,t.title FROM task t JOIN project p ON p.id=t.project ORDER BY 2";
        assert_eq!(site.rows(join), ["PA|tA", "PB|tB1", "PB|tB2"]);
    }
    b.run("INSERT INTO project(name) VALUES('next')");
    assert_eq!(b.row("SELECT max(id) FROM project"), "3");
}

#[test]
fn deleted_rows_keep_their_values_for_a_site_that_needs_them() {
    let world = World::new();
    let mut a =
        world.init("a", "CREATE TABLE t(k TEXT PRIMARY KEY, x, y); INSERT INTO t VALUES('k',1,2)");
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM t");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM t"), [""; 0]);
    b.run("INSERT INTO t VALUES('k',7,8)");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM t"), ["k|7|8"]);
}

#[test]
fn exchanged_unique_values_arrive() {
    let world = World::new();
    let mut a = world.init(
        "a",
        "CREATE TABLE t(id INTEGER PRIMARY KEY, u UNIQUE); INSERT INTO t VALUES(1,'a'),(2,'b')",
    );
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET u='tmp' WHERE id=1; UPDATE t SET u='a' WHERE id=2; UPDATE t SET u='b' WHERE id=1");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM t ORDER BY 1"), ["1|b", "2|a"]);
}

#[test]
fn pulling_again_changes_nothing() {
    let world = World::new();
    let mut a =
        world.init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES(1,1)");
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE t SET x=2; INSERT INTO t VALUES(2,2)");
    let merged = b.replica.pull_from(&mut a.replica, false).unwrap().merged;
    assert_eq!((merged.inserted, merged.updated), (1, 1));
    let pulled = b.replica.pull_from(&mut a.replica, false).unwrap();
    let merged = &pulled.merged;
    assert_eq!((merged.inserted, merged.updated, merged.rows), (0, 0, 0));
    assert_eq!((pulled.rows, pulled.columns, pulled.bytes), (0, 0, 0));
}

#[test]
fn a_renumbered_parent_and_a_new_row_do_not_fight_for_a_rowid() {
    let world = World::new();
    let schema = "CREATE TABLE o(id INTEGER PRIMARY KEY, x);
        CREATE TABLE l(o INTEGER NOT NULL REFERENCES o(id), n INTEGER, PRIMARY KEY(o, n));
        INSERT INTO o VALUES(1,'one'); INSERT INTO l VALUES(1,1);";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO o VALUES(2,'a'); INSERT INTO l VALUES(2,1)");
    b.run("INSERT INTO o VALUES(2,'b'); INSERT INTO l VALUES(2,1)");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        let join = "SELECT o.x, l.n FROM l JOIN o ON o.id = l.o ORDER BY 1";
        assert_eq!(site.rows(join), ["a|1", "b|1", "one|1"]);
    }
}

#[test]
fn dead_rows_outlive_an_added_column() {
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE k(id TEXT PRIMARY KEY, x)");
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO k VALUES('p', 1)");
    a.replica.fold().unwrap();
    a.run("DELETE FROM k");
    a.replica.fold().unwrap();
    a.run("ALTER TABLE k ADD COLUMN z");
    b.run("ALTER TABLE k ADD COLUMN z");
    b.pull(&mut a);
}

#[test]
fn a_key_that_cascades_is_no_write_of_the_child() {
    let world = World::new();
    let schema = "CREATE TABLE p(k TEXT PRIMARY KEY);
        CREATE TABLE c(id INTEGER PRIMARY KEY, p TEXT REFERENCES p(k) ON UPDATE CASCADE);
        INSERT INTO p VALUES('one'),('two'); INSERT INTO c VALUES(1,'one');";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    b.run("UPDATE c SET p='two'");
    a.run("UPDATE p SET k='uno' WHERE k='one'");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k FROM p ORDER BY 1"), ["two", "uno"]);
        assert_eq!(site.row("SELECT p FROM c"), "two", "the move is later than no write at all");
    }
}

#[test]
fn named_triggers_fire_for_merged_rows() {
    let world = World::new();
    let schema = "CREATE TABLE doc(id TEXT PRIMARY KEY, body);
        CREATE TABLE idx(id TEXT PRIMARY KEY, word); CREATE TABLE audit(what);
        CREATE TRIGGER keep AFTER INSERT ON doc BEGIN INSERT INTO idx VALUES(NEW.id, NEW.body); END;
        CREATE TRIGGER log AFTER INSERT ON doc BEGIN INSERT INTO audit VALUES(NEW.id); END;";
    let policies = [("local_tables", "idx"), ("fire_on_merge", "keep")];
    let mut a = world.init_with("a", schema, &policies);
    let mut b = world.clone_site(&mut a, "b");
    a.run("INSERT INTO doc VALUES('1','one')");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT * FROM idx"), ["1|one"]);
    assert_eq!(b.rows("SELECT * FROM audit"), ["1"], "what it logged arrived as a row");
    b.run("INSERT INTO doc VALUES('2','two')");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT word FROM idx ORDER BY 1"), ["one", "two"]);
}

#[test]
fn a_reference_to_nothing_is_hidden_on_its_own_site_too_and_comes_back() {
    let world = World::new();
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY); CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id));";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("PRAGMA foreign_keys=OFF; INSERT INTO c VALUES('c1','nobody')");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM c"), [""; 0]);
        let records = site.replica.records().unwrap();
        assert_eq!(records.iter().map(|c| c.kind.as_str()).collect::<Vec<_>>(), ["fk_dangling"]);
    }
    b.run("INSERT INTO p VALUES('nobody')");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM c"), ["c1|nobody"]);
        assert!(site.replica.records().unwrap().is_empty());
    }
}

#[test]
fn a_row_shown_for_another_lives_once_the_user_has_seen_it() {
    let world = World::new();
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY, v); CREATE TABLE r(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id));
        INSERT INTO p VALUES('P',0);";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM p");
    b.run("INSERT INTO r VALUES('r','P')");
    settle(&mut a, &mut b);
    assert_eq!(a.rows("SELECT * FROM p"), ["P|0"]);
    a.run("UPDATE p SET v=99; DELETE FROM r");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM p"), ["P|99"]);
        assert!(site.replica.records().unwrap().is_empty());
    }
}

#[test]
fn conflicts_are_settled_by_replicated_writes() {
    use synqlite_core::Verb;
    let schema =
        "CREATE TABLE u(id TEXT PRIMARY KEY, email UNIQUE); INSERT INTO u VALUES('z','z@');";
    let world = World::new();
    let settled = |name: &str, verb: Verb| {
        let mut a = world.init(&format!("{name}-a"), schema);
        let mut b = world.clone_site(&mut a, &format!("{name}-b"));
        a.run("INSERT INTO u VALUES('a','x@')");
        b.run("INSERT INTO u VALUES('b','x@')");
        settle(&mut a, &mut b);
        let open = b.replica.records().unwrap();
        assert_eq!(open.len(), 1);
        b.replica.settle_conflict(&open[0].id[..8], verb).unwrap();
        b.check();
        settle(&mut a, &mut b);
        let rows = a.rows("SELECT id FROM u WHERE email = 'x@'");
        assert_eq!(b.rows("SELECT id FROM u WHERE email = 'x@'"), rows);
        (rows, a.replica.records().unwrap().len(), a.replica.verify().unwrap())
    };
    assert_eq!(settled("prefer", Verb::Prefer), (vec!["b".to_owned()], 1, vec![]));
    assert_eq!(settled("discard", Verb::Discard), (vec!["a".to_owned()], 0, vec![]));
    assert_eq!(settled("accept", Verb::Accept), (vec!["a".to_owned()], 0, vec![]));

    let mut a = world.init("fall-a", schema);
    let mut b = world.clone_site(&mut a, "fall-b");
    a.run("INSERT INTO u VALUES('a','x@')");
    b.run("UPDATE u SET email='x@' WHERE id='z'");
    settle(&mut a, &mut b);
    let open = a.replica.records().unwrap();
    assert_eq!(open[0].kind.as_str(), "fallback");
    assert!(a.replica.settle_conflict(&open[0].id, Verb::Discard).is_err());
    a.replica.settle_conflict(&open[0].id, Verb::Accept).unwrap();
    settle(&mut a, &mut b);
    a.run("DELETE FROM u WHERE id='a'");
    settle(&mut a, &mut b);
    assert_eq!(b.rows("SELECT id, email FROM u"), ["z|z@"], "what was accepted stays");
    assert!(b.replica.records().unwrap().is_empty());
}

#[test]
fn a_deleted_parent_is_restored_for_its_hidden_child() {
    use synqlite_core::Verb;
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY, v);
        CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id) ON DELETE CASCADE);
        INSERT INTO p VALUES('P',7);";
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM p");
    b.run("INSERT INTO c VALUES('c','P')");
    settle(&mut a, &mut b);
    let open = a.replica.records().unwrap();
    assert_eq!(open[0].kind.as_str(), "fk_cascade");
    a.replica.settle_conflict(&open[0].id, Verb::Restore).unwrap();
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT p.v, c.id FROM p JOIN c ON c.p = p.id"), ["7|c"]);
        assert!(site.replica.records().unwrap().is_empty());
        assert_eq!(site.replica.verify().unwrap(), [""; 0]);
    }
}

#[test]
fn a_copy_restored_from_a_dump_is_no_site_if_its_rows_moved() {
    let world = World::new();
    let mut a =
        world.init("a", "CREATE TABLE log(x); INSERT INTO log VALUES('one'),('two'),('three')");
    a.run("DELETE FROM log WHERE x = 'one'");
    a.replica.fold().unwrap();
    std::fs::copy(a.replica.path(), world.path("b")).unwrap();
    let b = rusqlite::Connection::open(world.path("b")).unwrap();
    // What a dump does to a table without a primary key: rows are numbered anew, and triggers made
    // after them.
    let trigger = "SELECT sql FROM sqlite_master WHERE name = 'synqlite_update_1'";
    let trigger: String = b.query_row(trigger, [], |row| row.get(0)).unwrap();
    b.execute_batch("DROP TRIGGER synqlite_update_1; UPDATE log SET rowid = rowid - 1").unwrap();
    b.execute_batch(&trigger).unwrap();
    let options = synqlite_core::InitOptions { new_site: true, ..Default::default() };
    let env = std::sync::Arc::new(synqlite_core::System);
    let refused = synqlite_core::Replica::init(&world.path("b"), &options, env).unwrap_err();
    assert!(refused.to_string().contains("no faithful copy"), "{refused}");
}

#[test]
fn policies_that_name_nothing_are_refused() {
    let world = World::new();
    let schema = "CREATE TABLE t(x); CREATE TRIGGER keep AFTER INSERT ON t BEGIN SELECT 1; END;";
    let mut a = world.init("a", schema);
    let mut set =
        |key: &str, value: &str| a.replica.set_policies(&[Policy::new(key, value).unwrap()]);
    for (key, value) in [("fire_on_merge", "keep,kepe"), ("tt.on_unique", "unify")] {
        let refused = set(key, value).unwrap_err().to_string();
        assert!(refused.contains(key), "{refused}");
    }
    set("fire_on_merge", "KEEP").unwrap();
    set("T.on_unique", "unify").unwrap();
}

#[test]
fn writing_part_of_a_key_settles_the_part_that_shows_a_former_value() {
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY);
        CREATE TABLE c(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id), slot INT, UNIQUE(p, slot));
        INSERT INTO p VALUES('P'),('Q'); INSERT INTO c VALUES('c1','P',0),('c2','Q',1);";
    let world = World::new();
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("UPDATE c SET slot=1 WHERE id='c1'");
    b.run("UPDATE c SET p='P' WHERE id='c2'");
    settle(&mut a, &mut b);
    assert_eq!(a.row("SELECT p, slot FROM c WHERE id='c2'"), "Q|1", "it lost (P,1)");
    a.run("UPDATE c SET slot=2 WHERE id='c2'");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.row("SELECT p, slot FROM c WHERE id='c2'"), "Q|2", "what the user saw");
        assert!(site.replica.records().unwrap().is_empty());
    }
}

#[test]
fn by_policy_an_update_outlives_an_earlier_delete() {
    let schema = "CREATE TABLE note(id TEXT PRIMARY KEY, body, done);
        CREATE TABLE tag(note TEXT REFERENCES note(id) ON DELETE CASCADE, word);
        INSERT INTO note VALUES('n','old',0),('m','old',0); INSERT INTO tag VALUES('n','x');";
    for (policy, left) in [(&[("note.delete", "last")][..], &["n|new|0"][..]), (&[], &[])] {
        let world = World::new();
        let mut a = world.init_with("a", schema, policy);
        let mut b = world.clone_site(&mut a, "b");
        b.run("UPDATE note SET body='new' WHERE id='m'");
        a.run("DELETE FROM note");
        b.run("UPDATE note SET body='new' WHERE id='n'");
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT * FROM note"), left, "{policy:?}");
            assert_eq!(site.rows("SELECT count(*) FROM tag"), [left.len().to_string()]);
            assert_eq!(site.replica.verify().unwrap(), [""; 0]);
        }
        b.run("DELETE FROM note");
        settle(&mut a, &mut b);
        assert_eq!(a.rows("SELECT * FROM note UNION ALL SELECT *, 0 FROM tag"), [""; 0]);
    }
}

#[test]
fn a_key_is_free_for_a_waiting_row_when_its_row_leaves_it_and_is_deleted_in_one_go() {
    for gone in ["DELETE FROM k WHERE k = 'd'", "UPDATE OR REPLACE k SET k = 'd' WHERE k = 'c'"] {
        let world = World::new();
        let mut a = world.init("a", "CREATE TABLE k(id INTEGER PRIMARY KEY, k UNIQUE, v)");
        let mut b = world.clone_site(&mut a, "b");
        a.run("INSERT INTO k(k, v) VALUES('a', 'of A'), ('c', 'c')");
        b.run("INSERT INTO k(k, v) VALUES('a', 'of B')");
        settle(&mut a, &mut b);
        assert_eq!(b.rows("SELECT v FROM k WHERE k = 'a'"), ["of A"]);
        a.run("UPDATE k SET k = 'd' WHERE k = 'a'");
        a.run(gone);
        settle(&mut a, &mut b);
        for site in [&a, &b] {
            assert_eq!(site.rows("SELECT v FROM k WHERE k = 'a'"), ["of B"], "{gone}");
            assert_eq!(site.replica.records().unwrap().len(), 0, "{gone}");
        }
    }
}

#[test]
fn a_row_shown_for_another_lives_when_that_refers_elsewhere() {
    let world = World::new();
    let schema = "CREATE TABLE p(id TEXT PRIMARY KEY); CREATE TABLE r(id TEXT PRIMARY KEY, p TEXT REFERENCES p(id));
        INSERT INTO p VALUES('P');";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM p");
    b.run("INSERT INTO r VALUES('r','P')");
    settle(&mut a, &mut b);
    a.run("UPDATE r SET p=NULL");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT * FROM p"), ["P"]);
        assert!(site.replica.records().unwrap().is_empty());
    }
}

/// What text a long floating-point number is, versions of SQLite do not agree on; so a reference by one
/// is to nobody, and `init` says so rather than let the first merge hide its row.
#[test]
fn references_to_texts_by_floating_point_numbers_are_refused() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT PRIMARY KEY, r INTEGER REFERENCES t(k)); \
               INSERT INTO t VALUES(9.3e18, NULL), ('1', 9.3e18), ('2', 1)";
    rusqlite::Connection::open(world.path("a")).unwrap().execute_batch(sql).unwrap();
    let env = std::sync::Arc::new(synqlite_core::System);
    let init = |options: &synqlite_core::InitOptions| {
        synqlite_core::Replica::init(&world.path("a"), options, env.clone())
    };
    let refused = init(&synqlite_core::InitOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("table t has 1 row in which r refers"), "{refused}");
    let with = |policy: &str| {
        let policies = vec![policy.parse().unwrap()];
        init(&synqlite_core::InitOptions { policies, ..Default::default() })
    };
    with("fk=ignore").unwrap();
    // Of a replica too, once they are to hold.
    let refused = with("fk=enforce").unwrap_err();
    assert!(refused.to_string().contains("table t has 1 row in which r refers"), "{refused}");
}

/// Of a table that is replicated already there is nothing to refuse: a merge has taken care of such rows.
/// Nor is a foreign key a reference one of whose columns is NULL.
#[test]
fn a_copy_of_a_replica_with_such_a_number_is_a_site_too() {
    let world = World::new();
    let sql = "CREATE TABLE t(k TEXT, l TEXT, r REFERENCES t(k), s INTEGER, PRIMARY KEY(k), UNIQUE(k, l), \
               FOREIGN KEY(r, s) REFERENCES t(k, l)); INSERT INTO t VALUES('0', '0', NULL, 9.3e18)";
    let mut a = world.init("a", sql);
    a.run("INSERT INTO t VALUES('9.3e+18', '9.3e+18', NULL, NULL), ('1', '1', 9.3e18, NULL)");
    a.replica.fold().unwrap();
    std::fs::copy(world.path("a"), world.path("b")).unwrap();
    let options = synqlite_core::InitOptions { new_site: true, ..Default::default() };
    let env = std::sync::Arc::new(synqlite_core::System);
    synqlite_core::Replica::init(&world.path("b"), &options, env).unwrap();
    let mut b = world.open("b");
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        assert_eq!(site.rows("SELECT k FROM t ORDER BY k"), a.rows("SELECT k FROM t ORDER BY k"));
        assert_eq!(site.replica.verify_full().unwrap(), [""; 0]);
    }
}
