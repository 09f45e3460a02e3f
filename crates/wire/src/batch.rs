//! A change batch: one [`Delta`] as immutable, compressed, checksummed bytes.
//!
//! Invariant: [`decode`] gives back exactly the delta that [`encode`] was given, order of rows
//! included, or an error. It never gives back anything else: a flipped bit, a cut file and a made-up
//! file are all refused, and what a reader allocates is bounded by the size of what it reads.
//!
//! ```text
//! prelude, header, checksum | zstd body                                    | checksum
//! read without the body     | sites, tables, order, one column after other | over all
//! ```
//!
//! The header alone says what the batch brings ([`BatchHeader::base`], [`BatchHeader::upto`]), so
//! that [`decode_header`] can choose among batches from their first bytes. A store that only passes
//! batches on needs nothing more. The bytes are described in `docs/formats/batch.md`.

mod body;
mod check;
mod columns;
mod error;
mod frame;
mod header;
mod varint;

pub use error::BatchError;
pub use header::BatchHeader;

#[doc(hidden)]
pub use self::{body::decode as decode_body, frame::seal};

use crate::change::Delta;
use crate::ids::{DatabaseId, Mark, SiteId};

/// The format that [`encode`] writes, and the newest that [`decode`] reads.
pub const FORMAT: u16 = 1;

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
    after: Option<Mark>,
    delta: &Delta,
) -> Result<Vec<u8>, BatchError> {
    delta.check()?;
    let raw = body::encode(delta);
    let packed = frame::pack(&raw)?;
    let header = header::Fields {
        database,
        site,
        after,
        base: &delta.base,
        upto: &delta.upto,
        rows: delta.rows.len() as u64,
        unpacked: raw.len() as u64,
        packed: packed.len() as u64,
    };
    Ok(frame::seal(&header.encode(), &packed))
}

/// Reads the header of a batch from its first bytes, [`HEADER_PREFIX`] of them to begin with.
///
/// If they do not hold the whole header the error is [`BatchError::Truncated`], and its `need` says
/// how many bytes to come back with. The header is verified by its own checksum, the rest is not.
pub fn decode_header(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let opened = frame::open(bytes)?;
    BatchHeader::decode(opened.format, opened.header, opened.body)
}

/// Reads a whole batch.
pub fn decode(bytes: &[u8]) -> Result<(BatchHeader, Delta), BatchError> {
    let opened = frame::open(bytes)?;
    let header = BatchHeader::decode(opened.format, opened.header, opened.body)?;
    let packed = frame::open_body(bytes, opened.body, header.size)?;
    let raw = frame::unpack(packed, header.unpacked)?;
    let rest = body::decode(header.rows, &raw)?;
    let delta = Delta { base: header.base.clone(), upto: header.upto.clone(), ..rest };
    Ok((header, delta))
}

#[cfg(test)]
mod tests;
