//! What the view knows of tables: columns, keys, groups, actions.
//!
//! Only what is said here decides what merges show, so two schemas that say the same show the same.

use std::collections::BTreeSet;
use synqlite_wire::Value;
pub use synqlite_wire::key::Collation;

/// How rows of a table are addressed in the local file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// By a rowid that no column shows.
    Rowid,
    /// By an `INTEGER PRIMARY KEY`, whose position in [`Table::columns`] this is.
    RowidAlias(usize),
    /// `WITHOUT ROWID`: by the primary key.
    WithoutRowid,
}

/// What makes two rows of two sites the same row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Equal primary keys at birth (R-ID-KEY).
    Key,
    /// Never: every insert makes a row of its own (R-ID-BIRTH).
    Birth,
}

impl Identity {
    /// As in the policy `T.identity`.
    pub fn name(self) -> &'static str {
        match self {
            Identity::Key => "key",
            Identity::Birth => "birth",
        }
    }
}

/// One replicated table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name, as declared.
    pub name: String,
    /// Stored columns in table order. Generated columns are not among them (R-GEN).
    pub columns: Vec<Column>,
    /// Names of generated columns: computed by SQLite, never replicated, read by indexes.
    pub generated: Vec<String>,
    /// How rows are addressed locally.
    pub kind: TableKind,
    /// A name by which SQL reaches the rowid: `rowid`, `_rowid_` or `oid`, whichever no column
    /// hides, or else the alias column. `None` for tables without one.
    pub rowid_name: Option<String>,
    /// Positions of the primary key's columns, in key order; empty without a primary key.
    pub primary_key: Vec<usize>,
    /// Collation of each primary key column as the key's index compares it.
    pub key_collations: Vec<Collation>,
    /// Declared foreign keys, and logical references declared by policy `T.refs`.
    pub foreign_keys: Vec<ForeignKey>,
    /// All UNIQUE indexes, the primary key's among them unless it is the rowid.
    pub uniques: Vec<UniqueIndex>,
    /// Partition of the columns into groups that are written as one (R-GROUP).
    pub groups: Vec<Group>,
    /// What identifies a row.
    pub identity: Identity,
    /// Whether it is declared AUTOINCREMENT.
    pub autoincrement: bool,
    /// Whether each site numbers its rows for itself: policy `T.ids=local` (R-OWN).
    pub own_numbers: bool,
    /// Whether a delete of a row makes a foreign key act on rows of replicated tables: CASCADE, SET
    /// NULL or SET DEFAULT.
    pub acts_on_delete: bool,
    /// Columns to which a foreign key has one of another affinity: SQLite may convert them in the OLD of
    /// triggers that run after a change of that key, while it looks for children by an index.
    pub converted: BTreeSet<usize>,
    /// Whether a constraint of it has an index, which cannot be dropped. VACUUM renumbers the rowids of a
    /// table without any.
    pub indexed: bool,
    /// Texts of what decides on single rows beside types: CHECKs, expressions of generated columns.
    pub row_rules: Vec<String>,
    /// Whether it is declared STRICT.
    pub strict: bool,
    /// Whether a constraint of it says ON CONFLICT.
    pub conflict_clause: bool,
    /// Bytes of its texts, as `hex` shows them.
    pub encoding: Encoding,
}

/// A stored column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, as declared.
    pub name: String,
    /// Declared type, empty if none.
    pub declared_type: String,
    /// How SQLite converts what is stored.
    pub affinity: Affinity,
    /// How its text compares where nothing says otherwise.
    pub collation: Collation,
    /// Declared NOT NULL.
    pub not_null: bool,
    /// SQL text of the DEFAULT clause.
    pub default: Option<String>,
    /// Position of its group in [`Table::groups`].
    pub group: usize,
}

/// Column affinity, by SQLite's rules on the declared type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Stores values as they come.
    Blob,
    /// Prefers text.
    Text,
    /// Prefers numbers.
    Numeric,
    /// Prefers integers.
    Integer,
    /// Prefers doubles.
    Real,
}

/// How a database keeps texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Encoding {
    Utf8,
    Utf16le,
    Utf16be,
}

/// Columns that are written as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Positions of its columns, ascending.
    pub columns: Vec<usize>,
    /// Positions in [`Table::foreign_keys`] of those whose columns lie in it, ascending.
    pub foreign_keys: Vec<usize>,
    /// Whether what was shown before a write must be kept: some UNIQUE index or primary key reads
    /// a column of this group, another table refers to one, or an ON UPDATE action may change one.
    pub keeps_previous: bool,
    /// Whether it is one column whose concurrent changes add up: policy `T.column=counter`.
    pub counter: bool,
}

/// A reference to rows of another table or of the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Name that does not depend on declaration order: `column,column>parent`, with the columns of the
    /// parent if they are not its primary key.
    pub name: String,
    /// Which of several with this name it is, from 1; they differ in what they do.
    pub nth: usize,
    /// Positions of its columns.
    pub columns: Vec<usize>,
    /// Name of the parent table; always a replicated one.
    pub parent: String,
    /// Positions of the referenced columns in the parent table.
    pub parent_columns: Vec<usize>,
    /// Names of the referenced columns.
    pub parent_names: Vec<String>,
    /// How a value is converted and compared before it counts as one of theirs: their affinities, and
    /// the collations of the index to which the foreign key refers.
    pub parent_keys: Vec<(Affinity, Collation)>,
    /// What a delete of the parent does.
    pub on_delete: Action,
    /// What a change of the parent's key does.
    pub on_update: Action,
    /// False for a logical reference (R-LREF): it follows the parent's key and is not enforced.
    pub enforced: bool,
}

/// A foreign key action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Action {
    NoAction,
    Restrict,
    SetNull,
    SetDefault,
    Cascade,
}

impl Action {
    /// Whether it does anything to what refers to the row.
    pub fn acts(self) -> bool {
        !matches!(self, Action::NoAction | Action::Restrict)
    }

    /// Whether it gives the columns of the reference other values than the key.
    pub fn sets(self) -> bool {
        matches!(self, Action::SetNull | Action::SetDefault)
    }
}

/// A UNIQUE index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniqueIndex {
    /// Its name in `sqlite_master`.
    pub name: String,
    /// Whether it is the primary key's.
    pub primary: bool,
    /// Positions of the columns it depends on: indexed ones, those that its expressions and its
    /// WHERE clause read, and the bases of generated columns; ascending.
    pub columns: Vec<usize>,
    /// Its terms, in order.
    pub terms: Vec<IndexTerm>,
    /// Its WHERE clause.
    pub predicate: Option<String>,
}

/// One term of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTerm {
    /// SQL of the term: a quoted column name, or an expression without ASC, DESC or the index's
    /// own COLLATE.
    pub sql: String,
    /// How its values compare.
    pub collation: Collation,
}

impl ForeignKey {
    /// Its name among all of its table.
    pub fn full_name(&self) -> String {
        numbered(&self.name, self.nth)
    }

    /// The key of the row to which a row refers; `None` if a part of it is NULL, so that it refers to none.
    pub fn key_of(&self, row: &[Value]) -> Option<Vec<Value>> {
        key(&self.columns, row)
    }

    /// The key by which a row of the parent table is referred to; `None` as above.
    pub fn parent_key(&self, row: &[Value]) -> Option<Vec<Value>> {
        key(&self.parent_columns, row)
    }

    /// Whether a delete or a change of the key of the parent sets its columns to NULL or defaults.
    pub fn sets(&self) -> bool {
        self.enforced && (self.on_delete.sets() || self.on_update.sets())
    }
}

fn key(columns: &[usize], row: &[Value]) -> Option<Vec<Value>> {
    columns.iter().map(|&c| Some(row[c].clone()).filter(|value| !value.is_null())).collect()
}

impl Table {
    /// Whether triggers that run after a change may see another key in OLD than the row had.
    pub fn converts_old(&self) -> bool {
        !self.converted.is_empty()
    }

    /// The group of foreign key `f`, and which of its references it is.
    pub fn place_of_key(&self, f: usize) -> Option<(usize, usize)> {
        let g = self.columns[*self.foreign_keys[f].columns.first()?].group;
        Some((g, self.groups[g].foreign_keys.iter().position(|&k| k == f)?))
    }

    /// A table that this database does not have: no columns, so no groups.
    pub fn absent(name: &str) -> Table {
        Table {
            name: name.to_owned(),
            columns: vec![],
            generated: vec![],
            kind: TableKind::WithoutRowid,
            rowid_name: None,
            primary_key: vec![],
            key_collations: vec![],
            foreign_keys: vec![],
            uniques: vec![],
            groups: vec![],
            identity: Identity::Birth,
            autoincrement: false,
            own_numbers: false,
            acts_on_delete: false,
            converted: BTreeSet::new(),
            indexed: true,
            row_rules: vec![],
            strict: false,
            conflict_clause: false,
            encoding: Encoding::Utf8,
        }
    }

    /// Columns that some unique key reads.
    pub fn key_columns(&self) -> Vec<usize> {
        let mut columns = self.primary_key.clone();
        columns.extend(self.uniques.iter().flat_map(|u| u.columns.iter().copied()));
        columns
    }

    /// An integer key that names its row, or another, is never renumbered, so it is a unique key like
    /// others (R-UNIQ), though SQLite has no index for it.
    pub fn claim_number(&mut self) {
        let Some(alias) = self.rowid_alias().filter(|_| self.renumbers().is_none()) else { return };
        let sql = quote(&self.columns[alias].name);
        self.uniques.push(UniqueIndex {
            name: "PRIMARY KEY".to_owned(),
            primary: true,
            columns: vec![alias],
            terms: vec![IndexTerm { sql, collation: Collation::Binary }],
            predicate: None,
        });
    }

    /// Position of the `INTEGER PRIMARY KEY` column, if the table has one.
    #[inline]
    pub fn rowid_alias(&self) -> Option<usize> {
        match self.kind {
            TableKind::RowidAlias(column) => Some(column),
            _ => None,
        }
    }

    /// The same if rows of one number stay several rows, all but one with another number (R-REMAP). A
    /// number that is a reference is that of the row that it is to.
    #[inline]
    pub fn renumbers(&self) -> Option<usize> {
        self.given_number().filter(|_| !self.own_numbers)
    }

    /// The same if each site gives its rows numbers of its own, and no number ever changes (R-OWN).
    #[inline]
    pub fn own_number(&self) -> Option<usize> {
        self.given_number().filter(|_| self.own_numbers)
    }

    /// The same if rows of one number are several rows.
    fn given_number(&self) -> Option<usize> {
        let refers = |alias: &usize| self.foreign_keys.iter().any(|fk| fk.columns.contains(alias));
        let by_birth = self.identity == Identity::Birth;
        self.rowid_alias().filter(|alias| by_birth && !refers(alias))
    }

    /// Whether which number a row is given can decide whether another has a unique key of it.
    pub fn number_decides(&self) -> bool {
        let Some(alias) = self.renumbers() else { return false };
        let alone = |u: &UniqueIndex| u.columns.len() == 1 && u.predicate.is_none();
        self.uniques.iter().any(|u| u.columns.contains(&alias) && !alone(u))
    }
}

/// The `nth` thing of one name.
pub fn numbered(name: &str, nth: usize) -> String {
    if nth > 1 { format!("{name}#{nth}") } else { name.to_owned() }
}

/// `name` as an SQL identifier.
pub fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
