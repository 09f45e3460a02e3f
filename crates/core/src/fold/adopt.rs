//! Rows that a table has when it is taken in.

use super::Fold;
use super::append::is_named_by_key;
use super::before::Died;
use super::given::Given;
use super::stamps::Stamps;
use crate::Result;
use crate::catalog::{Catalog, Tracked};
use crate::count::Count;
use crate::env::Environment;
use crate::journal::{Born, Run};
use crate::meta::Meta;
use crate::progress::Phase;
use crate::schema::Identity;
use crate::state::{Inserted, Name, Runs};
use rusqlite::Connection;
use synqlite_wire::Stamp;

/// Adopts every row that a table has when it becomes replicated: births at one stamp.
pub fn adopt(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    stamp: Stamp,
    env: &dyn Environment,
) -> Result<()> {
    let mut runs = Runs::default();
    let loc = crate::catalog::loc_sql(&t.table, "o.");
    if t.table.identity == Identity::Birth && t.table.rowid_name.is_some() {
        let sql = format!("SELECT min({loc}), max({loc}), count(*) FROM {} AS o", t.target());
        let (lo, hi, count): (Option<i64>, Option<i64>, i64) =
            conn.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let (Some(lo), Some(hi)) = (lo, hi) else { return Ok(()) };
        let by = Inserted::at(conn, meta, stamp, meta.local_seq)?;
        // Few holes may be spanned where a rowid means the same for ever. A rebuild of the table
        // renumbers rowids that no column shows; then it must be known which of them had rows.
        let spared = if t.table.rowid_alias().is_some() { count } else { 0 };
        if let Some(span) = hi.checked_sub(lo).filter(|s| *s < count.saturating_add(spared)) {
            let n = runs.next_births(conn, span as u64 + 1)?;
            runs.add_births(conn, t, (lo, hi), n, by)?;
            return runs.finish(conn, t);
        }
        let mut n = runs.next_births(conn, count as u64)?;
        let mut statement =
            conn.prepare(&format!("SELECT {loc} FROM {} AS o ORDER BY 1", t.target()))?;
        let mut locs = statement.query([])?;
        while let Some(row) = locs.next()? {
            runs.add(conn, t, row.get(0)?, Name::Birth(n), by)?;
            n += 1;
        }
        return runs.finish(conn, t);
    }
    let given = Given { adopts: true, ..Given::default() };
    let stamps = Stamps::all_at(meta, stamp.hlc);
    let sql = format!("SELECT count(*) FROM {}", t.target());
    let all: i64 = conn.query_row(&sql, [], |row| row.get(0))?;
    let count = Count::new(env, Phase::Init, Some(all.unsigned_abs()));
    let mut fold = Fold::new(conn, meta, catalog, (given, stamps, count));
    if t.table.identity == Identity::Key && is_named_by_key(t) {
        let run = Run { lo: i64::MIN, hi: i64::MAX, at: 0 };
        fold.append_keyed(t, run, &Died::new(), &mut runs)?;
        return runs.finish(conn, t);
    }
    let sql = format!("SELECT {loc} FROM {} AS o ORDER BY 1", t.target());
    let mut statement = conn.prepare(&sql)?;
    let mut locs = statement.query([])?;
    while let Some(row) = locs.next()? {
        fold.insert(t, &t.place(row.get(0)?)?, &Born::at(0), &Died::new(), &mut runs)?;
    }
    runs.finish(conn, t)
}
