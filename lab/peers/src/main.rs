//! The lab with other key-value stores beside ours: LevelDB and RocksDB (the system's libraries),
//! fjall, redb, LMDB, sled; and with other replications for SQLite, cr-sqlite and sqlite-sync.
//!
//! Settings that matter are equal or stated: no compression, every write reaches the operating
//! system before it returns (redb and sled cannot, see there), forced to the device only if asked.

mod cpp;
mod extensions;
mod rust;

use synqlite_lab::store::{Name, Peer};

/// In a sentence of every label.
const ALIKE: &str = "memtable 8 MiB, cache 160 MiB, filter of 10 bits a key";

static PEERS: [Peer; 6] = [
    Peer {
        names: &[Name::LevelDb, Name::LevelDbAlike],
        label: cpp::leveldb::label,
        open: cpp::leveldb::open,
    },
    Peer {
        names: &[Name::RocksDb, Name::RocksDbAlike],
        label: cpp::rocksdb::label,
        open: cpp::rocksdb::open,
    },
    Peer {
        names: &[Name::Fjall, Name::FjallAlike],
        label: rust::fjall::label,
        open: rust::fjall::open,
    },
    Peer { names: &[Name::Redb], label: rust::redb::label, open: rust::redb::open },
    Peer { names: &[Name::Lmdb], label: rust::lmdb::label, open: rust::lmdb::open },
    Peer { names: &[Name::Sled], label: rust::sled::label, open: rust::sled::open },
];

fn main() -> std::process::ExitCode {
    synqlite_lab::main(&PEERS, &extensions::ALL)
}
