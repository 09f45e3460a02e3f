//! Statements of applications.

use super::regions::{Region, Regions};
use super::schema::{Column, Role, Rule, Schema, Table, quote};
use super::values::{Pool, alike, first_of_few, value, value_of_few};
use crate::random::Random;

/// Makes statements, each with a mark of its own.
pub struct Writer<'a> {
    /// Where the choices come from.
    pub r: &'a mut Random,
    /// What they may contain.
    pub regions: &'a Regions,
    /// Where the few values that it may contain begin, if it may contain but few.
    pub few: Option<usize>,
    /// How many marks were given.
    pub marks: &'a mut u64,
    /// Keys that were given to others before.
    pub moves: &'a mut Vec<Move>,
}

/// A key that a statement changed: its table and column by their names, from, to.
#[derive(Clone, Debug)]
pub struct Move {
    table: String,
    column: String,
    from: &'static str,
    to: &'static str,
}

impl Writer<'_> {
    /// A statement, or two or three that make a transaction.
    pub fn transaction(&mut self, schema: &Schema) -> Vec<String> {
        if self.regions.has(Region::Many) && self.r.one_in(10) {
            let (back, kept) = (self.statement(schema), self.statement(schema));
            let say = |sql: &str| Some(sql.to_owned());
            let all = [say("SAVEPOINT s"), back, say("ROLLBACK TO s"), kept, say("RELEASE s")];
            return all.into_iter().flatten().collect();
        }
        if self.regions.has(Region::Spelled) && self.r.one_in(12) {
            return self.respell(schema);
        }
        if self.regions.has(Region::Many) && self.r.one_in(8) {
            return self.burst(schema);
        }
        let count = if self.r.one_in(8) { 2 + self.r.index(2) } else { 1 };
        (0..count).filter_map(|_| self.statement(schema)).collect()
    }

    fn statement(&mut self, schema: &Schema) -> Option<String> {
        let tables: Vec<_> = schema.values().collect();
        if tables.is_empty() {
            return None;
        }
        let t = tables[self.r.index(tables.len())];
        let replace = self.regions.has(Region::Replace);
        if self.regions.has(Region::Handles)
            && self.r.one_in(6)
            && let Some(handle) = self.handle(t)
        {
            return Some(handle);
        }
        if self.few.is_some()
            && self.r.one_in(6)
            && let Some(back) = self.back(t)
        {
            return Some(back);
        }
        if self.few.is_some()
            && self.r.one_in(3)
            && let Some(hot) = self.hot(schema, t)
        {
            return Some(hot);
        }
        if self.regions.has(Region::Many) && self.r.one_in(4) {
            return Some(self.many(schema, t));
        }
        Some(match self.r.below(20) {
            0..=5 => self.insert(schema, t, "INSERT"),
            6 => self.insert(schema, t, "INSERT OR IGNORE"),
            7..=9 if replace => {
                let verb = ["INSERT OR REPLACE", "REPLACE"][self.r.index(2)];
                self.insert(schema, t, verb)
            }
            7 | 10 => self.upsert(schema, t),
            11..=13 => self.update(schema, t, "UPDATE"),
            8 | 14 => self.set_key(schema, t, "UPDATE"),
            9 | 15 if replace => self.set_key(schema, t, "UPDATE OR REPLACE"),
            16 if replace => self.update(schema, t, "UPDATE OR REPLACE"),
            17 | 18 => self.delete(schema, t),
            _ => self.insert(schema, t, "INSERT"),
        })
    }

    /// Rows of one table that come, go, move and give way within an instant.
    fn burst(&mut self, schema: &Schema) -> Vec<String> {
        let tables: Vec<_> = schema.values().collect();
        let Some(t) = tables.get(self.r.index(tables.len().max(1))) else { return vec![] };
        let count = 3 + self.r.index(3);
        let statement = |_| match self.r.below(6) {
            0 | 1 => self.shift(schema, t),
            2 => format!("DELETE FROM {}", quote(&t.name)),
            3 => self.insert_rows(schema, t),
            _ => self.one_row(schema, t),
        };
        (0..count).map(statement).collect()
    }

    /// Keys of all rows that become others, which some of these rows have.
    fn shift(&mut self, schema: &Schema, t: &Table) -> String {
        let name = quote(&t.name);
        let fit = |c: &&Column| matches!(c.role, Role::Key | Role::Number | Role::Rival);
        let columns: Vec<&Column> = t.columns.iter().filter(fit).collect();
        let Some(c) = columns.get(self.r.index(columns.len().max(1))) else {
            return self.delete(schema, t);
        };
        let or = match self.regions.has(Region::Replace) {
            true => ["", " OR IGNORE", " OR REPLACE"][self.r.index(3)],
            false => ["", " OR IGNORE"][self.r.index(2)],
        };
        let (column, to) = (quote(&c.name), [" + 1", " - 1", " + 10", " || 'z'", " * -1"]);
        let to = to[self.r.index(to.len())];
        format!("UPDATE{or} {name} SET {column} = {column}{to}")
    }

    /// A statement that makes a row come, go, move or be another.
    pub fn one_row(&mut self, schema: &Schema, t: &Table) -> String {
        let replace = self.regions.has(Region::Replace);
        match self.r.below(8) {
            0 | 1 => self.insert(schema, t, "INSERT"),
            2 if replace => self.insert(schema, t, "REPLACE"),
            2 | 3 => self.update(schema, t, "UPDATE"),
            4 if replace => self.set_key(schema, t, "UPDATE OR REPLACE"),
            4 | 5 => self.set_key(schema, t, "UPDATE"),
            _ => self.delete(schema, t),
        }
    }

    fn value(&mut self, pool: Pool) -> &'static str {
        match self.few {
            Some(nth) => value_of_few(self.r, pool, nth),
            None => value(self.r, pool),
        }
    }

    /// A mark of one row is overwritten by another through a handle, for [`super::app`].
    fn handle(&mut self, t: &Table) -> Option<String> {
        let c = t.columns.iter().find(|c| c.role == Role::Token)?;
        let computed = t.columns.iter().any(|c| c.role == Role::Generated);
        if !t.has_rowid() || computed || c.ty != "BLOB" || t.tail.contains("STRICT") {
            return None;
        }
        let mark = self.mark();
        Some(format!("@handle {}|{}|{}|{mark}", self.nth(4), t.name, c.name))
    }

    /// Which of the rows that are there a statement means, of `count` or of few.
    fn nth(&mut self, count: u64) -> u64 {
        let count = if self.few.is_some() { 2 } else { count };
        self.r.below(count)
    }

    /// A new mark, never given twice.
    fn mark(&mut self) -> String {
        *self.marks += 1;
        format!("'w{}.'", self.marks)
    }

    fn of(&mut self, schema: &Schema, t: &Table, c: &Column) -> String {
        match c.role {
            Role::Token => self.mark(),
            Role::Key if t.numbers_rows() && self.r.one_in(2) => "NULL".to_owned(),
            Role::Key if !c.not_null && self.r.one_in(12) => "NULL".to_owned(),
            Role::Rival if self.r.one_in(5) => "NULL".to_owned(),
            Role::Reference if self.r.one_in(5) => "NULL".to_owned(),
            _ if self.r.one_in(2) => self.existing(schema, t, c),
            _ => self.value(c.pool).to_owned(),
        }
    }

    /// The key of a row that is there, if a foreign key asks for one and any is.
    fn existing(&mut self, schema: &Schema, t: &Table, c: &Column) -> String {
        let foreign = t.rules.iter().find_map(|rule| match rule {
            Rule::Foreign(f) => {
                let at = f.columns.iter().position(|id| *id == c.id)?;
                let parent = schema.get(&f.parent)?;
                Some((parent, parent.column(f.targets.get(at)?)?))
            }
            _ => None,
        });
        let Some((parent, target)) = foreign else { return self.value(c.pool).to_owned() };
        let (name, table) = (quote(&target.name), quote(&parent.name));
        let (order, nth) = (parent.order(&table), self.nth(3));
        let key = match self.regions.has(Region::Spelled) && self.r.one_in(3) {
            true => self.otherwise(&name),
            false => name,
        };
        format!("(SELECT {key} FROM {table} ORDER BY {} LIMIT 1 OFFSET {nth})", unwrap(&order))
    }

    /// A value spelled otherwise, or in another type: equal to it for some columns.
    fn otherwise(&mut self, value: &str) -> String {
        match self.r.below(5) {
            0 => format!("upper({value})"),
            1 => format!("lower({value})"),
            2 => format!("{value}||''"),
            3 => format!("{value}||' '"),
            _ => format!("0+{value}"),
        }
    }

    fn values(&mut self, schema: &Schema, t: &Table) -> (String, String) {
        let mut names = Vec::new();
        let mut values = Vec::new();
        for c in t.columns.iter().filter(|c| c.role != Role::Generated) {
            let skip = c.default.is_some() && c.role != Role::Token && self.r.one_in(3);
            if !skip {
                names.push(quote(&c.name));
                values.push(self.of(schema, t, c));
            }
        }
        (names.join(", "), values.join(", "))
    }

    fn insert(&mut self, schema: &Schema, t: &Table, verb: &str) -> String {
        let (names, values) = self.values(schema, t);
        format!("{verb} INTO {}({names}) VALUES({values})", quote(&t.name))
    }

    /// A statement that writes several rows.
    fn many(&mut self, schema: &Schema, t: &Table) -> String {
        let name = quote(&t.name);
        match self.r.below(8) {
            0..=2 => self.insert_rows(schema, t),
            3 => {
                let Some(token) = t.token() else { return self.update(schema, t, "UPDATE") };
                format!("UPDATE {name} SET {} = {}", quote(&token.name), self.mark())
            }
            4 => self.shift(schema, t),
            5 => match t.token() {
                Some(token) if self.r.one_in(3) => {
                    let digit = self.r.index(10);
                    format!("DELETE FROM {name} WHERE {} LIKE '%{digit}.'", quote(&token.name))
                }
                _ if self.r.one_in(3) => format!("DELETE FROM {name}"),
                _ => self.delete(schema, t),
            },
            _ => self.copy_rows(t),
        }
    }

    /// A few rows, or enough for a run of them.
    fn insert_rows(&mut self, schema: &Schema, t: &Table) -> String {
        let count = if self.r.one_in(6) { 20 + self.r.index(30) } else { 2 + self.r.index(4) };
        let columns = t.columns.iter().filter(|c| c.role != Role::Generated);
        let columns: Vec<&Column> = columns.collect();
        let mut rows = Vec::new();
        for _ in 0..count {
            let values: Vec<_> = columns.iter().map(|c| self.of(schema, t, c)).collect();
            rows.push(format!("({})", values.join(", ")));
        }
        let names: Vec<_> = columns.iter().map(|c| quote(&c.name)).collect();
        let (table, rows) = (quote(&t.name), rows.join(", "));
        format!("INSERT OR IGNORE INTO {table}({}) VALUES {rows}", names.join(", "))
    }

    /// The rows that are there once more, under other keys.
    fn copy_rows(&mut self, t: &Table) -> String {
        let (mut names, mut values) = (Vec::new(), Vec::new());
        let to = [" + 10", " || 'y'"][self.r.index(2)];
        for c in t.columns.iter().filter(|c| c.role != Role::Generated) {
            let name = quote(&c.name);
            values.push(match c.role {
                Role::Token => self.mark(),
                Role::Key if t.numbers_rows() => "NULL".to_owned(),
                Role::Key | Role::Rival => format!("{name}{to}"),
                _ => name.clone(),
            });
            names.push(name);
        }
        let (table, names) = (quote(&t.name), names.join(", "));
        let values = values.join(", ");
        format!("INSERT OR IGNORE INTO {table}({names}) SELECT {values} FROM {table}")
    }

    fn upsert(&mut self, schema: &Schema, t: &Table) -> String {
        let insert = self.insert(schema, t, "INSERT");
        let unique =
            |rule: &Rule| matches!(rule, Rule::Unique { columns, .. } if columns == &["u"]);
        let target = if t.rules.iter().any(unique) && self.r.one_in(2) {
            format!("({})", t.list(&["u".to_owned()]))
        } else if !t.key.is_empty() && t.key_collate.is_none() {
            format!("({})", t.list(&t.key))
        } else {
            return insert;
        };
        if self.r.one_in(4) {
            return format!("{insert} ON CONFLICT{target} DO NOTHING");
        }
        let Some(token) = t.token() else { return insert };
        let name = quote(&token.name);
        format!("{insert} ON CONFLICT{target} DO UPDATE SET {name} = excluded.{name}")
    }

    /// A condition that at most one row fulfils.
    fn one(&mut self, schema: &Schema, t: &Table) -> String {
        let table = quote(&t.name);
        if !t.key.is_empty() && self.r.one_in(2) {
            let mut equal = Vec::new();
            let columns: Vec<Column> =
                t.key.iter().filter_map(|id| t.column(id).cloned()).collect();
            for c in columns {
                let spelled = match self.of(schema, t, &c) {
                    null if null == "NULL" => self.value(c.pool).to_owned(),
                    spelled => spelled,
                };
                equal.push(format!("{} = {spelled}", quote(&c.name)));
            }
            return equal.join(" AND ");
        }
        let order = t.order(&table);
        let nth = self.nth(4);
        let list = unwrap(&order);
        format!("{order} = (SELECT {list} FROM {table} ORDER BY {list} LIMIT 1 OFFSET {nth})")
    }

    fn update(&mut self, schema: &Schema, t: &Table, verb: &str) -> String {
        let free = |c: &&Column| !matches!(c.role, Role::Generated | Role::Key);
        let columns: Vec<&Column> = t.columns.iter().filter(free).collect();
        let c = match self.r.below(3) {
            0 => columns[self.r.index(columns.len())],
            _ => t.token().unwrap_or(columns[0]),
        };
        let value = self.of(schema, t, c);
        let condition = self.one(schema, t);
        let name = quote(&c.name);
        format!("{verb} {} SET {name} = {value} WHERE {condition}", quote(&t.name))
    }

    /// A key that changes, of one row or of a few.
    fn set_key(&mut self, schema: &Schema, t: &Table, verb: &str) -> String {
        let keys: Vec<&Column> =
            t.columns.iter().filter(|c| matches!(c.role, Role::Key | Role::Rival)).collect();
        if keys.is_empty() {
            return self.update(schema, t, verb);
        }
        let c = keys[self.r.index(keys.len())];
        let to = self.value(c.pool);
        let numbers = c.role == Role::Key && t.numbers_rows() && self.r.one_in(4);
        let name = if numbers { "rowid".to_owned() } else { quote(&c.name) };
        if self.few.is_some() && self.r.one_in(2) {
            let from = self.value(c.pool);
            self.moves.push(Move { table: t.name.clone(), column: c.name.clone(), from, to });
            let table = quote(&t.name);
            return format!("{verb} {table} SET {name} = {to} WHERE {name} = {from}");
        }
        let condition = if verb == "UPDATE OR REPLACE" && self.r.one_in(4) {
            format!("{name} IN ({}, {})", self.value(c.pool), self.value(c.pool))
        } else {
            self.one(schema, t)
        };
        format!("{verb} {} SET {name} = {to} WHERE {condition}", quote(&t.name))
    }

    /// A key of this table that somebody changed, as it was.
    fn back(&mut self, t: &Table) -> Option<String> {
        let is = |m: &&Move| m.table == t.name && t.columns.iter().any(|c| c.name == m.column);
        let moves: Vec<&Move> = self.moves.iter().filter(is).collect();
        let Move { table, column, from, to } = moves.get(self.r.index(moves.len().max(1)))?;
        let (table, column) = (quote(table), quote(column));
        Some(format!("UPDATE OR IGNORE {table} SET {column} = {from} WHERE {column} = {to}"))
    }

    /// Something of the one row that everybody writes to: it comes and goes under its key on all sites.
    fn hot(&mut self, schema: &Schema, t: &Table) -> Option<String> {
        let [id] = &t.key[..] else { return None };
        let c = t.column(id)?;
        let (hot, other) = (first_of_few(c.pool, self.few?), self.value(c.pool));
        let (table, key) = (quote(&t.name), quote(&c.name));
        let replaces = self.regions.has(Region::Replace) && self.r.one_in(2);
        let verb = if replaces { "UPDATE OR REPLACE" } else { "UPDATE OR IGNORE" };
        Some(match self.r.below(9) {
            0..=2 if replaces => self.insert_at(schema, t, c, hot, "REPLACE"),
            0..=2 => self.insert_at(schema, t, c, hot, "INSERT OR IGNORE"),
            3 | 4 => format!("DELETE FROM {table} WHERE {key} = {hot}"),
            5 | 6 => {
                let token = quote(&t.token()?.name);
                format!("UPDATE {table} SET {token} = {} WHERE {key} = {hot}", self.mark())
            }
            7 => format!("{verb} {table} SET {key} = {other} WHERE {key} = {hot}"),
            _ => format!("{verb} {table} SET {key} = {hot} WHERE {key} = {other}"),
        })
    }

    /// A key that is written in another spelling or type, and more at where it was or is now.
    fn respell(&mut self, schema: &Schema) -> Vec<String> {
        let keyed = |t: &&Table| t.key.len() == 1 && !t.numbers_rows();
        let tables: Vec<&Table> = schema.values().filter(keyed).collect();
        let Some(t) = tables.get(self.r.index(tables.len().max(1))) else { return vec![] };
        let Some(c) = t.column(&t.key[0]) else { return vec![] };
        let old = self.value(c.pool);
        let new = if self.r.one_in(4) { self.value(c.pool) } else { alike(self.r, old) };
        let (table, key) = (quote(&t.name), quote(&c.name));
        let mut all = Vec::new();
        if self.r.one_in(2) {
            all.push(self.insert_at(schema, t, c, old, "INSERT OR IGNORE"));
        }
        let verb = ["UPDATE", "UPDATE OR IGNORE", "UPDATE OR REPLACE"]
            [self.r.index(if self.regions.has(Region::Replace) { 3 } else { 2 })];
        all.push(format!("{verb} {table} SET {key} = {new} WHERE {key} = {old}"));
        let at = [old, new][self.r.index(2)];
        match (self.r.below(4), t.token()) {
            (0, _) => all.push(format!("DELETE FROM {table} WHERE {key} = {at}")),
            (1, Some(token)) => {
                let (token, mark) = (quote(&token.name), self.mark());
                all.push(format!("UPDATE {table} SET {token} = {mark} WHERE {key} = {at}"));
            }
            _ => all.push(self.insert_at(schema, t, c, old, "INSERT OR IGNORE")),
        }
        all
    }

    /// An insert of a row with this key.
    fn insert_at(
        &mut self,
        schema: &Schema,
        t: &Table,
        key: &Column,
        at: &str,
        verb: &str,
    ) -> String {
        let (names, values): (Vec<_>, Vec<_>) = (t.columns.iter())
            .filter(|c| c.role != Role::Generated)
            .map(|c| {
                let value = if c.id == key.id { at.to_owned() } else { self.of(schema, t, c) };
                (quote(&c.name), value)
            })
            .unzip();
        let (names, values) = (names.join(", "), values.join(", "));
        format!("{verb} INTO {}({names}) VALUES({values})", quote(&t.name))
    }

    fn delete(&mut self, schema: &Schema, t: &Table) -> String {
        let condition = self.one(schema, t);
        format!("DELETE FROM {} WHERE {condition}", quote(&t.name))
    }
}

/// The columns of a row value as a list.
fn unwrap(order: &str) -> &str {
    order.strip_prefix('(').and_then(|o| o.strip_suffix(')')).unwrap_or(order)
}
