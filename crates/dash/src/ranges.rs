//! Sets of byte ranges: which parts of a file a transaction wrote.
//!
//! Ranges are sorted, disjoint and never touch each other. Bytes and not pages, because VACUUM can
//! change the size of pages in the middle of a transaction.

/// A set of byte offsets, as sorted half-open ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// The range from `start` up to but without `end`.
    pub(crate) fn one(start: u64, end: u64) -> Self {
        let mut ranges = Ranges::default();
        ranges.add(start, end);
        ranges
    }

    /// Adds the offsets from `start` up to but without `end`.
    pub(crate) fn add(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let first = self.0.partition_point(|&(_, e)| e < start);
        let last = self.0.partition_point(|&(s, _)| s <= end);
        let mut joined = (start, end);
        if first < last {
            joined = (start.min(self.0[first].0), end.max(self.0[last - 1].1));
        }
        self.0.splice(first..last, [joined]);
    }

    /// Everything that is in either set.
    pub(crate) fn union(&self, other: &Ranges) -> Ranges {
        let mut out = self.clone();
        for (start, end) in other.iter() {
            out.add(start, end);
        }
        out
    }

    /// What lies before `end`.
    pub(crate) fn clipped(&self, end: u64) -> Ranges {
        let kept = self.iter().filter(|r| r.0 < end);
        Ranges(kept.map(|(s, e)| (s, e.min(end))).collect())
    }

    /// A superset of at most `most` ranges: the smallest gaps are filled.
    pub(crate) fn at_most(&self, most: usize) -> Ranges {
        if self.0.len() <= most.max(1) {
            return self.clone();
        }
        let mut gaps: Vec<(u64, usize)> =
            self.0.windows(2).enumerate().map(|(at, w)| (w[1].0 - w[0].1, at)).collect();
        gaps.sort_unstable();
        gaps.truncate(self.0.len() - most.max(1));
        let mut filled = vec![false; self.0.len()];
        for (_, at) in gaps {
            filled[at] = true;
        }
        let mut out: Vec<(u64, u64)> = Vec::with_capacity(most);
        let mut joins = false;
        for (at, &(start, end)) in self.0.iter().enumerate() {
            match out.last_mut() {
                Some(last) if joins => last.1 = end,
                _ => out.push((start, end)),
            }
            joins = filled[at];
        }
        Ranges(out)
    }

    /// The part of `start..end` at its beginning that is either all inside or all outside of the
    /// set: its length, and whether it is inside.
    pub(crate) fn run(&self, start: u64, end: u64) -> (u64, bool) {
        let at = self.0.partition_point(|&(_, e)| e <= start);
        match self.0.get(at) {
            Some(&(s, e)) if s <= start => (e.min(end) - start, true),
            Some(&(s, _)) => (s.min(end) - start, false),
            None => (end - start, false),
        }
    }

    /// The ranges in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// How many ranges there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(ranges: &Ranges) -> Vec<bool> {
        let mut bits = vec![false; 300];
        for (start, end) in ranges.iter() {
            (start..end).for_each(|at| bits[at as usize] = true);
        }
        bits
    }

    proptest! {
        #[test]
        fn is_a_set_of_offsets(parts in prop::collection::vec((0u64..250, 0u64..40), 0..30),
                               most in 1usize..6, end in 0u64..300) {
            let mut ranges = Ranges::default();
            let mut model = vec![false; 300];
            for (start, len) in parts {
                ranges.add(start, start + len);
                (start..start + len).for_each(|at| model[at as usize] = true);
            }
            prop_assert_eq!(bits(&ranges), model.clone());
            prop_assert!(ranges.0.windows(2).all(|w| w[0].1 < w[1].0));
            let few = ranges.at_most(most);
            prop_assert!(few.len() <= most);
            prop_assert!(bits(&few).iter().zip(&model).all(|(few, model)| *few || !model));
            let clipped = bits(&ranges.clipped(end));
            for (at, model) in model.iter().enumerate() {
                prop_assert_eq!(clipped[at], *model && (at as u64) < end);
            }
            let mut at = 0;
            while at < 300 {
                let (len, inside) = ranges.run(at, 300);
                prop_assert!(len > 0);
                prop_assert!((at..at + len).all(|i| model[i as usize] == inside));
                at += len;
            }
        }
    }
}
