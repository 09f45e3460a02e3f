//! R-TOLD: of two writes of one thing, neither of whose writers had seen the other, one gives way. It
//! is told on every site that has or gets the value, once for each pair.
//!
//! Whoever wrote had seen no more than the site has from which the write comes. So where a write meets
//! another here, and this site or the sender lacked the one that gives way, its value was lost unseen.
//! A site that already knows both either found that out itself or was told by the one from which it
//! has them: what was found is given on to whoever lacks one of the two ([`crate::closed`]).
//!
//! What a site has and does not show its user has not seen either. So what he writes over it is told
//! too, by the fold of that site, which is the only one that can know.

use super::join::MatchedGroup;
use super::{Decision, Merged};
use crate::Result;
use crate::catalog::Loc;
use crate::catalog::Tracked;
use crate::describe::{describe, list, row_name};
use crate::known::{known_by, known_row};
use crate::meta::{Meta, SiteNames};
use crate::state::stash::Piece;
use crate::state::{self, Body, GroupState, RowState, Stored};
use rusqlite::Connection;
use std::collections::BTreeMap;
use synqlite_view::ConflictKind;
use synqlite_wire::line::is_witness;
use synqlite_wire::{
    Header, Register, Rid, RowChange, SiteId, Stamp, Told, Value, VersionVector, told,
};

/// Whether whoever wrote the later of two writes lacked the earlier one.
pub(super) fn unseen(meta: &Meta, sender: &VersionVector, ours: Stamp, theirs: Stamp) -> bool {
    let (earlier, by) = if theirs > ours { (ours, sender) } else { (theirs, &meta.seen) };
    ours != theirs && !by.covers(earlier)
}

/// Whether a row was brought back here with a value of this stamp. Who wrote another and lost it to the delete need
/// not have seen what is shown again, though his site has it.
pub(super) fn came_back(was: &Header, ours: Stamp) -> bool {
    was.cl > 1 && was.alive() && was.cl_stamp > ours
}

/// A row whose writes meet those of another site.
pub(super) struct Meeting<'a> {
    pub meta: &'a Meta,
    /// What the other site has.
    pub sender: &'a VersionVector,
    pub t: &'a Tracked,
    pub rid: &'a Rid,
    /// What the row shows until now.
    pub old: Option<&'a [Value]>,
    /// What was known of it here.
    pub stored: Option<&'a Stored>,
    /// What is kept of columns that are not here (R-MIG-STASH).
    pub stashed: &'a [Piece],
    pub names: &'a Names,
    /// What was known of the row.
    pub was: &'a Header,
    /// What the other site knows of it.
    pub theirs: &'a Header,
}

/// What gave way unseen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// What every site is told.
    pub told: Told,
    /// What people here know the row by.
    pub name: Option<String>,
    /// Whether another site tells it.
    pub(crate) received: bool,
}

/// A write of some columns.
pub(crate) struct Write {
    pub stamp: Stamp,
    pub values: Vec<Value>,
}

/// Columns of a table, which it may lack here: by their names now and by their first ones.
pub(crate) struct Columns {
    shown: Vec<String>,
    first: Vec<String>,
}

impl Columns {
    /// Columns that are here, by position.
    pub fn of(t: &Tracked, columns: &[usize]) -> Columns {
        let shown = columns.iter().map(|&c| t.table.columns[c].name.clone()).collect();
        let first = columns.iter().map(|&c| t.column_names[c].clone()).collect();
        Columns { shown, first }
    }

    /// Columns by their numbers. `absent`: first names of those that may not be here.
    pub fn numbered(t: &Tracked, absent: &Names, columns: &[u32]) -> Columns {
        let name = |no: &u32| match t.column_nos.iter().position(|n| n == no) {
            Some(c) => (t.table.columns[c].name.clone(), t.column_names[c].clone()),
            None => {
                let name = absent.get(no).cloned().unwrap_or_default();
                (name.clone(), name)
            }
        };
        let (shown, first) = columns.iter().map(name).unzip();
        Columns { shown, first }
    }

    /// What tells them from other columns of the table, on every site.
    pub fn named(&self) -> String {
        self.first.join(",")
    }
}

/// First names of the columns of a table, by number.
pub(crate) type Names = BTreeMap<u32, String>;

/// Numbers of columns of a row and what was written to them, by the stamp of the write.
type Written = BTreeMap<Stamp, Vec<(u32, Value)>>;

/// A row of which something gave way.
pub(crate) struct Subject<'a> {
    pub t: &'a Tracked,
    pub rid: &'a Rid,
    /// What it shows.
    pub row: Option<&'a [Value]>,
    /// Where it is on the site `here`, and what is kept of it.
    pub stored: Option<&'a Stored>,
    pub here: SiteId,
    /// What sites are called.
    pub sites: &'a SiteNames,
}

impl<'a> Meeting<'a> {
    fn subject(&self) -> Subject<'a> {
        let Meeting { t, rid, old: row, stored, meta, .. } = *self;
        Subject { t, rid, row, stored, here: meta.site, sites: &meta.names }
    }

    /// Another write of a group.
    pub fn register(&self, g: usize, group: &GroupState, register: &Register, merged: &mut Merged) {
        if group.pinned || register.pinned {
            return;
        }
        let kind = self.kind(group.stamp, register.stamp);
        let columns = &self.t.table.groups[g].columns;
        let Some(values) = self.values(group, columns) else { return };
        let ours = Write { stamp: group.stamp, values };
        let theirs = Write { stamp: register.stamp, values: register.cell.values.clone() };
        self.writes(kind, &Columns::of(self.t, columns), ours, theirs, merged);
    }

    /// Another write of columns that this schema does not hold together.
    pub fn piece(&self, groups: &[GroupState], piece: &Piece, merged: &mut Merged) {
        for (group, of) in groups.iter().zip(&self.t.table.groups) {
            for (i, &c) in of.columns.iter().enumerate() {
                let Some(value) = piece.value(self.t.column_nos[c]) else { continue };
                let Some(values) = self.values(group, &of.columns) else { continue };
                let Some(own) = values.get(i) else { continue };
                let ours = Write { stamp: group.column_stamp(i), values: vec![own.clone()] };
                let theirs = Write { stamp: piece.stamp, values: vec![value.clone()] };
                self.writes(
                    ConflictKind::Overwritten,
                    &Columns::of(self.t, &[c]),
                    ours,
                    theirs,
                    merged,
                );
            }
        }
    }

    /// Another write of columns that are not here.
    pub fn kept(&self, piece: &Piece, merged: &mut Merged) {
        for known in self.stashed.iter().filter(|known| !known.pinned && !piece.pinned) {
            let shared = known.columns.iter().filter(|no| piece.columns.contains(no));
            let shared: Vec<u32> = shared.filter(|no| !self.t.has(**no)).copied().collect();
            let write = |piece: &Piece| {
                let values = shared.iter().map(|no| piece.value(*no).cloned());
                Some(Write { stamp: piece.stamp, values: values.collect::<Option<_>>()? })
            };
            let (Some(ours), Some(news), false) = (write(known), write(piece), shared.is_empty())
            else {
                continue;
            };
            let columns = Columns::numbered(self.t, self.names, &shared);
            self.writes(self.kind(known.stamp, piece.stamp), &columns, ours, news, merged);
        }
    }

    /// What two writes are that meet: inserts of both sites, or one later than the other.
    fn kind(&self, ours: Stamp, theirs: Stamp) -> ConflictKind {
        match ours == self.was.inserted && theirs == self.theirs.inserted {
            true => ConflictKind::KeyMerge,
            false => ConflictKind::Overwritten,
        }
    }

    fn values(&self, group: &GroupState, columns: &[usize]) -> Option<Vec<Value>> {
        match (&group.body, self.old) {
            (Body::Stored(cell), _) => Some(cell.values.clone()),
            (Body::InTable, old) => {
                old.map(|old| columns.iter().map(|&c| old[c].clone()).collect())
            }
        }
    }

    fn writes(
        &self,
        kind: ConflictKind,
        columns: &Columns,
        ours: Write,
        theirs: Write,
        merged: &mut Merged,
    ) {
        let came_back =
            theirs.stamp > ours.stamp && self.old.is_some() && came_back(self.was, ours.stamp);
        if ours.values == theirs.values
            || ours.stamp.is_zero()
            || theirs.stamp.is_zero()
            || !came_back && !unseen(self.meta, self.sender, ours.stamp, theirs.stamp)
        {
            return;
        }
        let (lost, kept) = if theirs.stamp > ours.stamp { (ours, theirs) } else { (theirs, ours) };
        let told = self.subject().gives_way(kind, columns, &lost, &kept, "later and wins");
        merged.tell(&self.t.table.name, told);
    }

    /// A delete on one site of what was written on another. `state`: what was known here; `groups`: what
    /// the groups of the change are. Returns what is to be told if the row is hidden in the end: that a
    /// row was deleted with its parent says so only as long as the parent is gone (R-FK-ACTION).
    pub fn delete(
        &self,
        state: &RowState,
        change: &RowChange,
        groups: &[MatchedGroup],
        merged: &mut Merged,
    ) -> Vec<Lost> {
        let joined = state.header.join(&change.header);
        let (left, cascaded) = (joined.left(), joined.alive());
        if cascaded && !joined.fell() {
            return vec![];
        }
        // What is later than a CASCADE has a record.
        let counts = |stamp: &Stamp| !cascaded || *stamp <= left;
        let knows = |header: &Header| match cascaded {
            true => header.left() == left,
            false => !header.alive(),
        };
        let mut told = Vec::new();
        let mut tell = |lived: &Header, lost: Written| {
            let by = if cascaded { left } else { joined.gone_by(lived) };
            told.extend(lost.into_iter().map(|(stamp, written)| {
                let (columns, values): (Vec<u32>, Vec<Value>) = written.into_iter().unzip();
                let columns = Columns::numbered(self.t, self.names, &columns);
                self.subject().deleted("", &columns, &Write { stamp, values }, by)
            }));
        };
        match (knows(&state.header), knows(&change.header)) {
            (true, true) => {}
            (false, true) => tell(&state.header, self.own(state, counts)),
            (true, false) => tell(&change.header, self.theirs(change, groups, counts)),
            // Alone it lives with either of them: each has an insert, or a delete, that the other lacks.
            (false, false) if !cascaded => {
                tell(&state.header, self.own(state, counts));
                tell(&change.header, self.theirs(change, groups, counts));
            }
            (false, false) => {}
        }
        if cascaded {
            return told;
        }
        told.into_iter().for_each(|told| merged.tell(&self.t.table.name, told));
        vec![]
    }

    /// What is known here of the row and the other site lacks, by stamp.
    fn own(&self, state: &RowState, counts: impl Fn(&Stamp) -> bool) -> Written {
        let mut lost = Written::new();
        for (group, of) in state.groups.iter().zip(&self.t.table.groups) {
            let Some(values) = self.values(group, &of.columns).filter(|_| !group.pinned) else {
                continue;
            };
            for (i, (&c, value)) in of.columns.iter().zip(values).enumerate() {
                let counted = group.counts.iter().map(|count| count.stamp);
                let stamps = counted.chain([group.column_stamp(i)]);
                let mut unseen = stamps.filter(|s| !self.sender.covers(*s) && counts(s));
                if let Some(stamp) = unseen.next() {
                    lost.entry(stamp).or_default().push((self.t.column_nos[c], value));
                }
            }
        }
        for piece in self.stashed.iter().filter(|piece| !piece.pinned) {
            let stamps = piece.counts.iter().map(|count| count.stamp).chain([piece.stamp]);
            let mut unseen = stamps.filter(|s| !self.sender.covers(*s) && counts(s));
            if let Some(stamp) = unseen.next() {
                let written = piece.columns.iter().zip(&piece.cell.values);
                let absent = written.filter(|(no, _)| !self.t.has(**no));
                let absent = absent.map(|(no, value)| (*no, value.clone()));
                lost.entry(stamp).or_default().extend(absent);
            }
        }
        lost
    }

    /// What the other site tells of the row and this one lacks, by stamp.
    fn theirs(
        &self,
        change: &RowChange,
        groups: &[MatchedGroup],
        counts: impl Fn(&Stamp) -> bool,
    ) -> Written {
        let mut lost = Written::new();
        let news = change.registers.iter().filter(|register| !register.pinned);
        let unseen = |r: &&Register| !self.meta.seen.covers(r.stamp) && counts(&r.stamp);
        for register in news.filter(unseen) {
            let columns = groups[register.group as usize].columns.iter().copied();
            let values = columns.zip(register.cell.values.iter().cloned());
            lost.entry(register.stamp).or_default().extend(values);
        }
        lost
    }
}

impl Subject<'_> {
    /// A write of these columns gives way to a later one. `why`: what is to be said of that.
    pub fn gives_way(
        &self,
        kind: ConflictKind,
        columns: &Columns,
        lost: &Write,
        kept: &Write,
        why: &str,
    ) -> Lost {
        let what = format!(
            "{}: {} {} gives way to {} {}, which is {why}{}",
            columns.shown.join(", "),
            list(&lost.values),
            self.whose(lost.stamp),
            list(&kept.values),
            self.whose(kept.stamp),
            self.together(columns),
        );
        self.told(kind, &columns.named(), what, lost.stamp, kept.stamp)
    }

    /// Why several columns are taken from one site: who wrote only one of them wonders (R-GROUP).
    fn together(&self, columns: &Columns) -> &'static str {
        let groups = &self.t.table.groups;
        let of = |name: &String| self.t.table.columns.iter().position(|c| c.name == *name);
        let at: Vec<usize> = columns.shown.iter().filter_map(of).collect();
        let one = groups.iter().any(|group| at.iter().all(|c| group.columns.contains(c)));
        match at.len() > 1 && one {
            true => "; a key or a CHECK reads these columns together, so they are of one site",
            false => "",
        }
    }

    /// A write of these columns is lost to a delete of the row. `named`: what tells it from others
    /// of the same stamp.
    pub fn deleted(&self, named: &str, columns: &Columns, lost: &Write, by: Stamp) -> Lost {
        let written = match lost.values.is_empty() {
            true => String::new(),
            false => format!("{}: {} ", columns.shown.join(", "), list(&lost.values)),
        };
        let what = format!(
            "{written}{} does not stay: {} deleted the row without having seen it, and the delete \
             wins",
            self.whose(lost.stamp),
            self.sites.spoken(by.site),
        );
        self.told(ConflictKind::UpdateLost, named, what, lost.stamp, by)
    }

    /// A write of these columns, which were dropped since, was not shown where the row was inserted anew.
    pub fn dropped(&self, kind: ConflictKind, columns: &Columns, lost: &Write, by: Stamp) -> Lost {
        let what = format!(
            "{}: {} {} was not shown to {}, which inserted the row anew and has no such column since",
            columns.shown.join(", "),
            list(&lost.values),
            self.whose(lost.stamp),
            self.sites.spoken(by.site),
        );
        self.told(kind, &columns.named(), what, lost.stamp, by)
    }

    fn told(
        &self,
        kind: ConflictKind,
        columns: &str,
        what: String,
        lost: Stamp,
        kept: Stamp,
    ) -> Lost {
        let row = self.name();
        let id = told::id(&self.t.canonical, self.rid, columns, lost, kept);
        let (table, kind) = (self.t.canonical.clone(), kind.to_string());
        let told = Told { id, table, row, kind, what, lost, kept };
        Lost { told, name: self.known(), received: false }
    }

    /// What people know the row by, as it shows, or as what is kept of it was.
    fn known(&self) -> Option<String> {
        match (self.row, self.stored) {
            (Some(row), _) => known_by(&self.t.table, row, &[]),
            (None, Some(stored)) => known_row(&self.t.table, None, &stored.state, &[]),
            (None, None) => None,
        }
    }
}

impl Subject<'_> {
    /// Who wrote it. What a rebuild left in a table nobody need have written.
    fn whose(&self, stamp: Stamp) -> String {
        match is_witness(stamp.site) {
            true => "as a rebuild left it".to_owned(),
            false => format!("of {}", self.sites.spoken(stamp.site)),
        }
    }

    /// The row for people on every site. Where it is in a table without a key, each site decides alone.
    fn name(&self) -> String {
        match (self.rid, self.stored) {
            (Rid::Birth { .. }, Some(stored)) => {
                let (loc, state) = (stored.loc.as_ref(), &stored.state);
                let name = row_name(self.t, self.row, loc, state, self.rid);
                match (loc, self.t.table.primary_key.as_slice()) {
                    (Some(Loc::Row(_)), []) => {
                        format!("{name} at {}", self.sites.spoken(self.here))
                    }
                    _ => name,
                }
            }
            (Rid::Birth { .. }, None) => describe(self.t, self.row, self.rid),
            (Rid::Key { .. }, _) => describe(self.t, None, self.rid),
        }
    }
}

/// A row has another number than the one it had. `lost`: when it was written; `kept`: when that of the row was
/// that has the one it asked for.
pub(super) fn renumbered(
    t: &Tracked,
    rid: &Rid,
    (was, is): (i64, i64),
    why: &str,
    (lost, kept): (Stamp, Stamp),
    (row, name): (String, Option<String>),
) -> Lost {
    let id = told::id(&t.canonical, rid, &format!("{was} {is}"), lost, kept);
    let (table, kind) = (t.canonical.clone(), ConflictKind::Renumbered.to_string());
    let what = format!("{was} became {is}, as {why}");
    Lost { told: Told { id, table, row, kind, what, lost, kept }, name, received: false }
}

/// The number that a row had, and the one that it got, from what is said of that.
pub(crate) fn numbers(what: &str) -> Option<(i64, i64)> {
    let mut words = what.split([' ', ',']);
    let (was, _, is) = (words.next()?, words.next()?, words.next()?);
    Some((was.parse().ok()?, is.parse().ok()?))
}

impl Lost {
    /// Of a row that got another number: the one that it asks for, and the one that it got.
    pub(crate) fn renumbered(&self) -> Option<(i64, i64)> {
        let is_that = self.told.kind == ConflictKind::Renumbered.as_str();
        is_that.then(|| numbers(&self.told.what)).flatten()
    }

    /// Whether the row that has the new number here is the one that is meant.
    pub(crate) fn is_here(&self, conn: &Connection, meta: &Meta, t: &Tracked) -> Result<bool> {
        let Some((was, is)) = self.renumbered() else { return Ok(false) };
        let Some(Stored { rid, .. }) = state::at(conn, meta, t, &Loc::Row(is))? else {
            return Ok(false);
        };
        let Told { id, lost, kept, .. } = self.told;
        Ok(told::id(&t.canonical, &rid, &format!("{was} {is}"), lost, kept) == id)
    }
}

impl Merged {
    /// Notes what gave way in the table called `table` here. It is no decision against anybody where nobody
    /// is known to have written what gave way.
    pub(crate) fn tell(&mut self, table: &str, lost: Lost) {
        let claim = lost.renumbered().map(|(asked, _)| (lost.told.lost, asked));
        // A number that changes here is told where it does.
        if !(is_witness(lost.told.lost.site) || lost.received && claim.is_some()) {
            let Told { row, what, .. } = lost.told.clone();
            let (table, name) = (table.to_owned(), lost.name.clone());
            let words = what.clone();
            self.decisions.push(Decision { table, row, name, what, words, record: None, claim });
        }
        self.told.push(lost);
    }
}
