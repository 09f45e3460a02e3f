//! Foreign keys, declared and by policy, resolved to positions (R-REF, R-LREF).

use super::pragmas::{self, EntryKind, Inventory, Reference};
use super::read::{Draft, affinity, draft};
use super::select;
use super::{Affinity, ForeignKey, Table};
use crate::error::{Error, Result};
use crate::policy::{COUNTER, Policies};
use rusqlite::Connection;
use std::collections::BTreeSet;
use synqlite_view::catalog::followers;
use synqlite_view::groups::converts;
use synqlite_view::keys::{Key, foreign_key, number, primary_key};

/// Keys of policies, and why each has no effect.
type Idle = Vec<(String, String)>;

/// Gives every table its foreign keys. Returns a note for each that merges cannot follow, so that its columns
/// are plain values; and the policies that have no effect, and why.
pub(super) fn resolve(
    inventory: &Inventory,
    drafts: &mut [Draft],
    policies: &Policies,
    strict: bool,
) -> Result<(Vec<String>, Idle)> {
    let (mut notes, mut idle) = (Vec::new(), Vec::new());
    let mut resolved: Vec<Vec<ForeignKey>> = Vec::new();
    for draft in &*drafts {
        let mut keys = Vec::new();
        for reference in &draft.declared {
            match declared(inventory, drafts, &draft.table, reference) {
                Ok(key) => keys.push(key),
                Err(why) => notes.push(format!(
                    "{}({}) references {}: {why}; merges do not keep this constraint, and the values \
                     do not follow changes of the parent's key",
                    draft.table.name,
                    reference.columns.join(", "),
                    reference.parent
                )),
            }
        }
        resolved.push(keys);
    }
    for (key, value) in policies.iter() {
        let Some(table) = key.strip_suffix(".refs") else { continue };
        let wrong =
            |why: String| Error::Policy { key: key.to_owned(), value: value.to_owned(), why };
        let entry = match select::known_table(inventory, table) {
            Err(error) if strict => return Err(wrong(error.to_string())),
            Err(error) => {
                idle.push((key.to_owned(), error.to_string()));
                continue;
            }
            Ok(entry) => entry,
        };
        let Some(child) = drafts.iter().position(|d| d.table.name == entry.name) else { continue };
        for part in policies.list(key) {
            let table = &drafts[child].table;
            let logical = match logical(inventory, drafts, policies, (table, part)) {
                Err(why) if strict => return Err(wrong(why)),
                Err(why) => {
                    idle.push((key.to_owned(), why));
                    continue;
                }
                Ok(logical) => logical,
            };
            match logical {
                Ok(key) => {
                    let keys = &mut resolved[child];
                    let same = |k: &ForeignKey| k.columns == key.columns && k.parent == key.parent;
                    if !keys.iter().any(same) {
                        keys.push(key);
                    }
                }
                Err(note) => notes.push(note),
            }
        }
    }
    for (draft, mut keys) in drafts.iter_mut().zip(resolved) {
        // A column that refers to itself says nothing: each row has its own value.
        keys.retain(|key| key.parent != draft.table.name || key.columns != key.parent_columns);
        number(&mut keys);
        draft.table.foreign_keys = keys;
    }
    Ok((notes, idle))
}

/// Tables that are not replicated and whose foreign keys can be followed, to those that are and to each other.
pub(super) fn local(
    conn: &Connection,
    inventory: &Inventory,
    drafts: &mut Vec<Draft>,
) -> Result<Vec<Table>> {
    let replicated = drafts.len();
    for entry in inventory.entries.iter().filter(|entry| entry.kind == EntryKind::Table) {
        if find(drafts, &entry.name).is_none()
            && !pragmas::references(conn, &entry.name)?.is_empty()
            && let Ok(draft) = draft(conn, inventory, entry)?
        {
            drafts.push(draft);
        }
    }
    let keys = |draft: &Draft| {
        let keys = draft.declared.iter();
        keys.filter_map(|key| declared(inventory, drafts, &draft.table, key).ok()).collect()
    };
    let keys: Vec<Vec<ForeignKey>> = drafts[replicated..].iter().map(keys).collect();
    let local = drafts.split_off(replicated).into_iter().zip(keys);
    Ok(local.map(|(draft, foreign_keys)| Table { foreign_keys, ..draft.table }).collect())
}

/// Finds which keys SQLite may convert for the sake of references that merges do not follow: of tables that are
/// not replicated, of generated columns. Returns a note for each table of the former kind.
pub(super) fn convert(
    conn: &Connection,
    inventory: &Inventory,
    drafts: &mut [Draft],
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for entry in inventory.entries.iter().filter(|entry| entry.kind == EntryKind::Table) {
        let known = drafts.iter().find(|draft| draft.table.name == entry.name);
        let replicated = known.is_some();
        if known.is_some_and(|draft| draft.declared.is_empty()) {
            continue;
        }
        let references = pragmas::references(conn, &entry.name)?;
        let infos = match references.is_empty() {
            true => continue,
            false => pragmas::columns(conn, &entry.name)?,
        };
        for Reference { parent, columns, parent_columns, .. } in references {
            let of = |draft: &&mut Draft| draft.table.name.eq_ignore_ascii_case(&parent);
            let Some(Draft { table, .. }) = drafts.iter_mut().find(of) else { continue };
            if !replicated {
                notes.push(format!(
                    "{0}({1}) references {2} and is not replicated: where a merge deletes a row of {2} or \
                     gives it another key, rows of {0} follow as declared, and one that would protect it \
                     stays as it is",
                    entry.name,
                    columns.join(", "),
                    table.name
                ));
            }
            let key = match parent_columns.is_empty() {
                true => Some(table.primary_key.clone()),
                false => positions(table, &parent_columns),
            };
            for (column, c) in columns.iter().zip(key.into_iter().flatten()) {
                let info = infos.iter().find(|info| info.name.eq_ignore_ascii_case(column));
                let child = info.map(|info| affinity(&info.declared_type, entry.strict));
                if child.is_some_and(|child| converts(child, table.columns[c].affinity)) {
                    table.converted.insert(c);
                }
            }
        }
    }
    Ok(notes)
}

fn find<'d>(drafts: &'d [Draft], name: &str) -> Option<&'d Draft> {
    drafts.iter().find(|draft| draft.table.name.eq_ignore_ascii_case(name))
}

fn declared(
    inventory: &Inventory,
    drafts: &[Draft],
    table: &Table,
    reference: &Reference,
) -> std::result::Result<ForeignKey, String> {
    let Some(parent) = find(drafts, &reference.parent) else {
        return Err(match inventory.find(&reference.parent).map(|entry| &entry.kind) {
            None => "there is no such table".to_string(),
            Some(EntryKind::View) => "a view cannot be referred to".to_string(),
            Some(_) => "that table is not replicated".to_string(),
        });
    };
    for (table, names) in [(table, &reference.columns), (&parent.table, &reference.parent_columns)]
    {
        let is_generated =
            |name: &&String| table.generated.iter().any(|c| c.eq_ignore_ascii_case(name));
        if let Some(name) = names.iter().find(is_generated) {
            return Err(format!("{name} of {} is a generated column", table.name));
        }
    }
    let columns = positions(table, &reference.columns).ok_or("there is no such column")?;
    let parent_key = if reference.parent_columns.is_empty() {
        Some(primary_key(&parent.table)).filter(|key| key.len() == columns.len())
    } else {
        positions(&parent.table, &reference.parent_columns).and_then(|to| named_key(parent, &to))
    };
    let parent_key = parent_key.ok_or("it does not refer to a primary key or a UNIQUE index")?;
    let mut key = foreign_key(table, columns, &parent.table, parent_key);
    key.on_delete = reference.on_delete;
    key.on_update = reference.on_update;
    key.enforced = true;
    Ok(key)
}

/// The key of just these columns, if a foreign key may refer to them.
fn named_key(parent: &Draft, columns: &[usize]) -> Option<Key> {
    let wanted: BTreeSet<usize> = columns.iter().copied().collect();
    let key = parent.keys.iter().find(|key| key.keys().copied().eq(wanted.iter().copied()))?;
    columns.iter().map(|c| Some((*c, key.get(c)?.clone()))).collect()
}

/// One `COLUMN:TABLE` of policy `T.refs`; a note if the parent is not replicated.
fn logical(
    inventory: &Inventory,
    drafts: &[Draft],
    policies: &Policies,
    (table, part): (&Table, &str),
) -> std::result::Result<std::result::Result<ForeignKey, String>, String> {
    let said = policies.of_table(&table.name, "refs").unwrap_or_default();
    let torn = || {
        let mut names = table.columns.iter().map(|c| c.name.as_str());
        let name = names.find(|n| n.contains([':', ',']) && said.contains(n))?;
        let why = "which has a colon or a comma in its name";
        Some(format!("a policy cannot name column {name}, {why}"))
    };
    let (column, parent) = part
        .split_once(':')
        .map(|(column, parent)| (column.trim(), parent.trim()))
        .ok_or_else(|| torn().unwrap_or(format!("{part} is not of the form COLUMN:TABLE")))?;
    let columns = positions(table, &[column.to_string()]).ok_or_else(|| {
        let near = select::near(column, table.columns.iter().map(|c| c.name.as_str()));
        let hint = match near.is_empty() {
            true => String::new(),
            false => format!("; did you mean {}?", near.join(" or ")),
        };
        torn().unwrap_or(format!("table {} has no stored column {column}{hint}", table.name))
    })?;
    if policies.of_table(&table.name, column) == Some(COUNTER) {
        let name = &table.name;
        return Err(format!(
            "column {column} of table {name} is a counter, and counts name no rows"
        ));
    }
    let entry = select::known_table(inventory, parent).map_err(|e| e.to_string())?;
    let Some(parent) = find(drafts, &entry.name) else {
        return Ok(Err(format!(
            "{}.{column} refers by policy to {}, which is not replicated; its values are \
             replicated as they are",
            table.name, entry.name
        )));
    };
    match parent.table.primary_key[..] {
        [_] => Ok(Ok(foreign_key(table, columns, &parent.table, primary_key(&parent.table)))),
        _ => Err(format!(
            "a reference needs a parent whose primary key is one column, and {} has {}",
            parent.table.name,
            if parent.table.primary_key.is_empty() { "none" } else { "several" }
        )),
    }
}

fn positions(table: &Table, names: &[String]) -> Option<Vec<usize>> {
    let position = |name: &String| {
        table.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    };
    names.iter().map(position).collect()
}

/// Notes on columns that look like references to tables whose numbers can change in a merge
/// (R-LREF, R-REMAP).
pub(super) fn undeclared(tables: &[Table]) -> Vec<String> {
    let renumbered = |t: &&Table| t.renumbers().is_some();
    let note = |table: &Table| {
        let columns = table.columns.iter().enumerate().filter(|(i, column)| {
            let declared = table.foreign_keys.iter().any(|key| key.columns.contains(i));
            !declared && table.rowid_alias() != Some(*i) && column.affinity == Affinity::Integer
        });
        let parent = |column: &str| {
            let likely = tables.iter().filter(renumbered);
            likely
                .filter_map(|t| Some((is_reference_name(column, &t.name)?, t)))
                .min_by_key(|l| l.0)
        };
        let found: Vec<(&str, &str)> = columns
            .filter_map(|(_, c)| Some((c.name.as_str(), parent(&c.name)?.1.name.as_str())))
            .collect();
        let all: Vec<String> = found.iter().map(|(c, parent)| format!("{c}:{parent}")).collect();
        let declare = format!("--policy {}.refs={}", table.name, all.join(","));
        Some(match found[..] {
            [] => return None,
            [(column, parent)] => format!(
                "{}.{column} looks like a reference to {parent} but is not declared as one, so it will not \
                 follow when a merge gives a row of {parent} another number; declare it with {declare}",
                table.name
            ),
            _ => {
                let like: Vec<String> = found
                    .iter()
                    .map(|(c, parent)| format!("{}.{c} to {parent}", table.name))
                    .collect();
                format!(
                    "{} look like references but are not declared as such, so they will not follow when a \
                     merge gives a row another number; declare them with {declare}",
                    like.join(", ")
                )
            }
        })
    };
    tables.iter().filter_map(note).collect()
}

/// Whether a column other than `c` may be NULL.
fn may_be_null(t: &Table, other: usize, c: usize) -> bool {
    other != c && !t.columns[other].not_null && t.rowid_alias() != Some(other)
}

/// Notes on numbers in foreign keys of several columns of which another may be NULL: then there is no reference, and
/// the number that stands there follows no row (R-REF).
pub(super) fn halves(tables: &[Table]) -> Vec<String> {
    let all: Vec<&Table> = tables.iter().collect();
    let number = |t: &Table| t.renumbers().or(t.own_number());
    let owners = tables.iter().enumerate().filter_map(|(at, t)| Some((at, number(t)?)));
    let mut notes = Vec::new();
    for (owner, alias) in owners {
        for (at, c) in followers(&all, (owner, alias)) {
            if (at, c) == (owner, alias) {
                continue;
            }
            let t = &tables[at];
            let mut keys = t.foreign_keys.iter().filter(|fk| fk.columns.contains(&c)).peekable();
            let other =
                keys.peek().and_then(|fk| fk.columns.iter().find(|o| may_be_null(t, **o, c)));
            let whole = |fk: &ForeignKey| !fk.columns.iter().any(|o| may_be_null(t, *o, c));
            if let Some(other) = other.filter(|_| !keys.any(whole)) {
                notes.push(format!(
                    "{0}.{1} holds a number of {2} in a foreign key with {3}: where {3} is NULL that is no \
                     reference, and the number will not follow when a merge gives the row of {2} another; \
                     declare {3} NOT NULL, or {1} REFERENCES {2} as well",
                    t.name, t.columns[c].name, tables[owner].name, t.columns[*other].name
                ));
            }
        }
    }
    notes
}

/// Whether a column's name is a table's, with or without `_id` or `id` after it, in singular or plural; the table's
/// may have something before it, as in `wp_posts`. The less, the likelier.
fn is_reference_name(column: &str, table: &str) -> Option<u8> {
    let (column, table) = (column.to_ascii_lowercase(), table.to_ascii_lowercase());
    let suffix = column.strip_suffix("_id").or_else(|| column.strip_suffix("id"));
    let of = |stem: &str, table: &str| {
        let plural = |one: &str, many: &str| {
            let ies = one.strip_suffix('y').map(|one| format!("{one}ies"));
            [Some(format!("{one}s")), Some(format!("{one}es")), ies]
                .iter()
                .flatten()
                .any(|p| p == many)
        };
        plural(stem, table) || suffix.is_some() && (stem == table || plural(table, stem))
    };
    let stem = suffix.unwrap_or(&column);
    if stem.is_empty() {
        return None;
    }
    let after_prefix = || table.split_once('_').is_some_and(|(_, rest)| of(stem, rest));
    match of(stem, &table) {
        true => Some(0),
        false => (suffix.is_some() && after_prefix()).then_some(1),
    }
}
