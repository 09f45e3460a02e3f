//! What a command says when it fails, and its exit status. Most wrong usage never comes so far: the parser of
//! the command line refuses it, with the same status 2.

use serde_json::Value;
use std::fmt;
use synqlite_core::Error as EngineError;
pub use synqlite_front::{Failure, Kind};
use synqlite_remote::{Error as StoreError, SyncError};

/// Result of a command.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// A command failed.
#[derive(Debug)]
pub enum CommandError {
    /// For a reason to tell.
    Failed(Failure),
    /// Nobody reads what is written.
    Unheard,
}

impl CommandError {
    /// Refused or failed.
    pub fn new(what: impl Into<String>) -> CommandError {
        Failure::new(what).into()
    }

    /// The arguments do not fit together.
    pub fn usage(what: impl Into<String>) -> CommandError {
        Failure::new(what).of(Kind::Usage, None).into()
    }

    /// What to do about it.
    pub fn hint(self, hint: impl Into<String>) -> CommandError {
        match self {
            CommandError::Failed(failure) => failure.hint(hint).into(),
            CommandError::Unheard => self,
        }
    }

    /// Exit status of the process: where nobody reads, as a shell reports one that SIGPIPE ended.
    pub fn status(&self) -> u8 {
        match self {
            CommandError::Failed(failure) => failure.kind.status(),
            CommandError::Unheard => 141,
        }
    }

    /// For programs; nothing if nobody reads.
    pub fn json(&self) -> Option<Value> {
        match self {
            CommandError::Failed(failure) => Some(failure.json()),
            CommandError::Unheard => None,
        }
    }
}

/// Runs a command; a panic in it is a failure of its own kind, and has been printed.
pub fn guarded(run: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    done.unwrap_or_else(|_| {
        let what = "this command ended in a defect of synqlite; the database is as it was";
        let hint = "Keep a copy of the files, and report it with what is printed above";
        Err(Failure::new(what).hint(hint).of(Kind::Defect, None).into())
    })
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Failed(failure) => write!(f, "error: {failure}"),
            CommandError::Unheard => Ok(()),
        }
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> CommandError {
        CommandError::Failed(failure)
    }
}

impl From<EngineError> for CommandError {
    fn from(e: EngineError) -> CommandError {
        Failure::from(e).into()
    }
}

impl From<SyncError> for CommandError {
    fn from(e: SyncError) -> CommandError {
        Failure::from(e).into()
    }
}

impl From<StoreError> for CommandError {
    fn from(e: StoreError) -> CommandError {
        Failure::from(e).into()
    }
}

impl From<rusqlite::Error> for CommandError {
    fn from(e: rusqlite::Error) -> CommandError {
        Failure::from(e).into()
    }
}

impl From<std::io::Error> for CommandError {
    fn from(e: std::io::Error) -> CommandError {
        match e.kind() {
            std::io::ErrorKind::BrokenPipe => CommandError::Unheard,
            _ => CommandError::new(e.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_panic_is_a_defect_and_says_so() {
        let told = guarded(|| panic!("an assumption")).expect_err("it failed");
        let json = told.json().expect("a document");
        assert_eq!((told.status(), &json["error"]["code"]), (7, &json!("defect")));
        assert!(told.to_string().contains("report it"));
    }
}
