//! Values of which it cannot be told whether somebody wrote them.
//!
//! Another site may have to be told of them, so they need a stamp that it lacks; and they must lose
//! against every write that is certain. So they are stamped just after the write that they showed
//! before, by a *witness*: a site that is made up for them, writes nothing else and never again. Its
//! clock may be as early as it likes, because nobody has seen anything of it.

use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked};
use crate::line;
use crate::meta::Meta;
use crate::state::{self, Body};
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use synqlite_wire::{Hlc, Id, SiteId, Stamp};

/// Columns, by position, of rows of one table, each with the ticks by which it is later than what it
/// showed before: the likelier that it was written, the more.
pub(super) type Unsure = BTreeMap<Loc, BTreeMap<usize, Ticks>>;

/// Ticks of a clock.
pub(super) type Ticks = i64;

/// Perhaps nothing was written.
pub(super) const PERHAPS: Ticks = 1;

/// Something of the row was written.
pub(super) const LIKELY: Ticks = 2;

/// What was certainly written is later than all of these.
const CERTAIN: Ticks = 1024;

/// Lets the clock pass all that other sites may be unsure of by what this one knows.
pub(super) fn pass(meta: &mut Meta) {
    meta.observe(Hlc(meta.clock.0.saturating_add(CERTAIN)));
}

/// Stamps the values in `rows`, of the tables of the catalog in order. What this transaction has
/// written is certain.
pub(super) fn stamp(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    rows: Vec<Unsure>,
) -> Result<()> {
    if rows.iter().all(BTreeMap::is_empty) {
        return Ok(());
    }
    meta.position += 1;
    let witness = witness(meta);
    let mut latest = Hlc::ZERO;
    for (t, rows) in catalog.tables.iter().zip(rows) {
        for (loc, columns) in rows {
            latest = latest.max(row(conn, meta, t, &loc, &columns, witness)?);
        }
    }
    if latest > Hlc::ZERO {
        line::begin(conn, meta, witness, latest)?;
        meta.seen.raise(witness, latest);
        meta.observe(latest);
    }
    Ok(())
}

/// Stamps what is unsure of one row. Returns the latest clock given; none if nothing is.
fn row(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    loc: &Loc,
    columns: &BTreeMap<usize, Ticks>,
    witness: SiteId,
) -> Result<Hlc> {
    let mut latest = Hlc::ZERO;
    let Some(mut stored) = state::at(conn, meta, t, loc)? else { return Ok(latest) };
    let (site, began) = (meta.site, meta.began());
    // What nobody has written yet is as old as the row.
    let born = stored.state.born_at().hlc;
    for (group, of) in stored.state.groups.iter_mut().zip(&t.table.groups) {
        let written = group.stamp.site == site && group.stamp.hlc > began;
        let shown = group.body == Body::Shown && group.counts.is_empty();
        let ticks = of.columns.iter().filter_map(|c| columns.get(c)).max();
        let Some(ticks) = ticks.filter(|_| shown && !written) else { continue };
        let after = |stamp: Stamp| {
            let since = if stamp.is_zero() { born } else { stamp.hlc };
            Hlc(since.0.saturating_add(*ticks))
        };
        if !group.apart.is_empty() {
            // Each by itself: one may have been written long after another.
            let stamps = of.columns.iter().enumerate().map(|(i, c)| match columns.get(c) {
                Some(_) => Stamp { hlc: after(group.column_stamp(i)), site: witness },
                None => group.column_stamp(i),
            });
            group.set_column_stamps(stamps.collect());
            let mine = group.apart.iter().chain([&group.stamp]).filter(|s| s.site == witness);
            latest = mine.map(|stamp| stamp.hlc).fold(latest, Hlc::max);
            continue;
        }
        let hlc = after(group.stamp);
        (group.stamp, group.apart) = (Stamp { hlc, site: witness }, vec![]);
        latest = latest.max(hlc);
    }
    if latest > Hlc::ZERO {
        state::put(conn, meta, t, &stored, Some(meta.position))?;
    }
    Ok(latest)
}

/// A site that nobody knows: its id follows from this site and its clock, which has never been what
/// it is now.
fn witness(meta: &mut Meta) -> SiteId {
    let now = meta.tick(0);
    let hash = Sha256::new().chain_update(b"witness").chain_update(meta.site.0);
    let hash = hash.chain_update(now.hlc.0.to_be_bytes()).finalize();
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    Id(id)
}
