//! What rows were at the last fold, by their before-images: which row a reference meant then, and
//! where the row was that had a key.

use crate::catalog::{Loc, Tracked};
use crate::equal::{reference_bytes, stored};
use crate::journal::{self, Changed, Window};
use crate::refs::Lookup;
use crate::schema::{Affinity, ForeignKey, Group};
use crate::{Result, state};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use synqlite_wire::{Cell, Rid, Value};

/// Journal entry with the before-image that tells most of a changed row.
pub(super) fn image_of(changed: &Changed) -> Option<i64> {
    changed.replaced.map(|r| r.image).or(changed.previous)
}

pub(super) struct BeforeImages<'a> {
    pub lookup: Lookup<'a>,
    pub windows: &'a [Window],
    /// Where rows were that have left their keys since the last fold, by table and columns of the key.
    left: RefCell<HashMap<(usize, Vec<usize>), Places>>,
}

/// Where a row was, by the bytes of its key.
type Places = HashMap<Vec<u8>, Loc>;

impl<'a> BeforeImages<'a> {
    pub fn new(lookup: Lookup<'a>, windows: &'a [Window]) -> BeforeImages<'a> {
        BeforeImages { lookup, windows, left: RefCell::default() }
    }

    /// Cells of a before-image. Its references are to rows that had those keys before this fold.
    pub fn cells(&self, t: &Tracked, row: &[Value]) -> Result<Vec<Cell>> {
        let cell = |group: &Group| -> Result<Cell> {
            let values = group.columns.iter().map(|&c| row[c].clone()).collect();
            let keys = group.foreign_keys.iter().map(|&f| &t.table.foreign_keys[f]);
            let refs = keys.map(|fk| self.reference(fk, row));
            Ok(Cell { values, refs: refs.collect::<Result<_>>()? })
        };
        t.table.groups.iter().map(cell).collect()
    }

    fn reference(&self, fk: &ForeignKey, row: &[Value]) -> Result<Option<Rid>> {
        let Lookup { conn, meta, .. } = self.lookup;
        let Some(key) = fk.key_of(row) else { return Ok(None) };
        let parent = self.lookup.parent(&fk.parent)?;
        if let Some(from) = self.place_of(fk, &key)?
            && let Some(stored) = state::at(conn, meta, parent, &from)?
        {
            return Ok(Some(stored.rid));
        }
        // The parent may have died in the same window; a key names it without its row, as it was stored there.
        let mut by_key = vec![Value::Null; parent.table.columns.len()];
        for (&c, value) in fk.parent_columns.iter().zip(key) {
            by_key[c] = stored(&value, parent.table.columns[c].affinity);
        }
        let Some(key) = self.lookup.key_rid(parent, &by_key)? else { return Ok(None) };
        let rid = Rid::Key { key, generation: 0 };
        Ok(state::of(conn, meta, parent, &rid)?.map(|stored| stored.rid))
    }

    /// Where the row was, at the last fold, that then had a key to which a foreign key refers.
    pub fn place_of(&self, fk: &ForeignKey, key: &[Value]) -> Result<Option<Loc>> {
        let parent = self.lookup.parent(&fk.parent)?;
        let position = self.lookup.catalog.position(&fk.parent).unwrap_or(0);
        let alias = parent.table.rowid_alias().map(|c| vec![c]);
        if alias.as_ref() == Some(&fk.parent_columns) {
            return Ok(stored(&key[0], Affinity::Integer).as_integer().map(Loc::Row));
        }
        if let Some(from) = self.left_from(position, fk, key)? {
            return Ok(Some(from));
        }
        let now = parent.find_parents(self.lookup.conn, fk, key)?.into_iter().next();
        let place = |now: Loc| {
            let moved = self.windows[position].changed.iter().find(|(_, c)| c.now == now);
            moved.map_or(now, |(from, _)| from.clone())
        };
        Ok(now.map(place))
    }

    /// Where the row of the table at `position` was that had `key` at the last fold and has left it.
    fn left_from(&self, position: usize, fk: &ForeignKey, key: &[Value]) -> Result<Option<Loc>> {
        let mut known = self.left.borrow_mut();
        let entry = known.entry((position, fk.parent_columns.clone()));
        let places = match entry {
            Entry::Occupied(places) => places.into_mut(),
            Entry::Vacant(empty) => empty.insert(self.places(position, fk)?),
        };
        Ok(places.get(&reference_bytes(fk, key)).cloned())
    }

    fn places(&self, position: usize, fk: &ForeignKey) -> Result<Places> {
        let (t, window) = (&self.lookup.catalog.tables[position], &self.windows[position]);
        let changed = window.changed.iter().map(|(at, c)| (at, [image_of(c), c.start]));
        let gone = window.gone.iter().map(|(at, g)| (at, [g.image, g.start]));
        let images = || changed.clone().chain(gone.clone());
        // A key of the last fold stands against one that a row had only meanwhile.
        let meanwhile = images().filter_map(|(at, [image, _])| Some((at, image?)));
        let then = images().filter_map(|(at, [_, start])| Some((at, start?)));
        let mut places = HashMap::new();
        for (from, seq) in meanwhile.chain(then) {
            if let Some(row) = journal::image(self.lookup.conn, t, seq)? {
                let key = fk.parent_columns.iter().map(|&c| &row[c]);
                places.insert(reference_bytes(fk, key), from.clone());
            }
        }
        Ok(places)
    }
}
