//! Long reads with a rollback journal: whoever reads keeps all others from committing, so they read a copy.
//!
//! In a write-ahead log readers keep nobody waiting. In all other modes a transaction that reads holds a
//! lock for which every commit waits. To copy a file takes a small part of the time that it takes to verify,
//! digest or export what is in it.

use crate::connection::connect;
use crate::env::Environment;
use crate::replica::{self, Replica};
use crate::{Error, Result, copy};
use rusqlite::Connection;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is in a file of no more bytes is read soon enough.
const LITTLE: i64 = if cfg!(feature = "small-parts") { 0 } else { 1 << 18 };

/// A file that goes with its last user.
pub(crate) struct Copy(PathBuf);

impl Copy {
    /// Of the file at `path` as a transaction on it sees it, which has read.
    pub(crate) fn of(tx: &Connection, path: &Path) -> Result<Copy> {
        let (copy, _) = Copy::new(path)?;
        copy::of_transaction(tx, &copy.0, &|_, _| ())?;
        Ok(copy)
    }

    /// Of the file at `path`, still empty.
    fn new(path: &Path) -> Result<(Copy, File)> {
        remove_left(path);
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut name = path.to_owned().into_os_string();
        name.push(format!("-synqlite-{:x}-{n:x}", std::process::id()));
        let copy = Copy(name.into());
        let created = create(&copy.0);
        let file = created.map_err(|e| Error::Refused(format!("{}: {e}", copy.0.display())))?;
        Ok((copy, file))
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

/// A copy that is open, and on Unix has no name since it was empty: whatever happens to this process, nothing stays.
pub(crate) struct Opened {
    conn: Connection,
    file: File,
    copy: Copy,
}

impl Opened {
    fn new(path: &Path, env: &dyn Environment) -> Result<Opened> {
        let (copy, file) = Copy::new(path)?;
        let conn = connect(&copy.0, true, env)?;
        if cfg!(unix) {
            let _ = std::fs::remove_file(&copy.0);
        }
        Ok(Opened { conn, file, copy })
    }

    fn fill(&mut self, tx: &Connection) -> Result<()> {
        copy::fill(tx, &mut self.file, &self.copy.0, &|_, _| ())
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

    /// A copy of the file as a transaction on it sees it, which has read, and whose journal mode is not WAL.
    pub(crate) fn copied(&self, tx: &Connection) -> Result<Opened> {
        let mut copy = Opened::new(&self.path, self.env.as_ref())?;
        copy.fill(tx)?;
        Ok(copy)
    }

    /// Runs `f`, which only reads, on a copy, or on this replica if that cannot be opened.
    pub(crate) fn on_copy<T>(
        &self,
        copy: Opened,
        f: impl FnOnce(&Replica) -> Result<T>,
    ) -> Result<T> {
        let Opened { conn, copy, .. } = copy;
        // The original is what errors are to name.
        let Ok(replica) = replica::with(conn, &self.path, self.env.clone(), false) else {
            return f(self);
        };
        let done = f(&replica);
        drop((replica, copy));
        done
    }
}

/// Creates the file of a copy, which nobody else may read: the original may hold tokens, and be its owner's alone.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Removes what processes that were killed have left of copies of the file at `path`.
fn remove_left(path: &Path) {
    // Nowhere else is it told who is alive.
    if !Path::new("/proc/self").exists() {
        return;
    }
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    let start = format!("{name}-synqlite-");
    let dead = |file: &OsStr| {
        let (process, n) = file.to_str()?.strip_prefix(&start)?.split_once('-')?;
        let (process, _) = (number(process)?, number(n)?);
        Some(!Path::new(&format!("/proc/{process}")).exists())
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let files = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    // One of a process that cannot be seen from here goes on without a name.
    for file in files.flatten().filter(|file| dead(&file.file_name()) == Some(true)) {
        let _ = std::fs::remove_file(file.path());
    }
}

fn number(hex: &str) -> Option<u64> {
    u64::from_str_radix(hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::System;
    use crate::fixture::Site;

    fn files(folder: &Path) -> Vec<String> {
        let found = std::fs::read_dir(folder).unwrap();
        let names = found.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains("-synqlite-")).collect()
    }

    #[cfg(unix)]
    #[test]
    fn a_copy_has_no_name_before_anything_is_in_it() {
        let site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY); INSERT INTO t VALUES(1)");
        let replica = &site.replica;
        let mut copy = Opened::new(replica.path(), &System).unwrap();
        assert_eq!(files(site.dir.path()), [""; 0]);
        copy.fill(&replica.conn.unchecked_transaction().unwrap()).unwrap();
        assert_eq!(files(site.dir.path()), [""; 0]);
        let rows = replica.on_copy(copy, |copy| {
            assert!(copy.conn.path().unwrap_or_default().contains("-synqlite-"));
            copy.count_rows()
        });
        assert_eq!(rows.unwrap(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_a_killed_process_left_goes_with_the_next_copy() {
        let site = Site::new("CREATE TABLE t(id INTEGER PRIMARY KEY)");
        let mut killed = std::process::Command::new("true").spawn().unwrap();
        killed.wait().unwrap();
        let path = site.replica.path();
        let left = |of: &str| PathBuf::from(format!("{}-synqlite-{of}", path.display()));
        let (dead, alive) =
            (format!("{:x}-a", killed.id()), format!("{:x}-ff", std::process::id()));
        let others = [&alive, "notes", "notes-1", "1"];
        for of in others.iter().copied().chain([dead.as_str()]) {
            std::fs::write(left(of), "half a copy").unwrap();
        }
        drop(Opened::new(path, &System).unwrap());
        assert!(!left(&dead).exists());
        assert!(others.iter().all(|of| left(of).exists()));
    }
}
