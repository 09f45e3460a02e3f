//! Schemas under constraints, and random statements that make sites collide on them.
//!
//! A [`Shape`] is a schema with holes, in which the actions of its foreign keys are drawn, and a
//! line for each table that says what its columns hold. Statements are made from these lines alone:
//! values come from a few words and numbers, references are to rows that are there, so the same
//! unique keys, integer keys and parents are met again and again.
//!
//! As in [`families`](crate::families), everything is deterministic, and no row is chosen by a rowid
//! that is no column.

mod list;

pub use list::SHAPES;

use crate::random::Random;

/// A schema with holes.
#[derive(Debug)]
pub struct Shape {
    /// Its name, for messages.
    pub name: &'static str,
    /// SQL of the schema and its first rows. `$A` is replaced by the actions of a foreign key.
    pub sql: &'static str,
    /// The replicated tables.
    pub tables: &'static [&'static str],
    /// The columns of each: `name:domain`, `!` before those of the key, `?` after what may be NULL.
    pub columns: &'static [&'static str],
    /// Policies, as `KEY=VALUE`.
    pub policies: &'static [&'static str],
}

/// What a column holds.
#[derive(Clone, Copy, Debug)]
struct Column {
    name: &'static str,
    domain: &'static str,
    key: bool,
    nullable: bool,
}

/// The shapes in whose names one of these words is, separated by commas; all of them without words.
pub fn named(words: Option<&str>) -> Vec<&'static Shape> {
    let is =
        |shape: &&Shape| words.is_none_or(|words| words.split(',').any(|w| shape.name.contains(w)));
    SHAPES.iter().filter(is).collect()
}

const ON_DELETE: [&str; 6] =
    ["NO ACTION", "RESTRICT", "CASCADE", "CASCADE", "SET NULL", "SET DEFAULT"];
const ON_UPDATE: [&str; 5] = ["NO ACTION", "CASCADE", "RESTRICT", "SET NULL", "SET DEFAULT"];

impl Shape {
    /// The schema with the actions that `draw` gives it.
    pub fn schema(&self, draw: u64) -> String {
        let mut r = Random::new(draw);
        let mut parts = self.sql.split("$A");
        let mut sql = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let deferred = if r.one_in(3) { " DEFERRABLE INITIALLY DEFERRED" } else { "" };
            let (delete, update) = (r.pick(&ON_DELETE), r.pick(&ON_UPDATE));
            sql += &format!("ON DELETE {delete} ON UPDATE {update}{deferred}{part}");
        }
        sql
    }

    fn columns(&self, table: usize) -> Vec<Column> {
        let column = |text: &'static str| {
            let (name, domain) = text.split_once(':').unwrap_or((text, "any"));
            Column {
                name: name.trim_start_matches('!'),
                domain: domain.trim_end_matches('?'),
                key: name.starts_with('!'),
                nullable: domain.ends_with('?'),
            }
        };
        self.columns[table].split_whitespace().map(column).collect()
    }

    /// One statement, or several that make one transaction. Any may fail.
    pub fn statement(&self, r: &mut Random) -> String {
        let count = if r.one_in(10) { 2 + r.below(2) } else { 1 };
        let statements: Vec<_> = (0..count).map(|_| self.one(r)).collect();
        statements.join(";\n")
    }

    fn one(&self, r: &mut Random) -> String {
        let at = r.index(self.tables.len());
        let (table, columns) = (self.tables[at], self.columns(at));
        let keyed = columns.iter().any(|c| c.key);
        let or = r.pick(&["", "", "OR IGNORE", if keyed { "OR REPLACE" } else { "" }]);
        match r.below(14) {
            0..5 => self.insert(r, or, table, &columns),
            5 => {
                let set = r.index(columns.len());
                let name = columns[set].name;
                let insert = self.insert(r, "", table, &columns);
                format!("{insert} ON CONFLICT DO UPDATE SET {name} = excluded.{name}")
            }
            6..11 => {
                let plain: Vec<_> = columns.iter().filter(|c| !c.key).collect();
                // References of several columns are written as one.
                let mut sets = Vec::new();
                if let Some(first) = plain.get(r.index(plain.len().max(1))) {
                    let parent = first.domain.split_once('.').map(|(parent, _)| parent);
                    let with = |c: &&&Column| {
                        c.name == first.name
                            || parent.is_some()
                                && c.domain.split_once('.').map(|(parent, _)| parent) == parent
                    };
                    sets.extend(plain.iter().filter(with).map(|c| **c));
                }
                let more = plain.get(r.index(plain.len().max(1))).filter(|_| r.one_in(4));
                sets.extend(more.filter(|c| !sets.iter().any(|s| s.name == c.name)).map(|c| **c));
                self.update(r, or, table, &columns, &sets)
            }
            11 => {
                let sets: Vec<_> = columns.iter().filter(|c| c.key).copied().collect();
                self.update(r, or, table, &columns, &sets)
            }
            _ => format!("DELETE FROM {table} WHERE {}", self.chosen(r, table, &columns, true)),
        }
    }

    fn insert(&self, r: &mut Random, or: &str, table: &str, columns: &[Column]) -> String {
        let row = r.below(4);
        let values: Vec<_> = columns.iter().map(|c| self.value(r, c, row, true)).collect();
        let names: Vec<_> = columns.iter().map(|c| c.name).collect();
        format!("INSERT {or} INTO {table}({}) VALUES({})", names.join(", "), values.join(", "))
    }

    fn update(
        &self,
        r: &mut Random,
        or: &str,
        table: &str,
        columns: &[Column],
        sets: &[Column],
    ) -> String {
        if sets.is_empty() {
            return self.insert(r, or, table, columns);
        }
        let row = r.below(4);
        let set = |c: &Column| format!("{} = {}", c.name, self.value(r, c, row, false));
        let sets: Vec<_> = sets.iter().map(set).collect();
        // A row that is moved and then replaced by the same statement has no after-image to compare.
        let chosen = self.chosen(r, table, columns, or != "OR REPLACE");
        format!("UPDATE {or} {table} SET {} WHERE {chosen}", sets.join(", "))
    }

    /// A value for a column. `row` chooses the row that references are to.
    fn value(&self, r: &mut Random, c: &Column, row: u64, new: bool) -> String {
        if c.nullable && r.one_in(6) {
            return "NULL".into();
        }
        match c.domain {
            // The numbers that SQLite chooses meet on every two sites.
            "id" if new && !r.one_in(4) => "NULL".into(),
            "id" => (101 + r.below(7)).to_string(),
            "num" => (1 + r.below(4)).to_string(),
            "few" => r.below(3).to_string(),
            "kind" => r.pick(&["1", "1.0", "2", "2.0", "3", "3.0"]).to_string(),
            "flag" => r.below(2).to_string(),
            "low" => r.below(8).to_string(),
            "high" => (4 + r.below(8)).to_string(),
            "word" => format!("'{}'", r.pick(&["a0", "A0", "a1", "b0", "B1", "c0"])),
            reference => match reference.split_once('.') {
                Some((parent, column)) => self.nth(parent, column, row),
                None => r.below(90).to_string(),
            },
        }
    }

    /// A column of the row of `table` at a place in the order of its keys; NULL past the last.
    fn nth(&self, table: &str, column: &str, row: u64) -> String {
        let at = self.tables.iter().position(|t| *t == table).unwrap_or(0);
        let order: Vec<_> = self.columns(at).iter().map(|c| c.name).collect();
        format!("(SELECT {column} FROM {table} ORDER BY {} LIMIT 1 OFFSET {row})", order.join(", "))
    }

    /// A condition that one row meets; with `several` more may.
    fn chosen(&self, r: &mut Random, table: &str, columns: &[Column], several: bool) -> String {
        let keys: Vec<_> = columns.iter().filter(|c| c.key).collect();
        if keys.is_empty() || several && r.one_in(8) {
            let c = columns[r.index(columns.len())];
            let row = r.below(4);
            return match self.value(r, &c, row, false).as_str() {
                "NULL" => format!("{} IS NULL", c.name),
                value => format!("{} = {value}", c.name),
            };
        }
        let row = r.below(4);
        let one = |c: &&Column| format!("{} = {}", c.name, self.nth(table, c.name, row));
        keys.iter().map(one).collect::<Vec<_>>().join(" AND ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// Statements that always fail, or never meet a row, would test nothing.
    #[test]
    fn most_statements_of_every_shape_do_something() {
        for shape in &SHAPES {
            let mut changed = 0;
            for draw in 0..4 {
                let conn = Connection::open_in_memory().unwrap();
                let schema = shape.schema(draw);
                conn.execute_batch(&format!("PRAGMA foreign_keys=ON; {schema}"))
                    .unwrap_or_else(|e| panic!("{}: {e}", shape.name));
                let mut r = Random::new(draw);
                for _ in 0..100 {
                    let (sql, before) = (shape.statement(&mut r), conn.total_changes());
                    match conn.execute_batch(&format!("BEGIN; {sql}; COMMIT")) {
                        Err(rusqlite::Error::SqliteFailure(e, _))
                            if matches!(
                                e.code,
                                rusqlite::ErrorCode::ConstraintViolation
                                    | rusqlite::ErrorCode::TypeMismatch
                            ) =>
                        {
                            if !conn.is_autocommit() {
                                conn.execute_batch("ROLLBACK").unwrap();
                            }
                        }
                        Err(e) => panic!("{}: {sql}: {e}", shape.name),
                        Ok(()) => changed += u64::from(conn.total_changes() > before),
                    }
                }
            }
            assert!(changed > 120, "{}: {changed} of 400 statements changed a row", shape.name);
        }
    }

    #[test]
    fn every_table_of_a_shape_is_described() {
        for shape in &SHAPES {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(&shape.schema(1)).unwrap();
            for (table, columns) in shape.tables.iter().zip(shape.columns) {
                let sql = "SELECT group_concat(name, ' ') FROM pragma_table_info(?1)";
                let names: String = conn.query_row(sql, [table], |row| row.get(0)).unwrap();
                let described = columns
                    .split_whitespace()
                    .map(|c| c.split_once(':').map_or(c, |(name, _)| name).trim_start_matches('!'));
                assert_eq!(names, described.collect::<Vec<_>>().join(" "), "{}", shape.name);
            }
            assert_eq!(shape.tables.len(), shape.columns.len());
        }
    }
}
