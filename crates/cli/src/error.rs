//! What a command says when it fails: what happened, what to do, and the exit status. Most wrong
//! usage never comes so far: the parser of the command line refuses it, with the same status 2.

use serde_json::{Value, json};
use std::fmt;
use std::path::Path;
use synqlite_core::Error as EngineError;
use synqlite_hub::Error as HubError;
use synqlite_lsm::Error as LsmError;
use synqlite_remote::{Error as StoreError, SyncError};

/// Result of a command.
pub type Result<T, E = CommandError> = std::result::Result<T, E>;

/// What kind of failure it is: who can do something about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Refused or failed; the database is as it was.
    Refused,
    /// The arguments do not fit together.
    Usage,
    /// Another program has what is needed; later it works.
    Locked,
    /// A remote cannot be reached.
    Network,
    /// What is asked for contradicts what is there.
    Conflict,
    /// A file or object is not what was written.
    Damaged,
    /// This program is at fault.
    Defect,
    /// Nobody reads what is written.
    Unheard,
}

impl Kind {
    /// All that a program can meet, with what they mean.
    pub const ALL: [(Kind, &'static str); 7] = [
        (Kind::Refused, "refused or failed, for a reason that the others do not name"),
        (Kind::Usage, "wrong usage"),
        (Kind::Locked, "another program has the file or store open or locked; try again later"),
        (Kind::Network, "a remote or store cannot be reached, or does not answer as it should"),
        (
            Kind::Conflict,
            "what is asked for contradicts what is there: a file that exists, another \
          database, another key, two files with one site id",
        ),
        (Kind::Damaged, "a file or an object is damaged, or not what its name says"),
        (Kind::Defect, "a defect of synqlite; please report it"),
    ];

    /// Exit status of the process.
    pub fn status(self) -> u8 {
        match self {
            Kind::Refused => 1,
            Kind::Usage => 2,
            Kind::Locked => 3,
            Kind::Network => 4,
            Kind::Conflict => 5,
            Kind::Damaged => 6,
            Kind::Defect => 7,
            // As a shell reports a process that SIGPIPE ended.
            Kind::Unheard => 141,
        }
    }

    /// Its name for programs.
    pub fn code(self) -> &'static str {
        match self {
            Kind::Refused => "refused",
            Kind::Usage => "usage",
            Kind::Locked => "locked",
            Kind::Network => "network",
            Kind::Conflict => "conflict",
            Kind::Damaged => "damaged",
            Kind::Defect => "defect",
            Kind::Unheard => "unheard",
        }
    }
}

/// A command failed.
#[derive(Debug)]
pub struct CommandError {
    kind: Kind,
    what: String,
    hint: Option<String>,
    object: Option<String>,
}

impl CommandError {
    /// Refused or failed.
    pub fn new(what: impl Into<String>) -> CommandError {
        CommandError { kind: Kind::Refused, what: what.into(), hint: None, object: None }
    }

    /// The arguments do not fit together.
    pub fn usage(what: impl Into<String>) -> CommandError {
        CommandError { kind: Kind::Usage, ..CommandError::new(what) }
    }

    /// Of a text whose last sentence says what to do.
    fn told(kind: Kind, text: &str) -> CommandError {
        match text.rsplit_once(". ") {
            Some((what, hint)) => CommandError::new(what).hint(hint).of(kind, None),
            None => CommandError::new(text).of(kind, None),
        }
    }

    /// What to do about it.
    pub fn hint(self, hint: impl Into<String>) -> CommandError {
        CommandError { hint: Some(hint.into()), ..self }
    }

    /// Of a kind, and what it concerns: a file, a table, an address.
    fn of(self, kind: Kind, object: Option<String>) -> CommandError {
        CommandError { kind, object, ..self }
    }

    /// Exit status of the process.
    pub fn status(&self) -> u8 {
        self.kind.status()
    }

    /// For programs; nothing if nobody reads.
    pub fn json(&self) -> Option<Value> {
        let CommandError { kind, what, hint, object } = self;
        let what = what.trim_end_matches('.');
        (*kind != Kind::Unheard).then(|| {
            json!({"error": {
                "code": kind.code(), "status": kind.status(), "message": what, "hint": hint,
                "object": object,
            }})
        })
    }
}

/// Runs a command; a panic in it is a failure of its own kind, and has been printed.
pub fn guarded(run: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    done.unwrap_or_else(|_| {
        let what = "this command ended in a defect of synqlite; the database is as it was";
        let hint = "Keep a copy of the files, and report it with what is printed above";
        Err(CommandError::new(what).hint(hint).of(Kind::Defect, None))
    })
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

fn of_sqlite(e: &rusqlite::Error) -> Kind {
    use rusqlite::ErrorCode as Code;
    match e.sqlite_error_code() {
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => Kind::Locked,
        Some(Code::DatabaseCorrupt) => Kind::Damaged,
        Some(Code::InternalMalfunction | Code::ApiMisuse) => Kind::Defect,
        _ => Kind::Refused,
    }
}

fn of_engine(e: &EngineError) -> (Kind, Option<String>) {
    use EngineError as E;
    let kind = match e {
        E::Locked(_) | E::Unmerged => Kind::Locked,
        E::Malformed { .. } | E::Torn { .. } | E::Damaged(_) | E::InvalidDelta(_) => Kind::Damaged,
        E::Copied { .. } | E::Unrelated { .. } | E::SameSite(_) | E::LocalWins { .. } => {
            Kind::Conflict
        }
        E::Constraint { .. } => Kind::Defect,
        E::Sqlite(e) => of_sqlite(e),
        _ => Kind::Refused,
    };
    let object = match e {
        E::NoDatabase(path)
        | E::NotADatabase(path)
        | E::ReadOnly(path)
        | E::Locked(path)
        | E::NotAReplica(path)
        | E::Malformed { path, .. }
        | E::Torn { path, .. }
        | E::NewerFormat { path, .. }
        | E::OlderFormat { path, .. }
        | E::Copied { path, .. } => Some(path),
        E::Constraint { table, .. }
        | E::LocalWins { table, .. }
        | E::Dangling { table, .. }
        | E::Doubles { table, .. }
        | E::NoTable { name: table, .. } => Some(table),
        _ => None,
    };
    (kind, object.cloned())
}

fn of_store(e: &StoreError) -> (Kind, Option<String>) {
    use StoreError as E;
    match e {
        E::Unreachable { address, .. }
        | E::NotAHub { address, .. }
        | E::AuthorityAsServer { address } => (Kind::Network, Some(address.clone())),
        E::DatabaseMismatch { address, .. }
        | E::SeveralDatabases { address, .. }
        | E::WrongKey { address }
        | E::NotSealed { address } => (Kind::Conflict, Some(address.clone())),
        E::Denied { address, .. } | E::Refused { address, .. } | E::NoDatabase { address } => {
            (Kind::Refused, Some(address.clone()))
        }
        E::BadSnapshot { name, .. } | E::Unsealable { name } => {
            (Kind::Damaged, Some(name.to_string()))
        }
        E::Io { path, .. } | E::NoKey { path, .. } => {
            (Kind::Refused, Some(path.display().to_string()))
        }
        _ => (Kind::Refused, None),
    }
}

impl From<EngineError> for CommandError {
    fn from(e: EngineError) -> CommandError {
        let (kind, object) = of_engine(&e);
        CommandError { hint: e.hint(), ..CommandError::new(e.to_string()) }.of(kind, object)
    }
}

impl From<SyncError> for CommandError {
    fn from(e: SyncError) -> CommandError {
        let path = |path: &Path| Some(path.display().to_string());
        let (kind, object) = match &e {
            SyncError::Store(e) => return e.into(),
            SyncError::Engine(e) => of_engine(e),
            SyncError::Blocked { name, .. } | SyncError::Kept(name) => {
                (Kind::Damaged, Some(name.clone()))
            }
            SyncError::Encode(_) => (Kind::Defect, None),
            SyncError::Exists(at) => (Kind::Conflict, path(at)),
            SyncError::IsFolder(at) | SyncError::NoPlace(at) => (Kind::Refused, path(at)),
            SyncError::Scheme { url, .. } => (Kind::Refused, Some(url.clone())),
            _ => (Kind::Refused, None),
        };
        CommandError { hint: e.hint(), ..CommandError::new(e.to_string()) }.of(kind, object)
    }
}

impl From<StoreError> for CommandError {
    fn from(e: StoreError) -> CommandError {
        CommandError::from(&e)
    }
}

impl From<&StoreError> for CommandError {
    fn from(e: &StoreError) -> CommandError {
        let (kind, object) = of_store(e);
        CommandError { object, ..CommandError::told(kind, &e.to_string()) }
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
        CommandError::new(problem(&e)).hint(hint).of(of_lsm(&e), None)
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
            return CommandError { object, ..CommandError::told(kind, &e.to_string()) };
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
        CommandError::new(what).hint(hint).of(of_lsm(&e), None)
    }
}

impl From<rusqlite::Error> for CommandError {
    fn from(e: rusqlite::Error) -> CommandError {
        CommandError::new(e.to_string()).of(of_sqlite(&e), None)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(e: std::io::Error) -> CommandError {
        let kind = match e.kind() {
            std::io::ErrorKind::BrokenPipe => Kind::Unheard,
            _ => Kind::Refused,
        };
        CommandError { kind, ..CommandError::new(e.to_string()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_defect_and_says_so() {
        let told = guarded(|| panic!("an assumption")).expect_err("it failed");
        let json = told.json().expect("a document");
        assert_eq!((told.status(), &json["error"]["code"]), (7, &json!("defect")));
        assert!(told.to_string().contains("report it"));
        let broken = EngineError::Constraint { table: "t".into(), what: "x".into() };
        assert_eq!(CommandError::from(broken).status(), 7);
    }

    #[test]
    fn every_kind_has_a_status_and_a_code_of_its_own() {
        let statuses: Vec<_> = Kind::ALL.iter().map(|(kind, _)| kind.status()).collect();
        assert_eq!(statuses, [1, 2, 3, 4, 5, 6, 7]);
        let mut codes: Vec<_> = Kind::ALL.iter().map(|(kind, _)| kind.code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), 7);
    }
}
