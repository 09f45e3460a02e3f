//! What a command says when it fails: what happened, what to do, and the exit status. Wrong usage,
//! status 2, never comes so far: the parser of the command line refuses it.

use std::fmt;
use synqlite_core::Error as EngineError;
use synqlite_remote::{Error as StoreError, SyncError};

/// Result of a command.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Refused or failed; the database is as it was.
    Failed,
    /// Nobody reads what is written.
    Unheard,
}

/// A command failed.
#[derive(Debug)]
pub struct CommandError {
    kind: Kind,
    what: String,
    hint: Option<String>,
}

impl CommandError {
    /// Refused or failed.
    pub fn new(what: impl Into<String>) -> CommandError {
        CommandError { kind: Kind::Failed, what: what.into(), hint: None }
    }

    /// What to do about it.
    pub fn hint(self, hint: impl Into<String>) -> CommandError {
        CommandError { hint: Some(hint.into()), ..self }
    }

    /// Exit status of the process.
    pub fn status(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            // As a shell reports a process that SIGPIPE ended.
            Kind::Unheard => 141,
        }
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Unheard {
            return Ok(());
        }
        write!(f, "error: {}", self.what.trim_end_matches('.'))?;
        match &self.hint {
            Some(hint) => write!(f, ". {hint}"),
            None => Ok(()),
        }
    }
}

impl From<EngineError> for CommandError {
    fn from(e: EngineError) -> CommandError {
        CommandError { hint: e.hint(), ..CommandError::new(e.to_string()) }
    }
}

impl From<SyncError> for CommandError {
    fn from(e: SyncError) -> CommandError {
        CommandError { hint: e.hint(), ..CommandError::new(e.to_string()) }
    }
}

impl From<StoreError> for CommandError {
    fn from(e: StoreError) -> CommandError {
        CommandError::new(e.to_string())
    }
}

impl From<rusqlite::Error> for CommandError {
    fn from(e: rusqlite::Error) -> CommandError {
        CommandError::new(e.to_string())
    }
}

impl From<std::io::Error> for CommandError {
    fn from(e: std::io::Error) -> CommandError {
        let kind = match e.kind() {
            std::io::ErrorKind::BrokenPipe => Kind::Unheard,
            _ => Kind::Failed,
        };
        CommandError { kind, ..CommandError::new(e.to_string()) }
    }
}
