//! The knobs of a store. Every one changes something; `tests/options.rs` shows what.

use std::time::Duration;

use crate::block::MAX_FULL;
use crate::error::{Error, Result};

/// Longest key, bytes.
pub const MAX_KEY: usize = 65_535;
/// Longest value, bytes.
pub const MAX_VALUE: usize = 64 << 20;
/// Largest encoded batch, bytes.
pub const MAX_BATCH: usize = 128 << 20;

/// When a write is forced to the device. In every mode a write that returned survives a killed
/// process; only a synced one survives a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Never forced: after a power failure a prefix of the writes is there.
    Never,
    /// Forced in the background about this often; a power failure costs at most that much time.
    Every(Duration),
    /// Forced before the write returns; concurrent writers share one force (group commit).
    Always,
}

/// How data blocks are stored. A block that compression shrinks by less than an eighth stays plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    None,
    /// LZ4 block format: fast.
    Lz4,
    /// Zstandard level 3: smaller.
    Zstd,
}

/// How a store is opened. Start from [`Options::default`] and change what differs.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of keys and values collected in memory before they become a table.
    pub memtable_size: usize,
    /// Bytes of a data block: what one point read fetches and what one index entry covers.
    pub block_size: usize,
    /// Level-0 tables that make a compaction due.
    pub tables_per_compaction: usize,
    /// Bytes of a table on the sorted levels.
    pub table_size: usize,
    /// Keep table files open between reads; otherwise each read opens the file.
    pub keep_files_open: bool,
    /// Bytes of data blocks kept decoded in memory.
    pub cache_size: usize,
    /// Compression of data blocks.
    pub compression: Compression,
    /// Bits of Bloom filter a key; 0 switches filters off.
    pub bloom_bits: usize,
    /// Durability of writes that do not choose their own.
    pub sync: Sync,
    /// Bytes level 1 may hold; each deeper level holds ten times the one above.
    pub level_size: u64,
    /// Flush and compact in threads of their own. Off: in the calling thread, step by step.
    pub background: bool,
    /// Tidy up (flush, reclaim space) after this long without writes. `None`: never.
    pub idle: Option<Duration>,
    /// Make the store if the folder is absent or empty.
    pub create: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memtable_size: 8 << 20,
            block_size: 4 << 10,
            tables_per_compaction: 5,
            table_size: 4 << 20,
            keep_files_open: true,
            cache_size: 160 << 20,
            compression: Compression::None,
            bloom_bits: 10,
            sync: Sync::Never,
            level_size: 256 << 20,
            background: true,
            idle: Some(Duration::from_millis(500)),
            create: true,
        }
    }
}

impl Options {
    /// Refuses values that no store can work with.
    pub(crate) fn check(&self) -> Result<()> {
        let rule =
            |ok: bool, name, why| if ok { Ok(()) } else { Err(Error::BadOption { name, why }) };
        rule((1 << 10..=1 << 30).contains(&self.memtable_size), "memtable_size", "1 KiB to 1 GiB")?;
        rule((64..=MAX_FULL).contains(&self.block_size), "block_size", "64 bytes to 64 KiB")?;
        rule((1..=64).contains(&self.tables_per_compaction), "tables_per_compaction", "1 to 64")?;
        rule((1 << 10..=1 << 30).contains(&self.table_size), "table_size", "1 KiB to 1 GiB")?;
        rule(self.bloom_bits <= 64, "bloom_bits", "0 to 64")?;
        rule(self.level_size >= 1 << 10, "level_size", "1 KiB or more")
    }
}
