//! Hidden rows that would answer a reference by value, if they were shown.
//!
//! Among tables that refer to each other such a row may be hidden for what the row depends on that
//! refers to it: a key that another would leave to it. So the fates of both are decided together. Where
//! tables do not, whether the parent is hidden is settled before.

use super::cases::{Cases, written};
use crate::Result;
use crate::catalog::Tracked;
use crate::equal::reference_bytes;
use crate::schema::ForeignKey;
use crate::state::{Body, Stored};
use std::collections::HashMap;
use std::ops::Range;
use synqlite_wire::Value;

/// Entries of the hidden rows of a table by the keys that they would show: (table that refers to it,
/// foreign key), and by that the bytes of the keys.
pub(super) type HiddenKeys = HashMap<(usize, usize), HashMap<Vec<u8>, Vec<i64>>>;

impl Cases<'_> {
    /// Adds the hidden rows to which foreign key `f` of a case refers by value, if any.
    pub(super) fn hidden_answers(&mut self, at: usize, f: usize) -> Result<()> {
        let (table, catalog) = (self.list[at].table, self.catalog());
        let t = &catalog.tables[table];
        let fk = &t.table.foreign_keys[f];
        let Some(parent) = catalog.position(&fk.parent) else { return Ok(()) };
        let together = |tables: &Range<usize>| tables.contains(&table) && tables.contains(&parent);
        if !catalog.components.iter().any(together) {
            return Ok(());
        }
        let row = written(&self.list[at], t);
        if fk.columns.iter().any(|&c| row[c].is_null()) {
            return Ok(());
        }
        if !self.hidden_keys.contains_key(&(table, f)) {
            let keys = self.keys_of_hidden(parent, fk)?;
            self.hidden_keys.insert((table, f), keys);
        }
        let key = reference_bytes(fk, fk.columns.iter().map(|&c| &row[c]));
        let found = self.hidden_keys[&(table, f)].get(&key).cloned();
        found.into_iter().flatten().try_for_each(|entry| self.load_entry(entry))
    }

    fn keys_of_hidden(&self, parent: usize, fk: &ForeignKey) -> Result<HashMap<Vec<u8>, Vec<i64>>> {
        let p = &self.catalog().tables[parent];
        let mut keys: HashMap<Vec<u8>, Vec<i64>> = HashMap::new();
        for entry in self.facts.hidden(parent)? {
            let Some((_, stored)) = self.facts.entry(entry)? else { continue };
            let key = fk.parent_columns.iter().map(|&c| kept(p, &stored, c));
            let Some(key) = key.collect::<Option<Vec<&Value>>>() else { continue };
            keys.entry(reference_bytes(fk, key)).or_default().push(entry);
        }
        Ok(keys)
    }
}

/// What a hidden row keeps in a column.
fn kept<'s>(t: &Tracked, stored: &'s Stored, c: usize) -> Option<&'s Value> {
    let g = t.table.columns[c].group;
    let Body::Kept(cell) = &stored.state.groups[g].body else { return None };
    cell.values.get(t.table.groups[g].columns.iter().position(|&x| x == c)?)
}
