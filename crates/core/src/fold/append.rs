//! Rows that were inserted together and not touched since.

use super::Fold;
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::journal::{Run, Written};
use crate::schema::{ForeignKey, Identity, quote};
use crate::state::{self, Runs, Segment};
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
        let birth = (site, state::next_births(self.conn, t, run.len())? as i64);
        let hlc = self.at(run.at).hlc;
        runs.add_all(self.conn, t, (run.lo, run.hi), birth, hlc, self.position)?;
        self.done.rows += run.len();
        self.done.columns += run.len() * t.table.groups.len() as u64;
        Ok(())
    }

    /// Whether a row that the application wrote with foreign keys off refers to no row.
    fn any_dangles(&self, t: &Tracked, run: Run) -> Result<bool> {
        let Some(rowid) = t.table.rowid_name.as_ref().filter(|_| self.enforces) else {
            return Ok(false);
        };
        let lookup = self.lookup();
        for fk in t.table.foreign_keys.iter().filter(|fk| fk.enforced) {
            let parent = lookup.parent(&fk.parent)?;
            let sql = format!(
                "SELECT 1 FROM {} AS c WHERE c.{1} BETWEEN ?1 AND ?2 AND {2}",
                t.target(),
                quote(rowid),
                dangles(t, parent, fk)
            );
            if self.conn.prepare_cached(&sql)?.exists([run.lo, run.hi])? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Condition under which row `c` refers to no row. As in a foreign key, affinity and collation are
/// the parent's: the + takes the child's away.
fn dangles(t: &Tracked, parent: &Tracked, fk: &ForeignKey) -> String {
    let child = |c: usize| format!("c.{}", quote(&t.table.columns[c].name));
    let pairs = fk.columns.iter().zip(&fk.parent_columns);
    let equal =
        pairs.map(|(&c, &p)| format!("p.{} = +{}", quote(&parent.table.columns[p].name), child(c)));
    let equal: Vec<_> = equal.collect();
    let given: Vec<_> = fk.columns.iter().map(|&c| format!("{} IS NOT NULL", child(c))).collect();
    format!(
        "{} AND NOT EXISTS(SELECT 1 FROM {} AS p WHERE {})",
        given.join(" AND "),
        parent.target(),
        equal.join(" AND ")
    )
}
