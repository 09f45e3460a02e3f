//! References between values and rows (R-REF).

use crate::catalog::Relation;
use crate::equal;
use crate::schema::{Affinity, ForeignKey};
use synqlite_wire::{Cell, Rid, Value};

/// Shows in a row the key of the row to which a foreign key of its table refers; as the row spells it if
/// it means that key already (R-SPELL).
pub fn show_key(t: &Relation, fk: &ForeignKey, parent: &[Value], row: &mut [Value]) {
    let written: Vec<&Value> = fk.columns.iter().map(|&c| &row[c]).collect();
    let key: Vec<&Value> = fk.parent_columns.iter().map(|&p| &parent[p]).collect();
    let affinities: Vec<Affinity> =
        fk.columns.iter().map(|&c| t.table.columns[c].affinity).collect();
    let shown = equal::spelled(fk, &written, &key, &affinities);
    fk.columns.iter().zip(shown).for_each(|(&c, value)| row[c] = value);
}

/// Values and references of one group of a row that shows `row`.
pub fn cell<E>(
    t: &Relation,
    group: usize,
    row: &[Value],
    refers: impl FnMut(usize) -> Result<Option<Rid>, E>,
) -> Result<Cell, E> {
    let group = &t.table.groups[group];
    let values = group.columns.iter().map(|&c| row[c].clone()).collect();
    let refs = group.foreign_keys.iter().copied().map(refers);
    Ok(Cell { values, refs: refs.collect::<Result<_, E>>()? })
}
