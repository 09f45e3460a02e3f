//! Rows that show something else though nobody wrote to them: one that is hidden or comes back, one that has
//! another number, one that follows the key of another. Their states stay where they are, as no other site
//! lacks anything of them; so they have positions of their own here, for those who listen to changes.
//!
//! Nothing is noted before somebody listens.

use crate::meta::{self, Meta};
use crate::state::known_bytes;
use crate::{Result, state};
use rusqlite::{Connection, params};
use synqlite_wire::Rid;

const DDL: &str = "\
    CREATE TABLE main.synqlite_shown(tbl INTEGER, rid BLOB, position INTEGER NOT NULL, \
     PRIMARY KEY(tbl, rid)) WITHOUT ROWID;\
    CREATE INDEX main.synqlite_shown_position ON synqlite_shown(position)";

/// Somebody listens from now on.
pub fn listen(conn: &Connection, meta: &mut Meta) -> Result<()> {
    if !meta.listened {
        conn.execute_batch(DDL)?;
        meta::set(conn, "listened", true)?;
        meta.listened = true;
    }
    Ok(())
}

/// A row of table `no` shows something else.
pub fn note(conn: &Connection, meta: &mut Meta, no: u32, rid: &Rid) -> Result<()> {
    if !meta.listened {
        return Ok(());
    }
    meta.noted = meta.local_seq + 1;
    let sql = "INSERT OR REPLACE INTO synqlite_shown VALUES(?1, ?2, ?3)";
    let rid = known_bytes(meta, rid)?;
    conn.prepare_cached(sql)?.execute(params![no, rid, meta.noted])?;
    Ok(())
}

/// Rows that are noted at a position: number of the table, identity.
pub fn at(conn: &Connection, meta: &Meta, position: i64) -> Result<Vec<(u32, Rid)>> {
    let sql = "SELECT tbl, rid FROM synqlite_shown WHERE position = ?1 ORDER BY tbl, rid";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([position])?;
    let mut noted = Vec::new();
    while let Some(row) = rows.next()? {
        let rid: Vec<u8> = row.get(1)?;
        noted.push((row.get(0)?, state::decode_rid(meta, &rid)?));
    }
    Ok(noted)
}
