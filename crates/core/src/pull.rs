//! A pull from another replica that this process can open too.
//!
//! The other replica folds and commits first: what it gives away under its stamps must never be
//! stamped anew. Then its rows are read in one snapshot, in which nothing waits to be folded, and
//! merged here part by part, in one transaction. So memory does not grow with what has changed.

use crate::merge::{Merge, Merged};
use crate::replica::Work;
use crate::{Error, Replica, Result, export};
use rusqlite::OptionalExtension;
use synqlite_wire::{Cell, Delta, Rid, SiteId, Value, VersionVector};

/// So many rows are handed over at a time. Each takes up to 2 kB meanwhile.
const PART: usize = 4_096;

/// How often a snapshot without unfolded writes is looked for while others write.
const ATTEMPTS: usize = 3;

/// What a pull brought.
#[derive(Clone, Debug, Default)]
pub struct Pulled {
    /// What the merge changed.
    pub merged: Merged,
    /// Rows that came.
    pub rows: u64,
    /// Registers that came.
    pub columns: u64,
    /// Bytes of their values and identities.
    pub bytes: u64,
}

impl Replica {
    /// Fetches and merges what the replica `other` has and this one lacks. `force` merges changes
    /// that are stamped far ahead of this machine's clock.
    pub fn pull_from(&mut self, other: &mut Replica, force: bool) -> Result<Pulled> {
        if other.database() != self.database() {
            let (ours, theirs) = (self.database(), other.database());
            return Err(Error::Unrelated { ours, theirs });
        }
        if other.site() == self.site() {
            return Err(Error::SameSite(self.site()));
        }
        for _ in 0..ATTEMPTS {
            other.fold()?;
            let (path, theirs) = (self.path.clone(), other.site());
            let pulled = self.write(|work| {
                work.fold()?;
                let (base, after) = (work.meta.seen.clone(), peer_position(work, theirs)?);
                let mut pull = Pull { work, force, merge: None, pulled: Pulled::default() };
                // One behind, so that the other is not kept from writing while the last, mostly the
                // only one, is merged.
                let mut last = None;
                let mut part = |delta| {
                    let before = last.replace(delta).map_or(Ok(()), |before| pull.part(before));
                    before.map_err(|e| e.on(&path))
                };
                let Some(position) = other.parts(&base, after, PART, &mut part)? else {
                    return Ok(None);
                };
                last.map_or(Ok(()), |last| pull.part(last))?;
                pull.end(theirs, position).map(Some)
            })?;
            if let Some(pulled) = pulled {
                return Ok(pulled);
            }
        }
        // Somebody writes there all the time, so it is read while nobody else can.
        let theirs = other.site();
        let (base, after) = self.write(|work| {
            work.fold()?;
            Ok((work.meta.seen.clone(), peer_position(work, theirs)?))
        })?;
        let (delta, position) = other.export(&base, after)?;
        self.write(|work| {
            work.fold()?;
            let mut pull = Pull { work, force, merge: None, pulled: Pulled::default() };
            pull.part(delta)?;
            pull.end(theirs, position)
        })
    }

    /// What a site which has seen `base` lacks, in parts of at most `most` rows, and the position
    /// that it reaches. `None`, and no part, if something waits here to be folded.
    fn parts(
        &self,
        base: &VersionVector,
        after: i64,
        most: usize,
        each: &mut dyn FnMut(Delta) -> Result<()>,
    ) -> Result<Option<i64>> {
        self.read(|conn, meta, loaded| {
            let pending = conn.prepare_cached("SELECT 1 FROM synqlite_journal")?.exists([])?;
            if pending || !loaded.stale.is_empty() || !loaded.left.is_empty() {
                return Ok(None);
            }
            export::parts(conn, meta, &loaded.catalog, base, after, most, each)?;
            Ok(Some(meta.position))
        })
    }
}

/// A merge of parts as they come.
struct Pull<'a, 'w> {
    work: &'a mut Work<'w>,
    force: bool,
    /// Once the first has come; inside, unless all parts bring nothing.
    merge: Option<Option<Merge>>,
    pulled: Pulled,
}

impl Pull<'_, '_> {
    fn part(&mut self, delta: Delta) -> Result<()> {
        if self.merge.is_none() {
            self.merge = Some(self.work.begin_merge(&delta, self.force)?);
        }
        self.pulled.rows += delta.rows.len() as u64;
        self.pulled.columns += delta.rows.iter().map(|row| row.registers.len() as u64).sum::<u64>();
        self.pulled.bytes += payload(&delta);
        match &mut self.merge {
            Some(Some(merge)) => merge.part(&mut self.work.site(), delta),
            _ => Ok(()),
        }
    }

    fn end(mut self, theirs: SiteId, position: i64) -> Result<Pulled> {
        if let Some(Some(merge)) = self.merge {
            self.pulled.merged = self.work.end_merge(merge)?;
        }
        set_peer_position(self.work, theirs, position)?;
        Ok(self.pulled)
    }
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

/// Up to which of its positions the replica `site` was last pulled from.
fn peer_position(work: &Work<'_>, site: SiteId) -> Result<i64> {
    let Some(no) = work.meta.known_number(site) else { return Ok(0) };
    let sql = "SELECT position FROM synqlite_peer WHERE site = ?1";
    let found = work.conn.prepare_cached(sql)?.query_row([no], |row| row.get(0)).optional()?;
    Ok(found.unwrap_or(0))
}

fn set_peer_position(work: &mut Work<'_>, site: SiteId, position: i64) -> Result<()> {
    if peer_position(work, site)? == position {
        return Ok(());
    }
    let no = work.meta.number(work.conn, site)?;
    let sql = "INSERT OR REPLACE INTO synqlite_peer(site, position) VALUES(?1, ?2)";
    work.conn.prepare_cached(sql)?.execute([i64::from(no), position])?;
    Ok(())
}
