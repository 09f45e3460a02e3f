//! A hub's store in a bucket of object storage: the embedded store, whose changes are durable once
//! they are in a log in the bucket. Large objects are objects of the bucket, as are tokens.
//!
//! One hub at a time has a prefix; the storage, not we, keeps copies and counts who was first.
//! `docs/formats/hub-bucket.md` has the files byte by byte.

mod entry;
mod journal;
mod lease;
mod listing;
mod tidy;
mod vault;

pub use journal::{Journal, Keeping, open};
pub use lease::Hold;
pub use vault::Tokens;
