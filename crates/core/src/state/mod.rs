//! The replicated state of rows, as this file keeps it.
//!
//! Two things keep it small. The values of a visible row live in the application's table and
//! nowhere else: a group whose register is what the table shows is [`Body::Shown`]. And rows born
//! together in a run of rowids share one *segment* (site, clock, number of the first birth); only
//! rows that changed later, or that have no rowid to derive their identity from, have an entry of
//! their own, which overrides the segment.

mod codec;
mod segment;
mod waits;

pub use segment::{COLUMNS as SEGMENT_COLUMNS, Runs, Segment};
pub use waits::{Waits, anyone_waits, falls_back, record_waits, recorded, revived, table_of_entry};

use crate::catalog::{Loc, Tracked};
use crate::meta::Meta;
use crate::{Error, Result};
use codec::{Reader, Writer};
use rusqlite::{Connection, OptionalExtension, params};
use synqlite_wire::{Cell, Header, Rid, Stamp, Value};

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
    /// When and where it was written.
    pub stamp: Stamp,
    /// A renumbering made permanent (R-PIN).
    pub pinned: bool,
    /// What was shown before the write, for groups that keep it.
    pub previous: Option<Cell>,
    /// Where the values are.
    pub body: Body,
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
        GroupState { stamp, pinned: false, previous: None, body: Body::Shown }
    }
}

impl RowState {
    /// A row just inserted and shown.
    pub fn born(t: &Tracked, stamp: Stamp) -> RowState {
        let groups = vec![GroupState::shown(stamp); t.table.groups.len()];
        RowState { header: Header::born(stamp), groups }
    }

    /// Whether a segment can stand for it: inserted once, never written since, shown as it is.
    pub fn is_plain(&self) -> bool {
        let usual = GroupState::shown(self.header.inserted);
        self.header == Header::born(self.header.inserted) && self.groups.iter().all(|g| *g == usual)
    }

    /// The primary key integer that the register of a rowid alias holds, if it is kept here.
    pub fn kept_id(&self, t: &Tracked) -> Option<i64> {
        let alias = t.table.rowid_alias()?;
        let group = t.table.columns[alias].group;
        match &self.groups[group].body {
            Body::Kept(cell) => {
                let at = t.table.groups[group].columns.iter().position(|&c| c == alias)?;
                cell.values.get(at).and_then(Value::as_integer)
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
    /// Its state.
    pub state: RowState,
}

/// The row that the state places at `loc`.
///
/// A segment may span rowids that hold no row; then this answers for a row that never was.
pub fn at(conn: &Connection, meta: &Meta, t: &Tracked, loc: &Loc) -> Result<Option<Stored>> {
    let sql = "SELECT id, rid, loc, state FROM synqlite_row WHERE tbl = ?1 AND loc = ?2";
    if let Some(stored) = entry(conn, meta, t, sql, params![t.no, loc])? {
        return Ok(Some(stored));
    }
    let Loc::Row(rowid) = loc else { return Ok(None) };
    let Some(segment) = Segment::containing(conn, t, *rowid)? else { return Ok(None) };
    let rid = segment.rid_at(meta, *rowid)?;
    if own_entry(conn, meta, t, &rid)?.is_some() {
        return Ok(None);
    }
    let state = RowState::born(t, segment.stamp(meta)?);
    Ok(Some(Stored { entry: None, rid, loc: Some(loc.clone()), state }))
}

/// The row with this identity.
pub fn of(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Option<Stored>> {
    if let Some(stored) = own_entry(conn, meta, t, rid)? {
        return Ok(Some(stored));
    }
    let Rid::Birth { site, n } = rid else { return Ok(None) };
    let Some(site) = meta.known_number(*site) else { return Ok(None) };
    let Some((segment, rowid)) = Segment::of_birth(conn, t, site, *n)? else { return Ok(None) };
    let loc = Loc::Row(rowid);
    let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND loc = ?2";
    if conn.prepare_cached(sql)?.exists(params![t.no, loc])? || !t.exists(conn, &loc)? {
        return Ok(None);
    }
    let state = RowState::born(t, segment.stamp(meta)?);
    Ok(Some(Stored { entry: None, rid: rid.clone(), loc: Some(loc), state }))
}

fn own_entry(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Option<Stored>> {
    let Some(bytes) = known_bytes(meta, rid)? else { return Ok(None) };
    let sql = "SELECT id, rid, loc, state FROM synqlite_row WHERE tbl = ?1 AND rid = ?2";
    entry(conn, meta, t, sql, params![t.no, bytes])
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
    let sql = "SELECT id, rid, loc, state FROM synqlite_row WHERE id = ?1";
    entry(conn, meta, t, sql, params![id])
}

fn entry(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    sql: &str,
    params: &[&dyn rusqlite::ToSql],
) -> Result<Option<Stored>> {
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement
        .query_row(params, |row| {
            let bytes: (Vec<u8>, Vec<u8>) = (row.get(1)?, row.get(3)?);
            Ok((row.get(0)?, bytes.0, row.get(2)?, bytes.1))
        })
        .optional()?;
    let Some((id, rid, loc, state)) = found else { return Ok(None) };
    Ok(Some(decode(meta, t, id, &rid, loc, &state)?))
}

/// A row from the columns of its entry.
pub fn decode(
    meta: &Meta,
    t: &Tracked,
    id: i64,
    rid: &[u8],
    loc: Option<Loc>,
    state: &[u8],
) -> Result<Stored> {
    let rid = Reader::new(meta, rid).rid()?;
    let state = Reader::new(meta, state).state(t, loc.is_some())?;
    Ok(Stored { entry: Some(id), rid, loc, state })
}

/// An identity from its bytes.
pub fn decode_rid(meta: &Meta, bytes: &[u8]) -> Result<Rid> {
    Reader::new(meta, bytes).rid()
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
    match (stored.entry, position) {
        (Some(id), Some(position)) => {
            let sql = "UPDATE synqlite_row SET loc = ?2, wants = ?3, state = ?4, position = ?5 \
                       WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![id, stored.loc, wants, state, position])?;
            Ok(id)
        }
        (Some(id), None) => {
            let sql = "UPDATE synqlite_row SET loc = ?2, wants = ?3, state = ?4 WHERE id = ?1";
            conn.prepare_cached(sql)?.execute(params![id, stored.loc, wants, state])?;
            Ok(id)
        }
        (None, position) => {
            let rid = Writer::new(&mut |site| meta.number(conn, site)).rid(&stored.rid)?;
            let position = match position {
                Some(position) => position,
                None => Segment::position_of(conn, meta, t, &stored.rid)?,
            };
            let sql = "INSERT INTO synqlite_row(tbl, rid, loc, wants, position, state) \
                       VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
            let row = params![t.no, rid, stored.loc, wants, position, state];
            Ok(conn.prepare_cached(sql)?.insert(row)?)
        }
    }
}

/// The next number of a birth in this table at this site.
pub fn next_births(conn: &Connection, t: &Tracked, count: u64) -> Result<u64> {
    let sql = "UPDATE synqlite_table SET births = births + ?2 WHERE no = ?1 RETURNING births";
    let after: i64 =
        conn.prepare_cached(sql)?.query_row(params![t.no, count as i64], |r| r.get(0))?;
    u64::try_from(after - count as i64).map_err(|_| Error::Damaged("count of births".into()))
}
