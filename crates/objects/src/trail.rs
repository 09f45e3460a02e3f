//! The row in which a place took its objects, as everybody reads it.
//!
//! A place that numbers its objects shows all sites the same row of names. A [`Mark`] is a hash over
//! the names from its beginning up to one of them. So two sites that have the same mark have read
//! the same names in the same order, whoever keeps the place and whatever he says: a name that is
//! left out, added or moved changes every mark after it.

use crate::name::ObjectName;
use synqlite_wire::{Id, Mark};

/// An object may name a mark that is so many objects before its own, no older one: readers keep
/// no more of them.
pub const REACH: usize = 1024;

/// The latest marks of a row, oldest first. Never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trail(Vec<Mark>);

impl Default for Trail {
    /// The beginning of every row.
    fn default() -> Trail {
        Trail(vec![Mark::ZERO])
    }
}

impl Trail {
    /// These marks; `None` if there is none.
    pub fn of(marks: Vec<Mark>) -> Option<Trail> {
        (!marks.is_empty()).then_some(Trail(marks))
    }

    /// The marks.
    pub fn marks(&self) -> &[Mark] {
        &self.0
    }

    /// The mark after the latest object.
    pub fn last(&self) -> Mark {
        self.0.last().copied().unwrap_or(Mark::ZERO)
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

/// The mark after the object `name`, if `before` is the one before it.
pub fn next(before: Mark, name: &ObjectName) -> Mark {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before.0).update(name.to_string().as_bytes());
    let mut mark = Id([0; 16]);
    hasher.finalize_xof().fill(&mut mark.0);
    mark
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
    fn a_mark_depends_on_every_name_before_it_and_on_their_order() {
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
        assert_eq!(end.marks().len(), REACH + 1);
        assert!(end.ends_with(&name(2_999)) && !end.ends_with(&name(2_998)));
        whole.push(&name(7));
        end.push(&name(7));
        assert_eq!(whole.last(), end.last());
        assert!(!Trail::default().ends_with(&name(0)));
    }
}
