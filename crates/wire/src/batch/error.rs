//! Why a batch cannot be read or written.

use crate::check::InvalidDelta;

/// Why a batch cannot be read or written. The caller knows its name and adds it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The bytes do not begin as a batch does.
    #[error("not a change batch: its first bytes are not those of one. Is it the right file?")]
    NotABatch,
    /// The bytes end too early; also the answer to a prefix shorter than the header.
    #[error(
        "half-written batch: {have} of {need} bytes are there. \
         Fetch it again once its writer has finished"
    )]
    Truncated {
        /// Bytes given.
        have: u64,
        /// Bytes needed, as far as can be told from those given: come back with so many.
        need: u64,
    },
    /// Written by a later release.
    #[error("the batch has format {found}, this synqlite reads up to {known}. Update synqlite")]
    Newer {
        /// Format of the batch.
        found: u16,
        /// Newest format that can be read here.
        known: u16,
    },
    /// A checksum does not match: the bytes are not those that were written.
    #[error(
        "damaged batch: the checksum of its {0} does not match. \
         Fetch it again, or take it from another replica"
    )]
    Damaged(&'static str),
    /// A size beyond what the format allows; refused before anything is allocated for it.
    #[error("refused batch: its {what} would take {size} bytes, more than the {limit} allowed")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its declared size in bytes.
        size: u64,
        /// The largest size allowed in bytes.
        limit: u64,
    },
    /// The checksums match, the contents make no sense: the writer was at fault.
    #[error("malformed batch: {0}. Its writer is at fault; take the changes from another replica")]
    Malformed(String),
    /// A delta that breaks the promises of its types has no encoding.
    #[error("the changes cannot be made a batch: {0}. Run `synqlite verify` on the database")]
    Invalid(#[source] Box<InvalidDelta>),
    /// The compressor failed, for want of memory.
    #[error("the changes could not be compressed: {0}. Send fewer at a time")]
    Compress(String),
}

impl From<InvalidDelta> for BatchError {
    fn from(why: InvalidDelta) -> BatchError {
        BatchError::Invalid(Box::new(why))
    }
}

impl BatchError {
    /// A [`BatchError::Malformed`].
    pub(super) fn malformed(why: &str) -> BatchError {
        BatchError::Malformed(why.to_owned())
    }

    /// The same of a row that no valid delta has.
    pub(super) fn bad_row(why: &'static str) -> BatchError {
        BatchError::Malformed(format!("a row {why}"))
    }
}
