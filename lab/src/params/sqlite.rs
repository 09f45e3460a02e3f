//! SQLite: what it is asked to be, and what it says it is.

use crate::{Error, Result};
use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use synqlite_dash::Mode;

/// The pragmas that matter to speed, in the order in which they must be set. Each can be asked for
/// with `--set` and is read back into every result.
pub const PRAGMAS: [&str; 13] = [
    "page_size",
    "auto_vacuum",
    "journal_mode",
    "synchronous",
    "locking_mode",
    "cache_size",
    "wal_autocheckpoint",
    "journal_size_limit",
    "temp_store",
    "mmap_size",
    "foreign_keys",
    "recursive_triggers",
    "cell_size_check",
];

/// What SQLite is asked to be. Pragmas that are not named keep the library's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Values by pragma.
    pub pragmas: BTreeMap<String, String>,
    /// The mode of `vfs=dash`, as `dash-strict`, if the database is kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dash: Option<String>,
    /// The application's connection fires no trigger, so nothing is captured (thesis, 4.1.2).
    pub no_triggers: bool,
}

impl Settings {
    /// Adds `pragma=value`.
    pub fn set(&mut self, text: &str) -> Result<()> {
        let Some((pragma, value)) = text.split_once('=') else {
            return Err(Error::Bad(format!("'{text}' is no PRAGMA=VALUE")));
        };
        if !PRAGMAS.contains(&pragma) {
            return Err(Error::unknown("pragma", pragma, &PRAGMAS));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if value.is_empty() || !value.chars().all(plain) {
            return Err(Error::Bad(format!("'{value}' is no value of a pragma")));
        }
        self.pragmas.insert(pragma.to_owned(), value.to_ascii_lowercase());
        Ok(())
    }

    /// These settings with another value of one pragma.
    pub fn with(&self, pragma: &str, value: &str) -> Settings {
        let mut other = self.clone();
        other.pragmas.insert(pragma.to_owned(), value.to_ascii_lowercase());
        other
    }

    /// These settings on `vfs=dash`, in the mode of that name, such as `dash-strict`.
    pub fn on_dash(&self, name: &str) -> Result<Settings> {
        let known = Mode::ALL.map(|mode| format!("dash-{mode}"));
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        match known.contains(&name) {
            true => Ok(Settings { dash: Some(name.to_owned()), ..self.clone() }),
            false => Err(Error::unknown("mode of vfs=dash", name, &known)),
        }
    }

    /// The name under which SQLite opens the database at `path`.
    pub fn name_of(&self, path: &Path) -> PathBuf {
        let Some(mode) = self.dash.as_ref().and_then(|name| name.strip_prefix("dash-")) else {
            return path.to_owned();
        };
        let path = path.to_string_lossy().replace('%', "%25").replace('?', "%3f");
        let path = path.replace('#', "%23");
        format!("file:{path}?vfs=dash&dash={mode}&dash_unsafe=1").into()
    }

    /// Applies them to a connection and checks that SQLite obeyed.
    pub fn apply(&self, conn: &Connection) -> Result<()> {
        for pragma in PRAGMAS {
            let Some(asked) = self.pragmas.get(pragma) else { continue };
            let mut statement = conn.prepare(&format!("PRAGMA {pragma}={asked}"))?;
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            let got = read(conn, pragma)?;
            // A file does not begin before something is written; `auto_vacuum` says so late too.
            if !same(pragma, asked, &got) {
                return Err(Error::Pragma { pragma: pragma.into(), asked: asked.clone(), got });
            }
        }
        if self.no_triggers {
            let no = rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER;
            conn.set_db_config(no, false)?;
        }
        Ok(())
    }

    /// The journal mode, as asked for, or the mode of `vfs=dash`.
    pub fn journal_mode(&self) -> &str {
        let named = self.pragmas.get("journal_mode");
        self.dash.as_ref().or(named).map_or("default", String::as_str)
    }

    /// A few words, for headings: `wal/normal`.
    pub fn label(&self) -> String {
        let named = |pragma: &str| self.pragmas.get(pragma).cloned();
        let mut words: Vec<String> = Vec::new();
        words.extend(self.dash.clone().or(named("journal_mode")));
        words.extend(named("synchronous"));
        // Foreign keys are off in a standard SQLite, so off is not worth a word.
        let said = |p: &str, v: &str| {
            ["journal_mode", "synchronous"].contains(&p) || (p, v) == ("foreign_keys", "off")
        };
        let others = self.pragmas.iter().filter(|(p, v)| !said(p, v));
        words.extend(others.map(|(pragma, value)| format!("{pragma}={value}")));
        if self.no_triggers {
            words.push("no triggers".to_owned());
        }
        if words.is_empty() { "default settings".to_owned() } else { words.join("/") }
    }
}

/// Names that SQLite answers with for the numbers it also takes.
fn same(pragma: &str, asked: &str, got: &str) -> bool {
    let name = |value: &str| {
        let names: &[&str] = match pragma {
            "synchronous" => &["off", "normal", "full", "extra"],
            "temp_store" => &["default", "file", "memory"],
            "auto_vacuum" => &["none", "full", "incremental"],
            "foreign_keys" | "recursive_triggers" | "cell_size_check" => &["off", "on"],
            _ => &[],
        };
        let number: Option<usize> = value.parse().ok();
        let name = number.and_then(|n| names.get(n)).copied();
        name.unwrap_or(value).to_ascii_lowercase()
    };
    name(asked) == name(got)
}

fn read(conn: &Connection, pragma: &str) -> Result<String> {
    let value = conn.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0));
    // A file system that maps no memory has no `mmap_size`.
    let Some(value) = value.optional()? else { return Ok("none".to_owned()) };
    Ok(match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    })
}

/// What SQLite says it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sqlite {
    /// Version of the library.
    version: String,
    /// Its check-in.
    source_id: String,
    /// Its compile options.
    compile_options: Vec<String>,
    /// The pragmas as the application's connection has them.
    pragmas: BTreeMap<String, String>,
    /// Whether that connection fires triggers.
    triggers: bool,
}

impl Sqlite {
    /// Asks a connection.
    pub fn detect(conn: &Connection) -> Result<Sqlite> {
        let mut pragmas = BTreeMap::new();
        for pragma in PRAGMAS {
            pragmas.insert(pragma.to_owned(), read(conn, pragma)?);
        }
        let mut statement = conn.prepare("PRAGMA compile_options")?;
        let compile_options =
            statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        Ok(Sqlite {
            version: rusqlite::version().to_owned(),
            source_id: conn.query_row("SELECT sqlite_source_id()", [], |row| row.get(0))?,
            compile_options,
            pragmas,
            triggers: conn.db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER)?,
        })
    }

    /// Version and pragmas.
    pub fn label(&self) -> String {
        let pragmas: Vec<String> =
            self.pragmas.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let triggers = if self.triggers { "" } else { ", triggers off" };
        format!("SQLite {}: {}{triggers}", self.version, pragmas.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sqlite_does_not_obey_is_an_error() {
        let conn = Connection::open_in_memory().unwrap();
        let mut settings = Settings::default();
        settings.set("synchronous=normal").unwrap();
        settings.set("temp_store=2").unwrap();
        settings.apply(&conn).unwrap();
        settings.set("journal_mode=wal").unwrap();
        let error = settings.apply(&conn).unwrap_err().to_string();
        assert!(error.contains("journal_mode = wal: it is memory"), "{error}");
    }

    #[test]
    fn unknown_pragmas_and_odd_values_are_refused() {
        let mut settings = Settings::default();
        let error = settings.set("journalmode=wal").unwrap_err().to_string();
        assert!(error.contains("did you mean 'journal_mode'"), "{error}");
        assert!(settings.set("cache_size=1;DROP").is_err());
        assert!(settings.set("cache_size").is_err());
    }
}
