//! Rows that nobody here has seen, and that nothing but themselves decides on.
//!
//! Most rows of most merges are such: inserted elsewhere, never written since, and what they refer to
//! is there and was never deleted. If nothing waits here for a row or a key, they show what was
//! inserted or collide with another row. So they are inserted at once, parents first, before the
//! others are joined, as if an earlier merge had brought them; one of which SQLite says that it
//! collides is joined with the others. Their states are segments, so what a row costs is one INSERT
//! and a look at each row that it refers to.

use super::apply::constraint;
use super::join::{Matched, Place};
use super::{Merged, MergedRows, Site};
use crate::catalog::{Catalog, Loc, Tracked};
use crate::equal;
use crate::line;
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::schema::{ForeignKey, Identity};
use crate::sqlvalue::Bind;
use crate::state::{self, Inserted, Name, RowState, Runs, Stored, numbers};
use crate::{Error, Result};
use rusqlite::Connection;
use std::cell::Cell;
use std::collections::HashMap;
use synqlite_wire::{Delta, Header, Rid, RowChange, SiteId, Value};

/// By number of the table and site, the latest birth of which a merge has brought a row.
pub(crate) type Births = HashMap<(u32, SiteId), u64>;

/// Inserts such rows of `delta`. Says of each row whether it is done. `births`: what earlier parts brought.
pub(super) fn insert(
    site: &mut Site<'_>,
    tables: &[Option<Matched>],
    delta: &Delta,
    births: &mut Births,
    merged: &mut Merged,
) -> Result<Vec<bool>> {
    let Site { conn, meta, catalog, policies } = site;
    let mut done = vec![false; delta.rows.len()];
    if state::anyone_waits(conn)? || !super::triggers::firing(conn, policies)?.is_empty() {
        return Ok(done);
    }
    let here = tables.iter().enumerate().filter_map(|(table, matched)| match matched {
        Some(Matched { place: Place::Here(position), .. }) => Some((*position, table)),
        _ => None,
    });
    let mut here: Vec<(usize, usize)> = here.collect();
    here.sort_unstable();
    let mut parents = Parents::new(catalog);
    for (position, table) in here {
        let (t, Some(matched)) = (&catalog.tables[position], &tables[table]) else { continue };
        let Some(lane) = Lane::new(conn, catalog, t, matched)? else { continue };
        let mut statement = conn.prepare(&t.insert_sql())?;
        let mut placed: Vec<(i64, &RowChange)> = Vec::new();
        for (done, change) in done.iter_mut().zip(&delta.rows) {
            if change.table as usize != table
                || !lane.takes(conn, meta, births, change)?
                || !lane.refers(Lookup { conn, meta, catalog }, &mut parents, change)?
            {
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
        merged.count(
            &t.table.name,
            MergedRows { inserted: placed.len() as u64, ..MergedRows::default() },
        );
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

/// Rows that others refer to, by table and identity, each with what it shows; `None` if it is not
/// there as it was inserted.
struct Parents(Vec<HashMap<Rid, Option<Vec<Value>>>>);

impl Parents {
    fn new(catalog: &Catalog) -> Parents {
        Parents(catalog.tables.iter().map(|_| HashMap::new()).collect())
    }

    fn get(&mut self, lookup: Lookup<'_>, table: usize, rid: &Rid) -> Result<Option<&[Value]>> {
        let known = &mut self.0[table];
        if !known.contains_key(rid) {
            let Lookup { conn, meta, catalog } = lookup;
            let t = &catalog.tables[table];
            let row = match state::of(conn, meta, t, rid)? {
                // A row that was deleted and came back, or whose key was changed, may decide on those
                // that refer to it.
                Some(Stored { loc: Some(loc), state, .. })
                    if state.header == Header::born(state.header.inserted)
                        && state.groups.iter().all(|group| group.previous.is_none()) =>
                {
                    t.read(conn, &loc)?
                }
                _ => None,
            };
            known.insert(rid.clone(), row);
        }
        Ok(known.get(rid).and_then(Option::as_deref))
    }
}

/// A foreign key of such a table.
struct Reference {
    /// Position of the parent table.
    parent: usize,
    /// Register and position of the reference in its cell.
    at: At,
    /// Where its columns are, and which columns of the parent they name.
    columns: Vec<(At, usize)>,
}

/// A table of which such rows come.
struct Lane<'a> {
    t: &'a Tracked,
    /// Where its columns are.
    columns: Vec<At>,
    /// Number of values and of references in each register.
    widths: Vec<(usize, usize)>,
    /// Its foreign keys.
    references: Vec<Reference>,
    /// Whether rows of the table have entries of their own.
    entries: bool,
    /// What [`Lane::given`] said last, and of which site.
    given: Cell<Option<(SiteId, u64)>>,
}

impl Lane<'_> {
    /// `None` if more than a row and its parents decide what it shows, or the sender has other
    /// columns.
    fn new<'a>(
        conn: &Connection,
        catalog: &Catalog,
        t: &'a Tracked,
        matched: &Matched,
    ) -> Result<Option<Lane<'a>>> {
        let groups = &t.table.groups;
        let simple = t.has_rowid()
            && !groups.iter().any(|group| group.counter)
            && matched.groups.len() == groups.len();
        let unit = |g| matched.groups.iter().position(|unit| unit.exact == Some(g));
        let at = |(c, column): (usize, &crate::schema::Column)| {
            Some((unit(column.group)?, groups[column.group].columns.iter().position(|&x| x == c)?))
        };
        let columns: Option<Vec<At>> = t.table.columns.iter().enumerate().map(at).collect();
        let Some(columns) = columns.filter(|_| simple) else { return Ok(None) };
        let keys = &t.table.foreign_keys;
        let mut shared: Vec<usize> = keys.iter().flat_map(|fk| fk.columns.clone()).collect();
        shared.sort_unstable();
        if shared.windows(2).any(|pair| pair[0] == pair[1]) {
            return Ok(None);
        }
        let reference = |(f, fk): (usize, &ForeignKey)| {
            let (g, at) = t.table.place_of_key(f)?;
            let at = (unit(g)?, at);
            let named = fk.columns.iter().zip(&fk.parent_columns);
            let columns = named.map(|(&c, &p)| (columns[c], p)).collect();
            Some(Reference { parent: catalog.position(&fk.parent)?, at, columns })
        };
        let references: Option<Vec<_>> = keys.iter().enumerate().map(reference).collect();
        let Some(references) = references else { return Ok(None) };
        // Who has got another number than it asked for may want one that a new row takes.
        if t.table.own_number().is_none() && state::any_pending(conn, t.no)? {
            return Ok(None);
        }
        let entries = state::any_entry(conn, t.no)?;
        let widths = matched.groups.iter().map(|unit| (unit.columns.len(), unit.keys.len()));
        let (widths, given) = (widths.collect(), Cell::new(None));
        Ok(Some(Lane { t, columns, widths, references, entries, given }))
    }

    /// Whether the row was inserted and never written since, and is not known here.
    fn takes(
        &self,
        conn: &Connection,
        meta: &Meta,
        births: &mut Births,
        change: &RowChange,
    ) -> Result<bool> {
        let (t, inserted) = (self.t, change.header.inserted);
        let plain = !inserted.is_zero()
            && change.header == Header::born(inserted)
            && change.registers.len() == self.widths.len()
            && change.registers.iter().zip(&self.widths).enumerate().all(|(i, (r, width))| {
                r.group as usize == i
                    && (r.stamp, r.pinned) == (inserted, false)
                    && r.previous.is_none()
                    && r.counts.is_empty()
                    && (r.cell.values.len(), r.cell.refs.len()) == *width
            });
        // What a column stores otherwise is kept as it was written, which a segment does not.
        let mut columns = t.table.columns.iter().zip(&self.columns);
        if !plain || !columns.all(|(c, &at)| equal::keeps(value(change, at), c.affinity)) {
            return Ok(false);
        }
        match (&change.rid, t.table.identity) {
            (Rid::Birth { site, n }, Identity::Birth) => {
                let alias = t.table.rowid_alias();
                let number = |c: usize| value(change, self.columns[c]).as_integer();
                let takes = *site == inserted.site
                    && i64::try_from(*n).is_ok()
                    && !meta.seen.covers(inserted)
                    && alias.is_none_or(|c| number(c).is_some())
                    && births.get(&(t.no, *site)).is_none_or(|latest| latest < n);
                if let Some(number) = t.table.own_number().and_then(number)
                    && numbers::is_kept(conn, t, number)?
                {
                    return Ok(false);
                }
                // A number that was given by the time which has been seen may be one of a row that is here.
                let takes = takes && *n >= self.given(conn, meta, *site)?;
                if takes {
                    births.insert((t.no, *site), *n);
                }
                Ok(takes)
            }
            // A row of a segment shows its key, so where it is here SQLite says that the key is taken.
            (Rid::Key { key, generation: 0 }, Identity::Key) => Ok(!meta.seen.covers(inserted)
                && state::names_itself(t, key)
                && self.key(change)? == *key
                && (!self.entries || state::of_entry(conn, meta, t, &change.rid)?.is_none())),
            _ => Ok(false),
        }
    }

    /// How many births a site had given by the time which has been seen of it.
    fn given(&self, conn: &Connection, meta: &Meta, site: SiteId) -> Result<u64> {
        match self.given.get() {
            Some((of, births)) if of == site => Ok(births),
            _ => {
                let births = line::births_at(conn, meta, site, meta.seen.get(site))?;
                self.given.set(Some((site, births)));
                Ok(births)
            }
        }
    }

    /// The key of the row as it was inserted.
    fn key(&self, change: &RowChange) -> Result<Vec<u8>> {
        let refers = |f: usize| {
            let (register, place) = self.references[f].at;
            Ok(change.registers[register].cell.refs[place].clone())
        };
        self.t.key_of(|c| value(change, self.columns[c]), refers)
    }

    /// Whether all that the row refers to is there, under the keys by which it does.
    fn refers(
        &self,
        lookup: Lookup<'_>,
        parents: &mut Parents,
        change: &RowChange,
    ) -> Result<bool> {
        for Reference { parent, at: (register, place), columns } in &self.references {
            let refers = match &change.registers[*register].cell.refs[*place] {
                Some(rid) => {
                    let shown = parents.get(lookup, *parent, rid)?;
                    let same = |&(at, p): &(At, usize), shown: &[Value]| {
                        *value(change, at) == shown[p] && !shown[p].is_null()
                    };
                    shown.is_some_and(|shown| columns.iter().all(|column| same(column, shown)))
                }
                None => columns.iter().any(|&(at, _)| value(change, at).is_null()),
            };
            if !refers {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Saves the states of rows in ascending order of rowid.
fn save(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    placed: &[(i64, &RowChange)],
) -> Result<()> {
    let (mut runs, local_seq) = (Runs::default(), meta.local_seq);
    for &(rowid, RowChange { rid, header, .. }) in placed {
        let stamp = header.inserted;
        let by = Inserted::at(conn, meta, stamp, local_seq)?;
        let name = match rid {
            Rid::Birth { n, .. } => Name::Birth(*n as i64),
            Rid::Key { key, .. } => Name::Key(key),
        };
        if !runs.add(conn, t, rowid, name, by)? {
            let (loc, state) = (Some(Loc::Row(rowid)), RowState::born(t, stamp));
            let stored = Stored { entry: None, rid: rid.clone(), loc, local_seq, state };
            state::put(conn, meta, t, &stored, Some(local_seq))?;
        }
    }
    runs.finish(conn, t)
}
