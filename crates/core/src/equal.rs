//! When two values of a key are the same value (R-EQUAL), in SQL: what [`synqlite_view::equal`] says of
//! values in memory, said so that SQLite finds the rows by it. The tests ask SQLite of both.

use crate::schema::{Affinity, Encoding, quote};
use synqlite_wire::Value;
use synqlite_wire::key::Collation;

pub use synqlite_view::equal::*;

/// [`means_none`] of a column, in SQL, that refers to one of texts.
pub fn means_none_sql(column: &str) -> String {
    let (c, tiny) = (column, "2.2250738585072014e-308");
    format!(
        "typeof({c}) = 'real' AND {c} > -9e999 AND {c} < 9e999 AND ({c} <= -1e15 OR {c} >= 1e15 \
         OR {c} > -{tiny} AND {c} < {tiny} AND {c} <> 0 \
         OR CAST(printf('%.14e', {c}) AS REAL) <> {c})"
    )
}

/// A column of a foreign key, beside the column to which it refers.
pub struct Pair<'a> {
    /// The child's column, in SQL, its affinity and its own collation.
    pub child: (&'a str, Affinity, &'a Collation),
    /// Affinity and collation of the parent's.
    pub parent: &'a (Affinity, Collation),
}

impl Pair<'_> {
    /// Condition under which the child's column means the key value bound to parameter `n`, which the
    /// parent's column has: converted and compared as the parent's. An index on the child's column can
    /// be used unless the two compare too differently.
    pub fn means_sql(&self, key: &Value, n: usize) -> String {
        let ((column, child, own), (parent, collation)) = (self.child, self.parent);
        let is_number = |affinity| !matches!(affinity, Affinity::Text | Affinity::Blob);
        let (text, collate) = (matches!(key, Value::Text(_)), collation_sql(collation));
        let plain = format!("{column} = ?{n}");
        // The + takes the child's affinity away.
        let exact = match (parent, key) {
            (Affinity::Text, Value::Text(_)) if child != Affinity::Text => {
                format!("+{column} = CAST(?{n} AS TEXT) COLLATE {collate}")
            }
            (_, Value::Integer(_) | Value::Real(_)) if is_number(*parent) && !is_number(child) => {
                format!("+{column} = CAST(?{n} AS NUMERIC)")
            }
            _ => format!("+{column} = ?{n} COLLATE {collate}"),
        };
        let alike = child == *parent || is_number(child) && is_number(*parent);
        let (same, wider) = (!text || own == collation, *collation == Collation::Binary);
        match (child, parent) {
            _ if matches!(key, Value::Blob(_)) || alike && same => plain,
            (Affinity::Blob, Affinity::Text) if same => {
                format!("({plain} OR {column} < '' AND {exact})")
            }
            (Affinity::Blob, _) if is_number(*parent) && !text => {
                format!("({plain} OR {column} >= '' AND {column} < x'' AND {exact})")
            }
            _ if (same || wider) && (alike || *parent == Affinity::Blob) => {
                format!("({plain} AND {exact})")
            }
            _ => exact,
        }
    }
}

/// A collation in SQL.
pub fn collation_sql(collation: &Collation) -> String {
    match collation {
        Collation::Binary => "BINARY".to_owned(),
        Collation::NoCase => "NOCASE".to_owned(),
        Collation::Rtrim => "RTRIM".to_owned(),
        Collation::Other(name) => quote(name),
    }
}

/// A text of which SQL's `hex` gave the digits.
pub fn text_of_hex(hex: &str, encoding: Encoding) -> Option<Vec<u8>> {
    let bytes = bytes_of_hex(hex)?;
    let wide = |from: fn([u8; 2]) -> u16| {
        let units = bytes.as_chunks::<2>().0.iter().map(|pair| from(*pair));
        char::decode_utf16(units)
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect::<String>()
    };
    Some(match encoding {
        Encoding::Utf8 => bytes,
        Encoding::Utf16le => wide(u16::from_le_bytes).into_bytes(),
        Encoding::Utf16be => wide(u16::from_be_bytes).into_bytes(),
    })
}

/// The bytes that hex digits stand for.
pub fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(hex.get(i..i + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests;
