//! The value of a DEFAULT clause, where it is one value for all sites and times.

use synqlite_wire::Value;

/// The value of a literal: a number, text, a blob, NULL, TRUE or FALSE, in parentheses or not.
/// `None` for anything that has to be computed, which two sites might do differently.
pub fn constant(sql: &str) -> Option<Value> {
    let text = sql.trim();
    if let Some(inner) = text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        return constant(inner);
    }
    match text.to_ascii_uppercase().as_str() {
        "NULL" => return Some(Value::Null),
        "TRUE" => return Some(Value::Integer(1)),
        "FALSE" => return Some(Value::Integer(0)),
        _ => {}
    }
    for quote in ['\'', '"'] {
        let inner = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
        if let Some(inner) = inner {
            let (double, single) = (format!("{quote}{quote}"), quote.to_string());
            let plain = !inner.replace(&double, "").contains(quote);
            return plain.then(|| Value::Text(inner.replace(&double, &single).into_bytes()));
        }
    }
    let hex = text.strip_prefix(['x', 'X']).and_then(|t| t.strip_prefix('\''));
    if let Some(hex) = hex.and_then(|t| t.strip_suffix('\'')) {
        let pairs = (0..hex.len()).step_by(2).map(|i| hex.get(i..i + 2));
        let bytes = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok());
        return bytes.collect::<Option<Vec<u8>>>().map(Value::Blob);
    }
    if !text.starts_with(['+', '-', '.', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
        return None;
    }
    let integer = text.strip_prefix('+').unwrap_or(text).parse().map(Value::Integer);
    integer.ok().or_else(|| text.parse().ok().map(Value::Real))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_constant() {
        let text = |s: &str| Some(Value::Text(s.as_bytes().to_vec()));
        assert_eq!(constant("'it''s'"), text("it's"));
        assert_eq!(constant("(\"open\")"), text("open"));
        assert_eq!(constant("-12"), Some(Value::Integer(-12)));
        assert_eq!(constant("( +1.5 )"), Some(Value::Real(1.5)));
        assert_eq!(constant("null"), Some(Value::Null));
        assert_eq!(constant("True"), Some(Value::Integer(1)));
        assert_eq!(constant("x'00fF'"), Some(Value::Blob(vec![0, 255])));
    }

    #[test]
    fn what_is_computed_is_not() {
        for sql in ["CURRENT_TIMESTAMP", "random()", "'a' || 'b'", "1 + 1", "inf", "x'0", ""] {
            assert_eq!(constant(sql), None, "{sql}");
        }
    }
}
