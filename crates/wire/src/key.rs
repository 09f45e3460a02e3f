//! Canonical bytes of a primary key: equal exactly when SQLite holds two keys for equal (R-ID-KEY).
//!
//! A part covered by a foreign key is the identity of the row it refers to, not its number, so that
//! children of two rows with one number stay apart. Other parts are values, normalised as the key's
//! collation compares them.

use crate::ids::{Id, Rid, SiteId};
use crate::value::Value;
use std::borrow::Cow;

/// How SQLite compares the text of a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Collation {
    /// Byte by byte.
    Binary,
    /// ASCII letters of either case are equal.
    NoCase,
    /// Trailing spaces do not count.
    Rtrim,
    /// One the application defines, by name: compared byte by byte here.
    Other(String),
}

/// One component of a primary key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyPart {
    /// A value, normalised by [`normalise`].
    Value(Value),
    /// The row that the component's foreign key refers to.
    Row(Rid),
}

/// The first number that no 64-bit integer is.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// The representative of all values that SQLite holds for equal to `value` under `collation`.
///
/// Integers and doubles are compared by their exact values, so a double without a fraction stands for
/// an integer wherever there is such an integer.
pub fn normalise<'v>(value: &'v Value, collation: &Collation) -> Cow<'v, Value> {
    Cow::Owned(match (value, collation) {
        (Value::Real(r), _) if r.fract() == 0.0 && (-TWO_TO_63..TWO_TO_63).contains(r) => {
            Value::Integer(*r as i64)
        }
        (Value::Text(t), Collation::NoCase) => {
            // NOCASE ends its look at a NUL; of what follows only the length counts.
            let mut folded = t.to_ascii_lowercase();
            folded.iter_mut().skip_while(|b| **b != 0).for_each(|b| *b = 0);
            Value::Text(folded)
        }
        (Value::Text(t), Collation::Rtrim) => {
            let mut text = t.clone();
            text.truncate(t.iter().rposition(|&b| b != b' ').map_or(0, |i| i + 1));
            Value::Text(text)
        }
        _ => return Cow::Borrowed(value),
    })
}

/// Encodes a key that is made of values only, each compared under its collation.
pub fn encode_values<'v>(key: impl IntoIterator<Item = (&'v Value, &'v Collation)>) -> Vec<u8> {
    let mut out = Vec::new();
    for (value, collation) in key {
        put_value(&mut out, &normalise(value, collation));
    }
    out
}

/// Encodes the parts of a key. Injective: [`decode`] gives the parts back.
pub fn encode(parts: &[KeyPart]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        match part {
            KeyPart::Value(value) => put_value(&mut out, value),
            KeyPart::Row(Rid::Birth { site, n }) => {
                out.push(5);
                out.extend(site.0);
                out.extend(n.to_be_bytes());
            }
            KeyPart::Row(Rid::Key { key, generation }) => {
                put_bytes(&mut out, 6, key);
                out.extend(generation.to_be_bytes());
            }
        }
    }
    out
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Integer(i) => {
            out.push(1);
            out.extend(i.to_be_bytes());
        }
        Value::Real(r) => {
            out.push(2);
            out.extend(r.to_bits().to_be_bytes());
        }
        Value::Text(t) => put_bytes(out, 3, t),
        Value::Blob(b) => put_bytes(out, 4, b),
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    out.extend((bytes.len() as u64).to_be_bytes());
    out.extend(bytes);
}

/// The parts of an encoded key, or `None` if the bytes are no such encoding.
pub fn decode(mut bytes: &[u8]) -> Option<Vec<KeyPart>> {
    let mut parts = Vec::new();
    while let Some((&tag, rest)) = bytes.split_first() {
        bytes = rest;
        parts.push(match tag {
            0 => KeyPart::Value(Value::Null),
            1 => KeyPart::Value(Value::Integer(take(&mut bytes).map(i64::from_be_bytes)?)),
            2 => {
                let bits = take(&mut bytes).map(u64::from_be_bytes)?;
                KeyPart::Value(Value::Real(f64::from_bits(bits)))
            }
            3 => KeyPart::Value(Value::Text(take_bytes(&mut bytes)?)),
            4 => KeyPart::Value(Value::Blob(take_bytes(&mut bytes)?)),
            5 => {
                let site = Id(take(&mut bytes)?);
                KeyPart::Row(Rid::Birth { site, n: take(&mut bytes).map(u64::from_be_bytes)? })
            }
            6 => {
                let key = take_bytes(&mut bytes)?;
                let generation = take(&mut bytes).map(u32::from_be_bytes)?;
                KeyPart::Row(Rid::Key { key, generation })
            }
            _ => return None,
        });
    }
    Some(parts)
}

/// The values of an encoded key, or `None` if one of its parts is a row.
pub fn decode_values(bytes: &[u8]) -> Option<Vec<Value>> {
    let value = |part| match part {
        KeyPart::Value(value) => Some(value),
        KeyPart::Row(_) => None,
    };
    decode(bytes)?.into_iter().map(value).collect()
}

/// Gives the sites in an encoded key other names. `births`: what becomes of a site, given a birth there.
pub fn rename(bytes: &mut Vec<u8>, births: &mut dyn FnMut(&mut SiteId, u64)) {
    if is_of_values(bytes) {
        return;
    }
    let Some(mut parts) = decode(bytes) else { return };
    for part in &mut parts {
        if let KeyPart::Row(rid) = part {
            rid.rename(births);
        }
    }
    *bytes = encode(&parts);
}

impl Rid {
    /// Gives the site of a birth another name, and those in a key.
    pub fn rename(&mut self, births: &mut dyn FnMut(&mut SiteId, u64)) {
        match self {
            Rid::Birth { site, n } => births(site, *n),
            Rid::Key { key, .. } => rename(key, births),
        }
    }
}

/// Whether these are the bytes of a key of which no part is a row.
pub fn is_of_values(mut bytes: &[u8]) -> bool {
    while let Some((&tag, rest)) = bytes.split_first() {
        bytes = rest;
        let len = match tag {
            0 => Some(0),
            1 | 2 => Some(8),
            3 | 4 => take(&mut bytes).and_then(|len| usize::try_from(u64::from_be_bytes(len)).ok()),
            _ => None,
        };
        match len.and_then(|len| bytes.get(len..)) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    true
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

fn take_bytes(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(u64::from_be_bytes(take(bytes)?)).ok()?;
    let (head, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(head.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn equal_keys_have_one_representative() {
        let n = |v: Value, c| normalise(&v, &c).into_owned();
        assert_eq!(n(Value::Real(1.0), Collation::Binary), Value::Integer(1));
        assert_eq!(n(Value::Real(-0.0), Collation::Binary), Value::Integer(0));
        assert_eq!(n(Value::Real(0.5), Collation::Binary), Value::Real(0.5));
        assert_eq!(n(Value::Real(1e16), Collation::Binary), Value::Integer(10_i64.pow(16)));
        assert_eq!(n(Value::Real(-TWO_TO_63), Collation::Binary), Value::Integer(i64::MIN));
        assert_eq!(n(Value::Real(TWO_TO_63), Collation::Binary), Value::Real(TWO_TO_63));
        assert_eq!(n(Value::Real(f64::INFINITY), Collation::Rtrim), Value::Real(f64::INFINITY));
        assert_eq!(n("BoB".into(), Collation::NoCase), "bob".into());
        assert_eq!(n("A\0b".into(), Collation::NoCase), "a\0\0".into());
        assert_eq!(n("a  ".into(), Collation::Rtrim), "a".into());
        assert_eq!(n("a  ".into(), Collation::Binary), "a  ".into());
    }

    #[test]
    fn keys_decode_to_what_was_encoded() {
        let parts = vec![
            KeyPart::Value(Value::Null),
            KeyPart::Value(Value::Integer(-3)),
            KeyPart::Value(Value::Real(0.25)),
            KeyPart::Value("k".into()),
            KeyPart::Value(Value::Blob(vec![0, 255])),
            KeyPart::Row(Rid::Birth { site: Id([7; 16]), n: 9 }),
            KeyPart::Row(Rid::Key { key: vec![1, 2], generation: 3 }),
        ];
        assert_eq!(decode(&encode(&parts)), Some(parts));
        assert_eq!(decode(&[3, 0]), None);
        assert_eq!(decode(&[9]), None);
    }

    fn part() -> impl Strategy<Value = KeyPart> {
        prop_oneof![
            strategies::value().prop_map(KeyPart::Value),
            strategies::rid().prop_map(KeyPart::Row),
        ]
    }

    proptest! {
        #[test]
        fn decoding_inverts_encoding(parts in vec(part(), 0..5)) {
            prop_assert_eq!(decode(&encode(&parts)), Some(parts));
        }

        #[test]
        fn unequal_keys_have_unequal_bytes(a in vec(part(), 0..3), b in vec(part(), 0..3)) {
            prop_assert_eq!(encode(&a) == encode(&b), a == b);
        }

        /// A key is of one length only: its bytes followed by others are another key, or none.
        #[test]
        fn bytes_that_decode_are_what_their_parts_encode_to(
            parts in vec(part(), 0..3),
            more in vec(any::<u8>(), 0..20),
        ) {
            let mut bytes = encode(&parts);
            bytes.extend(more);
            let decoded = decode_values(&bytes);
            prop_assert_eq!(is_of_values(&bytes), decoded.is_some());
            if let Some(parts) = decode(&bytes) {
                let values = parts.iter().all(|part| matches!(part, KeyPart::Value(_)));
                prop_assert_eq!(values, decoded.is_some());
                prop_assert_eq!(encode(&parts), bytes);
            }
        }
    }
}
