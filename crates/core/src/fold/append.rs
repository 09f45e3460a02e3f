//! Rows that were inserted together and not touched since.

use super::Fold;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::{Run, Written};
use crate::schema::Identity;
use crate::state::{Runs, Segment};
use std::collections::BTreeSet;
use synqlite_wire::Rid;

impl Fold<'_> {
    /// Gives the rows of a run their births. Where none of them can need anything else, nobody looks
    /// at them one by one.
    pub(super) fn append(
        &mut self,
        t: &Tracked,
        run: Run,
        died: &BTreeSet<Rid>,
        runs: &mut Runs,
    ) -> Result<()> {
        let noticed = self.conflicts || self.history || t.table.identity != Identity::Birth;
        if noticed
            || Segment::any_within(self.conn, t, run.lo, run.hi)?
            || self.any_dangles(t, run)?
        {
            let mut rows = (run.lo..=run.hi).map(Loc::Row);
            return rows
                .try_for_each(|loc| self.bear(t, &loc, run.at, &Written::new(), died, runs));
        }
        let site = self.meta.number(self.conn, self.meta.site)?;
        let (n, hlc) = (runs.next_births(self.conn, t, run.len())?, self.at(run.at).hlc);
        runs.add_births(self.conn, t, (run.lo, run.hi), site, n, hlc, self.position)?;
        self.done.rows += run.len();
        self.done.columns += run.len() * t.table.groups.len() as u64;
        Ok(())
    }
}
