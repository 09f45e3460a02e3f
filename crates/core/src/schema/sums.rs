//! Triggers that keep sums in replicated tables, for a warning at `init`.
//!
//! Such a trigger adds to a column of another table, or writes an aggregate into it, whenever a row
//! comes or goes. Two sites do so apart, the sums are merged as any column, and the later one wins:
//! it lacks what the other site added. A counter adds both (R-COUNTER). This is a guess from the text
//! of the trigger, and only ever a note.

use super::feeds::application_triggers;
use super::sql::{Kind, Token, items, tokens};
use super::{Table, counters};
use crate::Result;
use rusqlite::Connection;

/// A column that a trigger writes.
struct Kept {
    table: String,
    column: String,
    /// Whether it writes an aggregate; else it adds to what is there.
    aggregate: bool,
}

/// A note for each column of a replicated table that a trigger of another table keeps a sum in, and
/// that is no counter.
pub fn kept_sums(conn: &Connection, tables: &[Table]) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for (name, on, sql) in application_triggers(conn)? {
        for kept in kept_by(&sql) {
            if !kept.table.eq_ignore_ascii_case(&on) {
                notes.extend(note(tables, &name, &kept));
            }
        }
    }
    notes.dedup();
    Ok(notes)
}

fn note(tables: &[Table], trigger: &str, kept: &Kept) -> Option<String> {
    let table = tables.iter().find(|t| t.name.eq_ignore_ascii_case(&kept.table))?;
    let column = table.columns.iter().find(|c| c.name.eq_ignore_ascii_case(&kept.column))?;
    if table.groups[column.group].counter {
        return None;
    }
    let (t, c) = (&table.name, &column.name);
    let how = if kept.aggregate { "writes a sum to" } else { "adds to" };
    let apart = format!(
        "trigger {trigger} {how} {t}.{c}: when two sites do so apart, the later value wins and \
         lacks what the other added"
    );
    let local = format!("where each site can compute table {t} itself, --policy local_tables={t}");
    Some(match counters::may_count(table, c) {
        Ok(_) => format!("{apart}; let it add up with --policy {t}.{c}=counter, or {local}"),
        Err(_) => format!("{apart}; {local}"),
    })
}

/// What the statements of a trigger keep sums in.
fn kept_by(sql: &str) -> Vec<Kept> {
    let tokens = tokens(sql);
    let begin = tokens.iter().position(|t| t.is("BEGIN")).map_or(tokens.len(), |i| i + 1);
    let mut kept = Vec::new();
    for statement in tokens[begin..].split(|t| t.kind == Kind::Mark(b';')) {
        let Some((table, assignments)) = update(statement) else { continue };
        for assignment in items(assignments) {
            let Some(equals) = assignment.iter().position(|t| t.kind == Kind::Mark(b'=')) else {
                continue;
            };
            let (columns, expression) = (&assignment[..equals], &assignment[equals + 1..]);
            let aggregate = has_aggregate(expression);
            for column in columns.iter().filter_map(Token::name) {
                if aggregate || adds_to(&column, expression) {
                    let (table, column) = (table.clone(), column.into_owned());
                    kept.push(Kept { table, column, aggregate });
                }
            }
        }
    }
    kept
}

/// The table that an UPDATE or an upsert changes, and its assignments.
fn update<'t, 'a>(statement: &'t [Token<'a>]) -> Option<(String, &'t [Token<'a>])> {
    let outer = outside(statement);
    let find = |word: &str| outer.iter().copied().find(|&i| statement[i].is(word));
    let verb = find("UPDATE")?;
    let mut at = match verb.checked_sub(1) {
        Some(before) if statement[before].is("DO") => find("INTO")? + 1,
        _ if statement.get(verb + 1)?.is("OR") => verb + 3,
        _ => verb + 1,
    };
    if statement.get(at + 1)?.kind == Kind::Mark(b'.') {
        at += 2;
    }
    let table = statement.get(at)?.name()?.into_owned();
    let set = outer.iter().copied().find(|&i| i > verb && statement[i].is("SET"))?;
    let ends =
        |&i: &usize| i > set && ["FROM", "WHERE", "RETURNING"].iter().any(|w| statement[i].is(w));
    let end = outer.iter().copied().find(ends).unwrap_or(statement.len());
    Some((table, &statement[set + 1..end]))
}

/// Positions of the tokens that are in no parenthesis.
fn outside(tokens: &[Token<'_>]) -> Vec<usize> {
    let mut depth = 0usize;
    let mut out = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Mark(b'(') => depth += 1,
            Kind::Mark(b')') => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(i),
            _ => {}
        }
    }
    out
}

fn has_aggregate(expression: &[Token<'_>]) -> bool {
    let aggregate = |pair: &[Token<'_>]| {
        let named = ["sum", "total", "count", "avg"].iter().any(|name| pair[0].is(name));
        named && pair[1].kind == Kind::Mark(b'(')
    };
    expression.iter().any(|t| t.is("SELECT")) && expression.windows(2).any(aggregate)
}

/// Whether an expression adds to or subtracts from the column itself, as it stands in the row.
fn adds_to(column: &str, expression: &[Token<'_>]) -> bool {
    let sums = expression.iter().any(|t| matches!(t.kind, Kind::Mark(b'+' | b'-')));
    let foreign = |i: usize| {
        let dot = i > 1 && expression[i - 1].kind == Kind::Mark(b'.');
        dot && ["NEW", "OLD", "excluded"].iter().any(|row| expression[i - 2].is(row))
    };
    let itself = |(i, token): (usize, &Token<'_>)| {
        let named = token.name().is_some_and(|name| name.eq_ignore_ascii_case(column));
        let next = expression.get(i + 1).map(|t| t.kind);
        named && !foreign(i) && !matches!(next, Some(Kind::Mark(b'(' | b'.')))
    };
    sums && expression.iter().enumerate().any(itself)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(body: &str) -> Vec<String> {
        let sql = format!("CREATE TRIGGER x AFTER INSERT ON line BEGIN {body}; END");
        let one =
            |k: Kept| format!("{}.{}{}", k.table, k.column, if k.aggregate { " sum" } else { "" });
        kept_by(&sql).into_iter().map(one).collect()
    }

    #[test]
    fn sums_are_found_in_updates_and_upserts() {
        for (body, want) in [
            ("UPDATE item SET n = n - NEW.n WHERE id = NEW.item", "item.n"),
            ("UPDATE main.\"the item\" SET a = 1, n = coalesce(n, 0) + 1", "the item.n"),
            ("UPDATE OR IGNORE item SET (n) = (item.n + NEW.n)", "item.n"),
            (
                "UPDATE o SET t = (SELECT sum(n) FROM line WHERE o = NEW.o) WHERE id = NEW.o",
                "o.t sum",
            ),
            ("INSERT INTO tally VALUES(NEW.k, 1) ON CONFLICT DO UPDATE SET n = n + 1", "tally.n"),
            ("SELECT 1; UPDATE item SET n = CASE WHEN n > 0 THEN n - 1 ELSE n END", "item.n"),
        ] {
            assert_eq!(kept(body), [want], "{body}");
        }
    }

    #[test]
    fn other_writes_are_none() {
        for body in [
            "UPDATE item SET n = NEW.n + 1",
            "UPDATE item SET seen = julianday('now') - 0.5",
            "UPDATE item SET log = log || NEW.n",
            "UPDATE item SET top = max(top, NEW.n)",
            "INSERT INTO tally SELECT k, count(*) + n FROM line",
            "INSERT INTO t VALUES(1) ON CONFLICT DO UPDATE SET n = excluded.n + 1",
            "DELETE FROM item WHERE n = n + 1",
            "UPDATE",
            "UPDATE item SET",
            "",
        ] {
            assert_eq!(kept(body), [""; 0], "{body}");
        }
    }
}
