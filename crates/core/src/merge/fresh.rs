//! Rows that nobody here has seen, and that nothing but themselves decides on.
//!
//! Most rows of most merges are such: inserted elsewhere, never written since, in a table without
//! foreign keys. If nothing waits here for a row or a key, they show what was inserted or collide
//! with another row. So they are inserted at once, before the others are joined, as if an earlier
//! merge had brought them; one of which SQLite says that it collides is joined with the others. Their
//! states are segments, so what a row costs is one INSERT.

use super::Merged;
use super::apply::constraint;
use super::join::{Matched, Place};
use crate::catalog::{Catalog, Loc, Tracked};
use crate::meta::Meta;
use crate::policy::Policies;
use crate::schema::Identity;
use crate::sqlvalue::Bind;
use crate::state::{self, Name, RowState, Runs, Stored};
use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::BTreeMap;
use synqlite_wire::{Delta, Header, Rid, RowChange, SiteId, Value};

/// Inserts such rows of `delta`. Says of each row whether it is done.
pub(super) fn insert(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    tables: &[Option<Matched>],
    delta: &Delta,
    merged: &mut Merged,
) -> Result<Vec<bool>> {
    let mut done = vec![false; delta.rows.len()];
    if state::anyone_waits(conn)? || !policies.list("fire_on_merge").is_empty() {
        return Ok(done);
    }
    for (table, matched) in tables.iter().enumerate() {
        let Some(matched) = matched else { continue };
        let Place::Here(position) = matched.place else { continue };
        let t = &catalog.tables[position];
        let Some(mut lane) = Lane::new(conn, t, matched)? else { continue };
        let mut statement = conn.prepare(&t.insert_sql())?;
        let mut placed: Vec<(i64, &RowChange)> = Vec::new();
        for (done, change) in done.iter_mut().zip(&delta.rows) {
            if change.table as usize != table || !lane.takes(conn, meta, change)? {
                continue;
            }
            for (parameter, &at) in (1..).zip(&lane.columns) {
                statement.raw_bind_parameter(parameter, Bind(value(change, at)))?;
            }
            match statement.raw_execute().map_err(|e| constraint(t, e.into())) {
                Ok(_) => {}
                Err(Error::Constraint { .. }) => continue,
                Err(error) => return Err(error),
            }
            placed.push((conn.last_insert_rowid(), change));
            merged.columns += change.registers.len() as u64;
            *done = true;
        }
        merged.inserted += placed.len() as u64;
        merged.rows += placed.len() as u64;
        placed.sort_by_key(|(rowid, _)| *rowid);
        save(conn, meta, t, &placed)?;
    }
    Ok(done)
}

/// Where a column is in a change: position of the register, and of the value in its cell.
type At = (usize, usize);

fn value(change: &RowChange, (register, place): At) -> &Value {
    &change.registers[register].cell.values[place]
}

/// A table of which such rows come.
struct Lane<'a> {
    t: &'a Tracked,
    /// Where its columns are.
    columns: Vec<At>,
    /// Number of values in each register.
    widths: Vec<usize>,
    /// Whether this file has or had rows of the table.
    known: bool,
    /// Latest birth taken, by site.
    births: BTreeMap<SiteId, u64>,
}

impl Lane<'_> {
    /// `None` if more than a row itself decides what it shows, or the sender has other columns.
    fn new<'a>(conn: &Connection, t: &'a Tracked, matched: &Matched) -> Result<Option<Lane<'a>>> {
        let groups = &t.table.groups;
        let simple = t.has_rowid()
            && t.table.foreign_keys.is_empty()
            && !groups.iter().any(|group| group.counter)
            && matched.units.len() == groups.len();
        let unit = |g| matched.units.iter().position(|unit| unit.exact == Some(g));
        let at = |(c, column): (usize, &crate::schema::Column)| {
            Some((unit(column.group)?, groups[column.group].columns.iter().position(|&x| x == c)?))
        };
        let columns: Option<Vec<At>> = t.table.columns.iter().enumerate().map(at).collect();
        let Some(columns) = columns.filter(|_| simple) else { return Ok(None) };
        // Who has got another number than it asked for may want one that a new row takes.
        let sql = "SELECT 1 FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL \
                   AND loc IS NOT NULL";
        if conn.prepare_cached(sql)?.exists([t.no])? {
            return Ok(None);
        }
        let sql = format!(
            "SELECT EXISTS(SELECT 1 FROM synqlite_row WHERE tbl = ?1) \
             OR EXISTS(SELECT 1 FROM {})",
            t.target()
        );
        let known = conn.query_row(&sql, [t.no], |row| row.get(0))?;
        let widths = matched.units.iter().map(|unit| unit.columns.len()).collect();
        Ok(Some(Lane { t, columns, widths, known, births: BTreeMap::new() }))
    }

    /// Whether the row was inserted and never written since, and is not known here.
    fn takes(&mut self, conn: &Connection, meta: &Meta, change: &RowChange) -> Result<bool> {
        let (t, inserted) = (self.t, change.header.inserted);
        let plain = !inserted.is_zero()
            && change.header == Header::born(inserted)
            && change.registers.len() == self.widths.len()
            && change.registers.iter().zip(&self.widths).enumerate().all(|(i, (r, width))| {
                r.group as usize == i
                    && (r.stamp, r.pinned) == (inserted, false)
                    && r.previous.is_none()
                    && r.counts.is_empty()
                    && r.cell.refs.is_empty()
                    && r.cell.values.len() == *width
            });
        if !plain {
            return Ok(false);
        }
        match (&change.rid, t.table.identity) {
            (Rid::Birth { site, n }, Identity::Birth) => {
                let alias = t.table.rowid_alias();
                let numbered = |c: usize| value(change, self.columns[c]).as_integer().is_some();
                let takes = *site == inserted.site
                    && i64::try_from(*n).is_ok()
                    && !meta.seen.covers(inserted)
                    && alias.is_none_or(numbered)
                    && self.births.get(site).is_none_or(|latest| latest < n);
                if takes {
                    self.births.insert(*site, *n);
                }
                Ok(takes)
            }
            (Rid::Key { key, generation: 0 }, Identity::Key) => Ok(state::names_itself(t, key)
                && t.key_of_values(|c| value(change, self.columns[c])) == *key
                && (!self.known || state::of(conn, meta, t, &change.rid)?.is_none())),
            _ => Ok(false),
        }
    }
}

/// Saves the states of rows in ascending order of rowid.
fn save(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    placed: &[(i64, &RowChange)],
) -> Result<()> {
    let (mut runs, position) = (Runs::default(), meta.position);
    for &(rowid, RowChange { rid, header, .. }) in placed {
        let stamp = header.inserted;
        let site = meta.number(conn, stamp.site)?;
        let name = match rid {
            Rid::Birth { n, .. } => Name::Birth(*n as i64),
            Rid::Key { key, .. } => Name::Key(key),
        };
        if !runs.add(conn, t, rowid, site, name, stamp.hlc, position)? {
            let (loc, state) = (Some(Loc::Row(rowid)), RowState::born(t, stamp));
            let stored = Stored { entry: None, rid: rid.clone(), loc, position, state };
            state::put(conn, meta, t, &stored, Some(position))?;
        }
    }
    runs.finish(conn, t)
}
