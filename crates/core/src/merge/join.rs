//! Joining what another site sent into the local state (R-JOIN). Nothing is shown yet.

use super::words::{describe, list};
use super::{Decision, Merged};
use crate::catalog::{Catalog, Tracked};
use crate::export::{shape, shown};
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::state::{self, Body, GroupState, RowState, Stored};
use crate::{Error, Result};
use synqlite_wire::{
    Delta, Header, Register, Rid, RowChange, Stamp, TableShape, Value, VersionVector,
};

/// A table of a delta and the local table it means.
pub(super) struct Matched {
    /// Position of the local table.
    pub position: usize,
    /// Local group for each group of the delta.
    pub groups: Vec<usize>,
}

/// Finds the local table and groups for each table of the delta that has changed rows.
pub(super) fn match_tables(catalog: &Catalog, delta: &Delta) -> Result<Vec<Option<Matched>>> {
    let mut used = vec![false; delta.tables.len()];
    for change in &delta.rows {
        let used = used.get_mut(change.table as usize);
        *used.ok_or_else(|| Error::Damaged("a change of an unknown table".into()))? = true;
    }
    let tables = delta.tables.iter().zip(used);
    tables
        .map(|(theirs, used)| if used { match_table(catalog, theirs).map(Some) } else { Ok(None) })
        .collect()
}

fn match_table(catalog: &Catalog, theirs: &TableShape) -> Result<Matched> {
    let differs = |how: String| Err(Error::SchemaDiffers { table: theirs.name.clone(), how });
    let Some(position) = catalog.position(&theirs.name) else {
        return differs("it is not replicated here".into());
    };
    let ours = shape(&catalog.tables[position]);
    let mut groups = Vec::new();
    for group in &theirs.groups {
        match ours.groups.iter().position(|g| g == group) {
            Some(g) => groups.push(g),
            None => {
                return differs(format!(
                    "columns {} are not one unit here",
                    group.columns.join(", ")
                ));
            }
        }
    }
    match ours.groups.iter().find(|g| !theirs.groups.contains(g)) {
        Some(group) => {
            differs(format!("columns {} are not one unit there", group.columns.join(", ")))
        }
        None => Ok(Matched { position, groups }),
    }
}

/// A row that was news.
pub(super) struct Joined {
    /// Its place and joined state.
    pub stored: Stored,
    /// What it shows until now.
    pub old: Option<Vec<Value>>,
    /// What it referred to without showing it: (foreign key, row).
    pub former: Vec<(usize, Rid)>,
}

/// R-JOIN of one row. `None` if it brought no news.
pub(super) fn join(
    lookup: Lookup<'_>,
    t: &Tracked,
    matched: &Matched,
    sender: &VersionVector,
    change: &RowChange,
    merged: &mut Merged,
) -> Result<Option<Joined>> {
    let Lookup { conn, meta, .. } = lookup;
    let found = state::of(conn, meta, t, &change.rid)?;
    let known = found.is_some();
    let mut stored = match found {
        Some(stored) => stored,
        None => {
            let mut state = RowState::born(t, Stamp::ZERO);
            state.header = Header::NONE;
            Stored { entry: None, rid: change.rid.clone(), loc: None, state }
        }
    };
    let old = match &stored.loc {
        Some(loc) => Some(shown(conn, t, loc)?),
        None => None,
    };
    let row = |old: &Option<Vec<Value>>| describe(t, old.as_deref(), &change.rid);
    let was = stored.state.header;
    let header = was.join(&change.header);
    if known && was.alive() && !header.alive() && wrote_after_insert(meta, &stored.state) {
        let what = "deleted there while it was updated here: the delete wins".to_owned();
        merged.decisions.push(Decision { table: t.table.name.clone(), row: row(&old), what });
    }
    let mut news = header != was;
    stored.state.header = header;
    let mut former = Vec::new();
    for register in &change.registers {
        let g = matched.groups[register.group as usize];
        let group = &mut stored.state.groups[g];
        if known && concurrent(meta, sender, group, register) {
            merged.decisions.extend(decide(t, g, group, register, &old, row(&old)));
        }
        if register.stamp > group.stamp {
            check_cell(t, g, register)?;
            if let Body::Kept(cell) = &group.body {
                let refs = t.table.groups[g].foreign_keys.iter().zip(&cell.refs);
                former.extend(refs.filter_map(|(&f, rid)| Some((f, rid.clone()?))));
            }
            *group = GroupState {
                stamp: register.stamp,
                pinned: register.pinned,
                previous: register.previous.clone(),
                body: Body::Kept(register.cell.clone()),
            };
            merged.columns += 1;
            news = true;
        }
    }
    Ok(news.then_some(Joined { stored, old, former }))
}

/// Whether this site and another wrote the register, neither having seen the other's write.
fn concurrent(meta: &Meta, sender: &VersionVector, ours: &GroupState, theirs: &Register) -> bool {
    ours.stamp.site == meta.site
        && theirs.stamp.site != meta.site
        && !(ours.pinned || theirs.pinned)
        && !meta.seen.covers(theirs.stamp)
        && !sender.covers(ours.stamp)
}

/// Whether this site updated the row after inserting it, so that a delete hides a write of its own.
fn wrote_after_insert(meta: &Meta, state: &RowState) -> bool {
    let own = |g: &GroupState| g.stamp.site == meta.site && g.stamp > state.header.inserted;
    state.groups.iter().any(own)
}

fn check_cell(t: &Tracked, g: usize, register: &Register) -> Result<()> {
    let group = &t.table.groups[g];
    let fits = |cell: &synqlite_wire::Cell| {
        cell.values.len() == group.columns.len() && cell.refs.len() == group.foreign_keys.len()
    };
    if fits(&register.cell) && register.previous.as_ref().is_none_or(fits) {
        return Ok(());
    }
    Err(Error::SchemaDiffers {
        table: t.table.name.clone(),
        how: "a change has other columns".into(),
    })
}

fn decide(
    t: &Tracked,
    g: usize,
    ours: &GroupState,
    theirs: &Register,
    old: &Option<Vec<Value>>,
    row: String,
) -> Option<Decision> {
    let columns = &t.table.groups[g].columns;
    let here: Vec<Value> = match (&ours.body, old) {
        (Body::Kept(cell), _) => cell.values.clone(),
        (Body::Shown, Some(old)) => columns.iter().map(|&c| old[c].clone()).collect(),
        (Body::Shown, None) => return None,
    };
    if here == theirs.cell.values {
        return None;
    }
    let names: Vec<_> = columns.iter().map(|&c| t.table.columns[c].name.as_str()).collect();
    let (here, there) = (list(&here), list(&theirs.cell.values));
    let later = if theirs.stamp > ours.stamp {
        "the one there is later and wins"
    } else {
        "the one here is later and stays"
    };
    let what = format!("{}: {here} here, {there} there; {later}", names.join(", "));
    Some(Decision { table: t.table.name.clone(), row, what })
}
