//! The history of a seed.

use super::counts::Tally;
use super::migrate::Path;
use super::regions::{Region, Regions};
use super::schema::{Role, Schema, Table, quote, referenced};
use super::search;
use super::tables;
use super::writes::{Move, Writer};
use super::{Action, History, How, Step};
use crate::random::Random;

/// Time of the first step, in milliseconds.
pub const START_MS: i64 = 10_000_000_000;
/// Time from one step to the next.
pub const STEP_MS: i64 = 1_000;
/// An hour.
const HOUR_MS: i64 = 3_600_000;

/// What an application that does not keep foreign keys leaves behind in a table of its own, taken away.
pub const NOBODYS: &str =
    "DELETE FROM own WHERE id IN (SELECT \"rowid\" FROM pragma_foreign_key_check('own'))";

/// A table of each site's own.
struct Own {
    sql: String,
    filled: Option<String>,
}

struct Draft<'a> {
    r: Random,
    regions: Regions,
    sites: usize,
    path: Path,
    start: &'a Schema,
    /// For each site what it has run.
    applied: Vec<Vec<usize>>,
    live: Vec<bool>,
    backed: Vec<Option<Vec<usize>>>,
    skew: Vec<i64>,
    few: Option<usize>,
    marks: u64,
    moves: Vec<Move>,
    steps: Vec<Step>,
    n: i64,
    /// Counters, and what is drawn for them.
    tally: Option<(Tally, Random)>,
    /// The table for which sites set policies against each other, and what is drawn for it.
    pairs: Option<(usize, Random)>,
}

/// The history of a seed, with about half of the regions `from` in it, and those of them in `always`.
pub fn history(seed: u64, sites: usize, from: &Regions, always: &Regions) -> History {
    let mut r = Random::new(seed ^ 0x7769_6c64);
    let regions = from.draw(&mut r, &mut Random::new(seed ^ 0x6e75_6d62), always);
    let schema = tables::schema(&mut r, &regions);
    let mut path = Path::new(schema.clone());
    if regions.has(Region::Twice) && regions.has(Region::Rebuild) {
        path.often = often(&mut r, &schema);
        path.by_hand = r.one_in(2);
    }
    if regions.has(Region::Alter) || regions.has(Region::Rebuild) {
        let least = if path.often.is_some() { 3 } else { 1 };
        for _ in 0..least + r.index(4) {
            path.step(&mut r, &regions);
        }
    }
    let first = if regions.has(Region::Clone) { 1 + r.index(sites) } else { sites };
    let setup = setup(&mut r, &regions);
    let tally = regions.has(Region::Counts).then(|| {
        let mut r = Random::new(seed ^ 0x7461_6c6c);
        (Tally::draw(&mut r), r)
    });
    let few = regions.has(Region::Few).then(|| r.index(20));
    let pairs = regions.has(Region::Pairs) && regions.has(Region::Policy);
    let pairs = pairs.then(|| contested(&schema, Random::new(seed ^ 0x7061_6972))).flatten();
    let mut draft = Draft {
        regions,
        sites,
        start: &schema,
        applied: vec![Vec::new(); sites],
        live: (0..sites).map(|site| site < first).collect(),
        backed: vec![None; sites],
        skew: vec![0; sites],
        few,
        marks: 0,
        moves: Vec::new(),
        steps: Vec::new(),
        n: 0,
        tally,
        pairs,
        path,
        r,
    };
    let mut rows = draft.rows();
    let mut policies = draft.policies();
    policies.extend(draft.own_numbers());
    let own = draft.own();
    if let Some(own) = &own {
        rows.insert(0, own.sql.clone());
        rows.extend(own.filled.clone());
        policies.push(("local_tables".to_owned(), "own".to_owned()));
    }
    if draft.on(Region::Search) {
        policies.extend(search::policy(&schema, seed));
    }
    let system = (0..sites).map(|_| draft.on(Region::System)).collect();
    let pragmas = (0..sites).map(|_| draft.pragmas()).collect();
    draft.steps();
    if own.as_ref().is_some_and(|own| own.filled.is_none()) && draft.r.one_in(3) {
        draft.drop_own();
    }
    History {
        own: own.is_some(),
        tally: draft.tally.take().map(|(tally, _)| tally),
        seed,
        sites,
        first,
        setup,
        policies,
        schema: schema.clone(),
        rows,
        system,
        pragmas,
        regions: draft.regions,
        migrations: draft.path.migrations,
        steps: draft.steps,
    }
}

/// A table that is rebuilt again and again: one whose rowids no column shows, if there is one.
fn often(r: &mut Random, schema: &Schema) -> Option<usize> {
    let moves = |t: &Table| t.has_rowid() && !t.numbers_rows();
    let mut all: Vec<usize> = schema.keys().copied().collect();
    if schema.values().any(moves) {
        all.retain(|no| moves(&schema[no]));
    }
    all.get(r.index(all.len().max(1))).copied()
}

/// A table with a column for most policies, if there is one.
fn contested(schema: &Schema, mut r: Random) -> Option<(usize, Random)> {
    let mut all: Vec<usize> = schema.keys().copied().collect();
    let numbers = |t: &Table| t.columns.iter().any(|c| c.role == Role::Number);
    if schema.values().any(numbers) {
        all.retain(|no| numbers(&schema[no]));
    }
    let drawn = all.get(r.index(all.len().max(1))).copied();
    drawn.map(|no| (no, r))
}

fn setup(r: &mut Random, regions: &Regions) -> Vec<String> {
    let mut out = Vec::new();
    if regions.has(Region::File) {
        if r.one_in(2) {
            out.push("PRAGMA encoding = 'UTF-16le'".to_owned());
        }
        if r.one_in(2) {
            out.push("PRAGMA page_size = 512".to_owned());
        }
        if r.one_in(2) {
            out.push("PRAGMA journal_mode = WAL".to_owned());
        }
    }
    out
}

/// Which numbers a site shows.
fn numbered(r: &mut Random, t: &Table) -> (String, String) {
    (format!("{}.ids", t.name), ["local", "local", "shared"][r.index(3)].to_owned())
}

/// A policy of that kind for a table, if it has the column for it.
fn policy(r: &mut Random, tables: &[&Table], t: &Table, kind: u64) -> Option<(String, String)> {
    let named = |role: Role| t.columns.iter().find(|c| c.role == role).map(|c| &c.name);
    let (key, values): (String, &[&str]) = match kind {
        0..=3 => (format!("{}.on_unique", t.name), &["unify", "quarantine"]),
        4 | 5 => (format!("{}.delete", t.name), &["last", "wins"]),
        6 | 7 => ("fk".to_owned(), &["ignore", "enforce"]),
        8 => (format!("{}.{}", t.name, named(Role::Number)?), &["counter"]),
        9 => (format!("{}.identity", t.name), &["key", "birth"]),
        _ => {
            let other = tables[r.index(tables.len())];
            let value = format!("{}:{}", named(Role::Number)?, other.name);
            return Some((format!("{}.refs", t.name), value));
        }
    };
    Some((key, values[r.index(values.len())].to_owned()))
}

impl Draft<'_> {
    /// One time in two where the region is there.
    fn on(&mut self, region: Region) -> bool {
        self.regions.has(region) && self.r.one_in(2)
    }

    fn pragmas(&mut self) -> Vec<String> {
        let keep = if self.on(Region::Keys) { "OFF" } else { "ON" };
        let recursive = if self.r.one_in(4) { "ON" } else { "OFF" };
        vec![
            format!("PRAGMA foreign_keys = {keep}"),
            format!("PRAGMA recursive_triggers = {recursive}"),
        ]
    }

    /// What a site's schema is after what it has run.
    fn schema(&self, site: usize) -> Schema {
        let mut schema = self.start.clone();
        for &n in &self.applied[site] {
            for (no, table) in &self.path.migrations[n].after {
                match table {
                    Some(table) => drop(schema.insert(*no, table.clone())),
                    None => drop(schema.remove(no)),
                }
            }
        }
        schema
    }

    fn write(&mut self, schema: &Schema) -> Vec<String> {
        let Draft { r, regions, few, marks, moves, .. } = self;
        Writer { r, regions, few: *few, marks, moves }.transaction(schema)
    }

    fn rows(&mut self) -> Vec<String> {
        let schema = self.start.clone();
        let count = if self.r.one_in(3) { 0 } else { 1 + self.r.index(5) };
        (0..count).flat_map(|_| self.write(&schema)).collect()
    }

    /// A table that is not replicated, with a foreign key to one that is: of any type, or with rows that
    /// refer to others.
    fn own(&mut self) -> Option<Own> {
        let has = |region| self.regions.has(region);
        // A foreign key to a table that was made anew may not fit it.
        let stays = !has(Region::Alter) && !has(Region::Rebuild) && !has(Region::Local);
        let typed = self.on(Region::Spelled);
        if !stays || !typed && !self.r.one_in(4) {
            return None;
        }
        let all: Vec<&Table> = self.start.values().collect();
        let t = all.get(self.r.index(all.len().max(1)))?;
        let [key] = <[_; 1]>::try_from(tables::target(&mut self.r, t)?).ok()?;
        let (table, key, ty) = (quote(&t.name), quote(&key.name), key.ty);
        let filled = (!typed || self.r.one_in(2))
            .then(|| format!("INSERT OR IGNORE INTO own(q) SELECT {key} FROM {table}; {NOBODYS}"));
        let ty =
            if filled.is_some() { ty } else { ["INTEGER", "TEXT", "REAL", ""][self.r.index(4)] };
        let unique = if self.r.one_in(2) { "UNIQUE" } else { "" };
        let actions = filled.as_ref().map_or(String::new(), |_| {
            let delete = ["CASCADE", "SET NULL", "SET DEFAULT"][self.r.index(3)];
            let update = ["CASCADE", "NO ACTION", "RESTRICT", "SET NULL"][self.r.index(4)];
            format!(" ON DELETE {delete} ON UPDATE {update}")
        });
        let columns =
            format!("id INTEGER PRIMARY KEY, q {ty} {unique} REFERENCES {table}({key}){actions}");
        Some(Own { sql: format!("CREATE TABLE own({columns})"), filled })
    }

    /// The foreign key goes before anybody folds.
    fn drop_own(&mut self) {
        let writes = self.steps.iter_mut().filter_map(|step| match &mut step.action {
            Action::Write(script) => Some(script),
            _ => None,
        });
        let mut writes: Vec<_> = writes.collect();
        if !writes.is_empty() {
            let at = self.r.index(writes.len());
            writes[at].push("DROP TABLE IF EXISTS own".to_owned());
        }
    }

    fn policies(&mut self) -> Vec<(String, String)> {
        if !self.regions.has(Region::Policy) || self.r.one_in(2) {
            return vec![];
        }
        let schema = self.start.clone();
        self.policy(&schema).into_iter().collect()
    }

    /// Tables whose rows each site numbers for itself from the start.
    fn own_numbers(&mut self) -> Vec<(String, String)> {
        if !self.regions.has(Region::Numbers) {
            return vec![];
        }
        let drawn = self.start.values().filter(|t| t.numbers_rows() && !self.r.one_in(4));
        drawn.map(|t| (format!("{}.ids", t.name), "local".to_owned())).collect()
    }

    fn policy(&mut self, schema: &Schema) -> Option<(String, String)> {
        let tables: Vec<&Table> = schema.values().collect();
        let t = tables.get(self.r.index(tables.len().max(1)))?;
        let numbers = self.regions.has(Region::Numbers) && t.numbers_rows();
        if numbers && self.r.one_in(3) {
            return Some(numbered(&mut self.r, t));
        }
        let r = &mut self.r;
        // A counter that is a reference too is one of few things that are two.
        let kind = if self.few.is_some() && r.one_in(2) { 8 + 2 * r.below(2) } else { r.below(11) };
        policy(r, &tables, t, kind)
    }

    /// Some site sets a policy for the table for which all do.
    fn pair(&mut self) {
        let Some((no, mut r)) = self.pairs.take() else { return };
        let site = r.index(self.sites);
        let schema = self.schema(site);
        let t = schema.get(&no).filter(|_| r.one_in(4) && self.live[site]);
        let drawn = t.and_then(|t| {
            let tables: Vec<&Table> = schema.values().collect();
            let kind = [0, 4, 8, 9, 10, 10, 11][r.index(7)];
            match self.regions.has(Region::Numbers) && t.numbers_rows() && kind == 11 {
                true => Some(numbered(&mut r, t)),
                false => policy(&mut r, &tables, t, kind),
            }
        });
        if let Some((key, value)) = drawn {
            self.push(site, Action::Policy(key, value));
        }
        self.pairs = Some((no, r));
    }

    /// A table on which no other depends is local from now on, or none is. Not one without a key that is ever
    /// rebuilt: nothing tells its rows then.
    fn local(&mut self, schema: &Schema) -> Action {
        let rebuilt = self.regions.has(Region::Rebuild);
        let alone = |(no, t): &(&usize, &Table)| {
            let alone = !referenced(schema, **no, None);
            alone
                && !schema.keys().any(|other| t.refers_to(*other))
                && (!rebuilt || !t.key.is_empty())
        };
        let alone: Vec<&Table> = schema.iter().filter(alone).map(|(_, t)| t).collect();
        let drawn = alone.get(self.r.index(2 * alone.len().max(1)));
        let name = drawn.map_or(String::new(), |t| t.name.clone());
        Action::Policy("local_tables".to_owned(), name)
    }

    fn steps(&mut self) {
        let length = 12 + self.r.below(40);
        let exchange = [3, 5, 9][self.r.index(3)];
        for _ in 0..length {
            let site = self.r.index(self.sites);
            if self.path.often.is_some() && self.live[site] && self.r.one_in(8) {
                self.burst(site);
                continue;
            }
            let action = self.action(site, exchange);
            self.push(site, action);
            self.count();
            self.pair();
        }
        for site in 0..self.sites {
            if !self.live[site] {
                self.clone_site(site);
            }
            while let Some(n) = self.pending(site) {
                self.migrate(site, n);
                if self.path.often.is_some() {
                    self.between(site);
                    continue;
                }
                match self.r.below(4) {
                    0 => self.push(site, Action::Fold),
                    1 => {
                        let schema = self.schema(site);
                        let write = Action::Write(self.write(&schema));
                        self.push(site, write);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Sites add to counters, or change their table, and go on adding with no command between.
    fn count(&mut self) {
        let Some((tally, mut r)) = self.tally.take() else { return };
        let site = r.index(self.sites);
        for _ in 0..r.index(3) {
            let (how, row, by) = tally.adds(&mut r);
            let action = if r.one_in(5) { Action::Reshape } else { Action::Add(how, row, by) };
            self.push(site, action);
        }
        self.tally = Some((tally, r));
    }

    fn push(&mut self, site: usize, action: Action) {
        if self.regions.has(Region::Clock) && self.r.one_in(6) {
            let jumps = [-HOUR_MS, HOUR_MS, -40, 40, -5_000, 5_000, 0];
            self.skew[site] = jumps[self.r.index(jumps.len())];
        }
        self.n += 1;
        let ms = START_MS + STEP_MS * self.n + self.skew[site];
        self.steps.push(Step { ms, site, action });
    }

    fn other(&mut self, site: usize) -> Option<usize> {
        let others: Vec<usize> =
            (0..self.sites).filter(|&other| other != site && self.live[other]).collect();
        others.get(self.r.index(others.len().max(1))).copied()
    }

    fn clone_site(&mut self, site: usize) {
        let Some(of) = self.other(site) else { return };
        let how = if self.r.one_in(2) { How::Clone } else { How::Copy };
        self.applied[site] = self.applied[of].clone();
        self.live[site] = true;
        self.push(site, Action::Clone(of, how));
    }

    /// A migration that a site can run next.
    fn pending(&mut self, site: usize) -> Option<usize> {
        let done = &self.applied[site];
        let ready = |n: &usize| {
            let m = &self.path.migrations[*n];
            !done.contains(n) && m.needs.iter().all(|need| done.contains(need))
        };
        let ready: Vec<usize> = (0..self.path.migrations.len()).filter(ready).collect();
        ready.get(self.r.index(ready.len().max(1))).copied()
    }

    fn migrate(&mut self, site: usize, n: usize) {
        self.applied[site].push(n);
        self.push(site, Action::Migrate(n));
    }

    /// Migrations with writes before, between and after them, and with no command.
    fn burst(&mut self, site: usize) {
        self.between(site);
        while let Some(n) = self.pending(site).filter(|_| !self.r.one_in(5)) {
            self.migrate(site, n);
            self.between(site);
        }
    }

    /// Writes to the table that is rebuilt again and again.
    fn between(&mut self, site: usize) {
        let schema = self.schema(site);
        let Some(t) = self.path.often.and_then(|no| schema.get(&no)) else { return };
        for _ in 0..self.r.index(4) {
            let Draft { r, regions, few, marks, moves, .. } = self;
            let sql = Writer { r, regions, few: *few, marks, moves }.one_row(&schema, t);
            self.push(site, Action::Write(vec![sql]));
        }
    }

    fn action(&mut self, site: usize, exchange: u64) -> Action {
        if !self.live[site] {
            let Some(of) = self.other(site) else { return Action::Fold };
            let how = if self.r.one_in(2) { How::Clone } else { How::Copy };
            self.applied[site] = self.applied[of].clone();
            self.live[site] = true;
            return Action::Clone(of, how);
        }
        if self.r.one_in(exchange) {
            return self.exchange(site);
        }
        let schema = self.schema(site);
        match self.r.below(16) {
            0 => Action::Fold,
            1 | 2 => match self.pending(site) {
                Some(n) => {
                    self.applied[site].push(n);
                    Action::Migrate(n)
                }
                None => Action::Write(self.write(&schema)),
            },
            3 if self.regions.has(Region::Policy) => match self.policy(&schema) {
                Some((key, value)) => Action::Policy(key, value),
                None => Action::Fold,
            },
            4 if self.regions.has(Region::Keys) => {
                let on = if self.r.one_in(2) { "ON" } else { "OFF" };
                Action::Pragma(format!("PRAGMA foreign_keys = {on}"))
            }
            5 if self.regions.has(Region::Replace) => {
                let on = if self.r.one_in(2) { "ON" } else { "OFF" };
                Action::Pragma(format!("PRAGMA recursive_triggers = {on}"))
            }
            9 | 10 if self.regions.has(Region::Local) => self.local(&schema),
            // Where a dump gives rows other rowids, what was added to a counter may be a write.
            7 if self.regions.has(Region::File) => match self.r.one_in(2) {
                true if !self.regions.has(Region::Counts) => Action::Dump,
                _ => Action::Pragma("VACUUM".to_owned()),
            },
            8 if self.regions.has(Region::Triggers) => Action::Retrigger(self.r.one_in(3)),
            6 if self.regions.has(Region::Restore) => match self.backed[site].clone() {
                Some(applied) if self.r.one_in(2) => {
                    self.applied[site] = applied;
                    Action::Restore
                }
                _ => {
                    self.backed[site] = Some(self.applied[site].clone());
                    Action::Backup
                }
            },
            _ => Action::Write(self.write(&schema)),
        }
    }

    fn exchange(&mut self, site: usize) -> Action {
        if self.regions.has(Region::Place) && self.r.one_in(2) {
            return Action::Place;
        }
        match (self.other(site), self.r.below(4)) {
            (None, _) => Action::Fold,
            (Some(other), 0) => Action::Push(other),
            (Some(other), 1) => Action::Sync(other),
            (Some(other), _) => Action::Pull(other),
        }
    }
}
