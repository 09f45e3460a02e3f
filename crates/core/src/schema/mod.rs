//! What the engine knows of the application's tables.
//!
//! Read through PRAGMAs, judged by SQLite, never changed: the schema decides what is replicated, how
//! rows are identified (R-ID-AUTO) and which columns are written as one (R-GROUP).

use std::ops::Range;

mod counters;
mod describe;
mod feeds;
mod floats;
mod foreign;
mod misleading;
mod names;
mod numbers;
mod pragmas;
mod read;
mod references;
mod select;
mod sql;
mod sums;
#[cfg(test)]
mod tests;
mod tools;

pub use describe::{
    converted_old, had_own_numbers, had_rowid_alias, has_key_of, has_references_of, has_uniques_of,
    shape,
};
pub use feeds::{Feed, application_triggers, barred, feeds, notes as feed_notes};
pub use misleading::misleads;
pub use names::{term_name, unique_name};
pub use read::read;
pub use select::near;
pub use sums::kept_sums;
pub use synqlite_view::schema::*;

/// All tables of a database, those to be replicated and those that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Replicated tables: parents before the tables that refer to them, then by name.
    pub tables: Vec<Table>,
    /// Ranges of [`Schema::tables`] that refer to each other in cycles, in order: the strongly
    /// connected components of the foreign keys. A table outside every cycle is a range of one.
    pub components: Vec<Range<usize>>,
    /// Tables that are not replicated and refer to others: of their foreign keys those that can be followed.
    pub local: Vec<Table>,
    /// What is not replicated, and why, by name.
    pub skipped: Vec<Skipped>,
    /// Warnings for people, one sentence each: foreign keys that merges cannot follow, and columns
    /// that look like references but are not declared (R-LREF).
    pub notes: Vec<String>,
    /// Policies that ask for what the schema does not allow: (key, why). They have no effect.
    pub idle: Vec<(String, String)>,
}

/// Which tables are to be replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these; all if empty.
    pub only: Vec<String>,
    /// None of these.
    pub exclude: Vec<String>,
    /// Whether a selection or policy that names what is not there is an error. It is when somebody
    /// sets it; a replica may get a policy before the schema change that goes with it.
    pub strict: bool,
}

/// Something that is not replicated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Name of the table, view or virtual table.
    pub name: String,
    /// Why, for people.
    pub why: String,
    /// Whether that is how it is made, and nobody's choice.
    pub unfit: bool,
}
