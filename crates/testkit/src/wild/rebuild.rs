//! Tables rebuilt as migration tools do it, statement by statement.
//!
//! `@keys off` and `@keys back` switch foreign keys off on the application's connection and back to what
//! they were. `@keep T` remembers the triggers of a table and `@make` makes them again, as SQLite's own
//! instructions for a rebuild say.

use super::schema::{Role, Schema, Table, quote};
use crate::random::Random;

/// Who rebuilds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Alembic's batch mode: CREATE commits by itself, the rest is one transaction.
    Alembic,
    /// Django's `_remake_table`.
    Django,
    /// knex since 1.0.
    Knex,
    /// knex before: the rows go to a copy and back.
    KnexBack,
    /// `sqlite-utils transform`, which keeps rowids.
    Utils,
    /// SQLite's twelve steps by hand, with the triggers.
    Hand,
}

impl Tool {
    /// One of them.
    pub fn draw(r: &mut Random) -> Tool {
        use Tool::*;
        [Alembic, Django, Knex, KnexBack, Utils, Hand][r.index(6)]
    }
}

/// The statements that make `old` into `new`.
pub fn script(tool: Tool, schema: &Schema, no: usize, old: &Table, new: &Table) -> Vec<String> {
    let mut then = schema.clone();
    then.insert(no, new.clone());
    let table = quote(&old.name);
    let named = match tool {
        Tool::Alembic => format!("_alembic_tmp_{}", old.name),
        Tool::Django => format!("new__{}", old.name),
        Tool::Knex | Tool::KnexBack => "_knex_temp_alter071".to_owned(),
        Tool::Utils => format!("{}_new_9c2", old.name),
        Tool::Hand => format!("new_{}", old.name),
    };
    let temp = quote(&named);
    let create = new.create(&then, &named);
    let (names, values) = copied(old, new, tool == Tool::Utils);
    let copy =
        |from: &str, to: &str| format!("INSERT INTO {to} ({names}) SELECT {values} FROM {from}");
    let drop = format!("DROP TABLE {table}");
    let rename = format!("ALTER TABLE {temp} RENAME TO {table}");
    let indexes = new.indexes.iter().map(|index| new.create_index(index));
    let (begin, commit) = ("BEGIN".to_owned(), "COMMIT".to_owned());
    let (off, back) = ("@keys off".to_owned(), "@keys back".to_owned());
    let mut out = Vec::new();
    match tool {
        // Its connection keeps no foreign keys unless told to.
        Tool::Alembic => {
            out.extend([off, create, begin, copy(&table, &temp), drop, rename]);
            out.extend(indexes);
            out.extend([commit, back]);
        }
        Tool::KnexBack => {
            let mirror = old.create(schema, &named);
            let (all, plain) = copied(old, old, false);
            let away = format!("INSERT INTO {temp} ({all}) SELECT {plain} FROM {table}");
            let remake = new.create(&then, &new.name);
            out.extend([off, begin, mirror, away, drop, remake, copy(&temp, &table)]);
            out.push(format!("DROP TABLE {temp}"));
            out.extend(indexes);
            out.extend([commit, back]);
        }
        Tool::Django | Tool::Knex | Tool::Utils => {
            out.extend([off, begin, create, copy(&table, &temp), drop, rename]);
            out.extend(indexes);
            out.extend(["PRAGMA foreign_key_check".to_owned(), commit, back]);
        }
        Tool::Hand => {
            let keep = format!("@keep {}", old.name);
            out.extend([off, begin, keep, create, copy(&table, &temp), drop, rename]);
            out.extend(indexes);
            out.extend(["@make".to_owned(), commit, back]);
        }
    }
    out
}

/// The columns that are copied, and what is put into them.
fn copied(old: &Table, new: &Table, rowids: bool) -> (String, String) {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    if rowids && old.has_rowid() && !old.numbers_rows() && new.has_rowid() {
        names.push("rowid".to_owned());
        values.push("rowid".to_owned());
    }
    for c in new.columns.iter().filter(|c| c.role != Role::Generated) {
        let filled = || c.filled.as_ref().and_then(|id| old.column(id));
        let Some(was) = old.column(&c.id).or_else(filled) else { continue };
        names.push(quote(&c.name));
        let name = quote(&was.name);
        values.push(match &c.default {
            Some(default) if c.not_null && !was.not_null => format!("coalesce({name}, {default})"),
            _ => name,
        });
    }
    (names.join(", "), values.join(", "))
}
