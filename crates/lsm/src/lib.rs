//! A log-structured key-value store.
#![allow(dead_code)]
mod batch;
mod block;
mod bloom;
mod cache;
mod changes;
mod codec;
mod compact;
mod db;
pub mod disk;
mod error;
mod file;
mod group;
mod log;
mod manifest;
mod memtable;
mod merge;
mod options;
mod recover;
mod scan;
mod stats;
mod table;
mod version;

pub use batch::Batch;
pub use changes::{Change, Changes};
pub use db::{Db, Snapshot};
pub use error::{Error, Result};
pub use options::{Compression, MAX_BATCH, MAX_KEY, MAX_VALUE, Options, Sync};
pub use recover::Dropped;
pub use scan::Scan;
pub use stats::{Level, Pace, Stats};
