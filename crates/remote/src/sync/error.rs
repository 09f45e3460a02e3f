//! Why a synchronization failed, and what to do about it.

use super::{Outcome, Restored};
use std::path::{Path, PathBuf};
use synqlite_core::Merged;
use synqlite_wire::BatchError;

/// A synchronization failed. But for [`SyncError::Unsent`] the replica is as it was; the remote at most gained whole
/// objects.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] synqlite_core::Error),
    /// The remote store refused.
    #[error(transparent)]
    Store(#[from] synqlite_objects::Error),
    /// The changes of this replica cannot be written as a batch.
    #[error("{0}")]
    Encode(#[source] BatchError),
    /// The target of a clone exists.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// The target of a clone is a name that SQLite does not take for that of a file.
    #[error("`{}` is no path of a file", .0.display())]
    NoFile(PathBuf),
    /// The target of a clone is too far down.
    #[error("the path {} is longer than SQLite takes", .0.display())]
    LongPath(PathBuf),
    /// Neither a path nor a URL.
    #[error("the path or URL of the remote is empty")]
    Nowhere,
    /// The path of a folder where a database is expected.
    #[error("{} is a folder", .0.display())]
    IsFolder(PathBuf),
    /// The URL of a folder that is a file.
    #[error("{} is a file, and `file:` names a folder", .0.display())]
    IsFile(PathBuf),
    /// A key is given for another replica.
    #[error("{} is a replica, which is written as it is: a key seals what is put into a store", .0.display())]
    NoPlace(PathBuf),
    /// A URL that this version cannot reach.
    #[error("{url}: remotes of the kind `{scheme}` are not supported")]
    Scheme {
        /// The URL, without what in it is secret.
        url: String,
        /// Its scheme.
        scheme: String,
    },
    /// What is kept of a remote cannot be read.
    #[error("what is kept of the remote {0} cannot be read: it is damaged, or of a newer release")]
    Kept(String),
    /// What came is merged, and what is new here was not sent.
    #[error("{why}")]
    Unsent {
        /// What it came to until then.
        done: Box<Outcome>,
        /// Why nothing was sent.
        #[source]
        why: Box<SyncError>,
    },
    /// The store lets nothing new in.
    #[error("{address} holds a damaged object where `{name}` is to go")]
    Blocked {
        /// The store.
        address: String,
        /// The object that was to be put, as the store calls it.
        name: String,
    },
}

impl SyncError {
    /// The failure of a push after a pull that did this.
    pub(super) fn unsent(self, done: Outcome) -> SyncError {
        let nothing = done.received.rows == 0 && done.merged == Merged::default();
        match nothing && done.restored.is_empty() {
            true => self,
            false => SyncError::Unsent { done: Box::new(done), why: Box::new(self) },
        }
    }

    /// The failure of an exchange in which these replicas have gone on under a new site id: they do so all the same.
    pub(super) fn after(mut self, restored: Vec<Restored>) -> SyncError {
        if let SyncError::Unsent { done, .. } = &mut self {
            done.restored.extend(restored);
            return self;
        }
        self.unsent(Outcome { restored, ..Outcome::default() })
    }

    /// The failure of work on the file `built`, which nobody has heard of, told of the file that it was to become.
    pub(super) fn of_target(self, built: &Path, target: &Path) -> SyncError {
        use synqlite_core::Error as Core;
        use synqlite_objects::Error as Stored;
        // Also what lies beside it, which has its name and more.
        let name = built.display().to_string();
        let is_built = |path: &str| path.starts_with(&name);
        let shown = || target.display().to_string();
        match self {
            SyncError::Store(Stored::Io { doing, path, source })
                if is_built(&path.display().to_string()) =>
            {
                Stored::Io { doing, path: target.to_owned(), source }.into()
            }
            SyncError::Store(Stored::Beside { path, source })
                if is_built(&path.display().to_string()) =>
            {
                Stored::Beside { path: target.to_owned(), source }.into()
            }
            SyncError::Engine(Core::DiskFull(path)) if is_built(&path) => {
                Core::DiskFull(shown()).into()
            }
            SyncError::Engine(Core::Io { path, why }) if is_built(&path) => {
                Core::Io { path: shown(), why }.into()
            }
            e => e,
        }
    }

    /// Whether the remote cannot be reached, or does not answer as it should.
    pub fn is_away(&self) -> bool {
        use synqlite_objects::Error as E;
        let e = match self {
            SyncError::Unsent { why, .. } => return why.is_away(),
            SyncError::Store(e) => e,
            _ => return false,
        };
        matches!(e, E::Unreachable { .. } | E::NotAHub { .. } | E::AuthorityAsServer { .. })
    }

    /// What the user can do about it, where the message does not say so itself.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            SyncError::Engine(e) => return e.hint(),
            SyncError::Unsent { why, .. } => return why.hint(),
            SyncError::Store(_) | SyncError::Encode(_) => return None,
            SyncError::Blocked { .. } => {
                "If it stays so, remove that file: a site that has its changes pushes them again"
                    .into()
            }
            SyncError::Exists(_) => {
                "Choose another name, or remove it if nobody needs it any more".into()
            }
            SyncError::NoFile(_) => "Give the path of a file to be made, such as notes.db".into(),
            SyncError::LongPath(_) => "Put it nearer to the root of the disk".into(),
            SyncError::IsFolder(path) => {
                // On Windows `C:\dir` is `file:///C:/dir/`.
                let path = path.display().to_string().replace(std::path::MAIN_SEPARATOR, "/");
                format!(
                    "A folder for exchange is written as a URL: file:///{}/",
                    path.trim_matches('/')
                )
            }
            SyncError::IsFile(path) => {
                format!("Another replica is named by its path alone: {}", path.display())
            }
            SyncError::Kept(name) => {
                format!("Update synqlite, or remove the remote {name} and add it again")
            }
            SyncError::NoPlace(_) => "Leave out --key-file".into(),
            SyncError::Nowhere | SyncError::Scheme { .. } => {
                let bucket = if cfg!(feature = "bucket") {
                    ", or a bucket (s3://bucket/prefix)"
                } else {
                    ""
                };
                format!(
                    "Use the path of another replica, a folder (file:///path/to/folder/) or a hub \
                     (http://host/name){bucket}"
                )
            }
        })
    }
}
