//! Just enough SQL to read what PRAGMAs do not tell: CHECK bodies, generated columns, the
//! expressions and WHERE clauses of indexes.
//!
//! The texts come from `sqlite_master`, so SQLite has parsed them before: a tokenizer and balanced
//! parentheses are sufficient, and whatever else the text holds is passed over.

use std::borrow::Cow;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword or a bare identifier.
    Word,
    /// An identifier in `"`, `` ` `` or `[]`. SQLite takes `"x"` for a string if no column is `x`.
    Quoted,
    /// A string or blob literal.
    Text,
    /// A number.
    Number,
    /// One character of anything else.
    Mark(u8),
}

/// A piece of SQL, comments and blanks left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Byte offset of `text` in the SQL.
    pub start: usize,
}

impl<'a> Token<'a> {
    /// Whether it is this keyword; a quoted word never is one.
    pub fn is(&self, keyword: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(keyword)
    }

    /// The identifier it stands for, if it can be one.
    pub fn name(&self) -> Option<Cow<'a, str>> {
        match self.kind {
            Kind::Word => Some(Cow::Borrowed(self.text)),
            Kind::Quoted => Some(unquote(self.text)),
            _ => None,
        }
    }
}

fn unquote(text: &str) -> Cow<'_, str> {
    let quote = &text[..1];
    let inner = text.get(1..text.len() - 1).unwrap_or_default();
    let doubled = quote.repeat(2);
    if quote != "[" && inner.contains(&doubled) {
        Cow::Owned(inner.replace(&doubled, quote))
    } else {
        Cow::Borrowed(inner)
    }
}

/// SQLite's identifier characters; every byte of a character beyond ASCII is one.
fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// Splits SQL into tokens. An unterminated quote or comment reaches to the end.
pub(super) fn tokens(sql: &str) -> Vec<Token<'_>> {
    let bytes = sql.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let find = |from: usize, what: &str| {
        sql.get(from..)
            .and_then(|rest| rest.find(what))
            .map_or(sql.len(), |i| from + i + what.len())
    };
    let mut out = Vec::new();
    let mut i = 0;
    while i < bytes.len() {
        let (kind, end) = match (at(i), at(i + 1)) {
            (b' ' | b'\t' | b'\n' | b'\r' | b'\x0c', _) => (None, i + 1),
            (b'-', b'-') => (None, find(i, "\n")),
            (b'/', b'*') => (None, find(i + 2, "*/")),
            (b'\'', _) => (Some(Kind::Text), end_of_quoted(bytes, i)),
            (b'x' | b'X', b'\'') => (Some(Kind::Text), end_of_quoted(bytes, i + 1)),
            (b'"' | b'`', _) => (Some(Kind::Quoted), end_of_quoted(bytes, i)),
            (b'[', _) => (Some(Kind::Quoted), find(i, "]")),
            (b'0'..=b'9', _) => (Some(Kind::Number), end_of_word(bytes, i)),
            (byte, _) if in_word(byte) => (Some(Kind::Word), end_of_word(bytes, i)),
            (byte, _) => (Some(Kind::Mark(byte)), i + 1),
        };
        if let (Some(kind), Some(text)) = (kind, sql.get(i..end)) {
            out.push(Token { kind, text, start: i });
        }
        i = end;
    }
    out
}

fn end_of_word(bytes: &[u8], start: usize) -> usize {
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().position(|&b| !in_word(b)).unwrap_or(rest.len())
}

/// End of the literal whose quote is at `open`; a doubled quote belongs to it.
fn end_of_quoted(bytes: &[u8], open: usize) -> usize {
    let quote = bytes.get(open);
    let mut i = open + 1;
    while i < bytes.len() {
        if bytes.get(i) == quote {
            if bytes.get(i + 1) != quote {
                return i + 1;
            }
            i += 1;
        }
        i += 1;
    }
    bytes.len()
}

/// Position of the parenthesis that ends what `tokens` begins inside of.
pub(super) fn closing(tokens: &[Token<'_>]) -> Option<usize> {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Mark(b'(') => depth += 1,
            Kind::Mark(b')') if depth == 0 => return Some(i),
            Kind::Mark(b')') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// What is inside the first parenthesis of `tokens`, and what follows it.
fn parenthesis<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<(&'t [Token<'a>], &'t [Token<'a>])> {
    let open = tokens.iter().position(|t| t.kind == Kind::Mark(b'('))?;
    let inside = tokens.get(open + 1..)?;
    let close = closing(inside)?;
    Some((inside.get(..close)?, inside.get(close + 1..)?))
}

/// Every `KEYWORD ( … )` of `tokens` that is not inside a parenthesis: the insides.
fn clauses<'t, 'a>(tokens: &'t [Token<'a>], keyword: &str) -> Vec<&'t [Token<'a>]> {
    let mut out = Vec::new();
    let mut rest = tokens;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if first.kind == Kind::Mark(b'(') {
            rest = closing(after).and_then(|close| after.get(close + 1..)).unwrap_or_default();
        } else if first.is(keyword)
            && after.first().is_some_and(|t| t.kind == Kind::Mark(b'('))
            && let Some((inside, next)) = parenthesis(after)
        {
            out.push(inside);
            rest = next;
        }
    }
    out
}

/// Splits at the commas that are not inside a parenthesis.
pub(super) fn items<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<&'t [Token<'a>]> {
    let mut depth = 0isize;
    tokens
        .split(|token| {
            match token.kind {
                Kind::Mark(b'(') => depth += 1,
                Kind::Mark(b')') => depth -= 1,
                _ => {}
            }
            depth == 0 && token.kind == Kind::Mark(b',')
        })
        .collect()
}

/// The SQL that `tokens` were cut from.
fn source<'a>(sql: &'a str, tokens: &[Token<'a>]) -> &'a str {
    match (tokens.first(), tokens.last()) {
        (Some(first), Some(last)) => {
            sql.get(first.start..last.start + last.text.len()).unwrap_or_default()
        }
        _ => "",
    }
}

/// The parts of a CREATE TABLE statement that PRAGMAs do not tell.
pub(super) struct TableSql<'a> {
    tokens: Vec<Token<'a>>,
}

impl<'a> TableSql<'a> {
    pub fn parse(sql: &'a str) -> Self {
        TableSql { tokens: tokens(sql) }
    }

    fn body(&self) -> &[Token<'a>] {
        parenthesis(&self.tokens).map_or(&[], |(inside, _)| inside)
    }

    /// The expressions of all CHECK constraints, of columns and of the table.
    pub fn checks(&self) -> Vec<&[Token<'a>]> {
        clauses(self.body(), "CHECK")
    }

    /// Whether a constraint says ON CONFLICT.
    pub fn has_conflict_clause(&self) -> bool {
        self.body().windows(2).any(|two| two[0].is("ON") && two[1].is("CONFLICT"))
    }

    /// What decides on single rows: CHECKs, and what generated columns are computed from; in one
    /// spelling, whatever their order.
    pub fn row_rules(&self, is_column: impl Fn(&str) -> bool) -> Vec<String> {
        let column = |name: &str| is_column(name).then(|| name.to_owned());
        let generated = self.generated().into_iter().flatten();
        let mut rules: Vec<String> =
            generated.map(|e| format!("as {}", spelled(e, column))).collect();
        rules.extend(self.checks().iter().map(|check| spelled(check, column)));
        rules.sort();
        rules
    }

    /// For each column in order, its expression if it is generated. The items of the body begin
    /// with the columns, so positions are those of `table_xinfo`; constraints follow.
    pub fn generated(&self) -> Vec<Option<&[Token<'a>]>> {
        items(self.body()).iter().map(|item| clauses(item, "AS").first().copied()).collect()
    }

    /// The module of a CREATE VIRTUAL TABLE statement.
    pub fn module(&self) -> Option<Cow<'a, str>> {
        let using = self.tokens.iter().position(|t| t.is("USING"))?;
        self.tokens.get(using + 1)?.name()
    }
}

/// Whether one of these CHECKs reads a column of this name, and none says which number it is.
pub(super) fn bounds(checks: &[&[Token<'_>]], column: &str) -> bool {
    let is = |token: &Token<'_>| token.name().is_some_and(|name| name.eq_ignore_ascii_case(column));
    let equal = |tokens: &[Token<'_>]| {
        let all = tokens.iter().all(|t| t.kind == Kind::Mark(b'=') || t.is("IS"));
        all && !tokens.is_empty()
    };
    let says = |tokens: &[Token<'_>]| match tokens {
        [first, between @ .., last] => {
            let number = |token: &Token<'_>| token.kind == Kind::Number;
            equal(between) && (is(first) && number(last) || number(first) && is(last))
        }
        _ => false,
    };
    let pins = |check: &[Token<'_>]| check.windows(3).chain(check.windows(4)).any(says);
    checks.iter().any(|check| check.iter().any(is)) && !checks.iter().any(|check| pins(check))
}

/// The parts of a CREATE INDEX statement that PRAGMAs do not tell.
pub(super) struct IndexSql<'a> {
    sql: &'a str,
    tokens: Vec<Token<'a>>,
}

impl<'a> IndexSql<'a> {
    pub fn parse(sql: &'a str) -> Self {
        IndexSql { sql, tokens: tokens(sql) }
    }

    /// Its terms without ASC and DESC, and without a COLLATE that does not belong to the
    /// expression: in `a || b COLLATE NOCASE` it does, as part of the operand `b`.
    pub fn terms(&self) -> Vec<(&'a str, &[Token<'a>])> {
        let body = parenthesis(&self.tokens).map_or(&[] as &[_], |(inside, _)| inside);
        items(body)
            .into_iter()
            .map(|term| {
                let term = without_collation(without_order(term));
                (source(self.sql, term), term)
            })
            .collect()
    }

    /// Its WHERE clause.
    pub fn predicate(&self) -> Option<(&'a str, &[Token<'a>])> {
        let (_, after) = parenthesis(&self.tokens)?;
        let (first, predicate) = after.split_first()?;
        first.is("WHERE").then(|| (source(self.sql, predicate), predicate))
    }
}

fn without_order<'t, 'a>(term: &'t [Token<'a>]) -> &'t [Token<'a>] {
    match term.split_last() {
        Some((last, rest)) if !rest.is_empty() && (last.is("ASC") || last.is("DESC")) => rest,
        _ => term,
    }
}

fn without_collation<'t, 'a>(term: &'t [Token<'a>]) -> &'t [Token<'a>] {
    match term {
        [operand @ .., keyword, _] if keyword.is("COLLATE") => {
            let operand = without_collation(operand);
            if is_operand(operand) { operand } else { term }
        }
        _ => term,
    }
}

/// Whether the tokens are one operand: a name, a literal, a call or something in parentheses.
fn is_operand(tokens: &[Token<'_>]) -> bool {
    match tokens {
        [one] => !matches!(one.kind, Kind::Mark(_)),
        [first, rest @ ..] if first.kind == Kind::Mark(b'(') => closes_last(rest),
        [_, dot, rest @ ..] if dot.kind == Kind::Mark(b'.') => is_operand(rest),
        [function, open, rest @ ..] if open.kind == Kind::Mark(b'(') => {
            function.name().is_some() && closes_last(rest)
        }
        _ => false,
    }
}

fn closes_last(tokens: &[Token<'_>]) -> bool {
    closing(tokens).is_some_and(|close| close + 1 == tokens.len())
}

/// Keywords of expressions that SQLite never takes for a bare column name.
const RESERVED: [&str; 19] = [
    "AND", "AS", "BETWEEN", "CASE", "COLLATE", "DISTINCT", "ELSE", "ESCAPE", "EXISTS", "FROM",
    "IN", "IS", "ISNULL", "NOT", "NOTNULL", "NULL", "OR", "THEN", "WHEN",
];

/// The names in an expression that may be columns: not functions, qualifiers, collations, types of
/// a CAST or keywords. A name too many only joins columns that could have been apart.
pub(super) fn names<'a>(expression: &[Token<'a>]) -> impl Iterator<Item = Cow<'a, str>> {
    let mut collation = false;
    let mut cast_type = false;
    expression.iter().enumerate().filter_map(move |(i, token)| {
        let skip = std::mem::replace(&mut collation, token.is("COLLATE")) | cast_type;
        let name = token.name();
        cast_type = token.is("AS") || cast_type && name.is_some();
        let next = expression.get(i + 1).map(|t| t.kind);
        let called = matches!(next, Some(Kind::Mark(b'(' | b'.')));
        let keyword = RESERVED.iter().any(|word| token.is(word));
        name.filter(|_| !skip && !called && !keyword)
    })
}

/// One spelling for texts that differ only in blanks, comments, letter case of bare words and the
/// quotes around column names.
pub(super) fn canonical(sql: &str, is_column: impl Fn(&str) -> bool) -> String {
    renamed(sql, |name| is_column(name).then(|| name.to_owned()))
}

/// The same with other names for columns.
pub(super) fn renamed(sql: &str, column: impl Fn(&str) -> Option<String>) -> String {
    spelled(&tokens(sql), column)
}

fn spelled(tokens: &[Token<'_>], column: impl Fn(&str) -> Option<String>) -> String {
    let words: Vec<String> = tokens
        .iter()
        .map(|token| match token.name().and_then(|name| column(&name)) {
            Some(name) => super::quote(&name.to_ascii_lowercase()),
            None if token.kind == Kind::Word => token.text.to_ascii_lowercase(),
            None => token.text.to_string(),
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(sql: &str) -> Vec<&str> {
        tokens(sql).iter().map(|t| t.text).collect()
    }

    fn names_in(sql: &str) -> Vec<String> {
        names(&tokens(sql)).map(Cow::into_owned).collect()
    }

    #[test]
    fn quotes_and_comments_are_told_from_code() {
        assert_eq!(
            texts("a\"b\"\"c\"[d e]`f``g`'it''s' -- x ( y\n/* ) */ X'00' 1.5 $ é-b"),
            [
                "a",
                "\"b\"\"c\"",
                "[d e]",
                "`f``g`",
                "'it''s'",
                "X'00'",
                "1",
                ".",
                "5",
                "$",
                "é",
                "-",
                "b"
            ]
        );
        assert_eq!(names_in("\"b\"\"c\" [d e] `f``g` 'h' é"), ["b\"c", "d e", "f`g", "é"]);
    }

    #[test]
    fn only_names_that_can_be_columns_are_read() {
        assert_eq!(names_in("length(a) > 0 AND t.b IS NOT NULL"), ["a", "b"]);
        assert_eq!(names_in("CAST(a AS \"text\" blob) = c COLLATE nocase"), ["a", "c"]);
        assert_eq!(names_in("a IN (1, b) OR \"c\" LIKE 'd'"), ["a", "b", "c", "LIKE"]);
        assert_eq!(names_in("\"not\" > 0 AND NOT b"), ["not", "b"]);
    }

    #[test]
    fn checks_and_generated_columns_are_found_where_they_are() {
        let sql = TableSql::parse(
            "CREATE TABLE \"t(,\"(a DECIMAL(10,2) CHECK(a > (1)) DEFAULT (CAST(1 AS int)),
             -- CHECK(x)
             b AS (a+1) STORED, \"check\" TEXT DEFAULT 'CHECK(y)',
             CONSTRAINT c CHECK(a) check (b))",
        );
        let checks: Vec<String> =
            sql.checks().iter().map(|c| c.iter().map(|t| t.text).collect()).collect();
        assert_eq!(checks, ["a>(1)", "a", "b"]);
        let generated: Vec<bool> = sql.generated().iter().map(Option::is_some).collect();
        assert_eq!(generated, [false, true, false, false]);
        let sql = TableSql::parse("CREATE VIRTUAL TABLE f USING \"fts5\"(x, y)");
        assert_eq!(sql.module().as_deref(), Some("fts5"));
    }

    #[test]
    fn terms_lose_order_and_outer_collation() {
        let sql = "CREATE UNIQUE INDEX i ON t([a b] DESC, lower(x) COLLATE \"RTRIM\" ASC, (x+1) COLLATE nocase,
             a || b COLLATE nocase, coalesce(a, b), t.a COLLATE x) -- (\n WHERE a IN (1, 2) /* end */";
        let index = IndexSql::parse(sql);
        let terms: Vec<&str> = index.terms().iter().map(|t| t.0).collect();
        assert_eq!(
            terms,
            ["[a b]", "lower(x)", "(x+1)", "a || b COLLATE nocase", "coalesce(a, b)", "t.a"]
        );
        assert_eq!(index.predicate().map(|p| p.0), Some("a IN (1, 2)"));
        assert!(IndexSql::parse("CREATE INDEX i ON t(a)").predicate().is_none());
    }

    #[test]
    fn spelling_does_not_change_the_canonical_text() {
        let column =
            |name: &str| name.eq_ignore_ascii_case("A b") || name.eq_ignore_ascii_case("c");
        let one = canonical("LOWER( [A b] ) /* x */ > 'C' AND C", column);
        assert_eq!(one, canonical("lower(\"a B\")>'C' and \"c\"", column));
        assert_ne!(one, canonical("lower(\"a B\")>'c' and \"c\"", column));
    }

    proptest! {
        #[test]
        fn any_text_splits_without_loss(sql in "[ab'\"\\[\\]`()/*\\-,.\né x]{0,40}") {
            let mut end = 0;
            for token in tokens(&sql) {
                prop_assert!(token.start >= end && !token.text.is_empty());
                prop_assert_eq!(sql.get(token.start..token.start + token.text.len()), Some(token.text));
                end = token.start + token.text.len();
                let _ = token.name();
            }
            let table = TableSql::parse(&sql);
            let _ = (table.checks(), table.generated(), table.module());
            let index = IndexSql::parse(&sql);
            let _ = (index.terms(), index.predicate());
        }
    }
}
