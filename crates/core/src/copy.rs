//! Copies of a replica: the material of clones and snapshots.
//!
//! A copy never holds journal entries. The source folds them as its own changes; a copy that folded
//! them too would give the same writes a second identity. So the journal is folded first, and the
//! copy is made of one read transaction in which it is empty.

mod file;

pub(crate) use file::fill;

use crate::connection::{plain, to_read, to_write};
use crate::env::Environment;
use crate::inbox;
use crate::progress::{Phase, Step};
use crate::replica::{self, Replica, new_site};
use crate::{Error, Result};
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use synqlite_wire::Id;

/// Pages copied between two reports of progress: 4 MiB at SQLite's usual page size.
const STEP: i32 = 1024;
/// How often a writer may slip in between the fold and the copy.
const ATTEMPTS: u32 = 200;

/// Copies the database as a transaction on it sees it, which has read. Calls `tell` with the bytes done and their
/// total.
pub(crate) fn of_transaction(tx: &Connection, to: &Path, tell: &dyn Fn(u64, u64)) -> Result<()> {
    // In a write-ahead log a part of the snapshot is not in the file.
    let mode: String = tx.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    if mode != "wal" {
        return file::copy(tx, to, tell);
    }
    let mut copy = Connection::open(&*plain(to)).map_err(|e| Error::from(e).on(to))?;
    // Whoever wants the copy to last syncs it once, as a whole.
    copy.execute_batch("PRAGMA synchronous=OFF")?;
    copy.query_row("PRAGMA journal_mode=OFF", [], |_| Ok(()))?;
    let size: i64 = tx.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let size = size.unsigned_abs();
    let backup = Backup::new(tx, &mut copy)?;
    loop {
        let step = backup.step(STEP).map_err(|e| Error::from(e).on(to))?;
        let left = backup.progress();
        let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * size;
        tell(bytes(left.pagecount - left.remaining), bytes(left.pagecount));
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => return Err(Error::Locked(tx.path().unwrap_or_default().to_owned())),
        }
    }
    drop(backup);
    copy.close().map_err(|(_, e)| Error::from(e).on(to))
}

impl Replica {
    /// Folds, then copies the whole database into the file `to`, which must be empty or absent.
    ///
    /// The copy still bears this replica's site id: open it with [`Replica::open_copy`], and either
    /// only read it or [`Replica::become_site`]. If the copy fails, `to` is in no defined state.
    /// The copy is not synced to the disk. Once others have it [`Replica::tell`] is due.
    pub fn copy_to(&mut self, to: &Path) -> Result<()> {
        for attempt in 0..ATTEMPTS {
            self.fold()?;
            if self.copy_folded(to).map_err(|e| e.on(&self.path))? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_micros(u64::from(attempt) * 200));
        }
        Err(Error::Locked(self.path.display().to_string()))
    }

    /// Copies the database unless something was written since the fold.
    fn copy_folded(&self, to: &Path) -> Result<bool> {
        let tx = to_read(&self.conn, &self.path, self.env.as_ref())?;
        if inbox::any(&tx)? || tx.prepare("SELECT 1 FROM synqlite_journal")?.exists([])? {
            return Ok(false);
        }
        let tell = |done, total| {
            self.env.step(Step { phase: Phase::Copy, done, total: Some(total) });
        };
        of_transaction(&tx, to, &tell)?;
        Ok(true)
    }

    /// Opens a file that [`Replica::copy_to`] made, although it bears the site id of its source.
    pub fn open_copy(path: &Path, env: Arc<dyn Environment>) -> Result<Replica> {
        replica::open(path, env, false)
    }

    /// Removes what concerns only the site that a copy was made of: its remotes. Nothing of them
    /// stays in free pages.
    pub fn forget_remotes(&mut self) -> Result<()> {
        let sql = "PRAGMA secure_delete=ON; DELETE FROM synqlite_remote; PRAGMA secure_delete=OFF";
        let forget = || Ok(self.conn.execute_batch(sql)?);
        forget().map_err(|e: Error| e.on(&self.path))
    }

    /// Makes a copy a site of its own, with the new id that it returns.
    ///
    /// It knows everything that its source knew, and nobody has pulled from it.
    pub fn become_site(mut self) -> Result<Replica> {
        self.forget_remotes()?;
        let site = Id(self.env.random());
        let become_ = || {
            let tx = to_write(&self.conn, &self.path, self.env.as_ref())?;
            new_site(&tx, site, &self.path, self.env.as_ref())?;
            tx.execute("DELETE FROM synqlite_peer", [])?;
            tx.commit()?;
            Ok(())
        };
        become_().map_err(|e: Error| e.on(&self.path))?;
        let (path, env) = (self.path, self.env);
        self.conn.close().map_err(|(_, e)| Error::from(e).on(&path))?;
        Replica::open(&path, env)
    }
}
