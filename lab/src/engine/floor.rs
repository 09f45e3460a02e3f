//! What capture by triggers costs at least. No engine of use: nothing can be folded from it.
//!
//! [`Floor::Idle`] has triggers that never run their bodies: the price of having any. SQLite opens a
//! statement journal for them and calls them for each row. [`Floor::Entry`] notes what no correct
//! capture can do without: the place of each write, its kind, the columns it changed and its time,
//! inserts of one millisecond together. It leaves out all that makes a merge right later: the last
//! values of deleted rows and of keys, rows that REPLACE displaces, names that let columns be dropped.

use super::baseline::{Table, quote};
use crate::Result;
use rusqlite::Connection;

/// How low a floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// Triggers that never run.
    Idle,
    /// One entry for each write.
    Entry,
}

impl Floor {
    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Floor::Idle => "floor:idle",
            Floor::Entry => "floor",
        }
    }
}

pub fn attach(floor: Floor, conn: &Connection, names: &[String]) -> Result<()> {
    conn.execute_batch(
        "CREATE TABLE floor_journal(seq INTEGER PRIMARY KEY, ev INTEGER NOT NULL, a, b, m, \
         at REAL NOT NULL)",
    )?;
    for (no, table) in Table::read(conn, names)?.iter().enumerate() {
        conn.execute_batch(&triggers(floor, no, table))?;
    }
    Ok(())
}

fn triggers(floor: Floor, no: usize, t: &Table) -> String {
    let target = quote(&t.name);
    let name = |what: &str| quote(&format!("floor_{no}_{what}"));
    let (insert, update, delete) = (no * 3, no * 3 + 1, no * 3 + 2);
    let (first, other) = match floor {
        Floor::Idle => ("WHEN 0".to_owned(), "WHEN 0"),
        Floor::Entry => (
            format!(
                "WHEN (SELECT ev={insert} AND b<NEW.rowid AND at=julianday() FROM floor_journal \
                 ORDER BY seq DESC LIMIT 1) IS NOT 1"
            ),
            "",
        ),
    };
    let changed = t.columns.iter().enumerate();
    let changed = changed.map(|(i, (c, _))| format!("((OLD.{c} IS NOT NEW.{c})<<{i})"));
    let mask = changed.collect::<Vec<_>>().join("|");
    format!(
        "CREATE TRIGGER {} AFTER INSERT ON {target} {first} BEGIN \
           INSERT INTO floor_journal(ev,a,b,at) \
             VALUES({insert},NEW.rowid,(SELECT max(rowid) FROM {target}),julianday()); END;
         CREATE TRIGGER {} AFTER UPDATE ON {target} {other} BEGIN \
           INSERT INTO floor_journal(ev,a,m,at) VALUES({update},OLD.rowid,{mask},julianday()); END;
         CREATE TRIGGER {} AFTER DELETE ON {target} {other} BEGIN \
           INSERT INTO floor_journal(ev,a,at) VALUES({delete},OLD.rowid,julianday()); END;",
        name("insert"),
        name("update"),
        name("delete"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(floor: Floor) -> Vec<(i64, i64, Option<i64>)> {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)").unwrap();
        attach(floor, &conn, &["t".to_owned()]).unwrap();
        conn.execute_batch(
            "INSERT INTO t VALUES(1,1,1); UPDATE t SET b=2; DELETE FROM t WHERE id=1;",
        )
        .unwrap();
        let mut statement = conn.prepare("SELECT ev, a, m FROM floor_journal").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn the_floor_notes_every_write_and_the_idle_one_none() {
        assert_eq!(journal(Floor::Entry), [(0, 1, None), (1, 1, Some(4)), (2, 1, None)]);
        assert_eq!(journal(Floor::Idle), []);
    }
}
