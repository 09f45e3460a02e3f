//! Schema changes as applications make them: by ALTER, by CREATE and DROP, by rebuilding a table.
//!
//! A migration is a fixed script, the same on every site. What could make it fail on the rows of one
//! site, it repairs first, as a migration that is written with care does.

use super::rebuild::{self, Tool};
use super::regions::{Region, Regions};
use super::schema::{
    Column, Foreign, Index, Role, Rule, Schema, Table, Trigger, quote, referenced,
};
use super::tables::{actions, plain, table, target, unique_index};
use super::values::Pool;
use crate::random::Random;
use std::collections::BTreeSet;

/// A schema change.
#[derive(Clone, Debug)]
pub struct Migration {
    /// What it does, for people.
    pub name: String,
    /// Its statements. One that begins with `@` is for the player: see [`rebuild`].
    pub script: Vec<String>,
    /// The tables that are another way after it, by number.
    pub after: Vec<(usize, Option<Table>)>,
    /// Migrations that must have run before it.
    pub needs: Vec<usize>,
}

/// A schema with the migrations that lead away from it.
pub struct Path {
    /// Where it is.
    pub schema: Schema,
    /// How it got there.
    pub migrations: Vec<Migration>,
    /// Tables that each migration concerns.
    concerns: Vec<BTreeSet<usize>>,
    /// Names that tables had before, with their numbers.
    former: Vec<(String, usize)>,
    next: usize,
    /// The table that is rebuilt again and again, if any is.
    pub often: Option<usize>,
    /// Whether that is done by hand each time.
    pub by_hand: bool,
}

struct Change {
    name: String,
    script: Vec<String>,
    /// The table, as it is then.
    no: usize,
    after: Option<Table>,
    /// Whether other tables notice.
    wide: bool,
}

impl Path {
    /// A path that begins at a schema.
    pub fn new(schema: Schema) -> Path {
        let next = schema.len();
        Path {
            schema,
            migrations: vec![],
            concerns: vec![],
            former: vec![],
            next,
            often: None,
            by_hand: false,
        }
    }

    /// Adds a migration, if one can be drawn.
    pub fn step(&mut self, r: &mut Random, regions: &Regions) {
        let drawn = (0..20).find_map(|_| self.draw(r, regions));
        let Some(Change { name, mut script, no, after, wide }) = drawn else { return };
        // What a trigger names cannot be dropped.
        let drop = |t: &Trigger| format!("DROP TRIGGER IF EXISTS {}", quote(&t.name));
        let triggers = self.schema.values().flat_map(|t| &t.triggers);
        script.splice(0..0, triggers.map(drop).collect::<Vec<_>>());
        let mut concerned = BTreeSet::from([no]);
        let parents = |t: &Table| {
            let parent = |rule: &Rule| match rule {
                Rule::Foreign(foreign) => Some(foreign.parent),
                _ => None,
            };
            t.rules.iter().filter_map(parent).collect::<Vec<_>>()
        };
        concerned.extend(after.iter().flat_map(parents));
        if wide {
            concerned.extend(self.schema.keys().copied());
        }
        let in_order = !regions.has(Region::Order);
        let before = self.concerns.iter().enumerate();
        let needs = before.filter(|(_, other)| in_order || !other.is_disjoint(&concerned));
        let needs = needs.map(|(at, _)| at).collect();
        let before = match &after {
            Some(table) => self.schema.insert(no, table.clone()),
            None => self.schema.remove(&no),
        };
        // A table under the name of a dropped one has its columns, by their first names; only a command
        // knows those of columns that were renamed.
        let known = |t: &Table| t.former.is_empty();
        let renamed =
            before.filter(|t| after.as_ref().map_or(known(t), |after| after.name != t.name));
        self.former.extend(renamed.map(|t| (t.name, no)));
        self.next = self.next.max(no + 1);
        self.concerns.push(concerned);
        self.migrations.push(Migration { name, script, after: vec![(no, after)], needs });
    }

    fn draw(&self, r: &mut Random, regions: &Regions) -> Option<Change> {
        let (alter, build) = (regions.has(Region::Alter), regions.has(Region::Rebuild));
        let dropped = self.former.iter().any(|(_, no)| !self.schema.contains_key(no));
        if alter && r.one_in(if dropped { 3 } else { 10 }) {
            return self.new_table(r, regions);
        }
        let numbers: Vec<usize> = self.schema.keys().copied().collect();
        let no = *numbers.get(r.index(numbers.len().max(1)))?;
        if let Some(often) = self.often.filter(|no| self.schema.contains_key(no))
            && !r.one_in(4)
        {
            return self.rebuild(r, regions, often);
        }
        let rebuilds = build && (!alter || r.one_in(2));
        if rebuilds {
            return self.rebuild(r, regions, no);
        }
        if !alter {
            return None;
        }
        match r.below(9) {
            0 | 1 => self.add_column(r, no),
            2 => self.rename_column(r, no),
            3 => self.drop_column(r, no),
            4 => self.add_unique(r, regions, no),
            5 => self.add_index(r, no),
            6 => self.drop_index(r, no),
            7 if r.one_in(3) => self.same_index(no),
            7 => self.drop_table(no),
            _ if r.one_in(3) => self.remake_table(no),
            _ => self.rename_table(r, no),
        }
    }

    fn change(&self, no: usize, name: &str, script: Vec<String>, after: Table) -> Option<Change> {
        let name = format!("{name} of {}", after.name);
        Some(Change { name, script, no, after: Some(after), wide: false })
    }

    fn new_table(&self, r: &mut Random, regions: &Regions) -> Option<Change> {
        let no = self.next;
        let mut t = table(r, regions, &self.schema, no);
        // Parents by position become parents by number.
        let numbers: Vec<usize> = self.schema.keys().copied().collect();
        for rule in &mut t.rules {
            if let Rule::Foreign(foreign) = rule
                && foreign.parent != no
            {
                foreign.parent = *numbers.get(foreign.parent)?;
            }
        }
        // What is made under the name of a dropped table is the same table.
        let again = if r.one_in(2) { self.free(r, self.former.iter()) } else { None };
        // Another table must have left that name before.
        let wide = again.is_some();
        t.name = again.unwrap_or(t.name);
        let mut script = vec![t.create(&self.schema, &t.name)];
        script.extend(t.indexes.iter().map(|index| t.create_index(index)));
        let change = self.change(no, "creation", script, t)?;
        Some(Change { wide, ..change })
    }

    /// One of the names that no table has now.
    fn free<'a>(
        &self,
        r: &mut Random,
        names: impl Iterator<Item = &'a (String, usize)>,
    ) -> Option<String> {
        let names = names.map(|(name, _)| name).filter(|name| self.unused(name));
        let names: Vec<&String> = names.collect();
        names.get(r.index(names.len().max(1))).copied().cloned()
    }

    fn unused(&self, name: &str) -> bool {
        self.schema.values().all(|t| t.name != name)
    }

    fn drop_table(&self, no: usize) -> Option<Change> {
        if referenced(&self.schema, no, None) || self.schema.len() < 2 {
            return None;
        }
        let table = &self.schema[&no].name;
        let script = vec![format!("DROP TABLE {}", quote(table))];
        Some(Change { name: format!("drop of {table}"), script, no, after: None, wide: true })
    }

    /// A table that is dropped and made again, without its rows.
    fn remake_table(&self, no: usize) -> Option<Change> {
        if referenced(&self.schema, no, None) {
            return None;
        }
        let t = self.schema[&no].clone();
        let mut script = vec![format!("DROP TABLE {}", quote(&t.name))];
        script.push(t.create(&self.schema, &t.name));
        script.extend(t.indexes.iter().map(|index| t.create_index(index)));
        self.change(no, "dropped and made again", script, t)
    }

    fn rename_table(&self, r: &mut Random, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        let name = if r.one_in(3) { self.free(r, self.former.iter()) } else { None };
        let name = name.or_else(|| {
            let drawn = r.below(100);
            let mut names = (drawn..).map(|number| format!("t{no}n{number}"));
            names.find(|name| self.unused(name))
        })?;
        let old = std::mem::replace(&mut t.name, name);
        let script = vec![format!("ALTER TABLE {} RENAME TO {}", quote(&old), quote(&t.name))];
        let change = self.change(no, "rename", script, t)?;
        Some(Change { wide: true, ..change })
    }

    fn add_column(&self, r: &mut Random, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        let id = format!("c{}", self.migrations.len());
        let mut c =
            plain(&id, ["", "TEXT", "INTEGER", "REAL"][r.index(4)], Role::Plain, Pool::Spelled);
        // What is made under the name of a dropped column is the same column.
        if r.one_in(3) {
            let again = r.one_in(2);
            if let Some(name) = t.free(r, |of| t.column(of).is_none() == again) {
                // But a rebuild may have copied that one, which is that column to whoever sees only the end.
                let copied = t.was_copied(&name);
                (c.name, t.reused) = (name, t.reused || !again || copied);
            }
        }
        match r.below(6) {
            0 => c.default = Some("2.5".to_owned()),
            1 => (c.default, c.not_null) = (Some("'d'".to_owned()), true),
            2 => (c.default, c.role, c.ty) = (Some("7".to_owned()), Role::Number, "INTEGER"),
            3 => (c.generated, c.role) = (Some("{w}".to_owned()), Role::Generated),
            4 => (c.role, c.ty) = (Role::Rival, "TEXT"),
            _ => {}
        }
        if t.tail.contains("STRICT") {
            // Defaults of another type are refused, or break the table.
            c.ty = "";
        }
        let script = format!("ALTER TABLE {} ADD COLUMN {}", quote(&t.name), {
            t.columns.push(c.clone());
            t.define(&c)
        });
        self.change(no, "new column", vec![script], t)
    }

    fn rename_column(&self, r: &mut Random, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        let at = r.index(t.columns.len());
        let again = if r.one_in(3) { t.free(r, |_| true) } else { None };
        t.reused |= again.is_some();
        let c = &mut t.columns[at];
        let wide = referenced(&self.schema, no, Some(&c.id));
        let name = again.unwrap_or_else(|| format!("{}x{}", c.id, self.migrations.len()));
        let old = std::mem::replace(&mut c.name, name);
        let (from, to) = (quote(&old), quote(&c.name));
        let mut script =
            vec![format!("ALTER TABLE {} RENAME COLUMN {from} TO {to}", quote(&t.name))];
        t.former.push((old, c.id.clone()));
        if r.one_in(3) {
            script.extend(self.define_again(r, &mut t));
        }
        let change = self.change(no, "renamed column", script, t)?;
        Some(Change { wide, ..change })
    }

    /// A new column under a name that another had.
    fn define_again(&self, r: &mut Random, t: &mut Table) -> Option<String> {
        let name = t.free(r, |of| t.column(of).is_some())?;
        let mut c = plain(&format!("c{}", self.migrations.len()), "", Role::Plain, Pool::Spelled);
        (c.name, t.reused) = (name, true);
        let defined = t.define(&c);
        t.columns.push(c);
        Some(format!("ALTER TABLE {} ADD COLUMN {defined}", quote(&t.name)))
    }

    fn drop_column(&self, r: &mut Random, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        let at = r.index(t.columns.len());
        let id = t.columns[at].id.clone();
        let used = t.depends_on(&id) || referenced(&self.schema, no, Some(&id));
        if used || t.columns[at].role == Role::Token {
            return None;
        }
        let column = t.columns.remove(at);
        t.former.push((column.name.clone(), id));
        let mut script =
            vec![format!("ALTER TABLE {} DROP COLUMN {}", quote(&t.name), quote(&column.name))];
        // SQLite adds no column that is generated and stored.
        if r.one_in(3) && !column.stored {
            script.push(format!("ALTER TABLE {} ADD COLUMN {}", quote(&t.name), t.define(&column)));
            let default = column.not_null && column.default.is_none();
            t.columns.push(column);
            let change = self.change(no, "column dropped and added again", script, t)?;
            return (!default).then_some(change);
        }
        let heir = t.columns.iter_mut().find(|c| c.role == Role::Plain && r.one_in(3));
        let wide = heir.as_ref().is_some_and(|c| referenced(&self.schema, no, Some(&c.id)));
        if let Some(c) = heir {
            let old = std::mem::replace(&mut c.name, column.name);
            let (from, to) = (quote(&old), quote(&c.name));
            script.push(format!("ALTER TABLE {} RENAME COLUMN {from} TO {to}", quote(&t.name)));
            t.former.push((old, c.id.clone()));
            t.reused = true;
        }
        let change = self.change(no, "dropped column", script, t)?;
        Some(Change { wide, ..change })
    }

    /// A unique index on a column that may be NULL, which it becomes where it is there twice.
    fn add_unique(&self, r: &mut Random, regions: &Regions, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        let free = |id: &str| !referenced(&self.schema, no, Some(id));
        let roles = [Role::Rival, Role::Number, Role::Plain, Role::Reference];
        let fit =
            t.columns.iter().filter(|c| !c.not_null && free(&c.id) && roles.contains(&c.role));
        let ids: Vec<String> = fit.map(|c| c.id.clone()).collect();
        let id = ids.get(r.index(ids.len().max(1)))?;
        let mut index = unique_index(r, regions, &t, id);
        index.name = format!("i{}", self.migrations.len());
        let script = vec![distinct(&t, id, &index.on[0]), t.create_index(&index)];
        t.indexes.push(index);
        self.change(no, "unique index", script, t)
    }

    fn add_index(&self, r: &mut Random, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        let at = r.index(t.columns.len());
        // An index of what may be the text of a floating-point number keeps its table out.
        if t.columns[at].generated.is_some() && t.token().is_some_and(|w| w.ty.is_empty()) {
            return None;
        }
        let id = t.columns[at].id.clone();
        let index = Index {
            name: format!("i{}", self.migrations.len()),
            unique: false,
            on: vec![format!("{{{id}}}")],
            reads: vec![id],
            filter: None,
        };
        let script = vec![t.create_index(&index)];
        t.indexes.push(index);
        self.change(no, "index", script, t)
    }

    fn drop_index(&self, r: &mut Random, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        if t.indexes.is_empty() {
            return None;
        }
        let at = r.index(t.indexes.len());
        let index = t.indexes.remove(at);
        self.change(no, "dropped index", vec![format!("DROP INDEX {}", quote(&index.name))], t)
    }

    /// A second index that says what a constraint or an index says.
    fn same_index(&self, no: usize) -> Option<Change> {
        let mut t = self.schema[&no].clone();
        let name = format!("i{}", self.migrations.len());
        let index = match t.indexes.iter().find(|index| index.unique) {
            Some(index) => Index { name, ..index.clone() },
            None => {
                let columns = t.rules.iter().find_map(|rule| match rule {
                    Rule::Unique { columns, .. } => Some(columns.clone()),
                    _ => None,
                })?;
                let on = columns.iter().map(|id| format!("{{{id}}}")).collect();
                Index { name, unique: true, on, reads: columns, filter: None }
            }
        };
        let script = vec![t.create_index(&index)];
        t.indexes.push(index);
        self.change(no, "same index", script, t)
    }

    /// A rebuild with some changes in it.
    fn rebuild(&self, r: &mut Random, regions: &Regions, no: usize) -> Option<Change> {
        let old = &self.schema[&no];
        let mut t = old.clone();
        let (mut said, mut script) = (Vec::new(), Vec::new());
        let often = self.often == Some(no);
        for _ in 0..if often { r.index(3) } else { 1 + r.index(2) } {
            said.extend(self.redefine(r, regions, no, &mut t, &mut script));
        }
        let mut tool =
            if often && (self.by_hand || !r.one_in(4)) { Tool::Hand } else { Tool::draw(r) };
        // Triggers that are made again as they were name rowids.
        if tool == Tool::Hand && t.has_rowid() != old.has_rowid() {
            tool = Tool::Utils;
        }
        script.extend(rebuild::script(tool, &self.schema, no, old, &t));
        let name = format!("rebuild by {tool:?} ({})", said.join(", "));
        let change = self.change(no, &name, script, t)?;
        // A key may go that only tables refer to which must have been changed before.
        Some(Change { wide: said.contains(&"constraint removed"), ..change })
    }

    /// `first`: what makes the rows fit before.
    fn redefine(
        &self,
        r: &mut Random,
        regions: &Regions,
        no: usize,
        t: &mut Table,
        first: &mut Vec<String>,
    ) -> Option<&'static str> {
        let free = |id: &str| !referenced(&self.schema, no, Some(id));
        let retypes = if regions.has(Region::Retype) { 4 } else { 0 };
        match r.below(12 + retypes) {
            0 | 1 => {
                r.shuffle(&mut t.rules);
                r.shuffle(&mut t.indexes);
                Some("reordered")
            }
            2 => {
                let at = t.columns.iter().position(|c| {
                    let plain = matches!(c.role, Role::Number | Role::Plain);
                    !c.not_null && plain && free(&c.id) && !t.unique_on(&c.id)
                })?;
                let c = &mut t.columns[at];
                c.not_null = true;
                // What a strict table takes for a BLOB is one.
                let one = if c.ty == "BLOB" { "x'31'" } else { "1" };
                c.default.get_or_insert_with(|| one.to_owned());
                Some("NOT NULL added")
            }
            3 => {
                let removable = |c: &&mut Column| c.not_null && c.role != Role::Key;
                t.columns.iter_mut().find(removable)?.not_null = false;
                Some("NOT NULL removed")
            }
            4 => {
                let aim = |id: &String| {
                    let aims = |f: &Foreign| f.parent == no && f.targets.contains(id);
                    t.rules.iter().any(|rule| matches!(rule, Rule::Foreign(f) if aims(f)))
                };
                let at = t.rules.iter().position(|rule| match rule {
                    Rule::Check(_) => true,
                    Rule::Unique { columns, .. } => columns.iter().all(|id| free(id) && !aim(id)),
                    Rule::Foreign(_) => true,
                })?;
                t.rules.remove(at);
                Some("constraint removed")
            }
            5 => {
                let known = |c: &&Column| self.schema[&no].column(&c.id).is_some();
                let c = t.columns.iter().filter(known).find(|c| c.role == Role::Number)?;
                // A number that refers to something may be a text.
                let (table, name) = (quote(&t.name), quote(&c.name));
                let fit = if c.not_null { "1" } else { "NULL" };
                first.push(format!("UPDATE {table} SET {name} = {fit} WHERE NOT ({name} < 100)"));
                t.rules.push(Rule::Check(format!("{{{}}} < 100", c.id)));
                Some("CHECK added")
            }
            6 => {
                let id = format!("c{}", self.migrations.len());
                let mut c = plain(&id, "", Role::Plain, Pool::Spelled);
                c.default = r.one_in(2).then(|| "3".to_owned());
                let at = r.index(t.columns.len() + 1);
                if t.column(&id).is_none() {
                    t.columns.insert(at, c);
                }
                Some("column added")
            }
            7 => self.constrain(r, no, t, first),
            8 | 9 => {
                let at = r.index(t.columns.len());
                let (id, role) = (t.columns[at].id.clone(), t.columns[at].role);
                let used = t.depends_on(&id) || !free(&id) || !t.triggers.is_empty();
                let new = format!("c{}", self.migrations.len());
                let taken = t.column(&new).is_some();
                if used || taken || matches!(role, Role::Token | Role::Generated) {
                    return None;
                }
                let old = t.columns.remove(at);
                t.former.push((old.name, id.clone()));
                if r.one_in(2) {
                    return Some("column left out");
                }
                // Under another name, which makes another column of it.
                let mut c = plain(&new, old.ty, role, old.pool);
                (c.not_null, c.default, c.filled) = (old.not_null, old.default, Some(id));
                t.columns.insert(at, c);
                Some("column copied")
            }
            _ => retype(r, regions, t),
        }
    }

    /// A foreign key or a unique key for a column that may be NULL, which it becomes where it breaks it.
    fn constrain(
        &self,
        r: &mut Random,
        no: usize,
        t: &mut Table,
        first: &mut Vec<String>,
    ) -> Option<&'static str> {
        let old = &self.schema[&no];
        let free = |id: &str| !referenced(&self.schema, no, Some(id));
        let roles = [Role::Rival, Role::Number, Role::Plain, Role::Reference];
        let fit = |c: &&Column| {
            let bound = t.rules.iter().any(|rule| match rule {
                Rule::Foreign(f) => f.columns.contains(&c.id),
                _ => false,
            });
            roles.contains(&c.role) && !c.not_null && free(&c.id) && !bound
        };
        let ids = t.columns.iter().filter(fit).map(|c| c.id.clone());
        let could = |id: &String| old.column(id).is_some_and(|c| !c.not_null);
        let ids: Vec<String> = ids.filter(could).collect();
        let id = ids.get(r.index(ids.len().max(1)))?;
        if r.one_in(3) {
            first.push(distinct(old, id, &format!("{{{id}}}")));
            let columns = vec![id.clone()];
            t.rules.push(Rule::Unique { columns, conflict: "", named: None });
            return Some("UNIQUE added");
        }
        let numbers: Vec<usize> = self.schema.keys().copied().collect();
        let parent = numbers[r.index(numbers.len())];
        let of = if parent == no { &*t } else { &self.schema[&parent] };
        let [target] = &target(r, of)?[..] else { return None };
        let (table, other) = (quote(&old.name), quote(&of.name));
        let column = quote(&old.column(id)?.name);
        first.push(format!(
            "UPDATE {table} SET {column} = NULL WHERE NOT EXISTS(SELECT 1 FROM {other} AS p \
             WHERE p.{} = +{table}.{column})",
            quote(&target.name)
        ));
        t.rules.push(Rule::Foreign(Foreign {
            columns: vec![id.clone()],
            parent,
            targets: vec![target.id.clone()],
            actions: actions(r),
        }));
        Some("foreign key added")
    }
}

impl Table {
    /// A name that a column had whose id is one of `of`, and that none has now.
    fn free(&self, r: &mut Random, of: impl Fn(&str) -> bool) -> Option<String> {
        let free = |name: &String| self.columns.iter().all(|c| c.name != *name);
        let names = self.former.iter().filter(|(name, id)| of(id) && free(name));
        let names: Vec<&String> = names.map(|(name, _)| name).collect();
        names.get(r.index(names.len().max(1))).copied().cloned()
    }

    /// Whether a rebuild has copied the column that had this name under another one.
    fn was_copied(&self, name: &str) -> bool {
        let filled = |id: &String| self.columns.iter().any(|c| c.filled.as_ref() == Some(id));
        self.former.iter().any(|(former, id)| former == name && filled(id))
    }
}

/// Another type for a column, or another collation.
fn retype(r: &mut Random, regions: &Regions, t: &mut Table) -> Option<&'static str> {
    if regions.has(Region::Retype) && r.one_in(4) {
        // A key of a table without rowids holds no NULL.
        let kept = |id: &String| t.column(id).is_some_and(|c| c.not_null);
        if t.key.is_empty() || t.numbers_rows() || !t.key.iter().all(kept) {
            return None;
        }
        t.tail = match (t.has_rowid(), t.tail.contains("STRICT")) {
            (true, false) => " WITHOUT ROWID",
            (true, true) => " WITHOUT ROWID, STRICT",
            (false, false) => "",
            (false, true) => " STRICT",
        };
        return Some("rowids");
    }
    if regions.has(Region::Retype) && r.one_in(2) {
        let numbers = t.numbers_rows();
        let id = t.key.first()?.clone();
        let c = t.column_mut(&id)?;
        if !numbers && c.ty != "INT" {
            return None;
        }
        // Integers stay apart as texts.
        c.ty = "TEXT";
        t.key_tail = "";
        return Some("key retyped");
    }
    let free = |c: &Column| matches!(c.role, Role::Plain | Role::Token) && !t.unique_on(&c.id);
    let at = t.columns.iter().position(free)?;
    let strict = t.tail.contains("STRICT");
    let stored = t.columns.iter().any(|c| c.stored);
    let c = &mut t.columns[at];
    c.ty = match c.role {
        // What a strict table has of any type no other type takes.
        Role::Plain if strict => "",
        // What is stored of it must not be the text of a floating-point number.
        Role::Token if stored => "TEXT",
        Role::Token => ["TEXT", ""][r.index(2)],
        _ => ["", "TEXT", "INTEGER", "REAL"][r.index(4)],
    };
    Some("retyped")
}

/// Makes what an index is on distinct: all but one become NULL.
pub fn distinct(t: &Table, id: &str, on: &str) -> String {
    let table = quote(&t.name);
    let name = t.column(id).map_or(String::new(), |c| quote(&c.name));
    let of = |row: &str| t.text(on).replace(&name, &format!("{row}.{name}"));
    format!(
        "UPDATE {table} SET {name} = NULL WHERE EXISTS(SELECT 1 FROM {table} AS o \
         WHERE {} = {} AND {}{} < {})",
        of("o"),
        of(&table),
        t.order("o"),
        t.key_collate.map_or(String::new(), |c| format!(" COLLATE {c}")),
        t.order(&table)
    )
}
