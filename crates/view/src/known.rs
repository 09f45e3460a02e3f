//! What people know a row by, beside its key.
//!
//! Nobody knows by heart which person has number 4711. So whatever tells people of a row says its key, which
//! finds it, and what they would call it: `row 4711 (“Ann”)`. This decides by which columns, from the schema
//! and what the row shows or showed last, of nothing else; so it costs nothing where nothing is told. Names are
//! for people only: nothing is found or decided by them.
//!
//! It is the first that says something: a unique key, its columns as the table has them and without references to other rows, whose
//! numbers people know as little; a column that is called like a name; a unique key with references. What two
//! rows both ask for does not tell them apart, so that comes last.

use crate::describe::{is_unseen, text};
use crate::schema::{Table, UniqueIndex, quote};
use crate::state::{Body, RowState};
use synqlite_wire::Value;

/// Columns that are called so say what a row is, these first that say it best.
const SPEAKING: [&str; 4] = ["name", "title", "email", "label"];
/// Characters of a value, at most.
const LONGEST: usize = 40;

/// What people know a row with these values by; nothing if its key says it all. `contested`: columns in which
/// another row wants to be the same.
pub fn known_by(t: &Table, row: &[Value], contested: &[usize]) -> Option<String> {
    let mut candidates = candidates(t);
    // Stable: each keeps its place among its like.
    candidates.sort_by_key(|columns| columns.iter().any(|c| contested.contains(c)));
    candidates.iter().find_map(|columns| said(row, columns))
}

/// The same of a row that shows these values, else by what its state keeps.
pub fn known_row(
    t: &Table,
    shown: Option<&[Value]>,
    state: &RowState,
    contested: &[usize],
) -> Option<String> {
    if let Some(row) = shown {
        return known_by(t, row, contested);
    }
    let mut kept = vec![Value::Null; t.columns.len()];
    for (group, of) in state.groups.iter().zip(&t.groups) {
        let Body::Stored(cell) = &group.body else { continue };
        of.columns.iter().zip(&cell.values).for_each(|(&c, value)| kept[c] = value.clone());
    }
    known_by(t, &kept, contested)
}

/// A row by its key and, where there is one, by what people know it by: `4711 (“Ann”)`.
pub fn called(row: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{row} (“{name}”)"),
        None => row.to_owned(),
    }
}

/// Sets of columns by which rows may be known, the best first.
fn candidates(t: &Table) -> Vec<Vec<usize>> {
    let refers = |c: &usize| t.foreign_keys.iter().any(|fk| fk.columns.contains(c));
    let uniques = t.uniques.iter().filter(|u| !u.primary).map(|u| columns(t, u));
    let (linked, plain): (Vec<_>, Vec<_>) = uniques.partition(|columns| columns.iter().any(refers));
    let called = SPEAKING.iter().filter_map(|name| {
        let same = |c: &usize| t.columns[*c].name.eq_ignore_ascii_case(name);
        (0..t.columns.len()).find(same).map(|c| vec![c])
    });
    let all = plain.into_iter().chain(called).chain(linked);
    all.filter(|columns| columns.iter().any(|c| !t.primary_key.contains(c))).collect()
}

/// The columns that a unique key names; where it has an expression, those that this reads.
fn columns(t: &Table, u: &UniqueIndex) -> Vec<usize> {
    let column = |sql: &String| t.columns.iter().position(|column| quote(&column.name) == *sql);
    let named: Option<Vec<usize>> = u.terms.iter().map(|term| column(&term.sql)).collect();
    let mut columns = named.unwrap_or_else(|| u.columns.clone());
    columns.sort_unstable();
    columns
}

/// What a row has in these columns, if it says something.
fn said(row: &[Value], columns: &[usize]) -> Option<String> {
    let values: Vec<&Value> = columns.iter().map(|&c| row.get(c)).collect::<Option<_>>()?;
    let mute = |value: &&Value| match value {
        Value::Null | Value::Blob(_) => true,
        Value::Text(t) => t.iter().all(u8::is_ascii_whitespace),
        _ => false,
    };
    if values.is_empty() || values.iter().any(mute) {
        return None;
    }
    let one = |value: &Value| match value {
        Value::Text(t) => {
            // Enough bytes for so many characters and one more, however long the text is.
            let begin = &t[..t.len().min(4 * (LONGEST + 1))];
            line(&String::from_utf8_lossy(begin), LONGEST)
        }
        other => text(other),
    };
    Some(values.into_iter().map(one).collect::<Vec<_>>().join(", "))
}

/// A text on one line, of so many characters at most, with nothing in it that moves a cursor, hides or turns.
pub fn line(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    for c in chars.by_ref().take(most) {
        match c {
            '\n' | '\t' => out.extend(c.escape_default()),
            c => push_seen(&mut out, c),
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// Writes a character so that it is seen. Lines and tabs stay.
pub fn push_seen(out: &mut String, c: char) {
    match c {
        '\n' | '\t' => out.push(c),
        _ if is_unseen(c) => out.extend(c.escape_unicode()),
        _ => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Affinity, Collation, Column, IndexTerm};

    /// A table with a key and columns of these names; `unique`: the columns of its unique keys.
    fn table(names: &[&str], unique: &[&[&str]]) -> Table {
        let mut t = Table::absent("t");
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            declared_type: String::new(),
            affinity: Affinity::Blob,
            collation: Collation::Binary,
            not_null: false,
            default: None,
            group: 0,
        };
        t.columns = ["id"].iter().chain(names).map(column).collect();
        t.primary_key = vec![0];
        let at = |t: &Table, name: &str| t.columns.iter().position(|c| c.name == name).unwrap();
        for names in unique {
            let term = |name: &&str| IndexTerm { sql: quote(name), collation: Collation::Binary };
            t.uniques.push(UniqueIndex {
                name: "sqlite_autoindex_t_1".into(),
                primary: false,
                columns: names.iter().map(|name| at(&t, name)).collect(),
                terms: names.iter().map(term).collect(),
                predicate: None,
            });
        }
        t
    }

    fn known(t: &Table, row: &[Value], contested: &[usize]) -> String {
        known_by(t, row, contested).unwrap_or_default()
    }

    #[test]
    fn a_unique_key_goes_before_a_name_but_not_where_it_is_contested() {
        let t = table(&["Name", "email"], &[&["email"]]);
        let row: [Value; 3] = [7.into(), "Ann".into(), "ann@x".into()];
        assert_eq!(known(&t, &row, &[]), "ann@x");
        assert_eq!(known(&t, &row, &[2]), "Ann");
        let nameless: [Value; 3] = [7.into(), Value::Null, "ann@x".into()];
        assert_eq!(known(&t, &nameless, &[2]), "ann@x", "better than nothing");
    }

    #[test]
    fn what_says_nothing_is_no_name() {
        let t = table(&["title", "label"], &[]);
        let row = |title: Value, label: Value| [7.into(), title, label];
        assert_eq!(known(&t, &row(" ".into(), "red".into()), &[]), "red");
        assert_eq!(known(&t, &row(Value::Blob(vec![1]), Value::Null), &[]), "");
        assert_eq!(known(&table(&["x"], &[]), &[1.into(), "y".into()], &[]), "");
        let mut named = table(&["title"], &[]);
        named.primary_key = vec![1];
        assert_eq!(known(&named, &[1.into(), "y".into()], &[]), "", "its key says it");
    }

    #[test]
    fn several_columns_stand_together_and_what_is_long_or_moves_is_made_harmless() {
        let t = table(&["year", "number"], &[&["year", "number"]]);
        assert_eq!(known(&t, &[1.into(), 2026.into(), "A\n7".into()], &[]), "2026, A\\n7");
        let long: Value = "é\u{1b}".repeat(1_000).as_str().into();
        let told = known(&t, &[1.into(), 1.into(), long], &[]);
        assert!(told.ends_with('…') && !told.contains('\u{1b}'), "{told}");
        assert!(told.matches('é').count() <= LONGEST, "{told}");
    }
}
