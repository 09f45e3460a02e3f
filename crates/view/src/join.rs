//! What the join of a row brings (R-JOIN): registers of one group that meet, and what the row was before.

use crate::catalog::Relation;
use crate::state::{Body, GroupState, Stored};
use synqlite_wire::{Cell, Register, Rid, Stamp, Value};

/// A row that was news.
#[derive(Clone, Debug)]
pub struct Joined {
    /// Its place and joined state.
    pub stored: Stored,
    /// What it shows until now.
    pub old: Option<Vec<Value>>,
    /// What it referred to without showing it, or by a number of this site alone (R-OWN): (foreign key, row).
    pub former: Vec<(usize, Rid)>,
    /// What it asked to show while it was hidden: others may have waited for that.
    pub asked: Option<Vec<Value>>,
}

/// Whether a register of the same group is news (R-LWW).
pub fn is_later(group: &GroupState, register: &Register) -> bool {
    register.stamp > group.stamp || tells_more(group, register.stamp, &register.cell)
}

/// A register becomes what another of the same group is. What was counted stays.
pub fn take(group: &mut GroupState, register: &Register) {
    *group = GroupState {
        counts: std::mem::take(&mut group.counts),
        pinned: register.pinned,
        previous: register.previous.clone(),
        body: Body::Stored(register.cell.clone()),
        ..GroupState::shown(register.stamp)
    };
}

/// Whether a register of this stamp says which row it refers to, and the group, which came through a site
/// without the foreign key, does not.
pub fn tells_more(group: &GroupState, stamp: Stamp, cell: &Cell) -> bool {
    let Body::Stored(own) = &group.body else { return false };
    let mut refs = own.refs.iter().zip(&cell.refs);
    let alone = group.column_stamps.is_empty() && group.counts.is_empty();
    alone && stamp == group.stamp && refs.any(|(own, rid)| own.is_none() && rid.is_some())
}

/// The rows that a group refers to without showing it: (foreign key, row).
pub fn kept(t: &Relation, g: usize, group: &GroupState) -> Vec<(usize, Rid)> {
    let Body::Stored(cell) = &group.body else { return vec![] };
    let refs = t.table.groups[g].foreign_keys.iter().zip(&cell.refs);
    refs.filter_map(|(&f, rid)| Some((f, rid.clone()?))).collect()
}
