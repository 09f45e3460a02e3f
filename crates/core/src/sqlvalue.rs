//! Values between SQLite and the wire types, byte for byte.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use synqlite_wire::Value;

/// Binds a wire value as it is, text that is not UTF-8 included.
pub struct Bind<'a>(pub &'a Value);

impl ToSql for Bind<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(as_ref(self.0)))
    }
}

/// A wire value as SQLite sees it.
pub fn as_ref(value: &Value) -> ValueRef<'_> {
    match value {
        Value::Null => ValueRef::Null,
        Value::Integer(i) => ValueRef::Integer(*i),
        Value::Real(r) => ValueRef::Real(*r),
        Value::Text(t) => ValueRef::Text(t),
        Value::Blob(b) => ValueRef::Blob(b),
    }
}

/// The value of one result column.
pub fn value(from: ValueRef<'_>) -> Value {
    match from {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(i) => Value::Integer(i),
        ValueRef::Real(r) => Value::Real(r),
        ValueRef::Text(t) => Value::Text(t.to_vec()),
        ValueRef::Blob(b) => Value::Blob(b.to_vec()),
    }
}

/// `count` values of a result row, from column `first` on.
pub fn values(row: &rusqlite::Row<'_>, first: usize, count: usize) -> rusqlite::Result<Vec<Value>> {
    (first..first + count).map(|i| row.get_ref(i).map(value)).collect()
}
