//! A store whose keeper cannot read it: objects are sealed before they are put, and their names
//! are pseudonyms. Byte by byte in `docs/formats/sealed.md`.
//!
//! Every object is bound to its true name. So one that was altered, cut, or is given out under
//! another name does not open, and an old one under its own name is what it was: names never come
//! to stand for something else.

use crate::error::{Altered, Error, Result};
use crate::files::Temp;
use crate::key::Key;
use crate::name::{Kind, ObjectName};
use crate::store::{Ask, Changes, Cursor, Entry, Found, KeyId, Least, Mark, Put, Step, Store};
use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use synqlite_wire::{DatabaseId, Id};

/// How a sealed object begins.
pub(crate) const MAGIC: &[u8; 8] = b"SynQSeal";
const VERSION: u16 = 1;
/// Signature, version, key id, nonce.
const HEAD: usize = 8 + 2 + KEY_ID + NONCE;
const KEY_ID: usize = size_of::<KeyId>();
/// The part of a nonce that all chunks of an object have in common.
const NONCE: usize = 19;
/// Bytes of content in each chunk but the last.
const CHUNK: usize = 16 << 10;
const TAG: usize = 16;
/// Objects that are looked at to find out by which key a database is sealed.
const LOOKED_AT: usize = 8;

/// A store over another one, sealed with a key.
pub struct Sealed {
    inner: Arc<dyn Store>,
    cipher: Arc<XChaCha20Poly1305>,
    names: [u8; 32],
    key_id: KeyId,
}

impl Sealed {
    /// Seals what goes to `inner` with `key`, and opens what comes from there.
    pub fn new(inner: Arc<dyn Store>, key: &Key) -> Sealed {
        let content = key.part("synqlite 1 sealed content");
        let id = key.part("synqlite 1 sealed id");
        let mut key_id = [0; KEY_ID];
        key_id.iter_mut().zip(id).for_each(|(to, byte)| *to = byte);
        Sealed {
            inner,
            cipher: Arc::new(XChaCha20Poly1305::new(&content.into())),
            names: key.part("synqlite 1 sealed names"),
            key_id,
        }
    }

    /// A permutation of texts of one length, another one for each `tweak`, and its inverse: a
    /// Feistel network of four rounds of keyed BLAKE3.
    fn permute(&self, tweak: &[&[u8]], block: &mut [u8], inverse: bool) {
        let (left, right) = block.split_at_mut(block.len() / 2);
        for step in 0..4_u8 {
            let round = if inverse { 3 - step } else { step };
            let (from, to) =
                if round % 2 == 0 { (&*right, &mut *left) } else { (&*left, &mut *right) };
            let mut hasher = blake3::Hasher::new_keyed(&self.names);
            for part in tweak {
                hasher.update(part);
            }
            hasher.update(&[round]).update(from);
            let mut bytes = hasher.finalize_xof();
            let mut mask = [0; 16];
            bytes.fill(&mut mask);
            to.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
    }

    fn id(&self, what: &[u8], id: Id, inverse: bool) -> Id {
        let mut bytes = id.0;
        self.permute(&[what], &mut bytes, inverse);
        Id(bytes)
    }

    fn hidden_database(&self, database: DatabaseId) -> DatabaseId {
        self.id(b"database", database, false)
    }

    fn true_database(&self, hidden: DatabaseId) -> DatabaseId {
        self.id(b"database", hidden, true)
    }

    /// The name under which the store keeps an object.
    fn hide(&self, name: &ObjectName) -> ObjectName {
        let database = self.hidden_database(name.database);
        self.translate(name, name.database, database, false)
    }

    /// The inverse of [`Sealed::hide`].
    fn unhide(&self, name: &ObjectName) -> ObjectName {
        let database = self.true_database(name.database);
        self.translate(name, database, database, true)
    }

    fn translate(&self, name: &ObjectName, tweak: Id, database: Id, inverse: bool) -> ObjectName {
        let mut block = Vec::with_capacity(32);
        block.extend(name.site.0);
        if name.kind == Kind::Batch {
            block.extend(name.from.to_be_bytes());
        }
        block.extend(name.upto.to_be_bytes());
        self.permute(&[name.kind.folder().as_bytes(), &tweak.0], &mut block, inverse);
        let mut rest = block.as_slice();
        let site = Id(take(&mut rest));
        let from =
            if name.kind == Kind::Batch { u64::from_be_bytes(take(&mut rest)) } else { name.from };
        let upto = u64::from_be_bytes(take(&mut rest));
        ObjectName { database, kind: name.kind, site, from, upto }
    }

    /// Reads the head of the object `name`: what its chunks depend on. Where it lies tells that it
    /// is sealed with this key, so a head that says something else is damaged.
    fn chunks(&self, name: &ObjectName, head: &[u8]) -> Result<Chunks> {
        match self.nonce(head) {
            Some(Ok(nonce)) => Ok(self.chunks_of(name, nonce)),
            _ => Err(self.unsealable(name)),
        }
    }

    /// The nonce in a head. `None` if that is cut short or of another version,
    /// [`Error::NotSealed`] or [`Error::WrongKey`] if it shows that.
    fn nonce(&self, head: &[u8]) -> Option<Result<[u8; NONCE]>> {
        if head.iter().zip(MAGIC).any(|(byte, magic)| byte != magic) {
            return Some(Err(Error::NotSealed { address: self.address() }));
        }
        let (version, rest) = head.get(MAGIC.len()..)?.split_first_chunk::<2>()?;
        let (key_id, rest) = rest.split_first_chunk::<KEY_ID>()?;
        let nonce = *rest.first_chunk::<NONCE>()?;
        match u16::from_be_bytes(*version) {
            VERSION if *key_id == self.key_id => Some(Ok(nonce)),
            VERSION => Some(Err(Error::WrongKey { address: self.address() })),
            _ => None,
        }
    }

    fn unsealable(&self, name: &ObjectName) -> Error {
        Error::Unsealable { name: *name, kept: self.hide(name) }
    }

    fn chunks_of(&self, name: &ObjectName, nonce: [u8; NONCE]) -> Chunks {
        let mut bound = self.head(nonce);
        bound.extend(name.to_string().bytes());
        Chunks { cipher: self.cipher.clone(), bound, kept: self.hide(name), nonce, next: 0 }
    }

    fn head(&self, nonce: [u8; NONCE]) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend(VERSION.to_be_bytes());
        head.extend(self.key_id);
        head.extend(nonce);
        head
    }

    /// Seals what `from` holds. Returns how many bytes that was.
    fn seal(&self, name: &ObjectName, from: &mut dyn Read, to: &mut dyn Write) -> io::Result<u64> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).map_err(|e| io::Error::other(e.to_string()))?;
        to.write_all(&self.head(nonce))?;
        let mut chunks = self.chunks_of(name, nonce);
        let (mut ahead, mut total) = (Vec::new(), 0);
        loop {
            // One byte more than a chunk tells whether it is the last.
            let missing = (CHUNK + 1 - ahead.len()) as u64;
            from.take(missing).read_to_end(&mut ahead)?;
            let rest = ahead.split_off(CHUNK.min(ahead.len()));
            total += ahead.len() as u64;
            to.write_all(&chunks.seal(&ahead, rest.is_empty())?)?;
            if rest.is_empty() {
                return Ok(total);
            }
            ahead = rest;
        }
    }

    /// What the beginning of an object holds, as far as its chunks are there in full.
    fn open_prefix(&self, name: &ObjectName, sealed: &[u8]) -> Result<Vec<u8>> {
        let mut chunks = self.chunks(name, sealed)?;
        let mut plain = Vec::new();
        for chunk in sealed.get(HEAD..).unwrap_or_default().chunks(CHUNK + TAG) {
            let whole = chunk.len() == CHUNK + TAG;
            let opened = match chunks.open(chunk, false) {
                Some(opened) if whole => Some(opened),
                _ => chunks.open(chunk, true),
            };
            match opened {
                Some(opened) => plain.extend(opened),
                // The beginning of a chunk says nothing.
                None if !whole && !plain.is_empty() => break,
                None => return Err(self.unsealable(name)),
            }
            chunks.next += 1;
        }
        Ok(plain)
    }

    /// [`Error::WrongKey`] or [`Error::NotSealed`] if what is there under a database's hidden id
    /// shows that, and nothing there that it is ours: one object may be damaged.
    fn check_key(&self, hidden: DatabaseId) -> Result<()> {
        let (prefix, name) = (HEAD as u64, "");
        let ask = Ask { database: hidden, after: None, prefix, site: None, name };
        let mut shown = Ok(());
        for Found { entry, prefix } in self.inner.changes(ask)?.found.into_iter().take(LOOKED_AT) {
            let head = match prefix.as_slice() {
                [] => self.inner.read_prefix(&entry.name, HEAD as u64)?,
                _ => prefix,
            };
            match self.nonce(&head) {
                Some(Ok(_)) => return Ok(()),
                Some(Err(e)) => shown = shown.and(Err(e)),
                None => {}
            }
        }
        shown
    }

    /// Errors of the inner store name what it keeps; ours name what is meant.
    fn error(&self, name: &ObjectName, e: Error) -> Error {
        match e {
            Error::NotFound { .. } => Error::NotFound { name: *name },
            Error::EmptyObject { .. } => Error::EmptyObject { name: *name },
            Error::Read { source, .. } => Error::Read { name: *name, source },
            e => e,
        }
    }
}

/// The chunks of one object (STREAM): chunk `n` has the nonce of the object, `n`, and whether it is
/// the last, so that none can be left out, moved or added.
struct Chunks {
    cipher: Arc<XChaCha20Poly1305>,
    /// What all of them are bound to: the head, and the true name.
    bound: Vec<u8>,
    /// The name that the store has for it.
    kept: ObjectName,
    nonce: [u8; NONCE],
    next: u32,
}

impl Chunks {
    fn nonce(&self, last: bool) -> XNonce {
        let mut nonce = [0; NONCE + 5];
        nonce[..NONCE].copy_from_slice(&self.nonce);
        nonce[NONCE..NONCE + 4].copy_from_slice(&self.next.to_be_bytes());
        nonce[NONCE + 4] = u8::from(last);
        nonce.into()
    }

    fn seal(&mut self, plain: &[u8], last: bool) -> io::Result<Vec<u8>> {
        let payload = Payload { msg: plain, aad: &self.bound };
        let sealed = self.cipher.encrypt(&self.nonce(last), payload);
        let sealed = sealed.map_err(|_| io::Error::other("it is too long to be sealed"))?;
        let next = self.next.checked_add(1);
        self.next = next.ok_or_else(|| io::Error::other("it is too long to be sealed"))?;
        Ok(sealed)
    }

    fn open(&self, sealed: &[u8], last: bool) -> Option<Vec<u8>> {
        let payload = Payload { msg: sealed, aad: &self.bound };
        self.cipher.decrypt(&self.nonce(last), payload).ok()
    }

    /// What the beginning of a chunk holds if nobody altered it: the cipher adds a stream of bytes,
    /// and zeros sealed are that stream.
    fn unverified(&self, beginning: &[u8], last: bool) -> Option<Vec<u8>> {
        let zeros = vec![0; beginning.len()];
        let stream = self.cipher.encrypt(&self.nonce(last), zeros.as_slice()).ok()?;
        Some(beginning.iter().zip(stream).map(|(byte, stream)| byte ^ stream).collect())
    }
}

/// Reads what is sealed, chunk by chunk.
struct Opened {
    inner: Box<dyn Read + Send>,
    chunks: Chunks,
    /// Sealed bytes that follow.
    ahead: Vec<u8>,
    plain: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl Read for Opened {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.plain.read(out)?;
            if n > 0 || out.is_empty() || self.ended {
                return Ok(n);
            }
            let missing = (CHUNK + TAG + 1 - self.ahead.len()) as u64;
            self.inner.by_ref().take(missing).read_to_end(&mut self.ahead)?;
            let rest = self.ahead.split_off((CHUNK + TAG).min(self.ahead.len()));
            let opened = self.chunks.open(&self.ahead, rest.is_empty());
            let altered = Altered { kept: self.chunks.kept };
            self.plain = io::Cursor::new(opened.ok_or_else(|| io::Error::other(altered))?);
            self.chunks.next += 1;
            self.ended = rest.is_empty();
            self.ahead = rest;
        }
    }
}

/// Length of what a sealed object of this length holds. One that is cut so short that it holds
/// nothing is there all the same, and counts for one byte.
fn plain_size(sealed: u64) -> u64 {
    let chunks = sealed.saturating_sub(HEAD as u64);
    chunks.saturating_sub(chunks.div_ceil((CHUNK + TAG) as u64) * TAG as u64).max(1)
}

/// Enough of a sealed object to open so many bytes.
fn sealed_prefix(plain: u64) -> u64 {
    let chunks = plain.div_ceil(CHUNK as u64).max(1);
    chunks.saturating_mul((CHUNK + TAG) as u64).saturating_add(HEAD as u64)
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (bytes, after) = rest.split_at(N.min(rest.len()));
    *rest = after;
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or_default())
}

impl Store for Sealed {
    fn address(&self) -> String {
        self.inner.address()
    }

    fn key_id(&self) -> KeyId {
        self.key_id
    }

    fn kept_as(&self, name: &ObjectName) -> ObjectName {
        self.inner.kept_as(&self.hide(name))
    }

    /// A keeper that wants to be believed can cut an object as well, so its word costs nothing.
    fn is_cut(&self, name: &ObjectName, least: Least<'_>) -> Result<bool> {
        let sealed = self.inner.read_prefix(&self.hide(name), sealed_prefix(1));
        let sealed = sealed.map_err(|e| self.error(name, e))?;
        let beginning = sealed.get(HEAD..).unwrap_or_default();
        let chunks = match self.nonce(&sealed) {
            None => return Ok(sealed.len() < HEAD),
            Some(Ok(nonce)) if beginning.len() < CHUNK + TAG => self.chunks_of(name, nonce),
            Some(_) => return Ok(false),
        };
        let size = plain_size(sealed.len() as u64);
        let needs = |last| least(&chunks.unverified(beginning, last)?);
        Ok([true, false].into_iter().filter_map(needs).any(|needed| needed > size))
    }

    fn databases(&self) -> Result<Vec<DatabaseId>> {
        let hidden = self.inner.databases()?;
        hidden.iter().try_for_each(|hidden| self.check_key(*hidden))?;
        let mut found: Vec<_> = hidden.into_iter().map(|id| self.true_database(id)).collect();
        found.sort();
        Ok(found)
    }

    fn list(&self, database: DatabaseId, kind: Kind) -> Result<Vec<Entry>> {
        let hidden = self.inner.list(self.hidden_database(database), kind)?;
        let open = |e: Entry| Entry { name: self.unhide(&e.name), size: plain_size(e.size) };
        let mut entries: Vec<_> = hidden.into_iter().map(open).collect();
        entries.sort();
        Ok(entries)
    }

    fn changes(&self, ask: Ask<'_>) -> Result<Changes> {
        let prefix = if ask.prefix > 0 { sealed_prefix(ask.prefix) } else { 0 };
        let site = ask.site.map(|site| self.id(b"site", site, false));
        let database = self.hidden_database(ask.database);
        let hidden = Ask { database, prefix, site, name: "", ..ask };
        let changes = match self.inner.changes(hidden) {
            Err(Error::DatabaseMismatch { address, found, .. }) => {
                found.iter().try_for_each(|hidden| self.check_key(*hidden))?;
                let found = found.into_iter().map(|id| self.true_database(id)).collect();
                return Err(Error::DatabaseMismatch { address, expected: ask.database, found });
            }
            changes => changes?,
        };
        let open = |Found { entry, prefix }: Found| {
            let name = self.unhide(&entry.name);
            // One that does not open is read again, and the error is told then.
            let mut plain = match prefix.as_slice() {
                [] => Vec::new(),
                prefix => self.open_prefix(&name, prefix).unwrap_or_default(),
            };
            plain.truncate(usize::try_from(ask.prefix).unwrap_or(usize::MAX));
            Found { entry: Entry { name, size: plain_size(entry.size) }, prefix: plain }
        };
        let mut found: Vec<_> = changes.found.into_iter().map(open).collect();
        if changes.cursor.is_none() {
            found.sort();
        }
        let mark = match changes.mark {
            Mark::Object(name) => Mark::Object(self.unhide(&name)),
            mark => mark,
        };
        Ok(Changes { found, mark, ..changes })
    }

    fn wait(&self, after: Option<Cursor>, at_most: Duration) -> Result<Option<Cursor>> {
        self.inner.wait(after, at_most)
    }

    fn open(&self, name: &ObjectName) -> Result<Box<dyn Read + Send>> {
        let mut inner = self.inner.open(&self.hide(name)).map_err(|e| self.error(name, e))?;
        let mut head = Vec::new();
        let read = inner.by_ref().take(HEAD as u64).read_to_end(&mut head);
        read.map_err(Error::read(name))?;
        let chunks = self.chunks(name, &head)?;
        let (ahead, plain) = (Vec::new(), io::Cursor::default());
        Ok(Box::new(Opened { inner, chunks, ahead, plain, ended: false }))
    }

    fn read_prefix(&self, name: &ObjectName, max: u64) -> Result<Vec<u8>> {
        let sealed = self.inner.read_prefix(&self.hide(name), sealed_prefix(max));
        let mut plain = self.open_prefix(name, &sealed.map_err(|e| self.error(name, e))?)?;
        plain.truncate(usize::try_from(max).unwrap_or(usize::MAX));
        Ok(plain)
    }

    fn put_if_absent(&self, name: &ObjectName, mut bytes: &[u8]) -> Result<Put> {
        if bytes.is_empty() {
            return Err(Error::EmptyObject { name: *name });
        }
        let mut sealed = Vec::new();
        let done = self.seal(name, &mut bytes, &mut sealed);
        done.map_err(|source| Error::Write { name: *name, source })?;
        self.inner.put_if_absent(&self.hide(name), &sealed).map_err(|e| self.error(name, e))
    }

    fn put_file_if_absent(
        &self,
        name: &ObjectName,
        file: &Path,
        covers: Option<Cursor>,
        step: Step<'_>,
    ) -> Result<Put> {
        let mut source = File::open(file).map_err(Error::io("read", file))?;
        let mut temp = Temp::beside(file)?;
        let sealed = self.seal(name, &mut source, temp.file());
        if sealed.map_err(|source| Error::Write { name: *name, source })? == 0 {
            return Err(Error::EmptyObject { name: *name });
        }
        let put = self.inner.put_file_if_absent(&self.hide(name), temp.path(), covers, step);
        put.map_err(|e| self.error(name, e))
    }
}

#[cfg(test)]
mod tests;
