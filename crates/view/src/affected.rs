//! The rows that a merge has to decide on, and how their number grows (R-MAT).
//!
//! A row is affected if its display may change: rows that the join changed, and from there rows that
//! refer to them, are referred to by them, hold a key they want or wait for a key they leave. All
//! other rows keep what they show, so cost follows the change and not the size of the tables.

mod above;
mod aside;
mod cached_parents;
mod numbers;

use crate::catalog::{Catalog, Loc, Relation};
use crate::conflict::ConflictKind;
use crate::counter;
use crate::equal::reference_bytes;
use crate::facts::{self, Facts, Key, Reference, Verdict, Waiting};
use crate::join::Joined;
use cached_parents::CachedParents;
use numbers::Numbers;
pub(crate) use numbers::turn;

use crate::policy::Policies;
use crate::refs;
use crate::schema::{Action, ForeignKey};
use crate::state::{self, Body, GroupState, Stored};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use synqlite_wire::{Cell, Header, Rid, Stamp, Value};

/// A row to decide on.
pub struct AffectedRow {
    /// Position of its table in the catalog.
    pub table: usize,
    /// Its place and its state after the join.
    pub stored: Stored,
    /// Values and references of all its registers; of a counter, its base.
    pub cells: Vec<Cell>,
    /// What its counters show: (column, value).
    pub sums: Vec<(usize, Value)>,
    /// Rows that it referred to before the join without showing it, or by a number of this site alone: (foreign
    /// key, row).
    pub former: Vec<(usize, Rid)>,
    /// Numbers that mean nobody and that its references are to show, by column (R-OWN).
    pub nobodys: BTreeMap<usize, Value>,
    /// What it asked to show before the join while it was hidden.
    pub asked: Option<Vec<Value>>,
    /// What it showed before.
    pub old: Option<Vec<Value>>,
    /// What it shows now.
    pub new: Option<Vec<Value>>,
    /// Why it does not show what its registers say, as the merge found.
    pub conflict: Option<Conflict>,
    /// Identity of the row that won over it.
    pub winner: Option<Rid>,
    /// Groups that show something derived, not their register.
    pub derived: BTreeSet<usize>,
    /// Unique keys that it asks for and does not have: (constraint, key).
    pub claims: Vec<(String, Vec<u8>)>,
    /// Whether the join changed its state.
    pub news: bool,
    /// Whether its entry must be written although its state brought no news.
    pub unsaved: bool,
    /// Whether this site's fold has just written it.
    pub touched: bool,
    /// Whether the rows that refer to it are affected too.
    children: bool,
}

/// Rows that SQLite did not take although the view held them for fit: position of the table, row.
pub type Refused = BTreeSet<(usize, Rid)>;

/// Why a row does not show what its registers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Its kind.
    pub kind: ConflictKind,
    /// The constraint.
    pub constraint: String,
    /// The affected row that won, if another row did.
    pub winner: Option<usize>,
}

impl AffectedRow {
    /// What is wrong with what the row showed before and with what was recorded of it: kind and constraint.
    pub fn difference(&self, recorded: Option<(ConflictKind, String)>) -> Option<String> {
        let conflict = self.conflict.as_ref().map(|c| (c.kind.clone(), c.constraint.clone()));
        match (&self.old, &self.new) {
            (None, Some(_)) => Some("it is hidden, but nothing stands in its way".to_owned()),
            (Some(_), None) => Some("it is shown, but should be hidden".to_owned()),
            (Some(old), Some(new)) if old != new => {
                Some("it shows other values than it should".to_owned())
            }
            _ if recorded != conflict => Some(format!(
                "the record of its conflict says {}, but it should be {}",
                said(recorded),
                said(conflict)
            )),
            _ => None,
        }
    }

    /// What the join made of it, if nothing was shown after all. `place` is where it was.
    pub fn joined(mut self, place: Option<Loc>) -> (usize, Joined) {
        self.stored.loc = place;
        let AffectedRow { table, stored, old, former, asked, .. } = self;
        (table, Joined { stored, old, former, asked })
    }

    /// Whether its state says that it exists.
    pub fn alive(&self) -> bool {
        self.stored.state.header.alive()
    }

    /// Its existence.
    pub fn header(&self) -> &Header {
        &self.stored.state.header
    }

    /// Stamp of the register that holds a column.
    pub fn stamp(&self, t: &Relation, column: usize) -> Stamp {
        self.stored.state.groups[t.table.columns[column].group].stamp
    }

    /// The row that the register of foreign key `f` refers to.
    pub fn reference(&self, t: &Relation, f: usize) -> Option<&Rid> {
        let (group, at) = t.table.place_of_key(f)?;
        self.cells[group].refs[at].as_ref()
    }

    /// The row that foreign key `f` referred to before its last write.
    fn former_reference(&self, t: &Relation, f: usize) -> Option<&Rid> {
        let (group, at) = t.table.place_of_key(f)?;
        self.stored.state.groups[group].previous.as_ref()?.refs[at].as_ref()
    }
}

/// A unique key that an affected row asks for.
pub struct Wanted {
    /// Position of its table.
    pub table: usize,
    /// Position of the index.
    pub index: usize,
    /// The key.
    pub key: Key,
    /// Whether the affected row has shown it until now, so that no other row does.
    pub own: bool,
}

impl Wanted {
    /// All keys of a row.
    pub fn all(table: usize, verdict: &Verdict, own: bool) -> impl Iterator<Item = Wanted> {
        let keys = verdict.keys.iter().enumerate();
        keys.filter_map(move |(index, key)| Some(Wanted { table, index, key: key.clone()?, own }))
    }
}

/// All affected rows of a merge.
pub struct AffectedRows<'a> {
    catalog: &'a Catalog,
    /// What else decides.
    pub policies: &'a Policies,
    /// Who answers what no affected row tells.
    pub facts: &'a dyn Facts,
    /// The rows; others name them by their positions here.
    pub list: Vec<AffectedRow>,
    /// Rows that affected ones refer to and that are not affected.
    pub others: CachedParents<'a>,
    /// Affected rows by table and identity.
    index: Vec<HashMap<Rid, usize>>,
    /// Whether any row of the database waits for another row or a key.
    waits: bool,
    /// Whether any conflict is open.
    pub contested: bool,
    /// Whether any deleted row is shown for the sake of others.
    revived: bool,
    /// What is affected for its integer key.
    pub numbers: Numbers,
    /// Rows up to here have been asked for their neighbours.
    asked: usize,
    /// Unique keys whose rows are affected: (table, index, key).
    keys: HashSet<(usize, usize, Vec<u8>)>,
    /// Rows that SQLite did not take.
    refused: Refused,
    /// Circles of tables whose hidden rows are affected, by the first of them.
    pub circles: HashSet<usize>,
    /// Rows that hang on no other that was ever deleted, though foreign keys would delete them with it.
    standing: HashSet<(usize, Rid)>,
}

impl<'a> AffectedRows<'a> {
    /// No rows yet.
    pub fn new(
        catalog: &'a Catalog,
        policies: &'a Policies,
        facts: &'a dyn Facts,
    ) -> Result<AffectedRows<'a>> {
        let Waiting { any: waits, contested, revived } = facts.waiting()?;
        let (numbers, keys) = (Numbers::default(), HashSet::new());
        let index = catalog.tables.iter().map(|_| HashMap::new()).collect();
        let (list, others, asked) = (vec![], CachedParents::new(catalog, facts), 0);
        Ok(AffectedRows {
            catalog,
            policies,
            facts,
            list,
            others,
            index,
            waits,
            contested,
            revived,
            numbers,
            asked,
            keys,
            refused: Refused::new(),
            circles: HashSet::new(),
            standing: HashSet::new(),
        })
    }

    /// Adds rows that SQLite did not take: they are hidden.
    pub fn refuse(&mut self, rows: &Refused) -> Result<()> {
        for (table, rid) in rows {
            if let Some(stored) = self.facts.of(*table, rid)? {
                self.load(*table, stored)?;
            }
        }
        self.refused.extend(rows.iter().cloned());
        Ok(())
    }

    /// Whether merges keep this foreign key.
    pub fn enforces(&self, fk: &ForeignKey) -> bool {
        fk.enforced && self.policies.enforces_foreign_keys()
    }

    /// Whether SQLite did not take an affected row.
    pub fn is_refused(&self, at: usize) -> bool {
        let item = &self.list[at];
        !self.refused.is_empty() && self.refused.contains(&(item.table, item.stored.rid.clone()))
    }

    /// The tables.
    pub fn catalog(&self) -> &'a Catalog {
        self.catalog
    }

    /// Where a row is among the affected ones, if it is.
    pub fn get(&self, table: usize, rid: &Rid) -> Option<usize> {
        self.index[table].get(rid).copied()
    }

    /// Adds a row. `old` is what it shows.
    pub fn push(
        &mut self,
        table: usize,
        stored: Stored,
        old: Option<Vec<Value>>,
        news: bool,
    ) -> Result<usize> {
        let t = &self.catalog().tables[table];
        let mut cells = Vec::with_capacity(stored.state.groups.len());
        for (g, group) in stored.state.groups.iter().enumerate() {
            cells.push(match (&group.body, &old) {
                (Body::Stored(cell), _) => group.kept(t, g, cell),
                (Body::InTable, Some(old)) => {
                    let cell = refs::cell(t, g, old, |f| self.shown_reference((table, f), old))?;
                    if group.counts.is_empty() { cell } else { group.kept(t, g, &cell) }
                }
                (Body::InTable, None) => {
                    let columns = t.table.groups[g].columns.len();
                    let refs = t.table.groups[g].foreign_keys.len();
                    Cell { values: vec![Value::Null; columns], refs: vec![None; refs] }
                }
            });
        }
        let sum = |(g, group): (usize, &GroupState)| {
            let value = counter::sum(t, g, group, &cells[g])?;
            Some((*t.table.groups[g].columns.first()?, value))
        };
        let sums = stored.state.groups.iter().enumerate().filter_map(sum).collect();
        let at = self.list.len();
        self.index[table].insert(stored.rid.clone(), at);
        self.list.push(AffectedRow {
            table,
            stored,
            cells,
            sums,
            former: vec![],
            nobodys: BTreeMap::new(),
            asked: None,
            old,
            new: None,
            conflict: None,
            winner: None,
            derived: BTreeSet::new(),
            claims: vec![],
            news,
            unsaved: false,
            touched: false,
            children: false,
        });
        Ok(at)
    }

    /// Adds a row that this site has just written, with the rows that wait for keys it shows.
    pub fn touched(&mut self, table: usize, stored: Stored) -> Result<usize> {
        let at = self.load(table, stored)?;
        self.list[at].touched = true;
        if !self.contested {
            return Ok(at);
        }
        if let Some(old) = self.list[at].old.clone() {
            self.left(table, &old)?;
        }
        Ok(at)
    }

    /// Adds the hidden rows that a key of a row with these values concerns.
    pub fn left(&mut self, table: usize, row: &[Value]) -> Result<()> {
        let names = &self.catalog().tables[table].unique_names;
        for (u, key) in self.facts.verdict(table, row)?.keys.into_iter().enumerate() {
            if let Some(key) = key {
                self.waiting_for_key(table, &names[u], &key.canonical)?;
            }
        }
        self.answered(table, row)
    }

    /// Adds the deleted rows that are shown for the sake of rows of a table, or of what these refer to, and to
    /// which no living one refers any more by what it shows; and those to which rows refer that may fall with them.
    pub fn unneeded(&mut self, table: usize) -> Result<()> {
        self.catalog().above(table).into_iter().try_for_each(|table| self.unneeded_by(table))
    }

    fn unneeded_by(&mut self, child: usize) -> Result<()> {
        let catalog = self.catalog();
        let c = &catalog.tables[child];
        let may_fall = c.table.foreign_keys.iter().any(|fk| fk.on_delete == Action::Cascade);
        for (f, fk) in c.table.foreign_keys.iter().enumerate().filter(|(_, fk)| fk.enforced) {
            let Some(parent) = catalog.position(&fk.parent) else { continue };
            for entry in self.facts.revived(parent)? {
                let Some((_, stored)) = self.facts.entry(entry)? else { continue };
                let Some(loc) = &stored.loc else { continue };
                let Some(row) = self.facts.shown(parent, loc)? else { continue };
                let key: Vec<Value> = fk.parent_columns.iter().map(|&p| row[p].clone()).collect();
                let mut needed = false;
                for loc in self.facts.referring((child, f), &key)? {
                    let child = self.facts.at(child, &loc)?;
                    needed |= child.is_some_and(|child| child.state.header.alive());
                }
                if !needed || may_fall {
                    self.load(parent, stored)?;
                }
            }
        }
        Ok(())
    }

    /// Adds a row as it is.
    pub fn load(&mut self, table: usize, stored: Stored) -> Result<usize> {
        if let Some(at) = self.get(table, &stored.rid) {
            return Ok(at);
        }
        let old = match &stored.loc {
            Some(loc) => {
                let t = &self.catalog().tables[table];
                let gone = || state::unnoticed(t, loc);
                Some(self.facts.shown(table, loc)?.ok_or_else(gone)?)
            }
            None => None,
        };
        self.push(table, stored, old, false)
    }

    /// The visible row at `loc` becomes affected.
    pub fn load_at(&mut self, table: usize, loc: &Loc) -> Result<Option<usize>> {
        let Some(stored) = self.facts.at(table, loc)? else { return Ok(None) };
        if let Some(at) = self.get(table, &stored.rid) {
            return Ok(Some(at));
        }
        let Some(old) = self.facts.shown(table, loc)? else { return Ok(None) };
        self.push(table, stored, Some(old), false).map(Some)
    }

    /// Adds the rows on which the affected rows depend by state alone.
    pub fn neighbours(&mut self) -> Result<()> {
        loop {
            while self.asked < self.list.len() {
                let at = self.asked;
                self.asked += 1;
                self.parents(at)?;
                self.rivals_for_id(at)?;
                self.aside_in_circle(at)?;
                if self.may_move_children(at)? {
                    self.children(at)?;
                }
            }
            if !self.follow_shifts()? {
                return Ok(());
            }
        }
    }

    /// Whether what the affected row becomes can change what the rows that refer to it show.
    fn may_move_children(&self, at: usize) -> Result<bool> {
        let item = &self.list[at];
        let Some(old) = &item.old else {
            // A row that was dead for long brings its children along only if it is shown again. They
            // may be what it is shown for, if it waits.
            let waits = match item.stored.entry.filter(|_| self.contested) {
                Some(entry) => self.facts.is_open(entry)?,
                None => false,
            };
            return Ok(item.alive() || item.news || item.touched || waits);
        };
        if !item.alive() || item.touched || item.news && !item.header().reinserted.is_zero() {
            return Ok(true);
        }
        // A later write of the key overrides references, even if the key is what it was.
        if item.news && self.catalog().references_to(item.table).any(|key| self.overrides(key)) {
            return Ok(true);
        }
        let t = &self.catalog().tables[item.table];
        let own = t.table.own_number();
        let moved = |(&c, v): (&usize, &Value)| Some(c) != own && old[c] != *v;
        let row = written(item, t);
        Ok(t.referred.iter().map(|c| (c, &row[*c])).any(moved))
    }

    /// Whether R-FK-ONUPDATE is of a foreign key of a table.
    fn overrides(&self, (table, f): (usize, usize)) -> bool {
        let fk = &self.catalog().tables[table].table.foreign_keys[f];
        fk.on_update.sets()
    }

    /// Parents that are dead, hidden or revived; their fate and this row's depend on each other.
    fn parents(&mut self, at: usize) -> Result<()> {
        let catalog = self.catalog();
        let table = self.list[at].table;
        let t = &catalog.tables[table];
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let Some(parent) = catalog.position(&fk.parent) else { continue };
            let reference = self.list[at].reference(t, f).cloned();
            let shown = match &self.list[at].old {
                Some(old) => self.shown_reference((table, f), old)?,
                None => None,
            };
            let restricts = matches!(fk.on_delete, Action::Restrict | Action::NoAction);
            if restricts && (shown != reference || !self.list[at].alive()) {
                // It may be there for this one alone, though it was not deleted itself.
                shown.iter().try_for_each(|rid| self.above(parent, rid))?;
            }
            let mut rids: Vec<Rid> = reference.into_iter().chain(shown).collect();
            let former = self.list[at].former.iter().filter(|(key, _)| *key == f);
            rids.extend(former.map(|(_, rid)| rid.clone()));
            let follows = self.overrides((table, f));
            if follows {
                rids.extend(self.list[at].former_reference(t, f).cloned());
            }
            for rid in rids {
                if self.get(parent, &rid).is_some() {
                    continue;
                }
                let Some(other) = self.others.get(parent, &rid)? else { continue };
                let stored = &other.stored;
                // It may be there, and a row above it, only because this one refers to it.
                let below = self.revived && !catalog.tables[parent].table.foreign_keys.is_empty();
                if !above::stands(stored) || follows || below {
                    self.load(parent, stored.clone())?;
                }
            }
        }
        Ok(())
    }

    /// Rows that refer to an affected row, visible or not.
    pub fn children(&mut self, at: usize) -> Result<()> {
        if std::mem::replace(&mut self.list[at].children, true) {
            return Ok(());
        }
        let catalog = self.catalog();
        let table = self.list[at].table;
        let references: Vec<_> = catalog.references_to(table).collect();
        for (child, f) in references {
            let c = &catalog.tables[child];
            let fk = &c.table.foreign_keys[f];
            let Some(old) = &self.list[at].old else { continue };
            let Some(key) = fk.parent_key(old) else { continue };
            for loc in self.facts.referring((child, f), &key)? {
                self.load_at(child, &loc)?;
            }
        }
        if !self.waits {
            return Ok(());
        }
        self.answered(table, &written(&self.list[at], &catalog.tables[table]))?;
        if let Some(old) = self.list[at].old.clone() {
            self.answered(table, &old)?;
        }
        let waiting = self.facts.waiting_for_row(table, &self.list[at].stored.rid)?;
        waiting.into_iter().try_for_each(|entry| self.load_entry(entry))
    }

    /// Adds rows below those past the first `before`, as many as there were, and those with which these contend for
    /// numbers and, if they are to be checked, unique keys. Where each row of a chain hangs on the one before, or has
    /// the key that another asks for, every view would reach one row further: so it looks twice as far each time, and
    /// affects at most twice as many rows as it has to.
    pub fn descend(&mut self, before: usize, check_keys: bool) -> Result<()> {
        let mut at = before;
        while at < self.list.len() && self.list.len() < 2 * before {
            if self.catalog().is_in_circle(self.list[at].table) {
                self.children(at)?;
            }
            if check_keys {
                self.rivals_for_keys_of(at)?;
                if let Some(old) = self.list[at].old.clone().filter(|_| self.contested) {
                    self.left(self.list[at].table, &old)?;
                }
            }
            self.neighbours()?;
            at += 1;
        }
        Ok(())
    }

    /// Adds the hidden rows that refer, by value alone, to the key that this row has or had.
    pub fn answered(&mut self, table: usize, row: &[Value]) -> Result<()> {
        if !self.contested {
            return Ok(());
        }
        let references: Vec<_> = self.catalog().references_to(table).collect();
        for (child, f) in references {
            let c = &self.catalog().tables[child];
            let fk = &c.table.foreign_keys[f];
            let key = reference_bytes(fk, fk.parent_columns.iter().map(|&p| &row[p]));
            self.waiting_for_key(child, &dangling_index(&c.key_names[f]), &key)?;
        }
        Ok(())
    }

    /// The row to which foreign key `.1` of a row of table `.0`, which shows `row`, refers by its value.
    pub fn shown_reference(&self, reference: Reference, row: &[Value]) -> Result<Option<Rid>> {
        facts::reference(self.facts, self.catalog, reference, row)
    }

    /// Adds the row of an entry.
    pub fn load_entry(&mut self, entry: i64) -> Result<()> {
        if let Some((table, stored)) = self.facts.entry(entry)? {
            self.load(table, stored)?;
        }
        Ok(())
    }

    /// Adds the rows that have or want a unique key which an affected row writes. The view would tell of them,
    /// and of more: this spares computing it once without them.
    pub fn rivals_for_keys(&mut self) -> Result<()> {
        (0..self.list.len()).try_for_each(|at| self.rivals_for_keys_of(at))
    }

    fn rivals_for_keys_of(&mut self, at: usize) -> Result<()> {
        let (item, catalog) = (&self.list[at], self.catalog());
        if !item.alive() {
            return Ok(());
        }
        let row = written(item, &catalog.tables[item.table]);
        let own = item.old.as_ref() == Some(&row);
        let verdict = self.facts.verdict(item.table, &row)?;
        Wanted::all(item.table, &verdict, own).try_for_each(|wanted| self.rivals_for_key(&wanted))
    }

    /// Adds the rows that have or want a unique key.
    pub fn rivals_for_key(&mut self, wanted: &Wanted) -> Result<()> {
        let Wanted { table, index, key, own } = wanted;
        if !self.keys.insert((*table, *index, key.canonical.clone())) {
            return Ok(());
        }
        if !own && let Some(loc) = self.facts.holder(*table, *index, key)? {
            self.load_at(*table, &loc)?;
        }
        let names = &self.catalog().tables[*table].unique_names;
        self.waiting_for_key(*table, &names[*index], &key.canonical)
    }

    /// Refuses the first of a few rows that asks for a unique key of a row which the merge does not
    /// bring, as SQLite would in the end: where many collide this is known soon.
    pub fn foresee(&self) -> Result<()> {
        const FEW: usize = 32;
        let catalog = self.catalog();
        for item in self.list.iter().filter(|item| item.alive()).take(FEW) {
            let t = &catalog.tables[item.table];
            let row = written(item, t);
            let moves = |c: &usize| item.old.as_ref().is_none_or(|old| old[*c] != row[*c]);
            if !t.table.uniques.iter().any(|u| u.columns.iter().any(moves)) {
                continue;
            }
            let keys = self.facts.verdict(item.table, &row)?.keys.into_iter().enumerate();
            for ((u, key), name) in keys.zip(&t.unique_names) {
                let Some(key) = key else { continue };
                let Some(loc) = self.facts.holder(item.table, u, &key)? else { continue };
                let holder = self.facts.at(item.table, &loc)?;
                if holder.is_some_and(|other| self.get(item.table, &other.rid).is_none()) {
                    let what = format!("{name}: another row has the key");
                    return Err(Error::Constraint { table: t.table.name.clone(), what });
                }
            }
        }
        Ok(())
    }

    /// Adds the rows that wait for a key which an affected row no longer has.
    pub fn waiting_for_key(&mut self, table: usize, index: &str, key: &[u8]) -> Result<()> {
        let entries = self.facts.waiting_for_key(table, index, key)?;
        entries.into_iter().try_for_each(|entry| self.load_entry(entry))
    }
}

/// What an affected row shows before anything is derived.
pub fn written(item: &AffectedRow, t: &Relation) -> Vec<Value> {
    let mut row = vec![Value::Null; t.table.columns.len()];
    for (group, cell) in t.table.groups.iter().zip(&item.cells) {
        group.columns.iter().zip(&cell.values).for_each(|(&c, v)| row[c] = v.clone());
    }
    row
}

/// Under this name, as of an index of its table, a hidden row asks for a key that it would show in a
/// foreign key, by value alone. Whether some row has the key is a part of why it is hidden.
pub fn dangling_index(foreign_key: &str) -> String {
    format!("fk {foreign_key}")
}

fn said(record: Option<(ConflictKind, String)>) -> String {
    record.map_or("nothing".to_owned(), |(kind, constraint)| format!("{kind} of `{constraint}`"))
}
