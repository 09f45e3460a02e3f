//! Open conflict records: rows that do not show what was written, because a constraint would break.
//!
//! A record is derived from the state, so every site that has seen the same changes has the same
//! records under the same ids, and a record closes by itself when its obstacle goes.

use crate::catalog::Tracked;
use crate::merge::describe;
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::replica::Replica;
use crate::state::{self, Body, ENTRY_COLUMNS};
use crate::{Error, Result};
use rusqlite::Connection;
use synqlite_wire::{Rid, SiteId, Value};

/// One row that does not show what was written.
#[derive(Clone, Debug)]
pub struct Conflict {
    /// 32 hex digits, the same on every site.
    pub id: String,
    /// Table.
    pub table: String,
    /// The row, by its primary key.
    pub row: String,
    /// Kind, as in SEMANTICS 2.7.
    pub kind: String,
    /// The index or foreign key that would break; empty for a constraint on single rows.
    pub constraint: String,
    /// What the row shows, by column; empty if it is hidden.
    pub shown: Vec<(String, Value)>,
    /// What was written, by column.
    pub displaced: Vec<(String, Value)>,
    /// The row that has what this one asks for.
    pub winner: Option<String>,
    /// Who wrote the row, and when last, in milliseconds since 1970.
    pub sites: Vec<(SiteId, i64)>,
}

impl Replica {
    /// How many records are open.
    pub fn open_conflicts(&self) -> Result<u64> {
        let sql = "SELECT count(*) FROM synqlite_row WHERE kind IS NOT NULL";
        let count: i64 = self.conn.query_row(sql, [], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// The open records, in order of table and row.
    pub fn conflicts(&self) -> Result<Vec<Conflict>> {
        self.read(|conn, meta, loaded| {
            let mut out = Vec::new();
            for t in &loaded.catalog.tables {
                let lookup = Lookup { conn, meta, catalog: &loaded.catalog };
                of_table(lookup, t, &mut out)?;
            }
            out.sort_by(|a, b| (&a.table, &a.row, &a.id).cmp(&(&b.table, &b.row, &b.id)));
            Ok(out)
        })
    }
}

fn of_table(lookup: Lookup<'_>, t: &Tracked, out: &mut Vec<Conflict>) -> Result<()> {
    let Lookup { conn, meta, .. } = lookup;
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, kind, cons, winner FROM synqlite_row \
         WHERE +tbl = ?1 AND kind IS NOT NULL"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        let stored = state::decode(meta, t, row)?;
        let old = match &stored.loc {
            // The user has deleted or moved it since; the next fold settles the record.
            Some(loc) if !t.exists(conn, loc)? => continue,
            Some(loc) => t.read(conn, loc)?,
            None => None,
        };
        let mut written = vec![Value::Null; t.table.columns.len()];
        for (g, group) in t.table.groups.iter().enumerate() {
            let values: Vec<Value> = match (&stored.state.groups[g].body, &old) {
                (Body::Kept(cell), _) => cell.values.clone(),
                (Body::Shown, Some(old)) => group.columns.iter().map(|&c| old[c].clone()).collect(),
                (Body::Shown, None) => {
                    return Err(Error::Damaged("a hidden row has no values".into()));
                }
            };
            group.columns.iter().zip(values).for_each(|(&c, v)| written[c] = v);
        }
        for (g, group) in t.table.groups.iter().enumerate() {
            let Body::Kept(cell) = &stored.state.groups[g].body else { continue };
            for (&f, rid) in group.foreign_keys.iter().zip(&cell.refs) {
                if let Some(rid) = rid {
                    refer(lookup, t, f, rid, &mut written)?;
                }
            }
        }
        let named = |values: &[Value]| -> Vec<(String, Value)> {
            let names = t.table.columns.iter().map(|c| c.name.clone());
            names.zip(values.iter().cloned()).collect()
        };
        let (kind, constraint): (String, String) = (row.get(5)?, row.get(6)?);
        let winner: Option<Vec<u8>> = row.get(7)?;
        let winner = winner.map(|bytes| winner_text(meta, conn, t, &bytes)).transpose()?;
        let mut sites: Vec<(SiteId, i64)> = Vec::new();
        for stamp in stored.state.groups.iter().map(|g| g.stamp) {
            match sites.iter_mut().find(|(site, _)| *site == stamp.site) {
                Some((_, at)) => *at = (*at).max(stamp.hlc.ms()),
                None => sites.push((stamp.site, stamp.hlc.ms())),
            }
        }
        sites.sort();
        out.push(Conflict {
            id: record_id(&t.canonical, &kind, &constraint, &stored.rid),
            table: t.table.name.clone(),
            row: describe(t, Some(&written), &stored.rid),
            kind,
            constraint,
            shown: old.as_deref().map(named).unwrap_or_default(),
            displaced: named(&written),
            winner,
            sites,
        });
    }
    Ok(())
}

/// R-REF: a reference is to a row. The number it was written with may differ between sites; the key
/// that the row has does not.
fn refer(
    lookup: Lookup<'_>,
    t: &Tracked,
    f: usize,
    rid: &Rid,
    written: &mut [Value],
) -> Result<()> {
    let fk = &t.table.foreign_keys[f];
    let parent = lookup.parent(&fk.parent)?;
    let Some(stored) = state::of(lookup.conn, lookup.meta, parent, rid)? else { return Ok(()) };
    let shown = match &stored.loc {
        Some(loc) => parent.read(lookup.conn, loc)?,
        None => None,
    };
    for (&c, &p) in fk.columns.iter().zip(&fk.parent_columns) {
        let g = parent.table.columns[p].group;
        let i = parent.table.groups[g].columns.iter().position(|&x| x == p);
        let value = match (&shown, &stored.state.groups[g].body, i) {
            (Some(row), ..) => Some(row[p].clone()),
            (None, Body::Kept(cell), Some(i)) => cell.values.get(i).cloned(),
            _ => None,
        };
        written[c] = value.unwrap_or(Value::Null);
    }
    Ok(())
}

fn winner_text(meta: &Meta, conn: &Connection, t: &Tracked, bytes: &[u8]) -> Result<String> {
    let rid = state::decode_rid(meta, bytes)?;
    let stored = state::of(conn, meta, t, &rid)?;
    let row = match stored.and_then(|s| s.loc) {
        Some(loc) => t.read(conn, &loc)?,
        None => None,
    };
    Ok(describe(t, row.as_deref(), &rid))
}

/// The same on every site: from what identifies the row, not from local numbers.
pub(crate) fn record_id(table: &str, kind: &str, constraint: &str, rid: &Rid) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    for part in [table, kind, constraint] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(synqlite_wire::key::encode(&[synqlite_wire::key::KeyPart::Row(rid.clone())]));
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
