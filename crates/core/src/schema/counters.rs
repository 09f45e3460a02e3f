//! Which columns are counters (R-COUNTER): policy `T.column=counter`.

use super::pragmas::Inventory;
use super::read::Draft;
use super::select;
use super::{Affinity, Table};
use crate::policy::Policies;

/// Takes the columns that count out of the CHECKs by which others are held together.
pub(super) fn part(inventory: &Inventory, drafts: &mut [Draft], policies: &Policies) {
    for (_, name, column) in policies.counters() {
        let Ok(entry) = select::known_table(inventory, name) else { continue };
        let Some(draft) = drafts.iter_mut().find(|d| d.table.name == entry.name) else { continue };
        let is = |other: &str| other.eq_ignore_ascii_case(column);
        let Some(c) = draft.table.columns.iter().position(|c| is(&c.name)) else { continue };
        if keeps_from_counting(&draft.table, c).is_none() {
            draft.checks.iter_mut().for_each(|check| check.retain(|&other| other != c));
        }
    }
}

/// Policy `T.column=counter` (R-COUNTER). Returns the policies that have no effect, and why.
///
/// They are no error here: a policy may reach a site before the table, and a table may change.
pub(super) fn apply(
    inventory: &Inventory,
    drafts: &mut [Draft],
    policies: &Policies,
) -> Vec<(String, String)> {
    let mut idle = Vec::new();
    for (key, name, column) in policies.counters() {
        let found = select::known_table(inventory, name).map_err(|e| e.to_string());
        let table = found.and_then(|entry| {
            let draft = drafts.iter_mut().find(|d| d.table.name == entry.name);
            draft.map(|d| &mut d.table).ok_or(format!("table {name} is not replicated"))
        });
        let done = table.and_then(|table| {
            let c = may_count(table, column)?;
            table.groups[table.columns[c].group].counter = true;
            Ok(())
        });
        idle.extend(done.err().map(|why| (key.to_owned(), why)));
    }
    idle
}

/// The position of a column that can be a counter, or why it cannot.
pub(super) fn may_count(table: &Table, name: &str) -> Result<usize, String> {
    let is = |other: &str| other.eq_ignore_ascii_case(name);
    let no = |why: &str| Err(format!("column {name} of table {} {why}", table.name));
    if table.generated.iter().any(|g| is(g)) {
        return no("is generated: count what it is computed from");
    }
    let Some(c) = table.columns.iter().position(|column| is(&column.name)) else {
        let near = select::near(name, table.columns.iter().map(|c| c.name.as_str()));
        let hint = match near.is_empty() {
            true => String::new(),
            false => format!("; did you mean {}?", near.join(" or ")),
        };
        return Err(format!("table {} has no stored column {name}{hint}", table.name));
    };
    if let Some(why) = keeps_from_counting(table, c) {
        return no(&why);
    }
    if table.groups[table.columns[c].group].keeps_previous {
        return no("is what a foreign key refers to, and keys do not add up");
    }
    Ok(c)
}

/// Why a column cannot be a counter. Foreign keys must have been resolved.
fn keeps_from_counting(table: &Table, c: usize) -> Option<String> {
    let number = [Affinity::Integer, Affinity::Real, Affinity::Numeric];
    if !number.contains(&table.columns[c].affinity) {
        return Some("is not declared as a number: give it type INTEGER or REAL".to_owned());
    }
    if table.primary_key.contains(&c) {
        return Some("is part of the primary key, and keys do not add up".to_owned());
    }
    if let Some(unique) = table.uniques.iter().find(|u| u.columns.contains(&c)) {
        let index = &unique.name;
        return Some(format!("is read by unique index {index}, and keys do not add up"));
    }
    let refers = table.foreign_keys.iter().any(|fk| fk.columns.contains(&c));
    refers.then(|| "is part of a foreign key, and references do not add up".to_owned())
}
