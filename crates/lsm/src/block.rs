//! Data blocks: sorted entries, and in front of them a directory that leads a lookup straight to its
//! entry.
//!
//! The directory has a byte of each key's hash, so that a lookup compares eight bytes at a time and
//! then mostly one key, and the place of each entry. An entry leaves out what its key
//! shares with the first key of the block. Blocks are read as they are stored.
//!
//! Bytes: see `docs/formats/lsm.md`, "Data block".

use std::cmp::Ordering;
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::{Reader, put_varint, shared_len};
use crate::memtable::Entry;

/// The largest size at which a block counts as full: two bytes then say where an entry begins.
pub(crate) const MAX_FULL: usize = 1 << 16;
/// Bytes of the number of entries, which stands before the directory.
const COUNT: usize = 2;
/// Entries of a group of the directory, and its bytes: all tags, then all places. What a lookup
/// reads lies side by side in memory.
const GROUP: usize = 8;
const GROUP_BYTES: usize = GROUP + 2 * GROUP;
/// Bytes that come from memory together.
const LINE: usize = 64;

fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// The lengths of what a key shares and of the rest have five and three bits of one byte. These
/// values say that a varint with what is above them follows.
const SHARED: usize = 31;
const UNSHARED: usize = 7;

#[inline]
fn length(r: &mut Reader<'_>, len: usize, most: usize) -> Option<usize> {
    if len < most { Some(len) } else { r.len()?.checked_add(most) }
}

/// The bytes of a block do not fit the format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Collects the entries of one block.
#[derive(Default)]
pub(crate) struct Builder {
    len: usize,
    directory: Vec<[u8; GROUP_BYTES]>,
    entries: Vec<u8>,
    first: Vec<u8>,
}

impl Builder {
    /// Appends an entry, each key once; `hash` is the key's, `base` the table's smallest sequence.
    pub(crate) fn add(&mut self, entry: Entry<'_>, hash: u64, base: u64) {
        let out = &mut self.entries;
        if out.is_empty() {
            self.first.clear();
            self.first.extend_from_slice(entry.key);
        }
        let shared = if out.is_empty() { 0 } else { shared_len(&self.first, entry.key) };
        let place = self.len % GROUP;
        if place == 0 {
            self.directory.push([0; GROUP_BYTES]);
        }
        if let Some(group) = self.directory.last_mut() {
            group[place] = tag(hash);
            group[GROUP + 2 * place..][..2].copy_from_slice(&(out.len() as u16).to_le_bytes());
        }
        self.len += 1;
        let unshared = entry.key.len() - shared;
        out.push((shared.min(SHARED) << 3 | unshared.min(UNSHARED)) as u8);
        for (len, most) in [(shared, SHARED), (unshared, UNSHARED)] {
            if len >= most {
                put_varint(out, (len - most) as u64);
            }
        }
        put_varint(out, (entry.seq - base) << 1 | u64::from(entry.value.is_none()));
        out.extend_from_slice(&entry.key[shared..]);
        out.extend_from_slice(entry.value.unwrap_or_default());
    }

    /// Bytes so far.
    pub(crate) fn size(&self) -> usize {
        self.entries.len() + self.directory.as_flattened().len()
    }

    /// The finished block; the builder is empty again.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(COUNT + self.size());
        out.extend_from_slice(&(self.len as u16).to_le_bytes());
        out.extend_from_slice(self.directory.as_flattened());
        out.append(&mut self.entries);
        self.directory.clear();
        self.len = 0;
        out
    }
}

/// Where the parts of an entry are.
struct Stored {
    /// Bytes that its key shares with the block's first.
    shared: usize,
    suffix: Range<usize>,
    seq: u64,
    value: Option<Range<usize>>,
}

/// A block; clones share the bytes.
#[derive(Clone)]
pub(crate) struct Block {
    bytes: Arc<[u8]>,
    /// Number of entries.
    len: usize,
    /// Where they begin.
    entries: usize,
    /// Where the first key is.
    first: Range<usize>,
    base: u64,
}

impl Block {
    /// Wraps the bytes of a block whose table starts at sequence `base`.
    pub(crate) fn new(bytes: &[u8], base: u64) -> Result<Block, Malformed> {
        let len = bytes.first_chunk().map_or(0, |n| usize::from(u16::from_le_bytes(*n)));
        let entries = COUNT + len.div_ceil(GROUP) * GROUP_BYTES;
        let mut block = Block { bytes: bytes.into(), len, entries, first: 0..0, base };
        block.first = block.stored(0)?.suffix;
        Ok(block)
    }

    /// Bytes held.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the `i`th entry begins; where the last one ends, if it is one too many.
    #[inline]
    fn place(&self, i: usize) -> Option<usize> {
        if i == self.len {
            return Some(self.bytes.len());
        }
        let at = COUNT + i / GROUP * GROUP_BYTES + GROUP + 2 * (i % GROUP);
        let place = self.bytes.get(at..)?.first_chunk()?;
        Some(self.entries + usize::from(u16::from_le_bytes(*place)))
    }

    /// The `i`th entry.
    #[inline]
    fn stored(&self, i: usize) -> Result<Stored, Malformed> {
        let parse = || {
            let end = self.place(i + 1)?;
            let mut r = Reader(self.bytes.get(self.place(i)?..end)?);
            // Asking for its other lines of memory now lets them come together with the first.
            black_box((r.0.get(LINE).copied(), r.0.last().copied()));
            let lens = usize::from(r.u8()?);
            let shared = length(&mut r, lens >> 3, SHARED)?;
            let unshared = length(&mut r, lens & UNSHARED, UNSHARED)?;
            let tag = r.varint()?;
            let at = end - r.0.len();
            r.take(unshared)?;
            let suffix = at..at + unshared;
            let value = (tag & 1 == 0).then_some(suffix.end..end);
            let fits = shared <= self.first.len() && (value.is_some() || suffix.end == end);
            let seq = self.base.checked_add(tag >> 1)?;
            fits.then_some(Stored { shared, suffix, seq, value })
        };
        parse().ok_or(Malformed)
    }

    /// Reads the `i`th entry: puts its key together, and returns its sequence and where its value is.
    #[inline]
    pub(crate) fn read(
        &self,
        i: usize,
        key: &mut Vec<u8>,
    ) -> Result<(u64, Option<Range<usize>>), Malformed> {
        let stored = self.stored(i)?;
        key.clear();
        key.extend_from_slice(&self.bytes[self.first.clone()][..stored.shared]);
        key.extend_from_slice(&self.bytes[stored.suffix]);
        Ok((stored.seq, stored.value))
    }

    /// Bytes of a value that [`Block::read`] found.
    #[inline]
    pub(crate) fn bytes(&self, at: Range<usize>) -> &[u8] {
        &self.bytes[at]
    }

    /// Number of entries before (`key`, `seq`) in table order.
    pub(crate) fn before(&self, key: &[u8], seq: u64) -> Result<usize, Malformed> {
        let (mut low, mut high, mut own) = (0, self.len, Vec::new());
        while low < high {
            let middle = low.midpoint(high);
            let (other, _) = self.read(middle, &mut own)?;
            let order = own.as_slice().cmp(key).then_with(|| seq.cmp(&other));
            if order == Ordering::Less { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// The version of `key` that counts at `seq`; `hash` is the key's.
    #[inline]
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        seq: u64,
    ) -> Result<Option<Option<&[u8]>>, Malformed> {
        const ONES: u64 = u64::from_le_bytes([1; GROUP]);
        black_box(self.bytes.get(self.first.start).copied());
        let directory = self.bytes.get(COUNT..self.entries).ok_or(Malformed)?;
        for (i, group) in directory.as_chunks::<GROUP_BYTES>().0.iter().enumerate() {
            // A byte that equals the tag is marked, and now and then the byte after such a one: the
            // key decides.
            let tags = group.first_chunk().map_or(0, |tags| u64::from_le_bytes(*tags));
            let different = tags ^ (ONES * u64::from(tag(hash)));
            let mut marked = different.wrapping_sub(ONES) & !different & (ONES << 7);
            while marked != 0 {
                let i = GROUP * i + marked.trailing_zeros() as usize / 8;
                if i < self.len
                    && let Some(value) = self.value(i, key, seq)?
                {
                    return Ok(Some(value));
                }
                marked &= marked - 1;
            }
        }
        Ok(None)
    }

    /// The value of the `i`th entry, if it is the version of `key` that counts at `seq`.
    #[inline]
    fn value(&self, i: usize, key: &[u8], seq: u64) -> Result<Option<Option<&[u8]>>, Malformed> {
        let stored = self.stored(i)?;
        let (head, suffix) =
            (&self.bytes[self.first.clone()][..stored.shared], &self.bytes[stored.suffix]);
        let same = stored.seq <= seq && key.strip_prefix(head) == Some(suffix);
        Ok(same.then(|| stored.value.map(|at| &self.bytes[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::hash;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Model = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

    fn build(model: &Model) -> Block {
        let mut b = Builder::default();
        for (key, (seq, value)) in model {
            b.add(Entry { key, seq: *seq, value: value.as_deref() }, hash(key), 5);
        }
        Block::new(&b.finish(), 5).unwrap()
    }

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        let tail = prop::collection::vec(0u8..3, 0..6);
        // Short, long, and with much in common.
        (prop::sample::select(vec![0, 1, 8, 30, 31, 40, 300]), tail)
            .prop_map(|(n, tail)| [vec![7; n], tail].concat())
    }

    proptest! {
        #[test]
        fn finds_what_was_added(
            model in prop::collection::btree_map(keys(), (5u64..40, prop::option::of(prop::collection::vec(any::<u8>(), 0..9))), 1..120),
            probes in prop::collection::vec((keys(), 5u64..40), 40)
        ) {
            let block = build(&model);
            let mut key = Vec::new();
            for (i, (want, (seq, value))) in model.iter().enumerate() {
                let read = block.read(i, &mut key).unwrap();
                prop_assert_eq!((&key, read.0, read.1.map(|at| block.bytes(at))), (want, *seq, value.as_deref()));
            }
            prop_assert_eq!(block.len(), model.len());
            for (key, seq) in probes {
                let want = model.get(&key).filter(|(s, _)| *s <= seq).map(|(_, v)| v.as_deref());
                prop_assert_eq!(block.get(&key, hash(&key), seq).unwrap(), want);
                let before = model.iter().filter(|(k, (s, _))| **k < key || **k == key && *s > seq).count();
                prop_assert_eq!(block.before(&key, seq).unwrap(), before);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, key: Vec<u8>) {
            if let Ok(block) = Block::new(&bytes, 1) {
                let _ = block.get(&key, hash(&key), 9);
                let _ = block.before(&key, 9);
                let _ = (0..block.len().min(99)).filter_map(|i| block.read(i, &mut Vec::new()).ok()).count();
            }
        }
    }
}
