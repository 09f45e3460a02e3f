//! Whether a database is kept by the file system `dash`, as its registry tells: `docs/formats/shadow.md`.
//!
//! While somebody has the database open by it, nobody else can write, and its file goes by another name after each
//! commit. Once nobody has, the file is an ordinary one, and a commit by `dash` would take it from those who have it
//! open without.

use rusqlite::Connection;
use std::path::Path;

/// Who has a database open by `dash`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Used {
    /// Nobody.
    No,
    /// Somebody who lets others in.
    Shared,
    /// One connection that lets in nobody, as with `dash=shadow-x`.
    Alone,
}

/// Who has the database open by `dash` now, in this process too.
pub fn used(database: &Path) -> Used {
    registry::used(database)
}

/// Whether to open the database by `dash`: somebody has it open so, or it was not closed properly, and only `dash`
/// can tell which of its files is the database.
pub fn keeps(database: &Path) -> bool {
    used(database) != Used::No || registry::is_open(database)
}

/// Whether anybody ever had the database open by `dash`.
pub fn knows(database: &Path) -> bool {
    registry::of(database).is_some()
}

/// Whether this connection is one of `dash`.
pub fn serves(conn: &Connection) -> bool {
    conn.prepare("PRAGMA main.dash").and_then(|mut asked| asked.exists([])).unwrap_or(false)
}

#[cfg(target_os = "linux")]
mod registry {
    use super::Used;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    /// The byte that says in which state the files were left, and what it says until they are closed properly.
    const STATE: (u64, u8) = (12, 1);

    pub fn of(database: &Path) -> Option<File> {
        let mut name = database.as_os_str().to_owned();
        name.push("-dash");
        File::open(name).ok()
    }

    pub fn used(database: &Path) -> Used {
        let Some(registry) = of(database) else { return Used::No };
        // Whoever has the database open holds the first byte. Nothing is locked here, and `dash` has locks that
        // closing the file takes from nobody.
        let others_hold = |kind| {
            let mut lock = libc::flock {
                l_type: kind as libc::c_short,
                l_whence: libc::SEEK_SET as libc::c_short,
                l_start: 0,
                l_len: 1,
                l_pid: 0,
            };
            let asked = fcntl(&registry, FcntlArg::F_OFD_GETLK(&mut lock));
            asked.is_ok() && lock.l_type != libc::F_UNLCK as libc::c_short
        };
        match (others_hold(libc::F_RDLCK), others_hold(libc::F_WRLCK)) {
            (true, _) => Used::Alone,
            (false, true) => Used::Shared,
            (false, false) => Used::No,
        }
    }

    pub fn is_open(database: &Path) -> bool {
        let mut state = [0];
        let read = of(database).map(|registry| registry.read_exact_at(&mut state, STATE.0));
        matches!(read, Some(Ok(()))) && state == [STATE.1]
    }
}

/// There is no `dash` elsewhere.
#[cfg(not(target_os = "linux"))]
mod registry {
    use super::Used;
    use std::fs::File;
    use std::path::Path;

    pub fn of(_: &Path) -> Option<File> {
        None
    }

    pub fn used(_: &Path) -> Used {
        Used::No
    }

    pub fn is_open(_: &Path) -> bool {
        false
    }
}
