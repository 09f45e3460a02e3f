//! Copies the file that SQLite has open, in large pieces.
//!
//! In the modes with a rollback journal the file is the snapshot, as long as a read transaction is open:
//! nobody writes to it meanwhile. It is read through SQLite's own handle, because a second one would
//! take the locks of this process along when it is closed, as POSIX has it.

use crate::{Error, Result};
use rusqlite::{Connection, ffi};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::ptr::null_mut;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// Copies the database into a new file at `to`, as [`fill`] does.
pub(crate) fn copy(conn: &Connection, to: &Path, tell: &dyn Fn(u64, u64)) -> Result<()> {
    let mut out = File::create(to).map_err(|e| unwritten(&e, to))?;
    fill(conn, &mut out, to, tell)
}

/// Copies the database into a file, which errors call `to`. Calls `tell` with the bytes done and their total.
///
/// A read transaction must be open on `conn`, and its journal mode must not be WAL.
pub(crate) fn fill(
    conn: &Connection,
    out: &mut File,
    to: &Path,
    tell: &dyn Fn(u64, u64),
) -> Result<()> {
    let number = |name: &str| -> Result<u64> {
        let number: i64 = conn.pragma_query_value(None, name, |row| row.get(0))?;
        Ok(number.unsigned_abs())
    };
    let (pages, size) = (number("page_count")?, number("page_size")?);
    let mut piece = vec![0; PIECE];
    let mut done = 0;
    while done < pages * size {
        let len = (pages * size - done).min(PIECE as u64);
        let piece = &mut piece[..len as usize];
        read(conn, piece, done)?;
        out.write_all(piece).map_err(|e| unwritten(&e, to))?;
        done += len;
        tell(done, pages * size);
    }
    Ok(())
}

/// A failure of the system, as SQLite would have called it.
fn unwritten(error: &std::io::Error, to: &Path) -> Error {
    let code = match error.kind() {
        ErrorKind::StorageFull => ffi::SQLITE_FULL,
        ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ffi::SQLITE_CANTOPEN
        }
        _ => ffi::SQLITE_IOERR_WRITE,
    };
    let message = Some(error.to_string());
    Error::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), message)).on(to)
}

/// Reads bytes of the database file from `offset` on.
#[expect(unsafe_code, reason = "SQLite's file handle has no safe interface")]
fn read(conn: &Connection, into: &mut [u8], offset: u64) -> Result<()> {
    let missing = || Error::Damaged("SQLite does not say which file it has open".into());
    let length = i32::try_from(into.len()).map_err(|_| missing())?;
    let offset = i64::try_from(offset).map_err(|_| missing())?;
    let mut file: *mut ffi::sqlite3_file = null_mut();
    // SAFETY: the connection is open, and nobody else uses it: it is no `Sync`. SQLite writes one
    // pointer, which is good as long as the connection is. `into` has room for `length` bytes.
    let code = unsafe {
        let (handle, what) = (conn.handle(), ffi::SQLITE_FCNTL_FILE_POINTER);
        let code =
            ffi::sqlite3_file_control(handle, c"main".as_ptr(), what, (&raw mut file).cast());
        match file.as_ref().and_then(|file| file.pMethods.as_ref()).and_then(|m| m.xRead) {
            Some(read) if code == ffi::SQLITE_OK => {
                read(file, into.as_mut_ptr().cast(), length, offset)
            }
            _ => return Err(missing()),
        }
    };
    match code {
        ffi::SQLITE_OK => Ok(()),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None).into()),
    }
}
