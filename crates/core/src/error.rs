//! What can go wrong, on which object, and what to do about it.

use crate::dash::{self, Used};
use crate::describe::the_row;
use rusqlite::ffi::SQLITE_READONLY_DBMOVED;
use synqlite_view::policy::BadPolicy;
use synqlite_wire::units::count;
use synqlite_wire::{DatabaseId, InvalidDelta, SiteId};

/// Result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure of the engine. The database is as it was before the call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not there.
    #[error("there is no database at {0}")]
    NoDatabase(String),
    /// The file is no SQLite database, or an encrypted one.
    #[error("{0} is not a SQLite database, or it is encrypted")]
    NotADatabase(String),
    /// SQLite finds the file damaged.
    #[error("{path} is damaged, says SQLite: {why}")]
    Malformed {
        /// The file.
        path: String,
        /// SQLite's message.
        why: String,
    },
    /// The database cannot be written.
    #[error("{0} cannot be written: it, or its folder, is read-only")]
    ReadOnly(String),
    /// At its path there is another file by now, or none.
    #[error("{0} was moved, removed or replaced while it was in use")]
    Moved(String),
    /// Another program keeps the database locked.
    #[error("{0} is locked by another program")]
    Locked(String),
    /// Another program has the database open by the file system `dash`, and this connection is none of it.
    #[error("{0} is open in a program with vfs=dash, and beside that others only read it")]
    OnDash(String),
    /// A connection of the file system `dash` lets nobody else in.
    #[error("{0} is open on a connection with dash=shadow-x, which lets in no other")]
    Alone(String),
    /// No room on the disk.
    #[error(
        "the disk of {0}, or that of temporary files, is full; what was not finished is undone"
    )]
    DiskFull(String),
    /// The system failed to read or write.
    #[error("{path} cannot be read or written, says SQLite: {why}")]
    Io {
        /// The file.
        path: String,
        /// SQLite's message, and its code, of which there are some thirty.
        why: String,
    },
    /// The database has no SynQLite metadata.
    #[error("{0} is not a replica")]
    NotAReplica(String),
    /// Tables of ours were dropped.
    #[error("{path} was a replica, and {} of it {} missing{}", listed(.missing), if .missing.len() == 1 { "is" } else { "are" }, unwritable(.tables))]
    Torn {
        /// The file.
        path: String,
        /// Tables and indexes of ours that are not there.
        missing: Vec<String>,
        /// Tables of the application whose triggers of ours are there and fail.
        tables: Vec<String>,
    },
    /// Metadata of a newer program.
    #[error("{path} has replica format {found}; this program knows format {known}")]
    NewerFormat {
        /// The file.
        path: String,
        /// Format of the file.
        found: i64,
        /// Newest format this program reads.
        known: i64,
    },
    /// An entry of the journal that triggers of a newer program wrote.
    #[error("the journal has entries of kind {kind}, which this program does not know")]
    NewerJournal {
        /// The kind.
        kind: i64,
    },
    /// Metadata of an older program.
    #[error("{path} has replica format {found}, which this program no longer reads")]
    OlderFormat {
        /// The file.
        path: String,
        /// Format of the file.
        found: i64,
    },
    /// The file was copied without giving the copy an id of its own.
    #[error(
        "{path} is a copy of the replica with site id {site}, and two files must not share one"
    )]
    Copied {
        /// The file.
        path: String,
        /// The id it shares.
        site: SiteId,
    },
    /// Two replicas of different databases.
    #[error("the two are not clones of one another: one is database {ours}, the other {theirs}")]
    Unrelated {
        /// Database of this replica.
        ours: DatabaseId,
        /// Database of the other.
        theirs: DatabaseId,
    },
    /// A replica told to synchronize with itself.
    #[error("site {0} cannot synchronize with itself")]
    SameSite(SiteId),
    /// Changes from the future.
    #[error(
        "changes of site {site} are stamped {} ahead of this machine's clock; merging \
         them would let them win over all later writes", span(*ahead_ms)
    )]
    Skewed {
        /// The site.
        site: SiteId,
        /// How far ahead, in milliseconds.
        ahead_ms: i64,
    },
    /// Changes that no site writes; nobody can tell what they mean.
    #[error("the changes cannot be merged: {0}")]
    InvalidDelta(#[from] InvalidDelta),
    /// The changes build on others that this replica does not have.
    #[error("the changes build on earlier ones that are not here yet")]
    MissingBase,
    /// A merge that would break a declared constraint.
    #[error("the merge would break a constraint of table {table}: {what}")]
    Constraint {
        /// The table.
        table: String,
        /// The constraint.
        what: String,
    },
    /// A fold that does not come to an end.
    #[error(
        "the fold cannot show {} of table {table} as it was written: {} gave way to it and stands in its \
         way again",
        the_row(row),
        the_row(rival)
    )]
    LocalWins {
        /// The table.
        table: String,
        /// The row.
        row: String,
        /// Who is in its way.
        rival: String,
    },
    /// A foreign key already broken before replication begins.
    #[error("table {table} has {} whose foreign key refers to no row", count(*rows as u64, "row"))]
    Dangling {
        /// The table.
        table: String,
        /// How many.
        rows: usize,
    },
    /// Floating-point numbers that refer to texts: what text they are differs between versions of SQLite.
    #[error(
        "table {table} has {} in which {column} refers to a text by a floating-point number of more digits \
         than all versions of SQLite write alike", count(*rows, "row")
    )]
    Doubles {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// How many.
        rows: u64,
    },
    /// A table that is there and not replicated.
    #[error("{name} is not replicated here: {why}")]
    NotReplicated {
        /// Its name.
        name: String,
        /// Why, and how that is changed where it can be.
        why: String,
    },
    /// A table that does not exist.
    #[error("there is no table {name}{}", candidates(.near))]
    NoTable {
        /// The name.
        name: String,
        /// Names close to it.
        near: Vec<String>,
    },
    /// A policy that means nothing.
    #[error("policy {key}={value}: {why}")]
    Policy {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// An application trigger, or a SQLite setting, that stands in the way.
    #[error("{0}")]
    Refused(String),
    /// Changes have arrived that another process is merging.
    #[error("another process is merging changes that have arrived here")]
    Unmerged,
    /// Metadata that contradicts itself.
    #[error("the replica's metadata is damaged: {0}")]
    Damaged(String),
    /// SQLite refused; its own message says what.
    #[error("{0}")]
    Sqlite(#[source] rusqlite::Error),
}

fn candidates(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// The first few names.
fn listed(names: &[String]) -> String {
    match names {
        [first, second, third, _, _, ..] => {
            format!("{first}, {second}, {third} and {} more", names.len() - 3)
        }
        [head @ .., last] if !head.is_empty() => format!("{} and {last}", head.join(", ")),
        _ => names.join(""),
    }
}

/// A time of five minutes or more, in whole units of which there are two at least.
fn span(ms: i64) -> String {
    let minutes = ms / 60_000;
    let (hours, days) = (minutes / 60, minutes / 1_440);
    match (hours, days) {
        (..2, _) => format!("{minutes} minutes"),
        (..48, _) => format!("{hours} hours"),
        (_, ..730) => format!("{days} days"),
        _ => format!("{} years", days / 365),
    }
}

fn unwritable(tables: &[String]) -> String {
    match tables {
        [] => String::new(),
        [table] => format!(", so nobody can write to table {table}"),
        tables => format!(", so nobody can write to tables {}", listed(tables)),
    }
}

impl Error {
    /// Whether what was to be merged is at fault, or builds on what is not here: not this replica, and not the
    /// machine. Everything else can be merged then.
    pub fn is_of_changes(&self) -> bool {
        use rusqlite::ErrorCode as Code;
        match self {
            Error::InvalidDelta(_)
            | Error::Skewed { .. }
            | Error::MissingBase
            | Error::Constraint { .. }
            | Error::LocalWins { .. }
            | Error::Policy { .. } => true,
            Error::Sqlite(e) => matches!(
                e.sqlite_error_code(),
                Some(Code::TooBig | Code::ConstraintViolation | Code::TypeMismatch | Code::Unknown)
            ),
            _ => false,
        }
    }

    /// What the user can do about it, where there is something to say.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NoDatabase(_) => "Check the path".into(),
            Error::NotADatabase(_) => "Give the path of an ordinary SQLite file".into(),
            Error::Malformed { .. } => "Look at it with PRAGMA integrity_check; if only an index is \
                 wrong, REINDEX makes it anew"
                .into(),
            Error::ReadOnly(_) => "Make the file and its folder writable".into(),
            Error::Moved(path) => format!(
                "Look what is at that path now, and run the command again on the file that is meant; a \
                 backup that was moved there needs an id of its own first: synqlite init {path} --new-site"
            ),
            Error::Locked(_) => "Try again when the other program has finished".into(),
            Error::OnDash(_) => "Load libsynqlite_dash and open it with vfs=dash here too, or try again when no \
                 program has it open so"
                .into(),
            Error::Alone(_) => "Close that connection, which may be one of this program, or open it without \
                 dash=shadow-x"
                .into(),
            Error::Unmerged => "Run the command again: it goes on with them".into(),
            Error::Io { .. } => {
                "Look whether its disk has room and works, and whether the file, its folder and what SQLite \
                 keeps beside it (-wal, -shm, -journal) may be written"
                    .into()
            }
            Error::DiskFull(_) => "Free some space and run the command again".into(),
            Error::NotAReplica(path) => format!("Run: synqlite init {path}"),
            Error::Torn { path, .. } => format!(
                "Make it a replica of the same database again: synqlite init {path} --repair REMOTE, \
                 where REMOTE is another replica or a place that has its changes. Or make it an \
                 ordinary database: synqlite deinit {path}"
            ),
            Error::NewerFormat { .. } | Error::NewerJournal { .. } => "Update synqlite".into(),
            Error::OlderFormat { path, found: 2 } => format!(
                "Where it can be written it is made one of now: synqlite status {path}"
            ),
            Error::OlderFormat { path, .. } => format!(
                "Take its metadata off and make it a replica anew: synqlite deinit {path}"
            ),
            Error::Copied { path, .. } => format!(
                "If this file is the copy, give it an id of its own: synqlite init {path} --new-site"
            ),
            Error::Unrelated { .. } => "Make the other side with `synqlite clone`".into(),
            Error::Skewed { .. } => {
                "Set the clocks right, or merge all the same with --force".into()
            }
            Error::InvalidDelta(_) => {
                "Their writer is at fault; take the changes from another replica".into()
            }
            Error::MissingBase => "Synchronize again when the missing batch has arrived".into(),
            Error::Constraint { .. } => {
                "Merges repair such rows by themselves, so this is a defect: run synqlite verify, keep \
                 a copy of both files, and report it"
                    .into()
            }
            Error::LocalWins { .. } => {
                "Nothing was changed. Give one of the two rows another unique value, and run the command \
                 again"
                    .into()
            }
            Error::Doubles { column, .. } => format!(
                "Store whole numbers or texts in {column}, or use --policy fk=ignore"
            ),
            Error::Dangling { table, .. } => format!(
                "Repair the rows that PRAGMA foreign_key_check({table}) lists, or use --policy fk=ignore"
            ),
            Error::Damaged(_) => {
                "Keep a copy of the file and run: synqlite verify. With --repair, synqlite init makes \
                 the metadata anew from another replica or a place"
                    .into()
            }
            _ => return None,
        })
    }
}

impl From<synqlite_view::Error> for Error {
    fn from(error: synqlite_view::Error) -> Error {
        use synqlite_view::Error as Of;
        match error {
            Of::Constraint { table, what } => Error::Constraint { table, what },
            Of::LocalWins { table, row, rival } => Error::LocalWins { table, row, rival },
            Of::Damaged(what) => Error::Damaged(what),
            // What the view asks, this engine answers, so the failure is one of its own.
            Of::Facts(error) => match error.downcast() {
                Ok(own) => *own,
                Err(other) => Error::Damaged(other.to_string()),
            },
            other => Error::Damaged(other.to_string()),
        }
    }
}

impl From<Error> for synqlite_view::Error {
    fn from(error: Error) -> synqlite_view::Error {
        use synqlite_view::Error as Of;
        match error {
            Error::Constraint { table, what } => Of::Constraint { table, what },
            other => Of::Facts(Box::new(other)),
        }
    }
}

impl From<BadPolicy> for Error {
    fn from(BadPolicy { key, value, why }: BadPolicy) -> Error {
        Error::Policy { key, value, why }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Sqlite(error)
    }
}

impl Error {
    /// The same failure, saying which file it was, where SQLite's own message does not.
    pub fn on(self, path: &std::path::Path) -> Error {
        use rusqlite::ErrorCode as Code;
        let Error::Sqlite(error) = self else { return self };
        let name = path.display().to_string();
        let code = error.sqlite_error().map_or(0, |e| e.extended_code);
        match error.sqlite_error_code() {
            Some(Code::NotADatabase) => Error::NotADatabase(name),
            Some(Code::DatabaseCorrupt) => Error::Malformed { path: name, why: error.to_string() },
            Some(Code::ReadOnly) if code == SQLITE_READONLY_DBMOVED => match dash::used(path) {
                Used::No => Error::Moved(name),
                // Its commits exchange the file.
                _ => Error::OnDash(name),
            },
            Some(Code::ReadOnly | Code::PermissionDenied) => Error::ReadOnly(name),
            Some(Code::CannotOpen) if !path.exists() => Error::NoDatabase(name),
            Some(Code::CannotOpen) => Error::ReadOnly(name),
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Error::Locked(name),
            Some(Code::DiskFull) => Error::DiskFull(name),
            Some(Code::SystemIoFailure) => {
                Error::Io { path: name, why: format!("{error} (code {code})") }
            }
            _ => Error::Sqlite(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    #[test]
    fn what_the_system_refused_is_told_of_the_file() {
        let told = |code| {
            let failed = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let error = Error::from(failed).on(std::path::Path::new("notes.db"));
            format!("{error}. {}", error.hint().unwrap_or_default())
        };
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_IOERR_WRITE] {
            let said = told(code);
            assert!(said.starts_with("notes.db cannot be read or written"), "{said}");
            assert!(
                said.contains(&format!("(code {code})")) && said.contains("has room"),
                "{said}"
            );
        }
        let said = told(ffi::SQLITE_READONLY_DBMOVED);
        assert!(said.starts_with("notes.db was moved, removed or replaced"), "{said}");
        assert!(told(ffi::SQLITE_READONLY).contains("read-only"));
        assert!(told(ffi::SQLITE_FULL).starts_with("the disk of notes.db, or that of temporary"));
    }
}
