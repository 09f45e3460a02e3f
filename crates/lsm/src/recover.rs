//! Opening: what the files say, checked against each other.
//!
//! Nothing is written before everything was read and found to fit. The manifest names the tables
//! and the oldest log; logs follow without gaps, each continuing the sequence of the one before.
//! Where they do not, an unsynced tail lost with the power is the only excuse, and it is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codec::Reader;
use crate::error::{At, Error, Result};
use crate::folder::Folder;
use crate::log::{self, HEADER, LogReader, SECTOR, Stop, take_op};
use crate::manifest::{self, CURRENT, CURRENT_NEW, Edit, Manifest};
use crate::memtable::Memtable;
use crate::options::Options;

const LOCK: &str = "LOCK";

/// What a file of a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Log(u64),
    Table(u64),
    Manifest(u64),
    /// Not yet renamed to what it is to be.
    Unfinished,
    Other,
    Foreign,
}

/// What a file name says.
pub(crate) fn kind(name: &str) -> Kind {
    if [LOCK, CURRENT].contains(&name) {
        return Kind::Other;
    }
    if name == CURRENT_NEW {
        return Kind::Unfinished;
    }
    let Some((number, suffix)) = name.split_once('.') else { return Kind::Foreign };
    let (true, Ok(number)) =
        (number.len() >= 8 && number.bytes().all(|b| b.is_ascii_digit()), number.parse())
    else {
        return Kind::Foreign;
    };
    match suffix {
        "log" => Kind::Log(number),
        "table" => Kind::Table(number),
        "manifest" => Kind::Manifest(number),
        "log.new" => Kind::Unfinished,
        _ => Kind::Foreign,
    }
}

/// Checks that the folder is a store or may become one, and takes its lock.
pub(crate) fn enter(folder: &Folder, options: &Options) -> Result<Box<dyn Send + Sync>> {
    let Folder { disk, dir } = folder;
    let not = |why: &str| Error::NotAStore { path: dir.clone(), why: why.to_owned() };
    let files = match disk.list(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && options.create => {
            disk.create_dir(dir).at("create", dir)?;
            Vec::new()
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Err(not("it does not exist")),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => return Err(not("it is a file")),
        other => other.at("list", dir)?,
    };
    if !files.iter().any(|(name, _)| name == CURRENT) {
        if let Some((name, _)) = files.iter().find(|(name, _)| kind(name) == Kind::Foreign) {
            return Err(not(&format!("it holds {name} and no {CURRENT}")));
        }
        if files.is_empty() && !options.create {
            return Err(not("it is empty"));
        }
    }
    let path = folder.path(LOCK);
    match disk.lock(&path) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(Error::Locked { path }),
        other => other.at("lock", &path),
    }
}

/// Unsynced writes that a power failure took: everything from here on was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The log that ends early.
    pub path: PathBuf,
    /// Byte offset of its end.
    pub offset: u64,
}

/// What opening found.
#[derive(Default)]
pub(crate) struct Found {
    /// The manifest's state, its tables in `added`.
    pub(crate) state: Edit,
    /// The current manifest.
    pub(crate) number: u64,
    /// Only in a new store: the manifest just made.
    pub(crate) manifest: Option<Manifest>,
    /// Memtables read back from logs, newest first.
    pub(crate) sealed: Vec<Arc<Memtable>>,
    /// Sequence of the newest change.
    pub(crate) seq: u64,
    pub(crate) last_log: u64,
    pub(crate) dropped: Option<Dropped>,
}

/// Reads the store in `dir`, or makes an empty one.
pub(crate) fn recover(folder: &Folder) -> Result<Found> {
    let files = folder.files()?;
    if !files.contains_key(CURRENT) {
        return create(folder, &files);
    }
    let (number, mut state, torn) = read_manifest(folder)?;
    let manifest = manifest::file_name(number);
    let damaged = |e| match (e, torn) {
        // What the last edit took back is gone: it was whole once.
        (Error::Missing { .. }, Some(at)) => {
            Error::corrupt(&folder.path(&manifest), at, "the last edit is damaged")
        }
        (e, _) => e,
    };
    check_tables(folder, &files, &state).map_err(damaged)?;
    let replayed = read_logs(folder, &state).map_err(damaged)?;
    let kept: BTreeSet<u64> = state.added.iter().map(|(_, m)| m.number).collect();
    let mut stale = Vec::new();
    for name in files.keys() {
        let superfluous = match kind(name) {
            Kind::Log(n) => n < state.log || n > replayed.last_log,
            Kind::Table(n) => !kept.contains(&n),
            Kind::Manifest(n) => n != number,
            Kind::Unfinished => true,
            Kind::Other | Kind::Foreign => false,
        };
        if superfluous {
            stale.push(name);
        }
        if let Kind::Table(n) | Kind::Manifest(n) = kind(name) {
            state.next_file = state.next_file.max(n + 1);
        }
    }
    if !stale.is_empty() {
        // The last edit may be in the kernel only; what it makes superfluous must outlive it.
        folder.sync_file(&manifest)?;
        folder.sync()?;
    }
    stale.iter().for_each(|name| folder.remove(name));
    Ok(Found { state, number, manifest: None, ..replayed })
}

fn create(folder: &Folder, files: &BTreeMap<String, u64>) -> Result<Found> {
    let kinds: Vec<Kind> = files.keys().map(|name| kind(name)).collect();
    if kinds.iter().any(|k| matches!(k, Kind::Log(_) | Kind::Table(_))) {
        let why = "it names the manifest of the tables and logs here".into();
        return Err(Error::Missing { path: folder.path(CURRENT), why });
    }
    // A manifest without CURRENT is a creation that was interrupted.
    let number =
        1 + kinds.iter().map(|k| if let Kind::Manifest(n) = k { *n } else { 0 }).max().unwrap_or(0);
    let state = Edit { next_file: number + 1, log: 1, ..Edit::default() };
    let manifest = Manifest::start(folder, number, &state)?;
    Ok(Found { state, number, manifest: Some(manifest), ..Found::default() })
}

/// The current manifest: its number, its state, and where it is torn.
pub(crate) fn read_manifest(folder: &Folder) -> Result<(u64, Edit, Option<u64>)> {
    let number = manifest::parse_pointer(&folder.read(CURRENT)?, &folder.path(CURRENT))?;
    let name = manifest::file_name(number);
    let path = folder.path(&name);
    let bytes = match folder.read(&name) {
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(Error::Missing { path, why: format!("{CURRENT} names it") });
        }
        other => other?,
    };
    let contents = manifest::decode(&bytes, number, &path)?;
    Ok((number, contents.state, contents.torn))
}

fn check_tables(folder: &Folder, files: &BTreeMap<String, u64>, state: &Edit) -> Result<()> {
    for (_, meta) in &state.added {
        let path = folder.path(&meta.file());
        match files.get(&meta.file()) {
            Some(size) if *size == meta.size => {}
            Some(size) => {
                let what = format!("the file has {size} bytes, {} were written", meta.size);
                return Err(Error::corrupt(&path, meta.size.min(*size), what));
            }
            None => {
                return Err(Error::Missing { path, why: "the manifest names this table".into() });
            }
        }
    }
    Ok(())
}

/// A log's records in a memtable, and how the log ended.
struct Read {
    table: Arc<Memtable>,
    end: usize,
    next: u64,
    stop: Stop,
    /// Whether the bytes after the end look like a lost sector.
    hole: bool,
    boot: Option<[u8; 16]>,
    /// The log states the sequence it starts with.
    first: u64,
    /// A force of this log was noted in it.
    forced: bool,
    /// The file is shorter than it was made.
    cut: bool,
}

fn read_log(folder: &Folder, number: u64, next: u64) -> Result<Read> {
    let name = log::file_name(number);
    let (path, bytes) = (folder.path(&name), folder.read(&name)?);
    let mut reader = LogReader::new(&bytes, number, &path)?;
    let (first, boot) = (reader.first, reader.boot);
    if first == 0 {
        reader.next = next;
    }
    let (mut forced, mut stop) = (false, Stop::End);
    let table = Memtable::load(number, bytes.len(), |add| {
        loop {
            let record = match reader.read() {
                Ok(record) => record,
                Err(why) => {
                    stop = why;
                    return Ok(());
                }
            };
            // The header alone is forced when a session begins, without the logs before.
            forced |= record.synced as usize > HEADER;
            let mut r = Reader(record.ops);
            let mut n = 0;
            while let Some(op) = take_op(&mut r) {
                add(record.seq.saturating_add(n), op);
                n += 1;
            }
            if n != record.count || !r.0.is_empty() {
                return Err(Error::corrupt(
                    &path,
                    reader.offset as u64,
                    "a record does not fit the format",
                ));
            }
        }
    })?;
    let table = Arc::new(table);
    forced |= matches!(stop, Stop::Bad { forced: true, .. });
    let hole = match stop {
        Stop::Bad { hole, .. } => hole,
        Stop::End => true,
        // A file cut short counts as zeros beyond its end.
        Stop::Torn => reader.hole(bytes.len() + SECTOR),
    };
    let cut = matches!(stop, Stop::End | Stop::Torn) && reader.cut();
    Ok(Read { table, end: reader.offset, next: reader.next, stop, hole, boot, first, forced, cut })
}

/// Reads the logs that a state still needs. Changes nothing.
pub(crate) fn read_logs(folder: &Folder, state: &Edit) -> Result<Found> {
    let bad = |path: &Path, at: usize, what: &str| Err(Error::corrupt(path, at as u64, what));
    let log_path = |number| folder.path(&log::file_name(number));
    let files = folder.files()?;
    let numbers = files.keys().filter_map(|name| match kind(name) {
        Kind::Log(n) if n >= state.log => Some(n),
        _ => None,
    });
    let logs: BTreeSet<u64> = numbers.collect();
    if state.open && !logs.contains(&state.log) {
        let path = log_path(state.log);
        return Err(Error::Missing { path, why: "the manifest needs this log".into() });
    }
    let newest = logs.last().copied().unwrap_or(state.log.saturating_sub(1));
    let last_log = state.log.saturating_sub(1);
    let mut found = Found { seq: state.seq, last_log, ..Found::default() };
    let now = folder.disk.boot();
    let mut before: Option<(u64, Read)> = None;
    for number in state.log..=newest {
        // A missing log counts as one of which nothing reached the device.
        let read = || read_log(folder, number, found.seq + 1);
        let log = logs.contains(&number).then(read).transpose()?;
        let continues = log.as_ref().is_some_and(|l| l.first == 0 || l.first == found.seq + 1);
        if !continues {
            // Sequences are missing between the log before and this one.
            let forced = later_forced(folder, number, &logs)?;
            let boot = log.as_ref().and_then(|l| l.boot);
            let (path, offset, hole, old) = match &before {
                Some((n, l)) => (log_path(*n), l.end, l.hole, l.boot.or(boot)),
                None => (log_path(number), 0, false, boot),
            };
            if forced || !hole || old == Some(now) {
                return bad(&path, offset, "changes are missing between this log and the next");
            }
            found.dropped = Some(Dropped { path, offset: offset as u64 });
            return Ok(found);
        }
        let Some(log) = log else { continue };
        let path = log_path(number);
        // The boot in which the log was made: with the header, its record of that is lost.
        let boot = log.boot.or(before.as_ref().map_or(Some(state.boot), |(_, l)| l.boot));
        if log.boot.is_none() && boot == Some(now) {
            return bad(&path, 0, "the log header is gone");
        }
        if log.cut && boot == Some(now) {
            return bad(&path, log.end, "the file is shorter than it was made");
        }
        if let Stop::Bad { newer, forced, hole } = log.stop {
            // A log that the next one continues lost nothing that counted.
            let complete =
                logs.contains(&(number + 1)) && starts_with(folder, number + 1, log.next)?;
            if !complete && (forced || !hole || log.boot == Some(now)) {
                let what =
                    format!("a record is damaged, and bytes up to {newer} were written after it");
                return bad(&path, log.end, &what);
            }
            if !complete {
                found.dropped = Some(Dropped { path, offset: log.end as u64 });
            }
        }
        found.seq = log.next.max(1) - 1;
        found.last_log = number;
        if !log.table.is_empty() {
            found.sealed.insert(0, log.table.clone());
        }
        before = Some((number, log));
        if found.dropped.is_some() {
            return Ok(found);
        }
    }
    Ok(found)
}

/// Whether a log's header says that it starts with this sequence.
fn starts_with(folder: &Folder, number: u64, first: u64) -> Result<bool> {
    let name = log::file_name(number);
    let (path, bytes) = (folder.path(&name), folder.read(&name)?);
    Ok(LogReader::new(&bytes, number, &path)?.first == first)
}

/// Whether a log from `number` on notes a force, which covers all logs before it.
fn later_forced(folder: &Folder, number: u64, logs: &BTreeSet<u64>) -> Result<bool> {
    for later in logs.range(number..) {
        if read_log(folder, *later, 0)?.forced {
            return Ok(true);
        }
    }
    Ok(false)
}
