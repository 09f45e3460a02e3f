//! The view: what each case shows (R-VIEW), a pure function of state, schema and policies.
//!
//! Tables are taken parents first, the tables of one cycle together. Within a cycle the set of
//! hidden rows only grows until every foreign key, row constraint and unique key holds.

mod answers;
mod references;
mod round;
mod row;
mod unique;

use crate::Result;
use crate::cases::{Case, Cases, Conflict, Wanted};
use crate::catalog::Relation;
use crate::conflict::ConflictKind;
use crate::protect::{cascade, protected};
use round::Round;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use synqlite_wire::{Rid, Value};

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
        let expected = |c: &Conflict| {
            c.kind == ConflictKind::FkCascade && case.stored.state.fell_with_parent()
        };
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
            let conflict = conflict(ConflictKind::RestrictRevived, "", None);
            let other = show.view.conflicts.insert(at, conflict);
            show.view.blockers.entry(at).or_default().extend(other.and_then(|c| c.winner));
        }
    }
    Ok(show.view)
}

pub(crate) fn conflict(kind: ConflictKind, constraint: &str, winner: Option<usize>) -> Conflict {
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
            self.view
                .conflicts
                .insert(at, Conflict { kind: ConflictKind::Fallback, ..lost.clone() });
            self.view.derived.entry(at).or_default().extend(groups);
        }
        for (&at, groups) in &round.nulled {
            if round.unexpected.contains(&at) {
                self.view.conflicts.entry(at).or_insert(conflict(ConflictKind::SetNull, "", None));
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
                && conflict.kind == ConflictKind::Unique
                && self.cases.policies.unifies(&t.table.name)
            {
                self.unified.insert(at, winner);
            }
        }
    }
}
