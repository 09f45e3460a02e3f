//! A hub keeps objects for many databases and wakes those who wait for them.
//!
//! It does not look inside an object, but for who wrote it where a token is bound to sites: names and
//! bytes are all it sees, so it needs no key, no schema and no SQLite. The protocol is described in `docs/formats/hub.md`.
//!
//! ```no_run
//! use std::sync::Arc;
//! use synqlite_hub::{Location, Settings, start};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock = Arc::new(|| 0); // the time, in milliseconds since 1970
//! let hub = start(Settings::new(Location::parse("hub")?, clock))?;
//! println!("listening on {}", hub.url());
//! hub.wait()?;
//! # Ok(())
//! # }
//! ```
//!
//! From the inside out: [`backend`] is what a store must do; `embedded` does it in a folder, with a
//! journal in object storage if `bucket` gives it one; `postgres` in a database of PostgreSQL's; `http`
//! speaks the protocol and knows nothing of how objects are kept; [`start`] listens. Memory does not
//! grow with the number of places: a place that nobody uses just now is only in the store.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(not(unix))]
compile_error!("synqlite-hub needs Unix: so does its store, synqlite-lsm");

mod archive;
pub mod backend;
mod backup;
mod bucket;
mod config;
mod disk_space;
mod embedded;
mod error;
mod http;
mod layout;
mod location;
mod place;
mod postgres;
mod private;
mod runtime;
mod serve;
mod tokens;
mod wait;

pub use backup::{backup, restore};
pub use config::Config;
pub use embedded::{Embedded, Setup};
pub use error::{Error, Result};
pub use http::Limits;
pub use location::{Location, Vault};
pub use place::{BadPlace, Place};
pub use serve::{Clock, Running, Settings, Stopper, check, start};
pub use synqlite_wire::SiteId;
pub use tokens::{Allowance, Reach, Scope, Token};
pub use wait::Waiters;

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
