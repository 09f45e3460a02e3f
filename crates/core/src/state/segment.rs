//! Runs of rows that share one stamp, and how they are formed.

use crate::Result;
use crate::catalog::Tracked;
use crate::meta::Meta;
use rusqlite::{Connection, OptionalExtension, Row, params};
use synqlite_wire::{Hlc, Rid, Stamp};

/// Rows `lo..=hi` of a table, born at `site` with consecutive numbers from `first`.
///
/// It may span rowids that hold no row. It never changes: a row of it that changes, moves or dies
/// gets an entry of its own. Segments of a table do not overlap.
#[derive(Clone, Debug)]
pub struct Segment {
    /// First rowid.
    pub lo: i64,
    /// Last rowid.
    pub hi: i64,
    /// Number of the site.
    pub site: u32,
    /// Number of the birth at `lo`.
    pub first: i64,
    /// Clock of all of them.
    pub hlc: Hlc,
    /// Position of the transaction that made it.
    pub position: i64,
}

/// Columns of a segment in the order of its fields.
pub const COLUMNS: &str = "lo, hi, site, first, hlc, position";

impl Segment {
    /// A segment from columns in the order of [`COLUMNS`].
    pub fn from_row(row: &Row<'_>) -> rusqlite::Result<Segment> {
        Ok(Segment {
            lo: row.get(0)?,
            hi: row.get(1)?,
            site: row.get(2)?,
            first: row.get(3)?,
            hlc: Hlc(row.get(4)?),
            position: row.get(5)?,
        })
    }

    /// The segment that spans `rowid`.
    pub fn containing(conn: &Connection, t: &Tracked, rowid: i64) -> Result<Option<Segment>> {
        let sql = format!(
            "SELECT {COLUMNS} FROM synqlite_segment WHERE tbl = ?1 AND lo <= ?2 \
             ORDER BY lo DESC LIMIT 1"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let found = statement.query_row(params![t.no, rowid], Segment::from_row).optional()?;
        Ok(found.filter(|s| rowid <= s.hi))
    }

    /// Whether a segment spans any of the rowids `first..=last`.
    pub fn any_within(conn: &Connection, t: &Tracked, first: i64, last: i64) -> Result<bool> {
        let sql =
            "SELECT hi FROM synqlite_segment WHERE tbl = ?1 AND lo <= ?2 ORDER BY lo DESC LIMIT 1";
        let hi: Option<i64> = conn
            .prepare_cached(sql)?
            .query_row(params![t.no, last], |row| row.get(0))
            .optional()?;
        Ok(hi.is_some_and(|hi| hi >= first))
    }

    /// The segment with birth `n` of `site`, and that row's rowid.
    pub fn of_birth(
        conn: &Connection,
        t: &Tracked,
        site: u32,
        n: u64,
    ) -> Result<Option<(Segment, i64)>> {
        let Ok(n) = i64::try_from(n) else { return Ok(None) };
        let sql = format!(
            "SELECT {COLUMNS} FROM synqlite_segment WHERE tbl = ?1 AND site = ?2 AND first <= ?3 \
             ORDER BY first DESC LIMIT 1"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let found = statement.query_row(params![t.no, site, n], Segment::from_row).optional()?;
        let placed = found.and_then(|s| s.lo.checked_add(n - s.first).map(|rowid| (s, rowid)));
        Ok(placed.filter(|(s, rowid)| *rowid <= s.hi))
    }

    /// Position of the segment that a row was in until now; 0 if it was in none.
    pub fn position_of(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<i64> {
        let Rid::Birth { site, n } = rid else { return Ok(0) };
        let Some(site) = meta.known_number(*site) else { return Ok(0) };
        Ok(Segment::of_birth(conn, t, site, *n)?.map_or(0, |(s, _)| s.position))
    }

    /// Identity of the row at `rowid`.
    pub fn rid_at(&self, meta: &Meta, rowid: i64) -> Result<Rid> {
        let n = (self.first + (rowid - self.lo)) as u64;
        Ok(Rid::Birth { site: meta.site_of(self.site)?, n })
    }

    /// Stamp of all of its rows.
    pub fn stamp(&self, meta: &Meta) -> Result<Stamp> {
        Ok(Stamp { hlc: self.hlc, site: meta.site_of(self.site)? })
    }

    /// Writes it.
    pub fn save(&self, conn: &Connection, t: &Tracked) -> Result<()> {
        let sql = "INSERT INTO synqlite_segment(tbl, lo, hi, site, first, hlc, position) \
                   VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let Segment { lo, hi, site, first, hlc, position } = self;
        conn.prepare_cached(sql)?.execute(params![t.no, lo, hi, site, first, hlc.0, position])?;
        Ok(())
    }
}

/// Collects plain rows in ascending order of rowid into segments.
#[derive(Default)]
pub struct Runs {
    current: Option<Segment>,
    /// Where the next segment that is already there begins.
    bound: i64,
}

impl Runs {
    /// Adds the row at `rowid`: birth `n` of `site` at `hlc`. False if an older segment spans the
    /// rowid; then the row needs an entry of its own.
    pub fn add(
        &mut self,
        conn: &Connection,
        t: &Tracked,
        rowid: i64,
        (site, n): (u32, i64),
        hlc: Hlc,
        position: i64,
    ) -> Result<bool> {
        if let Some(run) = &mut self.current
            && run.hi.checked_add(1) == Some(rowid)
            && rowid < self.bound
            && (run.site, run.hlc) == (site, hlc)
            && run.first + (rowid - run.lo) == n
        {
            run.hi = rowid;
            return Ok(true);
        }
        self.finish(conn, t)?;
        if Segment::containing(conn, t, rowid)?.is_some() {
            return Ok(false);
        }
        let sql = "SELECT min(lo) FROM synqlite_segment WHERE tbl = ?1 AND lo > ?2";
        let next: Option<i64> =
            conn.prepare_cached(sql)?.query_row(params![t.no, rowid], |row| row.get(0))?;
        self.bound = next.unwrap_or(i64::MAX);
        self.current = Some(Segment { lo: rowid, hi: rowid, site, first: n, hlc, position });
        Ok(true)
    }

    /// Adds the rows `lo..=hi`, births of `site` from number `n` on. No segment spans any of them.
    pub fn add_all(
        &mut self,
        conn: &Connection,
        t: &Tracked,
        (lo, hi): (i64, i64),
        birth: (u32, i64),
        hlc: Hlc,
        position: i64,
    ) -> Result<()> {
        if self.add(conn, t, lo, birth, hlc, position)?
            && let Some(run) = &mut self.current
        {
            run.hi = hi;
        }
        Ok(())
    }

    /// Writes the run collected last.
    pub fn finish(&mut self, conn: &Connection, t: &Tracked) -> Result<()> {
        self.current.take().map_or(Ok(()), |run| run.save(conn, t))
    }
}
