//! Rows that are no cases, but that cases refer to. Nothing of them changes before the view is applied,
//! and many cases refer to one: each is looked up once.

use crate::Result;
use crate::refs::Lookup;
use crate::state::{self, Stored};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use synqlite_wire::{Rid, Value};

/// A row with its place and state.
pub(super) struct Bystander {
    pub stored: Stored,
    row: OnceCell<Option<Vec<Value>>>,
}

/// Rows by table and identity; `None` if no such row is known.
type Known = HashMap<Rid, Option<Rc<Bystander>>>;

/// Those that were asked for.
pub(super) struct Bystanders<'a> {
    lookup: Lookup<'a>,
    known: RefCell<Vec<Known>>,
}

impl<'a> Bystanders<'a> {
    pub fn new(lookup: Lookup<'a>) -> Bystanders<'a> {
        let known = lookup.catalog.tables.iter().map(|_| Known::new()).collect();
        Bystanders { lookup, known: RefCell::new(known) }
    }

    /// The row with this identity in the table at a position of the catalog.
    pub fn get(&self, table: usize, rid: &Rid) -> Result<Option<Rc<Bystander>>> {
        if let Some(known) = self.known.borrow()[table].get(rid) {
            return Ok(known.clone());
        }
        let Lookup { conn, meta, catalog } = self.lookup;
        let found = state::of(conn, meta, &catalog.tables[table], rid)?;
        let found = found.map(|stored| Rc::new(Bystander { stored, row: OnceCell::new() }));
        self.known.borrow_mut()[table].insert(rid.clone(), found.clone());
        Ok(found)
    }

    /// The values that a row shows, or that it keeps while it is hidden or dead.
    pub fn row<'b>(&self, table: usize, of: &'b Bystander) -> Result<Option<&'b [Value]>> {
        if of.row.get().is_none() {
            let t = &self.lookup.catalog.tables[table];
            let row = match &of.stored.loc {
                Some(loc) => t.read(self.lookup.conn, loc)?,
                None => Some(of.stored.state.kept_row(t)),
            };
            of.row.get_or_init(|| row);
        }
        Ok(of.row.get().and_then(Option::as_deref))
    }
}
