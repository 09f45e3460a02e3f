//! Rows that were only updated where they are, in columns on which nothing else depends.
//!
//! Most updates are such. All that changes is the stamps of the columns, so these rows are taken out
//! of the window and stamped many at a time, before anything is looked up for the others.

use super::Fold;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::{Changed, Window, Written};
use crate::parts;
use crate::state::{Bulk, GroupState};
use std::collections::{BTreeMap, HashSet};

/// Entries of so many rows are read at a time.
const CHUNK: usize = parts::of(512);

impl Fold<'_> {
    /// Stamps the plain updates of a window, and takes them out of it.
    pub(super) fn plain(&mut self, t: &Tracked, window: &mut Window) -> Result<()> {
        let noticed = self.given.conflicts
            || self.given.waits
            || self.given.history
            || self.given.lasting.contains(&t.no);
        if noticed || !t.has_rowid() {
            return Ok(());
        }
        let groups = t.table.groups.iter();
        let alone = groups.filter(|g| !g.keeps_previous && !g.counter && g.foreign_keys.is_empty());
        let alone: HashSet<u32> =
            alone.flat_map(|g| g.columns.iter().map(|&c| t.column_nos[c])).collect();
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
                let stamp = |state: &mut crate::state::RowState| {
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
}
