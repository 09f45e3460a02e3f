//! The engines: ways to have a database note what is written to it.
//!
//! All execute the application's statements on the same connection with the same settings, so what
//! differs between two is what they add. An engine is attached to a database that has its schema
//! and, unless a workload says otherwise, no rows.

mod baseline;
mod floor;
mod improved;
mod original;
mod replica;

pub mod extension;

use crate::store::{self, Name};
use crate::{Error, Result};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

pub use floor::Floor;
pub use original::Keys;

/// When an engine turns its journal into versions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fold {
    /// Only when asked.
    Never,
    /// After every transaction.
    Transaction,
    /// After so many changed rows.
    Changes(u64),
    /// After so many milliseconds, at the end of a transaction.
    Milliseconds(u64),
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Engine {
    /// SQLite alone.
    Plain,
    /// SQLite alone once more: its distance from the first is the resolution of a run.
    Again,
    /// A SynQLite replica.
    Replica(Fold),
    /// The thesis's journal (its chapter 4.5).
    Improved(Fold),
    /// The thesis's triggers before it (its chapter 3).
    Original(Keys),
    /// What capture by triggers costs at least.
    Floor(Floor),
    /// A key-value store, for the workload `kv`.
    Store(Name),
    /// A hub, for the workload `hub`.
    Hub(Hub),
    /// SQLite with another replication that is loaded as an extension.
    Extension(extension::Name),
}

/// Where a hub keeps its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hub {
    /// In a folder, in the project's own store.
    Embedded,
    /// In PostgreSQL.
    Postgres,
    /// In a bucket of object storage.
    Bucket,
}

impl Hub {
    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Hub::Embedded => "hub",
            Hub::Postgres => "hub:postgres",
            Hub::Bucket => "hub:bucket",
        }
    }
}

/// The names that [`Engine::from_str`] reads, without parameters.
const NAMES: [&str; 7] = ["plain", "again", "replica", "improved", "original", "floor", "hub"];

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fold = |fold: &Fold| match fold {
            Fold::Never => String::new(),
            Fold::Transaction => ":fold=transaction".to_owned(),
            Fold::Changes(n) => format!(":fold={n}"),
            Fold::Milliseconds(ms) => format!(":fold={ms}ms"),
        };
        match self {
            Engine::Plain => f.write_str("plain"),
            Engine::Again => f.write_str("again"),
            Engine::Replica(when) => write!(f, "replica{}", fold(when)),
            Engine::Improved(when) => write!(f, "improved{}", fold(when)),
            Engine::Original(Keys::Indexed) => f.write_str("original"),
            Engine::Floor(floor) => f.write_str(floor.text()),
            Engine::Store(name) => f.write_str(name.text()),
            Engine::Hub(kind) => f.write_str(kind.text()),
            Engine::Extension(name) => f.write_str(name.text()),
            Engine::Original(Keys::Scanned) => f.write_str("original:keys=scanned"),
        }
    }
}

impl From<Engine> for String {
    fn from(engine: Engine) -> String {
        engine.to_string()
    }
}

impl TryFrom<String> for Engine {
    type Error = Error;

    fn try_from(text: String) -> Result<Engine> {
        text.parse()
    }
}

impl FromStr for Engine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Engine> {
        if let Some(store) = Name::read(text) {
            return Ok(Engine::Store(store));
        }
        if let Some(extension) = extension::Name::read(text) {
            return Ok(Engine::Extension(extension));
        }
        let (name, parameter) = match text.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (text, None),
        };
        let bad = |known: &'static [&'static str]| {
            Error::unknown("engine parameter", parameter.unwrap_or_default(), known)
        };
        let fold = || match parameter.map(|p| p.strip_prefix("fold=")) {
            None => Ok(Fold::Never),
            Some(Some("transaction")) => Ok(Fold::Transaction),
            Some(Some(many)) => {
                let (digits, milliseconds) = match many.strip_suffix("ms") {
                    Some(digits) => (digits, true),
                    None => (many, false),
                };
                let known = &["fold=transaction", "fold=CHANGES", "fold=MILLISECONDSms"];
                let n: u64 = digits.parse().map_err(|_| bad(known))?;
                Ok(if milliseconds { Fold::Milliseconds(n) } else { Fold::Changes(n) })
            }
            Some(None) => Err(bad(&["fold=transaction", "fold=CHANGES", "fold=MILLISECONDSms"])),
        };
        match (name, parameter) {
            ("plain", None) => Ok(Engine::Plain),
            ("again", None) => Ok(Engine::Again),
            ("replica", _) => Ok(Engine::Replica(fold()?)),
            ("improved", _) => Ok(Engine::Improved(fold()?)),
            ("original", None) => Ok(Engine::Original(Keys::Indexed)),
            ("original", Some("keys=scanned")) => Ok(Engine::Original(Keys::Scanned)),
            ("original", Some(_)) => Err(bad(&["keys=scanned"])),
            ("floor", None) => Ok(Engine::Floor(Floor::Entry)),
            ("floor", Some("idle")) => Ok(Engine::Floor(Floor::Idle)),
            ("floor", Some(_)) => Err(bad(&["idle"])),
            ("hub", None) => Ok(Engine::Hub(Hub::Embedded)),
            ("hub", Some("postgres")) => Ok(Engine::Hub(Hub::Postgres)),
            ("hub", Some("bucket")) => Ok(Engine::Hub(Hub::Bucket)),
            ("hub", Some(_)) => Err(bad(&["postgres", "bucket"])),
            ("plain" | "again", Some(_)) => Err(Error::Bad(format!("{name} has no parameters"))),
            _ => {
                let stores = store::NAMES.iter().map(|name| name.text());
                let extensions = extension::NAMES.iter().map(|name| name.text());
                let known: Vec<&str> = NAMES.into_iter().chain(stores).chain(extensions).collect();
                Err(Error::unknown("engine", text, &known))
            }
        }
    }
}

impl Engine {
    /// Whether it is SQLite with nothing added.
    pub fn is_plain(self) -> bool {
        matches!(self, Engine::Plain | Engine::Again)
    }

    /// Makes the database at `path`, which `conn` has open, note its changes. `tables` are those
    /// of the application.
    pub fn attach(self, path: &Path, conn: &Connection, tables: &[String]) -> Result<Attached> {
        let (fold, folder): (Fold, Option<Box<dyn Folder>>) = match self {
            Engine::Plain | Engine::Again => (Fold::Never, None),
            Engine::Replica(fold) => (fold, Some(Box::new(replica::attach(path)?))),
            Engine::Improved(fold) => (fold, Some(Box::new(improved::attach(path, conn, tables)?))),
            Engine::Extension(name) => {
                extension::attach(name, conn, tables)?;
                (Fold::Never, None)
            }
            Engine::Original(keys) => {
                original::attach(conn, tables, keys)?;
                (Fold::Never, None)
            }
            Engine::Floor(floor) => {
                floor::attach(floor, conn, tables)?;
                (Fold::Never, None)
            }
            Engine::Store(_) | Engine::Hub(_) => {
                return Err(Error::Bad(format!("the engine {self} is no SQLite")));
            }
        };
        Ok(Attached { fold, folder, changes: 0, folded: Instant::now() })
    }
}

/// What turns a journal into versions, on a connection of its own, opened by the first fold.
trait Folder {
    /// Folds; gives the number of rows whose versions changed.
    fn fold(&mut self) -> Result<u64>;

    /// Closes the connection until the next fold. SQLite as it is linked here was built with
    /// `ENABLE_MEMORY_MANAGEMENT`, so the connections of a process share the sum of their caches:
    /// while this one is open, the application's cache is larger than it is elsewhere.
    fn close(&mut self);
}

/// An engine at work on a database.
pub struct Attached {
    fold: Fold,
    folder: Option<Box<dyn Folder>>,
    changes: u64,
    folded: Instant,
}

impl Attached {
    /// To be called after every commit of the application, with the rows it changed: folds if it
    /// is time.
    pub fn committed(&mut self, changes: u64) -> Result<()> {
        self.changes += changes;
        let due = match self.fold {
            Fold::Never => false,
            Fold::Transaction => true,
            Fold::Changes(n) => self.changes >= n,
            Fold::Milliseconds(ms) => self.folded.elapsed() >= Duration::from_millis(ms),
        };
        if due {
            self.turn()?;
        }
        Ok(())
    }

    /// Folds now, as a program does that is started for it. `None` if the engine has nothing to
    /// fold.
    pub fn fold(&mut self) -> Result<Option<u64>> {
        let folded = self.turn()?;
        self.folder.iter_mut().for_each(|folder| folder.close());
        Ok(folded)
    }

    fn turn(&mut self) -> Result<Option<u64>> {
        self.changes = 0;
        let folded = self.folder.as_mut().map(|folder| folder.fold()).transpose()?;
        self.folded = Instant::now();
        Ok(folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_read_as_they_are_written() {
        for text in [
            "plain",
            "again",
            "replica",
            "replica:fold=transaction",
            "replica:fold=100",
            "improved:fold=250ms",
            "original",
            "original:keys=scanned",
            "floor",
            "floor:idle",
            "store",
            "store:note",
            "leveldb:alike",
            "hub",
            "hub:postgres",
            "hub:bucket",
            "crsqlite",
        ] {
            assert_eq!(text.parse::<Engine>().unwrap().to_string(), text);
        }
        for text in
            ["plane", "replica:fold=often", "replica:x", "plain:fold=1", "original:x", "store:x"]
        {
            assert!(text.parse::<Engine>().is_err(), "{text}");
        }
    }
}
