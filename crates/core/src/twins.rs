//! One insert that two sites have folded is one row (R-TWIN, decision 040).
//!
//! What waits in the journal of a file when it is copied is folded by the file that goes on, and by the copy: by
//! a backup that is restored, or a file that is made a site of its own. Of a row that SQLite numbers that makes
//! two, *twins*. Both were stamped with the millisecond of one write, at a clock that nothing had passed, on
//! lines that part before; no two inserts are like that. So once the other site's twin has come, this one gives
//! up its own: what was written to it since, and what refers to it, goes over. That is an ordinary write of
//! this site, and all others follow. Of two writes that were made to both since, the earlier is told (R-TOLD).
//!
//! It does so only with what nobody else has heard of. So nobody can be about to give up the other twin for this
//! one, or to write to this one, or refer to it.
//!
//! Where that cannot be done in full both rows stay: of a row that counts, and where each site numbers its rows
//! (R-OWN).

mod find;

use crate::Result;
use crate::closed;
use crate::line::parted::{self, Parted};
use crate::merge::{Columns, Lost, Merged, MergedRows, Subject, Write};
use crate::referring::{Referrer, Referring};
use crate::refs::Lookup;
use crate::rewrite::{self, Fate, Put, Rewrite};
use crate::state::{self, GroupState, Stored};
use crate::work::Work;
use find::{Names, cells};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use synqlite_view::ConflictKind;
use synqlite_wire::key::{KeyPart, decode, encode};
use synqlite_wire::{Cell, Count, Rid, Value};

/// Twins that are to be united.
pub(crate) struct Twins {
    /// In the order in which that is to be done.
    names: Vec<Names>,
    /// The times of which there were some, before and afterwards.
    parted: (Vec<Parted>, Vec<Parted>),
}

/// A row of this site, and one of another that is the same insert.
struct Twin {
    /// Position of their table.
    table: usize,
    ours: Stored,
    theirs: Stored,
}

impl Twins {
    /// Those that have come since one last looked. `None` if there is nothing to do.
    pub fn find(lookup: Lookup<'_>) -> Result<Option<Twins>> {
        let before = parted::all(lookup.conn)?;
        let (mut names, mut after) = (Vec::new(), Vec::new());
        for mut parted in before.iter().copied() {
            let (found, done) = find::twins(lookup, &mut parted)?;
            names.extend(found);
            after.extend((!done).then_some(parted));
        }
        let parted = (before, after);
        Ok((parted.0 != parted.1).then_some(Twins { names, parted }))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Unites the first of them. Whether that is done with all.
    pub fn unite(&mut self, work: &mut Work<'_>, most: usize, merged: &mut Merged) -> Result<bool> {
        let mut heirs = Heirs::default();
        for (no, ours, theirs) in self.names.drain(..most.min(self.names.len())) {
            let Work { conn, meta, catalog, .. } = &*work;
            let Some(table) = catalog.position_of_no(no) else { continue };
            let t = &catalog.tables[table];
            let (ours, theirs) =
                (state::of(conn, meta, t, &ours)?, state::of(conn, meta, t, &theirs)?);
            let ours = ours.filter(|stored| stored.state.header.alive());
            if let (Some(ours), Some(theirs)) = (ours, theirs) {
                heirs.insert(Twin { table, ours, theirs });
            }
        }
        let steps = plan(work, &mut heirs)?;
        if !steps.is_empty() {
            tell(work, &heirs, merged)?;
            rewrite::write(work, steps.iter().map(|((table, _), step)| step.of(*table)))?;
            follow(work, &heirs);
            forget(work, &heirs, &steps, merged)?;
            count(work, &heirs, &steps, merged)?;
        }
        let done = self.names.is_empty();
        if done && parted::all(work.conn)? == self.parted.0 {
            parted::keep(work.conn, &self.parted.1)?;
        }
        Ok(done)
    }
}

/// Unites all of them, once a merge has shown the others.
pub(crate) fn unite(work: &mut Work<'_>, merged: &mut Merged) -> Result<()> {
    match Twins::find(work.lookup())? {
        Some(mut twins) => twins.unite(work, usize::MAX, merged).map(drop),
        None => Ok(()),
    }
}

/// Where both were written to since they were inserted, the earlier write gives way unseen (R-TOLD).
fn tell(work: &mut Work<'_>, heirs: &Heirs, merged: &mut Merged) -> Result<()> {
    let (mut told, lookup) = (Vec::new(), work.lookup());
    for Twin { table, ours, theirs } in heirs.rows.values() {
        let t = &lookup.catalog.tables[*table];
        let row = theirs.loc.as_ref().map(|loc| state::shown(work.conn, t, loc)).transpose()?;
        let (rid, stored, row) = (&theirs.rid, Some(theirs), row.as_deref());
        let (here, sites) = (lookup.meta.site, &lookup.meta.names);
        let subject = Subject { t, rid, row, stored, here, sites };
        let cells = [cells(lookup, t, ours)?, cells(lookup, t, theirs)?];
        for (g, of) in t.table.groups.iter().enumerate() {
            let since = |stored: &Stored| {
                let GroupState { stamp, pinned, .. } = stored.state.groups[g];
                (!pinned && stamp.hlc > stored.state.header.inserted.hlc).then_some(stamp)
            };
            let (Some(mine), Some(other)) = (since(ours), since(theirs)) else { continue };
            if of.counter || mine == other || is_same(&cells[0][g], &cells[1][g], heirs) {
                continue;
            }
            let write = |stamp, cell: &Cell| Write { stamp, values: cell.values.clone() };
            let (mine, other) = (write(mine, &cells[0][g]), write(other, &cells[1][g]));
            let (lost, kept) =
                if mine.stamp.hlc > other.stamp.hlc { (other, mine) } else { (mine, other) };
            let (kind, columns) = (ConflictKind::Overwritten, Columns::of(t, &of.columns));
            let lost = subject.gives_way(kind, &columns, &lost, &kept, "later and wins");
            told.push((t.table.name.clone(), lost));
        }
    }
    let lost: Vec<Lost> = told.iter().map(|(_, lost)| lost.clone()).collect();
    let Work { conn, meta, catalog, now_ms, .. } = work;
    closed::note(conn, meta, catalog, &lost, *now_ms)?;
    told.into_iter().for_each(|(table, lost)| merged.tell(&table, lost));
    Ok(())
}

/// Whether two cells say the same once twins are one.
fn is_same(ours: &Cell, theirs: &Cell, heirs: &Heirs) -> bool {
    let heir = |rid: &Option<Rid>| rid.as_ref().map(|rid| heirs.heir(rid));
    let refers = ours.refs.iter().any(Option::is_some);
    match refers {
        true => ours.refs.iter().map(heir).eq(theirs.refs.iter().cloned()),
        false => ours.values == theirs.values,
    }
}

/// While both were there one may have stepped aside for the other, had another number, or waited for a row that did.
/// There was nothing to decide about that.
fn forget(
    work: &Work<'_>,
    heirs: &Heirs,
    steps: &BTreeMap<(usize, Rid), Step>,
    merged: &mut Merged,
) -> Result<()> {
    let (mut asked, mut pairs) = (HashSet::new(), HashSet::new());
    for Twin { table, ours, theirs } in heirs.rows.values() {
        let t = &work.catalog.tables[*table];
        let Some(alias) = t.table.rowid_alias() else { continue };
        let stamps = [ours, theirs].map(|stored| stored.state.column_stamp(t, alias));
        pairs.insert((stamps[0], stamps[1]));
        for (stored, stamp) in [ours, theirs].into_iter().zip(stamps) {
            let named = |id| [&t.table.name, &t.canonical].map(|n| (n.clone(), stamp, id));
            asked.extend(stored.state.kept_id(t).map(named).into_iter().flatten());
        }
    }
    merged.forget_numbers(&asked);
    closed::forget_numbers(work.conn, &work.meta, &pairs)?;
    let twins = heirs.rows.values().flat_map(|twin| [&twin.ours, &twin.theirs]);
    let all = twins.chain(steps.values().map(|step| &step.stored));
    let entries: BTreeSet<i64> = all.filter_map(|stored| stored.entry).collect();
    entries.into_iter().try_for_each(|entry| closed::forget(work.conn, entry))
}

/// Rows of tables that are not replicated follow from ours to theirs (R-LOCAL).
fn follow(work: &mut Work<'_>, heirs: &Heirs) {
    for Twin { table, ours, theirs } in heirs.rows.values() {
        let no = work.catalog.tables[*table].no;
        if theirs.state.header.alive()
            && let Some(showed) = work.meta.left.remove(&(no, ours.rid.clone()))
        {
            work.meta.left.insert((no, theirs.rid.clone()), showed);
        }
    }
}

/// Counts what rows show now, as if the twins had been one from the start.
fn count(
    work: &Work<'_>,
    heirs: &Heirs,
    steps: &BTreeMap<(usize, Rid), Step>,
    merged: &mut Merged,
) -> Result<()> {
    let Work { conn, meta, catalog, .. } = work;
    let (mut gone, mut back) = (MergedRows::default(), MergedRows::default());
    (gone.deleted, back.inserted) = (1, 1);
    let is_shown = |table: usize, rid: &Rid| -> Result<bool> {
        let now = state::of(conn, meta, &catalog.tables[table], rid)?;
        Ok(now.is_some_and(|stored| stored.loc.is_some()))
    };
    for Twin { table, ours, theirs } in heirs.rows.values() {
        let name = &catalog.tables[*table].table.name;
        // One that is hidden for now is shown once the row is that it refers to.
        match (theirs.state.header.alive(), theirs.loc.is_some(), ours.loc.is_some()) {
            (false, _, true) => merged.count(name, gone),
            (true, true, true) => drop(merged.uncount(name, |rows| &mut rows.inserted)),
            (true, false, false) => drop(merged.uncount(name, |rows| &mut rows.deleted)),
            (true, true, false) => {
                merged.uncount(name, |rows| &mut rows.inserted);
                merged.uncount(name, |rows| &mut rows.deleted);
            }
            _ => {}
        }
    }
    let of_twins: HashSet<&Rid> = heirs.rows.values().map(|twin| &twin.theirs.rid).collect();
    let referring = |(row, step): &(&(usize, Rid), &Step)| {
        step.fate == Fate::Stays && step.stored.loc.is_none() && !of_twins.contains(&row.1)
    };
    for ((table, rid), _) in steps.iter().filter(referring) {
        let name = &catalog.tables[*table].table.name;
        if is_shown(*table, rid)? && !merged.uncount(name, |rows| &mut rows.deleted) {
            merged.count(name, back);
        }
    }
    Ok(())
}

/// Twins that are united together.
#[derive(Default)]
struct Heirs {
    /// By the table and identity of ours.
    rows: BTreeMap<(usize, Rid), Twin>,
    /// Theirs by ours, of those that births name: births are numbered through all tables of a site.
    births: HashMap<Rid, Rid>,
}

impl Heirs {
    /// Whether it is new.
    fn insert(&mut self, twin: Twin) -> bool {
        if let Rid::Birth { .. } = twin.ours.rid {
            self.births.insert(twin.ours.rid.clone(), twin.theirs.rid.clone());
        }
        self.rows.insert((twin.table, twin.ours.rid.clone()), twin).is_none()
    }

    fn remove(&mut self, row: &(usize, Rid)) {
        self.rows.remove(row);
        self.births.remove(&row.1);
    }

    fn has(&self, table: usize, stored: &Stored) -> bool {
        self.rows.contains_key(&(table, stored.rid.clone()))
    }

    /// What a row is called whose name has twins of ours in it, once these are gone.
    fn heir(&self, rid: &Rid) -> Rid {
        let Rid::Key { key, generation } = rid else {
            return self.births.get(rid).unwrap_or(rid).clone();
        };
        let Some(mut parts) = decode(key) else { return rid.clone() };
        for part in &mut parts {
            if let KeyPart::Row(row) = part {
                *row = self.heir(row);
            }
        }
        Rid::Key { key: encode(&parts), generation: *generation }
    }
}

/// What becomes of a row.
struct Step {
    stored: Stored,
    fate: Fate,
    puts: BTreeMap<usize, Put>,
}

impl Step {
    fn of(&self, table: usize) -> Rewrite<'_> {
        let Step { stored, fate, puts } = self;
        Rewrite { table, stored, fate: *fate, puts }
    }

    fn stays(stored: &Stored) -> Step {
        Step { stored: stored.clone(), fate: Fate::Stays, puts: BTreeMap::new() }
    }
}

/// What is to be written, by table and identity.
fn plan(work: &Work<'_>, heirs: &mut Heirs) -> Result<BTreeMap<(usize, Rid), Step>> {
    let (lookup, referring) = (work.lookup(), Referring::new(work.conn));
    let mut asked: Vec<(usize, Rid)> = heirs.rows.keys().cloned().collect();
    let mut referrers: BTreeMap<(usize, Rid), Vec<Referrer>> = BTreeMap::new();
    while let Some(row) = asked.pop() {
        let twin = &heirs.rows[&row];
        let shown = shown(work, twin)?;
        let of = (twin.table, &twin.ours.rid);
        let found = referring.rows(lookup, of, shown.as_deref())?;
        for (child, _, stored) in &found {
            if let Some(theirs) = named_by(work, *child, stored, heirs)? {
                let twin = Twin { table: *child, ours: stored.clone(), theirs };
                if heirs.insert(twin) {
                    asked.push((*child, stored.rid.clone()));
                }
            }
        }
        referrers.insert(row, found);
    }
    loop {
        let mut stay = Vec::new();
        for (row, twin) in &heirs.rows {
            if !may_go(work, &referring, twin, &referrers[row], heirs)? {
                stay.push(row.clone());
            }
        }
        if stay.is_empty() {
            break;
        }
        stay.iter().for_each(|row| heirs.remove(row));
    }
    let mut steps = BTreeMap::new();
    for (row, twin) in &heirs.rows {
        let gone = Step { fate: Fate::Goes, ..Step::stays(&twin.ours) };
        steps.insert(row.clone(), gone);
        pass_on(lookup, twin, heirs, &mut steps)?;
        for (child, f, stored) in &referrers[row] {
            if !heirs.has(*child, stored) {
                refer(lookup, (*child, *f, stored), twin, &mut steps)?;
            }
        }
    }
    Ok(steps)
}

/// The row that is the same as a child of ours, where its key names the row to which it refers.
fn named_by(
    work: &Work<'_>,
    table: usize,
    stored: &Stored,
    heirs: &Heirs,
) -> Result<Option<Stored>> {
    let Work { conn, meta, catalog, .. } = work;
    let rid = heirs.heir(&stored.rid);
    match stored.rid {
        Rid::Key { .. } if rid != stored.rid => state::of(conn, meta, &catalog.tables[table], &rid),
        _ => Ok(None),
    }
}

/// Whether ours can be given up, with all that there is to it.
fn may_go<'a>(
    work: &'a Work<'_>,
    referring: &Referring<'a>,
    twin: &Twin,
    referrers: &[Referrer],
    heirs: &Heirs,
) -> Result<bool> {
    let Twin { table, ours, theirs } = twin;
    let t = &work.catalog.tables[*table];
    let groups = || ours.state.groups.iter().zip(&theirs.state.groups);
    let counted = |stored: &[Count]| stored.iter().map(|count| count.stamp.hlc).collect::<Vec<_>>();
    if heirs.heir(&ours.rid) != theirs.rid
        || groups().any(|(ours, theirs)| counted(&ours.counts) != counted(&theirs.counts))
    {
        return Ok(false);
    }
    let kept =
        |(child, _, stored): &Referrer| !heirs.has(*child, stored) && stored.state.header.alive();
    if theirs.state.header.alive() {
        return Ok(true);
    }
    let written = groups().any(|(ours, theirs)| later(ours, theirs));
    let showed = work.meta.left.get(&(t.no, ours.rid.clone())).map(|(_, row)| row.clone());
    let showed = showed.map_or_else(|| shown(work, twin), |row| Ok(Some(row)))?;
    let local = referring.local(&work.catalog, t, showed.as_deref())?;
    Ok(!written && local.is_none() && !referrers.iter().any(kept))
}

/// Whether a register of ours was written after that of theirs; not by a number that was pinned (R-PIN).
fn later(ours: &GroupState, theirs: &GroupState) -> bool {
    ours.stamp.hlc > theirs.stamp.hlc && !ours.pinned
}

/// What ours shows.
fn shown(work: &Work<'_>, Twin { table, ours, .. }: &Twin) -> Result<Option<Vec<Value>>> {
    let t = &work.catalog.tables[*table];
    ours.loc.as_ref().map(|loc| state::shown(work.conn, t, loc)).transpose()
}

/// What was written to ours since goes to theirs.
fn pass_on(
    lookup: Lookup<'_>,
    twin: &Twin,
    heirs: &Heirs,
    steps: &mut BTreeMap<(usize, Rid), Step>,
) -> Result<()> {
    let Twin { table, ours, theirs } = twin;
    let t = &lookup.catalog.tables[*table];
    let of = |g: &usize| later(&ours.state.groups[*g], &theirs.state.groups[*g]);
    let written: Vec<usize> = (0..t.table.groups.len()).filter(of).collect();
    if written.is_empty() {
        return Ok(());
    }
    let (new, old) = (cells(lookup, t, ours)?, cells(lookup, t, theirs)?);
    let step = steps.entry((*table, theirs.rid.clone())).or_insert_with(|| Step::stays(theirs));
    for g in written {
        let mut cell = new[g].clone();
        for rid in cell.refs.iter_mut().flatten() {
            *rid = heirs.heir(rid);
        }
        step.puts.insert(g, Put::Cell { old: old[g].clone(), new: cell });
    }
    Ok(())
}

/// What refers to ours refers to theirs.
fn refer(
    lookup: Lookup<'_>,
    (child, f, stored): (usize, usize, &Stored),
    twin: &Twin,
    steps: &mut BTreeMap<(usize, Rid), Step>,
) -> Result<()> {
    let c = &lookup.catalog.tables[child];
    let Some((g, at)) = c.table.place_of_key(f) else { return Ok(()) };
    let step = steps.entry((child, stored.rid.clone())).or_insert_with(|| Step::stays(stored));
    if let Entry::Vacant(vacant) = step.puts.entry(g) {
        let old = cells(lookup, c, stored)?[g].clone();
        vacant.insert(Put::Cell { new: old.clone(), old });
    }
    if let Some(Put::Cell { new, .. }) = step.puts.get_mut(&g) {
        new.refs[at] = Some(twin.theirs.rid.clone());
    }
    Ok(())
}
