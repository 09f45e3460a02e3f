//! Data blocks: sorted entries, each storing only what its key does not share with the one before.
//!
//! Every [`INTERVAL`]th entry is a restart point with its whole key; their offsets stand at the
//! block's end for binary search. Entries are ordered by key, then by sequence descending.
//!
//! Bytes: see `docs/formats/lsm.md`, "Data block".

use std::borrow::Cow;
use std::cmp::Ordering;
use std::hint::black_box;
use std::sync::Arc;

use crate::codec::{Reader, hash, put_varint, shared_len};
use crate::memtable::Entry;

/// Entries from one restart point to the next.
pub(crate) const INTERVAL: usize = 8;

/// The bytes of a block do not fit the format.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Collects the entries of one block.
#[derive(Default)]
pub(crate) struct Builder {
    out: Vec<u8>,
    restarts: Vec<u32>,
    since: usize,
    last: Vec<u8>,
}

impl Builder {
    /// Appends an entry; `base` is the table's smallest sequence.
    pub(crate) fn add(&mut self, entry: Entry<'_>, base: u64) {
        let mut shared = 0;
        if self.since == INTERVAL || self.restarts.is_empty() {
            self.restarts.push(self.out.len() as u32);
            self.since = 0;
        } else {
            shared = shared_len(&self.last, entry.key);
        }
        self.since += 1;
        put_varint(&mut self.out, shared as u64);
        put_varint(&mut self.out, (entry.key.len() - shared) as u64);
        put_varint(&mut self.out, (entry.seq - base) << 1 | u64::from(entry.value.is_none()));
        if let Some(value) = entry.value {
            put_varint(&mut self.out, value.len() as u64);
        }
        self.out.extend_from_slice(&entry.key[shared..]);
        self.out.extend_from_slice(entry.value.unwrap_or_default());
        self.last.truncate(shared);
        self.last.extend_from_slice(&entry.key[shared..]);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.restarts.is_empty()
    }

    /// Bytes so far.
    pub(crate) fn size(&self) -> usize {
        self.out.len() + self.restarts.len() * 4 + 4
    }

    /// Key of the newest entry.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// The finished block; the builder is empty again.
    pub(crate) fn finish(&mut self) -> &[u8] {
        for at in &self.restarts {
            self.out.extend_from_slice(&at.to_le_bytes());
        }
        self.out.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &self.out
    }

    /// Forgets the finished block.
    pub(crate) fn clear(&mut self) {
        self.out.clear();
        self.restarts.clear();
        self.since = 0;
        self.last.clear();
    }
}

struct Stored<'a> {
    shared: usize,
    suffix: &'a [u8],
    seq: u64,
    value: Option<&'a [u8]>,
}

#[inline]
fn read<'a>(r: &mut Reader<'a>, base: u64) -> Option<Stored<'a>> {
    let (shared, unshared) = (r.len()?, r.len()?);
    let tag = r.varint()?;
    let value_len = if tag & 1 == 0 { Some(r.len()?) } else { None };
    let suffix = r.take(unshared)?;
    let value = match value_len {
        Some(n) => Some(r.take(n)?),
        None => None,
    };
    Some(Stored { shared, suffix, seq: base.checked_add(tag >> 1)?, value })
}

/// A block as the file has it: what a read that keeps nothing searches.
pub(crate) struct Raw<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where the entries end and the restart offsets begin.
    end: usize,
    base: u64,
}

impl<'a> Raw<'a> {
    /// Wraps the bytes of a block whose table starts at sequence `base`.
    pub(crate) fn new(bytes: Cow<'a, [u8]>, base: u64) -> Result<Raw<'a>, Malformed> {
        let (_, count) = bytes.split_last_chunk().ok_or(Malformed)?;
        let tail = (u32::from_le_bytes(*count) as usize)
            .checked_add(1)
            .and_then(|n| n.checked_mul(4))
            .ok_or(Malformed)?;
        let end = bytes.len().checked_sub(tail).ok_or(Malformed)?;
        if tail == 4 {
            return Err(Malformed);
        }
        Ok(Raw { bytes, end, base })
    }

    fn restart(&self, i: usize) -> Option<usize> {
        let at = self.bytes.get(self.end + 4 * i..)?.first_chunk()?;
        Some(u32::from_le_bytes(*at) as usize).filter(|at| *at < self.end)
    }

    /// The version of `key` that counts at `seq`.
    pub(crate) fn get(&self, key: &[u8], seq: u64) -> Result<Option<Option<&[u8]>>, Malformed> {
        let entries = &self.bytes[..self.end];
        let (mut low, mut high) = (0, (self.bytes.len() - self.end) / 4 - 1);
        // Invariant: restart `low` is not after the target (or is the first), `high` is after it.
        while low + 1 < high {
            let middle = low.midpoint(high);
            let at = self.restart(middle).ok_or(Malformed)?;
            let raw = read(&mut Reader(&entries[at..]), self.base).ok_or(Malformed)?;
            if raw.suffix.cmp(key).then_with(|| seq.cmp(&raw.seq)) == Ordering::Greater {
                high = middle;
            } else {
                low = middle;
            }
        }
        let at = self.restart(low).ok_or(Malformed)?;
        let mut r = Reader(&entries[at..]);
        // How much of the target the previous, smaller key shares: decides most entries without
        // putting their keys together.
        let mut matched = 0;
        while !r.0.is_empty() {
            let raw = read(&mut r, self.base).ok_or(Malformed)?;
            // A restart point repeats what it shares.
            if raw.shared == 0 {
                matched = 0;
            }
            match raw.shared.cmp(&matched) {
                Ordering::Greater => continue,
                Ordering::Less => return Ok(None),
                Ordering::Equal => {}
            }
            let rest = key.get(matched..).ok_or(Malformed)?;
            if raw.suffix == rest {
                if raw.seq <= seq {
                    return Ok(Some(raw.value));
                }
                matched = key.len();
                continue;
            }
            let more = shared_len(raw.suffix, rest);
            if raw.suffix[more..] > rest[more..] {
                return Ok(None);
            }
            matched += more;
        }
        Ok(None)
    }
}

/// A block laid out for reading: keys whole, and a byte of each key's hash, so that a lookup goes
/// straight to its entry. Clones share the bytes.
///
/// Entries (sequence, lengths of key and value, key, value), then the directory: groups of the tags
/// of eight entries and their offsets, side by side in memory because they are read together.
#[derive(Clone)]
pub(crate) struct Block {
    bytes: Arc<[u8]>,
    /// Where the directory begins.
    directory: usize,
    len: usize,
}

const DELETED: u32 = u32::MAX;
const HEAD: usize = 16;
/// Entries of a group of the directory, and its bytes.
const GROUP: usize = 8;
const GROUP_BYTES: usize = GROUP + 4 * GROUP;
/// Bytes that come from memory together.
const LINE: usize = 64;
/// With more entries than this, halving beats looking at every tag.
const TAGS: usize = 256;

fn tag(hash: u64) -> u8 {
    (hash >> 56) as u8
}

impl Raw<'_> {
    /// Lays out the entries.
    pub(crate) fn expand(&self) -> Result<Block, Malformed> {
        let mut out = Vec::with_capacity(self.end * 3 / 2 + 64);
        let mut directory: Vec<[u8; GROUP_BYTES]> = Vec::with_capacity(8);
        let mut len = 0;
        let mut r = Reader(&self.bytes[..self.end]);
        let mut last = 0..0;
        while !r.0.is_empty() {
            let stored = read(&mut r, self.base).ok_or(Malformed)?;
            if stored.shared > last.len() {
                return Err(Malformed);
            }
            let (start, key) = (out.len(), stored.shared + stored.suffix.len());
            let mut head = [0; HEAD];
            head[..8].copy_from_slice(&stored.seq.to_le_bytes());
            head[8..12].copy_from_slice(&(key as u32).to_le_bytes());
            head[12..]
                .copy_from_slice(&stored.value.map_or(DELETED, |v| v.len() as u32).to_le_bytes());
            out.extend_from_slice(&head);
            out.extend_from_within(last.start..last.start + stored.shared);
            out.extend_from_slice(stored.suffix);
            last = start + HEAD..out.len();
            let tag = tag(hash(&out[last.clone()]));
            out.extend_from_slice(stored.value.unwrap_or_default());
            let place = len % GROUP;
            if place == 0 {
                directory.push([0; GROUP_BYTES]);
            }
            if let Some(group) = directory.last_mut() {
                group[place] = tag;
                group[GROUP + 4 * place..][..4].copy_from_slice(&(start as u32).to_le_bytes());
            }
            len += 1;
        }
        let start = out.len();
        out.extend_from_slice(directory.as_flattened());
        Ok(Block { bytes: out.into(), directory: start, len })
    }
}

impl Block {
    /// Bytes held.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The `i`th entry.
    #[inline]
    pub(crate) fn entry(&self, i: usize) -> Option<Entry<'_>> {
        if i >= self.len {
            return None;
        }
        self.entry_of(self.group(i / GROUP)?, i % GROUP)
    }

    #[inline]
    fn group(&self, i: usize) -> Option<&[u8; GROUP_BYTES]> {
        self.bytes.get(self.directory + i * GROUP_BYTES..)?.first_chunk()
    }

    #[inline]
    fn entry_of(&self, group: &[u8; GROUP_BYTES], place: usize) -> Option<Entry<'_>> {
        let at = Reader(&group[GROUP + 4 * place..]).u32()? as usize;
        let mut r = Reader(self.bytes.get(at..)?);
        // Where the value begins is known once the head is here. Asking for the next two lines of
        // memory now lets all three come at the same time.
        black_box((r.0.get(LINE).copied(), r.0.get(2 * LINE).copied()));
        let (seq, key, value) = (r.u64()?, r.u32()? as usize, r.u32()?);
        let key = r.take(key)?;
        let value = if value == DELETED { None } else { Some(r.take(value as usize)?) };
        Some(Entry { key, seq, value })
    }

    /// Number of entries before (`key`, `seq`) in table order.
    pub(crate) fn before(&self, key: &[u8], seq: u64) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low.midpoint(high);
            let order = self.entry(middle).map(|e| e.key.cmp(key).then_with(|| seq.cmp(&e.seq)));
            if order == Some(Ordering::Less) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The version of `key` that counts at `seq`; `hash` is the key's.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: u64) -> Option<Option<&[u8]>> {
        const ONES: u64 = u64::from_le_bytes([1; 8]);
        if self.len > TAGS {
            return self.entry(self.before(key, seq)).filter(|e| e.key == key).map(|e| e.value);
        }
        let wanted = ONES * u64::from(tag(hash));
        // Eight tags at a time. A byte that equals the wanted one is marked, and now and then the
        // byte after such a one: the key decides. The last group's unused places lead to the first
        // entry, which has another key or is the one that is looked for.
        for i in 0..self.len.div_ceil(GROUP) {
            let group = self.group(i)?;
            let different = u64::from_le_bytes(*group.first_chunk()?) ^ wanted;
            let mut marked = different.wrapping_sub(ONES) & !different & (ONES << 7);
            while marked != 0 {
                let found = self.entry_of(group, marked.trailing_zeros() as usize / 8);
                if let Some(e) = found.filter(|e| e.seq <= seq && e.key == key) {
                    return Some(e.value);
                }
                marked &= marked - 1;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Model = BTreeMap<(Vec<u8>, u64), Option<Vec<u8>>>;

    fn build(model: &Model) -> Raw<'static> {
        let mut b = Builder::default();
        for ((key, inverse), value) in model {
            b.add(Entry { key, seq: u64::MAX - inverse, value: value.as_deref() }, 5);
        }
        Raw::new(b.finish().to_vec().into(), 5).unwrap()
    }

    proptest! {
        #[test]
        fn finds_what_was_added(
            entries in prop::collection::vec((prop::collection::vec(0u8..3, 0..6), 5u64..40, prop::option::of(prop::collection::vec(any::<u8>(), 0..9))), 1..120),
            probes in prop::collection::vec((prop::collection::vec(0u8..3, 0..6), 5u64..40), 40)
        ) {
            let model: Model = entries.into_iter().map(|(k, s, v)| ((k, u64::MAX - s), v)).collect();
            let block = build(&model);
            let list = block.expand().unwrap();
            let all: Vec<_> = (0..list.len()).map(|i| { let e = list.entry(i).unwrap(); ((e.key.to_vec(), u64::MAX - e.seq), e.value.map(<[u8]>::to_vec)) }).collect();
            prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());
            for (key, seq) in probes {
                let from = (key.clone(), u64::MAX - seq);
                let want = model.range(from.clone()..).next().filter(|((k, _), _)| *k == key).map(|(_, v)| v.as_deref());
                prop_assert_eq!(block.get(&key, seq).unwrap(), want);
                prop_assert_eq!(list.get(&key, hash(&key), seq), want);
                prop_assert_eq!(list.before(&key, seq), model.range(..from).count());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, key: Vec<u8>) {
            if let Ok(block) = Raw::new(bytes.into(), 1) {
                let _ = block.get(&key, 9);
                let _ = block.expand();
            }
        }
    }
}
