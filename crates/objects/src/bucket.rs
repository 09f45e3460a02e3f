//! A store in a bucket: object storage that speaks S3, with no server of ours.
//!
//! An object has the key that its name spells below the prefix. It is created by a conditional
//! request, which S3 answers to one of several writers only. A large file is put in parts under a
//! temporary key first, and copied to its own by such a request; see `docs/formats/bucket.md`.

use crate::error::{Error, Result};
use crate::http::agent;
use crate::name::{Kind, ObjectName};
use crate::store::{Cursor, Entry, Put, Step, Store};
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut, S3CopyIfNotExists};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use object_store::{MultipartUpload, PutPayload, RetryConfig};
use std::fs::File;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use synqlite_wire::{DatabaseId, Id};
use ureq::Agent;
use ureq::http::{self, Method};

/// Files longer than this are put in parts of this length, and read so. S3 takes at most 10,000.
const PART: usize = 8 << 20;
/// How to say who asks.
const HINT: &str = "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; for other than \
                    Amazon's storage AWS_ENDPOINT_URL too";

/// A prefix of a bucket as a [`Store`].
pub struct Bucket {
    store: AmazonS3,
    prefix: String,
    place: String,
}

impl Bucket {
    /// The place that a URL `s3://BUCKET/PREFIX` names. `settings` are those that are usual in the
    /// environment, such as `AWS_ACCESS_KEY_ID`; others are passed over. [`Error::NotAPlaceUrl`] if
    /// the URL names no place, [`Error::Denied`] without a key.
    pub fn new(url: &str, settings: &[(String, String)]) -> Result<Bucket> {
        let bad = |why| Error::NotAPlaceUrl {
            url: url.to_owned(),
            kind: "a bucket",
            why,
            like: "s3://bucket/todo",
        };
        let rest = url.split_once("://").filter(|(scheme, _)| scheme.eq_ignore_ascii_case("s3"));
        let (_, rest) = rest.ok_or_else(|| bad("it does not start with s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        if bucket.is_empty() || !rest.bytes().all(plain) {
            return Err(bad("it consists of letters, digits, dots, _, - and /"));
        }
        if prefix.split('/').any(|part| part.is_empty() || part.starts_with('.'))
            && !prefix.is_empty()
        {
            return Err(bad("a part of its prefix is empty or starts with a dot"));
        }
        let place = format!("the bucket at s3://{rest}");
        if !settings.iter().any(|(name, _)| name.eq_ignore_ascii_case("AWS_ACCESS_KEY_ID")) {
            return Err(Error::Denied { place, why: "wants a key", hint: HINT });
        }
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_conditional_put(S3ConditionalPut::ETagMatch)
            .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
            .with_retry(RetryConfig {
                max_retries: 6,
                retry_timeout: Duration::from_secs(60),
                ..RetryConfig::default()
            })
            .with_http_connector(Connector);
        for (name, value) in settings {
            if let Ok(key) = name.to_ascii_lowercase().parse() {
                builder = builder.with_config(key, value);
            }
        }
        let unusable = |e| Error::Refused { place: place.clone(), why: first_line(&e) };
        let store = builder.build().map_err(unusable)?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Bucket { store, prefix, place })
    }

    fn key(&self, name: &ObjectName) -> Key {
        Key::from(format!("{}{name}", self.prefix))
    }

    /// Does something that waits. Nothing else goes on meanwhile in this thread.
    fn run<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|e| self.unreachable(e.to_string()))?;
        runtime.block_on(work).map_err(|e| self.failed(&e))
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable { place: self.place(), why }
    }

    fn failed(&self, e: &object_store::Error) -> Error {
        use object_store::Error as Failed;
        let place = self.place();
        match e {
            Failed::Unauthenticated { .. } => {
                Error::Denied { place, why: "does not know the key", hint: HINT }
            }
            Failed::PermissionDenied { .. } => {
                Error::Denied { place, why: "wants a key that is good for this", hint: HINT }
            }
            e => self.unreachable(first_line(e)),
        }
    }

    /// A range of an object, and how long all of it is. `None` if it is absent.
    fn range(&self, name: &ObjectName, from: u64, upto: u64) -> Result<(Vec<u8>, u64)> {
        let key = self.key(name);
        let found = self.run(async {
            let range = Some(GetRange::Bounded(from..upto));
            let got = self.store.get_opts(&key, GetOptions { range, ..GetOptions::default() });
            match got.await {
                Ok(got) => {
                    let size = got.meta.size;
                    Ok(Some((got.bytes().await?.to_vec(), size)))
                }
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(e) => Err(e),
            }
        })?;
        found.ok_or(Error::NotFound { name: *name })
    }

    fn create(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<Put> {
        let key = self.key(name);
        self.run(async {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            created(self.store.put_opts(&key, bytes.into(), options).await.map(|_| ()))
        })
    }

    /// Puts a large file under a temporary key, in parts, then copies it to its own.
    fn create_from_parts(
        &self,
        name: &ObjectName,
        source: (&mut File, &Path, u64),
        step: Step<'_>,
    ) -> Result<Put> {
        let (file, path, total) = source;
        let key = self.key(name);
        if self.run(async { there(self.store.head(&key).await) })? {
            return Ok(Put::AlreadyThere);
        }
        let random = RandomState::new().build_hasher().finish();
        let temporary = Key::from(format!("{}{name}.tmp-{random:016x}", self.prefix));
        let mut upload = self.run(self.store.put_multipart(&temporary))?;
        let mut parts = || {
            let mut done = 0;
            while done < total {
                step(done, total);
                let length = (PART as u64).min(total - done);
                let mut part = vec![0; length as usize];
                file.read_exact(&mut part).map_err(|e| match e.kind() {
                    io::ErrorKind::UnexpectedEof => Error::SourceChanged { path: path.to_owned() },
                    _ => Error::io("read", path)(e),
                })?;
                self.run(upload.put_part(PutPayload::from(part)))?;
                done += length;
            }
            self.run(upload.complete()).map(|_| ())
        };
        if let Err(e) = parts() {
            let _ = self.run(upload.abort());
            return Err(e);
        }
        let copied =
            self.run(async { created(self.store.copy_if_not_exists(&temporary, &key).await) });
        // What stays behind is no object, and a rule of the bucket may expire it.
        let _ = self.run(self.store.delete(&temporary));
        copied
    }
}

/// Whether a conditional request had its way.
fn created(done: object_store::Result<()>) -> object_store::Result<Put> {
    match done {
        Ok(()) => Ok(Put::Created),
        Err(object_store::Error::AlreadyExists { .. }) => Ok(Put::AlreadyThere),
        Err(e) => Err(e),
    }
}

fn there<T>(found: object_store::Result<T>) -> object_store::Result<bool> {
    match found {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(e) => Err(e),
    }
}

/// What an error says, without the pages that a server may add.
fn first_line(e: &object_store::Error) -> String {
    let text = e.to_string();
    let line: String = text.lines().next().unwrap_or_default().chars().take(300).collect();
    line.trim_end_matches('.').to_owned()
}

impl Store for Bucket {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn databases(&self) -> Result<Vec<DatabaseId>> {
        let below = Key::from(self.prefix.trim_end_matches('/'));
        let below = Some(&below).filter(|_| !self.prefix.is_empty());
        let listed = self.run(self.store.list_with_delimiter(below))?;
        let mut found = Vec::new();
        for folder in listed.common_prefixes {
            let name = folder.filename().unwrap_or_default();
            let Some(id) = name.parse().ok().filter(|id: &Id| id.to_string() == name) else {
                continue;
            };
            for kind in Kind::ALL {
                if !found.contains(&id) && !self.list(id, kind)?.is_empty() {
                    found.push(id);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>> {
        let below = Key::from(format!("{}{database}/{}", self.prefix, kind.folder()));
        let listed: Vec<_> = self.run(self.store.list(Some(&below)).try_collect())?;
        let mut entries = Vec::new();
        for object in listed {
            let name = object.location.as_ref().strip_prefix(&self.prefix);
            let name = name.and_then(ObjectName::parse).filter(|_| object.size > 0);
            entries.extend(name.map(|name| Entry { name, size: object.size }));
        }
        entries.sort();
        Ok(entries)
    }

    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>> {
        // The first range says how long the object is; the others are fetched as they are read.
        let (bytes, size) = self.range(name, 0, PART as u64)?;
        if size == 0 {
            return Err(Error::NotFound { name: *name });
        }
        let bucket = Bucket {
            store: self.store.clone(),
            prefix: self.prefix.clone(),
            place: self.place.clone(),
        };
        let at = bytes.len() as u64;
        Ok(Box::new(Download { bucket, name: *name, buffer: io::Cursor::new(bytes), at, size }))
    }

    fn read_prefix(&self, name: &ObjectName, max: u64) -> Result<Vec<u8>> {
        let mut bytes = self.range(name, 0, max.clamp(1, PART as u64))?.0;
        bytes.truncate(usize::try_from(max).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<Put> {
        if bytes.is_empty() {
            return Err(Error::EmptyObject { name: *name });
        }
        self.create(name, bytes.to_vec())
    }

    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        _: Option<Cursor>,
        step: Step<'_>,
    ) -> Result<Put> {
        let failed = Error::io("read", file);
        let mut source = File::open(file).map_err(&failed)?;
        let total = source.metadata().map_err(&failed)?.len();
        let put = if total > PART as u64 {
            self.create_from_parts(name, (&mut source, file, total), step)?
        } else {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map_err(&failed)?;
            self.put_if_absent(name, &bytes)?
        };
        step(total, total);
        Ok(put)
    }
}

/// An object that is read range by range.
struct Download {
    bucket: Bucket,
    name: ObjectName,
    buffer: io::Cursor<Vec<u8>>,
    /// Where the buffer ends.
    at: u64,
    size: u64,
}

impl Read for Download {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.buffer.read(out)?;
        if n > 0 || out.is_empty() || self.at >= self.size {
            return Ok(n);
        }
        let upto = self.size.min(self.at + PART as u64);
        let (bytes, size) =
            self.bucket.range(&self.name, self.at, upto).map_err(io::Error::other)?;
        if size != self.size || bytes.is_empty() {
            return Err(io::Error::other("it changed while it was read"));
        }
        self.at += bytes.len() as u64;
        self.buffer = io::Cursor::new(bytes);
        self.buffer.read(out)
    }
}

/// Sends the requests of `object_store` as all others are sent.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Service(agent())))
    }
}

#[derive(Debug)]
struct Service(Agent);

type Answer = std::result::Result<HttpResponse, HttpError>;

impl Service {
    fn send(&self, parts: http::request::Parts, body: &[u8]) -> Answer {
        let failed = |e: ureq::Error| match e {
            ureq::Error::Timeout(_) => HttpError::new(HttpErrorKind::Timeout, e),
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
                HttpError::new(HttpErrorKind::Connect, e)
            }
            e => HttpError::new(HttpErrorKind::Interrupted, e),
        };
        let sent = match parts.method {
            Method::GET | Method::HEAD | Method::DELETE => {
                self.0.run(http::Request::from_parts(parts, ()))
            }
            _ => self.0.run(http::Request::from_parts(parts, body)),
        };
        let answer = sent.map_err(failed)?;
        let (parts, body) = answer.into_parts();
        let mut read = Vec::new();
        let got = body.into_reader().read_to_end(&mut read);
        got.map_err(|e| HttpError::new(HttpErrorKind::Interrupted, e))?;
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(read)))
    }
}

impl HttpService for Service {
    // The thread waits here, as it would anywhere else.
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            self.send(parts, &body.collect().await?.to_bytes())
        })
    }
}

#[cfg(test)]
mod tests;
