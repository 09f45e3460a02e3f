//! Entries of the journal by themselves.

use super::window::Millis;
use crate::capture::{Event, MASK_BITS, SLOTS};
use crate::catalog::{Catalog, Tracked};
use crate::schema::quote;
use crate::sqlvalue::{Located, value};
use crate::{Error, Result};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use synqlite_wire::Value;

/// Milliseconds since 1970 of a Julian day.
pub fn millis(day: f64) -> Millis {
    ((day * 86_400_000.0).round() as Millis).saturating_sub(210_866_760_000_000)
}

/// Numbers of the columns whose bits a mask has.
pub fn columns_of_mask(mask: ValueRef<'_>) -> Result<Vec<u32>> {
    let damaged = || Error::Damaged("journal: a mask of changed columns".to_owned());
    let words: Vec<i64> = match mask {
        ValueRef::Null => vec![],
        ValueRef::Integer(word) => vec![word],
        other => {
            let text = other.as_str().map_err(|_| damaged())?;
            let words = text.split(',').map(|w| w.parse().map_err(|_| damaged()));
            words.collect::<Result<_>>()?
        }
    };
    let mut columns = Vec::new();
    for (w, word) in (0u32..).zip(words) {
        let bits = (0..MASK_BITS).filter(|bit| word >> bit & 1 == 1);
        columns.extend(bits.map(|bit| w * MASK_BITS + bit));
    }
    Ok(columns)
}

/// The before-image that belongs to a journal entry, one value for each column of the table as it
/// is now; NULL where the image does not hold a column.
pub fn image(conn: &Connection, t: &Tracked, seq: i64) -> Result<Option<Vec<Value>>> {
    let sql = "SELECT ev, b, v0, v1, v2, v3, v4, v5, v6, v7 FROM synqlite_journal \
               WHERE seq >= ?1 ORDER BY seq";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([seq])?;
    let mut image: Option<Vec<Value>> = None;
    while let Some(row) = rows.next()? {
        let part = match (Event::read(row.get(0)?)?.1, &image) {
            (
                Event::Delete | Event::Replace | Event::Rival | Event::Previous | Event::Leaving,
                None,
            ) => 0,
            (Event::More, Some(_)) => row.get(1)?,
            _ => break,
        };
        let image = image.get_or_insert_with(|| vec![Value::Null; t.column_nos.len()]);
        for (cell, no) in image.iter_mut().zip(&t.column_nos).filter(|(_, no)| *no / SLOTS == part)
        {
            *cell = value(row.get_ref(2 + (no % SLOTS) as usize)?);
        }
    }
    Ok(image)
}

/// Whether the entry has an image, of a row that is not all NULL.
pub fn has_values(conn: &Connection, t: &Tracked, seq: i64) -> Result<bool> {
    Ok(image(conn, t, seq)?.is_some_and(|row| row.iter().any(|value| !value.is_null())))
}

/// Whether it has entries.
pub fn any(conn: &Connection) -> Result<bool> {
    Ok(conn.prepare_cached("SELECT 1 FROM synqlite_journal")?.exists([])?)
}

/// How many writes wait: entries, and inserts that have none of their own. Counts no further than
/// `most`.
pub fn waiting(conn: &Connection, catalog: &Catalog, most: i64) -> Result<i64> {
    let entries =
        "SELECT count(*) FROM (SELECT 1 FROM synqlite_journal WHERE ev & 7 <> ?2 LIMIT ?1)";
    let more = Event::More.of_table(0);
    let mut count: i64 = conn.prepare_cached(entries)?.query_row([most, more], |row| row.get(0))?;
    for t in &catalog.tables {
        let Some(rowid) = t.table.rowid_name.as_ref().filter(|_| count < most) else { continue };
        let insert = Event::Insert.of_table(t.no);
        let sql = "SELECT min(b) FROM synqlite_journal WHERE ev = ?1";
        let lowest: Option<i64> = conn.prepare_cached(sql)?.query_row([insert], |r| r.get(0))?;
        let Some(lowest) = lowest else { continue };
        let sql = format!(
            "SELECT count(*) FROM (SELECT {0} AS loc FROM {1} WHERE {0} > ?1 LIMIT ?3) \
             WHERE loc NOT IN (SELECT a FROM synqlite_journal WHERE ev = ?2)",
            quote(rowid),
            t.target()
        );
        let shared: i64 =
            conn.prepare_cached(&sql)?.query_row([lowest, insert, most], |row| row.get(0))?;
        count = count.saturating_add(shared).min(most);
    }
    Ok(count)
}

/// Drops what the journal says of rows at places that a rebuilt table cannot have any more: those rows are
/// gone, whatever was written to them.
pub fn forget_misplaced(conn: &Connection, t: &Tracked) -> Result<()> {
    let sql = "SELECT seq, ev, a FROM synqlite_journal ORDER BY seq";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    let (mut misplaced, mut fits) = (Vec::new(), true);
    while let Some(row) = rows.next()? {
        let (seq, (no, event)): (i64, _) = (row.get(0)?, Event::read(row.get(1)?)?);
        if no != t.no {
            continue;
        }
        // Those go with the image that they continue.
        if event != Event::More {
            let Located(loc) = row.get(2)?;
            fits = t.has_places_like(&loc);
        }
        misplaced.extend((!fits).then_some(seq));
    }
    let mut delete = conn.prepare("DELETE FROM synqlite_journal WHERE seq = ?1")?;
    misplaced.iter().try_for_each(|seq| delete.execute([seq]).map(drop))?;
    Ok(())
}

/// The number of the latest entry; 0 without any.
pub fn last(conn: &Connection) -> Result<i64> {
    let sql = "SELECT ifnull(max(seq), 0) FROM synqlite_journal";
    Ok(conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Drops all entries up to this one.
pub fn forget(conn: &Connection, last: i64) -> Result<()> {
    conn.prepare_cached("DELETE FROM synqlite_journal WHERE seq <= ?1")?.execute([last])?;
    Ok(())
}

/// Drops all entries of the table with this number.
pub fn forget_table(conn: &Connection, no: u32) -> Result<()> {
    let mut delete = conn.prepare_cached("DELETE FROM synqlite_journal WHERE ev = ?1")?;
    Event::ALL.iter().try_for_each(|event| delete.execute([event.of_table(no)]).map(drop))?;
    Ok(())
}

/// Empties the journal. Touches nothing if the journal is empty: even a DELETE
/// of no rows makes SQLite write the file.
pub fn clear(conn: &Connection) -> Result<()> {
    if conn.prepare_cached("SELECT 1 FROM synqlite_journal")?.exists([])? {
        conn.execute_batch("DELETE FROM synqlite_journal")?;
    }
    Ok(())
}
