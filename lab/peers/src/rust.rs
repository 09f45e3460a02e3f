//! The peers that are Rust crates (LMDB through one).

use std::path::Path;
use synqlite_lab::store::{Label, Name, Op, Store, Wish};
use synqlite_lab::{Error, Result};

/// fjall.
pub mod fjall {
    use super::*;
    use ::fjall::config::CompressionPolicy;
    use ::fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

    struct Open {
        db: Database,
        entries: Keyspace,
        sync: bool,
    }

    pub fn label(wish: Wish) -> Label {
        let set = match wish.name {
            Name::FjallAlike => "memtable 8 MiB, cache 160 MiB",
            _ => "defaults",
        };
        let sync = if wish.sync { "SyncData" } else { "Buffer: a write is one call of the system" };
        Label {
            version: concat!("fjall ", env!("FJALL_VERSION")).into(),
            settings: format!("{set}, no compression, persist {sync}"),
        }
    }

    pub fn open(dir: &Path, wish: Wish) -> Result<Box<dyn Store>> {
        let bad = Error::peer("fjall");
        let alike = wish.name == Name::FjallAlike;
        let mut builder = Database::builder(dir);
        if alike {
            builder = builder.cache_size(160 << 20);
        }
        let db = builder.open().map_err(&bad)?;
        let options = || {
            let options = KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::disabled());
            if alike { options.max_memtable_size(8 << 20) } else { options }
        };
        let entries = db.keyspace("entries", options).map_err(&bad)?;
        Ok(Box::new(Open { db, entries, sync: wish.sync }))
    }

    impl Store for Open {
        fn write(&self, ops: &[Op<'_>]) -> Result<()> {
            let write = || {
                match ops {
                    [(key, Some(value))] => self.entries.insert(*key, *value)?,
                    [(key, None)] => self.entries.remove(*key)?,
                    ops => {
                        let mut batch = self.db.batch();
                        for (key, value) in ops {
                            match value {
                                Some(value) => batch.insert(&self.entries, *key, *value),
                                None => batch.remove(&self.entries, *key),
                            }
                        }
                        batch.commit()?;
                    }
                }
                if self.sync { self.db.persist(PersistMode::SyncData) } else { Ok(()) }
            };
            write().map_err(Error::peer("fjall"))
        }

        fn read(&self, keys: &[&str]) -> Result<u64> {
            let mut found = 0;
            for key in keys {
                let value = self.entries.get(key).map_err(Error::peer("fjall"))?;
                found += u64::from(value.is_some());
            }
            Ok(found)
        }

        fn scan(&self) -> Result<u64> {
            let mut found = 0;
            for entry in self.entries.iter() {
                entry.into_inner().map_err(Error::peer("fjall"))?;
                found += 1;
            }
            Ok(found)
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }
}

/// redb: one transaction a group. Without a force nothing of it survives the process.
pub mod redb {
    use super::*;
    use ::redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

    const ENTRIES: TableDefinition<'_, &str, &str> = TableDefinition::new("entries");

    struct Open {
        db: Database,
        durability: Durability,
    }

    pub fn label(wish: Wish) -> Label {
        let durability = if wish.sync { "Immediate" } else { "None: lost with the process" };
        Label {
            version: concat!("redb ", env!("REDB_VERSION")).into(),
            settings: format!("defaults, durability {durability}"),
        }
    }

    pub fn open(dir: &Path, wish: Wish) -> Result<Box<dyn Store>> {
        let bad = Error::peer("redb");
        std::fs::create_dir_all(dir).map_err(&bad)?;
        let db = Database::create(dir.join("entries.redb")).map_err(Error::peer("redb"))?;
        let durability = if wish.sync { Durability::Immediate } else { Durability::None };
        let open = Open { db, durability };
        open.write(&[])?;
        Ok(Box::new(open))
    }

    impl Store for Open {
        fn write(&self, ops: &[Op<'_>]) -> Result<()> {
            let write = || -> std::result::Result<(), ::redb::Error> {
                let mut transaction = self.db.begin_write()?;
                transaction.set_durability(self.durability)?;
                {
                    let mut entries = transaction.open_table(ENTRIES)?;
                    for (key, value) in ops {
                        match value {
                            Some(value) => entries.insert(*key, *value)?,
                            None => entries.remove(*key)?,
                        };
                    }
                }
                Ok(transaction.commit()?)
            };
            write().map_err(Error::peer("redb"))
        }

        fn read(&self, keys: &[&str]) -> Result<u64> {
            let read = || -> std::result::Result<u64, ::redb::Error> {
                let transaction = self.db.begin_read()?;
                let entries = transaction.open_table(ENTRIES)?;
                let mut found = 0;
                for key in keys {
                    let value = entries.get(*key)?.map(|value| value.value().to_owned());
                    found += u64::from(value.is_some());
                }
                Ok(found)
            };
            read().map_err(Error::peer("redb"))
        }

        fn scan(&self) -> Result<u64> {
            let scan = || -> std::result::Result<u64, ::redb::Error> {
                let entries = self.db.begin_read()?.open_table(ENTRIES)?;
                let mut found = 0;
                for entry in entries.iter()? {
                    entry?;
                    found += 1;
                }
                Ok(found)
            };
            scan().map_err(Error::peer("redb"))
        }

        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }
}

/// LMDB: one transaction a group.
pub mod lmdb {
    use super::*;
    use heed::types::Str;
    use heed::{Database, Env, EnvFlags, EnvOpenOptions};

    struct Open {
        env: Env,
        entries: Database<Str, Str>,
    }

    pub fn label(wish: Wish) -> Label {
        let flags = if wish.sync { "defaults" } else { "NO_SYNC" };
        Label {
            version: concat!("LMDB through heed ", env!("HEED_VERSION")).into(),
            settings: format!("{flags}, map of 8 GiB"),
        }
    }

    pub fn open(dir: &Path, wish: Wish) -> Result<Box<dyn Store>> {
        let open = || -> std::result::Result<Open, heed::Error> {
            std::fs::create_dir_all(dir)?;
            let mut options = EnvOpenOptions::new();
            options.map_size(8 << 30);
            if !wish.sync {
                // SAFETY: without a force a power failure may spoil the file; it is not used again.
                unsafe { options.flags(EnvFlags::NO_SYNC) };
            }
            // SAFETY: nobody else changes the file while it is mapped.
            let env = unsafe { options.open(dir)? };
            let mut transaction = env.write_txn()?;
            let entries = env.create_database(&mut transaction, None)?;
            transaction.commit()?;
            Ok(Open { env, entries })
        };
        Ok(Box::new(open().map_err(Error::peer("lmdb"))?))
    }

    impl Store for Open {
        fn write(&self, ops: &[Op<'_>]) -> Result<()> {
            let write = || {
                let mut transaction = self.env.write_txn()?;
                for (key, value) in ops {
                    match value {
                        Some(value) => self.entries.put(&mut transaction, key, value)?,
                        None => {
                            self.entries.delete(&mut transaction, key)?;
                        }
                    }
                }
                transaction.commit()
            };
            write().map_err(Error::peer("lmdb"))
        }

        fn read(&self, keys: &[&str]) -> Result<u64> {
            let read = || -> std::result::Result<u64, heed::Error> {
                let transaction = self.env.read_txn()?;
                let mut found = 0;
                for key in keys {
                    let value = self.entries.get(&transaction, key)?.map(str::to_owned);
                    found += u64::from(value.is_some());
                }
                Ok(found)
            };
            read().map_err(Error::peer("lmdb"))
        }

        fn scan(&self) -> Result<u64> {
            let scan = || -> std::result::Result<u64, heed::Error> {
                let transaction = self.env.read_txn()?;
                let mut found = 0;
                for entry in self.entries.iter(&transaction)? {
                    entry?;
                    found += 1;
                }
                Ok(found)
            };
            scan().map_err(Error::peer("lmdb"))
        }

        fn close(self: Box<Self>) -> Result<()> {
            self.env.prepare_for_closing().wait();
            Ok(())
        }
    }
}

/// sled: what was written in the last half second is lost with the process.
pub mod sled {
    use super::*;

    struct Open {
        db: ::sled::Db,
        sync: bool,
    }

    pub fn label(wish: Wish) -> Label {
        let sync = if wish.sync {
            "flush after each group, which is sync_file_range: not safe against a power failure"
        } else {
            "flush every 500 ms: not all survives the process"
        };
        Label {
            version: concat!("sled ", env!("SLED_VERSION")).into(),
            settings: format!("defaults, {sync}"),
        }
    }

    pub fn open(dir: &Path, wish: Wish) -> Result<Box<dyn Store>> {
        // A store that was just closed gives back its lock some time later.
        let mut patience = 200;
        loop {
            match ::sled::open(dir) {
                Ok(db) => return Ok(Box::new(Open { db, sync: wish.sync })),
                Err(e) if patience == 0 => return Err(Error::peer("sled")(e)),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
            patience -= 1;
        }
    }

    impl Store for Open {
        fn write(&self, ops: &[Op<'_>]) -> Result<()> {
            let write = || -> ::sled::Result<()> {
                match ops {
                    [(key, Some(value))] => {
                        self.db.insert(key, *value)?;
                    }
                    [(key, None)] => {
                        self.db.remove(key)?;
                    }
                    ops => {
                        let mut batch = ::sled::Batch::default();
                        for (key, value) in ops {
                            match value {
                                Some(value) => batch.insert(*key, *value),
                                None => batch.remove(*key),
                            }
                        }
                        self.db.apply_batch(batch)?;
                    }
                }
                if self.sync {
                    self.db.flush()?;
                }
                Ok(())
            };
            write().map_err(Error::peer("sled"))
        }

        fn read(&self, keys: &[&str]) -> Result<u64> {
            let mut found = 0;
            for key in keys {
                found += u64::from(self.db.get(key).map_err(Error::peer("sled"))?.is_some());
            }
            Ok(found)
        }

        fn scan(&self) -> Result<u64> {
            let mut found = 0;
            for entry in self.db.iter() {
                entry.map_err(Error::peer("sled"))?;
                found += 1;
            }
            Ok(found)
        }

        fn close(self: Box<Self>) -> Result<()> {
            self.db.flush().map_err(Error::peer("sled"))?;
            Ok(())
        }
    }
}
