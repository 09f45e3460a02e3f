//! Counters in the state of rows (R-COUNTER): from what the table shows to counts, and back.
//!
//! The fold writes counts; the merge, which only looks whether a register has some, shows their sum.
//! So what rows show depends on their state alone, and not on when policy `T.column=counter` reached
//! which site. A counter that nobody has changed is an ordinary register, shown by its table.

use crate::catalog::Relation;
use crate::equal;
use crate::schema::Affinity;
use crate::state::{Body, GroupState};
use synqlite_wire::{Cell, Counter, Stamp, Value};

/// Whether changes of a group add up.
pub fn adds_up(t: &Relation, g: usize, group: &GroupState) -> bool {
    t.table.groups[g].counter || !group.counts.is_empty()
}

/// What a counter with counts shows, over this base, as its column stores it; `None` if the group has
/// no counts.
pub fn sum(t: &Relation, g: usize, group: &GroupState, base: &Cell) -> Option<Value> {
    if group.counts.is_empty() {
        return None;
    }
    let base = base.values.first().cloned().unwrap_or(Value::Null);
    let counter = Counter { stamp: group.stamp, base, counts: group.counts.clone() };
    Some(shown(t, g, &counter))
}

/// Counts a local write: `now` in place of what the group showed at the last fold, of which `before`
/// is the value that the table had. False if the group is no counter, or if the triggers were not
/// yet made for one: then it is written as any other group.
pub fn write(
    t: &Relation,
    g: usize,
    group: &mut GroupState,
    before: Option<&Value>,
    now: &Value,
    stamp: Stamp,
) -> bool {
    if !adds_up(t, g, group) {
        return false;
    }
    let base = match (&group.body, before) {
        (Body::Stored(cell), _) => cell.values.first().cloned().unwrap_or(Value::Null),
        (Body::InTable, Some(before)) => before.clone(),
        (Body::InTable, None) => return false,
    };
    let counts = std::mem::take(&mut group.counts);
    let mut counter = Counter { stamp: group.stamp, base, counts };
    if shown(t, g, &counter) != *now {
        counter.write(now, stamp, is_real(t, g));
    }
    store(t, g, group, counter);
    true
}

/// Counts an insert: from zero, also if the row was there before.
pub fn insert(
    t: &Relation,
    g: usize,
    group: &mut GroupState,
    again: bool,
    now: &Value,
    stamp: Stamp,
) {
    let real = is_real(t, g);
    let counter = match &group.body {
        Body::Stored(cell) if again => {
            let base = cell.values.first().cloned().unwrap_or(Value::Null);
            let counts = std::mem::take(&mut group.counts);
            let mut counter = Counter { stamp: group.stamp, base, counts };
            counter.reinsert(now, stamp, real);
            counter
        }
        _ => Counter::born(now, stamp, real),
    };
    group.body = Body::InTable;
    store(t, g, group, counter);
}

/// A column that is a reference too, by a schema or policy that came later, counts to no row.
fn store(t: &Relation, g: usize, group: &mut GroupState, counter: Counter) {
    group.stamp = counter.stamp;
    group.counts = counter.counts;
    if !group.counts.is_empty() {
        let refs = vec![None; t.table.groups[g].foreign_keys.len()];
        group.body = Body::Stored(Cell { values: vec![counter.base], refs });
    }
}

/// A column that became a text stores the sum as one.
fn shown(t: &Relation, g: usize, counter: &Counter) -> Value {
    let sum = counter.shown(is_real(t, g));
    match t.table.groups[g].columns.first() {
        Some(&c) => equal::stored(&sum, t.table.columns[c].affinity),
        None => sum,
    }
}

fn is_real(t: &Relation, g: usize) -> bool {
    let column = t.table.groups[g].columns.first();
    column.is_some_and(|&c| t.table.columns[c].affinity == Affinity::Real)
}
