//! What a delta promises beyond what its types can say, checked before it is written.
//!
//! The decoder cannot produce a delta that fails here: most of these promises hold by construction
//! of the format, which has no way to write anything else.

use super::error::BatchError;
use crate::change::{Cell, Delta, GroupShape, RowChange, TableShape};
use crate::clock::Stamp;
use crate::value::Value;

/// More sites than any header has room for.
const MAX_SITES: usize = 400_000;
/// Beyond every causal length that writes can reach; leaves the receiver's writes room to add to it.
pub(super) const MAX_CL: u64 = 1 << 62;

impl Delta {
    /// Checks that positions name tables and groups that are there, that registers are in order and
    /// filled as their group says, that only single columns are counters, that no clock is negative and no number NaN.
    ///
    /// The error is [`BatchError::Invalid`] and names the table and the row.
    pub fn check(&self) -> Result<(), BatchError> {
        let invalid = |what: String| Err(BatchError::Invalid(what));
        if self.base.0.len() + self.upto.0.len() > MAX_SITES {
            return invalid(format!("there are more than {MAX_SITES} sites"));
        }
        if self.base.0.values().chain(self.upto.0.values()).any(|hlc| hlc.0 < 0) {
            return invalid("a version vector has a negative clock".to_owned());
        }
        for (site, line) in &self.lines {
            let clocks = line.points.iter().map(|point| point.clock);
            let ordered = [line.before].into_iter().chain(clocks).is_sorted_by(|a, b| a < b)
                && line.points.is_sorted_by_key(|point| point.births)
                && line.points.last().is_some_and(|last| last.clock == self.upto.get(*site));
            if line.before.0 < 0 || !ordered {
                return invalid(format!("the line of site {site} is out of order"));
            }
        }
        if self.tips.0.values().any(|hlc| hlc.0 < 0) {
            return invalid("a site was seen up to a negative clock".to_owned());
        }
        if let Some(setting) = self.settings.iter().find(|setting| is_negative(&setting.stamp)) {
            return invalid(format!("setting `{}` has a negative clock", setting.key));
        }
        if self.told.iter().any(|told| is_negative(&told.lost) || is_negative(&told.kept)) {
            return invalid("what gave way has a negative clock".to_owned());
        }
        for row in &self.rows {
            let Some(table) = self.tables.get(row.table as usize) else {
                return invalid(format!(
                    "row {:?} is of table {}, which is not there",
                    row.rid, row.table
                ));
            };
            if let Err(why) = check_row(table, row) {
                return invalid(format!("row {:?} of table `{}` {why}", row.rid, table.name));
            }
        }
        Ok(())
    }
}

fn check_row(table: &TableShape, row: &RowChange) -> Result<(), &'static str> {
    let h = &row.header;
    if [h.cl_stamp, h.inserted, h.deleted, h.reinserted, h.yielded].iter().any(is_negative) {
        return Err("has a negative clock in its header");
    }
    if h.cl > MAX_CL {
        return Err("has a causal length out of range");
    }
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
        if !register.counts.is_empty() && group.columns.len() != 1 {
            return Err("counts in a group that is not one column");
        }
        if !register.counts.is_sorted_by(|a, b| a.stamp.site < b.stamp.site) {
            return Err("has counts out of order");
        }
        if register.counts.iter().any(|count| is_negative(&count.stamp)) {
            return Err("has a count with a negative clock");
        }
    }
    Ok(())
}

fn check_cell(group: &GroupShape, cell: &Cell) -> Result<(), &'static str> {
    if cell.values.len() != group.columns.len() || cell.refs.len() != group.refs.len() {
        return Err("has a register of another width than its group");
    }
    if cell.values.iter().any(|value| matches!(value, Value::Real(r) if r.is_nan())) {
        return Err("holds NaN");
    }
    Ok(())
}

fn is_negative(stamp: &Stamp) -> bool {
    stamp.hlc.0 < 0
}
