//! Tables that go by several names here, and turn out to be one (R-MIG-RENAME).
//!
//! Another site tells that a table was renamed which this one has under its later name only, or whose rows
//! came under either name. What was kept of the one that is not here joins the one that is, as if it had come
//! from another site.

use super::stashed::{self, Joined};
use super::{Table, entries};
use crate::catalog::{Catalog, Fresh, Relation, Tracked};
use crate::meta::Meta;
use crate::records::{call_open, record_id};
use crate::settings::renamed::TableNames;
use crate::state::{self, Body, GroupState, RowState, Stored, numbers, stash};
use crate::work::Work;
use crate::{Result, gaps, registry, renames};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Stamp};

/// Gives tables their first names, and takes what was kept of them under others. Returns what is to be shown
/// of them: all of their columns, and rows.
pub(super) fn unite(work: &mut Work<'_>, catalog: &Catalog) -> Result<(Fresh, Joined)> {
    let (mut whole, mut moved) = (Fresh::new(), Joined::new());
    let now_ms = work.now_ms;
    renames::tell_apart(work.conn, catalog, &mut |key| {
        renames::say(work.conn, &mut work.meta, key, now_ms)
    })?;
    let names = TableNames::load(work.conn)?;
    for t in &catalog.tables {
        let first = names.first(&t.canonical);
        let is_here = |name: &str| catalog.tables.iter().any(|t| t.canonical == name);
        let takes = first != t.canonical && !is_here(first);
        let name = if takes { first } else { &t.canonical };
        let mut others = Vec::new();
        for other in names.all(name).chain([name]).filter(|other| *other != t.canonical) {
            let no = registry::known_table(work.conn, other)?;
            others.extend(no.filter(|no| catalog.position_of_no(*no).is_none()));
        }
        if takes || !others.is_empty() {
            whole.insert(t.no, t.column_nos.clone());
        }
        for other in others {
            take(work, t, other, &mut moved)?;
        }
        if takes {
            registry::call_first(work.conn, t.no, name)?;
            relabel(work.conn, &work.meta, t, name)?;
        }
    }
    Ok((whole, moved))
}

/// Takes all that is known of a table that is not here.
fn take(work: &mut Work<'_>, t: &Tracked, other: u32, moved: &mut Joined) -> Result<()> {
    let Work { conn, meta, now_ms, .. } = work;
    let old = Relation::unnumbered(other, &t.canonical, Table::absent(&t.canonical)).into();
    state::expand_dropped(conn, meta, &old)?;
    let columns = columns(conn, t, other)?;
    registry::lacking(conn, t, &columns.values().copied().collect::<Vec<_>>())?;
    let stamp = meta.tick(*now_ms);
    let came: BTreeSet<Rid> = stash::rows(conn, meta, other, i64::MIN)?.into_iter().collect();
    for rid in &came {
        for (mut piece, local_seq) in stash::take(conn, meta, other, rid)? {
            for column in &mut piece.columns {
                *column = columns.get(column).copied().unwrap_or(*column);
            }
            stash::put(conn, meta, t.no, rid, &piece, local_seq)?;
        }
    }
    let mut after = i64::MIN;
    loop {
        let part = entries(conn, meta, &old, after)?;
        let Some((Stored { entry: Some(last), .. }, _)) = part.last() else { break };
        after = *last;
        for (stored, _) in part {
            state::forget(conn, &stored)?;
            let known = state::of(conn, meta, t, &stored.rid)?;
            let (header, groups) = (stored.state.header, unwritten(t));
            let state = RowState { header, groups };
            let is_gone = known.is_none();
            let was = known.unwrap_or(Stored { entry: None, loc: None, state, ..stored.clone() });
            let mut now = was.clone();
            now.state.header = was.state.header.join(&stored.state.header);
            // It was shown here until its table was dropped, and this one was made (R-MIG-AGAIN).
            let shown = stored.loc.is_some() && stored.state.header.alive();
            if is_gone && shown && !came.contains(&stored.rid) {
                now.state.header.delete(stamp);
            }
            let same = now.state.header == was.state.header;
            let local_seq = if same { was.local_seq } else { meta.local_seq + 1 };
            meta.local_seq = meta.local_seq.max(local_seq);
            state::put(conn, meta, t, &now, Some(local_seq))?;
            moved.insert((t.no, now.rid));
        }
    }
    gaps::unite_tables(conn, meta, other, t.no, &columns)?;
    if numbers::any(conn)? {
        let sql = "UPDATE OR REPLACE synqlite_number SET tbl = ?2 WHERE tbl = ?1";
        conn.execute(sql, [other, t.no])?;
    }
    history(conn, other, t.no, &columns)?;
    registry::forget_table(conn, other)
}

/// Registers of a row of which nobody has written anything.
fn unwritten(t: &Tracked) -> Vec<GroupState> {
    let group = |g| {
        let (stamp, body) = (Stamp::ZERO, Body::Stored(t.default_cell(g)));
        GroupState { body, ..GroupState::shown(stamp) }
    };
    (0..t.table.groups.len()).map(group).collect()
}

/// Which of its columns are which here, by numbers.
fn columns(conn: &Connection, t: &Tracked, other: u32) -> Result<BTreeMap<u32, u32>> {
    let said = renames::said(conn, t)?;
    let mut columns = BTreeMap::new();
    for (no, name) in registry::column_names(conn, other)? {
        let first = said.iter().find(|(said, _)| said.eq_ignore_ascii_case(&name));
        let first = first.map_or(&name, |(_, first)| first);
        columns.insert(no, registry::number_of_column(conn, t.no, first)?);
    }
    Ok(columns)
}

/// What was noted of the table for good.
fn history(conn: &Connection, other: u32, no: u32, columns: &BTreeMap<u32, u32>) -> Result<()> {
    let move_to = "UPDATE OR REPLACE synqlite_history SET tbl = ?2, col = ?4 \
                   WHERE tbl = ?1 AND col = ?3";
    let mut statement = conn.prepare_cached(move_to)?;
    for (from, to) in columns {
        statement.execute(params![other, no, from, to])?;
        let (from, to) = (crate::history::reference(*from), crate::history::reference(*to));
        statement.execute(params![other, no, from, to])?;
    }
    let rest = "UPDATE OR REPLACE synqlite_history SET tbl = ?2 WHERE tbl = ?1";
    Ok(conn.prepare_cached(rest)?.execute([other, no]).map(drop)?)
}

/// Open records of a table go by another name of it.
fn relabel(conn: &Connection, meta: &Meta, t: &Tracked, first: &str) -> Result<()> {
    let sql = "SELECT id, rid, kind, cons FROM synqlite_row WHERE +tbl = ?1 AND kind IS NOT NULL";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        let rid = state::decode_rid(meta, &row.get::<_, Vec<u8>>(1)?)?;
        let (kind, constraint): (String, String) = (row.get(2)?, row.get(3)?);
        call_open(conn, row.get(0)?, &record_id(first, &kind, &constraint, &rid))?;
    }
    Ok(())
}

/// Shows what was taken.
pub(super) fn show(work: &mut Work<'_>, whole: &Fresh, moved: Joined) -> Result<()> {
    let mut found = stashed::join_stashed(work, whole)?;
    found.extend(moved);
    stashed::show(work, found, true)
}
