//! `serve` and `token`: the hub as a process of its own.

use crate::support::{Lab, stderr, stdout, synqlite};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A hub that runs.
pub struct Hub {
    pub child: Child,
    pub address: String,
}

impl Hub {
    pub fn start(store: &Path, more: &[&str]) -> Hub {
        Hub::start_in(&[], store, more)
    }

    /// With an environment.
    pub fn start_in(environment: &[(String, String)], store: &Path, more: &[&str]) -> Hub {
        let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args(["serve", "--json", "--listen", "127.0.0.1:0", "--log", "error", "--store"])
            .arg(store)
            .args(more)
            .envs(environment.iter().cloned())
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
    pub fn ask(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> Option<(u16, Vec<u8>)> {
        let (status, _, body) = self.send(method, path, token, body)?;
        Some((status, body))
    }

    /// The same, with the head of the answer, in small letters.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> Option<(u16, String, Vec<u8>)> {
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
        whole.then_some((status, head, body))
    }

    pub fn signal(&self, name: &str) {
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
pub fn batch(writer: u8, n: u64) -> String {
    let (database, site) = ("d0".repeat(16), format!("{writer:02x}").repeat(16));
    format!("/todo/objects/{database}/batches/{site}/{:016x}-{n:016x}.batch", n - 1)
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
    let second = ["serve", "--listen", "127.0.0.1:0", "--store", &store];
    let since = Instant::now();
    let told = lab.refused(&second);
    assert!(since.elapsed() < Duration::from_secs(20), "it waits: {:?}", since.elapsed());
    assert!(told.contains("another hub has") && !told.contains("kv"), "{told}");
    let told = lab.refused(&["serve", "--store", &store, "--backup", &lab.db("copy")]);
    assert!(told.contains("GET /backup") || told.contains("/backup > FILE"), "{told}");
    let beside = lab.json(&["serve", "--check", "--store", &store]);
    assert_eq!((&beside["ok"], &beside["running"]), (&true.into(), &true.into()));
    let since = Instant::now();
    hub.signal("TERM");
    let status = hub.child.wait().expect("it ends");
    assert!(status.success() && since.elapsed() < Duration::from_secs(20), "{status}");
    assert_eq!(lab.json(&["serve", "--check", "--store", &store])["ok"], true);
    let told = lab.refused(&["serve", "--check", "--store", &lab.db("none")]);
    assert!(told.contains("no store of a hub at") && told.contains("none.db"), "{told}");
    let told = lab.refused(&["serve", "--check", "--listen", "nonsense", "--store", &store]);
    assert!(told.contains("cannot listen on nonsense"), "{told}");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = busy.local_addr().expect("an address").to_string();
    let told = lab.refused(&["serve", "--listen", &address, "--store", &lab.db("none")]);
    assert!(told.contains("cannot listen on"), "{told}");
    let told = lab.refused(&["token", "revoke", "--store", &lab.db("none"), "1"]);
    assert!(told.contains("there is no token 1"), "{told}");
    assert!(!lab.path("none.db").exists(), "a store was made");
    for wrong in
        [&["serve"][..], &["serve", "--store", "x", "--tls-cert", "y"], &["token", "create"]]
    {
        let output = synqlite(wrong);
        assert_eq!(output.status.code(), Some(2), "{}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn a_hub_waits_for_one_that_still_closes_the_store() {
    let lab = Lab::new();
    let store = lab.path("hub");
    let first = Hub::start(&store, &["--open"]);
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        first.signal("TERM");
        first
    });
    let since = Instant::now();
    let second = Hub::start(&store, &["--open", "--wait", "60"]);
    assert!(since.elapsed() > Duration::from_millis(600));
    assert_eq!(second.ask("GET", "/healthz", "", b"").map(|a| a.0), Some(200));
    drop(stopper.join().expect("it ends"));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let lab = Lab::new();
    let (store, config) = (lab.path("hub").display().to_string(), lab.path("hub.toml"));
    std::fs::write(&config, "threads = 100000").unwrap();
    let config = config.display().to_string();
    for more in [&["--check"][..], &[]] {
        let told =
            lab.refused(&[&["serve", "--store", &store, "--config", &config], more].concat());
        assert!(told.contains("threads = 100000: it must be from 1 to 1024"), "{told}");
    }
    let create = ["token", "create", "--store", &store, "--database", "*", "--expires", "3"];
    let output = synqlite(&create);
    let told = stderr(&output);
    assert!(output.status.code() == Some(2) && told.contains("720h"), "{told}");
}

#[test]
fn who_lets_everybody_in_is_warned() {
    let lab = Lab::new();
    let store = lab.path("hub").display().to_string();
    let told = |args: &[&str]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args(["serve", "--store", &store, "--log", "error"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let hub = Hub { child, address: String::new() };
        hub.signal("TERM");
        let mut told = String::new();
        let mut hub = hub;
        hub.child.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
        told
    };
    let open = told(&["--listen", "0.0.0.0:0", "--open"]);
    assert!(open.contains("WARNING: with --open everybody"), "{open}");
    assert!(open.contains("plain HTTP"), "{open}");
    let plain = told(&["--listen", "0.0.0.0:0"]);
    assert!(plain.contains("plain HTTP") && !plain.contains("--open"), "{plain}");
    assert!(!told(&["--listen", "127.0.0.1:0", "--open"]).contains("WARNING"));
    let check = ["serve", "--check", "--store", &store, "--listen", "0.0.0.0:7700", "--open"];
    let (found, told) = lab.json_and_stderr(&check);
    assert_eq!(found["warnings"].as_array().map(Vec::len), Some(2));
    assert_eq!(told.matches("WARNING").count(), 2);
}

#[test]
fn a_token_of_a_site_is_of_no_use_to_another() {
    let lab = Lab::new();
    lab.sql("A", crate::support::TODO);
    lab.json(&["init", &lab.db("A")]);
    let site = lab.json(&["status", &lab.db("A")])["site"].as_str().expect("an id").to_owned();
    let store = lab.path("hub").display().to_string();
    let args = ["token", "create", "--store", &store, "--database", "todo", "--site", &site];
    let made = lab.json(&args);
    assert_eq!(made["sites"][0], site.as_str());
    assert!(lab.text(&["token", "list", "--store", &store]).contains(&site));
    let token = made["token"].as_str().expect("a token").to_owned();
    let hub = Hub::start(Path::new(&store), &[]);
    let url = format!("http://{}/todo", hub.address);
    lab.json(&["remote", "add", &lab.db("A"), "origin", &url, "--token", &token]);
    lab.json(&["push", &lab.db("A")]);
    lab.json(&["clone", &url, &lab.db("B"), "--token", &token]);
    lab.sql("A", "INSERT INTO note VALUES('of A')");
    lab.json(&["sync", &lab.db("A")]);
    lab.json(&["pull", &lab.db("B")]);
    lab.sql("B", "INSERT INTO note VALUES('of B')");
    let told = lab.refused(&["push", &lab.db("B")]);
    let other = lab.json(&["status", &lab.db("B")])["site"].as_str().expect("an id").to_owned();
    let names = |site: &str| told.contains(site);
    assert!(told.contains("bound to site") && names(&site) && names(&other), "{told}");
    // A file that goes on under another id says so, though it may send nothing as that.
    std::fs::copy(lab.path("A.db"), lab.path("backup")).unwrap();
    lab.sql("A", "INSERT INTO note VALUES('lost')");
    lab.json(&["sync", &lab.db("A")]);
    std::fs::copy(lab.path("backup"), lab.path("A.db")).unwrap();
    lab.sql("A", "INSERT INTO note VALUES('since')");
    let told = stderr(&synqlite(&["sync", &lab.db("A")]));
    let now = lab.json(&["status", &lab.db("A")])["site"].as_str().expect("an id").to_owned();
    assert!(told.contains("restored from an older copy") && told.contains(&now), "{told}");
    // The hub cannot see who sealed something, and says so.
    let key = lab.path("key").display().to_string();
    lab.json(&["key", "new", &key]);
    lab.sql("C", crate::support::TODO);
    lab.json(&["init", &lab.db("C")]);
    let add =
        ["remote", "add", &lab.db("C"), "origin", &url, "--token", &token, "--key-file", &key];
    lab.json(&add);
    let told = lab.refused(&["push", &lab.db("C")]);
    assert!(told.contains("sealed"), "{told}");
    for wrong in [&["--site", "x"][..], &["--site", &site, "--scope", "read"]] {
        let output = synqlite(&[&args[..6], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}
