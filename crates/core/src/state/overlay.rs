//! A register of one schema joined into the group of another (R-JOIN, R-GROUP).
//!
//! The unit of the join is the column: each has the stamp of its latest write. A group only says
//! which columns are written together, so as long as two schemas agree on it all of its columns have
//! one stamp. Where they do not, columns of one group may differ in their stamps
//! ([`GroupState::apart`]), and sites still reach the same state whatever schema each had when.

use super::stash::Piece;
use super::{Body, GroupState};
use crate::catalog::Tracked;
use synqlite_view::join::tells_more;
use synqlite_wire::counter::join_count;
use synqlite_wire::{Cell, Stamp, Value};

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
    let mut counted = false;
    if piece.columns == nos && !piece.counts.is_empty() {
        let refs = vec![None; keys.len()];
        join_base(group, piece.stamp, &Cell { values: piece.cell.values.clone(), refs });
        for count in &piece.counts {
            counted |= join_count(&mut group.counts, count);
        }
    }
    let (later, same) = (piece.stamp > group.stamp, piece.keys.iter().eq(keys.iter().copied()));
    let more = same && tells_more(group, piece.stamp, &piece.cell);
    if piece.columns == nos && (later || more) {
        // Also under other foreign keys: what was shown before decides elsewhere (R-FALLBACK).
        let fit = |cell: &Cell| under_keys(cell, &piece.keys, keys.iter().copied());
        let (previous, body) = (piece.previous.as_ref().map(fit), Body::Stored(fit(&piece.cell)));
        let counts = std::mem::take(&mut group.counts);
        *group = GroupState { previous, body, counts, ..GroupState::shown(piece.stamp) };
        group.pinned = piece.pinned;
        return Ok(true);
    }
    let mut stamps: Vec<_> = (0..nos.len()).map(|i| group.column_stamp(i)).collect();
    let later = |i: &usize| piece.columns.contains(&nos[*i]) && piece.stamp > stamps[*i];
    let news: Vec<usize> = (0..nos.len()).filter(later).collect();
    if news.is_empty() {
        return Ok(counted);
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
    let counts = std::mem::take(&mut group.counts);
    *group = GroupState { body: Body::Stored(cell), counts, ..GroupState::shown(piece.stamp) };
    group.set_column_stamps(stamps);
    Ok(true)
}

/// A cell of the same columns under other foreign keys. A reference that it does not tell is to no row.
pub fn under_keys<'k>(
    cell: &Cell,
    keys: &[String],
    now: impl IntoIterator<Item = &'k String>,
) -> Cell {
    let reference = |name| cell.refs.get(keys.iter().position(|key| key == name)?)?.clone();
    Cell { values: cell.values.clone(), refs: now.into_iter().map(reference).collect() }
}

/// Joins the base of a counter that nobody has written, neither here nor where `cell` comes from: what
/// was counted there was counted over that. A row that was inserted counts from nothing, a column that
/// was added from its default; where sites disagree on which, nothing is the base.
pub fn join_base(group: &mut GroupState, stamp: Stamp, cell: &Cell) {
    if !stamp.is_zero() || !group.stamp.is_zero() {
        return;
    }
    if group.counts.is_empty() || cell.values.iter().all(Value::is_null) {
        group.body = Body::Stored(cell.clone());
    }
}
