//! Random states in memory: whatever replicas write, and in whatever order and parts they learn of it, what
//! each merge shows by looking at some rows is what it would show by looking at all (R-MAT), and replicas
//! that know the same show the same.
//!
//! Nothing is folded here: a write is a change like any other, so what R-COMP does is left out.
//! `SYNQLITE_STATES=FROM..TO` plays other histories than the default; a failure names its own, and the
//! writes that it takes.

use super::memory::{Ground, Memory, place};
use super::shapes::{ACTIONS, SHAPES};
use crate::catalog::{Catalog, Loc};
use crate::equal;
use crate::fixture::Site as File;
use crate::init::InitOptions;
use crate::merge::facts::Facts;
use crate::merge::judge::Judge;
use crate::policy::Policies;
use crate::schema::{Action, Identity, TableKind};
use crate::{Error, Result};
use rusqlite::Connection;

use std::fmt;
use synqlite_wire::{Header, Hlc, Id, Register, Rid, RowChange, Stamp, Value};

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
    id: Id,
    clock: i64,
    births: u64,
    memory: Memory<'a>,
}

impl Site<'_> {
    fn tick(&mut self) -> Stamp {
        self.clock += 1;
        Stamp { hlc: Hlc(self.clock), site: self.id }
    }

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
                let last = self.memory.rows(table).last_key_value();
                let last =
                    last.and_then(|(loc, _)| if let Loc::Row(n) = loc { Some(*n) } else { None });
                row[c] = Value::Integer(last.unwrap_or(0) + 1);
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

    /// A random write that SQLite would take; `None` if this is none.
    fn write(&mut self, seed: u64, tables: usize) -> Result<Option<(RowChange, String)>> {
        let mut r = Random(seed);
        let table = r.below(tables);
        let t = self.memory.table(table);
        let rows: Vec<(Loc, Vec<Value>)> =
            self.memory.rows(table).iter().map(|(l, row)| (l.clone(), row.clone())).collect();
        let kind = r.below(9);
        if kind < 4 || rows.is_empty() {
            return self.insert(&mut r, table);
        }
        let (loc, old) = rows[r.below(rows.len())].clone();
        let Some(stored) = self.memory.at(table, &loc)?.filter(|s| s.state.header.alive()) else {
            return Ok(None);
        };
        let mut change = RowChange {
            table: table as u32,
            rid: stored.rid.clone(),
            header: stored.state.header,
            registers: vec![],
        };
        if kind == 4 {
            if self.restricts(table, &old, None)? {
                return Ok(None);
            }
            change.header.delete(self.tick());
            return Ok(Some((change, format!("DELETE FROM {} {old:?}", t.table.name))));
        }
        let g = r.below(t.table.groups.len());
        let group = &t.table.groups[g];
        let mut row = old.clone();
        self.fill(&mut r, table, &group.columns, &mut row);
        let moved = match t.table.kind {
            TableKind::WithoutRowid => Loc::Key(place(t, &row)),
            _ => t
                .table
                .rowid_alias()
                .and_then(|c| row[c].as_integer())
                .map_or(loc.clone(), Loc::Row),
        };
        let taken = moved != loc && self.memory.rows(table).contains_key(&moved);
        if taken
            || row == old
            || self.memory.breaks(table, &row, Some(&loc))?.is_some()
            || self.restricts(table, &old, Some(&row))?
        {
            return Ok(None);
        }
        let previous =
            group.keeps_previous.then(|| self.memory.cell(table, g, &old)).transpose()?;
        let (cell, stamp) = (self.memory.cell(table, g, &row)?, self.tick());
        change.registers.push(Register {
            group: g as u32,
            stamp,
            cell,
            previous,
            pinned: false,
            counts: vec![],
        });
        Ok(Some((change, format!("UPDATE {} {old:?} to {row:?}", t.table.name))))
    }

    fn insert(&mut self, r: &mut Random, table: usize) -> Result<Option<(RowChange, String)>> {
        let t = self.memory.table(table);
        let columns: Vec<usize> = (0..t.table.columns.len()).collect();
        let mut row = vec![Value::Null; columns.len()];
        self.fill(r, table, &columns, &mut row);
        let at = match t.table.kind {
            TableKind::WithoutRowid => Some(Loc::Key(place(t, &row))),
            _ => t.table.rowid_alias().and_then(|c| row[c].as_integer()).map(Loc::Row),
        };
        let taken = at.is_some_and(|at| self.memory.rows(table).contains_key(&at));
        let key = &t.table.primary_key;
        let nameless = t.table.identity == Identity::Key && key.iter().any(|&c| row[c].is_null());
        if taken || nameless || self.memory.breaks(table, &row, None)?.is_some() {
            return Ok(None);
        }
        let cells = (0..t.table.groups.len()).map(|g| self.memory.cell(table, g, &row));
        let cells = cells.collect::<Result<Vec<_>>>()?;
        let stamp = self.tick();
        let (rid, header) = match t.table.identity {
            Identity::Birth => {
                self.births += 1;
                (Rid::Birth { site: self.id, n: self.births }, Header::born(stamp))
            }
            Identity::Key => {
                let refers = |f: usize| {
                    let g = t.table.columns[t.table.foreign_keys[f].columns[0]].group;
                    let at = t.table.groups[g].foreign_keys.iter().position(|&k| k == f);
                    Ok::<_, Error>(at.and_then(|at| cells[g].refs[at].clone()))
                };
                let key = t.key_of(|c| &row[c], refers)?;
                self.named(table, key, stamp)?
            }
        };
        let registers = (0u32..).zip(cells).map(|(group, cell)| Register {
            group,
            stamp,
            cell,
            previous: None,
            pinned: false,
            counts: vec![],
        });
        let registers = registers.collect();
        let change = RowChange { table: table as u32, rid, header, registers };
        Ok(Some((change, format!("INSERT INTO {} {row:?}", t.table.name))))
    }

    /// The row that a key means which no visible row has: the first that is not alive under another.
    fn named(&self, table: usize, key: Vec<u8>, stamp: Stamp) -> Result<(Rid, Header)> {
        for generation in 0.. {
            let rid = Rid::Key { key: key.clone(), generation };
            match self.memory.of(table, &rid)? {
                None => return Ok((rid, Header::born(stamp))),
                Some(stored) if !stored.state.header.alive() && stored.loc.is_none() => {
                    let mut header = stored.state.header;
                    header.insert(stamp);
                    return Ok((rid, header));
                }
                Some(_) => {}
            }
        }
        Err(Error::Damaged("no generation is left".into()))
    }

    /// Whether a visible row refers to one that goes, or gets another key, by RESTRICT or NO ACTION.
    fn restricts(&self, table: usize, old: &[Value], new: Option<&[Value]>) -> Result<bool> {
        let name = &self.memory.table(table).table.name;
        for child in (0..).take_while(|&n| n < self.memory.tables()) {
            let keys = self.memory.table(child).table.foreign_keys.iter().enumerate();
            for (f, fk) in
                keys.filter(|(_, fk)| fk.parent.eq_ignore_ascii_case(name) && fk.enforced)
            {
                let action = if new.is_some() { fk.on_update } else { fk.on_delete };
                let same = |&c: &usize| new.is_some_and(|new| new[c] == old[c]);
                if !matches!(action, Action::Restrict | Action::NoAction)
                    || fk.parent_columns.iter().all(same)
                {
                    continue;
                }
                let key: Vec<Value> = fk.parent_columns.iter().map(|&c| old[c].clone()).collect();
                if !key.iter().any(Value::is_null)
                    && !self.memory.referring((child, f), &key)?.is_empty()
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn learn(&mut self, changes: &[RowChange]) -> Result<()> {
        let stamps = changes.iter().flat_map(|change| {
            let own = [change.header.cl_stamp, change.header.inserted, change.header.deleted];
            own.into_iter().chain(change.registers.iter().map(|register| register.stamp))
        });
        self.clock = stamps.map(|stamp| stamp.hlc.0).max().unwrap_or(0).max(self.clock);
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
    sites: usize,
    steps: Vec<Step>,
}

impl History {
    fn new(seed: u64) -> History {
        let mut r = Random(seed);
        let (shape, sites) = (r.below(SHAPES.len()), 2 + r.below(2));
        let actions = r.below(actions(SHAPES[shape].0));
        let steps = (0..8 + r.below(24)).map(|_| Step { site: r.below(sites), seed: r.next() });
        History { shape, actions, sites, steps: steps.collect() }
    }

    /// Plays it, and says what happens. Returns what is wrong.
    fn play(&self, ground: Ground<'_>, told: &mut Vec<String>) -> Result<Option<String>> {
        let site = |n: usize| Site {
            id: Id([n as u8 + 1; 16]),
            clock: 0,
            births: 0,
            memory: Memory::new(ground),
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
            } else if let Some((change, what)) =
                sites[at].write(r.next(), ground.catalog.tables.len())?
            {
                told.push(format!("{at}: {what}"));
                sites[at].learn(&[change])?;
                if let Some(wrong) = wrong(&sites[at])? {
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
