//! R-PROTECT: a dead row that a living one refers to under RESTRICT or NO ACTION is shown again,
//! and with it what it depends on itself.

use crate::affected::{AffectedRow, AffectedRows};
use crate::catalog::Relation;
use crate::schema::{Action, ForeignKey};
use crate::state::GroupState;
use std::collections::BTreeSet;
use synqlite_wire::key::{Collation, encode_values};
use synqlite_wire::line::certain;
use synqlite_wire::{Cell, Stamp};

/// The dead affected rows that are protected: the least set that satisfies the rule.
pub fn protected(affected: &AffectedRows<'_>) -> BTreeSet<usize> {
    let mut shown = BTreeSet::new();
    if !affected.policies.enforces_foreign_keys() {
        return shown;
    }
    loop {
        let fallen = cascade(affected, &shown);
        let gone =
            |p: usize| !affected.list[p].alive() && !shown.contains(&p) || fallen.contains(&p);
        let mut stack = Vec::new();
        for at in candidates(affected, &shown).filter(|at| !fallen.contains(at)) {
            let item = &affected.list[at];
            for (f, fk) in keys(affected, item) {
                let Some(p) = parent(affected, at, f) else { continue };
                let t = &affected.catalog().tables[item.table];
                let yielded = item.stamp(t, fk.columns[0]) <= item.header().yielded;
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
            for (f, fk) in keys(affected, &affected.list[p]) {
                let Some(grandparent) = parent(affected, p, f) else { continue };
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

/// Affected rows that cascade away, given the protected ones.
pub(crate) fn cascade(affected: &AffectedRows<'_>, shown: &BTreeSet<usize>) -> BTreeSet<usize> {
    let mut fallen = BTreeSet::new();
    loop {
        let before = fallen.len();
        for at in candidates(affected, shown).collect::<Vec<_>>() {
            if fallen.contains(&at) {
                continue;
            }
            let falls = keys(affected, &affected.list[at]).any(|(f, fk)| {
                if fk.on_delete != Action::Cascade {
                    return false;
                }
                let Some(p) = parent(affected, at, f) else { return false };
                let dead = !affected.list[p].alive() && !shown.contains(&p);
                let stale = !shown.contains(&at) && stale(affected, at, f);
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
pub fn stale(affected: &AffectedRows<'_>, at: usize, f: usize) -> bool {
    let item = &affected.list[at];
    let t = &affected.catalog().tables[item.table];
    let fk = &t.table.foreign_keys[f];
    let written = item.stamp(t, fk.columns[0]);
    parent(affected, at, f).is_some_and(|p| written < affected.list[p].header().reinserted)
}

/// Whether the row would go with a former life of a row that it refers to under CASCADE.
pub(crate) fn outlived(affected: &AffectedRows<'_>, at: usize) -> bool {
    let mut keys = keys(affected, &affected.list[at]);
    keys.any(|(f, fk)| fk.on_delete == Action::Cascade && stale(affected, at, f))
}

/// The affected row that foreign key `f` refers to, if it is one and the reference is not overridden.
pub fn parent(affected: &AffectedRows<'_>, at: usize, f: usize) -> Option<usize> {
    named(affected, at, f).filter(|&p| !overridden(affected, at, f, p))
}

/// Whether no later write of the row that foreign key `f` refers to took the reference back.
pub fn counts(affected: &AffectedRows<'_>, at: usize, f: usize) -> bool {
    !stale(affected, at, f)
        && !named(affected, at, f).is_some_and(|p| overridden(affected, at, f, p))
}

/// The affected row that foreign key `f` refers to, if it is one.
fn named(affected: &AffectedRows<'_>, at: usize, f: usize) -> Option<usize> {
    let item = &affected.list[at];
    let t = &affected.catalog().tables[item.table];
    let parent = affected.catalog().position(&t.table.foreign_keys[f].parent)?;
    affected.get(parent, item.reference(t, f)?)
}

/// The affected rows without which this one is hidden.
pub fn ancestors(affected: &AffectedRows<'_>, at: usize) -> BTreeSet<usize> {
    let (mut found, mut asked) = (BTreeSet::new(), vec![at]);
    while let Some(at) = asked.pop() {
        for (f, fk) in keys(affected, &affected.list[at]) {
            let needs = restricts(fk.on_delete) || fk.on_delete == Action::Cascade;
            let needs = needs && affected.enforces(fk);
            let above = parent(affected, at, f).filter(|_| needs);
            asked.extend(above.filter(|&p| found.insert(p)));
        }
    }
    found
}

/// R-FK-ONUPDATE: a later change of the parent's key by a user sets the reference to NULL or its
/// default.
pub fn overridden(affected: &AffectedRows<'_>, at: usize, f: usize, p: usize) -> bool {
    let (item, parent) = (&affected.list[at], &affected.list[p]);
    let t = &affected.catalog().tables[item.table];
    let fk = &t.table.foreign_keys[f];
    if !affected.enforces(fk) {
        return false;
    }
    let pt = &affected.catalog().tables[parent.table];
    let g = pt.table.columns[fk.parent_columns[0]].group;
    let (key, written) = (&parent.stored.state.groups[g], item.stamp(t, fk.columns[0]));
    let again = parent.header().reinserted;
    // Who went with a former life of the parent stays away, whatever becomes of the key later (R-INC).
    let went = item.stored.state.fell_with_parent() && written < again && again < key.stamp;
    !went && overrides(pt, fk, (key, &parent.cells[g]), written)
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
    let later = !key.pinned && key.stamp > written && certain(key.stamp) > written;
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
    affected: &'c AffectedRows<'_>,
    shown: &'c BTreeSet<usize>,
) -> impl Iterator<Item = usize> + 'c {
    (0..affected.list.len()).filter(|at| affected.list[*at].alive() || shown.contains(at))
}

fn keys<'c>(
    affected: &'c AffectedRows<'_>,
    item: &AffectedRow,
) -> impl Iterator<Item = (usize, &'c ForeignKey)> + use<'c> {
    let keys = &affected.catalog().tables[item.table].table.foreign_keys;
    keys.iter().enumerate().filter(|(_, fk)| fk.enforced)
}

fn restricts(action: Action) -> bool {
    matches!(action, Action::Restrict | Action::NoAction)
}
