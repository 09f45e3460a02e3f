//! A plain HTTP/1.1 client, so that the tests see what is on the wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("no {name} in {self:?}"));
        value.parse().unwrap()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// How many objects a list with their beginnings has.
    pub fn listed(&self) -> usize {
        let (mut at, mut count) = (0, 0);
        while at < self.body.len() {
            let end = at + self.body[at..].iter().position(|&b| b == b'\n').expect("a line");
            let line = std::str::from_utf8(&self.body[at..end]).expect("a line");
            let length = line.split(' ').nth(3).and_then(|n| n.parse::<usize>().ok());
            at = end + 1 + length.expect("a length") + 1;
            count += 1;
        }
        count
    }

    pub fn lines(&self) -> Vec<&str> {
        self.text().lines().collect()
    }

    /// Fails with what was said unless the status is this one.
    pub fn expect(self, status: u16) -> Answer {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text} {:?}", self.headers);
        self
    }
}

/// Somebody who sends requests over one connection after another.
#[derive(Debug)]
pub struct Client {
    address: String,
    token: Option<String>,
    connection: Option<BufReader<TcpStream>>,
}

impl Client {
    /// `url` is what the hub says where it listens.
    pub fn new(url: &str, token: Option<&str>) -> Client {
        let address = url.strip_prefix("http://").expect("plain HTTP").to_owned();
        Client { address, token: token.map(str::to_owned), connection: None }
    }

    /// A request with a head of one's own; what comes back, unless the connection breaks.
    pub fn raw(&mut self, head: &str, body: &[u8]) -> std::io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(Duration::from_secs(90)))?;
                BufReader::new(stream)
            }
        };
        connection.get_mut().write_all(head.as_bytes())?;
        connection.get_mut().write_all(body)?;
        let bodiless = head.starts_with("HEAD");
        let answer = read(&mut connection, bodiless)?;
        crate::openapi::assert_described(head, answer.status);
        if answer.header("connection") != Some("close") {
            self.connection = Some(connection);
        }
        Ok(answer)
    }

    pub fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: hub\r\n");
        if let Some(token) = &self.token {
            head += &format!("Authorization: Bearer {token}\r\n");
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    pub fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let length = body.len().to_string();
        let mut all = headers.to_vec();
        if method == "PUT" {
            all.push(("Content-Length", &length));
        }
        let head = self.head(method, path, &all);
        self.raw(&head, body).unwrap_or_else(|e| panic!("{method} {path}: {e}"))
    }

    pub fn get(&mut self, path: &str) -> Answer {
        self.request("GET", path, &[], &[])
    }

    pub fn put(&mut self, path: &str, body: &[u8]) -> Answer {
        self.request("PUT", path, &[], body)
    }

    pub fn delete(&mut self, path: &str) -> Answer {
        self.request("DELETE", path, &[], &[])
    }
}

fn read(from: &mut BufReader<TcpStream>, bodiless: bool) -> std::io::Result<Answer> {
    let mut line = String::new();
    let mut next = |from: &mut BufReader<TcpStream>| {
        line.clear();
        match from.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok::<_, std::io::Error>(line.trim_end().to_owned()),
        }
    };
    let first = next(from)?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no status: {first}")))?;
    let mut headers = Vec::new();
    loop {
        let line = next(from)?;
        let Some((name, value)) = line.split_once(": ") else { break };
        headers.push((name.to_ascii_lowercase(), value.to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    let length: usize = answer.header("content-length").map_or(0, |n| n.parse().unwrap());
    if !bodiless {
        answer.body = vec![0; length];
        from.read_exact(&mut answer.body)?;
    }
    Ok(answer)
}
