//! What the view asks of a database: states, rows, who waits for what, and what SQLite says of rows.
//!
//! The view decides on affected rows that it has in hand; whatever else bears on them it learns through this
//! trait and nothing else, so it can be computed over any store that answers it. Tables, foreign keys
//! and indexes are named by their positions in the catalog.

use crate::Result;
use crate::catalog::{Catalog, Loc};
use crate::schema::UniqueIndex;
use crate::state::Stored;
use std::collections::BTreeSet;
use std::ops::Range;
use synqlite_wire::key::encode_values;
use synqlite_wire::{Rid, Value};

/// A key of a row in a unique index.
#[derive(Clone, Debug)]
pub struct Key {
    /// Values as the index stores them.
    pub values: Vec<Value>,
    /// Equal exactly when the index holds two keys for equal.
    pub canonical: Vec<u8>,
}

impl Key {
    /// `None` if a value is NULL.
    pub fn of(u: &UniqueIndex, values: Vec<Value>) -> Option<Key> {
        if values.iter().any(Value::is_null) {
            return None;
        }
        let parts = values.iter().zip(u.terms.iter().map(|term| &term.collation));
        let canonical = encode_values(parts);
        Some(Key { values, canonical })
    }
}

/// What SQLite says of a row.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Whether the row meets every constraint on single rows.
    pub valid: bool,
    /// Its key in each unique index; `None` where the index does not hold it, or a value is NULL.
    pub keys: Vec<Option<Key>>,
}

/// Whether rows wait at all: most databases are spared most questions by it.
#[derive(Clone, Copy)]
pub struct Waiting {
    /// Whether any row waits for another row or a key.
    pub any: bool,
    /// Whether any conflict is open.
    pub contested: bool,
    /// Whether any deleted row is shown for the sake of others.
    pub revived: bool,
}

/// Rows of which a question is not: where they are visible, and their entries.
pub struct Except {
    /// Where.
    pub places: BTreeSet<Loc>,
    /// Which.
    pub entries: BTreeSet<i64>,
}

/// Foreign key `.1` of table `.0`.
pub type Reference = (usize, usize);

/// What the view asks. Entries are numbers by which rows are found again.
pub trait Facts {
    /// Whether rows wait.
    fn waiting(&self) -> Result<Waiting>;
    /// The row with this identity.
    fn of(&self, table: usize, rid: &Rid) -> Result<Option<Stored>>;
    /// The row that is visible at a place.
    fn at(&self, table: usize, loc: &Loc) -> Result<Option<Stored>>;
    /// The row of an entry, and its table, if that is there.
    fn entry(&self, entry: i64) -> Result<Option<(usize, Stored)>>;
    /// What the row at a place shows.
    fn shown(&self, table: usize, loc: &Loc) -> Result<Option<Vec<Value>>>;
    /// Where the rows are that have a key under a foreign key.
    fn answering(&self, reference: Reference, key: &[Value]) -> Result<Vec<Loc>>;
    /// Where the rows are that refer to a key by what they show.
    fn referring(&self, reference: Reference, key: &[Value]) -> Result<Vec<Loc>>;
    /// Whether a record of the row of an entry is open.
    fn is_open(&self, entry: i64) -> Result<bool>;
    /// Entries of rows that show something derived from what they hold, or would if they were shown.
    fn derived(&self) -> Result<Vec<i64>>;
    /// Entries whose kept references are to this row.
    fn waiting_for_row(&self, table: usize, rid: &Rid) -> Result<Vec<i64>>;
    /// Entries that wait for a key under the name of an index of a table.
    fn waiting_for_key(&self, table: usize, index: &str, key: &[u8]) -> Result<Vec<i64>>;
    /// The same for all keys from one up to another.
    fn waiting_among(&self, table: usize, index: &str, keys: Range<&[u8]>) -> Result<Vec<i64>>;
    /// The rows that show another integer key than they ask for: what they show, and what they ask for.
    fn renumbered(&self, table: usize) -> Result<Vec<(i64, i64)>>;
    /// Entries of rows that stepped aside: hidden ones that have a record, and those that show what they were
    /// before (R-FALLBACK).
    fn aside(&self, table: usize) -> Result<Vec<i64>>;
    /// Hidden ones of them that ask for an integer key: for this one, or for any.
    fn hidden_asking(&self, table: usize, id: Option<i64>) -> Result<Vec<i64>>;
    /// Entries of deleted rows that are shown because others refer to them (R-PROTECT).
    fn revived(&self, table: usize) -> Result<Vec<i64>>;
    /// The largest integer key that a row has or asks for.
    fn highest(&self, table: usize, except: &Except) -> Result<Option<i64>>;
    /// The number that a row had when it was shown last, where each site has its own (R-OWN).
    fn number_had(&self, table: usize, rid: &Rid) -> Result<Option<i64>>;
    /// Whether a row that is not shown had a number.
    fn is_kept(&self, table: usize, id: i64) -> Result<bool>;
    /// Whether a row has or asks for an integer key.
    fn has_number(&self, table: usize, id: i64, except: &Except) -> Result<bool>;
    /// What SQLite says of a row of stored columns.
    fn verdict(&self, table: usize, row: &[Value]) -> Result<Verdict>;
    /// Where the visible row is that has a key in a unique index.
    fn holder(&self, table: usize, index: usize, key: &Key) -> Result<Option<Loc>>;
    /// The value of a column's DEFAULT clause.
    fn default(&self, table: usize, column: usize) -> Result<Value>;
}

/// The row to which a foreign key of a row that shows `row` refers by its value; `None` if a value is NULL
/// or no row has the key.
pub fn reference(
    facts: &dyn Facts,
    catalog: &Catalog,
    (table, f): Reference,
    row: &[Value],
) -> Result<Option<Rid>> {
    let fk = &catalog.tables[table].table.foreign_keys[f];
    let Some(parent) = catalog.position(&fk.parent) else { return Ok(None) };
    let Some(key) = fk.key_of(row) else { return Ok(None) };
    let Some(loc) = facts.answering((table, f), &key)?.into_iter().next() else {
        return Ok(None);
    };
    Ok(facts.at(parent, &loc)?.map(|stored| stored.rid))
}
