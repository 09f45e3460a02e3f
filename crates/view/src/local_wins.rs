//! R-COMP: folding its own changes never removes, reverts or resurrects what a user wrote
//! (INV-LOCAL).
//!
//! Only a row that the user could not see can stand in the way: one that is hidden and has the
//! earlier claim to a key the user has just given to another row, or that protects a row the user
//! has just deleted. Such a row is yielded: its claims count from now. A deleted row that was shown
//! only because another needed it, and no longer does, lives from now on. Rows whose obstacle the user
//! removed come back (R-RETURN). And what a foreign key did to a row is written as if the user had
//! done it, where the row would not show it by itself.
//!
//! This takes rounds, for what one of them writes changes the view. They come to an end because each
//! writes something that no later one writes again. A reference is written once, a row revived once,
//! and of two rows that the user sees one gives way to the other once. A hidden row that gave way has
//! claims later than those of every row the user sees, until one of these is written; so between two
//! such writes it gives way once.

use crate::affected::{self, AffectedRow, AffectedRows, Refused};
use crate::catalog::{Catalog, Relation};
use crate::describe::row_name;
use crate::facts::{Facts, Key};
use crate::known::{called, known_row};
use crate::ledger::Ledger;
use crate::policy::Policies;
use crate::schema::ForeignKey;
use crate::state::{self, Body, GroupState, Stored};
use crate::{Error, Result};
use crate::{protect, view};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::line::certain;
use synqlite_wire::{Rid, Stamp, Value};

/// What an action did to a row that was there at the last fold.
#[derive(Debug, Clone, PartialEq)]
pub enum Acted {
    /// It deleted the row.
    Deleted,
    /// It set references in this group.
    Set(usize),
    /// The same; what told of it was the parent's key, which was pinned with this stamp.
    Pinned(usize, Stamp),
}

/// A row on which a foreign key acted: number of its table, the row, what happened.
pub type ActedOn = (u32, Rid, Acted);

/// What a fold wrote that others may depend on.
#[derive(Default)]
pub struct Wrote {
    /// Rows, by the numbers of their tables.
    pub touched: Vec<(u32, Rid)>,
    /// What rows of a table, by its position, were before: others may wait for their keys.
    pub former: Vec<(usize, Vec<Value>)>,
    /// Rows, by the position of their table, to which hidden ones referred that were written anew.
    pub released: Vec<(usize, Rid)>,
    /// Rows on which foreign keys acted.
    pub acted: Vec<ActedOn>,
    /// Whether constraints are others than when rows began to wait: any of these may be in the way.
    pub anew: bool,
}

impl Wrote {
    /// With what another fold wrote.
    pub fn and(mut self, other: Wrote) -> Wrote {
        self.touched.extend(other.touched);
        self.former.extend(other.former);
        self.released.extend(other.released);
        self.acted.extend(other.acted);
        self.anew |= other.anew;
        self
    }
}

/// Rounds until the view is what the user sees, and shows it.
pub fn attempt(
    ledger: &mut impl Ledger,
    catalog: &Catalog,
    policies: &Policies,
    wrote: &Wrote,
    mut check_keys: bool,
    refused: &mut Refused,
) -> Result<()> {
    let mut rounds = Rounds { acted: wrote.acted.clone(), ..Rounds::default() };
    loop {
        let facts = ledger.facts();
        let mut affected = AffectedRows::new(catalog, policies, &*facts)?;
        let mine = rounds.load(&mut affected, wrote)?;
        affected.refuse(refused)?;
        let view = view::settle(&mut affected, check_keys)?;
        let mut found = rounds.look(&affected, &view, &mine)?;
        if found.nothing() {
            let list = view::decide(affected, view);
            drop(facts);
            return ledger.apply(list, check_keys.then_some(refused));
        }
        if !check_keys {
            // A write stays, so all keys are heard before there is one.
            check_keys = true;
            rounds.acted = wrote.acted.clone();
            continue;
        }
        found.written.extend(following(&mut affected, &found.written)?);
        let writes = rounds.decide(&affected, found)?;
        drop(affected);
        drop(facts);
        let mut saved: BTreeMap<(usize, Rid), Stored> = BTreeMap::new();
        for (table, stored, write) in writes {
            let row = (table, stored.rid.clone());
            rounds.changed.push((catalog.tables[table].no, stored.rid.clone()));
            // Of one row several things may have to be written.
            let mut stored = saved.remove(&row).unwrap_or(stored);
            save(ledger, catalog, table, &mut stored, write)?;
            saved.insert(row, stored);
        }
    }
}

/// What one round finds. Rows are affected ones.
#[derive(Default)]
struct Found {
    /// What foreign keys did, and references that are not shown.
    written: Vec<(usize, Acted)>,
    /// Rows that stand in the way of others: the first in that of the second.
    yielded: BTreeSet<(usize, usize)>,
    /// Deleted rows that the user sees.
    revived: BTreeSet<usize>,
}

impl Found {
    fn nothing(&self) -> bool {
        self.written.is_empty() && self.yielded.is_empty() && self.revived.is_empty()
    }
}

/// Something that a fold writes on its own account.
enum Write {
    Acted(Acted),
    Yielded,
    Revived,
}

/// What the rounds of a fold have done so far. Rows are named by table and identity.
#[derive(Default)]
struct Rounds {
    /// What foreign keys did and no round has written yet.
    acted: Vec<ActedOn>,
    /// Rows that were written: what is recorded of them is found out anew.
    changed: Vec<(u32, Rid)>,
    /// References that were written.
    bound: BTreeSet<(usize, Rid, usize)>,
    /// Rows of which the first was yielded for the second.
    gave_way: BTreeSet<(usize, Rid, Rid)>,
    /// Hidden rows that were yielded since a row which the user sees was written.
    yielded: BTreeSet<(usize, Rid)>,
    /// Rows that were not yielded because one above them was.
    waited: BTreeSet<(usize, Rid)>,
    /// How many there were.
    rounds: u32,
}

/// After so many rounds hidden rows give way many at a time.
const FEW: u32 = 8;

impl Rounds {
    /// Loads the rows that the fold or earlier rounds wrote, and returns those of the fold.
    fn load(&self, affected: &mut AffectedRows<'_>, wrote: &Wrote) -> Result<BTreeSet<usize>> {
        let (catalog, facts) = (affected.catalog(), affected.facts);
        let stored = |no: u32, rid: &Rid| -> Result<Option<(usize, Stored)>> {
            let Some(table) = catalog.position_of_no(no) else { return Ok(None) };
            Ok(facts.of(table, rid)?.map(|stored| (table, stored)))
        };
        let acted = self.acted.iter().map(|(no, rid, _)| (no, rid));
        for (no, rid) in acted.chain(self.changed.iter().map(|(no, rid)| (no, rid))) {
            if let Some((table, stored)) = stored(*no, rid)? {
                affected.load(table, stored)?;
            }
        }
        let mut mine = BTreeSet::new();
        for (no, rid) in &wrote.touched {
            if let Some((table, stored)) = stored(*no, rid)? {
                mine.insert(affected.touched(table, stored)?);
            }
        }
        for (table, row) in &wrote.former {
            affected.left(*table, row)?;
        }
        for (table, rid) in &wrote.released {
            if let Some(stored) = facts.of(*table, rid)? {
                affected.load(*table, stored)?;
            }
        }
        let waiting = if wrote.anew { facts.derived()? } else { vec![] };
        waiting.into_iter().try_for_each(|entry| affected.load_entry(entry))?;
        let tables: BTreeSet<u32> = wrote.touched.iter().map(|(no, _)| *no).collect();
        for table in tables.into_iter().filter_map(|no| catalog.position_of_no(no)) {
            affected.unneeded(table)?;
        }
        Ok(mine)
    }

    /// Where the view is not what the user sees.
    fn look(
        &mut self,
        affected: &AffectedRows<'_>,
        view: &view::View,
        mine: &BTreeSet<usize>,
    ) -> Result<Found> {
        let mut found =
            Found { written: contradicted(affected, view, &mut self.acted), ..Found::default() };
        found.written.extend(unbound(affected, view)?);
        self.forget_bound(affected, &mut found.written);
        if !found.written.is_empty() {
            // What foreign keys did comes first: rows may stand in the way for the want of it.
            return Ok(found);
        }
        for (at, item) in affected.list.iter().enumerate() {
            let shown = view.rows.get(&at);
            let visible = item.alive() || shown.is_some();
            if visible && item.old.is_some() && item.old.as_ref() != shown {
                self.rival(affected, view, at, &mut found)?;
                found.written.extend(derives(affected, view, at)?);
            }
            if !item.alive() && item.old.is_some() && shown.is_none() {
                // It was shown for a row that needed it; the user sees it, so it lives.
                found.revived.insert(at);
            }
            if !item.alive() && mine.contains(&at) && item.old.is_none() && shown.is_some() {
                found.yielded.extend(protectors(affected, at).into_iter().map(|w| (w, at)));
            }
        }
        self.forget_bound(affected, &mut found.written);
        // Those that the user sees may stay where they are once the hidden ones give way.
        let hidden = |&(w, _): &(usize, usize)| affected.list[w].old.is_none();
        if found.yielded.iter().any(hidden) {
            found.yielded.retain(hidden);
        }
        Ok(found)
    }

    /// Who makes a row that the user sees lose, and is not seen so by the user.
    fn rival(
        &self,
        affected: &AffectedRows<'_>,
        view: &view::View,
        at: usize,
        found: &mut Found,
    ) -> Result<()> {
        let winner = view.conflicts.get(&at).and_then(|c| c.winner).into_iter();
        let others = view.blockers.get(&at).into_iter().flatten().copied();
        let mut rivals = winner.chain(takes_number(affected, view, at)).chain(others);
        let rival = rivals.find(|w| {
            let shown = view.rows.get(w);
            shown.is_none() || affected.list[*w].old.as_ref() != shown
        });
        let rival = match rival {
            None => {
                let mut waiting = self.displaces(affected, view, at)?.into_iter();
                let first = waiting.next();
                found.yielded.extend(waiting.map(|w| (w, at)));
                first
            }
            found => found,
        };
        let Some(w) = rival else {
            // What it refers to without showing it may show something on the way that does not fit; and so
            // may what it asks for itself.
            if !view.rows.contains_key(&at) {
                found.written.extend(unshown_of(affected, at, |_| true)?);
                found.written.extend(former(affected, at));
                // Or the row to which it is gets its own key back, which does not fit here, or has it on the
                // way; so where that is the key of yet another to which a reference is that nothing keeps.
                let t = &affected.catalog().tables[affected.list[at].table];
                for p in
                    (0..t.table.foreign_keys.len()).filter_map(|f| protect::parent(affected, at, f))
                {
                    let old = &affected.list[p].old;
                    let moves = old.as_ref().is_some_and(|old| view.rows.get(&p) != Some(old));
                    if moves {
                        found.written.extend(settled(affected, p));
                    }
                    found.written.extend(unshown_of(affected, p, |fk| moves || fk.enforced)?);
                }
            }
            return Ok(());
        };
        let gave = self.gave_way.contains(&pair(affected, at, w));
        let again =
            affected.list[w].old.is_some() && self.gave_way.contains(&pair(affected, w, at));
        if gave || again {
            let mut own = unshown(affected, at)?;
            self.forget_bound(affected, &mut own);
            if own.is_empty() {
                found.written.extend(unshown(affected, w)?);
                found.written.extend(settled(affected, w));
            }
            found.written.extend(own);
        } else {
            found.yielded.insert((w, at));
        }
        Ok(())
    }

    /// Hidden rows that ask for the number or a unique key of a visible one, where nobody won against the row
    /// that the user sees: until one is hidden that one has another, and what refers to it, or has the other,
    /// may not fit. One, and more where many rounds went by: each costs as much as all rows together.
    fn displaces(
        &self,
        affected: &AffectedRows<'_>,
        view: &view::View,
        at: usize,
    ) -> Result<Vec<usize>> {
        let catalog = affected.catalog();
        let table = affected.list[at].table;
        let decides = catalog.is_in_circle(table) || catalog.tables[table].table.number_decides();
        if view.rows.contains_key(&at) || !decides {
            return Ok(vec![]);
        }
        let above = catalog.above(table);
        let waits = |w: &usize| {
            let item = &affected.list[*w];
            let hidden = item.alive() && item.old.is_none() && above.contains(&item.table);
            hidden && !self.yielded.contains(&row(affected, *w))
        };
        let mut waiting: Vec<usize> = (0..affected.list.len()).filter(waits).collect();
        waiting.sort_by_cached_key(|&w| row(affected, w));
        let most = 1 << self.rounds.saturating_sub(FEW).min(16);
        let mut found = Vec::new();
        for w in waiting {
            if asks_for_what_is_shown(affected, w)? {
                found.push(w);
                if found.len() == most {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Takes references that were written before off a list.
    fn forget_bound(&self, affected: &AffectedRows<'_>, written: &mut Vec<(usize, Acted)>) {
        written.retain(|(at, acted)| match acted {
            Acted::Set(g) => !self.bound.contains(&group(affected, *at, *g)),
            _ => true,
        });
    }

    /// What to write for it.
    fn decide(
        &mut self,
        affected: &AffectedRows<'_>,
        found: Found,
    ) -> Result<Vec<(usize, Stored, Write)>> {
        self.rounds += 1;
        let Found { written, mut yielded, revived } = found;
        let mut waiting = hanging(affected, yielded.iter().map(|&(w, _)| w).collect());
        // Once: a row that was yielded may be shown under another number, and so on below it.
        waiting.retain(|&w| self.waited.insert(row(affected, w)));
        yielded.retain(|(w, _)| !waiting.contains(w));
        let seen = |w: usize| affected.list[w].old.is_some();
        if !written.is_empty() || !revived.is_empty() || yielded.iter().any(|&(w, _)| seen(w)) {
            self.yielded.clear();
        }
        for &(w, at) in &yielded {
            self.gave_way.insert(pair(affected, w, at));
        }
        let yielded = in_turn(affected, yielded.into_iter().collect());
        // A pin says since when: what it wrote is not written once more as of now.
        let pins = written.iter().filter_map(|(at, acted)| match acted {
            Acted::Pinned(g, _) => Some((*at, *g)),
            _ => None,
        });
        let pins: BTreeSet<(usize, usize)> = pins.collect();
        let again = |(at, acted): &(usize, Acted)| matches!(acted, Acted::Set(g) if pins.contains(&(*at, *g)));
        let mut writes = Vec::new();
        let of = |at: usize| (affected.list[at].table, affected.list[at].stored.clone());
        let mut add = |at: usize, write: Write| {
            let (table, stored) = of(at);
            writes.push((table, stored, write));
        };
        for (at, acted) in written.into_iter().filter(|one| !again(one)) {
            if let Acted::Set(g) = acted {
                self.bound.insert(group(affected, at, g));
            }
            add(at, Write::Acted(acted));
        }
        for (w, at) in yielded {
            if !seen(w) && !self.yielded.insert(row(affected, w)) {
                return Err(in_the_way_again(affected, w, at));
            }
            add(w, Write::Yielded);
        }
        revived.into_iter().for_each(|at| add(at, Write::Revived));
        Ok(writes)
    }
}

/// Whether an affected row asks for the number or a unique key that another visible row of its table shows.
fn asks_for_what_is_shown(affected: &AffectedRows<'_>, w: usize) -> Result<bool> {
    let item = &affected.list[w];
    let t = &affected.catalog().tables[item.table];
    let number = t.table.renumbers().and_then(|alias| affected.wanted(t, alias, w));
    let wanted = affected.facts.verdict(item.table, &affected::written(item, t))?.keys;
    for other in affected.list.iter().filter(|other| other.table == item.table) {
        let Some(old) = &other.old else { continue };
        let shown = t.table.renumbers().and_then(|alias| old[alias].as_integer());
        if shown.is_some() && shown == number {
            return Ok(true);
        }
        let keys = affected.facts.verdict(item.table, old)?.keys;
        let same = |(one, other): (&Option<Key>, &Option<Key>)| match (one, other) {
            (Some(one), Some(other)) => one.canonical == other.canonical,
            _ => false,
        };
        if keys.iter().zip(&wanted).any(same) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A row by table and identity.
fn row(affected: &AffectedRows<'_>, at: usize) -> (usize, Rid) {
    (affected.list[at].table, affected.list[at].stored.rid.clone())
}

/// A group of a row.
fn group(affected: &AffectedRows<'_>, at: usize, g: usize) -> (usize, Rid, usize) {
    let (table, rid) = row(affected, at);
    (table, rid, g)
}

/// A row that was yielded for another.
fn pair(affected: &AffectedRows<'_>, yielded: usize, other: usize) -> (usize, Rid, Rid) {
    let (table, rid) = row(affected, yielded);
    (table, rid, affected.list[other].stored.rid.clone())
}

fn in_the_way_again(affected: &AffectedRows<'_>, w: usize, at: usize) -> Error {
    let name = |at: usize| {
        let item = &affected.list[at];
        let t = &affected.catalog().tables[item.table];
        let (row, stored) = (item.old.as_deref(), &item.stored);
        let known = known_row(&t.table, row, &stored.state, &[]);
        let row = row_name(t, row, stored.loc.as_ref(), &stored.state, &stored.rid);
        (t.table.name.clone(), called(&row, known.as_deref()))
    };
    let ((table, row), (_, rival)) = (name(at), name(w));
    Error::LocalWins { table, row, rival }
}

/// Writes one change of a row.
fn save(
    ledger: &mut impl Ledger,
    catalog: &Catalog,
    table: usize,
    stored: &mut Stored,
    write: Write,
) -> Result<()> {
    let (t, now) = (&catalog.tables[table], ledger.tick());
    let (header, groups) = (&mut stored.state.header, &mut stored.state.groups);
    match &write {
        Write::Acted(Acted::Deleted) => header.delete(now),
        Write::Acted(Acted::Set(g)) => set(&mut groups[*g], t, *g, now),
        Write::Acted(Acted::Pinned(g, at)) if groups[*g].stamp < *at => {
            set(&mut groups[*g], t, *g, *at);
        }
        Write::Acted(Acted::Pinned(g, _)) => set(&mut groups[*g], t, *g, now),
        Write::Yielded => header.yielded = now,
        Write::Revived => header.revive(now),
    }
    ledger.save(table, stored)?;
    let references = match write {
        Write::Yielded => return Ok(()),
        Write::Acted(_) => state::kept_references(catalog, t, stored, false),
        Write::Revived => vec![],
    };
    ledger.wait(stored, references)
}

/// Those of some rows that refer to another of them, directly or through others, and it not to them. They
/// may be hidden with it, and then stand in nobody's way.
fn hanging(affected: &AffectedRows<'_>, of: BTreeSet<usize>) -> BTreeSet<usize> {
    let above: BTreeMap<usize, BTreeSet<usize>> =
        of.iter().map(|&at| (at, protect::ancestors(affected, at))).collect();
    let hangs = |at: &usize| {
        above[at].iter().any(|p| p != at && above.get(p).is_some_and(|above| !above.contains(at)))
    };
    of.iter().copied().filter(hangs).collect()
}

/// Yielded rows, each with one that it stands in the way of, in the order in which they came, so that
/// those that ask for one key do not change places.
fn in_turn(affected: &AffectedRows<'_>, yielded: BTreeMap<usize, usize>) -> Vec<(usize, usize)> {
    let mut yielded: Vec<(usize, usize)> = yielded.into_iter().collect();
    yielded.sort_by_key(|&(w, _)| {
        let Stored { rid, state, .. } = &affected.list[w].stored;
        (state.header.inserted.max(state.header.yielded), rid.clone())
    });
    yielded
}

/// Rows that would not show by themselves what a foreign key did to them. They are taken off the
/// list.
fn contradicted(
    affected: &AffectedRows<'_>,
    view: &view::View,
    acted: &mut Vec<ActedOn>,
) -> Vec<(usize, Acted)> {
    let mut found = Vec::new();
    acted.retain(|(no, rid, acted)| {
        let table = affected.catalog().position_of_no(*no);
        let Some(at) = table.and_then(|table| affected.get(table, rid)) else { return true };
        let (item, shown) = (&affected.list[at], view.rows.get(&at));
        let t = &affected.catalog().tables[item.table];
        let same = match (acted, &item.old) {
            (Acted::Deleted, None) => !item.alive() || shown.is_none(),
            (Acted::Set(g) | Acted::Pinned(g, _), Some(old)) => {
                let columns = &t.table.groups[*g].columns;
                shown.is_some_and(|new| columns.iter().all(|&c| new[c] == old[c]))
            }
            // The user wrote it anew.
            _ => true,
        };
        if !same {
            found.push((at, acted.clone()));
        }
        same
    });
    found
}

/// Rows that the user sees and that a foreign key would hide for a reference which they do not show:
/// it is overridden, or to a former life of its row.
fn unbound(affected: &AffectedRows<'_>, view: &view::View) -> Result<Vec<(usize, Acted)>> {
    let mut found = Vec::new();
    for (at, item) in affected.list.iter().enumerate() {
        if item.alive() && view.conflicts.get(&at).is_some_and(|c| c.kind.is_of_foreign_key()) {
            found.extend(unshown(affected, at)?);
        }
    }
    Ok(found)
}

/// References that a visible row does not show, of those that merges keep.
fn unshown(affected: &AffectedRows<'_>, at: usize) -> Result<Vec<(usize, Acted)>> {
    unshown_of(affected, at, |fk| fk.enforced)
}

/// The same of some foreign keys.
fn unshown_of(
    affected: &AffectedRows<'_>,
    at: usize,
    of: impl Fn(&ForeignKey) -> bool,
) -> Result<Vec<(usize, Acted)>> {
    let (item, mut found) = (&affected.list[at], Vec::new());
    let t = &affected.catalog().tables[item.table];
    let Some(old) = &item.old else { return Ok(found) };
    for (f, fk) in t.table.foreign_keys.iter().enumerate().filter(|(_, fk)| of(fk)) {
        let g = t.table.columns[fk.columns[0]].group;
        let shown = affected.shown_reference((item.table, f), old)?;
        let bound = shown.as_ref() == item.reference(t, f) || counted(item, g);
        if !bound || shown.is_some() && !protect::counts(affected, at, f) {
            found.push((at, Acted::Set(g)));
        }
    }
    Ok(found)
}

/// Groups of a visible row that show references to other rows than they hold, all of them there, and would
/// show yet something else: the row that they hold was inserted anew, say, while another stood for it. What
/// stepped aside shows its former references, and goes back from them to whatever it asks for (R-RETURN).
fn derives(
    affected: &AffectedRows<'_>,
    view: &view::View,
    at: usize,
) -> Result<Vec<(usize, Acted)>> {
    let item = &affected.list[at];
    let t = &affected.catalog().tables[item.table];
    let (Some(old), Some(new)) = (&item.old, view.rows.get(&at)) else { return Ok(vec![]) };
    let moved = |g: &&usize| t.table.groups[**g].columns.iter().any(|&c| old[c] != new[c]);
    let mut found = Vec::new();
    for &g in view.derived.get(&at).into_iter().flatten().filter(moved) {
        let of = |fk: &ForeignKey| t.table.columns[fk.columns[0]].group == g;
        let (mut there, mut shown) = (true, vec![]);
        for (f, fk) in t.table.foreign_keys.iter().enumerate().filter(|(_, fk)| of(fk)) {
            let null = fk.columns.iter().any(|&c| old[c].is_null());
            let to = affected.shown_reference((item.table, f), old)?;
            there &= null || to.is_some();
            shown.push(to);
        }
        let previous = &item.stored.state.groups[g].previous;
        let stepped_aside = previous.as_ref().is_some_and(|cell| cell.refs == shown);
        if there && !stepped_aside {
            found.extend(unshown_of(affected, at, |fk| affected.enforces(fk) && of(fk))?);
        }
    }
    Ok(found)
}

/// Whether a group shows a sum, over which nothing may be written: what others count would be lost.
fn counted(item: &AffectedRow, g: usize) -> bool {
    !item.stored.state.groups[g].counts.is_empty()
}

/// Keys that a visible row does not show, but what they were before.
fn former(affected: &AffectedRows<'_>, at: usize) -> Vec<(usize, Acted)> {
    let item = &affected.list[at];
    let t = &affected.catalog().tables[item.table];
    let Some(old) = &item.old else { return vec![] };
    let groups = t.table.groups.iter().enumerate().filter(|(_, of)| of.keeps_previous);
    let shows_another = groups.filter(|(g, of)| {
        let refers = |c: &usize| t.table.foreign_keys.iter().any(|fk| fk.columns.contains(c));
        let mut values = of.columns.iter().zip(&item.cells[*g].values);
        !counted(item, *g) && values.any(|(c, value)| !refers(c) && old[*c] != *value)
    });
    shows_another.map(|(g, _)| (at, Acted::Set(g))).collect()
}

/// The same for a row to which others refer: their references are written after it where a change of its
/// key would override them.
fn settled(affected: &AffectedRows<'_>, p: usize) -> Vec<(usize, Acted)> {
    let mut found = former(affected, p);
    if !found.is_empty() {
        found.extend(to_override(affected, p));
    }
    found
}

/// References of affected rows that a change of the key of `p` would override.
fn to_override(affected: &AffectedRows<'_>, p: usize) -> Vec<(usize, Acted)> {
    let mut found = Vec::new();
    for (at, item) in affected.list.iter().enumerate().filter(|(_, item)| item.old.is_some()) {
        let t = &affected.catalog().tables[item.table];
        for (f, fk) in t.table.foreign_keys.iter().enumerate() {
            let sets = fk.on_update.sets();
            if sets && affected.enforces(fk) && protect::parent(affected, at, f) == Some(p) {
                found.push((at, Acted::Set(t.table.columns[fk.columns[0]].group)));
            }
        }
    }
    found
}

/// What has to be written with these: where a key is that was another, references that this would override, of rows
/// that nothing else concerns too.
fn following(
    affected: &mut AffectedRows<'_>,
    written: &[(usize, Acted)],
) -> Result<Vec<(usize, Acted)>> {
    let catalog = affected.catalog();
    let mut found = Vec::new();
    for (p, acted) in written {
        let (p, Acted::Set(g) | Acted::Pinned(g, _)) = (*p, acted) else { continue };
        let sets = |&(child, f): &(usize, usize)| {
            let fk = &catalog.tables[child].table.foreign_keys[f];
            fk.on_update.sets() && affected.enforces(fk)
        };
        let followed = catalog.references_to(affected.list[p].table).any(|key| sets(&key));
        if followed && former(affected, p).contains(&(p, Acted::Set(*g))) {
            affected.children(p)?;
            found.extend(to_override(affected, p));
        }
    }
    found.sort_by_key(|&(at, _)| at);
    found.dedup();
    found.retain(|one| !written.contains(one));
    Ok(found)
}

/// Visible rows whose references a change of this row's key overrides until the key is pinned, or
/// written again as it is. What they show has to be written then, with the stamp of that: neither
/// overrides anything. `stamps`: of the groups of the row that are pinned or written.
pub fn overrode(
    facts: &dyn Facts,
    catalog: &Catalog,
    position: usize,
    parent: &Stored,
    stamps: &BTreeMap<usize, Stamp>,
) -> Result<Vec<ActedOn>> {
    let (t, mut found) = (&catalog.tables[position], Vec::new());
    for entry in facts.waiting_for_row(position, &parent.rid)? {
        let Some((table, stored)) = facts.entry(entry)? else { continue };
        for (_, f) in catalog.references_to(position).filter(|(child, _)| *child == table) {
            let c = &catalog.tables[table];
            let fk = &c.table.foreign_keys[f];
            let g = t.table.columns[fk.parent_columns[0]].group;
            let (key, stamp) = (&parent.state.groups[g], stamps.get(&g));
            let sets = fk.on_update.sets();
            let Some(&stamp) = stamp.filter(|_| fk.enforced && sets) else { continue };
            if key.previous.is_none() || key.pinned {
                continue;
            }
            let g = c.table.columns[fk.columns[0]].group;
            if stored.loc.is_some() && stored.state.groups[g].stamp < certain(key.stamp) {
                found.push((c.no, stored.rid.clone(), Acted::Pinned(g, stamp)));
            }
        }
    }
    Ok(found)
}

/// What a reference shows becomes what was written.
pub fn set(group: &mut GroupState, t: &Relation, g: usize, stamp: Stamp) {
    let body = std::mem::replace(&mut group.body, Body::InTable);
    let previous = match body {
        Body::Stored(cell) if t.table.groups[g].keeps_previous => Some(cell),
        _ => None,
    };
    *group = GroupState { previous, ..GroupState::shown(stamp) };
}

/// The affected row that would show the integer key which another visible one shows until now.
fn takes_number(affected: &AffectedRows<'_>, view: &view::View, at: usize) -> Option<usize> {
    let item = &affected.list[at];
    let t = &affected.catalog().tables[item.table];
    let alias = t.table.renumbers()?;
    let (old, new) = (item.old.as_ref()?, view.rows.get(&at)?);
    // What others wrote to a column that is new here it shows whoever makes way.
    let asks = affected.wanted(t, alias, at).map(Value::Integer);
    if old[alias] == new[alias] || asks.as_ref() != Some(&old[alias]) {
        return None;
    }
    let mut rows = view.rows.iter().filter(|(w, _)| affected.list[**w].table == item.table);
    rows.find(|(_, row)| row[alias] == old[alias]).map(|(w, _)| *w)
}

/// Hidden rows that come back with the numbers of rows that the user sees, in the order in which they came.
pub fn numbers_taken(affected: &AffectedRows<'_>, view: &view::View) -> Vec<usize> {
    let all = 0..affected.list.len();
    let taken = all.filter_map(|at| Some((takes_number(affected, view, at)?, at)));
    let hidden = |(w, _): &(usize, usize)| affected.list[*w].old.is_none();
    in_turn(affected, taken.filter(hidden).collect()).into_iter().map(|(w, _)| w).collect()
}

/// Hidden rows whose references keep a deleted row shown.
fn protectors(affected: &AffectedRows<'_>, dead: usize) -> Vec<usize> {
    let (table, rid) = (affected.list[dead].table, &affected.list[dead].stored.rid);
    let mut found = Vec::new();
    for (at, item) in affected.list.iter().enumerate() {
        let t = &affected.catalog().tables[item.table];
        let refers = (0..t.table.foreign_keys.len()).any(|f| {
            affected.catalog().position(&t.table.foreign_keys[f].parent) == Some(table)
                && item.reference(t, f) == Some(rid)
                && item.stamp(t, t.table.foreign_keys[f].columns[0]) > item.header().yielded
        });
        if refers && item.alive() && item.old.is_none() {
            found.push(at);
        }
    }
    found
}
