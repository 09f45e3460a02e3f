//! What the rows of a window were, as far as the state and the images of the journal tell: looked up
//! once, before the fold writes any of them.

use super::Fold;
use super::actions::{self, Replaced};
use super::before_images::{BeforeImages, image_of};
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::{self, Born, Changed, Window};
use crate::state::{self, Stored, sums};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Cell, Rid, Value};

/// What the state said of a row before this fold wrote anything.
pub(super) struct Before {
    pub(super) stored: Stored,
    /// What it was before it was replaced or gone, or else at the last fold as far as an image tells.
    pub(super) image: Option<Image>,
    /// The same at the last fold, if it was updated before it was replaced or gone: columns of keys
    /// and counters only.
    pub(super) start: Option<Image>,
    /// Whether CASCADE deleted it.
    pub(super) cascaded: bool,
    /// Its references that actions replaced.
    pub(super) replaced: Replaced,
}

/// What a row was.
#[derive(Clone, Default)]
pub(super) struct Image {
    pub(super) row: Vec<Value>,
    /// Its groups.
    pub(super) cells: Vec<Cell>,
}

impl Before {
    /// What the table showed at the last fold.
    pub(super) fn first(&self) -> Option<&Image> {
        self.start.as_ref().or(self.image.as_ref())
    }
}

/// Rows of one table that died in this window, with the groups that keep something else than they
/// showed.
pub(super) type Died = BTreeMap<Rid, BTreeSet<usize>>;

/// Rows of one table that were there at the last fold, by where they were.
pub(super) type Befores = BTreeMap<Loc, Before>;

impl Fold<'_> {
    /// Rows that moved, or were replaced, by their entries, where none was are new ones: a trigger of the application
    /// did so before the entry of their insert was made.
    pub(super) fn came(&self, t: &Tracked, window: &mut Window) -> Result<()> {
        let mut new = Vec::new();
        let elsewhere = |(from, c): &(&Loc, &Changed)| **from != c.now || c.replaced.is_some();
        for (from, _) in window.changed.iter().filter(elsewhere) {
            if !state::is_shown(self.conn, self.meta, t, from)? {
                new.push(from.clone());
            }
        }
        for from in new {
            let Some(changed) = window.changed.remove(&from) else { continue };
            let born = Born { written: changed.written, ..Born::at(changed.last) };
            window.born.insert(changed.now, born);
        }
        Ok(())
    }

    /// Looks up what the rows of all windows were, before any of them is written: a reference in a
    /// before-image means the row that had the key then.
    pub(super) fn before(&self, windows: &[Window]) -> Result<Vec<Befores>> {
        let images = BeforeImages::new(self.lookup(), windows);
        let tables = self.catalog.tables.iter().zip(windows);
        let of_table = |(t, window): (&Tracked, &Window)| -> Result<Befores> {
            let mut befores = Befores::new();
            let gone = window.gone.iter().map(|(from, g)| (from, g.image, g.start, true));
            let changed = window.changed.iter();
            let changed = changed.map(|(from, c)| (from, image_of(c), c.start, false));
            let read = |seq: Option<i64>| -> Result<Option<Image>> {
                let Some(seq) = seq else { return Ok(None) };
                let Some(mut row) = journal::image(self.conn, t, seq)? else { return Ok(None) };
                // Nobody had written what the triggers did not know.
                for no in self.given.stale.get(&t.no).into_iter().flatten() {
                    let known = t.column_nos.iter().position(|n| n == no);
                    known.into_iter().for_each(|c| row[c] = t.default_of(c));
                }
                let cells = images.cells(t, &row)?;
                Ok(Some(Image { row, cells }))
            };
            for (from, image, start, is_gone) in gone.chain(changed) {
                let Some(stored) = state::at(self.conn, self.meta, t, from)? else { continue };
                // Segments span rowids that hold no row.
                let told = image.is_some() || stored.entry.is_some();
                if is_gone && !told && !sums::is_there(self.conn, t, from)? {
                    continue;
                }
                let (image, start) = (read(image)?, read(start.filter(|s| Some(*s) != image))?);
                let (cascaded, replaced) = (false, Replaced::new());
                befores.insert(from.clone(), Before { stored, image, start, cascaded, replaced });
            }
            if self.given.enforces {
                actions::mark(&images, t, window, &mut befores)?;
            }
            Ok(befores)
        };
        tables.map(of_table).collect()
    }
}
