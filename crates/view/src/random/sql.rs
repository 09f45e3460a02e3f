//! What is written in random histories, as SQL.

use crate::schema::Table;
use synqlite_wire::Value;

/// A row is inserted.
pub fn insert(t: &Table, row: &[Value]) -> String {
    let names: Vec<&str> = t.columns.iter().map(|c| c.name.as_str()).collect();
    let values: Vec<String> = row.iter().map(literal).collect();
    format!("INSERT INTO {}({}) VALUES({})", t.name, names.join(", "), values.join(", "))
}

/// A row is deleted.
pub fn delete(t: &Table, old: &[Value]) -> String {
    format!("DELETE FROM {} WHERE {}", t.name, found(t, old))
}

/// Columns of a row get what `new` has in them.
pub fn update(t: &Table, columns: &[usize], old: &[Value], new: &[Value]) -> String {
    let set = |&c: &usize| format!("{} = {}", t.columns[c].name, literal(&new[c]));
    let sets: Vec<String> = columns.iter().map(set).collect();
    format!("UPDATE {} SET {} WHERE {}", t.name, sets.join(", "), found(t, old))
}

/// A row as SQLite's `quote` shows its values, one after the other.
pub fn shown(row: &[Value]) -> String {
    row.iter().map(literal).collect::<Vec<_>>().join(" ")
}

/// Condition that holds for a row alone.
fn found(t: &Table, row: &[Value]) -> String {
    let all: Vec<usize> = (0..t.columns.len()).collect();
    let key = &t.primary_key;
    let named = !key.is_empty() && !key.iter().any(|&c| row[c].is_null());
    let columns = if named { key } else { &all };
    let is = |&c: &usize| format!("{} IS {}", t.columns[c].name, literal(&row[c]));
    columns.iter().map(is).collect::<Vec<_>>().join(" AND ")
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => format!("{r:?}"),
        Value::Text(t) => format!("'{}'", String::from_utf8_lossy(t).replace('\'', "''")),
        Value::Blob(b) => {
            format!("x'{}'", b.iter().map(|b| format!("{b:02X}")).collect::<String>())
        }
    }
}
