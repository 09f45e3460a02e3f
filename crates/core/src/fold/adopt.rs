//! Rows that a table has when it is taken in.

use super::append::is_named_by_key;
use super::{Died, Fold, Folded};
use crate::Result;
use crate::catalog::{Catalog, Fresh, Tracked};
use crate::journal::{Run, Written};
use crate::meta::{self, Meta};
use crate::schema::Identity;
use crate::state::{self, Name, Names, Runs, sums};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::Stamp;

/// Adopts every row that a table has when it becomes replicated: births at one stamp.
pub fn adopt(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    stamp: Stamp,
) -> Result<()> {
    let position = meta.position;
    let loc = crate::catalog::loc_sql(&t.table, "o.");
    if t.table.identity == Identity::Birth && t.table.rowid_name.is_some() {
        let sql = format!("SELECT min({loc}), max({loc}), count(*) FROM {} AS o", t.target());
        let (lo, hi, count): (Option<i64>, Option<i64>, i64) =
            conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let (Some(lo), Some(hi)) = (lo, hi) else { return Ok(()) };
        let site = meta.number(conn, stamp.site)?;
        // Few holes may be spanned where a rowid means the same for ever. A rebuild of the table
        // renumbers rowids that no column shows; then it must be known which of them had rows.
        let spared = if t.table.rowid_alias().is_some() { count } else { 0 };
        if let Some(span) = hi.checked_sub(lo).filter(|s| *s < count.saturating_add(spared)) {
            let first = meta::next_births(conn, span.saturating_add(1))?;
            let (names, hlc) = (Names::Births(first), stamp.hlc);
            let segment = state::Segment { lo, hi, site, names, hlc, position };
            segment.save(conn, t)?;
            return sums::take(conn, t, [(lo, hi)]);
        }
        let mut n = meta::next_births(conn, count)?;
        let mut statement =
            conn.prepare(&format!("SELECT {loc} FROM {} AS o ORDER BY 1", t.target()))?;
        let mut locs = statement.query([])?;
        let mut runs = Runs::default();
        while let Some(row) = locs.next()? {
            runs.add(conn, t, row.get(0)?, site, Name::Birth(n), stamp.hlc, position)?;
            n += 1;
        }
        return runs.finish(conn, t);
    }
    let mut runs = Runs::default();
    let mut fold = Fold {
        conn,
        meta,
        catalog,
        position,
        first: Some(stamp.hlc),
        last: stamp.hlc,
        done: Folded::default(),
        conflicts: false,
        waits: false,
        touched: vec![],
        acted: vec![],
        told: vec![],
        left: vec![],
        passed: vec![],
        took: vec![],
        unnamed: BTreeSet::new(),
        former: vec![],
        released: vec![],
        followed: BTreeSet::new(),
        orphaned: BTreeSet::new(),
        unresolved: vec![],
        enforces: false,
        lasting: BTreeSet::new(),
        history: false,
        adopts: true,
        stale: Fresh::new(),
        unknown: BTreeMap::new(),
    };
    if t.table.identity == Identity::Key && is_named_by_key(t) {
        let run = Run { lo: i64::MIN, hi: i64::MAX, at: 0 };
        fold.append_keyed(t, run, &Died::new(), &mut runs)?;
        return runs.finish(conn, t);
    }
    let sql = format!("SELECT {loc} FROM {} AS o ORDER BY 1", t.target());
    let mut statement = conn.prepare(&sql)?;
    let mut locs = statement.query([])?;
    while let Some(row) = locs.next()? {
        fold.insert(t, &t.place(row.get(0)?)?, 0, &Written::new(), &Died::new(), &mut runs)?;
    }
    runs.finish(conn, t)
}
