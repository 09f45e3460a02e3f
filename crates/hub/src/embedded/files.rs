//! Large objects: each is a file, or an object of a bucket, under a random id. It is placed before a
//! record leads to it, and removed after its record; one that no record leads to is removed when
//! the hub starts.

use crate::backend::{Content, Source, random_id};
use crate::error::{Error, Result};
use crate::private;
use bytes::Bytes;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use synqlite_objects::Storage;
use synqlite_wire::Id;
use tokio::sync::mpsc;

/// Bytes that are fetched from a bucket at once.
const FETCHED: u64 = 2 << 20;

/// Where large objects are.
#[derive(Clone)]
pub enum Files {
    /// In a folder, on the device of what is on its way.
    Folder(PathBuf),
    /// In a bucket.
    Bucket(Arc<Storage>),
}

fn key(id: Id) -> String {
    format!("objects/{id}")
}

/// `None` if there is no such file.
fn opened(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("open", path)(e)),
    }
}

impl Files {
    /// Whether they are far away, so that whoever waits for them needs a thread.
    pub fn are_far(&self) -> bool {
        matches!(self, Files::Bucket(_))
    }

    /// Places content, under a new id.
    pub fn place(&self, content: Content) -> Result<Id> {
        let id = random_id()?;
        match self {
            Files::Folder(folder) => keep(content, &folder.join(id.to_string()))?,
            Files::Bucket(storage) => upload(storage, content, &key(id))?,
        }
        Ok(id)
    }

    /// Forces the names of those that were placed to the device.
    pub fn sync(&self) -> Result<()> {
        let Files::Folder(folder) = self else { return Ok(()) };
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(Error::io("sync", folder))
    }

    /// A range of one, `None` if it was removed.
    pub fn read(&self, id: Id, range: Range<u64>) -> Result<Option<Source>> {
        match self {
            Files::Folder(folder) => {
                let path = folder.join(id.to_string());
                let Some(mut file) = opened(&path)? else { return Ok(None) };
                file.seek(SeekFrom::Start(range.start)).map_err(Error::io("read", &path))?;
                Ok(Some(Source::File(file)))
            }
            Files::Bucket(storage) => {
                let (sender, chunks) = mpsc::channel(2);
                let storage = storage.clone();
                tokio::task::spawn_blocking(move || download(&storage, &key(id), range, &sender));
                Ok(Some(Source::Stream(chunks)))
            }
        }
    }

    /// Its first bytes; none if it was removed.
    pub fn prefix(&self, id: Id, length: u64) -> Result<Vec<u8>> {
        match self {
            Files::Folder(folder) => {
                let path = folder.join(id.to_string());
                let mut bytes = Vec::new();
                if let Some(file) = opened(&path)? {
                    let read = file.take(length).read_to_end(&mut bytes);
                    read.map_err(Error::io("read", &path))?;
                }
                Ok(bytes)
            }
            Files::Bucket(storage) => {
                let found = storage.get_range(&key(id), 0..length)?;
                Ok(found.map(|(bytes, _)| bytes).unwrap_or_default())
            }
        }
    }

    /// Removes one. If this fails, the next start removes it: no record leads to it.
    pub fn remove(&self, id: Id) {
        match self {
            Files::Folder(folder) => drop(fs::remove_file(folder.join(id.to_string()))),
            Files::Bucket(storage) => drop(storage.delete(&key(id))),
        }
    }

    /// All that there are.
    pub fn ids(&self) -> Result<Vec<Id>> {
        let names: Vec<String> = match self {
            Files::Folder(folder) => {
                let failed = Error::io("read", folder);
                let entries: std::io::Result<Vec<_>> =
                    fs::read_dir(folder).and_then(Iterator::collect);
                let entries = entries.map_err(failed)?;
                entries.iter().filter_map(|e| e.file_name().into_string().ok()).collect()
            }
            Files::Bucket(storage) => {
                let keys = storage.list("objects")?.into_iter();
                keys.filter_map(|(key, _)| Some(key.rsplit_once('/')?.1.to_owned())).collect()
            }
        };
        Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
    }
}

fn keep(content: Content, path: &Path) -> Result<()> {
    match content {
        Content::File(staged) => {
            fs::rename(staged.path(), path).map_err(Error::io("write", path))?;
            staged.keep();
            Ok(())
        }
        Content::Bytes(bytes) => {
            let created = private::writing().create_new(true).open(path);
            let written = created.and_then(|mut file| {
                std::io::Write::write_all(&mut file, &bytes)?;
                file.sync_all()
            });
            written.map_err(Error::io("write", path))
        }
        Content::Kept(..) => Ok(()),
    }
}

fn upload(storage: &Storage, content: Content, key: &str) -> Result<()> {
    match content {
        Content::File(staged) => {
            let path = staged.path();
            let mut file = File::open(path).map_err(Error::io("read", path))?;
            let next = |length: usize| {
                let mut part = vec![0; length];
                file.read_exact(&mut part).map_err(|e| synqlite_objects::Error::Unreachable {
                    address: path.display().to_string(),
                    why: e.to_string(),
                })?;
                Ok(part)
            };
            Ok(storage.put_in_parts(key, staged.size(), next)?)
        }
        Content::Bytes(bytes) => Ok(storage.put(key, bytes.to_vec())?),
        Content::Kept(..) => Ok(()),
    }
}

/// Sends a range piece by piece, until all is sent or nobody listens.
fn download(
    storage: &Storage,
    key: &str,
    range: Range<u64>,
    to: &mpsc::Sender<std::io::Result<Bytes>>,
) {
    let mut at = range.start;
    while at < range.end {
        let upto = range.end.min(at + FETCHED);
        let part = match storage.get_range(key, at..upto) {
            Ok(Some((bytes, _))) if bytes.len() as u64 == upto - at => Ok(Bytes::from(bytes)),
            Ok(_) => Err(std::io::Error::other("the object was removed while it was read")),
            Err(e) => Err(std::io::Error::other(e.to_string())),
        };
        let failed = part.is_err();
        if to.blocking_send(part).is_err() || failed {
            return;
        }
        at = upto;
    }
}
