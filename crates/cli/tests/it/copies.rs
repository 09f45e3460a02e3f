//! Files copied by hand, restored backups, and every way to take a copy that is none of these.

use crate::support::{Lab, files};

#[test]
fn a_copy_made_by_hand_is_detected_and_gets_its_own_id() {
    let lab = Lab::with_a_and_b();
    lab.sql("A", "INSERT INTO note VALUES('before the copy')");
    lab.json(&["fold", &lab.db("A")]);
    std::fs::copy(lab.db("A"), lab.db("C")).unwrap();
    for args in [&["fold", &lab.db("C")][..], &["pull", &lab.db("B"), &lab.db("C")]] {
        let told = lab.refused(args);
        assert!(told.contains("is a copy of the replica"), "{told}");
        assert!(told.contains(&format!("synqlite init {} --new-site", lab.db("C"))), "{told}");
    }
    let site = |name| lab.json(&["status", &lab.db(name)])["site"].clone();
    let renewed = lab.json(&["init", &lab.db("C"), "--new-site"])["site"].clone();
    assert_eq!(site("C"), renewed);
    assert_ne!(site("A"), renewed);

    lab.sql("A", "UPDATE todo SET what = 'A' WHERE id = 1; INSERT INTO todo(what) VALUES('a')");
    lab.sql("C", "UPDATE todo SET done = 7 WHERE id = 1; INSERT INTO todo(what) VALUES('c')");
    lab.json(&["sync", &lab.db("C"), &lab.db("A")]);
    lab.json(&["sync", &lab.db("B"), &lab.db("C")]);
    lab.json(&["sync", &lab.db("A"), &lab.db("B")]);
    lab.assert_equal(&["A", "B", "C"]);
    assert_eq!(lab.rows("B", "SELECT what, done FROM todo WHERE id = 1"), ["A|7"]);
    assert_eq!(lab.rows("B", "SELECT count(*) FROM todo"), ["5"]);
}

#[test]
fn a_replica_may_be_renamed() {
    let lab = Lab::with_a_and_b();
    std::fs::rename(lab.db("B"), lab.db("moved")).unwrap();
    lab.sql("moved", "INSERT INTO note VALUES('x')");
    lab.json(&["push", &lab.db("moved")]);
    lab.assert_equal(&["A", "moved"]);
}

/// A restored backup knows less of its own past than others do, and must not write under its id.
#[test]
fn a_restored_backup_goes_on_as_a_new_site() {
    for folder in [false, true] {
        let lab = Lab::with_a();
        let remote = if folder { lab.folder() } else { lab.db("B") };
        if folder {
            lab.json(&["push", &lab.db("A"), &remote]);
        } else {
            lab.json(&["clone", &lab.db("A"), &remote]);
        }
        let backup = std::fs::read(lab.db("A")).unwrap();
        let site = lab.json(&["status", &lab.db("A")])["site"].clone();
        lab.sql("A", "INSERT INTO note VALUES('after the backup')");
        lab.json(&["push", &lab.db("A"), &remote]);
        // Over the same file, as a restore does.
        std::fs::write(lab.db("A"), backup).unwrap();
        lab.sql("A", "INSERT INTO note VALUES('after the restore')");
        let (_, told) = lab.json_and_stderr(&["push", &lab.db("A"), &remote]);
        assert!(told.contains("restored from an older copy"), "{told}");
        assert_ne!(lab.json(&["status", &lab.db("A")])["site"], site);
        lab.json(&["sync", &lab.db("A"), &remote]);
        if folder {
            lab.json(&["clone", &remote, &lab.db("B")]);
        }
        lab.assert_equal(&["A", "B"]);
        assert_eq!(lab.rows("B", "SELECT text FROM note WHERE text LIKE 'after%'").len(), 2);
    }
}

#[test]
fn a_clone_leaves_only_the_database() {
    let lab = Lab::with_a();
    lab.sql("A", "PRAGMA journal_mode=WAL; INSERT INTO note VALUES('in the log')");
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    let mut names: Vec<_> = crate::support::files(lab.dir.path())
        .iter()
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| !name.starts_with("A.db"));
    assert_eq!(names, ["B.db"]);
    assert_eq!(lab.rows("B", "PRAGMA journal_mode"), ["wal"]);
    lab.assert_equal(&["A", "B"]);
}

/// What `VACUUM INTO` and the backup interface make of a replica is a copy of it too.
#[test]
fn vacuum_keeps_a_replica_and_vacuum_into_copies_it() {
    let lab = Lab::with_a_and_b();
    lab.sql("B", "DELETE FROM note; VACUUM; INSERT INTO note VALUES('after')");
    lab.json(&["push", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
    lab.sql("B", &format!("VACUUM INTO '{}'", lab.db("C")));
    assert!(lab.refused(&["fold", &lab.db("C")]).contains("is a copy of the replica"));
}

/// What a killed clone leaves beside its target, the next one removes; not what one has that runs.
#[test]
fn a_clone_removes_what_a_dead_one_left() {
    let lab = Lab::with_a();
    let (dead, alive, other) = (".tmp-1-0-5", ".tmp-1-0-6", lab.path(".tmp-1-0-55"));
    let ends = ["", "-alive", "-journal", "-wal", "-shm", "-1-1-7"];
    let all = |start: &str| ends.map(|end| lab.path(&format!("{start}{end}")));
    for file in [dead, alive].iter().flat_map(|start| all(start)).chain([other.clone()]) {
        std::fs::write(file, "half a clone").unwrap();
    }
    let lock = std::fs::File::create(lab.path(&format!("{alive}-alive"))).unwrap();
    lock.lock().unwrap();
    lab.json(&["clone", &lab.db("A"), &lab.db("B")]);
    let left = |start| all(start).map(|file| file.exists());
    assert_eq!((left(dead), left(alive)), ([false; 6], [true; 6]));
    drop(lock);
    lab.json(&["clone", &lab.db("A"), &lab.db("C")]);
    assert_eq!(left(alive), [false; 6]);
    // Nothing of its own is left either.
    let mut found = files(lab.dir.path());
    found.retain(|file| file.display().to_string().contains(".tmp-"));
    assert_eq!(found, [other]);
}
