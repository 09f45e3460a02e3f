//! What sites exchange that never meet, and the stores where it is kept.
//!
//! Such sites exchange objects: immutable, opaque, named bytes of two [`Kind`]s. A
//! *batch* holds what changed on one site between two of its local positions. A *snapshot* holds
//! everything a site knew at one position, so that a new clone need not replay history. Both are
//! named by what they hold ([`ObjectName`]), so putting one twice is harmless.
//!
//! A [`Store`] keeps objects and promises little: list them, read them, put one if it is absent.
//! Whatever keeps that promise passes [`conformance`]. [`Folder`] does it on a plain file system,
//! [`Hub`] over HTTP, [`Bucket`] on object storage, [`Sealed`] over any of them, so
//! that whoever keeps the objects cannot read them.
//! No store looks inside an object; readers verify what they read, because a folder may be copied,
//! synchronized or damaged by other programs.
//!
//! ```
//! use synqlite_objects::{Folder, Kind, ObjectName, Put, Store};
//! use synqlite_wire::Id;
//!
//! # fn main() -> synqlite_objects::Result<()> {
//! # let dir = tempfile::tempdir().expect("a temporary folder");
//! # let url = format!("file://{}/", dir.path().display());
//! let store = Folder::from_url(&url)?; // file:///media/stick/team/
//! let (database, site) = (Id([1; 16]), Id([2; 16]));
//! let name = ObjectName::batch(database, site, 0, 17);
//! assert_eq!(store.put_if_absent(&name, b"changes")?, Put::Created);
//! assert_eq!(store.put_if_absent(&name, b"changes")?, Put::AlreadyThere);
//! assert_eq!(store.list(database, Kind::Batch)?[0].name, name);
//! assert_eq!(store.read(&name)?, b"changes");
//! # Ok(())
//! # }
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

#[cfg(feature = "bucket")]
mod bucket;
pub mod conformance;
mod error;
pub mod files;
mod folder;
mod http;
mod hub;
mod key;
mod name;
pub mod percent;
mod sealed;
mod snapshot;
mod store;
mod stranger;
mod trail;
mod url;

#[cfg(feature = "bucket")]
pub use bucket::{Bucket, Storage};
pub use error::{Error, Result};
pub use folder::Folder;
pub use hub::{Hub, SITE_NAME};
pub use key::Key;
pub use name::{Kind, ObjectName};
pub use sealed::Sealed;
pub use snapshot::{
    SnapshotHead, SnapshotHeader, decode_snapshot_head, fetch_snapshot, peek_snapshot,
    put_snapshot, read_snapshot, write_snapshot,
};
pub use store::{
    Ask, Changes, Cursor, Entry, Fingerprint, Found, KeyId, Least, Mark, Put, Step, Store,
    find_database, only_database,
};
pub use trail::{REACH, Trail, next as next_prefix};
pub use url::blanked;

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
