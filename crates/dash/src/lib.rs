//! Shadow-file commit for unmodified SQLite, as a virtual file system.
//!
//! ```no_run
//! synqlite_dash::register().expect("SQLite has a default file system");
//! // From now on any connection of this process may be opened as file:app.db?vfs=dash
//! ```
//!
//! # The idea
//!
//! Beside `app.db` there is `app.db-shadow`, which is the same database one transaction earlier. A
//! transaction is written to the shadow, together with the pages of the transaction before, so that
//! the shadow becomes the newest version; then the two files exchange their names. The database is
//! never written in place, and no page is written to a journal first.
//!
//! The shadow ends in a *trailer* that lists what was written, with a checksum. So whether a version
//! is whole can be seen in the file itself, and one synchronization makes all of it durable.
//!
//! # How SQLite is made to do it
//!
//! Every stock SQLite tells its file system enough: its rollback journal is answered with one in
//! memory; writes to the database are the pages of the transaction; `xSync` comes before the commit
//! and may fail; `FCNTL_COMMIT_PHASETWO` comes after COMMIT and never after ROLLBACK. There the names
//! are exchanged.
//!
//! # How it is built
//!
//! | module | what it does |
//! | --- | --- |
//! | `vfs` | SQLite's functions, in C's terms; the boundary; `vfs::base`: what the default file system is asked |
//! | `session` | one connection's file: SQLite's locks, reads, writes, commit |
//! | `commit` | a write transaction, from its first page to the exchange |
//! | `pair` | the two files: opening, recovery, making the shadow fit to be written |
//! | `pair::multi_file_commit` | commits of several files that died |
//! | `journal_probe` | what SQLite need not ask about journals of other programs |
//! | `pair::dash_protocol` | what only the protocols of the DASH paper do |
//! | `image`, `trailer`, `registry`, `ranges`, `checksum` | what is in the files |
//! | `shared_words` | which file is current, read from mapped memory |
//! | `mode` | the modes and their promises |
//! | `lock`, `journal`, [`disk`] | locks, the journal in memory, and every operation on files |
//!
//! Bytes, locks, the order of a commit and the states of recovery are in `docs/formats/shadow.md`.

#![cfg_attr(not(test), deny(clippy::unwrap_used))]

#[cfg(not(target_os = "linux"))]
compile_error!("synqlite-dash needs Linux: locks of open files, and the exchange of two names");

pub mod disk;

mod checksum;
mod commit;
mod error;
mod image;
mod journal;
mod journal_probe;
mod lock;
mod mode;
#[cfg(test)]
mod model;
mod pair;
mod ranges;
mod registry;
mod session;
mod shared_words;
mod trailer;
mod vfs;

pub use mode::{Found, Mode};
pub use vfs::{NAME, register, register_as, register_default};

#[cfg(feature = "loadable")]
pub use libsqlite3_sys as ffi;

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
