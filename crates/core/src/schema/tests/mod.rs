//! One small schema for each rule.

mod relations;
mod skipped;
mod tables;
mod uniques;

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::*;
use crate::error::Error;
use crate::policy::Policies;

impl Schema {
    /// The replicated table of this name, compared as SQLite compares names.
    fn table(&self, name: &str) -> Option<&Table> {
        self.tables.iter().find(|t| t.name.eq_ignore_ascii_case(name))
    }
}

fn open(sql: &str) -> Connection {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(sql).unwrap();
    conn
}

fn policies(set: &[(&str, &str)]) -> Policies {
    set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn selection(only: &[&str], exclude: &[&str]) -> Selection {
    let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    Selection { only: owned(only), exclude: owned(exclude), strict: true }
}

fn schema(sql: &str) -> Schema {
    schema_with(sql, &[])
}

fn schema_with(sql: &str, set: &[(&str, &str)]) -> Schema {
    read(&open(sql), &policies(set), &selection(&[], &[])).unwrap()
}

fn refused(sql: &str, set: &[(&str, &str)]) -> String {
    let error = read(&open(sql), &policies(set), &selection(&[], &[])).unwrap_err();
    assert!(matches!(error, Error::Policy { .. }), "{error}");
    error.to_string()
}

/// The only table of `sql`.
fn table(sql: &str) -> Table {
    let mut schema = schema(sql);
    assert_eq!((schema.tables.len(), &schema.skipped), (1, &vec![]));
    schema.tables.remove(0)
}

fn names(tables: &[Table]) -> Vec<&str> {
    tables.iter().map(|table| table.name.as_str()).collect()
}

fn skipped(schema: &Schema) -> BTreeMap<&str, &str> {
    schema.skipped.iter().map(|s| (s.name.as_str(), s.why.as_str())).collect()
}

/// The groups of a table as column names.
fn groups(table: &Table) -> Vec<Vec<&str>> {
    for (i, group) in table.groups.iter().enumerate() {
        assert!(group.columns.iter().all(|&column| table.columns[column].group == i));
    }
    let total: usize = table.groups.iter().map(|group| group.columns.len()).sum();
    assert_eq!(total, table.columns.len());
    let name = |&column: &usize| table.columns[column].name.as_str();
    table.groups.iter().map(|group| group.columns.iter().map(name).collect()).collect()
}
