//! Rows that were only updated elsewhere, in columns on which nothing else depends.
//!
//! Most updates are such. If nothing waits here for a row or a key, the later write of each column is
//! shown, whatever other rows show. So these rows are written at once, before the others are joined,
//! as if an earlier merge had brought them; one that SQLite refuses is joined with the others, as is
//! every row of which more has to be decided than which write is the later.

use super::apply::constraint;
use super::join::{Matched, Place, fits};
use super::told::unseen;
use super::{Merged, MergedRows, Site};
use crate::catalog::{Catalog, Loc, Tracked};
use crate::equal;
use crate::meta::Meta;
use crate::policy::Policies;
use crate::state::{self, Body, GroupState, Stored};
use crate::{Error, Result};
use rusqlite::{CachedStatement, Connection};
use synqlite_wire::{Header, Register, RowChange, Value, VersionVector};

/// Writes such rows. Returns the others, in their order.
pub(super) fn write(
    site: &mut Site<'_>,
    tables: &[Option<Matched>],
    sender: &VersionVector,
    rows: Vec<RowChange>,
    merged: &mut Merged,
) -> Result<Vec<RowChange>> {
    let Site { conn, meta, catalog, policies } = site;
    if state::anyone_waits(conn)? || !super::triggers::firing(conn, policies)?.is_empty() {
        return Ok(rows);
    }
    let mut lanes = Vec::new();
    for matched in tables {
        lanes.push(match matched {
            Some(matched) => Lane::new(conn, catalog, policies, matched)?,
            None => None,
        });
    }
    let mut rest = Vec::new();
    for change in rows {
        let done = match &mut lanes[change.table as usize] {
            Some(lane) => lane.write(meta, sender, &change, merged)?,
            None => false,
        };
        if !done {
            rest.push(change);
        }
    }
    Ok(rest)
}

/// A table of which such rows come.
struct Lane<'a> {
    conn: &'a Connection,
    t: &'a Tracked,
    matched: &'a Matched,
    /// The columns that the row before changed, and the statement that does.
    update: Option<(Vec<usize>, CachedStatement<'a>)>,
}

impl<'a> Lane<'a> {
    /// `None` if other writes of a row than the latest decide on it.
    fn new(
        conn: &'a Connection,
        catalog: &'a Catalog,
        policies: &Policies,
        matched: &'a Matched,
    ) -> Result<Option<Lane<'a>>> {
        let Place::Here(position) = matched.place else { return Ok(None) };
        let t = &catalog.tables[position];
        // Where a write revives its row or rows share a wish for a number, the view decides.
        let shares_wishes = t.table.own_number().is_none() && state::any_pending(conn, t.no)?;
        if policies.last_write_decides(&t.table.name) || shares_wishes {
            return Ok(None);
        }
        Ok(Some(Lane { conn, t, matched, update: None }))
    }

    /// Writes the row if it is one of those. Says whether it was.
    fn write(
        &mut self,
        meta: &mut Meta,
        sender: &VersionVector,
        change: &RowChange,
        merged: &mut Merged,
    ) -> Result<bool> {
        let (conn, t) = (self.conn, self.t);
        let news: Option<Vec<(usize, &Register)>> =
            change.registers.iter().map(|r| self.alone(r)).collect();
        let Some(news) = news.filter(|news| !news.is_empty()) else { return Ok(false) };
        if change.header != Header::born(change.header.inserted) {
            return Ok(false);
        }
        let Some(mut stored) = state::of(conn, meta, t, &change.rid)? else { return Ok(false) };
        let Some(loc) = stored.loc.clone() else { return Ok(false) };
        let later = |(g, register): &(usize, &Register)| {
            let ours = &stored.state.groups[*g];
            register.stamp > ours.stamp && !unseen(meta, sender, ours.stamp, register.stamp)
        };
        if !is_simple(&stored, &change.header) || !news.iter().all(later) {
            return Ok(false);
        }
        let old = state::shown(conn, t, &loc)?;
        let mut new = old.clone();
        for (g, register) in &news {
            let columns = t.table.groups[*g].columns.iter().zip(&register.cell.values);
            columns.for_each(|(&c, value)| new[c] = value.clone());
            stored.state.groups[*g] = GroupState::shown(register.stamp);
        }
        let differs: Vec<usize> = (0..new.len()).filter(|&c| old[c] != new[c]).collect();
        if !differs.is_empty() {
            match self.update(&loc, differs, &new).map_err(|e| constraint(t, e)) {
                Ok(()) => {
                    merged.count(&t.table.name, MergedRows { updated: 1, ..MergedRows::default() })
                }
                Err(Error::Constraint { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        state::put(conn, meta, t, &stored, Some(meta.local_seq))?;
        merged.rows += 1;
        merged.columns += news.len() as u64;
        Ok(true)
    }

    /// The group that a register writes, if nothing depends on the group but what it shows.
    fn alone<'r>(&self, register: &'r Register) -> Option<(usize, &'r Register)> {
        let unit = &self.matched.groups[register.group as usize];
        let group = &self.t.table.groups[unit.exact?];
        // What a column stores otherwise is kept as it was written.
        let keeps =
            |(&c, value): (&usize, _)| equal::keeps(value, self.t.table.columns[c].affinity);
        let numbers = self.t.table.own_number().is_some_and(|alias| group.columns.contains(&alias));
        let alone = !group.keeps_previous
            && !numbers
            && !group.counter
            && group.foreign_keys.is_empty()
            && register.previous.is_none()
            && register.counts.is_empty()
            && !register.pinned
            && fits(self.t, unit, register).is_ok()
            && group.columns.iter().zip(&register.cell.values).all(keeps);
        alone.then_some((unit.exact?, register))
    }

    /// Sets columns of the row at `loc`.
    fn update(&mut self, loc: &Loc, columns: Vec<usize>, row: &[Value]) -> Result<()> {
        if self.update.as_ref().is_none_or(|(last, _)| *last != columns) {
            let statement = self.conn.prepare_cached(&self.t.update_sql(&columns))?;
            self.update = Some((columns, statement));
        }
        let Some((columns, statement)) = &mut self.update else { return Ok(()) };
        self.t.update_with(statement, loc, columns, row)
    }
}

/// Whether the row was inserted once, as its change says, and shows all that was written.
fn is_simple(stored: &Stored, header: &Header) -> bool {
    stored.state.header == *header
        && stored.state.groups.iter().all(|group| {
            group.body == Body::InTable
                && group.column_stamps.is_empty()
                && group.counts.is_empty()
                && group.previous.is_none()
                && !group.pinned
        })
}
