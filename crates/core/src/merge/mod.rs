//! The merge: join what another site sent, derive what the tables show, apply the difference.
//!
//! Three steps in one transaction, so a reader sees all of another site's changes or none:
//!
//! 1. `join`: each incoming row is joined into the local state (R-JOIN). Nothing is shown.
//! 2. `view`: what every affected row shows now, as a function of state, schema and policies.
//! 3. `apply`: the difference to what the tables show, written with capture and the application's
//!    triggers off (R-TRG), then checked against every declared constraint.

mod apply;
mod view;

use crate::catalog::{Catalog, Loc, Tracked};
use crate::export::{shape, shown};
use crate::history;
use crate::meta::Meta;
use crate::policy::{self, Policies};
use crate::refs::Lookup;
use crate::state::{self, Body, GroupState, RowState, Stored};
use crate::{Error, Result};
use rusqlite::Connection;
use std::collections::HashMap;
use synqlite_wire::{
    Delta, Header, Register, Rid, RowChange, Stamp, TableShape, Value, VersionVector,
};

/// How far ahead of this machine's clock a stamp may be, in milliseconds (R-SKEW).
pub const MAX_DRIFT_MS: i64 = 5 * 60 * 1000;

/// What a merge changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows that appeared.
    pub inserted: u64,
    /// Rows that show something else.
    pub updated: u64,
    /// Rows that disappeared.
    pub deleted: u64,
    /// Rows received that were news.
    pub rows: u64,
    /// Registers received that were news.
    pub columns: u64,
    /// What the merge decided where two sites had written the same thing.
    pub decisions: Vec<Decision>,
    /// Whether replicated settings changed.
    pub settings: bool,
}

impl Merged {
    /// Counts what another merge changed too.
    pub fn add(&mut self, other: Merged) {
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.rows += other.rows;
        self.columns += other.columns;
        self.decisions.extend(other.decisions);
        self.settings |= other.settings;
    }
}

/// A disagreement and how it was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Table.
    pub table: String,
    /// The row, by its primary key or row number.
    pub row: String,
    /// What happened, for people.
    pub what: String,
}

/// A row that the merge may change.
pub(crate) struct Item {
    /// Position of its table in the catalog.
    pub table: usize,
    /// Its place and its state after the join.
    pub stored: Stored,
    /// What it showed before.
    pub old: Option<Vec<Value>>,
    /// What it shows now.
    pub new: Option<Vec<Value>>,
    /// Foreign keys whose shown value must follow the key of this parent.
    pub follows: Vec<(usize, Rid)>,
    /// Whether the join changed its state.
    pub news: bool,
    /// Whether its entry must be written although its state brought no news.
    pub unsaved: bool,
}

/// The rows of a merge, found by identity.
#[derive(Default)]
pub(crate) struct Items {
    pub list: Vec<Item>,
    index: HashMap<(usize, Rid), usize>,
}

impl Items {
    pub fn get(&self, table: usize, rid: &Rid) -> Option<usize> {
        self.index.get(&(table, rid.clone())).copied()
    }

    pub fn push(&mut self, item: Item) -> usize {
        let at = self.list.len();
        self.index.insert((item.table, item.stored.rid.clone()), at);
        self.list.push(item);
        at
    }
}

/// Joins `delta` and shows the result. Must run in a write transaction after the fold, with
/// triggers and foreign keys off; the caller saves `meta`.
pub fn merge(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    policies: &Policies,
    delta: &Delta,
    now_ms: i64,
    force: bool,
) -> Result<Merged> {
    if !meta.seen.dominates(&delta.base) {
        return Err(Error::MissingBase);
    }
    if meta.seen.dominates(&delta.upto) {
        return Ok(Merged::default());
    }
    if !force {
        check_skew(meta, delta, now_ms)?;
    }
    let tables = match_tables(catalog, delta)?;
    let mut merged = Merged::default();
    let mut items = Items::default();
    let history = history::enabled(conn)?;
    for change in &delta.rows {
        let matched = &tables[change.table as usize];
        let Some(matched) = matched else { continue };
        let t = &catalog.tables[matched.position];
        if history {
            history::receive(conn, meta, t, &matched.groups, change)?;
        }
        if let Some(item) =
            join(Lookup { conn, meta, catalog }, t, matched, &delta.upto, change, &mut merged)?
        {
            merged.rows += 1;
            items.push(item);
        }
    }
    view::show(conn, meta, catalog, &mut items, &mut merged)?;
    meta.position += 1;
    apply::apply(conn, meta, catalog, policies, items, &mut merged)?;
    for setting in &delta.settings {
        merged.settings |= policy::store(conn, meta, setting)?;
    }
    // A site whose writes were all superseded has no number yet, and without one it is not saved.
    for &site in delta.upto.0.keys() {
        meta.number(conn, site)?;
    }
    meta.seen.join(&delta.upto);
    meta.observe(delta.upto.latest());
    Ok(merged)
}

fn check_skew(meta: &Meta, delta: &Delta, now_ms: i64) -> Result<()> {
    for (&site, &hlc) in &delta.upto.0 {
        let ahead_ms = hlc.ms() - now_ms;
        if hlc > meta.seen.get(site) && ahead_ms > MAX_DRIFT_MS {
            return Err(Error::Skewed { site, ahead_ms });
        }
    }
    Ok(())
}

/// A table of a delta and the local table it means.
struct Matched {
    position: usize,
    /// Local group for each group of the delta.
    groups: Vec<usize>,
}

/// Finds the local table and groups for each table of the delta that has changed rows.
fn match_tables(catalog: &Catalog, delta: &Delta) -> Result<Vec<Option<Matched>>> {
    let mut used = vec![false; delta.tables.len()];
    for change in &delta.rows {
        let used = used.get_mut(change.table as usize);
        *used.ok_or_else(|| Error::Damaged("a change of an unknown table".into()))? = true;
    }
    let tables = delta.tables.iter().zip(used);
    tables
        .map(|(theirs, used)| if used { match_table(catalog, theirs).map(Some) } else { Ok(None) })
        .collect()
}

fn match_table(catalog: &Catalog, theirs: &TableShape) -> Result<Matched> {
    let differs = |how: String| Err(Error::SchemaDiffers { table: theirs.name.clone(), how });
    let Some(position) = catalog.position(&theirs.name) else {
        return differs("it is not replicated here".into());
    };
    let ours = shape(&catalog.tables[position]);
    let mut groups = Vec::new();
    for group in &theirs.groups {
        match ours.groups.iter().position(|g| g == group) {
            Some(g) => groups.push(g),
            None => {
                return differs(format!(
                    "columns {} are not one unit here",
                    group.columns.join(", ")
                ));
            }
        }
    }
    match ours.groups.iter().find(|g| !theirs.groups.contains(g)) {
        Some(group) => {
            differs(format!("columns {} are not one unit there", group.columns.join(", ")))
        }
        None => Ok(Matched { position, groups }),
    }
}

/// R-JOIN of one row. `None` if it brought no news.
fn join(
    lookup: Lookup<'_>,
    t: &Tracked,
    matched: &Matched,
    sender: &VersionVector,
    change: &RowChange,
    merged: &mut Merged,
) -> Result<Option<Item>> {
    let Lookup { conn, meta, .. } = lookup;
    let found = state::of(conn, meta, t, &change.rid)?;
    let known = found.is_some();
    let mut stored = match found {
        Some(stored) => stored,
        None => {
            let mut state = RowState::born(t, Stamp::ZERO);
            state.header = Header::NONE;
            Stored { entry: None, rid: change.rid.clone(), loc: None, state }
        }
    };
    let old = match &stored.loc {
        Some(loc) => Some(shown(conn, t, loc)?),
        None => None,
    };
    let row = |old: &Option<Vec<Value>>| describe(t, old.as_deref(), &change.rid);
    let was = stored.state.header;
    let header = was.join(&change.header);
    if known && was.alive() && !header.alive() && wrote_after_insert(meta, &stored.state) {
        let what = "deleted there while it was updated here: the delete wins".to_owned();
        merged.decisions.push(Decision { table: t.table.name.clone(), row: row(&old), what });
    }
    let mut news = header != was;
    stored.state.header = header;
    for register in &change.registers {
        let g = matched.groups[register.group as usize];
        let group = &mut stored.state.groups[g];
        if known && concurrent(meta, sender, group, register) {
            merged.decisions.extend(decide(t, g, group, register, &old, row(&old)));
        }
        if register.stamp > group.stamp {
            check_cell(t, g, register)?;
            *group = GroupState {
                stamp: register.stamp,
                pinned: register.pinned,
                previous: register.previous.clone(),
                body: Body::Kept(register.cell.clone()),
            };
            merged.columns += 1;
            news = true;
        }
    }
    if !news {
        return Ok(None);
    }
    if let (false, Some(old)) = (stored.state.header.alive(), &old) {
        // A row that disappears keeps its values and references (R-PROTECT, R-RETURN).
        for (g, group) in stored.state.groups.iter_mut().enumerate() {
            if group.body == Body::Shown {
                group.body = Body::Kept(lookup.cell(t, g, old)?);
            }
        }
    }
    let table = matched.position;
    Ok(Some(Item { table, stored, old, new: None, follows: vec![], news, unsaved: false }))
}

/// Whether this site and another wrote the register, neither having seen the other's write.
fn concurrent(meta: &Meta, sender: &VersionVector, ours: &GroupState, theirs: &Register) -> bool {
    ours.stamp.site == meta.site
        && theirs.stamp.site != meta.site
        && !(ours.pinned || theirs.pinned)
        && !meta.seen.covers(theirs.stamp)
        && !sender.covers(ours.stamp)
}

/// Whether this site updated the row after inserting it, so that a delete hides a write of its own.
fn wrote_after_insert(meta: &Meta, state: &RowState) -> bool {
    let own = |g: &GroupState| g.stamp.site == meta.site && g.stamp > state.header.inserted;
    state.groups.iter().any(own)
}

fn check_cell(t: &Tracked, g: usize, register: &Register) -> Result<()> {
    let group = &t.table.groups[g];
    let fits = |cell: &synqlite_wire::Cell| {
        cell.values.len() == group.columns.len() && cell.refs.len() == group.foreign_keys.len()
    };
    if fits(&register.cell) && register.previous.as_ref().is_none_or(fits) {
        return Ok(());
    }
    Err(Error::SchemaDiffers {
        table: t.table.name.clone(),
        how: "a change has other columns".into(),
    })
}

fn decide(
    t: &Tracked,
    g: usize,
    ours: &GroupState,
    theirs: &Register,
    old: &Option<Vec<Value>>,
    row: String,
) -> Option<Decision> {
    let columns = &t.table.groups[g].columns;
    let here: Vec<Value> = match (&ours.body, old) {
        (Body::Kept(cell), _) => cell.values.clone(),
        (Body::Shown, Some(old)) => columns.iter().map(|&c| old[c].clone()).collect(),
        (Body::Shown, None) => return None,
    };
    if here == theirs.cell.values {
        return None;
    }
    let names: Vec<_> = columns.iter().map(|&c| t.table.columns[c].name.as_str()).collect();
    let (here, there) = (list(&here), list(&theirs.cell.values));
    let later = if theirs.stamp > ours.stamp {
        "the one there is later and wins"
    } else {
        "the one here is later and stays"
    };
    let what = format!("{}: {here} here, {there} there; {later}", names.join(", "));
    Some(Decision { table: t.table.name.clone(), row, what })
}

fn list(values: &[Value]) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A value for people.
pub fn text(value: &Value) -> String {
    match value {
        Value::Null => "NULL".into(),
        Value::Integer(i) => i.to_string(),
        Value::Real(r) => r.to_string(),
        Value::Text(t) => format!("'{}'", String::from_utf8_lossy(t)),
        Value::Blob(b) => format!("a blob of {} bytes", b.len()),
    }
}

/// A row for people: its primary key where it has one.
pub fn describe(t: &Tracked, row: Option<&[Value]>, rid: &Rid) -> String {
    match (row, t.table.primary_key.as_slice()) {
        (Some(row), pk @ [_, ..]) => {
            pk.iter().map(|&c| text(&row[c])).collect::<Vec<_>>().join(", ")
        }
        _ => match rid {
            Rid::Birth { site, n } => format!("#{n} of site {}", &site.to_string()[..8]),
            Rid::Key { key, .. } => match synqlite_wire::key::decode(key) {
                Some(parts) => parts.iter().map(part).collect::<Vec<_>>().join(", "),
                None => "?".into(),
            },
        },
    }
}

fn part(part: &synqlite_wire::key::KeyPart) -> String {
    match part {
        synqlite_wire::key::KeyPart::Value(value) => text(value),
        synqlite_wire::key::KeyPart::Row(Rid::Birth { n, .. }) => format!("#{n}"),
        synqlite_wire::key::KeyPart::Row(Rid::Key { .. }) => "…".into(),
    }
}

/// Loads a visible row of the local file as an item without news.
pub(crate) fn load(conn: &Connection, table: usize, t: &Tracked, stored: Stored) -> Result<Item> {
    let old = match &stored.loc {
        Some(loc) => Some(shown(conn, t, loc)?),
        None => None,
    };
    Ok(Item { table, stored, old, new: None, follows: vec![], news: false, unsaved: false })
}

/// The item for the row at `loc`, loaded if it is none yet.
pub(crate) fn item_at(
    conn: &Connection,
    meta: &Meta,
    catalog: &Catalog,
    items: &mut Items,
    table: usize,
    loc: &Loc,
) -> Result<Option<usize>> {
    let t = &catalog.tables[table];
    let Some(stored) = state::at(conn, meta, t, loc)? else { return Ok(None) };
    if let Some(at) = items.get(table, &stored.rid) {
        return Ok(Some(at));
    }
    if !t.exists(conn, loc)? {
        return Ok(None);
    }
    let item = load(conn, table, t, stored)?;
    Ok(Some(items.push(item)))
}
