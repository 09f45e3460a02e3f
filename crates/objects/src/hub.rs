//! A store behind HTTP: a hub. The protocol is `docs/formats/hub.md`.
//!
//! A hub numbers what it takes in the order of arrival. So whoever remembers how far it has read
//! asks for what came after, gets small objects whole with the list, and pays nothing for old ones.
//! Transfers go on where a broken connection left them, in memory that does not grow with them.

mod put;

use crate::error::{Error, Result};
use crate::http::{Client, Request, RequestError, Tried, header, pause};
use crate::name::{Kind, ObjectName};
use crate::percent;
use crate::store::{Ask, Changes, Cursor, Entry, Fingerprint, Found, Mark, Put, Step, Store};
use crate::url::blanked;
use put::{Going, Headers, PutError};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;
use synqlite_wire::{DatabaseId, Id};
use ureq::http::Response;
use ureq::{Body, BodyReader};

/// So many bytes of objects are kept with one list; of the others only the first [`HEAD`].
const ROOM: usize = 32 << 20;
/// Enough for most headers.
const HEAD: usize = 1 << 10;
/// No line of a list is longer.
const LONGEST_LINE: u64 = 16 << 20;
/// No hub sends more of an object with a list.
const LONGEST_PREFIX: u64 = 64 << 10;
/// A list with a window over 8 MiB is refused, so that memory stays bounded whatever a hub sends.
const WINDOW_LOG: u32 = 23;
/// A transfer that does not get on is tried so often.
const STALLS: u32 = 6;
/// What people call the site that asks, percent-encoded.
pub const SITE_NAME: &str = "synqlite-site-name";

/// A store at a hub.
#[derive(Clone)]
pub struct Hub {
    client: Client,
    base: String,
}

impl Hub {
    /// The store that a URL `http(s)://HOST/NAME` names. [`Error::NotAStoreUrl`] if it names none.
    pub fn new(url: &str, token: Option<&str>) -> Result<Hub> {
        let like = "http://127.0.0.1:7700/todo";
        let bad = |why| Error::NotAStoreUrl { url: blanked(url), kind: "a hub", why, like };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("it has no scheme"))?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return Err(bad("it starts with neither http:// nor https://"));
        }
        let rest = rest.trim_end_matches('/');
        let (host, name) = rest.rsplit_once('/').ok_or_else(|| bad("it names no store"))?;
        if host.is_empty() || !rest.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(bad("it names no host"));
        }
        if rest.contains('@') {
            return Err(bad("a token does not belong into it"));
        }
        if rest.contains(['?', '#', '%']) || !is_name(name) {
            return Err(bad("a name consists of 1 to 64 letters, digits, dots, _ and -"));
        }
        let base = format!("{scheme}://{rest}");
        let client = Client::new(base.clone(), token.map(str::to_owned));
        Ok(Hub { client, base })
    }

    fn object(&self, name: &ObjectName) -> String {
        format!("{}/objects/{name}", self.base)
    }

    /// One answer of the list.
    fn page(&self, after: Option<Cursor>, prefix: u64, asker: Option<(Id, &str)>) -> Tried<Page> {
        let mut url = format!("{}/objects?prefix={prefix}", self.base);
        if let Some(Cursor { epoch, sequence }) = after {
            url += &format!("&after={sequence}&epoch={epoch}");
        }
        let mut headers = vec![("accept-encoding", "zstd".to_owned())];
        if let Some((site, name)) = asker {
            url += &format!("&site={site}");
            if !name.is_empty() {
                headers.push((SITE_NAME, percent::encode(name)));
            }
        }
        let answer = self.client.send(&Request { url, headers, ..Request::default() })?;
        let cursor = self.cursor(&answer)?;
        let more = header(&answer, "synqlite-more").unwrap_or(false);
        let mark = mark(header::<String>(&answer, "synqlite-mark").as_deref());
        let prints = ["synqlite-mark-print", "synqlite-upto-print"];
        let prints = prints.map(|name| print(&header::<String>(&answer, name)?));
        let packed = header::<String>(&answer, "content-encoding").is_some_and(|how| how == "zstd");
        let body = answer.into_body().into_reader();
        let lasting = |_| self.client.stranger("its list cannot be read");
        let body: Box<dyn Read> = if packed {
            let mut body = zstd::stream::read::Decoder::new(body).map_err(lasting)?;
            body.window_log_max(WINDOW_LOG).map_err(lasting)?;
            Box::new(body)
        } else {
            Box::new(body)
        };
        let mut lines = BufReader::with_capacity(64 << 10, body);
        let (mut found, mut line) = (Vec::new(), Vec::new());
        let broken = |e: io::Error| RequestError::Passing(e.to_string(), None);
        let cut = || RequestError::Passing("its list is cut short".into(), None);
        loop {
            line.clear();
            let read = lines.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            if read.map_err(broken)? == 0 {
                break;
            }
            if line.pop() != Some(b'\n') {
                return Err(cut());
            }
            let line = std::str::from_utf8(&line).ok().and_then(read_line);
            let line = line.ok_or_else(|| self.client.stranger("its list cannot be read"))?;
            let mut prefix = vec![0; line.prefix.map_or(0, |length| length + 1)];
            lines.read_exact(&mut prefix).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => cut(),
                _ => broken(e),
            })?;
            if prefix.pop().is_some_and(|end| end != b'\n') {
                return Err(self.client.stranger("its list cannot be read").into());
            }
            // A name that is none of ours is none of ours here too.
            found.extend(line.entry.map(|entry| (entry, prefix)));
        }
        Ok(Page { found, cursor, more, mark, prints })
    }

    /// Where the store stands, as an answer says.
    fn cursor(&self, answer: &Response<Body>) -> Result<Cursor> {
        match (header(answer, "synqlite-epoch"), header(answer, "synqlite-upto")) {
            (Some(epoch), Some(sequence)) => Ok(Cursor { epoch, sequence }),
            _ => Err(self.client.stranger("it is no SynQLite hub")),
        }
    }

    /// Everything after `from`, of all databases of the store.
    fn changes_after(
        &self,
        from: Option<Cursor>,
        prefix: u64,
        asker: Option<(Id, &str)>,
    ) -> Result<Listing> {
        let mut listing = Listing { resumed: from.is_some(), ..Listing::default() };
        let (mut after, mut room) = (from, ROOM);
        loop {
            let wanted = if room > 0 { prefix } else { prefix.min(HEAD as u64) };
            // What the pages after the first begin with, the site has not merged yet.
            let known = asker.filter(|_| after == from);
            let page = self.client.patiently(|| self.page(after, wanted, known))?;
            match after {
                Some(after) if after.epoch == page.cursor.epoch => {
                    if page.more && page.cursor.sequence <= after.sequence {
                        return Err(self.client.stranger("its list has no end"));
                    }
                }
                _ => {
                    // Another order: this is the beginning of everything.
                    listing.found.clear();
                    listing.resumed = false;
                }
            }
            if after == from {
                (listing.mark, listing.prints[0]) = (page.mark, page.prints[0]);
            }
            listing.prints[1] = page.prints[1];
            for (entry, mut prefix) in page.found {
                if prefix.len() > room {
                    prefix.truncate(HEAD);
                }
                room = room.saturating_sub(prefix.len());
                listing.found.push(Found { entry, prefix });
            }
            listing.cursor = Some(page.cursor);
            if !page.more {
                return Ok(listing);
            }
            after = Some(page.cursor);
        }
    }

    /// Starts reading an object at a byte. Also says how long the object is, if the hub does.
    fn read_at(&self, name: &ObjectName, from: u64) -> Tried<(BodyReader<'static>, Option<u64>)> {
        let headers = match from {
            0 => Vec::new(),
            from => vec![("range", format!("bytes={from}-"))],
        };
        let expect = &[404, 416];
        let request = Request { url: self.object(name), headers, expect, ..Request::default() };
        let answer = self.client.send(&request)?;
        let length = header::<u64>(&answer, "content-length");
        match answer.status().as_u16() {
            404 => Err(Error::NotFound { name: *name }.into()),
            // Nothing follows.
            416 => Ok((answer.into_body().into_with_config().limit(0).reader(), Some(from))),
            206 => Ok((answer.into_body().into_reader(), length.map(|length| from + length))),
            _ => {
                let mut body = answer.into_body().into_reader();
                io::copy(&mut body.by_ref().take(from), &mut io::sink())
                    .map_err(|e| RequestError::Passing(e.to_string(), None))?;
                Ok((body, length))
            }
        }
    }
}

struct Page {
    found: Vec<(Entry, Vec<u8>)>,
    cursor: Cursor,
    more: bool,
    mark: Mark,
    prints: [Option<Fingerprint>; 2],
}

#[derive(Default)]
struct Listing {
    /// In the order in which the hub took them.
    found: Vec<Found>,
    cursor: Option<Cursor>,
    resumed: bool,
    mark: Mark,
    prints: [Option<Fingerprint>; 2],
}

/// What a hub says that it has at a cursor. One that says nothing of it is of an earlier release.
fn mark(said: Option<&str>) -> Mark {
    match said {
        Some("-") => Mark::Nothing,
        said => said.and_then(ObjectName::parse).map_or(Mark::Untold, Mark::Object),
    }
}

/// Eight bytes in hexadecimal digits.
fn print(said: &str) -> Option<Fingerprint> {
    let digits = Some(said).filter(|said| said.len() == 16)?;
    u64::from_str_radix(digits, 16).ok().map(u64::to_be_bytes)
}

/// `SEQUENCE SIZE NAME[ LENGTH]`.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// Nothing if the name is foreign.
    entry: Option<Entry>,
    /// How many bytes of the object follow the line.
    prefix: Option<usize>,
}

/// `None` if it is no such line.
fn read_line(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let _: u64 = words.next()?.parse().ok()?;
    let size: u64 = words.next()?.parse().ok()?;
    let name = words.next()?;
    let length: Option<u64> = words.next().map(str::parse).transpose().ok()?;
    if words.next().is_some() || length.is_some_and(|length| length > size.min(LONGEST_PREFIX)) {
        return None;
    }
    let name = ObjectName::parse(name).filter(|_| size > 0);
    let entry = name.map(|name| Entry { name, size });
    Some(Line { entry, prefix: length.and_then(|length| usize::try_from(length).ok()) })
}

/// Whether a store may be called so.
fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

impl Store for Hub {
    fn address(&self) -> String {
        self.client.address()
    }

    fn databases(&self) -> Result<Vec<DatabaseId>> {
        let url = format!("{}/databases", self.base);
        let text = self.client.patiently(|| {
            let answer = self.client.send(&Request { url: url.clone(), ..Request::default() })?;
            let mut text = String::new();
            let read =
                answer.into_body().into_reader().take(LONGEST_LINE).read_to_string(&mut text);
            read.map_err(|e| RequestError::Passing(e.to_string(), None))?;
            Ok(text)
        })?;
        let ids: Option<BTreeSet<Id>> = text.lines().map(|line| line.parse().ok()).collect();
        Ok(ids.ok_or_else(|| self.client.stranger("it is no SynQLite hub"))?.into_iter().collect())
    }

    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>> {
        let listing = self.changes_after(None, 0, None)?;
        let ours = |name: &ObjectName| name.database == database && name.kind == kind;
        let entries = listing.found.into_iter().map(|found| found.entry);
        let found: BTreeSet<_> = entries.filter(|entry| ours(&entry.name)).collect();
        Ok(found.into_iter().collect())
    }

    fn changes(&self, ask: Ask<'_>) -> Result<Changes> {
        let Listing { found, cursor, resumed, mark, prints } =
            self.changes_after(ask.after, ask.prefix, ask.site.map(|site| (site, ask.name)))?;
        let mark = match mark {
            Mark::Object(name) if name.database != ask.database => Mark::Untold,
            mark => mark,
        };
        let (found, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| found.entry.name.database == ask.database);
        if !resumed && found.is_empty() && !others.is_empty() {
            let others: BTreeSet<_> =
                others.into_iter().map(|found| found.entry.name.database).collect();
            let (address, found) = (self.address(), others.into_iter().collect());
            return Err(Error::DatabaseMismatch { address, expected: ask.database, found });
        }
        Ok(Changes { found, cursor, resumed, mark, prints })
    }

    fn wait(&self, after: Option<Cursor>, at_most: Duration) -> Result<Option<Cursor>> {
        let wait = at_most.min(Duration::from_secs(60));
        let mut url = format!("{}/events?wait={}", self.base, wait.as_secs());
        match after {
            Some(Cursor { epoch, sequence }) => {
                url += &format!("&after={sequence}&epoch={epoch}");
            }
            // An epoch that is none is answered at once.
            None => url += &format!("&after=0&epoch={}", Id::ZERO),
        }
        let request = Request { url, wait: Some(wait), ..Request::default() };
        let answer = self.client.once(self.client.send(&request))?;
        self.cursor(&answer).map(Some)
    }

    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>> {
        self.open_from(name, 0)
    }

    fn open_from(&self, name: &ObjectName, from: u64) -> Result<Box<dyn Read + Send>> {
        let (body, length) = self.client.patiently(|| self.read_at(name, from))?;
        let (hub, name) = (self.clone(), *name);
        Ok(Box::new(Download { hub, name, body: Some(body), at: from, length, failures: 0 }))
    }

    fn read_prefix(&self, name: &ObjectName, max: u64) -> Result<Vec<u8>> {
        let headers = vec![("range", format!("bytes=0-{}", max.saturating_sub(1)))];
        let request =
            Request { url: self.object(name), headers, expect: &[404], ..Request::default() };
        self.client.patiently(|| {
            let answer = self.client.send(&request)?;
            if answer.status().as_u16() == 404 {
                return Err(Error::NotFound { name: *name }.into());
            }
            let mut bytes = Vec::new();
            let read = answer.into_body().into_reader().take(max).read_to_end(&mut bytes);
            read.map_err(|e| RequestError::Passing(e.to_string(), None))?;
            Ok(bytes)
        })
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<Put> {
        if bytes.is_empty() {
            return Err(Error::EmptyObject { name: *name });
        }
        let (mut source, total) = (io::Cursor::new(bytes), bytes.len() as u64);
        let going = Going { name, total, headers: Headers::new() };
        let put = self.put_from(going, &mut source, &mut |_, _| {});
        put.map_err(|e| match e {
            PutError::Store(e) => e,
            PutError::Source(e) => Error::Write { name: *name, source: e },
        })
    }

    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        covers: Option<Cursor>,
        step: Step<'_>,
    ) -> Result<Put> {
        let failed = Error::io("read", file);
        let mut source = File::open(file).map_err(&failed)?;
        let total = source.metadata().map_err(&failed)?.len();
        let mut headers = Headers::new();
        if let Some(Cursor { epoch, sequence }) = covers {
            headers.push(("synqlite-covers", sequence.to_string()));
            headers.push(("synqlite-epoch", epoch.to_string()));
        }
        if total == 0 {
            return Err(Error::EmptyObject { name: *name });
        }
        let going = Going { name, total, headers };
        self.put_from(going, &mut source, step).map_err(|e| match e {
            PutError::Store(e) => e,
            PutError::Source(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Error::SourceChanged { path: file.to_owned() }
            }
            PutError::Source(e) => failed(e),
        })
    }
}

/// An object that is being read, over as many connections as it takes.
struct Download {
    hub: Hub,
    name: ObjectName,
    body: Option<BodyReader<'static>>,
    at: u64,
    length: Option<u64>,
    /// In a row, without a byte between them.
    failures: u32,
}

impl Download {
    fn read_once(&mut self, out: &mut [u8]) -> Tried<usize> {
        let body = match &mut self.body {
            Some(body) => body,
            None => {
                let (body, length) = self.hub.read_at(&self.name, self.at)?;
                if self.length != length {
                    let changed = self.hub.client.stranger("an object changed while it was read");
                    return Err(changed.into());
                }
                self.body.insert(body)
            }
        };
        match body.read(out) {
            Ok(0) if self.length.is_some_and(|length| self.at < length) => {
                Err(RequestError::Passing("the connection broke".into(), None))
            }
            Ok(n) => Ok(n),
            Err(e) => Err(RequestError::Passing(e.to_string(), None)),
        }
    }
}

impl Read for Download {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if out.is_empty() || self.length == Some(self.at) {
                return Ok(0);
            }
            let after = match self.read_once(out) {
                Ok(n) => {
                    self.at += n as u64;
                    self.failures = 0;
                    return Ok(n);
                }
                Err(RequestError::Lasting(e)) => return Err(io::Error::other(e.to_string())),
                Err(RequestError::Passing(why, _)) if self.failures >= STALLS => {
                    return Err(io::Error::other(why));
                }
                Err(RequestError::Passing(_, after)) => after,
            };
            self.body = None;
            self.failures += 1;
            pause(self.failures, after);
        }
    }
}

#[cfg(test)]
mod tests;
