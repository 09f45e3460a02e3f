//! What is told of two writes of which one gave way, and what names such a pair (R-TOLD).
//!
//! Invariant: whoever finds a pair out gives it the same id, before it is known that a line forks and
//! after. So of an id that holds sites each can be exchanged for another without the rest being known
//! ([`rename`]), and a row is said by the line that its birth is on, not by the branch.

use crate::clock::Stamp;
use crate::ids::{Rid, SiteId};
use crate::key::{KeyPart, encode};
use crate::line;

/// What became of two writes of one thing, neither of whose writers had seen the other: one gave way
/// (R-TOLD). Nothing is decided by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// [`id`] of the two writes.
    pub id: [u8; 16],
    /// Canonical name of the table.
    pub table: String,
    /// The row, for people.
    pub row: String,
    /// What kind of writes they were, as in the log of closed records.
    pub kind: String,
    /// Columns, values and sites, for people.
    pub what: String,
    /// The write that gave way.
    pub lost: Stamp,
    /// The one that stayed.
    pub kept: Stamp,
}

/// The id of a pair of writes of these columns of a row.
pub fn id(table: &str, rid: &Rid, columns: &str, lost: Stamp, kept: Stamp) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"synqlite told");
    for part in [table, columns] {
        hasher.update(&(part.len() as u64).to_be_bytes()).update(part.as_bytes());
    }
    for stamp in [lost, kept] {
        hasher.update(&stamp.hlc.0.to_be_bytes());
    }
    let mut rid = rid.clone();
    rid.rename(&mut |site, _| *site = line::family(*site));
    hasher.update(&encode(&[KeyPart::Row(rid)]));
    let mut id = first(&hasher);
    add(&mut id, b"lost", lost.site);
    add(&mut id, b"kept", kept.site);
    id
}

/// Gives the sites of both writes other names, also in the id of the pair.
pub fn rename(id: &mut [u8; 16], lost: &mut Stamp, kept: &mut Stamp, rename: impl Fn(&mut Stamp)) {
    for (role, stamp) in [(b"lost", lost), (b"kept", kept)] {
        add(id, role, stamp.site);
        rename(stamp);
        add(id, role, stamp.site);
    }
}

/// Adds a site to an id, or takes it away again.
fn add(id: &mut [u8; 16], role: &[u8; 4], site: SiteId) {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"synqlite told ").update(role).update(&site.0);
    id.iter_mut().zip(first(&hasher)).for_each(|(byte, other)| *byte ^= other);
}

fn first(hasher: &blake3::Hasher) -> [u8; 16] {
    let mut bytes = [0; 16];
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Hlc;
    use crate::ids::Id;

    #[test]
    fn a_pair_has_one_id_whenever_the_fork_of_a_line_is_known() {
        let (root, other) = (Id([7; 16]), Id([9; 16]));
        let branch = line::branch(root, Hlc(4));
        let stamp = |site| Stamp { hlc: Hlc(5), site };
        let pair = |site, lost, kept| {
            let rid =
                Rid::Key { key: encode(&[KeyPart::Row(Rid::Birth { site, n: 3 })]), generation: 0 };
            id("t", &rid, "c", stamp(lost), stamp(kept))
        };
        let later = |stamp: &mut Stamp| {
            if stamp.site == root {
                stamp.site = branch;
            }
        };
        for (lost, kept) in [(root, other), (other, root)] {
            let (mut id, mut a, mut b) = (pair(root, lost, kept), stamp(lost), stamp(kept));
            let before = id;
            rename(&mut id, &mut a, &mut b, later);
            assert_ne!(id, before);
            assert_eq!(id, pair(branch, a.site, b.site));
            assert_ne!(id, pair(branch, b.site, a.site));
        }
    }
}
