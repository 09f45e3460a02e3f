//! What the front ends of SynQLite share: the command and the extension take the same remotes, give the same
//! answers in JSON, and fail in the same kinds.
//!
//! Nothing here decides anything: the engine and `synqlite-remote` do.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod answer;
pub mod failure;
pub mod remotes;

pub use failure::{Failure, Kind};

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
