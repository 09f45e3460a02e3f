//! The value of a DEFAULT clause, where it is one value for all sites and times.

use synqlite_wire::Value;

/// The value of a literal: a number, text, a blob, NULL, TRUE or FALSE, in parentheses or not. A name is a text in
/// this place: `DEFAULT draft`.
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
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        return Some(Value::Text(inner.as_bytes().to_vec()));
    }
    for quote in ['\'', '"', '`'] {
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
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
    if text.chars().all(is_of_name) && text.starts_with(|c: char| !c.is_ascii_digit()) {
        let times = ["CURRENT_TIME", "CURRENT_DATE", "CURRENT_TIMESTAMP"];
        let is_time = times.iter().any(|time| text.eq_ignore_ascii_case(time));
        return (!is_time).then(|| Value::Text(text.as_bytes().to_vec()));
    }
    number(text)
}

/// A number as SQL writes it.
fn number(text: &str) -> Option<Value> {
    let (minus, digits) = match text.split_at_checked(1)? {
        ("-", digits) => ("-", digits.trim_start()),
        ("+", digits) => ("", digits.trim_start()),
        _ => ("", text),
    };
    if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        let number = u64::from_str_radix(hex, 16).ok()?.cast_signed();
        return Some(Value::Integer(if minus.is_empty() { number } else { number.wrapping_neg() }));
    }
    if !digits.starts_with(|c: char| c == '.' || c.is_ascii_digit()) {
        return None;
    }
    let text = format!("{minus}{digits}");
    text.parse().map(Value::Integer).ok().or_else(|| text.parse().ok().map(Value::Real))
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
        for sql in ["draft", "[draft]", "`draft`", "\"draft\""] {
            assert_eq!(constant(sql), text("draft"));
        }
        assert_eq!(constant("inf"), text("inf"));
        assert_eq!(constant("- 12"), Some(Value::Integer(-12)));
        assert_eq!(constant("0x1F"), Some(Value::Integer(31)));
        assert_eq!(constant("-9223372036854775808"), Some(Value::Integer(i64::MIN)));
        assert_eq!(constant(".5"), Some(Value::Real(0.5)));
        assert_eq!(constant("x'00fF'"), Some(Value::Blob(vec![0, 255])));
    }

    #[test]
    fn what_is_computed_is_not() {
        for sql in [
            "CURRENT_TIMESTAMP",
            "current_date",
            "random()",
            "'a' || 'b'",
            "1 + 1",
            "-a",
            "x'0",
            "",
        ] {
            assert_eq!(constant(sql), None, "{sql}");
        }
    }
}
