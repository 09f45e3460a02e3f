//! What was written past the triggers: by incremental blob I/O, which SQLite tells no trigger of, or with
//! triggers off.
//!
//! The journal says nothing of it, but sums still say what the row showed at the last fold. So once such a
//! row is updated, the columns that are others count as written by that update: those that a
//! program can open as a blob, which is looked at whatever was updated, or all, where the update leaves the
//! row as it is. Without that the row's next sum would hide for good that sites differ.

use super::plain::alone;
use crate::Result;
use crate::catalog::Tracked;
use crate::journal::Window;
use crate::schema::Affinity;
use crate::state::sums;
use rusqlite::Connection;

/// Adds to the columns that updates wrote those that were written past the triggers. The window must be of a
/// journal, and the table one whose rows are where that says.
pub fn uncaptured(conn: &Connection, t: &Tracked, window: &mut Window) -> Result<()> {
    let columns: Vec<usize> = alone(t).collect();
    let blob = |c: &usize| t.has_rowid() && t.table.columns[*c].affinity == Affinity::Blob;
    let blobs: Vec<usize> = columns.iter().copied().filter(blob).collect();
    let mut comparison = sums::Comparison::new(conn, t);
    for (from, changed) in &mut window.changed {
        let updated = changed.replaced.is_none() && changed.last > 0;
        let untouched = changed.written.is_empty();
        let looked_at = if untouched { &columns } else { &blobs };
        let unknown = |c: &usize| !changed.written.contains_key(&t.column_nos[*c]);
        let looked_at: Vec<usize> = looked_at.iter().copied().filter(unknown).collect();
        if !updated || looked_at.is_empty() {
            continue;
        }
        for c in comparison.others((from, &changed.now), looked_at, untouched)? {
            changed.written.insert(t.column_nos[c], changed.last);
        }
    }
    Ok(())
}
