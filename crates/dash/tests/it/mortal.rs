//! A program without this file system that dies at a chosen operation: `vfs=mortal` is SQLite's own
//! file system until then, and does nothing to any file afterwards.
#![allow(unsafe_code)]

use rusqlite::ffi;
use std::cell::Cell;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Once;

thread_local! {
    /// How many operations this thread's program still does.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Lets this thread's program do so many more writes, cuts, synchronizations and removals; `None`
/// lets it live. What was left before: 0 if it had died, or done exactly that many.
pub fn lives(operations: Option<usize>) -> Option<usize> {
    LEFT.replace(operations)
}

/// Whether the program is alive to do one more operation.
fn step() -> bool {
    let left = LEFT.get();
    LEFT.set(left.map(|left| left.saturating_sub(1)));
    left != Some(0)
}

/// The methods of a file, and those that they stand before.
#[repr(C)]
struct Methods {
    ours: ffi::sqlite3_io_methods,
    theirs: *const ffi::sqlite3_io_methods,
}

/// Makes `vfs=mortal` known.
pub fn register() {
    static ONCE: Once = Once::new();
    // SAFETY: the file system of that name is SQLite's own, and what is registered is never freed.
    ONCE.call_once(|| unsafe {
        let ours = ffi::sqlite3_vfs {
            zName: c"mortal".as_ptr(),
            pNext: ptr::null_mut(),
            xOpen: Some(open),
            xDelete: Some(delete),
            ..*base()
        };
        assert_eq!(ffi::sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 0), ffi::SQLITE_OK);
    });
}

fn base() -> *mut ffi::sqlite3_vfs {
    // SAFETY: the name ends in a zero byte.
    unsafe { ffi::sqlite3_vfs_find(c"unix".as_ptr()) }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    if LEFT.get() == Some(0) && flags & ffi::SQLITE_OPEN_CREATE != 0 {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: SQLite's arguments for its own file system, whose files are as large as ours.
    unsafe {
        let code = (*base()).xOpen.expect("opens")(base(), name, file, flags, out);
        if let Some(theirs) = (*file).pMethods.as_ref().filter(|_| code == ffi::SQLITE_OK) {
            let ours = ffi::sqlite3_io_methods {
                iVersion: 1,
                xWrite: Some(write),
                xTruncate: Some(truncate),
                xSync: Some(sync),
                ..*theirs
            };
            // SQLite keeps pointers to methods for as long as it likes.
            let methods = Box::leak(Box::new(Methods { ours, theirs }));
            (*file).pMethods = &raw const methods.ours;
        }
        code
    }
}

/// The methods that SQLite's own file system gave a file.
unsafe fn theirs<'a>(file: *mut ffi::sqlite3_file) -> &'a ffi::sqlite3_io_methods {
    // SAFETY: `open` put ours first in a `Methods`.
    unsafe { &*(*(*file).pMethods.cast::<Methods>()).theirs }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite's arguments.
    let write = || unsafe { theirs(file).xWrite.expect("writes")(file, from, length, at) };
    if step() { write() } else { ffi::SQLITE_IOERR_WRITE }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite's arguments.
    let cut = || unsafe { theirs(file).xTruncate.expect("cuts")(file, size) };
    if step() { cut() } else { ffi::SQLITE_IOERR_TRUNCATE }
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite's arguments.
    let sync = || unsafe { theirs(file).xSync.expect("synchronizes")(file, flags) };
    if step() { sync() } else { ffi::SQLITE_IOERR_FSYNC }
}

unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite's arguments, for its own file system.
    let delete = || unsafe { (*base()).xDelete.expect("deletes")(base(), name, sync) };
    if step() { delete() } else { ffi::SQLITE_IOERR_DELETE }
}
