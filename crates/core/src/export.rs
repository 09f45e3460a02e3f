//! What another site lacks: row states past its version vector, with their values.

use crate::catalog::{Catalog, Tracked, loc_sql};
use crate::closed;
use crate::gaps::{self, Wanted};
use crate::inbox;
use crate::line::{self, tree::Lines};
use crate::meta::Meta;
use crate::refs::{Lookup, Recent};
use crate::registry;
use crate::settings;
use crate::sqlvalue::values;
use crate::state::stash::{self, Piece};
use crate::state::{self, Body, ENTRY_COLUMNS, RowState, Segment, Stored};
use crate::track;
use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use synqlite_wire::{
    Cell, Delta, GroupShape, Register, Rid, RowChange, Setting, TableShape, Told, Value,
    VersionVector,
};

/// Everything that a site lacks which wants this. The journal must have been folded.
pub fn delta(conn: &Connection, meta: &Meta, catalog: &Catalog, wanted: &Wanted) -> Result<Delta> {
    let mut all = Delta::default();
    let whole = Most { rows: usize::MAX, bytes: usize::MAX };
    parts(conn, meta, catalog, wanted, whole, &mut |delta| {
        all = delta;
        Ok(())
    })?;
    Ok(all)
}

/// How much a part of a delta holds: it ends with the row that reaches one of these.
#[derive(Clone, Copy)]
pub struct Most {
    /// Rows.
    pub rows: usize,
    /// Bytes of values and identities.
    pub bytes: usize,
}

/// [`delta`] in parts, handed to `each`: one at least, and the settings, and what gave way,
/// with the last. Every part has
/// the `base` and `upto` of the whole.
pub fn parts(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    wanted: &Wanted,
    most: Most,
    each: &mut dyn FnMut(Delta) -> Result<()>,
) -> Result<()> {
    if inbox::any(conn)? {
        return Err(Error::Unmerged);
    }
    let lookup = Lookup { conn, meta, catalog };
    let wanted = wanted.with_owed(conn, meta, catalog)?;
    let out_of_sight = track::out_of_sight(conn)?;
    let mut absent = registry::absent(conn, catalog)?;
    absent.retain(|t| !out_of_sight.contains(&t.no));
    let tables: Vec<&Tracked> = catalog.tables.iter().chain(&absent).collect();
    let mut shapes: Vec<TableShape> = tables.iter().map(|t| shape(t)).collect();
    if wanted.for_place {
        let lacking = gaps::lacking(conn, meta)?;
        let marked = tables.iter().zip(&mut shapes).filter(|(t, _)| lacking.contains(&t.no));
        marked.for_each(|(_, shape)| gaps::mark(shape));
    }
    let base = &wanted.base;
    let (mut lines, mut tips) = (BTreeMap::new(), VersionVector::default());
    for (&site, &clock) in &meta.seen.0 {
        match clock > base.get(site) {
            true => lines.extend(
                line::between(conn, meta, site, base.get(site), clock)?.map(|line| (site, line)),
            ),
            false => tips.raise(site, clock),
        }
    }
    let mut export = Export {
        lookup,
        recent: Recent::default(),
        whole: base,
        base,
        lines,
        tips,
        shapes,
        settings: settings::since(conn, meta, base)?,
        rows: Vec::new(),
        bytes: 0,
        most,
        each,
    };
    let mut unseen = Vec::new();
    for (position, t) in tables.into_iter().enumerate() {
        let (base, after) = wanted.of(&t.canonical);
        export.base = base;
        if !base.dominates(&meta.seen) {
            let mut kept = export.kept(t, after)?;
            if t.is_here() {
                export.segments(position, t, after, &mut kept)?;
            }
            if export.entries(position, t, after, &mut kept)? {
                unseen.push((position, t));
            }
            export.rest(position, t, kept)?;
        }
    }
    for (position, t) in unseen.into_iter().rev() {
        let (base, after) = wanted.of(&t.canonical);
        export.base = base;
        export.unseen(position, t, after)?;
    }
    let told = closed::told_since(conn, meta, catalog, base)?;
    export.hand_over(told)
}

/// A table as other sites know it: by canonical names.
pub fn shape(t: &Tracked) -> TableShape {
    let groups = t.table.groups.iter().map(|group| GroupShape {
        columns: group.columns.iter().map(|&c| t.column_names[c].clone()).collect(),
        refs: group.foreign_keys.iter().map(|&f| t.key_names[f].clone()).collect(),
    });
    TableShape { name: t.canonical.clone(), groups: groups.collect() }
}

/// Registers of columns that the table does not have, by row.
type Kept = BTreeMap<Rid, Vec<Piece>>;

/// A row to give on.
struct Row<'a> {
    rid: Rid,
    state: &'a RowState,
    /// What its table shows.
    shown: Option<&'a [Value]>,
    /// Its registers of columns that the table does not have.
    kept: Vec<Piece>,
}

struct Export<'a> {
    lookup: Lookup<'a>,
    recent: Recent,
    /// What was seen before.
    whole: &'a VersionVector,
    /// The same of the table whose rows are collected.
    base: &'a VersionVector,
    lines: Lines,
    tips: VersionVector,
    shapes: Vec<TableShape>,
    /// They go with the first part: whoever reads it knows then whether references become known.
    settings: Vec<Setting>,
    rows: Vec<RowChange>,
    /// Bytes of their values and identities.
    bytes: usize,
    most: Most,
    each: &'a mut dyn FnMut(Delta) -> Result<()>,
}

impl Export<'_> {
    fn hand_over(&mut self, told: Vec<Told>) -> Result<()> {
        let settings = std::mem::take(&mut self.settings);
        let (base, upto) = (self.whole.clone(), self.lookup.meta.seen.clone());
        let (tables, rows) = (self.shapes.clone(), std::mem::take(&mut self.rows));
        self.bytes = 0;
        let (lines, tips) = (self.lines.clone(), self.tips.clone());
        (self.each)(Delta { base, upto, lines, tips, tables, rows, settings, told })
    }

    fn kept(&self, t: &Tracked, after: i64) -> Result<Kept> {
        let Lookup { conn, meta, .. } = self.lookup;
        let rids = stash::rows(conn, meta, t.no, after)?;
        rids.into_iter()
            .map(|rid| {
                let pieces = stash::of(conn, meta, t.no, &rid)?;
                Ok((rid, pieces))
            })
            .collect()
    }

    fn segments(
        &mut self,
        position: usize,
        t: &Tracked,
        after: i64,
        kept: &mut Kept,
    ) -> Result<()> {
        let Lookup { conn, meta, .. } = self.lookup;
        let sql = format!(
            "SELECT {} FROM synqlite_segment WHERE +tbl = ?1 AND position > ?2 ORDER BY lo",
            state::SEGMENT_COLUMNS
        );
        let segments: Vec<Segment> = conn
            .prepare_cached(&sql)?
            .query_map(params![t.no, after], Segment::from_row)?
            .collect::<Result<_, _>>()?;
        let loc = loc_sql(&t.table, "o.");
        let whole = format!(
            "SELECT {loc}, {} FROM {} AS o WHERE {loc} BETWEEN ?1 AND ?2",
            t.column_list(),
            t.target()
        );
        let rest = format!(
            "{whole} AND NOT EXISTS(\
             SELECT 1 FROM synqlite_row AS r WHERE r.tbl = ?3 AND r.loc = +{loc})"
        );
        let entry = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND loc >= ?2 AND loc <= ?3";
        for segment in segments {
            let stamp = segment.stamp(meta)?;
            if self.base.covers(stamp) {
                continue;
            }
            let (lo, hi) = (segment.lo, segment.hi);
            let entries = conn.prepare_cached(entry)?.exists(params![t.no, lo, hi])?;
            let state = RowState::unchanged(t, stamp, segment.local_seq);
            let keyed = segment.keyed()?;
            let mut statement = conn.prepare_cached(if entries { &rest } else { &whole })?;
            let mut rows = match entries {
                true => statement.query(params![lo, hi, t.no])?,
                false => statement.query([lo, hi])?,
            };
            while let Some(row) = rows.next()? {
                let rowid: i64 = row.get(0)?;
                let rid = match &keyed {
                    Some(rids) => rids.get((rowid - segment.lo) as usize).cloned(),
                    None => Some(segment.rid_at(meta, rowid)?),
                };
                let rid = rid.ok_or_else(|| Error::Damaged("a segment lacks keys".into()))?;
                let values = values(row, 1, t.table.columns.len())?;
                let kept = kept.remove(&rid).unwrap_or_default();
                let row = Row { rid, state: &state, shown: Some(&values), kept };
                self.row(position, t, row)?;
            }
        }
        Ok(())
    }

    /// Rows that have entries. Those that are not shown are left for [`Self::unseen`] if that can be; whether
    /// any are.
    fn entries(
        &mut self,
        position: usize,
        t: &Tracked,
        after: i64,
        kept: &mut Kept,
    ) -> Result<bool> {
        let Lookup { conn, meta, .. } = self.lookup;
        // The plus keeps SQLite from walking all rows of the table instead of the changed ones.
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, loc IS NULL FROM synqlite_row \
             WHERE +tbl = ?1 AND position > ?2 ORDER BY position, id"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let hidden = statement.column_count() - 1;
        let (mut rows, can_wait) =
            (statement.query(params![t.no, after])?, t.is_here() && kept.is_empty());
        let mut left = false;
        while let Some(row) = rows.next()? {
            if can_wait && row.get(hidden)? {
                left = true;
                continue;
            }
            let Stored { rid, loc, state, .. } = state::decode(meta, t, row)?;
            let shown = match &loc {
                Some(loc) if t.is_here() => Some(state::shown(conn, t, loc)?),
                _ => None,
            };
            let kept = kept.remove(&rid).unwrap_or_default();
            let row = Row { rid, state: &state, shown: shown.as_deref(), kept };
            self.row(position, t, row)?;
        }
        Ok(left)
    }

    /// Rows that are not shown, most of them deleted: after all others, and the latest first, so that mostly rows
    /// that refer to others come before these. Whoever merges less than all then finds few rows deleted that
    /// another still needs.
    fn unseen(&mut self, position: usize, t: &Tracked, after: i64) -> Result<()> {
        let Lookup { conn, meta, .. } = self.lookup;
        let sql = format!(
            "SELECT {ENTRY_COLUMNS} FROM synqlite_row \
             WHERE +tbl = ?1 AND position > ?2 AND loc IS NULL ORDER BY position DESC, id DESC"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![t.no, after])?;
        while let Some(row) = rows.next()? {
            let Stored { rid, state, .. } = state::decode(meta, t, row)?;
            self.row(position, t, Row { rid, state: &state, shown: None, kept: vec![] })?;
        }
        Ok(())
    }

    /// Rows of which nothing but the registers of unknown columns is news.
    fn rest(&mut self, position: usize, t: &Tracked, kept: Kept) -> Result<()> {
        let Lookup { conn, meta, .. } = self.lookup;
        for (rid, pieces) in kept {
            let header = match state::of(conn, meta, t, &rid)? {
                Some(stored) => stored.state.header,
                None => continue,
            };
            let nothing = RowState { header, groups: vec![] };
            self.row(position, t, Row { rid, state: &nothing, shown: None, kept: pieces })?;
        }
        Ok(())
    }

    fn row(&mut self, position: usize, t: &Tracked, row: Row<'_>) -> Result<()> {
        let Row { rid, state, shown, kept } = row;
        let mut registers = Vec::new();
        for (g, group) in state.groups.iter().enumerate() {
            if group.stamps().all(|stamp| self.base.covers(stamp)) {
                continue;
            }
            let news = group.counts.iter().filter(|count| !self.base.covers(count.stamp));
            let counts = news.cloned().collect();
            let cell = self.cell(t, g, &group.body, shown)?;
            let previous = group.previous.clone();
            let (stamp, pinned) = (group.stamp, group.pinned);
            if group.column_stamps.is_empty() {
                let group = g as u32;
                registers.push(Register { group, stamp, cell, previous, pinned, counts });
                continue;
            }
            for (place, value) in cell.values.into_iter().enumerate() {
                let stamp = group.column_stamp(place);
                if !self.base.covers(stamp) {
                    let column = t.column_names[t.table.groups[g].columns[place]].clone();
                    let group = self.group(position, vec![column], vec![]);
                    let cell = Cell { values: vec![value], refs: vec![] };
                    let (previous, counts) = (None, vec![]);
                    registers.push(Register { group, stamp, cell, previous, pinned, counts });
                }
            }
        }
        if !kept.is_empty() {
            let names = registry::column_names(self.lookup.conn, t.no)?;
            for Piece { columns, keys, stamp, pinned, cell, previous, mut counts } in kept {
                counts.retain(|count| !self.base.covers(count.stamp));
                if !self.base.covers(stamp) || !counts.is_empty() {
                    let columns = columns.iter().filter_map(|no| names.get(no).cloned()).collect();
                    let group = self.group(position, columns, keys);
                    registers.push(Register { group, stamp, cell, previous, pinned, counts });
                }
            }
        }
        registers.sort_by_key(|register| register.group);
        if !registers.is_empty() || !state.header.covered_by(self.base) {
            let header = state.header;
            let change = RowChange { table: position as u32, rid, header, registers };
            self.bytes += payload(&change);
            self.rows.push(change);
        }
        if self.rows.len() >= self.most.rows || self.bytes >= self.most.bytes {
            self.hand_over(vec![])?;
        }
        Ok(())
    }

    /// The number under which columns that this schema does not hold together are sent.
    fn group(&mut self, table: usize, columns: Vec<String>, refs: Vec<String>) -> u32 {
        let groups = &mut self.shapes[table].groups;
        let shape = GroupShape { columns, refs };
        let known = groups.iter().position(|group| *group == shape);
        known.unwrap_or_else(|| {
            groups.push(shape);
            groups.len() - 1
        }) as u32
    }

    fn cell(
        &mut self,
        t: &Tracked,
        g: usize,
        body: &Body,
        shown: Option<&[Value]>,
    ) -> Result<Cell> {
        match (body, shown) {
            (Body::Stored(cell), _) => Ok(cell.clone()),
            (Body::InTable, Some(row)) => self.recent.cell(self.lookup, t, g, row),
            (Body::InTable, None) => Err(Error::Damaged(format!(
                "table {}: a row that is not visible keeps no values",
                t.table.name
            ))),
        }
    }
}

/// Bytes of the values and identities in a change.
pub fn payload(change: &RowChange) -> usize {
    let rid = |rid: &Rid| match rid {
        Rid::Birth { .. } => 24,
        Rid::Key { key, .. } => key.len() + 4,
    };
    let value = |value: &Value| match value {
        Value::Null => 1,
        Value::Integer(_) | Value::Real(_) => 8,
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
    };
    let cell = |cell: &Cell| {
        let values: usize = cell.values.iter().map(value).sum();
        values + cell.refs.iter().flatten().map(rid).sum::<usize>()
    };
    let cells = change.registers.iter().flat_map(|r| [Some(&r.cell), r.previous.as_ref()]);
    rid(&change.rid) + cells.flatten().map(cell).sum::<usize>()
}
