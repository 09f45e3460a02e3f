//! A remote that is another replica on this machine: both are opened, one pulls from the other.

use super::{Outcome, Result, Session, SyncError, Traffic, refuse_restored};
use std::path::Path;
use synqlite_core::{Error, Replica, Synced};
use synqlite_wire::{Cell, Delta, Rid, Value};

/// Opens the other replica, unless the two cannot be synchronized.
fn open(mine: &Replica, path: &Path, session: &Session<'_>) -> Result<Replica> {
    let other = Replica::open(path, session.env.clone())?;
    if other.database() != mine.database() {
        let (ours, theirs) = (mine.database(), other.database());
        return Err(SyncError::Engine(Error::Unrelated { ours, theirs }));
    }
    if other.site() == mine.site() {
        return Err(SyncError::Engine(Error::SameSite(mine.site())));
    }
    let (here, there) = (mine.seen()?, other.seen()?);
    refuse_restored(mine, &here, &there)?;
    refuse_restored(&other, &there, &here)?;
    Ok(other)
}

/// Lets the replica at `path` pull from `mine`.
pub fn push(
    mine: &mut Replica,
    path: &Path,
    session: &mut Session<'_>,
) -> Result<(Outcome, Synced)> {
    let mut other = open(mine, path, session)?;
    let (_, delta) = other.pull_from(mine, session.force)?;
    let sent = Traffic::of(&delta, payload(&delta));
    let synced = Synced { pushed: true, theirs: other.seen()?, ..Synced::default() };
    Ok((Outcome { sent, ..Outcome::default() }, synced))
}

/// Pulls from the replica at `path`.
pub fn pull(
    mine: &mut Replica,
    path: &Path,
    session: &mut Session<'_>,
) -> Result<(Outcome, Synced)> {
    let mut other = open(mine, path, session)?;
    let (merged, delta) = mine.pull_from(&mut other, session.force)?;
    let received = Traffic::of(&delta, payload(&delta));
    let synced = Synced { pulled: true, theirs: other.seen()?, ..Synced::default() };
    Ok((Outcome { received, merged, ..Outcome::default() }, synced))
}

/// Bytes of values and identities in a delta that is handed over in memory.
fn payload(delta: &Delta) -> u64 {
    let rid = |rid: &Rid| match rid {
        Rid::Birth { .. } => 24,
        Rid::Key { key, .. } => key.len() + 4,
    };
    let value = |value: &Value| match value {
        Value::Null => 1,
        Value::Integer(_) | Value::Real(_) => 8,
        Value::Text(bytes) | Value::Blob(bytes) => bytes.len(),
    };
    let cell = |cell: &Cell| {
        let values: usize = cell.values.iter().map(value).sum();
        values + cell.refs.iter().flatten().map(rid).sum::<usize>()
    };
    let rows = delta.rows.iter().map(|row| {
        let cells = row.registers.iter().flat_map(|r| [Some(&r.cell), r.previous.as_ref()]);
        rid(&row.rid) + cells.flatten().map(cell).sum::<usize>()
    });
    let settings = delta.settings.iter().map(|s| s.key.len() + s.value.len());
    (rows.sum::<usize>() + settings.sum::<usize>()) as u64
}
