//! The fold: the journal becomes stamped versions of rows and columns (the thesis's Journal
//! Synchronization Unit).
//!
//! It runs before remote changes are joined (R-FBM), in the same transaction, and its cost follows
//! the number of changes. Times of writes become clock values: `h := max(h + 1, ms << 16)` for the
//! first, and from there the larger of `h` and each later millisecond, so that writes of one
//! millisecond share a stamp and no stamp ever repeats one of an earlier fold (R-HLC).

use crate::catalog::{Catalog, Loc, Tracked};
use crate::history;
use crate::journal::{self, Changed, Gone, Millis, Window, Written};
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::schema::Identity;
use crate::state::{self, Body, GroupState, RowState, Runs, Stored};
use crate::{Error, Result};
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::key::{KeyPart, encode};
use synqlite_wire::{Cell, Rid, Stamp, Value};

/// What a fold recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Rows inserted, changed or deleted.
    pub rows: u64,
    /// Registers stamped.
    pub columns: u64,
}

/// Folds the journal. Must run in a write transaction; the caller saves `meta`.
///
/// `fresh` names, by table number, columns that the triggers did not know yet: every row updated
/// since may have been updated in them.
pub fn fold(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    fresh: &BTreeMap<u32, Vec<u32>>,
) -> Result<Folded> {
    let mut windows = journal::read(conn, catalog)?;
    for (t, window) in catalog.tables.iter().zip(&mut windows) {
        for changed in window.changed.values_mut().filter(|changed| changed.last > 0) {
            let fresh = fresh.get(&t.no).into_iter().flatten();
            changed.written.extend(fresh.map(|&no| (no, changed.last)));
        }
    }
    let (position, clock) = (meta.position + 1, meta.clock);
    let mut fold = Fold {
        conn,
        meta,
        catalog,
        position,
        stamps: BTreeMap::new(),
        done: Folded::default(),
        conflicts: state::anyone_waits(conn)?,
        touched: vec![],
        left: vec![],
        former: vec![],
        followed: BTreeSet::new(),
        enforces: policies.enforces_foreign_keys(),
        history: history::enabled(conn)?,
    };
    for t in &catalog.tables {
        fold.pin(t)?;
    }
    if windows.iter().any(|w| !w.is_empty()) {
        fold.stamp(&windows);
        let mut before = fold.before(&windows)?;
        for ((t, window), before) in catalog.tables.iter().zip(&windows).zip(&mut before) {
            fold.places(t, window, before)?;
        }
        for ((t, window), before) in catalog.tables.iter().zip(windows).zip(before) {
            fold.table(t, window, before)?;
        }
        fold.orphans()?;
    }
    let Fold { done, touched, former, .. } = fold;
    // Whoever pulls names what it has by position, so it moves whenever a stamp was given.
    if meta.clock > clock {
        meta.position = position;
    }
    journal::clear(conn, catalog)?;
    if !touched.is_empty() {
        crate::merge::compensate(conn, meta, catalog, policies, &touched, &former)?;
    }
    Ok(done)
}

struct Fold<'a> {
    conn: &'a Connection,
    meta: &'a mut Meta,
    catalog: &'a Catalog,
    position: i64,
    stamps: BTreeMap<Millis, Stamp>,
    done: Folded,
    /// Whether some row waits for another; then the rows this fold wrote are remembered.
    conflicts: bool,
    touched: Vec<(u32, Rid)>,
    /// Rows that left their keys: table, row, former values.
    left: Vec<(usize, Rid, Vec<Value>)>,
    /// Groups that follow their rows' keys: table, row, group.
    followed: BTreeSet<(u32, Rid, usize)>,
    /// Where rows wait: former values of the rows that this fold wrote, by table. Others may wait for
    /// the keys in them.
    former: Vec<(usize, Vec<Value>)>,
    /// Whether merges keep foreign keys.
    enforces: bool,
    history: bool,
}

/// What the state said of a row before this fold wrote anything.
struct Before {
    stored: Stored,
    /// Its row at the last fold as far as an image tells, and the cells of its groups.
    image: Option<(Vec<Value>, Vec<Cell>)>,
    /// The keys it had then, if it left them before that image was taken; other columns are NULL.
    keys: Option<Vec<Value>>,
}

/// Rows of one table that were there at the last fold, by where they were.
type Befores = BTreeMap<Loc, Before>;

impl Fold<'_> {
    /// R-PIN: a number that this site has shown in place of the one a row asked for becomes an
    /// ordinary write, so that it never changes again.
    fn pin(&mut self, t: &Tracked) -> Result<()> {
        let (Some(alias), Identity::Birth) = (t.table.rowid_alias(), t.table.identity) else {
            return Ok(());
        };
        let sql = "SELECT loc FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL \
                   AND loc IS NOT NULL ORDER BY loc";
        let locs: Vec<Loc> = self
            .conn
            .prepare_cached(sql)?
            .query_map([t.no], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for loc in locs {
            let Some(mut stored) = state::at(self.conn, self.meta, t, &loc)? else { continue };
            let stamp = self.meta.tick(0);
            let group = &mut stored.state.groups[t.table.columns[alias].group];
            let body = std::mem::replace(&mut group.body, Body::Shown);
            let Body::Kept(wanted) = body else { continue };
            *group = GroupState { stamp, pinned: true, previous: Some(wanted), body: Body::Shown };
            self.put(t, &stored)?;
            self.done.columns += 1;
        }
        Ok(())
    }

    /// Gives every millisecond of the windows its stamp.
    fn stamp(&mut self, windows: &[Window]) {
        let mut times = BTreeSet::new();
        for window in windows {
            let born = window.born.values().map(|b| (b.at, &b.written));
            let gone = window.gone.values().map(|g| (g.at, &g.written));
            for (at, written) in born.chain(gone) {
                times.insert(at);
                times.extend(written.values());
            }
            for changed in window.changed.values() {
                times.extend(changed.replaced.map(|r| r.at));
                times.extend(changed.written.values());
            }
        }
        for (i, &ms) in times.iter().enumerate() {
            let first = i == 0 || synqlite_wire::Hlc::at_ms(ms) > self.meta.clock;
            let stamp = if first {
                self.meta.tick(ms)
            } else {
                Stamp { hlc: self.meta.clock, site: self.meta.site }
            };
            self.stamps.insert(ms, stamp);
        }
    }

    fn at(&self, ms: Millis) -> Stamp {
        self.stamps[&ms]
    }

    /// Looks up what the rows of all windows were, before any of them is written: a reference in a
    /// before-image means the row that had the key then.
    fn before(&self, windows: &[Window]) -> Result<Vec<Befores>> {
        let lookup = Lookup { conn: self.conn, meta: self.meta, catalog: self.catalog };
        let formers = Formers::default();
        let tables = self.catalog.tables.iter().zip(windows);
        let of_table = |(t, window): (&Tracked, &Window)| -> Result<Befores> {
            let mut befores = Befores::new();
            let gone = window.gone.iter().map(|(from, g)| (from, g.image, g.previous));
            let changed = window.changed.iter().map(|(from, c)| (from, image_of(c), c.previous));
            for (from, image, previous) in gone.chain(changed) {
                let Some(stored) = state::at(self.conn, self.meta, t, from)? else { continue };
                let row = match image {
                    Some(seq) => journal::image(self.conn, t, seq)?,
                    None => None,
                };
                let image = match row {
                    Some(row) => {
                        let cells = old_cells(&lookup, windows, &formers, t, &row)?;
                        Some((row, cells))
                    }
                    None => None,
                };
                let keys = match previous.filter(|_| self.conflicts) {
                    Some(seq) => journal::image(self.conn, t, seq)?,
                    None => None,
                };
                befores.insert(from.clone(), Before { stored, image, keys });
            }
            Ok(befores)
        };
        tables.map(of_table).collect()
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
        let mut died = BTreeSet::new();
        for (from, gone) in &window.gone {
            if let Some(before) = before.remove(from) {
                died.insert(before.stored.rid.clone());
                self.bury(t, gone, before)?;
            }
        }
        for (from, changed) in &window.changed {
            if let Some(before) = before.remove(from) {
                self.change(t, from, changed, before)?;
            }
        }
        let mut runs = Runs::default();
        for (loc, born) in &window.born {
            self.bear(t, loc, born.at, &born.written, &died, &mut runs)?;
        }
        runs.finish(self.conn, t)
    }

    /// Rows that still show a key which their parent has left.
    ///
    /// If another row has that key now, the reference is to it (R-REBIND). If none has, foreign keys
    /// were off when it left, or merges do not keep this one. The reference stays to the row that
    /// left, and the view decides; but where nothing keeps it, one to a row that got another key is
    /// no reference any more.
    fn orphans(&mut self) -> Result<()> {
        for (parent, rid, old) in std::mem::take(&mut self.left) {
            let references: Vec<_> = self.catalog.references_to(parent).collect();
            for (child, f) in references {
                let c = &self.catalog.tables[child];
                let fk = &c.table.foreign_keys[f];
                let key: Vec<Value> = fk.parent_columns.iter().map(|&p| old[p].clone()).collect();
                if key.iter().any(Value::is_null) {
                    continue;
                }
                for loc in c.find(self.conn, &fk.columns, &key)? {
                    self.orphan(parent, &rid, child, f, &loc)?;
                }
            }
        }
        Ok(())
    }

    fn orphan(
        &mut self,
        parent: usize,
        left: &Rid,
        child: usize,
        f: usize,
        loc: &Loc,
    ) -> Result<()> {
        let catalog = self.catalog;
        let c = &catalog.tables[child];
        let Some(row) = c.read(self.conn, loc)? else { return Ok(()) };
        let Some(mut stored) = state::at(self.conn, self.meta, c, loc)? else { return Ok(()) };
        let g = c.table.columns[c.table.foreign_keys[f].columns[0]].group;
        let now = self.lookup().reference(c, f, &row)?;
        if now.as_ref() == Some(left)
            || self.followed.contains(&(c.no, stored.rid.clone(), g))
            || self.stamps.values().any(|s| *s == stored.state.groups[g].stamp)
        {
            return Ok(());
        }
        let p = &catalog.tables[parent];
        let kept = c.table.foreign_keys[f].enforced && self.enforces;
        let moved = || -> Result<bool> {
            let left = state::of(self.conn, self.meta, p, left)?;
            Ok(left.is_some_and(|left| left.state.header.alive()))
        };
        // A key that nobody keeps and that the user took from under the reference is a value.
        if now.is_some() || !kept && moved()? {
            let stamp = Stamp { hlc: self.meta.clock, site: self.meta.site };
            stored.state.groups[g] = GroupState::shown(stamp);
            self.done.columns += 1;
            return self.put(c, &stored);
        }
        let mut cell = self.lookup().cell(c, g, &row)?;
        let at = c.table.groups[g].foreign_keys.iter().position(|&k| k == f);
        if let Some(at) = at {
            cell.refs[at] = Some(left.clone());
        }
        stored.state.groups[g].body = Body::Kept(cell);
        let entry = state::put(self.conn, self.meta, c, &stored, None)?;
        let references = vec![(p.no, left)];
        let waits = state::Waits { references, claims: vec![], conflict: None, winner: None };
        state::record_waits(self.conn, self.meta, entry, &waits)?;
        self.touched.push((c.no, stored.rid));
        self.touched.push((catalog.tables[parent].no, left.clone()));
        Ok(())
    }

    /// A row is gone: the next even causal length. It keeps its values.
    fn bury(&mut self, t: &Tracked, gone: &Gone, before: Before) -> Result<()> {
        let Before { mut stored, image, keys } = before;
        let (old, cells) = image.unwrap_or_else(|| (vec![], vec![]));
        if !old.is_empty() {
            self.formerly(t, &old, keys);
            self.leaves(t, &stored.rid, old);
        }
        let written = self.groups_written(t, &gone.written);
        let nothing = |g: usize| Cell {
            values: vec![Value::Null; t.table.groups[g].columns.len()],
            refs: vec![None; t.table.groups[g].foreign_keys.len()],
        };
        for (g, group) in stored.state.groups.iter_mut().enumerate() {
            let shown = || Body::Kept(cells.get(g).cloned().unwrap_or_else(|| nothing(g)));
            if let Some(&stamp) = written.get(&g) {
                *group = GroupState { stamp, pinned: false, previous: None, body: shown() };
                self.done.columns += 1;
            } else if group.body == Body::Shown {
                group.body = shown();
            }
        }
        stored.state.header.delete(self.at(gone.at));
        stored.loc = None;
        self.put(t, &stored)
    }

    fn change(&mut self, t: &Tracked, from: &Loc, changed: &Changed, before: Before) -> Result<()> {
        let Before { mut stored, image, keys } = before;
        if self.conflicts
            && let Some(now) = t.read(self.conn, &changed.now)?
        {
            match (&image, changed.replaced) {
                (Some((old, _)), Some(_)) => self.formerly(t, old, keys),
                _ => self.formerly(t, &now, keys),
            }
        }
        let mut written = self.groups_written(t, &changed.written);
        if let (Some(replaced), Some((old, _))) = (changed.replaced, &image) {
            let stamp = self.at(replaced.at);
            stored.state.header.insert(stamp);
            let Some(new) = t.read(self.conn, &changed.now)? else { return Ok(()) };
            let columns = t.table.columns.iter().enumerate();
            for (_, column) in columns.filter(|&(c, _)| old[c] != new[c]) {
                let entry = written.entry(column.group).or_insert(stamp);
                *entry = (*entry).max(stamp);
            }
        }
        if let (Some(_), Some((old, cells)), Some(new)) =
            (changed.previous, &image, t.read(self.conn, &changed.now)?)
            && changed.replaced.is_none()
        {
            let mut followed = Vec::new();
            for &g in written.keys() {
                if self.followed(t, g, old, &cells[g], &new)? {
                    followed.push(g);
                }
            }
            written.retain(|g, _| !followed.contains(g));
            self.followed.extend(followed.into_iter().map(|g| (t.no, stored.rid.clone(), g)));
        }
        self.pin_keys(t, &stored, &changed.now, &mut written)?;
        let moved = *from != changed.now;
        if let (Some(_), None, Some((old, _))) = (changed.previous, changed.replaced, &image) {
            self.leaves(t, &stored.rid, old.clone());
        }
        if written.is_empty() && !moved && changed.replaced.is_none() {
            if stored.entry.is_some() {
                state::put(self.conn, self.meta, t, &stored, None)?;
            }
            return Ok(());
        }
        for (&g, &stamp) in &written {
            let previous = match &image {
                Some((_, cells)) if t.table.groups[g].keeps_previous => Some(cells[g].clone()),
                _ => None,
            };
            stored.state.groups[g] =
                GroupState { stamp, pinned: false, previous, body: Body::Shown };
        }
        stored.loc = Some(changed.now.clone());
        self.done.columns += written.len() as u64;
        let refers = |g: &usize| !t.table.groups[*g].foreign_keys.is_empty();
        if written.keys().any(refers)
            && let Some(row) = t.read(self.conn, &changed.now)?
            && self.dangles(t, &row)?
        {
            self.touched.push((t.no, stored.rid.clone()));
        }
        self.put(t, &stored)
    }

    /// R-PINKEY: a write to a part of a unique key is to the key that the user saw, so the parts of it
    /// that show what they were before (R-FALLBACK) are written with it.
    fn pin_keys(
        &self,
        t: &Tracked,
        stored: &Stored,
        now: &Loc,
        written: &mut BTreeMap<usize, Stamp>,
    ) -> Result<()> {
        let Some(entry) = stored.entry.filter(|_| self.conflicts) else { return Ok(()) };
        if !state::falls_back(self.conn, entry)? {
            return Ok(());
        }
        let Some(row) = t.read(self.conn, now)? else { return Ok(()) };
        let group_of = |&c: &usize| t.table.columns[c].group;
        let earlier = |g: &usize| {
            let group = &stored.state.groups[*g];
            let Some(previous) = &group.previous else { return false };
            let shown = t.table.groups[*g].columns.iter().zip(&previous.values);
            group.body != Body::Shown
                && shown.into_iter().all(|(&c, v)| row[c].is_null() == v.is_null())
        };
        for unique in &t.table.uniques {
            let parts: BTreeSet<usize> = unique.columns.iter().map(group_of).collect();
            let latest = parts.iter().filter_map(|g| written.get(g)).max().copied();
            let Some(stamp) = latest else { continue };
            for g in parts.into_iter().filter(earlier) {
                written.entry(g).or_insert(stamp);
            }
        }
        Ok(())
    }

    /// R-REF: whether a group changed only because its references followed their rows' keys, as ON
    /// UPDATE CASCADE makes them do. That is no write: the references are to the same rows.
    fn followed(
        &self,
        t: &Tracked,
        g: usize,
        old: &[Value],
        before: &Cell,
        new: &[Value],
    ) -> Result<bool> {
        let group = &t.table.groups[g];
        if !group.keeps_previous || group.foreign_keys.is_empty() {
            return Ok(false);
        }
        let mut same: BTreeSet<usize> = BTreeSet::new();
        for (&f, rid) in group.foreign_keys.iter().zip(&before.refs) {
            if self.lookup().reference(t, f, new)? != *rid {
                return Ok(false);
            }
            if rid.is_some() {
                same.extend(&t.table.foreign_keys[f].columns);
            }
        }
        Ok(group.columns.iter().all(|c| old[*c] == new[*c] || same.contains(c)))
    }

    /// Notes that a row no longer has the keys of its former values.
    fn leaves(&mut self, t: &Tracked, rid: &Rid, old: Vec<Value>) {
        if let Some(position) = self.catalog.position_of_no(t.no)
            && self.catalog.references_to(position).next().is_some()
        {
            self.left.push((position, rid.clone(), old));
        }
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

    fn bear(
        &mut self,
        t: &Tracked,
        loc: &Loc,
        at: Millis,
        written: &Written,
        died: &BTreeSet<Rid>,
        runs: &mut Runs,
    ) -> Result<()> {
        let Some(row) = t.read(self.conn, loc)? else { return Ok(()) };
        let (stamp, written) = (self.at(at), self.groups_written(t, written));
        let dangling = self.dangles(t, &row)?;
        let key = match t.table.identity {
            Identity::Birth => None,
            Identity::Key => self.lookup().key_rid(t, &row)?,
        };
        self.done.columns += t.table.groups.len() as u64;
        let Some(key) = key else {
            let n = state::next_births(self.conn, t, 1)?;
            if let (Loc::Row(rowid), true) = (loc, written.is_empty()) {
                let site = self.meta.number(self.conn, self.meta.site)?;
                let birth = (site, n as i64);
                if runs.add(self.conn, t, *rowid, birth, stamp.hlc, self.position)? {
                    self.done.rows += 1;
                    if self.conflicts || dangling {
                        self.touched.push((t.no, Rid::Birth { site: self.meta.site, n }));
                    }
                    if self.history {
                        let rid = Rid::Birth { site: self.meta.site, n };
                        let (loc, state) = (Some(loc.clone()), RowState::born(t, stamp));
                        let born = Stored { entry: None, rid, loc, state };
                        history::record(self.conn, self.meta, t, &born)?;
                    }
                    return Ok(());
                }
            }
            let rid = Rid::Birth { site: self.meta.site, n };
            let mut state = RowState::born(t, stamp);
            written.iter().for_each(|(&g, &stamp)| state.groups[g] = GroupState::shown(stamp));
            if dangling {
                self.touched.push((t.no, rid.clone()));
            }
            let born = Stored { entry: None, rid, loc: Some(loc.clone()), state };
            return self.put(t, &born);
        };
        let mut stored = self.free_generation(t, key)?;
        let again = stored.state.header.cl > 0;
        let same = died.contains(&stored.rid);
        stored.state.header.insert(stamp);
        for g in 0..stored.state.groups.len() {
            // A row deleted and inserted again since the last fold: only what differs is a write.
            if again
                && same
                && Body::Kept(self.lookup().cell(t, g, &row)?) == stored.state.groups[g].body
            {
                stored.state.groups[g].body = Body::Shown;
                continue;
            }
            let stamp = written.get(&g).copied().unwrap_or(stamp);
            stored.state.groups[g] = GroupState::shown(stamp);
        }
        stored.loc = Some(loc.clone());
        if dangling {
            self.touched.push((t.no, stored.rid.clone()));
        }
        self.put(t, &stored)
    }

    /// Whether a row that the application wrote with foreign keys off refers to no row.
    fn dangles(&self, t: &Tracked, row: &[Value]) -> Result<bool> {
        let enforced = t.table.foreign_keys.iter().filter(|fk| fk.enforced && self.enforces);
        for fk in enforced {
            let key: Vec<Value> = fk.columns.iter().map(|&c| row[c].clone()).collect();
            let lookup = self.lookup();
            let parent = lookup.parent(&fk.parent)?;
            if !key.iter().any(Value::is_null)
                && parent.find(self.conn, &fk.parent_columns, &key)?.is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// R-ID-KEY: the smallest generation of a key that no visible row has; after a rename the old
    /// key is free for a new row.
    fn free_generation(&self, t: &Tracked, key: Vec<u8>) -> Result<Stored> {
        for generation in 0.. {
            let rid = Rid::Key { key: key.clone(), generation };
            match state::of(self.conn, self.meta, t, &rid)? {
                Some(stored) if stored.loc.is_some() => {}
                Some(stored) => return Ok(stored),
                None => {
                    let mut state = RowState::born(t, Stamp::ZERO);
                    state.header = synqlite_wire::Header::NONE;
                    return Ok(Stored { entry: None, rid, loc: None, state });
                }
            }
        }
        Err(Error::Damaged(format!("table {}: a key has too many generations", t.table.name)))
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

    fn lookup(&self) -> Lookup<'_> {
        Lookup { conn: self.conn, meta: self.meta, catalog: self.catalog }
    }

    fn put(&mut self, t: &Tracked, stored: &Stored) -> Result<()> {
        self.done.rows += 1;
        if self.history {
            history::record(self.conn, self.meta, t, stored)?;
        }
        let entry = state::put(self.conn, self.meta, t, stored, Some(self.position))?;
        if self.conflicts {
            // Whatever it waited for, this write is what it shows now; compensation looks again.
            let settled =
                state::Waits { references: vec![], claims: vec![], conflict: None, winner: None };
            state::record_waits(self.conn, self.meta, entry, &settled)?;
            self.touched.push((t.no, stored.rid.clone()));
        }
        Ok(())
    }
}

/// Journal entry with the before-image that tells most of a changed row.
fn image_of(changed: &Changed) -> Option<i64> {
    changed.replaced.map(|r| r.image).or(changed.previous)
}

/// Cells of a before-image. Its references are to rows that had those keys before this fold.
fn old_cells(
    lookup: &Lookup<'_>,
    windows: &[Window],
    formers: &Formers,
    t: &Tracked,
    row: &[Value],
) -> Result<Vec<Cell>> {
    let groups = t.table.groups.iter();
    let cell = |group: &crate::schema::Group| -> Result<Cell> {
        let values = group.columns.iter().map(|&c| row[c].clone()).collect();
        let refs = group
            .foreign_keys
            .iter()
            .map(|&fk| old_reference(lookup, windows, formers, t, fk, row));
        Ok(Cell { values, refs: refs.collect::<Result<_>>()? })
    };
    groups.map(cell).collect()
}

fn old_reference(
    lookup: &Lookup<'_>,
    windows: &[Window],
    formers: &Formers,
    t: &Tracked,
    fk: usize,
    row: &[Value],
) -> Result<Option<Rid>> {
    let fk = &t.table.foreign_keys[fk];
    let key: Vec<Value> = fk.columns.iter().map(|&c| row[c].clone()).collect();
    if key.iter().any(Value::is_null) {
        return Ok(None);
    }
    let parent = lookup.parent(&fk.parent)?;
    let position = lookup.catalog.position(&fk.parent).unwrap_or(0);
    let alias = parent.table.rowid_alias().map(|c| vec![c]);
    let from = if alias.as_ref() == Some(&fk.parent_columns) {
        key[0].as_integer().map(Loc::Row)
    } else {
        let now = parent.find(lookup.conn, &fk.parent_columns, &key)?.into_iter().next();
        let place = |now: Loc| {
            let moved = windows[position].changed.iter().find(|(_, c)| c.now == now);
            moved.map_or(now, |(from, _)| from.clone())
        };
        match formers.place(lookup, windows, position, &fk.parent_columns, &key)? {
            Some(from) => Some(from),
            None => now.map(place),
        }
    };
    if let Some(from) = from
        && let Some(stored) = state::at(lookup.conn, lookup.meta, parent, &from)?
    {
        return Ok(Some(stored.rid));
    }
    // The parent may have died in the same window; a key names it without its row.
    let mut by_key = vec![Value::Null; parent.table.columns.len()];
    for (&c, value) in fk.parent_columns.iter().zip(key) {
        by_key[c] = value;
    }
    let Some(key) = lookup.key_rid(parent, &by_key)? else { return Ok(None) };
    let rid = Rid::Key { key, generation: 0 };
    Ok(state::of(lookup.conn, lookup.meta, parent, &rid)?.map(|stored| stored.rid))
}

/// Where rows were that have left their keys since the last fold, by those keys.
#[derive(Default)]
struct Formers(RefCell<HashMap<(usize, Vec<usize>), Places>>);

/// Where a row was, by the bytes of its key.
type Places = HashMap<Vec<u8>, Loc>;

impl Formers {
    /// Where the row of the table at `position` was that had `key` at the last fold.
    fn place(
        &self,
        lookup: &Lookup<'_>,
        windows: &[Window],
        position: usize,
        columns: &[usize],
        key: &[Value],
    ) -> Result<Option<Loc>> {
        let encoded =
            |key: Vec<Value>| encode(&key.into_iter().map(KeyPart::Value).collect::<Vec<_>>());
        let mut known = self.0.borrow_mut();
        let entry = known.entry((position, columns.to_vec()));
        let places = match entry {
            Entry::Occupied(places) => places.into_mut(),
            Entry::Vacant(empty) => {
                let (t, window) = (&lookup.catalog.tables[position], &windows[position]);
                let changed = window.changed.iter().filter_map(|(at, c)| Some((at, image_of(c)?)));
                let gone = window.gone.iter().filter_map(|(at, g)| Some((at, g.image?)));
                let mut places = HashMap::new();
                for (from, seq) in changed.chain(gone) {
                    if let Some(row) = journal::image(lookup.conn, t, seq)? {
                        let key = columns.iter().map(|&c| row[c].clone()).collect();
                        places.insert(encoded(key), from.clone());
                    }
                }
                empty.insert(places)
            }
        };
        Ok(places.get(&encoded(key.to_vec())).cloned())
    }
}

/// Adopts every row that a table has when it becomes replicated: births at one stamp.
pub fn adopt(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    stamp: Stamp,
) -> Result<()> {
    let position = meta.position;
    let loc = crate::catalog::loc_sql(&t.table, "o.");
    if t.table.identity == Identity::Birth && t.table.rowid_name.is_some() {
        let sql = format!("SELECT min({loc}), max({loc}) FROM {} AS o", t.target());
        let (lo, hi): (Option<i64>, Option<i64>) =
            conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (Some(lo), Some(hi)) = (lo, hi) else { return Ok(()) };
        // Numbers of births must stay well inside 63 bits; rowids may span all 64.
        if let Some(span) = hi.checked_sub(lo).filter(|s| *s < 1 << 60) {
            let first = state::next_births(conn, t, span as u64 + 1)? as i64;
            let site = meta.number(conn, stamp.site)?;
            let segment = state::Segment { lo, hi, site, first, hlc: stamp.hlc, position };
            segment.save(conn, t)?;
            return Ok(());
        }
    }
    let sql = format!("SELECT {loc} FROM {} AS o", t.target());
    let mut statement = conn.prepare(&sql)?;
    let mut locs = statement.query([])?;
    let mut runs = Runs::default();
    let mut fold = Fold {
        conn,
        meta,
        catalog,
        position,
        stamps: BTreeMap::from([(0, stamp)]),
        done: Folded::default(),
        conflicts: false,
        touched: vec![],
        left: vec![],
        former: vec![],
        followed: BTreeSet::new(),
        enforces: false,
        history: false,
    };
    while let Some(row) = locs.next()? {
        fold.bear(t, &row.get(0)?, 0, &Written::new(), &BTreeSet::new(), &mut runs)?;
    }
    runs.finish(conn, t)
}
