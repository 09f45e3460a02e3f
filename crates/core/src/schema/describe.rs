//! A table in one line, for comparing the schemas of two sites.

use super::{Action, Collation, Column, Identity, Table, TableKind, UniqueIndex, quote, sql};

impl Table {
    /// Canonical text of everything that decides how rows of this table merge. Two sites agree on
    /// the table if and only if their texts are equal. It is free of line breaks and does not
    /// depend on the order of columns or constraints, nor on the spelling of types and expressions.
    pub fn describe(&self) -> String {
        let kind = match self.kind {
            TableKind::Rowid => "rowid",
            TableKind::RowidAlias(_) if self.autoincrement => "autoincrement",
            TableKind::RowidAlias(_) => "alias",
            TableKind::WithoutRowid => "without rowid",
        };
        let identity = match self.identity {
            Identity::Key => "key",
            Identity::Birth => "birth",
        };
        let mut columns: Vec<String> = self.columns.iter().map(|c| self.column(c)).collect();
        columns.sort();
        let mut units: Vec<String> = self
            .groups
            .iter()
            .filter(|g| g.columns.len() > 1)
            .map(|g| self.names(&g.columns))
            .collect();
        units.sort();
        let mut counters: Vec<String> =
            self.groups.iter().filter(|g| g.counter).map(|g| self.names(&g.columns)).collect();
        counters.sort();
        let counters = match counters.is_empty() {
            true => String::new(),
            false => format!(", counters ({})", counters.join(", ")),
        };
        let mut rules = match self.row_rules.is_empty() {
            true => String::new(),
            false => format!(", rows ({})", self.row_rules.join("; ")),
        };
        if self.strict {
            rules.push_str(", strict");
        }
        let text = format!(
            "{} {kind}, identity {identity}, columns ({}), {}, units ({}), {}, {}{counters}{rules}",
            quote(&self.name),
            columns.join(", "),
            self.describe_key(),
            units.join(", "),
            self.describe_references(),
            self.describe_uniques()
        );
        escaped(&text)
    }

    /// [`Table::describe`], and on a second line all else that its triggers are made of: order and
    /// spelling, and what other tables ask of it. Triggers fit a table while its shape stays the same.
    pub fn shape(&self) -> String {
        let stored: Vec<_> = self.columns.iter().map(|c| quote(&c.name)).collect();
        let generated: Vec<_> = self.generated.iter().map(|name| quote(name)).collect();
        let uniques = self.uniques.iter().map(|index| {
            let terms: Vec<_> = index.terms.iter().map(|term| quote(&term.sql)).collect();
            let predicate = index.predicate.as_deref().map(quote).unwrap_or_default();
            format!("{} where {predicate}", terms.join("+"))
        });
        let kept = self.groups.iter().filter(|g| g.keeps_previous).map(|g| self.names(&g.columns));
        let mut kept: Vec<_> = kept.collect();
        kept.sort();
        let order = format!(
            "columns ({}), generated ({}), unique ({}), kept ({}){}{}{}",
            stored.join(", "),
            generated.join(", "),
            uniques.collect::<Vec<_>>().join(", "),
            kept.join(", "),
            if self.acts_on_delete { ", acts on delete" } else { "" },
            if self.converts_old { ", converts old" } else { "" },
            if self.indexed { ", indexed" } else { "" },
        );
        format!("{}\n{}", self.describe(), escaped(&order))
    }

    /// The part of [`Table::describe`] that tells of the primary key.
    fn describe_key(&self) -> String {
        let key = self.primary_key.iter().zip(&self.key_collations);
        let column = |(&i, collation): (&usize, _)| {
            format!("{} {}", self.name_at(i), collation_name(collation))
        };
        format!("key ({})", key.map(column).collect::<Vec<_>>().join(", "))
    }

    /// The part of [`Table::describe`] that tells of the foreign keys.
    fn describe_references(&self) -> String {
        let references: Vec<String> = self
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

    /// The part of [`Table::describe`] that tells of the unique keys.
    fn describe_uniques(&self) -> String {
        let mut uniques: Vec<String> =
            self.uniques.iter().map(|index| self.unique(index)).collect();
        uniques.sort();
        format!("unique ({})", uniques.join(", "))
    }

    /// Whether the table of which `text` is the description had these unique keys.
    pub fn has_uniques_of(&self, text: &str) -> bool {
        text.contains(&format!(", {}", escaped(&self.describe_uniques())))
    }

    /// Whether the table of which `text` is the description had these foreign keys.
    pub fn has_references_of(&self, text: &str) -> bool {
        text.contains(&format!(", {}, unique (", escaped(&self.describe_references())))
    }

    /// Whether the table of which `text` is the description had this primary key.
    pub fn has_key_of(&self, text: &str) -> bool {
        text.contains(&format!(", {}, units (", escaped(&self.describe_key())))
    }

    /// The column that was the rowid of the table of which `text` is the description, and is not any
    /// more.
    pub fn had_rowid_alias(&self, text: &str) -> Option<usize> {
        let was = |kind: &str| text.contains(&format!("\" {kind}, identity "));
        let key = |c: &usize| text.contains(&escaped(&format!(", key ({} ", self.name_at(*c))));
        let found = (0..self.columns.len()).find(key);
        found.filter(|&c| (was("alias") || was("autoincrement")) && self.rowid_alias() != Some(c))
    }

    fn column(&self, column: &Column) -> String {
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
            text.push_str(&format!(" default {}", quote(&sql::canonical(default, |_| false))));
        }
        text
    }

    fn unique(&self, index: &UniqueIndex) -> String {
        let is_column = |name: &str| self.columns.iter().any(|c| c.name.eq_ignore_ascii_case(name));
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

    fn names(&self, positions: &[usize]) -> String {
        let mut names: Vec<String> = positions.iter().map(|&i| self.name_at(i)).collect();
        names.sort();
        names.join("+")
    }

    fn name_at(&self, position: usize) -> String {
        self.columns.get(position).map_or(String::new(), |column| quote(&column.name))
    }
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
