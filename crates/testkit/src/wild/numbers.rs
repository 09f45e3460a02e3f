//! Rows by what they are, where each site has numbers of its own for them (R-OWN).
//!
//! Such sites agree on rows and differ in numbers. So a number is left out where rows are compared, and a
//! reference by number counts as what it leads to. This asks the databases alone, not the engine.

use super::marks;
use super::oracle::one;
use super::play::{Played, Player, engine, fault};
use super::schema::{Role, Rule, Schema, Table, quote};
use super::{Action, How, Step, site_name};
use std::collections::BTreeMap;
use synqlite_core::Policies;

/// What the numbers of a site are.
pub struct Numbers<'a> {
    schema: &'a Schema,
    policies: Policies,
}

/// What a column is, where rows are compared.
enum Meaning<'a> {
    /// A value.
    Value,
    /// A number of this site alone.
    Number,
    /// A row of a table whose rows have such numbers.
    Row(&'a Table),
}

impl<'a> Numbers<'a> {
    /// Under these policies.
    pub fn new(schema: &'a Schema, policies: Policies) -> Numbers<'a> {
        Numbers { schema, policies }
    }

    /// Whether each site numbers the rows of the table for itself.
    fn is_own(&self, t: &Table) -> bool {
        t.numbers_rows() && self.policies.of_table(&t.name, "ids") == Some("local")
    }

    fn meaning(&self, t: &Table, id: &str) -> Meaning<'a> {
        self.meaning_of(t, id, self.schema.len())
    }

    /// The same, by chains of references that are so long at most.
    fn meaning_of(&self, t: &Table, id: &str, most: usize) -> Meaning<'a> {
        if self.is_own(t) && t.key.iter().any(|key| key == id) {
            return Meaning::Number;
        }
        // What a reference to a column means, if that is no value.
        let follows = |parent: &'a Table, to: &str| match self.is_own(parent) && parent.key == [to]
        {
            true => Some(Meaning::Row(parent)),
            false if most == 0 => None,
            false => Some(self.meaning_of(parent, to, most - 1))
                .filter(|meaning| !matches!(meaning, Meaning::Value)),
        };
        let declared = t.rules.iter().find_map(|rule| match rule {
            Rule::Foreign(f) => {
                let at = f.columns.iter().position(|c| c == id)?;
                follows(self.schema.get(&f.parent)?, &f.targets[at])
            }
            _ => None,
        });
        let by_policy = || {
            let refs = self.policies.of_table(&t.name, "refs")?;
            let mut refs = refs.split(',').filter_map(|pair| pair.split_once(':'));
            let name = &t.column(id)?.name;
            let (_, parent) = refs.find(|(column, _)| column.trim().eq_ignore_ascii_case(name))?;
            let named = |p: &&Table| p.name.eq_ignore_ascii_case(parent.trim());
            let parent = self.schema.values().find(named)?;
            follows(parent, parent.key.first()?)
        };
        match (declared, by_policy()) {
            (Some(meaning), _) if self.policies.enforces_foreign_keys() => meaning,
            // What means nobody stays as it is where it was written, and a row may get that number there.
            (Some(_), _) | (_, Some(_)) => Meaning::Number,
            (None, None) => Meaning::Value,
        }
    }

    /// Whether some reference may mean nobody, and yet show a number that a row has.
    pub fn may_mislead(&self) -> bool {
        let loose = |t: &Table| {
            let mut others = t.columns.iter().filter(|c| !t.key.contains(&c.id));
            others.any(|c| matches!(self.meaning(t, &c.id), Meaning::Number))
        };
        self.schema.values().any(loose)
    }

    /// Whether the column of this name holds what is the same on all sites.
    pub fn is_shared(&self, table: &str, column: &str) -> bool {
        let t = self.schema.values().find(|t| t.name == table);
        let id = |t: &Table| t.columns.iter().find(|c| c.name == column).map(|c| c.id.clone());
        let meaning = t.and_then(|t| Some(self.meaning(t, &id(t)?)));
        meaning.is_none_or(|meaning| matches!(meaning, Meaning::Value))
    }

    /// Whether the table's rows go by what is the same on all sites.
    pub fn names_rows(&self, table: &str) -> bool {
        let t = self.schema.values().find(|t| t.name == table);
        t.is_none_or(|t| t.key.iter().all(|id| matches!(self.meaning(t, id), Meaning::Value)))
    }

    /// SQL of a row as one text; the table is called `t`.
    pub fn text(&self, t: &Table) -> String {
        let of = |c: &super::schema::Column| {
            let column = format!("t.{}", quote(&c.name));
            match self.meaning(t, &c.id) {
                Meaning::Value => one(&column),
                Meaning::Number => "'#'".to_owned(),
                // A number that is no row's means nobody (R-OWN).
                Meaning::Row(parent) => {
                    let words = parent.columns.iter().filter(|c| c.role == Role::Token);
                    let words = words.map(|c| one(&format!("p.{}", quote(&c.name))));
                    let words: Vec<_> =
                        ["'the row of '".to_owned()].into_iter().chain(words).collect();
                    let row = format!(
                        "coalesce((SELECT {} FROM {} AS p WHERE p.{} = {column}), 'NULL')",
                        words.join("||"),
                        quote(&parent.name),
                        parent.list(&parent.key)
                    );
                    match half(t, &c.id) {
                        Some(half) => {
                            format!("CASE WHEN {half} THEN {} ELSE {row} END", one(&column))
                        }
                        None => row,
                    }
                }
            }
        };
        t.columns.iter().map(of).collect::<Vec<_>>().join("||', '||")
    }
}

/// SQL of whether each reference that a column belongs to lacks another column, and so is none (R-OWN). `None`: one
/// of them is of that column alone.
fn half(t: &Table, id: &str) -> Option<String> {
    let mut keys = Vec::new();
    for rule in &t.rules {
        if let Rule::Foreign(f) = rule
            && f.columns.iter().any(|c| c == id)
        {
            let others = f.columns.iter().filter(|c| *c != id).filter_map(|c| t.column(c));
            let nulls: Vec<_> = others.map(|c| format!("t.{} IS NULL", quote(&c.name))).collect();
            keys.push(format!("({})", nulls.join(" OR ")));
        }
    }
    (!keys.is_empty() && keys.iter().all(|key| key != "()")).then(|| keys.join(" AND "))
}

/// The numbers that rows have at a site: table and mark, number. Of marks that two rows show there is none.
pub type Known = BTreeMap<(usize, String), String>;

/// The numbers that the rows of a site have for it alone.
pub fn known(player: &mut Player<'_>, n: usize) -> Played<Known> {
    let said = player.with(n, |replica| Ok((replica.policies()?, replica.idle_policies()?)))?;
    let (policies, idle) = said.map_err(|e: synqlite_core::Error| engine("policies")(e.into()))?;
    let site = &player.sites[n];
    let numbers = Numbers::new(&site.schema, policies);
    let is_idle = |t: &Table| {
        idle.iter().any(|(key, _)| *key.to_lowercase() == format!("{}.ids", t.name).to_lowercase())
    };
    let own = site.schema.iter().filter(|(_, t)| numbers.is_own(t) && !is_idle(t));
    let ask = own.filter_map(|(no, t)| {
        let (mark, key) = (quote(&t.token()?.name), t.list(&t.key));
        Some((
            *no,
            format!(
                "SELECT {mark}||' '||{key} FROM {} GROUP BY {mark} HAVING count(*) = 1",
                quote(&t.name)
            ),
        ))
    });
    let mut known = Known::new();
    for (no, sql) in ask.collect::<Vec<_>>() {
        for row in player.texts(n, &sql)? {
            if let Some((mark, number)) =
                row.split_once(' ').filter(|(mark, _)| marks::is_mark(mark))
            {
                known.insert((no, mark.to_owned()), number.to_owned());
            }
        }
    }
    Ok(known)
}

/// No command changes a number that a site has shown. Of what no trigger noted it is not known which row it
/// was done to; and what a copy of a file had not folded yet both insert, under one mark.
pub fn stay(player: &mut Player<'_>, n: usize, before: &Known) -> Played {
    let copies = |step: &Step| matches!(step.action, Action::Clone(_, How::Copy) | Action::Restore);
    if !player.marks.all_noted() || player.history.steps.iter().any(copies) {
        return Ok(());
    }
    let after = known(player, n)?;
    let changed = before.iter().find_map(|(row, was)| {
        let is = after.get(row).filter(|is| *is != was)?;
        Some(format!("{}: {} {was} is {is} now", site_name(n), row.1))
    });
    changed.map_or(Ok(()), |what| fault("number changed", what))
}
