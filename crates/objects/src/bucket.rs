//! A store in a bucket: object storage that speaks S3, with no server of ours.
//!
//! An object has the key that its name spells below the prefix. It is created by a conditional
//! request, which S3 answers to one of several writers only. A large file is put in parts under a
//! temporary key first, and copied to its own by such a request; see `docs/formats/bucket.md`.

mod storage;

use crate::error::{Error, Result};
use crate::name::{Kind, ObjectName};
use crate::store::{Cursor, Entry, Put, Step, Store};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::path::Path;
use storage::PART;
pub use storage::Storage;
use synqlite_wire::{DatabaseId, Id};

/// A prefix of a bucket as a [`Store`].
pub struct Bucket {
    storage: Storage,
}

impl Bucket {
    /// The store that a URL `s3://BUCKET/PREFIX` names; see [`Storage::new`].
    pub fn new(url: &str, settings: &[(String, String)]) -> Result<Bucket> {
        Ok(Bucket { storage: Storage::new(url, settings)? })
    }

    /// A range of an object, and how long all of it is.
    fn range(&self, name: &ObjectName, from: u64, upto: u64) -> Result<(Vec<u8>, u64)> {
        let found = self.storage.get_range(&name.to_string(), from..upto)?;
        found.ok_or(Error::NotFound { name: *name })
    }

    /// Puts a large file under a temporary key, in parts, then copies it to its own.
    fn create_from_parts(
        &self,
        name: &ObjectName,
        source: (&mut File, &Path, u64),
        step: Step<'_>,
    ) -> Result<Put> {
        let (file, path, total) = source;
        let key = name.to_string();
        if self.storage.is_there(&key)? {
            return Ok(Put::AlreadyThere);
        }
        let random = RandomState::new().build_hasher().finish();
        let temporary = format!("{key}.tmp-{random:016x}");
        let mut done = 0;
        self.storage.put_in_parts(&temporary, total, |length| {
            step(done, total);
            let mut part = vec![0; length];
            file.read_exact(&mut part).map_err(|e| match e.kind() {
                io::ErrorKind::UnexpectedEof => Error::SourceChanged { path: path.to_owned() },
                _ => Error::io("read", path)(e),
            })?;
            done += length as u64;
            Ok(part)
        })?;
        let copied = self.storage.copy_to_new(&temporary, &key);
        // What stays behind is no object, and a rule of the bucket may expire it.
        let _ = self.storage.delete(&temporary);
        copied
    }
}

impl Store for Bucket {
    fn address(&self) -> String {
        self.storage.address().to_owned()
    }

    fn databases(&self) -> Result<Vec<DatabaseId>> {
        let mut found = Vec::new();
        for name in self.storage.folders()? {
            let Some(id) = name.parse().ok().filter(|id: &Id| id.to_string() == name) else {
                continue;
            };
            for kind in Kind::ALL {
                if !found.contains(&id) && !self.list(id, kind)?.is_empty() {
                    found.push(id);
                }
            }
        }
        found.sort();
        Ok(found)
    }

    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for (key, size) in self.storage.list(&format!("{database}/{}", kind.folder()))? {
            let name = ObjectName::parse(&key).filter(|_| size > 0);
            entries.extend(name.map(|name| Entry { name, size }));
        }
        entries.sort();
        Ok(entries)
    }

    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>> {
        // The first range says how long the object is; the others are fetched as they are read.
        let (bytes, size) = self.range(name, 0, PART as u64)?;
        if size == 0 {
            return Err(Error::NotFound { name: *name });
        }
        let bucket = Bucket { storage: self.storage.clone() };
        let at = bytes.len() as u64;
        Ok(Box::new(Download { bucket, name: *name, buffer: io::Cursor::new(bytes), at, size }))
    }

    fn read_prefix(&self, name: &ObjectName, max: u64) -> Result<Vec<u8>> {
        let mut bytes = self.range(name, 0, max.clamp(1, PART as u64))?.0;
        bytes.truncate(usize::try_from(max).unwrap_or(usize::MAX));
        Ok(bytes)
    }

    fn put_if_absent(&self, name: &ObjectName, bytes: &[u8]) -> Result<Put> {
        if bytes.is_empty() {
            return Err(Error::EmptyObject { name: *name });
        }
        self.storage.create(&name.to_string(), bytes.to_vec())
    }

    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        _: Option<Cursor>,
        step: Step<'_>,
    ) -> Result<Put> {
        let failed = Error::io("read", file);
        let mut source = File::open(file).map_err(&failed)?;
        let total = source.metadata().map_err(&failed)?.len();
        let put = if total > PART as u64 {
            self.create_from_parts(name, (&mut source, file, total), step)?
        } else {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map_err(&failed)?;
            self.put_if_absent(name, &bytes)?
        };
        step(total, total);
        Ok(put)
    }
}

/// An object that is read range by range.
struct Download {
    bucket: Bucket,
    name: ObjectName,
    buffer: io::Cursor<Vec<u8>>,
    /// Where the buffer ends.
    at: u64,
    size: u64,
}

impl Read for Download {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.buffer.read(out)?;
        if n > 0 || out.is_empty() || self.at >= self.size {
            return Ok(n);
        }
        let upto = self.size.min(self.at + PART as u64);
        let (bytes, size) =
            self.bucket.range(&self.name, self.at, upto).map_err(io::Error::other)?;
        if size != self.size || bytes.is_empty() {
            return Err(io::Error::other("it changed while it was read"));
        }
        self.at += bytes.len() as u64;
        self.buffer = io::Cursor::new(bytes);
        self.buffer.read(out)
    }
}

#[cfg(test)]
mod tests;
