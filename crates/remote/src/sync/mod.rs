//! Synchronization of a replica with a remote: push, pull and clone.
//!
//! A [`Remote`] is the path of another replica, opened directly, or a remote store for sites
//! that never meet. Every operation may be interrupted at any point and repeated: a replica changes
//! in single transactions, a store only gains whole objects, and what arrived twice is joined once.

mod changes;
mod clone;
mod contained;
mod error;
mod fetch;
mod heads;
mod memory;
mod object_log;
mod plan;
mod rejoin;
mod remote_store;
mod replica;
mod spool;

pub use clone::Cloned;
pub use error::SyncError;

use self::remote_store::RemoteStore;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use synqlite_core::{Aside, Environment, Merged, Replica, Synced};
use synqlite_objects::{Cursor, Folder, Hub, Key, Sealed, Store, blanked};
use synqlite_wire::{Delta, SiteId};

/// Result of synchronization.
pub type Result<T, E = SyncError> = std::result::Result<T, E>;

/// Where changes go to and come from.
#[derive(Clone)]
pub enum Remote {
    /// Another replica on this machine.
    Replica(PathBuf),
    /// A store of batches and snapshots.
    Store {
        /// The store.
        store: Arc<dyn Store>,
        /// Its URL.
        url: String,
    },
}

/// What stores ask for, as the caller has it.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The token for a hub.
    pub token: Option<String>,
    /// Settings for object storage, under the names that are usual in the environment:
    /// `AWS_ACCESS_KEY_ID` and the like.
    pub storage: Vec<(String, String)>,
    /// The key by which what goes to a store is sealed, and what comes from there opened.
    pub key: Option<Key>,
}

/// How to synchronize.
pub struct Session {
    /// Time, randomness and the identity of files; and who is told of work that takes a while.
    pub env: Arc<dyn Environment>,
    /// Merge changes that are stamped far ahead of this machine's clock (R-SKEW).
    pub force: bool,
    /// Merge all that comes in one transaction, however much it is.
    pub whole: bool,
}

impl Session {
    /// As most want it: nothing from the future, and large merges in slices.
    pub fn new(env: Arc<dyn Environment>) -> Session {
        Session { env, force: false, whole: false }
    }
}

/// What crossed in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Changed rows.
    pub rows: u64,
    /// Registers of columns or groups of columns.
    pub columns: u64,
    /// Bytes: of the objects put or read, or of the values and keys handed to another replica.
    pub bytes: u64,
}

/// What a push or a pull did.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What went to the remote.
    pub sent: Traffic,
    /// What came from it.
    pub received: Traffic,
    /// What the merge changed here.
    pub merged: Merged,
    /// Batches that cannot be merged yet.
    pub waiting: Vec<Waiting>,
    /// What cannot be merged: damaged, forged, or of a time that has not come.
    pub aside: Vec<Aside>,
    /// Up to where the store was looked at, if it numbers its objects.
    pub upto: Option<Cursor>,
    /// Replicas that go on under a new site id.
    pub restored: Vec<Restored>,
}

/// A replica that was restored from an older copy, of which somebody had seen more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Its file.
    pub path: PathBuf,
    /// Its site id until now.
    pub former: SiteId,
    /// Its site id from now on.
    pub site: SiteId,
}

impl Restored {
    fn of(replica: &mut Replica) -> Vec<Restored> {
        let former = replica.take_former();
        let restored = |former| {
            let (path, site) = (replica.path().to_owned(), replica.site());
            Restored { path, former, site }
        };
        former.map(restored).into_iter().collect()
    }
}

/// A batch that cannot be merged yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

impl Traffic {
    fn of(delta: &Delta, bytes: u64) -> Traffic {
        let columns = delta.rows.iter().map(|row| row.registers.len() as u64).sum();
        Traffic { rows: delta.rows.len() as u64, columns, bytes }
    }

    fn add(&mut self, other: Traffic) {
        self.rows += other.rows;
        self.columns += other.columns;
        self.bytes += other.bytes;
    }
}

impl Outcome {
    /// Adds what a later push or pull did.
    pub fn add(&mut self, other: Outcome) {
        self.sent.add(other.sent);
        self.received.add(other.received);
        self.merged.add(other.merged);
        self.waiting = other.waiting;
        self.aside = other.aside;
        self.upto = other.upto;
        self.restored.extend(other.restored);
    }
}

impl Remote {
    /// [`Remote::open`] with nothing to show.
    pub fn parse(text: &str) -> Result<Remote> {
        Remote::open(text, &Credentials::default())
    }

    /// Reads what a user calls a remote: a path, `file:///dir/`, `http(s)://HOST/NAME`, or
    /// `s3://BUCKET/PREFIX`.
    /// Nothing is asked yet.
    pub fn open(text: &str, credentials: &Credentials) -> Result<Remote> {
        if text.trim().is_empty() {
            return Err(SyncError::Nowhere);
        }
        // A single letter is a drive of Windows.
        let Some((scheme, rest)) = text.split_once(':').filter(|(scheme, _)| scheme.len() > 1)
        else {
            return Remote::at(text, credentials);
        };
        let store: Arc<dyn Store> = match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let folder = Folder::from_url(text)?;
                if folder.path().is_file() {
                    return Err(SyncError::IsFile(folder.path().to_owned()));
                }
                Arc::new(folder)
            }
            "http" | "https" => Arc::new(Hub::new(text, credentials.token.as_deref())?),
            #[cfg(feature = "bucket")]
            "s3" => Arc::new(synqlite_objects::Bucket::new(text, &credentials.storage)?),
            _ if rest.starts_with("//") => {
                let (url, scheme) = (blanked(text), scheme.to_owned());
                return Err(SyncError::Scheme { url, scheme });
            }
            _ => return Remote::at(text, credentials),
        };
        let store = match &credentials.key {
            Some(key) => Arc::new(Sealed::new(store, key)),
            None => store,
        };
        Ok(Remote::Store { store, url: text.to_owned() })
    }

    /// The replica at a path.
    fn at(path: &str, credentials: &Credentials) -> Result<Remote> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
        if credentials.key.is_some() {
            return Err(SyncError::NoPlace(path));
        }
        if path.is_dir() {
            return Err(SyncError::IsFolder(path));
        }
        Ok(Remote::Replica(path))
    }

    /// What [`Remote::parse`] reads back, wherever the process runs.
    pub fn url(&self) -> String {
        match self {
            Remote::Replica(path) => path.display().to_string(),
            Remote::Store { url, .. } => url.clone(),
        }
    }

    /// Ships what the remote lacks.
    pub fn push(&self, mine: &mut Replica, session: &Session) -> Result<Outcome> {
        self.pushed(mine, session).map_err(|e| e.after(Restored::of(mine)))
    }

    /// Fetches and merges what `mine` lacks.
    pub fn pull(&self, mine: &mut Replica, session: &Session) -> Result<Outcome> {
        self.pulled(mine, session).map_err(|e| e.after(Restored::of(mine)))
    }

    /// A pull, then a push. A store to which nobody has pushed yet is no failure.
    pub fn sync(&self, mine: &mut Replica, session: &Session) -> Result<Outcome> {
        self.synced(mine, session).map_err(|e| e.after(Restored::of(mine)))
    }

    fn pushed(&self, mine: &mut Replica, session: &Session) -> Result<Outcome> {
        let pushed = match self {
            Remote::Replica(path) => {
                replica::push(mine, &mut replica::open(mine, path, session)?, session)?
            }
            Remote::Store { store, url } => {
                remote_store::push(mine, RemoteStore { store: &**store, url }, session)?
            }
        };
        self.noted(mine, pushed)
    }

    fn pulled(&self, mine: &mut Replica, session: &Session) -> Result<Outcome> {
        let pulled = match self {
            Remote::Replica(path) => {
                replica::pull(mine, &mut replica::open(mine, path, session)?, session)?
            }
            Remote::Store { store, url } => {
                remote_store::pull(mine, RemoteStore { store: &**store, url }, session)?
            }
        };
        self.noted(mine, pulled)
    }

    fn synced(&self, mine: &mut Replica, session: &Session) -> Result<Outcome> {
        match self {
            Remote::Replica(path) => {
                let mut other = replica::open(mine, path, session)?;
                mine.meet(&mut other)?;
                // Whoever was restored or copied gives up twins only as long as nobody has heard of them (R-TWIN).
                let first = match other.has_parted()? {
                    true => Some(replica::push(mine, &mut other, session)?),
                    false => None,
                };
                let pulled = replica::pull(mine, &mut other, session)?;
                let mut outcome = self.noted(mine, pulled)?;
                let pushed = match first {
                    Some(pushed) => Ok(pushed),
                    None => replica::push(mine, &mut other, session),
                };
                match pushed.and_then(|pushed| self.noted(mine, pushed)) {
                    Ok(pushed) => outcome.add(pushed),
                    Err(e) => return Err(e.unsent(outcome)),
                }
                Ok(outcome)
            }
            Remote::Store { store, url } => {
                let remote = RemoteStore { store: &**store, url };
                let synced = remote_store::sync(mine, remote, session)?;
                self.noted(mine, synced)
            }
        }
    }

    /// Notes in `mine` what an exchange came to.
    fn noted(
        &self,
        mine: &mut Replica,
        (mut outcome, synced): (Outcome, Synced),
    ) -> Result<Outcome> {
        mine.note_synced(&self.url(), &synced)?;
        if synced.pulled {
            mine.note_aside(&self.url(), &outcome.aside)?;
        }
        outcome.restored.extend(Restored::of(mine));
        Ok(outcome)
    }

    /// Where the remote stands, as soon as that is beyond `after`, or after some time up to
    /// `at_most`. `None` at once if it is none that wakes anybody.
    pub fn wait(&self, after: Option<Cursor>, at_most: Duration) -> Result<Option<Cursor>> {
        match self {
            Remote::Replica(_) => Ok(None),
            Remote::Store { store, .. } => Ok(store.wait(after, at_most)?),
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.url()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_in_a_url_is_in_no_message() {
        for url in [
            "https://user:secret@hub.example.org/n",
            "http://127.0.0.1:7700/n?token=secret",
            "https:/user:secret@hub.example.org/n",
            "postgres://hub:secret@x/db",
            "ftp://user:secret@x/db",
            "s3://AKIA:secret@team/x",
        ] {
            let e = Remote::parse(url).unwrap_err();
            let told = format!("{e} {:?}", e.hint());
            assert!(told.contains('…') && !told.contains("secret"), "{url}: {told}");
        }
    }
}
