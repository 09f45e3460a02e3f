//! Columns, and tables, that were dropped and made again under their names (R-MIG-AGAIN).
//!
//! To all sites such a column is the one that it was, since no other can know what became of it here. So
//! a row that showed something else than the default has been written, as it would have been by a rebuild
//! that leaves the column out of what it copies.
//!
//! Where a command saw the column gone, nothing says any more what rows showed: all count that there were
//! then, but for those in which others have written to it since. Where none did, sums tell it.

use super::changed;
use super::rebuild::written_since;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::Window;
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::state::sums::Sums;
use crate::state::{self, Body, GroupState, Stored, stash};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Hlc, Rid, Stamp};

/// Adds to `window` what was written by adding columns of a table again that may never have been missed.
/// `moved`: where rows were that triggers saw move.
pub(super) fn unnoticed(
    lookup: Lookup<'_>,
    t: &Tracked,
    sums: &Sums,
    anew: &BTreeSet<u32>,
    moved: &BTreeMap<Loc, Loc>,
    window: &mut Window,
) -> Result<()> {
    let Lookup { conn, meta, .. } = lookup;
    let columns = (0..t.column_nos.len()).filter(|&c| anew.contains(&t.column_nos[c]));
    let columns: Vec<usize> = columns.collect();
    for loc in t.all_places(conn)? {
        let Some(row) = t.read(conn, &loc)? else { continue };
        if columns.iter().all(|&c| row[c] != t.default_of(c)) {
            continue;
        }
        let Some(stored) = state::at(conn, meta, t, &loc)? else { continue };
        let written = written_since(meta, t, &stored);
        let was = moved.get(&loc).unwrap_or(&loc);
        let Some(compared) = sums.compare(conn, t, was, &row, &written)? else { continue };
        let other = |c: &usize| {
            let unsure = compared.one_of_them && compared.unsure.contains(c);
            row[*c] == t.default_of(*c) && (unsure || compared.touched.contains(c))
        };
        for c in columns.iter().copied().filter(other) {
            note(t, &loc, c, window);
        }
    }
    Ok(())
}

/// Adds to `window` what was written by adding columns again, which a command missed at these times.
/// Hidden rows, which no window has, are written at once.
pub(super) fn missed(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    again: &BTreeMap<u32, Hlc>,
    window: &mut Window,
) -> Result<()> {
    let stashed = stash::any(conn, t.no)?;
    let columns = (0..t.column_nos.len()).filter_map(|c| Some((c, *again.get(&t.column_nos[c])?)));
    // Nobody knows any more what each site had counted.
    let counter = |c: usize| t.table.groups[t.table.columns[c].group].counter;
    let columns: Vec<(usize, Hlc)> = columns.filter(|(c, _)| !counter(*c)).collect();
    if columns.is_empty() {
        return Ok(());
    }
    let begun = |meta: &Meta, stored: &Stored| -> Result<Vec<usize>> {
        let pieces = match stashed {
            true => stash::of(conn, meta, t.no, &stored.rid)?,
            false => vec![],
        };
        let there = stored.state.header.inserted.hlc;
        let told = |c: usize| pieces.iter().any(|piece| piece.value(t.column_nos[c]).is_some());
        let begun = columns.iter().filter(|(c, gone)| there <= *gone && !told(*c));
        Ok(begun.map(|(c, _)| *c).collect())
    };
    for loc in t.all_places(conn)? {
        let Some(stored) = state::at(conn, meta, t, &loc)? else { continue };
        let written = written_since(meta, t, &stored);
        for c in begun(meta, &stored)?.into_iter().filter(|c| !written.contains(c)) {
            note(t, &loc, c, window);
        }
    }
    let stamp = meta.tick(0);
    meta.local_seq += 1;
    let mut after = i64::MIN;
    loop {
        let part = super::entries(conn, meta, t, after)?;
        let Some((Stored { entry: Some(last), .. }, _)) = part.last() else { return Ok(()) };
        after = *last;
        for (mut stored, _) in part {
            let hidden = stored.loc.is_none() && stored.state.header.alive();
            let begun = if hidden { begun(meta, &stored)? } else { vec![] };
            for &c in &begun {
                let g = t.table.columns[c].group;
                write_default(t, &mut stored.state.groups[g], (g, c), stamp);
            }
            if !begun.is_empty() {
                state::put(conn, meta, t, &stored, Some(meta.local_seq))?;
            }
        }
    }
}

/// Deletes the hidden rows of a table that was dropped and is here again, as the visible ones are, but for
/// those of which something `came` while it was gone.
pub(super) fn hidden(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    came: &BTreeSet<Rid>,
) -> Result<()> {
    let stamp = meta.tick(0);
    meta.local_seq += 1;
    let mut after = i64::MIN;
    loop {
        let part = super::entries(conn, meta, t, after)?;
        let Some((Stored { entry: Some(last), .. }, _)) = part.last() else { return Ok(()) };
        after = *last;
        for (mut stored, _) in part {
            let hidden = stored.loc.is_none() && stored.state.header.alive();
            if hidden && !came.contains(&stored.rid) {
                stored.state.header.delete(stamp);
                state::put(conn, meta, t, &stored, Some(meta.local_seq))?;
            }
        }
    }
}

fn note(t: &Tracked, loc: &Loc, c: usize, window: &mut Window) {
    if window.born.contains_key(loc) {
        return;
    }
    let entry = window.changed.entry(loc.clone());
    let change = entry.or_insert_with(|| changed(loc, BTreeMap::new()));
    change.written.insert(t.column_nos[c], 0);
}

/// A hidden row is to show the default of column `c`, which is in group `g`.
fn write_default(t: &Tracked, group: &mut GroupState, (g, c): (usize, usize), stamp: Stamp) {
    let columns = &t.table.groups[g].columns;
    let stamps = columns.iter().enumerate();
    let stamps = stamps.map(|(i, &x)| if x == c { stamp } else { group.column_stamp(i) });
    let stamps: Vec<Stamp> = stamps.collect();
    group.set_column_stamps(stamps);
    let default = t.default_cell(g);
    match &mut group.body {
        Body::Stored(cell) => {
            let at = columns.iter().position(|&x| x == c).unwrap_or(0);
            cell.values[at] = t.default_of(c);
        }
        body => *body = Body::Stored(default),
    }
}
