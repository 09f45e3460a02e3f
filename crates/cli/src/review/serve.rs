//! The server of the page: one desk, any number of pages that look at it.
//!
//! Every request is answered in a thread of its own, as browsers open connections and say nothing; what is done
//! at the desk is done one after another. It ends when a page says so, when the last page has gone, when nobody
//! has asked for anything in so long, or when it is told to stop. Nothing is lost by that: decisions that were
//! not written are the page's.

use super::desk::{Decision, Desk};
use super::gate::{Denied, Gate};
use super::http::{self, Request, Response};
use crate::error::Result;
use crate::progress;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synqlite_core::{Environment, Verb};
use synqlite_front::{Failure, Kind};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How often it looks for connections and signals.
const TICK: Duration = Duration::from_millis(20);
/// So long after the last page has gone it may come back: it was only loaded anew.
const GRACE: Duration = Duration::from_secs(4);
/// Connections at once; more are closed.
const CONNECTIONS: usize = 64;
/// Pages that are remembered.
const PAGES: usize = 1_000;

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    inside: Arc<Inside>,
}

struct Inside {
    gate: Gate,
    desk: Mutex<Desk>,
    life: Mutex<Life>,
    connections: AtomicUsize,
    done: AtomicBool,
}

/// Whether anybody is there.
struct Life {
    /// When somebody with the session asked for something last.
    asked: Instant,
    /// Pages that are open.
    pages: BTreeSet<String>,
    /// When the last of them went.
    alone: Option<Instant>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Listens on this machine alone.
    pub fn new(desk: Desk, env: &dyn Environment) -> Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let gate = Gate::new(listener.local_addr()?.port(), || env.random());
        let life = Life { asked: Instant::now(), pages: BTreeSet::new(), alone: None };
        let inside = Inside {
            gate,
            desk: Mutex::new(desk),
            life: Mutex::new(life),
            connections: AtomicUsize::new(0),
            done: AtomicBool::new(false),
        };
        Ok(Server { listener, inside: Arc::new(inside) })
    }

    /// The address for the browser.
    pub fn url(&self) -> String {
        self.inside.gate.url()
    }

    /// Answers until it is over. Returns how many records were settled, and how many are open.
    pub fn run(self, idle: Duration, stop: &AtomicBool) -> Result<(u64, u64)> {
        let Server { listener, inside } = self;
        progress::rest();
        while !stop.load(SeqCst) && !inside.over(idle) {
            match listener.accept() {
                Ok((stream, _)) => inside.clone().take(stream),
                Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(TICK),
                // A client that went away before it was heard.
                Err(_) => std::thread::sleep(TICK),
            }
        }
        drop(listener);
        let until = Instant::now() + http::PATIENCE;
        while inside.connections.load(SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(TICK);
        }
        let desk = lock(&inside.desk);
        Ok((desk.settled, desk.replica.open_questions()?))
    }
}

impl Inside {
    fn over(&self, idle: Duration) -> bool {
        self.done.load(SeqCst) || lock(&self.life).over(idle, Instant::now())
    }

    /// Answers a connection, elsewhere.
    fn take(self: Arc<Self>, stream: TcpStream) {
        if self.connections.fetch_add(1, SeqCst) >= CONNECTIONS {
            self.connections.fetch_sub(1, SeqCst);
            return;
        }
        let server = self.clone();
        let begun = std::thread::Builder::new().spawn(move || {
            server.talk(stream);
            server.connections.fetch_sub(1, SeqCst);
        });
        if begun.is_err() {
            self.connections.fetch_sub(1, SeqCst);
        }
    }

    fn talk(&self, mut stream: TcpStream) {
        let ready = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_read_timeout(Some(http::PATIENCE)))
            .and_then(|()| stream.set_write_timeout(Some(http::PATIENCE)));
        if ready.is_err() {
            return;
        }
        let answer = match http::read(&mut stream) {
            Ok(request) => Some(self.answer(&request)),
            Err(bad) => bad.answer(),
        };
        if let Some(answer) = answer {
            http::answer(stream, &answer);
        }
    }

    fn answer(&self, request: &Request) -> Response {
        self.route(request).unwrap_or_else(|denied| denied.answer())
    }

    fn route(&self, request: &Request) -> Result<Response, Denied> {
        let path = self.gate.path(request)?;
        // The page itself says nothing of the database, so whoever knows the path may have it.
        match (&*request.method, path) {
            ("GET", "") => return Ok(Response::new(200, "text/html; charset=utf-8", PAGE)),
            ("GET", "page.css") => return Ok(Response::new(200, "text/css", STYLE)),
            ("GET", "page.js") => return Ok(Response::new(200, "text/javascript", SCRIPT)),
            ("GET", "records") => {
                self.gate.knows(request)?;
                lock(&self.life).asked = Instant::now();
                let known = request.query.strip_prefix("known=").unwrap_or_default();
                return Ok(told(lock(&self.desk).records(known).map_err(Failure::from)));
            }
            ("POST", "session" | "check" | "settle" | "page" | "end") => {}
            (
                _,
                "" | "page.css" | "page.js" | "records" | "session" | "check" | "settle" | "page"
                | "end",
            ) => {
                return Ok(Response::text(405, "this is asked for by another method"));
            }
            _ => return Err(Denied::Elsewhere),
        }
        // What a form of another page could send is of no use here.
        let kind = request.header("content-type").unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some("application/json") {
            return Ok(Response::text(415, "a body is application/json here"));
        }
        let Ok(body) = serde_json::from_slice::<Json>(&request.body) else {
            return Ok(Response::text(400, "the body is no JSON"));
        };
        if path == "session" {
            // A page that is loaded again has the cookie.
            if self.gate.knows(request).is_ok() {
                return Ok(Response::json(200, &json!({})));
            }
            let cookie = self.gate.exchange(body["token"].as_str().unwrap_or_default())?;
            return Ok(Response::json(200, &json!({})).cookie(cookie));
        }
        self.gate.knows(request)?;
        lock(&self.life).asked = Instant::now();
        match path {
            "check" | "settle" => match decisions(&body) {
                Some(decisions) => {
                    let came = lock(&self.desk).decide(&decisions, path == "check");
                    Ok(told(came.map(|came| came.json()).map_err(Failure::from)))
                }
                None => Ok(Response::text(400, "these are no decisions")),
            },
            "page" => {
                lock(&self.life).page(&body);
                Ok(Response::json(200, &json!({})))
            }
            _ => {
                self.done.store(true, SeqCst);
                Ok(Response::json(200, &json!({})))
            }
        }
    }
}

impl Life {
    /// Whether nobody is there any more.
    fn over(&self, idle: Duration, now: Instant) -> bool {
        let gone = self.alone.is_some_and(|alone| now.duration_since(alone) > GRACE);
        gone || now.duration_since(self.asked) > idle
    }

    /// A page says that it is there, or that it goes.
    fn page(&mut self, body: &Json) {
        let page = body["page"].as_str().filter(|page| page.len() <= 64).unwrap_or_default();
        if body["here"] == true {
            self.alone = None;
            if self.pages.len() < PAGES {
                self.pages.insert(page.to_owned());
            }
        } else if self.pages.remove(page) && self.pages.is_empty() {
            self.alone = Some(Instant::now());
        }
    }
}

/// What was found out, or why not. What it took is over.
fn told(found: Result<Json, Failure>) -> Response {
    progress::rest();
    match found {
        Ok(json) => Response::json(200, &json),
        Err(failure) => {
            let status = if failure.kind == Kind::Locked { 503 } else { 500 };
            Response::json(status, &failure.json())
        }
    }
}

/// The verb of this name.
pub fn verb(name: &str) -> Option<Verb> {
    [Verb::Prefer, Verb::Discard, Verb::Restore, Verb::Accept]
        .into_iter()
        .find(|v| v.name() == name)
}

fn decisions(body: &Json) -> Option<Vec<Decision>> {
    let decision = |json: &Json| {
        let text = |key: &str| json[key].as_str();
        let (id, seen) = (text("id")?.to_owned(), text("seen")?.to_owned());
        Some(Decision { id, verb: verb(text("verb")?)?, seen })
    };
    body["decisions"].as_array()?.iter().map(decision).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_read_or_refused_as_a_whole() {
        let one = json!({"id": "ab", "verb": "prefer", "seen": "1"});
        let of = |list: Json| decisions(&json!({"decisions": list})).map(|d| d.len());
        assert_eq!(of(json!([])), Some(0));
        assert_eq!(of(json!([one, one])), Some(2));
        for wrong in [json!({}), json!([one, {}]), json!([{"id": 1}]), json!(["x"]), json!(null)] {
            assert_eq!(of(wrong), None);
        }
        let unknown = json!([{"id": "ab", "verb": "drop", "seen": "1"}]);
        assert_eq!(of(unknown), None);
    }

    #[test]
    fn it_is_alone_when_the_last_page_has_gone() {
        let mut life = Life { asked: Instant::now(), pages: BTreeSet::new(), alone: None };
        let mut page = |page: &str, here: bool| {
            life.page(&json!({"page": page, "here": here}));
            life.alone.is_some()
        };
        assert!(!page("a", false), "nobody has come yet");
        assert!(!page("a", true) && !page("b", true) && !page("a", false));
        assert!(page("b", false));
        assert!(!page("b", true), "it was only loaded anew");
    }

    #[test]
    fn it_ends_some_time_after_the_last_that_was_asked() {
        let (now, idle) = (Instant::now(), Duration::from_secs(60));
        let mut life = Life { asked: now, pages: BTreeSet::new(), alone: None };
        assert!(!life.over(idle, now + idle));
        assert!(life.over(idle, now + 2 * idle), "nobody came");
        life.alone = Some(now);
        assert!(!life.over(idle, now + GRACE));
        assert!(life.over(idle, now + 2 * GRACE), "everybody went");
    }
}
