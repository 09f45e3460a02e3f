//! The hub that is measured: this program once more, as a process of its own.

use super::client::Client;
use crate::engine::Hub as Kind;
use crate::store::Label;
use crate::{Error, Result};
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use synqlite_hub::{Location, Reach, Scope, Settings, Token};

/// Ticks of the kernel's clock in a second, as `/proc` counts them on Linux.
const TICKS: f64 = 100.0;

/// Runs a hub until the standard input ends.
pub fn serve(store: &str) -> Result<()> {
    let hub = synqlite_hub::start(settings(store)?).map_err(failed)?;
    say!("{}", hub.url());
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(|e| Error::Bad(e.to_string()))?;
    hub.stop().map_err(failed)
}

fn settings(store: &str) -> Result<Settings> {
    let location = location(store)?;
    let settings = Settings::new(location, Arc::new(|| jiff::Timestamp::now().as_millisecond()));
    Ok(Settings { listen: "127.0.0.1:0".into(), ..settings })
}

/// A store by its name; for object storage with the keys that the environment has.
fn location(store: &str) -> Result<Location> {
    let aws: Vec<_> = std::env::vars().filter(|(name, _)| name.starts_with("AWS_")).collect();
    Ok(Location::parse(store).map_err(failed)?.with(&aws))
}

fn failed(error: synqlite_hub::Error) -> Error {
    Error::Bad(format!("the hub: {error}"))
}

/// What a hub of this kind is.
pub fn label(kind: Kind) -> Label {
    let version = format!("this project's hub {}", env!("CARGO_PKG_VERSION"));
    let keeps = match kind {
        Kind::Embedded => "in its own store",
        Kind::Postgres => "in PostgreSQL",
        Kind::Bucket => "in a bucket",
    };
    Label { version, settings: format!("keeps objects {keeps}; each is durable when answered") }
}

/// A running hub. It ends with this value.
pub struct Process {
    child: Child,
    address: SocketAddr,
    token: String,
    /// Tells the places of this process from those of others that share a store.
    tag: String,
}

impl Process {
    /// Starts a hub that keeps its objects in the folder `dir`, or where its kind does.
    pub fn start(dir: &Path, kind: Kind, elsewhere: Option<&str>) -> Result<Process> {
        let tag = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let store = match (kind, elsewhere) {
            (Kind::Embedded, _) => dir.join("hub").display().to_string(),
            (Kind::Postgres, Some(url)) => url.to_owned(),
            (Kind::Bucket, Some(url)) => format!("{url}/{tag}"),
            (Kind::Bucket, None) => {
                let needs =
                    "hub:bucket needs --bucket s3://BUCKET/PREFIX, a prefix that it may fill";
                return Err(Error::Bad(needs.into()));
            }
            (Kind::Postgres, None) => {
                let needs = "hub:postgres needs --postgres postgres://USER@HOST/DATABASE, a \
                             database that it may fill";
                return Err(Error::Bad(needs.into()));
            }
        };
        let (token, secret) =
            Token::make(Reach::All, Scope::Admin, 0, None, None).map_err(failed)?;
        location(&store)?.vault().add(token).map_err(failed)?;
        let broken = |e: io::Error| Error::Bad(format!("the hub cannot be started: {e}"));
        let mut child = Command::new(std::env::current_exe().map_err(broken)?)
            .args(["serve-hub", &store])
            .current_dir(if kind == Kind::Bucket { dir } else { Path::new(".") })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(broken)?;
        let mut line = String::new();
        if let Some(said) = child.stdout.take() {
            BufReader::new(said).read_line(&mut line).map_err(broken)?;
        }
        let address = line.trim().strip_prefix("http://").and_then(|a| a.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Bad("the hub did not start; it says why above".into()));
        };
        Ok(Process { child, address, token: secret, tag })
    }

    /// The name of a place.
    pub fn place(&self, kind: char, number: u64) -> String {
        format!("{kind}{number}-{}", self.tag)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A token that is good for everything.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// One more client.
    pub fn connect(&self) -> Result<Client> {
        Client::connect(self.address, &self.token)
    }

    /// Seconds of processor time that it took so far, user and system.
    pub fn processor(&self) -> Result<f64> {
        let stat = self.proc("stat")?;
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect::<Vec<_>>());
        let fields = fields.unwrap_or_default();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
        match (ticks(11), ticks(12)) {
            (Some(user), Some(system)) => Ok((user + system) / TICKS),
            _ => Err(Error::Bad("/proc does not tell the hub's processor time".into())),
        }
    }

    /// Bytes of memory that it has.
    pub fn memory(&self) -> Result<f64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        kb.map(|kb| kb * 1024.0)
            .ok_or_else(|| Error::Bad("/proc does not tell the hub's memory".into()))
    }

    fn proc(&self, what: &str) -> Result<String> {
        let path = format!("/proc/{}/{what}", self.child.id());
        std::fs::read_to_string(&path).map_err(Error::io(Path::new(&path)))
    }

    /// Stops it in an orderly way.
    pub fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        match self.child.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Error::Bad(format!("the hub ended with {status}"))),
            Err(e) => Err(Error::Bad(format!("the hub: {e}"))),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
