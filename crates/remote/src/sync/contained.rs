//! What the writer of a batch had seen, where the batch says it by a prefix hash.
//!
//! Whoever names a prefix hash had everything that the store contained up to there. A reader needs to know how
//! much of what it has itself that was: by that a merge tells writes of which neither had seen the other
//! from those that follow each other.

use synqlite_wire::{Hlc, SiteId, VersionVector};

/// An object of a row brought writes of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rise {
    /// The index of the object.
    pub index: usize,
    /// Whose writes.
    pub site: SiteId,
    /// Up to where the store contained its writes before.
    pub before: Hlc,
}

/// What a store contained at each index of its row, and what of it this replica has.
pub struct Contained<'a> {
    /// What the store contained where the list begins.
    start: VersionVector,
    /// By which objects it had come there, in order, as far back as is remembered.
    rises: &'a [Rise],
    /// Objects behind that, with their indexes, in order, and what each brings.
    objects: Vec<(usize, &'a VersionVector)>,
    /// What the store contained after the first so many.
    all: VersionVector,
    taken: usize,
    /// What this replica has.
    reached: VersionVector,
}

impl<'a> Contained<'a> {
    /// Of a store that contained `start`, to which it had come by `rises`, before these objects, in order.
    /// `reached`: what this replica has.
    pub fn new(
        (start, rises): (VersionVector, &'a [Rise]),
        objects: Vec<(usize, &'a VersionVector)>,
        reached: VersionVector,
    ) -> Contained<'a> {
        Contained { all: start.clone(), start, rises, objects, taken: 0, reached }
    }

    /// What this replica has and the store contained at `index`.
    pub fn at(&mut self, index: usize) -> VersionVector {
        let last = self.taken.checked_sub(1).and_then(|last| self.objects.get(last));
        if last.is_some_and(|(last, _)| *last > index) {
            (self.all, self.taken) = (self.start.clone(), 0);
        }
        while let Some((_, upto)) = self.objects.get(self.taken).filter(|(i, _)| *i <= index) {
            self.all.join(upto);
            self.taken += 1;
        }
        let both =
            self.all.0.iter().map(|(&site, &clock)| (site, clock.min(self.reached.get(site))));
        let mut both = VersionVector(both.collect());
        for Rise { site, before, .. } in self.rises.iter().rev().take_while(|r| r.index > index) {
            let clock = both.get(*site).min(*before);
            both.0.insert(*site, clock);
        }
        both
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
        let batches = vec![(2, &one), (4, &two)];
        let mut contained =
            Contained::new((vector(&[(1, 1), (3, 9)]), &[]), batches, vector(&[(1, 6), (3, 8)]));
        assert_eq!(contained.at(1), vector(&[(1, 1), (3, 8)]));
        assert_eq!(contained.at(4), vector(&[(1, 5), (2, 0), (3, 8)]));
        contained.reach(&two);
        assert_eq!(contained.at(4), vector(&[(1, 5), (2, 7), (3, 8)]));
        assert_eq!(contained.at(3), vector(&[(1, 5), (3, 8)]));
    }

    #[test]
    fn before_the_list_it_had_less_as_far_as_that_is_remembered() {
        let rise = |index, site, before| Rise { index, site: Id([site; 16]), before: Hlc(before) };
        let rises = [rise(2, 1, 0), rise(3, 2, 4), rise(5, 1, 6)];
        let (start, upto) = (vector(&[(1, 9), (2, 5), (3, 1)]), vector(&[(1, 12)]));
        let here = vector(&[(1, 12), (2, 5), (3, 1)]);
        let mut contained = Contained::new((start, &rises), vec![(7, &upto)], here);
        assert_eq!(contained.at(7), vector(&[(1, 12), (2, 5), (3, 1)]));
        assert_eq!(contained.at(5), vector(&[(1, 9), (2, 5), (3, 1)]));
        assert_eq!(contained.at(4), vector(&[(1, 6), (2, 5), (3, 1)]));
        assert_eq!(contained.at(1), vector(&[(1, 0), (2, 4), (3, 1)]));
    }
}
