//! Tables that are there again under another name (R-MIG-RENAME).
//!
//! The triggers of a table tell that it was renamed. A table that was renamed and then rebuilt before any command
//! of ours has none: it seems that one table was dropped and another made. Other sites, where a command ran between,
//! know the two for one. So a table that is gone is looked for among those that were made since: it is the one that
//! has its rows, as sums of what rows showed tell; or its columns, if it had no rows.

use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::registry;
use crate::schema::{self, Selection, Table};
use crate::state::sums::Sums;
use crate::track;
use crate::work::Work;
use std::collections::BTreeSet;

/// So many rows of each are looked at.
const LOOKED_AT: usize = 10_000;

/// Takes note of the names that tables have now which are gone, and are there again under another name. Whether
/// there are any.
pub(super) fn find(work: &Work<'_>) -> Result<bool> {
    if track::is_caught_up(work.conn)? {
        return Ok(false);
    }
    let (lost, only) = (track::lost(work.conn)?, track::made_since(work.conn)?);
    if lost.is_empty() || only.is_empty() {
        return Ok(false);
    }
    let selection = Selection { only, ..Selection::default() };
    let mut made = schema::read(work.conn, &work.policies, &selection)?.tables;
    let mut any = false;
    for (no, canonical) in &lost {
        let holds = |table: &Table| holds(work, (*no, canonical), table, lost.len() == 1);
        let found: Vec<bool> = made.iter().map(holds).collect::<Result<_>>()?;
        // Of two that have its rows it cannot be told.
        if let (Some(at), 1) =
            (found.iter().position(|is| *is), found.iter().filter(|is| **is).count())
        {
            registry::call_table(work.conn, *no, &made.remove(at).name)?;
            any = true;
        }
    }
    Ok(any)
}

/// Whether a table has the rows that the one with this number had. `alone`: no other table is gone.
fn holds(
    work: &Work<'_>,
    (no, canonical): (u32, &str),
    table: &Table,
    alone: bool,
) -> Result<bool> {
    let conn = work.conn;
    let (relation, fresh) = track::as_another(conn, no, canonical, table.clone())?;
    let t = Tracked::from(relation);
    let lost = registry::lost_columns(conn, &t)?.len();
    // What says which row it is says nothing else of it.
    let alias = t.table.rowid_alias().map(|c| t.column_nos[c]);
    let is_common = |no: &&u32| !fresh.contains(no) && Some(**no) != alias;
    let common = t.column_nos.iter().filter(is_common).count();
    let sums = Sums::load(conn, &t)?;
    let had = sums.locs();
    if had.is_empty() {
        return Ok(alone && fresh.is_empty() && lost == 0);
    }
    if common == 0 || common < fresh.len() + lost {
        return Ok(false);
    }
    // What was inserted since says nothing against it.
    let looked_at: Vec<&Loc> = had.iter().take(LOOKED_AT).collect();
    let mut same = 0;
    for loc in &looked_at {
        let Some(row) = t.read(conn, loc)? else { continue };
        let compared = sums.compare(conn, &t, loc, &row, &BTreeSet::new())?;
        same += usize::from(compared.is_some_and(|c| c.touched.is_empty() && !c.one_of_them));
    }
    if 2 * same < looked_at.len() {
        let mut alike = sums.alike(&t, looked_at.iter().copied());
        same = 0;
        for loc in t.all_places(conn)?.iter().take(LOOKED_AT) {
            let row = t.read(conn, loc)?;
            same += usize::from(row.is_some_and(|row| alike.take(&t, &row).is_some()));
        }
    }
    Ok(2 * same >= looked_at.len())
}
