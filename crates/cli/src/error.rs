//! What a command says when it fails, and its exit status. Most wrong usage never comes so far: the parser of
//! the command line refuses it, with the same status 2.

use serde_json::Value;
use std::fmt;
use std::path::Path;
use synqlite_core::Error as EngineError;
use synqlite_front::failure::of_store;
pub use synqlite_front::{Failure, Kind};
use synqlite_hub::Error as HubError;
use synqlite_lsm::Error as LsmError;
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

/// What is wrong with a log-structured store. The library's own advice, for programmers, is what
/// follows the last semicolon.
pub fn problem(e: &LsmError) -> String {
    let text = e.to_string();
    text.rsplit_once("; ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

impl From<LsmError> for CommandError {
    fn from(e: LsmError) -> CommandError {
        let folder = |path: &Path| path.parent().unwrap_or(path).display().to_string();
        let hint = match &e {
            LsmError::Io { .. } => "Check permissions and free space, and run it again".into(),
            LsmError::Corruption { path, .. } => {
                let dir = folder(path);
                format!(
                    "List all damage: synqlite kv verify {dir}. Salvage the rest: synqlite kv repair {dir}"
                )
            }
            LsmError::Missing { path, .. } => {
                format!("Restore it, or keep what is left: synqlite kv repair {}", folder(path))
            }
            LsmError::NotAStore { .. } => {
                "Check the path; `kv put` and `kv load` make a store in a new or empty folder"
                    .into()
            }
            LsmError::NewerFormat { .. } => "Update synqlite".into(),
            LsmError::Locked { .. } => "Wait until the other program has closed it".into(),
            LsmError::TooLarge { .. } => "Split it".into(),
            LsmError::ReversedRange => "Swap --from and --to; --reverse puts the last first".into(),
            LsmError::Closed | LsmError::Halted { .. } => {
                "Remove the cause and run it again".into()
            }
            LsmError::Forgotten { .. } => "Read all of the store: synqlite kv scan".into(),
            _ => return CommandError::new(e.to_string()),
        };
        Failure::new(problem(&e)).hint(hint).of(of_lsm(&e), None).into()
    }
}

fn of_lsm(e: &LsmError) -> Kind {
    match e {
        LsmError::Locked { .. } => Kind::Locked,
        LsmError::Corruption { .. } | LsmError::Missing { .. } => Kind::Damaged,
        _ => Kind::Refused,
    }
}

impl From<HubError> for CommandError {
    fn from(e: HubError) -> CommandError {
        let HubError::Lsm(e) = e else {
            let (kind, object) = match &e {
                HubError::Taken { place } => (Kind::Locked, Some(place.clone())),
                HubError::Lost { place } => (Kind::Conflict, Some(place.clone())),
                HubError::NoStore { place } => (Kind::Refused, Some(place.clone())),
                HubError::Damaged { what, .. } => (Kind::Damaged, Some(what.clone())),
                HubError::Away { .. } => (Kind::Network, None),
                HubError::Storage(e) => of_store(e),
                _ => (Kind::Refused, None),
            };
            return Failure { object, ..Failure::told(kind, &e.to_string()) }.into();
        };
        // Nobody who runs a hub knows of the store in it.
        let hint = match &e {
            LsmError::Corruption { .. } | LsmError::Missing { .. } => {
                "Restore a backup into a new store: synqlite serve --store NEW --restore FILE"
            }
            LsmError::NewerFormat { .. } => "Update synqlite",
            _ => "Check permissions and free space of the hub's store, and start it again",
        };
        let what = format!("the hub's store does not work: {}", problem(&e));
        Failure::new(what).hint(hint).of(of_lsm(&e), None).into()
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
