//! A schema before anybody made it: as the tables that the view knows, as SQL, and as a validator of rows.

use super::rule::{Rule, Term};
use crate::catalog::{Relation, name_keys};
use crate::facts::{Key, Verdict};
use crate::keys::{foreign_key, number, primary_key};
use crate::memory::{Ground, RowValidator};
use crate::policy::Policies;
use crate::schema::{
    Action, Affinity, Collation, Column, Encoding, ForeignKey, Identity, IndexTerm, Table,
    TableKind, UniqueIndex, quote,
};
use crate::{Catalog, Result, groups, order};
use synqlite_wire::Value;

/// A schema and its policies.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Its tables, by name.
    pub tables: Vec<TableBlueprint>,
    /// Its policies.
    pub policies: Policies,
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableBlueprint {
    /// Its name.
    pub name: String,
    /// Its columns; `group` is not theirs yet.
    pub columns: Vec<Column>,
    /// How its rows are addressed.
    pub kind: TableKind,
    /// The columns of its primary key.
    pub primary_key: Vec<usize>,
    /// Whether it is declared AUTOINCREMENT.
    pub autoincrement: bool,
    /// Whether it is declared STRICT.
    pub strict: bool,
    /// UNIQUE indexes but for the primary key's.
    pub uniques: Vec<Unique>,
    /// Its CHECKs.
    pub checks: Vec<Rule>,
    /// Its foreign keys.
    pub references: Vec<Reference>,
}

/// A unique index: terms, with the collations under which they compare, and a WHERE clause.
#[derive(Clone, Debug)]
pub struct Unique {
    /// What it is over.
    pub terms: Vec<(Term, Collation)>,
    /// Which rows it holds.
    pub predicate: Option<Rule>,
}

/// A foreign key.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Its columns.
    pub columns: Vec<usize>,
    /// Name of the parent.
    pub parent: String,
    /// The columns to which it refers.
    pub parent_columns: Vec<usize>,
    /// What a delete of the parent does.
    pub on_delete: Action,
    /// What a change of the parent's key does.
    pub on_update: Action,
}

/// What a schema is once it is made.
pub struct Model {
    /// The tables.
    pub catalog: Catalog,
    /// The policies.
    pub policies: Policies,
    rules: Vec<Rules>,
}

/// What decides on single rows of a table, by its number.
struct Rules {
    checks: Vec<Rule>,
    /// Of each unique index, in the order of the table's.
    uniques: Vec<Unique>,
}

impl Model {
    /// What replicas of it share.
    pub fn ground(&self) -> Ground<'_> {
        Ground { catalog: &self.catalog, policies: &self.policies, validator: self }
    }
}

impl Blueprint {
    /// The schema as the view knows it.
    pub fn model(&self) -> Model {
        let mut tables: Vec<Table> = self.tables.iter().map(TableBlueprint::alone).collect();
        let keys: Vec<Vec<ForeignKey>> =
            self.tables.iter().enumerate().map(|(at, t)| self.keys(&tables, at, t)).collect();
        let checks: Vec<Vec<Vec<usize>>> =
            self.tables.iter().map(|t| t.checks.iter().map(Rule::columns).collect()).collect();
        for ((table, keys), checks) in tables.iter_mut().zip(keys).zip(&checks) {
            table.foreign_keys = keys;
            table.identity = groups::identity(table, checks);
            table.claim_number();
        }
        let mut parts: Vec<_> =
            tables.iter_mut().zip(&checks).map(|(table, checks)| (table, &checks[..])).collect();
        groups::assign(&mut parts);
        let (tables, components) = order::in_order(tables);
        let (mut relations, mut rules) = (Vec::new(), Vec::new());
        for (no, table) in (0..).zip(tables) {
            let of = self.tables.iter().find(|t| t.name == table.name);
            let (relation, uniques) = named(no, table, of);
            relations.push(relation);
            rules.push(Rules { checks: of.map_or(vec![], |t| t.checks.clone()), uniques });
        }
        name_keys(&mut relations);
        let enforced = self.policies.enforces_foreign_keys();
        let catalog = Catalog::new(relations, components, enforced);
        Model { catalog, policies: self.policies.clone(), rules }
    }

    /// The foreign keys of a table, declared ones and those of policy `T.refs`.
    fn keys(&self, tables: &[Table], at: usize, of: &TableBlueprint) -> Vec<ForeignKey> {
        let table = &tables[at];
        let parent = |name: &str| self.tables.iter().position(|t| t.name == name);
        let mut keys = Vec::new();
        for r in &of.references {
            let Some(p) = parent(&r.parent) else { continue };
            let to = &tables[p];
            let collation = |c: &usize| match to.kind {
                TableKind::RowidAlias(alias) if alias == *c => Collation::Binary,
                _ => to.columns[*c].collation.clone(),
            };
            let key = r.parent_columns.iter().map(|c| (*c, collation(c))).collect();
            let mut fk = foreign_key(table, r.columns.clone(), to, key);
            (fk.on_delete, fk.on_update, fk.enforced) = (r.on_delete, r.on_update, true);
            keys.push(fk);
        }
        for part in self.policies.list(&format!("{}.refs", of.name)) {
            let Some((column, parent_name)) = part.split_once(':') else { continue };
            let column = table.columns.iter().position(|c| c.name == column);
            let (Some(column), Some(p)) = (column, parent(parent_name)) else { continue };
            let fk = foreign_key(table, vec![column], &tables[p], primary_key(&tables[p]));
            if !keys.iter().any(|k| k.columns == fk.columns && k.parent == fk.parent) {
                keys.push(fk);
            }
        }
        keys.retain(|key| key.parent != table.name || key.columns != key.parent_columns);
        number(&mut keys);
        keys
    }

    /// The schema as SQL.
    pub fn sql(&self) -> String {
        self.tables.iter().map(|t| t.sql(self)).collect::<Vec<_>>().join("\n")
    }
}

impl TableBlueprint {
    fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|c| c.name.as_str()).collect()
    }

    /// The table without what it is to others.
    fn alone(&self) -> Table {
        let mut table = Table::absent(&self.name);
        let collation = |c: &usize| match self.kind {
            TableKind::RowidAlias(_) => Collation::Binary,
            _ => self.columns[*c].collation.clone(),
        };
        table.columns = self.columns.clone();
        let implied = self.kind == TableKind::WithoutRowid || self.strict;
        for &c in &self.primary_key {
            table.columns[c].not_null |= implied && self.kind != TableKind::RowidAlias(c);
        }
        table.kind = self.kind;
        table.rowid_name = (self.kind != TableKind::WithoutRowid).then(|| "_rowid_".to_owned());
        table.primary_key = self.primary_key.clone();
        table.key_collations = self.primary_key.iter().map(collation).collect();
        table.identity = Identity::Birth;
        (table.autoincrement, table.strict) = (self.autoincrement, self.strict);
        table.encoding = Encoding::Utf8;
        table.uniques =
            self.indexes().into_iter().map(|(u, primary)| self.index(&u, primary)).collect();
        table.indexed = table.uniques.iter().any(|index| index.primary);
        table
    }

    /// All unique indexes, and which is the primary key's.
    fn indexes(&self) -> Vec<(Unique, bool)> {
        let own = |&c: &usize| (Term::Column(c), self.columns[c].collation.clone());
        let has_index =
            !self.primary_key.is_empty() && !matches!(self.kind, TableKind::RowidAlias(_));
        let key = Unique { terms: self.primary_key.iter().map(own).collect(), predicate: None };
        let key = has_index.then_some((key, true));
        key.into_iter().chain(self.uniques.iter().map(|u| (u.clone(), false))).collect()
    }

    fn index(&self, u: &Unique, primary: bool) -> UniqueIndex {
        let names = self.names();
        let mut columns: Vec<usize> = u.terms.iter().map(|(term, _)| term.column()).collect();
        columns.extend(u.predicate.iter().flat_map(Rule::columns));
        columns.sort_unstable();
        columns.dedup();
        let term = |(term, collation): &(Term, Collation)| IndexTerm {
            sql: match term {
                Term::Column(c) => quote(names[*c]),
                other => other.sql(&names),
            },
            collation: collation.clone(),
        };
        UniqueIndex {
            name: String::new(),
            primary,
            columns,
            terms: u.terms.iter().map(term).collect(),
            predicate: u.predicate.as_ref().map(|p| p.sql(&names)),
        }
    }

    /// The name of a term, and of an index, as `schema` gives them to constraints of replicas.
    fn term_name(&self, (term, collation): &(Term, Collation)) -> String {
        let text = match term {
            Term::Column(c) => self.columns[*c].name.clone(),
            other => self.said(|names| other.sql(names)),
        };
        match collation {
            Collation::Binary => text,
            Collation::NoCase => format!("{text} nocase"),
            Collation::Rtrim => format!("{text} rtrim"),
            Collation::Other(name) => format!("{text} collate {}", quote(name)),
        }
    }

    /// An expression in the one spelling that counts.
    fn said(&self, sql: impl Fn(&[&str]) -> String) -> String {
        let quoted: Vec<String> = self.columns.iter().map(|c| quote(&c.name)).collect();
        let names: Vec<&str> = quoted.iter().map(String::as_str).collect();
        let text = sql(&names).to_ascii_lowercase();
        let marks = [("(", " ( "), (")", " )"), ("<>", "< >"), ("<=", "< =")];
        marks.iter().fold(text, |text, (from, to)| text.replace(from, to))
    }

    fn unique_name(&self, u: &Unique) -> String {
        let mut terms: Vec<String> = u.terms.iter().map(|term| self.term_name(term)).collect();
        terms.sort();
        terms.dedup();
        let predicate = u.predicate.as_ref();
        let predicate = predicate.map(|p| format!(" where {}", self.said(|names| p.sql(names))));
        terms.join(", ") + &predicate.unwrap_or_default()
    }

    fn sql(&self, all: &Blueprint) -> String {
        let names = self.names();
        let list = |columns: &[usize]| -> String {
            columns.iter().map(|&c| names[c]).collect::<Vec<_>>().join(", ")
        };
        let mut parts: Vec<String> = Vec::new();
        for (c, column) in self.columns.iter().enumerate() {
            let mut text = format!("{} {}", column.name, column.declared_type);
            if self.kind == TableKind::RowidAlias(c) {
                text +=
                    if self.autoincrement { " PRIMARY KEY AUTOINCREMENT" } else { " PRIMARY KEY" };
            }
            match &column.collation {
                Collation::Binary => {}
                Collation::NoCase => text += " COLLATE NOCASE",
                Collation::Rtrim => text += " COLLATE RTRIM",
                Collation::Other(name) => text += &format!(" COLLATE {}", quote(name)),
            }
            text += if column.not_null { " NOT NULL" } else { "" };
            text += &column.default.as_ref().map_or(String::new(), |d| format!(" DEFAULT {d}"));
            parts.push(text);
        }
        if !self.primary_key.is_empty() && !matches!(self.kind, TableKind::RowidAlias(_)) {
            parts.push(format!("PRIMARY KEY({})", list(&self.primary_key)));
        }
        parts.extend(self.checks.iter().map(|check| format!("CHECK({})", check.sql(&names))));
        for r in &self.references {
            let Some(parent) = all.tables.iter().find(|t| t.name == r.parent) else { continue };
            let to: Vec<&str> =
                r.parent_columns.iter().map(|&c| parent.columns[c].name.as_str()).collect();
            parts.push(format!(
                "FOREIGN KEY({}) REFERENCES {}({}) ON DELETE {} ON UPDATE {}",
                list(&r.columns),
                r.parent,
                to.join(", "),
                action(r.on_delete),
                action(r.on_update)
            ));
        }
        let mut options = Vec::new();
        options.extend((self.kind == TableKind::WithoutRowid).then_some("WITHOUT ROWID"));
        options.extend(self.strict.then_some("STRICT"));
        let table =
            format!("CREATE TABLE {}({}) {};", self.name, parts.join(", "), options.join(", "));
        let indexes = self.uniques.iter().enumerate().map(|(i, u)| {
            let term = |(term, collation): &(Term, Collation)| match term {
                Term::Column(c) => format!("{} COLLATE {}", names[*c], collation_sql(collation)),
                other => other.sql(&names),
            };
            let terms: Vec<String> = u.terms.iter().map(term).collect();
            let predicate = u.predicate.as_ref().map(|p| format!(" WHERE {}", p.sql(&names)));
            let (name, predicate) = (&self.name, predicate.unwrap_or_default());
            format!("CREATE UNIQUE INDEX {name}_{i} ON {name}({}){predicate};", terms.join(", "))
        });
        std::iter::once(table).chain(indexes).collect::<Vec<_>>().join("\n")
    }
}

fn collation_sql(collation: &Collation) -> &str {
    match collation {
        Collation::Binary => "BINARY",
        Collation::NoCase => "NOCASE",
        Collation::Rtrim => "RTRIM",
        Collation::Other(name) => name,
    }
}

fn action(action: Action) -> &'static str {
    match action {
        Action::NoAction => "NO ACTION",
        Action::Restrict => "RESTRICT",
        Action::SetNull => "SET NULL",
        Action::SetDefault => "SET DEFAULT",
        Action::Cascade => "CASCADE",
    }
}

/// A table with its numbers and names, and its unique indexes in the order of these.
fn named(no: u32, mut table: Table, of: Option<&TableBlueprint>) -> (Relation, Vec<Unique>) {
    let mut indexes: Vec<(String, UniqueIndex, Unique)> = Vec::new();
    if let Some(of) = of {
        for (mut u, primary) in of.indexes() {
            u.terms.sort_by_cached_key(|term| of.term_name(term));
            indexes.push((of.unique_name(&u), of.index(&u, primary), u));
        }
        // That of an integer key which is no index.
        for claimed in table.uniques.iter().filter(|u| u.name == "PRIMARY KEY") {
            let terms = claimed.columns.iter().map(|&c| (Term::Column(c), Collation::Binary));
            let u = Unique { terms: terms.collect(), predicate: None };
            indexes.push((of.unique_name(&u), claimed.clone(), u));
        }
    }
    indexes.sort_by(|(a, u, _), (b, v, _)| (a, !u.primary).cmp(&(b, !v.primary)));
    indexes.dedup_by(|(next, ..), (name, ..)| next == name);
    let (mut names, mut uniques, mut terms) = (Vec::new(), Vec::new(), Vec::new());
    for (name, index, u) in indexes {
        names.push(name);
        uniques.push(index);
        terms.push(u);
    }
    table.uniques = uniques;
    let name = table.name.clone();
    let mut relation = Relation::unnumbered(no, &name, table);
    let columns = &relation.table.columns;
    relation.column_names = columns.iter().map(|c| c.name.clone()).collect();
    relation.column_nos = (0..).take(columns.len()).collect();
    relation.since = vec![-1; columns.len()];
    relation.unique_names = names;
    (relation, terms)
}

impl RowValidator for Model {
    fn row(&self, t: &Relation, row: &[Value]) -> Result<Verdict> {
        let none = Verdict { valid: false, keys: vec![None; t.table.uniques.len()] };
        let Some(rules) = self.rules.get(t.no as usize) else { return Ok(none) };
        let fits = t.table.columns.iter().zip(row).enumerate().all(|(c, (column, value))| {
            let known = !column.not_null || !value.is_null();
            let alias = t.table.rowid_alias() == Some(c);
            let whole = !alias || matches!(value, Value::Integer(_));
            known && whole && (!t.table.strict || is_of_type(column, value))
        });
        if !fits || rules.checks.iter().any(|check| check.holds(row) == Some(false)) {
            return Ok(none);
        }
        let key = |(u, index): (&Unique, &UniqueIndex)| {
            let held = u.predicate.as_ref().is_none_or(|p| p.holds(row) == Some(true));
            let values = u.terms.iter().map(|(term, _)| term.of(row)).collect();
            Key::of(index, values).filter(|_| held)
        };
        Ok(Verdict {
            valid: true,
            keys: rules.uniques.iter().zip(&t.table.uniques).map(key).collect(),
        })
    }

    fn default(&self, t: &Relation, column: usize) -> Result<Value> {
        Ok(t.default_of(column))
    }
}

/// Whether a column of a STRICT table takes a value.
fn is_of_type(column: &Column, value: &Value) -> bool {
    match (column.affinity, value) {
        (_, Value::Null) | (Affinity::Blob | Affinity::Numeric, _) => true,
        (Affinity::Integer, value) => matches!(value, Value::Integer(_)),
        (Affinity::Text, value) => matches!(value, Value::Text(_)),
        (Affinity::Real, value) => matches!(value, Value::Real(_)),
    }
}
