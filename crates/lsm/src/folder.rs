//! The folder of a store: its files by their names. Every failure says what was done to which file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, WriteFile};
use crate::error::{At, Result};

/// A folder on a disk.
#[derive(Clone)]
pub(crate) struct Folder {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
}

impl Folder {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path) -> Folder {
        Folder { disk, dir: dir.to_owned() }
    }

    /// Where a file is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The files and their sizes in bytes.
    pub(crate) fn files(&self) -> Result<BTreeMap<String, u64>> {
        Ok(self.disk.list(&self.dir).at("list", &self.dir)?.into_iter().collect())
    }

    /// All of a file.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>> {
        let read = |path: &Path| {
            let file = self.disk.open(path)?;
            let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
            file.read_at(0, &mut bytes)?;
            Ok(bytes)
        };
        let path = self.path(name);
        read(&path).at("read", &path)
    }

    /// Makes a file of these bytes and forces it, but not yet its entry. If that fails, the room it
    /// took is given back.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<Box<dyn WriteFile>> {
        let path = self.path(name);
        let write = || {
            let mut file = self.disk.create(&path).at("create", &path)?;
            file.append(bytes).at("write", &path)?;
            file.sync().at("sync", &path)?;
            Ok(file)
        };
        write().inspect_err(|_| self.remove(name))
    }

    /// Renames a file, replacing one of the new name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<()> {
        let path = self.path(from);
        self.disk.rename(&path, &self.path(to)).at("rename", &path)
    }

    /// Removes a file that nobody needs. If it is left behind, the next opening removes it.
    pub(crate) fn remove(&self, name: &str) {
        let _ = self.disk.remove(&self.path(name));
    }

    /// Forces a file.
    pub(crate) fn sync_file(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        self.disk.sync_file(&path).at("sync", &path)
    }

    /// Forces the entries of files that were made, renamed or removed.
    pub(crate) fn sync(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir).at("sync", &self.dir)
    }
}
