//! The SynQLite engine: capture, fold and merge for a SQLite database.

pub mod env;
pub mod error;
pub mod merge;
pub mod policy;
pub mod replica;
pub mod schema;

mod capture;
mod catalog;
pub mod conflicts;
mod copy;
mod digest;
mod export;
#[cfg(test)]
mod fixture;
mod fold;
mod history;
mod journal;
mod log;
mod meta;
mod refs;
mod remotes;
mod sqlvalue;
mod state;
mod status;
mod track;
mod verify;

pub use digest::Digest;
pub use env::{Environment, System};
pub use error::{Error, Result};
pub use log::{LogEntry, LogQuery};
pub use remotes::{Direction, NamedRemote, Sent};
pub use replica::{InitOptions, InitReport, Replica, TableReport};
pub use status::{Pending, Status, Trigger};
pub use synqlite_wire::Value;
