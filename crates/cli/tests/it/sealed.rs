//! Sites that seal what they exchange, at a hub that must not read it.

#[cfg(unix)]
use crate::network::Hub;
use crate::support::{Lab, TODO, files, objects, stderr, synqlite};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// A and B around a place, with a key; A has pushed, B is its clone.
fn two(lab: &Lab, url: &str) -> String {
    let key = lab.path("key").display().to_string();
    lab.json(&["key", "new", &key]);
    lab.sql("A", TODO);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["remote", "add", &lab.db("A"), "origin", url, "--key-file", &key]);
    lab.json(&["sync", &lab.db("A")]);
    lab.json(&["clone", url, &lab.db("B"), "--key-file", &key]);
    key
}

fn note(lab: &Lab, site: &str, text: &str) {
    lab.sql(site, &format!("INSERT INTO note VALUES('{text}')"));
    lab.json(&["sync", &lab.db(site)]);
}

#[cfg(unix)]
#[test]
fn sites_with_the_key_converge_and_the_hub_reads_nothing() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    two(&lab, &hub.url("todo"));
    for n in 0..3 {
        note(&lab, "A", &format!("a secret {n}"));
        note(&lab, "B", &format!("another secret {n}"));
    }
    lab.json(&["sync", &lab.db("A")]);
    lab.assert_equal(&["A", "B"]);
    let site = lab.json(&["status", &lab.db("A")])["site"].as_str().unwrap().to_owned();
    let names = hub.objects("todo", "");
    assert_eq!(names.len(), 7);
    for name in names {
        assert!(!name.contains(&site), "{name}");
        let bytes = hub.object("todo", &name);
        assert!(bytes.starts_with(b"SynQSeal"));
        assert!(!bytes.windows(6).any(|window| window == b"secret"));
    }
}

#[test]
fn a_key_that_is_named_for_once_is_not_kept() {
    let lab = Lab::new();
    let url = lab.folder();
    let key = two(&lab, &url);
    lab.json(&["remote", "remove", &lab.db("B"), "origin"]);
    lab.sql("B", "INSERT INTO note VALUES('for once')");
    let told = lab.refused(&["sync", &lab.db("B"), &url]);
    assert!(told.contains("sealed") && told.contains("--key-file"), "{told}");
    for verb in ["push", "pull", "sync"] {
        lab.json(&[verb, &lab.db("B"), &url, "--key-file", &key]);
    }
    let watch = ["watch", &lab.db("B"), &url, "--key-file", &key, "--rounds", "1"];
    assert!(crate::support::synqlite(&watch).status.success());
    lab.json(&["pull", &lab.db("A")]);
    lab.assert_equal(&["A", "B"]);
    lab.refused(&["pull", &lab.db("B"), &url]);
}

/// What a site remembers of a hub lets it look at what is new only: under another key nothing of that counts.
#[cfg(unix)]
#[test]
fn a_place_in_the_open_takes_nothing_sealed_and_the_reverse() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    let (sealed, open) = (hub.url("todo"), hub.url("open"));
    let key = two(&lab, &sealed);
    lab.sql("P", TODO);
    lab.json(&["init", &lab.db("P")]);
    lab.json(&["remote", "add", &lab.db("P"), "origin", &open]);
    lab.json(&["sync", &lab.db("P")]);
    lab.sql("P", "INSERT INTO note VALUES('second')");
    let told = lab.refused(&["sync", &lab.db("P"), "--key-file", &key]);
    assert!(told.contains("is not sealed, and a key is given"), "{told}");
    lab.json(&["sync", &lab.db("P")]);
    lab.json(&["clone", &open, &lab.db("Q")]);
    lab.assert_equal(&["P", "Q"]);
    lab.json(&["remote", "remove", &lab.db("B"), "origin"]);
    lab.sql("B", "INSERT INTO note VALUES('secret')");
    let before = hub.objects("todo", "").len();
    for verb in ["push", "sync"] {
        lab.refused(&[verb, &lab.db("B"), &sealed]);
    }
    assert_eq!(hub.objects("todo", "").len(), before);
}

#[test]
fn a_lost_key_is_said_to_be_lost_and_a_wrong_one_to_be_wrong() {
    let lab = Lab::new();
    let url = lab.folder();
    let key = two(&lab, &url);
    let told = lab.refused(&["clone", &url, &lab.db("C")]);
    assert!(told.contains("sealed") && told.contains("--key-file"), "{told}");
    let other = lab.path("other").display().to_string();
    lab.json(&["key", "new", &other]);
    let told = lab.refused(&["clone", &url, &lab.db("C"), "--key-file", &other]);
    assert!(told.contains("another key"), "{told}");
    let told = lab.refused(&["key", "new", &key]);
    assert!(told.contains("exists already"), "{told}");
    fs::rename(&key, lab.path("away")).unwrap();
    let told = lab.refused(&["pull", &lab.db("B")]);
    assert!(told.contains("lost") && told.contains(&key), "{told}");
    // Nothing of the key is in a replica.
    let hex = fs::read_to_string(lab.path("away")).unwrap();
    let hex = hex.trim().rsplit(' ').next().unwrap().to_owned();
    let bytes = fs::read(lab.db("B")).unwrap();
    assert!(!bytes.windows(hex.len()).any(|window| window == hex.as_bytes()));
    fs::rename(lab.path("away"), &key).unwrap();
    lab.json(&["pull", &lab.db("B")]);
    let told = lab.refused(&["remote", "add", &lab.db("B"), "a", &lab.db("A"), "--key-file", &key]);
    assert!(told.contains("is a replica"), "{told}");
    let told = lab.refused(&["remote", "add", &lab.db("B"), "open", &url]);
    assert!(told.contains("another key or none"), "{told}");
}

#[cfg(unix)]
#[test]
fn what_a_hub_swaps_renames_or_replays_is_noticed() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    two(&lab, &hub.url("todo"));
    for n in 0..3 {
        note(&lab, "A", &format!("note {n}"));
    }
    let batches = hub.objects("todo", ".batch");
    let bytes: Vec<_> = batches.iter().map(|batch| hub.object("todo", batch)).collect();
    let before = lab.digest("B");
    // An old batch under the name of a new one, and the new one under that of the old.
    hub.replace("todo", &batches[0], &bytes[2]);
    hub.replace("todo", &batches[2], &bytes[0]);
    let (pulled, told) = lab.json_and_stderr(&["pull", &lab.db("B")]);
    for name in [&batches[0], &batches[2]] {
        assert!(told.contains("set aside") && told.contains(name), "{name}: {told}");
    }
    assert!(told.contains("altered, or is another object"), "{told}");
    assert_eq!(pulled["set_aside"].as_array().map(Vec::len), Some(2), "{pulled}");
    assert_eq!(lab.digest("B"), before);
    // As they were, in another order: nothing is wrong with that.
    hub.replace("todo", &batches[2], &bytes[2]);
    hub.replace("todo", &batches[0], &bytes[0]);
    lab.json(&["pull", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
}

/// The only batch of the folder, and its name there.
fn batch(lab: &Lab) -> (PathBuf, String) {
    let file = objects(lab, ".batch").remove(0);
    let name = file.strip_prefix(lab.path("folder")).unwrap().display().to_string();
    (file, name.replace('\\', "/"))
}

/// Damages the only batch of a sealed folder, and tries whether everybody goes on without it: C sends what it
/// wrote and whoever holds what was damaged sends it anew.
fn assert_goes_on(lab: &Lab, told: &str, damage: impl Fn(&mut Vec<u8>)) {
    let (file, name) = batch(lab);
    let mut bytes = fs::read(&file).unwrap();
    damage(&mut bytes);
    fs::write(&file, &bytes).unwrap();
    lab.sql("C", "INSERT INTO note VALUES('written meanwhile')");
    for verb in ["pull", "sync"] {
        let (_, said) = lab.json_and_stderr(&[verb, &lab.db("C")]);
        assert!(said.contains(told) && said.contains(&name), "{said}");
    }
    for site in ["B", "A", "B", "C"] {
        lab.json(&["sync", &lab.db(site)]);
    }
    lab.assert_equal(&["A", "B", "C"]);
    assert_eq!(lab.rows("A", "SELECT count(*) FROM note"), ["3"]);
    // Nothing is overwritten: a folder may still get the rest.
    assert_eq!(fs::read(&file).unwrap(), bytes);
}

/// A, B and C around a sealed folder, in which is a batch of A that the others lack.
fn three() -> Lab {
    let lab = Lab::new();
    let key = two(&lab, &lab.folder());
    lab.json(&["clone", &lab.folder(), &lab.db("C"), "--key-file", &key]);
    note(&lab, "A", "half copied");
    lab
}

#[test]
fn a_half_copied_batch_of_a_sealed_folder_waits_and_is_sent_again() {
    for left in [5, 40, 100, usize::MAX] {
        assert_goes_on(&three(), "it is not there in full yet", |bytes| {
            bytes.truncate(left.min(bytes.len() - 1));
        });
    }
}

#[test]
fn the_rest_of_a_half_copied_batch_is_merged_when_it_comes() {
    let lab = three();
    let (file, _) = batch(&lab);
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(lab.json(&["pull", &lab.db("B")])["waiting"].as_array().map(Vec::len), Some(1));
    fs::write(&file, &whole).unwrap();
    let pulled = lab.json(&["pull", &lab.db("B")]);
    assert_eq!((&pulled["merged"]["inserted"], &pulled["waiting"]), (&json!(1), &json!([])));
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn an_altered_batch_of_a_sealed_folder_is_set_aside_and_sent_again() {
    for at in [0, 12, 20, 60, usize::MAX] {
        assert_goes_on(&three(), "it was altered, or is another object", |bytes| {
            let at = at.min(bytes.len() - 1);
            bytes[at] ^= 1;
        });
    }
}

#[test]
fn a_damaged_snapshot_is_damaged_also_if_it_is_sealed() {
    let lab = Lab::new();
    let key = two(&lab, &lab.folder());
    let snapshot = objects(&lab, ".snapshot").remove(0);
    let mut bytes = fs::read(&snapshot).unwrap();
    for at in [500, bytes.len() - 1] {
        bytes[at] ^= 1;
        fs::write(&snapshot, &bytes).unwrap();
        let output = synqlite(&["clone", &lab.folder(), &lab.db("C"), "--key-file", &key]);
        assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
        assert!(stderr(&output).contains("altered, or another object"), "{}", stderr(&output));
        assert!(!lab.path("C.db").exists());
        bytes[at] ^= 1;
    }
}

#[test]
fn a_sealed_folder_has_pseudonyms_for_names() {
    let lab = Lab::new();
    two(&lab, &lab.folder());
    note(&lab, "A", "one");
    lab.json(&["pull", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
    assert_eq!((objects(&lab, ".batch").len(), objects(&lab, ".snapshot").len()), (1, 1));
    assert_eq!(files(&lab.path("folder")).len(), 2);
}
