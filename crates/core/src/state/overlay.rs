//! A register of one schema joined into the group of another (R-JOIN, R-GROUP).
//!
//! The unit of the join is the column: each has the stamp of its latest write. A group only says
//! which columns are written together, so as long as two schemas agree on it all of its columns have
//! one stamp. Where they do not, columns of one group may differ in their stamps
//! ([`GroupState::apart`]), and sites still reach the same state whatever schema each had when.

use super::stash::Piece;
use super::{Body, GroupState};
use crate::catalog::Tracked;
use synqlite_wire::{Cell, Value};

/// Joins `piece` into group `g` of the table. `before` gives what the group holds so far. Returns
/// whether the piece was news.
pub fn overlay<E>(
    t: &Tracked,
    g: usize,
    group: &mut GroupState,
    piece: &Piece,
    before: impl FnOnce(&GroupState) -> Result<Cell, E>,
) -> Result<bool, E> {
    let of = &t.table.groups[g];
    let nos: Vec<u32> = of.columns.iter().map(|&c| t.column_nos[c]).collect();
    let keys: Vec<&String> = of.foreign_keys.iter().map(|&f| &t.key_names[f]).collect();
    if piece.stamp > group.stamp && piece.columns == nos && piece.keys.iter().eq(keys) {
        let (previous, body) = (piece.previous.clone(), Body::Kept(piece.cell.clone()));
        *group = GroupState { previous, body, ..GroupState::shown(piece.stamp) };
        group.pinned = piece.pinned;
        return Ok(true);
    }
    let mut stamps: Vec<_> = (0..nos.len()).map(|i| group.column_stamp(i)).collect();
    let later = |i: &usize| piece.columns.contains(&nos[*i]) && piece.stamp > stamps[*i];
    let news: Vec<usize> = (0..nos.len()).filter(later).collect();
    if news.is_empty() {
        return Ok(false);
    }
    let mut cell = before(group)?;
    for &i in &news {
        stamps[i] = piece.stamp;
        if let Some(from) = piece.columns.iter().position(|no| *no == nos[i]) {
            cell.values[i] = piece.cell.values.get(from).cloned().unwrap_or(Value::Null);
        }
    }
    // A reference that the piece does not tell is to whatever row has the key.
    for (place, &f) in of.foreign_keys.iter().enumerate() {
        let columns = &t.table.foreign_keys[f].columns;
        if of.columns.iter().enumerate().any(|(i, c)| news.contains(&i) && columns.contains(c)) {
            let from = piece.keys.iter().position(|key| *key == t.key_names[f]);
            cell.refs[place] = from.and_then(|from| piece.cell.refs.get(from)?.clone());
        }
    }
    *group = GroupState { body: Body::Kept(cell), ..GroupState::shown(piece.stamp) };
    group.set_column_stamps(stamps);
    Ok(true)
}
