//! What SQLite tells of the main database through PRAGMAs, before anything is judged.
//!
//! Every PRAGMA names `main`: attached databases and temporary tables are no part of a replica,
//! even where they hide a table of the same name.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, Row};

use super::sql::TableSql;
use super::{Action, Encoding};
use crate::error::Result;

/// What an entry of `table_list` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Table,
    View,
    /// With the name of its module.
    Virtual(String),
    /// Storage of a virtual table.
    Shadow,
}

/// A table or view of the main database.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub name: String,
    pub kind: EntryKind,
    pub without_rowid: bool,
    pub strict: bool,
    /// Its CREATE statement.
    pub sql: String,
}

/// All tables and views that are not SQLite's or ours, by name.
pub(super) struct Inventory {
    pub entries: Vec<Entry>,
    /// Names of loaded virtual table modules, in lower case.
    pub modules: HashSet<String>,
    /// CREATE INDEX statements by index name.
    pub index_sql: HashMap<String, String>,
    pub encoding: Encoding,
}

/// A column as `table_xinfo` shows it; its place in the list is its `cid`.
pub(super) struct ColumnInfo {
    pub name: String,
    pub declared_type: String,
    pub not_null: bool,
    pub default: Option<String>,
    /// Place in the primary key, from 1; 0 if it is no part of it.
    pub key_place: u32,
    pub generated: bool,
    /// Generated, and stored as it was computed.
    pub kept: bool,
}

/// An index of a table.
pub(super) struct IndexInfo {
    pub name: String,
    pub unique: bool,
    pub primary: bool,
    pub partial: bool,
    /// `cid` of the column, if the term is one, and the collation.
    pub terms: Vec<(Option<usize>, String)>,
}

/// A declared foreign key.
pub(super) struct Reference {
    pub parent: String,
    pub columns: Vec<String>,
    /// The referenced columns; empty for the parent's primary key.
    pub parent_columns: Vec<String>,
    pub on_delete: Action,
    pub on_update: Action,
}

impl Inventory {
    pub fn read(conn: &Connection) -> Result<Self> {
        let mut sql = HashMap::new();
        let mut index_sql = HashMap::new();
        let mut statement =
            conn.prepare("SELECT type, name, sql FROM main.sqlite_master WHERE sql IS NOT NULL")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match row.get_ref(0)?.as_str().unwrap_or_default() {
                "table" | "view" => sql.insert(row.get::<_, String>(1)?, row.get::<_, String>(2)?),
                "index" => index_sql.insert(row.get(1)?, row.get(2)?),
                _ => None,
            };
        }
        let mut entries = Vec::new();
        conn.pragma_query(Some("main"), "table_list", |row| {
            let name: String = row.get("name")?;
            let sql = sql.get(&name).cloned().unwrap_or_default();
            let kind = match row.get_ref("type")?.as_str().unwrap_or_default() {
                "view" => EntryKind::View,
                "shadow" => EntryKind::Shadow,
                "virtual" => {
                    let module = TableSql::parse(&sql).module().unwrap_or_default().into_owned();
                    EntryKind::Virtual(module)
                }
                _ => EntryKind::Table,
            };
            if !is_internal(&name) {
                let (without_rowid, strict) = (row.get("wr")?, row.get("strict")?);
                entries.push(Entry { name, kind, without_rowid, strict, sql });
            }
            Ok(())
        })?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut modules = HashSet::new();
        conn.pragma_query(None, "module_list", |row| {
            modules.insert(row.get::<_, String>(0)?.to_ascii_lowercase());
            Ok(())
        })?;
        let encoding = conn.query_row("PRAGMA main.encoding", [], |row| row.get::<_, String>(0))?;
        let encoding = match encoding.as_str() {
            "UTF-16le" => Encoding::Utf16le,
            "UTF-16be" => Encoding::Utf16be,
            _ => Encoding::Utf8,
        };
        Ok(Inventory { entries, modules, index_sql, encoding })
    }

    /// The entry of this name, compared as SQLite compares names.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.name.eq_ignore_ascii_case(name))
    }

    /// Names of everything that SQLite would call a table.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter(|e| e.kind != EntryKind::View).map(|e| e.name.as_str())
    }
}

/// SQLite's own tables, and the metadata of this program.
fn is_internal(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("sqlite_") || name.starts_with("synqlite_")
}

/// All columns of a table, generated ones too.
pub(super) fn columns(conn: &Connection, table: &str) -> Result<Vec<ColumnInfo>> {
    pragma(conn, "table_xinfo", table, |row| {
        Ok(ColumnInfo {
            name: row.get("name")?,
            declared_type: row.get("type")?,
            not_null: row.get("notnull")?,
            default: row.get("dflt_value")?,
            key_place: row.get("pk")?,
            generated: row.get::<_, i64>("hidden")? != 0,
            kept: row.get::<_, i64>("hidden")? == 3,
        })
    })
}

/// All indexes of a table, by name.
pub(super) fn indexes(conn: &Connection, table: &str) -> Result<Vec<IndexInfo>> {
    let mut indexes = pragma(conn, "index_list", table, |row| {
        Ok(IndexInfo {
            name: row.get("name")?,
            unique: row.get("unique")?,
            primary: row.get_ref("origin")?.as_str() == Ok("pk"),
            partial: row.get("partial")?,
            terms: Vec::new(),
        })
    })?;
    for index in &mut indexes {
        let terms = pragma(conn, "index_xinfo", &index.name, |row| {
            let column = usize::try_from(row.get::<_, i64>("cid")?).ok();
            Ok((row.get::<_, bool>("key")?, (column, row.get("coll")?)))
        })?;
        index.terms = terms.into_iter().filter(|(key, _)| *key).map(|(_, term)| term).collect();
    }
    indexes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(indexes)
}

/// The foreign keys that a table declares.
pub(super) fn references(conn: &Connection, table: &str) -> Result<Vec<Reference>> {
    let mut out: Vec<(i64, Reference)> = Vec::new();
    // Rows come in the order of the foreign keys, and of the columns within each.
    pragma(conn, "foreign_key_list", table, |row| {
        let id = row.get("id")?;
        if out.last().is_none_or(|(last, _)| *last != id) {
            let reference = Reference {
                parent: row.get("table")?,
                columns: Vec::new(),
                parent_columns: Vec::new(),
                on_delete: action(row, "on_delete")?,
                on_update: action(row, "on_update")?,
            };
            out.push((id, reference));
        }
        if let Some((_, reference)) = out.last_mut() {
            reference.columns.push(row.get("from")?);
            reference.parent_columns.extend(row.get::<_, Option<String>>("to")?);
        }
        Ok(())
    })?;
    Ok(out.into_iter().map(|(_, reference)| reference).collect())
}

fn action(row: &Row<'_>, column: &str) -> rusqlite::Result<Action> {
    Ok(match row.get_ref(column)?.as_str().unwrap_or_default() {
        "CASCADE" => Action::Cascade,
        "SET NULL" => Action::SetNull,
        "SET DEFAULT" => Action::SetDefault,
        "RESTRICT" => Action::Restrict,
        _ => Action::NoAction,
    })
}

fn pragma<T>(
    conn: &Connection,
    pragma: &str,
    of: &str,
    mut f: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut out = Vec::new();
    conn.pragma(Some("main"), pragma, of, |row| {
        out.push(f(row)?);
        Ok(())
    })?;
    Ok(out)
}
