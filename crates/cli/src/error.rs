//! What a command says when it fails: what happened, what to do, and the exit status. Most wrong
//! usage never comes so far: the parser of the command line refuses it, with the same status 2.

use std::fmt;
use std::path::Path;
use synqlite_core::Error as EngineError;
use synqlite_hub::Error as HubError;
use synqlite_lsm::Error as LsmError;
use synqlite_remote::{Error as StoreError, SyncError};

/// Result of a command.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Refused or failed; the database is as it was.
    Failed,
    /// The arguments do not fit together.
    Usage,
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

    /// The arguments do not fit together.
    pub fn usage(what: impl Into<String>) -> CommandError {
        CommandError { kind: Kind::Usage, ..CommandError::new(what) }
    }

    /// What to do about it.
    pub fn hint(self, hint: impl Into<String>) -> CommandError {
        CommandError { hint: Some(hint.into()), ..self }
    }

    /// Exit status of the process.
    pub fn status(&self) -> u8 {
        match self.kind {
            Kind::Failed => 1,
            Kind::Usage => 2,
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
        CommandError::new(problem(&e)).hint(hint)
    }
}

impl From<HubError> for CommandError {
    fn from(e: HubError) -> CommandError {
        let HubError::Lsm(e) = e else { return CommandError::new(e.to_string()) };
        // Nobody who runs a hub knows of the store in it.
        let hint = match &e {
            LsmError::Corruption { .. } | LsmError::Missing { .. } => {
                "Restore a backup into a new store: synqlite serve --store NEW --restore FILE"
            }
            LsmError::NewerFormat { .. } => "Update synqlite",
            _ => "Check permissions and free space of the hub's store, and start it again",
        };
        CommandError::new(format!("the hub's store does not work: {}", problem(&e))).hint(hint)
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
