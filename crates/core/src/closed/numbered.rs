//! Rows that merges gave another number, from what the log tells of it.

use crate::Result;
use crate::catalog::Tracked;
use crate::merge::numbers;
use crate::meta::Meta;
use crate::sqlvalue::hex;
use rusqlite::{Connection, Row};
use std::collections::{HashMap, HashSet};
use synqlite_view::ConflictKind;
use synqlite_wire::{Hlc, Rid, Stamp, told};

/// Records that tell of the number of a row, by table, stamp and the number that the row asked for: a later one
/// stands for them.
pub(super) struct Numbered(pub(super) HashMap<(String, Hlc, i64, i64), Vec<i64>>);

impl Numbered {
    pub(super) fn read(conn: &Connection) -> Result<Numbered> {
        let sql = "SELECT no, tbl, lost, lost_site, what FROM synqlite_closed \
                   WHERE kind = 'renumbered' AND lost IS NOT NULL";
        let mut found = Numbered(HashMap::new());
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let what: String = row.get(4)?;
            let Some((asked, _)) = numbers(&what) else { continue };
            let of = (row.get(1)?, Hlc(row.get(2)?), row.get(3)?, asked);
            found.0.entry(of).or_default().push(row.get(0)?);
        }
        Ok(found)
    }
}

/// Forgets that one row of a pair got another number because of the other, as the two are one.
pub fn forget_numbers(
    conn: &Connection,
    meta: &Meta,
    pairs: &HashSet<(Stamp, Stamp)>,
) -> Result<()> {
    let sql = "SELECT no, lost, lost_site, kept, kept_site FROM synqlite_closed \
               WHERE kind = ?1 AND lost IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let (mut rows, mut untrue) =
        (statement.query([ConflictKind::Renumbered.as_str()])?, Vec::<i64>::new());
    while let Some(row) = rows.next()? {
        let (lost, kept) = (stamp(meta, row, 1)?, stamp(meta, row, 3)?);
        if pairs.contains(&(lost, kept)) || pairs.contains(&(kept, lost)) {
            untrue.push(row.get(0)?);
        }
    }
    let mut delete = conn.prepare_cached("DELETE FROM synqlite_closed WHERE no = ?1")?;
    untrue.iter().try_for_each(|no| delete.execute([no]).map(drop))?;
    Ok(())
}

/// The stamp in two columns.
fn stamp(meta: &Meta, row: &Row<'_>, at: usize) -> Result<Stamp> {
    Ok(Stamp { hlc: Hlc(row.get(at)?), site: meta.site_of(row.get(at + 1)?)? })
}

/// The numbers that rows had before they got those that they show, as long as the log tells of it.
pub struct Former(HashMap<(String, i64), Vec<Move>>);

/// That a row got another number: the one it had, the id of the record, and the stamps that are in that.
struct Move {
    was: i64,
    record: String,
    lost: Stamp,
    kept: Stamp,
}

impl Former {
    /// Reads them all; there are as many as the log keeps, at most.
    pub fn read(conn: &Connection, meta: &Meta) -> Result<Former> {
        let sql = "SELECT tbl, what, record, lost, lost_site, kept, kept_site FROM synqlite_closed \
                   WHERE kind = ?1 AND lost IS NOT NULL ORDER BY no DESC";
        let mut statement = conn.prepare_cached(sql)?;
        let (mut rows, mut found) =
            (statement.query([ConflictKind::Renumbered.as_str()])?, Former(HashMap::new()));
        while let Some(row) = rows.next()? {
            let what: String = row.get(1)?;
            let Some((was, is)) = numbers(&what) else { continue };
            let (lost, kept) = (stamp(meta, row, 3)?, stamp(meta, row, 5)?);
            let one = Move { was, record: row.get(2)?, lost, kept };
            found.0.entry((row.get(0)?, is)).or_default().push(one);
        }
        Ok(found)
    }

    /// The number that the row had that now has `number`.
    pub fn of(&self, t: &Tracked, rid: &Rid, number: i64) -> Option<i64> {
        let known = self.0.get(&(t.table.name.clone(), number))?;
        let is_that = |one: &&Move| {
            let numbers = format!("{} {number}", one.was);
            hex(&told::id(&t.canonical, rid, &numbers, one.lost, one.kept)) == one.record
        };
        known.iter().find(is_that).map(|one| one.was)
    }
}
