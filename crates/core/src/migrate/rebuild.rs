//! Tables rebuilt under their names, in the twelve steps of SQLite's documentation.
//!
//! That may lose the triggers; then nobody noted what was written since. What rows showed before is
//! known by their sums ([`crate::state::sums`]), of a counter by its counts: a column that shows
//! something else was written, at the earliest time that this site can still give, so that no change
//! is lost and later ones of other sites win. What was not written keeps its stamp; what cannot be told
//! is in `unsure`. A reference to a row that may have another key now counts as written too.
//!
//! Where the triggers were made again, the journal has told what was written, and only what certainly
//! shows something else all the same was written besides.

use super::changed;
use super::place::is_named;
use super::retyped::{Retyped, is_stored};
use super::unsure::{LIKELY, PERHAPS, Unsure};
use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::counter;
use crate::journal::{Born, Changed, Gone, Window};
use crate::meta::Meta;
use crate::referring::Referring;
use crate::refs::{self, Lookup};
use crate::state::sums::{Compared, Sums};
use crate::state::{self, Body, Stored};
use crate::track::Stale;
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Rid, Value};

/// What happened to a table while its triggers were gone. Time 0 is the earliest that can still be
/// given. What cannot be told is added to `unsure`. `noted`: what triggers saw of places.
/// Also returns what rows showed in columns of another type.
pub(super) fn unnoticed(
    lookup: Lookup<'_>,
    t: &Tracked,
    sums: &Sums,
    stale: &Stale,
    noted: &Noted,
    unsure: &mut Unsure,
) -> Result<(Window, Retyped)> {
    let Lookup { conn, meta, .. } = lookup;
    let (known, there) = (known(conn, meta, t, sums, &noted.left)?, t.all_places(conn)?);
    let (mut window, mut retyped) = (Window::default(), Retyped::new());
    for loc in &there {
        if !known.contains(loc) {
            window.born.insert(loc.clone(), Born::at(0));
            continue;
        }
        let Some(stored) = state::at(conn, meta, t, loc)? else { continue };
        let Some(row) = t.read(conn, loc)? else { continue };
        let written = written_since(meta, t, &stored);
        // Without a sum the journal has told of the whole row, or nothing is known of it.
        let was = noted.moved.get(loc).unwrap_or(loc);
        let compared = sums.compare(conn, t, was, &row, &written)?;
        let mut compared = compared.unwrap_or_else(|| Compared {
            unsure: (0..row.len()).filter(|_| written.is_empty()).collect(),
            ..Compared::default()
        });
        count(t, &stored, &row, &mut compared);
        for c in sums.added_since(t, was) {
            let shown = stored.state.groups[t.table.columns[c].group].body == Body::InTable;
            let known = !stale.fresh.contains(&t.column_nos[c]) && !written.contains(&c);
            if shown && known && row[c] != t.default_of(c) {
                compared.touched.insert(c);
            }
        }
        if stale.noted && compared.touched.is_empty() && !compared.one_of_them {
            compared.unsure.clear();
        }
        let (mut was, copied): (BTreeMap<_, _>, BTreeMap<_, _>) =
            compared.was.into_iter().partition(|(c, was)| is_stored(t, (*c, was), &row));
        compared.unsure.extend(copied.into_keys());
        was.retain(|c, _| !compared.unsure.contains(c));
        if !was.is_empty() {
            retyped.insert(loc.clone(), was);
        }
        if state::keeps_its_key(t, &stored) && is_named(lookup, t, &stored, &row)? {
            compared.unsure.retain(|c| !t.table.primary_key.contains(c));
        }
        if !compared.touched.is_empty() {
            let written = compared.touched.iter().map(|&c| (t.column_nos[c], 0)).collect();
            window.changed.insert(loc.clone(), changed(loc, written));
        }
        if !compared.unsure.is_empty() {
            let ticks = if compared.one_of_them { LIKELY } else { PERHAPS };
            let columns = compared.unsure.into_iter().map(|c| (c, ticks));
            unsure.entry(loc.clone()).or_default().extend(columns);
        }
    }
    for loc in known.difference(&there) {
        if sums.has(loc) || is_of_now(conn, meta, t, loc)? {
            window.gone.insert(loc.clone(), gone(loc));
        }
    }
    Ok((window, retyped))
}

/// Tells of counters what their sums leave open: their counts say what they showed, and no number can be
/// shown that none of them says.
fn count(t: &Tracked, stored: &Stored, row: &[Value], compared: &mut Compared) {
    for c in std::mem::take(&mut compared.unsure) {
        let g = t.table.columns[c].group;
        let group = &stored.state.groups[g];
        let showed = match &group.body {
            Body::Stored(base) => counter::sum(t, g, group, base),
            Body::InTable => None,
        };
        match showed {
            Some(showed) if showed == row[c] => {}
            Some(_) => drop(compared.touched.insert(c)),
            None => drop(compared.unsure.insert(c)),
        }
    }
}

/// Adds to `window` the rows that are there though neither states nor triggers know of them, at the
/// earliest time: rows that triggers saw may refer to them, and go by that. They may have the keys of
/// rows at places that the table cannot have any more, so those are added too. Returns where the new ones
/// are.
pub(super) fn births(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    sums: &Sums,
    window: &mut Window,
) -> Result<Vec<Loc>> {
    let mut known = known(conn, meta, t, sums, &BTreeSet::new())?;
    let misplaced = known.iter().filter(|loc| !t.has_places_like(loc) && sums.has(loc));
    window.gone.extend(misplaced.map(|loc| (loc.clone(), gone(loc))));
    let left = window.changed.iter().filter(|(from, changed)| changed.now != **from);
    for left in window.gone.keys().chain(left.map(|(from, _)| from)) {
        known.remove(left);
    }
    known.extend(window.born.keys().chain(window.changed.values().map(|c| &c.now)).cloned());
    known.extend(appended(window));
    let born: Vec<Loc> =
        t.all_places(conn)?.into_iter().filter(|loc| !known.contains(loc)).collect();
    window.born.extend(born.iter().map(|loc| (loc.clone(), Born::at(0))));
    Ok(born)
}

/// Where the states place rows. A rowid that none has had lies among those of a run all the same; a row
/// that shares its state with others has a sum, or this transaction stored it. At places that were `left` the
/// sum is of the row that is known to have gone.
fn known(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    sums: &Sums,
    left: &BTreeSet<Loc>,
) -> Result<BTreeSet<Loc>> {
    let mut known = state::places(conn, meta, t)?;
    let nobody = |loc: &&Loc| !sums.has(loc) || left.contains(loc);
    let unsummed: Vec<Loc> = known.iter().filter(nobody).cloned().collect();
    for loc in unsummed {
        let stored = state::at(conn, meta, t, &loc)?;
        let of_now = |s: &Stored| s.entry.is_some() || s.state.header.inserted.hlc > meta.began();
        if !stored.is_some_and(|stored| of_now(&stored)) {
            known.remove(&loc);
        }
    }
    Ok(known)
}

fn gone(loc: &Loc) -> Gone {
    let written = BTreeMap::new();
    Gone { at: 0, was: loc.clone(), image: None, began: None, written, start: None }
}

/// Columns that this transaction has stamped already: what they show is what was written.
pub(super) fn written_since(meta: &Meta, t: &Tracked, stored: &Stored) -> BTreeSet<usize> {
    let mut written = BTreeSet::new();
    for (group, of) in stored.state.groups.iter().zip(&t.table.groups) {
        let stamps = (0..).map(|i| group.column_stamp(i)).zip(&of.columns);
        let since = stamps.filter(|(stamp, _)| stamp.site == meta.site && stamp.hlc > meta.began());
        written.extend(since.map(|(_, &c)| c));
    }
    written
}

/// Whether the state of a row was stored in this transaction.
fn is_of_now(conn: &Connection, meta: &Meta, t: &Tracked, loc: &Loc) -> Result<bool> {
    let stored = state::at(conn, meta, t, loc)?;
    Ok(stored.is_some_and(|stored| stored.state.header.inserted.hlc > meta.began()))
}

/// Adds to `window` the rows that were there at the last fold and are not, though no trigger has noted
/// it: REPLACE displaced them through a unique key that is new.
pub(super) fn displaced(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    sums: &Sums,
    window: &mut Window,
) -> Result<()> {
    let there = t.all_places(conn)?;
    let appended = |loc: &Loc| match loc {
        Loc::Row(rowid) => window.appended.iter().any(|r| r.lo <= *rowid && *rowid <= r.hi),
        Loc::Key(_) => false,
    };
    let mut lost = Vec::new();
    for loc in state::places(conn, meta, t)? {
        let (was, now) = match window.changed.get(&loc) {
            Some(changed) => (loc.clone(), &changed.now),
            None => (loc.clone(), &loc),
        };
        let another = *now == was && (window.born.contains_key(now) || appended(now));
        let known = window.gone.contains_key(&was) || !sums.has(&was);
        if !known && (another || !there.contains(now)) {
            lost.push((was, now.clone()));
        }
    }
    for (was, now) in lost {
        let changed = window.changed.remove(&was);
        let start = changed.as_ref().and_then(|changed| changed.start);
        let at = changed.as_ref().map_or(0, |changed| changed.last);
        let written = changed.map_or_else(BTreeMap::new, |changed| changed.written);
        window.gone.insert(was, Gone { at, written, start, ..gone(&now) });
    }
    window.born.retain(|loc, _| there.contains(loc));
    Ok(())
}

/// Says of deleted rows that what an entry shows of them was written where it is something else than they
/// showed at the last fold: then it may be the entry of another row, and no stamp may stand for two values.
pub(super) fn contradicted(
    conn: &Connection,
    t: &Tracked,
    sums: &Sums,
    window: &mut Window,
) -> Result<()> {
    for (from, gone) in &mut window.gone {
        let Some(image) = gone.image else { continue };
        let Some(row) = crate::journal::image(conn, t, image)? else { continue };
        let known = |c: &usize| gone.written.contains_key(&t.column_nos[*c]);
        let known = (0..row.len()).filter(known).collect();
        let compared = sums.compare(conn, t, from, &row, &known)?.unwrap_or_default();
        gone.written.extend(compared.touched.iter().map(|&c| (t.column_nos[c], gone.at)));
    }
    Ok(())
}

/// What is known of places before it is looked for what no trigger saw.
pub(super) struct Noted {
    /// Where rows are that moved, each with where it was.
    pub moved: BTreeMap<Loc, Loc>,
    /// Places that rows left.
    left: BTreeSet<Loc>,
}

impl Noted {
    /// By what was stamped of a table.
    pub fn of(window: &Window) -> Noted {
        let moved = || window.changed.iter().filter(|(from, changed)| changed.now != **from);
        let left = window.gone.keys().chain(moved().map(|(from, _)| from));
        Noted {
            left: left.cloned().collect(),
            moved: moved().map(|(from, changed)| (changed.now.clone(), from.clone())).collect(),
        }
    }
}

/// Rows that came to keys since rows went of which nobody noted which keys they had, so that these may be
/// theirs. Nothing if all is noted.
pub(super) fn heirs(t: &Tracked, window: &Window) -> Option<Vec<Loc>> {
    let groups = t.table.groups.iter().filter(|group| group.keeps_previous);
    let keys: BTreeSet<u32> =
        groups.flat_map(|group| &group.columns).map(|&c| t.column_nos[c]).collect();
    let unnoted = window.gone.values().any(|gone| gone.image.is_none());
    let moved = |changed: &&Changed| changed.written.keys().any(|no| keys.contains(no));
    let changed = window.changed.values().filter(moved);
    let born = window.born.keys().chain(changed.map(|changed| &changed.now));
    unnoted.then(|| born.cloned().chain(appended(window)).collect())
}

fn appended(window: &Window) -> impl Iterator<Item = Loc> {
    window.appended.iter().flat_map(|run| run.lo..=run.hi).map(Loc::Row)
}

/// Adds to `windows` the references to rows of a table of which it is not certain that they are what they
/// were, or that are not there under those keys any more. `heirs`: rows that may have these keys. `rebuilt`:
/// else rows were but displaced unseen, and references to those of them whose keys are known are kept.
pub(super) fn references(
    lookup: Lookup<'_>,
    parent: usize,
    heirs: Vec<Loc>,
    rebuilt: bool,
    windows: &mut [Window],
) -> Result<()> {
    let Lookup { conn, meta, catalog } = lookup;
    let p = &catalog.tables[parent];
    let mut uncertain: Vec<Loc> = windows[parent].born.keys().cloned().chain(heirs).collect();
    // Those that are the same rows as ever, each with the columns that were written.
    let mut same = Vec::new();
    for (loc, changed) in &windows[parent].changed {
        let row = p.read(conn, loc)?.unwrap_or_default();
        let stored = state::at(conn, meta, p, loc)?;
        let certain = match stored {
            // Its number says which row it is.
            Some(_) if p.table.rowid_alias().is_some() => true,
            Some(stored) => state::keeps_its_key(p, &stored) && is_named(lookup, p, &stored, &row)?,
            None => false,
        };
        match certain {
            true => same.push((loc.clone(), changed.written.clone())),
            false => uncertain.push(loc.clone()),
        }
    }
    for (child, f) in catalog.references_to(parent) {
        let c = &catalog.tables[child];
        let fk = &c.table.foreign_keys[f];
        if !rebuilt && fk.parent_columns.iter().all(|c| Some(*c) == p.table.rowid_alias()) {
            continue; // Where such a row was tells its number.
        }
        let mut referring = Vec::new();
        for at in refs::dangling(conn, c, p, fk)? {
            let lost = match says(conn, meta, c, f, &at)? {
                None => true,
                // One that was hidden, and not in the table, cannot have been lost with it; one that is dead may just
                // have been found gone. By a key no row is found that was in the table.
                Some(Some(rid)) if rebuilt => match state::of(conn, meta, p, &rid)? {
                    Some(Stored { loc: None, state, .. }) => fk.enforced && !state.header.alive(),
                    Some(_) => true,
                    None => matches!(rid, Rid::Key { .. }),
                },
                Some(_) => false,
            };
            if lost {
                referring.push(at);
            }
        }
        let key_nos: Vec<u32> = fk.parent_columns.iter().map(|&c| p.column_nos[c]).collect();
        let rekeyed =
            same.iter().filter(|(_, written)| key_nos.iter().any(|no| written.contains_key(no)));
        let children = Referring::new(conn);
        for loc in uncertain.iter().chain(rekeyed.map(|(loc, _)| loc)) {
            if let Some(key) = p.read(conn, loc)?.and_then(|row| fk.parent_key(&row)) {
                referring.extend(children.to(c, f, &key)?);
            }
        }
        let Window { born, changed: written, .. } = &mut windows[child];
        for at in referring.into_iter().filter(|at| !born.contains_key(at)) {
            // What triggers have noted says itself what it is to.
            let stored = state::at(conn, meta, c, &at)?;
            let noted = stored.map(|stored| written_since(meta, c, &stored)).unwrap_or_default();
            if fk.columns.iter().all(|column| noted.contains(column)) {
                continue;
            }
            let entry = written.entry(at.clone());
            let change = entry.or_insert_with(|| changed(&at, BTreeMap::new()));
            change.written.extend(fk.columns.iter().map(|&x| (c.column_nos[x], 0)));
        }
    }
    Ok(())
}

/// To whom reference `f` of the row at `loc` is, if the state says it.
fn says(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    f: usize,
    loc: &Loc,
) -> Result<Option<Option<Rid>>> {
    let Some((g, at)) = t.table.place_of_key(f) else { return Ok(None) };
    Ok(match state::at(conn, meta, t, loc)?.map(|stored| stored.state.groups[g].body.clone()) {
        Some(Body::Stored(cell)) => Some(cell.refs[at].clone()),
        _ => None,
    })
}
