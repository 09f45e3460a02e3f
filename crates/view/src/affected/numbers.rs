//! Rows that are affected for their integer keys (R-REMAP).
//!
//! A row that does not get the number it asks for gets one past all that are asked for. Until the view
//! hides it, it has that number and shifts the numbers of later ones; and a row that refers to such a
//! number by value is hidden, or is not, for it. So the numbers of hidden rows matter wherever some row
//! refers by value to a number that no row asks for; and wherever a unique key reads the number, for then
//! a row may be hidden with the number that it asks for, and not with one that it is given.

use super::{AffectedRow, AffectedRows, dangling_index};
use crate::Result;
use crate::catalog::{Loc, Relation};
use crate::equal::stored;
use crate::facts::Except;
use crate::remap::{Known, Numbers as _};
use crate::schema::Affinity;
use std::collections::HashSet;
use synqlite_wire::Value;
use synqlite_wire::key::{Collation, encode_values};

/// Tables that have been asked for rows; by position in the catalog.
#[derive(Default)]
pub struct Numbers {
    /// For those that show another number than they ask for.
    renumbered: HashSet<usize>,
    /// For hidden ones.
    hidden: HashSet<usize>,
    /// For hidden ones that refer by value to a number that rows of the table may be given.
    awaited: HashSet<usize>,
    /// For hidden ones that ask for this number.
    asking: HashSet<(usize, i64)>,
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
        self.renumbered(table)
    }

    /// Adds the rows of a table that show another integer key than they ask for.
    pub fn renumbered(&mut self, table: usize) -> Result<()> {
        if !self.numbers.renumbered.insert(table) {
            return Ok(());
        }
        for loc in self.facts.renumbered(table)? {
            self.load_at(table, &loc)?;
        }
        Ok(())
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
