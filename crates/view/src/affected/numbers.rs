//! Rows that are affected for their integer keys (R-REMAP).
//!
//! A row that does not get the number it asks for gets one past all that are asked for. Until the view
//! hides it, it has that number and shifts the numbers of later ones; and a row that refers to such a
//! number by value is hidden, or is not, for it. So the numbers of hidden rows matter wherever some row
//! refers by value to a number that no row asks for; and wherever a unique key reads the number, for then
//! a row may be hidden with the number that it asks for, and not with one that it is given.
//!
//! Numbers are given in the order of claims, so who has an earlier claim than all whose numbers may change
//! keeps his. A merge in slices would else decide in each on all rows that the slices before gave numbers.

use super::{AffectedRow, AffectedRows, dangling_index};
use crate::Result;
use crate::catalog::{Loc, Relation};
use crate::equal::stored;
use crate::facts::Except;
use crate::remap::{Known, Numbers as _};
use crate::schema::Affinity;
use crate::state::Stored;
use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use synqlite_wire::key::{Collation, encode_values};
use synqlite_wire::{Rid, Stamp, Value};

/// Tables that have been asked for rows; by position in the catalog.
#[derive(Default)]
pub struct Numbers {
    /// For those that show another number than they ask for.
    given: HashMap<usize, Given>,
    /// For hidden ones.
    hidden: HashSet<usize>,
    /// For hidden ones that refer by value to a number that rows of the table may be given.
    awaited: HashSet<usize>,
    /// For hidden ones that ask for this number.
    asking: HashSet<(usize, i64)>,
}

/// The rows of a table that showed other numbers than they ask for before the merge.
struct Given {
    /// What they show; and what they ask for and show, by what they ask for.
    shown: Vec<i64>,
    asking: Vec<(i64, i64)>,
    /// So many of them, from below, are not affected for their numbers.
    left: usize,
    /// The first of those whose number may change, as far as it was not looked at yet.
    first: Option<(Stamp, Rid)>,
    /// What is the lowest of those that affected rows showed.
    lowest: i64,
}

impl<'a> AffectedRows<'a> {
    /// Rows that ask for the integer key of an affected row, or hold it.
    pub fn rivals_for_id(&mut self, at: usize) -> Result<()> {
        let catalog = self.catalog();
        let table = self.list[at].table;
        let t = &catalog.tables[table];
        let Some(alias) = t.table.renumbers() else { return Ok(()) };
        let Some(id) = self.wanted(t, alias, at) else { return Ok(()) };
        let item = &self.list[at];
        let same = item.old.as_ref().is_some_and(|old| old[alias] == Value::Integer(id));
        let stays = same && item.alive() && !item.news;
        if self.contested && (!stays || item.touched) {
            // A row that is hidden for a number may be given it by the one that this row gets.
            self.hidden_with(table, id)?;
            self.awaiting(table, alias)?;
            if t.table.number_decides() {
                self.numbered(table)?;
            }
        }
        if stays {
            return Ok(());
        }
        if !same {
            self.load_at(table, &Loc::Row(id))?;
        }
        self.shifts(at, alias)
    }

    /// An affected row may get, leave or free a number: adds those that ask for it, and notes who is to follow.
    pub fn shifts(&mut self, at: usize, alias: usize) -> Result<()> {
        let (table, item) = (self.list[at].table, &self.list[at]);
        let t = &self.catalog().tables[table];
        let turn = turn(t, alias, &item.stored);
        let old = item.old.as_ref().and_then(|old| old[alias].as_integer());
        let ids = [self.wanted(t, alias, at), old];
        let given = self.given(table)?;
        given.first = given.first.take().into_iter().chain([turn]).min();
        // Whose turn comes at another time than before, those after him shift too.
        let was_given = old.filter(|old| given.shown.first().is_some_and(|first| old >= first));
        given.lowest = given.lowest.min(was_given.unwrap_or(i64::MAX));
        let asking = ids.into_iter().flatten().flat_map(|id| given.asking(id));
        let asking: Vec<i64> = asking.map(|(_, shown)| *shown).collect();
        asking.into_iter().try_for_each(|id| self.load_at(table, &Loc::Row(id)).map(drop))
    }

    /// Adds the rows whose numbers shift with those of affected ones. Whether there were any.
    pub fn follow_shifts(&mut self) -> Result<bool> {
        let before = self.list.len();
        for table in 0..self.catalog().tables.len() {
            let Some(given) = self.numbers.given.get_mut(&table) else { continue };
            let Some(first) = given.first.take().filter(|_| given.left > 0) else { continue };
            let Some(alias) = self.catalog().tables[table].table.renumbers() else { continue };
            if self.moves_all(table, alias)? {
                self.renumbered(table)?;
            }
            self.given_since(table, alias, &first)?;
        }
        Ok(self.list.len() > before)
    }

    /// Whether the numbers given begin with another one than before, as far as affected rows tell.
    fn moves_all(&self, table: usize, alias: usize) -> Result<bool> {
        let t = &self.catalog().tables[table];
        let Some(given) = self.numbers.given.get(&table) else { return Ok(false) };
        let Some(&first) = given.shown.first() else { return Ok(false) };
        let highest = first - 1;
        if highest > i64::MAX / 2 {
            return Ok(true);
        }
        let mine = (0..self.list.len()).filter(|&at| self.list[at].table == table);
        let asked = mine.filter_map(|at| self.wanted(t, alias, at)).max();
        Ok(match asked.unwrap_or(0).cmp(&highest) {
            Ordering::Greater => true,
            Ordering::Equal => false,
            Ordering::Less if highest <= 0 => false,
            Ordering::Less => {
                !self.facts.has_number(table, highest, &self.known(table, |_| true).except)?
            }
        })
    }

    /// Adds those whose turn does not come before this one.
    fn given_since(&mut self, table: usize, alias: usize, first: &(Stamp, Rid)) -> Result<()> {
        let t = &self.catalog().tables[table];
        loop {
            let given = self.given(table)?;
            let Some(&id) = given.shown[..given.left].last() else { return Ok(()) };
            let lowest = given.lowest;
            if let Some(stored) = self.facts.at(table, &Loc::Row(id))? {
                let before = id < lowest && turn(t, alias, &stored) < *first;
                if before && self.get(table, &stored.rid).is_none() {
                    return Ok(());
                }
                self.load(table, stored)?;
            }
            self.given(table)?.left -= 1;
        }
    }

    /// Adds the rows of a table that show another integer key than they ask for.
    pub fn renumbered(&mut self, table: usize) -> Result<()> {
        let given = self.given(table)?;
        let left = given.shown[..std::mem::take(&mut given.left)].to_vec();
        left.into_iter().try_for_each(|id| self.load_at(table, &Loc::Row(id)).map(drop))
    }

    fn given(&mut self, table: usize) -> Result<&mut Given> {
        Ok(match self.numbers.given.entry(table) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Given::new(self.facts.renumbered(table)?)),
        })
    }

    /// Adds the rows of a table that ask for an integer key and are hidden.
    pub fn hidden_with(&mut self, table: usize, id: i64) -> Result<()> {
        if !self.numbers.asking.insert((table, id)) {
            return Ok(());
        }
        let hidden = self.facts.hidden_asking(table, Some(id))?;
        hidden.into_iter().try_for_each(|entry| self.load_entry(entry))
    }

    /// Adds the rows that decide which row of a table is given a number to which an affected one refers by value.
    pub fn givers(&mut self, table: usize, id: i64) -> Result<()> {
        let t = &self.catalog().tables[table];
        if !self.contested || t.table.renumbers().is_none() || self.numbers.hidden.contains(&table)
        {
            return Ok(());
        }
        let highest = self.known(table, |_| true).highest()?;
        if id <= highest && highest < i64::MAX {
            return Ok(());
        }
        self.numbered(table)
    }

    /// Adds all rows of a table that are given numbers, and those that would be if they were shown.
    fn numbered(&mut self, table: usize) -> Result<()> {
        if !self.numbers.hidden.insert(table) {
            return Ok(());
        }
        self.renumbered(table)?;
        let hidden = self.facts.hidden_asking(table, None)?;
        hidden.into_iter().try_for_each(|entry| self.load_entry(entry))
    }

    /// Adds the hidden rows that refer by value to numbers which rows of a table could be given before
    /// this merge, or can be now: those past all that any other row asks for.
    fn awaiting(&mut self, table: usize, alias: usize) -> Result<()> {
        if !self.numbers.awaited.insert(table) {
            return Ok(());
        }
        let catalog = self.catalog();
        let lowest = match self.known(table, |item| !item.news && !item.touched).highest()? {
            i64::MAX => 0,
            highest => highest,
        };
        let bytes = |id| encode_values([(&Value::Integer(id), &Collation::Binary)]);
        let (after, last) = (bytes(lowest.saturating_add(1)), bytes(-1));
        for (child, f) in catalog.references_to(table) {
            let c = &catalog.tables[child];
            if c.table.foreign_keys[f].parent_columns[0] != alias {
                continue;
            }
            let index = dangling_index(&c.key_names[f]);
            let entries = self.facts.waiting_among(child, &index, &after..&last)?;
            entries.into_iter().try_for_each(|entry| self.load_entry(entry))?;
        }
        Ok(())
    }

    /// The numbers that the rows of a table ask for, of affected ones only those that count.
    pub fn known(&self, table: usize, counts: impl Fn(&AffectedRow) -> bool) -> Known<'a> {
        let t = &self.catalog().tables[table];
        let all = || self.list.iter().enumerate().filter(|(_, item)| item.table == table);
        let alias = t.table.rowid_alias();
        let asks =
            |(at, item): (usize, &AffectedRow)| self.wanted(t, alias?, at).filter(|_| counts(item));
        Known {
            facts: self.facts,
            table,
            except: Except {
                places: all().filter_map(|(_, item)| item.stored.loc.clone()).collect(),
                entries: all().filter_map(|(_, item)| item.stored.entry).collect(),
            },
            wanted: all().filter_map(asks).collect(),
        }
    }

    /// Whether no row shows an integer key, not even one that is about to be hidden.
    pub fn is_free(&self, table: usize, id: i64) -> Result<bool> {
        Ok(self.facts.at(table, &Loc::Row(id))?.is_none())
    }

    /// The integer key that an affected row asks for.
    pub fn wanted(&self, t: &Relation, alias: usize, at: usize) -> Option<i64> {
        let group = t.table.columns[alias].group;
        let i = t.table.groups[group].columns.iter().position(|&c| c == alias)?;
        stored(&self.list[at].cells[group].values[i], Affinity::Integer).as_integer()
    }
}

impl Given {
    /// Of rows that show and ask for these numbers.
    fn new(mut rows: Vec<(i64, i64)>) -> Given {
        rows.sort_unstable();
        let (shown, left) = (rows.iter().map(|row| row.0).collect(), rows.len());
        let mut asking: Vec<_> = rows.into_iter().map(|(shown, asks)| (asks, shown)).collect();
        asking.sort_unstable();
        Given { shown, asking, left, first: None, lowest: i64::MAX }
    }

    /// Those that ask for a number, with what they show.
    fn asking(&self, id: i64) -> &[(i64, i64)] {
        let from = self.asking.partition_point(|(asks, _)| *asks < id);
        let many = self.asking[from..].partition_point(|(asks, _)| *asks == id);
        &self.asking[from..from + many]
    }
}

/// When a row is given its number: since when it asks for it, and which one of a time it is (R-REMAP).
pub fn turn(t: &Relation, alias: usize, stored: &Stored) -> (Stamp, Rid) {
    let group = &stored.state.groups[t.table.columns[alias].group];
    (group.stamp.max(stored.state.header.yielded), stored.rid.clone())
}
