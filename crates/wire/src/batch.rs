//! A change batch: one [`Delta`] as immutable, compressed, checksummed bytes.
//!
//! Invariant: [`decode`] gives back exactly the delta that [`encode`] was given, order of rows
//! included, or an error. It never gives back anything else: a flipped bit, a cut file and a made-up
//! file are all refused, and what a reader allocates is bounded by the size of what it reads.
//!
//! ```text
//! prelude, header, checksum | zstd bodies, each of some rows                   | checksum
//! read without the bodies   | each: sites, tables, order, column after column  | over all
//! ```
//!
//! The header alone says what the batch brings ([`BatchHeader::base`], [`BatchHeader::upto`]), so
//! that [`decode_header`] can choose among batches from their first bytes. A store that only passes
//! batches on needs nothing more. A large delta is written in parts ([`Writer`]), verified as its
//! bytes pass by ([`Verifier`]) and read body by body ([`decode_body`]), so that neither side ever
//! holds all of it. The bytes are described in `docs/formats/batch.md`.

mod body;
mod columns;
mod error;
mod frame;
mod header;
mod varint;

pub use error::BatchError;
pub use frame::{Verifier, close};
pub use header::{BatchHeader, BodySize};

#[doc(hidden)]
pub use self::{body::decode as decode_raw, frame::seal};

use crate::change::Delta;
use crate::clock::VersionVector;
use crate::ids::{DatabaseId, PrefixHash, SiteId};
use crate::line::Line;
use std::collections::BTreeMap;

/// The format that [`encode`] writes, and the newest that [`decode`] reads.
pub const FORMAT: u16 = 2;

/// How many bytes a reader should fetch first: the whole header, of a vector of 1,500 sites or less.
pub const HEADER_PREFIX: usize = 64 << 10;

/// Writes `delta` as a batch of `database`, made by `site`.
///
/// Fails with [`BatchError::Invalid`] if the delta breaks a promise of its types
/// ([`Delta::check`]): no reader would take such a batch, and a stored batch is for ever.
pub fn encode(database: DatabaseId, site: SiteId, delta: &Delta) -> Result<Vec<u8>, BatchError> {
    encode_after(database, site, None, delta)
}

/// [`encode`] for a place that keeps its objects in a row. `base` and `upto` of the delta then hold
/// only what is more than the beginning `after` of that row brings.
pub fn encode_after(
    database: DatabaseId,
    site: SiteId,
    after: Option<PrefixHash>,
    delta: &Delta,
) -> Result<Vec<u8>, BatchError> {
    let mut writer = Writer::default();
    let packed = writer.add(delta)?;
    let head = writer.head(database, site, after, (&delta.base, &delta.upto, &delta.lines));
    Ok(frame::close(head, &packed))
}

/// Writes a batch whose delta comes in parts. Its bytes are the head, the bodies in the order in which
/// they were added, and their [`Verifier::sum`].
#[derive(Default)]
pub struct Writer {
    bodies: Vec<BodySize>,
    packer: frame::Packer,
}

impl Writer {
    /// The body of the next part, whose base and upto are of no account here.
    ///
    /// Fails with [`BatchError::Invalid`] if the delta breaks a promise of its types.
    pub fn add(&mut self, part: &Delta) -> Result<Vec<u8>, BatchError> {
        part.check()?;
        part.check_ends()?;
        header::check_rows(part.rows.len() as u64)?;
        let raw = body::encode(part);
        let packed = self.packer.pack(&raw)?;
        let (unpacked, bytes) = (raw.len() as u64, packed.len() as u64);
        self.bodies.push(BodySize { rows: part.rows.len() as u64, unpacked, packed: bytes });
        Ok(packed)
    }

    /// The last body that was added.
    pub fn last(&self) -> Option<BodySize> {
        self.bodies.last().copied()
    }

    /// All that comes before the bodies. `base` and `upto` must have no negative clocks, and a line
    /// of a site in them ends with its clock in `upto`.
    pub fn head(
        &self,
        database: DatabaseId,
        site: SiteId,
        after: Option<PrefixHash>,
        (base, upto, lines): (&VersionVector, &VersionVector, &BTreeMap<SiteId, Line>),
    ) -> Vec<u8> {
        let bodies = &self.bodies;
        frame::open_with(
            &header::Fields { database, site, after, base, upto, lines, bodies }.encode(),
        )
    }
}

/// Reads the header of a batch from its first bytes, [`HEADER_PREFIX`] of them to begin with.
///
/// If they do not hold the whole header the error is [`BatchError::Truncated`], and its `need` says
/// how many bytes to come back with. The header is verified by its own checksum, the rest is not.
pub fn decode_header(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let opened = frame::open(bytes)?;
    BatchHeader::decode(opened.format, opened.header, opened.start)
}

/// Reads the `i`th body of a batch from its bytes; what comes of it is a part of the delta.
pub fn decode_body(header: &BatchHeader, i: usize, packed: &[u8]) -> Result<Delta, BatchError> {
    let size = header.bodies.get(i);
    let size = size.ok_or_else(|| BatchError::malformed("it has fewer bodies"))?;
    let raw = frame::unpack(packed, size.unpacked)?;
    let rest = body::decode(size.rows, &raw)?;
    let BatchHeader { base, upto, lines, .. } = header.clone();
    Ok(Delta { base, upto, lines, ..rest })
}

/// Reads a whole batch: the parts of its delta.
pub fn decode(bytes: &[u8]) -> Result<(BatchHeader, Vec<Delta>), BatchError> {
    let header = decode_header(bytes)?;
    let mut verifier = Verifier::new(&header);
    verifier.pass(bytes);
    verifier.end()?;
    let mut parts = Vec::new();
    for (i, range) in header.ranges().enumerate() {
        let packed = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let packed = packed.and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default();
        parts.push(decode_body(&header, i, packed)?);
    }
    Ok((header, parts))
}

#[cfg(test)]
mod tests;
