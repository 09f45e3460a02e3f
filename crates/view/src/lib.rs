//! What rows show: schema, states and facts in, a plan out.
//!
//! A merge or a fold names the rows that changed: the [`AffectedRows`]. [`view::settle`] adds those on which their fate
//! depends, asking [`Facts`] for whatever it does not have in hand, and works out what each of them shows:
//! a function of states, schema and policies, and of nothing else. [`view::decide`] makes the plan of it,
//! which the caller writes. [`local_wins::attempt`] does so after a fold, in rounds, so that nothing takes
//! back what the user wrote.
//!
//! Nothing here knows a database, a file, a clock or chance: a replica answers and writes by SQL, tests and
//! whoever has no SQLite by maps.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

pub mod affected;
pub mod catalog;
pub mod conflict;
pub mod constant;
pub mod counter;
pub mod describe;
pub mod equal;
pub mod error;
pub mod facts;
pub mod groups;
pub mod join;
pub mod kept;
pub mod keys;
pub mod known;
pub mod ledger;
pub mod local_wins;
pub mod memory;
pub mod order;
pub mod policy;
pub mod protect;
#[cfg(any(test, feature = "random"))]
pub mod random;
pub mod refs;
mod remap;
pub mod schema;
pub mod state;
pub mod view;

pub use affected::AffectedRows;
pub use catalog::Catalog;
pub use conflict::ConflictKind;
pub use error::{Error, Result};
pub use facts::Facts;

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
