//! What to tell people of what a merge decided against rows of theirs.

use super::Decision;
use crate::catalog::Catalog;
use crate::describe::{describe, text};
use synqlite_view::ConflictKind;
use synqlite_view::affected::{AffectedRow, Conflict};
use synqlite_view::catalog::Relation;

/// What was decided against the rows of a plan.
pub(super) fn say(catalog: &Catalog, plan: &[AffectedRow]) -> Vec<Decision> {
    let of = |item: &AffectedRow| {
        let t = &catalog.tables[item.table];
        renumbered(t, item).into_iter().chain(set_aside(t, item))
    };
    plan.iter().flat_map(of).collect()
}

/// What to say of a row that a constraint keeps from showing what was written.
fn set_aside(t: &Relation, item: &AffectedRow) -> Option<Decision> {
    let Conflict { kind, constraint, .. } = item.conflict.as_ref()?;
    if !item.news && item.old == item.new {
        return None;
    }
    let winner = item.winner.as_ref().map_or(String::new(), |w| {
        let row = describe(t, None, w);
        format!(" in favour of row {row}")
    });
    let what = match kind {
        ConflictKind::Unique => {
            format!("hidden: its key in {constraint} has an earlier claim{winner}")
        }
        ConflictKind::Fallback => {
            format!("shows its former value: {constraint} has an earlier claim{winner}")
        }
        ConflictKind::RestrictRevived => {
            "kept although deleted: another row refers to it".to_owned()
        }
        ConflictKind::SetNull => {
            "its reference is not shown: the row it is to is not there".to_owned()
        }
        ConflictKind::RowConstraint => "hidden: its table cannot hold it".to_owned(),
        ConflictKind::Refused => "hidden: SQLite refuses it here".to_owned(),
        _ => format!("hidden: {constraint} refers to a row that is not there"),
    };
    let row = describe(t, item.old.as_deref().or(item.new.as_deref()), &item.stored.rid);
    Some(Decision { table: t.table.name.clone(), row, what })
}

/// What to say of a row that does not get the integer key it asks for.
fn renumbered(t: &Relation, item: &AffectedRow) -> Option<Decision> {
    let (alias, new) = (t.table.rowid_alias()?, item.new.as_ref()?);
    let group = t.table.columns[alias].group;
    let i = t.table.groups[group].columns.iter().position(|&c| c == alias)?;
    let (wanted, shown) = (&item.cells[group].values[i], &new[alias]);
    if wanted == shown || item.old.as_ref().is_some_and(|old| old[alias] == *shown) {
        return None;
    }
    let (wanted, shown) = (text(wanted), text(shown));
    let what = format!("{wanted} is taken by an earlier row; this one becomes {shown}");
    let row = describe(t, item.old.as_deref(), &item.stored.rid);
    Some(Decision { table: t.table.name.clone(), row, what })
}
