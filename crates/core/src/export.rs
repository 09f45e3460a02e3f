//! What another site lacks: row states past its version vector, with their values.

use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::meta::Meta;
use crate::policy;
use crate::refs::Lookup;
use crate::sqlvalue::values;
use crate::state::{self, Body, RowState, Segment, Stored};
use crate::{Error, Result};
use rusqlite::{Connection, params};
use synqlite_wire::{
    Cell, Delta, GroupShape, Register, RowChange, TableShape, Value, VersionVector,
};

/// Everything that a site which has seen `base` lacks, among rows that changed here after position
/// `after`. The journal must have been folded.
pub fn delta(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    base: &VersionVector,
    after: i64,
) -> Result<Delta> {
    let lookup = Lookup { conn, meta, catalog };
    let mut export = Export { lookup, base, rows: Vec::new() };
    if !base.dominates(&meta.seen) {
        for (position, t) in catalog.tables.iter().enumerate() {
            export.segments(position, t, after)?;
            export.entries(position, t, after)?;
        }
    }
    let settings = policy::settings_since(conn, meta, base)?;
    let rows = export.rows;
    let tables = catalog.tables.iter().map(shape).collect();
    Ok(Delta { base: base.clone(), upto: meta.seen.clone(), tables, rows, settings })
}

/// A table as other sites know it: by names.
pub fn shape(t: &Tracked) -> TableShape {
    let groups = t.table.groups.iter().map(|group| GroupShape {
        columns: group.columns.iter().map(|&c| t.table.columns[c].name.clone()).collect(),
        refs: group.foreign_keys.iter().map(|&f| t.table.foreign_keys[f].name.clone()).collect(),
    });
    TableShape { name: t.table.name.clone(), groups: groups.collect() }
}

struct Export<'a> {
    lookup: Lookup<'a>,
    base: &'a VersionVector,
    rows: Vec<RowChange>,
}

impl Export<'_> {
    fn segments(&mut self, position: usize, t: &Tracked, after: i64) -> Result<()> {
        let Lookup { conn, meta, .. } = self.lookup;
        let sql = format!(
            "SELECT {} FROM synqlite_segment WHERE +tbl = ?1 AND position > ?2 ORDER BY lo",
            state::SEGMENT_COLUMNS
        );
        let segments: Vec<Segment> = conn
            .prepare_cached(&sql)?
            .query_map(params![t.no, after], Segment::from_row)?
            .collect::<Result<_, _>>()?;
        for segment in segments {
            let stamp = segment.stamp(meta)?;
            if self.base.covers(stamp) {
                continue;
            }
            let loc = loc_sql(&t.table, "o.");
            let sql = format!(
                "SELECT {loc}, {} FROM {} AS o WHERE {loc} BETWEEN ?1 AND ?2 AND NOT EXISTS(\
                 SELECT 1 FROM synqlite_row AS r WHERE r.tbl = ?3 AND r.loc = +{loc})",
                t.column_list(),
                t.target()
            );
            let mut statement = conn.prepare_cached(&sql)?;
            let mut rows = statement.query(params![segment.lo, segment.hi, t.no])?;
            while let Some(row) = rows.next()? {
                let rid = segment.rid_at(meta, row.get(0)?)?;
                let values = values(row, 1, t.table.columns.len())?;
                self.row(position, t, &RowState::born(t, stamp), rid, Some(&values))?;
            }
        }
        Ok(())
    }

    fn entries(&mut self, position: usize, t: &Tracked, after: i64) -> Result<()> {
        let Lookup { conn, meta, .. } = self.lookup;
        // The plus keeps SQLite from walking all rows of the table instead of the changed ones.
        let sql = "SELECT id, rid, loc, state FROM synqlite_row \
                   WHERE +tbl = ?1 AND position > ?2 ORDER BY position, id";
        let mut statement = conn.prepare_cached(sql)?;
        let mut rows = statement.query(params![t.no, after])?;
        while let Some(row) = rows.next()? {
            let (rid, state): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(3)?);
            let Stored { rid, loc, state, .. } =
                state::decode(meta, t, row.get(0)?, &rid, row.get(2)?, &state)?;
            let shown = match &loc {
                Some(loc) => Some(shown(conn, t, loc)?),
                None => None,
            };
            self.row(position, t, &state, rid, shown.as_deref())?;
        }
        Ok(())
    }

    fn row(
        &mut self,
        position: usize,
        t: &Tracked,
        state: &RowState,
        rid: synqlite_wire::Rid,
        shown: Option<&[Value]>,
    ) -> Result<()> {
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
            registers.push(Register { group: g as u32, stamp, cell, previous, pinned, counts });
        }
        if !registers.is_empty() || !state.header.covered_by(self.base) {
            let header = state.header;
            self.rows.push(RowChange { table: position as u32, rid, header, registers });
        }
        Ok(())
    }

    fn cell(&self, t: &Tracked, g: usize, body: &Body, shown: Option<&[Value]>) -> Result<Cell> {
        match (body, shown) {
            (Body::Kept(cell), _) => Ok(cell.clone()),
            (Body::Shown, Some(row)) => self.lookup.cell(t, g, row),
            (Body::Shown, None) => Err(Error::Damaged(format!(
                "table {}: a row that is not visible keeps no values",
                t.table.name
            ))),
        }
    }
}

/// The row that the state places at `loc`.
pub fn shown(conn: &Connection, t: &Tracked, loc: &Loc) -> Result<Vec<Value>> {
    t.read(conn, loc)?.ok_or_else(|| {
        Error::Damaged(format!("table {}: the row at {loc:?} is gone unnoticed", t.table.name))
    })
}
