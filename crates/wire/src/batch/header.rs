//! The header of a batch: whose changes it carries, from which state to which.
//!
//! It is not compressed, and carries a checksum of its own, so that it can be read and trusted
//! without the body.

use super::error::BatchError;
use super::frame;
use super::varint::{self, Reader};
use crate::check::MAX_ROWS;
use crate::clock::{Hlc, VersionVector};
use crate::ids::{DatabaseId, Id, PrefixHash, SiteId};
use crate::line::{Line, Point};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What can be known of a batch without reading its body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// Version of the format.
    pub format: u16,
    /// The replicated database whose changes these are.
    pub database: DatabaseId,
    /// The site that wrote the batch; its changes may come from others.
    pub site: SiteId,
    /// If this is set, a receiver must already contain everything that can be reached in the place
    /// of this batch among the objects that the prefix hash stands for, beside `base`.
    pub after: Option<PrefixHash>,
    /// What a receiver must already contain.
    pub base: VersionVector,
    /// What it contains afterwards, beside what it must already contain.
    pub upto: VersionVector,
    /// By which points sites came to `upto`.
    pub lines: BTreeMap<SiteId, Line>,
    /// Its bodies, one after another; at least one.
    pub bodies: Vec<BodySize>,
    /// Where the first of them begins.
    pub start: u64,
    /// Bytes of the whole batch.
    pub size: u64,
}

/// What a body holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BodySize {
    /// Number of changed rows.
    pub rows: u64,
    /// Bytes once decompressed.
    pub unpacked: u64,
    /// Bytes in the batch.
    pub packed: u64,
}

/// What the header's bytes say.
pub(super) struct Fields<'a> {
    pub(super) database: DatabaseId,
    pub(super) site: SiteId,
    pub(super) after: Option<PrefixHash>,
    pub(super) base: &'a VersionVector,
    pub(super) upto: &'a VersionVector,
    pub(super) lines: &'a BTreeMap<SiteId, Line>,
    pub(super) bodies: &'a [BodySize],
}

impl Fields<'_> {
    /// Both vectors share one list of sites; a clock is written plus one, for 0 says "no entry", and
    /// in the second vector as what is more than in the first.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.database.0);
        out.extend(self.site.0);
        varint::put(&mut out, u64::from(self.after.is_some()));
        self.after.iter().for_each(|prefix| out.extend(prefix.0));
        let sites: BTreeSet<_> = self.base.0.keys().chain(self.upto.0.keys()).collect();
        varint::put(&mut out, sites.len() as u64);
        sites.iter().for_each(|site| out.extend(site.0));
        let clock = |vector: &VersionVector, site| -> u64 {
            vector.0.get(site).map_or(0, |hlc| hlc.0.cast_unsigned().wrapping_add(1))
        };
        for site in &sites {
            varint::put(&mut out, clock(self.base, site));
        }
        for site in &sites {
            varint::put(&mut out, clock(self.upto, site).wrapping_sub(clock(self.base, site)));
        }
        for site in &sites {
            put_line(&mut out, **site, self.lines.get(*site), self.upto.get(**site));
        }
        varint::put(&mut out, self.bodies.len() as u64);
        for BodySize { rows, unpacked, packed } in self.bodies {
            [rows, unpacked, packed].iter().for_each(|&&n| varint::put(&mut out, n));
        }
        out
    }
}

impl BatchHeader {
    /// Number of changed rows.
    pub fn rows(&self) -> u64 {
        self.bodies.iter().fold(0, |rows, body| rows.saturating_add(body.rows))
    }

    /// Where each body is.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.bodies.iter().scan(self.start, |start, body| {
            let range = *start..*start + body.packed;
            *start = range.end;
            Some(range)
        })
    }

    /// Reads the header's bytes; the first body begins at `start`.
    pub(super) fn decode(format: u16, bytes: &[u8], start: u64) -> Result<BatchHeader, BatchError> {
        let mut reader = Reader::new(bytes);
        let (database, site) = (Id(reader.array()?), Id(reader.array()?));
        let after = match reader.varint()? {
            0 => None,
            1 => Some(Id(reader.array()?)),
            _ => return Err(BatchError::malformed("its header names more than one prefix hash")),
        };
        let sites = (0..reader.count()?)
            .map(|_| reader.array().map(Id))
            .collect::<Result<Vec<SiteId>, _>>()?;
        if !sites.is_sorted_by(|a, b| a < b) {
            return Err(BatchError::malformed("the sites of its header are not in order"));
        }
        let none = vec![0; sites.len()];
        let (base, clocks) = vector(&mut reader, &sites, &none)?;
        let (upto, _) = vector(&mut reader, &sites, &clocks)?;
        let mut lines = BTreeMap::new();
        for &site in &sites {
            lines.extend(get_line(&mut reader, site, upto.get(site))?.map(|line| (site, line)));
        }
        let body = |reader: &mut Reader<'_>| -> Result<BodySize, BatchError> {
            let (rows, unpacked, packed) = (reader.varint()?, reader.varint()?, reader.varint()?);
            check_rows(rows)?;
            Ok(BodySize { rows, unpacked, packed })
        };
        let bodies =
            (0..reader.count()?).map(|_| body(&mut reader)).collect::<Result<Vec<_>, _>>()?;
        reader.finish()?;
        if bodies.is_empty() {
            return Err(BatchError::malformed("it has no body"));
        }
        let size = frame::size(start, &bodies)?;
        Ok(BatchHeader { format, database, site, after, base, upto, lines, bodies, start, size })
    }
}

/// A row takes much more memory than bytes in a body, so bodies have few.
pub(super) fn check_rows(rows: u64) -> Result<(), BatchError> {
    if rows > MAX_ROWS {
        return Err(BatchError::malformed("a body has more rows than any writer puts into one"));
    }
    Ok(())
}

/// A vector as what is more than `before`, and its clocks as they are written.
fn vector(
    reader: &mut Reader<'_>,
    sites: &[SiteId],
    before: &[u64],
) -> Result<(VersionVector, Vec<u64>), BatchError> {
    let (mut vector, mut clocks) = (VersionVector::default(), Vec::with_capacity(sites.len()));
    for (&site, before) in sites.iter().zip(before) {
        let written = reader.varint()?.wrapping_add(*before);
        clocks.push(written);
        if let Some(clock) = written.checked_sub(1) {
            let clock = i64::try_from(clock)
                .map_err(|_| BatchError::malformed("a clock of its header is out of range"))?;
            vector.0.insert(site, Hlc(clock));
        }
    }
    Ok((vector, clocks))
}

/// The number of points; of a branch its root; then, from `upto` backwards, clocks and births as what
/// is less than in the point after, and the clock of the point before.
fn put_line(out: &mut Vec<u8>, site: SiteId, line: Option<&Line>, upto: Hlc) {
    let last = |line: &&Line| line.points.last().is_some_and(|last| last.clock == upto);
    let Some(Line { root, before, points }) = line.filter(last) else {
        return varint::put(out, 0);
    };
    varint::put(out, points.len() as u64);
    varint::put(out, u64::from(*root != site));
    if *root != site {
        out.extend(root.0);
    }
    let (mut clock, mut births) = (upto, points.last().map_or(0, |last| last.births));
    varint::put(out, births);
    for point in points.iter().rev().skip(1) {
        varint::put(out, (clock.0 - point.clock.0).cast_unsigned());
        varint::put(out, births.wrapping_sub(point.births));
        (clock, births) = (point.clock, point.births);
    }
    varint::put(out, (clock.0 - before.0).cast_unsigned());
}

fn get_line(reader: &mut Reader<'_>, site: SiteId, upto: Hlc) -> Result<Option<Line>, BatchError> {
    let bad = || BatchError::malformed("the line of a site in its header is out of order");
    let count = reader.count()?;
    if count == 0 {
        return Ok(None);
    }
    let root = match reader.varint()? {
        0 => site,
        1 => Id(reader.array()?),
        _ => return Err(bad()),
    };
    let mut last = Point { clock: upto, births: reader.varint()? };
    let mut points = vec![last];
    let earlier = |reader: &mut Reader<'_>, clock: Hlc| {
        let less = i64::try_from(reader.varint()?).ok().filter(|less| (1..=clock.0).contains(less));
        less.map(|less| Hlc(clock.0 - less)).ok_or_else(bad)
    };
    for _ in 1..count {
        let clock = earlier(reader, last.clock)?;
        let births = last.births.checked_sub(reader.varint()?).ok_or_else(bad)?;
        last = Point { clock, births };
        points.push(last);
    }
    let before = earlier(reader, last.clock)?;
    points.reverse();
    Ok(Some(Line { root, before, points }))
}
