//! What the writer of a batch had seen, where the batch says it by a prefix hash.
//!
//! Whoever names a prefix hash had everything that the store contained up to there. A reader needs to know how
//! much of what it has itself that was: by that a merge tells writes of which neither had seen the other
//! from those that follow each other.

use synqlite_wire::VersionVector;

/// What a store contained at each index of its row, and what of it this replica has.
pub struct Contained<'a> {
    /// What the store contained where the list begins.
    start: VersionVector,
    /// Batches behind that, with their indexes, in order, and what each brings.
    batches: Vec<(usize, &'a VersionVector)>,
    /// What the store contained after the first so many.
    all: VersionVector,
    taken: usize,
    /// What this replica has.
    reached: VersionVector,
}

impl<'a> Contained<'a> {
    /// Of a store that contained `start` before these batches. `reached`: what this replica has.
    pub fn new(
        start: VersionVector,
        mut batches: Vec<(usize, &'a VersionVector)>,
        reached: VersionVector,
    ) -> Contained<'a> {
        batches.sort_unstable_by_key(|(index, _)| *index);
        Contained { all: start.clone(), start, batches, taken: 0, reached }
    }

    /// What this replica has and the store contained at `index`.
    pub fn at(&mut self, index: usize) -> VersionVector {
        let last = self.taken.checked_sub(1).and_then(|last| self.batches.get(last));
        if last.is_some_and(|(last, _)| *last > index) {
            (self.all, self.taken) = (self.start.clone(), 0);
        }
        while let Some((_, upto)) = self.batches.get(self.taken).filter(|(i, _)| *i <= index) {
            self.all.join(upto);
            self.taken += 1;
        }
        let both =
            self.all.0.iter().map(|(&site, &clock)| (site, clock.min(self.reached.get(site))));
        VersionVector(both.collect())
    }

    /// This replica has got these changes.
    pub fn reach(&mut self, upto: &VersionVector) {
        self.reached.join(upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use synqlite_wire::{Hlc, Id};

    fn vector(clocks: &[(u8, i64)]) -> VersionVector {
        VersionVector(clocks.iter().map(|&(site, clock)| (Id([site; 16]), Hlc(clock))).collect())
    }

    #[test]
    fn no_more_than_the_replica_has_and_the_store_had() {
        let (one, two) = (vector(&[(1, 5)]), vector(&[(2, 7)]));
        let batches = vec![(4, &two), (2, &one)];
        let mut contained =
            Contained::new(vector(&[(1, 1), (3, 9)]), batches, vector(&[(1, 6), (3, 8)]));
        assert_eq!(contained.at(1), vector(&[(1, 1), (3, 8)]));
        assert_eq!(contained.at(4), vector(&[(1, 5), (2, 0), (3, 8)]));
        contained.reach(&two);
        assert_eq!(contained.at(4), vector(&[(1, 5), (2, 7), (3, 8)]));
        assert_eq!(contained.at(3), vector(&[(1, 5), (3, 8)]));
    }
}
