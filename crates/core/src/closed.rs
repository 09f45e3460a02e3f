//! Conflict records that were open here and closed again, and what merges decided without one.
//!
//! Open records are derived from the state ([`crate::conflicts`]) and leave no trace when their reason
//! goes. This log of the one file remembers them: each fold, merge or settling compares the records
//! that are open now with those it knew. It is bounded, is never sent, and nothing is decided by it.

use crate::catalog::Catalog;
use crate::conflicts::{self, Conflict};
use crate::merge::{Decision, text};
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::replica::Replica;
use crate::{Error, Result};
use rusqlite::{Connection, params};

/// So many closed records are kept; the oldest go first.
pub const KEPT: i64 = 1_000;

/// The log. `entry` is that of the row while its record is open.
pub const DDL: &str = "CREATE TABLE synqlite_closed(no INTEGER PRIMARY KEY, entry INTEGER, record TEXT, \
     tbl TEXT NOT NULL, row TEXT NOT NULL, kind TEXT NOT NULL, cons TEXT NOT NULL, what TEXT NOT NULL, \
     opened INTEGER NOT NULL, closed INTEGER, how TEXT)";

/// Index of the open ones.
pub const DDL_OPEN: &str =
    "CREATE UNIQUE INDEX synqlite_closed_open ON synqlite_closed(entry) WHERE closed IS NULL";

/// A record that is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The id that the record had; `None` for what was decided without one.
    pub id: Option<String>,
    /// Table.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// Kind, as in `docs/semantics.md`; also `update_lost` and `key_merge`, which are never open.
    pub kind: String,
    /// The index or foreign key that would have broken; empty for a constraint on single rows.
    pub constraint: String,
    /// What the row asked for, or what was decided.
    pub what: String,
    /// When this file first had the record, in milliseconds since 1970.
    pub opened_ms: i64,
    /// When it was closed here.
    pub closed_ms: i64,
    /// `prefer`, `discard`, `restore` or `accept`, if so settled here; `write` if closed by what was
    /// written here, `merge` if by what another site sent.
    pub how: String,
}

impl Replica {
    /// Records that were open here and are closed, the latest first; 1,000 at most.
    pub fn closed_conflicts(&self) -> Result<Vec<Closed>> {
        let read = || {
            let sql = "SELECT record, tbl, row, kind, cons, what, opened, closed, how \
                       FROM synqlite_closed WHERE closed IS NOT NULL ORDER BY closed DESC, no DESC";
            let mut statement = self.conn.prepare(sql)?;
            let rows = statement.query_map([], |row| {
                Ok(Closed {
                    id: row.get(0)?,
                    table: row.get(1)?,
                    row: row.get(2)?,
                    kind: row.get(3)?,
                    constraint: row.get(4)?,
                    what: row.get(5)?,
                    opened_ms: row.get(6)?,
                    closed_ms: row.get(7)?,
                    how: row.get(8)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        };
        read().map_err(|e: Error| e.on(&self.path))
    }
}

/// Brings the log up to date after something that may have opened or closed records.
pub fn update(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    now_ms: i64,
    how: &str,
) -> Result<()> {
    let some = "SELECT EXISTS(SELECT 1 FROM synqlite_row WHERE kind IS NOT NULL) \
                OR EXISTS(SELECT 1 FROM synqlite_closed WHERE closed IS NULL)";
    if !conn.prepare_cached(some)?.query_row([], |row| row.get(0))? {
        return Ok(());
    }
    let close = "UPDATE synqlite_closed AS o SET closed = ?1, how = ?2, entry = NULL \
                 WHERE closed IS NULL AND NOT EXISTS(SELECT 1 FROM synqlite_row AS r \
                 WHERE r.id = o.entry AND r.kind = o.kind AND r.cons = o.cons)";
    if conn.prepare_cached(close)?.execute(params![now_ms, how])? > 0 {
        prune(conn)?;
    }
    for t in &catalog.tables {
        for (entry, conflict) in &conflicts::fresh(Lookup { conn, meta, catalog }, t)? {
            let Conflict { id, table, row, kind, constraint, .. } = conflict;
            let sql = "INSERT INTO synqlite_closed(entry, record, tbl, row, kind, cons, what, opened) \
                       VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let values = params![entry, id, table, row, kind, constraint, asked(conflict), now_ms];
            conn.prepare_cached(sql)?.execute(values)?;
        }
    }
    Ok(())
}

/// Notes what a merge decided without leaving a record: an update that a delete hid, and values of
/// one key that two sites inserted.
pub fn note(conn: &Connection, decisions: &[Decision], now_ms: i64) -> Result<()> {
    let told: Vec<&Decision> = decisions.iter().filter(|d| d.kind.is_some()).collect();
    if told.is_empty() {
        return Ok(());
    }
    let latest = told.len().saturating_sub(KEPT as usize);
    let sql = "INSERT INTO synqlite_closed(tbl, row, kind, cons, what, opened, closed, how) \
               VALUES(?1, ?2, ?3, '', ?4, ?5, ?5, 'merge')";
    let mut statement = conn.prepare_cached(sql)?;
    for Decision { table, row, what, kind } in &told[latest..] {
        statement.execute(params![table, row, kind, what, now_ms])?;
    }
    prune(conn)
}

/// What a row asked for, in the columns of its constraint.
fn asked(conflict: &Conflict) -> String {
    let asked = conflict.displaced.iter().filter(|(c, _)| conflict.contested.contains(c));
    let asked: Vec<String> = asked.map(|(c, v)| format!("{c} {}", text(v))).collect();
    asked.join(", ")
}

fn prune(conn: &Connection) -> Result<()> {
    let sql = "DELETE FROM synqlite_closed WHERE no IN (SELECT no FROM synqlite_closed \
               WHERE closed IS NOT NULL ORDER BY closed DESC, no DESC LIMIT -1 OFFSET ?1)";
    conn.prepare_cached(sql)?.execute([KEPT])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Site;

    #[test]
    fn only_the_latest_are_kept() {
        let site = Site::new("CREATE TABLE t(a)");
        let decision = |n: i64| Decision {
            table: "t".into(),
            row: n.to_string(),
            what: String::new(),
            kind: (n % 2 == 0).then_some("update_lost"),
        };
        site.replica.conn.execute_batch("BEGIN").unwrap();
        for batch in [0..500, 500..3_000] {
            let decisions: Vec<Decision> = batch.clone().map(decision).collect();
            note(&site.replica.conn, &decisions, batch.end).unwrap();
        }
        let closed = site.replica.closed_conflicts().unwrap();
        let rows: Vec<&str> = closed.iter().map(|c| c.row.as_str()).collect();
        assert_eq!((rows.len(), rows[0], rows[999]), (1_000, "2998", "1000"));
    }
}
