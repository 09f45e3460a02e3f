//! What there is of a log in a bucket, and which of it a reader needs.

use super::entry::{EMPTY, log_key, log_numbers};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use synqlite_objects::Storage;

/// So many entries become a bundle.
pub const BUNDLE: u64 = 128;
/// Unless they are larger together.
pub const LARGEST_BUNDLE: u64 = 64 << 20;

/// A checkpoint: all keys as they were after an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// That entry.
    pub upto: u64,
    /// Folder of its parts.
    pub folder: String,
    /// Keys of its parts, in order.
    pub parts: Vec<String>,
    /// Their bytes.
    pub size: u64,
}

/// The bundle that an entry becomes a part of.
pub fn bundle_of(number: u64) -> (u64, u64) {
    let first = (number - 1) / BUNDLE * BUNDLE + 1;
    (first, first + BUNDLE - 1)
}

/// Folder of a checkpoint.
pub fn folder(upto: u64, run: synqlite_wire::Id) -> String {
    format!("base/{upto:016x}-{run}")
}

/// Name of the last part, which is there once all others are.
pub const END: &str = "end";

/// Keys of a log, with the lengths of what is under them.
#[derive(Clone, Default, Debug)]
pub struct Listing {
    /// By the numbers of the first and the last entry.
    pub log: BTreeMap<(u64, u64), u64>,
    /// The newest whole checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Parts of older ones. Those of a newer one that is not whole may yet become so: a hub that has
    /// lost the prefix, and does not know, may be writing it.
    pub stale: Vec<String>,
}

impl Listing {
    /// Lists it.
    pub fn read(storage: &Storage) -> Result<Listing> {
        // Checkpoints first: what a later one made needless is removed after it is there.
        let base = storage.list("base")?;
        Ok(Listing::of(base, storage.list("log")?))
    }

    fn of(base: Vec<(String, u64)>, log: Vec<(String, u64)>) -> Listing {
        let mut found: BTreeMap<String, Checkpoint> = BTreeMap::new();
        for (key, size) in base {
            let Some((folder, _)) = key.rsplit_once('/') else { continue };
            let number = folder.strip_prefix("base/").and_then(|rest| rest.get(..16));
            let Some(upto) = number.and_then(|n| u64::from_str_radix(n, 16).ok()) else { continue };
            let checkpoint = found.entry(folder.to_owned()).or_insert_with(|| {
                let (folder, parts) = (folder.to_owned(), Vec::new());
                Checkpoint { upto, folder, parts, size: 0 }
            });
            checkpoint.parts.push(key);
            checkpoint.size += size;
        }
        let is_whole = |of: &Checkpoint| of.parts.last().is_some_and(|key| key.ends_with(END));
        let newest = found.values().filter(|of| is_whole(of)).max_by_key(|of| of.upto).cloned();
        let base = newest.as_ref().map_or(0, |newest| newest.upto);
        let older = found.into_values().filter(|of| of.upto < base);
        let stale = older.flat_map(Checkpoint::keys).collect();
        let checkpoint = newest.map(|mut newest| {
            newest.parts.pop();
            newest
        });
        let log = log.iter().filter_map(|(key, size)| Some((log_numbers(key)?, *size)));
        Listing { log: log.collect(), checkpoint, stale }
    }

    /// Number of the last entry, 0 if there is none.
    pub fn last(&self) -> u64 {
        let log = self.log.keys().map(|(_, upto)| *upto).max().unwrap_or(0);
        log.max(self.base())
    }

    /// Entry that the checkpoint ends with, 0 without one.
    pub fn base(&self) -> u64 {
        self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.upto)
    }

    /// Bytes of log that the checkpoint does not hold.
    pub fn grown(&self) -> u64 {
        self.log.iter().filter(|((_, upto), _)| *upto > self.base()).map(|(_, size)| size).sum()
    }

    /// What holds all entries after one, in order, with the lengths: few and long ones.
    pub fn after(&self, number: u64) -> Result<Vec<(String, u64)>> {
        let (mut next, last, mut out) = (number + 1, self.last(), Vec::new());
        while next <= last {
            let found = [bundle_of(next), (next, next)].into_iter().find_map(|numbers| {
                let size = self.log.get(&numbers)?;
                Some((numbers, *size))
            });
            let Some(((from, upto), size)) = found else {
                let what = format!("entry {next} of the log in the bucket");
                return Err(Error::Damaged { what, why: "it is missing" });
            };
            out.push((log_key(from, upto), size));
            next = upto + 1;
        }
        Ok(out)
    }

    /// Entries that can become a bundle.
    pub fn bundle(&self) -> Option<Vec<u64>> {
        let single = |n: u64| self.log.get(&(n, n));
        let mut firsts = self.log.keys().filter(|(from, upto)| from == upto && from % BUNDLE == 1);
        firsts.find_map(|&(first, _)| {
            let all: Vec<u64> = (first..first + BUNDLE).collect();
            let sizes: Option<u64> = all.iter().map(|n| single(*n)).sum();
            let fits = sizes.is_some_and(|sum| sum <= LARGEST_BUNDLE);
            let known = self.log.contains_key(&bundle_of(first));
            (fits && !known && first + BUNDLE > self.base()).then_some(all)
        })
    }

    /// Numbers of what other files hold too. An entry without changes stays for ever: it is what a
    /// hub meets that did not notice that another took over, and that would write with its number.
    pub fn needless(&self) -> Vec<(u64, u64)> {
        let held = |from: u64, upto: u64| {
            upto <= self.base() || (from == upto && self.log.contains_key(&bundle_of(from)))
        };
        let entries = self.log.iter();
        let needless = entries.filter(|((from, upto), size)| {
            held(*from, *upto) && !(from == upto && **size == EMPTY)
        });
        needless.map(|(numbers, _)| *numbers).collect()
    }
}

impl Checkpoint {
    /// All its keys, the end last, which is removed first: a checkpoint that is being removed is none.
    pub fn keys(self) -> impl Iterator<Item = String> {
        let end = format!("{}/{END}", self.folder);
        self.parts.into_iter().filter(|key| !key.ends_with(END)).chain([end])
    }

    /// Whether all parts are here that its end tells of.
    pub fn check(&self, storage: &Storage) -> Result<()> {
        let told = storage.get(&format!("{}/{END}", self.folder))?.unwrap_or_default();
        if told == self.parts.len().to_string().as_bytes() {
            return Ok(());
        }
        let what = format!("{} in the bucket", self.folder);
        Err(Error::Damaged { what, why: "a part of it is missing" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(numbers: &[(u64, u64)], base: u64) -> Listing {
        let checkpoint = Checkpoint { upto: base, folder: String::new(), parts: vec![], size: 0 };
        let log = numbers.iter().map(|numbers| (*numbers, 200)).collect();
        Listing { log, checkpoint: Some(checkpoint).filter(|c| c.upto > 0), stale: vec![] }
    }

    #[test]
    fn readers_take_the_longest_and_notice_what_is_missing() {
        let all = listing(&[(1, 1), (1, 128), (2, 2), (129, 129), (130, 130)], 0);
        let keys = |after| all.after(after).unwrap().into_iter().map(|f| f.0).collect::<Vec<_>>();
        assert_eq!(keys(0), [log_key(1, 128), log_key(129, 129), log_key(130, 130)]);
        assert_eq!(keys(57), keys(0), "a bundle is taken whole");
        assert_eq!(keys(129), [log_key(130, 130)]);
        assert!(keys(130).is_empty());
        assert!(listing(&[(1, 1), (3, 3)], 0).after(0).is_err());
        assert!(listing(&[(3, 3)], 2).after(2).is_ok());
    }

    #[test]
    fn the_newest_whole_checkpoint_counts_and_only_older_ones_go() {
        let run = |n: u8| synqlite_wire::Id([n; 16]);
        let key = |upto, by, part| (format!("{}/{part}", folder(upto, run(by))), 10);
        let base = vec![
            key(5, 1, "00000000"),
            key(5, 1, END),
            key(6, 1, "00000000"),
            key(7, 2, "00000000"),
            key(7, 2, "00000001"),
            key(7, 2, END),
            key(9, 1, "00000000"),
        ];
        let found = Listing::of(base.clone(), vec![]);
        let newest = found.checkpoint.unwrap();
        assert_eq!((newest.upto, newest.parts), (7, vec![base[3].0.clone(), base[4].0.clone()]));
        // The last one is removed first.
        assert_eq!(found.stale.last().unwrap(), &format!("{}/{END}", folder(6, run(1))));
        assert!(found.stale.iter().all(|key| key < &folder(7, run(0))), "{:?}", found.stale);
        assert!(Listing::of(base[6..].to_vec(), vec![]).stale.is_empty());
    }

    #[test]
    fn full_groups_become_bundles_and_what_they_hold_goes() {
        let singles: Vec<_> = (1..=300).map(|n| (n, n)).collect();
        let mut all = listing(&singles, 0);
        assert_eq!(all.bundle().unwrap(), (1..=128).collect::<Vec<_>>());
        all.log.insert((1, 128), 9);
        all.log.insert((57, 57), EMPTY);
        assert_eq!(all.bundle().unwrap()[0], 129);
        let needless: Vec<_> = (1..=128).filter(|n| *n != 57).map(|n| (n, n)).collect();
        assert_eq!(all.needless(), needless);
        for numbers in needless {
            all.log.remove(&numbers);
        }
        assert_eq!(all.after(0).unwrap()[0].0, log_key(1, 128));
        let over = listing(&[(1, 128), (129, 129), (130, 130)], 129);
        assert_eq!(over.needless(), [(1, 128), (129, 129)]);
        assert_eq!((over.last(), over.grown()), (130, 200));
    }
}
