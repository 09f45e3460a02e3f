//! SQLite values as they travel: with their storage class, byte for byte.

/// One SQLite value.
///
/// Text is bytes: SQLite stores text that is not UTF-8, and such text must survive the journey.
/// Equality is exact: storage class and bits.
#[derive(Clone, Debug)]
pub enum Value {
    /// NULL.
    Null,
    /// 64-bit signed integer.
    Integer(i64),
    /// IEEE double; never NaN, which SQLite stores as NULL.
    Real(f64),
    /// Text in the database's encoding as SQLite hands it out, normally UTF-8.
    Text(Vec<u8>),
    /// Blob.
    Blob(Vec<u8>),
}

impl Value {
    /// Whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The integer, if this is one.
    pub fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Integer(i) => Some(*i),
            _ => None,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Integer(a), Value::Integer(b)) => a == b,
            (Value::Real(a), Value::Real(b)) => a.to_bits() == b.to_bits(),
            (Value::Text(a), Value::Text(b)) | (Value::Blob(a), Value::Blob(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Value {
        Value::Integer(i)
    }
}
