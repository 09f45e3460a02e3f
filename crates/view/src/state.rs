//! The replicated state of a row, and where the row is.
//!
//! The values of a visible row live in the application's table and nowhere else: a group whose register
//! is what the table shows is [`Body::InTable`].

use crate::Error;
use crate::catalog::{Catalog, Loc, Relation};
use crate::conflict::ConflictKind;
use crate::equal;
use crate::schema::Affinity;
use synqlite_wire::{Cell, Count, Header, Rid, Stamp, Value};

/// State of one row: its existence and one register for each group of its table.
#[derive(Clone, Debug, PartialEq)]
pub struct RowState {
    /// Existence.
    pub header: Header,
    /// Registers, parallel to the table's groups.
    pub groups: Vec<GroupState>,
}

/// One register.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupState {
    /// When and where it was written; the latest of its columns.
    pub stamp: Stamp,
    /// Stamps of the single columns, where a schema that does not hold them together wrote one
    /// alone (R-MIG); empty if all are `stamp`.
    pub column_stamps: Vec<Stamp>,
    /// A renumbering made permanent (R-PIN).
    pub pinned: bool,
    /// What was shown before the write, for groups that keep it.
    pub previous: Option<Cell>,
    /// Where the values are.
    pub body: Body,
    /// Of a counter that was changed, what sites added; then the body is kept, and is the base of
    /// the counter, and the table shows the sum (R-COUNTER).
    pub counts: Vec<Count>,
}

/// Where the values of a register are.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// In the application's table: the row is visible and shows this register.
    InTable,
    /// Here: the row is dead, or shows something else.
    Stored(Cell),
}

impl GroupState {
    /// A register written at `stamp` and shown.
    #[inline]
    pub fn shown(stamp: Stamp) -> GroupState {
        let (column_stamps, counts) = (vec![], vec![]);
        GroupState {
            stamp,
            column_stamps,
            pinned: false,
            previous: None,
            body: Body::InTable,
            counts,
        }
    }

    /// A cell that this register, of group `g`, keeps, as the schema says now: columns that nobody has
    /// written have its defaults.
    pub fn kept(&self, t: &Relation, g: usize, cell: &Cell) -> Cell {
        let (mut cell, group) = (cell.clone(), &t.table.groups[g]);
        if !self.counts.is_empty() {
            // A column that is a reference too, by a policy that came later, counts to no row.
            cell.refs.fill(None);
        }
        // What was counted was counted over the base that came with it.
        if !group.counter && self.counts.is_empty() {
            for (i, &c) in group.columns.iter().enumerate() {
                if let Some(value) = cell.values.get_mut(i)
                    && self.column_stamp(i).is_zero()
                {
                    *value = t.default_of(c);
                }
            }
        }
        cell
    }

    /// When the `i`th column of the group was written.
    #[inline]
    pub fn column_stamp(&self, i: usize) -> Stamp {
        self.column_stamps.get(i).copied().unwrap_or(self.stamp)
    }

    /// Whether nobody has written the `i`th column of the group. A counter may be counted over nothing.
    #[inline]
    pub fn is_unwritten(&self, i: usize) -> bool {
        self.column_stamp(i).is_zero() && self.counts.is_empty()
    }

    /// Gives each column a stamp of its own, as few as say the same.
    pub fn set_column_stamps(&mut self, stamps: Vec<Stamp>) {
        self.stamp = stamps.iter().copied().max().unwrap_or(Stamp::ZERO);
        self.column_stamps = if stamps.iter().all(|s| *s == self.stamp) { vec![] } else { stamps };
    }

    /// Stamps of all writes that it holds.
    pub fn stamps(&self) -> impl Iterator<Item = Stamp> + '_ {
        let counts = self.counts.iter().map(|count| count.stamp);
        std::iter::once(self.stamp).chain(self.column_stamps.iter().copied()).chain(counts)
    }
}

impl RowState {
    /// A row just inserted and shown.
    #[inline]
    pub fn born(t: &Relation, stamp: Stamp) -> RowState {
        let groups = vec![GroupState::shown(stamp); t.table.groups.len()];
        RowState { header: Header::born(stamp), groups }
    }

    /// A row that this file has had unchanged since `local_seq`, inserted at `stamp`: of columns that
    /// it got later nobody has written anything yet (R-MIG-ADD).
    pub fn unchanged(t: &Relation, stamp: Stamp, local_seq: i64) -> RowState {
        let mut state = RowState::born(t, stamp);
        for (group, of) in state.groups.iter_mut().zip(&t.table.groups) {
            let known = |&c: &usize| if t.since[c] < local_seq { stamp } else { Stamp::ZERO };
            if of.columns.iter().any(|&c| t.since[c] >= local_seq) {
                group.set_column_stamps(of.columns.iter().map(known).collect());
            }
        }
        state
    }

    /// The latest write of column `c`, zero if nobody wrote it.
    pub fn column_stamp(&self, t: &Relation, c: usize) -> Stamp {
        let g = t.table.columns[c].group;
        let place = t.table.groups[g].columns.iter().position(|&x| x == c);
        self.groups[g].column_stamp(place.unwrap_or(0))
    }

    /// The latest write of some columns; what nobody wrote is as old as the row.
    pub fn written(&self, t: &Relation, columns: &[usize]) -> Stamp {
        match columns.iter().map(|&c| self.column_stamp(t, c)).max() {
            Some(stamp) if !stamp.is_zero() => stamp,
            _ => self.born_at(),
        }
    }

    /// Whether a segment can stand for it: inserted once, never written since, shown as it is.
    #[inline]
    pub fn is_plain(&self) -> bool {
        let usual = GroupState::shown(self.header.inserted);
        self.header == Header::born(self.header.inserted) && self.groups.iter().all(|g| *g == usual)
    }

    /// Whether whoever deleted it with its parent had seen all there is to it: nothing of it is
    /// later (R-FK-ACTION).
    pub fn fell_with_parent(&self) -> bool {
        let stamps = self.groups.iter().map(|g| g.stamp).chain([self.header.inserted]);
        self.header.fell() && stamps.into_iter().all(|stamp| stamp <= self.header.left())
    }

    /// When the row came into its present life. An insert writes all groups; where an update counts
    /// as one (policy `T.delete=last`), those that it did not write are older.
    pub fn born_at(&self) -> Stamp {
        let Header { inserted, reinserted, .. } = self.header;
        let stamps = self.groups.iter().map(|g| g.stamp).filter(|stamp| !stamp.is_zero());
        stamps.chain([inserted]).min().map_or(inserted, |oldest| oldest.max(reinserted))
    }

    /// What the registers that are kept here say of a row: of a hidden one, what it asks to show.
    pub fn kept_row(&self, t: &Relation) -> Vec<Value> {
        let mut row = vec![Value::Null; t.table.columns.len()];
        for (group, state) in t.table.groups.iter().zip(&self.groups) {
            if let Body::Stored(cell) = &state.body {
                group.columns.iter().zip(&cell.values).for_each(|(&c, v)| row[c] = v.clone());
            }
        }
        row
    }

    /// When another row was preferred to this one, if since it asked for what it has in these columns: its claim
    /// to them counts from then (R-COMP).
    pub fn put_behind(&self, t: &Relation, columns: &[usize]) -> Option<Stamp> {
        let asked = columns.iter().map(|&c| &self.groups[t.table.columns[c].group]);
        let asked = asked.flat_map(GroupState::stamps).max().unwrap_or(Stamp::ZERO);
        Some(self.header.yielded).filter(|yielded| *yielded > asked)
    }

    /// The row that foreign key `f` of a row refers to without showing it.
    pub fn kept_reference(&self, t: &Relation, f: usize) -> Option<&Rid> {
        let (group, at) = t.table.place_of_key(f)?;
        match &self.groups.get(group)?.body {
            Body::Stored(cell) => cell.refs.get(at)?.as_ref(),
            Body::InTable => None,
        }
    }

    /// The primary key integer that the register of a rowid alias holds, if it is kept here.
    pub fn kept_id(&self, t: &Relation) -> Option<i64> {
        let alias = t.table.rowid_alias()?;
        let group = t.table.columns[alias].group;
        match &self.groups[group].body {
            Body::Stored(cell) => {
                let at = t.table.groups[group].columns.iter().position(|&c| c == alias)?;
                equal::stored(cell.values.get(at)?, Affinity::Integer).as_integer()
            }
            Body::InTable => None,
        }
    }
}

/// A row with its place in this file.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its entry, if it has one of its own.
    pub entry: Option<i64>,
    /// Its identity.
    pub rid: Rid,
    /// Where it is visible, if it is.
    pub loc: Option<Loc>,
    /// Position of this file at which its state last changed; 0 if this file did not know it.
    pub local_seq: i64,
    /// Its state.
    pub state: RowState,
}

/// A row is not where its state places it.
pub fn unnoticed(t: &Relation, loc: &Loc) -> Error {
    Error::Damaged(format!("table {}: the row at {loc:?} is gone unnoticed", t.table.name))
}

/// What a row waits for, and the conflict that keeps it from showing its registers.
pub struct Waits<'a> {
    /// Rows it refers to without showing it: (table, row).
    pub references: Vec<(u32, &'a Rid)>,
    /// Unique keys it asks for and does not have: (table, index, key).
    pub claims: Vec<(u32, &'a str, &'a [u8])>,
    /// Kind and constraint.
    pub conflict: Option<(&'a ConflictKind, &'a str)>,
    /// The row that has what it asks for.
    pub winner: Option<&'a Rid>,
}

/// References of a living row, or of one that is shown or `kept_back` by a conflict, that its table
/// does not show, and what they were before: (table, row). It may show these instead (R-FALLBACK).
/// A deleted row is kept back if others refer to it, and it to a row that is hidden (R-PROTECT). Of other
/// deleted rows, those that others follow to the rows that their keys are to.
pub fn kept_references<'s>(
    catalog: &Catalog,
    t: &Relation,
    stored: &'s Stored,
    kept_back: bool,
) -> Vec<(u32, &'s Rid)> {
    let mut kept = Vec::new();
    let gone = !stored.state.header.alive() && stored.loc.is_none() && !kept_back;
    if gone && t.followed.is_empty() {
        return kept;
    }
    for (g, group) in stored.state.groups.iter().enumerate() {
        let Body::Stored(cell) = &group.body else { continue };
        for cell in [Some(cell), group.previous.as_ref()].into_iter().flatten() {
            let keys = t.table.groups[g].foreign_keys.iter().zip(&cell.refs);
            let named = |(&f, rid): (&usize, &'s Option<Rid>)| {
                if gone && !t.followed.contains(&f) {
                    return None;
                }
                let parent = catalog.by_name(&t.table.foreign_keys[f].parent)?;
                Some((parent.no, rid.as_ref()?))
            };
            kept.extend(keys.filter_map(named));
        }
    }
    kept
}
