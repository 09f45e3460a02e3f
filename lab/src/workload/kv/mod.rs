//! The seven tasks of ProjectDB's measurements, after LevelDB's: fill, overwrite, delete and read, in
//! the order of the keys and in random order.
//!
//! Fills begin with a new table; the other tasks find one that was filled in order. Reads find what
//! the fill left in memory; a missing key ends the run. Keys and values are made before anything is
//! measured, and lie in memory in the order of their use. Operations come in groups: of one by
//! default, then each is a call of a store or a statement of SQLite that commits by itself; a larger
//! group is a batch or a transaction.

mod further;

use super::Workload;
use super::random::Random;
use crate::database::Database;
use crate::meter::{Done, Meter};
use crate::store::{self, Name, Op, Store, Wish};
use crate::{Error, Result};
use rusqlite::OptionalExtension;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A run of it.
#[derive(Clone, Debug)]
pub struct Kv {
    /// Where keys and values come from.
    pub source: Source,
    /// Operations a group.
    pub transaction: u64,
    /// Stores force each group to the device.
    pub sync: bool,
    /// What the seven tasks do not show, instead of them.
    pub further: bool,
}

/// Where keys and values come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Numbered keys of 16 digits, random values.
    Random {
        /// Entries.
        entries: u64,
        /// Bytes of a value.
        value: u32,
    },
    /// Two columns of a CSV file with a header.
    Csv {
        /// The file.
        path: PathBuf,
        /// Column of the keys, from 0.
        key: usize,
        /// Column of the values, from 0.
        value: usize,
    },
}

type Entry = (String, String);

/// What keeps keys and values, in three places: tables of a database, or stores.
trait Places {
    /// Settles what was written, and goes on in this place.
    fn enter(&mut self, place: &str) -> Result<()>;
    /// Writes a group and commits it.
    fn write(&mut self, ops: &[Op<'_>]) -> Result<()>;
    /// How many of these keys are there.
    fn read(&mut self, keys: &[&str]) -> Result<u64>;
}

impl Kv {
    fn entries(&self, random: &mut Random) -> Result<Vec<Entry>> {
        match &self.source {
            Source::Random { entries, value } => {
                let length = i64::from(*value);
                Ok((0..*entries)
                    .map(|i| (format!("{i:016}"), random.text(length, length)))
                    .collect())
            }
            Source::Csv { path, key, value } => read_csv(path, *key, *value),
        }
    }

    fn tasks(&self, map: &mut impl Places, seed: u64, meter: &mut Meter) -> Result<()> {
        let mut random = Random::new(seed, 0);
        let mut ordered = self.entries(&mut random)?;
        ordered.sort();
        let newer = other_values(&mut random, &ordered);
        let [once, again] = [(); 2].map(|()| shuffled(&mut random, &ordered));
        let group = self.transaction as usize;
        map.enter("a")?;
        meter.phase("fill sequential", || write(map, &ordered, group, put))?;
        meter.phase("read sequential", || read(map, &ordered, group))?;
        meter.phase("read random", || read(map, &once, group))?;
        map.enter("a")?;
        meter.phase("overwrite", || write(map, &newer, group, put))?;
        map.enter("a")?;
        meter.phase("delete sequential", || write(map, &ordered, group, delete))?;
        map.enter("b")?;
        meter.phase("fill random", || write(map, &again, group, put))?;
        map.enter("c")?;
        write(map, &ordered, group, put)?;
        map.enter("c")?;
        meter.phase("delete random", || write(map, &once, group, delete))
    }
}

/// The same entries in random order, laid out in memory in that order: what is measured is the
/// store, not the way to its arguments.
fn shuffled(random: &mut Random, entries: &[Entry]) -> Vec<Entry> {
    let mut order: Vec<&Entry> = entries.iter().collect();
    random.shuffle(&mut order);
    order.into_iter().cloned().collect()
}

/// Other values of the same lengths: equal ones would be skipped by some stores.
fn other_values(random: &mut Random, entries: &[Entry]) -> Vec<Entry> {
    let other = |(key, value): &Entry| {
        let length = value.len() as i64;
        (key.clone(), random.text(length, length))
    };
    entries.iter().map(other).collect()
}

fn put(entry: &Entry) -> Op<'_> {
    (&entry.0, Some(&entry.1))
}

fn delete(entry: &Entry) -> Op<'_> {
    (&entry.0, None)
}

fn write(
    map: &mut impl Places,
    list: &[Entry],
    group: usize,
    op: fn(&Entry) -> Op<'_>,
) -> Result<Done> {
    let mut ops = Vec::with_capacity(group);
    for chunk in list.chunks(group) {
        ops.clear();
        ops.extend(chunk.iter().map(op));
        map.write(&ops)?;
    }
    Ok(Done { operations: list.len() as u64, transactions: list.len().div_ceil(group) as u64 })
}

fn read(map: &mut impl Places, list: &[Entry], group: usize) -> Result<Done> {
    let mut keys = Vec::with_capacity(group);
    for chunk in list.chunks(group) {
        keys.clear();
        keys.extend(chunk.iter().map(|(key, _)| key.as_str()));
        if map.read(&keys)? != keys.len() as u64 {
            let (first, last) = (keys[0], keys[keys.len() - 1]);
            return Err(Error::Bad(format!(
                "of keys {first} to {last}, all written, one is missing"
            )));
        }
    }
    Ok(Done { operations: list.len() as u64, transactions: 0 })
}

fn read_csv(path: &Path, key: usize, value: usize) -> Result<Vec<Entry>> {
    let bad = |e: csv::Error| Error::Bad(format!("{}: {e}", path.display()));
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(path).map_err(bad)?;
    let mut entries = Vec::new();
    for record in reader.records() {
        let record = record.map_err(bad)?;
        let column = |i: usize| {
            let missing = || {
                let line = record.position().map_or(0, csv::Position::line);
                Error::Bad(format!("{}, line {line}: there is no column {i}", path.display()))
            };
            record.get(i).map(str::to_owned).ok_or_else(missing)
        };
        entries.push((column(key)?, column(value)?));
    }
    // A key that comes twice is one entry: what is deleted once cannot be deleted again.
    entries.sort();
    entries.dedup_by(|a, b| a.0 == b.0);
    if entries.is_empty() {
        return Err(Error::Bad(format!("{} has no rows below its header", path.display())));
    }
    Ok(entries)
}

/// Tables of a database.
struct Tables<'a> {
    db: &'a mut Database,
    /// Put, delete and get in the present table.
    sql: [String; 3],
}

impl Tables<'_> {
    /// Begins or ends a transaction, if a group of this size needs one.
    fn bracket(&self, sql: &str, group: usize) -> Result<()> {
        if group > 1 {
            self.db.conn.prepare_cached(sql)?.execute([])?;
        }
        Ok(())
    }
}

impl Places for Tables<'_> {
    fn enter(&mut self, place: &str) -> Result<()> {
        self.db.fold()?;
        self.db.checkpoint()?;
        self.sql = [
            format!("INSERT INTO {place} VALUES(?1,?2) ON CONFLICT(k) DO UPDATE SET v=excluded.v"),
            format!("DELETE FROM {place} WHERE k=?1"),
            format!("SELECT v FROM {place} WHERE k=?1"),
        ];
        Ok(())
    }

    fn write(&mut self, ops: &[Op<'_>]) -> Result<()> {
        self.bracket("BEGIN", ops.len())?;
        for (key, value) in ops {
            match value {
                Some(value) => self.db.conn.prepare_cached(&self.sql[0])?.execute([key, value])?,
                None => self.db.conn.prepare_cached(&self.sql[1])?.execute([key])?,
            };
        }
        self.bracket("COMMIT", ops.len())?;
        self.db.committed(ops.len() as u64)
    }

    fn read(&mut self, keys: &[&str]) -> Result<u64> {
        self.bracket("BEGIN", keys.len())?;
        let mut statement = self.db.conn.prepare_cached(&self.sql[2])?;
        let mut found = 0;
        for key in keys {
            let value = statement.query_row([key], |row| Ok(row.get_ref(0)?.as_str()?.to_owned()));
            found += u64::from(value.optional()?.is_some());
        }
        self.bracket("COMMIT", keys.len())?;
        Ok(found)
    }
}

/// Stores, each in a folder of its own.
struct Stores<'a> {
    dir: &'a Path,
    wish: Wish,
    open: Option<Box<dyn Store>>,
}

impl Stores<'_> {
    fn store(&self) -> Result<&dyn Store> {
        self.open.as_deref().ok_or_else(|| Error::Bad("no store was entered".into()))
    }

    fn close(&mut self) -> Result<()> {
        self.open.take().map_or(Ok(()), Store::close)
    }
}

impl Places for Stores<'_> {
    fn enter(&mut self, place: &str) -> Result<()> {
        self.close()?;
        self.open = Some(store::open(&self.dir.join(place), self.wish)?);
        Ok(())
    }

    fn write(&mut self, ops: &[Op<'_>]) -> Result<()> {
        self.store()?.write(ops)
    }

    fn read(&mut self, keys: &[&str]) -> Result<u64> {
        self.store()?.read(keys)
    }
}

impl Workload for Kv {
    fn name(&self) -> &'static str {
        "kv"
    }

    fn options(&self) -> Value {
        let source = match &self.source {
            Source::Random { entries, value } => json!({"entries": entries, "value": value}),
            Source::Csv { path, key, value } => {
                let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
                json!({"csv": file, "key_column": key, "value_column": value})
            }
        };
        json!({
            "source": source,
            "transaction": self.transaction,
            "sync": self.sync,
            "further": self.further,
        })
    }

    fn schema(&self) -> String {
        let table =
            |t: &str| format!("CREATE TABLE {t}(k TEXT PRIMARY KEY NOT NULL, v TEXT NOT NULL);\n");
        ["a", "b", "c"].map(table).concat()
    }

    fn run(&self, db: &mut Database, seed: u64, meter: &mut Meter) -> Result<()> {
        if self.further {
            return Err(Error::Bad("the further tasks are for stores, not for SQLite".into()));
        }
        self.tasks(&mut Tables { db, sql: Default::default() }, seed, meter)
    }

    fn run_on_store(&self, dir: &Path, name: Name, seed: u64, meter: &mut Meter) -> Result<()> {
        let wish = self.wish(name);
        if self.further {
            return self.further(dir, wish, seed, meter);
        }
        let mut stores = Stores { dir, wish, open: None };
        self.tasks(&mut stores, seed, meter)?;
        stores.close()
    }

    fn wish(&self, name: Name) -> Wish {
        Wish { name, sync: self.sync }
    }

    fn megabytes(&self) -> u64 {
        let bytes = match &self.source {
            Source::Random { entries, value } => entries * u64::from(value + 50),
            Source::Csv { path, .. } => std::fs::metadata(path).map_or(0, |file| file.len()),
        };
        bytes * 20 / 1_000_000 + 50
    }
}
