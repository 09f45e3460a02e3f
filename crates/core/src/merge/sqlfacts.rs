//! What a replica answers the view ([`Facts`]): by SQL, and by the validator of rows.

use super::row_validator::RowValidator;
use crate::Error;
use crate::catalog::{Loc, Tracked, loc_sql};
use crate::referring::Referring;
use crate::refs::Lookup;
use crate::state::{self, Stored, numbers};
use rusqlite::types::FromSql;
use rusqlite::{Row, ToSql, params};
use std::ops::Range;
use synqlite_view::facts::{Except, Facts, Key, Reference, Verdict, Waiting};
use synqlite_view::{ConflictKind, Result};
use synqlite_wire::{Rid, Value};

/// The answers of a replica.
pub(super) struct SqlFacts<'a> {
    lookup: Lookup<'a>,
    validator: RowValidator<'a>,
    referring: Referring<'a>,
}

impl<'a> SqlFacts<'a> {
    pub fn new(lookup: Lookup<'a>) -> SqlFacts<'a> {
        let Lookup { conn, .. } = lookup;
        SqlFacts { lookup, validator: RowValidator::new(conn), referring: Referring::new(conn) }
    }

    fn table(&self, table: usize) -> &'a Tracked {
        &self.lookup.catalog.tables[table]
    }

    /// The first column of what a query finds.
    fn list<T: FromSql>(&self, sql: &str, params: &[&dyn ToSql]) -> Result<Vec<T>, Error> {
        let mut statement = self.lookup.conn.prepare_cached(sql)?;
        let found = statement.query_map(params, |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// The largest integer key that a row has or asks for.
    fn largest(&self, table: usize, except: &Except) -> Result<Option<i64>, Error> {
        let (conn, t) = (self.lookup.conn, self.table(table));
        let sql = "SELECT wants, id FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL \
                   ORDER BY wants DESC";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([t.no])?;
        let mut highest = None;
        while let Some(row) = rows.next()? {
            if !except.entries.contains(&row.get(1)?) {
                highest = Some(row.get(0)?);
                break;
            }
        }
        let loc = loc_sql(&t.table, "o.");
        let sql = format!("SELECT {loc} FROM {} AS o ORDER BY {loc} DESC", t.target());
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let rowid: i64 = row.get(0)?;
            if !except.places.contains(&Loc::Row(rowid)) {
                return Ok(highest.max(Some(rowid)));
            }
        }
        Ok(highest)
    }
}

impl Facts for SqlFacts<'_> {
    fn waiting(&self) -> Result<Waiting> {
        let conn = self.lookup.conn;
        let contested = state::any_conflict(conn)?;
        let revived = contested && state::any_revived(conn)?;
        Ok(Waiting { any: state::anyone_waits(conn)?, contested, revived })
    }

    fn of(&self, table: usize, rid: &Rid) -> Result<Option<Stored>> {
        Ok(state::of(self.lookup.conn, self.lookup.meta, self.table(table), rid)?)
    }

    fn at(&self, table: usize, loc: &Loc) -> Result<Option<Stored>> {
        Ok(state::at(self.lookup.conn, self.lookup.meta, self.table(table), loc)?)
    }

    fn entry(&self, entry: i64) -> Result<Option<(usize, Stored)>> {
        let Lookup { conn, meta, catalog } = self.lookup;
        let no = state::table_of_entry(conn, entry)?;
        let Some(table) = no.and_then(|no| catalog.position_of_no(no)) else { return Ok(None) };
        let stored = state::entry_by_id(conn, meta, self.table(table), entry)?;
        Ok(stored.map(|stored| (table, stored)))
    }

    fn shown(&self, table: usize, loc: &Loc) -> Result<Option<Vec<Value>>> {
        Ok(self.table(table).read(self.lookup.conn, loc)?)
    }

    fn answering(&self, (table, f): Reference, key: &[Value]) -> Result<Vec<Loc>> {
        let fk = &self.table(table).table.foreign_keys[f];
        Ok(self.lookup.parent(&fk.parent)?.find_parents(self.lookup.conn, fk, key)?)
    }

    fn referring(&self, (table, f): Reference, key: &[Value]) -> Result<Vec<Loc>> {
        Ok(self.referring.to(self.table(table), f, key)?)
    }

    fn is_open(&self, entry: i64) -> Result<bool> {
        Ok(state::conflict(self.lookup.conn, entry)?.is_some())
    }

    fn derived(&self) -> Result<Vec<i64>> {
        Ok(state::derived(self.lookup.conn)?)
    }

    fn waiting_for_row(&self, table: usize, rid: &Rid) -> Result<Vec<i64>> {
        let Lookup { conn, meta, .. } = self.lookup;
        let found = state::waiting_for_row(conn, meta, self.table(table), rid)?;
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }

    fn waiting_for_key(&self, table: usize, index: &str, key: &[u8]) -> Result<Vec<i64>> {
        let sql = "SELECT entry FROM synqlite_claim WHERE tbl = ?1 AND idx = ?2 AND key = ?3";
        Ok(self.list(sql, params![self.table(table).no, index, key])?)
    }

    fn waiting_among(&self, table: usize, index: &str, keys: Range<&[u8]>) -> Result<Vec<i64>> {
        let sql = "SELECT entry FROM synqlite_claim WHERE tbl = ?1 AND idx = ?2 \
                   AND key >= ?3 AND key < ?4";
        Ok(self.list(sql, params![self.table(table).no, index, keys.start, keys.end])?)
    }

    fn renumbered(&self, table: usize) -> Result<Vec<(i64, i64)>> {
        let sql = "SELECT loc, wants FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL \
                   AND loc IS NOT NULL";
        let numbers = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let mut statement = self.lookup.conn.prepare_cached(sql).map_err(Error::from)?;
        let found = statement.query_map([self.table(table).no], numbers).map_err(Error::from)?;
        Ok(found.collect::<rusqlite::Result<_>>().map_err(Error::from)?)
    }

    fn aside(&self, table: usize) -> Result<Vec<i64>> {
        let sql = "SELECT id FROM synqlite_row \
                   WHERE kind IS NOT NULL AND (loc IS NULL OR kind = ?2) AND +tbl = ?1";
        let fallback = ConflictKind::Fallback;
        Ok(self.list(sql, params![self.table(table).no, fallback.as_str()])?)
    }

    fn hidden_asking(&self, table: usize, id: Option<i64>) -> Result<Vec<i64>> {
        let no = self.table(table).no;
        let hidden = "loc IS NULL AND kind IS NOT NULL";
        match id {
            Some(id) => {
                let sql = "SELECT id FROM synqlite_row WHERE tbl = ?1 AND wants = ?2";
                Ok(self.list(&format!("{sql} AND {hidden}"), params![no, id])?)
            }
            None => {
                let sql = "SELECT id FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL";
                Ok(self.list(&format!("{sql} AND {hidden}"), params![no])?)
            }
        }
    }

    fn revived(&self, table: usize) -> Result<Vec<i64>> {
        Ok(state::revived(self.lookup.conn, self.table(table).no)?)
    }

    fn highest(&self, table: usize, except: &Except) -> Result<Option<i64>> {
        let (known, t) = (self.largest(table, except)?, self.table(table));
        Ok(match t.table.own_number() {
            Some(_) => known.max(numbers::highest(self.lookup.conn, t)?),
            None => known,
        })
    }

    fn number_had(&self, table: usize, rid: &Rid) -> Result<Option<i64>> {
        let Lookup { conn, meta, .. } = self.lookup;
        Ok(numbers::of(conn, meta, self.table(table), rid)?)
    }

    fn is_kept(&self, table: usize, id: i64) -> Result<bool> {
        Ok(numbers::is_kept(self.lookup.conn, self.table(table), id)?)
    }

    fn has_number(&self, table: usize, id: i64, except: &Except) -> Result<bool> {
        let (t, place) = (self.table(table), Loc::Row(id));
        if !except.places.contains(&place) && t.exists(self.lookup.conn, &place)? {
            return Ok(true);
        }
        let sql = "SELECT id FROM synqlite_row WHERE tbl = ?1 AND wants = ?2";
        let found: Vec<i64> = self.list(sql, params![t.no, id])?;
        Ok(found.iter().any(|entry| !except.entries.contains(entry)))
    }

    fn verdict(&self, table: usize, row: &[Value]) -> Result<Verdict> {
        Ok(self.validator.row(self.table(table), row)?)
    }

    fn holder(&self, table: usize, index: usize, key: &Key) -> Result<Option<Loc>> {
        let t = self.table(table);
        Ok(self.validator.holder(t, &t.table.uniques[index], key)?)
    }

    fn default(&self, table: usize, column: usize) -> Result<Value> {
        Ok(self.validator.default(self.table(table), column)?)
    }
}
