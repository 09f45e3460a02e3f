//! What a delta promises beyond what its types can say: the one definition of a valid delta.
//!
//! Whoever reads positions in a delta relies on it. The encoder of batches checks before it writes,
//! the engine checks what it is given. The decoder cannot produce a delta that fails here: most of
//! these promises hold by construction of the format, which has no way to write anything else, and
//! for the others it asks the same functions.

use crate::change::{Cell, Delta, GroupShape, Header, RowChange, TableShape};
use crate::clock::Stamp;
use crate::counter::Count;
use crate::ids::{Rid, SiteId};
#[cfg(feature = "batch")]
use crate::line::Line;
use crate::value::Value;

/// More sites than any header of a batch has room for.
const MAX_SITES: usize = 400_000;
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

fn check_cell(group: &GroupShape, cell: &Cell) -> Result<(), &'static str> {
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
