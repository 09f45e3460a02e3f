//! Makes `vfs=dash` known to the program that loads this library.

use std::os::raw::{c_char, c_int};
use synqlite_dash::ffi;

/// What SQLite calls when it loads the library. It stays loaded when the connection closes, because
/// others may use the file system by then.
///
/// # Safety
/// `api` is the table of functions that SQLite gives to extensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    _db: *mut ffi::sqlite3,
    _message: *mut *mut c_char,
    api: *mut ffi::sqlite3_api_routines,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { ffi::rusqlite_extension_init2(api) } {
        Ok(()) => match synqlite_dash::register() {
            Ok(()) => ffi::SQLITE_OK_LOAD_PERMANENTLY,
            Err(code) => code,
        },
        Err(_) => ffi::SQLITE_ERROR,
    }
}
