//! Foreign keys by what they say (R-CONSTRAINT): their columns and those to which they refer.

use crate::schema::{Action, Collation, ForeignKey, Table};

/// Columns of a key, and how each compares.
pub type Key = Vec<(usize, Collation)>;

/// The primary key of a table.
pub fn primary_key(table: &Table) -> Key {
    table.primary_key.iter().copied().zip(table.key_collations.iter().cloned()).collect()
}

/// A logical reference; its name is without the number that tells equal ones apart.
pub fn foreign_key(
    table: &Table,
    columns: Vec<usize>,
    parent: &Table,
    parent_key: Key,
) -> ForeignKey {
    let (parent_columns, collations): (Vec<usize>, Vec<Collation>) = parent_key.into_iter().unzip();
    let affinities = parent_columns.iter().map(|&p| parent.columns[p].affinity);
    let to_key = parent_columns == parent.primary_key;
    let to = names(parent, &parent_columns);
    let to = if to_key { String::new() } else { format!("({})", to.join(",")) };
    let name = parent.name.to_ascii_lowercase();
    ForeignKey {
        parent_keys: affinities.zip(collations).collect(),
        name: format!("{}>{name}{to}", names(table, &columns).join(",")),
        nth: 1,
        columns,
        parent: parent.name.clone(),
        parent_names: names(parent, &parent_columns),
        parent_columns,
        on_delete: Action::NoAction,
        on_update: Action::NoAction,
        enforced: false,
    }
}

fn names(table: &Table, positions: &[usize]) -> Vec<String> {
    positions.iter().filter_map(|&i| Some(table.columns.get(i)?.name.clone())).collect()
}

/// Sorts and numbers the keys so that names do not depend on the order of declaration.
pub fn number(keys: &mut [ForeignKey]) {
    keys.sort_by(|a, b| {
        let rank = |k: &ForeignKey| (k.on_delete as u8, k.on_update as u8, !k.enforced);
        (&a.name, &a.parent_names, rank(a)).cmp(&(&b.name, &b.parent_names, rank(b)))
    });
    for i in 1..keys.len() {
        if keys[i].name == keys[i - 1].name {
            keys[i].nth = keys[i - 1].nth + 1;
        }
    }
}
