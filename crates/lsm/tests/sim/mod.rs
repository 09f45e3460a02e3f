//! A file system in memory that forgets.
//!
//! It keeps what every file and the folder hold now and what of it was forced. A crash at any
//! operation makes a new world from it: a killed process keeps everything (the last write perhaps
//! in part); a power failure keeps what was forced and, of the rest, nothing, everything, a prefix
//! or any mixture of sectors and folder entries. Single operations can be made to fail, and single
//! kinds of force to do nothing.

use std::collections::BTreeMap;
use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use synqlite_lsm::disk::{Disk, Force, LogFile, ReadFile, WriteFile};

const SECTOR: usize = 512;

/// A small generator, so that a seed tells the whole story.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x ^ (x >> 33)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// What becomes of unforced changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies: the kernel keeps everything.
    Kill,
    /// The process dies within its last write.
    TornKill,
    /// Power fails: only forced bytes and entries remain.
    Nothing,
    /// Power fails after everything reached the device by itself.
    Everything,
    /// Power fails: of each file a prefix of the unforced writes remains.
    Prefix,
    /// Power fails: any mixture of sector states and folder entries.
    Mixture,
}

pub const CRASHES: [Crash; 6] = [
    Crash::Kill,
    Crash::TornKill,
    Crash::Nothing,
    Crash::Everything,
    Crash::Prefix,
    Crash::Mixture,
];

/// A kind of force that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    Log,
    OldLog,
    OldManifest,
    Table,
    Manifest,
    Current,
    Folder,
}

#[derive(Clone, Default)]
struct Inode {
    data: Vec<u8>,
    forced: Vec<u8>,
    /// Writes since the last force.
    pending: Vec<(usize, Vec<u8>)>,
}

impl Inode {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[at..end].copy_from_slice(bytes);
        self.pending.push((at, bytes.to_vec()));
    }

    fn force(&mut self) {
        self.forced = self.data.clone();
        self.pending.clear();
    }

    /// What a power failure leaves.
    fn after(&self, crash: Crash, random: &mut Random) -> Vec<u8> {
        let mut left = self.forced.clone();
        if crash == Crash::Nothing || self.pending.is_empty() {
            return left;
        }
        if crash == Crash::Everything {
            return self.data.clone();
        }
        let longer = self.data.len() > left.len() && random.below(3) > 0;
        let sectors = self.data.len().div_ceil(SECTOR);
        let prefix = random.below(self.pending.len() + 1);
        // For each sector, how many of its unforced writes reached the device.
        let mut allowed: Vec<usize> = (0..sectors)
            .map(|s| {
                let (from, to) = (s * SECTOR, (s + 1) * SECTOR);
                let n =
                    self.pending.iter().filter(|(at, b)| *at < to && at + b.len() > from).count();
                [0, n, random.below(n + 1)][random.below(3)]
            })
            .collect();
        for (i, (at, bytes)) in self.pending.iter().enumerate() {
            let last = (at + bytes.len()).div_ceil(SECTOR);
            for (s, allowed) in allowed.iter_mut().enumerate().take(last).skip(at / SECTOR) {
                let skip = if crash == Crash::Prefix { i >= prefix } else { *allowed == 0 };
                if skip {
                    continue;
                }
                *allowed = allowed.saturating_sub(1);
                let (from, to) = ((s * SECTOR).max(*at), ((s + 1) * SECTOR).min(at + bytes.len()));
                if left.len() < to {
                    left.resize(to, 0);
                }
                left[from..to].copy_from_slice(&bytes[from - at..to - at]);
            }
        }
        if longer && left.len() < self.data.len() {
            left.resize(self.data.len(), 0);
        }
        left
    }
}

#[derive(Clone)]
enum Entry {
    Set(String, usize),
    Gone(String),
    Moved(String, String, usize),
}

#[derive(Clone, Default)]
struct World {
    inodes: Vec<Inode>,
    folder: BTreeMap<String, usize>,
    forced: BTreeMap<String, usize>,
    pending: Vec<Entry>,
    boot: u8,
    ops: u64,
    /// From this operation on the process is dead.
    die_at: Option<u64>,
    /// The write that it died in.
    dying: Option<(usize, usize, Vec<u8>)>,
    /// This operation fails, with this error.
    fail_at: Option<(u64, ErrorKind)>,
    /// Every change is refused with this error.
    refused: Option<ErrorKind>,
    /// Bytes that the files may have in all.
    space: Option<usize>,
    skip: Option<Skip>,
}

/// The file system; clones share it.
#[derive(Clone)]
pub struct Sim(Arc<Mutex<World>>);

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sim")
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

impl World {
    /// Counts an operation; refuses it if it is to fail or the process is dead.
    fn op(&mut self) -> io::Result<()> {
        self.ops += 1;
        if self.die_at.is_some_and(|at| self.ops > at) {
            return Err(Error::other("dead"));
        }
        match self.fail_at {
            Some((at, kind)) if at == self.ops => Err(kind.into()),
            _ => Ok(()),
        }
    }

    /// An operation that changes something.
    fn change(&mut self) -> io::Result<()> {
        self.op()?;
        self.refused.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn write(&mut self, inode: usize, at: usize, bytes: &[u8]) -> io::Result<()> {
        if self.die_at == Some(self.ops) && self.dying.is_none() {
            self.dying = Some((inode, at, bytes.to_vec()));
        }
        self.change()?;
        self.room(inode, at + bytes.len())?;
        self.inodes[inode].write(at, bytes);
        Ok(())
    }

    fn used(&self) -> usize {
        self.folder.values().map(|i| self.inodes[*i].data.len()).sum()
    }

    /// Whether a file can have this length.
    fn room(&self, inode: usize, len: usize) -> io::Result<()> {
        let more = len.saturating_sub(self.inodes[inode].data.len());
        if self.space.is_none_or(|space| self.used() + more <= space) {
            return Ok(());
        }
        Err(ErrorKind::StorageFull.into())
    }

    fn force(&mut self, inode: usize, kind: Skip) -> io::Result<()> {
        self.op()?;
        if self.skip != Some(kind) {
            self.inodes[inode].force();
        }
        Ok(())
    }

    fn make(&mut self, path: &Path) -> io::Result<usize> {
        self.change()?;
        self.inodes.push(Inode::default());
        let inode = self.inodes.len() - 1;
        self.folder.insert(name(path), inode);
        self.pending.push(Entry::Set(name(path), inode));
        Ok(inode)
    }
}

fn apply(folder: &mut BTreeMap<String, usize>, entry: &Entry) {
    match entry {
        Entry::Set(name, inode) => {
            folder.insert(name.clone(), *inode);
        }
        Entry::Gone(name) => {
            folder.remove(name);
        }
        Entry::Moved(from, to, inode) => {
            folder.remove(from);
            folder.insert(to.clone(), *inode);
        }
    }
}

impl Sim {
    pub fn new() -> Sim {
        Sim(Arc::default())
    }

    /// Operations so far.
    pub fn ops(&self) -> u64 {
        self.0.lock().unwrap().ops
    }

    /// The process dies after this many operations.
    pub fn die_at(&self, ops: u64) {
        self.0.lock().unwrap().die_at = Some(ops);
    }

    /// The given operation fails.
    pub fn fail_at(&self, op: u64, kind: ErrorKind) {
        self.0.lock().unwrap().fail_at = Some((op, kind));
    }

    /// Refuses every change from now on; `None` allows them again.
    pub fn refuse(&self, kind: Option<ErrorKind>) {
        self.0.lock().unwrap().refused = kind;
    }

    /// Leaves room for this many bytes more; `None` is without end.
    pub fn limit(&self, more: Option<usize>) {
        let mut world = self.0.lock().unwrap();
        world.space = more.map(|more| world.used() + more);
    }

    /// Leaves out a kind of force.
    pub fn skip(&self, skip: Option<Skip>) {
        self.0.lock().unwrap().skip = skip;
    }

    /// The world that a crash at this moment leaves.
    pub fn crash(&self, crash: Crash, random: &mut Random) -> Sim {
        let mut world = self.0.lock().unwrap().clone();
        (world.ops, world.die_at, world.fail_at) = (0, None, None);
        let dying = world.dying.take();
        if crash == Crash::Kill || crash == Crash::TornKill {
            if let (Some((inode, at, bytes)), Crash::TornKill) = (dying, crash) {
                world.inodes[inode].write(at, &bytes[..random.below(bytes.len() + 1)]);
            }
            return Sim(Arc::new(Mutex::new(world)));
        }
        world.boot += 1;
        world.folder = world.forced.clone();
        let kept = random.below(world.pending.len() + 1);
        for (i, entry) in world.pending.iter().enumerate() {
            let keep = match crash {
                Crash::Everything => true,
                Crash::Prefix => i < kept,
                Crash::Mixture => random.below(2) == 0,
                _ => false,
            };
            if keep {
                apply(&mut world.folder, entry);
            }
        }
        world.pending.clear();
        world.forced = world.folder.clone();
        for inode in &mut world.inodes {
            inode.data = inode.after(crash, random);
            inode.force();
        }
        Sim(Arc::new(Mutex::new(world)))
    }
}

struct Handle {
    sim: Sim,
    inode: usize,
    kind: Skip,
    end: usize,
}

impl ReadFile for Handle {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut world = self.sim.0.lock().unwrap();
        world.op()?;
        let data = &world.inodes[self.inode].data;
        let at = offset as usize;
        let bytes = data.get(at..at + buf.len()).ok_or(ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.sim.0.lock().unwrap().inodes[self.inode].data.len() as u64)
    }
}

impl WriteFile for Handle {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sim.0.lock().unwrap().write(self.inode, self.end, bytes)?;
        self.end += bytes.len();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sim.0.lock().unwrap().force(self.inode, self.kind)
    }
}

impl LogFile for Handle {
    fn grow(&mut self, len: u64) -> io::Result<()> {
        let mut world = self.sim.0.lock().unwrap();
        world.op()?;
        world.room(self.inode, len as usize)?;
        world.inodes[self.inode].data.resize(len as usize, 0);
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8], _forced: bool) -> io::Result<()> {
        self.sim.0.lock().unwrap().write(self.inode, offset as usize, bytes)
    }

    fn force(&self) -> Force {
        let Handle { inode, kind, .. } = *self;
        let sim = self.sim.clone();
        Box::new(move || sim.0.lock().unwrap().force(inode, kind))
    }
}

impl Disk for Sim {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }

    fn list(&self, _: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut world = self.0.lock().unwrap();
        world.op()?;
        Ok(world
            .folder
            .iter()
            .map(|(n, i)| (n.clone(), world.inodes[*i].data.len() as u64))
            .collect())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let mut world = self.0.lock().unwrap();
        world.op()?;
        let inode = *world.folder.get(&name(path)).ok_or(ErrorKind::NotFound)?;
        Ok(Arc::new(Handle { sim: self.clone(), inode, kind: Skip::OldLog, end: 0 }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let inode = self.0.lock().unwrap().make(path)?;
        let kind = match path.extension().and_then(|e| e.to_str()) {
            Some("table") => Skip::Table,
            Some("manifest") => Skip::Manifest,
            _ => Skip::Current,
        };
        Ok(Box::new(Handle { sim: self.clone(), inode, kind, end: 0 }))
    }

    fn create_log(&self, path: &Path) -> io::Result<Box<dyn LogFile>> {
        let inode = self.0.lock().unwrap().make(path)?;
        Ok(Box::new(Handle { sim: self.clone(), inode, kind: Skip::Log, end: 0 }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        world.change()?;
        let inode = world.folder.remove(&name(from)).ok_or(ErrorKind::NotFound)?;
        world.folder.insert(name(to), inode);
        world.pending.push(Entry::Moved(name(from), name(to), inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        world.change()?;
        world.folder.remove(&name(path)).ok_or(ErrorKind::NotFound)?;
        world.pending.push(Entry::Gone(name(path)));
        Ok(())
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        let inode = *world.folder.get(&name(path)).ok_or(ErrorKind::NotFound)?;
        world.force(
            inode,
            if name(path).ends_with("log") { Skip::OldLog } else { Skip::OldManifest },
        )
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        world.op()?;
        if world.skip != Some(Skip::Folder) {
            world.forced = world.folder.clone();
            world.pending.clear();
        }
        Ok(())
    }

    fn free(&self, _: &Path) -> u64 {
        let world = self.0.lock().unwrap();
        world.space.map_or(u64::MAX, |space| (space - world.used()) as u64)
    }

    fn boot(&self) -> [u8; 16] {
        [self.0.lock().unwrap().boot + 1; 16]
    }
}
