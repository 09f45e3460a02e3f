//! The boundary to SQLite: a virtual file system in C's terms, and nothing else. Everything it does
//! is in [`crate::session`]; here are only conversions.
//!
//! What SQLite asks for a main database, its rollback journal and a super-journal is answered here;
//! for every other file, and for time, randomness and libraries, the default file system is asked.
#![allow(unsafe_code)]

mod base;

use crate::commit::KEPT;
use crate::disk::{Disk, Handle, Open, Sync, folder};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::journal_probe;
use crate::mode::Mode;
use crate::session::{Asked, Level, Session};
use libsqlite3_sys as ffi;
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::raw::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Arc;

/// The name under which [`register`] makes the file system known.
pub const NAME: &str = "dash";

/// Makes `vfs=dash` known to the SQLite of this process. To do so twice does nothing.
///
/// # Errors
/// SQLite's result code, if it has no default file system or no memory.
pub fn register() -> std::result::Result<(), c_int> {
    register_as(NAME, Arc::new(crate::disk::Machine))
}

/// Makes it the file system of every connection of this process that names no other, in its
/// default mode.
///
/// # Errors
/// SQLite's result code, if it has no default file system or no memory.
pub fn register_default() -> std::result::Result<(), c_int> {
    register()?;
    // SAFETY: the name ends in a zero byte, and what it finds was registered above.
    match unsafe { ffi::sqlite3_vfs_register(ffi::sqlite3_vfs_find(c"dash".as_ptr()), 1) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// Makes the file system known under another name, over other files: for tests that record what is
/// written, or let it fail.
///
/// # Errors
/// SQLite's result code, if it has no default file system or no memory.
pub fn register_as(name: &str, disk: Arc<dyn Disk>) -> std::result::Result<(), c_int> {
    let name = CString::new(name).map_err(|_| ffi::SQLITE_MISUSE)?;
    // SAFETY: a null name asks for the default.
    register_over(name, disk, unsafe { ffi::sqlite3_vfs_find(ptr::null()) })
}

/// The same, where `base` answers what is not answered here.
fn register_over(
    name: CString,
    disk: Arc<dyn Disk>,
    base: *mut ffi::sqlite3_vfs,
) -> std::result::Result<(), c_int> {
    // SAFETY: `name` ends in a zero byte.
    if !unsafe { ffi::sqlite3_vfs_find(name.as_ptr()) }.is_null() {
        return Ok(());
    }
    if base.is_null() {
        return Err(ffi::SQLITE_ERROR);
    }
    // SAFETY: a file system that is registered is valid as long as the process lives. One of an
    // older version ends before the last fields of this type.
    let (room, longest) = unsafe { ((*base).szOsFile, (*base).mxPathname) };
    let vfs = ffi::sqlite3_vfs {
        // The third version is about the default file system's own calls of the system.
        iVersion: 2,
        szOsFile: room.max(size_of::<File>() as c_int),
        mxPathname: longest,
        pNext: ptr::null_mut(),
        zName: name.into_raw(),
        pAppData: Box::into_raw(Box::new(Context { disk, base, asked: Arc::default() })).cast(),
        xOpen: Some(open),
        xDelete: Some(delete),
        xAccess: Some(access),
        xFullPathname: Some(base::full_pathname),
        xDlOpen: Some(base::dl_open),
        xDlError: Some(base::dl_error),
        xDlSym: Some(base::dl_sym),
        xDlClose: Some(base::dl_close),
        xRandomness: Some(base::randomness),
        xSleep: Some(base::sleep),
        xCurrentTime: Some(base::current_time),
        xGetLastError: Some(base::get_last_error),
        xCurrentTimeInt64: Some(base::current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    };
    let vfs = Box::into_raw(Box::new(vfs));
    // SAFETY: `vfs`, its name and its context are never freed, which is what SQLite asks for.
    match unsafe { ffi::sqlite3_vfs_register(vfs, 0) } {
        ffi::SQLITE_OK => Ok(()),
        code => Err(code),
    }
}

/// What the file system needs for every call.
struct Context {
    disk: Arc<dyn Disk>,
    base: *mut ffi::sqlite3_vfs,
    asked: Arc<journal_probe::Asked>,
}

/// What SQLite calls a file: its methods, and ours behind them.
#[repr(C)]
struct File {
    methods: *const ffi::sqlite3_io_methods,
    inner: *mut Inner,
}

/// The three kinds of files that are answered here.
enum Inner {
    Database(Database),
    Journal(Journal),
    Super { disk: Arc<dyn Disk>, file: Handle, path: PathBuf, named: bool },
}

/// A main database, or why it was refused.
struct Database {
    session: std::result::Result<Box<Session>, String>,
    /// Why the last lock or commit was refused.
    refused: Option<String>,
    busy: Busy,
    asked: Arc<journal_probe::Asked>,
    /// Where SQLite keeps the names of its journal and its log.
    names: [usize; 2],
}

impl Drop for Database {
    fn drop(&mut self) {
        self.asked.close(self.names);
    }
}

/// SQLite's busy handler, as it was told to the file.
#[repr(C)]
#[derive(Clone, Copy)]
struct Busy {
    call: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    with: *mut c_void,
}

impl Busy {
    fn ask(self) -> bool {
        // SAFETY: SQLite told both together, and they stay valid while the file is open.
        self.call.is_some_and(|call| unsafe { call(self.with) } != 0)
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    ..NOTHING
};

// SAFETY: its fields are a number and functions that may be missing, which is what zeros mean.
const NOTHING: ffi::sqlite3_io_methods = unsafe { std::mem::zeroed() };

/// The context of a call on the file system.
///
/// # Safety
/// `vfs` is one that [`register_as`] made.
unsafe fn context<'a>(vfs: *mut ffi::sqlite3_vfs) -> &'a Context {
    // SAFETY: the context was leaked when the file system was registered.
    unsafe { &*(*vfs).pAppData.cast::<Context>() }
}

/// The file of a call on a file.
///
/// # Safety
/// `file` is one that [`open`] filled in and [`close`] has not seen, and no other call on it is
/// under way, which SQLite promises.
unsafe fn inner<'a>(file: *mut ffi::sqlite3_file) -> &'a mut Inner {
    // SAFETY: `open` put a leaked box there.
    unsafe { &mut *(*file.cast::<File>()).inner }
}

/// A result as SQLite's code; errors with a text go to SQLite's log too.
fn code(result: Result<()>) -> c_int {
    match result {
        Ok(()) => ffi::SQLITE_OK,
        Err(error) => {
            let code = error.code();
            if !matches!(error, Error::Busy | Error::Snapshot) {
                log(code, &error.to_string());
            }
            code
        }
    }
}

/// Why something was refused, for `PRAGMA dash` to say.
fn reason(result: &Result<()>) -> Option<String> {
    match result {
        Err(Error::Refused(why)) => Some(why.clone()),
        _ => None,
    }
}

fn log(code: c_int, text: &str) {
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: both texts end in a zero byte, and the format takes exactly one of them.
    unsafe { ffi::sqlite3_log(code, c"%s".as_ptr(), text.as_ptr()) };
}

/// A path that SQLite gave.
///
/// # Safety
/// `name` ends in a zero byte.
unsafe fn path<'a>(name: *const c_char) -> &'a Path {
    // SAFETY: the caller's promise.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the file system that it calls.
    let context = unsafe { context(vfs) };
    let is = |kind: c_int| flags & kind != 0;
    let ours = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_SUPER_JOURNAL;
    let journal = is(ffi::SQLITE_OPEN_MAIN_JOURNAL) && !is(ffi::SQLITE_OPEN_READONLY);
    if name.is_null() || !(is(ours) || journal || is(ffi::SQLITE_OPEN_WAL)) {
        // SAFETY: the default file system gets its own pointer and a file with room for its own.
        return unsafe {
            let base = context.base;
            (*base)
                .xOpen
                .map_or(ffi::SQLITE_CANTOPEN, |open| open(base, name, file, flags, out_flags))
        };
    }
    // SAFETY: SQLite gives room for a file, which has no methods until it is open.
    unsafe { (*file.cast::<File>()).methods = ptr::null() };
    // SAFETY: names of SQLite end in a zero byte.
    let at = unsafe { path(name) };
    let mut result_flags = flags;
    let opened = if is(ffi::SQLITE_OPEN_WAL) {
        Err(Error::Refused("vfs=dash has no write-ahead log".to_owned()))
    } else if journal && is(ffi::SQLITE_OPEN_CREATE) {
        Ok(Inner::Journal(Journal::new(folder(at))))
    } else if journal {
        // Only to play back what another program left.
        let opened = context.disk.open(at, Open::Write).map_err(reading);
        opened.map(|file| Inner::Journal(Journal::left(folder(at), context.disk.clone(), file)))
    } else if is(ffi::SQLITE_OPEN_SUPER_JOURNAL) {
        open_super(context, at, flags)
    } else {
        // SAFETY: for a main database SQLite's parameters follow the name.
        let asked = unsafe { asked(name) };
        // SAFETY: for a main database both names follow.
        let names =
            unsafe { [ffi::sqlite3_filename_journal(name), ffi::sqlite3_filename_wal(name)] };
        let names = names.map(|name| name as usize);
        open_database(context, at, names, asked, &mut result_flags)
    };
    match opened {
        Ok(inner) => {
            // SAFETY: there is room for a file, and for the flags if they are asked for.
            unsafe {
                (*file.cast::<File>()).inner = Box::into_raw(Box::new(inner));
                (*file.cast::<File>()).methods = &METHODS;
                if let Some(out) = out_flags.as_mut() {
                    *out = result_flags;
                }
            }
            ffi::SQLITE_OK
        }
        Err(error) => code(Err(error)),
    }
}

/// What the parameters of a database's name ask for, or why there is no such thing.
///
/// # Safety
/// `name` is one that SQLite passes for a main database.
unsafe fn asked(name: *const c_char) -> std::result::Result<Asked, String> {
    let parameter = |key: &CStr| {
        // SAFETY: the caller's promise, and the key ends in a zero byte.
        let value = unsafe { ffi::sqlite3_uri_parameter(name, key.as_ptr()) };
        // SAFETY: a parameter ends in a zero byte.
        (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy())
    };
    // SAFETY: as above.
    let at_risk = unsafe { ffi::sqlite3_uri_boolean(name, c"dash_unsafe".as_ptr(), 0) } != 0;
    let mode = Mode::chosen(parameter(c"dash").as_deref(), at_risk)?;
    let memory = match parameter(c"dash_memory") {
        None => KEPT,
        Some(bytes) => bytes.parse().map_err(|_| {
            format!("dash_memory={bytes} is no number of bytes; write it like dash_memory={KEPT}")
        })?,
    };
    Ok(Asked { mode, memory })
}

/// Opens a main database. One that is refused opens all the same, so that `PRAGMA dash` can say
/// why; every other use of it fails.
fn open_database(
    context: &Context,
    at: &Path,
    names: [usize; 2],
    asked: std::result::Result<Asked, String>,
    flags: &mut c_int,
) -> Result<Inner> {
    let create = *flags & ffi::SQLITE_OPEN_CREATE != 0;
    let mut how = match *flags & ffi::SQLITE_OPEN_READONLY != 0 {
        true => Open::Read,
        false if create => Open::Create,
        false => Open::Write,
    };
    let session = match asked {
        Err(why) => Err(Error::Refused(why)),
        Ok(asked) => {
            Session::open(context.disk.clone(), at, asked, how).or_else(|error| match error {
                Error::Io { ref error, .. } if how != Open::Read && is_read_only(error) => {
                    how = Open::Read;
                    Session::open(context.disk.clone(), at, asked, how)
                }
                error => Err(error),
            })
        }
    };
    if how == Open::Read {
        *flags = (*flags & !(ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE))
            | ffi::SQLITE_OPEN_READONLY;
    }
    let busy = Busy { call: None, with: ptr::null_mut() };
    let session = match session {
        Ok(session) => {
            context.asked.open(names, session.quiet());
            Ok(Box::new(session))
        }
        Err(Error::Refused(why)) => {
            log(ffi::SQLITE_CANTOPEN, &why);
            Err(why)
        }
        Err(error) => return Err(error),
    };
    let asked = context.asked.clone();
    Ok(Inner::Database(Database { session, refused: None, busy, asked, names }))
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn open_super(context: &Context, at: &Path, flags: c_int) -> Result<Inner> {
    use crate::error::Context as _;
    let create = flags & ffi::SQLITE_OPEN_CREATE != 0;
    let how = if create { Open::Create } else { Open::Read };
    let file = context.disk.open(at, how).when("opening a super-journal", ffi::SQLITE_CANTOPEN)?;
    Ok(Inner::Super { disk: context.disk.clone(), file, path: at.to_owned(), named: !create })
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: `open` leaked the box, and SQLite closes a file once.
    let inner = unsafe { Box::from_raw((*file.cast::<File>()).inner) };
    match *inner {
        Inner::Database(mut database) => {
            let session = std::mem::replace(&mut database.session, Err(String::new()));
            session.map_or(ffi::SQLITE_OK, |session| code(session.close()))
        }
        _ => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn read(
    file: *mut ffi::sqlite3_file,
    into: *mut c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gives room for `length` bytes.
    let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), length as usize) };
    let offset = offset as u64;
    // SAFETY: SQLite passes an open file.
    let got = match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), .. }) => session.read(offset, into),
        // SQLite looks at the header while it opens a file; the refusal comes with the first lock.
        Inner::Database(_) => Ok(0),
        Inner::Journal(journal) => journal.read(offset, into).map_err(reading),
        Inner::Super { file, .. } => crate::image::read_up_to(file, into, offset).map_err(reading),
    };
    match got {
        Ok(got) if got == into.len() => ffi::SQLITE_OK,
        Ok(got) => {
            into[got..].fill(0);
            ffi::SQLITE_IOERR_SHORT_READ
        }
        Err(error) => code(Err(error)),
    }
}

fn reading(error: io::Error) -> Error {
    Error::Io { what: "reading a journal", code: ffi::SQLITE_IOERR_READ, error }
}

fn writing(error: io::Error) -> Error {
    Error::Io { what: "writing a journal", code: ffi::SQLITE_IOERR_WRITE, error }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gives `length` bytes.
    let from = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), length as usize) };
    let offset = offset as u64;
    // SAFETY: SQLite passes an open file.
    code(match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), busy, .. }) => {
            let busy = *busy;
            session.write(offset, from, &mut || busy.ask())
        }
        Inner::Database(_) => return ffi::SQLITE_CANTOPEN,
        Inner::Journal(journal) => journal.write(offset, from).map_err(writing),
        Inner::Super { disk, file, .. } => disk.write(file, offset, from).map_err(writing),
    })
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: ffi::sqlite3_int64) -> c_int {
    let size = size as u64;
    // SAFETY: SQLite passes an open file.
    code(match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), .. }) => session.truncate(size),
        Inner::Database(_) => return ffi::SQLITE_CANTOPEN,
        Inner::Journal(journal) => journal.truncate(size).map_err(writing),
        Inner::Super { disk, file, .. } => disk.set_len(file, size).map_err(writing),
    })
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    code(match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), busy, .. }) => {
            let busy = *busy;
            session.sync(&mut || busy.ask())
        }
        Inner::Database(_) => return ffi::SQLITE_CANTOPEN,
        Inner::Journal(_) => Ok(()),
        Inner::Super { disk, file, path, named } => {
            // Its name has to be there before any file says that it commits with it.
            let folder = if *named { Ok(()) } else { disk.sync_folder(path) };
            *named = true;
            disk.sync(file, Sync::Bytes).and(folder).map_err(|error| {
                let what = "making a super-journal durable";
                Error::Io { what, code: ffi::SQLITE_IOERR_FSYNC, error }
            })
        }
    })
}

unsafe extern "C" fn file_size(
    file: *mut ffi::sqlite3_file,
    size: *mut ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    let found = match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), .. }) => session.size(),
        Inner::Database(_) => return ffi::SQLITE_CANTOPEN,
        Inner::Journal(journal) => journal.length().map_err(reading),
        Inner::Super { file, .. } => file.file.metadata().map(|m| m.len()).map_err(reading),
    };
    code(found.map(|found| {
        // SAFETY: SQLite gives room for the size.
        unsafe { *size = found as ffi::sqlite3_int64 }
    }))
}

unsafe extern "C" fn lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let level = match level {
        ffi::SQLITE_LOCK_NONE => return ffi::SQLITE_OK,
        ffi::SQLITE_LOCK_SHARED => Level::Shared,
        ffi::SQLITE_LOCK_RESERVED => Level::Reserved,
        _ => Level::Exclusive,
    };
    // SAFETY: SQLite passes an open file.
    match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), refused, .. }) => {
            let locked = session.lock(level);
            *refused = reason(&locked);
            code(locked)
        }
        Inner::Database(_) => ffi::SQLITE_CANTOPEN,
        _ => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    let none = level == ffi::SQLITE_LOCK_NONE;
    let level = if none { Level::None } else { Level::Shared };
    // SAFETY: SQLite passes an open file.
    match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), .. }) => code(session.unlock(level)),
        _ => ffi::SQLITE_OK,
    }
}

unsafe extern "C" fn check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: SQLite passes an open file.
    let reserved = match unsafe { inner(file) } {
        Inner::Database(Database { session: Ok(session), .. }) => session.is_reserved(),
        _ => Ok(false),
    };
    code(reserved.map(|reserved| {
        // SAFETY: SQLite gives room for the answer.
        unsafe { *out = reserved.into() }
    }))
}

unsafe extern "C" fn file_control(
    file: *mut ffi::sqlite3_file,
    op: c_int,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: SQLite passes an open file.
    let Inner::Database(database) = (unsafe { inner(file) }) else { return ffi::SQLITE_NOTFOUND };
    if op == ffi::SQLITE_FCNTL_PRAGMA {
        // SAFETY: for this operation the argument is an array of three texts.
        return unsafe { pragma(database, &mut *arg.cast::<[*mut c_char; 3]>()) };
    }
    let Ok(session) = &mut database.session else { return ffi::SQLITE_NOTFOUND };
    match op {
        ffi::SQLITE_FCNTL_BUSYHANDLER => {
            // SAFETY: for this operation the argument is a function and what to call it with.
            database.busy = unsafe { *arg.cast::<Busy>() };
            ffi::SQLITE_OK
        }
        ffi::SQLITE_FCNTL_SYNC => {
            let name = arg.cast::<c_char>();
            let name = match name.is_null() {
                true => String::new(),
                // SAFETY: for this operation the argument is a text or null.
                false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
            };
            session.commit_with(&name);
            ffi::SQLITE_OK
        }
        ffi::SQLITE_FCNTL_COMMIT_PHASETWO => {
            let busy = database.busy;
            let done = session.commit(&mut || busy.ask());
            database.refused = reason(&done);
            code(done)
        }
        ffi::SQLITE_FCNTL_VFSNAME => {
            // SAFETY: for this operation the argument takes a text that SQLite frees.
            unsafe { *arg.cast::<*mut c_char>() = text(NAME) };
            ffi::SQLITE_OK
        }
        _ => ffi::SQLITE_NOTFOUND,
    }
}

/// Answers a pragma: `texts` are the answer, the name and the value.
///
/// # Safety
/// The name and the value are null or end in a zero byte.
unsafe fn pragma(database: &Database, texts: &mut [*mut c_char; 3]) -> c_int {
    // SAFETY: the caller's promise.
    let word = |at: usize| match texts[at].is_null() {
        true => None,
        false => Some(unsafe { CStr::from_ptr(texts[at]) }.to_string_lossy().to_lowercase()),
    };
    let (name, value) = (word(1).unwrap_or_default(), word(2));
    let session = match (&database.session, &database.refused) {
        (Ok(session), None) => Ok(session),
        (Err(why), _) | (_, Some(why)) => Err(why),
    };
    let answer = match (name.as_str(), value.as_deref(), session) {
        ("dash", None, Ok(session)) => Ok(session.mode().name().to_owned()),
        ("dash", None, Err(why)) => Err(why.clone()),
        ("dash", Some(_), _) => {
            Err("the mode is chosen on opening: file:app.db?vfs=dash&dash=strict".to_owned())
        }
        ("journal_mode", Some("wal"), _) => {
            Err("vfs=dash keeps a shadow instead of a write-ahead \
             log; open the database without vfs=dash to use WAL"
                .to_owned())
        }
        _ => return ffi::SQLITE_NOTFOUND,
    };
    let (code, answer) = match answer {
        Ok(answer) => (ffi::SQLITE_OK, answer),
        Err(why) => (ffi::SQLITE_ERROR, why),
    };
    texts[0] = text(&answer);
    code
}

/// A text that SQLite frees; null if there is no memory.
fn text(of: &str) -> *mut c_char {
    // SAFETY: the memory has room for the text and a zero byte.
    unsafe {
        let out = ffi::sqlite3_malloc64(of.len() as u64 + 1).cast::<u8>();
        if !out.is_null() {
            ptr::copy_nonoverlapping(of.as_ptr(), out, of.len());
            *out.add(of.len()) = 0;
        }
        out.cast()
    }
}

unsafe extern "C" fn sector_size(_file: *mut ffi::sqlite3_file) -> c_int {
    4096
}

unsafe extern "C" fn device_characteristics(_file: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE
}

unsafe extern "C" fn delete(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    sync_folder: c_int,
) -> c_int {
    // SAFETY: SQLite passes the file system that it calls, and a name.
    let (context, at) = unsafe { (context(vfs), path(name)) };
    let disk = context.disk.as_ref();
    if context.asked.is_absent(name as usize) {
        return ffi::SQLITE_OK;
    }
    let name = at.file_name().unwrap_or_default().to_string_lossy();
    if !at.exists() {
        // A journal in memory. An error here would keep SQLite from the end of its commit.
        return ffi::SQLITE_OK;
    }
    if sync_folder == 0 && name.contains("-mj") {
        // A commit that is given up; `several` removes it when every file is rolled back.
        return ffi::SQLITE_OK;
    }
    let removed = match disk.remove(at) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return ffi::SQLITE_OK,
        // The name is gone and nobody would know whether it stays so. Journals of file systems fail
        // for good, so a second call that succeeds has made it durable.
        Ok(()) if sync_folder != 0 => disk.sync_folder(at).or_else(|_| disk.sync_folder(at)),
        other => other,
    };
    code(removed.map_err(|error| {
        let what = "removing a journal";
        Error::Io { what, code: ffi::SQLITE_IOERR_DELETE, error }
    }))
}

unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes the file system that it calls.
    if unsafe { context(vfs) }.asked.is_absent(name as usize) {
        // SAFETY: SQLite gives room for the answer.
        unsafe { *out = 0 };
        return ffi::SQLITE_OK;
    }
    // SAFETY: what SQLite passed.
    unsafe { base::access(vfs, name, flags, out) }
}
