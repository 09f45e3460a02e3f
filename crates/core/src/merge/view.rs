//! The view: what each affected row shows (SEMANTICS 2.4, R-REMAP and R-REF).
//!
//! A pure function of state and schema, computed for the rows that a merge touched and those that
//! depend on them: rows that ask for the same integer key, and rows that refer to a changed one.

use super::{Decision, Item, Items, Merged, item_at};
use crate::catalog::{Catalog, Loc, Tracked};
use crate::meta::Meta;
use crate::schema::Identity;
use crate::state::{self, Body};
use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Stamp, Value};

/// Computes what every item shows; adds the items that depend on it.
pub(crate) fn show(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    items: &mut Items,
    merged: &mut Merged,
) -> Result<()> {
    let mut view = View { conn, meta, catalog, items, merged, first: BTreeMap::new() };
    // Parents come first; inside a cycle of tables a second pass sees the parents of the first.
    loop {
        let before = view.items.list.len();
        let mut changed = false;
        for table in 0..catalog.tables.len() {
            changed |= view.table(table)?;
        }
        if !changed && view.items.list.len() == before {
            return Ok(());
        }
    }
}

struct View<'a> {
    conn: &'a Connection,
    meta: &'a Meta,
    catalog: &'a Catalog,
    items: &'a mut Items,
    merged: &'a mut Merged,
    /// For each table with remapped rows, the id that each item shows.
    first: BTreeMap<usize, BTreeMap<usize, i64>>,
}

impl View<'_> {
    /// Shows the items of one table. Returns whether any shows something new.
    fn table(&mut self, table: usize) -> Result<bool> {
        let t = &self.catalog.tables[table];
        if !self.first.contains_key(&table) {
            let ids = self.remap(table, t)?;
            self.first.insert(table, ids);
        }
        let mut changed = false;
        let mut at = 0;
        while at < self.items.list.len() {
            if self.items.list[at].table == table {
                let new = self.row(table, t, at)?;
                if new != self.items.list[at].new {
                    self.items.list[at].new = new;
                    self.children(table, at)?;
                    changed = true;
                }
            }
            at += 1;
        }
        Ok(changed)
    }

    fn row(&self, table: usize, t: &Tracked, at: usize) -> Result<Option<Vec<Value>>> {
        let item = &self.items.list[at];
        if !item.stored.state.header.alive() {
            return Ok(None);
        }
        let mut row = vec![Value::Null; t.table.columns.len()];
        for (g, group) in item.stored.state.groups.iter().enumerate() {
            let columns = &t.table.groups[g].columns;
            match (&group.body, &item.old) {
                (Body::Kept(cell), _) => {
                    columns.iter().zip(&cell.values).for_each(|(&c, v)| row[c] = v.clone());
                    for (&f, rid) in t.table.groups[g].foreign_keys.iter().zip(&cell.refs) {
                        if let Some(rid) = rid {
                            self.refer(t, f, rid, &mut row)?;
                        }
                    }
                }
                (Body::Shown, Some(old)) => columns.iter().for_each(|&c| row[c] = old[c].clone()),
                (Body::Shown, None) => {
                    return Err(Error::Damaged(format!(
                        "table {}: row {} is alive and has no values",
                        t.table.name,
                        super::describe(t, None, &item.stored.rid)
                    )));
                }
            }
        }
        for (f, rid) in &item.follows {
            self.refer(t, *f, rid, &mut row)?;
        }
        if let (Some(alias), Some(id)) = (t.table.rowid_alias(), self.first[&table].get(&at)) {
            row[alias] = Value::Integer(*id);
        }
        Ok(Some(row))
    }

    /// R-REF: shows the key that the referenced row has now. A reference to a row that is not
    /// visible keeps the value that was written.
    fn refer(&self, t: &Tracked, f: usize, rid: &Rid, row: &mut [Value]) -> Result<()> {
        let fk = &t.table.foreign_keys[f];
        let Some(position) = self.catalog.position(&fk.parent) else { return Ok(()) };
        let parent = &self.catalog.tables[position];
        let shown = match self.items.get(position, rid) {
            Some(at) => self.items.list[at].new.clone(),
            None => match state::of(self.conn, self.meta, parent, rid)?.and_then(|s| s.loc) {
                Some(loc) => parent.read(self.conn, &loc)?,
                None => None,
            },
        };
        if let Some(shown) = shown {
            for (&c, &p) in fk.columns.iter().zip(&fk.parent_columns) {
                row[c] = shown[p].clone();
            }
        }
        Ok(())
    }

    /// Makes the visible rows that refer to a row by a key that it no longer shows follow it.
    fn children(&mut self, table: usize, at: usize) -> Result<()> {
        let Item { old: Some(old), new: Some(new), stored, .. } = &self.items.list[at] else {
            return Ok(());
        };
        let (old, new, rid) = (old.clone(), new.clone(), stored.rid.clone());
        let references: Vec<_> = self.catalog.references_to(table).collect();
        for (child, f) in references {
            let c = &self.catalog.tables[child];
            let fk = &c.table.foreign_keys[f];
            let key = |row: &[Value]| -> Vec<Value> {
                fk.parent_columns.iter().map(|&p| row[p].clone()).collect()
            };
            let before = key(&old);
            if before == key(&new) || before.iter().any(Value::is_null) {
                continue;
            }
            for loc in c.find(self.conn, &fk.columns, &before)? {
                let item = item_at(self.conn, self.meta, self.catalog, self.items, child, &loc)?;
                let Some(item) = item else { continue };
                let group = c.table.columns[fk.columns[0]].group;
                let item = &mut self.items.list[item];
                let shown = item.stored.state.groups[group].body == Body::Shown;
                if shown && !item.follows.iter().any(|(known, _)| *known == f) {
                    item.follows.push((f, rid.clone()));
                }
            }
        }
        Ok(())
    }

    /// R-REMAP: among rows that ask for one integer key the earliest claim keeps it; the others get
    /// numbers past every known one, in order of their claims. Returns the id of each item that
    /// does not show the one it asks for, and of those that do again.
    fn remap(&mut self, table: usize, t: &Tracked) -> Result<BTreeMap<usize, i64>> {
        let none = BTreeMap::new();
        let Some(alias) = t.table.rowid_alias() else { return Ok(none) };
        if t.table.identity != Identity::Birth {
            return Ok(none);
        }
        let news = |i: &Item| i.table == table && i.stored.state.kept_id(t).is_some();
        if !self.items.list.iter().any(news) {
            return Ok(none);
        }
        let sql = "SELECT loc FROM synqlite_row WHERE tbl = ?1 AND wants IS NOT NULL \
                   AND loc IS NOT NULL";
        let pending: Vec<Loc> = self
            .conn
            .prepare_cached(sql)?
            .query_map([t.no], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for loc in &pending {
            item_at(self.conn, self.meta, self.catalog, self.items, table, loc)?;
        }
        let group = t.table.columns[alias].group;
        let wanted = |item: &Item| -> Option<i64> {
            let kept = item.stored.state.kept_id(t);
            kept.or_else(|| item.old.as_ref().and_then(|old| old[alias].as_integer()))
        };
        let mut claims: BTreeMap<i64, Vec<(Stamp, Rid, usize)>> = BTreeMap::new();
        let mut at = 0;
        while at < self.items.list.len() {
            let item = &self.items.list[at];
            if item.table == table && item.stored.state.header.alive() {
                let Some(id) = wanted(item) else {
                    at += 1;
                    continue;
                };
                let header = &item.stored.state.header;
                let claim = item.stored.state.groups[group].stamp.max(header.demoted);
                let claim = (claim, item.stored.rid.clone(), at);
                claims.entry(id).or_default().push(claim);
                // Whoever shows this number now is in the contest too.
                item_at(self.conn, self.meta, self.catalog, self.items, table, &Loc::Row(id))?;
            }
            at += 1;
        }
        let mut ids = BTreeMap::new();
        let mut losers = Vec::new();
        for (id, mut claimants) in claims {
            claimants.sort();
            let mut claimants = claimants.into_iter();
            ids.extend(claimants.next().map(|(_, _, at)| (at, id)));
            losers.extend(claimants.map(|(claim, rid, at)| (claim, rid, at, id)));
        }
        if losers.is_empty() {
            return Ok(ids);
        }
        losers.sort();
        let mut free = Free::after(self.highest(table, t, &ids, &losers)?);
        for (_, rid, at, id) in losers {
            let fresh = free.take(&ids);
            let item = &self.items.list[at];
            if item.old.as_ref().is_none_or(|old| old[alias] != Value::Integer(fresh)) {
                let what = format!("{id} is taken by an earlier row; this one becomes {fresh}");
                let row = super::describe(t, item.old.as_deref(), &rid);
                self.merged.decisions.push(Decision { table: t.table.name.clone(), row, what });
            }
            ids.insert(at, fresh);
        }
        Ok(ids)
    }

    /// The largest integer key that any known row asks for, visible or not.
    fn highest(
        &self,
        table: usize,
        t: &Tracked,
        winners: &BTreeMap<usize, i64>,
        losers: &[(Stamp, Rid, usize, i64)],
    ) -> Result<i64> {
        let items = || self.items.list.iter().filter(|i| i.table == table);
        let dead = items().filter_map(|i| i.stored.state.kept_id(t)).max();
        let asked = winners.values().copied().chain(losers.iter().map(|l| l.3)).max();
        let kept: Option<i64> = self
            .conn
            .prepare_cached("SELECT max(wants) FROM synqlite_row WHERE tbl = ?1")?
            .query_row([t.no], |row| row.get(0))?;
        let theirs: BTreeSet<_> = items().filter_map(|i| i.stored.loc.clone()).collect();
        let loc = crate::catalog::loc_sql(&t.table, "o.");
        let sql = format!("SELECT {loc} FROM {} AS o ORDER BY {loc} DESC", t.target());
        let mut statement = self.conn.prepare_cached(&sql)?;
        let mut rows = statement.query([])?;
        let mut shown = None;
        while let Some(row) = rows.next()? {
            let rowid: i64 = row.get(0)?;
            if !theirs.contains(&Loc::Row(rowid)) {
                shown = Some(rowid);
                break;
            }
        }
        Ok([dead, asked, kept, shown].into_iter().flatten().max().unwrap_or(0))
    }
}

/// Numbers past the largest known one; below it, from the top, once 63 bits are used up.
struct Free {
    next: Option<i64>,
    down: i64,
}

impl Free {
    fn after(highest: i64) -> Free {
        Free { next: highest.checked_add(1), down: i64::MAX }
    }

    fn take(&mut self, taken: &BTreeMap<usize, i64>) -> i64 {
        if let Some(id) = self.next {
            self.next = id.checked_add(1);
            return id;
        }
        loop {
            self.down -= 1;
            if !taken.values().any(|&id| id == self.down) {
                return self.down;
            }
        }
    }
}
