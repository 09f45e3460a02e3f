//! Every change for good, for replicas that were told to by `init --history`.
//!
//! A row of `synqlite_history` is one column written (`col` its number, `value` what was written), the row
//! to which a foreign key refers by what was written, or one row inserted, reinserted or deleted (`col` is
//! -1, `value` the kind). Its key is the stamp, the table, the row and the column; a write has one stamp for
//! ever, so recording it again, by a second fold of the same row or a second merge of the same batch, changes
//! nothing.
//!
//! What a row held when its table was taken in is recorded as an insert, and what a column showed that
//! nobody had written, once somebody writes it: else the first change of each could not be taken back
//! ([`crate::undo`]).

use crate::catalog::{Catalog, Tracked, loc_sql};
use crate::meta::{self, Meta};
use crate::refs::Lookup;
use crate::sqlvalue::{Bind, value};
use crate::state::{self, Body, ENTRY_COLUMNS, GroupState, RowState, Stored};
use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::counter::Number;
use synqlite_wire::key::{KeyPart, decode, encode};
use synqlite_wire::{Cell, Count, Header, Hlc, Rid, RowChange, Stamp, Value};

/// Column number that stands for the whole row.
const ROW: i64 = -1;
/// The same where the row went with its parent.
const FELL: i64 = -2;
/// Column number of the row to which a foreign key refers whose first column has number 0; of the others
/// below it.
const REFERENCE: i64 = -3;

/// Column number of the row to which a foreign key refers whose first column has this one.
pub fn reference(column: u32) -> i64 {
    REFERENCE - i64::from(column)
}

/// What happened to a row, in the order in which one says more than the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Some columns were written.
    Update,
    /// The row was inserted for the first time.
    Insert,
    /// The row was inserted again, or replaced by one with its primary key.
    Reinsert,
    /// The row was deleted.
    Delete,
}

impl Change {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Change::Update => "update",
            Change::Insert => "insert",
            Change::Reinsert => "reinsert",
            Change::Delete => "delete",
        }
    }

    fn parse(name: &Value) -> Option<Change> {
        let kinds = [Change::Insert, Change::Reinsert, Change::Delete];
        kinds.into_iter().find(|kind| *name == kind.name().into())
    }
}

/// The latest inserts and deletes that a header tells of. `born` is when the row came into its
/// present life, zero if that is not known.
fn row_changes(h: &Header, born: Stamp) -> Vec<(Stamp, Change)> {
    let inserted = if h.reinserted == born { Change::Reinsert } else { Change::Insert };
    // A millisecond in which a row was both deleted and inserted counts as what came last.
    let left = h.left();
    let both = born == left;
    let changes = [
        (born, inserted, !both || h.cl % 2 == 1),
        (left, Change::Delete, !both || h.cl.is_multiple_of(2)),
        (h.cl_stamp, Change::Reinsert, revived(h)),
    ];
    let happened = changes.into_iter().filter(|(stamp, _, last)| *last && !stamp.is_zero());
    happened.map(|(stamp, kind, _)| (stamp, kind)).collect()
}

/// Whether the row was deleted, and then brought back as the row that it was ([`Header::revive`]).
pub fn revived(h: &Header) -> bool {
    h.cl % 2 == 1 && h.deleted > h.inserted && h.cl_stamp > h.deleted
}

/// Whether the latest delete was none of the row itself: it went with its parent.
fn fell(h: &Header) -> bool {
    h.cl % 2 == 1 && h.fell()
}

/// The latest change of each part of a row by its stamp: what happened, and the groups written.
pub fn changes(state: &RowState) -> BTreeMap<Stamp, (Change, Vec<usize>)> {
    let mut changes: BTreeMap<Stamp, (Change, Vec<usize>)> = BTreeMap::new();
    for (g, group) in state.groups.iter().enumerate() {
        let stamps: BTreeSet<Stamp> = group.stamps().filter(|stamp| !stamp.is_zero()).collect();
        for stamp in stamps {
            changes.entry(stamp).or_insert((Change::Update, vec![])).1.push(g);
        }
    }
    for (stamp, kind) in row_changes(&state.header, state.born_at()) {
        changes.entry(stamp).or_insert((kind, vec![])).0 = kind;
    }
    changes
}

/// The count that was changed at `stamp`.
pub fn count_at(counts: &[Count], stamp: Stamp) -> Option<&Count> {
    counts.iter().find(|count| count.stamp == stamp)
}

/// What the history tells of a count: the sum of the site's changes so far, such as `+5 in all`.
pub fn added(count: &Count) -> Value {
    let sum = match count.sum.to_value(false) {
        Value::Integer(i) => format!("{i:+}"),
        Value::Real(r) => format!("{r:+}"),
        _ => String::new(),
    };
    Value::Text(format!("{sum} in all").into_bytes())
}

/// The sum that [`added`] told; `None` of a value that was not counted.
pub fn sum_of(told: &Value) -> Option<Number> {
    let Value::Text(told) = told else { return None };
    let sum = std::str::from_utf8(told).ok()?.strip_suffix(" in all")?;
    let whole = sum.parse().ok().and_then(|i| Number::of(&Value::Integer(i), false));
    whole.or_else(|| sum.parse().ok().and_then(|r| Number::of(&Value::Real(r), true)))
}

/// Whether this replica keeps a history.
pub fn enabled(conn: &Connection) -> Result<bool> {
    Ok(meta::get(conn, "history")?.unwrap_or(false))
}

/// Records what a fold stamped: the changes of a row that are not in the history yet.
pub fn record(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
    stored: &Stored,
) -> Result<()> {
    let shown = match &stored.loc {
        Some(loc) => t.read(conn, loc)?,
        None => None,
    };
    let (state, mut cells) = (&stored.state, Vec::with_capacity(stored.state.groups.len()));
    for (g, group) in state.groups.iter().enumerate() {
        cells.push(match (&group.body, &shown) {
            (Body::Stored(cell), _) => Some(cell.clone()),
            (Body::InTable, Some(row)) => Some(Lookup { conn, meta, catalog }.cell(t, g, row)?),
            (Body::InTable, None) => None,
        });
    }
    for (stamp, (kind, groups)) in changes(state) {
        let add = Add::at(conn, meta, t, &stored.rid, stamp)?;
        if kind != Change::Update {
            add.row(kind, &state.header)?;
        }
        for g in groups {
            match (count_at(&state.groups[g].counts, stamp), &cells[g]) {
                (Some(count), _) => add.columns(t, g, &[added(count)])?,
                (None, Some(cell)) => add.cell(t, g, cell)?,
                (None, None) => {}
            }
        }
    }
    Ok(())
}

/// Records that a row lives again or was deleted, by a write of no program: a fold or a command made it.
pub fn record_life(conn: &Connection, meta: &mut Meta, t: &Tracked, stored: &Stored) -> Result<()> {
    if !enabled(conn)? {
        return Ok(());
    }
    let header = &stored.state.header;
    for (stamp, kind) in row_changes(header, stored.state.born_at()) {
        Add::at(conn, meta, t, &stored.rid, stamp)?.row(kind, header)?;
    }
    Ok(())
}

/// Records what all rows of a table hold that was just taken in.
pub fn record_all(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    t: &Tracked,
) -> Result<()> {
    let sql = format!("SELECT {} FROM {} AS o", loc_sql(&t.table, "o."), t.target());
    let mut statement = conn.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let loc = t.place(row.get(0)?)?;
        if let Some(stored) = state::at(conn, meta, t, &loc)? {
            record(conn, meta, catalog, t, &stored)?;
        }
    }
    Ok(())
}

/// Keeps a history from now on. It begins with what is known of all rows: the latest write of each cell.
pub fn begin(conn: &Connection, meta: &mut Meta, catalog: &Catalog) -> Result<()> {
    meta::set(conn, "history", true)?;
    for t in &catalog.tables {
        record_all(conn, meta, catalog, t)?;
        // Those that are not shown.
        let sql =
            format!("SELECT {ENTRY_COLUMNS} FROM synqlite_row WHERE tbl = ?1 AND loc IS NULL");
        let mut statement = conn.prepare(&sql)?;
        let mut rows = statement.query([t.no])?;
        while let Some(row) = rows.next()? {
            let stored = state::decode(meta, t, row)?;
            record(conn, meta, catalog, t, &stored)?;
        }
    }
    Ok(())
}

/// Remembers the stamp of rows that came with their tables, whether a history is kept or not: this site has
/// them from the beginning, and nothing says that it wrote them.
pub fn note_adopted(conn: &Connection, stamp: Stamp) -> Result<()> {
    let mut clocks: String = meta::get(conn, "adopted")?.unwrap_or_default();
    clocks.extend([if clocks.is_empty() { "" } else { "\n" }, &stamp.hlc.0.to_string()]);
    meta::set(conn, "adopted", clocks)
}

/// Clocks of the stamps of rows that came with their tables.
pub fn adopted(conn: &Connection) -> Result<BTreeSet<Hlc>> {
    let clocks: String = meta::get(conn, "adopted")?.unwrap_or_default();
    Ok(clocks.lines().filter_map(|line| line.parse().ok()).map(Hlc).collect())
}

/// Records what the columns of a group showed that nobody had written, as it was `before` somebody did.
pub fn unwritten(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    rid: &Rid,
    (g, before): (usize, &GroupState),
) -> Result<()> {
    let columns = t.table.groups[g].columns.iter().enumerate();
    for (_, &c) in columns.filter(|(i, _)| before.is_unwritten(*i)) {
        let add = Add::at(conn, meta, t, rid, Stamp { hlc: Hlc::ZERO, site: meta.site })?;
        add.put(i64::from(t.column_nos[c]), &t.default_of(c))?;
    }
    Ok(())
}

/// Records what another site sent, writes that lose to later ones included. `groups` are those of the change:
/// the numbers of their columns and the names of their foreign keys.
pub fn receive(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    groups: &[(&[u32], &[String])],
    change: &RowChange,
) -> Result<()> {
    let h = &change.header;
    let registers = change.registers.iter().map(|register| register.stamp);
    // An insert brings all registers with it.
    let born = match registers.min().filter(|_| change.registers.len() == groups.len()) {
        _ if h.reinserted == h.inserted => h.inserted,
        Some(oldest) => oldest.min(h.inserted),
        None => Stamp::ZERO,
    };
    for (stamp, kind) in row_changes(h, born) {
        Add::at(conn, meta, t, &change.rid, stamp)?.row(kind, h)?;
    }
    for register in &change.registers {
        let Some((columns, keys)) = groups.get(register.group as usize) else { continue };
        if let [no] = columns {
            for count in &register.counts {
                let add = Add::at(conn, meta, t, &change.rid, count.stamp)?;
                add.put(i64::from(*no), &added(count))?;
            }
        }
        if !register.stamp.is_zero() && count_at(&register.counts, register.stamp).is_none() {
            let add = Add::at(conn, meta, t, &change.rid, register.stamp)?;
            let mut values = columns.iter().zip(&register.cell.values);
            values.try_for_each(|(&no, value)| add.put(i64::from(no), value))?;
            for (key, rid) in keys.iter().zip(&register.cell.refs) {
                let f = t.key_names.iter().position(|name| name == key);
                f.map_or(Ok(()), |f| add.reference(t, f, rid.as_ref()))?;
            }
        }
    }
    Ok(())
}

/// Adds what happened to one row at one time.
struct Add<'a> {
    conn: &'a Connection,
    hlc: i64,
    site: u32,
    table: u32,
    rid: Vec<u8>,
}

impl<'a> Add<'a> {
    fn at(
        conn: &'a Connection,
        meta: &mut Meta,
        t: &Tracked,
        rid: &Rid,
        stamp: Stamp,
    ) -> Result<Add<'a>> {
        let site = meta.number(conn, stamp.site)?;
        let rid = encode(&[KeyPart::Row(rid.clone())]);
        Ok(Add { conn, hlc: stamp.hlc.0, site, table: t.no, rid })
    }

    /// Something happened to the whole row, whose header is now this.
    fn row(&self, kind: Change, header: &Header) -> Result<()> {
        let column = if kind == Change::Delete && fell(header) { FELL } else { ROW };
        self.put(column, &kind.name().into())
    }

    fn cell(&self, t: &Tracked, g: usize, cell: &Cell) -> Result<()> {
        self.columns(t, g, &cell.values)?;
        let mut refs = t.table.groups[g].foreign_keys.iter().zip(&cell.refs);
        refs.try_for_each(|(&f, rid)| self.reference(t, f, rid.as_ref()))
    }

    fn columns(&self, t: &Tracked, g: usize, values: &[Value]) -> Result<()> {
        let mut values = t.table.groups[g].columns.iter().zip(values);
        values.try_for_each(|(&c, value)| self.put(i64::from(t.column_nos[c]), value))
    }

    fn reference(&self, t: &Tracked, f: usize, rid: Option<&Rid>) -> Result<()> {
        let Some(rid) = rid else { return Ok(()) };
        let rid = encode(&[KeyPart::Row(rid.clone())]);
        self.put(reference(reference_no(t, f)), &Value::Blob(rid))
    }

    fn put(&self, column: i64, value: &Value) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO synqlite_history(hlc, site, tbl, rid, col, value) \
                   VALUES(?1, ?2, ?3, ?4, ?5, ?6)";
        let Add { hlc, site, table, rid, .. } = self;
        self.conn.prepare_cached(sql)?.execute(params![
            hlc,
            site,
            table,
            rid,
            column,
            Bind(value)
        ])?;
        Ok(())
    }
}

/// The number of the first column of a foreign key, by which the history knows it.
pub fn reference_no(t: &Tracked, f: usize) -> u32 {
    t.table.foreign_keys[f].columns.first().map_or(0, |&c| t.column_nos[c])
}

/// One row of the history.
pub struct Recorded {
    /// When and where.
    pub stamp: Stamp,
    /// Number of the table.
    pub table: u32,
    /// The row.
    pub rid: Rid,
    /// What happened.
    pub what: What,
}

/// What a row of the history tells.
pub enum What {
    /// Something happened to the whole row.
    Row(Change),
    /// The row went with its parent.
    Fell,
    /// A column, by number, was written. A stamp of clock 0: it showed this before anybody wrote it.
    Column(u32, Value),
    /// The foreign key whose first column has this number referred to this row.
    Reference(u32, Rid),
}

/// Reads the history, newest first, for as long as `f` says to go on.
pub fn read(
    conn: &Connection,
    meta: &Meta,
    mut f: impl FnMut(Recorded) -> Result<bool>,
) -> Result<()> {
    let damaged = || Error::Damaged("a row of synqlite_history cannot be read".into());
    let sql = "SELECT hlc, site, tbl, rid, col, value FROM synqlite_history ORDER BY hlc DESC, \
               site DESC";
    let mut statement = conn.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let stamp = Stamp { hlc: Hlc(row.get(0)?), site: meta.site_of(row.get(1)?)? };
        let rid = |bytes: &[u8]| match decode(bytes).and_then(|mut parts| parts.pop()) {
            Some(KeyPart::Row(rid)) => Ok(rid),
            _ => Err(damaged()),
        };
        let (column, value) = (row.get::<_, i64>(4)?, value(row.get_ref(5)?));
        let number = |no: i64| u32::try_from(no).map_err(|_| damaged());
        let what = match (column, value) {
            (ROW, kind) => What::Row(Change::parse(&kind).ok_or_else(damaged)?),
            (FELL, _) => What::Fell,
            (..0, Value::Blob(to)) => What::Reference(number(REFERENCE - column)?, rid(&to)?),
            (_, value) => What::Column(number(column)?, value),
        };
        let rid = rid(row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?)?;
        if !f(Recorded { stamp, table: row.get(2)?, rid, what })? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use synqlite_wire::Id;

    fn kinds(header: Header) -> Vec<(i64, Change)> {
        let state = RowState { header, groups: vec![] };
        changes(&state).into_iter().map(|(stamp, (kind, _))| (stamp.hlc.0, kind)).collect()
    }

    fn at(hlc: i64) -> Stamp {
        Stamp { hlc: Hlc(hlc), site: Id([1; 16]) }
    }

    #[test]
    fn a_header_tells_the_latest_insert_and_delete() {
        assert_eq!(kinds(Header::NONE), []);
        let mut header = Header::born(at(1));
        assert_eq!(kinds(header), [(1, Change::Insert)]);
        header.delete(at(2));
        assert_eq!(kinds(header), [(1, Change::Insert), (2, Change::Delete)]);
        header.insert(at(3));
        assert_eq!(kinds(header), [(2, Change::Delete), (3, Change::Reinsert)]);
        header.insert(at(4));
        assert_eq!(kinds(header), [(2, Change::Delete), (4, Change::Reinsert)]);
    }

    #[test]
    fn of_two_things_in_one_millisecond_the_last_is_told() {
        let mut header = Header::born(at(1));
        header.delete(at(2));
        header.insert(at(2));
        assert_eq!(kinds(header), [(2, Change::Reinsert)]);
        header.delete(at(2));
        assert_eq!(kinds(header), [(2, Change::Delete)]);
    }
}
