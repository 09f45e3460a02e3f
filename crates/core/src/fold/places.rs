//! Rows that went, moved or got another key: where they are found from now on.

use super::Fold;
use super::before::Befores;
use super::before_images::image_of;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::{self, Changed, Window};
use crate::referring::Referring;
use crate::state::{self, sums};
use synqlite_wire::{Rid, Value};

impl Fold<'_> {
    /// Gives rows that went, moved or got another key entries of their own: their keys find them in
    /// a segment no more. The same of rows that show the key which the row that names them has left.
    pub(super) fn name(&mut self, position: usize, window: &Window) -> Result<()> {
        let catalog = self.catalog;
        let t = &catalog.tables[position];
        let left = |(from, c): (&Loc, &Changed)| image_of(c).is_some() || c.now != *from;
        let changed = window.changed.iter().filter(|(from, c)| left((from, c)));
        for from in window.gone.keys().chain(changed.map(|(from, _)| from)) {
            self.name_at(t, from)?;
        }
        let names = |(child, f): &(usize, usize)| {
            let rows = catalog.tables[*child].key_rows.iter().flatten();
            rows.into_iter().any(|row| row.foreign_key == *f)
        };
        let named: Vec<(usize, usize)> = catalog.references_to(position).filter(names).collect();
        if named.is_empty() {
            return Ok(());
        }
        let referring = Referring::new(self.conn);
        let gone = window.gone.values().map(|g| (g.image, g.start));
        let changed = window.changed.values().map(|c| (image_of(c), c.start));
        for seq in gone.chain(changed).flat_map(|(image, start)| [image, start]).flatten() {
            let Some(old) = journal::image(self.conn, t, seq)? else { continue };
            for &(child, f) in &named {
                let c = &catalog.tables[child];
                let fk = &c.table.foreign_keys[f];
                let key: Vec<Value> = fk.parent_columns.iter().map(|&p| old[p].clone()).collect();
                for loc in referring.to(c, f, &key)? {
                    self.name_at(c, &loc)?;
                }
            }
        }
        Ok(())
    }

    fn name_at(&mut self, t: &Tracked, loc: &Loc) -> Result<()> {
        if let Some(stored) = state::at(self.conn, self.meta, t, loc)?
            && let (None, Rid::Key { .. }) = (stored.entry, &stored.rid)
        {
            state::put(self.conn, self.meta, t, &stored, None)?;
        }
        Ok(())
    }

    /// Takes rows that went or moved from where they were, and puts those that moved where they are
    /// now, so that a key finds its row whatever the order in which rows are looked at.
    pub(super) fn places(
        &mut self,
        t: &Tracked,
        window: &Window,
        befores: &mut Befores,
    ) -> Result<()> {
        let stays = |from: &Loc| window.changed.get(from).is_some_and(|c| c.now == *from);
        for (_, before) in befores.iter().filter(|(from, _)| !stays(from)) {
            sums::leave(self.meta, t, &before.stored);
            state::unplace(self.conn, &before.stored)?;
        }
        for (from, changed) in window.changed.iter().filter(|(from, _)| !stays(from)) {
            let Some(before) = befores.get_mut(from) else { continue };
            before.stored.loc = Some(changed.now.clone());
            let entry = state::put(self.conn, self.meta, t, &before.stored, None)?;
            before.stored.entry = Some(entry);
        }
        Ok(())
    }
}
