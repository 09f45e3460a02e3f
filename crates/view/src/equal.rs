//! When two values of a key are the same value (R-EQUAL): exactly when SQLite holds them for equal.
//!
//! A column first converts what it is given by its affinity; then values compare by storage class, by
//! exact number, or by the bytes that a collation tells apart. [`synqlite_wire::key::normalise`] is the
//! second half; here is the first, and both together for foreign keys, where the value of one column
//! is converted and compared as if it were one of the column that it refers to. Capture, identities,
//! references and waiting rows all ask here or in SQL that compares alike (`equal` in the engine), whose
//! tests ask SQLite.
//!
//! Equal is not the same: 'ABC' and 'abc' may be one key, and each stays as somebody spelled it.

use crate::schema::{Affinity, ForeignKey, Table};
use synqlite_wire::Value;
use synqlite_wire::key::{Collation, encode_values};

/// Bytes of values in the columns of a foreign key, as the parent's columns compare them: equal exactly
/// if they mean the same parent.
pub fn reference_bytes<'v>(
    fk: &ForeignKey,
    values: impl IntoIterator<Item = &'v Value>,
) -> Vec<u8> {
    let converted: Vec<Value> = values
        .into_iter()
        .zip(&fk.parent_keys)
        .map(|(v, (affinity, _))| match means_none(v, *affinity) {
            true => v.clone(),
            // SQLite compares an integer with a REAL key exactly, though the column has no room for it.
            false if *affinity == Affinity::Real => stored(v, Affinity::Numeric),
            false => stored(v, *affinity),
        })
        .collect();
    encode_values(converted.iter().zip(fk.parent_keys.iter().map(|(_, collation)| collation)))
}

/// Whether a reference of this value can mean no key of a column of this affinity. SQLite's versions
/// differ in the text of a double of more than fifteen digits, so what one holds for the key another
/// does not: such a double means no text at all.
pub fn means_none(value: &Value, parent: Affinity) -> bool {
    let long = |r: f64| {
        r.is_finite()
            && (r.abs() >= 1e15 || r.is_subnormal() || format!("{r:.14e}").parse() != Ok(r))
    };
    parent == Affinity::Text && matches!(value, Value::Real(r) if long(*r))
}

/// R-SPELL: what a reference shows whose register holds `written`, if the row that it refers to shows
/// `key`: what was written as long as it means that key, else the key as the child's columns, of these
/// affinities, store it.
pub fn spelled(
    fk: &ForeignKey,
    written: &[&Value],
    key: &[&Value],
    affinities: &[Affinity],
) -> Vec<Value> {
    let bytes = |values: &[&Value]| reference_bytes(fk, values.iter().copied());
    if !written.iter().any(|v| v.is_null()) && bytes(written) == bytes(key) {
        return written.iter().map(|&v| v.clone()).collect();
    }
    key.iter().zip(affinities).map(|(v, affinity)| stored(v, *affinity)).collect()
}

/// Whether values of a foreign key of this table that mean one key are always the same: then nobody can
/// spell a reference otherwise.
pub fn one_spelling(t: &Table, fk: &ForeignKey) -> bool {
    let mut columns = fk.columns.iter().zip(&fk.parent_keys);
    columns.all(|(&c, (parent, collation))| {
        let child = t.columns[c].affinity;
        child == *parent && child != Affinity::Blob && *collation == Collation::Binary
    })
}

/// What a column of this affinity stores when it is given `value`.
#[inline]
pub fn stored(value: &Value, affinity: Affinity) -> Value {
    converted(value, affinity).unwrap_or_else(|| value.clone())
}

/// The same; `None` if it stores the value as it is
/// (<https://sqlite.org/datatype3.html#type_affinity>).
#[inline]
pub fn converted(value: &Value, affinity: Affinity) -> Option<Value> {
    match (affinity, value) {
        (Affinity::Text, Value::Integer(i)) => Some(Value::Text(i.to_string().into_bytes())),
        (Affinity::Text, Value::Real(r)) => Some(Value::Text(real_text(*r).into_bytes())),
        (Affinity::Numeric | Affinity::Integer, Value::Text(t)) => match number(t)? {
            Value::Real(r) => whole(r).or(Some(Value::Real(r))),
            integer => Some(integer),
        },
        (Affinity::Numeric | Affinity::Integer, Value::Real(r)) => whole(*r),
        (Affinity::Real, Value::Integer(i)) => Some(Value::Real(*i as f64)),
        (Affinity::Real, Value::Text(t)) => match number(t)? {
            Value::Integer(i) => Some(Value::Real(i as f64)),
            real => converted(&real, affinity).or(Some(real)),
        },
        // It is stored as the integer that it equals, which has no sign.
        (Affinity::Real, Value::Real(r)) if *r == 0.0 && r.is_sign_negative() => {
            Some(Value::Real(0.0))
        }
        _ => None,
    }
}

/// Whether a column of this affinity stores the value as it is.
#[inline]
pub fn keeps(value: &Value, affinity: Affinity) -> bool {
    converted(value, affinity).is_none()
}

/// The integer that a double is; the outermost two stay doubles, as in SQLite.
fn whole(r: f64) -> Option<Value> {
    let i = r as i64;
    (i as f64 == r && i > i64::MIN && i < i64::MAX).then_some(Value::Integer(i))
}

/// The number that a text is, blanks around it aside.
fn number(text: &[u8]) -> Option<Value> {
    let is_blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r');
    let start = text.iter().position(|b| !is_blank(b))?;
    let end = text.iter().rposition(|b| !is_blank(b))? + 1;
    let text = std::str::from_utf8(&text[start..end]).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['+', '-']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    if !digits(before) || !digits(after) || before.len() + after.len() == 0 || !exponent_fits {
        return None;
    }
    if exponent.is_none()
        && !mantissa.contains('.')
        && let Ok(i) = text.parse()
    {
        return Some(Value::Integer(i));
    }
    text.parse().ok().map(Value::Real)
}

/// A double as text, alike on all sites: with fifteen digits, as SQLite long wrote it (`%!.15g`).
fn real_text(r: f64) -> String {
    if r.is_infinite() {
        return if r > 0.0 { "Inf" } else { "-Inf" }.to_owned();
    }
    if r == 0.0 {
        return "0.0".to_owned();
    }
    let scientific = format!("{r:.14e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let with_point = |digits: &str| match digits.trim_end_matches('0') {
        short if short.ends_with('.') => format!("{short}0"),
        short => short.to_owned(),
    };
    if (-4..=14).contains(&exponent) {
        let places = usize::try_from(14 - exponent).unwrap_or(0);
        let text = format!("{r:.places$}");
        return if text.contains('.') { with_point(&text) } else { format!("{text}.0") };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", with_point(mantissa), exponent.abs())
}
