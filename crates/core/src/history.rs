//! Every change for good, for replicas made with `--history`.
//!
//! A row of `synqlite_history` is one column written (`col` its number, `value` what was written) or
//! one row inserted, reinserted or deleted (`col` is -1, `value` the kind). Its key is the stamp, the
//! table, the row and the column; a write has one stamp for ever, so recording it again, by a second
//! fold of the same row or a second merge of the same batch, changes nothing.
//!
//! What the rows held when `init` took them in is no change and is not recorded.

use crate::catalog::Tracked;
use crate::meta::{self, Meta};
use crate::sqlvalue::{Bind, value};
use crate::state::{Body, RowState, Stored};
use crate::{Error, Result};
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use synqlite_wire::key::{KeyPart, decode, encode};
use synqlite_wire::{Count, Header, Hlc, Rid, RowChange, Stamp, Value};

/// Column number that stands for the whole row.
const ROW: i64 = -1;

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
    ];
    let happened = changes.into_iter().filter(|(stamp, _, last)| *last && !stamp.is_zero());
    happened.map(|(stamp, kind, _)| (stamp, kind)).collect()
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

/// Whether this replica keeps a history.
pub fn enabled(conn: &Connection) -> Result<bool> {
    Ok(meta::get(conn, "history")?.unwrap_or(false))
}

/// Records what a fold stamped: the changes of a row that are not in the history yet.
pub fn record(conn: &Connection, meta: &mut Meta, t: &Tracked, stored: &Stored) -> Result<()> {
    let shown = match &stored.loc {
        Some(loc) => t.read(conn, loc)?,
        None => None,
    };
    for (stamp, (kind, groups)) in changes(&stored.state) {
        let add = Add::at(conn, meta, t, &stored.rid, stamp)?;
        if kind != Change::Update {
            add.put(ROW, &kind.name().into())?;
        }
        for g in groups {
            let columns = &t.table.groups[g].columns;
            if let Some(count) = count_at(&stored.state.groups[g].counts, stamp) {
                add.columns(t, columns, [&added(count)].into_iter())?;
                continue;
            }
            match (&stored.state.groups[g].body, &shown) {
                (Body::Stored(cell), _) => add.columns(t, columns, cell.values.iter())?,
                (Body::InTable, Some(row)) => {
                    add.columns(t, columns, columns.iter().map(|&c| &row[c]))?
                }
                (Body::InTable, None) => {}
            }
        }
    }
    Ok(())
}

/// Records what another site sent, writes that lose to later ones included. `columns` are the numbers
/// of the columns of each group of the change.
pub fn receive(
    conn: &Connection,
    meta: &mut Meta,
    t: &Tracked,
    columns: &[&[u32]],
    change: &RowChange,
) -> Result<()> {
    let h = &change.header;
    let registers = change.registers.iter().map(|register| register.stamp);
    // An insert brings all registers with it.
    let born = match registers.min().filter(|_| change.registers.len() == columns.len()) {
        _ if h.reinserted == h.inserted => h.inserted,
        Some(oldest) => oldest.min(h.inserted),
        None => Stamp::ZERO,
    };
    for (stamp, kind) in row_changes(h, born) {
        Add::at(conn, meta, t, &change.rid, stamp)?.put(ROW, &kind.name().into())?;
    }
    for register in &change.registers {
        let Some(columns) = columns.get(register.group as usize) else { continue };
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

    fn columns<'v>(
        &self,
        t: &Tracked,
        columns: &[usize],
        values: impl Iterator<Item = &'v Value>,
    ) -> Result<()> {
        let mut values = columns.iter().zip(values);
        values.try_for_each(|(&c, value)| self.put(i64::from(t.column_nos[c]), value))
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
    /// A column, by number, was written.
    Column(u32, Value),
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
        let rid: Vec<u8> = row.get(3)?;
        let Some(KeyPart::Row(rid)) = decode(&rid).and_then(|mut parts| parts.pop()) else {
            return Err(damaged());
        };
        let value = value(row.get_ref(5)?);
        let what = match row.get(4)? {
            ROW => What::Row(Change::parse(&value).ok_or_else(damaged)?),
            column => What::Column(u32::try_from(column).map_err(|_| damaged())?, value),
        };
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
