//! Counts what SQLite asks of the file system: reads, writes, bytes, syncs.
//!
//! The VFS stands in front of SQLite's default one and passes everything on, so a database behaves
//! as without it; it is made the default, so that every connection of the process is counted, the
//! engine's own included. Counts are exact where the machine's times are not. Shared memory and
//! memory-mapped reads are not files' reads and are not counted.
//!
//! [`crate::shadow`] counts here what `vfs=dash` does.
//!
//! A sync is one that reaches the device: a call of `xSync`, and one more of the folder where SQLite
//! syncs it, namely at the first sync of a new journal and at a deletion that asks for it. A test
//! compares the counts with `strace`.
#![allow(unsafe_code)]

use rusqlite::ffi;
use serde::{Deserialize, Serialize};
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

/// What SQLite asked of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Calls that read.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Syncs of files and folders.
    pub syncs: u64,
    /// Files opened.
    pub opens: u64,
    /// Files deleted.
    pub deletes: u64,
    /// Files cut.
    pub truncates: u64,
    /// Names changed or exchanged.
    #[serde(default)]
    pub renames: u64,
}

impl Counts {
    /// What was counted after `earlier`.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            reads: self.reads - earlier.reads,
            read_bytes: self.read_bytes - earlier.read_bytes,
            writes: self.writes - earlier.writes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            syncs: self.syncs - earlier.syncs,
            opens: self.opens - earlier.opens,
            deletes: self.deletes - earlier.deletes,
            truncates: self.truncates - earlier.truncates,
            renames: self.renames - earlier.renames,
        }
    }

    /// All calls; locks and questions about files are not among them.
    pub fn calls(self) -> u64 {
        let names = self.deletes + self.renames;
        self.reads + self.writes + self.syncs + self.opens + self.truncates + names
    }

    /// Adds other counts.
    pub fn add(&mut self, more: Counts) {
        self.reads += more.reads;
        self.read_bytes += more.read_bytes;
        self.writes += more.writes;
        self.written_bytes += more.written_bytes;
        self.syncs += more.syncs;
        self.opens += more.opens;
        self.deletes += more.deletes;
        self.truncates += more.truncates;
        self.renames += more.renames;
    }
}

/// Adds to one of the counters below.
pub fn count(what: &AtomicU64, by: u64) {
    what.fetch_add(by, Relaxed);
}

static READS: AtomicU64 = AtomicU64::new(0);
static READ_BYTES: AtomicU64 = AtomicU64::new(0);
/// See [`Counts`].
pub static WRITES: AtomicU64 = AtomicU64::new(0);
/// See [`Counts`].
pub static WRITTEN_BYTES: AtomicU64 = AtomicU64::new(0);
/// See [`Counts`].
pub static SYNCS: AtomicU64 = AtomicU64::new(0);
/// See [`Counts`].
pub static OPENS: AtomicU64 = AtomicU64::new(0);
/// See [`Counts`].
pub static DELETES: AtomicU64 = AtomicU64::new(0);
/// See [`Counts`].
pub static TRUNCATES: AtomicU64 = AtomicU64::new(0);
/// See [`Counts`].
pub static RENAMES: AtomicU64 = AtomicU64::new(0);

/// What was counted since the process began.
pub fn counts() -> Counts {
    Counts {
        reads: READS.load(Relaxed),
        read_bytes: READ_BYTES.load(Relaxed),
        writes: WRITES.load(Relaxed),
        written_bytes: WRITTEN_BYTES.load(Relaxed),
        syncs: SYNCS.load(Relaxed),
        opens: OPENS.load(Relaxed),
        deletes: DELETES.load(Relaxed),
        truncates: TRUNCATES.load(Relaxed),
        renames: RENAMES.load(Relaxed),
    }
}

/// SQLite's default VFS, to which all is passed on.
static INNER: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(std::ptr::null_mut());

/// A file of ours; the one of the default VFS follows it in the same allocation.
#[repr(C)]
struct File {
    base: ffi::sqlite3_file,
    /// Its first sync syncs its folder too.
    new_journal: bool,
}

/// Makes the counting VFS the default one of the process. Later calls change nothing.
pub fn install() -> Result<(), rusqlite::Error> {
    static INSTALLED: OnceLock<c_int> = OnceLock::new();
    let code = *INSTALLED.get_or_init(|| {
        // SAFETY: SQLite allows finding and registering VFSs at any time, from any thread; its
        // registered VFSs live as long as the process, and so does the leaked copy.
        unsafe {
            let inner = ffi::sqlite3_vfs_find(std::ptr::null());
            if inner.is_null() {
                return ffi::SQLITE_ERROR;
            }
            INNER.store(inner, Relaxed);
            // A copy keeps the private data and with them every function that is not replaced.
            let mut ours = *inner;
            ours.szOsFile += size_of::<File>() as c_int;
            ours.zName = c"synqlite-lab-counting".as_ptr();
            ours.pNext = std::ptr::null_mut();
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);
            ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 1)
        }
    });
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

/// The default VFS's file behind one of ours.
///
/// SAFETY: `file` must be one that `open` was given: `szOsFile` makes SQLite allocate both.
unsafe fn real(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    unsafe { file.byte_add(size_of::<File>()) }
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    count(&OPENS, 1);
    let inner = INNER.load(Relaxed);
    // SAFETY: SQLite's arguments are passed on, with the part of its allocation that follows ours.
    unsafe {
        let journal = flags & (ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_WAL) != 0;
        let ours = file.cast::<File>();
        (*ours).new_journal = journal && flags & ffi::SQLITE_OPEN_CREATE != 0;
        let (code, opened) = match (*inner).xOpen {
            Some(call) => {
                (*real(file)).pMethods = std::ptr::null();
                let code = call(inner, name, real(file), flags, out);
                (code, !(*real(file)).pMethods.is_null())
            }
            None => (ffi::SQLITE_ERROR, false),
        };
        // SQLite closes a file if and only if it has methods, even after a failed open.
        (*ours).base.pMethods = if opened { &METHODS } else { std::ptr::null() };
        code
    }
}

unsafe extern "C" fn delete(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    count(&DELETES, 1);
    count(&SYNCS, u64::from(sync_folder != 0));
    let inner = INNER.load(Relaxed);
    // SAFETY: SQLite's arguments are passed on.
    unsafe { (*inner).xDelete.map_or(ffi::SQLITE_ERROR, |call| call(inner, name, sync_folder)) }
}

/// Passes a call on to the default VFS's file.
macro_rules! pass {
    ($name:ident ( $($arg:ident : $type:ty),* ) -> $out:ty, $method:ident, $missing:expr) => {
        pass!($name($($arg: $type),*) -> $out, $method, $missing, {});
    };
    ($name:ident ( $($arg:ident : $type:ty),* ) -> $out:ty, $method:ident, $missing:expr, $count:block) => {
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file $(, $arg: $type)*) -> $out {
            $count
            // SAFETY: SQLite calls methods only of files that `open` opened, so the default VFS's
            // file follows and has methods; the arguments are SQLite's own.
            unsafe {
                let file = real(file);
                (*(*file).pMethods).$method.map_or($missing, |call| call(file $(, $arg)*))
            }
        }
    };
}

pass!(read(to: *mut c_void, len: c_int, at: i64) -> c_int, xRead, ffi::SQLITE_IOERR, {
    count(&READS, 1);
    count(&READ_BYTES, len as u64);
});
pass!(write(from: *const c_void, len: c_int, at: i64) -> c_int, xWrite, ffi::SQLITE_IOERR, {
    count(&WRITES, 1);
    count(&WRITTEN_BYTES, len as u64);
});
pass!(truncate(size: i64) -> c_int, xTruncate, ffi::SQLITE_IOERR, {
    count(&TRUNCATES, 1);
});
pass!(close() -> c_int, xClose, ffi::SQLITE_OK);
pass!(file_size(size: *mut i64) -> c_int, xFileSize, ffi::SQLITE_IOERR);
pass!(lock(level: c_int) -> c_int, xLock, ffi::SQLITE_OK);
pass!(unlock(level: c_int) -> c_int, xUnlock, ffi::SQLITE_OK);
pass!(reserved(out: *mut c_int) -> c_int, xCheckReservedLock, ffi::SQLITE_OK);
pass!(control(op: c_int, arg: *mut c_void) -> c_int, xFileControl, ffi::SQLITE_NOTFOUND);
pass!(sector_size() -> c_int, xSectorSize, 4096);
pass!(characteristics() -> c_int, xDeviceCharacteristics, 0);
pass!(shm_map(page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int, xShmMap, ffi::SQLITE_IOERR);
pass!(shm_lock(offset: c_int, n: c_int, flags: c_int) -> c_int, xShmLock, ffi::SQLITE_IOERR);
pass!(shm_barrier() -> (), xShmBarrier, ());
pass!(shm_unmap(delete: c_int) -> c_int, xShmUnmap, ffi::SQLITE_OK);
pass!(fetch(at: i64, len: c_int, out: *mut *mut c_void) -> c_int, xFetch, ffi::SQLITE_IOERR);
pass!(unfetch(at: i64, page: *mut c_void) -> c_int, xUnfetch, ffi::SQLITE_OK);

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: as in `pass`; `file` begins with our own part.
    unsafe {
        let ours = file.cast::<File>();
        count(&SYNCS, 1 + u64::from(std::mem::take(&mut (*ours).new_journal)));
        let file = real(file);
        (*(*file).pMethods).xSync.map_or(ffi::SQLITE_IOERR, |call| call(file, flags))
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};
