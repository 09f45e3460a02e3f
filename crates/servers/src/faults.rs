//! A proxy that answers some requests itself: with 500, with 503, with 412 after it has passed a put
//! on, or not at all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// The proxy. It goes on until the process ends.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Where it listens.
    pub port: u16,
}

impl Faults {
    /// In front of a port. `fault` says which of the [`KINDS`] of faults the nth request meets.
    pub fn before(port: u16, fault: impl Fn(u64) -> Option<u64> + Send + 'static) -> Faults {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address").port();
        std::thread::spawn(move || {
            for (n, client) in listener.incoming().flatten().enumerate() {
                let fault = fault(n as u64);
                std::thread::spawn(move || serve(client, port, fault));
            }
        });
        Faults { port: own }
    }

    /// Of 100 requests so many meet one of all faults. The same seed draws the same, as far as
    /// requests come in the same order.
    pub fn at_random(port: u16, seed: u64, percent: u64) -> Faults {
        Faults::before(port, move |n| {
            let drawn = draw(seed.wrapping_add(n));
            (drawn % 100 < percent).then_some(drawn / 100 % KINDS)
        })
    }

    /// What the environment of the users of a stand-in for S3 says.
    pub fn settings(&self) -> Vec<(String, String)> {
        crate::storage::settings(self.port)
    }
}

/// Faults: 500, 503, no answer, no answer though it was done, 412 though it was done.
pub const KINDS: u64 = 5;

/// SplitMix64.
fn draw(n: u64) -> u64 {
    let z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn refuse(mut client: &TcpStream, status: u32) {
    let head = format!("HTTP/1.1 {status} Fault\r\n");
    let _ = write!(client, "{head}content-length: 0\r\nconnection: close\r\n\r\n");
}

fn serve(client: TcpStream, port: u16, fault: Option<u64>) {
    let Some((head, body)) = request(&client) else { return };
    match fault {
        Some(0) => return refuse(&client, 500),
        Some(1) => return refuse(&client, 503),
        Some(2) => return,
        _ => {}
    }
    let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let head = head.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    let _ = server.write_all(head.as_bytes()).and_then(|()| server.write_all(&body));
    let mut answer = Vec::new();
    let _ = server.read_to_end(&mut answer);
    let conditional = head.to_ascii_lowercase().contains("if-none-match");
    match fault {
        // It was done, and whoever asked does not hear of it.
        Some(3) => {}
        // Or hears that another was first.
        Some(_) if conditional => refuse(&client, 412),
        _ => drop((&client).write_all(&answer)),
    }
}

/// Head and body of a request.
fn request(client: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut client = BufReader::new(client.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if client.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    client.read_exact(&mut body).ok()?;
    Some((head, body))
}
