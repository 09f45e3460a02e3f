//! References that a policy declares after rows were written (R-LREF).
//!
//! Which row a value from before means, only a site that shows it can say: elsewhere that row may
//! have another number by now. So the site that sets the policy says it of every value that it shows,
//! and a site that receives it of those that it wrote itself, before it takes in anything that comes
//! with it. It is said as what cannot be told is ([`super::unsure`]), so that every certain write is
//! later, and who wrote a value knows better than who only shows it. All other values refer to nobody
//! until such a register comes.

use super::unsure::{LIKELY, PERHAPS, Unsure};
use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked, loc_sql};
use crate::fold;
use crate::meta::Meta;
use crate::schema::{ForeignKey, quote};
use crate::state::{self, Body, RowState};
use crate::track;
use rusqlite::Connection;
use synqlite_wire::Stamp;

/// Rows whose values of newly declared references say which row they mean. `own`: only of those that
/// this site wrote; the others are kept as values.
pub(super) fn bind(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    fresh: &[u32],
    own: bool,
) -> Result<Unsure> {
    let mut rows = Unsure::new();
    for f in unknown(conn, t, fresh)? {
        let fk = &t.table.foreign_keys[f];
        for loc in given(conn, t, fk)? {
            let Some(stored) = state::at(conn, meta, t, &loc)? else { continue };
            if stored.state.groups[t.table.columns[fk.columns[0]].group].body != Body::Shown {
                continue;
            }
            let mine = written(&stored.state, t, fk).site == meta.site;
            if own && !mine {
                fold::keep(conn, meta, catalog, t, &loc, &[f])?;
                continue;
            }
            let ticks = if mine { LIKELY } else { PERHAPS };
            let columns = rows.entry(loc).or_default();
            columns.extend(fk.columns.iter().map(|&c| (c, ticks)));
        }
    }
    Ok(rows)
}

/// Foreign keys by policy, by position, that the states of the table do not know yet. What a column that
/// is new itself shows nobody has written.
fn unknown(conn: &Connection, t: &Tracked, fresh: &[u32]) -> Result<Vec<usize>> {
    let was = track::units(conn, t.no)?;
    let known = |name: &String| was.iter().any(|(_, keys)| keys.contains(name));
    let keys = t.table.foreign_keys.iter().zip(&t.key_names).enumerate();
    let late = keys.filter(|(_, (fk, name))| {
        let new = fk.columns.iter().any(|&c| fresh.contains(&t.column_nos[c]));
        !fk.enforced && !known(name) && !new
    });
    Ok(late.map(|(f, _)| f).collect())
}

/// The latest write of a foreign key of a row; what nobody wrote is as old as the row.
fn written(state: &RowState, t: &Tracked, fk: &ForeignKey) -> Stamp {
    let stamps = fk.columns.iter().map(|&c| {
        let g = t.table.columns[c].group;
        let place = t.table.groups[g].columns.iter().position(|&x| x == c);
        state.groups[g].column_stamp(place.unwrap_or(0))
    });
    match stamps.max() {
        Some(stamp) if !stamp.is_zero() => stamp,
        _ => state.born_at(),
    }
}

/// Places of the rows of which no column of `fk` is NULL.
fn given(conn: &Connection, t: &Tracked, fk: &ForeignKey) -> Result<Vec<Loc>> {
    let given: Vec<_> = fk
        .columns
        .iter()
        .map(|&c| format!("c.{} IS NOT NULL", quote(&t.table.columns[c].name)))
        .collect();
    let loc = loc_sql(&t.table, "c.");
    let sql = format!("SELECT {loc} FROM {} AS c WHERE {}", t.target(), given.join(" AND "));
    let mut statement = conn.prepare(&sql)?;
    t.places(&mut statement, [])
}
