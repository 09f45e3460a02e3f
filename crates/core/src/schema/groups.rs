//! Units of columns that are written as one (R-GROUP), which of them are counters (R-COUNTER), and
//! what identifies a row (R-ID-AUTO).
//!
//! A merge takes a whole unit from one site. Primary keys, foreign keys and CHECKs never span two
//! units, so every combination of values that they see was once accepted by SQLite. But no site has
//! written the sum that a counter shows, so a counter is a unit of its own whatever CHECK reads it.

use std::collections::{BTreeMap, BTreeSet};

use super::pragmas::Inventory;
use super::read::Draft;
use super::select;
use super::{Action, Affinity, ForeignKey, Group, Identity, Table, TableKind};
use crate::policy::Policies;

/// What identifies the rows of a table by default (R-ID-AUTO).
pub(super) fn identity(draft: &Draft) -> Identity {
    let table = &draft.table;
    match table.kind {
        _ if table.primary_key.is_empty() => Identity::Birth,
        // A singleton or a one-to-one table: its number means something.
        TableKind::RowidAlias(key) => {
            let mut units =
                draft.checks.iter().chain(table.foreign_keys.iter().map(|f| &f.columns));
            if units.any(|unit| unit.contains(&key)) { Identity::Key } else { Identity::Birth }
        }
        _ => Identity::Key,
    }
}

/// Groups the columns of all tables. Foreign keys must have been resolved.
pub(super) fn assign(drafts: &mut [Draft]) {
    let mut referenced: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let (mut acting_parents, mut converted) = (BTreeSet::new(), BTreeSet::new());
    let keys = drafts.iter().flat_map(|d| d.table.foreign_keys.iter().map(|key| (&d.table, key)));
    for (table, key) in keys {
        referenced.entry(key.parent.clone()).or_default().extend(&key.parent_columns);
        if key.enforced && !matches!(key.on_delete, Action::NoAction | Action::Restrict) {
            acting_parents.insert(key.parent.clone());
        }
        let mut pairs = key.columns.iter().zip(&key.parent_keys);
        if pairs.any(|(&c, (parent, _))| converts(table.columns[c].affinity, *parent)) {
            converted.insert(key.parent.clone());
        }
    }
    for Draft { table, checks, .. } in drafts {
        let units = checks
            .iter()
            .chain(table.foreign_keys.iter().map(|f| &f.columns))
            .chain([&table.primary_key]);
        let group_of = connected(table.columns.len(), units);

        let mut kept = referenced.remove(&table.name).unwrap_or_default();
        kept.extend(&table.primary_key);
        kept.extend(table.uniques.iter().flat_map(|unique| &unique.columns));
        // Whether an ON UPDATE action or the user changed a reference, its former value tells.
        let acting =
            |key: &&ForeignKey| !matches!(key.on_update, Action::NoAction | Action::Restrict);
        kept.extend(table.foreign_keys.iter().filter(acting).flat_map(|key| &key.columns));
        table.groups = groups(table, &group_of, &kept);
        table.acts_on_delete = acting_parents.contains(&table.name);
        table.converts_old = converted.contains(&table.name);
        for (column, group) in table.columns.iter_mut().zip(group_of) {
            column.group = group;
        }
    }
}

/// Whether SQLite converts a key for the sake of a child column's affinity before it compares them
/// (<https://sqlite.org/datatype3.html#comparison_expressions>).
fn converts(child: Affinity, parent: Affinity) -> bool {
    let numeric = |a| matches!(a, Affinity::Integer | Affinity::Numeric | Affinity::Real);
    child != parent && child != Affinity::Blob && !(numeric(child) && numeric(parent))
}

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
pub(super) fn counters(
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

fn groups(table: &Table, group_of: &[usize], kept: &BTreeSet<usize>) -> Vec<Group> {
    let count = group_of.iter().max().map_or(0, |last| last + 1);
    (0..count)
        .map(|group| {
            let inside = |column: &usize| group_of.get(*column) == Some(&group);
            let columns: Vec<usize> = (0..group_of.len()).filter(inside).collect();
            let foreign_keys = (0..table.foreign_keys.len())
                .filter(|&i| table.foreign_keys[i].columns.iter().any(inside))
                .collect();
            let keeps_previous = columns.iter().any(|column| kept.contains(column));
            Group { columns, foreign_keys, keeps_previous, counter: false }
        })
        .collect()
}

/// Number of the connected component of each of `count` columns, in the order of their first
/// columns; the columns of one unit are connected.
fn connected<'a>(count: usize, units: impl Iterator<Item = &'a Vec<usize>>) -> Vec<usize> {
    // Each column points to one of its component that is not after it; the first to itself.
    let mut link: Vec<usize> = (0..count).collect();
    fn first(link: &[usize], mut column: usize) -> usize {
        while link[column] != column {
            column = link[column];
        }
        column
    }
    for unit in units {
        for pair in unit.windows(2) {
            let (a, b) = (first(&link, pair[0]), first(&link, pair[1]));
            link[a.max(b)] = a.min(b);
        }
    }
    let mut numbers = BTreeMap::new();
    (0..count)
        .map(|column| {
            let next = numbers.len();
            *numbers.entry(first(&link, column)).or_insert(next)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_share_a_column_are_one() {
        let units = [vec![3, 1], vec![4], vec![], vec![5, 3]];
        assert_eq!(connected(6, units.iter()), [0, 1, 2, 1, 3, 1]);
        assert_eq!(connected(0, units[2..3].iter()), Vec::<usize>::new());
    }
}
