//! Random states in memory: whatever replicas write, and in whatever order and parts they learn of it, what
//! each merge shows by looking at some rows is what it would show by looking at all (R-MAT), and replicas
//! that know the same show the same.
//!
//! In one half of the histories writes are folded, and the user's stay (R-COMP); in the other a write is a
//! change like any other, and foreign keys act (decision 025).
//! `SYNQLITE_STATES=FROM..TO` plays other histories than the default; a failure names its own, and the
//! writes that it takes.

use super::fold::Write;
use super::memory::{Ground, Memory, place};
use super::shapes::{ACTIONS, SHAPES};
use crate::catalog::{Catalog, Loc};
use crate::equal;
use crate::fixture::Site as File;
use crate::init::InitOptions;
use crate::merge::facts::{Facts, reference};
use crate::merge::judge::Judge;
use crate::policy::Policies;
use crate::schema::{Action, Identity, TableKind};
use crate::{Error, Result};
use rusqlite::Connection;
use std::fmt;
use synqlite_wire::{Id, Rid, RowChange, Value};

/// Histories by default.
const HISTORIES: u64 = 3_000;

/// One thing that happens; what it means depends on what the replica shows then.
#[derive(Clone, Copy)]
struct Step {
    site: usize,
    seed: u64,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A replica that writes.
struct Site<'a> {
    births: u64,
    /// Whether it folds what it writes; otherwise it learns of it as others do.
    folds: bool,
    memory: Memory<'a>,
}

impl Site<'_> {
    fn value(r: &mut Random, affinity: crate::schema::Affinity) -> Value {
        let value = match r.below(7) {
            0 | 1 => Value::Null,
            2 => Value::Text([&b"a"[..], b"A", b"b"][r.below(3)].to_vec()),
            _ => Value::Integer(1 + r.below(4) as i64),
        };
        equal::stored(&value, affinity)
    }

    /// Fills columns of a row: references with keys of rows that are shown, others with anything.
    fn fill(&self, r: &mut Random, table: usize, columns: &[usize], row: &mut [Value]) {
        let t = &self.memory.table(table).table;
        for &c in columns {
            row[c] = Site::value(r, t.columns[c].affinity);
            if t.rowid_alias() == Some(c) && (r.one_in(2) || row[c].as_integer().is_none()) {
                row[c] = Value::Integer(self.last(table) + 1);
            }
        }
        for fk in t.foreign_keys.iter().filter(|fk| columns.contains(&fk.columns[0])) {
            let parent =
                (0..).find(|&p| self.memory.table(p).table.name.eq_ignore_ascii_case(&fk.parent));
            let rows: Vec<_> =
                parent.map(|p| self.memory.rows(p).values().collect()).unwrap_or_default();
            let found = rows.get(r.below(rows.len() + 1));
            for (&c, &p) in fk.columns.iter().zip(&fk.parent_columns) {
                row[c] = found.map_or(Value::Null, |row| row[p].clone());
            }
        }
    }

    /// Makes a random write that SQLite would take. Whether it made one.
    fn write(&mut self, seed: u64, told: &mut Vec<String>) -> Result<bool> {
        let mut r = Random(seed);
        let table = r.below(self.memory.tables());
        let t = self.memory.table(table);
        let name = &t.table.name;
        let rows: Vec<(Loc, Vec<Value>)> =
            self.memory.rows(table).iter().map(|(loc, row)| (loc.clone(), row.clone())).collect();
        let kind = r.below(9);
        let write = if kind < 4 || rows.is_empty() {
            let Some((rid, loc, row)) = self.insert(&mut r, table)? else { return Ok(false) };
            told.push(format!("INSERT INTO {name} {row:?}"));
            Write::Insert(rid, loc, row)
        } else {
            let (loc, old) = rows[r.below(rows.len())].clone();
            let lives = self.memory.at(table, &loc)?.is_some_and(|s| s.state.header.alive());
            if !lives || kind == 4 && self.keeps(table, &old, None)? {
                return Ok(false);
            }
            if kind == 4 {
                told.push(format!("DELETE FROM {name} {old:?}"));
                Write::Delete(loc)
            } else {
                let g = r.below(t.table.groups.len());
                let mut row = old.clone();
                self.fill(&mut r, table, &t.table.groups[g].columns, &mut row);
                let to = self.place(table, &row).unwrap_or(loc.clone());
                if to != loc && self.memory.rows(table).contains_key(&to)
                    || row == old
                    || self.memory.breaks(table, &row, Some(&loc))?.is_some()
                    || self.keeps(table, &old, Some(&row))?
                {
                    return Ok(false);
                }
                told.push(format!("UPDATE {name} {old:?} to {row:?}"));
                Write::Update(loc, g, to, row)
            }
        };
        match self.folds {
            true => self.memory.write(table, write)?,
            false => {
                let change = self.memory.told(table, write)?;
                self.memory.merge(&[change])?;
            }
        }
        Ok(true)
    }

    /// Where SQLite puts a row, if its values say so.
    fn place(&self, table: usize, row: &[Value]) -> Option<Loc> {
        let t = self.memory.table(table);
        match t.table.kind {
            TableKind::WithoutRowid => Some(Loc::Key(place(t, row))),
            _ => t.table.rowid_alias().and_then(|c| row[c].as_integer()).map(Loc::Row),
        }
    }

    fn last(&self, table: usize) -> i64 {
        match self.memory.rows(table).last_key_value() {
            Some((Loc::Row(last), _)) => *last,
            _ => 0,
        }
    }

    fn insert(&mut self, r: &mut Random, table: usize) -> Result<Option<(Rid, Loc, Vec<Value>)>> {
        let t = self.memory.table(table);
        let columns: Vec<usize> = (0..t.table.columns.len()).collect();
        let mut row = vec![Value::Null; columns.len()];
        self.fill(r, table, &columns, &mut row);
        let at = self.place(table, &row).unwrap_or(Loc::Row(self.last(table) + 1));
        let key = &t.table.primary_key;
        let nameless = t.table.identity == Identity::Key && key.iter().any(|&c| row[c].is_null());
        if self.memory.rows(table).contains_key(&at)
            || nameless
            || self.memory.breaks(table, &row, None)?.is_some()
        {
            return Ok(None);
        }
        let rid = match t.table.identity {
            Identity::Birth => {
                self.births += 1;
                Rid::Birth { site: self.memory.site, n: self.births }
            }
            Identity::Key => {
                let catalog = self.memory.catalog();
                let refers = |f: usize| reference(&self.memory, catalog, (table, f), &row);
                self.named(table, t.key_of(|c| &row[c], refers)?)?
            }
        };
        Ok(Some((rid, at, row)))
    }

    /// The row that a key means which no visible row has: the first that is not visible under another.
    fn named(&self, table: usize, key: Vec<u8>) -> Result<Rid> {
        for generation in 0.. {
            let rid = Rid::Key { key: key.clone(), generation };
            if self.memory.of(table, &rid)?.is_none_or(|stored| stored.loc.is_none()) {
                return Ok(rid);
            }
        }
        Err(Error::Damaged("no generation is left".into()))
    }

    /// Whether a visible row refers to one that goes, or gets another key, by RESTRICT or NO ACTION; where
    /// writes are folded, by any foreign key.
    fn keeps(&self, table: usize, old: &[Value], new: Option<&[Value]>) -> Result<bool> {
        for (child, f) in self.memory.catalog().references_to(table) {
            let fk = &self.memory.table(child).table.foreign_keys[f];
            let action = if new.is_some() { fk.on_update } else { fk.on_delete };
            let refuses = matches!(action, Action::Restrict | Action::NoAction) && fk.enforced;
            let same = |&c: &usize| new.is_some_and(|new| new[c] == old[c]);
            if !(refuses || self.folds) || fk.parent_columns.iter().all(same) {
                continue;
            }
            let key: Vec<Value> = fk.parent_columns.iter().map(|&c| old[c].clone()).collect();
            let named = !key.iter().any(Value::is_null);
            if named && !self.memory.referring((child, f), &key)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn learn(&mut self, changes: &[RowChange]) -> Result<()> {
        let stamps = changes.iter().flat_map(|change| {
            let own = [change.header.cl_stamp, change.header.inserted, change.header.deleted];
            own.into_iter().chain(change.registers.iter().map(|register| register.stamp))
        });
        let latest = stamps.map(|stamp| stamp.hlc.0).max().unwrap_or(0);
        self.memory.clock = self.memory.clock.max(latest);
        self.memory.merge(changes)
    }
}

/// How many combinations of actions there are of a schema.
fn actions(sql: &str) -> usize {
    if sql.contains("$A") { ACTIONS.len() } else { 1 }
}

/// A history: which schema and actions, how many replicas, what happens.
#[derive(Clone)]
struct History {
    shape: usize,
    actions: usize,
    folds: bool,
    sites: usize,
    steps: Vec<Step>,
}

impl History {
    fn new(seed: u64) -> History {
        let mut r = Random(seed);
        let (shape, sites) = (r.below(SHAPES.len()), 2 + r.below(2));
        let actions = r.below(actions(SHAPES[shape].0));
        let folds = r.one_in(2);
        let steps = (0..8 + r.below(24)).map(|_| Step { site: r.below(sites), seed: r.next() });
        History { shape, actions, folds, sites, steps: steps.collect() }
    }

    /// Plays it, and says what happens. Returns what is wrong.
    fn play(&self, ground: Ground<'_>, told: &mut Vec<String>) -> Result<Option<String>> {
        let site = |n: usize| Site {
            births: 0,
            folds: self.folds,
            memory: Memory::new(ground, Id([n as u8 + 1; 16])),
        };
        let mut sites: Vec<Site<'_>> = (0..self.sites).map(site).collect();
        for step in &self.steps {
            let (mut r, at) = (Random(step.seed), step.site);
            if r.one_in(4) {
                let from = (at + 1 + r.below(self.sites - 1)) % self.sites;
                let mut changes = sites[from].memory.changes()?;
                if r.one_in(3) {
                    changes.retain(|_| !r.one_in(3));
                }
                for part in changes.chunks(1 + r.below(changes.len() + 1)) {
                    told.push(format!("{at} learns {} rows of {from}", part.len()));
                    sites[at].learn(part)?;
                    if let Some(wrong) = wrong(&sites[at])? {
                        return Ok(Some(wrong));
                    }
                }
            } else {
                let mut what = Vec::new();
                let written = sites[at].write(r.next(), &mut what);
                told.extend(what.into_iter().map(|what| format!("{at}: {what}")));
                if written? && let Some(wrong) = wrong(&sites[at])? {
                    return Ok(Some(wrong));
                }
            }
        }
        for _ in 0..2 {
            for to in 0..self.sites {
                for from in (0..self.sites).filter(|from| *from != to) {
                    let changes = sites[from].memory.changes()?;
                    told.push(format!("{to} learns all of {from}"));
                    sites[to].learn(&changes)?;
                    if let Some(wrong) = wrong(&sites[to])? {
                        return Ok(Some(wrong));
                    }
                }
            }
        }
        let outcomes = sites[0].memory.outcomes();
        for site in &sites[1..] {
            let others = site.memory.outcomes();
            if let Some((one, other)) = outcomes.iter().zip(&others).find(|(a, b)| a != b) {
                return Ok(Some(format!("replicas differ: {one:?} and {other:?}")));
            }
        }
        Ok(None)
    }

    /// What is wrong with it, if anything is.
    fn fault(&self, ground: Ground<'_>) -> Option<Fault> {
        let mut told = Vec::new();
        let wrong = match self.play(ground, &mut told) {
            Ok(wrong) => wrong?,
            Err(error) => error.to_string(),
        };
        Some(Fault { told, wrong })
    }

    /// Leaves out steps that it does not take.
    fn shrink(mut self, ground: Ground<'_>) -> Option<Fault> {
        let mut fault = self.fault(ground)?;
        let mut at = self.steps.len();
        while at > 0 {
            at -= 1;
            let mut less = self.clone();
            less.steps.remove(at);
            if let Some(other) = less.fault(ground) {
                (self, fault) = (less, other);
                at = at.min(self.steps.len());
            }
        }
        Some(fault)
    }
}

struct Fault {
    told: Vec<String>,
    wrong: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.told.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "{}", self.wrong)
    }
}

fn wrong(site: &Site<'_>) -> Result<Option<String>> {
    let found = site.memory.differences()?;
    Ok((!found.is_empty()).then(|| found.join("; ")))
}

/// A schema as a replica has it.
struct Base {
    catalog: Catalog,
    policies: Policies,
    conn: Connection,
    _file: File,
}

impl Base {
    fn new(sql: &str, policies: &[(&str, &str)]) -> Base {
        let policies = policies.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let file = File::with(sql, &InitOptions { policies, ..InitOptions::default() });
        let catalog = file.replica.read(|_, _, loaded| Ok(loaded.catalog.clone())).unwrap();
        let conn = Connection::open(&file.path).unwrap();
        Base { catalog, policies: file.replica.policies().unwrap(), conn, _file: file }
    }

    fn judge(&self) -> Judge<'_> {
        Judge::new(&self.conn)
    }
}

/// A line of what is played begins with `FAULT seed`, as in campaigns.
#[test]
fn looking_at_some_rows_shows_what_looking_at_all_does() {
    let asked = std::env::var("SYNQLITE_STATES").ok();
    let range = asked.as_deref().map_or(0..HISTORIES, |text| {
        let (from, to) = text.split_once("..").expect("FROM..TO");
        from.parse().expect("a number")..to.parse().expect("a number")
    });
    let bases: Vec<Vec<Base>> = SHAPES
        .iter()
        .map(|(sql, policies)| {
            let texts = ACTIONS[..actions(sql)].iter();
            texts.map(|text| Base::new(&sql.replace("$A", text), policies)).collect()
        })
        .collect();
    let judges: Vec<Vec<Judge<'_>>> =
        bases.iter().map(|bases| bases.iter().map(Base::judge).collect()).collect();
    let mut faults = 0;
    for seed in range {
        let history = History::new(seed);
        let (base, judge) =
            (&bases[history.shape][history.actions], &judges[history.shape][history.actions]);
        let ground = Ground { catalog: &base.catalog, policies: &base.policies, judge };
        if seed % 1_000 == 0 {
            println!("played {seed}");
        }
        if history.fault(ground).is_some() {
            println!("FAULT seed {seed}: states");
            let sql = SHAPES[history.shape].0.replace("$A", ACTIONS[history.actions]);
            if let Some(fault) = history.shrink(ground) {
                println!("{sql}\n{fault}\n");
            }
            faults += 1;
            assert!(faults < 4, "enough faults");
        }
    }
    assert_eq!(faults, 0);
}
