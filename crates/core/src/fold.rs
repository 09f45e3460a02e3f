//! The fold: the journal becomes stamped versions of rows and columns (the thesis's Journal
//! Synchronization MatchedGroup).
//!
//! It runs before remote changes are joined (R-FBM), in the same transaction, and its cost follows
//! the number of changes. Times of writes become clock values: `h := max(h + 1, ms << 16)` for the
//! first, and from there the larger of `h` and each later millisecond, so that writes of one
//! millisecond share a stamp and no stamp ever repeats one of an earlier fold (R-HLC).

mod actions;
mod adopt;
mod append;
mod before;
mod before_images;
mod born;
mod change;
mod dangling_refs;
mod early;
mod lost;
mod plain;
mod spelling;
mod unresolved_refs;
mod unseen;

pub use adopt::adopt;
pub use unresolved_refs::{keep, keep_unresolved};

use crate::Result;
use crate::capture;
use crate::catalog::{Catalog, Fresh, Loc, Tracked};
use crate::closed;
use crate::counter;
use crate::history;
use crate::journal::{self, Changed, Gone, Millis, Survey, Window, Written};
use crate::merge::repair;
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::sqlvalue::Located;
use crate::state::{self, Body, GroupState, Runs, Stored, sums};
use before::{Before, Befores, Died};
use before_images::image_of;
use dangling_refs::Left;
use lost::Rest;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::local_wins::{Acted, ActedOn, Wrote};
use synqlite_wire::{Hlc, Rid, Stamp, Told, Value};

/// What a fold recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Rows inserted, changed or deleted.
    pub rows: u64,
    /// Registers stamped.
    pub columns: u64,
}

/// Folds the journal. Must run in a write transaction; the caller saves `meta`.
pub fn fold(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
) -> Result<Folded> {
    let (done, wrote) = run(conn, meta, catalog, policies, Fresh::new(), |fold| {
        let mut survey = journal::survey(conn, catalog)?;
        fold.independent(&mut survey)?;
        match survey.is_done() {
            true => Ok(catalog.tables.iter().map(|_| Window::default()).collect()),
            false => journal::read_rest(conn, catalog, Some(&survey)),
        }
    })?;
    repair(conn, meta, catalog, policies, wrote)?;
    Ok(done)
}

/// Stamps what changed in each table of the catalog, in whatever way that was found out, and empties
/// the journal. The tables are as the user left them until [`repair`] shows what follows. `stale`:
/// tables whose triggers do not fit their schema.
pub fn fold_windows(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    windows: Vec<Window>,
    stale: Fresh,
) -> Result<Wrote> {
    Ok(run(conn, meta, catalog, policies, stale, |_| Ok(windows))?.1)
}

/// A fold of what `read` finds, which shows nothing yet.
fn run<'a>(
    conn: &'a Connection,
    meta: &'a mut Meta,
    catalog: &'a Catalog,
    policies: &Policies,
    stale: Fresh,
    read: impl FnOnce(&mut Fold<'a>) -> Result<Vec<Window>>,
) -> Result<(Folded, Wrote)> {
    let (position, clock) = (meta.position + 1, meta.clock);
    let unknown = unknown_columns(conn, catalog, &stale)?;
    let lasting = catalog.tables.iter().filter(|t| policies.last_write_decides(&t.table.name));
    let mut fold = Fold {
        conn,
        meta,
        catalog,
        position,
        first: None,
        last: Hlc(0),
        done: Folded::default(),
        conflicts: state::any_conflict(conn)?,
        waits: state::anyone_waits(conn)?,
        touched: vec![],
        acted: vec![],
        told: vec![],
        left: vec![],
        passed: vec![],
        took: vec![],
        unnamed: BTreeSet::new(),
        former: vec![],
        released: vec![],
        followed: BTreeSet::new(),
        orphaned: BTreeSet::new(),
        unresolved: vec![],
        enforces: policies.enforces_foreign_keys(),
        lasting: lasting.map(|t| t.no).collect(),
        history: history::enabled(conn)?,
        adopts: false,
        stale,
        unknown,
    };
    for t in &catalog.tables {
        fold.pin(t)?;
    }
    let windows = read(&mut fold)?;
    if windows.iter().any(|w| !w.is_empty()) {
        fold.windows(windows)?;
        fold.dangling_refs()?;
        fold.early()?;
        fold.keep_noted_unresolved()?;
        fold.unprotected()?;
    }
    let Fold { meta, done, touched, former, released, acted, told, .. } = fold;
    // Whoever pulls names what it has by position, so it moves whenever a stamp was given.
    if meta.clock > clock {
        meta.position = position;
    }
    journal::clear(conn)?;
    closed::note_written(conn, meta, catalog, &told)?;
    Ok((done, Wrote { touched, former, released, acted, anew: false }))
}

/// Key columns, by number, that are in no image which the triggers of stale tables made.
fn unknown_columns(
    conn: &Connection,
    catalog: &Catalog,
    stale: &Fresh,
) -> Result<BTreeMap<u32, BTreeSet<u32>>> {
    let mut unknown = BTreeMap::new();
    for t in catalog.tables.iter().filter(|t| stale.contains_key(&t.no)) {
        let Some(imaged) = capture::imaged(conn, t.no)? else { continue };
        let keys = t.table.groups.iter().filter(|g| g.keeps_previous).flat_map(|g| &g.columns);
        let keys = keys.map(|&c| t.column_nos[c]).filter(|no| !imaged.contains(no));
        unknown.insert(t.no, keys.collect());
    }
    Ok(unknown)
}

struct Fold<'a> {
    conn: &'a Connection,
    meta: &'a mut Meta,
    catalog: &'a Catalog,
    position: i64,
    /// Clock value of the earliest write, once a stamp was given.
    first: Option<Hlc>,
    /// That of the latest write; what this fold stamps on its own account is later.
    last: Hlc,
    done: Folded,
    /// Whether a conflict is open; then the rows this fold wrote are remembered.
    conflicts: bool,
    touched: Vec<(u32, Rid)>,
    /// Whether some row waits for another.
    waits: bool,
    /// Rows on which foreign keys acted.
    acted: Vec<ActedOn>,
    /// What was written over that this site did not show.
    told: Vec<Told>,
    /// Rows that left keys which they had at the last fold: table, row, former values.
    left: Vec<Left>,
    /// The same of keys that they came by since.
    passed: Vec<Left>,
    /// Rows that got keys, or live again: table, row.
    took: Vec<(usize, Rid)>,
    /// Tables, by position, to whose rows some references were that were written since.
    unnamed: BTreeSet<usize>,
    /// Groups that follow their rows' keys: table, row, group.
    followed: BTreeSet<(u32, Rid, usize)>,
    /// Groups that this fold keeps because rows to which they refer left their keys.
    orphaned: BTreeSet<(u32, Rid, usize)>,
    /// Rows in which a value names nobody: position of the table, place.
    unresolved: Vec<(usize, Loc)>,
    /// Where rows wait: former values of the rows that this fold wrote, by table. Others may wait for
    /// the keys in them.
    former: Vec<(usize, Vec<Value>)>,
    /// Rows, by the position of their table, to which hidden ones referred that this fold wrote anew.
    released: Vec<(usize, Rid)>,
    /// Whether merges keep foreign keys.
    enforces: bool,
    /// Tables, by number, in which a later update outlives a delete.
    lasting: BTreeSet<u32>,
    history: bool,
    /// Tables whose triggers do not fit their schema: their images may lack counters and lack these
    /// columns.
    stale: Fresh,
    /// Columns, by number, that became key columns since the triggers of their tables were made: what
    /// they were before an update is in no image.
    unknown: BTreeMap<u32, BTreeSet<u32>>,
    /// Whether rows are taken in with their table: then one that is alive already, because another
    /// site told of it, is not inserted anew.
    adopts: bool,
}

impl Fold<'_> {
    /// R-PIN: a number that this site has shown in place of the one a row asked for becomes an
    /// ordinary write, so that it never changes again.
    fn pin(&mut self, t: &Tracked) -> Result<()> {
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
            let stamp = self.meta.tick(0);
            if self.waits && self.enforces {
                let lookup = Lookup { conn: self.conn, meta: self.meta, catalog: self.catalog };
                let stamps = BTreeMap::from([(t.table.columns[alias].group, stamp)]);
                self.acted.extend(crate::merge::overrode(lookup, t, &stored, &stamps)?);
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
        if self.conflicts || self.waits || self.history || !survey.in_order {
            return Ok(());
        }
        let (catalog, lasting) = (self.catalog, self.lasting.clone());
        let takes = |t: &Tracked| !lasting.contains(&t.no);
        survey.parts(self.conn, catalog, takes, |survey, position, mut window| {
            self.stamp(survey.earliest, window.times().1);
            if sums::are_many(self.meta) {
                sums::settle(self.conn, self.meta, catalog)?;
            }
            let t = &catalog.tables[position];
            let referred = catalog.references_to(position).next().is_some();
            if !t.table.foreign_keys.is_empty() || referred || survey.inserts(position) {
                self.plain(t, &mut window)?;
                return Ok(window);
            }
            let mut windows: Vec<_> = catalog.tables.iter().map(|_| Window::default()).collect();
            windows[position] = window;
            self.fold_rows(windows)?;
            Ok(Window::default())
        })
    }

    /// Folds the rows of all windows.
    fn windows(&mut self, windows: Vec<Window>) -> Result<()> {
        let times = windows.iter().map(Window::times);
        let (earliest, latest) =
            times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0));
        self.stamp(earliest, latest);
        self.fold_rows(windows)
    }

    fn fold_rows(&mut self, mut windows: Vec<Window>) -> Result<()> {
        let tables = &self.catalog.tables;
        for (t, window) in tables.iter().zip(&mut windows) {
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

    /// Gives the first stamp of this fold, if that was not done, and raises the clock to the last.
    /// Gives none if nothing was written: then the latest time is before the earliest.
    fn stamp(&mut self, earliest: Millis, latest: Millis) {
        if latest < earliest {
            return;
        }
        if self.first.is_none() {
            self.first = Some(self.meta.tick(earliest).hlc);
        }
        if Hlc::at_ms(latest) > self.meta.clock {
            self.meta.tick(latest);
        }
        self.last = self.meta.clock;
    }

    /// The stamp of a write of this fold.
    fn at(&self, ms: Millis) -> Stamp {
        let first = self.first.unwrap_or(self.meta.clock);
        Stamp { hlc: first.max(Hlc::at_ms(ms)), site: self.meta.site }
    }

    fn is_of_this_fold(&self, stamp: Stamp) -> bool {
        let written = |first| first <= stamp.hlc && stamp.hlc <= self.last;
        stamp.site == self.meta.site && self.first.is_some_and(written)
    }

    /// Gives rows that went, moved or got another key entries of their own: their keys find them in
    /// a segment no more. The same of rows that show the key which the row that names them has left.
    fn name(&mut self, position: usize, window: &Window) -> Result<()> {
        let catalog = self.catalog;
        let t = &catalog.tables[position];
        let left = |(from, c): (&Loc, &Changed)| image_of(c).is_some() || c.now != *from;
        let changed = window.changed.iter().filter(|(from, c)| left((from, c)));
        for from in window.gone.keys().chain(changed.map(|(from, _)| from)) {
            self.name_at(t, from)?;
        }
        let names = |(child, f): &(usize, usize)| {
            let rows = catalog.tables[*child].key_rows.iter().flatten();
            rows.into_iter().any(|row| row.foreign_key == *f)
        };
        let named: Vec<(usize, usize)> = catalog.references_to(position).filter(names).collect();
        if named.is_empty() {
            return Ok(());
        }
        let gone = window.gone.values().map(|g| (g.image, g.start));
        let changed = window.changed.values().map(|c| (image_of(c), c.start));
        for seq in gone.chain(changed).flat_map(|(image, start)| [image, start]).flatten() {
            let Some(old) = journal::image(self.conn, t, seq)? else { continue };
            for &(child, f) in &named {
                let c = &catalog.tables[child];
                let fk = &c.table.foreign_keys[f];
                let key: Vec<Value> = fk.parent_columns.iter().map(|&p| old[p].clone()).collect();
                for loc in c.find_children(self.conn, fk, &key)? {
                    self.name_at(c, &loc)?;
                }
            }
        }
        Ok(())
    }

    fn name_at(&mut self, t: &Tracked, loc: &Loc) -> Result<()> {
        if let Some(stored) = state::at(self.conn, self.meta, t, loc)?
            && let (None, Rid::Key { .. }) = (stored.entry, &stored.rid)
        {
            state::put(self.conn, self.meta, t, &stored, None)?;
        }
        Ok(())
    }

    /// Takes rows that went or moved from where they were, and puts those that moved where they are
    /// now, so that a key finds its row whatever the order in which rows are looked at.
    fn places(&mut self, t: &Tracked, window: &Window, befores: &mut Befores) -> Result<()> {
        let stays = |from: &Loc| window.changed.get(from).is_some_and(|c| c.now == *from);
        for (_, before) in befores.iter().filter(|(from, _)| !stays(from)) {
            state::unplace(self.conn, &before.stored)?;
        }
        for (from, changed) in window.changed.iter().filter(|(from, _)| !stays(from)) {
            let Some(before) = befores.get_mut(from) else { continue };
            before.stored.loc = Some(changed.now.clone());
            let entry = state::put(self.conn, self.meta, t, &before.stored, None)?;
            before.stored.entry = Some(entry);
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
            self.insert(t, loc, born.at, &born.written, &died, &mut runs)?;
        }
        runs.finish(self.conn, t)
    }

    /// A row is gone: the next even causal length, or none if its parent took it along. It keeps its
    /// values. Returns the groups that keep something else than the row showed.
    fn delete(&mut self, t: &Tracked, gone: &Gone, before: Before) -> Result<BTreeSet<usize>> {
        let first = before.first().cloned();
        let Before { mut stored, image, start, cascaded, .. } = before;
        let told = image.is_some();
        let (old, mut cells) = image.unwrap_or_else(|| (vec![], vec![]));
        let mut last: Vec<Option<Value>> = old.iter().cloned().map(Some).collect();
        let mut whole = BTreeSet::new();
        if !told {
            Rest { cells, whole, known: last } = self.lost(t, &stored, &gone.was)?;
        }
        let mut written = self.groups_written(t, &gone.written);
        let columns = (0..t.table.groups.len()).map(|g| t.table.groups[g].columns[0]);
        let known = first.as_ref().filter(|_| !self.stale.contains_key(&t.no));
        for (g, c) in columns.enumerate().filter(|_| !old.is_empty()) {
            let (group, before) = (&mut stored.state.groups[g], known.map(|(row, _)| &row[c]));
            if let Some(&stamp) = written.get(&g)
                && counter::write(t, g, group, before, &old[c], stamp)
            {
                written.remove(&g);
            }
        }
        self.overridden_until_pinned(t, &stored, &cells, &mut written);
        let start = start.map(|(row, _)| row);
        if !old.is_empty() {
            self.formerly(t, &old, start.clone());
        }
        self.leaves(t, &stored.rid, start, last);
        let mut apart = BTreeSet::new();
        let stamp = self.at(gone.at);
        self.deletes_unshown(t, &stored, first.as_ref().map(|(_, cells)| &cells[..]), stamp)?;
        if !told {
            self.deletes_stashed(t, &stored, stamp)?;
        }
        for (g, group) in stored.state.groups.iter_mut().enumerate() {
            let shown = || Body::Stored(cells[g].clone());
            let lost = !told && !whole.contains(&g) && !group.stamp.is_zero();
            if lost && group.body == Body::InTable {
                *group = GroupState { body: shown(), ..GroupState::shown(stamp) };
            } else if let Some(&stamp) = written.get(&g).filter(|_| group.counts.is_empty()) {
                *group = GroupState { body: shown(), ..GroupState::shown(stamp) };
                self.done.columns += 1;
            } else if group.body == Body::InTable {
                group.body = shown();
            } else {
                apart.insert(g);
            }
        }
        let header = &mut stored.state.header;
        // A dead row that was shown for another's sake has nothing to come back to.
        if cascaded && header.alive() {
            header.cascade(stamp);
            self.acted.push((t.no, stored.rid.clone(), Acted::Deleted));
        } else {
            header.delete(stamp);
        }
        stored.loc = None;
        self.put(t, &stored)?;
        Ok(apart)
    }

    /// Remembers what a row was in this window, `row`, and when it began: the same with `keys`.
    fn formerly(&mut self, t: &Tracked, row: &[Value], keys: Option<Vec<Value>>) {
        let Some(position) = self.catalog.position_of_no(t.no).filter(|_| self.conflicts) else {
            return;
        };
        if let Some(keys) = keys {
            let mut first = row.to_vec();
            let kept = t.table.groups.iter().filter(|g| g.keeps_previous);
            kept.flat_map(|g| &g.columns).for_each(|&c| first[c] = keys[c].clone());
            self.former.push((position, first));
        }
        self.former.push((position, row.to_vec()));
    }

    /// Groups that hold the written columns, with the stamp of the latest write of each.
    fn groups_written(&self, t: &Tracked, written: &Written) -> BTreeMap<usize, Stamp> {
        let mut groups = BTreeMap::new();
        for (no, &ms) in written {
            let Some(c) = t.column_nos.iter().position(|n| n == no) else { continue };
            let entry = groups.entry(t.table.columns[c].group).or_insert(Stamp::ZERO);
            *entry = self.at(ms).max(*entry);
        }
        groups
    }

    /// References to rows of a table, by foreign keys that were known when the rows were written.
    fn references(&self, parent: usize) -> Vec<(usize, usize)> {
        let new = |&(child, f): &(usize, usize)| self.catalog.tables[child].new_keys.contains(&f);
        self.catalog.references_to(parent).filter(|key| !new(key)).collect()
    }

    fn lookup(&self) -> Lookup<'_> {
        Lookup { conn: self.conn, meta: self.meta, catalog: self.catalog }
    }

    fn put(&mut self, t: &Tracked, stored: &Stored) -> Result<()> {
        let entry = self.save(t, stored)?;
        let references = state::kept_references(self.catalog, t, stored, false);
        self.waits |= !references.is_empty();
        if self.conflicts || self.waits && (stored.entry.is_some() || !references.is_empty()) {
            // Whatever it waited for, this write is what it shows now; the repair looks again.
            let settled = state::Waits { references, claims: vec![], conflict: None, winner: None };
            state::record_waits(self.conn, self.meta, entry, &settled)?;
        }
        self.touch(t, &stored.rid)
    }

    /// Saves a state as changed by this fold, and returns its entry.
    fn save(&mut self, t: &Tracked, stored: &Stored) -> Result<i64> {
        self.done.rows += 1;
        if self.history {
            history::record(self.conn, self.meta, t, stored)?;
        }
        state::put(self.conn, self.meta, t, stored, Some(self.position))
    }

    /// Remembers a row that this fold wrote, if others may depend on it.
    fn touch(&mut self, t: &Tracked, rid: &Rid) -> Result<()> {
        if self.conflicts || self.waits && state::awaited(self.conn, self.meta, t, rid)? {
            self.touched.push((t.no, rid.clone()));
        }
        Ok(())
    }
}
