//! R-MAT: what a merge shows by looking at some rows must be what it would show by looking at all.
//!
//! The view is computed with every row of the database as an affected one, and compared with the tables and
//! the records. Nothing is written. It takes the memory and the time that all rows take.

use super::sqlfacts::SqlFacts;
use synqlite_view::ConflictKind;
use synqlite_view::affected::{AffectedRows, Refused};
use synqlite_view::view;

use crate::Result;
use crate::catalog::Catalog;
use crate::count::Count;
use crate::describe::row_name;
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::state;
use rusqlite::{Connection, params};

/// Where the tables and the records are not what all states together mean: (table, row, what). The
/// journal must be empty.
pub(crate) fn differences(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    policies: &Policies,
    mut count: Count<'_>,
) -> Result<Vec<(String, String, String)>> {
    let facts = SqlFacts::new(Lookup { conn, meta, catalog });
    let mut affected = AffectedRows::new(catalog, policies, &facts)?;
    for (table, t) in catalog.tables.iter().enumerate() {
        let loc = crate::catalog::loc_sql(&t.table, "o.");
        let mut statement = conn.prepare(&format!("SELECT {loc} FROM {} AS o", t.target()))?;
        for loc in t.places(&mut statement, [])? {
            affected.load_at(table, &loc)?;
            count.add(1);
        }
        let sql = "SELECT id FROM synqlite_row WHERE tbl = ?1 AND loc IS NULL";
        let mut statement = conn.prepare(sql)?;
        let entries = statement.query_map([t.no], |row| row.get(0))?;
        for entry in entries.collect::<rusqlite::Result<Vec<i64>>>()? {
            affected.load_entry(entry)?;
        }
    }
    affected.refuse(&refused(conn, meta, catalog)?)?;
    let view = view::settle(&mut affected, true)?;
    let mut found = Vec::new();
    for item in view::decide(affected, view) {
        let t = &catalog.tables[item.table];
        let recorded = match item.stored.entry {
            Some(entry) => state::conflict(conn, entry)?,
            None => None,
        };
        let Some(what) = item.difference(recorded) else { continue };
        let (row, stored) = (item.old.as_deref().or(item.new.as_deref()), &item.stored);
        let row = row_name(t, row, stored.loc.as_ref(), &stored.state, &stored.rid);
        found.push((t.table.name.clone(), row, what));
    }
    Ok(found)
}

/// Rows that SQLite did not take in the merge that last looked at them.
fn refused(conn: &Connection, meta: &Meta, catalog: &Catalog) -> Result<Refused> {
    let mut found = Refused::new();
    for (table, t) in catalog.tables.iter().enumerate() {
        let sql = "SELECT rid FROM synqlite_row WHERE kind = ?2 AND +tbl = ?1";
        let mut statement = conn.prepare_cached(sql)?;
        let refused = ConflictKind::Refused;
        let rids = statement.query_map(params![t.no, refused.as_str()], |row| row.get(0))?;
        for rid in rids.collect::<rusqlite::Result<Vec<Vec<u8>>>>()? {
            found.insert((table, state::decode_rid(meta, &rid)?));
        }
    }
    Ok(found)
}
