//! What can go wrong in a hub's store, apart from what a request got wrong.

use std::io;
use std::path::{Path, PathBuf};
use synqlite_wire::units::bytes;

/// Result of the store's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What failed, on which object, and what helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The log-structured store refused or failed.
    #[error(transparent)]
    Lsm(synqlite_lsm::Error),
    /// Object storage refused or does not answer.
    #[error(transparent)]
    Storage(#[from] synqlite_objects::Error),
    /// Another hub has the store.
    #[error("another hub has {place} open. Stop that one, or give this one a store of its own")]
    Taken {
        /// The folder, or bucket and prefix.
        place: String,
    },
    /// No hub keeps anything there.
    #[error(
        "there is no store of a hub at {place}. Check the path; a hub that is started makes one"
    )]
    NoStore {
        /// The folder.
        place: String,
    },
    /// Another hub took over the prefix of a bucket.
    #[error("another hub took over {place}, so this one writes no more. Run one of them only")]
    Lost {
        /// Bucket and prefix.
        place: String,
    },
    /// The operating system refused an operation on a file.
    #[error("cannot {op} {}: {source}. Check permissions and free space", path.display())]
    Io {
        /// What was attempted, such as "write".
        op: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file that is to be made is there.
    #[error("{} exists already. Choose another name, or remove it first", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file or record is not what a hub wrote.
    #[error("{what} is damaged: {why}. Restore the store from a backup")]
    Damaged {
        /// The file or record.
        what: String,
        /// What does not fit.
        why: &'static str,
    },
    /// A store of a later release.
    #[error("{what} has format {found}, this release reads up to {known}. Use a newer release")]
    Newer {
        /// The store or file.
        what: String,
        /// Its format.
        found: u64,
        /// The newest known here.
        known: u64,
    },
    /// The device has hardly any space left.
    #[error("the hub's disk is full. Free space or remove what is not needed")]
    Full,
    /// The token has stored as much as it may.
    #[error(
        "this token may store {} and has reached that, with what it has not finished to upload. Ask for \
         a higher limit, or finish uploads; a day later they are removed",
        bytes(*limit)
    )]
    Quota {
        /// Bytes that it may store.
        limit: u64,
    },
    /// The token has begun as many uploads as it may.
    #[error(
        "this token has {most} unfinished uploads. Finish them, or wait until they are removed, a day \
         after their last part"
    )]
    Unfinished {
        /// So many are kept.
        most: usize,
    },
    /// The store does not answer, or not any more.
    #[error("the store cannot be reached: {why}. Try again later")]
    Away {
        /// What is known of the reason.
        why: String,
    },
    /// A configuration or argument that cannot work.
    #[error("{what}. {hint}")]
    Setting {
        /// What is wrong.
        what: String,
        /// What to do.
        hint: &'static str,
    },
}

impl From<synqlite_lsm::Error> for Error {
    fn from(e: synqlite_lsm::Error) -> Error {
        if e.is_full() { Error::Full } else { Error::Lsm(e) }
    }
}

impl Error {
    /// The same for one more who waits.
    pub(crate) fn again(&self) -> Error {
        match self {
            Error::Full => Error::Full,
            e => Error::away(e.to_string()),
        }
    }

    /// Attaches operation and path to an I/O error.
    pub(crate) fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full,
            _ => Error::Io { op, path, source },
        }
    }

    pub(crate) fn away(why: impl Into<String>) -> Error {
        Error::Away { why: why.into() }
    }
}
