//! What is to be written so that a selection of this site's changes is taken back, and what of it is left.

use super::follow::{self, Between, Lost, Regained};
use super::past::{self, Key, Past, Span};
use super::{Left, Selection};
use crate::Result;
use crate::asked::Asked;
use crate::catalog::{Catalog, Tracked, loc_sql};
use crate::describe::{loc_name, row_key, row_name};
use crate::history::{self, revived};
use crate::known::known_row;
use crate::refs::Lookup;
use crate::rewrite::{Fate, Put, Rewrite};
use crate::schema::{Action, quote};
use crate::sqlvalue::{Bind, values};
use crate::state::{
    self, Body, ENTRY_COLUMNS, GroupState, RowState, SEGMENT_COLUMNS, Segment, Stored,
};
use crate::track;
use crate::work::Work;
use rusqlite::{params, params_from_iter};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_view::ConflictKind;
use synqlite_wire::{Cell, Header, Hlc, Rid, Stamp, Value};

/// What is to be done, and what is left.
pub(super) struct Plan {
    pub steps: Vec<Step>,
    pub left: Vec<Left>,
    /// What other rows lose or get back with what is taken back.
    pub regained: Regained,
    /// Rows, by the position of their table, that cannot have their references back.
    pub stay: BTreeSet<(usize, Rid)>,
}

/// What is to be done with a row.
pub(super) struct Step {
    /// Position of its table.
    pub table: usize,
    pub stored: Stored,
    /// What it shows.
    pub shown: Option<Vec<Value>>,
    /// What people call it.
    pub name: String,
    pub fate: Fate,
    /// Groups that get their former values.
    pub puts: BTreeMap<usize, Put>,
    /// Those of them that are only for what is taken back of other rows ([`super::follow`]).
    pub follows: BTreeSet<usize>,
}

impl Step {
    /// What of it is written.
    pub fn rewrite(&self) -> Rewrite<'_> {
        let Step { table, stored, fate, puts, .. } = self;
        Rewrite { table: *table, stored, fate: *fate, puts }
    }

    /// What people know the row by, beside its key.
    pub fn known(&self, t: &Tracked) -> Option<String> {
        known_row(&t.table, self.shown.as_deref(), &self.stored.state, &[])
    }
}

/// Steps that cannot be done, by position: all of one or some groups of it, and why.
pub(super) type Failed = Vec<(usize, Option<BTreeSet<usize>>, String)>;

impl Plan {
    /// Moves steps, or parts of them, to what is left.
    pub fn leave_out(&mut self, catalog: &Catalog, failed: Failed) {
        let mut whole = BTreeSet::new();
        for (at, groups, why) in failed {
            let step = &mut self.steps[at];
            let t = &catalog.tables[step.table];
            let groups: BTreeSet<usize> = groups.into_iter().flatten().collect();
            let whole_or = |g: &usize| groups.is_empty() || groups.contains(g);
            if step.follows.iter().any(whole_or) {
                self.stay.insert((step.table, step.stored.rid.clone()));
            }
            let mut columns = names(t, groups.iter().filter(|g| step.puts.contains_key(g)));
            step.puts.retain(|g, _| columns.is_empty() || !groups.contains(g));
            if columns.is_empty() || step.puts.is_empty() && step.fate == Fate::Stays {
                let known = !whole.insert(at);
                if known && columns.is_empty() {
                    continue;
                }
            }
            if columns.is_empty() && step.fate == Fate::Stays {
                columns = names(t, step.puts.keys());
            }
            let (table, row) = (t.table.name.clone(), step.name.clone());
            let name = step.known(t);
            self.left.push(Left { table, row, name, columns, why, by: None });
        }
        let mut at = 0;
        self.steps.retain(|_| {
            at += 1;
            !whole.contains(&(at - 1))
        });
    }
}

pub(super) fn names<'g>(t: &Tracked, groups: impl Iterator<Item = &'g usize>) -> Vec<String> {
    let columns = groups.flat_map(|&g| &t.table.groups[g].columns);
    columns.map(|&c| t.table.columns[c].name.clone()).collect()
}

/// Finds out what a selection means.
pub(super) fn make(work: &Work<'_>, what: &Selection) -> Result<Plan> {
    let Work { conn, meta, catalog, .. } = work;
    let meant = Meant::of(work, what)?;
    let from = what.since_ms.map_or(Hlc::ZERO, Hlc::at_ms);
    let to = what
        .until_ms
        .map_or(Hlc(i64::MAX), |ms| Hlc(Hlc::at_ms(ms.saturating_add(1)).0.saturating_sub(1)));
    let kept = history::enabled(conn)?;
    let mut span = Span::of(conn, meta, from, to)?;
    let mut finder = Finder { meant: &meant, span: &span, rows: BTreeMap::new() };
    finder.find()?;
    let mut rows = finder.rows;
    let written = if kept { past::written(conn, meta, &span)? } else { BTreeMap::new() };
    for (no, rid) in written.keys() {
        let Some(table) = catalog.position_of_no(*no) else { continue };
        let (t, key) = (&catalog.tables[table], (table, rid.clone()));
        if !rows.contains_key(&key)
            && meant.has(table, rid)
            && let Some(stored) = state::of(conn, meta, t, rid)?
        {
            rows.insert(key, stored);
        }
    }
    if what.since_ms.is_none() && what.until_ms.is_none() {
        let own = |((table, rid), stored): (&(usize, Rid), &Stored)| {
            let known = written.get(&(catalog.tables[*table].no, rid.clone())).copied();
            let given = |stamp: &Stamp| {
                let mut groups = stored.state.groups.iter();
                groups.any(|group| group.pinned && group.stamp == *stamp)
            };
            let known = known.filter(|stamp| !given(stamp));
            stamps(&stored.state).filter(|stamp| span.has(*stamp)).chain(known).max()
        };
        let owns: Vec<_> = rows.iter().map(own).collect();
        let latest = owns.iter().flatten().max().map_or(Hlc::ZERO, |stamp| stamp.hlc);
        let mut owns = owns.into_iter();
        rows.retain(|_, _| owns.next().flatten().is_some_and(|stamp| stamp.hlc == latest));
        span = Span::of(conn, meta, latest, latest)?;
    }
    let keys = rows.keys().map(|(table, rid)| (catalog.tables[*table].no, rid.clone()));
    let pasts = if kept { past::of(conn, meta, &span, keys)? } else { HashMap::new() };
    let (regained, stay) = (Regained::new(), BTreeSet::new());
    let plan = Plan { steps: vec![], left: vec![], regained, stay };
    let mut planner = Planner { work, span: &span, pasts, plan };
    for ((table, _), stored) in rows {
        planner.row(table, stored)?;
    }
    let mut plan = planner.plan;
    if kept {
        follow::written_since(work, &span, &mut plan)?;
    }
    Ok(plan)
}

/// Stamps of what a state says was written, of the row as a whole too. A number that a row was given for good
/// is no write of anybody.
fn stamps(state: &RowState) -> impl Iterator<Item = Stamp> + '_ {
    let Header { cl_stamp, inserted, .. } = state.header;
    let written = state.groups.iter().filter(|group| !group.pinned);
    written.flat_map(GroupState::stamps).chain([cl_stamp, inserted])
}

/// Numbers of the columns of such numbers.
fn given(t: &Tracked, state: &RowState) -> BTreeSet<u32> {
    let given = state.groups.iter().zip(&t.table.groups).filter(|(group, _)| group.pinned);
    given.flat_map(|(_, of)| &of.columns).map(|&c| t.column_nos[c]).collect()
}

pub(super) fn name_of(
    work: &Work<'_>,
    t: &Tracked,
    stored: &Stored,
) -> Result<(String, Option<Vec<Value>>)> {
    let shown = match &stored.loc {
        Some(loc) => t.read(work.conn, loc)?,
        None => None,
    };
    let name = row_name(t, shown.as_deref(), stored.loc.as_ref(), &stored.state, &stored.rid);
    Ok((name, shown))
}

/// Which of the changes are meant: those of one table, of one row, or all.
struct Meant<'a> {
    work: &'a Work<'a>,
    table: Option<&'a Tracked>,
    /// Those of these rows only: all that have the key that is asked for.
    rows: Option<BTreeMap<(usize, Rid), Stored>>,
}

impl<'a> Meant<'a> {
    /// Fails if there never was a row of the key that the selection says.
    fn of(work: &'a Work<'a>, what: &Selection) -> Result<Meant<'a>> {
        let named = |name: &String| track::named(work.conn, &work.catalog, name);
        let table = what.table.as_ref().map(named).transpose()?;
        let Some(row) = &what.row else { return Ok(Meant { work, table, rows: None }) };
        for asked in Asked::readings(row) {
            let mut rows = BTreeMap::new();
            for (position, t) in work.catalog.tables.iter().enumerate() {
                if table.is_none_or(|table| table.no == t.no) {
                    let found = called(work, t, &asked)?.into_iter();
                    rows.extend(found.map(|stored| ((position, stored.rid.clone()), stored)));
                }
            }
            if asked.has_found()? {
                return Ok(Meant { work, table, rows: Some(rows) });
            }
        }
        Err(Asked::nobody(row, table.map(|t| t.table.name.as_str())))
    }

    fn has(&self, table: usize, rid: &Rid) -> bool {
        let no = self.work.catalog.tables[table].no;
        self.table.is_none_or(|table| table.no == no)
            && self.rows.as_ref().is_none_or(|rows| rows.contains_key(&(table, rid.clone())))
    }
}

/// The rows of a table that somebody may mean: those that it shows, and those that are hidden or deleted.
fn called(work: &Work<'_>, t: &Tracked, asked: &Asked) -> Result<Vec<Stored>> {
    let Work { conn, meta, .. } = work;
    let mut found = Vec::new();
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc IS NULL");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        let stored = state::decode(meta, t, row)?;
        let (name, _) = name_of(work, t, &stored)?;
        if asked.means(t, row_key(t, None, &stored.state).as_deref(), &name) {
            found.push(stored);
        }
    }
    let loc = loc_sql(&t.table, "o.");
    let (only, key) = match (t.table.rowid_alias(), asked.key(t)) {
        (Some(_), _) => {
            let number = asked.integer().map_or(Value::Null, Value::Integer);
            (format!("WHERE {loc} IS ?1"), vec![number])
        }
        (None, Some(key)) if !key.is_empty() => (format!("WHERE {}", t.where_key()), key),
        (None, _) => (String::new(), vec![]),
    };
    let sql = format!("SELECT {loc}, {} FROM {} AS o {only}", t.column_list(), t.target());
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(key.iter().map(Bind)))?;
    while let Some(row) = rows.next()? {
        let (loc, shown) = (t.place(row.get(0)?)?, values(row, 1, t.table.columns.len())?);
        let key: Vec<Value> = t.table.primary_key.iter().map(|&c| shown[c].clone()).collect();
        if asked.means(t, Some(&key), &loc_name(t, Some(&shown), &loc)) {
            found.extend(state::at(conn, meta, t, &loc)?);
        }
    }
    Ok(found)
}

/// Finds rows whose states have stamps of a span.
struct Finder<'a> {
    meant: &'a Meant<'a>,
    span: &'a Span,
    rows: BTreeMap<(usize, Rid), Stored>,
}

impl Finder<'_> {
    fn find(&mut self) -> Result<()> {
        let meant = self.meant;
        if let Some(rows) = &meant.rows {
            rows.iter().for_each(|((table, _), stored)| self.add(*table, stored.clone()));
            return Ok(());
        }
        let Work { conn, meta, catalog, .. } = meant.work;
        let (only, tables) = (meant.table, catalog.tables.iter().enumerate());
        for (table, t) in tables.filter(|(_, t)| only.is_none_or(|only| only.no == t.no)) {
            let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1");
            let mut statement = conn.prepare_cached(&sql)?;
            let mut rows = statement.query([t.no])?;
            while let Some(row) = rows.next()? {
                self.add(table, state::decode(meta, t, row)?);
            }
            self.segments(table)?;
        }
        Ok(())
    }

    fn add(&mut self, table: usize, stored: Stored) {
        if stamps(&stored.state).any(|stamp| self.span.has(stamp)) {
            self.rows.insert((table, stored.rid.clone()), stored);
        }
    }

    /// Rows that were inserted together and have not changed since.
    fn segments(&mut self, table: usize) -> Result<()> {
        let Work { conn, meta, catalog, .. } = self.meant.work;
        let t = &catalog.tables[table];
        let Some(rowid) = t.table.rowid_name.as_deref().map(quote) else { return Ok(()) };
        let sql = format!(
            "SELECT {SEGMENT_COLUMNS} FROM synqlite_segment \
             WHERE tbl = ?1 AND site = ?2 AND hlc BETWEEN ?3 AND ?4"
        );
        let mut statement = conn.prepare_cached(&sql)?;
        let own = meta.known_number(self.span.site);
        let bounds = params![t.no, own, self.span.from.0, self.span.to.0];
        let segments = statement.query_map(bounds, Segment::from_row)?;
        let sql = format!("SELECT {rowid} FROM {} WHERE {rowid} BETWEEN ?1 AND ?2", t.target());
        for segment in segments.collect::<Result<Vec<_>, _>>()? {
            if !self.span.has(segment.stamp(meta)?) {
                continue;
            }
            let mut statement = conn.prepare_cached(&sql)?;
            let rowids = statement.query_map([segment.lo, segment.hi], |row| row.get(0))?;
            for rowid in rowids.collect::<Result<Vec<i64>, _>>()? {
                let stored = state::at(conn, meta, t, &crate::catalog::Loc::Row(rowid))?;
                stored.into_iter().for_each(|stored| self.add(table, stored));
            }
        }
        Ok(())
    }
}

struct Planner<'a> {
    work: &'a Work<'a>,
    span: &'a Span,
    /// What the history tells of the rows, if one is kept.
    pasts: HashMap<Key, Past>,
    plan: Plan,
}

impl Planner<'_> {
    fn row(&mut self, table: usize, stored: Stored) -> Result<()> {
        let t = &self.work.catalog.tables[table];
        let (name, shown) = name_of(self.work, t, &stored)?;
        let past = self.pasts.remove(&(t.no, stored.rid.clone()));
        let record = match stored.entry {
            Some(entry) => state::conflict(self.work.conn, entry)?,
            None => None,
        };
        let (fate, puts) = (Fate::Stays, BTreeMap::new());
        let mut step = Step { table, stored, shown, name, fate, puts, follows: BTreeSet::new() };
        let h = step.stored.state.header;
        let existed = self.existed(&h, past.as_ref());
        let decides = self.span.has(h.cl_stamp) || self.span.has(h.inserted);
        match (h.alive(), decides, existed) {
            (false, _, _) if !self.span.has(h.cl_stamp) => {
                let given = given(t, &step.stored.state);
                let wrote = past.is_some_and(|past| past.wrote(&given));
                if wrote || stamps(&step.stored.state).any(|stamp| self.span.has(stamp)) {
                    self.left(&step, vec![], "deleted since", Some(h.cl_stamp));
                }
                return Ok(());
            }
            (_, true, None) => {
                let why = "whether the row was there before is not known";
                self.left(&step, vec![], &self.unknown(why), None);
                return Ok(());
            }
            (false, _, Some(true)) => step.fate = Fate::Returns,
            (false, _, _) => {
                let other = past.and_then(|past| past.life);
                if let Some((by, false)) = other.filter(|(by, _)| by.site != self.span.site) {
                    self.left(&step, vec![], "deleted by another site too", Some(by));
                }
                return Ok(());
            }
            (true, true, Some(false)) => step.fate = Fate::Goes,
            (true, ..) => {}
        }
        let kept = record.as_ref().is_some_and(|(kind, _)| *kind == ConflictKind::RestrictRevived);
        if record.is_some() && !(kept && step.fate == Fate::Returns) {
            let why = "it has an open conflict; settle that first";
            self.left(&step, vec![], why, None);
            return Ok(());
        }
        if step.fate == Fate::Goes {
            match self.others(t, &step, past.as_ref()) {
                Some(by) => self.left(&step, vec![], "written since it was inserted", Some(by)),
                None => self.plan.steps.push(step),
            }
            return Ok(());
        }
        self.registers(t, &mut step, past.as_ref())?;
        if step.fate == Fate::Stays && step.stored.loc.is_none() && self.span.has(h.left()) {
            self.follows_again(t, &mut step)?;
        }
        self.regains(t, &step, past.as_ref());
        if step.fate == Fate::Returns || !step.puts.is_empty() {
            self.plan.steps.push(step);
        }
        Ok(())
    }

    /// Notes which references to a row are to it again once this is taken back.
    fn regains(&mut self, t: &Tracked, step: &Step, past: Option<&Past>) {
        let Step { table, stored, puts, .. } = step;
        let (catalog, h) = (&self.work.catalog, &stored.state.header);
        let keys: Vec<_> = catalog.references_to(*table).collect();
        let key = |c: usize| {
            let mut keys =
                keys.iter().map(|&(child, f)| &catalog.tables[child].table.foreign_keys[f]);
            keys.any(|fk| fk.parent_columns.contains(&c))
        };
        let mut lost = Lost { there: stored.loc.is_some(), ..Lost::default() };
        if let Some(past) = past.filter(|_| !keys.is_empty() && self.span.has(h.reinserted)) {
            lost.life = Some(Between { since: past.began(h.yielded), before: h.reinserted });
        }
        for &g in puts.keys() {
            let columns = &t.table.groups[g].columns;
            if columns.iter().any(|&c| key(c)) {
                let numbers = columns.iter().map(|&c| t.column_nos[c]);
                let since = past.map_or(Stamp::ZERO, |past| past.written(numbers));
                lost.keys.insert(g, Between { since, before: stored.state.groups[g].stamp });
            }
        }
        if lost.life.is_some() || !lost.keys.is_empty() {
            self.plan.regained.insert((*table, stored.rid.clone()), lost);
        }
    }

    /// A row that CASCADE deleted with one that has been inserted again since was to the former life of that
    /// (R-INC): it is here again if it refers to the present one.
    fn follows_again(&self, t: &Tracked, step: &mut Step) -> Result<()> {
        let Work { conn, meta, catalog, .. } = self.work;
        let lookup = Lookup { conn, meta, catalog };
        let keys = t.table.foreign_keys.iter().enumerate();
        for (f, fk) in keys.filter(|(_, fk)| fk.on_delete == Action::Cascade) {
            let state = &step.stored.state;
            let (Some(rid), Some((g, _))) = (state.kept_reference(t, f), t.table.place_of_key(f))
            else {
                continue;
            };
            let parent = state::of(conn, meta, lookup.parent(&fk.parent)?, rid)?;
            let again = |parent: &Stored| parent.state.header.reinserted > state.groups[g].stamp;
            if let (true, Body::Stored(cell)) =
                (parent.as_ref().is_some_and(again), &state.groups[g].body)
            {
                step.puts.entry(g).or_insert(Put::Cell { old: cell.clone(), new: cell.clone() });
                step.fate = Fate::Returns;
            }
        }
        Ok(())
    }

    /// Whether a row was there before; `None` if that is not known.
    fn existed(&self, h: &Header, past: Option<&Past>) -> Option<bool> {
        if let Some(past) = past {
            if let Some((_, alive)) = past.life {
                return Some(alive);
            }
            if past.born {
                return Some(false);
            }
        }
        let before = !self.span.has(h.inserted);
        match h.cl {
            1 | 2 => Some(before),
            _ if revived(h) && !self.span.has(h.deleted) => Some(false),
            // The latest insert is known, and what came before it is not.
            _ => before.then_some(true),
        }
    }

    /// The latest write that somebody else made to a row which was inserted, or this site outside the selection.
    fn others(&self, t: &Tracked, step: &Step, past: Option<&Past>) -> Option<Stamp> {
        let overwritten = past.and_then(|past| past.latest(&given(t, &step.stored.state)));
        let shown = step.stored.state.groups.iter().filter(|group| !group.pinned);
        let shown = shown.flat_map(GroupState::stamps).filter(|stamp| !self.span.has(*stamp));
        // What was written in a former life ended with it.
        let h = &step.stored.state.header;
        let life = past.and_then(|past| past.life.as_ref()).map(|(stamp, _)| *stamp);
        // Who brought back a deleted row had seen what was written to it until then.
        let brought_back = (revived(h) && self.span.has(h.cl_stamp)).then_some(h.cl_stamp);
        let ended =
            brought_back.or(life).or(revived(h).then_some(h.deleted)).unwrap_or(Stamp::ZERO);
        shown.chain(overwritten).filter(|stamp| *stamp > ended).max()
    }

    /// What becomes of the registers of a row that is there afterwards.
    fn registers(&mut self, t: &Tracked, step: &mut Step, past: Option<&Past>) -> Result<()> {
        for (g, of) in t.table.groups.iter().enumerate() {
            let group = &step.stored.state.groups[g];
            if of.counter || !group.counts.is_empty() {
                self.counter(t, step, g, past);
                continue;
            }
            if !self.span.has(group.stamp) {
                let wrote = |c: &usize| {
                    let column = past.and_then(|past| past.columns.get(&t.column_nos[*c]));
                    column.is_some_and(|column| column.wrote)
                };
                if of.columns.iter().any(wrote) {
                    self.left(step, vec![g], "written since", Some(group.stamp));
                }
                continue;
            }
            if group.pinned {
                continue;
            }
            let Work { conn, meta, catalog, .. } = self.work;
            let old = match (&group.body, &step.shown) {
                (Body::Stored(cell), _) => cell.clone(),
                (Body::InTable, Some(row)) => Lookup { conn, meta, catalog }.cell(t, g, row)?,
                (Body::InTable, None) => continue,
            };
            let Some(new) = self.former(t, g, group, (&old, past)) else {
                self.left(step, vec![g], &self.unknown("what it was before is not known"), None);
                continue;
            };
            if self.refers_to_nobody(t, g, &new) {
                let why = "the row that it referred to before is not known";
                self.left(step, vec![g], why, None);
            } else if new != old {
                step.puts.insert(g, Put::Cell { old, new });
            }
        }
        Ok(())
    }

    /// What a group held before it was written.
    fn former(
        &self,
        t: &Tracked,
        g: usize,
        group: &GroupState,
        (old, past): (&Cell, Option<&Past>),
    ) -> Option<Cell> {
        let of = &t.table.groups[g];
        let from_history = |past: &Past| {
            let (mut cell, mut at) = (old.clone(), BTreeMap::new());
            for (i, &c) in of.columns.iter().enumerate() {
                if !self.span.has(group.column_stamp(i)) {
                    continue;
                }
                let (stamp, value) = past.columns.get(&t.column_nos[c])?.former.as_ref()?;
                cell.values[i] = value.clone();
                at.insert(t.column_nos[c], *stamp);
            }
            for (&f, rid) in of.foreign_keys.iter().zip(&mut cell.refs) {
                let no = history::reference_no(t, f);
                if let Some(stamp) = at.get(&no) {
                    *rid = past.reference(no, *stamp);
                }
            }
            Some(cell)
        };
        let kept = || group.previous.clone().filter(|_| self.span.is_moment());
        past.and_then(from_history).or_else(kept)
    }

    /// Whether a reference has a value, and no row is known that it meant.
    fn refers_to_nobody(&self, t: &Tracked, g: usize, cell: &Cell) -> bool {
        let of = &t.table.groups[g];
        let mut keys = of.foreign_keys.iter().zip(&cell.refs);
        keys.any(|(&f, rid)| {
            let fk = &t.table.foreign_keys[f];
            let mut values = of.columns.iter().zip(&cell.values);
            let whole = values.all(|(c, value)| !fk.columns.contains(c) || !value.is_null());
            let enforced = fk.enforced && self.work.policies.enforces_foreign_keys();
            rid.is_none() && whole && enforced
        })
    }

    /// Takes away what this site added to a counter.
    fn counter(&mut self, t: &Tracked, step: &mut Step, g: usize, past: Option<&Past>) {
        let (of, group) = (&t.table.groups[g], &step.stored.state.groups[g]);
        let own = group.counts.iter().find(|c| self.span.has(c.stamp));
        let Some(own) = own else {
            if self.span.has(group.stamp) {
                self.left(step, vec![g], "counting has begun anew since", None);
            }
            return;
        };
        if own.epoch > 0 || self.span.has(group.stamp) {
            return self.left(step, vec![g], "counting has begun anew since", None);
        }
        let column = of.columns.first().map(|&c| t.column_nos[c]);
        let known = column.zip(past).and_then(|(no, past)| past.columns.get(&no));
        let Some(known) = known.filter(|known| known.former.is_some()) else {
            let why = self.unknown("what was added before is not known");
            return self.left(step, vec![g], &why, None);
        };
        let sum = known.counted.as_ref().and_then(history::sum_of).unwrap_or_default();
        if sum != own.sum {
            step.puts.insert(g, Put::Sum(sum));
        }
    }

    /// Why something is not known.
    fn unknown(&self, what: &str) -> String {
        match history::enabled(self.work.conn) {
            Ok(false) => format!("{what}: this replica keeps no history (synqlite init --history)"),
            _ => format!("{what}: the history does not have it"),
        }
    }

    fn left(&mut self, step: &Step, groups: Vec<usize>, why: &str, by: Option<Stamp>) {
        let t = &self.work.catalog.tables[step.table];
        self.plan.left.push(Left {
            table: t.table.name.clone(),
            row: step.name.clone(),
            name: step.known(t),
            columns: names(t, groups.iter()),
            why: why.to_owned(),
            by: by.map(|by| (by.site, by.hlc.ms())),
        });
    }
}
