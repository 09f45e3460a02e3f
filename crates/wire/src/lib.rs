//! Bytes that SynQLite sites exchange. No input or output, no SQLite, no clock: only values.
//!
//! Main types, from small to large:
//!
//! - [`Id`] names a site or a database, [`Rid`] a row: the same on every site, for ever.
//! - [`Stamp`] says when ([`Hlc`]) and where ([`SiteId`]) a write was made, and orders all writes.
//!   A [`VersionVector`] says which of them a site contains. A [`Line`] says by which clocks a site
//!   came to where it is.
//! - [`Value`] is a value as SQLite stores it; [`key`] makes the bytes of a primary key.
//! - [`Header`] (causal length and existence) and [`Register`]s (one for each group of columns) are
//!   the state of a row. A [`RowChange`] carries both. A [`Counter`] is a register and, for each site
//!   that changed it, a [`Count`].
//! - [`Delta`] says what changed between two version vectors, and [`Delta::check`] whether it is one
//!   that others can rely on; [`batch`] makes it bytes.
//!
//! The engine makes a delta from its tables and joins one into them. A remote keeps batches, and
//! chooses among them by their [headers](BatchHeader), without reading further. Both rely on this:
//! what one site encodes another decodes to the same delta, or it gets an error.
//!
//! ```
//! use synqlite_wire::{batch, Delta, Hlc, Header, Id, Register, Rid, RowChange, Stamp};
//! use synqlite_wire::{Cell, GroupShape, TableShape};
//!
//! // Site 7 inserted a row into todo(id, title), as the first that it made in that table.
//! let (database, site) = (Id([1; 16]), Id([7; 16]));
//! let stamp = Stamp { hlc: Hlc::at_ms(1_795_000_000_000), site };
//! let group = |column: &str| GroupShape { columns: vec![column.into()], refs: vec![] };
//! let register = |group, value| Register {
//!     group,
//!     stamp,
//!     cell: Cell { values: vec![value], refs: vec![] },
//!     previous: None,
//!     pinned: false,
//!     counts: vec![],
//! };
//! let mut delta = Delta::default();
//! delta.upto.raise(site, stamp.hlc);
//! delta.tables.push(TableShape { name: "todo".into(), groups: vec![group("id"), group("title")] });
//! delta.rows.push(RowChange {
//!     table: 0,
//!     rid: Rid::Birth { site, n: 1 },
//!     header: Header::born(stamp),
//!     registers: vec![register(0, 1.into()), register(1, "milk".into())],
//! });
//!
//! let bytes = batch::encode(database, site, &delta)?;
//!
//! // Another site looks at the header to see whether it needs the batch, and then reads it.
//! let header = batch::decode_header(&bytes[..bytes.len().min(batch::HEADER_PREFIX)])?;
//! assert_eq!((header.database, header.rows()), (database, 1));
//! assert!(!delta.base.dominates(&header.upto));
//! assert_eq!(batch::decode(&bytes)?.1, [delta]);
//! # Ok::<(), synqlite_wire::BatchError>(())
//! ```

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::indexing_slicing))]

#[cfg(feature = "batch")]
pub mod batch;
pub mod change;
mod check;
pub mod clock;
pub mod counter;
pub mod ids;
pub mod key;
pub mod line;
pub mod told;
pub mod units;
pub mod value;

#[cfg(test)]
mod strategies;

#[cfg(feature = "batch")]
pub use batch::{BatchError, BatchHeader};
pub use change::{Cell, Delta, GroupShape, Header, Register, RowChange, Setting, TableShape};
pub use check::InvalidDelta;
pub use clock::{Hlc, Stamp, VersionVector};
pub use counter::{Count, Counter, Number};
pub use ids::{BadId, DatabaseId, Id, PrefixHash, Rid, SiteId};
pub use line::{Line, Point};
pub use told::Told;
pub use value::Value;

// Its example is compiled and run with the doc tests; nobody else sees this.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
