//! Families of schemas, each with random statements that an application might run on it.
//!
//! Statements keep away from what only constraint repair can settle: the same UNIQUE value on two
//! sites (integer primary keys excepted, they are renumbered), deleting a row that another site may
//! refer to, renaming a key to a name that another site may use. So rows that others refer to are
//! never deleted, names that are chosen from a small pool are never renamed, and a rename chooses a
//! name that nobody else makes.
//!
//! Everything is deterministic: no `random()`, no clock, no LIMIT without an ORDER BY, and no choice
//! by the rowid of a table without an integer primary key, because such rowids differ between sites.

mod constraints;
mod keys;
mod references;
mod triggers;
mod wide;

use crate::random::Random;
use crate::shapes::Shape;

/// A schema and what applications do to it.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Its name, for messages.
    pub name: &'static str,
    /// The replicated tables.
    pub tables: &'static [&'static str],
    source: Source,
}

/// Where the schema and its statements come from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Written {
        schema: fn() -> String,
        statement: fn(&mut Random, &Context) -> String,
    },
    /// A shape, and the seed from which its actions are drawn.
    Shaped(&'static Shape, u64),
}

/// All families that keep away from constraint repair.
pub const FAMILIES: [Family; 5] =
    [keys::FAMILY, references::FAMILY, constraints::FAMILY, triggers::FAMILY, wide::FAMILY];

/// What a statement may use beside random numbers.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The site that runs it.
    pub site: usize,
    /// A number that no other statement of the history has; from 0 on.
    pub n: u64,
    /// New integer keys never meet those of another site.
    pub apart: bool,
    /// A column never gets a value back that it had before, no integer key is moved, and nothing is
    /// deleted.
    pub onward: bool,
}

impl Family {
    const fn written(
        name: &'static str,
        tables: &'static [&'static str],
        schema: fn() -> String,
        statement: fn(&mut Random, &Context) -> String,
    ) -> Family {
        Family { name, tables, source: Source::Written { schema, statement } }
    }

    /// A schema under constraints, with the actions that `draw` gives to its foreign keys.
    pub fn shaped(shape: &'static Shape, draw: u64) -> Family {
        Family { name: shape.name, tables: shape.tables, source: Source::Shaped(shape, draw) }
    }

    /// SQL that creates the schema with its first rows.
    pub fn schema(&self) -> String {
        match self.source {
            Source::Written { schema, .. } => schema(),
            Source::Shaped(shape, draw) => shape.schema(draw),
        }
    }

    /// Policies of the replica, as (key, value).
    pub fn policies(&self) -> Vec<(String, String)> {
        let Source::Shaped(shape, _) = self.source else { return vec![] };
        let pairs = shape.policies.iter().filter_map(|policy| policy.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Whether foreign keys are on, in applications and in merges.
    pub fn enforces(&self) -> bool {
        !self.policies().iter().any(|(key, value)| key == "fk" && value == "ignore")
    }

    /// One statement, or several that make one transaction. It may fail, as applications' statements
    /// do.
    pub fn statement(&self, r: &mut Random, context: &Context) -> String {
        let statement = match self.source {
            Source::Written { statement, .. } => statement,
            Source::Shaped(shape, _) => return shape.statement(r),
        };
        loop {
            let sql = statement(r, context);
            if !(context.onward && sql.starts_with("DELETE")) {
                return sql;
            }
        }
    }
}

impl Context {
    /// A name that no other statement makes.
    fn name(&self) -> String {
        format!("s{}n{}", self.site, self.n)
    }

    /// An integer key for a new row: NULL, so that SQLite chooses, or one that no other site has.
    fn id(&self) -> String {
        if self.apart { (self.far() + self.n as i64).to_string() } else { "NULL".into() }
    }

    /// An integer key for a new row that may be taken, here or elsewhere.
    fn contested_id(&self, r: &mut Random) -> i64 {
        match self {
            Context { apart: true, .. } => self.far() + self.n as i64,
            Context { onward: true, .. } => 101 + r.below(2) as i64,
            _ => 101 + r.below(9) as i64,
        }
    }

    /// An integer key to give to the row `id`.
    fn moved_id(&self, r: &mut Random, id: u64) -> i64 {
        match self {
            Context { onward: true, .. } => id as i64,
            Context { apart: true, .. } => self.far() + self.n as i64,
            _ => 104 + r.below(9) as i64,
        }
    }

    /// A conflict clause for an INSERT that leaves columns to their defaults.
    fn or_partial(&self, r: &mut Random) -> &'static str {
        if self.onward { r.pick(&["", "OR IGNORE"]) } else { or(r) }
    }

    fn far(&self) -> i64 {
        100_000 * (self.site as i64 + 1)
    }
}

/// A conflict clause of INSERT and UPDATE.
fn or(r: &mut Random) -> &'static str {
    r.pick(&["", "OR IGNORE", "OR REPLACE"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    /// Statements that always fail, or never meet a row, would test nothing.
    #[test]
    fn most_statements_of_every_family_do_something() {
        for family in FAMILIES {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(&format!("PRAGMA foreign_keys=ON; {}", family.schema())).unwrap();
            let mut r = Random::new(1);
            let (mut failed, mut idle) = (0, 0);
            for n in 0..400 {
                let context = Context { site: 0, n, apart: false, onward: n % 2 == 0 };
                let sql = family.statement(&mut r, &context);
                let before = conn.total_changes();
                match conn.execute_batch(&sql) {
                    Err(rusqlite::Error::SqliteFailure(e, _))
                        if e.code == rusqlite::ErrorCode::ConstraintViolation =>
                    {
                        failed += 1;
                    }
                    Err(e) => panic!("{}: {sql}: {e}", family.name),
                    Ok(()) if conn.total_changes() == before => idle += 1,
                    Ok(()) => {}
                }
            }
            assert!(failed < 120 && idle < 160, "{}: {failed} failed, {idle} idle", family.name);
        }
    }

    #[test]
    fn every_replicated_table_of_a_family_is_named() {
        for family in FAMILIES {
            let conn = Connection::open_in_memory().unwrap();
            conn.execute_batch(&family.schema()).unwrap();
            let sql =
                "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite_%'";
            let mut statement = conn.prepare(sql).unwrap();
            let mut tables: Vec<String> =
                statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
            let mut named: Vec<_> = family.tables.to_vec();
            tables.sort();
            named.sort_unstable();
            assert_eq!(tables, named, "{}", family.name);
        }
    }
}
