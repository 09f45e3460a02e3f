//! Columns: like things of many rows written one after another, so that each looks like the last.
//!
//! Every column knows its length from what was read before it, and every entry takes at least one
//! byte, so a reader's memory is bounded by its input. Clocks and birth numbers are differences from
//! the entry before, keys leave out what they share with the key before; on ascending rows all of
//! that repeats, and zstd takes it away.

use super::error::BatchError;
use super::varint::{self, Reader};
use crate::change::{Cell, GroupShape};
use crate::check::check_value;
use crate::clock::{Hlc, Stamp, VersionVector};
use crate::ids::{Id, Rid, SiteId};
use crate::value::Value;
use std::collections::BTreeMap;

/// Bits of an [`Hlc`] that count within a millisecond.
const COUNTER_BITS: u32 = 16;

const NULL: u8 = 0;
const INTEGER: u8 = 1;
const REAL: u8 = 2;
const TEXT: u8 = 3;
const BLOB: u8 = 4;

/// First varint of an identity: none, a key, or a birth at the site with that number less two.
const NO_ROW: u64 = 0;
const KEY: u64 = 1;
const BIRTH: u64 = 2;

/// The sites of a body, numbered in order of appearance.
#[derive(Default)]
pub(super) struct Sites {
    numbers: BTreeMap<SiteId, u64>,
    ids: Vec<SiteId>,
}

impl Sites {
    fn number(&mut self, site: SiteId) -> u64 {
        *self.numbers.entry(site).or_insert_with(|| {
            self.ids.push(site);
            self.ids.len() as u64 - 1
        })
    }

    /// Each with what the writer had seen of it, if `tips` say that.
    pub(super) fn put(&self, out: &mut Vec<u8>, tips: &VersionVector) {
        varint::put(out, self.ids.len() as u64);
        for site in &self.ids {
            out.extend(site.0);
            varint::put_clock(out, tips.0.get(site).copied());
        }
    }
}

/// The sites of a body that is being read.
pub(super) struct SiteList(Vec<SiteId>);

impl SiteList {
    pub(super) fn get(reader: &mut Reader<'_>) -> Result<(SiteList, VersionVector), BatchError> {
        let (mut sites, mut tips) = (Vec::new(), VersionVector::default());
        for _ in 0..reader.count()? {
            let site = Id(reader.array()?);
            tips.0.extend(reader.clock()?.map(|clock| (site, clock)));
            sites.push(site);
        }
        Ok((SiteList(sites), tips))
    }

    fn site(&self, number: u64) -> Result<SiteId, BatchError> {
        let site = usize::try_from(number).ok().and_then(|n| self.0.get(n));
        site.copied().ok_or_else(|| BatchError::malformed("a site is not in its list"))
    }
}

/// Three columns: sites, differences of milliseconds, differences of counters.
pub(super) fn put_stamps(out: &mut Vec<u8>, sites: &mut Sites, stamps: &[Stamp]) {
    stamps.iter().for_each(|stamp| varint::put(out, sites.number(stamp.site)));
    let halves: [fn(Hlc) -> i64; 2] = [Hlc::ms, |hlc| hlc.0 & ((1 << COUNTER_BITS) - 1)];
    for half in halves {
        let mut last = 0;
        for stamp in stamps {
            let this = half(stamp.hlc);
            varint::put_signed(out, this - last);
            last = this;
        }
    }
}

pub(super) fn get_stamps(
    reader: &mut Reader<'_>,
    sites: &SiteList,
    n: usize,
) -> Result<Vec<Stamp>, BatchError> {
    let mut stamps = (0..n)
        .map(|_| Ok(Stamp { hlc: Hlc::ZERO, site: sites.site(reader.varint()?)? }))
        .collect::<Result<Vec<_>, BatchError>>()?;
    for (bits, shift) in [(63 - COUNTER_BITS, COUNTER_BITS), (COUNTER_BITS, 0)] {
        let mut last = 0_i64;
        for stamp in &mut stamps {
            last = reader
                .signed()?
                .checked_add(last)
                .filter(|this| (0..1 << bits).contains(this))
                .ok_or_else(|| BatchError::malformed("a clock is out of range"))?;
            stamp.hlc.0 |= last << shift;
        }
    }
    Ok(stamps)
}

/// Kinds and sites; then of births the differences of their numbers; then of keys four columns:
/// bytes shared with the key before (255 at most), bytes that follow, generations, those bytes.
pub(super) fn put_rids<'a>(
    out: &mut Vec<u8>,
    sites: &mut Sites,
    rids: impl Iterator<Item = Option<&'a Rid>> + Clone,
) {
    let (mut births, mut keys) = (Vec::new(), Vec::new());
    for rid in rids {
        match rid {
            None => varint::put(out, NO_ROW),
            Some(Rid::Key { key, generation }) => {
                varint::put(out, KEY);
                keys.push((key.as_slice(), *generation));
            }
            Some(Rid::Birth { site, n }) => {
                varint::put(out, BIRTH + sites.number(*site));
                births.push(*n);
            }
        }
    }
    let mut last = 0_u64;
    for n in births {
        varint::put_signed(out, n.wrapping_sub(last) as i64);
        last = n;
    }
    let mut before: &[u8] = &[];
    let mut suffixes = Vec::with_capacity(keys.len());
    for (key, _) in &keys {
        let shared = key.iter().zip(before).take(255).take_while(|(a, b)| a == b).count();
        out.push(shared as u8);
        suffixes.push(key.get(shared..).unwrap_or_default());
        before = key;
    }
    suffixes.iter().for_each(|suffix| varint::put(out, suffix.len() as u64));
    keys.iter().for_each(|(_, generation)| varint::put(out, u64::from(*generation)));
    suffixes.iter().for_each(|suffix| out.extend(*suffix));
}

pub(super) fn get_rids(
    reader: &mut Reader<'_>,
    sites: &SiteList,
    n: usize,
) -> Result<Vec<Option<Rid>>, BatchError> {
    let kinds = (0..n).map(|_| reader.varint()).collect::<Result<Vec<_>, _>>()?;
    let mut last = 0_u64;
    let mut births = Vec::new();
    for site in kinds.iter().filter_map(|kind| kind.checked_sub(BIRTH)) {
        last = last.wrapping_add(reader.signed()? as u64);
        births.push(Rid::Birth { site: sites.site(site)?, n: last });
    }
    let keys = get_keys(reader, kinds.iter().filter(|&&kind| kind == KEY).count())?;
    let (mut births, mut keys) = (births.into_iter(), keys.into_iter());
    let rids = kinds.iter().map(|&kind| match kind {
        NO_ROW => None,
        KEY => keys.next(),
        _ => births.next(),
    });
    Ok(rids.collect())
}

fn get_keys(reader: &mut Reader<'_>, n: usize) -> Result<Vec<Rid>, BatchError> {
    let shared = reader.bytes(n)?;
    let lengths = (0..n).map(|_| reader.count()).collect::<Result<Vec<_>, _>>()?;
    let generations = (0..n).map(|_| reader.varint()).collect::<Result<Vec<_>, _>>()?;
    let mut keys = Vec::new();
    let mut before = Vec::new();
    for ((&shared, len), generation) in shared.iter().zip(lengths).zip(generations) {
        let generation = u32::try_from(generation)
            .map_err(|_| BatchError::malformed("a generation has more than 32 bits"))?;
        if usize::from(shared) > before.len() {
            return Err(BatchError::malformed("a key shares more than the key before it has"));
        }
        before.truncate(usize::from(shared));
        before.extend(reader.bytes(len)?);
        keys.push(Rid::Key { key: before.clone(), generation });
    }
    Ok(keys)
}

/// Storage classes, then contents. NULL has none.
fn put_values<'a>(out: &mut Vec<u8>, values: impl Iterator<Item = &'a Value> + Clone) {
    out.extend(values.clone().map(|value| match value {
        Value::Null => NULL,
        Value::Integer(_) => INTEGER,
        Value::Real(_) => REAL,
        Value::Text(_) => TEXT,
        Value::Blob(_) => BLOB,
    }));
    for value in values {
        match value {
            Value::Null => {}
            Value::Integer(i) => varint::put_signed(out, *i),
            Value::Real(r) => out.extend(r.to_bits().to_le_bytes()),
            Value::Text(bytes) | Value::Blob(bytes) => {
                varint::put(out, bytes.len() as u64);
                out.extend(bytes);
            }
        }
    }
}

fn get_value(reader: &mut Reader<'_>, class: u8) -> Result<Value, BatchError> {
    Ok(match class {
        NULL => Value::Null,
        INTEGER => Value::Integer(reader.signed()?),
        REAL => {
            let real = Value::Real(f64::from_bits(u64::from_le_bytes(reader.array()?)));
            check_value(&real).map_err(BatchError::bad_row)?;
            real
        }
        TEXT => Value::Text(get_bytes(reader)?),
        BLOB => Value::Blob(get_bytes(reader)?),
        _ => return Err(BatchError::malformed("a value has no known storage class")),
    })
}

fn get_bytes(reader: &mut Reader<'_>) -> Result<Vec<u8>, BatchError> {
    let len = reader.count()?;
    reader.bytes(len).map(<[u8]>::to_vec)
}

/// The cells of one group: each column of values, then each column of references.
pub(super) fn put_cells(out: &mut Vec<u8>, sites: &mut Sites, shape: &GroupShape, cells: &[&Cell]) {
    for column in 0..shape.columns.len() {
        put_values(out, cells.iter().filter_map(|cell| cell.values.get(column)));
    }
    for foreign_key in 0..shape.refs.len() {
        let refs = cells.iter().filter_map(|cell| cell.refs.get(foreign_key));
        put_rids(out, sites, refs.map(Option::as_ref));
    }
}

pub(super) fn get_cells(
    reader: &mut Reader<'_>,
    sites: &SiteList,
    shape: &GroupShape,
    n: usize,
) -> Result<Vec<Cell>, BatchError> {
    // Of each value and reference one byte at least is still to come: room for all is safe to take.
    let width = shape.columns.len() + shape.refs.len();
    if n.saturating_mul(width) > reader.left() {
        return Err(BatchError::malformed("there are fewer values than registers announce"));
    }
    let empty = || Cell {
        values: Vec::with_capacity(shape.columns.len()),
        refs: Vec::with_capacity(shape.refs.len()),
    };
    let mut cells: Vec<_> = (0..n).map(|_| empty()).collect();
    for _ in &shape.columns {
        let classes = reader.bytes(n)?;
        for (cell, &class) in cells.iter_mut().zip(classes) {
            cell.values.push(get_value(reader, class)?);
        }
    }
    for _ in &shape.refs {
        let rids = get_rids(reader, sites, n)?;
        cells.iter_mut().zip(rids).for_each(|(cell, rid)| cell.refs.push(rid));
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> SiteList {
        SiteList(vec![Id([1; 16])])
    }

    #[test]
    fn ascending_births_repeat_one_byte() {
        let rids: Vec<_> = (0..9).map(|n| Rid::Birth { site: Id([1; 16]), n: 1_000 + n }).collect();
        let (mut out, mut interned) = (Vec::new(), Sites::default());
        put_rids(&mut out, &mut interned, rids.iter().map(Some));
        assert_eq!(out[..9], [BIRTH as u8; 9]);
        assert_eq!(out[11..], [2; 8]);
        let read = get_rids(&mut Reader::new(&out), &sites(), 9).unwrap();
        assert_eq!(read, rids.into_iter().map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn keys_leave_out_what_they_share() {
        let key = |text: &str| Rid::Key { key: text.into(), generation: 0 };
        let rids = [key("abcd"), key("abce"), key("ab")];
        let (mut out, mut interned) = (Vec::new(), Sites::default());
        put_rids(&mut out, &mut interned, rids.iter().map(Some));
        assert_eq!(out, *b"\x01\x01\x01\x00\x03\x02\x04\x01\x00\x00\x00\x00abcde");
        let read = get_rids(&mut Reader::new(&out), &sites(), 3).unwrap();
        assert_eq!(read, rids.map(Some));
        out[3] = 1;
        assert!(get_rids(&mut Reader::new(&out), &sites(), 3).is_err());
    }

    #[test]
    fn clocks_and_sites_stay_in_range() {
        let read = |bytes: &[u8]| get_stamps(&mut Reader::new(bytes), &sites(), 1);
        let stamp = Stamp { hlc: Hlc(1 << 16 | 2), site: Id([1; 16]) };
        assert_eq!(read(&[0, 2, 4]), Ok(vec![stamp]));
        assert!(read(&[1, 2, 4]).is_err(), "no second site");
        assert!(read(&[0, 1, 4]).is_err(), "negative milliseconds");
        assert!(read(&[0, 2, 1]).is_err(), "negative counter");
        assert!(read(&[0, 2, 0x80, 0x80, 0x08]).is_err(), "counter beyond 16 bits");
    }

    #[test]
    fn cells_are_not_made_before_their_values_are_there() {
        let wide = GroupShape { columns: vec![String::new(); 1_000], refs: Vec::new() };
        let read = get_cells(&mut Reader::new(&[0; 999]), &sites(), &wide, 1);
        assert!(matches!(read, Err(BatchError::Malformed(_))));
        let read = get_cells(&mut Reader::new(&[0; 1_000]), &sites(), &wide, 1).unwrap();
        assert_eq!(read[0].values, vec![Value::Null; 1_000]);
        let narrow = GroupShape { columns: vec![String::new()], refs: Vec::new() };
        assert!(get_cells(&mut Reader::new(&[9]), &sites(), &narrow, 1).is_err());
    }
}
