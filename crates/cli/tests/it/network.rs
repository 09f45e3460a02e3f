//! A hub as a process of its own, and a proxy before it that counts requests and does harm.

use crate::support::Lab;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A hub.
pub struct Hub {
    child: Child,
    pub address: SocketAddr,
    /// Its operator's.
    token: String,
}

impl Hub {
    pub fn start(store: &Path, more: &[&str]) -> Hub {
        Hub::start_at("127.0.0.1:0", store, more)
    }

    pub fn start_at(listen: &str, store: &Path, more: &[&str]) -> Hub {
        let mut child = Command::new(env!("CARGO_BIN_EXE_synqlite"))
            .args(["serve", "--json", "--listen", listen, "--log", "error", "--store"])
            .arg(store)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let told: Value = serde_json::from_str(&line).expect("JSON");
        let url = told["listening"].as_str().expect("a URL");
        let address = url.trim_start_matches("http://").parse().expect("an address");
        Hub { child, address, token: String::new() }
    }

    /// One that lets everybody in, and whose operator is not to be trusted.
    pub fn open(lab: &Lab) -> Hub {
        let store = lab.path("hub");
        let path = store.display().to_string();
        let args = ["token", "create", "--store", &path, "--database", "*", "--scope", "admin"];
        let token = lab.json(&args)["token"].as_str().expect("a token").to_owned();
        let mut hub = Hub::start(&store, &["--open"]);
        hub.token = token;
        hub
    }

    pub fn url(&self, place: &str) -> String {
        format!("http://{}/{place}", self.address)
    }

    /// Sends a request; its status and body.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).expect("the hub listens");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Length: {length}\r\n\r\n",
            self.token
        );
        stream.write_all(&[head.as_bytes(), body].concat()).expect("it takes the request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        (status, answer.split_off(end))
    }

    /// Names of the objects of a place, in the order in which they came.
    pub fn objects(&self, place: &str, ending: &str) -> Vec<String> {
        let (status, body) = self.ask("GET", &format!("/{place}/objects"), b"");
        assert_eq!(status, 200);
        let text = String::from_utf8(body).expect("text");
        let names = text.lines().filter_map(|line| line.split(' ').nth(2));
        names.filter(|name| name.ends_with(ending)).map(str::to_owned).collect()
    }

    pub fn object(&self, place: &str, name: &str) -> Vec<u8> {
        let (status, body) = self.ask("GET", &format!("/{place}/objects/{name}"), b"");
        assert_eq!(status, 200, "{name}");
        body
    }

    /// What only a hub that is not to be trusted does: another content under a name.
    pub fn replace(&self, place: &str, name: &str, bytes: &[u8]) {
        self.remove(place, name);
        assert_eq!(self.ask("PUT", &format!("/{place}/objects/{name}"), bytes).0, 201, "{name}");
    }

    pub fn remove(&self, place: &str, name: &str) {
        assert_eq!(self.ask("DELETE", &format!("/{place}/objects/{name}"), b"").0, 204, "{name}");
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Stands before a hub.
pub struct Proxy {
    pub address: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    requests: AtomicUsize,
    received: AtomicU64,
    connections: AtomicU64,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// Every piece comes late.
    Delay,
    /// It is closed before anything is said.
    Drop,
    /// It is closed once so many bytes of answers have come.
    Truncate(u64),
    /// It is closed once so many bytes of requests have gone, with what follows unread.
    Reset(u64),
    /// What is asked is asked a second time, by another connection.
    Duplicate,
}

impl Proxy {
    /// Passes everything on, and counts.
    pub fn counting(hub: &Hub) -> Proxy {
        Proxy::start(hub.address, None)
    }

    /// Does harm to about half of the connections.
    pub fn harming(hub: &Hub, seed: u64) -> Proxy {
        Proxy::start(hub.address, Some(seed))
    }

    fn start(hub: SocketAddr, seed: Option<u64>) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let counts = Arc::new(Counts::default());
        let told = counts.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let n = counts.connections.fetch_add(1, Ordering::Relaxed);
                let fault = seed.map_or(Fault::None, |seed| fault(seed, n));
                let Ok(server) = TcpStream::connect(hub) else { continue };
                let _ = client.set_nodelay(true).and(server.set_nodelay(true));
                pass(client, server, fault, &counts);
            }
        });
        Proxy { address, counts: told }
    }

    pub fn url(&self, place: &str) -> String {
        format!("http://{}/{place}", self.address)
    }

    /// Requests since the last call, and bytes that were answered.
    pub fn counted(&self) -> (usize, u64) {
        let Counts { requests, received, .. } = &*self.counts;
        (requests.swap(0, Ordering::Relaxed), received.swap(0, Ordering::Relaxed))
    }
}

/// A number that looks random, the same for the same seed.
pub fn mix(seed: u64, n: u64) -> u64 {
    let mut x = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn fault(seed: u64, n: u64) -> Fault {
    let random = mix(seed, n);
    let bytes = (random >> 8) % 3_000;
    match random % 10 {
        0 => Fault::Drop,
        1 => Fault::Truncate(bytes),
        2 => Fault::Reset(bytes % 600),
        3 => Fault::Duplicate,
        4 => Fault::Delay,
        _ => Fault::None,
    }
}

fn pass(client: TcpStream, server: TcpStream, fault: Fault, counts: &Arc<Counts>) {
    if fault == Fault::Drop {
        return;
    }
    let (from, to) = (client.try_clone().expect("a socket"), server.try_clone().expect("a socket"));
    let twin = (fault == Fault::Duplicate)
        .then(|| TcpStream::connect(server.peer_addr().expect("an address")).ok())
        .flatten();
    let counts = (counts.clone(), counts.clone());
    std::thread::spawn(move || {
        let mut left = if let Fault::Reset(bytes) = fault { bytes } else { u64::MAX };
        pump(&from, |bytes| {
            let heads = bytes.windows(11).filter(|window| window == b" HTTP/1.1\r\n").count();
            counts.0.requests.fetch_add(heads, Ordering::Relaxed);
            if let Some(mut twin) = twin.as_ref() {
                let _ = twin.write_all(bytes);
            }
            forward(&to, bytes, &mut left, fault)
        });
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let mut left = if let Fault::Truncate(bytes) = fault { bytes } else { u64::MAX };
        pump(&server, |bytes| {
            counts.1.received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            forward(&client, bytes, &mut left, fault)
        });
        let _ = server.shutdown(Shutdown::Both);
        let _ = client.shutdown(Shutdown::Both);
    });
}

/// Hands on what comes until it ends, or is enough.
fn pump(mut from: &TcpStream, mut to: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if !to(&buffer[..n]) {
            return;
        }
    }
}

/// Whether more may follow.
fn forward(mut to: &TcpStream, bytes: &[u8], left: &mut u64, fault: Fault) -> bool {
    if fault == Fault::Delay {
        std::thread::sleep(Duration::from_millis(1));
    }
    let n = (bytes.len() as u64).min(*left) as usize;
    *left -= n as u64;
    to.write_all(&bytes[..n]).is_ok() && n == bytes.len()
}
