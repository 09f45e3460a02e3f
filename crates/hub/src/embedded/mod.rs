//! The hub's own store: small objects in a log-structured store, large ones in files beside it.
//!
//! What is in memory does not grow with the number of places: everything about a place is read from
//! the store when somebody asks. Readers see what is durable, and only that: sequences up to
//! `durable`, which moves when a batch of the writer is on the device.

mod files;
mod retire;
mod writer;

use crate::backend::{
    Backend, Content, Done, Epoch, Incoming, Later, MOST_BEHIND, Millis, Page, Part, PlaceInfo,
    Reading, SiteInfo, Source, TokenId, Totals, Wanted, random_id,
};
use crate::bucket::{self, Hold, Journal, Keeping};
use crate::error::{Error, Result};
use crate::layout::{self, Rank, Record, Sums};
use crate::place::Place;
use crate::private;
use crate::wait::{Waiters, lock};
use bytes::Bytes;
use files::Files;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;
use synqlite_lsm::disk::Disk;
use synqlite_lsm::{Batch, Db, Options, Real};
use synqlite_objects::{ObjectName, Storage};
use synqlite_wire::{DatabaseId, Id};
use tokio::sync::oneshot;
use writer::{Job, Reply, Writer};

/// Folder of the log-structured store.
const STORE: &str = "store";
/// Folder of large objects.
const FILES: &str = "objects";
/// Folder of what is on its way.
const STAGING: &str = "staging";

/// Largest object in the record that lists read, in bytes.
const HERE: usize = 4 << 10;
/// Largest object in the log-structured store, in bytes; a larger one is a file.
pub const IN_STORE: usize = 256 << 10;
/// Most bytes that one list reads.
const LONGEST_LOOK: usize = 8 << 20;
/// A site that said nothing new is noted anew after so long.
const NOTED: Millis = 60 * 60 * 1000;

/// How an embedded store is opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Bytes of the store that are kept in memory for reading.
    pub cache: usize,
    /// Puts are refused while the device has less free space than this, in bytes.
    pub reserve: u64,
    /// Makes the store if there is none.
    pub create: bool,
    /// How long the first put waits for others that become durable with it.
    pub gather: Duration,
    /// Sites that are known of a place.
    pub sites: usize,
    /// In a bucket: a hub that does not renew its lease for so long has gone.
    pub lease: Duration,
    /// In a bucket: at least so many bytes are logged before a checkpoint makes them needless.
    pub checkpoint: u64,
    /// Where the log-structured store has its files.
    pub disk: fn() -> Arc<dyn Disk>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            cache: 160 << 20,
            reserve: 64 << 20,
            create: true,
            gather: Duration::ZERO,
            sites: 10_000,
            lease: Duration::from_secs(15),
            checkpoint: 64 << 20,
            disk: || Arc::new(Real),
        }
    }
}

/// What the store did since it was opened.
#[derive(Default)]
struct Counters {
    commits: AtomicU64,
    commit_nanos: AtomicU64,
    puts: AtomicU64,
    bytes: AtomicU64,
}

/// What readers and the writer share.
struct Shared {
    /// The writer puts another one in its place where one stopped for want of room.
    db: RwLock<Db>,
    dir: PathBuf,
    files: Files,
    setup: Setup,
    durable: AtomicU64,
    /// Whether all that the store holds is shown: not so after it was opened again.
    shown: AtomicBool,
    totals: Mutex<Totals>,
    counters: Counters,
    waiters: Arc<Waiters>,
}

/// A hub's store in a folder, or in a bucket with a copy in a folder.
pub struct Embedded {
    shared: Arc<Shared>,
    hold: Option<Arc<Hold>>,
    epoch: Epoch,
    jobs: Sender<Job>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Embedded {
    /// Opens the store in a folder. One process at a time has it open.
    pub fn open(dir: &Path, setup: Setup, waiters: Arc<Waiters>) -> Result<Embedded> {
        if setup.create {
            make_folders(dir)?;
        }
        let db = Db::open_on((setup.disk)(), dir.join(STORE), options(setup, setup.create));
        let db = db.map_err(|e| not_opened(e, &dir.display()))?;
        let epoch = enter(&db, dir)?;
        // What an earlier process wrote may not be on the device yet, and is shown from now on.
        db.sync()?;
        let files = Files::Folder(dir.join(FILES));
        Embedded::begin(dir, setup, waiters, (db, epoch, files, None))
    }

    /// Opens the store in a bucket. Its copy in a folder may be lost at any time; with it a start
    /// is faster. One hub at a time has it open.
    pub(crate) fn open_in_bucket(
        storage: Storage,
        dir: &Path,
        setup: Setup,
        waiters: Arc<Waiters>,
    ) -> Result<Embedded> {
        make_folders(dir)?;
        let Setup { lease: patience, checkpoint, create, .. } = setup;
        let keeping = Keeping { patience, checkpoint, create };
        let files = Files::Bucket(Arc::new(storage.clone()));
        let opened = bucket::open(storage, &dir.join(STORE), &options(setup, true), keeping);
        let (db, epoch, journal) = opened.map_err(|e| match e {
            Error::Lsm(e) => not_opened(e, &dir.display()),
            e => e,
        })?;
        Embedded::begin(dir, setup, waiters, (db, epoch, files, Some(journal)))
    }

    fn begin(
        dir: &Path,
        setup: Setup,
        waiters: Arc<Waiters>,
        (db, epoch, files, journal): (Db, Epoch, Files, Option<Journal>),
    ) -> Result<Embedded> {
        sweep(&db, &files)?;
        let hold = journal.as_ref().map(Journal::hold);
        let shared = Arc::new(Shared {
            totals: Mutex::default(),
            db: RwLock::new(db),
            dir: dir.to_owned(),
            files,
            setup,
            durable: AtomicU64::new(0),
            shown: AtomicBool::new(true),
            counters: Counters::default(),
            waiters,
        });
        let sequence = shared.look()?;
        let (jobs, queue) = channel();
        let writer = Writer::new(shared.clone(), journal, queue, sequence);
        let thread = std::thread::Builder::new().name("hub-writer".into());
        let thread = thread.spawn(|| writer.run()).map_err(Error::io("start a thread for", dir))?;
        Ok(Embedded { shared, hold, epoch, jobs, thread: Mutex::new(Some(thread)) })
    }

    /// Folder for what is on its way, on the same device.
    pub fn staging(dir: &Path) -> PathBuf {
        dir.join(STAGING)
    }

    /// Asks the writer. Whatever it does is done even if nobody waits for the answer.
    fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> oneshot::Receiver<Result<T>> {
        let (reply, answer) = oneshot::channel();
        // A writer that is gone drops the reply, which the receiver notices.
        let _ = self.jobs.send(job(reply));
        answer
    }
}

/// What a hub says whose key-value store does not open: nobody knows of that one.
fn not_opened(e: synqlite_lsm::Error, dir: &dyn std::fmt::Display) -> Error {
    let place = dir.to_string();
    match e {
        synqlite_lsm::Error::Locked { .. } => Error::Taken { place },
        synqlite_lsm::Error::NotAStore { .. } => Error::NoStore { place },
        e => e.into(),
    }
}

fn make_folders(dir: &Path) -> Result<()> {
    private::make(dir)?;
    [STORE, FILES, STAGING].iter().try_for_each(|folder| private::make_own(&dir.join(folder)))
}

fn options(setup: Setup, create: bool) -> Options {
    // Large tables: files that stay open are few even where the store is large.
    Options { cache_size: setup.cache, create, table_size: 32 << 20, ..Options::default() }
}

/// The answer of the writer.
async fn answer<T>(receiver: oneshot::Receiver<Result<T>>) -> Result<T> {
    receiver.await.unwrap_or_else(|_| Err(Error::away("the store is closed")))
}

/// Does something on a thread that may wait.
async fn look<T: Send + 'static>(
    shared: &Arc<Shared>,
    f: impl FnOnce(&Shared) -> Result<T> + Send + 'static,
) -> Result<T> {
    let shared = shared.clone();
    let done = tokio::task::spawn_blocking(move || f(&shared)).await;
    done.unwrap_or_else(|_| Err(Error::away("a thread of the hub failed")))
}

/// A future that is ready: what is read from the store's cache needs no thread of its own.
fn now<'a, T: Send + 'a>(value: Result<T>) -> Later<'a, T> {
    Box::pin(std::future::ready(value))
}

/// Checks the format and returns the epoch; a new store gets both.
fn enter(db: &Db, dir: &Path) -> Result<Epoch> {
    if let Some(found) = db.get(layout::FORMAT_KEY)? {
        let [found] = layout::numbers(&found)?;
        if found > layout::FORMAT {
            let (what, known) = (dir.display().to_string(), layout::FORMAT);
            return Err(Error::Newer { what, found, known });
        }
        let epoch = db.get(layout::EPOCH_KEY)?.unwrap_or_default();
        return layout::id(&epoch);
    }
    if db.scan(..)?.advance()? {
        let what = dir.display().to_string();
        return Err(Error::Damaged { what, why: "it is a store, but not of a hub" });
    }
    let epoch = random_id()?;
    let mut batch = Batch::new();
    batch.put(layout::FORMAT_KEY, layout::FORMAT.to_be_bytes())?;
    batch.put(layout::EPOCH_KEY, epoch.0)?;
    db.write_with(&batch, true)?;
    Ok(epoch)
}

/// Removes large objects that no record leads to: a hub that was killed had not recorded them yet,
/// or had forgotten them already.
fn sweep(db: &Db, files: &Files) -> Result<()> {
    for id in files.ids()? {
        if db.get(layout::file(id))?.is_none() {
            files.remove(id);
        }
    }
    Ok(())
}

fn sum(db: &Db) -> Result<Totals> {
    let mut totals = Totals::default();
    let mut scan = db.scan_prefix([layout::PLACE])?;
    while scan.advance()? {
        let sums = Sums::decode(scan.value())?;
        totals.places += 1;
        totals.objects += sums.objects;
        totals.bytes += sums.bytes;
    }
    Ok(totals)
}

impl Shared {
    fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    fn db(&self) -> Db {
        self.db.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The newest sequence in the store.
    fn newest(&self) -> Result<u64> {
        let found = self.db().get(layout::SEQUENCE_KEY)?;
        let [sequence] = found.as_deref().map(layout::numbers).transpose()?.unwrap_or_default();
        Ok(sequence)
    }

    /// Sums up what is durable, and shows it; the newest sequence.
    fn look(&self) -> Result<u64> {
        let sequence = self.newest()?;
        *lock(&self.totals) = sum(&self.db())?;
        self.durable.store(sequence, Ordering::Release);
        Ok(sequence)
    }

    /// Opens the store again, whose disk was full. Whoever reads meanwhile waits.
    fn reopen(&self) -> Result<()> {
        let mut db = self.db.write().unwrap_or_else(PoisonError::into_inner);
        // It says once more why it stopped.
        let _ = db.close();
        *db = Db::open_on((self.setup.disk)(), self.dir.join(STORE), options(self.setup, false))?;
        Ok(())
    }

    /// Shows what a store that was opened again holds, once it is in files that were forced: of what
    /// nobody was told it may hold some that is not on the device.
    fn secure(&self) -> Result<()> {
        if self.newest()? < self.durable() {
            let (what, why) = (self.dir.display().to_string(), "what was put last is missing");
            return Err(Error::Damaged { what, why });
        }
        let db = self.db();
        db.flush()?;
        db.sync()?;
        self.look().map(drop)
    }

    fn free_space(&self) -> u64 {
        crate::disk_space::free(&self.dir)
    }

    fn shown(&self) -> bool {
        self.shown.load(Ordering::Acquire)
    }

    /// A batch without changes is refused when any other is.
    fn usable(&self) -> Result<()> {
        Ok(self.db().write(&Batch::new()).map(drop)?)
    }

    /// Places the bytes of a large object.
    fn place(&self, mut object: Incoming) -> Result<Incoming> {
        let size = object.content.size();
        let content = std::mem::replace(&mut object.content, Content::Bytes(Bytes::new()));
        object.content = Content::Kept(self.files.place(content)?, size);
        Ok(object)
    }

    fn usage(&self, token: TokenId) -> Result<u64> {
        let found = self.db().get(layout::usage(token))?;
        Ok(found.as_deref().map(layout::numbers::<1>).transpose()?.map_or(0, |[n]| n))
    }

    /// Keys of a place's objects with sequences above `after`, as far as they are durable.
    fn range(&self, place: &Place, after: u64) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let upto = self.durable().max(after);
        let (from, to) = (layout::object(place, after), layout::object(place, upto));
        (Bound::Excluded(from), Bound::Included(to))
    }

    fn list(&self, place: &Place, wanted: Wanted) -> Result<Page> {
        let mut page = Page::new(wanted);
        let mut scan = self.db().scan(self.range(place, wanted.after))?;
        let mut looked = 0;
        while scan.advance()? {
            if page.is_full() || looked > LONGEST_LOOK {
                page.more = true;
                break;
            }
            looked += scan.value().len();
            let sequence = layout::sequence_of(scan.key())?;
            let record = Record::decode(scan.value())?;
            let prefix = match record.rank {
                Rank::Here(bytes) => {
                    page.line(sequence, record.size, &record.name, bytes);
                    continue;
                }
                _ if wanted.prefix == 0 => Vec::new(),
                Rank::Value => self.db().get(layout::value(sequence))?.unwrap_or_default(),
                Rank::File(id) => self.files.prefix(id, page.prefix_of(record.size))?,
            };
            looked += prefix.len();
            page.line(sequence, record.size, &record.name, &prefix);
        }
        Ok(page)
    }

    fn latest(&self, place: &Place) -> Result<u64> {
        let mut scan = self.db().scan_back(self.range(place, 0))?;
        if scan.advance()? { layout::sequence_of(scan.key()) } else { Ok(0) }
    }

    fn sequence(&self, place: &Place, name: &ObjectName) -> Result<Option<u64>> {
        let found = self.db().get(layout::name(place, name))?;
        let found = found.as_deref().map(layout::numbers::<1>).transpose()?;
        Ok(found.map(|[n]| n).filter(|n| *n <= self.durable()))
    }

    fn read(&self, place: &Place, name: &ObjectName, part: Part) -> Result<Option<Reading>> {
        let Some(sequence) = self.sequence(place, name)? else { return Ok(None) };
        let Some(value) = self.db().get(layout::object(place, sequence))? else { return Ok(None) };
        let record = Record::decode(&value)?;
        let size = record.size;
        let Some(range) = part.of(size) else {
            return Ok(Some(Reading { size, range: None, bytes: Source::Bytes(Bytes::new()) }));
        };
        let cut = |bytes: Bytes, start: usize| {
            let Range { start: from, end } = range.clone();
            if bytes.len() < start + end as usize {
                let what = format!("object {name}");
                return Err(Error::Damaged { what, why: "it is shorter than its record says" });
            }
            Ok(Source::Bytes(bytes.slice(start + from as usize..start + end as usize)))
        };
        let bytes = match record.rank {
            Rank::Here(content) => {
                let start = value.len() - content.len();
                cut(Bytes::from(value), start)?
            }
            Rank::Value => match self.db().get(layout::value(sequence))? {
                Some(content) => cut(Bytes::from(content), 0)?,
                None => return Ok(None),
            },
            // Removed between the two looks, if there is none.
            Rank::File(id) => match self.files.read(id, range.clone())? {
                Some(source) => source,
                None => return Ok(None),
            },
        };
        Ok(Some(Reading { size, range: Some(range), bytes }))
    }

    fn databases(&self, place: &Place) -> Result<Vec<DatabaseId>> {
        let mut out = Vec::new();
        let mut from = layout::names(place, None);
        loop {
            let mut scan = self.db().scan(from..)?;
            if !scan.advance()? || !scan.key().starts_with(&layout::names(place, None)) {
                return Ok(out);
            }
            let id = layout::database_of(layout::split(scan.key())?.1)?;
            out.push(id);
            // On to the first name that can belong to another database.
            match u128::from_be_bytes(id.0).checked_add(1) {
                Some(next) => from = layout::names(place, Some(Id(next.to_be_bytes()))),
                None => return Ok(out),
            }
        }
    }

    fn sites(&self, place: &Place) -> Result<Vec<SiteInfo>> {
        let mut out = Vec::new();
        let mut scan = self.db().scan_prefix(layout::sites(place))?;
        while scan.advance()? {
            let site = layout::id(layout::split(scan.key())?.1)?;
            out.push(layout::site_info(site, scan.value())?);
        }
        Ok(out)
    }

    /// With what each site lacks.
    fn behind(&self, place: &Place, sites: Vec<SiteInfo>) -> Result<Vec<(SiteInfo, u64)>> {
        let Some(least) = sites.iter().map(|site| site.upto).min() else { return Ok(Vec::new()) };
        let (mut newest, mut scan) = (Vec::new(), self.db().scan_back(self.range(place, least))?);
        while newest.len() < MOST_BEHIND && scan.advance()? {
            newest.push(layout::sequence_of(scan.key())?);
        }
        let lacks = |upto| newest.partition_point(|sequence| *sequence > upto) as u64;
        let behind = |site: SiteInfo| {
            let lag = lacks(site.upto);
            (site, lag)
        };
        Ok(sites.into_iter().map(behind).collect())
    }

    fn places(&self, after: Option<&Place>, limit: usize) -> Result<Vec<PlaceInfo>> {
        let from = match after {
            Some(place) => Bound::Excluded(layout::place(place)),
            None => Bound::Included(vec![layout::PLACE]),
        };
        let mut out = Vec::new();
        let mut scan = self.db().scan((from, Bound::Excluded(vec![layout::PLACE + 1])))?;
        while out.len() < limit && scan.advance()? {
            let (place, _) = layout::split(scan.key())?;
            let Sums { objects, bytes, latest, changed } = Sums::decode(scan.value())?;
            let sites = self.behind(&place, self.sites(&place)?)?;
            out.push(PlaceInfo { place, objects, bytes, latest, changed, sites });
        }
        Ok(out)
    }

    /// What to note of a site's word, if it is news and worth a write.
    fn news(&self, place: &Place, said: SiteInfo) -> Result<Option<SiteInfo>> {
        // Nobody has what is not there yet.
        let mut said = SiteInfo { upto: said.upto.min(self.durable()), ..said };
        let Some(found) = self.db().get(layout::site(place, said.site))? else {
            return Ok(Some(said));
        };
        let known = layout::site_info(said.site, &found)?;
        if said.name.is_empty() {
            said.name.clone_from(&known.name);
        }
        let late = said.seen > known.seen + NOTED;
        let news = said.upto > known.upto || late || said.name != known.name;
        if !late {
            said.upto = said.upto.max(known.upto);
        }
        Ok(news.then_some(said))
    }
}

impl Backend for Embedded {
    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn put(&self, object: Incoming) -> Later<'_, Done> {
        if object.content.size() <= IN_STORE as u64 {
            return Box::pin(answer(self.ask(|reply| Job::Put(object, reply))));
        }
        if !self.shared.files.are_far() {
            return match self.shared.place(object) {
                Ok(object) => Box::pin(answer(self.ask(|reply| Job::Put(object, reply)))),
                Err(e) => now(Err(e)),
            };
        }
        Box::pin(async {
            let object = look(&self.shared, |shared| shared.place(object)).await?;
            answer(self.ask(|reply| Job::Put(object, reply))).await
        })
    }

    fn list<'a>(&'a self, place: &'a Place, wanted: Wanted) -> Later<'a, Page> {
        if self.shared.files.are_far() && wanted.prefix > 0 {
            let place = place.clone();
            return Box::pin(look(&self.shared, move |shared| shared.list(&place, wanted)));
        }
        now(self.shared.list(place, wanted))
    }

    fn latest<'a>(&'a self, place: &'a Place) -> Later<'a, u64> {
        now(self.shared.latest(place))
    }

    fn find<'a>(&'a self, place: &'a Place, name: &'a ObjectName) -> Later<'a, Option<u64>> {
        now(self.shared.sequence(place, name))
    }

    fn read<'a>(
        &'a self,
        place: &'a Place,
        name: &'a ObjectName,
        part: Part,
    ) -> Later<'a, Option<Reading>> {
        now(self.shared.read(place, name, part))
    }

    fn remove<'a>(&'a self, place: &'a Place, name: &'a ObjectName) -> Later<'a, bool> {
        let sequence = match self.shared.sequence(place, name) {
            Ok(Some(sequence)) => sequence,
            Ok(None) => return now(Ok(false)),
            Err(e) => return now(Err(e)),
        };
        let removed = self.ask(|reply| Job::Remove(place.clone(), vec![sequence], reply));
        Box::pin(async { Ok(answer(removed).await? > 0) })
    }

    fn clear<'a>(&'a self, place: &'a Place) -> Later<'a, u64> {
        Box::pin(retire::clear(self.shared.clone(), self.jobs.clone(), place.clone()))
    }

    fn databases<'a>(&'a self, place: &'a Place) -> Later<'a, Vec<DatabaseId>> {
        now(self.shared.databases(place))
    }

    fn seen<'a>(&'a self, place: &'a Place, site: SiteInfo) -> Later<'a, ()> {
        now(self.shared.news(place, site).map(|news| {
            if let Some(site) = news {
                // The writer does one thing after another, so it will be noted before anything of
                // which a snapshot says later that it covers it is removed.
                let _ = self.jobs.send(Job::Seen(place.clone(), site));
            }
        }))
    }

    fn retire(&self, since: Millis) -> Later<'_, u64> {
        Box::pin(retire::retire(self.shared.clone(), self.jobs.clone(), since))
    }

    fn places<'a>(&'a self, after: Option<&'a Place>, limit: usize) -> Later<'a, Vec<PlaceInfo>> {
        now(self.shared.places(after, limit))
    }

    fn stored(&self, token: TokenId) -> Later<'_, u64> {
        now(self.shared.usage(token))
    }

    fn totals(&self) -> Later<'_, Totals> {
        now(Ok(*lock(&self.shared.totals)))
    }

    fn lost(&self) -> Option<Error> {
        self.hold.as_ref().and_then(|hold| hold.check().err())
    }

    fn health(&self) -> Later<'_, ()> {
        let full = self.shared.free_space() < self.shared.setup.reserve;
        let hold = self.hold.as_ref().map_or(Ok(()), |hold| hold.health());
        match if full { Err(Error::Full) } else { hold } {
            Ok(()) if !self.shared.shown() || self.shared.usable().is_err() => {
                Box::pin(answer(self.ask(Job::Recover)))
            }
            health => now(health),
        }
    }

    fn counters(&self) -> Vec<(&'static str, f64)> {
        let Counters { commits, commit_nanos, puts, bytes } = &self.shared.counters;
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed) as f64;
        let stats = self.shared.db().stats();
        let levels = stats.levels.iter();
        vec![
            ("synqlite_store_commits_total", read(commits)),
            ("synqlite_store_commit_seconds_total", read(commit_nanos) / 1e9),
            ("synqlite_store_objects_put_total", read(puts)),
            ("synqlite_store_bytes_put_total", read(bytes)),
            ("synqlite_store_cache_bytes", stats.cache as f64),
            ("synqlite_store_tables", levels.clone().map(|l| l.tables as f64).sum()),
            ("synqlite_store_table_bytes", levels.map(|l| l.bytes as f64).sum()),
            ("synqlite_store_free_bytes", self.shared.free_space() as f64),
        ]
    }

    fn close(&self) -> Later<'_, ()> {
        let _ = self.jobs.send(Job::Stop);
        writer::join(&self.thread);
        let closed = self.shared.db().close().map_err(Error::from);
        now(self.lost().map_or(closed, Err))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Stop);
        writer::join(&self.thread);
    }
}
