//! The view: what each case shows (R-VIEW), a pure function of state, schema and policies.
//!
//! Tables are taken parents first, the tables of one cycle together. Within a cycle the set of
//! hidden rows only grows until every foreign key, row constraint and unique key holds.

mod answers;
mod round;
mod unique;

use crate::Result;
use crate::cases::{Case, Cases, Conflict, Wanted, written};
use crate::catalog::Relation;
use crate::equal;
use crate::protect::{cascade, overridden, protected, stale};
use crate::refs;
use crate::remap::{self, Wish};
use crate::schema::{Action, ForeignKey};
use answers::alone;
use round::Round;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use synqlite_wire::{Cell, Rid, Value};

/// Keys of cases: (name of the constraint, key).
pub type Claims = BTreeMap<usize, Vec<(String, Vec<u8>)>>;

/// What the cases show.
#[derive(Default)]
pub struct View {
    /// Rows of the visible cases.
    pub rows: BTreeMap<usize, Vec<Value>>,
    /// Why cases do not show what their registers say.
    pub conflicts: BTreeMap<usize, Conflict>,
    /// Cases in the way of the former values of a case that lost a unique key, or of a kept one.
    pub blockers: BTreeMap<usize, Vec<usize>>,
    /// Unique keys that cases asked for.
    pub wanted: Vec<Wanted>,
    /// Keys that a case asked for and does not have, or that it refers to by value and is hidden.
    pub claims: Claims,
    /// Groups of a case that show something derived, not their register.
    pub derived: BTreeMap<usize, BTreeSet<usize>>,
    /// Cases that showed another key than before while it was found that others are hidden: what refers to
    /// them may be hidden for it, whatever they show in the end.
    pub passing: BTreeSet<usize>,
    /// Integer keys that cases refer to by value: (table, key).
    pub numbers: BTreeSet<(usize, i64)>,
    /// Unique keys that cases refer to by value: (table, index, key).
    pub asked: BTreeSet<(usize, usize, Vec<u8>)>,
    /// Whether rows of a circle do not fit that might have, had keys been heard.
    pub unheard: bool,
}

/// Computes the view of the cases, adding cases until nothing outside depends on what they show.
pub fn settle(cases: &mut Cases<'_>, mut check_keys: bool) -> Result<View> {
    if check_keys {
        cases.rivals_for_keys()?;
    }
    loop {
        cases.neighbours()?;
        while falling(cases)? {
            cases.neighbours()?;
        }
        let view = compute(cases, check_keys)?;
        if view.unheard {
            check_keys = true;
            cases.rivals_for_keys()?;
            continue;
        }
        let before = cases.list.len();
        grow(cases, &view, check_keys)?;
        if cases.list.len() == before {
            return Ok(view);
        }
    }
}

/// Where a dead row is shown for another's sake, whether that one lives itself may depend on rows that would
/// fall with the dead one: adds these. Whether it added any.
fn falling(cases: &mut Cases<'_>) -> Result<bool> {
    if protected(cases).is_empty() {
        return Ok(false);
    }
    let before = cases.list.len();
    cascade(cases, &BTreeSet::new()).into_iter().try_for_each(|at| cases.children(at))?;
    Ok(cases.list.len() > before)
}

/// Adds the rows that what the cases show now concerns.
fn grow(cases: &mut Cases<'_>, view: &View, check_keys: bool) -> Result<()> {
    let catalog = cases.catalog();
    for at in 0..cases.list.len() {
        let (case, new) = (&cases.list[at], view.rows.get(&at));
        if case.old.as_ref() == new {
            if new.is_none() && !catalog.tables[case.table].followed.is_empty() {
                cases.children(at)?;
            }
            continue;
        }
        let (table, old) = (case.table, case.old.clone());
        let t = &catalog.tables[table];
        if old.as_deref().map(|row| key(t, row)) != new.map(|row| key(t, row)) {
            cases.children(at)?;
            if let Some(new) = new {
                cases.answered(table, new)?;
            }
        }
        if let (Some(alias), Some(old)) = (t.table.renumbers(), &old)
            && new.is_none_or(|new| new[alias] != old[alias])
        {
            cases.renumbered(table)?;
        }
        if let (true, Some(old)) = (check_keys, old) {
            let before = cases.facts.verdict(table, &old)?.keys;
            let after = match new {
                Some(new) => cases.facts.verdict(table, new)?.keys,
                None => vec![None; before.len()],
            };
            for (u, (before, after)) in before.into_iter().zip(after).enumerate() {
                let Some(left) = before else { continue };
                if after.is_none_or(|key| key.canonical != left.canonical) {
                    let name = t.unique_names[u].clone();
                    cases.waiting_for_key(table, &name, &left.canonical)?;
                }
            }
        }
    }
    view.passing.iter().try_for_each(|&at| cases.children(at))?;
    for wanted in &view.wanted {
        cases.rivals_for_key(wanted)?;
    }
    for &(table, id) in &view.numbers {
        cases.givers(table, id)?;
    }
    for (table, index, key) in &view.asked {
        cases.waiting_for_key(*table, &catalog.tables[*table].unique_names[*index], key)?;
    }
    Ok(())
}

/// What of a row others may refer to.
fn key(t: &Relation, row: &[Value]) -> Vec<Value> {
    let groups = t.table.groups.iter().filter(|g| g.keeps_previous);
    groups.flat_map(|g| g.columns.iter().map(|&c| row[c].clone())).collect()
}

/// The plan: writes the view into the cases, what each of them shows from now on and why not what it holds.
pub fn decide(mut cases: Cases<'_>, view: View) -> Vec<Case> {
    let View { mut rows, mut conflicts, mut claims, mut derived, .. } = view;
    let rid = |c: &Case| c.stored.rid.clone();
    let rids: Vec<Rid> = cases.list.iter().map(rid).collect();
    for (at, case) in cases.list.iter_mut().enumerate() {
        case.new = rows.remove(&at);
        let expected =
            |c: &Conflict| c.kind == "fk_cascade" && case.stored.state.fell_with_parent();
        case.conflict = conflicts.remove(&at).filter(|c| !expected(c));
        case.winner = case.conflict.as_ref().and_then(|c| c.winner).map(|w| rids[w].clone());
        case.claims = claims.remove(&at).unwrap_or_default();
        case.derived = derived.remove(&at).unwrap_or_default();
    }
    cases.list
}

/// Computes the view. `check_keys` is false for an optimistic attempt, which trusts that no unique key and no row
/// constraint is in the way; the tables themselves will tell.
pub(crate) fn compute(cases: &Cases<'_>, check_keys: bool) -> Result<View> {
    let revived = protected(cases);
    let (unified, answered) = (BTreeMap::new(), BTreeMap::new());
    let mut show = Attempt { cases, check_keys, view: View::default(), revived, unified, answered };
    for component in &cases.catalog().components {
        show.component(component.clone())?;
    }
    for &at in &show.revived {
        if show.view.rows.contains_key(&at) && !cases.list[at].alive() {
            let conflict = conflict("restrict_revived", "", None);
            let other = show.view.conflicts.insert(at, conflict);
            show.view.blockers.entry(at).or_default().extend(other.and_then(|c| c.winner));
        }
    }
    Ok(show.view)
}

pub(crate) fn conflict(kind: &'static str, constraint: &str, winner: Option<usize>) -> Conflict {
    Conflict { kind, constraint: constraint.to_owned(), winner }
}

pub(crate) struct Attempt<'c, 'a> {
    pub(crate) cases: &'c Cases<'a>,
    pub(crate) check_keys: bool,
    pub(crate) view: View,
    revived: BTreeSet<usize>,
    /// R-UNIFY: cases that lost a unique key, and who stands for them.
    unified: BTreeMap<usize, usize>,
    /// Keys that cases refer to by value, and that some row has.
    pub(crate) answered: BTreeMap<usize, BTreeSet<(String, Vec<u8>)>>,
}

/// A row that a case shows, and the groups that an action on its parent has set.
pub(crate) struct Displayed {
    pub(crate) row: Vec<Value>,
    nulled: BTreeSet<usize>,
    unexpected: bool,
    overridden: BTreeSet<usize>,
}

/// Groups that show what they were before their last write (R-FALLBACK).
pub(crate) type Fallback = BTreeSet<usize>;

/// Cases that show a fallback, and what they lost.
pub(crate) type Fallbacks = BTreeMap<usize, (Fallback, Conflict)>;

/// Cases that are hidden, and why.
pub(crate) type Hidden = BTreeMap<usize, Conflict>;

impl Attempt<'_, '_> {
    fn component(&mut self, tables: Range<usize>) -> Result<()> {
        let cases = self.cases;
        let candidate = |at: &usize| cases.list[*at].alive() || self.revived.contains(at);
        let mine: Vec<usize> = (0..cases.list.len())
            .filter(|&at| tables.contains(&cases.list[at].table))
            .filter(candidate)
            .collect();
        if mine.is_empty() {
            return Ok(());
        }
        let (mut hidden, mut heard) = (BTreeMap::new(), BTreeMap::new());
        let circle = cases.catalog().refer_to_themselves(&tables);
        let mut round = loop {
            let (mut round, news) = self.round(&tables, &mine, hidden)?;
            if news.is_empty() {
                break round;
            }
            self.unify(&news);
            if circle {
                self.passing(&round);
            }
            // Rows that lost a key had it from nobody else, so the others show what they showed.
            let others = !round.ids.is_empty() || !round.fallbacks.is_empty();
            let same = round.granted && !others && !circle;
            round.rows.retain(|at, _| !same || !news.contains_key(at));
            round.hidden.extend(news);
            if same {
                break round;
            }
            if round.granted {
                heard.extend(self.claims(&round)?);
            }
            hidden = round.hidden;
        };
        self.name_dangling(&mut round)?;
        // Who is hidden for a row that lost has been heard before, and decided on others.
        heard.retain(|at, _| round.hidden.contains_key(at));
        for (at, claims) in heard {
            self.view.claims.entry(at).or_default().extend(claims);
        }
        for at in round.hidden.keys() {
            if let Some(claims) = self.answered.remove(at) {
                self.view.claims.entry(*at).or_default().extend(claims);
            }
        }
        for (&at, (groups, lost)) in &round.fallbacks {
            self.view.conflicts.insert(at, Conflict { kind: "fallback", ..lost.clone() });
            self.view.derived.entry(at).or_default().extend(groups);
        }
        for (&at, groups) in &round.nulled {
            if round.unexpected.contains(&at) {
                self.view.conflicts.entry(at).or_insert(conflict("set_null", "", None));
            }
            self.view.derived.entry(at).or_default().extend(groups);
        }
        for (&at, groups) in &round.overridden {
            self.view.derived.entry(at).or_default().extend(groups);
        }
        self.view.conflicts.extend(round.hidden);
        self.view.rows.extend(round.rows);
        Ok(())
    }

    /// Notes the cases that show another key in this round than before.
    fn passing(&mut self, round: &Round) {
        for (&at, row) in &round.rows {
            let case = &self.cases.list[at];
            let t = &self.cases.catalog().tables[case.table];
            if case.old.as_deref().is_none_or(|old| key(t, old) != key(t, row)) {
                self.view.passing.insert(at);
            }
        }
    }

    /// The unique keys of the rows of a round.
    fn claims(&self, round: &Round) -> Result<Claims> {
        let of_row = |(&at, row): (&usize, &Vec<Value>)| {
            let table = self.cases.list[at].table;
            let names = &self.cases.catalog().tables[table].unique_names;
            let keys = self.cases.facts.verdict(table, row)?.keys.into_iter().zip(names);
            let claims = keys.filter_map(|(key, name)| Some((name.clone(), key?.canonical)));
            Ok((at, claims.collect()))
        };
        round.rows.iter().map(of_row).collect()
    }

    /// R-UNIFY: where the policy says so, the winner of a unique key stands for the losers.
    fn unify(&mut self, lost: &Hidden) {
        for (&at, conflict) in lost {
            let t = &self.cases.catalog().tables[self.cases.list[at].table];
            if let Some(winner) = conflict.winner
                && conflict.kind == "unique"
                && self.cases.policies.unifies(&t.table.name)
            {
                self.unified.insert(at, winner);
            }
        }
    }

    /// The case that a reference to `rid` means.
    pub(crate) fn meant(&self, parent: usize, rid: &Rid) -> Option<usize> {
        let mut at = self.cases.get(parent, rid)?;
        while let Some(&winner) = self.unified.get(&at) {
            at = winner;
        }
        Some(at)
    }

    pub(crate) fn cases(&self) -> &Cases<'_> {
        self.cases
    }

    /// The row that a case asks to show, where it shows what it was before.
    pub(crate) fn asks<'r>(&self, round: &'r Round, at: usize) -> Result<Cow<'r, [Value]>> {
        match round.fallbacks.contains_key(&at) {
            true => Ok(Cow::Owned(self.row(round, at, &Fallback::new())?.row)),
            false => Ok(Cow::Borrowed(&round.rows[&at])),
        }
    }

    /// Displays all live cases until references among them agree.
    pub(crate) fn display(&self, round: &mut Round, live: &[usize]) -> Result<()> {
        let none = Fallback::new();
        // A key can be a reference itself.
        let catalog = self.cases.catalog();
        let passes = match catalog.refer_to_themselves(&round.tables) {
            true => catalog.longest_chain(&round.tables) + 1,
            false => 1,
        };
        for _ in 0..passes {
            let mut changed = false;
            for &at in live {
                let fallback = round.fallbacks.get(&at).map_or(&none, |(groups, _)| groups);
                let Displayed { row, nulled, unexpected, overridden } =
                    self.row(round, at, fallback)?;
                round.nulled.remove(&at);
                round.unexpected.remove(&at);
                round.overridden.remove(&at);
                if unexpected {
                    round.unexpected.insert(at);
                }
                if !nulled.is_empty() {
                    round.nulled.insert(at, nulled);
                }
                if !overridden.is_empty() {
                    round.overridden.insert(at, overridden);
                }
                changed |= round.rows.get(&at) != Some(&row);
                round.rows.insert(at, row);
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }

    /// FK closure: rows whose parent is not visible are hidden with it. One step down at a time, so that
    /// the reference that a record names does not depend on the order of the cases.
    pub(crate) fn close(&self, round: &mut Round, mine: &[usize]) {
        let mut below: Option<BTreeMap<usize, Vec<usize>>> = None;
        let mut asked = mine.to_vec();
        loop {
            asked.retain(|at| !round.hidden.contains_key(at));
            let falls = |&at: &usize| Some((at, self.falls(round, at)?));
            let fallen: Hidden = asked.iter().filter_map(falls).collect();
            if fallen.is_empty() {
                return;
            }
            let below = below.get_or_insert_with(|| self.below(round, mine));
            let next: BTreeSet<usize> =
                fallen.keys().filter_map(|at| below.get(at)).flatten().copied().collect();
            asked = next.into_iter().collect();
            round.hidden.extend(fallen);
        }
    }

    /// Cases of a component by the cases of it without which they are hidden.
    fn below(&self, round: &Round, mine: &[usize]) -> BTreeMap<usize, Vec<usize>> {
        let mut below: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &at in mine {
            for (f, fk) in self.needs(at) {
                let parent = self.cases.catalog().position(&fk.parent);
                let parent = parent.filter(|parent| round.tables.contains(parent));
                if let (Some(parent), Some(rid)) = (parent, self.reference(at, f))
                    && let Some(p) = self.meant(parent, &rid)
                {
                    below.entry(p).or_default().push(at);
                }
            }
        }
        below
    }

    /// The foreign keys without whose parents a case is hidden.
    fn needs(&self, at: usize) -> impl Iterator<Item = (usize, &ForeignKey)> {
        let t = &self.cases.catalog().tables[self.cases.list[at].table];
        let sets = |fk: &ForeignKey| matches!(fk.on_delete, Action::SetNull | Action::SetDefault);
        let keys = t.table.foreign_keys.iter().enumerate();
        keys.filter(move |(_, fk)| self.cases.enforces(fk) && !sets(fk))
    }

    /// Whether a case is hidden with another of which something is true.
    pub(crate) fn hangs_on(&self, at: usize, is: impl Fn(usize) -> bool) -> bool {
        self.needs(at).any(|(f, fk)| {
            let parent = self.cases.catalog().position(&fk.parent);
            let to = self.reference(at, f).zip(parent);
            to.and_then(|(rid, parent)| self.meant(parent, &rid)).is_some_and(|p| p != at && is(p))
        })
    }

    /// Why a case is hidden, if a parent of it is not visible.
    fn falls(&self, round: &Round, at: usize) -> Option<Conflict> {
        let t = &self.cases.catalog().tables[self.cases.list[at].table];
        self.needs(at).find_map(|(f, fk)| {
            let rid = self.reference(at, f)?;
            let outlived = fk.on_delete == Action::Cascade
                && !self.revived.contains(&at)
                && stale(self.cases, at, f);
            if self.visible(round, fk, &rid) == Some(true) && !outlived {
                return None;
            }
            let dead = outlived || self.dead(round, fk, &rid);
            let kind = if dead { "fk_cascade" } else { "fk_parent_hidden" };
            Some(conflict(kind, &t.key_names[f], None))
        })
    }

    /// The row that foreign key `f` of a case refers to, unless a change of its key overrides the
    /// reference.
    pub(crate) fn reference(&self, at: usize, f: usize) -> Option<Rid> {
        let case = &self.cases.list[at];
        let t = &self.cases.catalog().tables[case.table];
        let rid = case.reference(t, f)?;
        (!self.overridden(at, f, rid)).then(|| rid.clone())
    }

    /// R-FK-ONUPDATE for the reference of foreign key `f` of a case, or for its former one, to `rid`.
    fn overridden(&self, at: usize, f: usize, rid: &Rid) -> bool {
        let t = &self.cases.catalog().tables[self.cases.list[at].table];
        let parent = self.cases.catalog().position(&t.table.foreign_keys[f].parent);
        let p = parent.and_then(|parent| self.cases.get(parent, rid));
        p.is_some_and(|p| overridden(self.cases, at, f, p))
    }

    /// Whether a reference of a case is to the case itself, or to one for which it stands.
    fn is_itself(&self, at: usize, fk: &ForeignKey, rid: &Rid) -> bool {
        let parent = self.cases.catalog().position(&fk.parent);
        parent.and_then(|parent| self.meant(parent, rid)) == Some(at)
    }

    /// Whether another row stands for the referenced one.
    fn stands_in(&self, fk: &ForeignKey, rid: &Rid) -> bool {
        let parent = self.cases.catalog().position(&fk.parent);
        let named = parent.and_then(|p| self.cases.get(p, rid));
        named.is_some_and(|at| self.unified.contains_key(&at))
    }

    /// Whether the referenced row is visible; `None` if no such row is known.
    pub(crate) fn visible(&self, round: &Round, fk: &ForeignKey, rid: &Rid) -> Option<bool> {
        let parent = self.cases.catalog().position(&fk.parent)?;
        if let Some(p) = self.meant(parent, rid) {
            let case = &self.cases.list[p];
            return Some(if round.tables.contains(&parent) {
                (case.alive() || self.revived.contains(&p)) && !round.hidden.contains_key(&p)
            } else {
                self.view.rows.contains_key(&p)
            });
        }
        let other = self.cases.others.get(parent, rid).ok()??;
        Some(other.stored.loc.is_some())
    }

    /// Whether the referenced row is dead, or was deleted with its own parent.
    fn dead(&self, round: &Round, fk: &ForeignKey, rid: &Rid) -> bool {
        let Some(parent) = self.cases.catalog().position(&fk.parent) else { return true };
        let Some(p) = self.meant(parent, rid) else { return false };
        let hidden = round.hidden.get(&p).or_else(|| self.view.conflicts.get(&p));
        !self.cases.list[p].alive() && !self.revived.contains(&p)
            || hidden.is_some_and(|c| c.kind == "fk_cascade")
    }

    /// Whether a reference is later than the delete of the row that it is to, or that row is only
    /// hidden: then it is no delete that the reference gave way to. What is inserted anew has been
    /// deleted before.
    fn unexpected(&self, round: &Round, at: usize, fk: &ForeignKey, rid: &Rid) -> bool {
        let parent = self.cases.catalog().position(&fk.parent);
        let Some(p) = parent.and_then(|parent| self.meant(parent, rid)) else { return true };
        let t = &self.cases.catalog().tables[self.cases.list[at].table];
        let written = self.cases.list[at].stamp(t, fk.columns[0]);
        let shown = self.visible(round, fk, rid) == Some(true);
        let header = self.cases.list[p].header();
        !(shown || self.dead(round, fk, rid)) || written > header.left().max(header.reinserted)
    }

    /// R-REMAP for the tables of the component.
    pub(crate) fn numbers(&self, round: &Round, live: &[usize]) -> Result<BTreeMap<usize, i64>> {
        let mut ids = BTreeMap::new();
        for table in round.tables.clone() {
            let t = &self.cases.catalog().tables[table];
            let Some(alias) = t.table.renumbers() else { continue };
            let mine = live.iter().copied().filter(|&at| self.cases.list[at].table == table);
            let wish = |at: usize| {
                let case = &self.cases.list[at];
                let claim = case.stamp(t, alias).max(case.header().yielded);
                let id = self.cases.wanted(t, alias, at)?;
                Some(Wish { claim, rid: case.stored.rid.clone(), case: at, id })
            };
            let wishes = mine.filter_map(wish).collect();
            let numbers = || self.cases.known(table, |_| true);
            ids.extend(remap::grant(wishes, numbers)?);
        }
        Ok(ids)
    }

    /// The row that a case shows.
    pub(crate) fn row(&self, round: &Round, at: usize, fallback: &Fallback) -> Result<Displayed> {
        let case = &self.cases.list[at];
        let t = &self.cases.catalog().tables[case.table];
        let mut row = vec![Value::Null; t.table.columns.len()];
        let (mut nulled, mut changed, mut followed) = (BTreeSet::new(), BTreeSet::new(), vec![]);
        let mut unexpected = false;
        let cell = |g: usize| cell_shown(case, g, fallback);
        for (g, group) in t.table.groups.iter().enumerate() {
            group.columns.iter().zip(&cell(g).values).for_each(|(&c, v)| row[c] = v.clone());
        }
        case.sums.iter().for_each(|(c, sum)| row[*c] = sum.clone());
        if let (Some(alias), Some(id)) = (t.table.rowid_alias(), round.ids.get(&at)) {
            row[alias] = Value::Integer(*id);
        }
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let g = t.table.columns[fk.columns[0]].group;
            let Some(i) = t.table.groups[g].foreign_keys.iter().position(|&k| k == f) else {
                continue;
            };
            let Some(rid) = &cell(g).refs[i] else { continue };
            let earlier = fallback.contains(&g);
            let keep = self.cases.enforces(fk);
            let overridden = self.overridden(at, f, rid);
            let visible = self.visible(round, fk, rid);
            let sets = matches!(fk.on_delete, Action::SetNull | Action::SetDefault);
            let outlived = keep && sets && !earlier && stale(self.cases, at, f);
            let action = match (visible, overridden) {
                (_, true) if keep => fk.on_update,
                (Some(false) | None, _) if keep => fk.on_delete,
                (Some(true), _) if outlived => fk.on_delete,
                (Some(true), _) => {
                    let itself = self.is_itself(at, fk, rid);
                    match itself {
                        true => show_own(t, fk, &mut row),
                        false => self.follow(round, t, fk, rid, &mut row)?,
                    }
                    followed.push((fk, rid, itself));
                    if self.stands_in(fk, rid) {
                        changed.insert(g);
                    }
                    continue;
                }
                // Nothing keeps the reference: it shows the key that its row had last, or what was written
                // as long as nobody knows the row.
                (Some(false) | None, _) if !keep => {
                    self.follow(round, t, fk, rid, &mut row)?;
                    changed.insert(g);
                    continue;
                }
                _ => continue,
            };
            match action {
                Action::SetNull => fk.columns.iter().for_each(|&c| row[c] = Value::Null),
                Action::SetDefault => {
                    for &c in &fk.columns {
                        row[c] = self.cases.facts.default(case.table, c)?;
                    }
                }
                _ => continue,
            }
            if overridden {
                changed.insert(g)
            } else {
                unexpected |= self.unexpected(round, at, fk, rid);
                nulled.insert(g)
            };
        }
        // What refers to its own row shows the key that this has in the end, not the one of the last round; who
        // shares a column with it follows in turn.
        let own = followed.iter().filter(|(_, _, itself)| *itself);
        let own: Vec<usize> = own.flat_map(|(fk, ..)| fk.columns.iter().copied()).collect();
        for (fk, rid, itself) in followed {
            match itself {
                true => show_own(t, fk, &mut row),
                false if fk.columns.iter().any(|c| own.contains(c)) => {
                    self.follow(round, t, fk, rid, &mut row)?;
                }
                false => {}
            }
        }
        // Of two foreign keys that share a column one may show the key of the other's row.
        for (f, fk) in t.table.foreign_keys.iter().enumerate().filter(|(f, _)| !alone(t, *f)) {
            let g = t.table.columns[fk.columns[0]].group;
            let at_key = t.table.groups[g].foreign_keys.iter().position(|&k| k == f);
            let to = at_key.and_then(|i| cell(g).refs[i].as_ref());
            let to = to.filter(|rid| self.visible(round, fk, rid) == Some(true));
            let Some(rid) = to else { continue };
            let shows = match self.is_itself(at, fk, rid) {
                true => refers_to_own_key(fk, &row),
                false => self.shows_key_of(round, fk, rid, &row)?,
            };
            if !shows {
                changed.insert(g);
            }
        }
        // A column of another type than that of the site that wrote stores the value otherwise.
        for (value, column) in row.iter_mut().zip(&t.table.columns) {
            if let Some(other) = equal::converted(value, column.affinity) {
                *value = other;
            }
        }
        Ok(Displayed { row, nulled, unexpected, overridden: changed })
    }

    /// R-REF: shows the key that the referenced row shows; a hidden or dead one, what it kept. As it was
    /// written, if that means the same key (R-SPELL).
    fn follow(
        &self,
        round: &Round,
        t: &Relation,
        fk: &ForeignKey,
        rid: &Rid,
        row: &mut [Value],
    ) -> Result<()> {
        self.with_parent(round, fk, rid, |shown| refs::show_key(t, fk, shown, row))
    }

    /// Looks at what the row that a reference is to shows; a hidden or dead one, at what it would.
    pub(crate) fn with_parent(
        &self,
        round: &Round,
        fk: &ForeignKey,
        rid: &Rid,
        mut look: impl FnMut(&[Value]),
    ) -> Result<()> {
        let Some(parent) = self.cases.catalog().position(&fk.parent) else { return Ok(()) };
        let shown = |p| round.rows.get(&p).or_else(|| self.view.rows.get(&p));
        match self.meant(parent, rid).and_then(shown) {
            Some(shown) => look(shown),
            None => {
                let catalog = self.cases.catalog();
                let depth = catalog.longest_chain(&(0..catalog.tables.len()));
                if let Some(row) =
                    self.would_show(round, (parent, rid), &fk.parent_columns, depth)?
                {
                    look(&row);
                }
            }
        }
        Ok(())
    }

    /// What a row shows in these columns, or would. What a hidden or dead row keeps of a key that is a
    /// reference is what it showed where it was last seen, which may be another key elsewhere: so there the
    /// key of the row that the reference is to counts.
    fn would_show(
        &self,
        round: &Round,
        (table, rid): (usize, &Rid),
        columns: &[usize],
        depth: usize,
    ) -> Result<Option<Vec<Value>>> {
        let t = &self.cases.catalog().tables[table];
        let case = self.meant(table, rid).map(|p| (p, &self.cases.list[p]));
        let other = match case {
            Some(_) => None,
            None => self.cases.others.get(table, rid)?,
        };
        let mut row = match (case, &other) {
            (Some((p, case)), _) => match round.rows.get(&p).or_else(|| self.view.rows.get(&p)) {
                Some(shown) => return Ok(Some(shown.clone())),
                None => plain(case, t, round.ids.get(&p)),
            },
            (None, Some(other)) => match self.cases.others.row(table, other)? {
                Some(row) if other.stored.loc.is_some() => return Ok(Some(row.to_vec())),
                Some(row) => row.to_vec(),
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let Some(parent) = self.cases.catalog().position(&fk.parent) else { continue };
            let of_key = fk.columns.iter().any(|c| columns.contains(c));
            let state = other.as_ref().map(|other| &other.stored.state);
            let to = match case {
                Some((_, case)) => case.reference(t, f),
                None => state.and_then(|state| state.kept_reference(t, f)),
            };
            let Some(to) = to.filter(|_| of_key && depth > 0) else { continue };
            let above = self.would_show(round, (parent, to), &fk.parent_columns, depth - 1)?;
            if let Some(above) = above {
                refs::show_key(t, fk, &above, &mut row);
            }
        }
        Ok(Some(row))
    }

    /// A fallback must itself satisfy the foreign keys.
    pub(crate) fn fallback_refers(
        &self,
        round: &Round,
        at: usize,
        fallback: &Fallback,
        row: &[Value],
    ) -> Result<bool> {
        let case = &self.cases.list[at];
        let t = &self.cases.catalog().tables[case.table];
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let g = t.table.columns[fk.columns[0]].group;
            if !self.cases.enforces(fk) || !fallback.contains(&g) {
                continue;
            }
            let cell = cell_shown(case, g, fallback);
            let columns = &t.table.groups[g].columns;
            let null = |c: &usize| {
                let i = columns.iter().position(|x| x == c);
                i.is_some_and(|i| cell.values[i].is_null())
            };
            let Some(i) = t.table.groups[g].foreign_keys.iter().position(|&k| k == f) else {
                continue;
            };
            let rid = cell.refs[i].as_ref();
            let fits = if rid.is_some_and(|rid| self.overridden(at, f, rid)) {
                let key: Vec<Value> = fk.columns.iter().map(|&c| row[c].clone()).collect();
                key.iter().any(Value::is_null) || self.anyone_shows(round, (case.table, f), &key)?
            } else {
                let rid = rid.filter(|rid| self.visible(round, fk, rid) == Some(true));
                fk.columns.iter().any(null)
                    || match rid {
                        Some(rid) => !alone(t, f) || self.shows_key_of(round, fk, rid, row)?,
                        None => false,
                    }
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Shows in a row its own key, to which a foreign key of it refers.
fn show_own(t: &Relation, fk: &ForeignKey, row: &mut [Value]) {
    let shown = row.to_vec();
    refs::show_key(t, fk, &shown, row);
}

/// Whether a foreign key of a row that refers to its own table has the key of that row.
pub(crate) fn refers_to_own_key(fk: &ForeignKey, row: &[Value]) -> bool {
    let bytes = |columns: &[usize]| equal::reference_bytes(fk, columns.iter().map(|&c| &row[c]));
    bytes(&fk.columns) == bytes(&fk.parent_columns)
}

/// The cell that a group shows.
pub(crate) fn cell_shown<'c>(case: &'c Case, g: usize, fallback: &Fallback) -> &'c Cell {
    match &case.stored.state.groups[g].previous {
        Some(previous) if fallback.contains(&g) => previous,
        _ => &case.cells[g],
    }
}

/// What a case shows before anything is derived, but for its number.
fn plain(case: &Case, t: &Relation, id: Option<&i64>) -> Vec<Value> {
    let mut row = written(case, t);
    if let (Some(alias), Some(id)) = (t.table.rowid_alias(), id) {
        row[alias] = Value::Integer(*id);
    }
    row
}
