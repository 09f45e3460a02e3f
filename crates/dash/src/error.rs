//! What can go wrong, and which of SQLite's result codes says so.

use libsqlite3_sys as ffi;
use std::io;
use std::os::raw::c_int;

/// Why an operation on the pair failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Somebody else holds a lock that is needed.
    #[error("the database is locked")]
    Busy,
    /// The transaction reads an older version than the one it would have to follow.
    #[error("the database was changed after this transaction began to read it")]
    Snapshot,
    /// This database cannot be opened in this way; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The operating system refused something.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The result code that says so.
        code: c_int,
        /// Why it failed.
        error: io::Error,
    },
}

impl Error {
    /// SQLite's result code.
    pub(crate) fn code(&self) -> c_int {
        match self {
            Error::Busy => ffi::SQLITE_BUSY,
            Error::Snapshot => ffi::SQLITE_BUSY_SNAPSHOT,
            Error::Refused(_) => ffi::SQLITE_CANTOPEN,
            Error::Io { error, .. } if is_full(error) => ffi::SQLITE_FULL,
            Error::Io { code, .. } => *code,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The usual result.
pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Says what was tried when the operating system refuses.
pub(crate) trait Context<T> {
    /// The error with its place.
    fn when(self, what: &'static str, code: c_int) -> Result<T>;
    /// A failed read.
    fn reading(self, what: &'static str) -> Result<T>;
    /// A failed write.
    fn writing(self, what: &'static str) -> Result<T>;
    /// A failed synchronization.
    fn syncing(self, what: &'static str) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn when(self, what: &'static str, code: c_int) -> Result<T> {
        self.map_err(|error| Error::Io { what, code, error })
    }

    fn reading(self, what: &'static str) -> Result<T> {
        self.when(what, ffi::SQLITE_IOERR_READ)
    }

    fn writing(self, what: &'static str) -> Result<T> {
        self.when(what, ffi::SQLITE_IOERR_WRITE)
    }

    fn syncing(self, what: &'static str) -> Result<T> {
        self.when(what, ffi::SQLITE_IOERR_FSYNC)
    }
}
