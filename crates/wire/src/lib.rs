//! Bytes that SynQLite sites exchange. No input or output, no SQLite, no clock: only values.
//!
//! A [`Delta`] says what changed between two [`VersionVector`]s: for each row its [`Header`]
//! (causal length and existence) and the [`Register`]s of its column groups.

pub mod change;
pub mod clock;
pub mod ids;
pub mod key;
pub mod value;

pub use change::{Cell, Delta, GroupShape, Header, Register, RowChange, Setting, TableShape};
pub use clock::{Hlc, Stamp, VersionVector};
pub use ids::{BadId, DatabaseId, Id, Rid, SiteId};
pub use value::Value;
