//! Looking at every byte of a closed store, and salvaging what is readable of a damaged one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::cache::Cache;
use crate::codec::Reader;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::file::Real;
use crate::folder::Folder;
use crate::log::{self, LogReader, Stop, take_op};
use crate::manifest::{Edit, Manifest, file_name};
use crate::memtable::{Entry, Memtable};
use crate::merge::{MemSource, Merge, RunSource, Source};
use crate::options::Options;
use crate::recover::{self, Kind};
use crate::table::{Builder, Meta, Table};

/// What [`verify`] or [`repair`] found.
#[derive(Debug, Default)]
pub struct Report {
    /// Tables read to the end.
    pub tables: usize,
    /// Entries read, deletions included.
    pub entries: u64,
    /// Damage, each with file and offset.
    pub problems: Vec<Error>,
    /// Where a power failure cut the logs; no damage.
    pub dropped: Option<recover::Dropped>,
}

/// Reads all of a closed store and lists what is damaged or missing. Changes nothing.
pub fn verify(path: impl AsRef<Path>) -> Result<Report> {
    verify_on(Arc::new(Real), path)
}

/// [`verify`] on any [`Disk`].
pub fn verify_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>) -> Result<Report> {
    Ok(Closed::enter(disk, path.as_ref())?.inspect()?.0)
}

/// Makes a damaged store openable again with everything that is readable. Damaged files stay
/// beside it with `.damaged` added to their names. The report lists what was damaged; a store
/// without damage is left alone.
///
/// A key may show an older value, or show up again after its deletion, where the newer change was
/// in a damaged part: check the report against a backup.
pub fn repair(path: impl AsRef<Path>) -> Result<Report> {
    repair_on(Arc::new(Real), path)
}

/// [`repair`] on any [`Disk`].
pub fn repair_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>) -> Result<Report> {
    let store = Closed::enter(disk, path.as_ref())?;
    let (report, state) = store.inspect()?;
    if !report.problems.is_empty() {
        store.rewrite(state, &report.problems)?;
    }
    Ok(report)
}

struct Closed {
    folder: Arc<Folder>,
    options: Options,
    cache: Arc<Cache>,
    /// Held until the end.
    _lock: Box<dyn Send + Sync>,
}

impl Closed {
    fn enter(disk: Arc<dyn Disk>, dir: &Path) -> Result<Closed> {
        let options = Options { create: false, ..Options::default() };
        let folder = Arc::new(Folder::new(disk, dir));
        let lock = recover::enter(&folder, &options)?;
        Ok(Closed { folder, options, cache: Arc::new(Cache::new(0, true)), _lock: lock })
    }

    fn files(&self) -> Result<BTreeSet<String>> {
        Ok(self.folder.files()?.into_keys().collect())
    }

    fn table(&self, meta: &Meta) -> Arc<Table> {
        Table::new(&self.folder, &self.cache, meta.clone())
    }

    /// What is there, and what to go by: the manifest if it is whole and so is what it names.
    fn inspect(&self) -> Result<(Report, Edit)> {
        let mut report = Report::default();
        let files = self.files()?;
        let (state, whole) = match recover::read_manifest(&self.folder) {
            Ok((number, state, torn)) => {
                report.problems.extend(torn.map(|at| {
                    let what = "the last edit is cut short or damaged";
                    Error::corrupt(&self.folder.path(&file_name(number)), at, what)
                }));
                let log = state.open.then(|| log::file_name(state.log));
                let mut named = state.added.iter().map(|(_, m)| m.file()).chain(log);
                let complete = named.all(|name| files.contains(&name));
                (state, torn.is_none() && complete)
            }
            Err(e) => {
                report.problems.push(e);
                (loose(&files), false)
            }
        };
        for (_, meta) in &state.added {
            let (problems, mut seen) = (report.problems.len(), 0);
            let table = self.table(meta);
            walk(&table, |_| seen += 1, |e| report.problems.push(e));
            report.tables += 1;
            report.entries += seen;
            if problems == report.problems.len() && meta.entries != 0 && seen != meta.entries {
                let what = format!("{seen} entries, {} were written", meta.entries);
                report.problems.push(Error::corrupt(table.path(), 0, what));
            }
        }
        let mut sorted: Vec<_> = state.added.iter().filter(|(level, _)| *level > 0).collect();
        sorted.sort_by(|(a, m), (b, n)| a.cmp(b).then_with(|| m.first.cmp(&n.first)));
        for pair in sorted.windows(2) {
            if pair[0].0 == pair[1].0 && pair[0].1.last >= pair[1].1.first {
                let what = "it overlaps another table of its level";
                let path = self.folder.path(&pair[1].1.file());
                report.problems.push(Error::corrupt(&path, 0, what));
            }
        }
        match recover::read_logs(&self.folder, &state) {
            Ok(found) => {
                report.dropped = found.dropped;
                for memtable in found.sealed {
                    memtable.visit(|_| {
                        report.entries += 1;
                        Ok::<_, Error>(())
                    })?;
                }
            }
            Err(e) => report.problems.push(e),
        }
        Ok((report, if whole { state } else { loose(&files) }))
    }

    /// Merges all that is readable into new tables. Which of two versions is newer the sequences
    /// say, entry by entry.
    fn rewrite(&self, state: Edit, problems: &[Error]) -> Result<()> {
        let files = self.files()?;
        let numbers = files.iter().filter_map(|name| match recover::kind(name) {
            Kind::Table(n) | Kind::Manifest(n) => Some(n + 1),
            _ => None,
        });
        let mut next = numbers.chain([state.next_file]).max().unwrap_or(1);
        // Base 0 is below every sequence.
        let mut builder = || {
            next += 1;
            Builder::new(next - 1, 0, &self.options)
        };
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for (_, meta) in &state.added {
            let (mut table, mut sound, mut copy) = (self.table(meta), true, builder());
            walk(&table, |e| copy.add(e), |_| sound = false);
            if !sound {
                if copy.size() == 0 {
                    continue;
                }
                table = self.table(&copy.write(&self.folder)?);
            }
            // What the table itself says: a manifest may be lost.
            let table = self.table(&table.load()?.meta);
            let run = RunSource::new(Arc::from([table]), None, false, false, 0)?;
            sources.push(Box::new(run));
        }
        let mut last_log = 0;
        for name in &files {
            if let Kind::Log(number) = recover::kind(name) {
                last_log = last_log.max(number);
                if number >= state.log {
                    let memtable = Arc::new(self.salvage_log(number)?);
                    sources.push(Box::new(MemSource::new(memtable, None, false)));
                }
            }
        }
        let (mut added, mut out) = (Vec::new(), builder());
        let mut merge = Merge::new(sources, false);
        while let Some(entry) = merge.entry() {
            if out.size() >= self.options.table_size {
                let full = std::mem::replace(&mut out, builder());
                added.push((1, full.write(&self.folder)?));
            }
            out.add(entry);
            merge.next_key()?;
        }
        if out.size() > 0 {
            added.push((1, out.write(&self.folder)?));
        }
        let seq = added.iter().map(|(_, m)| m.newest).max().unwrap_or(0).max(state.seq);
        let number = builder().number();
        let state = Edit {
            seq,
            next_file: number + 1,
            log: state.log.max(last_log + 1),
            open: false,
            forgotten: seq,
            boot: self.folder.disk.boot(),
            added,
            removed: Vec::new(),
        };
        Manifest::start(&self.folder, number, &state)?;
        let damaged: BTreeSet<&Path> = problems.iter().filter_map(Error::path).collect();
        for path in damaged {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let kept =
                matches!(recover::kind(name), Kind::Table(_) | Kind::Log(_) | Kind::Manifest(_));
            if kept && files.contains(name) {
                self.folder.rename(name, &format!("{name}.damaged"))?;
            }
        }
        self.folder.sync()
    }

    /// Every record of a log that is whole, bad ones passed over.
    fn salvage_log(&self, number: u64) -> Result<Memtable> {
        let name = log::file_name(number);
        let (path, bytes) = (self.folder.path(&name), self.folder.read(&name)?);
        let memtable = Memtable::new(number, 0);
        let reader = LogReader::new(&bytes, number, &path);
        let mut reader = reader.unwrap_or_else(|_| LogReader::headless(&bytes, number));
        loop {
            match reader.read() {
                Ok(record) => {
                    let mut r = Reader(record.ops);
                    memtable.insert(record.seq, std::iter::from_fn(|| take_op(&mut r)));
                }
                Err(Stop::Bad { .. }) if reader.resume() => {}
                Err(_) => return Ok(memtable),
            }
        }
    }
}

/// All tables and logs of a folder: what is left to go by without a manifest.
fn loose(files: &BTreeSet<String>) -> Edit {
    let mut state = Edit { log: u64::MAX, ..Edit::default() };
    for name in files {
        match recover::kind(name) {
            Kind::Table(number) => state.added.push((0, Meta { number, ..Meta::default() })),
            Kind::Log(number) => state.log = state.log.min(number),
            _ => {}
        }
    }
    state.log = if state.log == u64::MAX { 1 } else { state.log };
    state
}

/// Visits the entries of all sound blocks of a table; `bad` hears of the others.
fn walk(table: &Table, mut f: impl FnMut(Entry<'_>), mut bad: impl FnMut(Error)) {
    let count = match table.load() {
        Ok(loaded) => loaded.len(),
        Err(e) => return bad(e),
    };
    let (mut last, mut key) = (None::<Vec<u8>>, Vec::new());
    for i in 0..count {
        let block = match table.block(i, false) {
            Ok(block) => block,
            Err(e) => {
                bad(e);
                continue;
            }
        };
        for j in 0..block.len() {
            let read = block.read(j, &mut key);
            let ascends = last.as_ref().is_none_or(|last| *last < key);
            let (Ok((seq, value)), true) = (read, ascends) else {
                bad(table.malformed(i));
                break;
            };
            last.get_or_insert_default().clone_from(&key);
            f(Entry { key: &key, seq, value: value.map(|at| block.bytes(at)) });
        }
    }
}
