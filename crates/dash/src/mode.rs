//! The modes: how a commit is made durable, and what is promised after a power failure.
//!
//! | mode | commit | synchronizing calls |
//! | --- | --- | --- |
//! | `strict` | pages and trailer handed to the device, exchange, synchronize the file with its name | 1 |
//! | `fast` | pages and trailer synchronized, exchange | 1 |
//! | `shadow` | synchronize the folder, Version Update, Aggregate Update, Atomic Exchange, Version Reset | 4 |
//! | `shadow-x` | the same without synchronizing the Version Update | 3 |
//! | `paper`, `paper-x` | as printed: without the folder, and with three renames | 3, 2 |
//!
//! `strict` and `fast` recognize by checksums whether a version is whole. The others are those of
//! the paper (DASH, PVLDB 12(7), 2019) and go by version numbers alone.

use crate::disk::Kind;
use std::fmt;

/// How a commit is made durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// One synchronizing call a commit. After a power failure the main file is a complete database
    /// with the last acknowledged transaction, for every program.
    #[default]
    Strict = 1,
    /// One device flush a commit. After a power failure the database must first be opened here.
    Fast = 2,
    /// The paper's SHADOW with the folder synchronized before each Version Update. After a power
    /// failure the main file is complete, and at most one transaction behind until opened here.
    Shadow = 3,
    /// The paper's SHADOW-X, for one connection alone, made safe in the same way.
    ShadowX = 4,
    /// The paper's SHADOW as printed. Loses acknowledged transactions on ext4.
    Paper = 5,
    /// The paper's SHADOW-X as printed. Loses acknowledged transactions on ext4.
    PaperX = 6,
}

/// What other programs find under the database's name after a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The last acknowledged transaction.
    Latest,
    /// A complete database, at most one transaction older.
    OneBehind,
    /// Perhaps no complete database, until it was opened here.
    Anything,
}

/// By what recovery decides after a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The name: it always leads to the last transaction.
    Name,
    /// The latest version of which every byte is there.
    Checksum,
    /// The pair of version numbers, figure 11 of the paper.
    Version,
}

impl Mode {
    /// All modes, the default first.
    pub const ALL: [Mode; 6] =
        [Mode::Strict, Mode::Fast, Mode::Shadow, Mode::ShadowX, Mode::Paper, Mode::PaperX];

    /// The name that `dash=` takes and `PRAGMA dash` shows.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Strict => "strict",
            Mode::Fast => "fast",
            Mode::Shadow => "shadow",
            Mode::ShadowX => "shadow-x",
            Mode::Paper => "paper",
            Mode::PaperX => "paper-x",
        }
    }

    /// The mode of that name.
    pub fn named(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether no power failure takes an acknowledged transaction.
    pub fn is_safe(self) -> bool {
        !matches!(self, Mode::Paper | Mode::PaperX)
    }

    /// What other programs find after a power failure.
    pub fn found_by_others(self) -> Found {
        match self {
            Mode::Strict => Found::Latest,
            Mode::Shadow | Mode::ShadowX => Found::OneBehind,
            Mode::Fast | Mode::Paper | Mode::PaperX => Found::Anything,
        }
    }

    /// The mode that `dash=` and `dash_unsafe=` ask for, `None` if they leave it open, or why there
    /// is none.
    pub(crate) fn chosen(value: Option<&str>, at_risk: bool) -> Result<Option<Mode>, String> {
        let Some(name) = value else { return Ok(None) };
        match Mode::named(name) {
            Some(mode) if mode.is_safe() || at_risk => Ok(Some(mode)),
            Some(mode) => Err(format!(
                "dash={mode} loses acknowledged transactions when the power fails; it is for \
                 experiments, with dash_unsafe=1. Use dash={} instead",
                if mode.is_alone() { Mode::ShadowX } else { Mode::Shadow }
            )),
            None => {
                let names = Mode::ALL.map(Mode::name).join(", ");
                Err(format!("there is no mode dash={name}; choose one of {names}"))
            }
        }
    }

    /// By what recovery decides.
    pub(crate) fn evidence(self) -> Evidence {
        match self {
            Mode::Strict => Evidence::Name,
            Mode::Fast => Evidence::Checksum,
            _ => Evidence::Version,
        }
    }

    /// Whether one connection has the database alone (the paper's Exclusive Connection).
    pub(crate) fn is_alone(self) -> bool {
        matches!(self, Mode::ShadowX | Mode::PaperX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_chosen_by_name_and_the_unsafe_ones_by_two() {
        assert_eq!(Mode::chosen(None, false), Ok(None));
        for mode in Mode::ALL {
            assert_eq!(Mode::chosen(Some(mode.name()), true), Ok(Some(mode)));
            assert_eq!(Mode::chosen(Some(mode.name()), false).is_ok(), mode.is_safe());
        }
        let refused = Mode::chosen(Some("wal"), true).expect_err("there is none");
        assert!(refused.contains("strict, fast, shadow, shadow-x"), "{refused}");
    }
}
