//! Restored backups: noticed at the next contact with anybody who has seen what was lost, directly or
//! through a place, and put right without a command that fails.

#[cfg(unix)]
use crate::network::Hub;
use crate::support::Lab;

const FIRST: &str = "CREATE TABLE o(id INTEGER PRIMARY KEY, s); \
    INSERT INTO o VALUES(1, 'one'), (2, 'two'), (3, 'three')";
const LOST: &str = "UPDATE o SET s = 'lost' WHERE id = 2; INSERT INTO o VALUES(9, 'nine')";
const AFTER: &str = "UPDATE o SET s = 'x' WHERE id = 3; INSERT INTO o VALUES(10, 'ten')";
const ALL: [&str; 5] = ["one", "lost", "x", "nine", "ten"];

fn agree(lab: &Lab, sites: &[&str], places: &[&str]) {
    for _ in 0..2 {
        for site in sites {
            for place in places {
                lab.json(&["sync", &lab.db(site), place]);
            }
            for other in sites.iter().filter(|other| *other != site) {
                lab.json(&["sync", &lab.db(site), &lab.db(other)]);
            }
        }
    }
    lab.assert_equal(sites);
    for site in sites {
        assert_eq!(lab.rows(site, "SELECT s FROM o ORDER BY id"), ALL);
        assert_eq!(lab.json(&["verify", "--full", &lab.db(site)])["ok"], true);
        for place in places {
            let moved = lab.json(&["sync", &lab.db(site), place]);
            assert_eq!(
                (&moved["received"]["rows"], &moved["sent"]["rows"]),
                (&0.into(), &0.into())
            );
        }
    }
}

/// B, of which A has seen what its backup lacks, goes on from the backup.
fn restored(lab: &Lab, exchange: impl Fn()) {
    lab.sql("A", FIRST);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    let backup = std::fs::read(lab.db("B")).unwrap();
    lab.sql("B", LOST);
    exchange();
    std::fs::write(lab.db("B"), backup).unwrap();
    lab.sql("B", AFTER);
}

#[test]
fn a_restored_site_is_noticed_by_its_peer() {
    for command in ["push", "pull", "sync"] {
        let lab = Lab::new();
        restored(&lab, || drop(lab.json(&["sync", &lab.db("B"), &lab.db("A")])));
        let site = lab.json(&["status", &lab.db("B")])["site"].clone();
        let (_, told) = lab.json_and_stderr(&[command, &lab.db("B"), &lab.db("A")]);
        assert!(told.contains("was restored from an older copy"), "{told}");
        assert_ne!(lab.json(&["status", &lab.db("B")])["site"], site);
        let (_, told) = lab.json_and_stderr(&["sync", &lab.db("B"), &lab.db("A")]);
        assert_eq!(told, "");
        agree(&lab, &["A", "B"], &[]);
    }
}

#[test]
fn what_a_restored_site_put_into_a_fresh_place_is_told_from_what_was_lost() {
    for reader in ["A", "C", "D"] {
        let lab = Lab::new();
        restored(&lab, || {
            lab.json(&["clone", &lab.db("A"), &lab.db("C")]);
            lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
        });
        let place = lab.folder();
        lab.json(&["push", &lab.db("B"), &place]);
        lab.json(&["clone", &place, &lab.db("D")]);
        // C has not seen what was lost, D has what came after only, and A the other way round.
        lab.json(&["pull", &lab.db(reader), &place]);
        lab.json(&["sync", &lab.db("C"), &lab.db("A")]);
        agree(&lab, &["A", "C", "D", "B"], &[&place]);
    }
}

#[cfg(unix)]
#[test]
fn batches_of_both_branches_lie_in_one_place() {
    for kind in 0..3 {
        let lab = Lab::new();
        let hub = Hub::open(&lab);
        let place = if kind == 0 { lab.folder() } else { hub.url("todo") };
        lab.sql("A", FIRST);
        lab.json(&["init", &lab.db("A")]);
        lab.json(&["push", &lab.db("A"), &place]);
        for site in ["B", "C"] {
            lab.json(&["clone", &place, &lab.db(site)]);
        }
        lab.json(&["sync", &lab.db("B"), &place]);
        let backup = std::fs::read(lab.db("B")).unwrap();
        lab.sql("B", LOST);
        lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
        std::fs::write(lab.db("B"), backup).unwrap();
        lab.sql("B", AFTER);
        // Nobody here knows of what was lost.
        lab.json(&["sync", &lab.db("B"), &place]);
        if kind == 2 {
            lab.json(&["sync", &lab.db("C"), &place]);
        }
        // Now somebody does.
        lab.json(&["sync", &lab.db("A"), &place]);
        lab.json(&["sync", &lab.db("C"), &place]);
        lab.json(&["sync", &lab.db("B"), &place]);
        lab.json(&["clone", &place, &lab.db("D")]);
        agree(&lab, &["A", "B", "C", "D"], &[&place]);
    }
}

/// Its own batches in a place tell a restored site what it lost.
#[cfg(unix)]
#[test]
fn a_restored_site_finds_its_own_batches() {
    for (hub, written) in [(false, true), (true, true), (false, false), (true, false)] {
        let lab = Lab::new();
        let server = Hub::open(&lab);
        let place = if hub { server.url("todo") } else { lab.folder() };
        lab.sql("A", FIRST);
        lab.json(&["init", &lab.db("A")]);
        lab.json(&["push", &lab.db("A"), &place]);
        lab.json(&["clone", &place, &lab.db("B")]);
        let backup = std::fs::read(lab.db("B")).unwrap();
        lab.sql("B", LOST);
        lab.json(&["sync", &lab.db("B")]);
        std::fs::write(lab.db("B"), backup).unwrap();
        if written {
            lab.sql("B", AFTER);
        }
        let (_, told) = lab.json_and_stderr(&["push", &lab.db("B")]);
        assert!(told.contains("was restored from an older copy"), "{told}");
        if !written {
            lab.json(&["sync", &lab.db("B")]);
            lab.sql("B", AFTER);
        }
        agree(&lab, &["A", "B"], &[&place]);
    }
}

/// A restored site that has a table again, which it had left to itself, gives it to a place once.
#[test]
fn a_restored_site_tells_a_place_once_of_a_table_that_it_has_again() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE o(id INTEGER PRIMARY KEY, s); CREATE TABLE n(x)");
    lab.json(&["init", &lab.db("A")]);
    ["B", "C"].iter().for_each(|site| drop(lab.json(&["clone", &lab.db("A"), &lab.db(site)])));
    lab.sql("A", "INSERT INTO o VALUES(1, 'one')");
    lab.json(&["sync", &lab.db("A"), &lab.folder()]);
    lab.json(&["policy", &lab.db("B"), "local_tables=o"]);
    std::fs::copy(lab.db("B"), lab.path("backup")).unwrap();
    lab.sql("B", "INSERT INTO n VALUES('lost')");
    lab.json(&["sync", &lab.db("B"), &lab.folder()]);
    lab.json(&["policy", &lab.db("C"), "local_tables="]);
    std::fs::copy(lab.path("backup"), lab.db("B")).unwrap();
    lab.json(&["pull", &lab.db("B"), &lab.db("C")]);
    let sync = |site: &str| lab.json(&["sync", &lab.db(site), &lab.folder()]);
    let (_, told) = lab.json_and_stderr(&["sync", &lab.db("B"), &lab.folder()]);
    assert!(told.contains("was restored from an older copy"), "{told}");
    let last = [sync("B"), sync("B")].map(|told| told["sent"]["rows"].clone());
    assert_eq!(last[1], 0, "{last:?}");
    ["A", "C", "B"].iter().for_each(|site| drop(sync(site)));
    lab.assert_equal(&["A", "B"]);
    assert_eq!(sync("B")["sent"]["rows"], 0);
}

/// Whichever of two files begins to synchronize: what waited in a restored one is there once (R-TWIN).
#[test]
fn what_waited_in_a_backup_is_there_once_whoever_begins() {
    for begins in ["A", "B"] {
        let lab = Lab::new();
        lab.sql("A", "CREATE TABLE p(id INTEGER PRIMARY KEY, v UNIQUE)");
        lab.json(&["init", &lab.db("A")]);
        lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
        lab.sql("B", "INSERT INTO p(v) VALUES('ten')");
        let backup = std::fs::read(lab.db("B")).unwrap();
        lab.json(&["sync", &lab.db("B"), &lab.db("A")]);
        std::fs::write(lab.db("B"), backup).unwrap();
        lab.sql("B", "INSERT INTO p(v) VALUES('since')");
        let other = if begins == "A" { "B" } else { "A" };
        lab.json(&["sync", &lab.db(begins), &lab.db(other)]);
        for site in ["A", "B"] {
            assert_eq!(lab.rows(site, "SELECT v FROM p ORDER BY id"), ["ten", "since"], "{begins}");
        }
    }
}
