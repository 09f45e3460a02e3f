//! The SynQLite engine: capture, fold and merge for a SQLite database.

pub mod env;
pub mod error;
pub mod merge;
pub mod policy;
pub mod replica;
pub mod schema;

mod capture;
mod catalog;
mod export;
mod fold;
mod journal;
mod meta;
mod refs;
mod sqlvalue;
mod state;
mod track;

pub use env::{Environment, System};
pub use error::{Error, Result};
pub use replica::{InitOptions, InitReport, Replica, TableReport};
