//! What sums say of rows that may have been written since they were taken.

use super::chunk::{CHECK, CHUNK, Chunk, Layout, Summed, hash, layout, part, sum_of};
use super::damaged;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::equal::stored;
use crate::sqlvalue::{Bind, Located, as_ref, value};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use synqlite_wire::Value;

/// Sums of a table as they were when a transaction began.
pub struct Sums {
    chunks: BTreeMap<i64, Chunk>,
    /// Where the table has, or had, no rowids the entries of its rows.
    entries: BTreeMap<Loc, i64>,
    /// The column that was the rowid then, and is not any more: its place tells what it was.
    pub was_rowid: Option<usize>,
}

/// What a sum says of a row that may have been written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Columns that are certainly others.
    pub touched: BTreeSet<usize>,
    /// Columns of which it cannot be told.
    pub unsure: BTreeSet<usize>,
    /// Whether one of those is certainly another.
    pub one_of_them: bool,
    /// What columns showed that are of another type now, where it was something else.
    pub was: BTreeMap<usize, Value>,
}

impl Sums {
    /// Reads them all.
    pub fn load(conn: &Connection, t: &Tracked) -> Result<Sums> {
        let mut statement = conn.prepare("SELECT lo, sums FROM synqlite_sum WHERE tbl = ?1")?;
        let mut rows = statement.query([t.no])?;
        let mut chunks = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let (no, bytes): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            chunks.insert(no, Chunk::from_bytes(no, &bytes).ok_or_else(|| damaged(t))?);
        }
        // Keys are texts; the table may have rowids since.
        let sql = "SELECT loc, id FROM synqlite_row WHERE tbl = ?1 AND loc >= ''";
        let mut statement = conn.prepare(sql)?;
        let places =
            statement.query_map([t.no], |row| Ok((row.get::<_, Located>(0)?.0, row.get(1)?)))?;
        let entries = places.collect::<Result<_, _>>()?;
        Ok(Sums { chunks, entries, was_rowid: None })
    }

    /// Where all rows were.
    pub fn locs(&self) -> Vec<Loc> {
        if !self.are_of_rowids() {
            return self.entries.keys().cloned().collect();
        }
        self.chunks.values().flat_map(Chunk::rowids).map(Loc::Row).collect()
    }

    /// Of all rows.
    pub(super) fn all(&self) -> impl Iterator<Item = (&Layout, &[u8])> {
        self.chunks.values().flat_map(|chunk| {
            chunk.rowids().filter_map(move |place| Some((&chunk.layout, chunk.get(place)?)))
        })
    }

    fn sum(&self, loc: &Loc) -> Option<(&Layout, &[u8])> {
        let place = match loc {
            // Then the table had no rowids: places were numbers of entries.
            Loc::Row(_) if !self.are_of_rowids() => return None,
            Loc::Row(rowid) => *rowid,
            Loc::Key(_) => *self.entries.get(loc)?,
        };
        let chunk = self.chunks.get(&place.div_euclid(CHUNK))?;
        Some((&chunk.layout, chunk.get(place)?))
    }

    /// Whether rows had rowids then.
    pub fn are_of_rowids(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a row was there.
    pub fn has(&self, loc: &Loc) -> bool {
        self.sum(loc).is_some()
    }

    /// Columns, by position, that were not there when the sum of the row at `loc` was taken: nobody had
    /// written them at the last fold. No sum has a rowid, whose place tells it.
    pub fn added_since(&self, t: &Tracked, loc: &Loc) -> Vec<usize> {
        let Some((layout, _)) = self.sum(loc) else { return vec![] };
        let lacks = |c: &usize| layout.iter().all(|of| of.no != t.column_nos[*c]);
        let rowid = |c: &usize| self.was_rowid == Some(*c) || t.table.rowid_alias() == Some(*c);
        (0..t.column_nos.len()).filter(|c| lacks(c) && !rowid(c)).collect()
    }

    /// Compares what the row at `loc` showed with `row`. `known`: columns, by position, of which it
    /// is known that they were written since. `None` without a sum.
    pub fn compare(
        &self,
        conn: &Connection,
        t: &Tracked,
        loc: &Loc,
        row: &[Value],
        known: &BTreeSet<usize>,
    ) -> Result<Option<Compared>> {
        let Some((layout, sum)) = self.sum(loc) else { return Ok(None) };
        let (mut found, mut check, mut whole) = (Compared::default(), 0u16, true);
        for (&Summed { no, affinity, .. }, &byte) in layout.iter().zip(&sum[CHECK..]) {
            let Some(c) = t.column_nos.iter().position(|n| *n == no) else {
                whole = false;
                continue;
            };
            if known.contains(&c) {
                whole = false;
                continue;
            }
            let hash = |value: &Value| hash(no, as_ref(value));
            let is = |value: &Value| hash(value) as u8 == byte;
            if is(&row[c]) {
                check = check.wrapping_add(part(hash(&row[c])));
                continue;
            }
            let same_type = affinity == t.table.columns[c].affinity;
            let others = if same_type { vec![] } else { spellings(conn, &row[c])? };
            match others.into_iter().find(is) {
                Some(was) => {
                    check = check.wrapping_add(part(hash(&was)));
                    found.was.insert(c, was);
                }
                None => drop(found.touched.insert(c)),
            }
        }
        let fits = check.to_le_bytes() == sum[..CHECK];
        found.one_of_them = found.touched.is_empty() && whole && !fits;
        if !whole || !found.touched.is_empty() || !fits {
            let rest =
                layout.iter().filter_map(|of| t.column_nos.iter().position(|no| *no == of.no));
            found.unsure =
                rest.filter(|c| !found.touched.contains(c) && !known.contains(c)).collect();
        }
        if let (Some(c), Loc::Row(rowid)) = (self.was_rowid, loc)
            && !known.contains(&c)
            && row[c] != stored(&Value::Integer(*rowid), t.table.columns[c].affinity)
        {
            found.touched.insert(c);
        }
        Ok(Some(found))
    }
}

/// Rows that are looked for by what they showed.
#[derive(Default)]
pub struct Alike {
    /// What columns sums are of.
    layouts: Vec<Layout>,
    /// Where rows are that showed the same, by layout and sum.
    places: HashMap<(usize, Vec<u8>), VecDeque<Loc>>,
}

impl Sums {
    /// The rows at `locs`, to be found by what they showed.
    pub fn alike<'l>(&self, t: &Tracked, locs: impl Iterator<Item = &'l Loc>) -> Alike {
        let mut alike = Alike::default();
        let of_now = layout(t);
        for loc in locs {
            let Some((layout, sum)) = self.sum(loc).filter(|(l, _)| {
                l.iter().all(|c| of_now.iter().any(|now| now.is(c.no, c.affinity)))
            }) else {
                continue;
            };
            let known = alike.layouts.iter().position(|known| known == layout);
            let at = known.unwrap_or_else(|| {
                alike.layouts.push(layout.clone());
                alike.layouts.len() - 1
            });
            let sum = &sum[..layout.len() + CHECK];
            alike.places.entry((at, sum.to_vec())).or_default().push_back(loc.clone());
        }
        alike
    }
}

impl Alike {
    /// The first of these rows that showed what `row` does, which is none of them from now on.
    pub fn take(&mut self, t: &Tracked, row: &[Value]) -> Option<Loc> {
        for (at, layout) in self.layouts.iter().enumerate() {
            let mut sum = vec![0; layout.len() + CHECK];
            let of = |i: usize| {
                let c = t.column_nos.iter().position(|no| *no == layout[i].no);
                Ok(c.map_or(ValueRef::Null, |c| as_ref(&row[c])))
            };
            sum_of(layout, of, &mut sum).ok()?;
            if let Some(found) = self.places.get_mut(&(at, sum)).and_then(VecDeque::pop_front) {
                return Some(found);
            }
        }
        None
    }
}

/// What a value may have been before its column got another affinity.
fn spellings(conn: &Connection, now: &Value) -> Result<Vec<Value>> {
    let sql = "SELECT CAST(?1 AS TEXT), iif(CAST(?1 AS NUMERIC) = ?1, CAST(?1 AS NUMERIC), NULL), \
               iif(CAST(?1 AS REAL) = ?1, CAST(?1 AS REAL), NULL), \
               iif(CAST(?1 AS INTEGER) = ?1, CAST(?1 AS INTEGER), NULL), \
               iif(CAST(?1 AS INTEGER) = ?1, CAST(CAST(?1 AS INTEGER) AS TEXT), NULL)";
    if matches!(now, Value::Null | Value::Blob(_)) {
        return Ok(vec![]);
    }
    let mut statement = conn.prepare_cached(sql)?;
    let found = statement.query_row([Bind(now)], |row| {
        (0..5).map(|i| row.get_ref(i).map(value)).collect::<rusqlite::Result<Vec<_>>>()
    })?;
    Ok(found.into_iter().filter(|value| !value.is_null()).collect())
}
