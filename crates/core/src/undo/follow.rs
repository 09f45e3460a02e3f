//! References that were lost by what is taken back: the row that they are to had another key for a time, under
//! ON UPDATE (R-FK-ONUPDATE), or was inserted again, under ON DELETE (R-INC).
//!
//! They still hold what they were written as, and what took them was later. So they are written as they are,
//! beside what is taken back of their row: then nothing is later. Those that were lost before stay so.

use super::Left;
use super::past::Span;
use super::plan::{Plan, Step, name_of, names};
use crate::Result;
use crate::catalog::Tracked;
use crate::history::{self, What};
use crate::known::known_row;
use crate::refs::Lookup;
use crate::rewrite::{Fate, Put};
use crate::schema::{Action, ForeignKey};
use crate::state::{self, Body, Stored};
use crate::work::Work;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use synqlite_wire::{Rid, Stamp};

/// What rows lost that refer to one, by position of its table and identity.
pub(super) type Regained = HashMap<(usize, Rid), Lost>;

/// Which references to a row what is taken back of it took from others.
#[derive(Default)]
pub(super) struct Lost {
    /// By its new life, if it was inserted again.
    pub life: Option<Between>,
    /// By new keys, by group.
    pub keys: BTreeMap<usize, Between>,
    /// Whether the row is there now.
    pub there: bool,
}

/// Those that were written since one time, and before another.
#[derive(Clone, Copy)]
pub(super) struct Between {
    pub since: Stamp,
    pub before: Stamp,
}

impl Between {
    fn has(self, written: Stamp) -> bool {
        self.since <= written && written < self.before
    }
}

impl Lost {
    /// When the new life took a reference that was written then.
    fn by_life(&self, written: Stamp) -> Option<Stamp> {
        self.life.filter(|life| life.has(written)).map(|life| life.before)
    }

    /// When a new key of the row took it, one of those that are put back.
    fn by_key(
        &self,
        parent: &Tracked,
        fk: &ForeignKey,
        written: Stamp,
        put_back: impl Fn(&usize) -> bool,
    ) -> Option<Stamp> {
        let groups = fk.parent_columns.iter().map(|&c| parent.table.columns[c].group);
        let mut keys = groups.filter(put_back).filter_map(|p| self.keys.get(&p));
        keys.find(|key| fk.on_update.sets() && key.has(written)).map(|key| key.before)
    }
}

/// Adds what brings such references back, in place of what was added before.
pub(super) fn again(work: &Work<'_>, plan: &mut Plan) -> Result<()> {
    for Step { puts, follows, .. } in &mut plan.steps {
        std::mem::take(follows).iter().for_each(|g| drop(puts.remove(g)));
    }
    plan.steps.retain(|step| step.fate != Fate::Stays || !step.puts.is_empty());
    let rows = plan.steps.iter().enumerate();
    let steps: HashMap<(usize, Rid), usize> =
        rows.map(|(at, step)| ((step.table, step.stored.rid.clone()), at)).collect();
    let mut added = Vec::new();
    for (at, step) in plan.steps.iter().enumerate().filter(|(_, s)| s.fate != Fate::Goes) {
        if !plan.stay.contains(&(step.table, step.stored.rid.clone())) {
            added
                .push((at, regained(work, plan, &steps, (step.table, &step.stored), Action::acts)));
        }
    }
    let mut others = BTreeMap::new();
    let Work { conn, meta, catalog, .. } = work;
    for (table, rid) in plan.regained.keys() {
        for (no, entry) in state::waiting_for_row(conn, meta, &catalog.tables[*table], rid)? {
            let Some(child) = catalog.position_of_no(no) else { continue };
            let Some(stored) = state::entry_by_id(conn, meta, &catalog.tables[child], entry)?
            else {
                continue;
            };
            let row = (child, stored.rid.clone());
            if stored.loc.is_none() || steps.contains_key(&row) || plan.stay.contains(&row) {
                continue;
            }
            let puts = regained(work, plan, &steps, (child, &stored), Action::sets);
            if !puts.is_empty() {
                others.insert(row, (stored, puts));
            }
        }
    }
    for (at, puts) in added {
        for (g, put) in puts {
            let step = &mut plan.steps[at];
            if let Entry::Vacant(vacant) = step.puts.entry(g) {
                vacant.insert(put);
                step.follows.insert(g);
            }
        }
    }
    for ((table, _), (stored, puts)) in others {
        let (name, shown) = name_of(work, &catalog.tables[table], &stored)?;
        let (fate, follows) = (Fate::Stays, puts.keys().copied().collect::<BTreeSet<_>>());
        plan.steps.push(Step { table, stored, shown, name, fate, puts, follows });
    }
    Ok(())
}

/// The groups of a row whose references are to be written as they are. `acts`: which actions of ON DELETE
/// took them.
fn regained(
    work: &Work<'_>,
    plan: &Plan,
    steps: &HashMap<(usize, Rid), usize>,
    (table, stored): (usize, &Stored),
    acts: fn(Action) -> bool,
) -> BTreeMap<usize, Put> {
    let (catalog, mut puts) = (&work.catalog, BTreeMap::new());
    let (t, state) = (&catalog.tables[table], &stored.state);
    for (f, fk) in t.table.foreign_keys.iter().enumerate() {
        let Some((g, _)) = t.table.place_of_key(f) else { continue };
        let row = catalog.position(&fk.parent).zip(state.kept_reference(t, f).cloned());
        let Some(row) = row else { continue };
        let Some(lost) = plan.regained.get(&row) else { continue };
        let step = steps.get(&row).map(|&at| &plan.steps[at]);
        let written = state.groups[g].stamp;
        let is_there = step.map_or(lost.there, |step| step.fate != Fate::Goes);
        let life = lost.by_life(written).filter(|_| is_there && acts(fk.on_delete));
        let put_back = |p: &usize| step.is_some_and(|step| step.puts.contains_key(p));
        let key = lost.by_key(&catalog.tables[row.0], fk, written, put_back);
        if let (Some(_), Body::Stored(cell)) = (life.or(key), &state.groups[g].body) {
            puts.insert(g, Put::Cell { old: cell.clone(), new: cell.clone() });
        }
    }
    puts
}

/// A foreign key of a row: position of its table, identity, key.
type Reference = (usize, Rid, usize);

/// Tells of references that were lost so and that others have written since. What they were is in the history
/// alone.
pub(super) fn written_since(work: &Work<'_>, span: &Span, plan: &mut Plan) -> Result<()> {
    let Work { conn, meta, catalog, .. } = work;
    if plan.regained.is_empty() {
        return Ok(());
    }
    // By what they are to, when they were written, and when they were lost.
    let mut lost: BTreeMap<Reference, (Rid, Stamp, Stamp)> = BTreeMap::new();
    history::read(conn, meta, |recorded| {
        let (What::Reference(no, to), at) = (recorded.what, recorded.stamp) else {
            return Ok(true);
        };
        let Some(child) = catalog.position_of_no(recorded.table) else { return Ok(true) };
        let t = &catalog.tables[child];
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let parent = catalog.position(&fk.parent).filter(|_| history::reference_no(t, f) == no);
            let row = parent.map(|parent| (parent, to.clone()));
            let Some((row, of)) = row.and_then(|row| plan.regained.get_key_value(&row)) else {
                continue;
            };
            let life = of.by_life(at).filter(|_| fk.on_delete.sets());
            let by = life.or_else(|| of.by_key(&catalog.tables[row.0], fk, at, |_| true));
            if let Some(by) = by.filter(|_| !span.has(at)) {
                let key = (child, recorded.rid.clone(), f);
                lost.entry(key).or_insert_with(|| (to.clone(), at, by));
            }
        }
        Ok(true)
    })?;
    history::read(conn, meta, |recorded| {
        let (What::Column(no, _), at) = (recorded.what, recorded.stamp) else { return Ok(true) };
        let Some(child) = catalog.position_of_no(recorded.table) else { return Ok(true) };
        let t = &catalog.tables[child];
        for f in (0..t.table.foreign_keys.len()).filter(|&f| history::reference_no(t, f) == no) {
            let key = (child, recorded.rid.clone(), f);
            // Written again before the loss, so something else was lost.
            if lost.get(&key).is_some_and(|(_, written, by)| *written < at && at < *by) {
                lost.remove(&key);
            }
        }
        Ok(true)
    })?;
    for ((child, rid, f), (to, _, by)) in lost {
        let t = &catalog.tables[child];
        let Some(stored) = state::of(conn, meta, t, &rid)? else { continue };
        let (name, shown) = name_of(work, t, &stored)?;
        let (Some((g, at)), Some(row)) = (t.table.place_of_key(f), &shown) else { continue };
        let group = &stored.state.groups[g];
        let refers = match &group.body {
            Body::Stored(cell) => cell.refs[at].clone(),
            Body::InTable => Lookup { conn, meta, catalog }.cell(t, g, row)?.refs[at].clone(),
        };
        if group.stamp > by && !group.pinned && !span.has(group.stamp) && refers != Some(to) {
            let known = known_row(&t.table, shown.as_deref(), &stored.state, &[]);
            plan.left.push(Left {
                table: t.table.name.clone(),
                row: name,
                name: known,
                columns: names(t, [g].iter()),
                why: "written since".to_owned(),
                by: Some((group.stamp.site, group.stamp.hlc.ms())),
            });
        }
    }
    Ok(())
}
