//! Where SynQLite changes go: another replica, or a store where sites that never meet exchange
//! objects ([`synqlite_objects`]).

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

mod access;
pub mod sync;
pub mod watch;

pub use access::Access;
pub use sync::{
    Cloned, Credentials, Outcome, Remote, Restored, Session, SyncError, Traffic, Waiting,
};
pub use synqlite_objects::files::remove_own;
pub use synqlite_objects::{Cursor, Error, Key, Put, blanked};

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
