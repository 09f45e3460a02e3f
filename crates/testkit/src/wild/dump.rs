//! A file that is dumped and read back, as `sqlite3 old.db .dump | sqlite3 new.db` does: rows of tables without an
//! integer key get other rowids, and everything else is as it was.

use rusqlite::{Connection, Result};
use std::path::Path;

/// Writes the file anew from its dump. Nobody may have it open.
pub fn read_back(path: &Path) -> Result<()> {
    let other = path.with_extension("dump");
    let _there_is_none = std::fs::remove_file(&other);
    let (old, new) = (Connection::open(path)?, Connection::open(&other)?);
    let encoding: String = old.query_row("PRAGMA encoding", [], |row| row.get(0))?;
    drop(old);
    new.execute_batch(&format!("PRAGMA encoding = '{encoding}'; PRAGMA foreign_keys = OFF"))?;
    new.execute("ATTACH ?1 AS old", [path.to_str()])?;
    for (name, sql) in objects(&new, "type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")? {
        // Tables that a virtual one keeps are there with it, and filled.
        let there = "SELECT 1 FROM main.sqlite_master WHERE name = ?1";
        let kept = new.prepare(there)?.exists([&name])?;
        if !kept {
            new.execute_batch(&sql)?;
        }
        if sql.starts_with("CREATE VIRTUAL") {
            continue;
        }
        let columns = columns(&new, &name)?;
        let name = name.replace('"', "\"\"");
        if kept {
            new.execute_batch(&format!("DELETE FROM main.\"{name}\""))?;
        }
        new.execute_batch(&format!(
            "INSERT INTO main.\"{name}\"({columns}) SELECT {columns} FROM old.\"{name}\""
        ))?;
    }
    // It stays where it is once no table counts any more.
    let counted = "SELECT 1 FROM main.sqlite_master WHERE name = 'sqlite_sequence'";
    if new.prepare(counted)?.exists([])? {
        new.execute_batch(
            "DELETE FROM main.sqlite_sequence; \
             INSERT INTO main.sqlite_sequence SELECT * FROM old.sqlite_sequence",
        )?;
    }
    for (_, sql) in objects(&new, "type <> 'table'")? {
        new.execute_batch(&sql)?;
    }
    drop(new);
    std::fs::copy(&other, path).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    std::fs::remove_file(&other).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))
}

/// Names and statements of what the schema has.
fn objects(conn: &Connection, which: &str) -> Result<Vec<(String, String)>> {
    let sql = format!(
        "SELECT name, sql FROM old.sqlite_master WHERE sql IS NOT NULL AND {which} \
         ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC, rowid"
    );
    let mut statement = conn.prepare(&sql)?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// The columns of a table that are no generated ones.
fn columns(conn: &Connection, table: &str) -> Result<String> {
    let sql = "SELECT group_concat('\"' || replace(name, '\"', '\"\"') || '\"') \
               FROM pragma_table_xinfo(?1, 'old') WHERE hidden = 0";
    conn.query_row(sql, [table], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(
            "CREATE TABLE t(a TEXT PRIMARY KEY, b, c AS (b + 1)); CREATE TABLE n(id INTEGER PRIMARY KEY); \
             INSERT INTO t VALUES('x', 1), ('y', 2), ('z', 3); DELETE FROM t WHERE a = 'y'; \
             CREATE TRIGGER r AFTER INSERT ON n BEGIN DELETE FROM t; END; INSERT INTO n SELECT 7 WHERE 0",
        )
        .unwrap();
        drop(conn);
        read_back(&path).unwrap();
        let conn = Connection::open(&path).unwrap();
        let shown: String = conn
            .query_row("SELECT group_concat(rowid || a || b || c) FROM t", [], |row| row.get(0))
            .unwrap();
        assert_eq!(shown, "1x12,2z34");
        let triggers = "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'";
        assert_eq!(conn.query_row(triggers, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    }
}
