//! `serve` and `token`: the hub as a process of its own, killed where it likes.

use crate::support::{Lab, stderr, stdout, synqlite};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Kills of the campaign; few by default. `HUB_KILLS=200` is the long one.
const KILLS: &str = "HUB_KILLS";

/// A hub that runs.
struct Hub {
    child: Child,
    address: String,
}

impl Hub {
    fn start(store: &Path, more: &[&str]) -> Hub {
        let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--log", "error", "--store"])
            .arg(store)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut why = String::new();
            let mut from = child.stderr.take().expect("a pipe");
            from.read_to_string(&mut why).expect("text");
            panic!("the hub does not start: {why}{line}")
        });
        // Errors alone are logged; whoever reads them no more must not be waited for.
        drop(child.stderr.take());
        let url = told["listening"].as_str().expect("a URL");
        Hub { child, address: url.replace("http://", "") }
    }

    /// Sends a request; its status and body. `None` if the connection breaks.
    fn ask(&self, method: &str, path: &str, token: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: hub\r\nAuthorization: Bearer {token}\r\n\
             Connection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(answer.get(..end)?).ok()?.to_ascii_lowercase();
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let body = answer.split_off(end);
        let whole = length.is_none_or(|n| n.trim().parse() == Ok(body.len()));
        whole.then_some((status, body))
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().expect("kill").success());
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Path of the nth batch of a writer.
fn batch(writer: u8, n: u64) -> String {
    let (database, site) = ("d0".repeat(16), format!("{writer:02x}").repeat(16));
    format!("/todo/objects/{database}/batches/{site}/{:016x}-{n:016x}.batch", n - 1)
}

/// What the nth batch of a writer holds: small, middling and large ones.
fn content(writer: u8, n: u64) -> Vec<u8> {
    let length = match n % 16 {
        5 => 20_000,
        9 => 300_000,
        _ => 1 + n as usize % 900,
    };
    (0..length).map(|i| (i as u64 * 31 + n * 7) as u8 ^ writer).collect()
}

fn token(lab: &Lab, store: &str, database: &str, scope: &str) -> String {
    let args = ["token", "create", "--store", store, "--database", database, "--scope", scope];
    lab.json(&args)["token"].as_str().expect("a token").to_owned()
}

#[test]
fn tokens_are_made_listed_and_revoked_while_the_hub_runs() {
    let lab = Lab::new();
    let store = lab.path("hub").display().to_string();
    let write = token(&lab, &store, "todo", "write");
    let hub = Hub::start(Path::new(&store), &[]);
    assert_eq!(hub.ask("GET", "/healthz", "", b""), Some((200, b"{\"status\":\"ok\"}".to_vec())));
    assert_eq!(hub.ask("PUT", &batch(1, 1), &write, b"one").map(|a| a.0), Some(201));
    assert_eq!(hub.ask("GET", "/todo/objects", "synq_wrong", b"").map(|a| a.0), Some(401));
    let args = ["--store", &store, "--database", "todo", "--scope", "read", "--name", "van"];
    let read = lab.text(&[&["token", "create"], &args[..]].concat()).trim_end().to_owned();
    let within = Instant::now();
    while hub.ask("GET", &batch(1, 1), &read, b"") != Some((200, b"one".to_vec())) {
        assert!(within.elapsed() < Duration::from_secs(20), "the new token is not noticed");
        std::thread::sleep(Duration::from_millis(50));
    }
    let list = lab.json(&["token", "list", "--store", &store]);
    let tokens = list["tokens"].as_array().expect("a list");
    assert_eq!(tokens.len(), 2);
    assert_eq!((&tokens[1]["name"], &tokens[1]["scope"]), (&"van".into(), &"read".into()));
    assert!(!list.to_string().contains(&read) && !list.to_string().contains("hash"));
    assert!(lab.text(&["token", "list", "--store", &store]).contains("van"));
    let id = tokens[1]["id"].as_str().expect("an id");
    lab.json(&["token", "revoke", "--store", &store, id]);
    while hub.ask("GET", &batch(1, 1), &read, b"").map(|a| a.0) != Some(401) {
        assert!(within.elapsed() < Duration::from_secs(40), "the revoked token is still good");
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = lab.refused(&["token", "revoke", "--store", &store, id]);
    assert!(told.contains("there is no token") && told.contains("token list"), "{told}");
}

#[test]
fn it_ends_gracefully_and_one_at_a_time_has_the_store() {
    let lab = Lab::new();
    let store = lab.path("hub").display().to_string();
    let mut hub = Hub::start(Path::new(&store), &["--open"]);
    assert_eq!(hub.ask("PUT", &batch(1, 1), "", b"one").map(|a| a.0), Some(401), "a wrong token");
    let told = lab.refused(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
    assert!(told.contains("open elsewhere"), "{told}");
    let since = Instant::now();
    hub.signal("TERM");
    let status = hub.child.wait().expect("it ends");
    assert!(status.success() && since.elapsed() < Duration::from_secs(20), "{status}");
    assert_eq!(lab.json(&["serve", "--check", "--store", &store])["ok"], true);
    let told = lab.refused(&["serve", "--check", "--store", &lab.db("none")]);
    assert!(told.contains("none.db"), "{told}");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = busy.local_addr().expect("an address").to_string();
    let told = lab.refused(&["serve", "--listen", &address, "--store", &store]);
    assert!(told.contains("cannot listen on"), "{told}");
    for wrong in
        [&["serve"][..], &["serve", "--store", "x", "--tls-cert", "y"], &["token", "create"]]
    {
        let output = synqlite(wrong);
        assert_eq!(output.status.code(), Some(2), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn what_was_acknowledged_is_there_however_often_the_hub_is_killed() {
    let kills: u64 = std::env::var(KILLS).ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let lab = Lab::new();
    let store = lab.path("hub").display().to_string();
    let all = token(&lab, &store, "todo", "write");
    let writers: Vec<_> = (1..=6_u8).map(|writer| (writer, AtomicU64::new(0))).collect();
    for round in 0..kills {
        let mut hub = Hub::start(Path::new(&store), &[]);
        std::thread::scope(|scope| {
            for (writer, acknowledged) in &writers {
                let (hub, all) = (&hub, &all);
                scope.spawn(move || {
                    // A kill between writing and answering leaves an object that was not acknowledged.
                    let mut n = acknowledged.load(Ordering::Relaxed) + 1;
                    while let Some((status, _)) =
                        hub.ask("PUT", &batch(*writer, n), all, &content(*writer, n))
                    {
                        assert!(matches!(status, 200 | 201), "{status}");
                        acknowledged.store(n, Ordering::Relaxed);
                        n += 1;
                    }
                });
            }
            // A different moment in every round.
            std::thread::sleep(Duration::from_millis(60 + round * 37 % 240));
            hub.signal("KILL");
        });
        let _ = hub.child.wait();
    }
    let hub = Hub::start(Path::new(&store), &[]);
    let (mut total, mut listed, mut after) = (0, 0, 0);
    for (writer, acknowledged) in &writers {
        for n in 1..=acknowledged.load(Ordering::Relaxed) {
            let found = hub.ask("GET", &batch(*writer, n), &all, b"");
            assert_eq!(found, Some((200, content(*writer, n))), "writer {writer}, batch {n}");
            total += 1;
        }
    }
    loop {
        let path = format!("/todo/objects?after={after}&limit=1000");
        let (_, list) = hub.ask("GET", &path, &all, b"").expect("a list");
        let list = String::from_utf8(list).expect("text");
        if list.is_empty() {
            break;
        }
        for line in list.lines() {
            let sequence = line.split(' ').next().and_then(|n| n.parse().ok()).expect("a sequence");
            assert!(sequence > after, "{line}");
            after = sequence;
            listed += 1;
        }
    }
    println!("{kills} kills, {total} acknowledged, {listed} listed");
    // At most one a writer and kill was written and not acknowledged, and later ones took its name.
    assert!(total > 0 && listed >= total && listed <= total + writers.len() as u64);
}
