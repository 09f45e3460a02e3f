//! What a fold writes to when it settles what its rows mean for others (`local_wins`).

use crate::Result;
use crate::affected::AffectedRow;
use crate::affected::Refused;
use crate::facts::Facts;
use crate::state::Stored;
use synqlite_wire::{Rid, Stamp};

/// States that can be asked and written.
pub trait Ledger {
    /// What is there now.
    fn facts(&self) -> Box<dyn Facts + '_>;
    /// The stamp of a write that is made now.
    fn tick(&mut self) -> Stamp;
    /// Saves a row with its state.
    fn save(&mut self, table: usize, stored: &mut Stored) -> Result<()>;
    /// Records that a saved row waits for these rows, by the numbers of their tables, and for nothing
    /// else.
    fn wait(&mut self, stored: &Stored, references: Vec<(u32, &Rid)>) -> Result<()>;
    /// Shows what the view made of affected rows, and saves them.
    fn apply(&mut self, affected: Vec<AffectedRow>, refused: Option<&mut Refused>) -> Result<()>;
}
