//! What unique indexes are called (R-CONSTRAINT): by what they say, never by their names or places.
//!
//! A table that is rebuilt gets other index names, and its constraints may stand in another order. Rows
//! wait for keys and records speak of them under the name given here, which is made of the first names
//! of columns (R-MIG-RENAME), so all sites give the same one.

use super::sql;
use super::{Collation, IndexTerm, Table, UniqueIndex, quote};

/// The name of a unique index of a table, of whose columns `names` are the first names. Indexes of one
/// name allow the same rows.
pub fn unique_name(table: &Table, names: &[String], index: &UniqueIndex) -> String {
    let mut terms: Vec<String> =
        index.terms.iter().map(|term| term_name(table, names, term)).collect();
    terms.sort();
    terms.dedup();
    let predicate = index.predicate.as_ref();
    let predicate = predicate.map(|p| format!(" where {}", first_names(table, names, p)));
    terms.join(", ") + &predicate.unwrap_or_default()
}

/// The name of one term of a unique index; a plain column's is its own.
pub fn term_name(table: &Table, names: &[String], term: &IndexTerm) -> String {
    let bare = |c: char| c.is_alphanumeric() || c == '_';
    let text = match &sql::tokens(&term.sql)[..] {
        [only] => only.name().and_then(|name| first_name(table, names, &name)),
        _ => None,
    };
    let text = match text.map(|name| name.to_ascii_lowercase()) {
        Some(name) if !name.is_empty() && name.chars().all(bare) => name,
        Some(name) => quote(&name),
        None => first_names(table, names, &term.sql),
    };
    match &term.collation {
        Collation::Binary => text,
        Collation::NoCase => format!("{text} nocase"),
        Collation::Rtrim => format!("{text} rtrim"),
        Collation::Other(name) => format!("{text} collate {}", quote(name)),
    }
}

fn first_name(table: &Table, names: &[String], column: &str) -> Option<String> {
    let c = table.columns.iter().position(|c| c.name.eq_ignore_ascii_case(column))?;
    names.get(c).cloned()
}

fn first_names(table: &Table, names: &[String], expression: &str) -> String {
    sql::renamed(expression, |column| first_name(table, names, column))
}
