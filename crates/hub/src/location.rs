//! Where a hub keeps what it is given, and who may use it: the text after `--store`.

use crate::backend::Backend;
use crate::embedded::{Embedded, Setup};
use crate::error::{Error, Result};
use crate::tokens::{Token, TokenFile};
use crate::wait::Waiters;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A store by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// A folder of this machine.
    Folder(PathBuf),
}

/// A store that is open.
pub(crate) struct Opened {
    pub backend: Arc<dyn Backend>,
    pub vault: Vault,
    /// Folder of what is on its way.
    pub staging: PathBuf,
}

impl Location {
    /// Reads what stands after `--store`.
    pub fn parse(text: &str) -> Result<Location> {
        if text.contains("://") {
            let what = format!("{text} is no store of a hub");
            return Err(Error::Setting { what, hint: "Give the path of a folder" });
        }
        Ok(Location::Folder(text.into()))
    }

    /// Opens the store; the folder `scratch` is for what is on its way, if the store has no place for
    /// it.
    pub(crate) fn open(&self, setup: Setup, waiters: Arc<Waiters>) -> Result<Opened> {
        match self {
            Location::Folder(dir) => Ok(Opened {
                backend: Arc::new(Embedded::open(dir, setup, waiters)?),
                vault: self.vault(),
                staging: Embedded::staging(dir),
            }),
        }
    }

    /// Its tokens.
    pub fn vault(&self) -> Vault {
        match self {
            Location::Folder(dir) => Vault { file: TokenFile::of(dir) },
        }
    }

    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Location::Folder(dir) => Some(dir),
        }
    }
}

/// The tokens of a store. They can be changed whether a hub runs or not.
#[derive(Clone, Debug)]
pub struct Vault {
    file: TokenFile,
}

impl Vault {
    /// All tokens, in the order in which they were made.
    pub fn read(&self) -> Result<Vec<Token>> {
        self.file.read()
    }

    /// Adds one.
    pub fn add(&self, token: Token) -> Result<()> {
        self.file.change(|tokens| tokens.push(token))
    }

    /// Removes one by its id; whether it was there.
    pub fn revoke(&self, id: u64) -> Result<bool> {
        self.file.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|token| token.id != id);
            tokens.len() < before
        })
    }

    /// Something that differs when they were changed.
    pub(crate) fn mark(&self) -> impl PartialEq + Send + use<> {
        self.file.mark()
    }
}
