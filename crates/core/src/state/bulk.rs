//! States of many rows that were updated where they are, or are gone, in ascending order of rowid.
//!
//! One by one each needs three look-ups and an encoding. Rows that are updated together mostly lie
//! together and were in the same state before, so entries are read by ranges, segments are kept, and
//! the bytes of a state are taken over from the row before.

use super::codec::{Reader, Writer};
use super::{RowState, Segment, sums};
use crate::catalog::{Loc, Tracked};
use crate::meta::Meta;
use crate::{Error, Result};
use rusqlite::{CachedStatement, Connection, params};
use std::collections::HashMap;
use synqlite_wire::{Hlc, Rid};

/// So many rowids may be passed over, for each that is asked for, before each is looked up alone.
const SPARSE: usize = 8;

/// An entry, as stored.
struct Entry {
    id: i64,
    state: Vec<u8>,
    local_seq: i64,
}

/// What a row's state was made of: nothing else decides on it.
#[derive(PartialEq, Eq)]
enum Before {
    Entry(Vec<u8>, i64),
    Segment(u32, Hlc, i64),
}

/// Bytes of a state, and the number that its row asks for.
type New = (Vec<u8>, Option<i64>);

/// A segment, with the keys of its rows if it has any.
struct Spanning(Segment, Option<Vec<Rid>>);

/// Changes states of rows of one table.
pub struct Bulk<'a> {
    conn: &'a Connection,
    t: &'a Tracked,
    read: CachedStatement<'a>,
    insert: CachedStatement<'a>,
    update: CachedStatement<'a>,
    leave: CachedStatement<'a>,
    entries: HashMap<i64, Entry>,
    segment: Option<Spanning>,
    /// What the last row was, and its new state and the number it asks for, if it was changed.
    last: Option<(Before, Option<New>)>,
}

impl<'a> Bulk<'a> {
    /// For rows of a table that is addressed by rowid.
    pub fn new(conn: &'a Connection, t: &'a Tracked) -> Result<Bulk<'a>> {
        let read = "SELECT loc, id, state, position FROM synqlite_row \
                    WHERE tbl = ?1 AND loc >= ?2 AND loc <= ?3";
        // A row whose identity is somewhere else by now is not the one of the segment.
        let insert = "INSERT OR IGNORE INTO synqlite_row(tbl, rid, loc, wants, position, state) \
                      VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
        let update = "UPDATE synqlite_row SET state = ?2, position = ?3 WHERE id = ?1";
        let leave = "UPDATE synqlite_row SET loc = NULL, wants = ?2, state = ?3, position = ?4 \
                     WHERE id = ?1";
        Ok(Bulk {
            conn,
            t,
            leave: conn.prepare_cached(leave)?,
            read: conn.prepare_cached(read)?,
            insert: conn.prepare_cached(insert)?,
            update: conn.prepare_cached(update)?,
            entries: HashMap::new(),
            segment: None,
            last: None,
        })
    }

    /// Reads the entries of these rows, which are asked for next.
    pub fn load(&mut self, rowids: &[i64]) -> Result<()> {
        self.entries.clear();
        let (Some(&first), Some(&last)) = (rowids.first(), rowids.last()) else { return Ok(()) };
        let dense = last.abs_diff(first) / SPARSE as u64 <= rowids.len() as u64;
        let ranges: Vec<(i64, i64)> = match dense {
            true => vec![(first, last)],
            false => rowids.iter().map(|&rowid| (rowid, rowid)).collect(),
        };
        for (first, last) in ranges {
            let mut rows = self.read.query(params![self.t.no, first, last])?;
            while let Some(row) = rows.next()? {
                let entry = Entry { id: row.get(1)?, state: row.get(2)?, local_seq: row.get(3)? };
                self.entries.insert(row.get(0)?, entry);
            }
        }
        Ok(())
    }

    /// Changes the state of the row at `rowid` and marks it as changed at `local_seq`. `same`: the
    /// change is that of the row before. False if no state places a row there, and if `change` says
    /// that it is as before.
    pub fn change(
        &mut self,
        meta: &mut Meta,
        rowid: i64,
        local_seq: i64,
        same: bool,
        change: impl FnOnce(&mut RowState) -> bool,
    ) -> Result<bool> {
        if !same {
            self.last = None;
        }
        let Some((before, id)) = self.before(rowid)? else { return Ok(false) };
        if self.last.as_ref().is_none_or(|(last, ..)| *last != before) {
            let mut state = self.state(meta, &before)?;
            let mut new = None;
            if change(&mut state) {
                let mut number = |site| meta.number(self.conn, site);
                let bytes = Writer::new(&mut number).state(self.t, &state)?;
                new = Some((bytes, state.kept_id(self.t)));
            }
            self.last = Some((before, new));
        }
        let Some((_, Some((state, wants)))) = &self.last else { return Ok(false) };
        sums::touch(meta, self.t, &Loc::Row(rowid), 0);
        if let Some(id) = id {
            self.update.execute(params![id, state, local_seq])?;
            return Ok(true);
        }
        let Some(rid) = self.rid(meta, rowid)? else { return Ok(false) };
        let row = params![self.t.no, rid, rowid, wants, local_seq, state];
        Ok(self.insert.execute(row)? > 0)
    }

    /// The row at `rowid` is gone, with the state that `change` makes of its own. False as before.
    pub fn leave(
        &mut self,
        meta: &mut Meta,
        rowid: i64,
        local_seq: i64,
        change: impl FnOnce(&mut RowState) -> bool,
    ) -> Result<bool> {
        let Some((before, id)) = self.before(rowid)? else { return Ok(false) };
        let mut state = self.state(meta, &before)?;
        if !change(&mut state) {
            return Ok(false);
        }
        let bytes = Writer::new(&mut |site| meta.number(self.conn, site)).state(self.t, &state)?;
        let wants = state.kept_id(self.t);
        if let Some(id) = id {
            sums::touch(meta, self.t, &Loc::Row(rowid), id);
            self.leave.execute(params![id, wants, bytes, local_seq])?;
            return Ok(true);
        }
        let Some(rid) = self.rid(meta, rowid)? else { return Ok(false) };
        let row = params![self.t.no, rid, None::<i64>, wants, local_seq, bytes];
        Ok(self.insert.execute(row)? > 0)
    }

    /// What the state of the row at `rowid` is made of, and its entry if it has one. `None` if no state
    /// places a row there.
    fn before(&mut self, rowid: i64) -> Result<Option<(Before, Option<i64>)>> {
        if let Some(Entry { id, state, local_seq }) = self.entries.remove(&rowid) {
            return Ok(Some((Before::Entry(state, local_seq), Some(id))));
        }
        self.span(rowid)?;
        let segment = self.segment.as_ref().map(|Spanning(segment, _)| segment);
        Ok(segment.map(|s| (Before::Segment(s.site, s.hlc, s.local_seq), None)))
    }

    fn state(&self, meta: &Meta, before: &Before) -> Result<RowState> {
        match (before, &self.segment) {
            (Before::Entry(bytes, at), _) => Reader::new(meta, bytes).state(self.t, true, *at),
            (_, Some(Spanning(segment, _))) => segment.state(meta, self.t),
            _ => Err(Error::Damaged("a row without a state".into())),
        }
    }

    /// Bytes of the identity of a row that the current segment spans.
    fn rid(&self, meta: &mut Meta, rowid: i64) -> Result<Option<Vec<u8>>> {
        let Some(Spanning(segment, keys)) = &self.segment else { return Ok(None) };
        let born;
        let rid = match keys {
            Some(keys) => match keys.get((rowid - segment.lo) as usize) {
                Some(rid) => rid,
                None => return Ok(None),
            },
            None => {
                born = segment.rid_at(meta, rowid)?;
                &born
            }
        };
        Writer::new(&mut |site| meta.number(self.conn, site)).rid(rid).map(Some)
    }

    /// Makes the segment that spans a rowid the current one, or none.
    fn span(&mut self, rowid: i64) -> Result<()> {
        let spans = |s: &Spanning| s.0.lo <= rowid && rowid <= s.0.hi;
        if !self.segment.as_ref().is_some_and(spans) {
            let found = Segment::containing(self.conn, self.t, rowid)?;
            let keyed = |segment: Segment| {
                let keys = segment.keyed()?;
                Ok::<_, crate::Error>(Spanning(segment, keys))
            };
            self.segment = found.map(keyed).transpose()?;
        }
        Ok(())
    }
}
