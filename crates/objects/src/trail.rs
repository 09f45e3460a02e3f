//! The row in which a store took its objects, as everybody reads it.
//!
//! A store that numbers its objects shows all sites the same row of names. A [`PrefixHash`] is a hash over
//! the names from its beginning up to one of them. So two sites that have the same prefix hash have read
//! the same names in the same order, whoever keeps the store and whatever he says: a name that is
//! left out, added or moved changes every prefix hash after it.

use crate::name::ObjectName;
use synqlite_wire::{Id, PrefixHash};

/// An object may name a prefix hash that is so many objects before its own, no older one: readers keep
/// no more of them.
pub const REACH: usize = 1024;

/// The latest prefix hashes of a row, oldest first. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trail(Vec<PrefixHash>);

impl Default for Trail {
    /// The beginning of every row.
    fn default() -> Trail {
        Trail(vec![PrefixHash::ZERO])
    }
}

impl Trail {
    /// These prefix hashes; `None` if there is none.
    pub fn of(prefixes: Vec<PrefixHash>) -> Option<Trail> {
        (!prefixes.is_empty()).then_some(Trail(prefixes))
    }

    /// The prefix hashes.
    pub fn prefixes(&self) -> &[PrefixHash] {
        &self.0
    }

    /// The prefix hash after the latest object.
    pub fn last(&self) -> PrefixHash {
        self.0.last().copied().unwrap_or(PrefixHash::ZERO)
    }

    /// Goes on by an object.
    pub fn push(&mut self, name: &ObjectName) {
        self.0.push(next(self.last(), name));
    }

    /// Its end, as much of it as anybody may name later.
    pub fn end(&self) -> Trail {
        let from = self.0.len().saturating_sub(REACH + 1);
        Trail(self.0.get(from..).unwrap_or_default().to_vec())
    }

    /// Whether an object of this name was the latest.
    pub fn ends_with(&self, name: &ObjectName) -> bool {
        match self.0.as_slice() {
            [.., before, last] => next(*before, name) == *last,
            _ => false,
        }
    }
}

/// The prefix hash after the object `name`, if `before` is the one before it.
pub fn next(before: PrefixHash, name: &ObjectName) -> PrefixHash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before.0).update(name.to_string().as_bytes());
    let mut prefix = Id([0; 16]);
    hasher.finalize_xof().fill(&mut prefix.0);
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: u64) -> ObjectName {
        ObjectName::batch(Id([1; 16]), Id([2; 16]), n, n + 1)
    }

    fn trail(names: &[u64]) -> Trail {
        let mut trail = Trail::default();
        names.iter().for_each(|n| trail.push(&name(*n)));
        trail
    }

    #[test]
    fn a_prefix_hash_depends_on_every_name_before_it_and_on_their_order() {
        let last = trail(&[1, 2, 3]).last();
        assert_eq!(last, trail(&[1, 2, 3]).last());
        for other in [&[1, 3][..], &[2, 1, 3], &[1, 2, 3, 4], &[1, 2, 4, 3], &[]] {
            assert_ne!(last, trail(other).last(), "{other:?}");
        }
    }

    #[test]
    fn the_end_of_a_trail_goes_on_as_the_whole_does() {
        let mut whole = trail(&(0..3_000).collect::<Vec<_>>());
        let mut end = whole.end();
        assert_eq!(end.prefixes().len(), REACH + 1);
        assert!(end.ends_with(&name(2_999)) && !end.ends_with(&name(2_998)));
        whole.push(&name(7));
        end.push(&name(7));
        assert_eq!(whole.last(), end.last());
        assert!(!Trail::default().ends_with(&name(0)));
    }
}
