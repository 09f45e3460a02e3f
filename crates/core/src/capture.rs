//! Capture: pure SQL triggers that note each change in the journal, in the application's own
//! transaction.
//!
//! | entry | when | `a` | with a before-image |
//! | --- | --- | --- | --- |
//! | insert | AFTER INSERT | where the row is, `b` the largest rowid | |
//! | update | AFTER UPDATE | where it was, `b` where it went, `m` mask of changed columns | |
//! | delete | AFTER DELETE | where it was | the whole row |
//! | replace | BEFORE INSERT | the row with the same primary key, if there is one | the whole row |
//! | rival | BEFORE INSERT, UPDATE | a row that shares another unique key with the new one | the whole row |
//! | previous | BEFORE UPDATE of key columns, of counters, or of a reference that an action may be setting | where the row is | the columns of its keys and counters and of those references |
//! | leaving | BEFORE DELETE of a row on whose delete foreign keys act | where the row is | |
//! | leaving | the same where SQLite may convert OLD after it ([`crate::schema::Table::converts_old`]) | where the row is | the whole row |
//!
//! A before-image stands in its entry: a table of images would cost one more page in every
//! transaction that deletes ([decision 001](../../../docs/decisions/001-journal.md)). The value of
//! column number `no` is in `v0` to `v7`, at `no % 8`, of the entry itself if `no < 8`, else of an
//! entry `more` right after it, which has `no / 8` as its `b`.
//!
//! Rows that are appended one after another within a millisecond share the entry of the first: none
//! is made for a row with a rowid above that entry's `b` while that entry is the last one and of the
//! same time. The fold finds such rows by their rowids ([decision
//! 014](../../../docs/decisions/014-shared-inserts.md)).
//!
//! With `recursive_triggers` off, SQLite's default, REPLACE fires no delete trigger; `replace` and
//! `rival` say which rows it may have displaced, and the fold looks whether they are still there
//! (R-CAP-REPLACE). A delete's before-image is kept because a dead row keeps its values.
//!
//! What a foreign key's action does to a child comes after `leaving` or `previous` of its parent,
//! and what a user did to the child first comes before it: so the fold tells one from the other
//! (R-FK-ACTION). The child's own triggers could look whether the parent is still there, but a
//! trigger that names another table makes SQLite refuse `ALTER TABLE ... RENAME` while that table
//! is dropped and rebuilt.
//!
//! SQLite refuses `DROP COLUMN` while a trigger names the column. So a trigger names a droppable
//! column only inside a subquery whose *outer* scope offers a row of the same name: once the column
//! is gone, its name resolves there, the trigger stays valid and the application goes on.

mod event;

pub use event::Event;

use crate::catalog::{Catalog, Relation, loc_sql};
use crate::equal::collation_sql;
use crate::schema::{Action, ForeignKey, TableKind, UniqueIndex, quote};
use crate::{Result, state};
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, BTreeSet};

/// Columns whose change bits fit one integer of a mask.
pub const MASK_BITS: u32 = 62;

/// Columns of a before-image that one entry holds.
pub const SLOTS: u32 = 8;

/// The time, a whole number of milliseconds over 86,400,000. Without an argument it costs less than
/// with `'now'`, and half as much as with the arithmetic that makes an integer of it.
const NOW: &str = "julianday()";

/// Name of a trigger or table of ours that belongs to one application table.
pub fn own_name(kind: &str, no: u32) -> String {
    format!("synqlite_{kind}_{no}")
}

/// Whether `name` is one of the [`objects`] of table `no`.
pub fn is_own(name: &str, no: u32) -> bool {
    ["insert", "update", "delete", "replace", "rival", "previous", "leaving", "pin"]
        .iter()
        .any(|kind| name == own_name(kind, no))
}

/// What the capture of one table consists of: (name, SQL) of triggers, and where VACUUM would
/// renumber rows an index that holds nothing and prevents it.
pub fn objects(t: &Relation) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut add = |kind: &str, sql: &dyn Fn(&str) -> String| {
        let name = own_name(kind, t.no);
        let sql = sql(&name);
        out.push((name, sql));
    };
    let target = quote(&t.table.name);
    add("insert", &|name| {
        let (when, entry) = insert_entry(t);
        format!("CREATE TRIGGER {name} AFTER INSERT ON {target}{when} BEGIN {entry}; END")
    });
    add("update", &|name| {
        format!("CREATE TRIGGER {name} AFTER UPDATE ON {target} BEGIN {}; END", update_entry(t))
    });
    add("delete", &|name| {
        let entry = entry_of_old(t, Event::Delete, &all_columns(t));
        format!("CREATE TRIGGER {name} AFTER DELETE ON {target} BEGIN {entry} END")
    });
    let rivals = Rivals::of(t);
    if let Some((when, body)) = rivals.on_insert(t) {
        add("replace", &|name| {
            format!("CREATE TRIGGER {name} BEFORE INSERT ON {target} WHEN {when} BEGIN {body} END")
        });
    }
    if let Some((columns, when, body)) = rivals.on_update(t) {
        add("rival", &|name| {
            format!(
                "CREATE TRIGGER {name} BEFORE UPDATE OF {columns} ON {target} WHEN {when} BEGIN {body} END"
            )
        });
    }
    if let Some((columns, when, body)) = previous(t) {
        add("previous", &|name| {
            format!(
                "CREATE TRIGGER {name} BEFORE UPDATE OF {columns} ON {target} WHEN {when} BEGIN {body} END"
            )
        });
    }
    if t.table.acts_on_delete || t.table.converts_old() {
        add("leaving", &|name| {
            let entry = match t.table.converts_old() {
                true => entry_of_old(t, Event::Leaving, &all_columns(t)),
                false => entry(t, Event::Leaving, &loc_sql(&t.table, "OLD.")) + ";",
            };
            format!("CREATE TRIGGER {name} BEFORE DELETE ON {target} BEGIN {entry} END")
        });
    }
    if t.table.kind == TableKind::Rowid && !t.table.indexed {
        add("pin", &|name| format!("CREATE INDEX {name} ON {target}(1) WHERE 0"));
    }
    out
}

/// The names that columns have now, by number, as the trigger on deletes tells: SQLite rewrites them
/// there when a column is renamed. The name of a dropped column stays.
pub fn columns_of(delete_trigger: &str) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    let mut rest = delete_trigger;
    while let Some((_, text)) = rest.split_once("(SELECT OLD.\"") {
        let mut name = String::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c == '"' && !chars.as_str().starts_with('"') {
                break;
            } else if c == '"' {
                chars.next();
            }
            name.push(c);
        }
        rest = chars.as_str();
        let Some(no) = rest.strip_prefix(") AS v") else { continue };
        let digits = no.find(|c: char| !c.is_ascii_digit()).map_or(no, |end| &no[..end]);
        if let Ok(no) = digits.parse() {
            names.insert(no, name);
        }
    }
    names
}

/// Columns, by number, of which the triggers of a table as they are now keep what was there before every
/// update of them. `None` if they are gone.
pub fn imaged(conn: &Connection, no: u32) -> Result<Option<BTreeSet<u32>>> {
    let sql = "SELECT sql FROM main.sqlite_master WHERE type = 'trigger' AND name = ?1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut of = |kind| statement.query_row([own_name(kind, no)], |row| row.get(0)).optional();
    let (previous, delete): (Option<String>, Option<String>) = (of("previous")?, of("delete")?);
    let columns = previous.map(|sql| {
        // References come last, kept only where an action may have set them ([`may_be_set`]).
        let always = sql.split("\" IS NOT NULL").next().unwrap_or_default();
        let is_kept = |name: &str| always.contains(&format!("OLD.{} COLLATE", quote(name)));
        columns_of(&sql).into_iter().filter(|(_, name)| is_kept(name)).map(|(no, _)| no).collect()
    });
    Ok(columns.or(delete.map(|_| BTreeSet::new())))
}

/// Creates the capture objects of one table, all but the trigger before inserts: see [`guard`].
pub fn install(conn: &Connection, t: &Relation) -> Result<()> {
    let guard = own_name("replace", t.no);
    for (_, sql) in objects(t).iter().filter(|(name, _)| *name != guard) {
        conn.execute_batch(sql)?;
    }
    Ok(())
}

/// Creates the trigger before inserts that notes rows which REPLACE may displace, where it is missing.
/// A table of which no row is known yet does without: whatever is displaced there, nobody else has
/// seen, and a first load is to cost as little as can be. Says whether one was missing.
pub fn guard(conn: &Connection, catalog: &Catalog) -> Result<bool> {
    let sql = "SELECT name FROM main.sqlite_master WHERE type = 'trigger' \
               AND name LIKE 'synqlite\\_replace\\_%' ESCAPE '\\'";
    let mut statement = conn.prepare_cached(sql)?;
    let present: BTreeSet<String> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let mut made = false;
    for t in &catalog.tables {
        let guard = own_name("replace", t.no);
        if !present.contains(&guard)
            && state::any_row(conn, t.no)?
            && let Some((_, sql)) = objects(t).iter().find(|(name, _)| *name == guard)
        {
            conn.execute_batch(sql)?;
            made = true;
        }
    }
    Ok(made)
}

/// Whether a table may lack the object `name`.
pub fn may_lack(conn: &Connection, t: &Relation, name: &str) -> Result<bool> {
    Ok(name == own_name("replace", t.no) && !state::any_row(conn, t.no)?)
}

fn entry(t: &Relation, event: Event, loc: &str) -> String {
    format!("INSERT INTO synqlite_journal(ev,a,at) VALUES({},{loc},{NOW})", event.of_table(t.no))
}

/// (WHEN clause, statement) of the trigger after an insert.
fn insert_entry(t: &Relation) -> (String, String) {
    let loc = loc_sql(&t.table, "NEW.");
    let Some(rowid) = &t.table.rowid_name else {
        return (String::new(), entry(t, Event::Insert, &loc));
    };
    let ev = Event::Insert.of_table(t.no);
    let when = format!(
        " WHEN (SELECT ev={ev} AND b<{loc} AND at={NOW} FROM synqlite_journal \
         ORDER BY seq DESC LIMIT 1) IS NOT 1"
    );
    let last = format!("(SELECT max({}) FROM {})", quote(rowid), quote(&t.table.name));
    let entry = format!("INSERT INTO synqlite_journal(ev,a,b,at) VALUES({ev},{loc},{last},{NOW})");
    (when, entry)
}

fn update_entry(t: &Relation) -> String {
    let ev = Event::Update.of_table(t.no);
    let (old, new) = (loc_sql(&t.table, "OLD."), loc_sql(&t.table, "NEW."));
    format!(
        "INSERT INTO synqlite_journal(ev,a,b,m,at) VALUES({ev},{old},nullif({new},{old}),{},{NOW})",
        mask(t)
    )
}

/// An integer with bit `no` set for each changed column, or several joined by commas for tables
/// with more than [`MASK_BITS`] columns.
fn mask(t: &Relation) -> String {
    let words = t.column_nos.iter().max().map_or(1, |max| max / MASK_BITS + 1);
    let word = |w: u32| {
        let bits = t.table.columns.iter().zip(&t.column_nos).filter(|(_, no)| *no / MASK_BITS == w);
        let bits: Vec<_> = bits
            // SQLite's << binds no tighter than |.
            .map(|(c, no)| format!("(({})<<{})", differs(&c.name, c.affinity), no % MASK_BITS))
            .collect();
        if bits.is_empty() { "0".to_owned() } else { bits.join("|") }
    };
    let words: Vec<_> = (0..words).map(word).collect();
    let mask = match &words[..] {
        [one] => one.clone(),
        many => many.iter().map(|w| format!("({w})")).collect::<Vec<_>>().join("||','||"),
    };
    scoped(t, &mask, "old", "new")
}

/// Whether a column's value changed: by bytes, not by the column's collation, and where SQLite
/// stores values as they come also by storage class (1 and 1.0 are equal, yet not the same).
fn differs(name: &str, affinity: crate::schema::Affinity) -> String {
    let c = quote(name);
    let value = format!("OLD.{c} COLLATE BINARY IS NOT NEW.{c}");
    match affinity {
        crate::schema::Affinity::Blob => format!("{value} OR typeof(OLD.{c})<>typeof(NEW.{c})"),
        _ => value,
    }
}

/// A row of NULLs under the names of columns: what a dropped column's name resolves to.
fn nulls(t: &Relation, columns: &[usize]) -> String {
    let names = columns.iter().map(|&c| format!("NULL AS {}", quote(&t.table.columns[c].name)));
    names.collect::<Vec<_>>().join(",")
}

fn all_columns(t: &Relation) -> Vec<usize> {
    (0..t.table.columns.len()).collect()
}

/// Statements that make an entry for the row at `loc`, with a before-image of `columns`, of which
/// `value` tells the values, if `from` has a row. Given some of the columns, `from` offers NULLs for
/// those that may be gone.
fn entry_with_image(
    t: &Relation,
    event: Event,
    loc: &str,
    columns: &[usize],
    value: impl Fn(usize) -> String,
    from: impl Fn(&[usize]) -> String,
) -> String {
    let mut parts: BTreeMap<u32, Vec<usize>> = BTreeMap::from([(0, vec![])]);
    for &c in columns {
        parts.entry(t.column_nos[c] / SLOTS).or_default().push(c);
    }
    let statement = |(part, columns): (u32, Vec<usize>)| {
        let slots = columns.iter().map(|&c| format!(",v{}", t.column_nos[c] % SLOTS));
        let values = columns.iter().map(|&c| format!(",{} AS v{}", value(c), t.column_nos[c]));
        let (ev, part) = match part {
            0 => (event.of_table(t.no), "NULL".to_owned()),
            part => (Event::More.of_table(t.no), part.to_string()),
        };
        format!(
            "INSERT INTO synqlite_journal(ev,a,b,at{}) SELECT {ev},{loc},{part},{NOW}{} {}; ",
            slots.collect::<String>(),
            values.collect::<String>(),
            from(&columns)
        )
    };
    parts.into_iter().map(statement).collect::<String>().trim_end().to_owned()
}

/// An entry for the row OLD, with these columns of it.
fn entry_of_old(t: &Relation, event: Event, columns: &[usize]) -> String {
    // In a subquery of its own OLD is the trigger's row, as long as that has the column.
    let loc = format!("(SELECT {})", loc_sql(&t.table, "OLD."));
    let value = |c: usize| format!("(SELECT OLD.{})", quote(&t.table.columns[c].name));
    let from = |columns: &[usize]| match columns {
        [] => String::new(),
        _ => format!("FROM (SELECT {}) AS old", nulls(t, columns)),
    };
    entry_with_image(t, event, &loc, columns, value, from)
}

/// Rows that an insert or update may displace.
struct Rivals {
    /// The same primary key.
    key: Option<Rival>,
    /// Another unique key.
    others: Vec<Rival>,
}

/// A condition on a row `o` of the table, in terms of NEW.
struct Rival {
    condition: String,
    /// Columns whose change can bring it about.
    columns: Vec<usize>,
    /// Columns that can be dropped once the index is; none of a primary key can.
    droppable: Vec<String>,
}

impl Rivals {
    fn of(t: &Relation) -> Rivals {
        let name = |c: usize| quote(&t.table.columns[c].name);
        let rival = |u: &UniqueIndex| {
            let stored = u.columns.iter().map(|&c| name(c));
            let droppable = stored.chain(t.table.generated.iter().map(|name| quote(name)));
            let droppable = if u.primary { vec![] } else { droppable.collect() };
            Rival { condition: condition(t, u), columns: u.columns.clone(), droppable }
        };
        let alias = t.table.rowid_alias().map(|c| Rival {
            condition: format!("o.{0} = NEW.{0}", name(c)),
            columns: vec![c],
            droppable: vec![],
        });
        let key = t.table.uniques.iter().find(|u| u.primary).map(rival);
        let others = t.table.uniques.iter().filter(|u| !u.primary).map(rival).collect();
        Rivals { key: alias.or(key), others }
    }

    /// (WHEN clause, body) of the trigger before an insert.
    fn on_insert(&self, t: &Relation) -> Option<(String, String)> {
        let mut conditions = Vec::new();
        let mut body = String::new();
        for (rival, event) in self.all() {
            conditions.push(rival.exists(t));
            body += &rival.note(t, event);
        }
        (!conditions.is_empty()).then(|| (conditions.join(" OR "), body))
    }

    /// (columns, WHEN clause, body) of the trigger before an update.
    fn on_update(&self, t: &Relation) -> Option<(String, String, String)> {
        let (mut columns, mut conditions, mut body) = (BTreeSet::new(), Vec::new(), String::new());
        let itself = format!("{} IS NOT {}", loc_sql(&t.table, "o."), loc_sql(&t.table, "OLD."));
        for (rival, _) in self.all() {
            let rival = Rival {
                condition: format!("{} AND {itself}", rival.condition),
                columns: rival.columns.clone(),
                droppable: rival.droppable.clone(),
            };
            conditions.push(rival.exists(t));
            body += &rival.note(t, Event::Rival);
            columns.extend(rival.columns);
        }
        let columns: Vec<usize> = columns.into_iter().collect();
        (!conditions.is_empty()).then(|| (name_list(t, &columns), conditions.join(" OR "), body))
    }

    fn all(&self) -> impl Iterator<Item = (&Rival, Event)> {
        let key = self.key.iter().map(|rival| (rival, Event::Replace));
        key.chain(self.others.iter().map(|rival| (rival, Event::Rival)))
    }
}

impl Rival {
    /// Whether there is such a row.
    fn exists(&self, t: &Relation) -> String {
        let exists = self.of_new(&format!("EXISTS({})", self.select(t, "1")));
        match self.fallback() {
            None => exists,
            Some(names) => format!("(SELECT {exists} FROM (SELECT {names}) AS o)"),
        }
    }

    /// Statements that journal that row, with its whole image.
    fn note(&self, t: &Relation, event: Event) -> String {
        let one = |what: &str| self.of_new(&format!("({})", self.select(t, what)));
        let value = |c: usize| one(&format!("o.{}", quote(&t.table.columns[c].name)));
        let generated = t.table.generated.iter().map(|name| format!(",NULL AS {}", quote(name)));
        let generated: String = generated.collect();
        let from = |columns: &[usize]| {
            let named: BTreeSet<usize> = columns.iter().chain(&self.columns).copied().collect();
            let names = nulls(t, &named.into_iter().collect::<Vec<_>>()) + &generated;
            format!("FROM (SELECT {names}) AS o WHERE {}", self.exists(t))
        };
        let loc = one(&loc_sql(&t.table, "o."));
        entry_with_image(t, event, &loc, &all_columns(t), value, from)
    }

    fn select(&self, t: &Relation, what: &str) -> String {
        format!("SELECT {what} FROM {} AS o WHERE {}", quote(&t.table.name), self.condition)
    }

    /// An expression in which NEW stays valid when a column of the condition is dropped.
    fn of_new(&self, expression: &str) -> String {
        match self.fallback() {
            None => expression.to_owned(),
            Some(names) => format!("(SELECT {expression} FROM (SELECT {names}) AS new)"),
        }
    }

    fn fallback(&self) -> Option<String> {
        let names: Vec<_> = self.droppable.iter().map(|name| format!("NULL AS {name}")).collect();
        (!names.is_empty()).then(|| names.join(","))
    }
}

fn name_list(t: &Relation, columns: &[usize]) -> String {
    let names: Vec<_> = columns.iter().map(|&c| quote(&t.table.columns[c].name)).collect();
    names.join(",")
}

/// An expression over rows `first` and `second` that stays valid when a column is dropped.
fn scoped(t: &Relation, expression: &str, first: &str, second: &str) -> String {
    let names = nulls(t, &all_columns(t));
    format!(
        "(SELECT (SELECT (SELECT {expression}) FROM (SELECT {names}) AS {second}) \
         FROM (SELECT {names}) AS {first})"
    )
}

/// Condition under which a row `o` has the same key as NEW in a unique index.
///
/// Expressions and predicates of an index name plain columns, so they are evaluated for NEW in a
/// subquery that offers NEW's values under those names.
fn condition(t: &Relation, index: &UniqueIndex) -> String {
    let stored = index.columns.iter().map(|&c| quote(&t.table.columns[c].name));
    let names = stored.chain(t.table.generated.iter().map(|name| quote(name)));
    let names: Vec<_> = names.map(|n| format!("NEW.{n} AS {n}")).collect();
    let of_new = |sql: &str| format!("(SELECT {sql} FROM (SELECT {}))", names.join(","));
    let plain = |sql: &str| {
        let inside = sql.strip_prefix('"').and_then(|s| s.strip_suffix('"'));
        inside.is_some_and(|s| !s.replace("\"\"", "").contains('"'))
    };
    let mut terms: Vec<_> = index
        .terms
        .iter()
        .map(|term| {
            let collate = collation_sql(&term.collation);
            if plain(&term.sql) {
                format!("o.{0} COLLATE {collate} = NEW.{0}", term.sql)
            } else {
                format!("({}) COLLATE {collate} = {}", term.sql, of_new(&term.sql))
            }
        })
        .collect();
    if let Some(predicate) = &index.predicate {
        terms.push(format!("({predicate})"));
        terms.push(of_new(predicate));
    }
    debug_assert!(!terms.is_empty(), "index {} of {}", index.name, t.table.name);
    terms.join(" AND ")
}

/// (columns, WHEN clause, body) of the trigger that keeps what keys and counters were before an
/// update, and references before an action on their parent may set them.
fn previous(t: &Relation) -> Option<(String, String, String)> {
    let kept = t.table.groups.iter().filter(|g| g.keeps_previous || g.counter);
    let mut columns: BTreeSet<usize> = kept.flat_map(|g| g.columns.iter().copied()).collect();
    let mut changed: Vec<String> = columns.iter().map(|&c| changes(t, c)).collect();
    for fk in t.table.foreign_keys.iter().filter(|fk| fk.sets()) {
        let group = t.table.columns[fk.columns[0]].group;
        if !t.table.groups[group].keeps_previous {
            columns.extend(&t.table.groups[group].columns);
            changed.push(may_be_set(t, fk));
        }
    }
    if columns.is_empty() {
        return None;
    }
    let columns: Vec<usize> = columns.into_iter().collect();
    let when = scoped(t, &changed.join(" OR "), "old", "new");
    let body = entry_of_old(t, Event::Previous, &columns);
    Some((name_list(t, &columns), when, body))
}

fn changes(t: &Relation, column: usize) -> String {
    let column = &t.table.columns[column];
    differs(&column.name, column.affinity)
}

/// Whether an update does to a reference what its ON DELETE action would do.
fn may_be_set(t: &Relation, fk: &ForeignKey) -> String {
    let set = fk.columns.iter().map(|&c| {
        let name = quote(&t.table.columns[c].name);
        match fk.on_delete {
            Action::SetNull => format!("OLD.{name} IS NOT NULL AND NEW.{name} IS NULL"),
            _ => format!("OLD.{name} IS NOT NULL"),
        }
    });
    let differs = fk.columns.iter().map(|&c| changes(t, c)).collect::<Vec<_>>().join(" OR ");
    format!("({}) AND ({differs})", set.collect::<Vec<_>>().join(" AND "))
}
