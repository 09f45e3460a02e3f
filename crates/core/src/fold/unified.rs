//! R-UNIFY: of several rows with one unique key a user sees one, which stands for the others. So what he does to that
//! row he does to all: they go when it is deleted, and get the key that it gets. Otherwise one of them would come back
//! with what he has just deleted or changed, and take along what refers to it.

use super::Fold;
use super::before::Image;
use crate::Result;
use crate::catalog::Tracked;
use crate::history;
use crate::state::{self, Body, GroupState, Stored};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Value};

/// What became of a row that may stand for others.
pub(super) enum Became {
    /// It was deleted, or inserted anew; what it showed at the last fold.
    Gone(Option<Image>),
    /// These groups of it were written.
    Written(BTreeSet<usize>),
}

impl Fold<'_> {
    /// Notes what became of a row.
    pub(super) fn became(&mut self, t: &Tracked, rid: &Rid, mut became: Became) {
        if !self.given.unifies.contains(&t.no) {
            return;
        }
        if let Became::Written(groups) = &mut became {
            let reads = t.table.uniques.iter().flat_map(|unique| &unique.columns);
            let reads: BTreeSet<usize> = reads.map(|&c| t.table.columns[c].group).collect();
            groups.retain(|g| reads.contains(g) && !is_own(t, *g));
            if groups.is_empty() {
                return;
            }
        }
        self.became.push((t.no, rid.clone(), became));
    }

    /// Does the same to the rows for which those stand. It is later than what the user did, so that they lose a key
    /// to the row that stands for them as before.
    pub(super) fn unified(&mut self) -> Result<()> {
        let (catalog, mut losers) = (self.catalog, BTreeMap::new());
        for (no, first, became) in std::mem::take(&mut self.became) {
            let losers = match losers.entry(no) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(state::unified(self.conn, self.meta, no)?),
            };
            let Some(at) = catalog.position_of_no(no).filter(|_| !losers.is_empty()) else {
                continue;
            };
            // A damaged file may say that rows lost to each other.
            let (mut met, mut ask) = (BTreeSet::from([&first]), vec![&first]);
            while let Some(winner) = ask.pop() {
                for loser in losers.get(winner).into_iter().flatten() {
                    if met.insert(loser) {
                        ask.push(loser);
                        self.follow(&catalog.tables[at], &first, loser, &became)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// What became of the row `first` becomes of `rid`, for which it stands.
    fn follow(&mut self, t: &Tracked, first: &Rid, rid: &Rid, became: &Became) -> Result<()> {
        let stored = state::of(self.conn, self.meta, t, rid)?;
        let Some(mut stored) = stored.filter(|stored| stored.loc.is_none()) else { return Ok(()) };
        match became {
            Became::Gone(_) if !stored.state.header.alive() => return Ok(()),
            Became::Gone(shown) => {
                let stamp = self.meta.tick(0);
                // What else it holds its user has not seen.
                let others = (0..t.table.groups.len()).filter(|&g| !is_own(t, g));
                self.deletes_other(t, &stored, shown.as_ref(), others, stamp);
                stored.state.header.delete(stamp);
            }
            Became::Written(groups) => {
                let first = state::of(self.conn, self.meta, t, first)?;
                let loc = first.and_then(|first| first.loc);
                let row = loc.map(|loc| t.read(self.conn, &loc)).transpose()?.flatten();
                let Some(row) = row else { return Ok(()) };
                self.copy(t, &row, &mut stored, groups)?;
            }
        }
        self.put(t, &stored)
    }

    /// Writes to a hidden row what these groups of the other are.
    fn copy(
        &mut self,
        t: &Tracked,
        row: &[Value],
        to: &mut Stored,
        groups: &BTreeSet<usize>,
    ) -> Result<()> {
        let stamp = self.meta.tick(0);
        for &g in groups {
            if !to.state.groups[g].counts.is_empty() {
                continue;
            }
            let body = Body::Stored(self.lookup().cell(t, g, row)?);
            let now = GroupState { body, ..GroupState::shown(stamp) };
            let before = std::mem::replace(&mut to.state.groups[g], now);
            if self.given.history {
                history::unwritten(self.conn, self.meta, t, &to.rid, (g, &before))?;
            }
            self.done.columns += 1;
        }
        Ok(())
    }
}

/// Whether a group is of the primary key, which each of the rows has for itself.
fn is_own(t: &Tracked, g: usize) -> bool {
    t.table.groups[g].columns.iter().any(|c| t.table.primary_key.contains(c))
}
