//! Other replications, loaded into SQLite as extensions. This crate loads none: a program that does
//! names them to [`crate::main`].

use crate::store::Label;
use crate::{Error, Result};
use rusqlite::Connection;
use std::sync::OnceLock;

/// An extension by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// cr-sqlite.
    CrSqlite,
    /// sqlite-sync.
    Cloudsync,
}

/// All of them.
pub(crate) const NAMES: [Name; 2] = [Name::CrSqlite, Name::Cloudsync];

impl Name {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Name::CrSqlite => "crsqlite",
            Name::Cloudsync => "cloudsync",
        }
    }

    /// The extension of this name.
    pub fn read(text: &str) -> Option<Name> {
        NAMES.into_iter().find(|name| name.text() == text)
    }
}

/// An extension that another program loads.
pub struct Extension {
    /// Its name.
    pub name: Name,
    /// Loads it into a connection; every connection that writes needs it.
    pub load: fn(&Connection) -> Result<()>,
    /// Makes it replicate a table.
    pub replicate: fn(&Connection, &str) -> Result<()>,
    /// To be called before a connection is closed.
    pub close: fn(&Connection) -> Result<()>,
    /// Which one it is, once it is loaded.
    pub label: fn(&Connection) -> Result<Label>,
}

static EXTENSIONS: OnceLock<&'static [Extension]> = OnceLock::new();

/// Makes extensions known; the first call counts.
pub(crate) fn install(extensions: &'static [Extension]) {
    let _ = EXTENSIONS.set(extensions);
}

/// The extension of this name, if this program loads it.
pub(crate) fn find(name: Name) -> Result<&'static Extension> {
    let known = EXTENSIONS.get().copied().unwrap_or_default();
    known.iter().find(|extension| extension.name == name).ok_or_else(|| {
        let name = name.text();
        Error::Bad(format!("{name} is loaded by `lab/peers` only, see docs/benchmarks.md"))
    })
}

/// Makes an extension that is loaded replicate these tables.
pub(super) fn attach(name: Name, conn: &Connection, tables: &[String]) -> Result<()> {
    let extension = find(name)?;
    tables.iter().try_for_each(|table| (extension.replicate)(conn, table))
}
