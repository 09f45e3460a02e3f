//! Power failures of block devices. A file system lies on a loop device whose writes and flushes are
//! recorded; states in which the device may be after losing power at any of them are drawn, mounted,
//! so that the file system recovers itself first, and checked as in `real`.
//!
//! Of the writes since the last flush any subset may be there, in part too, by sectors. A neighbour
//! on the same file system synchronizes a file of its own meanwhile, which commits the file system's
//! journal at moments that no protocol chose.
//!
//! The recorder is a file in user space (FUSE) below the loop device, for kernels without device
//! mapper. Needs root, /dev/fuse and loop devices:
//! `SYNQLITE_STATES=100 cargo test --release -p synqlite-dash --test it block -- --ignored --nocapture`

use crate::Random;
use crate::lab::Lab;
use crate::real::{Mounted, SCHEMA, connect, counts, run};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, WriteFlags,
};
use rusqlite::Connection;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};
use synqlite_dash::disk::Sync;
use synqlite_dash::{Found, Mode};

const SECTOR: usize = 512;
const TRANSACTIONS: i64 = 12;

/// What happened, in order.
#[derive(Debug, Clone)]
enum Event {
    Write(u64, Vec<u8>),
    Flush,
    /// A transaction was begun, or acknowledged.
    Begin(i64),
    Ack(i64),
}

/// Events, once somebody wants them.
#[derive(Debug, Clone, Default)]
struct Events(Arc<Mutex<Option<Vec<Event>>>>);

impl Events {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Event>>> {
        self.0.lock().expect("nobody panics while holding it")
    }

    fn note(&self, event: Event) {
        if let Some(events) = &mut *self.lock() {
            events.push(event);
        }
    }
}

/// A folder with one file, `device`, whose bytes are those of an image.
struct Recorder {
    image: File,
    events: Events,
}

const DEVICE: INodeNo = INodeNo(2);

impl Recorder {
    fn attributes(&self, of: INodeNo) -> FileAttr {
        let folder = of != DEVICE;
        let size = if folder { 0 } else { self.image.metadata().expect("an image").len() };
        FileAttr {
            ino: of,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if folder { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Recorder {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("device") => reply.entry(&Duration::MAX, &self.attributes(DEVICE), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, of: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&Duration::MAX, &self.attributes(of));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        let read = self.image.read_at(&mut bytes, offset).expect("reads");
        reply.data(&bytes[..read]);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.image.write_all_at(bytes, offset).expect("writes");
        self.events.note(Event::Write(offset, bytes.to_vec()));
        reply.written(bytes.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.events.note(Event::Flush);
        reply.ok();
    }
}

/// A device in user space, and the folder of its one file.
struct Device {
    _session: BackgroundSession,
    path: PathBuf,
}

impl Device {
    fn new(image: &Path, at: &Path, events: Events) -> std::io::Result<Device> {
        let image = File::options().read(true).write(true).open(image)?;
        let session = fuser::spawn_mount(Recorder { image, events }, at, &Config::default())?;
        Ok(Device { _session: session, path: at.join("device") })
    }
}

/// Runs a workload on `image` and records what reaches the device.
fn record(
    lab: &Lab,
    image: &Path,
    folder: &Path,
    mode: Mode,
    left_out: Option<Sync>,
) -> Option<Vec<Event>> {
    let (below, mount) = (folder.join("below"), folder.join("mount"));
    let events = Events::default();
    let device = match Device::new(image, &below, events.clone()) {
        Ok(device) => device,
        Err(error) => {
            println!("no file system in user space: {error}");
            return None;
        }
    };
    let mounted = Mounted::new(&device.path, &mount)?;
    lab.reset_booted(1);
    let db = connect(&mounted.0, mode).expect("opens");
    db.execute_batch(SCHEMA).expect("a schema");
    run("sync", &[]);
    // What is on the device now is what states begin with.
    run(
        "cp",
        &["--sparse=always", &image.to_string_lossy(), &folder.join("before").to_string_lossy()],
    );
    *events.lock() = Some(vec![Event::Begin(0), Event::Ack(0)]);
    lab.leave_out(left_out);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = File::create(mounted.0.join("neighbour")).expect("a file");
            for n in 0_u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all_at(&[n as u8; 100], n * 100).expect("writes");
                file.sync_all().expect("synchronizes");
                std::thread::sleep(Duration::from_micros(500 * (n % 7)));
            }
        });
        for n in 1..=TRANSACTIONS {
            events.note(Event::Begin(n));
            let sql =
                format!("BEGIN; UPDATE m SET n = {n}; UPDATE t SET b = {n} WHERE b < {n}; COMMIT");
            db.execute_batch(&sql).expect("commits");
            events.note(Event::Ack(n));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let recorded = events.lock().take();
    drop(db);
    drop(mounted);
    recorded
}

/// Writes one state that the device may be in after `events` to an image that holds what was there
/// before them.
fn draw(events: &[Event], image: &File, random: &mut Random) {
    let flushed = events.iter().rposition(|event| matches!(event, Event::Flush)).unwrap_or(0);
    let style = random.below(5);
    let odd = flushed + random.below(events.len() - flushed);
    for (at, event) in events.iter().enumerate() {
        let Event::Write(offset, bytes) = event else { continue };
        let (kept, torn) = match style {
            _ if at < flushed => (true, false),
            0 => (true, false),
            1 => (at != odd, false),
            2 => (at == odd, false),
            3 => (random.chance(50), false),
            _ => (random.chance(70), random.chance(50)),
        };
        if !kept {
            continue;
        }
        for (sector, piece) in bytes.chunks(SECTOR).enumerate() {
            if !torn || random.chance(50) {
                let offset = offset + (sector * SECTOR) as u64;
                image.write_all_at(piece, offset).expect("writes a state");
            }
        }
    }
}

/// Whether one state keeps what the mode promises; and whether other programs find the latest.
fn check(lab: &Lab, events: &[Event], folder: &Path, mode: Mode) -> Result<bool, String> {
    let last = |wanted: fn(&Event) -> Option<i64>| events.iter().rev().find_map(wanted);
    let acked = last(|e| if let Event::Ack(n) = e { Some(*n) } else { None }).unwrap_or(0);
    let begun = last(|e| if let Event::Begin(n) = e { Some(*n) } else { None }).unwrap_or(0);
    let mounted = Mounted::new(&folder.join("state"), &folder.join("mount"))
        .ok_or("the file system cannot be mounted")?;
    let outside = match Connection::open(mounted.0.join("app.db")) {
        Ok(stock) => counts(&stock),
        Err(error) => Err(error.to_string()),
    };
    lab.reset_booted(2);
    let recovered = connect(&mounted.0, mode).map_err(|e| e.to_string()).and_then(|db| {
        let found = counts(&db)?;
        for n in 101..103 {
            let sql = format!("BEGIN; UPDATE m SET n = {n}; UPDATE t SET b = {n}; COMMIT");
            db.execute_batch(&sql).map_err(|e| e.to_string())?;
            counts(&db)?;
        }
        Ok(found)
    });
    let fits = |found: &Result<i64, String>, least: i64| {
        found.as_ref().is_ok_and(|n| (least..=begun).contains(n))
    };
    let kept = match mode.found_by_others() {
        Found::Latest => fits(&outside, acked),
        Found::OneBehind => fits(&outside, acked - 1),
        Found::Anything => true,
    };
    match fits(&recovered, acked) && kept {
        true => Ok(fits(&outside, acked)),
        false => Err(format!(
            "acknowledged {acked}, begun {begun}, from outside {outside:?}, recovered {recovered:?}"
        )),
    }
}

/// What states of some workloads came to.
#[derive(Debug, Default)]
struct Tally {
    right: usize,
    wrong: Vec<String>,
    /// Of those that are right, how many show other programs a transaction before the latest.
    behind: usize,
}

/// Draws states of workloads on a new file system each, with some synchronizations only claimed.
/// `None` if the machine cannot do that.
fn campaign(
    lab: &Lab,
    fs: FileSystem,
    mode: Mode,
    left_out: Option<Sync>,
    states: usize,
    random: &mut Random,
) -> Option<Tally> {
    const A_WORKLOAD: usize = 25;
    let mut tally = Tally::default();
    while tally.right + tally.wrong.len() < states {
        let folder = crate::folder();
        let at = |name: &str| folder.path().join(name);
        let text = |name: &str| at(name).to_string_lossy().into_owned();
        for name in ["below", "mount"] {
            std::fs::create_dir(at(name)).expect("a folder");
        }
        File::create(at("image")).and_then(|f| f.set_len(fs.size)).expect("an image");
        let made =
            run(&format!("mkfs.{}", fs.name), &[fs.options, &["-q", &text("image")]].concat());
        assert!(made, "{fs:?}");
        let events = record(lab, &at("image"), folder.path(), mode, left_out)?;
        for _ in 0..A_WORKLOAD.min(states - tally.right - tally.wrong.len()) {
            let events = &events[..2 + random.below(events.len() - 1)];
            run("cp", &["--sparse=always", &text("before"), &text("state")]);
            let image = File::options().write(true).open(at("state")).expect("a copy");
            draw(events, &image, random);
            drop(image);
            if !fs.options.is_empty() {
                // Nothing else keeps a folder whole there, and a machine does this when it starts.
                run("e2fsck", &["-f", "-y", &text("state")]);
            }
            match check(lab, events, folder.path(), mode) {
                Ok(latest) => {
                    tally.right += 1;
                    tally.behind += usize::from(!latest);
                }
                Err(why) => tally.wrong.push(why),
            }
        }
    }
    Some(tally)
}

/// The disk of these tests, which take turns; how many states, and which.
fn bench() -> (MutexGuard<'static, Lab>, usize, usize) {
    static LAB: OnceLock<Mutex<Lab>> = OnceLock::new();
    let lab = LAB.get_or_init(|| {
        let lab = Lab::default();
        synqlite_dash::register_as("real", Arc::new(lab.clone())).expect("registers");
        Mutex::new(lab)
    });
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let lab = lab.lock().unwrap_or_else(PoisonError::into_inner);
    (lab, number("SYNQLITE_STATES").unwrap_or(50), number("SYNQLITE_SEED").unwrap_or(0))
}

/// How to make a file system, in how many bytes.
#[derive(Debug, Clone, Copy)]
struct FileSystem {
    name: &'static str,
    options: &'static [&'static str],
    size: u64,
}

const EXT4: FileSystem = FileSystem { name: "ext4", options: &[], size: 32 << 20 };
const FILE_SYSTEMS: [FileSystem; 4] = [
    EXT4,
    FileSystem { options: &["-O", "^has_journal"], ..EXT4 },
    FileSystem { name: "xfs", options: &[], size: 300 << 20 },
    FileSystem { name: "btrfs", options: &[], size: 128 << 20 },
];

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn block_devices_keep_what_the_modes_promise() {
    let (lab, states, seed) = bench();
    for file_system in FILE_SYSTEMS {
        let fs = [&[file_system.name], file_system.options].concat().join(" ");
        for mode in Mode::ALL {
            let mut random = Random::new((seed * 100 + mode as usize) as u64);
            let found = campaign(&lab, file_system, mode, None, states, &mut random);
            let Some(Tally { right, wrong, behind }) = found else { return };
            println!(
                "{fs} {mode}: {right} right, of which {behind} not the latest from outside; {} wrong",
                wrong.len()
            );
            assert!(!mode.is_safe() || wrong.is_empty(), "{fs} {mode} seed {seed}: {wrong:#?}");
            let fault = (&*fs, mode) != ("ext4", Mode::Paper) || states < 50 || !wrong.is_empty();
            assert!(fault, "the paper's fault was not found");
        }
    }
}

#[test]
#[ignore = "needs root, /dev/fuse and loop devices"]
fn block_devices_show_that_a_synchronization_is_missing() {
    let (lab, states, seed) = bench();
    for (mode, left_out) in [(Mode::Strict, Sync::Names), (Mode::Fast, Sync::Bytes)] {
        let mut random = Random::new((seed * 100 + mode as usize) as u64);
        let found = campaign(&lab, EXT4, mode, Some(left_out), states.max(50), &mut random);
        let Some(found) = found else { return };
        println!("{mode} without {left_out:?}: {} right, {} wrong", found.right, found.wrong.len());
        assert!(!found.wrong.is_empty(), "{mode} without {left_out:?} seed {seed}: nothing found");
    }
}
