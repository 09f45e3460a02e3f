//! A client for load: one connection, one request at a time, as little work as possible, so that
//! what is measured is the hub and not the measuring.

use crate::{Error, Result};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest silence of a hub.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection that is kept open.
pub struct Client {
    stream: TcpStream,
    host: String,
    token: String,
    /// What arrived; of it `parsed` bytes belong to answers that are over.
    arrived: Vec<u8>,
    parsed: usize,
}

/// An answer.
pub struct Answer<'a> {
    /// Status.
    pub status: u16,
    /// Its head, as it came.
    pub head: &'a str,
    /// Its body.
    pub body: &'a [u8],
}

impl Answer<'_> {
    /// The value of a header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(self.head, name)
    }
}

impl Client {
    /// Connects.
    pub fn connect(address: SocketAddr, token: &str) -> Result<Client> {
        let failed = |e: io::Error| broken(&format!("connecting to {address}"), &e);
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let (host, token) = (address.to_string(), token.to_owned());
        Ok(Client { stream, host, token, arrived: Vec::with_capacity(16 << 10), parsed: 0 })
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> Result<Answer<'_>> {
        self.ask_with(method, path, "", body)
    }

    /// The same with more lines in the head, each ended.
    pub fn ask_with(
        &mut self,
        method: &str,
        path: &str,
        lines: &str,
        body: &[u8],
    ) -> Result<Answer<'_>> {
        self.send(method, path, lines, body)?;
        let failed = |e: io::Error| broken(&format!("{method} {path}"), &e);
        let (head, body) = self.answer().map_err(failed)?;
        let head = std::str::from_utf8(&self.arrived[head]).unwrap_or_default();
        let status = head.get(9..12).and_then(|digits| digits.parse().ok());
        let status = status.ok_or_else(|| Error::Bad(format!("{method} {path}: no HTTP")))?;
        Ok(Answer { status, head, body: &self.arrived[body] })
    }

    /// Reads an object and throws it away: its length.
    pub fn drain(&mut self, path: &str) -> Result<u64> {
        self.send("GET", path, "", b"")?;
        let failed = |e: io::Error| broken(&format!("GET {path}"), &e);
        self.arrived.drain(..self.parsed);
        self.parsed = 0;
        let end = self.head().map_err(failed)?;
        let head = String::from_utf8_lossy(&self.arrived[..end]).into_owned();
        let length = header(&head, "content-length").and_then(|n| n.parse::<u64>().ok());
        let length = length.ok_or_else(|| Error::Bad(format!("GET {path}: no length: {head}")))?;
        let mut got = (self.arrived.len() - end) as u64;
        self.arrived.clear();
        let mut buffer = vec![0; 256 << 10];
        while got < length {
            match self.stream.read(&mut buffer).map_err(failed)? {
                0 => break,
                n => got += n as u64,
            }
        }
        Ok(got)
    }

    fn send(&mut self, method: &str, path: &str, lines: &str, body: &[u8]) -> Result<()> {
        let length = match method {
            "GET" => String::new(),
            _ => format!("Content-Length: {}\r\n", body.len()),
        };
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{length}{lines}\r\n",
            self.host, self.token
        )
        .into_bytes();
        request.extend_from_slice(body);
        let failed = |e: io::Error| broken(&format!("{method} {path}"), &e);
        self.stream.write_all(&request).map_err(failed)
    }

    /// Reads one answer: where its head and its body lie.
    fn answer(&mut self) -> io::Result<(std::ops::Range<usize>, std::ops::Range<usize>)> {
        self.arrived.drain(..self.parsed);
        self.parsed = 0;
        let end = self.head()?;
        let head = String::from_utf8_lossy(&self.arrived[..end]).into_owned();
        let chunked = header(&head, "transfer-encoding").is_some_and(|how| how == "chunked");
        let stop = match header(&head, "content-length").and_then(|n| n.parse::<usize>().ok()) {
            Some(length) => end + length,
            None if chunked => self.unchunk(end)?,
            None => end,
        };
        while self.arrived.len() < stop {
            self.more()?;
        }
        self.parsed = self.parsed.max(stop);
        Ok((0..end, end..stop))
    }

    /// Reads until the head is there: its length.
    fn head(&mut self) -> io::Result<usize> {
        loop {
            if let Some(at) = self.arrived.windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(at + 4);
            }
            self.more()?;
        }
    }

    /// Joins the chunks of a body that begins at `start`: where it ends then.
    fn unchunk(&mut self, start: usize) -> io::Result<usize> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "a chunk without a length");
        let (mut at, mut joined) = (start, start);
        loop {
            let line = loop {
                let rest = &self.arrived[at..];
                if let Some(length) = rest.windows(2).position(|two| two == b"\r\n") {
                    break length;
                }
                self.more()?;
            };
            let text = std::str::from_utf8(&self.arrived[at..at + line]).map_err(|_| bad())?;
            let length = usize::from_str_radix(text.trim(), 16).map_err(|_| bad())?;
            let from = at + line + 2;
            while self.arrived.len() < from + length + 2 {
                self.more()?;
            }
            self.arrived.copy_within(from..from + length, joined);
            joined += length;
            at = from + length + 2;
            if length == 0 {
                self.parsed = at;
                return Ok(joined);
            }
        }
    }

    fn more(&mut self) -> io::Result<()> {
        let had = self.arrived.len();
        self.arrived.resize(had + (64 << 10), 0);
        let got = self.stream.read(&mut self.arrived[had..]);
        self.arrived.truncate(had + *got.as_ref().unwrap_or(&0));
        match got? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let found = lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}

fn broken(doing: &str, error: &io::Error) -> Error {
    Error::Bad(format!("{doing}: {error}; the hub may have stopped"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers what it is told, byte by byte, after each request.
    fn hub(answers: Vec<&'static [u8]>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).unwrap();
                for piece in answer.chunks(7) {
                    stream.write_all(piece).unwrap();
                }
            }
        });
        address
    }

    #[test]
    fn answers_are_read_whole_and_in_turn() {
        let address = hub(vec![
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nSynqlite-Upto: 9\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\nno",
        ]);
        let mut client = Client::connect(address, "t").unwrap();
        let answer = client.ask("GET", "/a", b"").unwrap();
        assert_eq!((answer.status, answer.body), (200, &b"hello"[..]));
        assert_eq!(answer.header("synqlite-upto"), Some("9"));
        assert_eq!(client.ask("PUT", "/b", b"body").unwrap().body, b"abcde");
        assert_eq!(client.ask("GET", "/c", b"").unwrap().status, 204);
        let answer = client.ask("GET", "/d", b"").unwrap();
        assert_eq!((answer.status, answer.body), (404, &b"no"[..]));
        let error = client.ask("GET", "/e", b"").err().unwrap().to_string();
        assert!(error.contains("GET /e"), "{error}");
    }
}
