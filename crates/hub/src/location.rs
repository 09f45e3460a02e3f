//! Where a hub keeps what it is given, and who may use it: the text after `--store`.

use crate::backend::Backend;
use crate::bucket::Tokens;
use crate::embedded::{Embedded, Setup};
use crate::error::{Error, Result};
use crate::postgres::{self, Link, Postgres};
use crate::private;
use crate::runtime::runtime;
use crate::tokens::{FileStamp, Token, TokenFile};
use crate::wait::Waiters;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use synqlite_objects::Storage;

/// A store by its name.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A database of PostgreSQL, by its URL.
    Postgres(String),
    /// A prefix of a bucket.
    Bucket {
        /// `s3://BUCKET/PREFIX`.
        url: String,
        /// Keys and endpoint, by the names that they have in the environment.
        settings: Vec<(String, String)>,
    },
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::Folder(dir) => f.debug_tuple("Folder").field(dir).finish(),
            // A URL may hold a password.
            Location::Postgres(_) => f.debug_tuple("Postgres").finish_non_exhaustive(),
            Location::Bucket { url, .. } => {
                f.debug_struct("Bucket").field("url", url).finish_non_exhaustive()
            }
        }
    }
}

/// A store that is open.
pub(crate) struct Opened {
    pub backend: Arc<dyn Backend>,
    pub vault: Vault,
    /// Folder of what is on its way.
    pub staging: PathBuf,
}

impl Location {
    /// Reads what stands after `--store`.
    pub fn parse(text: &str) -> Result<Location> {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        match scheme {
            None => Location::folder(text),
            Some("postgres" | "postgresql") => Ok(Location::Postgres(text.to_owned())),
            Some("s3") => Ok(Location::Bucket { url: text.to_owned(), settings: Vec::new() }),
            Some(scheme) => {
                let what = match scheme.bytes().all(|b| b.is_ascii_alphanumeric()) {
                    true => format!("{scheme}:// is no store of a hub"),
                    false => "this is no store of a hub".into(),
                };
                let hint = "Give the path of a folder, postgres://USER@HOST/DATABASE, or \
                            s3://BUCKET/PREFIX";
                Err(Error::Setting { what, hint })
            }
        }
    }

    /// A folder; no store that is meant to be another kind, and lacks a slash. The text may hold a password, so
    /// it is not repeated.
    fn folder(text: &str) -> Result<Location> {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
        let (kind, hint) = match scheme.as_str() {
            "postgres" | "postgresql" => {
                ("PostgreSQL", "Write it like postgres://USER@HOST/DATABASE")
            }
            "s3" => ("a bucket", "Write it like s3://BUCKET/PREFIX"),
            _ => return Ok(Location::Folder(text.into())),
        };
        let what = format!("the store begins with {scheme}: and is no URL of {kind}");
        Err(Error::Setting { what, hint })
    }

    /// With keys and endpoint for object storage, such as `AWS_ACCESS_KEY_ID`; others are ignored.
    pub fn with(mut self, given: &[(String, String)]) -> Location {
        if let Location::Bucket { settings, .. } = &mut self {
            *settings = given.to_vec();
        }
        self
    }

    /// Opens the store; `scratch` is the folder for what is on its way, or for a copy, if the store
    /// has none of its own.
    pub(crate) async fn open(
        &self,
        setup: Setup,
        scratch: &Path,
        waiters: Arc<Waiters>,
    ) -> Result<Opened> {
        let vault = self.vault();
        match self {
            Location::Bucket { url, settings } => {
                let storage = Storage::new(url, settings)?;
                let dir = scratch.to_owned();
                let open = move || Embedded::open_in_bucket(storage, &dir, setup, waiters);
                let opened = tokio::task::spawn_blocking(open).await;
                let failed = |_| Err(Error::away("a thread of the hub failed"));
                let backend = Arc::new(opened.unwrap_or_else(failed)?);
                Ok(Opened { backend, vault, staging: Embedded::staging(scratch) })
            }
            Location::Folder(dir) => {
                let backend = Arc::new(Embedded::open(dir, setup, waiters)?);
                Ok(Opened { backend, vault, staging: Embedded::staging(dir) })
            }
            Location::Postgres(url) => {
                let backend = Arc::new(Postgres::open(url, setup.sites, waiters).await?);
                let staging = Embedded::staging(scratch);
                private::make_own(&staging)?;
                Ok(Opened { backend, vault, staging })
            }
        }
    }

    /// Its tokens.
    pub fn vault(&self) -> Vault {
        Vault(match self {
            Location::Folder(dir) => Kept::File(TokenFile::of(dir)),
            Location::Postgres(url) => Kept::Postgres(Arc::new(Link::new(url))),
            Location::Bucket { url, settings } => Kept::Bucket(Tokens::of(url, settings)),
        })
    }
}

/// The tokens of a store. They can be changed whether a hub runs or not.
#[derive(Clone)]
pub struct Vault(Kept);

#[derive(Clone)]
enum Kept {
    File(TokenFile),
    Postgres(Arc<Link>),
    Bucket(Tokens),
}

impl Vault {
    /// All tokens, in the order in which they were made. Not to be called by asynchronous code.
    pub fn read(&self) -> Result<Vec<Token>> {
        runtime(Some(1))?.block_on(self.load())
    }

    /// Adds one. Not to be called by asynchronous code.
    pub fn add(&self, token: Token) -> Result<()> {
        runtime(Some(1))?.block_on(self.store(token))
    }

    /// Removes one by its id; whether it was there. Not to be called by asynchronous code.
    pub fn revoke(&self, id: u64) -> Result<bool> {
        runtime(Some(1))?.block_on(async {
            match &self.0 {
                // A change would make the folder of a store that is none.
                Kept::File(file) if !file.read()?.iter().any(|token| token.id == id) => Ok(false),
                Kept::File(file) => file.change(|tokens| {
                    let before = tokens.len();
                    tokens.retain(|token| token.id != id);
                    tokens.len() < before
                }),
                Kept::Postgres(link) => postgres::revoke_token(link, id).await,
                Kept::Bucket(tokens) => tokens.revoke(id).await,
            }
        })
    }

    pub(crate) async fn load(&self) -> Result<Vec<Token>> {
        match &self.0 {
            Kept::File(file) => file.read(),
            Kept::Postgres(link) => postgres::tokens(link).await,
            Kept::Bucket(tokens) => tokens.load().await,
        }
    }

    pub(crate) async fn store(&self, token: Token) -> Result<()> {
        match &self.0 {
            Kept::File(file) => file.change(|tokens| tokens.push(token)),
            Kept::Postgres(link) => postgres::add_token(link, token).await,
            Kept::Bucket(tokens) => tokens.add(token).await,
        }
    }

    /// Something that differs when a file was changed; `None` where only reading tells.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        match &self.0 {
            Kept::File(file) => file.stamp(),
            Kept::Postgres(_) | Kept::Bucket(_) => None,
        }
    }

    /// How long changes may go unnoticed, if nobody comes with a token that is not known. Each look
    /// at a bucket is paid for.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_secs(if matches!(self.0, Kept::Bucket(_)) { 5 } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_with_a_slash_too_few_is_no_folder() {
        for text in ["hub", "/srv/hub", "./postgres:/x", "s3", "C:/hub"] {
            assert_eq!(Location::parse(text).unwrap(), Location::Folder(text.into()));
        }
        for text in [
            "postgres:/hub:secret@x/db",
            "postgresql:hub:secret@x/db",
            "Postgres:/hub:secret@x/db",
            "s3:/AKIA:secret@bucket/prefix",
            "s3:bucket",
            "hub:secret@s3://bucket",
        ] {
            let told = Location::parse(text).unwrap_err().to_string();
            assert!(!told.contains("secret") && told.contains("://"), "{text}: {told}");
        }
    }
}
