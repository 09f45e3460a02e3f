//! References between values and rows (R-REF): which row a foreign key value means, and the
//! identity that a primary key gives to a row.

use crate::catalog::{Catalog, Tracked};
use crate::meta::Meta;
use crate::{Error, Result, state};
use rusqlite::Connection;
use synqlite_wire::key::{KeyPart, encode, normalise};
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
        let fk = &t.table.foreign_keys[fk];
        let key: Vec<Value> = fk.columns.iter().map(|&c| row[c].clone()).collect();
        if key.iter().any(Value::is_null) {
            return Ok(None);
        }
        let parent = self.parent(&fk.parent)?;
        let Some(loc) = parent.find(self.conn, &fk.parent_columns, &key)?.into_iter().next() else {
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
        let mut covered = vec![None; pk.len()];
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let at: Option<Vec<usize>> =
                fk.columns.iter().map(|c| pk.iter().position(|p| p == c)).collect();
            let Some(at) = at else { continue };
            if at.iter().any(|&i| covered[i].is_some()) {
                continue;
            }
            let Some(rid) = self.reference(t, f, row)? else { continue };
            let mut parts = std::iter::once(Some(KeyPart::Row(rid))).chain(std::iter::repeat(None));
            at.iter().for_each(|&i| covered[i] = Some(parts.next().flatten()));
        }
        let mut parts = Vec::new();
        for ((i, &c), collation) in pk.iter().enumerate().zip(&t.table.key_collations) {
            match covered[i].take() {
                None => parts.push(KeyPart::Value(normalise(&row[c], collation).into_owned())),
                Some(part) => parts.extend(part),
            }
        }
        Ok(Some(encode(&parts)))
    }
}
