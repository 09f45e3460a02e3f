//! A table in one line, for comparing the schemas of two sites.

use super::{Action, Collation, Column, Table, TableKind, UniqueIndex, quote, sql};
use synqlite_view::constant::constant;
use synqlite_wire::Value;

/// Canonical text of everything that decides how rows of this table merge. Two sites agree on
/// the table if and only if their texts are equal. It is free of line breaks and does not
/// depend on the order of columns or constraints, nor on the spelling of types and expressions.
pub fn describe(table: &Table) -> String {
    let kind = match table.kind {
        TableKind::Rowid => "rowid",
        TableKind::RowidAlias(_) if table.autoincrement => "autoincrement",
        TableKind::RowidAlias(_) => "alias",
        TableKind::WithoutRowid => "without rowid",
    };
    let identity = table.identity.name();
    let mut columns: Vec<String> = table.columns.iter().map(column).collect();
    columns.sort();
    let mut units: Vec<String> = table
        .groups
        .iter()
        .filter(|g| g.columns.len() > 1)
        .map(|g| names(table, &g.columns))
        .collect();
    units.sort();
    let mut counters: Vec<String> =
        table.groups.iter().filter(|g| g.counter).map(|g| names(table, &g.columns)).collect();
    counters.sort();
    let counters = match counters.is_empty() {
        true => String::new(),
        false => format!(", counters ({})", counters.join(", ")),
    };
    let mut rules = match table.row_rules.is_empty() {
        true => String::new(),
        false => format!(", rows ({})", table.row_rules.join("; ")),
    };
    if table.strict {
        rules.push_str(", strict");
    }
    if table.own_numbers {
        rules.push_str(OWN_NUMBERS);
    }
    let text = format!(
        "{} {kind}, identity {identity}, columns ({}), {}, units ({}), {}, {}{counters}{rules}",
        quote(&table.name),
        columns.join(", "),
        describe_key(table),
        units.join(", "),
        describe_references(table),
        describe_uniques(table)
    );
    escaped(&text)
}

/// Whether a shape is of a table whose rows each site numbers for itself.
pub fn had_own_numbers(shape: &str) -> bool {
    shape.lines().next().is_some_and(|described| described.ends_with(OWN_NUMBERS))
}

const OWN_NUMBERS: &str = ", own numbers";
const CONVERTS_OLD: &str = ", converts old";

/// [`describe`], and on a second line all else that its triggers are made of: order and
/// spelling, and what other tables ask of it. Triggers fit a table while its shape stays the same.
pub fn shape(table: &Table) -> String {
    let stored: Vec<_> = table.columns.iter().map(|c| quote(&c.name)).collect();
    let generated: Vec<_> = table.generated.iter().map(|name| quote(name)).collect();
    let uniques = table.uniques.iter().map(|index| {
        let terms: Vec<_> = index.terms.iter().map(|term| quote(&term.sql)).collect();
        let predicate = index.predicate.as_deref().map(quote).unwrap_or_default();
        format!("{} where {predicate}", terms.join("+"))
    });
    let kept = table.groups.iter().filter(|g| g.keeps_previous).map(|g| names(table, &g.columns));
    let mut kept: Vec<_> = kept.collect();
    kept.sort();
    let order = format!(
        "columns ({}), generated ({}), unique ({}), kept ({}){}{}{}",
        stored.join(", "),
        generated.join(", "),
        uniques.collect::<Vec<_>>().join(", "),
        kept.join(", "),
        if table.acts_on_delete { ", acts on delete" } else { "" },
        if table.converts_old() { CONVERTS_OLD } else { "" },
        if table.indexed { ", indexed" } else { "" },
    );
    format!("{}\n{}", describe(table), escaped(&order))
}

/// The part of [`describe`] that tells of the primary key.
fn describe_key(table: &Table) -> String {
    let key = table.primary_key.iter().zip(&table.key_collations);
    let column = |(&i, collation): (&usize, _)| {
        format!("{} {}", name_at(table, i), collation_name(collation))
    };
    format!("key ({})", key.map(column).collect::<Vec<_>>().join(", "))
}

/// The part of [`describe`] that tells of the foreign keys.
fn describe_references(table: &Table) -> String {
    let references: Vec<String> = table
        .foreign_keys
        .iter()
        .map(|key| {
            let to: Vec<String> = key.parent_names.iter().map(|name| quote(name)).collect();
            format!(
                "{} to {} on delete {} on update {}{}",
                quote(&key.full_name()),
                to.join("+"),
                action_name(key.on_delete),
                action_name(key.on_update),
                if key.enforced { "" } else { " logical" }
            )
        })
        .collect();
    format!("references ({})", references.join(", "))
}

/// The part of [`describe`] that tells of the unique keys.
fn describe_uniques(table: &Table) -> String {
    let mut uniques: Vec<String> = table.uniques.iter().map(|index| unique(table, index)).collect();
    uniques.sort();
    format!("unique ({})", uniques.join(", "))
}

/// Whether the table of which `text` is the description had these unique keys.
pub fn has_uniques_of(table: &Table, text: &str) -> bool {
    text.contains(&format!(", {}", escaped(&describe_uniques(table))))
}

/// Whether the table of which `text` is the description had these foreign keys.
pub fn has_references_of(table: &Table, text: &str) -> bool {
    text.contains(&format!(", {}, unique (", escaped(&describe_references(table))))
}

/// Whether the table of which `text` is the description had this primary key.
pub fn has_key_of(table: &Table, text: &str) -> bool {
    text.contains(&format!(", {}, units (", escaped(&describe_key(table))))
}

/// Whether triggers of the table of this shape might see another key in OLD than a row had.
pub fn converted_old(shape: &str) -> bool {
    // No name or expression follows the last bracket.
    shape.rsplit(')').next().is_some_and(|end| end.contains(CONVERTS_OLD))
}

/// The column that was the rowid of the table of which `text` is the description, and is not any
/// more.
pub fn had_rowid_alias(table: &Table, text: &str) -> Option<usize> {
    let was = |kind: &str| text.contains(&format!("\" {kind}, identity "));
    let key = |c: &usize| text.contains(&escaped(&format!(", key ({} ", name_at(table, *c))));
    let found = (0..table.columns.len()).find(key);
    found.filter(|&c| (was("alias") || was("autoincrement")) && table.rowid_alias() != Some(c))
}

fn column(column: &Column) -> String {
    let mut text = format!(
        "{} {} {:?}",
        quote(&column.name),
        quote(&column.declared_type.to_ascii_uppercase()),
        column.affinity
    );
    if column.collation != Collation::Binary {
        text.push_str(&format!(" collate {}", collation_name(&column.collation)));
    }
    if column.not_null {
        text.push_str(" not null");
    }
    if let Some(default) = &column.default {
        // A text may be written as a name.
        let default = match constant(default) {
            Some(Value::Text(t)) => {
                format!("'{}'", String::from_utf8_lossy(&t).replace('\'', "''"))
            }
            _ => sql::canonical(default, |_| false),
        };
        text.push_str(&format!(" default {}", quote(&default)));
    }
    text
}

fn unique(table: &Table, index: &UniqueIndex) -> String {
    let is_column = |name: &str| table.columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
    let terms: Vec<String> = index
        .terms
        .iter()
        .map(|term| {
            let sql = sql::canonical(&term.sql, is_column);
            format!("{} {}", quote(&sql), collation_name(&term.collation))
        })
        .collect();
    let predicate = index.predicate.as_ref().map_or(String::new(), |predicate| {
        format!(" where {}", quote(&sql::canonical(predicate, is_column)))
    });
    let primary = if index.primary { "primary " } else { "" };
    format!("{primary}on {}{predicate}", terms.join("+"))
}

fn names(table: &Table, positions: &[usize]) -> String {
    let mut names: Vec<String> = positions.iter().map(|&i| name_at(table, i)).collect();
    names.sort();
    names.join("+")
}

fn name_at(table: &Table, position: usize) -> String {
    table.columns.get(position).map_or(String::new(), |column| quote(&column.name))
}

/// Without line breaks, injectively.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

fn collation_name(collation: &Collation) -> &str {
    match collation {
        Collation::Binary => "binary",
        Collation::NoCase => "nocase",
        Collation::Rtrim => "rtrim",
        Collation::Other(name) => name,
    }
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::NoAction => "no action",
        Action::Restrict => "restrict",
        Action::SetNull => "set null",
        Action::SetDefault => "set default",
        Action::Cascade => "cascade",
    }
}
