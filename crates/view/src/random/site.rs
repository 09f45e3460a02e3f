//! A replica of random histories: what its user writes, and what it learns of others.

use super::source::Source;
use super::sql;
use super::write::Write;
use crate::catalog::Loc;
use crate::equal;
use crate::facts::{Facts, reference};
use crate::memory::{Memory, place};
use crate::schema::{Action, Affinity, Identity, TableKind};
use crate::{Error, Result};
use synqlite_wire::{Rid, RowChange, Value};

/// How often rows are inserted, deleted, updated, beside each other.
pub type Mix = (usize, usize, usize);

/// What histories are made of, each of one.
pub const MIXES: [Mix; 4] = [(4, 1, 4), (3, 3, 3), (2, 1, 6), (5, 1, 2)];

/// A replica that writes.
pub struct Site<'a> {
    /// How many rows it made that are named by their birth.
    pub births: u64,
    /// Whether it folds what it writes; otherwise it learns of it as others do.
    pub folds: bool,
    /// What its user writes.
    pub mix: Mix,
    /// What it holds.
    pub memory: Memory<'a>,
}

impl Site<'_> {
    fn value(r: &mut Source, affinity: Affinity) -> Value {
        let value = match r.below(7) {
            0 | 1 => Value::Null,
            2 => Value::Text([&b"a"[..], b"A", b"b"][r.below(3)].to_vec()),
            _ => Value::Integer(1 + r.below(4) as i64),
        };
        equal::stored(&value, affinity)
    }

    /// Fills columns of a row: references with keys of rows that are shown, others with anything.
    fn fill(&self, r: &mut Source, table: usize, columns: &[usize], row: &mut [Value]) {
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
                row[c] =
                    found.map_or(Value::Null, |row| equal::stored(&row[p], t.columns[c].affinity));
            }
        }
    }

    /// Makes a random write that SQLite would take. Whether it made one.
    pub fn write(&mut self, seed: u64, told: &mut Vec<String>) -> Result<bool> {
        let mut r = Source::new(seed);
        let table = r.below(self.memory.tables());
        let t = self.memory.table(table);
        let rows: Vec<(Loc, Vec<Value>)> =
            self.memory.rows(table).iter().map(|(loc, row)| (loc.clone(), row.clone())).collect();
        let (inserts, deletes, updates) = self.mix;
        let kind = r.below(inserts + deletes + updates);
        let deletes = kind >= inserts && kind < inserts + deletes;
        let write = if kind < inserts || rows.is_empty() {
            let Some((rid, loc, row)) = self.insert(&mut r, table)? else { return Ok(false) };
            told.push(sql::insert(&t.table, &row));
            Write::Insert(rid, loc, row)
        } else {
            let (loc, old) = rows[r.below(rows.len())].clone();
            let lives = self.memory.at(table, &loc)?.is_some_and(|s| s.state.header.alive());
            // Statements find rows by their keys, or by all that they show.
            let twins = rows.iter().filter(|(_, row)| *row == old).count();
            let lives = lives && twins == 1;
            if !lives || deletes && self.keeps(table, &old, None)? {
                return Ok(false);
            }
            if deletes {
                told.push(sql::delete(&t.table, &old));
                Write::Delete(loc)
            } else {
                let g = r.below(t.table.groups.len());
                let mut row = old.clone();
                self.fill(&mut r, table, &t.table.groups[g].columns, &mut row);
                let to = self.place(table, &row).unwrap_or(loc.clone());
                if to != loc && self.memory.rows(table).contains_key(&to)
                    || row == old
                    || self.refers_to_what_it_was(table, &old, &row)
                    || self.memory.breaks(table, &row, Some(&loc))?.is_some()
                    || self.keeps(table, &old, Some(&row))?
                {
                    return Ok(false);
                }
                told.push(sql::update(&t.table, &t.table.groups[g].columns, &old, &row));
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

    /// Whether a row would refer to the key that it gives up itself: an action of SQLite's would follow.
    fn refers_to_what_it_was(&self, table: usize, old: &[Value], new: &[Value]) -> bool {
        let t = &self.memory.table(table).table;
        t.foreign_keys.iter().filter(|fk| fk.parent == t.name).any(|fk| {
            let key = |row: &[Value], columns: &[usize]| {
                equal::reference_bytes(fk, columns.iter().map(|&c| &row[c]))
            };
            let was = key(old, &fk.parent_columns);
            key(new, &fk.columns) == was && key(new, &fk.parent_columns) != was
        })
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

    fn insert(&mut self, r: &mut Source, table: usize) -> Result<Option<(Rid, Loc, Vec<Value>)>> {
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
            // A fold looks at what becomes of a key whose group refers to another row, though it is the same.
            let t = &self.memory.table(table).table;
            let group = |&c: &usize| t.groups[t.columns[c].group].columns.iter().all(same);
            let alike = match self.folds {
                true => fk.parent_columns.iter().all(group),
                false => fk.parent_columns.iter().all(same),
            };
            if !(refuses || self.folds) || alike {
                continue;
            }
            if let Some(key) = fk.parent_key(old)
                && !self.memory.referring((child, f), &key)?.is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Learns of rows of others.
    pub fn learn(&mut self, changes: &[RowChange]) -> Result<()> {
        let stamps = changes.iter().flat_map(|change| {
            let own = [change.header.cl_stamp, change.header.inserted, change.header.deleted];
            own.into_iter().chain(change.registers.iter().map(|register| register.stamp))
        });
        let latest = stamps.map(|stamp| stamp.hlc.0).max().unwrap_or(0);
        self.memory.clock = self.memory.clock.max(latest);
        self.memory.merge(changes)
    }
}
