//! The same promises, kept by object storage. The test starts `moto_server` on a free port; where
//! there is none it says so and is skipped.

use crate::client::Client;
use crate::support::{Lab, batch, bytes, snapshot, until, use_stores};
use std::time::Duration;
use synqlite_hub::{Error, Location, Scope, Settings, start};
use synqlite_objects::Storage;
use synqlite_servers::{Faults, Storage as Server};

fn server() -> Option<Server> {
    Server::start().inspect_err(|why| println!("skipped: {why}")).ok()
}

/// A prefix of the bucket, and what is there.
fn store(url: &str, settings: &[(String, String)]) -> (Location, Storage) {
    let storage = Storage::new(url, settings).unwrap();
    (Location::parse(url).unwrap().with(settings), storage)
}

/// Of a hub that is gone nobody thinks for long that it is there.
fn briefly(settings: &mut Settings) {
    settings.open = true;
    settings.setup.lease = Duration::from_millis(1200);
}

#[test]
fn a_bucket_keeps_the_promises_of_a_store() {
    let Some(server) = server() else { return };
    let mut count = 0;
    use_stores(move || {
        count += 1;
        store(&server.url(&format!("lab{count}")), &server.settings()).0
    });
    crate::promises();
}

#[test]
fn without_its_folder_a_hub_finds_everything_in_the_bucket() {
    let Some(server) = server() else { return };
    let (location, storage) = store(&server.url("whole"), &server.settings());
    use_stores(move || location.clone());
    let mut lab = Lab::with(|settings| {
        briefly(settings);
        settings.setup.checkpoint = 200_000;
    });
    let secret = lab.token("todo", Scope::Admin);
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    let content = |n: u64| bytes([10, 3000, 20_000][n as usize % 3], n as u8);
    for n in 1..=300 {
        admin.put(&batch("todo", n), &content(n)).expect(201);
    }
    admin.put(&batch("todo", 301), &bytes(5_000_000, 1)).expect(201);
    admin.delete(&batch("todo", 7)).expect(204);
    admin.put(&snapshot("todo", 9), b"snapshot").expect(201);
    let list = admin.get("/todo/objects?prefix=10").expect(200);
    // Many small files have become few, and nothing is missing.
    until(|| storage.list("log").unwrap().len() < 200);
    assert!(!storage.list("base").unwrap().is_empty(), "there is a checkpoint");
    for round in 0..2 {
        lab.stop();
        if round == 0 {
            std::fs::remove_dir_all(&lab.settings.scratch).unwrap();
        }
        lab.start();
        let mut admin = Client::new(&lab.hub().url(), Some(&secret));
        let again = admin.get("/todo/objects?prefix=10").expect(200);
        assert_eq!(again.header("synqlite-epoch"), list.header("synqlite-epoch"));
        assert!(again.body == list.body, "round {round}");
        for n in (1..=300).filter(|n| *n != 7) {
            assert!(admin.get(&batch("todo", n)).expect(200).body == content(n), "{n}");
        }
        admin.get(&batch("todo", 7)).expect(404);
        assert!(admin.get(&batch("todo", 301)).expect(200).body == bytes(5_000_000, 1));
        let next = admin.put(&batch("todo", 400 + round), b"next").expect(201);
        assert_eq!(next.number("synqlite-sequence"), 303 + round);
        admin.delete(&batch("todo", 400 + round)).expect(204);
    }
    let mut admin = Client::new(&lab.hub().url(), Some(&secret));
    admin.delete("/todo").expect(204);
    until(|| storage.list("objects").unwrap().is_empty());
}

#[test]
fn one_hub_at_a_time_has_a_prefix() {
    let Some(server) = server() else { return };
    let (location, storage) = store(&server.url("one"), &server.settings());
    let both = location.clone();
    use_stores(move || both.clone());
    let mut first = Lab::with(briefly);
    first.nobody().put(&batch("todo", 1), b"one").expect(201);
    let mut second = first.settings.clone();
    second.scratch = first.scratch("second");
    let told = start(second.clone()).err().expect("it is taken");
    assert!(matches!(told, Error::Taken { .. }), "{told}");
    // The first lives on, and another with its folder is refused too.
    first.nobody().put(&batch("todo", 2), b"two").expect(201);
    assert!(start(first.settings.clone()).is_err());
    // The first seems to be gone: its lease is away at the moment in which another looks.
    let second = loop {
        storage.delete("lease").unwrap();
        match start(second.clone()) {
            Ok(hub) => break hub,
            Err(e) => assert!(matches!(e, Error::Taken { .. } | Error::Lost { .. }), "{e}"),
        }
    };
    let mut client = Client::new(&second.url(), None);
    assert_eq!(client.put(&batch("todo", 3), b"three").expect(201).number("synqlite-sequence"), 3);
    // What the first is given it does not acknowledge; it ends by itself, and says why.
    let mut late = first.nobody();
    let head = late.head("PUT", &batch("todo", 4), &[("Content-Length", "4")]);
    if let Ok(answer) = late.raw(&head, b"four") {
        answer.expect(503);
    }
    let ended = first.end().unwrap_err();
    assert!(matches!(ended, Error::Lost { .. }), "{ended}");
    assert_eq!(client.get("/todo/objects").expect(200).lines().len(), 3);
    client.get(&batch("todo", 4)).expect(404);
    second.stop().unwrap();
}

#[test]
fn faults_of_the_bucket_lose_and_double_nothing() {
    let Some(server) = server() else { return };
    let seed = 7;
    println!("seed {seed}");
    let faults = Faults::at_random(server.port, seed, 30);
    let (location, _) = store(&server.url("faulty"), &faults.settings());
    use_stores(move || location.clone());
    let mut lab = Lab::with(briefly);
    for round in 0..3_u64 {
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let mut client = lab.nobody();
                scope.spawn(move || {
                    for n in 1..=5 {
                        let n = round * 100 + writer * 10 + n;
                        let content = bytes(if n % 5 == 0 { 300_000 } else { 50 }, n as u8);
                        until(|| {
                            [200, 201].contains(&client.put(&batch("todo", n), &content).status)
                        });
                    }
                });
            }
        });
        let list = lab.nobody().get("/todo/objects").expect(200);
        assert_eq!(list.lines().len() as u64, 20 * (round + 1));
        lab.stop();
        if round == 1 {
            std::fs::remove_dir_all(lab.settings.scratch.join("store")).unwrap();
        }
        lab.start();
    }
    let mut client = lab.nobody();
    let sequences: Vec<u64> = client
        .get("/todo/objects")
        .expect(200)
        .lines()
        .iter()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(sequences.len() == 60 && sequences.is_sorted_by(|a, b| a < b), "{sequences:?}");
    for (round, writer, n) in
        (0..3).flat_map(|r| (0..4).flat_map(move |w| (1..=5).map(move |n| (r, w, n))))
    {
        let n = round * 100 + writer * 10 + n;
        let size = if n % 5 == 0 { 300_000 } else { 50 };
        until(|| client.get(&batch("todo", n)).body == bytes(size, n as u8));
    }
}
