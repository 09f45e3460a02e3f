//! Tables whose rows have other rowids, since the file was read back from a dump (decision 041).
//!
//! A table without gaps has the rows where they were, and what the journal says of it holds. Of any other nobody
//! knows which entries are of before the dump, under the old rowids, and which of after: they are dropped, and
//! what rows show now tells what was written, as in a table that was rebuilt without triggers.

use crate::catalog::{Loc, Tracked};
use crate::journal::{self, Window};
use crate::meta::{self, rowids};
use crate::refs::Lookup;
use crate::schema::TableKind;
use crate::state::sums::Sums;
use crate::work::Work;
use crate::{Result, state, track};
use std::collections::{BTreeMap, BTreeSet};

/// Takes note of such tables.
pub(super) fn find(work: &Work<'_>) -> Result<()> {
    let Work { conn, meta, policies, .. } = work;
    if rowids::are_unmarked(conn)? {
        return rowids::mark(conn);
    }
    if !rowids::are_others(conn)? {
        return Ok(());
    }
    let catalog = track::load(conn, policies)?.catalog;
    let windows = journal::read_altered(conn, &catalog, &BTreeMap::new())?;
    let (lookup, mut moved) = (Lookup { conn, meta, catalog: &catalog }, Vec::new());
    for (t, window) in catalog.tables.iter().zip(&windows) {
        if t.table.kind == TableKind::Rowid && !stayed(lookup, t, window)? {
            journal::forget_table(conn, t.no)?;
            moved.push(t.no.to_string());
        }
    }
    meta::set(conn, track::ELSEWHERE, moved.join("\n"))?;
    rowids::mark(conn)
}

/// All is caught up with.
pub(super) fn end(work: &Work<'_>) -> Result<()> {
    match track::elsewhere(work.conn)?.is_empty() {
        true => Ok(()),
        false => meta::unset(work.conn, track::ELSEWHERE),
    }
}

/// Whether rows are where they were at the last fold and the journal has put them since, and show what they did
/// but for what it says was written.
fn stayed(lookup: Lookup<'_>, t: &Tracked, window: &Window) -> Result<bool> {
    let Lookup { conn, meta, .. } = lookup;
    let (sums, places) = (Sums::load(conn, t)?, state::places(conn, meta, t)?);
    let mut left = sums.locs();
    left.retain(|loc| {
        places.contains(loc) && !window.gone.contains_key(loc) && !window.changed.contains_key(loc)
    });
    let mut expected: BTreeSet<Loc> = left.iter().cloned().collect();
    expected.extend(window.changed.values().map(|changed| changed.now.clone()));
    expected.extend(window.born.keys().cloned());
    expected.extend(window.appended.iter().flat_map(|run| (run.lo..=run.hi).map(Loc::Row)));
    if expected != t.all_places(conn)? {
        return Ok(false);
    }
    let shows = |was: &Loc, now: &Loc, written: &BTreeSet<usize>| -> Result<bool> {
        let Some(row) = t.read(conn, now)? else { return Ok(false) };
        let compared = sums.compare(conn, t, was, &row, written)?;
        Ok(compared.is_some_and(|found| found.touched.is_empty() && !found.one_of_them))
    };
    for loc in &left {
        if !shows(loc, loc, &BTreeSet::new())? {
            return Ok(false);
        }
    }
    for (was, changed) in window.changed.iter().filter(|(_, changed)| changed.replaced.is_none()) {
        let is_written = |c: &usize| changed.written.contains_key(&t.column_nos[*c]);
        let written = (0..t.column_nos.len()).filter(is_written).collect();
        if !shows(was, &changed.now, &written)? {
            return Ok(false);
        }
    }
    Ok(true)
}
