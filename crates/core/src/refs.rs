//! References between values and rows (R-REF): which row a foreign key value means, and the
//! identity that a primary key gives to a row.

use crate::catalog::{Catalog, Tracked};
use crate::meta::Meta;
use crate::{Error, Result, state};
use rusqlite::Connection;
use synqlite_wire::{Cell, Rid, Value};

/// What is needed to look rows up.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// The database.
    pub conn: &'a Connection,
    /// The replica.
    pub meta: &'a Meta,
    /// Its tables.
    pub catalog: &'a Catalog,
}

impl Lookup<'_> {
    /// The row that foreign key `fk` of a row with these values refers to now; `None` if a value
    /// is NULL or no row has the key.
    pub fn reference(&self, t: &Tracked, fk: usize, row: &[Value]) -> Result<Option<Rid>> {
        let key: Vec<Value> =
            t.table.foreign_keys[fk].columns.iter().map(|&c| row[c].clone()).collect();
        self.row_with_key(t, fk, &key)
    }

    /// The row to which foreign key `fk` refers with these values; `None` as above.
    pub fn row_with_key(&self, t: &Tracked, fk: usize, key: &[Value]) -> Result<Option<Rid>> {
        let fk = &t.table.foreign_keys[fk];
        if key.iter().any(Value::is_null) {
            return Ok(None);
        }
        let parent = self.parent(&fk.parent)?;
        let Some(loc) = parent.find(self.conn, &fk.parent_columns, key)?.into_iter().next() else {
            return Ok(None);
        };
        Ok(state::at(self.conn, self.meta, parent, &loc)?.map(|stored| stored.rid))
    }

    /// The table called `name`, which a foreign key refers to.
    pub fn parent(&self, name: &str) -> Result<&Tracked> {
        let missing = || Error::Damaged(format!("table {name} is not in the catalog"));
        self.catalog.by_name(name).ok_or_else(missing)
    }

    /// Values and references of one group of a row, by what its table shows now.
    pub fn cell(&self, t: &Tracked, group: usize, row: &[Value]) -> Result<Cell> {
        let group = &t.table.groups[group];
        let values = group.columns.iter().map(|&c| row[c].clone()).collect();
        let refs = group.foreign_keys.iter().map(|&fk| self.reference(t, fk, row));
        Ok(Cell { values, refs: refs.collect::<Result<_>>()? })
    }

    /// The identity of a row named by its primary key, generation 0 (R-ID-KEY); `None` if the key
    /// has a NULL.
    pub fn key_rid(&self, t: &Tracked, row: &[Value]) -> Result<Option<Vec<u8>>> {
        let pk = &t.table.primary_key;
        if pk.iter().any(|&c| row[c].is_null()) {
            return Ok(None);
        }
        t.key_of(|c| &row[c], |f| self.reference(t, f, row)).map(Some)
    }
}
