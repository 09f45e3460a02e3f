//! SynQLite inside any program that has an SQLite: `SELECT synqlite_sync()`.
//!
//! The extension brings no SQLite of its own. Two SQLite libraries in one process that open one file drop each
//! other's locks, and commits are lost without an error; so every file is opened by the library of the
//! program that loads this, and a second library in the process is refused.

mod call;
mod conflicts;
mod functions;
mod host;
mod log;
mod table;
mod wait;

use rusqlite::{Connection, ffi};
use std::os::raw::{c_char, c_int};

/// What SQLite calls when it loads the library. It stays loaded when the connection closes: a synchronization
/// may be under way on another.
///
/// # Safety
/// `db` is the connection that loads it, and `api` the table of functions that SQLite gives to extensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_synqlite_init(
    db: *mut ffi::sqlite3,
    message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if let Err(why) = host::admit(api) {
            host::say(api, message, &why);
            return ffi::SQLITE_ERROR;
        }
        Connection::extension_init2(db, message, api, register)
    }
}

fn register(db: Connection) -> rusqlite::Result<bool> {
    functions::register(&db)?;
    table::register::<conflicts::Conflicts>(&db)?;
    table::register::<log::Log>(&db)?;
    Ok(true)
}
