//! Lines: in which states a site has shown itself.
//!
//! A site seals every fold with a clock that nobody could foresee, and only sealed clocks leave it. So
//! an entry of a version vector says more than how far: a file that cannot show that very clock
//! among its own has not come that way. A file that was restored from a backup and written to goes
//! another way than the one that others have seen: the line *forks*, and each branch gets a site id of
//! its own, the same one everywhere.

use crate::clock::{Hlc, Stamp};
use crate::ids::{Id, SiteId};

/// A sealed clock of a site.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    /// The clock. No two points of lines with one root have the same.
    pub clock: Hlc,
    /// So many numbers of births the site had given.
    pub births: u64,
}

/// A piece of a line: points one after another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The site as which the first file of the line began. The name under which a line is
    /// known is another, if it is a branch.
    pub root: SiteId,
    /// Clock of the point before these; [`Hlc::ZERO`] at the beginning of the root.
    pub before: Hlc,
    /// The points, in ascending order of both numbers.
    pub points: Vec<Point>,
}

/// The site id of a branch, of which `first` is the first point of its own.
///
/// It begins as that of the root does. So it stands where the root stood in the order of all sites,
/// which decides between writes of one clock, and nothing is decided otherwise for its new name.
pub fn branch(root: SiteId, first: Hlc) -> SiteId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"synqlite branch").update(&root.0).update(&first.0.to_be_bytes());
    let mut own = [0; 8];
    hasher.finalize_xof().fill(&mut own);
    let Id(mut id) = root;
    id.iter_mut().skip(8).zip(own).for_each(|(to, from)| *to = from);
    Id(id)
}

/// What the ids of a line's branches have in common with that of its root.
pub fn family(site: SiteId) -> SiteId {
    let Id(mut id) = site;
    id.iter_mut().skip(8).for_each(|byte| *byte = 0);
    Id(id)
}

/// The id of a *witness*: a site that is made up for values of which nobody can tell whether somebody wrote
/// them, as what a rebuild of a table left in it. Whoever meets it can tell that it is one.
pub fn witness(seed: [u8; 8]) -> SiteId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"synqlite witness").update(&seed);
    let mut own = [0; 8];
    hasher.finalize_xof().fill(&mut own);
    let mut id = [0; 16];
    id.iter_mut().zip(seed.into_iter().chain(own)).for_each(|(to, from)| *to = from);
    Id(id)
}

/// A witness stamps a value by at most so many ticks later than what it showed before: by the more, the likelier it
/// is that somebody wrote it.
pub const WITNESS_TICKS: i64 = 2;

/// The stamp of a write; of what a witness says one of when nothing had been written since, as far as is certain.
pub fn certain(stamp: Stamp) -> Stamp {
    match is_witness(stamp.site) {
        true => Stamp { hlc: Hlc(stamp.hlc.0 - WITNESS_TICKS), ..stamp },
        false => stamp,
    }
}

/// Whether no file ever had this site id.
pub fn is_witness(site: SiteId) -> bool {
    let Id([a, b, c, d, e, f, g, h, ..]) = site;
    witness([a, b, c, d, e, f, g, h]) == site
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn witnesses_are_known_as_such() {
        let one = witness([1; 8]);
        assert!(is_witness(one) && is_witness(witness([2; 8])) && one != witness([2; 8]));
        assert!(!is_witness(Id([1; 16])) && !is_witness(branch(one, Hlc(1))));
    }

    #[test]
    fn branches_stand_where_their_root_does() {
        let (below, root, above) = (Id([6; 16]), Id([7; 16]), Id([8; 16]));
        let (one, two) = (branch(root, Hlc(1)), branch(root, Hlc(2)));
        assert!(one != two && one != root && two != root);
        assert!([one, two].iter().all(|id| below < *id && *id < above));
        assert_eq!(one, branch(root, Hlc(1)));
    }
}
