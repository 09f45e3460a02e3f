//! What a replica writes for the rounds of a fold ([`Ledger`]).

use super::apply;
use super::sqlfacts::SqlFacts;
use crate::catalog::Catalog;
use crate::history;
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::state::{self, Stored, Waits};
use rusqlite::Connection;
use synqlite_view::Result;
use synqlite_view::affected::{AffectedRow, Refused};
use synqlite_view::facts::Facts;
use synqlite_view::ledger::Ledger;
use synqlite_wire::{Rid, Stamp};

/// A replica's.
pub(super) struct SqlLedger<'a> {
    pub conn: &'a Connection,
    pub meta: &'a mut Meta,
    pub catalog: &'a Catalog,
    pub policies: &'a Policies,
}

impl Ledger for SqlLedger<'_> {
    fn facts(&self) -> Box<dyn Facts + '_> {
        let SqlLedger { conn, catalog, .. } = *self;
        Box::new(SqlFacts::new(Lookup { conn, meta: &*self.meta, catalog }))
    }

    fn tick(&mut self) -> Stamp {
        self.meta.tick(0)
    }

    fn save(&mut self, table: usize, stored: &mut Stored) -> Result<()> {
        let (t, local_seq) = (&self.catalog.tables[table], self.meta.local_seq);
        stored.entry = Some(state::put(self.conn, self.meta, t, stored, Some(local_seq))?);
        Ok(history::record_life(self.conn, self.meta, t, stored)?)
    }

    fn wait(&mut self, stored: &Stored, references: Vec<(u32, &Rid)>) -> Result<()> {
        let Some(entry) = stored.entry else { return Ok(()) };
        let waits = Waits { references, claims: vec![], conflict: None, winner: None };
        Ok(state::record_waits(self.conn, self.meta, entry, &waits)?)
    }

    fn apply(
        &mut self,
        mut affected: Vec<AffectedRow>,
        refused: Option<&mut Refused>,
    ) -> Result<()> {
        let SqlLedger { conn, meta, catalog, policies } = self;
        apply::apply(conn, meta, catalog, policies, &mut affected, refused)?;
        Ok(())
    }
}
