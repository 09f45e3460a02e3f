//! What can go wrong, on which object, and what to do next.

use std::path::{Path, PathBuf};

/// Result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that names nothing.
    #[error("unknown {what} '{given}'{}", hint(.similar, .known))]
    Unknown {
        /// Kind of thing.
        what: &'static str,
        /// What was written.
        given: String,
        /// The nearest known name.
        similar: Option<String>,
        /// All known names.
        known: String,
    },
    /// An option that cannot be.
    #[error("{0}")]
    Bad(String),
    /// A folder for databases that holds something.
    #[error("{0} is not empty; give an empty or new folder, the databases of the run go there")]
    NotEmpty(PathBuf),
    /// A file system without room.
    #[error(
        "{dir} has {free} MB free, the run needs about {needed}; give another folder with --dir, or fewer rows"
    )]
    TooSmall {
        /// Folder of the run.
        dir: PathBuf,
        /// Megabytes there are.
        free: u64,
        /// Megabytes it takes.
        needed: u64,
    },
    /// A pragma that SQLite did not obey.
    #[error("SQLite refused {pragma} = {asked}: it is {got}")]
    Pragma {
        /// Its name.
        pragma: String,
        /// The value asked for.
        asked: String,
        /// The value it has.
        got: String,
    },
    /// Engines executed different statements.
    #[error(
        "{engine} executed other {what} than {baseline}: {theirs} instead of {ours}; their times cannot be compared"
    )]
    Unlike {
        /// Engine that differs.
        engine: String,
        /// Engine it is compared with.
        baseline: String,
        /// `statements` or `rows`.
        what: &'static str,
        /// Digest of the baseline.
        ours: String,
        /// Digest of the engine.
        theirs: String,
    },
    /// A database that breaks a condition after a run.
    #[error("{engine} broke consistency condition {condition} of TPC-C: {detail}")]
    Inconsistent {
        /// Engine that ran.
        engine: String,
        /// Number of the condition.
        condition: u32,
        /// What was found.
        detail: String,
    },
    /// A results file that cannot be read.
    #[error("{path}, line {line}: {why}")]
    Results {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// Runs that differ in more than what is compared.
    #[error(
        "the runs differ in more than what is compared:\n{0}\nmake one like the other, name what is compared with --by, or mark the difference with --force"
    )]
    Incomparable(String),
    /// The user stopped the run.
    #[error("interrupted; {0} finished rounds are kept{1}")]
    Interrupted(usize, String),
    /// A file or folder.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// SQLite.
    #[error("SQLite: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The engine.
    #[error(transparent)]
    Replica(#[from] synqlite_core::Error),
    /// Synchronization.
    #[error(transparent)]
    Sync(#[from] synqlite_remote::SyncError),
    /// The key-value store.
    #[error(transparent)]
    Store(#[from] synqlite_lsm::Error),
    /// Another key-value store.
    #[error("{store}: {why}")]
    Peer {
        /// Its name.
        store: &'static str,
        /// What it says.
        why: String,
    },
    /// A number that does not fit a histogram.
    #[error("latency cannot be recorded: {0}")]
    Latency(String),
    /// A plot.
    #[error("plot: {0}")]
    Plot(String),
}

fn hint(similar: &Option<String>, known: &str) -> String {
    match similar {
        Some(name) => format!("; did you mean '{name}'? Known: {known}"),
        None => format!("; known: {known}"),
    }
}

impl Error {
    /// A name that is none of `known`.
    pub fn unknown(what: &'static str, given: &str, known: &[&str]) -> Error {
        let near = |name: &&&str| (strsim::jaro_winkler(name, given) * 1000.0) as u64;
        let similar = known.iter().max_by_key(near).filter(|name| near(name) > 700);
        Error::Unknown {
            what,
            given: given.to_owned(),
            similar: similar.map(|name| (*name).to_owned()),
            known: known.join(", "),
        }
    }

    /// What another store says.
    pub fn peer<E: std::fmt::Display>(store: &'static str) -> impl Fn(E) -> Error {
        move |e| Error::Peer { store, why: e.to_string() }
    }

    /// An error of a file or folder.
    pub fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.to_owned(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_brings_the_nearest_known_one() {
        let error = Error::unknown("engine", "replcia", &["plain", "replica"]).to_string();
        assert!(error.contains("did you mean 'replica'"), "{error}");
        let error = Error::unknown("engine", "xyz", &["plain", "replica"]).to_string();
        assert!(!error.contains("did you mean") && error.contains("plain, replica"), "{error}");
    }
}
