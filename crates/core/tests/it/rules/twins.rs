//! What waited in the journal of a file that was copied is one write, though two sites have folded it (R-TWIN).

use crate::forks::{Lab, meet, same};
use crate::site::{Site, World};
use std::sync::Arc;
use synqlite_core::{InitOptions, Replica, System};

const TABLES: &str = "CREATE TABLE o(id INTEGER PRIMARY KEY, s, n DEFAULT 0, u UNIQUE); \
    CREATE TABLE h(s, o REFERENCES o(id)); \
    CREATE TABLE c(id INTEGER PRIMARY KEY, o INTEGER NOT NULL REFERENCES o(id) ON DELETE CASCADE, s); \
    CREATE TABLE l(o INTEGER REFERENCES o(id) ON DELETE CASCADE, k TEXT, s, PRIMARY KEY(o, k)); \
    INSERT INTO o(id, s) VALUES(1, 'one');";
const WAITS: &str = "INSERT INTO o(id, s, u) VALUES(10, 'ten', 'u10'), (11, 'eleven', 'u11'); \
    INSERT INTO c VALUES(1, 10, 'of ten'); INSERT INTO h VALUES('h', 11), ('h', 11); INSERT INTO l VALUES(10, 'x', 'lx')";
const SHOWN: [&str; 4] = [
    "SELECT id, s, n, u FROM o ORDER BY 1",
    "SELECT * FROM c ORDER BY 1",
    "SELECT * FROM h ORDER BY 1, 2",
    "SELECT * FROM l ORDER BY 1, 2",
];

/// Two sites, and the second's file with something in its journal.
fn waiting(tables: &str, waits: &str) -> (Lab, Site, Site, Vec<u8>) {
    let world = World::new();
    let mut a = world.init("a", tables);
    let lab = Lab { world };
    let mut b = lab.clone_of(&mut a, "b");
    meet(&mut [&mut a, &mut b]);
    b.run(waits);
    let backup = lab.backup("b");
    (lab, a, b, backup)
}

fn shown(site: &Site) -> Vec<Vec<String>> {
    SHOWN.iter().map(|sql| site.rows(sql)).collect()
}

fn agree(sites: &mut [&mut Site]) {
    meet(sites);
    same(sites, &["o", "c", "h", "l"]);
    for site in sites {
        assert!(site.replica.conflicts().unwrap().is_empty());
    }
}

/// How the file goes on that has the backup: in its place, with what waited folded by itself or not, or as another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Restored,
    Folded,
    Copied,
}

fn go_on(lab: &Lab, b: Site, backup: &[u8], how: How) -> Site {
    match how {
        How::Restored => lab.restore(b, "b", backup),
        How::Folded => {
            let mut b = lab.restore(b, "b", backup);
            b.replica.fold().unwrap();
            b
        }
        How::Copied => {
            std::fs::write(lab.world.path("moved"), backup).unwrap();
            let options = InitOptions { new_site: true, ..InitOptions::default() };
            Replica::init(&lab.world.path("moved"), &options, Arc::new(System)).unwrap();
            lab.world.open("moved")
        }
    }
}

#[test]
fn r_twin_what_waited_is_there_once() {
    for how in [How::Restored, How::Folded, How::Copied] {
        let (lab, mut a, mut b, backup) = waiting(TABLES, WAITS);
        a.pull(&mut b);
        let want = shown(&a);
        let mut b = go_on(&lab, b, &backup, how);
        let merged = b.replica.pull_from(&mut a.replica, false).unwrap().merged;
        assert_eq!((merged.inserted, merged.deleted), (0, 0), "{how:?}");
        assert_eq!((merged.decisions, merged.told), (vec![], vec![]), "{how:?}");
        assert_eq!(shown(&b), want, "{how:?}");
        agree(&mut [&mut a, &mut b]);
        assert_eq!(shown(&a), want, "{how:?}");
    }
}

/// What both wrote since stands, and so does what refers to the rows.
#[test]
fn r_twin_what_was_written_since_goes_over() {
    for how in [How::Restored, How::Folded, How::Copied] {
        let (lab, mut a, mut b, backup) = waiting(TABLES, WAITS);
        b.run("UPDATE o SET n = 7 WHERE id = 10; INSERT INTO o(id, s) VALUES(12, 'lost')");
        a.pull(&mut b);
        let mut b = go_on(&lab, b, &backup, how);
        b.run("UPDATE o SET s = 'since' WHERE id = 10; INSERT INTO c VALUES(2, 10, 'later'), (3, 11, 'later')");
        b.run("INSERT INTO l VALUES(10, 'y', 'ly'); UPDATE l SET s = 'written' WHERE k = 'x'");
        b.run("INSERT INTO o(id, s) VALUES(12, 'new')");
        b.pull(&mut a);
        let mut c = lab.clone_of(&mut b, "c");
        agree(&mut [&mut a, &mut b, &mut c]);
        let want = [
            "1|one|0|NULL",
            "10|since|7|u10",
            "11|eleven|0|u11",
            "12|lost|0|NULL",
            "13|new|0|NULL",
        ];
        for site in [&a, &b, &c] {
            assert_eq!(site.rows(SHOWN[0]), want, "{how:?}");
            assert_eq!(site.rows(SHOWN[1]), ["1|10|of ten", "2|10|later", "3|11|later"], "{how:?}");
            assert_eq!(site.rows(SHOWN[2]), ["h|11", "h|11"], "{how:?}");
            assert_eq!(site.rows(SHOWN[3]), ["10|x|written", "10|y|ly"], "{how:?}");
        }
    }
}

/// A row that the other has deleted goes, unless something was written to it or refers to it now.
#[test]
fn r_twin_what_was_deleted_stays_deleted() {
    for (since, stays) in [
        ("SELECT 1", false),
        ("UPDATE o SET s = 'kept' WHERE id = 11", true),
        ("INSERT INTO c VALUES(5, 11, 'kept')", true),
    ] {
        let (lab, mut a, mut b, backup) = waiting(TABLES, WAITS);
        b.replica.fold().unwrap();
        b.run("DELETE FROM h; DELETE FROM o WHERE id = 11");
        a.pull(&mut b);
        let mut b = go_on(&lab, b, &backup, How::Restored);
        b.run("DELETE FROM h");
        b.run(since);
        b.pull(&mut a);
        agree(&mut [&mut a, &mut b]);
        assert_eq!(
            a.row("SELECT count(*) FROM o WHERE u = 'u11'"),
            u8::from(stays).to_string(),
            "{since}"
        );
    }
}

/// A row that another replaced before it was folded, unseen by the triggers of a table that was rebuilt, is no twin.
#[test]
fn r_twin_what_was_replaced_before_it_was_folded() {
    let rebuild = |site: &Site| {
        let kept =
            site.rows("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'o'");
        site.run("CREATE TABLE n(id INTEGER PRIMARY KEY, s UNIQUE); INSERT INTO n SELECT * FROM o");
        site.run("DROP TABLE o; ALTER TABLE n RENAME TO o");
        kept.iter().for_each(|sql| site.run(sql));
    };
    let world = World::new();
    let mut a = world.init("a", "CREATE TABLE o(id INTEGER PRIMARY KEY, s)");
    let lab = Lab { world };
    let mut b = lab.clone_of(&mut a, "b");
    rebuild(&b);
    b.run("INSERT INTO o VALUES(10, 'ten')");
    let backup = lab.backup("b");
    rebuild(&a);
    a.pull(&mut b);
    let mut b = lab.restore(b, "b", &backup);
    b.run("REPLACE INTO o VALUES(20, 'ten')");
    a.run("DELETE FROM o");
    b.pull(&mut a);
    meet(&mut [&mut a, &mut b]);
    same(&mut [&mut a, &mut b], &["o"]);
    assert_eq!(a.rows("SELECT * FROM o"), ["20|ten"]);
}

/// Rows that only look like each other are none.
#[test]
fn r_twin_other_rows_stay_two() {
    let tables = "CREATE TABLE o(id INTEGER PRIMARY KEY, s); CREATE TABLE n(id INTEGER PRIMARY KEY, n INTEGER DEFAULT 0);";
    let (lab, mut a, mut b, backup) = waiting(tables, "INSERT INTO n VALUES(5, 5)");
    b.run("INSERT INTO o VALUES(1, 'same')");
    a.pull(&mut b);
    let mut b = lab.restore(b, "b", &backup);
    b.run("INSERT INTO o VALUES(1, 'same')");
    b.pull(&mut a);
    meet(&mut [&mut a, &mut b]);
    same(&mut [&mut a, &mut b], &["o", "n"]);
    assert_eq!(a.rows("SELECT * FROM o"), ["1|same", "2|same"]);
    assert_eq!(a.rows("SELECT * FROM n"), ["5|5"]);
}

/// A row that counts stays where both counted. One to which a table refers that is not replicated goes, and that follows.
#[test]
fn r_twin_what_cannot_go_in_full_stays() {
    let tables = "CREATE TABLE o(id INTEGER PRIMARY KEY, s, n INTEGER DEFAULT 0); CREATE TABLE mine(o REFERENCES o(id) ON DELETE CASCADE)";
    let world = World::new();
    let mut a = world.init_with("a", tables, &[("o.n", "counter"), ("local_tables", "mine")]);
    let lab = Lab { world };
    let mut b = lab.clone_of(&mut a, "b");
    b.run("INSERT INTO o VALUES(1, 'counts', 5), (2, 'local', 5), (3, 'goes', 5)");
    let backup = lab.backup("b");
    a.pull(&mut b);
    let mut b = lab.restore(b, "b", &backup);
    b.run("UPDATE o SET n = n + 1 WHERE id = 1; INSERT INTO mine VALUES(2)");
    b.pull(&mut a);
    meet(&mut [&mut a, &mut b]);
    same(&mut [&mut a, &mut b], &["o"]);
    let want = ["counts|5", "counts|6", "goes|5", "local|5"];
    assert_eq!(a.rows("SELECT s, n FROM o ORDER BY 1, 2"), want);
    assert_eq!(b.rows("SELECT s FROM o JOIN mine ON o = id"), ["local"]);
}

/// Rows that no column numbers are known by their values, or by their order.
#[test]
fn r_twin_rows_without_a_number() {
    let tables = "CREATE TABLE n(s, w); CREATE TABLE k(k TEXT PRIMARY KEY, s UNIQUE)";
    let waits =
        "INSERT INTO n VALUES('a', 1), ('b', 1), ('c', 1); INSERT INTO k(s) VALUES('of nobody')";
    for (theirs, ours, want) in [
        ("UPDATE n SET w = 2 WHERE s = 'b'", "SELECT 1", ["a|1", "b|2", "c|1"]),
        ("SELECT 1", "UPDATE n SET w = 3 WHERE s = 'b'", ["a|1", "b|3", "c|1"]),
        (
            "UPDATE n SET w = 2 WHERE s = 'a'",
            "UPDATE n SET s = 'x' WHERE s = 'a'",
            ["b|1", "c|1", "x|2"],
        ),
    ] {
        let (lab, mut a, mut b, backup) = waiting(tables, waits);
        a.pull(&mut b);
        b.run(theirs);
        a.pull(&mut b);
        let mut b = go_on(&lab, b, &backup, How::Restored);
        b.run(ours);
        b.pull(&mut a);
        meet(&mut [&mut a, &mut b]);
        same(&mut [&mut a, &mut b], &["n", "k"]);
        assert_eq!(a.rows("SELECT * FROM n ORDER BY 1, 2"), want, "{theirs} {ours}");
        assert_eq!(a.rows("SELECT * FROM k"), ["NULL|of nobody"]);
    }
}

/// What others have heard of stays, for they may have written to it, or refer to it.
#[test]
fn r_twin_what_others_have_stays() {
    for how in [How::Restored, How::Folded, How::Copied] {
        let tables = "CREATE TABLE o(id INTEGER PRIMARY KEY, s, n); CREATE TABLE c(o REFERENCES o(id) ON DELETE CASCADE);";
        let (lab, mut a, mut b, backup) = waiting(tables, "INSERT INTO o(id, s) VALUES(10, 'ten')");
        let mut c = lab.clone_of(&mut a, "c");
        a.pull(&mut b);
        let mut b = go_on(&lab, b, &backup, how);
        c.pull(&mut b);
        c.run("INSERT INTO c VALUES(10); UPDATE o SET s = 'of c'");
        b.run("UPDATE o SET n = 1");
        b.pull(&mut a);
        meet(&mut [&mut a, &mut b, &mut c]);
        same(&mut [&mut a, &mut b, &mut c], &["o", "c"]);
        assert_eq!(a.rows("SELECT s FROM o ORDER BY 1"), ["of c", "ten"], "{how:?}");
        assert_eq!(a.rows("SELECT s FROM c JOIN o ON o = id"), ["of c"], "{how:?}");
    }
}

/// Of two copies of a line neither gives up a row for the other, who may do the same.
#[test]
fn r_twin_two_copies_of_a_line_that_is_gone() {
    let (lab, mut a, b, backup) = waiting(TABLES, WAITS);
    let mut b = b;
    b.replica.fold().unwrap();
    b.run("INSERT INTO o(id, s) VALUES(12, 'went on')");
    let newer = lab.backup("b");
    let mut b = lab.restore(b, "b", &backup);
    b.run("INSERT INTO o(id, s) VALUES(12, 'restored')");
    let mut c = go_on(&lab, lab.world.clone_site(&mut a, "x"), &newer, How::Copied);
    c.pull(&mut b);
    b.pull(&mut c);
    a.pull(&mut b);
    meet(&mut [&mut a, &mut b, &mut c]);
    same(&mut [&mut a, &mut b, &mut c], &["o", "c", "h", "l"]);
    let texts = "SELECT DISTINCT s FROM o ORDER BY 1";
    assert_eq!(a.rows(texts), ["eleven", "one", "restored", "ten", "went on"]);
}

/// Both wrote to one column since: the later write stays, and the other is told, on every site (R-TOLD).
#[test]
fn r_twin_what_gives_way_is_told() {
    for (how, later) in
        [(How::Restored, true), (How::Folded, true), (How::Copied, true), (How::Folded, false)]
    {
        let (lab, mut a, mut b, backup) = waiting(TABLES, WAITS);
        a.pull(&mut b);
        let wait = || std::thread::sleep(std::time::Duration::from_millis(3));
        let (ours, theirs) = (
            "UPDATE o SET s = 'ours', n = 5 WHERE id = 10",
            "UPDATE o SET s = 'theirs', n = 5 WHERE id = 10",
        );
        wait();
        let mut b = if later {
            a.run(theirs);
            wait();
            let b = go_on(&lab, b, &backup, how);
            b.run(ours);
            b
        } else {
            let b = go_on(&lab, b, &backup, how);
            b.run(ours);
            wait();
            a.run(theirs);
            b
        };
        b.pull(&mut a);
        agree(&mut [&mut a, &mut b]);
        let (stays, goes) = if later { ("ours", "theirs") } else { ("theirs", "ours") };
        for site in [&a, &b] {
            assert_eq!(site.row("SELECT s FROM o WHERE id = 10"), stays, "{how:?}");
            let closed = site.replica.closed_conflicts().unwrap();
            let told: Vec<_> = closed.iter().filter(|c| c.kind.as_str() == "overwritten").collect();
            assert_eq!(told.len(), 1, "{how:?} {closed:?}");
            assert!(told[0].what.starts_with(&format!("s: '{goes}' of ")), "{}", told[0].what);
        }
    }
}
