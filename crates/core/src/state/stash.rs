//! Registers of columns that this file's schema does not have: of a newer schema, or of an older one
//! that still has a column which was dropped here (R-MIG-STASH).
//!
//! They are kept as they came, given on to other sites, and shown once the schema has their columns.
//! A register is kept under the columns that it was written for, so two schemas that hold different
//! columns together do not overwrite each other's.

use super::codec::{Reader, Writer};
use super::{Stored, decode_rid, known_bytes};
use crate::Result;
use crate::catalog::Tracked;
use crate::meta::Meta;
use rusqlite::{Connection, params};
use synqlite_wire::counter::join_count;
use synqlite_wire::{Cell, Count, Rid, Stamp, Value};

/// A register as some schema wrote it.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Numbers of the columns it was written for.
    pub columns: Vec<u32>,
    /// Canonical names of the foreign keys among them, parallel to the references of its cells.
    pub keys: Vec<String>,
    /// When and where.
    pub stamp: Stamp,
    /// A renumbering made permanent (R-PIN).
    pub pinned: bool,
    /// What was written.
    pub cell: Cell,
    /// What was shown before.
    pub previous: Option<Cell>,
    /// What sites added, if it is a counter.
    pub counts: Vec<Count>,
}

impl Piece {
    /// The name under which it is kept: numbers of its columns.
    fn unit(&self) -> String {
        self.columns.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }

    /// Whether it refers to a row by a foreign key that is not among `keys`.
    pub fn refers_beyond(&self, keys: &[String]) -> bool {
        let mut refs = self.keys.iter().zip(&self.cell.refs);
        refs.any(|(key, rid)| rid.is_some() && !keys.contains(key))
    }

    /// What it says of the column with this number.
    pub fn value(&self, no: u32) -> Option<&Value> {
        self.cell.values.get(self.columns.iter().position(|column| *column == no)?)
    }
}

/// Joins a register into what is kept of its columns. Returns whether it was news.
pub fn put(
    conn: &Connection,
    meta: &mut Meta,
    table: u32,
    rid: &Rid,
    piece: &Piece,
    local_seq: i64,
) -> Result<bool> {
    let unit = piece.unit();
    let known = one(conn, meta, table, rid, &unit)?;
    let (mut news, mut piece) = (true, piece.clone());
    if let Some(mut known) = known {
        news = piece.stamp > known.stamp;
        let counts = std::mem::take(&mut piece.counts);
        if news {
            piece.counts = known.counts;
        } else {
            std::mem::swap(&mut piece, &mut known);
        }
        for count in &counts {
            news |= join_count(&mut piece.counts, count);
        }
    }
    if !news {
        return Ok(false);
    }
    let rid = Writer::new(&mut |site| meta.number(conn, site)).rid(rid)?;
    let state = Writer::new(&mut |site| meta.number(conn, site)).piece(&piece)?;
    let sql = "INSERT OR REPLACE INTO synqlite_stash(tbl, rid, unit, position, state) \
               VALUES(?1, ?2, ?3, ?4, ?5)";
    conn.prepare_cached(sql)?.execute(params![table, rid, unit, local_seq, state])?;
    Ok(true)
}

/// Whether anything is kept for a table.
pub fn any(conn: &Connection, table: u32) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_stash WHERE tbl = ?1";
    Ok(conn.prepare_cached(sql)?.exists([table])?)
}

/// What is kept for one row.
pub fn of(conn: &Connection, meta: &Meta, table: u32, rid: &Rid) -> Result<Vec<Piece>> {
    let Some(rid) = known_bytes(meta, rid)? else { return Ok(vec![]) };
    let sql = "SELECT state FROM synqlite_stash WHERE tbl = ?1 AND rid = ?2 ORDER BY unit";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![table, rid])?;
    let mut pieces = Vec::new();
    while let Some(row) = rows.next()? {
        pieces.push(
            Reader::new(meta, row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?).piece()?,
        );
    }
    Ok(pieces)
}

/// What somebody has said of the value of a row under foreign key `f`, as it was written last.
pub fn told(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    stored: &Stored,
    f: usize,
) -> Result<Option<Piece>> {
    let written = stored.state.written(t, &t.table.foreign_keys[f].columns);
    let says = |p: &Piece| p.stamp == written && p.keys.contains(&t.key_names[f]);
    Ok(of(conn, meta, t.no, &stored.rid)?.into_iter().find(says))
}

/// What is kept for one row under one name.
fn one(conn: &Connection, meta: &Meta, table: u32, rid: &Rid, unit: &str) -> Result<Option<Piece>> {
    let Some(rid) = known_bytes(meta, rid)? else { return Ok(None) };
    let sql = "SELECT state FROM synqlite_stash WHERE tbl = ?1 AND rid = ?2 AND unit = ?3";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![table, rid, unit])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let state = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    Ok(Some(Reader::new(meta, state).piece()?))
}

/// Takes out what is kept for one row, each with its local sequence.
pub fn take(conn: &Connection, meta: &Meta, table: u32, rid: &Rid) -> Result<Vec<(Piece, i64)>> {
    let Some(bytes) = known_bytes(meta, rid)? else { return Ok(vec![]) };
    let sql = "DELETE FROM synqlite_stash WHERE tbl = ?1 AND rid = ?2 RETURNING state, position";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![table, bytes])?;
    let mut pieces = Vec::new();
    while let Some(row) = rows.next()? {
        let state: Vec<u8> = row.get(0)?;
        pieces.push((Reader::new(meta, &state).piece()?, row.get(1)?));
    }
    Ok(pieces)
}

/// Rows of a table for which something came after local sequence `after`.
pub fn rows(conn: &Connection, meta: &Meta, table: u32, after: i64) -> Result<Vec<Rid>> {
    let sql = "SELECT DISTINCT rid FROM synqlite_stash WHERE tbl = ?1 AND position > ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![table, after])?;
    let mut rids = Vec::new();
    while let Some(row) = rows.next()? {
        rids.push(decode_rid(meta, row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?);
    }
    Ok(rids)
}

/// Forgets a register that its table has now.
pub fn remove(conn: &Connection, meta: &Meta, table: u32, rid: &Rid, piece: &Piece) -> Result<()> {
    let Some(rid) = known_bytes(meta, rid)? else { return Ok(()) };
    let sql = "DELETE FROM synqlite_stash WHERE tbl = ?1 AND rid = ?2 AND unit = ?3";
    conn.prepare_cached(sql)?.execute(params![table, rid, piece.unit()])?;
    Ok(())
}
