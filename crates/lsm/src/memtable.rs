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
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::codec::{hash, prefix};
use crate::log::Op;

const LEAF: usize = 128;
const HEAD: usize = 16;
const DELETED: u32 = 1 << 31;
/// What a change costs beyond its key and value, roughly.
const OVERHEAD: usize = 48;

#[derive(Clone, Copy)]
struct Slot {
    prefix: [u64; 2],
    len: u32,
    /// Offset of the entry in the arena: sequence, lengths of value and key, key, value.
    at: u32,
}

/// Where the newest version of each key is in the arena, by hash: places in a row are tried.
#[derive(Default)]
struct Newest {
    /// Upper half of the key's hash, and the offset + 1; 0 where there is none.
    places: Vec<u64>,
    used: usize,
}

impl Newest {
    /// Room for the entries that about `bytes` of arena hold.
    fn new(bytes: usize) -> Newest {
        let places = if bytes == 0 { 0 } else { (bytes / 128).next_power_of_two() };
        Newest { places: vec![0; places], used: 0 }
    }

    /// The place of the key with this hash whose entry is `same`, or the free one for it. There
    /// must be a free place.
    fn find(&self, hash: u64, same: impl Fn(u32) -> bool) -> usize {
        let (tag, mask) = (hash >> 32, self.places.len() - 1);
        let mut i = tag as usize & mask;
        loop {
            let place = self.places[i];
            if place == 0 || place >> 32 == tag && same(place as u32 - 1) {
                return i;
            }
            i = (i + 1) & mask;
        }
    }

    fn get(&self, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        (self.places[self.find(hash, same)] as u32).checked_sub(1)
    }

    fn set(&mut self, hash: u64, at: u32, same: impl Fn(u32) -> bool) {
        if self.used * 5 >= self.places.len() * 4 {
            let old = std::mem::take(&mut self.places);
            self.places = vec![0; (old.len() * 2).max(16)];
            for place in old.into_iter().filter(|place| *place != 0) {
                let i = self.find(place, |_| false);
                self.places[i] = place;
            }
        }
        let i = self.find(hash, same);
        self.used += usize::from(self.places[i] == 0);
        self.places[i] = hash >> 32 << 32 | u64::from(at + 1);
    }
}

#[derive(Default)]
struct Tree {
    arena: Vec<u8>,
    /// Absent in a memtable that is loaded only to be flushed: making it would delay opening.
    newest: Option<Newest>,
    /// First slot of each leaf, and which leaf.
    root: Vec<(Slot, u32)>,
    leaves: Vec<Vec<Slot>>,
    /// Place in `root` of the last insert: the next one often lands beside it.
    finger: usize,
}

/// An entry borrowed from a table of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) seq: u64,
    /// `None` is a deletion.
    pub(crate) value: Option<&'a [u8]>,
}

/// What is looked for: a key and the newest sequence that counts.
struct Target<'a> {
    prefix: [u64; 2],
    key: &'a [u8],
    seq: u64,
}

/// The entry at an offset of an arena.
fn entry(arena: &[u8], at: u32) -> Entry<'_> {
    let at = at as usize;
    let head = &arena[at..at + HEAD];
    let seq = head.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let number = |at: usize| head[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    let (tag, len) = (number(8), number(12));
    let key = at + HEAD..at + HEAD + len as usize;
    let value = key.end..key.end + (tag & !DELETED) as usize;
    let value = (tag & DELETED == 0).then(|| &arena[value]);
    Entry { key: &arena[key], seq, value }
}

impl Tree {
    fn entry(&self, slot: Slot) -> Entry<'_> {
        entry(&self.arena, slot.at)
    }

    #[inline]
    fn compare(&self, slot: &Slot, target: &Target<'_>) -> Ordering {
        let first = slot.prefix.cmp(&target.prefix);
        if first != Ordering::Equal {
            return first;
        }
        // Keys of 16 bytes and less with equal prefixes differ only in padding.
        let len = slot.len as usize;
        if len <= 16 && target.key.len() <= 16 {
            let by_len = len.cmp(&target.key.len());
            if by_len != Ordering::Equal {
                return by_len;
            }
            return target.seq.cmp(&self.entry(*slot).seq);
        }
        let entry = self.entry(*slot);
        entry.key.cmp(target.key).then_with(|| target.seq.cmp(&entry.seq))
    }

    /// The first place not before `target`: index in `root`, index in the leaf (maybe its length).
    fn find(&self, target: &Target<'_>) -> (usize, usize) {
        let leaf = self
            .root
            .partition_point(|(first, _)| self.compare(first, target) != Ordering::Greater);
        let leaf = leaf.saturating_sub(1);
        let Some(slots) = self.leaf(leaf) else { return (0, 0) };
        (leaf, slots.partition_point(|s| self.compare(s, target) == Ordering::Less))
    }

    fn leaf(&self, i: usize) -> Option<&Vec<Slot>> {
        self.root.get(i).and_then(|(_, leaf)| self.leaves.get(*leaf as usize))
    }

    /// Whether `target` goes right after the last slot of leaf `i`.
    fn fits_after(&self, i: usize, target: &Target<'_>) -> bool {
        let last = self.leaf(i).and_then(|leaf| leaf.last());
        last.is_some_and(|last| self.compare(last, target) == Ordering::Less)
            && self
                .root
                .get(i + 1)
                .is_none_or(|(next, _)| self.compare(next, target) == Ordering::Greater)
    }

    /// Copies an entry to the arena, and notes it as its key's newest where that is kept.
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
        let Tree { arena, newest, .. } = self;
        if let Some(newest) = newest {
            newest.set(hash(op.key), at, |other| entry(arena, other).key == op.key);
        }
        Slot { prefix: prefix(op.key), len: op.key.len() as u32, at }
    }

    /// Builds an empty tree from slots in any order.
    fn build(&mut self, mut slots: Vec<Slot>) {
        slots.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| {
                let (a, b) = (self.entry(*a), self.entry(*b));
                a.key.cmp(b.key).then_with(|| b.seq.cmp(&a.seq))
            })
        });
        for leaf in slots.chunks(LEAF) {
            self.root.push((leaf[0], self.leaves.len() as u32));
            self.leaves.push(new_leaf(leaf));
        }
    }

    fn insert(&mut self, seq: u64, op: Op<'_>) {
        let slot = self.store(seq, op);
        let target = Target { prefix: slot.prefix, key: op.key, seq };
        let last = self.root.len().saturating_sub(1);
        let (leaf, place) = if self.fits_after(self.finger, &target) {
            (self.finger, self.leaf(self.finger).map_or(0, Vec::len))
        } else if self.fits_after(last, &target) {
            (last, self.leaf(last).map_or(0, Vec::len))
        } else {
            self.find(&target)
        };
        self.finger = leaf;
        self.place(leaf, place, slot);
    }

    fn place(&mut self, leaf: usize, place: usize, slot: Slot) {
        let Some(&(_, id)) = self.root.get(leaf) else {
            self.root.push((slot, self.leaves.len() as u32));
            self.leaves.push(new_leaf(&[slot]));
            return;
        };
        let slots = &mut self.leaves[id as usize];
        if slots.len() < LEAF {
            slots.insert(place, slot);
            if place == 0 {
                self.root[leaf].0 = slot;
            }
            return;
        }
        // Appending leaves full leaves behind, anything else halves.
        let upper = if place == LEAF { Vec::new() } else { slots.split_off(LEAF / 2) };
        let (mut upper, below) = (upper, slots.len());
        if place < below {
            slots.insert(place, slot);
            if place == 0 {
                self.root[leaf].0 = slot;
            }
        } else {
            upper.insert(place - below, slot);
            self.finger = leaf + 1;
        }
        let right = new_leaf(&upper);
        self.root.insert(leaf + 1, (right[0], self.leaves.len() as u32));
        self.leaves.push(right);
    }

    fn get(&self, key: &[u8], hash: u64, seq: u64) -> Option<Entry<'_>> {
        if let Some(newest) = &self.newest {
            let newest = newest.get(hash, |at| entry(&self.arena, at).key == key)?;
            let newest = entry(&self.arena, newest);
            if newest.seq <= seq {
                return Some(newest);
            }
        }
        let target = Target { prefix: prefix(key), key, seq };
        let (leaf, place) = self.find(&target);
        self.slot(leaf, place).map(|slot| self.entry(slot)).filter(|e| e.key == key)
    }

    /// The slot at a place, or the first of the next leaf.
    fn slot(&self, leaf: usize, place: usize) -> Option<Slot> {
        let slots = self.leaf(leaf)?;
        slots.get(place).or_else(|| self.leaf(leaf + 1)?.first()).copied()
    }
}

fn new_leaf(slots: &[Slot]) -> Vec<Slot> {
    let mut leaf = Vec::with_capacity(LEAF);
    leaf.extend_from_slice(slots);
    leaf
}

/// A memtable; `log` is the number of the log that holds the same changes.
pub(crate) struct Memtable {
    pub(crate) log: u64,
    size: AtomicUsize,
    deletions: AtomicUsize,
    tree: RwLock<Tree>,
}

impl Memtable {
    pub(crate) fn new(log: u64, capacity: usize) -> Memtable {
        let arena = Vec::with_capacity(capacity);
        let tree = Tree { arena, newest: Some(Newest::new(capacity)), ..Tree::default() };
        Memtable {
            log,
            size: AtomicUsize::new(0),
            deletions: AtomicUsize::new(0),
            tree: RwLock::new(tree),
        }
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
        let size = tree.arena.len() + slots.len() * OVERHEAD;
        tree.build(slots);
        let deletions = AtomicUsize::new(0);
        Ok(Memtable { log, size: AtomicUsize::new(size), deletions, tree: RwLock::new(tree) })
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

    /// Visits all entries in order; stops at the first error.
    pub(crate) fn visit<E>(&self, mut f: impl FnMut(Entry<'_>) -> Result<(), E>) -> Result<(), E> {
        let tree = self.read();
        for i in 0..tree.root.len() {
            for slot in tree.leaf(i).into_iter().flatten() {
                f(tree.entry(*slot))?;
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
        mut f: impl FnMut(Entry<'_>),
    ) {
        let tree = self.read();
        let (mut leaf, mut place) = match from {
            Some((key, seq)) => tree.find(&Target { prefix: prefix(key), key, seq }),
            None if back => (tree.root.len(), 0),
            None => (0, 0),
        };
        for _ in 0..limit {
            if back {
                if place == 0 {
                    let Some(previous) = leaf.checked_sub(1) else { return };
                    leaf = previous;
                    place = tree.leaf(leaf).map_or(0, Vec::len);
                }
                let Some(slot) = tree.leaf(leaf).and_then(|l| l.get(place.wrapping_sub(1))) else {
                    return;
                };
                f(tree.entry(*slot));
                place -= 1;
            } else {
                if tree.leaf(leaf).is_some_and(|l| place >= l.len()) {
                    leaf += 1;
                    place = 0;
                }
                let Some(slot) = tree.leaf(leaf).and_then(|l| l.get(place)) else { return };
                f(tree.entry(*slot));
                place += 1;
            }
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
            let mut same = Vec::new();
            loaded.visit(|e| { same.push(((e.key.to_vec(), u64::MAX - e.seq), e.value.map(<[u8]>::to_vec))); Ok::<_, ()>(()) }).unwrap();
            prop_assert_eq!(&same, &model.clone().into_iter().collect::<Vec<_>>());
            let mut all = Vec::new();
            table.visit(|e| { all.push(((e.key.to_vec(), u64::MAX - e.seq), e.value.map(<[u8]>::to_vec))); Ok::<_, ()>(()) }).unwrap();
            prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());
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
