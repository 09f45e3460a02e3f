//! What references are to, and which rows are hidden with the rows to which theirs are.

use super::round::Round;
use super::{Attempt, Hidden, conflict};
use crate::affected::Conflict;
use crate::conflict::ConflictKind;
use crate::protect::{overridden, stale};
use crate::schema::{Action, ForeignKey};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::Rid;

impl Attempt<'_, '_> {
    /// The affected row that a reference to `rid` means.
    pub fn meant(&self, parent: usize, rid: &Rid) -> Option<usize> {
        let mut at = self.affected.get(parent, rid)?;
        while let Some(&winner) = self.unified.get(&at) {
            at = winner;
        }
        Some(at)
    }

    /// The row that foreign key `f` of an affected row refers to, unless a change of its key overrides the
    /// reference.
    pub fn reference(&self, at: usize, f: usize) -> Option<Rid> {
        let item = &self.affected.list[at];
        let t = &self.affected.catalog().tables[item.table];
        let rid = item.reference(t, f)?;
        (!self.overridden(at, f, rid)).then(|| rid.clone())
    }

    /// R-FK-ONUPDATE for the reference of foreign key `f` of an affected row, or for its former one, to `rid`.
    pub fn overridden(&self, at: usize, f: usize, rid: &Rid) -> bool {
        let t = &self.affected.catalog().tables[self.affected.list[at].table];
        let parent = self.affected.catalog().position(&t.table.foreign_keys[f].parent);
        let p = parent.and_then(|parent| self.affected.get(parent, rid));
        p.is_some_and(|p| overridden(self.affected, at, f, p))
    }

    /// Whether a reference of a row is to the row itself, or to one for which it stands.
    pub fn is_itself(&self, at: usize, fk: &ForeignKey, rid: &Rid) -> bool {
        let parent = self.affected.catalog().position(&fk.parent);
        parent.and_then(|parent| self.meant(parent, rid)) == Some(at)
    }

    /// Whether another row stands for the referenced one.
    pub fn stands_in(&self, fk: &ForeignKey, rid: &Rid) -> bool {
        let parent = self.affected.catalog().position(&fk.parent);
        let named = parent.and_then(|p| self.affected.get(p, rid));
        named.is_some_and(|at| self.unified.contains_key(&at))
    }

    /// Whether the referenced row is visible; `None` if no such row is known.
    pub fn visible(&self, round: &Round, fk: &ForeignKey, rid: &Rid) -> Option<bool> {
        let parent = self.affected.catalog().position(&fk.parent)?;
        if let Some(p) = self.meant(parent, rid) {
            let item = &self.affected.list[p];
            return Some(if round.tables.contains(&parent) {
                (item.alive() || self.revived.contains(&p)) && !round.hidden.contains_key(&p)
            } else {
                self.view.rows.contains_key(&p)
            });
        }
        let other = self.affected.others.get(parent, rid).ok()??;
        Some(other.stored.loc.is_some())
    }

    /// Whether the referenced row is dead, or was deleted with its own parent.
    fn dead(&self, round: &Round, fk: &ForeignKey, rid: &Rid) -> bool {
        let Some(parent) = self.affected.catalog().position(&fk.parent) else { return true };
        let Some(p) = self.meant(parent, rid) else { return false };
        let hidden = round.hidden.get(&p).or_else(|| self.view.conflicts.get(&p));
        !self.affected.list[p].alive() && !self.revived.contains(&p)
            || hidden.is_some_and(|c| c.kind == ConflictKind::FkCascade)
    }

    /// Whether a reference is later than the delete of the row that it is to, or that row is only
    /// hidden: then it is no delete that the reference gave way to. What is inserted anew has been
    /// deleted before.
    pub fn unexpected(&self, round: &Round, at: usize, fk: &ForeignKey, rid: &Rid) -> bool {
        let parent = self.affected.catalog().position(&fk.parent);
        let Some(p) = parent.and_then(|parent| self.meant(parent, rid)) else { return true };
        let t = &self.affected.catalog().tables[self.affected.list[at].table];
        let written = self.affected.list[at].stamp(t, fk.columns[0]);
        let shown = self.visible(round, fk, rid) == Some(true);
        let header = self.affected.list[p].header();
        !(shown || self.dead(round, fk, rid)) || written > header.left().max(header.reinserted)
    }

    /// FK closure: rows whose parent is not visible are hidden with it. One step down at a time, so that
    /// the reference that a record names does not depend on the order of rows.
    pub fn close(&self, round: &mut Round, mine: &[usize]) {
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

    /// Affected rows of a component by those without which they are hidden.
    fn below(&self, round: &Round, mine: &[usize]) -> BTreeMap<usize, Vec<usize>> {
        let mut below: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for &at in mine {
            for (f, fk) in self.needs(at) {
                let parent = self.affected.catalog().position(&fk.parent);
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

    /// The foreign keys without whose parents an affected row is hidden.
    fn needs(&self, at: usize) -> impl Iterator<Item = (usize, &ForeignKey)> {
        let t = &self.affected.catalog().tables[self.affected.list[at].table];
        let keys = t.table.foreign_keys.iter().enumerate();
        keys.filter(move |(_, fk)| self.affected.enforces(fk) && !fk.on_delete.sets())
    }

    /// Whether an affected row is hidden with another of which something is true.
    pub fn hangs_on(&self, at: usize, is: impl Fn(usize) -> bool) -> bool {
        self.needs(at).any(|(f, fk)| {
            let parent = self.affected.catalog().position(&fk.parent);
            let to = self.reference(at, f).zip(parent);
            to.and_then(|(rid, parent)| self.meant(parent, &rid)).is_some_and(|p| p != at && is(p))
        })
    }

    /// Why a row is hidden, if a parent of it is not visible.
    fn falls(&self, round: &Round, at: usize) -> Option<Conflict> {
        let t = &self.affected.catalog().tables[self.affected.list[at].table];
        self.needs(at).find_map(|(f, fk)| {
            let rid = self.reference(at, f)?;
            let outlived = fk.on_delete == Action::Cascade
                && !self.revived.contains(&at)
                && stale(self.affected, at, f);
            if self.visible(round, fk, &rid) == Some(true) && !outlived {
                return None;
            }
            let dead = outlived || self.dead(round, fk, &rid);
            let kind = if dead { ConflictKind::FkCascade } else { ConflictKind::FkParentHidden };
            Some(conflict(kind, &t.key_names[f], None))
        })
    }
}
