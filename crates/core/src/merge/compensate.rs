//! R-COMP: folding its own changes never removes, reverts or resurrects what a user wrote
//! (INV-LOCAL).
//!
//! Only a row that the user could not see can stand in the way: one that is hidden and has the
//! earlier claim to a key the user has just given to another row, or that protects a row the user
//! has just deleted. Such a row is demoted: its claims count from now. A deleted row that was shown
//! only because another needed it, and no longer does, lives from now on. Rows whose obstacle the user
//! removed come back (R-RETURN). And what a foreign key did to a row is written as if the user had
//! done it, where the row would not show it by itself.

use super::cases::{self, Cases};
use super::{Merged, apply, protect, show, view};
use crate::Result;
use crate::catalog::{Catalog, Tracked};
use crate::fold::{Acted, ActedOn};
use crate::meta::Meta;
use crate::policy::Policies;
use crate::refs::Lookup;
use crate::schema::Action;
use crate::state::{self, Body, GroupState, Stored, Waits};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Stamp, Value};

/// After so many rounds of demotions in one fold, what the view says stays.
const MAX_ROUNDS: usize = 50;

/// Rows, by table and identity, of which the first was demoted for the second.
type Yielded = BTreeSet<(usize, Rid, Rid)>;

/// What a fold wrote that others may depend on.
pub(crate) struct Wrote {
    /// Rows, by the numbers of their tables.
    pub touched: Vec<(u32, Rid)>,
    /// What rows of a table, by its position, were before: others may wait for their keys.
    pub former: Vec<(usize, Vec<Value>)>,
    /// Rows on which foreign keys acted.
    pub acted: Vec<ActedOn>,
}

/// Shows what the rows a fold has written mean for the rows that wait, after demoting those that
/// would contradict what the user sees.
pub(crate) fn compensate(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    wrote: Wrote,
) -> Result<()> {
    show(conn, meta, |meta, judged| attempt(conn, meta, catalog, policies, &wrote, judged))
}

fn attempt(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    wrote: &Wrote,
    mut judged: bool,
) -> Result<()> {
    let mut acted = wrote.acted.clone();
    // Rows whose references were written: what is recorded of them is found out anew.
    let mut rewritten: Vec<(u32, Rid)> = Vec::new();
    let (mut yielded, mut waited) = (Yielded::new(), BTreeSet::new());
    let mut round = 0;
    loop {
        round += 1;
        let lookup = Lookup { conn, meta, catalog };
        let mut cases = Cases::new(lookup, policies)?;
        let rows = acted.iter().map(|(no, rid, _)| (no, rid));
        for (no, rid) in rows.chain(rewritten.iter().map(|(no, rid)| (no, rid))) {
            let Some(table) = catalog.position_of_no(*no) else { continue };
            if let Some(stored) = state::of(conn, meta, &catalog.tables[table], rid)? {
                cases.load(table, stored)?;
            }
        }
        let mut mine = BTreeSet::new();
        for (no, rid) in &wrote.touched {
            let Some(table) = catalog.position_of_no(*no) else { continue };
            let stored = state::of(conn, meta, &catalog.tables[table], rid)?;
            if let Some(stored) = stored {
                mine.insert(cases.touched(table, stored)?);
            }
        }
        for (table, row) in &wrote.former {
            cases.left(*table, row)?;
        }
        let tables: BTreeSet<u32> = wrote.touched.iter().map(|(no, _)| *no).collect();
        for table in tables.into_iter().filter_map(|no| catalog.position_of_no(no)) {
            cases.unneeded(table)?;
        }
        let view = view::settle(&mut cases, judged)?;
        let mut written = contradicted(&cases, &view, &mut acted);
        written.extend(unbound(&cases, &view)?);
        let (mut demoted, mut revived) = (BTreeSet::new(), BTreeSet::new());
        let mut loosened = Vec::new();
        // What foreign keys did comes first: rows may stand in the way for the want of it.
        let list = cases.list.iter().enumerate().filter(|_| written.is_empty());
        for (at, case) in list {
            let shown = view.rows.get(&at);
            let visible = case.alive() || shown.is_some();
            if visible && case.old.is_some() && case.old.as_ref() != shown {
                // A visible row would lose, because of one the user could not see.
                let winner = view.conflicts.get(&at).and_then(|c| c.winner).into_iter();
                let others = view.blockers.get(&at).into_iter().flatten().copied();
                let mut rivals = winner.chain(takes_number(&cases, &view, at)).chain(others);
                let rival = rivals.find(|w| {
                    let shown = view.rows.get(w);
                    shown.is_none() || cases.list[*w].old.as_ref() != shown
                });
                match rival {
                    Some(w) if yielded.contains(&pair(&cases, at, w)) => {
                        loosened.extend(unshown(&cases, at)?);
                    }
                    rival => demoted.extend(rival.map(|w| (w, at))),
                }
            }
            if !case.alive() && case.old.is_some() && shown.is_none() {
                // It was shown for a row that needed it; the user sees it, so it lives.
                revived.insert(at);
            }
            if !case.alive() && mine.contains(&at) && case.old.is_none() && shown.is_some() {
                demoted.extend(protectors(&cases, at).into_iter().map(|w| (w, at)));
            }
        }
        written.extend(loosened);
        // Those that the user sees may stay where they are once the hidden ones give way.
        let hidden = |&(w, _): &(usize, usize)| cases.list[w].old.is_none();
        if demoted.iter().any(hidden) {
            demoted.retain(hidden);
        }
        let nothing = demoted.is_empty() && revived.is_empty() && written.is_empty();
        if !nothing && !judged {
            // A write stays, so all keys are heard before there is one.
            (judged, acted) = (true, wrote.acted.clone());
            continue;
        }
        if nothing || round == MAX_ROUNDS {
            let mut merged = Merged::default();
            let mut list = view::decide(cases, view, &mut merged);
            return apply::apply(conn, meta, catalog, policies, &mut list, &mut merged);
        }
        let mut waiting = hanging(&cases, demoted.iter().map(|&(w, _)| w).collect());
        // Once: a row that was demoted may be shown under another number, and so on below it.
        waiting.retain(|&w| waited.insert((cases.list[w].table, cases.list[w].stored.rid.clone())));
        demoted.retain(|(w, _)| !waiting.contains(w));
        yielded.extend(demoted.iter().map(|&(w, at)| pair(&cases, w, at)));
        let demoted = in_turn(&cases, demoted.into_iter().map(|(w, _)| w).collect());
        let of = |at: usize| (cases.list[at].table, cases.list[at].stored.clone());
        let changes: Vec<_> = demoted
            .into_iter()
            .map(|at| (of(at), false))
            .chain(revived.into_iter().map(|at| (of(at), true)))
            .collect();
        let written: Vec<_> = written.into_iter().map(|(at, acted)| (of(at), acted)).collect();
        drop(cases);
        for ((table, mut stored), acted) in written {
            let (t, now, groups) = (&catalog.tables[table], meta.tick(0), &mut stored.state.groups);
            match acted {
                Acted::Deleted => stored.state.header.delete(now),
                Acted::Set(g) => set(&mut groups[g], t, g, now),
                Acted::Pinned(g, at) if groups[g].stamp < at => set(&mut groups[g], t, g, at),
                Acted::Pinned(g, _) => set(&mut groups[g], t, g, now),
            }
            let entry = state::put(conn, meta, t, &stored, Some(meta.position))?;
            let references = state::kept_references(catalog, t, &stored, false);
            let waits = Waits { references, claims: vec![], conflict: None, winner: None };
            state::record_waits(conn, meta, entry, &waits)?;
            rewritten.push((t.no, stored.rid));
        }
        for ((table, mut stored), revive) in changes {
            let stamp = meta.tick(0);
            let header = &mut stored.state.header;
            if revive {
                header.cl += 1;
                header.cl_stamp = stamp;
            } else {
                header.demoted = stamp;
            }
            let position = meta.position;
            let entry = state::put(conn, meta, &catalog.tables[table], &stored, Some(position))?;
            if revive {
                let settled =
                    Waits { references: vec![], claims: vec![], conflict: None, winner: None };
                state::record_waits(conn, meta, entry, &settled)?;
            }
        }
    }
}

/// A row that was demoted for another.
fn pair(cases: &Cases<'_>, demoted: usize, other: usize) -> (usize, Rid, Rid) {
    let rid = |at: usize| cases.list[at].stored.rid.clone();
    (cases.list[demoted].table, rid(demoted), rid(other))
}

/// Those of some rows that refer to another of them, directly or through others, and it not to them. They
/// may be hidden with it, and then stand in nobody's way.
fn hanging(cases: &Cases<'_>, of: BTreeSet<usize>) -> BTreeSet<usize> {
    let above: BTreeMap<usize, BTreeSet<usize>> =
        of.iter().map(|&at| (at, protect::ancestors(cases, at))).collect();
    let hangs = |at: &usize| {
        above[at].iter().any(|p| p != at && above.get(p).is_some_and(|above| !above.contains(at)))
    };
    of.iter().copied().filter(hangs).collect()
}

/// Demoted rows in the order in which they came, so that those that ask for one key do not change places.
fn in_turn(cases: &Cases<'_>, demoted: BTreeSet<usize>) -> Vec<usize> {
    let mut demoted: Vec<usize> = demoted.into_iter().collect();
    demoted.sort_by_key(|&at| {
        let Stored { rid, state, .. } = &cases.list[at].stored;
        (state.header.inserted.max(state.header.demoted), rid.clone())
    });
    demoted
}

/// Rows that would not show by themselves what a foreign key did to them. They are taken off the
/// list.
fn contradicted(
    cases: &Cases<'_>,
    view: &view::View,
    acted: &mut Vec<ActedOn>,
) -> Vec<(usize, Acted)> {
    let mut found = Vec::new();
    acted.retain(|(no, rid, acted)| {
        let table = cases.catalog().position_of_no(*no);
        let Some(at) = table.and_then(|table| cases.get(table, rid)) else { return true };
        let (case, shown) = (&cases.list[at], view.rows.get(&at));
        let t = &cases.catalog().tables[case.table];
        let same = match (acted, &case.old) {
            (Acted::Deleted, None) => !case.alive() || shown.is_none(),
            (Acted::Set(g) | Acted::Pinned(g, _), Some(old)) => {
                let columns = &t.table.groups[*g].columns;
                shown.is_some_and(|new| columns.iter().all(|&c| new[c] == old[c]))
            }
            // The user wrote it anew.
            _ => true,
        };
        if !same {
            found.push((at, acted.clone()));
        }
        same
    });
    found
}

/// Rows that the user sees and that a foreign key would hide for a reference which they do not show:
/// it is overridden, or to a former life of its row.
fn unbound(cases: &Cases<'_>, view: &view::View) -> Result<Vec<(usize, Acted)>> {
    let mut found = Vec::new();
    for (at, case) in cases.list.iter().enumerate() {
        if case.alive() && view.conflicts.get(&at).is_some_and(|c| c.kind.starts_with("fk")) {
            found.extend(unshown(cases, at)?);
        }
    }
    Ok(found)
}

/// References that a visible row does not show.
fn unshown(cases: &Cases<'_>, at: usize) -> Result<Vec<(usize, Acted)>> {
    let (case, mut found) = (&cases.list[at], Vec::new());
    let t = &cases.catalog().tables[case.table];
    let Some(old) = &case.old else { return Ok(found) };
    for (f, fk) in t.table.foreign_keys.iter().enumerate().filter(|(_, fk)| fk.enforced) {
        let shown = cases.lookup.reference(t, f, old)?;
        let bound = shown.as_ref() == case.reference(t, f);
        if !bound || shown.is_some() && protect::stale(cases, at, f) {
            found.push((at, Acted::Set(t.table.columns[fk.columns[0]].group)));
        }
    }
    Ok(found)
}

/// Visible rows whose references a change of this row's key overrides until the key is pinned. What
/// they show has to be written then, with the stamp of the pin: a pin overrides nothing.
pub(crate) fn overrode(
    lookup: Lookup<'_>,
    t: &Tracked,
    pinned: &Stored,
    stamp: Stamp,
) -> Result<Vec<ActedOn>> {
    let Lookup { conn, meta, catalog } = lookup;
    let Some(position) = catalog.position_of_no(t.no) else { return Ok(vec![]) };
    let mut found = Vec::new();
    for (no, entry) in cases::waiting_for_row(conn, meta, t, &pinned.rid)? {
        for (child, f) in catalog.references_to(position) {
            let c = &catalog.tables[child];
            let fk = &c.table.foreign_keys[f];
            let key = &pinned.state.groups[t.table.columns[fk.parent_columns[0]].group];
            let sets = matches!(fk.on_update, Action::SetNull | Action::SetDefault);
            if c.no != no || !fk.enforced || !sets || key.previous.is_none() || key.pinned {
                continue;
            }
            let Some(stored) = state::entry_by_id(conn, meta, c, entry)? else { continue };
            let g = c.table.columns[fk.columns[0]].group;
            if stored.loc.is_some() && stored.state.groups[g].stamp < key.stamp {
                found.push((no, stored.rid, Acted::Pinned(g, stamp)));
            }
        }
    }
    Ok(found)
}

/// What a reference shows becomes what was written.
fn set(group: &mut GroupState, t: &Tracked, g: usize, stamp: Stamp) {
    let body = std::mem::replace(&mut group.body, Body::Shown);
    let previous = match body {
        Body::Kept(cell) if t.table.groups[g].keeps_previous => Some(cell),
        _ => None,
    };
    *group = GroupState { previous, ..GroupState::shown(stamp) };
}

/// The case that would show the integer key which another visible case shows until now.
fn takes_number(cases: &Cases<'_>, view: &view::View, at: usize) -> Option<usize> {
    let case = &cases.list[at];
    let alias = cases.catalog().tables[case.table].table.rowid_alias()?;
    let (old, new) = (case.old.as_ref()?, view.rows.get(&at)?);
    if old[alias] == new[alias] {
        return None;
    }
    let mut rows = view.rows.iter().filter(|(w, _)| cases.list[**w].table == case.table);
    rows.find(|(_, row)| row[alias] == old[alias]).map(|(w, _)| *w)
}

/// Shows what rows that were just settled by command mean for themselves and for those that wait.
pub(crate) fn reshow(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    settled: &[(u32, Rid)],
) -> Result<()> {
    let mut cases = Cases::new(Lookup { conn, meta, catalog }, policies)?;
    for (no, rid) in settled {
        let Some(table) = catalog.position_of_no(*no) else { continue };
        if let Some(stored) = state::of(conn, meta, &catalog.tables[table], rid)? {
            cases.touched(table, stored)?;
        }
    }
    let view = view::settle(&mut cases, true)?;
    let mut list = view::decide(cases, view, &mut Merged::default());
    apply::apply(conn, meta, catalog, policies, &mut list, &mut Merged::default())
}

/// Hidden rows whose references keep a deleted row shown.
fn protectors(cases: &Cases<'_>, dead: usize) -> Vec<usize> {
    let (table, rid) = (cases.list[dead].table, &cases.list[dead].stored.rid);
    let mut found = Vec::new();
    for (at, case) in cases.list.iter().enumerate() {
        let t = &cases.catalog().tables[case.table];
        let refers = (0..t.table.foreign_keys.len()).any(|f| {
            cases.catalog().position(&t.table.foreign_keys[f].parent) == Some(table)
                && case.reference(t, f) == Some(rid)
                && case.stamp(t, t.table.foreign_keys[f].columns[0]) > case.header().demoted
        });
        if refers && case.alive() && case.old.is_none() {
            found.push(at);
        }
    }
    found
}
