//! The seven tasks of ProjectDB's measurements, after LevelDB's: fill, overwrite, delete and read, in
//! the order of the keys and in random order.
//!
//! Fills begin with a new table; the other tasks find one that was filled in order. Reads find what
//! the fill left in memory; a missing key ends the run. Keys and values are made before anything is
//! measured. On SQLite each operation is a statement; `transaction` of them are a commit.

use super::Workload;
use super::random::Random;
use crate::database::Database;
use crate::meter::{Done, Meter};
use crate::{Error, Result};
use rusqlite::OptionalExtension;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use synqlite_lsm::{Db, Options};

/// A run of it.
#[derive(Clone, Debug)]
pub struct Kv {
    /// Where keys and values come from.
    pub source: Source,
    /// Operations a transaction, on SQLite.
    pub transaction: u64,
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
trait Map {
    /// Settles what was written, and goes on in this place.
    fn enter(&mut self, place: &str) -> Result<()>;
    fn put(&mut self, key: &str, value: &str) -> Result<()>;
    fn delete(&mut self, key: &str) -> Result<()>;
    /// Length of the value.
    fn get(&mut self, key: &str) -> Result<Option<usize>>;
    /// Commits what is open; gives the number of commits since the last call.
    fn end(&mut self) -> Result<u64>;
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

    fn tasks(&self, map: &mut impl Map, seed: u64, meter: &mut Meter) -> Result<()> {
        let mut random = Random::new(seed, 0);
        let mut ordered = self.entries(&mut random)?;
        ordered.sort();
        let mut shuffled = ordered.clone();
        random.shuffle(&mut shuffled);
        let mut shuffled_again = shuffled.clone();
        random.shuffle(&mut shuffled_again);
        let newer: Vec<Entry> = ordered
            .iter()
            .map(|(key, value)| {
                // Another value of the same length: equal ones would be skipped by some stores.
                let length = value.len() as i64;
                (key.clone(), random.text(length, length))
            })
            .collect();
        map.enter("a")?;
        meter.phase("fill sequential", || put(map, &ordered))?;
        meter.phase("read sequential", || read(map, &ordered))?;
        meter.phase("read random", || read(map, &shuffled))?;
        map.enter("a")?;
        meter.phase("overwrite", || put(map, &newer))?;
        map.enter("a")?;
        meter.phase("delete sequential", || delete(map, &ordered))?;
        map.enter("b")?;
        meter.phase("fill random", || put(map, &shuffled_again))?;
        map.enter("c")?;
        put(map, &ordered)?;
        map.enter("c")?;
        meter.phase("delete random", || delete(map, &shuffled))
    }
}

fn put(map: &mut impl Map, list: &[Entry]) -> Result<Done> {
    list.iter().try_for_each(|(key, value)| map.put(key, value))?;
    Ok(Done { operations: list.len() as u64, transactions: map.end()? })
}

fn delete(map: &mut impl Map, list: &[Entry]) -> Result<Done> {
    list.iter().try_for_each(|(key, _)| map.delete(key))?;
    Ok(Done { operations: list.len() as u64, transactions: map.end()? })
}

fn read(map: &mut impl Map, list: &[Entry]) -> Result<Done> {
    for (key, _) in list {
        if map.get(key)?.is_none() {
            return Err(Error::Bad(format!("key {key} was written and is not there")));
        }
    }
    Ok(Done { operations: list.len() as u64, transactions: map.end()? })
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
    transaction: u64,
    open: u64,
    commits: u64,
}

impl Tables<'_> {
    fn write(&mut self, what: usize, values: impl rusqlite::Params) -> Result<()> {
        if self.transaction > 1 && self.open == 0 {
            self.db.conn.prepare_cached("BEGIN")?.execute([])?;
        }
        self.db.conn.prepare_cached(&self.sql[what])?.execute(values)?;
        self.open += 1;
        if self.open == self.transaction { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<()> {
        if self.transaction > 1 {
            self.db.conn.prepare_cached("COMMIT")?.execute([])?;
        }
        self.commits += 1;
        self.db.committed(std::mem::take(&mut self.open))
    }
}

impl Map for Tables<'_> {
    fn enter(&mut self, place: &str) -> Result<()> {
        self.end()?;
        self.db.fold()?;
        self.db.checkpoint()?;
        self.sql = [
            format!("INSERT INTO {place} VALUES(?1,?2) ON CONFLICT(k) DO UPDATE SET v=excluded.v"),
            format!("DELETE FROM {place} WHERE k=?1"),
            format!("SELECT v FROM {place} WHERE k=?1"),
        ];
        Ok(())
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.write(0, [key, value])
    }

    fn delete(&mut self, key: &str) -> Result<()> {
        self.write(1, [key])
    }

    fn get(&mut self, key: &str) -> Result<Option<usize>> {
        let mut statement = self.db.conn.prepare_cached(&self.sql[2])?;
        let length = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_str()?.len());
        Ok(statement.query_row([key], length).optional()?)
    }

    fn end(&mut self) -> Result<u64> {
        if self.open > 0 {
            self.commit()?;
        }
        Ok(std::mem::take(&mut self.commits))
    }
}

/// Stores, each in a folder of its own.
struct Stores<'a> {
    dir: &'a Path,
    open: Option<Db>,
    commits: u64,
}

impl Stores<'_> {
    fn db(&self) -> Result<&Db> {
        self.open.as_ref().ok_or_else(|| Error::Bad("no store was entered".into()))
    }
}

impl Map for Stores<'_> {
    fn enter(&mut self, place: &str) -> Result<()> {
        if let Some(db) = self.open.take() {
            db.close()?;
        }
        self.open = Some(Db::open(self.dir.join(place), Options::default())?);
        Ok(())
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.commits += 1;
        Ok(self.db()?.put(key, value)?)
    }

    fn delete(&mut self, key: &str) -> Result<()> {
        self.commits += 1;
        Ok(self.db()?.delete(key)?)
    }

    fn get(&mut self, key: &str) -> Result<Option<usize>> {
        Ok(self.db()?.get(key)?.map(|value| value.len()))
    }

    fn end(&mut self) -> Result<u64> {
        Ok(std::mem::take(&mut self.commits))
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
        json!({"source": source, "transaction": self.transaction})
    }

    fn schema(&self) -> String {
        let table =
            |t: &str| format!("CREATE TABLE {t}(k TEXT PRIMARY KEY NOT NULL, v TEXT NOT NULL);\n");
        ["a", "b", "c"].map(table).concat()
    }

    fn run(&self, db: &mut Database, seed: u64, meter: &mut Meter) -> Result<()> {
        let (sql, transaction) = (Default::default(), self.transaction);
        let mut tables = Tables { db, sql, transaction, open: 0, commits: 0 };
        self.tasks(&mut tables, seed, meter)
    }

    fn run_on_store(&self, dir: &Path, seed: u64, meter: &mut Meter) -> Result<()> {
        let mut stores = Stores { dir, open: None, commits: 0 };
        self.tasks(&mut stores, seed, meter)?;
        stores.db()?.close()?;
        Ok(())
    }

    fn megabytes(&self) -> u64 {
        let bytes = match &self.source {
            Source::Random { entries, value } => entries * u64::from(value + 50),
            Source::Csv { path, .. } => std::fs::metadata(path).map_or(0, |file| file.len()),
        };
        bytes * 20 / 1_000_000 + 50
    }
}
