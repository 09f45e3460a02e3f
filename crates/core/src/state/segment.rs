//! Runs of rows that share one stamp, and how they are formed.
//!
//! A segment says which rows its rowids had when it was made, by numbers of births or by keys. It
//! does so for itself, without the application's table: a row that is deleted or gets another key
//! while the triggers are gone can still be named.

use super::RowState;
use super::keys::Keys;
use super::sums;
use crate::Result;
use crate::catalog::{KeyRow, Loc, Tracked};
use crate::meta::{self, Meta};
use rusqlite::{Connection, OptionalExtension, Row, params};
use synqlite_wire::key::{self, KeyPart};
use synqlite_wire::{Hlc, Rid, Stamp, Value};

/// Keys of a segment may take so many bytes. Then SQLite keeps it on one page, with others.
const KEY_BYTES: usize = 600;

/// Rows `lo..=hi` of a table, inserted at `site` at one clock.
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
    /// Which rows they are.
    pub names: Names,
    /// Clock of all of them.
    pub hlc: Hlc,
    /// Position of the transaction that made it.
    pub local_seq: i64,
}

/// Identities of the rows of a segment.
#[derive(Clone, Debug)]
pub enum Names {
    /// Consecutive births of the site, from this number.
    Births(i64),
    /// Keys in generation 0, one for each rowid, each what the primary key of its row was when it was
    /// inserted. Where another row is a part, it is found through the key that this one shows now.
    Keys(Keys),
}

/// Identity of a row that may be added to a segment.
#[derive(Clone, Copy)]
pub enum Name<'a> {
    /// Number of its birth at the site.
    Birth(i64),
    /// Its key, in generation 0.
    Key(&'a [u8]),
}

/// Columns of a segment in the order of its fields.
pub const COLUMNS: &str = "lo, hi, site, first, hlc, position, keys";

impl Segment {
    /// A segment from columns in the order of [`COLUMNS`].
    pub fn from_row(row: &Row<'_>) -> rusqlite::Result<Segment> {
        Ok(Segment {
            lo: row.get(0)?,
            hi: row.get(1)?,
            site: row.get(2)?,
            names: match row.get(6)? {
                Some(keys) => Names::Keys(Keys(keys)),
                None => Names::Births(row.get(3)?),
            },
            hlc: Hlc(row.get(4)?),
            local_seq: row.get(5)?,
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

    /// The segment with a row of this identity, and the row's rowid. A key is looked for in the
    /// application's table, so a row that has lost its key there is not found.
    pub fn of(
        conn: &Connection,
        meta: &Meta,
        t: &Tracked,
        rid: &Rid,
    ) -> Result<Option<(Segment, i64)>> {
        match rid {
            Rid::Birth { site, n } => {
                let Some(site) = meta.known_number(*site) else { return Ok(None) };
                Segment::of_birth(conn, t, site, *n)
            }
            Rid::Key { key, generation: 0 } => Segment::of_key(conn, meta, t, key),
            Rid::Key { .. } => Ok(None),
        }
    }

    fn of_birth(
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
        let Some(segment) = found else { return Ok(None) };
        let Names::Births(first) = segment.names else { return Ok(None) };
        let rowid = segment.lo.checked_add(n - first).filter(|rowid| *rowid <= segment.hi);
        Ok(rowid.map(|rowid| (segment, rowid)))
    }

    fn of_key(
        conn: &Connection,
        meta: &Meta,
        t: &Tracked,
        key: &[u8],
    ) -> Result<Option<(Segment, i64)>> {
        let shown = match key::decode_values(key) {
            Some(values) => Some(values),
            None => shown_key(conn, meta, t, key)?,
        };
        let Some(shown) = shown else { return Ok(None) };
        let Some(rowid) = t.rowid_of_key(conn, &shown)? else { return Ok(None) };
        let Some(segment) = Segment::containing(conn, t, rowid)? else { return Ok(None) };
        let Names::Keys(keys) = &segment.names else { return Ok(None) };
        let mut found = Vec::new();
        keys.get(rowid - segment.lo, &mut found)?;
        Ok((found == key).then_some((segment, rowid)))
    }

    /// Identity of the row at `rowid`, which must be between `lo` and `hi`.
    pub fn rid_at(&self, meta: &Meta, rowid: i64) -> Result<Rid> {
        match &self.names {
            Names::Births(first) => {
                let n = (first + (rowid - self.lo)) as u64;
                Ok(Rid::Birth { site: meta.site_of(self.site)?, n })
            }
            Names::Keys(keys) => {
                let mut key = Vec::new();
                keys.get(rowid - self.lo, &mut key)?;
                Ok(Rid::Key { key, generation: 0 })
            }
        }
    }

    /// Identities of its rows in order, if keys name them. Births are not listed.
    pub fn keyed(&self) -> Result<Option<Vec<Rid>>> {
        let Names::Keys(keys) = &self.names else { return Ok(None) };
        let named = |key| Rid::Key { key, generation: 0 };
        Ok(Some(keys.all()?.into_iter().map(named).collect()))
    }

    /// Stamp of all of its rows.
    pub fn stamp(&self, meta: &Meta) -> Result<Stamp> {
        Ok(Stamp { hlc: self.hlc, site: meta.site_of(self.site)? })
    }

    /// State of each of its rows that has no entry of its own.
    pub fn state(&self, meta: &Meta, t: &Tracked) -> Result<RowState> {
        Ok(RowState::unchanged(t, self.stamp(meta)?, self.local_seq))
    }

    /// Writes it.
    pub fn save(&self, conn: &Connection, t: &Tracked) -> Result<()> {
        let sql = "INSERT INTO synqlite_segment(tbl, lo, hi, site, first, hlc, position, keys) \
                   VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let Segment { lo, hi, site, names, hlc, local_seq } = self;
        let (first, keys) = match names {
            Names::Births(first) => (Some(first), None),
            Names::Keys(keys) => (None, Some(&keys.0)),
        };
        let row = params![t.no, lo, hi, site, first, hlc.0, local_seq, keys];
        conn.prepare_cached(sql)?.execute(row)?;
        Ok(())
    }
}

/// What the primary key of a row shows if other rows are parts of its identity: in place of each of
/// them its key. `None` if one of them is not visible.
fn shown_key(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    key: &[u8],
) -> Result<Option<Vec<Value>>> {
    let Some((rows, parts)) = rows_of_key(t, key) else { return Ok(None) };
    let mut shown = vec![Value::Null; t.table.primary_key.len()];
    for (i, part) in parts {
        let rid = match part {
            KeyPart::Value(value) => {
                shown[i] = value;
                continue;
            }
            KeyPart::Row(rid) => rid,
        };
        let Some(KeyRow { foreign_key, at, parent }) = rows.iter().find(|row| row.at[0] == i)
        else {
            return Ok(None);
        };
        let stored = super::of(conn, meta, parent, &rid)?;
        let Some(loc) = stored.and_then(|stored| stored.loc) else { return Ok(None) };
        let columns = &t.table.foreign_keys[*foreign_key].parent_columns;
        let values = match &loc {
            Loc::Row(rowid) if parent.table.rowid_alias().is_some_and(|c| *columns == [c]) => {
                vec![Value::Integer(*rowid)]
            }
            _ => match parent.read(conn, &loc)? {
                Some(row) => columns.iter().map(|&c| row[c].clone()).collect(),
                None => return Ok(None),
            },
        };
        at.iter().zip(values).for_each(|(&i, value)| shown[i] = value);
    }
    Ok(Some(shown))
}

/// Parts of a key, each with its place in the primary key.
type Parts = Vec<(usize, KeyPart)>;

/// The parts of a key all of whose foreign keys are rows; `None` if it is another, or rows of the
/// table cannot be found through other rows.
fn rows_of_key<'t>(t: &'t Tracked, key: &[u8]) -> Option<(&'t [KeyRow], Parts)> {
    let rows = t.key_rows.as_deref()?;
    let follows = |i: &usize| rows.iter().any(|row| row.at[1..].contains(i));
    let places: Vec<usize> = (0..t.table.primary_key.len()).filter(|i| !follows(i)).collect();
    let parts = key::decode(key).filter(|parts| parts.len() == places.len())?;
    let is_row = |part: &KeyPart| matches!(part, KeyPart::Row(_));
    let fits =
        |(i, part): (&usize, &KeyPart)| is_row(part) == rows.iter().any(|row| row.at[0] == *i);
    let fits = places.iter().zip(&parts).all(fits);
    fits.then(|| (rows, places.into_iter().zip(parts).collect()))
}

/// Whether a row with this identity can be in a segment, if it has this primary key.
pub fn names_itself(t: &Tracked, key: &[u8]) -> bool {
    let named = || key::is_of_values(key) || rows_of_key(t, key).is_some();
    t.has_rowid() && t.knows_collations() && named()
}

/// When rows were inserted, and the local sequence of their segment.
#[derive(Clone, Copy)]
pub struct Inserted {
    site: u32,
    hlc: Hlc,
    local_seq: i64,
}

impl Inserted {
    /// At this stamp.
    pub fn at(
        conn: &Connection,
        meta: &mut Meta,
        stamp: Stamp,
        local_seq: i64,
    ) -> Result<Inserted> {
        Ok(Inserted { site: meta.number(conn, stamp.site)?, hlc: stamp.hlc, local_seq })
    }
}

/// Collects plain rows in ascending order of rowid into segments.
#[derive(Default)]
pub struct Runs {
    current: Option<Segment>,
    /// The key added last.
    last: Vec<u8>,
    /// Where the next segment that is already there begins.
    bound: i64,
    /// How many births this file has counted, once one was asked for.
    births: Option<i64>,
    /// Rowids of rows whose sums are not taken yet.
    ranges: Vec<(i64, i64)>,
}

impl Runs {
    /// Adds the row at `rowid`. False if an older segment spans the rowid; then the row needs an entry of
    /// its own.
    pub fn add(
        &mut self,
        conn: &Connection,
        t: &Tracked,
        rowid: i64,
        name: Name<'_>,
        by: Inserted,
    ) -> Result<bool> {
        let added = self.add_summed(conn, t, rowid, name, by)?;
        if added {
            self.sum_later(rowid, rowid);
        }
        Ok(added)
    }

    fn sum_later(&mut self, lo: i64, hi: i64) {
        match self.ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(lo) => *last = hi,
            _ => self.ranges.push((lo, hi)),
        }
    }

    /// [`Runs::add`] of a row whose sum the caller takes.
    pub fn add_summed(
        &mut self,
        conn: &Connection,
        t: &Tracked,
        rowid: i64,
        name: Name<'_>,
        by: Inserted,
    ) -> Result<bool> {
        let Inserted { site, hlc, local_seq } = by;
        let mut free = false;
        if let Some(run) = &mut self.current {
            free = run.hi.checked_add(1) == Some(rowid) && rowid < self.bound;
            if free && (run.site, run.hlc) == (site, hlc) {
                match (&mut run.names, name) {
                    (Names::Births(first), Name::Birth(n)) if *first + (rowid - run.lo) == n => {
                        run.hi = rowid;
                        return Ok(true);
                    }
                    (Names::Keys(keys), Name::Key(key))
                        if keys.0.len() + key.len() <= KEY_BYTES =>
                    {
                        keys.push(&self.last, key);
                        self.last.clear();
                        self.last.extend(key);
                        run.hi = rowid;
                        return Ok(true);
                    }
                    _ => {}
                }
            }
        }
        self.close(conn, t)?;
        if !free {
            if Segment::containing(conn, t, rowid)?.is_some() {
                return Ok(false);
            }
            let sql = "SELECT min(lo) FROM synqlite_segment WHERE tbl = ?1 AND lo > ?2";
            let next: Option<i64> =
                conn.prepare_cached(sql)?.query_row(params![t.no, rowid], |row| row.get(0))?;
            self.bound = next.unwrap_or(i64::MAX);
        }
        let names = match name {
            Name::Birth(n) => Names::Births(n),
            Name::Key(key) => {
                let mut keys = Keys::default();
                keys.push(&[], key);
                self.last = key.to_vec();
                Names::Keys(keys)
            }
        };
        self.current = Some(Segment { lo: rowid, hi: rowid, site, names, hlc, local_seq });
        Ok(true)
    }

    /// Whether it is known that no segment spans a place past the row added last.
    pub fn is_free(&self, loc: &Loc) -> bool {
        let Loc::Row(rowid) = loc else { return true };
        self.current.as_ref().is_some_and(|run| run.hi < *rowid && *rowid < self.bound)
    }

    /// The next `count` numbers of births at this site, from the one returned.
    pub fn next_births(&mut self, conn: &Connection, count: u64) -> Result<i64> {
        let n = match self.births {
            Some(n) => n,
            None => meta::births(conn)?,
        };
        self.births = Some(n.saturating_add_unsigned(count));
        Ok(n)
    }

    /// Adds the rows `lo..=hi`, with numbers of births from `n` on. No segment spans any of them.
    pub fn add_births(
        &mut self,
        conn: &Connection,
        t: &Tracked,
        (lo, hi): (i64, i64),
        n: i64,
        by: Inserted,
    ) -> Result<()> {
        if self.add_summed(conn, t, lo, Name::Birth(n), by)?
            && let Some(run) = &mut self.current
        {
            run.hi = hi;
            self.sum_later(lo, hi);
        }
        Ok(())
    }

    /// Writes the run collected last, and how many births there were, and takes the sums of all rows
    /// of these runs. They must show already what they will.
    pub fn finish(&mut self, conn: &Connection, t: &Tracked) -> Result<()> {
        if let Some(births) = self.births.take() {
            meta::set(conn, "births", births)?;
        }
        self.close(conn, t)?;
        match self.ranges.is_empty() {
            true => Ok(()),
            false => sums::take(conn, t, self.ranges.drain(..)),
        }
    }

    fn close(&mut self, conn: &Connection, t: &Tracked) -> Result<()> {
        self.current.take().map_or(Ok(()), |run| run.save(conn, t))
    }
}
