//! Everything that a file says of a site, where that site goes by other ids.

use super::tree::{Lines, Stretch};
use super::{Learner, Moves, forget_places};
use crate::Result;
use crate::catalog::Tracked;
use crate::meta::Meta;
use crate::parts;
use crate::records::{call_open, pair_id, record_id};
use crate::registry;
use crate::sqlvalue::hex;
use crate::state::{self, ENTRY_COLUMNS, Names, Segment, numbers, stash};
use rusqlite::{Connection, params};
use std::collections::BTreeMap;
use synqlite_wire::key::{KeyPart, decode, encode};
use synqlite_wire::{Count, Hlc, Rid, SiteId, Stamp};

/// So many entries are looked at one after another.
const PART: usize = parts::of(1_000);

/// The lines that began with `root` were `old` and are `new`.
pub fn follow(at: &mut Learner<'_>, root: SiteId, old: &Lines, new: &Lines) -> Result<()> {
    let moves = moves(old, new);
    let Learner { conn, meta, .. } = at;
    for site in new.keys() {
        meta.number(conn, *site)?;
    }
    if moves.iter().any(|(site, stretches)| concerns(meta, site, stretches)) {
        meta.seen = moves.vector(&meta.seen);
        let mut tables = registry::absent(conn, at.catalog)?;
        tables.extend(at.catalog.tables.iter().cloned());
        for t in &tables {
            let counted = entries(conn, meta, t, &moves)?;
            segments(conn, meta, t, &moves)?;
            if pieces(conn, meta, t, &moves)? || counted {
                at.counted.extend(old.keys().map(|site| (t.no, *site)));
            }
        }
        identities(conn, meta, &moves)?;
        stamps(conn, meta, &moves)?;
    }
    let numbers = |meta: &Meta, lines: &Lines| -> Vec<u32> {
        lines.keys().filter_map(|site| meta.known_number(*site)).collect()
    };
    for no in numbers(meta, old) {
        conn.execute("DELETE FROM synqlite_line WHERE site = ?1", [no])?;
    }
    let root_no = meta.number(conn, root)?;
    for (site, line) in new {
        let no = meta.number(conn, *site)?;
        let branch = *site != root;
        let sql = "UPDATE synqlite_site SET root = ?2, fork = ?3 WHERE no = ?1";
        let origin = branch.then_some((root_no, line.before.0));
        conn.execute(sql, params![no, origin.map(|o| o.0), origin.map(|o| o.1)])?;
        // Which local sequences of which file were taken nobody can say any more.
        conn.execute("DELETE FROM synqlite_peer WHERE site = ?1", [no])?;
    }
    for (site, line) in new {
        at.append(*site, &line.points)?;
    }
    forget_places(at.conn)
}

/// Which stretches of the old lines go by other ids.
fn moves(old: &Lines, new: &Lines) -> Moves {
    let of: BTreeMap<Hlc, SiteId> = new
        .iter()
        .flat_map(|(site, line)| line.points.iter().map(|point| (point.clock, *site)))
        .collect();
    let mut moves = Moves::default();
    for (site, line) in old {
        let mut stretches: Vec<Stretch> = Vec::new();
        for point in &line.points {
            let now = of.get(&point.clock).copied().unwrap_or(*site);
            match stretches.last_mut() {
                Some(last) if last.site == now => last.end = *point,
                _ => stretches.push(Stretch { end: *point, site: now }),
            }
        }
        moves.insert(*site, stretches);
    }
    moves
}

/// Whether this file contains anything of a stretch that goes by another id.
fn concerns(meta: &Meta, site: SiteId, stretches: &[Stretch]) -> bool {
    let kept = stretches.iter().take_while(|stretch| stretch.site == site).last();
    meta.seen.get(site) > kept.map_or(Hlc::ZERO, |kept| kept.end.clock)
}

/// Moves counts. Whether any goes by another site now.
fn counts(counts: &mut [Count], moves: &Moves) -> bool {
    let before: Vec<SiteId> = counts.iter().map(|count| count.stamp.site).collect();
    counts.iter_mut().for_each(|count| moves.stamp(&mut count.stamp));
    let moved = counts.iter().zip(before).any(|(count, before)| count.stamp.site != before);
    counts.sort_by_key(|count| count.stamp.site);
    moved
}

/// Rows with entries of their own. Whether counts go by another site now.
fn entries(conn: &Connection, meta: &mut Meta, t: &Tracked, moves: &Moves) -> Result<bool> {
    let sql = format!(
        "SELECT {ENTRY_COLUMNS}, kind, cons, winner FROM synqlite_row WHERE +tbl = ?1 AND id > ?2 \
         ORDER BY id LIMIT {PART}"
    );
    let (mut after, mut counted) = (i64::MIN, false);
    loop {
        let mut found = Vec::new();
        let mut statement = conn.prepare_cached(&sql)?;
        let mut rows = statement.query(params![t.no, after])?;
        while let Some(row) = rows.next()? {
            let (kind, cons): (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
            let winner: Option<Vec<u8>> = row.get(7)?;
            found.push((state::decode(meta, t, row)?, kind, cons, winner));
        }
        let Some((last, ..)) = found.last() else { return Ok(counted) };
        after = last.entry.unwrap_or(i64::MAX);
        for (mut stored, kind, cons, winner) in found {
            let before = stored.clone();
            moves.rid(&mut stored.rid);
            moves.header(&mut stored.state.header);
            for group in &mut stored.state.groups {
                moves.stamp(&mut group.stamp);
                group.column_stamps.iter_mut().for_each(|stamp| moves.stamp(stamp));
                counted |= counts(&mut group.counts, moves);
                group.previous.iter_mut().for_each(|cell| moves.cell(cell));
                if let state::Body::Stored(cell) = &mut group.body {
                    moves.cell(cell);
                }
            }
            if before.rid != stored.rid || before.state != stored.state {
                state::rewrite(conn, meta, t, &stored)?;
            }
            let Some(id) = stored.entry else { continue };
            if let Some(mut rid) = winner.map(|w| state::decode_rid(meta, &w)).transpose()? {
                moves.rid(&mut rid);
                let sql = "UPDATE synqlite_row SET winner = ?2 WHERE id = ?1";
                let bytes = state::known_bytes(meta, &rid)?;
                conn.prepare_cached(sql)?.execute(params![id, bytes])?;
            }
            if let (Some(kind), Some(cons)) = (kind, cons) {
                let record = record_id(&t.canonical, &kind, &cons, &stored.rid);
                call_open(conn, id, &record)?;
            }
        }
    }
}

/// Rows born together: the clock of all of them says whose births they are.
fn segments(conn: &Connection, meta: &mut Meta, t: &Tracked, moves: &Moves) -> Result<()> {
    let sql = format!(
        "SELECT {} FROM synqlite_segment WHERE tbl = ?1 ORDER BY lo",
        state::SEGMENT_COLUMNS
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let mut rows = statement.query([t.no])?;
    let mut changed = Vec::new();
    while let Some(row) = rows.next()? {
        let mut segment = Segment::from_row(row)?;
        let mut stamp = segment.stamp(meta)?;
        moves.stamp(&mut stamp);
        let no = meta.number(conn, stamp.site)?;
        let mut new = std::mem::replace(&mut segment.site, no) != no;
        if let Names::Keys(keys) = &mut segment.names {
            new |= keys.rewrite(|key| moves.key(key))?;
        }
        if new {
            changed.push(segment);
        }
    }
    drop(rows);
    let sql = "DELETE FROM synqlite_segment WHERE tbl = ?1 AND lo = ?2";
    for segment in changed {
        conn.prepare_cached(sql)?.execute(params![t.no, segment.lo])?;
        segment.save(conn, t)?;
    }
    Ok(())
}

/// Registers of columns that are not here. Whether counts go by another site now.
fn pieces(conn: &Connection, meta: &mut Meta, t: &Tracked, moves: &Moves) -> Result<bool> {
    let mut counted = false;
    for rid in stash::rows(conn, meta, t.no, i64::MIN)? {
        for (mut piece, local_seq) in stash::take(conn, meta, t.no, &rid)? {
            let mut rid = rid.clone();
            moves.rid(&mut rid);
            moves.stamp(&mut piece.stamp);
            moves.cell(&mut piece.cell);
            piece.previous.iter_mut().for_each(|cell| moves.cell(cell));
            counted |= counts(&mut piece.counts, moves);
            stash::put(conn, meta, t.no, &rid, &piece, local_seq)?;
        }
    }
    Ok(counted)
}

/// The rows that a table of ours names.
fn rids(conn: &Connection, meta: &mut Meta, moves: &Moves, of: &str) -> Result<()> {
    let mut statement = conn.prepare(&format!("SELECT DISTINCT tbl, rid FROM {of}"))?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let rids: Vec<(u32, Vec<u8>)> = rows.collect::<Result<_, _>>()?;
    for (table, bytes) in rids.into_iter().filter(|(_, bytes)| !numbers::is_nobody(bytes)) {
        let before = state::decode_rid(meta, &bytes)?;
        let mut rid = before.clone();
        moves.rid(&mut rid);
        if rid != before {
            let sql = format!("UPDATE OR REPLACE {of} SET rid = ?3 WHERE tbl = ?1 AND rid = ?2");
            let new = state::known_bytes(meta, &rid)?;
            conn.prepare_cached(&sql)?.execute(params![table, bytes, new])?;
        }
    }
    Ok(())
}

/// Rows that others wait for or that had numbers here, and keys that they ask for.
fn identities(conn: &Connection, meta: &mut Meta, moves: &Moves) -> Result<()> {
    rids(conn, meta, moves, "synqlite_reference")?;
    if numbers::any(conn)? {
        rids(conn, meta, moves, "synqlite_number")?;
    }
    let mut statement = conn.prepare("SELECT DISTINCT key FROM synqlite_claim")?;
    let keys: Vec<Vec<u8>> =
        statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for bytes in keys {
        let mut key = bytes.clone();
        moves.key(&mut key);
        if key != bytes {
            let sql = "UPDATE OR REPLACE synqlite_claim SET key = ?2 WHERE key = ?1";
            conn.prepare_cached(sql)?.execute(params![bytes, key])?;
        }
    }
    Ok(())
}

/// Settings, what gave way, and the history.
fn stamps(conn: &Connection, meta: &mut Meta, moves: &Moves) -> Result<()> {
    let mut statement = conn.prepare("SELECT key, hlc, site FROM synqlite_policy")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let settings: Vec<(String, i64, u32)> = rows.collect::<Result<_, _>>()?;
    for (key, hlc, no) in settings {
        let mut stamp = Stamp { hlc: Hlc(hlc), site: meta.site_of(no)? };
        moves.stamp(&mut stamp);
        let no = meta.number(conn, stamp.site)?;
        conn.execute("UPDATE synqlite_policy SET site = ?2 WHERE key = ?1", params![key, no])?;
    }
    pairs(conn, meta, moves)?;
    history(conn, meta, moves)
}

/// Writes of which one gave way.
fn pairs(conn: &Connection, meta: &mut Meta, moves: &Moves) -> Result<()> {
    let sql = "SELECT no, record, lost, lost_site, kept, kept_site FROM synqlite_closed \
               WHERE lost IS NOT NULL";
    let (mut statement, mut moved) = (conn.prepare(sql)?, Vec::new());
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let stamp = |at: usize| -> Result<Stamp> {
            Ok(Stamp { hlc: Hlc(row.get(at)?), site: meta.site_of(row.get(at + 1)?)? })
        };
        let (no, record): (i64, String) = (row.get(0)?, row.get(1)?);
        let id = pair_id(&record)?;
        let (lost, kept) = (stamp(2)?, stamp(4)?);
        let mut now = (id, lost, kept);
        moves.pair(&mut now.0, &mut now.1, &mut now.2);
        if now != (id, lost, kept) {
            moved.push((no, now));
        }
    }
    let sql = "UPDATE OR REPLACE synqlite_closed SET record = ?2, lost_site = ?3, kept_site = ?4 \
               WHERE no = ?1";
    for (no, (id, lost, kept)) in moved {
        let sites = [meta.number(conn, lost.site)?, meta.number(conn, kept.site)?];
        conn.prepare_cached(sql)?.execute(params![no, hex(&id), sites[0], sites[1]])?;
    }
    Ok(())
}

fn history(conn: &Connection, meta: &mut Meta, moves: &Moves) -> Result<()> {
    let moved = |bytes: &[u8]| {
        let mut parts = decode(bytes).unwrap_or_default();
        if let Some(KeyPart::Row(rid)) = parts.first_mut() {
            let moved: &mut Rid = rid;
            moves.rid(moved);
        }
        encode(&parts)
    };
    // Rows to which foreign keys were.
    let sql = "SELECT hlc, site, tbl, rid, col, value FROM synqlite_history WHERE col < -2";
    let (mut statement, mut refs) = (conn.prepare(sql)?, Vec::new());
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (bytes, to): (Vec<u8>, Vec<u8>) = (row.get(3)?, row.get(5)?);
        let now = moved(&to);
        if now != to {
            let key: (i64, u32, u32, i64) = (row.get(0)?, row.get(1)?, row.get(2)?, row.get(4)?);
            refs.push((key, bytes, now));
        }
    }
    for ((hlc, site, no, col), rid, to) in refs {
        let sql = "UPDATE synqlite_history SET value = ?6 \
                   WHERE (hlc, site, tbl, rid, col) = (?1, ?2, ?3, ?4, ?5)";
        conn.prepare_cached(sql)?.execute(params![hlc, site, no, rid, col, to])?;
    }
    let sql = "SELECT DISTINCT hlc, site, rid FROM synqlite_history";
    let mut statement = conn.prepare(sql)?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let writes: Vec<(i64, u32, Vec<u8>)> = rows.collect::<Result<_, _>>()?;
    for (hlc, no, bytes) in writes {
        let mut stamp = Stamp { hlc: Hlc(hlc), site: meta.site_of(no)? };
        moves.stamp(&mut stamp);
        let (now, rid) = (meta.number(conn, stamp.site)?, moved(&bytes));
        if (now, &rid) != (no, &bytes) {
            let sql = "UPDATE OR REPLACE synqlite_history SET site = ?4, rid = ?5 \
                       WHERE hlc = ?1 AND site = ?2 AND rid = ?3";
            conn.prepare_cached(sql)?.execute(params![hlc, no, bytes, now, rid])?;
        }
    }
    Ok(())
}
