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
use synqlite_view::constant::constant;
use synqlite_wire::Value;

/// Columns whose change bits fit one integer of a mask.
pub const MASK_BITS: u32 = 62;

/// Columns of a before-image that one entry holds.
pub const SLOTS: u32 = 8;

/// The mask of an entry whose before-image is still to come: of no update.
const EMPTY: &str = "-1";

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
        if !present.contains(&own_name("replace", t.no)) && state::any_row(conn, t.no)? {
            made |= make_guard(conn, t)?;
        }
    }
    Ok(made)
}

/// Creates the same trigger where tables that are about to be known have rows.
pub fn guard_rows(conn: &Connection, catalog: &Catalog) -> Result<()> {
    for t in &catalog.tables {
        if conn.prepare(&format!("SELECT 1 FROM {}", t.target()))?.exists([])? {
            make_guard(conn, t)?;
        }
    }
    Ok(())
}

fn make_guard(conn: &Connection, t: &Relation) -> Result<bool> {
    let guard = own_name("replace", t.no);
    let objects = objects(t);
    let Some((_, sql)) = objects.iter().find(|(name, _)| *name == guard) else { return Ok(false) };
    conn.execute_batch(sql)?;
    Ok(true)
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
    scoped(t, &mask, all_columns(t))
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

/// A row of NULLs under the names of those of these columns that can be dropped: what their names resolve to
/// then. Empty if none can.
fn nulls(t: &Relation, columns: impl IntoIterator<Item = usize>) -> Vec<String> {
    let declared = t.table.uniques.iter().filter(|u| is_declared(u)).flat_map(|u| &u.columns);
    let fixed: BTreeSet<usize> = declared.chain(&t.table.primary_key).copied().collect();
    let columns: BTreeSet<usize> = columns.into_iter().collect();
    let null = |&c: &usize| format!("NULL AS {}", quote(&t.table.columns[c].name));
    columns.difference(&fixed).map(null).collect()
}

/// A FROM clause with such a row; none if there are no names.
fn from_nulls(names: &[String], alias: &str) -> String {
    match names {
        [] => String::new(),
        names => format!(" FROM (SELECT {}) AS {alias}", names.join(",")),
    }
}

/// Whether an index is a key in the table's own text: SQLite drops no column of it.
fn is_declared(index: &UniqueIndex) -> bool {
    index.primary || index.name.starts_with("sqlite_autoindex_")
}

fn all_columns(t: &Relation) -> Vec<usize> {
    (0..t.table.columns.len()).collect()
}

/// The entries that hold a before-image of columns: the columns in each, by the number of the part.
fn parts(t: &Relation, columns: &[usize]) -> BTreeMap<u32, Vec<usize>> {
    let mut parts: BTreeMap<u32, Vec<usize>> = BTreeMap::from([(0, vec![])]);
    for &c in columns {
        parts.entry(t.column_nos[c] / SLOTS).or_default().push(c);
    }
    parts
}

fn part_sql(part: u32) -> String {
    if part == 0 { "NULL".to_owned() } else { part.to_string() }
}

/// Statements that make an entry for the row OLD, with a before-image of these columns.
fn entry_of_old(t: &Relation, event: Event, columns: &[usize]) -> String {
    // In a subquery of its own OLD is the trigger's row, as long as that has the column.
    let loc = loc_sql(&t.table, "OLD.");
    let value = |&c: &usize| {
        let name = quote(&t.table.columns[c].name);
        format!(",(SELECT OLD.{name}) AS v{}", t.column_nos[c])
    };
    let statement = |(part, columns): (u32, Vec<usize>)| {
        let slots = columns.iter().map(|&c| format!(",v{}", t.column_nos[c] % SLOTS));
        let slots = slots.collect::<String>();
        let values = columns.iter().map(value).collect::<String>();
        let from = from_nulls(&nulls(t, columns), "old");
        let ev = if part == 0 { event } else { Event::More }.of_table(t.no);
        format!(
            "INSERT INTO synqlite_journal(ev,a,b,at{slots}) \
             SELECT {ev},(SELECT {loc}),{},{NOW}{values}{from}; ",
            part_sql(part)
        )
    };
    parts(t, columns).into_iter().map(statement).collect::<String>().trim_end().to_owned()
}

/// Rows that an insert or update may displace.
struct Rivals {
    /// The same primary key.
    key: Option<Rival>,
    /// Another unique key.
    others: Vec<Rival>,
}

/// A condition on a row `o` of the table, in terms of NEW.
#[derive(Clone)]
struct Rival {
    condition: String,
    /// Columns whose change can bring it about.
    columns: Vec<usize>,
    /// Columns that can be dropped once the index is; those of a declared key cannot.
    droppable: Vec<String>,
}

impl Rivals {
    fn of(t: &Relation) -> Rivals {
        let name = |c: usize| quote(&t.table.columns[c].name);
        let rival = |u: &UniqueIndex| {
            let stored = u.columns.iter().map(|&c| name(c));
            let droppable = stored.chain(t.table.generated.iter().map(|name| quote(name)));
            let droppable = if is_declared(u) { vec![] } else { droppable.collect() };
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
        // One that shares both is noted once.
        let shares_key = self.key.as_ref().map(|key| format!("({}) IS NOT 1", key.condition));
        let others = self.others.iter().map(|rival| match &shares_key {
            Some(more) => (rival.and(more), Event::Rival),
            None => (rival.clone(), Event::Rival),
        });
        let key = self.key.iter().map(|rival| (rival.clone(), Event::Replace));
        let when = any_exists(t, self.all());
        let noted: Vec<_> = key.chain(others).collect();
        (!noted.is_empty()).then(|| (when, note(t, &noted)))
    }

    /// (columns, WHEN clause, body) of the trigger before an update.
    fn on_update(&self, t: &Relation) -> Option<(String, String, String)> {
        let itself = format!("{} IS NOT {}", loc_sql(&t.table, "o."), loc_sql(&t.table, "OLD."));
        let noted: Vec<_> = self.all().map(|rival| (rival.and(&itself), Event::Rival)).collect();
        let columns: BTreeSet<usize> = self.all().flat_map(|r| &r.columns).copied().collect();
        let columns: Vec<usize> = columns.into_iter().collect();
        let when = any_exists(t, noted.iter().map(|(rival, _)| rival));
        (!noted.is_empty()).then(|| (name_list(t, &columns), when, note(t, &noted)))
    }

    fn all(&self) -> impl Iterator<Item = &Rival> {
        self.key.iter().chain(&self.others)
    }
}

fn any_exists<'a>(t: &Relation, rivals: impl Iterator<Item = &'a Rival>) -> String {
    rivals.map(|rival| rival.exists(t)).collect::<Vec<_>>().join(" OR ")
}

/// Statements that journal those of these rows that are there, each with its whole image.
///
/// First come the entries, marked as empty, then all images at once. A program pays for the length of a trigger
/// whenever it opens the database and whenever it prepares a statement that may fire it, and a subquery, which the
/// names of columns need that may be dropped, yields one value, or a row of them by an UPDATE only. The columns of
/// an entry are named in full there: the application's may have the same names.
fn note(t: &Relation, rivals: &[(Rival, Event)]) -> String {
    let parts = parts(t, &all_columns(t));
    // By its rowid a row is found whichever key it shares.
    let by_rowid = t.table.kind != TableKind::WithoutRowid && t.table.rowid_name.is_some();
    let mut body = String::new();
    for together in rivals.chunks(if by_rowid { rivals.len() } else { 1 }) {
        for (rival, event) in together {
            for part in parts.keys() {
                body += &rival.entry(t, *event, *part);
            }
        }
        let made = together.len() * parts.len();
        for (part, columns) in &parts {
            let set = together[0].0.image(t, by_rowid, columns);
            let of_part = match parts.len() {
                1 => String::new(),
                _ => format!(" AND synqlite_journal.b IS {}", part_sql(*part)),
            };
            body += &format!(
                "UPDATE synqlite_journal SET {set} WHERE \
                 synqlite_journal.seq>(SELECT max(seq) FROM synqlite_journal)-{made} \
                 AND synqlite_journal.m={EMPTY}{of_part}; "
            );
        }
    }
    body.trim_end().to_owned()
}

impl Rival {
    /// The same with one more condition, which reads no columns but those of keys that nobody can drop.
    fn and(&self, condition: &str) -> Rival {
        Rival { condition: format!("{} AND {condition}", self.condition), ..self.clone() }
    }

    /// Whether there is such a row.
    fn exists(&self, t: &Relation) -> String {
        let exists = self.of_new(&format!("EXISTS({})", self.select(t, "1")));
        match self.fallback() {
            None => exists,
            Some(names) => format!("(SELECT {exists} FROM (SELECT {names}) AS o)"),
        }
    }

    /// A statement that makes one part of an entry for that row, if it is there, and marks it as empty.
    fn entry(&self, t: &Relation, event: Event, part: u32) -> String {
        let ev = if part == 0 { event } else { Event::More }.of_table(t.no);
        let (loc, part) = (loc_sql(&t.table, "o."), part_sql(part));
        let rows = match self.fallback() {
            None => self.select(t, &format!("{ev},{loc},{part},{EMPTY},{NOW}")),
            Some(names) => {
                let one = self.of_new(&format!("({})", self.select(t, &loc)));
                format!(
                    "SELECT {ev},a,{part},{EMPTY},{NOW} FROM \
                     (SELECT {one} AS a FROM (SELECT {names}) AS o) WHERE a IS NOT NULL"
                )
            }
        };
        format!("INSERT INTO synqlite_journal(ev,a,b,m,at) {rows}; ")
    }

    /// What an UPDATE sets where it puts these columns of the row into an empty entry.
    fn image(&self, t: &Relation, by_rowid: bool, columns: &[usize]) -> String {
        if columns.is_empty() {
            return "m=NULL".to_owned();
        }
        let slots = columns.iter().map(|&c| format!(",v{}", t.column_nos[c] % SLOTS));
        let slots = slots.collect::<String>();
        let values = columns.iter().map(|&c| format!(",o.{}", quote(&t.table.columns[c].name)));
        let values = "NULL".to_owned() + &values.collect::<String>();
        let of_table = quote(&t.table.name);
        if by_rowid {
            let (loc, from) =
                (loc_sql(&t.table, "o."), from_nulls(&nulls(t, columns.to_vec()), "o"));
            return format!(
                "(m{slots})=(SELECT {values} FROM {of_table} AS o WHERE {loc}=synqlite_journal.a){from}"
            );
        }
        let mut names = nulls(t, columns.iter().chain(&self.columns).copied());
        names.extend(t.table.generated.iter().map(|name| format!("NULL AS {}", quote(name))));
        let from = from_nulls(&names, "o");
        // Its primary key is the same under every name.
        let by_key = t.table.primary_key.iter().map(|&c| {
            let part = format!("o.{}", quote(&t.table.columns[c].name));
            format!("{part} IS {}", self.of_new(&format!("({})", self.select(t, &part))))
        });
        let is_it = match self.fallback() {
            None => self.condition.clone(),
            Some(_) => by_key.collect::<Vec<_>>().join(" AND "),
        };
        format!("(m{slots})=(SELECT {values} FROM {of_table} AS o WHERE {is_it}){from}")
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

/// What follows UPDATE OF. SQLite compares these names with those that a statement sets, and a statement may call an
/// integer key by the names of the rowid.
fn name_list(t: &Relation, columns: &[usize]) -> String {
    let name = |c: usize| quote(&t.table.columns[c].name);
    let mut names: Vec<_> = columns.iter().map(|&c| name(c)).collect();
    if t.table.rowid_alias().is_some_and(|alias| columns.contains(&alias)) {
        names.extend(["rowid", "oid", "_rowid_"].map(quote));
    }
    names.join(",")
}

/// An expression over these columns of OLD and NEW that stays valid when one is dropped.
fn scoped(t: &Relation, expression: &str, columns: impl IntoIterator<Item = usize>) -> String {
    let names = nulls(t, columns);
    let (new, old) = (from_nulls(&names, "new"), from_nulls(&names, "old"));
    match names.is_empty() {
        true => format!("({expression})"),
        false => format!("(SELECT (SELECT (SELECT {expression}){new}){old})"),
    }
}

/// What a column of NEW will hold: where it may not be NULL, REPLACE puts its default in place of one.
fn to_be(t: &Relation, column: usize) -> String {
    let column = &t.table.columns[column];
    let new = format!("NEW.{}", quote(&column.name));
    let Some(default) = column.default.as_ref().filter(|_| column.not_null) else { return new };
    match constant(default) {
        Some(Value::Null) => new,
        // The text may be written as a name, which means a column here.
        Some(Value::Text(text)) => {
            let text = String::from_utf8_lossy(&text).replace('\'', "''");
            format!("ifnull({new},'{text}')")
        }
        _ => format!("ifnull({new},({default}))"),
    }
}

/// Condition under which a row `o` has the same key as NEW in a unique index.
///
/// Expressions and predicates of an index name plain columns, so they are evaluated for NEW in a
/// subquery that offers NEW's values under those names.
fn condition(t: &Relation, index: &UniqueIndex) -> String {
    let name = |c: usize| quote(&t.table.columns[c].name);
    let stored = index.columns.iter().map(|&c| format!("{} AS {}", to_be(t, c), name(c)));
    let generated = t.table.generated.iter().map(|n| format!("NEW.{0} AS {0}", quote(n)));
    let names: Vec<_> = stored.chain(generated).collect();
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
                let column = index.columns.iter().find(|&&c| name(c) == term.sql);
                let new = column.map_or(format!("NEW.{}", term.sql), |&c| to_be(t, c));
                format!("o.{} COLLATE {collate} = {new}", term.sql)
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
    let when = scoped(t, &changed.join(" OR "), columns.iter().copied());
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
