//! Hubs that are killed at any moment of a load, on each kind of store. After each kill everything
//! that was acknowledged is there under the sequence that was told, no name is there twice, no
//! sequence is given twice, and nothing has come to be below what a reader had read.
//!
//! `HUB_KILLS=200` is the long campaign; few kills by default.

use crate::serve::{Hub, batch};
use crate::support::Lab;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;
use synqlite_servers::{Postgres, Storage};

/// A store, and who writes to it.
struct Campaign {
    store: PathBuf,
    environment: Vec<(String, String)>,
    /// Where the copy of a bucket is; every fifth time it is gone.
    scratch: PathBuf,
    token: String,
    /// Sequences and names, as they were told to those who put.
    acknowledged: Mutex<BTreeMap<u64, String>>,
    /// As a reader has read them, and up to where.
    read: BTreeMap<u64, String>,
    upto: u64,
}

const WRITERS: u8 = 6;

/// What the nth batch of a writer holds: small, middling and large ones.
fn content(writer: u8, n: u64) -> Vec<u8> {
    let length = match n % 16 {
        5 => 20_000,
        9 => 300_000,
        _ => 1 + n as usize % 900,
    };
    (0..length).map(|i| (i as u64 * 31 + n * 7) as u8 ^ writer).collect()
}

impl Campaign {
    fn new(lab: &Lab, store: &str, environment: Vec<(String, String)>) -> Campaign {
        let args = ["token", "create", "--json", "--store", store, "--database", "todo"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_synqlite"));
        let output = command.args(args).envs(environment.iter().cloned()).output();
        let made: serde_json::Value =
            serde_json::from_slice(&output.expect("it runs").stdout).expect("JSON");
        Campaign {
            store: store.into(),
            environment,
            scratch: lab.path("scratch"),
            token: made["token"].as_str().expect("a token").to_owned(),
            acknowledged: Mutex::default(),
            read: BTreeMap::new(),
            upto: 0,
        }
    }

    fn start(&self) -> Hub {
        let scratch = self.scratch.display().to_string();
        Hub::start_in(&self.environment, &self.store, &["--scratch", &scratch])
    }

    /// Sequences and names after one; up to where the list is whole.
    fn list(&self, hub: &Hub, after: u64) -> Option<(BTreeMap<u64, String>, u64)> {
        let path = format!("/todo/objects?after={after}&limit=5000");
        let (status, head, body) = hub.send("GET", &path, &self.token, b"")?;
        assert_eq!(status, 200, "{head}");
        let upto = head.lines().find_map(|line| line.strip_prefix("synqlite-upto: "));
        let mut found = BTreeMap::new();
        for line in String::from_utf8(body).expect("text").lines() {
            let mut words = line.split(' ');
            let sequence = words.next().and_then(|n| n.parse().ok()).expect("a sequence");
            let name = words.nth(1).expect("a name").to_owned();
            let before = found.last_key_value().map_or(after, |(last, _)| *last);
            assert!(sequence > before, "{line} after {before}");
            found.insert(sequence, name);
        }
        Some((found, upto.and_then(|n| n.trim().parse().ok()).expect("a number")))
    }

    /// Reads on, until there is nothing more or the hub is gone.
    fn read_on(&mut self, hub: &Hub) {
        while let Some((found, upto)) = self.list(hub, self.upto) {
            let end = found.is_empty();
            self.read.extend(found);
            self.upto = upto;
            if end {
                return;
            }
        }
    }

    /// Six write and one reads until the hub is killed.
    fn round(&mut self, round: u64) {
        let mut hub = self.start();
        let (token, acknowledged) = (self.token.clone(), std::mem::take(&mut self.acknowledged));
        std::thread::scope(|scope| {
            for writer in 1..=WRITERS {
                let (hub, token, acknowledged) = (&hub, &token, &acknowledged);
                scope.spawn(move || {
                    // The last of a round may be there though nobody was told so.
                    for n in round * 100_000 + 1.. {
                        let path = batch(writer, n);
                        let put = hub.send("PUT", &path, token, &content(writer, n));
                        let Some((status, head, _)) = put else { return };
                        assert_eq!(status, 201, "{head}");
                        let told = head.lines().find_map(|l| l.strip_prefix("synqlite-sequence: "));
                        let sequence = told.and_then(|n| n.trim().parse().ok()).expect("a number");
                        let name = path.strip_prefix("/todo/objects/").expect("a path").to_owned();
                        let before = acknowledged.lock().expect("no panic").insert(sequence, name);
                        assert_eq!(before, None, "sequence {sequence} is given twice");
                    }
                });
            }
            let killer = scope.spawn(|| {
                // A different moment in every round.
                std::thread::sleep(Duration::from_millis(60 + round * 37 % 240));
                hub.signal("KILL");
            });
            while !killer.is_finished() {
                self.read_on(&hub);
            }
        });
        self.acknowledged = acknowledged;
        let _ = hub.child.wait();
    }

    /// Everything holds. `whole`: what was read bit by bit is what is there, content and all.
    fn check(&mut self, whole: bool) {
        let hub = self.start();
        self.read_on(&hub);
        for (sequence, name) in self.acknowledged.lock().expect("no panic").iter() {
            assert_eq!(self.read.get(sequence), Some(name), "sequence {sequence}");
        }
        let mut names: Vec<_> = self.read.values().collect();
        names.sort();
        assert!(names.is_sorted_by(|a, b| a < b), "a name is there twice");
        if !whole {
            return;
        }
        let (mut all, mut after) = (BTreeMap::new(), 0);
        loop {
            let (found, upto) = self.list(&hub, after).expect("the hub answers");
            if found.is_empty() {
                break;
            }
            after = upto;
            all.extend(found);
        }
        // PostgreSQL may still finish what a killed hub asked for: above what was read, that is no harm.
        let below: BTreeMap<_, _> = all.range(..=self.upto).collect();
        let read: BTreeMap<_, _> = self.read.iter().collect();
        let other = below.iter().find(|(sequence, name)| read.get(*sequence) != Some(name));
        assert!(below == read, "{other:?} is there below {}, and was not read", self.upto);
        for name in all.values() {
            let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
            let (_, rest) = name.split_once("/batches/").expect("a batch");
            let (writer, n) = (number(&rest[..2]) as u8, number(&rest[50..66]));
            let found = hub.ask("GET", &format!("/todo/objects/{name}"), &self.token, b"");
            assert!(found == Some((200, content(writer, n))), "{name}");
        }
    }

    fn run(mut self, few: u64) {
        let kills = std::env::var("HUB_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(few);
        for round in 0..kills {
            self.round(round);
            if round % 5 == 4 {
                // Only the copy: the folder's own id tells that its hub has ended.
                let _ = std::fs::remove_dir_all(self.scratch.join("store"));
            }
            self.check(round + 1 == kills || round % 20 == 19);
        }
        let told = self.acknowledged.lock().expect("no panic").len();
        println!("{kills} kills, {told} acknowledged, {} there", self.read.len());
        // At most one a writer and kill was written and not acknowledged.
        assert!(told > 0 && self.read.len() as u64 <= told as u64 + kills * u64::from(WRITERS));
    }
}

#[test]
fn a_folder_survives_kills_of_its_hub() {
    let lab = Lab::new();
    let store = lab.path("hub").display().to_string();
    Campaign::new(&lab, &store, Vec::new()).run(4);
}

#[test]
fn postgres_survives_kills_of_its_hub() {
    let lab = Lab::new();
    match Postgres::start() {
        Ok(server) => Campaign::new(&lab, &server.database("hub"), Vec::new()).run(4),
        Err(why) => println!("skipped: kills of a hub on PostgreSQL: {why}"),
    }
}

#[test]
fn a_bucket_survives_kills_of_its_hub() {
    let lab = Lab::new();
    match Storage::start() {
        Ok(server) => Campaign::new(&lab, &server.url("hub"), server.settings()).run(6),
        Err(why) => println!("skipped: kills of a hub on a bucket: {why}"),
    }
}
