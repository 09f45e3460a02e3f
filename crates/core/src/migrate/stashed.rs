//! R-MIG-STASH: registers whose columns are here now.
//!
//! Who wrote such a column here, before any command, cannot have seen what the site kept of it. Nor had
//! those others seen what he wrote. So of each such pair what gives way is told (R-TOLD).

use crate::Result;
use crate::catalog::Fresh;
use crate::catalog::Tracked;
use crate::closed;
use crate::history;
use crate::merge::{self, Columns, Lost, Subject, Write};
use crate::meta::Meta;
use crate::parts;
use crate::refs::Lookup;
use crate::state::stash::{self, Piece};
use crate::state::{self, Body, RowState};
use crate::work::Work;
use rusqlite::Connection;
use std::collections::BTreeSet;
use synqlite_view::ConflictKind;
use synqlite_wire::{Header, Rid, Stamp};

/// So many rows are shown at a time, as parts of a merge are.
const PART: usize = parts::of(8_192);

/// Rows into which something was joined, by the numbers of their tables.
pub(super) type Joined = BTreeSet<(u32, Rid)>;

/// Joins them into their rows, which then show them. `fresh`: columns that were not here, by table;
/// `new`: the tables themselves were not.
pub(super) fn show_stashed(work: &mut Work<'_>, fresh: &Fresh, new: bool) -> Result<()> {
    let mut found = join_stashed(work, fresh)?;
    let Work { conn, meta, catalog, .. } = work;
    for t in catalog.tables.iter().filter(|t| new && fresh.contains_key(&t.no)) {
        found.extend(unwritten(conn, meta, t)?.into_iter().map(|rid| (t.no, rid)));
    }
    show(work, found, new)
}

/// Joins them into their rows, which do not show them yet. Returns these.
pub(super) fn join_stashed(work: &mut Work<'_>, fresh: &Fresh) -> Result<Joined> {
    let Work { conn, meta, catalog, .. } = work;
    let (mut found, mut met) = (Joined::new(), Met::default());
    let (local_seq, here, sites) = (meta.local_seq + 1, meta.site, meta.names.clone());
    for t in &catalog.tables {
        let Some(fresh) = fresh.get(&t.no) else { continue };
        for rid in stash::rows(conn, meta, t.no, -1)? {
            let Some(mut stored) = state::of(conn, meta, t, &rid)? else { continue };
            let (mut news, before) = (false, stored.state.clone());
            let row = stored.loc.as_ref().map(|loc| t.read(conn, loc)).transpose()?.flatten();
            for piece in stash::of(conn, meta, t.no, &rid)? {
                let (row, stored_now) = (row.as_deref(), Some(&stored));
                let subject =
                    Subject { t, rid: &rid, row, stored: stored_now, here, sites: &sites };
                met.with(meta, &subject, &before, &piece, fresh);
                news |= merge::join_piece(Lookup { conn, meta, catalog }, t, &mut stored, &piece)?;
                let here = piece.columns.iter().all(|no| t.has(*no));
                if here && !piece.refers_beyond(&t.key_names) {
                    stash::remove(conn, meta, t.no, &rid, &piece)?;
                }
            }
            if news {
                meta.local_seq = local_seq;
                state::put(conn, meta, t, &stored, Some(local_seq))?;
                found.insert((t.no, rid));
            }
        }
    }
    closed::note_written(conn, meta, catalog, &met.told)?;
    Ok(found)
}

/// Shows rows into which something was joined. Which numbers the rows of a `new` table get depends on
/// all of them (R-REMAP), so they come together.
pub(super) fn show(work: &mut Work<'_>, found: Joined, new: bool) -> Result<()> {
    let Work { conn, meta, catalog, policies, .. } = work;
    let found: Vec<_> = found.into_iter().collect();
    let most = if new { found.len().max(1) } else { PART };
    for part in found.chunks(most) {
        merge::reshow(conn, meta, catalog, policies, part)?;
    }
    if !history::enabled(conn)? {
        return Ok(());
    }
    // What others wrote while this schema lacked its columns.
    for (no, rid) in &found {
        let Some(table) = catalog.position_of_no(*no) else { continue };
        let t = &catalog.tables[table];
        if let Some(stored) = state::of(conn, meta, t, rid)? {
            history::record(conn, meta, catalog, t, &stored)?;
        }
    }
    Ok(())
}

/// Rows of which nothing was ever written but that they are there, and those that others deleted while the table
/// was out of sight. Rows of whose existence more than an insert decided get a position of now: while nothing could
/// be read of them their states kept theirs, and whoever has been here since would not be sent them.
pub(super) fn unwritten(conn: &Connection, meta: &mut Meta, t: &Tracked) -> Result<Vec<Rid>> {
    let mut statement =
        conn.prepare("SELECT rid, kind IS NULL FROM synqlite_row WHERE tbl = ?1")?;
    let (mut rows, mut all) = (statement.query([t.no])?, Vec::new());
    while let Some(row) = rows.next()? {
        let rid = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        all.push((state::decode_rid(meta, rid)?, row.get(1)?));
    }
    let (local_seq, mut found) = (meta.local_seq + 1, Vec::new());
    for (rid, plain) in all {
        let Some(stored) = state::of(conn, meta, t, &rid)? else { continue };
        let Header { cl, cl_stamp, inserted, yielded, .. } = stored.state.header;
        if cl > 1 || cl_stamp != inserted || !yielded.is_zero() {
            meta.local_seq = local_seq;
            state::put(conn, meta, t, &stored, Some(local_seq))?;
        }
        if plain && stored.state.header.alive() == stored.loc.is_none() {
            found.push(rid);
        }
    }
    Ok(found)
}

/// What gave way when what was kept met what is here.
#[derive(Default)]
struct Met {
    told: Vec<Lost>,
    /// When and where values came to be here of which nobody knows who wrote them.
    unsure: Option<Stamp>,
}

impl Met {
    /// `before`: the state of the row without what was kept of it.
    fn with(
        &mut self,
        meta: &mut Meta,
        subject: &Subject<'_>,
        before: &RowState,
        piece: &Piece,
        fresh: &[u32],
    ) {
        let t = subject.t;
        if !before.header.alive() || piece.stamp.is_zero() || piece.pinned {
            return;
        }
        for (group, of) in before.groups.iter().zip(&t.table.groups) {
            for (i, &c) in of.columns.iter().enumerate() {
                let no = t.column_nos[c];
                let Some(theirs) = piece.value(no).filter(|_| fresh.contains(&no)) else {
                    continue;
                };
                let ours = match (&group.body, subject.row) {
                    (Body::Stored(cell), _) => cell.values.get(i),
                    (Body::InTable, row) => row.map(|row| &row[c]),
                };
                let Some(ours) = ours.filter(|ours| *ours != theirs) else { continue };
                let counts = group.pinned || !group.counts.is_empty() || !piece.counts.is_empty();
                let stamp = group.column_stamp(i);
                if counts || stamp.is_zero() && *ours == t.default_of(c) {
                    continue;
                }
                let ours = Write { stamp, values: vec![ours.clone()] };
                let theirs = Write { stamp: piece.stamp, values: vec![theirs.clone()] };
                let kind = match theirs.stamp == before.header.inserted {
                    true => ConflictKind::KeyMerge,
                    false => ConflictKind::Overwritten,
                };
                let (lost, kept, why) = self.settle(meta, ours, theirs);
                let told = subject.gives_way(kind, &Columns::of(t, &[c]), &lost, &kept, why);
                self.told.push(told);
            }
        }
    }

    /// Which of two writes is lost, which is kept, and why.
    fn settle(
        &mut self,
        meta: &mut Meta,
        mut ours: Write,
        theirs: Write,
    ) -> (Write, Write, &'static str) {
        if ours.stamp.is_zero() {
            // Nobody is known to have written it, so a rebuild filled it in.
            ours.stamp = *self.unsure.get_or_insert_with(|| meta.tick(0));
            return (ours, theirs, "certain to have been written");
        }
        let (lost, kept) = if ours.stamp < theirs.stamp { (ours, theirs) } else { (theirs, ours) };
        (lost, kept, "later and was written where the other was not shown")
    }
}
