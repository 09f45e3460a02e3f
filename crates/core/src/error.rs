//! What can go wrong, on which object, and what to do about it.

/// Result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the engine. The database is as it was before the call.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite refused; its own message says what.
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
}
