//! The merge: join what another site sent, derive what the tables show, apply the difference.
//!
//! Three steps in one transaction, so a reader sees all of another site's changes or none:
//!
//! 1. `join`: each incoming row is joined into the local state (R-JOIN). Nothing is shown.
//! 2. `view`: what every affected row shows now, as a function of state, schema and
//!    policies: which dead rows are protected, which rows are hidden, renumbered or show an earlier
//!    value so that every constraint holds.
//! 3. `apply`: the difference to what the tables show, written with capture and the application's
//!    triggers off (R-TRG), then checked against every declared foreign key.
//!
//! Rows of a large delta are taken in parts, each as if a merge of its own had brought it: what is
//! shown in the end does not depend on it, and memory is bounded.
//!
//! The optimistic attempt trusts that no unique key and no row constraint stands in the way; SQLite says if
//! one does, and then the view is computed again with every key heard (R-UNIQ). Before it, rows that
//! are new (`fresh`) or updated (`updates`) and decided by nothing else are taken out of all three
//! steps. In the end, whatever SQLite refuses all the same is left out, and told.

mod apply;
mod fresh;
mod full_recompute;
mod join;
mod ledger;
mod local_wins;
mod refresh;
mod row_validator;
mod say;
mod sqlfacts;
#[cfg(test)]
mod tests;
mod told;
mod triggers;
mod updates;

pub(crate) use apply::refuses;
pub(crate) use fresh::Births;
pub(crate) use full_recompute::differences;
pub(crate) use join::join_piece;
pub(crate) use local_wins::{overrode, repair, reshow};
pub(crate) use refresh::{Anew, refresh};
pub(crate) use say::standing;
pub use told::Lost;
pub(crate) use told::{Columns, Subject, Write, numbers};
pub(crate) use triggers::{with_indexes, with_places};

use crate::catalog::Catalog;
use crate::gaps;
use crate::history;
use crate::meta::Meta;
use crate::parts;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::state::{self, sums};
use crate::{Error, Result, records};
use join::{Matched, Place};
use rusqlite::Connection;
use sqlfacts::SqlFacts;
use std::collections::{BTreeMap, HashSet};
use synqlite_view::affected::{AffectedRows, Refused};
use synqlite_view::join::Joined;
use synqlite_view::view;
use synqlite_wire::{Delta, Rid, RowChange, Stamp, TableShape, VersionVector};

/// How far ahead of this machine's clock a stamp may be, in milliseconds (R-SKEW).
const MAX_DRIFT_MS: i64 = 5 * 60 * 1000;

/// So many rows are joined and shown at a time. Each takes about 2 kB meanwhile.
const PART: usize = parts::of(8_192);

/// So many rows are held back at most.
const HELD: usize = parts::of(16_384);

/// How what has come is merged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Merging {
    /// Also what is stamped more than five minutes ahead (R-SKEW).
    pub force: bool,
    /// After other parts of what one command brings. Numbers that rows have only until all has come are not pinned
    /// (R-PIN).
    pub more: bool,
}

/// What a merge changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows that appeared.
    pub inserted: u64,
    /// Rows that show something else.
    pub updated: u64,
    /// Rows that disappeared.
    pub deleted: u64,
    /// The same for each table in which there were any, by its name.
    pub tables: BTreeMap<String, MergedRows>,
    /// Rows received that were news.
    pub rows: u64,
    /// Registers received that were news.
    pub columns: u64,
    /// Values that came for tables and columns which are not here.
    pub kept: u64,
    /// What the merge decided where two sites had written the same thing.
    pub decisions: Vec<Decision>,
    /// What of it gave way unseen, found out here or by the other site.
    pub told: Vec<Lost>,
    /// What is to be told if its row is hidden after all.
    pub(crate) fallen: Vec<Fallen>,
    /// Whether columns turned out to be unwritten in some rows.
    pub(crate) unwritten: bool,
}

/// A write to a row that was deleted with its parent by somebody who had not seen it, and that is shown for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fallen {
    /// Position of the table.
    pub table: usize,
    /// The row.
    pub rid: Rid,
    /// What is lost once it is hidden.
    pub lost: Lost,
}

/// How many rows of a table show something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergedRows {
    /// Rows that appeared.
    pub inserted: u64,
    /// Rows that show something else.
    pub updated: u64,
    /// Rows that disappeared.
    pub deleted: u64,
}

impl Merged {
    /// Counts what another merge changed too.
    pub fn add(&mut self, other: Merged) {
        other.tables.iter().for_each(|(table, shown)| self.count(table, *shown));
        self.rows += other.rows;
        self.columns += other.columns;
        self.kept += other.kept;
        // A number that was given and is another by the end nobody has to hear of.
        fn claim(d: &Decision) -> Option<(&str, (Stamp, i64))> {
            Some((d.table.as_str(), d.claim?))
        }
        let again: HashSet<_> = other.decisions.iter().filter_map(claim).collect();
        if !again.is_empty() {
            self.decisions.retain(|d| claim(d).is_none_or(|claim| !again.contains(&claim)));
        }
        self.decisions.extend(other.decisions);
        self.told.extend(other.told);
        self.fallen.extend(other.fallen);
        self.unwritten |= other.unwritten;
    }

    /// Counts rows of a table.
    pub(crate) fn count(&mut self, table: &str, shown: MergedRows) {
        let MergedRows { inserted, updated, deleted } = shown;
        self.inserted += inserted;
        self.updated += updated;
        self.deleted += deleted;
        if shown == MergedRows::default() {
            return;
        }
        let of = match self.tables.get_mut(table) {
            Some(of) => of,
            None => self.tables.entry(table.to_owned()).or_default(),
        };
        of.inserted += inserted;
        of.updated += updated;
        of.deleted += deleted;
    }

    /// What was said of rows that got others than these numbers, by table, when they were written and what they had
    /// asked for, is not so.
    pub(crate) fn forget_numbers(&mut self, asked: &HashSet<(String, Stamp, i64)>) {
        if asked.is_empty() {
            return;
        }
        let kept = |table: &str, claim: Option<(Stamp, i64)>| {
            claim.is_none_or(|(stamp, id)| !asked.contains(&(table.to_owned(), stamp, id)))
        };
        self.decisions.retain(|decision| kept(&decision.table, decision.claim));
        self.told.retain(|lost| {
            kept(&lost.told.table, lost.renumbered().map(|(was, _)| (lost.told.lost, was)))
        });
    }

    /// Takes a row off the counts that came or went only on the way. Whether one was counted.
    pub(crate) fn uncount(&mut self, table: &str, what: fn(&mut MergedRows) -> &mut u64) -> bool {
        let Some(of) = self.tables.get_mut(table) else { return false };
        let (before, counted) = (*of, *what(of) > 0);
        *what(of) -= u64::from(counted);
        self.inserted -= before.inserted - of.inserted;
        self.updated -= before.updated - of.updated;
        self.deleted -= before.deleted - of.deleted;
        counted
    }
}

/// A disagreement and how it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Table.
    pub table: String,
    /// The row, by its primary key or row number.
    pub row: String,
    /// What people know the row by, where there is something beside its key.
    pub name: Option<String>,
    /// What happened. Other rows go by their keys.
    pub what: String,
    /// The same for people: other rows go by what people know them by, too.
    pub words: String,
    /// The row that has a record of it, if one has: number of the table, row.
    pub(crate) record: Option<(u32, Rid)>,
    /// Of a row that got another number: the write that asked for one, and which one.
    pub(crate) claim: Option<(Stamp, i64)>,
}

/// The merge of a delta that comes in parts.
///
/// Runs in one write transaction after the fold, with triggers and foreign keys off; the caller saves
/// the metadata.
pub struct Merge {
    upto: VersionVector,
    /// New rows that were in somebody's way, and all that were to be joined after them, in order. They
    /// wait until no more rows can be inserted at once, which an open conflict would keep them from.
    held: Vec<RowChange>,
    /// Which births it has brought.
    births: fresh::Births,
    /// Tables and groups as the last part named them.
    tables: Vec<TableShape>,
    merged: Merged,
}

/// What a merge works with.
pub struct Site<'a> {
    /// The database.
    pub conn: &'a Connection,
    /// Its metadata.
    pub meta: &'a mut Meta,
    /// Its tables.
    pub catalog: &'a Catalog,
    /// Its policies.
    pub policies: &'a Policies,
}

impl Merge {
    /// Begins to merge a delta with this base, up to `upto`. `None` if it brings nothing, unless rows that were
    /// seen come `again`.
    pub fn begin(
        site: &mut Site<'_>,
        base: &VersionVector,
        upto: &VersionVector,
        now_ms: i64,
        force: bool,
        again: bool,
    ) -> Result<Option<Merge>> {
        if !site.meta.seen.dominates(base) {
            return Err(Error::MissingBase);
        }
        if site.meta.seen.dominates(upto) && !again {
            return Ok(None);
        }
        if !force {
            check_skew(site.meta, upto, now_ms)?;
        }
        // What is written here meanwhile on account of a setting is later than all that comes.
        site.meta.observe(upto.latest());
        site.meta.local_seq += 1;
        // A site whose writes were all superseded needs a number too: its clock is saved under it.
        for &other in upto.0.keys() {
            site.meta.number(site.conn, other)?;
        }
        let (upto, merged) = (upto.clone(), Merged::default());
        let births = fresh::Births::new();
        Ok(Some(Merge { upto, held: vec![], births, tables: vec![], merged }))
    }

    /// Joins a part and shows the result.
    pub fn part(&mut self, site: &mut Site<'_>, mut delta: Delta) -> Result<()> {
        gaps::unlisted(site.conn, site.meta, site.policies, &delta.tables, &self.upto)?;
        let tables = join::match_tables(site.conn, site.catalog, &delta, &mut self.merged)?;
        let (mut left, told) = (std::mem::take(&mut delta.rows), std::mem::take(&mut delta.told));
        loop {
            let again = left.split_off(distinct(site.catalog, &tables, &left));
            let now = std::mem::replace(&mut left, again);
            let of = Delta { tables: delta.tables.clone(), rows: now, ..Delta::default() };
            self.distinct(site, &tables, of)?;
            if left.is_empty() {
                break;
            }
        }
        for told in told {
            let t = site.catalog.tables.iter().find(|t| t.canonical == told.table);
            let table = t.map_or(told.table.clone(), |t| t.table.name.clone());
            let name = records::name_of(site.conn, t, &told.row)?;
            self.merged.tell(&table, Lost { told, name, received: true });
        }
        Ok(())
    }

    /// Joins a part in which no row is twice.
    fn distinct(
        &mut self,
        site: &mut Site<'_>,
        tables: &[Option<Matched>],
        delta: Delta,
    ) -> Result<()> {
        if !self.held.is_empty() && self.tables != delta.tables {
            self.join_held(site)?;
        }
        let (conn, catalog) = (site.conn, site.catalog);
        if history::enabled(conn)? {
            for change in &delta.rows {
                let Some(matched) = &tables[change.table as usize] else { continue };
                let groups = matched.groups.iter().map(|unit| (&unit.columns[..], &unit.keys[..]));
                let groups: Vec<_> = groups.collect();
                history::receive(conn, site.meta, matched.table(catalog), &groups, change)?;
            }
        }
        let (mut rest, mut hold) = (vec![], !self.held.is_empty());
        if state::any_conflict(conn)? {
            rest = delta.rows;
        } else {
            let done = fresh::insert(site, tables, &delta, &mut self.births, &mut self.merged)?;
            let left = delta.rows.into_iter().zip(&done).filter(|(_, done)| !**done);
            rest.extend(left.map(|(row, _)| row));
            hold |= rest.iter().any(|row| !site.meta.seen.covers(row.header.inserted));
            if !hold {
                rest = updates::write(site, tables, &self.upto, rest, &mut self.merged)?;
            }
        }
        for row in &rest {
            let (Rid::Birth { site, n }, Some(matched)) = (&row.rid, &tables[row.table as usize])
            else {
                continue;
            };
            let latest = self.births.entry((matched.table(catalog).no, *site)).or_insert(*n);
            *latest = (*latest).max(*n);
        }
        match hold {
            true => self.held.append(&mut rest),
            false => self.merged.add(join_rows(site, tables, &self.upto, &rest)?),
        }
        self.tables = delta.tables;
        if self.held.len() >= HELD {
            self.join_held(site)?;
        }
        if sums::are_many(site.meta) {
            sums::settle(site.conn, site.meta, site.catalog)?;
        }
        Ok(())
    }

    /// Ends it.
    pub fn end(mut self, site: &mut Site<'_>) -> Result<Merged> {
        self.join_held(site)?;
        site.meta.seen.join(&self.upto);
        Ok(self.merged)
    }

    /// Joins rows that were held back by an earlier part.
    pub fn join_now(&mut self, site: &mut Site<'_>, held: Delta) -> Result<()> {
        (self.held, self.tables) = (held.rows, held.tables);
        self.join_held(site)
    }

    /// Takes what was held back, for a later part.
    pub fn take_held(&mut self) -> Option<Delta> {
        let (rows, tables) = (std::mem::take(&mut self.held), self.tables.clone());
        (!rows.is_empty()).then(|| Delta { rows, tables, ..Delta::default() })
    }

    /// Goes on where an earlier slice ended.
    pub fn go_on(&mut self, births: &mut Births) {
        std::mem::swap(&mut self.births, births);
    }

    /// Which births it has brought so far.
    pub fn births(&mut self) -> Births {
        std::mem::take(&mut self.births)
    }

    /// Leaves it, with more to come in another transaction: nothing counts as seen yet.
    pub fn leave(self) -> Merged {
        self.merged
    }

    /// Joins what was held back.
    pub fn join_held(&mut self, site: &mut Site<'_>) -> Result<()> {
        if self.held.is_empty() {
            return Ok(());
        }
        let (rows, tables) = (std::mem::take(&mut self.held), self.tables.clone());
        let held = Delta { rows, tables, ..Delta::default() };
        let tables = join::match_tables(site.conn, site.catalog, &held, &mut self.merged)?;
        self.merged.add(join_rows(site, &tables, &self.upto, &held.rows)?);
        Ok(())
    }
}

/// Joins rows and shows the result.
fn join_rows(
    site: &mut Site<'_>,
    tables: &[Option<Matched>],
    upto: &VersionVector,
    rows: &[RowChange],
) -> Result<Merged> {
    // Which number a new row gets depends on all that want one (R-REMAP), so they come together.
    let new = |row: &RowChange| {
        matches!(row.rid, Rid::Birth { .. }) && !site.meta.seen.covers(row.header.inserted)
    };
    let most = if rows.iter().any(new) { rows.len() } else { PART };
    let (mut merged, mut left) = (Merged::default(), rows);
    while !left.is_empty() {
        let distinct = distinct(site.catalog, tables, left);
        let (part, rest) = left.split_at(most.min(distinct).max(1));
        merged.add(join_part(site, tables, upto, part)?);
        left = rest;
    }
    Ok(merged)
}

/// How many rows come before one that came before, perhaps by another name of its table: whoever joins a row works
/// with what is known of it before all of a part, so no row is in one twice.
fn distinct(catalog: &Catalog, tables: &[Option<Matched>], rows: &[RowChange]) -> usize {
    let mut there = HashSet::with_capacity(rows.len());
    let again = rows.iter().position(|row| match &tables[row.table as usize] {
        Some(matched) => !there.insert((matched.table(catalog).no, &row.rid)),
        None => false,
    });
    again.unwrap_or(rows.len())
}

fn join_part(
    site: &mut Site<'_>,
    tables: &[Option<Matched>],
    upto: &VersionVector,
    part: &[RowChange],
) -> Result<Merged> {
    let mut joined = Merged::default();
    let mut rows: Vec<(usize, Joined)> = Vec::new();
    let mut fell: Vec<Fallen> = Vec::new();
    for change in part {
        let Some(matched) = &tables[change.table as usize] else { continue };
        let Place::Here(position) = matched.place else {
            joined.rows += u64::from(join::keep(site, matched, upto, change, &mut joined)?);
            continue;
        };
        let news = join::join(site, matched, upto, change, &mut joined)?;
        let Some((news, gone)) = news else { continue };
        let rid = || news.stored.rid.clone();
        fell.extend(gone.into_iter().map(|lost| Fallen { table: position, rid: rid(), lost }));
        rows.push((position, news));
    }
    joined.rows += rows.len() as u64;
    if rows.is_empty() {
        return Ok(joined);
    }
    let Site { conn, meta, catalog, policies } = site;
    let mut merged = show(conn, meta, |meta, check_keys, refused| {
        let mut merged = joined.clone();
        let facts = SqlFacts::new(Lookup { conn, meta, catalog });
        let mut affected = AffectedRows::new(catalog, policies, &facts)?;
        let places: Vec<_> = rows.iter().map(|(_, row)| row.stored.loc.clone()).collect();
        for (table, Joined { stored, old, former, asked }) in rows.drain(..) {
            let at = affected.push(table, stored, old, true)?;
            (affected.list[at].former, affected.list[at].asked) = (former, asked);
        }
        for at in 0..affected.list.len() {
            if let Some(asked) = affected.list[at].asked.clone().filter(|_| affected.contested) {
                affected.left(affected.list[at].table, &asked)?;
            }
        }
        affected.refuse(refused)?;
        let foreseen = if check_keys { Ok(()) } else { affected.foresee() };
        let (mut list, applied) = match foreseen {
            Err(refused) => (affected.list, Err(refused.into())),
            Ok(()) => {
                let view = view::settle(&mut affected, check_keys)?;
                let mut list = view::decide(affected, view);
                let refused = check_keys.then_some(refused);
                let applied = apply::apply(conn, meta, catalog, policies, &mut list, refused);
                if let Ok(written) = &applied {
                    merged.add(written.clone());
                    say::say(Lookup { conn, meta, catalog }, &list, &mut merged)?;
                }
                (list, applied)
            }
        };
        if applied.is_err() {
            // What was joined stays so, for another try.
            let news = list.drain(..).zip(places);
            rows.extend(news.map(|(item, place)| item.joined(place)));
        }
        applied.map(|_| merged)
    })?;
    for one in fell {
        let t = &catalog.tables[one.table];
        match state::of(conn, meta, t, &one.rid)?.is_some_and(|stored| stored.loc.is_none()) {
            true => merged.tell(&t.table.name, one.lost),
            false => merged.fallen.push(one),
        }
    }
    Ok(merged)
}

/// Runs `attempt` trusting that no unique key is in the way, if no conflict is open; again hearing all
/// keys if SQLite says that one is; and again, without the rows that SQLite refused, as long as it
/// refuses any: no row keeps others from being shown. Each round leaves out more, so it ends.
fn show<T>(
    conn: &Connection,
    meta: &mut Meta,
    mut attempt: impl FnMut(&mut Meta, bool, &mut Refused) -> Result<T>,
) -> Result<T> {
    let (mut check_keys, mut refused) = (state::any_conflict(conn)?, Refused::new());
    loop {
        let (mut trial, known) = (meta.clone(), refused.len());
        conn.execute_batch("SAVEPOINT synqlite_show")?;
        match attempt(&mut trial, check_keys, &mut refused) {
            Ok(done) => {
                conn.execute_batch("RELEASE synqlite_show")?;
                *meta = trial;
                return Ok(done);
            }
            Err(Error::Constraint { .. }) if !check_keys || refused.len() > known => {
                conn.execute_batch("ROLLBACK TO synqlite_show; RELEASE synqlite_show")?;
                check_keys = true;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Refuses clocks far ahead of this machine's (R-SKEW). What is here may be far ahead itself, by force or by this
/// machine's clock when it was wrong: later writes of this site win over that, so what is about as far ahead does
/// no harm that is not done. No more than about, or whoever stamps a little later each time would lead a site
/// away.
pub(crate) fn check_skew(meta: &Meta, upto: &VersionVector, now_ms: i64) -> Result<()> {
    let (mut latest, newest) = (now_ms + MAX_DRIFT_MS, meta.clock.ms());
    if newest > latest {
        latest = newest + 1_000;
    }
    for (&site, &hlc) in &upto.0 {
        let ahead_ms = hlc.ms() - now_ms;
        if hlc > meta.seen.get(site) && hlc.ms() > latest {
            return Err(Error::Skewed { site, ahead_ms });
        }
    }
    Ok(())
}
