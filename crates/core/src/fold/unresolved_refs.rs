//! Values of foreign keys that name no row (R-REF).
//!
//! Such a value is a reference to the row that has it for its key when it is written. Where nothing
//! keeps a foreign key there may be none; then it refers to nobody for good, whoever takes the key
//! later. A register that is what its table shows cannot say that, because its references are found
//! again by their values. So it is kept.
//!
//! A number of one site that a row had when it went is another matter: it is that row's for good (R-OWN).

use super::Fold;
use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked};
use crate::equal;
use crate::journal::Run;
use crate::meta::Meta;
use crate::refs::{Lookup, dangling, names_nobody};
use crate::schema::{Affinity, ForeignKey, quote};
use crate::sqlvalue::Located;
use crate::state::{self, Body, Stored, Waits};
use rusqlite::Connection;
use synqlite_wire::{Rid, Value};

impl Fold<'_> {
    /// Whether a row that the application wrote with foreign keys off lacks a parent which merges
    /// would ask for. Remembers a row whose parent is lacking where they would not.
    pub(super) fn dangles(&mut self, t: &Tracked, loc: &Loc, row: &[Value]) -> Result<bool> {
        let mut unresolved = false;
        for fk in &t.table.foreign_keys {
            let lookup = self.lookup();
            let parent = lookup.parent(&fk.parent)?;
            if let Some(key) = fk.key_of(row)
                && parent.find_parents(self.conn, fk, &key)?.is_empty()
            {
                if self.given.keeps(fk) {
                    return Ok(true);
                }
                unresolved = true;
            }
        }
        if unresolved {
            self.refs.names_nobody(t, loc.clone());
        }
        Ok(false)
    }

    /// The same of the rows of a run.
    pub(super) fn any_dangles(&mut self, t: &Tracked, run: Run) -> Result<bool> {
        let Some(rowid) = t.table.rowid_name.as_ref() else { return Ok(false) };
        let (lookup, mut unresolved) = (self.lookup(), Vec::new());
        for fk in &t.table.foreign_keys {
            let sql = format!(
                "SELECT c.{1} FROM {} AS c WHERE c.{1} BETWEEN ?1 AND ?2 AND {2}",
                t.target(),
                quote(rowid),
                names_nobody(t, lookup.parent(&fk.parent)?, fk)
            );
            let mut statement = self.conn.prepare_cached(&sql)?;
            let mut rows = statement.query([run.lo, run.hi])?;
            while let Some(row) = rows.next()? {
                if self.given.keeps(fk) {
                    return Ok(true);
                }
                let Located(loc) = row.get(0)?;
                unresolved.push(loc);
            }
        }
        unresolved.into_iter().for_each(|loc| self.refs.names_nobody(t, loc));
        Ok(false)
    }

    pub(super) fn keep_noted_unresolved(&mut self) -> Result<()> {
        for (position, loc) in std::mem::take(&mut self.refs.unresolved) {
            let t = &self.catalog.tables[position];
            self.refer_to_gone(t, &loc)?;
            keep(self.conn, self.meta, self.catalog, t, &loc, &[])?;
        }
        Ok(())
    }

    /// R-OWN: lets numbers that this fold found in a row, and that nothing keeps, be to the rows which had
    /// them when they went.
    fn refer_to_gone(&mut self, t: &Tracked, loc: &Loc) -> Result<()> {
        let Some(row) = t.read(self.conn, loc)? else { return Ok(()) };
        let Some(mut stored) = state::at(self.conn, self.meta, t, loc)? else { return Ok(()) };
        let (lookup, mut changed) = (self.lookup(), false);
        for (g, group) in stored.state.groups.iter_mut().enumerate() {
            if group.body != Body::InTable || !self.stamps.gave(group.stamp) {
                continue;
            }
            let (mut cell, mut refers) = (lookup.cell(t, g, &row)?, false);
            for (&f, rid) in t.table.groups[g].foreign_keys.iter().zip(&mut cell.refs) {
                let fk = &t.table.foreign_keys[f];
                if rid.is_none() && !self.given.keeps(fk) {
                    *rid = gone(lookup, lookup.parent(&fk.parent)?, fk, &row)?;
                    refers |= rid.is_some();
                }
            }
            if refers {
                (group.body, changed) = (Body::Stored(cell), true);
            }
        }
        match changed {
            true => save(self.conn, self.meta, self.catalog, t, &stored),
            false => Ok(()),
        }
    }
}

/// Keeps what names nobody in the rows of a table that are there when it, or a foreign key of it,
/// becomes known. `enforces`: whether merges keep foreign keys.
pub fn keep_unresolved(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    enforces: bool,
) -> Result<()> {
    for fk in t.table.foreign_keys.iter().filter(|fk| !(fk.enforced && enforces)) {
        let lookup = Lookup { conn, meta, catalog };
        for loc in dangling(conn, t, lookup.parent(&fk.parent)?, fk)? {
            keep(conn, meta, catalog, t, &loc, &[])?;
        }
    }
    Ok(())
}

/// Keeps the values of a row with what they refer to, if a foreign key refers to nobody. If there are any
/// in `nobody` only these do from now on, whatever row has their values.
pub fn keep(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    loc: &Loc,
    nobody: &[usize],
) -> Result<()> {
    let Some(row) = t.read(conn, loc)? else { return Ok(()) };
    let Some(mut stored) = state::at(conn, meta, t, loc)? else { return Ok(()) };
    let lookup = Lookup { conn, meta, catalog };
    let mut changed = false;
    for (g, group) in stored.state.groups.iter_mut().enumerate() {
        let keys = &t.table.groups[g].foreign_keys;
        let concerned = nobody.is_empty() || keys.iter().any(|f| nobody.contains(f));
        if keys.is_empty() || !concerned || group.body != Body::InTable {
            continue;
        }
        let mut cell = lookup.cell(t, g, &row)?;
        let ends = |(f, rid): (&usize, &mut Option<Rid>)| {
            if nobody.contains(f) {
                *rid = None;
            }
        };
        keys.iter().zip(&mut cell.refs).for_each(ends);
        let given = |f: usize| t.table.foreign_keys[f].columns.iter().all(|&c| !row[c].is_null());
        let loose: Vec<usize> = keys
            .iter()
            .zip(&cell.refs)
            .filter(|&(&f, rid)| rid.is_none() && given(f))
            .map(|(&f, _)| f)
            .collect();
        for fk in loose.iter().map(|&f| &t.table.foreign_keys[f]) {
            reserve(lookup, fk, &row)?;
        }
        if !loose.is_empty() {
            (group.body, changed) = (Body::Stored(cell), true);
        }
    }
    match changed {
        true => save(conn, meta, catalog, t, &stored),
        false => Ok(()),
    }
}

/// Saves a row that keeps more of its references than before.
fn save(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    stored: &Stored,
) -> Result<()> {
    let entry = state::put(conn, meta, t, stored, None)?;
    let references = state::kept_references(catalog, t, stored, false);
    let waits = Waits { references, claims: vec![], conflict: None, winner: None };
    state::record_first_waits(conn, meta, entry, &waits)
}

/// The numbers that a row shows as a reference to `parent` where sites number rows for themselves, each with the
/// table whose rows have it, by position.
fn numbers<'r>(
    parent: &'r Tracked,
    fk: &'r ForeignKey,
    row: &'r [Value],
) -> impl Iterator<Item = (usize, i64)> + 'r {
    let pairs = fk.columns.iter().zip(&fk.parent_columns);
    pairs.filter_map(move |(&c, p)| {
        let owner = *parent.site_numbers.get(p)?;
        Some((owner, equal::stored(&row[c], Affinity::Integer).as_integer()?))
    })
}

/// A number that means nobody is to stay nobody's where this site numbers rows for itself.
fn reserve(lookup: Lookup<'_>, fk: &ForeignKey, row: &[Value]) -> Result<()> {
    let Lookup { conn, catalog, .. } = lookup;
    let mut numbers = numbers(lookup.parent(&fk.parent)?, fk, row);
    numbers.try_for_each(|(owner, n)| state::numbers::reserve(conn, &catalog.tables[owner], n))
}

/// The row that is not here and whose number a row shows, if it had that when it went.
fn gone(
    lookup: Lookup<'_>,
    parent: &Tracked,
    fk: &ForeignKey,
    row: &[Value],
) -> Result<Option<Rid>> {
    let Lookup { conn, meta, catalog } = lookup;
    // Of a key that follows one elsewhere it is not known whose it was.
    let mut numbers =
        numbers(parent, fk, row).filter(|(owner, _)| catalog.tables[*owner].no == parent.no);
    let Some((_, number)) = numbers.next() else { return Ok(None) };
    let Some(rid) = state::numbers::whose(conn, meta, parent, number)? else { return Ok(None) };
    // One that is here again has got another number since.
    let stored = state::of(conn, meta, parent, &rid)?;
    Ok(stored.is_some_and(|stored| stored.loc.is_none()).then_some(rid))
}

/// The same of all numbers of rows of a table that references show which are no row's, as nothing keeps them.
pub fn reserve_loose(lookup: Lookup<'_>, owner: &Tracked) -> Result<()> {
    let Lookup { conn, catalog, .. } = lookup;
    let Some(position) = catalog.position_of_no(owner.no) else { return Ok(()) };
    for child in &catalog.tables {
        for fk in &child.table.foreign_keys {
            let parent = lookup.parent(&fk.parent)?;
            if !fk.parent_columns.iter().any(|p| parent.site_numbers.get(p) == Some(&position)) {
                continue;
            }
            for loc in dangling(conn, child, parent, fk)? {
                if let Some(row) = child.read(conn, &loc)? {
                    reserve(lookup, fk, &row)?;
                }
            }
        }
    }
    Ok(())
}
