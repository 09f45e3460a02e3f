//! A disk that notes what is done to it, and fails when told to.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use synqlite_dash::disk::{Disk, Handle, Kind, Machine, Open, Sync};

/// One operation, with files as numbers and names without their folder.
#[derive(Debug, Clone)]
pub enum Op {
    /// A new file got a name.
    Create(String, u64),
    /// Bytes at an offset.
    Write(u64, u64, Vec<u8>),
    /// A new length.
    SetLen(u64, u64),
    /// A synchronization of a file.
    Sync(u64, Sync),
    /// A synchronization of a file that failed: what was written before may never reach the device.
    SyncFailed(u64),
    /// A synchronization of the folder.
    SyncFolder,
    /// Two names get these files.
    Exchange([(String, u64); 2]),
    /// A file loses its name and gets another.
    Rename(String, String, u64),
    /// A name is gone.
    Remove(String),
    /// The user began a transaction, or learned that it is durable.
    Begin(usize),
    /// See [`Op::Begin`].
    Ack(usize),
}

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The device is full from here on.
    Full,
    /// This operation fails, later ones work.
    Error,
    /// This operation and all later ones are never done: the process is dead.
    Dead,
    /// The file system cannot exchange names.
    NoExchange,
    /// Somebody else removes what is to be removed just before.
    Outrun,
}

#[derive(Debug, Default)]
struct State {
    numbers: HashMap<u64, u64>,
    next: u64,
    ops: Vec<Op>,
    /// Operations so far, and at which of them what happens.
    count: usize,
    fault: Option<(usize, Fault)>,
    boot: u8,
    kind: Option<Kind>,
    /// Files have the numbers that the machine gives them, so that others can take part.
    real: bool,
    /// Synchronizations of this strength are only claimed.
    left_out: Option<Sync>,
}

/// The disk.
#[derive(Debug, Clone, Default)]
pub struct Lab(Arc<Mutex<State>>);

impl Lab {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics while it holds the lock")
    }

    /// Forgets everything; files get the numbers that `known` says.
    pub fn reset(&self, known: HashMap<u64, u64>, kind: Kind) {
        let mut state = self.state();
        let next = known.values().copied().max().unwrap_or(0).max(state.next);
        let (boot, kind) = (state.boot.wrapping_add(1), Some(kind));
        *state = State { numbers: known, next, boot, kind, ..State::default() };
    }

    /// Forgets everything. Files keep the numbers of the machine, and are synchronized.
    pub fn reset_real(&self) {
        self.reset_booted(0);
    }

    /// The same, after the machine was started for the `boot`th time.
    pub fn reset_booted(&self, boot: u8) {
        *self.state() = State { real: true, boot, ..State::default() };
    }

    /// Notes something that is no operation.
    pub fn note(&self, op: Op) {
        self.state().ops.push(op);
    }

    /// What was done since the last call.
    pub fn take(&self) -> Vec<Op> {
        std::mem::take(&mut self.state().ops)
    }

    /// How many operations were done.
    pub fn count(&self) -> usize {
        self.state().count
    }

    /// From operation `at` on something goes wrong.
    pub fn fail(&self, at: Option<(usize, Fault)>) {
        self.state().fault = at;
    }

    /// From now on, until the next reset, synchronizations of this strength are only claimed.
    pub fn leave_out(&self, how: Option<Sync>) {
        self.state().left_out = how;
    }

    /// Counts an operation, or says why it is not done.
    fn step(&self, writes: bool) -> io::Result<()> {
        let mut state = self.state();
        state.count += 1;
        let error = match state.fault {
            Some((at, Fault::Full)) if state.count > at && writes => io::ErrorKind::StorageFull,
            Some((at, Fault::Error)) if state.count == at + 1 => io::ErrorKind::Other,
            Some((at, Fault::Dead)) if state.count > at => io::ErrorKind::BrokenPipe,
            _ => return Ok(()),
        };
        Err(error.into())
    }

    fn is_real(&self) -> bool {
        self.state().real
    }

    fn number(&self, inode: u64) -> u64 {
        let mut state = self.state();
        if state.real {
            return inode;
        }
        let next = state.next + 1;
        let number = *state.numbers.entry(inode).or_insert(next);
        state.next = state.next.max(number);
        number
    }
}

fn name(path: &Path) -> String {
    path.file_name().expect("a file").to_string_lossy().into_owned()
}

impl Disk for Lab {
    fn open(&self, path: &Path, how: Open) -> io::Result<Handle> {
        let new = Machine.identity_at(path)?.is_none();
        if new && how == Open::Create {
            self.step(true)?;
        }
        let mut handle = Machine.open(path, how)?;
        if new {
            // A number of a file that is gone may come again.
            self.state().numbers.remove(&handle.identity);
        }
        handle.identity = self.number(handle.identity);
        if new {
            self.note(Op::Create(name(path), handle.identity));
        }
        Ok(handle)
    }

    fn identity_at(&self, path: &Path) -> io::Result<Option<u64>> {
        Ok(Machine.identity_at(path)?.map(|inode| self.number(inode)))
    }

    fn write(&self, to: &Handle, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.step(true)?;
        self.note(Op::Write(to.identity, offset, bytes.to_vec()));
        Machine.write(to, offset, bytes)
    }

    fn set_len(&self, of: &Handle, length: u64) -> io::Result<()> {
        self.step(false)?;
        self.note(Op::SetLen(of.identity, length));
        Machine.set_len(of, length)
    }

    fn sync(&self, of: &Handle, how: Sync) -> io::Result<()> {
        if let Err(error) = self.step(false) {
            self.note(Op::SyncFailed(of.identity));
            return Err(error);
        }
        self.note(Op::Sync(of.identity, how));
        let left_out = self.state().left_out == Some(how);
        if self.is_real() && !left_out { Machine.sync(of, how) } else { Ok(()) }
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.step(false)?;
        self.note(Op::SyncFolder);
        if self.is_real() { Machine.sync_folder(path) } else { Ok(()) }
    }

    fn exchange(&self, a: &Path, b: &Path) -> io::Result<()> {
        self.step(false)?;
        if matches!(self.state().fault, Some((_, Fault::NoExchange))) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Machine.exchange(a, b)?;
        let number = |path| self.identity_at(path).map(|n| (name(path), n.unwrap_or_default()));
        self.note(Op::Exchange([number(a)?, number(b)?]));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step(false)?;
        let number = self.identity_at(from)?.unwrap_or_default();
        Machine.rename(from, to)?;
        self.note(Op::Rename(name(from), name(to), number));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(false)?;
        if matches!(self.state().fault, Some((_, Fault::Outrun))) {
            Machine.remove(path)?;
        }
        Machine.remove(path)?;
        self.note(Op::Remove(name(path)));
        Ok(())
    }

    fn kind(&self, of: &Handle) -> io::Result<Kind> {
        if self.is_real() {
            return Machine.kind(of);
        }
        Ok(self.state().kind.unwrap_or(Kind::Journal))
    }

    fn boot(&self) -> [u8; 16] {
        if self.state().real && self.state().boot == 0 {
            return Machine.boot();
        }
        [self.state().boot; 16]
    }
}
