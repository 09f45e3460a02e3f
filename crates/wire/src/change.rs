//! The replicated state of one row and its join (R-JOIN, R-EXIST).
//!
//! Every field only moves up in its order, so joining is commutative, associative and idempotent:
//! sites that have seen the same changes hold the same state, whatever the order of arrival.

use crate::clock::{Stamp, VersionVector};
use crate::counter::Count;
use crate::ids::{Rid, SiteId};
use crate::line::Line;
use crate::told::Told;
use crate::value::Value;
use std::collections::BTreeMap;

/// Existence of a row: causal length and the times that decide it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Causal length: odd while inserted, even once deleted.
    pub cl: u64,
    /// Stamp of the write that set `cl`, or of the CASCADE that has deleted the row since and left it
    /// odd; says who still lacks it.
    pub cl_stamp: Stamp,
    /// Latest insert; under policy `T.delete=last` also the latest update.
    pub inserted: Stamp,
    /// Latest delete of the row itself.
    pub deleted: Stamp,
    /// Latest insert of a row that had existed before.
    pub reinserted: Stamp,
    /// Latest yielding: claims of the row count from here (R-COMP).
    pub yielded: Stamp,
}

impl Header {
    /// A row that nobody has inserted yet.
    pub const NONE: Header = Header {
        cl: 0,
        cl_stamp: Stamp::ZERO,
        inserted: Stamp::ZERO,
        deleted: Stamp::ZERO,
        reinserted: Stamp::ZERO,
        yielded: Stamp::ZERO,
    };

    /// A row inserted once and never deleted.
    pub fn born(stamp: Stamp) -> Header {
        Header { cl: 1, cl_stamp: stamp, inserted: stamp, ..Header::NONE }
    }

    /// R-EXIST: inserted, or inserted later than every delete.
    pub fn alive(&self) -> bool {
        self.cl % 2 == 1 || self.inserted > self.deleted
    }

    /// Records an insert: the next odd causal length.
    pub fn insert(&mut self, stamp: Stamp) {
        if self.cl > 0 {
            self.reinserted = self.reinserted.max(stamp);
        }
        self.cl += if self.cl.is_multiple_of(2) { 1 } else { 2 };
        self.cl_stamp = stamp;
        self.inserted = self.inserted.max(stamp);
    }

    /// Records that a deleted row lives on as the row that it was: no insert, so references to it are
    /// to its present life.
    pub fn revive(&mut self, stamp: Stamp) {
        if !self.alive() {
            self.cl += 1;
            self.cl_stamp = stamp;
        }
    }

    /// Records a delete: the next even causal length.
    pub fn delete(&mut self, stamp: Stamp) {
        self.cl += if self.cl.is_multiple_of(2) { 2 } else { 1 };
        self.cl_stamp = stamp;
        self.deleted = self.deleted.max(stamp);
    }

    /// Records an update that a delete before it must not undo (policy `T.delete=last`).
    pub fn outlive(&mut self, stamp: Stamp) {
        self.inserted = self.inserted.max(stamp);
    }

    /// Records that CASCADE deleted the row with its parent. The row stays alive: that its parent
    /// is gone is what hides it, so it comes back with its parent (R-FK-ACTION). So `deleted` may not
    /// rise past an insert by which the row is alive, here or where its key was deleted before.
    pub fn cascade(&mut self, stamp: Stamp) {
        self.cl_stamp = self.cl_stamp.max(stamp);
        if self.inserted <= self.deleted {
            self.deleted = self.deleted.max(stamp);
        }
    }

    /// Whether CASCADE has deleted the row in its present life. A later delete of a former life says nothing of
    /// this one, though it may be later than all writes of it.
    pub fn fell(&self) -> bool {
        let by_count = self.cl % 2 == 1 && self.cl_stamp == self.deleted;
        self.cl_stamp > self.inserted && (self.inserted > self.deleted || by_count)
    }

    /// Latest delete, of the row itself or by CASCADE: whoever did it had seen the row as it was then.
    pub fn left(&self) -> Stamp {
        if self.fell() { self.cl_stamp } else { self.deleted }
    }

    /// The delete for which a row is gone that lived as `before` says, before more was known of it. Whoever
    /// knows that life has not seen it, though he may have seen one that is later.
    pub fn gone_by(&self, before: &Header) -> Stamp {
        if before.cl % 2 == 1 { self.cl_stamp } else { self.deleted }
    }

    /// Least upper bound of two headers.
    pub fn join(&self, other: &Header) -> Header {
        let (cl, cl_stamp) = (self.cl, self.cl_stamp).max((other.cl, other.cl_stamp));
        Header {
            cl,
            cl_stamp,
            inserted: self.inserted.max(other.inserted),
            deleted: self.deleted.max(other.deleted),
            reinserted: self.reinserted.max(other.reinserted),
            yielded: self.yielded.max(other.yielded),
        }
    }

    /// Whether `vector` contains every write that this header shows.
    pub fn covered_by(&self, vector: &VersionVector) -> bool {
        [self.cl_stamp, self.inserted, self.deleted, self.reinserted, self.yielded]
            .iter()
            .all(|&stamp| vector.covers(stamp))
    }
}

/// What a group of columns holds: values, and the rows that its foreign keys refer to (R-REF).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cell {
    /// One value for each column of the group.
    pub values: Vec<Value>,
    /// One entry for each foreign key of the group; `None` where it refers to no row.
    pub refs: Vec<Option<Rid>>,
}

/// Last-writer-wins register of one group of columns (R-GROUP, R-LWW).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Register {
    /// Position of the group in [`TableShape::groups`].
    pub group: u32,
    /// When and where it was written.
    pub stamp: Stamp,
    /// What was written.
    pub cell: Cell,
    /// What was shown just before, for groups that a UNIQUE index or a reference needs it of.
    pub previous: Option<Cell>,
    /// A renumbering made permanent (R-PIN), not a change of key by a user.
    pub pinned: bool,
    /// Of a counter, what sites added to it: ascending by site, one of each (R-COUNTER). The group
    /// is then one column without a foreign key.
    pub counts: Vec<Count>,
}

/// What one site tells another about one row: its whole header and the registers it may lack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RowChange {
    /// Position of the table in [`Delta::tables`].
    pub table: u32,
    /// The row.
    pub rid: Rid,
    /// Its existence.
    pub header: Header,
    /// Registers in ascending order of group; never two of one group.
    pub registers: Vec<Register>,
}

/// Columns of one group and the foreign keys among them, by their canonical names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupShape {
    /// Column names, in table order.
    pub columns: Vec<String>,
    /// Names of the foreign keys whose columns lie in this group, in the order of [`Cell::refs`].
    pub refs: Vec<String>,
}

/// The table as the sender sees it, so that positions in a delta have a meaning elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableShape {
    /// Canonical table name.
    pub name: String,
    /// All groups of the table.
    pub groups: Vec<GroupShape>,
}

/// A replicated setting and when it was set (policies, later aliases of renamed columns).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Name of the setting, as in `synqlite policy DB KEY=VALUE`.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Last writer wins.
    pub stamp: Stamp,
}

/// All that a site which has seen `base` needs in order to have seen `upto`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Delta {
    /// What the receiver must already contain.
    pub base: VersionVector,
    /// What it contains afterwards.
    pub upto: VersionVector,
    /// By which points sites came from `base` to `upto`.
    pub lines: BTreeMap<SiteId, Line>,
    /// What the sender had seen of the other sites that `rows` or `settings` name.
    pub tips: VersionVector,
    /// The tables that `rows` names.
    pub tables: Vec<TableShape>,
    /// Changed rows.
    pub rows: Vec<RowChange>,
    /// Changed settings.
    pub settings: Vec<Setting>,
    /// What gave way among writes of which `base` lacks one.
    pub told: Vec<Told>,
}

impl Delta {
    /// Whether a receiver that has seen `base` would learn nothing.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.settings.is_empty() && self.base.dominates(&self.upto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies::header;
    use proptest::prelude::*;

    /// What must never go down, field by field.
    fn at_least(above: &Header, below: &Header) -> bool {
        (above.cl, above.cl_stamp) >= (below.cl, below.cl_stamp)
            && above.inserted >= below.inserted
            && above.deleted >= below.deleted
            && above.reinserted >= below.reinserted
            && above.yielded >= below.yielded
    }

    fn at(clock: i64) -> Stamp {
        Stamp { hlc: crate::clock::Hlc(clock), site: crate::ids::Id([1; 16]) }
    }

    #[test]
    fn what_cascade_did_counts_against_no_insert() {
        let mut fallen = Header::born(at(5));
        fallen.cascade(at(9));
        assert!(fallen.alive() && fallen.left() == at(9));
        let deleted = |before: i64| {
            let mut header = Header::born(at(1));
            header.delete(at(before));
            header
        };
        assert!(fallen.join(&deleted(3)).alive());
        assert!(!fallen.join(&deleted(7)).alive());
        let mut outlived = Header::born(at(5)).join(&deleted(3));
        assert!(outlived.left() == at(3));
        outlived.cascade(at(9));
        assert!(outlived.alive() && outlived.left() == at(9));
        // A row that was inserted again, while somebody deleted its former life.
        let mut again = deleted(3);
        again.insert(at(5));
        let mut again = again.join(&deleted(7));
        assert!(again.alive() && !again.fell());
        again.cascade(at(9));
        assert!(again.alive() && again.fell() && again.left() == at(9));
    }

    proptest! {
        #[test]
        fn headers_form_a_semilattice(a in header(), b in header(), c in header()) {
            prop_assert_eq!(a.join(&b), b.join(&a));
            prop_assert_eq!(a.join(&b).join(&c), a.join(&b.join(&c)));
            prop_assert_eq!(a.join(&a), a);
            prop_assert_eq!(a.join(&Header::NONE), a);
        }

        #[test]
        fn joins_are_least_upper_bounds(a in header(), b in header(), c in header()) {
            let join = a.join(&b);
            prop_assert!(at_least(&join, &a) && at_least(&join, &b));
            let above = join.join(&c);
            prop_assert_eq!(above.join(&a).join(&b), above);
        }

        #[test]
        fn writes_only_move_up(mut header in header(), stamp in crate::strategies::stamp()) {
            let before = header;
            header.insert(stamp);
            prop_assert!(at_least(&header, &before) && header.cl % 2 == 1);
            let before = header;
            header.cascade(stamp);
            header.outlive(stamp);
            prop_assert!(at_least(&header, &before) && header.cl % 2 == 1);
            let before = header;
            header.delete(stamp);
            prop_assert!(at_least(&header, &before) && header.cl % 2 == 0);
        }
    }
}
