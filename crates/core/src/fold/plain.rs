//! Rows that were only updated where they are, in columns on which nothing else depends, and rows that are
//! gone from a table to which nothing refers.
//!
//! Most updates and many deletes are such. What changes is known without a look at other rows, so these are
//! taken out of the window and stamped many at a time, before anything is looked up for the others.

use super::Fold;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::{self, Changed, Gone, Window, Written};
use crate::parts;
use crate::state::{Body, Bulk, GroupState, RowState};
use std::collections::{BTreeMap, HashSet};
use synqlite_wire::Cell;

/// Entries of so many rows are read at a time.
const CHUNK: usize = parts::of(512);

/// Columns, by position, on which nothing else depends.
pub fn alone(t: &Tracked) -> impl Iterator<Item = usize> {
    let groups = t.table.groups.iter();
    let alone = groups.filter(|g| !g.keeps_previous && !g.counter && g.foreign_keys.is_empty());
    alone.flat_map(|g| g.columns.iter().copied())
}

impl Fold<'_> {
    /// Stamps the plain updates and deletes of a window, and takes them out of it.
    pub(super) fn plain(&mut self, t: &Tracked, window: &mut Window) -> Result<()> {
        let noticed = self.given.conflicts
            || self.given.waits
            || self.given.history
            || self.given.lasting.contains(&t.no);
        if noticed || !t.has_rowid() {
            return Ok(());
        }
        self.plain_updates(t, window)?;
        self.plain_deletes(t, window)
    }

    fn plain_updates(&mut self, t: &Tracked, window: &mut Window) -> Result<()> {
        let alone: HashSet<u32> = alone(t).map(|c| t.column_nos[c]).collect();
        let plain = |from: &Loc, c: &Changed| {
            let still = c.now == *from && c.previous.is_none() && c.start.is_none();
            still
                && c.replaced.is_none()
                && c.set.is_empty()
                && !c.written.is_empty()
                && c.written.keys().all(|no| alone.contains(no))
        };
        let rows = window.changed.iter().filter_map(|(from, changed)| match from {
            Loc::Row(rowid) if plain(from, changed) => Some((*rowid, &changed.written)),
            _ => None,
        });
        let rows: Vec<(i64, &Written)> = rows.collect();
        if rows.is_empty() {
            return Ok(());
        }
        let (mut bulk, mut done) = (Bulk::new(self.conn, t)?, HashSet::new());
        let (mut last, mut stamps): (Option<&Written>, _) = (None, BTreeMap::new());
        for chunk in rows.chunks(CHUNK) {
            let rowids: Vec<i64> = chunk.iter().map(|(rowid, _)| *rowid).collect();
            bulk.load(&rowids)?;
            for &(rowid, written) in chunk {
                let same = last == Some(written);
                if !same {
                    stamps = self.stamps.of_groups(t, written);
                    last = Some(written);
                }
                let stamp = |state: &mut RowState| {
                    // A column that was a counter once, or is one elsewhere, goes on to count.
                    if stamps.keys().any(|&g| !state.groups[g].counts.is_empty()) {
                        return false;
                    }
                    for (&g, &stamp) in &stamps {
                        state.groups[g] = GroupState::shown(stamp);
                    }
                    true
                };
                if bulk.change(self.meta, rowid, self.stamps.local_seq, same, stamp)? {
                    self.counted(1)?;
                    self.done.columns += stamps.len() as u64;
                    done.insert(rowid);
                }
            }
        }
        window.changed.retain(|from, _| !matches!(from, Loc::Row(r) if done.contains(r)));
        Ok(())
    }

    /// Only where no row takes the place or the key of one that is gone.
    fn plain_deletes(&mut self, t: &Tracked, window: &mut Window) -> Result<()> {
        let position = self.catalog.position_of_no(t.no);
        let referred = position.is_none_or(|p| self.catalog.references_to(p).next().is_some());
        let others = !window.changed.is_empty() || !window.appended.is_empty();
        if others
            || !window.born.is_empty()
            || referred
            || !t.table.foreign_keys.is_empty()
            || t.table.own_number().is_some()
            || self.given.stale.contains_key(&t.no)
        {
            return Ok(());
        }
        let plain = |from: &Loc, gone: &Gone| {
            *from == gone.was && gone.start == gone.image && gone.written.is_empty()
        };
        let rows = window.gone.iter().filter_map(|(from, gone)| match (from, gone.image) {
            (Loc::Row(rowid), Some(image)) if plain(from, gone) => Some((*rowid, image, gone.at)),
            _ => None,
        });
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() {
            return Ok(());
        }
        let (mut bulk, mut done) = (Bulk::new(self.conn, t)?, HashSet::new());
        for chunk in rows.chunks(CHUNK) {
            let rowids: Vec<i64> = chunk.iter().map(|(rowid, ..)| *rowid).collect();
            bulk.load(&rowids)?;
            for &(rowid, image, at) in chunk {
                let Some(row) = journal::image(self.conn, t, image)? else { continue };
                let stamp = self.stamps.at(at);
                let leave = |state: &mut RowState| {
                    // What it kept and did not show is told of.
                    if state.groups.iter().any(|group| group.body != Body::InTable) {
                        return false;
                    }
                    for (group, of) in state.groups.iter_mut().zip(&t.table.groups) {
                        let values = of.columns.iter().map(|&c| row[c].clone()).collect();
                        group.body = Body::Stored(Cell { values, refs: vec![] });
                    }
                    state.header.delete(stamp);
                    true
                };
                if bulk.leave(self.meta, rowid, self.stamps.local_seq, leave)? {
                    self.counted(1)?;
                    done.insert(rowid);
                }
            }
        }
        window.gone.retain(|from, _| !matches!(from, Loc::Row(r) if done.contains(r)));
        Ok(())
    }
}
