//! Groups of columns that are written as one (R-GROUP), and what identifies a row (R-ID-AUTO).
//!
//! A merge takes a whole group from one site. Primary keys, foreign keys and CHECKs never span two
//! groups, so every combination of values that they see was once accepted by SQLite. But no site has
//! written the sum that a counter shows, so a counter is a group of its own whatever CHECK reads it.

use crate::schema::{Affinity, ForeignKey, Group, Identity, Table, TableKind};
use std::collections::{BTreeMap, BTreeSet};

/// What identifies the rows of a table by default (R-ID-AUTO). `checks`: the columns that each CHECK reads.
pub fn identity(table: &Table, checks: &[Vec<usize>]) -> Identity {
    match table.kind {
        _ if table.primary_key.is_empty() => Identity::Birth,
        // A singleton or a one-to-one table: its number means something.
        TableKind::RowidAlias(key) => {
            let mut together = checks.iter().chain(table.foreign_keys.iter().map(|f| &f.columns));
            if together.any(|columns| columns.contains(&key)) {
                Identity::Key
            } else {
                Identity::Birth
            }
        }
        _ => Identity::Key,
    }
}

/// Groups the columns of tables, each with the columns that each of its CHECKs reads. Foreign keys must
/// have been resolved.
pub fn assign(drafts: &mut [(&mut Table, &[Vec<usize>])]) {
    let mut referenced: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let (mut acting_parents, mut converted) = (BTreeSet::new(), BTreeMap::new());
    let keys = drafts.iter().flat_map(|(t, _)| t.foreign_keys.iter().map(|key| (&**t, key)));
    for (table, key) in keys {
        referenced.entry(key.parent.clone()).or_default().extend(&key.parent_columns);
        if key.enforced && key.on_delete.acts() {
            acting_parents.insert(key.parent.clone());
        }
        let pairs = key.columns.iter().zip(&key.parent_keys).zip(&key.parent_columns);
        let of_another =
            pairs.filter(|((c, (parent, _)), _)| converts(table.columns[**c].affinity, *parent));
        let of: &mut BTreeSet<usize> = converted.entry(key.parent.clone()).or_default();
        of.extend(of_another.map(|(_, column)| *column));
    }
    for (table, checks) in drafts {
        let together = checks
            .iter()
            .chain(table.foreign_keys.iter().map(|f| &f.columns))
            .chain([&table.primary_key]);
        let group_of = connected(table.columns.len(), together);

        let mut kept = referenced.remove(&table.name).unwrap_or_default();
        kept.extend(&table.primary_key);
        kept.extend(table.uniques.iter().flat_map(|unique| &unique.columns));
        // Whether an ON UPDATE action or the user changed a reference, its former value tells.
        let acting = |key: &&ForeignKey| key.on_update.acts();
        kept.extend(table.foreign_keys.iter().filter(acting).flat_map(|key| &key.columns));
        table.groups = groups(table, &group_of, &kept);
        table.acts_on_delete = acting_parents.contains(&table.name);
        table.converted = converted.remove(&table.name).unwrap_or_default();
        for (column, group) in table.columns.iter_mut().zip(group_of) {
            column.group = group;
        }
    }
}

/// Whether SQLite converts a key for the sake of a child column's affinity before it compares them
/// (<https://sqlite.org/datatype3.html#comparison_expressions>).
pub fn converts(child: Affinity, parent: Affinity) -> bool {
    let numeric = |a| matches!(a, Affinity::Integer | Affinity::Numeric | Affinity::Real);
    child != parent && child != Affinity::Blob && !(numeric(child) && numeric(parent))
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
/// columns; columns that belong together are connected.
fn connected<'a>(count: usize, together: impl Iterator<Item = &'a Vec<usize>>) -> Vec<usize> {
    // Each column points to one of its component that is not after it; the first to itself.
    let mut link: Vec<usize> = (0..count).collect();
    fn first(link: &[usize], mut column: usize) -> usize {
        while link[column] != column {
            column = link[column];
        }
        column
    }
    for columns in together {
        for pair in columns.windows(2) {
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
        let together = [vec![3, 1], vec![4], vec![], vec![5, 3]];
        assert_eq!(connected(6, together.iter()), [0, 1, 2, 1, 3, 1]);
        assert_eq!(connected(0, together[2..3].iter()), Vec::<usize>::new());
    }
}
