//! Which rows are twins.

use crate::Result;
use crate::catalog::{Loc, Tracked};
use crate::line;
use crate::line::parted::{self, Parted};
use crate::line::tree::Tree;
use crate::refs::Lookup;
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
    let told = parted::told(conn)?;
    for t in catalog.tables.iter().rev().filter(|t| t.table.own_number().is_none()) {
        let waited = |hlc: Hlc| hlc > lines.since && hlc < parted.before;
        let ours = born(lookup, t, &|site, n| n >= told && lines.is_own(site, n), &waited)?;
        let clocks: BTreeSet<Hlc> = ours.iter().map(clock).collect();
        latest = latest.max(clocks.last().copied().unwrap_or(Hlc::ZERO));
        let same = |hlc: Hlc| clocks.contains(&hlc);
        let theirs = born(lookup, t, &|site, n| lines.is_others(site, n), &same)?;
        let (ours, mut theirs) = (by_clock(lookup, t, ours)?, by_clock(lookup, t, theirs)?);
        for (clock, ours) in ours {
            let Some(theirs) = theirs.remove(&clock) else { continue };
            for (ours, theirs) in pairs(t, ours, theirs) {
                if ours.state.header.alive() {
                    found.push((t.no, ours.rid, theirs.rid));
                }
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
            let loc = Loc::Row(rowid);
            // One that was replaced before it was folded may have left its place in the segment.
            if meant(&rid) && t.exists(conn, &loc)? {
                let stored = state::at(conn, meta, t, &loc)?;
                found.extend(stored.filter(|stored| stored.entry.is_none() && stored.rid == rid));
            }
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
    /// again (R-PIN), that says it only if nothing else was.
    fn is_like(&self, t: &Tracked, other: &Row) -> Like {
        let number = t.table.rowid_alias().map(|c| t.table.columns[c].group);
        let refers = |c: &usize| t.table.foreign_keys.iter().any(|fk| fk.columns.contains(c));
        let (mut numbered, mut untouched) = (false, true);
        for (g, of) in t.table.groups.iter().enumerate() {
            let stamps = [self, other].map(|row| row.stored.state.groups[g].stamp.hlc);
            if stamps[0] != stamps[1] {
                untouched &= number == Some(g);
                continue;
            }
            numbered |= number == Some(g);
            let values = self.cells[g].values.iter().zip(&other.cells[g].values);
            if of.columns.iter().zip(values).any(|(c, (one, two))| one != two && !refers(c)) {
                return Like::Not;
            }
        }
        if numbered || untouched { Like::Twin } else { Like::Perhaps }
    }
}

/// Whether two rows are the same insert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Like {
    Twin,
    Perhaps,
    Not,
}

/// Rows by the clocks at which they were inserted.
fn by_clock(
    lookup: Lookup<'_>,
    t: &Tracked,
    rows: Vec<Stored>,
) -> Result<BTreeMap<Hlc, VecDeque<Row>>> {
    let mut found: BTreeMap<Hlc, VecDeque<Row>> = BTreeMap::new();
    for stored in rows {
        found.entry(clock(&stored)).or_default().push_back(Row::of(lookup, t, stored)?);
    }
    Ok(found)
}

/// Which of the rows that were inserted at one clock are twins: those that say so, and of the rest, if there are as many
/// on either side, the first and the first, and so on. One that is dead may have been given up for another of them.
fn pairs(t: &Tracked, ours: VecDeque<Row>, mut theirs: VecDeque<Row>) -> Vec<(Stored, Stored)> {
    theirs.make_contiguous().sort_by_key(|row| !row.stored.state.header.alive());
    let (mut found, mut rest) = (Vec::new(), Vec::new());
    for row in ours {
        match theirs.iter().position(|other| row.is_like(t, other) == Like::Twin) {
            Some(at) => found.extend(theirs.remove(at).map(|other| (row.stored, other.stored))),
            None => rest.push(row),
        }
    }
    let likely = |(one, other): (&Row, &Row)| one.is_like(t, other) == Like::Perhaps;
    if rest.len() == theirs.len() && rest.iter().zip(&theirs).all(likely) {
        found.extend(rest.into_iter().zip(theirs).map(|(one, other)| (one.stored, other.stored)));
    }
    found
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
