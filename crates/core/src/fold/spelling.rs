//! References whose key is spelled otherwise than the row spells it to which they are (R-SPELL).

use super::Fold;
use super::change::Update;
use crate::Result;
use crate::catalog::Tracked;
use crate::equal;
use crate::refs;
use crate::schema::Affinity;
use crate::state::{self, Body, GroupState};
use synqlite_wire::{Cell, Rid, Value};

impl Fold<'_> {
    /// R-SPELL: whether a row shows the key of the row that it refers to as it would by itself, or
    /// somebody has spelled it anew.
    pub(super) fn is_spelled(&self, update: &Update<'_>, f: usize, rid: &Rid) -> Result<bool> {
        let Update { t, g, old, body, new, .. } = *update;
        let fk = &t.table.foreign_keys[f];
        if equal::one_spelling(&t.table, fk) {
            return Ok(true);
        }
        let lookup = self.lookup();
        let parent = lookup.parent(&fk.parent)?;
        let stored = state::of(self.conn, self.meta, parent, rid)?;
        let Some(loc) = stored.and_then(|stored| stored.loc) else { return Ok(true) };
        let Some(key) = parent.read(self.conn, &loc)? else { return Ok(true) };
        let mut row = old.to_vec();
        if let Body::Stored(cell) = body {
            let columns = &t.table.groups[g].columns;
            columns.iter().zip(&cell.values).for_each(|(&c, v)| row[c] = v.clone());
        }
        refs::show_key(t, fk, &key, &mut row);
        Ok(fk.columns.iter().all(|&c| row[c] == new[c]))
    }
}

/// R-SPELL: a reference that followed its row's key keeps what was written, if that spells the key in
/// its own way whenever it comes back. Returns whether it did not before.
pub(super) fn keep_spelling(t: &Tracked, g: usize, group: &mut GroupState, written: &Cell) -> bool {
    let keys = t.table.groups[g].foreign_keys.iter().map(|&f| &t.table.foreign_keys[f]);
    let keeps = group.body == Body::InTable
        && !keys.into_iter().all(|fk| equal::one_spelling(&t.table, fk));
    if keeps {
        group.body = Body::Stored(written.clone());
    }
    keeps
}

/// Whether a key was written in another type, which the journal may not tell: SQLite converts what the
/// trigger compares as it looks for rows that refer to it.
pub(super) fn respelled(t: &Tracked, g: usize, old: &[Value], new: &[Value]) -> bool {
    let group = &t.table.groups[g];
    let alike = |a: &Value, b: &Value| {
        let as_one = |affinity| equal::stored(a, affinity) == equal::stored(b, affinity);
        [Affinity::Numeric, Affinity::Text].into_iter().any(as_one)
    };
    t.converts_old
        && group.keeps_previous
        && group.columns.iter().any(|&c| {
            let stored = equal::stored(&old[c], t.table.columns[c].affinity);
            stored != new[c] && alike(&stored, &new[c])
        })
}
