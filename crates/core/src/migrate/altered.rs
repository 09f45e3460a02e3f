//! Tables whose triggers no longer fit: what was written since, noted or not, and what of it is shown.

use super::rebuild::{self, Noted};
use super::retyped::{self, Retyped};
use super::spans::Spans;
use super::stashed::{self, join_stashed, show};
use super::unsure::{self, Columns, PERHAPS, Unsure};
use super::{again, complete, late, place, regroup};
use crate::catalog::{Catalog, Fresh, Loc, Tracked, loc_sql};
use crate::closed::ClosedBy;
use crate::fold::{self, Terms};
use crate::journal::{self, Window};
use crate::merge::{self, Anew};
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::registry;
use crate::schema::{TableKind, quote};
use crate::sqlvalue::Bind;
use crate::state::stash;
use crate::state::sums::Sums;
use crate::state::{self, Body};
use crate::track::{self, Stale};
use crate::work::Work;
use crate::{Result, gaps};
use rusqlite::Connection;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::local_wins::Wrote;
use synqlite_wire::Rid;

struct Altered<'s> {
    stale: &'s BTreeMap<u32, Stale>,
    /// What rows showed before, of tables whose triggers may not have told all.
    sums: BTreeMap<u32, Sums>,
    /// Rows of which other sites told while their table was dropped.
    came: BTreeMap<u32, BTreeSet<Rid>>,
}

/// What is to be said of each row of a table though it is not certain.
type Said = (Spans, Unsure);

/// Catches up with tables whose triggers no longer fit. `whole`: columns of those that were not here;
/// `united`: columns that turn out to be others of which something was kept.
pub(super) fn follow(
    work: &mut Work<'_>,
    stale: &BTreeMap<u32, Stale>,
    whole: &Fresh,
    united: &Fresh,
) -> Result<()> {
    let Work { conn, meta, catalog, policies, env, received, pins, folded, .. } = work;
    let terms = Terms { policies, env: *env, pins: *pins };
    let altered = Altered::read(conn, meta, catalog, stale)?;
    let numbered = numbered(Lookup { conn, meta, catalog }, stale)?;
    let freed = altered.prepare(conn, meta, catalog, *received)?;
    let mut fresh: Fresh = stale.iter().map(|(no, s)| (*no, s.fresh.clone())).collect();
    let mut windows = journal::read_altered(conn, catalog, &fresh)?;
    let in_place = |t: &Tracked| altered.of(t).is_none_or(|stale| !stale.gap);
    let mut of_place = catalog.tables.iter().zip(&mut windows).filter(|(t, _)| in_place(t));
    of_place.try_for_each(|(t, window)| fold::uncaptured(conn, t, window))?;
    let heirs = altered.displaced(conn, meta, catalog, &mut windows)?;
    let noted: Vec<Noted> = windows.iter().map(Noted::of).collect();
    // Nothing is shown before all that was written is known and stamped, also what no trigger noted: a
    // row that is hidden first would be kept as it is under the stamps that it had.
    let (done, mut wrote) = fold::fold_windows(conn, meta, catalog, terms, windows, fresh.clone())?;
    folded.add(done);
    let (mut said, lost) = altered.renew(conn, meta, catalog, *received)?;
    fresh.extend(whole.clone());
    united.iter().for_each(|(no, columns)| fresh.entry(*no).or_default().extend(columns));
    let (mut windows, mut retyped) = altered.unnoticed(conn, meta, catalog, &noted, &mut said)?;
    for (parent, heirs) in heirs.into_iter().enumerate() {
        if let (Some(s), Some(heirs)) = (altered.of(&catalog.tables[parent]), heirs) {
            let lookup = Lookup { conn, meta, catalog };
            rebuild::references(lookup, parent, heirs, s.gap, &mut windows)?;
        }
    }
    if windows.iter().any(|window| !window.is_empty()) {
        unsure::pass(meta);
        let none = Fresh::new();
        let (done, more) = fold::fold_windows(conn, meta, catalog, terms, windows, none)?;
        folded.add(done);
        wrote = wrote.and(more);
    }
    let mut joined = join_stashed(work, &fresh)?;
    let Work { conn, meta, catalog, policies, .. } = work;
    for t in catalog.tables.iter().filter(|t| whole.contains_key(&t.no)) {
        let rids = stashed::unwritten(conn, meta, t)?;
        joined.extend(rids.into_iter().map(|rid| (t.no, rid)));
    }
    // What others wrote to a column is no filling.
    altered.filled(Lookup { conn, meta, catalog }, &lost, &mut said)?;
    unsure::stamp(conn, meta, catalog, said, freed)?;
    // Not before those are known that are gone, since who referred to them does so still; nor before what is
    // unsure of what rows show is stamped.
    for t in catalog.tables.iter().filter(|t| altered.of(t).is_some()) {
        fold::keep_unresolved(conn, meta, catalog, t, policies.enforces_foreign_keys())?;
    }
    for t in &catalog.tables {
        retyped::keep(conn, meta, t, retyped.remove(&t.no).unwrap_or_default())?;
    }
    merge::repair(conn, meta, catalog, policies, Wrote { anew: true, ..wrote })?;
    show(work, joined, !whole.is_empty())?;
    let of = |is: fn(&Stale) -> bool| stale.iter().filter(move |(_, s)| is(s)).map(|(no, _)| *no);
    let references = of(|stale| stale.referring_anew).collect();
    let anew = Anew { references, tables: of(|stale| stale.gap).collect(), united: numbered };
    super::follow(work, &anew, ClosedBy::Schema)
}

/// Tables whose rows each site numbered for itself when their triggers were made, and does not any more
/// (R-OWN). Where it does now and did not, numbers that mean nobody are to stay so.
fn numbered(lookup: Lookup<'_>, stale: &BTreeMap<u32, Stale>) -> Result<BTreeSet<u32>> {
    let Lookup { conn, catalog, .. } = lookup;
    let mut united = BTreeSet::new();
    for t in catalog.tables.iter().filter(|t| stale.contains_key(&t.no)) {
        match (registry::had_own_numbers(conn, t.no)?, t.table.own_number().is_some()) {
            (true, false) => drop(united.insert(t.no)),
            (false, true) => fold::reserve_loose(lookup, t)?,
            _ => {}
        }
    }
    Ok(united)
}

impl<'s> Altered<'s> {
    /// As the rows were; nothing takes sums before all is done.
    fn read(
        conn: &Connection,
        meta: &Meta,
        catalog: &Catalog,
        stale: &'s BTreeMap<u32, Stale>,
    ) -> Result<Altered<'s>> {
        let missed = track::missed(conn)?;
        let dropped = missed.iter().filter(|(_, whole)| whole.is_none());
        let came =
            dropped.map(|(&no, _)| Ok((no, BTreeSet::from_iter(stash::rows(conn, meta, no, -1)?))));
        let came = came.collect::<Result<_>>()?;
        let mut sums = BTreeMap::new();
        for t in &catalog.tables {
            let of = stale.get(&t.no);
            if let Some(s) = of.filter(|s| s.gap || s.unique_anew || !s.anew.is_empty()) {
                let mut of_table = Sums::load(conn, t)?;
                of_table.was_rowid = s.was_rowid;
                sums.insert(t.no, of_table);
            }
        }
        Ok(Altered { stale, sums, came })
    }

    fn of(&self, t: &Tracked) -> Option<&'s Stale> {
        self.stale.get(&t.no)
    }

    /// A table that was made anew, or of which triggers were gone, and what its rows showed before.
    fn rebuilt(&self, t: &Tracked) -> Option<(&'s Stale, &Sums)> {
        self.of(t).filter(|stale| stale.gap).zip(self.sums.get(&t.no))
    }

    /// Makes states, and what the journal says of places, fit the tables. Returns rows that keep values
    /// which were references, with these columns, for each table.
    fn prepare(
        &self,
        conn: &Connection,
        meta: &mut Meta,
        catalog: &Catalog,
        received: bool,
    ) -> Result<Vec<Vec<(Rid, Columns)>>> {
        let other = |t: &Tracked| self.of(t).is_some_and(|s| s.gap || s.rekeyed);
        let (mut freed, mut halves) = (Vec::new(), Vec::new());
        for t in &catalog.tables {
            let regrouped = self.of(t).map(|s| regroup(conn, meta, t, s, received)).transpose()?;
            let regrouped = regrouped.unwrap_or_default();
            freed.push(regrouped.freed);
            halves.push(regrouped.halves);
            let parent = |f: usize| catalog.by_name(&t.table.foreign_keys[f].parent);
            let mut named_by = t.references_in_key().filter_map(|(f, _)| parent(f));
            if other(t) {
                state::expand(conn, meta, t, false)?;
            } else if self.of(t).is_some_and(|s| s.referring_anew) || named_by.any(other) {
                // A key of values may be one of another row now, if the other has its type since.
                state::expand(conn, meta, t, t.keys_in_key().next().is_none())?;
            }
            if let Some((stale, sums)) = self.rebuilt(t) {
                journal::forget_misplaced(conn, t)?;
                if stale.rebuilt {
                    place::put_back(Lookup { conn, meta, catalog }, t, sums, stale.noted)?;
                }
            }
        }
        for (t, halves) in catalog.tables.iter().zip(halves) {
            for stored in complete(Lookup { conn, meta, catalog }, t, halves)? {
                state::put(conn, meta, t, &stored, None)?;
            }
        }
        Ok(freed)
    }

    /// Adds to windows the rows that no trigger saw go or come and whose keys those may have that did.
    /// Returns, for each table of which it is not noted who left which key, who may have these keys.
    fn displaced(
        &self,
        conn: &Connection,
        meta: &mut Meta,
        catalog: &Catalog,
        windows: &mut [Window],
    ) -> Result<Vec<Option<Vec<Loc>>>> {
        for (t, window) in catalog.tables.iter().zip(&mut *windows) {
            if let Some(sums) = self.sums.get(&t.no) {
                rebuild::displaced(conn, meta, t, sums, window)?;
            }
        }
        let mut heirs: Vec<Option<Vec<Loc>>> = catalog
            .tables
            .iter()
            .zip(&*windows)
            .map(|(t, window)| rebuild::heirs(t, window))
            .collect();
        for ((t, window), heirs) in catalog.tables.iter().zip(windows).zip(&mut heirs) {
            if let Some((_, sums)) = self.rebuilt(t) {
                rebuild::contradicted(conn, t, sums, window)?;
                let births = rebuild::births(conn, meta, t, sums, window)?;
                heirs.get_or_insert_default().extend(births);
            }
        }
        Ok(heirs)
    }

    /// Makes the triggers fit the tables. Returns what is to be said of the defaults of new columns, and the
    /// tables that lost columns.
    fn renew(
        &self,
        conn: &Connection,
        meta: &mut Meta,
        catalog: &Catalog,
        received: bool,
    ) -> Result<(Vec<Said>, BTreeSet<u32>)> {
        let (mut said, mut lost) = (Vec::new(), BTreeSet::new());
        for t in &catalog.tables {
            let Some(stale) = self.of(t) else {
                said.push(Said::default());
                continue;
            };
            said.push(late::bind(conn, meta, catalog, t, &stale.fresh, received)?);
            if t.table.kind == TableKind::WithoutRowid {
                state::forget_rowids(conn, t)?;
            }
            for column in track::lose_columns(conn, t, meta.clock)? {
                gaps::lose(conn, meta, t.no, Some(column))?;
                lost.insert(t.no);
            }
            // A column that was added again may show the same in another type.
            if stale.gap || lost.contains(&t.no) || !stale.anew.is_empty() {
                meta.unsummed.tables.insert(t.no);
            }
            track::renew(conn, t)?;
        }
        Ok((said, lost))
    }

    /// What was written although no trigger noted it, and what rows showed in columns of another type.
    /// `noted`: what triggers saw of places. What cannot be told is added to `said`.
    fn unnoticed(
        &self,
        conn: &Connection,
        meta: &mut Meta,
        catalog: &Catalog,
        noted: &[Noted],
        said: &mut [Said],
    ) -> Result<(Vec<Window>, BTreeMap<u32, Retyped>)> {
        let (mut windows, mut retyped) = (Vec::new(), BTreeMap::new());
        for ((t, noted), (_, unsure)) in catalog.tables.iter().zip(noted).zip(said) {
            let mut window = Window::default();
            if let Some((stale, sums)) = self.rebuilt(t) {
                let (lookup, was) =
                    (Lookup { conn, meta, catalog }, retyped.entry(t.no).or_default());
                (window, *was) = rebuild::unnoticed(lookup, t, sums, stale, noted, unsure)?;
            }
            if let Some(s) = self.of(t) {
                if let Some(sums) = self.sums.get(&t.no).filter(|_| !s.anew.is_empty()) {
                    let lookup = Lookup { conn, meta, catalog };
                    again::unnoticed(lookup, t, sums, &s.anew, &noted.moved, &mut window)?;
                }
                again::missed(conn, meta, t, &s.again, &mut window)?;
                if let Some(came) = self.came.get(&t.no) {
                    again::hidden(conn, meta, t, came)?;
                }
            }
            windows.push(window);
        }
        Ok((windows, retyped))
    }

    /// Adds what columns hold that nobody is known to have written. `lost`: tables that lost columns.
    fn filled(&self, lookup: Lookup<'_>, lost: &BTreeSet<u32>, said: &mut [Said]) -> Result<()> {
        let Lookup { conn, meta, catalog } = lookup;
        for (t, said) in catalog.tables.iter().zip(said) {
            let Some(Stale { gap, fresh, .. }) = self.of(t) else { continue };
            filled(conn, meta, t, fresh, *gap && lost.contains(&t.no), &mut said.1)?;
            if *gap {
                // A column may have another default now than rows show that nobody has written.
                let older = t.column_nos.iter().zip(&t.since).filter(|(_, since)| **since != -1);
                let older = older.map(|(no, _)| *no).filter(|no| !fresh.contains(no));
                filled(conn, meta, t, &older.collect::<Vec<_>>(), false, &mut said.1)?;
            }
            late::bind_defaults(lookup, t, fresh, said)?;
        }
        Ok(())
    }
}

/// Adds to `rows` those in which these columns hold something else than their default, although nobody
/// is known to have written it: a rebuild filled them, or gave them another default. `lost`: columns are missing, and
/// new ones may be those under other names, so whatever they hold may have been written.
fn filled(
    conn: &Connection,
    meta: &Meta,
    t: &Tracked,
    columns: &[u32],
    lost: bool,
    rows: &mut Unsure,
) -> Result<()> {
    for c in (0..t.column_nos.len()).filter(|&c| columns.contains(&t.column_nos[c])) {
        let column = &t.table.columns[c];
        let sql = format!(
            "SELECT {} FROM {} AS o WHERE {lost} OR typeof(o.{name}) <> typeof(?1) \
             OR o.{name} COLLATE BINARY IS NOT ?1",
            loc_sql(&t.table, "o."),
            t.target(),
            name = quote(&column.name),
        );
        let mut statement = conn.prepare(&sql)?;
        let mut locs = statement.query([Bind(&t.default_of(c))])?;
        while let Some(row) = locs.next()? {
            let loc = t.place(row.get(0)?)?;
            let Some(stored) = state::at(conn, meta, t, &loc)? else { continue };
            let shown = stored.state.groups[column.group].body == Body::InTable;
            if shown && stored.state.column_stamp(t, c).is_zero() {
                rows.entry(loc).or_default().insert(c, PERHAPS);
            }
        }
    }
    Ok(())
}
