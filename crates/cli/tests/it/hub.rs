//! Sites around a hub: what it costs, what they need to get in, and how fast news travels.

use crate::network::{Hub, Proxy};
use crate::support::{Lab, stderr, stdout, synqlite};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use synqlite_objects::conformance::conformance;
use synqlite_objects::{Key, ObjectName, Sealed, Store};
use synqlite_wire::Id;

/// A and B, each with the hub as its origin, and in agreement.
fn two(lab: &Lab, url: &str) {
    lab.sql("A", crate::support::TODO);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["remote", "add", &lab.db("A"), "origin", url]);
    lab.json(&["sync", &lab.db("A")]);
    lab.json(&["clone", url, &lab.db("B")]);
}

fn note(lab: &Lab, site: &str, text: &str) {
    lab.sql(site, &format!("INSERT INTO note VALUES('{text}')"));
}

fn sync(lab: &Lab, site: &str) -> Value {
    lab.json(&["sync", &lab.db(site)])
}

#[test]
fn a_place_at_a_hub_keeps_the_promise_of_a_store() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    let count = AtomicUsize::new(0);
    let place = || hub.url(&format!("place-{}", count.fetch_add(1, Ordering::Relaxed)));
    let store = || synqlite_objects::Hub::new(&place(), None).unwrap();
    conformance(|| Box::new(store()));
    conformance(|| Box::new(Sealed::new(Arc::new(store()), &Key::new([9; 32]))));
}

#[test]
fn sites_at_a_hub_converge() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    two(&lab, &hub.url("todo"));
    lab.json(&["clone", &hub.url("todo"), &lab.db("C")]);
    for site in ["A", "B", "C"] {
        lab.sql(site, &format!("INSERT INTO todo(what) VALUES('{site}'); UPDATE person SET name = '{site}' WHERE id = 1"));
    }
    for site in ["A", "B", "C", "A", "B"] {
        sync(&lab, site);
    }
    lab.assert_equal(&["A", "B", "C"]);
    assert_eq!(lab.rows("A", "SELECT name FROM person WHERE id = 1"), ["C"]);
}

#[test]
fn what_came_since_is_one_request_whatever_there_is() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    let proxy = Proxy::counting(&hub);
    two(&lab, &proxy.url("todo"));
    for n in 0..40 {
        note(&lab, "A", &format!("old {n}"));
        sync(&lab, "A");
    }
    sync(&lab, "B");
    sync(&lab, "A");
    proxy.counted();
    let cost = |what: &str, site: &str| {
        lab.json(&[what, &lab.db(site)]);
        proxy.counted()
    };
    let (requests, bytes) = cost("pull", "B");
    assert_eq!(requests, 1, "a pull of nothing");
    assert!(bytes < 500, "{bytes} bytes");
    assert_eq!(cost("sync", "B").0, 1, "a sync of nothing");
    note(&lab, "A", "new");
    assert_eq!(cost("sync", "A").0, 2, "a look and a put");
    let (requests, bytes) = cost("sync", "B");
    assert_eq!(requests, 1, "the batch comes with the list");
    assert!(bytes < 1_500, "{bytes} bytes");
    note(&lab, "B", "also new");
    assert_eq!(cost("push", "B").0, 2);
    assert_eq!(cost("pull", "A").0, 1);
    lab.assert_equal(&["A", "B"]);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn a_hub_whose_folder_was_put_back_lacks_nothing_after_a_sync_of_each_site() {
    let lab = Lab::new();
    for news in [0, 2, 3, 5] {
        let (store, kept) = (lab.path(&format!("hub{news}")), lab.path(&format!("kept{news}")));
        let hub = Hub::start(&store, &["--open"]);
        let at = hub.address.to_string();
        let sites = ["A", "B", "C"].map(|site| format!("{site}{news}"));
        let [a, b, c] = sites.each_ref().map(String::as_str);
        let url = hub.url("todo");
        lab.sql(a, crate::support::TODO);
        lab.json(&["init", &lab.db(a)]);
        lab.json(&["remote", "add", &lab.db(a), "origin", &url]);
        sync(&lab, a);
        for site in [b, c] {
            lab.json(&["clone", &url, &lab.db(site)]);
        }
        drop(hub);
        copy(&store, &kept);
        let hub = Hub::start_at(&at, &store, &["--open"]);
        for n in 0..3 {
            note(&lab, a, &format!("lost {n}"));
            sync(&lab, a);
        }
        sync(&lab, c);
        drop(hub);
        std::fs::remove_dir_all(&store).unwrap();
        copy(&kept, &store);
        let _hub = Hub::start_at(&at, &store, &["--open"]);
        for n in 0..news {
            note(&lab, b, &format!("new {n}"));
            sync(&lab, b);
        }
        for site in [c, a, b] {
            sync(&lab, site);
        }
        lab.assert_equal(&[a, b]);
        let d = format!("D{news}");
        lab.json(&["clone", &url, &lab.db(&d)]);
        lab.assert_equal(&[a, &d]);
        assert_eq!(sync(&lab, c)["sent"]["bytes"], 0);
        lab.assert_equal(&[a, c]);
    }
}

/// What the site sends then has the name and the sequence of what was lost.
#[test]
fn a_site_that_was_put_back_with_its_hub_is_noticed() {
    let lab = Lab::new();
    let (store, kept) = (lab.path("hub"), lab.path("kept"));
    let hub = Hub::start(&store, &["--open"]);
    let at = hub.address.to_string();
    two(&lab, &hub.url("todo"));
    note(&lab, "A", "before");
    for site in ["A", "B"] {
        sync(&lab, site);
    }
    drop(hub);
    copy(&store, &kept);
    let backup = std::fs::read(lab.db("A")).unwrap();
    let hub = Hub::start_at(&at, &store, &["--open"]);
    note(&lab, "A", "lost");
    for site in ["A", "B"] {
        sync(&lab, site);
    }
    drop(hub);
    std::fs::remove_dir_all(&store).unwrap();
    copy(&kept, &store);
    std::fs::write(lab.db("A"), backup).unwrap();
    let _hub = Hub::start_at(&at, &store, &["--open"]);
    note(&lab, "A", "new");
    for site in ["A", "B", "A", "B"] {
        sync(&lab, site);
    }
    lab.assert_equal(&["A", "B"]);
    let notes = lab.rows("B", "SELECT * FROM note WHERE text IN ('before', 'lost', 'new')");
    assert_eq!(notes.len(), 3, "{notes:?}");
}

/// What A wrote is superseded before A sends it, by the same value, so there is nothing to send or tell, and
/// nothing in the place that says so. What A sends next must not build on it.
#[test]
fn what_was_never_sent_is_nothing_to_build_on() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    two(&lab, &hub.url("todo"));
    sync(&lab, "B");
    lab.sql("A", "UPDATE todo SET what = 'by both' WHERE id = 1");
    lab.json(&["fold", &lab.db("A")]);
    lab.sql("B", "UPDATE todo SET what = 'by both' WHERE id = 1");
    sync(&lab, "B");
    assert_eq!(sync(&lab, "A")["sent"]["bytes"], 0);
    assert_eq!(sync(&lab, "A")["sent"]["bytes"], 0);
    note(&lab, "A", "new");
    assert_eq!(sync(&lab, "A")["sent"]["rows"], 1);
    assert_eq!(sync(&lab, "B")["waiting"].as_array().unwrap().len(), 0);
    lab.json(&["clone", &hub.url("todo"), &lab.db("C")]);
    lab.assert_equal(&["A", "B", "C"]);
}

#[test]
fn old_batches_go_and_nobody_misses_them() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    let url = hub.url("todo");
    two(&lab, &url);
    // C is known to the hub, and then away.
    lab.json(&["clone", &url, &lab.db("C")]);
    sync(&lab, "C");
    note(&lab, "C", "from afar");
    let first = hub.objects("todo", ".snapshot");
    let batches = || hub.objects("todo", ".batch").len();
    for n in 0..70 {
        note(&lab, "A", &format!("note {n}"));
        sync(&lab, "A");
    }
    let snapshots = hub.objects("todo", ".snapshot");
    assert!(snapshots.iter().any(|name| !first.contains(name)), "a new one was due");
    assert!(batches() >= 70, "C needs them all");
    for site in ["B", "C", "B", "A"] {
        sync(&lab, site);
    }
    lab.assert_equal(&["A", "B", "C"]);
    for site in ["A", "B", "C"] {
        sync(&lab, site);
    }
    for n in 0..70 {
        note(&lab, "B", &format!("another {n}"));
        sync(&lab, "B");
        if n % 20 == 0 {
            sync(&lab, "A");
            sync(&lab, "C");
        }
    }
    let since = Instant::now();
    while batches() > 140 {
        assert!(since.elapsed() < Duration::from_secs(60), "nothing goes");
        std::thread::sleep(Duration::from_millis(50));
    }
    lab.json(&["clone", &url, &lab.db("D")]);
    for site in ["A", "B", "C", "D"] {
        sync(&lab, site);
    }
    lab.assert_equal(&["A", "B", "C", "D"]);
}

#[test]
fn a_site_whose_memory_is_gone_looks_at_everything() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    let url = hub.url("todo");
    two(&lab, &url);
    note(&lab, "A", "one");
    sync(&lab, "A");
    // Another store has another epoch, and nothing of what is remembered.
    let other = Hub::start(&lab.path("other"), &["--open"]);
    drop(hub);
    let address = url.split('/').nth(2).unwrap().to_owned();
    drop(other);
    let other = Hub::start_at(&address, &lab.path("other"), &["--open"]);
    assert_eq!(other.url("todo"), url);
    assert_eq!(sync(&lab, "A")["sent"]["rows"], 7, "all that A has");
    sync(&lab, "B");
    lab.assert_equal(&["A", "B"]);
}

#[test]
fn a_token_is_called_by_one_line() {
    let lab = Lab::new();
    let store = lab.path("store").display().to_string();
    for name in ["A\nB", "A\u{1b}[2J"] {
        let args = ["token", "create", "--store", &store, "--database", "todo", "--name", name];
        let told = lab.refused(&args);
        assert!(told.contains("control character"), "{told}");
    }
    assert_eq!(lab.text(&["token", "list", "--store", &store]).trim(), "no tokens");
}

#[test]
fn a_token_opens_a_hub() {
    let lab = Lab::new();
    let store = lab.path("hub").display().to_string();
    let make = |scope: &str| {
        let args = ["token", "create", "--store", &store, "--database", "todo", "--scope", scope];
        lab.json(&args)["token"].as_str().expect("a token").to_owned()
    };
    let (write, read) = (make("write"), make("read"));
    let hub = Hub::start(&lab.path("hub"), &[]);
    let url = hub.url("todo");
    lab.sql("A", crate::support::TODO);
    lab.json(&["init", &lab.db("A")]);
    let told = lab.refused(&["push", &lab.db("A"), &url]);
    assert!(told.contains("token") && told.contains("SYNQLITE_TOKEN"), "{told}");
    // Another token takes the place of one that is refused, as the message says.
    lab.json(&["remote", "add", &lab.db("A"), "origin", &url, "--token", "old"]);
    assert!(lab.refused(&["push", &lab.db("A")]).contains("synqlite remote add"));
    lab.json(&["remote", "add", &lab.db("A"), "origin", &url, "--token", &write]);
    assert!(lab.refused(&["remote", "add", &lab.db("A"), "origin", &url]).contains("already"));
    lab.json(&["push", &lab.db("A")]);
    let (file, b) = (lab.path("token"), lab.db("B"));
    let clone = ["clone", &url, &b, "--token-file", file.to_str().unwrap()];
    for (bad, why) in [("", "there is no token in it"), ("one\ntwo\n", "several lines")] {
        std::fs::write(&file, bad).unwrap();
        let told = lab.refused(&clone);
        assert!(told.contains(why), "{told}");
    }
    std::fs::write(&file, format!("{read}\n")).unwrap();
    lab.json(&clone);
    note(&lab, "A", "new");
    sync(&lab, "A");
    lab.json(&["pull", &lab.db("B")]);
    lab.assert_equal(&["A", "B"]);
    note(&lab, "B", "not for you");
    let told = lab.refused(&["push", &lab.db("B")]);
    assert!(told.contains("good for this"), "{told}");
    assert!(told.contains("it has scope read, and that needs scope write"), "{told}");
    let elsewhere = url.replace("/todo", "/other");
    let push = |token: &str, url: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
        command.args(["push", &lab.db("A"), url]).env("SYNQLITE_TOKEN", token).output().unwrap()
    };
    let told = stderr(&push(&write, &elsewhere));
    assert!(told.contains("it is for database todo, not for other"), "{told}");
    // Programs read it with the end of its line.
    assert!(push(&format!("{write}\n"), &url).status.success());
    let told = push("two\nlines", &url);
    assert_eq!(told.status.code(), Some(1));
    assert!(stderr(&told).contains("takes no token with a line break"), "{}", stderr(&told));
    // What came before the push was refused is merged, and told.
    note(&lab, "A", "more for you");
    sync(&lab, "A");
    let half = synqlite(&["sync", &lab.db("B"), "--json"]);
    let told: Value = serde_json::from_str(&stdout(&half)).expect("one document");
    assert_eq!((half.status.code(), &told["error"]["status"]), (Some(1), &json!(1)), "{told}");
    assert_eq!((&told["received"]["rows"], &told["merged"]["inserted"]), (&json!(1), &json!(1)));
    assert!(stderr(&half).contains("good for this"));
    assert!(lab.rows("B", "SELECT * FROM note").contains(&"more for you".to_owned()));
    // The environment comes first.
    let output = Command::new(env!("CARGO_BIN_EXE_synqlite"))
        .args(["push", &lab.db("B")])
        .env("SYNQLITE_TOKEN", &write)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let listed = stdout(&synqlite(&["remote", "list", &lab.db("A"), "--json"]));
    assert!(!listed.contains(&write) && listed.contains("\"token\":\"kept\""), "{listed}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
        .args(["clone", "--token-file", "-", &url, &lab.db("C")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(read.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    lab.json(&["pull", &lab.db("C")]);
}

#[test]
fn broken_transfers_go_on_where_they_broke() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    let dir = tempfile::tempdir().unwrap();
    let (file, back) = (dir.path().join("file"), dir.path().join("back"));
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|n| (n / 1_000) as u8).collect();
    std::fs::write(&file, &bytes).unwrap();
    let seed = 7;
    println!("seed {seed}");
    let proxy = Proxy::harming(&hub, seed);
    let store = synqlite_objects::Hub::new(&proxy.url("todo"), None).unwrap();
    for n in 1..3 {
        let name = ObjectName::snapshot(Id([1; 16]), Id([2; 16]), n);
        store.put_file_if_absent(&name, &file, None, &mut |_, _| {}).unwrap();
        store.fetch_to(&name, &back).unwrap();
        assert!(std::fs::read(&back).unwrap() == bytes);
    }
}

/// `watch` of a site, until it is dropped.
struct Watch(Child);

impl Watch {
    fn start(lab: &Lab, site: &str) -> (Watch, impl Iterator<Item = Value> + use<>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args(["watch", &lab.db(site), "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let out = BufReader::new(child.stdout.take().expect("standard output"));
        let lines = out.lines().map_while(Result::ok);
        (Watch(child), lines.map(|line| serde_json::from_str(&line).expect("JSON")))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Until the site shows a note, and how long that took.
fn arrives(lab: &Lab, site: &str, text: &str) -> Duration {
    let since = Instant::now();
    let conn = lab.connect(site);
    let sql = "SELECT count(*) FROM note WHERE text = ?1";
    while conn.query_row(sql, [text], |row| row.get::<_, i64>(0)).unwrap() == 0 {
        assert!(since.elapsed() < Duration::from_secs(60), "`{text}` does not arrive");
        std::thread::sleep(Duration::from_millis(1));
    }
    since.elapsed()
}

#[test]
fn news_travels_while_two_sites_watch() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    two(&lab, &hub.url("todo"));
    let (_a, mut rounds) = Watch::start(&lab, "A");
    let (_b, mut others) = Watch::start(&lab, "B");
    assert_eq!(rounds.next().unwrap()["round"], 1);
    assert_eq!(others.next().unwrap()["round"], 1);
    let mut times = Vec::new();
    for n in 0..25 {
        let (from, to) = if n % 2 == 0 { ("A", "B") } else { ("B", "A") };
        let text = format!("news {n}");
        lab.connect(from).execute("INSERT INTO note VALUES(?1)", [&text]).unwrap();
        times.push(arrives(&lab, to, &text));
        std::thread::sleep(Duration::from_millis(60));
    }
    times.sort();
    let median = times[times.len() / 2];
    println!("from one site to another: median {median:?}, longest {:?}", times[times.len() - 1]);
    // 150 ms on a machine that has nothing else to do.
    assert!(median < Duration::from_secs(2), "{times:?}");
}

#[test]
fn a_watch_outlives_its_hub() {
    let lab = Lab::new();
    let hub = Hub::open(&lab);
    two(&lab, &hub.url("todo"));
    let address = hub.address.to_string();
    let (_a, mut rounds) = Watch::start(&lab, "A");
    rounds.next().unwrap();
    drop(hub);
    note(&lab, "A", "while it is away");
    assert!(rounds.any(|round| round["error"].is_string()));
    let _hub = Hub::start_at(&address, &lab.path("hub"), &["--open"]);
    assert!(rounds.any(|round| round["sent"]["rows"] == 1));
    sync(&lab, "B");
    assert_eq!(lab.rows("B", "SELECT count(*) FROM note WHERE text = 'while it is away'"), ["1"]);
}

/// What it failed at is still at the hub, and other than what it has read: that begins no round.
#[test]
fn a_watch_whose_push_is_refused_tries_again_after_pauses() {
    let lab = Lab::new();
    let store = lab.path("hub").display().to_string();
    let token = |more: &[&str]| {
        let args = ["token", "create", "--store", &store, "--database", "todo"];
        lab.json(&[&args[..], more].concat())["token"].as_str().expect("a token").to_owned()
    };
    let (write, small) = (token(&[]), token(&["--object-bytes", "100"]));
    let hub = Hub::start(&lab.path("hub"), &[]);
    lab.sql("A", crate::support::TODO);
    lab.json(&["init", &lab.db("A")]);
    lab.json(&["remote", "add", &lab.db("A"), "origin", &hub.url("todo"), "--token", &write]);
    sync(&lab, "A");
    lab.json(&["remote", "remove", &lab.db("A"), "origin"]);
    lab.json(&["remote", "add", &lab.db("A"), "origin", &hub.url("todo"), "--token", &small]);
    lab.sql(
        "A",
        "INSERT INTO note SELECT hex(randomblob(20)) FROM json_each('[1,2,3,4,5,6,7,8,9]')",
    );
    let (_a, rounds) = Watch::start(&lab, "A");
    let since = Instant::now();
    for (n, round) in rounds.take(5).enumerate() {
        assert!(round["error"].is_string(), "{round}");
        // From 0.2 s on each pause is twice as long, less at most half of it.
        let least = Duration::from_millis([0, 100, 300, 700, 1_500][n]);
        assert!(since.elapsed() >= least, "round {n} after {:?}", since.elapsed());
    }
}
