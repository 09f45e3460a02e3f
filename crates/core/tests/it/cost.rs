//! What capture costs, counted in instructions of SQLite's virtual machine and in journal entries:
//! the same on every machine. Processor time is for the lab.

use crate::site::World;
use rusqlite::{Connection, StatementStatus, params};

/// Rows of each measurement.
const ROWS: i64 = 1000;

/// Instructions a statement, with `sql` executed for each number in one transaction.
fn instructions(db: &Connection, sql: &str) -> i64 {
    db.execute_batch("BEGIN").unwrap();
    let mut statement = db.prepare(sql).unwrap();
    for n in 1..=ROWS {
        let key = format!("{:016x}", n.wrapping_mul(0x1234_5678_9abc_def1));
        let parameters = params![n, key, n * 7];
        statement.execute(&parameters[..statement.parameter_count()]).unwrap();
    }
    let steps = i64::from(statement.get_status(StatementStatus::VmStep));
    drop(statement);
    db.execute_batch("COMMIT").unwrap();
    steps / ROWS
}

/// Instructions beyond plain SQLite's of each of these statements.
fn beyond(schema: &str, statements: &[&str]) -> Vec<i64> {
    let plain = Connection::open_in_memory().unwrap();
    plain.execute_batch(schema).unwrap();
    let world = World::new();
    let mut a = world.init("a", schema);
    let cost = |sql: &&str| {
        let cost = instructions(&a.app, sql) - instructions(&plain, sql);
        a.replica.fold().unwrap();
        cost
    };
    statements.iter().map(cost).collect()
}

#[test]
fn a_write_costs_few_instructions() {
    let integer = beyond(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, a TEXT, b INTEGER, c REAL, d TEXT)",
        &[
            "INSERT INTO t VALUES(?1, ?2, ?3, 0.5, ?2)",
            "INSERT INTO t VALUES(?1 + 1000, ?2, ?3, 0.5, ?2)",
            "UPDATE t SET b = ?3 + 1 WHERE id = ?1",
            "DELETE FROM t WHERE id = ?1",
        ],
    );
    let text = beyond(
        "CREATE TABLE t(k TEXT PRIMARY KEY, a TEXT, b INTEGER, c REAL, d TEXT)",
        &[
            "INSERT INTO t VALUES(?2, ?1, ?3, 0.5, ?2)",
            "INSERT INTO t VALUES(?2 || 'x', ?1, ?3, 0.5, ?2)",
            "UPDATE t SET b = ?3 + ?1 + 1 WHERE k = ?2",
            "DELETE FROM t WHERE k = ?2 AND ?1 < ?3",
        ],
    );
    // A first insert, an insert once rows are known, an update of one column, a delete.
    let most = [35, 55, 120, 110];
    let within = |found: &[i64]| found.iter().zip(most).all(|(found, most)| *found <= most);
    assert!(within(&integer) && within(&text), "{integer:?}, {text:?}, at most {most:?}");
}

/// Rows that are loaded together leave next to nothing in the journal.
#[test]
fn a_load_leaves_few_entries() {
    let world = World::new();
    let a = world
        .init("a", "CREATE TABLE t(id INTEGER PRIMARY KEY, a); CREATE TABLE u(k TEXT PRIMARY KEY)");
    a.run(
        "INSERT INTO t(a) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<5000) SELECT i FROM n;
         INSERT INTO u SELECT hex(a * 7919) FROM t",
    );
    assert_eq!(a.row("SELECT count(*) FROM synqlite_journal"), "2");
}
