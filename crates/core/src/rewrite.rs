//! New writes of this site into states: rows that go or live again, and registers that get another value.
//!
//! The view derives what rows show then, so every constraint holds afterwards, foreign keys act as after a merge,
//! and the application's triggers do not fire.

use crate::Result;
use crate::history;
use crate::merge;
use crate::state::{self, Body, GroupState, Stored, Waits};
use crate::work::Work;
use std::collections::BTreeMap;
use synqlite_wire::counter::Number;
use synqlite_wire::{Cell, Rid};

/// Whether a row is there afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// As it is.
    Stays,
    /// It was inserted, and is deleted.
    Goes,
    /// It was deleted, and lives again.
    Returns,
}

/// What is written into a register.
pub(crate) enum Put {
    /// A cell in the place of another.
    Cell { old: Cell, new: Cell },
    /// What this site has added to a counter.
    Sum(Number),
}

/// What is to be written of a row.
pub(crate) struct Rewrite<'a> {
    /// Position of its table.
    pub table: usize,
    pub stored: &'a Stored,
    pub fate: Fate,
    /// By group.
    pub puts: &'a BTreeMap<usize, Put>,
}

/// Writes them with one stamp, and shows what follows.
pub(crate) fn write<'a>(
    work: &mut Work<'_>,
    rewrites: impl Iterator<Item = Rewrite<'a>>,
) -> Result<()> {
    work.meta.local_seq += 1;
    let stamp = work.meta.tick(work.now_ms);
    let Work { conn, meta, catalog, policies, .. } = work;
    let (local_seq, history) = (meta.local_seq, history::enabled(conn)?);
    let mut written: Vec<(u32, Rid)> = Vec::new();
    for Rewrite { table, stored, fate, puts } in rewrites {
        let (t, mut stored) = (&catalog.tables[table], stored.clone());
        let header = &mut stored.state.header;
        match fate {
            Fate::Goes => header.delete(stamp),
            Fate::Returns => {
                header.revive(stamp);
                // Who took its keys meanwhile keeps them.
                header.yielded = stamp;
            }
            Fate::Stays if policies.last_write_decides(&t.table.name) => header.outlive(stamp),
            Fate::Stays => {}
        }
        for (&g, put) in puts {
            let group = &mut stored.state.groups[g];
            match put {
                Put::Cell { old, new } => {
                    let previous = t.table.groups[g].keeps_previous.then(|| old.clone());
                    let body = Body::Stored(new.clone());
                    *group = GroupState { previous, body, ..GroupState::shown(stamp) };
                }
                Put::Sum(sum) => {
                    let own = group.counts.iter_mut().find(|c| c.stamp.site == stamp.site);
                    own.into_iter().for_each(|c| (c.stamp, c.sum) = (stamp, sum.clone()));
                }
            }
        }
        if history {
            history::record(conn, meta, catalog, t, &stored)?;
        }
        let entry = state::put(conn, meta, t, &stored, Some(local_seq))?;
        // What it waits for is found out when it is shown.
        let waits = Waits { references: vec![], claims: vec![], conflict: None, winner: None };
        state::record_waits(conn, meta, entry, &waits)?;
        written.push((t.no, stored.rid));
    }
    merge::reshow(conn, meta, catalog, policies, &written)
}
