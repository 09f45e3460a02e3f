//! Values and rows as people read them.

use crate::catalog::Tracked;
use synqlite_wire::{Rid, Value};

/// Values for people.
pub(super) fn list(values: &[Value]) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A value for people.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => r.to_string(),
        Value::Text(t) => format!("'{}'", String::from_utf8_lossy(t)),
        Value::Blob(b) => format!("a blob of {} bytes", b.len()),
    }
}

/// A row for people: its primary key where it has one.
pub fn describe(t: &Tracked, row: Option<&[Value]>, rid: &Rid) -> String {
    match (row, t.table.primary_key.as_slice()) {
        (Some(row), pk @ [_, ..]) => {
            pk.iter().map(|&c| text(&row[c])).collect::<Vec<_>>().join(", ")
        }
        _ => match rid {
            Rid::Birth { site, n } => format!("#{n} of site {}", &site.to_string()[..8]),
            Rid::Key { key, .. } => match synqlite_wire::key::decode(key) {
                Some(parts) => parts.iter().map(part).collect::<Vec<_>>().join(", "),
                None => "?".into(),
            },
        },
    }
}

fn part(part: &synqlite_wire::key::KeyPart) -> String {
    match part {
        synqlite_wire::key::KeyPart::Value(value) => text(value),
        synqlite_wire::key::KeyPart::Row(Rid::Birth { n, .. }) => format!("#{n}"),
        synqlite_wire::key::KeyPart::Row(Rid::Key { .. }) => "…".into(),
    }
}
