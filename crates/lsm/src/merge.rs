//! Walking many sorted sources as one, in either direction.
//!
//! A source is a memtable or a run of tables that do not overlap. Positions are (key, sequence)
//! in table order: ascending walks start at the first entry not before the position, descending
//! walks at the last entry before it.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use crate::block::Block;
use crate::error::Result;
use crate::memtable::{Entry, Memtable};
use crate::table::Table;

/// A place between entries; `None` is the end that the walk comes from.
pub(crate) type Position<'a> = Option<(&'a [u8], u64)>;

/// One input of a merge.
pub(crate) trait Source: Send + Sync {
    /// The entry the walk stands at.
    fn entry(&self) -> Option<Entry<'_>>;
    /// Moves to the next entry.
    fn advance(&mut self) -> Result<()>;
}

/// Entries copied from a memtable a chunk at a time, so its lock is held briefly.
pub(crate) struct MemSource {
    table: Arc<Memtable>,
    back: bool,
    bytes: Vec<u8>,
    /// Start of the key, start of the value, end, sequence, whether deleted.
    items: Vec<(usize, usize, usize, u64, bool)>,
    at: usize,
    limit: usize,
}

impl MemSource {
    pub(crate) fn new(table: Arc<Memtable>, from: Position<'_>, back: bool) -> MemSource {
        let mut source =
            MemSource { table, back, bytes: Vec::new(), items: Vec::new(), at: 0, limit: 8 };
        source.fill(from);
        source
    }

    fn fill(&mut self, from: Position<'_>) {
        let (bytes, items) = (&mut self.bytes, &mut self.items);
        bytes.clear();
        items.clear();
        self.at = 0;
        self.table.chunk(from, self.limit, self.back, |e| {
            let start = bytes.len();
            bytes.extend_from_slice(e.key);
            let value = bytes.len();
            bytes.extend_from_slice(e.value.unwrap_or_default());
            items.push((start, value, bytes.len(), e.seq, e.value.is_none()));
        });
        self.limit = 256;
    }
}

impl Source for MemSource {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let &(start, value, end, seq, deleted) = self.items.get(self.at)?;
        Some(Entry {
            key: &self.bytes[start..value],
            seq,
            value: (!deleted).then(|| &self.bytes[value..end]),
        })
    }

    fn advance(&mut self) -> Result<()> {
        if self.at + 1 < self.items.len() {
            self.at += 1;
        } else if let Some(last) = self.entry() {
            let key = last.key.to_vec();
            let seq = if self.back { last.seq } else { last.seq - 1 };
            self.fill(Some((&key, seq)));
        }
        Ok(())
    }
}

/// Tables in key order that do not overlap, walked block by block.
#[derive(Default)]
pub(crate) struct RunSource {
    tables: Arc<[Arc<Table>]>,
    back: bool,
    /// Whether blocks go to the cache.
    keep: bool,
    /// Blocks whose newest sequence is not above this are passed over.
    after: u64,
    table: usize,
    block_at: usize,
    block: Option<Block>,
    /// Ascending: the current entry. Descending: one past it.
    at: usize,
    /// The current entry: its key, its sequence, where its value is in the block.
    key: Vec<u8>,
    seq: u64,
    value: Option<Range<usize>>,
}

impl RunSource {
    pub(crate) fn new(
        tables: Arc<[Arc<Table>]>,
        from: Position<'_>,
        back: bool,
        keep: bool,
        after: u64,
    ) -> Result<RunSource> {
        let mut s = RunSource { tables, back, keep, after, ..RunSource::default() };
        s.table = match (from, back) {
            (None, false) => 0,
            (None, true) => s.tables.len().wrapping_sub(1),
            (Some((key, _)), false) => s.tables.partition_point(|t| t.meta.last.as_slice() < key),
            (Some((key, _)), true) => {
                s.tables.partition_point(|t| t.meta.first.as_slice() <= key).wrapping_sub(1)
            }
        };
        let Some(table) = s.tables.get(s.table).cloned() else { return Ok(s) };
        s.block_at = match (from, back) {
            (Some((key, _)), _) => table.load()?.find(key),
            (None, true) => table.load()?.len() - 1,
            (None, false) => 0,
        };
        s.load()?;
        if let (Some((key, seq)), Some(block)) = (from, &s.block) {
            s.at = block.before(key, seq).map_err(|_| table.malformed(s.block_at))?;
        }
        s.settle()?;
        Ok(s)
    }

    /// Reads the current block and stands at the end the walk comes from.
    fn load(&mut self) -> Result<()> {
        self.block = None;
        self.at = 0;
        let Some(table) = self.tables.get(self.table) else { return Ok(()) };
        if self.after > 0 && table.load()?.newest(self.block_at) <= self.after {
            return Ok(());
        }
        let block = table.block(self.block_at, self.keep)?;
        if self.back {
            self.at = block.len();
        }
        self.block = Some(block);
        Ok(())
    }

    /// Reads the entry it stands at, in the next block if the current one is used up.
    fn settle(&mut self) -> Result<()> {
        loop {
            let used_up = if self.back { self.at == 0 } else { self.at >= self.len() };
            let Some(table) = self.tables.get(self.table) else { return Ok(()) };
            if !used_up && let Some(block) = &self.block {
                let read = block.read(self.at - usize::from(self.back), &mut self.key);
                (self.seq, self.value) = read.map_err(|_| table.malformed(self.block_at))?;
                return Ok(());
            }
            if self.back {
                if self.block_at > 0 {
                    self.block_at -= 1;
                } else {
                    self.table = self.table.wrapping_sub(1);
                    self.block_at = match self.tables.get(self.table) {
                        Some(table) => table.load()?.len() - 1,
                        None => 0,
                    };
                }
            } else if self.block_at + 1 < table.load()?.len() {
                self.block_at += 1;
            } else {
                self.table += 1;
                self.block_at = 0;
            }
            self.load()?;
        }
    }

    fn len(&self) -> usize {
        self.block.as_ref().map_or(0, Block::len)
    }
}

impl Source for RunSource {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let block = self.block.as_ref()?;
        let value = self.value.clone().map(|at| block.bytes(at));
        Some(Entry { key: &self.key, seq: self.seq, value })
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.at = if self.back { self.at.saturating_sub(1) } else { self.at + 1 };
        self.settle()
    }
}

/// All entries of the sources, all versions, in table order or its reverse.
pub(crate) struct Merge {
    sources: Vec<Box<dyn Source>>,
    /// The key that was passed last.
    key: Vec<u8>,
    /// Sources that have an entry, the next one last.
    order: Vec<usize>,
    back: bool,
}

fn compare(a: &dyn Source, b: &dyn Source, back: bool) -> Ordering {
    let (Some(a), Some(b)) = (a.entry(), b.entry()) else { return Ordering::Equal };
    let order = a.key.cmp(b.key).then_with(|| b.seq.cmp(&a.seq));
    if back { order.reverse() } else { order }
}

impl Merge {
    pub(crate) fn new(sources: Vec<Box<dyn Source>>, back: bool) -> Merge {
        let mut order: Vec<usize> =
            (0..sources.len()).filter(|i| sources[*i].entry().is_some()).collect();
        order.sort_by(|a, b| compare(&*sources[*b], &*sources[*a], back));
        Merge { sources, key: Vec::new(), order, back }
    }

    /// The entry the walk stands at.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.order.last().and_then(|i| self.sources[*i].entry())
    }

    /// Moves to the next entry.
    pub(crate) fn advance(&mut self) -> Result<()> {
        let Some(&top) = self.order.last() else { return Ok(()) };
        self.sources[top].advance()?;
        if self.sources[top].entry().is_none() {
            self.order.pop();
            return Ok(());
        }
        // Mostly the same source stays in front.
        let mut at = self.order.len() - 1;
        while at > 0 {
            let other = self.order[at - 1];
            if compare(&*self.sources[top], &*self.sources[other], self.back) != Ordering::Greater {
                break;
            }
            self.order.swap(at, at - 1);
            at -= 1;
        }
        Ok(())
    }

    /// Moves to the next key, past the older versions of this one.
    pub(crate) fn next_key(&mut self) -> Result<()> {
        let Some(entry) = self.order.last().and_then(|i| self.sources[*i].entry()) else {
            return Ok(());
        };
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        while self.entry().is_some_and(|e| e.key == self.key) {
            self.advance()?;
        }
        Ok(())
    }
}
