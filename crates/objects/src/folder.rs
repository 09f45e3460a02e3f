//! A store in a folder: a disk, a memory stick, a directory that another program synchronizes.
//!
//! An object is one file, at the path that its name spells under the folder; see
//! `docs/formats/folder.md`. Files that bear no such name are not ours, and an empty file is a name
//! taken by a writer that has not finished; both are passed over.

use crate::error::{Error, Result};
use crate::files::{Content, CopyError, Link, Temp, copy, folder_of, remove_leftovers, sync_dir};
use crate::name::{Kind, ObjectName};
use crate::store::{Cursor, Entry, Put, Step, Store};
use crate::url::folder_path;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use synqlite_wire::{DatabaseId, Id};

/// A folder as a [`Store`]. A folder that does not exist is empty; the first put creates it, but
/// not its parents, lest an unmounted disk be mistaken for an empty one.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
    link: Link,
}

impl Folder {
    /// The folder at a path.
    pub fn new(root: impl Into<PathBuf>) -> Folder {
        Folder { root: root.into(), link: |from, to| fs::hard_link(from, to) }
    }

    /// The folder that a `file:///dir/` URL names. [`Error::NotAFolderUrl`] if it names none: it
    /// must be absolute, without a host, percent-encoded where needed.
    pub fn from_url(url: &str) -> Result<Folder> {
        folder_path(url).map(Folder::new)
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The folders that lead to an object: the root, its database, its kind, its site.
    fn way(&self, name: &ObjectName) -> [PathBuf; 4] {
        let database = self.root.join(name.database.to_string());
        let kind = database.join(name.kind.folder());
        let site = kind.join(name.site.to_string());
        [self.root.clone(), database, kind, site]
    }

    fn file(&self, name: &ObjectName) -> PathBuf {
        self.root.join(name.to_string())
    }

    /// Names of what `dir` holds; none if it is absent or not a folder, unless it is the root.
    fn names_in(&self, dir: &Path) -> Result<Vec<String>> {
        let failed = Error::io("list", dir);
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) if e.kind() == io::ErrorKind::NotADirectory && !self.root.is_file() => {
                return Ok(Vec::new());
            }
            Err(e) => return Err(failed(e)),
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry.map_err(&failed)?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// Names in `dir` that are ids, exactly as we print them.
    fn ids_in(&self, dir: &Path) -> Result<Vec<Id>> {
        let names = self.names_in(dir)?;
        let id = |name: String| name.parse().ok().filter(|id: &Id| id.to_string() == name);
        Ok(names.into_iter().filter_map(id).collect())
    }

    fn put(
        &self,
        name: &ObjectName,
        write: impl FnOnce(&mut Content) -> Result<u64>,
    ) -> Result<Put> {
        let (file, way) = (self.file(name), self.way(name));
        let [root, _, _, dir] = &way;
        let put = if length(&file)? > 0 {
            Put::AlreadyThere
        } else {
            for folder in way.iter().filter(|folder| !folder.is_dir()) {
                match fs::create_dir(folder) {
                    Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                    made => made.map_err(Error::io("create the folder", folder))?,
                }
                if folder == root {
                    sync_dir(folder_of(root))?;
                }
            }
            remove_leftovers(dir);
            let mut temp = Temp::within(dir)?;
            if write(temp.file())? == 0 {
                return Err(Error::EmptyObject { name: *name });
            }
            temp.publish(&file, self.link)?
        };
        // Also when it was there: the other writer may not have come so far yet.
        way.iter().rev().try_for_each(|folder| sync_dir(folder))?;
        Ok(put)
    }
}

/// Length of a file; 0 if there is none.
fn length(file: &Path) -> Result<u64> {
    match fs::metadata(file) {
        Ok(there) if there.is_file() => Ok(there.len()),
        Ok(_) => Ok(0),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(0)
        }
        Err(e) => Err(Error::io("look at", file)(e)),
    }
}

impl Store for Folder {
    fn address(&self) -> String {
        format!("the folder `{}`", self.root.display())
    }

    fn databases(&self) -> Result<Vec<DatabaseId>> {
        let mut found = Vec::new();
        for database in self.ids_in(&self.root)? {
            for kind in Kind::ALL {
                if !self.list(database, kind)?.is_empty() {
                    found.push(database);
                    break;
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>> {
        let dir = self.root.join(database.to_string()).join(kind.folder());
        let mut entries = Vec::new();
        for site in self.ids_in(&dir)? {
            for file in self.names_in(&dir.join(site.to_string()))? {
                let text = format!("{database}/{}/{site}/{file}", kind.folder());
                let Some(name) = ObjectName::parse(&text) else { continue };
                let size = length(&self.file(&name))?;
                if size > 0 {
                    entries.push(Entry { name, size });
                }
            }
        }
        entries.sort();
        Ok(entries)
    }

    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>> {
        let path = self.file(name);
        if length(&path)? == 0 {
            return Err(Error::NotFound { name: *name });
        }
        match File::open(&path) {
            Ok(file) => Ok(Box::new(file)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::NotFound { name: *name }),
            Err(e) => Err(Error::io("read", &path)(e)),
        }
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<Put> {
        if bytes.is_empty() {
            return Err(Error::EmptyObject { name: *name });
        }
        self.put(name, |file| {
            file.write_all(bytes).map_err(Error::io("write", &self.file(name)))?;
            Ok(bytes.len() as u64)
        })
    }

    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        _: Option<Cursor>,
        _: Step<'_>,
    ) -> Result<Put> {
        let mut source = File::open(file).map_err(Error::io("read", file))?;
        self.put(name, |temp| {
            copy(&mut source, temp, u64::MAX).map_err(|e| match e {
                CopyError::Read(e) => Error::io("read", file)(e),
                CopyError::Write(e) => Error::io("write", &self.file(name))(e),
            })
        })
    }
}

#[cfg(test)]
mod tests;
