//! Looking at every byte of a closed store, and salvaging what is readable of a damaged one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cache::Cache;
use crate::codec::Reader;
use crate::disk::{Disk, Real, read_all};
use crate::error::{At, Error, Result};
use crate::log::{LogReader, take_op};
use crate::manifest::{Edit, Manifest};
use crate::memtable::{Entry, Memtable};
use crate::merge::{Merge, RunSource, Source};
use crate::options::Options;
use crate::recover::{self, Kind};
use crate::table::{Builder, Meta, Table};

/// What [`verify`] or [`repair`] found.
#[derive(Debug, Default)]
pub struct Report {
    /// Tables read to the end.
    pub tables: usize,
    /// Entries read, older versions and deletions included.
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
    let dir = path.as_ref();
    let _lock = recover::enter(&*disk, dir, &Options { create: false, ..Options::default() })?;
    let mut report = Report::default();
    let cache = Arc::new(Cache::new(0));
    let state = match recover::read_manifest(&*disk, dir) {
        Ok((number, state, torn)) => {
            if let Some(at) = torn {
                let path = dir.join(crate::manifest::file_name(number));
                let what = "the last edit is cut short or damaged";
                report.problems.push(Error::corrupt(&path, at, what));
            }
            state
        }
        Err(e) => {
            report.problems.push(e);
            loose_tables(&*disk, dir)?
        }
    };
    let mut runs: BTreeMap<usize, Vec<&Meta>> = BTreeMap::new();
    for (level, meta) in &state.added {
        let table = Table::new(dir, meta.clone(), disk.clone(), cache.clone(), true);
        let problems = report.problems.len();
        let mut seen = 0;
        walk(
            &table,
            |_| {
                seen += 1;
                Ok(())
            },
            |e| report.problems.push(e),
        )?;
        report.tables += 1;
        report.entries += seen;
        if problems == report.problems.len() && meta.entries != 0 && seen != meta.entries {
            let what = format!("{seen} entries, {} were written", meta.entries);
            report.problems.push(Error::corrupt(table.path(), 0, what));
        }
        if *level > 0 {
            runs.entry(*level).or_default().push(meta);
        }
    }
    for run in runs.values_mut() {
        run.sort_by(|a, b| a.first.cmp(&b.first));
        for pair in run.windows(2).filter(|pair| pair[0].last >= pair[1].first) {
            let path = dir.join(pair[1].file());
            report.problems.push(Error::corrupt(
                &path,
                0,
                "it overlaps another table of its level",
            ));
        }
    }
    match recover::read_logs(&*disk, dir, &state) {
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
    Ok(report)
}

/// All tables in the folder, as if on level 0: what is left to go by without a manifest.
fn loose_tables(disk: &dyn Disk, dir: &Path) -> Result<Edit> {
    let mut state = Edit { log: u64::MAX, ..Edit::default() };
    for (name, _) in disk.list(dir).at("list", dir)? {
        match recover::kind(&name) {
            Kind::Table(number) => state.added.push((0, Meta { number, ..Meta::default() })),
            Kind::Log(number) => state.log = state.log.min(number),
            _ => {}
        }
    }
    state.log = if state.log == u64::MAX { 1 } else { state.log };
    Ok(state)
}

/// Visits the entries of all sound blocks of a table; `bad` hears of the others.
fn walk(
    table: &Table,
    mut f: impl FnMut(Entry<'_>) -> Result<()>,
    mut bad: impl FnMut(Error),
) -> Result<()> {
    let count = match table.load() {
        Ok(loaded) => loaded.len(),
        Err(e) => {
            bad(e);
            return Ok(());
        }
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
            let Ok((seq, value)) = block.read(j, &mut key) else {
                bad(table.malformed(i));
                break;
            };
            if last.as_ref().is_some_and(|last| *last >= key) {
                bad(table.malformed(i));
                break;
            }
            last.get_or_insert_default().clone_from(&key);
            f(Entry { key: &key, seq, value: value.map(|at| block.bytes(at)) })?;
        }
    }
    Ok(())
}

/// Makes a damaged store openable again with everything that is readable. Damaged files stay
/// beside it with `.damaged` added to their names. The report lists what was damaged.
///
/// A key may show an older value, or show up again after its deletion, where the newer change was
/// in a damaged part: check the report against a backup.
pub fn repair(path: impl AsRef<Path>) -> Result<Report> {
    repair_on(Arc::new(Real), path)
}

/// [`repair`] on any [`Disk`].
pub fn repair_on(disk: Arc<dyn Disk>, path: impl AsRef<Path>) -> Result<Report> {
    let dir = path.as_ref();
    let options = Options { create: false, ..Options::default() };
    let _lock = recover::enter(&*disk, dir, &options)?;
    let mut repair = Repair {
        disk,
        dir,
        options,
        cache: Arc::new(Cache::new(0)),
        next: 1,
        report: Report::default(),
    };
    repair.run()?;
    Ok(repair.report)
}

struct Repair<'a> {
    disk: Arc<dyn Disk>,
    dir: &'a Path,
    options: Options,
    cache: Arc<Cache>,
    next: u64,
    report: Report,
}

impl Repair<'_> {
    fn run(&mut self) -> Result<()> {
        let files: BTreeSet<String> = self
            .disk
            .list(self.dir)
            .at("list", self.dir)?
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        for name in &files {
            if let Kind::Table(n) | Kind::Manifest(n) = recover::kind(name) {
                self.next = self.next.max(n + 1);
            }
        }
        let mut damaged: Vec<PathBuf> = Vec::new();
        let (known, mut state) = match recover::read_manifest(&*self.disk, self.dir) {
            Ok((_, state, None)) => match self.missing(&files, &state) {
                None => (true, state),
                Some(e) => {
                    self.report.problems.push(e);
                    (false, loose_tables(&*self.disk, self.dir)?)
                }
            },
            Ok((number, _, Some(at))) => {
                let path = self.dir.join(crate::manifest::file_name(number));
                self.report.problems.push(Error::corrupt(
                    &path,
                    at,
                    "the last edit is cut short or damaged",
                ));
                (false, loose_tables(&*self.disk, self.dir)?)
            }
            Err(e) => {
                self.report.problems.push(e);
                (false, loose_tables(&*self.disk, self.dir)?)
            }
        };
        let mut tables = Vec::new();
        for (level, meta) in std::mem::take(&mut state.added) {
            let table = Table::new(self.dir, meta, self.disk.clone(), self.cache.clone(), true);
            match self.salvage_table(&table)? {
                Some(sound) if sound.number == table.meta.number => tables.push((level, sound)),
                Some(copy) => {
                    damaged.push(table.path().to_owned());
                    tables.push((level, copy));
                }
                None => damaged.push(table.path().to_owned()),
            }
        }
        let mut logs = Vec::new();
        for name in &files {
            let Kind::Log(number) = recover::kind(name) else { continue };
            if number < state.log {
                continue;
            }
            let memtable = self.salvage_log(number)?;
            let mut one = None;
            if !memtable.is_empty() {
                let mut last: Option<Vec<u8>> = None;
                memtable.visit(|e| {
                    if last.as_deref() == Some(e.key) {
                        return Ok(());
                    }
                    last = Some(e.key.to_vec());
                    self.add(&mut one, e)
                })?;
                logs.extend(self.finish(one)?.into_iter().map(|m| (0, m)));
            }
        }
        tables.extend(logs);
        if !known {
            // Nothing says which table is newer: sequences do, entry by entry.
            tables = self.merge_all(tables)?.into_iter().map(|m| (1, m)).collect();
        }
        let newest = tables.iter().map(|(_, m)| m.newest).max().unwrap_or(0);
        let last_log = files
            .iter()
            .filter_map(|n| if let Kind::Log(n) = recover::kind(n) { Some(n) } else { None })
            .max();
        let state = Edit {
            seq: state.seq.max(newest),
            next_file: self.next + 1,
            log: state.log.max(last_log.unwrap_or(0) + 1),
            open: false,
            forgotten: if self.report.problems.is_empty() {
                state.forgotten
            } else {
                state.seq.max(newest)
            },
            boot: self.disk.boot(),
            added: tables,
            removed: Vec::new(),
        };
        Manifest::start(&*self.disk, self.dir, self.next, &state)?;
        for path in damaged {
            let mut name = path.clone().into_os_string();
            name.push(".damaged");
            if files.iter().any(|f| path.ends_with(f)) {
                self.disk.rename(&path, Path::new(&name)).at("rename", &path)?;
            }
        }
        self.disk.sync_dir(self.dir).at("sync", self.dir)
    }

    /// The first file that a manifest names and the folder lacks: it may be an old state.
    fn missing(&self, files: &BTreeSet<String>, state: &Edit) -> Option<Error> {
        let log = state.open.then(|| recover::log_name(state.log));
        let tables = state.added.iter().map(|(_, m)| m.file());
        let name = tables.chain(log).find(|name| !files.contains(name))?;
        Some(Error::Missing { path: self.dir.join(name), why: "the manifest names it".into() })
    }

    /// The table's description if it is sound, that of a copy of its sound blocks if it is not.
    fn salvage_table(&mut self, table: &Table) -> Result<Option<Meta>> {
        self.report.tables += 1;
        let mut problems = Vec::new();
        let mut seen = 0;
        walk(
            table,
            |_| {
                seen += 1;
                Ok(())
            },
            |e| problems.push(e),
        )?;
        self.report.entries += seen;
        if problems.is_empty() {
            return Ok(Some(table.load()?.meta.clone()));
        }
        self.report.problems.append(&mut problems);
        let mut copy = None;
        walk(table, |e| self.add(&mut copy, e), |_| ())?;
        self.finish(copy)
    }

    /// Every record of a log that is whole, bad ones passed over.
    fn salvage_log(&mut self, number: u64) -> Result<Memtable> {
        let path = self.dir.join(recover::log_name(number));
        let bytes = read_all(&*self.disk, &path).at("read", &path)?;
        let memtable = Memtable::new(number, 0);
        let mut reader = LogReader::new(&bytes, number, &path).unwrap_or_else(|e| {
            self.report.problems.push(e);
            LogReader::headless(&bytes, number)
        });
        loop {
            match reader.read() {
                Ok(record) => {
                    let mut r = Reader(record.ops);
                    memtable.insert(
                        record.seq,
                        std::iter::from_fn(|| take_op(&mut r))
                            .inspect(|_| self.report.entries += 1),
                    );
                }
                Err(crate::log::Stop::Bad { .. }) => {
                    let what = "a record is damaged, and valid ones follow";
                    self.report.problems.push(Error::corrupt(&path, reader.offset as u64, what));
                    if !reader.resume() {
                        return Ok(memtable);
                    }
                }
                Err(_) => {
                    if reader.cut() {
                        let what = "the file is shorter than it was made";
                        self.report.problems.push(Error::corrupt(
                            &path,
                            reader.offset as u64,
                            what,
                        ));
                    }
                    return Ok(memtable);
                }
            }
        }
    }

    fn add(&mut self, builder: &mut Option<Builder>, entry: Entry<'_>) -> Result<()> {
        // Base 0 is below every sequence.
        let builder = builder.get_or_insert_with(|| {
            self.next += 1;
            Builder::new(self.next - 1, 0, &self.options)
        });
        builder.add(entry);
        Ok(())
    }

    fn finish(&mut self, builder: Option<Builder>) -> Result<Option<Meta>> {
        let Some(builder) = builder else { return Ok(None) };
        let (bytes, meta) = builder.finish();
        let path = self.dir.join(meta.file());
        let mut file = self.disk.create(&path).at("create", &path)?;
        file.append(&bytes).at("write", &path)?;
        file.sync().at("sync", &path)?;
        Ok(Some(meta))
    }

    fn merge_all(&mut self, tables: Vec<(usize, Meta)>) -> Result<Vec<Meta>> {
        let mut sources = Vec::new();
        for (_, meta) in tables {
            let table = Table::new(self.dir, meta, self.disk.clone(), self.cache.clone(), true);
            let run = RunSource::new(Arc::from([Arc::new(table)]), None, false, false, 0)?;
            sources.push(Source::Run(Box::new(run)));
        }
        let mut merge = Merge::new(sources, false);
        let (mut done, mut builder, mut last) = (Vec::new(), None::<Builder>, None::<Vec<u8>>);
        while let Some(entry) = merge.entry() {
            if last.as_deref() != Some(entry.key) {
                let key = last.get_or_insert_default();
                key.clear();
                key.extend_from_slice(entry.key);
                if builder.as_ref().is_some_and(|b| b.size() >= self.options.table_size) {
                    done.extend(self.finish(builder.take())?);
                }
                self.add(&mut builder, entry)?;
            }
            merge.advance()?;
        }
        done.extend(self.finish(builder)?);
        Ok(done)
    }
}
