//! The log: when, where and how rows changed, newest first.
//!
//! The state of a row tells of its latest insert and delete and of the latest write of each group of
//! columns; what had been there before is in the history, where one is kept. Writes that are not
//! folded yet come first, as the fold will stamp them later than everything this replica has seen.
//!
//! With a limit, no more than that many entries are ever held, and rows whose changes are older than
//! those are not even read.

use crate::Result;
use crate::asked::Asked;
use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::describe::{describe, loc_name, row_key, row_name, text};
use crate::history::{self, Change, What};
use crate::journal::{self, Gone, Window, Written};
use crate::known::{known_by, known_row};
use crate::meta::Meta;
use crate::replica::Replica;
use crate::sqlvalue::values;
use crate::state::{self, Body, ENTRY_COLUMNS, RowState, SEGMENT_COLUMNS, Segment, Stored};
use crate::status::windows;
use crate::track;
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use synqlite_wire::{Hlc, Rid, SiteId, Stamp, Value};

/// What to look for in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// Only this table.
    pub table: Option<String>,
    /// Only the row with this primary key, written as in SQL; text with or without its quotes.
    pub row: Option<String>,
    /// At most so many entries; all if absent.
    pub limit: Option<usize>,
}

/// A change of one row at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// When it was written, in milliseconds since 1970.
    pub at_ms: i64,
    /// The site that wrote it.
    pub site: SiteId,
    /// The table.
    pub table: String,
    /// The row: its primary key as it is now, or as it was last.
    pub row: String,
    /// What people know it by, where there is something beside its key.
    pub name: Option<String>,
    /// What happened to the row.
    pub change: Change,
    /// Whether it is in the journal still, not folded.
    pub pending: bool,
    /// Columns written, in table order, and their values for people. A value that a write not yet
    /// folded has replaced is given as `overwritten`.
    pub columns: Vec<(String, String)>,
}

impl Replica {
    /// The changes of rows, newest first. Writes nothing and folds nothing.
    ///
    /// Fails with [`crate::Error::NotReplicated`] or [`crate::Error::NoTable`] if the query names a table
    /// that is not replicated, with [`crate::Error::Refused`] if it names a row that there never was, or one
    /// of several.
    pub fn log(&self, query: &LogQuery) -> Result<Vec<LogEntry>> {
        self.apart(|replica| replica.log_here(query))
    }

    fn log_here(&self, query: &LogQuery) -> Result<Vec<LogEntry>> {
        self.read(|conn, meta, loaded| {
            let catalog = &loaded.catalog;
            let only = match &query.table {
                Some(name) => Some(track::named(conn, catalog, name)?),
                None => None,
            };
            let windows = windows(conn, loaded)?;
            let read = |row: Option<&Asked>| {
                let newest = Newest { limit: query.limit, entries: BTreeMap::new() };
                let mut log = Log { conn, meta, row, newest, rids: HashSet::new() };
                for (t, window) in catalog.tables.iter().zip(&windows) {
                    if only.is_none_or(|only| only.no == t.no) {
                        log.pending(t, window)?;
                        log.entries(t, window)?;
                        log.segments(t, window)?;
                    }
                }
                if history::enabled(conn)? {
                    log.history(catalog, only)?;
                }
                Ok(log.newest.finish())
            };
            let Some(row) = &query.row else { return read(None) };
            for asked in Asked::readings(row) {
                let entries = read(Some(&asked))?;
                if asked.has_found()? {
                    return Ok(entries);
                }
            }
            Err(Asked::nobody(row, only.map(|t| t.table.name.as_str())))
        })
    }
}

/// Order of entries: later ones are greater.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pending: bool,
    stamp: Stamp,
    table: u32,
    row: Row,
}

/// What tells rows of one table apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    /// Its identity.
    Known(Rid),
    /// Where a row is that has no identity before it is folded.
    New(Loc),
}

struct Entry {
    table: String,
    row: String,
    name: Option<String>,
    kind: Change,
    /// Name and value of each column, by number.
    columns: BTreeMap<u32, (String, String)>,
}

/// The newest entries found so far.
struct Newest {
    limit: Option<usize>,
    entries: BTreeMap<Key, Entry>,
}

impl Newest {
    /// The oldest entry, which goes when a newer one comes; none as long as there is room.
    fn oldest(&self) -> Option<&Key> {
        let full = self.limit.is_some_and(|limit| self.entries.len() >= limit);
        self.entries.first_key_value().filter(|_| full).map(|(key, _)| key)
    }

    /// Whether an entry with this key would stay.
    fn admits(&self, key: &Key) -> bool {
        self.oldest().is_none_or(|oldest| key >= oldest)
    }

    /// Adds an entry, or its columns to the one with the same key.
    fn add(&mut self, key: Key, entry: Entry) {
        if !self.admits(&key) {
            return;
        }
        match self.entries.get_mut(&key) {
            Some(known) => {
                known.kind = known.kind.max(entry.kind);
                known.columns.extend(entry.columns);
            }
            None => {
                self.entries.insert(key, entry);
            }
        }
        if self.limit.is_some_and(|limit| self.entries.len() > limit) {
            self.entries.pop_first();
        }
    }

    fn finish(self) -> Vec<LogEntry> {
        let newest = self.entries.into_iter().rev();
        let entry = |(key, entry): (Key, Entry)| LogEntry {
            at_ms: key.stamp.hlc.ms(),
            site: key.stamp.site,
            table: entry.table,
            row: entry.row,
            name: entry.name,
            change: entry.kind,
            pending: key.pending,
            columns: entry.columns.into_values().collect(),
        };
        newest.map(entry).collect()
    }
}

/// What a row showed at the last fold, as far as it can be told.
struct Before<'a> {
    /// Its row, to name it.
    row: Option<Vec<Value>>,
    /// Columns whose value was overwritten since.
    overwritten: Option<&'a Written>,
}

/// What the next fold will record of a row.
struct Write<'a> {
    loc: &'a Loc,
    at: i64,
    kind: Change,
    row: Option<&'a [Value]>,
    columns: Vec<usize>,
}

struct Log<'a> {
    conn: &'a Connection,
    meta: &'a Meta,
    /// The row asked for.
    row: Option<&'a Asked>,
    newest: Newest,
    /// Rows that go by the name asked for.
    rids: HashSet<(u32, Rid)>,
}

impl Log<'_> {
    fn wants(&self, t: &Tracked, key: Option<&[Value]>, name: &str) -> bool {
        self.row.is_none_or(|asked| asked.means(t, key, name))
    }

    /// Changes that the next fold will record.
    fn pending(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        let all = || (0..t.table.columns.len()).collect::<Vec<_>>();
        for (loc, born) in &window.born {
            let Some(row) = t.read(self.conn, loc)? else { continue };
            let (at, row) = (born.at, Some(&row[..]));
            self.waiting(t, None, Write { loc, at, kind: Change::Insert, row, columns: all() })?;
        }
        for (from, changed) in &window.changed {
            let (kind, at, columns) = match changed.replaced {
                Some(replaced) => (Change::Reinsert, replaced.at, all()),
                None => {
                    let nos = t.column_nos.iter().enumerate();
                    let columns = nos.filter(|(_, no)| changed.written.contains_key(no));
                    (Change::Update, 0, columns.map(|(c, _)| c).collect())
                }
            };
            let at = changed.written.values().copied().fold(at, i64::max);
            if columns.is_empty() {
                continue;
            }
            let row = t.read(self.conn, &changed.now)?;
            let stored = state::at(self.conn, self.meta, t, from)?;
            let (loc, row) = (&changed.now, row.as_deref());
            self.waiting(t, stored, Write { loc, at, kind, row, columns })?;
        }
        for (from, gone) in &window.gone {
            let Some(row) = self.image(t, gone)? else { continue };
            let stored = state::at(self.conn, self.meta, t, from)?;
            let (at, row) = (gone.at, Some(&row[..]));
            let kind = Change::Delete;
            self.waiting(t, stored, Write { loc: from, at, kind, row, columns: vec![] })?;
        }
        Ok(())
    }

    /// A write of the row with this state, if it had one at the last fold.
    fn waiting(&mut self, t: &Tracked, stored: Option<Stored>, write: Write<'_>) -> Result<()> {
        let Write { loc, at, kind, row, columns } = write;
        let (called, id) = match &stored {
            Some(stored) => (
                row_name(t, row, Some(loc), &stored.state, &stored.rid),
                Row::Known(stored.rid.clone()),
            ),
            None => (loc_name(t, row, loc), Row::New(loc.clone())),
        };
        let stamp = Stamp { hlc: Hlc::at_ms(at), site: self.meta.site };
        let key = Key { pending: true, stamp, table: t.no, row: id };
        let key_of = |state| row_key(t, row, state);
        let shown = || row.map(|row| t.table.primary_key.iter().map(|&c| row[c].clone()).collect());
        let pk = stored.as_ref().map_or_else(shown, |stored| key_of(&stored.state));
        if self.wants(t, pk.as_deref(), &called) {
            let name = row.and_then(|row| known_by(&t.table, row, &[]));
            let value = |c: usize| row.map_or_else(String::new, |row| text(&row[c]));
            let columns = columns.into_iter().map(|c| (t.column_nos[c], (column(t, c), value(c))));
            let columns = columns.collect();
            let table = t.table.name.clone();
            self.newest.add(key, Entry { table, row: called, name, kind, columns });
        }
        Ok(())
    }

    fn image(&self, t: &Tracked, gone: &Gone) -> Result<Option<Vec<Value>>> {
        gone.image.map_or(Ok(None), |seq| journal::image(self.conn, t, seq))
    }

    /// Rows with an entry of their own.
    fn entries(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1");
        let mut statement = self.conn.prepare(&sql)?;
        let mut rows = statement.query([t.no])?;
        while let Some(row) = rows.next()? {
            let stored = state::decode(self.meta, t, row)?;
            self.stored(t, window, &stored)?;
        }
        Ok(())
    }

    /// Rows that share a segment, and such that left it since the last fold.
    fn segments(&mut self, t: &Tracked, window: &Window) -> Result<()> {
        for from in window.changed.keys().chain(window.gone.keys()) {
            match state::at(self.conn, self.meta, t, from)? {
                Some(stored) if stored.entry.is_none() => self.stored(t, window, &stored)?,
                _ => {}
            }
        }
        let now = window.changed.values().map(|changed| &changed.now);
        let taken: BTreeSet<&Loc> =
            window.born.keys().chain(window.changed.keys()).chain(now).collect();
        let sql = format!(
            "SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1 ORDER BY hlc DESC"
        );
        let mut statement = self.conn.prepare(&sql)?;
        let mut segments = statement.query([t.no])?;
        while let Some(row) = segments.next()? {
            self.segment(t, &Segment::from_row(row)?, &taken)?;
        }
        Ok(())
    }

    /// Rows of a segment, latest birth first, until they are older than what is wanted.
    fn segment(&mut self, t: &Tracked, segment: &Segment, taken: &BTreeSet<&Loc>) -> Result<()> {
        let stamp = segment.stamp(self.meta)?;
        let state = RowState::unchanged(t, stamp, segment.local_seq);
        let at = |rowid| -> Result<Key> {
            let row = Row::Known(segment.rid_at(self.meta, rowid)?);
            Ok(Key { pending: false, stamp, table: t.no, row })
        };
        if !self.newest.admits(&at(segment.hi)?) && self.row.is_none() {
            return Ok(());
        }
        // An integer key is the rowid, so one row can be looked up.
        let one = self.row.filter(|_| t.table.rowid_alias().is_some());
        let (lo, hi) = match one.map(Asked::integer) {
            None => (segment.lo, segment.hi),
            Some(Some(id)) => (segment.lo.max(id), segment.hi.min(id)),
            Some(None) => return Ok(()),
        };
        let loc = loc_sql(&t.table, "o.");
        // The + takes the integer affinity away, with which the index on loc could not be used.
        let sql = format!(
            "SELECT {loc}, {} FROM {} AS o WHERE {loc} BETWEEN ?1 AND ?2 AND NOT EXISTS(\
             SELECT 1 FROM synqlite_row AS r WHERE r.tbl = ?3 AND r.loc = +{loc}) \
             ORDER BY {loc} DESC",
            t.column_list(),
            t.target()
        );
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![lo, hi, t.no])?;
        while let Some(row) = rows.next()? {
            let rowid = row.get(0)?;
            if taken.contains(&Loc::Row(rowid)) {
                continue;
            }
            if self.row.is_none() && !self.newest.admits(&at(rowid)?) {
                break;
            }
            let (rid, loc) = (segment.rid_at(self.meta, rowid)?, Some(Loc::Row(rowid)));
            let values = values(row, 1, t.table.columns.len())?;
            let (local_seq, state) = (segment.local_seq, state.clone());
            let stored = Stored { entry: None, rid, loc, local_seq, state };
            self.add(t, &stored, &Before { row: Some(values), overwritten: None });
        }
        Ok(())
    }

    /// What the state of a row tells, if it is new enough.
    fn stored(&mut self, t: &Tracked, window: &Window, stored: &Stored) -> Result<()> {
        let mut stamps = history::changes(&stored.state).into_keys();
        if self.row.is_some() || stamps.any(|stamp| self.newest.admits(&key(t, stored, stamp))) {
            let before = self.before(t, window, stored)?;
            self.add(t, stored, &before);
        }
        Ok(())
    }

    fn before<'w>(&self, t: &Tracked, window: &'w Window, stored: &Stored) -> Result<Before<'w>> {
        let Some(loc) = &stored.loc else { return Ok(Before { row: None, overwritten: None }) };
        if let Some(changed) = window.changed.get(loc) {
            let row = match changed.replaced {
                Some(replaced) => journal::image(self.conn, t, replaced.image)?,
                None => t.read(self.conn, &changed.now)?,
            };
            return Ok(Before { row, overwritten: Some(&changed.written) });
        }
        if let Some(gone) = window.gone.get(loc)
            && let Some(row) = self.image(t, gone)?
        {
            return Ok(Before { row: Some(row), overwritten: Some(&gone.written) });
        }
        Ok(Before { row: t.read(self.conn, loc)?, overwritten: None })
    }

    fn add(&mut self, t: &Tracked, stored: &Stored, before: &Before<'_>) {
        let (shown, state) = (before.row.as_deref(), &stored.state);
        let row = row_name(t, shown, stored.loc.as_ref(), state, &stored.rid);
        if !self.wants(t, row_key(t, shown, state).as_deref(), &row) {
            return;
        }
        let name = known_row(&t.table, shown, state, &[]);
        if self.row.is_some() {
            self.rids.insert((t.no, stored.rid.clone()));
        }
        for (stamp, (kind, groups)) in history::changes(&stored.state) {
            let key = key(t, stored, stamp);
            if !self.newest.admits(&key) {
                continue;
            }
            let mut columns = BTreeMap::new();
            for g in groups {
                for (i, &c) in t.table.groups[g].columns.iter().enumerate() {
                    let no = t.column_nos[c];
                    let count = history::count_at(&stored.state.groups[g].counts, stamp);
                    let value = match (&stored.state.groups[g].body, &before.row) {
                        _ if count.is_some() => count.map(|count| text(&history::added(count))),
                        (Body::Stored(cell), _) => cell.values.get(i).map(text),
                        _ if before.overwritten.is_some_and(|w| w.contains_key(&no)) => {
                            Some("overwritten".to_owned())
                        }
                        (Body::InTable, row) => row.as_ref().map(|row| text(&row[c])),
                    };
                    columns.extend(value.map(|value| (no, (column(t, c), value))));
                }
            }
            let (table, row, name) = (t.table.name.clone(), row.clone(), name.clone());
            self.newest.add(key, Entry { table, row, name, kind, columns });
        }
    }

    /// What the history tells beyond that.
    fn history(&mut self, catalog: &Catalog, only: Option<&Tracked>) -> Result<()> {
        let (conn, meta) = (self.conn, self.meta);
        let mut names: BTreeMap<(u32, u32), String> = BTreeMap::new();
        let mut statement =
            conn.prepare("SELECT tbl, no, coalesce(name, canonical) FROM synqlite_column")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            names.insert((row.get(0)?, row.get(1)?), row.get(2)?);
        }
        let mut latest: Option<(u32, Rid, Named)> = None;
        history::read(conn, meta, |recorded| {
            let history::Recorded { stamp, table, rid, what } = recorded;
            let older = |oldest: &Key| oldest.pending || stamp.hlc < oldest.stamp.hlc;
            if self.newest.oldest().is_some_and(older) {
                return Ok(false);
            }
            let position =
                catalog.position_of_no(table).filter(|_| only.is_none_or(|t| t.no == table));
            let Some(position) = position else { return Ok(true) };
            // What nobody wrote, and which row a value meant, is nothing that happened.
            if stamp.hlc == Hlc::ZERO || matches!(what, What::Reference(..)) {
                return Ok(true);
            }
            let t = &catalog.tables[position];
            let key = Key { pending: false, stamp, table, row: Row::Known(rid.clone()) };
            let wanted = self.row.is_none() || self.rids.contains(&(table, rid.clone()));
            if !wanted || !self.newest.admits(&key) {
                return Ok(true);
            }
            let (row, name) = match &latest {
                Some((no, same, name)) if (*no, same) == (table, &rid) => name.clone(),
                _ => name_of(conn, meta, t, &rid)?,
            };
            latest = Some((table, rid, (row.clone(), name.clone())));
            let (kind, columns) = match what {
                What::Row(kind) => (kind, BTreeMap::new()),
                What::Fell | What::Reference(..) => (Change::Delete, BTreeMap::new()),
                What::Column(no, value) => {
                    let name = names.get(&(table, no)).cloned().unwrap_or_default();
                    (Change::Update, BTreeMap::from([(no, (name, text(&value)))]))
                }
            };
            let entry = Entry { table: t.table.name.clone(), row, name, kind, columns };
            self.newest.add(key, entry);
            Ok(true)
        })
    }
}

fn key(t: &Tracked, stored: &Stored, stamp: Stamp) -> Key {
    Key { pending: false, stamp, table: t.no, row: Row::Known(stored.rid.clone()) }
}

fn column(t: &Tracked, c: usize) -> String {
    t.table.columns[c].name.clone()
}

/// A row's key, and what people know it by.
type Named = (String, Option<String>);

fn name_of(conn: &Connection, meta: &Meta, t: &Tracked, rid: &Rid) -> Result<Named> {
    let Some(stored) = state::of(conn, meta, t, rid)? else {
        return Ok((describe(t, None, rid), None));
    };
    let row = match &stored.loc {
        Some(loc) => t.read(conn, loc)?,
        None => None,
    };
    let (row, loc, state) = (row.as_deref(), stored.loc.as_ref(), &stored.state);
    Ok((row_name(t, row, loc, state, rid), known_row(&t.table, row, state, &[])))
}

#[cfg(test)]
mod tests;
