//! What an affected row shows: what it holds, with the keys of the rows to which its references are.

use super::answers::alone;
use super::round::Round;
use super::{Attempt, Fallback};
use crate::Result;
use crate::affected::{AffectedRow, dangling_index, written};
use crate::catalog::{Loc, Relation};
use crate::equal;
use crate::protect::stale;
use crate::refs;
use crate::schema::{Action, Affinity, ForeignKey};
use crate::state::Stored;
use std::borrow::Cow;
use std::collections::BTreeSet;
use synqlite_wire::{Cell, Rid, Value};

/// What an affected row shows, and the groups of it that show something else than was written, as
/// [`Round`] has them.
#[derive(Default)]
pub struct Displayed {
    pub row: Vec<Value>,
    nulled: BTreeSet<usize>,
    unexpected: bool,
    overridden: BTreeSet<usize>,
    lent: Vec<(String, Vec<u8>)>,
}

/// A reference that an affected row shows: by its foreign key `f`, in group `g`.
struct Reference<'c> {
    f: usize,
    fk: &'c ForeignKey,
    g: usize,
    rid: &'c Rid,
}

/// What becomes of a reference.
enum Fate {
    /// It shows the key of its row.
    Followed,
    /// Nothing keeps it, and its row is not there.
    Loose,
    /// Its row has another key, which counts as an update.
    Overridden,
    /// Its row is gone, or began another life.
    Ended,
}

impl Attempt<'_, '_> {
    /// What an affected row asks to show, where it shows what it was before.
    pub fn asks<'r>(&self, round: &'r Round, at: usize) -> Result<Cow<'r, [Value]>> {
        match round.fallbacks.contains_key(&at) {
            true => Ok(Cow::Owned(self.row(round, at, &Fallback::new())?.row)),
            false => Ok(Cow::Borrowed(&round.rows[&at])),
        }
    }

    /// Displays all live affected rows until references among them agree.
    pub fn display(&self, round: &mut Round, live: &[usize]) -> Result<()> {
        let none = Fallback::new();
        // A key can be a reference itself.
        let catalog = self.affected.catalog();
        let passes = match catalog.refer_to_themselves(&round.tables) {
            true => catalog.longest_chain(&round.tables) + 1,
            false => 1,
        };
        for _ in 0..passes {
            let mut changed = false;
            for &at in live {
                let fallback = round.fallbacks.get(&at).map_or(&none, |(groups, _)| groups);
                let Displayed { row, nulled, unexpected, overridden, lent } =
                    self.row(round, at, fallback)?;
                round.nulled.remove(&at);
                round.unexpected.remove(&at);
                round.overridden.remove(&at);
                round.lent.remove(&at);
                if unexpected {
                    round.unexpected.insert(at);
                }
                if !nulled.is_empty() {
                    round.nulled.insert(at, nulled);
                }
                if !overridden.is_empty() {
                    round.overridden.insert(at, overridden);
                }
                if !lent.is_empty() {
                    round.lent.insert(at, lent);
                }
                changed |= round.rows.get(&at) != Some(&row);
                round.rows.insert(at, row);
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }

    /// What an affected row shows.
    pub fn row(&self, round: &Round, at: usize, fallback: &Fallback) -> Result<Displayed> {
        let item = &self.affected.list[at];
        let t = &self.affected.catalog().tables[item.table];
        let mut row = vec![Value::Null; t.table.columns.len()];
        for (g, group) in t.table.groups.iter().enumerate() {
            let values = &cell_shown(item, g, fallback).values;
            group.columns.iter().zip(values).for_each(|(&c, v)| row[c] = v.clone());
        }
        item.sums.iter().for_each(|(c, sum)| row[*c] = sum.clone());
        if let (Some(alias), Some(id)) = (t.table.rowid_alias(), round.ids.get(&at)) {
            row[alias] = Value::Integer(*id);
        }
        let mut shown = Displayed { row, ..Displayed::default() };
        self.show_references(round, at, fallback, &mut shown)?;
        // Of two foreign keys that share a column one may show the key of the other's row.
        for to in references(item, t, fallback).filter(|to| !alone(t, to.f)) {
            if self.visible(round, to.fk, to.rid) == Some(true) {
                let shows = match self.is_itself(at, to.fk, to.rid) {
                    true => refers_to_own_key(to.fk, &shown.row),
                    false => self.shows_key_of(round, to.fk, to.rid, &shown.row)?,
                };
                if !shows {
                    shown.overridden.insert(to.g);
                }
            }
        }
        // A column of another type than that of the site that wrote stores the value otherwise.
        for (value, column) in shown.row.iter_mut().zip(&t.table.columns) {
            if let Some(other) = equal::converted(value, column.affinity) {
                *value = other;
            }
        }
        Ok(shown)
    }

    /// Shows what becomes of the references of an affected row.
    fn show_references(
        &self,
        round: &Round,
        at: usize,
        fallback: &Fallback,
        shown: &mut Displayed,
    ) -> Result<()> {
        let item = &self.affected.list[at];
        let t = &self.affected.catalog().tables[item.table];
        let (mut followed, mut own) = (vec![], BTreeSet::<usize>::new());
        for to in references(item, t, fallback) {
            let Reference { fk, g, rid, .. } = to;
            match self.fate(round, at, &to, fallback.contains(&g)) {
                Fate::Followed => {
                    let itself = self.is_itself(at, fk, rid);
                    match itself {
                        true => show_own(t, fk, &mut shown.row),
                        false => self.follow(round, t, fk, rid, &mut shown.row)?,
                    }
                    own.extend(fk.columns.iter().filter(|_| itself));
                    followed.push((fk, rid, itself));
                    if self.stands_in(fk, rid) {
                        shown.overridden.insert(g);
                    }
                }
                // It shows the key that its row had last, or what was written as long as nobody knows the row.
                Fate::Loose => {
                    self.follow(round, t, fk, rid, &mut shown.row)?;
                    shown.overridden.insert(g);
                    self.withhold(round, item.table, &to, shown)?;
                }
                Fate::Overridden => {
                    if self.act(fk.on_update, item.table, fk, &mut shown.row)? {
                        shown.overridden.insert(g);
                    }
                }
                Fate::Ended => {
                    if self.act(fk.on_delete, item.table, fk, &mut shown.row)? {
                        shown.unexpected |= self.unexpected(round, at, fk, rid);
                        shown.nulled.insert(g);
                    }
                }
            }
        }
        self.loosen(round, at, shown);
        // What refers to its own row shows the key that this has in the end, not the one of the last round; who
        // shares a column with it follows in turn.
        for (fk, rid, itself) in followed {
            match itself {
                true => show_own(t, fk, &mut shown.row),
                false if fk.columns.iter().any(|c| own.contains(c)) => {
                    self.follow(round, t, fk, rid, &mut shown.row)?;
                }
                false => {}
            }
        }
        Ok(())
    }

    /// R-OWN: a reference that is not kept, to a row that is not there, shows NULL, or the number that it
    /// showed here until now. No other row gets that. A number that was another row's until a write came
    /// is not shown, for it is that row's for good.
    fn loosen(&self, round: &Round, at: usize, shown: &mut Displayed) {
        let item = &self.affected.list[at];
        let t = &self.affected.catalog().tables[item.table];
        let keys = t.table.foreign_keys.iter().enumerate();
        for (f, fk) in keys.filter(|(_, fk)| !self.affected.enforces(fk)) {
            let there = |rid: &Rid| self.visible(round, fk, rid) == Some(true);
            let reference = item.reference(t, f);
            if !self.is_of_one_site(fk) || reference.is_some_and(there) {
                continue;
            }
            let other = |(key, rid): &(usize, Rid)| *key == f && Some(rid) != reference;
            let ended = item.former.iter().any(other);
            let old = item.old.as_ref().filter(|_| !ended);
            let may_be_null =
                |c: &usize| !t.table.columns[*c].not_null && !t.table.primary_key.contains(c);
            for c in self.columns_of_one_site(fk).filter(may_be_null) {
                let nobodys = item.nobodys.get(&c).or(old.map(|old| &old[c]));
                let now = nobodys.unwrap_or(&Value::Null);
                if !shown.row[c].is_null() && shown.row[c] != *now {
                    shown.row[c] = now.clone();
                    shown.overridden.insert(t.table.columns[c].group);
                }
            }
        }
    }

    /// R-REF: while a row is hidden another may get its number. A reference that waits for the hidden one does
    /// not show that then, for it would be to the other. Who takes the number or leaves it concerns this row.
    fn withhold(
        &self,
        round: &Round,
        table: usize,
        to: &Reference<'_>,
        shown: &mut Displayed,
    ) -> Result<()> {
        let (catalog, fk) = (self.affected.catalog(), to.fk);
        let Some(parent) = catalog.position(&fk.parent) else { return Ok(()) };
        let number = catalog.tables[parent].table.renumbers();
        let ([c], [p]) = (&fk.columns[..], &fk.parent_columns[..]) else { return Ok(()) };
        let Value::Integer(id) = equal::stored(&shown.row[*c], Affinity::Integer) else {
            return Ok(());
        };
        if number != Some(*p) || !self.waits(parent, to.rid)? {
            return Ok(());
        }
        let t = &catalog.tables[table];
        let key = equal::reference_bytes(fk, [&shown.row[*c]]);
        shown.lent.push((dangling_index(&t.key_names[to.f]), key));
        let may_be_null = !t.table.columns[*c].not_null && !t.table.primary_key.contains(c);
        if may_be_null && self.has_number(round, parent, *p, id)? {
            shown.row[*c] = Value::Null;
        }
        Ok(())
    }

    /// Whether a row that is not visible may come back: it was neither deleted nor fell with its parent.
    fn waits(&self, table: usize, rid: &Rid) -> Result<bool> {
        let may_return =
            |stored: &Stored| stored.state.header.alive() && !stored.state.fell_with_parent();
        Ok(match self.meant(table, rid) {
            Some(at) => may_return(&self.affected.list[at].stored),
            None => self.affected.others.get(table, rid)?.is_some_and(|o| may_return(&o.stored)),
        })
    }

    /// Whether a visible row of a table, or one that may be, has this number.
    fn has_number(&self, round: &Round, table: usize, alias: usize, id: i64) -> Result<bool> {
        let there = self.affected.facts.at(table, &Loc::Row(id))?;
        if there.is_some_and(|stored| self.affected.get(table, &stored.rid).is_none()) {
            return Ok(true);
        }
        let of_table = |at: &usize| self.affected.list[*at].table == table;
        Ok(match round.tables.contains(&table) {
            true => round.ids.iter().any(|(at, n)| *n == id && of_table(at)),
            false => {
                let shows = |row: &[Value]| row[alias] == Value::Integer(id);
                self.view.rows.iter().any(|(at, row)| of_table(at) && shows(row))
            }
        })
    }

    /// What becomes of a reference of an affected row. `earlier`: the row falls back to it.
    fn fate(&self, round: &Round, at: usize, to: &Reference<'_>, earlier: bool) -> Fate {
        let Reference { f, fk, rid, .. } = *to;
        let keep = self.affected.enforces(fk);
        let outlived = || keep && fk.on_delete.sets() && !earlier && stale(self.affected, at, f);
        let visible = self.visible(round, fk, rid);
        match visible == Some(true) {
            _ if keep && self.overridden(at, f, rid) => Fate::Overridden,
            true if outlived() => Fate::Ended,
            true => Fate::Followed,
            false if keep => Fate::Ended,
            false => Fate::Loose,
        }
    }

    /// Shows what an action sets the columns of a foreign key to. Whether it sets them.
    fn act(
        &self,
        action: Action,
        table: usize,
        fk: &ForeignKey,
        row: &mut [Value],
    ) -> Result<bool> {
        for &c in &fk.columns {
            row[c] = match action {
                Action::SetNull => Value::Null,
                Action::SetDefault => self.affected.facts.default(table, c)?,
                _ => return Ok(false),
            };
        }
        Ok(true)
    }

    /// R-REF: shows the key that the referenced row shows; a hidden or dead one, what it kept. As it was
    /// written, if that means the same key (R-SPELL).
    fn follow(
        &self,
        round: &Round,
        t: &Relation,
        fk: &ForeignKey,
        rid: &Rid,
        row: &mut [Value],
    ) -> Result<()> {
        self.with_parent(round, fk, rid, |shown| refs::show_key(t, fk, shown, row))
    }

    /// Looks at what the row that a reference is to shows; a hidden or dead one, at what it would.
    pub fn with_parent(
        &self,
        round: &Round,
        fk: &ForeignKey,
        rid: &Rid,
        mut look: impl FnMut(&[Value]),
    ) -> Result<()> {
        let Some(parent) = self.affected.catalog().position(&fk.parent) else { return Ok(()) };
        let shown = |p| round.rows.get(&p).or_else(|| self.view.rows.get(&p));
        match self.meant(parent, rid).and_then(shown) {
            Some(shown) => look(shown),
            None => {
                let catalog = self.affected.catalog();
                let depth = catalog.longest_chain(&(0..catalog.tables.len()));
                if let Some(row) = self.would_show(round, parent, rid, &fk.parent_columns, depth)? {
                    look(&row);
                }
            }
        }
        Ok(())
    }

    /// What a row shows in these columns, or would. What a hidden or dead row keeps of a key that is a
    /// reference is what it showed where it was last seen, which may be another key elsewhere: so there the
    /// key of the row that the reference is to counts.
    fn would_show(
        &self,
        round: &Round,
        table: usize,
        rid: &Rid,
        columns: &[usize],
        depth: usize,
    ) -> Result<Option<Vec<Value>>> {
        let t = &self.affected.catalog().tables[table];
        let item = self.meant(table, rid).map(|p| (p, &self.affected.list[p]));
        let other = match item {
            Some(_) => None,
            None => self.affected.others.get(table, rid)?,
        };
        let mut row = match (item, &other) {
            (Some((p, item)), _) => match round.rows.get(&p).or_else(|| self.view.rows.get(&p)) {
                Some(shown) => return Ok(Some(shown.clone())),
                None => plain(item, t, round.ids.get(&p)),
            },
            (None, Some(other)) => match self.affected.others.row(table, other)? {
                Some(row) if other.stored.loc.is_some() => return Ok(Some(row.to_vec())),
                Some(row) => row.to_vec(),
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let Some(parent) = self.affected.catalog().position(&fk.parent) else { continue };
            let of_key = fk.columns.iter().any(|c| columns.contains(c));
            let state = other.as_ref().map(|other| &other.stored.state);
            let to = match item {
                Some((_, item)) => item.reference(t, f),
                None => state.and_then(|state| state.kept_reference(t, f)),
            };
            let Some(to) = to.filter(|_| of_key && depth > 0) else { continue };
            let above = self.would_show(round, parent, to, &fk.parent_columns, depth - 1)?;
            if let Some(above) = above {
                refs::show_key(t, fk, &above, &mut row);
            }
        }
        Ok(Some(row))
    }

    /// A fallback must itself satisfy the foreign keys.
    pub fn fallback_refers(
        &self,
        round: &Round,
        at: usize,
        fallback: &Fallback,
        row: &[Value],
    ) -> Result<bool> {
        let item = &self.affected.list[at];
        let t = &self.affected.catalog().tables[item.table];
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let Some((g, i)) = t.table.place_of_key(f) else { continue };
            if !self.affected.enforces(fk) || !fallback.contains(&g) {
                continue;
            }
            let cell = cell_shown(item, g, fallback);
            let columns = &t.table.groups[g].columns;
            let null = |c: &usize| {
                let i = columns.iter().position(|x| x == c);
                i.is_some_and(|i| cell.values[i].is_null())
            };
            let rid = cell.refs[i].as_ref();
            let fits = if rid.is_some_and(|rid| self.overridden(at, f, rid)) {
                match fk.key_of(row) {
                    Some(key) => self.anyone_shows(round, (item.table, f), &key)?,
                    None => true,
                }
            } else {
                let rid = rid.filter(|rid| self.visible(round, fk, rid) == Some(true));
                fk.columns.iter().any(null)
                    || match rid {
                        Some(rid) => !alone(t, f) || self.shows_key_of(round, fk, rid, row)?,
                        None => false,
                    }
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The references that an affected row shows.
fn references<'c>(
    item: &'c AffectedRow,
    t: &'c Relation,
    fallback: &'c Fallback,
) -> impl Iterator<Item = Reference<'c>> {
    t.table.foreign_keys.iter().enumerate().filter_map(move |(f, fk)| {
        let (g, i) = t.table.place_of_key(f)?;
        let rid = cell_shown(item, g, fallback).refs[i].as_ref()?;
        Some(Reference { f, fk, g, rid })
    })
}

/// Shows in a row its own key, to which a foreign key of it refers, as the key's columns store it.
fn show_own(t: &Relation, fk: &ForeignKey, row: &mut [Value]) {
    let mut shown = row.to_vec();
    for &c in &fk.parent_columns {
        shown[c] = equal::stored(&row[c], t.table.columns[c].affinity);
    }
    refs::show_key(t, fk, &shown, row);
}

/// Whether a foreign key of a row that refers to its own table has the key of that row.
pub fn refers_to_own_key(fk: &ForeignKey, row: &[Value]) -> bool {
    let bytes = |columns: &[usize]| equal::reference_bytes(fk, columns.iter().map(|&c| &row[c]));
    bytes(&fk.columns) == bytes(&fk.parent_columns)
}

/// The cell that a group shows.
pub fn cell_shown<'c>(item: &'c AffectedRow, g: usize, fallback: &Fallback) -> &'c Cell {
    match &item.stored.state.groups[g].previous {
        Some(previous) if fallback.contains(&g) => previous,
        _ => &item.cells[g],
    }
}

/// What an affected row shows before anything is derived, but for its number.
fn plain(item: &AffectedRow, t: &Relation, id: Option<&i64>) -> Vec<Value> {
    let mut row = written(item, t);
    if let (Some(alias), Some(id)) = (t.table.rowid_alias(), id) {
        row[alias] = Value::Integer(*id);
    }
    row
}
