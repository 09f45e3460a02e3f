//! R-PROTECT: a dead row that a living one refers to under RESTRICT or NO ACTION is shown again,
//! and with it what it depends on itself.

use crate::cases::{Case, Cases};
use crate::catalog::Relation;
use crate::schema::{Action, ForeignKey};
use crate::state::GroupState;
use std::collections::BTreeSet;
use synqlite_wire::key::{Collation, encode_values};
use synqlite_wire::{Cell, Stamp};

/// The dead cases that are protected: the least set that satisfies the rule.
pub fn protected(cases: &Cases<'_>) -> BTreeSet<usize> {
    let mut shown = BTreeSet::new();
    if !cases.policies.enforces_foreign_keys() {
        return shown;
    }
    loop {
        let fallen = cascade(cases, &shown);
        let gone = |p: usize| !cases.list[p].alive() && !shown.contains(&p) || fallen.contains(&p);
        let mut stack = Vec::new();
        for at in candidates(cases, &shown).filter(|at| !fallen.contains(at)) {
            let case = &cases.list[at];
            for (f, fk) in keys(cases, case) {
                let Some(p) = parent(cases, at, f) else { continue };
                let t = &cases.catalog().tables[case.table];
                let yielded = case.stamp(t, fk.columns[0]) <= case.header().yielded;
                if restricts(fk.on_delete) && gone(p) && (shown.contains(&at) || !yielded) {
                    stack.push(p);
                }
            }
        }
        let mut news = BTreeSet::new();
        while let Some(p) = stack.pop() {
            if !news.insert(p) {
                continue;
            }
            for (f, fk) in keys(cases, &cases.list[p]) {
                let Some(grandparent) = parent(cases, p, f) else { continue };
                let needs = restricts(fk.on_delete) || fk.on_delete == Action::Cascade;
                if needs && gone(grandparent) {
                    stack.push(grandparent);
                }
            }
        }
        let before = shown.len();
        shown.extend(news);
        if shown.len() == before {
            return shown;
        }
    }
}

/// Cases that cascade away, given the protected ones.
pub(crate) fn cascade(cases: &Cases<'_>, shown: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut fallen = BTreeSet::new();
    loop {
        let before = fallen.len();
        for at in candidates(cases, shown).collect::<Vec<_>>() {
            if fallen.contains(&at) {
                continue;
            }
            let falls = keys(cases, &cases.list[at]).any(|(f, fk)| {
                if fk.on_delete != Action::Cascade {
                    return false;
                }
                let Some(p) = parent(cases, at, f) else { return false };
                let dead = !cases.list[p].alive() && !shown.contains(&p);
                let stale = !shown.contains(&at) && stale(cases, at, f);
                dead || fallen.contains(&p) || stale
            });
            if falls {
                fallen.insert(at);
            }
        }
        if fallen.len() == before {
            return fallen;
        }
    }
}

/// R-INC: the reference was written before the parent's latest re-insert, so it is to its former
/// life.
pub fn stale(cases: &Cases<'_>, at: usize, f: usize) -> bool {
    let case = &cases.list[at];
    let t = &cases.catalog().tables[case.table];
    let fk = &t.table.foreign_keys[f];
    let written = case.stamp(t, fk.columns[0]);
    parent(cases, at, f).is_some_and(|p| written < cases.list[p].header().reinserted)
}

/// The case that foreign key `f` refers to, if it is one and the reference is not overridden.
pub fn parent(cases: &Cases<'_>, at: usize, f: usize) -> Option<usize> {
    named(cases, at, f).filter(|&p| !overridden(cases, at, f, p))
}

/// Whether no later write of the row that foreign key `f` refers to took the reference back.
pub fn counts(cases: &Cases<'_>, at: usize, f: usize) -> bool {
    !stale(cases, at, f) && !named(cases, at, f).is_some_and(|p| overridden(cases, at, f, p))
}

/// The case that foreign key `f` refers to, if it is one.
fn named(cases: &Cases<'_>, at: usize, f: usize) -> Option<usize> {
    let case = &cases.list[at];
    let t = &cases.catalog().tables[case.table];
    let parent = cases.catalog().position(&t.table.foreign_keys[f].parent)?;
    cases.get(parent, case.reference(t, f)?)
}

/// The cases without which this one is hidden.
pub fn ancestors(cases: &Cases<'_>, at: usize) -> BTreeSet<usize> {
    let (mut found, mut asked) = (BTreeSet::new(), vec![at]);
    while let Some(at) = asked.pop() {
        for (f, fk) in keys(cases, &cases.list[at]) {
            let needs = restricts(fk.on_delete) || fk.on_delete == Action::Cascade;
            let needs = needs && cases.enforces(fk);
            let above = parent(cases, at, f).filter(|_| needs);
            asked.extend(above.filter(|&p| found.insert(p)));
        }
    }
    found
}

/// R-FK-ONUPDATE: a later change of the parent's key by a user sets the reference to NULL or its
/// default.
pub fn overridden(cases: &Cases<'_>, at: usize, f: usize, p: usize) -> bool {
    let (case, parent) = (&cases.list[at], &cases.list[p]);
    let t = &cases.catalog().tables[case.table];
    let fk = &t.table.foreign_keys[f];
    if !cases.enforces(fk) {
        return false;
    }
    let pt = &cases.catalog().tables[parent.table];
    let g = pt.table.columns[fk.parent_columns[0]].group;
    let key = &parent.stored.state.groups[g];
    overrides(pt, fk, (key, &parent.cells[g]), case.stamp(t, fk.columns[0]))
}

/// Whether the key of a parent, which shows `cell`, was changed by a user after a reference to it was
/// `written`.
pub fn overrides(
    pt: &Relation,
    fk: &ForeignKey,
    (key, cell): (&GroupState, &Cell),
    written: Stamp,
) -> bool {
    let g = pt.table.columns[fk.parent_columns[0]].group;
    let sets = fk.on_update.sets();
    let later = !key.pinned && key.stamp > written;
    let previous = key.previous.as_ref().filter(|_| sets && later);
    previous.is_some_and(|previous| key_differs(pt, fk, g, (previous, cell)))
}

/// Whether two cells of a group of a parent have different keys. One that is spelled otherwise is the
/// same (R-EQUAL), and a column that is a reference itself is the same while it is to the same row,
/// whatever that shows.
fn key_differs(pt: &Relation, fk: &ForeignKey, g: usize, (one, other): (&Cell, &Cell)) -> bool {
    let group = &pt.table.groups[g];
    let differs = |(c, (_, collation)): (&usize, &(_, Collation))| {
        let Some(at) = group.columns.iter().position(|column| column == c) else { return false };
        let own = |f: &usize| pt.table.foreign_keys[*f].columns.contains(c);
        if let Some(r) = group.foreign_keys.iter().position(own) {
            let refs = (one.refs.get(r).cloned().flatten(), other.refs.get(r).cloned().flatten());
            if refs.0.is_some() || refs.1.is_some() {
                return refs.0 != refs.1;
            }
        }
        let bytes = |cell: &Cell| encode_values(cell.values.get(at).map(|v| (v, collation)));
        bytes(one) != bytes(other)
    };
    fk.parent_columns.iter().zip(&fk.parent_keys).any(differs)
}

fn candidates<'c>(
    cases: &'c Cases<'_>,
    shown: &'c BTreeSet<usize>,
) -> impl Iterator<Item = usize> + 'c {
    (0..cases.list.len()).filter(|at| cases.list[*at].alive() || shown.contains(at))
}

fn keys<'c>(
    cases: &'c Cases<'_>,
    case: &Case,
) -> impl Iterator<Item = (usize, &'c ForeignKey)> + use<'c> {
    let keys = &cases.catalog().tables[case.table].table.foreign_keys;
    keys.iter().enumerate().filter(|(_, fk)| fk.enforced)
}

fn restricts(action: Action) -> bool {
    matches!(action, Action::Restrict | Action::NoAction)
}
