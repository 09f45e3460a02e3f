//! Long reads with a rollback journal: whoever reads keeps all others from committing, so they read a copy.
//!
//! In a write-ahead log readers keep nobody waiting. In all other modes a transaction that reads holds a
//! lock for which every commit waits. To copy a file takes a small part of the time that it takes to verify,
//! digest or export what is in it.

use crate::replica::{self, Replica};
use crate::{Error, Result, copy};
use rusqlite::Connection;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is in a file of no more bytes is read soon enough.
const LITTLE: i64 = if cfg!(feature = "small-parts") { 0 } else { 1 << 18 };

/// A file that goes with its last user.
pub(crate) struct Copy(PathBuf);

impl Copy {
    /// Of the file at `path` as a transaction on it sees it, which has read.
    pub(crate) fn of(tx: &Connection, path: &Path) -> Result<Copy> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut name = path.to_owned().into_os_string();
        name.push(format!("-synqlite-{:x}-{n:x}", std::process::id()));
        let copy = Copy(name.into());
        create(&copy.0).map_err(|e| Error::Refused(format!("{}: {e}", copy.0.display())))?;
        copy::of_transaction(tx, &copy.0, &|_, _| ())?;
        Ok(copy)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // On Unix it is gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Replica {
    /// Runs `f`, which only reads, where it keeps nobody from writing: on this replica, or on a copy of it.
    pub(crate) fn apart<T>(&self, f: impl FnOnce(&Replica) -> Result<T>) -> Result<T> {
        let copied = || {
            let tx = self.conn.unchecked_transaction()?;
            // The transaction reads from its first statement on.
            tx.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
            self.copied(&tx)
        };
        // Without room for a copy, others have to wait.
        match self.is_in_the_way().unwrap_or(false).then(copied) {
            Some(Ok(copy)) => self.on_copy(copy, f),
            _ => f(self),
        }
    }

    /// Whether others cannot write while this is read, and that may take long.
    pub(crate) fn is_in_the_way(&self) -> Result<bool> {
        let number = |name| self.conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let look = || {
            let mode: String =
                self.conn.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
            Ok(mode != "wal" && number("page_count")? * number("page_size")? > LITTLE)
        };
        look().map_err(|e: Error| e.on(&self.path))
    }

    /// A copy of the file as a transaction on it sees it, which has read.
    pub(crate) fn copied(&self, tx: &Connection) -> Result<Copy> {
        Copy::of(tx, &self.path)
    }

    /// Runs `f`, which only reads, on a copy, or on this replica if that cannot be opened.
    pub(crate) fn on_copy<T>(
        &self,
        copy: Copy,
        f: impl FnOnce(&Replica) -> Result<T>,
    ) -> Result<T> {
        let Ok(mut replica) = replica::open(&copy.0, self.env.clone(), false) else {
            return f(self);
        };
        if cfg!(unix) {
            // Whatever happens to this process, nothing stays.
            let _ = std::fs::remove_file(&copy.0);
        }
        // It is what errors are to name.
        replica.path.clone_from(&self.path);
        let done = f(&replica);
        drop((replica, copy));
        done
    }
}

/// Creates the file of a copy, which nobody else may read: the original may hold tokens, and be its owner's alone.
fn create(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
