//! `moto_server`: object storage in memory, as S3 has it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server with a bucket `team`.
#[derive(Debug)]
pub struct Moto {
    child: Child,
    /// Where it listens.
    pub port: u16,
}

impl Moto {
    /// Why there is none, if there is none.
    pub fn start() -> Result<Moto, &'static str> {
        loop {
            let port = crate::free_port();
            let mut command = Command::new("moto_server");
            command.args(["-p", &port.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn();
            let child =
                child.map_err(|_| "there is no moto_server (pip install 'moto[server]')")?;
            let mut moto = Moto { child, port };
            for _ in 0..600 {
                let made = moto.make_bucket().is_ok_and(|a| a.starts_with(b"HTTP/1.1 200"));
                if moto.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    // Somebody else was given that port meanwhile.
                    break;
                }
                if made {
                    return Ok(moto);
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            if moto.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                return Err("moto_server does not answer");
            }
        }
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

    /// What the environment of its users says.
    pub fn settings(&self) -> Vec<(String, String)> {
        settings(self.port)
    }
}

/// The same, for whoever listens in front of it.
pub(crate) fn settings(port: u16) -> Vec<(String, String)> {
    let endpoint = format!("http://127.0.0.1:{port}");
    let settings = [
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_ENDPOINT_URL", &endpoint),
        ("AWS_ALLOW_HTTP", "true"),
    ];
    settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
