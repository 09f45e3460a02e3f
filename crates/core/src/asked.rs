//! Which row somebody means by a primary key that he writes as SQL does, or bare.
//!
//! A key is compared as SQLite compares a literal with its columns: converted by their affinity, under the
//! collations of the key. What reads as a literal is one, unless its column holds texts and it is a number;
//! only if no row has that key is it taken for a text, or for the name of a row.

use crate::catalog::Tracked;
use crate::equal;
use crate::schema::Affinity;
use crate::{Error, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use synqlite_wire::Value;
use synqlite_wire::key::encode_values;

/// A row that is asked for.
pub(crate) struct Asked {
    text: String,
    /// Whether it is taken for what it does not say at first sight.
    loosely: bool,
    /// What was found: the number of the table and what tells its rows apart, with their names.
    found: RefCell<BTreeMap<(u32, Vec<u8>), String>>,
}

impl Asked {
    /// The ways to read it, the first that finds a row counts.
    pub fn readings(text: &str) -> [Asked; 2] {
        [false, true].map(|loosely| Asked {
            text: text.to_owned(),
            loosely,
            found: RefCell::default(),
        })
    }

    /// Whether a row with this key, or else this name, is meant. It is found then.
    pub fn means(&self, t: &Tracked, key: Option<&[Value]>, name: &str) -> bool {
        let named = |text: &str| name == text || name == format!("rowid {text}");
        let meant = match key {
            Some(key @ [_, ..]) => self.is_key(t, key) || self.loosely && name == self.text,
            _ => named(&self.text),
        };
        if meant {
            let bytes = key.filter(|key| !key.is_empty()).map(|key| self.bytes(t, key));
            let bytes = bytes.unwrap_or_else(|| name.as_bytes().to_vec());
            self.found.borrow_mut().entry((t.no, bytes)).or_insert_with(|| name.to_owned());
        }
        meant
    }

    /// Whether any row was found.
    ///
    /// Fails if rows of one table were that have different keys.
    pub fn has_found(&self) -> Result<bool> {
        let found = self.found.borrow();
        let mut rows = found.iter().peekable();
        while let Some(((no, _), name)) = rows.next() {
            if rows.peek().is_some_and(|((other, _), _)| no == other) {
                let same = found.iter().filter(|((other, _), _)| no == other);
                let names: Vec<&str> = same.map(|(_, name)| name.as_str()).take(8).collect();
                let (text, first) = (&self.text, names.join(" or "));
                let why = format!("{text} is the key of no row, and could mean {first}");
                return Err(Error::Refused(if names.iter().all(|other| *other == name) {
                    format!("several rows are called {text}; say the key of one")
                } else {
                    why
                }));
            }
        }
        Ok(!found.is_empty())
    }

    /// That no row is called so.
    pub fn nobody(text: &str, table: Option<&str>) -> Error {
        let of = table.map(|table| format!(" of table {table}")).unwrap_or_default();
        Error::Refused(format!("no change concerns a row{of} with the key {text}"))
    }

    /// The number that is asked for of an integer key.
    pub fn integer(&self) -> Option<i64> {
        let values = values(&self.text, Affinity::Integer, self.loosely);
        let mut stored = values.iter().map(|value| equal::stored(value, Affinity::Integer));
        stored.find_map(|value| value.as_integer())
    }

    /// The primary key that is asked for, as its columns store it: all rows that are meant have it. `None` if
    /// others may be meant too.
    pub fn key(&self, t: &Tracked) -> Option<Vec<Value>> {
        let parts = self.parts(t.table.primary_key.len());
        if self.loosely || parts.len() != t.table.primary_key.len() {
            return None;
        }
        let part = |(part, &c): (&&str, &usize)| {
            let affinity = t.table.columns[c].affinity;
            let value = equal::stored(values(part, affinity, false).first()?, affinity);
            // No key is equal to none in SQL.
            Some(value).filter(|value| *value != Value::Null)
        };
        parts.iter().zip(&t.table.primary_key).map(part).collect()
    }

    /// What is said of each column of a key of so many.
    fn parts(&self, columns: usize) -> Vec<&str> {
        match columns {
            1 => vec![self.text.as_str()],
            _ => parts(&self.text),
        }
    }

    fn bytes(&self, t: &Tracked, key: &[Value]) -> Vec<u8> {
        encode_values(key.iter().zip(&t.table.key_collations))
    }

    fn is_key(&self, t: &Tracked, key: &[Value]) -> bool {
        let parts = self.parts(key.len());
        let part = |((part, key), (c, collation)): ((&&str, &Value), (usize, _))| {
            let affinity = t.table.columns[c].affinity;
            let same = |value: &Value| {
                let value = equal::stored(value, affinity);
                encode_values([(&value, collation)]) == encode_values([(key, collation)])
            };
            values(part, affinity, self.loosely).iter().any(same)
        };
        parts.len() == key.len() && parts.iter().zip(key).zip(t.primary_key()).all(part)
    }
}

/// What a part of a key can mean that is written for a column of this affinity.
fn values(part: &str, affinity: Affinity, loosely: bool) -> Vec<Value> {
    let bare = Value::Text(part.as_bytes().to_vec());
    match literal(part.trim()) {
        Some(Value::Integer(_) | Value::Real(_)) if affinity == Affinity::Text => vec![bare],
        Some(value) if loosely => vec![value, bare],
        Some(value) => vec![value],
        None => vec![bare],
    }
}

/// A literal of SQL, or [`cast`].
pub(crate) fn literal(text: &str) -> Option<Value> {
    let quoted = |text: &str| Some(text.strip_prefix('\'')?.strip_suffix('\'')?.to_owned());
    if let Some(inner) = quoted(text) {
        return Some(Value::Text(inner.replace("''", "'").into_bytes()));
    }
    if let Some(hex) = text.strip_prefix(['x', 'X']).and_then(quoted) {
        let digits = hex.len() % 2 == 0 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        return equal::bytes_of_hex(&hex).filter(|_| digits).map(Value::Blob);
    }
    if text.eq_ignore_ascii_case("NULL") {
        return Some(Value::Null);
    }
    if let Some(text) = cast(text) {
        return Some(text);
    }
    let number = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    if !text.chars().all(number) {
        return None;
    }
    let integer = text.parse().ok().map(Value::Integer);
    integer.or_else(|| text.parse().ok().map(Value::Real))
}

/// `CAST(x'…' AS TEXT)`: a text by its bytes, as rows are called whose keys no line holds.
fn cast(text: &str) -> Option<Value> {
    let text = text.to_ascii_lowercase();
    let inner = text.strip_prefix("cast")?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    let bytes = inner.trim_end().strip_suffix("text")?.trim_end().strip_suffix("as")?.trim();
    match literal(bytes) {
        Some(Value::Blob(bytes)) => Some(Value::Text(bytes)),
        _ => None,
    }
}

/// The parts of a key of several columns, of which a text in quotes may hold a comma.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut quoted) = (vec![], 0, false);
    for (at, c) in text.char_indices() {
        quoted ^= c == '\'';
        if !quoted && c == ',' {
            parts.push(text[begin..at].trim());
            begin = at + 1;
        }
    }
    parts.push(text[begin..].trim());
    parts
}
