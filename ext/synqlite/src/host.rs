//! The SQLite that loads the extension: only one for each process, and none that lacks what the engine needs.

use rusqlite::ffi;
use std::ffi::CString;
use std::os::raw::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The oldest SQLite on which the engine works.
const OLDEST: c_int = 3_038_000;

/// The functions of the SQLite that loaded this first. All calls go there, so no second one may come.
static FIRST: AtomicPtr<ffi::sqlite3_api_routines> = AtomicPtr::new(ptr::null_mut());

/// Whether this SQLite may load the extension; if not, why.
///
/// # Safety
/// `api` is the table that SQLite gives to extensions.
pub unsafe fn admit(api: *mut ffi::sqlite3_api_routines) -> Result<(), String> {
    // SAFETY: the caller's promise; the entry has been in the table since the first release that has one.
    let version = unsafe { api.as_ref() }.and_then(|api| api.libversion_number);
    // SAFETY: SQLite's function takes nothing and reads a constant.
    let version = version.map_or(0, |version| unsafe { version() });
    if version < OLDEST {
        let (major, minor, patch) = (version / 1_000_000, version / 1_000 % 1_000, version % 1_000);
        return Err(format!(
            "synqlite: usage: this program has SQLite {major}.{minor}.{patch}. SynQLite needs 3.38 or later"
        ));
    }
    let first = FIRST.compare_exchange(ptr::null_mut(), api, Ordering::SeqCst, Ordering::SeqCst);
    match first {
        Err(first) if first != api => Err(
            "synqlite: usage: another SQLite library in this process has loaded SynQLite already. Two of \
             them drop each other's locks on a file; load it from one only"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

/// Gives SQLite a message that it frees.
///
/// # Safety
/// As above; `message` is where SQLite looks for it, or null.
pub unsafe fn say(api: *mut ffi::sqlite3_api_routines, message: *mut *mut c_char, text: &str) {
    // SAFETY: the caller's promise. SQLite's own function makes the copy, with a format that reads one text.
    unsafe {
        let print = api.as_ref().and_then(|api| api.mprintf);
        let (Some(print), Ok(text)) = (print, CString::new(text)) else { return };
        if !message.is_null() {
            *message = print(c"%s".as_ptr(), text.as_ptr());
        }
    }
}
