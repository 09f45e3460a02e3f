//! What can go wrong. Every error names the object it concerns and what to do next.

use std::io;
use std::path::{Path, PathBuf};

/// The result of every operation of the store.
pub type Result<T> = std::result::Result<T, Error>;

/// What failed, on which object, and what helps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {op} {}: {source}; check permissions and free space, then open the store again", path.display())]
    Io {
        /// What was attempted ("write", "sync", ...).
        op: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Bytes on disk are not what was written.
    #[error("{} is damaged at byte {offset}: {what}; `verify` lists all damage, `repair` salvages the rest", path.display())]
    Corruption {
        /// The damaged file.
        path: PathBuf,
        /// Byte offset of the damaged part.
        offset: u64,
        /// What does not fit.
        what: String,
    },
    /// A file that the store needs is gone.
    #[error("{} is missing, {why}; restore it, or `repair` keeps what is left", path.display())]
    Missing {
        /// The missing file.
        path: PathBuf,
        /// Who needs it.
        why: String,
    },
    /// The folder holds something else.
    #[error("{} is not a store: {why}; choose an empty folder", path.display())]
    NotAStore {
        /// The folder.
        path: PathBuf,
        /// Why it is taken for something else.
        why: String,
    },
    /// The file was written by a later release.
    #[error("{} has format {found}, this release reads up to {supported}; use a newer release", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest version understood here.
        supported: u32,
    },
    /// Another process, or another handle of this one, has the store open.
    #[error("{} is open elsewhere; close it there first", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// A key, value or batch exceeds its documented maximum (bytes).
    #[error("a {what} of {len} bytes exceeds the maximum of {max}; split it")]
    TooLarge {
        /// "key", "value" or "batch".
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The longest allowed, in bytes.
        max: usize,
    },
    /// A scan's lower bound lies above its upper bound.
    #[error(
        "the range starts after it ends; swap the bounds, or use scan_back for descending order"
    )]
    ReversedRange,
    /// The store was closed.
    #[error("the store is closed; open it again")]
    Closed,
    /// An earlier failure stopped all writing; reads go on.
    #[error("writing stopped after a failure: {why}; remove the cause and open the store again")]
    Halted {
        /// The first failure.
        why: String,
        /// Whether that was [for want of room](Error::is_full).
        full: bool,
    },
    /// Deletions newer than the asked sequence have been compacted away.
    #[error(
        "changes since {asked} are incomplete: deletions up to {forgotten} are forgotten; scan a snapshot afresh and follow from its sequence"
    )]
    Forgotten {
        /// The sequence asked for.
        asked: u64,
        /// The newest deletion that is forgotten.
        forgotten: u64,
    },
    /// An option outside its allowed range.
    #[error("option {name}: {why}")]
    BadOption {
        /// Name of the option.
        name: &'static str,
        /// What is allowed.
        why: &'static str,
    },
}

impl Error {
    /// Damage at `offset` of `path`.
    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Corruption { path: path.to_owned(), offset, what: what.into() }
    }

    /// Whether the device had no room: a store that is opened again once there is some holds all
    /// that was acknowledged. Not said of a force that failed, after which nobody knows what the
    /// device has.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        match self {
            Error::Io { op, source, .. } => {
                *op != "sync" && matches!(source.kind(), StorageFull | QuotaExceeded)
            }
            Error::Halted { full, .. } => *full,
            _ => false,
        }
    }

    /// The file that could not be read.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Error::Corruption { path, .. } | Error::NewerFormat { path, .. } => Some(path),
            Error::Io { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// Attaches the operation and the path to an I/O result.
pub(crate) trait At<T> {
    /// `op` names what was attempted, `path` on what.
    fn at(self, op: &'static str, path: &Path) -> Result<T>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, op: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { op, path: path.to_owned(), source })
    }
}
