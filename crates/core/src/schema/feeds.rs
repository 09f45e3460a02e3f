//! Triggers that keep a search index up to date: full-text and R-tree tables, fed by a table of the
//! application. What a GeoPackage counts by triggers is kept in the same way.
//!
//! Such an index is local, and each site's trigger keeps it. So it has to fire for merged rows too,
//! and may: what it writes is replicated nowhere. That holds where a trigger writes nothing else, and
//! where this program can run it: it has no functions and tokenizers that the application registers, but
//! for those of a GeoPackage (`geometry`).

use super::quote;
use super::sql::{Kind, Token, tokens};
use crate::Result;
use rusqlite::{Connection, OptionalExtension};
use std::collections::{BTreeMap, BTreeSet};

/// Modules whose tables hold nothing but what is put in, and are no part of a replica.
const INDEXES: [&str; 6] = ["fts3", "fts4", "fts5", "rtree", "rtree_i32", "geopoly"];

/// Tables in which a GeoPackage, or sqlite-utils, has the number of rows of each other table: name and columns.
const COUNTS: [(&str, [&str; 2]); 2] =
    [("gpkg_ogr_contents", ["table_name", "feature_count"]), ("_counts", ["table", "count"])];

/// Whether a table holds the numbers of rows of others, which triggers count.
pub(super) fn is_of_counts(table: &super::Table) -> bool {
    let is = |name: &str, columns: &[&str]| {
        let mut same = table.columns.iter().zip(columns);
        table.name.eq_ignore_ascii_case(name)
            && table.columns.len() == columns.len()
            && same.all(|(c, name)| c.name.eq_ignore_ascii_case(name))
    };
    COUNTS.iter().any(|(name, columns)| is(name, columns))
}

/// A trigger that writes a search index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feed {
    /// Its name.
    pub trigger: String,
    /// The table it is on.
    pub table: String,
    /// The indexes that it writes.
    pub indexes: Vec<String>,
    /// Why it cannot fire for merged rows by itself.
    pub obstacle: Option<String>,
    /// Whether this program has all that it calls and writes.
    pub can_run: bool,
}

/// All triggers that write search indexes, by name.
pub fn feeds(conn: &Connection) -> Result<Vec<Feed>> {
    let indexes = search_indexes(conn)?;
    if indexes.is_empty() {
        return Ok(vec![]);
    }
    let functions = names(conn, "SELECT DISTINCT lower(name) FROM pragma_function_list")?;
    let mut feeds = Vec::new();
    for (trigger, table, sql) in application_triggers(conn)? {
        let tokens = tokens(&sql);
        let written = written(&tokens);
        let is_index = |name: &String| indexes.contains_key(&name.to_ascii_lowercase());
        let mut fed: Vec<String> = written.iter().flatten().cloned().collect();
        fed.retain(is_index);
        fed.dedup();
        if fed.is_empty() {
            continue;
        }
        let other = written.iter().find_map(|target| match target {
            None => Some("it does more than this program understands".to_owned()),
            Some(name) if !is_index(name) => Some(format!("it writes table {name} too")),
            _ => None,
        });
        let other =
            other.or_else(|| Some(format!("a merge cannot go on after OR {}", ends(&tokens)?)));
        let unknown = || {
            let name = called(&tokens).find(|name| !functions.contains(name))?;
            Some(format!("it calls function {name}, which this program does not have"))
        };
        let closed =
            || fed.iter().find_map(|name| indexes.get(&name.to_ascii_lowercase())?.clone());
        let lacks = unknown().or_else(closed);
        let can_run = lacks.is_none();
        feeds.push(Feed { trigger, table, indexes: fed, obstacle: other.or(lacks), can_run });
    }
    Ok(feeds)
}

/// Of these triggers, those that must not fire for merged rows (R-TRG), and why: what one writes to a table of which
/// `is_replicated` holds arrives as rows; one that rolls back ends the merge's transaction in its midst, and one that
/// ignores a row leaves it out unnoticed. One that writes an index by what this program lacks would have it refuse rows.
pub fn barred(
    conn: &Connection,
    names: &[&str],
    is_replicated: impl Fn(&str) -> bool,
) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    if names.is_empty() {
        return Ok(found);
    }
    let is_named = |trigger: &String| names.iter().any(|name| name.eq_ignore_ascii_case(trigger));
    let stuck = feeds(conn)?.into_iter().filter(|feed| is_named(&feed.trigger) && !feed.can_run);
    found.extend(stuck.filter_map(|feed| Some((feed.trigger, feed.obstacle?))));
    for (trigger, _, sql) in application_triggers(conn)? {
        if !is_named(&trigger) || found.iter().any(|(known, _)| *known == trigger) {
            continue;
        }
        let tokens = tokens(&sql);
        let table = written(&tokens).into_iter().flatten().find(|t| is_replicated(t));
        let why = match table {
            Some(table) => {
                format!(
                    "it writes table {table}, which is replicated: what it writes arrives as rows"
                )
            }
            None => match (raises(&tokens), ends(&tokens)) {
                (Some(how), _) => {
                    format!("a merge cannot go on after RAISE({how}); RAISE(ABORT) refuses a row")
                }
                (_, Some(how)) => format!("a merge cannot go on after OR {how}"),
                _ => continue,
            },
        };
        found.push((trigger, why));
    }
    Ok(found)
}

/// Whether a statement of a trigger says that it ends the transaction in which it fires, or keeps what it did before
/// it failed.
fn ends(trigger: &[Token<'_>]) -> Option<&'static str> {
    let mut said = trigger.windows(2).filter(|two| two[0].is("OR"));
    said.find_map(|two| ["ROLLBACK", "FAIL"].into_iter().find(|how| two[1].is(how)))
}

/// How a trigger ends the transaction in which it fires, or passes a row over without an error.
fn raises(trigger: &[Token<'_>]) -> Option<&'static str> {
    let raised = trigger
        .windows(3)
        .filter(|three| three[0].is("RAISE") && three[1].kind == Kind::Mark(b'('));
    raised
        .filter_map(|three| ["ROLLBACK", "IGNORE"].into_iter().find(|how| three[2].is(how)))
        .next()
}

/// The application's triggers: name, table and text of each, by name.
pub fn application_triggers(conn: &Connection) -> Result<Vec<(String, String, String)>> {
    let sql = "SELECT name, tbl_name, sql FROM main.sqlite_master WHERE type = 'trigger' \
               AND name NOT LIKE 'synqlite\\_%' ESCAPE '\\' AND sql IS NOT NULL ORDER BY name";
    let mut statement = conn.prepare_cached(sql)?;
    let triggers = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(triggers.collect::<Result<_, _>>()?)
}

/// What to tell at `init` about the triggers of replicated tables.
pub fn notes(conn: &Connection, tables: &[super::Table]) -> Result<Vec<String>> {
    let is_replicated = |name: &String| tables.iter().any(|t| t.name.eq_ignore_ascii_case(name));
    let replicated =
        |feed: &Feed| is_replicated(&feed.table) && !feed.indexes.iter().any(is_replicated);
    let note = |feed: Feed| {
        let (trigger, index) = (&feed.trigger, feed.indexes.join(" and "));
        match &feed.obstacle {
            None => {
                format!("trigger {trigger} fires for merged rows too, to keep {index} up to date")
            }
            Some(why) => {
                let also = match feed.can_run {
                    true => format!("Let it with --policy fire_on_merge={trigger}, or make"),
                    false => "Make".to_owned(),
                };
                format!(
                    "trigger {trigger} writes {index}, but does not fire for merged rows: {why}. {also} \
                     {index} anew after each merge"
                )
            }
        }
    };
    Ok(feeds(conn)?.into_iter().filter(replicated).map(note).collect())
}

/// Search indexes by name in lower case, each with why it cannot be opened, if so.
fn search_indexes(conn: &Connection) -> Result<BTreeMap<String, Option<String>>> {
    let sql = "SELECT name, sql FROM main.sqlite_master WHERE type = 'table' \
               AND sql LIKE 'CREATE VIRTUAL%'";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut indexes = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let (name, sql): (String, String) = (row.get(0)?, row.get(1)?);
        let module = super::sql::TableSql::parse(&sql).module().unwrap_or_default().to_lowercase();
        if INDEXES.contains(&module.as_str()) {
            let quoted = quote(&name);
            // A tokenizer may be looked for only when it is needed.
            let search = match module.starts_with("fts") {
                true => format!("SELECT rowid FROM main.{quoted} WHERE {quoted} MATCH 'a'"),
                false => format!("SELECT * FROM main.{quoted}"),
            };
            let opened = conn.prepare(&search).and_then(|mut search| search.exists([]));
            let why = opened.err().map(|e| format!("this program cannot open {name} ({e})"));
            indexes.insert(name.to_ascii_lowercase(), why);
        }
    }
    let sql = "SELECT (SELECT count(*) FROM main.sqlite_master AS t WHERE t.type = 'trigger' \
               AND t.tbl_name = m.tbl_name AND t.name LIKE 'synqlite\\_insert\\_%' ESCAPE '\\') > 0 \
               FROM main.sqlite_master AS m WHERE m.type = 'table' AND lower(m.name) = ?1 \
               AND (SELECT group_concat(lower(name)) FROM pragma_table_info(m.name, 'main')) = ?2";
    let mut statement = conn.prepare_cached(sql)?;
    for (name, columns) in COUNTS {
        let captured =
            statement.query_row([name, &columns.join(",")], |row| row.get(0)).optional()?;
        if let Some(captured) = captured {
            let why = format!("{name} is replicated");
            indexes.insert(name.to_owned(), Some(why).filter(|_| captured));
        }
    }
    Ok(indexes)
}

fn names(conn: &Connection, sql: &str) -> Result<BTreeSet<String>> {
    let mut statement = conn.prepare_cached(sql)?;
    let names = statement.query_map([], |row| row.get(0))?;
    Ok(names.collect::<Result<_, _>>()?)
}

/// The tables that the statements of a trigger write; `None` for a statement that is not understood.
fn written(trigger: &[Token<'_>]) -> Vec<Option<String>> {
    let begin = trigger.iter().position(|t| t.is("BEGIN")).unwrap_or(trigger.len());
    let body = trigger.get(begin + 1..).unwrap_or_default();
    let statements = body.split(|t| t.kind == Kind::Mark(b';'));
    let mut written: Vec<Option<String>> = statements.filter_map(target).collect();
    if trigger.iter().any(|t| t.is("RAISE")) {
        written.push(None);
    }
    written
}

/// The table that a statement writes, as far as it is understood; none that a SELECT does.
pub(super) fn target(statement: &[Token<'_>]) -> Option<Option<String>> {
    let first = statement.first()?;
    let after = |word: &str| {
        let at = statement.iter().position(|t| t.is(word))?;
        statement.get(at + 1)?.name().map(|name| name.into_owned())
    };
    if first.is("END") || first.is("SELECT") {
        return None;
    }
    Some(if first.is("INSERT") || first.is("REPLACE") {
        after("INTO")
    } else if first.is("DELETE") {
        after("FROM")
    } else if first.is("UPDATE") {
        let name = if statement.get(1).is_some_and(|t| t.is("OR")) { 3 } else { 1 };
        statement.get(name).and_then(Token::name).map(|name| name.into_owned())
    } else {
        None
    })
}

/// Words that stand before a parenthesis and call nothing.
const NO_CALLS: [&str; 36] = [
    "all",
    "and",
    "as",
    "between",
    "by",
    "case",
    "cast",
    "delete",
    "distinct",
    "else",
    "except",
    "exists",
    "filter",
    "from",
    "glob",
    "having",
    "in",
    "intersect",
    "is",
    "like",
    "limit",
    "match",
    "not",
    "of",
    "on",
    "or",
    "over",
    "regexp",
    "select",
    "set",
    "then",
    "union",
    "using",
    "values",
    "when",
    "where",
];

/// The functions that a trigger calls, in lower case.
fn called<'t>(trigger: &'t [Token<'_>]) -> impl Iterator<Item = String> + 't {
    trigger.windows(2).enumerate().filter_map(|(i, pair)| {
        let before = i.checked_sub(1).and_then(|i| trigger.get(i));
        let table = before.is_some_and(|t| t.is("INTO"));
        let opens = pair[1].kind == Kind::Mark(b'(');
        let name = pair[0].name().filter(|_| opens && !table)?.to_ascii_lowercase();
        (!NO_CALLS.contains(&name.as_str())).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str = "CREATE TABLE note(id INTEGER PRIMARY KEY, a, b); CREATE TABLE log(x);
        CREATE VIRTUAL TABLE f USING fts5(a, b, content='note', content_rowid='id');
        CREATE VIRTUAL TABLE \"old f\" USING fts4(content=\"note\", a);";

    /// Trigger, indexes and obstacle of each feed.
    fn found(sql: &str) -> Vec<(String, Vec<String>, Option<String>)> {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(NOTE).unwrap();
        conn.execute_batch(sql).unwrap();
        let feeds = feeds(&conn).unwrap().into_iter();
        feeds.map(|f| (f.trigger, f.indexes, f.obstacle)).collect()
    }

    #[test]
    fn triggers_that_only_write_indexes_are_feeds() {
        let found = found(
            "CREATE TRIGGER ai AFTER INSERT ON note BEGIN
               INSERT INTO f(rowid, a, b) VALUES (new.id, upper(new.a), coalesce(new.b, ';END;'));
             END;
             CREATE TRIGGER au AFTER UPDATE OF a, b ON note WHEN old.a IS NOT new.a BEGIN
               INSERT INTO f(f, rowid, a, b) VALUES('delete', old.id, old.a, old.b);
               INSERT OR REPLACE INTO f(rowid, a, b) SELECT id, a, b FROM note WHERE id = new.id;
               UPDATE OR IGNORE \"old f\" SET a = CASE WHEN 1 THEN new.a END WHERE docid = new.id;
             END;
             CREATE TRIGGER bd BEFORE DELETE ON note BEGIN DELETE FROM [OLD F] WHERE docid = old.id; END;
             CREATE TRIGGER other AFTER INSERT ON note BEGIN INSERT INTO log VALUES(1); END;",
        );
        let names: Vec<_> = found.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["ai", "au", "bd"]);
        assert_eq!(found[1].1, ["f", "old f"]);
        assert!(found.iter().all(|(.., obstacle)| obstacle.is_none()), "{found:?}");
    }

    #[test]
    fn what_else_a_trigger_does_is_in_its_way() {
        let found = found(
            "CREATE TRIGGER a AFTER INSERT ON note BEGIN
               INSERT INTO f(rowid, a) VALUES (new.id, new.a); INSERT INTO log VALUES (1); END;
             CREATE TRIGGER b AFTER INSERT ON note BEGIN
               INSERT INTO f(rowid, a) VALUES (new.id, stem(new.a)); END;
             CREATE TRIGGER c AFTER INSERT ON note BEGIN
               INSERT INTO f(rowid, a) VALUES (new.id, new.a); SELECT raise(ABORT, 'no'); END;",
        );
        let why: Vec<String> = found.into_iter().filter_map(|(.., why)| why).collect();
        assert!(why[0].contains("table log") && why[1].contains("stem"), "{why:?}");
        assert_eq!(why.len(), 3);
    }

    #[test]
    fn an_index_that_cannot_be_opened_is_in_the_way() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(NOTE).unwrap();
        conn.execute_batch(
            "CREATE TRIGGER a AFTER INSERT ON note BEGIN INSERT INTO f(rowid) VALUES (new.id); END;
             PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = replace(sql, 'content_rowid',
             'tokenize=''mine'', content_rowid') WHERE name = 'f'; PRAGMA writable_schema=RESET",
        )
        .unwrap();
        let why = feeds(&conn).unwrap().remove(0).obstacle.unwrap();
        assert!(why.contains("cannot open f") && why.contains("tokenizer"), "{why}");
    }
}
