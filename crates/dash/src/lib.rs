//! Shadow-file commit for unmodified SQLite, as a virtual file system.

pub mod disk;

mod commit;
mod error;
mod image;
mod journal;
mod lock;
mod mode;
mod pair;
mod paper;
mod ranges;
mod registry;
mod session;
mod trailer;
mod vfs;

pub use mode::{Found, Mode};
pub use vfs::{NAME, register, register_as};

#[cfg(feature = "loadable")]
pub use libsqlite3_sys as ffi;
