//! Rows above a row that lets go of them.
//!
//! A row that refers under RESTRICT or NO ACTION may keep a deleted one shown (R-PROTECT), and with it rows
//! between them that were not deleted themselves but would fall with it. When it lets go, they do. Most rows
//! hang on nothing of the kind, however deep the tree that they are in: so it looks before it adds any.

use super::AffectedRows;
use crate::Result;
use crate::catalog::Relation;
use crate::schema::Action;
use crate::state::{Body, Stored};
use std::collections::HashSet;
use synqlite_wire::Rid;

impl AffectedRows<'_> {
    /// Adds a row that may fall with another, and those above it with which it may.
    pub fn above(&mut self, table: usize, rid: &Rid) -> Result<()> {
        let catalog = self.catalog();
        if cascades(&catalog.tables[table]).next().is_none() {
            return Ok(());
        }
        let mut asked = vec![(table, rid.clone())];
        let (mut seen, mut found, mut hangs) = (HashSet::new(), vec![], false);
        while let Some(row) = asked.pop() {
            if self.standing.contains(&row) || !seen.insert(row.clone()) {
                continue;
            }
            let (table, rid) = row;
            let t = &catalog.tables[table];
            match self.get(table, &rid).map(|at| &self.list[at]) {
                Some(item) => hangs |= item.news || item.touched || !stands(&item.stored),
                None => {
                    let Some(other) = self.others.get(table, &rid)? else { continue };
                    hangs |= !stands(&other.stored);
                    found.extend(cascades(t).next().map(|_| (table, other)));
                }
            }
            for f in cascades(t) {
                let parent = catalog.position(&t.table.foreign_keys[f].parent);
                asked.extend(parent.zip(self.referred(table, &rid, f)?));
            }
        }
        if !hangs {
            self.standing.extend(seen);
            return Ok(());
        }
        for (table, row) in found {
            self.load(table, row.stored.clone())?;
        }
        Ok(())
    }

    /// The row to which foreign key `f` of a row refers, affected or not.
    fn referred(&self, table: usize, rid: &Rid, f: usize) -> Result<Option<Rid>> {
        let t = &self.catalog().tables[table];
        if let Some(at) = self.get(table, rid) {
            return Ok(self.list[at].reference(t, f).cloned());
        }
        let Some(row) = self.others.get(table, rid)? else { return Ok(None) };
        let Some((group, at)) = t.table.place_of_key(f) else { return Ok(None) };
        if let Body::Stored(cell) = &row.stored.state.groups[group].body {
            return Ok(cell.refs[at].clone());
        }
        match self.others.row(table, &row)? {
            Some(shown) => self.shown_reference((table, f), shown),
            None => Ok(None),
        }
    }
}

/// Whether a row is there by itself, and has been since it was first inserted.
pub fn stands(row: &Stored) -> bool {
    let header = &row.state.header;
    header.alive() && row.loc.is_some() && header.reinserted.is_zero()
}

/// The foreign keys with whose parents rows fall.
fn cascades(t: &Relation) -> impl Iterator<Item = usize> {
    let keys = t.table.foreign_keys.iter().enumerate();
    keys.filter(|(_, fk)| fk.on_delete == Action::Cascade).map(|(f, _)| f)
}
