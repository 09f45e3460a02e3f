//! The rows that show something else than when somebody looked last, whoever changed them: for programs that
//! keep something up to date with a replica.
//!
//! A *token* says when that was: the position of the latest change then, and what the replica had seen. Every
//! fold and merge puts the rows that it changes at a new position, so those that follow are found by it,
//! and what was not seen then tells what of them was written. Rows that change though nobody wrote to them
//! have positions of their own ([`shown`]). Nothing is kept of those who ask, and no program that writes pays
//! for them.
//!
//! A token of another site's file, or of a schema that was another, is of no use; then all rows come anew.

use crate::catalog::{Catalog, Loc, Tracked};
use crate::closed::Former;
use crate::describe::row_name;
use crate::history::{self, Change};
use crate::meta::Meta;
use crate::replica::Replica;
use crate::schema::quote;
use crate::sqlvalue::{Vector, hex};
use crate::state::{self, ENTRY_COLUMNS, SEGMENT_COLUMNS, Segment, Stored, shown};
use crate::{Error, Result, line, settings};
use rusqlite::types::{FromSql, ValueRef};
use rusqlite::{Connection, params};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;
use synqlite_wire::{Rid, SiteId, Stamp, Value, VersionVector};

/// Rows that changed.
#[derive(Clone, Debug)]
pub struct Changes {
    /// In the order of their latest changes.
    pub rows: Vec<ChangedRow>,
    /// What to ask with the next time.
    pub token: String,
    /// Whether these are all rows that are shown, and what was known before is void.
    pub anew: bool,
    /// Whether more have changed already.
    pub more: bool,
}

/// A row that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRow {
    /// Its table.
    pub table: String,
    /// What it is called here for as long as it exists, whatever its key.
    pub id: String,
    /// Its name for people.
    pub row: String,
    /// Inserted: it is new; deleted: it is not shown any more; updated: it is shown, perhaps again.
    pub change: Change,
    /// Who wrote last, and when in milliseconds since 1970; nothing if it shows something else because of what
    /// others wrote to other rows.
    pub written: Option<(SiteId, i64)>,
    /// The number that it had before a merge gave it the one that it shows (R-REMAP), as long as the log of
    /// closed conflicts tells of it, whether that was since or before.
    pub former: Option<i64>,
    /// Columns that were written, as far as is known.
    pub columns: Vec<String>,
    /// What it shows now, by column; nothing if it is not shown.
    pub values: Vec<(String, Value)>,
}

/// When somebody looked.
#[derive(Clone)]
struct Token {
    position: i64,
    site: SiteId,
    schema: String,
    /// What the replica had seen by then, if more had changed already, some of which was told since `seen`.
    partly: Option<VersionVector>,
    seen: VersionVector,
}

impl Token {
    fn text(&self) -> String {
        let Token { position, site, schema, partly, seen } = self;
        let of = |seen: &VersionVector| hex(&Vector(seen.clone()).bytes());
        let partly = partly.as_ref().map_or("0".to_owned(), of);
        format!("{position}.{schema}.{site}.{partly}.{}", of(seen))
    }

    fn parse(text: &str) -> Option<Token> {
        let mut parts = text.splitn(5, '.');
        let (position, schema) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
        let site = parts.next()?.parse().ok()?;
        let partly = match parts.next()? {
            "0" => None,
            digits => Some(vector(digits)?),
        };
        Some(Token { position, schema, site, partly, seen: vector(parts.next()?)? })
    }

    /// What the replica has to have seen to be where it was.
    fn whole(&self) -> &VersionVector {
        self.partly.as_ref().unwrap_or(&self.seen)
    }
}

/// A version vector in hexadecimal digits.
fn vector(digits: &str) -> Option<VersionVector> {
    let digits = digits.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let whole = digits.len().is_multiple_of(2).then_some(digits)?;
    let bytes: Vec<u8> = whole.chunks(2).map(byte).collect::<Option<_>>()?;
    let Vector(seen) = Vector::column_result(ValueRef::Blob(&bytes)).ok()?;
    Some(seen)
}

impl Replica {
    /// Rows that changed since `token` was given; without one, all that are shown. After `limit` rows, one at least,
    /// it stops as soon as it can go on from there.
    ///
    /// Folds first, so that what any program has committed is among them.
    pub fn changes(&mut self, token: Option<&str>, limit: usize) -> Result<Changes> {
        let unreadable = || Error::Refused("this is no token of an earlier answer".to_owned());
        let token = token.map(|text| Token::parse(text).ok_or_else(unreadable)).transpose()?;
        self.fold()?;
        self.write(|work| shown::listen(work.conn, &mut work.meta))?;
        let site = self.site();
        self.read(|conn, meta, loaded| {
            let schema = schema(conn, &loaded.catalog)?;
            let good = |token: &Token| {
                // A file that was restored from a backup is where it was before it saw that,
                token.site == site
                    && token.schema == schema
                    && token.position <= meta.local_seq
                    && meta.seen.dominates(token.whole())
            };
            // or was never there, if it has been written to since.
            let was_there = |token: &Token| line::has(conn, meta, site, token.whole().get(site));
            let since = match token.filter(good) {
                Some(token) => was_there(&token)?.then_some(token),
                None => None,
            };
            let anew = since.is_none();
            let nothing = || {
                let (partly, seen) = (None, VersionVector::default());
                Token { position: -1, site, schema: schema.clone(), partly, seen }
            };
            let since = since.unwrap_or_else(nothing);
            let (catalog, rows) = (&loaded.catalog, Vec::new());
            let lasting = settings::any_of(conn, ".delete")?;
            let (since, last, former) = (&since, None, Former::read(conn, meta)?);
            let mut found = Found { conn, meta, catalog, since, anew, lasting, former, rows, last };
            let more = found.collect(limit.max(1))?;
            let (rows, last) = (found.once(), found.last);
            let token = match last.filter(|_| more) {
                Some(position) => {
                    Token { position, partly: Some(meta.seen.clone()), ..since.clone() }
                }
                None => {
                    let (position, seen) = (meta.local_seq, meta.seen.clone());
                    Token { position, partly: None, seen, ..since.clone() }
                }
            };
            Ok(Changes { rows, token: token.text(), anew, more })
        })
    }
}

/// A hash of how the tables are declared: what rows show may be something else under another.
fn schema(conn: &Connection, catalog: &Catalog) -> Result<String> {
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?1";
    let (mut statement, mut hash) = (conn.prepare_cached(sql)?, Sha256::new());
    for t in &catalog.tables {
        let sql: Option<String> = statement.query_row([&t.table.name], |row| row.get(0))?;
        hash.update(sql.unwrap_or_default());
        hash.update([0]);
    }
    Ok(hex(&hash.finalize()[..8]))
}

struct Found<'a> {
    conn: &'a Connection,
    meta: &'a Meta,
    catalog: &'a Catalog,
    since: &'a Token,
    /// Whether nothing is known of before, so that what is not shown is nothing to tell.
    anew: bool,
    /// Whether rows may have been updated so that they count as inserted since (`T.delete=last`).
    lasting: bool,
    former: Former,
    /// Each with the latest write of it.
    rows: Vec<(Option<Stamp>, ChangedRow)>,
    /// The position of the latest of them.
    last: Option<i64>,
}

impl<'a> Found<'a> {
    /// Collects rows by position; whether it left any. What lies past the limit is not read.
    fn collect(&mut self, limit: usize) -> Result<bool> {
        let mut past = self.since.position;
        while let Some(position) = self.next(past)? {
            if self.rows.len() >= limit {
                return Ok(true);
            }
            (past, self.last) = (position, Some(position));
            let first = self.rows.len();
            self.segments(position)?;
            self.entries(position)?;
            self.noted(position)?;
            self.rows[first..].sort_by_key(|(stamp, _)| *stamp);
        }
        Ok(false)
    }

    /// The first position past this one at which rows are.
    fn next(&self, past: i64) -> Result<Option<i64>> {
        let first = |table: &str| -> Result<Option<i64>> {
            let sql = format!("SELECT min(position) FROM {table} WHERE position > ?1");
            Ok(self.conn.prepare_cached(&sql)?.query_row([past], |row| row.get(0))?)
        };
        let tables = ["synqlite_row", "synqlite_segment", "synqlite_shown"];
        let found = tables.map(first).into_iter().collect::<Result<Vec<_>>>()?;
        Ok(found.into_iter().flatten().min())
    }

    /// The rows, each where it changed last.
    fn once(&mut self) -> Vec<ChangedRow> {
        let rows = std::mem::take(&mut self.rows).into_iter();
        let mut rows: Vec<ChangedRow> = rows.map(|(_, row)| row).collect();
        let mut told = HashSet::new();
        rows.reverse();
        rows.retain(|row| told.insert((row.table.clone(), row.id.clone())));
        rows.reverse();
        rows
    }

    fn table(&self, no: u32) -> Option<&'a Tracked> {
        let catalog = self.catalog;
        catalog.position_of_no(no).map(|position| &catalog.tables[position])
    }

    /// Rows with an entry of their own.
    fn entries(&mut self, position: i64) -> Result<()> {
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, tbl FROM synqlite_row WHERE position = ?1 ORDER BY id"
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let no = statement.column_count() - 1;
        let mut rows = statement.query([position])?;
        while let Some(row) = rows.next()? {
            let Some(t) = self.table(row.get(no)?) else { continue };
            let stored = state::decode(self.meta, t, row)?;
            let changed = self.changed(t, &stored)?;
            self.rows.extend(changed);
        }
        Ok(())
    }

    /// Rows that show something else though nobody wrote to them.
    fn noted(&mut self, position: i64) -> Result<()> {
        for (no, rid) in shown::at(self.conn, self.meta, position)? {
            let Some(t) = self.table(no) else { continue };
            if let Some(stored) = state::of(self.conn, self.meta, t, &rid)? {
                let changed = self.changed(t, &stored)?;
                self.rows.extend(changed);
            }
        }
        Ok(())
    }

    /// Rows that share a segment.
    fn segments(&mut self, position: i64) -> Result<()> {
        let sql =
            format!("SELECT {SEGMENT_COLUMNS}, tbl FROM synqlite_segment WHERE position = ?1");
        let mut statement = self.conn.prepare_cached(&sql)?;
        let no = statement.column_count() - 1;
        let mut segments = statement.query([position])?;
        while let Some(row) = segments.next()? {
            self.segment(row.get(no)?, &Segment::from_row(row)?)?;
        }
        Ok(())
    }

    /// Rows that were inserted together and have not changed since.
    fn segment(&mut self, no: u32, segment: &Segment) -> Result<()> {
        let Some(t) = self.table(no) else { return Ok(()) };
        let Some(rowid) = &t.table.rowid_name else { return Ok(()) };
        let name = quote(rowid);
        let sql = format!(
            "SELECT {name} FROM {} WHERE {name} BETWEEN ?1 AND ?2 ORDER BY {name}",
            t.target()
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let rowids = statement.query_map(params![segment.lo, segment.hi], |row| row.get(0))?;
        for rowid in rowids.collect::<Result<Vec<i64>, _>>()? {
            let stored = state::at(self.conn, self.meta, t, &Loc::Row(rowid))?;
            if let Some(stored) = stored.filter(|stored| stored.entry.is_none()) {
                let changed = self.changed(t, &stored)?;
                self.rows.extend(changed);
            }
        }
        Ok(())
    }

    /// What to tell of a row; nothing if it came and went meanwhile.
    fn changed(&self, t: &Tracked, stored: &Stored) -> Result<Option<(Option<Stamp>, ChangedRow)>> {
        let seen = &self.since.seen;
        let shown = match &stored.loc {
            Some(loc) => t.read(self.conn, loc)?,
            None => None,
        };
        let mut news = history::changes(&stored.state);
        news.retain(|stamp, _| !seen.covers(*stamp));
        let header = &stored.state.header;
        let fresh = !seen.covers(stored.state.born_at());
        // Rows of one key that came twice are one (R-ID-KEY), so it may have been known.
        let alone = matches!(stored.rid, Rid::Birth { .. }) && !self.lasting;
        let first = alone && fresh && header.reinserted.is_zero();
        let came =
            |(kind, _): &(Change, Vec<usize>)| matches!(kind, Change::Insert | Change::Reinsert);
        let change = match &shown {
            Some(_) if fresh || news.values().any(came) => Change::Insert,
            Some(_) => Change::Update,
            // Who has not known it needs not hear that it went.
            None if self.anew || first && self.since.partly.is_none() => return Ok(None),
            None => Change::Delete,
        };
        let latest = news.last_key_value().map(|(stamp, _)| *stamp);
        let written = latest.map(|stamp| (stamp.site, stamp.hlc.ms()));
        let mut groups: Vec<usize> = news.into_values().flat_map(|(_, groups)| groups).collect();
        groups.sort_unstable();
        groups.dedup();
        let name = |c: usize| t.table.columns[c].name.clone();
        let columns = groups.iter().flat_map(|&g| &t.table.groups[g].columns).map(|&c| name(c));
        let columns = columns.collect();
        let row = row_name(t, shown.as_deref(), stored.loc.as_ref(), &stored.state, &stored.rid);
        let values = shown.into_iter().flatten().enumerate().map(|(c, value)| (name(c), value));
        let (table, id) = (t.table.name.clone(), id(&stored.rid));
        let values = values.collect();
        let former = match stored.loc {
            Some(Loc::Row(number)) => self.former.of(t, &stored.rid, number),
            _ => None,
        };
        let row = ChangedRow { table, id, row, change, written, former, columns, values };
        Ok(Some((latest, row)))
    }
}

/// An identity as a text.
fn id(rid: &Rid) -> String {
    match rid {
        Rid::Birth { site, n } => format!("{site}-{n}"),
        Rid::Key { key, generation } => {
            format!("{}-{generation}", hex(key))
        }
    }
}
