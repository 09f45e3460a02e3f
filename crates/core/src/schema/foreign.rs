//! Tables that only their application can write to: an index, a CHECK or a generated column of theirs needs a function
//! or a collation that it registers, and that this program does not have.

use super::pragmas::{ColumnInfo, IndexInfo};
use super::sql::TableSql;
use super::{Collation, Column, quote};
use rusqlite::Connection;

/// How SQLite begins to say what it lacks.
const LACKS: [&str; 4] =
    ["no such collation sequence", "no such function", "unknown function", "unsafe use of"];

/// Whether a definition has what may need more than SQLite.
pub(super) fn may_need_more(
    definition: &TableSql<'_>,
    infos: &[ColumnInfo],
    columns: &[Column],
    indexes: &[IndexInfo],
) -> bool {
    let other = |collation: &Collation| matches!(collation, Collation::Other(_));
    let term = |(column, name): &(Option<usize>, String)| {
        column.is_none() || other(&super::read::collation(name))
    };
    !definition.checks().is_empty()
        || infos.iter().any(|info| info.generated)
        || columns.iter().any(|column| other(&column.collation))
        || indexes.iter().any(|index| index.partial || index.terms.iter().any(term))
}

/// Why this program cannot write to a table, if it cannot.
pub(super) fn lacks(conn: &Connection, table: &str, columns: &[Column]) -> Option<String> {
    let names: Vec<String> = columns.iter().map(|column| quote(&column.name)).collect();
    let nulls = vec!["NULL"; names.len()].join(", ");
    let sql = format!("INSERT INTO main.{}({}) VALUES({nulls})", quote(table), names.join(", "));
    let text = conn.prepare(&sql).err()?.to_string();
    let said = text.split_once(" in INSERT ").map_or(text.as_str(), |(said, _)| said);
    LACKS.iter().any(|lacks| said.starts_with(lacks)).then(|| format!(
        "an index, a CHECK or a generated column of it needs what its application brings along ({said})"
    ))
}
