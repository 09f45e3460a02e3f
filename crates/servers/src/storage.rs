//! Object storage: `moto_server`, which keeps it in memory, or what `SYNQLITE_S3` names.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A variable of the environment: the port of 127.0.0.1 where other storage listens that speaks S3.
/// It has a bucket `team`; keys are in the usual variables.
const OTHER: &str = "SYNQLITE_S3_PORT";

/// A server with a bucket `team`.
#[derive(Debug)]
pub struct Storage {
    child: Option<Child>,
    /// Where it listens.
    pub port: u16,
    /// Tells one test's keys from another's.
    tag: String,
}

impl Storage {
    /// Why there is none, if there is none.
    pub fn start() -> Result<Storage, &'static str> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let tag = format!("{:x}", since.as_nanos());
        if let Some(port) = std::env::var(OTHER).ok().and_then(|port| port.parse().ok()) {
            return Ok(Storage { child: None, port, tag });
        }
        loop {
            let port = crate::free_port();
            let mut command = Command::new("moto_server");
            command.args(["-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn();
            let child =
                child.map_err(|_| "there is no moto_server (pip install 'moto[server]')")?;
            let mut storage = Storage { child: Some(child), port, tag: tag.clone() };
            for _ in 0..600 {
                let made = storage.make_bucket().is_ok_and(|a| a.starts_with(b"HTTP/1.1 200"));
                if storage.has_ended() {
                    // Somebody else was given that port meanwhile.
                    break;
                }
                if made {
                    return Ok(storage);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            if !storage.has_ended() {
                return Err("moto_server does not answer");
            }
        }
    }

    fn has_ended(&mut self) -> bool {
        let ended = self.child.as_mut().map(Child::try_wait);
        ended.is_some_and(|ended| ended.is_ok_and(|status| status.is_some()))
    }

    fn make_bucket(&self) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let head =
            "PUT /team HTTP/1.1\r\nHost: s3\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// A prefix that nobody else uses.
    pub fn url(&self, name: &str) -> String {
        format!("s3://team/{}/{name}", self.tag)
    }

    /// What the environment of its users says.
    pub fn settings(&self) -> Vec<(String, String)> {
        settings(self.port)
    }
}

/// The same, for whoever listens in front of it.
pub(crate) fn settings(port: u16) -> Vec<(String, String)> {
    let endpoint = format!("http://127.0.0.1:{port}");
    let key = |name: &str| std::env::var(name).unwrap_or_else(|_| "test".to_owned());
    let settings = [
        ("AWS_ACCESS_KEY_ID", key("AWS_ACCESS_KEY_ID")),
        ("AWS_SECRET_ACCESS_KEY", key("AWS_SECRET_ACCESS_KEY")),
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ];
    settings.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
