//! A replica in memory: it answers the view from maps, and shows what merges bring as the engine does it in
//! a file. What SQLite says of single rows it asks a [`RowValidator`].
//!
//! It holds every row that it shows against every constraint, and fails where one is broken.

use crate::affected::{AffectedRow, AffectedRows};
use crate::catalog::{Catalog, Loc, Relation, place_of_key};
use crate::conflict::ConflictKind;
use crate::equal::{means_none, reference_bytes};
use crate::facts::{Except, Facts, Key, Reference, Verdict, Waiting, reference};
use crate::join::{Joined, is_later, kept as referred, take};
use crate::policy::Policies;
use crate::schema::{ForeignKey, TableKind};
use crate::state::{Body, RowState, Stored};
use crate::{Error, Result, refs};
use crate::{kept, view};
use std::collections::BTreeMap;
use std::ops::Range;
use synqlite_wire::{Header, Register, Rid, RowChange, SiteId, Stamp, Value};

/// Who says of single rows what SQLite would.
pub trait RowValidator {
    /// Whether a row meets the constraints on single rows of its table, and its unique keys.
    fn row(&self, t: &Relation, row: &[Value]) -> Result<Verdict>;
    /// The value of a column's DEFAULT clause.
    fn default(&self, t: &Relation, column: usize) -> Result<Value>;
}

/// What all replicas of one schema share.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The tables.
    pub catalog: &'a Catalog,
    /// What else decides.
    pub policies: &'a Policies,
    /// Who judges rows.
    pub validator: &'a dyn RowValidator,
}

/// Living rows that are shown, by table and identity: their values, and whether some of these are derived.
pub type Seen = BTreeMap<(usize, Rid), (Vec<Value>, bool)>;

/// A row that is known, and what it waits for.
#[derive(Clone)]
struct Entry {
    table: usize,
    stored: Stored,
    references: Vec<(u32, Rid)>,
    claims: Vec<(u32, String, Vec<u8>)>,
    conflict: Option<(ConflictKind, String)>,
    winner: Option<Rid>,
}

impl Entry {
    fn derives(&self) -> bool {
        self.conflict.is_some() || !self.references.is_empty() || !self.claims.is_empty()
    }

    /// The integer key that it asks for and does not show.
    fn wants(&self, t: &Relation) -> Option<i64> {
        self.stored.state.kept_id(t)
    }
}

/// What one row shows, why not what it holds, and who has that.
pub type Outcome = (Option<Vec<Value>>, Option<(ConflictKind, String)>, Option<Rid>);

/// A replica.
#[derive(Clone)]
pub struct Memory<'a> {
    ground: Ground<'a>,
    /// Who it is.
    pub site: SiteId,
    /// Its clock.
    pub clock: i64,
    /// The rows of each table.
    tables: Vec<BTreeMap<Loc, Vec<Value>>>,
    /// Those that are known; the number of an entry is its place.
    entries: Vec<Entry>,
}

impl<'a> Memory<'a> {
    /// One without rows.
    pub fn new(ground: Ground<'a>, site: SiteId) -> Memory<'a> {
        let tables = ground.catalog.tables.iter().map(|_| BTreeMap::new()).collect();
        Memory { ground, site, clock: 0, tables, entries: vec![] }
    }

    /// The table at a position of the catalog.
    pub fn table(&self, table: usize) -> &'a Relation {
        &self.ground.catalog.tables[table]
    }

    /// The tables.
    pub fn catalog(&self) -> &'a Catalog {
        self.ground.catalog
    }

    /// What else decides.
    pub fn policies(&self) -> &'a Policies {
        self.ground.policies
    }

    /// The living rows that are shown.
    pub fn seen(&self) -> Seen {
        let seen = |Entry { table, stored, .. }: &Entry| {
            let row = self.tables[*table][stored.loc.as_ref()?].clone();
            let derived = stored.state.groups.iter().any(|group| group.body != Body::InTable);
            let key = (*table, stored.rid.clone());
            stored.state.header.alive().then_some((key, (row, derived)))
        };
        self.entries.iter().filter_map(seen).collect()
    }

    /// The kind of the conflict of a row.
    pub fn conflict(&self, stored: &Stored) -> Option<&ConflictKind> {
        let (kind, _) = self.entries[stored.entry? as usize].conflict.as_ref()?;
        Some(kind)
    }

    /// A row goes from one place, or comes to one.
    pub fn put_row(&mut self, table: usize, from: Option<&Loc>, to: Option<(Loc, Vec<Value>)>) {
        from.and_then(|from| self.tables[table].remove(from));
        self.tables[table].extend(to);
    }

    /// Saves a row with its state.
    pub fn put(&mut self, table: usize, stored: &mut Stored) {
        let number = stored.entry.map_or(self.entries.len(), |entry| entry as usize);
        stored.entry = Some(number as i64);
        match self.entries.get_mut(number) {
            Some(known) => known.stored = stored.clone(),
            None => self.entries.push(Entry {
                table,
                stored: stored.clone(),
                references: vec![],
                claims: vec![],
                conflict: None,
                winner: None,
            }),
        }
    }

    /// A saved row waits for these rows, and for nothing else.
    pub fn waits_for(&mut self, stored: &Stored, references: Vec<(u32, Rid)>) {
        let entry = &mut self.entries[stored.entry.unwrap_or_default() as usize];
        (entry.references, entry.claims) = (references, vec![]);
        (entry.conflict, entry.winner) = (None, None);
    }

    /// How many tables there are.
    pub fn tables(&self) -> usize {
        self.tables.len()
    }

    /// The rows that a table shows, with where they are.
    pub fn rows(&self, table: usize) -> &BTreeMap<Loc, Vec<Value>> {
        &self.tables[table]
    }

    /// What each row that is known shows, by table and identity.
    pub fn outcomes(&self) -> BTreeMap<(usize, Rid), Outcome> {
        let outcome = |entry: &Entry| {
            let Entry { table, stored, conflict, winner, .. } = entry;
            let row = stored.loc.as_ref().map(|loc| self.tables[*table][loc].clone());
            ((*table, stored.rid.clone()), (row, conflict.clone(), winner.clone()))
        };
        self.entries.iter().map(outcome).collect()
    }

    /// All that it knows.
    pub fn changes(&self) -> Result<Vec<RowChange>> {
        self.entries.iter().map(|entry| self.change(entry)).collect()
    }

    fn change(&self, Entry { table, stored, .. }: &Entry) -> Result<RowChange> {
        let t = self.table(*table);
        let groups = (0u32..).zip(stored.state.groups.iter().enumerate());
        let register = |(group, (g, state)): (u32, (usize, _))| {
            let state: &crate::state::GroupState = state;
            let cell = match (&state.body, &stored.loc) {
                (Body::Stored(cell), _) => cell.clone(),
                (Body::InTable, Some(loc)) => self.cell(*table, g, &self.tables[*table][loc])?,
                (Body::InTable, None) => t.default_cell(g),
            };
            let (previous, pinned, counts) = (state.previous.clone(), state.pinned, vec![]);
            Ok(Register { group, stamp: state.stamp, cell, previous, pinned, counts })
        };
        let registers = groups.map(register).collect::<Result<_>>()?;
        let table = u32::try_from(*table).unwrap_or_default();
        let (rid, header) = (stored.rid.clone(), stored.state.header);
        Ok(RowChange { table, rid, header, registers })
    }

    /// Values and references of a group of a row of a table that shows `row`.
    pub fn cell(&self, table: usize, group: usize, row: &[Value]) -> Result<synqlite_wire::Cell> {
        let catalog = self.ground.catalog;
        refs::cell(self.table(table), group, row, |f| reference(self, catalog, (table, f), row))
    }

    /// Joins rows and shows the result. `table` of a change is a position in the catalog, `group` of a
    /// register one in its groups.
    pub fn merge(&mut self, changes: &[RowChange]) -> Result<()> {
        let mut rows = Vec::new();
        for change in changes {
            rows.extend(self.join(change)?);
        }
        if rows.is_empty() {
            return Ok(());
        }
        let mut check_keys = self.waiting()?.contested;
        loop {
            let mut trial = self.clone();
            match trial.attempt(&rows, check_keys) {
                Ok(()) => {
                    *self = trial;
                    return Ok(());
                }
                Err(Error::Constraint { .. }) if !check_keys => check_keys = true,
                Err(error) => return Err(error),
            }
        }
    }

    /// R-JOIN of a row among replicas of one schema.
    fn join(&self, change: &RowChange) -> Result<Option<(usize, Joined)>> {
        let table = change.table as usize;
        let (t, found) = (self.table(table), self.of(table, &change.rid)?);
        let known = found.is_some();
        let mut stored = found.unwrap_or_else(|| {
            let mut state = RowState::born(t, Stamp::ZERO);
            state.header = Header::NONE;
            Stored { entry: None, rid: change.rid.clone(), loc: None, local_seq: 0, state }
        });
        let old = stored.loc.as_ref().map(|loc| self.tables[table][loc].clone());
        let was = stored.state.header;
        let hidden = known && stored.loc.is_none() && was.alive();
        let asked = hidden.then(|| stored.state.kept_row(t));
        stored.state.header = was.join(&change.header);
        let (mut news, mut former) = (stored.state.header != was, vec![]);
        for register in &change.registers {
            let g = register.group as usize;
            let group = &mut stored.state.groups[g];
            if is_later(group, register) {
                former.extend(referred(t, g, group));
                take(group, register);
                news = true;
            }
        }
        for (g, group) in stored.state.groups.iter_mut().enumerate() {
            if !known && group.body == Body::InTable {
                group.body = Body::Stored(t.default_cell(g));
            }
        }
        Ok(news.then_some((table, Joined { stored, old, former, asked })))
    }

    fn attempt(&mut self, rows: &[(usize, Joined)], check_keys: bool) -> Result<()> {
        let Ground { catalog, policies, .. } = self.ground;
        let mut affected = AffectedRows::new(catalog, policies, &*self)?;
        for (table, joined) in rows {
            let Joined { stored, old, former, asked } = joined.clone();
            let at = affected.push(*table, stored, old, true)?;
            (affected.list[at].former, affected.list[at].asked) = (former, asked);
        }
        for at in 0..affected.list.len() {
            if let Some(asked) = affected.list[at].asked.clone().filter(|_| affected.contested) {
                affected.left(affected.list[at].table, &asked)?;
            }
        }
        if !check_keys {
            affected.foresee()?;
        }
        let view = view::settle(&mut affected, check_keys)?;
        let list = view::decide(affected, view);
        self.show(list)
    }

    /// What `apply` does.
    pub fn show(&mut self, mut list: Vec<AffectedRow>) -> Result<()> {
        for item in &list {
            if let (true, Some(loc)) = (item.old.is_some(), &item.stored.loc)
                && item.old != item.new
            {
                self.tables[item.table].remove(loc);
            }
        }
        let mut order: Vec<usize> = (0..list.len()).collect();
        order.sort_by_key(|&at| list[at].stored.loc.is_none());
        for at in order {
            let item = &mut list[at];
            let Some(new) = item.new.clone().filter(|new| item.old.as_ref() != Some(new)) else {
                item.unsaved |= item.new.is_none() && item.stored.loc.take().is_some();
                continue;
            };
            let loc = self.place(item.table, item.stored.loc.as_ref(), &new)?;
            let keys = self.table(item.table).table.key_columns();
            let anew = item.old.as_ref().is_none_or(|old| keys.iter().any(|&c| old[c] != new[c]));
            let moves = item.old.is_some() || item.stored.loc.as_ref() != Some(&loc);
            item.unsaved |= anew && moves;
            if self.tables[item.table].insert(loc.clone(), new).is_some() {
                return Err(self.broken(item.table, "two rows are in one place"));
            }
            item.stored.loc = Some(loc);
        }
        for item in list.iter().filter(|item| item.old != item.new) {
            self.check(item)?;
        }
        for item in &mut list {
            item.unsaved |= kept::keep(self.ground.catalog, item);
        }
        list.into_iter().for_each(|item| self.save(item));
        Ok(())
    }

    fn place(&self, table: usize, was: Option<&Loc>, row: &[Value]) -> Result<Loc> {
        let t = self.table(table);
        Ok(match (t.table.kind, t.table.rowid_alias()) {
            (TableKind::WithoutRowid, _) => Loc::Key(place(t, row)),
            (_, Some(alias)) => match row[alias] {
                Value::Integer(id) => Loc::Row(id),
                _ => return Err(self.broken(table, "a row has no number")),
            },
            _ => was.cloned().unwrap_or_else(|| {
                let last = self.tables[table].last_key_value();
                last.map_or(Loc::Row(1), |(loc, _)| match loc {
                    Loc::Row(rowid) => Loc::Row(rowid + 1),
                    Loc::Key(_) => Loc::Row(1),
                })
            }),
        })
    }

    fn broken(&self, table: usize, what: &str) -> Error {
        Error::Constraint { table: self.table(table).table.name.clone(), what: what.to_owned() }
    }

    /// Whether every constraint holds for what an affected row shows, and for what refers to what it showed.
    fn check(&self, item: &AffectedRow) -> Result<()> {
        let table = item.table;
        if let Some(new) = &item.new
            && let Some(what) = self.breaks(table, new, item.stored.loc.as_ref())?
        {
            return Err(self.broken(table, &what));
        }
        let Some(old) = &item.old else { return Ok(()) };
        for (child, f) in self.ground.catalog.references_to(table) {
            let fk = &self.table(child).table.foreign_keys[f];
            if let Some(key) = fk.parent_key(old).filter(|_| self.enforces(fk))
                && self.answering((child, f), &key)?.is_empty()
                && !self.referring((child, f), &key)?.is_empty()
            {
                return Err(self.broken(child, &format!("{} dangles", fk.name)));
            }
        }
        Ok(())
    }

    fn enforces(&self, fk: &ForeignKey) -> bool {
        fk.enforced && self.ground.policies.enforces_foreign_keys()
    }

    /// Which constraint a row at a place would break.
    pub fn breaks(&self, table: usize, row: &[Value], at: Option<&Loc>) -> Result<Option<String>> {
        let t = self.table(table);
        let verdict = self.verdict(table, row)?;
        let numberless = t.table.rowid_alias().is_some_and(|c| row[c].as_integer().is_none());
        if numberless || !verdict.valid {
            return Ok(Some("a row does not fit".to_owned()));
        }
        for (key, name) in verdict.keys.iter().enumerate() {
            let Some(name) = name else { continue };
            for (loc, other) in self.tables[table].iter().filter(|(loc, _)| Some(*loc) != at) {
                let theirs = &self.verdict(table, other)?.keys[key];
                if theirs.as_ref().is_some_and(|theirs| theirs.canonical == name.canonical) {
                    return Ok(Some(format!("{} is at {loc:?}", t.unique_names[key])));
                }
            }
        }
        for (f, fk) in t.table.foreign_keys.iter().enumerate().filter(|(_, fk)| self.enforces(fk)) {
            if let Some(key) = fk.key_of(row)
                && self.answering((table, f), &key)?.is_empty()
            {
                return Ok(Some(format!("{} refers to nobody", fk.name)));
            }
        }
        Ok(None)
    }

    fn save(&mut self, mut item: AffectedRow) {
        let catalog = self.ground.catalog;
        let number = item.stored.entry.and_then(|entry| usize::try_from(entry).ok());
        let recorded = number.is_some_and(|n| self.entries[n].conflict.is_some());
        if !(item.news || item.unsaved || item.conflict.is_some() || recorded) {
            return;
        }
        let number = number.unwrap_or(self.entries.len());
        item.stored.entry = i64::try_from(number).ok();
        let waits = kept::waits(catalog, &item);
        let own = |(kind, constraint): (&ConflictKind, &str)| (kind.clone(), constraint.to_owned());
        let claims =
            waits.claims.iter().map(|(no, index, key)| (*no, index.to_string(), key.to_vec()));
        let entry = Entry {
            table: item.table,
            references: waits.references.iter().map(|(no, rid)| (*no, (*rid).clone())).collect(),
            claims: claims.collect(),
            conflict: waits.conflict.map(own),
            winner: waits.winner.cloned().filter(|_| waits.conflict.is_some()),
            stored: item.stored.clone(),
        };
        match self.entries.get_mut(number) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    /// What a merge that looked at all rows would show otherwise, or record.
    pub fn differences(&self) -> Result<Vec<String>> {
        let Ground { catalog, policies, .. } = self.ground;
        let mut affected = AffectedRows::new(catalog, policies, self)?;
        (0..self.entries.len()).try_for_each(|n| affected.load_entry(n as i64))?;
        let view = view::settle(&mut affected, true)?;
        let list = view::decide(affected, view);
        let of = |item: &AffectedRow| {
            let recorded = self.entries[item.stored.entry? as usize].conflict.clone();
            let what = item.difference(recorded)?;
            let (name, rid) = (&self.table(item.table).table.name, &item.stored.rid);
            let (old, new, why) = (&item.old, &item.new, &item.conflict);
            Some(format!("{name} {rid:?}: {what}: {old:?} and {new:?}, {why:?}"))
        };
        Ok(list.iter().filter_map(of).collect())
    }

    /// Numbers of the entries of which something is true.
    fn numbers(&self, is: impl Fn(&Entry) -> bool) -> Result<Vec<i64>> {
        Ok((0..).zip(&self.entries).filter(|(_, entry)| is(entry)).map(|(n, _)| n).collect())
    }
}

/// The place of a row in a table without rowids.
pub fn place(t: &Relation, row: &[Value]) -> String {
    let key: Vec<Value> = t.table.primary_key.iter().map(|&c| row[c].clone()).collect();
    place_of_key(&key, &t.table.key_collations)
}

impl Facts for Memory<'_> {
    fn waiting(&self) -> Result<Waiting> {
        let mut conflicts = self.entries.iter().filter_map(|entry| entry.conflict.as_ref());
        Ok(Waiting {
            any: self.entries.iter().any(Entry::derives),
            contested: self.entries.iter().any(|entry| entry.conflict.is_some()),
            revived: conflicts.any(|(kind, _)| *kind == ConflictKind::RestrictRevived),
        })
    }

    fn of(&self, table: usize, rid: &Rid) -> Result<Option<Stored>> {
        let is = |entry: &&Entry| entry.table == table && entry.stored.rid == *rid;
        Ok(self.entries.iter().find(is).map(|entry| entry.stored.clone()))
    }

    fn at(&self, table: usize, loc: &Loc) -> Result<Option<Stored>> {
        let is = |entry: &&Entry| entry.table == table && entry.stored.loc.as_ref() == Some(loc);
        Ok(self.entries.iter().find(is).map(|entry| entry.stored.clone()))
    }

    fn entry(&self, entry: i64) -> Result<Option<(usize, Stored)>> {
        let entry = self.entries.get(entry as usize);
        Ok(entry.map(|entry| (entry.table, entry.stored.clone())))
    }

    fn shown(&self, table: usize, loc: &Loc) -> Result<Option<Vec<Value>>> {
        Ok(self.tables[table].get(loc).cloned())
    }

    fn answering(&self, (table, f): Reference, key: &[Value]) -> Result<Vec<Loc>> {
        let fk = &self.table(table).table.foreign_keys[f];
        let Some(parent) = self.ground.catalog.position(&fk.parent) else { return Ok(vec![]) };
        if key.iter().zip(&fk.parent_keys).any(|(v, (affinity, _))| means_none(v, *affinity)) {
            return Ok(vec![]);
        }
        let wanted = reference_bytes(fk, key);
        let has = |row: &Vec<Value>| {
            let mut own = fk.parent_columns.iter().map(|&c| &row[c]);
            !own.clone().any(Value::is_null) && reference_bytes(fk, own.by_ref()) == wanted
        };
        let found = self.tables[parent].iter().filter(|(_, row)| has(row));
        Ok(found.map(|(loc, _)| loc.clone()).collect())
    }

    fn referring(&self, (table, f): Reference, key: &[Value]) -> Result<Vec<Loc>> {
        let fk = &self.table(table).table.foreign_keys[f];
        let wanted = reference_bytes(fk, key);
        let refers = |row: &Vec<Value>| {
            let mut own = fk.columns.iter().map(|&c| &row[c]);
            !own.clone().any(Value::is_null) && reference_bytes(fk, own.by_ref()) == wanted
        };
        let found = self.tables[table].iter().filter(|(_, row)| refers(row));
        Ok(found.map(|(loc, _)| loc.clone()).collect())
    }

    fn is_open(&self, entry: i64) -> Result<bool> {
        Ok(self.entries.get(entry as usize).is_some_and(|entry| entry.conflict.is_some()))
    }

    fn derived(&self) -> Result<Vec<i64>> {
        self.numbers(|entry| {
            let wants = entry.wants(self.table(entry.table)).is_some();
            entry.derives() || wants && entry.stored.loc.is_some()
        })
    }

    fn waiting_for_row(&self, table: usize, rid: &Rid) -> Result<Vec<i64>> {
        let no = self.table(table).no;
        self.numbers(|entry| entry.references.iter().any(|(n, r)| *n == no && r == rid))
    }

    fn waiting_for_key(&self, table: usize, index: &str, key: &[u8]) -> Result<Vec<i64>> {
        let no = self.table(table).no;
        let asks = |(n, i, k): &(u32, String, Vec<u8>)| *n == no && i == index && k == key;
        self.numbers(|entry| entry.claims.iter().any(asks))
    }

    fn waiting_among(&self, table: usize, index: &str, keys: Range<&[u8]>) -> Result<Vec<i64>> {
        let no = self.table(table).no;
        let asks = |(n, i, k): &(u32, String, Vec<u8>)| {
            *n == no && i == index && keys.contains(&k.as_slice())
        };
        self.numbers(|entry| entry.claims.iter().any(asks))
    }

    fn renumbered(&self, table: usize) -> Result<Vec<(i64, i64)>> {
        let t = self.table(table);
        let mine = self.entries.iter().filter(|entry| entry.table == table);
        let numbers = mine.map(|entry| match entry.stored.loc {
            Some(Loc::Row(id)) => Some((id, entry.wants(t)?)),
            _ => None,
        });
        Ok(numbers.flatten().collect())
    }

    fn aside(&self, table: usize) -> Result<Vec<i64>> {
        self.numbers(|entry| {
            let Some((kind, _)) = &entry.conflict else { return false };
            let steps = entry.stored.loc.is_none() || *kind == ConflictKind::Fallback;
            entry.table == table && steps
        })
    }

    fn hidden_asking(&self, table: usize, id: Option<i64>) -> Result<Vec<i64>> {
        let t = self.table(table);
        self.numbers(|entry| {
            let wants = (entry.table == table).then(|| entry.wants(t)).flatten();
            let asks = wants.is_some_and(|wants| id.is_none_or(|id| id == wants));
            asks && entry.conflict.is_some() && entry.stored.loc.is_none()
        })
    }

    fn revived(&self, table: usize) -> Result<Vec<i64>> {
        let is = |(kind, _): &(ConflictKind, String)| *kind == ConflictKind::RestrictRevived;
        self.numbers(|entry| entry.table == table && entry.conflict.as_ref().is_some_and(is))
    }

    fn highest(&self, table: usize, except: &Except) -> Result<Option<i64>> {
        let t = self.table(table);
        let entries = (0..).zip(&self.entries);
        let others =
            entries.filter(|(n, entry)| entry.table == table && !except.entries.contains(n));
        let wanted = others.filter_map(|(_, entry)| entry.wants(t)).max();
        let numbers = self.tables[table].keys().filter(|loc| !except.places.contains(loc));
        let shown = numbers.filter_map(|loc| match loc {
            Loc::Row(id) => Some(*id),
            Loc::Key(_) => None,
        });
        Ok(wanted.max(shown.max()))
    }

    /// Its sites show the same numbers.
    fn number_had(&self, _: usize, _: &Rid) -> Result<Option<i64>> {
        Ok(None)
    }

    fn is_kept(&self, _: usize, _: i64) -> Result<bool> {
        Ok(false)
    }

    fn has_number(&self, table: usize, id: i64, except: &Except) -> Result<bool> {
        let (t, place) = (self.table(table), Loc::Row(id));
        let shown = self.tables[table].contains_key(&place) && !except.places.contains(&place);
        let mut entries = (0..).zip(&self.entries);
        Ok(shown
            || entries.any(|(n, entry)| {
                let other = entry.table == table && !except.entries.contains(&n);
                other && entry.wants(t) == Some(id)
            }))
    }

    fn verdict(&self, table: usize, row: &[Value]) -> Result<Verdict> {
        self.ground.validator.row(self.table(table), row)
    }

    fn holder(&self, table: usize, index: usize, key: &Key) -> Result<Option<Loc>> {
        for (loc, row) in &self.tables[table] {
            let own = &self.verdict(table, row)?.keys[index];
            if own.as_ref().is_some_and(|own| own.canonical == key.canonical) {
                return Ok(Some(loc.clone()));
            }
        }
        Ok(None)
    }

    fn default(&self, table: usize, column: usize) -> Result<Value> {
        self.ground.validator.default(self.table(table), column)
    }
}
