//! Removing many objects: what snapshots cover and every site has, or a whole place.
//!
//! Looking for them happens beside the writer; it removes a part at a time, so that puts go on.

use super::writer::{Job, Reply};
use super::{Shared, answer, look};
use crate::backend::Millis;
use crate::error::Result;
use crate::layout::{self, Record};
use crate::place::Place;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use synqlite_wire::DatabaseId;
use tokio::sync::oneshot;

/// Objects that are looked for and removed at once.
const PART: usize = 1000;

/// Removes objects of a place by their sequences.
async fn remove(jobs: &Sender<Job>, place: &Place, sequences: Vec<u64>) -> Result<u64> {
    let (reply, done): (Reply<u64>, _) = oneshot::channel();
    let _ = jobs.send(Job::Remove(place.clone(), sequences, reply));
    answer(done).await
}

/// A snapshot that covers something which is still there.
struct Due {
    key: Vec<u8>,
    place: Place,
    database: DatabaseId,
    done: u64,
    upto: u64,
}

/// A part of what was looked through.
#[derive(Default)]
struct Look {
    found: Vec<Due>,
    /// Keys of sites that were not seen for long.
    forget: Vec<Vec<u8>>,
    /// Where to go on, unless it was the last part.
    last: Option<Vec<u8>>,
}

/// What may be retired, after `after` in the order of keys.
fn due(shared: &Shared, after: Option<Vec<u8>>, since: Millis) -> Result<Look> {
    let from = after.map_or(Bound::Included(vec![layout::COVER]), Bound::Excluded);
    let mut scan = shared.db().scan((from, Bound::Excluded(vec![layout::COVER + 1])))?;
    let mut look = Look::default();
    for _ in 0..PART {
        if !scan.advance()? {
            look.last = None;
            return Ok(look);
        }
        let (place, rest) = layout::split(scan.key())?;
        let database = layout::id(rest)?;
        let [covers, done, _] = layout::numbers(scan.value())?;
        let mut upto = covers;
        for site in shared.sites(&place)? {
            if site.seen < since {
                look.forget.push(layout::site(&place, site.site));
            } else {
                upto = upto.min(site.upto);
            }
        }
        look.last = Some(scan.key().to_vec());
        if upto > done {
            look.found.push(Due { key: scan.key().to_vec(), place, database, done, upto });
        }
    }
    Ok(look)
}

/// Sequences of a place's objects of one database, or of all, above one sequence and up to another;
/// and where to go on.
fn part(
    shared: &Shared,
    place: &Place,
    database: Option<DatabaseId>,
    after: u64,
    upto: u64,
) -> Result<(Vec<u64>, Option<u64>)> {
    let upto = layout::object(place, upto.max(after));
    let range = (Bound::Excluded(layout::object(place, after)), Bound::Included(upto));
    let mut scan = shared.db().scan(range)?;
    let (mut found, mut last) = (Vec::new(), after);
    for _ in 0..PART {
        if !scan.advance()? {
            return Ok((found, None));
        }
        last = layout::sequence_of(scan.key())?;
        if database
            .is_none_or(|id| Record::decode(scan.value()).is_ok_and(|r| r.name.database == id))
        {
            found.push(last);
        }
    }
    Ok((found, Some(last)))
}

/// Removes what newer snapshots cover and every site seen at `since` or later has.
pub async fn retire(shared: Arc<Shared>, jobs: Sender<Job>, since: Millis) -> Result<u64> {
    let mut count = 0;
    let mut after = None;
    loop {
        let Look { found, forget, last } = look(&shared, move |s| due(s, after, since)).await?;
        if !forget.is_empty() {
            let _ = jobs.send(Job::Forget(forget));
        }
        for Due { key, place, database, done, upto } in found {
            let mut from = Some(done);
            while let Some(at) = from {
                let of = place.clone();
                let (sequences, next) =
                    look(&shared, move |s| part(s, &of, Some(database), at, upto)).await?;
                if !sequences.is_empty() {
                    count += remove(&jobs, &place, sequences).await?;
                }
                from = next;
            }
            let _ = jobs.send(Job::Retired(key, upto));
        }
        match last {
            Some(key) => after = Some(key),
            None => return Ok(count),
        }
    }
}

/// Removes everything that a place holds.
pub async fn clear(shared: Arc<Shared>, jobs: Sender<Job>, place: Place) -> Result<u64> {
    let (mut count, mut from) = (0, Some(0));
    while let Some(at) = from {
        let of = place.clone();
        let (sequences, next) = look(&shared, move |s| part(s, &of, None, at, s.durable())).await?;
        if !sequences.is_empty() {
            count += remove(&jobs, &place, sequences).await?;
        }
        from = next;
    }
    let of = place.clone();
    let keys = look(&shared, move |s| {
        let mut keys = Vec::new();
        for start in [layout::sites(&of), layout::covers(&of)] {
            let mut scan = s.db().scan_prefix(start)?;
            while scan.advance()? {
                keys.push(scan.key().to_vec());
            }
        }
        Ok(keys)
    });
    let _ = jobs.send(Job::Forget(keys.await?));
    Ok(count)
}
