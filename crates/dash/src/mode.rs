//! The modes: how a commit is made durable, and what is promised after a power failure.

use crate::disk::Kind;
use std::fmt;

/// How a commit is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// One synchronizing call a commit. After a power failure the main file is a complete database
    /// with the last acknowledged transaction, for every program.
    Strict = 1,
    /// One device flush a commit. After a power failure the database must first be opened here.
    Fast = 2,
}

impl Mode {
    /// All modes, the default first.
    pub const ALL: [Mode; 2] = [Mode::Strict, Mode::Fast];

    /// The name that `dash=` takes and `PRAGMA dash` shows.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Strict => "strict",
            Mode::Fast => "fast",
        }
    }

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether no power failure takes an acknowledged transaction.
    pub fn is_safe(self) -> bool {
        true
    }

    /// Whether the main file is, after every power failure, a complete database with the last
    /// acknowledged transaction, for programs without this file system too.
    pub fn promises_main(self) -> bool {
        self == Mode::Strict
    }

    /// The mode that the value of `dash=` asks for, or why there is none.
    pub(crate) fn chosen(value: Option<&str>) -> Result<Mode, String> {
        let Some(name) = value else { return Ok(Mode::ALL[0]) };
        Mode::named(name).ok_or_else(|| {
            let names = Mode::ALL.map(Mode::name).join(", ");
            format!("there is no mode dash={name}; choose one of {names}")
        })
    }

    /// Whether the name of the main file always leads to the last acknowledged transaction, power
    /// failures included, so that recovery needs to look at nothing else.
    pub(crate) fn names_are_right(self) -> bool {
        self == Mode::Strict
    }

    /// Whether a commit on such a file system must synchronize the folder as well.
    pub(crate) fn needs_folder(self, kind: Kind) -> bool {
        self == Mode::Strict && kind != Kind::Journal
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
