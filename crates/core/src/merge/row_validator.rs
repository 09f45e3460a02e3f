//! SQLite itself judges rows: a scratch copy of each table says whether a row meets its NOT NULL,
//! CHECK and STRICT constraints, and what its unique keys are, expressions and generated columns
//! included. Where there is none of these, a row's keys are its values, and it is not asked.

use super::apply::refuses;
use crate::Result;
use crate::catalog::{Tracked, loc_sql};
use crate::equal::collation_sql;
use crate::schema::{Affinity, UniqueIndex, quote};
use crate::sqlvalue::{Bind, values};
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use synqlite_view::constant::constant;
use synqlite_view::facts::{Key, Verdict};
use synqlite_wire::Value;
use synqlite_wire::key::{KeyPart, encode};

/// The columns of each unique index of a table.
type Indexes = Rc<[Vec<usize>]>;

/// The scratch database.
pub(super) struct RowValidator<'a> {
    main: &'a Connection,
    scratch: OnceCell<Connection>,
    made: RefCell<HashSet<u32>>,
    /// Of tables that need no validator, the columns of each unique index.
    plain: RefCell<HashMap<u32, Option<Indexes>>>,
    /// Verdicts by table and row: a view is computed several times, of mostly the same rows.
    known: RefCell<HashMap<(u32, Vec<u8>), Verdict>>,
}

impl<'a> RowValidator<'a> {
    pub fn new(main: &'a Connection) -> RowValidator<'a> {
        let (made, plain, known) = Default::default();
        RowValidator { main, scratch: OnceCell::new(), made, plain, known }
    }

    /// The scratch database; made when it is first asked.
    fn scratch(&self) -> Result<&Connection> {
        if let Some(scratch) = self.scratch.get() {
            return Ok(scratch);
        }
        let scratch = Connection::open_in_memory()?;
        // What text the bytes of a blob are depends on the encoding.
        let encoding: String = self.main.query_row("PRAGMA main.encoding", [], |row| row.get(0))?;
        scratch.execute_batch(&format!("PRAGMA foreign_keys=OFF; PRAGMA encoding='{encoding}'"))?;
        scratch.set_prepared_statement_cache_capacity(256);
        Ok(self.scratch.get_or_init(|| scratch))
    }

    fn make(&self, t: &Tracked) -> Result<()> {
        if !self.made.borrow_mut().insert(t.no) {
            return Ok(());
        }
        self.scratch()?.execute_batch(&self.declared(t)?)?;
        for sql in self.computed_indexes(t)? {
            self.scratch()?.execute_batch(&sql)?;
        }
        Ok(())
    }

    /// Indexes that compute something, unique or not: what they compute may fail on a row.
    fn computed_indexes(&self, t: &Tracked) -> Result<Vec<String>> {
        let sql = "SELECT m.sql FROM main.sqlite_master AS m WHERE m.type = 'index' \
                   AND m.sql IS NOT NULL AND m.tbl_name = ?1 COLLATE NOCASE AND (\
                   EXISTS(SELECT 1 FROM pragma_index_xinfo(m.name) WHERE cid = -2) OR \
                   EXISTS(SELECT 1 FROM pragma_index_list(m.tbl_name) AS l \
                   WHERE l.name = m.name AND l.partial))";
        let mut statement = self.main.prepare_cached(sql)?;
        let found = statement.query_map([&t.table.name], |row| row.get(0))?;
        Ok(found.collect::<rusqlite::Result<_>>()?)
    }

    fn declared(&self, t: &Tracked) -> Result<String> {
        let sql = "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?1";
        Ok(self.main.query_row(sql, [&t.table.name], |row| row.get(0))?)
    }

    /// The columns of each unique index, if a row of this table is judged by its values alone.
    fn plain(&self, t: &Tracked) -> Result<Option<Indexes>> {
        if let Some(known) = self.plain.borrow().get(&t.no) {
            return Ok(known.clone());
        }
        let sql = self.declared(t)?.to_ascii_lowercase();
        let column = |sql: &str| t.table.columns.iter().position(|c| quote(&c.name) == sql);
        let terms = |u: &UniqueIndex| -> Option<Vec<usize>> {
            let whole = u.predicate.is_none();
            u.terms.iter().map(|term| column(&term.sql).filter(|_| whole)).collect()
        };
        let bare =
            !sql.contains("check") && !sql.contains("strict") && t.table.generated.is_empty();
        let bare = bare && self.computed_indexes(t)?.is_empty();
        let columns: Option<Vec<_>> = t.table.uniques.iter().map(terms).collect();
        let plain: Option<Indexes> = columns.filter(|_| bare).map(Rc::from);
        self.plain.borrow_mut().insert(t.no, plain.clone());
        Ok(plain)
    }

    /// Judges a row of stored columns.
    pub fn row(&self, t: &Tracked, row: &[Value]) -> Result<Verdict> {
        if let Some(indexes) = self.plain(t)?
            && stored_as_is(t, row)
        {
            let keys = indexes.iter().zip(&t.table.uniques);
            let key = |(columns, u): (&Vec<usize>, _)| {
                Key::of(u, columns.iter().map(|&c| row[c].clone()).collect())
            };
            return Ok(Verdict { valid: true, keys: keys.map(key).collect() });
        }
        let bytes = encode(&row.iter().cloned().map(KeyPart::Value).collect::<Vec<_>>());
        if let Some(verdict) = self.known.borrow().get(&(t.no, bytes.clone())) {
            return Ok(verdict.clone());
        }
        let verdict = self.ask(t, row)?;
        self.known.borrow_mut().insert((t.no, bytes), verdict.clone());
        Ok(verdict)
    }

    fn ask(&self, t: &Tracked, row: &[Value]) -> Result<Verdict> {
        self.make(t)?;
        let table = quote(&t.table.name);
        self.scratch()?.prepare_cached(&format!("DELETE FROM {table}"))?.execute([])?;
        if t.table.autoincrement {
            // A row without a number gets the same one whatever was judged before; past the largest there is none.
            self.scratch()?.prepare_cached("DELETE FROM sqlite_sequence")?.execute([])?;
        }
        let marks = vec!["?"; row.len()].join(",");
        let sql = format!("INSERT OR ABORT INTO {table}({}) VALUES({marks})", t.column_list());
        let done =
            self.scratch()?.prepare_cached(&sql)?.execute(params_from_iter(row.iter().map(Bind)));
        let uniques = &t.table.uniques;
        match done {
            Ok(_) => {
                let keys = uniques.iter().map(|u| self.key(t, u)).collect::<Result<_>>()?;
                Ok(Verdict { valid: true, keys })
            }
            Err(e) if refuses(&e) => Ok(Verdict { valid: false, keys: vec![None; uniques.len()] }),
            Err(e) => Err(e.into()),
        }
    }

    fn key(&self, t: &Tracked, u: &UniqueIndex) -> Result<Option<Key>> {
        let terms: Vec<_> = u.terms.iter().map(|term| term.sql.as_str()).collect();
        let sql = format!(
            "SELECT {} FROM {} WHERE {}",
            terms.join(","),
            quote(&t.table.name),
            u.predicate.as_deref().unwrap_or("1")
        );
        let mut statement = self.scratch()?.prepare_cached(&sql)?;
        let key = statement.query_row([], |row| values(row, 0, terms.len())).optional()?;
        Ok(key.and_then(|key| Key::of(u, key)))
    }

    /// The value of a column's DEFAULT clause.
    pub fn default(&self, t: &Tracked, column: usize) -> Result<Value> {
        let Some(default) = &t.table.columns[column].default else { return Ok(Value::Null) };
        if let Some(value) = constant(default) {
            return Ok(value);
        }
        let value = self.scratch()?.query_row(&format!("SELECT {default}"), [], |row| {
            row.get_ref(0).map(crate::sqlvalue::value)
        })?;
        Ok(value)
    }

    /// Where the visible row is that has `key` in the index.
    pub fn holder(
        &self,
        t: &Tracked,
        u: &UniqueIndex,
        key: &Key,
    ) -> Result<Option<crate::catalog::Loc>> {
        let terms = u
            .terms
            .iter()
            .map(|term| format!("({}) COLLATE {} = ?", term.sql, collation_sql(&term.collation)));
        let sql = format!(
            "SELECT {} FROM {} AS o WHERE {} AND ({})",
            loc_sql(&t.table, "o."),
            t.target(),
            terms.collect::<Vec<_>>().join(" AND "),
            u.predicate.as_deref().unwrap_or("1")
        );
        let mut statement = self.main.prepare_cached(&sql)?;
        let found = t.places(&mut statement, params_from_iter(key.values.iter().map(Bind)))?;
        Ok(found.into_iter().next())
    }
}

/// Whether SQLite would store these values as they are, in a table with no constraint on rows but NOT
/// NULL.
fn stored_as_is(t: &Tracked, row: &[Value]) -> bool {
    let key = |c: usize| t.table.primary_key.contains(&c);
    let alias = t.table.rowid_alias();
    t.table.columns.iter().zip(row).enumerate().all(|(c, (column, value))| match value {
        _ if alias == Some(c) => matches!(value, Value::Integer(_)),
        Value::Null => !column.not_null && !key(c),
        Value::Blob(_) => true,
        Value::Text(_) => matches!(column.affinity, Affinity::Text | Affinity::Blob),
        Value::Integer(_) | Value::Real(_) => column.affinity != Affinity::Text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Site;

    /// What is told by values alone is what SQLite tells.
    #[test]
    fn plain_rows_are_judged_as_sqlite_judges_them() {
        let schema = "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE UNIQUE,
                          b INT, c REAL NOT NULL, d, UNIQUE(b, c, d))";
        let site = Site::new(schema);
        let values = [
            Value::Null,
            Value::Integer(5),
            Value::Real(5.0),
            Value::Real(0.5),
            Value::Text(b"5".to_vec()),
            Value::Text(b"Ab".to_vec()),
            Value::Blob(vec![0]),
        ];
        site.replica
            .read(|conn, _, loaded| {
                let (t, validator) = (&loaded.catalog.tables[0], RowValidator::new(conn));
                assert!(validator.plain(t)?.is_some());
                let mut alone = 0;
                for n in 0..7_usize.pow(4) {
                    let at = |place: u32| values[n / 7_usize.pow(place) % 7].clone();
                    let row = [Value::Integer(1), at(0), at(1), at(2), at(3)];
                    let (told, asked) = (validator.row(t, &row)?, validator.ask(t, &row)?);
                    let keys = |v: &Verdict| -> Vec<Option<Vec<u8>>> {
                        v.keys.iter().map(|k| k.as_ref().map(|k| k.canonical.clone())).collect()
                    };
                    assert_eq!((told.valid, keys(&told)), (asked.valid, keys(&asked)), "{row:?}");
                    alone += usize::from(stored_as_is(t, &row));
                }
                assert!(alone > 500);
                Ok(())
            })
            .unwrap();
    }
}
