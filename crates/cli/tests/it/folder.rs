//! A folder of exchange: what sites that never meet go through, and what may happen to its files.

use crate::support::{Lab, objects};
use rusqlite::Connection;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use synqlite_core::{Environment, Phase, Replica, Step, System};
use synqlite_remote::{Remote, Session};

/// A, B and C around a folder.
fn three() -> Lab {
    let lab = Lab::with_a();
    lab.json(&["remote", "add", &lab.db("A"), "origin", &lab.folder()]);
    lab.json(&["push", &lab.db("A")]);
    for site in ["B", "C"] {
        lab.json(&["clone", &lab.folder(), &lab.db(site)]);
    }
    lab
}

fn push(lab: &Lab, site: &str) -> Value {
    lab.json(&["push", &lab.db(site)])
}

fn pull(lab: &Lab, site: &str) -> Value {
    lab.json(&["pull", &lab.db(site)])
}

fn note(lab: &Lab, site: &str, text: &str) {
    lab.sql(site, &format!("INSERT INTO note VALUES('{text}')"));
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn sites_that_never_meet_converge() {
    let lab = three();
    assert_eq!(objects(&lab, ".snapshot").len(), 1, "the first push is a snapshot");
    for site in ["A", "B", "C"] {
        lab.sql(
            site,
            &format!(
                "INSERT INTO person VALUES(3, 'new on {site}');
                 INSERT INTO todo(what, person) VALUES('by {site}', 3);
                 UPDATE todo SET what = '{site}' WHERE id = 1"
            ),
        );
    }
    for site in ["A", "B", "C", "A", "B"] {
        let done = lab.json(&["sync", &lab.db(site)]);
        assert_eq!(done["waiting"], json!([]));
    }
    lab.assert_equal(&["A", "B", "C"]);
    assert_eq!(lab.rows("A", "SELECT what FROM todo WHERE id = 1"), ["C"]);
    let joined = "SELECT t.what FROM todo t JOIN person p ON p.id = t.person
                  WHERE 'new on ' || substr(t.what, 4) = p.name ORDER BY 1";
    assert_eq!(lab.rows("B", joined), ["by A", "by B", "by C"]);
}

/// C's value gives way before it ever went anywhere, and C has nothing else to send (R-TOLD).
#[test]
fn what_gave_way_is_told_by_whoever_has_nothing_else_to_send() {
    let lab = three();
    note(&lab, "C", "not its first push");
    for site in ["C", "A", "B"] {
        lab.json(&["sync", &lab.db(site)]);
    }
    lab.sql("C", "UPDATE todo SET what = 'of C' WHERE id = 1");
    lab.json(&["fold", &lab.db("C")]);
    lab.sql("A", "UPDATE todo SET what = 'of A' WHERE id = 1");
    lab.json(&["sync", &lab.db("A")]);
    lab.json(&["sync", &lab.db("C")]);
    for site in ["A", "B", "A", "C"] {
        lab.json(&["sync", &lab.db(site)]);
    }
    let told = lab.json(&["conflicts", "--closed", &lab.db("C")])["closed"].clone();
    assert_eq!(told.as_array().map(Vec::len), Some(1), "{told}");
    for site in ["A", "B"] {
        let closed = lab.json(&["conflicts", "--closed", &lab.db(site)])["closed"].clone();
        assert_eq!(closed[0]["what"], told[0]["what"], "{site}");
        assert_eq!(closed[0]["id"], told[0]["id"], "{site}");
    }
    let before = objects(&lab, "");
    for site in ["A", "B", "C", "A", "B", "C"] {
        let done = lab.json(&["sync", &lab.db(site)]);
        assert_eq!((&done["sent"]["bytes"], &done["received"]["bytes"]), (&json!(0), &json!(0)));
    }
    assert_eq!(objects(&lab, ""), before, "it is told once");
}

#[test]
fn the_first_sync_with_an_empty_folder_fills_it() {
    let lab = Lab::with_a();
    let first = lab.json(&["sync", &lab.db("A"), &lab.folder()]);
    assert_eq!(first["sent"]["rows"], 6);
    assert_eq!(first["received"]["rows"], 0);
    lab.json(&["clone", &lab.folder(), &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn what_was_pulled_need_not_be_pushed() {
    let lab = three();
    note(&lab, "B", "x");
    push(&lab, "B");
    pull(&lab, "A");
    let status = lab.json(&["status", &lab.db("A")]);
    assert_eq!(status["remotes"][0]["unpushed"], 0, "{status}");
    note(&lab, "A", "y");
    lab.json(&["fold", &lab.db("A")]);
    let status = lab.json(&["status", &lab.db("A")]);
    assert_eq!(status["remotes"][0]["unpushed"], 1, "{status}");
    assert_eq!(push(&lab, "A")["sent"]["rows"], 1);
}

#[test]
fn nothing_is_sent_or_merged_twice() {
    let lab = three();
    note(&lab, "B", "x");
    let first = push(&lab, "B");
    assert_eq!(first["sent"]["rows"], 1);
    let batch = objects(&lab, ".batch");
    assert_eq!(first["sent"]["bytes"], fs::metadata(&batch[0]).unwrap().len());
    let nothing = json!({"rows": 0, "columns": 0, "bytes": 0});
    assert_eq!(push(&lab, "B")["sent"], nothing);
    assert_eq!(pull(&lab, "A")["received"], first["sent"]);
    assert_eq!(pull(&lab, "A")["received"], nothing);
    assert_eq!(push(&lab, "A")["sent"], nothing, "the folder has it from B");
    assert_eq!(objects(&lab, ".batch"), batch);
}

/// What was written to a table before it was local, and had not been sent, is sent when it is replicated again.
#[test]
fn a_table_that_was_local_for_a_time_is_sent_again() {
    let lab = three();
    lab.sql("C", "UPDATE person SET name = 'of C' WHERE id = 2");
    lab.json(&["policy", &lab.db("B"), "local_tables=person,todo"]);
    for site in ["B", "C", "A", "B"] {
        lab.json(&["sync", &lab.db(site)]);
    }
    lab.sql("A", "UPDATE person SET name = 'of A' WHERE id = 1");
    lab.json(&["policy", &lab.db("A"), "local_tables="]);
    for site in ["A", "B", "C", "A", "B", "C"] {
        lab.json(&["sync", &lab.db(site)]);
    }
    lab.assert_equal(&["A", "B", "C"]);
    assert_eq!(lab.rows("B", "SELECT name FROM person ORDER BY id LIMIT 2"), ["of A", "of C"]);
    for site in ["A", "B", "C"] {
        let done = lab.json(&["sync", &lab.db(site)]);
        assert_eq!((&done["sent"]["rows"], &done["received"]["rows"]), (&json!(0), &json!(0)));
    }
    lab.json(&["clone", &lab.db("A"), &lab.db("D")]);
    let done = lab.json(&["sync", &lab.db("D"), &lab.folder()]);
    assert_eq!(done["sent"]["rows"], 0, "a clone owes nothing");
}

#[test]
fn changes_travel_through_a_third_site() {
    let lab = three();
    note(&lab, "C", "from C");
    lab.json(&["push", &lab.db("C"), &lab.db("B")]);
    note(&lab, "B", "from B");
    assert_eq!(push(&lab, "B")["sent"]["rows"], 2);
    pull(&lab, "A");
    pull(&lab, "C");
    lab.assert_equal(&["A", "B", "C"]);
}

#[test]
fn a_flipped_bit_is_found_and_the_rest_goes_on() {
    let lab = three();
    note(&lab, "B", "one");
    push(&lab, "B");
    note(&lab, "B", "two");
    push(&lab, "B");
    let batches = objects(&lab, ".batch");
    let whole = fs::read(&batches[1]).unwrap();
    let name = batches[1].file_name().unwrap().to_str().unwrap();
    for at in [0, 9, 40, whole.len() / 2, whole.len() - 1] {
        flip(&batches[1], at);
        let (done, told) = lab.json_and_stderr(&["pull", &lab.db("C")]);
        let aside = done["set_aside"].as_array().unwrap();
        assert!(aside.len() == 1 && aside[0]["name"].as_str().unwrap().ends_with(name), "{done}");
        assert!(told.contains(name) && told.contains("Remove it"), "{at}: {told}");
        let shown = lab.json(&["status", &lab.db("C")])["set_aside"].clone();
        assert_eq!(shown[0]["name"], aside[0]["name"]);
        assert_eq!(shown[0]["remote"], lab.folder());
        assert_eq!(lab.rows("C", "SELECT count(*) FROM note WHERE text = 'one'"), ["1"]);
        assert_eq!(lab.rows("C", "SELECT count(*) FROM note WHERE text = 'two'"), ["0"]);
        fs::write(&batches[1], &whole).unwrap();
    }
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 1);
    assert_eq!(lab.json(&["status", &lab.db("C")])["set_aside"], json!([]));
    lab.assert_equal(&["B", "C"]);
}

/// Nobody removes anything: who wrote it looks into what lies there, and sends it anew.
#[test]
fn a_damaged_batch_is_sent_anew_by_who_holds_it() {
    let lab = three();
    note(&lab, "B", "x");
    push(&lab, "B");
    let batch = &objects(&lab, ".batch")[0];
    flip(batch, fs::metadata(batch).unwrap().len() as usize - 20);
    assert_eq!(pull(&lab, "C")["set_aside"].as_array().unwrap().len(), 1);
    lab.json(&["sync", &lab.db("B")]);
    assert_eq!(pull(&lab, "C")["set_aside"], json!([]));
    lab.assert_equal(&["B", "C"]);
    lab.json(&["clone", &lab.folder(), &lab.db("D")]);
    lab.assert_equal(&["B", "D"]);
    for site in ["B", "C"] {
        let done = lab.json(&["sync", &lab.db(site)]);
        assert_eq!(done["sent"]["rows"], 0);
    }
}

#[test]
fn a_damaged_batch_that_is_removed_is_sent_again() {
    let lab = three();
    for n in 1..=3 {
        note(&lab, "B", &format!("note {n}"));
        push(&lab, "B");
    }
    let batches = objects(&lab, ".batch");
    flip(&batches[1], 60);
    assert_eq!(pull(&lab, "C")["set_aside"].as_array().unwrap().len(), 1);
    fs::remove_file(&batches[1]).unwrap();
    assert_eq!(pull(&lab, "C")["waiting"].as_array().unwrap().len(), 1);
    assert!(push(&lab, "B")["sent"]["rows"].as_u64() > Some(0));
    pull(&lab, "C");
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn a_snapshot_makes_up_for_a_damaged_batch() {
    // In the header, which the next push notices, and in the body, which it does not read.
    for at in [20, 200] {
        let lab = three();
        note(&lab, "B", "damaged");
        push(&lab, "B");
        flip(&objects(&lab, ".batch")[0], at);
        if at == 200 {
            assert_eq!(pull(&lab, "C")["set_aside"].as_array().unwrap().len(), 1);
            lab.sql("B", "INSERT INTO note VALUES(hex(randomblob(50000)))");
        }
        push(&lab, "B");
        assert_eq!(objects(&lab, ".snapshot").len(), 2);
        pull(&lab, "C");
        lab.assert_equal(&["B", "C"]);
    }
}

#[test]
fn a_half_written_batch_waits() {
    let lab = three();
    note(&lab, "B", "x");
    push(&lab, "B");
    let batch = &objects(&lab, ".batch")[0];
    let whole = fs::read(batch).unwrap();
    let before = lab.digest("C");
    for length in [0, 5, 30, whole.len() / 2, whole.len() - 1] {
        fs::write(batch, &whole[..length]).unwrap();
        let (done, told) = lab.json_and_stderr(&["pull", &lab.db("C")]);
        let waiting = done["waiting"].as_array().unwrap();
        // An empty file is a name that a writer has only taken.
        assert_eq!(waiting.len(), usize::from(length > 0), "{length}: {done}");
        assert_eq!(told.contains("not there in full"), length > 0, "{told}");
        assert_eq!(lab.digest("C"), before);
    }
    fs::write(batch, &whole).unwrap();
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 1);
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn a_missing_batch_is_waited_for() {
    let lab = three();
    for n in 1..=3 {
        note(&lab, "B", &format!("note {n}"));
        push(&lab, "B");
    }
    let batches = objects(&lab, ".batch");
    let kept = fs::read(&batches[1]).unwrap();
    fs::remove_file(&batches[1]).unwrap();
    let (done, told) = lab.json_and_stderr(&["pull", &lab.db("C")]);
    assert_eq!(done["merged"]["inserted"], 1, "what does not build on it is merged");
    let name = batches[2].strip_prefix(lab.path("folder")).unwrap().display().to_string();
    let name = name.replace('\\', "/");
    assert_eq!(done["waiting"], json!([name]));
    assert!(told.contains(&name) && told.contains("missing"), "{told}");
    let text = lab.text(&["pull", &lab.db("C")]);
    assert!(text.contains("nothing new"), "{text}");
    fs::write(&batches[1], kept).unwrap();
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 2);
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn anyone_who_has_a_lost_batch_heals_the_folder() {
    let lab = three();
    note(&lab, "B", "lost");
    push(&lab, "B");
    pull(&lab, "A");
    fs::remove_file(&objects(&lab, ".batch")[0]).unwrap();
    // B has nothing new, and yet the folder lacks something that it has.
    assert!(push(&lab, "A")["sent"]["rows"].as_u64() > Some(0));
    pull(&lab, "C");
    lab.assert_equal(&["A", "B", "C"]);
}

#[test]
fn duplicates_and_foreign_files_do_no_harm() {
    let lab = three();
    note(&lab, "B", "x");
    push(&lab, "B");
    let batch = &objects(&lab, ".batch")[0];
    let folder = batch.parent().unwrap();
    let duplicate = |name: &str| fs::copy(batch, folder.join(name)).map(drop).unwrap();
    duplicate("0000000000000001-0000000000000002 (conflicted copy).batch");
    duplicate(".tmp-1-2-3");
    duplicate("0000000000000000-00000000000000ff.batch");
    fs::write(lab.path("folder/desktop.ini"), "[x]").unwrap();
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 1);
    assert_eq!(pull(&lab, "C")["merged"]["inserted"], 0);
    lab.assert_equal(&["B", "C"]);
    // The chain of B seems longer than it is; its next batch goes elsewhere, not over another.
    note(&lab, "B", "y");
    push(&lab, "B");
    pull(&lab, "C");
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn a_renamed_batch_of_another_site_is_set_aside() {
    let lab = three();
    for site in ["A", "B"] {
        note(&lab, site, "x");
        push(&lab, site);
    }
    let batches = objects(&lab, ".batch");
    fs::copy(&batches[0], &batches[1]).unwrap();
    let aside = pull(&lab, "C")["set_aside"].to_string();
    assert!(aside.contains("under another name"), "{aside}");
}

#[test]
fn a_snapshot_is_due_now_and_then_and_bridges_a_gap() {
    let lab = three();
    for n in 0..70 {
        note(&lab, "B", &format!("a note of some length, so that batches add up, no. {n}"));
        push(&lab, "B");
    }
    assert!(objects(&lab, ".snapshot").len() > 1, "a snapshot came after some batches");
    // A site that was away for long finds only the newest.
    for batch in objects(&lab, ".batch") {
        fs::remove_file(batch).unwrap();
    }
    let newest = objects(&lab, ".snapshot").pop().unwrap();
    let received = pull(&lab, "C")["received"]["bytes"].as_u64().unwrap();
    assert!(received >= fs::metadata(newest).unwrap().len());
    push(&lab, "B");
    pull(&lab, "C");
    lab.json(&["clone", &lab.folder(), &lab.db("D")]);
    lab.assert_equal(&["B", "C", "D"]);
}

#[test]
fn a_damaged_snapshot_is_passed_over() {
    let lab = three();
    let first = objects(&lab, ".snapshot").pop().unwrap();
    flip(&first, fs::read(&first).unwrap().len() / 2);
    let told = lab.refused(&["clone", &lab.folder(), &lab.db("D")]);
    assert!(told.contains("snapshot") && told.contains("damaged"), "{told}");
    assert!(!lab.path("D.db").exists());
    // A header that cannot be read does not count as one, so the next push brings another.
    flip(&first, 20);
    note(&lab, "B", "x");
    push(&lab, "B");
    lab.json(&["clone", &lab.folder(), &lab.db("D")]);
    lab.assert_equal(&["B", "D"]);
}

#[test]
fn a_snapshot_tells_nobody_the_remotes_of_its_site() {
    let lab = Lab::with_a();
    lab.json(&["remote", "add", &lab.db("A"), "secret", "/where/nobody/looks.db"]);
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    lab.json(&["clone", &lab.folder(), &lab.db("B")]);
    let remotes = lab.json(&["remote", "list", &lab.db("B")]);
    assert_eq!(remotes, json!({"remotes": [{"name": "origin", "url": lab.folder()}]}));
    let bytes = fs::read(lab.db("B")).unwrap();
    assert!(!bytes.windows(6).any(|w| w == b"nobody"), "not even in a free page");
}

/// A clone has the schema of the snapshot that it is made of, and says what has come for a later one.
#[test]
fn a_clone_says_what_its_schema_lacks() {
    let lab = Lab::with_a();
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    lab.sql("A", "CREATE TABLE later(k TEXT PRIMARY KEY); INSERT INTO later VALUES('x'), ('y')");
    lab.json(&["push", &lab.db("A"), &lab.folder()]);
    let told = lab.json(&["clone", &lab.folder(), &lab.db("B")]);
    assert_eq!(told["kept"][0]["table"], "later", "{told}");
    assert_eq!(told["kept"][0]["rows"], 2, "{told}");
    let told = lab.text(&["clone", &lab.folder(), &lab.db("C")]);
    assert!(told.contains("not here: table later, kept for 2 rows"), "{told}");
    assert_eq!(lab.json(&["clone", &lab.db("A"), &lab.db("D")])["kept"], serde_json::json!([]));
}

#[test]
fn policies_travel_through_a_folder() {
    let lab = three();
    for value in ["ignore", "enforce", "ignore"] {
        lab.json(&["policy", &lab.db("A"), &format!("fk={value}")]);
        push(&lab, "A");
        pull(&lab, "B");
        assert_eq!(lab.json(&["policy", &lab.db("B")])["policies"]["fk"], value);
    }
}

/// An update that changes nothing is no change, and makes no batch.
#[test]
fn writes_without_effect_send_nothing() {
    let lab = three();
    lab.sql("B", "UPDATE note SET text = text; BEGIN; DELETE FROM note; ROLLBACK");
    assert_eq!(push(&lab, "B")["sent"]["rows"], 0);
    assert_eq!(objects(&lab, ".batch").len(), 0);
    note(&lab, "B", "x");
    push(&lab, "B");
    pull(&lab, "C");
    lab.assert_equal(&["B", "C"]);
}

#[test]
fn a_folder_outlives_a_schema_change() {
    let lab = three();
    lab.sql(
        "A",
        "ALTER TABLE note ADD COLUMN author; CREATE TABLE tag(id INTEGER PRIMARY KEY, name)",
    );
    lab.sql("A", "INSERT INTO note(rowid, text, author) VALUES(77, 'new', 'ann'); INSERT INTO tag(name) VALUES('x')");
    push(&lab, "A");
    pull(&lab, "B");
    note(&lab, "B", "old schema");
    push(&lab, "B");
    lab.json(&["clone", &lab.folder(), &lab.db("D")]);
    lab.sql(
        "D",
        "ALTER TABLE note ADD COLUMN author; CREATE TABLE tag(id INTEGER PRIMARY KEY, name)",
    );
    for site in ["D", "A", "C", "B", "D"] {
        lab.json(&["sync", &lab.db(site)]);
    }
    let notes = "SELECT text || coalesce(author, '') FROM note WHERE text IN ('new', 'old schema') ORDER BY 1";
    for site in ["A", "D"] {
        assert_eq!(lab.rows(site, notes), ["newann", "old schema"]);
        assert_eq!(lab.rows(site, "SELECT name FROM tag"), ["x"]);
    }
    lab.assert_equal(&["A", "B", "C", "D"]);
}

/// A change of many rows and many bytes is one batch of many bodies, which neither side ever holds
/// whole: more than is kept in memory waits in a file beside the replica, which is gone afterwards.
#[test]
fn a_large_change_travels_in_parts() {
    let lab = three();
    let many = "INSERT INTO todo(what, person) WITH RECURSIVE n(i) AS
                (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
                SELECT hex(randomblob(600)), 1 FROM n";
    lab.sql("A", many);
    let pushed = push(&lab, "A");
    assert_eq!(pushed["sent"]["rows"], json!(10_000));
    assert!(pushed["sent"]["bytes"].as_u64().unwrap() > 5 << 20, "{pushed}");
    lab.sql("A", "DELETE FROM todo WHERE id % 2; UPDATE todo SET what = 'short'");
    push(&lab, "A");
    let batches = objects(&lab, ".batch");
    assert_eq!(batches.len(), 2);
    // What came meanwhile is merged with it.
    lab.sql("B", "INSERT INTO todo(what, person) VALUES('from B', 1)");
    for site in ["B", "C"] {
        let done = lab.json(&["sync", &lab.db(site)]);
        assert_eq!(done["waiting"], json!([]));
    }
    lab.json(&["sync", &lab.db("A")]);
    lab.json(&["sync", &lab.db("B")]);
    lab.assert_equal(&["A", "B", "C"]);
    let left = std::fs::read_dir(Path::new(&lab.db("A")).parent().unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with(".tmp")), "{left:?}");
    // Damage in the last of its bodies leaves the reader as it was.
    lab.sql("A", many);
    let before = objects(&lab, ".batch");
    push(&lab, "A");
    let last = objects(&lab, ".batch").into_iter().find(|name| !before.contains(name)).unwrap();
    let before = lab.digest("C");
    flip(&last, fs::metadata(&last).unwrap().len() as usize - 100);
    let aside = pull(&lab, "C")["set_aside"].to_string();
    assert!(aside.contains("damaged batch"), "{aside}");
    assert_eq!(lab.digest("C"), before);
}

/// Counts the rests between slices, and has an application write once while changes are read that go as a batch.
#[derive(Default)]
struct Watched {
    writes: Mutex<Option<Connection>>,
    rests: AtomicUsize,
}

impl Environment for Watched {
    fn now_ms(&self) -> i64 {
        System.now_ms()
    }

    fn random(&self) -> [u8; 16] {
        System.random()
    }

    fn instance(&self, path: &Path) -> String {
        System.instance(path)
    }

    fn step(&self, step: Step) {
        let read = step.phase == Phase::Read && step.done > 0;
        if let Some(app) = read.then(|| self.writes.lock().unwrap().take()).flatten() {
            app.execute("INSERT INTO note VALUES('meanwhile')", []).unwrap();
        }
    }

    fn rest(&self, _: i64) {
        self.rests.fetch_add(1, Relaxed);
    }
}

/// What a program writes between a batch and the snapshot after it comes by the next batch: who has the
/// batches need not read the snapshot, nor merge what it knows.
#[test]
fn a_snapshot_brings_no_news_to_who_has_the_batches() {
    let lab = three();
    lab.sql("A", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO note SELECT hex(randomblob(20)) FROM n");
    let writes = Mutex::new(Some(lab.connect("A")));
    let env = Arc::new(Watched { writes, ..Watched::default() });
    let mut replica = Replica::open(Path::new(&lab.db("A")), env.clone()).unwrap();
    let session = Session { env: env.clone(), force: false, whole: false };
    let remote = Remote::parse(&lab.folder()).unwrap();
    let before = objects(&lab, ".snapshot").len();
    remote.push(&mut replica, &session).unwrap();
    assert!(env.writes.lock().unwrap().is_none(), "it wrote meanwhile");
    assert_eq!(objects(&lab, ".snapshot").len(), before + 1);
    let batches = objects(&lab, ".batch");
    let bytes: u64 = batches.iter().map(|batch| batch.metadata().unwrap().len()).sum();
    let pulled = pull(&lab, "B");
    assert_eq!(pulled["received"]["bytes"], bytes, "{pulled}");
    assert_eq!(pulled["received"]["rows"], 3001, "{pulled}");
    lab.assert_equal(&["A", "B"]);
    // A site that lacks a batch reads the snapshot, and merges of it what the others have not brought.
    fs::remove_file(&batches[batches.len() - 1]).unwrap();
    let pulled = pull(&lab, "C");
    assert_eq!(pulled["received"]["rows"], 3001, "{pulled}");
    lab.assert_equal(&["A", "C"]);
}

/// A large merge comes in slices, unless the command or the policy asks for all or nothing; the policy on
/// every site, as soon as it is known there.
#[test]
fn a_large_merge_is_one_transaction_by_flag_or_policy() {
    let lab = three();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9000) INSERT INTO note SELECT hex(randomblob(20)) FROM n";
    for (policy, whole) in [(false, false), (false, true), (true, false)] {
        if policy {
            lab.text(&["policy", &lab.db("A"), "merge=whole"]);
            push(&lab, "A");
            pull(&lab, "B");
            assert_eq!(lab.json(&["policy", &lab.db("B")])["policies"]["merge"], "whole");
        }
        for remote in [lab.folder(), lab.db("A")] {
            lab.sql("A", many);
            push(&lab, "A");
            let (env, remote) = (Arc::new(Watched::default()), Remote::parse(&remote).unwrap());
            let mut replica = Replica::open(Path::new(&lab.db("B")), env.clone()).unwrap();
            let session = Session { env: env.clone(), force: false, whole };
            let pulled = remote.pull(&mut replica, &session).unwrap();
            assert_eq!(pulled.received.rows, 9000, "{policy}, {whole}");
            assert_eq!(env.rests.load(Relaxed) > 0, !policy && !whole, "{policy}, {whole}");
        }
    }
    let wrong = lab.refused(&["policy", &lab.db("A"), "merge=half"]);
    assert!(wrong.contains("it is `slices` or `whole`"), "{wrong}");
}

/// Numbers that a row was given and lost again while one command merged many batches nobody held: only the last one
/// is told, and where it leads.
#[test]
fn a_number_that_changes_with_each_batch_is_told_once() {
    let lab = Lab::new();
    lab.sql("A", "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT)");
    lab.json(&["init", &lab.db("A"), "--name", "A"]);
    let url = lab.folder();
    lab.json(&["push", &lab.db("A"), &url]);
    for site in ["B", "C"] {
        lab.json(&["clone", &url, &lab.db(site), "--name", site]);
    }
    lab.sql("B", "INSERT INTO t(k) VALUES('of B'), ('of B 2')");
    std::thread::sleep(std::time::Duration::from_millis(20));
    for n in 1..=8 {
        lab.sql("A", &format!("INSERT INTO t(k) VALUES('a{n}')"));
        lab.json(&["push", &lab.db("A"), &url]);
    }
    let told = lab.json(&["sync", &lab.db("B")]);
    let told = told["decisions"].as_array().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    lab.json(&["sync", &lab.db("A"), &url]);
    lab.json(&["sync", &lab.db("C")]);
    for site in ["A", "B", "C"] {
        let closed = lab.json(&["conflicts", &lab.db(site), "--closed"]);
        let closed = closed["closed"].as_array().unwrap().clone();
        assert_eq!(closed.len(), 2, "{site}: {closed:?}");
        for record in closed {
            assert_eq!(
                (&record["kind"], &record["of"]["site_name"]),
                (&json!("renumbered"), &json!("A"))
            );
            let now = lab.rows(site, &format!("SELECT k FROM t WHERE id = {}", record["to"]));
            assert_eq!(now, [format!("a{}", record["from"])], "{site}");
        }
    }
}
