//! Settling a conflict by command: each verb is an ordinary, replicated write, so all
//! sites settle alike.

use crate::catalog::Tracked;
use crate::closed::{self, ClosedBy, Verb};
use crate::conflicts::lead;
use crate::history;
use crate::merge::reshow;
use crate::needs::{Lost, is_former, lost};
use crate::records::{self, Conflict, record_id};
use crate::refs::Lookup;
use crate::replica::Replica;
use crate::schema::{Action, ForeignKey};
use crate::state::{self, Body, GroupState, RowState, Stored, Waits};
use crate::work::Work;
use crate::{Error, Result, open};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_view::ConflictKind;
use synqlite_view::local_wins::set;
use synqlite_wire::{Rid, Stamp};

/// What settling came to.
#[derive(Clone, Debug, Default)]
pub struct Settling {
    /// Whole ids of the records that were settled, and of those that waited for one of them and are over with it.
    pub settled: Vec<String>,
    /// What could not be settled so, by the id that was given, and why.
    pub refused: Vec<(String, String)>,
    /// Records that are open now and were not before: the rows that step aside.
    pub opened: Vec<Conflict>,
    /// How many are open now.
    pub open: u64,
}

/// Why one stays that was settled as asked.
const IN_THE_WAY: &str = "something else stands in its way too";

/// Where the row of an open record is.
struct Place {
    table: usize,
    rid: Rid,
    entry: i64,
    kind: ConflictKind,
    constraint: String,
    winner: Option<Rid>,
}

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
        let mut done = self.settle_conflicts(&[(id.to_owned(), verb)], false)?;
        match done.refused.pop() {
            Some((_, why)) => Err(Error::Refused(why)),
            // With it those may be that followed it.
            None => {
                let asked = done.settled.into_iter().find(|settled| settled.starts_with(id));
                Ok(asked.unwrap_or_default())
            }
        }
    }

    /// Settles conflicts, each named by its id or the first digits of it, in one transaction. One that cannot
    /// be settled as asked leaves the others alone. A dry run tells what would be, and changes nothing.
    pub fn settle_conflicts(
        &mut self,
        choices: &[(String, Verb)],
        dry_run: bool,
    ) -> Result<Settling> {
        self.settle(choices, true, dry_run)
    }

    /// The same of these alone: what waits for the answer to one of them is not discarded or accepted with it.
    pub fn settle_alone(&mut self, choices: &[(String, Verb)], dry_run: bool) -> Result<Settling> {
        self.settle(choices, false, dry_run)
    }

    fn settle(
        &mut self,
        choices: &[(String, Verb)],
        with_followers: bool,
        dry_run: bool,
    ) -> Result<Settling> {
        let mut found = None;
        if !dry_run {
            // What waits may have settled some itself, and stays folded if nothing else is settled.
            self.fold()?;
        }
        let done = self.write(|work| {
            let told = found.insert(settle(work, choices, with_followers)?);
            match dry_run || told.settled.is_empty() {
                // Nothing of a write that fails remains: no stamp either, where nothing was settled.
                true => Err(Error::Refused("nothing is to be settled".into())),
                false => Ok(()),
            }
        });
        match (done, found) {
            (Err(_), Some(found)) if found.settled.is_empty() => {
                Ok(Settling { open: self.open_questions()?, opened: vec![], ..found })
            }
            (Err(_), Some(found)) if dry_run => Ok(found),
            (done, found) => done.map(|()| found.unwrap_or_default()),
        }
    }
}

fn settle(
    work: &mut Work<'_>,
    choices: &[(String, Verb)],
    with_followers: bool,
) -> Result<Settling> {
    work.fold()?;
    let places = places(work)?;
    let before = open::followers(work.conn)?;
    work.meta.local_seq += 1;
    let stamp = work.meta.tick(work.now_ms);
    let (mut done, mut rows) = (Settling::default(), Vec::new());
    let mut chosen: Vec<(&String, i64, Verb)> = Vec::new();
    // By whole id, what was asked for in vain.
    let mut vain: BTreeMap<&String, (String, String)> = BTreeMap::new();
    for (prefix, verb) in choices {
        let (id, place) = match whole(&places, prefix) {
            Ok(found) => found,
            Err(why) => {
                done.refused.push((prefix.clone(), why));
                continue;
            }
        };
        // One answer: what is hidden for want of the same row goes too, or would ask again (R-ONE-ANSWER).
        let goes = with_followers && matches!(verb, Verb::Discard | Verb::Accept);
        let with = before.get(id).filter(|_| goes).into_iter().flatten();
        let with = with.filter(|other| *other != id).filter_map(|id| places.get_key_value(id));
        for (at, (id, place)) in std::iter::once((id, place)).chain(with).enumerate() {
            match settle_one(work, place, *verb, stamp) {
                Ok(settled) => rows.extend(settled),
                Err(Error::Refused(why)) if at == 0 => {
                    vain.insert(id, (prefix.clone(), why));
                }
                // Nobody named it, so it stays, and asks.
                Err(Error::Refused(_)) => continue,
                Err(e) => return Err(e),
            }
            chosen.push((id, place.entry, *verb));
        }
    }
    show(work, &rows)?;
    let wanted = chosen.iter().filter(|(id, ..)| !vain.contains_key(*id));
    finish(work, &places, wanted.map(|(id, _, verb)| (*id, *verb)).collect(), stamp)?;
    let Work { conn, meta, catalog, now_ms, .. } = work;
    for (_, entry, verb) in &chosen {
        closed::settle(Lookup { conn, meta, catalog }, *entry, *verb, *now_ms)?;
    }
    closed::update(conn, meta, catalog, *now_ms, ClosedBy::Write)?;
    let lookup = Lookup { conn, meta, catalog };
    let mut open = BTreeMap::new();
    for t in &catalog.tables {
        let records = records::of_table(lookup, t)?;
        open.extend(records.into_iter().map(|(_, conflict)| (conflict.id.clone(), conflict)));
    }
    // What went when another was settled needs nothing more.
    vain.retain(|id, _| open.contains_key(*id));
    let stands = |(id, _, verb): &(&String, i64, Verb)| {
        let hidden = open.get(*id).is_some_and(|c| c.shown.is_empty());
        match verb {
            // A row that another needs is kept, deleted or not (R-PROTECT).
            Verb::Discard | Verb::Accept => {
                hidden.then_some("another row refers to it and keeps it; settle that one first")
            }
            Verb::Prefer | Verb::Restore => open.contains_key(*id).then_some(IN_THE_WAY),
        }
    };
    for (prefix, _) in choices {
        let whole = whole(&places, prefix).ok();
        let found = whole.and_then(|(id, _)| chosen.iter().find(|c| c.0 == id));
        if let Some((id, why)) = found.and_then(|c| Some((c.0, stands(c)?))) {
            vain.entry(id).or_insert((prefix.clone(), why.to_owned()));
        }
    }
    chosen.retain(|c| stands(c).is_none());
    let settled = chosen.iter().map(|(id, ..)| *id).filter(|id| !vain.contains_key(id));
    let mut settled: BTreeSet<&String> = settled.collect();
    if with_followers {
        settled.extend(over(&settled, &before, &open));
    }
    done.settled = settled.into_iter().cloned().collect();
    done.refused.extend(vain.into_values());
    let mut open: Vec<Conflict> = open.into_values().collect();
    open.sort_by(Conflict::by_row);
    lead(&mut open, &open::followers(conn)?);
    open.retain(|c| c.follows.is_none());
    done.open = open.len() as u64;
    // One that followed another which is settled, and is not over with it, asks now.
    let asked = |c: &Conflict| {
        places.contains_key(&c.id) && !before.values().any(|ids| ids.contains(&c.id))
    };
    done.opened = open.into_iter().filter(|c| !asked(c)).collect();
    Ok(done)
}

/// What waited for one of those that are settled, and is open no more.
fn over<'b>(
    settled: &BTreeSet<&String>,
    before: &'b BTreeMap<String, Vec<String>>,
    open: &BTreeMap<String, Conflict>,
) -> Vec<&'b String> {
    let with = settled.iter().filter_map(|id| before.get(*id)).flatten();
    with.filter(|id| !open.contains_key(*id)).collect()
}

/// Shows what these rows are now.
fn show(work: &mut Work<'_>, rows: &[(u32, Rid)]) -> Result<()> {
    let Work { conn, meta, catalog, policies, .. } = work;
    reshow(conn, meta, catalog, policies, rows)
}

/// Does the same for what stands in the way next: of several rows with earlier claims each has to yield, and what a
/// row needs may need another that was deleted, too. Of two that are preferred at once neither yields to the other.
fn finish(
    work: &mut Work<'_>,
    places: &BTreeMap<String, Place>,
    mut asked: Vec<(&String, Verb)>,
    stamp: Stamp,
) -> Result<()> {
    asked.retain(|(_, verb)| matches!(verb, Verb::Prefer | Verb::Restore));
    let of = |id: &String| places.get(id).map(|place| (place.table, place.rid.clone()));
    let preferred: BTreeSet<(usize, Rid)> = asked.iter().filter_map(|(id, _)| of(id)).collect();
    let mut done = BTreeSet::new();
    while !asked.is_empty() {
        let open = self::places(work)?;
        let (mut rows, mut nearer) = (Vec::new(), false);
        asked.retain(|(id, _)| open.contains_key(*id));
        for (id, verb) in &asked {
            let place = &open[*id];
            let winner = place.winner.as_ref().map(|winner| (place.table, winner.clone()));
            if *verb == Verb::Prefer && winner.is_some_and(|winner| preferred.contains(&winner)) {
                continue;
            }
            match settle_one(work, place, *verb, stamp) {
                Ok(settled) => {
                    // Each time one row more lives, or one reference more is to the present life.
                    nearer |= *verb == Verb::Restore && place.kind != ConflictKind::RestrictRevived;
                    rows.extend(settled);
                }
                Err(Error::Refused(_)) => {}
                Err(e) => return Err(e),
            }
        }
        let before = done.len();
        done.extend(rows.iter().cloned());
        if done.len() == before && !nearer {
            break;
        }
        show(work, &rows)?;
    }
    Ok(())
}

/// Where the rows of all open records are, by whole id.
fn places(work: &Work<'_>) -> Result<BTreeMap<String, Place>> {
    let mut found = BTreeMap::new();
    for (table, t) in work.catalog.tables.iter().enumerate() {
        let sql = "SELECT id, rid, kind, cons, winner FROM synqlite_row \
                   WHERE +tbl = ?1 AND kind IS NOT NULL";
        let mut statement = work.conn.prepare(sql)?;
        let mut rows = statement.query([t.no])?;
        while let Some(row) = rows.next()? {
            let rid = state::decode_rid(&work.meta, &row.get::<_, Vec<u8>>(1)?)?;
            let (kind, constraint): (String, String) = (row.get(2)?, row.get(3)?);
            let id = record_id(&t.canonical, &kind, &constraint, &rid);
            let winner: Option<Vec<u8>> = row.get(4)?;
            let winner = winner.map(|bytes| state::decode_rid(&work.meta, &bytes)).transpose()?;
            let kind = ConflictKind::from(kind.as_str());
            let entry = row.get(0)?;
            found.insert(id, Place { table, rid, entry, kind, constraint, winner });
        }
    }
    Ok(found)
}

/// The whole id that `prefix` begins, and where its row is; else why it is none.
fn whole<'p>(
    places: &'p BTreeMap<String, Place>,
    prefix: &str,
) -> Result<(&'p String, &'p Place), String> {
    let from = places.range(prefix.to_owned()..);
    let mut alike = from.take_while(|(id, _)| !prefix.is_empty() && id.starts_with(prefix));
    match (alike.next(), alike.next()) {
        (Some(found), None) => Ok(found),
        (Some(_), Some(_)) => Err(format!("several open conflicts have ids like {prefix}")),
        (None, _) => Err(format!("no open conflict has id {prefix}")),
    }
}

/// Settles one. Returns the rows that may show something else.
fn settle_one(work: &mut Work<'_>, place: &Place, verb: Verb, stamp: Stamp) -> Settled {
    let Place { table, rid, entry, kind, constraint, winner } = place;
    let stored = state::of(work.conn, &work.meta, &work.catalog.tables[*table], rid)?;
    let stored = stored.filter(|stored| stored.entry == Some(*entry));
    let open = state::conflict(work.conn, *entry)?.is_some();
    let Some(stored) = stored.filter(|_| open) else {
        // Another's answer was one for it too. If it is open still, that was not enough.
        return Err(Error::Refused(IN_THE_WAY.into()));
    };
    let (kind, constraint, winner) = (kind.clone(), constraint.clone(), winner.clone());
    let open = Open { table: *table, stored, kind, constraint, winner };
    match verb {
        Verb::Prefer => prefer(work, open, stamp),
        Verb::Discard => discard(work, open, stamp),
        Verb::Restore => restore(work, open, stamp),
        Verb::Accept if open.stored.loc.is_none() => discard(work, open, stamp),
        Verb::Accept if open.stored.state.header.alive() => accept(work, open, stamp),
        Verb::Accept => restore(work, open, stamp),
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

/// The deleted row, or the deleted parent of a hidden one, lives again; what refers to a former life of a row refers
/// to the present one.
fn restore(work: &mut Work<'_>, mut open: Open, stamp: Stamp) -> Settled {
    let t = &work.catalog.tables[open.table];
    let itself = (t.no, open.stored.rid.clone());
    if !open.stored.state.header.alive() {
        open.stored.state.header.revive(stamp);
        save(work, open.table, &open.stored)?;
        return Ok(vec![itself]);
    }
    if open.kind == ConflictKind::RestrictRevived {
        // It went with a former life of its parent: it refers to the present one.
        let cascades = |fk: &&ForeignKey| fk.on_delete == Action::Cascade;
        for fk in t.table.foreign_keys.iter().filter(cascades) {
            let g = t.table.columns[fk.columns[0]].group;
            set(&mut open.stored.state.groups[g], t, g, stamp);
        }
        save(work, open.table, &open.stored)?;
        return Ok(vec![itself]);
    }
    let Work { conn, meta, catalog, .. } = work;
    let lookup = Lookup { conn, meta, catalog };
    let Some(found) = lost(lookup, open.table, &open.stored, &open.constraint)? else {
        open.winner = None;
        return refused(&open, "restore", "nothing it needs was deleted");
    };
    let Lost { child: (table, mut child), key, parent: (above, mut parent) } = found;
    let mut rows = vec![itself];
    if refer_anew(lookup, (table, &mut child.state), key, stamp)? {
        save(work, table, &child)?;
        rows.push((work.catalog.tables[table].no, child.rid));
    }
    if !parent.state.header.alive() {
        parent.state.header.revive(stamp);
        save(work, above, &parent)?;
        rows.push((work.catalog.tables[above].no, parent.rid));
    }
    Ok(rows)
}

/// R-INC: writes a reference of a row anew as it is, if it is to a former life, and with it those that hide the row
/// for the same reason. Returns whether there are any.
fn refer_anew(
    lookup: Lookup<'_>,
    (table, child): (usize, &mut RowState),
    key: usize,
    stamp: Stamp,
) -> Result<bool> {
    let Lookup { conn, meta, catalog } = lookup;
    let (t, mut groups) = (&catalog.tables[table], BTreeSet::new());
    for (f, fk) in t.table.foreign_keys.iter().enumerate() {
        // What a change of the parent's key may have taken back does not hide the row.
        let hides = f == key || fk.on_delete == Action::Cascade && !fk.on_update.sets();
        let Some(rid) = child.kept_reference(t, f).filter(|_| hides) else { continue };
        let parent = state::of(conn, meta, lookup.parent(&fk.parent)?, rid)?;
        if parent.is_some_and(|parent| is_former(t, f, child, &parent.state)) {
            groups.insert(t.table.columns[fk.columns[0]].group);
        }
    }
    for &g in &groups {
        if let Body::Stored(cell) = &child.groups[g].body {
            let previous = t.table.groups[g].keeps_previous.then(|| cell.clone());
            let body = Body::Stored(cell.clone());
            child.groups[g] = GroupState { previous, body, ..GroupState::shown(stamp) };
        }
    }
    Ok(!groups.is_empty())
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
    history::record_life(conn, meta, t, stored)?;
    let settled = Waits { references: vec![], claims: vec![], conflict: None, winner: None };
    state::record_waits(conn, meta, entry, &settled)
}
