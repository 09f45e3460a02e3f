//! Random schemas: small tables, in each way in which their rows can stand in each other's way.

use super::blueprint::{Blueprint, Reference, TableBlueprint, Unique};
use super::rule::{Operand, Operator, Rule, Term};
use super::source::Source;
use crate::policy::Policies;
use crate::schema::{Action, Affinity, Collation, Column, TableKind};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// What a schema has much of: what goes wrong takes several things that are rare alone.
#[derive(Clone, Copy)]
enum Style {
    Any,
    /// References to each other and to themselves.
    Circle,
    /// Keys that are references.
    Keys,
    /// References of each to all before it, so that one falls with a row for several reasons.
    Below,
    /// Keys that are numbers, and indexes that read them.
    Numbers,
}

const STYLES: [Style; 6] =
    [Style::Any, Style::Any, Style::Circle, Style::Keys, Style::Below, Style::Numbers];

/// With only so many of the styles, seeds choose what they did before there were more.
#[cfg(test)]
pub(super) const FIRST_STYLES: usize = 4;

impl Blueprint {
    /// A schema of one to three tables.
    pub fn random(r: &mut Source) -> Blueprint {
        Blueprint::of_styles(r, STYLES.len())
    }

    /// The same, in one of the first `styles`.
    pub(super) fn of_styles(r: &mut Source, styles: usize) -> Blueprint {
        let style = r.pick(&STYLES[..styles]).unwrap_or(Style::Any);
        let count = match style {
            Style::Any => 1 + r.below(3),
            Style::Circle | Style::Numbers => 1 + r.below(2),
            Style::Keys => 2 + r.below(2),
            Style::Below => 3,
        };
        let mut tables: Vec<TableBlueprint> =
            NAMES[..count].iter().map(|name| table(r, style, name)).collect();
        for at in 0..tables.len() {
            match style {
                Style::Any | Style::Numbers => {}
                Style::Below => (0..at).for_each(|to| refer(r, &mut tables, (at, None), to)),
                Style::Circle => {
                    refer(r, &mut tables, (at, None), (at + 1) % count);
                    refer(r, &mut tables, (at, None), at);
                }
                Style::Keys if at > 0 => refer(r, &mut tables, (at, Some(0)), at - 1),
                Style::Keys => {}
            }
            for _ in 0..[0, 1, 1, 2][r.below(4)] {
                let parent = r.below(count);
                refer(r, &mut tables, (at, None), parent);
            }
        }
        for t in &mut tables {
            constrain(r, t);
            if matches!(style, Style::Numbers) {
                read_number(r, t);
            }
        }
        let policies = policies(r, &tables);
        Blueprint { tables, policies }
    }
}

/// A table with its columns and its primary key.
fn table(r: &mut Source, style: Style, name: &str) -> TableBlueprint {
    let strict = r.one_in(10);
    let mut columns = Vec::new();
    let (mut kind, mut primary_key) = (TableKind::Rowid, vec![]);
    let numbered = matches!(style, Style::Numbers);
    match if numbered { 0 } else { r.below(10) } {
        0..4 => {
            columns.push(column("id", "INTEGER", Affinity::Integer));
            (kind, primary_key) = (TableKind::RowidAlias(0), vec![0]);
        }
        4..7 => {
            let mut key = column("k", "TEXT", Affinity::Text);
            key.collation = r.pick(&[0, 0, 0, 1, 2]).map_or(Collation::Binary, collation);
            columns.push(key);
            primary_key = vec![0];
        }
        7 => {
            columns.push(column("k", "INT", Affinity::Integer));
            primary_key = vec![0];
        }
        8 => {
            columns.push(column("k", "INT", Affinity::Integer));
            columns.push(column("l", "TEXT", Affinity::Text));
            primary_key = vec![0, 1];
        }
        _ => {}
    }
    if !primary_key.is_empty() && kind == TableKind::Rowid && r.one_in(3) {
        kind = TableKind::WithoutRowid;
    }
    for name in ["x", "y", "z"].iter().take(1 + r.below(3)) {
        let (declared, affinity) = match r.below(10) {
            0..6 => ("INT", Affinity::Integer),
            6..8 => ("TEXT", Affinity::Text),
            8 if strict => ("ANY", Affinity::Blob),
            8 => ("", Affinity::Blob),
            _ => ("REAL", Affinity::Real),
        };
        let mut c = column(name, declared, affinity);
        if affinity == Affinity::Text && r.one_in(4) {
            c.collation = collation(1 + r.below(2));
        }
        if r.one_in(10) {
            c.not_null = true;
        }
        if r.one_in(4) {
            c.default = Some(if affinity == Affinity::Text { "'a'" } else { "1" }.to_owned());
        }
        columns.push(c);
    }
    let autoincrement = matches!(kind, TableKind::RowidAlias(_)) && r.one_in(6);
    let (uniques, checks, references) = (vec![], vec![], vec![]);
    let name = name.to_owned();
    TableBlueprint {
        name,
        columns,
        kind,
        primary_key,
        autoincrement,
        strict,
        uniques,
        checks,
        references,
    }
}

fn column(name: &str, declared_type: &str, affinity: Affinity) -> Column {
    let (name, declared_type) = (name.to_owned(), declared_type.to_owned());
    let (collation, default, not_null, group) = (Collation::Binary, None, false, 0);
    Column { name, declared_type, affinity, collation, not_null, default, group }
}

fn collation(n: usize) -> Collation {
    [Collation::Binary, Collation::NoCase, Collation::Rtrim]
        .into_iter()
        .nth(n)
        .unwrap_or(Collation::Binary)
}

/// A foreign key from a table, of its column `first` if that is given, to a parent, if there is one that
/// fits.
fn refer(
    r: &mut Source,
    tables: &mut [TableBlueprint],
    (at, first): (usize, Option<usize>),
    parent: usize,
) {
    let to = if r.one_in(4) {
        unique_key(r, &mut tables[parent])
    } else {
        tables[parent].primary_key.clone()
    };
    if to.is_empty() {
        return;
    }
    // Mostly columns of the same type; some of another, as applications have them.
    let wanted: Vec<Affinity> = to.iter().map(|&c| tables[parent].columns[c].affinity).collect();
    let t = &tables[at];
    let mut columns: Vec<usize> = Vec::new();
    for affinity in wanted {
        let any = r.below(t.columns.len());
        let start = first.unwrap_or(any);
        let loose = r.one_in(8);
        let fits = |c: &usize| {
            let own = t.columns[*c].affinity;
            let like =
                own == affinity || loose && own != Affinity::Real && affinity != Affinity::Real;
            like && !columns.contains(c) && !(t.name == tables[parent].name && to.contains(c))
        };
        let mut turn = (start..t.columns.len()).chain(0..start);
        // A strict table holds no key of another type.
        let found = turn.find(|c| fits(c) && !(loose && t.strict));
        let Some(found) = found else { return };
        columns.push(found);
    }
    let same = |one: &Reference| one.columns == columns && one.parent == tables[parent].name;
    if t.references.iter().any(same) {
        return;
    }
    let actions = [
        Action::NoAction,
        Action::Restrict,
        Action::SetNull,
        Action::SetDefault,
        Action::Cascade,
        Action::Cascade,
    ];
    let mut action = || r.pick(&actions).unwrap_or(Action::NoAction);
    let (on_delete, on_update) = (action(), action());
    let parent = tables[parent].name.clone();
    tables[at].references.push(Reference {
        columns,
        parent,
        parent_columns: to,
        on_delete,
        on_update,
    });
}

/// A column of the table that is unique from now on.
fn unique_key(r: &mut Source, t: &mut TableBlueprint) -> Vec<usize> {
    let free: Vec<usize> = (0..t.columns.len()).filter(|c| !t.primary_key.contains(c)).collect();
    let Some(c) = r.pick(&free) else { return vec![] };
    let is =
        |u: &Unique| u.predicate.is_none() && u.terms.len() == 1 && u.terms[0].0 == Term::Column(c);
    if !t.uniques.iter().any(is) {
        let terms = vec![(Term::Column(c), t.columns[c].collation.clone())];
        t.uniques.push(Unique { terms, predicate: None });
    }
    vec![c]
}

/// Unique indexes of all kinds, and CHECKs.
fn constrain(r: &mut Source, t: &mut TableBlueprint) {
    for c in 0..t.columns.len() {
        if !t.primary_key.contains(&c) && r.one_in(3) {
            let terms = vec![(Term::Column(c), t.columns[c].collation.clone())];
            let predicate = if r.one_in(4) { rule(r, t) } else { None };
            t.uniques.push(Unique { terms, predicate });
        }
    }
    if t.columns.len() > 2 && r.one_in(4) {
        let last = t.columns.len() - 1;
        let own = |c: usize| (Term::Column(c), t.columns[c].collation.clone());
        t.uniques.push(Unique { terms: vec![own(last - 1), own(last)], predicate: None });
    }
    if r.one_in(6) {
        let c = r.below(t.columns.len());
        let term = match t.columns[c].affinity {
            Affinity::Text => Some(Term::Lower(c)),
            Affinity::Integer => Some(Term::Next(c)),
            _ => None,
        };
        let terms = term.map(|term| vec![(term, Collation::Binary)]);
        t.uniques.extend(terms.map(|terms| Unique { terms, predicate: None }));
    }
    if r.one_in(4) {
        t.checks.extend(rule(r, t));
    }
}

/// A unique index that holds a row or not by its number, or holds the number with something else.
fn read_number(r: &mut Source, t: &mut TableBlueprint) {
    let c = 1 + r.below(t.columns.len() - 1);
    let own = |c: usize| (Term::Column(c), t.columns[c].collation.clone());
    let more = Rule::Compare(0, Operator::More, Operand::Number(1 + r.below(3) as i64));
    let unique = match r.below(3) {
        0 => Unique { terms: vec![own(c), own(0)], predicate: None },
        _ => Unique { terms: vec![own(c)], predicate: Some(more) },
    };
    t.uniques.push(unique);
}

/// A condition on integer columns.
fn rule(r: &mut Source, t: &TableBlueprint) -> Option<Rule> {
    let integer = |c: &usize| t.columns[*c].affinity == Affinity::Integer;
    let integers: Vec<usize> = (0..t.columns.len()).filter(integer).collect();
    let (one, other) = (r.pick(&integers)?, r.pick(&integers)?);
    Some(match r.below(5) {
        0 if one != other => Rule::Compare(one, Operator::AtMost, Operand::Column(other)),
        1 if one != other => Rule::Compare(one, Operator::Other, Operand::Column(other)),
        2 => Rule::Compare(one, Operator::Less, Operand::Number(7)),
        3 => Rule::Either(
            Box::new(Rule::Known(other)),
            Box::new(Rule::Compare(one, Operator::More, Operand::Number(1))),
        ),
        _ => Rule::Compare(one, Operator::More, Operand::Number(1)),
    })
}

fn policies(r: &mut Source, tables: &[TableBlueprint]) -> Policies {
    let mut policies = Vec::new();
    let mut set = |key: String, value: String| policies.push((key, value));
    for t in tables {
        if r.one_in(8) {
            set(format!("{}.on_unique", t.name), "unify".to_owned());
        }
        if r.one_in(8) {
            set(format!("{}.delete", t.name), "last".to_owned());
        }
        let parent = &tables[r.below(tables.len())];
        let c = r.below(t.columns.len());
        let refers = t.references.iter().any(|one| one.columns.contains(&c));
        let itself = parent.name == t.name && parent.primary_key.contains(&c);
        if parent.primary_key.len() == 1 && !refers && !itself && r.one_in(8) {
            set(format!("{}.refs", t.name), format!("{}:{}", t.columns[c].name, parent.name));
        }
    }
    if r.one_in(16) {
        set("fk".to_owned(), "ignore".to_owned());
    }
    policies.into_iter().collect()
}
