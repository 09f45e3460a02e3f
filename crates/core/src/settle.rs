//! Settling a conflict by command: each verb is an ordinary, replicated write, so all
//! sites settle alike.

use crate::catalog::Tracked;
use crate::closed::{self, ClosedBy, Verb};
use crate::merge::reshow;
use crate::records::record_id;
use crate::replica::Replica;
use crate::schema::{Action, ForeignKey};
use crate::state::{self, Body, ENTRY_COLUMNS, GroupState, Stored, Waits};
use crate::work::Work;
use crate::{Error, Result};
use std::collections::BTreeSet;
use synqlite_view::ConflictKind;
use synqlite_view::local_wins::set;
use synqlite_wire::{Rid, Stamp};

/// The row of an open record.
struct Open {
    table: usize,
    stored: Stored,
    kind: ConflictKind,
    constraint: String,
    winner: Option<Rid>,
}

impl Replica {
    /// Settles the conflict whose id is `id` or begins with it. Returns its whole id.
    pub fn settle_conflict(&mut self, id: &str, verb: Verb) -> Result<String> {
        let now_ms = self.env.now_ms();
        self.write(|work| {
            work.fold()?;
            let (id, open) = find(work, id)?;
            work.meta.local_seq += 1;
            let stamp = work.meta.tick(now_ms);
            let settled = match verb {
                Verb::Prefer => prefer(work, open, stamp)?,
                Verb::Discard => discard(work, open, stamp)?,
                Verb::Restore => restore(work, open, stamp)?,
                Verb::Accept if open.stored.loc.is_none() => discard(work, open, stamp)?,
                Verb::Accept if open.stored.state.header.alive() => accept(work, open, stamp)?,
                Verb::Accept => restore(work, open, stamp)?,
            };
            let Work { conn, meta, catalog, policies, .. } = work;
            reshow(conn, meta, catalog, policies, &settled)?;
            closed::update(conn, meta, catalog, now_ms, ClosedBy::Settled(verb))?;
            Ok(id)
        })
    }
}

fn find(work: &Work<'_>, prefix: &str) -> Result<(String, Open)> {
    let mut found = Vec::new();
    for (table, t) in work.catalog.tables.iter().enumerate() {
        let sql = format!(
            "SELECT {ENTRY_COLUMNS}, kind, cons, winner FROM synqlite_row \
             WHERE +tbl = ?1 AND kind IS NOT NULL"
        );
        let mut statement = work.conn.prepare(&sql)?;
        let mut rows = statement.query([t.no])?;
        while let Some(row) = rows.next()? {
            let stored = state::decode(&work.meta, t, row)?;
            let (kind, constraint): (String, String) = (row.get(5)?, row.get(6)?);
            let kind = ConflictKind::from(kind.as_str());
            let id = record_id(&t.canonical, kind.as_str(), &constraint, &stored.rid);
            let winner: Option<Vec<u8>> = row.get(7)?;
            let winner = winner.map(|bytes| state::decode_rid(&work.meta, &bytes)).transpose()?;
            if !prefix.is_empty() && id.starts_with(prefix) {
                found.push((id, Open { table, stored, kind, constraint, winner }));
            }
        }
    }
    let several = found.len() > 1;
    match found.pop() {
        Some(open) if !several => Ok(open),
        Some(_) => Err(Error::Refused(format!("several open conflicts have ids like {prefix}"))),
        None => Err(Error::Refused(format!("no open conflict has id {prefix}"))),
    }
}

type Settled = Result<Vec<(u32, Rid)>>;

fn refused<T>(open: &Open, verb: &str, instead: &str) -> Result<T> {
    let kind = &open.kind;
    Err(Error::Refused(format!("a conflict of kind {kind} cannot be settled by {verb}; {instead}")))
}

/// The winner's claims count from now, so the loser's are earlier.
fn prefer(work: &mut Work<'_>, open: Open, stamp: Stamp) -> Settled {
    let t = &work.catalog.tables[open.table];
    let Some(winner) = &open.winner else {
        return refused(&open, "prefer", "no other row has what it asks for");
    };
    let Some(mut winner) = state::of(work.conn, &work.meta, t, winner)? else {
        return refused(&open, "prefer", "the other row is gone");
    };
    winner.state.header.yielded = stamp;
    let rids = vec![(t.no, winner.rid.clone()), (t.no, open.stored.rid)];
    save(work, open.table, &winner)?;
    Ok(rids)
}

fn discard(work: &mut Work<'_>, mut open: Open, stamp: Stamp) -> Settled {
    if open.stored.loc.is_some() {
        return refused(&open, "discard", "the row is visible: delete it, or accept what it shows");
    }
    open.stored.state.header.delete(stamp);
    save(work, open.table, &open.stored)?;
    Ok(vec![(work.catalog.tables[open.table].no, open.stored.rid)])
}

/// The deleted row, or the deleted parent of a hidden one, lives again.
fn restore(work: &mut Work<'_>, mut open: Open, stamp: Stamp) -> Settled {
    let itself = (work.catalog.tables[open.table].no, open.stored.rid.clone());
    let dead = |stored: &Stored| !stored.state.header.alive();
    let (table, mut stored) = if dead(&open.stored) {
        (open.table, open.stored)
    } else if open.kind == ConflictKind::RestrictRevived {
        // It went with a former life of its parent: it refers to the present one.
        let t = &work.catalog.tables[open.table];
        let cascades = |fk: &&ForeignKey| fk.on_delete == Action::Cascade;
        for fk in t.table.foreign_keys.iter().filter(cascades) {
            let g = t.table.columns[fk.columns[0]].group;
            set(&mut open.stored.state.groups[g], t, g, stamp);
        }
        save(work, open.table, &open.stored)?;
        return Ok(vec![itself]);
    } else {
        match dead_ancestor(work, open.table, &open.stored, &open.constraint)? {
            Some(found) => found,
            None => {
                open.winner = None;
                return refused(&open, "restore", "nothing it needs was deleted");
            }
        }
    };
    stored.state.header.cl += 1;
    stored.state.header.cl_stamp = stamp;
    save(work, table, &stored)?;
    Ok(vec![(work.catalog.tables[table].no, stored.rid), itself])
}

/// The dead row that a row refers to by the foreign key `constraint`, or by any if that is empty;
/// through rows that are hidden themselves.
fn dead_ancestor(
    work: &Work<'_>,
    table: usize,
    stored: &Stored,
    constraint: &str,
) -> Result<Option<(usize, Stored)>> {
    let mut asked = BTreeSet::new();
    let mut ask = vec![(table, stored.clone(), constraint)];
    while let Some((table, stored, constraint)) = ask.pop() {
        let t = &work.catalog.tables[table];
        let keys = t.table.foreign_keys.iter().enumerate();
        for (f, fk) in keys.filter(|(f, _)| constraint.is_empty() || t.key_names[*f] == constraint)
        {
            let Some(rid) = stored.state.kept_reference(t, f) else { continue };
            let Some(table) = work.catalog.position(&fk.parent) else { continue };
            let parent = &work.catalog.tables[table];
            match state::of(work.conn, &work.meta, parent, rid)? {
                Some(found) if !found.state.header.alive() => return Ok(Some((table, found))),
                Some(found) if found.loc.is_none() && asked.insert((table, rid.clone())) => {
                    ask.push((table, found, ""));
                }
                _ => {}
            }
        }
    }
    Ok(None)
}

/// What the row shows becomes what was written.
fn accept(work: &mut Work<'_>, mut open: Open, stamp: Stamp) -> Settled {
    for group in &mut open.stored.state.groups {
        if let (Body::Stored(written), true) = (&group.body, group.counts.is_empty()) {
            let previous = Some(written.clone());
            *group = GroupState { previous, ..GroupState::shown(stamp) };
        }
    }
    save(work, open.table, &open.stored)?;
    Ok(vec![(work.catalog.tables[open.table].no, open.stored.rid)])
}

fn save(work: &mut Work<'_>, table: usize, stored: &Stored) -> Result<()> {
    let Work { conn, meta, catalog, .. } = work;
    let t: &Tracked = &catalog.tables[table];
    let local_seq = meta.local_seq;
    let entry = state::put(conn, meta, t, stored, Some(local_seq))?;
    let settled = Waits { references: vec![], claims: vec![], conflict: None, winner: None };
    state::record_waits(conn, meta, entry, &settled)
}
