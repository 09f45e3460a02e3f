//! What was written past the triggers: by incremental blob I/O, which SQLite tells no trigger of, or with
//! triggers off (decision 042).
//!
//! The journal says nothing of it, but sums still say what the row showed at the last fold. So once such a
//! row is updated, the columns that are others count as written by that update: those that are declared to hold
//! blobs, which programs open so, whatever was updated; all, if an update left the row as it is. Without that the
//! row's next sum would hide for good that sites differ.

use super::plain::alone;
use crate::Result;
use crate::catalog::Tracked;
use crate::journal::Window;
use crate::state::sums;
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Adds to the columns that updates wrote those that were written past the triggers. The window must be of a
/// journal, and the table one whose rows are where that says.
pub fn uncaptured(conn: &Connection, t: &Tracked, window: &mut Window) -> Result<()> {
    let columns: BTreeSet<usize> = alone(t).collect();
    let mut comparison = sums::Comparison::new(conn, t, &columns);
    for (from, changed) in &mut window.changed {
        if changed.replaced.is_some() || changed.last == 0 {
            continue;
        }
        let others = if changed.idly {
            let unknown = |c: &usize| !changed.written.contains_key(&t.column_nos[*c]);
            let columns = columns.iter().copied().filter(unknown).collect();
            comparison.all((from, &changed.now), columns, changed.written.is_empty())?
        } else if comparison.has_blobs() {
            comparison.blobs(from, &changed.now)?
        } else {
            continue;
        };
        for c in others {
            changed.written.entry(t.column_nos[c]).or_insert(changed.last);
        }
    }
    Ok(())
}
