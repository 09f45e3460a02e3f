//! A remote that is another replica on this machine: both are opened, one pulls from the other.

use super::{Outcome, Restored, Result, Session, SyncError, Traffic};
use std::path::Path;
use synqlite_core::{Error, Pulled, Replica, Synced};

/// Opens the other replica, unless the two cannot be synchronized.
pub fn open(mine: &Replica, path: &Path, session: &Session) -> Result<Replica> {
    let other = Replica::open(path, session.env.clone())?;
    if other.database() != mine.database() {
        let (ours, theirs) = (mine.database(), other.database());
        return Err(SyncError::Engine(Error::Unrelated { ours, theirs }));
    }
    if other.site() == mine.site() {
        return Err(SyncError::Engine(Error::SameSite(mine.site())));
    }
    Ok(other)
}

/// Lets the other replica pull from `mine`.
pub fn push(
    mine: &mut Replica,
    other: &mut Replica,
    session: &Session,
) -> Result<(Outcome, Synced)> {
    let sent = traffic(&fetch(other, mine, session)?);
    let synced = Synced { pushed: true, theirs: other.seen()?, ..Synced::default() };
    Ok((Outcome { sent, restored: Restored::of(other), ..Outcome::default() }, synced))
}

/// Pulls from the other replica.
pub fn pull(
    mine: &mut Replica,
    other: &mut Replica,
    session: &Session,
) -> Result<(Outcome, Synced)> {
    let pulled = fetch(mine, other, session)?;
    let received = traffic(&pulled);
    let synced = Synced { pulled: true, theirs: other.seen()?, ..Synced::default() };
    let (merged, restored) = (pulled.merged, Restored::of(other));
    Ok((Outcome { received, merged, restored, ..Outcome::default() }, synced))
}

fn fetch(mine: &mut Replica, other: &mut Replica, session: &Session) -> Result<Pulled> {
    Ok(match session.whole {
        true => mine.pull_whole(other, session.force)?,
        false => mine.pull_from(other, session.force)?,
    })
}

fn traffic(pulled: &Pulled) -> Traffic {
    Traffic { rows: pulled.rows, columns: pulled.columns, bytes: pulled.bytes }
}
