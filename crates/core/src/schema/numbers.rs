//! Which tables each site numbers for itself (R-OWN): policy `T.ids=local`.

use super::pragmas::Inventory;
use super::read::Draft;
use super::select;
use super::{Action, Affinity, Column, ForeignKey, Table, UniqueIndex, quote};
use crate::policy::Policies;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::catalog::followers;

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
    let misled = misled(drafts, policies);
    let mut idle = Vec::new();
    for (key, name) in policies.own_numbers() {
        let found = select::known_table(inventory, name).map_err(|e| e.to_string());
        let draft = found.and_then(|entry| {
            let draft = drafts.iter_mut().find(|d| d.table.name == entry.name);
            draft.ok_or(format!("table {name} is not replicated"))
        });
        let fits = draft.and_then(|draft| {
            may_number(&draft.table, &draft.checks)?;
            if let Some(why) = misled.get(&draft.table.name) {
                return Err(format!("table {name} is referred to by {why}"));
            }
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

/// Of the tables that the policy names those whose number decides something where it is referred to, directly or
/// through other references, and what: there sites would decide otherwise too.
fn misled(drafts: &[Draft], policies: &Policies) -> BTreeMap<String, String> {
    let tables: Vec<&Table> = drafts.iter().map(|d| &d.table).collect();
    let named: Vec<&str> = policies.own_numbers().map(|(_, name)| name).collect();
    let mut misled = BTreeMap::new();
    for (owner, table) in tables.iter().enumerate() {
        let alias = table.rowid_alias();
        let alias = alias.filter(|_| named.iter().any(|n| n.eq_ignore_ascii_case(&table.name)));
        let Some(alias) = alias else { continue };
        let followers = followers(&tables, (owner, alias));
        let why = followers.into_iter().filter(|of| *of != (owner, alias));
        let why = why.filter_map(|(at, c)| {
            let why = misleads(&drafts[at], c)?;
            Some(format!(
                "column {} of table {} {why}",
                tables[at].columns[c].name, tables[at].name
            ))
        });
        misled.extend(why.take(1).map(|why| (table.name.clone(), why)));
    }
    misled
}

/// Why a column of a table may not hold a number of one site alone.
fn misleads(Draft { table, checks, .. }: &Draft, c: usize) -> Option<&'static str> {
    let column = &table.columns[c];
    let mut keys = table.foreign_keys.iter().filter(|fk| fk.columns.contains(&c));
    let set = keys.any(|fk| [fk.on_delete, fk.on_update].contains(&Action::SetDefault));
    if checks.iter().any(|columns| columns.contains(&c)) {
        Some("that a CHECK reads")
    } else if set && column.default.is_some() {
        Some("whose default an action would set")
    } else if column.affinity == Affinity::Real {
        Some("whose type, REAL, cannot keep every number")
    } else if table.uniques.iter().any(|index| !is_plain(index, column, c)) {
        Some("of a unique index that is not simply of integers")
    } else {
        None
    }
}

/// Whether a unique index does not read a column, or has it as it is, and stores it as a number whatever it
/// was spelled like.
fn is_plain(index: &UniqueIndex, column: &Column, c: usize) -> bool {
    let name = quote(&column.name);
    let stores_numbers = matches!(column.affinity, Affinity::Integer | Affinity::Numeric);
    let apart = |c: char| !c.is_alphanumeric() && c != '_';
    let names = |sql: &str| {
        sql.contains(&name) || sql.split(apart).any(|w| w.eq_ignore_ascii_case(&column.name))
    };
    let (plain, others): (Vec<_>, Vec<_>) = index.terms.iter().partition(|term| term.sql == name);
    // Who has no key at all has none anywhere.
    let any = |sql: &&String| {
        let words: Vec<&str> = sql.split_whitespace().collect();
        !matches!(words[..], [_, is, not, null] if [is, not, null].join(" ").eq_ignore_ascii_case("is not null"))
    };
    let others = others.iter().map(|term| &term.sql).chain(index.predicate.iter().filter(any));
    !index.columns.contains(&c)
        || !plain.is_empty() && stores_numbers && !others.into_iter().any(|sql| names(sql))
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
