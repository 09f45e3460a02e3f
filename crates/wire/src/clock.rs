//! Hybrid logical clock and version vectors.
//!
//! A stamp orders writes: later physical time first, causality always (R-HLC). A site's stamps only
//! grow from fold to fold, so "everything of site `s` up to clock `h`" is a valid prefix, and a
//! [`VersionVector`] needs no counter beside the clock.

use crate::ids::SiteId;
use std::collections::BTreeMap;

/// Hybrid logical clock: milliseconds since 1970 in the upper 48 bits, a counter in the lower 16.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Hlc(pub i64);

impl Hlc {
    /// Before every write.
    pub const ZERO: Hlc = Hlc(0);

    /// The first clock value of a millisecond. Times before 1970 or past the year 4000 are clamped, so that
    /// values are left for all that is stamped and sealed after them.
    pub fn at_ms(ms: i64) -> Hlc {
        Hlc(ms.clamp(0, (1 << 46) - 1) << 16)
    }

    /// Milliseconds since 1970.
    pub fn ms(self) -> i64 {
        self.0 >> 16
    }

    /// The next clock value, at least that of `ms`: `max(h + 1, ms << 16)`.
    pub fn after(self, ms: i64) -> Hlc {
        Hlc(self.0.saturating_add(1)).max(Hlc::at_ms(ms))
    }
}

/// When and where a write was made; totally ordered, ties of the clock broken by site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp {
    /// Clock of the write.
    pub hlc: Hlc,
    /// Site of the write.
    pub site: SiteId,
}

impl Stamp {
    /// Earlier than every write: the stamp of what never happened.
    pub const ZERO: Stamp = Stamp { hlc: Hlc::ZERO, site: SiteId::ZERO };

    /// Whether this is [`Stamp::ZERO`].
    pub fn is_zero(&self) -> bool {
        *self == Stamp::ZERO
    }
}

/// For each site the clock up to which all of its writes are contained, directly or superseded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionVector(pub BTreeMap<SiteId, Hlc>);

impl VersionVector {
    /// Clock up to which writes of `site` are contained.
    pub fn get(&self, site: SiteId) -> Hlc {
        self.0.get(&site).copied().unwrap_or(Hlc::ZERO)
    }

    /// Whether the write is contained. [`Stamp::ZERO`] always is.
    pub fn covers(&self, stamp: Stamp) -> bool {
        stamp.is_zero() || stamp.hlc <= self.get(stamp.site)
    }

    /// Raises one site's entry; never lowers it.
    pub fn raise(&mut self, site: SiteId, hlc: Hlc) {
        if hlc > Hlc::ZERO {
            let entry = self.0.entry(site).or_default();
            *entry = (*entry).max(hlc);
        }
    }

    /// Entry-wise maximum.
    pub fn join(&mut self, other: &VersionVector) {
        other.0.iter().for_each(|(&site, &hlc)| self.raise(site, hlc));
    }

    /// Whether everything in `other` is contained here.
    pub fn dominates(&self, other: &VersionVector) -> bool {
        other.0.iter().all(|(&site, &hlc)| hlc <= self.get(site))
    }

    /// The latest clock of any site.
    pub fn latest(&self) -> Hlc {
        self.0.values().copied().max().unwrap_or(Hlc::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;
    use crate::strategies::{stamp, vector};
    use proptest::prelude::*;

    #[test]
    fn clock_follows_time_and_never_stalls() {
        let h = Hlc::at_ms(1_000);
        assert_eq!(h.after(1_000), Hlc(h.0 + 1));
        assert_eq!(h.after(2_000), Hlc::at_ms(2_000));
        assert_eq!(h.after(-5).ms(), 1_000);
        assert_eq!(Hlc::at_ms(i64::MAX).ms(), (1 << 46) - 1);
    }

    #[test]
    fn vectors_join_and_dominate() {
        let (a, b) = (Id([1; 16]), Id([2; 16]));
        let mut left = VersionVector::default();
        left.raise(a, Hlc(5));
        let mut right = VersionVector::default();
        right.raise(b, Hlc(7));
        assert!(!left.dominates(&right));
        left.join(&right);
        assert!(left.dominates(&right));
        assert!(left.covers(Stamp { hlc: Hlc(5), site: a }));
        assert!(!left.covers(Stamp { hlc: Hlc(6), site: a }));
        assert!(VersionVector::default().covers(Stamp::ZERO));
        assert_eq!(left.latest(), Hlc(7));
    }

    fn joined(a: &VersionVector, b: &VersionVector) -> VersionVector {
        let mut join = a.clone();
        join.join(b);
        join
    }

    proptest! {
        #[test]
        fn vectors_form_a_semilattice(a in vector(), b in vector(), c in vector()) {
            prop_assert_eq!(joined(&a, &b), joined(&b, &a));
            prop_assert_eq!(joined(&joined(&a, &b), &c), joined(&a, &joined(&b, &c)));
            prop_assert_eq!(&joined(&a, &a), &a);
            prop_assert_eq!(&joined(&a, &VersionVector::default()), &a);
        }

        #[test]
        fn joins_cover_what_either_covers(a in vector(), b in vector(), stamp in stamp()) {
            let join = joined(&a, &b);
            prop_assert!(join.dominates(&a) && join.dominates(&b));
            prop_assert_eq!(join.covers(stamp), a.covers(stamp) || b.covers(stamp));
            prop_assert_eq!(a.dominates(&b), join == a);
        }
    }
}
