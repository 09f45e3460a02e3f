//! SQLite itself judges rows: a scratch copy of each table says whether a row meets its NOT NULL,
//! CHECK and STRICT constraints, and what its unique keys are, expressions and generated columns
//! included.

use crate::Result;
use crate::catalog::{Tracked, loc_sql};
use crate::schema::{Collation, UniqueIndex, quote};
use crate::sqlvalue::{Bind, values};
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use synqlite_wire::Value;
use synqlite_wire::key::{KeyPart, encode, normalise};

/// A key of a row in a unique index.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// Values as the index stores them.
    pub values: Vec<Value>,
    /// Equal exactly when the index holds two keys for equal.
    pub canonical: Vec<u8>,
}

/// What SQLite says of a row.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    /// Whether the row meets every constraint on single rows.
    pub valid: bool,
    /// Its key in each unique index; `None` where the index does not hold it, or a value is NULL.
    pub keys: Vec<Option<Key>>,
}

/// The scratch database.
pub(super) struct Judge<'a> {
    main: &'a Connection,
    scratch: Connection,
    made: RefCell<HashSet<u32>>,
    /// Verdicts by table and row: a view is computed several times, of mostly the same rows.
    known: RefCell<HashMap<(u32, Vec<u8>), Verdict>>,
}

impl<'a> Judge<'a> {
    pub fn new(main: &'a Connection) -> Result<Judge<'a>> {
        let scratch = Connection::open_in_memory()?;
        scratch.execute_batch("PRAGMA foreign_keys=OFF")?;
        scratch.set_prepared_statement_cache_capacity(256);
        Ok(Judge { main, scratch, made: RefCell::default(), known: RefCell::default() })
    }

    fn make(&self, t: &Tracked) -> Result<()> {
        if !self.made.borrow_mut().insert(t.no) {
            return Ok(());
        }
        let sql = "SELECT sql FROM main.sqlite_master WHERE type = 'table' AND name = ?1";
        let sql: String = self.main.query_row(sql, [&t.table.name], |row| row.get(0))?;
        self.scratch.execute_batch(&sql)?;
        Ok(())
    }

    /// Judges a row of stored columns.
    pub fn row(&self, t: &Tracked, row: &[Value]) -> Result<Verdict> {
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
        self.scratch.prepare_cached(&format!("DELETE FROM {table}"))?.execute([])?;
        let marks = vec!["?"; row.len()].join(",");
        let sql = format!("INSERT OR ABORT INTO {table}({}) VALUES({marks})", t.column_list());
        let done =
            self.scratch.prepare_cached(&sql)?.execute(params_from_iter(row.iter().map(Bind)));
        let uniques = &t.table.uniques;
        match done {
            Ok(_) => {
                let keys = uniques.iter().map(|u| self.key(t, u)).collect::<Result<_>>()?;
                Ok(Verdict { valid: true, keys })
            }
            Err(e)
                if matches!(
                    e.sqlite_error_code(),
                    // What is no integer is refused as a mismatch where an integer key is due.
                    Some(
                        rusqlite::ErrorCode::ConstraintViolation
                            | rusqlite::ErrorCode::TypeMismatch
                    )
                ) =>
            {
                Ok(Verdict { valid: false, keys: vec![None; uniques.len()] })
            }
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
        let mut statement = self.scratch.prepare_cached(&sql)?;
        let key = statement.query_row([], |row| values(row, 0, terms.len())).optional()?;
        let Some(key) = key.filter(|key| !key.iter().any(Value::is_null)) else { return Ok(None) };
        let parts =
            key.iter().zip(&u.terms).map(|(v, term)| KeyPart::Value(normalise(v, &term.collation)));
        let canonical = encode(&parts.collect::<Vec<_>>());
        Ok(Some(Key { values: key, canonical }))
    }

    /// The value of a column's DEFAULT clause.
    pub fn default(&self, t: &Tracked, column: usize) -> Result<Value> {
        let Some(default) = &t.table.columns[column].default else { return Ok(Value::Null) };
        let value = self.scratch.query_row(&format!("SELECT {default}"), [], |row| {
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
        let terms = u.terms.iter().map(|term| {
            let collation = match &term.collation {
                Collation::Binary => "BINARY".to_owned(),
                Collation::NoCase => "NOCASE".to_owned(),
                Collation::Rtrim => "RTRIM".to_owned(),
                Collation::Other(name) => quote(name),
            };
            format!("({}) COLLATE {collation} = ?", term.sql)
        });
        let sql = format!(
            "SELECT {} FROM {} AS o WHERE {} AND ({})",
            loc_sql(&t.table, "o."),
            t.target(),
            terms.collect::<Vec<_>>().join(" AND "),
            u.predicate.as_deref().unwrap_or("1")
        );
        let mut statement = self.main.prepare_cached(&sql)?;
        let found = statement
            .query_row(params_from_iter(key.values.iter().map(Bind)), |row| row.get(0))
            .optional()?;
        Ok(found)
    }
}
