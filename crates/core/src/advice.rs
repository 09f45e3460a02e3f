//! Which policies would have left less to settle.
//!
//! A policy is tried, not guessed at: it is set, what rows show then is worked out, the records that are
//! open are counted, and all of it is taken back. What it would have spared among writes that gave way without
//! a record can only be counted: they are over.

use crate::closed::{self, Closed};
use crate::policy::{COUNTER, Policy};
use crate::records;
use crate::replica::Replica;
use crate::work::Work;
use crate::{Error, Result, migrate, open};
use std::collections::BTreeMap;
use synqlite_view::ConflictKind;

/// A policy that would have left less to settle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The policy.
    pub policy: Policy,
    /// So many records fewer would be open.
    pub open: u64,
    /// So many writes that gave way are such as it is about, among those that the log has.
    pub told: u64,
}

impl Replica {
    /// Policies that would have left less to settle, those first that spare most. Changes nothing.
    pub fn advice(&mut self) -> Result<Vec<Advice>> {
        let mut candidates = BTreeMap::new();
        for conflict in self.conflicts()? {
            let table = &conflict.table;
            match conflict.kind {
                ConflictKind::Unique | ConflictKind::Fallback => {
                    candidates.entry((format!("{table}.on_unique"), "unify")).or_insert(0);
                }
                _ => drop(candidates.entry((format!("{table}.delete"), "last")).or_insert(0)),
            }
        }
        for closed in self.peek(closed::all)? {
            if let Some(policy) = about(&closed) {
                *candidates.entry(policy).or_insert(0) += 1;
            }
        }
        let before = self.open_after(None)?.unwrap_or_default();
        let mut advice = Vec::new();
        for ((key, value), told) in candidates {
            let Ok(policy) = Policy::new(&key, value) else { continue };
            let Some(after) = self.open_after(Some(&policy))? else { continue };
            let open = before.saturating_sub(after);
            if open + told > 0 {
                advice.push(Advice { policy, open, told });
            }
        }
        advice.sort_by_key(|a| (std::cmp::Reverse(a.open), std::cmp::Reverse(a.told)));
        Ok(advice)
    }

    /// How many records would be open under a policy more; nothing if it cannot be set here, or is.
    fn open_after(&mut self, policy: Option<&Policy>) -> Result<Option<u64>> {
        let mut open = None;
        let tried = self.write(|work| {
            open = try_policy(work, policy)?;
            // Nothing of a write that fails remains.
            Err::<(), _>(Error::Refused("this was a trial".into()))
        });
        match (tried, open) {
            (Err(Error::Refused(_) | Error::Policy { .. }), open) => Ok(open),
            (Err(error), None) => Err(error),
            (_, open) => Ok(open),
        }
    }
}

fn try_policy(work: &mut Work<'_>, policy: Option<&Policy>) -> Result<Option<u64>> {
    work.fold()?;
    if let Some(policy) = policy {
        if work.policies.get(policy.key()).is_some() {
            return Ok(None);
        }
        let now = work.now_ms;
        migrate::set_policies(work, std::slice::from_ref(policy), now)?;
        migrate::follow_policies(work)?;
    }
    let tables = work.catalog.tables.iter();
    let counts = tables.map(|t| Ok(records::of_table(work.lookup(), t)?.len() as u64));
    let follow = open::followers(work.conn)?.into_values().map(|ids| ids.len() as u64);
    Ok(Some(counts.sum::<Result<u64>>()?.saturating_sub(follow.sum())))
}

/// The policy that would have spared a write that gave way, if there is one.
fn about(closed: &Closed) -> Option<(String, &'static str)> {
    let table = &closed.table;
    match closed.kind {
        ConflictKind::UpdateLost => Some((format!("{table}.delete"), "last")),
        ConflictKind::Overwritten => {
            let (column, values) = closed.what.split_once(": ")?;
            let number = values.bytes().next().is_some_and(|b| b.is_ascii_digit() || b == b'-');
            (number && !column.contains(", ")).then(|| (format!("{table}.{column}"), COUNTER))
        }
        _ => None,
    }
}
