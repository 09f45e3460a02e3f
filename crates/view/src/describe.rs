//! Values and rows as people read them.

use crate::catalog::{Loc, Relation};
use crate::state::{Body, RowState};
use synqlite_wire::{Rid, Value};

/// Values for people.
pub fn list(values: &[Value]) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A value for people.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(i) => i.to_string(),
        // SQLite shows no sign of a zero, and takes both for one value.
        Value::Real(r) => (r + 0.0).to_string(),
        Value::Text(t) => format!("'{}'", String::from_utf8_lossy(t)),
        Value::Blob(b) => format!("a blob of {} bytes", b.len()),
    }
}

/// A row for people: its primary key where it has one.
pub fn describe(t: &Relation, row: Option<&[Value]>, rid: &Rid) -> String {
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

/// The row for people: its primary key as the table shows it, else as the state keeps it.
pub fn row_name(t: &Relation, shown: Option<&[Value]>, state: &RowState, rid: &Rid) -> String {
    let mut kept = vec![Value::Null; t.table.columns.len()];
    let mut whole = true;
    for &c in &t.table.primary_key {
        let g = t.table.columns[c].group;
        let at = t.table.groups[g].columns.iter().position(|&other| other == c);
        match (&state.groups[g].body, at) {
            (Body::Stored(cell), Some(at)) if at < cell.values.len() => {
                kept[c] = cell.values[at].clone();
            }
            _ => whole = false,
        }
    }
    describe(t, shown.or(whole.then_some(&kept)), rid)
}

/// A row that has no identity yet, for people.
pub fn loc_name(t: &Relation, row: Option<&[Value]>, loc: &Loc) -> String {
    let key = row.filter(|_| !t.table.primary_key.is_empty());
    match (key, loc) {
        (Some(row), _) => {
            t.table.primary_key.iter().map(|&c| text(&row[c])).collect::<Vec<_>>().join(", ")
        }
        (None, Loc::Row(id)) if t.table.rowid_alias().is_some() => id.to_string(),
        (None, Loc::Row(rowid)) => format!("rowid {rowid}"),
        (None, Loc::Key(key)) => key.clone(),
    }
}
