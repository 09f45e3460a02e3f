//! The open records as a table that any program reads.

use crate::site::{Site, World, settle};
use synqlite_core::{InitOptions, Replica, System, Verb};

const SCHEMA: &str =
    "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, photo BLOB);
    CREATE TABLE note(text TEXT UNIQUE);
    INSERT INTO person VALUES(1, 'Ann', 'ann@x', NULL), (2, 'Bob \"B\"', 'bob@x', x'00ff');";

/// Bob's row shows its former address, for Ann has the one he asks for; a note without a key is hidden.
fn disagreed(world: &World) -> (Site, Site) {
    let mut a = world.init("a", SCHEMA);
    let mut b = world.clone_site(&mut a, "b");
    a.replica.set_name("office").unwrap();
    b.replica.set_name("van").unwrap();
    a.run("UPDATE person SET email = 'info@x' WHERE id = 1; INSERT INTO note VALUES('milk')");
    b.run("UPDATE person SET email = 'info@x' WHERE id = 2; INSERT INTO note VALUES('milk')");
    settle(&mut a, &mut b);
    (a, b)
}

const READ: &str = "SELECT tbl, row ->> '$.id', name, kind, declared, base ->> '$.email', mine ->> '$.email', \
     mine_site, theirs ->> '$.email', theirs_site FROM synqlite_open_conflicts WHERE tbl = 'person'";

#[test]
fn any_program_reads_what_is_open() {
    let world = World::new();
    let (a, b) = disagreed(&world);
    let told = "person|2|Bob \"B\"|fallback|UNIQUE (email)|bob@x|info@x";
    assert_eq!(b.rows(READ), [format!("{told}|van|info@x|office")]);
    assert_eq!(a.rows(READ), [format!("{told}|office|info@x|van")]);
    // Each side has its own values, and all of them.
    let sides = "SELECT mine ->> '$.name', theirs ->> '$.name', mine ->> '$.photo' \
                 FROM synqlite_open_conflicts WHERE tbl = 'person'";
    assert_eq!(b.rows(sides), ["Bob \"B\"|Ann|x'00ff'"]);
    assert_eq!(a.rows(sides), ["Ann|Bob \"B\"|NULL"]);
    let since = "SELECT julianday('now') - julianday(since) BETWEEN 0 AND 1, since GLOB '20*T*Z' \
                 FROM synqlite_open_conflicts";
    assert_eq!(b.rows(since), ["1|1", "1|1"]);
    let ids = |site: &Site| site.rows("SELECT id FROM synqlite_open_conflicts ORDER BY id");
    let mut open: Vec<_> = b.replica.conflicts().unwrap().into_iter().map(|c| c.id).collect();
    open.sort();
    assert_eq!((ids(&a), ids(&b)), (open.clone(), open));
}

#[test]
fn it_follows_what_becomes_of_the_records_and_is_of_this_file_alone() {
    let world = World::new();
    let (mut a, mut b) = disagreed(&world);
    let (digest, rows) = (b.replica.digest().unwrap().digest, b.rows(READ));
    // Another site has it from its own side, also where the file was copied.
    let mut c = world.clone_site(&mut b, "c");
    assert!(c.rows(READ)[0].ends_with("|bob@x|info@x|van|info@x|office"), "{:?}", c.rows(READ));
    c.run("UPDATE synqlite_open_conflicts SET kind = 'mine'");
    assert_ne!(c.replica.verify().unwrap(), [""; 0]);
    c.run("DROP TABLE synqlite_open_conflicts");
    c.replica.fold().unwrap();
    assert_eq!(c.rows(READ).len(), 1, "a file of an earlier release gets it");
    assert_eq!(c.replica.verify().unwrap(), [""; 0]);
    // Nothing of it is replicated, or counts.
    assert_eq!(c.replica.digest().unwrap().digest, digest);
    assert_eq!(b.replica.unfolded(9).unwrap(), 0);
    // A rebuild of the table changes nothing.
    b.run(
        "CREATE TABLE n(id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, photo BLOB);
         INSERT INTO n SELECT * FROM person; DROP TABLE person; ALTER TABLE n RENAME TO person",
    );
    b.replica.fold().unwrap();
    assert_eq!(b.rows(READ), rows);
    let id = b.replica.conflicts().unwrap()[1].id.clone();
    b.replica.settle_conflict(&id, Verb::Prefer).unwrap();
    settle(&mut a, &mut b);
    let open = "SELECT tbl, row ->> '$.id', kind FROM synqlite_open_conflicts ORDER BY 1";
    for site in [&a, &b] {
        assert_eq!(site.rows(open), ["note|NULL|unique", "person|1|fallback"]);
    }
    drop(a);
    Replica::deinit(&world.path("a"), &System).unwrap();
    let left = rusqlite::Connection::open(world.path("a")).unwrap();
    let sql = "SELECT count(*) FROM sqlite_master WHERE name LIKE 'synqlite%'";
    assert_eq!(left.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0);
}

/// What the row shows that won is told as it is, whoever wrote it last: this site, or another.
#[test]
fn it_shows_what_the_row_that_won_holds_now() {
    let world = World::new();
    let (mut a, mut b) = disagreed(&world);
    let names = "SELECT mine ->> '$.name', theirs ->> '$.name' FROM synqlite_open_conflicts
                 WHERE tbl = 'person'";
    a.run("UPDATE person SET name = 'Anna' WHERE id = 1");
    a.replica.fold().unwrap();
    assert_eq!(a.rows(names), ["Anna|Bob \"B\""]);
    settle(&mut a, &mut b);
    assert_eq!(b.rows(names), ["Bob \"B\"|Anna"]);
    b.run("UPDATE person SET name = 'Ann-Marie' WHERE id = 1");
    settle(&mut a, &mut b);
    assert_eq!(a.rows(names), ["Ann-Marie|Bob \"B\""]);
    assert_eq!(b.rows(names), ["Bob \"B\"|Ann-Marie"]);
}

#[test]
fn a_replica_has_it_from_the_first() {
    let world = World::new();
    rusqlite::Connection::open(world.path("a")).unwrap().execute_batch(SCHEMA).unwrap();
    let env = std::sync::Arc::new(System);
    Replica::init(&world.path("a"), &InitOptions::default(), env).unwrap();
    assert_eq!(world.open("a").rows("SELECT * FROM synqlite_open_conflicts"), [""; 0]);
}

/// A chain of rows each of which hangs on the one before goes as one question, however long it is.
#[test]
fn one_answer_a_long_chain_of_references_is_one_question() {
    const ROWS: usize = 1_500;
    let world = World::new();
    let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, up INTEGER REFERENCES t(id) ON DELETE CASCADE); \
                  CREATE INDEX t_up ON t(up); INSERT INTO t VALUES(1, NULL)";
    let mut a = world.init("a", schema);
    let mut b = world.clone_site(&mut a, "b");
    a.run("DELETE FROM t");
    b.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
         INSERT INTO t SELECT i, i - 1 FROM n"
    ));
    settle(&mut a, &mut b);
    for site in [&a, &b] {
        let asked = "SELECT count(*), sum(follows IS NULL) FROM synqlite_open_conflicts";
        assert_eq!(site.row(asked), format!("{}|1", ROWS - 1));
        assert_eq!(site.row("SELECT count(*) FROM t"), "0");
    }
}
