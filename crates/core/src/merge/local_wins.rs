//! R-COMP in a replica: what folding its own changes, or settling a record, means for other rows.

use super::ledger::SqlLedger;
use super::sqlfacts::SqlFacts;
use super::{apply, show};
use crate::Result;
use crate::catalog::{Catalog, Tracked};
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::state::{self, Body, Stored, numbers};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::affected::AffectedRows;
use synqlite_view::local_wins::{self, ActedOn, Wrote, attempt};
use synqlite_view::view;
use synqlite_wire::{Rid, Stamp, Value};

/// Shows what the rows a fold has written mean for the rows that wait, after letting those yield that
/// would contradict what the user sees.
pub(crate) fn repair(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    wrote: Wrote,
) -> Result<()> {
    if wrote.touched.is_empty() && wrote.acted.is_empty() {
        return Ok(());
    }
    show(conn, meta, |meta, check_keys, refused| {
        let mut ledger = SqlLedger { conn, meta, catalog, policies };
        Ok(attempt(&mut ledger, catalog, policies, &wrote, check_keys, refused)?)
    })
}

/// Visible rows whose references a change of this row's key overrides until the key is pinned, or
/// written again as it is. What they show has to be written then, with the stamp of that: neither
/// overrides anything. `stamps`: of the groups of the row that are pinned or written.
pub(crate) fn overrode(
    lookup: Lookup<'_>,
    t: &Tracked,
    parent: &Stored,
    stamps: &BTreeMap<usize, Stamp>,
) -> Result<Vec<ActedOn>> {
    let Some(position) = lookup.catalog.position_of_no(t.no) else { return Ok(vec![]) };
    let facts = SqlFacts::new(lookup);
    Ok(local_wins::overrode(&facts, lookup.catalog, position, parent, stamps)?)
}

/// Numbers by which references of a row mean nobody, as this site wrote them: they are shown here again, as
/// they were before, unless a row has got the number since (R-OWN).
fn of_nobody(lookup: Lookup<'_>, t: &Tracked, stored: &Stored) -> Result<BTreeMap<usize, Value>> {
    let Lookup { conn, meta, .. } = lookup;
    let mut shown = BTreeMap::new();
    for (f, fk) in t.table.foreign_keys.iter().enumerate() {
        let (Some((g, at)), [c]) = (t.table.place_of_key(f), &fk.columns[..]) else { continue };
        let group = &stored.state.groups[g];
        let Body::Stored(cell) = &group.body else { continue };
        let value = t.table.groups[g].columns.iter().position(|other| other == c);
        let value = value.map(|i| &cell.values[i]).filter(|_| group.stamp.site == meta.site);
        let (Some(value), None) = (value, &cell.refs[at]) else { continue };
        let Some(n) = value.as_integer() else { continue };
        let parent = lookup.parent(&fk.parent)?;
        let owner = fk.parent_columns.first().and_then(|p| parent.site_numbers.get(p));
        let Some(owner) = owner.map(|&owner| &lookup.catalog.tables[owner]) else { continue };
        if numbers::is_nobodys(conn, owner, n)?
            && numbers::whose(conn, meta, owner, n)?.is_none()
            && parent.find_parents(conn, fk, std::slice::from_ref(value))?.is_empty()
        {
            shown.insert(*c, value.clone());
        }
    }
    Ok(shown)
}

/// Shows what rows that were just settled by command mean for themselves and for those that wait. What comes
/// back leaves rows that the user sees the numbers that they have.
pub(crate) fn reshow(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    settled: &[(u32, Rid)],
) -> Result<()> {
    show(conn, meta, |meta, _, refused| {
        let mut yielded = BTreeSet::new();
        loop {
            let facts = SqlFacts::new(Lookup { conn, meta, catalog });
            let mut affected = AffectedRows::new(catalog, policies, &facts)?;
            for (no, rid) in settled.iter().chain(&yielded) {
                let Some(table) = catalog.position_of_no(*no) else { continue };
                let t = &catalog.tables[table];
                if let Some(stored) = state::of(conn, meta, t, rid)? {
                    if stored.loc.is_none() {
                        affected.left(table, &stored.state.kept_row(t))?;
                    }
                    let nobodys = of_nobody(Lookup { conn, meta, catalog }, t, &stored)?;
                    let at = affected.touched(table, stored)?;
                    affected.list[at].nobodys = nobodys;
                    // What it waits for is not recorded yet.
                    affected.list[at].unsaved = true;
                }
            }
            affected.refuse(refused)?;
            let view = view::settle(&mut affected, true)?;
            let taken = local_wins::numbers_taken(&affected, &view).into_iter();
            let taken = taken.map(|at| (affected.list[at].table, affected.list[at].stored.clone()));
            let taken: Vec<_> = taken.collect();
            if taken.is_empty() {
                let mut list = view::decide(affected, view);
                return apply::apply(conn, meta, catalog, policies, &mut list, Some(refused))
                    .map(drop);
            }
            drop(affected);
            for (table, mut stored) in taken {
                let t = &catalog.tables[table];
                stored.state.header.yielded = meta.tick(0);
                state::put(conn, meta, t, &stored, Some(meta.local_seq))?;
                yielded.insert((t.no, stored.rid));
            }
        }
    })
}
