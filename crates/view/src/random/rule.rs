//! Conditions and expressions of random schemas, as values that can be computed and as SQL.
//!
//! They compare what SQLite compares by storage class alone: columns of one affinity with each other, or
//! with integers.

use std::cmp::Ordering;
use synqlite_wire::Value;

/// What a CHECK or the WHERE clause of an index says.
#[derive(Clone, Debug)]
pub enum Rule {
    /// A column compares so.
    Compare(usize, Operator, Operand),
    /// A column is not NULL.
    Known(usize),
    /// One of two.
    Either(Box<Rule>, Box<Rule>),
}

/// How it compares.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Operator {
    Less,
    AtMost,
    More,
    Other,
}

/// With what.
#[derive(Clone, Copy, Debug)]
pub enum Operand {
    /// Another column.
    Column(usize),
    /// A number.
    Number(i64),
}

/// What an index is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// A column.
    Column(usize),
    /// `lower` of a column of texts.
    Lower(usize),
    /// The number after an integer column.
    Next(usize),
}

impl Rule {
    /// Whether it holds of a row; `None` as in SQL.
    pub fn holds(&self, row: &[Value]) -> Option<bool> {
        match self {
            Rule::Compare(c, operator, operand) => {
                let number;
                let other = match operand {
                    Operand::Column(other) => row.get(*other)?,
                    Operand::Number(n) => {
                        number = Value::Integer(*n);
                        &number
                    }
                };
                let order = compare(row.get(*c)?, other)?;
                Some(match operator {
                    Operator::Less => order == Ordering::Less,
                    Operator::AtMost => order != Ordering::Greater,
                    Operator::More => order == Ordering::Greater,
                    Operator::Other => order != Ordering::Equal,
                })
            }
            Rule::Known(c) => Some(!row.get(*c)?.is_null()),
            Rule::Either(one, other) => match (one.holds(row), other.holds(row)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
        }
    }

    /// The columns that it reads, ascending.
    pub fn columns(&self) -> Vec<usize> {
        let mut found = match self {
            Rule::Compare(c, _, Operand::Column(other)) => vec![*c, *other],
            Rule::Compare(c, ..) | Rule::Known(c) => vec![*c],
            Rule::Either(one, other) => [one.columns(), other.columns()].concat(),
        };
        found.sort_unstable();
        found.dedup();
        found
    }

    /// As SQL, with these names of columns.
    pub fn sql(&self, names: &[&str]) -> String {
        match self {
            Rule::Compare(c, operator, operand) => {
                let operator = match operator {
                    Operator::Less => "<",
                    Operator::AtMost => "<=",
                    Operator::More => ">",
                    Operator::Other => "<>",
                };
                let operand = match operand {
                    Operand::Column(other) => names[*other].to_owned(),
                    Operand::Number(n) => n.to_string(),
                };
                format!("{} {operator} {operand}", names[*c])
            }
            Rule::Known(c) => format!("{} IS NOT NULL", names[*c]),
            Rule::Either(one, other) => format!("{} OR {}", one.sql(names), other.sql(names)),
        }
    }
}

impl Term {
    /// The column that it reads.
    pub fn column(&self) -> usize {
        match self {
            Term::Column(c) | Term::Lower(c) | Term::Next(c) => *c,
        }
    }

    /// What it is of a row.
    pub fn of(&self, row: &[Value]) -> Value {
        match (self, &row[self.column()]) {
            (Term::Lower(_), Value::Text(text)) => Value::Text(text.to_ascii_lowercase()),
            (Term::Next(_), Value::Integer(i)) => Value::Integer(i + 1),
            // A text that begins with no number counts as 0.
            (Term::Next(_), Value::Text(_)) => Value::Integer(1),
            (_, value) => value.clone(),
        }
    }

    /// As SQL.
    pub fn sql(&self, names: &[&str]) -> String {
        match self {
            Term::Column(c) => names[*c].to_owned(),
            Term::Lower(c) => format!("lower({})", names[*c]),
            Term::Next(c) => format!("{} + 1", names[*c]),
        }
    }
}

/// How values of one affinity compare; `None` if one is NULL.
fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    let class = |v: &Value| match v {
        Value::Null => None,
        Value::Integer(_) | Value::Real(_) => Some(0),
        Value::Text(_) => Some(1),
        Value::Blob(_) => Some(2),
    };
    let (one, other) = (class(a)?, class(b)?);
    Some(match (a, b) {
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) | (Value::Blob(a), Value::Blob(b)) => a.cmp(b),
        _ => one.cmp(&other),
    })
}
