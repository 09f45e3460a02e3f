//! What the front ends of SynQLite share: the command and the extension take the same remotes, give the same
//! answers in JSON, and fail in the same kinds.
//!
//! Nothing here decides anything: the engine and `synqlite-remote` do.

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod answer;
pub mod failure;
pub mod moment;
pub mod remotes;
pub mod undo;

pub use failure::{Failure, Kind};

/// What this machine is called, as the name of sites that are made on it.
pub fn machine_name() -> Option<String> {
    let name = gethostname::gethostname();
    let name = name.to_str()?.trim();
    synqlite_core::check_site_name(name).ok().map(|()| name.to_owned())
}

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
