//! The fold: the journal becomes stamped versions of rows and columns (the thesis's Journal
//! Synchronization MatchedGroup).
//!
//! It runs before remote changes are joined (R-FBM), in the same transaction, and its cost follows
//! the number of changes.

mod actions;
mod adopt;
pub(crate) mod ahead;
mod append;
mod before;
mod before_images;
mod born;
mod change;
mod dangling_refs;
mod early;
mod given;
mod gone;
mod places;
mod plain;
mod references;
mod spelling;
mod stamps;
mod uncaptured;
mod unified;
mod unresolved_refs;
mod unseen;

pub use adopt::adopt;
pub use plain::alone;
pub use uncaptured::uncaptured;
pub use unresolved_refs::{keep, keep_unresolved, reserve_loose};

use crate::Result;
use crate::catalog::{Catalog, Fresh, Tracked};
use crate::closed;
use crate::count::Count;
use crate::env::Environment;
use crate::history;
use crate::journal::{self, Survey, Window};
use crate::merge::{Lost, overrode, repair};
use crate::meta::Meta;
use crate::policy::Policies;
use crate::progress::Phase;
use crate::refs::Lookup;
use crate::registry;
use crate::sqlvalue::Located;
use crate::state::{self, Body, GroupState, Inserted, Runs, Stored, sums};
use before::{Befores, Died};
use given::Given;
use references::References;
use rusqlite::Connection;
use stamps::Stamps;
use std::collections::BTreeMap;
use synqlite_view::local_wins::Wrote;
use synqlite_wire::{Hlc, Rid, Stamp, Value};
use unified::Became;

/// What a fold recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Rows inserted, changed or deleted.
    pub rows: u64,
    /// Registers stamped.
    pub columns: u64,
}

impl Folded {
    /// Adds what another part of the fold recorded.
    pub fn add(&mut self, other: Folded) {
        self.rows += other.rows;
        self.columns += other.columns;
    }
}

/// What a fold goes by.
#[derive(Clone, Copy)]
pub struct Terms<'a> {
    pub policies: &'a Policies,
    pub env: &'a dyn Environment,
    /// Whether the numbers that rows have now were shown (R-PIN): not those that they have in the midst of a
    /// merge.
    pub pins: bool,
}

/// Folds the journal. Must run in a write transaction; the caller saves `meta`.
pub fn fold(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    terms: Terms<'_>,
) -> Result<Folded> {
    let (done, wrote) = run(conn, meta, catalog, terms, Fresh::new(), |fold| {
        let mut survey = journal::survey(conn, catalog)?;
        fold.independent(&mut survey)?;
        if survey.is_done() {
            return Ok(catalog.tables.iter().map(|_| Window::default()).collect());
        }
        let mut windows = journal::read_rest(conn, catalog, Some(&survey))?;
        let tables = catalog.tables.iter().zip(&mut windows);
        tables.into_iter().try_for_each(|(t, window)| uncaptured(conn, t, window))?;
        Ok(windows)
    })?;
    repair(conn, meta, catalog, terms.policies, wrote)?;
    Ok(done)
}

/// Stamps what changed in each table of the catalog, in whatever way that was found out, and empties
/// the journal. The tables are as the user left them until [`repair`] shows what follows. `stale`:
/// tables whose triggers do not fit their schema.
pub fn fold_windows(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    terms: Terms<'_>,
    windows: Vec<Window>,
    stale: Fresh,
) -> Result<(Folded, Wrote)> {
    run(conn, meta, catalog, terms, stale, |_| Ok(windows))
}

/// A fold of what `read` finds, which shows nothing yet.
fn run<'a>(
    conn: &'a Connection,
    meta: &'a mut Meta,
    catalog: &'a Catalog,
    Terms { policies, env, pins }: Terms<'a>,
    stale: Fresh,
    read: impl FnOnce(&mut Fold<'a>) -> Result<Vec<Window>>,
) -> Result<(Folded, Wrote)> {
    let clock = meta.clock;
    let ahead = ahead::under_way(conn)?.map(|(first, _)| first);
    let (given, stamps) = (Given::read(conn, catalog, policies, stale)?, Stamps::new(meta, ahead));
    let count = Count::new(env, Phase::Fold, None);
    let mut fold = Fold::new(conn, meta, catalog, (given, stamps, count));
    // Nobody may ever hear of what a site says that has nothing of its own to say, as it may only read: numbers would
    // differ here for good.
    if pins && (fold.meta.seen.get(fold.meta.site) > Hlc::ZERO || journal::any(conn)?) {
        catalog.tables.iter().try_for_each(|t| fold.pin(t))?;
    }
    let windows = read(&mut fold)?;
    if windows.iter().any(|w| !w.is_empty()) {
        fold.windows(windows)?;
        fold.dangling_refs()?;
        fold.early()?;
        fold.unified()?;
        fold.keep_noted_unresolved()?;
        fold.unprotected()?;
    }
    let Fold { meta, stamps, done, wrote, told, count, .. } = fold;
    count.end();
    if ahead.is_some() {
        ahead::end(conn)?;
        // What it stamped may be earlier than the clock that it began by giving.
        if done.rows > 0 {
            meta.tick(0);
        }
    }
    // Whoever pulls names what it has by position, so it moves whenever a stamp was given, or a state saved.
    if meta.clock > clock || done.rows > 0 {
        meta.local_seq = stamps.local_seq;
    }
    journal::clear(conn)?;
    closed::note_written(conn, meta, catalog, &told)?;
    Ok((done, wrote))
}

/// A fold under way: what it goes by, which stamps it gives, what it notes, and what others are told.
struct Fold<'a> {
    conn: &'a Connection,
    meta: &'a mut Meta,
    catalog: &'a Catalog,
    given: Given,
    stamps: Stamps,
    refs: References<'a>,
    done: Folded,
    count: Count<'a>,
    /// What the repair looks at.
    wrote: Wrote,
    /// What was written over that this site did not show.
    told: Vec<Lost>,
    /// What became of rows that may stand for others.
    became: Vec<(u32, Rid, Became)>,
}

impl<'a> Fold<'a> {
    fn new(
        conn: &'a Connection,
        meta: &'a mut Meta,
        catalog: &'a Catalog,
        (given, stamps, count): (Given, Stamps, Count<'a>),
    ) -> Fold<'a> {
        let (refs, done) = (References::new(catalog), Folded::default());
        let (wrote, told, became) = (Wrote::default(), vec![], vec![]);
        Fold { conn, meta, catalog, given, stamps, refs, done, count, wrote, told, became }
    }
}

impl Fold<'_> {
    /// R-PIN: a number that this site has shown in place of the one a row asked for becomes an
    /// ordinary write, so that it never changes again. Not one that was of this site alone (R-OWN).
    fn pin(&mut self, t: &Tracked) -> Result<()> {
        if self.given.stale.contains_key(&t.no) && registry::had_own_numbers(self.conn, t.no)? {
            return Ok(());
        }
        let Some(alias) = t.table.renumbers() else { return Ok(()) };
        let sql = "SELECT loc FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL \
                   AND loc IS NOT NULL ORDER BY loc";
        let locs: Vec<Located> = self
            .conn
            .prepare_cached(sql)?
            .query_map([t.no], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for Located(loc) in locs {
            let Some(mut stored) = state::at(self.conn, self.meta, t, &loc)? else { continue };
            // No site counts in a key: whatever said so decides on what the row asks for.
            if !stored.state.groups[t.table.columns[alias].group].counts.is_empty() {
                continue;
            }
            let stamp = self.meta.tick(0);
            if self.given.waits && self.given.enforces {
                let stamps = BTreeMap::from([(t.table.columns[alias].group, stamp)]);
                self.wrote.acted.extend(overrode(self.lookup(), t, &stored, &stamps)?);
            }
            let group = &mut stored.state.groups[t.table.columns[alias].group];
            let body = std::mem::replace(&mut group.body, Body::InTable);
            let Body::Stored(wanted) = body else { continue };
            *group =
                GroupState { pinned: true, previous: Some(wanted), ..GroupState::shown(stamp) };
            // What else it waits for it does as before.
            self.save(t, &stored)?;
            self.touch(t, &stored.rid)?;
            self.done.columns += 1;
        }
        Ok(())
    }

    /// Folds rows whose entries concern nobody else, before all others and a part at a time.
    fn independent(&mut self, survey: &mut Survey) -> Result<()> {
        if !self.given.allows_parts() || !survey.in_order {
            return Ok(());
        }
        let (conn, catalog, lasting) = (self.conn, self.catalog, self.given.lasting.clone());
        let takes = |t: &Tracked| !lasting.contains(&t.no);
        survey.parts(conn, catalog, takes, |survey, position, window| {
            self.part(survey, position, window)
        })
    }

    /// Folds such rows of the table at this position, and returns those that have to wait for all others.
    fn part(&mut self, survey: &Survey, position: usize, mut window: Window) -> Result<Window> {
        let t = &self.catalog.tables[position];
        uncaptured(self.conn, t, &mut window)?;
        self.stamps.span(self.meta, survey.earliest, window.times().1);
        if sums::are_many(self.meta) {
            sums::settle(self.conn, self.meta, self.catalog)?;
        }
        let referred = self.catalog.references_to(position).next().is_some();
        if !t.table.foreign_keys.is_empty() || referred || survey.inserts(position) {
            self.plain(t, &mut window)?;
            return Ok(window);
        }
        let mut windows: Vec<_> = self.catalog.tables.iter().map(|_| Window::default()).collect();
        windows[position] = window;
        self.fold_rows(windows)?;
        Ok(Window::default())
    }

    /// Folds the rows of all windows.
    fn windows(&mut self, windows: Vec<Window>) -> Result<()> {
        let times = windows.iter().map(Window::times);
        let (earliest, latest) =
            times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0));
        self.stamps.span(self.meta, earliest, latest);
        self.fold_rows(windows)
    }

    fn fold_rows(&mut self, mut windows: Vec<Window>) -> Result<()> {
        let tables = &self.catalog.tables;
        for (t, window) in tables.iter().zip(&mut windows) {
            self.came(t, window)?;
            self.plain(t, window)?;
        }
        for (position, window) in windows.iter().enumerate() {
            self.name(position, window)?;
        }
        let mut before = self.before(&windows)?;
        for ((t, window), before) in tables.iter().zip(&windows).zip(&mut before) {
            self.places(t, window, before)?;
        }
        for ((t, window), before) in tables.iter().zip(windows).zip(before) {
            self.table(t, window, before)?;
        }
        Ok(())
    }

    fn table(&mut self, t: &Tracked, window: Window, mut before: Befores) -> Result<()> {
        let mut died = Died::new();
        for (from, gone) in &window.gone {
            if let Some(before) = before.remove(from) {
                let rid = before.stored.rid.clone();
                died.insert(rid, self.delete(t, gone, before)?);
            }
        }
        for (from, changed) in &window.changed {
            if let Some(before) = before.remove(from) {
                self.change(t, from, changed, before)?;
            }
        }
        let mut runs = Runs::default();
        for run in &window.appended {
            self.append(t, *run, &died, &mut runs)?;
        }
        runs.finish(self.conn, t)?;
        for (loc, born) in &window.born {
            self.insert(t, loc, born, &died, &mut runs)?;
        }
        runs.finish(self.conn, t)
    }

    /// Remembers what a row was in this window, `row`, and when it began: the same with `keys`.
    fn formerly(&mut self, t: &Tracked, row: &[Value], keys: Option<Vec<Value>>) {
        let Some(position) = self.catalog.position_of_no(t.no).filter(|_| self.given.conflicts)
        else {
            return;
        };
        if let Some(keys) = keys {
            let mut first = row.to_vec();
            let kept = t.table.groups.iter().filter(|g| g.keeps_previous);
            kept.flat_map(|g| &g.columns).for_each(|&c| first[c] = keys[c].clone());
            self.wrote.former.push((position, first));
        }
        self.wrote.former.push((position, row.to_vec()));
    }

    fn lookup(&self) -> Lookup<'_> {
        Lookup { conn: self.conn, meta: self.meta, catalog: self.catalog }
    }

    fn inserted(&mut self, stamp: Stamp) -> Result<Inserted> {
        Inserted::at(self.conn, self.meta, stamp, self.stamps.local_seq)
    }

    fn put(&mut self, t: &Tracked, stored: &Stored) -> Result<()> {
        let entry = self.save(t, stored)?;
        let references = state::kept_references(self.catalog, t, stored, false);
        self.given.waits |= !references.is_empty();
        if self.given.conflicts
            || self.given.waits && (stored.entry.is_some() || !references.is_empty())
        {
            // Whatever it waited for, this write is what it shows now; the repair looks again.
            let settled = state::Waits { references, claims: vec![], conflict: None, winner: None };
            state::record_waits(self.conn, self.meta, entry, &settled)?;
        }
        self.touch(t, &stored.rid)
    }

    /// Saves a state as changed by this fold, and returns its entry.
    fn save(&mut self, t: &Tracked, stored: &Stored) -> Result<i64> {
        self.record(t, stored)?;
        state::put(self.conn, self.meta, t, stored, Some(self.stamps.local_seq))
    }

    /// So many more rows are done.
    fn counted(&mut self, rows: u64) -> Result<()> {
        self.done.rows += rows;
        let all = || Ok(journal::waiting(self.conn, self.catalog, i64::MAX)?.unsigned_abs());
        self.count.add_of(rows, all)
    }

    /// Counts a row that this fold wrote, and tells the history of it.
    fn record(&mut self, t: &Tracked, stored: &Stored) -> Result<()> {
        self.counted(1)?;
        match self.given.history {
            true => history::record(self.conn, self.meta, self.catalog, t, stored),
            false => Ok(()),
        }
    }

    /// Remembers a row that this fold wrote, if others may depend on it.
    fn touch(&mut self, t: &Tracked, rid: &Rid) -> Result<()> {
        if self.given.conflicts || self.given.waits && state::awaited(self.conn, self.meta, t, rid)?
        {
            self.wrote.touched.push((t.no, rid.clone()));
        }
        Ok(())
    }
}
