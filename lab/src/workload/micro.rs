//! The thesis's own benchmark (3.3.1, 4.1): insert, update and delete, each measured by itself.
//!
//! So many tables of so many columns share so many rows, evenly or at random. All rows are inserted,
//! then all updated in one column, then all deleted, in an order that the seed gives. A statement
//! is one row; `transaction` statements are one commit. Unless asked not to, engines fold between
//! the phases: what is updated and deleted then has versions, as in a database in use. Every phase
//! begins with an empty write-ahead log.

use super::Workload;
use super::random::Random;
use crate::database::Database;
use crate::meter::{Done, Meter};
use crate::{Error, Result};
use rusqlite::types::Value as Sql;
use rusqlite::{CachedStatement, params_from_iter};
use serde_json::{Value, json};

/// What the application's primary keys are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Key {
    /// Integers, counted up.
    Integer,
    /// 24 hexadecimal digits in random order.
    Text,
}

/// A micro-benchmark.
#[derive(Clone, Debug)]
pub struct Micro {
    /// Tables.
    pub tables: u32,
    /// Columns of each, its key included.
    pub columns: u32,
    /// Rows of all tables together; more than one number lets the database grow, with phases for
    /// each.
    pub rows: Vec<u64>,
    /// Each table gets a random share of the rows, not an equal one.
    pub divide_at_random: bool,
    /// Statements a transaction; 1: each by itself.
    pub transaction: u64,
    /// Primary keys.
    pub key: Key,
    /// Rows that are there before, and stay.
    pub populate: u64,
    /// Engines fold between phases.
    pub fold_between: bool,
    /// Which of `insert`, `update`, `delete` are measured; the others are executed unmeasured.
    pub operations: Vec<Operation>,
}

/// A kind of statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Operation {
    /// INSERT of a row.
    Insert,
    /// UPDATE of one column of a row, by key.
    Update,
    /// DELETE of a row, by key.
    Delete,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::Insert, Operation::Update, Operation::Delete];

    fn name(self) -> &'static str {
        match self {
            Operation::Insert => "insert",
            Operation::Update => "update",
            Operation::Delete => "delete",
        }
    }
}

impl Default for Micro {
    /// The thesis's tables with 10,000 rows.
    fn default() -> Micro {
        Micro {
            tables: 5,
            columns: 5,
            rows: vec![10_000],
            divide_at_random: false,
            transaction: 10_000,
            key: Key::Integer,
            populate: 0,
            fold_between: true,
            operations: Operation::ALL.to_vec(),
        }
    }
}

/// A statement: table, and values in the order of its parameters.
struct Statement {
    table: u32,
    values: Vec<Sql>,
}

impl Micro {
    /// Refuses what cannot be executed.
    pub fn check(&self) -> Result<()> {
        if self.tables == 0 || self.columns < 2 || self.columns > 500 || self.transaction == 0 {
            let needs = "micro needs at least one table, 2 to 500 columns (the key is the first) \
                         and one statement a transaction";
            return Err(Error::Bad(needs.into()));
        }
        Ok(())
    }

    fn key(&self, number: u64) -> Sql {
        match self.key {
            Key::Integer => Sql::Integer(number as i64 + 1),
            Key::Text => {
                let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                Sql::Text(format!("{mixed:016x}{number:08x}"))
            }
        }
    }

    /// A value of column `column`: text, integer and real in turn, as the thesis's tool mixes them.
    fn value(column: u32, random: &mut Random) -> Sql {
        match column % 3 {
            1 => Sql::Text(random.text(10, 30)),
            2 => Sql::Integer(random.between(0, 1_000_000)),
            _ => Sql::Real(random.unit() * 1000.0),
        }
    }

    fn row(&self, number: u64, random: &mut Random) -> Vec<Sql> {
        let values = (1..self.columns).map(|column| Micro::value(column, random));
        std::iter::once(self.key(number)).chain(values).collect()
    }

    /// How many of `rows` each table gets.
    fn shares(&self, rows: u64, random: &mut Random) -> Vec<u64> {
        let tables = u64::from(self.tables);
        if !self.divide_at_random {
            return (0..tables).map(|t| rows / tables + u64::from(t < rows % tables)).collect();
        }
        let mut shares = vec![0; self.tables as usize];
        for _ in 0..rows {
            shares[random.between(0, i64::from(self.tables) - 1) as usize] += 1;
        }
        shares
    }

    fn sql(&self, operation: Operation, table: u32) -> String {
        match operation {
            Operation::Insert => {
                let parameters = vec!["?"; self.columns as usize].join(",");
                format!("INSERT INTO t{table} VALUES({parameters})")
            }
            Operation::Update => format!("UPDATE t{table} SET c1=?1 WHERE id=?2"),
            Operation::Delete => format!("DELETE FROM t{table} WHERE id=?1"),
        }
    }

    fn execute(&self, db: &mut Database, operation: Operation, list: &[Statement]) -> Result<Done> {
        let sql: Vec<String> = (0..self.tables).map(|t| self.sql(operation, t)).collect();
        let mut transactions = 0;
        for part in list.chunks(self.transaction as usize) {
            let alone = part.len() == 1;
            if !alone {
                db.conn.prepare_cached("BEGIN")?.execute([])?;
            }
            // Statements are prepared once a transaction, so that little but SQLite is measured.
            let mut prepared: Vec<Option<CachedStatement<'_>>> = sql.iter().map(|_| None).collect();
            for statement in part {
                let table = statement.table as usize;
                let slot = &mut prepared[table];
                let ready = match slot {
                    Some(ready) => ready,
                    none => none.insert(db.conn.prepare_cached(&sql[table])?),
                };
                ready.execute(params_from_iter(&statement.values))?;
            }
            drop(prepared);
            if !alone {
                db.conn.prepare_cached("COMMIT")?.execute([])?;
            }
            transactions += 1;
            db.committed(part.len() as u64)?;
        }
        Ok(Done { operations: list.len() as u64, transactions })
    }
}

impl Workload for Micro {
    fn name(&self) -> &'static str {
        "micro"
    }

    fn options(&self) -> Value {
        json!({
            "tables": self.tables,
            "columns": self.columns,
            "rows": self.rows,
            "divide": if self.divide_at_random { "random" } else { "even" },
            "transaction": self.transaction,
            "key": match self.key { Key::Integer => "integer", Key::Text => "text" },
            "populate": self.populate,
            "fold_between": self.fold_between,
            "operations": self.operations.iter().map(|o| o.name()).collect::<Vec<_>>(),
        })
    }

    fn schema(&self) -> String {
        let key = match self.key {
            Key::Integer => "INTEGER",
            Key::Text => "TEXT",
        };
        let kind = |column: u32| ["REAL", "TEXT", "INTEGER"][column as usize % 3];
        let columns: String =
            (1..self.columns).map(|column| format!(", c{column} {}", kind(column))).collect();
        let table =
            |t: u32| format!("CREATE TABLE t{t}(id {key} PRIMARY KEY NOT NULL{columns});\n");
        (0..self.tables).map(table).collect()
    }

    fn run(&self, db: &mut Database, seed: u64, meter: &mut Meter) -> Result<()> {
        let mut random = Random::new(seed, 0);
        let mut next = vec![0; self.tables as usize];
        let mut fresh = |rows: u64, random: &mut Random| {
            let shares = self.shares(rows, random);
            let mut keys = Vec::new();
            for (table, share) in shares.into_iter().enumerate() {
                keys.extend((0..share).map(|i| (table as u32, next[table] + i)));
                next[table] += share;
            }
            keys
        };
        let inserts = |keys: &[(u32, u64)], random: &mut Random| -> Vec<Statement> {
            let statement = |&(table, number): &(u32, u64)| Statement {
                table,
                values: self.row(number, random),
            };
            keys.iter().map(statement).collect()
        };
        if self.populate > 0 {
            let keys = fresh(self.populate, &mut random);
            let all = Micro { transaction: 10_000, ..self.clone() };
            all.execute(db, Operation::Insert, &inserts(&keys, &mut random))?;
            db.fold()?;
        }
        for &rows in &self.rows {
            let mut keys = fresh(rows, &mut random);
            for operation in Operation::ALL {
                let list = match operation {
                    Operation::Insert => inserts(&keys, &mut random),
                    Operation::Update => {
                        random.shuffle(&mut keys);
                        let new = |&(table, number): &(u32, u64)| Statement {
                            table,
                            values: vec![Micro::value(1, &mut random), self.key(number)],
                        };
                        keys.iter().map(new).collect()
                    }
                    Operation::Delete => {
                        random.shuffle(&mut keys);
                        let gone = |&(table, number): &(u32, u64)| Statement {
                            table,
                            values: vec![self.key(number)],
                        };
                        keys.iter().map(gone).collect()
                    }
                };
                db.checkpoint()?;
                if !self.operations.contains(&operation) {
                    self.execute(db, operation, &list)?;
                } else {
                    let name = match self.rows.len() {
                        1 => operation.name().to_owned(),
                        _ => format!("{} {rows}", operation.name()),
                    };
                    meter.phase(&name, || self.execute(db, operation, &list))?;
                }
                if operation == Operation::Insert {
                    meter.fact("bytes after insert", db.bytes()?);
                }
                if self.fold_between {
                    db.fold()?;
                }
                if operation == Operation::Insert {
                    meter.fact("bytes after insert and fold", db.bytes()?);
                }
            }
        }
        Ok(())
    }

    fn megabytes(&self) -> u64 {
        let rows = self.rows.iter().sum::<u64>() + self.populate;
        // Ten engines' worth of copies, values and indexes of the hungriest.
        rows * u64::from(self.columns) * 20 * 10 / 1_000_000 + 20
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_without_remainder() {
        let mut random = Random::new(1, 0);
        let micro = Micro { tables: 3, ..Micro::default() };
        assert_eq!(micro.shares(10, &mut random), [4, 3, 3]);
        let micro = Micro { divide_at_random: true, ..micro };
        assert_eq!(micro.shares(1000, &mut random).iter().sum::<u64>(), 1000);
    }
}
