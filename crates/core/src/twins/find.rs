//! Which rows are twins.

use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::line;
use crate::line::parted::Parted;
use crate::line::tree::Tree;
use crate::refs::Lookup;
use crate::schema::Identity;
use crate::state::{self, Body, ENTRY_COLUMNS, SEGMENT_COLUMNS, Segment, Stored};
use rusqlite::params;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use synqlite_wire::{Cell, Hlc, Rid, SiteId};

/// Twins: the number of their table, ours, and theirs.
pub(super) type Names = (u32, Rid, Rid);

/// What became of a line that this file was on.
struct Lines {
    /// Stretches that lead to this file, with how many births there had been at the end of each.
    own: BTreeMap<SiteId, u64>,
    /// The others, with how many there had been before they parted.
    others: BTreeMap<SiteId, u64>,
    /// The clock at which they did.
    since: Hlc,
    /// How far the others are known.
    heard: Hlc,
}

impl Lines {
    fn of(lookup: Lookup<'_>, root: SiteId, parted: &Parted) -> Result<Lines> {
        let Lookup { conn, meta, .. } = lookup;
        let family = line::family(conn, meta, root)?;
        let way = Tree::new(root, &family).way(parted.clock);
        let own: BTreeMap<SiteId, u64> =
            way.iter().map(|stretch| (stretch.site, stretch.end.births)).collect();
        let mut lines =
            Lines { own, others: BTreeMap::new(), since: Hlc(i64::MAX), heard: Hlc::ZERO };
        for (site, line) in family {
            let end = way.iter().find(|stretch| stretch.site == site).map(|stretch| stretch.end);
            let (clock, births) = end.map_or((line.before, 0), |end| (end.clock, end.births));
            if line.points.last().is_some_and(|last| last.clock > clock) {
                lines.others.insert(site, births);
                lines.since = lines.since.min(clock);
                lines.heard = lines.heard.max(meta.seen.get(site));
            }
        }
        lines.own.insert(meta.site, u64::MAX);
        Ok(lines)
    }

    fn is_own(&self, site: SiteId, n: u64) -> bool {
        self.own.get(&site).is_some_and(|births| n < *births)
    }

    fn is_others(&self, site: SiteId, n: u64) -> bool {
        self.others.get(&site).is_some_and(|births| n >= *births)
    }
}

/// Twins that have come since `parted` was last looked at, and whether no others can. Those that refer to others come
/// before these.
pub(super) fn twins(lookup: Lookup<'_>, parted: &mut Parted) -> Result<(Vec<Names>, bool)> {
    let Lookup { conn, meta, catalog } = lookup;
    let (root, _) = line::origin(conn, meta, parted.site)?;
    let clocks = line::members(conn, meta, root)?.into_iter().map(|site| meta.seen.get(site).0);
    let heard = clocks.fold(0, i64::wrapping_add);
    // A line may be long, and mostly nothing is new of this one.
    if heard == parted.heard {
        return Ok((vec![], false));
    }
    parted.heard = heard;
    let lines = Lines::of(lookup, root, parted)?;
    let (mut found, mut latest) = (Vec::new(), Hlc::ZERO);
    for t in catalog.tables.iter().rev() {
        if t.table.identity != Identity::Birth || t.table.own_number().is_some() {
            continue;
        }
        let waited = |hlc: Hlc| hlc > lines.since && hlc < parted.before;
        let ours = born(lookup, t, &|site, n| lines.is_own(site, n), &waited)?;
        let clocks: BTreeSet<Hlc> = ours.iter().map(clock).collect();
        latest = latest.max(clocks.last().copied().unwrap_or(Hlc::ZERO));
        let same = |hlc: Hlc| clocks.contains(&hlc);
        let mut theirs: BTreeMap<Hlc, VecDeque<Row>> = BTreeMap::new();
        for stored in born(lookup, t, &|site, n| lines.is_others(site, n), &same)? {
            theirs.entry(clock(&stored)).or_default().push_back(Row::of(lookup, t, stored)?);
        }
        for stored in ours.into_iter().filter(|stored| stored.state.header.alive()) {
            let Some(rows) = theirs.get_mut(&clock(&stored)) else { continue };
            let ours = Row::of(lookup, t, stored)?;
            if let Some(at) = rows.iter().position(|row| ours.is_twin(t, row))
                && let Some(row) = rows.remove(at)
            {
                found.push((t.no, ours.stored.rid, row.stored.rid));
            }
        }
    }
    Ok((found, lines.heard > Hlc::ZERO && lines.heard >= latest))
}

fn clock(stored: &Stored) -> Hlc {
    stored.state.header.inserted.hlc
}

/// Rows of a table that were born so, in the order in which they were, and inserted at clocks that are the first
/// of their milliseconds.
fn born(
    lookup: Lookup<'_>,
    t: &Tracked,
    is: &dyn Fn(SiteId, u64) -> bool,
    at: &dyn Fn(Hlc) -> bool,
) -> Result<Vec<Stored>> {
    let Lookup { conn, meta, .. } = lookup;
    let meant = |rid: &Rid| matches!(rid, Rid::Birth { site, n } if is(*site, *n));
    let dated = |hlc: Hlc| hlc == Hlc::at_ms(hlc.ms()) && at(hlc);
    let mut found = Vec::new();
    let sql = format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE +tbl = ?1");
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([t.no])?;
    while let Some(row) = rows.next()? {
        let stored = state::decode(meta, t, row)?;
        if meant(&stored.rid) && dated(clock(&stored)) {
            found.push(stored);
        }
    }
    let sql = format!(
        "SELECT {SEGMENT_COLUMNS} FROM synqlite_segment WHERE tbl = ?1 AND first IS NOT NULL"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query(params![t.no])?;
    while let Some(row) = rows.next()? {
        let segment = Segment::from_row(row)?;
        if !dated(segment.hlc) {
            continue;
        }
        for rowid in segment.lo..=segment.hi {
            let rid = segment.rid_at(meta, rowid)?;
            let stored =
                if meant(&rid) { state::at(conn, meta, t, &Loc::Row(rowid))? } else { None };
            found.extend(stored.filter(|stored| stored.entry.is_none() && stored.rid == rid));
        }
    }
    found.sort_by(|a, b| a.rid.cmp(&b.rid));
    Ok(found)
}

/// A row with all that its registers hold.
struct Row {
    stored: Stored,
    cells: Vec<Cell>,
}

impl Row {
    fn of(lookup: Lookup<'_>, t: &Tracked, stored: Stored) -> Result<Row> {
        Ok(Row { cells: cells(lookup, t, &stored)?, stored })
    }

    /// Whether the two were inserted with the same values, as far as nobody has written to them since. Numbers
    /// of rows to which they refer may differ. Where rows are not numbered by a column, or the number was written
    /// again (R-PIN), nothing else may have been.
    fn is_twin(&self, t: &Tracked, other: &Row) -> bool {
        let alias = t.table.rowid_alias().map(|c| t.table.columns[c].group);
        let refers = |c: &usize| t.table.foreign_keys.iter().any(|fk| fk.columns.contains(c));
        let mut untouched = true;
        for (g, of) in t.table.groups.iter().enumerate() {
            let stamps = [self, other].map(|row| row.stored.state.groups[g].stamp.hlc);
            if stamps[0] != stamps[1] {
                untouched &= alias == Some(g);
                continue;
            }
            let values = self.cells[g].values.iter().zip(&other.cells[g].values);
            if of.columns.iter().zip(values).any(|(c, (one, two))| one != two && !refers(c)) {
                return false;
            }
        }
        let numbered = alias.is_some_and(|g| {
            let [one, two] = [self, other].map(|row| row.stored.state.groups[g].stamp.hlc);
            one == two
        });
        untouched || numbered
    }
}

/// What the registers of a row hold.
pub(super) fn cells(lookup: Lookup<'_>, t: &Tracked, stored: &Stored) -> Result<Vec<Cell>> {
    let shown = match &stored.loc {
        Some(loc) => state::shown(lookup.conn, t, loc)?,
        None => vec![],
    };
    let cell = |(g, group): (usize, &state::GroupState)| match &group.body {
        Body::Stored(cell) => Ok(group.kept(t, g, cell)),
        Body::InTable => lookup.cell(t, g, &shown),
    };
    stored.state.groups.iter().enumerate().map(cell).collect()
}
