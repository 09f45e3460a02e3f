//! Values between SQLite and the wire types, byte for byte.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use synqlite_view::catalog::Loc;
use synqlite_wire::{Hlc, Id, Value, VersionVector};

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

/// The place of a row, as a parameter.
pub struct At<'a>(pub &'a Loc);

impl rusqlite::ToSql for At<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self.0 {
            Loc::Row(rowid) => rowid.to_sql(),
            Loc::Key(key) => key.to_sql(),
        }
    }
}

/// The place of a row, as a result.
pub struct Located(pub Loc);

impl rusqlite::types::FromSql for Located {
    fn column_result(v: ValueRef<'_>) -> rusqlite::types::FromSqlResult<Located> {
        match v {
            ValueRef::Integer(i) => Ok(Located(Loc::Row(i))),
            _ => v.as_str().map(|s| Located(Loc::Key(s.to_owned()))),
        }
    }
}

/// Bytes as digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A version vector: each site (16 bytes) with its clock (8, little-endian).
pub struct Vector(pub VersionVector);

impl Vector {
    /// As it is stored.
    pub fn bytes(&self) -> Vec<u8> {
        let entry = |(site, hlc): (&Id, &Hlc)| [&site.0[..], &hlc.0.to_le_bytes()].concat();
        self.0.0.iter().flat_map(entry).collect()
    }
}

impl ToSql for Vector {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.bytes().into())
    }
}

impl FromSql for Vector {
    fn column_result(from: ValueRef<'_>) -> FromSqlResult<Vector> {
        let (mut rest, mut vector) = (from.as_blob()?, VersionVector::default());
        while let Some((site, after)) = rest.split_first_chunk::<16>() {
            let (hlc, after) = after.split_first_chunk::<8>().ok_or(FromSqlError::InvalidType)?;
            vector.raise(Id(*site), Hlc(i64::from_le_bytes(*hlc)));
            rest = after;
        }
        rest.is_empty().then_some(Vector(vector)).ok_or(FromSqlError::InvalidType)
    }
}
