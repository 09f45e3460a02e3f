//! Files and folders of their owner alone: what sites send to a hub is nobody else's on its machine.

use crate::error::{Error, Result};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Of a file: its owner reads and writes.
pub const FILE: u32 = 0o600;
/// Of a folder: its owner lists, enters and writes.
const FOLDER: u32 = 0o700;

/// Makes a folder, and those above it, unless it is there. One that is there stays as it is: it may
/// be another's, who decides on it.
pub fn make(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER).create(path);
    made.map_err(Error::io("make the folder", path))
}

/// Makes a folder of the hub's own, and closes one that earlier releases left open to others.
pub fn make_own(path: &Path) -> Result<()> {
    make(path)?;
    let found = fs::metadata(path).map_err(Error::io("look at", path))?;
    if found.permissions().mode() & 0o077 == 0 {
        return Ok(());
    }
    let closed = fs::set_permissions(path, Permissions::from_mode(FOLDER));
    closed.map_err(Error::io("close to others", path))
}

/// How a file is opened for writing.
pub fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(FILE);
    options
}
