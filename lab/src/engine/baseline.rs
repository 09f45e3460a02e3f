//! What the two designs of the thesis share: the application's columns and keys as SQL, the tables
//! of versions, the clock.

use crate::{Error, Result};
use rusqlite::Connection;

/// Milliseconds since 1970.
pub const NOW: &str = "CAST((julianday('now')-2440587.5)*86400000 AS INTEGER)";

/// An application's table.
pub struct Table {
    pub name: String,
    /// Every column: (quoted name, declared type).
    pub columns: Vec<(String, String)>,
    /// The quoted columns of the primary key; the row number where there is none.
    pub key: Vec<String>,
}

pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Joins what `each` makes of every item by commas.
pub fn list<T>(items: &[T], each: impl FnMut(&T) -> String) -> String {
    items.iter().map(each).collect::<Vec<_>>().join(",")
}

impl Table {
    /// Reads the tables of these names.
    pub fn read(conn: &Connection, names: &[String]) -> Result<Vec<Table>> {
        names.iter().map(|name| Table::read_one(conn, name)).collect()
    }

    fn read_one(conn: &Connection, name: &str) -> Result<Table> {
        if conn.prepare(&format!("SELECT rowid FROM {}", quote(name))).is_err() {
            return Err(Error::Bad(format!(
                "table {name} has no row numbers, which the thesis's designs need"
            )));
        }
        let sql = "SELECT name, type, pk FROM pragma_table_info(?1) ORDER BY cid";
        let mut columns = Vec::new();
        let mut key = Vec::new();
        for row in conn.prepare(sql)?.query_map([name], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, u32>(2)?))
        })? {
            let (column, kind, place) = row?;
            if place > 0 {
                key.push((place, quote(&column)));
            }
            columns.push((quote(&column), kind));
        }
        key.sort();
        let mut key: Vec<String> = key.into_iter().map(|(_, column)| column).collect();
        if key.is_empty() {
            key.push("rowid".to_owned());
        }
        Ok(Table { name: name.to_owned(), columns, key })
    }

    /// Declared type of a key column.
    pub fn key_type(&self, column: &str) -> &str {
        let found = self.columns.iter().find(|(name, _)| name == column);
        found.map_or("INTEGER", |(_, kind)| kind)
    }

    /// The name under which a table of ours keeps a key column.
    pub fn kept(column: &str) -> String {
        quote(&format!("key_{}", column.trim_matches('"')))
    }

    /// `a.key = b.key AND …`; `left` keeps the key, `right` is the application's row.
    pub fn same_key(&self, left: &str, right: &str) -> String {
        let each = |c: &String| format!("{left}{}={right}{c}", Table::kept(c));
        self.key.iter().map(each).collect::<Vec<_>>().join(" AND ")
    }

    pub fn versions(&self) -> String {
        quote(&format!("crr__{}", self.name))
    }

    pub fn journal(&self) -> String {
        quote(&format!("crr_journal__{}", self.name))
    }

    /// Columns that keep the key, as a definition.
    pub fn key_columns(&self, typed: bool) -> String {
        list(&self.key, |c| {
            let kind = if typed { self.key_type(c) } else { "" };
            format!("{} {kind}", Table::kept(c))
        })
    }

    pub fn kept_key(&self) -> String {
        list(&self.key, |c| Table::kept(c))
    }

    /// The table of versions: a random id, the key, the values, a time for each column, the causal
    /// length.
    fn versions_sql(&self, indexed: bool) -> String {
        let n = self.columns.len();
        let values: String = self.columns.iter().map(|(c, _)| format!(", {c}")).collect();
        let times: String = (0..n).map(|i| format!(", crr_meta__ts{i} INTEGER")).collect();
        let index = if indexed { format!(", UNIQUE({})", self.kept_key()) } else { String::new() };
        format!(
            "CREATE TABLE {}(crr_meta__uuid BLOB PRIMARY KEY, {}{values}{times}, \
             crr_meta__cl INTEGER{index});",
            self.versions(),
            self.key_columns(indexed),
        )
    }
}

/// Creates the tables that both designs have.
pub fn create_versions(conn: &Connection, tables: &[Table], indexed: bool) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE crr_meta__clock(ms INTEGER, ns INTEGER);
         INSERT INTO crr_meta__clock VALUES(0, 0);
         CREATE TABLE crr_meta__site(site_id INTEGER PRIMARY KEY, local INTEGER);
         INSERT INTO crr_meta__site VALUES(1, 1);
         CREATE TABLE crr_meta__site_state(site_id INTEGER PRIMARY KEY, last_out INTEGER);
         INSERT INTO crr_meta__site_state VALUES(1, 0);
         CREATE TABLE crr_meta__islocal(local INTEGER);
         INSERT INTO crr_meta__islocal VALUES(1);
         CREATE TABLE crr_meta__history(tbl TEXT, row BLOB, site INTEGER, ms INTEGER, ns INTEGER, \
           PRIMARY KEY(tbl, row, site));",
    )?;
    for table in tables {
        conn.execute_batch(&table.versions_sql(indexed))?;
    }
    Ok(())
}
