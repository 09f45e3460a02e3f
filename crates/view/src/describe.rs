//! Values, rows and constraints as people read them: by what the schema calls them now, never by names or
//! numbers that only synqlite or SQLite gave, as long as there is another.

use crate::catalog::{Loc, Relation};
use crate::schema::{Collation, IndexTerm, Table, quote};
use crate::state::{Body, RowState};
use synqlite_wire::units::bytes;
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
        Value::Blob(b) => format!("a blob of {}", bytes(b.len() as u64)),
    }
}

/// A blob in a key of more bytes is called by their number.
const LONGEST: usize = 64;

/// A value of a key for people, who can say it again: it is a constant of SQL, unless it is a long blob. A text
/// that no line holds as it is goes by its bytes: no command line has a NUL, and what is escaped could be another
/// text.
pub fn key_text(value: &Value) -> String {
    let hex = |b: &[u8]| b.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match value {
        Value::Blob(b) if b.len() <= LONGEST => format!("x'{}'", hex(b)),
        Value::Text(t) if !fits_a_line(t) => format!("CAST(x'{}' AS TEXT)", hex(t)),
        Value::Text(t) => format!("'{}'", String::from_utf8_lossy(t).replace('\'', "''")),
        _ => text(value),
    }
}

/// Whether a character moves a cursor, hides or turns what stands beside it.
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn fits_a_line(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| !text.contains(is_unseen))
}

/// A row for people: its primary key where it has one.
pub fn describe(t: &Relation, row: Option<&[Value]>, rid: &Rid) -> String {
    match (row, t.table.primary_key.as_slice()) {
        (Some(row), pk @ [_, ..]) => {
            pk.iter().map(|&c| key_text(&row[c])).collect::<Vec<_>>().join(", ")
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
        synqlite_wire::key::KeyPart::Value(value) => key_text(value),
        synqlite_wire::key::KeyPart::Row(Rid::Birth { n, .. }) => format!("#{n}"),
        synqlite_wire::key::KeyPart::Row(Rid::Key { .. }) => "…".into(),
    }
}

/// The row for people: its primary key as the table shows it, else as the state keeps it; without one, its
/// rowid, if it has one here.
pub fn row_name(
    t: &Relation,
    shown: Option<&[Value]>,
    loc: Option<&Loc>,
    state: &RowState,
    rid: &Rid,
) -> String {
    if let (Some(Loc::Row(rowid)), []) = (loc, t.table.primary_key.as_slice()) {
        return format!("rowid {rowid}");
    }
    match row_key(t, shown, state) {
        Some(key) if !key.is_empty() => key.iter().map(key_text).collect::<Vec<_>>().join(", "),
        _ => describe(t, None, rid),
    }
}

/// The primary key of a row as its table shows it, else as the state keeps it.
pub fn row_key(t: &Relation, shown: Option<&[Value]>, state: &RowState) -> Option<Vec<Value>> {
    let kept = |c: usize| {
        let g = t.table.columns[c].group;
        let at = t.table.groups[g].columns.iter().position(|&other| other == c)?;
        match &state.groups.get(g)?.body {
            Body::Stored(cell) => cell.values.get(at).cloned(),
            Body::InTable => None,
        }
    };
    let value = |&c: &usize| shown.map(|row| row[c].clone()).or_else(|| kept(c));
    t.table.primary_key.iter().map(value).collect()
}

/// A row in a sentence, by its name.
pub fn the_row(name: &str) -> String {
    if name.starts_with("rowid ") { name.to_owned() } else { format!("row {name}") }
}

/// A row that has no identity yet, for people.
pub fn loc_name(t: &Relation, row: Option<&[Value]>, loc: &Loc) -> String {
    let key = row.filter(|_| !t.table.primary_key.is_empty());
    match (key, loc) {
        (Some(row), _) => {
            t.table.primary_key.iter().map(|&c| key_text(&row[c])).collect::<Vec<_>>().join(", ")
        }
        (None, Loc::Row(id)) if t.table.rowid_alias().is_some() => id.to_string(),
        (None, Loc::Row(rowid)) => format!("rowid {rowid}"),
        (None, Loc::Key(key)) => key.clone(),
    }
}

/// A unique key or foreign key as its table declares it, such as `UNIQUE (email)`. `name`: by which records
/// and waits know it, which is also what is said of one that the table does not have any more.
pub fn constraint(t: &Relation, name: &str) -> String {
    if let Some(u) = t.unique_names.iter().position(|unique| unique == name) {
        let index = &t.table.uniques[u];
        let terms: Vec<String> = index.terms.iter().map(|term| declared(&t.table, term)).collect();
        let kind = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
        let only = index.predicate.as_ref().map(|p| format!(" WHERE {p}")).unwrap_or_default();
        return format!("{kind} ({}){only}", terms.join(", "));
    }
    match t.key_names.iter().position(|key| key == name) {
        Some(f) => {
            let columns = t.table.foreign_keys[f].columns.iter();
            let columns: Vec<String> =
                columns.map(|&c| identifier(&t.table.columns[c].name)).collect();
            format!("FOREIGN KEY ({})", columns.join(", "))
        }
        None => name.to_owned(),
    }
}

/// The columns, by position, of a unique key or foreign key of this name; none of one that the table does not
/// have any more.
pub fn columns<'t>(t: &'t Relation, name: &str) -> &'t [usize] {
    let unique = t.unique_names.iter().position(|unique| unique == name);
    let key = || t.key_names.iter().position(|key| key == name);
    match (unique, unique.map_or_else(key, |_| None)) {
        (Some(u), _) => &t.table.uniques[u].columns,
        (None, Some(f)) => &t.table.foreign_keys[f].columns,
        (None, None) => &[],
    }
}

/// The table to which a foreign key of this name refers.
pub fn parent<'t>(t: &'t Relation, name: &str) -> Option<&'t str> {
    let f = t.key_names.iter().position(|key| key == name)?;
    Some(&t.table.foreign_keys[f].parent)
}

/// A term of an index, with its collation where that is not its column's own.
fn declared(table: &Table, term: &IndexTerm) -> String {
    let column = table.columns.iter().find(|column| quote(&column.name) == term.sql);
    let text = column.map_or_else(|| term.sql.clone(), |column| identifier(&column.name));
    let own = column.map_or(&Collation::Binary, |column| &column.collation);
    match &term.collation {
        collation if collation == own => text,
        Collation::Binary => format!("{text} COLLATE BINARY"),
        Collation::NoCase => format!("{text} COLLATE NOCASE"),
        Collation::Rtrim => format!("{text} COLLATE RTRIM"),
        Collation::Other(name) => format!("{text} COLLATE {}", identifier(name)),
    }
}

/// A name, in quotes if it needs them.
fn identifier(name: &str) -> String {
    let bare = |c: char| c.is_alphanumeric() || c == '_';
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => quote(name),
    }
}
