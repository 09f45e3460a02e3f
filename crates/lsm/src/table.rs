//! Sorted tables on disk: data blocks, a Bloom filter, an index of the blocks, a footer.
//!
//! A table is written once, under a number that no other file ever gets, and never changed. Every
//! part carries a checksum seeded with that number and the part's offset, verified when the part
//! is read; there is no byte without one. A table has each key once.
//!
//! Bytes: see `docs/formats/lsm.md`, "Table".

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use crate::block::{self, Block};
use crate::bloom;
use crate::cache::{Cache, Slots};
use crate::codec::{Reader, checksum, hash, prefix, put_bytes, put_varint, shared_len};
use crate::disk::ReadFile;
use crate::error::{At, Error, Result};
use crate::folder::Folder;
use crate::memtable::Entry;
use crate::options::{Compression, Options};

const MAGIC: &[u8; 8] = b"SYNQLTAB";
const VERSION: u32 = 1;
const FOOTER: usize = 80;
/// Blocks that are fetched at a time for those who read in order.
const AHEAD: usize = 4;

/// What the manifest knows about a table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Meta {
    pub(crate) number: u64,
    /// File length in bytes.
    pub(crate) size: u64,
    pub(crate) entries: u64,
    pub(crate) deletions: u64,
    /// No sequence in the table is smaller; entries are stored relative to it.
    pub(crate) base: u64,
    pub(crate) newest: u64,
    pub(crate) first: Vec<u8>,
    pub(crate) last: Vec<u8>,
}

impl Meta {
    pub(crate) fn overlaps(&self, first: &[u8], last: &[u8]) -> bool {
        self.first.as_slice() <= last && first <= self.last.as_slice()
    }

    pub(crate) fn file(&self) -> String {
        format!("{:08}.table", self.number)
    }
}

fn seed(number: u64, offset: u64) -> u32 {
    (number as u32).rotate_left(16) ^ offset as u32
}

/// Builds a table in memory from entries in table order.
pub(crate) struct Builder {
    meta: Meta,
    block_size: usize,
    bloom_bits: usize,
    compression: Compression,
    out: Vec<u8>,
    block: block::Builder,
    block_newest: u64,
    blocks: u64,
    /// What the index says of each block.
    index: Vec<u8>,
    /// What separates the block in hand from the one before.
    separator: Vec<u8>,
    hashes: Vec<u64>,
}

impl Builder {
    /// A builder for table `number`; `base` is at most every sequence that will be added.
    pub(crate) fn new(number: u64, base: u64, options: &Options) -> Builder {
        Builder {
            meta: Meta { number, base, ..Meta::default() },
            block_size: options.block_size,
            bloom_bits: options.bloom_bits,
            compression: options.compression,
            out: Vec::new(),
            block: block::Builder::default(),
            block_newest: 0,
            blocks: 0,
            index: Vec::new(),
            separator: Vec::new(),
            hashes: Vec::new(),
        }
    }

    /// Appends an entry, each key once.
    pub(crate) fn add(&mut self, entry: Entry<'_>) {
        if self.block.size() >= self.block_size {
            // The shortest prefix of the next key that lies above the last one.
            let n = shared_len(&self.meta.last, entry.key) + 1;
            self.finish_block(entry.key[..n.min(entry.key.len())].to_vec());
        }
        let hash = hash(entry.key);
        if self.bloom_bits > 0 {
            self.hashes.push(hash);
        }
        if self.meta.entries == 0 {
            self.meta.first = entry.key.to_vec();
        }
        self.meta.last.clear();
        self.meta.last.extend_from_slice(entry.key);
        self.meta.entries += 1;
        self.meta.deletions += u64::from(entry.value.is_none());
        self.block_newest = self.block_newest.max(entry.seq);
        self.block.add(entry, hash, self.meta.base);
    }

    /// Bytes so far, without filter and index.
    pub(crate) fn size(&self) -> usize {
        self.out.len() + self.block.size()
    }

    fn finish_block(&mut self, next: Vec<u8>) {
        let offset = self.out.len();
        put_part(&mut self.out, self.meta.number, &self.block.finish(), self.compression);
        self.blocks += 1;
        put_bytes(&mut self.index, &std::mem::replace(&mut self.separator, next));
        put_varint(&mut self.index, (self.out.len() - offset) as u64);
        put_varint(&mut self.index, self.block_newest - self.meta.base);
        self.meta.newest = self.meta.newest.max(self.block_newest);
        self.block_newest = 0;
    }

    /// Number of the table.
    pub(crate) fn number(&self) -> u64 {
        self.meta.number
    }

    /// Writes the table and forces it. At least one entry must have been added.
    pub(crate) fn write(self, folder: &Folder) -> Result<Meta> {
        let (bytes, meta) = self.finish();
        folder.write(&meta.file(), &bytes)?;
        Ok(meta)
    }

    /// The bytes of the table and its description. At least one entry must have been added.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Meta) {
        self.finish_block(Vec::new());
        let number = self.meta.number;
        let filter_at = self.out.len() as u64;
        put_part(
            &mut self.out,
            number,
            &bloom::build(&self.hashes, self.bloom_bits),
            Compression::None,
        );
        let index_at = self.out.len() as u64;
        let mut index = Vec::new();
        put_bytes(&mut index, &self.meta.first);
        put_bytes(&mut index, &self.meta.last);
        put_varint(&mut index, self.blocks);
        index.append(&mut self.index);
        put_part(&mut self.out, number, &index, Compression::None);
        let footer_at = self.out.len();
        let m = &self.meta;
        for n in [filter_at, index_at, footer_at as u64, m.entries, m.deletions, m.base, m.newest] {
            self.out.extend_from_slice(&n.to_le_bytes());
        }
        self.out.extend_from_slice(&VERSION.to_le_bytes());
        self.out.extend_from_slice(&[0; 4]);
        let crc = checksum(seed(number, footer_at as u64), &self.out[footer_at..]);
        self.out.extend_from_slice(&crc.to_le_bytes());
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(MAGIC);
        self.meta.size = self.out.len() as u64;
        (self.out, self.meta)
    }
}

fn put_part(out: &mut Vec<u8>, number: u64, plain: &[u8], compression: Compression) {
    let offset = out.len();
    let packed = match compression {
        Compression::None => None,
        Compression::Lz4 => Some((1, lz4_flex::compress_prepend_size(plain))),
        Compression::Zstd => zstd::bulk::compress(plain, 3).ok().map(|mut packed| {
            packed.splice(..0, (plain.len() as u32).to_le_bytes());
            (2, packed)
        }),
    };
    match packed {
        Some((kind, bytes)) if bytes.len() < plain.len() - plain.len() / 8 => {
            out.extend_from_slice(&bytes);
            out.push(kind);
        }
        _ => {
            out.extend_from_slice(plain);
            out.push(0);
        }
    }
    let crc = checksum(seed(number, offset as u64), &out[offset..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Undoes [`put_part`]; the text says what does not fit.
fn take_part(
    number: u64,
    offset: u64,
    mut bytes: Vec<u8>,
) -> std::result::Result<Vec<u8>, &'static str> {
    let short = "the part is too short";
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(short)?;
    if checksum(seed(number, offset), body) != u32::from_le_bytes(*crc) {
        return Err("the checksum is wrong");
    }
    let (kind, packed) = body.split_last().ok_or(short)?;
    let size = packed.first_chunk().map_or(0, |n| u32::from_le_bytes(*n) as usize);
    let unpacked = match kind {
        0 => {
            bytes.truncate(packed.len());
            return Ok(bytes);
        }
        // A block grows with its largest value; what claims to be larger is not ours.
        1 | 2 if size > crate::options::MAX_BATCH * 2 => {
            return Err("the unpacked size is impossible");
        }
        1 => lz4_flex::decompress_size_prepended(packed).ok(),
        2 => packed.get(4..).and_then(|bytes| zstd::bulk::decompress(bytes, size).ok()),
        _ => return Err("the compression kind is unknown"),
    };
    unpacked.ok_or("the block does not unpack")
}

/// What of a table is kept in memory once it is first read.
pub(crate) struct Loaded {
    file: Option<Arc<dyn ReadFile>>,
    filter: Vec<u8>,
    /// Prefix of each block's separator: a key is in the last block whose separator is not above.
    prefixes: Vec<u128>,
    blocks: Vec<Stored>,
    /// The block after those read last.
    next: AtomicUsize,
    /// Description as the file itself gives it.
    pub(crate) meta: Meta,
}

/// A block in the file, and in the cache if it is there.
struct Stored {
    separator: Vec<u8>,
    offset: u64,
    len: usize,
    newest: u64,
    block: RwLock<Option<Block>>,
    /// Since the cache considered it last.
    used: AtomicBool,
}

impl Loaded {
    /// Takes over what the index says; the blocks end at `data_end`.
    fn take_index(&mut self, index: &[u8], data_end: u64) -> Option<()> {
        let mut r = Reader(index);
        self.meta.first = r.bytes()?.to_vec();
        self.meta.last = r.bytes()?.to_vec();
        let (count, mut offset) = (r.len()?, 0u64);
        while !r.0.is_empty() {
            let (separator, len, newest) = (r.bytes()?, r.len()?, r.varint()?);
            self.prefixes.push(prefix(separator));
            self.blocks.push(Stored {
                separator: separator.to_vec(),
                offset,
                len,
                newest: self.meta.base.checked_add(newest)?,
                block: RwLock::default(),
                used: AtomicBool::default(),
            });
            offset = offset.checked_add(len as u64)?;
        }
        (offset == data_end && count == self.len() && count > 0).then_some(())
    }

    /// The block that holds `key`, if any does.
    pub(crate) fn find(&self, key: &[u8]) -> usize {
        let p = prefix(key);
        let low = self.prefixes.partition_point(|x| *x < p);
        if self.prefixes.get(low) != Some(&p) {
            return low.saturating_sub(1);
        }
        let ties = self.prefixes[low..].partition_point(|x| *x == p);
        let tied = &self.blocks[low..low + ties];
        let within = tied.partition_point(|b| b.separator.as_slice() <= key);
        (low + within).saturating_sub(1)
    }

    /// Number of data blocks.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Newest sequence in a block.
    pub(crate) fn newest(&self, i: usize) -> u64 {
        self.blocks.get(i).map_or(0, |b| b.newest)
    }
}

impl Slots for Loaded {
    fn spare(&self, i: usize) -> bool {
        let Some(slot) = self.blocks.get(i) else { return false };
        if slot.used.swap(false, Relaxed) {
            return true;
        }
        // Someone is reading it right now.
        let Ok(mut block) = slot.block.try_write() else { return true };
        *block = None;
        false
    }
}

/// An immutable table; its file goes away with the last user of a table that was compacted.
pub(crate) struct Table {
    pub(crate) meta: Meta,
    path: PathBuf,
    folder: Arc<Folder>,
    cache: Arc<Cache>,
    loaded: OnceLock<Arc<Loaded>>,
    obsolete: AtomicBool,
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.obsolete.load(Relaxed) {
            self.folder.remove(&self.meta.file());
        }
    }
}

impl Table {
    pub(crate) fn new(folder: &Arc<Folder>, cache: &Arc<Cache>, meta: Meta) -> Arc<Table> {
        Arc::new(Table {
            path: folder.path(&meta.file()),
            meta,
            folder: folder.clone(),
            cache: cache.clone(),
            loaded: OnceLock::new(),
            obsolete: AtomicBool::new(false),
        })
    }

    /// The file may be removed once nobody reads it any more.
    pub(crate) fn retire(&self) {
        self.obsolete.store(true, Relaxed);
    }

    /// The file stays: the manifest names it.
    pub(crate) fn keep(&self) {
        self.obsolete.store(false, Relaxed);
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn bad(&self, offset: u64, what: &str) -> Error {
        Error::corrupt(&self.path, offset, what)
    }

    fn file(&self) -> Result<Arc<dyn ReadFile>> {
        self.folder.disk.open(&self.path).at("open", &self.path)
    }

    fn part(&self, file: &dyn ReadFile, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        file.read_at(offset, &mut bytes).at("read", &self.path)?;
        take_part(self.meta.number, offset, bytes).map_err(|what| self.bad(offset, what))
    }

    /// Filter and index, read at first use.
    pub(crate) fn load(&self) -> Result<&Arc<Loaded>> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let file = self.file()?;
        let len = file.len().at("read", &self.path)?;
        if self.meta.size != 0 && len != self.meta.size {
            let what = format!("the file has {len} bytes, {} were written", self.meta.size);
            return Err(self.bad(len.min(self.meta.size), &what));
        }
        let footer_at = len
            .checked_sub(FOOTER as u64)
            .ok_or_else(|| self.bad(0, "the file is too short for a table"))?;
        let mut footer = [0; FOOTER];
        file.read_at(footer_at, &mut footer).at("read", &self.path)?;
        let (body, tail) = footer.split_at(FOOTER - 16);
        let crc = checksum(seed(self.meta.number, footer_at), body);
        if tail[..4] != crc.to_le_bytes() || tail[4..8] != [0; 4] || tail[8..] != *MAGIC {
            return Err(self.bad(footer_at, "the footer is wrong"));
        }
        let mut r = Reader(body);
        let mut next = || r.u64().ok_or_else(|| self.bad(footer_at, "the footer is cut short"));
        let (filter_at, index_at, end) = (next()?, next()?, next()?);
        let (entries, deletions, base, newest) = (next()?, next()?, next()?, next()?);
        let version = r.u32().unwrap_or(0);
        if version > VERSION {
            return Err(Error::NewerFormat {
                path: self.path.clone(),
                found: version,
                supported: VERSION,
            });
        }
        if !(filter_at <= index_at && index_at <= end && end == footer_at) {
            return Err(self.bad(footer_at, "the footer's offsets do not fit"));
        }
        let filter = self.part(&*file, filter_at, (index_at - filter_at) as usize)?;
        let index = self.part(&*file, index_at, (end - index_at) as usize)?;
        let mut loaded = Loaded {
            file: self.cache.keep_files.then_some(file),
            filter,
            prefixes: Vec::new(),
            blocks: Vec::new(),
            next: AtomicUsize::new(0),
            meta: Meta {
                number: self.meta.number,
                size: len,
                entries,
                deletions,
                base,
                newest,
                ..Meta::default()
            },
        };
        loaded
            .take_index(&index, filter_at)
            .ok_or_else(|| self.bad(index_at, "the index does not fit the format"))?;
        Ok(self.loaded.get_or_init(|| Arc::new(loaded)))
    }

    /// Reads blocks in a row at once and checks each.
    fn read_blocks(&self, loaded: &Loaded, range: Range<usize>) -> Result<Vec<Result<Block>>> {
        let run = loaded.blocks.get(range.clone()).unwrap_or_default();
        let Some(start) = run.first().map(|b| b.offset) else {
            return Err(self.bad(0, "there is no such block"));
        };
        let mut bytes = vec![0; run.iter().map(|b| b.len).sum()];
        self.cache.reads.fetch_add(run.len() as u64, Relaxed);
        let read = match &loaded.file {
            Some(file) => file.read_at(start, &mut bytes),
            None => self.file()?.read_at(start, &mut bytes),
        };
        read.at("read", &self.path)?;
        let check = |(i, b): (usize, &Stored)| {
            let at = (b.offset - start) as usize;
            let part = take_part(self.meta.number, b.offset, bytes[at..at + b.len].to_vec());
            let part = part.map_err(|what| self.bad(b.offset, what))?;
            Block::new(&part, loaded.meta.base).map_err(|_| self.malformed(i))
        };
        Ok(range.zip(run).map(check).collect())
    }

    /// The error for block `i`, whose checksum is right and whose entries are not.
    pub(crate) fn malformed(&self, i: usize) -> Error {
        let block = self.loaded.get().and_then(|loaded| loaded.blocks.get(i));
        self.bad(block.map_or(0, |b| b.offset), "the block does not fit the format")
    }

    /// What `f` makes of block `i` if it is cached.
    fn cached<T>(&self, loaded: &Loaded, i: usize, f: impl FnOnce(&Block) -> T) -> Option<T> {
        let slot = loaded.blocks.get(i)?;
        let block = slot.block.read().unwrap_or_else(PoisonError::into_inner);
        if block.is_some() && !slot.used.load(Relaxed) {
            slot.used.store(true, Relaxed);
        }
        block.as_ref().map(f)
    }

    /// The block `i`; `keep` puts it in the cache.
    pub(crate) fn block(&self, i: usize, keep: bool) -> Result<Block> {
        let loaded = self.load()?;
        if let Some(block) = self.cached(loaded, i, Block::clone) {
            return Ok(block);
        }
        let ahead = if keep && i > 0 && loaded.next.load(Relaxed) == i { AHEAD } else { 1 };
        let end = (i + ahead).min(loaded.len()).max(i + 1);
        loaded.next.store(end, Relaxed);
        // Later ones may be unreadable where this one is not.
        let read = self.read_blocks(loaded, i..end);
        let mut read = read.or_else(|_| self.read_blocks(loaded, i..i + 1))?.into_iter();
        let block = read.next().unwrap_or_else(|| Err(self.malformed(i)))?;
        if keep {
            self.keep_block(loaded, i, &block);
            // What is wrong with a later one is for those to hear who ask for it.
            for (i, later) in (i + 1..).zip(read) {
                later.iter().for_each(|block| self.keep_block(loaded, i, block));
            }
        }
        Ok(block)
    }

    fn keep_block(&self, loaded: &Arc<Loaded>, i: usize, block: &Block) {
        if self.cache.admits(block.size()) {
            let mut slot = loaded.blocks[i].block.write().unwrap_or_else(PoisonError::into_inner);
            if slot.replace(block.clone()).is_none() {
                drop(slot);
                let table: Weak<Loaded> = Arc::downgrade(loaded);
                self.cache.added(table, i, block.size());
            }
        }
    }

    /// The version of a key that counts at `seq`; `hash` is the key's.
    pub(crate) fn get(&self, key: &[u8], hash: u64, seq: u64) -> Result<Option<Option<Vec<u8>>>> {
        let loaded = self.load()?;
        if !bloom::may_contain(&loaded.filter, hash) {
            return Ok(None);
        }
        let i = loaded.find(key);
        let get = |block: &Block| {
            let found = block.get(key, hash, seq).map_err(|_| self.malformed(i))?;
            Ok(found.map(|value| value.map(<[u8]>::to_vec)))
        };
        // A clone would cost more than the lookup.
        self.cached(loaded, i, get).unwrap_or_else(|| get(&self.block(i, true)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Real;
    use proptest::prelude::*;

    fn open(dir: &Path, capacity: usize, meta: &Meta) -> Arc<Table> {
        let folder = Arc::new(Folder::new(Arc::new(Real), dir));
        Table::new(&folder, &Arc::new(Cache::new(capacity, true)), meta.clone())
    }

    fn sample(dir: &Path, compression: Compression, n: u64) -> (Arc<Table>, Vec<u8>) {
        let options = Options { block_size: 256, compression, ..Options::default() };
        let mut b = Builder::new(7, 10, &options);
        for i in 0..n {
            let value = vec![b'v'; (i % 50) as usize];
            let key = format!("user/{i:05}");
            b.add(Entry {
                key: key.as_bytes(),
                seq: 10 + i,
                value: (i % 7 != 3).then_some(&value),
            });
        }
        let (bytes, meta) = b.finish();
        std::fs::write(dir.join(meta.file()), &bytes).unwrap();
        (open(dir, 1 << 20, &meta), bytes)
    }

    fn get(table: &Table, key: &str) -> Result<Option<Option<Vec<u8>>>> {
        table.get(key.as_bytes(), hash(key.as_bytes()), u64::MAX)
    }

    #[test]
    fn every_key_is_found_under_every_compression() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let dir = tempfile::tempdir().unwrap();
            let (table, bytes) = sample(dir.path(), compression, 500);
            for i in 0..500 {
                let want = (i % 7 != 3).then(|| vec![b'v'; i % 50]);
                assert_eq!(get(&table, &format!("user/{i:05}")).unwrap(), Some(want));
                assert_eq!(get(&table, &format!("user/{i:05}x")).unwrap(), None);
            }
            assert_eq!(table.load().unwrap().meta, table.meta);
            assert_eq!(table.meta.size, bytes.len() as u64);
        }
    }

    #[test]
    fn every_flipped_bit_is_reported_and_every_cut() {
        let dir = tempfile::tempdir().unwrap();
        let (table, bytes) = sample(dir.path(), Compression::None, 12);
        let walk = || -> Result<usize> {
            let table = open(dir.path(), 0, &table.meta);
            let mut n = 0;
            for i in 0..table.load()?.len() {
                let block = table.block(i, false)?;
                n += block.len();
            }
            Ok(n)
        };
        assert_eq!(walk().unwrap(), 12);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(table.path(), &bad).unwrap();
            match walk() {
                Err(Error::Corruption { offset, .. }) => assert!(offset <= bit as u64 / 8),
                Err(Error::NewerFormat { .. }) => {}
                other => panic!("bit {bit}: {other:?}"),
            }
        }
        for cut in 0..bytes.len() {
            std::fs::write(table.path(), &bytes[..cut]).unwrap();
            assert!(matches!(walk(), Err(Error::Corruption { .. })), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_parts_under_valid_checksums_never_panic(
            block: Vec<u8>, filter: Vec<u8>, mut index: Vec<u8>, key: Vec<u8>, base: u64, kind in 0u8..4, fitting: bool
        ) {
            let dir = tempfile::tempdir().unwrap();
            let mut out = Vec::new();
            put_part(&mut out, 7, &block, Compression::None);
            // The kind decides how the bytes are taken.
            let crc_at = out.len() - 4;
            out[crc_at - 1] = kind;
            let crc = checksum(seed(7, 0), &out[..crc_at]).to_le_bytes();
            out[crc_at..].copy_from_slice(&crc);
            let len = out.len();
            if fitting {
                index.clear();
                put_bytes(&mut index, b"");
                put_bytes(&mut index, b"z");
                put_varint(&mut index, 1);
                put_bytes(&mut index, b"");
                put_varint(&mut index, len as u64);
                put_varint(&mut index, 0);
            }
            let mut offsets = Vec::new();
            for part in [&filter, &index] {
                offsets.push(out.len() as u64);
                put_part(&mut out, 7, part, Compression::None);
            }
            let footer_at = out.len();
            for n in [offsets[0], offsets[1], footer_at as u64, 1, 0, base, base] {
                out.extend_from_slice(&n.to_le_bytes());
            }
            out.extend_from_slice(&VERSION.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            let crc = checksum(seed(7, footer_at as u64), &out[footer_at..]);
            out.extend_from_slice(&crc.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(MAGIC);
            let meta = Meta { number: 7, size: out.len() as u64, ..Meta::default() };
            std::fs::write(dir.path().join(meta.file()), &out).unwrap();
            for cache in [0, 1 << 20] {
                let table = open(dir.path(), cache, &meta);
                let _ = table.get(&key, hash(&key), u64::MAX);
                if let Ok(loaded) = table.load() {
                    prop_assert!(loaded.len() > 0);
                    let _ = table.block(0, false).map(|b| b.read(0, &mut Vec::new()).is_ok());
                }
            }
        }
    }
}
