//! A file of changes, byte by byte as `docs/formats/hub-bucket.md` has it: an entry of the log, a
//! bundle of entries, or a part of a checkpoint.

use crate::backend::Epoch;
use crate::error::{Error, Result};
use synqlite_lsm::{Batch, Db};
use synqlite_wire::Id;

const MAGIC: &[u8; 8] = b"SYNQHUBL";
const VERSION: u32 = 1;
/// Bytes before the changes.
const HEAD: usize = 60;
/// Bytes of the BLAKE3 hash after them.
const HASH: usize = 32;
/// Length of a file without changes: how a hub says that it took over.
pub const EMPTY: u64 = (HEAD + HASH) as u64;
/// Bytes of changes that are applied at once.
const AT_ONCE: usize = 16 << 20;

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Key of what entries changed, by their numbers.
pub fn log_key(from: u64, upto: u64) -> String {
    format!("log/{from:016x}-{upto:016x}")
}

/// The numbers in a key of [`log_key`].
pub fn log_numbers(key: &str) -> Option<(u64, u64)> {
    let (from, upto) = key.strip_prefix("log/")?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (from, upto) = (number(from)?, number(upto)?);
    (log_key(from, upto) == key && 0 < from && from <= upto).then_some((from, upto))
}

/// A key, and its value unless it goes.
type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// Changes of the keys of a store, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The order of sequences that they belong to.
    pub epoch: Epoch,
    /// The hub that wrote them, from its start to its end.
    pub run: Id,
    /// Number of the first entry that is in it.
    pub from: u64,
    /// Number of the last.
    pub upto: u64,
    changes: Vec<u8>,
}

impl Entry {
    /// Without changes.
    pub fn new(epoch: Epoch, run: Id, from: u64, upto: u64) -> Entry {
        Entry { epoch, run, from, upto, changes: Vec::new() }
    }

    /// Adds a change: a value, or that the key goes.
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.changes.push(if value.is_some() { PUT } else { DELETE });
        self.changes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        self.changes.extend_from_slice(key);
        if let Some(value) = value {
            self.changes.extend_from_slice(&(value.len() as u32).to_be_bytes());
            self.changes.extend_from_slice(value);
        }
    }

    /// Adds all changes of a batch.
    pub fn add_all(&mut self, batch: &Batch) {
        batch.changes().for_each(|(key, value)| self.add(key, value));
    }

    /// Adds all changes of the entry that follows.
    pub fn append(&mut self, next: &Entry) {
        self.changes.extend_from_slice(&next.changes);
        self.upto = next.upto;
    }

    /// Bytes of changes.
    pub fn size(&self) -> usize {
        self.changes.len()
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD + self.changes.len() + HASH);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.epoch.0);
        out.extend_from_slice(&self.run.0);
        out.extend_from_slice(&self.from.to_be_bytes());
        out.extend_from_slice(&self.upto.to_be_bytes());
        out.extend_from_slice(&self.changes);
        let hash = blake3::hash(&out);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    /// Reads what [`Entry::encode`] wrote; `key` is for messages.
    pub fn decode(key: &str, bytes: &[u8]) -> Result<Entry> {
        let bad = |why| Error::Damaged { what: format!("{key} in the bucket"), why };
        let short = || bad("it is cut short");
        let (body, hash) = bytes.split_last_chunk::<HASH>().ok_or_else(short)?;
        let (head, changes) = body.split_first_chunk::<HEAD>().ok_or_else(short)?;
        if head[..8] != *MAGIC {
            return Err(bad("no hub wrote it"));
        }
        let number = |at: usize| head[at..].first_chunk().map_or(0, |n| u64::from_be_bytes(*n));
        let id = |at: usize| head[at..].first_chunk().map(|id| Id(*id)).ok_or_else(short);
        let found = number(8) >> 32;
        if found > VERSION.into() {
            let (what, known) = (key.to_owned(), VERSION.into());
            return Err(Error::Newer { what, found, known });
        }
        if blake3::hash(body) != *hash {
            return Err(bad("it does not match its checksum"));
        }
        let (epoch, run, from, upto) = (id(12)?, id(28)?, number(44), number(52));
        Ok(Entry { epoch, run, from, upto, changes: changes.to_vec() })
    }

    /// The first change of `rest`, and what follows it. [`Error::Damaged`] if it is cut short.
    fn next<'a>(&self, rest: &'a [u8]) -> Result<(Change<'a>, &'a [u8])> {
        let read = || {
            let (kind, rest) = rest.split_first()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            if *kind != PUT {
                return (*kind == DELETE).then_some(((key, None), rest));
            }
            let (length, rest) = rest.split_first_chunk()?;
            let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
            Some(((key, Some(value)), rest))
        };
        read().ok_or_else(|| Error::Damaged {
            what: format!("{} in the bucket", log_key(self.from, self.upto)),
            why: "a change in it is malformed",
        })
    }

    /// Changes a local store so. The last write is that of `then`.
    pub fn apply(&self, db: &Db, then: impl FnOnce(&mut Batch) -> Result<()>) -> Result<()> {
        let (mut batch, mut rest, mut size) = (Batch::new(), &self.changes[..], 0);
        while !rest.is_empty() {
            let ((key, value), next) = self.next(rest)?;
            size += rest.len() - next.len();
            rest = next;
            match value {
                Some(value) => batch.put(key, value)?,
                None => batch.delete(key)?,
            };
            if size > AT_ONCE {
                db.write_with(&batch, false)?;
                batch.clear();
                size = 0;
            }
        }
        then(&mut batch)?;
        db.write_with(&batch, false)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn changes() -> impl Strategy<Value = Vec<(Vec<u8>, Option<Vec<u8>>)>> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        proptest::collection::vec((bytes(), proptest::option::of(bytes())), 0..10)
    }

    proptest! {
        #[test]
        fn entries_read_back_and_damage_is_told(all in changes(), at: usize) {
            let mut entry = Entry::new(Id([1; 16]), Id([2; 16]), 7, 9);
            all.iter().for_each(|(key, value)| entry.add(key, value.as_deref()));
            let bytes = entry.encode();
            prop_assert_eq!(bytes.len() as u64 == EMPTY, all.is_empty());
            let back = Entry::decode("it", &bytes).unwrap();
            prop_assert_eq!(&back, &entry);
            let (mut rest, mut read) = (&back.changes[..], Vec::new());
            while !rest.is_empty() {
                let ((key, value), next) = back.next(rest).unwrap();
                read.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                rest = next;
            }
            prop_assert_eq!(read, all);
            let at = at % bytes.len();
            prop_assert!(Entry::decode("it", &bytes[..at]).is_err());
            let mut damaged = bytes;
            damaged[at] ^= 1;
            prop_assert!(Entry::decode("it", &damaged).is_err());
        }
    }

    #[test]
    fn keys_tell_numbers() {
        assert_eq!(log_numbers(&log_key(1, 0xff)), Some((1, 255)));
        for foreign in ["log/1-2", "log/x", "lease", "log/0000000000000000-0000000000000001"] {
            assert_eq!(log_numbers(foreign), None, "{foreign}");
        }
        assert!(log_key(9, 9) < log_key(10, 10));
    }
}
