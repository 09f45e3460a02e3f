//! Answers as tables: `SELECT * FROM synqlite_conflicts`, of an attached database `synqlite_conflicts('name')`.
//!
//! A table reads all of its rows when a query begins, on a connection of its own.

use crate::call::{Result, Use, file_of, machine, usage};
use crate::functions::{guarded, told};
use rusqlite::types::Value;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection,
    VTabCursor,
};
use rusqlite::{Connection, Error, ffi};
use std::borrow::Cow;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::time::Duration;
use synqlite_core::Replica;

/// How long a table waits for others: the query that asks may be in their way.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a table shows.
pub trait Rows: 'static {
    /// Its name.
    const NAME: &CStr;
    /// Its columns; the last is `schema HIDDEN`.
    const COLUMNS: &CStr;
    /// Its rows, without the last column.
    fn rows(replica: &Replica) -> Result<Vec<Vec<Value>>>;
}

/// Makes a table known to a connection.
pub fn register<R: Rows>(db: &Connection) -> rusqlite::Result<()> {
    db.create_module(R::NAME, &Table::<R>::MODULE, None)
}

impl<R: Rows> Table<R> {
    const MODULE: Module<'static, Table<R>> = Module::eponymous_only_module();
}

#[repr(C)]
struct Table<R> {
    /// SQLite's part, which must be the first.
    base: ffi::sqlite3_vtab,
    db: *mut ffi::sqlite3,
    columns: c_int,
    of: PhantomData<R>,
}

// SAFETY: `base` is the first field of a `repr(C)` struct.
unsafe impl<'v, R: Rows> VTab<'v> for Table<R> {
    type Aux = ();
    type Cursor = Cursor<'v, R>;

    fn connect(
        db: &mut VTabConnection,
        _: Option<&()>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> rusqlite::Result<(Cow<'static, CStr>, Table<R>)> {
        let columns = R::COLUMNS.to_bytes().iter().filter(|&&b| b == b',').count() as c_int;
        // A view in somebody else's file must not read the log of another.
        db.config(VTabConfig::DirectOnly)?;
        // SAFETY: the handle is used while the table is, which SQLite destroys before the connection.
        let db = unsafe { db.handle() };
        let base = ffi::sqlite3_vtab::default();
        Ok((Cow::Borrowed(R::COLUMNS), Table { base, db, columns, of: PhantomData }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        // Where the schema is told twice, SQLite compares the second with what the column shows.
        let mut told = false;
        for (constraint, mut usage) in info.constraints_and_usages() {
            let names = constraint.column() == self.columns
                && constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ;
            if names && !told {
                if !constraint.is_usable() {
                    return Ok(false);
                }
                usage.set_argv_index(1);
                usage.set_omit(true);
                told = true;
            }
        }
        info.set_estimated_cost(1e6);
        Ok(true)
    }

    fn open(&mut self) -> rusqlite::Result<Cursor<'v, R>> {
        let base = ffi::sqlite3_vtab_cursor::default();
        Ok(Cursor {
            base,
            db: self.db,
            schema: String::new(),
            rows: vec![],
            at: 0,
            of: PhantomData,
        })
    }
}

#[repr(C)]
struct Cursor<'v, R> {
    /// SQLite's part, which must be the first.
    base: ffi::sqlite3_vtab_cursor,
    db: *mut ffi::sqlite3,
    /// The database that is read.
    schema: String,
    rows: Vec<Vec<Value>>,
    at: usize,
    of: PhantomData<&'v Table<R>>,
}

// SAFETY: `base` is the first field of a `repr(C)` struct.
unsafe impl<R: Rows> VTabCursor for Cursor<'_, R> {
    fn filter(&mut self, _: c_int, _: Option<&str>, args: &Filters<'_>) -> rusqlite::Result<()> {
        let schema = if args.is_empty() { Value::Null } else { args.get(0)? };
        // SAFETY: the connection is the one that asks; it is not closed here.
        let conn = unsafe { Connection::from_handle(self.db)? };
        let read = || -> Result<(String, Vec<Vec<Value>>)> {
            let schema = match schema {
                Value::Null => "main".to_owned(),
                Value::Text(name) => name,
                _ => return Err(usage("the name of a database is to be a text")),
            };
            let path = file_of(&conn, &schema, Use::Reads)?;
            Ok((schema, R::rows(&Replica::open(&path, machine(PATIENCE))?)?))
        };
        let read = guarded(read).map_err(|failure| Error::ModuleError(told(&failure)))?;
        (self.schema, self.rows) = read;
        self.at = 0;
        Ok(())
    }

    fn next(&mut self) -> rusqlite::Result<()> {
        self.at += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&self, ctx: &mut Context, column: c_int) -> rusqlite::Result<()> {
        let value = usize::try_from(column).ok().and_then(|column| self.rows[self.at].get(column));
        match value {
            Some(value) => ctx.set_result(value),
            None => ctx.set_result(&self.schema),
        }
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(self.at as i64)
    }
}
