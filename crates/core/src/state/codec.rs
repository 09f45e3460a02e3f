//! Bytes of a stored row state and of a row identity, local to one file: sites are numbers.

use super::stash::Piece;
use super::{Body, GroupState, RowState};
use crate::catalog::Tracked;
use crate::meta::Meta;
use crate::{Error, Result};
use synqlite_wire::{Cell, Count, Header, Hlc, Number, Rid, SiteId, Stamp, Value};

const PLAIN: u8 = 1;
const BORN: u8 = 2;

const PINNED: u8 = 1;
const PREVIOUS: u8 = 2;
const KEPT: u8 = 4;
const OWN_STAMP: u8 = 8;
const COUNTS: u8 = 16;
/// Nothing but the count of the insert follows, less all that is always the same.
const BORN_COUNT: u8 = 32;
const COLUMN_STAMPS: u8 = 64;

/// Kinds of identities. A birth has a kind for each number of bytes that its number takes, the highest first: so rows
/// that were born one after another lie together in an index.
const NOBODY: u8 = 0;
/// A birth as format 2 wrote it. In states of then it still is.
const LOWEST_FIRST: u8 = 1;
const KEY: u8 = 2;
const BIRTH: u8 = 16;
const LONGEST_BIRTH: u8 = BIRTH + 8;

/// A state as it is stored: whatever it does not say of the groups of its table is that nobody has written them since
/// the row was born.
pub struct Parts {
    pub header: Header,
    pub born: Stamp,
    pub groups: Vec<(u32, GroupState)>,
}

/// Writes states and identities.
pub struct Writer<'a> {
    /// The number of a site.
    number: &'a mut dyn FnMut(SiteId) -> Result<u32>,
    out: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// A writer that gets the numbers of sites from `number`.
    pub fn new(number: &'a mut dyn FnMut(SiteId) -> Result<u32>) -> Writer<'a> {
        Writer { number, out: Vec::new() }
    }

    /// The bytes of a row identity.
    pub fn rid(mut self, rid: &Rid) -> Result<Vec<u8>> {
        self.put_rid(Some(rid))?;
        Ok(self.out)
    }

    /// The bytes of a row state.
    pub fn state(mut self, t: &Tracked, state: &RowState) -> Result<Vec<u8>> {
        let born = state.born_at();
        self.put_head(&state.header, born)?;
        let usual = GroupState::shown(born);
        let groups = state.groups.iter().enumerate().filter(|(_, group)| **group != usual);
        let special: Vec<_> = groups.map(|(g, group)| (t.group_no(g), group)).collect();
        self.put_groups(&special, state.header.inserted, born)?;
        Ok(self.out)
    }

    /// The bytes of a state that was read as these parts, with another header.
    pub fn with_header(mut self, parts: &Parts, header: &Header) -> Result<Vec<u8>> {
        self.put_head(header, parts.born)?;
        let groups: Vec<_> = parts.groups.iter().map(|(no, group)| (*no, group)).collect();
        self.put_groups(&groups, header.inserted, parts.born)?;
        Ok(self.out)
    }

    fn put_head(&mut self, h: &Header, born: Stamp) -> Result<()> {
        let plain = *h == Header::born(h.inserted);
        let flags = if plain { PLAIN } else { 0 } | if born == h.inserted { 0 } else { BORN };
        self.out.push(flags);
        self.put_stamp(h.inserted)?;
        if born != h.inserted {
            self.put_stamp(born)?;
        }
        if !plain {
            self.put(h.cl);
            for stamp in [h.cl_stamp, h.deleted, h.reinserted, h.yielded] {
                self.put_stamp(stamp)?;
            }
        }
        Ok(())
    }

    fn put_groups(
        &mut self,
        groups: &[(u32, &GroupState)],
        inserted: Stamp,
        born: Stamp,
    ) -> Result<()> {
        self.put(groups.len() as u64);
        for (no, group) in groups {
            self.put(u64::from(*no));
            if let [count] = &group.counts[..]
                && **group == born_count(inserted, count.sum.clone())
            {
                self.out.push(BORN_COUNT);
                self.put_number(&count.sum);
                continue;
            }
            let mut flags = 0;
            flags |= if group.pinned { PINNED } else { 0 };
            flags |= if group.previous.is_some() { PREVIOUS } else { 0 };
            flags |= if matches!(group.body, Body::Stored(_)) { KEPT } else { 0 };
            flags |= match (group.column_stamps.is_empty(), group.stamp == born) {
                (false, _) => COLUMN_STAMPS,
                (true, true) => 0,
                (true, false) => OWN_STAMP,
            };
            flags |= if group.counts.is_empty() { 0 } else { COUNTS };
            self.out.push(flags);
            if flags & OWN_STAMP != 0 {
                self.put_stamp(group.stamp)?;
            }
            if flags & COLUMN_STAMPS != 0 {
                self.put(group.column_stamps.len() as u64);
                group.column_stamps.iter().try_for_each(|&stamp| self.put_stamp(stamp))?;
            }
            if let Some(cell) = &group.previous {
                self.put_cell(cell)?;
            }
            if let Body::Stored(cell) = &group.body {
                self.put_cell(cell)?;
            }
            if flags & COUNTS != 0 {
                self.put_counts(&group.counts)?;
            }
        }
        Ok(())
    }

    fn put_counts(&mut self, counts: &[Count]) -> Result<()> {
        self.put(counts.len() as u64);
        for count in counts {
            self.put_stamp(count.stamp)?;
            self.put(count.epoch);
            self.put_number(&count.sum);
        }
        Ok(())
    }

    /// The bytes of a register whose columns the table does not have.
    pub fn piece(mut self, piece: &Piece) -> Result<Vec<u8>> {
        self.put(piece.columns.len() as u64);
        piece.columns.iter().for_each(|&no| self.put(u64::from(no)));
        self.put(piece.keys.len() as u64);
        piece.keys.iter().for_each(|key| self.put_bytes(key.as_bytes()));
        let flags = if piece.pinned { PINNED } else { 0 };
        self.out.push(flags | if piece.previous.is_some() { PREVIOUS } else { 0 });
        self.put_stamp(piece.stamp)?;
        if let Some(cell) = &piece.previous {
            self.put_cell(cell)?;
        }
        self.put_cell(&piece.cell)?;
        self.put_counts(&piece.counts)?;
        Ok(self.out)
    }

    fn put_number(&mut self, number: &Number) {
        let (shift, digits) = number.parts();
        self.put(((shift << 1) ^ (shift >> 63)) as u64);
        self.put_bytes(digits);
    }

    fn put(&mut self, n: u64) {
        put(&mut self.out, n);
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put(bytes.len() as u64);
        self.out.extend(bytes);
    }

    fn put_stamp(&mut self, stamp: Stamp) -> Result<()> {
        if stamp.is_zero() {
            self.put(0);
            return Ok(());
        }
        let no = (self.number)(stamp.site)?;
        self.put(u64::from(no) + 1);
        self.put(stamp.hlc.0 as u64);
        Ok(())
    }

    fn put_cell(&mut self, cell: &Cell) -> Result<()> {
        self.put(cell.values.len() as u64);
        for value in &cell.values {
            match value {
                Value::Null => self.out.push(0),
                Value::Integer(i) => {
                    self.out.push(1);
                    self.out.extend(i.to_be_bytes());
                }
                Value::Real(r) => {
                    self.out.push(2);
                    self.out.extend(r.to_bits().to_be_bytes());
                }
                Value::Text(t) => {
                    self.out.push(3);
                    self.put_bytes(t);
                }
                Value::Blob(b) => {
                    self.out.push(4);
                    self.put_bytes(b);
                }
            }
        }
        self.put(cell.refs.len() as u64);
        cell.refs.iter().try_for_each(|rid| self.put_rid(rid.as_ref()))
    }

    fn put_rid(&mut self, rid: Option<&Rid>) -> Result<()> {
        match rid {
            None => self.out.push(NOBODY),
            Some(Rid::Birth { site, n }) => {
                let no = (self.number)(*site)?;
                put_birth(&mut self.out, no, *n);
            }
            Some(Rid::Key { key, generation }) => {
                self.out.push(KEY);
                self.put(u64::from(*generation));
                self.put_bytes(key);
            }
        }
        Ok(())
    }
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn put_birth(out: &mut Vec<u8>, site: u32, n: u64) {
    let bytes = n.to_be_bytes();
    let bytes = &bytes[n.leading_zeros() as usize / 8..];
    out.push(BIRTH + bytes.len() as u8);
    put(out, site.into());
    out.extend(bytes);
}

/// An identity as this program writes it, of one as format 2 wrote it. `None` if that is the same.
pub fn of_format_2(bytes: &[u8]) -> Option<Vec<u8>> {
    let (&LOWEST_FIRST, rest) = bytes.split_first()? else { return None };
    let end = rest.iter().position(|byte| byte & 0x80 == 0)? + 1;
    let (site, n) = rest.split_at(end);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, b| n << 7 | u64::from(b & 0x7f));
    let mut out = Vec::new();
    put_birth(&mut out, u32::try_from(number(site)).ok()?, number(n));
    Some(out)
}

/// Reads what [`Writer`] wrote.
pub struct Reader<'a> {
    meta: &'a Meta,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of stored bytes.
    pub fn new(meta: &'a Meta, bytes: &'a [u8]) -> Reader<'a> {
        Reader { meta, bytes }
    }

    /// A row identity.
    pub fn rid(mut self) -> Result<Rid> {
        self.take_rid()?.ok_or_else(damaged)
    }

    /// A row state, with one entry for each group that the table has now. `visible`: whether the
    /// table has the row. `local_seq`: when it was stored; of columns that the table got later nobody
    /// has written anything.
    pub fn state(self, t: &Tracked, visible: bool, local_seq: i64) -> Result<RowState> {
        let Parts { header, born, groups: special } = self.parts()?;
        let mut groups = RowState::unchanged(t, born, local_seq).groups;
        let mut known = vec![false; groups.len()];
        for (no, group) in special {
            let Some(g) = t.group_of_no(no) else { continue };
            // What was written to a column that was dropped and came back is gone.
            let gone = group.body == Body::InTable
                && t.table.groups[g].columns.iter().all(|&c| t.since[c] >= local_seq);
            if !gone {
                groups[g] = group;
                known[g] = true;
            }
        }
        // A row that left its table before a column was added has its default there.
        for g in (0..groups.len()).filter(|&g| !visible && !known[g]) {
            groups[g].body = Body::Stored(t.default_cell(g));
        }
        Ok(RowState { header, groups })
    }

    /// What is stored of a row, whatever its table has.
    pub fn parts(mut self) -> Result<Parts> {
        let flags = self.byte()?;
        let plain = flags & PLAIN != 0;
        let inserted = self.stamp()?;
        let born = if flags & BORN != 0 { self.stamp()? } else { inserted };
        let mut header = Header::born(inserted);
        if !plain {
            header.cl = self.number()?;
            header.cl_stamp = self.stamp()?;
            header.deleted = self.stamp()?;
            header.reinserted = self.stamp()?;
            header.yielded = self.stamp()?;
        }
        let mut groups = Vec::new();
        for _ in 0..self.number()? {
            let no = u32::try_from(self.number()?).map_err(|_| damaged())?;
            groups.push((no, self.group(inserted, born)?));
        }
        Ok(Parts { header, born, groups })
    }

    fn group(&mut self, inserted: Stamp, born: Stamp) -> Result<GroupState> {
        let flags = self.byte()?;
        if flags & BORN_COUNT != 0 {
            return Ok(born_count(inserted, self.sum()?));
        }
        let stamp = if flags & OWN_STAMP != 0 { self.stamp()? } else { born };
        let column_stamps = if flags & COLUMN_STAMPS != 0 { self.number()? } else { 0 };
        let column_stamps = (0..column_stamps).map(|_| self.stamp()).collect::<Result<Vec<_>>>()?;
        let stamp = column_stamps.iter().copied().max().unwrap_or(stamp);
        let previous = if flags & PREVIOUS != 0 { Some(self.cell()?) } else { None };
        let body = if flags & KEPT != 0 { Body::Stored(self.cell()?) } else { Body::InTable };
        let counts = if flags & COUNTS != 0 { self.counts()? } else { vec![] };
        let pinned = flags & PINNED != 0;
        Ok(GroupState { stamp, column_stamps, pinned, previous, body, counts })
    }

    /// A register whose columns the table does not have.
    pub fn piece(mut self) -> Result<Piece> {
        let (mut columns, mut keys) = (Vec::new(), Vec::new());
        for _ in 0..self.number()? {
            columns.push(u32::try_from(self.number()?).map_err(|_| damaged())?);
        }
        for _ in 0..self.number()? {
            let name = String::from_utf8(self.long()?.to_vec());
            keys.push(name.map_err(|_| damaged())?);
        }
        let flags = self.byte()?;
        let stamp = self.stamp()?;
        let previous = if flags & PREVIOUS != 0 { Some(self.cell()?) } else { None };
        let (pinned, cell) = (flags & PINNED != 0, self.cell()?);
        let counts = self.counts()?;
        Ok(Piece { columns, keys, stamp, pinned, cell, previous, counts })
    }

    fn counts(&mut self) -> Result<Vec<Count>> {
        let n = self.number()?;
        let count = |_| Ok(Count { stamp: self.stamp()?, epoch: self.number()?, sum: self.sum()? });
        (0..n).map(count).collect()
    }

    fn sum(&mut self) -> Result<Number> {
        let shift = self.number()?;
        let shift = (shift >> 1) as i64 ^ -((shift & 1) as i64);
        Number::from_parts(shift, self.long()?).ok_or_else(damaged)
    }

    fn byte(&mut self) -> Result<u8> {
        let (&byte, rest) = self.bytes.split_first().ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(damaged())
    }

    fn chunk(&mut self, len: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.bytes.split_at_checked(len).ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(head)
    }

    fn long(&mut self) -> Result<&'a [u8]> {
        let len = usize::try_from(self.number()?).map_err(|_| damaged())?;
        self.chunk(len)
    }

    fn eight(&mut self) -> Result<[u8; 8]> {
        self.chunk(8)?.try_into().map_err(|_| damaged())
    }

    fn stamp(&mut self) -> Result<Stamp> {
        match self.number()? {
            0 => Ok(Stamp::ZERO),
            no => {
                let no = u32::try_from(no - 1).map_err(|_| damaged())?;
                let site = self.meta.site_of(no)?;
                Ok(Stamp { hlc: Hlc(self.number()? as i64), site })
            }
        }
    }

    fn cell(&mut self) -> Result<Cell> {
        let mut cell = Cell { values: vec![], refs: vec![] };
        for _ in 0..self.number()? {
            cell.values.push(match self.byte()? {
                0 => Value::Null,
                1 => Value::Integer(i64::from_be_bytes(self.eight()?)),
                2 => Value::Real(f64::from_bits(u64::from_be_bytes(self.eight()?))),
                3 => Value::Text(self.long()?.to_vec()),
                4 => Value::Blob(self.long()?.to_vec()),
                _ => return Err(damaged()),
            });
        }
        for _ in 0..self.number()? {
            cell.refs.push(self.take_rid()?);
        }
        Ok(cell)
    }

    fn take_rid(&mut self) -> Result<Option<Rid>> {
        Ok(match self.byte()? {
            NOBODY => None,
            LOWEST_FIRST => {
                let no = u32::try_from(self.number()?).map_err(|_| damaged())?;
                Some(Rid::Birth { site: self.meta.site_of(no)?, n: self.number()? })
            }
            kind @ BIRTH..=LONGEST_BIRTH => {
                let no = u32::try_from(self.number()?).map_err(|_| damaged())?;
                let bytes = self.chunk(usize::from(kind - BIRTH))?;
                let n = bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
                Some(Rid::Birth { site: self.meta.site_of(no)?, n })
            }
            KEY => {
                let generation = u32::try_from(self.number()?).map_err(|_| damaged())?;
                Some(Rid::Key { key: self.long()?.to_vec(), generation })
            }
            _ => return Err(damaged()),
        })
    }
}

/// The register of a counter in a row that was inserted with it and not changed since.
fn born_count(inserted: Stamp, sum: Number) -> GroupState {
    let base = Cell { values: vec![Value::Null], refs: vec![] };
    let counts = vec![Count { stamp: inserted, epoch: 0, sum }];
    GroupState { body: Body::Stored(base), counts, ..GroupState::shown(Stamp::ZERO) }
}

fn damaged() -> Error {
    Error::Damaged("a stored row state cannot be read".into())
}
