//! Triggers of the application that mislead ours where they run before them, as one does that was made later: SQLite
//! runs the latest first.

use super::Table;
use super::feeds::target;
use super::sql::{Kind, Token, tokens};

/// Whether such a trigger on a table may have kept ours from firing, or had them note what it did to rows before what
/// had been done to them.
pub fn misleads(sql: &str, table: &Table) -> bool {
    let tokens = tokens(sql);
    // What one BEFORE a change keeps from happening there is nothing to note of.
    let after = tokens.iter().take_while(|t| !t.is("BEGIN")).any(|t| t.is("AFTER"));
    let statements = tokens.split(|t| t.kind == Kind::Mark(b';') || t.is("BEGIN"));
    after && tokens.windows(2).any(hushes) || statements.into_iter().any(|s| rekeys(s, table))
}

/// SQLite passes over the rest of a row's triggers after RAISE(IGNORE), and keeps the row when a statement fails.
fn hushes(two: &[Token<'_>]) -> bool {
    let [first, second] = two else { return false };
    let raised = first.kind == Kind::Mark(b'(') && (second.is("IGNORE") || second.is("FAIL"));
    raised || first.is("OR") && second.is("FAIL")
}

/// Whether a statement may have rows of the table come and go, or gives them other keys.
fn rekeys(statement: &[Token<'_>], table: &Table) -> bool {
    let target = target(statement).flatten();
    if !target.is_some_and(|name| name.eq_ignore_ascii_case(&table.name)) {
        return false;
    }
    let set = statement.iter().position(|t| t.is("SET")).filter(|_| statement[0].is("UPDATE"));
    let Some(set) = set else { return true };
    let until = statement.iter().position(|t| t.is("WHERE")).unwrap_or(statement.len());
    let key = |name: &str| {
        let is = |other: &str| other.eq_ignore_ascii_case(name);
        let rowid = ["rowid", "_rowid_", "oid"].into_iter().any(is);
        rowid || table.primary_key.iter().any(|&c| is(&table.columns[c].name))
    };
    let given = |two: &[Token<'_>]| {
        two[1].kind == Kind::Mark(b'=') && two[0].name().is_some_and(|n| key(&n))
    };
    statement.get(set..until).is_some_and(|said| said.windows(2).any(given))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policies;
    use crate::schema::{Selection, read};
    use rusqlite::Connection;

    #[test]
    fn what_leaves_rows_where_they_are_misleads_nobody() {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, v, at); CREATE TABLE o(id)")
            .unwrap();
        let schema = read(&conn, &Policies::default(), &Selection::default()).unwrap();
        let table = schema.tables.iter().find(|t| t.name == "t").unwrap();
        for (body, is) in [
            ("UPDATE t SET at = 1 WHERE id = new.id", false),
            ("INSERT INTO o VALUES(new.id); DELETE FROM o WHERE id = 1", false),
            ("SELECT RAISE(ABORT, 'no')", false),
            ("UPDATE \"T\" SET id = 4 WHERE v = 1", true),
            ("UPDATE OR REPLACE t SET v = 1, rowid = 4", true),
            ("INSERT INTO o VALUES(1); DELETE FROM t", true),
            ("REPLACE INTO t VALUES(1, 2, 3)", true),
            ("SELECT RAISE ( IGNORE ) WHERE new.v = 1", true),
            ("UPDATE OR FAIL o SET id = 1", true),
        ] {
            let sql = format!("CREATE TRIGGER g AFTER INSERT ON t BEGIN {body}; END");
            assert_eq!(misleads(&sql, table), is, "{body}");
        }
        let guard =
            "CREATE TRIGGER g BEFORE INSERT ON t BEGIN SELECT RAISE(IGNORE) WHERE new.v = 1; END";
        assert!(!misleads(guard, table));
    }
}
