//! What a failure is to those who asked: what happened, what to do, on which object, and of which kind.

use serde_json::{Value, json};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use synqlite_core::{Error as EngineError, rusqlite};
use synqlite_remote::{Error as StoreError, SyncError};

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

    /// Exit status of the command.
    pub fn status(self) -> u8 {
        match self {
            Kind::Refused => 1,
            Kind::Usage => 2,
            Kind::Locked => 3,
            Kind::Network => 4,
            Kind::Conflict => 5,
            Kind::Damaged => 6,
            Kind::Defect => 7,
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
        }
    }
}

/// A failure, told.
#[derive(Debug)]
pub struct Failure {
    /// Of which kind.
    pub kind: Kind,
    /// What happened.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// What it concerns: a file, a table, an address.
    pub object: Option<String>,
}

impl Failure {
    /// Refused or failed.
    pub fn new(what: impl Into<String>) -> Failure {
        Failure { kind: Kind::Refused, what: what.into(), hint: None, object: None }
    }

    /// Of a text whose last sentence says what to do.
    pub fn told(kind: Kind, text: &str) -> Failure {
        match text.rsplit_once(". ") {
            Some((what, hint)) => Failure::new(what).hint(hint).of(kind, None),
            None => Failure::new(text).of(kind, None),
        }
    }

    /// What to do about it.
    pub fn hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// Of a kind, and what it concerns.
    pub fn of(self, kind: Kind, object: Option<String>) -> Failure {
        Failure { kind, object, ..self }
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let Failure { kind, what, hint, object } = self;
        json!({"error": {
            "code": kind.code(), "status": kind.status(), "message": what.trim_end_matches('.'),
            "hint": hint, "object": object,
        }})
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what.trim_end_matches('.'))?;
        match &self.hint {
            Some(hint) => write!(f, ". {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

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
        E::Locked(_) | E::OnDash(_) | E::Alone(_) | E::Unmerged => Kind::Locked,
        E::Malformed { .. } | E::Torn { .. } | E::Damaged(_) | E::InvalidDelta(_) => Kind::Damaged,
        E::Copied { .. } | E::Unrelated { .. } | E::SameSite(_) | E::LocalWins { .. } => {
            Kind::Conflict
        }
        E::Constraint { .. } => Kind::Defect,
        E::NoTable { .. } => Kind::Usage,
        E::Sqlite(e) => of_sqlite(e),
        _ => Kind::Refused,
    };
    let object = match e {
        E::NoDatabase(path)
        | E::NotADatabase(path)
        | E::ReadOnly(path)
        | E::Moved(path)
        | E::DiskFull(path)
        | E::Io { path, .. }
        | E::Locked(path)
        | E::OnDash(path)
        | E::Alone(path)
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
        | E::NotReplicated { name: table, .. }
        | E::NoTable { name: table, .. } => Some(table),
        _ => None,
    };
    (kind, object.cloned())
}

/// Of what kind the failure of a store is, and what it concerns.
pub fn of_store(e: &StoreError) -> (Kind, Option<String>) {
    use StoreError as E;
    match e {
        E::Unreachable { address, .. }
        | E::NotAHub { address, .. }
        | E::AuthorityAsServer { address } => (Kind::Network, Some(address.clone())),
        E::DatabaseMismatch { address, .. }
        | E::SeveralDatabases { address, .. }
        | E::WrongKey { address }
        | E::NotSealed { address } => (Kind::Conflict, Some(address.clone())),
        E::Denied { address, .. }
        | E::Refused { address, .. }
        | E::TooLarge { address, .. }
        | E::NoDatabase { address }
        | E::NoBucket { address } => (Kind::Refused, Some(address.clone())),
        E::BadSnapshot { name, .. } | E::Unsealable { name, .. } => {
            (Kind::Damaged, Some(name.to_string()))
        }
        E::Io { path, .. } | E::Beside { path, .. } | E::NoKey { path, .. } => {
            (Kind::Refused, Some(path.display().to_string()))
        }
        _ => (Kind::Refused, None),
    }
}

impl From<EngineError> for Failure {
    fn from(e: EngineError) -> Failure {
        let (kind, object) = of_engine(&e);
        Failure { hint: e.hint(), ..Failure::new(e.to_string()) }.of(kind, object)
    }
}

impl From<SyncError> for Failure {
    fn from(e: SyncError) -> Failure {
        let path = |path: &Path| Some(path.display().to_string());
        // What it merged is told by whoever has a place for that.
        let e = match e {
            SyncError::Unsent { why, .. } => *why,
            e => e,
        };
        let (kind, object) = match &e {
            SyncError::Store(e) => return e.into(),
            SyncError::Engine(e) => of_engine(e),
            SyncError::Blocked { name, .. } | SyncError::Kept(name) => {
                (Kind::Damaged, Some(name.clone()))
            }
            SyncError::Encode(_) => (Kind::Defect, None),
            SyncError::Exists(at) => (Kind::Conflict, path(at)),
            SyncError::NoFile(_) => (Kind::Usage, None),
            SyncError::IsFolder(at) | SyncError::NoPlace(at) | SyncError::LongPath(at) => {
                (Kind::Refused, path(at))
            }
            SyncError::Scheme { url, .. } => (Kind::Refused, Some(url.clone())),
            _ => (Kind::Refused, None),
        };
        Failure { hint: e.hint(), ..Failure::new(e.to_string()) }.of(kind, object)
    }
}

impl From<StoreError> for Failure {
    fn from(e: StoreError) -> Failure {
        Failure::from(&e)
    }
}

impl From<&StoreError> for Failure {
    fn from(e: &StoreError) -> Failure {
        let (kind, object) = of_store(e);
        let flaw = if e.is_distrust() { authorities() } else { None };
        let told = match (e, flaw) {
            (StoreError::Unreachable { address, why }, Some(flaw)) => {
                format!("cannot reach {address}: {why}. {flaw}")
            }
            _ => e.to_string(),
        };
        Failure { object, ..Failure::told(kind, &told) }
    }
}

/// More than any file of authorities has, in bytes.
const LONGEST_FILE: u64 = 16 << 20;

/// What is wrong with the file that `SSL_CERT_FILE` names, if it names one of no use.
fn authorities() -> Option<String> {
    // Elsewhere the system alone says whom it trusts.
    if !cfg!(all(unix, not(target_vendor = "apple"))) {
        return None;
    }
    let path = std::env::var_os("SSL_CERT_FILE")?;
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|f| f.take(LONGEST_FILE).read_to_end(&mut bytes));
    let mark = b"-----BEGIN CERTIFICATE-----";
    let why = match read {
        Err(e) => format!("cannot be read: {e}"),
        Ok(_) if bytes.windows(mark.len()).any(|part| part == mark) => return None,
        Ok(_) => "has no certificate".to_owned(),
    };
    let path = Path::new(&path).display();
    Some(format!(
        "SSL_CERT_FILE names `{path}`, which {why}. Name a PEM file with certificates of authorities \
         there, or leave it unset: then those of the system count"
    ))
}

impl From<rusqlite::Error> for Failure {
    fn from(e: rusqlite::Error) -> Failure {
        Failure::new(e.to_string()).of(of_sqlite(&e), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_status_and_a_code_of_its_own() {
        let statuses: Vec<_> = Kind::ALL.iter().map(|(kind, _)| kind.status()).collect();
        assert_eq!(statuses, [1, 2, 3, 4, 5, 6, 7]);
        let mut codes: Vec<_> = Kind::ALL.iter().map(|(kind, _)| kind.code()).collect();
        codes.dedup();
        assert_eq!(codes.len(), 7);
        let broken = EngineError::Constraint { table: "t".into(), what: "x".into() };
        assert_eq!(Failure::from(broken).kind, Kind::Defect);
    }
}
