//! References between values and rows (R-REF): which row a foreign key value means, and the
//! identity that a primary key gives to a row.

use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::equal::{collation_sql, means_none_sql};
use crate::meta::Meta;
use crate::schema::{Affinity, ForeignKey, quote};
use crate::{Error, Result, state};
use rusqlite::Connection;
use std::collections::HashMap;
use synqlite_wire::{Cell, Rid, Value};

pub use synqlite_view::refs::*;

/// The last row to which each foreign key referred, by number of the table: rows that are looked at
/// together mostly refer to the same one. Good as long as no row gets another key.
#[derive(Default)]
pub struct Recent(HashMap<(u32, usize), (Vec<Value>, Option<Rid>)>);

impl Recent {
    /// [`Lookup::reference`] of a row with these values.
    pub fn reference<'v>(
        &mut self,
        lookup: Lookup<'_>,
        t: &Tracked,
        fk: usize,
        value: impl Fn(usize) -> &'v Value,
    ) -> Result<Option<Rid>> {
        let columns = &t.table.foreign_keys[fk].columns;
        if let Some((key, rid)) = self.0.get(&(t.no, fk))
            && columns.iter().zip(key).all(|(&c, last)| value(c) == last)
        {
            return Ok(rid.clone());
        }
        let key: Vec<Value> = columns.iter().map(|&c| value(c).clone()).collect();
        let rid = lookup.row_with_key(t, fk, &key)?;
        self.0.insert((t.no, fk), (key, rid.clone()));
        Ok(rid)
    }

    /// [`Lookup::cell`].
    pub fn cell(
        &mut self,
        lookup: Lookup<'_>,
        t: &Tracked,
        group: usize,
        row: &[Value],
    ) -> Result<Cell> {
        cell(t, group, row, |fk| self.reference(lookup, t, fk, |c| &row[c]))
    }
}

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
    fn row_with_key(&self, t: &Tracked, fk: usize, key: &[Value]) -> Result<Option<Rid>> {
        let fk = &t.table.foreign_keys[fk];
        if key.iter().any(Value::is_null) {
            return Ok(None);
        }
        let parent = self.parent(&fk.parent)?;
        let Some(loc) = parent.find_parents(self.conn, fk, key)?.into_iter().next() else {
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
        cell(t, group, row, |fk| self.reference(t, fk, row))
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

/// Rows whose foreign key `fk` has a value that is no key of `parent`.
pub fn dangling(
    conn: &Connection,
    t: &Tracked,
    parent: &Tracked,
    fk: &ForeignKey,
) -> Result<Vec<Loc>> {
    let (loc, dangles) = (loc_sql(&t.table, "c."), names_nobody(t, parent, fk));
    let sql = format!("SELECT {loc} FROM {} AS c WHERE {dangles}", t.target());
    let mut statement = conn.prepare(&sql)?;
    t.places(&mut statement, [])
}

/// Condition under which row `c` refers to no row. As in a foreign key, affinity and collation are
/// the parent's: the + takes the child's away.
pub fn names_nobody(t: &Tracked, parent: &Tracked, fk: &ForeignKey) -> String {
    let child = |c: usize| format!("c.{}", quote(&t.table.columns[c].name));
    let pairs = fk.columns.iter().zip(&fk.parent_columns).zip(&fk.parent_keys);
    let equal = pairs.map(|((&c, &p), (affinity, collation))| {
        let (name, collate) = (quote(&parent.table.columns[p].name), collation_sql(collation));
        let equal = format!("p.{name} COLLATE {collate} = +{}", child(c));
        match (t.table.columns[c].affinity, affinity) {
            (Affinity::Text, _) => equal,
            (_, Affinity::Text) => format!("{equal} AND NOT ({})", means_none_sql(&child(c))),
            _ => equal,
        }
    });
    let equal: Vec<_> = equal.collect();
    let given: Vec<_> = fk.columns.iter().map(|&c| format!("{} IS NOT NULL", child(c))).collect();
    format!(
        "{} AND NOT EXISTS(SELECT 1 FROM {} AS p WHERE {})",
        given.join(" AND "),
        parent.target(),
        equal.join(" AND ")
    )
}
