//! The SynQLite engine: capture, fold and merge for a SQLite database.
#![allow(missing_docs)]

pub mod error;
pub mod policy;
pub mod schema;

pub use error::{Error, Result};
