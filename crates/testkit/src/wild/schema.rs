//! A schema as data: what a migration changes, and what statements are made for.
//!
//! Columns have an id that stays when they are renamed. Texts of constraints and indexes name columns
//! as `{id}`, and are written out under the names of the moment.

use super::values::Pool;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Tables by number. A number stays when a table is renamed.
pub type Schema = BTreeMap<usize, Table>;

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A part of the primary key.
    Key,
    /// It gets values that collide.
    Rival,
    /// It refers to another table.
    Reference,
    /// A number under a CHECK or a counter.
    Number,
    /// Anything.
    Plain,
    /// Each value in it is written once, so it tells what became of a write.
    Token,
    /// SQLite computes it.
    Generated,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its first name.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its declared type, or nothing.
    pub ty: &'static str,
    /// Its collation, if it declares one.
    pub collate: Option<&'static str>,
    /// NOT NULL, with a default.
    pub not_null: bool,
    /// Its default.
    pub default: Option<String>,
    /// What it is for.
    pub role: Role,
    /// What it is given.
    pub pool: Pool,
    /// How it is computed.
    pub generated: Option<String>,
    /// Whether what is computed is stored.
    pub stored: bool,
    /// The column, which is no more, whose values a rebuild copied into it.
    pub filled: Option<String>,
}

impl Column {
    /// Its default as the text of the table has it: a word at times as the name that SQL takes for a text there.
    fn spelled<'a>(&self, default: &'a str) -> &'a str {
        let word = default.strip_prefix('\'').and_then(|t| t.strip_suffix('\''));
        let is_word = |t: &&str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_lowercase());
        word.filter(is_word).filter(|_| self.name.len().is_multiple_of(2)).unwrap_or(default)
    }
}

/// A constraint of a table besides its primary key.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// UNIQUE.
    Unique {
        /// Ids of its columns.
        columns: Vec<String>,
        /// ON CONFLICT, if it has one.
        conflict: &'static str,
        /// The name after CONSTRAINT.
        named: Option<String>,
    },
    /// CHECK.
    Check(String),
    /// A foreign key.
    Foreign(Foreign),
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreign {
    /// Its columns.
    pub columns: Vec<String>,
    /// Number of the table.
    pub parent: usize,
    /// Columns there.
    pub targets: Vec<String>,
    /// ON DELETE, ON UPDATE, DEFERRABLE.
    pub actions: String,
}

/// An index that is made apart from its table.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Its name.
    pub name: String,
    /// Whether it is unique.
    pub unique: bool,
    /// What it is on.
    pub on: Vec<String>,
    /// Columns that it reads.
    pub reads: Vec<String>,
    /// The condition of a partial one.
    pub filter: Option<String>,
}

/// A trigger of the application.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    /// Its name.
    pub name: String,
    /// What follows its name.
    pub text: String,
}

/// Where triggers note what they saw.
pub const NOTES: &str = "CREATE TABLE IF NOT EXISTS notes(id INTEGER PRIMARY KEY, what)";

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Ids of the columns of its primary key; none if it has none.
    pub key: Vec<String>,
    /// Whether the primary key stands at its column.
    pub inline_key: bool,
    /// A collation that the primary key gives its first column.
    pub key_collate: Option<&'static str>,
    /// What follows PRIMARY KEY.
    pub key_tail: &'static str,
    /// Its constraints, in the order in which they are written.
    pub rules: Vec<Rule>,
    /// Its indexes.
    pub indexes: Vec<Index>,
    /// Triggers of the application, which the first migration drops.
    pub triggers: Vec<Trigger>,
    /// What follows the last parenthesis.
    pub tail: &'static str,
    /// Names that columns of it had before, with the ids of those columns.
    pub former: Vec<(String, String)>,
    /// Whether a column got such a name.
    pub reused: bool,
}

/// An identifier in SQL.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Table {
    /// The column with this id.
    pub fn column(&self, id: &str) -> Option<&Column> {
        self.columns.iter().find(|c| c.id == id)
    }

    /// The same, to change it.
    pub fn column_mut(&mut self, id: &str) -> Option<&mut Column> {
        self.columns.iter_mut().find(|c| c.id == id)
    }

    /// A text with the names of columns in it.
    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for column in &self.columns {
            text = text.replace(&format!("{{{}}}", column.id), &quote(&column.name));
        }
        text
    }

    /// Columns as a list.
    pub fn list(&self, ids: &[String]) -> String {
        let names = ids.iter().filter_map(|id| Some(quote(&self.column(id)?.name)));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The column that tells writes apart.
    pub fn token(&self) -> Option<&Column> {
        self.columns.iter().find(|c| c.role == Role::Token)
    }

    /// Whether it has rowids.
    pub fn has_rowid(&self) -> bool {
        !self.tail.contains("WITHOUT ROWID")
    }

    /// Whether one integer column is the rowid.
    pub fn numbers_rows(&self) -> bool {
        let integer = |id: &String| self.column(id).is_some_and(|c| c.ty == "INTEGER");
        self.has_rowid() && self.key.len() == 1 && self.key.iter().all(integer)
    }

    /// An order of its rows that no two share, as one SQL value of a row named `of`.
    pub fn order(&self, of: &str) -> String {
        if self.has_rowid() {
            return format!("{of}.rowid");
        }
        let names = self.key.iter().filter_map(|id| self.column(id));
        let names: Vec<_> = names.map(|c| format!("{of}.{}", quote(&c.name))).collect();
        format!("({})", names.join(", "))
    }

    /// Whether a constraint, an index or the key reads the column.
    pub fn depends_on(&self, id: &str) -> bool {
        let named = format!("{{{id}}}");
        let has = |ids: &[String]| ids.iter().any(|other| other == id);
        let ruled = self.rules.iter().any(|rule| match rule {
            Rule::Unique { columns, .. } => has(columns),
            Rule::Check(text) => text.contains(&named),
            Rule::Foreign(foreign) => has(&foreign.columns),
        });
        let computed =
            self.columns.iter().filter_map(|c| c.generated.as_ref()).any(|g| g.contains(&named));
        ruled || computed || has(&self.key) || self.indexes.iter().any(|i| has(&i.reads))
    }

    /// Whether a foreign key of it is to this table.
    pub fn refers_to(&self, no: usize) -> bool {
        self.rules.iter().any(|rule| matches!(rule, Rule::Foreign(f) if f.parent == no))
    }

    /// Whether something unique reads the column.
    pub fn unique_on(&self, id: &str) -> bool {
        let has = |ids: &[String]| ids.iter().any(|other| other == id);
        let ruled = |rule: &Rule| matches!(rule, Rule::Unique { columns, .. } if has(columns));
        let indexed = self.indexes.iter().any(|index| index.unique && has(&index.reads));
        indexed || has(&self.key) || self.rules.iter().any(ruled)
    }

    /// CREATE TABLE under a name.
    pub fn create(&self, schema: &Schema, name: &str) -> String {
        let mut parts: Vec<String> = self.columns.iter().map(|c| self.define(c)).collect();
        if !self.key.is_empty() && !self.inline_key {
            let collate = self.key_collate.map_or(String::new(), |c| format!(" COLLATE {c}"));
            let list = self.list(&self.key).replacen('"', "\u{1}", 2);
            let list =
                list.replacen('\u{1}', "\"", 1).replacen('\u{1}', &format!("\"{collate}"), 1);
            parts.push(format!("PRIMARY KEY({list}){}", self.key_tail));
        }
        for rule in &self.rules {
            parts.push(match rule {
                Rule::Unique { columns, conflict, named } => {
                    let named =
                        named.as_ref().map_or(String::new(), |n| format!("CONSTRAINT {n} "));
                    format!("{named}UNIQUE({}){conflict}", self.list(columns))
                }
                Rule::Check(text) => format!("CHECK({})", self.text(text)),
                Rule::Foreign(foreign) => self.foreign(schema, foreign),
            });
        }
        format!("CREATE TABLE {}({}){}", quote(name), parts.join(", "), self.tail)
    }

    fn foreign(&self, schema: &Schema, foreign: &Foreign) -> String {
        let parent = schema.get(&foreign.parent).unwrap_or(self);
        format!(
            "FOREIGN KEY({}) REFERENCES {}({}){}",
            self.list(&foreign.columns),
            quote(&parent.name),
            parent.list(&foreign.targets),
            foreign.actions
        )
    }

    /// A column as CREATE TABLE and ADD COLUMN have it.
    pub fn define(&self, c: &Column) -> String {
        let mut text = quote(&c.name);
        let strict = self.tail.contains("STRICT");
        // A mark is a text, whatever its column is declared to hold.
        let any = matches!(c.ty, "" | "NUMERIC") || c.role == Role::Token && c.ty == "BLOB";
        let ty = if strict && any { "ANY" } else { c.ty };
        if !ty.is_empty() {
            write!(text, " {ty}").ok();
        }
        if let Some(collate) = c.collate {
            write!(text, " COLLATE {collate}").ok();
        }
        if self.inline_key && self.key.first() == Some(&c.id) {
            write!(text, " PRIMARY KEY{}", self.key_tail).ok();
        }
        if c.not_null {
            text += " NOT NULL";
        }
        if let Some(default) = &c.default {
            write!(text, " DEFAULT {}", c.spelled(default)).ok();
        }
        if let Some(generated) = &c.generated {
            let how = if c.stored { "STORED" } else { "VIRTUAL" };
            write!(text, " AS ({}) {how}", self.text(generated)).ok();
        }
        text
    }

    /// CREATE INDEX.
    pub fn create_index(&self, index: &Index) -> String {
        let unique = if index.unique { "UNIQUE " } else { "" };
        let on: Vec<_> = index.on.iter().map(|text| self.text(text)).collect();
        let filter =
            index.filter.as_ref().map_or(String::new(), |f| format!(" WHERE {}", self.text(f)));
        let (name, table) = (quote(&index.name), quote(&self.name));
        format!("CREATE {unique}INDEX {name} ON {table}({}){filter}", on.join(", "))
    }
}

/// Statements that make a schema.
pub fn statements(schema: &Schema) -> Vec<String> {
    let mut out = Vec::new();
    for table in schema.values() {
        out.push(table.create(schema, &table.name));
        out.extend(table.indexes.iter().map(|index| table.create_index(index)));
        for Trigger { name, text } in &table.triggers {
            out.extend([NOTES.to_owned(), format!("CREATE TRIGGER {} {text}", quote(name))]);
        }
    }
    out
}

/// Whether another table refers to this column of a table, or with `None` to the table at all.
pub fn referenced(schema: &Schema, no: usize, id: Option<&str>) -> bool {
    let refers = |foreign: &Foreign| {
        foreign.parent == no && id.is_none_or(|id| foreign.targets.iter().any(|t| t == id))
    };
    let rules = schema.values().flat_map(|t| &t.rules);
    rules
        .filter_map(|rule| match rule {
            Rule::Foreign(foreign) => Some(foreign),
            _ => None,
        })
        .any(refers)
}
