//! Sums of what rows show: they tell a value that was written from one that was not, where the
//! triggers that would have noted it were gone.
//!
//! What must hold at the end of every transaction: the sum of a visible row is that of what it shows
//! while nothing is waiting in the journal, and a rowid that a segment spans has a sum only if a row is there. Whoever stores a state because of a change, or shows
//! something else, says so ([`touch`]); sums are taken when the transaction ends, of rows
//! that lie together at once.
//!
//! A sum is a byte of the hash of each column, and 16 bits of all of them added up. The bytes say
//! which columns are others, the 16 bits that none is: a row in which one column was written looks
//! untouched once in 16 million times. A column that its place tells is in no sum.
//!
//! A row is found by its *place*: its rowid, or in a table without rowids the number of its entry.

mod again;
mod chunk;
mod compare;
mod defaulted;
mod renamed;

pub use again::Comparison;
pub use compare::{Compared, Sums};
pub use defaulted::defaulted;

use super::Stored;
use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::meta::{Meta, Unsummed};
use crate::parts;
use crate::schema::quote;
use crate::sqlvalue::{Located, as_ref};
use crate::{Error, Result};
use chunk::{CHECK, CHUNK, Chunk, Layout, hash, layout, sum_of, summed, width};
use rusqlite::{Connection, OptionalExtension, Row, params};
use synqlite_wire::Value;

/// So many places may be passed over between two whose sums are taken in one look.
const SPARSE: i64 = 8;

/// So many places are remembered; then their sums are taken.
const MOST: usize = parts::of(65_536);

/// The row shows something else, or its state was stored anew.
pub fn touch(meta: &mut Meta, t: &Tracked, loc: &Loc, entry: i64) {
    let place = match loc {
        Loc::Row(rowid) => *rowid,
        Loc::Key(_) => entry,
    };
    meta.unsummed.places.push((t.no, place));
}

/// The row may leave its place, which a segment may span as if another were there.
pub fn leave(meta: &mut Meta, t: &Tracked, stored: &Stored) {
    if let (Some(loc @ Loc::Row(_)), Some(entry)) = (&stored.loc, stored.entry) {
        touch(meta, t, loc, entry);
    }
}

/// Whether a column of a row, by position, showed this value when the last transaction ended, as far as its byte
/// tells.
pub fn showed(
    conn: &Connection,
    t: &Tracked,
    stored: &Stored,
    (c, value): (usize, &Value),
) -> Result<bool> {
    let place = match &stored.loc {
        Some(Loc::Row(rowid)) => Some(*rowid),
        _ => stored.entry,
    };
    let Some(place) = place else { return Ok(false) };
    let Some(chunk) = load(conn, t, place.div_euclid(CHUNK))? else { return Ok(false) };
    let at = chunk.layout.iter().position(|of| of.no == t.column_nos[c]);
    let byte = chunk.get(place).zip(at).map(|(sum, at)| sum[CHECK + at]);
    Ok(byte == Some(hash(t.column_nos[c], as_ref(value)) as u8))
}

/// Whether it is time to take them.
pub fn are_many(meta: &Meta) -> bool {
    meta.unsummed.places.len() >= MOST
}

/// Whether a row was at a rowid when the last transaction ended.
pub fn is_there(conn: &Connection, t: &Tracked, loc: &Loc) -> Result<bool> {
    let Loc::Row(rowid) = *loc else { return Ok(true) };
    let chunk = load(conn, t, rowid.div_euclid(CHUNK))?;
    Ok(chunk.is_some_and(|chunk| chunk.get(rowid).is_some()))
}

/// Takes the sums of all rows that were touched.
pub fn settle(conn: &Connection, meta: &mut Meta, catalog: &Catalog) -> Result<()> {
    let Unsummed { mut places, tables } = std::mem::take(&mut meta.unsummed);
    let table = |no: u32| catalog.position_of_no(no).map(|position| &catalog.tables[position]);
    tables.iter().filter_map(|no| table(*no)).try_for_each(|t| retake(conn, t))?;
    places.sort_unstable();
    places.dedup();
    for of_table in places.chunk_by(|a, b| a.0 == b.0) {
        let no = of_table[0].0;
        let Some(t) = table(no).filter(|_| !tables.contains(&no)) else { continue };
        if !t.has_rowid() {
            let mut writer = Writer::new(conn, t)?;
            for &(_, entry) in of_table {
                writer.take_entry(entry)?;
            }
            writer.finish()?;
            continue;
        }
        let near = |a: &(u32, i64), b: &(u32, i64)| {
            b.1.div_euclid(CHUNK) == a.1.div_euclid(CHUNK) && b.1 - a.1 <= SPARSE
        };
        let mut writer = Writer::new(conn, t)?;
        for run in of_table.chunk_by(near) {
            let chunk = writer.open(run[0].1.div_euclid(CHUNK))?;
            // Of other rows that are gone a fold may still have to hear, and of others that were written past the
            // triggers.
            run.iter().for_each(|(_, place)| chunk.clear(*place));
            writer.take_some(run)?;
        }
        writer.finish()?;
    }
    Ok(())
}

/// Takes the sums of the rows in ranges of rowids, in ascending order.
pub fn take(
    conn: &Connection,
    t: &Tracked,
    ranges: impl IntoIterator<Item = (i64, i64)>,
) -> Result<()> {
    let mut writer = Writer::new(conn, t)?;
    ranges.into_iter().try_for_each(|(lo, hi)| writer.take_range(lo, hi))?;
    writer.finish()
}

/// Takes the sums of all rows of a table anew, as its columns are now.
pub fn retake(conn: &Connection, t: &Tracked) -> Result<()> {
    conn.execute("DELETE FROM synqlite_sum WHERE tbl = ?1", [t.no])?;
    if t.has_rowid() {
        return take(conn, t, [(i64::MIN, i64::MAX)]);
    }
    let sql = "SELECT id FROM synqlite_row WHERE tbl = ?1 AND loc IS NOT NULL ORDER BY id";
    let mut statement = conn.prepare(sql)?;
    let entries = statement.query_map([t.no], |row| row.get(0))?;
    let mut writer = Writer::new(conn, t)?;
    for entry in entries {
        writer.take_entry(entry?)?;
    }
    writer.finish()
}

/// Takes sums of rows of one table, in ascending order of places.
pub struct Writer<'a> {
    conn: &'a Connection,
    t: &'a Tracked,
    columns: Vec<usize>,
    layout: Layout,
    /// The sum taken last.
    sum: Vec<u8>,
    /// Reads the place and the summed columns of the rows in a range of rowids.
    sql: String,
    chunk: Option<Chunk>,
}

impl<'a> Writer<'a> {
    /// For rows of `t`.
    pub fn new(conn: &'a Connection, t: &'a Tracked) -> Result<Writer<'a>> {
        let (loc, columns, layout) = (loc_sql(&t.table, "o."), summed(t), layout(t));
        let names = columns.iter().map(|&c| format!(",o.{}", quote(&t.table.columns[c].name)));
        let names: String = names.collect();
        let target = t.target();
        let sql = format!(
            "SELECT {loc}{names} FROM {target} AS o WHERE {loc} BETWEEN ?1 AND ?2 ORDER BY {loc}"
        );
        let sum = vec![0; width(&layout)];
        Ok(Writer { conn, t, columns, layout, sum, sql, chunk: None })
    }

    /// Positions of the columns that are in sums.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Takes the sum of a row, of which `row` has these columns from `first` on.
    pub fn take_row(&mut self, place: i64, row: &Row<'_>, first: usize) -> Result<()> {
        sum_of(&self.layout, |i| row.get_ref(first + i), &mut self.sum)?;
        self.set(place)
    }

    fn take_range(&mut self, lo: i64, hi: i64) -> Result<()> {
        self.take_of(lo, hi, |_| true)
    }

    /// Takes the sums of the rows at these rowids, which are close together and in ascending order.
    fn take_some(&mut self, places: &[(u32, i64)]) -> Result<()> {
        let mut left = places.iter().map(|(_, place)| *place).peekable();
        self.take_of(places[0].1, places[places.len() - 1].1, |rowid| {
            while left.next_if(|place| *place < rowid).is_some() {}
            left.peek() == Some(&rowid)
        })
    }

    fn take_of(&mut self, lo: i64, hi: i64, mut takes: impl FnMut(i64) -> bool) -> Result<()> {
        let conn = self.conn;
        let mut statement = conn.prepare_cached(&self.sql)?;
        let mut rows = statement.query([lo, hi])?;
        while let Some(row) = rows.next()? {
            let rowid = row.get(0)?;
            if takes(rowid) {
                self.take_row(rowid, row, 1)?;
            }
        }
        Ok(())
    }

    fn take_entry(&mut self, entry: i64) -> Result<()> {
        // Entries of other tables lie between those of this one.
        let sql = "SELECT loc FROM synqlite_row WHERE id = ?1 AND tbl = ?2 AND loc IS NOT NULL";
        let mut statement = self.conn.prepare_cached(sql)?;
        let found = statement.query_row(params![entry, self.t.no], |row| row.get(0)).optional()?;
        let Some(Located(loc)) = found else { return Ok(()) };
        if let Some(row) = self.t.read(self.conn, &loc)? {
            sum_of(&self.layout, |i| Ok(as_ref(&row[self.columns[i]])), &mut self.sum)?;
            self.set(entry)?;
        }
        Ok(())
    }

    fn set(&mut self, place: i64) -> Result<()> {
        let sum = std::mem::take(&mut self.sum);
        self.open(place.div_euclid(CHUNK))?.set(place, &sum);
        self.sum = sum;
        Ok(())
    }

    /// The chunk of this number; the one before is written.
    fn open(&mut self, no: i64) -> Result<&mut Chunk> {
        let chunk = match self.chunk.take() {
            Some(chunk) if chunk.no == no => chunk,
            other => {
                self.chunk = other;
                self.finish()?;
                let known = load(self.conn, self.t, no)?;
                match known.filter(|chunk| chunk.layout == self.layout) {
                    Some(chunk) => chunk,
                    None => self.anew(no)?,
                }
            }
        };
        Ok(self.chunk.insert(chunk))
    }

    /// The chunk as its rows are now, if it was there with other columns.
    fn anew(&self, no: i64) -> Result<Chunk> {
        let chunk = Chunk::new(no, &self.layout);
        let (conn, t) = (self.conn, self.t);
        let sql = "SELECT 1 FROM synqlite_sum WHERE tbl = ?1 AND lo = ?2";
        if !conn.prepare_cached(sql)?.exists(params![t.no, no])? {
            return Ok(chunk);
        }
        let mut other = Writer { chunk: Some(chunk), ..Writer::new(conn, t)? };
        let (lo, hi) = (no * CHUNK, no * CHUNK + (CHUNK - 1));
        if !t.has_rowid() {
            (lo..=hi).try_for_each(|entry| other.take_entry(entry))?;
        } else {
            other.take_range(lo, hi)?;
        }
        Ok(other.chunk.take().unwrap_or_else(|| Chunk::new(no, &self.layout)))
    }

    /// Writes the sums taken last.
    pub fn finish(&mut self) -> Result<()> {
        let Some(chunk) = self.chunk.take() else { return Ok(()) };
        if chunk.is_empty() {
            let sql = "DELETE FROM synqlite_sum WHERE tbl = ?1 AND lo = ?2";
            self.conn.prepare_cached(sql)?.execute(params![self.t.no, chunk.no])?;
            return Ok(());
        }
        let sql = "INSERT OR REPLACE INTO synqlite_sum(tbl, lo, sums) VALUES(?1, ?2, ?3)";
        let row = params![self.t.no, chunk.no, chunk.bytes()];
        self.conn.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }
}

fn damaged(t: &Tracked) -> Error {
    Error::Damaged(format!("table {}: the sums of its rows cannot be read", t.table.name))
}

fn load(conn: &Connection, t: &Tracked, no: i64) -> Result<Option<Chunk>> {
    let sql = "SELECT sums FROM synqlite_sum WHERE tbl = ?1 AND lo = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![t.no, no])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let bytes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    Chunk::from_bytes(no, bytes).map(Some).ok_or_else(|| damaged(t))
}
