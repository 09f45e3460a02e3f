//! Key-value stores: what the workload `kv` asks of one, ours, and the place where others come in.
//!
//! A store takes groups of operations, so that one with transactions opens one a group. A group of
//! one is the plain call of a store that has none.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::OnceLock;
use synqlite_lsm::{Batch, Db, Options, Sync as Force};

/// Which store, set how. `Alike`: memtable, cache and filter of the size that ours has by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Name {
    Ours,
    /// Ours with the settings of the ProjectDB note.
    Note,
    LevelDb,
    LevelDbAlike,
    RocksDb,
    RocksDbAlike,
    Fjall,
    FjallAlike,
    Redb,
    Lmdb,
    Sled,
}

/// All of them.
pub const NAMES: [Name; 11] = [
    Name::Ours,
    Name::Note,
    Name::LevelDb,
    Name::LevelDbAlike,
    Name::RocksDb,
    Name::RocksDbAlike,
    Name::Fjall,
    Name::FjallAlike,
    Name::Redb,
    Name::Lmdb,
    Name::Sled,
];

impl Name {
    /// As the command line and the results have it.
    pub fn text(self) -> &'static str {
        match self {
            Name::Ours => "store",
            Name::Note => "store:note",
            Name::LevelDb => "leveldb",
            Name::LevelDbAlike => "leveldb:alike",
            Name::RocksDb => "rocksdb",
            Name::RocksDbAlike => "rocksdb:alike",
            Name::Fjall => "fjall",
            Name::FjallAlike => "fjall:alike",
            Name::Redb => "redb",
            Name::Lmdb => "lmdb",
            Name::Sled => "sled",
        }
    }

    /// The store of this name.
    pub fn read(text: &str) -> Option<Name> {
        NAMES.into_iter().find(|name| name.text() == text)
    }
}

/// Which version of a store, set how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name and version.
    pub version: String,
    /// What it was told.
    pub settings: String,
}

/// A change: a key and its value, or none to delete it.
pub type Op<'a> = (&'a str, Option<&'a str>);

/// An open store.
pub trait Store: Send + Sync {
    /// Writes a group, all or nothing where the store can.
    fn write(&self, ops: &[Op<'_>]) -> Result<()>;
    /// How many of a group of keys are there; each value was fetched.
    fn read(&self, keys: &[&str]) -> Result<u64>;
    /// Walks over all entries in order; gives their number.
    fn scan(&self) -> Result<u64>;
    /// Ends its work in an orderly way.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What the workload wants of a store.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Which, set how.
    pub name: Name,
    /// Every write is forced to the device before it returns.
    pub sync: bool,
}

/// A store that another program brings.
pub struct Peer {
    /// Under these names.
    pub names: &'static [Name],
    /// Its label.
    pub label: fn(Wish) -> Label,
    /// Opens or makes one.
    pub open: fn(&Path, Wish) -> Result<Box<dyn Store>>,
}

static PEERS: OnceLock<&'static [Peer]> = OnceLock::new();

/// Makes peers known; the first call counts.
pub(crate) fn install(peers: &'static [Peer]) {
    let _ = PEERS.set(peers);
}

const OURS: Peer = Peer { names: &[Name::Ours, Name::Note], label: label_of_ours, open: open_ours };

fn find(name: Name) -> Result<&'static Peer> {
    let peers = PEERS.get().copied().unwrap_or_default();
    std::iter::once(&OURS).chain(peers).find(|peer| peer.names.contains(&name)).ok_or_else(|| {
        let name = name.text();
        Error::Bad(format!(
            "{name} is not built into this program; `lab/peers` has it, see docs/benchmarks/kv.md"
        ))
    })
}

/// Opens or makes a store in a folder.
pub(crate) fn open(dir: &Path, wish: Wish) -> Result<Box<dyn Store>> {
    (find(wish.name)?.open)(dir, wish)
}

/// Version and settings of a store.
pub(crate) fn label(wish: Wish) -> Result<Label> {
    Ok((find(wish.name)?.label)(wish))
}

struct Ours(Db);

fn options(wish: Wish) -> Options {
    let options = match wish.name {
        Name::Note => Options {
            memtable_size: 2 << 20,
            block_size: 2 << 10,
            tables_per_compaction: 5,
            table_size: 4 << 20,
            keep_files_open: false,
            ..Options::default()
        },
        _ => Options::default(),
    };
    Options { sync: if wish.sync { Force::Always } else { Force::Never }, ..options }
}

fn label_of_ours(wish: Wish) -> Label {
    let version = format!("this project's store {}", env!("CARGO_PKG_VERSION"));
    Label { version, settings: format!("{:?}", options(wish)) }
}

fn open_ours(dir: &Path, wish: Wish) -> Result<Box<dyn Store>> {
    Ok(Box::new(Ours(Db::open(dir, options(wish))?)))
}

impl Store for Ours {
    fn write(&self, ops: &[Op<'_>]) -> Result<()> {
        match ops {
            [(key, Some(value))] => Ok(self.0.put(key, value)?),
            [(key, None)] => Ok(self.0.delete(key)?),
            ops => {
                let mut batch = Batch::new();
                for (key, value) in ops {
                    match value {
                        Some(value) => batch.put(key, value)?,
                        None => batch.delete(key)?,
                    };
                }
                self.0.write(&batch)?;
                Ok(())
            }
        }
    }

    fn read(&self, keys: &[&str]) -> Result<u64> {
        let mut found = 0;
        for key in keys {
            found += u64::from(self.0.get(key)?.is_some());
        }
        Ok(found)
    }

    fn scan(&self) -> Result<u64> {
        let mut scan = self.0.scan(..)?;
        let mut found = 0;
        while scan.advance()? {
            found += 1;
        }
        Ok(found)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.close()?)
    }
}
