//! What to tell people of what a merge decided against rows of theirs, once its plan has been written: rows
//! have the keys by then by which they are named.

use super::told::{self, Lost};
use super::{Decision, Merged};
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::describe::{self, row_name, the_row};
use crate::known::{called, known_row};
use crate::refs::Lookup;
use crate::state::{self, RowState};
use std::collections::{HashMap, HashSet};
use synqlite_view::ConflictKind;
use synqlite_view::affected::{AffectedRow, Conflict};
use synqlite_view::catalog::Relation;
use synqlite_wire::{Rid, Stamp, Value};

/// Adds what was decided against the rows of a plan.
pub(super) fn say(lookup: Lookup<'_>, plan: &[AffectedRow], merged: &mut Merged) -> Result<()> {
    let catalog = lookup.catalog;
    let mut winners: HashMap<(usize, &Rid), Option<&AffectedRow>> = HashMap::new();
    let lost = plan.iter().filter_map(|item| Some((item.table, item.winner.as_ref()?)));
    winners.extend(lost.map(|who| (who, None)));
    if !winners.is_empty() {
        for item in plan {
            let winner = winners.get_mut(&(item.table, &item.stored.rid));
            winner.into_iter().for_each(|winner| *winner = Some(item));
        }
    }
    let of = |item: &AffectedRow| {
        let t = &catalog.tables[item.table];
        let winner = item.winner.as_ref().and_then(|w| winners.get(&(item.table, w)).copied()?);
        set_aside(t, item, winner)
    };
    for item in plan {
        let t = &catalog.tables[item.table];
        if let Some(lost) = renumbered(lookup, t, item)? {
            merged.tell(&t.table.name, lost);
        }
        merged.decisions.extend(given_elsewhere(t, item));
        merged.decisions.extend(of(item));
    }
    Ok(())
}

/// Leaves what still holds at the end of a merge that came in parts: what one part decided for want of the
/// next is nothing to tell. Of a row that still has a record, what was said last.
pub(crate) fn standing(lookup: Lookup<'_>, decisions: &mut Vec<Decision>) -> Result<()> {
    let (mut said, mut standing) = (HashSet::new(), Vec::new());
    for decision in std::mem::take(decisions).into_iter().rev() {
        if let Some(record) = &decision.record
            && (!said.insert(record.clone()) || !is_open(lookup, record)?)
        {
            continue;
        }
        standing.push(decision);
    }
    decisions.extend(standing.into_iter().rev());
    Ok(())
}

fn is_open(lookup: Lookup<'_>, (no, rid): &(u32, Rid)) -> Result<bool> {
    let Lookup { conn, meta, catalog } = lookup;
    let Some(position) = catalog.position_of_no(*no) else { return Ok(false) };
    let stored = state::of(conn, meta, &catalog.tables[position], rid)?;
    let Some(entry) = stored.and_then(|stored| stored.entry) else { return Ok(false) };
    Ok(state::conflict(conn, entry)?.is_some())
}

/// A row by what it shows now, else by what it showed last.
fn name(t: &Relation, item: &AffectedRow) -> String {
    let row = item.new.as_deref().or(item.old.as_deref());
    let stored = &item.stored;
    row_name(t, row, stored.loc.as_ref(), &stored.state, &stored.rid)
}

/// What people know it by, from the same.
fn known(t: &Relation, item: &AffectedRow, contested: &[usize]) -> Option<String> {
    let row = item.new.as_deref().or(item.old.as_deref());
    known_row(&t.table, row, &item.stored.state, contested)
}

/// What to say of a row that a constraint keeps from showing what was written.
fn set_aside(t: &Relation, item: &AffectedRow, winner: Option<&AffectedRow>) -> Option<Decision> {
    let Conflict { kind, constraint, .. } = item.conflict.as_ref()?;
    if !item.news && item.old == item.new {
        return None;
    }
    let row = name(t, item);
    let contested = describe::columns(t, constraint);
    // By its key alone, as programs have it, and with what people know it by.
    let by = |known_too: bool| {
        winner.map_or("another row".to_owned(), |winner| {
            let known = known(t, winner, contested).filter(|_| known_too);
            let by = name(t, winner);
            let another = if by == row { "another " } else { "" };
            format!("{another}{}", the_row(&called(&by, known.as_deref())))
        })
    };
    let key = describe::constraint(t, constraint);
    let parent = describe::parent(t, constraint);
    let parent = parent.map_or("a row".to_owned(), |parent| format!("a row of {parent}"));
    let earlier = match item.stored.state.put_behind(t, contested) {
        None => "has the earlier claim to",
        Some(_) => "was put first for",
    };
    let what = |by: String| match kind {
        ConflictKind::Unique => format!("hidden: {by} {earlier} its {key}"),
        ConflictKind::Fallback => format!("shows its former value: {by} {earlier} its {key}"),
        ConflictKind::RestrictRevived => {
            "kept although deleted: another row refers to it".to_owned()
        }
        ConflictKind::SetNull => {
            "its reference is not shown: the row it is to is not there".to_owned()
        }
        ConflictKind::RowConstraint => "hidden: its table cannot hold it".to_owned(),
        ConflictKind::Refused => "hidden: SQLite refuses it here".to_owned(),
        ConflictKind::FkCascade => format!("hidden: {key} refers to {parent} that was deleted"),
        ConflictKind::FkParentHidden => {
            format!("hidden: {key} refers to {parent} that is hidden itself")
        }
        _ => format!("hidden: {key} refers to {parent} that is not there"),
    };
    let record = Some((t.no, item.stored.rid.clone()));
    let (name, table) = (known(t, item, contested), t.table.name.clone());
    let (what, words) = (what(by(false)), what(by(true)));
    Some(Decision { table, row, name, what, words, record, claim: None })
}

/// What to say of a row whose number is another here since a site gave it one for good (R-PIN), which told of it.
fn given_elsewhere(t: &Tracked, item: &AffectedRow) -> Option<Decision> {
    let alias = t.table.rowid_alias().filter(|_| t.table.own_number().is_none())?;
    let group = t.table.columns[alias].group;
    let state = &item.stored.state.groups[group];
    let (was, is) = (&item.old.as_ref()?[alias], &item.new.as_ref()?[alias]);
    let (&Value::Integer(was), &Value::Integer(is)) = (was, is) else { return None };
    let asks = t.table.groups[group].columns.iter().position(|&c| c == alias)?;
    if !state.pinned || was == is || item.cells[group].values[asks] != Value::Integer(is) {
        return None;
    }
    let what = format!("{was} became {is}, which another site gave it");
    let (table, row, name) = (t.table.name.clone(), name(t, item), known(t, item, &[]));
    Some(Decision { table, row, name, words: what.clone(), what, record: None, claim: None })
}

/// What to say of a row that gets another integer key than the one it asks for. One that it was given since the last
/// fold is none that it had.
fn renumbered(lookup: Lookup<'_>, t: &Tracked, item: &AffectedRow) -> Result<Option<Lost>> {
    let alias = t.table.rowid_alias().filter(|_| t.table.own_number().is_none());
    let (Some(alias), Some(new)) = (alias, &item.new) else { return Ok(None) };
    let group = t.table.columns[alias].group;
    let Some(i) = t.table.groups[group].columns.iter().position(|&c| c == alias) else {
        return Ok(None);
    };
    let (wanted, shown) = (&item.cells[group].values[i], &new[alias]);
    let was = item.old.as_ref().map_or(wanted, |old| &old[alias]);
    if wanted == shown || was == shown {
        return Ok(None);
    }
    let (&Value::Integer(is), &Value::Integer(wanted)) = (shown, wanted) else { return Ok(None) };
    let holder = state::at(lookup.conn, lookup.meta, t, &Loc::Row(wanted))?;
    let stamp = |state: &RowState| state.groups[group].stamps().max().unwrap_or(Stamp::ZERO);
    let asked = stamp(&item.stored.state);
    let pair = (asked, holder.map_or(asked, |holder| stamp(&holder.state)));
    let why = format!("an earlier row has {wanted}");
    let row = (name(t, item), known(t, item, &[]));
    Ok(Some(told::renumbered(t, &item.stored.rid, (wanted, is), &why, pair, row)))
}
