//! The SynQLite engine: capture, fold and merge for a SQLite database.
//!
//! [`Replica`] is the one entrance. [`Replica::init`] makes an ordinary SQLite file a replica: pure
//! SQL triggers note every change in a journal, in the application's own transaction, whichever
//! program writes and with no extension loaded. [`Replica::fold`] turns the journal into versions of
//! rows and columns: causal lengths and hybrid logical clocks. [`Replica::export`] gives what another
//! site lacks as a [`synqlite_wire::Delta`], [`Replica::merge`] joins one, and
//! [`Replica::pull_from`] does both between two open replicas. Exporting, merging and pulling fold
//! first, so nobody has to. [`Replica::status`], [`Replica::digest`], [`Replica::verify`],
//! [`Replica::log`] and [`Replica::conflicts`] look and change nothing. Remotes other than an open
//! replica are the business of `synqlite-remote`.
//!
//! The engine never reads a clock, a random number or the identity of a file by itself: an
//! [`Environment`] is given to it, [`System`] in programs and a simulated one in tests. It waits up to
//! ten seconds for another program's lock. Every call is one transaction: it happened or it did not.
//!
//! Inside, data flow one way: `schema` and `catalog` say what the tables are, `capture` writes the
//! triggers, `journal` reads what they noted, `fold` stamps it into `state`; `export` reads the state
//! for others; `merge` joins theirs, derives what the tables show and applies the difference.
//!
//! ```
//! use std::sync::Arc;
//! use synqlite_core::{InitOptions, Replica, System};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let (ours, theirs) = (dir.path().join("ours.db"), dir.path().join("theirs.db"));
//! let app = rusqlite::Connection::open(&ours)?;
//! app.execute_batch("CREATE TABLE todo(id TEXT PRIMARY KEY, done); INSERT INTO todo VALUES('a', 0)")?;
//! let env = Arc::new(System);
//! Replica::init(&ours, &InitOptions::default(), env.clone())?;
//!
//! // A copy becomes a site of its own.
//! let mut mine = Replica::open(&ours, env.clone())?;
//! mine.copy_to(&theirs)?;
//! let mut other = Replica::open_copy(&theirs, env)?.become_site()?;
//!
//! // Any program writes to either, then they synchronize.
//! app.execute_batch("UPDATE todo SET done = 1")?;
//! let pulled = other.pull_from(&mut mine, false)?;
//! assert_eq!(pulled.merged.updated, 1);
//! assert_eq!(mine.digest()?.digest, other.digest()?.digest);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

use synqlite_view::{counter, describe, known, policy};

mod advice;
mod apart;
mod aside;
mod asked;
mod capture;
mod catalog;
mod changes;
mod closed;
mod conflicts;
mod connection;
mod copy;
mod count;
mod dash;
mod deinit;
mod digest;
mod ended;
mod env;
mod equal;
mod error;
mod export;
#[cfg(test)]
mod fixture;
mod fold;
mod gaps;
mod geometry;
mod history;
mod inbox;
mod init;
mod journal;
mod line;
mod local;
mod log;
mod meet;
mod merge;
mod meta;
mod migrate;
mod needs;
mod open;
mod parts;
mod progress;
mod pull;
mod records;
mod referring;
mod refs;
mod registry;
mod rejoin;
mod remotes;
mod renames;
mod replica;
mod rewrite;
mod schema;
mod settings;
mod settle;
mod slices;
mod sqlvalue;
mod state;
mod status;
mod touched;
mod track;
mod twins;
mod undo;
mod verify;
mod work;

pub use advice::Advice;
pub use aside::Aside;
pub use changes::{ChangedRow, Changes};
pub use closed::{Closed, ClosedBy, Verb};
pub use deinit::Deinited;
pub use digest::Digest;
pub use env::{Environment, System};
pub use error::{Error, Result};
pub use fold::Folded;
pub use gaps::Gaps;
pub use history::Change;
pub use inbox::{Spool, Spooled};
pub use init::{InitOptions, InitReport, TableReport};
pub use line::tree::Lines;
pub use log::{LogEntry, LogQuery};
pub use merge::{Decision, Lost, Merged, MergedRows, Merging};
pub use meta::{SiteNames, check_name as check_site_name};
pub use policy::{BadPolicy, Policies, Policy};
pub use progress::{Phase, Step, Unit};
pub use pull::{Pulled, Sink};
pub use records::{Conflict, Deleted, Follower, Needing, Rival, Writer};
pub use rejoin::{Compared, Rejoined};
pub use remotes::{NamedRemote, Removed, Secret, Sent, Synced};
pub use replica::Replica;
/// The rusqlite that the engine uses, for programs that want the same without naming a version.
pub use rusqlite;
pub use schema::{Identity, Skipped};
pub use settle::Settling;
pub use status::{Kept, Pending, Status, Trigger};
pub use synqlite_view::ConflictKind;
pub use synqlite_view::describe::{text as value_text, the_row};
pub use synqlite_view::known::{called, line, push_seen};
pub use synqlite_wire::{SiteId, Value, units};
pub use touched::{Mark, Touched};
pub use undo::{Left, Selection, Taken, Undone};

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
