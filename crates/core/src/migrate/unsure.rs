//! Values of which it cannot be told whether somebody wrote them.
//!
//! Another site may have to be told of them, so they need a stamp that it lacks; and they must lose
//! against every write that is certain. So they are stamped just after the write that they showed
//! before, by a *witness*: a site that is made up for them, writes nothing else and never again. Its
//! clock may be as early as it likes, because nobody has seen anything of it.

use super::spans::Spans;
use crate::Result;
use crate::catalog::{Catalog, Loc, Tracked};
use crate::line;
use crate::meta::Meta;
use crate::parts;
use crate::state::{self, Body, Bulk, RowState};
use rusqlite::Connection;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use synqlite_wire::line::{WITNESS_TICKS, is_witness};
use synqlite_wire::{Hlc, Rid, SiteId, Stamp};

/// What is unsure of rows of one table.
pub(super) type Unsure = BTreeMap<Loc, Columns>;

/// Columns, by position, of a row, each with the ticks by which it is later than what it showed
/// before: the likelier that it was written, the more.
pub(super) type Columns = BTreeMap<usize, Ticks>;

/// Ticks of a clock.
pub(super) type Ticks = i64;

/// Perhaps nothing was written.
pub(super) const PERHAPS: Ticks = 1;

/// Something of the row was written.
pub(super) const LIKELY: Ticks = WITNESS_TICKS;

/// What was certainly written is later than all of these.
const CERTAIN: Ticks = 1024;

/// So many bytes of the id of a witness are those of the site that makes it up.
const MAKER: usize = 3;

/// States of so many rows are read at once.
const PART: usize = parts::of(512);

/// Lets the clock pass all that other sites may be unsure of by what this one knows.
pub(super) fn pass(meta: &mut Meta) {
    meta.observe(Hlc(meta.clock.0.saturating_add(CERTAIN)));
}

/// Stamps the values in `rows`, of the tables of the catalog in order: those of rows that lie together,
/// and those of single rows, which count where both name a column; and the values in `freed`, which rows
/// keep. What this transaction has written is certain.
pub(super) fn stamp(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    rows: Vec<(Spans, Unsure)>,
    freed: Vec<Vec<(Rid, Columns)>>,
) -> Result<()> {
    let nothing = rows.iter().all(|(spans, rows)| spans.is_empty() && rows.is_empty());
    if nothing && freed.iter().all(Vec::is_empty) {
        return Ok(());
    }
    meta.local_seq += 1;
    let site = witness(meta);
    let (own, began) = (meta.site, meta.began());
    let mut witness = Witness { site, own, began, latest: Hlc::ZERO };
    for (t, ((spans, mut rows), freed)) in catalog.tables.iter().zip(rows.into_iter().zip(freed)) {
        for (rid, columns) in freed {
            let Some(mut stored) = state::of(conn, meta, t, &rid)? else { continue };
            if witness.state(t, &mut stored.state, &columns, false) {
                state::put(conn, meta, t, &stored, Some(meta.local_seq))?;
            }
        }
        if !spans.is_empty() {
            witness.spans(conn, meta, t, &spans, &mut rows)?;
        }
        for (loc, columns) in rows {
            witness.row(conn, meta, t, &loc, &columns)?;
        }
    }
    if witness.latest > Hlc::ZERO {
        line::begin(conn, meta, site, witness.latest)?;
        meta.seen.raise(site, witness.latest);
        meta.observe(witness.latest);
    }
    Ok(())
}

/// Who says what is unsure.
struct Witness {
    site: SiteId,
    /// The site that makes it up.
    own: SiteId,
    /// What that has stamped since is certain.
    began: Hlc,
    /// The latest clock given; none if nothing was said.
    latest: Hlc,
}

impl Witness {
    /// Stamps what is unsure of rows that lie together, and what `rows` say of these.
    fn spans(
        &mut self,
        conn: &Connection,
        meta: &mut Meta,
        t: &Tracked,
        spans: &Spans,
        rows: &mut Unsure,
    ) -> Result<()> {
        let local_seq = meta.local_seq;
        let mut bulk = Bulk::new(conn, t)?;
        for (range, columns) in spans.ranges() {
            let (mut same, mut rest) = (false, range.peekable());
            while rest.peek().is_some() {
                let part: Vec<i64> = rest.by_ref().take(PART).collect();
                bulk.load(&part)?;
                for rowid in part {
                    if !rows.is_empty()
                        && let Some(single) = rows.remove(&Loc::Row(rowid))
                    {
                        let mut columns = columns.clone();
                        columns.extend(single);
                        self.row(conn, meta, t, &Loc::Row(rowid), &columns)?;
                        continue;
                    }
                    let stamp = |state: &mut RowState| self.state(t, state, &columns, true);
                    bulk.change(meta, rowid, local_seq, same, stamp)?;
                    same = true;
                }
            }
        }
        Ok(())
    }

    /// Stamps what is unsure of one row.
    fn row(
        &mut self,
        conn: &Connection,
        meta: &mut Meta,
        t: &Tracked,
        loc: &Loc,
        columns: &Columns,
    ) -> Result<()> {
        let Some(mut stored) = state::at(conn, meta, t, loc)? else { return Ok(()) };
        if self.state(t, &mut stored.state, columns, true) {
            state::put(conn, meta, t, &stored, Some(meta.local_seq))?;
        }
        Ok(())
    }

    /// Stamps what is unsure in the state of a row, of what is `shown` or of what is kept. Says whether
    /// anything is.
    fn state(&mut self, t: &Tracked, state: &mut RowState, columns: &Columns, shown: bool) -> bool {
        let (site, mut said) = (self.site, false);
        // What nobody is known to have written may have been written with the row, in a column of another name
        // (R-MIG-RENAME). That was certain, so this is older; but no reference is older than its row, or it would be
        // to the former life of one that was inserted anew with it (R-INC).
        let born = state.born_at().hlc;
        let before = Hlc((born.0 - CERTAIN).max(0));
        for (group, of) in state.groups.iter_mut().zip(&t.table.groups) {
            let written = group.stamp.site == self.own && group.stamp.hlc > self.began;
            let is = (group.body == Body::InTable) == shown && group.counts.is_empty();
            let ticks = of.columns.iter().filter_map(|c| columns.get(c)).max();
            let Some(ticks) = ticks.filter(|_| is && !written) else { continue };
            let after = |stamp: Stamp| {
                let since = if stamp.is_zero() { before } else { stamp.hlc };
                let since = if of.foreign_keys.is_empty() { since } else { since.max(born) };
                Hlc(since.0.saturating_add(*ticks))
            };
            said = true;
            if !group.column_stamps.is_empty() {
                // Each by itself: one may have been written long after another.
                let stamps = of.columns.iter().enumerate().map(|(i, c)| match columns.get(c) {
                    Some(_) => Stamp { hlc: after(group.column_stamp(i)), site },
                    None => group.column_stamp(i),
                });
                group.set_column_stamps(stamps.collect());
                let mine =
                    group.column_stamps.iter().chain([&group.stamp]).filter(|s| s.site == site);
                self.latest = mine.map(|stamp| stamp.hlc).fold(self.latest, Hlc::max);
                continue;
            }
            let hlc = after(group.stamp);
            (group.stamp, group.column_stamps) = (Stamp { hlc, site }, vec![]);
            self.latest = self.latest.max(hlc);
        }
        said
    }
}

/// A site that nobody knows: its id follows from this site and its clock, which has never been what
/// it is now.
fn witness(meta: &mut Meta) -> SiteId {
    let now = meta.tick(0);
    let hash = Sha256::new().chain_update(b"witness").chain_update(meta.site.0);
    let hash = hash.chain_update(now.hlc.0.to_be_bytes()).finalize();
    let mut seed = [0; 8];
    seed[..MAKER].copy_from_slice(&meta.site.0[..MAKER]);
    seed[MAKER..].copy_from_slice(&hash[..8 - MAKER]);
    synqlite_wire::line::witness(seed)
}

/// Whether this site wrote a value, or said last what it means.
pub(super) fn is_ours(meta: &Meta, site: SiteId) -> bool {
    let made_up = || site.0[..MAKER] == meta.site.0[..MAKER] && is_witness(site);
    site == meta.site || made_up()
}
