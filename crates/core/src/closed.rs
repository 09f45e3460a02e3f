//! Conflict records that were open here and closed again, and what merges decided without one.
//!
//! Open records are derived from the state ([`crate::records`]) and leave no trace when their reason
//! goes. This log of the one file remembers them: each fold, merge or settling compares the records
//! that are open now with those it knew. Values that gave way unseen leave no trace in the state at all,
//! so what is noted of them goes along to whoever lacks one of the two writes (R-TOLD): a set that only
//! grows, of which each site keeps the latest. The log is bounded, and nothing is decided by it.

use crate::catalog::Catalog;
use crate::describe::text;
use crate::ended::{Was, ended};
use crate::merge::{Decision, Lost, numbers};
use crate::meta::{self, Meta, SiteNames};
use crate::records::{self, Conflict};
use crate::refs::Lookup;
use crate::sqlvalue::hex;
use crate::{Result, open, state};
pub use fallen::expect;
use numbered::Numbered;
pub use numbered::{Former, forget_numbers};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use synqlite_view::ConflictKind;
use synqlite_wire::{Hlc, SiteId, Stamp, Told, VersionVector};

mod fallen;
mod numbered;

/// So many closed records are kept; the oldest go first.
pub const KEPT: i64 = 1_000;

/// A record that is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The id that the record had; the same for both writes where a value gave way unseen.
    pub id: Option<String>,
    /// Whether it was a record of a row; else it tells of a value that gave way unseen.
    pub was_open: bool,
    /// Table.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// What people knew it by then, where there was something beside its key.
    pub name: Option<String>,
    /// What kind of record it was; also one of those that are never open.
    pub kind: ConflictKind,
    /// The index or foreign key that would have broken; empty for a constraint on single rows.
    pub constraint: String,
    /// What the row asked for, or what was decided.
    pub what: String,
    /// When this file first had the record, in milliseconds since 1970.
    pub opened_ms: i64,
    /// When it was closed here.
    pub closed_ms: i64,
    /// What closed it.
    pub how: ClosedBy,
    /// Who wrote what gave way, where a merge decided without a record: whose row it is that got another number.
    pub wrote: Option<SiteId>,
    /// What became of the row, where that was seen: who deleted, preferred or wrote it.
    pub became: Option<String>,
}

impl Closed {
    /// The number that a row had, and the one that it got, if that is what is told.
    pub fn renumbered(&self) -> Option<(i64, i64)> {
        (self.kind == ConflictKind::Renumbered).then(|| numbers(&self.what)).flatten()
    }
}

/// What to do about a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// The row that lost gets what it asked for; the one that won steps aside.
    Prefer,
    /// The hidden row is deleted.
    Discard,
    /// The deleted row that others refer to lives again.
    Restore,
    /// What is shown is what was meant.
    Accept,
}

impl Verb {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Verb::Prefer => "prefer",
            Verb::Discard => "discard",
            Verb::Restore => "restore",
            Verb::Accept => "accept",
        }
    }
}

/// What closed a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClosedBy {
    /// What was written here.
    Write,
    /// What another site sent.
    Merge,
    /// It was settled here.
    Settled(Verb),
    /// The schema became another.
    Schema,
    /// A policy was set or taken back.
    Policy,
    /// The file became a replica again.
    Init,
    /// What another version of this program says; nothing is decided by it.
    Other(String),
}

impl ClosedBy {
    const ALL: [ClosedBy; 9] = [
        ClosedBy::Write,
        ClosedBy::Merge,
        ClosedBy::Settled(Verb::Prefer),
        ClosedBy::Settled(Verb::Discard),
        ClosedBy::Settled(Verb::Restore),
        ClosedBy::Settled(Verb::Accept),
        ClosedBy::Schema,
        ClosedBy::Policy,
        ClosedBy::Init,
    ];

    /// Its name in the file, and for programs.
    pub fn name(&self) -> &str {
        match self {
            ClosedBy::Write => "write",
            ClosedBy::Merge => "merge",
            ClosedBy::Settled(verb) => verb.name(),
            ClosedBy::Schema => "schema",
            ClosedBy::Policy => "policy",
            ClosedBy::Init => "init",
            ClosedBy::Other(name) => name,
        }
    }

    fn parse(name: &str) -> ClosedBy {
        let known = ClosedBy::ALL.into_iter().find(|by| by.name() == name);
        known.unwrap_or_else(|| ClosedBy::Other(name.to_owned()))
    }
}

/// Records that were open here and are closed, the latest first; 1,000 at most.
pub fn all(conn: &Connection, meta: &Meta) -> Result<Vec<Closed>> {
    let or_null = |column| Ok(if has(conn, column)? { column } else { "NULL" });
    let [name, became]: [Result<_>; 2] = LATER.map(or_null);
    let (name, became) = (name?, became?);
    let sql = format!(
        "SELECT record, tbl, row, kind, cons, what, opened, closed, how, lost IS NULL AND kind <> ?1, \
         {name}, {became}, lost_site FROM synqlite_closed WHERE closed >= 0 ORDER BY closed DESC, no DESC"
    );
    let mut statement = conn.prepare(&sql)?;
    let (mut rows, mut out) = (statement.query([ConflictKind::Rejoin.as_str()])?, Vec::new());
    while let Some(row) = rows.next()? {
        let wrote: Option<u32> = row.get(12)?;
        out.push(Closed {
            id: row.get(0)?,
            table: row.get(1)?,
            row: row.get(2)?,
            kind: row.get::<_, String>(3)?.as_str().into(),
            constraint: row.get(4)?,
            what: row.get(5)?,
            opened_ms: row.get(6)?,
            closed_ms: row.get(7)?,
            how: ClosedBy::parse(&row.get::<_, String>(8)?),
            was_open: row.get(9)?,
            name: row.get(10)?,
            became: row.get(11)?,
            wrote: wrote.map(|no| meta.site_of(no)).transpose()?,
        });
    }
    Ok(out)
}

/// How many of them were decided without ever being open.
pub fn decided(conn: &Connection) -> Result<u64> {
    let sql = "SELECT count(*) FROM synqlite_closed WHERE closed >= 0 AND (lost IS NOT NULL OR kind = ?1)";
    let rejoin = [ConflictKind::Rejoin.as_str()];
    Ok(conn.prepare_cached(sql)?.query_row(rejoin, |row| row.get::<_, i64>(0))?.unsigned_abs())
}

/// Columns that the log of a file of an earlier release does not have.
const LATER: [&str; 2] = ["name", "became"];

fn has(conn: &Connection, column: &str) -> Result<bool> {
    let sql = "SELECT 1 FROM pragma_table_info('synqlite_closed') WHERE name = ?1";
    Ok(conn.prepare_cached(sql)?.exists([column])?)
}

/// Adds those columns that are lacking, before anything is written.
fn have_all(conn: &Connection) -> Result<()> {
    for column in LATER {
        if !has(conn, column)? {
            let sql = format!("ALTER TABLE main.synqlite_closed ADD COLUMN {column} TEXT");
            conn.execute_batch(&sql)?;
        }
    }
    Ok(())
}

/// The noted records that no row has any more.
const OVER: &str = "SELECT no, entry, kind, cons, opened FROM synqlite_closed AS o WHERE closed IS NULL \
                    AND NOT EXISTS(SELECT 1 FROM synqlite_row AS r \
                    WHERE r.id = o.entry AND r.kind = o.kind AND r.cons = o.cons)";

/// Closes those records of which this finds some: of one entry, or of all. `changed` has the rows that had what
/// others asked for.
fn close(
    lookup: Lookup<'_>,
    entry: Option<i64>,
    changed: &BTreeMap<i64, Option<Vec<u8>>>,
    (now_ms, how): (i64, &ClosedBy),
) -> Result<usize> {
    let conn = lookup.conn;
    let over = match entry {
        Some(_) => format!("{OVER} AND entry = ?1"),
        None => format!("{OVER} AND ?1 IS NULL"),
    };
    let mut statement = conn.prepare_cached(&over)?;
    let found = statement.query_map([entry], |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
    })?;
    let found: Vec<(i64, i64, String, String, i64)> = found.collect::<rusqlite::Result<_>>()?;
    if found.is_empty() {
        return Ok(0);
    }
    let passing = match how {
        ClosedBy::Merge => meta::get(conn, PASSING)?.unwrap_or(i64::MAX),
        _ => i64::MAX,
    };
    let mut forget = conn.prepare_cached("DELETE FROM synqlite_closed WHERE no = ?1")?;
    let names = SiteNames::load(conn, lookup.meta.site)?;
    let sql =
        "UPDATE synqlite_closed SET closed = ?2, how = ?3, became = ?4, entry = NULL WHERE no = ?1";
    let mut update = conn.prepare_cached(sql)?;
    for (no, entry, kind, constraint, opened_ms) in &found {
        if *no > passing {
            forget.execute([no])?;
            continue;
        }
        let winner = changed.get(entry).and_then(Option::as_deref);
        let (entry, opened_ms, kind) = (*entry, *opened_ms, kind.as_str().into());
        let was = Was { entry, kind, constraint, opened_ms, winner };
        let became = match how {
            ClosedBy::Settled(_) => None,
            _ => ended(lookup, &names, &was)?,
        };
        update.execute(params![no, now_ms, how.name(), became])?;
    }
    Ok(found.len())
}

/// Closes the record of an entry that was settled, unless it still stands.
pub fn settle(lookup: Lookup<'_>, entry: i64, verb: Verb, now_ms: i64) -> Result<()> {
    let how = (now_ms, &ClosedBy::Settled(verb));
    close(lookup, Some(entry), &BTreeMap::new(), how).map(drop)
}

/// The entry of the metadata that says which record was noted last before a merge in slices began.
const PASSING: &str = "passing";

/// Remembers, unless it is known, which record was noted last before a merge in slices began: what comes after it and
/// goes before the merge ends was open between slices only.
pub fn begin_slices(conn: &Connection) -> Result<()> {
    if meta::get::<i64>(conn, PASSING)?.is_none() {
        let sql = "SELECT ifnull(max(no), 0) FROM synqlite_closed";
        let last: i64 = conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        meta::set(conn, PASSING, last)?;
    }
    Ok(())
}

/// The merge has ended.
pub fn end_slices(conn: &Connection, meta: &Meta, catalog: &Catalog, now_ms: i64) -> Result<()> {
    fallen::close_passing(conn, meta, catalog, now_ms)?;
    meta::unset(conn, PASSING)
}

/// Forgets records of an entry that are over, and about which there was nothing to decide.
pub fn forget(conn: &Connection, entry: i64) -> Result<()> {
    let sql =
        format!("DELETE FROM synqlite_closed WHERE no IN (SELECT no FROM ({OVER} AND entry = ?1))");
    conn.prepare_cached(&sql)?.execute([entry])?;
    Ok(())
}

/// Brings the log up to date with the records that the transaction may have opened or closed: with many open
/// ones, to look at all would cost more than a slice of a merge.
pub fn update(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    now_ms: i64,
    how: ClosedBy,
) -> Result<()> {
    let mut closed = fallen::close(conn, meta, catalog, (now_ms, &how))?;
    let (changed, lookup) = (meta.records.take(), Lookup { conn, meta, catalog });
    if !changed.is_empty() {
        have_all(conn)?;
    }
    for &entry in changed.keys() {
        closed += close(lookup, Some(entry), &changed, (now_ms, &how))?;
    }
    if closed > 0 {
        prune(conn)?;
    }
    for &entry in changed.keys() {
        let Some(no) = state::table_of_entry(conn, entry)? else { continue };
        let Some(position) = catalog.position_of_no(no) else { continue };
        let record = records::of_entry(lookup, &catalog.tables[position], entry)?;
        record.iter().try_for_each(|conflict| note_open(conn, entry, conflict, now_ms))?;
    }
    match open::is_current(lookup)? {
        true => open::update(lookup, changed.keys()),
        false => open::rewrite(lookup),
    }
}

/// The same after the schema or the policies became others, whatever they changed.
pub fn update_all(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    now_ms: i64,
    how: ClosedBy,
) -> Result<()> {
    have_all(conn)?;
    fallen::close(conn, meta, catalog, (now_ms, &how))?;
    let (changed, lookup) = (meta.records.take(), Lookup { conn, meta, catalog });
    if close(lookup, None, &changed, (now_ms, &how))? > 0 {
        prune(conn)?;
    }
    for t in &catalog.tables {
        for (entry, conflict) in &records::of_table(lookup, t)? {
            note_open(conn, *entry, conflict, now_ms)?;
        }
    }
    open::rewrite(lookup)
}

/// Notes an open record, if the log does not have it yet.
fn note_open(conn: &Connection, entry: i64, conflict: &Conflict, now_ms: i64) -> Result<()> {
    let Conflict { id, table, row, name, kind, constraint, .. } = conflict;
    let sql = "INSERT OR IGNORE INTO synqlite_closed(entry, record, tbl, row, kind, cons, what, opened, name) \
               VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let (kind, what) = (kind.as_str(), asked(conflict));
    let values = params![entry, id, table, row, kind, constraint, what, now_ms, name];
    conn.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Notes what gave way unseen in a merge, each pair of writes once.
pub fn note(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    told: &[Lost],
    now_ms: i64,
) -> Result<()> {
    note_all(conn, meta, catalog, told, (ClosedBy::Merge, &|_| now_ms))
}

/// Notes what a fold found written over unseen, as of when it was.
pub fn note_written(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    told: &[Lost],
) -> Result<()> {
    note_all(conn, meta, catalog, told, (ClosedBy::Write, &|told| told.kept.hlc.ms()))
}

fn note_all(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    told: &[Lost],
    (how, at): (ClosedBy, &dyn Fn(&Told) -> i64),
) -> Result<()> {
    if told.is_empty() {
        return Ok(());
    }
    let latest = told.len().saturating_sub(KEPT as usize);
    let sql = "INSERT OR IGNORE INTO synqlite_closed(record, tbl, row, kind, cons, what, opened, \
               closed, how, lost, lost_site, kept, kept_site, name) \
               VALUES(?1, ?2, ?3, ?4, '', ?5, ?6, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    have_all(conn)?;
    let mut statement = conn.prepare_cached(sql)?;
    let mut numbered = None;
    for one @ Lost { told, name, received } in &told[latest..] {
        let Told { id, table, row, kind, what, lost, kept } = told;
        let id = hex(id);
        let t = catalog.tables.iter().find(|t| t.canonical == *table);
        let table = t.map_or(table, |t| &t.table.name);
        let (lost_site, kept_site) = (meta.number(conn, lost.site)?, meta.number(conn, kept.site)?);
        let mut name = name.as_deref();
        let mut before = None;
        if let (Some((asked, _)), Some(t)) = (one.renumbered(), t) {
            let is_here = !received || one.is_here(conn, meta, t)?;
            name = name.filter(|_| is_here);
            let all = match numbered.take() {
                Some(all) => all,
                None => Numbered::read(conn)?,
            };
            let of = (table.clone(), lost.hlc, i64::from(lost_site), asked);
            let same = numbered.insert(all).0.entry(of).or_default();
            if !is_here && !same.is_empty() {
                continue;
            }
            let mut delete = conn.prepare_cached("DELETE FROM synqlite_closed WHERE no = ?1")?;
            same.drain(..).try_for_each(|no| delete.execute([no]).map(drop))?;
            before = Some(same);
        }
        statement.execute(params![
            id,
            table,
            row,
            kind,
            what,
            at(told),
            how.name(),
            lost.hlc.0,
            lost_site,
            kept.hlc.0,
            kept_site,
            name
        ])?;
        if let Some(same) = before.filter(|_| conn.changes() > 0) {
            same.push(conn.last_insert_rowid());
        }
    }
    prune(conn)
}

/// Notes what was decided when this file became a replica again. Nobody else has to know.
pub fn note_rejoined(conn: &Connection, decisions: &[Decision], now_ms: i64) -> Result<()> {
    let latest = decisions.len().saturating_sub(KEPT as usize);
    let sql = "INSERT INTO synqlite_closed(tbl, row, kind, cons, what, opened, closed, how, name) \
               VALUES(?1, ?2, ?5, '', ?3, ?4, ?4, ?6, ?7)";
    have_all(conn)?;
    let mut statement = conn.prepare_cached(sql)?;
    for Decision { table, row, name, what, .. } in &decisions[latest..] {
        statement.execute(params![
            table,
            row,
            what,
            now_ms,
            ConflictKind::Rejoin.as_str(),
            ClosedBy::Init.name(),
            name
        ])?;
    }
    prune(conn)
}

/// What gave way among writes of which a site that has seen `base` lacks one: who has both was told of
/// it when it got the second.
pub fn told_since(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    base: &VersionVector,
) -> Result<Vec<Told>> {
    let sql = "SELECT record, tbl, row, kind, what, lost, lost_site, kept, kept_site \
               FROM synqlite_closed WHERE lost IS NOT NULL AND closed >= 0 ORDER BY no";
    let mut statement = conn.prepare_cached(sql)?;
    let (mut rows, mut out) = (statement.query([])?, Vec::new());
    while let Some(row) = rows.next()? {
        let stamp = |at: usize| -> Result<Stamp> {
            Ok(Stamp { hlc: Hlc(row.get(at)?), site: meta.site_of(row.get(at + 1)?)? })
        };
        let (lost, kept) = (stamp(5)?, stamp(7)?);
        if base.covers(lost) && base.covers(kept) {
            continue;
        }
        let (id, table): (String, String) = (row.get(0)?, row.get(1)?);
        let id = records::pair_id(&id)?;
        let table = catalog.by_name(&table).map_or(table, |t| t.canonical.clone());
        let (row, kind, what) = (row.get(2)?, row.get(3)?, row.get(4)?);
        out.push(Told { id, table, row, kind, what, lost, kept });
    }
    Ok(out)
}

/// What a row asked for, in the columns of its constraint.
fn asked(conflict: &Conflict) -> String {
    let asked = conflict.displaced.iter().filter(|(c, _)| conflict.contested.contains(c));
    let asked: Vec<String> = asked.map(|(c, v)| format!("{c} {}", text(v))).collect();
    asked.join(", ")
}

/// Keeps the latest of those that are closed, and of those that are only noted.
fn prune(conn: &Connection) -> Result<()> {
    let sql = "DELETE FROM synqlite_closed WHERE no IN (SELECT no FROM synqlite_closed \
               WHERE closed IS NOT NULL AND (closed = ?2) = ?3 \
               ORDER BY closed DESC, no DESC LIMIT -1 OFFSET ?1)";
    for noted in [false, true] {
        conn.prepare_cached(sql)?.execute(params![KEPT, fallen::NOT_YET, noted])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Site;

    #[test]
    fn what_closed_a_record_is_read_as_it_was_written() {
        for by in ClosedBy::ALL {
            assert_eq!(ClosedBy::parse(by.name()), by);
        }
        assert_eq!(ClosedBy::parse("wish").name(), "wish");
    }

    #[test]
    fn only_the_latest_are_kept() {
        let site = Site::new("CREATE TABLE t(a)");
        let told = |n: i64| {
            let stamp = Stamp { hlc: Hlc(n), site: site.replica.site() };
            let mut id = [0; 16];
            id[..8].copy_from_slice(&(n / 2).to_be_bytes());
            let [table, row, kind, what] =
                ["t", &n.to_string(), "overwritten", ""].map(String::from);
            let told = Told { id, table, row, kind, what, lost: stamp, kept: stamp };
            Lost { told, name: None, received: false }
        };
        site.replica.conn.execute_batch("BEGIN").unwrap();
        let mut meta = Meta::load(&site.replica.conn).unwrap();
        for batch in [0..1_000, 1_000..3_000] {
            let told: Vec<Lost> = batch.clone().map(told).collect();
            let catalog = Catalog::default();
            note(&site.replica.conn, &mut meta, &catalog, &told, batch.end).unwrap();
        }
        // Of each pair the first is kept.
        let closed = all(&site.replica.conn, &meta).unwrap();
        let rows: Vec<&str> = closed.iter().map(|c| c.row.as_str()).collect();
        assert_eq!((rows.len(), rows[0], rows[999]), (1_000, "2998", "0"));
    }
}
