//! Loads a hub on this machine and prints what it did, as a line of JSON.
//!
//! ```sh
//! synqlite serve --open --store hub &
//! cargo run --release -p synqlite-hub --example load -- push 127.0.0.1:7700 64 10
//! ```
//!
//! `push`, `pull` or `list`, the address, the number of clients, seconds; then optionally pushes a
//! second in all (0: as fast as it goes) and the number of places (1). Each client keeps one connection
//! and sends one request after another. `push` puts batches of 1 KiB, to the places in turn; `pull`
//! reads the batches of `seed` with as many clients and places; `list` reads lists of 100
//! with their content. Before them, `seed` puts 1000 batches a client. `fill` puts one batch into each of
//! so many places and stops. At most 256 clients,
//! 120 seconds and 2,000,000 places; loopback only.

use std::sync::Arc;

use std::time::{Duration, Instant};
use synqlite_objects::ObjectName;
use synqlite_wire::Id;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

type Failed = Box<dyn std::error::Error + Send + Sync>;

struct Plan {
    what: String,
    address: String,
    clients: u64,
    time: Duration,
    rate: u64,
    places: u64,
}

impl Plan {
    fn place(&self, n: u64) -> String {
        format!("load{}", n % self.places)
    }

    /// The nth batch of a client.
    fn name(&self, client: u64, n: u64) -> ObjectName {
        let mut site = [0; 16];
        site[..8].copy_from_slice(&client.to_be_bytes());
        ObjectName::batch(Id([7; 16]), Id(site), n, n + 1)
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Result<Connection, Failed> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let stream = BufReader::with_capacity(64 << 10, stream);
        Ok(Connection { stream, line: String::new(), body: Vec::new() })
    }

    /// Status of the answer; its body stays in `body`.
    async fn ask(&mut self, request: &[u8]) -> Result<u16, Failed> {
        self.stream.write_all(request).await?;
        let (mut status, mut length) = (0, 0);
        loop {
            self.line.clear();
            if self.stream.read_line(&mut self.line).await? == 0 {
                return Err("the hub hung up".into());
            }
            if status == 0 {
                status = self.line.get(9..12).unwrap_or_default().parse()?;
            } else if let Some(n) = self.line.strip_prefix("content-length: ") {
                length = n.trim().parse()?;
            } else if self.line == "\r\n" {
                break;
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body).await?;
        Ok(status)
    }
}

async fn client(plan: Arc<Plan>, id: u64, until: Instant) -> Result<Vec<Duration>, Failed> {
    let mut connection = Connection::open(&plan.address).await?;
    let mut took = Vec::new();
    // Not compressible, as sealed batches are not.
    let content: Vec<u8> = (0..1024_u64).map(|i| ((i * i * 2_654_435_761) >> 13) as u8).collect();
    let pause =
        (plan.rate > 0).then(|| Duration::from_secs_f64(plan.clients as f64 / plan.rate as f64));
    let begin = Instant::now();
    // A run goes on where an earlier one ended: names are by time.
    let base = std::time::UNIX_EPOCH.elapsed()?.as_millis() as u64 * 1000;
    let mut n = 0;
    while Instant::now() < until {
        let place = plan.place(n * plan.clients + id);
        let request = match plan.what.as_str() {
            "fill" => {
                if n * plan.clients + id >= plan.places {
                    break;
                }
                put(&place, &plan.name(id, n), &content)
            }
            "push" => put(&place, &plan.name(id, base + n), &content),
            "pull" => get(&format!("/{place}/objects/{}", plan.name(id, n % 1000))),
            "list" => {
                get(&format!("/{place}/objects?after={}&limit=100&prefix=4096", n % 1000 * 10))
            }
            "seed" => {
                if n == 1000 {
                    break;
                }
                put(&place, &plan.name(id, n), &content)
            }
            other => return Err(format!("{other}: push, pull, list, seed or fill").into()),
        };
        if let Some(pause) = pause {
            let due = begin + pause * n as u32 + pause / plan.clients as u32 * id as u32;
            tokio::time::sleep_until(due.into()).await;
        }
        let since = Instant::now();
        let status = connection.ask(&request).await?;
        took.push(since.elapsed());
        if !matches!(status, 200 | 201) {
            return Err(format!("{status}: {}", String::from_utf8_lossy(&connection.body)).into());
        }
        n += 1;
    }
    Ok(took)
}

fn put(place: &str, name: &ObjectName, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head = format!(
        "PUT /{place}/objects/{name} HTTP/1.1\r\nHost: hub\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), content].concat()
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: hub\r\n\r\n").into_bytes()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, other: u64| args.get(i).map_or(Ok(other), |text| text.parse());
    let [what, address] = [0, 1].map(|i| args.get(i).cloned().unwrap_or_default());
    if !address.starts_with("127.0.0.1:") {
        return Err("give what to do and an address of this machine: push 127.0.0.1:7700".into());
    }
    let plan = Arc::new(Plan {
        what,
        address,
        clients: number(2, 64)?.clamp(1, 256),
        time: Duration::from_secs(number(3, 10)?.clamp(1, 120)),
        rate: number(4, 0)?,
        places: number(5, 1)?.clamp(1, 2_000_000),
    });
    let begin = Instant::now();
    let tasks: Vec<_> = (0..plan.clients)
        .map(|id| {
            let plan = plan.clone();
            let until = begin + plan.time;
            tokio::spawn(client(plan, id, until))
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await??);
    }
    let seconds = begin.elapsed().as_secs_f64();
    all.sort();
    let at = |part: f64| {
        let i = ((all.len() as f64 * part) as usize).min(all.len().saturating_sub(1));
        all.get(i).map_or(0.0, |t| t.as_secs_f64() * 1e3)
    };
    println!(
        "{}",
        serde_json::json!({
            "what": plan.what, "clients": plan.clients, "places": plan.places, "rate": plan.rate,
            "requests": all.len(), "seconds": seconds, "per_second": all.len() as f64 / seconds,
            "ms": {"p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "max": at(1.0)},
        })
    );
    Ok(())
}
