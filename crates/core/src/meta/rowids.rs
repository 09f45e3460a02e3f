//! Whether the rows of the file are at the rowids at which they were.
//!
//! What is kept of a row without an integer key names it by its rowid. Copies of a file keep those, and so does
//! VACUUM where a table has an index. A dump that is read back does not: SQLite counts the rows of such tables
//! anew. So a row of ours stands where nobody counts up to, and moves when they do (decision 041).

use crate::Result;
use rusqlite::Connection;

/// Where the row stands.
const PLACE: i64 = 1 << 32;

const DDL: &str = "CREATE TABLE IF NOT EXISTS main.synqlite_rowid(mark TEXT UNIQUE)";

/// Whether it is not certain, as a file of an earlier release lacks the row.
pub fn are_unmarked(conn: &Connection) -> Result<bool> {
    let sql = "SELECT 1 FROM main.sqlite_master WHERE name = 'synqlite_rowid'";
    Ok(!conn.prepare_cached(sql)?.exists([])?)
}

/// Whether rows have other rowids than they had.
pub fn are_others(conn: &Connection) -> Result<bool> {
    if are_unmarked(conn)? {
        return Ok(false);
    }
    let sql = "SELECT 1 FROM synqlite_rowid WHERE rowid <> ?1";
    Ok(conn.prepare_cached(sql)?.exists([PLACE])?)
}

/// Takes note that rows are where they are known to be.
pub fn mark(conn: &Connection) -> Result<()> {
    conn.execute_batch(DDL)?;
    let sql = "INSERT OR REPLACE INTO synqlite_rowid(rowid, mark) VALUES(?1, 'rowids are kept')";
    conn.prepare_cached(sql)?.execute([PLACE])?;
    Ok(())
}
