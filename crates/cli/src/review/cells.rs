//! Names and values as the page and the terminal show them: short, and nothing but text.
//!
//! Whatever a database holds is written by somebody. So what could move a cursor, turn a line or hide is
//! written out, and what is long is cut where its versions begin to differ.

use serde_json::{Value as Json, json};
use synqlite_core::units::bytes;
use synqlite_core::{Value, line, push_seen};

/// Characters of a value that a cell shows, at most.
const CELL: usize = 600;
/// Of these, so many before the place where the versions begin to differ.
const BEFORE: usize = 80;
/// Characters of a name, at most.
const NAME: usize = 80;
/// Characters of a value in a sentence, at most.
const SAID: usize = 40;
/// Bytes of a blob that are written out, at most.
const BLOB: usize = 48;

/// The name of a table, column or row, on one line.
pub fn name(text: &str) -> String {
    line(text, NAME)
}

/// A value in a sentence: a text in quotes, anything else as it is.
pub fn said(value: &Value) -> String {
    match value {
        Value::Text(t) => format!("“{}”", line(&begin(t, SAID), SAID)),
        other => plain(other),
    }
}

/// A value that is no text.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => format!("{:?}", r + 0.0),
        Value::Text(t) => String::from_utf8_lossy(t).into_owned(),
        Value::Blob(b) => {
            let hex: String = b.iter().take(BLOB).map(|byte| format!("{byte:02x}")).collect();
            if b.len() > BLOB { format!("x'{hex}…'") } else { format!("x'{hex}'") }
        }
    }
}

/// The beginning of a text: enough bytes for so many characters and one more.
fn begin(text: &[u8], chars: usize) -> String {
    String::from_utf8_lossy(&text[..text.len().min(4 * (chars + 1))]).into_owned()
}

/// The first byte in which the texts among these values differ.
fn differ_at(values: &[Option<&Value>]) -> usize {
    let texts = values.iter().filter_map(|value| match value {
        Some(Value::Text(t)) => Some(t),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    let Some((first, others)) = texts.split_first() else { return 0 };
    let at = |other: &&Vec<u8>| {
        let same = first.iter().zip(other.iter()).take_while(|(a, b)| a == b).count();
        (same < first.len().max(other.len())).then_some(same)
    };
    others.iter().filter_map(at).min().unwrap_or(0)
}

/// The versions of one cell, each with its kind, its text and, where that was cut, how much it is.
pub fn versions(values: &[Option<&Value>]) -> Vec<Json> {
    let from = differ_at(values);
    values.iter().map(|value| value.map_or(Json::Null, |value| cell(value, from))).collect()
}

fn cell(value: &Value, from: usize) -> Json {
    let kind = match value {
        Value::Null => "null",
        Value::Integer(_) | Value::Real(_) => "number",
        Value::Text(t) if t.is_empty() => "empty",
        Value::Text(_) => "text",
        Value::Blob(_) => "blob",
    };
    let Value::Text(t) = value else {
        let cut = match value {
            Value::Blob(b) if b.len() > BLOB => Some(bytes(b.len() as u64)),
            _ => None,
        };
        return json!({"kind": kind, "text": plain(value), "cut": cut});
    };
    // Only what is near the difference is looked at, however long the text is.
    let mut start = if from <= CELL / 2 { 0 } else { from.saturating_sub(BEFORE) };
    while start > 0 && t.get(start).is_some_and(|byte| byte & 0xc0 == 0x80) {
        start -= 1;
    }
    let start = start.min(t.len());
    let shown = begin(&t[start..], CELL);
    let mut text = String::from(if start > 0 { "…" } else { "" });
    let mut chars = shown.chars();
    chars.by_ref().take(CELL).for_each(|c| push_seen(&mut text, c));
    let more = chars.next().is_some();
    if more {
        text.push('…');
    }
    let cut = (start > 0 || more).then(|| bytes(t.len() as u64));
    json!({"kind": kind, "text": text, "cut": cut})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(t: &str) -> Value {
        Value::Text(t.into())
    }

    #[test]
    fn nothing_moves_hides_or_turns() {
        let odd = "a\u{1b}[31m\u{202e}b\u{feff}\u{0}<b>\nc";
        assert_eq!(name(odd), "a\\u{1b}[31m\\u{202e}b\\u{feff}\\u{0}<b>\\nc");
        assert_eq!(said(&text(odd)), format!("“{}”", name(odd)));
        let cells = versions(&[Some(&text(odd))]);
        assert_eq!(cells[0]["text"], "a\\u{1b}[31m\\u{202e}b\\u{feff}\\u{0}<b>\nc");
        // What joins characters of one picture, and what is written from right to left, stays.
        assert_eq!(name("👩‍👩‍👧 שלום"), "👩‍👩‍👧 שלום");
    }

    #[test]
    fn a_megabyte_is_cut_where_it_differs() {
        let long = |end: &str| text(&format!("{}{end}", "é".repeat(500_000)));
        let (a, b) = (long("kept"), long("lost and more"));
        let cells = versions(&[Some(&a), None, Some(&b)]);
        assert_eq!(cells[1], Json::Null);
        for (at, end) in [(0, "kept"), (2, "lost and more")] {
            let shown = cells[at]["text"].as_str().unwrap();
            assert!(shown.starts_with("…é") && shown.ends_with(end), "{shown}");
            assert!(shown.chars().count() < CELL + 2);
            assert_eq!(cells[at]["cut"], "1.0 MB");
        }
        assert_eq!(name(&"x".repeat(1_000_000)).chars().count(), NAME + 1);
        assert_eq!(said(&a).chars().count(), SAID + 3);
        let same = versions(&[Some(&a), Some(&a)]);
        assert!(same[0]["text"].as_str().unwrap().starts_with('é'));
    }

    #[test]
    fn values_have_kinds() {
        let values = [
            Value::Null,
            Value::Integer(-3),
            Value::Real(-0.0),
            text(""),
            Value::Blob(vec![7; 99]),
        ];
        let cells: Vec<Json> = values.iter().map(|v| versions(&[Some(v)]).remove(0)).collect();
        let of = |key: &str| cells.iter().map(|c| c[key].clone()).collect::<Vec<_>>();
        assert_eq!(of("kind"), ["null", "number", "number", "empty", "blob"]);
        assert_eq!(of("text")[..4], ["NULL", "-3", "0.0", ""]);
        assert_eq!(cells[4]["cut"], "99 B");
    }
}
