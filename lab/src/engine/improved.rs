//! The journal of the thesis's chapter 4.5, rebuilt from its text.
//!
//! One journal a table, with a row for each changed row: its number, causal length, original key and
//! a time for each column (figure 10). Each trigger tries to update that row or inserts it. The fold
//! (*journal synchronization*, 4.5.3) carries the journal into versions and history and wipes it.

use super::Folder;
use super::baseline::{self, NOW, Table, list, quote};
use crate::Result;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub fn attach(path: &Path, conn: &Connection, names: &[String]) -> Result<impl Folder + use<>> {
    let tables = Table::read(conn, names)?;
    baseline::create_versions(conn, &tables, true)?;
    for table in &tables {
        conn.execute_batch(&capture(table))?;
    }
    let fold = tables.iter().map(fold_sql).collect::<String>();
    let journals = tables.iter().map(Table::journal).collect();
    Ok(Synchronization { path: path.to_owned(), conn: None, journals, fold })
}

fn times(t: &Table) -> Vec<String> {
    (0..t.columns.len()).map(|i| format!("crr_meta__ts{i}")).collect()
}

/// Journal and triggers of a table (4.5.2, 4.5.2.1).
fn capture(t: &Table) -> String {
    let (target, journal) = (quote(&t.name), t.journal());
    let name = |what: &str| quote(&format!("crr_journal__{}_{what}", t.name));
    let times = times(t);
    let columns = format!("crr_meta__rowid,crr_meta__cl,{},{}", t.kept_key(), times.join(","));
    let key = |row: &str| list(&t.key, |c| format!("{row}.{c}"));
    let now = list(&times, |_| NOW.to_owned());
    let all = list(&times, |ts| format!("{ts}=excluded.{ts}"));
    let changed =
        list(&t.columns, |(c, _)| format!("CASE WHEN OLD.{c} IS NOT NEW.{c} THEN {NOW} END"));
    let merged = list(&times, |ts| format!("{ts}=coalesce(excluded.{ts},{ts})"));
    format!(
        "CREATE TABLE {journal}(crr_meta__rowid INTEGER PRIMARY KEY, crr_meta__cl INTEGER, \
           {key_columns}, {time_columns});
         CREATE TRIGGER {insert} AFTER INSERT ON {target} BEGIN
           INSERT INTO {journal}({columns}) VALUES(NEW.rowid,1,{new},{now})
             ON CONFLICT(crr_meta__rowid) DO UPDATE SET crr_meta__cl=crr_meta__cl+1,{all};
         END;
         CREATE TRIGGER {update} AFTER UPDATE ON {target} BEGIN
           INSERT INTO {journal}({columns}) VALUES(OLD.rowid,1,{old},{changed})
             ON CONFLICT(crr_meta__rowid) DO UPDATE SET {merged};
           UPDATE {journal} SET crr_meta__rowid=NEW.rowid
             WHERE crr_meta__rowid=OLD.rowid AND OLD.rowid<>NEW.rowid;
         END;
         CREATE TRIGGER {delete} AFTER DELETE ON {target} BEGIN
           INSERT INTO {journal}({columns}) VALUES(OLD.rowid,2,{old},{now})
             ON CONFLICT(crr_meta__rowid) DO UPDATE SET crr_meta__cl=crr_meta__cl+1,{all};
         END;",
        key_columns = t.key_columns(true),
        time_columns = list(&times, |ts| format!("{ts} INTEGER")),
        insert = name("insert"),
        update = name("update"),
        delete = name("delete"),
        new = key("NEW"),
        old = key("OLD"),
    )
}

/// Folds a table's journal: rows that have versions, new rows, deleted rows, history (4.5.3).
fn fold_sql(t: &Table) -> String {
    let (target, journal, versions) = (quote(&t.name), t.journal(), t.versions());
    let times = times(t);
    let names = list(&t.columns, |(c, _)| c.clone());
    let values = list(&t.columns, |(c, _)| format!("t.{c}"));
    let key = list(&t.key, |c| format!("t.{c}"));
    let into = format!(
        "{versions}(crr_meta__uuid,{},{names},{},crr_meta__cl)",
        t.kept_key(),
        times.join(",")
    );
    let each = |c: &String| format!("v.{0}=j.{0}", Table::kept(c));
    let met = t.key.iter().map(each).collect::<Vec<_>>().join(" AND ");
    // Equation 5: the causal length of a row that has one and one in the journal.
    let cl = "CASE WHEN v.crr_meta__cl%2=0 THEN j.crr_meta__cl+v.crr_meta__cl \
              ELSE j.crr_meta__cl+v.crr_meta__cl-1 END";
    let literal = t.name.replace('\'', "''");
    format!(
        "REPLACE INTO {into} SELECT v.crr_meta__uuid,{key},{values},{later},{cl}
           FROM {journal} j JOIN {versions} v ON {met} JOIN {target} t ON t.rowid=j.crr_meta__rowid;
         INSERT INTO {into} SELECT randomblob(16),{key},{values},{first},j.crr_meta__cl
           FROM {journal} j JOIN {target} t ON t.rowid=j.crr_meta__rowid
           WHERE NOT EXISTS(SELECT 1 FROM {versions} v WHERE {now});
         REPLACE INTO {into} SELECT v.crr_meta__uuid,{kept},{kept_values},{later},{cl}
           FROM {journal} j JOIN {versions} v ON {met} WHERE j.crr_meta__cl%2=0;
         REPLACE INTO crr_meta__history SELECT '{literal}',v.crr_meta__uuid,1,{NOW},0
           FROM {journal} j JOIN {target} t ON t.rowid=j.crr_meta__rowid
           JOIN {versions} v ON {now};
         REPLACE INTO crr_meta__history SELECT '{literal}',v.crr_meta__uuid,1,{NOW},0
           FROM {journal} j JOIN {versions} v ON {met} WHERE j.crr_meta__cl%2=0;
         DELETE FROM {journal};",
        later = list(&times, |ts| format!("coalesce(j.{ts},v.{ts})")),
        first = list(&times, |ts| format!("j.{ts}")),
        now = t.same_key("v.", "t."),
        kept = list(&t.key, |c| format!("v.{}", Table::kept(c))),
        kept_values = list(&t.columns, |(c, _)| format!("v.{c}")),
    )
}

struct Synchronization {
    path: PathBuf,
    conn: Option<Connection>,
    journals: Vec<String>,
    fold: String,
}

impl Folder for Synchronization {
    fn fold(&mut self) -> Result<u64> {
        let conn = match &mut self.conn {
            Some(conn) => conn,
            none => {
                let conn = none.insert(Connection::open(&self.path)?);
                conn.busy_timeout(Duration::from_secs(10))?;
                conn
            }
        };
        let tx = conn.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut rows = 0;
        for journal in &self.journals {
            let sql = format!("SELECT count(*) FROM {journal}");
            rows += tx.query_row(&sql, [], |row| row.get::<_, i64>(0))?.cast_unsigned();
        }
        tx.execute_batch(&self.fold)?;
        tx.execute_batch(&format!(
            "UPDATE crr_meta__site_state SET last_out = {NOW} WHERE site_id = 1"
        ))?;
        tx.commit()?;
        Ok(rows)
    }

    fn close(&mut self) {
        self.conn = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Causal lengths in the table of versions, by key.
    fn lengths(conn: &Connection) -> Vec<(i64, i64)> {
        let sql = "SELECT key_id, crr_meta__cl FROM crr__t ORDER BY key_id";
        let mut statement = conn.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    fn count(conn: &Connection, table: &str) -> i64 {
        conn.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn folds_count_causal_lengths_as_table_9_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)").unwrap();
        let mut engine = attach(&path, &conn, &["t".to_owned()]).unwrap();
        conn.execute_batch("INSERT INTO t VALUES(1,1,1),(2,2,2),(3,3,3),(4,4,4)").unwrap();
        // What came and went between two folds leaves nothing.
        conn.execute_batch("DELETE FROM t WHERE id=4").unwrap();
        assert_eq!(engine.fold().unwrap(), 4);
        assert_eq!(lengths(&conn), [(1, 1), (2, 1), (3, 1)]);
        assert_eq!((count(&conn, "crr_journal__t"), count(&conn, "crr_meta__history")), (0, 3));

        conn.execute_batch("UPDATE t SET a=9 WHERE id=1; DELETE FROM t WHERE id=2").unwrap();
        engine.fold().unwrap();
        assert_eq!(lengths(&conn), [(1, 1), (2, 2), (3, 1)], "example 1: an update counts nothing");

        conn.execute_batch("INSERT INTO t VALUES(2,0,0)").unwrap();
        engine.fold().unwrap();
        assert_eq!(lengths(&conn)[1], (2, 3), "example 3");

        conn.execute_batch("DELETE FROM t WHERE id=2").unwrap();
        engine.fold().unwrap();
        assert_eq!(lengths(&conn)[1], (2, 4), "example 2");
        assert_eq!(count(&conn, "crr_meta__history"), 3);
        let shown: i64 =
            conn.query_row("SELECT a FROM crr__t WHERE key_id=1", [], |row| row.get(0)).unwrap();
        assert_eq!(shown, 9);
    }

    #[test]
    fn a_changed_key_is_found_by_its_original() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES(1,1)")
            .unwrap();
        let mut engine = attach(&path, &conn, &["t".to_owned()]).unwrap();
        conn.execute_batch("UPDATE t SET a=2; ").unwrap();
        engine.fold().unwrap();
        conn.execute_batch("UPDATE t SET id=5; UPDATE t SET a=3").unwrap();
        engine.fold().unwrap();
        assert_eq!(lengths(&conn), [(5, 1)]);
    }
}
