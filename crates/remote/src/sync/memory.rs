//! What a replica remembers of a store that numbers its objects, so that old ones cost nothing.
//!
//! It is noted only once everything in the store, up to the cursor, has been merged here and can be
//! reached there. So what comes after is all that matters: to a pull, which lacks nothing older,
//! and to a push, which need not send what is older.

use super::contained::Rise;
use std::time::Duration;
use synqlite_objects::{Cursor, Fingerprint, KeyId, REACH, Trail};
use synqlite_wire::{Hlc, Id, SiteId, VersionVector};

/// A store is looked at as a whole again after so long: what an operator removed is noticed then.
const AGE: Duration = Duration::from_secs(24 * 60 * 60);
const FORMAT: u8 = 5;

/// So many of the latest [`Memory::rises`] are kept.
const RISES: usize = 4 * REACH;

/// What a store contained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    /// The site that remembers it.
    pub site: SiteId,
    /// What the objects were sealed with: under another key all of them are others.
    pub key: KeyId,
    /// Everything up to here is in `contains`, and in the replica.
    pub cursor: Cursor,
    /// Of the object there, if the store told one.
    pub print: Option<Fingerprint>,
    /// When all of it was last looked at, in milliseconds since 1970.
    pub looked: i64,
    /// Where the chain of the site's own batches ended.
    pub end: u64,
    /// Where an object of its own ends that it put after the cursor; 0 if it put none, and
    /// [`Memory::MORE`] if it knew more of the store than this.
    pub sent: u64,
    /// What a new snapshot depends on.
    pub since: Since,
    /// The latest prefix hashes of the row of its objects, up to the cursor.
    pub trail: Trail,
    /// What can be reached there from nothing.
    pub contains: VersionVector,
    /// By which objects of the trail it came to that.
    pub rises: Vec<Rise>,
}

/// What came after the newest snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Since {
    /// So many batches.
    pub batches: u64,
    /// With so many bytes.
    pub bytes: u64,
    /// Bytes of the snapshot itself; 0 if there is none.
    pub snapshot: u64,
}

impl Memory {
    /// See [`Memory::sent`].
    pub const MORE: u64 = u64::MAX;

    /// As the replica keeps it; `docs/formats/metadata.md` has the bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Memory { site, key, cursor, print, looked, end, sent, since, trail, contains, rises } =
            self;
        let mut out = vec![FORMAT];
        out.extend(site.0);
        out.extend(key);
        out.extend(cursor.epoch.0);
        out.extend(print.unwrap_or_default());
        let Since { batches, bytes, snapshot } = *since;
        let looked = looked.cast_unsigned();
        for n in [cursor.sequence, looked, *end, *sent, batches, bytes, snapshot] {
            out.extend(n.to_le_bytes());
        }
        let prefixes = trail.prefixes();
        out.extend((prefixes.len() as u64).to_le_bytes());
        prefixes.iter().for_each(|prefix| out.extend(prefix.0));
        out.extend((contains.0.len() as u64).to_le_bytes());
        for (site, hlc) in &contains.0 {
            out.extend(site.0);
            out.extend(hlc.0.to_le_bytes());
        }
        let sites: Vec<SiteId> = contains.0.keys().copied().collect();
        for Rise { index, site, before } in rises.iter().skip(rises.len().saturating_sub(RISES)) {
            let Ok(site) = sites.binary_search(site) else { continue };
            out.extend((((*index as u64) << 32) | site as u64).to_le_bytes());
            out.extend(before.0.to_le_bytes());
        }
        out
    }

    /// `None` if it is of no use to `site`, with a key, at the time `now`: then all of the store is looked at.
    pub fn decode(bytes: &[u8], site: SiteId, key: KeyId, now: i64) -> Option<Memory> {
        let mut rest = bytes.strip_prefix(&[FORMAT])?;
        let (of, sealed) = (Id(take(&mut rest)?), take(&mut rest)?);
        let (epoch, print) = (Id(take(&mut rest)?), take(&mut rest)?);
        let memory = Memory {
            site: of,
            key: sealed,
            cursor: Cursor { epoch, sequence: number(&mut rest)? },
            print: (print != Fingerprint::default()).then_some(print),
            looked: number(&mut rest)?.cast_signed(),
            end: number(&mut rest)?,
            sent: number(&mut rest)?,
            since: Since {
                batches: number(&mut rest)?,
                bytes: number(&mut rest)?,
                snapshot: number(&mut rest)?,
            },
            trail: {
                let count = number(&mut rest).filter(|n| *n <= REACH as u64 + 1)?;
                let prefixes: Option<Vec<Id>> =
                    (0..count).map(|_| take(&mut rest).map(Id)).collect();
                Trail::of(prefixes?)?
            },
            contains: {
                let mut contains = VersionVector::default();
                for _ in 0..number(&mut rest)? {
                    let site = Id(take(&mut rest)?);
                    contains.raise(site, Hlc(number(&mut rest)?.cast_signed()));
                }
                contains
            },
            rises: vec![],
        };
        let memory = Memory { rises: rises(rest, &memory.contains)?, ..memory };
        let age = now.abs_diff(memory.looked);
        let is_meant = memory.site == site && memory.key == key;
        (is_meant && u128::from(age) < AGE.as_millis()).then_some(memory)
    }
}

fn rises(mut rest: &[u8], contains: &VersionVector) -> Option<Vec<Rise>> {
    let sites: Vec<SiteId> = contains.0.keys().copied().collect();
    let mut rises = Vec::new();
    while !rest.is_empty() {
        let at = number(&mut rest)?;
        let site = *sites.get(usize::try_from(at & u64::from(u32::MAX)).ok()?)?;
        let (index, before) = ((at >> 32) as usize, Hlc(number(&mut rest)?.cast_signed()));
        rises.push(Rise { index, site, before });
    }
    Some(rises)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    take(rest).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_back_for_its_site_and_for_a_day() {
        let site = Id([7; 16]);
        let mut contains = VersionVector::default();
        contains.raise(Id([1; 16]), Hlc(5));
        contains.raise(site, Hlc(1 << 40));
        let cursor = Cursor { epoch: Id([9; 16]), sequence: 77 };
        let since = Since { batches: 3, bytes: 400, snapshot: 5_000 };
        let trail = Trail::of(vec![Id([3; 16]), Id([4; 16])]).unwrap();
        let (looked, end, sent) = (1_000, 12, 15);
        let (key, print) = ([6; 8], Some([2; 8]));
        let rises = vec![Rise { index: 1, site, before: Hlc(0) }];
        let memory =
            Memory { site, key, cursor, print, looked, end, sent, since, trail, contains, rises };
        let bytes = memory.encode();
        assert_eq!(Memory::decode(&bytes, site, key, 2_000), Some(memory));
        assert_eq!(Memory::decode(&bytes, Id([8; 16]), key, 2_000), None);
        assert_eq!(Memory::decode(&bytes, site, KeyId::default(), 2_000), None);
        assert_eq!(Memory::decode(&bytes, site, key, 1_000 + AGE.as_millis() as i64), None);
        assert_eq!(Memory::decode(&bytes[..bytes.len() - 1], site, key, 2_000), None);
        assert_eq!(Memory::decode(b"", site, key, 2_000), None);
    }
}
