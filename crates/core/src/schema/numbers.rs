//! Which tables each site numbers for itself (R-OWN): policy `T.ids=local`.

use super::pragmas::Inventory;
use super::read::Draft;
use super::select;
use super::{ForeignKey, Table};
use crate::policy::Policies;
use std::collections::BTreeSet;

/// What no foreign key keeps would mean that other row on the site where SQLite does so.
const REUSES: &str = "is referred to by references that are not enforced, and SQLite gives the number of a \
    deleted row to another: it needs AUTOINCREMENT";

/// Policy `T.ids=local`. Returns the policies that have no effect, and why. They are no error here, as
/// with counters.
pub(super) fn apply(
    inventory: &Inventory,
    drafts: &mut [Draft],
    policies: &Policies,
) -> Vec<(String, String)> {
    let loose = |fk: &ForeignKey| !fk.enforced || !policies.enforces_foreign_keys();
    let keys = drafts.iter().flat_map(|d| &d.table.foreign_keys);
    let loose: BTreeSet<String> = keys.filter(|fk| loose(fk)).map(|fk| fk.parent.clone()).collect();
    let mut idle = Vec::new();
    for (key, name) in policies.own_numbers() {
        let found = select::known_table(inventory, name).map_err(|e| e.to_string());
        let draft = found.and_then(|entry| {
            let draft = drafts.iter_mut().find(|d| d.table.name == entry.name);
            draft.ok_or(format!("table {name} is not replicated"))
        });
        let fits = draft.and_then(|draft| {
            may_number(&draft.table, &draft.checks)?;
            match loose.contains(&draft.table.name) && !draft.table.autoincrement {
                true => Err(format!("table {name} {REUSES}")),
                false => Ok(draft),
            }
        });
        match fits {
            Ok(draft) => draft.table.own_numbers = true,
            Err(why) => idle.push((key.to_owned(), why)),
        }
    }
    idle
}

/// Whether sites may show a row of a table under different numbers, or why not. `checks`: the columns
/// that each CHECK of the table reads.
fn may_number(table: &Table, checks: &[Vec<usize>]) -> Result<(), String> {
    let no = |why: &str| Err(format!("table {} {why}", table.name));
    let Some(alias) = table.renumbers() else {
        return no("is not numbered by SQLite alone, so no number of it ever changes");
    };
    // Else sites would decide otherwise on who has a key, or which row fits.
    if table.number_decides() {
        return no("has a UNIQUE index over its number and more");
    }
    if checks.iter().any(|columns| columns.contains(&alias)) {
        return no("has a CHECK over its number");
    }
    Ok(())
}
