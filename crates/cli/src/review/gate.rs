//! Who may use the page.
//!
//! The page shows what is in a database, and writes to it. So it must be reached by the one browser that its
//! user points at it: not by other users of the machine, not by pages of other origins in the same browser.
//!
//! - The server listens on 127.0.0.1, at a port that the system chooses.
//! - The address has a token that is good for one browser, once. It stands behind `#`, which browsers never
//!   send, and is exchanged for a cookie that no script can read and no other origin makes a browser send.
//! - A browser sends a cookie of one port to every other. So all is below a path that nobody else knows, and
//!   the cookie is for that path.
//! - A name of another machine can be made to mean this one (DNS rebinding): only requests to `127.0.0.1` or
//!   `localhost` at our port are answered.
//! - What changes something must come from the page itself: its origin is asked for.
//! - Wrong tokens are refused, and cost nothing: there are 2^128.

use super::http::{Request, Response};
use serde_json::json;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// What it takes to get in.
pub struct Gate {
    port: u16,
    /// The first part of every path.
    place: String,
    token: String,
    used: AtomicBool,
    session: String,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Denied {
    /// It was sent to another host, by its own words.
    Host,
    /// It is for a path outside of ours.
    Elsewhere,
    /// It changes something and comes from another origin, or does not say from where.
    Origin,
    /// It has no session.
    Session,
    /// It has a token that was used.
    Used,
    /// It has no token of ours.
    Token,
}

impl Denied {
    /// What to answer: people may read it.
    pub fn answer(&self) -> Response {
        let (status, code, what) = match self {
            Denied::Host => (421, "host", "this server answers to 127.0.0.1 and localhost only"),
            Denied::Elsewhere => (404, "path", "there is nothing here"),
            Denied::Origin => (403, "origin", "only the page itself may ask for this"),
            Denied::Session => (
                403,
                "session",
                "this browser has no part in this review. Open the address that `synqlite review` printed",
            ),
            Denied::Used => (
                403,
                "used",
                "this address has been used, and it is good for one browser, once. Stop \
                 `synqlite review` with Ctrl-C and run it again. If it was not you who used it, \
                 somebody else on this machine has seen the address: tell whoever runs it",
            ),
            Denied::Token => (
                403,
                "token",
                "this is not the address of this review. Open the one that `synqlite review` printed",
            ),
        };
        Response::json(status, &json!({"error": {"code": code, "message": what}}))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Whether two texts are the same, in a time that does not tell where they differ.
fn same(a: &str, b: &str) -> bool {
    let differ = a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b));
    a.len() == b.len() && differ == 0
}

impl Gate {
    /// A gate at this port.
    pub fn new(port: u16, mut random: impl FnMut() -> [u8; 16]) -> Gate {
        let mut secret = || hex(&random());
        let place = secret()[..16].to_owned();
        Gate { port, place, token: secret(), used: AtomicBool::new(false), session: secret() }
    }

    /// The address for the browser.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/#{}", self.port, self.place, self.token)
    }

    /// The path of a request below ours, if it is for us.
    pub fn path<'r>(&self, request: &'r Request) -> Result<&'r str, Denied> {
        let hosts = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{}", self.port));
        let host = request.header("host").unwrap_or_default();
        if !hosts.iter().any(|h| h.eq_ignore_ascii_case(host)) {
            return Err(Denied::Host);
        }
        let mut parts = request.path.strip_prefix('/').unwrap_or_default().splitn(2, '/');
        let path = match (parts.next(), parts.next()) {
            (Some(place), Some(path)) if same(place, &self.place) => path,
            _ => return Err(Denied::Elsewhere),
        };
        let foreign = request.method != "GET" && request.method != "HEAD";
        let origins = hosts.map(|host| format!("http://{host}"));
        let origin = request.header("origin").unwrap_or_default();
        if foreign && !origins.iter().any(|o| o.eq_ignore_ascii_case(origin)) {
            return Err(Denied::Origin);
        }
        Ok(path)
    }

    /// Whether a request has the session.
    pub fn knows(&self, request: &Request) -> Result<(), Denied> {
        match request.cookie(&self.cookie()) {
            Some(session) if same(session, &self.session) => Ok(()),
            _ => Err(Denied::Session),
        }
    }

    /// Exchanges the token for the cookie, once. Whoever has the cookie needs no token any more.
    pub fn exchange(&self, token: &str) -> Result<String, Denied> {
        if !same(token, &self.token) {
            return Err(Denied::Token);
        }
        if self.used.swap(true, Ordering::SeqCst) {
            return Err(Denied::Used);
        }
        let Gate { place, session, .. } = self;
        Ok(format!("{}={session}; Path=/{place}/; HttpOnly; SameSite=Strict", self.cookie()))
    }

    /// Its name, so that several reviews are told apart.
    fn cookie(&self) -> String {
        format!("synqlite-review-{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::review::http;

    fn gate() -> Gate {
        let mut n = 0;
        Gate::new(4711, || {
            n += 1;
            [n; 16]
        })
    }

    fn request(text: &str) -> Request {
        http::read(&mut format!("{text}\r\n\r\n").as_bytes()).unwrap()
    }

    const PLACE: &str = "0101010101010101";

    #[test]
    fn only_requests_to_this_machine_by_name_are_answered() {
        let gate = gate();
        let asked = |host: &str| {
            let request = request(&format!("GET /{PLACE}/records HTTP/1.1{host}"));
            gate.path(&request).map(str::to_owned)
        };
        for host in ["127.0.0.1:4711", "localhost:4711", "LOCALHOST:4711"] {
            assert_eq!(asked(&format!("\r\nHost: {host}")), Ok("records".into()), "{host}");
        }
        for host in [
            "\r\nHost: 127.0.0.1",
            "\r\nHost: 127.0.0.1:4712",
            "\r\nHost: evil.example:4711",
            "\r\nHost: 127.0.0.1:4711.evil.example",
            "\r\nHost: 127.0.0.1:4711\r\nHost: evil.example",
            "\r\nHost: [::1]:4711",
            "",
        ] {
            assert_eq!(asked(host), Err(Denied::Host), "{host}");
        }
    }

    #[test]
    fn nothing_is_outside_of_the_path() {
        let gate = gate();
        for path in ["/", "//", "/records", "/0101010101010102/", "/010101010101010/", "*"] {
            let request = request(&format!("GET {path} HTTP/1.1\r\nHost: localhost:4711"));
            assert_eq!(gate.path(&request), Err(Denied::Elsewhere), "{path}");
        }
        let bare = request(&format!("GET /{PLACE} HTTP/1.1\r\nHost: localhost:4711"));
        assert_eq!(gate.path(&bare), Err(Denied::Elsewhere));
        let root = request(&format!("GET /{PLACE}/ HTTP/1.1\r\nHost: localhost:4711"));
        assert_eq!(gate.path(&root), Ok(""));
    }

    #[test]
    fn what_changes_something_comes_from_the_page() {
        let gate = gate();
        let asked = |method: &str, origin: &str| {
            let text = format!("{method} /{PLACE}/x HTTP/1.1\r\nHost: localhost:4711{origin}");
            gate.path(&request(&text)).map(str::to_owned)
        };
        assert!(asked("POST", "\r\nOrigin: http://localhost:4711").is_ok());
        assert!(asked("POST", "\r\nOrigin: http://127.0.0.1:4711").is_ok());
        for origin in [
            "",
            "\r\nOrigin: null",
            "\r\nOrigin: https://localhost:4711",
            "\r\nOrigin: http://localhost:4712",
            "\r\nOrigin: http://localhost",
            "\r\nOrigin: http://localhost:4711.evil.example",
        ] {
            for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
                assert_eq!(asked(method, origin), Err(Denied::Origin), "{method} {origin}");
            }
        }
    }

    #[test]
    fn a_token_is_good_once() {
        let gate = gate();
        let token = gate.url().split_once('#').unwrap().1.to_owned();
        assert_eq!(token.len(), 32, "128 bits");
        for wrong in ["", &token[1..], &format!("{token}0"), &token.replace('2', "3")] {
            for _ in 0..100 {
                assert_eq!(gate.exchange(wrong), Err(Denied::Token));
            }
        }
        let cookie = gate.exchange(&token).unwrap();
        for word in ["HttpOnly", "SameSite=Strict", &format!("Path=/{PLACE}/;")] {
            assert!(cookie.contains(word), "{cookie}");
        }
        assert_eq!(gate.exchange(&token), Err(Denied::Used));
        let session = cookie.split(';').next().unwrap();
        let with = |cookie: &str| {
            gate.knows(&request(&format!("GET /x HTTP/1.1\r\nCookie: other=1; {cookie}")))
        };
        assert_eq!(with(session), Ok(()));
        assert_eq!(with(&session[..session.len() - 1]), Err(Denied::Session));
        assert_eq!(with(&format!("synqlite-review-4711={token}")), Err(Denied::Session));
        assert_eq!(gate.knows(&request("GET /x HTTP/1.1")), Err(Denied::Session));
    }

    #[test]
    fn secrets_differ() {
        let gate = gate();
        assert!(gate.token != gate.session && !gate.token.contains(&gate.place));
    }
}
