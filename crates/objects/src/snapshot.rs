//! The snapshot container: a whole file, compressed, between a checked header and a checksum.
//!
//! Snapshots may be gigabytes, so both directions stream in constant memory. A reader trusts
//! nothing: what it writes gets its name only after every byte of the container has been verified.
//! Byte by byte in `docs/formats/folder.md`.

use crate::error::{Error, Result};
use crate::files::{CopyError, Temp, copy};
use crate::name::{Kind, ObjectName};
use crate::store::{Cursor, Put, Step, Store};
use crate::trail::Trail;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use synqlite_wire::{DatabaseId, Hlc, Id, PrefixHash, SiteId, VersionVector};

const MAGIC: &[u8; 8] = b"SynQSnap";
const VERSION: u16 = 1;
/// zstd level; the window it needs is 2 MiB.
const LEVEL: i32 = 3;
/// A reader refuses a window over 8 MiB, so that its memory stays bounded whatever it is fed.
const WINDOW_LOG: u32 = 23;
/// Sites in a version vector, and prefix hashes in a trail; a count beyond is damage.
const MOST: u32 = 1 << 20;
const CHECKSUM: usize = blake3::OUT_LEN;

/// What a snapshot holds, told briefly to those who follow its store: so they need not read the
/// whole vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotHead {
    /// The database.
    pub database: DatabaseId,
    /// The site that made the snapshot.
    pub site: SiteId,
    /// Its local position at that moment: its batches go on from here.
    pub upto: u64,
    /// Length in bytes of the file that it restores.
    pub length: u64,
    /// What the store held then: the snapshot contains all that can be reached there. `None` if
    /// that is not so, or the store numbers nothing.
    pub after: Option<PrefixHash>,
    /// What it contains beyond that; nothing without a prefix hash.
    pub beyond: VersionVector,
}

/// What a snapshot holds; readable from its first bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotHeader {
    /// The same, briefly.
    pub head: SnapshotHead,
    /// The writes of every site that the snapshot contains.
    pub vector: VersionVector,
    /// The latest prefix hashes of the store, up to the one of the head; nothing without one.
    pub trail: Option<Trail>,
}

impl SnapshotHead {
    /// Name of the snapshot.
    pub fn name(&self) -> ObjectName {
        ObjectName::snapshot(self.database, self.site, self.upto)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.database.0);
        out.extend_from_slice(&self.site.0);
        out.extend_from_slice(&self.upto.to_be_bytes());
        out.extend_from_slice(&self.length.to_be_bytes());
        out.push(u8::from(self.after.is_some()));
        out.extend_from_slice(&self.after.unwrap_or(PrefixHash::ZERO).0);
        put_vector(&mut out, &self.beyond);
        seal(&mut out);
        out
    }

    fn decode(source: &mut Source<impl Read>) -> std::result::Result<Self, Flaw> {
        let magic: [u8; 8] = source.array()?;
        if magic == *crate::sealed::MAGIC {
            return Err(Flaw::Sealed);
        }
        if magic != *MAGIC {
            return Err(Flaw::Bad("it does not begin as a snapshot does"));
        }
        let version = u16::from_be_bytes(source.array()?);
        if version != VERSION {
            return Err(Flaw::Newer(version));
        }
        let database = Id(source.array()?);
        let site = Id(source.array()?);
        let upto = u64::from_be_bytes(source.array()?);
        let length = u64::from_be_bytes(source.array()?);
        let [known] = source.array()?;
        let prefix = Id(source.array()?);
        let after = match known {
            0 => None,
            1 => Some(prefix),
            _ => return Err(Flaw::HEADER),
        };
        let beyond = vector(source)?;
        source.check()?;
        Ok(SnapshotHead { database, site, upto, length, after, beyond })
    }
}

impl SnapshotHeader {
    /// Name of the snapshot.
    pub fn name(&self) -> ObjectName {
        self.head.name()
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = self.head.encode();
        put_vector(&mut out, &self.vector);
        let prefixes = self.trail.as_ref().map_or(&[][..], Trail::prefixes);
        out.extend_from_slice(&(prefixes.len() as u32).to_be_bytes());
        prefixes.iter().for_each(|prefix| out.extend_from_slice(&prefix.0));
        seal(&mut out);
        out
    }

    fn decode(source: &mut Source<impl Read>) -> std::result::Result<Self, Flaw> {
        let head = SnapshotHead::decode(source)?;
        let vector = vector(source)?;
        let prefixes = (0..source.count()?).map(|_| source.array().map(Id));
        let trail = Trail::of(prefixes.collect::<std::result::Result<_, _>>()?);
        source.check()?;
        if trail.as_ref().map(Trail::last) != head.after {
            return Err(Flaw::HEADER);
        }
        Ok(SnapshotHeader { head, vector, trail })
    }
}

fn put_vector(out: &mut Vec<u8>, vector: &VersionVector) {
    out.extend_from_slice(&(vector.0.len() as u32).to_be_bytes());
    for (site, hlc) in &vector.0 {
        out.extend_from_slice(&site.0);
        out.extend_from_slice(&hlc.0.to_be_bytes());
    }
}

fn vector(source: &mut Source<impl Read>) -> std::result::Result<VersionVector, Flaw> {
    let mut vector = VersionVector::default();
    for _ in 0..source.count()? {
        let site = Id(source.array()?);
        vector.raise(site, Hlc(i64::from_be_bytes(source.array()?)));
    }
    Ok(vector)
}

/// Ends a header: with a checksum of all before.
fn seal(out: &mut Vec<u8>) {
    let checksum = blake3::hash(out);
    out.extend_from_slice(checksum.as_bytes());
}

/// Writes the file `from` as a snapshot. [`Error::SourceChanged`] if its length is not that of the
/// header; what was written to `to` is then no snapshot.
pub fn write_snapshot(from: &Path, to: impl Write, header: &SnapshotHeader) -> Result<()> {
    let name = header.name();
    let failed = |source| Error::Write { name, source };
    let mut source = File::open(from).map_err(Error::io("read", from))?;
    let mut sink = Sink { inner: to, hasher: blake3::Hasher::new() };
    sink.write_all(&header.encode()).map_err(failed)?;
    let mut body = zstd::stream::write::Encoder::new(sink, LEVEL).map_err(failed)?;
    let copied = copy(&mut source, &mut body, header.head.length).map_err(|e| match e {
        CopyError::Read(e) => Error::io("read", from)(e),
        CopyError::Write(e) => failed(e),
    })?;
    if copied != header.head.length {
        return Err(Error::SourceChanged { path: from.to_owned() });
    }
    let Sink { inner: mut to, hasher } = body.finish().map_err(failed)?;
    to.write_all(hasher.finalize().as_bytes()).and_then(|()| to.flush()).map_err(failed)
}

/// Restores to the file `to` the snapshot called `name`, replacing a file that is there. A snapshot
/// that is cut short, altered in any bit, or of another name leaves `to` as it was.
pub fn read_snapshot(name: &ObjectName, from: impl Read, to: &Path) -> Result<SnapshotHeader> {
    let flawed = |flaw: Flaw| flaw.of(name);
    let mut source = Source::new(from);
    let header = named(name, &mut source, SnapshotHeader::decode, |header| header.name())?;
    let mut temp = Temp::beside(to)?;
    let mut body = zstd::stream::read::Decoder::with_buffer(source)
        .map_err(|e| flawed(Flaw::Read(e)))?
        .single_frame();
    body.window_log_max(WINDOW_LOG).map_err(|e| flawed(Flaw::Read(e)))?;
    let length = copy(&mut body, temp.file(), header.head.length).map_err(|e| match e {
        CopyError::Write(e) => Error::io("write", to)(e),
        CopyError::Read(e) if body.get_ref().failed => flawed(Flaw::Read(e)),
        CopyError::Read(e) if e.kind() == io::ErrorKind::UnexpectedEof => flawed(Flaw::SHORT),
        CopyError::Read(_) => flawed(Flaw::Bad("its content cannot be decompressed")),
    })?;
    if length != header.head.length {
        return Err(flawed(Flaw::Bad("its content has not the length that its header says")));
    }
    let mut source = body.finish();
    let checksum = source.hasher.finalize();
    if source.array::<CHECKSUM>().map_err(flawed)? != *checksum.as_bytes() {
        return Err(flawed(Flaw::Bad("it does not match its checksum")));
    }
    if !source.fill_buf().map_err(|e| flawed(Flaw::Read(e)))?.is_empty() {
        return Err(flawed(Flaw::Bad("something follows its end")));
    }
    temp.replace(to)?;
    Ok(header)
}

/// Puts the file `from` as a snapshot, by way of a temporary file beside it. Also returns how many
/// bytes the snapshot has. `covers` and `step` as in [`Store::put_file_if_absent`].
pub fn put_snapshot(
    store: &dyn Store,
    from: &Path,
    header: &SnapshotHeader,
    covers: Option<Cursor>,
    step: Step<'_>,
) -> Result<(Put, u64)> {
    let mut temp = Temp::beside(from)?;
    write_snapshot(from, temp.file(), header)?;
    let size = fs::metadata(temp.path()).map_err(Error::io("read", temp.path()))?.len();
    Ok((store.put_file_if_absent(&header.name(), temp.path(), covers, step)?, size))
}

/// Streams the snapshot `name` from the store into the file `to`, as [`read_snapshot`] does.
pub fn fetch_snapshot(store: &dyn Store, name: &ObjectName, to: &Path) -> Result<SnapshotHeader> {
    read_snapshot(name, store.open(name)?, to)
}

/// The header of the snapshot `name`, from its first bytes. Says nothing about its body.
pub fn peek_snapshot(store: &dyn Store, name: &ObjectName) -> Result<SnapshotHeader> {
    let mut source = Source::new(store.open(name)?);
    named(name, &mut source, SnapshotHeader::decode, |header| header.name())
}

/// What the first bytes of the snapshot `name` say briefly.
/// [`Error::BadSnapshot`] also if they are too few.
pub fn decode_snapshot_head(name: &ObjectName, prefix: &[u8]) -> Result<SnapshotHead> {
    named(name, &mut Source::new(prefix), SnapshotHead::decode, |head| head.name())
}

/// Decodes a header and checks that it belongs to `name`: a renamed snapshot is a wrong one.
fn named<R: Read, T>(
    name: &ObjectName,
    source: &mut Source<R>,
    decode: impl FnOnce(&mut Source<R>) -> std::result::Result<T, Flaw>,
    of: impl FnOnce(&T) -> ObjectName,
) -> Result<T> {
    let header = decode(source).map_err(|flaw| flaw.of(name))?;
    if of(&header) != *name || name.kind != Kind::Snapshot {
        return Err(Flaw::Bad("it was made under another name").of(name));
    }
    Ok(header)
}

/// Why a container cannot be read.
enum Flaw {
    Bad(&'static str),
    Newer(u16),
    Sealed,
    Read(io::Error),
}

impl Flaw {
    const SHORT: Flaw = Flaw::Bad("it is cut short");
    const HEADER: Flaw = Flaw::Bad("its header does not match its checksum");

    fn of(self, name: &ObjectName) -> Error {
        let name = *name;
        match self {
            Flaw::Bad(why) => Error::BadSnapshot { name, why },
            Flaw::Sealed => Error::SealedObject { name },
            Flaw::Newer(version) => Error::NewerSnapshot { name, version },
            Flaw::Read(source) => Error::read(&name)(source),
        }
    }
}

/// Hashes what is written through it.
struct Sink<W> {
    inner: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Sink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(bytes)?;
        self.hasher.update(bytes.get(..n).unwrap_or_default());
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Hashes what is read through it, and remembers whether its own source failed: the errors of the
/// decompressor do not tell damage from a broken connection.
struct Source<R> {
    inner: BufReader<R>,
    hasher: blake3::Hasher,
    failed: bool,
}

impl<R: Read> Source<R> {
    fn new(inner: R) -> Source<R> {
        Source { inner: BufReader::new(inner), hasher: blake3::Hasher::new(), failed: false }
    }

    fn array<const N: usize>(&mut self) -> std::result::Result<[u8; N], Flaw> {
        let mut bytes = [0; N];
        match self.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Err(Flaw::SHORT),
            Err(e) => Err(Flaw::Read(e)),
        }
    }
}

impl<R: Read> Source<R> {
    /// A number of things.
    fn count(&mut self) -> std::result::Result<u32, Flaw> {
        let count = u32::from_be_bytes(self.array()?);
        if count > MOST { Err(Flaw::HEADER) } else { Ok(count) }
    }

    /// Reads the checksum of all that was read so far.
    fn check(&mut self) -> std::result::Result<(), Flaw> {
        let checksum = self.hasher.finalize();
        match self.array::<CHECKSUM>()? == *checksum.as_bytes() {
            true => Ok(()),
            false => Err(Flaw::HEADER),
        }
    }
}

impl<R: Read> BufRead for Source<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let filled = self.inner.fill_buf();
        self.failed = filled.is_err();
        filled
    }

    fn consume(&mut self, n: usize) {
        self.hasher.update(self.inner.buffer().get(..n).unwrap_or_default());
        self.inner.consume(n);
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(out)?;
        self.consume(n);
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
