//! Expressions whose value depends on SQLite's version: those that make text of floating-point
//! numbers.
//!
//! SQLite 3.40 writes 1e22/3 as 3.33333333333333e+21, later versions with more digits. An index holds
//! what the expression was when its row was written. So where one program on the file writes a row
//! and a program with another version deletes it, the entry is not found, and the index is malformed.
//! The same goes for the last digit of what `round` and the mathematical functions give.
//!
//! Whether a number can come to where text is made of it is told by the columns: in a column of
//! affinity TEXT there is none, and in one of affinity INTEGER there can be.

use super::sql::{Kind, Token, closing, items};

/// What a column can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Whole numbers only.
    Integers,
    /// Text that may look like a number, no floating-point number.
    Text,
    /// Floating-point numbers too.
    Floats,
}

/// Functions that neither make text of a number nor compute with it inexactly; a floating-point
/// argument stays one.
const PASSING: [&str; 17] = [
    "abs",
    "ceil",
    "ceiling",
    "coalesce",
    "floor",
    "if",
    "ifnull",
    "iif",
    "likelihood",
    "likely",
    "max",
    "min",
    "nullif",
    "round",
    "sign",
    "trunc",
    "unlikely",
];

/// The same, and what they give is no floating-point number.
const EXACT: [&str; 12] = [
    "char",
    "date",
    "datetime",
    "json_array_length",
    "json_extract",
    "json_type",
    "json_valid",
    "strftime",
    "time",
    "timediff",
    "typeof",
    "unixepoch",
];

/// Whether the value of an expression depends on SQLite's version. `column` tells what a column
/// holds; other names are none.
pub(super) fn differs(expression: &[Token<'_>], column: &dyn Fn(&str) -> Option<Holds>) -> bool {
    let mut reader = Reader { column, found: false };
    reader.value(expression);
    reader.found
}

/// Whether an expression may be a floating-point number.
pub(super) fn gives(expression: &[Token<'_>], column: &dyn Fn(&str) -> Option<Holds>) -> bool {
    let mut reader = Reader { column, found: false };
    reader.value(expression).float
}

struct Reader<'f> {
    column: &'f dyn Fn(&str) -> Option<Holds>,
    found: bool,
}

/// What the value of a part of an expression may be.
#[derive(Clone, Copy, Default)]
struct May {
    float: bool,
    text: bool,
}

impl May {
    fn or(self, other: May) -> May {
        May { float: self.float | other.float, text: self.text | other.text }
    }
}

const NUMBER: May = May { float: true, text: false };
const TEXT: May = May { float: false, text: true };

/// Words between operands, which all bind looser than arithmetic and `||`.
const BETWEEN_OPERANDS: [&str; 20] = [
    "AND", "BETWEEN", "CASE", "ELSE", "END", "ESCAPE", "GLOB", "IN", "IS", "ISNULL", "LIKE",
    "MATCH", "NOT", "NOTNULL", "NULL", "OR", "REGEXP", "THEN", "WHEN", "DISTINCT",
];

impl Reader<'_> {
    /// An expression, or several between commas.
    fn value(&mut self, tokens: &[Token<'_>]) -> May {
        items(tokens).iter().fold(May::default(), |may, item| may.or(self.whole(item)))
    }

    /// One expression: operands with logical operators, comparisons and the words of CASE between
    /// them.
    fn whole(&mut self, tokens: &[Token<'_>]) -> May {
        let parts = parts(tokens);
        let may: Vec<May> = parts.iter().map(|(_, operand)| self.operand(operand)).collect();
        let follows = |i: usize, words: &[&str]| {
            parts[i].0.is_some_and(|before| words.iter().any(|word| before.is(word)))
        };
        for i in (0..parts.len()).filter(|&i| follows(i, &["LIKE", "GLOB", "REGEXP", "MATCH"])) {
            // `a NOT LIKE b` has nothing between its two words.
            let left = (0..i).rev().find(|&left| !parts[left].1.is_empty());
            self.found |= may[i].float || left.is_some_and(|left| may[left].float);
        }
        let union = |of: &dyn Fn(usize) -> bool| {
            (0..may.len()).filter(|&i| of(i)).fold(May::default(), |all, i| all.or(may[i]))
        };
        if (0..parts.len()).any(|i| follows(i, &["CASE"])) {
            let value = union(&|i| follows(i, &["THEN", "ELSE"]));
            // Text is joined with the CASE as a whole.
            let joins = |(_, operand): &(_, &[Token<'_>])| operand.windows(2).any(is_join);
            self.found |= value.float && parts.iter().any(joins);
            return value;
        }
        let compares = parts.iter().any(|(before, _)| before.is_some_and(|word| !word.is("NULL")));
        if compares { May::default() } else { union(&|_| true) }
    }

    /// Terms with arithmetic and `||` between them.
    fn operand(&mut self, tokens: &[Token<'_>]) -> May {
        let (mut may, mut joined, mut counted, mut arrows) = (May::default(), false, false, false);
        let mut i = 0;
        while let Some(token) = tokens.get(i) {
            let rest = &tokens[i + 1..];
            let (term, used) = match token.kind {
                Kind::Mark(b'(') => self.inside(rest),
                Kind::Mark(b'-') if is(rest.first(), b'>') => {
                    arrows = true;
                    (May::default(), 1)
                }
                Kind::Mark(b'|') if is(rest.first(), b'|') => {
                    joined = true;
                    (May::default(), 1)
                }
                Kind::Mark(mark) => {
                    counted |= matches!(mark, b'+' | b'-' | b'*' | b'/' | b'%');
                    (May::default(), 0)
                }
                Kind::Number => {
                    let hex = token.text.starts_with("0x") || token.text.starts_with("0X");
                    let exponent = !hex && token.text.contains(['e', 'E']);
                    let point = is(rest.first(), b'.');
                    let float = if exponent || point { NUMBER } else { May::default() };
                    (float, if point { 1 } else { 0 })
                }
                Kind::Text => (TEXT, 0),
                Kind::Word if token.is("COLLATE") => (May::default(), 1),
                Kind::Word | Kind::Quoted if is(rest.first(), b'(') => self.call(token, &rest[1..]),
                Kind::Word | Kind::Quoted if is(rest.first(), b'.') => (May::default(), 1),
                Kind::Word | Kind::Quoted => (self.named(token), 0),
            };
            may = may.or(term);
            i += 1 + used;
        }
        self.found |= joined && may.float;
        match (joined, arrows, counted) {
            (true, ..) | (_, true, _) => TEXT,
            (.., true) => May { float: may.float || may.text, text: false },
            _ => may,
        }
    }

    /// What stands before the parenthesis that closes, and how many tokens that are.
    fn inside(&mut self, tokens: &[Token<'_>]) -> (May, usize) {
        let close = closing(tokens).unwrap_or(tokens.len());
        (self.value(&tokens[..close]), close + 1)
    }

    /// A call of a function, of which `tokens` follow the parenthesis.
    fn call(&mut self, name: &Token<'_>, tokens: &[Token<'_>]) -> (May, usize) {
        let close = closing(tokens).unwrap_or(tokens.len());
        let (arguments, used) = (&tokens[..close], close + 2);
        if name.is("CAST") {
            return (self.cast(arguments), used);
        }
        let may = self.value(arguments);
        let name = name.name().unwrap_or_default().to_ascii_lowercase();
        let digits = name == "round" && items(arguments).len() > 1;
        let known = |list: &[&str]| list.contains(&name.as_str());
        let gives = if name == "julianday" {
            NUMBER
        } else if known(&EXACT) {
            TEXT
        } else if known(&PASSING) {
            self.found |= digits && may.float;
            let counts = matches!(name.as_str(), "abs" | "round" | "ceil" | "floor" | "trunc");
            if counts { May { float: may.float || may.text, text: false } } else { may }
        } else {
            self.found |= may.float;
            TEXT
        };
        (gives, used)
    }

    fn cast(&mut self, tokens: &[Token<'_>]) -> May {
        let at = tokens.iter().rposition(|t| t.is("AS")).unwrap_or(tokens.len());
        let may = self.value(&tokens[..at]);
        let kind: Vec<&str> = tokens.iter().skip(at + 1).map(|t| t.text).collect();
        match super::read::affinity(&kind.join(" "), false) {
            super::Affinity::Integer => May::default(),
            super::Affinity::Real | super::Affinity::Numeric => NUMBER,
            // A blob is made of the text.
            super::Affinity::Text | super::Affinity::Blob => {
                self.found |= may.float;
                TEXT
            }
        }
    }

    fn named(&self, token: &Token<'_>) -> May {
        let name = token.name().unwrap_or_default();
        match (self.column)(&name) {
            Some(Holds::Floats) => May { float: true, text: true },
            Some(Holds::Text) => TEXT,
            Some(Holds::Integers) => May::default(),
            None if token.kind == Kind::Quoted => TEXT,
            None => May::default(),
        }
    }
}

fn is(token: Option<&Token<'_>>, mark: u8) -> bool {
    token.is_some_and(|t| t.kind == Kind::Mark(mark))
}

fn is_join(pair: &[Token<'_>]) -> bool {
    is(pair.first(), b'|') && is(pair.last(), b'|')
}

/// The operands of an expression, each with the word or sign before it.
fn parts<'t, 'a>(tokens: &'t [Token<'a>]) -> Vec<(Option<&'t Token<'a>>, &'t [Token<'a>])> {
    let (mut parts, mut start, mut before, mut depth) = (vec![], 0, None, 0usize);
    let arrow = |i: usize| is(tokens.get(i), b'-') && is(tokens.get(i + 1), b'>');
    for (i, token) in tokens.iter().enumerate() {
        let separates = match token.kind {
            Kind::Mark(b'(') => {
                depth += 1;
                false
            }
            Kind::Mark(b')') => {
                depth = depth.saturating_sub(1);
                false
            }
            _ if depth > 0 => false,
            // `->` and `->>` are no comparisons.
            Kind::Mark(b'>') if i > 0 && (arrow(i - 1) || i > 1 && arrow(i - 2)) => false,
            Kind::Mark(b'=' | b'<' | b'>' | b'!') => !shifts(tokens, i),
            Kind::Word => BETWEEN_OPERANDS.iter().any(|word| token.is(word)),
            _ => false,
        };
        if separates {
            parts.push((before, &tokens[start..i]));
            (start, before) = (i + 1, Some(token));
        }
    }
    parts.push((before, &tokens[start..]));
    parts
}

/// Whether `<` or `>` at `i` is half of `<<` or `>>`.
fn shifts(tokens: &[Token<'_>], i: usize) -> bool {
    let same = |j: Option<usize>| {
        let other = j.and_then(|j| tokens.get(j));
        let kind = tokens[i].kind;
        matches!(kind, Kind::Mark(b'<' | b'>'))
            && other.is_some_and(|t| t.kind == kind && t.start.abs_diff(tokens[i].start) == 1)
    };
    same(i.checked_sub(1)) || same(i.checked_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::sql::tokens;

    fn column(name: &str) -> Option<Holds> {
        match name {
            "r" | "n" => Some(Holds::Floats),
            "t" => Some(Holds::Text),
            "i" => Some(Holds::Integers),
            _ => None,
        }
    }

    #[test]
    fn text_of_a_float_is_found() {
        for sql in [
            "lower(r)",
            "r || 'x'",
            "i + r||''",
            "CAST(r AS TEXT)",
            "cast(n as varchar(10))",
            "CAST(r AS BLOB)",
            "printf('%s', r)",
            "substr(coalesce(t, r), 1, 2)",
            "length(-r)",
            "hex(r)",
            "quote(\"r\")",
            "r LIKE '1%'",
            "t = 'x' AND x.r GLOB '*e*'",
            "r NOT LIKE '1%'",
            "round(r, 2)",
            "lower(t + 1)",
            "lower(i * 1.5)",
            "lower(CAST(t AS REAL))",
            "upper(CASE WHEN i THEN r ELSE '' END)",
            "CASE t WHEN 'a' THEN r END || 'x'",
            "'x' || CASE WHEN r > 1 THEN 1.5 END",
            "lower(julianday(t))",
            "lower((((n))))",
            "replace(t, 'a', 1e3)",
            "sqrt(r)",
        ] {
            assert!(differs(&tokens(sql), &column), "{sql}");
        }
    }

    #[test]
    fn other_expressions_are_the_same_everywhere() {
        for sql in [
            "lower(t)",
            "t || i",
            "r + 1",
            "abs(r)",
            "r > 1 AND t LIKE 'a%'",
            "CAST(r AS INTEGER)",
            "lower(typeof(r))",
            "substr(date(r), 1, 7)",
            "coalesce(r, 0)",
            "lower(CASE WHEN r > 0 THEN t ELSE 'b' END)",
            "length(CAST(r AS INTEGER) % 10)",
            "CASE WHEN r BETWEEN 1 AND 2 THEN 'a' ELSE t END || t",
            "json_extract(n, '$.a')",
            "n ->> '$.a'",
            "lower(n ->> '$.a')",
            "r IS NOT NULL",
            "round(r)",
            "printf('%05d', i)",
            "lower(t COLLATE NOCASE)",
            "i << 2 || t",
            "r BETWEEN 1 AND 2",
        ] {
            assert!(!differs(&tokens(sql), &column), "{sql}");
        }
    }
}
