//! Answers as tables: `SELECT * FROM synqlite_conflicts`, of an attached database `synqlite_conflicts('name')`.
//!
//! A table reads all of its rows when a query begins, on a connection of its own.

use crate::call::{Result, Use, file_of};
use crate::functions::told;
use rusqlite::types::Value;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor,
};
use rusqlite::{Connection, Error, ffi};
use std::borrow::Cow;
use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::raw::c_int;
use std::sync::Arc;
use synqlite_core::{Replica, System};

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
        // SAFETY: the handle is used while the table is, which SQLite destroys before the connection.
        let db = unsafe { db.handle() };
        let base = ffi::sqlite3_vtab::default();
        Ok((Cow::Borrowed(R::COLUMNS), Table { base, db, columns, of: PhantomData }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> rusqlite::Result<bool> {
        for (constraint, mut usage) in info.constraints_and_usages() {
            if constraint.column() == self.columns
                && constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ
            {
                if !constraint.is_usable() {
                    return Ok(false);
                }
                usage.set_argv_index(1);
                usage.set_omit(true);
            }
        }
        info.set_estimated_cost(1e6);
        Ok(true)
    }

    fn open(&mut self) -> rusqlite::Result<Cursor<'v, R>> {
        let base = ffi::sqlite3_vtab_cursor::default();
        Ok(Cursor { base, db: self.db, rows: vec![], at: 0, of: PhantomData })
    }
}

#[repr(C)]
struct Cursor<'v, R> {
    /// SQLite's part, which must be the first.
    base: ffi::sqlite3_vtab_cursor,
    db: *mut ffi::sqlite3,
    rows: Vec<Vec<Value>>,
    at: usize,
    of: PhantomData<&'v Table<R>>,
}

// SAFETY: `base` is the first field of a `repr(C)` struct.
unsafe impl<R: Rows> VTabCursor for Cursor<'_, R> {
    fn filter(&mut self, _: c_int, _: Option<&str>, args: &Filters<'_>) -> rusqlite::Result<()> {
        let schema: Option<String> = if args.is_empty() { None } else { args.get(0)? };
        // SAFETY: the connection is the one that asks; it is not closed here.
        let conn = unsafe { Connection::from_handle(self.db)? };
        let read = || -> Result<Vec<Vec<Value>>> {
            let path = file_of(&conn, schema.as_deref().unwrap_or("main"), Use::Reads)?;
            R::rows(&Replica::open(&path, Arc::new(System))?)
        };
        self.rows = read().map_err(|failure| Error::ModuleError(told(&failure)))?;
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
        ctx.set_result(value.unwrap_or(&Value::Null))
    }

    fn rowid(&self) -> rusqlite::Result<i64> {
        Ok(self.at as i64)
    }
}
