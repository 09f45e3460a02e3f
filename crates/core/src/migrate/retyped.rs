//! Columns that are of another type since their table was rebuilt (R-FOLLOW).
//!
//! The copy stored each value as the new type does. What was written is kept, as where it comes from
//! another site, since others show it still, and the column may get its former type again.

use super::rebuild::written_since;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::equal::stored;
use crate::meta::Meta;
use crate::state::{self, Body};
use rusqlite::Connection;
use std::collections::BTreeMap;
use synqlite_wire::{Cell, Value};

/// Rows of a table, each with what columns, by position, showed before.
pub(super) type Retyped = BTreeMap<Loc, BTreeMap<usize, Value>>;

/// Whether the column stores what it showed before as what it shows now: else the copy changed it.
pub(super) fn is_stored(t: &Tracked, (c, was): (usize, &Value), row: &[Value]) -> bool {
    stored(was, t.table.columns[c].affinity) == row[c]
}

/// Keeps what these rows showed in columns that nobody has written since.
pub(super) fn keep(conn: &Connection, meta: &mut Meta, t: &Tracked, rows: Retyped) -> Result<()> {
    for (loc, was) in rows {
        let Some(mut stored) = state::at(conn, meta, t, &loc)? else { continue };
        let Some(row) = t.read(conn, &loc)? else { continue };
        let written = written_since(meta, t, &stored);
        let mut kept = false;
        for (group, of) in stored.state.groups.iter_mut().zip(&t.table.groups) {
            let shown = group.body == Body::InTable && group.counts.is_empty();
            let plain = of.foreign_keys.is_empty()
                && !of.columns.iter().any(|c| t.table.primary_key.contains(c));
            // What nobody has written is the default, which may be another now.
            let was = |(i, c): (usize, &usize)| {
                let unsaid = written.contains(c) || group.column_stamp(i).is_zero();
                was.get(c).filter(|_| !unsaid)
            };
            let columns = || of.columns.iter().enumerate();
            if shown && plain && columns().any(|c| was(c).is_some()) {
                let values = columns().map(|c| was(c).unwrap_or(&row[*c.1]).clone());
                group.body = Body::Stored(Cell { values: values.collect(), refs: vec![] });
                kept = true;
            }
        }
        if kept {
            state::put(conn, meta, t, &stored, None)?;
        }
    }
    Ok(())
}
