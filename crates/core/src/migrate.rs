//! Catches up with what the application did to its schema since the last command (R-MIG).
//!
//! Adding a column costs no stamp: nobody has written it, every row shows its default, and the first
//! real write on any site wins (R-MIG-ADD). Registers that came from sites with a newer schema and
//! were kept ([`crate::state::stash`]) are shown as soon as their columns are here.
//!
//! Tables whose triggers do not fit any more are caught up with in `altered`; those among them that were
//! rebuilt under their names in `place` and `rebuild`, under others in `renamed`; those that others
//! know by their first names in `united`.

mod again;
mod altered;
mod late;
mod moved;
mod place;
mod policies;
mod rebuild;
mod renamed;
mod retyped;
mod seam;
mod spans;
mod stashed;
mod united;
mod unsure;

use crate::capture;
use crate::catalog::{Fresh, Loc, Relation, Tracked};
use crate::closed::{self, ClosedBy};
use crate::fold;
use crate::history;
use crate::journal::{self, Changed};
use crate::merge::{self, Anew};
use crate::meta::{self, Meta};
use crate::parts;
use crate::refs::Lookup;
use crate::registry;
use crate::schema::{Affinity, Collation, Column, Group, Table};
use crate::settings;
use crate::state::stash::{self, Piece};
use crate::state::sums;
use crate::state::{self, Body, ENTRY_COLUMNS, GroupState, RowState, Stored};
use crate::track::{self, Loaded, Stale};
use crate::work::Work;
use crate::{Result, gaps, renames};
pub(crate) use policies::{follow_policies, set as set_policies, take as take_settings};
use rusqlite::{Connection, params};
use stashed::show_stashed;
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::{Cell, Hlc, Rid, Stamp, Value};
use unsure::{Columns, LIKELY, PERHAPS};

/// So many states are stored anew at a time.
const PART: usize = parts::of(4_096);

/// Entry of the metadata that is there while tables are known whose rows are not.
const BEGUN: &str = "taking_in";

/// Brings metadata and triggers in step with the schema.
pub(crate) fn catch_up(work: &mut Work<'_>) -> Result<()> {
    if begun(work.conn)? {
        // Whoever began was killed, or is too late.
        finish(work)?;
    }
    // Columns are known since the local sequence that the file tells, and rows that came in this
    // transaction, which may bring the policy that makes them known, are of a later one.
    work.meta.save(work.conn)?;
    if renamed::find(work)? {
        work.policies = settings::load(work.conn)?;
    }
    track::outside::follow(work.conn)?;
    moved::find(work)?;
    let mut loaded = track::load(work.conn, &work.policies)?;
    work.catalog = loaded.catalog.clone();
    bring_back(work)?;
    suspect(work, &mut loaded)?;
    work.settled &= loaded.stale.is_empty() && loaded.left.is_empty();
    follow_schema(work, &loaded, &Fresh::new(), &Fresh::new())?;
    unite(work, &mut loaded)?;
    loaded.left.iter().try_for_each(|no| track::drop_objects(work.conn, *no))?;
    moved::end(work)?;
    let gone = track::note_gone(work.conn, &loaded.gone, work.meta.local_seq)?;
    gone.lost.iter().try_for_each(|no| gaps::lose(work.conn, &work.meta, *no, None))?;
    let dropped = !gone.unseen.is_empty();
    // What comes yet in this transaction says less of their rows.
    work.meta.local_seq += i64::from(dropped);
    let tables = track::unknown(work.conn, &work.policies, &work.catalog)?;
    if !tables.is_empty() {
        take_in(work, &tables)?;
    } else if dropped {
        work.settled = false;
        work.fold()?;
    }
    if dropped || !tables.is_empty() {
        // Rows of new tables that were written while foreign keys were off may refer to nobody, and
        // nothing protects a row for the sake of a table that is gone.
        let new = |t: &&Tracked| tables.iter().any(|table| table.name == t.table.name);
        let references = work.catalog.tables.iter().filter(new).map(|t| t.no).collect();
        follow(work, &Anew { references, ..Anew::default() }, ClosedBy::Schema)?;
    } else if state::any_refused(work.conn)? && !track::is_caught_up(work.conn)? {
        // A trigger that refused them on a merge may be gone, or say something else.
        follow(work, &Anew::default(), ClosedBy::Schema)?;
    }
    Ok(())
}

/// States of rows that came, or changed, while a table was out of sight by policy say nothing of its columns: from
/// now on they say that nobody has written these. What was kept of them does. Others who get batches may lack what
/// this site had written before.
fn bring_back(work: &mut Work<'_>) -> Result<()> {
    let Work { conn, meta, catalog, now_ms, .. } = work;
    for (no, whole) in track::missed(conn)? {
        let (Some(whole), Some(position)) = (whole, catalog.position_of_no(no)) else { continue };
        let t = &catalog.tables[position];
        let mut unwritten = Relation::clone(t);
        unwritten.since.fill(i64::MAX);
        let unwritten = Tracked::from(unwritten);
        let mut after = i64::MIN;
        loop {
            let part = entries(conn, meta, &unwritten, after)?;
            let Some((Stored { entry: Some(last), .. }, _)) = part.last() else { break };
            after = *last;
            for (stored, _) in part.into_iter().filter(|(stored, _)| stored.local_seq > whole) {
                state::put(conn, meta, t, &stored, None)?;
            }
        }
        if meta.seen.get(meta.site) > Hlc::ZERO {
            gaps::owe(conn, meta, *now_ms, no)?;
        }
    }
    Ok(())
}

/// Brings metadata and triggers in step with the tables that are stale. `whole`: columns of those that were not
/// here as one; `united`: of those that go by several names.
fn follow_schema(
    work: &mut Work<'_>,
    loaded: &Loaded,
    whole: &Fresh,
    united: &Fresh,
) -> Result<()> {
    if loaded.stale.is_empty() {
        return Ok(());
    }
    // What others wrote while a table was gone is shown in the one that is there again.
    let missed = track::missed(work.conn)?;
    let back = work.catalog.tables.iter().filter(|t| missed.contains_key(&t.no));
    let mut back: Fresh = back.map(|t| (t.no, t.column_nos.clone())).collect();
    back.extend(whole.clone());
    altered::follow(work, &loaded.stale, &back, united)?;
    renames::tell(work.conn, &mut work.meta, &loaded.catalog, work.now_ms)?;
    // Else a rebuilt table would be taken for one that was rebuilt again.
    sums::settle(work.conn, &mut work.meta, &work.catalog)?;
    track::close(work.conn, &work.catalog)
}

/// Makes one of what goes by several names here, and shows what was kept for the others.
fn unite(work: &mut Work<'_>, loaded: &mut Loaded) -> Result<()> {
    let (whole, moved) = united::unite(work, &loaded.catalog)?;
    if !whole.is_empty() {
        *loaded = track::load(work.conn, &work.policies)?;
    }
    let renames::United { kept: mut united, columns } =
        renames::unite(work.conn, &mut work.meta, &loaded.catalog)?;
    for (table, others, no) in columns {
        gaps::unite(work.conn, &work.meta, table, &others, no)?;
    }
    let renamed = !united.is_empty() || !whole.is_empty();
    if !renamed && loaded.stale.is_empty() && !work.received {
        return Ok(());
    }
    if renamed {
        // Policies go by first names, and may speak of other columns now.
        work.policies = settings::load(work.conn)?;
        *loaded = track::load(work.conn, &work.policies)?;
    }
    renames::rename_keys(work.conn, &mut work.meta, &loaded.catalog, &mut united)?;
    if renamed {
        // By the names that foreign keys have now none is new.
        *loaded = track::load(work.conn, &work.policies)?;
        work.catalog = loaded.catalog.clone();
        follow_schema(work, loaded, &whole, &united)?;
    }
    if !united.is_empty() {
        work.settled = false;
        show_stashed(work, &united, false)?;
    }
    if !whole.is_empty() {
        work.settled = false;
        united::show(work, &whole, moved)?;
    }
    if renamed {
        // Records and what rows wait for go by these names.
        follow(work, &Anew::default(), ClosedBy::Schema)?;
    }
    Ok(())
}

/// Finds tables whose columns may have been dropped and added again: nothing but what rows show tells it.
/// A rebuilt table is compared with what it was in any case.
fn suspect(work: &mut Work<'_>, loaded: &mut Loaded) -> Result<()> {
    if track::is_caught_up(work.conn)? {
        return Ok(());
    }
    for t in &loaded.catalog.tables {
        if loaded.stale.get(&t.no).is_none_or(|stale| !stale.gap) {
            let anew = sums::defaulted(work.conn, t)?;
            if !anew.is_empty() {
                loaded.stale.entry(t.no).or_default().anew = anew;
            }
        }
    }
    Ok(())
}

/// Takes in tables, with the rows that they have and those that other sites told of.
pub(crate) fn take_in(work: &mut Work<'_>, tables: &[Table]) -> Result<()> {
    work.settled = false;
    work.fold()?;
    tables.iter().try_for_each(|table| track::track(work.conn, table))?;
    take_rows(work, tables)
}

/// Begins to take in the tables of a new replica: triggers note what is written from now on, and the rows that are
/// there come later ([`finish`]).
pub(crate) fn begin(work: &mut Work<'_>, tables: &[Table]) -> Result<()> {
    meta::set(work.conn, BEGUN, true)?;
    tables.iter().try_for_each(|table| track::track(work.conn, table))?;
    work.catalog = track::load(work.conn, &work.policies)?.catalog;
    capture::guard_rows(work.conn, &work.catalog)
}

/// Whether tables have begun to be taken in.
pub(crate) fn begun(conn: &Connection) -> Result<bool> {
    Ok(meta::get(conn, BEGUN)?.unwrap_or(false))
}

/// Takes in the rows of a new replica's tables. What was written since it began is among them.
fn finish(work: &mut Work<'_>) -> Result<()> {
    meta::unset(work.conn, BEGUN)?;
    journal::clear(work.conn)?;
    work.conn.execute_batch("DELETE FROM synqlite_history")?;
    let loaded = track::load(work.conn, &work.policies)?;
    let stale = loaded.catalog.tables.iter().filter(|t| loaded.stale.contains_key(&t.no));
    stale.into_iter().try_for_each(|t| track::renew(work.conn, t))?;
    let tables: Vec<Table> = loaded.catalog.tables.iter().map(|t| t.table.clone()).collect();
    take_rows(work, &tables)
}

/// Takes in the rows of tables that are known since now.
fn take_rows(work: &mut Work<'_>, tables: &[Table]) -> Result<()> {
    // Now that all are known, references between old and new tables resolve.
    let loaded = track::load(work.conn, &work.policies)?;
    work.catalog = loaded.catalog;
    work.meta.local_seq += 1;
    let stamp = work.meta.tick(work.now_ms);
    let new = |t: &&Tracked| tables.iter().any(|table| table.name == t.table.name);
    for t in work.catalog.tables.iter().filter(new) {
        registry::record_units(work.conn, t)?;
        fold::adopt(work.conn, &mut work.meta, &work.catalog, t, stamp, work.env)?;
    }
    history::note_adopted(work.conn, stamp)?;
    let Work { conn, meta, catalog, policies, .. } = work;
    for t in catalog.tables.iter().filter(new) {
        fold::keep_unresolved(conn, meta, catalog, t, policies.enforces_foreign_keys())?;
    }
    let whole = work.catalog.tables.iter().filter(new);
    let whole = whole.map(|t| (t.no, t.column_nos.clone())).collect();
    if !loaded.stale.is_empty() {
        altered::follow(work, &loaded.stale, &whole, &Fresh::new())?;
    }
    show_stashed(work, &whole, true)?;
    let Work { conn, meta, catalog, .. } = work;
    if history::enabled(conn)? {
        for t in catalog.tables.iter().filter(new) {
            history::record_all(conn, meta, catalog, t)?;
        }
    }
    track::close(work.conn, &work.catalog)
}

/// Shows what schema and policies, which are others than before, make of the states. `why`: how records
/// that close are said to have been.
pub(crate) fn follow(work: &mut Work<'_>, anew: &Anew, why: ClosedBy) -> Result<()> {
    let Work { conn, meta, catalog, policies, now_ms, .. } = work;
    merge::refresh(conn, meta, catalog, policies, anew)?;
    closed::update_all(conn, meta, catalog, *now_ms, why)
}

/// What is left to say of states that were stored for other groups.
#[derive(Default)]
struct Regrouped {
    /// Rows that keep values which were references, with these columns.
    freed: Vec<(Rid, Columns)>,
    /// Groups of rows that keep some columns and show the others, which are to be read once rows are back where
    /// they were: rows, groups, positions in these.
    halves: Vec<(Rid, usize, Vec<usize>)>,
}

/// Stores states anew whose registers are of groups that the schema no longer has (R-GROUP), and all of a
/// table whose key may be another, since they say which number a row asks for.
/// `received`: another site's policy made them so.
fn regroup(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    stale: &Stale,
    received: bool,
) -> Result<Regrouped> {
    let rekeyed = stale.gap || stale.rekeyed;
    let was = registry::groups(conn, t.no)?;
    let now: Vec<(Vec<u32>, Vec<String>)> = t.table.groups.iter().map(|g| unit(t, g)).collect();
    let here = |no: &u32| t.column_nos.contains(no);
    if !rekeyed && was.iter().all(|unit| now.contains(unit) || !unit.0.iter().any(here)) {
        return Ok(Regrouped::default());
    }
    let mut regrouped = Regrouped::default();
    let old = as_it_was(t, &was);
    let mut after = i64::MIN;
    loop {
        let part = entries(conn, meta, &old, after)?;
        let Some((Stored { entry: Some(last), .. }, _)) = part.last() else { return Ok(regrouped) };
        after = *last;
        for (mut stored, asks) in part {
            if stale.gap {
                keep_lost(conn, meta, t, &was, &stored)?;
            }
            let freed = freed(meta, t, &was, &stored.state, received);
            if !freed.is_empty() {
                regrouped.freed.push((stored.rid.clone(), freed));
            }
            let row = match &stored.loc {
                Some(loc) => t.read(conn, loc)?,
                None => None,
            };
            if stored.loc.is_some() && stale.gap {
                let shown = now.iter().enumerate().map(|(g, unit)| (g, shown(unit, &was, &stored)));
                let half = shown.filter(|(g, shown)| {
                    !was.contains(&now[*g]) && (1..now[*g].0.len()).contains(&shown.len())
                });
                let rid = &stored.rid;
                regrouped.halves.extend(half.map(|(g, shown)| (rid.clone(), g, shown)));
            }
            let groups =
                (0..now.len()).map(|g| group_of(t, g, &now[g], &was, &stored, row.as_deref()));
            stored.state.groups = groups.collect();
            let given = asks && stored.loc.is_some() && t.table.rowid_alias().is_none();
            let local_seq = given.then(|| pin_key(meta, t, &mut stored));
            state::put(conn, meta, t, &stored, local_seq)?;
        }
    }
}

/// Columns of a row that are kept, and referred to a row until a foreign key went: which number they are
/// now differs between sites, as that row got others before. If what another site did is `received`, those of
/// which this one has the word ([`late`]).
fn freed(
    meta: &Meta,
    t: &Tracked,
    was: &[(Vec<u32>, Vec<String>)],
    state: &RowState,
    received: bool,
) -> Columns {
    let mut freed = Columns::new();
    for ((columns, keys), group) in was.iter().zip(&state.groups) {
        let Body::Stored(cell) = &group.body else { continue };
        let mut referred = keys.iter().zip(&cell.refs).filter(|(_, rid)| rid.is_some());
        if referred.all(|(key, _)| t.key_names.contains(key)) {
            continue;
        }
        for (i, no) in columns.iter().enumerate() {
            let ours = unsure::is_ours(meta, group.column_stamp(i).site);
            if received && !ours {
                continue;
            }
            let ticks = if ours { LIKELY } else { PERHAPS };
            let here = t.column_nos.iter().position(|n| n == no);
            freed.extend(here.map(|c| (c, ticks)));
        }
    }
    freed
}

/// Some entries of a table past one of them, in order, each with whether it asks for a number.
fn entries(conn: &Connection, meta: &Meta, t: &Tracked, after: i64) -> Result<Vec<(Stored, bool)>> {
    // The plus keeps SQLite from sorting all entries of the table each time.
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, wants FROM synqlite_row WHERE +tbl = ?1 AND id > ?2 \
         ORDER BY id LIMIT {PART}"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![t.no, after])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let asks = row.get::<_, Option<i64>>(5)?.is_some();
        entries.push((state::decode(meta, t, row)?, asks));
    }
    Ok(entries)
}

/// Keeps what a row holds of columns that a rebuild seems to have dropped and does not show: another
/// site may tell that one of them was only renamed.
fn keep_lost(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    was: &[(Vec<u32>, Vec<String>)],
    stored: &Stored,
) -> Result<()> {
    for ((columns, keys), group) in was.iter().zip(&stored.state.groups) {
        let Body::Stored(cell) = &group.body else { continue };
        let lost = |i: &usize| !t.column_nos.contains(&columns[*i]) && !group.is_unwritten(*i);
        let lost: Vec<usize> = (0..columns.len()).filter(lost).collect();
        let whole = lost.len() == columns.len() && group.column_stamps.is_empty();
        let alone = |&i: &usize| Piece {
            columns: vec![columns[i]],
            keys: vec![],
            stamp: group.column_stamp(i),
            pinned: group.pinned,
            cell: Cell { values: vec![cell.values[i].clone()], refs: vec![] },
            previous: None,
            counts: vec![],
        };
        let pieces = match whole {
            true => vec![Piece {
                columns: columns.clone(),
                keys: keys.clone(),
                stamp: group.stamp,
                pinned: group.pinned,
                cell: cell.clone(),
                previous: group.previous.clone(),
                counts: group.counts.clone(),
            }],
            false => lost.iter().map(alone).collect(),
        };
        for piece in pieces {
            let local_seq = meta.local_seq;
            stash::put(conn, meta, t.no, &stored.rid, &piece, local_seq)?;
        }
    }
    Ok(())
}

/// R-PIN: a number that was given to a row is what the new key was made of. Returns the local sequence.
fn pin_key(meta: &mut Meta, t: &Tracked, stored: &mut Stored) -> i64 {
    let key = t.table.primary_key.iter().map(|&c| t.table.columns[c].group);
    for g in key.collect::<BTreeSet<usize>>() {
        let group = &mut stored.state.groups[g];
        if !group.counts.is_empty() {
            continue;
        }
        if let Body::Stored(wanted) = std::mem::replace(&mut group.body, Body::InTable) {
            let previous = t.table.groups[g].keeps_previous.then_some(wanted);
            let stamp = meta.tick(0);
            *group = GroupState { pinned: true, previous, ..GroupState::shown(stamp) };
        }
    }
    meta.local_seq += 1;
    meta.local_seq
}

fn unit(t: &Tracked, group: &Group) -> (Vec<u32>, Vec<String>) {
    let columns = group.columns.iter().map(|&c| t.column_nos[c]);
    let keys = group.foreign_keys.iter().map(|&f| t.key_names[f].clone());
    (columns.collect(), keys.collect())
}

/// The table as far as its stored states are concerned, with the groups that they were stored for.
fn as_it_was(t: &Tracked, units: &[(Vec<u32>, Vec<String>)]) -> Tracked {
    let mut old = Relation::unnumbered(t.no, &t.canonical, Table::absent(&t.table.name));
    for (group, (columns, keys)) in units.iter().enumerate() {
        let first = old.column_nos.len();
        for no in columns {
            let now = t.column_nos.iter().position(|n| n == no);
            let column = now.map(|c| &t.table.columns[c]);
            old.column_nos.push(*no);
            old.since.push(now.map_or(-1, |c| t.since[c]));
            old.table.columns.push(Column {
                name: String::new(),
                declared_type: String::new(),
                affinity: column.map_or(Affinity::Blob, |column| column.affinity),
                collation: Collation::Binary,
                not_null: false,
                // A row that left its table before a column was added has its default.
                default: column.and_then(|column| column.default.clone()),
                group,
            });
        }
        old.table.groups.push(Group {
            columns: (first..old.column_nos.len()).collect(),
            foreign_keys: (0..keys.len()).collect(),
            keeps_previous: false,
            counter: false,
        });
    }
    old.into()
}

/// Which columns of a group the row showed, by their positions in it.
fn shown(
    unit: &(Vec<u32>, Vec<String>),
    was: &[(Vec<u32>, Vec<String>)],
    stored: &Stored,
) -> Vec<usize> {
    let shown = |no: &u32| {
        let group = was.iter().position(|(columns, _)| columns.contains(no));
        group.is_some_and(|g| stored.state.groups[g].body == Body::InTable)
    };
    (0..unit.0.len()).filter(|&i| shown(&unit.0[i])).collect()
}

/// Reads what such groups keep that was shown.
fn complete(
    lookup: Lookup<'_>,
    t: &Tracked,
    halves: Vec<(Rid, usize, Vec<usize>)>,
) -> Result<Vec<Stored>> {
    let mut found = Vec::new();
    for (rid, g, shown) in halves {
        let Some(mut stored) = state::of(lookup.conn, lookup.meta, t, &rid)? else { continue };
        let Some(loc) = &stored.loc else { continue };
        let Some(row) = t.read(lookup.conn, loc)? else { continue };
        let now = lookup.cell(t, g, &row)?;
        let group = &mut stored.state.groups[g];
        let kept = match &mut group.body {
            Body::Stored(cell) => Some(cell),
            Body::InTable => group.previous.as_mut(),
        };
        let Some(cell) = kept else { continue };
        let of = &t.table.groups[g];
        for &i in &shown {
            cell.values[i].clone_from(&now.values[i]);
        }
        let is_shown = |c: &usize| shown.iter().any(|&i| of.columns[i] == *c);
        for (r, &f) in of.foreign_keys.iter().enumerate() {
            if t.table.foreign_keys[f].columns.iter().all(is_shown) {
                cell.refs[r].clone_from(&now.refs[r]);
            }
        }
        found.push(stored);
    }
    Ok(found)
}

/// What group `g` of the table holds, of the groups `was` in which the row was stored.
fn group_of(
    t: &Tracked,
    g: usize,
    now: &(Vec<u32>, Vec<String>),
    was: &[(Vec<u32>, Vec<String>)],
    stored: &Stored,
    row: Option<&[Value]>,
) -> GroupState {
    if let Some(same) = was.iter().position(|unit| unit == now) {
        return stored.state.groups[same].clone();
    }
    let of = &t.table.groups[g];
    let mut cell = t.default_cell(g);
    // A visible row may be elsewhere since its table was rebuilt; what it shows needs no keeping.
    let (mut stamps, mut kept, mut pinned) = (Vec::new(), stored.loc.is_none(), false);
    for (i, no) in now.0.iter().enumerate() {
        let unit = was.iter().position(|(columns, _)| columns.contains(no));
        let group = unit.map(|u| (u, &stored.state.groups[u]));
        let place = unit.and_then(|u| was[u].0.iter().position(|n| n == no)).unwrap_or(0);
        stamps.push(group.map_or(Stamp::ZERO, |(_, group)| group.column_stamp(place)));
        pinned |= group.is_some_and(|(_, group)| group.pinned);
        match (group, row) {
            (Some((u, GroupState { body: Body::Stored(old), .. })), _) => {
                kept = true;
                cell.values[i] = old.values.get(place).cloned().unwrap_or(Value::Null);
                for (r, key) in now.1.iter().enumerate() {
                    let from = was[u].1.iter().position(|k| k == key);
                    if let Some(rid) = from.and_then(|from| old.refs.get(from)) {
                        cell.refs[r].clone_from(rid);
                    }
                }
            }
            (_, Some(row)) => cell.values[i] = row[of.columns[i]].clone(),
            _ => {}
        }
    }
    let body = if kept { Body::Stored(cell) } else { Body::InTable };
    // A counter is a group of its own, so its counts come from one; and so what all columns showed before.
    let unit = was.iter().position(|(columns, _)| *columns == now.0);
    let counts = unit.map_or(vec![], |u| stored.state.groups[u].counts.clone());
    let previous = unit.and_then(|u| {
        let previous = stored.state.groups[u].previous.as_ref()?;
        Some(state::under_keys(previous, &was[u].1, &now.1))
    });
    let mut group = GroupState { body, previous, pinned, counts, ..GroupState::shown(Stamp::ZERO) };
    group.set_column_stamps(stamps);
    group
}

/// A row whose columns `written` changed, nobody knows from what.
pub(crate) fn changed(loc: &Loc, written: BTreeMap<u32, i64>) -> Changed {
    Changed {
        now: loc.clone(),
        written,
        replaced: None,
        previous: None,
        set: BTreeMap::new(),
        start: None,
        last: 0,
        idly: false,
    }
}
