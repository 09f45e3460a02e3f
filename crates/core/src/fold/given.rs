//! What a fold goes by: policies, what triggers knew, and who looks at what it writes.

use crate::Result;
use crate::capture;
use crate::catalog::{Catalog, Fresh, Tracked};
use crate::history;
use crate::policy::Policies;
use crate::schema::ForeignKey;
use crate::state;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(super) struct Given {
    /// Whether a conflict is open; then the rows this fold wrote are remembered.
    pub conflicts: bool,
    /// Whether some row waits for another, by now.
    pub waits: bool,
    pub history: bool,
    /// Tables, by number, in which a row may stand for others (R-UNIFY).
    pub unifies: BTreeSet<u32>,
    /// Whether merges keep foreign keys.
    pub enforces: bool,
    /// Tables, by number, in which a later update outlives a delete.
    pub lasting: BTreeSet<u32>,
    /// Whether rows are taken in with their table: then one that is alive already, because another
    /// site told of it, is not inserted anew.
    pub adopts: bool,
    /// Tables whose triggers do not fit their schema: their images lack these columns.
    pub stale: Fresh,
    /// Columns, by number, that became key columns or counters since the triggers of their tables were made:
    /// what they were before an update is in no image.
    pub unknown: BTreeMap<u32, BTreeSet<u32>>,
}

impl Given {
    pub fn read(
        conn: &Connection,
        catalog: &Catalog,
        policies: &Policies,
        stale: Fresh,
    ) -> Result<Given> {
        let lasting = catalog.tables.iter().filter(|t| policies.last_write_decides(&t.table.name));
        let conflicts = state::any_conflict(conn)?;
        let unifies = |t: &&Tracked| conflicts && policies.unifies(&t.table.name);
        Ok(Given {
            conflicts,
            unifies: catalog.tables.iter().filter(unifies).map(|t| t.no).collect(),
            waits: state::anyone_waits(conn)?,
            history: history::enabled(conn)?,
            enforces: policies.enforces_foreign_keys(),
            lasting: lasting.map(|t| t.no).collect(),
            adopts: false,
            unknown: unknown_columns(conn, catalog, &stale)?,
            stale,
        })
    }

    /// Whether rows whose entries concern nobody else may be folded before all others.
    pub fn allows_parts(&self) -> bool {
        !(self.conflicts || self.waits || self.history)
    }

    /// Whether merges keep a foreign key.
    pub fn keeps(&self, fk: &ForeignKey) -> bool {
        fk.enforced && self.enforces
    }

    /// Whether images of updates hold a group of a key, or a counter.
    pub fn has_image(&self, t: &Tracked, g: usize) -> bool {
        let unknown = self.unknown.get(&t.no);
        let columns = &t.table.groups[g].columns;
        unknown.is_none_or(|nos| columns.iter().all(|&c| !nos.contains(&t.column_nos[c])))
    }
}

/// Key columns and counters, by number, that are in no image which the triggers of stale tables made.
fn unknown_columns(
    conn: &Connection,
    catalog: &Catalog,
    stale: &Fresh,
) -> Result<BTreeMap<u32, BTreeSet<u32>>> {
    let mut unknown = BTreeMap::new();
    for t in catalog.tables.iter().filter(|t| stale.contains_key(&t.no)) {
        let Some(imaged) = capture::imaged(conn, t.no)? else { continue };
        let kept = t.table.groups.iter().filter(|g| g.keeps_previous || g.counter);
        let kept = kept.flat_map(|g| &g.columns).map(|&c| t.column_nos[c]);
        unknown.insert(t.no, kept.filter(|no| !imaged.contains(no)).collect());
    }
    Ok(unknown)
}
