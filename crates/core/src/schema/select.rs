//! Which tables take part at all, and why others do not.

use super::Selection;
use super::feeds::is_of_counts;
use super::pragmas::{Entry, EntryKind, Inventory};
use super::read::Draft;
use super::tools;
use crate::error::{Error, Result};
use crate::policy::Policies;

/// Tables chosen by name. All names have been checked to be tables.
pub(super) struct Choice<'a> {
    selection: &'a Selection,
    local: Vec<&'a str>,
    /// Tables to replicate although there are reasons not to: policy `replicate_tables`.
    also: Vec<&'a str>,
}

impl<'a> Choice<'a> {
    pub fn new(
        inventory: &Inventory,
        policies: &'a Policies,
        selection: &'a Selection,
    ) -> Result<Self> {
        let local = policies.list("local_tables");
        let named = selection.only.iter().chain(&selection.exclude);
        for name in named.filter(|_| selection.strict) {
            known_table(inventory, name)?;
        }
        let also = policies.list("replicate_tables");
        for (key, names) in [("local_tables", &local), ("replicate_tables", &also)] {
            let value = policies.get(key).unwrap_or_default();
            // Between the names of a list stand commas.
            let apart = inventory.tables().find(|t| t.contains(',') && value.contains(*t));
            for name in names.iter().filter(|_| selection.strict) {
                known_table(inventory, name).map_err(|e| Error::Policy {
                    key: key.to_string(),
                    value: value.to_string(),
                    why: match apart {
                        Some(table) => format!(
                            "a list cannot name table {table}, which has a comma in its name"
                        ),
                        None => e.to_string(),
                    },
                })?;
            }
        }
        Ok(Choice { selection, local, also })
    }

    /// The table, unless there is a reason not to replicate it that only somebody who names it can
    /// set aside: (why, whether the table is unfit).
    pub fn unless_asked_for(&self, draft: Draft) -> std::result::Result<Draft, (String, bool)> {
        let table = &draft.table.name;
        let is = |name: &str| name.eq_ignore_ascii_case(table);
        if self.also.iter().any(|n| is(n)) || self.selection.only.iter().any(|n| is(n)) {
            return Ok(draft);
        }
        let all_the_same =
            format!("to replicate it all the same: --policy replicate_tables={table}");
        if let Some(tool) = tools::keeper(&draft.table) {
            return Err((
                format!(
                    "bookkeeping of {tool}: each site runs its migrations itself; {all_the_same}"
                ),
                false,
            ));
        }
        if tools::is_of_layers(&draft.table) {
            return Err((
                format!("layers of a GeoPackage: each site makes them itself; {all_the_same}"),
                false,
            ));
        }
        if is_of_counts(&draft.table) {
            return Err((
                format!("numbers of rows, which the triggers of each site count; {all_the_same}"),
                false,
            ));
        }
        match &draft.inexact {
            Some(what) => Err((
                format!(
                    "{what} is made of the text of floating-point numbers, which versions of SQLite \
                 write differently: where two write to one file, the index breaks. Drop it, or \
                 {all_the_same}"
                ),
                true,
            )),
            None => Ok(draft),
        }
    }

    /// Why `entry` is not replicated, as far as its columns and indexes do not matter.
    pub fn refusal(&self, inventory: &Inventory, entry: &Entry) -> Option<String> {
        let is = |name: &str| name.eq_ignore_ascii_case(&entry.name);
        let by_kind = match &entry.kind {
            EntryKind::View => Some("a view: it holds no rows of its own".to_string()),
            EntryKind::Virtual(module) => {
                Some(format!("a virtual table: its rows are kept by module {module}"))
            }
            EntryKind::Shadow => Some(match owner(inventory, &entry.name) {
                Some((table, _)) => format!("storage of virtual table {table}"),
                None => "storage of a virtual table".to_string(),
            }),
            EntryKind::Table => foreign_storage(inventory, &entry.name),
        };
        let asked_for = format!("to replicate it: synqlite init --table {}", entry.name);
        by_kind.or_else(|| {
            if self.selection.exclude.iter().any(|n| is(n)) {
                Some(format!("excluded; {asked_for}"))
            } else if self.local.iter().any(|n| is(n)) {
                Some(
                    "local by policy local_tables; to replicate it, set that without it"
                        .to_string(),
                )
            } else if !self.selection.only.is_empty() && !self.selection.only.iter().any(|n| is(n))
            {
                Some(format!("not among the selected tables; {asked_for}"))
            } else {
                None
            }
        })
    }
}

/// The virtual table, with its module, that a table `owner_suffix` would store for.
fn owner<'c>(inventory: &'c Inventory, table: &str) -> Option<(&'c str, &'c str)> {
    let candidates = inventory.entries.iter().filter_map(|entry| match &entry.kind {
        EntryKind::Virtual(module) => Some((entry.name.as_str(), module.as_str())),
        _ => None,
    });
    candidates
        .filter(|(name, _)| {
            let head = table.as_bytes().get(..name.len());
            head.is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
                && table.as_bytes().get(name.len()) == Some(&b'_')
        })
        .max_by_key(|(name, _)| name.len())
}

/// SQLite knows the storage of a virtual table only while its module is loaded. Without it, a table
/// of such a name is not touched: merging an index's storage row by row would corrupt the index.
fn foreign_storage(inventory: &Inventory, table: &str) -> Option<String> {
    let (owner, module) = owner(inventory, table)?;
    (!inventory.modules.contains(&module.to_ascii_lowercase())).then(|| {
        format!(
            "by its name, storage of virtual table {owner}, whose module {module} is not loaded"
        )
    })
}

/// The table called `name`.
pub(super) fn known_table<'c>(inventory: &'c Inventory, name: &str) -> Result<&'c Entry> {
    inventory.find(name).filter(|entry| entry.kind != EntryKind::View).ok_or_else(|| {
        Error::NoTable { name: name.to_string(), near: near(name, inventory.tables()) }
    })
}

/// Which of `known` may have been meant by `name`, the likeliest first.
pub fn near<'c>(name: &str, known: impl Iterator<Item = &'c str>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut near: Vec<(usize, &str)> = known
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(far, _)| *far <= (wanted.chars().count() / 3).max(1))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name.to_string()).collect()
}

/// How many characters to insert, delete or replace to make one of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut diagonal = i;
        for (cell, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, best);
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("todo", "todos"), 1);
    }

    #[test]
    fn names_close_to_the_wanted_one_are_found() {
        let known = || ["project", "task", "Tasks", "tag"].into_iter();
        assert_eq!(near("tasks", known()), ["Tasks", "task"]);
        assert_eq!(near("PROJEKT", known()), ["project"]);
        assert!(near("zzzzzz", known()).is_empty());
    }
}
