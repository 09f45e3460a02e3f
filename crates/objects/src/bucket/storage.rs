//! Keys and bytes below a prefix of a bucket: what a remote store and a hub's store both need
//! of object storage. A put may be conditional; nothing else of S3 is relied on.

use crate::error::{Error, Result};
use crate::http::agent;
use crate::store::Put;
use crate::url::blanked;
use futures_util::TryStreamExt;
use http_body_util::BodyExt;
use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut, S3CopyIfNotExists};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use object_store::{PutPayload, RetryConfig};
use std::future::Future;
use std::io::Read;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{self, Method};

/// What is longer is put in parts of this length, and read so. S3 takes at most 10,000.
pub(super) const PART: usize = 8 << 20;
/// How to say who asks.
const HINT: &str = "Set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION; for other than \
                    Amazon's storage AWS_ENDPOINT_URL too";

/// A prefix of a bucket. Every call waits in the thread that makes it, and repeats requests that
/// meet a passing trouble; keys are those below the prefix.
#[derive(Clone, Debug)]
pub struct Storage {
    store: AmazonS3,
    prefix: String,
    address: String,
}

impl Storage {
    /// The prefix that a URL `s3://BUCKET/PREFIX` names. `settings` are those that are usual in the
    /// environment, such as `AWS_ACCESS_KEY_ID`; others are passed over. [`Error::NotAStoreUrl`] if
    /// the URL names no store, [`Error::Denied`] without a key.
    pub fn new(url: &str, settings: &[(String, String)]) -> Result<Storage> {
        let bad = |why| Error::NotAStoreUrl {
            url: blanked(url),
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
        let address = format!("the bucket at s3://{rest}");
        if !settings.iter().any(|(name, _)| name.eq_ignore_ascii_case("AWS_ACCESS_KEY_ID")) {
            return Err(Error::Denied { address, why: "wants a key".into(), hint: HINT });
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
        let unusable = |e| Error::Refused { address: address.clone(), why: first_line(&e) };
        let store = builder.build().map_err(unusable)?;
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Storage { store, prefix, address })
    }

    /// The store, for messages.
    pub fn address(&self) -> &str {
        &self.address
    }

    #[cfg(test)]
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    fn key(&self, key: &str) -> Key {
        Key::from(format!("{}{key}", self.prefix))
    }

    /// Does something that waits. Nothing else goes on meanwhile in this thread.
    fn run<T>(&self, work: impl Future<Output = object_store::Result<T>>) -> Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|e| self.unreachable(e.to_string()))?;
        runtime.block_on(work).map_err(|e| self.failed(&e))
    }

    fn unreachable(&self, why: String) -> Error {
        Error::Unreachable { address: self.address.clone(), why }
    }

    fn failed(&self, e: &object_store::Error) -> Error {
        use object_store::Error as Failed;
        let address = self.address.clone();
        match e {
            Failed::Unauthenticated { .. } => {
                Error::Denied { address, why: "does not know the key".into(), hint: HINT }
            }
            Failed::PermissionDenied { .. } => Error::Denied {
                address,
                why: "wants a key that is good for this".into(),
                hint: HINT,
            },
            // Only the page that the storage adds tells it from a key that is not there.
            e if e.to_string().contains("NoSuchBucket") => Error::NoBucket { address },
            e => self.unreachable(first_line(e)),
        }
    }

    /// All bytes under a key; `None` if there is no such key.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.read(key, None)?.map(|(bytes, _)| bytes))
    }

    /// Those of the bytes in `range` that there are, and how long all of it is.
    pub fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<(Vec<u8>, u64)>> {
        self.read(key, Some(GetRange::Bounded(range)))
    }

    fn read(&self, key: &str, range: Option<GetRange>) -> Result<Option<(Vec<u8>, u64)>> {
        let key = self.key(key);
        self.run(async {
            let options = GetOptions { range, ..GetOptions::default() };
            match self.store.get_opts(&key, options).await {
                Ok(got) => {
                    let size = got.meta.size;
                    Ok(Some((got.bytes().await?.to_vec(), size)))
                }
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(e) => Err(e),
            }
        })
    }

    /// Whether there is something under a key.
    pub fn is_there(&self, key: &str) -> Result<bool> {
        let key = self.key(key);
        self.run(async {
            match self.store.head(&key).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::NotFound { .. }) => Ok(false),
                Err(e) => Err(e),
            }
        })
    }

    /// Puts bytes under a key that has none; of several that do so one has its way. A put that was
    /// repeated may find its own bytes: then it says [`Put::AlreadyThere`] too.
    pub fn create(&self, key: &str, bytes: Vec<u8>) -> Result<Put> {
        let key = self.key(key);
        self.run(async {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            created(self.store.put_opts(&key, bytes.into(), options).await.map(|_| ()))
        })
    }

    /// Puts bytes under a key, whatever was there.
    pub fn put(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let key = self.key(key);
        self.run(async { self.store.put(&key, bytes.into()).await.map(|_| ()) })
    }

    /// Puts `total` bytes that `next` hands out in the lengths it is asked for, in parts. If it
    /// fails, nothing is there.
    pub fn put_in_parts(
        &self,
        key: &str,
        total: u64,
        mut next: impl FnMut(usize) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let mut upload = self.run(self.store.put_multipart(&self.key(key)))?;
        let mut parts = || {
            let mut left = total;
            while left > 0 {
                let part = next(left.min(PART as u64) as usize)?;
                left = left.saturating_sub(part.len() as u64);
                self.run(upload.put_part(PutPayload::from(part)))?;
            }
            self.run(upload.complete()).map(|_| ())
        };
        let done = parts();
        if done.is_err() {
            let _ = self.run(upload.abort());
        }
        done
    }

    /// Copies to a key that has no bytes, within the storage; at most 5 GiB.
    pub(super) fn copy_to_new(&self, from: &str, to: &str) -> Result<Put> {
        let (from, to) = (self.key(from), self.key(to));
        self.run(async { created(self.store.copy_if_not_exists(&from, &to).await) })
    }

    /// Removes what is under a key, if anything is.
    pub fn delete(&self, key: &str) -> Result<()> {
        let key = self.key(key);
        self.run(async {
            match self.store.delete(&key).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                done => done,
            }
        })
    }

    /// All keys below a folder and the lengths of what is under them, in the order of keys.
    pub fn list(&self, folder: &str) -> Result<Vec<(String, u64)>> {
        let below = self.key(folder);
        let listed: Vec<_> = self.run(self.store.list(Some(&below)).try_collect())?;
        let own = |key: &Key| key.as_ref().strip_prefix(&self.prefix).map(str::to_owned);
        let mut found: Vec<_> =
            listed.iter().filter_map(|o| Some((own(&o.location)?, o.size))).collect();
        found.sort();
        Ok(found)
    }

    /// Names of the folders at the top.
    pub(super) fn folders(&self) -> Result<Vec<String>> {
        let below = Key::from(self.prefix.trim_end_matches('/'));
        let below = Some(&below).filter(|_| !self.prefix.is_empty());
        let listed = self.run(self.store.list_with_delimiter(below))?;
        let folders = listed.common_prefixes.iter();
        Ok(folders.filter_map(|folder| folder.filename().map(str::to_owned)).collect())
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

/// What an error says, without the pages that a server may add.
fn first_line(e: &object_store::Error) -> String {
    let text = e.to_string();
    let line: String = text.lines().next().unwrap_or_default().chars().take(300).collect();
    line.trim_end_matches('.').to_owned()
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
