//! As much of HTTP/1.1 as a page on this machine needs: one request a connection, read whole within limits,
//! and one answer.
//!
//! Whatever a client sends, it costs no more memory than [`HEAD`] and [`BODY`] and no more time than
//! [`PATIENCE`]. Every answer carries the headers that keep a browser from loading, framing or keeping anything.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes of a request line and headers, at most.
const HEAD: usize = 16 << 10;
/// Headers, at most.
const HEADERS: usize = 64;
/// Bytes of a body, at most: decisions on some thousand records.
const BODY: usize = 1 << 20;
/// Time for a request to come, and for an answer to go.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Nothing from elsewhere is loaded, nothing is made of text but text, and nobody shows the page in his own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// A request.
#[derive(Debug)]
pub struct Request {
    /// Its method.
    pub method: String,
    /// Its path, without what follows a question mark.
    pub path: String,
    /// What follows the question mark.
    pub query: String,
    headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header; `None` also if it is there more than once, as nobody can tell which counts.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    /// The value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<&str> {
        let cookies = self.header("cookie")?.split(';').filter_map(|c| c.trim().split_once('='));
        cookies.into_iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }
}

/// Why a request cannot be answered as asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Bad {
    /// Nobody is there any more, or never said anything: there is nobody to answer.
    Silent,
    /// It is no HTTP/1.1.
    Malformed,
    /// It is larger than anything that the page sends.
    Large,
    /// Its body has no length.
    Length,
}

impl Bad {
    /// What to answer.
    pub fn answer(&self) -> Option<Response> {
        match self {
            Bad::Silent => None,
            Bad::Malformed => Some(Response::text(400, "this is not a request of HTTP/1.1")),
            Bad::Large => Some(Response::text(413, "the request is too large")),
            Bad::Length => Some(Response::text(411, "the request's body has no length")),
        }
    }
}

/// An answer.
pub struct Response {
    status: u16,
    kind: &'static str,
    cookie: Option<String>,
    body: Vec<u8>,
}

impl Response {
    /// An answer of this kind.
    pub fn new(status: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response { status, kind, cookie: None, body: body.into() }
    }

    /// One in words.
    pub fn text(status: u16, text: &str) -> Response {
        Response::new(status, "text/plain; charset=utf-8", text)
    }

    /// One for the page's script.
    pub fn json(status: u16, json: &serde_json::Value) -> Response {
        Response::new(status, "application/json", json.to_string())
    }

    /// Sets a cookie.
    pub fn cookie(self, cookie: String) -> Response {
        Response { cookie: Some(cookie), ..self }
    }

    fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            204 => "No Content",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            411 => "Length Required",
            413 => "Content Too Large",
            415 => "Unsupported Media Type",
            421 => "Misdirected Request",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        let cookie = self.cookie.as_ref().map(|c| format!("Set-Cookie: {c}\r\n"));
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}\
             Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\n\
             X-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n\
             Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Connection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len(),
            cookie.unwrap_or_default(),
        )
    }
}

/// Reads a request.
pub fn read(stream: &mut impl Read) -> Result<Request, Bad> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let (length, mut request) = loop {
        match head(&bytes)? {
            Some((length, request)) => break (length, request),
            None if bytes.len() > HEAD => return Err(Bad::Large),
            None => more(stream, &mut bytes, until)?,
        }
    };
    if request.header("transfer-encoding").is_some() {
        return Err(Bad::Length);
    }
    let said = request.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-length"));
    let body = match request.header("content-length") {
        Some(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        None if !said => Some(0),
        _ => return Err(Bad::Malformed),
    };
    // A number too large for a machine is too large for us.
    let body = body.filter(|body| *body <= BODY).ok_or(Bad::Large)?;
    while bytes.len() < length + body {
        more(stream, &mut bytes, until)?;
    }
    request.body = bytes[length..length + body].to_vec();
    Ok(request)
}

fn more(stream: &mut impl Read, bytes: &mut Vec<u8>, until: Instant) -> Result<(), Bad> {
    let mut part = [0; 8 << 10];
    if Instant::now() >= until {
        return Err(Bad::Silent);
    }
    match stream.read(&mut part) {
        Ok(n @ 1..) => bytes.extend(&part[..n]),
        Err(e) if e.kind() == ErrorKind::Interrupted => {}
        Ok(_) | Err(_) => return Err(Bad::Silent),
    }
    Ok(())
}

/// The request line and headers, and their length, once all of them are there.
fn head(bytes: &[u8]) -> Result<Option<(usize, Request)>, Bad> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut parsed = httparse::Request::new(&mut headers);
    let length = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length <= HEAD => length,
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Bad::Large);
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(Bad::Malformed),
    };
    let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
        return Err(Bad::Malformed);
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let text = |value: &[u8]| String::from_utf8(value.to_vec()).map_err(|_| Bad::Malformed);
    let headers = parsed.headers.iter().map(|h| Ok((h.name.to_owned(), text(h.value)?)));
    let headers = headers.collect::<Result<_, Bad>>()?;
    let [method, path, query] = [method, path, query].map(str::to_owned);
    Ok(Some((length, Request { method, path, query, headers, body: Vec::new() })))
}

/// Writes an answer and ends the connection. Who went away gets none.
pub fn answer(mut stream: TcpStream, response: &Response) {
    let sent = stream
        .write_all(response.head().as_bytes())
        .and_then(|()| stream.write_all(&response.body))
        .and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    // What was sent and not read would make the system drop the answer: a little of it is read.
    let mut rest = [0; 8 << 10];
    let (until, mut left) = (Instant::now() + Duration::from_secs(1), 2 * BODY);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    while sent.is_ok() && left > 0 && Instant::now() < until {
        match stream.read(&mut rest) {
            Ok(n @ 1..) => left = left.saturating_sub(n),
            Ok(_) | Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Request, Bad> {
        read(&mut text.as_bytes())
    }

    #[test]
    fn a_request_is_read_whole() {
        let request = of("POST /a/b?known=3 HTTP/1.1\r\nHost: x\r\nCookie: a=1; b=2\r\n\
                          Content-Length: 4\r\n\r\nbodyand more")
        .unwrap();
        assert_eq!((&*request.method, &*request.path), ("POST", "/a/b"));
        assert_eq!((&*request.query, &*request.body), ("known=3", &b"body"[..]));
        assert_eq!((request.header("HOST"), request.header("none")), (Some("x"), None));
        assert_eq!((request.cookie("b"), request.cookie("c")), (Some("2"), None));
    }

    #[test]
    fn what_comes_a_byte_at_a_time_is_read_too() {
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
                (out[0], self.0) = (*first, rest);
                Ok(1)
            }
        }
        let text = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nok";
        assert_eq!(read(&mut Slow(text.as_bytes())).unwrap().body, b"ok");
        assert_eq!(read(&mut Slow(&text.as_bytes()[..30])).unwrap_err(), Bad::Silent);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        assert_eq!(of("").unwrap_err(), Bad::Silent);
        assert_eq!(of("GET / HTTP/1.1\r\nHost: x\r\n").unwrap_err(), Bad::Silent);
        for text in [
            "\u{16}\u{3}\u{1}\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        ] {
            assert_eq!(of(text).unwrap_err(), Bad::Malformed, "{text}");
        }
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(of(chunked).unwrap_err(), Bad::Length);
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_is_kept() {
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD));
        assert_eq!(of(&long).unwrap_err(), Bad::Large);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS + 1));
        assert_eq!(of(&many).unwrap_err(), Bad::Large);
        for length in [BODY + 1, usize::MAX] {
            let text = format!("POST / HTTP/1.1\r\nContent-Length: {length}0\r\n\r\n");
            assert_eq!(of(&text).unwrap_err(), Bad::Large);
        }
    }

    #[test]
    fn a_header_that_is_there_twice_is_none() {
        let request = of("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").unwrap();
        assert_eq!(request.header("host"), None);
    }
}
