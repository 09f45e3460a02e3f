//! Joining what another site sent into the local state (R-JOIN). Nothing is shown yet.

use super::told::{Lost, Meeting, Names, came_back, unseen};
use super::{Merged, Site};
use crate::catalog::{Catalog, Relation, Tracked};
use crate::meta::Meta;
use crate::refs::Lookup;
use crate::registry;
use crate::renames::{self, Said};
use crate::schema::Table;
use crate::settings::renamed::TableNames;
use crate::state::stash::{self, Piece};
use crate::state::{self, Body, GroupState, RowState, Stored, overlay};
use crate::track;
use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::{BTreeMap, HashMap};
use synqlite_view::join::{Joined, is_later, kept, take};
use synqlite_wire::counter::join_count;
use synqlite_wire::{
    Cell, Delta, GroupShape, Header, Register, Rid, RowChange, Stamp, TableShape, VersionVector,
};

/// A table of a delta and what it means here.
pub(super) struct Matched {
    /// Where it is.
    pub place: Place,
    /// What each group of the delta means.
    pub groups: Vec<MatchedGroup>,
    /// First names of its columns, if something is kept of some that are not here.
    names: Option<Names>,
}

/// Where a table of a delta is.
pub(super) enum Place {
    /// At this position of the catalog.
    Here(usize),
    /// Not in this database: its rows are kept for when it is, and for other sites.
    Absent(Box<Tracked>),
}

impl Matched {
    /// The table; without columns if it is not here.
    pub fn table<'a>(&'a self, catalog: &'a Catalog) -> &'a Tracked {
        match &self.place {
            Place::Here(position) => &catalog.tables[*position],
            Place::Absent(t) => t,
        }
    }

    fn names(&self) -> &Names {
        static NONE: Names = Names::new();
        self.names.as_ref().unwrap_or(&NONE)
    }

    /// What is kept of columns of a row that are not here.
    fn stashed(
        &self,
        conn: &Connection,
        meta: &Meta,
        t: &Tracked,
        rid: &Rid,
    ) -> Result<Vec<Piece>> {
        self.names.as_ref().map_or(Ok(vec![]), |_| stash::of(conn, meta, t.no, rid))
    }
}

/// A group of a delta.
pub(super) struct MatchedGroup {
    /// Numbers of its columns in this file.
    pub columns: Vec<u32>,
    /// Canonical names of its foreign keys.
    pub keys: Vec<String>,
    /// The local group of just these columns and foreign keys, if there is one.
    pub exact: Option<usize>,
    /// Whether this database lacks one of the columns.
    unknown: bool,
}

/// Finds what the tables of a delta with changed rows mean here. Tables and columns that are not
/// known yet get numbers.
pub(super) fn match_tables(
    conn: &Connection,
    catalog: &Catalog,
    delta: &Delta,
    merged: &mut Merged,
) -> Result<Vec<Option<Matched>>> {
    let mut used = vec![false; delta.tables.len()];
    for change in &delta.rows {
        let used = used.get_mut(change.table as usize);
        *used.ok_or_else(|| Error::Damaged("a change of an unknown table".into()))? = true;
    }
    let tables = delta.tables.iter().zip(used);
    let mut matched = |(theirs, used): (_, bool)| {
        used.then(|| match_table(conn, catalog, theirs, merged)).transpose()
    };
    tables.map(&mut matched).collect()
}

fn match_table(
    conn: &Connection,
    catalog: &Catalog,
    theirs: &TableShape,
    merged: &mut Merged,
) -> Result<Matched> {
    let is = |t: &Tracked, name: &str| t.canonical.eq_ignore_ascii_case(name);
    let called = |name: &str| catalog.tables.iter().position(|t| is(t, name));
    let mut name = &*theirs.name;
    let mut position = called(name);
    let names = TableNames::load(conn)?;
    if position.is_none() {
        name = names.first(name);
        position = called(name);
    }
    // One that was dropped here stays what it was, whatever has its name now.
    let known = registry::known_table(conn, name)?;
    let by_name = || {
        catalog.position(&theirs.name).filter(|_| known.is_none() && !names.is_apart(&theirs.name))
    };
    let place = match position.or_else(by_name) {
        Some(position) => Place::Here(position),
        None => {
            let no = registry::number_of_table(conn, name)?;
            let table = Table::absent(name);
            Place::Absent(Box::new(Relation::unnumbered(no, name, table).into()))
        }
    };
    let mut matched = Matched { place, groups: vec![], names: None };
    let t = matched.table(catalog);
    let said = renames::said(conn, t)?;
    let mut numbers = Numbers::new(t, &said);
    let units = theirs.groups.iter().map(|group| match_group(conn, catalog, &mut numbers, group));
    let units = units.collect::<Result<Vec<_>>>()?;
    let theirs: Vec<u32> = units.iter().flat_map(|unit| unit.columns.iter().copied()).collect();
    merged.unwritten |= registry::lacking(conn, t, &theirs)?;
    let keeps = units.iter().any(|unit| unit.unknown) || stash::any(conn, t.no)?;
    matched.names = keeps.then(|| registry::column_names(conn, t.no)).transpose()?;
    matched.groups = units;
    Ok(matched)
}

/// What names of columns of one table mean here, however many a delta has.
struct Numbers<'a> {
    t: &'a Tracked,
    /// First names of columns by others.
    said: BTreeMap<String, &'a str>,
    /// Numbers of those that are here, by their first names. Names are in small letters.
    here: HashMap<String, u32>,
    /// Numbers of all others, once one is asked for.
    others: Option<registry::Columns>,
}

impl<'a> Numbers<'a> {
    fn new(t: &'a Tracked, said: &'a Said) -> Numbers<'a> {
        let (mut names, mut here) = (BTreeMap::new(), HashMap::new());
        for (name, first) in said {
            names.entry(name.to_ascii_lowercase()).or_insert(&**first);
        }
        for (name, no) in t.column_names.iter().zip(&t.column_nos) {
            here.entry(name.to_ascii_lowercase()).or_insert(*no);
        }
        Numbers { t, said: names, here, others: None }
    }

    /// The first name of a column.
    fn first<'n>(&self, name: &'n str) -> &'n str
    where
        'a: 'n,
    {
        self.said.get(&name.to_ascii_lowercase()).copied().unwrap_or(name)
    }

    /// The number of a column by its first name, and whether this database has it.
    fn of(&mut self, conn: &Connection, first: &str) -> Result<(u32, bool)> {
        if let Some(no) = self.here.get(&first.to_ascii_lowercase()) {
            return Ok((*no, true));
        }
        let others = match &mut self.others {
            Some(others) => others,
            none => none.insert(registry::Columns::read(conn, self.t.no)?),
        };
        Ok((others.number(conn, first)?, false))
    }
}

fn match_group(
    conn: &Connection,
    catalog: &Catalog,
    numbers: &mut Numbers<'_>,
    theirs: &GroupShape,
) -> Result<MatchedGroup> {
    let mut unit = MatchedGroup { columns: vec![], keys: vec![], exact: None, unknown: false };
    let (t, mut names) = (numbers.t, Said::new());
    for name in &theirs.columns {
        let first = numbers.first(name);
        let (no, here) = numbers.of(conn, first)?;
        unit.unknown |= !here;
        unit.columns.push(no);
        names.push((name.clone(), first.to_owned()));
    }
    for key in &theirs.refs {
        unit.keys.push(renames::key_here(conn, catalog, key, &names)?);
    }
    unit.exact = t.table.groups.iter().position(|group| {
        let columns = group.columns.iter().map(|&c| t.column_nos[c]);
        let keys = group.foreign_keys.iter().map(|&f| &t.key_names[f]);
        columns.eq(unit.columns.iter().copied()) && keys.eq(&unit.keys)
    });
    Ok(unit)
}

/// R-JOIN of a row whose table is not in this database. Returns whether it brought news.
pub(super) fn keep(
    site: &mut Site<'_>,
    matched: &Matched,
    sender: &VersionVector,
    change: &RowChange,
    merged: &mut Merged,
) -> Result<bool> {
    let Site { conn, meta, catalog, .. } = site;
    let (t, local_seq) = (matched.table(catalog), meta.local_seq);
    let mut news = false;
    state::expand_dropped(conn, meta, t)?;
    let found = state::of(conn, meta, t, &change.rid)?;
    let known = found.as_ref().map(|stored| stored.state.header);
    let was = known.unwrap_or(Header::NONE);
    let header = was.join(&change.header);
    if known.is_none() && is_hollow(change) {
        return Ok(false);
    }
    let state = RowState { header: was, groups: vec![] };
    let stashed = matched.stashed(conn, meta, t, &change.rid)?;
    let meeting = Meeting {
        meta,
        sender,
        t,
        rid: &change.rid,
        old: None,
        stored: found.as_ref(),
        stashed: &stashed,
        names: matched.names(),
        was: &was,
        theirs: &change.header,
    };
    if known.is_some() {
        // Whether it is hidden is not known without its parents, so a CASCADE counts as a delete.
        let fell = meeting.delete(&state, change, &matched.groups, merged);
        fell.into_iter().for_each(|told| merged.tell(&t.canonical, told));
    }
    let pieces = change
        .registers
        .iter()
        .map(|register| piece(t, &matched.groups[register.group as usize], register));
    let pieces: Vec<Piece> = pieces.collect::<Result<_>>()?;
    for piece in pieces.iter().filter(|_| header.alive()) {
        meeting.kept(piece, merged);
    }
    for piece in &pieces {
        if stash::put(conn, meta, t.no, &change.rid, piece, local_seq)? {
            merged.kept += piece.columns.len() as u64;
            news = true;
        }
    }
    if known != Some(header) {
        news = true;
        // Where the table is only out of sight, the row shows it when that is over.
        let whole = track::missed(conn)?.get(&t.no).copied().flatten();
        let place = found.map(|stored| (stored.entry, stored.loc));
        if let (Some((Some(entry), _)), Some(_)) = (&place, whole) {
            state::put_header(conn, meta, *entry, &header)?;
            return Ok(news);
        }
        let state = RowState { header, groups: vec![] };
        let (entry, loc) = place.unwrap_or((None, None));
        let loc = loc.filter(|_| header.alive());
        let stored = Stored { entry, rid: change.rid.clone(), loc, local_seq, state };
        state::put(conn, meta, t, &stored, Some(local_seq))?;
    }
    Ok(news)
}

/// A register under the numbers of this file.
fn piece(t: &Tracked, unit: &MatchedGroup, register: &Register) -> Result<Piece> {
    fits(t, unit, register)?;
    Ok(Piece {
        columns: unit.columns.clone(),
        keys: unit.keys.clone(),
        stamp: register.stamp,
        pinned: register.pinned,
        cell: register.cell.clone(),
        previous: register.previous.clone(),
        counts: register.counts.clone(),
    })
}

/// A row of a delta that is joined into what is known of it here.
struct Joining<'a> {
    matched: &'a Matched,
    t: &'a Tracked,
    sender: &'a VersionVector,
    change: &'a RowChange,
    was: Header,
    /// What is kept of columns that are not here.
    stashed: Vec<Piece>,
    row: Joined,
    /// Whether what gives way is told: of a row that is gone in the end, it is told what the delete hid. One
    /// that was deleted before and is shown for another's sake shows what it gets.
    met: bool,
}

/// R-JOIN of one row, and what is to be told if it is hidden in the end. `None` if it brought no news.
pub(super) fn join(
    site: &mut Site<'_>,
    matched: &Matched,
    sender: &VersionVector,
    change: &RowChange,
    merged: &mut Merged,
) -> Result<Option<(Joined, Vec<Lost>)>> {
    let (conn, t) = (site.conn, matched.table(site.catalog));
    let found = state::of(conn, site.meta, t, &change.rid)?;
    let known = found.is_some();
    if !known && is_hollow(change) {
        return Ok(None);
    }
    let stored = found.unwrap_or_else(|| {
        let mut state = RowState::born(t, Stamp::ZERO);
        state.header = Header::NONE;
        Stored { entry: None, rid: change.rid.clone(), loc: None, local_seq: 0, state }
    });
    let old = stored.loc.as_ref().map(|loc| state::shown(conn, t, loc)).transpose()?;
    let was = stored.state.header;
    let hidden = known && stored.loc.is_none() && was.alive();
    let asked = hidden.then(|| stored.state.kept_row(t));
    let stashed = matched.stashed(conn, site.meta, t, &change.rid)?;
    let row = Joined { stored, old, former: vec![], asked };
    let mut joining = Joining { matched, t, sender, change, was, stashed, row, met: false };
    let mut fell = Vec::new();
    if known {
        let state = &joining.row.stored.state;
        fell = joining.meeting(site.meta).delete(state, change, &matched.groups, merged);
    }
    let header = was.join(&change.header);
    joining.row.stored.state.header = header;
    joining.met = known && (header.alive() || !was.alive() && joining.row.old.is_some());
    let mut news = header != was;
    for register in &change.registers {
        let unit = &matched.groups[register.group as usize];
        let exact = unit.exact.filter(|&g| joining.group(g).column_stamps.is_empty());
        news |= match exact {
            Some(g) => joining.register(site, unit, g, register, merged)?,
            None => joining.piece(site, unit, register, merged)?,
        };
    }
    if !known {
        let written = joining.fill();
        if written.len() < t.column_nos.len() {
            merged.unwritten |= registry::lacking(conn, t, &written)?;
        }
    }
    Ok(news.then_some((joining.row, fell)))
}

impl Joining<'_> {
    fn group(&self, g: usize) -> &GroupState {
        &self.row.stored.state.groups[g]
    }

    fn meeting<'m>(&'m self, meta: &'m Meta) -> Meeting<'m> {
        Meeting {
            meta,
            sender: self.sender,
            t: self.t,
            rid: &self.change.rid,
            old: self.row.old.as_deref(),
            stored: Some(&self.row.stored),
            stashed: &self.stashed,
            names: self.matched.names(),
            was: &self.was,
            theirs: &self.change.header,
        }
    }

    /// Joins a register into the group that has just its columns. Whether it brought news.
    fn register(
        &mut self,
        site: &mut Site<'_>,
        unit: &MatchedGroup,
        g: usize,
        register: &Register,
        merged: &mut Merged,
    ) -> Result<bool> {
        let Site { conn, meta, catalog, .. } = site;
        let ours = self.group(g).stamp;
        let back = came_back(&self.was, ours);
        if self.met && (back || unseen(meta, self.sender, ours, register.stamp)) {
            self.meeting(meta).register(g, self.group(g), register, merged);
        }
        let mut news = 0;
        if is_later(self.group(g), register) {
            fits(self.t, unit, register)?;
            self.leave(Lookup { conn, meta, catalog }, g)?;
            take(&mut self.row.stored.state.groups[g], register);
            news += 1;
        }
        let group = &mut self.row.stored.state.groups[g];
        if !register.counts.is_empty() {
            fits(self.t, unit, register)?;
            state::join_base(group, register.stamp, &register.cell);
        }
        let counts = register.counts.iter();
        if counts.filter(|count| join_count(&mut group.counts, count)).count() > 0 {
            news += 1;
        }
        merged.columns += news;
        Ok(news > 0)
    }

    /// Notes to which rows a group is until now, where it does not show that, or may not show it any more.
    fn leave(&mut self, lookup: Lookup<'_>, g: usize) -> Result<()> {
        let (t, Joined { stored, old, former, .. }) = (self.t, &mut self.row);
        let group = &stored.state.groups[g];
        former.extend(kept(t, g, group));
        let Some(old) = old.as_ref().filter(|_| group.body == Body::InTable) else { return Ok(()) };
        for &f in &t.table.groups[g].foreign_keys {
            let fk = &t.table.foreign_keys[f];
            let parent = lookup.parent(&fk.parent)?;
            if fk.parent_columns.iter().any(|p| parent.site_numbers.contains_key(p)) {
                former.extend(lookup.reference(t, f, old)?.map(|rid| (f, rid)));
            }
        }
        Ok(())
    }

    /// Joins a register of columns that this schema does not hold together. Whether it brought news.
    fn piece(
        &mut self,
        site: &mut Site<'_>,
        unit: &MatchedGroup,
        register: &Register,
        merged: &mut Merged,
    ) -> Result<bool> {
        let Site { conn, meta, catalog, .. } = site;
        let piece = piece(self.t, unit, register)?;
        if self.met {
            let meeting = self.meeting(meta);
            meeting.piece(&self.row.stored.state.groups, &piece, merged);
            meeting.kept(&piece, merged);
        }
        let mut news = false;
        if unit.unknown || piece.refers_beyond(&self.t.key_names) {
            let local_seq = meta.local_seq;
            news = stash::put(conn, meta, self.t.no, &self.change.rid, &piece, local_seq)?;
            merged.kept += if news && unit.unknown { piece.columns.len() as u64 } else { 0 };
        }
        let lookup = Lookup { conn, meta, catalog };
        (0..self.t.table.groups.len()).try_for_each(|g| self.leave(lookup, g))?;
        if join_piece(lookup, self.t, &mut self.row.stored, &piece)? {
            merged.columns += 1;
            news = true;
        }
        Ok(news)
    }

    /// What nobody has written of a new row has its default. Returns the columns that somebody has, by
    /// number.
    fn fill(&mut self) -> Vec<u32> {
        let t = self.t;
        let mut written = Vec::new();
        for (g, group) in self.row.stored.state.groups.iter_mut().enumerate() {
            if group.body == Body::InTable {
                group.body = Body::Stored(t.default_cell(g));
            }
            let columns = t.table.groups[g].columns.iter().enumerate();
            let columns = columns.filter(|(i, _)| !group.is_unwritten(*i));
            written.extend(columns.map(|(_, &c)| t.column_nos[c]));
        }
        written
    }
}

/// Whether it says that there is a row, and nothing that it holds: who gave it on had dropped the table.
fn is_hollow(change: &RowChange) -> bool {
    change.header.alive() && change.registers.is_empty()
}

pub(super) fn fits(t: &Tracked, unit: &MatchedGroup, register: &Register) -> Result<()> {
    let fits =
        |cell: &Cell| cell.values.len() == unit.columns.len() && cell.refs.len() == unit.keys.len();
    let counts = register.counts.is_empty() || unit.columns.len() == 1;
    if fits(&register.cell) && register.previous.as_ref().is_none_or(fits) && counts {
        return Ok(());
    }
    let table = &t.canonical;
    Err(Error::Damaged(format!("a change of table {table}: it has other columns than it says")))
}

/// Joins a register of another schema into those columns of it that the table has.
pub(crate) fn join_piece(
    lookup: Lookup<'_>,
    t: &Tracked,
    stored: &mut Stored,
    piece: &Piece,
) -> Result<bool> {
    let row = match &stored.loc {
        Some(loc) => t.read(lookup.conn, loc)?,
        None => None,
    };
    let mut news = false;
    for (g, group) in stored.state.groups.iter_mut().enumerate() {
        let before = |group: &GroupState| -> Result<Cell> {
            match (&group.body, &row) {
                (Body::Stored(cell), _) => Ok(cell.clone()),
                (Body::InTable, Some(row)) => lookup.cell(t, g, row),
                (Body::InTable, None) => Ok(t.default_cell(g)),
            }
        };
        news |= overlay(t, g, group, piece, before)?;
    }
    Ok(news)
}
