//! What a replica keeps of a row besides what its table shows: registers that it does not show, and what
//! the row waits for.

use crate::affected::AffectedRow;
use crate::catalog::Catalog;
use crate::equal;
use crate::state::{self, Body, Waits};

/// Keeps in the state what the row does not show, and drops from it what it does. Returns whether
/// the state changed.
pub fn keep(catalog: &Catalog, item: &mut AffectedRow) -> bool {
    let (t, mut changed) = (&catalog.tables[item.table], false);
    for (g, group) in item.stored.state.groups.iter_mut().enumerate() {
        let cell = &item.cells[g];
        let follows = |i: usize, c: usize| {
            // A site where the column is of another type shows it as it was written.
            if equal::converted(&cell.values[i], t.table.columns[c].affinity).is_some() {
                return false;
            }
            let keys = t.table.groups[g].foreign_keys.iter().zip(&cell.refs);
            let mut covering = keys.filter(|(f, _)| t.table.foreign_keys[**f].columns.contains(&c));
            // What was written decides how a key is spelled, should it come back (R-SPELL).
            covering.any(|(&f, rid)| {
                rid.is_some() && equal::one_spelling(&t.table, &t.table.foreign_keys[f])
            })
        };
        let columns = t.table.groups[g].columns.iter().enumerate();
        let shown = item.new.as_ref().is_some_and(|new| {
            let shows = |(i, &c): (usize, &usize)| cell.values[i] == new[c] || follows(i, c);
            // A reference is found again by the key it shows, so one that shows NULL is kept; and so
            // is a value that refers to nobody, whoever has it for their key.
            let mut refs = t.table.groups[g].foreign_keys.iter().zip(&cell.refs);
            let found = refs.all(|(f, rid)| {
                let mut columns = t.table.foreign_keys[*f].columns.iter();
                rid.is_some() == columns.all(|&c| !new[c].is_null())
            });
            !item.derived.contains(&g) && found && columns.clone().all(shows)
        });
        let body = if shown && group.counts.is_empty() {
            Body::InTable
        } else {
            Body::Stored(cell.clone())
        };
        changed |= body != group.body;
        group.body = body;
    }
    changed
}

/// What an affected row waits for from now on.
pub fn waits<'c>(catalog: &Catalog, item: &'c AffectedRow) -> Waits<'c> {
    let t = &catalog.tables[item.table];
    // In a circle the winner may show another key than the one it won, so the loser waits for the row.
    let winner = item.winner.as_ref().filter(|_| catalog.is_in_circle(item.table));
    let kept_back = item.conflict.is_some();
    let mut references = state::kept_references(catalog, t, &item.stored, kept_back);
    references.extend(winner.map(|rid| (t.no, rid)));
    let claims = item.claims.iter().map(|(u, key)| (t.no, u.as_str(), key.as_slice()));
    Waits {
        references,
        claims: claims.collect(),
        conflict: item.conflict.as_ref().map(|c| (&c.kind, c.constraint.as_str())),
        winner: item.winner.as_ref(),
    }
}
