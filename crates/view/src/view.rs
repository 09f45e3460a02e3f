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
use crate::affected::{AffectedRow, AffectedRows, Conflict, Wanted};
use crate::catalog::Relation;
use crate::conflict::ConflictKind;
use crate::protect::{cascade, outlived, protected};
use round::Round;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use synqlite_wire::{Rid, Value};

/// Keys of affected rows: (name of the constraint, key).
pub type Claims = BTreeMap<usize, Vec<(String, Vec<u8>)>>;

/// What the affected rows show.
#[derive(Default)]
pub struct View {
    /// What the visible ones show.
    pub rows: BTreeMap<usize, Vec<Value>>,
    /// Why affected rows do not show what their registers say.
    pub conflicts: BTreeMap<usize, Conflict>,
    /// Affected rows in the way of the former values of one that lost a unique key, or was kept.
    pub blockers: BTreeMap<usize, Vec<usize>>,
    /// Unique keys that affected rows asked for.
    pub wanted: Vec<Wanted>,
    /// Keys that an affected row asked for and does not have, or that it refers to by value and is hidden.
    pub claims: Claims,
    /// Groups of an affected row that show something derived, not their register.
    pub derived: BTreeMap<usize, BTreeSet<usize>>,
    /// Affected rows that showed another key than before while others were found to be hidden, or to show what
    /// they held before: what refers to them may be hidden for it, whatever they show in the end.
    pub passing: BTreeSet<usize>,
    /// Integer keys that affected rows refer to by value: (table, key).
    pub numbers: BTreeSet<(usize, i64)>,
    /// Unique keys that affected rows refer to by value: (table, index, key).
    pub asked: BTreeSet<(usize, usize, Vec<u8>)>,
    /// Whether rows of a circle do not fit that might have, had keys been heard.
    pub unheard: bool,
}

/// Computes the view of the affected rows, adding rows until nothing outside depends on what they show.
pub fn settle(affected: &mut AffectedRows<'_>, mut check_keys: bool) -> Result<View> {
    if check_keys {
        affected.rivals_for_keys()?;
    }
    loop {
        affected.neighbours()?;
        while falling(affected)? {
            affected.neighbours()?;
        }
        let view = compute(affected, check_keys)?;
        if view.unheard {
            check_keys = true;
            affected.rivals_for_keys()?;
            continue;
        }
        let before = affected.list.len();
        grow(affected, &view, check_keys)?;
        if affected.list.len() == before {
            return Ok(view);
        }
        affected.descend(before, check_keys)?;
    }
}

/// Where a dead row is shown for another's sake, whether that one lives itself may depend on rows that would
/// fall with the dead one: adds these. Whether it added any.
fn falling(affected: &mut AffectedRows<'_>) -> Result<bool> {
    if protected(affected).is_empty() {
        return Ok(false);
    }
    let before = affected.list.len();
    cascade(affected, &BTreeSet::new()).into_iter().try_for_each(|at| affected.children(at))?;
    affected.descend(before, false)?;
    Ok(affected.list.len() > before)
}

/// Adds the rows that are concerned by what the affected ones show now.
fn grow(affected: &mut AffectedRows<'_>, view: &View, check_keys: bool) -> Result<()> {
    let catalog = affected.catalog();
    for at in 0..affected.list.len() {
        let (item, new) = (&affected.list[at], view.rows.get(&at));
        if item.old.as_ref() == new {
            // A deleted one that is hidden for another reason than that hides what refers to it for another too.
            let kept = !item.alive() && view.conflicts.contains_key(&at);
            if new.is_none() && (kept || !catalog.tables[item.table].followed.is_empty()) {
                affected.children(at)?;
            }
            continue;
        }
        let (table, old) = (item.table, item.old.clone());
        let t = &catalog.tables[table];
        if old.as_deref().map(|row| key(t, row)) != new.map(|row| key(t, row)) {
            affected.children(at)?;
            if let Some(new) = new {
                affected.answered(table, new)?;
            }
        }
        if let (Some(alias), Some(old)) = (t.table.renumbers(), &old)
            && new.is_none_or(|new| new[alias] != old[alias])
        {
            affected.shifts(at, alias)?;
        }
        if let (true, Some(old)) = (check_keys, old) {
            let before = affected.facts.verdict(table, &old)?.keys;
            let after = match new {
                Some(new) => affected.facts.verdict(table, new)?.keys,
                None => vec![None; before.len()],
            };
            for (u, (before, after)) in before.into_iter().zip(after).enumerate() {
                let Some(left) = before else { continue };
                if after.is_none_or(|key| key.canonical != left.canonical) {
                    let name = t.unique_names[u].clone();
                    affected.waiting_for_key(table, &name, &left.canonical)?;
                }
            }
        }
    }
    view.passing.iter().try_for_each(|&at| affected.children(at))?;
    for wanted in &view.wanted {
        affected.rivals_for_key(wanted)?;
    }
    for &(table, id) in &view.numbers {
        affected.givers(table, id)?;
    }
    for (table, index, key) in &view.asked {
        affected.waiting_for_key(*table, &catalog.tables[*table].unique_names[*index], key)?;
    }
    affected.follow_shifts().map(drop)
}

/// What of a row others may refer to.
fn key(t: &Relation, row: &[Value]) -> Vec<Value> {
    t.referred.iter().map(|&c| row[c].clone()).collect()
}

/// The plan: writes the view into the rows, what each of them shows from now on and why not what it holds.
pub fn decide(mut affected: AffectedRows<'_>, view: View) -> Vec<AffectedRow> {
    let View { mut rows, mut conflicts, mut claims, mut derived, .. } = view;
    let rid = |c: &AffectedRow| c.stored.rid.clone();
    let rids: Vec<Rid> = affected.list.iter().map(rid).collect();
    for (at, item) in affected.list.iter_mut().enumerate() {
        item.new = rows.remove(&at);
        let expected = |c: &Conflict| {
            c.kind == ConflictKind::FkCascade && item.stored.state.fell_with_parent()
        };
        item.conflict = conflicts.remove(&at).filter(|c| !expected(c));
        item.winner = item.conflict.as_ref().and_then(|c| c.winner).map(|w| rids[w].clone());
        item.claims = claims.remove(&at).unwrap_or_default();
        item.derived = derived.remove(&at).unwrap_or_default();
    }
    affected.list
}

/// Computes the view. `check_keys` is false for an optimistic attempt, which trusts that no unique key and no row
/// constraint is in the way; the tables themselves will tell.
pub(crate) fn compute(affected: &AffectedRows<'_>, check_keys: bool) -> Result<View> {
    let revived = protected(affected);
    let (unified, answered) = (BTreeMap::new(), BTreeMap::new());
    let mut show =
        Attempt { affected, check_keys, view: View::default(), revived, unified, answered };
    for component in &affected.catalog().components {
        show.component(component.clone())?;
    }
    for &at in &show.revived {
        let needs_it = !affected.list[at].alive() || outlived(affected, at);
        if show.view.rows.contains_key(&at) && needs_it {
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
    pub(crate) affected: &'c AffectedRows<'a>,
    pub(crate) check_keys: bool,
    pub(crate) view: View,
    revived: BTreeSet<usize>,
    /// R-UNIFY: affected rows that lost a unique key, and who stands for them.
    unified: BTreeMap<usize, usize>,
    /// Keys that affected rows refer to by value, and that some row has.
    pub(crate) answered: BTreeMap<usize, BTreeSet<(String, Vec<u8>)>>,
}

/// Groups that show what they were before their last write (R-FALLBACK).
pub(crate) type Fallback = BTreeSet<usize>;

/// Affected rows that show a fallback, and what they lost.
pub(crate) type Fallbacks = BTreeMap<usize, (Fallback, Conflict)>;

/// Affected rows that are hidden, and why.
pub(crate) type Hidden = BTreeMap<usize, Conflict>;

impl Attempt<'_, '_> {
    fn component(&mut self, tables: Range<usize>) -> Result<()> {
        let affected = self.affected;
        let candidate = |at: &usize| affected.list[*at].alive() || self.revived.contains(at);
        let mine: Vec<usize> = (0..affected.list.len())
            .filter(|&at| tables.contains(&affected.list[at].table))
            .filter(candidate)
            .collect();
        if mine.is_empty() {
            return Ok(());
        }
        let (mut hidden, mut heard) = (BTreeMap::new(), BTreeMap::new());
        let circle = affected.catalog().refer_to_themselves(&tables);
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
        for (at, claims) in round.lent {
            self.view.claims.entry(at).or_default().extend(claims);
        }
        self.view.conflicts.extend(round.hidden);
        self.view.rows.extend(round.rows);
        Ok(())
    }

    /// Notes the affected rows that show another key in this round than before.
    fn passing(&mut self, round: &Round) {
        for (&at, row) in &round.rows {
            let item = &self.affected.list[at];
            let t = &self.affected.catalog().tables[item.table];
            if item.old.as_deref().is_none_or(|old| key(t, old) != key(t, row)) {
                self.view.passing.insert(at);
            }
        }
    }

    /// The unique keys of the rows of a round.
    fn claims(&self, round: &Round) -> Result<Claims> {
        let of_row = |(&at, row): (&usize, &Vec<Value>)| {
            let table = self.affected.list[at].table;
            let names = &self.affected.catalog().tables[table].unique_names;
            let keys = self.affected.facts.verdict(table, row)?.keys.into_iter().zip(names);
            let claims = keys.filter_map(|(key, name)| Some((name.clone(), key?.canonical)));
            Ok((at, claims.collect()))
        };
        round.rows.iter().map(of_row).collect()
    }

    /// R-UNIFY: where the policy says so, the winner of a unique key stands for the losers.
    fn unify(&mut self, lost: &Hidden) {
        for (&at, conflict) in lost {
            let t = &self.affected.catalog().tables[self.affected.list[at].table];
            if let Some(winner) = conflict.winner
                && conflict.kind == ConflictKind::Unique
                && self.affected.policies.unifies(&t.table.name)
            {
                self.unified.insert(at, winner);
            }
        }
    }
}
