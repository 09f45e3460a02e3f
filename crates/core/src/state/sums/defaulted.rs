//! Columns that may have been dropped and added again since their sums were taken.

use super::chunk::{CHECK, CHUNK, Chunk, Summed, hash, part};
use super::damaged;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::sqlvalue::{Located, as_ref};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeSet, HashMap};
use synqlite_wire::Value;

/// A column that still shows something else than its default in so many rows is what it was.
const ENOUGH: u32 = 64;

/// A column that may have been added again.
struct Column {
    no: u32,
    position: usize,
    default: Value,
    /// In how many rows it shows something else than its default, now as before.
    kept: u32,
    /// How many rows show the default, and may always have.
    alike: u32,
    /// Whether there is a row that shows its default now, and did not.
    defaulted: bool,
}

/// Numbers of the columns of which some row shows the default now, and did not when its sum was taken.
/// Says too much where an application has written the default, and nothing of a column that looks
/// written in many rows before the first such one.
pub fn defaulted(conn: &Connection, t: &Tracked) -> Result<BTreeSet<u32>> {
    let addable = |c: &usize| !t.table.primary_key.contains(c) && t.table.rowid_alias() != Some(*c);
    let column = |position: usize| Column {
        no: t.column_nos[position],
        position,
        default: t.default_of(position),
        kept: 0,
        alike: 0,
        defaulted: false,
    };
    let mut columns: Vec<Column> = (0..t.column_nos.len()).filter(addable).map(column).collect();
    let positions: HashMap<u32, usize> = t.column_nos.iter().copied().zip(0..).collect();
    let mut statement =
        conn.prepare("SELECT lo, sums FROM synqlite_sum WHERE tbl = ?1 ORDER BY lo")?;
    let mut chunks = statement.query([t.no])?;
    while let Some(row) = chunks.next()? {
        let no: i64 = row.get(0)?;
        let bytes = row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?;
        let chunk = Chunk::from_bytes(no, bytes).ok_or_else(|| damaged(t))?;
        let layout = chunk.layout.iter().map(|of| of.no).zip(0..).collect();
        let known = Known { chunk, layout, positions: &positions };
        for at in 0..CHUNK {
            look(conn, t, &mut columns, &known, no * CHUNK + at)?;
        }
        if columns.iter().all(|column| column.defaulted || column.kept >= ENOUGH) {
            break;
        }
    }
    let defaulted = columns.iter().filter(|column| column.defaulted);
    Ok(defaulted.map(|column| column.no).collect())
}

/// What is known of some rows.
struct Known<'a> {
    chunk: Chunk,
    /// Where the sum of each column is, by its number.
    layout: HashMap<u32, usize>,
    /// Where each column is in a row.
    positions: &'a HashMap<u32, usize>,
}

/// Looks at one row, if it showed something else than a default.
fn look(
    conn: &Connection,
    t: &Tracked,
    columns: &mut [Column],
    known: &Known<'_>,
    place: i64,
) -> Result<()> {
    let Some(sum) = known.chunk.get(place) else { return Ok(()) };
    let (mut now, mut lost) = (None, None);
    for column in columns.iter_mut().filter(|c| !c.defaulted && c.kept < ENOUGH) {
        let Some(at) = known.layout.get(&column.no) else { continue };
        let byte = |value: &Value| hash(column.no, as_ref(value)) as u8;
        let alike = sum[CHECK + at] == byte(&column.default);
        if alike && column.alike >= ENOUGH {
            continue;
        }
        let row = match &now {
            Some(row) => row,
            None => now.insert(read(conn, t, place)?),
        };
        let Some(row) = row else { return Ok(()) };
        match &row[column.position] {
            // One in 256 other values has the byte of the default, but not its part of the whole.
            value if *value == column.default => {
                column.defaulted = !alike || *lost.get_or_insert_with(|| known.lost_one(sum, row));
                column.alike += 1;
            }
            value if byte(value) == sum[CHECK + at] => column.kept += 1,
            _ => {}
        }
    }
    Ok(())
}

impl Known<'_> {
    /// Whether a row looks the same in each column, and does not in all of them together. Where one looks
    /// otherwise, that one was written.
    fn lost_one(&self, sum: &[u8], row: &[Value]) -> bool {
        let (mut check, mut alike) = (0u16, true);
        for (Summed { no, .. }, byte) in self.chunk.layout.iter().zip(&sum[CHECK..]) {
            let Some(&c) = self.positions.get(no) else { return false };
            let hash = hash(*no, as_ref(&row[c]));
            alike &= *byte == hash as u8;
            check = check.wrapping_add(part(hash));
        }
        alike && check.to_le_bytes() != sum[..CHECK]
    }
}

/// The row at a place.
fn read(conn: &Connection, t: &Tracked, place: i64) -> Result<Option<Vec<Value>>> {
    if t.has_rowid() {
        return t.read(conn, &Loc::Row(place));
    }
    let sql = "SELECT loc FROM synqlite_row WHERE id = ?1 AND tbl = ?2 AND loc IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let loc: Option<Located> =
        statement.query_row(params![place, t.no], |row| row.get(0)).optional()?;
    loc.map_or(Ok(None), |Located(loc)| t.read(conn, &loc))
}
