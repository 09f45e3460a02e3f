//! Rows that were inserted together and not touched since.

use super::{Died, Fold};
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::{Born, Run};
use crate::refs::Recent;
use crate::schema::{Identity, quote};
use crate::sqlvalue;
use crate::state::{self, Name, Runs, Segment, sums};
use synqlite_wire::{Rid, Value};

impl Fold<'_> {
    /// Gives the rows of a run their identities. Where none of them can need anything else, births
    /// are given without looking at the rows, and keys without looking each of them up.
    pub(super) fn append(
        &mut self,
        t: &Tracked,
        run: Run,
        died: &Died,
        runs: &mut Runs,
    ) -> Result<()> {
        let by_birth = t.table.identity == Identity::Birth;
        if self.given.conflicts
            || self.given.history
            || !by_birth && (self.given.waits || !is_named_by_key(t))
            || Segment::any_within(self.conn, t, run.lo, run.hi)?
            || self.any_dangles(t, run)?
        {
            let mut rows = (run.lo..=run.hi).map(Loc::Row);
            return rows.try_for_each(|loc| self.insert(t, &loc, &Born::at(run.at), died, runs));
        }
        if !by_birth {
            return self.append_keyed(t, run, died, runs);
        }
        let by = self.inserted(self.stamps.at(run.at))?;
        let n = runs.next_births(self.conn, run.len())?;
        runs.add_births(self.conn, t, (run.lo, run.hi), n, by)?;
        self.counted(run.len())?;
        self.done.columns += run.len() * t.table.groups.len() as u64;
        Ok(())
    }

    /// Rows of a table that their keys name. Those whose key is known already are looked at.
    pub(super) fn append_keyed(
        &mut self,
        t: &Tracked,
        run: Run,
        died: &Died,
        runs: &mut Runs,
    ) -> Result<()> {
        let Some(rowid) = t.table.rowid_name.as_deref().map(quote) else { return Ok(()) };
        let pk = &t.table.primary_key;
        let mut sums = sums::Writer::new(self.conn, t)?;
        let columns = pk.iter().chain(sums.columns());
        let columns: Vec<_> = columns.map(|&c| quote(&t.table.columns[c].name)).collect();
        let sql = format!(
            "SELECT {rowid}, {} FROM {} WHERE {rowid} BETWEEN ?1 AND ?2 ORDER BY {rowid}",
            columns.join(","),
            t.target()
        );
        let conn = self.conn;
        let by = self.inserted(self.stamps.at(run.at))?;
        let entries = state::any_entry(conn, t.no)?;
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query([run.lo, run.hi])?;
        let mut recent = Recent::default();
        while let Some(row) = rows.next()? {
            let (rowid, values) = (row.get(0)?, sqlvalue::values(row, 1, pk.len())?);
            let value = |c: usize| &values[pk.iter().position(|p| *p == c).unwrap_or(0)];
            let refers = |f: usize| recent.reference(self.lookup(), t, f, value);
            let rid = Rid::Key { key: t.key_of(value, refers)?, generation: 0 };
            let known = entries && state::of_entry(conn, self.meta, t, &rid)?.is_some();
            if let Rid::Key { key, .. } = &rid
                && !known
                && !values.iter().any(Value::is_null)
                && state::names_itself(t, key)
                && runs.add_summed(conn, t, rowid, Name::Key(key), by)?
            {
                sums.take_row(rowid, row, 1 + pk.len())?;
                self.counted(1)?;
                self.done.columns += t.table.groups.len() as u64;
            } else {
                self.insert(t, &Loc::Row(rowid), &Born::at(run.at), died, runs)?;
            }
        }
        sums.finish()
    }
}

/// Whether the key of a new row is its identity and all there is to its state.
pub(super) fn is_named_by_key(t: &Tracked) -> bool {
    t.has_rowid()
        && t.knows_collations()
        && t.key_rows.is_some()
        && !t.table.groups.iter().any(|group| group.counter)
}
