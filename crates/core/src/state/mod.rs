//! The replicated state of rows, as this file keeps it.
//!
//! Two things keep it small. The values of a visible row live in the application's table and
//! nowhere else: a group whose register is what the table shows is [`Body::Shown`]. And rows born
//! together in a run of rowids share one *segment* (site, clock, numbers of births or keys); only
//! rows that changed later, or that have no rowid, have an entry of their own, which overrides the
//! segment.

mod bulk;
mod codec;
mod keys;
mod overlay;
mod segment;
pub mod stash;
pub mod sums;
mod waits;

pub use bulk::Bulk;
pub use overlay::{join_base, overlay, tells_more};
pub use segment::{COLUMNS as SEGMENT_COLUMNS, Name, Names, Runs, Segment, names_itself};
pub use waits::{
    Waits, any_conflict, any_pending, any_revived, anyone_waits, awaited, conflict, derived,
    kept_references, record_conflict, record_first_waits, record_waits, revived, table_of_entry,
    waiting_for_row,
};

use crate::catalog::{Loc, Tracked};
use crate::equal;
use crate::meta::Meta;
use crate::schema::Affinity;
use crate::{Error, Result};
use codec::{Reader, Writer};
use rusqlite::{Connection, Row, params};
use std::collections::{BTreeSet, HashSet};
use synqlite_wire::{Cell, Count, Header, Rid, Stamp, Value, key};

/// State of one row: its existence and one register for each group of its table.
#[derive(Clone, Debug, PartialEq)]
pub struct RowState {
    /// Existence.
    pub header: Header,
    /// Registers, parallel to the table's groups.
    pub groups: Vec<GroupState>,
}

/// One register.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupState {
    /// When and where it was written; the latest of its columns.
    pub stamp: Stamp,
    /// Stamps of the single columns, where a schema that does not hold them together wrote one
    /// alone (R-MIG); empty if all are `stamp`.
    pub apart: Vec<Stamp>,
    /// A renumbering made permanent (R-PIN).
    pub pinned: bool,
    /// What was shown before the write, for groups that keep it.
    pub previous: Option<Cell>,
    /// Where the values are.
    pub body: Body,
    /// Of a counter that was changed, what sites added; then the body is kept, and is the base of
    /// the counter, and the table shows the sum (R-COUNTER).
    pub counts: Vec<Count>,
}

/// Where the values of a register are.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// In the application's table: the row is visible and shows this register.
    Shown,
    /// Here: the row is dead, or shows something else.
    Kept(Cell),
}

impl GroupState {
    /// A register written at `stamp` and shown.
    pub fn shown(stamp: Stamp) -> GroupState {
        let (apart, counts) = (vec![], vec![]);
        GroupState { stamp, apart, pinned: false, previous: None, body: Body::Shown, counts }
    }

    /// A cell that this register, of group `g`, keeps, as the schema says now: columns that nobody has
    /// written have its defaults.
    pub fn kept(&self, t: &Tracked, g: usize, cell: &Cell) -> Cell {
        let (mut cell, group) = (cell.clone(), &t.table.groups[g]);
        if !self.counts.is_empty() {
            // A column that is a reference too, by a policy that came later, counts to no row.
            cell.refs.fill(None);
        }
        // What was counted was counted over the base that came with it.
        if !group.counter && self.counts.is_empty() {
            for (i, &c) in group.columns.iter().enumerate() {
                if let Some(value) = cell.values.get_mut(i)
                    && self.column_stamp(i).is_zero()
                {
                    *value = t.default_of(c);
                }
            }
        }
        cell
    }

    /// When the `i`th column of the group was written.
    pub fn column_stamp(&self, i: usize) -> Stamp {
        self.apart.get(i).copied().unwrap_or(self.stamp)
    }

    /// Whether nobody has written the `i`th column of the group. A counter may be counted over nothing.
    pub fn is_unwritten(&self, i: usize) -> bool {
        self.column_stamp(i).is_zero() && self.counts.is_empty()
    }

    /// Gives each column a stamp of its own, as few as say the same.
    pub fn set_column_stamps(&mut self, stamps: Vec<Stamp>) {
        self.stamp = stamps.iter().copied().max().unwrap_or(Stamp::ZERO);
        self.apart = if stamps.iter().all(|s| *s == self.stamp) { vec![] } else { stamps };
    }

    /// Stamps of all writes that it holds.
    pub fn stamps(&self) -> impl Iterator<Item = Stamp> + '_ {
        let counts = self.counts.iter().map(|count| count.stamp);
        std::iter::once(self.stamp).chain(self.apart.iter().copied()).chain(counts)
    }
}

impl RowState {
    /// A row just inserted and shown.
    pub fn born(t: &Tracked, stamp: Stamp) -> RowState {
        let groups = vec![GroupState::shown(stamp); t.table.groups.len()];
        RowState { header: Header::born(stamp), groups }
    }

    /// A row that this file has had unchanged since `position`, inserted at `stamp`: of columns that
    /// it got later nobody has written anything yet (R-MIG-ADD).
    pub fn unchanged(t: &Tracked, stamp: Stamp, position: i64) -> RowState {
        let mut state = RowState::born(t, stamp);
        for (group, of) in state.groups.iter_mut().zip(&t.table.groups) {
            let known = |&c: &usize| if t.since[c] < position { stamp } else { Stamp::ZERO };
            if of.columns.iter().any(|&c| t.since[c] >= position) {
                group.set_column_stamps(of.columns.iter().map(known).collect());
            }
        }
        state
    }

    /// Whether a segment can stand for it: inserted once, never written since, shown as it is.
    pub fn is_plain(&self) -> bool {
        let usual = GroupState::shown(self.header.inserted);
        self.header == Header::born(self.header.inserted) && self.groups.iter().all(|g| *g == usual)
    }

    /// Whether whoever deleted it with its parent had seen all there is to it: nothing of it is
    /// later (R-FK-ACTION).
    pub fn fell_with_parent(&self) -> bool {
        let stamps = self.groups.iter().map(|g| g.stamp).chain([self.header.inserted]);
        self.header.alive() && stamps.into_iter().all(|stamp| stamp <= self.header.left())
    }

    /// When the row came into its present life. An insert writes all groups; where an update counts
    /// as one (policy `T.delete=last`), those that it did not write are older.
    pub fn born_at(&self) -> Stamp {
        let Header { inserted, reinserted, .. } = self.header;
        let stamps = self.groups.iter().map(|g| g.stamp).filter(|stamp| !stamp.is_zero());
        stamps.chain([inserted]).min().map_or(inserted, |oldest| oldest.max(reinserted))
    }

    /// What the registers that are kept here say of a row: of a hidden one, what it asks to show.
    pub fn kept_row(&self, t: &Tracked) -> Vec<Value> {
        let mut row = vec![Value::Null; t.table.columns.len()];
        for (group, state) in t.table.groups.iter().zip(&self.groups) {
            if let Body::Kept(cell) = &state.body {
                group.columns.iter().zip(&cell.values).for_each(|(&c, v)| row[c] = v.clone());
            }
        }
        row
    }

    /// The primary key integer that the register of a rowid alias holds, if it is kept here.
    pub fn kept_id(&self, t: &Tracked) -> Option<i64> {
        let alias = t.table.rowid_alias()?;
        let group = t.table.columns[alias].group;
        match &self.groups[group].body {
            Body::Kept(cell) => {
                let at = t.table.groups[group].columns.iter().position(|&c| c == alias)?;
                equal::stored(cell.values.get(at)?, Affinity::Integer).as_integer()
            }
            Body::Shown => None,
        }
    }
}

/// A row with its place in this file.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its entry, if it has one of its own.
    pub entry: Option<i64>,
    /// Its identity.
    pub rid: Rid,
    /// Where it is visible, if it is.
    pub loc: Option<Loc>,
    /// Position of this file at which its state last changed; 0 if this file did not know it.
    pub position: i64,
    /// Its state.
    pub state: RowState,
}

/// The row that the state places at `loc`.
///
/// A segment may span rowids that hold no row; then this answers for a row that never was.
pub fn at(conn: &Connection, meta: &Meta, t: &Tracked, loc: &Loc) -> Result<Option<Stored>> {
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc = ?2");
    if let Some(stored) = entry(conn, meta, t, &sql, params![t.no, loc])? {
        return Ok(Some(stored));
    }
    let Loc::Row(rowid) = loc else { return Ok(None) };
    let Some(segment) = Segment::containing(conn, t, *rowid)? else { return Ok(None) };
    let rid = segment.rid_at(meta, *rowid)?;
    if of_entry(conn, meta, t, &rid)?.is_some() {
        return Ok(None);
    }
    let (state, position) = (segment.state(meta, t)?, segment.position);
    Ok(Some(Stored { entry: None, rid, loc: Some(loc.clone()), position, state }))
}

/// The row that the state places at `loc`.
pub fn shown(conn: &Connection, t: &Tracked, loc: &Loc) -> Result<Vec<Value>> {
    t.read(conn, loc)?.ok_or_else(|| unnoticed(t, loc))
}

/// A row is not where its state places it.
pub fn unnoticed(t: &Tracked, loc: &Loc) -> Error {
    Error::Damaged(format!("table {}: the row at {loc:?} is gone unnoticed", t.table.name))
}

/// Whether a row that has an entry of its own is at `loc`.
pub fn is_placed(conn: &Connection, t: &Tracked, loc: &Loc) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND loc = ?2";
    Ok(conn.prepare_cached(sql)?.exists(params![t.no, loc])?)
}

/// The row with this identity.
pub fn of(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Option<Stored>> {
    if let Some(stored) = of_entry(conn, meta, t, rid)? {
        return Ok(Some(stored));
    }
    if !t.is_here() {
        return Ok(None);
    }
    let Some((segment, rowid)) = Segment::of(conn, meta, t, rid)? else { return Ok(None) };
    let loc = Loc::Row(rowid);
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND loc = ?2";
    if conn.prepare_cached(sql)?.exists(params![t.no, loc])? {
        return Ok(None);
    }
    // A key was found in the application's table.
    if matches!(rid, Rid::Birth { .. }) && !t.exists(conn, &loc)? {
        return Ok(None);
    }
    let (state, position) = (segment.state(meta, t)?, segment.position);
    Ok(Some(Stored { entry: None, rid: rid.clone(), loc: Some(loc), position, state }))
}

/// The row with this identity, if it has an entry of its own.
pub fn of_entry(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Option<Stored>> {
    let Some(bytes) = known_bytes(meta, rid)? else { return Ok(None) };
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND rid = ?2");
    entry(conn, meta, t, &sql, params![t.no, bytes])
}

/// Bytes of an identity. A site that has no number yet has no row here, hence `None`.
pub fn known_bytes(meta: &Meta, rid: &Rid) -> Result<Option<Vec<u8>>> {
    if let Rid::Birth { site, .. } = rid
        && meta.known_number(*site).is_none()
    {
        return Ok(None);
    }
    let unknown = |site| Error::Damaged(format!("site {site} has no number"));
    let mut number = |site| meta.known_number(site).ok_or_else(|| unknown(site));
    Writer::new(&mut number).rid(rid).map(Some)
}

/// The row of an entry.
pub fn entry_by_id(conn: &Connection, meta: &Meta, t: &Tracked, id: i64) -> Result<Option<Stored>> {
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE id = ?1");
    entry(conn, meta, t, &sql, params![id])
}

fn entry(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    sql: &str,
    params: &[&dyn rusqlite::ToSql],
) -> Result<Option<Stored>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params)?;
    rows.next()?.map(|row| decode(meta, t, row)).transpose()
}

/// What [`decode`] reads, in this order.
pub const ENTRY_COLUMNS: &str = "id, rid, loc, state, position";

/// A row from its entry, whose first columns are the [`ENTRY_COLUMNS`].
pub fn decode(meta: &Meta, t: &Tracked, row: &Row<'_>) -> Result<Stored> {
    let (rid, state): (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(3)?);
    let (loc, position): (Option<Loc>, i64) = (row.get(2)?, row.get(4)?);
    let rid = Reader::new(meta, &rid).rid()?;
    let state = Reader::new(meta, &state).state(t, loc.is_some(), position)?;
    Ok(Stored { entry: Some(row.get(0)?), rid, loc, position, state })
}

/// An identity from its bytes.
pub fn decode_rid(meta: &Meta, bytes: &[u8]) -> Result<Rid> {
    Reader::new(meta, bytes).rid()
}

/// Whether any row of table `no` has an entry of its own.
pub fn any_entry(conn: &Connection, no: u32) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1";
    Ok(conn.prepare_cached(sql)?.exists([no])?)
}

/// Whether any row of table `no` is known.
pub fn any_row(conn: &Connection, no: u32) -> Result<bool> {
    let sql = "SELECT 1 FROM synqlite_segment WHERE tbl = ?1 \
               UNION ALL SELECT 1 FROM synqlite_row WHERE tbl = ?1";
    Ok(conn.prepare_cached(sql)?.exists([no])?)
}

/// Where the state places visible rows, in ascending order.
///
/// A segment may span rowids that never held a row; those are among them.
pub fn places(conn: &Connection, meta: &Meta, t: &Tracked) -> Result<BTreeSet<Loc>> {
    let (mut places, mut own) = (BTreeSet::new(), HashSet::new());
    let mut statement = conn.prepare("SELECT rid, loc FROM synqlite_row WHERE tbl = ?1")?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        own.insert(decode_rid(meta, row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?)?);
        places.extend(row.get::<_, Option<Loc>>(1)?);
    }
    let sql = format!("SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1");
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        let segment = Segment::from_row(row)?;
        for rowid in segment.lo..=segment.hi {
            if !own.contains(&segment.rid_at(meta, rowid)?) {
                places.insert(Loc::Row(rowid));
            }
        }
    }
    Ok(places)
}

/// Gives every row that shares a segment of keys an entry of its own, and drops those segments. From
/// then on the primary key may be another. `rows`: only where other rows are parts of the keys; then
/// those may be found under other keys, or not at all.
pub fn expand(conn: &Connection, meta: &mut Meta, t: &Tracked, rows: bool) -> Result<()> {
    let sql = format!(
        "SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1 AND keys IS NOT NULL"
    );
    let mut statement = conn.prepare(&sql)?;
    let segments = statement.query_map([t.no], Segment::from_row)?;
    for segment in segments.collect::<Result<Vec<_>, _>>()? {
        let of_values = |rid: &Rid| matches!(rid, Rid::Key { key, .. } if key::is_of_values(key));
        if rows && segment.keyed()?.iter().flatten().all(of_values) {
            continue;
        }
        for rowid in segment.lo..=segment.hi {
            if let Some(stored) = at(conn, meta, t, &Loc::Row(rowid))?
                && stored.entry.is_none()
            {
                put(conn, meta, t, &stored, None)?;
            }
        }
        let sql = "DELETE FROM synqlite_segment WHERE tbl = ?1 AND lo = ?2";
        conn.prepare_cached(sql)?.execute(params![t.no, segment.lo])?;
    }
    Ok(())
}

/// Gives every row that a dropped table had an entry of its own: without the table no identity finds it
/// in a segment. Should the table be made again, these are the rows that it lacks.
pub fn expand_dropped(conn: &Connection, meta: &mut Meta, t: &Tracked) -> Result<()> {
    let sql = format!("SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let segments = statement.query_map([t.no], Segment::from_row)?;
    let segments = segments.collect::<Result<Vec<_>, _>>()?;
    if segments.is_empty() {
        return Ok(());
    }
    let sums = sums::Sums::load(conn, t)?;
    for loc in segments.iter().flat_map(|segment| segment.lo..=segment.hi).map(Loc::Row) {
        // A segment may span rowids that held no row.
        if sums.has(&loc)
            && let Some(stored) = at(conn, meta, t, &loc)?
            && stored.entry.is_none()
        {
            put(conn, meta, t, &stored, None)?;
        }
    }
    forget_rowids(conn, t)
}

/// Drops the segments of a table that has no rowids any more: all rows of theirs are gone, with entries
/// of their own.
pub fn forget_rowids(conn: &Connection, t: &Tracked) -> Result<()> {
    conn.prepare_cached("DELETE FROM synqlite_segment WHERE tbl = ?1")?.execute([t.no])?;
    Ok(())
}

/// Forgets where a row is, so that another can be placed there.
pub fn unplace(conn: &Connection, stored: &Stored) -> Result<()> {
    if let Some(id) = stored.entry {
        conn.prepare_cached("UPDATE synqlite_row SET loc = NULL WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

/// Saves a row in an entry of its own. `position` marks it as changed for those who pull, and is
/// absent if only its place changed. Returns the entry.
pub fn put(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    stored: &Stored,
    position: Option<i64>,
) -> Result<i64> {
    let state = Writer::new(&mut |site| meta.number(conn, site)).state(t, &stored.state)?;
    let wants = stored.state.kept_id(t);
    if let Some(young) = position.is_none().then(|| youngest(t, stored)).flatten() {
        meta.position = meta.position.max(young + 1);
        return put(conn, meta, t, stored, Some(meta.position));
    }
    let entry = match (stored.entry, position) {
        (Some(id), Some(position)) => {
            let sql = "UPDATE synqlite_row SET loc = ?2, wants = ?3, state = ?4, position = ?5 \
                       WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![id, stored.loc, wants, state, position])?;
            id
        }
        (Some(id), None) => {
            let sql = "UPDATE synqlite_row SET loc = ?2, wants = ?3, state = ?4 WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![id, stored.loc, wants, state])?;
            id
        }
        (None, position) => {
            let rid = Writer::new(&mut |site| meta.number(conn, site)).rid(&stored.rid)?;
            let position = position.unwrap_or(stored.position);
            let sql = "INSERT INTO synqlite_row(tbl, rid, loc, wants, position, state) \
                       VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
            let row = params![t.no, rid, stored.loc, wants, position, state];
            conn.prepare_cached(sql)?.insert(row)?
        }
    };
    if let (Some(loc), Some(_)) = (&stored.loc, position) {
        sums::touch(meta, t, loc, entry);
    }
    Ok(entry)
}

/// Since when the table has columns that are younger than the row, and that it shows as written all the
/// same: it kept what others wrote there while it was hidden.
fn youngest(t: &Tracked, stored: &Stored) -> Option<i64> {
    let groups = stored.state.groups.iter().zip(&t.table.groups);
    let shown = groups.filter(|(group, _)| group.body == Body::Shown && group.counts.is_empty());
    let columns = shown
        .flat_map(|(group, of)| of.columns.iter().enumerate().map(move |(i, &c)| (group, i, c)));
    let young =
        columns.filter(|(group, i, c)| t.since[*c] >= stored.position && !group.is_unwritten(*i));
    young.map(|(_, _, c)| t.since[c]).max()
}

/// Writes the identity and the state of an entry anew: the same row, whose sites go by other ids.
pub fn rewrite(conn: &Connection, meta: &mut Meta, t: &Tracked, stored: &Stored) -> Result<()> {
    let rid = Writer::new(&mut |site| meta.number(conn, site)).rid(&stored.rid)?;
    let state = Writer::new(&mut |site| meta.number(conn, site)).state(t, &stored.state)?;
    let sql = "UPDATE synqlite_row SET rid = ?2, state = ?3 WHERE id = ?1";
    conn.prepare_cached(sql)?.execute(params![stored.entry, rid, state])?;
    Ok(())
}
