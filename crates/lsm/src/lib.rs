//! A log-structured key-value store for one process: keys and values are bytes, writes are
//! appended, and no acknowledged write is lost.
//!
//! ```
//! use synqlite_lsm::{Batch, Db, Options};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path();
//! let db = Db::open(path, Options::default())?;
//! db.put("user/7", "Ada")?;
//! let mut batch = Batch::new();
//! batch.put("user/8", "Grace")?.delete("user/7")?;
//! db.write(&batch)?;                                  // both or neither
//!
//! let before = db.snapshot()?;                        // stays as it is now
//! db.put("user/9", "Barbara")?;
//! assert_eq!(before.get("user/9")?, None);
//!
//! let mut scan = db.scan_prefix("user/")?;
//! while scan.advance()? {
//!     println!("{:?} = {:?}", scan.key(), scan.value());
//! }
//! for change in db.changes_since(before.sequence())? {
//!     assert_eq!(change?.key, b"user/9");
//! }
//! db.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! # What survives what
//!
//! | | killed process | power failure |
//! | --- | --- | --- |
//! | a write that returned | there | a prefix of the writes, in their order |
//! | a write with [`Sync::Always`] or `write_with(.., true)`, or before [`Db::sync`] | there | there, with all writes before it |
//! | a write that did not return | there or not | there or not |
//!
//! A batch is there as a whole or not at all. A reader may see a write shortly before it is forced
//! to the device. Damaged bytes are an error with file and offset; they never become a wrong value
//! or a missing key. [`Db::dropped`] tells if a power failure took unsynced writes.
//!
//! # How it is built
//!
//! A **write** ([`Db::write`], `engine`) takes the commit lock, is appended to the log as one checksummed
//! record and then put into the memtable; with that it is visible. The log (`log`) is a
//! preallocated file seen through a memory map, so appending is one copy, and the kernel keeps it
//! when the process dies. A synced write then waits for the device; whoever finds nobody forcing
//! forces for all who wait (`group`). It first waits a moment for the writers that were released
//! last, so that two of them share every force, and one forces as long as that takes no longer.
//!
//! The **memtable** (`memtable`) is a two-level B-tree over an arena: sorted arrays of slots that
//! carry the first 16 bytes of their keys. All versions are kept, newest first; a hash table beside
//! it says where each key's newest version is, so that point reads search nothing. A full memtable is
//! sealed, a new log begins, and the flush thread writes the sealed one as a **table** (`table`,
//! `block`, `bloom`): blocks of entries, an index of them that is searched by halving, a Bloom
//! filter, a footer, a checksum for each part. A block begins with a directory that has a byte of
//! each key's hash, so that a lookup touches little more than the one entry. A table has each key
//! once, and never changes.
//!
//! Tables live on levels. A flushed memtable lands on level 0, whose tables overlap; if it overlaps
//! nothing on levels 0 and 1, as keys that arrive in order do, it lands on level 1 at once. **Compaction**
//! (`pick`, `compact`) merges level 0 into level 1, range of keys by range: the one with the most
//! changes, as soon as level 0 has made 27 % of level 1 obsolete. So a store takes less than 1.4 of
//! its live data while its keys are overwritten, and a byte is rewritten less than twice. Unless
//! the store is small, deletions of a quarter of it are flushed at once, those of half of a range
//! merged. Deeper levels take over what outgrows the one above, by moving tables where nothing overlaps. Deletions stay
//! until no deeper table can hold their key. When flushes or compactions lag, writers pause 1 to 6 ms
//! every 32 KiB, then wait; [`Stats`] counts both.
//!
//! The **manifest** (`manifest`) logs which tables there are. An edit is forced before anybody
//! relies on it and before anything it replaces is removed.
//!
//! A **reader** clones one `Arc` (`version::State`: memtables and tables) and needs no lock after
//! that; a snapshot is that value with a sequence. So compaction may drop every version but the
//! newest: whoever reads older ones holds the tables they are in. The price is disk space as long
//! as a snapshot lives. Blocks are read one by one, or four at a time for those who go through them in order, verified, and cached as they are in slots of
//! their tables, with a clock to evict them (`cache`). Scans merge sources (`merge`), in either
//! direction (`scan`).
//!
//! **Opening** (`recover`) reads everything before it changes anything: manifest, tables' sizes,
//! logs. What does not fit is an error, except an unsynced tail that was lost with the power. How
//! the two are told apart is the subject of `log`. [`verify`] reads every byte of a closed store;
//! where that finds damage, [`repair`] merges all that is readable into new tables.
//!
//! Files go through a trait ([`disk`], by their names through `folder`); the crash tests put a file system there that forgets. The
//! bytes are described in `docs/formats/lsm.md`.
//!
//! # How it is checked
//!
//! `tests/crash.rs` stops a workload at every file operation, in six ways, and checks what is left;
//! it leaves out each kind of force in turn and must then find a loss. `CRASH_STATES=50000 cargo test
//! --release -p synqlite-lsm --test crash` tries that many. `tests/damage.rs` flips bits of and cuts
//! every file. `tests/kill.rs` kills processes; `tests/reopen.rs` forces a log that is flushed.
//! `tests/store.rs` compares with a `BTreeMap`, `tests/options.rs` shows what each option changes;
//! `fuzz` feeds made-up logs, tables and manifests to the whole. The examples `seven` and `goals`
//! measure; `lab/peers` measures beside other stores.
//!
//! # Limits
//!
//! Keys up to [`MAX_KEY`] bytes, values up to [`MAX_VALUE`], batches up to [`MAX_BATCH`]. One
//! process at a time, by a lock file. [`Db::changes_since`] gives each key's newest change, not its
//! history, and says so when deletions were compacted away. A failed write or force of the log
//! stops writing until the store is opened again; reads go on. Merges that the disk has no room for
//! wait, unless they are of deletions or writers wait for them. Unix only. On a file system that
//! copies on write a full disk can reach the mapped log as a signal that ends the process; what was
//! acknowledged stays.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(not(unix))]
compile_error!(
    "synqlite-lsm needs Unix: it reads and writes files at offsets, and makes folders durable"
);

mod batch;
mod block;
mod bloom;
mod cache;
mod changes;
mod codec;
mod compact;
mod db;
pub mod disk;
mod engine;
mod error;
mod file;
mod folder;
mod group;
mod locked;
mod log;
mod manifest;
mod memtable;
mod merge;
mod options;
mod pick;
mod recover;
mod scan;
mod stats;
mod table;
mod verify;
mod version;

pub use batch::Batch;
pub use changes::{Change, Changes};
pub use db::{Db, Snapshot};
pub use error::{Error, Result};
pub use file::Real;
pub use options::{Compression, MAX_BATCH, MAX_KEY, MAX_VALUE, Options, Sync};
pub use recover::Dropped;
pub use scan::Scan;
pub use stats::{Level, Pace, Stats};
pub use verify::{Report, repair, repair_on, verify, verify_on};

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
