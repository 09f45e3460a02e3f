//! One connection's database file: SQLite's locks, reads and writes, in terms of a pair.
//!
//! | SQLite's lock | held here |
//! | --- | --- |
//! | SHARED | the shared range of the current file, for reading |
//! | RESERVED | the writer's byte of the registry |
//! | EXCLUSIVE | the whole range of the shadow: who still reads the version before delays the writer, who reads the current one does not |
//!
//! EXCLUSIVE without RESERVED means that a rollback journal of another program is played back. It
//! takes both files, and only then the current file is written to.

use crate::commit::Transaction;
use crate::disk::{self, Disk, Handle, Kind, Open, Sync};
use crate::error::{Context, Error, Result};
use crate::image::{self, Header, Image};
use crate::journal_probe::Quiet;
use crate::lock::{self, Hold};
use crate::mode::{Evidence, Mode};
use crate::pair::dash_protocol::{self, Shadow};
use crate::pair::{self, Names, Pair, SHADOW, hold, multi_file_commit};
use crate::registry::{OPEN, State, WRITER};
use libsqlite3_sys as ffi;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// SQLite's lock levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    Shared,
    Reserved,
    Exclusive,
}

/// Whether the current file is written to, because another program left a rollback journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Playback {
    No,
    UnderWay,
    /// Everything is written; what is written next belongs to a transaction.
    Written,
}

/// Asks SQLite's busy handler whether to try again.
pub(crate) type Retry<'a> = &'a mut dyn FnMut() -> bool;

/// What the parameters of a database's name ask for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// How commits are made durable.
    pub mode: Option<Mode>,
    /// How many bytes of a transaction stay in memory.
    pub memory: usize,
}

/// One connection's database file.
#[derive(Debug)]
pub(crate) struct Session {
    disk: Arc<dyn Disk>,
    names: Names,
    asked: Asked,
    read_only: bool,
    /// The file that had the database's name when it was opened; for what is read before any lock,
    /// and for reading where nothing may be written.
    plain: Handle,
    pair: Option<Pair>,
    quiet: Quiet,
    level: Level,
    /// What is held on the range of each of the pair's files.
    held: [Hold; 2],
    writer: bool,
    playback: Playback,
    transaction: Option<Transaction>,
    commits_with: String,
    /// The super-journal of the last commit of several files that this file took part in.
    super_journal: Option<PathBuf>,
}

impl Session {
    /// Opens a database file.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        main: &Path,
        asked: Asked,
        how: Open,
    ) -> Result<Session> {
        if main.as_os_str().to_string_lossy().ends_with(SHADOW) {
            return Err(Error::Refused(format!(
                "{} is a name for shadow files; rename the database, or open it without vfs=dash",
                main.display()
            )));
        }
        if asked.mode.is_some_and(|mode| !mode.is_safe()) && how != Open::Read {
            dash_protocol::finish_renames(disk.as_ref(), &Names::of(main))?;
        }
        let plain = disk.open(main, how).when("opening the database", ffi::SQLITE_CANTOPEN)?;
        if let Kind::Unknown(number) = disk.kind(&plain).reading("asking for the file system")? {
            return Err(Error::Refused(format!(
                "{} lies on a file system (type {number:#x}) of which vfs=dash does not know that \
                 it exchanges names and keeps locks of open files; open it without vfs=dash, with \
                 journal_mode DELETE",
                main.display()
            )));
        }
        if Header::read(&plain)?.is_some_and(|header| header.wal) {
            return Err(Error::Refused(format!(
                "{} has journal_mode WAL, and vfs=dash keeps a shadow instead of a log; run PRAGMA \
                 journal_mode=DELETE without vfs=dash first",
                main.display()
            )));
        }
        Ok(Session {
            disk,
            names: Names::of(main),
            asked,
            read_only: how == Open::Read,
            plain,
            pair: None,
            quiet: Quiet::default(),
            level: Level::None,
            held: [Hold::None; 2],
            writer: false,
            playback: Playback::No,
            transaction: None,
            commits_with: String::new(),
            super_journal: None,
        })
    }

    /// Whether SQLite need not ask for journals of other programs.
    pub(crate) fn quiet(&self) -> &Quiet {
        &self.quiet
    }

    /// How commits are made durable.
    pub(crate) fn mode(&self) -> Mode {
        self.pair.as_ref().map_or(self.asked.mode.unwrap_or_default(), |pair| pair.mode)
    }

    /// The file that is read where no transaction is under way.
    fn current(&self) -> &Handle {
        self.pair.as_ref().map_or(&self.plain, Pair::main)
    }

    /// Raises the lock.
    pub(crate) fn lock(&mut self, level: Level) -> Result<()> {
        if level <= self.level {
            return Ok(());
        }
        self.forget_commit();
        match level {
            Level::Shared => self.lock_shared()?,
            Level::Reserved => self.lock_reserved()?,
            _ if self.level >= Level::Reserved => self.hold_shadow()?,
            _ => self.lock_for_playback()?,
        }
        self.level = level;
        Ok(())
    }

    fn lock_shared(&mut self) -> Result<()> {
        if self.read_only {
            return self.lock_shared_read_only();
        }
        if self.pair.is_none() {
            self.open_pair()?;
        }
        let Some(pair) = &mut self.pair else { return Err(Error::Busy) };
        for _ in 0..TRIES {
            let live = pair.live();
            if live.unsettled && hold(&pair.registry, &WRITER, Hold::Write)? {
                // Its writer is gone, unless it finished just before.
                let durable = pair.durable()?;
                let settled = match pair.live().unsettled {
                    true => pair.settle(&durable, false),
                    false => Ok(()),
                };
                hold(&pair.registry, &WRITER, Hold::None)?;
                settled?;
                continue;
            }
            let Some(current) = pair.files.iter().position(|f| f.identity == live.current) else {
                // The shadow was replaced, or the two words were read while they changed.
                self.open_pair()?;
                return Err(Error::Busy);
            };
            pair.current = current;
            if !hold(&pair.files[current], &lock::SHARED, Hold::Read)? {
                // Most often a commit that is over, and about to let go of its locks.
                std::thread::sleep(std::time::Duration::from_micros(100));
                continue;
            }
            let now = pair.live();
            if now.current == live.current {
                self.held[current] = Hold::Read;
                pair.recall(&now);
                return Ok(());
            }
            hold(&pair.files[current], &lock::SHARED, Hold::None)?;
        }
        Err(Error::Busy)
    }

    fn open_pair(&mut self) -> Result<()> {
        self.quiet.set(false);
        self.pair = Some(Pair::open(self.disk.clone(), self.names.clone(), self.asked.mode)?);
        let mut others = [&self.names.journal, &self.names.log].into_iter();
        self.quiet.set(others.all(|name| matches!(self.disk.identity_at(name), Ok(None))));
        Ok(())
    }

    /// Locks whatever file has the database's name, which is where every acknowledged transaction
    /// is as long as the machine runs.
    fn lock_shared_read_only(&mut self) -> Result<()> {
        for _ in 0..100 {
            if !hold(&self.plain, &lock::SHARED, Hold::Read)? {
                return Err(Error::Busy);
            }
            let name =
                self.disk.identity_at(&self.names.main).reading("looking for the database")?;
            if name == Some(self.plain.identity) {
                if !pair::needs_recovery(self.disk.as_ref(), &self.names, &self.plain)? {
                    return Ok(());
                }
                hold(&self.plain, &lock::SHARED, Hold::None)?;
                return Err(Error::Refused(format!(
                    "{} was not closed properly; open it once for writing to recover it",
                    self.names.main.display()
                )));
            }
            let opened = self.disk.open(&self.names.main, Open::Read);
            self.plain = opened.when("opening the database", ffi::SQLITE_CANTOPEN)?;
        }
        Err(Error::Busy)
    }

    fn lock_reserved(&mut self) -> Result<()> {
        let pair = self.pair.as_mut().ok_or(Error::Busy)?;
        if !hold(&pair.registry, &WRITER, Hold::Write)? {
            return Err(Error::Busy);
        }
        self.writer = true;
        let live = pair.live();
        pair.recall(&live);
        if live.unsettled || live.current != pair.main().identity {
            self.release_writer()?;
            return Err(if live.unsettled { Error::Busy } else { Error::Snapshot });
        }
        Ok(())
    }

    /// Makes sure that nobody reads the version that is about to be overwritten.
    fn hold_shadow(&mut self) -> Result<()> {
        let Some(pair) = &self.pair else { return Err(Error::Busy) };
        let shadow = 1 - pair.current;
        if self.held[shadow] != Hold::Write {
            if !hold(&pair.files[shadow], &lock::SHARED, Hold::Write)? {
                return Err(Error::Busy);
            }
            self.held[shadow] = Hold::Write;
        }
        Ok(())
    }

    /// Keeps readers from the current file until a commit of several files is done everywhere.
    fn hold_current(&mut self) -> Result<()> {
        let Some(pair) = &self.pair else { return Err(Error::Busy) };
        if self.held[pair.current] != Hold::Write {
            if !hold(pair.main(), &lock::SHARED, Hold::Write)? {
                return Err(Error::Busy);
            }
            self.held[pair.current] = Hold::Write;
        }
        Ok(())
    }

    fn lock_for_playback(&mut self) -> Result<()> {
        let pair = self.pair.as_mut().ok_or(Error::Busy)?;
        pair.left = None;
        if !hold(&pair.registry, &WRITER, Hold::Write)? {
            return Err(Error::Busy);
        }
        self.writer = true;
        let taken = self.hold_shadow().and_then(|()| self.hold_current());
        if taken.is_err() {
            self.release_writer()?;
            self.unlock_shadow()?;
            return taken;
        }
        if let Some(pair) = &self.pair {
            pair.distrust_shadow()?;
        }
        self.playback = Playback::UnderWay;
        Ok(())
    }

    /// Lowers the lock. A transaction that was not committed is gone with it.
    pub(crate) fn unlock(&mut self, level: Level) -> Result<()> {
        let discarded = match (&self.pair, self.transaction.take(), &self.super_journal) {
            (Some(pair), Some(transaction), None) => transaction.discard(pair),
            (Some(pair), Some(transaction), Some(super_journal)) => transaction
                .discard(pair)
                .and_then(|()| multi_file_commit::withdraw(pair, super_journal)),
            _ => Ok(()),
        };
        if discarded.is_err() {
            self.super_journal = None;
        }
        self.playback = Playback::No;
        self.commits_with.clear();
        if let Some(pair) = &self.pair {
            let current = pair.current;
            if level == Level::None {
                for at in [0, 1].into_iter().filter(|&at| self.held[at] != Hold::None) {
                    hold(&pair.files[at], &lock::SHARED, Hold::None)?;
                }
                self.held = [Hold::None; 2];
            } else {
                if self.held[current] != Hold::Read {
                    hold(&pair.files[current], &lock::SHARED, Hold::Read)?;
                    self.held[current] = Hold::Read;
                }
                self.unlock_shadow()?;
            }
            self.release_writer()?;
        } else if level == Level::None && self.level != Level::None {
            hold(&self.plain, &lock::SHARED, Hold::None)?;
        }
        self.level = self.level.min(level);
        discarded
    }

    fn unlock_shadow(&mut self) -> Result<()> {
        let Some(pair) = &self.pair else { return Ok(()) };
        let shadow = 1 - pair.current;
        if self.held[shadow] != Hold::None {
            hold(&pair.files[shadow], &lock::SHARED, Hold::None)?;
            self.held[shadow] = Hold::None;
        }
        Ok(())
    }

    fn release_writer(&mut self) -> Result<()> {
        if let (Some(pair), true) = (&self.pair, self.writer) {
            hold(&pair.registry, &WRITER, Hold::None)?;
            self.writer = false;
        }
        Ok(())
    }

    /// Whether anybody has begun to write.
    pub(crate) fn is_reserved(&self) -> Result<bool> {
        if self.level >= Level::Reserved {
            return Ok(true);
        }
        let taken = |file: &Handle, range| lock::taken(&file.file, range, Hold::Read);
        let ours = match &self.pair {
            Some(pair) => taken(&pair.registry, &WRITER),
            None => Ok(false),
        };
        let theirs = taken(self.current(), &lock::RESERVED);
        Ok(ours.reading("asking for locks")? || theirs.reading("asking for locks")?)
    }

    /// Length of the database.
    pub(crate) fn size(&self) -> Result<u64> {
        if self.playback == Playback::UnderWay {
            // The header may be that of a transaction that makes the database shorter, which SQLite
            // cuts after its commit: the pages at the end are in no journal. Told that they are
            // missing, SQLite fills the last one with zeros.
            return image::length_of(self.current());
        }
        if let Some(transaction) = &self.transaction {
            return Ok(transaction.size());
        }
        let left = self.pair.as_ref().and_then(|pair| pair.left.as_ref());
        if let Some(left) = left.filter(|_| self.level >= Level::Shared) {
            return Ok(left.current.size);
        }
        let file = self.current();
        let length = file.file.metadata().reading("asking for the length")?.len();
        if let Some(size) = Header::read(file)?.and_then(|header| header.size) {
            return Ok(size.min(length));
        }
        let trailer = image::read_trailer(file, length)?;
        Ok(trailer.map_or(length, |trailer| trailer.size.min(length)))
    }

    /// Reads: how much of the buffer lies within the database.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        match (&self.transaction, &self.pair) {
            (Some(transaction), Some(pair)) => transaction.read(pair, offset, into),
            (None, Some(pair)) if self.level >= Level::Shared => pair.read(offset, into),
            _ => image::read_up_to(self.current(), into, offset).reading("reading a page"),
        }
    }

    /// Writes a page.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8], retry: Retry) -> Result<()> {
        if self.playback == Playback::UnderWay {
            return self.disk.write(self.current(), offset, bytes).writing("writing a page");
        }
        self.begin()?;
        let room = |s: &Session| s.transaction.as_ref().is_some_and(|t| t.has_room(bytes.len()));
        if !room(self) {
            self.wait_for_shadow(retry)?;
            if let (Some(transaction), Some(pair)) = (&mut self.transaction, &mut self.pair) {
                transaction.spill(pair)?;
            }
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.write(offset, bytes);
        }
        Ok(())
    }

    /// Cuts the database.
    pub(crate) fn truncate(&mut self, size: u64) -> Result<()> {
        if self.playback == Playback::UnderWay {
            let cut = self.disk.set_len(self.current(), size);
            return cut.when("cutting the database", ffi::SQLITE_IOERR_TRUNCATE);
        }
        // VACUUM cuts once more after the version was prepared, to the length it has already.
        let done = self.transaction.as_ref().is_some_and(|t| t.is_prepared() && t.size() == size);
        if !done {
            self.begin()?;
            if let Some(transaction) = &mut self.transaction {
                transaction.truncate(size);
            }
        }
        Ok(())
    }

    /// Begins a transaction. One that is prepared and written to again is being rolled back.
    fn begin(&mut self) -> Result<()> {
        self.playback = Playback::No;
        let Some(pair) = self.pair.as_ref().filter(|_| self.writer) else {
            let error = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
            return Err(error).when("writing without a lock", ffi::SQLITE_READONLY);
        };
        if let Some(prepared) = self.transaction.take_if(|t| t.is_prepared()) {
            prepared.discard(pair)?;
        }
        if self.transaction.is_none() {
            self.transaction = Some(Transaction::new(self.size()?, self.asked.memory));
        }
        Ok(())
    }

    fn wait_for_shadow(&mut self, retry: Retry) -> Result<()> {
        wait(retry, || self.hold_shadow())
    }

    /// Notes the super-journal of the commit that follows; empty for a commit of one file. One in
    /// the database's folder is noted without it, so that the folder may be moved.
    pub(crate) fn commit_with(&mut self, super_journal: &str) {
        if self.playback == Playback::UnderWay {
            self.playback = Playback::Written;
        }
        let folder = disk::folder(&self.names.main);
        if !super_journal.is_empty() {
            self.super_journal = Some(PathBuf::from(super_journal));
        }
        let within = Path::new(super_journal).strip_prefix(folder).ok().and_then(Path::to_str);
        self.commits_with = within.unwrap_or(super_journal).to_owned();
    }

    /// Removes the super-journal of a commit that was given up, now that SQLite is done with it.
    fn forget_commit(&mut self) {
        let done = self.super_journal.take_if(|_| self.level == Level::None);
        if let Some(name) = done.filter(|name| name.exists()) {
            // One that stays harms nobody: no file names it.
            let _ = multi_file_commit::remove(self.disk.as_ref(), &name);
        }
    }

    /// Writes the transaction to the shadow and to the device.
    pub(crate) fn sync(&mut self, retry: Retry) -> Result<()> {
        if self.playback != Playback::No {
            let synced = self.disk.sync(self.current(), Sync::Bytes);
            return synced.syncing("making a rollback durable");
        }
        self.prepare(retry, true)
    }

    fn prepare(&mut self, retry: Retry, durably: bool) -> Result<()> {
        if self.transaction.as_ref().is_none_or(Transaction::is_prepared) {
            return Ok(());
        }
        wait(retry, || self.hold_shadow())?;
        if !self.commits_with.is_empty() {
            wait(retry, || self.hold_current())?;
        }
        let commits_with = self.commits_with.clone();
        match (&mut self.transaction, &mut self.pair) {
            (Some(transaction), Some(pair)) => transaction.prepare(pair, &commits_with, durably),
            _ => Ok(()),
        }
    }

    /// Commits.
    pub(crate) fn commit(&mut self, retry: Retry) -> Result<()> {
        self.prepare(retry, false)?;
        let (Some(mut transaction), Some(pair)) = (self.transaction.take(), &mut self.pair) else {
            return Ok(());
        };
        let alone = self.commits_with.is_empty();
        self.super_journal = None;
        let done = transaction.exchange(pair, alone);
        if done.is_err() && alone {
            self.transaction = Some(transaction);
        }
        self.commits_with.clear();
        done
    }

    /// Closes the file. The last to do so says that nothing is left to recover.
    pub(crate) fn close(mut self) -> Result<()> {
        self.unlock(Level::None)?;
        self.forget_commit();
        let Some(pair) = &self.pair else { return Ok(()) };
        if !hold(&pair.registry, &OPEN, Hold::Write)? {
            return Ok(());
        }
        let mut durable = pair.durable()?;
        if durable.state != State::Clean {
            multi_file_commit::sweep(pair);
        }
        let live = pair.live();
        let named = pair.disk.identity_at(&pair.names.main).reading("looking for the database")?;
        let finished = !live.unsettled && !live.stale && named == Some(live.current);
        if durable.state != State::Open || !finished {
            return Ok(());
        }
        let current = usize::from(pair.files[1].identity == live.current);
        let [main, shadow] = [&pair.files[current], &pair.files[1 - current]];
        let main = Image::read(main, &durable.pair)?;
        let shadow = Image::read(shadow, &durable.pair)?;
        let behind = dash_protocol::shadow_is(durable.mode, &main, &shadow) == Shadow::Behind;
        let reset = durable.mode.is_alone() && dash_protocol::is_reset(pair)?;
        if behind && main.version().is_some() && !reset {
            // Where the name decides it is durable, and where versions do the next session sees to it.
            if durable.mode.evidence() == Evidence::Checksum || durable.mode.is_alone() {
                let synced = pair.disk.sync_folder(&pair.names.main);
                synced.syncing("making the last exchange durable")?;
            }
            if durable.mode.is_alone() {
                return dash_protocol::reset_header(pair);
            }
            durable.state = State::Clean;
            pair.register(&durable, false)?;
        }
        Ok(())
    }
}

/// How often a reader tries before SQLite's busy handler is asked.
const TRIES: usize = 20;

/// Tries until it works, or until SQLite's busy handler gives up.
fn wait(retry: Retry, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    loop {
        match attempt() {
            Err(Error::Busy) if retry() => {}
            done => return done,
        }
    }
}
