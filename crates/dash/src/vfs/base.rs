//! What the default file system is asked: names, libraries, randomness, time. It is called with
//! itself, as it would be without this one. What it may lack by SQLite's rules is made up for.

use super::context;
use libsqlite3_sys as ffi;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::time::{SystemTime, UNIX_EPOCH};

/// Calls the same method of the default file system; `$none` where that has none.
macro_rules! as_default {
    ($vfs:ident, $method:ident, $none:expr, $($arg:expr),*) => {{
        // SAFETY: SQLite passes the file system that it calls; the default one gets its own.
        let base = unsafe { context($vfs) }.base;
        // SAFETY: the arguments are those that SQLite passed.
        unsafe { (*base).$method.map_or($none, |method| method(base, $($arg),*)) }
    }};
}

pub(super) unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    as_default!(vfs, xAccess, ffi::SQLITE_IOERR_ACCESS, name, flags, out)
}

pub(super) unsafe extern "C" fn full_pathname(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    as_default!(vfs, xFullPathname, ffi::SQLITE_CANTOPEN, name, room, out)
}

pub(super) unsafe extern "C" fn dl_open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
) -> *mut c_void {
    as_default!(vfs, xDlOpen, ptr::null_mut(), name)
}

pub(super) unsafe extern "C" fn dl_error(
    vfs: *mut ffi::sqlite3_vfs,
    room: c_int,
    out: *mut c_char,
) {
    as_default!(vfs, xDlError, (), room, out)
}

/// What a library has under a name.
type Symbol = Option<unsafe extern "C" fn(*mut ffi::sqlite3_vfs, *mut c_void, *const c_char)>;

pub(super) unsafe extern "C" fn dl_sym(
    vfs: *mut ffi::sqlite3_vfs,
    library: *mut c_void,
    name: *const c_char,
) -> Symbol {
    as_default!(vfs, xDlSym, None, library, name)
}

pub(super) unsafe extern "C" fn dl_close(vfs: *mut ffi::sqlite3_vfs, library: *mut c_void) {
    as_default!(vfs, xDlClose, (), library)
}

pub(super) unsafe extern "C" fn randomness(
    vfs: *mut ffi::sqlite3_vfs,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    as_default!(vfs, xRandomness, 0, length, out)
}

pub(super) unsafe extern "C" fn sleep(vfs: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    as_default!(vfs, xSleep, 0, microseconds)
}

/// A library built without what is deprecated has only the time in milliseconds, and a file system of
/// the first version only that in days.
pub(super) unsafe extern "C" fn current_time_int64(
    vfs: *mut ffi::sqlite3_vfs,
    out: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes the file system that it calls, and gives room for the time. A file system
    // of the first version ends before this method.
    unsafe {
        let base = context(vfs).base;
        let exact = if (*base).iVersion >= 2 { (*base).xCurrentTimeInt64 } else { None };
        match (exact, (*base).xCurrentTime) {
            (Some(exact), _) => exact(base, out),
            (None, Some(in_days)) => {
                let mut days = 0.0;
                let code = in_days(base, &mut days);
                *out = (days * DAY) as ffi::sqlite3_int64;
                code
            }
            (None, None) => {
                *out = now();
                ffi::SQLITE_OK
            }
        }
    }
}

pub(super) unsafe extern "C" fn current_time(vfs: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    let mut time = 0;
    // SAFETY: SQLite passes the file system that it calls, and gives room for the time.
    unsafe {
        let code = current_time_int64(vfs, &mut time);
        *out = time as f64 / DAY;
        code
    }
}

/// Milliseconds in a day.
const DAY: f64 = 86_400_000.0;

/// The system's time, in milliseconds from where SQLite begins to count days.
fn now() -> ffi::sqlite3_int64 {
    const UNIX: ffi::sqlite3_int64 = 210_866_760_000_000;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX + ffi::sqlite3_int64::try_from(since.as_millis()).unwrap_or(0)
}

pub(super) unsafe extern "C" fn get_last_error(
    vfs: *mut ffi::sqlite3_vfs,
    length: c_int,
    out: *mut c_char,
) -> c_int {
    as_default!(vfs, xGetLastError, 0, length, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Machine;
    use rusqlite::{Connection, OpenFlags};
    use std::ffi::CString;
    use std::sync::Arc;

    type Base = ffi::sqlite3_vfs;
    type Change = fn(&mut Base);

    /// A connection over SQLite's own file system, of which `change` takes something away.
    fn over(name: &str, path: &std::path::Path, change: impl Fn(&mut Base)) -> Connection {
        // SAFETY: SQLite has a file system of that name, and the changed one is never freed.
        let base = unsafe {
            let mut base = *ffi::sqlite3_vfs_find(c"unix".as_ptr());
            change(&mut base);
            Box::into_raw(Box::new(base))
        };
        let vfs = CString::new(name).expect("a name");
        super::super::register_over(vfs, Arc::new(Machine), base).expect("registers");
        let uri = format!("file:{}?vfs={name}", path.display());
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags(uri, flags).expect("opens")
    }

    #[test]
    fn there_is_a_clock_whichever_the_default_file_system_has() {
        let folder = tempfile::tempdir().expect("a folder");
        let bases: [(&str, Change); 5] = [
            ("both", |_| ()),
            ("milliseconds", |base| (base.xCurrentTime, base.iVersion) = (None, 2)),
            ("days", |base| base.xCurrentTimeInt64 = None),
            ("first-version", |base| base.iVersion = 1),
            ("none", |base| (base.xCurrentTime, base.xCurrentTimeInt64) = (None, None)),
        ];
        for (name, change) in bases {
            let db = over(name, &folder.path().join(name), change);
            let sql = "SELECT abs(julianday('now') - julianday(?1, 'unixepoch')) * 86400";
            let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let apart: Option<f64> =
                db.query_row(sql, [since.as_secs() as i64], |row| row.get(0)).expect("a row");
            assert!(apart.is_some_and(|seconds| seconds < 60.0), "{name}: {apart:?}");
            db.execute_batch("CREATE TABLE t(a DEFAULT CURRENT_TIMESTAMP NOT NULL)")
                .expect("writes");
            db.execute_batch("INSERT INTO t DEFAULT VALUES").expect("there is a time");
        }
    }

    #[test]
    fn a_default_file_system_without_libraries_loads_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let db = over("still", &folder.path().join("app.db"), |base| {
            (base.xDlOpen, base.xDlError, base.xDlSym, base.xDlClose) = (None, None, None, None);
            base.xGetLastError = None;
        });
        // SAFETY: nothing is loaded.
        unsafe {
            db.load_extension_enable().expect("is allowed");
            db.load_extension("nothing.so", None::<&str>).expect_err("there is none");
        }
    }
}
