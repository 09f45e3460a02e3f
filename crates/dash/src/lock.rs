//! Locks on ranges of bytes of a file, of the kind that belongs to one opening of the file and not
//! to the process (`F_OFD_SETLK`). They conflict with the locks that SQLite's own file systems take,
//! and threads of one process exclude each other like processes do.

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::fs::File;
use std::io;
use std::ops::Range;

/// The byte that a stock SQLite locks while a transaction of its own is under way.
pub(crate) const RESERVED: Range<i64> = 0x4000_0001..0x4000_0002;
/// The bytes that readers share.
pub(crate) const SHARED: Range<i64> = 0x4000_0002..0x4000_0200;

/// What to hold on a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Nothing.
    None,
    /// Together with others that read.
    Read,
    /// Alone.
    Write,
}

fn flock(range: &Range<i64>, hold: Hold) -> libc::flock {
    let kind = match hold {
        Hold::None => libc::F_UNLCK,
        Hold::Read => libc::F_RDLCK,
        Hold::Write => libc::F_WRLCK,
    };
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: range.start,
        l_len: range.end - range.start,
        l_pid: 0,
    }
}

/// Changes what is held on `range`, without waiting: whether it worked. A refused change leaves
/// what was held.
pub(crate) fn set(file: &File, range: &Range<i64>, hold: Hold) -> io::Result<bool> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&flock(range, hold))) {
        Ok(_) => Ok(true),
        Err(nix::Error::EAGAIN | nix::Error::EACCES) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether somebody else holds any of `range` so that it cannot be held in this way.
pub(crate) fn taken(file: &File, range: &Range<i64>, hold: Hold) -> io::Result<bool> {
    let mut lock = flock(range, hold);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}
