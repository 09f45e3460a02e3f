//! Rows that are not affected, but that affected ones refer to. Nothing of them changes before the view is
//! applied, and many rows refer to one: each is looked up once.

use crate::Result;
use crate::catalog::Catalog;
use crate::facts::Facts;
use crate::state::Stored;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use synqlite_wire::{Rid, Value};

/// A row with its place and state.
pub struct CachedParent {
    pub stored: Stored,
    row: OnceCell<Option<Vec<Value>>>,
}

/// Rows by table and identity; `None` if no such row is known.
type Known = HashMap<Rid, Option<Rc<CachedParent>>>;

/// Those that were asked for.
pub struct CachedParents<'a> {
    catalog: &'a Catalog,
    facts: &'a dyn Facts,
    known: RefCell<Vec<Known>>,
}

impl<'a> CachedParents<'a> {
    pub fn new(catalog: &'a Catalog, facts: &'a dyn Facts) -> CachedParents<'a> {
        let known = catalog.tables.iter().map(|_| Known::new()).collect();
        CachedParents { catalog, facts, known: RefCell::new(known) }
    }

    /// The row with this identity in the table at a position of the catalog.
    pub fn get(&self, table: usize, rid: &Rid) -> Result<Option<Rc<CachedParent>>> {
        if let Some(known) = self.known.borrow()[table].get(rid) {
            return Ok(known.clone());
        }
        let found = self.facts.of(table, rid)?;
        let found = found.map(|stored| Rc::new(CachedParent { stored, row: OnceCell::new() }));
        self.known.borrow_mut()[table].insert(rid.clone(), found.clone());
        Ok(found)
    }

    /// The values that a row shows, or that it keeps while it is hidden or dead.
    pub fn row<'b>(&self, table: usize, of: &'b CachedParent) -> Result<Option<&'b [Value]>> {
        if of.row.get().is_none() {
            let row = match &of.stored.loc {
                Some(loc) => self.facts.shown(table, loc)?,
                None => Some(of.stored.state.kept_row(&self.catalog.tables[table])),
            };
            of.row.get_or_init(|| row);
        }
        Ok(of.row.get().and_then(Option::as_deref))
    }
}
