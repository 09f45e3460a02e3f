//! A large fold in several transactions, so that no program waits long for any of them.
//!
//! All of them are one fold: their stamps go by its first clock, which is kept until the journal has been
//! emptied. Rows whose entries concern nobody else go first, slice by slice, and their entries with them; the
//! fold of what is left is the last. Whoever gives or merges anything empties the journal before, so nobody
//! is told of any of these stamps until all are given.

use super::given::Given;
use super::stamps::Stamps;
use super::{Fold, Folded};
use crate::catalog::{Catalog, Fresh, Tracked};
use crate::count::Count;
use crate::env::Environment;
use crate::journal::{self, Queue};
use crate::merge::repair;
use crate::meta::{self, Meta};
use crate::parts;
use crate::policy::Policies;
use crate::progress::Phase;
use crate::{Error, Result};
use rusqlite::Connection;
use synqlite_wire::Hlc;

/// The entry of the metadata that says that a fold is under way: its first clock, and who goes on with it.
const KEY: &str = "folding";

/// A journal of no more entries is folded at once.
const LITTLE: i64 = parts::of(4_096) as i64;

/// A fold under way.
pub struct Ahead {
    token: [u8; 16],
    schema: i64,
    /// What is replicated.
    pub catalog: Catalog,
    /// What it still has to do.
    pub queue: Queue,
    /// Rows that it has folded.
    done: u64,
}

/// Whether the journal is folded at once.
pub fn is_little(conn: &Connection) -> Result<bool> {
    Ok(journal::more_than(conn, LITTLE)?.is_none())
}

/// Begins a fold of a large journal: gives the clock of all of its stamps. `None` if the journal is little.
pub fn begin(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    token: [u8; 16],
) -> Result<Option<Ahead>> {
    let Some((earliest, latest, end)) = journal::more_than(conn, LITTLE)? else { return Ok(None) };
    let first = match under_way(conn)? {
        Some((first, _)) => first,
        None => meta.tick(earliest).hlc,
    };
    if Hlc::at_ms(latest) > meta.clock {
        meta.tick(latest);
    }
    let mut value = first.0.to_be_bytes().to_vec();
    value.extend(token);
    meta::set(conn, KEY, value)?;
    let (queue, catalog) = (Queue::new(conn, catalog, end)?, catalog.clone());
    Ok(Some(Ahead { token, schema: schema_version(conn)?, catalog, queue, done: 0 }))
}

/// Folds the next `most` rows, and says whether more may be left. `None` if the rest has to be folded at once.
pub fn slice(
    conn: &Connection,
    meta: &mut Meta,
    catalog: &Catalog,
    (policies, env): (&Policies, &dyn Environment),
    ahead: &mut Ahead,
    most: usize,
) -> Result<Option<(Folded, bool)>> {
    let first = under_way(conn)?.filter(|(_, token)| *token == ahead.token);
    let Some((first, _)) = first.filter(|_| schema_version(conn).ok() == Some(ahead.schema)) else {
        return Ok(None);
    };
    let given = Given::read(conn, catalog, policies, Fresh::new())?;
    if !given.allows_parts() || !ahead.queue.look(conn, catalog)? {
        return Ok(None);
    }
    let lasting = given.lasting.clone();
    let mut count = Count::new(env, Phase::Fold, Some(ahead.queue.rows(conn)?));
    count.add(ahead.done);
    let stamps = Stamps::new(meta, Some(first));
    let mut fold = Fold::new(conn, meta, catalog, (given, stamps, count));
    let takes = |t: &Tracked| !lasting.contains(&t.no);
    let part = |survey: &_, position, window| fold.part(survey, position, window);
    let more = ahead.queue.take(conn, catalog, takes, most, part)?;
    let Fold { meta, stamps, done, wrote, mut count, .. } = fold;
    if !more {
        count.leave();
    }
    if done.rows > 0 {
        meta.local_seq = stamps.local_seq;
    }
    ahead.done += done.rows;
    repair(conn, meta, catalog, policies, wrote)?;
    Ok(Some((done, more)))
}

/// The first clock of a fold that is under way, and who goes on with it.
pub(super) fn under_way(conn: &Connection) -> Result<Option<(Hlc, [u8; 16])>> {
    let Some(value) = meta::get::<Vec<u8>>(conn, KEY)? else { return Ok(None) };
    let damaged = || Error::Damaged(format!("entry `{KEY}`"));
    let (first, token) = value.split_at_checked(8).ok_or_else(damaged)?;
    let first = i64::from_be_bytes(first.try_into().map_err(|_| damaged())?);
    Ok(Some((Hlc(first), token.try_into().map_err(|_| damaged())?)))
}

/// The fold has ended.
pub(super) fn end(conn: &Connection) -> Result<()> {
    meta::unset(conn, KEY)
}

fn schema_version(conn: &Connection) -> Result<i64> {
    Ok(conn.prepare_cached("PRAGMA schema_version")?.query_row([], |row| row.get(0))?)
}
