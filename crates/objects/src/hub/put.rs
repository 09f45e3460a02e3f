//! Puts objects: small ones whole, others in parts that go on where a broken connection left them.
//!
//! What an answer does not say as a hub does, is not believed: whoever stands between here and the hub may
//! say that all is well.

use super::{Hub, STALLS};
use crate::error::{Error, Result};
use crate::http::{Request, RequestError, Tried, header, pause};
use crate::name::ObjectName;
use crate::store::{Put, Step, Store};
use crate::stranger::{Foreign, said};
use std::io::{self, Read, Seek, SeekFrom};
use ureq::Body;
use ureq::http::{Method, Response};

/// Objects longer than this are put in parts. Over a network that breaks off they would hardly ever
/// arrive whole, and asking how much has arrived costs nothing beside so many bytes. A part that follows
/// a failure is no longer either.
const WHOLE: u64 = 1 << 20;
/// No part is longer.
const PART: u64 = 8 << 20;
/// Where a proxy takes no longer body, parts are halved until they are no longer than this.
const SMALLEST: u64 = 512 << 10;

/// Headers of a request.
pub(super) type Headers = Vec<(&'static str, String)>;

/// An object that is put.
pub(super) struct Going<'a> {
    pub name: &'a ObjectName,
    /// Its length.
    pub total: u64,
    /// What goes with all of its requests.
    pub headers: Headers,
}

/// Why an object was not put.
pub(super) enum PutError {
    /// What it was to be read from failed.
    Source(io::Error),
    Store(Error),
}

type Outcome<T> = std::result::Result<T, PutError>;

impl From<io::Error> for PutError {
    fn from(e: io::Error) -> PutError {
        PutError::Source(e)
    }
}

impl From<Error> for PutError {
    fn from(e: Error) -> PutError {
        PutError::Store(e)
    }
}

/// What sending came to.
enum Progress {
    Put(Put),
    /// So much of it has arrived.
    Received(u64),
    /// Somebody before the hub takes no body as long as this.
    Barred,
}

/// What became of an object, and whether an earlier try may have put it, whose answer was lost.
struct Done {
    put: Put,
    again: bool,
}

impl Hub {
    /// Puts an object, small ones whole and others in parts.
    pub(super) fn put_from(
        &self,
        going: Going<'_>,
        source: &mut (impl Read + Seek),
        step: Step<'_>,
    ) -> Outcome<Put> {
        let (name, total) = (going.name, going.total);
        step(0, total);
        let done = if total > WHOLE {
            self.put_parts(going, source, PART, step)?
        } else {
            let mut bytes = vec![0; total as usize];
            source.read_exact(&mut bytes)?;
            match self.put_whole(&going, &bytes)? {
                Some(done) => done,
                None => {
                    source.rewind()?;
                    self.put_parts(going, source, SMALLEST, step)?
                }
            }
        };
        let put = match done.put {
            Put::Created => Put::Created,
            Put::AlreadyThere => self.look_at(name, source, done.again)?,
        };
        step(total, total);
        Ok(put)
    }

    /// Sends a whole object, or a part of one, once.
    fn put(&self, going: &Going<'_>, bytes: &[u8], headers: Headers) -> Tried<Progress> {
        let request = Request {
            method: Method::PUT,
            url: self.object(going.name),
            headers,
            body: Some(bytes),
            expect: &[409, 413],
            ..Request::default()
        };
        let answer = self.client.send(&request)?;
        let status = answer.status().as_u16();
        let sequence = header::<u64>(&answer, "synqlite-sequence");
        match (status, sequence) {
            (201, Some(_)) => Ok(Progress::Put(Put::Created)),
            (200, Some(_)) => Ok(Progress::Put(Put::AlreadyThere)),
            (200 | 201, None) => Err(self.client.foreign(Foreign::put(status)).into()),
            (413, _) => match said(answer) {
                Some(why) => {
                    let (address, size) = (self.address(), going.total);
                    Err(Error::TooLarge { address, size, why }.into())
                }
                None => Ok(Progress::Barred),
            },
            _ => Ok(Progress::Received(self.received(&answer)?)),
        }
    }

    /// Nothing if parts of it may get through where all of it does not.
    fn put_whole(&self, going: &Going<'_>, bytes: &[u8]) -> Result<Option<Done>> {
        let mut tries = 0;
        let progress = self.client.patiently(|| {
            tries += 1;
            self.put(going, bytes, going.headers.clone())
        })?;
        match progress {
            Progress::Put(put) => Ok(Some(Done { put, again: tries > 1 })),
            Progress::Received(_) => Err(self.client.stranger("it takes an object for a part")),
            Progress::Barred if going.total > SMALLEST => Ok(None),
            Progress::Barred => Err(self.client.foreign(Foreign::too_large(going.total))),
        }
    }

    /// Puts an object in parts, from where an earlier try ended. What has arrived of a part that broke
    /// off counts, so the hub is asked, and it goes on from there for as long as it gets on.
    fn put_parts(
        &self,
        going: Going<'_>,
        source: &mut (impl Read + Seek),
        mut longest: u64,
        step: Step<'_>,
    ) -> Outcome<Done> {
        let (upload, total) = (hash(source)?, going.total);
        let url = format!("{}/uploads/{upload}", self.base);
        let mut there = self.arrived(&url)?;
        let (mut furthest, mut length, mut failures, mut again) = (there, longest, 0, false);
        loop {
            step(there.min(total), total);
            // Of one that is there in full, and that nobody finished, the last byte is enough.
            let from = there.min(total.saturating_sub(1));
            let mut part = vec![0; length.min(total - from) as usize];
            source.seek(SeekFrom::Start(from))?;
            source.read_exact(&mut part)?;
            let last = (from + part.len() as u64).saturating_sub(1);
            let mut headers = going.headers.clone();
            headers.push(("synqlite-upload", upload.clone()));
            headers.push(("content-range", format!("bytes {from}-{last}/{total}")));
            let (why, after) = match self.put(&going, &part, headers) {
                Ok(Progress::Put(put)) => return Ok(Done { put, again }),
                Ok(Progress::Received(now)) if now > there => {
                    (there, length) = (now, longest.min(2 * length));
                    if there > furthest {
                        (furthest, failures) = (there, 0);
                    }
                    continue;
                }
                Ok(Progress::Barred) => {
                    let size = part.len() as u64;
                    longest = halved(size)
                        .ok_or_else(|| self.client.foreign(Foreign::too_large(size)))?;
                    length = longest;
                    continue;
                }
                // Perhaps what a broken connection left is still being written.
                Ok(Progress::Received(_)) => ("an upload to it does not get on".to_owned(), None),
                Err(RequestError::Passing(why, after)) => {
                    again = true;
                    (why, after)
                }
                Err(RequestError::Lasting(e)) => return Err(e.into()),
            };
            length = WHOLE.min(longest);
            failures += 1;
            if failures == STALLS {
                return Err(Error::Unreachable { address: self.address(), why }.into());
            }
            pause(failures, after);
            there = self.arrived(&url)?;
            if there > furthest {
                (furthest, failures) = (there, 0);
            }
        }
    }

    /// Looks at an object of which the hub says that it is there. It must be to be had; and if it begins as the
    /// one that was to be put, a try put it that was not heard of.
    fn look_at(
        &self,
        name: &ObjectName,
        source: &mut (impl Read + Seek),
        again: bool,
    ) -> Outcome<Put> {
        let mut ours = Vec::new();
        source.rewind()?;
        source.take(WHOLE).read_to_end(&mut ours)?;
        let wanted = if again { WHOLE } else { 1 };
        match self.read_prefix(name, wanted) {
            Err(Error::NotFound { .. }) => Err(self.client.foreign(Foreign::withheld(name)).into()),
            Ok(theirs) if theirs.is_empty() => {
                Err(self.client.foreign(Foreign::withheld(name)).into())
            }
            Ok(theirs) if again && theirs == ours => Ok(Put::Created),
            Ok(_) => Ok(Put::AlreadyThere),
            Err(e) => Err(e.into()),
        }
    }

    /// How much of an upload has arrived.
    fn arrived(&self, url: &str) -> Result<u64> {
        let request = Request { url: url.to_owned(), ..Request::default() };
        let answer = self.client.patiently(|| self.client.send(&request))?;
        self.received(&answer)
    }

    fn received(&self, answer: &Response<Body>) -> Result<u64> {
        let there = header(answer, "synqlite-received");
        there.ok_or_else(|| self.client.stranger("it does not say what it has received"))
    }
}

/// What names an upload.
fn hash(source: &mut impl Read) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    io::copy(source, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Half of what was too long; nothing if that is as short as parts get.
fn halved(size: u64) -> Option<u64> {
    (size > SMALLEST).then(|| (size / 2).max(SMALLEST))
}
