//! Where SynQLite changes go: another replica, or a place where sites that never meet exchange
//! objects ([`synqlite_objects`]).

pub mod sync;

pub use sync::{
    Cloned, Credentials, Outcome, Progress, Remote, Restored, Session, SyncError, Traffic, Waiting,
};
pub use synqlite_objects::{Cursor, Error, Key, Put};
