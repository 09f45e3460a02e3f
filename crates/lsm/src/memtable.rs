//! The newest writes, in memory and in order: a two-level B-tree over an arena, and beside it the
//! place of each key's newest version by the key's hash, so that point reads search nothing.
//!
//! Leaves are short sorted arrays of slots; a slot holds the first 16 bytes of its key, so most
//! comparisons touch no other memory, and a neighbour search is two binary searches in cache.
//! Writers come one at a time (the commit lock sees to it), readers at any time: a lock a table,
//! held for one insert, one lookup or one chunk of a scan.
//!
//! Order: key ascending, then sequence descending, so the newest version of a key comes first.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::codec::{hash, prefix};
use crate::log::Op;

/// Slots of a full leaf.
const LEAF: usize = 128;
const HEAD: usize = 16;
const DELETED: u32 = 1 << 31;
/// What a change costs beyond its key and value, roughly.
const OVERHEAD: usize = 48;

#[derive(Clone, Copy)]
struct Slot {
    prefix: u128,
    /// Offset of the entry in the arena.
    at: u32,
}

struct Leaf {
    first: Slot,
    slots: Vec<Slot>,
}

/// The upper half of a key's hash as a hash.
#[derive(Default)]
struct Half(u64);

impl Hasher for Half {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
    }

    fn write_u32(&mut self, half: u32) {
        self.0 = u64::from(half) << 32 | u64::from(half);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn half(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[derive(Default)]
struct Tree {
    /// Entries: sequence, lengths of value and key, key, value.
    arena: Vec<u8>,
    leaves: Vec<Leaf>,
    /// The leaf of the last insert: the next one often lands beside it.
    finger: usize,
    /// Offset of each key's newest version by half of the key's hash; of two keys that share it, one.
    /// Absent in a memtable that is loaded only to be flushed: making it would delay opening.
    newest: Option<HashMap<u32, u32, BuildHasherDefault<Half>>>,
}

/// An entry borrowed from a table of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seq: u64,
    /// `None` is a deletion.
    pub(crate) value: Option<&'a [u8]>,
}

impl Leaf {
    /// A leaf of some slots, at least one.
    fn new(first: Slot, others: impl IntoIterator<Item = Slot>) -> Leaf {
        let mut slots = Vec::with_capacity(LEAF);
        slots.push(first);
        slots.extend(others);
        Leaf { first, slots }
    }
}

/// What is looked for: a key, its prefix, and the newest sequence that counts.
type Target<'a> = (u128, &'a [u8], u64);

impl Tree {
    /// The entry at an offset of the arena.
    fn entry(&self, at: u32) -> Entry<'_> {
        let at = at as usize;
        let head = &self.arena[at..at + HEAD];
        let seq = head.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let number = |at: usize| head[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
        let (tag, len) = (number(8), number(12));
        let key = at + HEAD..at + HEAD + len as usize;
        let value = key.end..key.end + (tag & !DELETED) as usize;
        let value = (tag & DELETED == 0).then(|| &self.arena[value]);
        Entry { key: &self.arena[key], seq, value }
    }

    #[inline]
    fn compare(&self, slot: &Slot, (prefix, key, seq): Target<'_>) -> Ordering {
        slot.prefix.cmp(&prefix).then_with(|| {
            let entry = self.entry(slot.at);
            entry.key.cmp(key).then_with(|| seq.cmp(&entry.seq))
        })
    }

    /// The first place not before `target`: which leaf, and where in it (maybe its length).
    fn find(&self, target: Target<'_>) -> (usize, usize) {
        let after = |leaf: &Leaf| self.compare(&leaf.first, target) == Ordering::Greater;
        let leaf = self.leaves.partition_point(|leaf| !after(leaf)).saturating_sub(1);
        let before = |slot: &Slot| self.compare(slot, target) == Ordering::Less;
        (leaf, self.leaves.get(leaf).map_or(0, |leaf| leaf.slots.partition_point(before)))
    }

    /// The end of the last insert's leaf, if `target` belongs there.
    fn at_finger(&self, target: Target<'_>) -> Option<(usize, usize)> {
        let slots = &self.leaves.get(self.finger)?.slots;
        let next = self.leaves.get(self.finger + 1);
        let fits = self.compare(slots.last()?, target) == Ordering::Less
            && next.is_none_or(|next| self.compare(&next.first, target) == Ordering::Greater);
        fits.then_some((self.finger, slots.len()))
    }

    /// Entries from a place on.
    fn ascend(&self, leaf: usize, place: usize) -> impl Iterator<Item = Entry<'_>> {
        let start = move |i| if i == leaf { place } else { 0 };
        let leaves = self.leaves.iter().enumerate().skip(leaf);
        leaves.flat_map(move |(i, leaf)| &leaf.slots[start(i)..]).map(|slot| self.entry(slot.at))
    }

    /// Entries before a place, descending.
    fn descend(&self, leaf: usize, place: usize) -> impl Iterator<Item = Entry<'_>> {
        let end = move |i, all: &Leaf| if i == leaf { place } else { all.slots.len() };
        let leaves = self.leaves.iter().enumerate().take(leaf + 1).rev();
        leaves
            .flat_map(move |(i, leaf)| leaf.slots[..end(i, leaf)].iter().rev())
            .map(|slot| self.entry(slot.at))
    }

    /// Copies an entry to the arena.
    fn store(&mut self, seq: u64, op: Op<'_>) -> Slot {
        let at = self.arena.len() as u32;
        let value = op.value.unwrap_or_default();
        let tag = value.len() as u32 | if op.value.is_none() { DELETED } else { 0 };
        self.arena.reserve(HEAD + op.key.len() + value.len());
        self.arena.extend_from_slice(&seq.to_le_bytes());
        self.arena.extend_from_slice(&tag.to_le_bytes());
        self.arena.extend_from_slice(&(op.key.len() as u32).to_le_bytes());
        self.arena.extend_from_slice(op.key);
        self.arena.extend_from_slice(value);
        Slot { prefix: prefix(op.key), at }
    }

    fn insert(&mut self, seq: u64, op: Op<'_>) {
        let slot = self.store(seq, op);
        if let Some(newest) = &mut self.newest {
            newest.insert(half(hash(op.key)), slot.at);
        }
        let target = (slot.prefix, op.key, seq);
        let (leaf, place) = self.at_finger(target).unwrap_or_else(|| self.find(target));
        self.finger = leaf;
        let Some(Leaf { first, slots }) = self.leaves.get_mut(leaf) else {
            return self.leaves.push(Leaf::new(slot, []));
        };
        if slots.len() < LEAF {
            slots.insert(place, slot);
            *first = slots[0];
            return;
        }
        // Appending leaves full leaves behind, anything else halves.
        let half = if place == LEAF { LEAF } else { LEAF / 2 };
        let mut upper = slots.split_off(half);
        if place < half {
            slots.insert(place, slot);
            *first = slots[0];
        } else {
            upper.insert(place - half, slot);
            self.finger += 1;
        }
        self.leaves.insert(leaf + 1, Leaf::new(upper[0], upper.drain(1..)));
    }

    fn get(&self, key: &[u8], hash: u64, seq: u64) -> Option<Entry<'_>> {
        if let Some(newest) = &self.newest {
            let newest = self.entry(*newest.get(&half(hash))?);
            if newest.key == key && newest.seq <= seq {
                return Some(newest);
            }
        }
        let (leaf, place) = self.find((prefix(key), key, seq));
        self.ascend(leaf, place).next().filter(|e| e.key == key)
    }
}

/// A memtable; `log` is the number of the log that holds the same changes.
#[derive(Default)]
pub(crate) struct Memtable {
    pub(crate) log: u64,
    size: AtomicUsize,
    deletions: AtomicUsize,
    tree: RwLock<Tree>,
}

impl Memtable {
    pub(crate) fn new(log: u64, capacity: usize) -> Memtable {
        let newest = HashMap::with_capacity_and_hasher(capacity / 128, BuildHasherDefault::new());
        let arena = Vec::with_capacity(capacity);
        let tree = Tree { arena, newest: Some(newest), ..Tree::default() };
        Memtable { log, tree: RwLock::new(tree), ..Memtable::default() }
    }

    /// A memtable of changes that are all known, each with its sequence: sorted once instead of
    /// inserted one by one.
    pub(crate) fn load<E>(
        log: u64,
        capacity: usize,
        fill: impl FnOnce(&mut dyn FnMut(u64, Op<'_>)) -> Result<(), E>,
    ) -> Result<Memtable, E> {
        let mut tree = Tree { arena: Vec::with_capacity(capacity), ..Tree::default() };
        let mut slots = Vec::with_capacity(capacity / 128);
        fill(&mut |seq, op| slots.push(tree.store(seq, op)))?;
        let size = AtomicUsize::new(tree.arena.len() + slots.len() * OVERHEAD);
        slots.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| {
                let b = tree.entry(b.at);
                tree.compare(a, (a.prefix, b.key, b.seq))
            })
        });
        let leaf = |slots: &[Slot]| Leaf::new(slots[0], slots[1..].iter().copied());
        tree.leaves = slots.chunks(LEAF).map(leaf).collect();
        Ok(Memtable { log, size, tree: RwLock::new(tree), ..Memtable::default() })
    }

    /// Adds changes with consecutive sequences from `seq`, visible together.
    pub(crate) fn insert<'a>(&self, seq: u64, ops: impl Iterator<Item = Op<'a>>) {
        let mut tree = self.tree.write().unwrap_or_else(PoisonError::into_inner);
        let before = tree.arena.len();
        let (mut n, mut deletions) = (0, 0);
        for op in ops {
            tree.insert(seq + n, op);
            n += 1;
            deletions += usize::from(op.value.is_none());
        }
        if deletions > 0 {
            self.deletions.fetch_add(deletions, Relaxed);
        }
        self.size.fetch_add(tree.arena.len() - before + n as usize * OVERHEAD, Relaxed);
    }

    /// Bytes taken, roughly.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Relaxed)
    }

    /// Deletions since it was made; those that it was loaded with do not count.
    pub(crate) fn deletions(&self) -> usize {
        self.deletions.load(Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.size() == 0
    }

    fn read(&self) -> RwLockReadGuard<'_, Tree> {
        self.tree.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Newest version of a key not after `seq`: `None` if the table has none, `Some(None)` if it
    /// is a deletion. `hash` is the key's.
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: u64) -> Option<Option<Vec<u8>>> {
        if self.is_empty() {
            return None;
        }
        self.read().get(key, hash, seq).map(|e| e.value.map(<[u8]>::to_vec))
    }

    /// Visits the newest version of each key in order; stops at the first error.
    pub(crate) fn visit<E>(&self, mut f: impl FnMut(Entry<'_>) -> Result<(), E>) -> Result<(), E> {
        let (tree, mut last) = (self.read(), None);
        for entry in tree.ascend(0, 0) {
            if last.replace(entry.key) != Some(entry.key) {
                f(entry)?;
            }
        }
        Ok(())
    }

    /// Passes up to `limit` entries to `f`: ascending from `from` in table order, or descending
    /// from before it. `None` starts at the end the walk comes from.
    pub(crate) fn chunk(
        &self,
        from: Option<(&[u8], u64)>,
        limit: usize,
        back: bool,
        f: impl FnMut(Entry<'_>),
    ) {
        let tree = self.read();
        let (leaf, place) = match from {
            Some((key, seq)) => tree.find((prefix(key), key, seq)),
            None if back => (tree.leaves.len(), 0),
            None => (0, 0),
        };
        if back {
            tree.descend(leaf, place).take(limit).for_each(f);
        } else {
            tree.ascend(leaf, place).take(limit).for_each(f);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_like_an_ordered_map(
            ops in prop::collection::vec((prop::collection::vec(0u8..3, 0..20), prop::option::of(any::<u8>())), 1..600)
        ) {
            let table = Memtable::new(1, 0);
            let mut model = BTreeMap::new();
            for (i, (key, value)) in ops.iter().enumerate() {
                let seq = i as u64 + 1;
                let bytes = value.map(|v| vec![v; 3]);
                table.insert(seq, [Op { key, value: bytes.as_deref() }].into_iter());
                model.insert((key.clone(), u64::MAX - seq), bytes);
            }
            let loaded = Memtable::load(1, 0, |add| {
                for (i, (key, value)) in ops.iter().enumerate() {
                    let bytes = value.map(|v| vec![v; 3]);
                    add(i as u64 + 1, Op { key, value: bytes.as_deref() });
                }
                Ok::<_, ()>(())
            }).unwrap();
            for table in [&table, &loaded] {
                let mut all = Vec::new();
                table.chunk(None, usize::MAX, false, |e| all.push(((e.key.to_vec(), u64::MAX - e.seq), e.value.map(<[u8]>::to_vec))));
                prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());
                let mut newest = Vec::new();
                table.visit(|e| { newest.push((e.key.to_vec(), u64::MAX - e.seq)); Ok::<_, ()>(()) }).unwrap();
                all.dedup_by(|later, earlier| later.0.0 == earlier.0.0);
                prop_assert_eq!(newest, all.into_iter().map(|(place, _)| place).collect::<Vec<_>>());
            }
            for (i, (key, _)) in ops.iter().enumerate() {
                let seq = i as u64 + 1;
                let newest = model.range((key.clone(), u64::MAX - seq)..).next().map(|(_, v)| v.clone());
                prop_assert_eq!(table.get(key, hash(key), seq), newest.clone());
                prop_assert_eq!(loaded.get(key, hash(key), seq), newest);
                let mut after = Vec::new();
                table.chunk(Some((key, seq)), 5, false, |e| after.push((e.key.to_vec(), u64::MAX - e.seq)));
                let want: Vec<_> = model.range((key.clone(), u64::MAX - seq)..).take(5).map(|(k, _)| k.clone()).collect();
                prop_assert_eq!(after, want);
                let mut before = Vec::new();
                table.chunk(Some((key, seq)), 5, true, |e| before.push((e.key.to_vec(), u64::MAX - e.seq)));
                let want: Vec<_> = model.range(..(key.clone(), u64::MAX - seq)).rev().take(5).map(|(k, _)| k.clone()).collect();
                prop_assert_eq!(before, want);
            }
        }
    }

    #[test]
    fn full_leaves_stay_full_when_keys_ascend() {
        let table = Memtable::new(1, 0);
        for i in 0..10 * LEAF as u64 {
            table.insert(i + 1, [Op { key: &i.to_be_bytes(), value: None }].into_iter());
        }
        assert_eq!(table.read().leaves.len(), 10);
    }
}
