//! What a delta promises beyond what its types can say: the one definition of a valid delta.
//!
//! Whoever reads positions in a delta relies on it. The encoder of batches checks before it writes,
//! the engine checks what it is given. The decoder cannot produce a delta that fails here: most of
//! these promises hold by construction of the format, which has no way to write anything else, and
//! for the others it asks the same functions.

use crate::change::{Cell, Delta, GroupShape, Header, RowChange, TableShape};
use crate::clock::{Stamp, VersionVector};
use crate::counter::Count;
use crate::ids::{Rid, SiteId};
#[cfg(feature = "batch")]
use crate::line::Line;
use crate::value::Value;

/// More sites than any header of a batch has room for.
const MAX_SITES: usize = 400_000;
/// More tables than a batch names.
const MAX_TABLES: usize = 16_384;
/// So many columns a table of SQLite can have, as it is built by default, so no group has more.
const MAX_COLUMNS: usize = 2_000;
/// So many columns and foreign keys all groups of a table name together. A table that changed often, of which
/// registers are kept for former schemas, may name more than it has.
const MAX_NAMES: usize = 8_192;
/// So many rows are in one part of a delta that is written as a batch.
#[cfg(feature = "batch")]
pub(crate) const MAX_ROWS: u64 = 4_096;
/// Beyond every causal length that writes can reach; leaves the receiver's writes room to add to it.
const MAX_CL: u64 = 1 << 62;

/// Why a delta is not valid. Its maker is at fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDelta {
    /// Its vectors are too long.
    #[error("there are more than {MAX_SITES} sites")]
    Sites,
    /// A time before all times.
    #[error("{0} has a negative clock")]
    Clock(String),
    /// Points of a line that do not lead to where the delta does.
    #[error("the line of site {0} is out of order")]
    Line(SiteId),
    /// A row of no table.
    #[error("row {rid:?} is of table {table}, which is not there")]
    Table {
        /// The row.
        rid: Rid,
        /// Position of the table.
        table: u32,
    },
    /// More tables than any database has.
    #[error("there are more than {MAX_TABLES} tables")]
    Tables,
    /// A table that no database can have.
    #[error("table `{table}` {why}")]
    Shape {
        /// The table.
        table: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A row that its table cannot have.
    #[error("row {rid:?} of table `{table}` {why}")]
    Row {
        /// The table.
        table: String,
        /// The row.
        rid: Rid,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A setting, or what gave way, of a time that nothing vouches for.
    #[error("{0} was written at a time that its header does not cover")]
    Uncovered(String),
    /// A state of a site that no line leads to.
    #[error("it says that site {0} came to a state to which no line of that site leads")]
    Unled(SiteId),
}

impl InvalidDelta {
    /// The table whose row is at fault, if it is a row.
    pub fn table(&self) -> Option<&str> {
        match self {
            InvalidDelta::Row { table, .. } | InvalidDelta::Shape { table, .. } => Some(table),
            _ => None,
        }
    }
}

impl Delta {
    /// Checks that positions name tables and groups that are there, that registers are in order and
    /// filled as their group says, that only single columns are counters, that no clock is negative and no number NaN.
    pub fn check(&self) -> Result<(), InvalidDelta> {
        let clock = |of: &str| Err(InvalidDelta::Clock(of.to_owned()));
        if self.base.0.len() + self.upto.0.len() > MAX_SITES {
            return Err(InvalidDelta::Sites);
        }
        if self.base.0.values().chain(self.upto.0.values()).any(|hlc| hlc.0 < 0) {
            return clock("a version vector");
        }
        for (site, line) in &self.lines {
            let clocks = line.points.iter().map(|point| point.clock);
            let ordered = [line.before].into_iter().chain(clocks).is_sorted_by(|a, b| a < b)
                && line.points.is_sorted_by_key(|point| point.births)
                && line.points.last().is_some_and(|last| last.clock <= self.upto.get(*site));
            if line.before.0 < 0 || !ordered {
                return Err(InvalidDelta::Line(*site));
            }
        }
        if let Some((site, _)) = self.tips.0.iter().find(|(_, hlc)| hlc.0 < 0) {
            return clock(&format!("what was seen of site {site}"));
        }
        if let Some(setting) = self.settings.iter().find(|setting| is_negative(&setting.stamp)) {
            return clock(&format!("setting `{}`", setting.key));
        }
        if self.told.iter().any(|told| is_negative(&told.lost) || is_negative(&told.kept)) {
            return clock("what gave way");
        }
        if self.tables.len() > MAX_TABLES {
            return Err(InvalidDelta::Tables);
        }
        for shape in &self.tables {
            let shaped = check_shape(shape);
            shaped.map_err(|why| InvalidDelta::Shape { table: shape.name.clone(), why })?;
        }
        for row in &self.rows {
            let rid = || row.rid.clone();
            let Some(table) = self.tables.get(row.table as usize) else {
                return Err(InvalidDelta::Table { rid: rid(), table: row.table });
            };
            check_row(table, row).map_err(|why| {
                let table = table.name.clone();
                InvalidDelta::Row { table, rid: rid(), why }
            })?;
        }
        Ok(())
    }
}

impl Delta {
    /// Checks that its lines lead to its very end. Those of a batch do; who reads one may know that its writer
    /// had seen more, and raise what it leads to.
    #[cfg(feature = "batch")]
    pub(crate) fn check_ends(&self) -> Result<(), InvalidDelta> {
        let ends = |site: &SiteId, line: &Line| {
            line.points.last().is_some_and(|last| last.clock == self.upto.get(*site))
        };
        match self.lines.iter().find(|(site, line)| !ends(site, line)) {
            Some((site, _)) => Err(InvalidDelta::Line(*site)),
            None => Ok(()),
        }
    }
}

impl Delta {
    /// Checks that each of its writes is one that `covered` contains: what a receiver has then, as it says and
    /// is read, joined with what the receiver had seen. A site writes nothing that its own vector does not
    /// cover; a stamp past it would win for ever over what its site writes in truth.
    pub fn check_writes(&self, covered: &VersionVector) -> Result<(), InvalidDelta> {
        let mut last = (SiteId::ZERO, None);
        let mut vouched = |stamp: Stamp| {
            if stamp.is_zero() {
                return true;
            }
            if last.0 != stamp.site || last.1.is_none() {
                last = (stamp.site, covered.0.get(&stamp.site).copied());
            }
            last.1.is_some_and(|latest| stamp.hlc <= latest)
        };
        for row in &self.rows {
            let Header { cl: _, cl_stamp, inserted, deleted, reinserted, yielded } = row.header;
            let header = [cl_stamp, inserted, deleted, reinserted, yielded];
            let registers = row.registers.iter();
            let registers = registers.flat_map(|register| {
                let counts = register.counts.iter().map(|count| count.stamp);
                std::iter::once(register.stamp).chain(counts)
            });
            // Each step of a causal length, of two at most, is a write later than all before.
            let steps = row.header.cl / 2;
            if steps > 1 && steps > cl_stamp.hlc.0.unsigned_abs() {
                let table = self.tables.get(row.table as usize);
                return Err(InvalidDelta::Row {
                    table: table.map_or(String::new(), |table| table.name.clone()),
                    rid: row.rid.clone(),
                    why: "has a causal length that no writes can have led to",
                });
            }
            if !header.into_iter().chain(registers).all(&mut vouched) {
                let table = self.tables.get(row.table as usize);
                return Err(InvalidDelta::Row {
                    table: table.map_or(String::new(), |table| table.name.clone()),
                    rid: row.rid.clone(),
                    why: "has a write that the header of its changes does not cover",
                });
            }
        }
        if let Some(setting) = self.settings.iter().find(|setting| !vouched(setting.stamp)) {
            return Err(InvalidDelta::Uncovered(format!("setting `{}`", setting.key)));
        }
        if self.told.iter().any(|told| !vouched(told.lost) || !vouched(told.kept)) {
            return Err(InvalidDelta::Uncovered("a write that gave way".to_owned()));
        }
        Ok(())
    }
}

/// No database has so many tables.
#[cfg(feature = "batch")]
pub(crate) fn check_tables(count: usize) -> Result<(), &'static str> {
    if count > MAX_TABLES { Err("names more tables than a database has") } else { Ok(()) }
}

/// What no table can hold is refused before anything is made of it.
pub(crate) fn check_shape(shape: &TableShape) -> Result<(), &'static str> {
    let wide = |group: &GroupShape| group.columns.len().max(group.refs.len()) > MAX_COLUMNS;
    if shape.groups.iter().any(wide) {
        return Err("has more columns in a group than a table can have");
    }
    let names = shape.groups.iter().map(|group| group.columns.len() + group.refs.len());
    if names.sum::<usize>() > MAX_NAMES || shape.groups.len() > MAX_NAMES {
        return Err("names more columns than a table has had");
    }
    Ok(())
}

fn check_row(table: &TableShape, row: &RowChange) -> Result<(), &'static str> {
    let h = &row.header;
    if [h.cl_stamp, h.inserted, h.deleted, h.reinserted, h.yielded].iter().any(is_negative) {
        return Err("has a negative clock in its header");
    }
    check_length(h)?;
    if !row.registers.is_sorted_by(|a, b| a.group < b.group) {
        return Err("has registers out of order");
    }
    for register in &row.registers {
        let group = table.groups.get(register.group as usize).ok_or("names a missing group")?;
        if is_negative(&register.stamp) {
            return Err("has a register with a negative clock");
        }
        check_cell(group, &register.cell)?;
        register.previous.iter().try_for_each(|cell| check_cell(group, cell))?;
        check_counts(group, &register.counts)?;
        if register.counts.iter().any(|count| is_negative(&count.stamp)) {
            return Err("has a count with a negative clock");
        }
    }
    Ok(())
}

/// No write reaches such a causal length.
pub(crate) fn check_length(header: &Header) -> Result<(), &'static str> {
    if header.cl > MAX_CL { Err("has a causal length out of range") } else { Ok(()) }
}

/// A register says something.
pub(crate) fn check_group(group: &GroupShape) -> Result<(), &'static str> {
    if group.columns.is_empty() { Err("has a register of no column") } else { Ok(()) }
}

fn check_cell(group: &GroupShape, cell: &Cell) -> Result<(), &'static str> {
    check_group(group)?;
    if cell.values.len() != group.columns.len() || cell.refs.len() != group.refs.len() {
        return Err("has a register of another width than its group");
    }
    cell.values.iter().try_for_each(check_value)
}

/// SQLite stores no NaN.
pub(crate) fn check_value(value: &Value) -> Result<(), &'static str> {
    if matches!(value, Value::Real(r) if r.is_nan()) { Err("holds NaN") } else { Ok(()) }
}

/// R-COUNTER: only a single column counts, and each site once.
pub(crate) fn check_counts(group: &GroupShape, counts: &[Count]) -> Result<(), &'static str> {
    if !counts.is_empty() && group.columns.len() != 1 {
        return Err("counts in a group that is not one column");
    }
    if !counts.is_sorted_by(|a, b| a.stamp.site < b.stamp.site) {
        return Err("has counts out of order");
    }
    Ok(())
}

fn is_negative(stamp: &Stamp) -> bool {
    stamp.hlc.0 < 0
}
