//! Random histories, simulated sites, and the campaigns that play them.
//!
//! - [`families`]: schemas, and random statements on each.
//! - [`shapes`]: schemas under constraints of every kind, and statements that collide on them.
//! - [`history`]: statements and synchronizations of several sites, in one order.
//! - [`world`]: sites on real files, written to by ordinary SQLite connections, with a clock that the
//!   test sets and ids that follow from the seed.
//! - [`network`]: a remote store behind a network that fails.
//! - [`exchange`]: histories of sites that reach each other only through such a place.
//! - [`forge`]: histories in which one of the sites forges batches.
//! - [`model`]: the same history in the engine and in a reference model, which is another process.
//! - [`wild`]: histories in which schemas, policies, files and clocks change too.
//! - [`mutants`]: the engine with one repair taken out, which a campaign has to notice.
//! - [`crash`]: a process that is killed while it works on a replica.
//!
//! The same seed gives the same run. `docs/testing.md` says how to run what is too long for
//! `cargo test`.

pub mod crash;
pub mod exchange;
pub mod families;
pub mod forge;
pub mod history;
pub mod model;
pub mod mutants;
pub mod network;
pub mod random;
pub mod sample;
pub mod shapes;
pub mod wild;
pub mod world;
