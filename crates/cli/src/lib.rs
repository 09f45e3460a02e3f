//! Makes any SQLite file a replica that synchronizes offline, from within a program in Rust.
//!
//! Two replicas of one list, edited apart by plain SQL:
//!
//! ```
//! use std::sync::Arc;
//! use synqlite::rusqlite::Connection;
//! use synqlite::{Access, InitOptions, Remote, Replica, Session, System, Verb, remotes};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let (home, laptop) = (dir.path().join("home.db"), dir.path().join("laptop.db"));
//! let at_home = Connection::open(&home)?;
//! at_home.execute_batch("CREATE TABLE todo(id INTEGER PRIMARY KEY, title TEXT UNIQUE, done INT DEFAULT 0);
//!                        INSERT INTO todo(title) VALUES('milk')")?;
//! Replica::init(&home, &InitOptions::default(), Arc::new(System))?;
//!
//! let session = Session::new(Arc::new(System));
//! Remote::Replica(home).clone_to(&laptop, &session)?;
//! let on_laptop = Connection::open(&laptop)?;
//!
//! // Both have the same idea, and each one of its own.
//! at_home.execute_batch("INSERT INTO todo(title) VALUES('rent'), ('stamps')")?;
//! on_laptop.execute_batch("INSERT INTO todo(title) VALUES('rent'); UPDATE todo SET done = 1 WHERE title = 'milk'")?;
//!
//! // A clone remembers where it came from, as `origin`.
//! let mut replica = Replica::open(&laptop, Arc::new(System))?;
//! let origin = remotes::resolve(&replica, None, &Access::default())?;
//! origin.sync(&mut replica, &session)?;
//!
//! // UNIQUE holds on both. The row that stepped aside is listed, until somebody settles it.
//! let conflicts = replica.conflicts()?;
//! assert_eq!(conflicts[0].declared, "UNIQUE (title)");
//! replica.settle_conflict(&conflicts[0].id, Verb::Discard)?;
//! origin.sync(&mut replica, &session)?;
//!
//! for db in [at_home, on_laptop] {
//!     let sql = "SELECT group_concat(title || done, ' ') FROM (SELECT * FROM todo ORDER BY title)";
//!     assert_eq!(db.query_row(sql, [], |row| row.get::<_, String>(0))?, "milk1 rent0 stamps0");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Replica`] is a file, [`Remote`] where its changes go and come from, [`watch`] synchronizes again and again,
//! [`remotes`] finds a remote by its name. Calls keep their thread until they are done. They fail with [`Error`] (the
//! file), [`SyncError`] (the exchange) or [`StoreError`] (a folder, a hub, a bucket); [`Failure`] takes all three,
//! and says what happened, what to do and of which [`Kind`] it is.
//!
//! # Features
//!
//! A program leaves the command out, which is the default of `cargo install`:
//!
//! ```toml
//! synqlite = { version = "0.1", default-features = false, features = ["bundled"] }
//! ```
//!
//! | feature | brings |
//! | --- | --- |
//! | `bundled` | the SQLite of rusqlite; without it the system's, 3.38 or later |
//! | `bucket` | remotes in object storage, `s3://` |
//! | `cli` | the command `synqlite`, and what it needs |
//!
//! A program has one SQLite, so its rusqlite is ours: 0.40 to 0.43, re-exported as [`rusqlite`]. A program that opens
//! the file with another SQLite, such as that of sqlx, loads the extension instead
//! ([guide](https://github.com/synqlite/synqlite/blob/main/docs/guides/rust.md)).

pub use synqlite_core::rusqlite;

// A replica, and what it needs from outside.
pub use synqlite_core::{
    Deinited, Environment, Error, InitOptions, InitReport, Phase, Replica, SiteId, SiteNames,
    Skipped, Step, System, TableReport, Unit,
};
// How it merges, and what is to be settled.
pub use synqlite_core::{
    Advice, Closed, ClosedBy, Conflict, ConflictKind, Policies, Policy, Rival, Settling, Value,
    Verb, Writer, value_text,
};
// What changed, and who did it.
pub use synqlite_core::{
    Change, ChangedRow, Changes, Left, LogEntry, LogQuery, Mark, Selection, Taken, Touched, Undone,
};
// How it is.
pub use synqlite_core::{Aside, Digest, Folded, NamedRemote, Pending, Status, Trigger};

// Where changes go to and come from.
pub use synqlite_core::{Decision, Merged, MergedRows};
pub use synqlite_remote::{
    Access, Cloned, Credentials, Error as StoreError, Key, Outcome, Remote, Restored, Session,
    SyncError, Traffic, Waiting, watch,
};

pub use synqlite_front::{Failure, Kind, machine_name, remotes};

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
